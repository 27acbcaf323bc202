//! What is passed on: `ProxyPass` and `ProxyPassMatch`, and the prefixes and patterns that have their upstreams.

use super::Site;
use crate::apache::context::{Context, Handler};
use crate::apache::rewrite::Rewrites;
use crate::apache::{paths, proxy};
use crate::brackets::is_glob;
use crate::draft::{Draft, Host, Scope, TOO_MANY_ROUTES};
use crate::tree::{Directive, Place, unconverted};
use crate::within::{pass_on, passes_on, server_and_path};
use crate::{pattern, regex};

impl Site<'_> {
    /// The routes of `ProxyPass` and `ProxyPassMatch`.
    pub(super) fn passes(&mut self, draft: &mut Draft) {
        let mut passes = std::mem::take(&mut self.passes);
        let mut is_raw = false;
        for (url, directive) in &mut passes {
            let place = &directive.place;
            let (from, to) = (directive.argument(0), directive.argument(1));
            from.clone_into(url);
            if directive.name == "proxypassmatch" {
                if let Some(prefix) = self.pass_match(directive, draft) {
                    *url = prefix;
                    directive.name = "proxypass".to_owned();
                }
                continue;
            }
            if to == "!" {
                self.host.route(&paths::prefix(from), place);
                continue;
            }
            is_raw |= self.pass(directive, draft);
        }
        if let Some(place) = self.encoded_slashes.as_ref().filter(|_| !is_raw) {
            draft.warn(place, "an encoded slash is rejected, unless it is passed on", "see proxy_path");
        }
        passes.retain(|(_, directive)| directive.name == "proxypass");
        self.passes = passes;
    }

    /// The route of a `ProxyPass`. Returns whether the upstream gets paths as they were sent.
    fn pass(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let place = &directive.place;
        let (from, to) = (directive.argument(0), directive.argument(1));
        let mut is_raw = false;
        let mut route = Scope::new(place.line);
        if proxy::pass(to, self.world.balancers, place, &mut route, draft).is_none() {
            draft.error(place, unconverted(directive), "write a URL without variables");
            route.set(place, "return", 502);
        }
        if self.preserves_host {
            route.remove("proxy_host");
        }
        proxy::options(directive.arguments.get(2..).unwrap_or_default(), place, &route, draft);
        let mut exact = None;
        match route.text("proxy").map(|to| proxy::targets(from, to)) {
            None => {}
            // The upstream gets the path as it was sent.
            Some(Some((below, alone))) if self.encoded_slashes.is_some() && is_same_path(from, &below) => {
                let (server, _) = server_and_path(&below);
                exact = alone.map(|_| server.to_owned());
                route.set(place, "proxy", server);
                route.set(place, "proxy_path", "raw");
                is_raw = true;
            }
            Some(Some((below, alone))) => {
                route.set(place, "proxy", below);
                exact = alone;
            }
            Some(None) => {
                draft.error(place, unconverted(directive), "end both the path and the URL with a slash");
                route = Scope::new(place.line);
                route.set(place, "return", 502);
            }
        }
        let own = self.host.route(&paths::prefix(from), place);
        if !own.responds() {
            own.inherit(&route);
            if let Some(exact) = exact {
                route.set(place, "proxy", exact);
                self.host.route(from, place).inherit(&route);
            }
        }
        is_raw
    }

    /// The prefix that is passed on, if it is one.
    fn pass_match(&mut self, directive: &Directive, draft: &mut Draft) -> Option<String> {
        let place = &directive.place;
        let target = directive.argument(1);
        let url = target.split_once("$1").map_or(target, |(before, _)| before);
        let patterns = paths::expression(directive.argument(0));
        let program = proxy::interpreter(url, place, draft);
        match (patterns, program, regex::prefix(directive.argument(0)), target.strip_suffix("$1")) {
            (Some(patterns), Some(_), ..) => {
                let mut context = Context::new(place);
                context.handler = Some((Handler::Proxy(url.to_owned()), place.clone()));
                match proxy::root(directive.argument(0), target) {
                    Some(root) => context.keys.set(place, "root", root),
                    None => {
                        draft.warn(place, "the paths of scripts are those of the host", "see root and alias");
                    }
                }
                self.programs.push((patterns, context, place.clone()));
            }
            (_, None, Some(prefix), Some(url)) => {
                let mut route = Scope::new(place.line);
                if url.ends_with('/')
                    && proxy::pass(url, self.world.balancers, place, &mut route, draft).is_some()
                {
                    self.host.route(&prefix, place).inherit(&route);
                    return Some(prefix);
                }
                draft.error(place, unconverted(directive), "write a ProxyPass");
            }
            _ => draft.error(place, unconverted(directive), "write a ProxyPass"),
        }
        None
    }

    /// Whether a prefix is passed on or redirected. Then it has no folders and no files.
    pub(super) fn is_passed(&self, url: &str) -> bool {
        let passes = self.passes.iter().rev().map(|(pass, to)| (paths::prefix(pass), to.argument(1) != "!"));
        let nearest = passes.filter(|(pass, _)| url.starts_with(pass)).max_by_key(|(pass, _)| pass.len());
        nearest.is_some_and(|(_, is_passed)| is_passed)
            || self.redirects.iter().any(|own| url.starts_with(own))
    }

    /// Whether every path is passed on or redirected, unless an exception says otherwise.
    pub(super) fn passes_all(&self) -> bool {
        let of_root = |(folder, context): &(String, Context)| {
            let rest = self.urls_and_rests(folder).into_iter().find(|(url, _)| url == "/")?.1;
            Some(context.rewrites.behind(&rest, &mut Draft::default()))
        };
        let mut folders = self.folders.iter().filter_map(of_root);
        let is_passed = self.is_passed("/") || root(&self.host).is_some_and(passes_on);
        is_passed || self.is_rewritten() || folders.any(|rewrites| self.rewrites_all(&rewrites, Some("/")))
    }

    /// Whether a rule of the server is for every path, even for those of aliases.
    pub(super) fn is_rewritten(&self) -> bool {
        self.rewrites_all(&self.server.rewrites, None)
    }

    /// Whether rules pass every path on, or redirect it.
    fn rewrites_all(&self, rewrites: &Rewrites, base: Option<&str>) -> bool {
        let alone = self.rewritten(rewrites, base);
        alone.is_to_https || root(&alone).is_some_and(passes_on)
    }

    /// What rules alone come to.
    pub(super) fn rewritten(&self, rewrites: &Rewrites, base: Option<&str>) -> Host {
        let (listens, names) = (self.host.listens.clone(), self.host.names.clone());
        let mut alone = Host { listens, names, ..Host::default() };
        rewrites.apply(base, &mut alone, &mut Draft::default());
        alone
    }

    /// The prefixes that have files where everything else is passed on: those that `ProxyPass` excepts, and aliases.
    pub(super) fn own_urls(&self) -> Vec<String> {
        let exceptions = self.passes.iter().filter(|(_, directive)| directive.argument(1) == "!");
        let exceptions = exceptions.map(|(url, _)| paths::prefix(url));
        let aliases = self.trees.iter().map(|tree| tree.url.clone()).filter(|url| url != "/");
        exceptions.chain(aliases).filter(|url| !self.is_passed(url)).collect()
    }

    /// The prefixes that routes have, the longest last.
    fn prefixes(&self) -> Vec<String> {
        let paths = self.host.routes.iter().filter_map(|route| route.text("path"));
        let mut prefixes: Vec<String> = paths.filter(|path| path.ends_with('/')).map(str::to_owned).collect();
        sort::by_key(&mut prefixes, String::len);
        prefixes
    }

    /// Gives the prefixes within one that is passed on its upstream or its redirect.
    pub(super) fn pass_within(&mut self, own: &[String]) {
        let prefixes = self.prefixes();
        for path in prefixes.iter().filter(|path| !own.contains(path)) {
            let place = &Place::at(1);
            let around = prefixes.iter().rfind(|outer| path.starts_with(outer.as_str()) && *outer != path);
            let Some(around) = around else { continue };
            let outer = self.host.route(around, place).clone();
            let route = self.host.route(path, place);
            if !route.responds() && route.get("alias").is_none() && passes_on(&outer) {
                pass_on(route, &outer, Some(&path[around.len()..]));
            }
        }
    }

    /// Gives the other patterns what the prefix around them is passed on to. A pattern with wildcards gets that of the
    /// prefix itself, but for the prefix of everything.
    pub(super) fn pass_patterns(&mut self, draft: &mut Draft) {
        let prefixes = self.prefixes();
        let is_prefix = |route: &&Scope| route.text("path").is_some_and(|path| path.ends_with('/'));
        let outers: Vec<Scope> = self.host.routes.iter().filter(is_prefix).cloned().collect();
        let mut all = Vec::new();
        for mut route in std::mem::take(&mut self.host.routes) {
            let path = route.path().to_owned();
            let has_wildcards = is_glob(&path);
            let folder = if has_wildcards { path.clone() } else { format!("{path}/") };
            let around = prefixes
                .iter()
                .rfind(|outer| folder.starts_with(outer.as_str()) || has_wildcards && *outer == "/");
            let outer =
                around.and_then(|around| outers.iter().find(|outer| outer.text("path") == Some(around)));
            let has_own = path.ends_with('/') || route.responds() || route.get("root").is_some();
            let (Some(around), Some(outer)) = (around, outer.filter(|outer| !has_own && passes_on(outer)))
            else {
                all.push(route);
                continue;
            };
            if has_wildcards && around != "/" {
                all.push(route);
                continue;
            }
            let place = route.place();
            let inner = prefixes.iter().filter(|prefix| has_wildcards && *prefix != "/");
            let inner = inner.filter_map(|prefix| pattern::within(prefix, &path));
            for pattern in inner.take(TOO_MANY_ROUTES.saturating_sub(all.len())) {
                let mut within = route.clone();
                within.set(&place, "path", pattern);
                all.push(within);
            }
            ["cgi", "interpreter"].iter().for_each(|name| route.remove(name));
            let rest = path.get(around.len()..).unwrap_or_default();
            // A folder alone ends with a dot.
            let rest = if path.ends_with("/.") { &rest[..rest.len() - 1] } else { rest };
            if pass_on(&mut route, outer, Some(rest).filter(|_| !has_wildcards)).is_none() {
                let what = format!("the pattern {path} cannot be passed on");
                draft.error(&place, what, "write it as a prefix");
                route.set(&place, "return", 403);
            }
            all.push(route);
        }
        self.host.routes = all;
    }
}

/// Whether a URL has the path that it takes the place of.
fn is_same_path(from: &str, url: &str) -> bool {
    server_and_path(url).1.trim_end_matches('/') == from.trim_end_matches('/')
}

/// The route of all paths.
fn root(host: &Host) -> Option<&Scope> {
    host.routes.iter().find(|route| route.text("path") == Some("/"))
}
