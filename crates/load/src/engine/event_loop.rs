//! The loop of one thread: epoll, its connections in turn, and the clock.

use std::cmp::Reverse;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::connection::Connection;
use super::thread_state::{First, ThreadState, is_open};
use super::{ReportSender, SecondReport};
use crate::plan::Plan;

const EVENTS_PER_TURN: usize = 512;
const MILLISECOND: u32 = 1_000_000;
/// How often the connections are looked through for what has lasted too long.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs one thread's share to its end.
///
/// Errors: those of epoll itself.
pub fn run<'p>(
    mut state: ThreadState<'p>,
    mut connections: Vec<Connection>,
    first_at: &[Instant],
    stop: &AtomicBool,
    sender: Option<&ReportSender>,
) -> std::io::Result<ThreadState<'p>> {
    // The kernel may be 50 microseconds late otherwise; where it refuses, it is.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let timer = Timer::new(&state.epoll)?;
    for (index, at) in first_at.iter().enumerate() {
        state.wake(*at, index);
    }
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_TURN);
    let mut now = Instant::now();
    let mut next_check = now + CHECK_INTERVAL;
    let mut reported = 0;
    while !stop.load(Ordering::Relaxed) && !matches!(state.first, First::Refused(_)) {
        assign_requests(&mut state, &mut connections, now);
        run_timers(&mut state, &mut connections, now);
        if now >= next_check {
            next_check = now + CHECK_INTERVAL;
            if check_timeouts(&mut state, &mut connections, now) == 0 {
                break;
            }
            reported = report_seconds(&state, sender, reported, now);
        }
        let mut timeout = pause(&state, next_check, now);
        if !timeout.subsec_nanos().is_multiple_of(MILLISECOND) && next_check > now + timeout {
            timer.set(timeout)?;
            timeout = next_check - now;
        }
        events.clear();
        match epoll::wait(&state.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timespec(timeout)))
        {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        now = Instant::now();
        for event in &events {
            if let Some(connection) = connections.get_mut(event.data.u64() as usize) {
                connection.on_event(&mut state, event.flags, now);
            }
        }
    }
    for connection in &connections {
        state.tally.measured.per_client.record(connection.finished);
    }
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    let micros = cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000;
    state.tally.measured.cpu_micros = micros;
    state.tally.measured.busiest_micros = micros;
    Ok(state)
}

/// What wakes a thread between two milliseconds, which epoll's own timeout cannot: a request that is due
/// must not be late because of that.
struct Timer(OwnedFd);

impl Timer {
    fn new(epoll: &OwnedFd) -> Result<Timer, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered: that it has rung need not be read. It is no connection's.
        epoll::add(epoll, &timer, EventData::new_u64(u64::MAX), EventFlags::IN | EventFlags::ET)?;
        Ok(Timer(timer))
    }

    /// Once, in place of any other time.
    fn set(&self, pause: Duration) -> Result<(), Errno> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval: never, it_value: timespec(pause) };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time).map(drop)
    }
}

/// How long nothing has to be done.
fn pause(state: &ThreadState<'_>, next_check: Instant, now: Instant) -> Duration {
    let wake = state.wakes.peek().map(|Reverse((at, _))| *at);
    match [state.next_due(), wake].into_iter().flatten().min() {
        // The clock was read before the last events were served, and whoever is due is due by the clock.
        Some(at) => at.min(next_check).saturating_duration_since(Instant::now()),
        None => next_check.saturating_duration_since(now),
    }
}

/// Gives what is due to the connections that wait for it; at the end, tells them that it is the end.
fn assign_requests(state: &mut ThreadState<'_>, connections: &mut [Connection], now: Instant) {
    if !is_open(state.plan) {
        return;
    }
    let mut waiting = state.collect(now);
    // Bounded by the connections: each is asked once.
    for _ in 0..state.free.len() {
        if !waiting && !state.is_over(now) {
            break;
        }
        let Some(index) = state.free.pop_front() else { break };
        connections[index].mark_taken();
        connections[index].start_requests(state, now);
        waiting = state.has_backlog();
    }
}

fn run_timers(state: &mut ThreadState<'_>, connections: &mut [Connection], now: Instant) {
    // Bounded: what is woken and wants to be woken again wants it later, or is left for the next turn.
    for _ in 0..state.wakes.len() {
        match state.wakes.peek() {
            Some(Reverse((at, _))) if *at <= now => {}
            _ => break,
        }
        if let Some(Reverse((_, index))) = state.wakes.pop() {
            connections[index].on_timer(state, now);
        }
    }
}

/// How many are still at work.
fn check_timeouts(state: &mut ThreadState<'_>, connections: &mut [Connection], now: Instant) -> usize {
    for connection in connections.iter_mut() {
        connection.check_timeouts(state, now);
    }
    if state.over_since(now).is_some_and(|over| over > state.plan.timeout) {
        state.give_up_backlog(now);
    }
    connections.iter().filter(|connection| !connection.is_retired()).count()
}

/// Tells of every second that is over. Returns how many were told of.
fn report_seconds(
    state: &ThreadState<'_>,
    sender: Option<&ReportSender>,
    reported: usize,
    now: Instant,
) -> usize {
    let Some(sender) = sender else { return reported };
    let series = &state.tally.measured.series;
    let over = now.saturating_duration_since(state.tally.begin).as_secs() as usize;
    // Points grow wider in very long runs, and then nobody is watching.
    if series.width() > 1 {
        return reported;
    }
    for second in reported..over {
        let point = series.points().get(second).cloned().unwrap_or_default();
        // Who does not listen any more misses nothing that is not in the report.
        let _ = sender.send(SecondReport { second: second as u64, point });
    }
    reported.max(over)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// When each connection of a thread begins: at once, or one after the other along the ramp.
pub fn starts(plan: &Plan, first: usize, count: usize, start: Instant) -> Vec<Instant> {
    let part = |index: usize| (first + index) as f64 / plan.connections as f64;
    let ramp = if is_open(plan) { Duration::ZERO } else { plan.ramp };
    (0..count).map(|index| start + ramp.mul_f64(part(index))).collect()
}
