//! Reads the routes of a host, and has globs inherit from the prefixes around them.

use std::collections::BTreeMap;
use std::sync::Arc;

use script::environment::Additions;
use taipan_http::target::SafePath;

use super::account::account;
use super::actions::{self, ShortAction, action, is_action};
use super::definitions::Definitions;
use super::error::Place;
use super::folders;
use super::keys::Scope;
use super::published::{Texts, texts};
use super::scripts;
use super::section::{Section, text};
use super::settings::{restrict, route_settings};
use super::tls;
use super::toml::{Entry, Node, Value};
use crate::folder::UserFolders;
use crate::model::{Account, Action, Interpreter, NamedRoot, Route, Script};
use crate::monitor::{self, Monitor};
use crate::plan::MAX_REWRITES;
use crate::published::Text;
use crate::route::{MAX_COMBINED, MAX_ROUTES, Pattern, RouteId, Routes, RoutesError};
use crate::tls::HostTls;

/// The paths of user folders.
const USER_PATHS: &str = "/~*/**";

/// What the routes of a host inherit.
pub(super) struct Inherited<'a> {
    pub(super) route: Route,
    /// The variables of its scripts.
    pub(super) environment: Additions,
    pub(super) definitions: Definitions<'a>,
    pub(super) users: Option<Arc<UserFolders>>,
    pub(super) tls: HostTls,
    pub(super) texts: Texts,
}

impl Inherited<'_> {
    /// With the settings of a section in place of these. `users` are those of the top level.
    pub(super) fn by_section(&self, section: &Section, users: &UserFolders) -> Self {
        Inherited {
            route: route_settings(section, Pattern::EVERYTHING, &self.route, self.definitions),
            environment: scripts::environment(section, &self.environment),
            users: folders::user_folders(section, self.users.as_ref(), users),
            tls: tls::host_tls(section, &self.tls),
            texts: texts(section, &self.texts),
            definitions: self.definitions,
        }
    }
}

/// A route, and the place of its pattern.
struct PlacedRoute<'s, 'c> {
    route: Route,
    /// The variables of scripts in this route, and in globs within it.
    environment: Additions,
    /// The account of scripts in this route, and in globs within it.
    account: Option<Account>,
    /// `None`: it is one of `redirects` or `rewrites`, and has only an action.
    section: Option<&'s Section<'c>>,
    place: &'c Place,
}

/// The routes of a host: routes first, then redirects, then rewrites, because globs are tried in this order.
pub(super) fn routes(section: &Section, inherited: Inherited<'_>) -> Routes {
    let mut placed: Vec<PlacedRoute> = Vec::new();
    placed.extend(user_route(section, &inherited));
    let sections = section.sections("route", Scope::Route);
    let places: Vec<&str> = sections.iter().filter_map(folder_prefix).collect();
    placed.extend(sections.iter().filter_map(|route_section| route(route_section, &inherited, &places)));
    placed.extend(short_routes(section, "redirects", &inherited, actions::redirect_entry));
    placed.extend(short_routes(section, "rewrites", &inherited, actions::rewrite_entry));
    reject_twice(section, &mut placed);
    for (path, text) in inherited.texts.iter() {
        placed.extend(published(section, &inherited, path, text, &placed));
    }
    if placed.len() > MAX_ROUTES {
        let what = format!("a host has more than {MAX_ROUTES} routes, redirects and rewrites");
        section.errors.add(placed[MAX_ROUTES].place, what, "use patterns that match more");
        placed.truncate(MAX_ROUTES);
    }
    let own_default = placed.iter().position(|placed| placed.route.pattern == Pattern::EVERYTHING);
    let own_default = own_default.map(|at| placed.remove(at));
    let default = own_default.as_ref().map_or(&inherited.route, |placed| &placed.route).clone();
    let only = Routes::only(default.clone());
    let others = placed.iter().map(|placed| placed.route.clone()).collect();
    let at = |id: RouteId| id.index().map_or(own_default.as_ref(), |at| placed.get(at));
    let combine = |inner, outer| Some(combined(at(inner)?, at(outer)?, &inherited));
    let routes = Routes::new(default, others).and_then(|routes| routes.combine(combine));
    if let Err(RoutesError::TooManyCombined) = routes {
        let what = format!("the globs and prefixes of a host make more than {MAX_COMBINED} routes together");
        section.errors.add(section.place(), what, "write globs for one folder, such as \"/a/**.php\"");
    }
    let routes = routes.unwrap_or(only);
    let places: Vec<&Place> = placed.iter().map(|placed| placed.place).collect();
    let default = own_default.as_ref().map(|placed| placed.place);
    reject_loops(section, &routes, default, &places);
    routes
}

