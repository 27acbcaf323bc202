//! What the sites of a Caddyfile become.

use std::collections::BTreeMap;
use std::path::Path;

use site::config::own_field;

use crate::Conversion;
use crate::disk::Disk;
use crate::document::Value;
use crate::draft::{Draft, Host, Listen, Scope, TOO_MANY_ROUTES, WAYS};
use crate::tree::{Directive, MAX_DEPTH, Place};
use crate::within;

use super::matchers::Matcher;
use super::names;
use super::read::Reader;
use super::responses::status;
use super::tried::{Tried, tried};
use super::upstreams::SCRIPT_INDEX;

/// Of `file_server`.
const INDEXES: [&str; 2] = ["index.html", "index.txt"];

/// Reads the file.
pub fn convert(file: &Path, disk: &dyn Disk) -> Conversion {
    let mut draft = Draft::default();
    let folder = disk.absolute(file).parent().map(Path::to_path_buf).unwrap_or_default();
    match disk.read(file) {
        Ok(bytes) => {
            let tree = Reader::new(disk, &folder).read(&bytes, &mut draft);
            let tree = names::kept(tree, &mut draft);
            for directive in &tree {
                match (directive.name.as_str(), &directive.block) {
                    ("", Some(_)) => {}
                    (name, Some(_)) if !name.starts_with('@') => {
                        let file = disk.absolute(file);
                        site(directive, &file, &folder, disk, &mut draft);
                    }
                    _ => draft.error(&directive.place, unconverted(directive), "write it in a site"),
                }
            }
            if let Some(options) = tree.iter().find(|directive| directive.name.is_empty()) {
                global(options, &mut draft);
            }
        }
        Err(error) => draft.findings.unreadable(&error),
    }
    draft.top.preset("compress", false, "Caddy compresses nothing without encode.");
    draft.top.preset("precompressed", Vec::<String>::new(), "nor does it look for compressed files.");
    draft.top.preset("index", INDEXES.map(str::to_owned).to_vec(), "as Caddy's file_server.");
    draft.top.preset("symlinks", "follow", "Caddy follows every link. \"beneath\" is safer.");
    draft.top.preset(
        "dotfiles",
        "allow",
        "Caddy sends files whose name begins with a dot. \"deny\" is safer.",
    );
    draft.written(file.to_owned(), "Caddy")
}

pub(super) fn unconverted(directive: &Directive) -> String {
    format!("\"{}\" cannot be converted", directive.text())
}

fn global(options: &Directive, draft: &mut Draft) {
    for option in options.children() {
        let place = &option.place;
        match option.name.as_str() {
            "email" => draft.certificates.set(place, "email", option.argument(0)),
            "acme_ca" => draft.certificates.set(place, "authorities", option.argument(0)),
            "debug" => draft.log.set(place, "level", "debug"),
            "servers" => servers(option, draft),
            "admin" | "order" | "persist_config" | "grace_period" | "storage" | "default_sni" => {
                draft.note(place, format!("{} has no effect", option.name), "nothing to do");
            }
            "auto_https" if option.argument(0) == "disable_redirects" || option.argument(0) == "off" => {
                for host in &mut draft.hosts {
                    host.scope.remove("https_redirect");
                    if option.argument(0) == "off" {
                        host.scope.remove("acme");
                    }
                }
            }
            "log" => log(option, &mut None, draft),
            _ => draft.error(place, unconverted(option), "remove it, or find its like in the manual"),
        }
    }
}

/// `trusted_proxies static`, without which all clients of a proxy would have its address.
fn servers(option: &Directive, draft: &mut Draft) {
    for inner in option.children() {
        match (inner.name.as_str(), inner.argument(0)) {
            ("trusted_proxies", "static") => {
                let all = inner.arguments[1..].iter().flat_map(|text| networks(text));
                draft.top.set(&inner.place, "trusted_proxies", all.map(str::to_owned).collect::<Vec<_>>());
            }
            ("protocols" | "metrics" | "keepalive_interval" | "timeouts" | "trusted_proxies_strict", _) => {
                draft.note(
                    &inner.place,
                    format!("{} has no effect", inner.name),
                    "see [http2] and [timeouts]",
                );
            }
            _ => draft.error(&inner.place, unconverted(inner), "remove it, or find its like in the manual"),
        }
    }
}

/// The networks of a word.
pub(super) fn networks(text: &str) -> Vec<&str> {
    match text {
        "private_ranges" => {
            vec!["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"]
        }
        address => vec![address],
    }
}

