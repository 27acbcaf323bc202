//! Output on the standard streams. A failed write is ignored: a reader that stops reading, such as `head`, must not
//! end the program. Control characters are escaped, as in logs: the name of a file must not command a terminal.

use std::borrow::Cow;
use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use std::process::ExitCode;

/// Writes a line to standard output.
pub fn out(line: Arguments<'_>) {
    _ = io::stdout().write_all(harmless(&format!("{line}\n")).as_bytes());
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
    err(format_args!("taipan: {why}"));
    ExitCode::from(code)
}

/// Writes text to standard output, without adding a line end.
pub fn print(text: &str) {
    _ = io::stdout().write_all(text.as_bytes());
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
