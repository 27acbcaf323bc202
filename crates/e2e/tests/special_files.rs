//! Files that are more than their content: as-is files, image maps, and files with metafiles.

use std::fs;

use e2e::{Rows, Site, TIMEOUT, shown};

fn as_is() -> Site {
    let content = "Status: 404 Not here\r\nContent-Type: text/plain\r\nX-A: b\r\nSet-Cookie: a=1\nSet-Cookie: b=2\n\nnothing";
    Site::new()
        .file("page.html", "page")
        .file("missing.asis", content)
        .file("moved.asis", "Location: https://example.org/x\n\n")
        .file(
            "page.html.asis",
            "HTTP/1.0 200 OK\nETag: \"one\"\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\n\n<p>0123456789",
        )
        .file("empty.asis", "Status: 204\n\n")
        .file("large.asis", format!("\n{}", "x".repeat(300_000)))
        .file("framing.asis", "Content-Length: 3\n\nabc")
        .file("smuggled.asis", "Transfer-Encoding: chunked\n\n0\r\n\r\n")
        .file("split.asis", b"X-A: b\rSet-Cookie: c\n\n")
        .file("status.asis", "Status: 101 Switching Protocols\n\n")
        .file("endless.asis", "X-A: b\n")
        .file("huge.asis", format!("\n{}", "x".repeat((1 << 20) + 1)))
        .config("as_is = true")
}

#[test]
fn an_as_is_file_is_a_whole_response() {
    let server = as_is().every_protocol().start();
    let mut rows = Rows::new();
    let missing = server.get("/missing.asis");
    rows.check("missing", (missing.status, missing.text().as_str()), (404, "nothing"));
    rows.check("missing", missing.field("content-type"), Some("text/plain"));
    rows.check("missing", missing.field("content-length"), Some("7"));
    rows.check("missing", missing.field("x-a"), Some("b"));
    rows.check("missing", missing.values("set-cookie"), vec!["a=1", "b=2"]);
    rows.check("missing", missing.values("date").len(), 1);
    let moved = server.get("/moved.asis");
    rows.check("moved", (moved.status, moved.field("location")), (302, Some("https://example.org/x")));
    rows.check("moved", moved.field("content-length"), Some("0"));
    let page = server.get("/page.html.asis");
    rows.check("page", (page.status, page.text().as_str()), (200, "<p>0123456789"));
    rows.check("page", page.field("content-type"), Some("text/html; charset=utf-8"));
    rows.check("page", page.values("last-modified"), vec!["Sun, 06 Nov 1994 08:49:37 GMT"]);
    rows.check("empty", server.get("/empty.asis").status, 204);
    rows.check("large", server.get("/large.asis").body.len(), 300_000);
    rows.check("a plain file", server.get("/page.html").text().as_str(), "page");
}