fn site(directive: &Directive, file: &Path, folder: &Path, disk: &dyn Disk, draft: &mut Draft) {
    let place = &directive.place;
    let mut host = Host { scope: Scope::new(place.line), ..Host::default() };
    let all = std::iter::once(&directive.name).chain(&directive.arguments);
    for address in all.flat_map(|text| text.split(',')).map(str::trim).filter(|text| !text.is_empty()) {
        address_of(address, place, &mut host, draft);
    }
    let is_secure = host.listens.iter().any(|listen| listen.tls);
    if is_secure {
        host.scope.set(place, "acme", true);
        host.scope.set(place, "https_redirect", true);
    }
    let mut site = Site {
        matchers: Vec::new(),
        blocks: Vec::new(),
        given: Vec::new(),
        hidden: Vec::new(),
        errors: Vec::new(),
        folder,
        draft,
    };
    site.block(directive.children(), &Way::default(), &mut host, 0);
    site.hide(file, &mut host);
    site.finish(&mut host, disk);
    site.error_pages(&mut host, disk);
    hoist(&mut host);
    if host.routes.is_empty() && host.scope.get("root").is_none() {
        site.draft.error(place, format!("{} has nothing to serve", directive.text()), "give it a root");
    }
    draft.hosts.push(host);
}

fn address_of(text: &str, place: &Place, host: &mut Host, draft: &mut Draft) {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let (rest, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() || text.contains(['{', '}', '[']) {
        return draft.error(
            place,
            format!("the address {text} cannot be converted"),
            "write a name and a port",
        );
    }
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) => match port.parse::<u16>() {
            Ok(port) => (name, Some(port)),
            Err(_) => return draft.error(place, format!("the address {text} has no port"), "write a number"),
        },
        None => (rest, None),
    };
    let is_local = name == "localhost" || name.ends_with(".localhost");
    if name.parse::<std::net::IpAddr>().is_err() && !name.is_empty() && name != "*" {
        host.names.push(name.to_lowercase());
    }
    let tls = match (scheme, port) {
        (Some("http"), _) | (None, Some(80)) => false,
        (Some("https"), _) => true,
        _ => !name.is_empty(),
    };
    if tls && is_local {
        draft.warn(
            place,
            format!("{text} has no certificate of a local authority"),
            "clients do not trust its own one",
        );
    }
    let ports = match (tls, port) {
        (false, port) => vec![(port.unwrap_or(80), false)],
        (true, Some(port)) => vec![(port, true)],
        (true, None) => vec![(443, true), (80, false)],
    };
    for (port, tls) in ports {
        for any in ["0.0.0.0", "[::]"] {
            let listen = Listen { address: format!("{any}:{port}"), tls, proxy: false };
            if !host.listens.contains(&listen) {
                host.listens.push(listen);
            }
        }
    }
}

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
}

pub(super) struct Site<'s> {
    pub(super) matchers: Vec<Matcher>,
    pub(super) blocks: Vec<Block>,
    /// What directives in front of blocks say about paths, and the block that these stand in.
    pub(super) given: Vec<(Option<usize>, Scope)>,
    /// What `file_server` does not send, and the paths that it is for.
    pub(super) hidden: Vec<(Vec<String>, Directive)>,
    /// Each `handle_errors`.
    pub(super) errors: Vec<Directive>,
    pub(super) folder: &'s Path,
    pub(super) draft: &'s mut Draft,
}

