//! One run of tar in a container: the archive goes in while its words come out, and both count for how it ended.

use std::time::Duration;

use bytes::Bytes;

use super::encode;
use super::members::Member;
use crate::client::Cluster;
use crate::exec::{CloseError, Event, Input, Outcome, Target, ending, try_open};

/// A refused connection is tried again for this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// For the rest of the archive to be handed over after tar has ended well.
const HANDED_OVER: Duration = Duration::from_secs(5);
/// Kept of what tar says, of each stream.
const KEPT: usize = 4 * 1024;
/// Exit code of `env` and of a shell for a program that is not there.
const NO_PROGRAM: i32 = 127;
/// tar, and then what it left unread: a runtime reports the end of a command only when all of its input was taken.
const UNPACK: &str = r#"tar -x -f - -C "$1"; code=$?; cat >/dev/null 2>&1; exit $code"#;

pub(super) struct Run<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) target: &'a Target,
    pub(super) path: &'a str,
    pub(super) payload: &'a Bytes,
    pub(super) members: &'a [Member],
    /// Marks the process, so that it can be ended.
    pub(super) execution_id: &'a str,
}

/// How it ended.
pub(super) enum End {
    Unpacked,
    /// tar failed, with its own text.
    Tar(String),
    /// A program is not there: tar, or what it was started with.
    NoTar(String),
    /// The connection failed when tar may have been started.
    Lost(String),
    /// tar was not started.
    Refused(String),
}

/// How the writing ended.
enum Written {
    /// All of it, and its end.
    Whole,
    /// All of it, but the end could not be said.
    NoEnd(CloseError),
    Part(String),
}

impl Run<'_> {
    /// With the mark and its input taken to the end when the image has `env` and a shell, else as it is.
    pub(super) async fn run(&self) -> End {
        let mark = ending::assignment(self.execution_id);
        let end = self.once(&["env", &mark, "sh", "-c", UNPACK, "tar", self.path]).await;
        let alone = match &end {
            End::NoTar(_) => true,
            End::Refused(text) => ending::lacks_env(text),
            End::Unpacked | End::Tar(_) | End::Lost(_) => false,
        };
        if !alone {
            return end;
        }
        match self.once(&["tar", "-x", "-f", "-", "-C", self.path]).await {
            End::Refused(text) if lacks_tar(&text) => End::NoTar(text),
            end => end,
        }
    }

    async fn once(&self, argv: &[&str]) -> End {
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        let (input, mut output) = match try_open(self.cluster, self.target, &argv, false, true, PATIENCE).await {
            Ok(ends) => ends,
            Err(error) if error.may_run => return End::Lost(error.text),
            Err(error) => return End::Refused(error.text),
        };
        let writing = write(input, encode::pieces(self.payload, self.members));
        tokio::pin!(writing);
        let (mut written, mut said) = (None, Said::default());
        let outcome = loop {
            tokio::select! {
                event = output.next() => match event {
                    Event::Stdout(data) => said.stdout.push(&data),
                    Event::Stderr(data) => said.stderr.push(&data),
                    Event::End(outcome) => break outcome,
                },
                // the input is held until the end: it is half of the connection
                end = &mut writing, if written.is_none() => {
                    if let (_, Written::NoEnd(CloseError::Unsupported)) = &end {
                        return End::Refused(CloseError::Unsupported.to_string());
                    }
                    written = Some(end);
                }
            }
        };
        match outcome {
            Outcome::Exited(0) => {
                // tar ends at the end marker, perhaps before the last write returns
                let end = match written {
                    Some(end) => Some(end),
                    None => tokio::time::timeout(HANDED_OVER, writing).await.ok(),
                };
                match end {
                    Some((_, Written::Whole | Written::NoEnd(_))) => End::Unpacked,
                    Some((_, Written::Part(why))) => End::Lost(format!("the archive was not sent whole: {why}")),
                    None => End::Lost("the archive was not sent whole: tar ended before".to_owned()),
                }
            }
            Outcome::Exited(NO_PROGRAM) => End::NoTar(said.text("tar: not found")),
            Outcome::Exited(code) => End::Tar(said.text(&format!("tar ended with code {code}"))),
            Outcome::Failed(text) if output.lost() => End::Lost(said.text(&text)),
            Outcome::Failed(text) => End::Refused(said.text(&text)),
        }
    }
}

async fn write(mut input: Input, pieces: impl Iterator<Item = Bytes>) -> (Input, Written) {
    for piece in pieces {
        if let Err(error) = input.write(piece).await {
            return (input, Written::Part(error.to_string()));
        }
    }
    match input.close().await {
        Ok(()) => (input, Written::Whole),
        Err(error) => (input, Written::NoEnd(error)),
    }
}

/// The runtime's text for a program that is not there.
fn lacks_tar(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let names_tar = ["\"tar\"", "`tar`", "'tar'"].iter().any(|name| text.contains(name));
    names_tar && (text.contains("not found") || text.contains("no such file"))
}

/// What tar said; of much, the last.
#[derive(Default)]
struct Said {
    stdout: LastBytes,
    stderr: LastBytes,
}

impl Said {
    /// Standard error, else standard output, else this.
    fn text(&self, otherwise: &str) -> String {
        [&self.stderr, &self.stdout]
            .into_iter()
            .map(LastBytes::text)
            .find(|text| !text.is_empty())
            .unwrap_or_else(|| otherwise.to_owned())
    }
}

#[derive(Default)]
struct LastBytes(Vec<u8>);

impl LastBytes {
    fn push(&mut self, data: &[u8]) {
        self.0
            .extend_from_slice(data.get(data.len().saturating_sub(KEPT)..).unwrap_or(data));
        self.0.drain(..self.0.len().saturating_sub(KEPT));
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-356, G-22
    #[test]
    fn what_tar_said() {
        let mut said = Said::default();
        assert_eq!(said.text("code 2"), "code 2");
        said.stdout.push(b" out \n");
        assert_eq!(said.text("code 2"), "out");
        for _ in 0..100 {
            said.stderr.push(&[b'x'; 3000]);
        }
        said.stderr.push(&[b'y'; 50_000]);
        said.stderr.push(b"end\n");
        let text = said.text("code 2");
        assert!(text.len() < KEPT && text.ends_with("yend"), "{}", text.len());
        assert!(said.stderr.0.capacity() < 64 * 1024);
    }

    #[test]
    fn missing_tar() {
        for text in [
            r#"OCI runtime exec failed: exec failed: unable to start container process: exec: "tar": executable file not found in $PATH"#,
            "executable file `tar` not found in $PATH: No such file or directory",
        ] {
            assert!(lacks_tar(text), "{text}");
        }
        assert!(!lacks_tar(r#"unable to start container process: exec: "x": not found"#));
    }
}
