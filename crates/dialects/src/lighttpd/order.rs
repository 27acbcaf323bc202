//! The order of a host's routes. lighttpd adds up everything that it is told about a path, and here the first pattern
//! counts.

use crate::brackets::{is_glob, is_wildcard};
use crate::disk::Disk;
use crate::draft::{Draft, Host, Scope, TOO_MANY_ROUTES, with_ends};
use crate::pattern;
use crate::tree::Place;
use crate::within::covers;

/// What protects comes first, because the first pattern counts. Files that are not sent have a route that says so,
/// unless one runs them, or is for a folder that is not sent as files.
pub fn exclude(host: &mut Host, disk: &dyn Disk, draft: &mut Draft) {
    host.respond_once();
    host.add_up(disk, |_, _| false);
    // lighttpd redirects and rewrites before it looks for what runs a file.
    let leads = |route: &Scope| route.get("redirect").is_some() || route.get("rewrite").is_some();
    sort::by_key(&mut host.routes, |route| {
        (route.get("return").is_none(), !route.protects(), !(is_glob(route.path()) && leads(route)))
    });
    host.share_handlers();
    run_nothing(host, draft);
    host.deny_paths(|_| false);
    deny_before_upstreams(host);
    host.redirect_to_folders(301);
    pass_longer_names(host);
    rewrite_before_globs(host, draft);
    redirect_before_programs(host);
    let unsent = std::mem::take(&mut host.unsent);
    let runs = |route: &Scope| {
        let is_sent = route.get("interpreter").is_none() && route.get("cgi").is_none() && !route.responds();
        !is_sent && route.get("rewrite").is_none()
    };
    let mut folders: Vec<String> = host
        .routes
        .iter()
        .filter(|route| runs(route))
        .filter_map(|route| route.text("path"))
        .map(str::to_owned)
        .collect();
    folders.retain(|path| path.ends_with('/'));
    sort::by_key(&mut folders, |path| std::cmp::Reverse(path.len()));
    if folders.iter().any(|path| path == "/") {
        return;
    }
    for (pattern, place) in unsent {
        let is = |route: &Scope, path: &str| route.text("path") == Some(path);
        if host.routes.iter().any(|route| is(route, &pattern) && (runs(route) || route.responds())) {
            continue;
        }
        deny_within(host, &pattern, &place);
        let inner = folders.iter().filter_map(|folder| pattern::within(folder, &pattern));
        for inner in inner.take(TOO_MANY_ROUTES.saturating_sub(host.routes.len())) {
            if !host.routes.iter().any(|route| is(route, &inner)) {
                let at =
                    host.routes.iter().position(|route| is(route, &pattern)).unwrap_or(host.routes.len());
                let mut route = Scope::new(place.line);
                route.set(&place, "path", inner);
                if let Some(own) = host.routes.get(at) {
                    route.add(own);
                }
                host.routes.insert(at, route);
            }
        }
        host.route(&pattern, &place).deny(403.into());
    }
    host.deny_paths(|route| route.runs() || route.responds());
}

/// Denies what programs would run where lighttpd sends files in their place, also within the prefix of an upstream.
fn run_nothing(host: &mut Host, draft: &mut Draft) {
    for (pattern, place, is_run) in std::mem::take(&mut host.unrun) {
        host.without_programs(&[(pattern.clone(), place.clone())], is_run, draft);
        let around = |route: &&Scope| route.path().ends_with('/') && covers(route.path(), &pattern);
        let Some(prefix) = host.routes.iter().filter(|route| is_run(route)).find(around) else { continue };
        let what = format!("{pattern} has files below {}, which a program or an upstream has", prefix.path());
        draft.error(&place, what, "write a [[host.route]] with a root for it; until then, it is denied");
        host.route(&pattern, &place).deny(403.into());
    }
}

/// Denies the files of a pattern that other globs would send, because these come before.
fn deny_within(host: &mut Host, pattern: &str, place: &Place) {
    let Some(end) = pattern.rsplit(is_wildcard).next() else { return };
    let mut at = 0;
    while let Some(route) = host.routes.get(at).filter(|_| host.routes.len() <= TOO_MANY_ROUTES) {
        let glob = route.text("path").filter(|path| is_glob(path));
        let glob = glob.filter(|path| *path != pattern && !route.responds() && !route.runs());
        let both = glob.map_or(Vec::new(), |path| with_ends(path, end));
        for both in both {
            if host.routes.iter().all(|route| route.text("path") != Some(&both)) {
                let mut denied = host.routes[at].clone();
                denied.set(place, "path", both);
                denied.deny(403.into());
                host.routes.insert(at, denied);
                at += 1;
            }
        }
        at += 1;
    }
}

