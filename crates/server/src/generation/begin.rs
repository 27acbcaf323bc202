//! How a serving process begins: it gives up its privileges and starts the threads.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, umask};
use site::model::{Sandbox, Sink, Site, Symlinks};

use super::{GenerationSetup, MainThread};
use crate::acme::OpenChallenges;
use crate::cache::disk;
use crate::files::folders;
use crate::files::roots::OpenRoots;
use crate::finding::Unusable;
use crate::log::{self, OpenSink};
use crate::process::ipc::{Channel, GenerationEvent};
use crate::process::privilege::{self, Identity};
use crate::process::sandbox::{self, Confinement, Connects, Pipes, Reads, Writes};
use crate::process::supervisor::what_to_do;
use crate::stats::{Ledger, ProcessFiles};
use crate::tls::{ClientReading, ServerTls};
use crate::{connection, limits, publishing, sys};

/// Unused bytes that each worker's heap keeps: the buffers of a script's response are a few times 64 KiB.
const KEPT_HEAP: i32 = 1024 * 1024;

/// Gives up privileges and starts the threads.
pub(super) fn begin(mut site: Site, setup: GenerationSetup) -> Result<MainThread, Vec<String>> {
    let line = |text: String| vec![text];
    let GenerationSetup {
        tls,
        folder,
        workers,
        sinks,
        identity,
        master,
        predecessor,
        warnings,
        ledger,
        maintenance,
        challenges,
        unusable,
    } = setup;
    // The limits of scripts are shared by the workers.
    site.workers = NonZeroUsize::new(workers.len());
    let (challenges, answered) = OpenChallenges::of(&site, &challenges);
    let tls = tls.map(|setup| ServerTls::begin(&site, setup, answered)).transpose()?.map(Arc::new);
    let (clients, without_upstreams) = ClientReading::read(&site).into_settings(unusable)?;
    let process = ProcessFiles::open();
    give_up_privileges(&mut site, identity).map_err(line)?;
    folders::read_accounts(&site);
    let roots = OpenRoots::with(&site, folder);
    let without_roots: Vec<String> = roots.problems().into_iter().map(|(_, why)| why).collect();
    if unusable == Unusable::Rejected && !without_roots.is_empty() {
        return Err(without_roots);
    }
    let (files, without_cache) = open_cache(&mut site, unusable).map_err(line)?;
    if !site.published_roots().is_empty() {
        // What clients publish has the mode that its route says; all other files have a mode of their own.
        umask(Mode::empty());
    }
    // As late as possible, because a failure after this loses clients; the sandbox forbids it later.
    for socket in workers.iter().flat_map(|worker| &worker.listeners) {
        socket.listen(site.limits.backlog).map_err(|e| line(format!("cannot listen: {e}")))?;
    }
    let active = sandbox::apply(&confinement(&site, &roots), site.sandbox).map_err(line)?;
    start_logs(&site, sinks, &master, &ledger).map_err(line)?;
    if site.sandbox != Sandbox::Off {
        active.missing.iter().for_each(|what| log::warn(format_args!("sandbox: {what}")));
    }
    let without_tls = tls.iter().flat_map(|tls| tls.left_out()).cloned();
    log_left_out(without_tls, "");
    log_left_out(without_upstreams, "; until a reload, connections that need it are not made");
    log_left_out(without_roots, "; until a reload, requests for its files get 500");
    log_left_out(without_cache, "; until a reload, responses are stored in memory alone");
    let tls_warning = tls.as_ref().and_then(|tls| tls.warning());
    log_warnings(warnings.iter().map(String::as_str).chain(tls_warning), &roots);
    log_panics();
    sys::keep_heap(KEPT_HEAP);
    begin_limits(&site);
    files
        .map_or(Ok(()), disk::begin)
        .map_err(|e| line(format!("cannot start the thread of the cache: {e}{}", what_to_do(&e))))?;
    publishing::clean_up(&site, &roots);
    let main = MainThread::new(master, predecessor, site, roots, ledger);
    let mut main = MainThread { tls, clients, challenges, process, maintenance, ..main };
    for sockets in workers {
        main.spawn(sockets).map_err(|e| line(format!("cannot start a worker: {e}{}", what_to_do(&e))))?;
    }
    Ok(main)
}

