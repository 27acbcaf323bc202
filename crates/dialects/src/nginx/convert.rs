//! What the blocks of nginx.conf become.

use std::path::{Path, PathBuf};

use crate::Conversion;
use crate::disk::Disk;
use crate::draft::{Draft, Host, Scope};
use crate::tree::{Directive, unconverted};

use super::around::{around, is_for_locations};
use super::cache;
use super::cache_control;
use super::constants;
use super::early;
use super::expires::is_for_expires;
use super::index_roots;
use super::inherit::settle;
use super::named::has_access;
use super::names::{KNOWN, OF_TOP};
use super::own_access;
use super::preceded::without_preceded;
use super::read::Reader;
use super::selected;
use super::server::{REMOTE_LOG, log_target, server, split_hidden};
use super::settings::{Context, TRUSTED, setting, zone};
use super::upstreams;

/// Reads the file.
pub fn convert(file: &Path, disk: &dyn Disk) -> Conversion {
    let mut draft = Draft::default();
    let folder = folder(file, disk);
    match disk.read(file) {
        Ok(bytes) => {
            let tree = Reader::new(disk, &folder).read(file, &bytes, &mut draft);
            let tree = split_hidden(KNOWN.kept(tree, &["types", "map", "geo"], &mut draft));
            let tree = without_preceded(constants::filled(tree), &mut draft);
            trusts_a_field(&tree, &mut draft);
            top(tree, &folder, disk, &mut draft);
        }
        Err(error) => draft.findings.unreadable(&error),
    }
    draft.top.preset("compress", false, "nginx compresses nothing unless gzip is on.");
    draft.top.preset("precompressed", Vec::<String>::new(), "nor does it look for compressed files.");
    draft.top.preset("charset", false, "nginx names no charset.");
    draft.top.preset("symlinks", "follow", "nginx follows every link. \"beneath\" is safer.");
    draft.top.preset(
        "dotfiles",
        "unlisted",
        "nginx sends files whose name begins with a dot. \"deny\" is safer.",
    );
    let mut hosts = std::mem::take(&mut draft.hosts);
    for host in &mut hosts {
        settle(host, &mut draft);
        own_access::settle(host, &mut draft);
        index_roots::report(host, &mut draft);
        finish(host);
    }
    draft.hosts = hosts;
    cache_control::finish(&mut draft);
    draft.log_in_local_time("nginx has the time of the machine.");
    draft.written(file.to_owned(), "nginx")
}

/// Where relative paths begin: the folder of nginx.conf, also for a file of `sites-available` beneath it.
fn folder(file: &Path, disk: &dyn Disk) -> PathBuf {
    let folder = disk.folder_of(file);
    let has_main = |folder: &Path| disk.is_file(&folder.join("nginx.conf"));
    match folder.parent() {
        Some(parent) if !has_main(&folder) && has_main(parent) => parent.to_owned(),
        _ => folder,
    }
}

/// Without `real_ip_header`, nginx reads X-Real-IP.
fn trusts_a_field(tree: &[Directive], draft: &mut Draft) {
    let trusting = find(tree, "set_real_ip_from");
    if let Some(directive) = trusting.filter(|_| find(tree, "real_ip_header").is_none()) {
        draft.error(&directive.place, "the address of a client is not read from X-Real-IP", TRUSTED);
    }
}

fn find<'t>(tree: &'t [Directive], name: &str) -> Option<&'t Directive> {
    tree.iter().find_map(|directive| match directive.name == name {
        true => Some(directive),
        false => find(directive.children(), name),
    })
}

/// Only maps for the field `Connection` of an upgrade, for origins and for `expires` are known. `block` is that of `http`.
fn map(directive: &Directive, block: &[Directive], draft: &mut Draft) {
    let place = &directive.place;
    match directive.argument(0) {
        "$http_upgrade" => draft.note(place, "upgrades are passed in any case", "see proxy_upgrade"),
        // The directive that uses it says what becomes of it.
        "$http_origin" => {}
        _ if is_for_expires(directive, block) || cache_control::is_of_parameter(directive, block) => {}
        _ if !is_used(directive, block) => {
            draft.note(place, format!("{} is not used", directive.argument(1)), "nothing to do");
        }
        _ => draft.error(place, unconverted(directive), "write the value where the variable is used"),
    }
}

