//! Files whose names are not UTF-8, such as those of old archives in Latin-1 and EUC: served, listed, and passed to
//! scripts and applications byte by byte, and under the same rules as other files.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use e2e::http2::Http2Request;
use e2e::upstream::upstream;
use e2e::{Rows, Server, Site, TIMEOUT, command, is_root, path_of};
use serde_json::Value;

/// Prints its variables with the bytes outside ASCII in hexadecimal.
const VARIABLES: &str = "#!/usr/bin/perl\nbinmode STDOUT;\nprint \"Content-Type: text/plain\\n\\n\";\n\
     for my $name (qw(PATH_INFO PATH_TRANSLATED SCRIPT_NAME SCRIPT_FILENAME REQUEST_URI)) {\n\
     my $value = $ENV{$name} // '';\n$value =~ s/([\\x80-\\xFF])/sprintf('<%02X>', ord($1))/ge;\n\
     print \"$name=$value\\n\";\n}\n";

/// An application, and an authorizer that lets every request pass.
const APPLICATION: &str = "import os\nimport taipan\nwhile taipan.accept():\n    \
     text = ' '.join(os.environ.get(name, '') for name in ('SCRIPT_NAME', 'PATH_INFO'))\n    \
     text = ''.join('<%02X>' % byte if byte > 127 else chr(byte) for byte in os.fsencode(text))\n    \
     print('Content-Type: text/plain\\r\\n\\r\\n' + text, end='')\n";
const WRAPPER: &str = include_str!("../../../contrib/python/taipan.py");

/// With `B\xFCcher`, a folder in Latin-1, `Bücher`, one in UTF-8, and files in other encodings.
fn site() -> Site {
    let site = Site::new();
    let files: [(&[u8], &str); 8] = [
        (b"B\xFCcher/\xE4.txt", "in Latin-1"),
        (b"B\xFCcher/plain.txt", "plain"),
        ("Bücher/ä.txt".as_bytes(), "in UTF-8"),
        (b"\xC0\xA4\xB3\xA6.html", "in EUC"),
        (b"\xC3", "the first byte of an umlaut"),
        (b"\xF4\x8F\xBB\xA4", "a private character"),
        (b"private/\xE4.txt", "secret"),
        (b"private/\xC0\xAE\xC0\xAE/\xE4.txt", "secret below two bytes"),
    ];
    for (name, content) in files {
        let path = place(&site, name);
        fs::create_dir_all(path.parent().expect("it is in the root")).expect("it is our folder");
        fs::write(path, content).expect("it is our folder");
    }
    site
}

fn place(site: &Site, name: &[u8]) -> PathBuf {
    site.root().join(OsStr::from_bytes(name))
}

fn found(server: &Server, path: &str) -> (u16, String) {
    let response = server.get(path);
    (response.status, response.text())
}

fn status(server: &Server, path: &str) -> u16 {
    server.get(path).status
}

