//! Conditions, validation, and what a newer response changes of a stored one.

use super::*;

#[test]
fn answers_conditions_ranges_and_head_from_the_whole() {
    for size in [10, 100_000, 300_000] {
        let app = start_with("response_cache_largest = \"1MiB\"", "", move |_, _| {
            let body: String = ('a'..='z').cycle().take(size).collect();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\n\
                 Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\nContent-Type: text/x\r\n\r\n{body}"
            )
        });
        let whole = app.get("", "").text();
        assert_eq!(whole.len(), size);
        assert_eq!(app.get("", "").text(), whole);
        let unchanged = app.get("", "If-None-Match: \"b\", \"a\"\r\n");
        assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some("\"a\"")));
        assert!(unchanged.has("age") && unchanged.has("cache-control"));
        assert_eq!(app.get("", "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n").status, 304);
        assert_eq!(app.get("", "If-None-Match: \"c\"\r\n").text(), whole);
        let part = app.get("", "Range: bytes=2-5\r\n");
        assert_eq!((part.status, part.text()), (206, "cdef".to_owned()));
        assert_eq!(part.field("Content-Range"), Some(format!("bytes 2-5/{size}").as_str()));
        assert_eq!(app.get("", "Range: bytes=-3\r\n").text(), whole[size - 3..]);
        let parts = app.get("", "Range: bytes=0-0, 3-3\r\n");
        assert!(
            parts.text().contains("\r\n\r\na\r\n") && parts.text().contains("\r\n\r\nd\r\n"),
            "{}",
            parts.text()
        );
        assert_eq!(app.get("", &format!("Range: bytes={size}-\r\n")).status, 416);
        assert_eq!(app.get("", "Range: bytes=0-1\r\nIf-Range: \"b\"\r\n").text(), whole);
        let mut client = app.server.connect();
        client.send("HEAD /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.read_response_to_head();
        assert_eq!(head.field("Content-Length"), Some(size.to_string().as_str()));
        assert!(did(&head).starts_with("taipan; hit"));
        assert_eq!(app.requests(), 1);
    }
}

/// `Age` counts from `Date`, which belongs to the stored response.
#[test]
fn a_304_has_the_date_of_the_stored_response() {
    const DATE: &str = "Thu, 01 Jan 2015 00:00:00 GMT";
    let app = start(|_, number| {
        ok(&format!("Cache-Control: max-age=1000000000\r\nETag: \"a\"\r\nDate: {DATE}\r\n"), number)
    });
    for fields in ["If-None-Match: \"a\"\r\n", "", "If-None-Match: \"a\"\r\n", "Range: bytes=0-1\r\n"] {
        assert_eq!(app.get("", fields).values("Date"), [DATE], "{fields}");
    }
    assert_eq!(app.requests(), 1);
}

#[test]
fn validates_what_is_stale_and_takes_the_fields_of_the_answer() {
    let app = start(|head, number| match head.contains("If-None-Match: \"a\"\r\n") {
        true => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\nX-New: yes\r\n\r\n"
            .to_owned(),
        false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\nX-Old: yes\r\n", number),
    });
    assert_eq!(app.get("", "").text(), "number 1");
    // Whatever the client has, the server asks for what it has stored.
    let validated = app.get("", "If-None-Match: \"b\"\r\n");
    assert_eq!(validated.text(), "number 1");
    assert!(did(&validated).starts_with("taipan; fwd=stale; fwd-status=304; ttl="), "{}", did(&validated));
    assert_eq!((validated.field("X-Old"), validated.field("X-New")), (Some("yes"), Some("yes")));
    let hit = app.get("", "");
    assert!(did(&hit).starts_with("taipan; hit; ttl="), "{}", did(&hit));
    assert_eq!((hit.text(), hit.field("X-New")), ("number 1".to_owned(), Some("yes")));
    assert_eq!(app.requests(), 2);
}

