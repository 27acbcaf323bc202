//! `ScriptAlias` of one program, such as cgit, that responds for its path and for all paths below.

use super::{Paths, Single, Site};
use crate::apache::paths;
use crate::brackets::is_glob;
use crate::draft::{Draft, Scope};
use crate::within::covers;

/// Where packages put the server.
const SERVER: &str = "/usr/bin/taipan";

/// Apache runs as many as there are requests, and here there is a limit.
const CONCURRENT: i64 = 16;

impl Site<'_> {
    /// Makes an application of the program, which runs it for each request.
    pub(super) fn program(&mut self, single: &Single, draft: &mut Draft) {
        let Single { url, file, place, .. } = single;
        let path = paths::folder(url).to_owned();
        let below = format!("{path}/");
        let urls: Vec<String> =
            [path.clone(), below.clone()].into_iter().filter(|path| path.len() >= url.len()).collect();
        self.report_open_program(single, &path, draft);
        let name = file.rsplit('/').next().unwrap_or_default();
        let mut keys = Scope::new(place.line);
        keys.set(place, "command", vec![SERVER.to_owned(), "fcgi-wrap".to_owned(), file.clone()]);
        keys.set(place, "concurrent", CONCURRENT);
        let word = name.split('.').next().unwrap_or(name);
        let wanted: String = word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let context = self.with_locations(self.of_file(file), &path);
        let whole = context.scope(draft);
        let mut scope = whole.clone().without(&self.host.scope);
        if self.host.scope.text("satisfy") == Some("any") && scope.get("satisfy").is_none() {
            scope.set(place, "satisfy", "all");
        }
        if self.host.scope.get("fallback").is_some() {
            scope.set(place, "fallback", false);
        }
        let is_taken = |route: &Scope| {
            route.responds() && route.text("path").is_some_and(|path| urls.iter().any(|url| url == path))
        };
        if self.host.routes.iter().any(is_taken) {
            return;
        }
        let application = draft.application_of_keys(&wanted, keys);
        for url in urls {
            let route = self.host.route(&url, place);
            route.set(place, "application", application.as_str());
            route.inherit(&scope);
            if route.rules.is_empty() {
                route.rules.clone_from(&whole.rules);
            }
        }
        let what = format!("{SERVER} runs {file} for each request, and at most {CONCURRENT} at a time");
        draft.note(place, what, "if the server is elsewhere, change the command");
    }

    /// Reports what protects some of the paths of a program, and would not here.
    fn report_open_program(&self, Single { url, file, .. }: &Single, path: &str, draft: &mut Draft) {
        let below = format!("{path}/");
        let is_within = |route: &&Scope| {
            let path = route.path();
            let is_own = route.responds() || is_glob(path);
            path.len() > below.len() && path.starts_with(&below) && !is_own
        };
        for own in self.host.routes.iter().filter(is_within) {
            let path = own.path();
            let what = format!("what is said about {path} is not for the program of {url}");
            draft.error(&own.place(), what, "write it for the whole program");
        }
        let name = format!("/{}", file.rsplit('/').next().unwrap_or_default());
        let folders = self.folders.iter().filter(|(outer, _)| paths::below(file, outer).is_some());
        let files = folders.flat_map(|(_, outer)| &outer.files).chain(&self.server.files);
        let files = files.map(|(patterns, context, at)| (patterns, context, at, name.as_str()));
        let sections = self.matched.iter().chain(&self.locations);
        let sections = sections.filter_map(|(paths, context, at)| match paths {
            Paths::Patterns(patterns) => Some((patterns, context, at, path)),
            Paths::Prefix(_) => None,
        });
        for (patterns, context, at, path) in files.chain(sections) {
            if context.denies_itself() && patterns.iter().any(|pattern| covers(pattern, path)) {
                let what = format!("this section is not for the program of {url}");
                draft.error(at, what, "write it for the folder of the program, or as <Location>");
            }
        }
    }
}
