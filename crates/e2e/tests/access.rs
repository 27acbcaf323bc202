//! Rules of access: they hold for what is really served, whatever its name in the request.

use std::fs;
use std::process::Command;

use e2e::{Rows, Server, Signal, Site, TIMEOUT, gzip, program, wait_until};

/// Gzip data of `text`.
/// The status of a GET from `client`, which a trusted proxy reports.
fn status(server: &Server, client: &str, target: &str, fields: &str) -> u16 {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: www.example\r\nX-Forwarded-For: {client}\r\n{fields}Connection: close\r\n\r\n"
    );
    server.request(request).status
}

fn site(rules: &str) -> Site {
    Site::new()
        .every_protocol()
        .file("index.html", "home\n")
        .file("private/index.html", "private\n")
        .file("private/a.css", "a { color: red }\n")
        .file("docs/index.html", "docs\n")
        .file("docs/a.html", "a\n")
        .file("docs/only.html.gz", gzip("only\n"))
        .file("pictures/a.jpg", "jpg\n")
        .file("list/open.txt", "open\n")
        .file("list/secret.txt", "secret\n")
        .folder("list/hidden")
        .file("forbidden.html", "a page of its own\n")
        .script("cgi-bin/a.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nscript\\n'\n")
        .config(&format!("trusted_proxies = \"127.0.0.0/8\"\nlisting = true\n{rules}"))
}

