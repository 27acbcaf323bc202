//! Files and folders that are made, changed, moved and removed.

use e2e::{Client, shown};

use super::*;

#[test]
fn a_file_with_two_names_is_moved_onto_the_other_one() {
    let server = Site::new().file("a.txt", "a").config(OPEN).start();
    std::fs::hard_link(server.root().join("a.txt"), server.root().join("b.txt")).unwrap();
    check(&server, &[("MOVE", "/a.txt", "Destination: /b.txt\r\n", "", 204)]);
    assert_eq!(server.get("/a.txt").status, 404);
    assert_eq!(server.get("/b.txt").text(), "a");
}

#[test]
fn stores_removes_and_moves_files() {
    let server = server();
    check(
        &server,
        &[
            ("PUT", "/new.txt", "", "new\n", 201),
            ("PUT", "/new.txt", "", "newer\n", 204),
            ("PUT", "/missing/x", "", "x", 409),
            ("PUT", "/folder", "", "x", 405),
            ("PUT", "/folder/", "", "x", 405),
            ("PUT", "/x/", "", "x", 405),
            ("PUT", "/new.txt", "Content-Range: bytes 0-0/4\r\n", "x", 400),
            ("PUT", "/new.txt", "Content-Encoding: gzip\r\n", "x", 415),
            ("POST", "/new.txt", "", "x", 405),
            ("PATCH", "/new.txt", "", "x", 405),
            ("MKCOL", "/made", "", "", 201),
            ("MKCOL", "/made", "", "", 405),
            ("MKCOL", "/made/", "", "", 405),
            ("MKCOL", "/no/made", "", "", 409),
            ("MKCOL", "/other", "", "x", 415),
            ("COPY", "/new.txt", "Destination: /made/copy%20of.txt\r\n", "", 201),
            ("COPY", "/new.txt", "Destination: /made/copy%20of.txt\r\nOverwrite: F\r\n", "", 412),
            (
                "COPY",
                "/new.txt",
                "Destination: /made/copy%20of.txt\r\nOverwrite: T\r\nOverwrite: F\r\n",
                "",
                400,
            ),
            ("COPY", "/folder/", "Destination: /made/two/\r\nDepth: 0\r\nDepth: infinity\r\n", "", 400),
            ("COPY", "/new.txt", "Destination: http://h:1/made/copy%20of.txt\r\n", "", 204),
            ("COPY", "/folder", "Destination: /made/deep/\r\n", "", 201),
            ("COPY", "/folder/", "Destination: /made/flat\r\nDepth: 0\r\n", "", 201),
            ("MOVE", "/new.txt", "Destination: /moved.txt\r\n", "", 201),
            ("MOVE", "/folder/", "Destination: /made/deep\r\n", "", 204),
            ("MOVE", "/new.txt", "Destination: /x\r\n", "", 404),
            ("DELETE", "/new.txt", "", "", 404),
            ("DELETE", "/a.txt/", "", "", 404),
            ("DELETE", "/a.txt", "", "", 204),
            ("DELETE", "/made", "Depth: 0\r\n", "", 400),
        ],
    );
    assert_eq!(content(&server, "/moved.txt"), "newer\n");
    assert_eq!(content(&server, "/made/copy%20of.txt"), "newer\n");
    assert_eq!(content(&server, "/made/deep/b.txt"), "b\n");
    assert_eq!((server.get("/made/flat/b.txt").status, server.get("/a.txt").status), (404, 404));
    check(&server, &[("DELETE", "/made", "", "", 204), ("DELETE", "/made", "", "", 404)]);
    assert!(!server.root().join("made").exists());
    assert!(wait_until(TIMEOUT, || own_files(&server, "trash").is_empty()), "the trash is emptied");
}

