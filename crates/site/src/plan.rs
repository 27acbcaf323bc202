//! Plans: what a path leads to after all rewrites. The action of a plan is a file beneath a root, an upstream, a
//! redirect or a status. Scripts come before the action.
//!
//! Knows nothing of what is on the disk, nor of methods.

mod fallback;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

pub use self::fallback::{FallbackPlan, plan_fallback, without_language};
use crate::authentication::is_never_served;
use crate::folder::{HostFolder, UserFolders};
use crate::model::{Action, Dotfiles, FileRules, Host, NamedRoot, Route, Suffixes};
use crate::monitor::Monitor;
use crate::published::Text;
use crate::route::{Pattern, RouteId, is_folder};
use crate::template::{QueryTemplate, QueryTooLong, Template, Variables};
use crate::upstream::UpstreamId;
use crate::walk::{Walk, is_script, walk};

/// Rewrites of one request.
pub const MAX_REWRITES: usize = 10;

/// What to do for a path.
#[derive(Debug)]
pub struct Plan<'s, 'p> {
    pub route: &'s Route,
    /// Finds a script. If it does, the script responds and the action is void.
    pub walk: Option<Box<Walk>>,
    pub action: PlannedAction<'s, 'p>,
    /// What a script or an upstream gets in place of the query of the request, by a rewrite or a fallback.
    pub query: Option<Box<str>>,
}

/// What responds, with what it needs to do so.
#[derive(Debug)]
pub enum PlannedAction<'s, 'p> {
    Files(FilesPlan<'s, 'p>),
    Upstream(UpstreamPlan<'s, 'p>),
    Redirect(RedirectPlan<'s, 'p>),
    Status(Status, Cause),
    Publish(&'s Text),
    Monitor(Monitor),
}

/// A file or a folder beneath a root, if it exists.
#[derive(Debug)]
pub struct FilesPlan<'s, 'p> {
    pub root: PlannedRoot<'s>,
    /// The path of the request, or the one that a rewrite led to.
    pub path: SafePath<'p>,
    pub rules: &'s FileRules,
    /// Names of index files, without those that are scripts.
    pub index: Cow<'s, [String]>,
    /// Those that do not lead to a script.
    pub suffixes: Cow<'s, Suffixes>,
    /// The number of leading segments of `path` that are not beneath `root`.
    strip: usize,
}

/// A folder that files are beneath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedRoot<'s> {
    Path(&'s Path),
    OfHost(&'s HostFolder),
    OfUser(&'s UserFolders),
}

/// An upstream, and how the path is split for it.
#[derive(Debug)]
pub struct UpstreamPlan<'s, 'p> {
    pub route: RouteId,
    pub upstream: UpstreamId,
    /// The path of the request, or the one that a rewrite led to.
    path: SafePath<'p>,
    /// SCRIPT_NAME is the part of `path` that matches it.
    base: &'s Pattern,
}

/// A redirect whose location is not composed yet.
#[derive(Debug)]
pub struct RedirectPlan<'s, 'p> {
    pub status: Status,
    host: &'s Host,
    to: &'s Template,
    pattern: &'s Pattern,
    path: SafePath<'p>,
    /// As in [`Plan`].
    query: Option<Box<str>>,
}

/// The query of a request on its way through rewrites.
#[derive(Default)]
struct Query<'a> {
    /// As it was sent.
    sent: Option<&'a str>,
    /// What stands in its place.
    replaced: Option<Box<str>>,
    /// Where more than [`crate::template::MAX_QUERY`] bytes would have stood in its place.
    is_too_long: bool,
}

impl<'a> Query<'a> {
    fn sent(sent: Option<&'a str>) -> Query<'a> {
        Query { sent, ..Query::default() }
    }

    fn replace(&mut self, by: &QueryTemplate, path: &str, pattern: &Pattern) {
        match by.query(path, pattern, self.replaced.as_deref().or(self.sent)) {
            Ok(query) => self.replaced = Some(query),
            Err(QueryTooLong) => self.is_too_long = true,
        }
    }
}

/// The cause of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is the action of the route.
    Route,
    /// A segment begins with a dot.
    Dotfile,
    /// The configuration reads the file, or it is a metafile.
    Private,
    /// The route has scripts only, and none is at this path.
    NoScript,
    /// More than [`MAX_REWRITES`], or one that results in an invalid path.
    Rewrite,
    /// A rewrite or a fallback makes it longer than [`crate::template::MAX_QUERY`].
    Query,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Route => "the status of the route",
            Cause::Dotfile => "dotfiles are hidden",
            Cause::Private => "the configuration reads this file, so it is never served",
            Cause::NoScript => "there is no such script",
            Cause::Rewrite => "rewritten too often, or to something that is not a path",
            Cause::Query => "the query of a rewrite or a fallback would be longer than 32 KiB",
        })
    }
}

