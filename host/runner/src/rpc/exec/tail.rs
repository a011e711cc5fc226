//! The last bytes of a stream, exact, in bounded memory and without a copy of what is long (S-636).

use std::collections::VecDeque;

use bytes::Bytes;

/// A smaller piece is copied: kept as it is, it may keep a much larger buffer of the connection alive.
const LARGE: usize = 16 * 1024;
/// More pieces than this are joined to one.
const PIECES: usize = 64;

/// Keeps the last `limit` bytes.
#[derive(Debug)]
pub(super) struct Tail {
    limit: usize,
    pieces: VecDeque<Bytes>,
    len: usize,
}

impl Tail {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            pieces: VecDeque::new(),
            len: 0,
        }
    }

    pub(super) fn push(&mut self, data: &Bytes) {
        self.len += data.len();
        self.pieces.push_back(if data.len() < LARGE {
            Bytes::copy_from_slice(data)
        } else {
            data.clone()
        });
        while let Some(first) = self.pieces.front_mut() {
            let over = self.len.saturating_sub(self.limit).min(first.len());
            if over < first.len() {
                let _ = first.split_to(over);
                self.len -= over;
                break;
            }
            self.len -= over;
            self.pieces.pop_front();
        }
        if self.pieces.len() > PIECES {
            let joined = self.join();
            self.pieces = VecDeque::from([joined.into()]);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.join()
    }

    fn join(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        for piece in &self.pieces {
            bytes.extend_from_slice(piece);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_bytes() {
        let data: Vec<u8> = (0..=255).cycle().take(40_000).collect();
        for limit in [1, 3, 7, 100, 20_000, 39_999, 40_000, 50_000] {
            for piece in [1, 2, 5, 99, 1000, LARGE, 40_000] {
                let mut tail = Tail::new(limit);
                for part in data.chunks(piece) {
                    tail.push(&Bytes::copy_from_slice(part));
                    assert!(tail.len <= limit && tail.pieces.len() <= PIECES);
                }
                assert!(!tail.is_empty());
                assert_eq!(
                    tail.into_bytes(),
                    data[data.len().saturating_sub(limit)..],
                    "{limit} {piece}"
                );
            }
        }
    }
}
