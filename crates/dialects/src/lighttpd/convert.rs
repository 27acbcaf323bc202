//! What the statements of lighttpd.conf become.

use std::path::Path;

use site::config::own_field;

use crate::Conversion;
use crate::disk::Disk;
use crate::document::Value;
use crate::draft::{Draft, Host, Listen, Scope, with_end};
use crate::regex;
use crate::tree::Place;
use crate::within::covers;
use crate::words;

use super::names::{KNOWN, NEEDLESS};
use super::order::{exclude, rewritten_twice};
use super::read::{Datum, Reader, Statement};

/// Reads the file.
pub fn convert(file: &Path, disk: &dyn Disk) -> Conversion {
    let mut draft = Draft::default();
    let folder = disk.absolute(file).parent().map(Path::to_path_buf).unwrap_or_default();
    match disk.read(file) {
        Ok(bytes) => {
            let statements = Reader::new(disk, &folder).read(&bytes, &mut draft);
            sites(&statements, disk, &mut draft);
            files(disk, &mut draft);
        }
        Err(error) => draft.findings.unreadable(&error),
    }
    draft.top.preset("compress", false, "lighttpd compresses nothing without mod_deflate.");
    draft.top.preset("precompressed", Vec::<String>::new(), "nor does it look for compressed files.");
    draft.top.preset("charset", false, "lighttpd names no charset.");
    draft.top.preset("symlinks", "follow", "lighttpd follows every link. \"beneath\" is safer.");
    draft.top.preset(
        "dotfiles",
        "allow",
        "lighttpd sends files whose name begins with a dot. \"deny\" is safer.",
    );
    draft.log_in_local_time("lighttpd has the time of the machine.");
    draft.written(file.to_owned(), "lighttpd")
}

fn unconverted(name: &str) -> String {
    format!("{} cannot be converted", name.trim_end_matches('+').escape_debug())
}

fn sites(statements: &[Statement], disk: &dyn Disk, draft: &mut Draft) {
    let mut host = Host { scope: Scope::new(1), is_default: true, ..Host::default() };
    let find = |name: &str| {
        statements.iter().find_map(|statement| match statement {
            Statement::Set { name: found, value, .. } if found == name => Some(value.text()),
            _ => None,
        })
    };
    let bind = find("server.bind").unwrap_or("0.0.0.0");
    let port = find("server.port").unwrap_or("80");
    let is_secure = find("ssl.engine") == Some("enable");
    listen(&format!("{bind}:{port}"), is_secure, &Place::at(1), &mut host, draft);
    // What is for all hosts comes first, because each of them has it, too.
    for statement in statements.iter().filter(|statement| !is_host(statement)) {
        apply(statement, &[], &mut host, draft);
    }
    let mut hosts = Vec::new();
    for statement in statements {
        if let Statement::When { field, operator, operand, is_else, block, place } = statement
            && is_host(statement)
        {
            if *is_else {
                draft.error(place, "an else cannot be converted", "write its condition");
                continue;
            }
            let Some(names) = names(operator, operand) else {
                draft.error(
                    place,
                    unconverted(&format!("{field} {operator} {operand}")),
                    "write the names of the host",
                );
                continue;
            };
            let mut own = Host { names, is_default: false, ..host.clone() };
            own.scope.line = Some(place.line);
            for inner in block {
                apply(inner, &[], &mut own, draft);
            }
            hosts.push(own);
        }
    }
    draft.hosts.push(host);
    draft.hosts.extend(hosts);
    let mut hosts = std::mem::take(&mut draft.hosts);
    hosts.iter_mut().for_each(|host| exclude(host, disk, draft));
    if !has_setting(statements, "url.rewrite-repeat") {
        hosts.iter().for_each(|host| rewritten_twice(host, draft));
    }
    draft.hosts = hosts;
}

fn has_setting(statements: &[Statement], wanted: &str) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Set { name, .. } => name.trim_end_matches('+') == wanted,
        Statement::When { block, .. } => has_setting(block, wanted),
    })
}

/// An alias of a file is the root of its path, if the file has this path in some folder.
fn files(disk: &dyn Disk, draft: &mut Draft) {
    let mut others = Vec::new();
    for route in draft.hosts.iter_mut().flat_map(|host| &mut host.routes) {
        let Some(file) = route.text("alias").map(str::to_owned) else { continue };
        let Some(path) = route.text("path").map(|path| path.trim_end_matches('/').to_owned()) else {
            continue;
        };
        if !disk.is_file(Path::new(&file)) {
            continue;
        }
        let place = route.place();
        match file.strip_suffix(&path).filter(|root| !root.is_empty()) {
            Some(root) => {
                route.remove("alias");
                route.set(&place, "root", root);
                route.set(&place, "path", path);
            }
            None => others.push((place, unconverted(&format!("alias.url \"{path}\" => \"{file}\"")))),
        }
    }
    for (place, what) in others {
        draft.error(&place, what, "an alias is for a folder; write that of the file");
    }
}

