//! Reads the settings of files and responses that a host or a route has, on top of those that it inherits.

use std::sync::Arc;

use cache::key::Mapping;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::access::rules;
use super::authentication::{authentication, has_authentication};
use super::authorizers::{authorizers, subrequest};
use super::cache::{caching, purgers};
use super::cors::sharing;
use super::definitions::Definitions;
use super::fields::{cache_control, headers, security_headers};
use super::files::{lister, shared_files};
use super::jwt::jwts;
use super::publishing::publishing;
use super::section::Section;
use super::toml::Entry;
use crate::authentication::{Authentication, FolderPasswords};
use crate::model::{
    Enclosing, Executables, Fallback, FallbackFor, FileRules, LanguageFallback, Route, Symlinks,
};
use crate::route::Pattern;
use crate::template::Template;

/// A route for this pattern, with the action and the settings of `inherited` unless `section` has others.
pub fn route_settings(
    section: &Section,
    pattern: Pattern,
    inherited: &Route,
    definitions: Definitions<'_>,
) -> Route {
    let Definitions { scripts, upstreams, limits } = definitions;
    let fallback = fallback(section, &pattern, inherited.fallback.as_deref());
    let language_fallback = section.choices("language_fallback").map(|words| LanguageFallback {
        suffix: words.contains(&"suffix"),
        folder: words.contains(&"folder"),
    });
    let fallback_for = section.choice("fallback_for").map(|word| match word {
        "all" => FallbackFor::All,
        _ => FallbackFor::Pages,
    });
    let (sharing, cors) = sharing(section, (&inherited.sharing, &inherited.cors));
    let subrequest = subrequest(section, &inherited.subrequest);
    let access = rules(section, &inherited.access, limits);
    let caching = caching(section, &inherited.caching);
    let publishing = publishing(section, &pattern, &inherited.publishing);
    let authentication = authentication(section, &inherited.authentication, &access);
    let files = shared_files(section, &inherited.files, fallback.as_ref());
    Route {
        pattern,
        within: inherited.within.clone(),
        action: inherited.action.clone(),
        files: guarded(files, &authentication),
        headers: headers(section, &inherited.headers),
        cache_control: cache_control(section, &inherited.cache_control),
        error_pages: error_pages(section, &inherited.error_pages),
        fallback: fallback.map(Box::new),
        fallback_for: fallback_for.unwrap_or(inherited.fallback_for),
        language_fallback: language_fallback.unwrap_or(inherited.language_fallback),
        max_body: section.size("max_body").unwrap_or(inherited.max_body),
        script: inherited.script.clone(),
        lister: lister(section, inherited.lister.as_deref(), scripts).map(Box::new),
        authorizers: authorizers(section, &inherited.authorizers, &subrequest, upstreams),
        subrequest,
        jwts: jwts(section, &inherited.jwts),
        publishing,
        sharing,
        cors,
        security_headers: security_headers(section).unwrap_or(inherited.security_headers),
        authentication,
        enclosing: None,
        access,
        limits: limits.of(section, &inherited.limits),
        stores: section.flag("response_cache").unwrap_or(inherited.stores),
        caching,
        mapping: Mapping::NONE,
        purgers: purgers(section).or_else(|| inherited.purgers.clone()),
    }
}

/// Where folders have password files, links are no way around them.
fn guarded(mut files: Arc<FileRules>, authentication: &Authentication) -> Arc<FileRules> {
    let symlinks = match (authentication.folder, files.symlinks) {
        (FolderPasswords::Folder, Symlinks::Beneath) => Symlinks::Guarded,
        (FolderPasswords::Inherited, Symlinks::Beneath | Symlinks::Guarded) => Symlinks::GuardedTree,
        _ => return files,
    };
    Arc::make_mut(&mut files).symlinks = symlinks;
    files
}

