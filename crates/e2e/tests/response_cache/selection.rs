//! Which stored response a request gets: the key, and the fields that `Vary` names.

use super::*;

#[test]
fn selects_by_the_fields_that_vary_names() {
    let app = start(|head, number| {
        let language = head.lines().find(|line| line.starts_with("Accept-Language")).unwrap_or("none");
        let body = format!("{number} for {language}");
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\n\
             Vary: Accept-Encoding, Accept-Language\r\n\r\n{body}",
            body.len()
        )
    });
    let get = |fields: &str| app.get("", fields).text();
    assert_eq!(get(""), "1 for none");
    assert_eq!(get("Accept-Language: de\r\n"), "2 for Accept-Language: de");
    assert_eq!(get(""), "1 for none");
    assert_eq!(get("Accept-Language: DE\r\n"), "2 for Accept-Language: de");
    assert_eq!(get("Accept-Encoding: gzip, br\r\n"), "3 for none");
    assert_eq!(get("Accept-Encoding: br;q=0.9,gzip\r\n"), "3 for none");
    assert_eq!(get("Accept-Encoding: gzip\r\n"), "4 for none");
    let other = app.get("", "Accept-Encoding: x\r\n");
    assert!(did(&other).starts_with("taipan; fwd=vary-miss"), "{}", did(&other));
}

/// RFC 9111 §4.1.
#[test]
fn a_response_without_vary_is_for_those_that_no_other_one_is_for() {
    let app = start(|head, number| {
        let vary = if head.contains("Accept-Language: ") { "Vary: Accept-Language\r\n" } else { "" };
        ok(&format!("Cache-Control: max-age=60\r\n{vary}"), number)
    });
    let get = |fields: &str| app.get("", fields).text();
    assert_eq!(get("Accept-Language: de\r\n"), "number 1");
    for _ in 0..2 {
        assert_eq!(get(""), "number 2");
        assert_eq!(get("Accept-Language: de\r\n"), "number 1");
    }
    assert_eq!(app.requests(), 2);
    // One that does not vary any more replaces the one that did.
    let app = start(|_, number| match number {
        1 => ok("Cache-Control: max-age=60\r\nAge: 100\r\nETag: \"a\"\r\nVary: Accept-Language\r\n", number),
        _ => ok("Cache-Control: max-age=60\r\n", number),
    });
    let got = [0; 4].map(|_| app.get("", "Accept-Language: de\r\n").text());
    assert_eq!(got, ["number 1", "number 2", "number 2", "number 2"]);
}

