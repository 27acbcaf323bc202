//! Where a path leads: rewrites are followed, redirects composed, and what is left is a path beneath a
//! root, or a status.
//!
//! Knows nothing of what is on the disk.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use crate::application::ApplicationId;
use crate::model::{Action, Dotfiles, FallbackFor, Host, Route, Site};
use crate::route::{Pattern, RouteId};
use crate::template::Values;
use crate::walk::{Walk, is_script, walk};

/// Rewrites of one request.
pub const MAX_REWRITES: usize = 10;
/// Media types of what a page has in it, beside all audio, fonts, images and video.
const ASSETS: [&str; 5] = [
    "application/javascript",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "text/css",
    "text/javascript",
];
/// The extension of what tells where a script comes from. Its type is that of any JSON.
const SOURCE_MAP: &str = "map";

/// What is to be done for a path.
#[derive(Debug)]
pub enum Plan<'s, 'p> {
    Files(Files<'s, 'p>),
    Scripts(Box<Scripts<'s, 'p>>),
    /// An application answers.
    Application(Box<Application<'s>>),
    Redirect {
        route: &'s Route,
        status: Status,
        location: String,
    },
    Status {
        route: &'s Route,
        status: Status,
        why: Why,
    },
}

/// A script, if one is there.
#[derive(Debug)]
pub struct Scripts<'s, 'p> {
    pub walk: Walk,
    /// What else there is to be done.
    pub otherwise: Plan<'s, 'p>,
}

/// What answers in place of nothing.
#[derive(Debug)]
pub struct Fallback<'s> {
    pub path: SafePath<'static>,
    pub plan: Plan<'s, 'static>,
    pub told: Told,
}

/// What a script or an application is told of a request that it is the fallback for.
#[derive(Debug)]
pub struct Told {
    /// The path that was asked: behind the folder of the fallback, or else all of it.
    pub path_info: String,
    /// In place of the query of the request.
    pub query: Option<String>,
}

/// What an application is to answer.
#[derive(Debug)]
pub struct Application<'s> {
    pub route: &'s Route,
    pub at: RouteId,
    pub application: ApplicationId,
    /// The part of the path that is the application's own address (SCRIPT_NAME): empty, or with a slash in
    /// front and none behind.
    pub name: String,
    /// The rest (PATH_INFO): empty, or with a slash in front.
    pub path_info: String,
}

/// Something beneath a root, if it is there.
#[derive(Debug)]
pub struct Files<'s, 'p> {
    pub route: &'s Route,
    pub root: &'s Path,
    /// The path of the request, or the one that a rewrite led to.
    pub path: SafePath<'p>,
    /// Names of files that stand for a folder: those of the route that are not scripts.
    pub index: Cow<'s, [String]>,
    /// Segments in front of `path` that are not beneath `root`.
    strip: usize,
}

impl<'s, 'p> Plan<'s, 'p> {
    /// The route of the path.
    pub fn route(&self) -> &'s Route {
        match self {
            Plan::Files(Files { route, .. }) => route,
            Plan::Scripts(scripts) => scripts.otherwise.route(),
            Plan::Application(application) => application.route,
            Plan::Redirect { route, .. } | Plan::Status { route, .. } => route,
        }
    }

    /// What there is beneath a root, were there no scripts.
    pub fn files(self) -> Option<Files<'s, 'p>> {
        match self {
            Plan::Files(files) => Some(files),
            Plan::Scripts(scripts) => scripts.otherwise.files(),
            Plan::Application(_) | Plan::Redirect { .. } | Plan::Status { .. } => None,
        }
    }

    /// Whether a script or an application may be what answers.
    pub fn may_run(&self) -> bool {
        matches!(self, Plan::Scripts(_) | Plan::Application(_))
    }
}

impl Files<'_, '_> {
    /// The path beneath `root`.
    pub fn below(&self) -> SafePath<'_> {
        // The pattern of an alias has all the segments that are taken away, and so has the path.
        self.path.skip_segments(self.strip).unwrap_or_else(|| self.path.clone())
    }
}

/// Why a plan is nothing but a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The route says so.
    Answer,
    /// A segment begins with a dot.
    Dotfile,
    /// There are only scripts here, and not this one.
    NoScript,
    /// More than [`MAX_REWRITES`], or to a path that cannot be.
    Rewrite,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Answer => "the route says so",
            Why::Dotfile => "a segment begins with a dot",
            Why::NoScript => "there is no such script",
            Why::Rewrite => "the rewrites do not come to an end, or to no path",
        })
    }
}

