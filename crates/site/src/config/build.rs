//! Builds a complete site from the tree of a configuration, and reads the sections that are short.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::Source;
use super::account::account_name;
use super::certificates::certificates;
use super::definitions::Definitions;
use super::error::Errors;
use super::forward_proxy::forward_proxy;
use super::hosts::hosts;
use super::keys::Scope;
use super::limits::LimitReader;
use super::listeners::{check_proxies, listeners, trusted_proxies};
use super::log::log;
use super::private;
use super::proxies;
use super::publishing;
use super::scripts::scripts;
use super::section::Section;
use super::switches;
use super::tls::{check_listeners, tls};
use super::toml::Table;
use super::tracing::tracing;
use super::upstreams::{check_chroot, resolution, upstreams};
use crate::host::Hosts;
use crate::includes::IncludeLimits;
use crate::model::{
    CacheFiles, CacheLimits, Host, Http2, Interpreter, Limits, SERVER_HEADER, Sandbox, Script, Scripts,
    SignalSet, Site, Statistics, Timeouts,
};
use crate::named_files::NamedFiles;
use crate::upstream::Upstream;

/// `None`: there are errors.
pub fn site(tree: &Table, source: &dyn Source, errors: &Errors) -> Option<Site> {
    let top = Section::open(Scope::Top, tree, errors);
    reject_unconverted(&top);
    switches::check(tree, errors);
    let listeners = listeners(&top);
    let limits = limits(&top);
    let (log, host_logs) = log(&top, source);
    let scripts = scripts(&top);
    let upstreams = upstreams(&top);
    let certificates = certificates(&top);
    let reader = LimitReader::new(source);
    let definitions = Definitions { scripts: &scripts, upstreams: &upstreams, limits: &reader };
    let hosts = hosts(&top, limits.body, definitions, &host_logs, &certificates);
    if let Some(hosts) = &hosts {
        publishing::check(hosts, source, errors, top.place());
        proxies::check_cookies(hosts, &upstreams, errors);
    }
    let traffic_limits = reader.into_limits(errors, top.place());
    let trusted_proxies = trusted_proxies(&top);
    check_listeners(&top, &listeners, hosts.as_ref(), &trusted_proxies);
    check_proxies(&top, &listeners, &trusted_proxies);
    let cache_files = cache_files(&top, hosts.as_ref());
    Some(Site {
        listeners,
        trusted_proxies,
        workers: top.count("workers").and_then(NonZeroUsize::new),
        user: account_name(&top, "user"),
        group: account_name(&top, "group"),
        pid_file: top.path("pid_file"),
        chroot: chroot(&top, hosts.as_ref(), &scripts, &upstreams, cache_files.as_ref()),
        sandbox: match top.choice("sandbox") {
            Some("off") => Sandbox::Off,
            Some("required") => Sandbox::Required,
            _ => Sandbox::On,
        },
        signals: match top.choice("signals") {
            Some("boa") => SignalSet::Boa,
            Some("thttpd") => SignalSet::Thttpd,
            Some("busybox") => SignalSet::Busybox,
            _ => SignalSet::Taipan,
        },
        server_header: server_header(&top),
        hosts: hosts?,
        named_files: NamedFiles::default(),
        traffic_limits,
        upstreams,
        resolution: resolution(&top),
        forward_proxy: forward_proxy(&top),
        tls: tls(&top),
        certificates,
        limits,
        timeouts: timeouts(&top),
        cache: cache(&top),
        cache_files,
        http2: http2(&top),
        statistics: statistics(&top),
        scripts,
        log,
        tracing: tracing(&top),
    })
}

/// Reports what a conversion has left to be decided.
fn reject_unconverted(top: &Section) {
    for entry in top.texts("unconverted").unwrap_or_default() {
        let what = format!("this was not converted: {}", entry.value.escape_debug());
        top.errors.add(entry.place, what, "write what takes its place, and remove this entry");
    }
}

/// `None`: no field `Server`.
fn server_header(top: &Section) -> Option<String> {
    let Some(given) = top.text_or_false("server_header") else { return Some(SERVER_HEADER.to_owned()) };
    let name = given.value?;
    if name.trim() != name || name.is_empty() || !name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        let what = format!("\"server_header\" cannot be \"{}\"", name.escape_debug());
        top.errors.add(given.place, what, "expected printable ASCII, or false to leave the field out");
    }
    Some(name.to_owned())
}