fn is_host(statement: &Statement) -> bool {
    matches!(statement, Statement::When { field, .. } if field == "$HTTP[\"host\"]")
}

fn names(operator: &str, operand: &str) -> Option<Vec<String>> {
    match operator {
        "==" => Some(vec![operand.to_lowercase()]),
        "=$" if operand.starts_with('.') => Some(vec![format!("*{}", operand.to_lowercase())]),
        "=~" => {
            if let Some(rest) = operand.strip_prefix("(^|\\.)").and_then(|rest| rest.strip_suffix('$')) {
                let name = regex::literal(rest)?;
                return Some(vec![name.clone(), format!("*.{name}")]);
            }
            let all = regex::patterns(operand)?;
            let is_name = |name: &String| !name.trim_start_matches("*.").contains(['*', '?', '/']);
            all.iter().all(is_name).then_some(all)
        }
        _ => None,
    }
}

fn listen(address: &str, tls: bool, place: &Place, host: &mut Host, draft: &mut Draft) {
    let address = match address.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None if address.starts_with('/') => format!("unix:{}", address.trim_end_matches(":80")),
        None => address.replacen("localhost:", "127.0.0.1:", 1).replacen("*:", "0.0.0.0:", 1),
    };
    if !address.starts_with("unix:") && address.parse::<std::net::SocketAddr>().is_err() {
        return draft.error(
            place,
            format!("the address {address} cannot be converted"),
            "write an IP address and a port",
        );
    }
    host.listens.push(Listen { address, tls, proxy: false });
}

fn apply(statement: &Statement, paths: &[String], host: &mut Host, draft: &mut Draft) {
    match statement {
        Statement::Set { name, value, place } => {
            let name = name.trim_end_matches('+');
            apply_setting(&Setting { name, value, place, paths }, host, draft);
        }
        Statement::When { field, operator, operand, is_else, block, place } => {
            let whole = format!("{field} {operator} \"{operand}\"");
            match (field.as_str(), operator.as_str()) {
                _ if *is_else => draft.error(place, "an else cannot be converted", "write its condition"),
                ("$SERVER[\"socket\"]", "==") => {
                    let is_on = |inner: &Statement| matches!(inner, Statement::Set { name, value, .. } if name == "ssl.engine" && value.is_on());
                    listen(operand, block.iter().any(is_on), place, host, draft);
                    block.iter().for_each(|inner| of_socket(inner, paths, host, draft));
                }
                ("$HTTP[\"scheme\"]", "==") if operand == "http" && redirects_to_https(block) => {
                    host.scope.set(place, "https_redirect", true);
                }
                ("$HTTP[\"url\"]", operator) if paths.is_empty() => match url_patterns(operator, operand) {
                    Some(own) => block.iter().for_each(|inner| apply(inner, &own, host, draft)),
                    None => draft.error(place, unconverted(&whole), "write prefixes, or patterns with *"),
                },
                ("$HTTP[\"remoteip\"]" | "$HTTP[\"remote-ip\"]", "==" | "!=") => {
                    match denied_paths(block, paths) {
                        Some(all) => {
                            for denied in all {
                                let mut rule = Scope::new(place.line);
                                let sign = if operator == "!=" { "!" } else { "" };
                                rule.set(place, "address", format!("{sign}{operand}"));
                                if !denied.is_empty() {
                                    rule.set(place, "path", denied);
                                }
                                rule.set(place, "then", "deny");
                                host.scope.rules.push(rule);
                            }
                        }
                        None => {
                            draft.error(place, unconverted(&whole), "see [[rule]], [[host]] and [[route]]")
                        }
                    }
                }
                _ => draft.error(place, unconverted(&whole), "see [[rule]], [[host]] and [[route]]"),
            }
        }
    }
}

/// A host responds on all addresses, so that one of them has nothing of its own but TLS.
fn of_socket(inner: &Statement, paths: &[String], host: &mut Host, draft: &mut Draft) {
    match inner {
        Statement::Set { name, .. } if name.starts_with("ssl.") || name == "server.use-ipv6" => {
            apply(inner, paths, host, draft);
        }
        Statement::Set { name, place, .. } => {
            let what = format!("{} for one address", unconverted(name));
            draft.error(place, what, "write a host with addresses of its own");
        }
        Statement::When { place, .. } => {
            draft.error(
                place,
                "a condition for one address cannot be converted",
                "see addresses of [[host]]",
            );
        }
    }
}

