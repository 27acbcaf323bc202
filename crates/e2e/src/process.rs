//! Facts about a process, by its number.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Whether a process runs: it exists and is no zombie. Descriptors stay open until its last thread has ended, which may
/// be another one than the first.
pub fn runs(pid: u32) -> bool {
    /// `num_threads` of proc_pid_stat(5).
    const THREADS: usize = 17;
    let stat = stat(pid);
    let has_threads =
        || stat.get(THREADS).and_then(|count| count.parse().ok()).is_some_and(|count: u32| count > 1);
    stat.first().is_some_and(|state| !matches!(state.as_str(), "Z" | "X") || has_threads())
}

/// Whether all threads of a process wait, and none for a disk.
pub fn sleeps(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let states: Vec<_> = tasks.map(|task| fields(&task.path().join("stat")).into_iter().next()).collect();
    !states.is_empty() && states.iter().all(|state| state.as_deref() == Some("S"))
}

/// The parent of a process.
pub fn parent_of(pid: u32) -> u32 {
    let parent = stat(pid).get(1).and_then(|pid| pid.parse().ok());
    parent.unwrap_or_else(|| panic!("{pid} does not run"))
}

/// The children of a process that it has not waited for, the oldest first.
pub fn children_of(pid: u32) -> Vec<u32> {
    let read = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    // A read can omit a process if another one ends meanwhile (proc_tid_children(5)).
    let mut children = read();
    loop {
        let again = read();
        if again == children {
            break;
        }
        children = again;
    }
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The number of the group that a process is in.
pub fn group_of(pid: u32) -> Option<u32> {
    stat(pid).get(2)?.parse().ok()
}

/// The processor time of a process, in steps of 10 ms.
pub fn processor_time(pid: u32) -> Duration {
    let ticks = stat(pid).into_iter().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number"));
    Duration::from_millis(10 * ticks.sum::<u64>())
}

fn stat(pid: u32) -> Vec<String> {
    fields(format!("/proc/{pid}/stat").as_ref())
}

/// `/proc/PID/stat` (proc_pid_stat(5)), or that of a thread, from its third field on; empty if there is no such process.
fn fields(file: &Path) -> Vec<String> {
    let stat = fs::read_to_string(file).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}
