//! What routes need not say, or have to say twice.

use crate::document::Value;
use crate::draft::{Host, Scope};

/// The path of a prefix without its slash has the fields of the prefix.
pub(super) fn share_proxy_headers(host: &mut Host) {
    let fields: Vec<(String, Value)> = host
        .routes
        .iter()
        .filter_map(|route| {
            Some((route.text("path")?.strip_suffix('/')?.to_owned(), route.get("proxy_headers")?.clone()))
        })
        .collect();
    for (path, value) in fields {
        let route = host.routes.iter_mut().find(|route| route.text("path") == Some(&path));
        if let Some(route) = route.filter(|route| route.get("proxy_headers").is_none()) {
            route.set(&route.place(), "proxy_headers", value);
        }
    }
}

/// Only programs have credentials, and only upstreams have fields of their own.
pub(super) fn leave_out_needless_fields(host: &mut Host) {
    let passes = host.scope.get("pass_authorization").is_some();
    host.scope.remove("pass_authorization");
    for route in &mut host.routes {
        let runs = ["cgi", "interpreter", "application"].iter().any(|name| route.get(name).is_some());
        if runs && passes {
            route.preset("pass_authorization", true, "Apache is told to pass it.");
        } else if !runs {
            route.remove("pass_authorization");
        }
        if route.get("proxy").is_none() {
            ["proxy_headers", "proxy_host", "proxy_path"].iter().for_each(|name| route.remove(name));
        }
    }
}

/// What has a response of its own sends no files.
pub(super) fn leave_out_needless_files(host: &mut Host) {
    for route in host.routes.iter_mut().filter(|route| route.responds()) {
        ["listing", "symlinks", "index", "fallback", "fallback_for", "try_suffixes", "root", "cgi", "alias"]
            .iter()
            .for_each(|name| route.remove(name));
    }
}

/// Nothing need be turned off that nothing turns on.
pub(super) fn leave_out_needless_suffixes(host: &mut Host) {
    const KEY: &str = "try_suffixes";
    let tries = |scope: &Scope| scope.get(KEY).is_some_and(|suffixes| !suffixes.texts().is_empty());
    let is_used = host.routes.iter().any(tries);
    if !tries(&host.scope) {
        host.scope.remove(KEY);
    }
    if host.scope.get(KEY).is_none() && !is_used {
        host.routes.iter_mut().for_each(|route| route.remove(KEY));
    }
}
