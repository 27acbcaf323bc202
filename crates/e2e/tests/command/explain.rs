//! `taipan explain`: the response of the server, without one.

use super::*;

/// The status and the fields that `taipan explain` prints.
fn explained(output: &Output) -> (u16, Vec<(String, String)>) {
    let stdout = text(&output.stdout);
    let (_, head) = stdout
        .split_once("HTTP/1.1 ")
        .unwrap_or_else(|| panic!("no answer:\n{stdout}{}", text(&output.stderr)));
    let status = head[..3].parse().expect("a status");
    let fields = head.lines().skip(1).filter_map(|line| line.trim().split_once(": "));
    (status, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[test]
fn explain_agrees_with_the_response_of_the_server() {
    let site = Site::new()
        .file("index.html", "<h1>index</h1>")
        .file("a.txt", "0123456789")
        .file("a.txt.gz", "not really gzip, but the server does not check")
        .file("big.bin", vec![7; 200_000])
        .file("listed/one", "1")
        .file("unlisted/one", "1")
        .file(".secret", "no")
        .file("errors/404.html", "gone fishing")
        .modified("a.txt", 1_600_000_000)
        .symlink("out", "/etc/hostname")
        .config(
            "redirects = { \"/old\" = { to = \"/new$query\", status = 308 } }\nrewrites = { \"/alias\" = \"/a.txt\" }\n\
             error_pages = { 404 = \"/errors/404.html\" }\nheaders = { X-Robots-Tag = \"none\" }\n\
             [[route]]\npath = \"/listed/\"\nlisting = true\n\
             [[route]]\npath = \"/no/\"\nreturn = 410\n\
             [[host]]\nnames = \"b.example\"\nredirects = { \"/\" = \"https://b.example$path\" }",
        );
    let config = site.write_config();
    let server = site.start();
    let etag = server.get("/a.txt").field("etag").unwrap().to_owned();
    let table: &[(&str, &str, &[&str])] = &[
        ("GET", "/", &[]),
        ("HEAD", "/", &[]),
        ("GET", "/a.txt", &[]),
        ("GET", "/a.txt?query=1", &[]),
        ("GET", "/a.txt", &["Accept-Encoding: gzip"]),
        ("GET", "/big.bin", &[]),
        ("GET", "/a.txt", &["Range: bytes=2-4"]),
        ("GET", "/a.txt", &["Range: bytes=0-1,5-6"]),
        ("GET", "/a.txt", &["Range: bytes=100-"]),
        ("GET", "/big.bin", &["Range: bytes=-5"]),
        ("GET", "/a.txt", &[&format!("If-None-Match: {etag}")]),
        ("GET", "/a.txt", &["If-Match: \"other\""]),
        ("GET", "/a.txt", &["If-Modified-Since: Sun, 13 Sep 2020 12:26:40 GMT"]),
        ("GET", "/missing", &[]),
        ("GET", "/old?a=b", &[]),
        ("GET", "/alias", &[]),
        ("GET", "/listed", &[]),
        ("GET", "/listed?a=b", &[]),
        ("GET", "/listed/", &[]),
        ("GET", "/listed/", &["Accept: application/json"]),
        ("GET", "/unlisted/", &[]),
        ("GET", "/a.txt/", &[]),
        ("GET", "/no/thing", &[]),
        ("GET", "/.secret", &[]),
        ("GET", "/out", &[]),
        ("GET", "/../etc/passwd", &[]),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", &[]),
        ("GET", "/a%2fb", &[]),
        ("GET", "/a%00", &[]),
        ("GET", "/listed/../a.txt", &[]),
        ("POST", "/a.txt", &[]),
        ("DELETE", "/missing", &[]),
        ("BREW", "/a.txt", &[]),
        ("OPTIONS", "/a.txt", &[]),
        ("OPTIONS", "*", &[]),
        ("GET", "http://b.example/x", &[]),
        ("GET", "http://b.example", &[]),
        ("GET", "/x", &["Host: b.example"]),
        ("GET", "/x", &["Host: b.example", "Host: c.example"]),
        ("GET", "/x", &["Bad Field: x"]),
        ("GET", "/x y", &[]),
    ];
    let mut rows = Rows::new();
    for (method, url, fields) in table {
        let row = format!("{method} {url} {fields:?}");
        let mut explain = command();
        explain.args(["explain", "-c"]).arg(&config).args([method, url]);
        for field in *fields {
            explain.args(["-H", field]);
        }
        let output = output_of(&mut explain);
        rows.check(&row, (output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        if output.stdout.is_empty() {
            continue;
        }
        let (status, explained_field) = explained(&output);
        // The request of a client for that row.
        let (host, target) = match url.strip_prefix("http://") {
            Some(rest) => rest
                .split_once('/')
                .map_or((rest, String::from("/")), |(host, path)| (host, format!("/{path}"))),
            None => ("localhost", (*url).to_owned()),
        };
        let mut request = format!("{method} {target} HTTP/1.1\r\n");
        if !fields.iter().any(|field| field.starts_with("Host:")) {
            request += &format!("Host: {host}\r\n");
        }
        fields.iter().for_each(|field| request += &format!("{field}\r\n"));
        let response = server.request(request + "\r\n");
        rows.check(&row, status, response.status);
        for name in [
            "Location",
            "Content-Length",
            "Content-Range",
            "ETag",
            "Content-Encoding",
            "Vary",
            "X-Robots-Tag",
            "Allow",
        ] {
            let explained_field = explained_field
                .iter()
                .find(|(explained_field, _)| explained_field.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str());
            rows.check(&row, (name, explained_field), (name, response.field(name)));
        }
    }
}

#[test]
fn explain_names_the_hops() {
    let site = Site::new().file("a.txt", "0123456789").config("rewrites = { \"/b\" = \"/a.txt\" }");
    let output = output_of(command().args(["explain", "GET", "/b", "-c"]).arg(site.write_config()));
    let stdout = text(&output.stdout);
    for hop in [
        "request   GET /b",
        "host      the default host",
        "path      /b",
        "rewritten /a.txt",
        "found     a.txt: 10 bytes",
    ] {
        assert!(stdout.contains(hop), "{hop}:\n{stdout}");
    }
    let folder = output_of(command().args(["explain", "GET", "/a.txt", "--root"]).arg(site.root()));
    assert_eq!(explained(&folder).0, 200);
}

#[test]
fn explain_says_what_becomes_of_a_request_without_tls() {
    let files = authority().server(&["a.example", "b.example"]);
    let site = Site::new()
        .file("a.txt", "0123456789")
        .file_beside_root("own.pem", files.certificate + &files.key)
        .file_beside_root("ca.pem", authority().pem())
        .config(
            "listen = \"127.0.0.1:443 tls\"\nnames = \"a.example\"\ncertificate = \"own.pem\"\nhsts = \"1d\"\n\
             [[host]]\nnames = \"b.example\"\nroot = \"www\"\nclient_certificates = \"required\"\n\
             client_ca = \"ca.pem\"",
        );
    let config = site.write_config();
    let explain = |url: &str| output_of(command().args(["explain", "GET", url, "-c"]).arg(&config));
    for (url, status, location, hop) in [
        (
            "http://a.example/a.txt?b",
            301,
            Some("https://a.example/a.txt?b"),
            "redirects requests without TLS",
        ),
        ("http://b.example/a.txt", 301, Some("https://b.example/a.txt"), "redirects requests without TLS"),
        ("https://a.example/a.txt", 200, None, "found     a.txt"),
        ("https://b.example/a.txt", 200, None, "first     a certificate of the client"),
        ("/a.txt", 200, None, "found     a.txt"),
    ] {
        let output = explain(url);
        let (found, fields) = explained(&output);
        let field = |name: &str| fields.iter().find(|(other, _)| other == name).map(|(_, value)| &**value);
        let stdout = text(&output.stdout);
        assert_eq!((found, field("Location")), (status, location), "{url}:\n{stdout}");
        assert!(stdout.contains(hop), "{url}: {hop}:\n{stdout}");
        assert_eq!(field("Strict-Transport-Security").is_some(), status == 200, "{url}:\n{stdout}");
    }
}
