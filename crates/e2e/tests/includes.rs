//! Pages with server-side includes, and with Edge Side Includes: what they include, what they refuse, and how their
//! responses are sent.

use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc;

use e2e::upstream::upstream;
use e2e::{ReadError, Rows, Server, Site, TIMEOUT, output_of, run, tool, wait_until};

const ERROR: &str = "[an error occurred while processing this directive]";

/// A site with these files, whose pages are those with `.shtml`.
fn pages(files: &[(&str, &str)]) -> Site {
    let site = files.iter().fold(Site::new(), |site, (name, content)| site.file(name, content));
    site.config("includes = true\nindex = [\"index.shtml\", \"index.html\"]")
}

#[test]
fn pages_are_assembled() {
    let server = pages(&[
        ("plain.shtml", "no directives"),
        ("index.shtml", "<!--#include file=\"part.html\" --> <!--#echo var=\"DOCUMENT_NAME\" -->"),
        ("part.html", "part <!--#echo var=\"DOCUMENT_URI\" -->"),
        ("a.shtml", "[<!--#include virtual=\"d/b.shtml?x=<y>\" -->|<!--#echo var=\"set\" -->]"),
        ("d/b.shtml", "<!--#set var=\"set\" value=\"in b\" -->b<!--#include file=\"c.txt\" -->"),
        ("d/c.txt", "c"),
        ("uri.shtml", "<!--#echo var=\"DOCUMENT_URI\" --> <!--#echo var=\"QUERY_STRING\" --> <!--#echo var=\"REQUEST_METHOD\" --> <!--#echo var=\"HTTP_USER_AGENT\" -->"),
        ("if.shtml", "<!--#if expr=\"$QUERY_STRING = /^a=([0-9]+)$/\" -->number $1 <!--#echo var=\"1\" --><!--#elif expr=\"$QUERY_STRING\" -->other<!--#else -->none<!--#endif -->"),
        ("size.shtml", "<!--#config sizefmt=\"bytes\" timefmt=\"%Y-%m-%d %H:%M:%S %Z\" --><!--#fsize file=\"part.html\" --> <!--#flastmod virtual=\"/d/c.txt\" --> <!--#echo var=\"LAST_MODIFIED\" -->"),
        ("software.shtml", "<!--#echo var=\"SERVER_SOFTWARE\" -->"),
        ("exec.shtml", "<!--#exec cmd=\"id\" -->"),
        ("other.html", "<!--#echo var=\"DOCUMENT_URI\" -->"),
    ])
    .modified("d/c.txt", 86_400)
    .modified("size.shtml", 2 * 86_400)
    .every_protocol()
    .start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/plain.shtml", "no directives"),
        ("/other.html", "<!--#echo var=\"DOCUMENT_URI\" -->"),
        ("/", "part <!--#echo var=\"DOCUMENT_URI\" --> index.shtml"),
        ("/a.shtml", "[bc|in b]"),
        ("/uri.shtml?a=%3Cb%3E&c", "/uri.shtml a=%3Cb%3E&amp;c GET (none)"),
        ("/if.shtml?a=12", "number $1 12"),
        ("/if.shtml?b", "other"),
        ("/if.shtml", "none"),
        ("/size.shtml", "37 1970-01-02 00:00:00 UTC 1970-01-03 00:00:00 UTC"),
        // As scripts have it.
        ("/software.shtml", concat!("taipan/", env!("CARGO_PKG_VERSION"))),
        ("/exec.shtml", ERROR),
    ] {
        let response = server.get(target);
        rows.check(target, (response.status, response.text().as_str()), (200, expected));
        rows.check(target, response.field("content-type"), Some("text/html; charset=utf-8"));
    }
    let line = server.wait_for_line("exec", TIMEOUT);
    rows.holds(&line, "the page /exec.shtml", line.contains("the page /exec.shtml: \"exec\" is refused"));
}