/// Restricts a glob's route within a prefix to what the prefix allows, where the sections of both set the same key.
pub fn restrict(route: &mut Route, glob: &Section, prefix: &Section, outer: &Route) {
    let both_have = |name: &str| glob.has(name) && prefix.has(name);
    if both_have("symlinks") {
        let own = route.files.symlinks;
        Arc::make_mut(&mut route.files).symlinks = match (outer.files.symlinks, own) {
            (Symlinks::Follow, own) => own,
            (_, Symlinks::Never) => Symlinks::Never,
            (outer, _) => outer,
        };
    }
    if both_have("dotfiles") {
        let files = Arc::make_mut(&mut route.files);
        files.dotfiles = files.dotfiles.min(outer.files.dotfiles);
    }
    if both_have("executables") && outer.files.executables == Executables::Deny {
        Arc::make_mut(&mut route.files).executables = Executables::Deny;
    }
    if both_have("rule") {
        route.access.extend(outer.access.iter().cloned());
    }
    let has_passage = has_authentication(glob) || glob.has("rule");
    if has_passage && has_authentication(prefix) && outer.authentication.is_on() {
        let (authentication, access) = (outer.authentication.clone(), outer.access.clone());
        route.files = guarded(route.files.clone(), &authentication);
        route.enclosing = Some(Enclosing { authentication, access });
    }
    if both_have("jwt") {
        route.jwts.extend(outer.jwts.iter().cloned());
    }
    if both_have("authorizer") {
        let own = std::mem::replace(&mut route.authorizers, outer.authorizers.clone());
        route.authorizers.extend(own.into_iter().filter(|one| !outer.authorizers.contains(one)));
    }
}

/// The fallback of a section. `false` removes the inherited one.
fn fallback(section: &Section, pattern: &Pattern, inherited: Option<&Fallback>) -> Option<Fallback> {
    let Some(given) = section.text_or_false("fallback") else { return inherited.cloned() };
    let text = given.value?;
    let reject = |what_to_do: String| {
        section.errors.add(given.place, format!("\"{}\" is not a fallback", text.escape_debug()), what_to_do);
        None
    };
    match Template::fallback(text) {
        Err(error) => reject(error.to_string()),
        Ok((path, query)) => match query.as_ref().map_or(Ok(()), |query| query.check(pattern)) {
            Err(what_to_do) => reject(what_to_do),
            Ok(()) => {
                section.errors.mark("fallback", path.to_string(), given.place);
                Some(Fallback { path, query, base: pattern.clone() })
            }
        },
    }
}

fn error_pages(
    section: &Section,
    inherited: &[(Status, SafePath<'static>)],
) -> Vec<(Status, SafePath<'static>)> {
    let mut pages = Vec::new();
    for entry in section.pairs("error_pages") {
        let status = entry.key.parse().ok().and_then(Status::new).filter(|status| status.is_error());
        let Some(status) = status else {
            let what = format!("\"{}\" is not an error status", entry.key.escape_debug());
            section.errors.add(&entry.place, what, "expected a number from 400 to 599");
            continue;
        };
        let path = section.text_of(entry, "a path such as \"/errors/404.html\"");
        pages.extend(path.and_then(|path| page(section, entry, path)).map(|page| (status, page)));
    }
    let own = pages.len();
    for page in inherited {
        if !pages[..own].iter().any(|(status, _)| *status == page.0) {
            pages.push(page.clone());
        }
    }
    pages
}

fn page(section: &Section, entry: &Entry, path: &str) -> Option<SafePath<'static>> {
    let page = SafePath::from_decoded(path).ok().filter(|page| !page.is_folder());
    if page.is_none() {
        let what = format!("\"{}\" is not the path of a page", path.escape_debug());
        section.errors.add(
            &entry.place,
            what,
            "expected the path of a file in this host, with a slash in front",
        );
    }
    if let Some(page) = &page {
        section.errors.mark("error_pages", page.to_string(), &entry.place);
    }
    page
}
