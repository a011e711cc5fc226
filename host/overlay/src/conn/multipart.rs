//! Bodies that hold several messages: repeated (16-bit length, bytes), little-endian (O-52).

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};

/// The parts, one after another.
pub(crate) fn join(mut body: Bytes) -> io::Result<Bytes> {
    let mut joined = BytesMut::with_capacity(body.len());
    while body.has_remaining() {
        let length = body.try_get_u16_le().map(usize::from).map_err(|_| cut())?;
        if body.len() < length {
            return Err(cut());
        }
        joined.extend_from_slice(&body.split_to(length));
    }
    Ok(joined.freeze())
}

fn cut() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "a multipart message ends in the middle of a part",
    )
}
