//! Redirects that would lead to themselves: from a path to the same one with a slash at its end, or without. The other
//! server tells the two apart, and a pattern with wildcards is for both.

use crate::brackets::{self, is_glob};
use crate::pattern;

use super::{Draft, Scope};

impl Draft {
    /// Removes redirects that would not end.
    pub(super) fn end_redirects(&mut self) {
        let mut ended = Vec::new();
        for host in &mut self.hosts {
            host.routes.retain_mut(|route| {
                if !leads_to_itself(route) {
                    return true;
                }
                ended.push((route.place(), brackets::shown(route.path())));
                ["redirect", "status"].iter().for_each(|name| route.remove(name));
                // A pattern alone would keep others from its paths.
                route.keys.len() > 1 || route.protects()
            });
        }
        for (place, path) in ended {
            let what = format!("{path} is not redirected to itself with a slash at its end, or without");
            self.warn(&place, what, "nothing to do: a folder is redirected to its path with a slash");
        }
    }
}

/// Whether each path of a route is redirected to itself, apart from a slash at its end.
fn leads_to_itself(route: &Scope) -> bool {
    let Some(to) = route.text("redirect").filter(|_| is_glob(route.path())) else { return false };
    let origins = ["$scheme://$hostport", "$scheme://$host"];
    let to = origins.iter().find_map(|origin| to.strip_prefix(origin)).unwrap_or(to);
    let to = to.strip_suffix("$query").unwrap_or(to).trim_end_matches('/').replace(['{', '}'], "");
    let itself = pattern::numbered(route.path()).map(|text| text.replace(['{', '}'], ""));
    to == "$path" || itself.is_some_and(|itself| itself.trim_end_matches('/') == to)
}
