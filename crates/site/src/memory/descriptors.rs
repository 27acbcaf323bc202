//! The descriptors of a site, line by line, and the limits that fit into those that the process may have.

use super::{
    CACHE_WRITES, Use, logs, multiplexed_requests, responses_in_files, scripts, total, upgraded,
    upstream_connections,
};
use crate::forward_proxy::ForwardProxy;
use crate::model::{BackgroundJobs, Site};
use crate::tls::PrivateKeys;

/// The two nested epoll instances of a worker and a copy, its eventfd, its end of the runtime's signals, and the channel
/// to a successor.
const WORKER_DESCRIPTORS: u64 = 6;
/// A channel of a worker, and the copy for the worker that replaces it.
const CHANNEL_DESCRIPTORS: u64 = 2;
/// The three ends of a script's pipes, a spooled body, and a file that is sent in place of its output.
pub(super) const SCRIPT_DESCRIPTORS: u64 = 5;
/// Scripts of one worker whose jobs in the background have a reader at the same time.
pub const JOB_READERS: usize = 16;
/// The output of a job in the background, and its errors.
pub(super) const JOB_DESCRIPTORS: u64 = 2;
/// A connection, a copy of it while its socket is full, and a spooled body or a file that is sent in place of the
/// response body.
const UPSTREAM_DESCRIPTORS: u64 = 3;
/// The open files of a disk thread: a folder, a file and a precompressed file.
const DISK_DESCRIPTORS: u64 = 3;
/// Standard streams, the main thread's loop, its channels, those to a predecessor and to a successor, /proc, the history,
/// the socket of syslog, and a reserve.
const PROCESS_DESCRIPTORS: u64 = 20;

/// Descriptors at worst.
pub fn descriptors(site: &Site, workers: usize) -> Vec<Use> {
    let workers = workers as u64;
    let line = |what, each: u64, of_each_worker: usize| Use {
        what,
        each,
        count: (of_each_worker as u64).saturating_mul(workers),
    };
    let mut uses = vec![
        line("connections: sockets", 1, site.limits.connections),
        line("files being sent: one for two connections", 1, site.limits.connections / 2),
        line("connections that are being rejected", 1, site.limits.rejections),
        line("files that the cache keeps open", 1, site.cache.descriptors),
        line("folders of names and users", 1, if site.has_named_folders() { site.cache.folders } else { 0 }),
        line("disk threads", DISK_DESCRIPTORS, site.limits.disk_threads),
        line("listeners", 1, site.listeners.len()),
        line("event loops", WORKER_DESCRIPTORS, 1),
        Use { what: "roots", each: 1, count: site.roots().len() as u64 },
        Use { what: "log files", each: 1, count: logs(site).len() as u64 },
        Use {
            what: "scripts: pipes, and a body or a file",
            each: SCRIPT_DESCRIPTORS,
            count: scripts(site, workers),
        },
        line("scripts: pipes of jobs in the background", JOB_DESCRIPTORS, job_readers(site)),
        Use {
            what: "applications: connections, a copy of each, and a body or a file",
            each: UPSTREAM_DESCRIPTORS,
            count: upstream_connections(site),
        },
        Use {
            what: "applications: a body or a file of each multiplexed request",
            each: 1,
            count: multiplexed_requests(site),
        },
        Use {
            what: "responses that wait for slow clients: files",
            each: 1,
            count: responses_in_files(site, workers),
        },
        Use { what: "applications: upgraded connections", each: 1, count: upgraded(site, workers) },
        line(
            "other servers: connections that are kept",
            1,
            site.forward_proxy.as_ref().map_or(0, ForwardProxy::idle_connections),
        ),
        line(
            "stored responses: files being written",
            1,
            if site.cache_files.is_some() { CACHE_WRITES } else { 0 },
        ),
        line("channels to other processes", CHANNEL_DESCRIPTORS, channels(site)),
        Use { what: "the process", each: PROCESS_DESCRIPTORS, count: 1 },
    ];
    uses.retain(|line| line.sum() > 0);
    uses
}