#[test]
fn parts_are_those_that_the_client_may_have() {
    let page = |directive: &str| format!("a{directive}b");
    let site = pages(&[
        ("secret/part.html", "secret"),
        ("d/part.html", "part"),
        ("d/.hidden", "hidden"),
        ("denied/part.html", "denied"),
        ("loop.shtml", "x<!--#include virtual=\"/d/../loop.shtml\" -->"),
        ("one.shtml", "1<!--#include virtual=\"/two.shtml\" -->"),
        ("two.shtml", "2<!--#include virtual=\"/one.shtml\" -->"),
        ("deep.shtml", "x<!--#include virtual=\"?x$QUERY_STRING\" -->"),
        ("deep/1.shtml", "1<!--#include file=\"2.shtml\" -->"),
        ("deep/2.shtml", "2<!--#include file=\"3.shtml\" -->"),
        ("deep/3.shtml", "3<!--#include file=\"4.shtml\" -->"),
        ("deep/4.shtml", "4<!--#include file=\"5.txt\" -->"),
        ("deep/5.txt", "5"),
    ])
    .file_beside_root("outside.txt", "outside")
    .file_beside_root("users", "ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n");
    let cases: &[(&str, &str, &str)] = &[
        ("parent", "<!--#include file=\"../part.html\" -->", ERROR),
        ("absolute", "<!--#include file=\"/etc/passwd\" -->", ERROR),
        ("encoded", "<!--#include virtual=\"/d/%2e%2e/%2e%2e/outside.txt\" -->", ERROR),
        ("up", "<!--#include virtual=\"../../outside.txt\" -->", ERROR),
        ("below", "<!--#include virtual=\"../d/./part.html\" -->", "part"),
        ("hidden", "<!--#include file=\".hidden\" -->", ERROR),
        ("missing", "<!--#include file=\"missing\" -->", ERROR),
        ("folder", "<!--#include virtual=\"/d/\" -->", ERROR),
        ("redirect", "<!--#include virtual=\"/d\" -->", ERROR),
        ("host", "<!--#include virtual=\"http://127.0.0.1/\" -->", ERROR),
        ("denied", "<!--#include virtual=\"/denied/part.html\" -->", ERROR),
        ("size", "<!--#fsize virtual=\"/denied/part.html\" -->", ERROR),
        ("time", "<!--#flastmod virtual=\"/secret/part.html\" -->", ERROR),
        ("secret", "<!--#include virtual=\"/secret/part.html\" -->", ERROR),
        ("instead", "<!--#include file=\"missing\" onerror=\"/d/part.html\" -->", "part"),
        ("never", "<!--#include file=\"missing\" onerror=\"missing\" -->", ERROR),
        ("silent", "<!--#config errmsg=\"\" --><!--#include file=\"missing\" -->", ""),
    ];
    let site = cases
        .iter()
        .fold(site, |site, (name, directive, _)| site.file(&format!("d/{name}.shtml"), page(directive)));
    let server = site
        .config(
            "[limits]\ninclude_depth = 3\n\
             [[rule]]\npath = \"/denied/\"\nthen = \"deny\"\n\
             [[route]]\npath = \"/secret/\"\nauth = \"basic\"\nuser_files = \"users\"\n",
        )
        .start();
    let mut rows = Rows::new();
    for (name, _, expected) in cases {
        let response = server.get(&format!("/d/{name}.shtml"));
        rows.check(name, (response.status, response.text()), (200, page(expected)));
    }
    for (target, expected) in [
        ("/loop.shtml", format!("x{ERROR}")),
        ("/one.shtml", format!("12{ERROR}")),
        ("/deep.shtml?a", format!("xx{ERROR}")),
        ("/deep/1.shtml", format!("1234{ERROR}")),
        ("/deep/2.shtml", "2345".to_owned()),
    ] {
        rows.check(target, server.get(target).text(), expected);
    }
    // With the password, the same page has the part.
    let with_password =
        server.connect().get_with("/d/secret.shtml", "Authorization: Basic YW5uOnNlY3JldA==\r\n");
    rows.check("with a password", with_password.text(), page("secret"));
}

#[test]
fn responses_have_validators_where_files_alone_decide_them() {
    let server = pages(&[
        ("page.shtml", "<!--#include file=\"a.html\" --><!--#include file=\"nested.shtml\" -->"),
        ("nested.shtml", "<!--#include file=\"b.html\" -->"),
        ("a.html", "a"),
        ("b.html", "b"),
        ("time.shtml", "<!--#echo var=\"DATE_GMT\" -->"),
        ("missing.shtml", "<!--#include file=\"missing\" -->"),
    ])
    .modified("page.shtml", 1_000_000_000)
    .modified("nested.shtml", 1_000_000_000)
    .modified("a.html", 1_000_000_000)
    .modified("b.html", 1_000_345_600)
    .config("[cache]\ncheck = \"0s\"")
    .start();
    let mut client = server.connect();
    let first = client.get("/page.shtml");
    assert_eq!(first.text(), "ab");
    assert_eq!(first.field("last-modified"), Some("Thu, 13 Sep 2001 01:46:40 GMT"));
    assert!(!first.has("accept-ranges"));
    let tag = first.field("etag").expect("files alone decide the content").to_owned();
    let mut rows = Rows::new();
    for (fields, expected) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        ("If-None-Match: \"other\"\r\n".to_owned(), 200),
        ("If-Modified-Since: Thu, 13 Sep 2001 01:46:40 GMT\r\n".to_owned(), 304),
        ("If-Modified-Since: Wed, 12 Sep 2001 01:46:40 GMT\r\n".to_owned(), 200),
        ("If-Match: \"other\"\r\n".to_owned(), 412),
        (format!("If-Match: {tag}\r\n"), 200),
        ("Range: bytes=0-0\r\n".to_owned(), 200),
    ] {
        let response = client.get_with("/page.shtml", &fields);
        rows.check(&fields, response.status, expected);
    }
    client.send("HEAD /page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.read_response_to_head();
    rows.check("HEAD", (head.status, head.field("etag").map(str::to_owned)), (200, Some(tag.clone())));
    // A part changes, two pages below.
    server.files().file("www/b.html", "c");
    server.files().set_modified("www/b.html", 1_000_432_000);
    let changed = client.get_with("/page.shtml", &format!("If-None-Match: {tag}\r\n"));
    rows.check("changed", (changed.status, changed.text()), (200, "ac".to_owned()));
    for volatile in ["/time.shtml", "/missing.shtml"] {
        let response = client.get_with(volatile, "If-Modified-Since: Mon, 01 Jan 2090 00:00:00 GMT\r\n");
        let has_validators = response.has("etag") || response.has("last-modified");
        rows.check(volatile, (response.status, has_validators), (200, false));
    }
}

