//! The standard error of a guest: takes everything, keeps the end. A Rust guest says there why it panicked; a pipe that
//! fills up would make the guest's next line a panic of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

const KEPT_BYTES: usize = 4096;
const PERMIT_BYTES: usize = 64 << 10;

/// Clones share what is kept.
#[derive(Clone, Default)]
pub(crate) struct Stderr(Arc<Mutex<VecDeque<u8>>>);

impl Stderr {
    /// The last lines.
    pub(crate) fn text(&self) -> String {
        let kept: Vec<u8> = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .copied()
            .collect();
        String::from_utf8_lossy(&kept).into_owned()
    }

    fn keep(&self, bytes: &[u8]) {
        let end = bytes.get(bytes.len().saturating_sub(KEPT_BYTES)..).unwrap_or(bytes);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let surplus = (kept.len() + end.len()).saturating_sub(KEPT_BYTES);
        kept.drain(..surplus);
        kept.extend(end);
    }
}

impl IsTerminal for Stderr {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stderr {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Stderr {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Stderr {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.keep(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept() {
        let stderr = Stderr::default();
        stderr.keep(&[b'x'; 10_000]);
        assert_eq!(stderr.text(), "x".repeat(KEPT_BYTES));
        stderr.keep(b"end");
        assert_eq!(stderr.text().len(), KEPT_BYTES);
        assert!(stderr.text().ends_with("xend"));
    }
}
