//! The event loop of one thread: epoll, the connections and the timers.

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
/// How often all connections are checked for timeouts.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs one thread's share of the plan to its end.
///
/// Errors: those of epoll itself.
pub fn run<'p>(
    mut state: ThreadState<'p>,
    mut connections: Vec<Connection>,
    first_at: &[Instant],
    stop: &AtomicBool,
    sender: Option<&ReportSender>,
) -> std::io::Result<ThreadState<'p>> {
    // Otherwise timers fire up to 50 microseconds late. If the kernel refuses, they do.
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

/// Wakes the thread with a finer resolution than the milliseconds of epoll's timeout, so that a due request
/// starts on time.
struct Timer(OwnedFd);

impl Timer {
    fn new(epoll: &OwnedFd) -> Result<Timer, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered, so that the count of expirations need not be read. Its number is that of no connection.
        epoll::add(epoll, &timer, EventData::new_u64(u64::MAX), EventFlags::IN | EventFlags::ET)?;
        Ok(Timer(timer))
    }

    /// Fires once after `pause`; replaces the time that was set before.
    fn set(&self, pause: Duration) -> Result<(), Errno> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval: never, it_value: timespec(pause) };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time).map(drop)
    }
}

/// How long the thread may sleep.
fn pause(state: &ThreadState<'_>, next_check: Instant, now: Instant) -> Duration {
    let wake = state.wakes.peek().map(|Reverse((at, _))| *at);
    match [state.next_due(), wake].into_iter().flatten().min() {
        // `now` is older than the events that were just handled, so the clock is read again.
        Some(at) => at.min(next_check).saturating_duration_since(Instant::now()),
        None => next_check.saturating_duration_since(now),
    }
}

/// Assigns due requests to free connections. At the end of the run, retires those connections.
fn assign_requests(state: &mut ThreadState<'_>, connections: &mut [Connection], now: Instant) {
    if !is_open(state.plan) {
        return;
    }
    let mut waiting = state.collect(now);
    // Bounded by the connections: each is visited once.
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
    // Bounded by the timers that are set now: a new one is later, or is left for the next turn.
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

/// Checks all connections for timeouts. Returns how many are still in use.
fn check_timeouts(state: &mut ThreadState<'_>, connections: &mut [Connection], now: Instant) -> usize {
    for connection in connections.iter_mut() {
        connection.check_timeouts(state, now);
    }
    if state.over_since(now).is_some_and(|over| over > state.plan.timeout) {
        state.give_up_backlog(now);
    }
    connections.iter().filter(|connection| !connection.is_retired()).count()
}

/// Sends a report for every second that is over. Returns how many seconds were reported.
fn report_seconds(
    state: &ThreadState<'_>,
    sender: Option<&ReportSender>,
    reported: usize,
    now: Instant,
) -> usize {
    let Some(sender) = sender else { return reported };
    let series = &state.tally.measured.series;
    let over = now.saturating_duration_since(state.tally.begin).as_secs() as usize;
    // In very long runs a point covers several seconds; such runs are not reported.
    if series.width() > 1 {
        return reported;
    }
    for second in reported..over {
        let point = series.points().get(second).cloned().unwrap_or_default();
        // If the receiver has ended, the final report still has every point.
        let _ = sender.send(SecondReport { second: second as u64, point });
    }
    reported.max(over)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// When each connection of a thread begins: at once, or spread over the ramp.
pub fn starts(plan: &Plan, first: usize, count: usize, start: Instant) -> Vec<Instant> {
    let part = |index: usize| (first + index) as f64 / plan.connections as f64;
    let ramp = if is_open(plan) { Duration::ZERO } else { plan.ramp };
    (0..count).map(|index| start + ramp.mul_f64(part(index))).collect()
}
