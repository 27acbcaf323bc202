//! Changes and purges, which remove what is stored.

use super::*;

#[test]
fn a_purged_variant_takes_no_memory_of_other_responses() {
    let body = "x".repeat(350_000);
    let answer = move |head: &str, _: usize| {
        let language = if head.contains("Accept-Language: de") { "de" } else { "en" };
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\n\
             Cache-Tag: {language}\r\n\r\n{body}",
            body.len()
        )
    };
    let app = start_with("", "[cache]\nresponses = \"1MiB\"", answer);
    let get = |path: &str, language: &str| app.get(path, &format!("Accept-Language: {language}\r\n"));
    for (path, language) in [("a", "de"), ("a", "en")] {
        assert_eq!(get(path, language).status, 200);
    }
    let output = app.server.run_command(&["purge", "--tag", "de"]);
    assert!(output.status.success(), "{output:?}");
    // Three of them would be too many.
    assert_eq!(get("b", "en").status, 200);
    assert!(did(&get("a", "en")).starts_with("taipan; hit"));
    assert_eq!(app.requests(), 3);
}

/// The URL that a user has: what is stored has only a part of its query.
#[test]
fn a_purge_takes_a_url_with_the_parameters_that_do_not_count() {
    let app = start_with("response_cache_query = [\"!utm_*\"]", "", |_, number| {
        ok("Cache-Control: max-age=60\r\n", number)
    });
    assert_eq!(app.get("a?b=1&utm_source=x", "").text(), "number 1");
    for (path, removed) in [("/app/a?b=2&utm_source=x", 0), ("/app/a?b=1&utm_source=x", 1)] {
        let output = app.server.run_command(&["purge", path]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with(&format!("removed: {removed} ")), "{path}: {text}");
    }
    assert_eq!(app.get("a?b=1", "").text(), "number 2");
}

#[test]
fn a_change_invalidates_what_is_stored() {
    let app = start(|head, number| match head.split(' ').next() {
        Some("POST") if head.contains("X-Fail") => "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        Some("POST") => {
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: /app/b?x=1\r\n\r\n".to_owned()
        }
        _ => ok("Cache-Control: max-age=60\r\n", number),
    });
    let post = |fields: &str| {
        app.server
            .request(format!("POST /app/a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{fields}\r\n"))
            .status
    };
    let get = |path: &str| app.get(path, "").text();
    assert_eq!([get("a"), get("b?x=1"), get("b")], ["number 1", "number 2", "number 3"]);
    assert_eq!(post("X-Fail: 1\r\n"), 500);
    assert_eq!([get("a"), get("b?x=1"), get("b")], ["number 1", "number 2", "number 3"]);
    assert_eq!(post(""), 201);
    assert_eq!([get("a"), get("b?x=1"), get("b")], ["number 6", "number 7", "number 3"]);
}

#[test]
fn a_change_invalidates_what_a_relative_location_leads_to() {
    let app = start(|head, number| {
        let location = head.lines().find_map(|line| line.strip_prefix("X-To: "));
        match location {
            Some(to) => format!("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: {to}\r\n\r\n"),
            None => ok("Cache-Control: max-age=60\r\n", number),
        }
    });
    let mut before = app.get("items/7", "").text();
    for to in ["7", "../items/7", "./7", "/app/items/new/../7", "/app/x/../items/./7"] {
        assert_eq!(app.get("items/7", "").text(), before, "it is stored");
        let post = format!("POST /app/items/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX-To: {to}\r\n\r\n");
        assert_eq!(app.server.request(post).status, 201);
        let after = app.get("items/7", "").text();
        assert_ne!(after, before, "{to}");
        before = after;
    }
}

#[test]
fn a_change_invalidates_what_other_routes_have_stored() {
    let site = Site::new();
    let path = site.home().join("peer");
    serve(&path, |head, number| match head.starts_with("POST ") {
        true => "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: /b/x\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\n", number),
    });
    let server = site
        .config(&format!(
            "response_cache = true\n\
             [[route]]\npath = \"/a/\"\nproxy = \"http://app/1/\"\n\
             [[route]]\npath = \"/b/\"\nproxy = \"http://app/2/\"\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
            path.display()
        ))
        .start();
    assert_eq!(["/a/x", "/b/x"].map(|path| server.get(path).text()), ["number 1", "number 2"]);
    let post = server.request("POST /a/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(post.status, 201);
    assert_eq!(["/a/x", "/b/x"].map(|path| server.get(path).text()), ["number 4", "number 5"]);
}