/// The route of a text for everyone. `None`: there is another route for its path.
fn published<'s, 'c>(
    section: &Section<'c>,
    inherited: &Inherited<'_>,
    path: &str,
    text: &Arc<Text>,
    others: &[PlacedRoute<'_, '_>],
) -> Option<PlacedRoute<'s, 'c>> {
    let pattern =
        Pattern::parse(path).ok().filter(|own| others.iter().all(|other| other.route.pattern != *own))?;
    let (action, authorizers) = (Action::Publish(text.clone()), Vec::new());
    let (jwts, authentication) = (Vec::new(), Arc::default());
    let fallback = None;
    let inherited_route = inherited.route.clone();
    let route = Route { pattern, action, authorizers, jwts, authentication, fallback, ..inherited_route };
    let environment = inherited.environment.clone();
    Some(PlacedRoute { route, environment, account: None, section: None, place: section.place() })
}

/// The route of the user folders. It is the first, because a glob such as `*.css` is not meant for them.
fn user_route<'s, 'c>(section: &Section<'c>, inherited: &Inherited<'_>) -> Option<PlacedRoute<'s, 'c>> {
    let pattern = Pattern::parse(USER_PATHS).ok().filter(|_| inherited.users.is_some())?;
    let route = Route { pattern, action: Action::NamedFiles(NamedRoot::OfUser), ..inherited.route.clone() };
    let environment = inherited.environment.clone();
    let place = section.place_of("user_folders");
    Some(PlacedRoute { route, environment, account: None, section: None, place })
}

/// The prefix of a section that has a folder of its own.
fn folder_prefix<'c>(section: &Section<'c>) -> Option<&'c str> {
    let path = section.table.get("path").and_then(|entry| text(&entry.node));
    path.filter(|path| path.ends_with('/') && (section.has("root") || section.has("alias")))
}

/// A glob, or a route for one path, within a prefix: it inherits from the prefix.
fn combined(inner: &PlacedRoute, outer: &PlacedRoute, inherited: &Inherited<'_>) -> Route {
    let pattern = inner.route.pattern.clone();
    if matches!(inner.route.action, Action::Publish(_)) && inner.section.is_none() {
        return inner.route.clone();
    }
    let Some(section) = inner.section else {
        let action = inner.route.action.clone();
        return Route { pattern, action, within: None, script: None, ..outer.route.clone() };
    };
    let environment = scripts::environment(section, &outer.environment);
    let mut route = route_settings(section, pattern, &outer.route, inherited.definitions);
    if let (Pattern::Glob(_), Some(prefix)) = (&route.pattern, outer.section) {
        restrict(&mut route, section, prefix, &outer.route);
    }
    if section.table.entries.iter().any(is_action)
        || !inherits_action(&outer.route, &route.pattern, inherited)
    {
        let script = inner.route.script.as_deref().cloned().map(|script| Script { environment, ..script });
        let script = script.map(|script| Box::new(with_account(script, inner, outer, inherited)));
        return Route { action: inner.route.action.clone(), within: None, script, ..route };
    }
    route.within = Some(Box::new(outer.route.pattern.clone()));
    let has_interpreter = section.has("interpreter") || section.has("cgi");
    let script = match has_interpreter && route.action.may_have_scripts() {
        true => {
            scripts::script(section, &route.pattern, &route.action, &outer.environment, inherited.definitions)
        }
        false => outer.route.script.as_deref().cloned().map(|script| Script { environment, ..script }),
    };
    // What clients publish is never run.
    let script = script.filter(|_| !outer.route.publishes());
    route.script = script.map(|script| Box::new(with_account(script, inner, outer, inherited)));
    route
}

