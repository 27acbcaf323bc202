use std::sync::Arc;

use auth::hash::PlainText;
use auth::users::Users;

use super::descriptors::{JOB_DESCRIPTORS, SCRIPT_DESCRIPTORS};
use super::*;
use crate::authentication::Authentication;
use crate::compress::{Codings, CompressRules};
use crate::model::Limits;

fn site() -> Site {
    let mut site = Site::folder("/srv".into(), Vec::new());
    site.limits.connections = 100;
    site.limits.rejections = 5;
    site.limits.disk_threads = 2;
    site.limits.disk_queue = 10;
    site.limits.listing_entries = 1000;
    site.limits.head.target = 1000;
    site.cache.entries = 50;
    site.cache.bytes = 1_000_000;
    site.cache.descriptors = 7;
    site.log.queue = 4;
    site
}

#[test]
fn sums_memory_and_descriptors_of_all_limits() {
    let uses = worst_case(&site(), 2);
    let each = TASK + INPUT + 16 * 1024 + BATCH + HEAD + RESPONSE;
    let expected = 2 * (BUFFER + KEPT_RESPONSE)
        + 2 * (100 + 5) * each
        + (128 + 4) * 1000 * LISTING_ENTRY
        + 100 * (CACHE_ENTRY + 1000)
        + 2_000_000
        + 2 * (64 * ENCODER + COMPRESSION)
        + 4 * DISK_STACK
        + 20 * (LOOKUP + 1000)
        + 256 * RECENT_REQUEST
        + 4 * LOG_BLOCK;
    assert_eq!(total(&uses), expected);
    assert_eq!(total(&descriptors(&site(), 2)), 2 * (100 + 50 + 5 + 7 + 6 + 6) + 1 + 20);
}

#[test]
fn counts_streams_only_where_clients_can_use_http2() {
    let plain = total(&worst_case(&site(), 2));
    let mut http2 = site();
    let listener = Listener::parse("127.0.0.1:1 http2", Path::new("/")).unwrap();
    http2.listeners = vec![listener];
    (http2.http2.waiting, http2.http2.connection_window) = (10, 65_535);
    let each = http2_connection(&http2) - http1_connection(&http2);
    assert_eq!(total(&worst_case(&http2, 2)), plain + 2 * (100 + 5) * each + 2 * 10 * stream(&http2));
}

#[test]
fn reserves_a_quarter_of_the_connections_from_waiting_for_disks() {
    let waiting =
        |connections, disk_queue| Limits { connections, disk_queue, ..Limits::default() }.waiting_for_disks();
    assert_eq!(waiting(16_384, 1024), 1024);
    assert_eq!(waiting(1000, 1024), 750);
    assert_eq!(waiting(1000, 100), 100);
    assert_eq!(waiting(43, 1024), 33);
    assert_eq!(waiting(1, 1024), 32);
    assert_eq!(waiting(1, 10), 10);
}

#[test]
fn typical_memory_grows_with_clients_and_cache() {
    let start = START + 2 * WORKER;
    let bytes: Vec<u64> = typical(&site(), 2).iter().map(|line| line.bytes).collect();
    assert_eq!(bytes, [start, start + 100 * BUSY, start + 200 * IDLE, start + 200 * IDLE + 2_000_000]);
    let mut small = site();
    (small.limits.connections, small.cache.bytes) = (7, 0);
    let lines = typical(&small, 1);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1].when, "while 7 clients take files at the same time");
    small.limits.connections = usize::MAX;
    assert_eq!(typical(&small, usize::MAX)[2].bytes, u64::MAX);
    assert!(total(&worst_case(&site(), 2)) > typical(&site(), 2)[1].bytes);
}

#[test]
fn counts_scripts_of_sites_that_have_some() {
    let mut site = site();
    let (memory, open) = (total(&worst_case(&site, 2)), total(&descriptors(&site, 2)));
    let script = crate::model::Script {
        interpreter: None,
        environment: Default::default(),
        credentials: Default::default(),
        remote_host: Default::default(),
        processes: 10,
        account: None,
        forwarding: Default::default(),
        buffering: Default::default(),
    };
    let fallback = site.hosts[0].routes.iter().next().unwrap().clone();
    let mut host = site.hosts[0].clone();
    host.routes = crate::route::Routes::only(Route { script: Some(Box::new(script)), ..fallback });
    site.hosts = crate::host::Hosts::only(host);
    (site.scripts.processes, site.scripts.queue) = (10, 3);
    site.limits.buffered_responses = 7;
    let queue = 3 * site.limits.head.head as u64;
    assert_eq!(total(&worst_case(&site, 2)), memory + 10 * SCRIPT + queue + 2 * 7 * READ_AHEAD);
    let open = open + 10 * SCRIPT_DESCRIPTORS + 2 * 2 + 2 * 7;
    assert_eq!(total(&descriptors(&site, 2)), open);
    assert_eq!(total(&descriptors(&site, 20)) - total(&descriptors(&site, 19)), 176 + SCRIPT_DESCRIPTORS + 7);
    let keeping = Site {
        scripts: crate::model::Scripts {
            background_jobs: crate::model::BackgroundJobs::Kept,
            ..site.scripts.clone()
        },
        ..site.clone()
    };
    let readers = 2 * JOB_READERS as u64 * JOB_DESCRIPTORS;
    assert_eq!(total(&descriptors(&keeping, 2)), open + readers);
    for allowed in [100, 256, 1000, 20_000] {
        let mut fitted = site.clone();
        fit(&mut fitted, 2, allowed);
        let needed = total(&descriptors(&fitted, 2));
        assert!(needed <= allowed, "{needed} of {allowed}");
    }
}

