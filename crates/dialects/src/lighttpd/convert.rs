//! What the statements of lighttpd.conf become.

use std::path::Path;

use crate::Conversion;
use crate::disk::Disk;
use crate::draft::{Draft, Host, Listen, Scope};
use crate::regex;
use crate::tree::Place;

use super::order::{exclude, rewritten_twice};
use super::paths::url_patterns;
use super::read::{Reader, Statement};
use super::settings::{Setting, apply_setting};

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
    draft.allow_scripts_as_before("lighttpd takes nothing from its scripts.");
    draft.log_in_local_time("lighttpd has the time of the machine.");
    draft.written(file.to_owned(), "lighttpd")
}

pub(super) fn unconverted(name: &str) -> String {
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
    let mut follows_host = false;
    for statement in statements {
        let is_rest = follows_host && is_rest(statement);
        follows_host = is_host(statement);
        if !follows_host && !is_rest {
            apply(statement, &[], &mut host, draft);
        }
    }
    let mut hosts: Vec<Host> = Vec::new();
    let common = host.clone();
    // The names of the conditions that an `else` is for the rest of.
    let mut before: Vec<String> = Vec::new();
    let mut has_rest = false;
    for statement in statements {
        let Statement::When { field, operator, operand, is_else, block, place } = statement else { continue };
        if !is_host(statement) {
            if *is_else && field.is_empty() && !before.is_empty() {
                others(block, place, &hosts, &before, &mut host, draft);
                has_rest = true;
            }
            before.clear();
            continue;
        }
        if !*is_else {
            before.clear();
        }
        // Hosts of other conditions would have what the rest has, too.
        if has_rest {
            draft.error(place, unconverted(&format!("{field} {operator} {operand}")), ONE_CHAIN);
            continue;
        }
        let own_names = names(operator, operand);
        let Some(own_names) = own_names.filter(|own| before.iter().all(|name| are_apart(name, own))) else {
            let what_to_do = "write the names of the host, and none that an earlier condition has";
            draft.error(place, unconverted(&format!("{field} {operator} {operand}")), what_to_do);
            continue;
        };
        before.extend(own_names.iter().cloned());
        let mut own = Host { names: own_names, is_default: false, ..common.clone() };
        own.scope.line = Some(place.line);
        for inner in block {
            apply(inner, &[], &mut own, draft);
        }
        hosts.push(own);
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

const ONE_CHAIN: &str = "write one chain of conditions on the host";

/// An `else` without a condition, behind those of hosts: what it says is for the default host. Hosts of other conditions
/// would have it, too.
fn others(
    block: &[Statement],
    place: &Place,
    hosts: &[Host],
    before: &[String],
    host: &mut Host,
    draft: &mut Draft,
) {
    if hosts.iter().any(|own| own.names.iter().any(|name| !before.contains(name))) {
        return draft.error(place, "an else cannot be converted", ONE_CHAIN);
    }
    block.iter().for_each(|inner| apply(inner, &[], host, draft));
}

/// Whether it is an `else` without a condition.
fn is_rest(statement: &Statement) -> bool {
    matches!(statement, Statement::When { field, is_else: true, .. } if field.is_empty())
}

/// Whether no name is one of both.
fn are_apart(name: &str, others: &[String]) -> bool {
    let has = |pattern: &str, name: &str| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => pattern == name,
    };
    others.iter().all(|other| !has(name, other) && !has(other, name))
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
            let is_name = |name: &String| !name.trim_start_matches("*.").contains(['*', '?', '/']);
            let names = |all: Option<Vec<String>>| all.filter(|all| all.iter().all(is_name));
            names(regex::values(operand)).or_else(|| names(regex::patterns(operand)))
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
                ("$HTTP[\"url\"]", "==" | "=^" | "=$" | "=~") if paths.is_empty() => {
                    match url_patterns(operator, operand) {
                        Some(own) => block.iter().for_each(|inner| apply(inner, &own, host, draft)),
                        None => draft.error(place, unconverted(&whole), "write prefixes, or patterns with *"),
                    }
                }
                ("$HTTP[\"url\"]", "!=" | "!~") if paths.is_empty() => {
                    if except(operator, operand, block, place, host, draft).is_none() {
                        draft.error(
                            place,
                            unconverted(&whole),
                            "see path of [[rule]], and auth of [[route]]",
                        );
                    }
                }
                ("$HTTP[\"useragent\"]" | "$HTTP[\"user-agent\"]" | "$HTTP[\"request-method\"]", _)
                    if denies_all(block) =>
                {
                    match client_rule(field, operator, operand, paths, place) {
                        Some(rule) => host.scope.rules.push(rule),
                        None => {
                            draft.error(place, unconverted(&whole), "see method and user_agent of [[rule]]")
                        }
                    }
                }
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
                ("$HTTP[\"querystring\"]" | "$HTTP[\"query-string\"]", operator) => {
                    let Some((queries, all)) = queries(operator, operand).zip(denied_paths(block, paths))
                    else {
                        let what_to_do =
                            "only url.access-deny for everything can depend on it; see query of [[rule]]";
                        return draft.error(place, unconverted(&whole), what_to_do);
                    };
                    for denied in all {
                        let mut rule = Scope::new(place.line);
                        rule.set(place, "query", queries.clone());
                        if !denied.is_empty() {
                            rule.set(place, "path", denied);
                        }
                        rule.set(place, "then", "deny");
                        host.scope.rules.push(rule);
                    }
                }
                _ => draft.error(place, unconverted(&whole), "see [[rule]], [[host]] and [[route]]"),
            }
        }
    }
}

