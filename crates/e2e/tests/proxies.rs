//! Behind a proxy: the client, scheme and host are those that trusted proxies report, everywhere; other peers
//! are never believed.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread;

use e2e::{BackgroundProcess, Client, Response, Rows, Server, Site, TIMEOUT, free_port, tool, wait_until};

/// An address in the networks that the tests trust, and one outside.
const PROXY: &str = "127.0.0.2";
const STRANGER: &str = "127.0.1.1";

const TRUST: &str = "trusted_proxies = [\"127.0.0.0/30\", \"10.0.0.0/8\"]\n";

const ENVIRONMENT: &str = "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n\";\n\
     print \"$_=$ENV{$_}\\n\" for sort keys %ENV;\nread(STDIN, my $body, 9); print \"BODY=$body\\n\";\n";

fn from(server: &Server, address: &str) -> Client {
    Client::tcp_from(address.parse::<IpAddr>().expect("an address"), server.addr())
}

fn request(client: &mut Client, target: &str, fields: &str) -> Response {
    client.request(format!("GET {target} HTTP/1.1\r\nHost: own.example:81\r\n{fields}\r\n"))
}

fn site(top: &str, more: &str) -> Site {
    Site::new().script("env.cgi", ENVIRONMENT).file("page.html", "page").config(&format!(
        "{top}redirects = {{ \"/go\" = \"$scheme://$host/there\" }}\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n{more}"
    ))
}

#[test]
fn scripts_see_the_fields_of_trusted_proxies_only() {
    let server = site(TRUST, "").start();
    let port = server.addr().port().to_string();
    let mut rows = Rows::new();
    // Source address and fields; the expected REMOTE_ADDR, REMOTE_PORT, HTTPS, SERVER_NAME, SERVER_PORT and
    // HTTP_HOST.
    let x = "X-Forwarded-For: 192.0.2.9, 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
    let with_host = format!("{x}X-Forwarded-Host: www.example\r\n");
    let forwarded =
        "Forwarded: for=192.0.2.9, for=\"[2001:db8::1]:4711\";proto=https;host=\"www.example:8443\"\r\n";
    let both = format!("{x}Forwarded: for=192.0.2.1;proto=https\r\n");
    let contradiction = format!("{x}Forwarded: for=192.0.2.2;proto=https\r\n");
    for (peer, fields, expected) in [
        (PROXY, x, "192.0.2.1 - on own.example 81 own.example:81"),
        (PROXY, &with_host, "192.0.2.1 - on www.example 443 www.example"),
        (PROXY, forwarded, "2001:db8::1 4711 on www.example 8443 www.example:8443"),
        (PROXY, &both, "192.0.2.1 - on own.example 81 own.example:81"),
        (PROXY, "X-Forwarded-For: 192.0.2.1, 10.1.2.3\r\n", "192.0.2.1 - - own.example 81 own.example:81"),
        (PROXY, "X-Forwarded-For: 192.0.2.1:5, 10.1.2.3\r\n", "192.0.2.1 5 - own.example 81 own.example:81"),
        (PROXY, "X-Forwarded-Proto: https\r\n", "127.0.0.2 port on own.example 81 own.example:81"),
        // A malformed entry, and all entries before it, are ignored.
        (PROXY, "X-Forwarded-For: 192.0.2.1, unknown\r\n", "127.0.0.2 port - own.example 81 own.example:81"),
        (PROXY, "X-Forwarded-For: 192.0.2.1, _x, 10.0.0.1\r\n", "10.0.0.1 - - own.example 81 own.example:81"),
        (PROXY, "Forwarded: for=192.0.2.1;host=\"\r\n", "127.0.0.2 port - own.example 81 own.example:81"),
        (PROXY, "X-Forwarded-Proto: gopher\r\n", "127.0.0.2 port - own.example 81 own.example:81"),
        (PROXY, "X-Forwarded-Host: a/b\r\n", "127.0.0.2 port - own.example 81 own.example:81"),
        (PROXY, &contradiction, "127.0.0.2 port - own.example PORT own.example:81"),
        (STRANGER, &with_host, "127.0.1.1 port - own.example PORT own.example:81"),
        (STRANGER, forwarded, "127.0.1.1 port - own.example PORT own.example:81"),
    ] {
        let found = request(&mut from(&server, peer), "/env.cgi", fields).variables();
        let value = |name: &str| found.get(name).cloned().unwrap_or_else(|| "-".to_owned());
        // The port of a connection is arbitrary.
        let remote_port = match (value("REMOTE_PORT"), expected.contains(" port ")) {
            (known, true) if known.parse::<u16>().is_ok() => "port".to_owned(),
            (other, _) => other,
        };
        let names = ["HTTPS", "SERVER_NAME", "SERVER_PORT", "HTTP_HOST"].map(value);
        let is = [value("REMOTE_ADDR"), remote_port, names.join(" ")].join(" ");
        rows.check(format!("{peer} {fields}"), is, expected.replace("PORT", &port));
        let scheme = if value("HTTPS") == "on" { "https" } else { "http" };
        rows.check(format!("{peer} {fields}"), found["REQUEST_SCHEME"].as_str(), scheme);
        for name in
            ["HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST"]
        {
            rows.check(format!("{peer} {fields} {name}"), found.get(name), None);
        }
    }
}