#[test]
fn a_rule_asks_for_the_address_that_the_connection_was_made_to() {
    let mut rows = Rows::new();
    for (addresses, expected) in [
        // The protocols have an address each.
        ("\"127.0.0.0/30\"", 403),
        ("[\"127.0.0.0/8\", \"!127.0.0.0/30\"]", 200),
        ("\"!127.0.0.0/8\"", 200),
        ("\"!10.0.0.0/8\"", 403),
        ("\"192.0.2.0/24\"", 200),
    ] {
        let rule = format!(
            "[[rule]]\nserver_address = {addresses}\npath = [\"/private/\", \"/cgi-bin/\"]\nthen = \"deny\"\n"
        );
        let server = site(&rule).start();
        for target in ["/private/", "/private/a.css", "/cgi-bin/a.cgi"] {
            // From the disk, and from the cache.
            for _ in 0..2 {
                rows.check(
                    format!("{addresses} {target}"),
                    status(&server, "192.0.2.1", target, ""),
                    expected,
                );
            }
        }
        rows.check(format!("{addresses} /"), status(&server, "192.0.2.1", "/", ""), 200);
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let server = site(
        "[[rule]]\naddress = [\"10.0.0.0/8\", \"!10.0.0.99\", \"2001:db8::/32\"]\nthen = \"allow\"\n\
         [[rule]]\npath = \"/private/\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/docs/a.html\"\nmethod = \"GET\"\nthen = \"deny\"\nstatus = 410\n\
         [[rule]]\nuser_agent = \"*bot*\"\nthen = \"deny\"\nstatus = 429\n\
         [[rule]]\npath = \"/docs/\"\nquery = [\"*<script*\", \"debug=*\", \"!debug=0\"]\nthen = \"deny\"\nstatus = 404\n\
         [[rule]]\nfield = { X-Key = \"!good\" }\npath = \"/list/\"\nthen = \"deny\"\n\
         [[rule]]\nhost = \"evil.*\"\nthen = \"deny\"\n",
    )
    .start();
    let mut rows = Rows::new();
    for (client, target, fields, expected) in [
        ("192.0.2.1", "/", "", 200),
        ("192.0.2.1", "/private/", "", 403),
        ("192.0.2.1", "/private", "", 403),
        ("192.0.2.1", "/private/missing", "", 403),
        ("10.0.0.1", "/private/", "", 200),
        ("10.0.0.99", "/private/", "", 403),
        ("2001:db8::1", "/private/", "", 200),
        ("2001:db9::1", "/private/", "", 403),
        ("192.0.2.1", "/docs/a.html", "", 410),
        ("10.9.9.9", "/docs/a.html", "", 200),
        ("192.0.2.1", "/", "User-Agent: SomeBot/1.0\r\n", 429),
        ("192.0.2.1", "/docs/?a=b", "", 200),
        ("192.0.2.1", "/docs/?debug=1", "", 404),
        ("192.0.2.1", "/docs/?DE%62UG=", "", 404),
        ("192.0.2.1", "/docs/?debug=0", "", 200),
        ("192.0.2.1", "/docs/?a=%3Cscript+x%3E", "", 404),
        ("192.0.2.1", "/docs/?a=%3cScript%", "", 404),
        ("192.0.2.1", "/docs/debug=1", "", 404),
        ("192.0.2.1", "/?debug=1", "", 200),
        ("192.0.2.1", "/list/open.txt", "", 403),
        ("192.0.2.1", "/list/open.txt", "X-Key: bad\r\n", 403),
        ("192.0.2.1", "/list/open.txt", "X-Key: good\r\n", 200),
    ] {
        let found = status(&server, client, target, fields);
        rows.check(format!("{client} {target} {fields:?}"), found, expected);
    }
    let host = server.request("GET / HTTP/1.1\r\nHost: EVIL.example:80\r\nConnection: close\r\n\r\n");
    rows.check("a host", host.status, 403);
}

/// Many applications take `post` for POST.
#[test]
fn a_rule_for_a_method_is_for_it_in_any_case_of_letters() {
    let server = site(
        "[[rule]]\nmethod = [\"POST\", \"DELETE\"]\nthen = \"deny\"\n\
         [[rule]]\npath = \"/cgi-bin/\"\nmethod = [\"!GET\", \"!HEAD\", \"!OPTIONS\"]\nthen = \"deny\"\nstatus = 405\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n",
    )
    .start();
    let mut rows = Rows::new();
    for (method, expected) in [
        ("GET", 200),
        ("get", 200),
        ("POST", 403),
        ("post", 403),
        ("Post", 403),
        ("DELETE", 403),
        ("delete", 403),
        ("PUT", 405),
        ("put", 405),
        ("POSTS", 405),
    ] {
        let request = format!("{method} /cgi-bin/a.cgi HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        rows.check(method, server.request(request).status, expected);
    }
}

/// HEAD tells of what GET would have.
#[test]
fn a_rule_for_get_is_for_head_too() {
    let server = site(
        "[[rule]]\npath = \"/docs/\"\nmethod = \"GET\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/list/\"\nmethod = \"!GET\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/private/\"\nmethod = [\"GET\", \"!HEAD\"]\nthen = \"deny\"\n",
    )
    .start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/docs/a.html", [403, 403, 405]),
        ("/list/open.txt", [200, 200, 403]),
        ("/private/", [403, 200, 405]),
    ] {
        let statuses = ["GET", "HEAD", "POST"].map(|method| {
            let text = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            let mut client = server.connect();
            client.send(text);
            match method {
                "HEAD" => client.read_response_to_head().status,
                _ => client.read_response().status,
            }
        });
        rows.check(path, statuses, expected);
    }
}

#[test]
fn a_rule_redirects_by_the_query_and_by_fields() {
    let server = site(
        "[[rule]]\naddress = \"192.0.2.9\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/.\"\nquery = [\"p=12\", \"p=12&*\"]\nthen = \"redirect\"\nto = \"/hello\"\nstatus = 301\n\
         [[rule]]\npath = \"/.\"\nuser_agent = \"DavClnt*\"\nthen = \"redirect\"\nto = \"/dav/$query\"\n\
         [[rule]]\npath = \"/docs/index.html\"\nquery = \"old\"\nthen = \"redirect\"\nto = \"https://$host/new$path\"\nstatus = 308\n\
         [[rule]]\npath = \"/cgi-bin/\"\nquery = \"id=*\"\nthen = \"redirect\"\nto = \"/by/$rest$query\"\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n\
         [[route]]\npath = \"/users/\"\nauth = \"basic\"\nusers = { ann = \"{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\" }\n\
         [[route.rule]]\nquery = \"p=1\"\nthen = \"redirect\"\nto = \"/open\"\n",
    )
    .start();
    let facts = |client: &str, target: &str, fields: &str| {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: www.example\r\nX-Forwarded-For: {client}\r\n{fields}Connection: close\r\n\r\n"
        );
        let response = server.request(request);
        format!("{} {}", response.status, response.field("location").unwrap_or_default())
    };
    let mut rows = Rows::new();
    for (target, fields, expected) in [
        // From the disk, and then from the cache.
        ("/", "", "200 "),
        ("/", "", "200 "),
        ("/?p=12", "", "301 /hello"),
        ("/?%70=12", "", "301 /hello"),
        ("/?p=12&x", "", "301 /hello"),
        ("/?p=120", "", "200 "),
        ("/docs/?p=12", "", "200 "),
        ("/", "User-Agent: DavClnt/1\r\n", "302 /dav/"),
        ("/?a=b", "User-Agent: DavClnt/1\r\n", "302 /dav/?a=b"),
        // An index file is for its folder, too. The path is that of the request.
        ("/docs/?old", "", "308 https://www.example/new/docs/"),
        ("/docs/index.html?old", "", "308 https://www.example/new/docs/index.html"),
        ("/docs/?new", "", "200 "),
        ("/cgi-bin/a.cgi/b%20c?id=7", "", "302 /by/cgi-bin/a.cgi/b%20c?id=7"),
        ("/cgi-bin/a.cgi?x", "", "200 "),
        ("/users/?p=1", "", "302 /open"),
        ("/users/?p=2", "", "401 "),
    ] {
        rows.check(format!("{target} {fields}"), facts("192.0.2.1", target, fields).as_str(), expected);
    }
    rows.check("denied before", facts("192.0.2.9", "/?p=12", "").as_str(), "403 ");
}

