//! The places where the script for a path may be, from the shortest script name on. A walk tries them in this order.
//!
//! A script is a file whose own path has a route with scripts. What follows in the path is its PATH_INFO: `/a.php/b`
//! is for `/a.php`, although `*.php` does not match `/a.php/b`. A longer path never makes a script of a file that is
//! none: `/upload/a.jpg/b.php` does not run `a.jpg`. A script without PATH_INFO may have a suffix that the path lacks.
//!
//! Knows nothing of what is on the disk.

use std::path::{Path, PathBuf};

use script::walk::{FileKind, splits};
use taipan_http::target::SafePath;

use crate::authentication::is_never_served;
use crate::model::{Action, Dotfiles, Host, NamedRoot, Route, Script, Symlinks};
use crate::route::{Pattern, RouteId};

/// The number of splits of a path that are tried, besides the whole path.
pub const MAX_SPLITS: usize = 32;

/// The walk for one path. Plain data: a helper thread can do it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The path of the request, or the one that a rewrite led to.
    pub path: SafePath<'static>,
    /// Tried in this order.
    pub steps: Vec<Step>,
    route: RouteKind,
}

/// A place of a script, or of an index file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub route: RouteId,
    pub root: StepRoot,
    /// The path beneath `root`.
    pub below: SafePath<'static>,
    pub symlinks: Symlinks,
    /// SCRIPT_NAME.
    pub script_name: SafePath<'static>,
    /// PATH_INFO: empty, or with a slash in front.
    pub path_info: String,
    kind: StepKind,
    runs: Runs,
    strip: usize,
}

/// A folder that scripts are beneath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepRoot {
    Path(PathBuf),
    /// The folder of the host's name.
    OfHost,
}

/// What the route of the whole path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RouteKind {
    Scripts,
    /// Scripts, and the path is their folder.
    ScriptFolder,
    Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepKind {
    /// A part of the path, or all of it.
    Split,
    /// The file of the path itself, which precedes scripts with a suffix.
    Plain,
    /// The path with a suffix.
    Suffix(BesideFolder),
    /// An index file of the path.
    Index,
}

/// Whether a file with a suffix stands for a path that a folder has, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BesideFolder {
    Yes,
    No,
}

/// How the kernel runs the file of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    Directly,
    ByInterpreter,
    /// It is an ordinary index file.
    Never,
}

/// The result of a walk. A number is the index of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Run(usize),
    /// 403: the file may not be run.
    Denied(usize),
    /// A folder with an index script, without a slash at the end of its path: redirect.
    RedirectToFolder,
    /// 403: a folder of scripts without an index script.
    Folder,
    NoScript,
}

/// The walk for `path`. `None`: no script of this host can respond to it.
pub fn walk(host: &Host, path: &SafePath) -> Option<Walk> {
    if !host.routes.has_scripts() {
        return None;
    }
    let route = host.routes.get(host.routes.find(path));
    let kind = match route.script {
        Some(_) if is_folder_of(route, path) => RouteKind::ScriptFolder,
        Some(_) => RouteKind::Scripts,
        None => RouteKind::Files,
    };
    let first = first_split(route, path);
    let mut steps: Vec<Step> = splits(path, first)
        .take(MAX_SPLITS)
        .filter_map(|split| Step::new(host, split.script, split.path_info, StepKind::Split))
        .collect();
    if !path.is_folder() && path.segments().nth(first.saturating_add(MAX_SPLITS)).is_some() {
        steps.extend(Step::new(host, path.clone().into_owned(), "", StepKind::Split));
    }
    let [plain, before_folder, without_folder] = suffix_steps(host, path, route);
    steps.extend(plain);
    steps.extend(before_folder);
    steps.extend(index_steps(host, path, route));
    steps.extend(without_folder);
    let has_scripts = kind != RouteKind::Files || steps.iter().any(|step| step.runs != Runs::Never);
    has_scripts.then(|| Walk { path: path.clone().into_owned(), steps, route: kind })
}

/// The number of leading segments that are no script. Where a route names a folder or a path, no script above it
/// responds.
fn first_split(route: &Route, path: &SafePath) -> usize {
    match (&route.pattern, route.within.as_deref()) {
        (Pattern::Exact(_), _) => path.segments().count().saturating_sub(1),
        (Pattern::Prefix(prefix), _) | (Pattern::Glob(_), Some(Pattern::Prefix(prefix))) => {
            prefix.matches('/').count()
        }
        (Pattern::Glob(_), _) => 0,
    }
}

