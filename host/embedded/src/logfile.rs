//! One container instance's log: bytes exactly as the process wrote them, cut into records with a time each, so that
//! `timestamps`, `tailLines` and `sinceTime` can be answered later. One writer; readers follow it by watching its length.
//!
//! A record is: nanoseconds since 1970 (i64), 1 if its line ends with it (u8), length (u32), bytes; little endian.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use futures::{Stream, stream};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, SeekFrom};
use tokio::sync::watch;

const HEADER: u64 = 13;

/// A longer line is split into partial records, as container runtimes do.
const LONGEST_RECORD: usize = 16 * 1024;

/// Bytes sent at once, about.
const CHUNK: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    length: u64,
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    extent: watch::Sender<Extent>,
}

/// The writing end; the log ends when it is finished or dropped.
pub(crate) struct LogWriter {
    log: Arc<LogFile>,
    file: File,
}

impl LogWriter {
    pub(crate) async fn create(path: &Path) -> io::Result<(Self, Arc<LogFile>)> {
        let file = File::create(path).await?;
        let log = Arc::new(LogFile {
            path: path.to_owned(),
            extent: watch::Sender::new(Extent::default()),
        });
        Ok((Self { log: log.clone(), file }, log))
    }

    async fn append(&mut self, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        self.file.write_all(records).await?;
        self.file.flush().await?;
        self.log
            .extent
            .send_modify(|extent| extent.length += records.len() as u64);
        Ok(())
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.log.extent.send_modify(|extent| extent.ended = true);
    }
}

/// Splits one stream of a process into records.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    pub(crate) async fn write(&mut self, mut bytes: &[u8], log: &mut LogWriter) -> io::Result<()> {
        let mut records = Vec::with_capacity(bytes.len() + 64);
        while !bytes.is_empty() {
            let room = LONGEST_RECORD.saturating_sub(self.pending.len()).max(1);
            let end = bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(bytes.len(), |at| at + 1)
                .min(room);
            let (piece, rest) = bytes.split_at(end.min(bytes.len()));
            self.pending.extend_from_slice(piece);
            bytes = rest;
            if self.pending.last() == Some(&b'\n') || self.pending.len() >= LONGEST_RECORD {
                self.take(&mut records);
            }
        }
        log.append(&records).await
    }

    /// Writes what is left of an unfinished line.
    pub(crate) async fn finish(&mut self, log: &mut LogWriter) -> io::Result<()> {
        let mut records = Vec::new();
        self.take(&mut records);
        log.append(&records).await
    }

    fn take(&mut self, records: &mut Vec<u8>) {
        if self.pending.is_empty() {
            return;
        }
        let nanos = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
        records.extend_from_slice(&nanos.to_le_bytes());
        records.push(u8::from(self.pending.last() == Some(&b'\n')));
        records.extend_from_slice(&u32::try_from(self.pending.len()).unwrap_or(0).to_le_bytes());
        records.append(&mut self.pending);
    }
}

/// `PodLogOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadOptions {
    pub(crate) follow: bool,
    pub(crate) timestamps: bool,
    pub(crate) since: Option<jiff::Timestamp>,
    pub(crate) tail: Option<u64>,
    pub(crate) limit: Option<u64>,
}

struct Header {
    nanos: i64,
    full: bool,
    length: u32,
}

impl Header {
    async fn read(file: &mut BufReader<File>) -> io::Result<Self> {
        Ok(Self {
            nanos: file.read_i64_le().await?,
            full: file.read_u8().await? != 0,
            length: file.read_u32_le().await?,
        })
    }
}

struct Reader {
    file: BufReader<File>,
    extent: watch::Receiver<Extent>,
    options: ReadOptions,
    position: u64,
    /// Where a snapshot ends; a follower goes on.
    end: u64,
    left: u64,
    line_start: bool,
}

/// Reads a log as the options say. A follower's stream ends when the instance has.
pub(crate) async fn read(
    log: Arc<LogFile>,
    options: ReadOptions,
) -> io::Result<impl Stream<Item = Bytes> + Send + 'static> {
    let mut extent = log.extent.subscribe();
    let end = extent.borrow_and_update().length;
    let mut file = BufReader::with_capacity(64 * 1024, File::open(&log.path).await?);
    let position = match options.tail {
        Some(lines) => {
            let position = tail_start(&mut file, end, lines).await?;
            file.seek(SeekFrom::Start(position)).await?;
            position
        }
        None => 0,
    };
    let left = options.limit.unwrap_or(u64::MAX);
    let reader = Reader {
        file,
        extent,
        options,
        position,
        end,
        left,
        line_start: true,
    };
    Ok(stream::unfold(reader, |mut reader| async move {
        match reader.next().await {
            Ok(chunk) => chunk.map(|chunk| (chunk, reader)),
            Err(error) => {
                tracing::warn!(%error, "embedded kubelet: reading a log");
                None
            }
        }
    }))
}

