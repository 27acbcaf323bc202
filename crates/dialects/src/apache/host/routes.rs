//! The routes of a host: what is said about a prefix, merged in Apache's order.

use std::collections::BTreeSet;
use std::path::Path;

use super::before_files::{pass_on_before_files, rewrite_before_files};
use super::index_files::list_no_denied;
use super::named_files::handled;
use super::needless::{
    leave_out_needless_fields, leave_out_needless_files, leave_out_needless_suffixes, share_proxy_headers,
};
use super::{AliasFolder, Paths, Single, Site, Tree};
use crate::apache::context::{Context, Handler};
use crate::apache::paths;
use crate::apache::rewrite::Rewrites;
use crate::brackets::is_glob;
use crate::document::Value;
use crate::draft::{Draft, HANDLERS, Host, Scope, TOO_MANY_ROUTES, WAYS};
use crate::tree::Place;
use crate::within::{covers, pass_on, passes_on};

impl Site<'_> {
    /// Makes the routes of the host from everything that was read.
    pub fn into_host(mut self, draft: &mut Draft) -> Host {
        self.server.rewrites.settle(None);
        // The first pattern counts, so that what denies comes in front of what runs files.
        let mut denials = self.server.rewrites.deny(None, &mut self.host);
        self.passes(draft);
        self.find_folders(draft);
        let (own, passes_all) = (self.own_urls(), self.passes_all());
        denials.extend(self.denials_of_folders());
        self.globs(passes_all.then_some(&own), draft);
        self.prefixes_of_sections(passes_all, draft);
        self.singles(draft);
        self.apply_rewrites(draft);
        self.lead_first(draft);
        self.pass_within(&own);
        self.pass_patterns(draft);
        self.host.without_programs(&self.unhandled, Scope::runs, draft);
        self.host.without_programs(&self.without_cgi, |route| route.get("cgi").is_some(), draft);
        pass_on_before_files(&mut self.host, draft);
        self.deny_first();
        list_no_denied(&mut self.host, draft);
        self.host.respond_without_root();
        self.host.share_handlers();
        share_proxy_headers(&mut self.host);
        leave_out_needless_fields(&mut self.host);
        leave_out_needless_files(&mut self.host);
        denials.splice(0..0, self.scripts_without_program(draft));
        self.put_first(&denials, draft);
        self.report_denied_redirects(draft);
        self.keep_from_satisfied();
        self.host
    }

    /// The folders that have files here, the longest path last, with what their `.htaccess` files and `<DirectoryMatch>` say.
    fn find_folders(&mut self, draft: &mut Draft) {
        let is_rewritten = self.is_rewritten();
        let trees = std::mem::take(&mut self.trees).into_iter();
        let has_files = |url: &str| url == "/" || !is_rewritten && !self.is_passed(url);
        self.trees = trees.filter(|tree| has_files(&tree.url)).collect();
        self.find_access_files(draft);
        self.find_folder_patterns(draft);
        sort::by_key(&mut self.folders, |(path, _)| path.len());
        self.settle_rewrites(draft);
        self.report_targets_elsewhere(draft);
    }

    /// What the rules of folders deny.
    fn denials_of_folders(&mut self) -> Vec<Scope> {
        let mut denials = Vec::new();
        for (folder, context) in &self.folders {
            for (url, rest) in self.urls_and_rests(folder) {
                let rewrites = context.rewrites.behind(&rest, &mut Draft::default());
                denials.extend(rewrites.deny(Some(&url), &mut self.host));
            }
        }
        denials
    }

    /// The routes of the prefixes that sections speak of.
    fn prefixes_of_sections(&mut self, passes_all: bool, draft: &mut Draft) {
        let urls = self.section_urls();
        // Longer prefixes come first: so do the patterns within them.
        let all: BTreeSet<&String> = urls.iter().chain(&self.redirects).collect();
        let all: Vec<String> = all.into_iter().rev().cloned().collect();
        for url in &all {
            if !passes_all || !self.is_passed(url) && url != "/" {
                self.scripts(url, draft);
            }
        }
        for url in &urls {
            self.prefix(url, draft);
        }
    }

    /// What the rules of the server and of folders lead to.
    fn apply_rewrites(&mut self, draft: &mut Draft) {
        self.server.rewrites.clone().apply(None, &mut self.host, draft);
        let is_everywhere = self.host.scope.get("fallback").is_some();
        let suffixes = self.host.scope.get("try_suffixes").cloned();
        for (folder, context) in std::mem::take(&mut self.folders) {
            for (url, rest) in self.urls_and_rests(&folder) {
                context.rewrites.behind(&rest, draft).apply(Some(&url), &mut self.host, draft);
            }
        }
        if !is_everywhere && self.host.scope.get("fallback").is_some() {
            self.keep_from_aliases("fallback", &false.into());
        }
        if suffixes != self.host.scope.get("try_suffixes").cloned() {
            self.keep_from_aliases("try_suffixes", &Value::Texts(Vec::new()));
        }
        self.host.leave_protected_folders(&["rewrite"]);
        let of_server = self.rewritten(&self.server.rewrites, None).routes;
        let of_server: Vec<String> =
            of_server.iter().filter_map(|route| route.text("path").map(str::to_owned)).collect();
        rewrite_before_files(&mut self.host, &of_server, draft);
        leave_out_needless_suffixes(&mut self.host);
    }

    /// A rule that denies scripts of PHP where nothing runs them: what does in Apache stands elsewhere, such as beside an
    /// `.htaccess` file, and their source would be sent.
    fn scripts_without_program(&self, draft: &mut Draft) -> Option<Scope> {
        const SCRIPTS: [&str; 3] = ["*.php", "*.phtml", "*.phar"];
        let is_script = |name: &str| name.split(['?', '/']).any(|part| part.ends_with(".php"));
        let root = self.host.scope.text("root")?;
        let leads = |scope: &Scope| {
            let keys = ["fallback", "rewrite"].into_iter().filter_map(|name| scope.text(name));
            let index = scope.get("index").map(Value::texts).unwrap_or_default();
            keys.chain(index.iter().map(String::as_str)).any(is_script)
        };
        let has_scripts = || self.world.disk.names(Path::new(root)).iter().any(|name| is_script(name));
        let path = |route: &Scope| route.path().to_owned();
        let is_decided = |route: &Scope| {
            let path = path(route);
            let is_denied = route.responds() || route.rules.first().is_some_and(Scope::denies_all);
            let is_of_scripts = path.contains(".ph") && (route.runs() || path.contains('*') && is_denied);
            is_of_scripts || path == "/" && (route.runs() || passes_on(route))
        };
        let is_used = leads(&self.host.scope) || self.host.routes.iter().any(leads) || has_scripts();
        if !is_used || self.host.routes.iter().any(is_decided) {
            return None;
        }
        let place = self.host.scope.place();
        let what = "nothing here runs scripts of PHP, so that a rule denies them: their source would be sent";
        let what_to_do =
            "give *.php an interpreter, such as PHP-FPM, and remove the rule; see Applications in the manual";
        draft.warn(&place, what, what_to_do);
        let mut rule = Scope::new(place.line);
        let others = self.host.routes.iter().filter(|route| route.runs() || passes_on(route));
        let others = others.map(|route| format!("!{}", path(route)));
        rule.set(&place, "path", SCRIPTS.map(str::to_owned).into_iter().chain(others).collect::<Vec<_>>());
        rule.set(&place, "then", "deny");
        Some(rule)
    }

    /// The prefixes of paths that a section speaks of.
    pub(super) fn section_urls(&self) -> BTreeSet<String> {
        let mut urls: BTreeSet<String> = self.trees.iter().map(|tree| tree.url.clone()).collect();
        urls.insert("/".to_owned());
        for (folder, _) in &self.folders {
            urls.extend(self.urls(folder));
        }
        urls.extend(self.matched.iter().chain(&self.locations).filter_map(|(paths, ..)| match paths {
            Paths::Prefix(prefix) => Some(paths::prefix(prefix)),
            Paths::Patterns(_) => None,
        }));
        urls.extend(self.passes.iter().map(|(url, _)| paths::prefix(url)));
        urls
    }

    /// What a folder says with this key is not for aliases.
    fn keep_from_aliases(&mut self, key: &str, none: &Value) {
        for tree in self.trees.iter().filter(|tree| tree.url != "/") {
            let route = self.host.route(&tree.url, &tree.place);
            if !route.responds() && route.get(key).is_none() {
                route.set(&tree.place, key, none.clone());
            }
        }
    }

    /// Rules of access that precede all others, because Apache rewrites before it looks for who may have a path.
    fn put_first(&mut self, denials: &[Scope], draft: &mut Draft) {
        let Some(first) = denials.first() else { return };
        let is_any = |scope: &Scope| scope.text("satisfy") == Some("any");
        if is_any(&self.host.scope) || self.host.routes.iter().any(is_any) {
            let what = "what rejects requests by conditions cannot stand beside Satisfy Any";
            draft.error(&first.place(), what, "write its conditions as Require");
        }
        let is_denied = |rules: &[Scope]| rules.first().is_some_and(Scope::denies_all);
        let own = self.host.routes.iter_mut();
        let own = own.filter(|route| !route.rules.is_empty() && !is_denied(&route.rules));
        for scope in own.chain(Some(&mut self.host.scope)) {
            scope.rules.splice(0..0, denials.iter().cloned());
        }
    }

    /// The prefixes of paths at which a folder's section begins to count.
    pub(super) fn urls(&self, folder: &str) -> Vec<String> {
        self.urls_and_rests(folder).into_iter().map(|(url, _)| url).collect()
    }

    /// As `urls`, each with what the paths of rules in the folder have in front: the folders between it and the root of
    /// the files.
    pub(super) fn urls_and_rests(&self, folder: &str) -> Vec<(String, String)> {
        let of_tree = |tree: &Tree| match paths::below(folder, &tree.folder) {
            Some("") => Some((tree.url.clone(), String::new())),
            Some(rest) => Some((format!("{}{rest}/", tree.url), String::new())),
            None => {
                let rest = paths::below(&tree.folder, folder)?;
                Some((tree.url.clone(), format!("{rest}/")))
            }
        };
        let mut all: Vec<(String, String)> = self.trees.iter().filter_map(of_tree).collect();
        all.dedup();
        all
    }

    /// Gives the rules of folders the `RewriteEngine` of what is around them. The folders stand in their order.
    fn settle_rewrites(&mut self, draft: &mut Draft) {
        let server = self.server.rewrites.engine();
        for at in 0..self.folders.len() {
            let (before, rest) = self.folders.split_at_mut(at);
            let Some((folder, context)) = rest.first_mut() else { return };
            let around = before.iter().rev().filter(|(outer, _)| paths::below(folder, outer).is_some());
            let around: Vec<&Rewrites> = around.map(|(_, outer)| &outer.rewrites).collect();
            let own = context.rewrites.place().filter(|_| around.iter().any(|one| one.has_rules()));
            if let Some(place) = own {
                let what = format!("the RewriteRules of the folders around {folder} count in it, too");
                draft.warn(place, what, "write those that must not into the folders that they are for");
            }
            let around = around.into_iter().find_map(Rewrites::engine);
            context.rewrites.settle_in_folder(around.or(server));
        }
    }

    /// In Apache, the rules of a server precede upstreams, aliases and files, and access precedes what runs a file.
    fn deny_first(&mut self) {
        if self.host.routes.len() > TOO_MANY_ROUTES {
            return;
        }
        let rules = self.rewritten(&self.server.rewrites, None);
        let denials =
            rules.routes.iter().filter_map(|route| Some((route.text("path")?, route.get("return")?)));
        let denials: Vec<(&str, &Value)> = denials.collect();
        let own: Vec<&str> = rules.routes.iter().filter_map(|route| route.text("path")).collect();
        for route in &mut self.host.routes {
            let path = route.path().to_owned();
            let denial = match own.contains(&path.as_str()) {
                true => denials.iter().find(|(denied, _)| *denied == path),
                false => denials.iter().find(|(denied, _)| covers(denied, &path)),
            };
            if let Some((_, status)) = denial {
                route.deny((*status).clone());
            }
        }
        self.host.deny_paths(Scope::responds);
    }

    /// Without the flag PT, the target of a server's rule is a file beneath the root, and aliases and upstreams are not for
    /// it.
    fn report_targets_elsewhere(&self, draft: &mut Draft) {
        let aliases = self.trees.iter().map(|tree| tree.url.as_str()).filter(|url| *url != "/");
        let singles = self.singles.iter().map(|single| single.url.as_str());
        let passes = self.passes.iter().filter(|(_, to)| to.argument(1) != "!").map(|(url, _)| url.as_str());
        let elsewhere: Vec<&str> = aliases.chain(singles).chain(passes).collect();
        for (rule, target) in self.server.rewrites.files() {
            let begin = target.split(['$', '%', '?']).next().unwrap_or_default();
            let is_below = |url: &&&str| paths::below(begin, paths::folder(url)).is_some();
            let leads_to = elsewhere.iter().filter(|url| **url != "/").find(is_below);
            if let Some(url) = leads_to {
                let what = format!(
                    "without the flag PT, Apache looks for {target} beneath DocumentRoot, and here {url} has it"
                );
                draft.error(&rule.place, what, "add PT if it is meant, or remove the rule");
            }
        }
    }

    /// As in `deny_first`, for the rules of a server that lead the paths below a prefix to others.
    fn lead_first(&mut self, draft: &mut Draft) {
        let path = |route: &Scope| route.path().to_owned();
        let rules = self.rewritten(&self.server.rewrites, None).routes;
        for route in self.host.routes.iter_mut().filter(|route| route.get("return").is_none()) {
            let own = path(route);
            let around =
                rules.iter().filter(|rule| path(rule).ends_with('/') && own.starts_with(&path(rule)));
            let Some(outer) = around.max_by_key(|rule| path(rule).len()) else { continue };
            let is_around = outer.responds() && outer.get("return").is_none() && path(outer) != "/";
            if !is_around || rules.iter().any(|rule| path(rule) == own) {
                continue;
            }
            // A folder alone ends with a dot.
            let rest = own[path(outer).len()..].trim_end_matches('.');
            WAYS.iter().chain(&HANDLERS).chain(&["root", "alias"]).for_each(|name| route.remove(name));
            if pass_on(route, outer, Some(rest).filter(|rest| !is_glob(rest))).is_none() {
                let what = format!("the pattern {own} does not have the RewriteRule of {}", path(outer));
                draft.error(&outer.place(), what, "write its paths as a prefix, or a rule for them in front");
            }
        }
        let targets =
            rules.iter().filter_map(|rule| Some((rule, rule.text("rewrite")?.split(['?', '$']).next()?)));
        for (rule, target) in targets {
            let leads = |other: &&Scope| other.get("redirect").or(other.get("rewrite")).is_some();
            let again = |other: &&Scope| path(other) != path(rule) && covers(&path(other), target);
            if let Some(other) = rules.iter().filter(leads).find(again) {
                let what =
                    format!("the RewriteRule of {} leads to a path of that of {}", path(rule), path(other));
                draft.warn(&rule.place(), what, "nothing to do, unless its flag L has to end the rewriting");
            }
        }
        let leads = rules.iter().filter(|rule| rule.get("redirect").is_some());
        self.leading.extend(leads.map(|rule| (path(rule), rule.place())));
    }

    /// Files with a path of their own.
    fn singles(&mut self, draft: &mut Draft) {
        for single in std::mem::take(&mut self.singles) {
            if self.is_passed(&single.url) {
                continue;
            }
            if single.is_program {
                self.program(&single, draft);
                continue;
            }
            let Single { url, file, place, .. } = single;
            let context = self.of_file(&file);
            let scope = self.with_locations(context, &url).scope(draft).without(&self.host.scope);
            let route = self.host.route(&url, &place);
            if !route.responds() {
                route.set(&place, "root", &file[..file.len() - url.len()]);
                route.inherit(&scope);
            }
        }
    }

    /// What the server and the folders say about a file.
    pub(super) fn of_file(&self, file: &str) -> Context {
        let outer = self.folders.iter().filter(|(outer, _)| paths::below(file, outer).is_some());
        outer.fold(self.server.clone(), |context, (_, own)| own.over(&context))
    }

    /// What all sections together say about a prefix.
    pub(super) fn context(&self, url: &str) -> Context {
        self.with_locations(self.of_folders(url), paths::folder(url))
    }

    /// What the server and the folders say about a prefix.
    pub(super) fn of_folders(&self, url: &str) -> Context {
        let mut context = self.server.clone();
        let trees = self.trees.iter().filter(|tree| url.starts_with(&tree.url));
        if let Some(tree) = trees.max_by_key(|tree| tree.url.len()).filter(|_| !self.is_passed(url)) {
            let rest = url[tree.url.len()..].trim_end_matches('/');
            let folder = match (rest, tree.folder.as_str()) {
                ("", folder) => folder.to_owned(),
                (rest, "/") => format!("/{rest}"),
                (rest, folder) => format!("{folder}/{rest}"),
            };
            for (_, own) in self.folders.iter().filter(|(outer, _)| paths::below(&folder, outer).is_some()) {
                context = own.over(&context);
            }
        }
        for (paths, own, _) in &self.matched {
            if let Paths::Prefix(prefix) = paths
                && paths::below(paths::folder(url), prefix).is_some()
            {
                context = own.over(&context);
            }
        }
        if context.rewrites.need_links() && context.options.resolved().symlinks() == "never" {
            context.close();
        }
        context
    }

    /// `path` has no slash at its end.
    pub(super) fn with_locations(&self, mut context: Context, path: &str) -> Context {
        for (paths, own, _) in &self.locations {
            if let Paths::Prefix(prefix) = paths
                && paths::below(path, prefix).is_some()
            {
                context = own.over(&context);
            }
        }
        context
    }

    /// What is said about all paths, for the host itself.
    fn root(&mut self, context: &Context, mut scope: Scope) {
        let tree = self.trees.iter().find(|tree| tree.url == "/");
        if let Some(tree) = tree {
            self.host.scope.set(&tree.place, "root", tree.folder.as_str());
        }
        let mut upstream = Scope::default();
        for name in ["proxy_headers", "proxy_host"] {
            if let Some(value) = scope.get(name) {
                upstream.set(&Place::at(context.line.max(1)), name, value.clone());
            }
            scope.remove(name);
        }
        if let Some(route) = self.host.routes.iter_mut().find(|route| route.text("path") == Some("/")) {
            route.inherit(&upstream);
        }
        if scope.get("pass_authorization") != Some(&true.into()) {
            scope.remove("pass_authorization");
        }
        if scope.text("auth") == Some("off") {
            scope.remove("auth");
        }
        self.host.scope.inherit(&scope);
        if tree.is_some_and(|tree| tree.runs_scripts) {
            self.host.route("/", &Place::at(context.line.max(1))).set(&Place::at(1), "cgi", true);
        }
    }

    /// The folder of a prefix that is one of an alias, or within one.
    fn folder_of(&self, url: &str) -> Option<AliasFolder> {
        let tree = self.trees.iter().find(|tree| tree.url == url);
        // A folder within that of an alias is not beneath the root.
        let around = self.trees.iter().filter(|tree| tree.url != "/" && url.starts_with(&tree.url));
        let around = around.max_by_key(|tree| tree.url.len()).filter(|_| !self.is_passed(url));
        let disk = self.world.disk;
        tree.or(around).map(|tree| {
            let folder = format!("{}/{}", tree.folder, &url[tree.url.len()..]);
            let folder = paths::folder(&folder).to_owned();
            let is_missing = tree.url != url
                && disk.is_folder(Path::new(&tree.folder))
                && !disk.is_folder(Path::new(&folder));
            let is_file = tree.url != url && disk.is_file(Path::new(&folder));
            AliasFolder { folder, runs_scripts: tree.runs_scripts, is_missing, is_file }
        })
    }

    /// Whether a location says who may have this prefix: that goes over what files say, even if it is what the host says.
    pub(super) fn is_located(&self, url: &str) -> bool {
        self.locations.iter().any(|(paths, own, _)| match paths {
            Paths::Prefix(prefix) => {
                prefix != "/" && own.has_access() && paths::below(paths::folder(url), prefix).is_some()
            }
            Paths::Patterns(_) => false,
        })
    }

    /// What is said about a file of an alias, and about what is below it if it is a script. The alias of a route has to
    /// be a folder.
    fn file_of_alias(&mut self, url: &str, place: &Place, mut scope: Scope) {
        let path = paths::folder(url);
        if self.host.scope.get("fallback").is_some() && scope.get("fallback").is_none() {
            scope.set(place, "fallback", false);
        }
        for pattern in [path.to_owned(), format!("{path}/**")] {
            let route = self.host.route(&pattern, place);
            if !route.responds() {
                route.inherit(&scope);
            }
        }
    }

    fn prefix(&mut self, url: &str, draft: &mut Draft) {
        let context = self.context(url);
        let mut scope = context.scope(draft);
        let tree = self.trees.iter().find(|tree| tree.url == url);
        if url == "/" {
            return self.root(&context, scope);
        }
        let place = tree.map_or(Place::at(context.line.max(1)), |tree| tree.place.clone());
        let alias = self.folder_of(url);
        let host = self.host.scope.clone();
        if host.text("satisfy") == Some("any") && scope.get("satisfy").is_none() {
            scope.set(&place, "satisfy", "all");
        }
        let is_located = self.is_located(url);
        if alias.as_ref().is_some_and(|alias| alias.is_file) {
            return self.file_of_alias(url, &place, scope.without(&host));
        }
        let route = self.host.route(url, &place);
        if !route.responds()
            && let Some(AliasFolder { folder, runs_scripts, is_missing, .. }) = alias
        {
            if is_missing {
                // Apache takes the section of a folder that may be there one day. Here an alias is opened at the start.
                let at = Place::at(context.line.max(1));
                let what = format!("there is no folder {folder}, so that {url} responds with 404");
                draft.warn(&at, what, "when there is, write its alias in place of return");
                route.set(&place, "return", 404);
            } else {
                route.set(&place, "alias", folder);
                if runs_scripts {
                    route.set(&place, "cgi", true);
                }
            }
        }
        if let Some((handler, at)) = &context.handler {
            handled(route, handler, context.options.resolved().exec_cgi, at, draft);
        }
        route.inherit(&scope.clone().without(&host));
        if (is_located || context.is_closed()) && route.rules.is_empty() {
            route.rules.clone_from(&scope.rules);
        }
        if host.get("fallback").is_some() && scope.get("fallback").is_none() && !route.responds() {
            route.set(&place, "fallback", false);
        }
        if let Some((Handler::None, at)) = &context.handler {
            self.unhandled.push((url.to_owned(), at.clone()));
        }
    }
}
