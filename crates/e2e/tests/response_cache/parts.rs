//! Parts of responses, and bodies that are read in the background.

use super::*;

const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz";

/// The range of the alphabet that a request asks for, as a 206, unless `If-Range` names another tag. Otherwise all of
/// it.
fn in_part(head: &str, fields: &str, etag: &str) -> String {
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let etag_field = if etag.is_empty() { String::new() } else { format!("ETag: {etag}\r\n") };
    let size = ALPHABET.len();
    let range = field("Range: bytes=").filter(|_| field("If-Range: ").is_none_or(|tag| tag == etag));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n{etag_field}{fields}\r\n{ALPHABET}");
    };
    let number = |text: &str| text.parse::<usize>().ok();
    let (first, last) = match number(first) {
        Some(first) => (first, number(last).unwrap_or(size - 1)),
        None => (size - number(last).expect("a number"), size - 1),
    };
    let part = &ALPHABET[first..=last];
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{size}\r\n\
         Content-Length: {}\r\n{etag_field}{fields}\r\n{part}",
        part.len()
    )
}

#[test]
fn keeps_parts_and_completes_them() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let app = start(move |head, _| {
        seen.lock().expect("a head").push(head.to_owned());
        in_part(head, "Cache-Control: max-age=60\r\nContent-Type: text/x\r\n", "\"a\"")
    });
    let part = |range: &str| {
        let response = app.get("", &format!("Range: bytes={range}\r\n"));
        assert_eq!((response.status, response.field("Content-Type")), (206, Some("text/x")), "{range}");
        response.text()
    };
    assert_eq!(part("0-4"), "abcde");
    assert_eq!([part("0-4"), part("1-3"), part("4-4")], ["abcde", "bcd", "e"]);
    let hit = app.get("", "Range: bytes=2-3\r\nIf-Range: \"a\"\r\n");
    assert!(did(&hit).starts_with("taipan; hit; ttl="), "{}", did(&hit));
    assert_eq!((hit.text().as_str(), hit.field("Content-Range")), ("cd", Some("bytes 2-3/26")));
    assert_eq!(app.requests(), 1);
    assert_eq!([part("-6"), part("-2"), part("24-"), part("20-21")], ["uvwxyz", "yz", "yz", "uv"]);
    assert_eq!(app.requests(), 2);
    // Not all of it is there; then it is.
    assert_eq!([part("3-8"), part("0-8"), part("8-8")], ["defghi", "abcdefghi", "i"]);
    assert_eq!((app.requests(), app.server.count("response_parts_stored")), (3, 3));
    // The whole: only what is missing is requested.
    let whole = app.get("", "");
    assert_eq!((whole.status, whole.text().as_str(), whole.has("content-range")), (200, ALPHABET, false));
    let last = heads.lock().expect("a head").last().cloned().expect("a head");
    assert!(last.contains("\r\nRange: bytes=9-19\r\n") && last.contains("\r\nIf-Range: \"a\"\r\n"), "{last}");
    assert_eq!([app.get("", "").text().as_str(), &part("5-6"), &part("-1")], [ALPHABET, "fg", "z"]);
    assert_eq!(app.get("", "If-None-Match: \"a\"\r\n").status, 304);
    assert_eq!(app.requests(), 4);
}

#[test]
fn never_combines_parts_of_different_responses() {
    const CONTROL: &str = "Cache-Control: max-age=60\r\n";
    // The upstream obeys `If-Range`, and sends another whole response.
    let app = start(|head, number| match number {
        1 => in_part(head, CONTROL, "\"a\""),
        _ => ok("Cache-Control: max-age=60\r\nETag: \"b\"\r\n", number),
    });
    assert_eq!(app.get("", "Range: bytes=0-3\r\n").text(), "abcd");
    assert_eq!([app.get("", "").text(), app.get("", "Range: bytes=0-3\r\n").text()], ["number 2", "numb"]);
    assert_eq!(app.requests(), 2);
    // It ignores `If-Range`, and sends the rest of another one; or says that there is no rest.
    let other = in_part("Range: bytes=4-\r\n", CONTROL, "\"b\"");
    let none = "HTTP/1.1 416 No\r\nContent-Range: bytes */3\r\nContent-Length: 0\r\n\r\n".to_owned();
    let weak = in_part("Range: bytes=4-\r\n", CONTROL, "W/\"a\"");
    let shorter = in_part("Range: bytes=4-\r\n", CONTROL, "\"a\"").replace("/26", "/27");
    let cut = in_part("Range: bytes=4-\r\n", CONTROL, "\"a\"").replace("xyz", "<cut>");
    for second in [other, none, weak, shorter, cut] {
        let shown = second.clone();
        let app = start(move |head, number| match number {
            1 => in_part(head, CONTROL, "\"a\""),
            2 => second.clone(),
            _ => ok("Cache-Control: max-age=60\r\n", number),
        });
        assert_eq!(app.get("", "Range: bytes=0-3\r\n").text(), "abcd", "{shown}");
        assert_eq!([app.get("", "").text(), app.get("", "").text()], ["number 3", "number 3"], "{shown}");
    }
    // Later parts replace those of another response.
    let app = start(|head, number| in_part(head, CONTROL, if number == 1 { "\"a\"" } else { "\"b\"" }));
    let part = |range: &str| app.get("", &format!("Range: bytes={range}\r\n")).text();
    assert_eq!([part("0-3"), part("4-7"), part("4-5"), part("0-1")], ["abcd", "efgh", "ef", "ab"]);
    assert_eq!(app.requests(), 3);
}

