//! The store while system calls fail. The plan of the faults is one for the process, so the cases run in a child.

use std::process::Command;

use super::*;
use crate::sys::faulty::plan::{self, Call, Case, Fault, Which};

/// Set in the child process.
const IN_CHILD: &str = "TAIPAN_STORE_FAULT_CHILD";
/// Calls of a kind in one run that fail one by one.
const CALLS: u64 = 24;

fn faults(call: Call) -> Vec<Fault> {
    let errnos = |all: &[Errno]| all.iter().copied().map(Fault::Errno).collect::<Vec<_>>();
    match call {
        Call::Create | Call::MakeFolder | Call::Rename | Call::Unlink | Call::FreeSpace => {
            errnos(&[Errno::NOSPC, Errno::IO, Errno::MFILE, Errno::INTR])
        }
        Call::Pwrite => [
            errnos(&[Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::INTR]),
            vec![Fault::Short(1000), Fault::Fills(1), Fault::Fills(1000)],
        ]
        .concat(),
        Call::Pread => [
            errnos(&[Errno::IO, Errno::STALE, Errno::INTR]),
            vec![Fault::Short(0), Fault::Short(1000), Fault::Truncated],
        ]
        .concat(),
        Call::Openat | Call::Statx | Call::OpenFolder | Call::NextEntry => {
            errnos(&[Errno::IO, Errno::STALE, Errno::MFILE])
        }
        _ => Vec::new(),
    }
}

/// What is read while calls fail is right or nothing. Afterwards everything can be stored again, and the sums are
/// right. Returns how often the fault has happened.
fn run(case: Case) -> u64 {
    let folder = TestFolder::new();
    let store = folder.open();
    let urls = ["http://a/1", "http://a/2", "http://a/3"];
    let bodies = [body(1, 10), body(2, 60_000), body(3, 300_000)];
    put(&store, urls[0], &bodies[0]).unwrap();
    plan::arm(Some(case));
    let purge: Purge = "path - /2".parse().unwrap();
    for round in 0..2 {
        for (url, body) in urls.iter().zip(&bodies) {
            _ = put(&store, url, body);
            let found = get_bytes(&store, url);
            assert!(found.is_none() || found.as_ref() == Some(body), "{case}: {url}");
        }
        if round == 0 {
            store.walk();
            store.purge(&purge, store.purges.begin(purge.clone()));
        }
    }
    let struck = plan::disarm();
    for (url, body) in urls.iter().zip(&bodies) {
        let found = get_bytes(&store, url);
        assert!(found.is_none() || found.as_ref() == Some(body), "{case}: {url} afterwards");
        put(&store, url, body).unwrap_or_else(|why| panic!("{case}: {url}: {why:?}"));
        assert_eq!(get_bytes(&store, url).as_ref(), Some(body), "{case}");
    }
    store.walk();
    let is_new = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("new-");
    let files = folder.files();
    let entries: Vec<_> = files.iter().filter(|path| !is_new(path)).collect();
    let bytes: u64 = entries.iter().map(|path| space(fs::metadata(path).unwrap().len())).sum();
    assert_eq!((store.stats().entries, entries.len(), store.stats().bytes), (3, 3, bytes), "{case}");
    // A later walk removes what could not be removed.
    assert!(files.len() == 3 || case.call == Some(Call::Unlink), "{case}: {files:?}");
    struck
}

/// As `get`, by calls that do not fail.
fn get_bytes(store: &Store, url: &str) -> Option<Vec<u8>> {
    let found = store.find(&key(url)).pop()?;
    let mut body = vec![0; found.length as usize];
    let mut filled = 0;
    while filled < body.len() {
        let n = rustix::io::pread(&found.fd, &mut body[filled..], found.at + filled as u64).unwrap();
        // It has become shorter since it was found: its client sees a truncated response.
        if n == 0 {
            return None;
        }
        filled += n;
    }
    Some(body)
}

#[test]
fn survives_the_failure_of_any_call() {
    in_child("survives_the_failure_of_any_call", all_cases);
}

#[test]
fn a_file_that_cannot_be_removed_is_counted_and_not_used() {
    in_child("a_file_that_cannot_be_removed_is_counted_and_not_used", unremovable_files);
}

#[test]
fn a_full_disk_costs_no_more_files_than_the_response_needs() {
    in_child("a_full_disk_costs_no_more_files_than_the_response_needs", full_disk);
}

/// Runs the test of this name as `work`, in a process of its own.
fn in_child(name: &str, work: fn()) {
    if std::env::var_os(IN_CHILD).is_some() {
        return work();
    }
    let name = format!("{}::{name}", module_path!().split_once("::").map_or("", |(_, path)| path));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(IN_CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn all_cases() {
    let mut struck = 0;
    for (call, _) in plan::CALLS {
        for fault in faults(*call) {
            for n in 1..=CALLS {
                match run(Case { call: Some(*call), which: Which::Nth(n), fault }) {
                    0 => break,
                    more => struck += more,
                }
            }
            run(Case { call: Some(*call), which: Which::EveryOther, fault });
        }
    }
    assert!(struck > 300, "{struck}");
}

fn full_disk() {
    let folder = TestFolder::new();
    let store = folder.open();
    let urls: Vec<String> = (0..20).map(|number| format!("http://a/{number}")).collect();
    urls.iter().for_each(|url| put(&store, url, b"one block").unwrap());
    let mut evicted = 0;
    for (length, blocks) in [(9, 1), (10_000, 3), (1_000_000, 16)] {
        let fault = Fault::Errno(Errno::NOSPC);
        plan::arm(Some(Case { call: Some(Call::Pwrite), which: Which::Nth(1), fault }));
        assert_eq!(put(&store, "http://a/new", &body(1, length)), Err(NotStored::Failed));
        plan::disarm();
        evicted += blocks;
        assert_eq!(store.stats().evicted, evicted, "after {length} bytes");
    }
    assert_eq!(get_bytes(&store, &urls[19]), None);
}

fn unremovable_files() {
    let folder = TestFolder::new();
    let store = folder.open_with(CacheFiles { bytes: 3 * 4096, ..folder.limits() });
    let (purged, other, third) = ("http://a/1", "http://a/2", "http://a/3");
    [purged, other, third].into_iter().for_each(|url| put(&store, url, b"old").unwrap());
    // The process has not stored it, so only the folder has it.
    put(&folder.open(), "http://a/1/unknown", b"old").unwrap();
    let purge: Purge = "prefix - /1".parse().unwrap();
    let remove = || store.purge(&purge, store.purges.begin(purge.clone()));
    let found = |url| get_bytes(&store, url);

    let fault = Fault::Errno(Errno::IO);
    plan::arm(Some(Case { call: Some(Call::Unlink), which: Which::First(u64::MAX), fault }));
    for _ in 0..2 {
        assert_eq!(remove(), Purged { removed: 0, failed: 2 });
        store.walk();
        assert_eq!(
            (found(purged), found("http://a/1/unknown")),
            (None, None),
            "a walk does not bring it back"
        );
    }
    assert_eq!(put(&store, "http://a/4", b"new"), Err(NotStored::Full));
    let stats = store.stats();
    assert_eq!((stats.entries, stats.bytes, stats.evicted, stats.purged), (4, 4 * 4096, 0, 0));
    assert!(stats.failed > 4, "{stats:?}");

    plan::disarm();
    store.walk();
    assert_eq!((found(purged), store.stats().entries), (None, folder.files().len() as u64));
    put(&store, purged, b"new").unwrap();
    assert_eq!(found(purged), Some(b"new".to_vec()));
    assert_eq!(remove(), Purged { removed: 1, failed: 0 });
}