fn redirects_to_https(block: &[Statement]) -> bool {
    let target = |statement: &Statement| match statement {
        Statement::Set { name, value, .. } if name == "url.redirect" => {
            value.pairs().iter().all(|(_, target)| {
                matches!(
                    target.text(),
                    "https://${url.authority}${url.path}${qsa}"
                        | "https://%0$0"
                        | "https://%1$0"
                        | "https://${url.authority}$0"
                )
            })
        }
        Statement::Set { name, .. } => name == "url.redirect-code",
        Statement::When { field, operand, block, .. } => {
            field == "$HTTP[\"host\"]" && operand == ".*" && redirects_to_https(block)
        }
    };
    !block.is_empty() && block.iter().all(target)
}

/// What a block denies: its paths, or those of the blocks within. `None`: it does something else.
fn denied_paths(block: &[Statement], paths: &[String]) -> Option<Vec<Vec<String>>> {
    if denies_all(block) {
        return Some(vec![paths.to_vec()]);
    }
    let denied = |statement: &Statement| match statement {
        Statement::When { field, operator, operand, is_else: false, block, .. }
            if field == "$HTTP[\"url\"]" && paths.is_empty() && denies_all(block) =>
        {
            url_patterns(operator, operand)
        }
        _ => None,
    };
    if block.is_empty() { None } else { block.iter().map(denied).collect() }
}

fn denies_all(block: &[Statement]) -> bool {
    let denies = |statement: &Statement| matches!(statement, Statement::Set { name, value, .. } if name == "url.access-deny" && value.texts() == [""]);
    !block.is_empty() && block.iter().all(denies)
}

fn url_patterns(operator: &str, operand: &str) -> Option<Vec<String>> {
    match operator {
        "==" => Some(vec![regex::alone(operand)]).filter(|_| !operand.contains(['*', '?'])),
        "=^" => Some(beginnings(operand)),
        "=$" => Some(vec![format!("*{operand}")]).filter(|_| !operand.contains('/')),
        "=~" => regex::exact(operand).map(|path| vec![path]).or_else(|| regex::patterns(operand)),
        _ => None,
    }
}

/// The folder, and the file.
fn prefixes(text: &str) -> Vec<String> {
    if text.ends_with('/') { vec![text.to_owned()] } else { vec![format!("{text}/"), text.to_owned()] }
}

/// lighttpd compares the beginnings of texts.
fn beginnings(text: &str) -> Vec<String> {
    let longer = regex::longer_names(text);
    prefixes(text).into_iter().chain(longer).collect()
}

/// The paths that both patterns have. `None`: patterns cannot say it.
fn meet(one: &str, other: &str) -> Option<Vec<String>> {
    let longer = |pattern: &str| pattern.strip_suffix("?*/**").map(str::to_owned);
    let covers = |outer: &str, inner: &str| match longer(outer) {
        Some(text) => inner
            .strip_prefix(&text)
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '*'])),
        None => outer.ends_with('/') && inner.starts_with(outer),
    };
    if one == other || one == "/" || covers(one, other) {
        return Some(vec![other.to_owned()]);
    }
    if other == "/" || covers(other, one) {
        return Some(vec![one.to_owned()]);
    }
    let is_glob = |pattern: &str| pattern.contains(['*', '?']);
    let (glob, path) = match (is_glob(one), is_glob(other)) {
        (false, false) => return Some(Vec::new()),
        (true, false) => (one, other),
        (false, true) => (other, one),
        (true, true) => return None,
    };
    match glob.strip_prefix('*').filter(|end| !is_glob(end) && !end.contains('/')) {
        _ if longer(glob).is_some() => Some(Vec::new()),
        _ if path.ends_with('/') => regex::within(path, glob).map(|pattern| vec![pattern]),
        Some(end) if path.ends_with(end) => Some(vec![path.to_owned()]),
        Some(_) => Some(Vec::new()),
        None => None,
    }
}

/// The paths of some patterns within a block. `None`: patterns cannot say it.
fn narrowed(paths: &[String], own: &[String]) -> Option<Vec<String>> {
    if paths.is_empty() {
        return Some(own.to_vec());
    }
    let all: Option<Vec<Vec<String>>> =
        paths.iter().flat_map(|path| own.iter().map(|own| meet(path, own))).collect();
    let mut all = all?.concat();
    all.dedup();
    Some(all)
}

/// The paths that begin with a text. No text is everything.
fn begun(text: &str) -> Vec<String> {
    if matches!(text, "" | "/") { vec!["/".to_owned()] } else { beginnings(text) }
}

/// The paths with an ending, for a block or everywhere. `None`: patterns cannot say it.
fn within(paths: &[String], ending: &str) -> Option<Vec<String>> {
    let pattern = format!("*{ending}");
    if paths.is_empty() {
        return Some(vec![pattern]);
    }
    let mut all = Vec::new();
    for path in paths {
        match path.ends_with('/') {
            true => all.push(regex::within(path, &pattern)?),
            false if path.trim_end_matches("?*/**").contains('?') => return None,
            false => all.extend(with_end(path, ending)),
        }
    }
    (!all.is_empty()).then_some(all)
}

