//! Directives in blocks, as most configurations are written, and where each of them stands.

use std::rc::Rc;

/// Directives of one configuration, with its includes.
pub const MAX_DIRECTIVES: usize = 20_000;
/// Blocks within blocks, and files within files.
pub const MAX_DEPTH: usize = 16;
/// Files that a configuration includes.
pub const MAX_FILES: usize = 500;

/// Bytes of all files of a configuration, and of what is imported again.
pub const MAX_BYTES: usize = 8 << 20;

/// A line of the file that is read, or of one that it includes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// In the file that is read. The first is 1.
    pub line: u32,
    /// `FILE:LINE` in an included one.
    pub inside: Option<Rc<str>>,
}

impl Place {
    pub fn at(line: u32) -> Place {
        Place { line, inside: None }
    }

    /// The place of a line of a file that is included here.
    pub fn within(&self, file: &str, line: u32) -> Place {
        Place { line: self.line, inside: Some(format!("{file}:{line}").into()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    pub name: String,
    pub arguments: Vec<String>,
    pub block: Option<Vec<Directive>>,
    pub place: Place,
}

/// What is said of a directive for which there is none here.
pub fn unconverted(directive: &Directive) -> String {
    format!("\"{}\" cannot be converted", directive.text())
}

impl Directive {
    pub fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }

    pub fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Bytes of all words, about.
    pub fn size(&self) -> usize {
        let words: usize = self.arguments.iter().map(|word| word.len() + 32).sum();
        let children: usize = self.children().iter().map(Directive::size).sum();
        self.name.len() + 64 + words + children
    }

    /// As it is written, on one line, at most 100 characters of it.
    pub fn text(&self) -> String {
        let words: Vec<&str> =
            std::iter::once(self.name.as_str()).chain(self.arguments.iter().map(String::as_str)).collect();
        let text: String = words.join(" ").chars().take(100).collect();
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}