/// Where the last `lines` lines begin.
async fn tail_start(file: &mut BufReader<File>, end: u64, lines: u64) -> io::Result<u64> {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    let mut starts = VecDeque::new();
    let (mut position, mut line_start) = (0, true);
    while position < end {
        let header = Header::read(file).await?;
        if line_start {
            starts.push_back(position);
            if starts.len() > lines {
                starts.pop_front();
            }
        }
        line_start = header.full;
        skip(file, header.length).await?;
        position += HEADER + u64::from(header.length);
    }
    Ok(starts.front().copied().unwrap_or(end))
}

async fn skip(file: &mut BufReader<File>, length: u32) -> io::Result<()> {
    tokio::io::copy_buf(&mut file.take(u64::from(length)), &mut tokio::io::sink()).await?;
    Ok(())
}

impl Reader {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            let chunk = self.read_chunk().await?;
            if !chunk.is_empty() {
                return Ok(Some(Bytes::from(chunk)));
            }
            if !self.options.follow {
                return Ok(None);
            }
            let extent = *self.extent.borrow_and_update();
            if extent.length > self.end {
                self.end = extent.length;
            } else if extent.ended || self.extent.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn read_chunk(&mut self) -> io::Result<Vec<u8>> {
        let mut chunk = Vec::new();
        while self.position < self.end && chunk.len() < CHUNK && self.left > 0 {
            let header = Header::read(&mut self.file).await?;
            self.position += HEADER + u64::from(header.length);
            let at = jiff::Timestamp::from_nanosecond(i128::from(header.nanos)).unwrap_or_default();
            if self.options.since.is_some_and(|since| at < since) {
                skip(&mut self.file, header.length).await?;
                continue;
            }
            let before = chunk.len();
            if self.options.timestamps && self.line_start {
                chunk.extend_from_slice(format!("{at:.9} ").as_bytes());
            }
            (&mut self.file)
                .take(u64::from(header.length))
                .read_to_end(&mut chunk)
                .await?;
            self.line_start = header.full;
            let added = (chunk.len() - before) as u64;
            let kept = added.min(self.left);
            self.left -= kept;
            chunk.truncate(before + usize::try_from(kept).unwrap_or(usize::MAX).min(chunk.len() - before));
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    async fn written(pieces: &[&[u8]]) -> (tempfile::TempDir, Arc<LogFile>) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, log) = LogWriter::create(&dir.path().join("log")).await.unwrap();
        let mut lines = Lines::default();
        for piece in pieces {
            lines.write(piece, &mut writer).await.unwrap();
        }
        lines.finish(&mut writer).await.unwrap();
        (dir, log)
    }

    async fn all(log: &Arc<LogFile>, options: ReadOptions) -> Vec<u8> {
        read(log.clone(), options)
            .await
            .unwrap()
            .map(|chunk| chunk.to_vec())
            .concat()
            .await
    }

    #[tokio::test]
    async fn bytes_come_back_exactly() {
        let long = vec![b'x'; 40_000];
        let (_dir, log) = written(&[b"a\xff\r\nb", b"c\n\n", &long, b"\nend"]).await;
        let mut whole = b"a\xff\r\nbc\n\n".to_vec();
        whole.extend_from_slice(&long);
        whole.extend_from_slice(b"\nend");
        assert_eq!(all(&log, ReadOptions::default()).await, whole);
        let tail = |lines| ReadOptions {
            tail: Some(lines),
            ..ReadOptions::default()
        };
        assert_eq!(all(&log, tail(1)).await, b"end");
        assert_eq!(all(&log, tail(0)).await, b"");
        assert_eq!(all(&log, tail(2)).await.len(), 40_004);
        assert_eq!(all(&log, tail(100)).await, whole);
        assert_eq!(
            all(
                &log,
                ReadOptions {
                    limit: Some(4),
                    ..ReadOptions::default()
                }
            )
            .await,
            b"a\xff\r\n"
        );
    }

    #[tokio::test]
    async fn a_time_stands_before_each_line_and_filters() {
        let (_dir, log) = written(&[b"one\ntwo\n"]).await;
        let text = all(
            &log,
            ReadOptions {
                timestamps: true,
                ..ReadOptions::default()
            },
        )
        .await;
        let text = String::from_utf8(text).unwrap();
        for (line, word) in text.lines().zip(["one", "two"]) {
            let (time, rest) = line.split_once(' ').unwrap();
            assert_eq!(rest, word);
            assert_eq!(time.len(), "2006-01-02T15:04:05.000000000Z".len());
            time.parse::<jiff::Timestamp>().unwrap();
        }
        let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(5);
        assert_eq!(
            all(
                &log,
                ReadOptions {
                    since: Some(later),
                    ..ReadOptions::default()
                }
            )
            .await,
            b""
        );
    }

    #[tokio::test]
    async fn a_follower_ends_with_the_writer() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, log) = LogWriter::create(&dir.path().join("log")).await.unwrap();
        let options = ReadOptions {
            follow: true,
            ..ReadOptions::default()
        };
        let mut follower = Box::pin(read(log, options).await.unwrap());
        let mut lines = Lines::default();
        lines.write(b"one\n", &mut writer).await.unwrap();
        assert_eq!(follower.next().await.unwrap(), "one\n");
        lines.write(b"two\n", &mut writer).await.unwrap();
        assert_eq!(follower.next().await.unwrap(), "two\n");
        drop(writer);
        assert!(follower.next().await.is_none());
    }
}