fn number(value: &Datum) -> i64 {
    value.text().parse().unwrap_or(0)
}

/// `NAME = VALUE`, for the host, or for some paths of it.
struct Setting<'s> {
    name: &'s str,
    value: &'s Datum,
    place: &'s Place,
    paths: &'s [String],
}

/// Converts a setting to keys. A setting that needs more than a line or two has a function of its own.
fn apply_setting(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    let text = value.text();
    let seconds = || number(value).clamp(1, 86_400);
    match name {
        name if !KNOWN.names().any(|known| known == name) => {
            draft.error(place, unconverted(name), &KNOWN.what_to_do(name));
        }
        "server.port" | "server.bind" | "ssl.engine" | "server.dir-listing.encoding" => {}
        "auth.backend" if matches!(text, "htpasswd" | "htdigest" | "plain") => {}
        "auth.backend" => {
            draft.error(place, unconverted(&format!("auth.backend \"{text}\"")), "see authorizer")
        }
        name if name.starts_with("auth.backend.") && !paths.is_empty() => {
            let what = format!("{} for some paths", unconverted(name));
            draft.error(place, what, "write it outside of the condition");
        }
        "server.document-root" => setting.set(host, "root", text.trim_end_matches('/')),
        "server.username" => draft.top.set(place, "user", text),
        "server.groupname" => draft.top.set(place, "group", text),
        "server.pid-file" => draft.top.set(place, "pid_file", text),
        "server.chroot" => draft.top.set(place, "chroot", text),
        "server.errorlog-use-syslog" if value.is_on() => draft.log.set(place, "error", "syslog"),
        "server.errorlog" => draft.log.set(place, "error", log_target(text)),
        "accesslog.filename" => draft.log.set(place, "access", log_target(text)),
        "accesslog.use-syslog" if value.is_on() => draft.log.set(place, "access", "syslog"),
        "accesslog.format" => {
            let has_agent = text.to_ascii_lowercase().contains("user-agent");
            draft.log.set(place, "format", if has_agent { "combined" } else { "common" });
            draft.warn(place, "accesslog.format: a format of the server is nearest", "see format of [log]");
        }
        "server.breakagelog" => {
            draft.warn(place, "what scripts say goes to the error log", "see stderr_lines of [scripts]");
        }
        name if name.starts_with("status.") => {
            draft.warn(place, format!("{name}: there is no such page"), "see taipan stats");
        }
        "server.tag" if text.is_empty() => draft.top.set(place, "server_header", false),
        "server.tag" => draft.top.set(place, "server_header", text),
        "server.max-connections" => draft.limits.set(place, "connections", number(value).clamp(1, 1_000_000)),
        "server.max-keep-alive-requests" => {
            draft.limits.set(place, "requests", number(value).clamp(0, 1_000_000))
        }
        "server.max-keep-alive-idle" => draft.timeouts.set(place, "idle", seconds()),
        "server.max-read-idle" => {
            draft.timeouts.set(place, "head", seconds());
            draft.timeouts.set(place, "body", seconds());
        }
        "server.max-write-idle" => draft.timeouts.set(place, "write", seconds()),
        "server.max-request-size" => match text.parse::<i64>() {
            Ok(..=0) => setting.set(host, "max_body", 1 << 40),
            Ok(kibibytes) => setting.set(host, "max_body", kibibytes.min(1 << 30) << 10),
            Err(_) => draft.error(place, unconverted(name), "write a number"),
        },
        "index-file.names" | "server.indexfiles" => setting.set(host, "index", value.texts()),
        "dir-listing.activate" | "server.dir-listing" => setting.set(host, "listing", value.is_on()),
        "server.follow-symlink" if !value.is_on() => setting.set(host, "symlinks", "never"),
        "server.follow-symlink" => {}
        "server.error-handler-404" | "server.error-handler" => {
            setting.set(host, "fallback", text);
            setting.set(host, "fallback_for", "all");
            draft.warn(place, format!("{name}: the status is that of the file"), "see error_pages");
        }
        "connection.kbytes-per-second" | "server.kbytes-per-second" if text == "0" => {}
        "connection.kbytes-per-second" if number(value) > 0 => speed(setting, "connection", host),
        "server.kbytes-per-second" if number(value) > 0 => speed(setting, "all", host),
        "mimetype.assign" => media_types(setting, host),
        "url.access-deny" => deny_endings(setting, host, draft),
        "static-file.exclude-extensions" => exclude_endings(setting, host, draft),
        "deflate.mimetypes" | "compress.filetype" => compression(setting, host, draft),
        "deflate.allowed-encodings" => {
            let mut codings = value.texts();
            codings.retain(|name| matches!(name.as_str(), "gzip" | "br" | "zstd"));
            setting.set(host, "compress", codings);
        }
        "ssl.pemfile" => setting.set(host, "certificate", text),
        "ssl.privkey" => setting.set(host, "certificate_key", text),
        "ssl.ca-file" | "ssl.cipher-list" | "ssl.openssl.ssl-conf-cmd" | "ssl.honor-cipher-order" => {
            draft.note(place, format!("{name} has no effect"), "see [tls]");
        }
        "alias.url" => aliases(setting, host, draft),
        "setenv.add-response-header" | "setenv.set-response-header" => response_fields(setting, host, draft),
        "setenv.add-environment" | "setenv.set-environment" => setting.set_pairs(host, "env"),
        "expire.url" => expiry(setting, host, draft),
        "userdir.path" => host.scope.set(place, "user_folders", text),
        "auth.backend.htpasswd.userfile" | "auth.backend.htdigest.userfile" => {
            host.scope.set(place, "user_files", text);
        }
        "auth.backend.plain.userfile" => {
            host.scope.set(place, "user_files", text);
            host.scope.set(place, "plain_passwords", true);
        }
        "auth.require" => auth(setting, host, draft),
        "url.redirect" => redirects(setting, host, draft),
        "url.redirect-code" => {
            for route in host.routes.iter_mut().filter(|route| route.get("redirect").is_some()) {
                route.set(place, "status", number(value));
            }
        }
        "url.rewrite-once" | "url.rewrite" | "url.rewrite-repeat" => rewrites(setting, host, draft),
        "url.rewrite-if-not-file" => fallback(setting, host, draft),
        "cgi.assign" | "fastcgi.server" | "scgi.server" | "proxy.server"
            if value.pairs().is_empty() && !paths.is_empty() =>
        {
            let what = "nothing runs the files of these paths, which a route cannot say";
            draft.error(place, format!("{name}: {what}"), "add url.access-deny for these files to the block");
        }
        "cgi.assign" => scripts(setting, host, draft),
        "fastcgi.server" => upstreams(value, "fastcgi", paths, place, host, draft),
        "scgi.server" => upstreams(value, "scgi", paths, place, host, draft),
        "proxy.server" => upstreams(value, "http", paths, place, host, draft),
        "proxy.balance" | "fastcgi.balance" => {
            draft.warn(place, format!("{name} is not converted"), "see balance")
        }
        "extforward.forwarder" => trusted(value, place, draft),
        "extforward.headers" | "extforward.params" | "extforward.hap-PROXY" => {
            draft.note(place, format!("{name} has no effect"), "see trusted_proxies");
        }
        "proxy.header" | "proxy.forwarded" => {
            let what = format!("{name}: upstreams have X-Forwarded-For and may upgrade to WebSocket");
            draft.note(place, what, "see the manual on proxies");
        }
        "simple-vhost.server-root" => {
            host.scope.set(place, "root", format!("{}/$host", text.trim_end_matches('/')))
        }
        "simple-vhost.document-root" => match host.scope.text("root").map(str::to_owned) {
            Some(root) => host.scope.set(place, "root", format!("{root}/{}", text.trim_matches('/'))),
            None => draft.error(place, unconverted(name), "write it behind simple-vhost.server-root"),
        },
        "simple-vhost.default-host" => host.scope.set(place, "default_folder", text),
        name if NEEDLESS.contains(&name) => {}
        _ => draft.error(place, unconverted(name), "remove it, or find its like in the manual"),
    }
}

