//! The plan: which call fails, and how. There is one for the whole process, because helper threads and the log thread
//! make calls, too. A case has a text form, so that a failure can be repeated.
//!
//! Makes no system call.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use rustix::io::Errno;

use crate::mutex::locked;

macro_rules! calls {
    ($($call:ident $name:literal,)*) => {
        /// A kind of system call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Call { $($call,)* }

        /// Every call with its name.
        pub const CALLS: &[(Call, &str)] = &[$((Call::$call, $name),)*];
    };
}

calls! {
    Accept "accept",
    Recv "recv",
    PollRead "poll_read",
    Send "send",
    Sendfile "sendfile",
    Watch "watch",
    EpollAdd "epoll_add",
    EpollWait "epoll_wait",
    Open "open",
    Openat "openat",
    Openat2 "openat2",
    Create "create",
    MakeFolder "make_folder",
    Rename "rename",
    Unlink "unlink",
    Pwrite "pwrite",
    FreeSpace "free_space",
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
    /// The call transfers at most this many bytes.
    Short(usize),
    /// The call succeeds after the file has lost half of its bytes.
    Truncated,
    /// Like `Short`, and the next call of the kind fails because the disk is full.
    Fills(usize),
    /// A bug in the caller.
    Panic,
}

/// Which calls of a kind fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Counted from 1.
    Nth(u64),
    /// The first, the third, and so on.
    EveryOther,
    /// This many, from the first on.
    First(u64),
}

/// A fault and the calls that it strikes. `None`: every call that can wait.
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
    /// Whether the call can wait, and so be interrupted.
    fn can_wait(self) -> bool {
        !matches!(self, Call::Watch | Call::EpollAdd | Call::Duplicate | Call::NextEntry | Call::Spawn)
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
    /// The next write fails because the disk is full.
    is_full: bool,
}

static PLAN: Mutex<Plan> =
    Mutex::new(Plan { case: None, counts: [0; CALLS.len()], struck: 0, is_full: false });

fn plan() -> std::sync::MutexGuard<'static, Plan> {
    locked(&PLAN)
}

/// Counts calls from zero, and makes them fail as `case` says.
pub fn arm(case: Option<Case>) {
    *plan() = Plan { case, counts: [0; CALLS.len()], struck: 0, is_full: false };
}

/// Ends the case, and returns how often the fault has happened.
pub fn disarm() -> u64 {
    let mut plan = plan();
    plan.case = None;
    plan.struck
}

/// Ends the case, but keeps the count of its faults.
pub fn pause() {
    plan().case = None;
}

/// The number of calls of each kind since `arm`.
pub fn counts() -> [u64; CALLS.len()] {
    plan().counts
}

/// Counts a call and returns its fault.
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
