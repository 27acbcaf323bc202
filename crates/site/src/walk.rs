//! Where a script may stand that answers for a path: the steps of a walk down the path, and what follows
//! from what stands there.
//!
//! A script is wherever a route says so, and the rest of the path behind it is its own: `/a.php/b` is for
//! `/a.php`, if that is a file, though the pattern `*.php` is not that path's. What a pattern does not
//! mark never becomes a script by what follows it: with `*.php`, `/upload/a.jpg/b.php` is nothing.
//!
//! Knows nothing of what is on the disk.

use std::path::{Path, PathBuf};

use script::walk::{FileKind, splits};
use taipan_http::target::SafePath;

use crate::model::{Action, Dotfiles, Host, Route, Script, Symlinks};
use crate::route::{Pattern, RouteId};

/// Splits of a path that are looked at, from the shortest script on, beside the whole path.
pub const MAX_SPLITS: usize = 32;

/// A walk for one path, as plain data: it can be handed to a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The path that is asked, or the one that a rewrite led to.
    pub path: SafePath<'static>,
    /// To be looked at one after the other.
    pub steps: Vec<Step>,
    own: Own,
}

/// One place where a script may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Whose script it would be.
    pub route: RouteId,
    pub root: PathBuf,
    /// The path beneath `root`.
    pub below: SafePath<'static>,
    pub symlinks: Symlinks,
    /// The path within the host: with a slash in front, SCRIPT_NAME.
    pub name: SafePath<'static>,
    /// Empty, or it begins with a slash.
    pub path_info: String,
    kind: Kind,
    runs: Runs,
    strip: usize,
}

/// What the route of the path itself does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    Script,
    /// It is for the scripts in this folder.
    Folder,
    Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Part of the path, or all of it.
    Split,
    /// A file that stands for the folder.
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    Itself,
    ByInterpreter,
    /// It is a file like others.
    Not,
}

/// Where a walk ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At the script of this step.
    Run(usize),
    /// At something that may not be run: 403.
    Denied(usize),
    /// At a folder whose own address ends in a slash: go there.
    ToFolder,
    /// At a folder of scripts without an index: 403.
    Folder,
    /// There is no script.
    Otherwise,
}

/// The walk for `path`. `None`: no script of this host can answer for it.
pub fn walk(host: &Host, path: &SafePath) -> Option<Walk> {
    if !host.routes.has_scripts() {
        return None;
    }
    let id = host.routes.find(path);
    let route = host.routes.get(id);
    let own = match route.script {
        Some(_) if is_folder_of(route, path) => Own::Folder,
        Some(_) => Own::Script,
        None => Own::Files,
    };
    let first = first_split(route, path);
    let mut steps: Vec<Step> = splits(path, first)
        .take(MAX_SPLITS)
        .filter_map(|split| Step::new(host, split.script, split.path_info, Kind::Split))
        .collect();
    if !path.is_folder() && path.segments().nth(first.saturating_add(MAX_SPLITS)).is_some() {
        steps.extend(Step::new(host, path.clone().into_owned(), "", Kind::Split));
    }
    steps.extend(index(host, path, route));
    let is_of_scripts = own != Own::Files || steps.iter().any(|step| step.runs != Runs::Not);
    is_of_scripts.then(|| Walk { path: path.clone().into_owned(), steps, own })
}

/// Segments in front that are no script: whoever says what is done below a folder, or with one path,
/// means it, whatever stands above.
fn first_split(route: &Route, path: &SafePath) -> usize {
    match (&route.pattern, &route.within) {
        (Pattern::Exact(_), _) => path.segments().count().saturating_sub(1),
        (Pattern::Prefix(prefix), _) | (Pattern::Glob(_), Some(Pattern::Prefix(prefix))) => {
            prefix.matches('/').count()
        }
        (Pattern::Glob(_), _) => 0,
    }
}

/// Index files up to the last that is a script; none, if no script is among them.
fn index(host: &Host, path: &SafePath, route: &Route) -> Vec<Step> {
    let folder = path.as_folder();
    let names = route.files.index.iter().filter_map(|name| folder.join(name));
    let mut steps: Vec<Step> = names.filter_map(|name| Step::index(host, name)).collect();
    if route.script.is_some() {
        steps.retain(|step| step.runs != Runs::Not);
    } else if !path.is_folder() {
        // Files have their own way of leading to a folder.
        steps.clear();
    }
    let last = steps.iter().rposition(|step| step.runs != Runs::Not);
    steps.truncate(last.map_or(0, |last| last + 1));
    steps
}

/// Is it a script, if it is there?
pub fn is_script(host: &Host, path: &SafePath) -> bool {
    host.routes.get(host.routes.find(path)).script.is_some()
}

