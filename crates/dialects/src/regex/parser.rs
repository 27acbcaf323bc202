//! Turns an expression without anchors into patterns.

use super::syntax::group;
use super::{MAX_ALTERNATIVES, Reading};
use crate::class::Class;

/// Characters of a class, such as `[op]`.
const MAX_CLASS: usize = 8;
/// Groups within groups.
pub const MAX_DEPTH: usize = 8;
/// Stands in front of the wildcard of `.+`, until it is known what precedes it.
pub const ONE_OR_MORE: char = '\u{1}';

pub struct Parser {
    text: Vec<char>,
    at: usize,
    reading: Reading,
}

/// The characters of a class that lists them, behind `[`. `None`: it is another one, or has too many.
pub fn listed(text: &[char], at: &mut usize) -> Option<Vec<char>> {
    let mut all = Vec::new();
    loop {
        let mut c = *text.get(*at)?;
        *at += 1;
        match c {
            ']' if !all.is_empty() => return (all.len() <= MAX_CLASS).then_some(all),
            '\\' => {
                c = text.get(*at).copied().filter(char::is_ascii_punctuation)?;
                *at += 1;
            }
            '^' | '-' | '[' | ']' => return None,
            _ => {}
        }
        if matches!(c, '*' | '?' | '/') {
            return None;
        }
        all.push(c);
    }
}

/// The classes of patterns that an expression begins with: a class and its quantifier, and how many characters they have.
/// `None`: it lists its characters, or patterns have no such class.
pub fn classes(text: &[char]) -> Option<(Vec<Vec<Class>>, usize)> {
    let mut at = 1;
    let lists = text.first() == Some(&'[') && listed(text, &mut at).is_some();
    if lists && !matches!(text.get(at), Some('*' | '+' | '{')) {
        return None;
    }
    let (class, length) = Class::read(text)?;
    let (all, quantifier) = class.repeated(&text[length..])?;
    Some((all, length + quantifier))
}

impl Parser {
    /// The patterns of an expression without anchors. `None`: patterns cannot say it.
    pub fn parse(expression: &str, reading: Reading) -> Option<Vec<String>> {
        let mut parser = Parser { text: expression.chars().collect(), at: 0, reading };
        let all = parser.alternatives(0)?;
        (parser.at == parser.text.len()).then_some(all)
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.text[self.at..].iter().copied().take(wanted.len()).eq(wanted.chars());
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn alternatives(&mut self, depth: usize) -> Option<Vec<String>> {
        let mut all = self.sequence(depth)?;
        while self.takes("|") {
            all.extend(self.sequence(depth)?);
        }
        (all.len() <= MAX_ALTERNATIVES).then_some(all)
    }

    fn sequence(&mut self, depth: usize) -> Option<Vec<String>> {
        let mut all = vec![String::new()];
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let one = self.atom(depth)?;
            all =
                all.iter().flat_map(|before| one.iter().map(move |part| format!("{before}{part}"))).collect();
            if all.len() > MAX_ALTERNATIVES {
                return None;
            }
        }
        Some(all)
    }

    /// The characters behind `[`.
    fn class(&mut self) -> Option<Vec<String>> {
        let begin = self.at;
        let listed = listed(&self.text, &mut self.at);
        if listed.is_some() || self.reading == Reading::Exact {
            return listed.map(|all| all.iter().map(char::to_string).collect());
        }
        self.at = begin;
        let is_negated = self.takes("^");
        let mut may_be_slash = is_negated;
        let mut is_first = true;
        loop {
            let c = self.peek()?;
            self.at += 1;
            match c {
                ']' if !is_first => return Some(any_character(may_be_slash)),
                '\\' => {
                    let escaped = self.peek()?;
                    self.at += 1;
                    may_be_slash |= !matches!(escaped, 'd' | 'w' | 's' | '-' | '_' | '.' | '[' | ']');
                }
                // A range may begin before the slash, and a class of POSIX may have it.
                '[' | ' '..='/' if c != '-' && self.peek() == Some('-') || matches!(c, '[' | '/') => {
                    may_be_slash = true;
                }
                _ => {}
            }
            is_first = false;
        }
    }

