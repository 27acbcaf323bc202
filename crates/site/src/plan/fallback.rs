//! Fallbacks: what responds where a path has no file.

use taipan_http::target::SafePath;

use super::{Plan, PlannedAction, Query, follow_rewrites, plan_with};
use crate::model::{FallbackFor, Host, LanguageFallback, Route};

/// Media types of the parts of a page, besides all audio, fonts, images and video.
const ASSETS: [&str; 5] = [
    "application/javascript",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "text/css",
    "text/javascript",
];
/// The extension of source maps. Their media type is that of any JSON.
const SOURCE_MAP: &str = "map";

/// The plan for the path of a fallback.
#[derive(Debug)]
pub struct FallbackPlan<'s> {
    pub path: SafePath<'static>,
    pub plan: Plan<'s, 'static>,
    /// PATH_INFO of a script: the path of the request, or what follows the fallback's folder in it.
    pub path_info: String,
    /// What responds where nothing exists for `path` either.
    next: Option<SafePath<'static>>,
}

impl<'s> FallbackPlan<'s> {
    /// The fallback to `path`, which lacks a language of the request. `next`: the path that lacks its other one, too.
    fn without_language(
        host: &'s Host,
        path: SafePath<'static>,
        next: Option<SafePath<'static>>,
        query: Query<'_>,
    ) -> Self {
        FallbackPlan { plan: plan_with(host, path.clone(), query), path, path_info: String::new(), next }
    }

    /// The plan to try where this one leads to nothing. `sent`: the query of the request.
    pub fn next(&mut self, host: &'s Host, sent: Option<&str>) -> Option<FallbackPlan<'s>> {
        let query = Query { replaced: self.plan.query.clone(), ..Query::sent(sent) };
        self.next.take().map(|path| FallbackPlan::without_language(host, path, None, query))
    }
}

/// The fallback of `route`, for a path without a file. `None`: there is none for this path. `sent` is the query of the
/// request.
pub fn plan_fallback<'s>(
    host: &'s Host,
    route: &'s Route,
    requested: &SafePath,
    sent: Option<&str>,
) -> Option<FallbackPlan<'s>> {
    // A rewrite may have led to the route.
    let mut query = Query::sent(sent);
    follow_rewrites(host, requested.clone(), &mut query);
    if let Some((path, next)) = without_language(route.language_fallback, requested) {
        return Some(FallbackPlan::without_language(host, path, next, query));
    }
    let fallback = route.fallback.as_ref()?;
    if route.fallback_for == FallbackFor::Pages && is_asset(route, requested) {
        return None;
    }
    let path = fallback.path.clone();
    if let Some(own) = &fallback.query {
        query.replace(own, requested.as_str(), &fallback.base);
    }
    let mut plan = plan_with(host, path.clone(), query);
    if let PlannedAction::Upstream(planned) = &mut plan.action {
        (planned.path, planned.base) = (requested.clone().into_owned(), &fallback.base);
    }
    let path_info = fallback_path_info(requested, &path);
    Some(FallbackPlan { path, plan, path_info, next: None })
}

/// The requested path without its language, which is two letters in lower case. If it has a language as a folder and
/// another one in its name, the first path lacks the folder, and the second one lacks both. `None`: it has no language
/// that `allowed` takes away.
pub fn without_language(
    allowed: LanguageFallback,
    requested: &SafePath,
) -> Option<(SafePath<'static>, Option<SafePath<'static>>)> {
    let is_language = |text: &&str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let requested = requested.as_str();
    let in_folder = requested.strip_prefix('(').and_then(|rest| rest.split_once(")/"));
    let in_folder = in_folder.filter(|(language, path)| is_language(language) && !path.is_empty());
    let without_folder = in_folder.filter(|_| allowed.folder).map(|(_, path)| path);
    let named = without_folder.unwrap_or(requested);
    let stem = named.strip_suffix(".html").and_then(|rest| rest.rsplit_once('.'));
    let stem =
        stem.filter(|(stem, language)| is_language(language) && !stem.is_empty() && !stem.ends_with('/'));
    let path = |path: &str| SafePath::from_decoded(&format!("/{path}")).ok();
    let without_suffix = stem.filter(|_| allowed.suffix).and_then(|(stem, _)| path(&format!("{stem}.html")));
    match without_folder {
        Some(without_folder) => Some((path(without_folder)?, without_suffix)),
        None => without_suffix.map(|path| (path, None)),
    }
}

/// Whether the path is that of a part of a page, by its extension. A browser cannot use another page there.
fn is_asset(route: &Route, path: &SafePath) -> bool {
    if path.is_folder() {
        return false;
    }
    let Some(extension) = path.extension() else { return false };
    let media_type = route.files.types.lookup(path.name());
    let essence = media_type.split(';').next().unwrap_or(media_type).trim_end();
    let (top_level, _) = essence.split_once('/').unwrap_or((essence, ""));
    ["audio", "font", "image", "video"].iter().any(|asset| top_level.eq_ignore_ascii_case(asset))
        || ASSETS.iter().any(|asset| essence.eq_ignore_ascii_case(asset))
        || extension.eq_ignore_ascii_case(SOURCE_MAP)
}