#[test]
fn serves_files_by_their_bytes() {
    let server = site().every_protocol().config("listing = true").start();
    let mut rows = Rows::new();
    // Twice: a cached file is found by the same bytes.
    for _ in 0..2 {
        for (path, expected) in [
            ("/B%FCcher/%E4.txt", "in Latin-1"),
            ("/B%fccher/%e4.txt", "in Latin-1"),
            ("/x/../B%FCcher/./%E4.txt", "in Latin-1"),
            ("/B%FCcher/plain.txt", "plain"),
            ("/B%C3%BCcher/%C3%A4.txt", "in UTF-8"),
            ("/%C0%A4%B3%A6.html", "in EUC"),
            ("/%C3", "the first byte of an umlaut"),
            ("/%F4%8F%BB%A4", "a private character"),
        ] {
            rows.check(path, found(&server, path), (200, expected.to_owned()));
        }
        for path in [
            "/B%FCcher/%C3%A4.txt",
            "/B%C3%BCcher/%E4.txt",
            "/B%FDcher/%E4.txt",
            "/B%EF%BF%BDcher/%E4.txt",
            "/Bcher/%E4.txt",
            // The characters that stand for bytes inside the server are no other names of them.
            "/B%F4%8F%BB%BCcher/%F4%8F%BB%A4.txt",
            "/%E4",
            "/%C3%A4",
            // Overlong forms are neither slashes nor dots.
            "/B%FCcher%C0%AF%E4.txt",
            "/B%FCcher/%C0%AE%C0%AE/index.html",
            "/%C0%80",
        ] {
            rows.check(path, status(&server, path), 404);
        }
    }
    for path in ["/B%FCcher%2F%E4.txt", "/%FC%00", "/%95%5C", "/%FC%0A", "/%FC%C2%85", "/%FC/../..", "/%FC%"]
    {
        rows.check(path, status(&server, path), 400);
    }
    let head = server.request("HEAD /B%FCcher/%E4.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    rows.check("HEAD", (head.status, head.field("content-length")), (200, Some("10")));
    let part = server.request("GET /B%FCcher/%E4.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=3-8\r\n\r\n");
    rows.check("a range", (part.status, part.text()), (206, "Latin-".to_owned()));
    let folder = server.get("/B%fccher?x=%E4");
    rows.check("a folder", (folder.status, folder.field("location")), (301, Some("/B%FCcher/?x=%E4")));
}

#[test]
fn takes_raw_bytes_for_encoded_ones() {
    let server = site().config("listen = [\"127.0.0.1:0 http2\"]\nlisting = true\n").start();
    let mut rows = Rows::new();
    let raw = |path: &[u8]| [b"GET ", path, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    for (path, expected) in [
        (&b"/B\xFCcher/\xE4.txt"[..], "in Latin-1"),
        (b"/B\xFCcher/%E4.txt", "in Latin-1"),
        ("/Bücher/ä.txt".as_bytes(), "in UTF-8"),
        (b"http://a/B\xFCcher/\xE4.txt", "in Latin-1"),
        (b"/\xC0\xA4\xB3\xA6.html", "in EUC"),
    ] {
        let response = server.request(raw(path));
        rows.check(path, (response.status, response.text()), (200, expected.to_owned()));
    }
    let folder = server.request(raw(b"/B\xFCcher"));
    rows.check("a folder", (folder.status, folder.field("location")), (301, Some("/B%FCcher/")));
    rows.check("another method", server.request(raw(b"\xFC")).status, 400);
    let mut http2 = server.connect_http2();
    let response = http2.request(&Http2Request::get("/Bücher/ä.txt")).expect("there is a response");
    rows.check("HTTP/2", (response.status, response.text()), (200, "in UTF-8".to_owned()));
}

#[test]
fn lists_them_with_links_that_lead_to_them() {
    let server = site().every_protocol().config("listing = true").start();
    let mut rows = Rows::new();
    let page = server.get("/").text();
    for part in [
        "<a href=\"./B%FCcher/\">B\u{FFFD}cher/</a>",
        "<a href=\"./B%C3%BCcher/\">Bücher/</a>",
        "<a href=\"./%C3\">\u{FFFD}</a>",
        "<a href=\"./%F4%8F%BB%A4\">\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}</a>",
    ] {
        rows.holds(part, &format!("it is on the page: {page}"), page.contains(part));
    }
    let inner = server.get("/B%FCcher/").text();
    for part in ["<title>/B\u{FFFD}cher/</title>", "<a href=\"./%E4.txt\">\u{FFFD}.txt</a>"] {
        rows.holds(part, &format!("it is on the page: {inner}"), inner.contains(part));
    }
    rows.check("the link", found(&server, "/B%FCcher/%E4.txt"), (200, "in Latin-1".to_owned()));
    let json: Value = serde_json::from_slice(&server.get("/B%FCcher/?format=json").body).expect("it is JSON");
    rows.check("path", &json["path"], &Value::from("/B\u{FFFD}cher/"));
    let entries = json["entries"].as_array().expect("there are entries");
    let links: Vec<_> =
        entries.iter().map(|entry| (entry["name"].as_str(), entry["link"].as_str())).collect();
    rows.check("entries", links, vec![(Some("plain.txt"), None), (Some("\u{FFFD}.txt"), Some("%E4.txt"))]);
}

#[test]
fn rules_are_for_all_that_is_below_their_path() {
    let rules = "listing = true\n[[rule]]\npath = \"/private/\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/B?cher/p*\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/B\\U0010FEFCcher/named.txt\"\nthen = \"deny\"\n";
    let server = site().every_protocol().config(rules).start();
    let mut rows = Rows::new();
    for path in [
        "/private/%E4.txt",
        "/private/",
        "/private",
        "/private/%C0%AE%C0%AE/%E4.txt",
        "/private/%FF",
        "/%70rivate/%E4.txt",
        "/B%FCcher/../private/%E4.txt",
        "//private//%E4.txt",
        // For a wildcard, the byte is a character.
        "/B%FCcher/plain.txt",
        // The rule names the byte.
        "/B%FCcher/named.txt",
    ] {
        rows.check(path, status(&server, path), 403);
    }
    // Names of other folders, whatever a lenient program would make of them.
    for path in ["/%C1%B0rivate/%E4.txt", "/private%C0%AF%E4.txt", "/x%C0%AFprivate/%E4.txt"] {
        rows.check(path, status(&server, path), 404);
    }
    rows.check("another file", status(&server, "/B%FCcher/%E4.txt"), 200);
    rows.check("another folder", status(&server, "/B%C3%BCcher/named.txt"), 404);
    let root = server.get("/").text();
    rows.holds("the listing", "it has no private folder", !root.contains("private"));
}

#[test]
fn scripts_get_the_bytes() {
    let site = site().script("env.cgi", VARIABLES).config("[[route]]\npath = \"*.cgi\"\ncgi = true\n");
    let script = place(&site, b"B\xFCcher/\xE4.cgi");
    fs::copy(site.root().join("env.cgi"), script).expect("it is our folder");
    let root = site.root().display().to_string();
    let server = site.start();
    let mut rows = Rows::new();
    for (path, expected) in [
        (
            "/env.cgi/%E4/%C3%A4",
            ["/<E4>/<C3><A4>", "ROOT/<E4>/<C3><A4>", "/env.cgi", "ROOT/env.cgi", "/env.cgi/%E4/%C3%A4"],
        ),
        (
            "/B%FCcher/%E4.cgi/%C0%AF?q=%E4",
            [
                "/<C0><AF>",
                "ROOT/<C0><AF>",
                "/B<FC>cher/<E4>.cgi",
                "ROOT/B<FC>cher/<E4>.cgi",
                "/B%FCcher/%E4.cgi/%C0%AF?q=%E4",
            ],
        ),
    ] {
        let names = ["PATH_INFO", "PATH_TRANSLATED", "SCRIPT_NAME", "SCRIPT_FILENAME", "REQUEST_URI"];
        let expected: String =
            names.iter().zip(expected).map(|(name, value)| format!("{name}={value}\n")).collect();
        rows.check(path, found(&server, path), (200, expected.replace("ROOT", &root)));
    }
}

#[test]
fn applications_get_the_bytes_as_they_were_sent() {
    let url = upstream(|mut stream, head| {
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len());
        stream.write_all(response.as_bytes())
    });
    let server = site()
        .every_protocol()
        .config(&format!(
            "[[rule]]\npath = \"/app/private/\"\nthen = \"deny\"\n\
             [[route]]\npath = \"/app/\"\nproxy = \"{url}/\"\n\
             [[route]]\npath = \"/raw/\"\nproxy = \"{url}\"\nproxy_path = \"raw\"\n\
             [[route]]\npath = \"/old/**\"\nrewrite = \"/app/new/$1?x\"\n"
        ))
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/app/%E4?q=%E4", "/%E4?q=%E4"),
        ("/app/x/../%e4/", "/%e4/"),
        ("/raw/%E4%2F%FC", "/raw/%E4%2F%FC"),
        ("/old/%E4/%C3%A4", "/new/%E4/%C3%A4?x"),
    ] {
        rows.check(path, found(&server, path), (200, expected.to_owned()));
    }
    for path in [
        "/app/%C0%AE%C0%AE/x",
        "/app/x%C0%AF..%C0%AFprivate",
        "/app/%C1%B0rivate/x",
        "/app/%E0%80%AF",
        "/raw/%c0%af",
        "/old/%C0%AE",
    ] {
        let response = server.get(path);
        rows.check(path, response.status, 400);
        rows.holds(path, "the page names the rule", response.text().contains("path-overlong"));
    }
    rows.check("a rule", status(&server, "/app/private/%E4"), 403);
}