/// What is for all paths but some: a denial, or a password. `None`: it is something else.
fn except(
    operator: &str,
    operand: &str,
    block: &[Statement],
    place: &Place,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    let positive = if operator == "!=" { "==" } else { "=~" };
    let excepted = url_patterns(positive, operand)?;
    // Nothing but the folders and the paths themselves stays open.
    if excepted.iter().any(|path| path.contains(['*', '?'])) {
        return None;
    }
    if denies_all(block) {
        let mut rule = Scope::new(place.line);
        rule.set(place, "path", excepted.iter().map(|path| format!("!{path}")).collect::<Vec<_>>());
        rule.set(place, "then", "deny");
        host.scope.rules.push(rule);
        return Some(());
    }
    let asks = |statement: &Statement| {
        let Statement::Set { name, value, .. } = statement else { return false };
        name == "auth.require" && value.pairs().iter().all(|(path, _)| matches!(*path, "" | "/"))
    };
    let asks_already = |scope: &Scope| scope.get("auth").is_some();
    if block.is_empty()
        || !block.iter().all(asks)
        || host.routes.iter().chain([&host.scope]).any(asks_already)
    {
        return None;
    }
    block.iter().for_each(|inner| apply(inner, &[], host, draft));
    for path in excepted {
        host.route(&path, place).set(place, "auth", "off");
    }
    Some(())
}

/// The rule that denies requests with a method, or by a program. `None`: a rule cannot say it.
fn client_rule(field: &str, operator: &str, operand: &str, paths: &[String], place: &Place) -> Option<Scope> {
    let is_method = field.contains("method");
    let found = match operator {
        "==" | "!=" if !operand.contains(['*', '?']) && !operand.starts_with('!') => vec![operand.to_owned()],
        // A rule knows no case, so that it denies more.
        "=~" if !is_method => regex::values(operand)?,
        "=~" | "!~" if is_method => regex::values(operand.strip_prefix('^')?.strip_suffix('$')?)?
            .iter()
            .map(|method| method.trim_matches('*').to_owned())
            .collect(),
        _ => return None,
    };
    let is_method_name = |text: &String| text.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    if is_method && !found.iter().all(is_method_name) {
        return None;
    }
    let sign = if operator.starts_with('!') { "!" } else { "" };
    let mut rule = Scope::new(place.line);
    let key = if is_method { "method" } else { "user_agent" };
    rule.set(place, key, found.iter().map(|text| format!("{sign}{text}")).collect::<Vec<_>>());
    if !paths.is_empty() {
        rule.set(place, "path", paths.to_vec());
    }
    rule.set(place, "then", "deny");
    Some(rule)
}

/// The queries of a condition. `None`: a rule, which knows no case, would deny fewer.
fn queries(operator: &str, operand: &str) -> Option<Vec<String>> {
    let found = match operator {
        "=~" | "!~" => regex::values(operand)?,
        "==" | "!=" if !operand.contains(['*', '?']) && !operand.starts_with('!') => vec![operand.to_owned()],
        _ => return None,
    };
    match operator.starts_with('!') {
        true if found.iter().any(|one| one.contains(|c: char| c.is_ascii_alphabetic())) => None,
        true => Some(found.into_iter().map(|one| format!("!{one}")).collect()),
        false => Some(found),
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