/// `host` is what [`crate::host::Hosts::find`] gave; `authority` and `query` are as they were sent.
/// Allocates only for a rewrite and a redirect.
pub fn plan<'s, 'p>(
    site: &'s Site,
    host: usize,
    path: SafePath<'p>,
    query: Option<&str>,
    authority: &[u8],
    scheme: Scheme,
) -> Plan<'s, 'p> {
    let host = site.hosts.at(host);
    let mut path = path;
    for _ in 0..=MAX_REWRITES {
        let at = host.routes.find(&path);
        let route = host.routes.get(at);
        match &route.action {
            Action::Application(id) => return of_application(route, at, *id, &path),
            Action::Files { root, strip } => return of_files(host, route, root, *strip, path),
            Action::Answer(status) => return Plan::Status { route, status: *status, why: Why::Answer },
            Action::Redirect { status, to } => {
                let values = Values { host, authority, scheme, query, path: path.as_str(), route };
                return Plan::Redirect { route, status: *status, location: to.location(&values) };
            }
            Action::Rewrite { to } => match to.path(path.as_str(), route.base()) {
                Some(next) => path = next,
                None => break,
            },
        }
    }
    let route = host.routes.get(host.routes.find(&path));
    Plan::Status { route, status: Status::INTERNAL_SERVER_ERROR, why: Why::Rewrite }
}

/// What answers for `asked`, where nothing stands under it by `route`. `None`: nothing does.
pub fn fallback<'s>(
    site: &'s Site,
    host: usize,
    route: &'s Route,
    asked: &SafePath,
    query: Option<&str>,
    authority: &[u8],
    scheme: Scheme,
) -> Option<Fallback<'s>> {
    let fallback = route.fallback.as_ref()?;
    if route.fallback_for == FallbackFor::Pages && is_asset(route, asked) {
        return None;
    }
    let path = fallback.path.clone();
    let mut plan = plan(site, host, path.clone(), query, authority, scheme);
    if let Plan::Application(planned) = &mut plan {
        // Its own address is that of what it is the fallback for.
        (planned.name, planned.path_info) = parts(&fallback.base, asked.as_str());
    }
    let query = fallback.query.as_ref().map(|own| {
        let own = own.query(asked.as_str(), &fallback.base);
        match query.filter(|query| !query.is_empty()) {
            Some(query) => [&own, "&", query].concat(),
            None => own,
        }
    });
    let told = Told { path_info: path_info(asked, &path), query };
    Some(Fallback { path, plan, told })
}

/// Whether a path is that of something that a page has in it: an answer with a page would be no use.
fn is_asset(route: &Route, path: &SafePath) -> bool {
    if path.is_folder() {
        return false;
    }
    let Some(extension) = path.extension() else { return false };
    let media_type = route.files.types.lookup(path.name());
    let essence = media_type.split(';').next().unwrap_or(media_type).trim_end();
    let (kind, _) = essence.split_once('/').unwrap_or((essence, ""));
    let is_kind = ["audio", "font", "image", "video"].iter().any(|own| kind.eq_ignore_ascii_case(own));
    is_kind
        || ASSETS.iter().any(|own| essence.eq_ignore_ascii_case(own))
        || extension.eq_ignore_ascii_case(SOURCE_MAP)
}

/// What follows the folder that `fallback` is in, or else the whole path; with a slash in front.
fn path_info(asked: &SafePath, fallback: &SafePath) -> String {
    let (asked, fallback) = (asked.as_str(), fallback.as_str());
    let folder = &fallback[..fallback.rfind('/').map_or(0, |slash| slash + 1)];
    ["/", asked.strip_prefix(folder).unwrap_or(asked)].concat()
}

fn of_application<'s, 'p>(
    route: &'s Route,
    at: RouteId,
    application: ApplicationId,
    path: &SafePath,
) -> Plan<'s, 'p> {
    let (name, path_info) = parts(route.base(), path.as_str());
    Plan::Application(Box::new(Application { route, at, application, name, path_info }))
}

/// The part of a path that is the address of an application for this pattern, and the rest.
fn parts(pattern: &Pattern, path: &str) -> (String, String) {
    let (name, path_info) = match pattern {
        Pattern::Prefix(prefix) => {
            let (name, path_info) = path.split_at(prefix.len().saturating_sub(1).min(path.len()));
            (name, if prefix.is_empty() { ["/", path_info].concat() } else { path_info.to_owned() })
        }
        Pattern::Exact(_) | Pattern::Glob(_) => (path, String::new()),
    };
    (if name.is_empty() { String::new() } else { ["/", name].concat() }, path_info)
}

