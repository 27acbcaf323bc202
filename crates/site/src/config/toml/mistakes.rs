//! What is wrong with a text that is not TOML, in plain words, and what to do.
//!
//! Knows no keys. The parser says where a rule of the grammar is broken; this says which mistake breaks it.

use std::path::Path;

use toml::de::Error;

use super::super::error::{MAX_ERRORS, Place};
use super::Lines;
use super::unclosed::{Open, unclosed};

/// What is wrong, and what to do.
pub type Advice = (String, String);

/// Reports the mistakes, at most one of each line.
pub fn report(text: &str, lines: &Lines, found: &[Error]) {
    if found.is_empty() {
        return;
    }
    let add = |place: &Place, (what, to_do): Advice| {
        lines.errors.add(place, format!("not valid TOML: {what}"), to_do);
    };
    let unclosed = unclosed(text);
    let mut last = None;
    // One mistake often breaks several rules of the grammar. The first error of a line describes it.
    let first_of_line = |error| {
        let start = Error::span(error).unwrap_or_default().start;
        let place = lines.place(start);
        (last.replace(place.line) != Some(place.line)).then_some((error, start, place))
    };
    let mut form = None;
    for (error, start, place) in found.iter().filter_map(first_of_line).take(MAX_ERRORS) {
        let line = lines.line(text, &place);
        let of_line = Form::of(line);
        match of_line {
            // The end of JSON.
            None if form == Some(Form::Colon) && line.trim() == "}" => continue,
            // The whole file has it.
            Some(_) if form == of_line => continue,
            Some(found) => {
                form = of_line;
                add(&place, found.explained(&place.file));
                match found {
                    Form::Server => break,
                    Form::Colon => continue,
                }
            }
            None => {}
        }
        match unclosed {
            // What follows belongs to it, and was read wrongly.
            Some(open) if open.at <= start => {
                add(&lines.place(open.at), open.explained());
                break;
            }
            _ => add(&place, odd_space(line).unwrap_or_else(|| At { text, line, start }.explained(error))),
        }
    }
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
            // TOML with a mistake.
            _ if line.split_once('=').is_some_and(|(key, _)| is_key(key.trim())) => None,
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
    fn explained(self, file: &Path) -> Advice {
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
const NOT_QUOTED: [&str; 7] = [
    "string values must be quoted",
    "missing opening quote",
    "invalid mantissa",
    "invalid float",
    "invalid date-time",
    "invalid boolean",
    "unexpected leading zero",
];

/// What the parser says about a text that does not end in its line.
const UNCLOSED: [&str; 2] = ["invalid basic string, expected `\"`", "invalid literal string, expected `'`"];

/// What the parser says about the line of a heading.
const OF_A_HEADING: [&str; 5] = [
    "unclosed table",
    "unclosed array table",
    "unquoted keys cannot be empty",
    "unexpected key or value",
    "key with no value",
];

/// Mistakes that need no look at the text: how the parser's words about them begin, what is wrong, and what to do.
const PLAIN: [(&str, &str, &str); 10] = [
    ("extra comma", "there is one comma too many", "remove it"),
    ("extra `=`", "there is one equals sign too many", "remove it"),
    ("extra assignment", "there is no comma between two keys", "write one"),
    ("unexpected `=` in array", "an array has a key in it", "write keys between braces: { key = \"value\" }"),
    ("unquoted keys cannot be empty", "a key is missing, or a part of one at a dot", "write key = \"value\""),
    ("invalid inline table element", "a key has no value", "write key = \"value\" between the braces"),
    ("invalid basic string, expected non", CONTROL, ESCAPE_IT),
    ("invalid multi-line basic string, expected", CONTROL, ESCAPE_IT),
    ("invalid literal string, expected non", CONTROL, "remove it"),
    ("invalid comment character", "a comment has a control character in it", "remove it"),
];

const CONTROL: &str = "a text has a control character in it";
const ESCAPE_IT: &str = "remove it, or write \\u and its four hexadecimal digits in its place";

/// What the parser says about a number.
const NOT_A_NUMBER: [&str; 6] = [
    "`_` may only go between digits",
    "redundant numeric sign",
    "unexpected sign",
    "invalid integer",
    "integers with a radix",
    "radix must be",
];

/// Where the parser has found an error.
struct At<'t> {
    text: &'t str,
    line: &'t str,
    /// An offset in the text.
    start: usize,
}

impl At<'_> {
    fn explained(&self, error: &Error) -> Advice {
        let message = error.message();
        let begins = |begin: &&str| message.starts_with(begin);
        if self.line.trim_start().starts_with('[') && OF_A_HEADING.iter().any(begins) {
            return self.heading();
        }
        if NOT_QUOTED.iter().any(begins) {
            return self.not_quoted();
        }
        if NOT_A_NUMBER.iter().any(begins) {
            return (format!("{} is not a number", self.word()), "write it in digits, such as 10".to_owned());
        }
        if UNCLOSED.contains(&message) {
            return Open { at: self.start, sign: "\"" }.explained();
        }
        match message.split(',').next().unwrap_or_default() {
            "duplicate key" => self.twice(error),
            "key with no value" => self.no_equals_sign(),
            "missing assignment between key-value pairs" => colon(),
            "unexpected key or value" => self.behind_the_value(),
            "invalid unquoted key" => {
                let word = self.word();
                (format!("the key {word} needs quotation marks"), format!("write \"{word}\""))
            }
            "missing comma between array elements" => self.no_comma("elements"),
            "missing comma between key-value pairs" => self.no_comma("keys"),
            _ => plain(message),
        }
    }

    /// The word at the error, or the sign.
    fn word(&self) -> String {
        let word = match word_at(self.text, self.start) {
            "" => self.rest().get(..self.rest().chars().next().map_or(0, char::len_utf8)).unwrap_or_default(),
            word => word,
        };
        shown(word)
    }

    /// What begins at the error.
    fn rest(&self) -> &str {
        self.text.get(self.start..).unwrap_or_default().lines().next().unwrap_or_default()
    }

    /// The value that begins at the error, if it is of several words.
    fn words(&self) -> Option<&str> {
        let value = self.rest().split([',', ']', '}', '#']).next()?.trim();
        (value.contains(' ') && !value.contains(['=', '"', '\''])).then_some(value)
    }

    fn heading(&self) -> Advice {
        let line = self.line.trim();
        let signs = line.trim_start_matches(['[', ' ']);
        let name = signs.split(|char: char| char.is_whitespace() || "]#=\"'".contains(char)).next();
        let name = Some(name.unwrap_or_default().trim_matches('.')).filter(|name| !name.is_empty());
        let is_of_many = ["[[", "[ [", "]]", "] ]"].iter().any(|signs| line.contains(signs));
        let heading = shown(name.unwrap_or("section"));
        let heading = if is_of_many { format!("[[{heading}]]") } else { format!("[{heading}]") };
        ("the heading of a section is malformed".to_owned(), format!("write {heading} in a line of its own"))
    }

    fn not_quoted(&self) -> Advice {
        let word = word_at(self.text, self.start);
        let bare = self.words().unwrap_or(word);
        let bare = bare.trim_matches(['\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}', '"', '\'']);
        let value = match bare.to_ascii_lowercase().as_str() {
            "" => return ("the key has no value".to_owned(), "write one behind the equals sign".to_owned()),
            "true" => "true".to_owned(),
            "false" => "false".to_owned(),
            "on" | "yes" => format!("true, or {bare:?}"),
            "off" | "no" => format!("false, or {bare:?}"),
            _ => format!("{bare:?}"),
        };
        (format!("{} is neither quoted nor a number", shown(word)), format!("write {value}"))
    }

    fn twice(&self, error: &Error) -> Advice {
        let key = self.text.get(error.span().unwrap_or_default()).unwrap_or_default();
        let key = shown(key.trim_matches(['"', '\'']));
        let times = |heading: &str| self.text.lines().filter(|line| line.trim() == heading).take(2).count();
        let parts = [format!("[{key}."), format!("[[{key}.")];
        let before = self.text.get(..self.start).unwrap_or_default();
        let part = before.lines().find(|line| parts.iter().any(|part| line.trim_start().starts_with(part)));
        if let Some(part) = part.filter(|_| self.line.trim_start().starts_with('[')) {
            let what = format!("{} stands below its part {}", shown(self.line.trim()), shown(part.trim()));
            return (what, "write the part below it".to_owned());
        }
        let to_do = match (times(&format!("[{key}]")), times(&format!("[[{key}]]"))) {
            (1.., 1..) => format!("write [[{key}]] each time"),
            (2.., 0) => "write the keys of both below one of them".to_owned(),
            _ => "remove one of them".to_owned(),
        };
        (format!("\"{key}\" is given twice"), to_do)
    }

    fn no_equals_sign(&self) -> Advice {
        if ["//", "/*", "*", ";", "-- ", "!"].iter().any(|sign| self.line.trim_start().starts_with(sign)) {
            return ("the line has no key".to_owned(), "write # in front of a comment".to_owned());
        }
        let key = self.line.split('=').next().unwrap_or_default();
        let is_word = |word: &str| word.chars().all(|char| char.is_alphanumeric() || "_-".contains(char));
        let words: Vec<&str> = key.split_whitespace().collect();
        if self.line.contains('=') && words.len() > 1 && words.iter().all(|word| is_word(word)) {
            let what = format!("the key \"{}\" has a space in it", words.join(" "));
            return (what, format!("write {}", words.join("_")));
        }
        if self.rest().starts_with([':', '+', '?']) {
            return colon();
        }
        let what = format!("{} has no equals sign behind it", self.word());
        (what, "write key = \"value\", [section], or # in front of a comment".to_owned())
    }

    fn behind_the_value(&self) -> Advice {
        let (what, to_do) = match self.rest().chars().next() {
            _ if self.line.contains("=>") => return colon(),
            _ if self.lacks_a_quotation_mark() => return no_quotation_mark(),
            Some(';') => ("there is a semicolon behind the value", "remove it"),
            Some(',') => {
                ("there is a comma behind the value", "write several values as an array: [\"a\", \"b\"]")
            }
            Some(']') => ("there is one ] too many", "remove it"),
            Some('}') => ("there is one } too many", "remove it"),
            _ => {
                let what = format!("{} stands behind the value", self.word());
                let to_do = "put the whole value between quotation marks, and each key in a line of its own";
                return (what, to_do.to_owned());
            }
        };
        (what.to_owned(), to_do.to_owned())
    }

    /// Between two `parts` of an array or of a table.
    fn no_comma(&self, parts: &str) -> Advice {
        match self.rest().trim_start().strip_prefix(';') {
            _ if self.lacks_a_quotation_mark() => no_quotation_mark(),
            Some(_) => ("there is a semicolon".to_owned(), format!("write a comma between two {parts}")),
            None => {
                let what = format!("there is no comma in front of {}", self.word());
                (what, format!("write one between two {parts}"))
            }
        }
    }

    fn lacks_a_quotation_mark(&self) -> bool {
        self.line.matches('"').count() % 2 == 1
    }
}