fn job_readers(site: &Site) -> usize {
    let are_kept = site.has_scripts() && site.scripts.background_jobs == BackgroundJobs::Kept;
    if are_kept { JOB_READERS } else { 0 }
}

/// The processes that each worker has a channel to.
fn channels(site: &Site) -> usize {
    let signs = site.tls.private_keys == PrivateKeys::InSigner;
    let others =
        [site.has_scripts(), site.forward_proxy.is_some(), site.resolution.client_names.is_some(), signs];
    site.upstreams.len() + others.into_iter().filter(|has| *has).count()
}

/// The least number of descriptors with which each worker can respond to one request at a time.
pub fn least_descriptors(site: &Site, workers: usize) -> u64 {
    let of_channels = CHANNEL_DESCRIPTORS as usize * channels(site);
    let of_worker = WORKER_DESCRIPTORS as usize + site.listeners.len() + of_channels;
    let of_process = PROCESS_DESCRIPTORS as usize + site.roots().len() + logs(site).len();
    // A connection and its file.
    let of_request = 2;
    (workers * (of_worker + of_request) + of_process) as u64 + DISK_DESCRIPTORS
}

/// Lowers the limits until they fit into the descriptors that the process may have. A worker then reaches the limit of
/// connections first, which it can handle.
pub fn fit(site: &mut Site, workers: usize, allowed: u64) {
    if total(&descriptors(site, workers)) <= allowed {
        return;
    }
    let fixed = {
        let mut bare = site.clone();
        (bare.limits.connections, bare.limits.rejections) = (0, 0);
        (bare.limits.disk_threads, bare.cache.descriptors) = (0, 0);
        bare.limits.upgraded = 0;
        bare.limits.buffered_responses = 0;
        bare.scripts.processes = 0;
        total(&descriptors(&bare, workers))
    };
    let share = usize::try_from(allowed.saturating_sub(fixed)).unwrap_or(usize::MAX) / workers.max(1);
    let lower = |limit: &mut usize, most: usize| *limit = (*limit).min(most.max(1));
    lower(&mut site.limits.disk_threads, share / 12);
    lower(&mut site.limits.rejections, share / 16);
    lower(&mut site.limits.upgraded, share / 8);
    lower(&mut site.limits.buffered_responses, share / 8);
    lower(&mut site.cache.descriptors, share / 8);
    lower(&mut site.scripts.processes, share.saturating_mul(workers) / 32);
    let scripts_above_minimum =
        scripts(site, workers as u64).saturating_sub(workers as u64) * SCRIPT_DESCRIPTORS;
    let others = site.limits.disk_threads * DISK_DESCRIPTORS as usize
        + site.limits.rejections
        + (upgraded(site, workers as u64) as usize).div_ceil(workers.max(1))
        + (responses_in_files(site, workers as u64) as usize).div_ceil(workers.max(1))
        + site.cache.descriptors
        + (scripts_above_minimum as usize).div_ceil(workers.max(1));
    // Two of three descriptors are connections, and one is a file: connections share open files.
    lower(&mut site.limits.connections, share.saturating_sub(others) / 3 * 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowers_limits_until_they_fit() {
        for allowed in [48, 64, 100, 256, 1000, 20_000, 1_000_000] {
            for workers in [1, 2, 4] {
                let mut fitted = Site::folder("/srv".into(), Vec::new());
                fit(&mut fitted, workers, allowed);
                let needed = total(&descriptors(&fitted, workers));
                let least = 21 + 13 * workers as u64;
                assert!(needed <= allowed.max(least), "{needed} of {allowed} for {workers} workers");
                assert!(fitted.limits.connections >= 1);
            }
        }
        let before = Site::folder("/srv".into(), Vec::new());
        let mut after = before.clone();
        fit(&mut after, 2, 1_000_000);
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "sufficient descriptors lower nothing");
    }
}