impl Setting<'_> {
    /// For the host, or for the routes of the paths.
    fn each(&self, host: &mut Host, act: impl Fn(&mut Scope)) {
        if self.paths.is_empty() {
            act(&mut host.scope);
        }
        for path in self.paths {
            act(host.route(path, self.place));
        }
    }

    fn set(&self, host: &mut Host, key: &str, value: impl Into<Value>) {
        let value = value.into();
        self.each(host, |scope| scope.set(self.place, key, value.clone()));
    }

    /// The pairs of the value become pairs of a table.
    fn set_pairs(&self, host: &mut Host, table: &str) {
        for (name, value) in self.value.pairs() {
            self.each(host, |scope| scope.pair(self.place, table, name, value.text()));
        }
    }
}

/// The target of a log. lighttpd runs a command by `/bin/sh`, which `|$` means here.
fn log_target(text: &str) -> String {
    text.strip_prefix('|').map_or_else(|| text.to_owned(), |command| format!("|${}", command.trim_start()))
}

fn speed(setting: &Setting, by: &str, host: &mut Host) {
    let mut limit = Scope::new(setting.place.line);
    limit.set(setting.place, "by", by);
    limit.set(setting.place, "download", number(setting.value).clamp(1, 1 << 30) << 10);
    setting.each(host, |scope| scope.limits.push(limit.clone()));
}

