//! WebDAV as its clients speak it: properties, XML, and the programs themselves.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn litmus_passes() {
    let server = server();
    let out = succeeds(tool("litmus").arg(server.url("/")).current_dir(server.home()));
    assert_eq!(out.matches(" 0 failed.").count(), 5, "{out}");
    assert!(!out.contains("WARNING"), "{out}");
}

#[test]
fn xml_cannot_harm() {
    let server = server();
    let bomb = "<!DOCTYPE a [<!ENTITY b 'bbbb'><!ENTITY c '&b;&b;'>]><propfind xmlns='DAV:'><prop>&c;</prop></propfind>";
    let deep = format!("<propfind xmlns='DAV:'>{}{}</propfind>", "<a>".repeat(100), "</a>".repeat(100));
    let many = format!("<propfind xmlns='DAV:'><prop>{}</prop></propfind>", "<a/>".repeat(10_000));
    let named: String = (0..300).map(|number| format!("<a{number}/>")).collect();
    let named = format!("<propfind xmlns='DAV:'><prop>{named}</prop></propfind>");
    let namespace =
        format!("<propfind xmlns='DAV:'><prop xmlns:p='{}'><p:a/></prop></propfind>", "u".repeat(40_000));
    let attributes: String = (0..100).map(|number| format!(" a{number}=''")).collect();
    let attributes = format!("<propfind xmlns='DAV:'><prop{attributes}/></propfind>");
    let long = format!("<propfind xmlns='DAV:'><prop><a>{}</a></prop></propfind>", "x".repeat(200_000));
    check(
        &server,
        &[
            ("PROPFIND", "/", "Depth: 0\r\n", bomb, 400),
            ("PROPFIND", "/", "Depth: 0\r\n", &deep, 400),
            ("PROPFIND", "/", "Depth: 0\r\n", &many, 400),
            ("PROPFIND", "/", "Depth: 0\r\n", &long, 413),
            ("PROPFIND", "/", "Depth: 0\r\n", &named, 413),
            ("PROPFIND", "/", "Depth: 0\r\n", &namespace, 400),
            ("PROPFIND", "/", "Depth: 0\r\n", &attributes, 400),
            ("PROPFIND", "/", "Depth: 0\r\n", "<propfind/>", 422),
            ("PROPFIND", "/", "Depth: 0\r\n", "<propfind xmlns='DAV:'>", 400),
            ("PROPFIND", "/", "Depth: 2\r\n", "", 400),
            ("PROPFIND", "/", "", "", 403),
            ("PROPFIND", "/none", "Depth: 0\r\n", "", 404),
            ("LOCK", "/a.txt", "", "<lockinfo xmlns='DAV:'/>", 422),
            ("LOCK", "/a.txt", "", "", 400),
        ],
    );
    let again = format!("<propfind xmlns='DAV:'><prop>{}</prop></propfind>", "<lockdiscovery/>".repeat(1000));
    let found = send(&server, "PROPFIND", "/a.txt", "Depth: 0\r\n", &again).text();
    assert_eq!(found.matches("<D:lockdiscovery>").count(), 1, "{found}");
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn many_clients_list_a_folder_at_once() {
    let mut site = Site::new();
    for number in 0..50 {
        site = site.file(&format!("{number}"), "x");
    }
    let server = site.config(&format!("workers = 1\n{OPEN}")).start();
    let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(request("PROPFIND", "/", "Depth: 1\r\n", ""));
    }
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.read_response().status).collect();
    assert_eq!(statuses, [207; 40]);
}

