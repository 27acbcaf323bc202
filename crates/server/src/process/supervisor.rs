//! When a child that has ended is started again, and when a child that is to end is killed. Children are processes and
//! workers. Pure: the time is handed in, and the caller starts, signals and reaps.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Where no process or thread is started because there are too many, or because there is no memory for the stack of a
/// thread (EAGAIN of fork(2) and pthread_create(3)).
pub const TOO_MANY: &str = "; its user, its service or its container has too many processes and threads, or too little \
                            memory: raise `ulimit -Hu` (LimitNPROC), TasksMax, the container's limit of pids, or the \
                            limits of memory (`ulimit -Hv`, `ulimit -Hd`)";

/// What the kernel's reason for not giving a descriptor leaves out.
pub fn advice_on_descriptors(errno: i32) -> &'static str {
    match errno {
        libc::EMFILE => "; raise `ulimit -Hn` (LimitNOFILE in a unit)",
        libc::ENFILE => "; raise fs.file-max of the kernel (sysctl)",
        _ => "",
    }
}

/// What the kernel's reason for not starting a process or a thread leaves out.
pub fn what_to_do(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => TOO_MANY,
        Some(errno) => advice_on_descriptors(errno),
        None => "",
    }
}

/// The pause before the next start: none after the first end, `first` after the second one, and twice as long after
/// each further one, up to `longest`. Starts are never given up: the cause may pass, and until then some requests are
/// answered.
#[derive(Debug)]
pub struct RestartLimit {
    first: Duration,
    longest: Duration,
    /// Older ends do not count. `None`: all of them do, until `reset`.
    within: Option<Duration>,
    /// Those that count, the last one first.
    ends: VecDeque<Instant>,
    not_before: Option<Instant>,
}

impl RestartLimit {
    /// For workers, and for processes that serve: ends count for a minute.
    pub fn of_servers() -> RestartLimit {
        RestartLimit {
            within: Some(Duration::from_secs(60)),
            ..RestartLimit::new(Duration::from_millis(500), Duration::from_secs(4))
        }
    }

    /// For the process that gets certificates: with each start, it may ask an authority for one.
    pub fn of_certificates() -> RestartLimit {
        RestartLimit {
            within: Some(Duration::from_secs(3 * 3600)),
            ..RestartLimit::new(Duration::from_secs(1), Duration::from_secs(3600))
        }
    }

    /// For the processes of an application: ends count until one of them serves.
    pub fn of_applications() -> RestartLimit {
        RestartLimit::new(Duration::from_millis(100), Duration::from_secs(30))
    }

    fn new(first: Duration, longest: Duration) -> RestartLimit {
        RestartLimit { first, longest, within: None, ends: VecDeque::new(), not_before: None }
    }

    /// Counts one more end. Returns the pause before the next start.
    pub fn count(&mut self, now: Instant) -> Duration {
        if let Some(within) = self.within {
            self.ends.retain(|then| now.duration_since(*then) < within);
        }
        self.ends.push_front(now);
        let pause = match self.ends.len() {
            1 => Duration::ZERO,
            n => self.first.saturating_mul(1 << (n - 2)).min(self.longest),
        };
        if pause == self.longest {
            // More of them would not lengthen the pause.
            self.ends.pop_back();
        }
        self.not_before = Some(now + pause);
        pause
    }

    /// Counts from the beginning: a child has done its work. A pause that has begun lasts.
    pub fn reset(&mut self) {
        self.ends.clear();
    }

    /// Ends that count, as far as they lengthen the pause.
    pub fn ends(&self) -> usize {
        self.ends.len()
    }

    /// The end of the pause, if it is still to come.
    pub fn pause(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|until| now < *until)
    }
}

/// When a child that is to end is killed. A child that the kernel does not end at once is killed again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KillTimer {
    due: Instant,
}

impl KillTimer {
    const REPEAT: Duration = Duration::from_secs(2);

    /// The child has got SIGTERM or its like, and has `grace` to end.
    pub fn start(now: Instant, grace: Duration) -> KillTimer {
        KillTimer { due: now + grace }
    }

    pub fn due(&self) -> Instant {
        self.due
    }

    /// Is the child to be killed now? If so, the timer starts again.
    pub fn expires(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now + KillTimer::REPEAT;
        }
        is_due
    }
}

/// When the next start is due, for a log line.
pub fn text(pause: Duration) -> String {
    match pause.as_millis().div_ceil(100) {
        0 => "at once".to_owned(),
        tenths if tenths % 10 == 0 => format!("in {} s", tenths / 10),
        tenths => format!("in {}.{} s", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause after the last of these ends.
    fn pause(mut limit: RestartLimit, ends: &[u64]) -> u128 {
        let start = Instant::now();
        let pauses = ends.iter().map(|seconds| limit.count(start + Duration::from_secs(*seconds)));
        pauses.last().unwrap_or_default().as_millis()
    }

    #[test]
    fn lengthens_the_pause_with_each_end_within_a_minute_up_to_four_seconds() {
        let check = |ends: &[u64], expected| {
            assert_eq!(pause(RestartLimit::of_servers(), ends), expected, "{ends:?}");
        };
        check(&[0], 0);
        check(&[0, 1], 500);
        check(&[0, 1, 2], 1000);
        check(&[0, 1, 2, 3], 2000);
        check(&[0, 1, 2, 3, 4], 4000);
        check(&(0..50).collect::<Vec<_>>(), 4000);
        check(&[0, 1, 2, 3, 63], 0);
        check(&[0, 1, 2, 3, 62], 500);
        check(&[0, 61, 122, 183], 0);
    }

    #[test]
    fn lengthens_the_pause_of_the_process_that_gets_certificates_up_to_an_hour() {
        for (ends, expected) in
            [(1, 0), (2, 1000), (3, 2000), (13, 2_048_000), (14, 3_600_000), (99, 3_600_000)]
        {
            let ends: Vec<u64> = (0..ends).collect();
            assert_eq!(pause(RestartLimit::of_certificates(), &ends), expected, "{}", ends.len());
        }
    }

    #[test]
    fn lengthens_the_pause_of_an_application_up_to_thirty_seconds_until_one_of_its_processes_serves() {
        for (ends, expected) in [(1, 0), (2, 100), (3, 200), (10, 25_600), (11, 30_000), (99, 30_000)] {
            let ends: Vec<u64> = (0..ends).map(|n| n * 3600).collect();
            assert_eq!(pause(RestartLimit::of_applications(), &ends), expected, "{}", ends.len());
        }
        let (mut limit, now) = (RestartLimit::of_applications(), Instant::now());
        (0..3).for_each(|_| _ = limit.count(now));
        limit.reset();
        assert_eq!(limit.pause(now), Some(now + Duration::from_millis(200)), "it has begun");
        assert_eq!(limit.pause(now + Duration::from_millis(200)), None);
        assert_eq!(limit.count(now), Duration::ZERO);
    }

    #[test]
    fn kills_a_child_after_its_grace_and_again_while_it_does_not_end() {
        let now = Instant::now();
        let mut timer = KillTimer::start(now, Duration::from_secs(5));
        let after = |seconds| now + Duration::from_secs(seconds);
        let found: Vec<bool> = [0, 4, 5, 6, 7, 8, 9].map(|at| timer.expires(after(at))).to_vec();
        assert_eq!(found, [false, false, true, false, true, false, true]);
        assert_eq!(timer.due(), after(11));
    }
}
