//! Authorizers: applications that allow or deny a request, for every kind of route and every path to it.

use e2e::{Rows, Server, Site, TIMEOUT, path_of};

const GUARD: &str = include_str!("programs/guard.py");
const WRAPPER: &str = include_str!("../../../contrib/python/taipan.py");
const MAY: &str = "Authorization: Basic YTpi\r\n";

fn site(more: &str) -> Site {
    let site = Site::new().every_protocol()
        .file("open.txt", "for all")
        .file("secret/s.txt", "secret")
        .file("secret/open/o.txt", "open again")
        .script("secret/env.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s %s' \"$REMOTE_USER\" \"$LEVEL\" \"$(cat)\"\n")
        .script("secret/glob.pl", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nby a glob for %s' \"$REMOTE_USER\"\n")
        .script("run.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran with %s' \"$PATH_INFO\"\n")
        .file_beside_root("guard.py", GUARD)
        .file_beside_root("taipan.py", WRAPPER);
    let program =
        format!("command = [\"{}\", \"-B\", \"{}/guard.py\"", path_of("python3"), site.home().display());
    let config = format!(
        "workers = 1\nrewrites = {{ \"/by-rewrite\" = \"/secret/s.txt\" }}\n\
         [[route]]\npath = \"/secret/\"\nauthorizer = \"guard\"\n\
         [[route]]\npath = \"/secret/env.sh\"\ncgi = true\nauthorizer = \"guard\"\n\
         [[route]]\npath = \"/secret/open/\"\n\
         [[route]]\npath = \"*.pl\"\ncgi = true\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\nauthorizer = \"guard\"\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\nauthorizer = \"guard\"\n\
         [[application]]\nname = \"app\"\n{program}, \"app\"]\n{more}"
    );
    site.config(&config.replace("PROGRAM", &program))
}

fn start() -> Server {
    site("[[application]]\nname = \"guard\"\nPROGRAM]").start()
}

/// `200 body` of the response to this method, path, fields and body.
fn request(server: &Server, method: &str, path: &str, fields: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}{length}\r\n{body}");
    let response = server.request(head);
    format!("{} {}", response.status, response.text())
}

#[test]
fn asks_the_authorizer_for_every_kind_of_route() {
    let server = start();
    let mut rows = Rows::new();
    // Twice: a cached file needs authorization like any other.
    for _ in 0..2 {
        for (path, passed) in [
            ("/open.txt", "200 for all"),
            ("/secret/s.txt", "200 secret"),
            ("/by-rewrite", "200 secret"),
            ("/secret/missing", "404"),
            ("/secret/glob.pl", "200 by a glob for ann"),
            ("/secret/open/o.txt", "200 open again"),
            ("/secret/env.sh", "200 ann  "),
            ("/run.cgi", "200 ran with "),
            ("/run.cgi/behind/it", "200 ran with /behind/it"),
            ("/app/x", "200 ann 9 0"),
        ] {
            let expected = match path {
                "/open.txt" | "/secret/open/o.txt" => passed,
                _ => "401 who? none",
            };
            let found = request(&server, "GET", path, "", "");
            rows.check(format!("{path} without authorization"), found.as_str(), expected);
            let found = request(&server, "GET", path, MAY, "");
            rows.holds(
                format!("{path} of ann"),
                &format!("expected {passed}, found {found}"),
                found.starts_with(passed),
            );
        }
    }
}

#[test]
fn passes_the_body_to_the_route_and_not_to_the_authorizer() {
    let server = start();
    let mut rows = Rows::new();
    for (path, expected) in [("/app/x", "200 ann 9 5"), ("/secret/env.sh", "200 ann  hello")] {
        rows.check(path, request(&server, "POST", path, MAY, "hello").as_str(), expected);
        rows.check(path, request(&server, "POST", path, "", "hello").as_str(), "401 who? none");
        let chunked = format!("{MAY}Transfer-Encoding: chunked\r\n");
        let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{chunked}\r\n5\r\nhello\r\n0\r\n\r\n");
        let response = server.request(request);
        rows.check(
            format!("{path} in chunks"),
            format!("{} {}", response.status, response.text()).as_str(),
            expected,
        );
    }
    assert_eq!(request(&server, "HEAD", "/secret/s.txt", MAY, ""), "200 ");
    assert_eq!(request(&server, "HEAD", "/secret/s.txt", "", ""), "401 ");
}

#[test]
fn authorizes_each_request_separately() {
    let server = start();
    let mut client = server.connect();
    // The requests are sent together on one connection; a first permission does not count for the next one.
    client.send(format!(
        "GET /secret/s.txt HTTP/1.1\r\nHost: a\r\n{MAY}\r\nGET /secret/s.txt HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /open.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /app/ HTTP/1.1\r\nHost: a\r\nVariable-REMOTE_USER: eve\r\n\r\n"
    ));
    let statuses: Vec<u16> = (0..4).map(|_| client.read_response().status).collect();
    assert_eq!(statuses, [200, 401, 200, 401]);
}

#[test]
fn rejects_every_request_when_the_authorizer_is_unavailable() {
    let server = site("[[application]]\nname = \"guard\"\naddress = \"unix:nowhere\"").start();
    for path in ["/secret/s.txt", "/by-rewrite", "/secret/env.sh", "/run.cgi/x", "/app/"] {
        let found = request(&server, "GET", path, MAY, "");
        assert!(found.starts_with("502 "), "{path}: {found}");
    }
    assert_eq!(request(&server, "GET", "/open.txt", "", ""), "200 for all");
}

#[test]
fn authorizes_a_site_that_has_only_files() {
    let site = Site::new()
        .every_protocol()
        .file("s.txt", "secret")
        .file_beside_root("guard.py", GUARD)
        .file_beside_root("taipan.py", WRAPPER);
    let (python, home) = (path_of("python3"), site.home().display().to_string());
    let guard =
        format!("[[application]]\nname = \"guard\"\ncommand = [\"{python}\", \"-B\", \"{home}/guard.py\"]");
    let server = site.config(&format!("authorizer = \"guard\"\n{guard}")).start();
    let mut rows = Rows::new();
    rows.check("without a name", request(&server, "GET", "/s.txt", "", ""), "401 who? none".to_owned());
    rows.check("with a name", request(&server, "GET", "/s.txt", MAY, ""), "200 secret".to_owned());
}

#[test]
fn names_the_user_in_the_access_log() {
    let guard =
        "[[application]]\nname = \"guard\"\nPROGRAM]\n[log]\naccess = \"stdout\"\nformat = \"common\"";
    let server = site(guard).start();
    for (path, fields, user) in [
        ("/open.txt", MAY, "-"),
        ("/secret/s.txt", "", "-"),
        ("/secret/s.txt", MAY, "ann"),
        ("/app/x", MAY, "ann"),
    ] {
        let status = &request(&server, "GET", path, fields, "")[..3];
        let line = server.wait_for_output(&format!("\"GET {path} HTTP/1.1\" {status} "), TIMEOUT);
        assert!(line.contains(&format!(" - {user} [")), "{line}");
    }
}
