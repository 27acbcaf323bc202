//! Upstreams that are threads of a test and speak HTTP/1 byte by byte, or HTTP/2 frame by frame.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::http2::{Frame, append, flag, frame};

/// Reads the head of a request.
pub fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Reads a request, whose body has a `Content-Length` or is empty. Returns the head.
pub fn read_request(stream: &mut impl Read) -> io::Result<String> {
    let head = read_head(stream)?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.map_or(0, |length| length.parse().expect("a number"));
    stream.read_exact(&mut vec![0; length])?;
    Ok(head)
}

/// Reads up to the next HEADERS of a client of HTTP/2, and acknowledges SETTINGS and PING on the way.
pub fn read_headers(stream: &mut (impl Read + Write)) -> io::Result<Frame> {
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header)?;
        let [a, b, c, kind, flags, d, e, f, g] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload)?;
        match kind {
            frame::HEADERS => {
                return Ok(Frame { kind, flags, stream: u32::from_be_bytes([d, e, f, g]), payload });
            }
            frame::SETTINGS | frame::PING if flags & flag::ACK == 0 => {
                let echoed = if kind == frame::PING { &payload[..] } else { b"" };
                let mut acknowledgement = Vec::new();
                append(&mut acknowledgement, kind, flag::ACK, 0, echoed);
                stream.write_all(&acknowledgement)?;
            }
            _ => {}
        }
    }
}

/// Sends back what comes, until the end.
pub fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return stream.shutdown(Shutdown::Write),
            n => stream.write_all(&buffer[..n])?,
        }
    }
}

/// An upstream that has `serve` answer each connection, with the head of its first request. Its URL.
pub fn upstream(serve: impl Fn(TcpStream, String) -> io::Result<()> + Send + Clone + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, serve) = (stream.expect("it listens"), serve.clone());
            thread::spawn(move || {
                let head = read_head(&mut stream)?;
                serve(stream, head)
            });
        }
    });
    format!("http://{address}")
}

/// An upstream that awaits `serve` for each connection, all on one thread. Its address.
pub fn async_upstream<F: Future<Output: Send> + Send + 'static>(
    serve: impl Fn(tokio::net::TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
        runtime.block_on(async {
            listener.set_nonblocking(true).expect("a socket");
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            loop {
                let (stream, _) = listener.accept().await.expect("it listens");
                tokio::spawn(serve(stream));
            }
        })
    });
    address
}