impl Walk {
    /// Where it ends. `look` says what stands at a step; its error ends it.
    pub fn end<E>(&self, mut look: impl FnMut(&Step) -> Result<FileKind, E>) -> Result<Verdict, E> {
        let mut missing: Option<&Step> = None;
        let mut own = FileKind::Missing;
        for (at, step) in self.steps.iter().enumerate() {
            // Beneath what is not there is nothing.
            let stands = match missing {
                Some(above) if step.is_below(above) => FileKind::Missing,
                _ => look(step)?,
            };
            match (stands, step.kind, step.runs) {
                (FileKind::Script | FileKind::NotExecutable, Kind::Index, Runs::Not) => {
                    return Ok(Verdict::Otherwise);
                }
                (FileKind::Script, Kind::Index, _) if !self.path.is_folder() => return Ok(Verdict::ToFolder),
                (FileKind::Script, _, _) => return Ok(Verdict::Run(at)),
                (FileKind::Other | FileKind::Folder, Kind::Index, _) => {}
                (FileKind::NotExecutable | FileKind::Other, _, _) => return Ok(Verdict::Denied(at)),
                (FileKind::Folder, Kind::Split, _) if matches!(step.path_info.as_str(), "" | "/") => {
                    own = FileKind::Folder;
                }
                (FileKind::Missing, Kind::Split, _) => missing = Some(step),
                (FileKind::Folder | FileKind::Missing, _, _) => {}
            }
        }
        Ok(match (self.own, own) {
            (Own::Script, FileKind::Folder) => Verdict::Folder,
            (Own::Folder, _) => Verdict::Folder,
            (Own::Script | Own::Files, _) => Verdict::Otherwise,
        })
    }
}

impl Step {
    fn new(host: &Host, name: SafePath<'static>, path_info: &str, kind: Kind) -> Option<Step> {
        let id = host.routes.find(&name);
        let route = host.routes.get(id);
        let (Action::Files { root, strip }, Some(script)) = (&route.action, &route.script) else {
            return None;
        };
        if is_folder_of(route, &name) || is_hidden(route, &name) {
            return None;
        }
        let runs = if script.interpreter.is_some() { Runs::ByInterpreter } else { Runs::Itself };
        Step::at(id, route, root, *strip, name, path_info, (kind, runs))
    }

    fn index(host: &Host, name: SafePath<'static>) -> Option<Step> {
        let id = host.routes.find(&name);
        let route = host.routes.get(id);
        match (&route.action, &route.script) {
            (Action::Files { .. }, Some(_)) => Step::new(host, name, "", Kind::Index),
            (Action::Files { root, strip }, None) => {
                Step::at(id, route, root, *strip, name, "", (Kind::Index, Runs::Not))
            }
            _ => None,
        }
    }

    fn at(
        id: RouteId,
        route: &Route,
        root: &Path,
        strip: usize,
        name: SafePath<'static>,
        path_info: &str,
        (kind, runs): (Kind, Runs),
    ) -> Option<Step> {
        Some(Step {
            route: id,
            root: root.to_owned(),
            below: name.skip_segments(strip)?.into_owned(),
            symlinks: route.files.symlinks,
            path_info: path_info.to_owned(),
            name,
            kind,
            runs,
            strip,
        })
    }

    /// As it is, for a request that has led here from another path.
    pub fn with_path_info(&self, path_info: &str) -> Step {
        Step { path_info: path_info.to_owned(), ..self.clone() }
    }

    /// Bits of a file's mode of which one must be set, or it may not be run.
    pub fn mode(&self) -> u32 {
        match self.runs {
            Runs::Itself => 0o111,
            Runs::ByInterpreter => 0o444,
            Runs::Not => 0o777,
        }
    }

    /// What a file that may not be run has not, in words.
    pub fn lacks(&self) -> &'static str {
        match self.runs {
            Runs::Itself => "it is not executable, or no file",
            Runs::ByInterpreter | Runs::Not => "it is not readable, or no file",
        }
    }

    /// The file itself.
    pub fn file(&self) -> PathBuf {
        self.root.join(self.below.as_str())
    }

    fn is_below(&self, above: &Step) -> bool {
        let rest = self.below.as_str().strip_prefix(above.below.as_str());
        (&self.root, self.strip) == (&above.root, above.strip)
            && rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Whether a path, which the route has, is the folder that it is for.
fn is_folder_of(route: &Route, path: &SafePath) -> bool {
    match &route.pattern {
        Pattern::Prefix(prefix) => path.segments().count() <= prefix.matches('/').count(),
        Pattern::Exact(_) | Pattern::Glob(_) => false,
    }
}

/// What is behind a script is for the script to judge; the path to it must not be hidden.
fn is_hidden(route: &Route, name: &SafePath) -> bool {
    route.files.dotfiles == Dotfiles::Deny && name.is_hidden()
}

/// The file that PATH_INFO would be, were it a path of its own (RFC 3875 §4.1.6).
pub fn translated(host: &Host, path_info: &str) -> Option<PathBuf> {
    if path_info.is_empty() {
        return None;
    }
    let mut encoded = String::new();
    taipan_http::target::encode_path(path_info, &mut encoded);
    let path = SafePath::parse(&encoded).ok()?;
    match &host.routes.get(host.routes.find(&path)).action {
        Action::Files { root, strip } => Some(root.join(path.skip_segments(*strip)?.as_str())),
        Action::Upstream(_) | Action::Redirect { .. } | Action::Rewrite { .. } | Action::Answer(_) => None,
    }
}

/// What a script is told as DOCUMENT_ROOT: where the host has its files, if it has any.
pub fn document_root<'s>(host: &'s Host, otherwise: &'s Path) -> &'s Path {
    match &host.routes.get(RouteId::FALLBACK).action {
        Action::Files { root, .. } => root,
        Action::Upstream(_) | Action::Redirect { .. } | Action::Rewrite { .. } | Action::Answer(_) => {
            otherwise
        }
    }
}

/// The settings of the script of a step.
pub fn script<'s>(host: &'s Host, step: &Step) -> Option<(&'s Route, &'s Script)> {
    let route = host.routes.get(step.route);
    Some((route, route.script.as_ref()?))
}

#[cfg(test)]
mod tests;
