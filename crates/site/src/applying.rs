//! Which limits of speed and of requests apply to a request.
//!
//! Knows nothing of what has been counted.

use taipan_http::target::SafePath;

use crate::access::{self, Rule, Verdict};
use crate::limit::{self, Limit, LimitId, MAX_MATCHES, MAX_OF_ROUTE, Paths};
use crate::model::{Action, Host, Route};
use crate::plan::{planned_route, without_language};

/// Calls `apply` once for each limit of `limits` that applies to a path of `host`: those of its `route`, those of the
/// route that it is rewritten to, and those of the path without its language, whose file may be served.
pub fn each_applying(
    limits: &[Limit],
    host: &Host,
    route: &Route,
    path: &SafePath<'_>,
    mut apply: impl FnMut(LimitId),
) {
    let mut matched = Matched::default();
    for id in of_routes(host, route, path) {
        if matched.admits(limits, id, path) {
            apply(id);
        }
    }
    let allowed = responding(host, route, path).language_fallback;
    let Some((first, second)) = without_language(allowed, path) else { return };
    let others = [Some(first), second];
    let route_of = |path: &SafePath<'_>| host.routes.get(host.routes.find(path));
    let applies = |id: LimitId, route: &Route, path: &SafePath<'_>| {
        let is_match = limits.get(usize::from(id.0)).is_some_and(|limit| limit.matches(path));
        is_match && of_routes(host, route, path).any(|own| own == id)
    };
    for (at, other) in others.iter().flatten().enumerate() {
        for id in of_routes(host, route_of(other), other) {
            let mut earlier = others.iter().flatten().take(at);
            let has_applied =
                applies(id, route, path) || earlier.any(|path| applies(id, route_of(path), path));
            if !has_applied && matched.admits(limits, id, other) {
                apply(id);
            }
        }
    }
}

/// The limit that a rule of access names for a path of `host`, or for the path without its language. `check`: the
/// verdict of the rules on a path.
pub fn named_by_rule<'h>(
    limits: &[Limit],
    host: &'h Host,
    path: &SafePath<'_>,
    check: impl Fn(&SafePath<'_>) -> Verdict<'h>,
) -> Option<LimitId> {
    let named = |path: &SafePath<'_>| match check(path) {
        Verdict::Allow(Some(Rule { action: access::Action::Limit(name), .. })) => limit::named(limits, name),
        _ => None,
    };
    named(path).or_else(|| {
        let route = host.routes.get(host.routes.find(path));
        let allowed = responding(host, route, path).language_fallback;
        let (first, second) = without_language(allowed, path)?;
        named(&first).or_else(|| named(&second?))
    })
}

/// The route whose fallback counts for a path of `route`: the one that it is rewritten to, if it is.
fn responding<'h>(host: &'h Host, route: &'h Route, path: &SafePath<'_>) -> &'h Route {
    match route.action {
        Action::Rewrite { .. } => planned_route(host, path.clone()),
        _ => route,
    }
}

/// The limits of the route of a path, and those of the route that it is rewritten to.
fn of_routes<'h>(
    host: &'h Host,
    route: &'h Route,
    path: &SafePath<'_>,
) -> impl Iterator<Item = LimitId> + use<'h> {
    let is_rewrite = matches!(route.action, Action::Rewrite { .. });
    let planned = is_rewrite.then(|| planned_route(host, path.clone()));
    let of_planned = planned.into_iter().flat_map(|planned| &planned.limits);
    route.limits.iter().chain(of_planned.filter(|id| !route.limits.contains(id))).copied()
}

/// How many limits have matched.
#[derive(Default)]
struct Matched {
    tables: usize,
    /// The lines of the last throttle file that was seen. Those of one file follow each other.
    lines: (u16, usize),
}

impl Matched {
    fn admits(&mut self, limits: &[Limit], id: LimitId, path: &SafePath<'_>) -> bool {
        let Some(limit) = limits.get(usize::from(id.0)) else { return false };
        if let Paths::Throttle(_, file) = limit.paths {
            if self.lines.0 != file {
                self.lines = (file, 0);
            }
            let is_one = self.lines.1 < MAX_MATCHES && limit.matches(path);
            self.lines.1 += usize::from(is_one);
            return is_one;
        }
        let is_one = self.tables < MAX_OF_ROUTE && limit.matches(path);
        self.tables += usize::from(is_one);
        is_one
    }
}
