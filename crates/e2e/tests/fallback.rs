//! Fallbacks: front controllers in PHP as in WordPress, Symfony and Laravel, a built single-page application,
//! scripts, and applications by all three protocols. Rewrites that set a query.

use std::io::Write;

use e2e::upstream::upstream;
use e2e::{BackgroundProcess, Rows, Server, Site, command, output_of, path_of, php_fpm};

const WORDPRESS: &str = include_str!("programs/front/wordpress.php");
const SYMFONY: &str = include_str!("programs/front/symfony.php");
const ENVIRONMENT_APP: &str = include_str!("programs/front/environment.py");
const HTTP_APP: &str = include_str!("programs/http_app.py");
const SCGI_APP: &str = include_str!("programs/scgi_app.py");
const WRAPPER: &str = include_str!("../../../contrib/python/taipan.py");

/// A server for the hosts of `config`, with php-fpm as the application `php`.
fn with_php(site: Site, config: &str) -> (Server, BackgroundProcess) {
    let fpm = php_fpm(&site);
    let home = site.home().display().to_string();
    let application =
        format!("[[application]]\nname = \"php\"\naddress = \"unix:{home}/fpm.sock\"\nconnections = 4\n");
    let server = site.config_without_root(&format!("{config}\n{application}")).start();
    (server, fpm)
}

/// A host of this name, with the folder of that name as root, and PHP.
fn host(name: &str, line: &str) -> String {
    format!(
        "[[host]]\nnames = \"{name}\"\nroot = \"www/{name}\"\n{line}\n\
         [[host.route]]\npath = \"*.php\"\ninterpreter = \"php\"\n"
    )
}

/// The status, and the text after it.
fn request(server: &Server, host: &str, method: &str, target: &str, body: &str) -> String {
    let form = if body.is_empty() {
        String::new()
    } else {
        let length = body.len();
        format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n")
    };
    let mut client = server.connect();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{form}\r\n{body}");
    let response =
        if method == "HEAD" { client.send(head).read_response_to_head() } else { client.request(head) };
    let text = response.text();
    let printed = if text.starts_with("<!") || text.starts_with("<html") { "page" } else { &text };
    match response.field("location") {
        Some(location) => format!("{} to {location}", response.status),
        None => format!("{} {printed}", response.status),
    }
}

