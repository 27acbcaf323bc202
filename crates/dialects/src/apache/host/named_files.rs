//! Files of a host by their names: sections of files and of expressions, and handlers by the ends of names.

use std::collections::BTreeSet;

use super::overlaps::{self, Section};
use super::{Paths, Site};
use crate::apache::context::{Context, Handler};
use crate::apache::paths;
use crate::apache::proxy;
use crate::draft::{Draft, Scope};
use crate::pattern;
use crate::tree::Place;
use crate::within::common;

impl Site<'_> {
    /// Sections of files, and of expressions, in Apache's order. `own`: the prefixes that have files, if the others are
    /// passed on.
    fn sections(&mut self, own: Option<&Vec<String>>) -> Vec<Section> {
        let mut all: Vec<Section> = Vec::new();
        for (patterns, context, place) in std::mem::take(&mut self.programs) {
            all.extend(patterns.into_iter().map(|pattern| (pattern, context.clone(), place.clone())));
        }
        let patterns = |(paths, context, place): &(Paths, Context, Place)| match paths {
            Paths::Patterns(patterns) => patterns
                .iter()
                .map(|pattern| (pattern.clone(), context.clone(), place.clone()))
                .collect::<Vec<_>>(),
            Paths::Prefix(_) => Vec::new(),
        };
        all.extend(self.matched.iter().flat_map(patterns));
        let mut files: Vec<_> = self.server.files.iter().map(|files| ("/".to_owned(), files)).collect();
        for (folder, outer) in &self.folders {
            for url in self.urls(folder) {
                files.extend(outer.files.iter().map(|files| (url.clone(), files)));
            }
        }
        for (url, (patterns, context, place)) in files {
            for pattern in patterns {
                let found = match (url.as_str(), own) {
                    ("/", None) => vec![pattern.clone()],
                    ("/", Some(own)) => own.iter().filter_map(|url| pattern::within(url, pattern)).collect(),
                    (url, _) if self.is_passed(url) => Vec::new(),
                    (url, _) => pattern::within(url, pattern).into_iter().collect(),
                };
                all.extend(found.into_iter().map(|pattern| (pattern, context.clone(), place.clone())));
            }
        }
        // A location of everything goes over all that precedes it.
        let mut everywhere: Option<Context> = None;
        for location in &self.locations {
            let (paths, context, _) = location;
            if matches!(paths, Paths::Prefix(prefix) if prefix == "/") {
                let accesses = all.iter_mut().filter(|(_, earlier, _)| earlier.has_access());
                accesses.for_each(|(_, earlier, _)| *earlier = earlier.with_access_of(context));
                everywhere = Some(everywhere.map_or(context.clone(), |outer| context.over(&outer)));
            } else if let (Paths::Prefix(prefix), true) = (paths, context.is_granted()) {
                // So does one of a prefix, for the paths below it.
                let opened = opened_below(&paths::prefix(prefix), &all, location);
                all.extend(opened);
            }
            all.extend(patterns(location).into_iter().map(|(pattern, context, place)| {
                let outer = everywhere.as_ref().filter(|_| context.has_access());
                let access = outer.map(|outer| context.with_access_of(&context.over(outer)));
                (pattern, access.unwrap_or(context), place)
            }));
        }
        all
    }

    /// The routes of these sections.
    pub(super) fn globs(&mut self, own: Option<&Vec<String>>, draft: &mut Draft) {
        let all = self.sections(own);
        let around = self.of_folders("/");
        for (pattern, context, place) in overlaps::merged(all, draft) {
            let mut scope = context.keys();
            if scope.get("cache_control").is_some()
                && let Some(value) = context.over(&self.server).keys().get("cache_control")
            {
                scope.set(&place, "cache_control", value.clone());
            }
            match context.options.indexes() {
                Some(false) => scope.set(&place, "listing", false),
                Some(true) if !around.options.resolved().indexes => {
                    let what = "Options Indexes of a pattern has no effect, and folders are not listed";
                    draft.warn(&place, what, "write it in a <Directory>, or a <Location> of one path");
                }
                _ => {}
            }
            if context.has_access() && context.is_granted() {
                self.report_closed_folders(&pattern, &place, draft);
            }
            if context.has_access() {
                let own = context.over(&around).scope(draft);
                if own.text("satisfy") == Some("any") {
                    self.within_prefixes(&pattern, &context, &place, draft);
                }
                for name in ["auth", "realm", "user_files", "group_files", "require", "satisfy"] {
                    if let Some(value) = own.get(name).filter(|value| **value != "off".into()) {
                        scope.set(&place, name, value.clone());
                    }
                }
                scope.rules = own.rules;
            }
            let route = self.host.route(&pattern, &place);
            if let Some((handler, at)) = &context.handler {
                handled(route, handler, true, at, draft);
                if *handler == Handler::None {
                    self.unhandled.push((pattern.clone(), at.clone()));
                }
            }
            route.inherit(&scope);
            if context.forbids_cgi {
                self.without_cgi.push((pattern.clone(), place.clone()));
            }
            for (end, _, at) in &context.handlers {
                let both = common(&pattern, &format!("*.{}", end.trim_start_matches('.')));
                self.unhandled.extend(both.into_iter().map(|pattern| (pattern, at.clone())));
            }
        }
    }

    /// Files for which a user is enough in some prefixes, and not in others. What a prefix denies would be open there.
    fn within_prefixes(&mut self, pattern: &str, own: &Context, place: &Place, draft: &mut Draft) {
        for url in self.section_urls().iter().rev().filter(|url| *url != "/") {
            let around = self.context(url);
            let context = self.with_locations(own.over(&self.of_folders(url)), paths::folder(url));
            let Some(both) = pattern::within(url, pattern).filter(|_| around.denies()) else { continue };
            let scope = context.scope(draft);
            if scope.text("satisfy") != Some("any") && !self.is_passed(url) {
                let route = self.host.route(&both, place);
                for name in ["realm", "user_files", "group_files", "require"] {
                    if let Some(value) = scope.get(name) {
                        route.set(place, name, value.clone());
                    }
                }
                if let Some(value) = scope.get("auth").filter(|value| **value != "off".into()) {
                    route.set(place, "auth", value.clone());
                }
                route.set(place, "satisfy", scope.text("satisfy").unwrap_or("all"));
                route.rules = scope.rules;
            }
        }
    }

    /// Where one of a rule and a user is enough, it is not for files that say who may have them themselves.
    pub(super) fn keep_from_satisfied(&mut self) {
        let is_any = |scope: &Scope| scope.text("satisfy") == Some("any");
        if !is_any(&self.host.scope) && !self.host.routes.iter().any(is_any) {
            return;
        }
        let is_prefix = |route: &Scope| route.text("path").is_some_and(|path| path.ends_with('/'));
        for route in self.host.routes.iter_mut().filter(|route| !is_prefix(route)) {
            let asks = route.get("require").is_some() || route.text("auth").is_some_and(|auth| auth != "off");
            let denies = route.rules.iter().any(|rule| rule.text("then") != Some("allow"));
            if asks || denies {
                route.preset("satisfy", "all", "Both the rules and the password count here.");
            }
        }
    }

    /// Files with a handler by their ends, below a prefix.
    pub(super) fn scripts(&mut self, url: &str, draft: &mut Draft) {
        let is_passed = self.is_passed(url);
        let context = self.context(if is_passed { "/" } else { url });
        let runs = context.options.resolved().exec_cgi;
        for (end, handler, place) in &context.handlers {
            let name = format!("*.{}", end.trim_start_matches('.'));
            let pattern = if url == "/" { Some(name) } else { pattern::within(url, &name) };
            let Some(pattern) = pattern else { continue };
            let has_own =
                |route: &Scope| route.text("path") == Some(&pattern) && (route.responds() || route.runs());
            let has_own = self.host.routes.iter().any(has_own);
            if is_passed {
                // It is passed on as the prefix is, and no pattern for all paths precedes.
                self.host.route(&pattern, place);
            } else if !has_own {
                handled(self.host.route(&pattern, place), handler, runs, place, draft);
            }
        }
    }
}

