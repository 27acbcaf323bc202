//! The configuration as a client sees it: hosts, routes, and the settings of each.

use e2e::{Rows, Server, Site};

/// `GET path` for a host: the status, and the body or the Location.
fn answer(server: &Server, host: &str, path: &str) -> (u16, String) {
    let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let text = response.field("location").map_or_else(|| response.text(), str::to_owned);
    (response.status, text)
}

/// Compares `STATUS` and the text, or `STATUS` alone for a built-in page.
fn check(server: &Server, rows: &mut Rows, host: &str, path: &str, expected: &str) {
    let (status, text) = answer(server, host, path);
    let found = if text.contains("<!DOCTYPE") { status.to_string() } else { format!("{status} {text}") };
    rows.check(format!("{host}{path}"), found.as_str(), expected);
}

#[test]
fn prefers_a_host_name_over_a_wildcard_over_the_default_host() {
    let mut site = Site::new().file("index.html", "default").config(
        "[[host]]\nnames = [\"a.example\", \"www.a.example\"]\nroot = \"a\"\n\
         [[host]]\nnames = \"*.example\"\nroot = \"wild\"\n\
         [[host]]\nnames = \"*.deep.example\"\nroot = \"deep\"",
    );
    for name in ["a", "wild", "deep"] {
        site = site.file_beside_root(&format!("{name}/index.html"), name);
    }
    let server = site.start();
    let mut rows = Rows::new();
    for (host, body) in [
        ("a.example", "a"),
        ("A.Example", "a"),
        ("a.example:8080", "a"),
        ("a.example.", "a"),
        ("www.a.example", "a"),
        ("b.example", "wild"),
        ("x.b.example", "wild"),
        ("x.deep.example", "deep"),
        ("deep.example", "wild"),
        ("example", "default"),
        ("notexample", "default"),
        ("localhost", "default"),
        ("127.0.0.1", "default"),
        ("[::1]:80", "default"),
    ] {
        check(&server, &mut rows, host, "/", &format!("200 {body}"));
    }
    let absolute = server.request("GET http://a.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    rows.check("absolute form", absolute.text().as_str(), "a");
}

#[test]
fn the_first_host_is_the_default_where_the_top_level_serves_nothing() {
    let hosts =
        "[[host]]\nnames = \"a.example\"\nroot = \"a\"\n[[host]]\nnames = \"b.example\"\nroot = \"b\"\n";
    for (config, body) in [(hosts.to_owned(), "a"), (format!("{hosts}default = true"), "b")] {
        let site = Site::new()
            .config_without_root(&config)
            .file_beside_root("a/index.html", "a")
            .file_beside_root("b/index.html", "b");
        let server = site.start();
        assert_eq!(answer(&server, "c.example", "/"), (200, body.to_owned()), "{config}");
        assert_eq!(answer(&server, "b.example", "/"), (200, "b".to_owned()), "{config}");
    }
}

#[test]
fn an_exact_path_wins_over_a_glob_and_a_glob_over_the_longest_prefix() {
    let server = Site::new()
        .file("x/a.txt", "file")
        .file("x/y/a.txt", "deeper")
        .file("x/y/a.bak", "backup")
        .file("exactly", "exact")
        .file("a b/é", "decoded")
        .config(
            "[[route]]\npath = \"/x/\"\nheaders = { Route = \"prefix x\" }\n\
             [[route]]\npath = \"/x/y/\"\nheaders = { Route = \"prefix y\" }\n\
             [[route]]\npath = \"*.bak\"\nheaders = { Route = \"glob\" }\n\
             [[route]]\npath = \"/x/*.txt\"\nheaders = { Route = \"one segment\" }\n\
             [[route]]\npath = \"/exactly\"\nheaders = { Route = \"exact\" }\n\
             [[route]]\npath = \"/a b/\"\nheaders = { Route = \"decoded\" }\n\
             [[route]]\npath = \"/gone/**/x?\"\nreturn = 410",
        )
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/x/a.txt", (200, Some("one segment"))),
        ("/x/y/a.txt", (200, Some("prefix y"))),
        ("/x/y/a.bak", (200, Some("glob"))),
        ("/x/y/missing", (404, Some("prefix y"))),
        ("/x/missing", (404, Some("prefix x"))),
        ("/exactly", (200, Some("exact"))),
        ("/exactly?query", (200, Some("exact"))),
        ("/%65xactly", (200, Some("exact"))),
        ("/exactly2", (404, None)),
        ("/a%20b/%C3%A9", (200, Some("decoded"))),
        ("/gone/x1", (410, None)),
        ("/gone/a/b/x2", (410, None)),
        ("/gone/a/b/x", (404, None)),
    ] {
        let response = server.get(path);
        rows.check(path, (response.status, response.field("route")), expected);
    }
}