fn media_types(setting: &Setting, host: &mut Host) {
    for (extension, kind) in setting.value.pairs() {
        setting.each(host, |scope| match extension.trim_start_matches('.') {
            "" => scope.set(setting.place, "default_type", kind.text()),
            extension => scope.pair(setting.place, "types", extension, kind.text()),
        });
    }
}

/// lighttpd compares the beginnings of types.
fn compression(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let texts = setting.value.texts();
    let types = texts.iter().map(|text| text.split(';').next().unwrap_or(text).trim());
    let types: Vec<String> =
        types.map(|text| if text.ends_with('/') { format!("{text}*") } else { text.to_owned() }).collect();
    if types.iter().any(|text| !text.contains('/')) {
        return draft.error(
            setting.place,
            unconverted(setting.name),
            "write types, such as text/html or text/",
        );
    }
    setting.set(host, "compress", true);
    setting.set(host, "compress_types", types);
}

fn response_fields(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    for (name, value) in setting.value.pairs() {
        let text = value.text();
        match name.to_ascii_lowercase().as_str() {
            "server" if setting.paths.is_empty() && host.is_default => match text {
                "" => draft.top.set(setting.place, "server_header", false),
                text => draft.top.set(setting.place, "server_header", text),
            },
            "server" => {
                draft.warn(setting.place, "Server is the same for all hosts and paths", "see server_header");
            }
            lower if own_field(lower).is_some() => {
                let what = unconverted(&format!("the field {name}"));
                draft.error(setting.place, what, "the server sets it; see types, redirects and compress");
            }
            _ if text.is_empty() => {
                setting.each(host, |scope| scope.pair(setting.place, "headers", name, false))
            }
            _ => setting.each(host, |scope| scope.pair(setting.place, "headers", name, text)),
        }
    }
}

fn deny_endings(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    let mut deny = |path: &str| host.route(path, place).set(place, "return", 403);
    for ending in value.texts() {
        match (ending.as_str(), paths) {
            ("", []) => deny("/"),
            ("", paths) => paths.iter().for_each(|path| deny(path)),
            (ending, paths) if !ending.contains(['/', '*', '?']) => match within(paths, ending) {
                Some(patterns) => patterns.iter().for_each(|pattern| deny(pattern)),
                None => draft.error(place, unconverted(name), "see [[rule]]"),
            },
            _ => draft.error(place, unconverted(name), "see [[rule]]"),
        }
    }
}

fn exclude_endings(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    for ending in setting.value.texts() {
        match within(setting.paths, &ending) {
            Some(patterns) => {
                host.unsent.extend(patterns.into_iter().map(|pattern| (pattern, setting.place.clone())))
            }
            None => draft.error(setting.place, unconverted(setting.name), "see return of [[route]]"),
        }
    }
}

fn aliases(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    let is_within = |path: &str| paths.is_empty() || paths.iter().any(|outer| covers(outer, path));
    // The aliases of a block take the place of others.
    for route in host.routes.iter_mut().filter(|_| !paths.is_empty()) {
        if route.text("path").is_some_and(is_within) {
            route.remove("alias");
        }
    }
    for (from, to) in value.pairs() {
        let path = format!("{}/", from.trim_end_matches('/'));
        if is_within(&path) {
            host.route(&path, place).set(place, "alias", to.text().trim_end_matches('/'));
        } else {
            let what = unconverted(&format!("alias.url \"{from}\""));
            draft.error(place, what, "write it outside of the condition");
        }
    }
}

fn expiry(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    for (begin, time) in value.pairs() {
        let Some(seconds) = seconds(time.text()) else {
            draft.error(place, unconverted(name), "see cache_control");
            continue;
        };
        let own = begun(begin);
        let scopes = if paths.is_empty() { vec![None] } else { paths.iter().map(Some).collect() };
        for path in scopes {
            let within = path.map(std::slice::from_ref).unwrap_or_default();
            let Some(patterns) = narrowed(within, &own) else {
                draft.error(place, unconverted(name), "see cache_control");
                continue;
            };
            for pattern in patterns {
                let scope = match path {
                    Some(path) => host.route(path, place),
                    None => &mut host.scope,
                };
                scope.pair(place, "cache_control", &pattern, format!("max-age={seconds}"));
            }
        }
    }
}

