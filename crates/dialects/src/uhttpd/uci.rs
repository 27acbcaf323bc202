//! The files of `/etc/config`: sections of options and lists, in words that may be quoted.
//!
//! Knows nothing of what they mean.

use crate::finding::Findings;

/// Sections, and entries of one of them.
const MAX: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    pub kind: String,
    /// Empty if it has none.
    pub name: String,
    pub line: u32,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    pub name: String,
    pub value: String,
    pub line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The last one counts.
    Option,
    /// Each one counts.
    List,
}

impl Section {
    /// The last value.
    pub fn value(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.name == name)
    }
}

/// The sections of a file. Errors are reported.
pub fn read(text: &str, findings: &mut Findings) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for Statement { words, line } in statements(text, findings) {
        if findings.is_full(line) {
            break;
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (words.as_slice(), sections.last_mut()) {
            (["package", _], _) => {}
            (["config", kind], _) => sections.push(Section::new(kind, "", line)),
            (["config", kind, name], _) => sections.push(Section::new(kind, name, line)),
            ([word @ ("option" | "list"), name, value], Some(section)) => {
                let kind = if *word == "list" { EntryKind::List } else { EntryKind::Option };
                let (name, value) = ((*name).to_owned(), (*value).to_owned());
                section.entries.push(Entry { kind, name, value, line });
                if section.entries.len() > MAX {
                    findings.error(Some(line), format!("a section has more than {MAX} options"), "split it");
                    break;
                }
            }
            (["option" | "list", _, _], None) => {
                findings.error(
                    Some(line),
                    "this option is in no section",
                    "write config uhttpd in front of it",
                );
            }
            (words, _) => {
                let what = format!("\"{}\" is no statement", words.join(" ").escape_debug());
                findings.error(
                    Some(line),
                    what,
                    "write config TYPE NAME, option NAME VALUE or list NAME VALUE",
                );
            }
        }
        if sections.len() > MAX {
            findings.error(Some(line), format!("there are more than {MAX} sections"), "split the file");
            break;
        }
    }
    sections
}

impl Section {
    fn new(kind: &str, name: &str, line: u32) -> Section {
        Section { kind: kind.to_owned(), name: name.to_owned(), line, entries: Vec::new() }
    }
}

struct Statement {
    words: Vec<String>,
    /// Where it begins.
    line: u32,
}

/// What the characters are in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Bare,
    Single,
    Double,
}

/// A statement ends with its line, or with a semicolon. A word in quotes may have both.
fn statements(text: &str, findings: &mut Findings) -> Vec<Statement> {
    let mut all = Vec::new();
    let (mut words, mut begun): (Vec<String>, u32) = (Vec::new(), 1);
    let mut word: Option<String> = None;
    let (mut line, mut opened, mut place) = (1, 1, Place::Bare);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if words.is_empty() && word.is_none() {
            begun = line;
        }
        if c == '\n' {
            line += 1;
        }
        match (place, c) {
            (Place::Single, '\'') | (Place::Double, '"') => place = Place::Bare,
            (Place::Double | Place::Bare, '\\') => match chars.next() {
                Some('\n') => line += 1,
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => {}
            },
            (Place::Single | Place::Double, c) => word.get_or_insert_default().push(c),
            (Place::Bare, '\'' | '"') => {
                (place, opened) = (if c == '"' { Place::Double } else { Place::Single }, line);
                word.get_or_insert_default();
            }
            (Place::Bare, '#') => while chars.next_if(|c| *c != '\n').is_some() {},
            (Place::Bare, c) if c == '\n' || c == ';' => {
                words.extend(word.take());
                if !words.is_empty() {
                    all.push(Statement { words: std::mem::take(&mut words), line: begun });
                }
            }
            (Place::Bare, c) if c.is_whitespace() => words.extend(word.take()),
            (Place::Bare, c) => word.get_or_insert_default().push(c),
        }
    }
    if place != Place::Bare {
        findings.error(Some(opened), "this quote does not end", "add the other one");
        return all;
    }
    words.extend(word);
    if !words.is_empty() {
        all.push(Statement { words, line: begun });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn all(text: &str) -> (Vec<String>, Vec<String>) {
        let mut findings = Findings::default();
        let sections = read(text, &mut findings);
        let entry = |entry: &Entry| format!("{}={}@{}", entry.name, entry.value, entry.line);
        let shown = |section: &Section| {
            let entries: Vec<String> = section.entries.iter().map(entry).collect();
            format!("{} {} {}", section.kind, section.name, entries.join(" "))
        };
        let errors = findings.into_sorted();
        assert!(errors.iter().all(|finding| finding.severity == Severity::Error));
        let errors = errors.iter().map(|finding| format!("{:?} {}", finding.line, finding.what));
        (sections.iter().map(shown).collect(), errors.collect())
    }

    #[test]
    fn reads_words_quotes_and_comments() {
        for (text, expected) in [
            ("config uhttpd main\n\toption home /www # root\n", &["uhttpd main home=/www@2"][..]),
            ("config 'uhttpd' \"main\"\r\n list a 'b c'\r\n list a d\r\n", &["uhttpd main a=b c@2 a=d@3"]),
            ("package x\nconfig u; option a b; option c 'd;e'", &["u  a=b@2 c=d;e@2"]),
            ("config u\noption a b'c d'\"e\"\\ f", &["u  a=bc de f@2"]),
            ("config u\noption a ''\noption b \"x\\\"y\"", &["u  a=@2 b=x\"y@3"]),
            ("config u\noption a 'two\nlines'\noption b c", &["u  a=two\nlines@2 b=c@4"]),
            ("config u\noption a \\\nb\noption c d", &["u  a=b@2 c=d@4"]),
            ("config u\noption color '#fff'#x", &["u  color=#fff@2"]),
            ("", &[]),
        ] {
            let (sections, errors) = all(text);
            assert_eq!(sections, expected, "{text}");
            assert_eq!(errors, Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn names_the_lines_of_mistakes() {
        for (text, expected) in [
            ("option a b", "Some(1) this option is in no section"),
            ("config\n", "Some(1) \"config\" is no statement"),
            ("config u\noption a\n", "Some(2) \"option a\" is no statement"),
            ("config u\noption a b c\n", "Some(2) \"option a b c\" is no statement"),
            ("config u\n\noption a 'b\nc", "Some(3) this quote does not end"),
            ("confg u\n", "Some(1) \"confg u\" is no statement"),
        ] {
            assert_eq!(all(text).1, [expected], "{text}");
        }
    }
}
