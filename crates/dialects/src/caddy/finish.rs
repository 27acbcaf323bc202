//! The routes of a site, when all its directives have been read.

use std::collections::BTreeMap;

use crate::brackets::is_glob;
use crate::disk::Disk;
use crate::draft::{Host, Scope};
use crate::tree::MAX_DEPTH;
use crate::within;

use super::convert::INDEXES;
use super::site::Site;
use super::upstreams::SCRIPT_INDEX;

impl Site<'_> {
    pub(super) fn finish(&mut self, host: &mut Host, disk: &dyn Disk) {
        self.leave_scripts(host);
        keep_indexes(host);
        let listing = Some(&true.into());
        for scope in host.routes.iter_mut().chain([&mut host.scope]).filter(|_| self.leaves_folders) {
            if scope.get("listing") == listing {
                scope.set(&scope.place(), "listing", false);
            }
        }
        host.leave_folders(&["return", "redirect", "rewrite", "respond"]);
        self.lead_once(host);
        self.stay_in_blocks(host);
        let paths = host.routes.iter().filter_map(|route| route.text("path"));
        let blocks: BTreeMap<String, Option<usize>> =
            paths.map(|path| (path.to_owned(), self.block_of(path))).collect();
        self.add_given(&blocks, host);
        host.add_up(disk, |outer, path| blocks.get(outer) != blocks.get(path));
        // The first pattern counts, and Caddy rejects a request before it runs a script.
        sort::by_key(&mut host.routes, |route| match is_glob(route.path()) {
            true if route.get("return").is_some() => 0,
            true if route.denies() => 1,
            true if route.runs() => 3,
            _ => 2,
        });
        self.go_on(host);
        host.share_handlers();
        let responds =
            |path: &str| host.routes.iter().any(|route| route.text("path") == Some(path) && route.responds());
        let apart = self.blocks.iter().filter(|block| !block.runs && !responds(&block.path));
        let apart: Vec<_> = apart.map(|block| (block.path.clone(), block.place.clone())).collect();
        host.without_programs(&apart, Scope::runs, self.draft);
        self.keep_files(host);
        self.serve_nothing(host);
        host.deny_paths(|_| false);
        host.respond_without_root();
        host.redirect_to_folders(308);
        for route in host.routes.iter_mut().filter(|route| route.get("proxy").is_some()) {
            if route.get("default_type").is_some() {
                let what = "the Content-Type of an upstream is not replaced";
                self.draft.warn(&route.place(), what, "let the upstream send it");
                route.remove("default_type");
            }
        }
        for route in host.routes.iter_mut().filter(|route| route.responds()) {
            ["root", "alias", "index", "listing", "fallback", "fallback_for", "try_suffixes"]
                .iter()
                .for_each(|name| route.remove(name));
        }
    }

    /// A pattern, or a path, whose files are sent does not respond as the prefix around it does.
    fn keep_files(&self, host: &mut Host) {
        let Some(root) = host.scope.get("root").cloned() else { return };
        for path in &self.of_files {
            let Some(route) = host.routes.iter().find(|route| route.text("path") == Some(path)) else {
                continue;
            };
            let has_own = ["root", "alias"].iter().any(|name| route.get(name).is_some());
            let around = host.routes.iter().filter(|outer| {
                outer.text("path").is_some_and(|outer| outer.ends_with('/') && path.starts_with(outer))
            });
            let around = around.max_by_key(|outer| outer.text("path").map(str::len));
            if !route.responds() && !has_own && around.is_some_and(Scope::responds) {
                let place = route.place();
                host.route(path, &place).set(&place, "root", root.clone());
            }
        }
    }

    /// In Caddy, a request is rewritten once, and no redirect is looked for again.
    fn lead_once(&mut self, host: &mut Host) {
        let all: Vec<Scope> =
            host.routes.iter().filter(|route| route.get("rewrite").is_some()).cloned().collect();
        for route in all {
            let (place, pattern) = (route.place(), route.path().to_owned());
            let Some(to) = route.text("rewrite").and_then(|to| to.split('?').next()) else { continue };
            let is_literal = !to.contains('$');
            if is_literal && to == pattern {
                host.route(&pattern, &place).remove("rewrite");
                continue;
            }
            let again = |other: &&Scope| {
                let path = other.path();
                let leads = other.get("redirect").is_some() || other.get("rewrite").is_some();
                leads && path != pattern && is_literal && within::covers(path, to)
            };
            let head = to.split('$').next().unwrap_or_default();
            let is_end = pattern.starts_with(['*']) || pattern.starts_with("/**");
            let covers_itself =
                within::covers(&pattern, head) || is_end && !is_literal && to.ends_with("$path");
            let root = host.scope.get("root").cloned();
            match (host.routes.iter().any(|other| again(&other)), covers_itself, root) {
                (false, false, _) => {}
                (false, true, Some(root)) if is_literal => {
                    let target = host.route(to, &place);
                    if !target.responds() && target.get("root").is_none() {
                        target.set(&place, "root", root);
                    }
                }
                _ => {
                    let what = format!("the rewrite of {pattern} leads to a path that is led on here");
                    self.draft.error(&place, what, "write the paths apart, or see fallback");
                }
            }
        }
    }

    /// In Caddy, the block of a rewrite responds for the path that it leads to. Here the route of that path does.
    fn stay_in_blocks(&mut self, host: &Host) {
        let path = |route: &Scope| route.path().to_owned();
        for route in host.routes.iter().filter(|route| route.get("rewrite").is_some()) {
            let pattern = path(route);
            let target = route.text("rewrite").and_then(|to| to.split('?').next()).unwrap_or_default();
            let block = self.block_of(&pattern);
            if block.is_none() || target.contains('$') || self.block_of(target) == block {
                continue;
            }
            let responds = |other: &&Scope| other.responds() && within::covers(&path(other), target);
            if let Some(other) = host.routes.iter().find(responds) {
                let what = format!("the rewrite of {pattern} leads out of its block to {target}");
                let what_to_do =
                    format!("what {} has would respond: write a block for the target", path(other));
                self.draft.error(&route.place(), what, &what_to_do);
            }
        }
    }

    /// Without `file_server`, Caddy sends no files: what has no other response has an empty one.
    fn serve_nothing(&mut self, host: &mut Host) {
        let Some(root) = host.scope.get("root").cloned().filter(|_| !self.serves_files) else { return };
        let place = host.scope.place();
        let decides = |route: &Scope| route.text("path") == Some("/") && route.responds();
        if host.routes.iter().chain([&host.scope]).any(|scope| scope.runs() || decides(scope)) {
            return;
        }
        for path in self.served.iter().flat_map(|(_, paths)| paths) {
            let route = host.route(path, &place);
            if !route.responds() && route.get("root").is_none() && route.get("alias").is_none() {
                route.set(&place, "root", root.clone());
            }
        }
        host.scope.remove("root");
        let has_files = |route: &Scope| route.get("root").is_some() || route.get("alias").is_some();
        for route in host.routes.iter_mut().filter(|route| !route.responds() && !has_files(route)) {
            route.set(&place, "respond", "");
        }
        host.route("/", &place).set(&place, "respond", "");
        let what = "no file_server is for all paths: the others have an empty response, as in Caddy";
        self.draft.warn(&place, what, "to send their files, write file_server");
    }

    /// What follows a block responds where nothing in it does.
    fn go_on(&mut self, host: &Host) {
        for block in self.blocks.iter().filter(|block| !block.ends) {
            let responds = |route: &&Scope| {
                let path = route.path();
                route.responds() && path != block.path && within::covers(path, &block.path)
            };
            if host.routes.iter().any(|route| responds(&route)) {
                let what = format!("nothing in the block of {} responds for all of its paths", block.path);
                self.draft.error(&block.place, what, "write what responds into the block");
            }
        }
    }

    /// The innermost block that is for a path.
    fn block_of(&self, path: &str) -> Option<usize> {
        let blocks = self.blocks.iter().enumerate().filter(|(_, block)| {
            // The folder alone is not below itself.
            block.path == path || within::covers(&block.path, path) && block.path != format!("{path}/")
        });
        blocks.max_by_key(|(_, block)| block.path.len()).map(|(at, _)| at)
    }

    /// A block has neither the scripts of `php_fastcgi` outside of it nor what that does with other paths.
    fn leave_scripts(&self, host: &mut Host) {
        let has_index = host.scope.text("fallback") == Some(SCRIPT_INDEX);
        for block in self.blocks.iter().filter(|block| has_index && !block.runs) {
            let route = host.route(&block.path, &block.place);
            if route.get("fallback").is_none() {
                route.set(&block.place, "fallback", false);
            }
            if route.get("index").is_none() {
                route.set(&block.place, "index", INDEXES.map(str::to_owned).to_vec());
            }
        }
    }

    /// Gives the routes of blocks what precedes the block.
    fn add_given(&self, blocks: &BTreeMap<String, Option<usize>>, host: &mut Host) {
        for route in &mut host.routes {
            let path = route.path().to_owned();
            let mut block = blocks.get(&path).copied().flatten();
            // Blocks are within blocks.
            for _ in 0..MAX_DEPTH {
                let Some(at) = block else { break };
                block = self.blocks.get(at).and_then(|block| block.outer);
                let is_around = |given: &&(Option<usize>, Scope)| {
                    let outer = given.1.path();
                    given.0 == block && outer != path && within::covers(outer, &path)
                };
                self.given.iter().filter(is_around).for_each(|(_, given)| route.add(given));
            }
        }
    }
}