#[test]
fn an_alias_takes_the_prefix_away_and_a_root_does_not() {
    let server = Site::new()
        .file("index.html", "www")
        .file_beside_root("files/a.txt", "aliased")
        .file_beside_root("files/deep/index.html", "aliased index")
        .file_beside_root("other/o/a.txt", "other root")
        .config("[[route]]\npath = \"/f/\"\nalias = \"files\"\n[[route]]\npath = \"/o/\"\nroot = \"other\"")
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/f/a.txt", "200 aliased"),
        ("/f/deep/", "200 aliased index"),
        ("/f/deep", "301 /f/deep/"),
        ("/f", "301 /f/"),
        ("/f/", "403"),
        ("/f/missing", "404"),
        ("/f/../index.html", "200 www"),
        ("/o/a.txt", "200 other root"),
        ("/a.txt", "404"),
    ] {
        check(&server, &mut rows, "localhost", path, expected);
    }
}

#[test]
fn redirects_send_status_and_location() {
    let server = Site::new()
        .file("index.html", "here")
        .config(
            "redirects = { \"/old\" = \"/new\", \"/blog/\" = { to = \"https://blog.example/$rest$query\", status = 301 }, \
             \"/$odd\" = \"/price$$5\" }\n\
             [[route]]\npath = \"/303\"\nredirect = \"/x\"\nstatus = 303\n\
             [[route]]\npath = \"/307/\"\nredirect = \"/x/${rest}.html\"\nstatus = 307\n\
             [[route]]\npath = \"/308/\"\nredirect = \"$scheme://$host:8443$path$query\"\nstatus = 308",
        )
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/old", "302 /new"),
        ("/old?a=b", "302 /new"),
        ("/blog/", "301 https://blog.example/"),
        ("/blog/2020/x?a=b&c", "301 https://blog.example/2020/x?a=b&c"),
        ("/blog/a%20b%3F%0d%0aX:y", "400"),
        ("/blog/a%20b%3F", "301 https://blog.example/a%20b%3F"),
        ("/blog//evil.example", "301 https://blog.example/evil.example"),
        ("/$odd", "302 /price$5"),
        ("/303", "303 /x"),
        ("/307/a/b", "307 /x/a/b.html"),
        ("/308/a?q", "308 http://localhost:8443/308/a?q"),
    ] {
        let (status, text) = answer(&server, "localhost", path);
        let found = if status == 400 { "400".to_owned() } else { format!("{status} {text}") };
        rows.check(path, found.as_str(), expected);
    }
    let post = server.request("POST /old HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
    rows.check("POST", (post.status, post.field("location")), (302, Some("/new")));
    let head = server.request("HEAD /old HTTP/1.1\r\nHost: localhost\r\n\r\n");
    rows.check("HEAD", (head.status, head.field("location")), (302, Some("/new")));
}

#[test]
fn a_site_that_only_redirects_needs_no_root() {
    let config = "redirects = { \"/\" = { to = \"https://$host$path$query\", status = 308 } }";
    let server = Site::new().config_without_root(config).start();
    assert_eq!(answer(&server, "www.example:80", "/a?b"), (308, "https://www.example/a?b".to_owned()));
}

#[test]
fn a_rewrite_serves_another_path() {
    let server = Site::new()
        .file("a.txt", "a")
        .file("v2/deep/b.txt", "b")
        .file("app/index.html", "app")
        .config(
            "rewrites = { \"/alias\" = \"/a.txt\", \"/latest/\" = \"/v2/$rest\", \"/app/**\" = \"/app/index.html\", \
             \"/chain\" = \"/alias\" }\n\
             [[route]]\npath = \"/app/index.html\"\nroot = \"www\"",
        )
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/alias", "200 a"),
        ("/alias?query", "200 a"),
        ("/latest/deep/b.txt", "200 b"),
        ("/latest/missing", "404"),
        ("/app/any/where", "200 app"),
        ("/chain", "200 a"),
    ] {
        check(&server, &mut rows, "localhost", path, expected);
    }
    let typed = server.get("/alias");
    rows.check(
        "the type is that of the file",
        typed.field("content-type"),
        Some("text/plain; charset=utf-8"),
    );
}