impl Site<'_> {
    pub(super) fn block(&mut self, children: &[Directive], way: &Way, host: &mut Host, depth: usize) {
        for child in children.iter().filter(|child| child.name.starts_with('@')) {
            let matcher = self.matcher(child);
            self.matchers.push(matcher);
        }
        let has_paths = |child: &Directive| {
            matches!(child.name.as_str(), "handle" | "handle_path") && !child.argument(0).is_empty()
        };
        let way = Way { has_blocks: children.iter().any(has_paths), ..way.clone() };
        for child in children.iter().filter(|child| !child.name.starts_with('@')) {
            self.directive(child, &way, host, depth);
        }
    }

    fn directive(&mut self, child: &Directive, way: &Way, host: &mut Host, depth: usize) {
        if host.routes.len().max(self.blocks.len()).max(self.given.len()) > TOO_MANY_ROUTES {
            let what = format!("there are more than {TOO_MANY_ROUTES} paths of a site");
            return self.draft.findings.error(None, what, "make several sites of it");
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
            true => Some((way.paths.clone(), None, child.arguments.clone())),
            false => self.matched(child, way),
        };
        let Some((paths, rule, arguments)) = found else { return };
        if let Some(rule) = rule {
            return self.conditional(child, rule, &paths, &arguments, host);
        }
        let first = arguments.first().map_or("", String::as_str);
        match child.name.as_str() {
            "handle" | "route" | "handle_path" => {
                if arguments.is_empty() {
                    self.inner_block(child, paths, way, host, depth);
                } else {
                    self.draft.error(&child.place, unconverted(child), "write one path");
                }
            }
            "root" => self.root(child, &paths, first, way, host),
            "file_server" => self.file_server(child, &paths, first, host),
            "reverse_proxy" => self.proxy(child, &paths, &arguments, way, host),
            "php_fastcgi" => self.php(child, &paths, first, host),
            "redir" => self.redirect(child, &paths, &arguments, host),
            "rewrite" => self.rewrite(child, &paths, first, host),
            "respond" | "error" | "abort" => self.respond(child, &paths, &arguments, host),
            "basic_auth" | "basicauth" | "forward_auth" | "header" | "encode" | "request_body" => {
                self.precede(child, &paths, &arguments, host);
                // Once more, for blocks with other paths.
                let mut alone = Host::default();
                self.precede(child, &paths, &arguments, &mut alone);
                for route in alone.routes {
                    let path = route.text("path");
                    let same = |given: &&mut (Option<usize>, Scope)| {
                        given.0 == way.block && given.1.text("path") == path
                    };
                    match self.given.iter_mut().find(same) {
                        Some((_, given)) => given.add(&route),
                        None => self.given.push((way.block, route)),
                    }
                }
            }
            _ => self.draft.error(
                &child.place,
                unconverted(child),
                "remove it, or find its like in the manual",
            ),
        }
    }

    /// What is done with a request before a block is found for it.
    fn precede(&mut self, child: &Directive, paths: &[String], arguments: &[String], host: &mut Host) {
        match child.name.as_str() {
            "header" => self.fields(child, paths, arguments, host),
            "encode" => self.encode(child, paths, arguments, host),
            "request_body" => self.max_body(child, paths, host),
            "forward_auth" => self.authorizer(child, paths, arguments, host),
            _ => self.users(child, paths, arguments.get(1), host),
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
            });
        }
        let is_rest = child.name == "handle" && paths.is_empty() && way.has_blocks;
        let block = if is_rest { Some(REST) } else { block };
        let inner = Way { paths, strips: strips || way.strips, block, has_blocks: false };
        let before = is_rest.then(|| host.scope.clone());
        self.block(child.children(), &inner, host, depth + 1);
        if let Some(before) = before {
            // The other blocks have nothing of it.
            let own = std::mem::replace(&mut host.scope, before).without(&host.scope);
            let route = host.route("/", &child.place);
            route.replace(&own);
            route.rules.extend(own.rules);
        }
    }

    fn root(&mut self, child: &Directive, paths: &[String], folder: &str, way: &Way, host: &mut Host) {
        let place = &child.place;
        if folder.contains('{') {
            return self.draft.error(place, unconverted(child), "write a folder; see $host in root");
        }
        let root = self.folder.join(folder).to_string_lossy().into_owned();
        let key = if way.strips { "alias" } else { "root" };
        self.each(paths, place, host, |scope| scope.set(place, key, root.as_str()));
    }

    fn file_server(&mut self, child: &Directive, paths: &[String], first: &str, host: &mut Host) {
        let place = &child.place;
        for option in child.children() {
            match option.name.as_str() {
                "browse" => self.each(paths, place, host, |scope| scope.set(place, "listing", true)),
                "index" => {
                    self.each(paths, place, host, |scope| scope.set(place, "index", option.arguments.clone()))
                }
                "precompressed" => {
                    let all: Vec<String> = match option.arguments.is_empty() {
                        true => ["br", "zstd", "gzip"].map(str::to_owned).to_vec(),
                        false => option.arguments.clone(),
                    };
                    self.each(paths, place, host, |scope| scope.set(place, "precompressed", all.clone()));
                }
                "hide" => self.hidden.push((paths.to_vec(), option.clone())),
                _ => self.draft.error(&option.place, unconverted(option), "see [[rule]] and root"),
            }
        }
        match first {
            "browse" => self.each(paths, place, host, |scope| scope.set(place, "listing", true)),
            // Makes the routes of the paths.
            _ => self.each(paths, place, host, |_| {}),
        }
    }

    fn users(&mut self, child: &Directive, paths: &[String], realm: Option<&String>, host: &mut Host) {
        let place = &child.place;
        for user in child.children() {
            if !user.argument(0).starts_with("$2") {
                let what = format!("{} has no hash of bcrypt", user.name);
                self.draft.error(&user.place, what, "see taipan passwd");
            }
            self.each(paths, place, host, |scope| {
                scope.pair(&user.place, "users", &user.name, user.argument(0))
            });
        }
        self.case(place, paths);
        self.each(paths, place, host, |scope| scope.set(place, "auth", "basic"));
        if let Some(realm) = realm {
            self.each(paths, place, host, |scope| scope.set(place, "realm", realm.as_str()));
        }
    }

    fn fields(&mut self, child: &Directive, paths: &[String], arguments: &[String], host: &mut Host) {
        let one = [Directive {
            name: arguments.first().cloned().unwrap_or_default(),
            arguments: arguments.get(1..).unwrap_or_default().to_vec(),
            block: None,
            place: child.place.clone(),
        }];
        for field in if child.block.is_some() { child.children() } else { &one } {
            self.header(field, paths, host);
        }
    }

    fn encode(&mut self, child: &Directive, paths: &[String], arguments: &[String], host: &mut Host) {
        let place = &child.place;
        let inner = child.children().iter().map(|inner| &inner.name);
        let mut codings: Vec<String> = arguments.iter().chain(inner).cloned().collect();
        codings.retain(|name| matches!(name.as_str(), "zstd" | "gzip" | "br"));
        if codings.is_empty() {
            codings = ["zstd", "gzip"].map(str::to_owned).to_vec();
        }
        self.each(paths, place, host, |scope| scope.set(place, "compress", codings.clone()));
        let what = "encode compresses what upstreams send, too";
        self.draft.note(place, what, "see compress_scripts and BREACH in the manual");
    }

    fn max_body(&mut self, child: &Directive, paths: &[String], host: &mut Host) {
        let place = &child.place;
        for option in child.children() {
            match size(option.argument(0)).filter(|_| option.name == "max_size") {
                Some(bytes) => self.each(paths, place, host, |scope| scope.set(place, "max_body", bytes)),
                None => self.draft.error(&option.place, unconverted(option), "see max_body"),
            }
        }
    }

    /// A directive for a matcher that has more conditions than a path.
    fn conditional(
        &mut self,
        child: &Directive,
        mut rule: Scope,
        paths: &[String],
        arguments: &[String],
        host: &mut Host,
    ) {
        // A block that only rejects is a rejection.
        let (child, arguments) = match child.children() {
            [only] if child.name == "handle" && only.block.is_none() => (only, only.arguments.as_slice()),
            _ => (child, arguments),
        };
        let Some(status @ 400..=599) = status(child, arguments) else {
            let what = format!("{}: routes have no conditions", child.text());
            let what_to_do = match rule.get("host").is_some() {
                true => "write a site for each name",
                false => "only a rejection can have one; see [[rule]]",
            };
            return self.draft.error(&child.place, what, what_to_do);
        };
        if !paths.is_empty() {
            rule.set(&child.place, "path", paths.to_vec());
            self.case(&child.place, paths);
        }
        rule.set(&child.place, "then", "deny");
        rule.set(&child.place, "status", status);
        host.scope.rules.push(rule);
    }

    /// What is protected in Caddy whatever the case of its path.
    pub(super) fn case(&mut self, place: &Place, paths: &[String]) {
        if paths.iter().any(|path| path.chars().any(char::is_alphabetic)) {
            let what = format!("{} is protected in this case only", paths.join(" "));
            self.draft.warn(place, what, "write it in other cases, too, if an upstream ignores case");
        }
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

    pub(super) fn header(&mut self, field: &Directive, paths: &[String], host: &mut Host) {
        let place = &field.place;
        let name = field.name.as_str();
        let is_down = name == "header_down";
        let (name, value) =
            if is_down { (field.argument(0), field.argument(1)) } else { (name, field.argument(0)) };
        let count = field.arguments.len() - usize::from(is_down && !field.arguments.is_empty());
        if name == "defer" {
            return;
        }
        if value.contains('{') || count > 1 || name.starts_with('>') || name.contains('*') {
            return self.draft.error(place, unconverted(field), "headers have no variables; write a value");
        }
        let (name, value) = match name.strip_prefix('-') {
            Some(name) => (name.to_owned(), Value::Flag(false)),
            None => (name.trim_start_matches('?').to_owned(), Value::from(value)),
        };
        let has_no_extension = |path: &String| {
            !path.ends_with('/') && !path.rsplit('/').next().unwrap_or_default().contains(['.', '*', '?'])
        };
        if name.eq_ignore_ascii_case("content-type")
            && value != Value::Flag(false)
            && !paths.is_empty()
            && paths.iter().all(has_no_extension)
        {
            return self.each(paths, place, host, |scope| scope.set(place, "default_type", value.clone()));
        }
        if let Some(instead) = own_field(name.trim_start_matches('+')) {
            return self.own_field(field, &name, value, instead, paths);
        }
        self.each(paths, place, host, |scope| match name.as_str() {
            "Cache-Control" if value != Value::Flag(false) => {
                scope.set(place, "cache_control", value.clone())
            }
            _ => scope.pair(place, "headers", &name, value.clone()),
        });
    }

    /// A field that only the server sets. Upstreams never set Server and Date.
    pub(super) fn own_field(
        &mut self,
        field: &Directive,
        name: &str,
        value: Value,
        instead: &str,
        paths: &[String],
    ) {
        let place = &field.place;
        match name.to_ascii_lowercase().as_str() {
            "server" | "date" if field.name == "header_down" => {
                self.draft.note(
                    place,
                    format!("the field {name} of an upstream is never passed"),
                    "nothing to do",
                );
            }
            "server" if paths.is_empty() => {
                self.draft.top.set(place, "server_header", value);
                self.draft.note(place, "the field Server is the same for all hosts", "see server_header");
            }
            "server" => self.draft.warn(place, "the field Server is the same for all paths", instead),
            _ => self.draft.error(place, unconverted(field), instead),
        }
    }

    fn tls(&mut self, child: &Directive, host: &mut Host) {
        let place = &child.place;
        match child.arguments.as_slice() {
            [one] if one == "internal" => {
                self.draft.warn(
                    place,
                    "there is no local authority",
                    "the server makes a certificate that clients do not trust",
                );
            }
            [email] if email.contains('@') => self.draft.certificates.set(place, "email", email.as_str()),
            [certificate, key] => {
                host.scope.remove("acme");
                for (name, file) in [("certificate", certificate), ("certificate_key", key)] {
                    host.scope.set(place, name, self.folder.join(file).to_string_lossy().into_owned());
                }
                for listen in host.listens.iter_mut().filter(|listen| !listen.address.ends_with(":80")) {
                    listen.tls = true;
                }
            }
            [] => {}
            _ => self.draft.error(place, unconverted(child), "see certificate"),
        }
        for inner in child.children() {
            let what_to_do = match inner.name.as_str() {
                "dns" => "write a program that sets the record, and name it in dns_command of [certificates]",
                _ => "see [tls] and [certificates]",
            };
            self.draft.error(&inner.place, unconverted(inner), what_to_do);
        }
    }

    fn bind(&mut self, child: &Directive, host: &mut Host) {
        let mut listens: Vec<Listen> = Vec::new();
        for listen in &host.listens {
            let Some((_, port)) = listen.address.rsplit_once(':') else { continue };
            for address in &child.arguments {
                let Ok(ip) = address.parse::<std::net::IpAddr>() else {
                    return self.draft.error(&child.place, unconverted(child), "write IP addresses");
                };
                let address = std::net::SocketAddr::new(ip, port.parse().unwrap_or(80)).to_string();
                if !listens.iter().any(|other| other.address == address) {
                    listens.push(Listen { address, ..listen.clone() });
                }
            }
        }
        host.listens = listens;
    }

    fn try_files(&mut self, child: &Directive, way: &Way, host: &mut Host) {
        let place = &child.place;
        let Some(Tried { suffixes, target, is_path_first }) = tried(&child.arguments) else {
            let what_to_do =
                "write {path}, {path}.html, {path}/ and {path}/index.html, and a file at the end";
            return self.draft.error(place, unconverted(child), what_to_do);
        };
        if suffixes.is_empty() && target.is_none() {
            return;
        }
        if way.strips {
            return self.draft.error(place, unconverted(child), "write it in the root of the files");
        }
        if !suffixes.is_empty() && !is_path_first {
            let what =
                format!("{}: a file of the path itself precedes those with an extension", child.text());
            self.draft.warn(place, what, "nothing to do, unless there are files with both names");
        }
        self.each(&way.paths, place, host, |scope| {
            if !suffixes.is_empty() {
                scope.set(place, "try_suffixes", suffixes.clone());
            }
            if let Some(path) = &target {
                scope.set(place, "fallback", path.as_str());
                scope.set(place, "fallback_for", "all");
            }
        });
    }

    fn finish(&mut self, host: &mut Host, disk: &dyn Disk) {
        self.leave_scripts(host);
        let paths = host.routes.iter().filter_map(|route| route.text("path"));
        let blocks: BTreeMap<String, Option<usize>> =
            paths.map(|path| (path.to_owned(), self.block_of(path))).collect();
        self.add_given(&blocks, host);
        host.add_up(disk, |outer, path| blocks.get(outer) != blocks.get(path));
        // The first pattern counts, and Caddy rejects a request before it runs a script.
        sort::by_key(&mut host.routes, |route| {
            match route.text("path").unwrap_or_default().contains(['*', '?']) {
                true if route.get("return").is_some() => 0,
                true if route.denies() => 1,
                true if route.runs() => 3,
                _ => 2,
            }
        });
        host.share_handlers();
        let responds =
            |path: &str| host.routes.iter().any(|route| route.text("path") == Some(path) && route.responds());
        let apart = self.blocks.iter().filter(|block| !block.runs && !responds(&block.path));
        let apart: Vec<_> = apart.map(|block| (block.path.clone(), block.place.clone())).collect();
        host.without_programs(&apart, Scope::runs, self.draft);
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

    /// The innermost block that is for a path.
    fn block_of(&self, path: &str) -> Option<usize> {
        let blocks = self.blocks.iter().enumerate().filter(|(_, block)| within::covers(&block.path, path));
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
            let path = route.text("path").unwrap_or_default().to_owned();
            let mut block = blocks.get(&path).copied().flatten();
            // Blocks are within blocks.
            for _ in 0..MAX_DEPTH {
                let Some(at) = block else { break };
                block = self.blocks.get(at).and_then(|block| block.outer);
                let is_around = |given: &&(Option<usize>, Scope)| {
                    let outer = given.1.text("path").unwrap_or_default();
                    given.0 == block && outer != path && within::covers(outer, &path)
                };
                self.given.iter().filter(is_around).for_each(|(_, given)| route.add(given));
            }
        }
    }
}