#[test]
fn every_spelling_of_a_path_has_the_same_rules() {
    let server = site(
        "gunzip = true\nrewrites = { \"/alias/\" = \"/private/$rest\" }\n\
         [[rule]]\npath = [\"/private/\", \"/docs/only.html\", \"/list/secret.txt\"]\nthen = \"deny\"\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n\
         [[route.rule]]\npath = \"/cgi-bin/a.cgi\"\naddress = \"192.0.2.0/24\"\nthen = \"deny\"\n",
    )
    .start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/private/index.html", 403),
        ("/%70rivate/", 403),
        ("//private//", 403),
        ("/./private/.", 403),
        ("/docs/../private/", 403),
        ("/docs/%2e%2e/private/", 403),
        ("/private/?x", 403),
        ("http://www.example/private/", 403),
        ("/alias/index.html", 403),
        ("/docs/only.html", 403),
        ("/docs/only.html.gz", 403),
        ("/docs/a.html", 200),
        ("/cgi-bin/a.cgi", 403),
        ("/cgi-bin/a.cgi/path/info", 403),
        ("/cgi-bin/a.cgi/", 403),
        ("/list/secret.txt/", 403),
    ] {
        let found = status(&server, "192.0.2.7", target, "");
        rows.check(target, found, expected);
    }
    let script = status(&server, "198.51.100.1", "/cgi-bin/a.cgi/path", "");
    rows.check("another client", script, 200);
}

#[test]
fn an_index_file_has_its_own_rules_and_those_of_its_folder() {
    let server = site(
        "[[rule]]\npath = \"/docs/index.html\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/private/index.html\"\nthen = \"allow\"\n\
         [[rule]]\npath = \"/private/\"\nthen = \"deny\"\n",
    )
    .start();
    for (target, expected) in
        [("/docs/", 403), ("/docs/a.html", 200), ("/private/index.html", 200), ("/private/", 403), ("/", 200)]
    {
        assert_eq!(status(&server, "192.0.2.1", target, ""), expected, "{target}");
        // From the cache, too.
        assert_eq!(status(&server, "192.0.2.1", target, ""), expected, "{target}, again");
    }
}

#[test]
fn a_listing_leaves_out_what_its_client_may_not_have() {
    let server = site(
        "[[rule]]\npath = [\"/list/secret.txt\", \"/list/hidden/\"]\naddress = \"!10.0.0.1\"\nthen = \"deny\"\n",
    )
    .start();
    let listing = |client: &str| {
        let request = format!(
            "GET /list/ HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n"
        );
        server.request(request).text()
    };
    for _ in 0..2 {
        let (stranger, friend) = (listing("192.0.2.1"), listing("10.0.0.1"));
        assert!(stranger.contains("open.txt"), "{stranger}");
        assert!(!stranger.contains("secret.txt") && !stranger.contains("hidden/"), "{stranger}");
        assert!(friend.contains("secret.txt") && friend.contains("hidden/"), "{friend}");
    }
}

