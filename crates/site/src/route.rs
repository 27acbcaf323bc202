//! Routes: the table that finds the route of a path.
//!
//! An exact pattern wins over a glob, and a glob over a prefix.
//! Among globs the first in the configuration wins, among prefixes the longest. A path that no pattern matches has
//! the default route, whose pattern is `/`.
//!
//! The configuration may combine a glob with a prefix. The combined route is for the paths that the glob matches
//! below the prefix: see [`Routes::combine`].
//!
//! Knows nothing of what a route does.

mod class;
mod glob;
mod pattern;

use std::path::PathBuf;
use std::sync::Arc;

use taipan_http::target::SafePath;

pub use self::glob::{ANY_CASE, Glob, MAX_GLOB, is_glob};
use self::pattern::path_below;
pub use self::pattern::{MAX_PATTERN, Pattern, PatternError, is_folder, with_brackets};
use crate::authentication::Authentication;
use crate::jwt::Jwt;
use crate::model::{Action, Interpreter, Route};

/// Routes of one host besides the default.
pub const MAX_ROUTES: usize = 1000;
/// Combined routes of one host.
pub const MAX_COMBINED: usize = 4096;

/// The number of a route in its host's [`Routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(u16);

impl RouteId {
    pub const DEFAULT: RouteId = RouteId(0);

    /// The index of the route among `others` of [`Routes::new`]. `None`: the default.
    pub fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// The routes of a host.
#[derive(Debug, Clone)]
pub struct Routes {
    default: Route,
    /// First those of the configuration, then the combined ones. The id of the first is 1.
    others: Vec<Route>,
    /// For each combined route, that of its glob.
    combined: Vec<RouteId>,
    /// Ascending by path.
    exact: Vec<(String, RouteId)>,
    /// In the order of the configuration.
    globs: Vec<GlobRoutes>,
    /// The longest is the first.
    prefixes: Vec<(String, RouteId)>,
    /// The prefixes without the slash at their ends, in ascending order, each with its index in `prefixes`.
    folders: Vec<(String, usize)>,
    has_scripts: bool,
    /// Whether a route is in the place of single files: see [`Route::replaces_files`].
    replaces_files: bool,
}

#[derive(Debug, Clone)]
struct GlobRoutes {
    glob: Glob,
    /// Below each of the prefixes, in their order, and last below none of them.
    by_prefix: Vec<RouteId>,
}

/// What is wrong with the routes of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutesError {
    /// More than [`MAX_ROUTES`].
    TooMany,
    /// More than [`MAX_COMBINED`].
    TooManyCombined,
    /// The route at this index has the pattern of one before it.
    Duplicate(usize),
}

impl Routes {
    /// `default` is for every path that none of `others` matches, whatever its own pattern is.
    pub fn new(default: Route, others: Vec<Route>) -> Result<Routes, RoutesError> {
        if others.len() > MAX_ROUTES {
            return Err(RoutesError::TooMany);
        }
        let mut routes = Routes::only(default);
        for (index, route) in others.iter().enumerate() {
            if others[..index].iter().any(|other| other.pattern == route.pattern) {
                return Err(RoutesError::Duplicate(index));
            }
            let id = RouteId(index as u16 + 1);
            match &route.pattern {
                Pattern::Exact(path) => routes.exact.push((path.clone(), id)),
                Pattern::Prefix(prefix) => routes.prefixes.push((prefix.clone(), id)),
                Pattern::Glob(glob) => {
                    routes.globs.push(GlobRoutes { glob: glob.clone(), by_prefix: vec![id] });
                }
            }
        }
        sort::by(&mut routes.exact, Ord::cmp);
        sort::by_key(&mut routes.prefixes, |(prefix, _)| std::cmp::Reverse(prefix.len()));
        let folder = |prefix: &str| prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
        let folders = routes.prefixes.iter().enumerate().map(|(at, (prefix, _))| (folder(prefix), at));
        routes.folders = folders.collect();
        sort::by(&mut routes.folders, Ord::cmp);
        for GlobRoutes { by_prefix, .. } in &mut routes.globs {
            by_prefix.resize(1 + routes.prefixes.len(), by_prefix[0]);
        }
        routes.has_scripts |= others.iter().any(|route| route.script.is_some());
        routes.replaces_files = others.iter().any(Route::replaces_files);
        Ok(Routes { others, ..routes })
    }

    /// One route for every path.
    pub fn only(route: Route) -> Routes {
        let has_scripts = route.script.is_some();
        let default = Route { pattern: Pattern::EVERYTHING, ..route };
        let (others, combined, exact, globs, prefixes, folders) = Default::default();
        let replaces_files = false;
        Routes { default, others, combined, exact, globs, prefixes, folders, has_scripts, replaces_files }
    }

