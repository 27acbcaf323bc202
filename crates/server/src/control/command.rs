//! A command's end of the control socket: it sends one request, and prints the response.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use site::watch::Filter;

use super::{DONE, MAX_REQUEST, Request, SiteSource, address, is_trusted, parse_response, peer};
use crate::terminal;

/// How long `taipan watch` waits before it goes to the process that serves now, and how often without seeing one.
const WATCH_AGAIN: Duration = Duration::from_millis(100);
const WATCH_TRIES: u32 = 50;
/// How often a command that waits looks whether the program is stopped.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Sends a request and prints the response. Exits with 0 if the request was done, with 1 if it failed.
pub fn send(source: &SiteSource, request: &Request) -> ExitCode {
    match response(source, request) {
        Ok(Ok(text)) => {
            terminal::print(&text);
            ExitCode::SUCCESS
        }
        Ok(Err(text)) => terminal::fail_all(text.lines(), 1),
        Err(error) => terminal::fail(error, 1),
    }
}

/// Prints what the running program shows of requests, until it ends, or the reader of the output. After a reload or an
/// upgrade, it goes on with the process that serves then.
pub fn watch(source: &SiteSource, filter: &Filter) -> ExitCode {
    let request = Request::Watch(filter.clone());
    let mut has_begun = false;
    let mut tries = 0;
    while tries < WATCH_TRIES {
        match connect(source, &request).and_then(|stream| show(stream, request.timeout())) {
            Ok(Shown::Moved) => (has_begun, tries) = (true, 0),
            Ok(Shown::Unwritten) => return ExitCode::SUCCESS,
            Ok(Shown::Refused(text)) if !has_begun => return terminal::fail_all(text.lines(), 1),
            Ok(Shown::Refused(_)) => {}
            Err(error) if has_begun => {
                terminal::err(format_args!("taipan: the program has ended ({error})"));
                return ExitCode::SUCCESS;
            }
            Err(error) => return terminal::fail(error, 1),
        }
        tries += 1;
        std::thread::sleep(WATCH_AGAIN);
    }
    terminal::fail("no process shows requests; see the error log", 1)
}

/// Why there is no more to print.
enum Shown {
    /// The process serves no more.
    Moved,
    /// The output cannot be written, as when its reader has ended; `terminal::end` tells which.
    Unwritten,
    /// With lines that say why.
    Refused(String),
}

fn show(stream: UnixStream, timeout: Duration) -> io::Result<Shown> {
    let mut reader = BufReader::new(&stream);
    let mut first = String::new();
    in_time(&stream, timeout, || reader.read_line(&mut first))?;
    stream.set_read_timeout(None)?;
    if first != DONE {
        let mut lines = String::new();
        reader.read_to_string(&mut lines)?;
        return Ok(Shown::Refused(lines));
    }
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Shown::Moved);
        }
        if !terminal::pass(bytes) {
            return Ok(Shown::Unwritten);
        }
        let read = bytes.len();
        reader.consume(read);
    }
}

/// The response of the running program, or what has failed there. Errors: no program runs, or it belongs to another
/// user.
pub fn response(source: &SiteSource, request: &Request) -> io::Result<Result<String, String>> {
    let stream = connect(source, request)?;
    let mut response = Vec::new();
    match in_time(&stream, request.timeout(), || (&stream).read_to_end(&mut response)) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return Err(error),
        _ => {}
    }
    let response = parse_response(&response);
    match (request, response) {
        // The process that serves has not got the request, as for want of a descriptor, or has ended.
        (Request::Stats(_), Some(Ok(text))) if text.is_empty() => {
            Err(io::Error::other("the process that serves has not responded; see the error log"))
        }
        (_, Some(response)) => Ok(response),
        (_, None) => Err(io::Error::other("the program ended without a response; see its error log")),
    }
}

/// Reads again when the time of one read is over, which is EAGAIN. Errors: also if the program has not responded within
/// `timeout`, or is stopped.
fn in_time(
    stream: &UnixStream,
    timeout: Duration,
    mut read: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    let until = Instant::now() + timeout;
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
        if let Some(pid) = stopped_peer(stream) {
            return Err(io::Error::other(format!(
                "the running program, process {pid}, is stopped; to continue it: kill -CONT {pid}"
            )));
        }
        if Instant::now() >= until {
            return Err(io::Error::other(format!(
                "the running program has not responded within {} s; it may wait for a disk, or its serving process may be \
                 stopped: see its error log, and the states of its processes in `ps`",
                timeout.as_secs()
            )));
        }
    }
}

/// The process that listens, if a signal has stopped it.
fn stopped_peer(stream: &UnixStream) -> Option<i32> {
    let pid = peer(stream).ok()?.pid();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state follows the name in parentheses (proc_pid_stat(5)).
    stat.rsplit_once(')')?.1.trim_start().starts_with('T').then_some(pid)
}

/// Sends a request.
fn connect(source: &SiteSource, request: &Request) -> io::Result<UnixStream> {
    let path = source.path();
    let path = path.display();
    let not_running = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => io::Error::other(format!(
            "no taipan serves {path}; name what it was started with: -c FILE, or --root DIR"
        )),
        _ => io::Error::other(format!("{path}: {error}")),
    };
    let mut stream = UnixStream::connect_addr(&address(source)?).map_err(not_running)?;
    if !is_trusted(&stream) {
        return Err(io::Error::other("the running program belongs neither to root nor to you"));
    }
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    let line = request.text();
    if line.len() >= MAX_REQUEST {
        return Err(io::Error::other("that is too long"));
    }
    // The program may have rejected this client and closed the connection; its response can be read all the same.
    _ = stream.write_all(line.as_bytes());
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_respond_is_called_so() {
        let (one, _other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let error = in_time(&one, Duration::ZERO, || (&one).read(&mut [0])).unwrap_err().to_string();
        assert!(error.contains("has not responded within 0 s"), "{error}");
        let mut reads = 0;
        let third = in_time(&one, Duration::from_secs(60), || {
            reads += 1;
            if reads < 3 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(7) }
        });
        assert_eq!(third.unwrap(), 7, "it waits longer than one read does");
    }
}