/// What is denied has another route than its folder.
#[test]
fn a_listing_leaves_out_what_another_route_denies() {
    const NAMES: [&str; 3] = ["open.txt", "secret.txt", "hidden/"];
    let denies = |pattern: &str| {
        format!("[[route]]\npath = \"{pattern}\"\n[[route.rule]]\naddress = \"!10.0.0.1\"\nthen = \"deny\"\n")
    };
    let allows_folder = "[[route]]\npath = \"/list/.\"\n[[route.rule]]\nthen = \"allow\"\n";
    let mut rows = Rows::new();
    for (rules, path, hidden) in [
        (denies("/list/secret.txt"), "/list/", &["secret.txt"][..]),
        (denies("/list/hidden/"), "/list/", &["hidden/"]),
        (denies("/list/sec*"), "/list/", &["secret.txt"]),
        (denies("secret.*"), "/list/", &["secret.txt"]),
        (denies("(?i)/LIST/SEC*"), "/list/", &["secret.txt"]),
        (denies("(?i)/**/HIDDEN"), "/list/", &["hidden/"]),
        (denies("/list/hidden/deeper/"), "/list/", &[]),
        // The folder alone is for all.
        (
            format!("[[rule]]\naddress = \"!10.0.0.1\"\nthen = \"deny\"\n{allows_folder}"),
            "/list/",
            &["open.txt", "secret.txt", "hidden/"],
        ),
        (denies("/list/") + allows_folder, "/list/", &["open.txt", "secret.txt", "hidden/"]),
        (
            "rewrites = { \"/alias/\" = \"/list/$rest\" }\n".to_owned() + &denies("/list/secret.txt"),
            "/alias/",
            &["secret.txt"],
        ),
        (
            "rewrites = { \"/list/open.txt\" = \"/private/a.css\" }\n".to_owned() + &denies("/private/"),
            "/list/",
            &["open.txt"],
        ),
    ] {
        let server = site(&rules).start();
        let listed = |client: &str| {
            let response = server.request(format!(
                "GET {path} HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n"
            ));
            NAMES.map(|name| response.text().contains(name))
        };
        for round in ["at first", "again"] {
            let row = format!("{rules} {path} {round}");
            rows.check(&row, listed("10.0.0.1"), [true; 3]);
            rows.check(&row, listed("192.0.2.1"), NAMES.map(|name| !hidden.contains(&name)));
        }
    }
}

#[test]
fn an_error_page_is_shown_to_those_who_may_have_it() {
    let server = site(
        "error_pages = { 403 = \"/forbidden.html\" }\n\
         [[rule]]\naddress = \"192.0.2.0/24\"\nthen = \"deny\"\n\
         [[rule]]\npath = \"/private/\"\nthen = \"deny\"\n",
    )
    .start();
    let page = |client: &str| {
        let request = format!(
            "GET /private/ HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n"
        );
        let response = server.request(request);
        assert_eq!(response.status, 403, "{client}");
        response.text()
    };
    assert_eq!(page("198.51.100.1"), "a page of its own\n");
    assert!(!page("192.0.2.1").contains("of its own"), "that client may have nothing");
}