#[test]
fn redirects_logs_and_explanations_name_the_bytes() {
    let site = site().config(
        "workers = 1\nlisting = true\n[log]\naccess = \"stdout\"\nformat = \"json\"\n\
         [[route]]\npath = \"/moved/**\"\nredirect = \"https://b.example/$1?was=$path\"\n",
    );
    let config = site.write_config();
    let server = site.start();
    let mut rows = Rows::new();
    let moved = server.get("/moved/%FC/%C3%A4");
    rows.check(
        "location",
        moved.field("location"),
        Some("https://b.example/%FC/%C3%A4?was=/moved/%FC/%C3%A4"),
    );
    server.get("/B%FCcher/%E4.txt");
    let enough = |lines: &[String]| (lines.len() >= 2).then(|| lines.to_vec());
    let lines = server.output().wait_for(TIMEOUT, enough).expect("two lines");
    let line: Value = serde_json::from_str(&lines[1]).expect("it is JSON");
    rows.holds("the log", &lines[1], line.to_string().contains("/B%FCcher/%E4.txt"));
    let explained = command().args(["explain", "GET", "/B%FCcher/%E4.txt", "-c"]).arg(config).output();
    let explained = explained.expect("it starts");
    let text = String::from_utf8(explained.stdout).expect("it is UTF-8");
    for part in ["/B\\xFCcher/\\xE4.txt", "B\u{FFFD}cher/\u{FFFD}.txt", "200"] {
        rows.holds(part, &text, text.contains(part));
    }
}

