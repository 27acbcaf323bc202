//! The running program: its addresses, its output, and its end.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::folder::Folder;
use crate::http2::Http2;
use crate::output::Lines;
use crate::process::{children_of, processor_time};
use crate::repeat::Repeater;
use crate::response::Response;
use crate::{TIMEOUT, program};

/// The running program. It ends with the test, which fails if a connection has panicked.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ended: Option<ExitStatus>,
    errors: Lines,
    output: Lines,
    home: Option<Folder>,
    /// The process that has taken over from the first one, after an upgrade.
    successor: Option<u32>,
    /// Repeats requests over other protocols.
    repeater: Option<Arc<Mutex<Repeater>>>,
}

/// An address of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Server {
    /// `taipan DIR --listen 127.0.0.1:0`
    pub fn folder(folder: impl AsRef<Path>) -> Server {
        let mut command = program::command();
        command.arg(folder.as_ref()).args(["--listen", "127.0.0.1:0"]);
        Server::start(command, 1, None)
    }

    /// Starts `command`, and waits until it has printed `listeners` addresses. Its folder is removed when the
    /// server has ended.
    pub fn start(mut command: Command, listeners: usize, home: Option<Folder>) -> Server {
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let errors = Lines::of(child.stderr.take().expect("it is a pipe"));
        let output = Lines::of(child.stdout.take().expect("it is a pipe"));
        let (successor, repeater) = (None, None);
        let server = Server { child, ended: None, errors, output, home, successor, repeater };
        let enough = |lines: &[String]| (addresses(lines).len() >= listeners).then_some(());
        let started = server.errors.wait_for(TIMEOUT, enough);
        assert!(started.is_some(), "taipan did not start:\n{}", server.stderr());
        server
    }

    /// Repeats requests on its second address, by TLS, and on its third, by HTTP/2.
    pub(crate) fn repeating(mut self) -> Server {
        let addresses = self.addresses();
        let [_, Address::Tcp(tls), Address::Tcp(http2)] = addresses[..] else {
            panic!("three TCP addresses, not {addresses:?}");
        };
        self.repeater = Some(Arc::new(Mutex::new(Repeater::new(tls, http2))));
        self
    }

    /// Responses over other protocols that have been compared.
    pub fn compared(&self) -> usize {
        self.repeater.as_ref().map_or(0, |repeater| repeater.lock().expect("no request panics").compared())
    }

    pub(crate) fn repeater(&self) -> Option<&Mutex<Repeater>> {
        self.repeater.as_deref()
    }

    /// The first TCP address.
    pub fn addr(&self) -> SocketAddr {
        let tcp = self.addresses().into_iter().find_map(|address| match address {
            Address::Tcp(address) => Some(address),
            Address::Unix(_) => None,
        });
        tcp.expect("it listens on TCP")
    }

    /// The TCP address of a listener.
    pub fn tcp(&self, at: usize) -> SocketAddr {
        match self.addresses().get(at) {
            Some(Address::Tcp(address)) => *address,
            other => panic!("{other:?} has no port"),
        }
    }

    /// All addresses that it has printed, in order.
    pub fn addresses(&self) -> Vec<Address> {
        addresses(&self.errors.all())
    }

    /// `http://127.0.0.1:PORT/path`
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.addr(), path.trim_start_matches('/'))
    }

    /// A new connection to the first address.
    pub fn connect(&self) -> Client {
        let client = match &self.addresses()[0] {
            Address::Tcp(address) => Client::tcp(*address),
            Address::Unix(path) => Client::unix(path),
        };
        client.repeated_by(self.repeater.clone())
    }

    /// A new connection to the first TCP address, by HTTP/2 from its first byte on.
    pub fn connect_http2(&self) -> Http2 {
        Http2::over(Client::tcp(self.addr())).expect("the server accepts")
    }

    /// One GET on a new connection.
    pub fn get(&self, path: &str) -> Response {
        self.connect().get(path)
    }

    /// Sends a request on a new connection and reads its response.
    pub fn request(&self, request: impl AsRef<[u8]>) -> Response {
        self.connect().request(request)
    }

    /// The test's folder, which holds the root.
    pub fn home(&self) -> &Path {
        self.home.as_ref().expect("it was started from a site").path()
    }

    /// The folder that is served.
    pub fn root(&self) -> PathBuf {
        self.home().join("www")
    }

    /// The test's folder, to change files while they are served; names begin with `www/`.
    pub fn files(&self) -> &Folder {
        self.home.as_ref().expect("it was started from a site")
    }

    pub fn stderr(&self) -> String {
        self.errors.text()
    }

    pub fn stdout(&self) -> String {
        self.output.text()
    }

    /// The lines of its standard error, to wait for several patterns.
    pub fn errors(&self) -> &Lines {
        &self.errors
    }

    /// The lines of its standard output.
    pub fn output(&self) -> &Lines {
        &self.output
    }

    /// Waits for a line with `pattern` on standard error. Panics if it does not come in time.
    pub fn wait_for_line(&self, pattern: &str, timeout: Duration) -> String {
        wait_for_line(&self.errors, pattern, timeout)
    }

    /// Repeats what causes a line with `pattern` on standard error, until one says that more were left out. There may be
    /// one in each second, if one worker writes them.
    #[track_caller]
    pub fn expect_a_line_a_second(&self, pattern: &str, mut cause: impl FnMut()) {
        let began = Instant::now();
        let is_last = |line: &str| line.contains(pattern) && line.contains(" left out before)");
        let repeated = wait_until(TIMEOUT, || {
            cause();
            self.stderr().lines().any(is_last)
        });
        assert!(repeated, "no line says that others were left out:\n{}", self.stderr());
        let (lines, seconds) = (self.stderr().matches(pattern).count(), began.elapsed().as_secs() as usize);
        assert!(lines <= seconds + 2, "{lines} lines in {seconds} s");
    }

    /// Waits until the clock of the server, which counts seconds, has another one. What was compared with the disk
    /// before is then compared again.
    pub fn wait_for_next_second(&self) {
        let date = || self.request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").field("date").map(str::to_owned);
        let before = date();
        assert!(before.is_some(), "a response has a date");
        assert!(wait_until(TIMEOUT, || date() != before), "the clock of the server stands still");
    }

    /// As `wait_for_line`, on standard output.
    pub fn wait_for_output(&self, pattern: &str, timeout: Duration) -> String {
        wait_for_line(&self.output, pattern, timeout)
    }

    /// Waits for so many lines on standard output, and returns all that there are. Panics if they do not come in time.
    pub fn wait_for_lines(&self, count: usize) -> Vec<String> {
        let enough = |lines: &[String]| (lines.len() >= count).then(|| lines.to_vec());
        let found = self.output.wait_for(TIMEOUT, enough);
        found.unwrap_or_else(|| panic!("no {count} lines:\n{}", self.stdout()))
    }

    /// The master process: the one that was started, or its successor.
    pub fn pid(&self) -> u32 {
        self.successor.unwrap_or_else(|| self.child.id())
    }

    /// From now on signals go to this process, and the test ends this one.
    pub fn succeeded_by(&mut self, pid: u32) {
        self.successor = Some(pid);
    }

    /// Waits until the first process has ended, while its successor serves.
    pub fn wait_for_predecessor(&mut self, timeout: Duration) -> ExitStatus {
        let mut ended = None;
        let has_ended = wait_until(timeout, || {
            ended = self.child.try_wait().expect("it is our child");
            ended.is_some()
        });
        assert!(has_ended, "the program before does not end:\n{}", self.stderr());
        ended.expect("it has ended")
    }

    /// The newest child: the generation, unless another process was started after it.
    pub fn serving_pid(&self) -> u32 {
        self.children().last().copied().expect("the program has a serving process")
    }

    /// The processes that the master has started, the oldest first.
    pub fn children(&self) -> Vec<u32> {
        children_of(self.pid())
    }

    /// The child processes whose threads have this name with a number, the oldest first.
    pub fn processes(&self, thread: &str) -> Vec<u32> {
        let has_thread = |pid: &u32| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
            names.into_iter().any(|name| name.starts_with(&format!("{thread} ")))
        };
        self.children().into_iter().filter(has_thread).collect()
    }

    /// Kills the process whose workers serve, and waits until another one has them.
    pub fn replace_workers(&self) {
        let before = self.processes("worker");
        let has_others = || self.processes("worker").iter().any(|pid| !before.contains(pid));
        signal_process(*before.last().expect("the program serves"), Signal::KILL);
        assert!(wait_until(TIMEOUT, has_others), "{}", self.stderr());
    }

    /// The processor time of the serving process.
    pub fn processor_time(&self) -> Duration {
        processor_time(self.serving_pid())
    }

    pub fn signal(&self, signal: Signal) {
        assert!(self.ended.is_none(), "it has ended");
        signal_process(self.pid(), signal);
    }

    /// Waits until it ends by itself. Panics if it does not in time.
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        if let Some(status) = self.ended {
            return status;
        }
        // An ended program closes its output. The end of the stream is an event; that of the process is not.
        let silent = self.errors.wait_for_end(timeout) && self.output.wait_for_end(timeout);
        assert!(silent, "taipan does not end:\n{}", self.stderr());
        let status = self.child.wait().expect("it is our child");
        *self.ended.insert(status)
    }

    /// The last resort.
    fn kill(&mut self) {
        // Both fail only if the process has ended.
        _ = self.child.kill();
        self.ended = self.child.wait().ok();
        _ = self.errors.wait_for_end(TIMEOUT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stuck = false;
        if self.ended.is_none() {
            // SIGINT, so that the log is written out. Both processes may have ended.
            _ = kill_process(Pid::from_child(&self.child), Signal::INT);
            let successor = self.successor.and_then(|pid| Pid::from_raw(pid as i32));
            _ = successor.map(|pid| kill_process(pid, Signal::INT));
            stuck = !self.errors.wait_for_end(TIMEOUT);
            if let Some(successor) = successor.filter(|_| stuck) {
                _ = kill_process(successor, Signal::KILL);
            }
            self.kill();
        }
        let errors = self.stderr();
        let panicked = errors.contains("panic at") || errors.contains("panicked at");
        if thread::panicking() {
            eprintln!("taipan wrote:\n{errors}");
            return;
        }
        assert!(!stuck, "SIGINT did not end taipan:\n{errors}");
        assert!(!panicked, "taipan panicked:\n{errors}");
    }
}