#[test]
fn preconditions_and_ranges_count_for_as_is_files_that_are_ok() {
    let server = as_is().start();
    let mut rows = Rows::new();
    for (path, fields, status, content) in [
        ("/page.html.asis", "If-None-Match: \"one\"\r\n", 304, ""),
        ("/page.html.asis", "If-None-Match: \"two\"\r\n", 200, "<p>0123456789"),
        ("/page.html.asis", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304, ""),
        ("/page.html.asis", "Range: bytes=3-5\r\n", 206, "012"),
        ("/page.html.asis", "Range: bytes=99-\r\n", 416, ""),
        ("/page.html.asis", "If-Match: \"two\"\r\n", 412, ""),
        // RFC 9110 §13.2.1: a response that is not 2xx has no preconditions.
        ("/missing.asis", "If-None-Match: *\r\n", 404, "nothing"),
        ("/missing.asis", "Range: bytes=0-1\r\n", 404, "nothing"),
        ("/missing.asis", "Accept-Encoding: gzip\r\n", 404, "nothing"),
    ] {
        let row = format!("{path} {fields}");
        let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        rows.check(&row, response.status, status);
        if !content.is_empty() {
            rows.check(&row, response.text().as_str(), content);
        }
    }
    let head = server.request("HEAD /missing.asis HTTP/1.1\r\nHost: a\r\n\r\n");
    rows.check("head", (head.status, head.field("content-length"), head.body.len()), (404, Some("7"), 0));
    let post = server.request("POST /missing.asis HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    rows.check("post", post.status, 405);
}

#[test]
fn an_as_is_file_with_a_mistake_is_not_sent() {
    let server = as_is().start();
    let mut rows = Rows::new();
    for (path, line) in [
        ("/framing.asis", "framing.asis, line 1: only the server sets this field"),
        ("/smuggled.asis", "smuggled.asis, line 1: only the server sets this field"),
        ("/split.asis", "split.asis, line 1: the value has a control character"),
        ("/status.asis", "status.asis, line 1: not the status of a whole response, from 200 to 599"),
        ("/endless.asis", "endless.asis, line 1: an empty line must follow the fields"),
        ("/huge.asis", "huge.asis is larger than 1 MiB"),
    ] {
        let response = server.get(path);
        rows.check(path, response.status, 500);
        rows.holds(path, &shown(&response.body), !response.text().contains("Set-Cookie"));
        server.wait_for_line(line, TIMEOUT);
    }
}

#[test]
fn without_the_key_as_is_files_and_maps_are_files() {
    let server = Site::new()
        .file("a.asis", "Status: 404\n\nx")
        .file("a.js.map", "{\"version\":3}")
        .file("page.html", "page")
        .file(".web/page.html.meta", "X-A: b\n")
        .start();
    assert_eq!(server.get("/a.asis").text(), "Status: 404\n\nx");
    assert_eq!(server.get("/a.js.map?1,1").text(), "{\"version\":3}");
    assert_eq!(server.get("/page.html").field("x-a"), None);
}

const NCSA: &str = "default /nowhere.html\nrect /first.html 10,10 20,20\n\
                    circle https://example.org/c?a&b 100,100 110,100 \"A <circle>\"\npoly sub/p.html 200,0 300,0 250,99\n";
const CERN: &str = "default /nowhere.html\nrectangle (10,10) (20,20) /first.html\ncircle (100,100) 10 /c\n";

#[test]
fn an_image_map_leads_to_the_area_of_a_click() {
    let server = Site::new()
        .file("maps/ncsa.map", NCSA)
        .file("maps/cern.map", CERN)
        .file("maps/base.map", "base https://example.org/a/b\ndefault c\n")
        .file("maps/empty.map", "# nothing\n")
        .config("image_maps = true")
        .every_protocol()
        .start();
    let mut rows = Rows::new();
    for (target, status, location) in [
        ("/maps/ncsa.map?15,15", 302, Some("/first.html")),
        ("/maps/ncsa.map?105,105", 302, Some("https://example.org/c?a&b")),
        ("/maps/ncsa.map?250,50", 302, Some("sub/p.html")),
        ("/maps/ncsa.map?999,999", 302, Some("/nowhere.html")),
        ("/maps/cern.map?10,20", 302, Some("/first.html")),
        ("/maps/cern.map?110,100", 302, Some("/c")),
        ("/maps/cern.map?111,100", 302, Some("/nowhere.html")),
        ("/maps/base.map?1,1", 302, Some("https://example.org/a/c")),
        ("/maps/empty.map?1,1", 204, None),
        ("/maps/ncsa.map", 200, None),
        ("/maps/ncsa.map?", 200, None),
        ("/maps/ncsa.map?0,0", 200, None),
        ("/maps/ncsa.map?x", 200, None),
        ("/maps/ncsa.map?1,2,3", 200, None),
        ("/maps/ncsa.map?99999999999999999999,1", 200, None),
        ("/maps/ncsa.map?1%0d%0aSet-Cookie:x,1", 200, None),
    ] {
        let response = server.get(target);
        rows.check(target, response.status, status);
        rows.check(target, response.field("location"), location);
        rows.check(target, response.has("set-cookie"), false);
    }
    let menu = server.get("/maps/ncsa.map");
    rows.check("menu", menu.field("content-type"), Some("text/html; charset=utf-8"));
    for link in [
        "<a href=\"/first.html\">/first.html</a>",
        "<a href=\"https://example.org/c?a&amp;b\">A &lt;circle&gt;</a>",
    ] {
        rows.holds(link, &menu.text(), menu.text().contains(link));
    }
    let head = server.request("HEAD /maps/ncsa.map?15,15 HTTP/1.1\r\nHost: a\r\n\r\n");
    rows.check("head", (head.status, head.field("location")), (302, Some("/first.html")));
    let conditional =
        "GET /maps/ncsa.map?15,15 HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\nRange: bytes=0-1\r\n\r\n";
    rows.check("conditional", server.request(conditional).status, 302);
}

#[test]
fn an_image_map_with_a_mistake_is_not_followed() {
    let server = Site::new()
        .file("script.map", "default javascript:alert(1)\n")
        .file("source.js.map", "{\"version\":3}")
        .file("large.map", "#".repeat((64 << 10) + 1))
        .file("corners.map", "\npoly /x 1,1 2,2\n")
        .config("image_maps = true")
        .start();
    let mut rows = Rows::new();
    for (path, line) in [
        ("/script.map", "script.map, line 1: a URL begins with http://, https://, mailto: or a path"),
        ("/source.js.map", "source.js.map, line 1: begin with base, default, rect, circle, poly or point"),
        ("/large.map", "large.map is larger than 64 KiB"),
        ("/corners.map", "corners.map, line 2: not the coordinates of this shape, such as 10,20"),
    ] {
        rows.check(path, server.get(&format!("{path}?1,1")).status, 500);
        server.wait_for_line(line, TIMEOUT);
    }
}

#[test]
fn a_metafile_has_further_fields() {
    let server = Site::new()
        .file("index.html", "index")
        .file("page.html", "page")
        .file("page.html.gz", "as gzip")
        .file("docs/a.txt", "text")
        .file("plain.txt", "plain")
        .file(".web/index.html.meta", "X-Index: yes\n")
        .file(
            ".web/page.html.meta",
            "Content-Type: text/x-page\r\nCache-Control: max-age=7\r\nX-A: b\r\nX-A: c\r\n",
        )
        .file("docs/.web/a.txt.meta", "Expires: Thu, 01 Jan 2026 00:00:00 GMT")
        .config("meta_files = true\ncache_control = \"max-age=1\"\n[cache]\ncheck = \"0s\"")
        .every_protocol()
        .start();
    let mut rows = Rows::new();
    rows.check("index", server.get("/").field("x-index"), Some("yes"));
    rows.check("index", server.get("/index.html").field("x-index"), Some("yes"));
    let page = server.get("/page.html");
    rows.check("page", page.text().as_str(), "page");
    rows.check("page", page.values("content-type"), vec!["text/x-page"]);
    rows.check("page", page.values("cache-control"), vec!["max-age=7"]);
    rows.check("page", page.values("x-a"), vec!["b", "c"]);
    let tag = page.field("etag").expect("files have one");
    let copy = server.request("GET /page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    rows.check("copy", copy.text().as_str(), "as gzip");
    rows.check("copy", copy.values("x-a"), vec!["b", "c"]);
    let same = server.request(format!("GET /page.html HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"));
    rows.check("not modified", (same.status, same.field("cache-control")), (304, Some("max-age=7")));
    let part = server.request("GET /page.html HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0\r\n\r\n");
    rows.check("part", (part.status, part.field("content-type")), (206, Some("text/x-page")));
    let text = server.get("/docs/a.txt");
    rows.check("in a folder", text.values("expires"), vec!["Thu, 01 Jan 2026 00:00:00 GMT"]);
    rows.check("without", server.get("/plain.txt").field("x-a"), None);
    rows.check("without", server.get("/plain.txt").field("cache-control"), Some("max-age=1"));
    // A change of the metafile counts.
    fs::write(server.root().join(".web/page.html.meta"), "X-A: changed\n").expect("it is ours");
    rows.check("changed", server.get("/page.html").field("x-a"), Some("changed"));
    fs::remove_file(server.root().join(".web/page.html.meta")).expect("it is ours");
    rows.check("removed", server.get("/page.html").field("x-a"), None);
    fs::write(server.root().join(".web/plain.txt.meta"), "X-A: new\n").expect("it is ours");
    rows.check("new", server.get("/plain.txt").field("x-a"), Some("new"));
}

#[test]
fn metafiles_are_never_served() {
    let server = Site::new()
        .file("page.html", "page")
        .file("fields/page.html.about", "X-A: b\n")
        .file("fields/page.html.about.gz", "x")
        .file("other/fields/x.about", "X-A: b\n")
        .file("other/page.html", "page")
        .config(
            "dotfiles = \"allow\"\nlisting = true\n[[route]]\npath = \"*.html\"\nmeta_files = true\n\
             meta_dir = \"fields\"\nmeta_suffix = \".about\"",
        )
        .every_protocol()
        .start();
    let mut rows = Rows::new();
    rows.check("/page.html", server.get("/page.html").field("x-a"), Some("b"));
    for path in [
        "/fields/page.html.about",
        "/fields/page.html.about.gz",
        "/fields/",
        "/fields",
        "/other/fields/x.about",
        "/%66ields/page.html.about",
        "/x/../fields/page.html.about",
        "//fields//page.html.about",
    ] {
        rows.check(path, server.get(path).status, 404);
    }
    let listing = server.get("/other/?format=json").text();
    rows.holds("listing", &listing, listing.contains("page.html") && !listing.contains("fields"));
}

#[test]
fn a_file_with_a_broken_metafile_is_not_sent() {
    let server = Site::new()
        .file("a.html", "a")
        .file("b.html", "b")
        .file("c.html", "c")
        .file(".web/a.html.meta", "Content-Length: 1\n")
        .file(".web/b.html.meta", "no field\n")
        .file(".web/c.html.meta", format!("X-A: {}\n", "x".repeat(8192)))
        .config("meta_files = true")
        .start();
    let mut rows = Rows::new();
    for (path, line) in [
        ("/a.html", "the metafile of a.html, line 1: only the server sets this field"),
        ("/b.html", "the metafile of b.html, line 1: not a field; write \"Name: value\""),
        ("/c.html", "the metafile of c.html is larger than 8 KiB"),
    ] {
        rows.check(path, server.get(path).status, 500);
        server.wait_for_line(line, TIMEOUT);
    }
}