#[test]
fn scripts_are_included_and_may_fail() {
    let server = pages(&[
        ("page.shtml", "[<!--#include virtual=\"/cgi-bin/echo?a=$QUERY_STRING\" -->]"),
        ("fails.shtml", "[<!--#include virtual=\"/cgi-bin/fails\" -->]"),
        ("status.shtml", "[<!--#include virtual=\"/cgi-bin/status\" onerror=\"/cgi-bin/echo?b\" -->]"),
        ("cut.shtml", "[<!--#include virtual=\"/cgi-bin/cut\" -->]"),
    ])
    .script(
        "cgi-bin/echo",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s' \"$REQUEST_METHOD\" \"$QUERY_STRING\"\n",
    )
    .script("cgi-bin/fails", "#!/bin/sh\nexit 1\n")
    .script("cgi-bin/status", "#!/bin/sh\nprintf 'Status: 404\\nContent-Type: text/plain\\n\\nno'\n")
    .script("cgi-bin/cut", "#!/bin/sh\nprintf 'Content-Type: text/plain\\nContent-Length: 9\\n\\nabc'\n")
    .config("[[route]]\npath = \"/cgi-bin/\"\ncgi = true")
    .start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/page.shtml?q", "[GET a=q]".to_owned()),
        ("/fails.shtml", format!("[{ERROR}]")),
        ("/status.shtml", "[GET b]".to_owned()),
        ("/cut.shtml", format!("[abc{ERROR}]")),
    ] {
        rows.check(target, server.get(target).text(), expected);
    }
}