impl PlannedRoot<'_> {
    /// `None`: it depends on a name.
    pub fn path(&self) -> Option<&Path> {
        match self {
            PlannedRoot::Path(path) => Some(path),
            PlannedRoot::OfHost(_) | PlannedRoot::OfUser(_) => None,
        }
    }
}

/// As a configuration writes it.
impl fmt::Display for PlannedRoot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlannedRoot::Path(path) => write!(f, "{}", path.display()),
            PlannedRoot::OfHost(folder) => write!(f, "{folder}"),
            PlannedRoot::OfUser(users) => write!(f, "~/{}", users.folder.as_str()),
        }
    }
}

impl<'s, 'p> Plan<'s, 'p> {
    /// The plan for files, in case that no script is there.
    pub fn files(self) -> Option<FilesPlan<'s, 'p>> {
        match self.action {
            PlannedAction::Files(files) => Some(files),
            PlannedAction::Upstream(_)
            | PlannedAction::Redirect(_)
            | PlannedAction::Status(..)
            | PlannedAction::Publish(_)
            | PlannedAction::Monitor(_) => None,
        }
    }

    /// Whether a script or an upstream may respond.
    pub fn may_run(&self) -> bool {
        self.walk.is_some() || matches!(self.action, PlannedAction::Upstream(_))
    }
}

impl UpstreamPlan<'_, '_> {
    /// SCRIPT_NAME and PATH_INFO together.
    pub fn path(&self) -> &SafePath<'_> {
        &self.path
    }

    /// As `path`, percent-encoded.
    pub fn whole_path(&self) -> String {
        self.path.encoded()
    }

    /// SCRIPT_NAME: empty, or with a slash in front and none at the end; and PATH_INFO: empty, or with a slash in front.
    pub fn script_name_and_path_info(&self) -> (String, String) {
        let path = self.path.as_str();
        let (name, path_info) = match self.base {
            Pattern::Prefix(prefix) | Pattern::Exact(prefix) if is_folder(prefix) => {
                let (name, path_info) = path.split_at(prefix.len().saturating_sub(1).min(path.len()));
                (name, if prefix.is_empty() { ["/", path_info].concat() } else { path_info.to_owned() })
            }
            Pattern::Prefix(_) | Pattern::Exact(_) | Pattern::Glob(_) => (path, String::new()),
        };
        (if name.is_empty() { String::new() } else { ["/", name].concat() }, path_info)
    }
}

impl FilesPlan<'_, '_> {
    /// The path beneath `root`.
    pub fn below(&self) -> SafePath<'_> {
        // The pattern of an alias has at least `strip` segments, and so has a path that matches it.
        self.path.skip_segments(self.strip).unwrap_or_else(|| self.path.clone())
    }
}

impl RedirectPlan<'_, '_> {
    /// The value of `Location`. `query` and `authority` are those of the request, as they were sent.
    pub fn location(&self, query: Option<&str>, authority: &[u8], scheme: Scheme) -> String {
        let RedirectPlan { host, pattern, path, .. } = self;
        let query = self.query.as_deref().or(query);
        self.to.location(&Variables { host, authority, scheme, query, path: path.as_str(), pattern })
    }
}

/// `query` is that of the request. Allocates only for a rewrite, a script or an upstream.
pub fn plan<'s, 'p>(host: &'s Host, path: SafePath<'p>, query: Option<&str>) -> Plan<'s, 'p> {
    plan_with(host, path, Query::sent(query))
}

