//! Parses TOML into a tree with the place of every key and value, in the order of the file.
//!
//! Knows no keys.

use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::error::{Errors, Place};

/// Levels of nested tables and arrays. The deepest key needs five.
const MAX_LEVELS: usize = 16;

/// A value of TOML, and where it stands.
#[derive(Debug, Clone)]
pub struct Node {
    pub place: Place,
    pub value: Value,
}

/// A value of TOML, as far as keys have such values.
#[derive(Debug, Clone)]
pub enum Value {
    Text(String),
    /// `i128::MAX` for an integer with more digits than fit.
    Integer(i128),
    Float,
    Flag(bool),
    Time,
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    /// A table, or tables.
    pub fn is_section(&self) -> bool {
        match self {
            Value::Table(_) => true,
            Value::Array(nodes) => nodes.first().is_some_and(|node| matches!(node.value, Value::Table(_))),
            _ => false,
        }
    }

    /// Its type with an article, for error messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float => "a float",
            Value::Flag(_) => "a boolean",
            Value::Time => "a date or time",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }
}

/// Entries in the order of the file, each key once.
#[derive(Debug, Clone)]
pub struct Table {
    pub place: Place,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub place: Place,
    pub node: Node,
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub fn take(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Merges another file: tables are merged, arrays of tables are appended. Any other key must not stand in both.
    pub fn merge(&mut self, other: Table, errors: &Errors) {
        for new in other.entries {
            let Some(old) = self.entries.iter_mut().find(|entry| entry.key == new.key) else {
                self.entries.push(new);
                continue;
            };
            match (&mut old.node.value, new.node.value) {
                (Value::Table(own), Value::Table(more)) => own.merge(more, errors),
                (Value::Array(own), Value::Array(more)) if are_tables(own) && are_tables(&more) => {
                    own.extend(more);
                }
                _ => errors.add(
                    &new.place,
                    format!("\"{}\" is given twice: {} has it too", new.key.escape_debug(), old.place),
                    "remove one of them; to serve several sites, give each a [[host]]",
                ),
            }
        }
    }
}

fn are_tables(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| matches!(node.value, Value::Table(_)))
}

/// The tree of a file. Invalid parts are reported and left out.
pub fn parse(text: &str, file: &Arc<Path>, errors: &Errors) -> Table {
    let lines = Lines::new(text, file, errors);
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    let mut last = None;
    let mut form = None;
    for error in syntax_errors {
        // One mistake often breaks several rules of the grammar. The first error of a line describes it.
        let span = error.span().unwrap_or_default();
        let (place, start) = (lines.place(span.start), span.start);
        if last.replace(place.line) != Some(place.line) {
            let of_line = Form::of(lines.line(text, &place));
            match of_line {
                // The end of JSON.
                None if form == Some(Form::Colon) && lines.line(text, &place).trim() == "}" => continue,
                None => {}
                // The whole file has it.
                Some(_) if form == of_line => continue,
                Some(found) => {
                    form = of_line;
                    let (what, to_do) = found.explained(file);
                    errors.add(&place, format!("not valid TOML: {what}"), to_do);
                    match found {
                        Form::Server => break,
                        Form::Colon => continue,
                    }
                }
            }
            if let Some((what, to_do)) = odd_space(lines.line(text, &place)) {
                errors.add(&place, format!("not valid TOML: {what}"), to_do);
                continue;
            }
            match (error.message(), text.get(span)) {
                ("duplicate key", Some(key)) if !key.is_empty() => {
                    let what = format!("not valid TOML: \"{}\" is given twice", shown_key(key));
                    errors.add(&place, what, "remove one of them");
                }
                (message, _) => {
                    let (what, to_do) = explained(message, word_at(text, start));
                    errors.add(&place, format!("not valid TOML: {what}"), to_do);
                }
            }
        }
    }
    lines.table(document.into_inner(), lines.start(), 0)
}

/// Another language that a line with an error is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// That of another server: `listen 80;`, `server {`, `<Location />`.
    Server,
    /// YAML or JSON: `listen: 80`.
    Colon,
}

