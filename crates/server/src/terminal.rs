//! Output on the standard streams. A failed write is ignored: a reader that stops reading, such as `head`, must not
//! end the program.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use std::process::ExitCode;

/// Writes a line to standard output.
pub fn out(line: Arguments<'_>) {
    _ = writeln!(io::stdout(), "{line}");
}

/// Writes a line to standard error, at once: other processes write there, too.
pub fn err(line: Arguments<'_>) {
    _ = io::stderr().write_all(format!("{line}\n").as_bytes());
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