#[test]
fn host_redirects_and_logs_reflect_the_original_request_of_the_client() {
    let server = site(
        &format!("{TRUST}names = [\"own.example\"]\n"),
        "[[host]]\nnames = [\"other.example\"]\nroot = \"other\"\nredirects = { \"/go\" = \"$scheme://$host/other\" }\n\
         [log]\naccess = \"stdout\"\n",
    )
    .file_beside_root("other/page.html", "the other page")
    .script("away.cgi", "#!/bin/sh\nprintf 'Location: /env.cgi\\n\\n'\n")
    .start();
    let mut proxy = from(&server, PROXY);
    let mut rows = Rows::new();
    let fields =
        "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: other.example\r\n";
    rows.check(
        "a page of the host",
        request(&mut proxy, "/page.html", fields).text().as_str(),
        "the other page",
    );
    let https = "X-Forwarded-For: 192.0.2.2\r\nX-Forwarded-Proto: https\r\n";
    for (fields, expected) in [
        ("", "http://own.example/there"),
        (https, "https://own.example/there"),
        (fields, "https://other.example/other"),
        ("Forwarded: for=192.0.2.3;proto=https;host=other.example\r\n", "https://other.example/other"),
    ] {
        rows.check(fields, request(&mut proxy, "/go", fields).field("location"), Some(expected));
    }
    let of_a_stranger = request(&mut from(&server, STRANGER), "/go", fields);
    rows.check("a stranger", of_a_stranger.field("location"), Some("http://own.example/there"));
    // A request with a body, which an internal redirect passes to another script.
    let mut client = from(&server, PROXY);
    client.send(format!("POST /away.cgi HTTP/1.1\r\nHost: own.example\r\n{https}Content-Length: 5\r\n\r\n"));
    client.send("hello");
    let found = client.read_response().variables();
    rows.check(
        "led elsewhere",
        (found["REMOTE_ADDR"].as_str(), found["HTTPS"].as_str()),
        ("192.0.2.2", "on"),
    );
    // Each line has its own client, even on a shared connection.
    let several: String = (1..=3)
        .map(|at| format!("GET /page.html?{at} HTTP/1.1\r\nHost: own.example\r\nX-Forwarded-For: 198.51.100.{at}\r\n\r\n"))
        .collect();
    proxy.send(format!("{several}GET /page.html?4 HTTP/1.1\r\nHost: own.example\r\n\r\nnot HTTP\r\n\r\n"));
    (0..4).for_each(|_| rows.check("pipelined", proxy.read_response().status, 200));
    rows.check("no request", proxy.read_response().status, 400);
    let line = |part: &str| server.wait_for_output(part, TIMEOUT);
    for (part, expected) in [
        ("?1 ", "198.51.100.1 - "),
        ("?2 ", "198.51.100.2 - "),
        ("?3 ", "198.51.100.3 - "),
        ("?4 ", "127.0.0.2 - "),
        ("\"-\" 400", "127.0.0.2 - "),
        ("POST /away.cgi", "192.0.2.2 - "),
        ("other.example", "192.0.2.1 - "),
    ] {
        let line = line(part);
        rows.holds(&line, expected, line.starts_with(expected));
    }
}

#[test]
fn forwards_client_and_fields_of_a_trusted_proxy_to_an_application() {
    let site = site(
        &format!("listen = [\"127.0.0.1:0\", \"unix:www.sock\"]\n{}", TRUST.replace("[", "[\"unix\", ")),
        "[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:app.sock\"\n",
    );
    let listener = UnixListener::bind(site.home().join("app.sock")).expect("it is our folder");
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let reported =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", head.len());
            _ = stream.write_all(&[reported.as_bytes(), &head].concat());
        }
    });
    let server = site.start();
    let fields = "X-Forwarded-For: 192.0.2.9, 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: www.example\r\n\
                  X-Forwarded-Prefix: /mount\r\nX-Real-IP: 192.0.2.1\r\n";
    let mut rows = Rows::new();
    let mut check = |what: &str, client: &mut Client, expected: [Option<&str>; 6]| {
        let head = request(client, "/app/x", fields).text();
        let value = |name: &str| {
            let pairs = head.lines().filter_map(|line| line.split_once(": "));
            let values: Vec<_> = pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name)).collect();
            (!values.is_empty())
                .then(|| values.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(", "))
        };
        let names = [
            "host",
            "x-forwarded-host",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-prefix",
            "x-real-ip",
        ];
        rows.check(what, names.map(value), expected.map(|value| value.map(str::to_owned)));
    };
    let of_the_client = [
        Some("www.example"),
        Some("www.example"),
        Some("192.0.2.1"),
        Some("https"),
        Some("/mount"),
        Some("192.0.2.1"),
    ];
    check("a proxy", &mut from(&server, PROXY), of_the_client);
    check("unix", &mut Client::unix(&server.home().join("www.sock")), of_the_client);
    let own = Some("own.example:81");
    let of_a_stranger = [own, own, Some(STRANGER), Some("http"), None, Some(STRANGER)];
    check("a stranger", &mut from(&server, STRANGER), of_a_stranger);
}

