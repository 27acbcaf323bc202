//! Runs the program of the user that sets and removes DNS records, for DNS-01 challenges (RFC 8555 §8.4).

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use site::certificates::Certificates;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sys;

/// Bytes of its output that an error shows.
const MAX_OUTPUT: usize = 400;
const BUFFER: usize = 4096;
/// A pipe holds no more.
const READS: usize = 64 * 1024 / BUFFER;
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

/// Errors: the program failed, with the end of its output. If the caller does not wait for the end, the program is
/// killed.
pub async fn run(settings: &Certificates, change: Change, record: &Record) -> Result<(), String> {
    let Some((program, arguments)) = settings.dns_command.split_first() else {
        return Err("there is no dns_command".to_owned());
    };
    let fail = |why: String| format!("{program} {why}");
    let cannot_start = |e: io::Error| fail(format!("cannot be started: {e}"));
    let (reader, writer) = io::pipe().map_err(cannot_start)?;
    let mut errors = Errors::new(reader.into()).map_err(cannot_start)?;
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
    let mut group = Group { leader: command.spawn().map_err(cannot_start)?, has_ended: false };
    // The command has the other end of the pipe.
    drop(command);
    let ended = tokio::time::timeout(settings.dns_timeout, async {
        tokio::select! {
            ended = end_of(&group.leader) => ended,
            never = errors.receive() => match never {},
        }
    });
    let ended = ended.await;
    let status = group.end().map_err(|e| fail(e.to_string()))?;
    let output = errors.rest();
    match ended {
        Err(_) => {
            let seconds = settings.dns_timeout.as_secs_f32();
            Err(fail(format!("has not ended within {seconds} s{output}")))
        }
        Ok(Err(error)) => Err(fail(format!("cannot be watched: {error}"))),
        Ok(Ok(())) if status.success() => Ok(()),
        Ok(Ok(())) => Err(fail(format!("has failed ({status}){output}"))),
    }
}

/// A program, and the processes that it has started.
struct Group {
    leader: Child,
    has_ended: bool,
}

impl Group {
    /// Kills what still runs. The process id is not free before `wait`.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !std::mem::replace(&mut self.has_ended, true) {
            _ = killpg(Pid::from_raw(self.leader.id() as i32), Signal::SIGKILL);
        }
        self.leader.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        _ = self.end();
    }
}

async fn end_of(child: &Child) -> io::Result<()> {
    let end = sys::end_of_child(Pid::from_raw(child.id() as i32))?;
    sys::watch(end, Interest::READABLE)?.readable().await.map(drop)
}

/// The standard error stream of a program. It is read while the program runs, which would otherwise wait when the pipe
/// is full.
struct Errors {
    pipe: AsyncFd<OwnedFd>,
    /// The end of what was written.
    kept: Vec<u8>,
}

impl Errors {
    fn new(pipe: OwnedFd) -> io::Result<Errors> {
        // A process that has left the group may keep the pipe open.
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Errors { pipe: sys::watch(pipe, Interest::READABLE)?, kept: Vec::new() })
    }

    async fn receive(&mut self) -> Infallible {
        while let Ok(mut ready) = sys::readable(&self.pipe).await {
            match read(self.pipe.get_ref(), &mut self.kept) {
                // All writers have closed it.
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => ready.clear_ready(),
            }
        }
        std::future::pending().await
    }

    /// The end of what was written, for an error.
    fn rest(mut self) -> String {
        for _ in 0..READS {
            if !read(self.pipe.get_ref(), &mut self.kept).is_ok_and(|bytes| bytes > 0) {
                break;
            }
        }
        let text = String::from_utf8_lossy(&self.kept);
        match text.trim() {
            "" => String::new(),
            text => format!(": {}", text.replace('\n', "; ")),
        }
    }
}

/// Returns how many bytes have come, and keeps the last ones.
fn read(pipe: &OwnedFd, kept: &mut Vec<u8>) -> Result<usize, Errno> {
    let mut buffer = [0; BUFFER];
    let bytes = rustix::io::read(pipe, &mut buffer)?;
    kept.extend_from_slice(&buffer[..bytes]);
    kept.drain(..kept.len().saturating_sub(MAX_OUTPUT));
    Ok(bytes)
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
        let why = result("echo waits >&2; sleep 1000 & sleep 1000", Duration::from_millis(300)).unwrap_err();
        assert!(why.contains("has not ended within 0.3 s: waits"), "{why}");
        let settings = Certificates { dns_command: vec!["/no/such".to_owned()], ..Certificates::default() };
        let record = Record::of_challenge("a.example", String::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let why = runtime.block_on(run(&settings, Change::Unset, &record)).unwrap_err();
        assert!(why.contains("/no/such cannot be started"), "{why}");
    }

    #[test]
    fn a_program_may_write_more_than_a_pipe_holds() {
        let long = Duration::from_secs(20);
        let write = "head -c 300000 /dev/zero | tr '\\0' x >&2; echo >&2";
        assert_eq!(result(write, long), Ok(()));
        let why = result(&format!("{write}; echo the end >&2; exit 3"), long).unwrap_err();
        assert!(why.contains("x; the end") && why.len() < 2 * MAX_OUTPUT, "{why}");
    }

    #[test]
    fn a_program_whose_end_nothing_waits_for_is_killed() {
        let file = std::env::temp_dir().join(format!("dns-killed-{}", std::process::id()));
        let script = format!("echo $$ >{}.new && mv {0}.new {0} && sleep 1000", file.display());
        let command = ["/bin/sh", "-c", &script].map(str::to_owned);
        let settings = Certificates { dns_command: command.into(), ..Certificates::default() };
        let record = Record::of_challenge("a.example", String::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let number = runtime.block_on(async {
            let mut running = std::pin::pin!(run(&settings, Change::Set, &record));
            loop {
                let pause = Duration::from_millis(10);
                assert!(tokio::time::timeout(pause, &mut running).await.is_err(), "it runs");
                if let Ok(number) = std::fs::read_to_string(&file) {
                    break number;
                }
            }
        });
        std::fs::remove_file(file).unwrap();
        let number = Pid::from_raw(number.trim().parse().unwrap());
        assert!(nix::sys::signal::kill(number, None).is_err(), "it has ended, and was waited for");
    }
}