/// An upstream may read anything in a malformed field, and its response is not for clients that send a right one.
#[test]
fn a_malformed_field_selects_no_response_for_those_that_send_a_right_one() {
    let app = start(|_, number| {
        ok("Cache-Control: max-age=60\r\nVary: Accept-Encoding, Accept-Language, Origin\r\n", number)
    });
    let mut rows = Rows::new();
    for (at, (malformed, right)) in [
        ("Accept-Language: d e\r\n", "Accept-Language: de\r\n"),
        ("Origin: ,http://a\r\n", "Origin: http://a\r\n"),
        ("Origin: http://a\r\nOrigin:\r\n", "Origin: http://a\r\n"),
        ("Accept-Encoding: gzip, br;q=0;q=1\r\n", "Accept-Encoding: gzip\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = at.to_string();
        let first = app.get(&path, malformed).text();
        let second = app.get(&path, right).text();
        rows.holds(malformed, &second, first != second);
        rows.check(right, app.get(&path, right).text(), second);
    }
}

/// Most proxies pass on what they do not know, and applications believe it.
#[test]
fn what_a_client_has_written_past_a_trusted_proxy_selects_a_response_of_its_own() {
    let app = start_with("", "trusted_proxies = \"127.0.0.0/8\"", |head, number| {
        let port = head.lines().find_map(|line| line.strip_prefix("X-Forwarded-Port: ")).unwrap_or("80");
        let lifetime = if head.contains("/app/stale") { 0 } else { 60 };
        let fields = format!("Cache-Control: max-age={lifetime}\r\nETag: \"a\"\r\nX-Port: {port}\r\n");
        match head.contains("If-None-Match") {
            true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
            false => ok(&fields, number),
        }
    });
    let get = |path: &str, fields: &str| {
        let response = app.get(path, &format!("X-Forwarded-For: 192.0.2.1\r\n{fields}"));
        response.field("X-Port").unwrap_or_default().to_owned()
    };
    let other = "X-Forwarded-Port: 1\r\n";
    let mut rows = Rows::new();
    for path in ["fresh", "stale"] {
        rows.check(format!("{path}, by the client"), get(path, other), "1".to_owned());
        rows.check(format!("{path}, by others"), get(path, ""), "80".to_owned());
        // It validates what is stale, and gets what is fresh.
        get(path, other);
        let again = get(path, "Cache-Control: max-stale\r\n");
        rows.check(format!("{path}, by others again"), again, "80".to_owned());
    }
}

#[test]
fn an_error_that_is_about_a_range_is_for_its_client_alone() {
    let app = start(|head, number| match head.lines().find_map(|line| line.strip_prefix("Range: bytes=")) {
        Some(range) => {
            let status = range.trim_end_matches('-');
            let fields = "Cache-Control: public, max-age=60\r\nContent-Length: 3\r\n";
            format!("HTTP/1.1 {status} Error\r\n{fields}\r\nbad")
        }
        None => ok("Cache-Control: max-age=60\r\n", number),
    });
    let mut rows = Rows::new();
    for status in [400, 404, 412, 416, 503] {
        let path = status.to_string();
        let part = app.get(&path, &format!("Range: bytes={status}-\r\n"));
        rows.check(format!("{status} for the range"), (part.status, part.text()), (status, "bad".to_owned()));
        rows.check(format!("{status} for others"), app.get(&path, "").status, 200);
    }
}

#[test]
fn hosts_of_different_addresses_share_no_response() {
    let port = free_port();
    let mut site = Site::new();
    let path = site.home().join("peer");
    serve(&path, |head, _| {
        let site = head.lines().find_map(|line| line.strip_prefix("X-Site: ")).unwrap_or_default();
        let target = head.split(' ').nth(1).expect("a target");
        let body = format!("{target} of {site}");
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let mut config = format!(
        "workers = 1\nlisten = [\"0.0.0.0:{port}\"]\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
        path.display()
    );
    for (host, last) in [("one", 1), ("two", 2)] {
        let program = format!(
            "#!/bin/sh\nprintf 'Cache-Control: max-age=60\\r\\nContent-Type: text/plain\\r\\n\\r\\n/cgi/x of {host}'\n"
        );
        site = site.script_beside_root(&format!("{host}/cgi/x"), program);
        config += &format!(
            "[[host]]\nnames = [\"h\"]\naddresses = [\"127.0.0.{last}\"]\nroot = \"{host}\"\n\
             headers = {{ \"X-Own\" = \"{host}\" }}\nresponse_cache = true\n\
             response_cache_purge = [\"127.0.0.0/8\"]\n\
             [[host.route]]\npath = \"/cgi/\"\ncgi = true\n\
             [[host.route]]\npath = \"/app/\"\napplication = \"app\"\nproxy_headers = {{ \"X-Site\" = \"{host}\" }}\n\
             [[host.route]]\npath = \"/proxy/\"\nproxy = \"http://app/{host}/\"\nproxy_headers = {{ \"X-Site\" = \"{host}\" }}\n",
        );
    }
    let server = site.config_without_root(&config).start();
    let request = |last: u8, line: &str| {
        let mut client = Client::tcp(SocketAddr::from(([127, 0, 0, last], port)));
        client.request(format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n"))
    };
    let get = |last: u8, path: &str| {
        let response = request(last, &format!("GET {path}"));
        (
            response.text(),
            response.field("X-Own").unwrap_or_default().to_owned(),
            did(&response).contains("hit"),
        )
    };
    let mut rows = Rows::new();
    for (path, one, two) in [
        ("/cgi/x", "/cgi/x of one", "/cgi/x of two"),
        ("/app/x", "/app/x of one", "/app/x of two"),
        ("/proxy/x", "/one/x of one", "/two/x of two"),
    ] {
        let expected = |text: &str, own: &str, is_hit| (text.to_owned(), own.to_owned(), is_hit);
        for is_hit in [false, true] {
            rows.check(format!("{path} of one"), get(1, path), expected(one, "one", is_hit));
            rows.check(format!("{path} of two"), get(2, path), expected(two, "two", is_hit));
        }
        rows.check(format!("PURGE {path}"), request(2, &format!("PURGE {path}")).status, 200);
        rows.check(format!("{path} of one, purged"), get(1, path), expected(one, "one", true));
        rows.check(format!("{path} of two, purged"), get(2, path), expected(two, "two", false));
        let output = server.run_command(&["purge", "--host", "h", path]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        rows.holds(format!("taipan purge {path}"), &text, text.starts_with("removed: 2 "));
    }
}

/// RFC 9110 §4.2.3. The application sees how a client spells its host, and may redirect what another one spells well.
#[test]
fn another_spelling_of_the_host_finds_a_stored_response_and_makes_none() {
    let app = start(|head, number| {
        match head.split(' ').next() {
        Some("POST") => {
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: http://a:80/app/b\r\n\r\n".to_owned()
        }
        _ if !head.contains("Host: a\r\n") && !head.contains("Host: a:443\r\n") => {
            "HTTP/1.1 301 Moved\r\nLocation: http://a/app/a\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"
                .to_owned()
        }
        _ => ok("Cache-Control: max-age=60\r\n", number),
    }
    });
    let request = |method: &str, path: &str, host: &str| {
        app.server
            .request(format!("{method} /app/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"))
            .text()
    };
    let hosts = ["a:80", "A:80", "A", "a:"];
    for host in hosts {
        assert_eq!(request("GET", "a", host), "", "{host}");
    }
    assert_eq!([request("GET", "a", "a"), request("GET", "b", "a")], ["number 5", "number 6"]);
    for host in hosts {
        assert_eq!(
            [request("GET", "a", host), request("GET", "b", host)],
            ["number 5", "number 6"],
            "{host}"
        );
    }
    assert_eq!(request("GET", "a", "a:443"), "number 7");
    request("POST", "a", "a:80");
    assert_eq!([request("GET", "a", "a"), request("GET", "b", "a")], ["number 9", "number 10"]);
}

#[test]
fn parameters_that_do_not_count_are_left_out_of_the_key() {
    let answer = |_: &str, number| ok("Cache-Control: max-age=60\r\n", number);
    let without = start_with("response_cache_query = [\"!utm_*\"]", "", answer);
    assert_eq!(without.get("?a=1&utm_source=x", "").text(), "number 1");
    assert_eq!(without.get("?utm_medium=y&a=1", "").text(), "number 1");
    assert_eq!(without.get("?a=2", "").text(), "number 2");
    let none = start_with("response_cache_query = []", "", answer);
    assert_eq!([none.get("?a", "").text(), none.get("?b", "").text()], ["number 1", "number 1"]);
}

#[test]
fn a_parameter_that_programs_read_as_one_that_counts_is_part_of_the_key() {
    let answer = |head: &str, _| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{target}",
            target.len()
        )
    };
    let some = start_with("response_cache_query = [\"q\", \"page\"]", "", answer);
    for evil in ["?%71=evil", "?Q=evil", "?q[]=evil", "?x=1;q=evil", "?+q=evil", "?q%00=evil"] {
        some.get(evil, "");
        assert_eq!(some.get("", "").text(), "/app/", "{evil}");
        some.get(&format!("?q=1&{}", &evil[1..]), "");
        assert_eq!(some.get("?q=1", "").text(), "/app/?q=1", "{evil}");
    }
    // Others do not count.
    assert_eq!(some.get("?x=2", "").text(), "/app/");
    let others = start_with("response_cache_query = [\"!utm_*\"]", "", answer);
    others.get("?utm_source=1;q=evil", "");
    assert_eq!(others.get("", "").text(), "/app/");
    assert_eq!(others.get("?utm_source=2", "").text(), "/app/");
}

#[test]
fn a_request_that_the_application_has_not_seen_as_it_was_sent_is_not_stored() {
    let app = start(|head, number| {
        let language = if head.to_lowercase().contains("\r\naccept-language: en") { "en" } else { "none" };
        let vary =
            "Cache-Control: public, max-age=60\r\nVary: Accept-Language, X-Forwarded-For, Forwarded\r\n";
        let vary = if head.contains("/by-client") {
            vary
        } else {
            "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n"
        };
        ok(&format!("{vary}X-Language: {language}\r\n"), number)
    });
    // The application does not get the field, and answers for none.
    let poison = app.get("a", "Connection: close, accept-LANGUAGE\r\nAccept-Language: en\r\n");
    assert_eq!(poison.field("X-Language"), Some("none"));
    let victim = app.get("a", "Accept-Language: en\r\n");
    assert_eq!((victim.field("X-Language"), victim.text()), (Some("en"), "number 2".to_owned()));
    // What is stored is for such a request, too.
    let hit = app.get("a", "Connection: accept-language\r\nAccept-Language: en\r\n");
    assert_eq!(hit.text(), "number 2");
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let before = app.requests();
        app.get(name, &format!("{name}: POST\r\n"));
        assert_eq!(app.get(name, "").text(), format!("number {}", before + 2), "{name}");
        assert_eq!(app.get(name, "").text(), format!("number {}", before + 2), "{name}");
    }
    // The server writes these fields: what a client sends selects nothing.
    let before = app.requests();
    for claim in ["", "X-Forwarded-For: 192.0.2.1\r\n"] {
        app.get("by-client", claim);
    }
    assert_eq!(app.requests(), before + 2);
}

#[test]
fn a_response_for_a_path_or_a_host_that_a_field_names_is_not_stored() {
    // What a trusted proxy sends is passed on, and it may have the field from a client.
    let app = start_with("", "trusted_proxies = [\"127.0.0.1\"]", |head, number| {
        let fields: Vec<&str> = head.lines().filter(|line| line.contains(": /evil")).collect();
        ok(&format!("Cache-Control: max-age=60\r\nX-Seen: {}\r\n", fields.len()), number)
    });
    for name in ["X-Original-URL", "X-Rewrite-URL", "X-Host", "X-HTTP-Host-Override"] {
        let poison = app.get(name, &format!("{name}: /evil\r\n"));
        assert_eq!(poison.field("X-Seen"), Some("1"), "{name}");
        let victim = app.get(name, "");
        assert_eq!(victim.field("X-Seen"), Some("0"), "{name}");
        assert_eq!(app.get(name, "").text(), victim.text(), "{name}");
    }
}

#[test]
fn a_response_that_varies_by_the_user_of_an_authorizer_is_not_shared() {
    let settings = "authorizer = \"app\"\nauthorizer_fields = [\"Remote-User\"]";
    let app = start_with(settings, "", |head, number| {
        let value = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields
                .find(|(own, _)| own.eq_ignore_ascii_case(name))
                .map_or("none", |(_, value)| value)
                .to_owned()
        };
        match head.contains("X-Original-Method") {
            true => {
                format!("HTTP/1.1 200 OK\r\nRemote-User: {}\r\nContent-Length: 0\r\n\r\n", value("X-Who"))
            }
            false => {
                let user = value("Remote-User");
                ok(
                    &format!("Cache-Control: public, max-age=60\r\nVary: Remote-User\r\nX-For: {user}\r\n"),
                    number,
                )
            }
        }
    });
    for user in ["ann", "bob"] {
        assert_eq!(app.get("", &format!("X-Who: {user}\r\n")).field("X-For"), Some(user));
    }
}