#[test]
fn publishing_needs_utf_8() {
    let server = site().config("listing = true\npublish = \"webdav\"\npublish_anonymous = true\n").start();
    let mut rows = Rows::new();
    let request = |method: &str, path: &str, fields: &str| {
        server.request(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: 0\r\n\r\n"))
    };
    for (method, path, fields, expected) in [
        ("PUT", "/B%FCcher/new.txt", "", 400),
        ("PUT", "/%E4", "", 400),
        ("PUT", "/%F4%8F%BB%A4", "", 400),
        ("DELETE", "/B%FCcher/%E4.txt", "", 400),
        ("MKCOL", "/%E4/", "", 400),
        ("MOVE", "/B%C3%BCcher/%C3%A4.txt", "Destination: /%E4\r\n", 403),
        ("COPY", "/B%C3%BCcher/%C3%A4.txt", "Destination: /B%FCcher/x\r\n", 403),
    ] {
        rows.check(format!("{method} {path}"), request(method, path, fields).status, expected);
    }
    let listed = request("PROPFIND", "/", "Depth: 1\r\n");
    rows.check("PROPFIND", listed.status, 207);
    rows.holds("PROPFIND", "it has the folder", listed.text().contains("B%C3%BCcher"));
    rows.holds("PROPFIND", "other names are left out", !listed.text().contains("%FC"));
    rows.check("GET", found(&server, "/B%FCcher/%E4.txt"), (200, "in Latin-1".to_owned()));
    rows.check("a private character", found(&server, "/%F4%8F%BB%A4").0, 200);
}

#[test]
fn applications_by_fastcgi_get_the_bytes() {
    let site = site().file_beside_root("app.py", APPLICATION).file_beside_root("taipan.py", WRAPPER);
    let program =
        format!("command = [\"{}\", \"-B\", \"{}/app.py\"]", path_of("python3"), site.home().display());
    let server = site
        .config(&format!(
            "[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
             [[route]]\npath = \"/B\\U0010FEFCcher/\"\nauthorizer = \"app\"\n\
             [[route]]\npath = \"/%E4/\"\napplication = \"app\"\n\
             [[application]]\nname = \"app\"\n{program}\n"
        ))
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/app/%E4/%C3%A4", (200, "/app /<E4>/<C3><A4>".to_owned())),
        ("/B%FCcher/%E4.txt", (200, "in Latin-1".to_owned())),
        // An escape in a pattern is three characters.
        ("/%E4/x", (404, String::new())),
        ("/%25E4/x", (200, "/%E4 /x".to_owned())),
    ] {
        let (status, text) = found(&server, path);
        rows.check(path, (status, if status == 200 { text } else { String::new() }), expected);
    }
    for path in ["/app/%C0%AF", "/app/%C0%AE%C0%AE/x", "/B%FCcher/%C0%AE%C0%AE/x"] {
        rows.check(path, status(&server, path), 400);
    }
}

#[test]
fn pages_include_and_link_them() {
    let site = site().config("includes = true\n");
    let pages: [(&[u8], &[u8]); 3] = [
        (
            b"B\xFCcher/\xE4.shtml",
            b"<!--#include file=\"\xE4.txt\" --> <!--#include virtual=\"../B%FCcher/plain.txt\" -->",
        ),
        (
            b"B\xFCcher/uri.shtml",
            b"<!--#echo var=\"DOCUMENT_URI\" --> <!--#echo encoding=\"url\" var=\"DOCUMENT_URI\" -->",
        ),
        (b"B\xFCcher/raw.shtml", b"a\xE4<!--#include virtual=\"/B\xFCcher/\xE4.txt\" -->"),
    ];
    for (name, content) in pages {
        fs::write(place(&site, name), content).expect("it is our folder");
    }
    let server = site.start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/B%FCcher/%E4.shtml", &b"in Latin-1 plain"[..]),
        ("/B%FCcher/uri.shtml", "/B\u{FFFD}cher/uri.shtml /B%FCcher/uri.shtml".as_bytes()),
        ("/B%FCcher/raw.shtml", b"a\xE4in Latin-1"),
    ] {
        rows.check(path, server.get(path).body.as_slice(), expected);
    }
}

