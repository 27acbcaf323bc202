//! Whether the kernel has killed processes because there was no memory, which the end of a child does not tell.

use std::fs;

/// Of a process that was killed by SIGABRT.
pub(super) const ABORTED: &str = " (unless a panic is logged before this, it has probably had no memory left: allow it \
                                  more, as by `ulimit -Hv` or LimitAS, or lower what `taipan check` prints under memory)";

/// How many it had killed at the last look, on the whole machine. `None`: this kernel does not count them.
pub(super) struct OomKills(Option<u64>);

impl OomKills {
    pub(super) fn now() -> OomKills {
        OomKills(fs::read_to_string("/proc/vmstat").ok().and_then(|text| count(&text)))
    }

    /// For a child that was killed: what to do if the kernel has killed a process since the last look.
    pub(super) fn explanation(&mut self) -> &'static str {
        let before = std::mem::replace(self, OomKills::now());
        explanation(before.0, self.0)
    }
}

/// Empty: the kernel has killed none.
fn explanation(before: Option<u64>, now: Option<u64>) -> &'static str {
    match before.zip(now) {
        Some((before, now)) if now > before => {
            " (the kernel has killed a process because the machine or the control group had no memory left: allow it \
             more, as by MemoryMax, or lower what `taipan check` prints under memory)"
        }
        _ => "",
    }
}

fn count(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_explained_if_the_kernel_has_killed_one_since() {
        assert_eq!(count("nr_free 7\noom_kill 12\nx 1\n"), Some(12));
        assert_eq!((count("oom_killer 1\n"), count("")), (None, None));
        assert!(explanation(Some(1), Some(2)).contains("no memory"));
        for (before, now) in [(Some(2), Some(2)), (None, Some(2)), (Some(2), None)] {
            assert_eq!(explanation(before, now), "");
        }
    }
}
