//! A configuration in TOML while it is written: keys and sections in order, each with the line that it comes from.

use std::fmt::Write;
use std::path::PathBuf;

use crate::Conversion;
use crate::brackets;
use crate::finding::{Finding, Findings, Severity};

/// A value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Flag(bool),
    Texts(Vec<String>),
    #[cfg(feature = "web")]
    Integers(Vec<i64>),
    Table(Vec<(String, Value)>),
}

#[cfg(feature = "web")]
impl Value {
    /// Those of a list.
    pub fn texts(&self) -> &[String] {
        match self {
            Value::Texts(texts) => texts,
            _ => &[],
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Value {
        Value::Texts(texts)
    }
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    value: Value,
    line: Option<u32>,
    /// Why it is there.
    comment: Option<String>,
}

impl Entry {
    /// Whether it is too long for one line, as the media types of a whole system are.
    fn is_long(&self) -> bool {
        matches!(&self.value, Value::Table(pairs) if pairs.len() > LINE_OF_PAIRS)
    }
}

/// Pairs of a table that are written in one line.
const LINE_OF_PAIRS: usize = 20;

/// The keys of a section.
#[derive(Debug, Clone, Default)]
pub struct Keys(Vec<Entry>);

impl Keys {
    pub fn set(&mut self, line: Option<u32>, key: &str, value: impl Into<Value>) {
        self.0.push(Entry { key: key.to_owned(), value: value.into(), line, comment: None });
    }

    /// With a comment above it.
    pub fn explained(&mut self, line: Option<u32>, key: &str, value: impl Into<Value>, comment: &str) {
        let comment = Some(comment.to_owned());
        self.0.push(Entry { key: key.to_owned(), value: value.into(), line, comment });
    }

    pub fn extend(&mut self, other: Keys) {
        self.0.extend(other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the patterns of a section as a configuration has them.
    fn write_patterns(&mut self, header: &str) {
        let has_path = ["route]]", "rule]]", "limit]]"].iter().any(|end| header.ends_with(end));
        for entry in &mut self.0 {
            match &mut entry.value {
                Value::Text(text) if has_path && entry.key == "path" => *text = brackets::written(text),
                Value::Texts(all) if has_path && entry.key == "path" => {
                    all.iter_mut().for_each(|text| *text = brackets::written(text));
                }
                Value::Table(pairs) if entry.key == "cache_control" => {
                    pairs.iter_mut().for_each(|(pattern, _)| *pattern = brackets::written(pattern));
                }
                _ => {}
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Section {
    /// `[limits]` or `[[route]]`.
    header: String,
    line: Option<u32>,
    keys: Keys,
}

#[derive(Debug, Default)]
pub struct Document {
    pub top: Keys,
    sections: Vec<Section>,
}

impl Document {
    /// Adds a section behind the others. One without keys is left out, unless it is one of a list.
    pub fn section(&mut self, line: Option<u32>, header: &str, mut keys: Keys) {
        keys.write_patterns(header);
        if !keys.is_empty() || header.starts_with("[[") {
            self.sections.push(Section { header: header.to_owned(), line, keys });
        }
    }

    /// The document as what has been made from `file`, a configuration of `server`.
    pub fn conversion(&self, file: PathBuf, server: &str, findings: Findings) -> Conversion {
        let findings = findings.into_sorted();
        let title = format!("Made from {}, a configuration of {server}.", file.display());
        let (text, lines) = self.written(&title, &findings);
        Conversion { file, text, lines, findings }
    }

    /// The text, and the line that each of its lines comes from. Findings become comments.
    fn written(&self, title: &str, findings: &[Finding]) -> (String, Vec<Option<u32>>) {
        let mut out = Written::default();
        out.comment(None, title);
        for finding in findings {
            let line = finding.line.map_or_else(String::new, |line| format!("line {line}: "));
            out.comment(finding.line, &format!("{line}{finding}"));
        }
        out.line(None, "");
        out.unconverted(findings);
        let mut top = self.top.clone();
        top.write_patterns("");
        let (long, short) = top.0.iter().partition::<Vec<&Entry>, _>(|entry| entry.is_long());
        out.keys(short);
        for section in &self.sections {
            out.line(None, "");
            out.line(section.line, &section.header);
            out.keys(&section.keys.0);
        }
        long.into_iter().for_each(|entry| out.table(entry));
        (out.text, out.lines)
    }
}

#[derive(Default)]
struct Written {
    text: String,
    lines: Vec<Option<u32>>,
}

impl Written {
    fn line(&mut self, origin: Option<u32>, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
        self.lines.push(origin);
    }

    /// A server does not start with these entries, so that nothing is open that a line has protected.
    fn unconverted(&mut self, findings: &[Finding]) {
        let errors: Vec<_> = findings.iter().filter(|one| one.severity == Severity::Error).collect();
        if errors.is_empty() {
            return;
        }
        self.comment(None, "Decide what takes the place of each of these, and remove it.");
        self.line(None, "unconverted = [");
        for error in errors {
            let line = error.line.map_or_else(String::new, |line| format!("line {line}: "));
            self.line(error.line, &format!("    {},", quoted(&format!("{line}{}", error.what))));
        }
        self.line(None, "]");
    }

    /// Controls are escaped, so that a comment stays a comment.
    fn comment(&mut self, origin: Option<u32>, text: &str) {
        let mut line = String::from("# ");
        for c in text.chars() {
            if c.is_control() { line.extend(c.escape_debug()) } else { line.push(c) }
        }
        self.line(origin, &line);
    }

    /// A table as a section, with one pair in each line.
    fn table(&mut self, entry: &Entry) {
        self.line(None, "");
        if let Some(comment) = &entry.comment {
            self.comment(entry.line, comment);
        }
        self.line(entry.line, &format!("[{}]", key(&entry.key)));
        let Value::Table(pairs) = &entry.value else { return };
        for (name, value) in pairs {
            let mut line = format!("{} = ", key(name));
            write_value(value, &mut line);
            self.line(entry.line, &line);
        }
    }

    fn keys<'e>(&mut self, entries: impl IntoIterator<Item = &'e Entry>) {
        for entry in entries {
            if let Some(comment) = &entry.comment {
                self.comment(entry.line, comment);
            }
            let mut line = format!("{} = ", key(&entry.key));
            write_value(&entry.value, &mut line);
            self.line(entry.line, &line);
        }
    }
}

/// A key, in quotes if it needs them.
fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Text(text) => out.push_str(&quoted(text)),
        Value::Integer(number) => _ = write!(out, "{number}"),
        Value::Flag(flag) => _ = write!(out, "{flag}"),
        Value::Texts(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            _ = write!(out, "[{}]", texts.join(", "));
        }
        #[cfg(feature = "web")]
        Value::Integers(numbers) => _ = write!(out, "{numbers:?}"),
        Value::Table(pairs) => {
            out.push('{');
            for (at, (name, value)) in pairs.iter().enumerate() {
                _ = write!(out, "{} {} = ", if at == 0 { "" } else { "," }, key(name));
                write_value(value, out);
            }
            out.push_str(" }");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_a_long_table_behind_the_sections_with_one_pair_in_each_line() {
        let types = |count: usize| {
            Value::Table((0..count).map(|at| (format!("e.{at}"), Value::from("a/b"))).collect())
        };
        for (count, expected) in
            [(LINE_OF_PAIRS, "# t\n\ntypes = {"), (LINE_OF_PAIRS + 1, "# t\n\nworkers = 1\n")]
        {
            let mut document = Document::default();
            document.top.set(Some(3), "types", types(count));
            document.top.set(Some(4), "workers", 1);
            let (text, lines) = document.written("t", &[]);
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(lines.len(), text.lines().count());
            assert_eq!(text.contains("\n\n[types]\n\"e.0\" = \"a/b\"\n"), count > LINE_OF_PAIRS, "{text}");
        }
    }

    #[test]
    fn writes_keys_before_sections_with_the_lines_that_they_come_from() {
        let mut document = Document::default();
        let mut route = Keys::default();
        route.set(Some(7), "path", "/a\"b\u{1}/");
        document.section(Some(7), "[[route]]", route);
        document.section(None, "[limits]", Keys::default());
        document.top.explained(Some(3), "root", "/srv", "why");
        document.top.set(
            Some(4),
            "types",
            Value::Table(vec![("a".into(), "b/c".into()), ("x y".into(), true.into())]),
        );
        document.top.set(None, "index", vec!["a".to_owned(), "b".to_owned()]);
        let finding = Finding {
            line: Some(2),
            severity: Severity::Warning,
            what: "a\nb".into(),
            what_to_do: "c".into(),
        };
        let (text, lines) = document.written("Made", &[finding]);
        let expected = "# Made\n# line 2: warning: a\\nb; c\n\n# why\nroot = \"/srv\"\n\
                        types = { a = \"b/c\", \"x y\" = true }\nindex = [\"a\", \"b\"]\n\n[[route]]\n\
                        path = \"/a\\\"b\\u0001/\"\n";
        assert_eq!(text, expected);
        assert_eq!(lines, [None, Some(2), None, Some(3), Some(3), Some(4), None, None, Some(7), Some(7)]);
    }
}
