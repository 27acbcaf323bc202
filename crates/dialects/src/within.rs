//! What the routes of a host have of those around them. Other servers add up what all their sections say about a path;
//! here one route counts, and it has only what it says itself. A host with too many routes is refused, and left as it is.

use std::collections::BTreeSet;
use std::path::Path;

use site::route::Pattern;

use crate::brackets::{self, is_glob, is_wildcard};
use crate::disk::Disk;
use crate::document::Value;
use crate::draft::{Draft, HANDLERS, Host, Scope, TOO_MANY_ROUTES, WAYS, with_ends};
use crate::pattern;
use crate::tree::Place;

/// Tables whose pairs add up.
const TABLES: [&str; 3] = ["headers", "users", "cache_control"];

/// The text of a path, as a query has it.
fn encoded(path: &str) -> String {
    let encode = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    path.bytes().map(encode).collect()
}

impl Scope {
    /// Whether not every request may have it.
    pub fn denies(&self) -> bool {
        let allows = |rule: &Scope| rule.text("then") == Some("allow");
        let is_open = self.get("return").is_none() && self.get("auth").is_none();
        self.protects() && !(is_open && self.rules.iter().all(allows))
    }

    /// Responds with this status, whatever it did before.
    pub fn deny(&mut self, status: Value) {
        const OTHERS: [&str; 6] = ["status", "root", "alias", "fallback", "fallback_for", "try_suffixes"];
        WAYS.iter().chain(&HANDLERS).chain(&OTHERS).for_each(|name| self.remove(name));
        self.set(&self.place(), "return", status);
    }

    /// Takes what protects another route. Who its users are is not mixed with that of the other.
    fn add_protection(&mut self, outer: &Scope) {
        let (_, protection) = outer.clone().split();
        match self.get("auth") {
            Some(_) => {
                self.rules.extend(protection.rules);
                self.limits.extend(protection.limits);
            }
            None => self.inherit(&protection),
        }
    }

    /// It leads to another path, whose access counts.
    fn leads_away(&self) -> bool {
        self.get("redirect").is_some() || self.get("rewrite").is_some()
    }

    /// Takes the settings of another route for the same paths and more.
    pub fn add(&mut self, outer: &Scope) {
        let (mut others, _) = outer.clone().split();
        WAYS.iter()
            .chain(&HANDLERS)
            .chain(&["path", "status", "root", "alias"])
            .for_each(|name| others.remove(name));
        for table in TABLES {
            for (name, value) in others.pairs(table) {
                if !self.pairs(table).iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                    self.pair(&outer.place(), table, name, value.clone());
                }
            }
        }
        self.inherit(&others);
        self.add_protection(outer);
    }
}

impl Host {
    /// Denies files that routes run in this way, where the other server has no program for them: their source would be
    /// sent.
    pub fn without_programs(
        &mut self,
        patterns: &[(String, Place)],
        is_run: fn(&Scope) -> bool,
        draft: &mut Draft,
    ) {
        for (pattern, place) in patterns {
            if self.routes.len() > TOO_MANY_ROUTES {
                return;
            }
            let runs = self.routes.iter().filter(|route| is_run(route));
            let runs = runs.filter_map(|route| route.text("path").filter(|path| !path.ends_with('/')));
            let both: BTreeSet<String> = runs.flat_map(|path| common(pattern, path)).collect();
            for path in both {
                let what = format!("no program runs {path}, so that it is denied");
                draft.warn(place, what, "remove its route if the source may be sent");
                self.routes.retain(|route| route.text("path") != Some(&path));
                let mut route = Scope::new(place.line);
                route.set(place, "path", path);
                route.set(place, "return", 403);
                self.routes.insert(0, route);
            }
        }
    }