/// The file of the path, and those with the suffixes before and behind its folder, up to the last that is a script.
/// Empty if none of them is a script.
fn suffix_steps(host: &Host, path: &SafePath, route: &Route) -> [Vec<Step>; 3] {
    let suffixes = &route.files.suffixes;
    if suffixes.is_empty() || path.is_folder() {
        return Default::default();
    }
    let of = |suffixes: &[String], beside| -> Vec<Step> {
        let names = suffixes.iter().filter_map(|suffix| path.with_suffix(suffix));
        let steps = names.filter_map(|name| Step::new(host, name, "", StepKind::Suffix(beside)));
        // Where only scripts respond, no file is sent.
        steps.filter(|step| route.script.is_none() || step.runs != Runs::Never).collect()
    };
    let up_to_script = |mut steps: Vec<Step>| {
        let last = steps.iter().rposition(|step| step.runs != Runs::Never);
        steps.truncate(last.map_or(0, |last| last + 1));
        steps
    };
    let without_folder = up_to_script(of(&suffixes.without_folder, BesideFolder::No));
    let before_folder = of(&suffixes.before_folder, BesideFolder::Yes);
    let before_folder = if without_folder.is_empty() { up_to_script(before_folder) } else { before_folder };
    if before_folder.is_empty() && without_folder.is_empty() {
        return Default::default();
    }
    // A script of this name is a split of the path.
    let plain = route.script.is_none().then(|| path.clone().into_owned());
    let plain = plain.and_then(|path| Step::new(host, path, "", StepKind::Plain));
    [plain.into_iter().collect(), before_folder, without_folder]
}

/// The index files up to the last that is a script. Empty if none of them is a script.
fn index_steps(host: &Host, path: &SafePath, route: &Route) -> Vec<Step> {
    let folder = path.as_folder();
    let names = route.files.index.iter().filter_map(|name| folder.join(name));
    let mut steps: Vec<Step> = names.filter_map(|name| Step::new(host, name, "", StepKind::Index)).collect();
    if route.script.is_some() {
        steps.retain(|step| step.runs != Runs::Never);
    } else if !path.is_folder() {
        // The lookup of the file finds the folder, and redirects.
        steps.clear();
    }
    let last = steps.iter().rposition(|step| step.runs != Runs::Never);
    steps.truncate(last.map_or(0, |last| last + 1));
    steps
}

/// Whether a file at `path` is a script.
pub fn is_script(host: &Host, path: &SafePath) -> bool {
    host.routes.get(host.routes.find(path)).script.is_some()
}

impl Walk {
    /// `probe` finds the file of a step. Errors: those of `probe`.
    pub fn verdict<E>(&self, mut probe: impl FnMut(&Step) -> Result<FileKind, E>) -> Result<Verdict, E> {
        let mut missing: Option<&Step> = None;
        let mut is_folder = false;
        for (at, step) in self.steps.iter().enumerate() {
            let found = match missing {
                Some(above) if step.is_below(above) => FileKind::Missing,
                _ if is_folder && step.kind == StepKind::Suffix(BesideFolder::No) => FileKind::Missing,
                _ => probe(step)?,
            };
            match (found, step.kind, step.runs) {
                (FileKind::Script | FileKind::NotExecutable, _, Runs::Never) => {
                    return Ok(Verdict::NoScript);
                }
                (FileKind::Script, StepKind::Index, _) if !self.path.is_folder() => {
                    return Ok(Verdict::RedirectToFolder);
                }
                (FileKind::Script, _, _) => return Ok(Verdict::Run(at)),
                (FileKind::Folder, StepKind::Split | StepKind::Plain, _) => {
                    is_folder |= matches!(step.path_info.as_str(), "" | "/");
                }
                (FileKind::Other | FileKind::Folder, StepKind::Index | StepKind::Suffix(_), _) => {}
                // What is no file has a response of its own.
                (FileKind::Other, StepKind::Plain, _) => return Ok(Verdict::NoScript),
                (FileKind::NotExecutable | FileKind::Other, _, _) => return Ok(Verdict::Denied(at)),
                (FileKind::Missing, StepKind::Split, _) => missing = Some(step),
                (FileKind::Missing, _, _) => {}
            }
        }
        Ok(match self.route {
            RouteKind::ScriptFolder => Verdict::Folder,
            RouteKind::Scripts if is_folder => Verdict::Folder,
            RouteKind::Scripts | RouteKind::Files => Verdict::NoScript,
        })
    }
}

