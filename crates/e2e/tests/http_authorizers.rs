//! Authorizers that speak HTTP: what they are asked, what their answers mean, and what scripts and applications learn.

use std::fs;
use std::io::Write;

use e2e::upstream::upstream;
use e2e::{Client, Rows, Server, Site, TIMEOUT, path_of};
use serde_json::Value;

const GUARD: &str = include_str!("programs/http_guard.py");
const APP: &str = include_str!("programs/http_app.py");
const FIELDS: &str = "authorizer_fields = [\"Remote-User\", \"Remote-Groups\", \"X-Forwarded-Email\"]";

/// The settings of authorizers stand at the top level.
fn site(settings: &str, more: &str) -> Site {
    site_with_guard("", settings, more)
}

/// As `site`, with these keys of the application that is the authorizer.
fn site_with_guard(of_guard: &str, settings: &str, more: &str) -> Site {
    let site = Site::new()
        .file("open.txt", "for all")
        .file("secret/s.txt", "secret")
        .file("secret/index.html", "the index")
        .file("secret/open/o.txt", "open again")
        .script(
            "secret/env.sh",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s|%s|%s' \"$REMOTE_USER\" \"$HTTP_REMOTE_USER\" \
             \"$HTTP_REMOTE_GROUPS\" \"$HTTP_X_FORWARDED_EMAIL\" \"$(cat)\"\n",
        )
        .script("secret/inside.sh", "#!/bin/sh\nprintf 'Location: /secret/s.txt\\n\\n'\n")
        .script("inside.cgi", "#!/bin/sh\nprintf 'Location: /secret/s.txt\\n\\n'\n")
        .file_beside_root("guard.py", GUARD)
        .file_beside_root("app.py", APP);
    let home = site.home().display().to_string();
    let program = |name: &str| {
        format!("command = [\"{}\", \"-B\", \"{home}/{name}.py\"]\nfolder = \"{home}\"", path_of("python3"))
    };
    let config = format!(
        "workers = 1\n{settings}\nrewrites = {{ \"/by-rewrite\" = \"/secret/s.txt\" }}\n\
         [[route]]\npath = \"/secret/\"\nauthorizer = \"guard\"\nerror_pages = {{ 403 = \"/open.txt\" }}\n\
         [[route]]\npath = \"/secret/*.sh\"\ncgi = true\nauthorizer = \"guard\"\n\
         [[route]]\npath = \"/secret/open/\"\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[route]]\npath = \"/falls/\"\nfallback = \"/secret/s.txt\"\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\nauthorizer = \"guard\"\n\
         [[route]]\npath = \"/app/open/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\nconcurrent = 8\n{}\n",
        program("app")
    );
    if more.contains("name = \"guard\"") {
        return site.config(&format!("{config}{more}"));
    }
    let guard = format!("protocol = \"http\"\nconcurrent = 8\n{of_guard}\n{}", program("guard"));
    site.config(&format!("{config}[[application]]\nname = \"guard\"\n{guard}\n{more}"))
}

/// `200 body` of the response to this method, path, fields and body.
fn request(server: &Server, method: &str, path: &str, fields: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let response =
        server.request(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}{length}\r\n{body}"));
    format!("{} {}", response.status, response.text())
}

/// What the authorizer has been asked, in order.
fn asked(server: &Server) -> Vec<Value> {
    let lines = fs::read_to_string(server.home().join("asked")).unwrap_or_default();
    lines.lines().map(|line| serde_json::from_str(line).expect("it writes JSON")).collect()
}

/// The values of a field, joined.
fn field(asked: &Value, name: &str) -> String {
    let fields = asked["fields"].as_array().into_iter().flatten();
    let named = fields.filter(|pair| pair[0].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name)));
    named.filter_map(|pair| pair[1].as_str()).collect::<Vec<_>>().join("+")
}

