//! The directives that a reader knows, by their names. What is not among them is reported, and left out of the tree, so
//! that a list cannot lack what has an effect.

use crate::draft::Draft;
use crate::tree::{Directive, unconverted};
use crate::words;

/// Lists of names.
pub struct Known(pub &'static [&'static [&'static str]]);

/// Directives of one block, and arguments of one of them.
const MAX_ENTRIES: usize = 2000;

/// Not more directives than a block may have, nor more arguments.
pub fn bounded(mut block: Vec<Directive>, draft: &mut Draft) -> Vec<Directive> {
    if let Some(first) = block.get(MAX_ENTRIES) {
        let what = format!("there are more than {MAX_ENTRIES} directives in one block");
        draft.error(&first.place, what, "make several configurations of it");
        block.truncate(MAX_ENTRIES);
    }
    for directive in block.iter_mut().filter(|directive| directive.arguments.len() > MAX_ENTRIES) {
        let what = format!("{} has more than {MAX_ENTRIES} arguments", directive.name.escape_debug());
        draft.error(&directive.place, what, "write several of it");
        directive.arguments.truncate(MAX_ENTRIES);
    }
    block
}

impl Known {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied().flatten().copied()
    }

    /// The directives that are known. What stands in one of `opaque` has other names.
    pub fn kept(&self, tree: Vec<Directive>, opaque: &[&str], draft: &mut Draft) -> Vec<Directive> {
        let mut kept = Vec::new();
        for mut directive in bounded(tree, draft) {
            if draft.findings.is_full(directive.place.line) {
                break;
            }
            // The reader has reported a directive without a name.
            if !directive.name.is_empty() && !self.names().any(|name| name == directive.name) {
                let what = unconverted(&directive);
                draft.error(&directive.place, what, &self.what_to_do(&directive.name));
                continue;
            }
            directive.block = directive.block.map(|block| match opaque.contains(&directive.name.as_str()) {
                true => bounded(block, draft),
                false => self.kept(block, opaque, draft),
            });
            kept.push(directive);
        }
        kept
    }

    /// For a name that is not known.
    pub fn what_to_do(&self, name: &str) -> String {
        match words::nearest(name, self.names()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "remove it, or find its like in the manual".to_owned(),
        }
    }
}
