//! Descriptors on their way between processes. The kernel lets a user have only as many as RLIMIT_NOFILE says (unix(7),
//! ETOOMANYREFS), which counts those of all programs of that user.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{BackgroundProcess, Site, TIMEOUT, tool};

/// Puts descriptors on their way between two sockets, as many times 20 as its argument says, and leaves them there.
const HOLDER: &str = "import os, resource, signal, socket, sys\n\
                      most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
                      resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n\
                      pair, null = socket.socketpair(), os.open('/dev/null', os.O_RDONLY)\n\
                      for _ in range(int(sys.argv[1])): socket.send_fds(pair[0], [b'x'], [null] * 20)\n\
                      print('held', flush=True)\nsignal.pause()\n";
const IN_MESSAGE: usize = 20;

/// An account that only one test has. Only root can use it.
pub struct OwnAccount(String);

impl OwnAccount {
    /// The descriptors of a program that `limited` runs.
    pub const LIMIT: usize = 4096;

    pub fn new() -> OwnAccount {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        OwnAccount((3_900_000_000 + 10_000_000 * number + std::process::id()).to_string())
    }

    /// A site that is served by the account, with one worker and `a.txt`.
    pub fn site(&self) -> Site {
        let config = format!("user = \"{0}\"\ngroup = \"{0}\"\nworkers = 1", self.0);
        Site::new().file("a.txt", "a").config(&config)
    }

    /// The program, as the account, with at most `LIMIT` descriptors.
    pub fn limited(&self, program: &Path) -> Command {
        let mut limited = self.setpriv();
        limited
            .args(["sh", "-c", "ulimit -n \"$0\"; exec \"$@\"", &OwnAccount::LIMIT.to_string()])
            .arg(program);
        limited
    }

    /// The program, as the account, with at most so many processes and threads.
    pub fn with_processes(&self, most: usize) -> Command {
        let mut limited = self.setpriv();
        limited.args([&crate::path_of("prlimit"), &format!("--nproc={most}")]).arg(crate::program());
        limited
    }

    /// A program of the account that has more than so many descriptors on their way until it ends.
    pub fn hold(&self, descriptors: usize) -> BackgroundProcess {
        let messages = (descriptors / IN_MESSAGE + 1).to_string();
        let mut holder = self.setpriv();
        holder.args(["/usr/bin/python3", "-c", HOLDER, &messages]);
        let holder = BackgroundProcess::start(&mut holder);
        let held = |lines: &[String]| lines.iter().any(|line| line == "held").then_some(());
        assert!(holder.output().wait_for(TIMEOUT, held).is_some(), "nothing is on its way");
        holder
    }

    fn setpriv(&self) -> Command {
        let mut setpriv = tool("setpriv");
        let account = &self.0;
        setpriv.args([
            format!("--reuid={account}"),
            format!("--regid={account}"),
            "--clear-groups".to_owned(),
        ]);
        setpriv
    }
}

impl Default for OwnAccount {
    fn default() -> OwnAccount {
        OwnAccount::new()
    }
}
