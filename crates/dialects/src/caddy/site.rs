//! A site: its blocks, and which directive is for which paths.

use std::path::Path;

use crate::disk::Disk;
use crate::draft::{Draft, Host, Scope, TOO_MANY_ROUTES, WAYS};
use crate::pattern;
use crate::tree::{Directive, MAX_DEPTH, Place, unconverted};
use crate::within::covers;

use super::finish::hoist;
use super::listens::address_of;
use super::matchers::{Condition, Matched, Matcher, pattern};
use super::options::log;
use super::responses::{Seen, redirected, status};

/// What is true for the directives of a block.
#[derive(Debug, Clone, Default)]
pub(super) struct Way {
    /// The patterns. Empty: all paths.
    pub(super) paths: Vec<String>,
    /// The prefix was removed from the path, by `handle_path`.
    pub(super) strips: bool,
    pub(super) block: Option<usize>,
    /// Blocks with paths of their own stand beside its directives.
    pub(super) has_blocks: bool,
    /// It is a `route`, whose directives count in their order.
    pub(super) is_in_order: bool,
}

/// The block of a `handle` without a path, which is for what the blocks beside it are not for.
pub(super) const REST: usize = usize::MAX;

/// A path of `handle` and the like. What stands outside of it, and would respond, is not for this path.
pub(super) struct Block {
    pub(super) path: String,
    pub(super) place: Place,
    pub(super) outer: Option<usize>,
    /// Scripts are run within.
    pub(super) runs: bool,
    /// Something within responds for all of its paths.
    pub(super) ends: bool,
}

/// What a `file_server` does not send.
pub(super) struct Hidden {
    /// Those of the `file_server`.
    pub(super) paths: Vec<String>,
    pub(super) option: Directive,
    /// The paths of files lack this prefix.
    pub(super) strips: bool,
}

pub(super) struct Site<'s> {
    pub(super) matchers: Vec<Matcher>,
    pub(super) blocks: Vec<Block>,
    /// What directives in front of blocks say about paths, and the block that these stand in.
    pub(super) given: Vec<(Option<usize>, Scope)>,
    /// Paths of `file_server` in blocks that are no prefixes.
    pub(super) of_files: Vec<String>,
    /// The paths of each `file_server`, and the block that it stands in.
    pub(super) served: Vec<(Option<usize>, Vec<String>)>,
    /// A `try_files` for all paths finds no folders.
    pub(super) leaves_folders: bool,
    /// A `file_server` is for all paths.
    pub(super) serves_files: bool,
    pub(super) hidden: Vec<Hidden>,
    /// Each `handle_errors`.
    pub(super) errors: Vec<Directive>,
    /// Denials of what is protected, for its paths in other cases of letters.
    pub(super) other_cases: Vec<Scope>,
    pub(super) folder: &'s Path,
    pub(super) draft: &'s mut Draft,
}

pub(super) fn site(directive: &Directive, file: &Path, folder: &Path, disk: &dyn Disk, draft: &mut Draft) {
    let place = &directive.place;
    let mut host = Host { scope: Scope::new(place.line), ..Host::default() };
    let all = std::iter::once(&directive.name).chain(&directive.arguments);
    for address in all.flat_map(|text| text.split(',')).map(str::trim).filter(|text| !text.is_empty()) {
        address_of(address, place, &mut host, draft);
    }
    let is_secure = host.listens.iter().any(|listen| listen.tls);
    // No authority certifies a site without names.
    if is_secure && !host.names.is_empty() {
        host.scope.set(place, "acme", true);
        host.scope.set(place, "https_redirect", true);
    }
    if let Some(status) = leads_to_https(directive, &host) {
        host.is_to_https = true;
        host.https_status = Some(status).filter(|status| *status != 301);
        return draft.hosts.push(host);
    }
    let mut site = Site {
        matchers: Vec::new(),
        blocks: Vec::new(),
        given: Vec::new(),
        of_files: Vec::new(),
        served: Vec::new(),
        leaves_folders: false,
        serves_files: false,
        hidden: Vec::new(),
        errors: Vec::new(),
        other_cases: Vec::new(),
        folder,
        draft,
    };
    site.block(directive.children(), &Way::default(), &mut host, 0);
    site.hide(file, &mut host);
    site.finish(&mut host, disk);
    site.error_pages(&mut host, disk);
    hoist(&mut host);
    host.scope.rules.append(&mut site.other_cases);
    if host.routes.is_empty() && host.scope.get("root").is_none() {
        site.draft.error(place, format!("{} has nothing to serve", directive.text()), "give it a root");
    }
    let has_certificate = ["acme", "certificate"].iter().any(|name| host.scope.get(name).is_some());
    if host.is_secure() && !has_certificate {
        let what = format!("{} has TLS and no certificate", directive.name);
        draft.error(place, what, "make one, and write it in certificate and certificate_key");
    }
    draft.hosts.push(host);
}

