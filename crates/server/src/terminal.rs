//! The terminal, or whatever the standard streams are: nothing written there can end the program. A reader
//! that stops reading, such as `head`, is no error.

use std::fmt::Arguments;
use std::io::{self, Write};

/// A line on standard output.
pub fn out(line: Arguments<'_>) {
    _ = writeln!(io::stdout(), "{line}");
}

/// A line on standard error.
pub fn err(line: Arguments<'_>) {
    _ = writeln!(io::stderr(), "{line}");
}

/// Text on standard output, as it is.
pub fn print(text: &str) {
    _ = io::stdout().write_all(text.as_bytes());
}