#[test]
fn evaluates_conditions_for_responses_that_are_not_stored() {
    const ROWS: [(&str, &str, u16); 6] = [
        ("ETag: \"a\"\r\n", "If-None-Match: \"a\"\r\n", 304),
        ("ETag: \"a\"\r\n", "If-None-Match: \"b\"\r\n", 200),
        ("ETag: \"a\"\r\n", "", 200),
        (
            "Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
            "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
            304,
        ),
        (
            "Last-Modified: Thu, 01 Jan 2015 00:00:01 GMT\r\n",
            "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
            200,
        ),
        ("", "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n", 200),
    ];
    let mut rows = Rows::new();
    for (own, condition, expected) in ROWS {
        let app = start(move |_, number| {
            ok(&format!("Cache-Control: private\r\nContent-Type: text/x\r\nX-Own: b\r\n{own}"), number)
        });
        for number in 1..=2 {
            let (name, response) = (format!("{own}{condition}"), app.get("", condition));
            rows.check(&name, (response.status, response.field("X-Own")), (expected, Some("b")));
            rows.holds(&name, did(&response), did(&response) == "taipan; fwd=uri-miss");
            let (text, has_type) = match expected {
                304 => (String::new(), false),
                _ => (format!("number {number}"), true),
            };
            rows.check(&name, (response.text(), response.has("content-type")), (text, has_type));
        }
    }
}

#[test]
fn a_response_to_head_updates_what_is_stored_or_removes_it() {
    // The fields of the response to HEAD, and what a GET has then: a number, and `X-New`.
    const ROWS: [(&str, &str, Option<&str>); 5] = [
        ("Content-Length: 8\r\nETag: \"a\"\r\n", "number 1", Some("yes")),
        ("ETag: \"a\"\r\n", "number 1", Some("yes")),
        ("Content-Length: 9\r\nETag: \"a\"\r\n", "number 3", None),
        ("Content-Length: 8\r\nETag: \"b\"\r\n", "number 3", None),
        ("ETag: W/\"a\"\r\n", "number 3", None),
    ];
    for (answer, text, new) in ROWS {
        let app = start(move |head, number| match head.starts_with("HEAD ") {
            true => format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nX-New: yes\r\nSet-Cookie: own\r\n{answer}\r\n"
            ),
            false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
        });
        assert_eq!(app.get("", "").text(), "number 1", "{answer}");
        let mut client = app.server.connect();
        client.send("HEAD /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.read_response_to_head().field("Set-Cookie"), Some("own"), "{answer}");
        let then = app.get("", "");
        assert_eq!(
            (then.text().as_str(), then.field("X-New"), then.has("set-cookie")),
            (text, new, false),
            "{answer}"
        );
    }
}

#[test]
fn a_validation_that_changes_what_selects_a_response_counts() {
    // `Vary` of the 304, and what requests with `de` and `fr` have then.
    const ROWS: [(&str, [&str; 4]); 4] = [
        ("Vary: Accept-Language\r\n", ["number 1", "number 3", "number 1", "number 3"]),
        ("Vary: *\r\n", ["number 3", "number 4", "number 5", "number 6"]),
        ("Vary: X-Forwarded-For\r\n", ["number 3", "number 4", "number 5", "number 6"]),
        ("", ["number 1"; 4]),
    ];
    let mut rows = Rows::new();
    for how in ["GET", "HEAD"] {
        for (vary, expected) in ROWS {
            let app = start(move |head, number| {
                match (head.starts_with("HEAD "), head.contains("If-None-Match")) {
                    (true, _) => {
                        format!("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n{vary}\r\n")
                    }
                    (false, true) => {
                        format!("HTTP/1.1 304 No\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n{vary}\r\n")
                    }
                    (false, false) => {
                        let (age, vary) = if number == 1 { ("100", "") } else { ("0", vary) };
                        ok(
                            &format!("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: {age}\r\n{vary}"),
                            number,
                        )
                    }
                }
            });
            let language = |language: &str| app.get("", &format!("Accept-Language: {language}\r\n")).text();
            rows.check(format!("{how} {vary}, first"), language("de").as_str(), "number 1");
            let mut client = app.server.connect();
            client.send(format!("{how} /app/ HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n\r\n"));
            match how {
                "GET" => rows.check(vary, client.read_response().text().as_str(), "number 1"),
                _ => rows.check(vary, client.read_response_to_head().status, 200),
            }
            let found = ["de", "fr", "de", "fr"].map(language);
            rows.check(format!("{how} {vary}"), found.each_ref().map(String::as_str), expected);
        }
    }
}

