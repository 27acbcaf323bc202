//! Commands of the program to a running server, through its control socket, as a user gives them.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::process::Output;

use serde_json::Value;

use crate::server::Server;
use crate::{output_of, program};

impl Server {
    /// `taipan WORD -c site.toml`, for a server that was started from a site.
    pub fn run_command(&self, words: &[&str]) -> Output {
        let mut command = program::command();
        command.args(words).arg("-c").arg(self.home().join("site.toml"));
        output_of(&mut command)
    }

    /// The address of the control socket: the only abstract name of the program.
    pub fn control_address(&self) -> SocketAddr {
        let fds = fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs");
        let open: Vec<_> = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
        let sockets = fs::read_to_string("/proc/net/unix").expect("it is there");
        let name = sockets.lines().find_map(|line| {
            let (socket, name) = line.split_once(" @taipan-")?;
            let inode = socket.split_whitespace().next_back()?;
            open.iter().any(|fd| fd.as_os_str() == format!("socket:[{inode}]").as_str()).then_some(name)
        });
        let name = name.unwrap_or_else(|| panic!("it has no control socket:\n{sockets}"));
        SocketAddr::from_abstract_name(format!("taipan-{name}")).expect("it is a name")
    }

    /// `taipan reload`. Panics if it fails.
    pub fn reload(&self) {
        let output = self.run_command(&["reload"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}\n{}", self.stderr());
    }

    /// `taipan reload`, which must fail; returns its standard error. Panics if it succeeds.
    pub fn reload_error(&self) -> String {
        let output = self.run_command(&["reload"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "the reload succeeded: {stderr}");
        stderr
    }

    /// `taipan stats --json`
    pub fn stats(&self) -> Value {
        let output = self.run_command(&["stats", "--json"]);
        let stdout = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&stdout).unwrap_or_else(|e| {
            panic!("{e}: {stdout:?} {}\n{}", String::from_utf8_lossy(&output.stderr), self.stderr())
        })
    }

    /// One count, summed over all workers.
    pub fn count(&self, key: &str) -> u64 {
        let stats = self.stats();
        stats["all"][key].as_u64().unwrap_or_else(|| panic!("no {key} in {stats}"))
    }
}