impl Step {
    /// `None`: no file at `script_name` can be a script, or an index file.
    fn new(host: &Host, script_name: SafePath<'static>, path_info: &str, kind: StepKind) -> Option<Step> {
        let id = host.routes.find(&script_name);
        let route = host.routes.get(id);
        let (root, strip) = match &route.action {
            Action::Files { root, strip } => (StepRoot::Path(root.clone()), *strip),
            Action::NamedFiles(NamedRoot::OfHost) => (StepRoot::OfHost, 0),
            _ => return None,
        };
        let runs = match route.script.as_deref() {
            None if kind == StepKind::Split => return None,
            None => Runs::Never,
            Some(_) if is_folder_of(route, &script_name) || is_hidden(route, &script_name) => return None,
            Some(Script { interpreter: Some(_), .. }) => Runs::ByInterpreter,
            Some(Script { interpreter: None, .. }) => Runs::Directly,
        };
        let below = script_name.skip_segments(strip)?.into_owned();
        if route.files.hides(&below) {
            return None;
        }
        Some(Step {
            route: id,
            root,
            below,
            symlinks: route.files.symlinks,
            script_name,
            path_info: path_info.to_owned(),
            kind,
            runs,
            strip,
        })
    }

    /// The step for a request whose path is another one.
    pub fn with_path_info(&self, path_info: &str) -> Step {
        Step { path_info: path_info.to_owned(), ..self.clone() }
    }

    /// A script needs one of these permissions.
    pub fn permission_bits(&self) -> u32 {
        match self.runs {
            Runs::Directly => 0o111,
            Runs::ByInterpreter => 0o444,
            Runs::Never => 0o777,
        }
    }

    /// Why the file is [`Verdict::Denied`].
    pub fn denial(&self) -> &'static str {
        match self.runs {
            Runs::Directly => "it is not executable, or no file",
            Runs::ByInterpreter | Runs::Never => "it is not readable, or no file",
        }
    }

    /// `of_host`: the folder of the host's name. `None`: the step needs it.
    pub fn root<'s>(&'s self, of_host: Option<&'s Path>) -> Option<&'s Path> {
        match &self.root {
            StepRoot::Path(path) => Some(path),
            StepRoot::OfHost => of_host,
        }
    }

    /// As `root`.
    pub fn file(&self, of_host: Option<&Path>) -> Option<PathBuf> {
        Some(self.below.beneath(self.root(of_host)?))
    }

    fn is_below(&self, above: &Step) -> bool {
        let rest = self.below.as_str().strip_prefix(above.below.as_str());
        (&self.root, self.strip) == (&above.root, above.strip)
            && rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Whether `path` is the folder that its route is for.
fn is_folder_of(route: &Route, path: &SafePath) -> bool {
    match &route.pattern {
        Pattern::Prefix(prefix) => path.segments().count() <= prefix.matches('/').count(),
        Pattern::Exact(_) | Pattern::Glob(_) => false,
    }
}

/// Whether the path of a script is hidden. PATH_INFO may have dotfiles: its meaning is the script's.
fn is_hidden(route: &Route, script_name: &SafePath) -> bool {
    let is_dotfile = route.files.dotfiles == Dotfiles::Deny && script_name.is_hidden();
    is_dotfile || script_name.segments().any(is_never_served)
}

/// PATH_TRANSLATED: the file that PATH_INFO names if it is taken as a path of this host (RFC 3875 §4.1.6). `of_host`:
/// the folder of the host's name.
pub fn path_translated(host: &Host, of_host: Option<&Path>, path_info: &str) -> Option<PathBuf> {
    if path_info.is_empty() {
        return None;
    }
    let path = SafePath::from_decoded(path_info).ok()?;
    let (root, strip) = match &host.routes.get(host.routes.find(&path)).action {
        Action::Files { root, strip } => (root.as_path(), *strip),
        Action::NamedFiles(NamedRoot::OfHost) => (of_host?, 0),
        _ => return None,
    };
    Some(path.skip_segments(strip)?.beneath(root))
}

/// DOCUMENT_ROOT: the root of the host, or `root` if the host has none. `of_host`: the folder of the host's name.
pub fn document_root<'s>(host: &'s Host, of_host: Option<&'s Path>, root: &'s Path) -> &'s Path {
    match &host.routes.get(RouteId::DEFAULT).action {
        Action::Files { root, .. } => root,
        Action::NamedFiles(NamedRoot::OfHost) => of_host.unwrap_or(root),
        _ => root,
    }
}

/// The route of a step, and its script settings.
pub fn script<'s>(host: &'s Host, step: &Step) -> Option<(&'s Route, &'s Script)> {
    let route = host.routes.get(step.route);
    Some((route, route.script.as_ref()?))
}

#[cfg(test)]
mod tests;