    /// Combines each exact path with the longest prefix that it is below, and each glob with each prefix. `combine`
    /// gets the ids of both routes, and returns the combined route. `None`: the route of the path or the glob stays.
    pub fn combine(
        mut self,
        mut combine: impl FnMut(RouteId, RouteId) -> Option<Route>,
    ) -> Result<Routes, RoutesError> {
        for (path, id) in &self.exact {
            let prefix = self.prefixes.iter().find(|(prefix, _)| path_below(prefix, path).is_some());
            if let Some(route) = combine(*id, prefix.map_or(RouteId::DEFAULT, |(_, id)| *id))
                && let Some(index) = id.index()
            {
                self.others[index] = route;
            }
        }
        for GlobRoutes { glob, by_prefix } in &mut self.globs {
            let prefixes = self.prefixes.iter().map(|(prefix, id)| (prefix.as_str(), *id));
            for (id, (prefix, outer)) in by_prefix.iter_mut().zip(prefixes.chain([("", RouteId::DEFAULT)])) {
                if !glob.reaches(prefix) {
                    continue;
                }
                let Some(route) = combine(*id, outer) else { continue };
                if self.combined.len() == MAX_COMBINED {
                    return Err(RoutesError::TooManyCombined);
                }
                self.others.push(route);
                self.combined.push(*id);
                *id = RouteId(self.others.len() as u16);
            }
        }
        let has_scripts = self.has_scripts || self.iter().any(|route| route.script.is_some());
        let replaces_files = self.replaces_files || self.iter().any(Route::replaces_files);
        Ok(Routes { has_scripts, replaces_files, ..self })
    }

    /// Allocates nothing.
    pub fn find(&self, path: &SafePath) -> RouteId {
        if self.others.is_empty() {
            return RouteId::DEFAULT;
        }
        let text = path.as_str();
        if let Ok(at) = self.exact.binary_search_by(|(exact, _)| exact.as_str().cmp(text)) {
            return self.exact[at].1;
        }
        let glob = self.globs.iter().find(|routes| routes.glob.matches(path));
        let prefix = self.longest_prefix(text);
        match (glob, prefix) {
            (Some(glob), _) => glob.by_prefix[prefix.unwrap_or(self.prefixes.len())],
            (None, Some(at)) => self.prefixes[at].1,
            (None, None) => RouteId::DEFAULT,
        }
    }

    /// The index of the longest prefix that `path` is below. The search takes some steps for each segment.
    fn longest_prefix(&self, path: &str) -> Option<usize> {
        if self.folders.is_empty() {
            return None;
        }
        let mut folder = path.strip_suffix('/').unwrap_or(path);
        loop {
            if let Ok(at) = self.folders.binary_search_by(|(own, _)| own.as_str().cmp(folder)) {
                return Some(self.folders[at].1);
            }
            folder = match folder.rfind('/') {
                Some(slash) => &folder[..slash],
                // The prefix of every path.
                None if !folder.is_empty() => "",
                None => return None,
            };
        }
    }

    /// The routes that entries of a folder may have: first the one of those that only a prefix matches. `folder`: as in
    /// [`SafePath::as_str`].
    pub fn of_entries(&self, folder: &str) -> impl Iterator<Item = &Route> {
        let below = self.longest_prefix(folder).map_or(RouteId::DEFAULT, |at| self.prefixes[at].1);
        let others = self.others.iter().filter(move |route| route.pattern.may_match_in(folder));
        std::iter::once(self.get(below)).chain(others)
    }

    /// The route in the configuration: for a combined route, that of its glob.
    pub fn configured(&self, id: RouteId) -> RouteId {
        let configured = self.others.len() - self.combined.len();
        let at = usize::from(id.0).checked_sub(configured + 1);
        at.and_then(|at| self.combined.get(at)).copied().unwrap_or(id)
    }

    /// `id` is one that [`Routes::find`] of the same table returned.
    pub fn get(&self, id: RouteId) -> &Route {
        id.index().and_then(|index| self.others.get(index)).unwrap_or(&self.default)
    }

    /// Whether any route has scripts.
    pub fn has_scripts(&self) -> bool {
        self.has_scripts
    }

    /// Whether a file may not be sent where it stands for another path, such as that of its folder.
    pub fn has_unsent_files(&self) -> bool {
        self.has_scripts || self.replaces_files
    }