#[test]
fn asks_for_every_kind_of_route() {
    let server = site(FIELDS, "").every_protocol().start();
    let mut rows = Rows::new();
    // Twice: a cached file needs authorization like any other.
    for _ in 0..2 {
        for (path, passed) in [
            ("/open.txt", "200 for all"),
            ("/secret/open/o.txt", "200 open again"),
            ("/secret/s.txt", "200 secret"),
            ("/secret/", "200 the index"),
            ("/by-rewrite", "200 secret"),
            ("/falls/anything", "200 secret"),
            ("/secret/missing", "404"),
            ("/secret/env.sh", "200 ann|ann|admins, staff||"),
            ("/secret/inside.sh", "200 secret"),
            ("/inside.cgi", "200 secret"),
            ("/app/echo", "200 "),
        ] {
            let is_open = path.contains("open");
            let found = request(&server, "GET", path, "", "");
            let expected = if is_open { passed } else { "401 who?" };
            rows.check(format!("{path} without a session"), found.as_str(), expected);
            let found = request(&server, "GET", path, "Cookie: session=ann\r\n", "");
            let rule = format!("expected {passed}, found {found}");
            rows.holds(format!("{path} of ann"), &rule, found.starts_with(passed));
        }
    }
}

/// An application may find by it what it finds by the plain name.
#[test]
fn asks_for_the_other_names_of_a_rewritten_path() {
    let routes = "[[route]]\npath = \"/one/\"\nrewrite = \"/other/$rest\"\n\
                  [[route]]\npath = \"/other/s.txt\"\nauthorizer = \"guard\"\n";
    let server = site("", routes).file("other/s.txt", "s").file("other/s.txt.gz", "s, compressed").start();
    let mut rows = Rows::new();
    for path in ["/other/s.txt", "/other/s.txt.gz", "/one/s.txt", "/one/s.txt.gz", "/one/s.txt;a"] {
        let found = request(&server, "GET", path, "", "");
        rows.holds(path, &format!("401, not {found}"), found.starts_with("401 "));
    }
}

/// A script may redirect to a path that its client names.
#[test]
fn a_permission_for_a_script_is_none_for_what_it_redirects_to() {
    let server = site("", "").every_protocol().start();
    let found = request(&server, "GET", "/secret/inside.sh", "Cookie: session=ann\r\n", "");
    assert_eq!(found, "200 secret");
    let uris: Vec<String> = asked(&server).iter().map(|asked| field(asked, "X-Forwarded-Uri")).collect();
    let each = ["/secret/inside.sh", "/secret/s.txt"];
    assert_eq!(uris[..2], each, "the authorizer decides about each path");
}

#[test]
fn asks_about_the_destination_of_a_copy() {
    let routes = "[[route]]\npath = \"/from/\"\npublish = \"webdav\"\nauthorizer = \"guard\"\n\
                  [[route]]\npath = \"/to/\"\npublish = \"webdav\"\nauthorizer = \"guard\"\n";
    let server = site("authorizer_cache = \"1m\"", routes).file("from/a", "a").folder("to").start();
    let copy = |session: &str| {
        let fields = format!("Cookie: session={session}\r\nDestination: /to/b%20c\r\n");
        request(&server, "COPY", "/from/a", &fields, "")
    };
    assert_eq!(copy("other"), "401 who?");
    assert_eq!(copy("ann"), "201 ");
    let uris: Vec<String> = asked(&server).iter().map(|asked| field(asked, "X-Forwarded-Uri")).collect();
    assert_eq!(uris, ["/from/a", "/from/a", "/to/b%20c"]);
}

