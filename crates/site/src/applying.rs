//! Which limits of speed and of requests apply to a request.
//!
//! Knows nothing of what has been counted.

use taipan_http::target::SafePath;

use crate::access::{self, Facts, without_parameters};
use crate::limit::{self, Limit, LimitId, MAX_MATCHES, Paths};
use crate::model::{Action, Host, Route};
use crate::plan::{planned_route, without_language};

/// Calls `apply` once for each limit of `limits` that applies to a path of `host`: those of its `route`, those of the
/// route that it is rewritten to, those of the path without its language, whose file may be served, and those of the path
/// without parameters, which applications may read. Of a throttle file, the first [`MAX_MATCHES`] lines count that match a
/// path.
pub fn each_applying(
    limits: &[Limit],
    host: &Host,
    route: &Route,
    path: &SafePath<'_>,
    mut apply: impl FnMut(LimitId),
) {
    let requested = Place::of(host, route, path);
    let (first, second) = without_language(requested.responding().language_fallback, path).unzip();
    let (first, second) = (first.as_ref(), second.as_ref().and_then(Option::as_ref));
    let without = |path| Place::of(host, host.routes.get(host.routes.find(path)), path);
    let plain = without_parameters(path);
    let places = [Some(requested), first.map(without), second.map(without), plain.as_ref().map(without)];
    for (at, place) in places.iter().flatten().enumerate() {
        let earlier = || places[..at].iter().flatten();
        for id in place.applying(limits) {
            if !earlier().any(|earlier| earlier.applying(limits).any(|applied| applied == id)) {
                apply(id);
            }
        }
    }
}

/// The limits that rules of access name for a path of `host`, and for the path without its language.
pub fn named_by_rules(limits: &[Limit], host: &Host, path: &SafePath<'_>, facts: Facts<'_>) -> Vec<LimitId> {
    let names = |path: &SafePath<'_>| access::limits(host, path, facts);
    let place = Place::of(host, host.routes.get(host.routes.find(path)), path);
    let (first, second) = without_language(place.responding().language_fallback, path).unzip();
    let others = first.into_iter().chain(second.flatten()).flat_map(|path| names(&path));
    let mut named: Vec<LimitId> = Vec::new();
    for id in names(path).into_iter().chain(others).filter_map(|name| limit::named(limits, name)) {
        if !named.contains(&id) {
            named.push(id);
        }
    }
    named
}

/// A path with the routes whose limits apply to it.
struct Place<'h, 'p> {
    path: &'p SafePath<'p>,
    route: &'h Route,
    /// The route that it is rewritten to.
    planned: Option<&'h Route>,
}

impl<'h, 'p> Place<'h, 'p> {
    fn of(host: &'h Host, route: &'h Route, path: &'p SafePath<'p>) -> Place<'h, 'p> {
        let is_rewrite = matches!(route.action, Action::Rewrite { .. });
        Place { path, route, planned: is_rewrite.then(|| planned_route(host, path.clone())) }
    }

    /// The route whose fallback counts.
    fn responding(&self) -> &'h Route {
        self.planned.unwrap_or(self.route)
    }

    /// Those of the routes, whether they match or not.
    fn limits(&self) -> impl Iterator<Item = LimitId> + use<'h> {
        let (route, planned) = (self.route, self.planned);
        let of_planned = planned.into_iter().flat_map(|planned| &planned.limits);
        route.limits.iter().chain(of_planned.filter(|id| !route.limits.contains(id))).copied()
    }

    /// Those that match the path.
    fn applying(&self, limits: &[Limit]) -> impl Iterator<Item = LimitId> {
        let (path, mut matched) = (self.path, Matched::default());
        self.limits().filter(move |id| matched.admits(limits, *id, path))
    }
}

/// How many lines have matched of the last throttle file that was seen. Those of one file follow each other.
#[derive(Default)]
struct Matched {
    file: u16,
    lines: usize,
}

impl Matched {
    fn admits(&mut self, limits: &[Limit], id: LimitId, path: &SafePath<'_>) -> bool {
        let Some(limit) = limits.get(usize::from(id.0)) else { return false };
        let Paths::Throttle(_, file) = limit.paths else { return limit.matches(path) };
        if self.file != file {
            *self = Matched { file, lines: 0 };
        }
        let is_one = self.lines < MAX_MATCHES && limit.matches(path);
        self.lines += usize::from(is_one);
        is_one
    }
}