fn plan_with<'s, 'p>(host: &'s Host, path: SafePath<'p>, mut query: Query<'_>) -> Plan<'s, 'p> {
    let (id, path) = follow_rewrites(host, path, &mut query);
    let route = host.routes.get(id);
    let (mut scripts, pattern) = (None, route.base());
    let action = match &route.action {
        _ if query.is_too_long => PlannedAction::Status(Status::URI_TOO_LONG, Cause::Query),
        Action::Files { root, strip } => {
            scripts = walk(host, &path).map(Box::new);
            plan_files(host, route, PlannedRoot::Path(root), *strip, path)
        }
        Action::NamedFiles(named) => match (named, &host.folder, &host.users) {
            (NamedRoot::OfHost, Some(folder), _) => {
                scripts = walk(host, &path).map(Box::new);
                plan_files(host, route, PlannedRoot::OfHost(folder), 0, path)
            }
            (NamedRoot::OfUser, _, Some(users)) => {
                plan_files(host, route, PlannedRoot::OfUser(users), 1, path)
            }
            (NamedRoot::OfHost, None, _) | (NamedRoot::OfUser, _, None) => {
                PlannedAction::Status(Status::NOT_FOUND, Cause::Route)
            }
        },
        Action::Upstream(upstream) => {
            PlannedAction::Upstream(UpstreamPlan { route: id, upstream: *upstream, path, base: pattern })
        }
        Action::Redirect { status, to } => {
            let query = query.replaced.take();
            PlannedAction::Redirect(RedirectPlan { status: *status, host, to, pattern, path, query })
        }
        Action::Rewrite { .. } => PlannedAction::Status(Status::INTERNAL_SERVER_ERROR, Cause::Rewrite),
        Action::Return(status) => PlannedAction::Status(*status, Cause::Route),
        Action::Publish(text) => PlannedAction::Publish(text),
        Action::Monitor(monitor) => PlannedAction::Monitor(*monitor),
    };
    Plan { route, walk: scripts, action, query: query.replaced }
}

/// The route of the plan for `path`.
pub fn planned_route<'s>(host: &'s Host, path: SafePath) -> &'s Route {
    host.routes.get(follow_rewrites(host, path, &mut Query::default()).0)
}

/// The path that rewrites lead to. `None`: there is no rewrite for `path`.
pub fn rewritten(host: &Host, path: &SafePath) -> Option<SafePath<'static>> {
    let route = host.routes.get(host.routes.find(path));
    let is_rewrite = matches!(route.action, Action::Rewrite { .. });
    is_rewrite.then(|| follow_rewrites(host, path.clone(), &mut Query::default()).1.into_owned())
}

/// The path that rewrites lead to, and its route: that of a rewrite where the rewrites do not come to an end. The path
/// alone decides both.
fn follow_rewrites<'p>(
    host: &Host,
    mut path: SafePath<'p>,
    query: &mut Query<'_>,
) -> (RouteId, SafePath<'p>) {
    let mut id = host.routes.find(&path);
    for _ in 0..MAX_REWRITES {
        let route = host.routes.get(id);
        let Action::Rewrite { to } = &route.action else { break };
        let Some(next) = to.path(path.as_str(), route.base()) else { break };
        if let Some(own) = &to.query {
            query.replace(own, path.as_str(), route.base());
        }
        path = next;
        id = host.routes.find(&path);
    }
    (id, path)
}

fn plan_files<'s, 'p>(
    host: &'s Host,
    route: &'s Route,
    root: PlannedRoot<'s>,
    strip: usize,
    path: SafePath<'p>,
) -> PlannedAction<'s, 'p> {
    if route.script.is_some() {
        return PlannedAction::Status(Status::NOT_FOUND, Cause::NoScript);
    }
    if path.segments().any(is_never_served) {
        return PlannedAction::Status(Status::NOT_FOUND, Cause::Dotfile);
    }
    // The path of the request counts: an alias may have a dot folder as its root, and a hidden path must not lead
    // there either.
    if route.files.dotfiles == Dotfiles::Deny && path.is_hidden() {
        return PlannedAction::Status(Status::NOT_FOUND, Cause::Dotfile);
    }
    let (index, suffixes) = (index_files(host, route, &path), suffixes(host, route, &path));
    let plan = FilesPlan { root, path, rules: &route.files, index, suffixes, strip };
    match route.files.has_hidden() {
        true => without_private(plan),
        false => PlannedAction::Files(plan),
    }
}