/// The chroot. Reports paths outside of it, which the serving process could not open.
fn chroot(
    top: &Section,
    hosts: Option<&Hosts>,
    scripts: &Scripts,
    upstreams: &[Upstream],
    cache_files: Option<&CacheFiles>,
) -> Option<PathBuf> {
    let folder = top.path("chroot")?;
    if let Some(files) = cache_files.filter(|files| !files.folder.starts_with(&folder)) {
        let (own, shown) = (files.folder.display(), folder.display());
        let what = format!("the folder of [cache_files], {own}, is not beneath \"chroot\", {shown}");
        top.errors.add(
            top.place_of("chroot"),
            what,
            "name a folder that is: the workers cannot leave the chroot",
        );
    }
    let routes = || hosts.into_iter().flat_map(|hosts| hosts.iter()).flat_map(|host| host.routes.iter());
    let program = |script: &'_ Option<Box<Script>>| match &script.as_ref()?.interpreter {
        Some(Interpreter::Program(path)) => Some(path.clone()),
        Some(Interpreter::Upstream(_)) | None => None,
    };
    let interpreters = routes().flat_map(|route| {
        let interpreter = program(&route.script).map(|path| (path, "interpreter"));
        interpreter.into_iter().chain(program(&route.lister).map(|path| (path, "listing_program")))
    });
    check_chroot(top, &folder, upstreams, top.place_of("chroot"));
    let private = scripts.sendfile.iter().map(|folder| (folder.clone(), "sendfile"));
    // The default spool is a path within the chroot.
    let spool = (scripts.spool != Scripts::default().spool).then(|| (scripts.spool.clone(), "spool"));
    for (path, name) in interpreters.chain(private).chain(spool) {
        if !path.starts_with(&folder) {
            let what =
                format!("\"{name}\", {}, is not beneath \"chroot\", {}", path.display(), folder.display());
            let what_to_do = "move it there, or remove the chroot: scripts run in it, too";
            top.errors.add(top.place_of("chroot"), what, what_to_do);
        }
    }
    for root in hosts.into_iter().flat_map(|hosts| hosts.iter()).flat_map(Host::roots) {
        if !root.starts_with(&folder) {
            let what = format!("the root {} is not beneath \"chroot\", {}", root.display(), folder.display());
            top.errors.add(top.place_of("chroot"), what, "move it, or name a folder that contains all roots");
        }
    }
    Some(folder)
}

fn limits(top: &Section) -> Limits {
    let defaults = Limits::default();
    let Some(section) = top.section("limits", Scope::Limits) else { return defaults };
    let count = |name, default| section.count(name).unwrap_or(default);
    let size = |name, default| section.size(name).unwrap_or(default);
    Limits {
        connections: count("connections", defaults.connections),
        backlog: section.count("backlog").unwrap_or(defaults.backlog),
        connections_per_client: count("connections_per_client", defaults.connections_per_client),
        rejections: count("rejections", defaults.rejections),
        requests: section.count("requests").unwrap_or(defaults.requests),
        head: taipan_http::head::Limits {
            head: section.size("head").unwrap_or(defaults.head.head),
            target: section.size("target").unwrap_or(defaults.head.target),
            fields: count("fields", defaults.head.fields),
        },
        body: size("body", defaults.body),
        min_rate: section.byte_rate("min_rate").unwrap_or(defaults.min_rate),
        disk_threads: count("disk_threads", defaults.disk_threads),
        recent_requests: section.count("recent_requests"),
        disk_queue: count("disk_queue", defaults.disk_queue),
        upgraded: count("upgraded", defaults.upgraded),
        body_streams: count("body_streams", defaults.body_streams),
        buffered_responses: count("buffered_responses", defaults.buffered_responses),
        compressed_streams: count("compressed_streams", defaults.compressed_streams),
        unsent: size("unsent", defaults.unsent),
        generations: count("generations", defaults.generations),
        listing_entries: count("listing_entries", defaults.listing_entries),
        includes: IncludeLimits {
            count: count("includes", defaults.includes.count),
            depth: count("include_depth", defaults.includes.depth),
            bytes: size("include_bytes", defaults.includes.bytes),
        },
    }
}

