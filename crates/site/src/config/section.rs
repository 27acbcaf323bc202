//! Reads one table of the configuration by the rules of [`keys`]. A value that breaks them is reported and counts as
//! absent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use taipan_http::digits::hex_byte;

use super::error::{Errors, Place};
use super::keys::{self, Kind, Scope};
use super::toml::{Entry, Node, Table, Value};
use super::value;
use crate::endpoint::EndpointAddress;
use crate::model::Sink;
use crate::route::{Pattern, PatternError};

/// A table of the configuration, whose keys are read by name.
pub struct Section<'c> {
    pub scope: Scope,
    pub table: &'c Table,
    pub errors: &'c Errors,
}

/// A value of the configuration, with its place.
pub struct Given<'c, T> {
    pub place: &'c Place,
    pub value: T,
}

/// A value that switches something on or off, or names parts of it.
pub enum FlagOrChoices {
    Flag(bool),
    Choices(Vec<&'static str>),
}

impl<'c> Section<'c> {
    /// Reports unknown keys.
    pub fn open(scope: Scope, table: &'c Table, errors: &'c Errors) -> Section<'c> {
        for entry in table.entries.iter().filter(|entry| keys::find(scope, &entry.key).is_none()) {
            let what = format!("unknown key \"{}\"", entry.key.escape_debug());
            errors.add(&entry.place, what, keys::suggest(scope, &entry.key, &entry.node.value));
        }
        Section { scope, table, errors }
    }

