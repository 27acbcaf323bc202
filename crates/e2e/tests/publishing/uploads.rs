//! Uploads that are cut, resumed, or run at one time.

use e2e::Signal;
use e2e::http2::Http2Request;

use super::*;

#[test]
fn a_killed_server_leaves_the_old_file() {
    let mut server = server();
    let mut client = server.connect();
    client
        .send("PUT /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
        .send(vec![b'x'; 500_000]);
    let has_begun = || {
        let folder = server.root().join(".taipan-publish/new");
        own_files(&server, "new")
            .iter()
            .any(|name| fs::metadata(folder.join(name)).is_ok_and(|file| file.len() > 0))
    };
    assert!(wait_until(TIMEOUT, has_begun), "it has written some");
    assert_eq!(content(&server, "/a.txt"), "old\n");
    for pid in server.children() {
        e2e::signal_process(pid, Signal::KILL);
    }
    // The next process that serves removes what was left.
    assert!(wait_until(TIMEOUT, || own_files(&server, "new").is_empty()), "{:?}", own_files(&server, "new"));
    assert_eq!(content(&server, "/a.txt"), "old\n");
    server.signal(Signal::TERM);
    server.wait(TIMEOUT);
}

#[test]
fn an_upload_that_breaks_leaves_the_old_file() {
    let server = server();
    // So much that the server writes it before it has the rest.
    let half = "half".repeat(20_000);
    let sized = format!("Content-Length: 160000\r\n\r\n{half}");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{half}\r\n", half.len());
    for half in [sized, chunked] {
        let mut client = server.connect();
        client.send(format!("PUT /a.txt HTTP/1.1\r\nHost: h\r\n{half}"));
        assert!(wait_until(TIMEOUT, || !own_files(&server, "new").is_empty()), "it has begun");
        drop(client);
        assert!(wait_until(TIMEOUT, || own_files(&server, "new").is_empty()), "nothing is left");
        assert_eq!(content(&server, "/a.txt"), "old\n");
    }
    // Nothing of a small one is written before it is whole.
    let mut small = server.connect();
    small.send("PUT /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf");
    drop(small);
    let mut client = server.connect();
    client
        .send("PUT /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nbroken\r\n");
    assert_eq!(client.read_response().status, 400);
    assert_eq!(content(&server, "/a.txt"), "old\n");
}

#[test]
fn an_upload_says_where_it_ends() {
    let config = format!("listen = \"127.0.0.1:0 http2\"\n{OPEN}");
    let server = Site::new().file("a.txt", "old\n").config(&config).start();
    for head in ["HTTP/1.0\r\n", "HTTP/1.1\r\nHost: h\r\n"] {
        assert_eq!(server.request(format!("PUT /a.txt {head}\r\nnew content")).status, 411, "{head}");
        assert_eq!(content(&server, "/a.txt"), "old\n");
    }
    assert_eq!(send(&server, "PUT", "/a.txt", "", "").status, 204);
    let empty = Http2Request::new("PUT", "/new.txt", &[]);
    assert_eq!(server.connect_http2().request(&empty).expect("a response").status, 201);
    assert_eq!((content(&server, "/a.txt"), content(&server, "/new.txt")), (String::new(), String::new()));
}

#[test]
fn readers_see_whole_files_while_many_clients_write() {
    let server = Site::new().config(&format!("workers = 3\n{OPEN}")).start();
    let text = |writer: usize| format!("{writer}").repeat(200_000);
    assert_eq!(send(&server, "PUT", "/t", "", &text(0)).status, 201);
    std::thread::scope(|scope| {
        for writer in 1..=4 {
            let server = &server;
            scope.spawn(move || {
                for _ in 0..10 {
                    assert_eq!(send(server, "PUT", "/t", "", &text(writer)).status, 204);
                    let found = content(server, "/t");
                    let first = &found[..1];
                    assert!(
                        found.len() == 200_000 && found.bytes().all(|byte| byte == first.as_bytes()[0]),
                        "{first}"
                    );
                }
            });
        }
    });
}

#[test]
fn uploads_can_be_resumed() {
    let server = server();
    let whole = String::from_utf8(Random::new(4).bytes(50_000).iter().map(|byte| b'a' + byte % 26).collect())
        .unwrap();
    let mut client = server.connect();
    let fields = "Upload-Complete: ?0\r\nUpload-Length: 50000\r\n";
    client.send(request("PUT", "/up", fields, &whole[..20_000]));
    let interim = client.read_response();
    assert_eq!((interim.status, interim.field("upload-limit").is_some()), (104, true));
    let begun = client.read_response();
    assert_eq!((begun.status, begun.field("upload-offset")), (201, Some("20000")));
    assert_eq!(begun.field("location"), interim.field("location"));
    let url = begun.field("location").expect("the upload").to_owned();
    let head = |server: &Server| server.request(format!("HEAD {url} HTTP/1.1\r\nHost: h\r\n\r\n"));
    let state = |response: Response| {
        let field = |name| response.field(name).unwrap_or_default().to_owned();
        (response.status, field("upload-offset"), field("upload-complete"), field("upload-length"))
    };
    let at = |offset: &str, complete: &str| (204, offset.to_owned(), complete.to_owned(), "50000".to_owned());
    assert_eq!(state(head(&server)), at("20000", "?0"));
    assert_eq!((server.get("/up").status, server.get(&url).status), (404, 404), "nothing is there yet");
    let part = |offset: usize, complete: &str| {
        format!(
            "Content-Type: application/partial-upload\r\nUpload-Offset: {offset}\r\nUpload-Complete: {complete}\r\n"
        )
    };
    check(
        &server,
        &[
            ("PATCH", &url, &part(5, "?1"), &whole[5..], 409),
            ("PATCH", &url, "Upload-Offset: 20000\r\nUpload-Complete: ?1\r\n", &whole[20_000..], 415),
            ("PATCH", &url, &part(20_000, "?0").replace("Upload-Offset", "X"), &whole[20_000..], 400),
            ("PATCH", &url, &part(20_000, "?1"), &whole[20_001..], 400),
            ("PUT", &url, "", "", 405),
            ("PATCH", "/.taipan-upload-00000000000000000000000000000000", &part(0, "?1"), "", 404),
            ("PATCH", "/.taipan-upload-..", &part(0, "?1"), "", 404),
            ("PATCH", &url, &part(20_000, "?0"), &whole[20_000..30_000], 204),
        ],
    );
    // A client that disconnects has still sent something.
    let mut client = server.connect();
    let fields = part(30_000, "?1");
    client.send(format!(
        "PATCH {url} HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n{fields}\r\n{}",
        &whole[30_000..40_000]
    ));
    drop(client);
    // HEAD ends a request that still receives.
    let offset: usize = state(head(&server)).1.parse().unwrap();
    assert!((30_000..=40_000).contains(&offset), "{offset}");
    server.reload();
    let done = send(&server, "PATCH", &url, &part(offset, "?1"), &whole[offset..]);
    assert_eq!((done.status, done.field("upload-complete")), (201, Some("?1")));
    assert_eq!(content(&server, "/up"), whole);
    assert_eq!(state(head(&server)), at("50000", "?1"));
    check(
        &server,
        &[
            ("PATCH", &url, &part(50_000, "?1"), "", 400),
            ("DELETE", &url, "", "", 204),
            ("DELETE", &url, "", "", 404),
        ],
    );
    assert_eq!(content(&server, "/up"), whole);
    assert!(own_files(&server, "uploads").is_empty());
}

/// Has every upload end at this time, in seconds since 1970.
fn set_end_of_uploads(server: &Server, seconds: u64) {
    let folder = server.root().join(".taipan-publish/uploads");
    for name in own_files(server, "uploads").iter().filter(|name| name.ends_with(".text")) {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).unwrap();
        let mut values: Vec<&str> = text.split('\t').collect();
        let seconds = seconds.to_string();
        values[4] = &seconds;
        fs::write(&path, values.join("\t")).unwrap();
    }
}