#[test]
fn makes_missing_folders_by_key() {
    let server =
        Site::new().config(&format!("{OPEN}publish_make_folders = true\npublish_umask = \"007\"")).start();
    check(&server, &[("PUT", "/a/b/c.txt", "", "c", 201), ("PUT", "/a/b/c.txt/d", "", "d", 409)]);
    assert_eq!(content(&server, "/a/b/c.txt"), "c");
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &str| fs::metadata(server.root().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a"), mode("a/b/c.txt")), (0o770, 0o660));
    check(
        &server,
        &[
            ("PUT", "/new/file", "If-Match: \"x\"\r\n", "x", 412),
            ("LOCK", "/a", "Depth: 0\r\n", LOCK, 200),
            ("PUT", "/a/new/file", "", "x", 423),
            ("PUT", "/a/b/file", "", "x", 201),
        ],
    );
    let is_there = |path: &str| server.root().join(path).exists();
    assert!(!is_there("new") && !is_there("a/new"), "a request that is refused leaves no folders");
}

#[test]
fn the_next_request_sees_a_change_on_every_worker() {
    let site = Site::new()
        .file("index.html", "0")
        .config(&format!("workers = 4\n{OPEN}[cache]\ncheck = \"1h\"\nmissing = \"1h\"\n"));
    let server = site.start();
    // Connections that stay with their workers, and have the file in their caches.
    let mut readers: Vec<Client> = (0..12).map(|_| server.connect()).collect();
    let mut read = |path: &str| readers.iter_mut().map(|reader| reader.get(path).text()).collect::<Vec<_>>();
    for round in 1..=10 {
        let text = round.to_string();
        assert_eq!(send(&server, "PUT", "/index.html", "", &text).status, 204);
        assert_eq!(read("/"), vec![text.clone(); 12]);
        assert!(read("/n.txt").iter().all(|found| found.contains("404")), "it is missing");
        assert_eq!(send(&server, "PUT", "/n.txt", "", &text).status, 201);
        assert_eq!(read("/n.txt"), vec![text; 12]);
        assert_eq!(send(&server, "DELETE", "/n.txt", "", "").status, 204);
    }
}

#[test]
fn preconditions_decide_before_anything_changes() {
    let server = server();
    let made = send(&server, "PUT", "/t", "If-None-Match: *\r\n", "1");
    let tag = made.field("etag").expect("the new one").to_owned();
    assert_eq!(server.get("/t").field("etag"), Some(tag.as_str()), "the tag is that of GET");
    check(
        &server,
        &[
            ("PUT", "/t", "If-None-Match: *\r\n", "2", 412),
            ("PUT", "/t", "If-Match: \"other\"\r\n", "2", 412),
            ("PUT", "/none", "If-Match: *\r\n", "2", 412),
            ("PUT", "/t", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", "2", 412),
            ("DELETE", "/t", "If-Match: \"other\"\r\n", "", 412),
            ("MOVE", "/t", "Destination: /u\r\nIf: ([\"other\"])\r\n", "", 412),
            ("PUT", "/t", "If: (<urn:x>)\r\n", "2", 412),
            ("PUT", "/t", "If: (Not <urn:x>\r\n", "2", 400),
            ("PUT", "/t", "If: </a.txt> (Not <urn:x>)\r\n", "1", 204),
        ],
    );
    assert_eq!(
        send(&server, "PUT", "/t", &format!("If-Match: {tag}\r\n"), "3").status,
        412,
        "it has changed"
    );
    let now = server.get("/t").field("etag").unwrap().to_owned();
    assert_eq!(send(&server, "PUT", "/t", &format!("If-Match: {now}\r\n"), "3").status, 204);
    assert_eq!(content(&server, "/t"), "3");
}

#[test]
fn moves_between_roots_lose_nothing() {
    let config = format!("{OPEN}[[route]]\npath = \"/other/\"\nalias = \"other\"\n");
    let site = Site::new().file("a.txt", "a").file("d/e/f", "f").file("odd/x", "x").symlink("odd/link", "x");
    fs::create_dir_all(site.home().join("other/full/deep")).unwrap();
    let server = site.config(&config).start();
    check(
        &server,
        &[
            ("MOVE", "/odd/", "Destination: /other/odd/\r\n", "", 403),
            ("MOVE", "/a.txt", "Destination: /other/full\r\nOverwrite: F\r\n", "", 412),
            ("MOVE", "/a.txt", "Destination: /other/full\r\n", "", 204),
            ("MOVE", "/d/", "Destination: /other/d/\r\n", "", 201),
            ("MOVE", "/other/d/", "Destination: /d/\r\nOverwrite: F\r\n", "", 201),
        ],
    );
    assert_eq!((content(&server, "/other/full"), content(&server, "/d/e/f")), ("a".into(), "f".into()));
    assert_eq!((server.get("/a.txt").status, server.get("/other/d/").status), (404, 404));
    assert_eq!(content(&server, "/odd/x"), "x");
}

#[test]
fn folders_of_many_files_are_streamed() {
    let mut site = Site::new();
    for number in 0..300 {
        site = site.file(&format!("many/file number {number} & more.txt"), "x");
    }
    let server = site.config(OPEN).start();
    let found = send(&server, "PROPFIND", "/many", "Depth: 1\r\n", "").text();
    assert_eq!(found.matches("<D:response>").count(), 301);
    assert!(found.contains("<D:href>/many/</D:href>"), "a folder has a slash: {}", shown(&found[..500]));
    assert!(found.contains("/many/file%20number%20299%20&amp;%20more.txt"));
    assert!(found.ends_with("</D:multistatus>\n"));
    let server = Site::new()
        .file("1", "")
        .file("2", "")
        .file("3", "")
        .config(&format!("{OPEN}[limits]\nlisting_entries = 2\n"))
        .start();
    assert_eq!(
        send(&server, "PROPFIND", "/", "Depth: 1\r\n", "").status,
        507,
        "nothing is left out silently"
    );
}

#[test]
fn a_destination_that_is_refused_is_explained() {
    let server = server();
    for (method, path, destination, status, why) in [
        ("MOVE", "/a.txt", "/a.txt", 403, "Destination is what is to be copied or moved"),
        ("COPY", "/folder/", "/folder/in/", 403, "or a folder around it or in it"),
        ("COPY", "/folder/", "/", 403, "root folder is neither moved nor replaced"),
        ("COPY", "/a.txt", "http://other.example/a.txt", 502, "Destination is on another server"),
    ] {
        let response = send(&server, method, path, &format!("Destination: {destination}\r\n"), "");
        assert_eq!(response.status, status, "{method} {path} {destination}");
        assert!(response.text().contains(why), "{method} {path} {destination}: {}", response.text());
    }
}

#[test]
fn explain_says_what_is_rejected() {
    let files = OPEN.replace("webdav", "files");
    let server = Site::new().file("a.txt", "a").folder("sub").config(&files).start();
    let mut table = Rows::new();
    for (method, path, words, status) in [
        ("DELETE", "/sub/", "a folder gets 403", 403),
        ("PUT", "/", "no: 405", 405),
        ("PUT", "/sub/", "no: 405", 405),
        ("PUT", "/sub", "a path where a folder is gets 405", 405),
        ("PUT", "/none/x", "a path whose folder is missing gets 409", 409),
        ("PUT", "/a%FFb", "no: 400", 400),
        ("PATCH", "/a.txt", "no: 405", 405),
    ] {
        let out = server.run_command(&["explain", method, path]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.contains(words) && !text.contains("everything in it"), "{method} {path}: {text}");
        table.check(format!("{method} {path}"), send(&server, method, path, "", "x").status, status);
    }
}

#[test]
fn explain_changes_nothing_and_check_refuses_unsafe_publishing() {
    let server = server();
    for (method, words) in [("PUT", "puts it in place"), ("DELETE", "removes the file"), ("MOVE", "moves it")]
    {
        let out = server.run_command(&["explain", method, "/a.txt"]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && text.contains(words), "{method}: {text}");
    }
    assert_eq!(content(&server, "/a.txt"), "old\n");
    let refused = |config: &str| {
        let site = Site::new().config(config);
        let mut check = e2e::command();
        let out = output_of(check.args(["check", "-c"]).arg(site.write_config()));
        assert!(!out.status.success(), "{config}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let found = refused("publish = \"webdav\"\n");
    assert!(found.contains("everyone could publish"), "{found}");
    let found = refused(&format!("{OPEN}[[route]]\npath = \"/cgi-bin/\"\ncgi = true\n"));
    assert!(found.contains("could run as scripts"), "{found}");
    let found = refused(&format!("{OPEN}[[route]]\npath = \"/team/\"\nalias = \"www/team\"\n"));
    assert!(found.contains("the root of /team/ lies in that of /"), "{found}");
    let linked = format!(
        "[[route]]\npath = \"/team/\"\nalias = \"www/team\"\n{OPEN}\
         [[host]]\nnames = \"o\"\nroot = \"www/link\"\n[[host.route]]\npath = \"*.cgi\"\ncgi = true\n"
    );
    let site = Site::new().folder("team").symlink("link", "team").config(&linked);
    let mut check = e2e::command();
    let out = output_of(check.args(["check", "-c"]).arg(site.write_config()));
    let found = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && found.contains("could run as scripts"), "{found}");
}

#[test]
fn a_proxy_is_told_to_send_a_change_again_when_the_handshake_is_over() {
    let server = server();
    let early = "Early-Data: 1\r\n";
    check(
        &server,
        &[
            ("PUT", "/a.txt", early, "new", 425),
            ("PUT", "/a.txt", "Early-Data: 0\r\n", "new", 425),
            ("DELETE", "/a.txt", early, "", 425),
            ("MOVE", "/a.txt", "Early-Data: 1\r\nDestination: /b\r\n", "", 425),
            ("MKCOL", "/made", early, "", 425),
            ("GET", "/a.txt", early, "", 200),
            ("PROPFIND", "/a.txt", "Early-Data: 1\r\nDepth: 0\r\n", "", 207),
            ("PUT", "/a.txt", "", "new", 204),
        ],
    );
}