impl Form {
    fn of(line: &str) -> Option<Form> {
        let line = line.trim();
        let is_key = |text: &str| {
            !text.is_empty() && text.chars().all(|char| char.is_alphanumeric() || "_-.\"'".contains(char))
        };
        match line.split_once(':') {
            // One with an equals sign is TOML with a mistake.
            _ if line.contains('=') && !line.ends_with(['{', ';']) => None,
            _ if line.ends_with(['{', ';']) && line.len() > 1 => Some(Form::Server),
            _ if line.ends_with('}') && line.contains('{') && line.contains(';') => Some(Form::Server),
            _ if line.starts_with('<') && line.ends_with('>') => Some(Form::Server),
            // JSON in several lines begins so.
            _ if line == "{" => Some(Form::Colon),
            Some((key, value)) if is_key(key.trim_start_matches(['-', '{', ' '])) => {
                (value.is_empty() || value.starts_with(char::is_whitespace)).then_some(Form::Colon)
            }
            _ => None,
        }
    }

    /// What is wrong with the line, and what to do.
    fn explained(self, file: &Path) -> (String, String) {
        match self {
            Form::Server => (
                "the line has the form of another server's configuration, such as nginx's".to_owned(),
                format!(
                    "`--dialect nginx` reads it (or apache, lighttpd, caddy), and `taipan convert --from nginx {}` prints \
                     it in the form of this one",
                    file.display()
                ),
            ),
            Form::Colon => (
                "the line has the form of YAML or JSON".to_owned(),
                "write key = \"value\", and [section] above the keys of a section".to_owned(),
            ),
        }
    }
}

/// What the parser says about a value that is neither quoted nor a number, a time or a boolean.
const NOT_QUOTED: [&str; 6] = [
    "string values must be quoted",
    "invalid mantissa",
    "invalid float",
    "invalid date-time",
    "invalid boolean",
    "unexpected leading zero",
];

/// What the parser says about a text that does not end in its line.
const UNCLOSED: [&str; 2] = ["invalid basic string, expected `\"`", "invalid literal string, expected `'`"];

/// What is wrong about the `word` of which the parser says `message`, and what to do.
fn explained(message: &str, word: &str) -> (String, String) {
    if NOT_QUOTED.iter().any(|begin| message.starts_with(begin)) {
        let bare = word.trim_matches(['\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}']);
        let value = match bare.to_ascii_lowercase().as_str() {
            "" => return ("the key has no value".to_owned(), "write one behind the equals sign".to_owned()),
            "true" => "true".to_owned(),
            "false" => "false".to_owned(),
            "on" | "yes" => format!("true, or {bare:?}"),
            "off" | "no" => format!("false, or {bare:?}"),
            _ => format!("{bare:?}"),
        };
        let what = format!("{} is neither quoted nor a number", word.escape_debug());
        return (what, format!("write {value}"));
    }
    if message == "key with no value, expected `=`" {
        let what = format!("{} has no equals sign behind it", word.escape_debug());
        return (what, "write key = \"value\", [section], or # in front of a comment".to_owned());
    }
    if UNCLOSED.contains(&message) {
        let what = "a text has no quotation mark at its end".to_owned();
        return (what, "write one there, of the kind that the text begins with".to_owned());
    }
    let to_do = match message.contains("escaped value") || message.contains("unicode value") {
        true => "write \\\\ for a backslash, or put the text between single quotation marks",
        false => "see https://toml.io",
    };
    (message.to_owned(), to_do.to_owned())
}

