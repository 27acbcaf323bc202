//! `Header set Cache-Control`, which Apache adds to no error without `always`. A field of `headers` is in each response,
//! so that caches would keep an error for as long as the file; that of `cache_control` is in those of files alone.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::tree::Place;

/// A key of a section whose `Header` of this field has `always`, or has not. It is no key of a route.
pub const ALWAYS: &str = "header always";

pub fn settle(draft: &mut Draft) {
    let mut places = Vec::new();
    for host in &mut draft.hosts {
        let kept = of_host(host);
        places.extend(kept);
    }
    places.sort_unstable();
    places.dedup();
    for line in places {
        let what = "Cache-Control is added to error responses, too";
        draft.warn(&Place::at(line), what, "write it in <FilesMatch> of the files that have it");
    }
}

/// Returns the lines of the fields that stay.
fn of_host(host: &mut Host) -> Vec<u32> {
    // The field precedes what Expires says about the files below.
    let has_times =
        host.routes.iter().any(|route| route.get("cache_control").is_some() && field(route).is_none());
    let has_programs = host.routes.iter().any(is_of_program);
    let root = host.routes.iter().find(|route| route.path() == "/");
    let of_all = root.into_iter().chain([&host.scope]).filter(|_| !has_times);
    let everywhere = of_all.filter(|scope| is_on_success(scope)).find_map(field).cloned();
    let mut kept = Vec::new();
    for scope in std::iter::once(&mut host.scope).chain(&mut host.routes) {
        let is_on_success = is_on_success(scope);
        scope.remove(ALWAYS);
        if is_of_program(scope) {
            // What a program or an upstream says about an error has the field in Apache, too.
            let is_added = scope.get("return").is_none() && field(scope).is_none();
            if let Some(value) = everywhere.as_ref().filter(|_| is_added) {
                scope.pair(&scope.place(), "headers", "Cache-Control", value.clone());
            }
        } else if is_on_success {
            let is_of_all = matches!(scope.path(), "" | "/");
            let is_prefix = scope.path().ends_with('/');
            let stays = is_of_all && has_times || is_prefix && !is_of_all && (has_times || has_programs);
            match stays {
                true => kept.extend(scope.line_of("headers")),
                false => send_with_files(scope),
            }
        }
    }
    kept
}

fn is_on_success(scope: &Scope) -> bool {
    scope.get(ALWAYS) == Some(&false.into()) && field(scope).is_some()
}

fn is_of_program(route: &Scope) -> bool {
    route.runs() || route.responds()
}

fn field(scope: &Scope) -> Option<&Value> {
    let mut pairs = scope.pairs("headers").iter();
    pairs
        .find(|(name, value)| name.eq_ignore_ascii_case("cache-control") && *value != false.into())
        .map(|(_, value)| value)
}

fn send_with_files(scope: &mut Scope) {
    let place = scope.place();
    if let Some(value) = field(scope).cloned() {
        scope.unpair("headers", "Cache-Control");
        scope.set(&place, "cache_control", value);
    }
}