/// Sets the account of a program: that of the glob, or else of the prefix, or else of `[scripts]`.
fn with_account(
    script: Script,
    inner: &PlacedRoute,
    outer: &PlacedRoute,
    inherited: &Inherited<'_>,
) -> Script {
    let named =
        [&inner.account, &outer.account, &inherited.definitions.scripts.account].into_iter().flatten().next();
    let is_program = !matches!(script.interpreter, Some(Interpreter::Upstream(_)));
    Script { account: named.filter(|_| is_program).cloned(), ..script }
}

/// Whether a pattern within a prefix inherits the prefix's action. The root of the host precedes the route for `/`. A
/// rewrite applies only to paths without another pattern. A route for one path without an action is an exception from
/// an action of the prefix that does not serve files.
fn inherits_action(prefix: &Route, pattern: &Pattern, inherited: &Inherited<'_>) -> bool {
    if prefix.pattern == Pattern::EVERYTHING && has_root(inherited) {
        return false;
    }
    match prefix.action {
        Action::Files { .. } | Action::NamedFiles(_) => true,
        Action::Upstream(_)
        | Action::Redirect { .. }
        | Action::Return(_)
        | Action::Publish(_)
        | Action::Monitor(_) => matches!(pattern, Pattern::Glob(_)),
        Action::Rewrite { .. } => false,
    }
}

fn has_root(inherited: &Inherited<'_>) -> bool {
    matches!(inherited.route.action, Action::Files { .. } | Action::NamedFiles(_))
}

fn reject_twice(section: &Section, placed: &mut Vec<PlacedRoute>) {
    let mut seen: BTreeMap<String, &Place> = BTreeMap::new();
    placed.retain(|placed| {
        let text = placed.route.pattern.to_string();
        let Some(other) = seen.get(&text) else {
            seen.insert(text, placed.place);
            return true;
        };
        let what = format!("the pattern \"{text}\" is given twice: {other} has it too");
        section.errors.add(placed.place, what, "remove one of them");
        false
    });
}

/// Reports rewrites that do not end, by an example path of each pattern. `default` is the place of the route for
/// every path.
fn reject_loops(section: &Section, routes: &Routes, default: Option<&Place>, places: &[&Place]) {
    let placed = routes.iter().zip([default].into_iter().chain(places.iter().copied().map(Some)));
    for (route, place) in placed {
        let (Action::Rewrite { to }, Some(place)) = (&route.action, place) else { continue };
        let Some(path) = route.pattern.example().and_then(|path| rewritten(route, &path)) else { continue };
        if terminates(routes, path) {
            continue;
        }
        let what = format!("the rewrite of \"{}\" leads back to itself", route.pattern);
        let what_to_do = match &route.pattern {
            Pattern::Prefix(_) if to.is_constant() => format!(
                "write fallback = \"{to}\" instead, which responds where a file does not exist; or add a route with a root \
                 for \"{to}\""
            ),
            _ => "add a route with a root for its target, or narrow the pattern".to_owned(),
        };
        section.errors.add(place, what, what_to_do);
    }
}

fn terminates(routes: &Routes, mut path: SafePath<'static>) -> bool {
    for _ in 0..MAX_REWRITES {
        match rewritten(routes.get(routes.find(&path)), &path) {
            Some(next) => path = next,
            None => return true,
        }
    }
    false
}

