//! Quotas, and disks that are full.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

use super::*;

#[test]
fn quotas_and_free_space_are_kept() {
    let config = format!("{OPEN}publish_quota = \"100KiB\"\n");
    let server = Site::new().file("a", "x".repeat(40 * 1024)).config(&config).start();
    let body = |bytes: usize| "y".repeat(bytes);
    check(
        &server,
        &[
            ("PUT", "/b", "", &body(61 * 1024), 507),
            ("PUT", "/b", "", &body(60 * 1024), 201),
            ("PUT", "/c", "", "z", 507),
            ("COPY", "/a", "Destination: /c\r\n", "", 507),
            ("DELETE", "/b", "", "", 204),
        ],
    );
    assert!(wait_until(TIMEOUT, || own_files(&server, "trash").is_empty()), "it is removed");
    let chunked = format!(
        "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nf400\r\n{}\r\n0\r\n\r\n",
        body(61 * 1024)
    );
    assert_eq!(server.request(chunked).status, 507, "its length is not known before");
    assert!(
        wait_until(TIMEOUT, || send(&server, "PUT", "/c", "", &body(60 * 1024)).status == 201),
        "the space is free again"
    );
    assert!(wait_until(TIMEOUT, || own_files(&server, "new").is_empty()), "nothing is left of it");

    let server =
        Site::new().file("a", "a").config(&format!("{OPEN}publish_min_free = 1125899906842624")).start();
    let set = "<propertyupdate xmlns='DAV:'><set><prop><a xmlns='u'>x</a></prop></set></propertyupdate>";
    let remove = "<propertyupdate xmlns='DAV:'><remove><prop><a xmlns='u'/></prop></remove></propertyupdate>";
    check(
        &server,
        &[
            ("PUT", "/a", "", "b", 507),
            ("PROPPATCH", "/a", "", set, 507),
            ("PROPPATCH", "/a", "", remove, 207),
        ],
    );
    assert_eq!(content(&server, "/a"), "a");
    let server = Site::new().config(&OPEN.replace("8MiB", "1KiB")).start();
    check(&server, &[("PUT", "/a", "", &body(1024), 201), ("PUT", "/a", "", &body(1025), 413)]);
}

#[test]
fn the_log_names_the_folder_that_has_no_space() {
    let site = Site::new().file("a", "x".repeat(9000));
    fs::create_dir_all(site.home().join("other")).unwrap();
    let route = "[[route]]\npath = \"/other/\"\nalias = \"other\"\npublish_quota = 4096\n";
    let server = site.config(&format!("{OPEN}{route}")).start();
    check(&server, &[("COPY", "/a", "Destination: /other/b\r\n", "", 507)]);
    let line = server.wait_for_line("cannot be stored: no space in ", TIMEOUT);
    assert!(line.contains("/other/b cannot be stored") && line.contains("/other, or"), "{line}");
}

/// A client that tries again and again must not fill the disk by the log.
#[test]
fn the_log_has_a_line_a_second_of_what_has_no_space() {
    let server = Site::new().config(&format!("workers = 1\n{OPEN}publish_quota = 4096")).start();
    let body = "y".repeat(64 * 1024);
    server.expect_a_line_a_second("/a cannot be stored", || {
        assert_eq!(send(&server, "PUT", "/a", "", &body).status, 507);
    });
}

#[test]
fn the_log_names_the_limit_that_was_exceeded() {
    let site = || Site::new().file("a", "a").file("b", "b").file("c", "c");
    let lock =
        "<lockinfo xmlns='DAV:'><lockscope><shared/></lockscope><locktype><write/></locktype></lockinfo>";
    let server = site().config(OPEN).start();
    let statuses: Vec<u16> = (0..40).map(|_| send(&server, "LOCK", "/a", "", lock).status).collect();
    assert!(statuses[..32].iter().all(|status| *status == 200), "{statuses:?}");
    assert!(statuses[32..].iter().all(|status| *status == 507), "{statuses:?}");
    let line = server.wait_for_line("no more locks", TIMEOUT);
    assert!(
        line.contains("/a: no more locks: a root has at most 1000, a user 250, and a resource 32"),
        "{line}"
    );

    let server = site().config(OPEN).start();
    let properties: String = (0..200).map(|number| format!("<p{number} xmlns='u'>x</p{number}>")).collect();
    let set = |names: &str| {
        let body = format!("<propertyupdate xmlns='DAV:'><set><prop>{names}</prop></set></propertyupdate>");
        send(&server, "PROPPATCH", "/a", "", &body).status
    };
    assert_eq!(set(&properties), 207);
    assert_eq!(set(&properties.replace("'u'", "'v'")), 507);
    server.wait_for_line("/a: no more properties: a resource has at most 256", TIMEOUT);

    let server = site().config(&format!("{OPEN}[limits]\nlisting_entries = 2\n")).start();
    assert_eq!(send(&server, "PROPFIND", "/", "Depth: 1\r\n", "").status, 507);
    server.wait_for_line("the folder has more members than \"listing_entries\"", TIMEOUT);
}

