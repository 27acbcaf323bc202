//! Named locations that pass requests on. `try_files` leads to them where no file is found; here a fallback leads to a
//! path.

use crate::draft::Draft;
use crate::tree::Directive;

/// Paths that the named locations of a server become.
const MAX_TARGETS: usize = 64;

const PASSES: [&str; 4] = ["proxy_pass", "fastcgi_pass", "scgi_pass", "grpc_pass"];
const PROTECTS: [&str; 7] =
    ["allow", "deny", "auth_basic", "auth_basic_user_file", "satisfy", "limit_req", "limit_conn"];

/// Whether an upstream responds for all that leads to this location, whose name can be a part of a path.
pub fn passes(location: &Directive) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@_-.".contains(c);
    if location.argument(0).starts_with('@') && !location.argument(0).chars().all(is_plain) {
        return false;
    }
    location.children().iter().any(|inner| PASSES.contains(&inner.name.as_str()))
}

/// The path of a named location for those that lead to it from `owner`. nginx would lead this path there, too, where
/// `owner` is a prefix. What protects an expression is not for other locations, so that it has a path of its own.
pub fn path(owner: &Directive, name: &str) -> String {
    match owner.arguments.as_slice() {
        [prefix] if prefix.starts_with('/') => format!("{}/{name}", prefix.trim_end_matches('/')),
        [kind, prefix] if kind == "^~" => format!("{}/{name}", prefix.trim_end_matches('/')),
        [_, _] if protection(owner).next().is_some() => format!("/{name}-{}", owner.place.line),
        _ => format!("/{name}"),
    }
}

fn protection(location: &Directive) -> impl Iterator<Item = &Directive> {
    location.children().iter().filter(|inner| PROTECTS.contains(&inner.name.as_str()))
}

/// The name of the location that a directive of `owner` leads to, if nothing is found.
pub fn leads_to(directive: &Directive) -> Option<&str> {
    let last = directive.arguments.last().filter(|last| last.starts_with('@'))?;
    match directive.name.as_str() {
        "try_files" => Some(last),
        "error_page" => (directive.arguments.as_slice() == ["404", "=", last]).then_some(last),
        _ => None,
    }
}

/// A location of one path for each named one that passes requests on, and each folder that leads to it.
pub fn targets(server: &Directive, named: &[&Directive], draft: &mut Draft) -> Vec<Directive> {
    let mut all = Vec::new();
    add(server, named, &mut all);
    if let Some(location) = all.get(MAX_TARGETS) {
        let what = format!("more than {MAX_TARGETS} locations lead to named ones");
        draft.error(&location.place, what, "write fewer");
        all.truncate(MAX_TARGETS);
    }
    all
}

fn add(owner: &Directive, named: &[&Directive], all: &mut Vec<Directive>) {
    let names = owner.children().iter().filter_map(leads_to);
    for location in names.filter_map(|name| named.iter().find(|location| location.argument(0) == name)) {
        let arguments = vec!["=".to_owned(), path(owner, location.argument(0))];
        if !passes(location) || all.len() > MAX_TARGETS {
            continue;
        }
        let mut target = match all.iter().position(|target| target.arguments == arguments) {
            Some(at) => all.remove(at),
            None => Directive { arguments, ..Directive::clone(location) },
        };
        if owner.argument(0) == "=" || owner.argument(0).starts_with('~') {
            target.block.get_or_insert_default().extend(protection(owner).cloned());
        }
        all.push(target);
    }
    let inner = owner.children().iter().filter(|inner| inner.name == "location");
    inner.for_each(|inner| add(inner, named, all));
}
