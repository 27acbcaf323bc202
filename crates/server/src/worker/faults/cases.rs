//! The plausible faults of each call, and the choice of cases that are run.

use rustix::io::Errno;

use crate::sys::faulty::plan::{Call, Case, Fault, Which};

/// Faults that happen more than once.
pub fn lasting() -> Vec<Case> {
    let mut cases = vec![Case { call: None, which: Which::EveryOther, fault: errno(Errno::INTR) }];
    for most in (1..=16).chain([64, 200, 1460, 16_384]) {
        cases.push(Case { call: None, which: Which::First(FIRST), fault: Fault::Short(most) });
    }
    let every_other = |call, e| Case { call: Some(call), which: Which::EveryOther, fault: errno(e) };
    let first = |call, n, e| Case { call: Some(call), which: Which::First(n), fault: errno(e) };
    cases.extend([
        every_other(Call::Recv, Errno::AGAIN),
        every_other(Call::PollRead, Errno::AGAIN),
        every_other(Call::Send, Errno::AGAIN),
        every_other(Call::Sendfile, Errno::AGAIN),
        every_other(Call::Openat2, Errno::AGAIN),
        every_other(Call::Preadv2, Errno::AGAIN),
        first(Call::Preadv2, FIRST, Errno::AGAIN),
        first(Call::Preadv2, FIRST, Errno::OPNOTSUPP),
        first(Call::Sendfile, FIRST, Errno::INVAL),
        first(Call::Openat2, FIRST, Errno::NOSYS),
        first(Call::Accept, 3, Errno::MFILE),
        first(Call::Openat2, 30, Errno::MFILE),
        first(Call::Statx, 30, Errno::IO),
        first(Call::Preadv2, FIRST, Errno::IO),
        first(Call::Watch, 4, Errno::NOMEM),
        first(Call::EpollAdd, 4, Errno::NOSPC),
        first(Call::Sendfile, FIRST, Errno::IO),
        every_other(Call::Write, Errno::NOSPC),
        first(Call::Write, FIRST, Errno::NOSPC),
    ]);
    cases
}

/// The calls at the beginning of a run: enough for the heads and a part of the bodies when each call transfers one
/// byte.
const FIRST: u64 = 2000;

const fn errno(errno: Errno) -> Fault {
    Fault::Errno(errno)
}

/// Whether all cases run, or a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    All,
    Some,
}

/// This many calls of a kind are tested with each fault, and as many of the later ones.
const ALL_UP_TO: u64 = 8;

pub fn is_chosen(choice: Choice, seed: u64, call: Call, kind: usize, n: u64, usual: u64) -> bool {
    // Beyond the usual number of calls, until the fault no longer happens.
    if choice == Choice::All || n <= ALL_UP_TO || n > usual {
        return true;
    }
    let mut hash = seed ^ ((call as u64) << 48) ^ ((kind as u64) << 32) ^ n;
    for _ in 0..3 {
        hash = (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (hash >> 16) % (usual - ALL_UP_TO) < ALL_UP_TO
}

/// The errors that a kernel can return, and the panic of a bug.
pub fn plausible(call: Call) -> Vec<Fault> {
    use Fault::{Panic, Short, Truncated};
    let peer = [errno(Errno::CONNRESET), errno(Errno::TIMEDOUT), errno(Errno::NOMEM)];
    let lengths = [Short(1), Short(2), Short(7), Short(100), Short(4097)];
    let table = [errno(Errno::MFILE), errno(Errno::NFILE), errno(Errno::NOMEM)];
    let (interrupted, again) = (errno(Errno::INTR), errno(Errno::AGAIN));
    let disk = [errno(Errno::IO), errno(Errno::STALE), Panic];
    match call {
        Call::Accept => [
            &table[..],
            &[interrupted, again, errno(Errno::CONNABORTED), errno(Errno::NOBUFS), errno(Errno::PROTO)],
            &[errno(Errno::PERM), errno(Errno::HOSTUNREACH)],
        ]
        .concat(),
        Call::Recv => [&peer[..], &lengths, &[interrupted, again, Panic]].concat(),
        Call::PollRead => [&peer[..], &lengths, &[again, Panic]].concat(),
        Call::Send => {
            [&peer[..], &lengths, &[interrupted, again, errno(Errno::PIPE), errno(Errno::NOBUFS), Panic]]
                .concat()
        }
        Call::Sendfile => [
            &peer[..],
            &lengths,
            &[interrupted, again, errno(Errno::PIPE), errno(Errno::IO), errno(Errno::INVAL)],
            &[Truncated, Panic],
        ]
        .concat(),
        Call::Watch => vec![errno(Errno::NOMEM), errno(Errno::NOSPC)],
        Call::EpollAdd => vec![errno(Errno::NOMEM), errno(Errno::NOSPC)],
        Call::EpollWait => vec![interrupted],
        Call::Open | Call::Openat | Call::OpenFolder => [&table[..], &disk, &[interrupted]].concat(),
        Call::Openat2 => [&table[..], &disk, &[interrupted, again, errno(Errno::NOSYS)]].concat(),
        Call::Duplicate => vec![errno(Errno::MFILE), errno(Errno::NOMEM), Panic],
        Call::Fstat | Call::Statx | Call::Readlink => {
            [&disk[..], &[interrupted, errno(Errno::NOMEM)]].concat()
        }
        Call::Preadv2 => {
            [&lengths[..], &disk, &[interrupted, again, errno(Errno::OPNOTSUPP), Truncated]].concat()
        }
        Call::Pread => [&lengths[..], &disk, &[interrupted, Truncated]].concat(),
        Call::NextEntry => disk.to_vec(),
        Call::Spawn => vec![again],
        // Of the files of a cache, which have a series of their own.
        Call::Create | Call::MakeFolder | Call::Rename | Call::Unlink | Call::Pwrite | Call::FreeSpace => {
            Vec::new()
        }
        Call::Write => {
            let full =
                [errno(Errno::NOSPC), errno(Errno::DQUOT), errno(Errno::IO), again, errno(Errno::PIPE)];
            [&full[..], &lengths, &[interrupted, Fault::Fills(100), Fault::Fills(1000)]].concat()
        }
    }
}

/// Whether the fault must have no effect that a client sees.
pub fn is_invisible(case: &Case) -> bool {
    match (case.call, case.fault) {
        // Clients do not see the log.
        (Some(Call::Write), _) => true,
        // There is no other thread that could do the work.
        (Some(Call::Spawn), _) => false,
        // The fault closes the connection.
        (Some(Call::Accept), Fault::Errno(Errno::AGAIN)) => false,
        (_, Fault::Errno(Errno::INTR | Errno::AGAIN) | Fault::Short(_)) => true,
        // The server has a fallback.
        (Some(Call::Openat2), Fault::Errno(Errno::NOSYS)) => true,
        (Some(Call::Preadv2), Fault::Errno(Errno::OPNOTSUPP)) => true,
        (Some(Call::Sendfile), Fault::Errno(Errno::INVAL)) => true,
        _ => false,
    }
}