#[test]
fn only_a_success_lets_a_request_pass() {
    let server = site("", "").every_protocol().start();
    let mut rows = Rows::new();
    for (session, expected) in [
        ("ann", "200 secret"),
        ("bob", "200 secret"),
        ("eve", "403 not you"),
        ("old", "302 "),
        ("missing", "502"),
        ("broken", "502"),
        ("cut", "502"),
        ("garbage", "502"),
        ("other", "401 who?"),
    ] {
        let found = request(&server, "GET", "/secret/s.txt", &format!("Cookie: session={session}\r\n"), "");
        rows.holds(session, &format!("expected {expected}, found {found}"), found.starts_with(expected));
        let head = request(&server, "HEAD", "/secret/s.txt", &format!("Cookie: session={session}\r\n"), "");
        rows.check(format!("HEAD of {session}"), head.as_str(), &format!("{} ", &expected[..3]));
    }
    server.wait_for_line("neither lets the request pass nor denies it: its status is 404", TIMEOUT);
    let denied = server.request("GET /secret/s.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    rows.check("the challenge", denied.field("WWW-Authenticate"), Some("Basic realm=\"x\""));
    let old = "Cookie: session=old\r\n";
    let redirected = server.request(format!("GET /secret/a%20b?c=%22 HTTP/1.1\r\nHost: a\r\n{old}\r\n"));
    let location = "https://login.example/?rd=/secret/a%20b?c=%22";
    rows.check("the redirect", redirected.field("Location"), Some(location));
    rows.check("its cookies", redirected.values("Set-Cookie"), vec!["session=; Max-Age=0", "a=b"]);
}

#[test]
fn an_authorizer_that_takes_too_long_lets_no_request_pass() {
    let server = site_with_guard("first_byte = \"500ms\"", "", "").every_protocol().start();
    for method in ["GET", "HEAD"] {
        let found = request(&server, method, "/secret/s.txt", "Cookie: session=slow\r\n", "");
        assert!(found.starts_with("504 "), "{method}: {found}");
    }
}

#[test]
fn tells_the_authorizer_about_the_request_and_nothing_that_the_client_claims() {
    let server = site("authorizer_path = \"/verify?level=2\"", "").start();
    let fields = "Cookie: session=ann\r\nAuthorization: Bearer x\r\nX-Forwarded-Uri: /open.txt\r\n\
        X-Original-URL: http://a/open.txt\r\nX-Original-Method: GET\r\nX_Original_URI: /open.txt\r\nRange: bytes=0-1\r\n\
        X-Forwarded-For: 10.0.0.1\r\nIf-None-Match: \"x\"\r\nContent-Type: a/b\r\nAccept: text/html\r\n";
    let found = request(&server, "POST", "/secret/.//env.sh/x?a=1&b", fields, "hello");
    assert_eq!(found, "200 ann||||hello".replace("ann", ""));
    let asked = asked(&server);
    let [asked] = &asked[..] else { panic!("it is asked once: {asked:?}") };
    let mut rows = Rows::new();
    rows.check("request line", asked["line"].as_str(), Some("GET /verify?level=2 HTTP/1.1"));
    for (name, expected) in [
        ("Host", "a"),
        ("Cookie", "session=ann"),
        ("Authorization", "Bearer x"),
        ("Accept", "text/html"),
        ("X-Forwarded-Method", "POST"),
        ("X-Original-Method", "POST"),
        ("X-Forwarded-Uri", "/secret/env.sh/x?a=1&b"),
        ("X-Original-URI", "/secret/env.sh/x?a=1&b"),
        ("X-Original-URL", "http://a/secret/env.sh/x?a=1&b"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Host", "a"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Real-IP", "127.0.0.1"),
        ("X_Original_URI", ""),
        ("Range", ""),
        ("If-None-Match", ""),
        ("Content-Type", ""),
        ("Content-Length", ""),
    ] {
        rows.check(name, field(asked, name).as_str(), expected);
    }
}

#[test]
fn asks_with_the_method_of_the_request_by_key() {
    let server = site("authorizer_method = \"original\"", "").start();
    for method in ["GET", "HEAD", "PUT", "OPTIONS"] {
        request(&server, method, "/app/echo?x", "Cookie: session=ann\r\n", "");
    }
    let lines: Vec<String> = asked(&server).iter().map(|asked| asked["line"].to_string()).collect();
    // Programs answer OPTIONS by themselves.
    let expected = ["GET", "HEAD", "PUT", "GET"].map(|method| format!("\"{method} /app/echo?x HTTP/1.1\""));
    assert_eq!(lines, expected);
}