/// Whether all that has the variable of a `map` or of `geo` becomes a rule.
fn is_of_rules(child: &Directive, block: &[Directive], context: &Context) -> bool {
    let becomes_rule =
        |condition: &Directive| early::rule(condition, context, &mut Draft::default()).is_some();
    is_used(child, block) && selected::is_of_conditions(child, block, &becomes_rule)
}

/// Whether a directive may have the variable of a `map`, other than a format of logs.
fn is_used(map: &Directive, block: &[Directive]) -> bool {
    let name = map.arguments.last().map_or("", |name| name.trim_start_matches('$'));
    let (plain, braced) = (format!("${name}"), format!("${{{name}}}"));
    let has = |text: &String| text.contains(&plain) || text.contains(&braced);
    block.iter().filter(|directive| !std::ptr::eq(*directive, map) && directive.name != "log_format").any(
        |directive| {
            has(&directive.name) || directive.arguments.iter().any(has) || is_used(map, directive.children())
        },
    )
}

/// `proxy_host` was a note that the requested host is sent.
fn finish(host: &mut Host) {
    host.redirect_to_folders(301);
    let asks = |scope: &Scope| scope.get("authorizer").map(|authorizer| *authorizer != false.into());
    let is_asked = asks(&host.scope).unwrap_or_default();
    for route in &mut host.routes {
        // An authorizer and the upstream would read two paths.
        if asks(route).unwrap_or(is_asked) {
            route.remove("proxy_path");
        }
        if route.text("proxy_host") == Some("") || route.get("proxy").is_none() {
            route.remove("proxy_host");
        }
        if route.get("proxy").is_none() {
            route.remove("proxy_headers");
            route.remove("proxy_path");
        }
        for name in ["index", "listing", "fallback", "fallback_for", "try_suffixes"] {
            if route.responds() {
                route.remove(name);
            }
        }
        if route.responds() {
            route.remove("root");
        }
    }
}

/// Directives that stand outside of `http`, with an effect.
const OF_MAIN: [&str; 5] = ["user", "pid", "worker_processes", "error_log", "events"];

/// A file of sites-available alone is included in `http`.
fn is_of_http(tree: &[Directive]) -> bool {
    !tree.iter().any(|directive| directive.name == "http" || directive.name == "events")
}

fn top(tree: Vec<Directive>, folder: &Path, disk: &dyn Disk, draft: &mut Draft) {
    let is_main = !is_of_http(&tree);
    let is_of_main = |name: &str| OF_MAIN.contains(&name) || OF_TOP.contains(&name);
    let (of_main, of_http): (Vec<_>, Vec<_>) =
        tree.into_iter().partition(|directive| is_main || is_of_main(&directive.name));
    if !of_http.is_empty() {
        http(&of_http, folder, disk, draft);
    }
    for directive in &of_main {
        let place = &directive.place;
        let first = directive.argument(0);
        match directive.name.as_str() {
            "user" => {
                draft.top.set(place, "user", first);
                if let Some(group) = directive.arguments.get(1) {
                    draft.top.set(place, "group", group.as_str());
                }
            }
            "pid" => draft.top.set(place, "pid_file", absolute(folder, first)),
            "worker_processes" => {
                if let Ok(number) = first.parse::<i64>() {
                    draft.top.set(place, "workers", number.clamp(1, 1024));
                }
            }
            "error_log" => error_log(directive, folder, draft),
            "events" => {
                for inner in directive.children().iter().filter(|inner| inner.name == "worker_connections") {
                    if let Ok(number) = inner.argument(0).parse::<i64>() {
                        draft.limits.set(&inner.place, "connections", number.clamp(1, 1_000_000));
                    }
                }
            }
            "http" => http(directive.children(), folder, disk, draft),
            name if OF_TOP.contains(&name) => {
                draft.note(place, format!("{name} has no effect"), "nothing to do")
            }
            _ => draft.error(place, unconverted(directive), "remove it"),
        }
    }
}

