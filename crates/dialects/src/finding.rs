//! What a reader has to say about a line of a configuration. Plain data.

use std::fmt;
use std::io;

use site::utf8::{self, NotUtf8};

use crate::brackets::shown;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The first is 1. `None`: the flags, or the whole file.
    pub line: Option<u32>,
    pub severity: Severity,
    pub what: String,
    pub what_to_do: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It has no effect, and needs none.
    Notice,
    /// The server does something else than the other one.
    Warning,
    /// The server does not start.
    Error,
}

/// `warning: there is no directory cache; nothing to do`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Notice => "note: ",
            Severity::Warning => "warning: ",
            Severity::Error => "",
        })?;
        write!(f, "{}; {}", self.what, self.what_to_do)
    }
}

/// Collects findings.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    pub fn error(&mut self, line: Option<u32>, what: impl Into<String>, what_to_do: impl Into<String>) {
        self.add(Severity::Error, line, what.into(), what_to_do.into());
    }

    pub fn warn(&mut self, line: Option<u32>, what: impl Into<String>, what_to_do: impl Into<String>) {
        self.add(Severity::Warning, line, what.into(), what_to_do.into());
    }

    pub fn note(&mut self, line: Option<u32>, what: impl Into<String>, what_to_do: impl Into<String>) {
        self.add(Severity::Notice, line, what.into(), what_to_do.into());
    }

    /// What was read of the file itself; nothing, if it is unreadable.
    pub fn bytes(&mut self, read: io::Result<Vec<u8>>) -> Vec<u8> {
        read.unwrap_or_else(|error| {
            self.unreadable(&error);
            Vec::new()
        })
    }

    /// The file itself is not there, or is closed to the reader.
    pub fn unreadable(&mut self, error: &io::Error) {
        self.error(None, format!("it cannot be read: {error}"), "check its path and its permissions");
    }

    /// Reports a line that has another encoding.
    pub fn not_utf8(&mut self, error: &NotUtf8) {
        self.error(Some(error.line), error.to_string(), utf8::WHAT_TO_DO);
    }

    /// Whether there are so many that the rest need not be read. The file is then refused.
    pub fn is_full(&mut self, line: u32) -> bool {
        let is_full = self.0.len() >= MAX_OTHERS;
        if is_full {
            let what = format!("there are {MAX_OTHERS} findings, and the rest is not read");
            self.error(Some(line), what, "correct the lines before");
        }
        is_full
    }

    fn add(&mut self, severity: Severity, line: Option<u32>, what: String, what_to_do: String) {
        if self.0.len() >= MAX_FINDINGS || self.0.len() >= MAX_OTHERS && severity != Severity::Error {
            return;
        }
        let finding =
            Finding { line, severity, what: on_one_line(&what), what_to_do: on_one_line(&what_to_do) };
        // Each host reports what all of them have.
        if self.0.contains(&finding) {
            return;
        }
        // The last places are for errors, so that a refused file stays refused.
        self.0.push(finding);
    }

    /// By line; those without one come first.
    pub fn into_sorted(mut self) -> Vec<Finding> {
        sort::by_key(&mut self.0, |finding| finding.line);
        self.0
    }
}

/// A file could otherwise write to the terminal of its reader, or fill it.
fn on_one_line(text: &str) -> String {
    let text = &shown(text);
    let end = text.floor_char_boundary(MAX_TEXT);
    let (text, rest) = text.split_at(end);
    let escaped = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    let escaped: String = text.chars().map(escaped).collect();
    if rest.is_empty() { escaped } else { format!("{escaped}…") }
}

/// Bytes of a finding that are shown.
const MAX_TEXT: usize = 500;

/// Findings about one configuration.
const MAX_FINDINGS: usize = 1000;
/// Of these, the rest is for errors.
const MAX_OTHERS: usize = 900;