/// Polls until the condition holds; `false` if it does not in time.
pub fn wait_until(timeout: Duration, mut is: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + timeout;
    while !is() {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Signals a process of the test.
pub fn signal_process(pid: u32, signal: Signal) {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("it is a process");
    kill_process(process, signal).unwrap_or_else(|e| panic!("cannot signal {pid}: {e}"));
}

/// Stops a process of the test, and waits until none of its threads runs.
pub fn stop_process(pid: u32) {
    signal_process(pid, Signal::STOP);
    // The state follows the name in parentheses (proc_pid_stat(5)).
    let is_stopped = |thread: std::io::Result<fs::DirEntry>| {
        let stat = thread.and_then(|thread| fs::read_to_string(thread.path().join("stat")));
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    };
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    assert!(wait_until(TIMEOUT, || threads().all(is_stopped)), "{pid} does not stop");
}

fn wait_for_line(lines: &Lines, pattern: &str, timeout: Duration) -> String {
    let found = lines.wait_for(timeout, |lines| lines.iter().find(|line| line.contains(pattern)).cloned());
    found.unwrap_or_else(|| panic!("no line with {pattern:?}:\n{}", lines.text()))
}

/// The lines `  http://ADDRESS/  from …`, `  https://ADDRESS/  from …` and `  unix:PATH  from …`.
fn addresses(lines: &[String]) -> Vec<Address> {
    let address = |line: &String| {
        let (address, _) = line.strip_prefix("  ")?.rsplit_once("  from ")?;
        if let Some(path) = address.strip_prefix("unix:") {
            return Some(Address::Unix(path.into()));
        }
        let (scheme, address) = address.strip_suffix('/')?.split_once("://")?;
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        // A site with a certificate for this machine.
        let address = address.replace("localhost", "127.0.0.1");
        address.parse().or_else(|_| format!("{address}:{port}").parse()).ok().map(Address::Tcp)
    };
    lines.iter().filter_map(address).collect()
}
