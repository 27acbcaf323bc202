//! Files in several languages and charsets, by their names.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use e2e::{Rows, Server, Site, TIMEOUT, run, wait_until, without_privilege};

const LANGUAGES: &str = "languages = [\"en\", \"de\", \"pt-BR\"]\n\
                         charsets = { utf8 = \"utf-8\", latin1 = \"iso-8859-1\" }";

fn site() -> Site {
    Site::new()
        .file("index.html", "english")
        .file("index.html.de", "deutsch")
        .file("index.pt-BR.html", "português")
        .file("alone.html", "alone")
        .file("only.html.de", "nur deutsch")
        .file("letter.txt", "utf8")
        .file("letter.txt.latin1", b"l\xe4tin")
        .file("docs/a b.de.html", "deutsch")
        .file("docs/a b.html.en", "english")
        .file("docs/a b.html.de.gz", "not for the name with its language before the extension")
        .file("de", "the name of a language")
}

#[test]
fn the_client_gets_the_language_that_it_prefers() {
    let server = site().config(LANGUAGES).every_protocol().start();
    let mut rows = Rows::new();
    for (path, accept, content, language, location) in [
        ("/", "", "english", Some("en"), None),
        ("/", "de", "deutsch", Some("de"), Some("/index.html.de")),
        ("/index.html", "de-CH, en;q=0.5", "deutsch", Some("de"), Some("/index.html.de")),
        ("/index.html", "en-GB, de;q=0.9", "english", Some("en"), None),
        ("/index.html", "fr, *;q=0.1", "english", Some("en"), None),
        ("/index.html", "fr", "english", Some("en"), None),
        ("/index.html", "en;q=0, *", "deutsch", Some("de"), Some("/index.html.de")),
        ("/index.html", "pt", "português", Some("pt-BR"), Some("/index.pt-BR.html")),
        ("/index.html", "not a language,,;;;q=9", "english", Some("en"), None),
        ("/docs/a%20b.html", "", "english", Some("en"), Some("/docs/a%20b.html.en")),
        ("/docs/a%20b.html", "de", "deutsch", Some("de"), Some("/docs/a%20b.de.html")),
    ] {
        let row = format!("{path} {accept:?}");
        let response =
            server.request(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Language: {accept}\r\n\r\n"));
        rows.check(&row, response.status, 200);
        rows.check(&row, response.text().as_str(), content);
        rows.check(&row, response.field("content-language"), language);
        rows.check(&row, response.field("content-location"), location);
        rows.check(&row, response.field("content-type"), Some("text/html; charset=utf-8"));
        let found = response.field("vary").map(|vary| vary.replace(", Accept-Encoding", ""));
        rows.check(&row, found.as_deref(), Some("Accept-Language"));
    }
    // What has one language has it, and does not vary.
    for (path, content, language, location) in [
        ("/alone.html", "alone", None, None),
        ("/only.html", "nur deutsch", Some("de"), Some("/only.html.de")),
        ("/only.html.de", "nur deutsch", Some("de"), Some("/only.html.de")),
        ("/index.html.de", "deutsch", Some("de"), Some("/index.html.de")),
        ("/index.pt-BR.html", "português", Some("pt-BR"), Some("/index.pt-BR.html")),
        ("/de", "the name of a language", None, None),
    ] {
        let response = server.get(path);
        rows.check(path, response.text().as_str(), content);
        rows.check(path, response.field("content-language"), language);
        if path != location.unwrap_or(path) {
            rows.check(path, response.field("content-location"), location);
        }
        let varies = response.field("vary").is_some_and(|vary| vary.contains("Accept-Language"));
        rows.check(path, varies, false);
    }
    rows.check("/none.html", server.get("/none.html").status, 404);
    rows.check("/none.html.de", server.get("/none.html.de").status, 404);
}

#[test]
fn the_client_gets_the_charset_that_it_prefers() {
    let server = site().config(LANGUAGES).start();
    let mut rows = Rows::new();
    for (accept, content, charset) in [
        ("", &b"utf8"[..], "utf-8"),
        ("iso-8859-1, utf-8;q=0.5", b"l\xe4tin", "iso-8859-1"),
        ("utf-8, iso-8859-1;q=0.5", b"utf8", "utf-8"),
        ("koi8-r", b"utf8", "utf-8"),
    ] {
        let response = server
            .request(format!("GET /letter.txt HTTP/1.1\r\nHost: a\r\nAccept-Charset: {accept}\r\n\r\n"));
        rows.check(accept, &response.body[..], content);
        rows.check(accept, response.field("content-type"), Some(&*format!("text/plain; charset={charset}")));
        rows.check(accept, response.field("vary"), Some("Accept-Charset"));
    }
}

#[test]
fn preconditions_ranges_and_head_are_about_the_chosen_file() {
    let server = site().config(LANGUAGES).start();
    let mut rows = Rows::new();
    let get = |method: &str, fields: &str| {
        server.request(format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let english = get("GET", "").field("etag").expect("files have one").to_owned();
    let german = get("GET", "Accept-Language: de\r\n").field("etag").expect("files have one").to_owned();
    rows.holds("tags", "differ", english != german);
    let fields = format!("Accept-Language: de\r\nIf-None-Match: {german}\r\n");
    let response = get("GET", &fields);
    rows.check("not modified", response.status, 304);
    rows.check("not modified", response.field("content-location"), Some("/index.html.de"));
    rows.holds(
        "not modified",
        "varies",
        response.field("vary").is_some_and(|v| v.contains("Accept-Language")),
    );
    let fields = format!("Accept-Language: de\r\nIf-None-Match: {english}\r\n");
    rows.check("the tag of another language", get("GET", &fields).status, 200);
    let fields = format!("Accept-Language: de\r\nIf-Match: {english}\r\n");
    rows.check("the tag of another language", get("GET", &fields).status, 412);
    let part = get("GET", "Accept-Language: de\r\nRange: bytes=0-1\r\n");
    rows.check("part", part.status, 206);
    rows.check("part", part.text().as_str(), "de");
    rows.check("part", part.field("content-language"), Some("de"));
    let fields = format!("Accept-Language: de\r\nRange: bytes=0-1\r\nIf-Range: {english}\r\n");
    rows.check("if-range", get("GET", &fields).text().as_str(), "deutsch");
    let head = get("HEAD", "Accept-Language: de\r\n");
    rows.check("head", head.field("content-length"), Some("7"));
    rows.check("head", head.field("content-language"), Some("de"));
}

#[test]
fn each_language_has_its_compressed_copies() {
    let (english, german) = ("english ".repeat(1000), "deutsch ".repeat(1000));
    let server = Site::new()
        .file("page.html", &english)
        .file("page.html.de", &german)
        .file("old.html.en", "english")
        .file("old.html.de", "deutsch")
        .file("old.html.de.gz", "as gzip")
        .config(LANGUAGES)
        .start();
    let mut rows = Rows::new();
    let get = |path: &str, language: &str| {
        server.request(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Language: {language}\r\nAccept-Encoding: gzip\r\n\r\n"
        ))
    };
    let copy = get("/old.html", "de");
    rows.check("precompressed", copy.field("content-encoding"), Some("gzip"));
    rows.check("precompressed", copy.text().as_str(), "as gzip");
    rows.check("precompressed", copy.field("vary"), Some("Accept-Language, Accept-Encoding"));
    rows.check("another language", get("/old.html", "en").text().as_str(), "english");
    // Copies are made in the background, for each language.
    for (language, content) in [("en", &english), ("de", &german)] {
        let mut copy = get("/page.html", language);
        let is_made = wait_until(TIMEOUT * 6, || {
            copy = get("/page.html", language);
            copy.field("content-encoding") == Some("gzip")
        });
        rows.holds(language, "is compressed", is_made);
        let mut plain = Vec::new();
        let read = std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&copy.body[..]), &mut plain);
        rows.holds(language, "is gzip", read.is_ok());
        rows.holds(language, "decodes", plain == content.as_bytes());
        rows.check(language, copy.field("content-language"), Some(language));
    }
}