/// The status of a site without TLS that does nothing but redirect to the same URL with it.
fn leads_to_https(site: &Directive, host: &Host) -> Option<i64> {
    let mut rest = site.children().iter().filter(|child| child.name != "log");
    let (only, None) = (rest.next()?, rest.next()) else { return None };
    let arguments = match only.arguments.as_slice() {
        [all, rest @ ..] if all == "*" => rest,
        rest => rest,
    };
    let (to, status) = redirected(arguments, &Seen::default())?;
    let name = to.strip_prefix("https://")?.strip_suffix("$path$query")?;
    let is_same = name == "$host" || host.names.len() == 1 && host.names[0] == name;
    (only.name == "redir" && !host.is_secure() && is_same).then_some(status)
}

impl Site<'_> {
    pub(super) fn block(&mut self, children: &[Directive], way: &Way, host: &mut Host, depth: usize) {
        for child in children.iter().filter(|child| child.name.starts_with('@')) {
            self.matchers.push(Matcher::of(child));
        }
        let together = self.with_files_first(children, way.is_in_order);
        let children = together.as_deref().unwrap_or(children);
        let apart = blocks_in_order(children).filter(|_| way.is_in_order && way.paths.is_empty());
        let children = apart.as_deref().unwrap_or(children);
        let has_paths = |child: &Directive| {
            matches!(child.name.as_str(), "handle" | "handle_path") && !child.argument(0).is_empty()
        };
        let way = Way { has_blocks: children.iter().any(has_paths), ..way.clone() };
        let mut is_ended = false;
        for child in children.iter().filter(|child| !child.name.starts_with('@')) {
            if is_of_websockets(child, children) {
                self.draft.note(&child.place, "an upstream may upgrade to WebSocket", "nothing to do");
                continue;
            }
            if is_ended {
                let what = format!("{}: what stands before responds for all paths", child.text());
                self.draft.note(&child.place, what, "it has no effect");
                continue;
            }
            is_ended = way.is_in_order && ends(std::slice::from_ref(child));
            self.directive(child, &way, host, depth);
        }
    }

    fn directive(&mut self, child: &Directive, way: &Way, host: &mut Host, depth: usize) {
        if host.routes.len().max(self.blocks.len()).max(self.given.len()) > TOO_MANY_ROUTES {
            let what = format!("there are more than {TOO_MANY_ROUTES} paths of a site");
            return self.draft.findings.error(None, what, "make several sites of it");
        }
        if let Some(same) = self.of_segments(child) {
            return self.directive(&same, way, host, depth);
        }
        match child.name.as_str() {
            "tls" => return self.tls(child, host),
            "log" => {
                let mut own = Some(&mut host.scope);
                return log(child, &mut own, self.draft);
            }
            "bind" => return self.bind(child, host),
            "try_files" => return self.try_files(child, way, host),
            "handle_errors" => return self.errors.push(child.clone()),
            // The block around it has done so.
            "uri" if way.strips && child.argument(0) == "strip_prefix" => return,
            _ => {}
        }
        // The first argument of `root` is a folder if it is the only one.
        let single = child.name == "root" && child.arguments.len() == 1;
        let found = match single {
            true => {
                let (paths, arguments) = (way.paths.clone(), child.arguments.clone());
                Some((Matched { directive: child, paths, arguments }, Condition::Always))
            }
            false => self.matched(child, way),
        };
        let Some((matched, condition)) = found else { return };
        match condition {
            Condition::Always => {}
            Condition::Rule(..) | Condition::File(_) if asks(child) => self.ask_everywhere(child),
            Condition::Rule(rule, except) => {
                return self.conditional(matched, rule, &except, way, host);
            }
            Condition::File(presence) => {
                return self.by_file(matched, presence, way, host);
            }
        }
        match child.name.as_str() {
            "handle" | "route" | "handle_path" => {
                if matched.arguments.is_empty() {
                    self.inner_block(child, matched.paths, way, host, depth);
                } else {
                    self.draft.error(&child.place, unconverted(child), "write one path");
                }
            }
            "root" => self.root(&matched, way, host),
            "file_server" => self.file_server(&matched, way, host),
            "reverse_proxy" => self.proxy(&matched, way, host),
            "php_fastcgi" => self.php(&matched, way, host),
            "redir" => self.redirect(&matched, way, host),
            "rewrite" => self.rewrite(&matched, way, host),
            "respond" | "error" | "abort" => self.respond(&matched, host),
            "basic_auth" | "basicauth" | "forward_auth" | "header" | "encode" | "request_body" => {
                self.precede(&matched, host);
                self.give_to_blocks(&matched, way);
            }
            _ => {
                let what_to_do = "remove it, or find its like in the manual";
                self.draft.error(&child.place, unconverted(child), what_to_do);
            }
        }
    }

    /// `handle_path /a*` as that of `/a/*`, and that of all paths as `handle`. `None`: it is something else.
    fn of_segments(&mut self, child: &Directive) -> Option<Directive> {
        let [path] = child.arguments.as_slice() else { return None };
        if child.name != "handle_path" {
            return None;
        }
        if path == "/*" {
            return Some(Directive { name: "handle".to_owned(), arguments: Vec::new(), ..child.clone() });
        }
        let begin = path.strip_suffix('*').filter(|begin| begin.starts_with('/') && !begin.ends_with('/'))?;
        if begin.contains(['*', '{']) {
            return None;
        }
        let what = format!("handle_path {path} matches whole segments, and not {begin}x");
        self.draft.warn(&child.place, what, "nothing to do, unless such paths are needed");
        Some(Directive { arguments: vec![format!("{begin}/*")], ..child.clone() })
    }

    /// Keeps what precedes blocks for those with other paths.
    fn give_to_blocks(&mut self, matched: &Matched, way: &Way) {
        let mut alone = Host::default();
        self.precede(matched, &mut alone);
        for route in alone.routes {
            let path = route.text("path");
            let same =
                |given: &&mut (Option<usize>, Scope)| given.0 == way.block && given.1.text("path") == path;
            match self.given.iter_mut().find(same) {
                Some((_, given)) => given.add(&route),
                None => self.given.push((way.block, route)),
            }
        }
    }

    /// What is done with a request before a block is found for it.
    fn precede(&mut self, matched: &Matched, host: &mut Host) {
        match matched.directive.name.as_str() {
            "header" => self.fields(matched, host),
            "encode" => self.encode(matched, host),
            "request_body" => self.max_body(matched, host),
            "forward_auth" => self.authorizer(matched, host),
            _ => self.users(matched, host),
        }
    }

    fn inner_block(
        &mut self,
        child: &Directive,
        paths: Vec<String>,
        way: &Way,
        host: &mut Host,
        depth: usize,
    ) {
        if depth >= MAX_DEPTH {
            return;
        }
        let strips = child.name == "handle_path" || strips_prefix(child, &paths);
        if strips && !(paths.len() == 1 && paths[0].ends_with('/') && !paths[0].contains('*')) {
            return self.draft.error(&child.place, unconverted(child), "write the path as /folder/*");
        }
        let runs = child.children().iter().any(runs_scripts);
        // Without paths of its own, it is for the rest.
        let is_new = paths != way.paths;
        let block = if is_new { Some(self.blocks.len()) } else { way.block };
        for path in paths.iter().filter(|_| is_new) {
            self.blocks.push(Block {
                path: path.clone(),
                place: child.place.clone(),
                outer: way.block,
                runs,
                ends: ends(child.children()),
            });
        }
        let is_rest = child.name == "handle" && paths.is_empty() && way.has_blocks;
        let block = if is_rest { Some(REST) } else { block };
        let is_in_order = child.name == "route";
        let inner = Way { paths, strips: strips || way.strips, block, has_blocks: false, is_in_order };
        let before = is_rest.then(|| host.scope.clone());
        let has_authorizer = |scope: &Scope| scope.get("authorizer").is_some();
        let is_asked = has_authorizer(&host.scope) || host.routes.iter().any(has_authorizer);
        self.block(child.children(), &inner, host, depth + 1);
        if is_new && !consists_of(child, &["header", "encode"]) {
            // Caddy sends the files of `*.jpg` whose names end with `.JPG`, too.
            let sends_files = consists_of(child, &["file_server", "header", "encode"]);
            let is_closed = |path: &&String| !(sends_files && path.starts_with('*'));
            let closed: Vec<String> = inner.paths.iter().filter(is_closed).cloned().collect();
            self.close_in_other_cases(child, &closed);
        }
        if child.name == "route" && !is_asked {
            before_authorizer(child, host);
        }
        if let Some(before) = before {
            // The other blocks have nothing of it.
            let own = std::mem::replace(&mut host.scope, before).without(&host.scope);
            let route = host.route("/", &child.place);
            route.replace(&own);
            route.rules.extend(own.rules);
        }
    }

    /// A directive for a matcher that has more conditions than a path.
    fn conditional(
        &mut self,
        matched: Matched,
        mut rule: Scope,
        except: &[String],
        way: &Way,
        host: &mut Host,
    ) {
        let Matched { directive: child, paths, arguments } = &matched;
        // A block that only rejects is a rejection.
        let (only, own) = match child.children() {
            [only] if child.name == "handle" && only.block.is_none() => (only, only.arguments.as_slice()),
            _ => (*child, arguments.as_slice()),
        };
        let redirect = (only.name == "redir").then(|| redirected(own, &Seen::default())).flatten();
        let redirect = redirect.filter(|(to, _)| !way.strips || !to.contains("$path"));
        let denied = status(only, own).filter(|status| (400..=599).contains(status));
        let place = &only.place;
        if redirect.is_none() && denied.is_none() {
            if paths.is_empty() && rule.is_empty() && child.name == "reverse_proxy" {
                return self.proxy_but(matched, except, way, host);
            }
            let what = format!("{}: routes have no conditions", child.text());
            let what_to_do = match rule.get("host").is_some() {
                true => "write a site for each name",
                false => "only a rejection or a redirect can have one; see [[rule]]",
            };
            return self.draft.error(place, what, what_to_do);
        }
        let is_any_case = !self.counts_case(child);
        let mut all = Vec::new();
        for path in paths {
            let any_case = is_any_case.then(|| self.in_any_case(path, place)).flatten();
            match redirect.is_some() || any_case.is_none() {
                true => {
                    let any_case = |text: &String| pattern::ignoring_case(text).filter(|_| is_any_case);
                    all.extend(below(path).iter().map(|text| any_case(text).unwrap_or_else(|| text.clone())));
                }
                false => all.extend(any_case),
            }
        }
        all.extend(except.iter().flat_map(|path| below(path)).map(|text| format!("!{text}")));
        if !all.is_empty() {
            rule.set(place, "path", all);
        }
        match redirect {
            Some((to, status)) => {
                rule.set(place, "then", "redirect");
                rule.set(place, "to", to);
                rule.set(place, "status", status);
            }
            None => {
                rule.set(place, "then", "deny");
                rule.set(place, "status", denied.unwrap_or(403));
            }
        }
        host.scope.rules.push(rule);
    }

    /// What asks who a client is does so for more than its matcher finds, if that cannot be converted.
    pub(super) fn ask_everywhere(&mut self, child: &Directive) {
        let what = format!("{}: its matcher is left out, so that more is protected", child.text());
        let what_to_do = "write a handle for the paths that need no login, and another handle for the rest";
        self.draft.error(&child.place, what, what_to_do);
    }

    /// Caddy finds paths in any case of letters, and here case counts. So what is protected is denied in other cases,
    /// which an upstream might take for the same.
    pub(super) fn protect(&mut self, child: &Directive, paths: &[String], status: i64) {
        let place = &child.place;
        self.in_other_cases(child, paths, |rule| {
            rule.set(place, "then", "deny");
            rule.set(place, "status", status);
        });
    }

    /// What leads paths elsewhere, or responds for them, is not left open in other cases of letters either, where files
    /// or another upstream would respond.
    pub(super) fn close_in_other_cases(&mut self, child: &Directive, paths: &[String]) {
        let place = &child.place;
        let before = self.other_cases.len();
        self.in_other_cases(child, paths, |rule| {
            rule.set(place, "then", "deny");
            rule.set(place, "status", 404);
        });
        let path = self.other_cases.get(before).and_then(|rule| rule.get("path"));
        if self.other_cases[..before].iter().any(|rule| rule.get("path") == path) {
            self.other_cases.truncate(before);
        }
    }

    /// Adds a rule for the paths of a directive in other cases of letters.
    pub(super) fn in_other_cases(
        &mut self,
        child: &Directive,
        paths: &[String],
        then: impl FnOnce(&mut Scope),
    ) {
        if self.counts_case(child) {
            return;
        }
        let place = &child.place;
        let mut all = Vec::new();
        for path in paths {
            let Some(any_case) = self.in_any_case(path, place).filter(|any_case| any_case != path) else {
                continue;
            };
            all.extend([any_case, format!("!{}", without_dot(path))]);
        }
        if all.is_empty() {
            return;
        }
        let mut rule = Scope::new(place.line);
        rule.set(place, "path", all);
        then(&mut rule);
        if !self.other_cases.iter().any(|other| other.differs_from(&rule, &[]).is_none()) {
            self.other_cases.push(rule);
        }
    }

    /// Whether the matcher of a directive is an expression, in which case counts.
    fn counts_case(&self, child: &Directive) -> bool {
        let own = self.matchers.iter().find(|matcher| matcher.name == child.argument(0));
        own.is_some_and(|matcher| matcher.counts_case)
    }

    /// A pattern in any case of its letters. `None`: no pattern can say it, which is reported.
    fn in_any_case(&mut self, path: &str, place: &Place) -> Option<String> {
        let all = pattern::ignoring_case(without_dot(path)).filter(|_| path.is_ascii());
        if all.is_none() {
            let what = format!("{path} is protected in this case only");
            self.draft.warn(place, what, "write it in other cases, too, if an upstream ignores case");
        }
        all
    }

    /// For the host, or for the routes of these paths.
    pub(super) fn each(
        &mut self,
        paths: &[String],
        place: &Place,
        host: &mut Host,
        act: impl Fn(&mut Scope),
    ) {
        if paths.is_empty() {
            act(&mut host.scope);
        }
        for path in paths {
            act(host.route(path, place));
        }
    }

    /// For routes: that of all paths, if there are none.
    pub(super) fn route(
        &mut self,
        paths: &[String],
        place: &Place,
        host: &mut Host,
        act: impl Fn(&mut Scope),
    ) {
        let all = ["/".to_owned()];
        for path in if paths.is_empty() { &all } else { paths } {
            let route = host.route(path, place);
            if WAYS.iter().any(|name| route.get(name).is_some()) {
                self.draft.error(place, format!("{path} has a response already"), "decide for one of them");
            } else {
                act(route);
            }
        }
    }
}