fn scripts(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    for (ending, program) in value.pairs() {
        let patterns = match ending {
            "" => Some(paths.to_vec()),
            ending => within(paths, ending),
        };
        let Some(patterns) = patterns else {
            draft.error(place, unconverted(name), "write the folders whose files are scripts");
            continue;
        };
        for pattern in patterns {
            let route = host.route(&pattern, place);
            route.set(place, "cgi", true);
            if !program.text().is_empty() {
                route.set(place, "interpreter", program.text());
            }
        }
    }
}

/// Seconds of `access plus 7 days`.
fn seconds(text: &str) -> Option<u64> {
    words::seconds(text.trim_start_matches("access").split_whitespace().filter(|word| *word != "plus"))
}

/// `extforward.forwarder = ("10.0.0.1" => "trust")`.
fn trusted(value: &Datum, place: &Place, draft: &mut Draft) {
    let all: Vec<String> = value.pairs().iter().map(|(address, _)| (*address).to_owned()).collect();
    let is_known = |(address, trust): &(&str, &Datum)| *address != "all" && trust.text() == "trust";
    match value.pairs().iter().all(is_known) && !all.is_empty() {
        true => draft.top.set(place, "trusted_proxies", all),
        false => {
            draft.error(place, unconverted("extforward.forwarder"), "write the addresses of the proxies")
        }
    }
}

fn auth(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    for (path, options) in value.pairs() {
        let option = |wanted: &str| {
            options
                .pairs()
                .iter()
                .find(|(name, _)| *name == wanted)
                .map_or(String::new(), |(_, datum)| datum.text().to_owned())
        };
        let mut required = Vec::new();
        for one in option("require").split('|') {
            match one.split_once('=') {
                Some(("user", name)) => required.push(format!("user:{name}")),
                Some(("group", name)) => required.push(format!("group:{name}")),
                None if matches!(one, "" | "valid-user") => {}
                _ => {
                    let what = format!("auth.require: \"{}\" cannot be converted", one.escape_debug());
                    draft.error(place, what, "write user=NAME, group=NAME or valid-user");
                }
            }
        }
        let method = option("method");
        if !matches!(method.as_str(), "basic" | "digest") {
            draft.error(
                place,
                format!("auth.require: there is no method \"{}\"", method.escape_debug()),
                "write basic or digest",
            );
        }
        let Some(patterns) = narrowed(paths, &begun(path)) else {
            draft.error(
                place,
                unconverted(&format!("auth.require \"{path}\"")),
                "write it outside of the condition",
            );
            continue;
        };
        for path in patterns {
            let scope = if path == "/" { &mut host.scope } else { host.route(&path, place) };
            scope.set(place, "auth", if method == "digest" { "digest" } else { "basic" });
            scope.set(place, "realm", option("realm"));
            if !required.is_empty() {
                scope.set(place, "require", required.clone());
            }
        }
    }
}

/// `$1` and the query, as targets of redirects and rewrites have them. `rest` is `$1`.
fn target(text: &str, rest: &str) -> Option<String> {
    let text =
        text.replace("${url.path}", "$path").replace("${qsa}", "$query").replace("${url.query}", "$query");
    let text = text
        .replace("?$query", "$query")
        .replace("$1", rest)
        .replace("$query$query", "$query")
        .replace("%0", "$host")
        .replace("${url.authority}", "$host");
    let rest = text.replace("$path", "").replace("$query", "").replace("${rest}", "").replace("$host", "");
    (!rest.contains(['$', '%']) && !text.is_empty()).then_some(text)
}

/// The paths of an expression within a block, for a target. `None`: patterns cannot say it.
fn targeted(paths: &[String], path: Option<String>, to: &str) -> Option<Vec<String>> {
    let path = path?;
    let all = narrowed(paths, std::slice::from_ref(&path))?;
    // `$1` begins behind the expression, and not behind the prefix of the block.
    (!to.contains("${rest}") || all.iter().all(|own| *own == path)).then_some(all)
}

fn redirects(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    for (expression, to) in value.pairs() {
        let path = regex::prefix(expression).or_else(|| regex::exact(expression));
        let path = path.or_else(|| matches!(expression, "" | "^" | "^/").then(|| "/".to_owned()));
        // The expression finds the query, too.
        let to = target(to.text(), "${rest}$query");
        // What is not captured has no place in the target.
        let others =
            |to: &str| narrowed(paths, &regex::patterns(expression)?).filter(|_| !to.contains("${rest}"));
        let patterns = to.as_deref().and_then(|to| targeted(paths, path, to).or_else(|| others(to)));
        match (patterns, to) {
            (Some(patterns), Some(to)) => {
                for pattern in patterns {
                    let route = host.route(&pattern, place);
                    route.set(place, "redirect", to.as_str());
                    route.set(place, "status", 301);
                }
            }
            _ => draft.error(
                place,
                format!("url.redirect \"{}\" cannot be converted", expression.escape_debug()),
                "see redirects",
            ),
        }
    }
}