    pub fn place(&self) -> &'c Place {
        &self.table.place
    }

    /// The place of a key, or of the table if the key is absent.
    pub fn place_of(&self, name: &str) -> &'c Place {
        self.table.get(name).map_or(&self.table.place, |entry| &entry.place)
    }

    pub fn has(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    /// Whether a key is absent, and no unknown key is reported in its place: one mistake has one message.
    pub fn lacks(&self, name: &str) -> bool {
        let quoted = format!("\"{name}\"");
        let stands_for_it = |entry: &Entry| {
            keys::find(self.scope, &entry.key).is_none()
                && keys::suggest(self.scope, &entry.key, &entry.node.value).contains(&quoted)
        };
        !self.has(name) && !self.table.entries.iter().any(stands_for_it)
    }

    /// The table `[name]`.
    pub fn section(&self, name: &str, scope: Scope) -> Option<Section<'c>> {
        let table = self.read(name, |_, node| table(node))?;
        Some(Section::open(scope, table.value, self.errors))
    }

    /// The table `name`. `Some(None)`: `false`.
    pub fn section_or_false(&self, name: &str, scope: Scope) -> Option<Option<Section<'c>>> {
        let given = self.read(name, |_, node| match node.value {
            Value::Flag(false) => Some(None),
            _ => table(node).map(Some),
        })?;
        Some(given.value.map(|table| Section::open(scope, table, self.errors)))
    }

    /// The tables `[[name]]`.
    pub fn sections(&self, name: &str, scope: Scope) -> Vec<Section<'c>> {
        if let Some(Entry { place, node, .. }) = self.table.get(name)
            && let Some(part) = table(node).and_then(|table| part_alone(table, scope))
        {
            let (what, heading) = (format!("\"{part}\" is in no {}", scope.name()), scope.name());
            self.errors.add(place, what, format!("write {heading} above it, with the keys of that {name}"));
            return Vec::new();
        }
        let tables = self.read(name, |_, node| match &node.value {
            Value::Array(nodes) => nodes.iter().map(table).collect::<Option<Vec<_>>>(),
            _ => None,
        });
        let open = |table| Section::open(scope, table, self.errors);
        tables.map_or(Vec::new(), |tables| tables.value.into_iter().map(open).collect())
    }

    pub fn text(&self, name: &str) -> Option<Given<'c, &'c str>> {
        let given = self.read(name, |_, node| text(node))?;
        self.mark(name, given.value, given.place);
        Some(given)
    }

    /// `Some(None)`: `false`.
    pub fn text_or_false(&self, name: &str) -> Option<Given<'c, Option<&'c str>>> {
        let given = self.read(name, |_, node| match node.value {
            Value::Flag(false) => Some(None),
            _ => text(node).map(Some),
        })?;
        if let Some(text) = given.value {
            self.mark(name, text, given.place);
        }
        Some(given)
    }

    pub fn texts(&self, name: &str) -> Option<Vec<Given<'c, &'c str>>> {
        let one = |node: &'c Node| text(node).map(|value| Given { place: &node.place, value });
        let given = self.read(name, |_, node| match &node.value {
            Value::Array(nodes) => nodes.iter().map(one).collect::<Option<Vec<_>>>(),
            _ => one(node).map(|given| vec![given]),
        });
        given.map(|given| given.value)
    }

    /// Relative paths begin in the folder of the file.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let given = self.text(name)?;
        if given.value.is_empty() || given.value.contains('\0') {
            self.reject(name, given.place, "is not a path");
            return None;
        }
        if is_for_a_shell(given.value) {
            self.reject_shell_path(name, &given);
            return None;
        }
        let path = given.place.folder().join(given.value);
        self.mark(name, &path, given.place);
        Some(path)
    }

    /// Only shells expand it, and a service has no home folder.
    fn reject_shell_path(&self, name: &str, given: &Given<&str>) {
        let shown = given.value.escape_debug();
        self.errors.add(
            given.place,
            format!("\"{name}\" has \"{shown}\", and a {} is not expanded", &given.value[..1]),
            format!(
                "write the whole path, such as \"/home/ann/www\", or \"./{shown}\" for a folder of that name"
            ),
        );
    }

    /// Records the place of an address that is a Unix socket, by its path.
    pub fn mark_socket(&self, key: &'static str, address: &EndpointAddress, place: &Place) {
        if let Some(path) = address.socket_path() {
            self.errors.mark(key, path, place);
        }
    }

    /// Records the place of a value.
    fn mark(&self, name: &str, value: impl AsRef<Path>, place: &Place) {
        if let Some(key) = keys::find(self.scope, name) {
            self.errors.mark(key.name, value, place);
        }
    }

    /// As [`Section::path`], of all texts.
    pub fn paths(&self, name: &str) -> Option<Vec<PathBuf>> {
        let texts = self.texts(name)?;
        if let Some(bad) = texts.iter().find(|text| text.value.is_empty() || text.value.contains('\0')) {
            self.reject(name, bad.place, "has an entry that is not a path");
            return None;
        }
        if let Some(bad) = texts.iter().find(|text| is_for_a_shell(text.value)) {
            self.reject_shell_path(name, bad);
            return None;
        }
        let join = |text: &Given<&str>| {
            let path = text.place.folder().join(text.value);
            self.mark(name, &path, text.place);
            path
        };
        Some(texts.iter().map(join).collect())
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        let given = self.read(name, |_, node| match node.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        });
        given.map(|given| given.value)
    }

    pub fn count<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        let given = self.read(name, |kind, node| {
            let Kind::Count { min, max } = kind else { return None };
            integer(node).filter(|count| (min..=max).contains(count))?.try_into().ok()
        });
        given.map(|given| given.value)
    }

    pub fn counts<T: TryFrom<u64>>(&self, name: &str) -> Option<Given<'c, Vec<T>>> {
        self.read(name, |kind, node| {
            let (Kind::Counts { min, max }, Value::Array(nodes)) = (kind, &node.value) else { return None };
            let count = |node| integer(node).filter(|count| (min..=max).contains(count))?.try_into().ok();
            nodes.iter().map(count).collect()
        })
    }

    pub fn size<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        let given = self.read(name, |kind, node| {
            let Kind::Size { min, max } = kind else { return None };
            let size = integer(node).or_else(|| value::size(text(node)?));
            size.filter(|size| (min..=max).contains(size))?.try_into().ok()
        });
        given.map(|given| given.value)
    }

    /// Bytes per second.
    pub fn byte_rate(&self, name: &str) -> Option<u64> {
        let given = self.read(name, |kind, node| {
            let Kind::ByteRate { min, max } = kind else { return None };
            let rate = integer(node).or_else(|| value::byte_rate(text(node)?));
            rate.filter(|rate| (min..=max).contains(rate))
        });
        given.map(|given| given.value)
    }

    pub fn duration(&self, name: &str) -> Option<Duration> {
        let given = self.read(name, |kind, node| {
            let Kind::Time { min, max } = kind else { return None };
            let duration = integer(node).map(Duration::from_secs).or_else(|| value::duration(text(node)?));
            duration.filter(|duration| (min..=max).contains(duration))
        });
        given.map(|given| given.value)
    }

    /// A count, and the period in which it may come.
    pub fn rate(&self, name: &str) -> Option<(u64, Duration)> {
        let given = self.read(name, |kind, node| {
            let Kind::Rate { max } = kind else { return None };
            let per_second = integer(node).map(|count| (count, Duration::from_secs(1)));
            let rate = per_second.or_else(|| value::rate(text(node)?));
            rate.filter(|(count, _)| (1..=max).contains(count))
        });
        given.map(|given| given.value)
    }

    /// One of the words that the key takes.
    pub fn choice(&self, name: &str) -> Option<&'static str> {
        let given = self.read(name, |kind, node| match kind {
            Kind::Choice(words) => word(words, node),
            _ => None,
        })?;
        self.mark(name, given.value, given.place);
        Some(given.value)
    }

    /// Distinct words of those that the key takes.
    pub fn choices(&self, name: &str) -> Option<Vec<&'static str>> {
        let given = self.read(name, |kind, node| match (kind, &node.value) {
            (Kind::Choices(words), Value::Array(nodes)) => distinct(words, nodes),
            _ => None,
        });
        given.map(|given| given.value)
    }

    /// As `choices`, or a flag.
    pub fn flag_or_choices(&self, name: &str) -> Option<FlagOrChoices> {
        let given = self.read(name, |kind, node| match (kind, &node.value) {
            (Kind::FlagOrChoices(_), Value::Flag(flag)) => Some(FlagOrChoices::Flag(*flag)),
            (Kind::FlagOrChoices(words), Value::Array(nodes)) => {
                distinct(words, nodes).map(FlagOrChoices::Choices)
            }
            _ => None,
        });
        given.map(|given| given.value)
    }

    /// `Some(None)`: `false`, where the key takes it.
    pub fn sink(&self, name: &str) -> Option<Option<Sink>> {
        if let Some(Entry { place, node, .. }) = self.table.get(name)
            && let Some(value) = text(node).filter(|path| is_for_a_shell(path))
        {
            self.reject_shell_path(name, &Given { place, value });
            return None;
        }
        let given = self.read(name, |kind, node| match node.value {
            Value::Flag(false) if kind == Kind::SinkOrFalse => Some(None),
            _ => Sink::parse(text(node)?, node.place.folder()).map(Some),
        })?;
        match &given.value {
            Some(Sink::File(path)) => self.mark(name, path, given.place),
            Some(Sink::Command(words)) => self.mark(name, &words[0], given.place),
            _ => {}
        }
        Some(given.value)
    }

    /// The entries of a table with any keys.
    pub fn pairs(&self, name: &str) -> &'c [Entry] {
        self.read(name, |_, node| table(node)).map_or(&[], |given| &given.value.entries)
    }

    /// Reports that the value of `name` breaks its kind.
    pub fn reject(&self, name: &str, place: &Place, what: &str) {
        let expected = keys::find(self.scope, name).map_or(String::new(), |key| key.kind.expected());
        self.errors.add(place, format!("\"{name}\" {what}"), format!("expected {expected}"));
    }

    /// Reports those of `names` that the section has.
    pub fn reject_keys(&self, names: &[&str], what: &str, what_to_do: &str) {
        for name in names.iter().filter(|name| self.has(name)) {
            self.errors.add(self.place_of(name), format!("\"{name}\" {what}"), what_to_do);
        }
    }

    fn read<T>(&self, name: &str, parse: impl FnOnce(Kind, &'c Node) -> Option<T>) -> Option<Given<'c, T>> {
        let entry = self.table.get(name)?;
        let key = keys::find(self.scope, name)?;
        let parsed = parse(key.kind, &entry.node);
        if parsed.is_none() {
            self.reject(name, &entry.place, &found(&entry.node));
        }
        parsed.map(|value| Given { place: &entry.place, value })
    }

    /// Reads a path pattern. `None`: after an error.
    pub fn pattern(&self, text: &str, place: &Place) -> Option<Pattern> {
        let reject = |error: PatternError| {
            let what = format!("\"{}\" is not a path pattern", text.escape_debug());
            self.errors.add(place, what, error.to_string());
        };
        let pattern = Pattern::parse(text).map_err(reject).ok()?;
        self.warn_of_pattern(text, place);
        Some(pattern)
    }

    /// Warns of what a pattern can have, and hardly means: a query, or characters that are percent-encoded.
    pub fn warn_of_pattern(&self, text: &str, place: &Place) {
        let shown = text.escape_debug();
        let decoded = percent_decoded(text);
        if decoded != text {
            let what =
                format!("the pattern \"{shown}\" has a percent-encoding, and paths are compared decoded");
            self.errors.warn(place, what, format!("write \"{}\"", decoded.escape_debug()));
        }
        if text.split_once('?').is_some_and(|(_, query)| query.contains('=')) {
            let what = format!("the pattern \"{shown}\" is for a path, in which ? stands for one character");
            self.errors.warn(place, what, "write the query to \"query\" of a [[rule]], or leave it out");
        }
    }

    /// The text of an entry of a table with any keys. `None`: after an error, which says what is expected.
    pub fn text_of<'e>(&self, entry: &'e Entry, expected: &str) -> Option<&'e str> {
        let found = text(&entry.node);
        if found.is_none() {
            let what = format!("\"{}\" cannot be {}", entry.key.escape_debug(), entry.node.value.kind());
            self.errors.add(&entry.place, what, format!("expected {expected}"));
        }
        found
    }
}