/// The files of sections below the prefix of a location that opens them.
fn opened_below(
    prefix: &str,
    all: &[Section],
    (_, location, place): &(Paths, Context, Place),
) -> Vec<Section> {
    let protects = |(_, earlier, _): &&Section| earlier.has_access() && !earlier.is_granted();
    let patterns =
        all.iter().filter(protects).flat_map(|(pattern, ..)| pattern::all_beginning(prefix, pattern));
    let access = Context::new(place).with_access_of(location);
    let mut seen = BTreeSet::new();
    let patterns = patterns.filter(|pattern| seen.insert(pattern.clone()));
    patterns.map(|pattern| (pattern, access.clone(), place.clone())).collect()
}

/// Gives files a program. Without `ExecCGI`, a script is denied.
pub(super) fn handled(route: &mut Scope, handler: &Handler, runs: bool, place: &Place, draft: &mut Draft) {
    match handler {
        _ if route.responds() => {}
        Handler::Cgi if runs => route.set(place, "cgi", true),
        Handler::Cgi => route.set(place, "return", 403),
        Handler::Unknown => route.set(place, "return", 403),
        Handler::None => {}
        Handler::Proxy(url) => match proxy::interpreter(url, place, draft) {
            Some(name) => {
                let is_prefix = route.text("path").is_some_and(|path| path.ends_with('/'));
                route.set(place, if is_prefix { "application" } else { "interpreter" }, name);
            }
            None => {
                draft.error(
                    place,
                    format!("the handler {} cannot be converted", url.escape_debug()),
                    "see interpreter",
                );
                route.set(place, "return", 403);
            }
        },
    }
}
