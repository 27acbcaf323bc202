//! The assignments and conditions of lighttpd.conf, with the files that it includes. Variables are replaced.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use crate::disk::Disk;
use crate::draft::Draft;
use crate::tree::{MAX_BYTES, MAX_DEPTH, MAX_DIRECTIVES, MAX_FILES, Place};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    Text(String),
    /// Each with its key, if it has one.
    List(Vec<(Option<String>, Datum)>),
}

impl Datum {
    pub fn text(&self) -> &str {
        match self {
            Datum::Text(text) => text,
            Datum::List(_) => "",
        }
    }

    pub fn number(&self) -> Option<i64> {
        self.text().parse().ok()
    }

    /// The value of a key in a list.
    pub fn option(&self, wanted: &str) -> Option<&Datum> {
        self.pairs().into_iter().find(|(name, _)| *name == wanted).map(|(_, datum)| datum)
    }

    /// The texts of a list, or the text alone.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Datum::Text(text) => vec![text.clone()],
            Datum::List(all) => all.iter().map(|(_, datum)| datum.text().to_owned()).collect(),
        }
    }

    /// The pairs of a list that have a key.
    pub fn pairs(&self) -> Vec<(&str, &Datum)> {
        match self {
            Datum::Text(_) => Vec::new(),
            Datum::List(all) => {
                all.iter().filter_map(|(key, datum)| Some((key.as_deref()?, datum))).collect()
            }
        }
    }

    /// Bytes, about.
    fn size(&self) -> usize {
        match self {
            Datum::Text(text) => text.len() + 32,
            Datum::List(all) => {
                all.iter().map(|(key, datum)| key.as_ref().map_or(32, String::len) + datum.size()).sum()
            }
        }
    }

    pub fn is_on(&self) -> bool {
        matches!(self.text(), "enable" | "1" | "true")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    Set {
        name: String,
        value: Datum,
        place: Place,
    },
    /// `$HTTP["host"] == "a" { … }`. `is_else`: it counts where none of the conditions before it does. An `else` without
    /// a condition has no field.
    When {
        field: String,
        operator: String,
        operand: String,
        is_else: bool,
        block: Vec<Statement>,
        place: Place,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(&'static str),
}

/// Places of a file that cannot be read.
const MAX_MISTAKES: usize = 100;

const SIGNS: [&str; 16] =
    ["=>", "==", "!=", "=~", "!~", "=^", "=$", "+=", ":=", "=", "(", ")", "{", "}", ",", "+"];

pub struct Reader<'r> {
    disk: &'r dyn Disk,
    folder: &'r Path,
    variables: BTreeMap<String, Datum>,
    statements: usize,
    files: usize,
    bytes: Cell<usize>,
}

struct Tokens<'t> {
    all: Vec<(Token, u32)>,
    at: usize,
    place: &'t dyn Fn(u32) -> Place,
}

impl Tokens<'_> {
    fn peek(&self) -> Option<&Token> {
        self.all.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek()?.clone();
        self.at += 1;
        Some(token)
    }

    fn takes(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn here(&self) -> Place {
        let last = self.all.len().saturating_sub(1);
        (self.place)(self.all.get(self.at.min(last)).map_or(1, |(_, line)| *line))
    }
}