/// A character that looks like a space, but is none in TOML: texts that are copied from pages and documents have them.
/// What is wrong with it, and what to do.
fn odd_space(line: &str) -> Option<(String, &'static str)> {
    let mut quote = None;
    for (before, char) in line.chars().enumerate() {
        match quote {
            Some(open) if char == open => quote = None,
            Some(_) => {}
            None if char == '#' => return None,
            None if "\"'".contains(char) => quote = Some(char),
            None if char == '\r' => {
                let what = format!("column {} has a carriage return without a line feed", before + 1);
                return Some((what, "store the file with line feeds"));
            }
            None if !" \t".contains(char) && (char.is_whitespace() || "\u{200b}\u{feff}".contains(char)) => {
                let what = format!(
                    "column {} has a character that only looks like a space (U+{:04X})",
                    before + 1,
                    char as u32
                );
                return Some((what, "write a space there, or nothing"));
            }
            None => {}
        }
    }
    None
}

/// The word around an offset: what stands between spaces and the signs of TOML.
fn word_at(text: &str, at: usize) -> &str {
    let is_outside = |char: char| char.is_whitespace() || "=,[]{}#".contains(char);
    let Some((before, behind)) = text.split_at_checked(at) else { return "" };
    let begin = at - before.rsplit(is_outside).next().map_or(0, str::len);
    let end = at + behind.split(is_outside).next().map_or(0, str::len);
    &text[begin..end]
}

/// A key as it is written, without its quotes.
fn shown_key(key: &str) -> String {
    key.trim_matches(['"', '\'']).escape_debug().to_string()
}

/// Finds the line of an offset.
struct Lines<'f> {
    file: &'f Arc<Path>,
    /// The offset of every line but the first.
    starts: Vec<usize>,
    errors: &'f Errors,
}

impl Lines<'_> {
    fn new<'f>(text: &str, file: &'f Arc<Path>, errors: &'f Errors) -> Lines<'f> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines { file, starts: ends.map(|(at, _)| at + 1).collect(), errors }
    }

    /// The text of a line, without what follows it.
    fn line<'t>(&self, text: &'t str, place: &Place) -> &'t str {
        let number = place.line.map_or(0, |line| line as usize - 1);
        let start = number.checked_sub(1).map_or(0, |before| self.starts[before]);
        text[start..].lines().next().unwrap_or_default()
    }

    fn place(&self, offset: usize) -> Place {
        let before = self.starts.partition_point(|start| *start <= offset);
        Place { file: self.file.clone(), line: u32::try_from(before + 1).ok() }
    }

    fn start(&self) -> Place {
        Place { file: self.file.clone(), line: None }
    }

    /// A value within `level` tables and arrays.
    fn node(&self, value: Spanned<DeValue>, level: usize) -> Node {
        let place = self.place(value.span().start);
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => {
                let parsed = i128::from_str_radix(number.as_str(), number.radix());
                Value::Integer(parsed.unwrap_or(i128::MAX))
            }
            DeValue::Float(_) => Value::Float,
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(_) => Value::Time,
            deep if level >= MAX_LEVELS => {
                let what = format!("tables and arrays are more than {MAX_LEVELS} levels deep");
                self.errors.add(&place, what, "remove this; the manual lists every key");
                dismantle(deep);
                Value::Array(Vec::new())
            }
            DeValue::Array(nodes) => {
                Value::Array(nodes.into_iter().map(|node| self.node(node, level + 1)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table, place.clone(), level + 1)),
        };
        Node { place, value }
    }

    fn table(&self, table: DeTable, place: Place, level: usize) -> Table {
        let mut pairs: Vec<_> = table.into_iter().collect();
        sort::by_key(&mut pairs, |(key, _)| key.span().start);
        let entry = |(key, value): (Spanned<DeString>, _)| Entry {
            place: self.place(key.span().start),
            key: key.into_inner().into_owned(),
            node: self.node(value, level),
        };
        Table { place, entries: pairs.into_iter().map(entry).collect() }
    }
}

/// Drops a value without recursion. A few kilobytes of dotted keys within braces nest thousands of levels deep.
fn dismantle(value: DeValue) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            DeValue::Array(nodes) => rest.extend(nodes.into_iter().map(Spanned::into_inner)),
            DeValue::Table(table) => rest.extend(table.into_iter().map(|(_, value)| value.into_inner())),
            _ => {}
        }
    }
}