/// A pattern without its percent-encodings of visible ASCII and spaces.
fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && !b"%/*?".contains(byte);
        match hex_byte(part.as_bytes()).filter(is_plain) {
            Some(byte) => {
                decoded.push(byte.into());
                decoded.push_str(&part[2..]);
            }
            None => {
                decoded.push('%');
                decoded.push_str(part);
            }
        }
    }
    decoded
}

/// Whether a path begins with what a shell replaces: a home folder, or a variable of the environment. Names such as
/// `$host` are replaced here.
fn is_for_a_shell(path: &str) -> bool {
    let is_variable =
        |name: &str| name.trim_start_matches('{').starts_with(|char: char| char.is_ascii_uppercase());
    path == "~" || path.starts_with("~/") || path.strip_prefix('$').is_some_and(is_variable)
}

/// The first part of a table that consists of sections: `[[host.route]]` without a `[[host]]` makes one.
fn part_alone(table: &Table, scope: Scope) -> Option<&str> {
    let is_part = |entry: &Entry| entry.node.value.is_section() && keys::find(scope, &entry.key).is_some();
    table.entries.first().filter(|_| table.entries.iter().all(is_part)).map(|part| part.key.as_str())
}

/// `cannot be …`, with the value if it is short.
fn found(node: &Node) -> String {
    match &node.value {
        Value::Text(text) if text.len() <= 40 => format!("cannot be \"{}\"", text.escape_debug()),
        Value::Integer(number) if *number != i128::MAX => format!("cannot be {number}"),
        Value::Flag(flag) => format!("cannot be {flag}"),
        Value::Array(_) => "cannot be this array".to_owned(),
        other => format!("cannot be {}", other.kind()),
    }
}

pub fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

pub fn integer(node: &Node) -> Option<u64> {
    match node.value {
        Value::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

pub fn table(node: &Node) -> Option<&Table> {
    match &node.value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

fn distinct(words: &'static [&'static str], nodes: &[Node]) -> Option<Vec<&'static str>> {
    let chosen = nodes.iter().map(|node| word(words, node)).collect::<Option<Vec<_>>>()?;
    let twice = (1..chosen.len()).any(|at| chosen[..at].contains(&chosen[at]));
    (!twice).then_some(chosen)
}

fn word(words: &'static [&'static str], node: &Node) -> Option<&'static str> {
    let text = text(node)?;
    words.iter().find(|word| **word == text).copied()
}
