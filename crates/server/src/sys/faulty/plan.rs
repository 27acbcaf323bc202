//! Which call fails, and how: one plan for the whole process, for helper threads and the log take part, too.
//! A case can be written as text and read again, so that whatever failed once can be repeated.
//!
//! Knows no system call.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

macro_rules! calls {
    ($($call:ident $name:literal,)*) => {
        /// A kind of system call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Call { $($call,)* }

        /// Each with its name.
        pub const CALLS: &[(Call, &str)] = &[$((Call::$call, $name),)*];
    };
}

calls! {
    Accept "accept",
    Recv "recv",
    PollRead "poll_read",
    Send "send",
    Sendfile "sendfile",
    Adopt "adopt",
    EpollAdd "epoll_add",
    EpollWait "epoll_wait",
    Open "open",
    Openat "openat",
    Openat2 "openat2",
    Duplicate "duplicate",
    Fstat "fstat",
    Statx "statx",
    Readlink "readlink",
    Preadv2 "preadv2",
    Pread "pread",
    OpenFolder "open_folder",
    NextEntry "next_entry",
    Spawn "spawn",
    Write "write",
}

/// What happens instead of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Errno(Errno),
    /// It is done, but with so many bytes at most.
    Short(usize),
    /// It is done, but the file has lost half of its bytes meanwhile.
    Truncated,
    /// As `Short`, and the next call of the kind finds the disk full.
    Fills(usize),
    /// A mistake in what surrounds it.
    Panic,
}

/// Which of the calls of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Counted from 1.
    Nth(u64),
    /// The first, the third, and so on.
    EveryOther,
    /// So many from the first on.
    First(u64),
}

/// A fault, and where it happens. Without a call: wherever it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub call: Option<Call>,
    pub which: Which,
    pub fault: Fault,
}

const ERRNOS: &[(Errno, &str)] = &[
    (Errno::AGAIN, "EAGAIN"),
    (Errno::CONNABORTED, "ECONNABORTED"),
    (Errno::CONNRESET, "ECONNRESET"),
    (Errno::DQUOT, "EDQUOT"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    (Errno::INTR, "EINTR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::IO, "EIO"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NFILE, "ENFILE"),
    (Errno::NOBUFS, "ENOBUFS"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::PERM, "EPERM"),
    (Errno::PIPE, "EPIPE"),
    (Errno::PROTO, "EPROTO"),
    (Errno::STALE, "ESTALE"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
];

const ANY: &str = "any";
const EVERY_OTHER: &str = "every-other";
const FIRST: &str = "first-";
const SHORT: &str = "short-";
const FILLS: &str = "fills-";
const TRUNCATED: &str = "truncated";
const PANIC: &str = "panic";

impl Call {
    /// Can it take a while, and so be interrupted?
    fn can_wait(self) -> bool {
        !matches!(self, Call::Adopt | Call::EpollAdd | Call::Duplicate | Call::NextEntry | Call::Spawn)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = CALLS.iter().find(|(call, _)| call == self).map_or("", |(_, name)| name);
        out.write_str(name)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Some(call) => write!(out, "{call} ")?,
            None => write!(out, "{ANY} ")?,
        }
        match self.which {
            Which::Nth(n) => write!(out, "{n} ")?,
            Which::EveryOther => write!(out, "{EVERY_OTHER} ")?,
            Which::First(n) => write!(out, "{FIRST}{n} ")?,
        }
        match self.fault {
            Fault::Errno(errno) => {
                let name = ERRNOS.iter().find(|(e, _)| *e == errno).map(|(_, name)| *name);
                out.write_str(name.expect("every errno of a case is in the table"))
            }
            Fault::Short(most) => write!(out, "{SHORT}{most}"),
            Fault::Fills(most) => write!(out, "{FILLS}{most}"),
            Fault::Truncated => out.write_str(TRUNCATED),
            Fault::Panic => out.write_str(PANIC),
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [call, which, fault] = words[..] else {
            return Err(format!("{text:?} is not a call, which one, and a fault"));
        };
        let number = |word: &str, prefix: &str| word.strip_prefix(prefix).and_then(|n| n.parse::<u64>().ok());
        let call = match CALLS.iter().find(|(_, name)| *name == call) {
            Some((call, _)) => Some(*call),
            None if call == ANY => None,
            None => return Err(format!("{call} is no call")),
        };
        let which = match (number(which, ""), number(which, FIRST)) {
            (Some(n), _) => Which::Nth(n),
            (_, Some(n)) => Which::First(n),
            _ if which == EVERY_OTHER => Which::EveryOther,
            _ => return Err(format!("{which} is no number")),
        };
        let fault = match (ERRNOS.iter().find(|(_, name)| *name == fault), number(fault, SHORT)) {
            (Some((errno, _)), _) => Fault::Errno(*errno),
            (_, Some(most)) => Fault::Short(most as usize),
            _ if fault.starts_with(FILLS) => {
                Fault::Fills(number(fault, FILLS).ok_or("that is no number")? as usize)
            }
            _ if fault == TRUNCATED => Fault::Truncated,
            _ if fault == PANIC => Fault::Panic,
            _ => return Err(format!("{fault} is no fault")),
        };
        Ok(Case { call, which, fault })
    }
}

struct Plan {
    case: Option<Case>,
    counts: [u64; CALLS.len()],
    struck: u64,
    /// There is no room for what is written next.
    is_full: bool,
}

static PLAN: Mutex<Plan> =
    Mutex::new(Plan { case: None, counts: [0; CALLS.len()], struck: 0, is_full: false });

fn plan() -> std::sync::MutexGuard<'static, Plan> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on calls are counted, and `case` happens.
pub fn arm(case: Option<Case>) {
    *plan() = Plan { case, counts: [0; CALLS.len()], struck: 0, is_full: false };
}

/// As `pause`; how often a fault has happened.
pub fn disarm() -> u64 {
    let mut plan = plan();
    plan.case = None;
    plan.struck
}

/// From now on everything is as it should be, but the fault still counts as one that happened.
pub fn pause() {
    plan().case = None;
}

/// How many calls of each kind there have been since `arm`.
pub fn counts() -> [u64; CALLS.len()] {
    plan().counts
}

/// Counts a call, and says what goes wrong with it.
pub fn strike(call: Call) -> Option<Fault> {
    let mut plan = plan();
    plan.counts[call as usize] += 1;
    let n = plan.counts[call as usize];
    let case = plan.case?;
    if case.call == Some(call) && std::mem::take(&mut plan.is_full) {
        return Some(Fault::Errno(Errno::NOSPC));
    }
    let is_meant = case.call.map_or(call.can_wait(), |meant| meant == call)
        && match case.which {
            Which::Nth(nth) => n == nth,
            Which::EveryOther => n % 2 == 1,
            Which::First(last) => n <= last,
        };
    if !is_meant {
        return None;
    }
    plan.struck += 1;
    plan.is_full = matches!(case.fault, Fault::Fills(_));
    Some(case.fault)
}