#[test]
fn a_file_that_a_move_replaces_counts_no_more() {
    let server = Site::new().file("a", "").config(&format!("{OPEN}publish_quota = \"100KiB\"\n")).start();
    let body = "y".repeat(40 * 1024);
    check(
        &server,
        &[
            ("PUT", "/b", "", &body, 201),
            ("PUT", "/c", "", &body, 201),
            ("PUT", "/d", "", &body, 507),
            ("MOVE", "/c", "Destination: /b\r\n", "", 204),
            ("PUT", "/d", "", &body, 201),
        ],
    );
}

#[test]
fn empty_files_and_folders_count_for_a_quota() {
    let server = Site::new().file("a", "").config(&format!("{OPEN}publish_quota = \"20KiB\"\n")).start();
    check(
        &server,
        &[
            ("PUT", "/b", "", "", 201),
            ("MKCOL", "/c/", "", "", 201),
            ("COPY", "/c/", "Destination: /d/\r\n", "", 201),
            ("LOCK", "/e", "", LOCK, 201),
            ("PUT", "/f", "", "", 507),
            ("MKCOL", "/f/", "", "", 507),
            ("COPY", "/c/", "Destination: /f/\r\n", "", 507),
            ("COPY", "/b", "Destination: /f\r\n", "", 507),
            ("LOCK", "/f", "", LOCK, 507),
            ("MOVE", "/b", "Destination: /f\r\n", "", 201),
            ("DELETE", "/c/", "", "", 204),
        ],
    );
    assert!(wait_until(TIMEOUT, || send(&server, "MKCOL", "/g/", "", "").status == 201), "it is free again");
    let server =
        Site::new().config(&format!("{OPEN}publish_make_folders = true\npublish_quota = \"9KiB\"\n")).start();
    check(
        &server,
        &[("PUT", "/a/b/c/d", "", "", 507), ("DELETE", "/a/", "", "", 404), ("PUT", "/a/b", "", "", 201)],
    );
}

#[test]
fn an_upload_that_fails_leaves_no_folders() {
    let config = format!("{OPEN}publish_make_folders = true\npublish_quota = \"64KiB\"\n");
    let server = Site::new().config(&config).start();
    let large = "x".repeat(100 * 1024);
    let chunked = "Transfer-Encoding: chunked\r\n";
    let mut table = Rows::new();
    for (what, rest, expected) in [
        ("too large", format!("Content-Length: {}\r\n\r\n{large}", large.len()), 507),
        ("too large in chunks", format!("{chunked}\r\n{:x}\r\n{large}\r\n0\r\n\r\n", large.len()), 507),
        ("no chunk", format!("{chunked}\r\n1\r\nx\r\nno chunk\r\n"), 400),
    ] {
        let found = server.request(format!("PUT /new/folder/f HTTP/1.1\r\nHost: h\r\n{rest}"));
        table.check(what, (found.status, server.root().join("new").exists()), (expected, false));
    }
    let mut client = server.connect();
    client.send(format!(
        "PUT /new/folder/f HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n{}",
        &large[..50_000]
    ));
    assert!(wait_until(TIMEOUT, || !own_files(&server, "new").is_empty()), "it is written");
    drop(client);
    assert!(wait_until(TIMEOUT, || own_files(&server, "new").is_empty()), "it is removed");
    assert!(!server.root().join("new").exists());
    check(&server, &[("PUT", "/new/folder/f", "", &large[..50 * 1024], 201)]);
}