/// Has the server forget the uploads that have expired.
fn begin_another(server: &Server) {
    let mut client = server.connect();
    client.send(request("PUT", "/other", "Upload-Complete: ?1\r\n", "other"));
    assert_eq!(client.read_response().status, 104);
    assert!(client.read_response().status < 300);
}

#[test]
fn an_upload_survives_that_the_clock_is_set() {
    let server = server();
    let mut client = server.connect();
    client.send(request("PUT", "/up", "Upload-Complete: ?0\r\n", "first "));
    assert_eq!(client.read_response().status, 104);
    let url = client.read_response().field("location").expect("the upload").to_owned();
    let head = || server.request(format!("HEAD {url} HTTP/1.1\r\nHost: h\r\n\r\n"));
    // It was begun in 1970, or by a clock that was far ahead.
    for seconds in [86_405, 4_000_000_000] {
        set_end_of_uploads(&server, seconds);
        begin_another(&server);
        let found = head();
        assert_eq!((found.status, found.field("upload-offset")), (204, Some("6")), "{seconds}");
        let limit = found.field("upload-limit").unwrap_or_default();
        let age = limit.split("max-age=").nth(1).and_then(|age| age.parse::<u64>().ok());
        assert!(age.is_some_and(|age| (86_000..=86_400).contains(&age)), "{limit}");
    }
    // It has expired.
    set_end_of_uploads(&server, 1_700_000_000);
    assert_eq!(head().status, 404);
    begin_another(&server);
    assert_eq!(own_files(&server, "uploads").len(), 1, "{:?}", own_files(&server, "uploads"));
}

