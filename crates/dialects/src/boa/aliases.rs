//! `Alias`, `ScriptAlias` and `Redirect`: the first one that matches a path counts, and a name without a slash at its
//! end matches whole segments. Boa finds them by the first segment of a path, so that `/` is for that path alone.

use super::directives::Text;
use crate::finding::Findings;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Alias,
    Scripts,
    Redirect,
}

#[derive(Debug, Clone, Copy)]
pub struct Alias<'t> {
    pub kind: Kind,
    pub from: &'t str,
    pub to: &'t str,
    pub line: Option<u32>,
    /// One before it has what is below it.
    pub is_alone: bool,
}

impl Alias<'_> {
    /// The prefix that it matches, with a slash at its end.
    pub fn prefix(&self) -> String {
        format!("{}/", self.from.trim_end_matches('/'))
    }

    /// It is for the path `/`, and for none below it.
    pub fn is_of_root(&self) -> bool {
        self.prefix() == "/"
    }

    /// It is for what is below it, too.
    pub fn is_folder(&self) -> bool {
        !self.is_of_root() && !self.is_alone
    }

    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Alias => "Alias",
            Kind::Scripts => "ScriptAlias",
            Kind::Redirect => "Redirect",
        }
    }

    /// The pattern of its route.
    pub fn pattern(&self) -> String {
        if self.is_of_root() { ROOT_ALONE.to_owned() } else { self.prefix() }
    }

    pub fn has_slash(&self) -> bool {
        self.from.ends_with('/')
    }
}

/// The pattern of the path `/`, without what is below it.
pub const ROOT_ALONE: &str = "/.";

/// Each becomes a route of every host.
const MAX_ALIASES: usize = 1000;

/// The aliases that can match. Errors are reported.
pub fn usable<'t>(given: impl Iterator<Item = Text<'t>>, findings: &mut Findings) -> Vec<Alias<'t>> {
    let mut all: Vec<Alias<'t>> = Vec::new();
    for Text { name, value: from, second: to, line } in given {
        let kind = match name {
            "Alias" => Kind::Alias,
            "ScriptAlias" => Kind::Scripts,
            _ => Kind::Redirect,
        };
        let mut alias = Alias { kind, from, to, line: Some(line), is_alone: false };
        if all.len() >= MAX_ALIASES {
            let what = format!("there are more than {MAX_ALIASES} aliases and redirects");
            findings.error(alias.line, what, "make several configurations of it");
            break;
        }
        if !from.starts_with('/') {
            let what = format!("{name} {from} matches no path");
            findings.warn(alias.line, what, "begin it with a slash");
            continue;
        }
        if let Some(first) = all.iter().find(|first| shadows(first, &alias)) {
            let what = format!(
                "{name} {from} has no effect: {} in line {} comes first",
                first.from,
                first.line.unwrap_or(0)
            );
            findings.note(alias.line, what, "remove it, or write it before that line");
            continue;
        }
        let joins = kind == Kind::Redirect || alias.has_slash() == to.ends_with('/') || !alias.has_slash();
        if !joins {
            let what = format!("{name} {from} {to}: Boa joined the names without a slash between them");
            findings.warn(alias.line, what, "here there is one; end both with a slash");
        }
        alias.is_alone = all.iter().any(|first| first.prefix() == alias.prefix());
        all.push(alias);
    }
    all
}

/// Every path of the later one is one of the first.
fn shadows(first: &Alias, later: &Alias) -> bool {
    if first.is_of_root() {
        return later.is_of_root();
    }
    later.prefix().starts_with(&first.prefix())
        && (!first.has_slash() || later.has_slash() || later.from != first.from.trim_end_matches('/'))
}