#[test]
fn large_parts_are_streamed_and_bounded() {
    let large = "0123456789abcdef".repeat(64 * 1024);
    let text = "x".repeat(200_000);
    let page = format!("{text}<!--#include file=\"large.txt\" -->{text}");
    let server = pages(&[
        ("page.shtml", &page),
        ("twice.shtml", "<!--#include file=\"large.txt\" --><!--#include file=\"large.txt\" -->"),
        ("many.shtml", &"<!--#include file=\"small.txt\" -->".repeat(5)),
        ("large.txt", &large),
        ("small.txt", "s"),
    ])
    .config("[limits]\ninclude_bytes = \"1500KiB\"\nincludes = 3")
    .start();
    let mut client = server.connect();
    client.send("GET /twice.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
    match client.try_read_response() {
        Err(ReadError::Closed { .. } | ReadError::Reset) => {}
        other => panic!("{other:?}"),
    }
    server.wait_for_line("include_bytes", TIMEOUT);
    let expected = format!("{text}{large}{text}");
    let whole = server.get("/page.shtml");
    assert!(whole.text() == expected, "{} bytes", whole.body.len());
    let old = server.request("GET /page.shtml HTTP/1.0\r\n\r\n");
    assert!(old.text() == expected && !old.has("content-length"));
    assert_eq!(server.get("/many.shtml").text(), format!("sss{ERROR}{ERROR}"));
}

/// The content of a request that an upstream has received, to be answered by the test.
fn paused_upstream() -> (String, mpsc::Receiver<std::net::TcpStream>) {
    let (sender, receiver) = mpsc::channel();
    let url = upstream(move |stream, _| {
        _ = sender.send(stream);
        Ok(())
    });
    (url, receiver)
}

#[test]
fn what_is_before_a_slow_part_is_sent_at_once() {
    let (url, requests) = paused_upstream();
    let server = pages(&[("page.shtml", "first<!--#include virtual=\"/slow\" -->last")])
        .config(&format!("[[route]]\npath = \"/slow\"\nproxy = \"{url}\""))
        .start();
    let mut client = server.connect();
    client.send("GET /page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut stream = requests.recv_timeout(TIMEOUT).expect("the page includes it");
    let mut received = Vec::new();
    while !received.ends_with(b"first\r\n") {
        received.extend(client.read_some().expect("the beginning is sent"));
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow").unwrap();
    let mut rest = String::new();
    while !rest.contains("slow") {
        rest.push_str(&String::from_utf8_lossy(&client.read_some().expect("the rest follows")));
    }
    // A client that leaves takes the request for the part with it.
    let mut client = server.connect();
    client.send("GET /page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut stream = requests.recv_timeout(TIMEOUT).expect("the page includes it");
    client.reset();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let closed = stream.read(&mut [0]).or_else(|error| match error.kind() {
        ErrorKind::ConnectionReset => Ok(0),
        _ => Err(error),
    });
    assert_eq!(closed.expect("the server closes the connection"), 0);
    assert!(wait_until(TIMEOUT, || server.get("/page.txt").status == 404), "the server goes on");
}

/// An upstream with a page of Edge Side Includes and its fragments.
fn fragments() -> String {
    upstream(|mut stream, head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let page = "<p><esi:include src=\"/fragment?a&amp;b\"/></p><esi:remove>no</esi:remove>\
                    <esi:comment text=\"x\"/><!--esi <b>yes</b>-->\
                    <esi:include src=\"/missing\" alt=\"/fragment?alt\"/>\
                    <esi:include src=\"/missing\" onerror=\"continue\"/>.";
        let (status, content_type, body) = match target {
            "/page" => ("200 OK", "text/html", page.to_owned()),
            "/plain" => ("200 OK", "text/plain", page.to_owned()),
            "/broken" => ("200 OK", "text/html", "a<esi:include src=\"/missing\"/>b".to_owned()),
            "/fresh" => ("200 OK\r\nCache-Control: max-age=1000", "text/html", page.to_owned()),
            "/part" if head.to_ascii_lowercase().contains("\r\nrange:") => {
                ("206 Partial Content\r\nContent-Range: bytes 0-4/9", "text/html", "<esi:".to_owned())
            }
            "/part" => ("200 OK", "text/html", "<esi:remove>x</esi:remove>whole".to_owned()),
            "/capability" => {
                let capability = head.lines().find(|line| line.starts_with("Surrogate-Capability"));
                ("200 OK", "text/html", capability.unwrap_or_default().to_owned())
            }
            "/missing" => ("404 Not Found", "text/plain", "missing".to_owned()),
            _ => ("200 OK", "text/html", format!("[{target}]")),
        };
        let encodings =
            if head.to_ascii_lowercase().contains("accept-encoding") { "X-Codings: yes\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nETag: \"x\"\r\n{encodings}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
    })
}

fn with_esi(more: &str) -> Server {
    let route = format!("[[route]]\npath = \"/\"\nproxy = \"{}\"\nincludes = [\"esi\"]\n{more}", fragments());
    Site::new().config_without_root(&route).start()
}

#[test]
fn edge_side_includes_assemble_the_responses_of_upstreams() {
    for more in ["", "response_cache = true\n"] {
        let server = with_esi(more);
        for _ in 0..2 {
            let page = server.connect().get_with("/page", "Accept-Encoding: gzip\r\n");
            assert_eq!(page.text(), "<p>[/fragment?a&b]</p> <b>yes</b>[/fragment?alt].", "{page}");
            assert!(!page.has("etag") && !page.has("content-length"), "{page}");
        }
        for _ in 0..3 {
            assert!(server.get("/fresh").text().starts_with("<p>[/fragment?a&b]</p>"));
        }
        let part = server.connect().get_with("/part", "Range: bytes=0-4\r\n");
        assert_eq!((part.status, part.text()), (200, "whole".to_owned()));
        let mut client = server.connect();
        client.send("POST /part HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(client.read_response().status, 206, "the upstream gets a POST once");
        assert!(server.get("/capability").text().contains("taipan=\"ESI/1.0\""));
        let plain = server.get("/plain");
        assert!(plain.text().contains("<esi:include") && plain.has("etag"));
        let mut client = server.connect();
        client.send("GET /broken HTTP/1.1\r\nHost: a\r\n\r\n");
        match client.try_read_response() {
            Err(ReadError::Closed { .. } | ReadError::Reset) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The tag and the time of the stored response are not those of what the client gets.
#[test]
fn conditions_and_ranges_of_a_stored_page_are_not_those_of_its_template() {
    let upstream = upstream(|mut stream, head| {
        let (content_type, body) = match head.starts_with("GET /page") {
            true => ("text/html", "<p><esi:include src=\"/fragment\"/></p>"),
            false => ("text/plain", "fragment"),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nETag: \"x\"\r\n\
             Last-Modified: Mon, 05 Jan 1970 00:00:00 GMT\r\nCache-Control: max-age=600\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes())
    });
    let route = format!(
        "[[route]]\npath = \"/\"\nproxy = \"{upstream}\"\nincludes = [\"esi\"]\nresponse_cache = true\n"
    );
    let server = Site::new().config_without_root(&route).start();
    let mut rows = Rows::new();
    // The first of each is stored while it is sent.
    for (number, fields) in [
        "If-None-Match: \"x\"\r\n",
        "If-None-Match: *\r\n",
        "If-Modified-Since: Fri, 27 Nov 2026 00:00:00 GMT\r\n",
        "Range: bytes=0-1\r\n",
        "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n",
        "Range: bytes=900-\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        for turn in 0..3 {
            let page = server.connect().get_with(&format!("/page?{number}"), fields);
            let name = format!("{turn} {fields}");
            rows.check(&name, (page.status, page.text().as_str()), (200, "<p>fragment</p>"));
            rows.check(&name, page.field("etag"), None);
        }
    }
    let plain = server.connect().get_with("/fragment", "If-None-Match: \"x\"\r\n");
    rows.check("no page", plain.status, 304);
}

/// As above, without a cache: the upstream knows the template alone.
#[test]
fn conditions_of_a_page_are_not_answered_by_its_upstream() {
    let upstream = upstream(|mut stream, head| {
        let lower = head.to_ascii_lowercase();
        let has_condition = lower.contains("\r\nif-none-match") || lower.contains("\r\nif-modified-since");
        let (content_type, body) = match head.contains("/page ") {
            true => ("text/html", "<p><esi:include src=\"/fragment\"/></p>"),
            false => ("text/plain", "fragment"),
        };
        let fields = match head.contains("/bare ") {
            true => "Connection: close\r\n",
            false => "ETag: \"x\"\r\nLast-Modified: Mon, 05 Jan 1970 00:00:00 GMT\r\nConnection: close\r\n",
        };
        let response = match has_condition {
            true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
            false => format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{fields}Content-Length: {}\r\n\r\n{}",
                body.len(),
                if head.starts_with("HEAD") { "" } else { body }
            ),
        };
        stream.write_all(response.as_bytes())
    });
    let route =
        |path: &str, keys: &str| format!("[[route]]\npath = \"{path}\"\nproxy = \"{upstream}\"\n{keys}\n");
    let routes = [
        route("/", "includes = [\"esi\"]"),
        route("/compressed/", "includes = [\"esi\"]\ncompress_scripts = true\ncompress_from = 0"),
        route("/stored/", "includes = [\"esi\"]\nresponse_cache = true"),
        route("/no/", ""),
    ];
    let server = Site::new().config_without_root(&routes.concat()).start();
    let mut rows = Rows::new();
    let mut client = server.connect();
    for fields in [
        "If-None-Match: \"x\"\r\n",
        "If-None-Match: *\r\n",
        "If-Modified-Since: Mon, 05 Jan 1970 00:00:00 GMT\r\n",
        "If-None-Match: \"y\"\r\nIf-Modified-Since: Mon, 05 Jan 1970 00:00:00 GMT\r\n",
    ] {
        let page = client.get_with("/page", fields);
        rows.check(fields, (page.status, page.text().as_str()), (200, "<p>fragment</p>"));
        rows.check(fields, page.has("etag") || page.has("last-modified"), false);
        let is_same = !fields.contains("\"y\"");
        for path in ["/fragment", "/compressed/fragment"] {
            let name = format!("{path} {fields}");
            let plain = client.get_with(path, fields);
            rows.check(&name, plain.status, if is_same { 304 } else { 200 });
            rows.check(&name, plain.field("etag"), Some("\"x\""));
            rows.check(&name, plain.has("content-type"), !is_same);
            let varies = (path != "/fragment").then_some("Accept-Encoding");
            rows.check(&name, plain.field("vary"), varies);
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            rows.check(format!("HEAD {name}"), client.read_response_to_head().status, plain.status);
        }
        rows.check("no includes", client.get_with("/no/fragment", fields).status, 304);
        rows.check("no validators", client.get_with("/bare", fields).status, 200);
        // It is forwarded past the cache.
        let page = client.get_with("/stored/page", &format!("If-Match: *\r\n{fields}"));
        rows.check(format!("past the cache {fields}"), page.status, 200);
    }
}

#[test]
fn explain_runs_no_script_of_a_page() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nrun'\n";
    let site = Site::new()
        .file("a.shtml", "<!--#include virtual=\"/a.cgi\" -->")
        .file("b.shtml", "<esi:include src=\"/a.cgi\"/>")
        .script("a.cgi", script)
        .config("includes = [\"ssi\", \"esi\"]\n[[route]]\npath = \"*.cgi\"\ncgi = true\n");
    let config = site.write_config();
    for page in ["/a.shtml", "/b.shtml"] {
        let output = run(["explain", "GET", page, "-c", config.to_str().expect("it is text")]);
        let text = String::from_utf8_lossy(&output.stdout);
        let expected =
            "response  the page, with the output of what it includes, which explain does not run\n";
        assert!(text.ends_with(expected), "{page}: {text}");
        assert!(output.stderr.is_empty(), "{page}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn explain_and_check_know_pages() {
    let site = pages(&[("a.shtml", "<!--#echo var=\"DOCUMENT_URI\" -->"), ("b.html", "b")]);
    let config = site.write_config();
    let explain = |path: &str| {
        let output = run(["explain", "GET", path, "-c", config.to_str().expect("it is text")]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(explain("/a.shtml").contains("page      ssi: the directives of the file are carried out"));
    assert!(!explain("/b.html").contains("page "));
    let mut rows = Rows::new();
    for (line, expected) in [
        ("includes = \"ssi\"", "expected true, false, or an array of"),
        ("includes = [\"shtml\"]", "expected true, false, or an array of"),
        ("includes = true\ninclude_files = [\"a/b\"]", "is not the end of a file name"),
        ("includes = true\ninclude_types = [\"html\"]", "is not a pattern of media types"),
        ("includes = true\ninclude_files = []\ninclude_types = []", "nothing is a page"),
        ("[limits]\ninclude_depth = 100", "include_depth"),
    ] {
        let site = Site::new().config(line);
        let config = site.write_config();
        let output = run(["check", "-c", config.to_str().expect("it is text")]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.holds(line, &format!("{expected}: {errors}"), errors.contains(expected));
    }
}

#[test]
fn pages_may_be_nested_as_deeply_as_the_limit_allows() {
    let names: Vec<String> = (0..=16).map(|number| format!("{number}.shtml")).collect();
    let content = |number: usize| format!("{number} <!--#include virtual=\"/{}.shtml\" -->", number + 1);
    let site =
        names.iter().enumerate().fold(Site::new(), |site, (number, name)| site.file(name, content(number)));
    let server = site.config("includes = true\n[limits]\ninclude_depth = 16").start();
    let expected: String = (0..=16).map(|number| format!("{number} ")).collect();
    assert_eq!(server.get("/0.shtml").text(), format!("{expected}{ERROR}"));
}

#[test]
fn a_login_by_digest_counts_for_the_parts_of_a_page() {
    let server = pages(&[
        ("page.shtml", "[<!--#include file=\"part.html\" --><!--#echo var=\"REMOTE_USER\" -->]"),
        ("part.html", "part"),
    ])
    .file_beside_root("digest", "ann:club:d569bc4dab5bc785527aa24d7da3aded\n")
    .config("auth = \"digest\"\nrealm = \"club\"\nuser_files = \"digest\"")
    .start();
    let mut curl = tool("curl");
    let page = output_of(curl.args(["-s", "--digest", "-u", "ann:secret"]).arg(server.url("/page.shtml")));
    assert_eq!(String::from_utf8_lossy(&page.stdout), "[partann]");
}

#[test]
fn a_page_may_have_several_languages() {
    let server = pages(&[
        ("page.en.shtml", "one<!--#include file=\"part.txt\" -->"),
        ("page.de.shtml", "eins<!--#include file=\"part.txt\" -->"),
        ("part.txt", "."),
    ])
    .config("languages = [\"en\", \"de\"]")
    .start();
    let page = server.connect().get_with("/page.shtml", "Accept-Language: de\r\n");
    assert_eq!(page.text(), "eins.");
    assert_eq!(page.field("content-language"), Some("de"));
    assert_eq!(page.values("vary"), ["Accept-Encoding", "Accept-Language"], "{page}");
}

#[test]
fn parts_count_in_the_limits_of_their_own_paths() {
    let server = pages(&[
        ("page.shtml", &"<!--#include virtual=\"/part/a.txt\" -->".repeat(3)),
        ("part/page.shtml", "<!--#include file=\"a.txt\" --><!--#include virtual=\"one.shtml\" -->"),
        ("part/one.shtml", "1<!--#include file=\"a.txt\" -->"),
        ("part/a.txt", "a"),
        ("other.shtml", "<!--#include virtual=\"/part/page.shtml\" -->"),
    ])
    .config(
        "[[limit]]\nby = \"field:x\"\nrequests = \"3/h\"\nrequests_burst = 3\n\
         [[limit]]\nby = \"field:x\"\npaths = \"/part/\"\nrequests = \"4/h\"\nrequests_burst = 4\n\
         [[limit]]\nby = \"field:y\"\npaths = \"/part/\"\nconcurrent = 1\n\
         [[limit]]\nby = \"field:z\"\npaths = \"/part/\"\nrequests = \"1/h\"\ndry_run = true\n",
    )
    .start();
    let mut rows = Rows::new();
    for (path, fields, expected) in [
        ("/page.shtml", "x: one\r\n", "aaa".to_owned()),
        ("/page.shtml", "x: one\r\n", format!("a{ERROR}{ERROR}")),
        ("/page.shtml", "x: one\r\n", ERROR.repeat(3)),
        // A page that counts in the limit counts in it once, with all that it includes.
        ("/part/page.shtml", "x: two\r\n", "a1a".to_owned()),
        ("/other.shtml", "x: two\r\n", "a1a".to_owned()),
        ("/part/a.txt", "x: two\r\n", "a".to_owned()),
        // A permit is held by the page that includes, or until a part has been sent.
        ("/part/page.shtml", "y: one\r\n", "a1a".to_owned()),
        ("/page.shtml", "y: one\r\n", "aaa".to_owned()),
        ("/page.shtml", "z: one\r\n", "aaa".to_owned()),
    ] {
        let response = server.connect().get_with(path, fields);
        rows.check(format!("{path} {fields}"), (response.status, response.text()), (200, expected));
    }
    let status = server.connect().get_with("/page.shtml", "x: one\r\n").status;
    rows.check("the page counts", status, 429);
    let stats = server.run_command(&["stats", "--json"]);
    let stats = String::from_utf8_lossy(&stats.stdout).into_owned();
    rows.holds("stats", &stats, stats.contains("\"parts\":2"));
}

#[test]
fn a_part_has_a_permit_while_it_is_made() {
    let (url, requests) = paused_upstream();
    let server = pages(&[("page.shtml", "first<!--#include virtual=\"/slow\" -->last")])
        .config(&format!(
            "[[limit]]\nby = \"all\"\npaths = \"/slow\"\nconcurrent = 1\n\
             [[route]]\npath = \"/slow\"\nproxy = \"{url}\""
        ))
        .start();
    let mut client = server.connect();
    client.send("GET /page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut stream = requests.recv_timeout(TIMEOUT).expect("the page includes it");
    assert_eq!(server.get("/slow").status, 429);
    assert_eq!(server.get("/page.shtml").text(), format!("first{ERROR}last"));
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow").unwrap();
    assert_eq!(client.read_response().text(), "firstslowlast");
    let answer = || server.get("/page.shtml").text() == "firstslowlast";
    let next = std::thread::spawn(move || {
        requests.recv_timeout(TIMEOUT).map(|mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow")
        })
    });
    assert!(wait_until(TIMEOUT, answer), "the permit is free again");
    assert!(next.join().is_ok_and(|sent| sent.is_ok()));
}

#[test]
fn a_part_has_the_user_of_its_own_login() {
    let server = pages(&[(
        "ann/page.shtml",
        "<!--#include virtual=\"/ann/who\" --> <!--#include virtual=\"/who\" --> \
                            <!--#include virtual=\"/other/who\" -->",
    )])
    .file_beside_root("users", "ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n")
    .file_beside_root("others", "bob:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n")
    .script("ann/who", WHO)
    .script("who", WHO)
    .script("other/who", WHO)
    .config(
        "[[route]]\npath = \"/ann/\"\nauth = \"basic\"\nuser_files = \"users\"\n\
         [[route]]\npath = \"/other/\"\nauth = \"basic\"\nrealm = \"other\"\nuser_files = \"others\"\n\
         [[route]]\npath = \"/ann/who\"\ncgi = true\nauth = \"basic\"\nuser_files = \"users\"\n\
         [[route]]\npath = \"*who\"\ncgi = true\n",
    )
    .start();
    let page = server.connect().get_with("/ann/page.shtml", "Authorization: Basic YW5uOnNlY3JldA==\r\n");
    assert_eq!(page.text(), format!("[ann] [] {ERROR}"));
}

const WHO: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n[%s]' \"$REMOTE_USER\"\n";

#[test]
fn references_are_relative_to_the_page_that_a_fallback_leads_to() {
    let server = pages(&[
        ("app/page.shtml", "<!--#include virtual=\"part.txt\" --><!--#include file=\"part.txt\" -->"),
        ("app/part.txt", "right"),
        ("x/y/part.txt", "wrong"),
        ("outer.shtml", "<!--#include virtual=\"/missing/page\" -->"),
    ])
    .config("fallback = \"/app/page.shtml\"")
    .start();
    let mut rows = Rows::new();
    for path in ["/app/page.shtml", "/x/y/missing", "/missing", "/outer.shtml"] {
        rows.check(path, server.get(path).text().as_str(), "rightright");
    }
    let tag = |path: &str| server.get(path).field("etag").map(str::to_owned);
    rows.check("the same parts have the same tag", tag("/x/y/missing"), tag("/app/page.shtml"));
}

#[test]
fn pages_with_parts_for_one_client_are_private() {
    let server = pages(&[
        ("files.shtml", "<!--#include file=\"a.txt\" -->"),
        ("time.shtml", "<!--#echo var=\"DATE_GMT\" --><!--#include file=\"a.txt\" -->"),
        ("cookie.shtml", "<!--#echo var=\"HTTP_COOKIE\" -->"),
        ("script.shtml", "<!--#include virtual=\"/cgi-bin/open\" -->"),
        ("fails.shtml", "<!--#include virtual=\"/missing\" -->"),
        ("rules.shtml", "<!--#include virtual=\"/inside/a.txt\" -->"),
        ("rewritten.shtml", "<!--#include virtual=\"/alias/a.txt\" -->"),
        ("alone.shtml", "<!--#echo var=\"DATE_GMT\" --><!--#include virtual=\"/alias/a.txt\" -->"),
        ("size.shtml", "<!--#echo var=\"DATE_GMT\" --><!--#fsize virtual=\"/inside/a.txt\" -->"),
        ("a.txt", "a"),
        ("inside/a.txt", "a"),
    ])
    .script("cgi-bin/open", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nopen'\n")
    .config(
        "cache_control = \"public, max-age=60\"\nrewrites = { \"/alias/\" = \"/inside/$rest\" }\n\
         [[rule]]\npath = \"/inside/\"\naddress = \"!127.0.0.0/8\"\nthen = \"deny\"\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true",
    )
    .start();
    let mut rows = Rows::new();
    // A script takes time: the head is sent before its response is there.
    for (page, expected) in [
        ("/files.shtml", "public, max-age=60"),
        ("/time.shtml", "public, max-age=60"),
        ("/cookie.shtml", "private, max-age=60"),
        ("/script.shtml", "private, max-age=60"),
        ("/fails.shtml", "private, max-age=60"),
        ("/rules.shtml", "private, max-age=60"),
        ("/rewritten.shtml", "private, max-age=60"),
        ("/alone.shtml", "private, max-age=60"),
        ("/size.shtml", "private, max-age=60"),
    ] {
        // The files are in the cache then.
        server.get(page);
        rows.check(page, server.get(page).field("cache-control"), Some(expected));
    }
    rows.check("the rule lets this client pass", server.get("/rules.shtml").text().as_str(), "a");
    let server = with_esi("");
    rows.check("an upstream", server.get("/fresh").field("cache-control"), Some("private, max-age=1000"));
    rows.check("without freshness", server.get("/page").field("cache-control"), None);
}

/// As a redirect of an application is.
#[test]
fn a_response_without_content_ends_with_its_head() {
    let upstream = upstream(|mut stream, head| {
        let status = if head.contains("/redirect") { "302 Found\r\nLocation: /" } else { "200 OK" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())
    });
    let route =
        |path: &str, keys: &str| format!("[[route]]\npath = \"{path}\"\nproxy = \"{upstream}\"\n{keys}\n");
    let routes = [
        route("/page/", "includes = [\"esi\"]"),
        route("/compressed/", "compress_scripts = true\ncompress_from = 0"),
        route("/both/", "includes = [\"esi\"]\ncompress_scripts = true\ncompress_from = 0"),
        route("/stored/", "response_cache = true\nresponse_cache_lifetime = \"1m\"\nincludes = [\"esi\"]"),
    ];
    let server = Site::new().config_without_root(&routes.concat()).start();
    let mut client = server.connect();
    for folder in ["page", "compressed", "both", "stored", "stored"] {
        for (path, status) in [("", 200), ("redirect", 302)] {
            let path = format!("/{folder}/{path}");
            let response = client.get_with(&path, "Accept-Encoding: gzip\r\n");
            assert_eq!((response.status, response.text()), (status, String::new()), "{path}");
            assert_eq!(response.field("content-length"), Some("0"), "{path}");
            assert!(!response.has("content-encoding"), "{path}");
        }
    }
}
