//! The order of expressions: those of a server, and those within a prefix.

use crate::brackets::is_glob;
use crate::document::Value;
use crate::draft::{Draft, HANDLERS, Host, Scope, TOO_MANY_ROUTES, WAYS};
use crate::pattern;
use crate::tree::{Directive, Place};
use crate::within::covers;

use super::inherit::{has_any, is_closed};
use super::settings::Context;

/// Gives the routes of a server that becomes a part of another one its root.
pub fn own_roots(host: &mut Host) {
    let Some(root) = host.scope.text("root").map(str::to_owned) else { return };
    for route in &mut host.routes {
        if !route.responds() && !has_any(route, &["root", "alias"]) {
            let place = route.place();
            route.set(&place, "root", root.as_str());
        }
    }
}

/// The key of a route with its place among the patterns of its host. It is no key of a route.
pub const ORDER: &str = "order";

/// nginx tries the expressions of a server between those within the longest prefix, and prefixes themselves. A pattern
/// of a longer prefix precedes that of a shorter one.
#[derive(Clone, Copy)]
pub enum Order<'t> {
    /// An expression within the location of this prefix.
    Within(&'t str),
    /// What `^~` of this prefix keeps from the expressions of the server.
    Instead(&'t str),
    /// The names that only begin with this prefix.
    Behind(&'t str),
}

impl Order<'_> {
    pub fn set(self, route: &mut Scope, place: &Place) {
        let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX / 4);
        let order = match self {
            Order::Within(text) => -2 * length(text) - 1,
            Order::Instead(text) => -2 * length(text),
            Order::Behind(text) => i64::MAX - length(text),
        };
        route.set(place, ORDER, order);
    }
}

pub fn order(host: &mut Host) {
    host.routes.sort_by_key(|route| match route.get(ORDER) {
        Some(Value::Integer(order)) => *order,
        _ => 0,
    });
    host.routes.iter_mut().for_each(|route| [ORDER, EXPRESSION].iter().for_each(|name| route.remove(name)));
}

/// Here, a pattern precedes every prefix. In nginx, an expression does not precede a location with `^~`, and one within a
/// prefix is not for a longer prefix. So what an expression would send or run below such a location gets a route with the
/// response of the location, and so does what is below a location that returns a status.
pub fn leave_out_expressions(locations: &[&Directive], host: &mut Host) {
    let is_nested = |route: &Scope| route.get(ORDER).is_some();
    let server_runs =
        host.routes.iter().any(|route| route.runs() && is_glob(route.path()) && !is_nested(route));
    for child in locations.iter().filter(|child| prefix_of(child).is_some()) {
        let Some(text) = prefix_of(child) else { continue };
        let folder = format!("{}/", text.trim_end_matches('/'));
        let Some(own) = host.routes.iter().find(|route| route.text("path") == Some(&folder)) else {
            continue;
        };
        let precedes = child.argument(0) == "^~" || own.get("return").is_some();
        if !precedes && server_runs {
            continue;
        }
        let has_files = |route: &Scope| is_glob(route.path()) && route.get("root").is_some();
        // nginx asks no expression behind `^~`, also one that denies.
        let is_apart = |route: &Scope| {
            let has_effect = route.protects() || route.responds();
            child.argument(0) == "^~"
                && route.get(EXPRESSION).is_some()
                && is_glob(route.path())
                && has_effect
        };
        let run = host.routes.iter().filter(|route| match precedes {
            true => route.runs() || has_files(route) || is_apart(route),
            false => route.runs() && is_nested(route),
        });
        // What only begins with the text has the files of the server here, and no other response.
        let start = if own.responds() || has_any(own, &["root", "alias"]) { &*folder } else { text };
        let run: Vec<String> = run
            .filter_map(|route| Some(pattern::all_beginning(start, route.text("path")?)))
            .flatten()
            .collect();
        for path in run.into_iter().take(TOO_MANY_ROUTES.saturating_sub(host.routes.len())) {
            if host.routes.iter().all(|route| route.text("path") != Some(&path)) {
                Order::Instead(text).set(host.route(&path, &child.place), &child.place);
            }
        }
    }
}

/// A key of a route that was an expression. It is no key of a route.
pub const EXPRESSION: &str = "expression";

/// In nginx, the first expression that matches counts. One such as `^/a/` is a prefix here, which the patterns of later
/// ones precede. So what these would run below it gets a route that has the response of the prefix.
pub fn keep_first_expressions(host: &mut Host) {
    let mut at = 0;
    while let Some(route) = host.routes.get(at) {
        at += 1;
        let Some(folder) =
            route.text("path").filter(|path| route.get(EXPRESSION).is_some() && path.ends_with('/'))
        else {
            continue;
        };
        let place = route.place();
        let later = host.routes[at..].iter().filter(|route| route.get(EXPRESSION).is_some());
        let run =
            later.filter(|route| (route.runs() || route.get("root").is_some()) && is_glob(route.path()));
        let run: Vec<String> = run
            .filter_map(|route| Some(pattern::all_beginning(folder, route.text("path")?)))
            .flatten()
            .collect();
        for path in run.into_iter().take(TOO_MANY_ROUTES.saturating_sub(host.routes.len())) {
            if host.routes.iter().all(|route| route.text("path") != Some(&path)) {
                let mut blank = Scope::new(place.line);
                blank.set(&place, "path", path);
                host.routes.insert(at, blank);
                at += 1;
            }
        }
    }
}