#[test]
fn what_an_authorizer_says_of_a_script_is_not_for_the_path_that_it_redirects_to() {
    let guard = upstream(|mut stream, head| {
        let is_owner = head.contains("X-Forwarded-Uri: /mine/");
        let said = if is_owner { "Role: owner\r\nLevel: 9\r\n" } else { "Role: guest\r\n" };
        write!(stream, "HTTP/1.1 200 OK\r\n{said}Content-Length: 0\r\nConnection: close\r\n\r\n")
    });
    let server = Site::new()
        .script("mine/s.cgi", "#!/bin/sh\nprintf 'Location: /theirs/s.cgi\\n\\n'\n")
        .script(
            "theirs/s.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s' \"$HTTP_ROLE\" \"$HTTP_LEVEL\"\n",
        )
        .config(&format!(
            "[[route]]\npath = \"*.cgi\"\ncgi = true\nauthorizer = \"guard\"\n\
             authorizer_fields = [\"Role\", \"Level\"]\n\
             [[application]]\nname = \"guard\"\nprotocol = \"http\"\naddress = \"{}\"\n",
            guard.trim_start_matches("http://")
        ))
        .start();
    assert_eq!(server.get("/mine/s.cgi").text(), "guest|");
}

#[test]
fn passes_chosen_fields_and_none_that_the_client_has_forged() {
    let server = site(FIELDS, "[log]\naccess = \"stdout\"").start();
    let mut rows = Rows::new();
    let forged = "Remote-User: root\r\nREMOTE-USER: root\r\nRemote_User: root\r\nRemote-Groups: wheel\r\n\
        remote_groups: wheel\r\nX-Forwarded-Email: root@a\r\nX-Other: kept\r\n";
    for (session, path, expected) in [
        ("ann", "/secret/env.sh", "200 ann|ann|admins, staff||x"),
        // The authorizer does not set the groups.
        ("bob", "/secret/env.sh", "200 bob|bob|||x"),
    ] {
        let fields = format!("{forged}Cookie: session={session}\r\n");
        rows.check(session, request(&server, "POST", path, &fields, "x").as_str(), expected);
        let line = server.wait_for_output(&format!(" - {session} ["), TIMEOUT);
        rows.holds(session, "the log names the user", line.contains("POST /secret/env.sh"));
    }
    for (path, session, user, groups) in [
        ("/app/asked", "ann", "ann", "admins, staff"),
        ("/app/asked", "bob", "bob", ""),
        // A route without an authorizer, of the same application.
        ("/app/open/asked", "ann", "", ""),
    ] {
        let fields = format!("{forged}Cookie: session={session}\r\nConnection: Remote-User\r\n");
        let response = request(&server, "GET", path, &fields, "");
        let seen: Value = serde_json::from_str(&response[4..]).expect("the application writes JSON");
        let found =
            ["Remote-User", "Remote_User", "Remote-Groups", "Remote_Groups", "X-Forwarded-Email", "X-Other"]
                .map(|name| field(&seen, name));
        rows.check(
            format!("{path} of {session}"),
            found,
            [user, "", groups, "", "", "kept"].map(str::to_owned),
        );
    }
    // Without an answer that names a user.
    let found = request(&server, "GET", "/secret/env.sh", forged, "");
    rows.check("without a session", found.as_str(), "401 who?");
}