#[test]
fn properties_are_those_that_were_set() {
    let server = Site::new().file("a", "a").config(&format!("{OPEN}publish_deep_listing = true\n")).start();
    let set = "<D:propertyupdate xmlns:D='DAV:' xmlns:Z='urn:z'><D:set><D:prop><Z:color xml:lang='de'>rot &amp; blau</Z:color>\
               </D:prop></D:set></D:propertyupdate>";
    assert_eq!(send(&server, "PROPPATCH", "/a", "", set).status, 207);
    let live =
        "<propertyupdate xmlns='DAV:'><set><prop><getetag>x</getetag><other/></prop></set></propertyupdate>";
    let refused = send(&server, "PROPPATCH", "/a", "", live).text();
    assert!(refused.contains("403 Forbidden") && refused.contains("424 Failed Dependency"), "{refused}");
    // Read-only for clients, and they say so; a file that is replaced keeps what was said of it, and so does a moved
    // one.
    check(
        &server,
        &[
            ("PUT", "/a", "", "new", 204),
            ("MOVE", "/a", "Destination: /b\r\n", "", 201),
            ("COPY", "/b", "Destination: /c\r\n", "", 201),
        ],
    );
    let ask =
        "<propfind xmlns='DAV:'><prop><color xmlns='urn:z'/><getcontentlength/><nothing/></prop></propfind>";
    for path in ["/b", "/c"] {
        let found = send(&server, "PROPFIND", path, "Depth: 0\r\n", ask).text();
        for part in [
            "<Z:color xmlns:Z=\"urn:z\" xml:lang=\"de\">rot &amp; blau</Z:color>",
            "<D:getcontentlength>3<",
            "404 Not Found",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
    check(&server, &[("DELETE", "/b", "", "", 204), ("PUT", "/b", "", "b", 201)]);
    assert!(
        !send(&server, "PROPFIND", "/b", "Depth: 0\r\n", "").text().contains("color"),
        "it is another file"
    );
    check(&server, &[("MKCOL", "/d", "", "", 201), ("PUT", "/d/e", "", "e", 201)]);
    let all = send(&server, "PROPFIND", "/", "Depth: infinity\r\n", "").text();
    assert!(all.contains("<D:href>/d/e</D:href>") && all.contains("<D:collection/>"), "{all}");
}

#[test]
fn a_folder_that_moves_is_listed_whole_or_not_at_all() {
    let mut site = Site::new();
    for number in 0..30 {
        site = site.file(&format!("k/{number}"), "x");
    }
    let server = site.config(OPEN).start();
    let is_done = AtomicBool::new(false);
    let statuses = std::thread::scope(|scope| {
        scope.spawn(|| {
            for (from, to) in [("/k/", "/l"), ("/l/", "/k")].into_iter().cycle() {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                assert_eq!(send(&server, "MOVE", from, &format!("Destination: {to}\r\n"), "").status, 201);
            }
        });
        let list = || {
            let found = send(&server, "PROPFIND", "/k/", "Depth: 1\r\n", "");
            (found.status, found.text().matches("<D:response>").count())
        };
        let all: Vec<(u16, usize)> = (0..500).map(|_| list()).collect();
        is_done.store(true, Ordering::Relaxed);
        all
    });
    assert!(statuses.iter().all(|found| matches!(found, (207, 31) | (404, 0))), "{statuses:?}");
}

#[test]
fn speaks_as_finder_and_windows_expect() {
    let server = server();
    let options = send(&server, "OPTIONS", "/", "", "");
    for (name, value) in [("dav", "1, 2, 3"), ("ms-author-via", "DAV")] {
        assert_eq!(options.field(name), Some(value));
    }
    assert!(options.field("allow").unwrap().contains("PROPFIND"));
    let ask = "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:getlastmodified/>\
               <D:getcontentlength/><D:creationdate/><D:resourcetype/><D:quota-available-bytes/></D:prop></D:propfind>";
    let lock = "<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope><D:locktype>\
                <D:write/></D:locktype><D:owner><D:href>http://www.apple.com/webdav_fs/</D:href></D:owner></D:lockinfo>";
    let found =
        send(&server, "PROPFIND", "/", "Depth: 1\r\nTranslate: f\r\nContent-Type: text/xml\r\n", ask).text();
    assert!(found.contains("<D:quota-available-bytes>"), "{found}");
    // Finder: a lock makes the file, which is written empty, and then full.
    let locked = send(&server, "LOCK", "/New%20File.txt", "Timeout: Second-600\r\nDepth: 0\r\n", lock);
    assert_eq!((locked.status, locked.text().contains("webdav_fs")), (201, true));
    let held = format!("If: ({})\r\n", locked.field("lock-token").unwrap());
    let token = format!("Lock-Token: {}\r\n", locked.field("lock-token").unwrap());
    // Windows: its times are dead properties.
    let times = "<D:propertyupdate xmlns:D=\"DAV:\" xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop>\
                 <Z:Win32LastModifiedTime>Sun, 22 Nov 2026 10:00:00 GMT</Z:Win32LastModifiedTime></D:prop></D:set>\
                 </D:propertyupdate>";
    check(
        &server,
        &[
            ("PUT", "/New%20File.txt", &held, "", 204),
            ("PUT", "/New%20File.txt", &held, "content", 204),
            ("PROPPATCH", "/New%20File.txt", &held, times, 207),
            ("LOCK", "/New%20File.txt", &format!("{held}Timeout: Infinite\r\n"), "", 200),
            ("UNLOCK", "/New%20File.txt", &token, "", 204),
            ("MOVE", "/New%20File.txt", "Destination: /b\r\nOverwrite: F\r\n", "", 201),
        ],
    );
    assert_eq!(content(&server, "/b"), "content");
}

#[test]
fn a_file_is_locked_only_if_the_conditions_of_the_request_hold() {
    check(
        &server(),
        &[
            ("LOCK", "/a.txt", "If: ([\"other\"])\r\n", LOCK, 412),
            ("LOCK", "/a.txt", "If: (<urn:x>)\r\n", LOCK, 412),
            ("PUT", "/a.txt", "", "not locked", 204),
            ("LOCK", "/a.txt", "If: (Not <urn:x>)\r\n", LOCK, 200),
            ("PUT", "/a.txt", "", "locked", 423),
        ],
    );
}

/// RFC 4918 §10.4.
#[test]
fn what_only_reads_or_changes_locks_has_the_conditions_of_its_request() {
    let server = server();
    let tag = |path: &str| server.get(path).field("etag").expect("it has one").to_owned();
    let (own, other) = (tag("/a.txt"), tag("/folder/b.txt"));
    let mut rows = Rows::new();
    for (field, holds) in [
        (format!("([{own}])"), true),
        (format!("([{other}])"), false),
        (format!("(Not [{other}])"), true),
        (format!("(Not [{own}])"), false),
        ("(<urn:x>)".to_owned(), false),
        ("(Not <DAV:no-lock>)".to_owned(), true),
        (format!("(<urn:x>) ([{own}])"), true),
        (format!("</folder/b.txt> ([{other}])"), true),
        (format!("<http://h/folder/b.txt> ([{other}])"), true),
        (format!("<http://h/folder/b.txt> ([{own}])"), false),
    ] {
        let found = send(&server, "PROPFIND", "/a.txt", &format!("Depth: 0\r\nIf: {field}\r\n"), "");
        rows.check(field, found.status, if holds { 207 } else { 412 });
    }
    let locked = send(&server, "LOCK", "/a.txt", "Depth: 0\r\n", LOCK);
    let token = locked.field("lock-token").expect("it is locked").to_owned();
    check(
        &server,
        &[
            ("PROPFIND", "/a.txt", &format!("Depth: 0\r\nIf: ({token})\r\n"), "", 207),
            ("PROPFIND", "/a.txt", "Depth: 0\r\nIf: (\r\n", "", 400),
            ("LOCK", "/a.txt", &format!("If: ({token} [{other}])\r\n"), "", 412),
            ("LOCK", "/a.txt", &format!("If: ({token} Not [{own}])\r\n"), "", 412),
            ("LOCK", "/a.txt", &format!("If: ({token} [{own}])\r\n"), "", 200),
            ("UNLOCK", "/a.txt", &format!("Lock-Token: {token}\r\nIf: ([{other}])\r\n"), "", 412),
            ("UNLOCK", "/a.txt", &format!("Lock-Token: {token}\r\nIf: (Not {token})\r\n"), "", 412),
            ("PUT", "/a.txt", "", "still locked", 423),
            ("UNLOCK", "/a.txt", &format!("Lock-Token: {token}\r\nIf: ({token} [{own}])\r\n"), "", 204),
            ("PUT", "/a.txt", "", "not locked", 204),
        ],
    );
}

#[test]
fn a_condition_is_about_the_resource_that_it_names() {
    let config = format!("{OPEN}etag = \"content\"\n[[route]]\npath = \"/other/\"\nalias = \"other\"\n");
    let site = Site::new().file("a.txt", "a\n").file("b.txt", "b\n");
    fs::create_dir_all(site.home().join("other")).unwrap();
    let server = site.config(&config).start();
    let tag = server.get("/b.txt").field("etag").expect("it has one").to_owned();
    check(
        &server,
        &[
            ("PUT", "/a.txt", &format!("If: </b.txt> ([{tag}])\r\n"), "1", 204),
            ("PUT", "/a.txt", &format!("If: </b.txt> (Not [{tag}])\r\n"), "2", 412),
        ],
    );
    let locked = send(&server, "LOCK", "/other/c", "", LOCK);
    let token = locked.field("lock-token").expect("it is locked");
    check(
        &server,
        &[
            ("COPY", "/a.txt", "Destination: /other/c\r\n", "", 423),
            ("COPY", "/a.txt", &format!("Destination: /other/c\r\nIf: </other/c> ({token})\r\n"), "", 204),
        ],
    );
    assert_eq!(content(&server, "/other/c"), "1");
}

/// RFC 4918 §10.7: a client that asks for no time has a lock all the same, and learns of its time.
#[test]
fn a_lock_of_no_time_has_the_time_of_one_without() {
    let server = server();
    let locked = send(&server, "LOCK", "/a.txt", "Timeout: Second-0\r\n", LOCK);
    assert!(locked.text().contains("<D:timeout>Second-3600<"), "{}", locked.text());
    check(&server, &[("PUT", "/a.txt", "", "x", 423)]);
}

/// As the process that serves and its predecessor do after a reload.
#[test]
fn processes_that_serve_the_same_root_know_the_locks_of_each_other() {
    let first = server();
    let config = format!("root = \"{}\"\n{OPEN}", first.root().display());
    let second = Site::new().config_without_root(&config).start();
    for (own, other) in [(&first, &second), (&second, &first)].into_iter().cycle().take(6) {
        let locked = send(own, "LOCK", "/a.txt", "", LOCK);
        let token = locked.field("lock-token").expect("it is locked").to_owned();
        let (held, token) = (format!("If: ({token})\r\n"), format!("Lock-Token: {token}\r\n"));
        check(other, &[("PUT", "/a.txt", "", "x", 423), ("PUT", "/a.txt", &held, "x", 204)]);
        check(own, &[("UNLOCK", "/a.txt", &token, "", 204)]);
        check(other, &[("PUT", "/a.txt", "", "x", 204)]);
    }
}

/// RFC 4918 §5.2: the URL of a folder has a slash at its end.
#[test]
fn a_response_names_what_is_locked_by_its_url() {
    let site = Site::new().file("a.txt", "a").file("folder/b.txt", "b").file("c/d", "d");
    fs::create_dir_all(site.home().join("other/sub")).unwrap();
    let config = format!("{OPEN}[[route]]\npath = \"/other/\"\nalias = \"other\"\n");
    let server = site.config(&config).start();
    for path in ["/folder", "/other/sub", "/c/d"] {
        assert_eq!(send(&server, "LOCK", path, "", LOCK).status, 200, "{path}");
    }
    let mut rows = Rows::new();
    for (method, path, fields, body, status, locked) in [
        ("LOCK", "/folder/b.txt", "", LOCK, 423, "/folder/"),
        ("LOCK", "/folder", "", LOCK, 423, "/folder/"),
        ("LOCK", "/c/d", "", LOCK, 423, "/c/d"),
        ("LOCK", "/", "", LOCK, 207, "/folder/"),
        ("LOCK", "/c/", "", LOCK, 207, "/c/d"),
        ("PUT", "/folder/b.txt", "", "x", 423, "/folder/"),
        ("DELETE", "/folder/", "", "", 423, "/folder/"),
        ("DELETE", "/c/", "", "", 423, "/c/d"),
        ("COPY", "/a.txt", "Destination: /other/sub\r\n", "", 423, "/other/sub/"),
    ] {
        let found = send(&server, method, path, fields, body);
        let text = found.text();
        let is_named = text.contains(&format!("<D:href>{locked}</D:href>"));
        rows.check(format!("{method} {path} {text}"), (found.status, is_named), (status, true));
    }
}

#[test]
fn a_locked_file_is_not_copied_to_another_root_by_a_move() {
    let site = Site::new().file("a.txt", "a");
    let other = site.home().join("other");
    fs::create_dir_all(&other).unwrap();
    let server = site.config(&format!("{OPEN}[[route]]\npath = \"/other/\"\nalias = \"other\"\n")).start();
    assert_eq!(send(&server, "LOCK", "/a.txt", "", LOCK).status, 200);
    check(&server, &[("MOVE", "/a.txt", "Destination: /other/a.txt\r\n", "", 423)]);
    assert!(!other.join("a.txt").exists());
}

#[test]
fn rclone_and_cadaver_work() {
    let server = server();
    let home = server.home();
    fs::create_dir_all(home.join("up/deep")).unwrap();
    fs::write(home.join("up/one.txt"), "1").unwrap();
    fs::write(home.join("up/deep/two words.txt"), Random::new(7).bytes(300_000)).unwrap();
    let rclone = |arguments: &[&str]| {
        let mut rclone = tool("rclone");
        rclone.env("HOME", home).env("RCLONE_CONFIG", home.join("rclone.conf")).current_dir(home);
        rclone.args(["--webdav-url", &server.url("/"), "--webdav-vendor", "other"]).args(arguments);
        succeeds(&mut rclone)
    };
    rclone(&["copy", "up", ":webdav:there"]);
    rclone(&["check", "up", ":webdav:there", "--download"]);
    rclone(&["moveto", ":webdav:there/one.txt", ":webdav:there/first.txt"]);
    assert_eq!(content(&server, "/there/first.txt"), "1");
    rclone(&["purge", ":webdav:there"]);
    assert_eq!(server.get("/there/first.txt").status, 404);

    fs::write(
        home.join("commands"),
        "mkcol made\ncd made\nput up/one.txt\ncopy one.txt two.txt\nlock two.txt\nunlock two.txt\nls\nquit\n",
    )
    .unwrap();
    let mut cadaver = tool("cadaver");
    cadaver.arg(server.url("/")).env("HOME", home).current_dir(home);
    let out = succeeds(cadaver.stdin(fs::File::open(home.join("commands")).unwrap()));
    assert_eq!(content(&server, "/made/two.txt"), "1", "{out}");
    assert!(!out.contains("failed"), "{out}");
}

/// RFC 4918 §15.7.
#[test]
fn the_modification_time_of_a_file_is_that_of_get() {
    let server = server();
    for seconds in [0, 1, 315_532_800, 1_000_000_000] {
        server.files().set_modified("www/a.txt", seconds);
        let body = "<propfind xmlns=\"DAV:\"><prop><getlastmodified/></prop></propfind>";
        let by_get = || server.get("/a.txt").field("last-modified").expect("it has one").to_owned();
        let by_propfind = || {
            let found = send(&server, "PROPFIND", "/a.txt", "Depth: 0\r\n", body).text();
            let value = found.split("getlastmodified>").nth(1).unwrap_or(&found);
            value.trim_end_matches("</D:").to_owned()
        };
        // The cached file is compared with the disk once a second.
        assert!(
            wait_until(TIMEOUT, || by_get() == by_propfind()),
            "{seconds}: {} {}",
            by_get(),
            by_propfind()
        );
    }
}