/// Whether an upstream gets WebSocket that responds to all other requests, too.
fn is_of_websockets(child: &Directive, all: &[Directive]) -> bool {
    let is_proxy = |one: &Directive| one.name == "reverse_proxy";
    let Some((matcher, targets)) = child.arguments.split_first().filter(|_| is_proxy(child)) else {
        return false;
    };
    let is_upgrade = |condition: &Directive| {
        let field = condition.argument(0).to_ascii_lowercase();
        condition.name == "header" && matches!(field.as_str(), "connection" | "upgrade")
    };
    let finds_upgrades = |own: &Directive| {
        own.name == *matcher && !own.children().is_empty() && own.children().iter().all(is_upgrade)
    };
    let is_same = |other: &Directive| is_proxy(other) && other.arguments == targets;
    matcher.starts_with('@') && all.iter().any(finds_upgrades) && all.iter().any(is_same)
}

/// The path of a folder alone, in which a pattern of any case cannot end.
fn without_dot(path: &str) -> &str {
    path.strip_suffix("/.").filter(|path| !path.is_empty()).unwrap_or(path)
}

/// A `route` keeps the order of its directives: what responds for a path in front of `forward_auth` asks no authorizer.
fn before_authorizer(block: &Directive, host: &mut Host) {
    let end = block.children().iter().position(|child| child.name == "forward_auth").unwrap_or_default();
    let first = block.children()[..end].iter().filter(|child| child.name == "reverse_proxy");
    for path in first.filter_map(|child| pattern(child.argument(0))) {
        if let Some(route) = host.routes.iter_mut().find(|route| route.text("path") == Some(&path)) {
            route.set(&route.place(), "authorizer", false);
        }
    }
}

