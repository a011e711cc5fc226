//! The last bytes of a stream, exact, in bounded memory (S-636).

/// Keeps the last `limit` bytes.
#[derive(Debug)]
pub(super) struct Tail {
    limit: usize,
    bytes: Vec<u8>,
}

impl Tail {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        let data = data.get(data.len().saturating_sub(self.limit)..).unwrap_or_default();
        self.bytes.extend_from_slice(data);
        // twice the limit, so that bytes are moved once in a while and not each time
        if self.bytes.len() > self.limit * 2 {
            self.bytes.drain(..self.bytes.len() - self.limit);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.drain(..self.bytes.len().saturating_sub(self.limit));
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_bytes() {
        let data: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for limit in [1, 3, 7, 100, 999, 1000, 2000] {
            for piece in [1, 2, 5, 99, 1000] {
                let mut tail = Tail::new(limit);
                for part in data.chunks(piece) {
                    tail.push(part);
                    assert!(tail.bytes.len() <= limit * 2);
                }
                assert_eq!(
                    tail.into_bytes(),
                    data[data.len().saturating_sub(limit)..],
                    "{limit} {piece}"
                );
            }
        }
    }
}
