//! `taipan healthcheck`.

use std::net::TcpStream;
use std::time::Duration;

use super::*;

/// A listener that answers every connection by `answer`; returns its URL.
fn listener_with(answer: fn(&mut TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.unwrap());
        }
    });
    url
}

#[test]
fn healthcheck_exits_with_0_only_for_2xx_and_3xx() {
    let server = Site::new()
        .file("index.html", "fine")
        .folder("folder")
        .config("listen = [\"127.0.0.1:0\", \"[::1]:0\", \"unix:taipan.sock\"]\n[[route]]\npath = \"/sick\"\nreturn = 503")
        .start();
    let socket = format!("unix:{}", server.home().join("taipan.sock").display());
    let v6 = server.tcp(1);
    let refused = format!("http://127.0.0.1:{}/", free_port());
    let no_http = listener_with(|stream| _ = stream.write_all(b"220 mail.example ESMTP\r\n"));
    let closing = listener_with(|_| ());
    let mut rows = Rows::new();
    for (url, code) in [
        (server.url("/"), 0),
        (server.url("/folder"), 0),
        (server.url("/missing"), 1),
        (server.url("/sick"), 1),
        (server.url("/folder/"), 1),
        (format!("http://{v6}/"), 0),
        (format!("http://{v6}/missing"), 1),
        (socket.clone(), 0),
        (format!("{socket}:/missing"), 1),
        (refused, 1),
        (no_http, 1),
        (closing, 1),
        ("ftp://127.0.0.1/".to_owned(), 1),
    ] {
        let output = run(["healthcheck", url.as_str()]);
        rows.check(
            &url,
            (output.status.code(), text(&output.stderr).lines().count()),
            (Some(code), code as usize),
        );
        let printed = text(if code == 0 { &output.stdout } else { &output.stderr });
        rows.holds(
            &url,
            &format!("one line names the URL: {printed:?}"),
            printed.contains(&url) && printed.lines().count() == 1,
        );
    }
}

/// No other port is asked in its place.
#[test]
fn healthcheck_asks_no_port_that_is_not_there() {
    let output = run(["healthcheck", "http://127.0.0.1:99999/"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("127.0.0.1:99999 is not a host and a port up to 65535"), "{stderr}");
}

/// The certificate is for another name than the address that is checked.
#[test]
fn healthcheck_requests_by_tls() {
    let server = Site::new()
        .file("index.html", "fine")
        .certificate()
        .config(
            "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\", \"[::1]:0 tls\"]\n\
             certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"",
        )
        .start();
    let [Address::Tcp(plain), Address::Tcp(v4), Address::Tcp(v6)] = server.addresses()[..] else {
        panic!("three TCP addresses, not {:?}", server.addresses());
    };
    let mut rows = Rows::new();
    for (url, code, words) in [
        (format!("https://{v4}/"), 0, "200"),
        (format!("https://{v6}/"), 0, "200"),
        (format!("https://{v4}/missing"), 1, "404"),
        (format!("https://{plain}/"), 1, "it does not speak TLS"),
        (format!("https://127.0.0.1:{}/", free_port()), 1, "refused"),
    ] {
        let output = run(["healthcheck", url.as_str()]);
        let printed = text(if code == 0 { &output.stdout } else { &output.stderr });
        rows.check(&url, output.status.code(), Some(code));
        rows.holds(&url, &format!("one line says {words}: {printed:?}"), {
            printed.contains(&url) && printed.contains(words) && printed.lines().count() == 1
        });
    }
}

#[test]
fn healthcheck_ends_within_its_timeout() {
    const ROUNDS: usize = 3;
    // Never accepted: the kernel completes the connection, and no response comes.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", silent.local_addr().unwrap());
    let dribbling = listener_with(|stream| {
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        head.resize(100, b'x');
        for byte in head {
            // Slower than the timeout of the whole, with short pauses only.
            thread::sleep(Duration::from_millis(300));
            if stream.write_all(&[byte]).is_err() {
                return;
            }
        }
    });
    let mut rows = Rows::new();
    for (what, url) in [("silent", silent), ("one byte at a time", dribbling)] {
        // A program that waits too long does so in every round; a busy machine does not.
        let mut took = Vec::new();
        while took.last().is_none_or(|took| *took >= Duration::from_secs(3)) && took.len() < ROUNDS {
            let started = Instant::now();
            let output = run(["healthcheck", url.as_str(), "--timeout", "1"]);
            let is_late = text(&output.stderr).ends_with(": no response in time\n");
            rows.check(what, (output.status.code(), is_late), (Some(1), true));
            took.push(started.elapsed());
        }
        let in_time = took.last().is_some_and(|took| *took < Duration::from_secs(3));
        rows.holds(what, &format!("it takes 1 s, not {took:?}"), in_time);
    }
}