#[test]
fn denials_of_authorizers_are_read_ahead_without_files_where_there_are_no_scripts() {
    let mut site = site();
    site.limits.buffered_responses = 7;
    let (memory, open) = (total(&worst_case(&site, 2)), total(&descriptors(&site, 2)));
    let fallback = site.hosts[0].routes.iter().next().unwrap().clone();
    let mut host = site.hosts[0].clone();
    let authorizers = vec![Arc::new(crate::authorizer::Authorizer { upstream: 0, subrequest: None })];
    host.routes = crate::route::Routes::only(Route { authorizers, ..fallback });
    site.hosts = crate::host::Hosts::only(host);
    assert_eq!(total(&worst_case(&site, 2)), memory + 2 * 7 * READ_AHEAD);
    assert_eq!(total(&descriptors(&site, 2)), open);
}

#[test]
fn passwords_cost_what_the_costliest_hash_needs() {
    let cost = |authentication: Authentication| {
        let mut site = site();
        let fallback = site.hosts[0].routes.iter().next().unwrap().clone();
        let mut host = site.hosts[0].clone();
        let authentication = Arc::new(authentication);
        host.routes = crate::route::Routes::only(Route { authentication, ..fallback });
        site.hosts = crate::host::Hosts::only(host);
        let uses = worst_case(&site, 2);
        let of = |what: &str| uses.iter().find(|own| own.what.starts_with(what)).map(Use::sum);
        ["passwords being compared", "remembered passwords", "nonces", "password files"].map(of)
    };
    let remembered = Some(2 * 1024 * 256);
    let mut users = Users::default();
    let hash =
        b"$argon2id$v=19$m=19456,t=2,p=1$1q+I1s4ZyCTyyWUK2l/cOQ$74ABYL2axK2QikjWG3MdEMCrbBfb1ZP8o0dbEAD5KoM";
    users.insert(1, b"ann", hash, PlainText::Refuse).expect("it is a hash");
    let basic = Authentication { scheme: Scheme::Basic, ..Authentication::default() };
    let of_file = Authentication { users: vec![Arc::new(users)], ..basic.clone() };
    assert_eq!(cost(of_file), [Some(2 * 19456 * 1024), remembered, None, None]);
    let of_folders = Authentication { folder: FolderPasswords::Folder, ..basic };
    let threads = 2 * (site().limits.disk_threads as u64 + 1);
    let files = Some(threads * LARGEST_USERS);
    assert_eq!(cost(of_folders), [Some(2 * MAX_MEMORY as u64), remembered, None, files]);
    let digest = Authentication { scheme: Scheme::Digest, ..Authentication::default() };
    assert_eq!(cost(digest), [None, remembered, Some(8192 * 128), None]);
    assert_eq!(cost(Authentication::default()), [None; 4]);
}

#[test]
fn leaves_out_what_no_route_needs() {
    let mut site = site();
    site.cache.bytes = 0;
    site.cache.entries = 0;
    let compress = CompressRules { codings: Codings::default(), ..CompressRules::default() };
    let files = crate::model::FileRules { gunzip: false, compress: compress.into(), ..Default::default() };
    let fallback = site.hosts[0].routes.iter().next().unwrap().clone();
    let mut host = site.hosts[0].clone();
    host.routes = crate::route::Routes::only(Route { files: files.into(), ..fallback });
    site.hosts = crate::host::Hosts::only(host);
    let whats: Vec<_> = worst_case(&site, 1).iter().map(|line| line.what).collect();
    assert_eq!(
        whats,
        [
            "buffers of workers",
            "connections: task, unread input, unsent response",
            "stacks of disk threads",
            "lookups that wait for a disk",
            "requests that can be shown as the last ones",
            "blocks of log lines",
        ]
    );
}

#[test]
fn saturates_instead_of_overflowing() {
    let mut site = site();
    site.limits.connections = usize::MAX;
    site.cache.bytes = usize::MAX;
    assert_eq!(total(&worst_case(&site, usize::MAX)), u64::MAX);
    assert_eq!(total(&descriptors(&site, usize::MAX)), u64::MAX);
}