#[test]
fn an_upload_that_a_request_receives_does_not_expire() {
    let server = server();
    let whole = "0123456789".repeat(20_000);
    let mut client = server.connect();
    client.send(format!(
        "PUT /up HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\nUpload-Complete: ?1\r\n\r\n{}",
        whole.len(),
        &whole[..100_000]
    ));
    let interim = client.read_response();
    let url = interim.field("location").expect("the upload").to_owned();
    assert!(wait_until(TIMEOUT, || own_files(&server, "uploads").len() == 2), "it has begun");
    set_end_of_uploads(&server, 1_700_000_000);
    begin_another(&server);
    client.send(&whole[100_000..]);
    assert_eq!(client.read_response().status, 201);
    assert_eq!(content(&server, "/up"), whole);
    let found = server.request(format!("HEAD {url} HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_eq!((found.status, found.field("upload-complete")), (204, Some("?1")));
}

/// A client that continues at one time by two requests has success with one of them.
#[test]
fn one_of_two_requests_for_the_same_part_goes_on() {
    let server = server();
    let whole = "0123456789".repeat(10_000);
    let begin = |path: &str| {
        let mut client = server.connect();
        client.send(request("PUT", path, "Upload-Complete: ?0\r\n", &whole[..20_000]));
        assert_eq!(client.read_response().status, 104);
        let begun = client.read_response();
        begun.field("location").expect("the upload").to_owned()
    };
    let head = |url: &str, from: usize, fields: &str| {
        format!(
            "PATCH {url} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{fields}\
             Content-Type: application/partial-upload\r\nUpload-Offset: {from}\r\nUpload-Complete: ?1\r\n\r\n",
            whole.len() - from
        )
    };
    // The first one has received nothing: the second one takes its place.
    let url = begin("/a");
    let mut first = server.connect();
    first.send(head(&url, 20_000, "Expect: 100-continue\r\n"));
    assert_eq!(first.read_response().status, 100);
    let mut second = server.connect();
    second.send(head(&url, 20_000, "")).send(&whole[20_000..]);
    assert_eq!(second.read_response().status, 201);
    assert_eq!(first.read_response().status, 409);
    assert_eq!(content(&server, "/a"), whole);
    // The first one has received more: the second one cannot go on, and so the first one does.
    let url = begin("/b");
    let mut first = server.connect();
    first.send(head(&url, 20_000, "")).send(&whole[20_000..80_000]);
    let uploads = server.root().join(".taipan-publish/uploads");
    let length = || {
        let entries = fs::read_dir(&uploads).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).max()
    };
    assert!(wait_until(TIMEOUT, || length().is_some_and(|length| length > 20_000)), "{:?}", length());
    let mut second = server.connect();
    second.send(head(&url, 20_000, "")).send(&whole[20_000..]);
    let refused = second.read_response();
    let offset: usize = refused.field("upload-offset").expect("the bytes so far").parse().unwrap();
    assert!(refused.status == 409 && (20_001..=80_000).contains(&offset), "{refused}");
    first.send(&whole[80_000..]);
    assert_eq!(first.read_response().status, 201);
    assert_eq!(content(&server, "/b"), whole);
}