#[test]
fn reads_no_body_before_the_request_may_pass() {
    let server = site("", "").start();
    let head = |session: &str| {
        let cookie = format!("Cookie: session={session}\r\n");
        format!(
            "PUT /app/echo HTTP/1.1\r\nHost: a\r\n{cookie}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    let mut client = server.connect();
    client.send(head("eve"));
    assert_eq!(client.read_response().status, 403);
    let mut client = server.connect();
    client.send(head("ann"));
    assert_eq!(client.read_response_to_head().status, 100);
    client.send("hello");
    assert_eq!(client.read_response().text(), "hello");
    let chunked = "Cookie: session=ann\r\nTransfer-Encoding: chunked\r\n";
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    let response = server.request(format!("POST /app/echo HTTP/1.1\r\nHost: a\r\n{chunked}\r\n{chunks}"));
    assert_eq!(response.text(), "hello");
}

#[test]
fn keeps_the_connection_to_the_authorizer() {
    // Longer than this test takes on a busy machine.
    let server = site("", "keep = \"1m\"").start();
    let mut client = server.connect();
    // A permission with content may end the connection: the content is not waited for.
    for session in ["bob", "eve", "none", "bob"].repeat(5) {
        client.get_with("/secret/s.txt", &format!("Cookie: session={session}\r\n"));
    }
    let connections: Vec<u64> =
        asked(&server).iter().filter_map(|asked| asked["connection"].as_u64()).collect();
    assert_eq!(connections, [0; 20]);
}

#[test]
fn rejects_every_request_when_the_authorizer_is_down() {
    let guard = "[[application]]\nname = \"guard\"\nprotocol = \"http\"\naddress = \"unix:nowhere\"\n";
    let server = site("authorizer_cache = \"1h\"", guard).every_protocol().start();
    for path in ["/secret/s.txt", "/by-rewrite", "/secret/env.sh", "/app/echo", "/inside.cgi"] {
        let found = request(&server, "GET", path, "Cookie: session=ann\r\n", "");
        assert!(found.starts_with("502 "), "{path}: {found}");
    }
    assert_eq!(request(&server, "GET", "/open.txt", "", ""), "200 for all");
}

/// The number of questions that these requests cause.
fn questions(server: &Server, client: &mut Client, requests: &[(&str, &str)]) -> usize {
    let before = asked(server).len();
    for (path, fields) in requests {
        client.get_with(path, fields);
    }
    asked(server).len() - before
}

#[test]
fn remembers_permissions_by_key() {
    let server = site(&format!("authorizer_cache = \"1h\"\n{FIELDS}"), "").start();
    let mut client = server.connect();
    let (ann, bob, eve) = ("Cookie: session=ann\r\n", "Cookie: session=bob\r\n", "Cookie: session=eve\r\n");
    let mut rows = Rows::new();
    let path = "/secret/s.txt";
    for (what, requests, expected) in [
        ("the same", vec![(path, ann), (path, ann), (path, ann)], 1),
        ("another user", vec![(path, bob), (path, bob)], 1),
        ("another path", vec![("/secret/env.sh", ann), ("/secret/env.sh", ann)], 1),
        ("another query", vec![("/secret/s.txt?x", ann)], 1),
        ("no user", vec![(path, ""), (path, "")], 2),
        ("a denial", vec![(path, eve), (path, eve)], 2),
        ("all of them again", vec![(path, ann), (path, bob), ("/secret/env.sh", ann)], 0),
    ] {
        rows.check(what, questions(&server, &mut client, &requests), expected);
    }
    let found = request(&server, "GET", "/secret/env.sh", ann, "");
    rows.check("remembered fields", found.as_str(), "200 ann|ann|admins, staff||");
    server.reload();
    let mut client = server.connect();
    rows.check("after a reload", questions(&server, &mut client, &[(path, ann), (path, ann)]), 1);
}

#[test]
fn remembers_by_the_key_that_the_configuration_names() {
    let settings = "authorizer_cache = \"1h\"\nauthorizer_cache_key = [\"Cookie\", \"host\"]";
    let server = site(settings, "").start();
    let mut client = server.connect();
    let ann = "Cookie: session=ann\r\n";
    let paths = ["/secret/s.txt", "/secret/", "/secret/env.sh", "/app/echo"].map(|path| (path, ann));
    assert_eq!(questions(&server, &mut client, &paths), 1);
    assert_eq!(client.get("/secret/s.txt").status, 401);
}

#[test]
fn explain_names_the_question_without_asking_it() {
    let settings = format!("authorizer_cache = \"10s\"\nauthorizer_path = \"/verify\"\n{FIELDS}");
    let server = site(&settings, "").start();
    let config = server.home().join("site.toml");
    for path in ["/secret/s.txt", "/app/echo"] {
        let explained = e2e::run(["explain", "-c", config.to_str().unwrap(), "GET", path]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        for part in [
            "first     the authorizer \"guard\", by GET /verify, which explain does not call\n",
            "          it sets Remote-User, Remote-Groups, X-Forwarded-Email\n",
            "          its permission counts for 10 s\n",
        ] {
            assert!(explained.contains(part), "{explained}");
        }
    }
    assert!(asked(&server).is_empty());
}

#[test]
fn a_401_becomes_a_redirect_to_the_login() {
    let login = "authorizer_login = \"https://login.example/in?rd=$scheme://$hostport$path$query\"\n";
    let inner = "[[route]]\npath = \"/secret/api/\"\nauthorizer = \"guard\"\nauthorizer_login = false\n";
    let server = site(login, inner).start();
    let get = |method: &str, path: &str, session: &str| {
        let fields = format!("Host: a.example:81\r\nCookie: session={session}\r\n");
        server.request(format!("{method} {path} HTTP/1.1\r\n{fields}Content-Length: 0\r\n\r\n"))
    };
    let mut rows = Rows::new();
    for (method, path, session, status, location) in [
        ("GET", "/secret/s.txt", "", 302, Some("http://a.example:81/secret/s.txt")),
        ("HEAD", "/secret/s.txt", "", 302, Some("http://a.example:81/secret/s.txt")),
        ("POST", "/app/echo?a=1&b=%22", "", 302, Some("http://a.example:81/app/echo%3Fa%3D1%26b%3D%2522")),
        // Decoded once, it is the URL that was asked for.
        ("GET", "/secret/a%3Fb%25c", "", 302, Some("http://a.example:81/secret/a%253Fb%2525c")),
        // The path that was asked for, and not the one that it leads to.
        ("GET", "/by-rewrite", "", 302, Some("http://a.example:81/by-rewrite")),
        ("GET", "/secret/api/x", "", 401, None),
        ("GET", "/secret/s.txt", "ann", 200, None),
        ("GET", "/secret/s.txt", "eve", 403, None),
        ("GET", "/secret/s.txt", "broken", 502, None),
        ("GET", "/open.txt", "", 200, None),
    ] {
        let response = get(method, path, session);
        let what = format!("{method} {path} of {session:?}");
        rows.check(&what, response.status, status);
        let expected = location.map(|from| format!("https://login.example/in?rd={from}"));
        rows.check(&what, response.field("Location"), expected.as_deref());
    }
    let first = get("GET", "/secret/s.txt", "");
    rows.check("no challenge, so that browsers follow it", first.field("WWW-Authenticate"), None);
    let left = get("GET", "/secret/s.txt", "left");
    rows.check("the cookies of the answer", left.values("Set-Cookie"), vec!["session=; Max-Age=0", "a=b"]);
    rows.check("the status", left.status, 302);
}

#[test]
fn adds_chosen_fields_of_a_permission_to_the_response() {
    let settings = "authorizer_response_fields = \"Set-Cookie\"\nauthorizer_cache = \"1h\"";
    let server = site(settings, "").every_protocol().start();
    let mut rows = Rows::new();
    // Twice: an answer with such a field is not remembered.
    for _ in 0..2 {
        for path in ["/secret/s.txt", "/secret/env.sh", "/secret/inside.sh", "/app/echo", "/secret/missing"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nCookie: session=new\r\n\r\n");
            let response = server.request(request);
            rows.check(path, response.values("Set-Cookie"), vec!["session=ann", "seen=1"]);
            rows.check(path, response.field("X-Other"), None);
        }
        let response = server.request("GET /secret/s.txt HTTP/1.1\r\nHost: a\r\nCookie: session=ann\r\n\r\n");
        rows.check("without such a field", response.values("Set-Cookie"), vec![]);
    }
}
