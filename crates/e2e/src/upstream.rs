//! Upstreams that are threads of a test and speak HTTP/1 byte by byte.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

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
