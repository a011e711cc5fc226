//! A pseudo-terminal: this server holds one end, the process has the other as its standard streams.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    /// The terminal and the process's end of it.
    #[expect(
        deprecated,
        reason = "its replacement is unsafe; it is sound for a descriptor owned by the AsyncFd itself"
    )]
    pub(super) fn open() -> io::Result<(Self, File)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let flags = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap_or(0);
        let end = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(OsStr::from_bytes(name.as_bytes()))?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let terminal = Self(AsyncFd::new(master)?);
        terminal.resize(80, 24);
        Ok((terminal, end))
    }

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        if let Err(error) = tcsetwinsize(self.0.get_ref(), size) {
            tracing::debug!(%error, "embedded exec: resizing");
        }
    }

    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0
            .async_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?))
            .await
    }

    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self
                .0
                .async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?))
                .await?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }
}
