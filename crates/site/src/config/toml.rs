//! Parses TOML into a tree with the place of every key and value, in the order of the file.
//!
//! Knows no keys.

mod mistakes;
mod unclosed;

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
    mistakes::report(text, &lines, &syntax_errors);
    lines.table(document.into_inner(), lines.start(), 0)
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