/// What follows the folder of `fallback`, or else the whole path, with a slash in front.
fn fallback_path_info(requested: &SafePath, fallback: &SafePath) -> String {
    let (requested, fallback) = (requested.as_str(), fallback.as_str());
    let folder = &fallback[..fallback.rfind('/').map_or(0, |slash| slash + 1)];
    ["/", requested.strip_prefix(folder).unwrap_or(requested)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Hosts;
    use crate::plan::planned_route;
    use crate::plan::tests::{files_in, rewrite, site};
    use crate::route::{Pattern, Routes};
    use crate::template::Template;

    #[test]
    fn carries_the_query_of_a_rewrite_to_a_fallback() {
        let mut site = site(vec![("/a/", rewrite("/b?x=$rest"))]);
        for (fallback, language, target, expected) in [
            ("/f.php", false, "/a/y?z", "/f.php x=y&z"),
            ("/f.php?id=$rest", false, "/a/y?z", "/f.php id=a/y&x=y&z"),
            ("/f.php?", false, "/a/y?z", "/f.php "),
            ("/a/f?q=1", false, "/c?z", "/a/f x=f&q=1&z"),
            ("/f", true, "/a/y.de.html?z", "/a/y.html x=y.html&x=y.de.html&z"),
        ] {
            let (path, query) = Template::fallback(fallback).unwrap();
            let mut host = site.hosts[0].clone();
            for route in host.routes.iter_mut() {
                let (path, query) = (path.clone(), query.clone());
                route.fallback =
                    Some(Box::new(crate::model::Fallback { path, query, base: Pattern::EVERYTHING }));
                route.language_fallback.suffix = language;
            }
            site.hosts = Hosts::new(vec![host]).unwrap();
            let (path, sent) = target.split_once('?').unwrap();
            let (host, path) = (site.hosts.at(0), SafePath::parse(path).unwrap());
            let found = plan_fallback(host, planned_route(host, path.clone()), &path, Some(sent)).unwrap();
            let query = found.plan.query.as_deref().unwrap_or("as sent");
            assert_eq!(format!("{} {query}", found.path), expected, "{fallback} {target}");
        }
    }

    /// The fallback of `/` and its variables, or else `none`.
    fn fallback_outcome(fallback: &str, types: FallbackFor, target: &str) -> String {
        let mut site = site(vec![("/app/", files_in("/srv", 0))]);
        let (path, query) = Template::fallback(fallback).unwrap();
        let base = Pattern::EVERYTHING;
        let route = Route {
            fallback: Some(Box::new(crate::model::Fallback { path, query, base })),
            fallback_for: types,
            ..site.hosts[0].routes.iter().next().unwrap().clone()
        };
        let host = Host { routes: Routes::only(route), ..site.hosts[0].clone() };
        site.hosts = Hosts::new(vec![host]).unwrap();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let requested = SafePath::parse(path).unwrap();
        let host = site.hosts.at(0);
        match plan_fallback(host, planned_route(host, requested.clone()), &requested, query) {
            Some(fallback) => {
                let (path_info, query) = (fallback.path_info, fallback.plan.query);
                format!("{} {path_info} {}", fallback.path, query.as_deref().unwrap_or("as sent"))
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn plans_the_path_without_a_language() {
        let (none, suffix, folder, both) = ((false, false), (true, false), (false, true), (true, true));
        for (allowed, target, expected) in [
            (suffix, "/a.de.html", Some("a.html")),
            (suffix, "/b/a.b.en.html", Some("b/a.b.html")),
            (suffix, "/a.DE.html", None),
            (suffix, "/a.deu.html", None),
            (suffix, "/a.de.htm", None),
            (suffix, "/.de.html", None),
            (suffix, "/b/.de.html", None),
            (suffix, "/(de)/a", None),
            (folder, "/(de)/a", Some("a")),
            (folder, "/(de)/b/c/", Some("b/c/")),
            (folder, "/(de)/", None),
            (folder, "/(DE)/a", None),
            (folder, "/(deu)/a", None),
            (folder, "/b/(de)/a", None),
            (folder, "/a.de.html", None),
            (none, "/a.de.html", None),
            (none, "/(de)/a", None),
            (both, "/(de)/a.de.html", Some("a.de.html a.html")),
            (both, "/(de)/b/a.en.html", Some("b/a.en.html b/a.html")),
            (both, "/(de)/a.html", Some("a.html")),
            (both, "/a.de.html", Some("a.html")),
            (both, "/(de)/.de.html", Some(".de.html")),
            (folder, "/(de)/a.de.html", Some("a.de.html")),
            (suffix, "/(de)/a.de.html", Some("(de)/a.html")),
        ] {
            let requested = SafePath::parse(target).unwrap();
            let allowed = LanguageFallback { suffix: allowed.0, folder: allowed.1 };
            let found = without_language(allowed, &requested).map(|(path, next)| match next {
                Some(next) => format!("{} {}", path.as_str(), next.as_str()),
                None => path.as_str().to_owned(),
            });
            assert_eq!(found.as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn passes_the_requested_path_and_query_to_a_fallback() {
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
            ("/d.php?", "/a?b", "/d.php /a "),
        ] {
            assert_eq!(
                fallback_outcome(fallback, FallbackFor::Pages, target),
                expected,
                "{fallback} {target}"
            );
        }
    }

    #[test]
    fn plans_a_fallback_for_assets_only_if_it_is_for_all() {
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
            assert_eq!(fallback_outcome("/i", FallbackFor::Pages, asset), "none", "{asset}");
            assert_ne!(fallback_outcome("/i", FallbackFor::All, asset), "none", "{asset}");
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
            assert_ne!(fallback_outcome("/i", FallbackFor::Pages, page), "none", "{page}");
        }
    }
}