/// Takes the files that are never served out of a plan.
#[cold]
fn without_private<'s, 'p>(mut plan: FilesPlan<'s, 'p>) -> PlannedAction<'s, 'p> {
    let (rules, below) = (plan.rules, plan.below().into_owned());
    if rules.hides(&below) {
        return PlannedAction::Status(Status::NOT_FOUND, Cause::Private);
    }
    let hides = |name: &String| below.join(name).is_some_and(|path| rules.hides(&path));
    if plan.index.iter().any(hides) {
        plan.index.to_mut().retain(|name| !hides(name));
    }
    let hides = |suffix: &String| below.with_suffix(suffix).is_some_and(|path| rules.hides(&path));
    if plan.suffixes.iter().any(hides) {
        plan.suffixes.to_mut().retain(|suffix| !hides(suffix));
    }
    PlannedAction::Files(plan)
}

/// The index files that may be sent: the source of a script is never sent, nor a file whose own route has another
/// response. A path without a slash at the end has none, since a folder there is redirected first.
fn index_files<'s>(host: &Host, route: &'s Route, path: &SafePath) -> Cow<'s, [String]> {
    if !path.is_folder() {
        return Cow::Borrowed(&[]);
    }
    let names = &route.files.index;
    let is_unsent = |name: &String| path.join(name).is_some_and(|path| is_unsent(host, &path));
    if !host.routes.has_unsent_files() || !names.iter().any(is_unsent) {
        return Cow::Borrowed(names);
    }
    Cow::Owned(names.iter().filter(|name| !is_unsent(name)).cloned().collect())
}

/// The suffixes of files that may be sent, as with index files.
fn suffixes<'s>(host: &Host, route: &'s Route, path: &SafePath) -> Cow<'s, Suffixes> {
    let suffixes = &route.files.suffixes;
    let is_unsent = |suffix: &String| path.with_suffix(suffix).is_some_and(|path| is_unsent(host, &path));
    if !host.routes.has_unsent_files() || !suffixes.iter().any(is_unsent) {
        return Cow::Borrowed(suffixes);
    }
    let mut sent = suffixes.clone();
    sent.retain(|suffix| !is_unsent(suffix));
    Cow::Owned(sent)
}

