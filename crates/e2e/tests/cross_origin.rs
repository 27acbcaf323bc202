//! What pages of other origins may read, the security fields that browsers obey, and the texts for robots and
//! researchers.

use e2e::{Response, Rows, Server, Site};

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran'\n";
const OWN: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\nAccess-Control-Allow-Origin: https://own.example\\n\
    X-Frame-Options: ALLOWALL\\nVary: Cookie\\n\\nran'\n";
const INSIDE: &str = "#!/bin/sh\nprintf 'Location: /one/o.txt\\n\\n'\n";
const ORIGIN: &str = "Origin: https://app.example\r\n";

fn start() -> Server {
    let config = "cors_max_age = \"1h\"\n\
        [[route]]\npath = \"/list/\"\ncors_origins = [\"https://app.example\", \"https://*.trusted.example\"]\n\
        cors_credentials = true\ncors_methods = [\"GET\", \"PUT\"]\ncors_fields = [\"Authorization\"]\n\
        cors_exposed_fields = [\"ETag\"]\nlisting = true\n\
        [[route]]\npath = \"/any/\"\ncors_origins = \"*\"\n\
        [[route]]\npath = \"/one/\"\ncors_origins = \"https://app.example\"\nheaders = { Vary = \"X-Test\" }\n\
        [[route]]\npath = \"/list/*.cgi\"\ncgi = true\ncors_origins = [\"https://app.example\", \"https://b.example\"]\n\
        [[route]]\npath = \"/list/denied/\"\ncors_origins = [\"https://app.example\", \"https://b.example\"]\n\
        [[rule]]\npath = \"/list/denied/\"\nthen = \"deny\"\n";
    Site::new()
        .every_protocol()
        .file("plain.txt", "plain")
        .file("list/l.txt", "0123456789")
        .file("list/denied/x.txt", "denied")
        .file("list/big.txt", "b".repeat(200_000))
        .file("any/a.txt", "any")
        .file("one/o.txt", "one")
        .script("list/run.cgi", SCRIPT)
        .script("list/own.cgi", OWN)
        .script("list/inside.cgi", INSIDE)
        .config(config)
        .start()
}

