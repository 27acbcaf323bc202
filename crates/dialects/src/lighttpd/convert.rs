//! What the statements of lighttpd.conf become.

use std::path::Path;

use crate::Conversion;
use crate::brackets::is_wildcard_or_slash;
use crate::disk::Disk;
use crate::draft::{Draft, Host, Listen, Scope};
use crate::regex;
use crate::tree::Place;

use super::conditions::{Chain, apply_all, ordered};
use super::lists::{completed, without_replaced};
use super::order::{exclude, rewritten_twice};
use super::read::{Reader, Statement};

/// Reads the file.
pub fn convert(file: &Path, disk: &dyn Disk) -> Conversion {
    let mut draft = Draft::default();
    let folder = disk.folder_of(file);
    match disk.read(file) {
        Ok(bytes) => {
            let statements = Reader::new(disk, &folder).read(&bytes, &mut draft);
            let statements = completed(&statements, &mut draft);
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
        "unlisted",
        "lighttpd sends files whose name begins with a dot. \"deny\" is safer.",
    );
    draft.allow_scripts_as_before("lighttpd takes nothing from its scripts.");
    draft.log_in_local_time("lighttpd has the time of the machine.");
    draft.written(file.to_owned(), "lighttpd")
}

pub(super) fn unconverted(name: &str) -> String {
    format!("{} cannot be converted", name.trim_end_matches('+').escape_debug())
}

/// What every host has, whatever a condition on the host says.
struct Common<'s> {
    statements: &'s [Statement],
    /// A host with its addresses alone.
    bare: Host,
    host: Host,
}

impl<'s> Common<'s> {
    fn of(statements: &'s [Statement], draft: &mut Draft) -> Common<'s> {
        let find = |name: &str| {
            statements.iter().find_map(|statement| match statement {
                Statement::Set { name: found, value, .. } if found == name => Some(value.text()),
                _ => None,
            })
        };
        let bind = find("server.bind").unwrap_or("0.0.0.0");
        let port = find("server.port").unwrap_or("80");
        let is_secure = find("ssl.engine") == Some("enable");
        let mut bare = Host { scope: Scope::new(1), is_default: true, ..Host::default() };
        listen(&format!("{bind}:{port}"), is_secure, &Place::at(1), &mut bare, draft);
        let mut host = bare.clone();
        for_all_hosts(statements, &mut host, draft);
        Common { statements, bare, host }
    }

    /// As `host`, without the lists that the block of the condition at `at` replaces.
    fn beside(&self, block: &[Statement], at: usize, draft: &mut Draft) -> Host {
        let Some(kept) = without_replaced(self.statements, block, at) else { return self.host.clone() };
        let mut host = self.bare.clone();
        // All of it has been applied before, and its findings are known.
        let findings = std::mem::take(&mut draft.findings);
        for_all_hosts(&kept, &mut host, draft);
        draft.findings = findings;
        host
    }
}

fn sites(statements: &[Statement], disk: &dyn Disk, draft: &mut Draft) {
    // It comes first, because each host has it, too.
    let common = Common::of(statements, draft);
    let mut host = common.host.clone();
    let mut hosts: Vec<Host> = Vec::new();
    // The names of the conditions that an `else` is for the rest of.
    let mut before: Vec<String> = Vec::new();
    let mut has_rest = false;
    for (at, statement) in statements.iter().enumerate() {
        let Statement::When { field, operator, operand, is_else, block, place } = statement else { continue };
        if !is_host(statement) {
            if *is_else && field.is_empty() && !before.is_empty() {
                host = common.beside(block, at, draft);
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
        let mut own = Host { names: own_names, is_default: false, ..common.beside(block, at, draft) };
        own.scope.line = Some(place.line);
        apply_all(block, &[], &mut own, draft);
        hosts.push(own);
    }
    hosts.insert(0, host);
    for host in &mut hosts {
        let comment = "lighttpd has no index files without index-file.names.";
        host.scope.preset("index", Vec::<String>::new(), comment);
    }
    hosts.iter_mut().for_each(|host| exclude(host, disk, draft));
    if !has_setting(statements, "url.rewrite-repeat") {
        hosts.iter().for_each(|host| rewritten_twice(host, draft));
    }
    draft.hosts = hosts;
}

/// Applies what no condition on the host is around.
fn for_all_hosts(statements: &[Statement], host: &mut Host, draft: &mut Draft) {
    let (mut chain, mut follows_host) = (Chain::default(), false);
    for statement in ordered(statements) {
        let is_rest = follows_host && is_rest(statement);
        follows_host = is_host(statement);
        match follows_host || is_rest {
            true => chain.end(),
            false => chain.apply(statement, &[], host, draft),
        }
    }
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
    apply_all(block, &[], host, draft);
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
            let is_name = |name: &String| !name.trim_start_matches("*.").contains(is_wildcard_or_slash);
            let names = |all: Option<Vec<String>>| all.filter(|all| all.iter().all(is_name));
            names(regex::values(operand)).or_else(|| names(regex::patterns(operand)))
        }
        _ => None,
    }
}

pub(super) fn listen(address: &str, tls: bool, place: &Place, host: &mut Host, draft: &mut Draft) {
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
