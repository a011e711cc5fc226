//! Frames of channel version 2 (O-31, O-33, O-36): decoding never panics and never takes more than the limits.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio_util::codec::Decoder;

use super::codes::header;
use super::headers::{HeaderList, Headers};

const MAGIC: [u8; 4] = [3, 6, 9, 0x0c];
const VERSION_NOT_SUPPORTED: [u8; 4] = [3, 6, 9, 0x0a];
const PREFIX: usize = 20;
/// Largest headers that are accepted.
pub(crate) const HEADERS_MAX: usize = 64 * 1024;
/// Largest body that is accepted.
pub(crate) const BODY_MAX: usize = 16 * 1024 * 1024;
/// Headers in this range of a request come back in its answer.
const REFLECTED: std::ops::RangeInclusive<i32> = 128..=255;

/// Why bytes are no frame; the channel cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("not a channel frame")]
    Magic,
    #[error("the router does not support this version of the channel protocol")]
    Version,
    #[error("{what} of {got} bytes, more than {max}")]
    TooLarge { what: &'static str, got: usize, max: usize },
    #[error("headers that end in the middle")]
    Headers,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A message as received.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) content: i32,
    pub(crate) sequence: i32,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

impl Frame {
    /// The virtual connection that it belongs to.
    pub(crate) fn connection(&self) -> Option<u32> {
        self.headers.u32(header::CONNECTION)
    }

    /// The body as text for a message; never of data.
    pub(crate) fn reason(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(500).collect()
    }
}

/// Cuts a byte stream into frames.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder;

impl Decoder for FrameDecoder {
    type Item = Frame;
    type Error = Malformed;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
        let Some(mut prefix) = buffer.get(..PREFIX) else {
            return check_magic(buffer).map(|()| None);
        };
        check_magic(prefix)?;
        prefix.advance(MAGIC.len());
        let content = prefix.get_i32_le();
        let sequence = prefix.get_i32_le();
        let headers = limited("headers", prefix.get_u32_le(), HEADERS_MAX)?;
        let body = limited("a body", prefix.get_u32_le(), BODY_MAX)?;
        let whole = PREFIX + headers + body;
        if buffer.len() < whole {
            // grow with what arrives: a length alone reserves no more than the usual message
            buffer.reserve((whole - buffer.len()).min(64 * 1024));
            return Ok(None);
        }
        buffer.advance(PREFIX);
        let headers = Headers::parse(buffer.split_to(headers).freeze())?;
        let body = buffer.split_to(body).freeze();
        Ok(Some(Frame {
            content,
            sequence,
            headers,
            body,
        }))
    }
}

/// As far as there is something of it.
fn check_magic(start: &[u8]) -> Result<(), Malformed> {
    let starts_like = |magic: &[u8]| start.iter().zip(magic).all(|(a, b)| a == b);
    if starts_like(&MAGIC) {
        Ok(())
    } else if starts_like(&VERSION_NOT_SUPPORTED) {
        if start.len() < VERSION_NOT_SUPPORTED.len() {
            Ok(())
        } else {
            Err(Malformed::Version)
        }
    } else {
        Err(Malformed::Magic)
    }
}

fn limited(what: &'static str, got: u32, max: usize) -> Result<usize, Malformed> {
    let got = usize::try_from(got).unwrap_or(usize::MAX);
    if got > max {
        Err(Malformed::TooLarge { what, got, max })
    } else {
        Ok(got)
    }
}

/// A message to send.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) content: i32,
    pub(crate) sequence: i32,
    headers: HeaderList,
    body: Vec<u8>,
}

impl Message {
    pub(crate) fn new(content: i32) -> Self {
        Self {
            content,
            sequence: 0,
            headers: HeaderList::default(),
            body: Vec::new(),
        }
    }

    /// About the virtual connection `id`.
    pub(crate) fn about(content: i32, id: u32) -> Self {
        Self::new(content).put(header::CONNECTION, &id.to_le_bytes())
    }

    /// The answer to `request`, with its free headers.
    pub(crate) fn answer(content: i32, request: &Frame) -> Self {
        let mut message = Self::new(content).put(header::ANSWER_TO, &request.sequence.to_le_bytes());
        for (key, value) in request.headers.iter().filter(|(key, _)| REFLECTED.contains(key)) {
            message.headers.put(key, value);
        }
        message
    }

    pub(crate) fn put(mut self, key: i32, value: &[u8]) -> Self {
        self.headers.put(key, value);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn len(&self) -> usize {
        PREFIX + self.headers.as_slice().len() + self.body.len()
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX);
        out.reserve(self.len());
        out.put_slice(&MAGIC);
        out.put_i32_le(self.content);
        out.put_i32_le(self.sequence);
        out.put_u32_le(length(self.headers.as_slice()));
        out.put_u32_le(length(&self.body));
        out.put_slice(self.headers.as_slice());
        out.put_slice(&self.body);
    }
}

#[cfg(test)]
mod tests;