fn absolute(folder: &Path, text: &str) -> String {
    let path: PathBuf = folder.join(text);
    let text = path.to_string_lossy().into_owned();
    if text.len() > 1 { text.trim_end_matches('/').to_owned() } else { text }
}

fn error_log(directive: &Directive, folder: &Path, draft: &mut Draft) {
    let target = match directive.argument(0) {
        "/dev/stdout" => "stdout".to_owned(),
        "/dev/stderr" | "stderr" => "stderr".to_owned(),
        target if target.starts_with("syslog:server=unix:") => "syslog".to_owned(),
        target if target.starts_with("syslog:") => {
            return draft.error(&directive.place, unconverted(directive), REMOTE_LOG);
        }
        target => absolute(folder, target),
    };
    draft.log.set(&directive.place, "error", target);
    let level = match directive.argument(1) {
        "debug" => "debug",
        "info" | "notice" => "info",
        "warn" => "warn",
        "" | "error" | "crit" | "alert" | "emerg" => "error",
        _ => return draft.warn(&directive.place, unconverted(directive), "see level in [log]"),
    };
    draft.log.set(&directive.place, "level", level);
}

fn http(children: &[Directive], folder: &Path, disk: &dyn Disk, draft: &mut Draft) {
    let path = |text: &str| absolute(folder, text);
    let is_file = |path: &str| disk.is_file(Path::new(path));
    let mut all = Vec::new();
    for child in children.iter().filter(|child| child.name == "upstream") {
        all.push(upstreams::read(child, draft));
    }
    let is_zone = |child: &&Directive| child.name == "limit_req_zone" || child.name == "limit_conn_zone";
    let zones: Vec<_> = children.iter().filter(is_zone).map(zone).collect();
    let is_cache = |child: &&Directive| cache::part(child) == Some("path");
    let caches: Vec<_> =
        children.iter().filter(is_cache).map(|directive| cache::zone(directive, draft)).collect();
    let is_map = |child: &&Directive| matches!(child.name.as_str(), "map" | "geo");
    let maps: Vec<&Directive> = children.iter().filter(is_map).collect();
    let context = Context {
        maps: &maps,
        trusts: children.iter().any(|child| find(std::slice::from_ref(child), "set_real_ip_from").is_some()),
        is_closed: has_access(children),
        caches: &caches,
        upstreams: &all,
        zones: &zones,
        path: &path,
        is_file: &is_file,
        server_name: String::new(),
        root: children.iter().rfind(|child| child.name == "root").map(|child| path(child.argument(0))),
        fallbacks: Vec::new(),
        front: None,
        around: around(children, &[]),
        server: &[],
    };
    // Servers ask for these.
    for child in children.iter().filter(|child| matches!(child.name.as_str(), "satisfy" | "auth_basic")) {
        setting(child, &mut draft.top, &context, &mut Draft::default());
    }
    let mut scope = Scope::default();
    for child in children {
        match child.name.as_str() {
            "upstream" | "limit_req_zone" | "limit_conn_zone" => {}
            _ if is_for_locations(child) || cache::part(child) == Some("path") => {}
            "server" => server(child, &context, draft),
            "map" | "geo" if is_of_rules(child, children, &context) => {}
            "map" => map(child, children, draft),
            "geo" => draft.error(&child.place, unconverted(child), "see address of [[rule]]"),
            "error_log" => error_log(child, folder, draft),
            "access_log" => match (child.argument(0), log_target(child.argument(0), &context)) {
                ("off", _) => draft.log.set(&child.place, "access", false),
                (_, Some(target)) => draft.log.set(&child.place, "access", target),
                (_, None) => draft.error(&child.place, unconverted(child), REMOTE_LOG),
            },
            _ if setting(child, &mut scope, &context, draft) => {}
            _ => draft.error(&child.place, unconverted(child), "remove it, or find its like in the manual"),
        }
    }
    // Hosts inherit all but the root and the certificates.
    for name in ["root", "certificate", "certificate_key"] {
        if let Some(value) = scope.get(name).cloned() {
            for host in &mut draft.hosts {
                if host.scope.get(name).is_none() {
                    host.scope.set(&crate::tree::Place::at(1), name, value.clone());
                }
            }
            scope.remove(name);
        }
    }
    draft.top.inherit(&scope);
}