/// nginx rewrites the paths of a server before it looks for their location. So every route below such a path leads where
/// the path leads.
pub fn rewrite_first(host: &mut Host, draft: &mut Draft) {
    for path in std::mem::take(&mut host.first) {
        let own = host.routes.iter().find(|route| route.text("path") == Some(&path));
        let Some(own) = own.filter(|route| leads(route)).cloned() else { continue };
        let to = own.text("rewrite").and_then(|to| to.split(['?', '$']).next()).unwrap_or_default();
        if covers(&path, to) {
            let what = format!("the rewrite of {path} leads to a path of its own");
            draft.error(&own.place(), what, "see fallback");
            continue;
        }
        let has_rest = TARGET.iter().any(|name| own.text(name).is_some_and(|to| to.contains("rest")));
        let others = host.routes.iter().filter_map(|route| route.text("path"));
        let others = others.filter(|other| *other != path && path.ends_with('/'));
        let found: Vec<Below> = others.flat_map(|other| Below::of(&path, other, has_rest)).collect();
        for below in found.into_iter().take(TOO_MANY_ROUTES.saturating_sub(host.routes.len())) {
            below.lead(&own, host, draft);
        }
    }
}

/// What a route that leads elsewhere says about it.
const TARGET: [&str; 3] = ["rewrite", "redirect", "status"];

fn leads(route: &Scope) -> bool {
    route.get("rewrite").is_some() || route.get("redirect").is_some()
}

/// Paths below one that a server rewrites.
struct Below {
    path: String,
    /// The rest of the path, as a target has it. `None`: no target can say it.
    rest: Option<String>,
}

impl Below {
    /// Those that another route has.
    fn of(prefix: &str, other: &str, has_rest: bool) -> Vec<Below> {
        if !is_glob(other) {
            let Some(rest) = other.strip_prefix(prefix) else { return Vec::new() };
            let end = if other.ends_with('/') { "${rest}" } else { "" };
            let rest = Some(format!("{}{end}", rest.trim_end_matches('.')));
            return vec![Below { path: other.to_owned(), rest }];
        }
        // The rest is what the wildcard finds, with the end behind it.
        let end = other.strip_prefix('*').filter(|end| has_rest && !end.contains(['*', '?', '/', '$']));
        if let Some(end) = end {
            return vec![Below { path: format!("{prefix}**{end}"), rest: Some(format!("$1{end}")) }];
        }
        let all = pattern::all_beginning(prefix, other).into_iter();
        all.map(|path| Below { path, rest: (!has_rest).then(String::new) }).collect()
    }

    /// Leads them where the path above them leads.
    fn lead(self, own: &Scope, host: &mut Host, draft: &mut Draft) {
        let place = own.place();
        let Some(rest) = self.rest else {
            let path = own.path();
            let what = format!("the rewrite of {path} is not for the paths of {}", self.path);
            return draft.error(&place, what, "write it in the locations of these paths, too");
        };
        let route = host.route(&self.path, &place);
        if leads(route) && route.line < own.line {
            return;
        }
        WAYS.iter().chain(&HANDLERS).chain(&["root", "alias"]).for_each(|name| route.remove(name));
        route.rules.clear();
        for name in TARGET {
            match own.get(name) {
                Some(Value::Text(to)) => {
                    route.set(&place, name, to.replace("${rest}", "$rest").replace("$rest", &rest));
                }
                Some(value) => route.set(&place, name, value.clone()),
                None => {}
            }
        }
        if is_glob(&self.path) {
            Order::Instead(own.path()).set(route, &place);
        }
    }
}

/// In nginx, an expression has the root of its server, also for a path below a prefix that has another root or none. So its
/// route gets this root, and runs no script in a folder of uploaded files that a prefix leads to.
pub fn files_of_server(host: &mut Host, context: &Context) {
    let Some(root) = host.scope.text("root").or(context.root.as_deref()).map(str::to_owned) else { return };
    let has_others = |route: &Scope| {
        route.text("path").is_some_and(|path| path.ends_with('/') && path != "/")
            && has_any(route, &["root", "alias", "proxy", "application", "respond", "redirect"])
    };
    if !host.routes.iter().any(has_others) {
        return;
    }
    let has_files =
        |route: &Scope| !route.responds() && !has_any(route, &["root", "alias"]) && !is_closed(route);
    for route in &mut host.routes {
        if route.get(EXPRESSION).is_some() && is_glob(route.path()) && has_files(route) {
            let place = route.place();
            route.set(&place, "root", root.as_str());
        }
    }
}

/// The text of a location that is a prefix.
pub fn prefix_of(location: &Directive) -> Option<&str> {
    let [.., text] = location.arguments.as_slice() else { return None };
    let is_prefix = matches!(location.arguments.as_slice(), [_]) || location.argument(0) == "^~";
    (is_prefix && text.starts_with('/')).then_some(text)
}