/// The patterns of what `/a/*` finds, which `/a` is not of. A prefix is for both here.
fn below(path: &str) -> Vec<String> {
    match path.ends_with('/') && path != "/" {
        true => vec![format!("{path}."), format!("{path}*/**")],
        false => vec![path.to_owned()],
    }
}

/// A `route` whose last directive responds for all paths, as blocks: what stands in front of it responds for its own
/// paths. `None`: it has other directives, or needs no blocks.
fn blocks_in_order(children: &[Directive]) -> Option<Vec<Directive>> {
    const NEUTRAL: [&str; 4] = ["root", "header", "encode", "request_body"];
    let (last, before) = children.split_last()?;
    // The only argument of `root` is a folder.
    let is_for_all = |child: &Directive| {
        !child.argument(0).starts_with(['/', '@']) || child.name == "root" && child.arguments.len() == 1
    };
    let is_last = ["reverse_proxy", "respond", "error", "abort"].contains(&last.name.as_str());
    if !is_last || !is_for_all(last) {
        return None;
    }
    let block = |child: &Directive, own: &[String], rest: &[String]| Directive {
        name: "handle".to_owned(),
        arguments: own.to_vec(),
        block: Some(vec![Directive { arguments: rest.to_vec(), ..child.clone() }]),
        place: child.place.clone(),
    };
    let mut taken: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for child in before {
        match (child.name.as_str(), child.arguments.split_first()) {
            ("file_server" | "reverse_proxy", Some((path, rest))) if path.starts_with('/') => {
                let own = pattern(path)?;
                // The first one counts, and among blocks the longest path.
                if taken.iter().any(|first| covers(first, &own)) {
                    return None;
                }
                taken.push(own);
                all.push(block(child, std::slice::from_ref(path), rest));
            }
            (name, _) if NEUTRAL.contains(&name) && is_for_all(child) => all.push(child.clone()),
            _ => return None,
        }
    }
    all.push(block(last, &[], &last.arguments));
    (!taken.is_empty()).then_some(all)
}

