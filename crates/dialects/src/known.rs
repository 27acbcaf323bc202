//! The directives that a reader knows, by their names. What is not among them is reported, and left out of the tree, so that
//! a list cannot lack what has an effect.

use crate::draft::Draft;
use crate::tree::Directive;
use crate::words;

/// Lists of names.
pub struct Known(pub &'static [&'static [&'static str]]);

impl Known {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied().flatten().copied()
    }

    /// The directives that are known. What stands in one of `opaque` has other names.
    pub fn kept(&self, tree: Vec<Directive>, opaque: &[&str], draft: &mut Draft) -> Vec<Directive> {
        let mut kept = Vec::new();
        for mut directive in tree {
            // The reader has reported a directive without a name.
            if !directive.name.is_empty() && !self.names().any(|name| name == directive.name) {
                let what = format!("\"{}\" cannot be converted", directive.text());
                draft.error(&directive.place, what, &self.what_to_do(&directive.name));
                continue;
            }
            if !opaque.contains(&directive.name.as_str()) {
                directive.block = directive.block.map(|block| self.kept(block, opaque, draft));
            }
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