#[test]
fn one_line_configures_a_front_controller() {
    let wordpress = |home: &str| WORDPRESS.replace("HOME_PATH", &format!("'{home}'"));
    let site = Site::new()
        .every_protocol()
        .file("wordpress/index.php", wordpress("/"))
        .file("wordpress/wp-login.php", "<?php echo 'login of ', $_SERVER['SCRIPT_NAME'];")
        .file("wordpress/wp-admin/index.php", "<?php echo 'admin';")
        .file("wordpress/wp-content/style.css", "body {}")
        .file("wordpress/wp-content/uploads/a.txt", "upload")
        .file("wordpress/blog/index.php", wordpress("/blog"))
        .file("wordpress/.htaccess", "secret")
        .file("symfony/index.php", SYMFONY)
        .file("symfony/bundles/app.css", "a {}")
        .file("symfony/robots.txt", "robots")
        .file("laravel/index.php", SYMFONY)
        .file("laravel/build/manifest.json", "{}")
        .file("sub/app/index.php", SYMFONY);
    let config = [
        host("wordpress", "fallback = \"/index.php\""),
        "[[host.route]]\npath = \"/blog/\"\nfallback = \"/blog/index.php\"\n".to_owned(),
        host("symfony", "fallback = \"/index.php\""),
        host("laravel", "fallback = \"/index.php\""),
        host("sub", ""),
        "[[host.route]]\npath = \"/app/\"\nfallback = \"/app/index.php\"\n".to_owned(),
    ];
    let (server, _fpm) = with_php(site, &config.concat());
    let mut rows = Rows::new();
    for (host, method, target, body, expected) in [
        ("wordpress", "GET", "/", "", "200 wordpress GET [] [] []"),
        ("wordpress", "GET", "/2026/11/hello-world/", "", "200 wordpress GET [2026/11/hello-world] [] []"),
        ("wordpress", "GET", "/a%20b/%C3%A4", "", "200 wordpress GET [a b/ä] [] []"),
        ("wordpress", "GET", "/?p=1", "", "200 wordpress GET [] {\"p\":\"1\"} []"),
        ("wordpress", "GET", "/page?b=2&a=1", "", "200 wordpress GET [page] {\"a\":\"1\",\"b\":\"2\"} []"),
        (
            "wordpress",
            "POST",
            "/comment",
            "a=b&c=d",
            "200 wordpress POST [comment] [] {\"a\":\"b\",\"c\":\"d\"}",
        ),
        ("wordpress", "GET", "/gone", "", "404 wordpress GET [gone] [] []"),
        ("wordpress", "GET", "/sitemap.xml", "", "200 wordpress GET [sitemap.xml] [] []"),
        ("wordpress", "GET", "/robots.txt", "", "200 wordpress GET [robots.txt] [] []"),
        ("wordpress", "GET", "/old-page.html", "", "200 wordpress GET [old-page.html] [] []"),
        ("wordpress", "GET", "/none.php", "", "200 wordpress GET [none.php] [] []"),
        ("wordpress", "GET", "/index.php/feed", "", "200 wordpress GET [feed] [] []"),
        ("wordpress", "GET", "/wp-login.php", "", "200 login of /wp-login.php"),
        ("wordpress", "GET", "/wp-admin/", "", "200 admin"),
        ("wordpress", "GET", "/wp-admin", "", "301 to /wp-admin/"),
        ("wordpress", "GET", "/wp-content/style.css", "", "200 body {}"),
        ("wordpress", "GET", "/wp-content/none.css", "", "404 page"),
        ("wordpress", "GET", "/wp-content/none.js?ver=1", "", "404 page"),
        ("wordpress", "GET", "/wp-content/none.js.map", "", "404 page"),
        ("wordpress", "GET", "/favicon.ico", "", "404 page"),
        ("wordpress", "GET", "/font.woff2", "", "404 page"),
        ("wordpress", "GET", "/wp-content/uploads/a.txt", "", "200 upload"),
        ("wordpress", "GET", "/wp-content/uploads/", "", "200 wordpress GET [wp-content/uploads] [] []"),
        ("wordpress", "GET", "/wp-content/uploads?x=1", "", "301 to /wp-content/uploads/?x=1"),
        ("wordpress", "GET", "/.htaccess", "", "404 page"),
        ("wordpress", "GET", "/.env", "", "404 page"),
        ("wordpress", "GET", "/.well-known/x", "", "200 wordpress GET [.well-known/x] [] []"),
        ("wordpress", "GET", "/blog/2026/x", "", "200 wordpress GET [2026/x] [] []"),
        ("wordpress", "GET", "/blog/", "", "200 wordpress GET [] [] []"),
        ("wordpress", "HEAD", "/page", "", "200 "),
        ("symfony", "GET", "/", "", "200 symfony GET [] /  "),
        ("symfony", "GET", "/article/1?a=b", "", "200 symfony GET [] /article/1 a=b "),
        ("symfony", "PUT", "/article/1", "body", "200 symfony PUT [] /article/1  body"),
        ("symfony", "PATCH", "/article/1", "body", "200 symfony PATCH [] /article/1  body"),
        ("symfony", "DELETE", "/article/1", "", "200 symfony DELETE [] /article/1  "),
        ("symfony", "OPTIONS", "/api", "", "200 symfony OPTIONS [] /api  "),
        ("symfony", "POST", "/teapot", "x", "418 symfony POST [] /teapot  x"),
        ("symfony", "GET", "/index.php/article", "", "200 symfony GET [/index.php] /article  "),
        ("symfony", "GET", "/bundles/app.css", "", "200 a {}"),
        ("symfony", "GET", "/robots.txt", "", "200 robots"),
        ("symfony", "POST", "/robots.txt", "x", "405 page"),
        ("symfony", "POST", "/bundles/none.css", "x", "405 page"),
        ("symfony", "GET", "/api/report.pdf", "", "200 symfony GET [] /api/report.pdf  "),
        ("laravel", "GET", "/users/1/edit", "", "200 symfony GET [] /users/1/edit  "),
        ("laravel", "POST", "/login", "a=b", "200 symfony POST [] /login  a=b"),
        ("laravel", "GET", "/build/manifest.json", "", "200 {}"),
        ("laravel", "GET", "/build/", "", "200 symfony GET [] /build/  "),
        ("sub", "GET", "/app/", "", "200 symfony GET [/app] /  "),
        ("sub", "GET", "/app", "", "301 to /app/"),
        ("sub", "GET", "/app/a/b", "", "200 symfony GET [/app] /a/b  "),
        ("sub", "GET", "/other", "", "404 page"),
    ] {
        // Twice: the second time from the cache.
        for _ in 0..2 {
            rows.check(
                format!("{host} {method} {target}"),
                request(&server, host, method, target, body),
                expected.into(),
            );
        }
    }
    let options = server.request("OPTIONS /robots.txt HTTP/1.1\r\nHost: symfony\r\n\r\n");
    rows.check("OPTIONS of a file", options.field("allow"), Some("GET, HEAD, OPTIONS"));
}

