//! Several generators act as one. A worker waits for a controller, runs the job that it receives, and returns
//! everything it measured, histograms included. The controller merges. The controller proves that it knows the
//! worker's secret without sending it.
//!
//! Messages are lines, or a line with a length and that many bytes of JSON:
//!
//! ```text
//! worker      taipan-bench 1 NONCE
//! controller  PROOF
//! worker      welcome
//! controller  LENGTH, {"flags": […], "entries": […]}
//! worker      ready, or: refused: WHY
//! controller  go
//! worker      LENGTH, the report as JSON; or: failed: WHY
//! ```
//!
//! Anything that the controller sends after `go` stops the run; so does the end of the connection.

mod job;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use taipan_http::digits::hex_byte;

use crate::engine;
use crate::flags::{RunArguments, Worker};
use crate::plan::build::Built;
use crate::report::{Format, Style, read};
use crate::run::Run;
use job::Job;

const GREETING: &str = "taipan-bench 1";
const WELCOME: &str = "welcome";
/// Sent in place of a report, followed by the reason.
const FAILED: &str = "failed: ";
/// How long the other side may take for each line before a run.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a job with its URLs and bodies, and of a report.
const MESSAGE_MAX: usize = 256 << 20;
const LINE_MAX: u64 = 4096;
/// How often the stop flag is checked while the workers run.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs jobs for controllers that know the secret, one at a time, until the process ends.
///
/// Errors: why the worker cannot listen.
pub fn serve(worker: &Worker) -> Result<(), String> {
    let key = key(worker.secret.as_deref())?;
    let addresses: Vec<_> =
        worker.listen.to_socket_addrs().map_err(|error| format!("{}: {error}", worker.listen))?.collect();
    if worker.secret.is_none() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err("a worker that others can reach needs a secret: --secret FILE".to_owned());
    }
    let listener =
        TcpListener::bind(&addresses[..]).map_err(|error| format!("{}: {error}", worker.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    eprintln!("taipan-bench: worker listens on {address}");
    for stream in listener.incoming() {
        if let Err(why) =
            stream.map_err(|error| error.to_string()).and_then(|stream| serve_controller(stream, &key))
        {
            eprintln!("taipan-bench: {why}");
        }
    }
    Ok(())
}

/// Divides the plan among the workers, runs it, and merges their results.
///
/// Errors: a sentence naming the worker.
pub fn run_on_workers(arguments: &RunArguments, built: &Built, stop: &AtomicBool) -> Result<Run, String> {
    let key = key(arguments.secret.as_deref())?;
    let jobs = job::split(arguments, built)?;
    let mut links = Vec::new();
    for (address, job) in arguments.workers.iter().zip(&jobs) {
        let named = |why: io::Error| format!("worker {address}: {why}");
        let mut link = Link::to(address).map_err(named)?;
        link.authenticate(&key).map_err(named)?;
        if link.line().map_err(named)? != WELCOME {
            return Err(format!("worker {address}: {}", wrong_secret()));
        }
        link.send(&job.to_json()).map_err(named)?;
        links.push((address, link));
    }
    // All workers are ready before the first one starts.
    for (address, link) in &mut links {
        match link.line().map_err(|why| format!("worker {address}: {why}"))?.as_str() {
            "ready" => {}
            other => return Err(format!("worker {address}: {other}")),
        }
    }
    for (address, link) in &mut links {
        link.send_line("go").map_err(|why| format!("worker {address}: {why}"))?;
    }
    let mut merged: Option<Run> = None;
    for (address, link) in &mut links {
        let report = link.report(stop).map_err(|why| format!("worker {address}: {why}"))?;
        let run = read::run(&report).map_err(|error| format!("worker {address}: {error}"))?;
        match &mut merged {
            None => merged = Some(run),
            Some(merged) => merged.merge(&run),
        }
    }
    merged.ok_or_else(|| "--workers names no worker".to_owned())
}

fn key(secret: Option<&Path>) -> Result<hmac::Key, String> {
    let bytes = match secret {
        None => Vec::new(),
        Some(path) => {
            let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let text = text.trim_ascii().to_vec();
            if text.len() < 16 {
                return Err(format!("{}: a secret needs at least 16 characters", path.display()));
            }
            text
        }
    };
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// Serves one controller, from its first line to its report.
fn serve_controller(stream: TcpStream, key: &hmac::Key) -> Result<(), String> {
    let lost = |why: io::Error| format!("the connection to the controller failed: {why}");
    let mut link = Link::new(stream).map_err(lost)?;
    link.authenticate_controller(key).map_err(lost)?;
    let job = link.message().map_err(lost)?;
    let plan = match Job::from_json(&job).and_then(|job| job.plan()) {
        Ok(plan) => plan,
        Err(why) => {
            let line = format!("refused: {}", why.replace('\n', " "));
            return link.send_line(&line).map_err(lost);
        }
    };
    link.send_line("ready").map_err(lost)?;
    if link.line().map_err(lost)? != "go" {
        return Err("the controller did not send \"go\"".to_owned());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let listening = link.stop_on_any_message(stop.clone()).map_err(lost)?;
    let run = match engine::run(&plan, &stop, None) {
        Ok(run) => run,
        Err(why) => {
            let sent = link.send_line(&format!("{FAILED}{}", why.replace('\n', " "))).map_err(lost);
            link.close();
            let _ = listening.join();
            return sent;
        }
    };
    let sent = link.send(Format::Json.render(&run, Style::Plain).as_bytes()).map_err(lost);
    link.close();
    // The thread ends with the connection.
    let _ = listening.join();
    sent
}

struct Link {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Link {
    fn to(address: &str) -> io::Result<Link> {
        let resolved = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
        Link::new(TcpStream::connect_timeout(&resolved, LINE_TIMEOUT)?)
    }

    fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_read_timeout(Some(LINE_TIMEOUT))?;
        stream.set_write_timeout(Some(LINE_TIMEOUT))?;
        Ok(Link { reader: BufReader::new(stream.try_clone()?), writer: stream })
    }

    /// The worker's side: checks that the controller knows the secret.
    fn authenticate_controller(&mut self, key: &hmac::Key) -> io::Result<()> {
        let mut nonce = [0; 32];
        SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("no random numbers"))?;
        let line = format!("{GREETING} {}", hex(&nonce));
        self.send_line(&line)?;
        let proof = unhex(&self.line()?).ok_or_else(wrong_secret)?;
        let known = hmac::verify(key, line.as_bytes(), &proof).map_err(|_| wrong_secret());
        self.send_line(if known.is_ok() { WELCOME } else { "unknown" })?;
        known
    }

    /// The controller's side.
    fn authenticate(&mut self, key: &hmac::Key) -> io::Result<()> {
        let line = self.line()?;
        if !line.starts_with(GREETING) {
            return Err(io::Error::other("this is not a worker of the same version"));
        }
        self.send_line(&hex(hmac::sign(key, line.as_bytes()).as_ref()))
    }

    fn send_line(&mut self, line: &str) -> io::Result<()> {
        self.writer.write_all(format!("{line}\n").as_bytes())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match (&mut self.reader).take(LINE_MAX).read_line(&mut line)? {
            0 => Err(io::Error::other("the other side closed the connection")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send_line(&message.len().to_string())?;
        self.writer.write_all(message)
    }

    fn message(&mut self) -> io::Result<Vec<u8>> {
        let length = self.line()?;
        if let Some(why) = length.strip_prefix(FAILED) {
            return Err(io::Error::other(why.to_owned()));
        }
        let length: Option<usize> = length.parse().ok().filter(|length| *length <= MESSAGE_MAX);
        let length =
            length.ok_or_else(|| io::Error::other("a message without a length, or larger than the limit"))?;
        let mut message = Vec::new();
        match (&mut self.reader).take(length as u64).read_to_end(&mut message)? {
            count if count == length => Ok(message),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Waits for the report for as long as the run lasts, and forwards a stop.
    fn report(&mut self, stop: &AtomicBool) -> io::Result<Vec<u8>> {
        self.writer.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        let mut stop_sent = false;
        // Bounded by the run, which ends at its time, when it is stopped, or with the connection.
        loop {
            match self.reader.fill_buf() {
                Ok(_) => break,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(error),
            }
            if stop.load(Ordering::Relaxed) && !stop_sent {
                stop_sent = true;
                self.send_line("stop")?;
            }
        }
        self.writer.set_read_timeout(Some(LINE_TIMEOUT))?;
        self.message()
    }

    /// Anything that the controller sends during a run, and the end of the connection, stops the run.
    fn stop_on_any_message(&self, stop: Arc<AtomicBool>) -> io::Result<thread::JoinHandle<()>> {
        let mut stream = self.writer.try_clone()?;
        stream.set_read_timeout(None)?;
        Ok(thread::spawn(move || {
            let _ = stream.read(&mut [0; 1]);
            stop.store(true, Ordering::Relaxed);
        }))
    }

    fn close(&self) {
        // The other side may have closed it already.
        let _ = self.writer.shutdown(std::net::Shutdown::Both);
    }
}

fn wrong_secret() -> io::Error {
    io::Error::other("worker and controller have different secrets")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    text.as_bytes().chunks(2).map(hex_byte).collect()
}
