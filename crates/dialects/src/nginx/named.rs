//! Named locations that pass requests on. `try_files` leads to them where no file is found; here a fallback leads to a
//! path.

use crate::draft::Draft;
use crate::tree::Directive;

use super::settings::Context;

/// Paths that the named locations of a server become.
const MAX_TARGETS: usize = 64;

const PASSES: [&str; 4] = ["proxy_pass", "fastcgi_pass", "scgi_pass", "grpc_pass"];
const ACCESS: [&str; 6] = ["allow", "deny", "auth_basic", "auth_basic_user_file", "auth_request", "satisfy"];
const LIMITS: [&str; 2] = ["limit_req", "limit_conn"];

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
    let names = || ACCESS.iter().chain(&LIMITS);
    location.children().iter().filter(move |inner| names().any(|name| *name == inner.name))
}

/// Whether one of the directives says who may have something.
pub fn has_access(block: &[Directive]) -> bool {
    block.iter().any(|inner| ACCESS.contains(&inner.name.as_str()))
}

/// Whether a location that rewrites returns something first, or has the access of its own for a file it rewrites to.
pub fn decides(location: &Directive) -> bool {
    let breaks = |inner: &Directive| inner.name == "rewrite" && inner.argument(2) == "break";
    let is_return = |inner: &Directive| inner.name == "return";
    let returns = |inner: &Directive| is_return(inner) || inner.children().iter().any(is_return);
    let children = location.children();
    children.iter().take_while(|inner| inner.name != "rewrite").any(returns)
        || children.iter().any(breaks) && protection(location).next().is_some()
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

/// A location of one path for each named one that passes requests on, and each folder that leads to it. `is_closed`:
/// the server has access of its own, or what is around it.
pub fn targets(server: &Directive, context: &Context, is_closed: bool, draft: &mut Draft) -> Vec<Directive> {
    let mut targets = Targets { context, is_closed, all: Vec::new(), draft };
    targets.add(server, false);
    let mut all = targets.all;
    if let Some(location) = all.get(MAX_TARGETS) {
        let what = format!("more than {MAX_TARGETS} locations lead to named ones");
        draft.error(&location.place, what, "write fewer");
        all.truncate(MAX_TARGETS);
    }
    all
}

struct Targets<'t> {
    context: &'t Context<'t>,
    is_closed: bool,
    all: Vec<Directive>,
    draft: &'t mut Draft,
}

impl Targets<'_> {
    /// `is_within`: a location around it has access of its own.
    fn add(&mut self, owner: &Directive, is_within: bool) {
        let is_prefix = !matches!(owner.arguments.as_slice(), [kind, _] if kind != "^~");
        let has_own = owner.name == "location" && (is_within || has_access(owner.children()));
        for name in owner.children().iter().filter_map(leads_to) {
            let Some(location) = self.context.named(name).filter(|location| passes(location)) else {
                continue;
            };
            // nginx asks for the access of both. The path of the fallback has that of its own route.
            let differs = self.is_closed || has_access(location.children()) || (is_within && !is_prefix);
            if has_own && differs {
                let what = format!("{name} and what leads to it have access of their own");
                let what_to_do = "write allow, deny and auth_basic in the server alone, or in one of them";
                self.draft.error(&owner.place, what, what_to_do);
            }
            let path = path(owner, name);
            let is_script = |inner: &Directive| matches!(inner.name.as_str(), "fastcgi_pass" | "scgi_pass");
            if path.matches('/').count() > 1 && location.children().iter().any(is_script) {
                let what = format!("PATH_INFO of {name} begins behind the folder of {path}");
                self.draft.warn(&owner.place, what, "nothing to do if it reads REQUEST_URI");
            }
            self.target(location, path, owner, is_prefix);
        }
        let inner = owner.children().iter().filter(|inner| inner.name == "location");
        inner.for_each(|inner| self.add(inner, has_own));
    }

    fn target(&mut self, location: &Directive, path: String, owner: &Directive, is_prefix: bool) {
        let arguments = vec!["=".to_owned(), path];
        if self.all.len() > MAX_TARGETS {
            return;
        }
        let mut target = match self.all.iter().position(|target| target.arguments == arguments) {
            Some(at) => self.all.remove(at),
            None => Directive { arguments, ..Directive::clone(location) },
        };
        // The path is one of the location anyway.
        target.block.get_or_insert_default().retain(|inner| inner.name != "internal");
        if !is_prefix {
            target.block.get_or_insert_default().extend(protection(owner).cloned());
        }
        self.all.push(target);
    }
}