/// The target for `path`, if the route rewrites it.
fn rewritten(route: &Route, path: &SafePath) -> Option<SafePath<'static>> {
    match &route.action {
        Action::Rewrite { to } => to.path(path.as_str(), route.base()),
        _ => None,
    }
}

fn route<'s, 'c>(
    section: &'s Section<'c>,
    inherited: &Inherited<'_>,
    prefixes: &[&str],
) -> Option<PlacedRoute<'s, 'c>> {
    if let Some(Entry { place, node: Node { value: Value::Array(_), .. }, .. }) = section.table.get("path") {
        section.errors.add(place, "a route has one \"path\"", "write one [[route]] for each pattern");
        return None;
    }
    let Some(path) = section.text("path") else {
        if section.lacks("path") {
            section.errors.add(section.place(), "a route has no path", "add path = \"/…\"");
        }
        return None;
    };
    let pattern = section.pattern(path.value, path.place)?;
    let environment = scripts::environment(section, &inherited.environment);
    let account = account(section);
    let has_action = section.table.entries.iter().any(is_action);
    let is_within = match &pattern {
        Pattern::Exact(_) => prefixes.iter().any(|prefix| path.value.starts_with(prefix)),
        Pattern::Glob(_) => !prefixes.is_empty(),
        Pattern::Prefix(_) => false,
    };
    let applies_within = !has_action && !has_root(inherited) && is_within;
    let action = (!applies_within).then(|| action(section, &pattern, inherited));
    let errors = section.errors.count();
    let route = route_settings(section, pattern, &inherited.route, inherited.definitions);
    // Without a rule that has a mistake, it may only look open.
    let is_whole = section.errors.count() == errors;
    let Some(action) = action else {
        // It applies only within prefixes: see `combined`.
        return Some(PlacedRoute { route, environment, account, section: Some(section), place: path.place });
    };
    let action = action?;
    let route = Route { action, ..route };
    if is_whole {
        reject_open(section, &route);
    }
    let action = route.action.clone();
    let script =
        scripts::script(section, &route.pattern, &action, &inherited.environment, inherited.definitions);
    let route = Route { action, script: script.map(Box::new), ..route };
    Some(PlacedRoute { route, environment, account, section: Some(section), place: path.place })
}

/// Reports a route that would show every client how the server does.
fn reject_open(section: &Section, route: &Route) {
    let Action::Monitor(monitor) = route.action else { return };
    if monitor == Monitor::Acts && monitor::may_lack_credentials(route) {
        let what = "\"acts\" changes the running server, and asks for no credentials";
        let what_to_do =
            "add auth = \"basic\" with user_files and without satisfy = \"any\", jwt or an authorizer";
        section.errors.add(section.place_of("monitor"), what, what_to_do);
        return;
    }
    if monitor.is_private() && monitor::is_open(route) {
        let what =
            format!("every client could read \"{}\", which says much about this server", monitor.name());
        let what_to_do = "add rules of access, such as [[route.rule]] address = \"127.0.0.1\" then = \"allow\" and \
                          [[route.rule]] then = \"deny\", or ask for passwords with auth = \"basic\"";
        section.errors.add(section.place_of("monitor"), what, what_to_do);
    }
}

/// The routes of `redirects` or `rewrites`.
fn short_routes<'s, 'c>(
    section: &Section<'c>,
    name: &str,
    inherited: &Inherited<'_>,
    action: ShortAction,
) -> Vec<PlacedRoute<'s, 'c>> {
    let route = |entry: &'c Entry| {
        let pattern = section.pattern(&entry.key, &entry.place)?;
        let action = action(section, &pattern, entry)?;
        let route = Route { pattern, action, ..inherited.route.clone() };
        let environment = inherited.environment.clone();
        Some(PlacedRoute { route, environment, account: None, section: None, place: &entry.place })
    };
    section.pairs(name).iter().filter_map(route).collect()
}
