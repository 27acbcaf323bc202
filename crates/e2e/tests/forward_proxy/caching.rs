//! Responses of other servers that are stored.

use std::sync::Mutex;

use e2e::Tls;

use super::*;

#[test]
fn stores_responses_of_other_servers_by_key() {
    let (port, heads) = origin(|head| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let fields = match path.split('?').next().unwrap_or_default() {
            "/private" => "Cache-Control: private, max-age=60\r\n",
            "/cdn" => "CDN-Cache-Control: max-age=60\r\nCache-Control: no-store\r\n",
            "/vary" => "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n",
            "/cookie" => "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
            "/stale" => "Cache-Control: max-age=0\r\nETag: \"a\"\r\n",
            _ => "Cache-Control: max-age=60\r\n",
        };
        match head.contains("If-None-Match: \"a\"") {
            true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
            false => format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{path}", path.len()),
        }
    });
    let server =
        proxy_with("listen = \"127.0.0.1:0 http2\"\n", &[port], &format!("{HTTP}store_responses = true\n"));
    let mut rows = Rows::new();
    let requests = || heads.try_iter().count();
    let ask = |method: &str, path: &str, fields: &str| {
        let url = format!("http://127.0.0.1:{port}{path}");
        server.request(format!("{method} {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"))
    };
    // The path, the fields of two requests, and how many of them reach the other server.
    for (path, first, second, expected) in [
        ("/a", "", "", 1),
        ("/a?q", "", "", 1),
        // To the other server, these are other paths.
        ("/x/../a", "", "", 1),
        ("//a", "", "", 1),
        ("/%61", "", "", 1),
        ("/private", "", "", 2),
        ("/cdn", "", "", 2),
        ("/cookie", "", "", 2),
        ("/user", "Authorization: Basic eDp5\r\n", "", 2),
        ("/own", "Cookie: a=b\r\n", "", 2),
        ("/vary", "Accept-Language: de\r\n", "Accept-Language: de\r\n", 1),
        ("/vary", "Accept-Language: en\r\n", "Accept-Language: fr\r\n", 2),
        // The other server has not seen the field that would select it.
        ("/vary", "Connection: accept-language\r\nAccept-Language: it\r\n", "Accept-Language: it\r\n", 2),
        ("/stale", "", "", 2),
        // The other server may take them for another URL. A proxy of the clients may name them.
        ("/host", "X-Forwarded-Host: other\r\n", "", 2),
        ("/prefix", "X-Forwarded-Prefix: /other\r\n", "", 2),
        ("/underscore", "X_Forwarded_Host: other\r\n", "", 2),
        ("/client", "X-Forwarded-For: 192.0.2.1\r\n", "", 1),
    ] {
        let row = format!("{path} {first}{second}");
        for fields in [first, second] {
            let response = ask("GET", path, fields);
            rows.check(&row, (response.status, response.text().as_str()), (200, path));
        }
        rows.check(&row, requests(), expected);
    }
    let hit = ask("GET", "/a", "");
    rows.holds(
        "a hit",
        "Cache-Status says so",
        hit.field("cache-status").unwrap_or_default().contains("hit"),
    );
    rows.holds("a hit", "it has Via", hit.field("via").unwrap_or_default().starts_with("1.1 taipan-"));
    rows.check("HEAD", ask("HEAD", "/a", "").status, 200);
    let mut http2 = server.connect_http2();
    let by_http2 = http2.request(&by_http2("GET", "http", &format!("127.0.0.1:{port}"), "/a"));
    rows.check("by HTTP/2", by_http2.expect("a response").text().as_str(), "/a");
    rows.check("these are hits", requests(), 0);
    // A stored response is for those who may use the proxy.
    let mut other = Client::tcp_from(IpAddr::from([127, 0, 0, 2]), server.addr());
    let url = format!("http://127.0.0.1:{port}/a");
    rows.check("another client", other.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).status, 404);
    rows.check("the site", server.request("GET /a HTTP/1.1\r\nHost: x\r\n\r\n").status, 404);
    // What a request changes is not sent again.
    rows.check("POST", ask("POST", "/a", "Content-Length: 0\r\n").status, 200);
    rows.check("POST", requests(), 1);
    ask("GET", "/a", "");
    rows.check("behind it", requests(), 1);
    let without = proxy(&[port], HTTP);
    for _ in 0..2 {
        without.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    rows.check("without the key", requests(), 2);
}