fn timeouts(top: &Section) -> Timeouts {
    let defaults = Timeouts::default();
    let Some(section) = top.section("timeouts", Scope::Timeouts) else { return defaults };
    let time = |name, default| section.duration(name).unwrap_or(default);
    Timeouts {
        head: time("head", defaults.head),
        body: time("body", defaults.body),
        write: time("write", defaults.write),
        idle: time("idle", defaults.idle),
        upgraded: time("upgraded", defaults.upgraded),
        websocket_ping: time("websocket_ping", defaults.websocket_ping),
        events: time("events", defaults.events),
        linger: time("linger", defaults.linger),
        disk: time("disk", defaults.disk),
        shutdown: time("shutdown", defaults.shutdown),
        reload: time("reload", defaults.reload),
        accept: time("accept", defaults.accept),
        defer_accept: time("defer_accept", defaults.defer_accept),
        delay: time("delay", defaults.delay),
    }
}

fn cache(top: &Section) -> CacheLimits {
    let defaults = CacheLimits::default();
    let Some(section) = top.section("cache", Scope::Cache) else { return defaults };
    CacheLimits {
        entries: section.count("entries").unwrap_or(defaults.entries),
        descriptors: section.count("descriptors").unwrap_or(defaults.descriptors),
        bytes: section.size("bytes").unwrap_or(defaults.bytes),
        file: section.size("file").unwrap_or(defaults.file),
        check: section.duration("check").unwrap_or(defaults.check),
        missing: section.duration("missing").unwrap_or(defaults.missing),
        folders: section.count("folders").unwrap_or(defaults.folders),
        responses: section.size("responses").unwrap_or(defaults.responses),
    }
}

/// `None`: responses are stored in memory only.
fn cache_files(top: &Section, hosts: Option<&Hosts>) -> Option<CacheFiles> {
    let section = top.section("cache_files", Scope::CacheFiles)?;
    let Some(folder) = section.path("folder") else {
        if !section.has("folder") {
            section.errors.add(
                section.place(),
                "[cache_files] has no folder",
                "add folder = \"/var/cache/taipan\"",
            );
        }
        return None;
    };
    section.errors.mark(private::STORED, &folder, section.place_of("folder"));
    let mut folders = hosts.iter().flat_map(|hosts| hosts.iter()).filter_map(|host| host.folder.as_ref());
    if folders.any(|of_names| of_names.root_of(&folder).as_ref() == Some(&folder)) {
        let what = format!("clients reach {} as the folder of a host", folder.display());
        section.errors.add(
            section.place_of("folder"),
            what,
            "name a folder that is not beside those of hosts",
        );
    }
    let files = CacheFiles::new(folder);
    let size = |name, default| section.size(name).unwrap_or(default);
    Some(CacheFiles {
        bytes: size("bytes", files.bytes),
        entries: section.count("entries").unwrap_or(files.entries),
        largest: size("largest", files.largest),
        min_free: size("min_free", files.min_free),
        ..files
    })
}

fn http2(top: &Section) -> Http2 {
    let defaults = Http2::default();
    let Some(section) = top.section("http2", Scope::Http2) else { return defaults };
    Http2 {
        enabled: section.flag("enabled").unwrap_or(defaults.enabled),
        streams: section.count("streams").unwrap_or(defaults.streams),
        waiting: section.count("waiting").unwrap_or(defaults.waiting),
        window: section.size("window").unwrap_or(defaults.window),
        connection_window: section.size("connection_window").unwrap_or(defaults.connection_window),
        large_windows: section.count("large_windows").unwrap_or(defaults.large_windows),
    }
}

fn statistics(top: &Section) -> Statistics {
    let defaults = Statistics::default();
    let Some(section) = top.section("statistics", Scope::Statistics) else { return defaults };
    Statistics {
        hosts: section.count("hosts").unwrap_or(defaults.hosts),
        routes: section.count("routes").unwrap_or(defaults.routes),
    }
}