    /// The default route first, then those of the configuration, then the combined ones.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        std::iter::once(&self.default).chain(&self.others)
    }

    /// As `iter`.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Route> {
        std::iter::once(&mut self.default).chain(&mut self.others)
    }

    /// The settings of authentication of all routes.
    pub fn authentications_mut(&mut self) -> impl Iterator<Item = &mut Arc<Authentication>> {
        self.iter_mut().flat_map(|route| {
            let enclosing = route.enclosing.as_mut().map(|enclosing| &mut enclosing.authentication);
            std::iter::once(&mut route.authentication).chain(enclosing)
        })
    }

    /// The tokens that routes ask for.
    pub fn jwts_mut(&mut self) -> impl Iterator<Item = &mut Arc<Jwt>> {
        let routes = std::iter::once(&mut self.default).chain(&mut self.others);
        routes.flat_map(|route| &mut route.jwts)
    }

    /// The roots and the interpreters of all routes. A new path for them changes nothing else of a route.
    pub fn folders_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.default).chain(&mut self.others).flat_map(folders_mut)
    }
}

fn folders_mut(route: &mut Route) -> impl Iterator<Item = &mut PathBuf> {
    let root = match &mut route.action {
        Action::Files { root, .. } => Some(root),
        _ => None,
    };
    let interpreter = match route.script.as_mut().and_then(|script| script.interpreter.as_mut()) {
        Some(Interpreter::Program(path)) => Some(path),
        _ => None,
    };
    let lister = match route.lister.as_mut().and_then(|lister| lister.interpreter.as_mut()) {
        Some(Interpreter::Program(path)) => Some(path),
        _ => None,
    };
    root.into_iter().chain(interpreter).chain(lister)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taipan_http::status::Status;

    use super::*;
    use crate::model::{Action, Site};

    fn path(text: &str) -> SafePath<'static> {
        SafePath::parse(text).unwrap().into_owned()
    }

    #[test]
    fn a_pattern_without_case_precedes_prefixes_of_any_case_and_has_an_example() {
        let routes = routes(&["/A/", "/a/", "(?i)/a/**.b"]).unwrap();
        for (requested, expected) in
            [("/A/x.B", "(?i)/a/**.b"), ("/a/x.b", "(?i)/a/**.b"), ("/A/x", "/A/"), ("/a/x", "/a/")]
        {
            assert_eq!(
                routes.get(routes.find(&path(requested))).pattern.to_string(),
                expected,
                "{requested}"
            );
        }
        let example = Pattern::parse("(?i)*.sql").unwrap().example().unwrap();
        assert_eq!(example.as_str(), "x.sql");
    }

    fn routes(patterns: &[&str]) -> Result<Routes, RoutesError> {
        let default = Site::folder("/srv".into(), Vec::new()).hosts[0].routes.default.clone();
        let route = |pattern: &&str| {
            let pattern = Pattern::parse(pattern).unwrap();
            Route { pattern, action: Action::Return(Status::NOT_FOUND), ..default.clone() }
        };
        Routes::new(default.clone(), patterns.iter().map(route).collect())
    }

    #[test]
    fn prefers_exact_paths_then_the_first_glob_then_the_longest_prefix() {
        let routes = routes(&["/a/", "/a/b/", "*.js", "/a/b/**", "/a/b/x.js", "/c/", "/.", "/c/."]).unwrap();
        let check = |requested: &str, expected: &str| {
            let found = routes.get(routes.find(&path(requested)));
            assert_eq!(found.pattern.to_string(), expected, "{requested}");
        };
        check("/", "/.");
        check("/c", "/c/");
        check("/c/", "/c/.");
        check("/z", "/");
        check("/a", "/a/");
        check("/a/z", "/a/");
        check("/ab", "/");
        check("/c/x.js", "*.js");
        check("/a/b/x.js", "/a/b/x.js");
        check("/a/b/y.js", "*.js");
        check("/a/b/y", "/a/b/**");
        check("/c/d/", "/c/");
    }

    proptest! {
        #[test]
        fn finds_the_longest_prefix(
            prefixes in proptest::collection::btree_set("/([ab]{1,2}/){1,3}", 0..12),
            path in "/([ab]{1,2}/){0,3}[ab]{0,2}",
        ) {
            let patterns: Vec<&str> = prefixes.iter().map(String::as_str).collect();
            let routes = routes(&patterns).unwrap();
            let path = SafePath::parse(&path).unwrap();
            let matching = patterns.iter().filter(|text| Pattern::parse(text).unwrap().matches(&path));
            let expected = matching.max_by_key(|text| text.len()).copied().unwrap_or("/");
            prop_assert_eq!(routes.get(routes.find(&path)).pattern.to_string(), expected);
        }
    }

    #[test]
    fn rejects_duplicate_patterns_and_too_many_routes() {
        assert_eq!(routes(&["/a", "/b/", "/a"]).unwrap_err(), RoutesError::Duplicate(2));
        let many: Vec<String> = (0..=MAX_ROUTES).map(|n| format!("/{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(routes(&many).unwrap_err(), RoutesError::TooMany);
        assert_eq!(routes(&many[1..]).unwrap().iter().count(), MAX_ROUTES + 1);
    }
}