/// RFC 9110 §4.2.3. `tests/run` leaves this test out where the user cannot listen at port 80.
#[test]
fn one_stored_response_is_for_a_url_with_and_without_the_port_of_http() {
    // An address of this process alone, because other tests may need the port.
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let address = IpAddr::from([127, 80, high, low.max(1)]);
    let listener = TcpListener::bind((address, 80)).expect("this user may listen at port 80");
    let heads = origin_at(listener, |_| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\na".to_owned()
    });
    let server = proxy(&[80], &format!("{HTTP}store_responses = true\n"));
    let mut rows = Rows::new();
    for (method, authority, expected) in [
        ("GET", address.to_string(), 1),
        ("GET", format!("{address}:80"), 0),
        ("GET", format!("{address}:"), 0),
        ("POST", format!("{address}:80"), 1),
        ("GET", address.to_string(), 1),
        ("POST", address.to_string(), 1),
        ("GET", format!("{address}:80"), 1),
    ] {
        let row = format!("{method} {authority}");
        let request =
            format!("{method} http://{authority}/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        rows.check(&row, server.request(request).status, 200);
        rows.check(&row, heads.try_iter().count(), expected);
    }
}

#[test]
fn a_change_by_a_client_with_tls_invalidates_what_location_names() {
    let (port, heads) = origin(|head| {
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
        let location = match head.split(' ').nth(1) {
            Some("/relative") => "Location: /b\r\n".to_owned(),
            Some("/absolute") => format!("Location: http://{host}/b\r\n"),
            _ => String::new(),
        };
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{location}Content-Length: 1\r\n\r\na")
    });
    let server = Site::new()
        .certificate()
        .config(&format!(
            "listen = \"127.0.0.1:0 tls\"\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
             workers = 1\n[forward_proxy]\nports = [{port}]\n{HTTP}store_responses = true\n"
        ))
        .start();
    let mut client = Client::tls(server.addr(), &Tls::new());
    let mut rows = Rows::new();
    for (method, path, expected) in [
        ("GET", "/b", 1),
        ("GET", "/b", 0),
        ("POST", "/relative", 1),
        ("GET", "/b", 1),
        ("POST", "/absolute", 1),
        ("GET", "/b", 1),
    ] {
        let row = format!("{method} {path}");
        let url = format!("http://127.0.0.1:{port}{path}");
        let request = format!("{method} {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        rows.check(&row, client.request(request).status, 200);
        rows.check(&row, heads.try_iter().count(), expected);
    }
}

#[test]
fn sends_a_stale_response_of_another_server_while_a_newer_one_is_requested() {
    let (release, released) = channel::<&str>();
    let released = Arc::new(Mutex::new(released));
    let (sender, requests) = channel();
    let (port, _) = origin(move |head| {
        _ = sender.send(head.to_owned());
        let age = match head.contains("If-None-Match: \"a\"") {
            true => released.lock().expect("no thread has panicked").recv().map_or("", |_| "ETag: \"b\"\r\n"),
            false => "ETag: \"a\"\r\nAge: 100\r\n",
        };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60, stale-while-revalidate=1000\r\n{age}\
             Content-Length: 3\r\n\r\n{}",
            if age.contains("\"a\"") { "old" } else { "new" }
        )
    });
    let server =
        proxy_with("listen = \"127.0.0.1:0 http2\"\n", &[port], &format!("{HTTP}store_responses = true\n"));
    let get = || {
        let url = format!("http://127.0.0.1:{port}/a");
        server.request(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).text()
    };
    let request = || requests.recv_timeout(TIMEOUT).expect("a request");
    let mut rows = Rows::new();
    rows.check("stored", get().as_str(), "old");
    rows.holds("the first request", "it has no condition", !request().contains("If-None-Match"));
    // The validation, of a request by HTTP/2, has no response yet.
    let mut http2 = server.connect_http2();
    let stale = http2.request(&by_http2("GET", "http", &format!("127.0.0.1:{port}"), "/a"));
    rows.check("by HTTP/2", stale.expect("a response").text().as_str(), "old");
    for row in 0..3 {
        rows.check(format!("request {row}"), get().as_str(), "old");
    }
    let validation = request();
    rows.holds("the validation", "it names what is stored", validation.contains("If-None-Match: \"a\""));
    rows.holds("the validation", "it is for the same path", validation.starts_with("GET /a HTTP/1.1"));
    release.send("go on").expect("the server waits");
    rows.holds("then", "the newer one is sent", wait_until(TIMEOUT, || get() == "new"));
    rows.check("requests beside these", requests.try_iter().count(), 0);
}