#[test]
fn stored_responses_are_found_and_purged_by_the_bytes() {
    let script = "#!/bin/sh\nprintf 'Cache-Control: max-age=60\\nContent-Type: text/plain\\n\\n'\necho \"$REQUEST_URI\"\n";
    let server = site()
        .script("env.cgi", script)
        .config(
            "workers = 1\nresponse_cache = true\nresponse_cache_purge = [\"127.0.0.1\"]\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n",
        )
        .start();
    let mut rows = Rows::new();
    let request =
        |method: &str, path: &str| server.request(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let mut check = |path: &str, is_hit: bool| {
        let response = request("GET", path);
        rows.check(path, (response.status, response.text()), (200, format!("{path}\n")));
        let did = response.field("cache-status").unwrap_or_default().to_owned();
        rows.check(format!("{path}: {did}"), did.contains("hit"), is_hit);
    };
    check("/env.cgi/%E4", false);
    check("/env.cgi/%E4", true);
    check("/env.cgi/%FC", false);
    check("/env.cgi/%C3%A4", false);
    let purged = request("PURGE", "/env.cgi/%E4");
    assert_eq!(purged.status, 200, "{purged}");
    check("/env.cgi/%E4", false);
    check("/env.cgi/%FC", true);
}

#[test]
fn scripts_send_files_by_their_bytes() {
    let site = site();
    let folder = site.home().join("files");
    fs::create_dir(&folder).expect("it is our folder");
    fs::write(folder.join(OsStr::from_bytes(b"\xE4")), "from the folder").expect("it is our folder");
    let script =
        [b"#!/bin/sh\nprintf 'X-Sendfile: ", folder.as_os_str().as_bytes(), b"/\xE4\\n\\n'\n"].concat();
    let server = site
        .script("send.cgi", script)
        .config("[[route]]\npath = \"*.cgi\"\ncgi = true\n[scripts]\nsendfile = [\"files\"]\n")
        .start();
    assert_eq!(found(&server, "/send.cgi"), (200, "from the folder".to_owned()));
}

#[test]
fn converted_configurations_serve_them() {
    for (server, text) in [
        ("boa", "Port 0\nListen 127.0.0.1\nDocumentRoot HOME/www\nDirectoryIndex index.html\n"),
        ("thttpd", "port=0\nhost=127.0.0.1\ndir=HOME/www\n"),
        (
            "nginx",
            "events { }\nhttp { server { listen 127.0.0.1:0; root HOME/www; autoindex on;\n\
             location /private/ { deny all; } } }\n",
        ),
        (
            "lighttpd",
            "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n\
             $HTTP[\"url\"] =^ \"/private/\" { url.access-deny = ( \"\" ) }\n",
        ),
    ] {
        let site = site();
        let home = site.home().display().to_string();
        let site = site.file_beside_root("original", text.replace("HOME", &home));
        let converted =
            command().args(["convert", "original", "--from", server]).current_dir(site.home()).output();
        let converted = converted.expect("it starts");
        assert!(converted.status.success(), "{server}: {}", String::from_utf8_lossy(&converted.stderr));
        let mut text = String::from_utf8(converted.stdout).expect("TOML is UTF-8");
        // Root needs an account to serve as.
        if is_root() && !text.contains("\nuser = ") {
            text.insert_str(0, "user = \"root\"\n");
        }
        fs::write(site.home().join("site.toml"), text).expect("it is our folder");
        let running = site.start_with(1, |site| {
            let mut taipan = command();
            taipan.args(["-c", "site.toml"]).current_dir(site.home());
            taipan
        });
        let mut rows = Rows::new();
        let expected = (200, "in Latin-1".to_owned());
        rows.check(format!("{server}, encoded"), found(&running, "/B%FCcher/%E4.txt"), expected.clone());
        let raw = running.request(b"GET /B\xFCcher/\xE4.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        rows.check(format!("{server}, raw"), (raw.status, raw.text()), expected);
        if matches!(server, "nginx" | "lighttpd") {
            rows.check(format!("{server}, denied"), status(&running, "/private/%E4.txt"), 403);
        }
    }
}