#[test]
fn a_changed_language_is_sent() {
    let server = site().config(LANGUAGES).config("[cache]\ncheck = \"0s\"").start();
    let mut client = server.connect();
    assert_eq!(client.get_with("/", "Accept-Language: de\r\n").text(), "deutsch");
    fs::write(server.root().join("index.html.de"), "neu und länger").unwrap();
    assert_eq!(client.get_with("/", "Accept-Language: de\r\n").text(), "neu und länger");
    fs::remove_file(server.root().join("index.html.de")).unwrap();
    assert_eq!(client.get_with("/", "Accept-Language: de\r\n").text(), "english");
    fs::write(server.root().join("index.html.de"), "wieder").unwrap();
    assert_eq!(client.get_with("/", "Accept-Language: de\r\n").text(), "wieder");
    fs::remove_file(server.root().join("index.html")).unwrap();
    assert_eq!(client.get_with("/", "Accept-Language: en\r\n").text(), "wieder");
}

#[test]
fn rules_of_access_count_for_every_name_of_a_file() {
    let rules = "[[route]]\npath = \"/\"\n[[route.rule]]\nthen = \"deny\"\npath = [\"/index.html.de\", \"/letter.txt\"]";
    let server = site().config(LANGUAGES).config(rules).start();
    let mut rows = Rows::new();
    for (path, fields, expected) in [
        ("/", "", 200),
        ("/", "Accept-Language: de\r\n", 403),
        ("/index.html", "Accept-Language: de\r\n", 403),
        ("/index.html", "Accept-Language: pt\r\n", 200),
        ("/index.html.de", "", 403),
        // The rule of the file is for it in all charsets.
        ("/letter.txt", "", 403),
        ("/letter.txt.latin1", "", 403),
        ("/alone.html", "Accept-Language: de\r\n", 200),
    ] {
        let row = format!("{path} {fields}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        rows.check(&row, server.request(request).status, expected);
    }
}

#[test]
fn an_error_page_has_a_language() {
    let server = site()
        .file("404.html.en", "missing")
        .file("404.html.de", "fehlt")
        .config(LANGUAGES)
        .config("error_pages = { 404 = \"/404.html\" }")
        .start();
    let german = server.request("GET /none HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n\r\n");
    assert_eq!((german.status, german.text().as_str()), (404, "fehlt"));
    assert_eq!(german.field("content-language"), Some("de"));
    assert_eq!(server.get("/none").text(), "missing");
}

#[test]
fn without_the_key_a_language_is_an_extension() {
    let server = site().start();
    let response = server.request("GET / HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n\r\n");
    assert_eq!(response.text(), "english");
    assert_eq!(response.field("content-language"), None);
    assert_eq!(server.get("/only.html").status, 404);
    assert_eq!(server.get("/index.html.de").field("content-type"), Some("application/octet-stream"));
}

#[test]
fn many_clients_with_many_languages_get_their_own() {
    let server = site().config(LANGUAGES).config("workers = 1").start();
    let clients = |server: &Server, (accept, content): (&'static str, &'static str)| {
        let mut client = server.connect();
        thread::spawn(move || {
            for _ in 0..200 {
                let fields = format!("Accept-Language: {accept}\r\n");
                assert_eq!(client.get_with("/", &fields).text(), content);
            }
        })
    };
    let all = [("de", "deutsch"), ("en", "english"), ("pt-BR", "português"), ("xx", "english")];
    let running: Vec<_> = all.into_iter().map(|one| clients(&server, one)).collect();
    running.into_iter().for_each(|one| one.join().expect("each gets its own"));
}

#[test]
fn a_mistake_in_the_keys_is_named() {
    let mut rows = Rows::new();
    for (config, expected) in [
        ("languages = [\"german!\"]", "\"german!\" is not a language tag"),
        ("languages = [\"de\", \"DE\"]", "\"DE\" stands twice"),
        ("languages = true", "languages"),
        ("charsets = { \"a.b\" = \"utf-8\" }", "\"a.b\" is not a suffix with a charset"),
        ("charsets = { u = \"not a charset\" }", "\"u\" is not a suffix with a charset"),
        ("charsets = { a = \"a\", b = \"b\", c = \"c\", d = \"d\", e = \"e\" }", "more than 4 charsets"),
        ("languages = [\"de\"]\ncharsets = { de = \"utf-8\" }", "\"de\" is a language, too"),
    ] {
        let site = Site::new();
        let file = site.home().join("bad.toml");
        fs::write(&file, format!("root = \"www\"\n{config}\n")).unwrap();
        let output = run([OsStr::new("check"), OsStr::new("-c"), file.as_os_str()]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.holds(config, &text, !output.status.success() && text.contains(expected));
    }
}

#[test]
fn special_files_have_languages_too() {
    let server = Site::new()
        .file("gone.asis", "Status: 410\n\ngone")
        .file("gone.de.asis", "Status: 410\n\nweg")
        .file("rooms.map", "default /english")
        .file("rooms.de.map", "default /deutsch")
        .file("page.shtml", "<!--#echo var=\"DOCUMENT_NAME\" --> english")
        .file("page.de.shtml", "<!--#echo var=\"DOCUMENT_NAME\" --> deutsch")
        .config(LANGUAGES)
        .config("as_is = true\nimage_maps = true\nincludes = [\"ssi\"]")
        .every_protocol()
        .start();
    let mut rows = Rows::new();
    for (path, accept, status, content, location) in [
        ("/gone.asis", "en", 410, "gone", None),
        ("/gone.asis", "de", 410, "weg", None),
        ("/rooms.map?1,1", "en", 302, "", Some("/english")),
        ("/rooms.map?1,1", "de", 302, "", Some("/deutsch")),
        ("/page.shtml", "en", 200, "page.shtml english", None),
        ("/page.shtml", "de", 200, "page.de.shtml deutsch", None),
    ] {
        let row = format!("{path} {accept}");
        let response =
            server.request(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Language: {accept}\r\n\r\n"));
        rows.check(&row, response.status, status);
        rows.check(&row, response.field("location"), location);
        rows.check(&row, response.field("content-language"), (status != 302).then_some(accept));
        let vary = response.values("vary").join(", ");
        rows.holds(&row, &vary, vary.contains("Accept-Language"));
        if !content.is_empty() {
            rows.check(&row, response.text().trim(), content);
        }
    }
}

#[test]
fn a_language_that_cannot_be_read_is_left_out() {
    let site = site().config(&format!("{}\n{LANGUAGES}", without_privilege()));
    fs::set_permissions(site.home(), Permissions::from_mode(0o755)).unwrap();
    for name in ["index.html.de", "only.html.de"] {
        fs::set_permissions(site.root().join(name), Permissions::from_mode(0o000)).unwrap();
    }
    let server = site.start();
    let mut rows = Rows::new();
    for (path, language, expected) in [
        ("/index.html", "de", (200, "english")),
        ("/index.html", "pt-BR", (200, "português")),
        ("/index.html.de", "de", (403, "")),
        ("/only.html", "de", (403, "")),
    ] {
        let response = server.connect().get_with(path, &format!("Accept-Language: {language}\r\n"));
        let text = if response.status == 200 { response.text() } else { String::new() };
        rows.check(format!("{path} {language}"), (response.status, text.as_str()), expected);
    }
}