/// RFC 9110 §4.2.3.
#[test]
fn a_change_and_a_purge_are_for_all_spellings_of_a_url() {
    let app = start_with("response_cache_purge = [\"127.0.0.1\"]", "", |head, number| {
        match head.starts_with("POST ") {
            true => "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: /app/%7Eu\r\n\r\n".to_owned(),
            false => ok("Cache-Control: max-age=60\r\n", number),
        }
    });
    let both = |paths: [&str; 2]| paths.map(|path| app.get(path, "").text());
    let ask = |method: &str, path: &str| {
        let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
        app.server.request(format!("{method} /app/{path} HTTP/1.1\r\nHost: a\r\n{length}\r\n")).status
    };
    let mut rows = Rows::new();
    for (method, path, paths) in [
        ("PURGE", "~u/x", ["~u/x", "%7Eu/x"]),
        ("PURGE", "%7Eu/x", ["~u/x", "%7Eu/x"]),
        ("PURGE", "%C3%A9", ["%C3%A9", "%c3%a9"]),
        ("POST", "%6C", ["l", "%6C"]),
        ("POST", "l", ["l", "%6C"]),
        ("POST", "other", ["~u", "%7eu"]),
    ] {
        let before = both(paths);
        rows.check("it is stored", both(paths), before.clone());
        rows.check(path, ask(method, path), if method == "POST" { 201 } else { 200 });
        let after = both(paths);
        let is_new = before.iter().all(|old| !after.contains(old));
        rows.holds(format!("{method} {path}"), &format!("{before:?} {after:?}"), is_new);
    }
}

#[test]
fn a_change_invalidates_what_it_names_by_the_path_of_the_upstream() {
    let site = Site::new();
    let path = site.home().join("peer");
    serve(&path, |head, number| match head.split(' ').next() {
        Some("POST") => {
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Location: /v1/item\r\n\r\n".to_owned()
        }
        _ => ok("Cache-Control: max-age=60\r\n", number),
    });
    let server = site
        .config(&format!(
            "workers = 1\nresponse_cache = true\n[[route]]\npath = \"/api/\"\nproxy = \"http://unix:{}:/v1/\"\n",
            path.display()
        ))
        .start();
    assert_eq!([(); 2].map(|()| server.get("/api/item").text()), ["number 1", "number 1"]);
    let post = server.request("POST /api/list HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((post.status, post.field("content-location")), (200, Some("/api/item")));
    assert_eq!(server.get("/api/item").text(), "number 3");
}

#[test]
fn clients_of_the_list_purge_what_is_stored_for_a_url() {
    let answer = |head: &str, number: usize| match head.starts_with("PURGE ") {
        true => "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", number),
    };
    let purge = |app: &Fixture, path: &str| {
        app.server.request(format!("PURGE /app/{path} HTTP/1.1\r\nHost: A\r\n\r\n")).status
    };
    let list = "response_cache_purge = [\"127.0.0.1\"]\nresponse_cache_query = [\"!utm_*\"]";
    let app = start_with(list, "", answer);
    let get = |path: &str| app.get(path, "").text();
    assert_eq!([get("a"), get("a?x"), get("b")], ["number 1", "number 2", "number 3"]);
    assert_eq!(app.get("a", "Accept-Language: de\r\n").text(), "number 4");
    assert_eq!([purge(&app, "a?utm_x=1"), purge(&app, "never")], [200, 200]);
    assert_eq!([get("a"), get("a?x"), get("b")], ["number 5", "number 2", "number 3"]);
    assert_eq!(app.get("a", "Accept-Language: de\r\n").text(), "number 6");
    assert_eq!(app.server.count("responses_purged"), 2);
    // Others are refused, and without the key the application is asked.
    for (settings, status) in [
        ("response_cache_purge = [\"10.0.0.0/8\", \"unix\"]", 403),
        ("response_cache_purge = []", 403),
        ("", 405),
        ("response_cache_purge = [\"0.0.0.0/0\"]\n[[route.rule]]\nmethod = \"PURGE\"\nthen = \"deny\"", 403),
    ] {
        let app = start_with(settings, "", answer);
        assert_eq!(app.get("a", "").text(), "number 1", "{settings}");
        assert_eq!(purge(&app, "a"), status, "{settings}");
        assert_eq!(app.get("a", "").text(), "number 1", "{settings}");
    }
}

#[test]
fn a_purge_reaches_the_process_before_a_reload() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |head, number| {
        if head.contains(" /app/slow ") {
            of_upstream.wait();
        }
        ok("Cache-Control: max-age=60\r\n", number)
    });
    assert_eq!([app.get("a", "").text(), app.get("a", "").text()], ["number 1", "number 1"]);
    let mut slow = app.server.connect();
    slow.send("GET /app/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wait_until(TIMEOUT, || app.requests() == 2), "the request is running");
    app.server.reload();
    // The successor begins without it, and each of both has it then.
    assert_eq!([app.get("a", "").text(), app.get("a", "").text()], ["number 3", "number 3"]);
    let output = app.server.run_command(&["purge", "--prefix", "/app/"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("removed: 2 "), "{text}");
    assert_eq!(app.get("a", "").text(), "number 4");
    gate.open();
    assert_eq!(slow.read_response().text(), "number 2");
}
