//! Reads the hosts of a configuration and the routes of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use script::environment::Additions;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::account::account;
use super::certificates::check_names;
use super::error::Place;
use super::folders;
use super::keys::Scope;
use super::limits::LimitReader;
use super::proxies;
use super::published::{Texts, texts};
use super::scripts;
use super::section::{Given, Section, integer, table, text};
use super::settings::{restrict, route_settings};
use super::tls;
use super::toml::{Entry, Table, Value};
use super::upstreams;
use super::value;
use crate::certificates::Certificates;
use crate::folder::UserFolders;
use crate::host::{Canonical, HostAddress, Hosts, HostsError};
use crate::model::{
    AccessLog, Account, Action, Host, Interpreter, LogFormat, NamedRoot, Route, Script, Scripts,
};
use crate::monitor::{self, Monitor};
use crate::plan::MAX_REWRITES;
use crate::published::Text;
use crate::route::{MAX_COMBINED, MAX_ROUTES, Pattern, RouteId, Routes, RoutesError};
use crate::template::{Template, TemplateError, Variable};
use crate::tls::HostTls;
use crate::upstream::Upstream;

/// The keys of which a host needs at least one.
const SERVES: [&str; 4] = ["root", "route", "redirects", "rewrites"];
/// The keys of which a route has at most one.
const ACTIONS: [&str; 9] =
    ["root", "alias", "application", "proxy", "redirect", "rewrite", "return", "respond", "monitor"];
/// The paths of user folders.
const USER_PATHS: &str = "/~*/**";
/// Error statuses that need a field which a route cannot set.
const INCOMPLETE: [u64; 5] = [401, 405, 407, 416, 426];
const DEFAULT_REDIRECT: u64 = 302;
/// Files of access logs that are named by hosts. All of them are open.
const MAX_HOST_LOGS: usize = 1000;

/// What the access logs of hosts take from that of all.
pub struct HostLogs {
    pub format: LogFormat,
    /// `None`: they have no files of their own by a key of `[log]`.
    pub by_host: Option<AccessLog>,
}

/// The hosts, the default one first. `None`: there is no host, after an error.
pub fn hosts(
    top: &Section,
    max_body: u64,
    scripts: &Scripts,
    log: &HostLogs,
    upstreams: &[Upstream],
    certificates: &Certificates,
    limits: &LimitReader<'_>,
) -> Option<Hosts> {
    let nothing = Route { max_body, ..Route::new(Pattern::EVERYTHING, Action::Return(Status::NOT_FOUND)) };
    let environment = scripts::environment(top, &scripts::default_environment());
    let users = folders::users(top);
    let inherited = Inherited {
        route: route_settings(top, Pattern::EVERYTHING, &nothing, upstreams, limits, scripts),
        environment,
        users: folders::user_folders(top, None, &users),
        scripts,
        upstreams,
        limits,
        tls: tls::host_tls(top, &HostTls::default()),
        texts: texts(top, &Texts::default()),
    };
    let sections = top.sections("host", Scope::Host);
    let mut names = BTreeMap::new();
    let mut hosts: Vec<(Host, &Section)> = Vec::new();
    match serves(top) {
        true => hosts.push((host(top, &inherited, log, &mut names), top)),
        false => reject_empty_top(top, !sections.is_empty()),
    }
    if !sections.is_empty() {
        reject_stray_routes(top);
    }
    let mut default = None;
    for section in &sections {
        if !serves(section) {
            let what_to_do = "give it a root, routes, redirects or rewrites; a root is not inherited";
            section.errors.add(section.place(), "this host has nothing to serve", what_to_do);
        }
        if section.flag("default") == Some(true) && default.replace(hosts.len()).is_some() {
            let what = "another host is the default one already";
            section.errors.add(section.place_of("default"), what, "keep one \"default = true\"");
        }
        let environment = scripts::environment(section, &inherited.environment);
        let settings = Inherited {
            route: route_settings(section, Pattern::EVERYTHING, &inherited.route, upstreams, limits, scripts),
            environment,
            scripts,
            upstreams,
            limits,
            users: folders::user_folders(section, inherited.users.as_ref(), &users),
            tls: tls::host_tls(section, &inherited.tls),
            texts: texts(section, &inherited.texts),
        };
        hosts.push((host(section, &settings, log, &mut names), section));
    }
    for (host, section) in &mut hosts {
        check_acme(host, section, certificates);
    }
    if let Some(default) = default {
        let first = hosts.remove(default);
        hosts.insert(0, first);
    }
    if log.by_host.is_some() && hosts.len() > MAX_HOST_LOGS {
        let what = format!("{} hosts would each have an access log", hosts.len());
        let what_to_do = format!(
            "{MAX_HOST_LOGS} are possible; remove $host from \"access\", and log the host in each line"
        );
        top.errors.add(top.place(), what, what_to_do);
    }
    hosts.iter().skip(1).for_each(|(_, section)| reject_unreachable(section));
    for (host, section) in hosts.iter().skip(1) {
        if host.names.is_empty() && host.folder.is_none() {
            tls::check_without_names(section, &host.tls, &hosts[0].0.tls);
        }
    }
    match Hosts::new(hosts.into_iter().map(|(host, _)| host).collect()) {
        Ok(hosts) => Some(hosts),
        Err(HostsError::None) => None,
        Err(HostsError::DuplicateName(name)) => {
            let what = format!("two hosts of the same address have the name \"{name}\"");
            top.errors.add(top.place(), what, "remove it from one of them");
            None
        }
    }
}

