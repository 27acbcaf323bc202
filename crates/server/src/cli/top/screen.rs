//! The terminal as a screen: it is restored at the end, also when a signal ends the program. Knows nothing of what is
//! shown.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::view::{Line, Size, Style};

/// Another screen, without a cursor; and back. Lines that are too long are cut by the terminal.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const INTERRUPT: u8 = 0x03;
const ESCAPE: u8 = 0x1b;
/// Of a terminal that does not know its size.
const USUAL: Size = Size { width: 80, height: 24 };
/// Bytes of keys that are read at once.
const KEYS: usize = 64;

/// The terminal that is the standard input and output of this process.
pub struct Screen {
    before: Termios,
    signals: SignalFd,
    /// Keys that were read, and are not used yet.
    keys: Vec<u8>,
}

pub enum Event {
    Key(u8),
    Resized,
    /// A signal, or the end of the terminal.
    End,
    Timeout,
}

impl Screen {
    pub fn open() -> io::Result<Screen> {
        let before = tcgetattr(stdin())?;
        let set: SigSet =
            [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGWINCH]
                .into_iter()
                .collect();
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let mut raw = before.clone();
        // Keys that send signals are characters here.
        raw.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Flush, &raw)?;
        let screen = Screen { before, signals, keys: Vec::new() };
        write(ENTER)?;
        Ok(screen)
    }

    pub fn size(&self) -> Size {
        match tcgetwinsize(stdin()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { width: size.ws_col.into(), height: size.ws_row.into() }
            }
            _ => USUAL,
        }
    }

    pub fn show(&self, frame: &str) -> io::Result<()> {
        write(frame)
    }

    /// The next key or signal, or the end of so much time.
    pub fn wait(&mut self, time: Duration) -> io::Result<Event> {
        let until = Instant::now() + time;
        loop {
            if !self.keys.is_empty() {
                let key = self.keys.remove(0);
                return Ok(if key == INTERRUPT { Event::End } else { Event::Key(key) });
            }
            if let Some(signal) = self.signals.read_signal()? {
                let is_resize = signal.ssi_signo == Signal::SIGWINCH as u32;
                return Ok(if is_resize { Event::Resized } else { Event::End });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Event::Timeout);
            }
            let mut fds = [
                PollFd::from_borrowed_fd(stdin(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, Some(&Timespec::try_from(left).unwrap_or_default())) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !fds[0].revents().is_empty() {
                let mut buffer = [0; KEYS];
                match rustix::io::read(stdin(), &mut buffer) {
                    Ok(0) | Err(_) => return Ok(Event::End),
                    Ok(length) => self.keys.extend(plain_keys(&buffer[..length])),
                }
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal has been closed, there is nothing to restore.
        _ = write(LEAVE);
        _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// Without the keys that send more than a byte, such as arrows (ECMA-48 §5.4): none of them means anything here.
fn plain_keys(bytes: &[u8]) -> Vec<u8> {
    let (mut keys, mut bytes) = (Vec::new(), bytes.iter().copied());
    while let Some(byte) = bytes.next() {
        match byte {
            ESCAPE => {
                if matches!(bytes.next(), Some(b'[' | b'O')) {
                    _ = bytes.find(|byte| (0x40..=0x7e).contains(byte));
                }
            }
            byte => keys.push(byte),
        }
    }
    keys
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The bytes that draw a whole screen of this width. `problem`: in place of the first line.
pub fn drawn(lines: &[Line], problem: Option<&str>, width: usize) -> String {
    let mut frame = String::from("\x1b[H");
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    for (number, Line { style, text }) in lines.iter().enumerate() {
        let (style, text) = match problem.filter(|_| number == 0) {
            Some(problem) => (&Style::Bad, problem),
            None => (style, text.as_str()),
        };
        let colour = match style {
            Style::Plain => "",
            Style::Title | Style::Paused => "\x1b[7m",
            _ if !has_colours => "",
            Style::Warning => "\x1b[33m",
            Style::Bad => "\x1b[31m",
        };
        let end = if number + 1 == lines.len() { "" } else { "\n" };
        let text = text.replace(char::is_control, " ");
        // A title is as wide as the screen. Terminals erase the rest of a line in colours of their own.
        let fill = if matches!(style, Style::Title | Style::Paused) { width } else { 0 };
        _ = write!(frame, "{colour}{text:<fill$}\x1b[0m\x1b[K{end}");
    }
    frame.push_str("\x1b[J");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_bytes_are_left_out() {
        for (bytes, expected) in [
            (&b"sq"[..], &b"sq"[..]),
            (b"\x1b[A\x1bOBq", b"q"),
            (b"\x1b[1;5Dp\x1b[3~s", b"ps"),
            (b"\x1bq", b""),
            (b"\x1b", b""),
            (b"\x1b[", b""),
        ] {
            assert_eq!(plain_keys(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_problem_replaces_the_first_line() {
        let line = |style, text: &str| Line { style, text: text.to_owned() };
        let lines = [line(Style::Title, "title"), line(Style::Plain, "rest")];
        let frame = drawn(&lines, Some("no\x1b[2J answer"), 20);
        assert!(
            frame.contains("no [2J answer") && frame.contains("rest") && !frame.contains("title"),
            "{frame:?}"
        );
        assert!(frame.starts_with("\x1b[H") && frame.ends_with("\x1b[J"));
    }
}