#[test]
fn a_route_can_send_a_status_alone() {
    let server = Site::new()
        .file("x/a.txt", "there")
        .config("[[route]]\npath = \"/x/\"\nreturn = 410\n[[route]]\npath = \"*.php\"\nreturn = 404")
        .start();
    let mut rows = Rows::new();
    for (path, status) in
        [("/x/", 410), ("/x/a.txt", 410), ("/index.php", 404), ("/x/index.php", 404), ("/x", 410)]
    {
        rows.check(path, server.get(path).status, status);
    }
}

#[test]
fn sends_error_pages_with_the_status_of_the_error() {
    let large = "x".repeat(300_000);
    let server = Site::new()
        .file("e/404.html", "<h1>small</h1>")
        .file("e/403.txt", &large)
        .file("e/405.html", "<h1>method</h1>")
        .file("folder/x", "x")
        .file("a.txt", "a")
        .config(
            "error_pages = { 404 = \"/e/404.html\", 403 = \"/e/403.txt\", 405 = \"/e/405.html\", 410 = \"/e/missing.html\" }\n\
             headers = { X-Set = \"yes\" }\n[[route]]\npath = \"/gone\"\nreturn = 410\n\
             [[route]]\npath = \"/own/\"\nerror_pages = { 404 = \"/a.txt\" }",
        )
        .start();
    let mut rows = Rows::new();
    for (request, status, content_type, length) in [
        ("GET /missing", 404, "text/html; charset=utf-8", 14),
        ("GET /own/missing", 404, "text/plain; charset=utf-8", 1),
        ("GET /folder/", 403, "text/plain; charset=utf-8", large.len()),
        ("POST /a.txt", 405, "text/html; charset=utf-8", 15),
        ("GET /e/404.html", 200, "text/html; charset=utf-8", 14),
    ] {
        let (method, path) = request.split_once(' ').unwrap();
        let response = server.request(format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        rows.check(request, (response.status, response.body.len()), (status, length));
        rows.check(request, response.field("content-type"), Some(content_type));
        rows.check(request, response.field("x-set"), Some("yes"));
        rows.check(request, response.has("allow"), status == 405);
        if status != 200 {
            let of_the_page: Vec<_> = ["etag", "last-modified", "accept-ranges", "vary"]
                .into_iter()
                .filter(|f| response.has(f))
                .collect();
            // The large one is compressed for clients that accept it.
            let expected = if length == large.len() { vec!["vary"] } else { Vec::new() };
            rows.check(request, of_the_page, expected);
        }
        if method == "GET" {
            let head = server.request(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            rows.check(format!("HEAD {path}"), head.fields_but(&["date"]), response.fields_but(&["date"]));
            rows.check(format!("HEAD {path}"), head.status, response.status);
        }
    }
    let conditional = server.connect().get_with("/missing", "Range: bytes=0-3\r\nIf-None-Match: *\r\n");
    rows.check(
        "an error is no representation",
        (conditional.status, conditional.text().as_str()),
        (404, "<h1>small</h1>"),
    );
    let missing = server.get("/gone");
    rows.check("a page that is missing", missing.status, 410);
    rows.holds("a page that is missing", "the built-in one is sent", missing.text().contains("410"));
}

#[test]
fn routes_set_and_remove_response_fields() {
    let server = Site::new()
        .file("a.txt", "a")
        .file("x/b.txt", "b")
        .config(
            "headers = { X-Content-Type-Options = \"nosniff\", X-All = \"all\" }\n\
             [[route]]\npath = \"/x/\"\nheaders = { ETag = false, X-All = false, x-content-type-options = \"other\" }\n\
             listing = true",
        )
        .start();
    let mut rows = Rows::new();
    for (path, field, expected) in [
        ("/a.txt", "X-Content-Type-Options", Some("nosniff")),
        ("/a.txt", "X-All", Some("all")),
        ("/missing", "X-All", Some("all")),
        ("/x", "X-All", None),
        ("/x/", "X-All", None),
        ("/x/", "X-Content-Type-Options", Some("other")),
        ("/x/b.txt", "X-All", None),
        ("/x/b.txt", "ETag", None),
        ("/x/b.txt", "X-Content-Type-Options", Some("other")),
        ("/x/b.txt", "Content-Length", Some("1")),
    ] {
        rows.check(format!("{field} of {path}"), server.get(path).field(field), expected);
    }
    let unchanged =
        server.connect().get_with("/x/b.txt", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n");
    rows.check(
        "a date in the future is ignored or the file is unchanged",
        matches!(unchanged.status, 200 | 304),
        true,
    );
    let part = server.connect().get_with("/a.txt", "Range: bytes=0-0\r\n");
    rows.check("206", (part.status, part.field("x-all")), (206, Some("all")));
    let unmodified = server.connect().get_with("/a.txt", "If-None-Match: *\r\n");
    rows.check("304", (unmodified.status, unmodified.field("x-all")), (304, Some("all")));
}

#[test]
fn the_first_matching_pattern_sets_cache_control() {
    let site = Site::new()
        .file("index.html", "i")
        .file("assets/a.js", "a")
        .file("assets/index.html", "i")
        .file("other.txt", "o")
        .file("always/x.txt", "x")
        .file("data.json", "{}")
        .config(
            "cache_control = { \"/assets/\" = \"max-age=31536000, immutable\", \"*.html\" = \"no-cache\", \"text/*\" = \"private\" }\n\
             [[route]]\npath = \"/always/\"\ncache_control = \"no-store\"",
        );
    let server = site.start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/index.html", Some("no-cache")),
        ("/assets/a.js", Some("max-age=31536000, immutable")),
        ("/assets/index.html", Some("max-age=31536000, immutable")),
        ("/other.txt", Some("private")),
        ("/", Some("private")),
        ("/always/x.txt", Some("no-store")),
        ("/data.json", None),
        ("/missing.html", None),
    ] {
        rows.check(path, server.get(path).field("cache-control"), expected);
    }
    let unmodified = server.connect().get_with("/index.html", "If-None-Match: *\r\n");
    rows.check("304", (unmodified.status, unmodified.field("cache-control")), (304, Some("no-cache")));
}

#[test]
fn serves_the_first_existing_index_for_a_folder() {
    let server = Site::new()
        .file("both/index.html", "html")
        .file("both/index.htm", "htm")
        .file("one/index.htm", "htm")
        .file("none/default.html", "default")
        .folder("odd/index.html")
        .file("odd/index.htm", "htm")
        .config(
            "index = [\"index.html\", \"index.htm\"]\n[[route]]\npath = \"/none/\"\nindex = \"default.html\"",
        )
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/both/", "200 html"),
        ("/one/", "200 htm"),
        ("/none/", "200 default"),
        ("/odd/", "200 htm"),
        ("/", "403"),
    ] {
        check(&server, &mut rows, "localhost", path, expected);
    }
    rows.check("type", server.get("/one/").field("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn the_extension_sets_the_media_type() {
    let files = [
        "a.html",
        "a.HTML",
        "a.css",
        "a.js",
        "a.json",
        "a.svg",
        "a.png",
        "a.woff2",
        "a.wasm",
        "a.glb",
        "a.user.js",
        "a",
        "a.unknown",
        "a.txt",
        "a.tar.gz",
        ".well-known/x",
    ];
    let site = files.iter().fold(Site::new(), |site, file| site.file(file, "content"));
    let site = site.file("latin/a.txt", "content").file("bare/a.html", "content");
    let server = site
        .config(
            "types = { glb = \"model/gltf-binary\", \"user.js\" = \"text/plain\" }\ndefault_type = \"application/x-thing\"\n\
             [[route]]\npath = \"/latin/\"\ncharset = \"iso-8859-1\"\n[[route]]\npath = \"/bare/\"\ncharset = false",
        )
        .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/a.html", "text/html; charset=utf-8"),
        ("/a.HTML", "text/html; charset=utf-8"),
        ("/a.css", "text/css; charset=utf-8"),
        ("/a.js", "text/javascript; charset=utf-8"),
        ("/a.json", "application/json"),
        ("/a.svg", "image/svg+xml"),
        ("/a.png", "image/png"),
        ("/a.woff2", "font/woff2"),
        ("/a.wasm", "application/wasm"),
        ("/a.glb", "model/gltf-binary"),
        ("/a.user.js", "text/plain; charset=utf-8"),
        ("/a", "application/x-thing"),
        ("/a.unknown", "application/x-thing"),
        ("/a.tar.gz", "application/gzip"),
        ("/.well-known/x", "application/x-thing"),
        ("/latin/a.txt", "text/plain; charset=iso-8859-1"),
        ("/bare/a.html", "text/html"),
    ] {
        rows.check(path, server.get(path).field("content-type"), Some(expected));
    }
    rows.check("a.tar.gz has no coding", server.get("/a.tar.gz").field("content-encoding"), None);
}

#[test]
fn denies_dotfiles_unless_well_known_or_allowed() {
    let site = Site::new()
        .file(".env", "secret")
        .file(".git/config", "secret")
        .file("x/.hidden/a", "secret")
        .file(".well-known/security.txt", "known")
        .file("x/.well-known/a", "not at the root")
        .file("open/.dot", "allowed")
        .file("..odd/a", "odd")
        .file("error.html", "page")
        .config("[[route]]\npath = \"/open/\"\ndotfiles = \"allow\"");
    let server = site.start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/.env", "404"),
        ("/%2eenv", "404"),
        ("/x/../.env", "404"),
        ("/.git/config", "404"),
        ("/.git/", "404"),
        ("/.git", "404"),
        ("/.missing", "404"),
        ("/x/.hidden/a", "404"),
        ("/..odd/a", "404"),
        ("/.well-known/security.txt", "200 known"),
        ("/open/.dot", "200 allowed"),
    ] {
        check(&server, &mut rows, "localhost", path, expected);
    }
    // The response does not reveal whether a dotfile exists.
    let without_date = |path| {
        let response = server.get(path);
        (response.fields_but(&["date"]), response.body)
    };
    assert_eq!(without_date("/.env"), without_date("/.missing"));
}

#[test]
fn entity_tags_have_the_configured_kind() {
    let site = Site::new()
        .file("a.txt", "same")
        .file("b.txt", "same")
        .file("content/a.txt", "same")
        .file("content/b.txt", "same")
        .file("content/c.txt", "other")
        .file("off/a.txt", "same")
        .modified("a.txt", 1_000_000)
        .modified("b.txt", 1_000_000)
        .config("[[route]]\npath = \"/content/\"\netag = \"content\"\n[[route]]\npath = \"/off/\"\netag = \"off\"");
    let server = site.start();
    let etag = |path: &str| server.get(path).field("etag").map(str::to_owned);
    assert_ne!(etag("/a.txt"), etag("/b.txt"), "another inode is another file");
    assert_eq!(etag("/content/a.txt"), etag("/content/b.txt"));
    assert_ne!(etag("/content/a.txt"), etag("/content/c.txt"));
    assert_eq!(etag("/off/a.txt"), None);
    for path in ["/a.txt", "/content/a.txt"] {
        let etag = etag(path).expect("it has one");
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 2, "{etag} is strong");
        let response = server.connect().get_with(path, &format!("If-None-Match: {etag}\r\n"));
        assert_eq!((response.status, response.field("etag")), (304, Some(etag.as_str())));
    }
    assert_eq!(server.get("/off/a.txt").status, 200);
}

