//! Lines with the kubelet's time stamps: strip them, and find the place to go on after a cut (C-11, C-12, G-30, G-33).
//!
//! The place is kept as counters, never as text: the first line of the newest second seen, how many lines of that second
//! or later came since, and how many bytes of the last one. A log read again from that second repeats exactly those.
//! Bytes pass as they come, except for a stamp at the start of a line, which is held until it is whole.

use jiff::Timestamp;

/// A stamp is shorter than this.
const MAX_STAMP: usize = 40;

/// The place reached in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Stamp of the first line of the newest second.
    first: Timestamp,
    /// Stamp of the last line.
    last: Timestamp,
    /// Lines begun since the first, that one included.
    lines: u64,
    /// Bytes had of the last of them, its end included, its stamp not.
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// At the start of a line; a stamp is expected.
    Start,
    /// The rest of a line that counts.
    Deliver,
    /// The rest of a line without a stamp.
    Raw,
    /// The rest of a line that is not wanted.
    Skip,
    /// So many bytes of this line were delivered before.
    SkipBytes(u64),
}

/// Reads a log with stamps, piece by piece, through any number of connections.
#[derive(Debug)]
pub(super) struct Lines {
    /// Stamps are wanted.
    keep: bool,
    /// Earlier lines are not wanted.
    from: Option<Timestamp>,
    mode: Mode,
    held: Vec<u8>,
    place: Option<Place>,
    /// Lines of the place met again; `None` when nothing is repeated.
    again: Option<u64>,
    raw: bool,
}

impl Lines {
    pub(super) fn new(keep: bool, from: Option<Timestamp>) -> Self {
        Self {
            keep,
            from,
            mode: Mode::Start,
            held: Vec::new(),
            place: None,
            again: None,
            raw: false,
        }
    }

    /// The log is read anew from [`Self::resume_from`].
    pub(super) fn restart(&mut self) {
        self.mode = Mode::Start;
        self.held.clear();
        self.again = self.place.map(|_| 0);
    }

    /// The whole second to read again from; `None` when nothing was delivered yet.
    pub(super) fn resume_from(&self) -> Option<Timestamp> {
        self.place.map(|place| whole_second(place.first))
    }

    /// A line was delivered, and nothing of the next one is here.
    pub(super) fn after_a_line(&self) -> bool {
        self.place.is_some() && self.mode == Mode::Start && self.held.is_empty()
    }

    /// Whether this, read with stamps, is the line delivered last, whole: then nothing of the log is missing.
    pub(super) fn ends_with(&self, line: &[u8]) -> bool {
        let Some(place) = self.place.filter(|_| self.after_a_line()) else {
            return false;
        };
        let Some(space) = line.iter().position(|byte| *byte == b' ') else {
            return false;
        };
        let (stamp, text) = line.split_at(space);
        let one_line = text.iter().position(|byte| *byte == b'\n') == text.len().checked_sub(1);
        one_line && text.len() as u64 == place.bytes + 1 && parse(stamp) == Some(place.last)
    }

    /// The server sent lines without stamps: there is no place to go on from.
    pub(super) fn unstamped(&self) -> bool {
        self.raw && self.place.is_none()
    }

    /// What of these bytes is wanted.
    pub(super) fn feed(&mut self, mut input: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(input.len() + MAX_STAMP);
        while let Some(byte) = input.first().copied() {
            if self.mode == Mode::Start {
                if byte == b' ' || byte == b'\n' || self.held.len() >= MAX_STAMP || !in_stamp(byte) {
                    self.begin(byte, &mut out);
                    if byte == b' ' && self.mode != Mode::Raw {
                        input = input.get(1..).unwrap_or_default();
                    }
                } else {
                    self.held.push(byte);
                    input = input.get(1..).unwrap_or_default();
                }
                continue;
            }
            let end = input.iter().position(|b| *b == b'\n').map_or(input.len(), |at| at + 1);
            let (body, rest) = input.split_at(end);
            self.body(body, &mut out);
            if body.last() == Some(&b'\n') {
                self.mode = Mode::Start;
            }
            input = rest;
        }
        out
    }