#[test]
fn streams_bodies_to_a_fallback_and_keeps_the_connection() {
    let site = Site::new().every_protocol().file("a/index.php", SYMFONY).file("a/there.txt", "there");
    let (server, _fpm) = with_php(site, &host("a", "fallback = \"/index.php\""));
    let mut client = server.connect();
    let mut rows = Rows::new();
    for (head, body, expected) in [
        (
            "POST /x",
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            "200 symfony POST [] /x  abcde",
        ),
        ("POST /y", "Content-Length: 3\r\n\r\nabc", "200 symfony POST [] /y  abc"),
        ("GET /there.txt", "\r\n", "200 there"),
        ("GET /none.css", "\r\n", "404"),
        ("GET /z?q=1", "\r\n", "200 symfony GET [] /z q=1 "),
    ] {
        let response = client.request(format!("{head} HTTP/1.1\r\nHost: a\r\n{body}"));
        let found = match response.status {
            200 => format!("200 {}", response.text()),
            other => other.to_string(),
        };
        rows.check(head, found, expected.to_owned());
    }
    client.send("POST /wait HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    let invited = client.read_response_to_head();
    rows.check("100-continue", invited.status, 100);
    let response = client.request("body");
    rows.check(
        "after it",
        (response.status, response.text()),
        (200, "symfony POST [] /wait  body".to_owned()),
    );
}

#[test]
fn one_line_configures_a_single_page_application() {
    let site = Site::new().every_protocol()
        .file("index.html", "<!doctype html><div id=app></div><script type=module src=/assets/index-4f2a.js></script>")
        .file("assets/index-4f2a.js", "import './none.js'")
        .file("assets/index-4f2a.css", "#app {}")
        .file("vite.svg", "<svg/>")
        .config("fallback = \"/index.html\"\ncache_control = { \"/assets/\" = \"immutable\", \"*.html\" = \"no-cache\" }");
    let server = site.start();
    let mut rows = Rows::new();
    for (method, target, expected) in [
        ("GET", "/", (200, "text/html; charset=utf-8", "none")),
        ("GET", "/users/7", (200, "text/html; charset=utf-8", "no-cache")),
        ("GET", "/users/7/?tab=a", (200, "text/html; charset=utf-8", "no-cache")),
        ("GET", "/users/ann@example.org", (200, "text/html; charset=utf-8", "no-cache")),
        ("HEAD", "/users/7", (200, "text/html; charset=utf-8", "no-cache")),
        ("GET", "/assets/", (200, "text/html; charset=utf-8", "no-cache")),
        ("GET", "/assets/index-4f2a.js", (200, "text/javascript; charset=utf-8", "immutable")),
        ("GET", "/assets/index-old.js", (404, "text/html; charset=utf-8", "none")),
        ("GET", "/assets/index-old.css", (404, "text/html; charset=utf-8", "none")),
        ("GET", "/assets/index-old.JS", (404, "text/html; charset=utf-8", "none")),
        ("GET", "/assets/x.wasm", (404, "text/html; charset=utf-8", "none")),
        ("GET", "/logo.png", (404, "text/html; charset=utf-8", "none")),
        ("GET", "/.git/config", (404, "text/html; charset=utf-8", "none")),
        ("POST", "/users/7", (405, "text/html; charset=utf-8", "none")),
    ] {
        let mut client = server.connect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        let response = if method == "HEAD" { client.read_response_to_head() } else { client.read_response() };
        let field = |name| response.field(name).unwrap_or("none");
        let found = (response.status, field("content-type"), field("cache-control"));
        rows.check(format!("{method} {target}"), found, expected);
        if response.status == 200 && method == "GET" && expected.2 == "no-cache" {
            rows.holds(target, "it is the page", response.text().contains("<div id=app>"));
        }
    }
    // Conditions and ranges apply to the fallback file.
    let etag = server.get("/deep/link").field("etag").expect("a file has one").to_owned();
    let mut client = server.connect();
    rows.check("304", client.get_with("/other/link", &format!("If-None-Match: {etag}\r\n")).status, 304);
    let part = client.get_with("/other/link", "Range: bytes=0-8\r\n");
    rows.check("206", (part.status, part.text()), (206, "<!doctype".to_owned()));
}

#[test]
fn scripts_and_applications_of_every_protocol_can_be_fallbacks() {
    let python = path_of("python3");
    for (way, config, target) in [
        ("a CGI script", "fallback = \"/run.cgi\"\n[[route]]\npath = \"/run.cgi\"\ncgi = true", "/variables"),
        (
            "a query",
            "fallback = \"/run.cgi?p=$path&r=$rest\"\n[[route]]\npath = \"/run.cgi\"\ncgi = true",
            "/variables",
        ),
        (
            "FastCGI",
            "fallback = \"/app/\"\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
             command = [\"PYTHON\", \"-B\", \"HOME/environment.py\"]\nfolder = \"HOME\"",
            "/variables",
        ),
        (
            "FastCGI for a prefix",
            "[[route]]\npath = \"/some/\"\nfallback = \"/app\"\n[[route]]\npath = \"/app\"\napplication = \"app\"\n\
             [[application]]\nname = \"app\"\ncommand = [\"PYTHON\", \"-B\", \"HOME/environment.py\"]\nfolder = \"HOME\"",
            "/some/variables",
        ),
        (
            "SCGI",
            "fallback = \"/app/\"\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
             protocol = \"scgi\"\ncommand = [\"PYTHON\", \"-B\", \"HOME/scgi_app.py\"]\nfolder = \"HOME\"",
            "/variables",
        ),
        (
            "HTTP",
            "fallback = \"/app/\"\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
             protocol = \"http\"\ncommand = [\"PYTHON\", \"-B\", \"HOME/http_app.py\"]\nfolder = \"HOME\"",
            "/some/asked",
        ),
    ] {
        let site = Site::new()
            .file("there.txt", "there")
            .file_beside_root("taipan.py", WRAPPER)
            .file_beside_root("environment.py", ENVIRONMENT_APP)
            .file_beside_root("scgi_app.py", SCGI_APP)
            .file_beside_root("http_app.py", HTTP_APP)
            .script(
                "run.cgi",
                "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s %s %s %s ' \"$REQUEST_METHOD\" \"$SCRIPT_NAME\" \
                 \"$PATH_INFO\" \"$REQUEST_URI\" \"$QUERY_STRING\"\ncat\n",
            );
        let home = site.home().display().to_string();
        let server = site.config(&config.replace("PYTHON", &python).replace("HOME", &home)).start();
        let mut rows = Rows::new();
        let row = |what: &str| format!("{way}: {what}");
        let text = request(&server, "a", "GET", &format!("{target}?q=1"), "");
        let posted = request(&server, "a", "POST", target, "a=b");
        match way {
            "SCGI" => {
                for line in [
                    "SCRIPT_NAME=\n",
                    "PATH_INFO=/variables\n",
                    "REQUEST_URI=/variables?q=1\n",
                    "QUERY_STRING=q=1\n",
                ] {
                    rows.holds(row(line), "the application gets it", text.contains(line));
                }
                rows.holds(
                    row("POST"),
                    "the application gets its length",
                    posted.contains("CONTENT_LENGTH=3\n"),
                );
            }
            "HTTP" => {
                rows.holds(
                    row("GET"),
                    "the application gets the original request",
                    text.contains("\"line\": \"GET /some/asked?q=1 HTTP/1.1\""),
                );
                rows.holds(row("POST"), "it has the body", posted.contains("\"body\": \"a=b\""));
            }
            "FastCGI" => {
                rows.check(row("GET"), text, "200 GET  /variables /variables?q=1 q=1 ".to_owned());
                rows.check(row("POST"), posted, "200 POST  /variables /variables  a=b".to_owned());
            }
            "FastCGI for a prefix" => {
                rows.check(row("GET"), text, "200 GET /some /variables /some/variables?q=1 q=1 ".to_owned());
                rows.check(row("POST"), posted, "200 POST /some /variables /some/variables  a=b".to_owned());
            }
            "a query" => {
                let expected = "GET /run.cgi /variables /variables?q=1 p=/variables&r=variables&q=1 ";
                rows.check(row("GET"), text, format!("200 {expected}"));
                let posted_expected = "200 POST /run.cgi /variables /variables p=/variables&r=variables a=b";
                rows.check(row("POST"), posted, posted_expected.to_owned());
                let text = request(&server, "a", "GET", "/a%26b%3D%25/%C3%A4+?x", "");
                rows.holds(
                    row("encoded"),
                    "it is a value",
                    text.contains(" p=/a%26b%3D%25/%C3%A4%2B&r=a%26b%3D%25/%C3%A4%2B&x "),
                );
            }
            _ => {
                rows.check(row("GET"), text, "200 GET /run.cgi /variables /variables?q=1 q=1 ".to_owned());
                rows.check(row("POST"), posted, "200 POST /run.cgi /variables /variables  a=b".to_owned());
            }
        }
        rows.check(row("a file"), request(&server, "a", "GET", "/there.txt", ""), "200 there".to_owned());
        rows.check(row("to a file"), request(&server, "a", "POST", "/there.txt", "x"), "405 page".to_owned());
    }
}

#[test]
fn answers_404_without_a_loop_when_the_fallback_is_missing() {
    let site = Site::new().every_protocol()
        .file("index.html", "own")
        .file("listed/a.txt", "a")
        .file("folder/x.txt", "x")
        .file("errors/404.html", "own page")
        .file("real/index.html", "real index")
        .symlink("out", "/etc/passwd")
        .config(
            "[[route]]\npath = \"/a/\"\nfallback = \"/a/none.html\"\n\
             [[route]]\npath = \"/b/\"\nfallback = \"/c/none\"\n\
             [[route]]\npath = \"/c/\"\nfallback = \"/b/none\"\nerror_pages = { 404 = \"/errors/404.html\" }\n\
             [[route]]\npath = \"/d/\"\nfallback = \"/folder\"\n\
             [[route]]\npath = \"/e/\"\nfallback = \"/real/\"\n\
             [[route]]\npath = \"/f/\"\nfallback = \"/none.cgi\"\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[route]]\npath = \"/g/\"\nfallback = \"/moved\"\n\
             [[route]]\npath = \"/moved\"\nredirect = \"/index.html\"\n\
             [[route]]\npath = \"/listed/\"\nlisting = true\nfallback = \"/index.html\"\n\
             [[route]]\npath = \"/out\"\nfallback = \"/index.html\"\n\
             [[route]]\npath = \"/all/\"\nfallback = \"/index.html\"\nfallback_for = \"all\"\n\
             [[route]]\npath = \"/all/not/\"\nfallback = false\n\
             [[route]]\npath = \"/none/\"\nreturn = 404\nfallback = \"/index.html\"\n",
        );
    let server = site.start();
    let mut rows = Rows::new();
    for (method, target, expected) in [
        ("GET", "/a/x", "404 page"),
        ("GET", "/a/none.html", "404 page"),
        ("GET", "/b/x", "404 own page"),
        ("GET", "/c/x", "404 page"),
        ("GET", "/d/x", "404 page"),
        ("GET", "/e/x", "200 real index"),
        ("GET", "/f/x", "404 page"),
        ("POST", "/f/x", "404 page"),
        ("GET", "/g/x", "302 to /index.html"),
        ("GET", "/listed/", "200 page"),
        ("GET", "/listed/none", "200 own"),
        ("GET", "/out", "403 page"),
        ("GET", "/all/x.js", "200 own"),
        ("GET", "/all/not/x", "404 page"),
        ("GET", "/none/x", "404 page"),
        ("GET", "/x", "404 page"),
    ] {
        for _ in 0..2 {
            rows.check(
                format!("{method} {target}"),
                request(&server, "a", method, target, ""),
                expected.into(),
            );
        }
    }
}

#[test]
fn applies_access_rules_to_a_fallback() {
    let site = Site::new()
        .every_protocol()
        .file("guarded/index.html", "guarded")
        .file("open.txt", "open")
        .file_beside_root("guard.py", include_str!("programs/guard.py"))
        .file_beside_root("taipan.py", WRAPPER);
    let home = site.home().display().to_string();
    let python = path_of("python3");
    let server = site
        .config(&format!(
            "fallback = \"/guarded/index.html\"\n[[route]]\npath = \"/guarded/\"\nauthorizer = \"guard\"\n\
             [[application]]\nname = \"guard\"\ncommand = [\"{python}\", \"-B\", \"{home}/guard.py\"]"
        ))
        .start();
    let mut rows = Rows::new();
    for _ in 0..2 {
        for (fields, expected) in [("", 401), ("Authorization: Basic YTpi\r\n", 200)] {
            let response = server.connect().get_with("/none", fields);
            rows.check(format!("/none {fields}"), response.status, expected);
        }
        rows.check("/open.txt", server.get("/open.txt").status, 200);
    }
}

#[test]
fn explain_names_the_fallback() {
    let site = Site::new().every_protocol().file("index.php", "").config(
        "[[route]]\npath = \"*.php\"\ninterpreter = \"/bin/cat\"\n\
         [[route]]\npath = \"/wiki/\"\nfallback = \"/index.php?id=$rest\"\n\
         [[route]]\npath = \"/none/\"\nfallback = \"/none/index.html\"\n",
    );
    let file = site.write_config();
    let mut rows = Rows::new();
    for (target, lines) in [
        (
            "/wiki/a?b",
            &[
                "route     /wiki/: files beneath",
                "found     nothing\nfallback  /index.php\nroute     *.php: scripts beneath",
                "as        SCRIPT_NAME /index.php\n          PATH_INFO /wiki/a\n",
                "          QUERY_STRING id=a&b\nresponse  the output of the script",
            ][..],
        ),
        ("/none/x", &["fallback  /none/index.html\n", "HTTP/1.1 404 Not Found"]),
        ("/wiki/x.css", &["found     nothing\nresponse\n", "HTTP/1.1 404 Not Found"]),
    ] {
        let output = output_of(command().args(["explain", "-c"]).arg(&file).args(["GET", target]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in lines {
            rows.holds(format!("{target}\n{text}"), line, text.contains(line));
        }
    }
}

/// What PHP finds in its variables, as JSON.
const QUERY: &str = "<?php echo basename(__FILE__), ' ', json_encode($_GET), ' ', $_SERVER['QUERY_STRING'] ?? 'none', \
                     ' of ', $_SERVER['REQUEST_URI'];";

#[test]
fn a_rewrite_sets_the_query_of_a_script() {
    let site = Site::new()
        .every_protocol()
        .file("wiki/doku.php", QUERY)
        .file("wiki/lib/exe/fetch.php", QUERY)
        .file("wiki/_media/here.txt", "a file")
        .file("wiki/secret/x.txt", "secret");
    let rewrites = r#"
rewrites."/_media/" = "/lib/exe/fetch.php?media=$rest"
rewrites."/_export/*/**" = "/doku.php?do=export_$1&id=$2"
rewrites."/only/" = "/doku.php?id=$rest?"
rewrites."/own/" = "/doku.php?$query&id=$rest"
rewrites."/none" = "/doku.php?"
rewrites."/twice/" = "/only/$rest?x=$rest"
rewrites."/long/" = "/doku.php?$rest$rest$rest$rest$rest"
rule = [{ path = "/secret/", then = "deny" }, { path = "/lib/", method = "POST", then = "deny" }]
fallback = "/doku.php?id=$rest"
fallback_for = "all"
"#;
    let (server, _fpm) = with_php(site, &host("wiki", rewrites));
    let mut rows = Rows::new();
    for (method, target, expected) in [
        ("GET", "/_media/a.png", r#"200 fetch.php {"media":"a.png"} media=a.png of /_media/a.png"#),
        (
            "GET",
            "/_media/here.txt?w=2",
            r#"200 fetch.php {"media":"here.txt","w":"2"} media=here.txt&w=2 of /_media/here.txt?w=2"#,
        ),
        (
            "GET",
            "/_export/x%20y/a:b/c?do=edit",
            r#"200 doku.php {"do":"edit","id":"a:b\/c"} do=export_x%20y&id=a:b/c&do=edit of /_export/x%20y/a:b/c?do=edit"#,
        ),
        // A client's path is a value, and no further parameter.
        (
            "GET",
            "/_media/a%26media=b%23c+d%2541%3De",
            r#"200 fetch.php {"media":"a&media=b#c+d%41=e"} media=a%26media%3Db%23c%2Bd%2541%3De of /_media/a%26media=b%23c+d%2541%3De"#,
        ),
        ("GET", "/_media/%C3%A4", r#"200 fetch.php {"media":"\u00e4"} media=%C3%A4 of /_media/%C3%A4"#),
        ("GET", "/_media/a%0Ab", "400 page"),
        ("GET", "/only/a?id=b", r#"200 doku.php {"id":"a"} id=a of /only/a?id=b"#),
        ("GET", "/own/a?id=b&c", r#"200 doku.php {"id":"a","c":""} id=b&c&id=a of /own/a?id=b&c"#),
        ("GET", "/own/a", r#"200 doku.php {"id":"a"} id=a of /own/a"#),
        ("GET", "/none?id=b", "200 doku.php []  of /none?id=b"),
        ("GET", "/twice/a?b", r#"200 doku.php {"id":"a"} id=a of /twice/a?b"#),
        ("GET", "/page?x", r#"200 doku.php {"id":"page","x":""} id=page&x of /page?x"#),
        // The path alone decides what is served, and who may have it.
        ("GET", "/secret/x.txt?/public", "403 page"),
        ("POST", "/_media/a", "403 page"),
        ("HEAD", "/_media/a.png", "200 "),
    ] {
        // Twice: the second time from the cache.
        for _ in 0..2 {
            let found = request(&server, "wiki", method, target, "");
            rows.check(format!("{method} {target}"), found, expected.to_owned());
        }
    }
    // The target has less than 8 KiB, and the query more than 32.
    let long = format!("/long/{}", "%C3%A4".repeat(1300));
    rows.check("a long path", request(&server, "wiki", "GET", &long, ""), "414 page".to_owned());
    let file = server.home().join("site.toml");
    let output =
        output_of(command().args(["explain", "-c"]).arg(&file).args(["GET", "http://wiki/_media/a%26b?c"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in ["rewritten /lib/exe/fetch.php\n", "          QUERY_STRING media=a%26b&c\n"] {
        rows.holds(text.clone(), line, text.contains(line));
    }
}

/// An upstream that responds with the first line of each request, and may be cached.
fn first_lines() -> String {
    upstream(|mut stream, head| {
        let line = head.lines().next().unwrap_or_default();
        let fields = "Cache-Control: max-age=60\r\nConnection: close\r\n";
        write!(stream, "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{line}", line.len())
    })
}

#[test]
fn an_application_gets_the_target_of_a_rewrite_with_a_query() {
    let url = first_lines();
    let site = Site::new().every_protocol().config(&format!(
        r#"
rewrites."/p/*" = "/app/show?id=$1"
rewrites."/q/*" = "/app/show?id=$1?"
rewrites."/dots/*" = "/app/.$1?x"
rewrites."/kept/" = "/app/$rest"
[[route]]
path = "/app/"
proxy = "{url}/api/"
[[route]]
path = "/f/"
fallback = "/app/x?id=$rest"
"#
    ));
    let server = site.start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/p/1", "GET /api/show?id=1 HTTP/1.1"),
        ("/p/2?x=y", "GET /api/show?id=2&x=y HTTP/1.1"),
        ("/p/a%26b%20c", "GET /api/show?id=a%26b%20c HTTP/1.1"),
        ("/q/1?x=y", "GET /api/show?id=1 HTTP/1.1"),
        ("/dots/a", "GET /api/.a?x HTTP/1.1"),
        // Without a query of its own, a rewrite leaves the target as it was sent.
        ("/kept/x?id=1", "GET /api/kept/x?id=1 HTTP/1.1"),
        ("/f/a%26b?y", "GET /api/f/a&b?id=a%26b&y HTTP/1.1"),
    ] {
        rows.check(target, server.get(target).text(), expected.to_owned());
    }
    rows.check("dots put together", server.get("/dots/.;x").status, 400);
    let file = server.home().join("site.toml");
    let output = output_of(command().args(["explain", "-c"]).arg(file).args(["GET", "/p/a%26b?c"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = "as        GET /api/show?id=a%26b&c\n";
    rows.holds(text.clone(), line, text.contains(line));
}

#[test]
fn the_cache_tells_the_queries_of_rewrites_apart() {
    let url = first_lines();
    let server = Site::new()
        .config(&format!(
            r#"
workers = 1
rewrites."/p/*" = "/app/show?id=$1"
rewrites."/q/*" = "/app/show?id=$1?"
[[route]]
path = "/app/"
proxy = "{url}"
response_cache = true
response_cache_query = ["id"]
"#
        ))
        .start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/p/1", "stored GET /app/show?id=1 HTTP/1.1"),
        ("/p/1", "hit GET /app/show?id=1 HTTP/1.1"),
        ("/p/2", "stored GET /app/show?id=2 HTTP/1.1"),
        ("/p/2?id=9", "stored GET /app/show?id=2&id=9 HTTP/1.1"),
        // This parameter does not count, as without a rewrite.
        ("/p/2?x=y", "hit GET /app/show?id=2 HTTP/1.1"),
        ("/q/2", "stored GET /app/show?id=2 HTTP/1.1"),
        ("/app/show?id=2", "stored GET /app/show?id=2 HTTP/1.1"),
        ("/app/show?id=1", "stored GET /app/show?id=1 HTTP/1.1"),
    ] {
        let response = server.get(target);
        let status = response.field("cache-status").unwrap_or_default();
        let did = if status.contains("hit") { "hit" } else { "stored" };
        rows.check(target, format!("{did} {}", response.text()), expected.to_owned());
    }
}

#[test]
fn refuses_a_rewrite_whose_query_has_unknown_variables() {
    let mut rows = Rows::new();
    for (rewrite, expected) in [
        (r#""/a/*" = "/b?c=$2""#, "$2 stands for nothing: the wildcards of \"/a/*\" are 1"),
        (r#""/a/" = "/b?c=$1""#, "$1 needs a pattern with wildcards; a prefix has $rest"),
        (r#""/a" = "/b?c=$rest""#, "$rest needs a prefix as pattern; use $path"),
        (r#""/a" = "/b?c=$host""#, "its query knows only $path, $rest, $1 to $9 and $query"),
        (r#""/a" = "/b?c=50%""#, "write a percent sign as %25"),
        (r#""/a" = "/b?c#d""#, "write a number sign as %23"),
    ] {
        let site = Site::new().config(&format!("rewrites = {{ {rewrite} }}\n"));
        let output = output_of(command().args(["check", "-c"]).arg(site.write_config()));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.holds(text.clone(), expected, text.contains(expected) && !output.status.success());
    }
}
