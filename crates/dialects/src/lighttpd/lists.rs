//! Lists of conditions. lighttpd has the list of the last condition that holds, and here routes add up what is said about
//! a path. So a list of paths says what it lacks, where that can be said, and the rest is reported; what the list of a host
//! replaces is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::draft::Draft;
use crate::tree::Place;

use super::read::{Datum, Statement};

/// Pairs of a list, and pairs that are added to all lists of a file. Longer ones are refused.
const MAX_PAIRS: usize = 4000;
const MAX_ADDED: usize = 50_000;

type Pair = (Option<String>, Datum);

/// The statements with their lists completed.
pub(super) fn completed(statements: &[Statement], draft: &mut Draft) -> Vec<Statement> {
    Lacks { left: MAX_ADDED, draft }.block(statements, None, false)
}

/// The lists that count in a block, by the name of their directive.
struct Lists<'s> {
    own: BTreeMap<&'s str, Vec<&'s Pair>>,
    outer: Option<&'s Lists<'s>>,
}

impl<'s> Lists<'s> {
    fn of(block: &'s [Statement], outer: Option<&'s Lists<'s>>) -> Lists<'s> {
        let mut lists = Lists { own: BTreeMap::new(), outer };
        for (name, pairs) in block.iter().filter_map(list) {
            let (name, before) = match name.strip_suffix('+') {
                Some(name) => (name, lists.get(name).to_vec()),
                None => (name, Vec::new()),
            };
            lists.own.insert(name, before.into_iter().chain(pairs).take(MAX_PAIRS + 1).collect());
        }
        lists
    }

    fn get(&self, name: &str) -> &[&'s Pair] {
        let own = self.own.get(name).map(Vec::as_slice);
        own.or_else(|| Some(self.outer?.get(name))).unwrap_or_default()
    }
}

/// What a list of a condition does with that around it.
enum Replaced {
    /// A pair without effect is added for each that the list lacks.
    Without(Datum),
    /// What the list lacks counts there, too, which is reported.
    Kept(&'static str),
}

/// `None`: the list takes the place of that around it by itself, or none does.
fn replaced(name: &str, own: &[Pair]) -> Option<Replaced> {
    let has_key = |wanted: &str| own.iter().any(|(key, _)| key.as_deref() == Some(wanted));
    Some(match name {
        "setenv.add-response-header" | "setenv.set-response-header" => {
            Replaced::Without(Datum::Text(String::new()))
        }
        "mimetype.assign" => {
            let rest = own.iter().find(|(key, _)| key.as_deref() == Some("")).map(|(_, kind)| kind.clone());
            Replaced::Without(rest.unwrap_or_else(|| Datum::Text("application/octet-stream".to_owned())))
        }
        // No program, and not no list at all.
        "cgi.assign" | "fastcgi.server" | "scgi.server" if !own.is_empty() && !has_key("") => {
            Replaced::Without(Datum::List(Vec::new()))
        }
        "url.access-deny" if own.iter().any(|(_, ending)| ending.text().is_empty()) => return None,
        "url.access-deny" => Replaced::Kept("what the list outside denies stays denied"),
        "auth.require" if own.is_empty() => return None,
        "auth.require" => Replaced::Kept("what the list outside protects stays protected"),
        "expire.url" | "expire.mimetypes" => Replaced::Kept("the times of the list outside count, too"),
        "setenv.add-environment" | "setenv.set-environment" => {
            Replaced::Kept("the variables of the list outside are set, too")
        }
        _ => return None,
    })
}

struct Lacks<'d> {
    left: usize,
    draft: &'d mut Draft,
}

impl Lacks<'_> {
    fn block(&mut self, block: &[Statement], outer: Option<&Lists>, is_of_paths: bool) -> Vec<Statement> {
        let lists = Lists::of(block, outer);
        let one = |statement: &Statement| match statement {
            Statement::When { field, operator, operand, is_else, block, place } => Statement::When {
                block: self.block(block, Some(&lists), is_of_paths || field == "$HTTP[\"url\"]"),
                field: field.clone(),
                operator: operator.clone(),
                operand: operand.clone(),
                is_else: *is_else,
                place: place.clone(),
            },
            Statement::Set { name, value: Datum::List(own), place } if is_of_paths => {
                let around = outer.map(|outer| outer.get(name)).unwrap_or_default();
                let value = Datum::List(self.list(name, own, around, place));
                Statement::Set { name: name.clone(), value, place: place.clone() }
            }
            other => other.clone(),
        };
        block.iter().map(one).collect()
    }

