//! A server that follows a test's script, wrong responses included. It listens on loopback and ends with the test.

#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use load::engine;
use load::flags::{self, Command};
use load::plan::build::build;
use load::run::Run;
use load::urls::System;

/// A request, as the server received it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The first request of all is 0.
    pub number: usize,
    /// The first on its connection is 0.
    pub on_connection: usize,
    pub line: String,
    pub fields: Vec<String>,
    pub body: Vec<u8>,
}

/// What the server does with a request.
pub enum Action {
    Send(Vec<u8>),
    /// Sends this, and then closes the connection.
    Last(Vec<u8>),
    /// Sends this, and then resets the connection.
    Reset(Vec<u8>),
    /// Sends nothing until the client closes.
    Silence,
    Wait(Duration, Vec<u8>),
}

pub struct Server {
    pub address: SocketAddr,
    pub requests: Arc<Mutex<Vec<Request>>>,
    pub connections: Arc<AtomicUsize>,
}

pub type Script = Arc<dyn Fn(&Request) -> Action + Send + Sync>;

impl Server {
    pub fn start(script: impl Fn(&Request) -> Action + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        let (script, number): (Script, Arc<AtomicUsize>) = (Arc::new(script), Arc::default());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::Relaxed);
                let (script, requests, number) = (script.clone(), requests.clone(), number.clone());
                thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let reader = stream.try_clone().unwrap();
                    serve(reader, stream, &script, &requests, &number);
                });
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn seen(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// The same on a Unix socket.
pub fn start_unix(path: &Path, script: impl Fn(&Request) -> Action + Send + Sync + 'static) {
    let listener = UnixListener::bind(path).unwrap();
    let (script, number): (Script, Arc<AtomicUsize>) = (Arc::new(script), Arc::default());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (script, number) = (script.clone(), number.clone());
            thread::spawn(move || {
                let reader = stream.try_clone().unwrap();
                serve(reader, stream, &script, &Mutex::default(), &number);
            });
        }
    });
}

pub trait ServerStream: Write {
    /// Closes with RST, if the transport has it.
    fn reset(self);
}

impl ServerStream for TcpStream {
    fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self, Some(Duration::ZERO)).unwrap();
    }
}

impl ServerStream for UnixStream {
    fn reset(self) {}
}

pub fn serve(
    reader: impl Read,
    mut writer: impl ServerStream,
    script: &Script,
    requests: &Mutex<Vec<Request>>,
    number: &AtomicUsize,
) {
    let mut reader = BufReader::new(reader);
    for on_connection in 0.. {
        let Some(mut request) = read(&mut reader) else { return };
        request.number = number.fetch_add(1, Ordering::SeqCst);
        request.on_connection = on_connection;
        requests.lock().unwrap().push(request.clone());
        let sent = match script(&request) {
            Action::Send(bytes) => writer.write_all(&bytes),
            Action::Last(bytes) => {
                let _ = writer.write_all(&bytes);
                return;
            }
            Action::Reset(bytes) => {
                let _ = writer.write_all(&bytes);
                // Otherwise the reset may overtake what was sent.
                if !bytes.is_empty() {
                    thread::sleep(Duration::from_millis(20));
                }
                return writer.reset();
            }
            Action::Silence => {
                let _ = reader.read(&mut [0; 1]);
                return;
            }
            Action::Wait(time, bytes) => {
                thread::sleep(time);
                writer.write_all(&bytes)
            }
        };
        if sent.is_err() || request.fields.iter().any(|field| field == "Connection: close") {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let (mut fields, mut length) = (Vec::new(), 0);
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).ok()?;
        let field = field.trim_end().to_owned();
        if field.is_empty() {
            break;
        }
        if let Some(value) = field.strip_prefix("Content-Length: ") {
            length = value.parse().ok()?;
        }
        fields.push(field);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { number: 0, on_connection: 0, line: line.trim_end().to_owned(), fields, body })
}

pub fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nServer: scripted\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub fn ok(body: &str) -> Action {
    Action::Send(answer("200 OK", body.as_bytes()))
}

/// Runs a command line, split at spaces.
pub fn run(line: &str) -> Run {
    run_until(line, &AtomicBool::new(false))
}

pub fn run_until(line: &str, stop: &AtomicBool) -> Run {
    run_or_fail(line, stop).unwrap()
}

/// Errors: why nothing was measured.
pub fn try_run(line: &str) -> Result<Run, String> {
    run_or_fail(line, &AtomicBool::new(false))
}

fn run_or_fail(line: &str, stop: &AtomicBool) -> Result<Run, String> {
    let words = line.split_whitespace().map(Into::into);
    let arguments = match flags::parse(words) {
        Ok(Command::Run(arguments)) => arguments,
        other => panic!("{line}: {other:?}"),
    };
    let built = build(&arguments.options, &System).unwrap();
    engine::run(&built.plan, stop, None)
}

/// The faults that occurred, with their counts.
pub fn faults(run: &Run) -> Vec<(&'static str, u64)> {
    run.measured.faults.iter().map(|(fault, count)| (fault.key(), count)).collect()
}

/// An empty folder for this test.
pub fn folder(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