#[test]
fn a_304_with_another_entity_tag_confirms_nothing() {
    let app = start(|head, number| match head.contains("If-None-Match") {
        true => "HTTP/1.1 304 No\r\nETag: \"b\"\r\nCache-Control: max-age=60\r\n\r\n".to_owned(),
        false => {
            let (tag, age) = if number == 1 { ("a", "100") } else { ("b", "0") };
            ok(&format!("Cache-Control: max-age=60\r\nETag: \"{tag}\"\r\nAge: {age}\r\n"), number)
        }
    });
    assert_eq!(app.get("", "").text(), "number 1");
    // The second one is the condition, and the third one the same request without it.
    assert_eq!([app.get("", "").text(), app.get("", "").text()], ["number 3", "number 3"]);
    // An upstream that has nothing but 304 is asked twice.
    let app = start(|_, number| match number {
        1 => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
        _ => "HTTP/1.1 304 No\r\nETag: \"b\"\r\nCache-Control: max-age=60\r\n\r\n".to_owned(),
    });
    assert_eq!(app.get("", "").text(), "number 1");
    assert_eq!((app.get("", "").status, app.requests()), (304, 3));
}

#[test]
fn a_validation_stores_no_cookie_that_is_for_one_user() {
    for settings in ["response_cache_cookies = \"ignored\"", ""] {
        let app = start_with(settings, "", |head, number| match head.contains("If-None-Match: \"a\"\r\n") {
            true => "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nSet-Cookie: id=secret\r\n\r\n"
                .to_owned(),
            false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
        });
        assert_eq!(app.get("", "").text(), "number 1");
        let own = app.get("", "");
        assert_eq!((own.text().as_str(), own.field("Set-Cookie")), ("number 1", Some("id=secret")));
        let other = app.get("", "");
        assert!(did(&other).starts_with("taipan; hit"), "{}", did(&other));
        assert_eq!((other.text().as_str(), other.field("Set-Cookie")), ("number 1", None), "{settings}");
    }
    // What has become private is for the user that has asked, and not stored any more.
    let app = start(|head, number| match head.contains("If-None-Match: \"a\"\r\n") {
        true => "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60, private\r\n\r\n".to_owned(),
        false => ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\nAge: 100\r\n", number),
    });
    assert_eq!([app.get("", "").text(), app.get("", "").text()], ["number 1", "number 1"]);
    assert_eq!(app.get("", "").text(), "number 3");
}

#[test]
fn a_cookie_that_is_not_stored_has_its_bytes() {
    let response =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nSet-Cookie: a=\xe9\r\nContent-Length: 2\r\n\r\nhi";
    let url = e2e::upstream::upstream(move |mut stream, _| stream.write_all(response));
    let config = format!(
        "[[route]]\npath = \"/\"\nproxy = \"{url}\"\nresponse_cache = true\nresponse_cache_cookies = \"ignored\"\n"
    );
    let server = Site::new().config(&config).start();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let received = client.read_to_end();
    assert!(received.windows(5).any(|bytes| bytes == b"a=\xe9\r\n"), "{}", received.escape_ascii());
}

/// The fields of a 304 are those of the request that it answers.
#[test]
fn a_validation_stores_no_fields_of_an_answer_that_would_not_be_stored() {
    let app = start(|head, number| match head.contains("If-None-Match") {
        true => {
            let user = head.lines().find_map(|line| line.strip_prefix("X-User: ")).unwrap_or("nobody");
            format!(
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\nX-For: {user}\r\n\r\n"
            )
        }
        false => ok("ETag: \"a\"\r\nCache-Control: public, max-age=0\r\n", number),
    });
    let mut rows = Rows::new();
    for (at, own) in [
        "Authorization: Bearer a\r\n",
        "Cookie: a=b\r\n",
        "Cache-Control: no-store\r\n",
        "Connection: x-other\r\nX-Other: a\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let path = at.to_string();
        app.get(&path, "");
        let of_user = app.get(&path, &format!("{own}X-User: bob\r\n"));
        rows.check(format!("the user: {own}"), of_user.field("X-For"), Some("bob"));
        let of_other = app.get(&path, "");
        let fields = of_other.field("X-For").unwrap_or_default();
        rows.holds(format!("others: {own}"), fields, fields != "bob");
    }
}

#[test]
fn an_error_about_a_request_says_nothing_of_what_is_stored() {
    let app = start(|head, number| {
        if head.contains("X-Bad: ") {
            return "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_owned();
        }
        match head.contains("If-None-Match") {
            true => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".to_owned(),
            false => ok("ETag: \"a\"\r\nCache-Control: max-age=0\r\n", number),
        }
    });
    app.get("", "");
    assert_eq!(app.get("", "X-Bad: a\r\n").status, 400);
    let validated = app.get("", "");
    assert_eq!(validated.text(), "number 1");
    assert!(did(&validated).contains("fwd-status=304"), "{}", did(&validated));
}