impl<'r> Reader<'r> {
    pub fn new(disk: &'r dyn Disk, folder: &'r Path) -> Reader<'r> {
        Reader { disk, folder, variables: BTreeMap::new(), statements: 0, files: 0, bytes: Cell::new(0) }
    }

    pub fn read(&mut self, bytes: &[u8], draft: &mut Draft) -> Vec<Statement> {
        self.file(bytes, &Place::at, 0, draft)
    }

    fn file(
        &mut self,
        bytes: &[u8],
        place: &dyn Fn(u32) -> Place,
        depth: usize,
        draft: &mut Draft,
    ) -> Vec<Statement> {
        let mut tokens = Tokens { all: tokens(&draft.text(bytes, place)), at: 0, place };
        let mut all = Vec::new();
        let mut mistakes = 0;
        while tokens.peek().is_some() {
            let before = tokens.at;
            all.extend(self.block(&mut tokens, depth, draft));
            if tokens.peek().is_some() {
                mistakes += 1;
                if mistakes > MAX_MISTAKES {
                    draft.error(&tokens.here(), "too much cannot be read", "correct the lines before");
                    break;
                }
                draft.error(&tokens.here(), "this cannot be read", "write it as NAME = VALUE");
                tokens.at = tokens.at.max(before) + 1;
            }
        }
        all
    }

    /// Statements until a `}` or what is none.
    fn block(&mut self, tokens: &mut Tokens, depth: usize, draft: &mut Draft) -> Vec<Statement> {
        let mut all = Vec::new();
        let mut is_after_condition = false;
        while let Some(Token::Word(word)) = tokens.peek().cloned() {
            let place = tokens.here();
            self.statements += 1;
            if self.statements >= MAX_DIRECTIVES || depth > MAX_DEPTH {
                draft.error(
                    &place,
                    "there are more than 20000 statements, or they are more than 16 deep",
                    "write fewer",
                );
                tokens.at = tokens.all.len();
                return all;
            }
            tokens.at += 1;
            match word.as_str() {
                "include" => {
                    let pattern = self.value(tokens, 0).unwrap_or(Datum::Text(String::new()));
                    all.extend(self.include(pattern.text(), &place, depth, draft));
                }
                "include_shell" => {
                    let command = self.value(tokens, 0).unwrap_or(Datum::Text(String::new()));
                    include_shell(command.text(), &place, draft);
                }
                "else" | "elseif" | "elsif" => {
                    if word == "else" && tokens.peek() == Some(&Token::Word("if".into())) {
                        tokens.at += 1;
                    }
                    match self.condition(tokens, is_after_condition, place.clone(), depth, draft) {
                        Some(when) => all.push(when),
                        None => return all,
                    }
                    continue;
                }
                word if word.starts_with('$') => {
                    tokens.at -= 1;
                    match self.condition(tokens, false, place, depth, draft) {
                        Some(when) => all.push(when),
                        None => return all,
                    }
                    is_after_condition = true;
                    continue;
                }
                name => match self.assignment(name, tokens, place) {
                    Some(set) => all.extend(set),
                    None => return all,
                },
            }
            is_after_condition = false;
        }
        all
    }

    fn condition(
        &mut self,
        tokens: &mut Tokens,
        is_else: bool,
        place: Place,
        depth: usize,
        draft: &mut Draft,
    ) -> Option<Statement> {
        let (mut field, mut operator, mut operand) = (String::new(), String::new(), String::new());
        if let Some(Token::Word(word)) = tokens.peek().cloned() {
            tokens.at += 1;
            field = word;
            match (tokens.next()?, self.value(tokens, 0)?) {
                (Token::Sign(sign), value) => {
                    (operator, operand) = (sign.to_owned(), value.text().to_owned())
                }
                _ => return None,
            }
        }
        if !tokens.takes("{") {
            return None;
        }
        let block = self.block(tokens, depth + 1, draft);
        if !tokens.takes("}") {
            draft.error(&tokens.here(), "a block is not closed", "add \"}\" at its end");
        }
        Some(Statement::When { field, operator, operand, is_else, block, place })
    }

    /// `Some(None)`: the value of a variable, which is remembered. `None`: it is no assignment.
    fn assignment(&mut self, name: &str, tokens: &mut Tokens, place: Place) -> Option<Option<Statement>> {
        let Token::Sign(sign @ ("=" | "+=" | ":=")) = tokens.next()? else {
            tokens.at -= 1;
            return None;
        };
        let mut value = self.value(tokens, 0)?;
        if name.starts_with("var.") || !name.contains('.') {
            let name = name.trim_start_matches("var.").to_owned();
            if sign == "+="
                && let Some(old) = self.variables.remove(&name)
            {
                value = joined(old, value);
            }
            self.variables.insert(name, value);
            return Some(None);
        }
        // A list that is extended is set for each part: the reader of statements adds them up.
        let name = if sign == "+=" { format!("{name}+") } else { name.to_owned() };
        Some(Some(Statement::Set { name, value, place }))
    }

    /// Parts with `+` between them.
    fn value(&self, tokens: &mut Tokens, depth: usize) -> Option<Datum> {
        let mut value = self.part(tokens, depth)?;
        while tokens.takes("+") {
            value = joined(value, self.part(tokens, depth)?);
        }
        Some(value)
    }

    fn part(&self, tokens: &mut Tokens, depth: usize) -> Option<Datum> {
        if depth > MAX_DEPTH {
            return None;
        }
        match tokens.next()? {
            Token::Text(text) => Some(Datum::Text(text)),
            Token::Word(word) => {
                let name = word.trim_start_matches("var.");
                let Some(value) = self.variables.get(name) else { return Some(Datum::Text(word)) };
                self.bytes.set(self.bytes.get() + value.size());
                (self.bytes.get() <= MAX_BYTES).then(|| value.clone())
            }
            Token::Sign("(") => {
                let mut all = Vec::new();
                while !tokens.takes(")") {
                    if tokens.takes(",") {
                        continue;
                    }
                    let first = self.value(tokens, depth + 1)?;
                    match tokens.takes("=>") {
                        true => all.push((Some(first.text().to_owned()), self.value(tokens, depth + 1)?)),
                        false => all.push((None, first)),
                    }
                }
                Some(Datum::List(all))
            }
            Token::Sign(_) => {
                tokens.at -= 1;
                None
            }
        }
    }

    fn include(&mut self, pattern: &str, place: &Place, depth: usize, draft: &mut Draft) -> Vec<Statement> {
        let found = draft.files(self.disk, &self.folder.join(pattern), place);
        if found.is_empty() && !pattern.contains('*') {
            draft.error(
                place,
                format!("include \"{pattern}\": there is no such file"),
                "write the path of a file",
            );
        }
        let mut all = Vec::new();
        for path in found {
            self.files += 1;
            let bytes = match self.disk.read(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    let what = format!("{} cannot be read: {error}", path.display());
                    draft.error(place, what, "check its permissions");
                    continue;
                }
            };
            self.bytes.set(self.bytes.get() + bytes.len());
            if self.files > MAX_FILES || self.bytes.get() > MAX_BYTES || depth >= MAX_DEPTH {
                draft.error(
                    place,
                    "more than 500 files or 8 MiB are included, or more than 16 deep",
                    "include less",
                );
                break;
            }
            let name = path.display().to_string();
            all.extend(self.file(&bytes, &|line| place.within(&name, line), depth + 1, draft));
        }
        all
    }
}