fn of_files<'s, 'p>(
    host: &'s Host,
    route: &'s Route,
    root: &'s Path,
    strip: usize,
    path: SafePath<'p>,
) -> Plan<'s, 'p> {
    let walk = walk(host, &path);
    let otherwise = match route.script {
        Some(_) => Plan::Status { route, status: Status::NOT_FOUND, why: Why::NoScript },
        None => files(host, route, root, strip, path),
    };
    match walk {
        Some(walk) => Plan::Scripts(Box::new(Scripts { walk, otherwise })),
        None => otherwise,
    }
}

fn files<'s, 'p>(
    host: &Host,
    route: &'s Route,
    root: &'s Path,
    strip: usize,
    path: SafePath<'p>,
) -> Plan<'s, 'p> {
    // The request's path and not the one below: an alias can give a dot folder another name, and what
    // was hidden by the request's is not to be found there either.
    if route.files.dotfiles == Dotfiles::Deny && path.is_hidden() {
        return Plan::Status { route, status: Status::NOT_FOUND, why: Why::Dotfile };
    }
    let index = index(host, route, &path);
    Plan::Files(Files { route, root, path, index, strip })
}

/// A script is never sent as the file that it is, nor in place of its folder. The folder of an alias that is
/// asked without its slash has no index, as all others: the client is sent to its own address first.
fn index<'s>(host: &Host, route: &'s Route, path: &SafePath) -> Cow<'s, [String]> {
    if !path.is_folder() {
        return Cow::Borrowed(&[]);
    }
    let names = &route.files.index;
    let runs = |name: &String| path.join(name).is_some_and(|path| is_script(host, &path));
    if !host.routes.has_scripts() || !names.iter().any(runs) {
        return Cow::Borrowed(names);
    }
    Cow::Owned(names.iter().filter(|name| !runs(name)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::host::Hosts;
    use crate::route::Routes;
    use crate::template::Template;

    fn files_in(root: &str, strip: usize) -> Action {
        Action::Files { root: PathBuf::from(root), strip }
    }

    fn redirect(to: &str) -> Action {
        Action::Redirect { status: Status::FOUND, to: Template::redirect(to).unwrap() }
    }

    fn rewrite(to: &str) -> Action {
        Action::Rewrite { to: Template::rewrite(to).unwrap() }
    }

    /// `/srv`, and these routes.
    fn site(routes: Vec<(&str, Action)>) -> Site {
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
        match plan(site, 0, path, query, b"Example.org:8080", Scheme::Http) {
            Plan::Files(files) => {
                format!("{} {} {}", files.root.display(), files.path.as_str(), files.below().as_str())
            }
            Plan::Redirect { status, location, .. } => format!("{} {location}", status.code()),
            Plan::Application(planned) => format!("{} {}", planned.name, planned.path_info),
            Plan::Scripts(scripts) => format!("{:?}", scripts.walk),
            Plan::Status { status, why, .. } => format!("{} {why:?}", status.code()),
        }
    }

    #[test]
    fn a_path_leads_to_files_elsewhere_or_nowhere() {
        let site = site(vec![
            ("/downloads/", files_in("/mnt/files", 1)),
            ("/a/b/", files_in("/mnt/b", 2)),
            ("/other/", files_in("/mnt/other", 0)),
            ("/gone", Action::Answer(Status::new(410).unwrap())),
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
            ("/gone", "410 Answer"),
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

    /// What is told to the fallback of `/`, or else `none`.
    fn told(fallback: &str, types: FallbackFor, target: &str) -> String {
        let mut site = site(vec![("/app/", files_in("/srv", 0))]);
        let (path, query) = Template::fallback(fallback).unwrap();
        let base = Pattern::EVERYTHING;
        let route = Route {
            fallback: Some(crate::model::Fallback { path, query, base }),
            fallback_for: types,
            ..site.hosts[0].routes.iter().next().unwrap().clone()
        };
        let host = Host { routes: Routes::only(route), ..site.hosts[0].clone() };
        site.hosts = Hosts::new(vec![host]).unwrap();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let asked = SafePath::parse(path).unwrap();
        let route = plan(&site, 0, asked.clone(), query, b"", Scheme::Http).route();
        match super::fallback(&site, 0, route, &asked, query, b"", Scheme::Http) {
            Some(fallback) => {
                let Told { path_info, query } = fallback.told;
                format!("{} {path_info} {}", fallback.path, query.as_deref().unwrap_or("as sent"))
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn a_fallback_is_told_what_was_asked() {
        for (fallback, target, expected) in [
            ("/index.php", "/", "/index.php / as sent"),
            ("/index.php", "/a/b/?x=y", "/index.php /a/b/ as sent"),
            ("/index.php", "/a%20b", "/index.php /a b as sent"),
            ("/blog/index.php", "/blog/x", "/blog/index.php /x as sent"),
            ("/blog/index.php", "/blog/", "/blog/index.php / as sent"),
            ("/blog/index.php", "/blogs", "/blog/index.php /blogs as sent"),
            ("/app/", "/app/x", "/app/ /x as sent"),
            ("/ä b.php", "/x", "/ä b.php /x as sent"),
            ("/$$.php", "/x", "/$.php /x as sent"),
            ("/d.php?id=$rest", "/a:b", "/d.php /a:b id=a:b"),
            ("/d.php?id=$rest", "/a:b?do=edit&x", "/d.php /a:b id=a:b&do=edit&x"),
            ("/d.php?id=$rest", "/a:b?", "/d.php /a:b id=a:b"),
            (
                "/d.php?id=$path&s=%20",
                "/a&b=c%23+%C3%A4%25",
                "/d.php /a&b=c#+ä% id=/a%26b%3Dc%23%2B%C3%A4%25&s=%20",
            ),
            ("/d.php?id=x y", "/a", "/d.php /a id=x%20y"),
            ("/d.php?", "/a?b", "/d.php /a as sent"),
        ] {
            assert_eq!(told(fallback, FallbackFor::Pages, target), expected, "{fallback} {target}");
        }
    }

    #[test]
    fn a_fallback_is_for_pages_unless_it_is_for_all() {
        for asset in [
            "/a.js",
            "/a.mjs",
            "/a/b.css",
            "/A.CSS",
            "/a.js.map",
            "/a.wasm",
            "/a.png",
            "/a.svg",
            "/favicon.ico",
            "/a.woff2",
            "/a.ttf",
            "/a.eot",
            "/a.mp4",
            "/a.ogg",
        ] {
            assert_eq!(told("/i", FallbackFor::Pages, asset), "none", "{asset}");
            assert_ne!(told("/i", FallbackFor::All, asset), "none", "{asset}");
        }
        for page in [
            "/",
            "/a",
            "/a/",
            "/a.html",
            "/a.php",
            "/a.xml",
            "/a.txt",
            "/a.json",
            "/a.pdf",
            "/v1.2",
            "/ann@example.org",
            "/.js",
            "/a.js/",
            "/js",
            "/a.",
        ] {
            assert_ne!(told("/i", FallbackFor::Pages, page), "none", "{page}");
        }
    }

    #[test]
    fn a_redirect_is_composed_of_what_was_asked() {
        fn check(pattern: &str, to: &str, target: &str, expected: &str) {
            let site = site(vec![(pattern, redirect(to))]);
            assert_eq!(outcome(&site, target), format!("302 {expected}"), "{pattern} {to} {target}");
        }
        check("/a", "/b", "/a?x", "/b");
        check("/a", "/b$query", "/a?x=1&y=%20", "/b?x=1&y=%20");
        check("/a", "/b$query", "/a", "/b");
        check("/a", "/b$query", "/a?", "/b");
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
    fn a_host_that_was_not_sent_is_the_own_one() {
        let mut site = site(vec![("/", redirect("https://$host/"))]);
        let location = |site: &Site, authority: &str| match plan(
            site,
            0,
            SafePath::parse("/").unwrap(),
            None,
            authority.as_bytes(),
            Scheme::Http,
        ) {
            Plan::Redirect { location, .. } => location,
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
        fn no_request_adds_a_line_or_a_host_to_a_redirect(
            path in "/[ -~é\u{1}-\u{1f}]{0,30}", query in "\\PC{0,20}", authority in "\\PC{0,20}",
        ) {
            let site = site(vec![("/", redirect("$path$query")), ("/s/", redirect("https://$host/$rest"))]);
            let Ok(path) = SafePath::parse(&path) else { return Ok(()) };
            if let Plan::Redirect { location, .. } =
                plan(&site, 0, path, Some(&query), authority.as_bytes(), Scheme::Https)
            {
                prop_assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{location:?}");
                let local = location.starts_with('/') && !location.starts_with("//");
                prop_assert!(local || location.starts_with("https://"), "{location:?}");
            }
        }
    }
}
