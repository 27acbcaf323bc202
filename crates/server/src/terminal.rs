//! Output on the standard streams. A failed write ends nothing; a command learns of one to standard output at its end.
//! Control characters are escaped, as in logs: the name of a file must not command a terminal.

use std::borrow::Cow;
use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// The first error of standard output.
static OUTPUT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to standard output.
pub fn out(line: Arguments<'_>) {
    print(&harmless(&plain(&format!("{line}\n"))));
}

/// Writes a line to standard error, at once: other processes write there, too.
pub fn err(line: Arguments<'_>) {
    _ = io::stderr().write_all(harmless(&plain(&format!("{line}\n"))).as_bytes());
}

/// Text that may have several lines and tabs, but no other control character.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_escaped) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_escaped(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown.into()
}

/// A message without the numbers that `std` puts behind the errors of the system: they say nothing to most users.
pub fn plain(message: &str) -> Cow<'_, str> {
    const BEGIN: &str = " (os error ";
    if !message.contains(BEGIN) {
        return message.into();
    }
    let (mut plain, mut rest) = (String::with_capacity(message.len()), message);
    while let Some((before, behind)) = rest.split_once(BEGIN) {
        plain.push_str(before);
        rest = match behind.split_once(')') {
            Some((number, behind)) if number.bytes().all(|byte| byte.is_ascii_digit()) => behind,
            _ => {
                plain.push_str(BEGIN);
                behind
            }
        };
    }
    plain.push_str(rest);
    plain.into()
}

/// Writes to standard error why a command has failed, and returns its exit code.
pub fn fail(why: impl Display, code: u8) -> ExitCode {
    fail_all([why], code)
}

/// As `fail`, with a line for each of several reasons.
pub fn fail_all(reasons: impl IntoIterator<Item: Display>, code: u8) -> ExitCode {
    reasons.into_iter().for_each(|why| err(format_args!("taipan: {why}")));
    ExitCode::from(code)
}

/// Writes text to standard output, without adding a line end.
pub fn print(text: &str) {
    write(text.as_bytes());
}

/// As `print`, for bytes that may be no text.
pub fn write(bytes: &[u8]) {
    note(io::stdout().write_all(bytes));
}

/// Writes bytes to standard output, at once. `false`: they could not be written, so that more would be of no use.
pub fn pass(bytes: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    let is_written = written.is_ok();
    note(written);
    is_written
}

/// The exit code of a command that has ended with `code`: it has failed if not all of its output could be written. A
/// reader that has stopped reading, such as `head`, wants no more.
pub fn end(code: ExitCode) -> ExitCode {
    note(io::stdout().flush());
    match OUTPUT_ERROR.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe && code == ExitCode::SUCCESS => {
            fail(format_args!("cannot write to standard output: {error}"), 1)
        }
        _ => code,
    }
}

fn note(written: io::Result<()>) {
    if let Err(error) = written {
        _ = OUTPUT_ERROR.set(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_commands_no_terminal() {
        for (text, expected) in [
            ("a.toml:1: \u{fc} is\n\tgood\n", "a.toml:1: \u{fc} is\n\tgood\n"),
            ("there is no b\u{1b}[31m\r\u{9b}\u{7f}\n", "there is no b\\u{1b}[31m\\u{d}\\u{9b}\\u{7f}\n"),
        ] {
            assert_eq!(harmless(text), expected);
        }
    }

    #[test]
    fn a_message_has_no_numbers_of_errors() {
        let missing = io::Error::from_raw_os_error(2);
        for (message, expected) in [
            (format!("a.toml: {missing}"), "a.toml: No such file or directory"),
            (
                format!("one ({missing}) and {missing}; create it"),
                "one (No such file or directory) and No such file or directory; create it",
            ),
            ("no (os error x) and (os error ".to_owned(), "no (os error x) and (os error "),
            ("a.toml is good".to_owned(), "a.toml is good"),
        ] {
            assert_eq!(plain(&message), expected);
        }
    }
}
