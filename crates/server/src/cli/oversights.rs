//! What is valid in a configuration, and hardly meant: a folder beside a route or a rule that is for its path alone,
//! scripts whose source is sent, error pages that are no files, error pages and fallbacks that are missing,
//! applications without a route, and redirects, logins and upstreams that lead back to themselves. Looks for files and
//! changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use site::access::{Condition, Rule};
use site::address::Address;
use site::authorizer::Authorizer;
use site::endpoint::EndpointAddress;
use site::forwarding::Spelling;
use site::model::{Action, Host, Route, Site};
use site::plan::{PlannedAction, PlannedRoot, plan, planned_route};
use site::route::Pattern;
use site::template::Variables;
use site::upstream::{Protocol, Upstream, UpstreamId};
use site::walk::{Step, StepRoot};
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use crate::exchange::authorizers;
use crate::finding::Finding;

/// Extensions of scripts that run on servers.
const SCRIPTS: [&str; 6] = ["cgi", "lua", "php", "pl", "py", "rb"];

/// Redirects that a client follows: browsers give up after about twenty.
const MAX_REDIRECTS: usize = 20;

/// Names in a folder that are looked through for another form of a file.
const MAX_NAMES: usize = 10_000;

/// The keys that name a root, and those that name the path of a page.
const ROOT: &[&str] = &["root", "alias"];
const PAGE: &[&str] = &["error_pages", "fallback"];

/// `silent`: the roots that do not respond.
pub fn findings(site: &Site, silent: &[PathBuf]) -> Vec<Finding> {
    // Several routes may have the same oversight.
    let (mut beneath_roots, mut of_pages, mut endless) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (index, host) in site.hosts.iter().enumerate() {
        // Routes share most of their rules.
        let mut rules: BTreeMap<&str, &Rule> = BTreeMap::new();
        for route in host.routes.iter() {
            beneath_roots.extend(folder_beside_route(host, route, silent));
            beneath_roots.extend(sources(host, route, silent));
            of_pages.extend(missing_pages(host, route, silent));
            of_pages.extend(pages_of_no_file(host, route));
            endless.extend(endless_redirect(host, route));
            endless.extend(endless_proxy(site, index, route));
            endless.extend(route.authorizers.iter().filter_map(|own| guarded_login(host, own)));
            rules.extend(
                route.access.iter().flat_map(|list| list.iter()).map(|rule| (rule.place.as_str(), &**rule)),
            );
        }
        endless.extend(rules.values().filter_map(|rule| endless_rule(host, rule)));
        beneath_roots.extend(rules.into_values().flat_map(|rule| folders_beside_rule(host, rule, silent)));
    }
    beneath_roots.into_iter().chain(of_pages).chain(endless).chain(idle(site)).collect()
}

/// The applications that get no request.
fn idle(site: &Site) -> Vec<Finding> {
    let routes = || site.hosts.iter().flat_map(|host| host.routes.iter());
    let of_authorizers = routes().flat_map(|route| &route.authorizers).map(|authorizer| authorizer.upstream);
    let used: BTreeSet<UpstreamId> = routes().filter_map(Route::upstream).chain(of_authorizers).collect();
    let finding = |upstream: &Upstream| {
        let name = &upstream.name;
        let text =
            format!("no route leads to the application \"{name}\"; name it in a [[route]], or remove it");
        Finding::warning(&["name"], name, text)
    };
    let idle = site.upstreams.iter().enumerate().filter(|(id, _)| !used.contains(id));
    idle.map(|(_, upstream)| finding(upstream)).collect()
}

/// The folder of a path for which there is a route of files or scripts. Another route is for what is in it.
fn folder_beside_route(host: &Host, route: &Route, silent: &[PathBuf]) -> Option<Finding> {
    let Pattern::Exact(path) = &route.pattern else { return None };
    if !matches!(route.action, Action::Files { .. }) {
        return None;
    }
    let folder = folder_at(path)?;
    let inner = planned_route(host, folder.clone());
    let (root, found) = on_disk(host, folder, silent)?;
    let is_open = inner.pattern != Pattern::Prefix(format!("{path}/")) && found.is_dir();
    is_open.then(|| Finding::warning(ROOT, root, text_of_folder(&format!("the route /{path}"), path, &found)))
}