#[test]
fn explain_uses_the_scheme_of_the_url() {
    let site = site("", "");
    let config = site.write_config();
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://own.example/go");
        let reported =
            e2e::run(["explain".as_ref(), "-c".as_ref(), config.as_os_str(), "GET".as_ref(), url.as_ref()]);
        let reported = String::from_utf8_lossy(&reported.stdout).into_owned();
        assert!(reported.contains(&format!("Location: {scheme}://own.example/there")), "{reported}");
    }
}

#[test]
fn trusts_a_unix_socket_only_when_configured() {
    for (trust, expected) in [("[\"unix\"]", "192.0.2.1"), ("[\"0.0.0.0/0\", \"::/0\"]", ""), ("[]", "")] {
        let server =
            site(&format!("listen = [\"127.0.0.1:0\", \"unix:www.sock\"]\ntrusted_proxies = {trust}\n"), "")
                .start();
        let mut client = Client::unix(&server.home().join("www.sock"));
        let found = request(&mut client, "/env.cgi", "X-Forwarded-For: 192.0.2.1\r\n").variables();
        assert_eq!(found["REMOTE_ADDR"], expected, "{trust}");
    }
}

#[test]
fn does_not_count_proxy_connections_as_one_client() {
    let server = site(TRUST, "[limits]\nconnections_per_client = 2\n").start();
    let open = |address: &str| {
        let mut clients: Vec<Client> = (0..5).map(|_| from(&server, address)).collect();
        clients.iter_mut().map(|client| client.get("/page.html").status).collect::<Vec<_>>()
    };
    assert_eq!(open(PROXY), [200; 5]);
    assert!(open(STRANGER).contains(&503));
}

/// `lighttpd` in front, which sends `X-Forwarded-For` and `-Proto`, and with `forwarded` also `Forwarded`.
fn lighttpd(server: &Server, forwarded: &str) -> (BackgroundProcess, u16) {
    let port = free_port();
    let config = server.files().file(
        "lighttpd.conf",
        format!(
            "server.document-root = \"{}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             server.modules = (\"mod_proxy\")\n{forwarded}\n\
             proxy.server = (\"\" => ((\"host\" => \"{}/www.sock\")))\n",
            server.root().display(),
            server.home().display(),
        ),
    );
    let process = BackgroundProcess::start(tool("lighttpd").env_clear().arg("-D").arg("-f").arg(config));
    assert!(wait_until(TIMEOUT, || TcpStream::connect(("127.0.0.1", port)).is_ok()), "it does not listen");
    (process, port)
}

#[test]
fn identifies_a_client_behind_lighttpd_that_forges_its_address() {
    let server =
        site("listen = [\"127.0.0.1:0\", \"unix:www.sock\"]\ntrusted_proxies = \"unix\"\n", "").start();
    let mut rows = Rows::new();
    for forwarded in ["", "proxy.forwarded = (\"for\" => 1, \"proto\" => 1, \"host\" => 1)"] {
        let (_lighttpd, port) = lighttpd(&server, forwarded);
        let address = ([127, 0, 0, 1], port).into();
        for (fields, expected) in [
            ("", "127.0.3.4"),
            ("X-Forwarded-For: 192.0.2.66\r\n", "127.0.3.4"),
            ("X-Forwarded-For: 192.0.2.66, \r\nX-Real-IP: 192.0.2.66\r\n", "127.0.3.4"),
            // lighttpd passes the field on unless it writes it itself. Then neither is believed.
            ("Forwarded: for=192.0.2.66\r\n", if forwarded.is_empty() { "" } else { "127.0.3.4" }),
            ("Forwarded: for=127.0.3.4\r\n", "127.0.3.4"),
            ("Forwarded: for=\"192.0.2.66\r\n", if forwarded.is_empty() { "" } else { "?" }),
        ] {
            let mut client = Client::tcp_from("127.0.3.4".parse().expect("an address"), address);
            let found = request(&mut client, "/env.cgi", fields).variables();
            let is = found["REMOTE_ADDR"].as_str();
            let row = format!("{forwarded} {fields}");
            match expected {
                // lighttpd may or may not repair the field.
                "?" => rows.holds(row, is, matches!(is, "" | "127.0.3.4")),
                expected => rows.check(row, is, expected),
            }
        }
    }
}