/// Whether a directive asks who a client is.
pub(super) fn asks(directive: &Directive) -> bool {
    matches!(directive.name.as_str(), "basic_auth" | "basicauth" | "forward_auth")
}

/// Whether a block removes the prefix that it is for.
fn strips_prefix(block: &Directive, paths: &[String]) -> bool {
    let prefix =
        block.children().iter().find(|child| child.name == "uri" && child.argument(0) == "strip_prefix");
    prefix.is_some_and(|uri| paths == [format!("/{}/", uri.argument(1).trim_matches('/'))])
}

/// Whether a block has directives, and none beside these.
fn consists_of(block: &Directive, names: &[&str]) -> bool {
    let children = block.children();
    !children.is_empty() && children.iter().all(|child| names.contains(&child.name.as_str()))
}

/// Whether something in a block responds for all of its paths.
fn ends(block: &[Directive]) -> bool {
    const RESPONSES: [&str; 8] =
        ["respond", "error", "abort", "redir", "reverse_proxy", "php_fastcgi", "file_server", "metrics"];
    block.iter().any(|child| {
        let is_for_some = child.argument(0).starts_with(['@', '/']) && child.argument(0) != "/*";
        let is_target = child.name == "redir" && child.arguments.iter().take(2).count() == 1;
        match child.name.as_str() {
            "handle" | "handle_path" | "route" => !is_for_some && ends(child.children()),
            name => RESPONSES.contains(&name) && (!is_for_some || is_target),
        }
    })
}

/// Whether a directive or one within runs scripts.
fn runs_scripts(directive: &Directive) -> bool {
    directive.name == "php_fastcgi"
        || directive.name == "transport" && directive.argument(0) == "fastcgi"
        || directive.children().iter().any(runs_scripts)
}