#[test]
fn stores_only_parts_that_say_what_they_are() {
    // The fields of a 206 with five bytes, those of the requests, and how many of two requests reach the upstream.
    const ROWS: [(&str, &str, usize); 12] = [
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "", 1),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-5/26\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/*\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/3\r\n", "", 2),
        ("Cache-Control: max-age=60\r\n", "", 2),
        ("Cache-Control: max-age=0\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: no-store\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: private, max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nSet-Cookie: a\r\nContent-Range: bytes 0-4/26\r\n", "", 2),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "Authorization: a\r\n", 2),
        ("Cache-Control: public, max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "Authorization: a\r\n", 1),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/26\r\n", "Cache-Control: no-store\r\n", 2),
    ];
    for (fields, request, expected) in ROWS {
        let app = start(move |_, _| {
            format!("HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n{fields}\r\nabcde")
        });
        for _ in 0..2 {
            let response = app.get("", &format!("Range: bytes=0-4\r\n{request}"));
            assert_eq!((response.status, response.text().as_str()), (206, "abcde"), "{fields}{request}");
        }
        assert_eq!(app.requests(), expected, "{fields}{request}");
    }
    // Without a strong tag, a part is used and never completed.
    for etag in ["", "W/\"a\""] {
        let app = start(move |head, _| {
            assert!(!head.contains("Range: bytes=5-"), "{head}");
            in_part(head, "Cache-Control: max-age=60\r\n", etag)
        });
        let part = |range: &str| app.get("", &format!("Range: bytes={range}\r\n")).text();
        assert_eq!([part("0-4"), part("1-2")], ["abcde", "bc"]);
        assert_eq!(app.requests(), 1, "{etag}");
        assert_eq!([app.get("", "").text(), app.get("", "").text()], [ALPHABET, ALPHABET]);
        assert_eq!(app.requests(), 2, "{etag}");
    }
}

#[test]
fn what_empties_the_cache_removes_parts_too() {
    let purges = "response_cache_purge = [\"127.0.0.1\"]";
    let app = start_with(purges, "", |head, _| match head.starts_with("POST ") {
        true => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        false => in_part(head, "Cache-Control: max-age=60\r\nCache-Tag: t\r\n", "\"a\""),
    });
    let part = || app.get("", "Range: bytes=0-3\r\n").text();
    let removes = |what: &str, remove: &dyn Fn()| {
        let before = app.requests();
        assert_eq!([part(), part()], ["abcd", "abcd"], "{what}");
        assert_eq!(app.requests(), before + 1, "{what}");
        remove();
    };
    let send = |method: &str| {
        app.server.request(format!("{method} /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).status
    };
    removes("POST", &|| assert_eq!(send("POST"), 204));
    // The POST itself has reached the upstream.
    removes("PURGE", &|| assert_eq!(send("PURGE"), 200));
    removes("taipan purge", &|| {
        let output = app.server.run_command(&["purge", "--tag", "t"]);
        assert!(output.status.success() && output.stdout.starts_with(b"removed: 1 "), "{output:?}");
    });
    removes("the last", &|| ());
}

#[test]
fn a_body_that_is_read_in_the_background_leaves_its_connection_to_the_next_request() {
    let site = Site::new();
    let path = site.home().join("peer");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.expect("it listens");
            thread::spawn(move || {
                while let Ok(head) = read_request(&mut stream) {
                    let whole = in_part(&head, "Cache-Control: max-age=60\r\n", "\"a\"");
                    let (first, last) = whole.split_at(whole.len() - 2);
                    stream.write_all(first.as_bytes()).expect("it reads");
                    // Time for the client to get its response before the rest is there.
                    thread::sleep(Duration::from_millis(50));
                    stream.write_all(last.as_bytes()).expect("it reads");
                }
            });
        }
    });
    let server = site
        .config(&format!(
            "workers = 1\n[[route]]\npath = \"/app/\"\napplication = \"app\"\nresponse_cache = true\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
            path.display()
        ))
        .start();
    let get = |path: &str, fields: &str| {
        server.request(format!("GET /app/{path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let stored = |number| {
        assert!(wait_until(TIMEOUT, || server.count("responses_stored") == number), "{}", server.stats());
    };
    // 304 to the client, while the whole is stored.
    for number in 1..=3 {
        assert_eq!(get(&number.to_string(), "If-None-Match: \"a\"\r\n").status, 304);
        stored(number);
    }
    // The rest of a response of which parts are stored.
    assert_eq!(get("part", "Range: bytes=0-9\r\n").status, 206);
    assert_eq!(get("part", "").text(), ALPHABET);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}