fn request(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    server.request(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

/// `200 body|Allow-Origin: …|Vary: …`
fn shown(response: &Response) -> String {
    let body = response.text();
    let mut shown = format!("{} {}", response.status, if body.len() > 20 { "(long)" } else { &body });
    for name in
        ["Allow-Origin", "Allow-Credentials", "Allow-Methods", "Allow-Headers", "Expose-Headers", "Max-Age"]
    {
        for value in response.values(&format!("Access-Control-{name}")) {
            shown += &format!("|{name}: {value}");
        }
    }
    for value in response.values("Vary").iter().filter(|value| **value != "Accept-Encoding") {
        shown += &format!("|Vary: {value}");
    }
    shown
}

const SHARED: &str =
    "|Allow-Origin: https://app.example|Allow-Credentials: true|Expose-Headers: ETag|Vary: Origin";

#[test]
fn every_response_names_the_origin_that_may_read_it() {
    let server = start();
    let tag = request(&server, "GET", "/list/l.txt", "").field("ETag").unwrap_or_default().to_owned();
    let matching = format!("{ORIGIN}If-None-Match: {tag}\r\n");
    let mut rows = Rows::new();
    for (path, fields, expected) in [
        ("/plain.txt", ORIGIN, "200 plain".to_owned()),
        ("/list/l.txt", ORIGIN, format!("200 0123456789{SHARED}")),
        ("/list/l.txt", "", "200 0123456789|Vary: Origin".to_owned()),
        ("/list/l.txt", "Origin: https://evil.example\r\n", "200 0123456789|Vary: Origin".to_owned()),
        ("/list/l.txt", "Origin: null\r\n", "200 0123456789|Vary: Origin".to_owned()),
        (
            "/list/l.txt",
            "Origin: https://a.b.trusted.example\r\n",
            format!("200 0123456789{}", SHARED.replace("app.example", "a.b.trusted.example")),
        ),
        ("/list/l.txt", "Origin: https://trusted.example\r\n", "200 0123456789|Vary: Origin".to_owned()),
        ("/list/l.txt", &matching, format!("304 {SHARED}")),
        ("/list/l.txt", &format!("{ORIGIN}Range: bytes=2-3\r\n"), format!("206 23{SHARED}")),
        ("/list/l.txt", &format!("{ORIGIN}Range: bytes=99-\r\n"), format!("416 (long){SHARED}")),
        ("/list/big.txt", ORIGIN, format!("200 (long){SHARED}")),
        (
            "/list/",
            ORIGIN,
            format!("200 (long){}", SHARED.replace("|Vary", "|Vary: Accept, Accept-Encoding|Vary")),
        ),
        ("/list", ORIGIN, format!("301 (long){SHARED}")),
        ("/list/missing", ORIGIN, format!("404 (long){SHARED}")),
        (
            "/list/denied/x.txt",
            ORIGIN,
            "403 (long)|Allow-Origin: https://app.example|Vary: Origin".to_owned(),
        ),
        ("/list/run.cgi", ORIGIN, format!("200 ran{SHARED}")),
        ("/list/run.cgi/info", ORIGIN, format!("200 ran{SHARED}")),
        ("/list/run.cgi", "", "200 ran|Vary: Origin".to_owned()),
        // A script decides for itself.
        (
            "/list/own.cgi",
            ORIGIN,
            "200 ran|Allow-Origin: https://own.example|Vary: Cookie|Vary: Origin".to_owned(),
        ),
        ("/list/inside.cgi", ORIGIN, "200 one|Allow-Origin: https://app.example|Vary: X-Test".to_owned()),
        ("/any/a.txt", "", "200 any|Allow-Origin: *".to_owned()),
        ("/any/a.txt", ORIGIN, "200 any|Allow-Origin: *".to_owned()),
        (
            "/one/o.txt",
            "Origin: https://evil.example\r\n",
            "200 one|Allow-Origin: https://app.example|Vary: X-Test".to_owned(),
        ),
    ] {
        // Twice: the second time, files are in the cache.
        for _ in 0..2 {
            rows.check(
                format!("{path} {fields}"),
                shown(&request(&server, "GET", path, fields)),
                expected.clone(),
            );
        }
    }
    let head = request(&server, "HEAD", "/list/l.txt", ORIGIN);
    rows.check("HEAD", shown(&head), format!("200 {SHARED}"));
    rows.check("its length", head.field("Content-Length"), Some("10"));
}

#[test]
fn a_response_in_place_of_that_of_the_route_names_the_origin() {
    let server = Site::new()
        .file("a.txt", "a")
        .script("run.cgi", SCRIPT)
        .config(
            "cors_origins = [\"https://app.example\", \"https://b.example\"]\n\
             [[limit]]\nby = \"field:X-Key\"\nrequests = \"1/h\"\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n",
        )
        .start();
    let mut rows = Rows::new();
    let expected = "429 (long)|Allow-Origin: https://app.example|Vary: Origin";
    for (method, path) in [("GET", "/a.txt"), ("GET", "/run.cgi"), ("POST", "/run.cgi")] {
        // A request with a body goes another way.
        for body in ["", "x"] {
            let row = format!("{method} {path} {body}");
            let length = body.len();
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: a\r\n{ORIGIN}X-Key: {row}\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            rows.check("within the limit", server.request(&request).status, 200);
            rows.check(row, shown(&server.request(&request)).as_str(), expected);
        }
    }
}

#[test]
fn responds_to_preflights_before_rules_ask() {
    let server = start();
    let mut rows = Rows::new();
    let ask = "Access-Control-Request-Method: PUT\r\n";
    let of_list = "204 |Allow-Origin: https://app.example|Allow-Credentials: true|Allow-Methods: GET, PUT|\
        Allow-Headers: Authorization|Max-Age: 3600|Vary: Origin";
    let other =
        "204 |Allow-Origin: https://app.example|Allow-Methods: GET, HEAD, POST|Max-Age: 3600|Vary: Origin";
    for (path, fields, expected) in [
        ("/list/l.txt", format!("{ORIGIN}{ask}"), of_list),
        ("/list/missing", format!("{ORIGIN}{ask}Access-Control-Request-Headers: x-a\r\n"), of_list),
        ("/list/denied/x.txt", format!("{ORIGIN}{ask}"), other),
        ("/list/run.cgi/info", format!("{ORIGIN}{ask}"), of_list),
        ("/list/l.txt", format!("Origin: https://evil.example\r\n{ask}"), "204 |Vary: Origin"),
        (
            "/any/a.txt",
            format!("{ORIGIN}{ask}"),
            "204 |Allow-Origin: *|Allow-Methods: GET, HEAD, POST|Max-Age: 3600",
        ),
        // None of these is a preflight, or the route has no rules for other origins.
        ("/list/l.txt", ORIGIN.to_owned(), &format!("204 {SHARED}")),
        ("/list/l.txt", ask.to_owned(), "204 |Vary: Origin"),
        ("/plain.txt", format!("{ORIGIN}{ask}"), "204 "),
    ] {
        rows.check(
            format!("{path} {fields}"),
            shown(&request(&server, "OPTIONS", path, &fields)).as_str(),
            expected,
        );
    }
}

#[test]
fn responds_to_preflights_for_a_path_that_a_fallback_leads_elsewhere() {
    let server = Site::new()
        .script("app/x.cgi", SCRIPT)
        .config(
            "fallback = \"/app/x.cgi\"\n\
             [[route]]\npath = \"/app/x.cgi\"\ncgi = true\ncors_origins = \"https://app.example\"\n\
             [[route.rule]]\nmethod = \"OPTIONS\"\nthen = \"deny\"\n",
        )
        .start();
    for path in ["/app/x.cgi", "/missing"] {
        let fields = format!("{ORIGIN}Access-Control-Request-Method: POST\r\n");
        let expected = "204 |Allow-Origin: https://app.example|Allow-Methods: GET, HEAD, POST|Max-Age: 600";
        assert_eq!(shown(&request(&server, "OPTIONS", path, &fields)), expected, "{path}");
    }
}

#[test]
fn presets_of_security_fields_leave_those_of_others_alone() {
    let server = Site::new()
        .every_protocol()
        .file("a.txt", "a")
        .file("strict/s.txt", "s")
        .file("own/o.txt", "o")
        .file("off/o.txt", "o")
        .script("own.cgi", OWN)
        .config(
            "security_headers = \"basic\"\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[route]]\npath = \"/strict/\"\nsecurity_headers = \"strict\"\n\
             [[route]]\npath = \"/own/\"\nheaders = { Referrer-Policy = \"origin\", x-frame-options = false }\n\
             [[route]]\npath = \"/off/\"\nsecurity_headers = false\n",
        )
        .start();
    let mut rows = Rows::new();
    let names =
        ["X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy"];
    for (path, expected) in [
        ("/a.txt", "nosniff strict-origin-when-cross-origin SAMEORIGIN -"),
        ("/missing", "nosniff strict-origin-when-cross-origin SAMEORIGIN -"),
        ("/strict/s.txt", "nosniff no-referrer DENY same-origin"),
        ("/strict/missing", "nosniff no-referrer DENY same-origin"),
        ("/own/o.txt", "nosniff origin - -"),
        ("/off/o.txt", "- - - -"),
        ("/own.cgi", "nosniff strict-origin-when-cross-origin ALLOWALL -"),
    ] {
        let response = request(&server, "GET", path, "");
        let values = names.map(|name| match response.values(name)[..] {
            [] => "-".to_owned(),
            ref all => all.join("+"),
        });
        rows.check(path, values.join(" ").as_str(), expected);
    }
    // The built-in page has a policy of its own.
    let page = request(&server, "GET", "/strict/missing", "");
    rows.check("policies of the built-in page", page.values("Content-Security-Policy").len(), 1);
    let policy = request(&server, "GET", "/strict/s.txt", "");
    let policy = policy.field("Content-Security-Policy").unwrap_or_default().to_owned();
    rows.holds("the strict policy", "forbids frames", policy.contains("frame-ancestors 'none'"));
}

const TEXTS: &str = "robots = \"deny\"\nsecurity_headers = \"basic\"\ncache_control = { \"/robots.txt\" = \"max-age=60\" }\n\
    [security_txt]\ncontact = \"mailto:a@a.example\"\nexpires = \"EXPIRES\"\n";

#[test]
fn publishes_texts_of_the_configuration() {
    let server = Site::new()
        .every_protocol()
        .file("robots.txt", "a file")
        .file("sub/robots.txt", "another file")
        .config(&TEXTS.replace("EXPIRES", "2027-01-01T00:00:00Z"))
        .start();
    let mut rows = Rows::new();
    let (robots, security) = ("/robots.txt", "/.well-known/security.txt");
    for (method, path, expected) in [
        ("GET", robots, "200 User-agent: *\nDisallow: /\n"),
        ("GET", "//robots.txt", "200 User-agent: *\nDisallow: /\n"),
        ("GET", "/sub/robots.txt", "200 another file"),
        ("GET", security, "200 Contact: mailto:a@a.example\nExpires: 2027-01-01T00:00:00Z\n"),
        ("HEAD", security, "200 "),
        ("OPTIONS", security, "204 "),
    ] {
        let response = request(&server, method, path, "");
        let found = format!("{} {}", response.status, response.text());
        rows.check(format!("{method} {path}"), found.as_str(), expected);
    }
    rows.check("POST", request(&server, "POST", robots, "Content-Length: 0\r\n").status, 405);
    let response = request(&server, "GET", robots, "");
    for (name, expected) in [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Cache-Control", "max-age=60"),
        ("X-Content-Type-Options", "nosniff"),
    ] {
        rows.check(name, response.field(name), Some(expected));
    }
}

#[test]
fn check_warns_of_a_security_txt_that_readers_do_not_trust() {
    for (expires, expected) in [
        ("2020-01-01T00:00:00Z", Some("warning: security.txt has expired at 2020-01-01T00:00:00Z")),
        ("2999-01-01T00:00:00Z", Some("warning: security.txt expires at 2999-01-01T00:00:00Z")),
    ] {
        let site = Site::new().file("x", "").config(&TEXTS.replace("EXPIRES", expires));
        let config = site.write_config();
        let output = e2e::run(["check", "-c", config.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert!(expected.is_some_and(|expected| errors.contains(expected)), "{errors}");
        let line = errors.lines().find(|line| line.contains("security.txt")).unwrap_or_default();
        assert!(
            line.starts_with(&format!("{}:", config.display())) && !line.contains("site.toml: "),
            "{line}"
        );
    }
}
