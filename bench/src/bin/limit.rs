//! The practical floor of a web server: edge-triggered epoll, one thread, one fixed response for every read. It
//! takes every read for one request and never parses it. A server that parses, finds files and keeps time can come
//! near this cost but not below it.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::{env, io};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

const USAGE: &str = "usage: limit ADDRESS:PORT BYTES, for example: limit 127.0.0.1:8080 2448";
const BACKLOG: i32 = 4096;
const EVENTS_PER_TURN: usize = 512;
const READ_BUFFER: usize = 64 * 1024;
const LISTENER: u64 = u64::MAX;

struct Connection {
    socket: OwnedFd,
    /// Bytes of the response that the socket has not taken yet.
    unsent: usize,
}

enum Outcome {
    Keep,
    Drop,
}

fn main() -> ExitCode {
    bench::exit("limit", arguments().and_then(|(at, size)| serve(at, size)))
}

fn arguments() -> io::Result<(SocketAddr, usize)> {
    let words: Vec<String> = env::args().skip(1).collect();
    let parsed = match &words[..] {
        [at, size] => at.parse().ok().zip(size.parse().ok()),
        _ => None,
    };
    parsed.ok_or_else(|| io::Error::other(USAGE))
}

fn serve(at: SocketAddr, size: usize) -> io::Result<()> {
    let listener = listen(at)?;
    let response = response(size);
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;

    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut buffer = vec![0; READ_BUFFER];
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_TURN);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            if event.data.u64() == LISTENER {
                accept(&listener, &epoll, &mut connections)?;
                continue;
            }
            let entry = &mut connections[event.data.u64() as usize];
            if let Some(connection) = entry
                && let Outcome::Drop = on_event(connection, event.flags, &response, &mut buffer)
            {
                *entry = None;
            }
        }
    }
}

/// Accepted connections inherit TCP_NODELAY from the listener.
fn listen(at: SocketAddr) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    sockopt::set_tcp_nodelay(&listener, true)?;
    net::bind(&listener, &at)?;
    net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The head has the fields and about the length of a file server's head.
fn response(size: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: limit\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Type: text/html; charset=utf-8\r\nContent-Length: {size}\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"69559e80-990\"\r\n\r\n"
    );
    let mut response = head.into_bytes();
    response.resize(response.len() + size, b'x');
    response
}

/// Accepts at most as many connections as the backlog holds. The listener is level-triggered for the rest.
fn accept(listener: &OwnedFd, epoll: &OwnedFd, connections: &mut Vec<Option<Connection>>) -> io::Result<()> {
    for _ in 0..BACKLOG {
        let Ok(socket) = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) else {
            break;
        };
        let index = socket.as_raw_fd() as usize;
        // Edge-triggered OUT costs nothing: epoll reports it only after the send buffer was full.
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(epoll, &socket, EventData::new_u64(index as u64), interest)?;
        if connections.len() <= index {
            connections.resize_with(index + 1, || None);
        }
        connections[index] = Some(Connection { socket, unsent: 0 });
    }
    Ok(())
}

fn on_event(connection: &mut Connection, ready: EventFlags, response: &[u8], buffer: &mut [u8]) -> Outcome {
    if ready.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
        return Outcome::Drop;
    }
    if connection.unsent == 0 && ready.contains(EventFlags::IN) {
        match net::recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => return Outcome::Drop,
            Ok(_) => connection.unsent = response.len(),
            Err(Errno::AGAIN) => return Outcome::Keep,
            Err(_) => return Outcome::Drop,
        }
    }
    send(connection, response)
}

/// Sends until the response is sent or the send buffer is full; every pass subtracts from `unsent`.
fn send(connection: &mut Connection, response: &[u8]) -> Outcome {
    while connection.unsent > 0 {
        let rest = &response[response.len() - connection.unsent..];
        match net::send(&connection.socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => connection.unsent -= sent,
            Err(Errno::AGAIN) => return Outcome::Keep,
            Err(_) => return Outcome::Drop,
        }
    }
    Outcome::Keep
}