/// As `folder_beside_route`, for a rule that does not just allow.
fn folders_beside_rule(host: &Host, rule: &Rule, silent: &[PathBuf]) -> Vec<Finding> {
    let paths = |condition: &Condition| match condition {
        Condition::Path(selection) if rule.action != site::access::Action::Allow => selection.include.clone(),
        _ => Vec::new(),
    };
    let patterns: Vec<Pattern> = rule.conditions.iter().flat_map(paths).collect();
    let found = |pattern: &Pattern| {
        let Pattern::Exact(path) = pattern else { return None };
        let folder = folder_at(path)?;
        if patterns.iter().any(|other| other.matches(&folder)) {
            return None;
        }
        let (root, found) = on_disk(host, folder, silent)?;
        let text = || text_of_folder(&format!("the rule of {}", rule.place), path, &found);
        found.is_dir().then(|| Finding::warning(ROOT, root, text()))
    };
    patterns.iter().filter_map(found).collect()
}

fn text_of_folder(what: &str, path: &str, folder: &Path) -> String {
    format!(
        "{what} is for the path /{path} alone, and not for what is in the folder {}; write \"/{path}/\" for that",
        folder.display()
    )
}

/// Index files and the fallback of a route, if they are scripts that are sent as files.
fn sources(host: &Host, route: &Route, silent: &[PathBuf]) -> Vec<Finding> {
    let mut paths = BTreeMap::new();
    if let Pattern::Prefix(prefix) = &route.pattern
        && let Ok(folder) = SafePath::from_decoded(&format!("/{prefix}"))
        && let PlannedAction::Files(files) = plan(host, folder.clone(), None).action
    {
        paths.extend(files.index.iter().filter_map(|name| Some((folder.join(name)?, "index"))));
    }
    // It may be an index file, too.
    paths.extend(route.fallback.as_ref().map(|fallback| (fallback.path.clone(), "fallback")));
    let found = |(path, key): (SafePath<'static>, &str)| {
        let is_script = path.extension().is_some_and(|extension| SCRIPTS.contains(&extension));
        // A walk would find the script, and run it.
        let is_sent = is_script && plan(host, path.borrowed(), None).walk.is_none();
        let (root, found) = on_disk(host, path, silent).filter(|_| is_sent)?;
        let shown = found.display();
        let text = format!(
            "clients get the source of {shown}, which is the {key} of {}, and which no route runs; add a route that runs \
             it, as path = \"*.php\" with an interpreter, or another {key}",
            route.name()
        );
        found.is_file().then(|| Finding::warning(ROOT, root, text))
    };
    paths.into_iter().filter_map(found).collect()
}

/// The error pages of a route for whose paths scripts, applications or others respond.
fn pages_of_no_file(host: &Host, route: &Route) -> Vec<Finding> {
    let found = |(status, path): &(Status, SafePath<'static>)| {
        let text = format!(
            "the error page for {} is no file, so that clients get the built-in page: the route {} responds for {path}; \
             name a file",
            status.code(),
            planned_route(host, path.borrowed()).name()
        );
        Finding::warning(PAGE, path.to_string(), text)
    };
    route.error_pages.iter().filter(|(_, path)| !is_of_files(host, path)).map(found).collect()
}

fn is_of_files(host: &Host, path: &SafePath<'_>) -> bool {
    matches!(plan(host, path.borrowed(), None).action, PlannedAction::Files(_))
}

/// The fallback and the error pages of a route, if they are files that are missing, by their paths. Routes share most
/// of them.
fn missing_pages(host: &Host, route: &Route, silent: &[PathBuf]) -> Vec<Finding> {
    let pages = route.error_pages.iter().filter(|(_, path)| is_of_files(host, path)).map(|(status, path)| {
        (path, format!("the error page for {}", status.code()), "clients get the built-in page")
    });
    let fallback = route.fallback.as_ref().map(|fallback| &fallback.path);
    let fallback = fallback.map(|path| (path, "the fallback".to_owned(), "clients get 404 in its place"));
    let found = |(path, what, result): (&SafePath<'static>, String, &str)| {
        let (root, found) = on_disk(host, path.borrowed(), silent)
            .or_else(|| script_on_disk(host, path.borrowed(), silent))?;
        let is_missing = root.is_dir() && !is_there(&found);
        let text = || {
            let shown = found.display();
            format!("{what} is missing, so that {result}: there is no {shown}; make it, or name another")
        };
        is_missing.then(|| Finding::warning(PAGE, path.to_string(), text()))
    };
    pages.chain(fallback).filter_map(found).collect()
}

