//! Which limits of speed and of requests apply to a request.
//!
//! Knows nothing of what has been counted.

use taipan_http::target::SafePath;

use crate::limit::{Limit, LimitId, MAX_MATCHES, MAX_OF_ROUTE, Paths};
use crate::model::{Action, Host, Route};
use crate::plan::planned_route;

/// Calls `apply` for each limit of `limits` that applies to a path of `host`: those of its `route`, and those of the route
/// that it is rewritten to. At most [`crate::limit::MAX_APPLYING`], without the ones that an access rule names.
pub fn each_applying(
    limits: &[Limit],
    host: &Host,
    route: &Route,
    path: &SafePath<'_>,
    mut apply: impl FnMut(LimitId),
) {
    let mut matched = Matched::default();
    for &id in &route.limits {
        if matched.admits(limits, id, path) {
            apply(id);
        }
    }
    if matches!(route.action, Action::Rewrite { .. }) {
        let planned = planned_route(host, path.clone());
        for &id in planned.limits.iter().filter(|id| !route.limits.contains(id)) {
            if matched.admits(limits, id, path) {
                apply(id);
            }
        }
    }
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
