//! What depends on whether there is a file: applications that respond for what is missing, and those that respond for
//! all paths but some.

use crate::draft::Host;
use crate::tree::{Directive, unconverted};

use super::matchers::{Condition, Matched, Matcher, Presence};
use super::site::{Block, Site, Way};

/// The path that a fallback leads to for the application.
const MISSING: &str = "/@missing";
/// The matcher of an application that responds for what is missing. No other one has a space in its name.
const OF_MISSING: &str = "@of missing";

impl Site<'_> {
    /// `reverse_proxy` for all paths but those of files.
    pub(super) fn proxy_but(&mut self, matched: Matched, except: &[String], way: &Way, host: &mut Host) {
        let child = matched.directive;
        if way.block.is_some() || way.strips {
            let what_to_do = "write handle for the paths that it is not for, and another handle for the rest";
            return self.draft.error(&child.place, unconverted(child), what_to_do);
        }
        self.proxy(&Matched { paths: Vec::new(), ..matched }, way, host);
        for path in except {
            host.route(path, &child.place);
            let place = child.place.clone();
            self.blocks.push(Block { path: path.clone(), place, outer: way.block, runs: false, ends: true });
        }
    }

    /// A directive with a matcher that looks for a file.
    pub(super) fn by_file(&mut self, matched: Matched, presence: Presence, way: &Way, host: &mut Host) {
        let Matched { directive: child, paths, arguments } = matched;
        let inner = if child.name == "handle" { child.children() } else { std::slice::from_ref(child) };
        let is_server = |inner: &&Directive| inner.name == "file_server" && inner.block.is_none();
        let others: Vec<&Directive> = inner.iter().filter(|inner| !is_server(inner)).collect();
        let own = |inner: &Directive| match inner.name == child.name {
            true => arguments.clone(),
            false => inner.arguments.iter().filter(|text| *text != "*").cloned().collect(),
        };
        match (presence, others.as_slice()) {
            // A file that is missing is not sent.
            (Presence::There, []) => self.each(&paths, &child.place, host, |_| {}),
            (Presence::Missing, [only]) if only.name == "reverse_proxy" => {
                let arguments = own(only);
                self.proxy_missing(Matched { directive: only, paths, arguments }, way, host);
            }
            (Presence::Missing, [only]) if only.name == "rewrite" && only.block.is_none() => {
                let arguments = ["{path}".to_owned()].into_iter().chain(own(only)).collect();
                let files = Directive { name: "try_files".to_owned(), arguments, ..Directive::clone(only) };
                let way = Way { paths, ..way.clone() };
                self.try_files(&files, &way, host);
            }
            _ => {
                let what = format!("{}: routes do not know whether there is a file", child.text());
                let what_to_do = "only reverse_proxy and rewrite can be for what is missing; see fallback";
                self.draft.error(&child.place, what, what_to_do);
            }
        }
    }

    /// The application responds for a path that a fallback leads to.
    fn proxy_missing(&mut self, matched: Matched, way: &Way, host: &mut Host) {
        let Matched { directive: child, paths, .. } = &matched;
        let place = &child.place;
        let is_fastcgi = |option: &Directive| option.name == "transport" && option.argument(0) == "fastcgi";
        let to = match paths.as_slice() {
            [] => MISSING.to_owned(),
            [folder] if folder.ends_with('/') => format!("{}{MISSING}", folder.trim_end_matches('/')),
            _ => String::new(),
        };
        if to.is_empty() || way.strips || child.children().iter().any(is_fastcgi) {
            return self.draft.error(place, unconverted(child), "see fallback");
        }
        let has_own = |host: &Host| host.routes.iter().any(|route| route.text("path") == Some(&to));
        if has_own(host) {
            return self.draft.error(
                place,
                unconverted(child),
                "one application responds for what is missing",
            );
        }
        self.each(paths, place, host, |scope| {
            scope.set(place, "fallback", to.as_str());
            scope.set(place, "fallback_for", "all");
        });
        self.proxy(&Matched { paths: vec![to], ..matched }, way, host);
    }

    /// Two blocks, one with the files that are there and one with an application for the rest, as one; and an
    /// application behind a `file_server` for the files that are there as one for what is missing.
    pub(super) fn with_files_first(
        &mut self,
        block: &[Directive],
        is_in_order: bool,
    ) -> Option<Vec<Directive>> {
        const OF_FILES: [&str; 3] = ["file_server", "root", "encode"];
        let is_there = |child: &Directive| {
            let own = self.matchers.iter().find(|matcher| matcher.name == child.argument(0));
            own.is_some_and(|matcher| {
                matches!(matcher.condition(), Some(Condition::File(Presence::There)))
                    && matcher.paths.is_empty()
            })
        };
        let is_proxy = |child: &Directive| {
            child.name == "reverse_proxy" && !child.argument(0).starts_with(['/', '@', '*'])
        };
        let of_missing = |proxy: &Directive| {
            let arguments = [OF_MISSING.to_owned()].into_iter().chain(proxy.arguments.iter().cloned());
            Directive { arguments: arguments.collect(), ..proxy.clone() }
        };
        let mut all = block.to_vec();
        let files = block.iter().position(|child| {
            let has_files = |inner: &Directive| OF_FILES.contains(&inner.name.as_str());
            is_there(child)
                && match child.name.as_str() {
                    "handle" => child.children().iter().all(has_files),
                    "file_server" => is_in_order,
                    _ => false,
                }
        })?;
        let is_rest = |child: &Directive| match block[files].name.as_str() {
            "handle" => {
                child.name == "handle"
                    && child.arguments.is_empty()
                    && matches!(child.children(), [only] if is_proxy(only))
            }
            _ => is_proxy(child),
        };
        let rest = block.iter().position(is_rest).filter(|rest| *rest > files)?;
        let place = &block[files].place;
        if block[files].name == "handle" {
            let proxy = block[rest].children().iter().map(of_missing);
            let inner = block[files].children().iter().cloned().chain(proxy).collect();
            all[rest] = Directive { block: Some(inner), ..block[rest].clone() };
            all.remove(files);
        } else {
            all[rest] = of_missing(&block[rest]);
        }
        self.matchers.push(Matcher::of_missing(OF_MISSING, place));
        Some(all)
    }
}