/// Whether a file is there, perhaps in a language or compressed.
fn is_there(file: &Path) -> bool {
    // A script in front of more path is no folder, and a file that cannot be seen for another reason may be there.
    if !file.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return true;
    }
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').map_or((name, ""), |(stem, _)| (stem, &name[stem.len()..]));
    let is_form = |name: &str| name.strip_prefix(stem).is_some_and(|rest| rest.contains(extension));
    let Some(Ok(names)) = file.parent().map(Path::read_dir) else { return false };
    names.take(MAX_NAMES).flatten().any(|entry| entry.file_name().to_str().is_some_and(is_form))
}

/// `None`: it is the root, or has a slash at its end already.
fn folder_at(path: &str) -> Option<SafePath<'static>> {
    let is_file = !path.is_empty() && !path.ends_with('/');
    is_file.then(|| SafePath::from_decoded(&format!("/{path}/")).ok()).flatten()
}

/// The root for a path of files, and what the path stands for. `None`: something else responds.
fn on_disk(host: &Host, path: SafePath<'_>, silent: &[PathBuf]) -> Option<(PathBuf, PathBuf)> {
    match plan(host, path, None).action {
        PlannedAction::Files(files) => match files.root {
            PlannedRoot::Path(root) if !silent.iter().any(|silent| silent == root) => {
                Some((root.to_owned(), files.below().beneath(root)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// As `on_disk`, for a path that is one of scripts alone: the place of the script, or else the first that it may have.
fn script_on_disk(host: &Host, path: SafePath<'_>, silent: &[PathBuf]) -> Option<(PathBuf, PathBuf)> {
    let walk = plan(host, path, None).walk?;
    let place = |step: &Step| match &step.root {
        StepRoot::Path(root) if !silent.contains(root) => Some((root.clone(), step.below.beneath(root))),
        StepRoot::Path(_) | StepRoot::OfHost => None,
    };
    let mut places: Vec<(PathBuf, PathBuf)> = walk.steps.iter().filter_map(place).collect();
    let found = places.iter().position(|(_, file)| is_there(file)).unwrap_or(0);
    (found < places.len()).then(|| places.swap_remove(found))
}

/// A warning that no key and value have a position for.
fn unplaced(text: String) -> Finding {
    Finding::warning(&[], "", text)
}

/// A redirect that leads to a redirect again and again, for an example of its paths.
fn endless_redirect(host: &Host, route: &Route) -> Option<Finding> {
    let Action::Redirect { .. } = &route.action else { return None };
    let mut path = route.pattern.example()?;
    for _ in 0..MAX_REDIRECTS {
        path = redirected(host, path)?;
    }
    let to_do = match &route.pattern {
        Pattern::Prefix(prefix) => {
            format!(
                "write \"/{prefix}.\" for the folder without what is in it, or add a route for the target"
            )
        }
        _ => "add a route for the target, or narrow the pattern".to_owned(),
    };
    Some(unplaced(format!("the redirect of {} leads back to itself; {to_do}", route.name())))
}

/// A rule that redirects what it leads to, again and again, for an example of its paths.
fn endless_rule(host: &Host, rule: &Rule) -> Option<Finding> {
    let site::access::Action::Redirect(redirect) = &rule.action else { return None };
    // The next request may have another query, method, referer or cookie, and the rest of it stays.
    let may_change = |condition: &Condition| {
        matches!(
            condition,
            Condition::Query(_) | Condition::Method(_) | Condition::Referer(_) | Condition::Field(..)
        )
    };
    if rule.conditions.iter().any(may_change) {
        return None;
    }
    let led_to = |path: &SafePath<'_>| {
        let to = redirect.to.location(&Variables {
            host,
            authority: b"",
            scheme: Scheme::Http,
            query: None,
            path: path.as_str(),
            pattern: &Pattern::EVERYTHING,
        });
        path_of(&to).filter(|_| is_first(host, rule, path))
    };
    let target = led_to(&rule.example()?)?;
    let mut path = target.clone();
    for _ in 1..MAX_REDIRECTS {
        path = led_to(&path)?;
    }
    Some(unplaced(format!(
        "the rule of {} redirects the path that it leads to; name the paths that it is for, such as \"/.\" for the \
         root alone, or allow {} in front of it",
        rule.place,
        target.encoded()
    )))
}

/// Whether no other rule can decide about a path before this one.
fn is_first(host: &Host, rule: &Rule, path: &SafePath<'_>) -> bool {
    let decides = |other: &&Arc<Rule>| other.may_decide(path);
    let mut lists = planned_route(host, path.borrowed()).access.iter();
    lists.any(|list| list.iter().find(decides).is_some_and(|first| **first == *rule))
}

/// The path of this host to which a path is redirected.
fn redirected(host: &Host, path: SafePath<'_>) -> Option<SafePath<'static>> {
    let PlannedAction::Redirect(redirect) = plan(host, path, None).action else { return None };
    path_of(&redirect.location(None, b"", Scheme::Http))
}

/// The path of a location of this host.
fn path_of(location: &str) -> Option<SafePath<'static>> {
    let path = location.split(['?', '#']).next().filter(|path| !path.starts_with("//"))?;
    SafePath::parse(path).ok().map(SafePath::into_owned)
}

/// A route whose upstream is this server, which leads to an upstream that is this server again and again, for an example
/// of its paths.
fn endless_proxy(site: &Site, host: usize, route: &Route) -> Option<Finding> {
    let Action::Upstream(id) = &route.action else { return None };
    let mut request = (host, route.pattern.example()?);
    for _ in 0..MAX_REDIRECTS {
        request = forwarded_to_itself(site, request)?;
    }
    let upstream = site.upstreams.get(*id)?;
    Some(unplaced(format!(
        "{upstream} of the route {} is this server itself, so that its requests go in a circle and get 508; name the \
         address of another program",
        route.name()
    )))
}

/// The host and the path at which this server gets a request that it has forwarded. `None`: another program gets it.
fn forwarded_to_itself(
    site: &Site,
    (host, path): (usize, SafePath<'static>),
) -> Option<(usize, SafePath<'static>)> {
    let host = site.hosts.at(host);
    let PlannedAction::Upstream(planned) = plan(host, path, None).action else { return None };
    let upstream = site.upstreams.get(planned.upstream).filter(|own| own.protocol == Protocol::Http)?;
    let own = upstream.addresses().iter().find_map(|address| own_address(site, upstream, address))?;
    let forwarding = &host.routes.get(planned.route).script.as_ref()?.forwarding;
    let name = forwarding.host.as_ref().or_else(|| host.names.first()).map_or("", String::as_str);
    let local = match own {
        Address::Tcp(address) => Some(address),
        Address::Unix(_) => None,
    };
    let next = site.hosts.find_in(site.hosts.group(local), name.as_bytes());
    let path =
        SafePath::parse(&forwarding.path(&planned.whole_path(), Spelling::Normalized)).ok()?.into_owned();
    Some((next, path))
}

/// The address of an endpoint, if this server listens there, and takes the requests of an upstream.
fn own_address(site: &Site, upstream: &Upstream, address: &EndpointAddress) -> Option<Address> {
    let address = match address {
        EndpointAddress::Socket(address) => address.clone(),
        EndpointAddress::Host { name, port } if name == "localhost" => {
            Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)))
        }
        EndpointAddress::Host { .. } | EndpointAddress::Service(_) => return None,
    };
    let is_local = matches!(&address, Address::Tcp(tcp) if tcp.ip().is_loopback());
    let is_own = site.listeners.iter().any(|listener| {
        let is_there = match (&listener.address, &address) {
            // Relative paths of listeners stay so.
            (Address::Unix(path), Address::Unix(other)) => is_same_path(path, other),
            (own, other) => own == other || is_local && own.covers(other),
        };
        is_there && !listener.protocols.proxy && listener.protocols.tls == upstream.tls.is_some()
    });
    is_own.then_some(address)
}

fn is_same_path(path: &Path, other: &Path) -> bool {
    matches!((absolute(path), absolute(other)), (Ok(path), Ok(other)) if path == other)
}

/// A login of an authorizer that the authorizer guards itself, so that a client is redirected again and again.
fn guarded_login(host: &Host, authorizer: &Authorizer) -> Option<Finding> {
    let login = authorizer.subrequest.as_ref()?.login.as_ref()?;
    let path = path_of(&login.location(&Variables {
        host,
        authority: b"",
        scheme: Scheme::Http,
        query: None,
        path: "",
        pattern: &Pattern::EVERYTHING,
    }))?;
    let planned = plan(host, path.clone(), None).route;
    let is_guarded = authorizers(host, &path, planned).iter().any(|other| **other == *authorizer);
    let text =
        format!("authorizer_login leads to {path}, which asks the authorizer, too", path = path.encoded());
    is_guarded.then(|| unplaced(text + "; add a [[route]] for the login, with authorizer = false"))
}