/// Errors: the threads of the logs cannot be started.
fn start_logs(site: &Site, sinks: Vec<OpenSink>, master: &Channel, ledger: &Ledger) -> Result<(), String> {
    let to_master = master.try_clone().map_err(|e| format!("cannot copy a channel: {e}"))?;
    // The master may have ended.
    let on_lost_daemon = move || _ = to_master.send(&GenerationEvent::LostLogDaemon);
    log::start(&site.log, sinks, ledger.dropped_lines(), on_lost_daemon)
}

/// What all workers count together.
fn begin_limits(site: &Site) {
    connection::client::limit_connections(site.limits.connections_per_client, &site.trusted_proxies);
    limits::begin(site);
    connection::handshake_rate::limit_handshakes(site.tls.handshakes_per_client, &site.trusted_proxies);
}

/// The files of the cache, if the site has any, and why they are left out. Errors: why they cannot be used.
fn open_cache(
    site: &mut Site,
    unusable: Unusable,
) -> Result<(Option<disk::store::Store>, Option<String>), String> {
    match site.cache_files.as_ref().map(disk::open).transpose() {
        Err(why) if unusable == Unusable::LeftOut => {
            site.cache_files = None;
            Ok((None, Some(why)))
        }
        opened => Ok((opened?, None)),
    }
}

/// Has the chroot and the account that serves. Errors: the step that failed.
fn give_up_privileges(site: &mut Site, identity: Option<Identity>) -> Result<(), String> {
    if let Some(folder) = site.chroot.clone() {
        privilege::chroot(&folder, identity.as_ref())?;
        site.enter(&folder);
    }
    identity.map_or(Ok(()), |identity| identity.assume())?;
    // Scripts may have the same user, and could trace the process or read its memory. The kernel resets the attribute
    // to fs.suid_dumpable when the user changes.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| format!("cannot forbid tracing: {e}"))
}

fn log_warnings<'a>(warnings: impl Iterator<Item = &'a str>, roots: &OpenRoots) {
    warnings.for_each(|what| log::warn(format_args!("{what}")));
    for root in roots.unresponsive() {
        let root = privilege::shown(root);
        log::warn(format_args!("the root {root} does not respond; the next request tries again"));
    }
}

/// Logs what this process goes on without, and what that means.
fn log_left_out(what: impl IntoIterator<Item = String>, meaning: &str) {
    what.into_iter().for_each(|what| log::error(format_args!("{what}{meaning}")));
}

/// What serving needs.
fn confinement<'a>(site: &'a Site, roots: &'a OpenRoots) -> Confinement<'a> {
    let routes = || site.hosts.iter().flat_map(|host| host.routes.iter());
    let leads_out = routes().any(|r| matches!(r.files.symlinks, Symlinks::Follow | Symlinks::Owner));
    // A root that hangs cannot be opened for the rule, but its parent can.
    let unresponsive: Vec<&Path> = roots.unresponsive().collect();
    let reach =
        |root: &'a Path| if unresponsive.contains(&root) { root.parent().unwrap_or(root) } else { root };
    let reads = match leads_out {
        true => Reads::Everywhere,
        false => Reads::Beneath(site.roots().into_iter().map(reach).collect()),
    };
    let mut sinks = site.sinks().into_iter();
    // The log thread reconnects to a restarted log daemon.
    let connects = if sinks.any(|s| *s == Sink::Syslog) { Connects::Unix } else { Connects::Nowhere };
    let pipes = if site.has_scripts() { Pipes::Made } else { Pipes::None };
    let writes = site.cache_files.as_ref().map_or(Writes::Nowhere, |files| Writes::Beneath(&files.folder));
    let publishes = site.published_roots().into_iter().map(reach).collect();
    Confinement { reads, open: roots.preopened(), connects, pipes, writes, publishes }
}

/// Logs the position of a panic, which ends one connection, or this process in a build that does not unwind.
fn log_panics() {
    const ENDS: &str = if cfg!(panic = "abort") { "this process ends" } else { "one connection ends" };
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let what = panic.payload().downcast_ref::<&str>().copied();
        let what = what.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
        log::error(format_args!("panic at {place}: {}; {ENDS}", what.unwrap_or("no message")));
        if cfg!(panic = "abort") {
            log::flush();
        }
    }));
}