    /// What is held back when the log has ended for good.
    pub(super) fn flush(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// The text before `end` is a stamp, or the line has none.
    fn begin(&mut self, end: u8, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let stamp = (end == b' ' || end == b'\n').then(|| parse(&held)).flatten();
        let Some(stamp) = stamp else {
            self.raw = true;
            self.mode = Mode::Raw;
            out.extend_from_slice(&held);
            return;
        };
        self.mode = self.line(stamp);
        if self.mode == Mode::Deliver && self.keep {
            out.extend_from_slice(&held);
            if end == b' ' {
                out.push(end);
            }
        }
    }

    /// What to do with the line that has this stamp.
    fn line(&mut self, stamp: Timestamp) -> Mode {
        if self.from.is_some_and(|from| stamp < from) {
            return Mode::Skip;
        }
        if let (Some(met), Some(place)) = (self.again, self.place) {
            if met == 0 && stamp < place.first || stamp < whole_second(place.first) {
                return Mode::Skip;
            }
            if met > 0 || stamp == place.first {
                let met = met + 1;
                self.again = Some(met);
                match met.cmp(&place.lines) {
                    std::cmp::Ordering::Less => return Mode::Skip,
                    std::cmp::Ordering::Equal => return Mode::SkipBytes(place.bytes),
                    std::cmp::Ordering::Greater => {}
                }
            }
            self.again = None;
        }
        match &mut self.place {
            Some(place) if stamp < whole_second(place.first) => {}
            Some(place) if whole_second(stamp) == whole_second(place.first) => {
                place.last = stamp;
                place.lines += 1;
                place.bytes = 0;
            }
            _ => {
                self.place = Some(Place {
                    first: stamp,
                    last: stamp,
                    lines: 1,
                    bytes: 0,
                })
            }
        }
        Mode::Deliver
    }

    fn body(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let wanted = match self.mode {
            Mode::Start | Mode::Skip => return,
            Mode::Raw => {
                out.extend_from_slice(body);
                return;
            }
            Mode::Deliver => body,
            Mode::SkipBytes(left) => {
                let skip = usize::try_from(left).unwrap_or(usize::MAX).min(body.len());
                let left = left - skip as u64;
                self.mode = if left == 0 {
                    Mode::Deliver
                } else {
                    Mode::SkipBytes(left)
                };
                body.get(skip..).unwrap_or_default()
            }
        };
        out.extend_from_slice(wanted);
        if let Some(place) = &mut self.place {
            place.bytes += wanted.len() as u64;
        }
    }
}

/// Without its fraction, towards the past.
pub(super) fn whole_second(stamp: Timestamp) -> Timestamp {
    let second = stamp.as_nanosecond().div_euclid(1_000_000_000);
    Timestamp::from_nanosecond(second * 1_000_000_000).unwrap_or(stamp)
}

fn in_stamp(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b':' | b'.' | b'T' | b'Z')
}