/// A page that a fallback names is no index file of folders.
fn keep_indexes(host: &mut Host) {
    let own = host.scope.get("index").cloned().unwrap_or_else(|| INDEXES.map(str::to_owned).to_vec().into());
    for scope in host.routes.iter_mut().chain([&mut host.scope]).filter(|scope| scope.get("index").is_none())
    {
        let name = scope.text("fallback").and_then(|to| to.split('?').next()?.rsplit('/').next());
        if name.is_some_and(|name| {
            !name.is_empty() && !name.starts_with('@') && !own.texts().iter().any(|index| index == name)
        }) {
            scope.set(&scope.place(), "index", own.clone());
        }
    }
}

/// Makes what the rest says about files the host's, if nothing but the rest has files.
pub(super) fn hoist(host: &mut Host) {
    let is_rest = |route: &Scope| route.text("path") == Some("/");
    let root = host.routes.iter().find(|route| is_rest(route)).and_then(|route| route.get("root")).cloned();
    // A path alone may have the same root.
    let has_same = |route: &Scope| {
        let is_path = route.text("path").is_some_and(|path| !path.ends_with('/'));
        is_path && root.is_some() && route.get("root") == root.as_ref()
    };
    let has_none = |route: &Scope| route.responds() || is_glob(route.path()) || is_rest(route);
    let has_none = |route: &Scope| has_none(route) || has_same(route);
    let Some(at) = host.routes.iter().position(|route| is_rest(route) && !route.responds()) else { return };
    if !host.routes.iter().all(has_none) {
        return;
    }
    for route in host.routes.iter_mut().filter(|route| !is_rest(route) && has_same(route)) {
        route.remove("root");
    }
    let rest = &mut host.routes[at];
    let place = rest.place();
    for name in ["root", "index", "listing", "precompressed", "fallback", "fallback_for", "try_suffixes"] {
        if let Some(value) = rest.get(name).cloned() {
            host.scope.set(&place, name, value);
            rest.remove(name);
        }
    }
    let mut others = rest.clone();
    others.remove("path");
    if others.is_empty() {
        host.routes.remove(at);
    }
}
