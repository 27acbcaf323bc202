//! Finds the sign that begins a text, an array or a table which does not end.
//!
//! The parser reports such a mistake where it notices it, which may be the end of the file.

use super::mistakes::Advice;

/// The sign, and its offset.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    pub at: usize,
    pub sign: &'static str,
}

/// The signs that count, longer ones first.
const SIGNS: [&str; 9] = ["\"\"\"", "'''", "\"", "'", "[", "]", "{", "}", "#"];

/// The first sign without an end. A text within one line counts only in an array or a table: elsewhere, the next line
/// is read as if the text had ended.
pub fn unclosed(text: &str) -> Option<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) else {
            at += first.len_utf8();
            continue;
        };
        let this = Open { at, sign };
        at += match sign {
            "#" => line_length(rest),
            "[" if open.is_empty() && is_heading(&text[..at]) => line_length(rest),
            "[" | "{" => {
                open.push(this);
                1
            }
            "]" | "}" => match open.pop() {
                Some(begin) if begin.end() != sign => return Some(begin),
                _ => 1,
            },
            _ => match text_length(rest, sign) {
                Some(length) => length,
                None if open.is_empty() && sign.len() == 1 => line_length(rest),
                None => return Some(this),
            },
        };
    }
    open.first().copied()
}

impl Open {
    fn end(self) -> &'static str {
        match self.sign {
            "[" => "]",
            "{" => "}",
            sign => sign,
        }
    }

    pub fn explained(self) -> Advice {
        let (what, to_do) = match self.sign {
            "[" => ("the array that begins here with [ is not closed", "write ] behind its last element"),
            "{" => ("the table that begins here with { is not closed", "write } behind its last key"),
            "\"\"\"" => ("the text that begins here with \"\"\" does not end", "write \"\"\" at its end"),
            "'''" => ("the text that begins here with ''' does not end", "write ''' at its end"),
            _ => (
                "a text has no quotation mark at its end",
                "write one there, of the kind that the text begins with",
            ),
        };
        (what.to_owned(), to_do.to_owned())
    }
}

/// Whether a bracket behind `before` begins the heading of a section.
fn is_heading(before: &str) -> bool {
    before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty())
}

fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// The length of the text that `rest` begins with, with the quotes around it.
fn text_length(rest: &str, quotes: &str) -> Option<usize> {
    let is_one_line = quotes.len() == 1;
    let mut at = quotes.len();
    loop {
        let left = rest.get(at..)?;
        if let Some(behind) = left.strip_prefix(quotes) {
            // Up to two quotation marks may stand in front of the three at the end.
            let more = behind.bytes().take_while(|byte| quotes.as_bytes().contains(byte));
            return Some(at + quotes.len() + if is_one_line { 0 } else { more.take(2).count() });
        }
        at += match left.chars().next()? {
            '\n' if is_one_line => return None,
            '\\' if quotes.starts_with('"') => 1 + left[1..].chars().next()?.len_utf8(),
            char => char.len_utf8(),
        };
    }
}