    /// Without a root of the host, nothing is there where a path or a prefix has neither files nor a response. A glob
    /// has what the prefix around it has.
    pub fn respond_without_root(&mut self) {
        if self.scope.get("root").is_some() {
            return;
        }
        for route in &mut self.routes {
            let has_files = route.get("root").is_some() || route.get("alias").is_some();
            if !is_glob(route.path()) && !has_files && !route.responds() {
                HANDLERS.iter().for_each(|name| route.remove(name));
                route.set(&route.place(), "return", 404);
            }
        }
    }

    /// A route of one path precedes all patterns. So it gets the protection of the patterns that deny the path, and their
    /// status, unless `is_apart` says that this is not for the route.
    pub fn deny_paths(&mut self, is_apart: impl Fn(&Scope) -> bool) {
        if self.routes.len() > TOO_MANY_ROUTES {
            return;
        }
        let globs: Vec<Scope> =
            self.routes.iter().filter(|route| is_glob(route.path()) && route.denies()).cloned().collect();
        for route in &mut self.routes {
            let path = route.path().to_owned();
            if is_glob(&path) || path.ends_with('/') || route.leads_away() || route.get("return").is_some() {
                continue;
            }
            if let Some(glob) = globs.iter().find(|glob| covers(glob.path(), &path)) {
                route.add_protection(glob);
                if let Some(status) = glob.get("return").filter(|_| !is_apart(route)) {
                    route.deny(status.clone());
                }
            }
        }
    }

    /// A glob such as `/?*` is for the folder `/a/`, too, and precedes the prefix that denies it. So the folder alone gets
    /// a route. What ends with `**` is meant for folders.
    pub fn deny_folders(&mut self) {
        let is_loose = |route: &&Scope| is_glob(route.path()) && !route.path().ends_with("**");
        let globs = self.routes.iter().filter(is_loose).filter(|route| route.get("return").is_none());
        let globs: Vec<Pattern> = globs.filter_map(|route| brackets::parse(route.path()).ok()).collect();
        let is_denied = |route: &&Scope| matches!(route.get("return"), Some(Value::Integer(400..)));
        let denied: Vec<Scope> = self.routes.iter().filter(is_denied).cloned().collect();
        for mut route in denied {
            let Some(folder) = route.path().strip_suffix('/').filter(|path| !is_glob(path)) else { continue };
            let path = brackets::parse(folder).ok().and_then(|path| path.example());
            let alone = format!("{folder}/.");
            let is_taken = path.is_some_and(|path| globs.iter().any(|glob| glob.matches(&path)));
            let is_there = self.routes.iter().any(|route| route.path() == alone);
            if is_taken && !is_there && self.routes.len() <= TOO_MANY_ROUTES {
                route.set(&route.place(), "path", alone);
                self.routes.push(route);
            }
        }
    }

    /// In the other server, a prefix with a slash at its end is not for the path without it: `/a` has what is around
    /// `/a/`, and not its response, if that is one of these keys.
    pub fn leave_folders(&mut self, keys: &[&str]) {
        let has_key = |route: &&Scope| keys.iter().any(|key| route.get(key).is_some());
        let all: Vec<(String, Place)> = self
            .routes
            .iter()
            .filter(has_key)
            .filter_map(|route| Some((route.path().strip_suffix('/')?.to_owned(), route.place())))
            .filter(|(path, _)| !path.is_empty() && !is_glob(path))
            .collect();
        for (path, place) in all {
            let is_there = self.routes.iter().any(|route| route.path() == path);
            if is_there || self.routes.len() > TOO_MANY_ROUTES {
                continue;
            }
            let around = self.routes.iter().filter(|outer| {
                outer.path().ends_with('/') && !is_glob(outer.path()) && path.starts_with(outer.path())
            });
            let around = around.max_by_key(|outer| outer.path().len()).cloned();
            let route = self.route(&path, &place);
            let Some(outer) = around else { continue };
            route.add(&outer);
            // Only a prefix may name the rest of the path, which is known here.
            if let Some(to) =
                route.text("fallback").filter(|to| to.contains("$rest") || to.contains("${rest}"))
            {
                let rest = encoded(&path[outer.path().len()..]);
                let to = to.replace("${rest}", "$rest").replace("$rest", &rest);
                route.set(&place, "fallback", to);
            }
            if passes_on(&outer) {
                pass_on(route, &outer, Some(&path[outer.path().len()..]));
            } else if outer.responds() {
                route.set(&place, "return", 404);
            } else if let Some(root) = outer.text("root") {
                route.set(&place, "root", root);
            }
        }
    }

