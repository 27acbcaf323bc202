//! Notifications to the service manager (sd_notify(3)), if there is one.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, SocketAddrUnix, sendto};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// How long a send may block when the manager's queue is full. The master does nothing else meanwhile.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Notify {
    manager: Option<(UnixDatagram, SocketAddrUnix)>,
    /// The manager expects a notification at least this often.
    watchdog: Option<Duration>,
    /// When the generation that serves is asked whether it is alive.
    next_ping: Option<Instant>,
}

impl Notify {
    /// Reads the environment (sd_watchdog_enabled(3)).
    pub fn from_environment() -> Notify {
        let manager = std::env::var("NOTIFY_SOCKET").ok().and_then(|name| {
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
                None => SocketAddrUnix::new(&name),
            };
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_write_timeout(Some(SEND_TIMEOUT)).ok()?;
            Some((socket, address.ok()?))
        });
        let watchdog = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        // 0 is no interval (sd_watchdog_enabled(3)).
        let watchdog = watchdog.filter(|micros| *micros > 0 && manager.is_some());
        Notify { watchdog: watchdog.map(Duration::from_micros), manager, next_ping: None }
    }

    /// Whether there is a service manager that is told which process is the main one.
    pub fn has_manager(&self) -> bool {
        self.manager.is_some()
    }

    /// The next ping is due after half of the manager's interval.
    pub fn schedule_ping(&mut self, now: Instant) {
        self.next_ping = self.watchdog.map(|every| now + every / 2);
    }

    pub fn end_pings(&mut self) {
        self.next_ping = None;
    }

    pub fn next_ping(&self) -> Option<Instant> {
        self.next_ping
    }

    pub fn ready(&self) {
        self.send("READY=1", SendFlags::empty());
    }

    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"), SendFlags::empty());
    }

    pub fn stopping(&self) {
        self.send("STOPPING=1", SendFlags::empty());
    }

    pub fn alive(&self) {
        // With a full queue, the manager has earlier notifications to read.
        self.send("WATCHDOG=1", SendFlags::DONTWAIT);
    }

    /// Another process is the main process of the service now.
    pub fn main_process(&self, process: Pid) {
        self.send(&format!("MAINPID={}\nREADY=1", process.as_raw_pid()), SendFlags::empty());
    }

    fn send(&self, text: &str, flags: SendFlags) {
        if let Some((socket, manager)) = &self.manager {
            // The manager may have closed its socket.
            _ = sendto(socket, text.as_bytes(), flags | SendFlags::NOSIGNAL, manager);
        }
    }
}
