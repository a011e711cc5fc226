//! Headers of a message: repeated (key, length, bytes), integers little-endian (O-32).
//!
//! [`Headers`] reads: checked once, then looked up in place. [`HeaderList`] writes.

use bytes::{Buf as _, Bytes};

use super::frame::Malformed;

/// Headers as received. Every entry is known to be whole; unknown keys are kept and ignored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Headers(Bytes);

impl Headers {
    pub(crate) fn parse(raw: Bytes) -> Result<Self, Malformed> {
        let mut rest = raw.as_ref();
        while !rest.is_empty() {
            next(&mut rest).ok_or(Malformed::Headers)?;
        }
        Ok(Self(raw))
    }

    pub(crate) fn get(&self, key: i32) -> Option<&[u8]> {
        self.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    pub(crate) fn u32(&self, key: i32) -> Option<u32> {
        self.get(key)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&self, key: i32) -> Option<i32> {
        self.get(key)?.try_into().ok().map(i32::from_le_bytes)
    }

    /// One byte, not zero. Absent is false.
    pub(crate) fn flag(&self, key: i32) -> bool {
        matches!(self.get(key), Some([value]) if *value != 0)
    }

    /// Text; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, key: i32) -> Option<String> {
        self.get(key).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// In the order of the message.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, &[u8])> {
        let mut rest = self.0.as_ref();
        std::iter::from_fn(move || next(&mut rest))
    }
}

/// Takes the first entry off; none when there is no whole one.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(i32, &'a [u8])> {
    if rest.remaining() < 8 {
        return None;
    }
    let key = rest.get_i32_le();
    let length = usize::try_from(rest.get_u32_le()).ok()?;
    let (value, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some((key, value))
}

/// Headers to send.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeaderList(Vec<u8>);

impl HeaderList {
    pub(crate) fn put(&mut self, key: i32, value: &[u8]) {
        self.0.extend_from_slice(&key.to_le_bytes());
        // values are ours: keys, ids, flags, and what a peer sent within its own limit
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(value);
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}