/// A key with another sign behind it.
fn colon() -> Advice {
    let what = "there is no equals sign between a key and its value".to_owned();
    (what, "write key = \"value\"".to_owned())
}

fn no_quotation_mark() -> Advice {
    let to_do = "write one at the beginning and at the end of each text";
    ("a quotation mark is missing".to_owned(), to_do.to_owned())
}

/// A part of the file in a message, which stays in one line.
fn shown(part: &str) -> String {
    let escaped = |char: char| char.is_control().then(|| char.escape_debug().to_string());
    part.chars().map(|char| escaped(char).unwrap_or_else(|| char.to_string())).collect()
}

/// A mistake whose advice depends on the `message` of the parser alone.
fn plain(message: &str) -> Advice {
    if let Some((_, what, to_do)) = PLAIN.iter().find(|(begin, ..)| message.starts_with(begin)) {
        return ((*what).to_owned(), (*to_do).to_owned());
    }
    let to_do = match message.contains("escaped value") || message.contains("unicode value") {
        true => "write \\\\ for a backslash, or put the text between single quotation marks",
        false => "see https://toml.io",
    };
    (message.to_owned(), to_do.to_owned())
}

/// A character that looks like a space, but is none in TOML: texts that are copied from pages and documents have them.
/// What is wrong with it, and what to do.
fn odd_space(line: &str) -> Option<Advice> {
    let mut quote = None;
    for (before, char) in line.chars().enumerate() {
        match quote {
            Some(open) if char == open => quote = None,
            Some(_) => {}
            None if char == '#' => return None,
            None if "\"'".contains(char) => quote = Some(char),
            None if char == '\r' => {
                let what = format!("column {} has a carriage return without a line feed", before + 1);
                return Some((what, "store the file with line feeds".to_owned()));
            }
            None if !" \t".contains(char) && (char.is_whitespace() || "\u{200b}\u{feff}".contains(char)) => {
                let what = format!(
                    "column {} has a character that only looks like a space (U+{:04X})",
                    before + 1,
                    char as u32
                );
                return Some((what, "write a space there, or nothing".to_owned()));
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