    /// A list of a condition, with what it lacks of that around it.
    fn list(&mut self, name: &str, own: &[Pair], around: &[&Pair], place: &Place) -> Vec<Pair> {
        let known: BTreeSet<String> = own.iter().map(key).collect();
        let mut lacking = around.iter().filter(|outer| !known.contains(&key(outer))).peekable();
        let replaced = replaced(name, own).filter(|_| lacking.peek().is_some());
        let mut all = own.to_vec();
        match replaced {
            None => {}
            Some(Replaced::Kept(what)) => {
                let what = format!("{name}: {what}, and lighttpd has the list of the last condition alone");
                self.draft.warn(place, what, "nothing to do, unless that is not meant");
            }
            Some(Replaced::Without(nothing)) => {
                let names = lacking.take(self.left + 1).filter_map(|(name, _)| name.clone());
                all.extend(names.map(|name| (Some(name), nothing.clone())));
                self.left = self.left.saturating_sub(all.len() - own.len());
                if self.left == 0 || around.len() > MAX_PAIRS {
                    self.draft.error(place, format!("{name}: the lists are too long"), "write fewer pairs");
                }
            }
        }
        all
    }
}

/// What two pairs of lists that say something about the same have in common.
fn key((name, value): &Pair) -> String {
    name.as_deref().unwrap_or_else(|| value.text()).to_ascii_lowercase()
}

/// The name and the pairs of a statement that sets a list.
fn list(statement: &Statement) -> Option<(&str, &[Pair])> {
    match statement {
        Statement::Set { name, value: Datum::List(all), .. } => Some((name, all)),
        _ => None,
    }
}

/// The statements without the lists that the block of the condition at `at` replaces: lighttpd has the list of the last
/// condition that holds, and `+=` adds to that of no condition. `None`: the block replaces none.
pub(super) fn without_replaced(
    statements: &[Statement],
    block: &[Statement],
    at: usize,
) -> Option<Vec<Statement>> {
    let sets = |wanted: &str, sign: &str| {
        let is_list = |inner: &Statement| match inner {
            Statement::Set { name, value: Datum::List(_), .. } => name.strip_prefix(wanted) == Some(sign),
            _ => false,
        };
        block.iter().any(is_list)
    };
    let is_replaced = |name: &str| sets(name, "");
    let is_replaced_within = |name: &str| sets(name, "") || sets(name, "+");
    let kept = |(index, one): (usize, &Statement)| match one {
        Statement::Set { name, .. } if is_replaced(name.trim_end_matches('+')) => None,
        Statement::When { .. } if index < at => Some(without(one, &is_replaced_within)),
        _ => Some(one.clone()),
    };
    let kept: Vec<_> = statements.iter().enumerate().filter_map(kept).collect();
    (kept != statements).then_some(kept)
}

/// The condition without what its block, and those within, say about some names.
fn without(condition: &Statement, is_meant: &impl Fn(&str) -> bool) -> Statement {
    let mut condition = condition.clone();
    if let Statement::When { block, .. } = &mut condition {
        block.retain(
            |one| !matches!(one, Statement::Set { name, .. } if is_meant(name.trim_end_matches('+'))),
        );
        block.iter_mut().for_each(|inner| *inner = without(inner, is_meant));
    }
    condition
}