#[test]
fn a_full_disk_that_is_mounted_loses_nothing() {
    let site = Site::new().config(&format!("{OPEN}publish_min_free = 0\n"));
    let _disk = SmallDisk::mount(&site.root(), "size=256k");
    fs::write(site.root().join("a"), "old").unwrap();
    let server = site.start();
    let large = "x".repeat(300 * 1024);
    let set = format!(
        "<propertyupdate xmlns='DAV:'><set><prop><p xmlns='u'>{}</p></prop></set></propertyupdate>",
        "x".repeat(9000)
    );
    check(
        &server,
        &[
            ("PUT", "/a", "", &large, 507),
            ("PUT", "/b", "", &large[..200 * 1024], 201),
            ("COPY", "/b", "Destination: /c\r\n", "", 507),
            ("COPY", "/b", "Destination: /a\r\n", "", 507),
        ],
    );
    assert_eq!((content(&server, "/a"), server.get("/c").status), ("old".to_owned(), 404));
    assert!(wait_until(TIMEOUT, || own_files(&server, "new").is_empty()), "nothing is left of it");
    // The rest of the disk, by another program.
    let rest = server.root().join("rest");
    _ = fs::write(&rest, &large);
    check(
        &server,
        &[
            ("PUT", "/d", "", "xxxxx", 507),
            ("PROPPATCH", "/a", "", &set, 507),
            ("LOCK", "/locked", "", LOCK, 507),
            ("GET", "/locked", "", "", 404),
            ("DELETE", "/b", "", "", 204),
        ],
    );
    fs::remove_file(rest).unwrap();
    assert!(
        wait_until(TIMEOUT, || send(&server, "PUT", "/d", "", "new").status == 201),
        "there is space again"
    );
    check(&server, &[("PROPPATCH", "/a", "", &set, 207), ("PUT", "/a", "", "new", 204)]);
    assert_eq!(content(&server, "/a"), "new");
}

/// The test holds what the server locks on the disk.
#[test]
fn a_change_that_takes_too_long_is_503_and_is_logged() {
    let server = Site::new().config(&format!("{OPEN}[timeouts]\ndisk = \"1s\"\n")).start();
    assert_eq!(send(&server, "PUT", "/a", "", "a").status, 201);
    let lock = File::open(server.root().join(".taipan-publish/lock")).expect("it is there");
    flock(&lock, FlockOperation::LockExclusive).expect("no request has it");
    let refused = send(&server, "MKCOL", "/b", "", "");
    assert!(refused.status == 503 && refused.has("retry-after"), "{refused}");
    server.wait_for_line(" warn: /b: the disk did not respond in time", TIMEOUT);
    assert_eq!(server.count("timeout_disk"), 1);
    assert_eq!(content(&server, "/a"), "a", "files are read meanwhile");
    drop(lock);
    assert!(wait_until(TIMEOUT, || send(&server, "PUT", "/c", "", "c").status == 201));
}

#[test]
fn without_descriptors_an_upload_gets_503_and_one_that_breaks_off_leaves_nothing() {
    let server = Site::new().config(&format!("workers = 1\n{OPEN}")).start();
    let (mut broken, mut refused) = (server.connect(), server.connect());
    assert_eq!(refused.request(request("PUT", "/a", "", "a")).status, 201);
    broken.send("PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n").send("b".repeat(40 * 1024));
    assert!(wait_until(TIMEOUT, || !own_files(&server, "new").is_empty()), "it is being received");
    let mut prlimit = tool("prlimit");
    succeeds(prlimit.arg(format!("--pid={}", server.serving_pid())).arg("--nofile=1:"));
    let response = refused.request(request("PUT", "/a", "", "b"));
    assert_eq!((response.status, response.field("retry-after")), (503, Some("1")));
    // There is one line a second.
    for _ in 0..50 {
        assert_eq!(refused.request(request("PUT", "/a", "", "b")).status, 503);
    }
    server.wait_for_line(" error: /a cannot be changed: ", TIMEOUT);
    assert!(server.stderr().matches(" error: /a cannot be changed: ").count() < 50, "{}", server.stderr());
    drop(broken);
    assert!(wait_until(TIMEOUT, || own_files(&server, "new").is_empty()), "it is removed");
}