#[test]
fn an_error_page_has_the_rules_of_the_file_that_stands_for_it() {
    let server = site(
        "error_pages = { 404 = \"/errors/404.html\", 410 = \"/gone\", 451 = \"/errors/451.html\" }\n\
         rewrites = { \"/gone\" = \"/docs/\" }\nlanguages = [\"en\", \"de\"]\n\
         [[rule]]\npath = [\"/errors/404.de.html\", \"/docs/index.html\", \"*.gz\"]\nthen = \"deny\"\n\
         [[route]]\npath = \"/old/\"\nreturn = 410\n[[route]]\npath = \"/law/\"\nreturn = 451\n",
    )
    .file("errors/404.en.html", "english\n")
    .file("errors/404.de.html", "deutsch\n")
    .file("errors/451.html", "law\n")
    .file("errors/451.html.gz", gzip("law, compressed\n"))
    .start();
    let mut rows = Rows::new();
    for (target, fields, own) in [
        ("/missing", "Accept-Language: en\r\n", true),
        ("/missing", "Accept-Language: de\r\n", false),
        ("/old/", "", false),
        ("/law/", "", true),
        ("/law/", "Accept-Encoding: gzip\r\n", false),
    ] {
        // From the disk, and from the cache.
        for _ in 0..2 {
            let response = server
                .request(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}Connection: close\r\n\r\n"));
            let is_built_in = response.text().starts_with("<!DOCTYPE html>");
            rows.check(format!("{target} {fields:?} {}", response.status), !is_built_in, own);
        }
    }
}

/// A rewrite may lead to a folder whose index file has the name of the request by chance.
#[test]
fn what_a_rewrite_leads_to_has_its_own_rules() {
    let server = site(
        "rewrites = { \"/old/index.html\" = \"/docs/\", \"/old/x.de.html\" = \"/pages/x.html\" }\n\
         languages = [\"en\", \"de\"]\n\
         [[rule]]\npath = [\"/docs/index.html\", \"/pages/x.de.html\"]\nthen = \"deny\"\n",
    )
    .file("pages/x.en.html", "english\n")
    .file("pages/x.de.html", "deutsch\n")
    .start();
    let mut rows = Rows::new();
    for (target, language, expected) in [
        ("/docs/", "en", 403),
        ("/old/index.html", "en", 403),
        ("/pages/x.html", "de", 403),
        ("/old/x.de.html", "de", 403),
        ("/old/x.de.html", "en", 200),
    ] {
        for _ in 0..2 {
            let found = status(&server, "192.0.2.1", target, &format!("Accept-Language: {language}\r\n"));
            rows.check(format!("{target} {language}"), found, expected);
        }
    }
}

#[test]
fn a_glob_within_a_folder_obeys_the_rules_of_both() {
    let server = site(
        "[[route]]\npath = \"/private/\"\n[[route.rule]]\naddress = \"192.0.2.0/24\"\nthen = \"deny\"\n\
         [[route]]\npath = \"*.css\"\n[[route.rule]]\nthen = \"allow\"\n",
    )
    .start();
    assert_eq!(status(&server, "192.0.2.1", "/private/a.css", ""), 403);
    assert_eq!(status(&server, "198.51.100.1", "/private/a.css", ""), 200);
}

#[test]
fn pictures_are_not_linked_from_other_sites() {
    let server = site(
        "[[rule]]\npath = \"*.jpg\"\nreferer = [\"!self\", \"!*.friend.example\", \"!http://news.example/today/*\"]\n\
         then = \"deny\"\n",
    )
    .start();
    for (referer, expected) in [
        ("http://www.example/page", 200),
        ("https://WWW.EXAMPLE:8443/", 200),
        ("http://a.friend.example/x", 200),
        ("http://news.example/today/1", 200),
        ("http://news.example/other", 403),
        ("http://evil.example/?www.example", 403),
        ("http://www.example@evil.example/", 403),
        ("http://www.example.evil/", 403),
        ("nonsense", 403),
        ("", 403),
    ] {
        let fields = if referer.is_empty() { String::new() } else { format!("Referer: {referer}\r\n") };
        assert_eq!(status(&server, "192.0.2.1", "/pictures/a.jpg", &fields), expected, "{referer:?}");
    }
    assert_eq!(status(&server, "192.0.2.1", "/", "Referer: http://evil.example/\r\n"), 200);
}

