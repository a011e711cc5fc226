//! A program on a terminal of its own, as a person uses it: what it shows, what is typed, the size of the window.

use std::process::Command;

use pty_process::{Pty, Size};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use crate::wait;

/// A terminal and the program on it, which is its session leader.
pub struct Terminal {
    pty: Pty,
    child: Child,
    shown: Vec<u8>,
}

impl Terminal {
    /// Run it in a window of this size.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let on_it = pty_process::Command::new(command.get_program())
            .args(command.get_args())
            .env_clear()
            .envs(set)
            .kill_on_drop(true);
        Self {
            pty,
            child: on_it.spawn(pts).unwrap(),
            shown: Vec::new(),
        }
    }

    /// Wait until it has shown this, and forget everything up to there.
    pub async fn shows(&mut self, wanted: &str) {
        let found = |shown: &[u8]| shown.windows(wanted.len()).position(|part| part == wanted.as_bytes());
        let read = async {
            loop {
                if let Some(at) = found(&self.shown) {
                    self.shown.drain(..at + wanted.len());
                    return true;
                }
                if !read(&mut self.pty, &mut self.shown).await {
                    return false;
                }
            }
        };
        let seen = tokio::time::timeout(wait::LIMIT, read).await;
        assert!(
            seen == Ok(true),
            "{wanted:?} was not shown: {}",
            String::from_utf8_lossy(&self.shown)
        );
    }

    /// Type this.
    pub async fn types(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Change the size of the window.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// Whether keys go to the program one by one, Ctrl-C too.
    pub fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.pty).unwrap().local_modes;
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        assert!(
            modes.contains(cooked) || !modes.intersects(cooked),
            "half raw: {modes:?}"
        );
        !modes.contains(cooked)
    }

    /// Send the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(pid(&self.child), signal).unwrap();
    }

    /// Its exit code, and what it has shown since it was last asked; the mode of the terminal is the old one.
    pub async fn end(mut self) -> (Option<i32>, String) {
        let rest = async { while read(&mut self.pty, &mut self.shown).await {} };
        tokio::time::timeout(wait::LIMIT, rest).await.expect("it did not end");
        assert!(!self.is_raw(), "the terminal is left in raw mode");
        (
            code(&mut self.child).await,
            String::from_utf8_lossy(&self.shown).into_owned(),
        )
    }

    /// Close the window; its exit code.
    pub async fn close(self) -> Option<i32> {
        let Self { pty, mut child, .. } = self;
        drop(pty);
        code(&mut child).await
    }
}

/// The process id of one that was not waited for.
pub fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap()
}

/// False at the end: Linux has an error for a terminal that nobody has open any more.
async fn read(pty: &mut Pty, shown: &mut Vec<u8>) -> bool {
    matches!(pty.read_buf(shown).await, Ok(1..))
}

async fn code(child: &mut Child) -> Option<i32> {
    let ended = tokio::time::timeout(wait::LIMIT, child.wait()).await;
    ended.expect("it did not end").unwrap().code()
}
