//! The plan of a path: its route, and the walk for a script.

use std::path::Path;

use site::forwarding::RawReading;
use site::plan::{Cause, FallbackPlan, Plan, PlannedAction, plan, plan_fallback};
use site::upstream::Protocol;
use site::walk::{Step, Verdict, Walk};
use taipan_http::path_text::escaped;
use taipan_http::target::SafePath;

use super::files::print_no_folder;
use super::upstream::{print_pages, print_query};
use super::{Explanation, row};
use crate::files::beneath::Wait;
use crate::files::script;
use crate::{steps, terminal};

/// The maker of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Responding {
    Server,
    Script,
    Application,
    /// The path leads to nothing: the fallback responds, or else the server.
    Nothing,
}

impl Explanation<'_> {
    pub(super) fn print_plan(&self) -> Responding {
        let Some(path) = self.head.target.path() else {
            row("path", format_args!("none: this is about the server itself"));
            return Responding::Server;
        };
        let reading = RawReading::of(&self.host.routes, path);
        let path = match (reading, SafePath::parse(path)) {
            (Ok(Some(reading)), _) => reading.path,
            (Ok(None), Ok(path)) => path,
            (Err(error), _) | (_, Err(error)) => {
                row("path", format_args!("rejected: {}", error.rule()));
                return Responding::Server;
            }
        };
        row("path", format_args!("{path}"));
        let plan = plan(self.host, path.clone(), self.head.target.query());
        let route = plan.route;
        let responding = self.print_planned(&path, plan, None);
        if responding != Responding::Nothing {
            return responding;
        }
        let fallback = plan_fallback(self.host, route, &path, self.head.target.query());
        let Some(mut fallback) = fallback else { return responding };
        loop {
            let next = fallback.next(self.host, self.head.target.query());
            let FallbackPlan { path, plan, path_info, .. } = fallback;
            row("fallback", format_args!("{path}"));
            match (self.print_planned(&path, plan, Some(&path_info)), next) {
                (Responding::Nothing, Some(next)) => fallback = next,
                (responding, _) => return responding,
            }
        }
    }

    /// `fallback`: PATH_INFO of a fallback, if the plan is one.
    fn print_planned(&self, requested: &SafePath, plan: Plan<'_, '_>, fallback: Option<&str>) -> Responding {
        let Plan { route, walk, action, query } = plan;
        if let Some(walk) = walk {
            match self.print_walk(requested, &walk, fallback, query.as_deref()) {
                Some(Verdict::Run(_)) => return Responding::Script,
                Some(Verdict::NoScript) => {}
                Some(Verdict::Folder) => return Responding::Nothing,
                // The response says what is wrong.
                Some(Verdict::Denied(_) | Verdict::RedirectToFolder) | None => return Responding::Server,
            }
        }
        terminal::out(format_args!("{}", steps::route(self.site(), self.head, route, &action)));
        match action {
            PlannedAction::Upstream(planned) => {
                self.print_further_limits(planned.path());
                self.print_application(planned.upstream);
                self.print_cache(self.host.routes.get(planned.route));
                print_pages(&route.files.includes);
                match self.site().upstreams.get(planned.upstream) {
                    Some(upstream) if upstream.protocol == Protocol::Http => {
                        self.print_forwarding(route, query.map(|query| (planned.whole_path(), query)));
                    }
                    _ => {
                        let (script_name, path_info) = planned.script_name_and_path_info();
                        row("as", format_args!("SCRIPT_NAME {}", escaped(&script_name)));
                        row("", format_args!("PATH_INFO {}", escaped(&path_info)));
                        print_query(query.as_deref());
                    }
                }
                Responding::Application
            }
            PlannedAction::Status(_, Cause::NoScript) => Responding::Nothing,
            PlannedAction::Redirect(_)
            | PlannedAction::Monitor(_)
            | PlannedAction::Publish(_)
            | PlannedAction::Status(..) => Responding::Server,
            PlannedAction::Files(planned) => {
                if planned.path != *requested {
                    row("rewritten", format_args!("{}", planned.path));
                }
                match self.root(&planned) {
                    Some(root) => self.print_file(root, requested, &planned, route),
                    None => Responding::Server,
                }
            }
        }
    }

    /// The result of the walk for a script. `None`: a root or a folder is not available.
    fn print_walk(
        &self,
        requested: &SafePath,
        walk: &Walk,
        fallback: Option<&str>,
        query: Option<&str>,
    ) -> Option<Verdict> {
        let now = self.responder.services.clock.now();
        let folder = self.host.folder.as_ref();
        let found = folder.and_then(|folder| self.host_folder(folder));
        if let (Some(folder), None) = (folder, &found) {
            print_no_folder(folder);
            return None;
        }
        let root = found.as_ref().and_then(|(_, wanted)| Some(wanted.open().ok()?.0));
        let of_host = found.as_ref().and_then(|(_, wanted)| wanted.path());
        let scripts = script::Query::new(&self.responder.files, walk, root.as_ref(), now).ok()?;
        let verdict = scripts.verdict(Wait::Allowed).ok()?;
        if walk.path != *requested && verdict != Verdict::NoScript {
            row("rewritten", format_args!("{}", walk.path));
        }
        if let (Some((name, _)), Some(of_host), false) = (&found, of_host, verdict == Verdict::NoScript) {
            row("folder", format_args!("{}, of {name}", of_host.display()));
        }
        match verdict {
            Verdict::Run(at) => {
                let step = &walk.steps[at];
                self.print_script(step, of_host);
                self.print_further_limits(&step.script_name);
                let fallback_step = fallback.map(|path_info| step.with_path_info(path_info));
                let step = fallback_step.as_ref().unwrap_or(step);
                self.print_run(step, of_host);
                self.print_cache(self.host.routes.get(step.route));
                print_pages(&self.host.routes.get(step.route).files.includes);
                print_query(query);
            }
            Verdict::Denied(at) => {
                let step = &walk.steps[at];
                self.print_script(step, of_host);
                row("found", format_args!("a file that may not be run: {}", step.denial()));
            }
            Verdict::Folder => row("found", format_args!("a folder without an index script")),
            Verdict::RedirectToFolder => row("found", format_args!("a folder with an index script")),
            Verdict::NoScript => {}
        }
        Some(verdict)
    }

    /// `of_host`: the folder of the host's name.
    fn print_script(&self, step: &Step, of_host: Option<&Path>) {
        let name = self.host.routes.get(step.route).name();
        let (Some(root), Some(file)) = (step.root(of_host), step.file(of_host)) else { return };
        row("route", format_args!("{name}: scripts beneath {}", root.display()));
        row("script", format_args!("{}", file.display()));
    }
}