    fn atom(&mut self, depth: usize) -> Option<Vec<String>> {
        for (expression, pattern) in [(".*", "**".to_owned()), (".+", format!("{ONE_OR_MORE}**"))] {
            if self.takes(expression) {
                _ = self.takes("?");
                return Some(vec![pattern]);
            }
        }
        for (expression, pattern) in [("[^/]*", "*"), ("[^/]+", "?*"), ("[^/]", "?")] {
            if self.takes(expression) {
                return Some(vec![pattern.to_owned()]);
            }
        }
        let c = self.peek()?;
        self.at += 1;
        if self.reading == Reading::Exact
            && let Some(all) = self.classes()
        {
            return Some(all);
        }
        let one = match c {
            '[' => self.class()?,
            '(' if self.reading == Reading::Wider && self.takes_assertion() => {
                let rest: String = self.text[self.at..].iter().collect();
                self.at += group(&rest)?.chars().count() + 1;
                return Some(vec![String::new()]);
            }
            '(' => {
                if depth == MAX_DEPTH || (self.peek() == Some('?') && !self.takes("?:")) {
                    return None;
                }
                let all = self.alternatives(depth + 1)?;
                if !self.takes(")") {
                    return None;
                }
                all
            }
            '\\' => {
                let c = self.peek()?;
                self.at += 1;
                self.escaped(c)?
            }
            // They find no character.
            '^' | '$' if self.reading == Reading::Wider => return Some(vec![String::new()]),
            '.' if self.reading == Reading::Wider => any_character(true),
            '.' | '*' | '+' | '?' | ')' | ']' | '{' | '}' | '^' | '$' => return None,
            c => vec![c.to_string()],
        };
        match self.peek() {
            Some('*' | '+' | '{') => self.repeated(&one),
            Some('?') => {
                self.at += 1;
                if self.reading == Reading::Wider {
                    _ = self.takes("?") || self.takes("+");
                }
                Some(std::iter::once(String::new()).chain(one).collect())
            }
            _ if one.iter().any(|part| part.contains(['*', '?']) && c == '\\')
                && self.reading == Reading::Exact =>
            {
                None
            }
            _ => Some(one),
        }
    }

    /// A class that patterns have, with its quantifier, whose first character has been read.
    fn classes(&mut self) -> Option<Vec<String>> {
        let (all, length) = classes(&self.text[self.at - 1..])?;
        self.at += length - 1;
        let mut all: Vec<String> =
            all.iter().map(|one| one.iter().map(|class| class.character()).collect()).collect();
        all.extend(self.takes("?").then(String::new));
        Some(all)
    }

    /// What stands in front of or behind a place, and is no part of what is found.
    fn takes_assertion(&mut self) -> bool {
        ["?!", "?=", "?<!", "?<="].iter().any(|begin| self.takes(begin))
    }

    /// The character behind a backslash, or what it stands for.
    fn escaped(&self, c: char) -> Option<Vec<String>> {
        match (c, self.reading) {
            // A pattern has no other way to say these.
            ('*' | '?', Reading::Wider) => Some(vec!["?".to_owned()]),
            (c, _) if c.is_ascii_punctuation() => Some(vec![c.to_string()]),
            ('d' | 'w' | 's', Reading::Wider) => Some(any_character(false)),
            ('D' | 'W' | 'S', Reading::Wider) => Some(any_character(true)),
            ('b' | 'B' | 'A' | 'z' | 'Z', Reading::Wider) => Some(vec![String::new()]),
            _ => None,
        }
    }

    /// A part that is there several times.
    fn repeated(&mut self, one: &[String]) -> Option<Vec<String>> {
        if self.reading == Reading::Exact {
            return None;
        }
        let is_once = self.takes("+");
        if !is_once && !self.takes("*") {
            let length = self.text[self.at..].iter().position(|c| *c == '}')?;
            self.at += length + 1;
        }
        _ = self.takes("?") || self.takes("+");
        let has_slash = one.iter().any(|part| part.contains('/') || part.contains("**"));
        let any = if has_slash { "**" } else { "*" };
        Some(match is_once {
            true => one.iter().map(|part| format!("{part}{any}")).collect(),
            false => vec![any.to_owned()],
        })
    }
}

/// Any character, with or without the slash, which `?` does not find.
fn any_character(may_be_slash: bool) -> Vec<String> {
    if may_be_slash { vec!["?".to_owned(), "/".to_owned()] } else { vec!["?".to_owned()] }
}