fn is_unsent(host: &Host, file: &SafePath) -> bool {
    is_script(host, file) || host.routes.get(host.routes.find(file)).replaces_files()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::host::Hosts;
    use crate::model::Site;
    use crate::route::Routes;
    use crate::template::{Rewrite, Template};

    pub(super) fn files_in(root: &str, strip: usize) -> Action {
        Action::Files { root: PathBuf::from(root), strip }
    }

    fn redirect(to: &str) -> Action {
        Action::Redirect { status: Status::FOUND, to: Template::redirect(to).unwrap() }
    }

    pub(super) fn rewrite(to: &str) -> Action {
        Action::Rewrite { to: Box::new(Rewrite::parse(to).unwrap()) }
    }

    /// `/srv`, and these routes.
    pub(super) fn site(routes: Vec<(&str, Action)>) -> Site {
        let mut site = Site::folder("/srv".into(), Vec::new());
        let mut host = site.hosts[0].clone();
        let fallback = host.routes.iter().next().unwrap().clone();
        let route = |(pattern, action)| {
            let pattern = Pattern::parse(pattern).unwrap();
            Route { pattern, action, ..fallback.clone() }
        };
        let routes = routes.into_iter().map(route).collect();
        host.routes = Routes::new(fallback.clone(), routes).unwrap();
        site.hosts = Hosts::new(vec![host]).unwrap();
        site
    }

    /// The plan for `path?query` in one line.
    fn outcome(site: &Site, target: &str) -> String {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = SafePath::parse(path).unwrap();
        match plan(site.hosts.at(0), path, query).action {
            PlannedAction::Files(files) => {
                format!("{} {} {}", files.root, files.path.as_str(), files.below().as_str())
            }
            PlannedAction::Redirect(redirect) => {
                let location = redirect.location(query, b"Example.org:8080", Scheme::Http);
                format!("{} {location}", redirect.status.code())
            }
            PlannedAction::Upstream(planned) => {
                let (script_name, path_info) = planned.script_name_and_path_info();
                format!("{script_name} {path_info}")
            }
            PlannedAction::Publish(text) => text.body.clone(),
            PlannedAction::Monitor(monitor) => monitor.name().to_owned(),
            PlannedAction::Status(status, cause) => format!("{} {cause:?}", status.code()),
        }
    }

    #[test]
    fn plans_files_redirects_and_statuses() {
        let site = site(vec![
            ("/downloads/", files_in("/mnt/files", 1)),
            ("/a/b/", files_in("/mnt/b", 2)),
            ("/other/", files_in("/mnt/other", 0)),
            ("/gone", Action::Return(Status::new(410).unwrap())),
            ("/one", rewrite("/two")),
            ("/two", rewrite("/downloads/x y")),
            ("/loop", rewrite("/loop")),
            ("/user/", rewrite("/home/$rest/public")),
            ("/grow/", rewrite("/grow$path$path$path")),
        ]);
        for (target, expected) in [
            ("/", "/srv  "),
            ("/x/y.html", "/srv x/y.html x/y.html"),
            ("/downloads", "/mnt/files downloads "),
            ("/downloads/", "/mnt/files downloads/ "),
            ("/downloads/x%20%3F", "/mnt/files downloads/x ? x ?"),
            ("/downloads/x/", "/mnt/files downloads/x/ x/"),
            ("/a/b/c/d", "/mnt/b a/b/c/d c/d"),
            ("/other/x", "/mnt/other other/x other/x"),
            ("/gone", "410 Route"),
            ("/one", "/mnt/files downloads/x y x y"),
            ("/loop", "500 Rewrite"),
            ("/grow/a", "500 Rewrite"),
            ("/user/ann", "/srv home/ann/public home/ann/public"),
            ("/user", "/srv home/public home/public"),
            ("/.git/config", "404 Dotfile"),
            ("/downloads/.x", "404 Dotfile"),
            ("/.well-known/x", "/srv .well-known/x .well-known/x"),
        ] {
            assert_eq!(outcome(&site, target), expected, "{target}");
        }
    }

    #[test]
    fn carries_the_query_through_rewrites() {
        let site = site(vec![
            ("/doku/", rewrite("/doku.php?id=$rest")),
            ("/one/", rewrite("/two/$rest?a=$rest")),
            ("/two/", rewrite("/three?b=$rest")),
            ("/kept/", rewrite("/three")),
            ("/none", rewrite("/three?")),
            ("/*-*", rewrite("/three?x=$1&y=$2?")),
            ("/to-redirect/", rewrite("/redirect?a=$rest")),
            ("/redirect", redirect("/three$query")),
            ("/long/", rewrite("/three?$path$path$path$path$path$path")),
            ("/long-redirect/", rewrite("/redirect?$path$path$path$path$path$path")),
        ]);
        let query = |target: &str| {
            let (path, query) =
                target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
            let plan = plan(site.hosts.at(0), SafePath::parse(path).unwrap(), query);
            match (plan.action, plan.query) {
                (PlannedAction::Files(files), query) => {
                    format!("{} {}", files.path, query.as_deref().unwrap_or("as sent"))
                }
                (PlannedAction::Redirect(redirect), None) => redirect.location(query, b"", Scheme::Http),
                (PlannedAction::Status(status, cause), _) => format!("{} {cause:?}", status.code()),
                other => panic!("{other:?}"),
            }
        };
        for (target, expected) in [
            ("/x?y", "/x as sent"),
            ("/doku/a:b", "/doku.php id=a:b"),
            ("/doku/a&b?do=edit", "/doku.php id=a%26b&do=edit"),
            ("/one/x?y=z", "/three b=x&a=x&y=z"),
            ("/kept/x?y=z", "/three as sent"),
            ("/none?y=z", "/three "),
            ("/p-q?y=z", "/three x=p&y=q"),
            ("/to-redirect/x?y=z", "/three?a=x&y=z"),
        ] {
            assert_eq!(query(target), expected, "{target}");
        }
        for prefix in ["/long/", "/long-redirect/"] {
            assert_eq!(query(&format!("{prefix}{}", "%C3%A4".repeat(1000))), "414 Query", "{prefix}");
        }
    }

    #[test]
    fn composes_the_location_of_a_redirect() {
        fn check(pattern: &str, to: &str, target: &str, expected: &str) {
            let site = site(vec![(pattern, redirect(to))]);
            assert_eq!(outcome(&site, target), format!("302 {expected}"), "{pattern} {to} {target}");
        }
        check("/a", "/b", "/a?x", "/b");
        check("/a", "/b$query", "/a?x=1&y=%20", "/b?x=1&y=%20");
        check("/a", "/b$query", "/a", "/b");
        check("/a", "/b$query", "/a?", "/b");
        check("/a", "/b?c$query", "/a?x=1", "/b?c&x=1");
        check("/a", "/b?c$query", "/a", "/b?c");
        check("/a", "/b?$query&c", "/a?x", "/b?x&c");
        check("/a", "/b?$query&c", "/a", "/b?c");
        check("/", "/in?to=$scheme://$host$path$query", "/x?a&b", "/in?to=http://Example.org/x%3Fa%26b");
        check("/", "/in?to=$path$query", "/x?", "/in?to=/x");
        check("/", "/in?to=$hostport$path$query", "/a%3Fb%25c", "/in?to=Example.org:8080/a%253Fb%2525c");
        check("/a/", "/b?c=$rest#$rest", "/a/x&y%20=%2B@", "/b?c=x%26y%20%3D%2B%40#x&y%20=+@");
        check("/a/*-*", "/$2/$1?$2", "/a/x-y%26z", "/y&z/x?y%26z");
        check("/a", "/ä b?c#d", "/a", "/%C3%A4%20b?c#d");
        check("/a/", "/b/$rest", "/a/x%20y/%C3%A4/", "/b/x%20y/%C3%A4/");
        check("/a/", "/b/$rest", "/a", "/b/");
        check("/a/", "/${rest}2$$", "/a/x", "/x2$");
        check("/", "https://$host$path$query", "/x%25?y", "https://Example.org/x%25?y");
        check("/", "$scheme://www.$host/x", "/", "http://www.Example.org/x");
        check("/", "/$path", "/evil.example/x", "/evil.example/x");
        check("/", "$path$path", "/x", "/x/x");
        check("/", "/$rest", "//evil.example//x", "/evil.example/x");
        check("/", "https://a.example?from=$path", "/x?y", "https://a.example?from=/x");
        check("*.php", "/new$path", "/x.php", "/new/x.php");
    }

    #[test]
    fn redirects_to_the_name_of_the_host_if_the_request_has_none() {
        let mut site = site(vec![("/", redirect("https://$host/"))]);
        let location =
            |site: &Site, authority: &str| match plan(site.hosts.at(0), SafePath::parse("/").unwrap(), None)
                .action
            {
                PlannedAction::Redirect(redirect) => {
                    redirect.location(None, authority.as_bytes(), Scheme::Http)
                }
                other => panic!("{other:?}"),
            };
        assert_eq!(location(&site, ""), "https://localhost/");
        let host = Host { names: vec!["*.b".to_owned(), "a.b".to_owned()], ..site.hosts[0].clone() };
        site.hosts = Hosts::new(vec![host]).unwrap();
        assert_eq!(location(&site, ""), "https://a.b/");
        assert_eq!(location(&site, "x\r\ny"), "https://a.b/");
        assert_eq!(location(&site, "[::1]:80"), "https://[::1]/");
    }

    proptest! {
        #[test]
        fn never_redirects_to_a_line_or_a_host_of_the_request(
            path in "/[ -~é\u{1}-\u{1f}]{0,30}", query in "\\PC{0,20}", authority in "\\PC{0,20}",
        ) {
            let site = site(vec![("/", redirect("$path$query")), ("/s/", redirect("https://$host/$rest"))]);
            let Ok(path) = SafePath::parse(&path) else { return Ok(()) };
            if let PlannedAction::Redirect(redirect) = plan(site.hosts.at(0), path, None).action {
                let location = redirect.location(Some(&query), authority.as_bytes(), Scheme::Https);
                prop_assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{location:?}");
                let local = location.starts_with('/') && !location.starts_with("//");
                prop_assert!(local || location.starts_with("https://"), "{location:?}");
            }
        }
    }
}