/// Checks the names of a host with a certificate by ACME. A host without names gets none, which is an error unless it
/// inherits the key.
fn check_acme(host: &mut Host, section: &Section, certificates: &Certificates) {
    if !host.tls.acme {
        return;
    }
    if !host.names.is_empty() {
        return check_names(section, &host.names, certificates);
    }
    host.tls.acme = false;
    let is_inherited = !section.has("acme") || section.has("host");
    if !is_inherited {
        let what = "a certificate needs names";
        section.errors.add(section.place_of("acme"), what, "add names = [\"example.org\"]");
    }
}

/// `section`: of another host than the default one.
fn reject_unreachable(section: &Section) {
    if !section.has("names") && !section.has("addresses") {
        let what = "this host has no names, so that no request can reach it";
        let what_to_do = "give it names, or make it the default with default = true in its [[host]]";
        section.errors.add(section.place_of("root"), what, what_to_do);
    }
}

fn serves(section: &Section) -> bool {
    SERVES.iter().any(|name| section.has(name))
}

fn reject_empty_top(top: &Section, has_hosts: bool) {
    if !has_hosts {
        let what_to_do = "add root = \"/srv/www\" before the first section";
        top.errors.add(top.place(), "nothing to serve", what_to_do);
    } else if top.has("names") {
        let what_to_do = "add a root, or move the names into a [[host]]";
        top.errors.add(top.place_of("names"), "the top level has names but nothing to serve", what_to_do);
    }
}

/// Reports `[[route]]` where `[[host.route]]` is meant: it belongs to the top level, and would make a host of it.
fn reject_stray_routes(top: &Section) {
    if SERVES.iter().any(|name| *name != "route" && top.has(name)) {
        return;
    }
    let Some(Entry { place, node, .. }) = top.table.get("route") else { return };
    let Value::Array(routes) = &node.value else { return };
    let mut paths = routes.iter().filter_map(table).filter_map(|route| text(&route.get("path")?.node));
    if !paths.any(|path| path == "/") {
        let what = "these routes belong to the top level, which has no root";
        let what_to_do = "write [[host.route]] behind their host, or add a root or a route for \"/\"";
        top.errors.add(place, what, what_to_do);
    }
}

/// What the routes of a host inherit.
struct Inherited<'a> {
    route: Route,
    /// The variables of its scripts.
    environment: Additions,
    scripts: &'a Scripts,
    upstreams: &'a [Upstream],
    limits: &'a LimitReader<'a>,
    users: Option<Arc<UserFolders>>,
    tls: HostTls,
    texts: Texts,
}

/// `inherited` has the settings of the host.
fn host<'c>(
    section: &Section<'c>,
    inherited: &Inherited<'_>,
    log: &HostLogs,
    names: &mut BTreeMap<String, &'c Place>,
) -> Host {
    let root = section.path("root");
    let folder = folders::host_folder(section, root.as_deref());
    let action = match (&folder, root) {
        (Some(_), _) => Action::NamedFiles(NamedRoot::OfHost),
        (None, Some(root)) => Action::Files { root, strip: 0 },
        (None, None) => inherited.route.action.clone(),
    };
    let users = inherited.users.clone();
    let route = Route { action, ..inherited.route.clone() };
    let (environment, tls) = (inherited.environment.clone(), inherited.tls.clone());
    let texts = inherited.texts.clone();
    let inherited = Inherited { route, environment, tls, texts, users: users.clone(), ..*inherited };
    let upstreams = inherited.upstreams;
    // The top level has no such key.
    let sink = section.sink("access_log").flatten();
    let addresses = addresses(section);
    let names = host_names(section, &addresses, names);
    let own = sink.map(|sink| AccessLog { sink, format: log.format.clone() });
    let access_log = own.or_else(|| Some(log.by_host.as_ref()?.of_host(&names))).map(Box::new);
    Host {
        names,
        addresses,
        canonical: section.choice("canonical").map(|word| match word {
            "www" => Canonical::Www,
            "bare" => Canonical::Bare,
            _ => Canonical::First,
        }),
        tls: inherited.tls.clone(),
        routes: routes(section, inherited),
        folder: folder.map(Arc::new),
        users,
        access_log,
    }
    .with_mappings(upstreams)
}

