//! The forward proxy: tunnels by CONNECT, and requests for URLs. Destinations are threads of the test, or another
//! taipan; so is the DNS server.

mod caching;
mod http2;
mod tunnels;
mod urls;

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use e2e::dns::{Answer, Dns, ip};
use e2e::http2::{Http2, Http2Request};
use e2e::upstream::read_head;
use e2e::{Client, Folder, Rows, Server, Site, TIMEOUT, output_of, tool, wait_until};

/// A destination that runs `serve` for each connection.
fn destination(serve: impl Fn(TcpStream) + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    destination_at(listener, serve);
    port
}

fn destination_at(listener: TcpListener, serve: impl Fn(TcpStream) + Send + Clone + 'static) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.expect("it listens"), serve.clone());
            thread::spawn(move || serve(stream));
        }
    });
}

/// Sends back what comes, until the end, and then how much it was.
fn echo(mut stream: TcpStream) {
    let (mut buffer, mut total) = ([0; 4096], 0);
    while let Ok(n) = stream.read(&mut buffer) {
        if n == 0 {
            _ = stream.write_all(format!("end of {total}").as_bytes());
            _ = stream.shutdown(Shutdown::Write);
            return;
        }
        total += n;
        if stream.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}

/// A DNS server that knows the addresses of names.
fn dns(table: &[(&str, &[&str])]) -> Dns {
    let dns = Dns::start();
    for (name, ips) in table {
        dns.set(name, Answer::Records(ips.iter().map(|text| ip(text, 60)).collect()));
    }
    dns
}

fn proxy(ports: &[u16], section: &str) -> Server {
    proxy_with("listen = \"127.0.0.1:0\"", ports, section)
}

/// `keys`: of the top level.
fn proxy_with(keys: &str, ports: &[u16], section: &str) -> Server {
    let (top, section) = section.split_once("---\n").unwrap_or(("", section));
    Site::new()
        .file("a.txt", "a file")
        .config(&format!(
            "{keys}\nworkers = 1\n[log]\naccess = \"stdout\"\nformat = \"json\"\n{top}\n\
             [forward_proxy]\nports = {ports:?}\n{section}\n"
        ))
        .start()
}

const LOOPBACK: &str = "clients = \"127.0.0.0/8\"\ndestinations = \"127.0.0.0/8\"\n";

/// A server whose responses are heads and bodies of HTTP. It sends the head of each request, with its body, to the
/// test.
fn origin(response: impl Fn(&str) -> String + Send + Clone + 'static) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    (port, origin_at(listener, response))
}

fn origin_at(
    listener: TcpListener,
    response: impl Fn(&str) -> String + Send + Clone + 'static,
) -> Receiver<String> {
    let (sender, heads) = channel();
    destination_at(listener, move |mut stream| {
        let Ok(head) = read_head(&mut stream) else { return };
        let mut body = Vec::new();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
        if let Some(length) = length {
            body.resize(length, 0);
            if stream.read_exact(&mut body).is_err() {
                return;
            }
        }
        while head.contains("Transfer-Encoding: chunked") && !body.ends_with(b"0\r\n\r\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            body.push(byte[0]);
        }
        let response = response(&head);
        _ = sender.send(head + &String::from_utf8_lossy(&body));
        _ = stream.write_all(response.as_bytes());
    });
    heads
}

fn hello(_: &str) -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Origin: yes\r\n\r\nhello"
        .to_owned()
}

const HTTP: &str = "clients = \"127.0.0.1\"\ndestinations = \"127.0.0.0/8\"\nhttp = true\n";

fn via(text: &str) -> &str {
    let (_, rest) = text.split_once("1.1 taipan-").expect("it names this server");
    &rest[..8]
}

/// A request by HTTP/2 with this authority.
fn by_http2(method: &str, scheme: &str, authority: &str, path: &str) -> Http2Request {
    let fields = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)];
    let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Http2Request { fields, body: Vec::new(), trailers: Vec::new() }
}
