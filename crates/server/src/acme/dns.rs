//! Runs the program of the user that sets and removes DNS records, for DNS-01 challenges (RFC 8555 §8.4).

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use site::certificates::Certificates;
use tokio::io::Interest;

use crate::sys;

/// Bytes of its output that an error shows.
const MAX_OUTPUT: u64 = 400;
/// Programs receive no environment but this.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Set,
    Unset,
}

/// A TXT record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub value: String,
}

impl Record {
    /// Where an authority looks. A wildcard is proved by the name that it is below.
    pub fn of_challenge(name: &str, value: String) -> Record {
        Record { name: format!("_acme-challenge.{}", name.trim_start_matches("*.")), value }
    }
}

/// Errors: the program failed, with the end of its output.
pub async fn run(settings: &Certificates, change: Change, record: &Record) -> Result<(), String> {
    let Some((program, arguments)) = settings.dns_command.split_first() else {
        return Err("there is no dns_command".to_owned());
    };
    let fail = |why: String| format!("{program} {why}");
    let (reader, writer) = io::pipe().map_err(|e| fail(format!("cannot be started: {e}")))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(match change {
            Change::Set => "set",
            Change::Unset => "unset",
        })
        .args([&record.name, &record.value])
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(writer)
        .process_group(0);
    let mut child = command.spawn().map_err(|e| fail(format!("cannot be started: {e}")))?;
    // The command has the other end of the pipe.
    drop(command);
    let ended = tokio::time::timeout(settings.dns_timeout, end_of(&child)).await;
    let group = Pid::from_raw(child.id() as i32);
    // What it has started ends, too, and closes the pipe.
    _ = killpg(group, Signal::SIGKILL);
    let status = child.wait().map_err(|e| fail(e.to_string()))?;
    match ended {
        Err(_) => Err(fail(format!("has not ended within {} s", settings.dns_timeout.as_secs()))),
        Ok(Err(error)) => Err(fail(format!("cannot be watched: {error}"))),
        Ok(Ok(())) if status.success() => Ok(()),
        Ok(Ok(())) => Err(fail(format!("has failed ({status}): {}", output(reader.into())))),
    }
}

async fn end_of(child: &Child) -> io::Result<()> {
    let end = sys::end_of_child(Pid::from_raw(child.id() as i32))?;
    sys::watch(end, Interest::READABLE)?.readable().await.map(drop)
}

/// The beginning of what it has written to its standard error stream. All writers have ended.
fn output(pipe: OwnedFd) -> String {
    let mut bytes = Vec::new();
    // Without blocking: a process that has left the group may keep the pipe open.
    let flags = rustix::fs::OFlags::NONBLOCK;
    _ = rustix::fs::fcntl_setfl(&pipe, flags);
    _ = std::fs::File::from(pipe).take(MAX_OUTPUT).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).trim().replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn result(script: &str, timeout: Duration) -> Result<(), String> {
        let command = ["/bin/sh", "-c", script, "sh"].map(str::to_owned);
        let settings =
            Certificates { dns_command: command.into(), dns_timeout: timeout, ..Certificates::default() };
        let record = Record::of_challenge("*.a.example", "value".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&settings, Change::Set, &record))
    }

    #[test]
    fn the_program_receives_change_name_and_value_and_nothing_else() {
        let long = Duration::from_secs(20);
        let script = "test \"$*\" = 'set _acme-challenge.a.example value' && test \"$HOME\" = ''";
        assert_eq!(result(script, long), Ok(()));
    }

    #[test]
    fn a_program_that_fails_says_why_and_one_that_hangs_is_killed() {
        let long = Duration::from_secs(20);
        let why = result("echo one >&2; echo two >&2; exit 3", long).unwrap_err();
        assert!(why.contains("exit status: 3") && why.contains("one; two"), "{why}");
        let why = result("sleep 1000 & sleep 1000", Duration::from_millis(200)).unwrap_err();
        assert!(why.contains("has not ended within"), "{why}");
        let settings = Certificates { dns_command: vec!["/no/such".to_owned()], ..Certificates::default() };
        let record = Record::of_challenge("a.example", String::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let why = runtime.block_on(run(&settings, Change::Unset, &record)).unwrap_err();
        assert!(why.contains("/no/such cannot be started"), "{why}");
    }
}