    /// As `leave_folders`, where what protects `/a/` protects `/a`, too.
    pub fn leave_protected_folders(&mut self, keys: &[&str]) {
        let before: BTreeSet<String> = self.routes.iter().map(|route| route.path().to_owned()).collect();
        self.leave_folders(keys);
        let folders: Vec<Scope> = self.routes.iter().filter(|route| route.protects()).cloned().collect();
        for route in self.routes.iter_mut().filter(|route| !before.contains(route.path())) {
            if let Some(folder) =
                folders.iter().find(|folder| folder.path().strip_suffix('/') == Some(route.path()))
            {
                route.add_protection(folder);
            }
        }
    }

    /// Gives prefixes and paths what the prefixes around them have. `is_apart`: two of them have nothing in common.
    pub fn add_up(&mut self, disk: &dyn Disk, is_apart: impl Fn(&str, &str) -> bool) {
        if self.routes.len() > TOO_MANY_ROUTES {
            return;
        }
        let mut prefixes: Vec<String> =
            self.routes.iter().map(|route| route.path().to_owned()).filter(|path| !is_glob(path)).collect();
        sort::by_key(&mut prefixes, String::len);
        for path in prefixes {
            let around = self.routes.iter().filter(|outer| {
                let folder = outer.path();
                folder.ends_with('/')
                    && folder != path
                    && path.starts_with(folder)
                    && !is_apart(folder, &path)
            });
            let Some(outer) = around.max_by_key(|outer| outer.path().len()).cloned() else { continue };
            if let Some(route) = self.routes.iter_mut().find(|route| route.path() == path) {
                add_outer(route, &outer, disk);
            }
        }
        // A root of the host precedes what responds for all paths.
        let everything = self.routes.iter().find(|route| route.path() == "/");
        let Some(status) = everything.and_then(|route| route.get("return")).cloned() else { return };
        for route in self.routes.iter_mut().filter(|route| is_glob(route.path())) {
            if !route.leads_away() && route.get("return").is_none() && !is_apart("/", route.path()) {
                route.deny(status.clone());
            }
        }
    }

    /// Leaves each route one response: what denies is the first.
    pub fn respond_once(&mut self) {
        for route in self.routes.iter_mut().filter(|route| route.responds()) {
            let further: Vec<&str> =
                WAYS.into_iter().skip_while(|name| route.get(name).is_none()).skip(1).collect();
            further
                .iter()
                .chain(&["cgi", "interpreter", "root", "alias"])
                .for_each(|name| route.remove(name));
        }
    }
}

/// Gives a prefix or a path what the prefix around it has.
fn add_outer(route: &mut Scope, outer: &Scope, disk: &dyn Disk) {
    let path = route.path().to_owned();
    let rest = &path[outer.path().len()..];
    let has_own = route.leads_away() || route.get("return").is_some();
    if let Some(status) = outer.get("return").filter(|_| !has_own) {
        return route.deny(status.clone());
    }
    if path.ends_with('/') {
        route.add(outer);
    }
    if route.responds() {
        return;
    }
    let place = outer.place();
    if passes_on(outer) {
        // A folder alone ends with a dot.
        let rest = if path.ends_with("/.") { &rest[..rest.len() - 1] } else { rest };
        HANDLERS.iter().chain(&["root", "alias"]).for_each(|name| route.remove(name));
        pass_on(route, outer, Some(rest));
        return;
    }
    if !path.ends_with('/') {
        return;
    }
    if !route.runs() {
        route.inherit(&outer.handler());
    }
    let has_files = route.get("root").is_some() || route.get("alias").is_some();
    match (outer.text("alias"), outer.text("root")) {
        _ if has_files => {}
        (Some(alias), _) => {
            let folder = format!("{alias}/{}", rest.trim_end_matches('/'));
            match disk.is_folder(Path::new(&folder)) {
                true => route.set(&place, "alias", folder),
                // The server does not start without a folder that it has to open.
                false => route.deny(404.into()),
            }
        }
        (None, Some(root)) => route.set(&place, "root", root),
        (None, None) => {}
    }
}