/// RFC 3339 with `T`, as the kubelet writes it.
fn parse(text: &[u8]) -> Option<Timestamp> {
    let shaped = text.len() >= 20 && text.get(4) == Some(&b'-') && text.get(10) == Some(&b'T');
    shaped.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2024-05-01T10:00:00.100000000Z A\n\
        2024-05-01T10:00:00.150000000Z tick\n\
        2024-05-01T10:00:00.200000000Z B\n\
        2024-05-01T10:00:00.250000000Z tick\n\
        2024-05-01T10:00:00.250000000Z tick\n\
        2024-05-01T10:00:00.240000000Z late\n\
        2024-05-01T10:00:00.300000000Z C\n\
        2024-05-01T10:00:00Z \n\
        2024-05-01T10:00:01.000000001Z D 2024-05-01T10:00:00Z no stamp\n\
        2024-05-01T10:00:01.5+00:00 last, cut";
    const PLAIN: &str = "A\ntick\nB\ntick\ntick\nlate\nC\n\nD 2024-05-01T10:00:00Z no stamp\nlast, cut";

    fn feed_all(lines: &mut Lines, pieces: &[&[u8]]) -> Vec<u8> {
        pieces.iter().flat_map(|piece| lines.feed(piece)).collect()
    }

    #[test]
    fn split_at_each_byte() {
        for at in 0..=LOG.len() {
            let (a, b) = LOG.as_bytes().split_at(at);
            let stripped = feed_all(&mut Lines::new(false, None), &[a, b]);
            assert_eq!(String::from_utf8(stripped).unwrap(), PLAIN, "at {at}");
            let kept = feed_all(&mut Lines::new(true, None), &[a, b]);
            assert_eq!(String::from_utf8(kept).unwrap(), LOG, "at {at}");
        }
    }

    /// What a kubelet would send from this second on.
    fn since(second: Timestamp) -> String {
        let stamp = |line: &str| parse(line.split(' ').next().unwrap().as_bytes()).unwrap();
        LOG.split_inclusive('\n').filter(|line| stamp(line) >= second).collect()
    }

    /// C-11: cut anywhere, once or twice; nothing is lost, nothing repeated.
    #[test]
    fn cut_at_each_byte() {
        for keep in [true, false] {
            for first in 0..=LOG.len() {
                for second in [0, 1, 40, 77, 150, 200, usize::MAX] {
                    let mut lines = Lines::new(keep, None);
                    let mut got = lines.feed(&LOG.as_bytes()[..first]);
                    for cut in [second, usize::MAX] {
                        let again = lines.resume_from().map_or_else(|| LOG.to_owned(), since);
                        lines.restart();
                        got.extend(lines.feed(&again.as_bytes()[..again.len().min(cut)]));
                    }
                    got.extend(lines.flush());
                    let want = if keep { LOG } else { PLAIN };
                    // a line that was cut in its stamp is sent again, stamp and all
                    assert_eq!(
                        String::from_utf8(got).unwrap(),
                        want,
                        "keep {keep} cut at {first}, {second}"
                    );
                }
            }
        }
    }

    #[test]
    fn lines_without_stamps_pass() {
        let text = b"1 abc\n\n2024 x\nnext \xff\xfe\n2024-13-45T99:00:00Z x\n-----------------------------------------------------\nend";
        for at in 0..=text.len() {
            let mut lines = Lines::new(false, None);
            let (a, b) = text.split_at(at);
            let mut got = feed_all(&mut lines, &[a, b]);
            got.extend(lines.flush());
            assert_eq!(got, text, "at {at}");
            assert!(lines.unstamped());
        }
    }

    #[test]
    fn long_line_is_not_held() {
        let mut lines = Lines::new(false, None);
        assert!(lines.feed(b"2024-05-01T10:00:00Z ").is_empty());
        for _ in 0..100 {
            assert_eq!(lines.feed(&[b'\r'; 1000]).len(), 1000);
        }
        lines.restart();
        assert!(lines.feed(b"2024-05-01T10:00:00Z ").is_empty());
        assert!(lines.feed(&[b'\r'; 99_999]).is_empty());
        assert_eq!(lines.feed(b"\rnew\n"), b"new\n");
    }

    /// The last line tells whether all of the log was delivered.
    #[test]
    fn last_line() {
        let mut lines = Lines::new(false, None);
        let last = b"2024-05-01T10:00:00.2Z b\n";
        assert!(!lines.ends_with(last));
        lines.feed(b"2024-05-01T10:00:00.1Z a\n2024-05-01T10:00:00.2Z b");
        assert!(!lines.ends_with(last), "in the middle of the line");
        lines.feed(b"\n");
        assert!(lines.ends_with(last));
        for other in [
            &b""[..],
            b"2024-05-01T10:00:00.3Z b\n",
            b"2024-05-01T10:00:00.2Z bb\n",
            b"2024-05-01T10:00:00.2Z b",
            b"2024-05-01T10:00:00.2Z\n\n",
            b"b\n",
        ] {
            assert!(!lines.ends_with(other), "{:?}", String::from_utf8_lossy(other));
        }
        lines.feed(b"2024-05-01T10:00:00.3");
        assert!(!lines.ends_with(last), "in the middle of a stamp");
        let empty = b"2024-05-01T10:00:00.3Z \n";
        lines.feed(b"Z \n");
        assert!(lines.ends_with(empty));
    }

    /// The tail of a long line that began in an earlier second gets a stamp of its own when read again.
    #[test]
    fn resume_in_the_middle_of_a_long_line() {
        let mut lines = Lines::new(false, None);
        let got = lines.feed(b"2024-05-01T10:00:09.9Z long long\n2024-05-01T10:00:10.3Z M\n");
        assert_eq!(got, b"long long\nM\n");
        lines.restart();
        assert_eq!(
            lines.feed(b"2024-05-01T10:00:10.1Z long\n2024-05-01T10:00:10.3Z M\n2024-05-01T10:00:10.4Z N\n"),
            b"N\n"
        );
    }

    /// The place was rotated away.
    #[test]
    fn resume_after_rotation() {
        let mut lines = Lines::new(false, None);
        lines.feed(b"2024-05-01T10:00:00Z a\n");
        lines.restart();
        assert_eq!(lines.feed(b"2024-05-01T10:00:05Z b\n"), b"b\n");
    }

    /// G-33
    #[test]
    fn from_a_fraction() {
        let mut lines = Lines::new(false, Some("2024-05-01T10:00:00.25Z".parse().unwrap()));
        assert_eq!(
            lines.feed(LOG.as_bytes()).as_slice(),
            PLAIN
                .replace("A\ntick\nB\ntick\ntick\nlate\nC\n\n", "tick\ntick\nC\n")
                .as_bytes()
        );
    }

    #[test]
    fn seconds() {
        for (stamp, want) in [
            ("2024-05-01T10:00:00.9Z", "2024-05-01T10:00:00Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(whole_second(stamp.parse().unwrap()), want.parse().unwrap());
        }
    }
}