/// Makes what the rest says about files the host's, if nothing but the rest has files.
fn hoist(host: &mut Host) {
    let is_rest = |route: &Scope| route.text("path") == Some("/");
    let has_none = |route: &Scope| {
        route.responds() || route.text("path").unwrap_or_default().contains(['*', '?']) || is_rest(route)
    };
    let Some(at) = host.routes.iter().position(|route| is_rest(route) && !route.responds()) else { return };
    if !host.routes.iter().all(has_none) {
        return;
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

/// Whether a block removes the prefix that it is for.
fn strips_prefix(block: &Directive, paths: &[String]) -> bool {
    let prefix =
        block.children().iter().find(|child| child.name == "uri" && child.argument(0) == "strip_prefix");
    prefix.is_some_and(|uri| paths == [format!("/{}/", uri.argument(1).trim_matches('/'))])
}

/// Whether a directive or one within runs scripts.
fn runs_scripts(directive: &Directive) -> bool {
    directive.name == "php_fastcgi"
        || directive.name == "transport" && directive.argument(0) == "fastcgi"
        || directive.children().iter().any(runs_scripts)
}

fn log(directive: &Directive, host: &mut Option<&mut Scope>, draft: &mut Draft) {
    let place = &directive.place;
    let mut target = "stderr".to_owned();
    let mut format = "json";
    for option in directive.children() {
        match (option.name.as_str(), option.argument(0)) {
            ("output", "stdout") => "stdout".clone_into(&mut target),
            ("output", "stderr") => {}
            ("output", "file") => option.argument(1).clone_into(&mut target),
            ("output", "discard") if host.is_none() => return draft.log.set(place, "access", false),
            ("format", "console") => format = "combined",
            ("format", "json") => {}
            ("level", _) => {}
            _ => draft.warn(&option.place, unconverted(option), "see [log]"),
        }
    }
    if target.contains('{') || !(target.contains('/') || target.starts_with("std")) {
        return draft.error(place, unconverted(directive), "name a file by its whole path");
    }
    draft.log.set(place, "format", format);
    match host {
        Some(scope) => scope.set(place, "access_log", target),
        None => draft.log.set(place, "access", target),
    }
}

/// Bytes of `10MB`, `1MiB`.
fn size(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: i64 = text[..end].parse().ok()?;
    let factor = match text[end..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|bytes| *bytes <= 1 << 40)
}
