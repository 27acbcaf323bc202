//! Rules for paths where nothing is: front controllers.

use super::targets::{Query, targets, whole};
use crate::apache::flags::Flags;
use crate::draft::{Host, Scope};
use crate::tree::{Directive, Place};

/// A rule for paths where nothing is. `None`: it leads to paths that depend on the request.
pub(super) fn fallbacks(rule: &Directive, base: Option<&str>, host: &mut Host) -> Option<()> {
    let all = targets(rule, &whole(rule.argument(1), base), base)?.all;
    if all.iter().any(|(_, to)| to.split('?').next().is_none_or(|path| path.contains('$'))) {
        return None;
    }
    let query = Query::of(Flags::of(rule));
    for (pattern, to) in all {
        let route = host.route(&pattern, &rule.place);
        route.set(&rule.place, "fallback", query.rewritten(to));
        route.set(&rule.place, "fallback_for", "all");
    }
    Some(())
}

/// A front controller, for a folder or for what is below a prefix. Its path.
pub(super) fn fallback(
    target: &str,
    base: Option<&str>,
    below: Option<&str>,
    (place, of_request): (&Place, Query),
    host: &mut Host,
) -> Option<String> {
    let target = target.strip_prefix("%{ENV:BASE}/").unwrap_or(target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.trim_end_matches("/$1");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", base.unwrap_or("/")) };
    let query = query.replace("%{REQUEST_URI}", "$path").replace("$1", "$rest");
    let query = query.replace("%{QUERY_STRING}", "$query");
    let names = query.replace("$path", "").replace("$rest", "").replace("$query", "");
    if path.contains(['$', '%']) || names.contains(['$', '%']) {
        return None;
    }
    let fallback = if target.contains('?') { format!("{path}?{query}") } else { path.clone() };
    let fallback = of_request.rewritten(fallback);
    let set = |scope: &mut Scope| {
        scope.set(place, "fallback", fallback.as_str());
        scope.set(place, "fallback_for", "all");
    };
    match below.or(base).filter(|base| *base != "/") {
        Some(base) => set(host.route(base, place)),
        None => set(&mut host.scope),
    }
    Some(path)
}
