//! What the service manager is told (`sd_notify(3)`), where there is one.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::net::{SendFlags, SocketAddrUnix, sendto};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// How long a manager may take to make room for another message. Nothing else is done meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct Notify {
    manager: Option<(UnixDatagram, SocketAddrUnix)>,
    /// How often it wants to hear that every loop turns.
    watchdog: Option<Duration>,
}

impl Notify {
    /// As the environment says (`sd_watchdog_enabled(3)`).
    pub fn from_environment() -> Notify {
        let manager = std::env::var("NOTIFY_SOCKET").ok().and_then(|name| {
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
                None => SocketAddrUnix::new(&name),
            };
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_write_timeout(Some(PATIENCE)).ok()?;
            Some((socket, address.ok()?))
        });
        let watchdog = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        Notify { watchdog: watchdog.filter(|_| manager.is_some()).map(Duration::from_micros), manager }
    }

    /// How often the loops are to be asked: twice as often as the manager wants to hear of it.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.map(|every| every / 2)
    }

    pub fn ready(&self) {
        self.tell("READY=1", SendFlags::empty());
    }

    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"), SendFlags::empty());
    }

    pub fn stopping(&self) {
        self.tell("STOPPING=1", SendFlags::empty());
    }

    pub fn alive(&self) {
        // One that has not heard the last ones yet need not hear this one.
        self.tell("WATCHDOG=1", SendFlags::DONTWAIT);
    }

    /// Another process is the one to be watched from now on.
    pub fn succeeded_by(&self, process: Pid) {
        self.tell(&format!("MAINPID={}\nREADY=1", process.as_raw_pid()), SendFlags::empty());
    }

    fn tell(&self, what: &str, how: SendFlags) {
        if let Some((socket, manager)) = &self.manager {
            // A manager that does not listen need not be told.
            _ = sendto(socket, what.as_bytes(), how | SendFlags::NOSIGNAL, manager);
        }
    }
}