fn rewrites(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    for (expression, to) in value.pairs() {
        let path = regex::prefix(expression).filter(|path| path != "/").or_else(|| regex::exact(expression));
        let to = target(to.text(), "${rest}").filter(|to| !to.contains("$query") && !to.contains('?'));
        let patterns = to.as_deref().and_then(|to| targeted(paths, path, to));
        match (patterns, to) {
            (Some(patterns), Some(to)) => {
                for pattern in patterns {
                    host.route(&pattern, place).set(place, "rewrite", to.as_str());
                }
            }
            _ => draft.error(
                place,
                format!("url.rewrite \"{}\" cannot be converted", expression.escape_debug()),
                "see rewrites and fallback",
            ),
        }
    }
}

/// `url.rewrite-if-not-file`, for a front controller.
fn fallback(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let place = setting.place;
    for (expression, to) in setting.value.pairs() {
        let is_all = matches!(
            expression,
            "" | "^/(.*)$"
                | "^/(.*)"
                | "/(.*)"
                | "^(.*)$"
                | "(.*)"
                | "^/.*$"
                | "/"
                | "^/[^?]*(\\?.*)?$"
                | "^/[^?]*(\\?.*)?"
        );
        // What is excepted is not there.
        if to.text() == "$0"
            && let Some(patterns) = url_patterns("=~", expression.trim_end_matches("/?"))
            && setting.paths.is_empty()
        {
            for pattern in patterns {
                host.route(&pattern, place).set(place, "fallback", false);
            }
            continue;
        }
        let to = to.text().replace("/$1", "").replace("$1", "").replace("${qsa}", "").replace("$0", "");
        match to.split_once('?').unwrap_or((&to, "")) {
            (path, "") if is_all && path.starts_with('/') && !path.contains('$') => {
                setting.set(host, "fallback", path);
                setting.set(host, "fallback_for", "all");
            }
            _ => draft.error(
                place,
                format!("url.rewrite-if-not-file \"{}\" cannot be converted", expression.escape_debug()),
                "see fallback",
            ),
        }
    }
}

fn upstreams(
    value: &Datum,
    protocol: &str,
    paths: &[String],
    place: &Place,
    host: &mut Host,
    draft: &mut Draft,
) {
    for (key, servers) in value.pairs() {
        let Datum::List(servers) = servers else {
            draft.error(place, unconverted(key), "write ( \"host\" => \"ADDRESS\", \"port\" => PORT )");
            continue;
        };
        // One server without a list around it.
        let one = [(None, Datum::List(servers.clone()))];
        let is_one = servers
            .iter()
            .any(|(name, _)| name.as_deref() == Some("host") || name.as_deref() == Some("socket"));
        let mut addresses = Vec::new();
        for (_, server) in if is_one { one.as_slice() } else { servers.as_slice() } {
            let option = |wanted: &str| {
                server
                    .pairs()
                    .iter()
                    .find(|(name, _)| *name == wanted)
                    .map(|(_, datum)| datum.text().to_owned())
            };
            if option("bin-path").is_some() {
                draft.warn(place, "bin-path: the program is not started", "see command of [[application]]");
            }
            match (option("socket"), option("host"), option("port")) {
                (Some(socket), _, _) => addresses.push(format!("unix:{socket}")),
                (None, Some(host), _) if host.starts_with('/') => addresses.push(format!("unix:{host}")),
                (None, Some(host), port) => {
                    addresses.push(format!("{host}:{}", port.unwrap_or_else(|| "80".into())))
                }
                _ => draft.error(
                    place,
                    format!("\"{}\" has no host and no socket", key.escape_debug()),
                    "name one",
                ),
            }
        }
        if addresses.is_empty() {
            continue;
        }
        let mut keys = Scope::new(place.line);
        keys.set(place, "address", Value::Texts(addresses));
        keys.set(place, "protocol", protocol);
        let name = draft.application(protocol, keys);
        let patterns = match key {
            "" | "/" if paths.is_empty() => vec!["/".to_owned()],
            "" | "/" => paths.to_vec(),
            key if key.starts_with('/') => prefixes(key),
            key => match within(paths, key) {
                Some(patterns) => patterns,
                None => {
                    let what = format!("{protocol}.server \"{}\" cannot be converted", key.escape_debug());
                    draft.error(place, what, "write the folders of its files");
                    continue;
                }
            },
        };
        for pattern in patterns {
            let route = host.route(&pattern, place);
            let has_ending = !key.is_empty() && !key.starts_with('/');
            match (protocol, has_ending || pattern.contains('*')) {
                ("http", _) => route.set(place, "proxy", format!("http://{name}")),
                (_, true) => route.set(place, "interpreter", name.as_str()),
                (_, false) => route.set(place, "application", name.as_str()),
            }
        }
    }
}