/// The addresses of the server that the host is for.
fn addresses(section: &Section) -> Vec<HostAddress> {
    let read = |given: &Given<&str>| {
        let address = HostAddress::parse(given.value);
        if address.is_none() {
            let what = format!("\"{}\" is not an address of a host", given.value.escape_debug());
            section.errors.add(
                given.place,
                what,
                "write \"192.0.2.1\", \"192.0.2.1:8080\" or \"2001:db8::1\"",
            );
        }
        address
    };
    section.texts("addresses").unwrap_or_default().iter().filter_map(read).collect()
}

fn host_names<'c>(
    section: &Section<'c>,
    addresses: &[HostAddress],
    seen: &mut BTreeMap<String, &'c Place>,
) -> Vec<String> {
    let mut names = Vec::new();
    let Some(texts) = section.texts("names") else { return names };
    if texts.is_empty() {
        let what = "\"names\" is empty";
        section.errors.add(section.place_of("names"), what, "add a name, or remove the key");
    }
    for given in texts {
        let text = given.value.escape_debug();
        if let Err(what_to_do) = value::check_host_name(given.value) {
            section.errors.add(given.place, format!("\"{text}\" is not a host name"), what_to_do);
            continue;
        }
        // Hosts of different addresses may share a name.
        let key = format!("{} {addresses:?}", given.value.to_ascii_lowercase());
        match seen.insert(key, given.place) {
            Some(other) => {
                let what = format!("the name \"{text}\" is given twice: {other} has it too");
                section.errors.add(given.place, what, "remove one of them");
            }
            None => names.push(given.value.to_owned()),
        }
    }
    names
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
fn routes(section: &Section, inherited: Inherited<'_>) -> Routes {
    let mut placed: Vec<PlacedRoute> = Vec::new();
    placed.extend(user_route(section, &inherited));
    let sections = section.sections("route", Scope::Route);
    let places: Vec<&str> = sections.iter().filter_map(folder_prefix).collect();
    placed.extend(sections.iter().filter_map(|route_section| route(route_section, &inherited, &places)));
    placed.extend(short_routes(section, "redirects", &inherited, redirect_entry));
    placed.extend(short_routes(section, "rewrites", &inherited, rewrite_entry));
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
    let combine = |inner, outer| combined(at(inner)?, at(outer)?, &inherited);
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
    let (jwt, authentication) = (None, Arc::default());
    let fallback = None;
    let inherited_route = inherited.route.clone();
    let route = Route { pattern, action, authorizers, jwt, authentication, fallback, ..inherited_route };
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

/// A glob, or a route for one path, within a prefix: it inherits from the prefix. `None`: after an error.
fn combined(inner: &PlacedRoute, outer: &PlacedRoute, inherited: &Inherited<'_>) -> Option<Route> {
    let pattern = inner.route.pattern.clone();
    if matches!(inner.route.action, Action::Publish(_)) && inner.section.is_none() {
        return Some(inner.route.clone());
    }
    let Some(section) = inner.section else {
        let action = inner.route.action.clone();
        return Some(Route { pattern, action, within: None, script: None, ..outer.route.clone() });
    };
    let environment = scripts::environment(section, &outer.environment);
    let mut route = route_settings(
        section,
        pattern,
        &outer.route,
        inherited.upstreams,
        inherited.limits,
        inherited.scripts,
    );
    if let (Pattern::Glob(_), Some(prefix)) = (&route.pattern, outer.section) {
        restrict(&mut route, section, prefix, &outer.route);
    }
    if section.table.entries.iter().any(is_action)
        || !inherits_action(&outer.route, &route.pattern, inherited)
    {
        let script = inner.route.script.clone().map(|script| Box::new(Script { environment, ..*script }));
        let script = script.map(|script| Box::new(with_account(*script, inner, outer, inherited)));
        return Some(Route { action: inner.route.action.clone(), within: None, script, ..route });
    }
    route.within = Some(Box::new(outer.route.pattern.clone()));
    let has_interpreter = section.has("interpreter") || section.has("cgi");
    route.script = match route.action {
        ref action if action.may_have_scripts() && has_interpreter => {
            let Inherited { scripts, upstreams, .. } = *inherited;
            scripts::script(section, &route.pattern, &route.action, &outer.environment, scripts, upstreams)
                .map(Box::new)
        }
        _ => outer.route.script.clone().map(|script| Box::new(Script { environment, ..*script })),
    };
    route.script = route.script.map(|script| Box::new(with_account(*script, inner, outer, inherited)));
    if outer.route.publishes() {
        // What clients publish is never run.
        route.script = None;
    }
    Some(route)
}

/// Sets the account of a program: that of the glob, or else of the prefix, or else of `[scripts]`.
fn with_account(
    script: Script,
    inner: &PlacedRoute,
    outer: &PlacedRoute,
    inherited: &Inherited<'_>,
) -> Script {
    let named = [&inner.account, &outer.account, &inherited.scripts.account].into_iter().flatten().next();
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
    let Some(path) = section.text("path") else {
        if !section.has("path") {
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
    let route = route_settings(
        section,
        pattern,
        &inherited.route,
        inherited.upstreams,
        inherited.limits,
        inherited.scripts,
    );
    let Some(action) = action else {
        // It applies only within prefixes: see `combined`.
        return Some(PlacedRoute { route, environment, account, section: Some(section), place: path.place });
    };
    let action = action?;
    let route = Route { action, ..route };
    reject_open(section, &route);
    let action = route.action.clone();
    let Inherited { environment: outer, scripts, upstreams, .. } = inherited;
    let script = scripts::script(section, &route.pattern, &action, outer, scripts, upstreams);
    let route = Route { action, script: script.map(Box::new), ..route };
    Some(PlacedRoute { route, environment, account, section: Some(section), place: path.place })
}

/// `None` after an error.
fn action(section: &Section, pattern: &Pattern, inherited: &Inherited<'_>) -> Option<Action> {
    let given: Vec<&Entry> = section.table.entries.iter().filter(|entry| is_action(entry)).collect();
    if let [first, second, ..] = given[..] {
        let what = format!("\"{}\" and \"{}\" exclude each other", first.key, second.key);
        section.errors.add(&second.place, what, "keep one of them");
        return None;
    }
    let status = section.count("status");
    let Some(entry) = given.first() else {
        return inherited_action(section, pattern, &inherited.route);
    };
    if section.has("status") && entry.key != "redirect" {
        let what = "\"status\" is for a redirect";
        section.errors.add(section.place_of("status"), what, "use return = STATUS, or add a redirect");
    }
    match entry.key.as_str() {
        "root" => Some(Action::Files { root: section.path("root")?, strip: 0 }),
        "alias" => alias(section, pattern),
        "application" => {
            let given = section.text("application")?;
            upstreams::find(section, given.value, given.place, inherited.upstreams).map(Action::Upstream)
        }
        "proxy" => proxies::action(section, inherited.upstreams),
        "redirect" => {
            let status = redirect_status(section, status, section.place_of("status"))?;
            redirect(section, pattern, section.text("redirect")?.value, &entry.place, status)
        }
        "rewrite" => rewrite(section, pattern, section.text("rewrite")?.value, &entry.place),
        "respond" => Some(Action::Publish(Arc::new(Text {
            body: section.text("respond")?.value.to_owned(),
            media_type: section.text("default_type").map(|given| given.value.to_owned()),
            expires: None,
        }))),
        "monitor" => Monitor::from_name(section.choice("monitor")?).map(Action::Monitor),
        _ => return_status(section),
    }
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

fn is_action(entry: &Entry) -> bool {
    ACTIONS.contains(&entry.key.as_str())
}

/// A glob may have the action of a prefix around it, without a root of the host.
fn inherited_action(section: &Section, pattern: &Pattern, inherited: &Route) -> Option<Action> {
    if section.has("status") {
        let what = "\"status\" is for a redirect";
        section.errors.add(section.place_of("status"), what, "use return = STATUS, or add a redirect");
    }
    if let (Action::Return(_), Pattern::Prefix(_) | Pattern::Exact(_)) = (&inherited.action, pattern) {
        let what = "this route has no action, and its host has no root to inherit";
        let what_to_do = "add root, alias, redirect, rewrite or return to it, or a root to the host";
        section.errors.add(section.place(), what, what_to_do);
        return None;
    }
    Some(inherited.action.clone())
}

fn alias(section: &Section, pattern: &Pattern) -> Option<Action> {
    let root = section.path("alias")?;
    match pattern {
        Pattern::Prefix(prefix) => Some(Action::Files { root, strip: prefix.matches('/').count() }),
        Pattern::Exact(_) | Pattern::Glob(_) => {
            let what = format!("an alias cannot take the place of \"{pattern}\"");
            let what_to_do = "end the path with a slash: an alias replaces a folder";
            section.errors.add(section.place_of("alias"), what, what_to_do);
            None
        }
    }
}

fn return_status(section: &Section) -> Option<Action> {
    let code = section.count("return")?;
    if INCOMPLETE.contains(&code) {
        let what = format!("\"return\" cannot be {code}, which needs a field of its own");
        section.errors.add(section.place_of("return"), what, "use 403 or 404");
        return None;
    }
    u16::try_from(code).ok().and_then(Status::new).map(Action::Return)
}

fn redirect_status(section: &Section, given: Option<u64>, place: &Place) -> Option<Status> {
    match given.unwrap_or(DEFAULT_REDIRECT) {
        301 => Some(Status::MOVED_PERMANENTLY),
        302 => Some(Status::FOUND),
        303 => Some(Status::SEE_OTHER),
        307 => Some(Status::TEMPORARY_REDIRECT),
        308 => Some(Status::PERMANENT_REDIRECT),
        other => {
            let what = format!("{other} is not a redirect status");
            section.errors.add(place, what, "expected 301, 302, 303, 307 or 308");
            None
        }
    }
}

fn redirect(section: &Section, pattern: &Pattern, to: &str, place: &Place, status: Status) -> Option<Action> {
    let to = template(section, pattern, to, place, Template::redirect)?;
    Some(Action::Redirect { status, to })
}

fn rewrite(section: &Section, pattern: &Pattern, to: &str, place: &Place) -> Option<Action> {
    Some(Action::Rewrite { to: template(section, pattern, to, place, Template::rewrite)? })
}

fn template(
    section: &Section,
    pattern: &Pattern,
    text: &str,
    place: &Place,
    parse: fn(&str) -> Result<Template, TemplateError>,
) -> Option<Template> {
    let reject = |what_to_do: String| {
        section.errors.add(place, format!("\"{}\" is not a valid target", text.escape_debug()), what_to_do);
        None
    };
    match parse(text) {
        Err(error) => reject(error.to_string()),
        Ok(template) if template.uses(Variable::Rest) && !matches!(pattern, Pattern::Prefix(_)) => {
            reject("$rest needs a prefix as pattern; use $path".to_owned())
        }
        Ok(template) => Some(template),
    }
}

/// Reads the action of one entry of `redirects` or `rewrites`.
type ShortAction = fn(&Section, &Pattern, &Entry) -> Option<Action>;

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

fn redirect_entry(section: &Section, pattern: &Pattern, entry: &Entry) -> Option<Action> {
    let (to, status) = match &entry.node.value {
        Value::Table(table) => long_redirect(section, table)?,
        _ => (section.text_of(entry, "a target, or { to = target, status = 301 }")?, None),
    };
    let status = redirect_status(section, status, &entry.place)?;
    redirect(section, pattern, to, &entry.place, status)
}

/// `{ to = "…", status = 301 }`
fn long_redirect<'c>(section: &Section, table: &'c Table) -> Option<(&'c str, Option<u64>)> {
    for entry in table.entries.iter().filter(|entry| !["to", "status"].contains(&entry.key.as_str())) {
        let what = format!("unknown key \"{}\"", entry.key.escape_debug());
        section.errors.add(&entry.place, what, "a redirect has \"to\" and \"status\"");
    }
    let status = table.get("status").map(|entry| integer(&entry.node).unwrap_or(0));
    match table.get("to").and_then(|entry| text(&entry.node)) {
        Some(to) => Some((to, status)),
        None => {
            section.errors.add(&table.place, "a redirect has no target", "add to = \"/…\"");
            None
        }
    }
}

fn rewrite_entry(section: &Section, pattern: &Pattern, entry: &Entry) -> Option<Action> {
    rewrite(section, pattern, section.text_of(entry, "a path")?, &entry.place)
}