#[test]
fn a_file_of_addresses_is_read_at_a_reload() {
    // Without the other protocols: repeated requests may reach the old configuration.
    let site = Site::new()
        .file("index.html", "home\n")
        .config(
            "trusted_proxies = \"127.0.0.0/8\"\n[[rule]]\naddress_file = \"blocked.txt\"\nthen = \"deny\"\n",
        )
        .file_beside_root("blocked.txt", "# two\n192.0.2.0/25  # a comment\n\n2001:db8::1\n");
    let server = site.start();
    for (client, expected) in [("192.0.2.1", 403), ("192.0.2.200", 200), ("2001:db8::1", 403)] {
        assert_eq!(status(&server, client, "/", ""), expected, "{client}");
    }
    server.files().file("blocked.txt", "");
    server.signal(Signal::HUP);
    let is_allowed = || status(&server, "192.0.2.1", "/", "") == 200;
    assert!(wait_until(TIMEOUT, is_allowed));
}

#[test]
fn check_names_what_is_wrong_with_rules() {
    let site = Site::new().file_beside_root("bad.txt", "10.0.0.0/8\nexample.org\n");
    let rows = [
        ("[[rule]]\npath = \"/x\"", "decides nothing"),
        ("[[rule]]\nthen = \"redirect\"", "this rule redirects to nothing; add to ="),
        ("[[rule]]\nthen = \"redirect\"\nto = \"new\"", "begin it with \"/\""),
        ("[[rule]]\nthen = \"redirect\"\nto = \"/$1\"", "$1 needs a pattern with wildcards"),
        ("[[rule]]\nthen = \"redirect\"\nto = \"/a\"\nstatus = 404", "expected 301, 302, 303, 307 or 308"),
        ("[[rule]]\nthen = \"deny\"\nto = \"/a\"", "is only for then = \"redirect\""),
        ("[[rule]]\nthen = \"deny\"\nstatus = 301", "write 400 to 599, or then = \"redirect\""),
        ("[[rule]]\nthen = \"maybe\"", "cannot be \"maybe\""),
        ("[[rule]]\nthen = \"allow\"\nstatus = 404", "only for then = \"deny\""),
        ("[[rule]]\nthen = \"deny\"\nstatus = 200", "from 300 to 599"),
        ("[[rule]]\nthen = \"deny\"\naddress = \"10.0.0.1/8\"", "write \"10.0.0.0/8\""),
        ("[[rule]]\nthen = \"deny\"\naddress = []", "\"address\" is empty"),
        ("[[rule]]\nthen = \"deny\"\naddress_file = \"bad.txt\"", "bad.txt:2"),
        ("[[rule]]\nthen = \"deny\"\naddress_file = \"missing.txt\"", "cannot be read"),
        ("[[rule]]\nthen = \"deny\"\nmethod = \"get\"", "write it in capitals: \"GET\""),
        ("[[rule]]\nthen = \"deny\"\npath = \"private\"", "begin it with a slash"),
        ("[[rule]]\nthen = \"deny\"\ntime = \"25:00-26:00\"", "in UTC"),
        ("[[rule]]\nthen = \"deny\"\ntls_version = \"1.1\"", "\"1.2\" or \"1.3\""),
        ("[[rule]]\nthen = \"deny\"\nfield = { \"a b\" = \"x\" }", "not the name of a field"),
        ("[[rule]]\nthen = \"limit\"", "names no limit"),
        ("[[rule]]\nthen = \"deny\"\nadress = \"::1\"", "did you mean \"address\"?"),
    ];
    for (rules, expected) in rows {
        let config = site.home().join("site.toml");
        let text = format!("listen = \"127.0.0.1:0\"\nroot = \"www\"\n{rules}\n");
        fs::write(&config, text).expect("the folder can be written");
        let output = Command::new(program()).arg("check").arg("-c").arg(&config).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(expected), "{rules}\n{text}");
    }
}