fn include_shell(command: &str, place: &Place, draft: &mut Draft) {
    if command.contains("create-mime") {
        return draft.note(place, "include_shell of media types is not run: they are built in", "see types");
    }
    if command.contains("use-ipv6") {
        return draft.note(
            place,
            "include_shell of IPv6 is not run",
            "add the address \"[::]:80\" to listen",
        );
    }
    draft.error(
        place,
        format!("include_shell \"{}\" is not run", command.escape_debug()),
        "include a file in its place",
    );
}

fn joined(first: Datum, second: Datum) -> Datum {
    const LONGEST: usize = 64 << 10;
    match (first, second) {
        (Datum::Text(first), Datum::Text(second)) if first.len() + second.len() <= LONGEST => {
            Datum::Text(first + &second)
        }
        (Datum::List(mut first), Datum::List(second)) if first.len() + second.len() <= LONGEST => {
            first.extend(second);
            Datum::List(first)
        }
        (first, _) => first,
    }
}

fn tokens(text: &str) -> Vec<(Token, u32)> {
    let mut all = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\n' {
            line += 1;
        }
        if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
        } else if c == '#' {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if c == '"' || c == '\'' {
            let begun = line;
            let mut word = String::new();
            let mut chars = rest.char_indices().skip(1);
            let mut end = rest.len();
            while let Some((at, inner)) = chars.next() {
                line += u32::from(inner == '\n');
                match inner {
                    inner if inner == c => {
                        end = at + 1;
                        break;
                    }
                    '\\' if c == '"' => match chars.next() {
                        Some((_, next @ ('"' | '\\'))) => word.push(next),
                        Some((_, next)) => word.extend(['\\', next]),
                        None => {}
                    },
                    inner => word.push(inner),
                }
            }
            all.push((Token::Text(word), begun));
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            all.push((Token::Sign(sign), line));
            rest = &rest[sign.len()..];
        } else {
            let is_end = |c: char| c.is_whitespace() || "=!+,(){}:#".contains(c);
            let end = rest.char_indices().skip(1).find(|(_, c)| is_end(*c)).map_or(rest.len(), |(at, _)| at);
            all.push((Token::Word(rest[..end].to_owned()), line));
            rest = &rest[end..];
        }
    }
    all
}