#[test]
fn the_server_field_can_be_changed_and_left_out() {
    for (config, expected) in [
        ("", Some("taipan")),
        ("server_header = \"something\"", Some("something")),
        ("server_header = false", None),
    ] {
        let server = Site::new().file("a", "a").config(config).start();
        let mut rows = Rows::new();
        for request in
            ["GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /b HTTP/1.1\r\nHost: a\r\n\r\n", "nonsense\r\n\r\n"]
        {
            rows.check(format!("{config} {request}"), server.request(request).field("server"), expected);
        }
    }
}

#[test]
fn answers_413_to_a_body_beyond_the_limit_of_the_route() {
    let server = Site::new()
        .file("a.txt", "a")
        .file("small/a.txt", "a")
        .config("[[route]]\npath = \"/small/\"\nmax_body = 10\n[limits]\nbody = 100")
        .start();
    let mut rows = Rows::new();
    for (path, length, status) in
        [("/a.txt", 100, 200), ("/a.txt", 101, 413), ("/small/a.txt", 10, 200), ("/small/a.txt", 11, 413)]
    {
        let body = "x".repeat(length);
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        rows.check(format!("{length} bytes to {path}"), server.request(request).status, status);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        );
        rows.check(format!("{length} bytes chunked to {path}"), server.request(request).status, status);
    }
}