/// Whether a pattern is for a path, or a prefix is for all paths of a pattern.
pub fn covers(pattern: &str, path: &str) -> bool {
    if pattern.ends_with('/') {
        return pattern == "/" || path.starts_with(pattern) || format!("{path}/") == pattern;
    }
    let path = brackets::parse(path).ok().filter(|path| matches!(path, Pattern::Exact(_)));
    let path = path.and_then(|path| path.example());
    path.zip(brackets::parse(pattern).ok()).is_some_and(|(path, pattern)| pattern.matches(&path))
}

/// The paths of a pattern that another one runs, such as `*.php` or `/a/**/*.php`.
pub fn common(pattern: &str, runs: &str) -> Vec<String> {
    if runs.starts_with(pattern) {
        return vec![runs.to_owned()];
    }
    let begin = runs.split(is_wildcard).next().unwrap_or_default();
    let end = runs.rsplit(is_wildcard).next().unwrap_or_default();
    let folder = begin.rfind('/').map_or("/", |at| &begin[..=at]);
    match pattern.ends_with('/') {
        _ if end.contains('/') => Vec::new(),
        true if pattern.starts_with(folder) => {
            pattern::within(pattern, &format!("*{end}")).into_iter().collect()
        }
        true => Vec::new(),
        false => with_ends(pattern, end),
    }
}

/// Whether what is within a prefix is passed on, too. The target of a rewrite is a path of its own.
pub fn passes_on(route: &Scope) -> bool {
    route.responds() && route.get("rewrite").is_none()
}

/// Gives a route what another one around it responds with. `rest` is the path below that one; `None`: it is not known.
/// `None`: it cannot be said.
pub fn pass_on(route: &mut Scope, outer: &Scope, rest: Option<&str>) -> Option<()> {
    let place = &outer.place();
    for name in ["application", "return", "respond", "status", "proxy_host", "proxy_headers", "proxy_path"] {
        if let Some(value) = outer.get(name).filter(|_| route.get(name).is_none()) {
            route.set(place, name, value.clone());
        }
    }
    if let Some(url) = outer.text("proxy") {
        let (server, path) = server_and_path(url);
        let to = match (path, rest) {
            ("", _) | ("/", None) => server.to_owned(),
            (path, rest) => format!("{server}{path}{}", rest?),
        };
        route.set(place, "proxy", to);
    }
    for name in ["redirect", "rewrite"] {
        let Some(to) = outer.text(name) else { continue };
        let to = to.replace("${rest}", "$rest");
        let to = match rest {
            Some(rest) if route.text("path").is_some_and(|path| path.ends_with('/')) => {
                to.replace("$rest", &format!("{}${{rest}}", rest.replace('$', "$$")))
            }
            Some(rest) => to.replace("$rest", &rest.replace('$', "$$")),
            None if outer.text("path") == Some("/") => to.replace("/$rest", "$path"),
            None => to,
        };
        if rest.is_none() && to.contains("$rest") {
            return None;
        }
        route.set(place, name, to);
    }
    Some(())
}

/// `http://NAME`, and the path behind it.
pub fn server_and_path(url: &str) -> (&str, &str) {
    let begin = url.find("://").map_or(0, |at| at + 3);
    url.split_at(url[begin..].find('/').map_or(url.len(), |at| begin + at))
}