/// A key such as `/docs` is for `/docsx`, too, unless something else is said about a path with such a beginning.
fn pass_longer_names(host: &mut Host) {
    let upstream = |path: &str| {
        let route = host.routes.iter().find(|route| route.text("path") == Some(path))?;
        Some(route).filter(|route| route.get("proxy").is_some() || route.get("application").is_some())
    };
    let names = host.routes.iter().filter_map(|route| route.text("path")).filter(|path| !path.ends_with('/'));
    let mut longer = Vec::new();
    for name in names {
        let (Some(alone), Some(below)) = (upstream(name), upstream(&format!("{name}/"))) else { continue };
        let is_same = ["proxy", "application"].iter().all(|key| alone.get(key) == below.get(key));
        let is_other = |route: &Scope| {
            let path = route.path();
            path.strip_prefix(name).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        };
        if let Some(pattern) = pattern::longer_names(name)
            && is_same
            && !host.routes.iter().any(is_other)
        {
            let mut route = alone.clone();
            route.set(&alone.place(), "path", pattern);
            longer.push(route);
        }
    }
    longer.truncate(TOO_MANY_ROUTES.saturating_sub(host.routes.len()));
    host.routes.extend(longer);
}

/// lighttpd rewrites before it looks for what else is said about a path, and a glob would precede the prefix. A target
/// with the rest of the path needs a prefix, so that what a glob finds below is not there: a file of that path was not
/// to be had.
fn rewrite_before_globs(host: &mut Host, draft: &mut Draft) {
    let prefixes: Vec<Scope> = host
        .routes
        .iter()
        .filter(|route| route.get("rewrite").is_some() && !is_glob(route.path()))
        .cloned()
        .collect();
    let mut at = 0;
    while let Some(glob) = host.routes.get(at).filter(|_| host.routes.len() <= TOO_MANY_ROUTES).cloned() {
        at += 1;
        if !is_glob(glob.path()) || glob.get("return").is_some() || glob.get("rewrite").is_some() {
            continue;
        }
        for prefix in &prefixes {
            let path = prefix.text("path").zip(glob.text("path"));
            let Some(both) = path.and_then(|(prefix, glob)| pattern::within(prefix, glob)) else { continue };
            if !host.routes.iter().any(|route| route.text("path") == Some(&both)) {
                let place = prefix.place();
                let mut route = prefix.clone();
                if route.text("rewrite").is_some_and(|to| to.contains("$rest") || to.contains("${rest}")) {
                    draft.warn(
                        &place,
                        format!("{both} is not rewritten, and gets 404"),
                        "write it as a prefix",
                    );
                    route.deny(404.into());
                }
                route.set(&place, "path", both);
                route.inherit(&glob.clone().split().1);
                host.routes.insert(at - 1, route);
                at += 1;
            }
        }
    }
}

/// A program runs no file of a prefix that is redirected: a pattern without one has what the prefix has.
fn redirect_before_programs(host: &mut Host) {
    let prefixes: Vec<Scope> = host
        .routes
        .iter()
        .filter(|route| route.get("redirect").is_some() && route.path().ends_with('/') && route.path() != "/")
        .cloned()
        .collect();
    let mut at = 0;
    while let Some(glob) = host.routes.get(at).filter(|_| host.routes.len() <= TOO_MANY_ROUTES).cloned() {
        at += 1;
        if !is_glob(glob.path()) || !glob.runs() {
            continue;
        }
        for prefix in &prefixes {
            let Some(both) = pattern::within(prefix.path(), glob.path()) else { continue };
            if host.routes.iter().all(|route| route.path() != both) {
                let mut blank = Scope::new(prefix.place().line);
                blank.set(&prefix.place(), "path", both);
                host.routes.insert(at - 1, blank);
                at += 1;
            }
        }
    }
}

/// A path that has been rewritten is rewritten no more.
pub fn rewritten_twice(host: &Host, draft: &mut Draft) {
    for route in &host.routes {
        let Some(to) = route.text("rewrite") else { continue };
        let to = to.split('$').next().unwrap_or(to);
        let again = |other: &&Scope| {
            let path = other.path();
            let is_other = other.get("rewrite").is_some() && other.text("path") != route.text("path");
            is_other && covers(path, to) && !(is_glob(path) && path.ends_with(is_wildcard))
        };
        if let Some(other) = host.routes.iter().find(again) {
            let what = format!("{to} would be rewritten once more, by {}", other.path());
            draft.error(&route.place(), what, "write the path that is meant");
        }
    }
}

/// A pattern with an upstream of its own would precede the prefix that denies.
fn deny_before_upstreams(host: &mut Host) {
    let paths = |is: fn(&Scope) -> bool| -> Vec<(String, Place)> {
        let routes = host.routes.iter().filter(|route| is(route));
        routes.filter_map(|route| Some((route.text("path")?.to_owned(), route.place()))).collect()
    };
    let denied = paths(|route| route.get("return").is_some());
    let passed = paths(|route| route.get("proxy").is_some());
    for (folder, place) in denied.iter().filter(|(path, _)| path.ends_with('/')) {
        for (glob, _) in passed.iter().filter(|(path, _)| is_glob(path)) {
            let Some(inner) = pattern::within(folder, glob) else { continue };
            if host.routes.len() > TOO_MANY_ROUTES {
                return;
            }
            host.routes.retain(|route| route.text("path") != Some(&inner));
            let mut route = Scope::new(place.line);
            route.set(place, "path", inner);
            route.set(place, "return", 403);
            host.routes.insert(0, route);
        }
    }
}