#[test]
fn explain_names_the_rule_that_decides() {
    let site = site("[[rule]]\naddress = \"192.0.2.0/24\"\nthen = \"deny\"\nstatus = 404\n");
    let config = site.write_config();
    let explain = |from: &str| {
        let arguments = ["explain", "GET", "/docs/", "--from", from, "-c"];
        let output = Command::new(program()).args(arguments).arg(&config).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let denied = explain("192.0.2.9");
    assert!(denied.contains("192.0.2.9 is denied with 404 Not Found, by the rule in"), "{denied}");
    assert!(denied.contains("HTTP/1.1 404"), "{denied}");
    let allowed = explain("192.0.3.9");
    assert!(allowed.contains("192.0.3.9 is allowed: no rule matches"), "{allowed}");
    assert!(allowed.contains("HTTP/1.1 200"), "{allowed}");
}

#[test]
fn explain_shows_where_a_rule_leads() {
    let rule = "[[rule]]\npath = \"/\"\nquery = \"p=12\"\nthen = \"redirect\"\nto = \"/hello\"\n";
    let site = site(rule);
    let config = site.write_config();
    let output = Command::new(program()).args(["explain", "GET", "/?p=12", "-c"]).arg(&config).output();
    let text = String::from_utf8(output.expect("it starts").stdout).expect("it is UTF-8");
    assert!(text.contains("is redirected with 302 Found to /hello, by the rule in"), "{text}");
    assert!(text.contains("Location: /hello"), "{text}");
}

#[test]
fn explain_shows_the_response_that_precedes_a_script_an_application_or_a_change() {
    let config = "auth = \"basic\"\nrealm = \"r\"\nsatisfy = \"rules\"\nuser_files = \"USERS\"\n\
                  [[rule]]\npath = [\"/cgi-bin/secret\", \"/app/secret\"]\nthen = \"authenticate\"\n\
                  [[rule]]\npath = [\"/cgi-bin/denied\", \"/app/denied\"]\nthen = \"deny\"\n\
                  [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n\
                  [[route]]\npath = \"/app/\"\nproxy = \"http://127.0.0.1:1\"\n\
                  [[route]]\npath = \"/tokens/\"\nproxy = \"http://127.0.0.1:1\"\njwt = { keys = \"KEYS\" }\n\
                  [[route]]\npath = \"/files/\"\npublish = \"files\"\nsatisfy = \"all\"\n";
    let site = ["open", "secret", "denied"]
        .iter()
        .fold(Site::new().every_protocol(), |site, name| {
            site.script(&format!("cgi-bin/{name}"), "#!/bin/sh\n: >\"$DOCUMENT_ROOT/ran\"\n")
        })
        .file("files/a.txt", "a")
        // Her password is "secret".
        .file("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
        .file(
            "keys",
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#,
        );
    let root = site.root().display().to_string();
    let site = site
        .config(&config.replace("USERS", &format!("{root}/users")).replace("KEYS", &format!("{root}/keys")));
    let file = site.write_config();
    let mut rows = Rows::new();
    let by_ann = "Authorization: Basic YW5uOnNlY3JldA==";
    for (method, target, field, expected) in [
        ("GET", "/cgi-bin/open", "X-A: 1", "response  the output of the script"),
        ("GET", "/cgi-bin/secret", "X-A: 1", "HTTP/1.1 401 Unauthorized"),
        ("GET", "/cgi-bin/secret", by_ann, "response  the output of the script"),
        ("GET", "/cgi-bin/denied", "X-A: 1", "HTTP/1.1 403 Forbidden"),
        ("GET", "/app/open", "X-A: 1", "response  that of the application"),
        ("GET", "/app/secret", "X-A: 1", "HTTP/1.1 401 Unauthorized"),
        ("GET", "/app/denied", "X-A: 1", "HTTP/1.1 403 Forbidden"),
        ("TRACE", "/cgi-bin/open", "X-A: 1", "HTTP/1.1 405 Method Not Allowed"),
        ("GET", "/tokens/x", "X-A: 1", "response  that of the application"),
        ("DELETE", "/files/a.txt", "X-A: 1", "HTTP/1.1 401 Unauthorized"),
        ("DELETE", "/files/a.txt", by_ann, "publish   DELETE removes the file"),
        ("PROPFIND", "/files/", by_ann, "HTTP/1.1 405 Method Not Allowed"),
    ] {
        let arguments = ["explain", method, target, "-H", field, "-c"];
        let output = Command::new(program()).args(arguments).arg(&file).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        rows.holds(&text, expected, text.contains(expected));
        let has_head = text.contains("response\n          HTTP/1.1 ");
        rows.holds(&text, "a head, or that nothing was run", has_head == expected.starts_with("HTTP"));
    }
    assert!(!site.root().join("ran").exists() && site.root().join("files/a.txt").exists());
}
