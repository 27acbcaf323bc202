//! Paths that lead to nothing that a client may change.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn refuses_paths_that_are_not_of_the_client() {
    let site = Site::new().file("a.txt", "a").folder("d").file("d/x", "x").file(".secret/s", "s");
    let site = site.symlink("out", "/tmp").symlink("link", "a.txt").symlink("in", "d").file("hid/.h", "h");
    let server = site.config(OPEN).start();
    check(
        &server,
        &[
            ("PUT", "/../a.txt", "", "x", 400),
            ("PUT", "/%2e%2e/a.txt", "", "x", 400),
            ("PUT", "/d%2fy", "", "x", 400),
            ("PUT", "/out/taipan-e2e", "", "x", 403),
            ("PUT", "/in/y", "", "x", 403),
            ("PUT", "/.hidden", "", "x", 403),
            ("PUT", "/.htpasswd", "", "x", 403),
            ("PUT", "/d/.taipan-x", "", "x", 403),
            ("PUT", "/.taipan-publish/lock", "", "x", 403),
            ("DELETE", "/.taipan-publish/", "", "", 403),
            ("PROPFIND", "/.taipan-publish/", "Depth: 0\r\n", "", 403),
            ("DELETE", "/", "", "", 403),
            ("MOVE", "/", "Destination: /d/e\r\n", "", 403),
            ("COPY", "/", "Destination: /d/e\r\n", "", 403),
            ("COPY", "/d", "Destination: /d/e\r\n", "", 403),
            ("MOVE", "/d", "Destination: /d/e/f\r\n", "", 403),
            ("MOVE", "/d/x", "Destination: /d\r\n", "", 403),
            ("MOVE", "/d", "Destination: /d\r\n", "", 403),
            ("MOVE", "/d", "Destination: /\r\n", "", 403),
            ("MOVE", "/d/x", "Destination: /a.txt/\r\n", "", 409),
            ("COPY", "/d/x", "Destination: /new/\r\n", "", 409),
            ("COPY", "/d", "Destination: /a.txt/\r\n", "", 409),
            ("COPY", "/a.txt", "Destination: /../b\r\n", "", 400),
            ("COPY", "/a.txt", "Destination: /d/%2e%2e/%2e%2e/b\r\n", "", 400),
            ("COPY", "/a.txt", "Destination: /.taipan-publish/b\r\n", "", 403),
            ("COPY", "/a.txt", "Destination: /.b\r\n", "", 403),
            ("COPY", "/a.txt", "Destination: /out/b\r\n", "", 403),
            ("COPY", "/a.txt", "Destination: http://elsewhere.example/b\r\n", "", 502),
            ("COPY", "/a.txt", "Destination: //elsewhere.example/b\r\n", "", 400),
            ("COPY", "/a.txt", "Destination: //b\r\n", "", 400),
            ("COPY", "/a.txt", "Destination: relative\r\n", "", 400),
            ("COPY", "/a.txt", "", "", 400),
            ("COPY", "/link", "Destination: /b\r\n", "", 403),
            ("LOCK", "/link", "", LOCK, 403),
            ("LOCK", "/in/", "", LOCK, 403),
            ("LOCK", "/a.txt/", "", LOCK, 404),
            ("PROPPATCH", "/link", "", PROPERTY, 403),
            ("PROPPATCH", "/none", "", PROPERTY, 404),
            ("PROPPATCH", "/a.txt/", "", PROPERTY, 404),
            ("COPY", "/a.txt", "Destination: /missing/b\r\n", "", 409),
            ("COPY", "/a.txt", "Destination: /b\r\nDepth: 1\r\n", "", 400),
            ("MOVE", "/d", "Destination: /e\r\nDepth: 0\r\n", "", 400),
            ("MOVE", "/a.txt", "Destination: /b\r\nOverwrite: maybe\r\n", "", 400),
            // There is something in it that the client cannot have.
            ("DELETE", "/hid/", "", "", 403),
            ("MOVE", "/hid/", "Destination: /seen\r\n", "", 403),
            ("COPY", "/hid/", "Destination: /copied\r\n", "", 201),
        ],
    );
    assert!(!server.root().join("copied/.h").exists(), "what is hidden is not copied");
    assert!(server.root().join("hid/.h").exists());
    assert!(!Path::new("/tmp/taipan-e2e").exists());
    // A link is removed, and not what it leads to.
    check(&server, &[("DELETE", "/link", "", "", 204)]);
    assert_eq!(content(&server, "/a.txt"), "a");
    let listed = send(&server, "PROPFIND", "/", "Depth: 1\r\n", "").text();
    assert!(listed.contains("/a.txt") && listed.contains("/d/"), "{listed}");
    assert!(
        !listed.contains("secret") && !listed.contains("taipan-publish") && !listed.contains("/out"),
        "{listed}"
    );
    let linked = send(&server, "PROPFIND", "/in/", "Depth: 1\r\n", "").text();
    assert!(linked.contains("<D:href>/in/x</D:href>"), "what GET lists: {linked}");
}

#[test]
fn a_slash_at_the_end_leads_to_no_file() {
    // The configuration lies in the root.
    let config = "root = \".\"\npublish = \"webdav\"\npublish_anonymous = true\n\
                  [[route]]\npath = \"/fixed\"\npublish = \"off\"\n";
    let site = Site::new().file("x", "x").folder("d").file("d/y", "y").config_without_root(config);
    fs::write(site.home().join("fixed"), "fixed").unwrap();
    let server = site.start();
    let own = fs::read(server.home().join("site.toml")).unwrap();
    let mut rows = Vec::new();
    for path in ["/site.toml", "/site.toml/", "/site%2Etoml/", "/site.toml//"] {
        let field = format!("Destination: {path}\r\n");
        rows.extend(["COPY", "MOVE"].map(|method| (method, "/www/x", field.clone(), 403)));
        rows.extend(["COPY", "MOVE"].map(|method| (method, "/www/d", field.clone(), 403)));
    }
    for source in ["/www/x", "/www/d"] {
        let field = "Destination: /fixed/\r\n".to_owned();
        rows.extend(["COPY", "MOVE"].map(|method| (method, source, field.clone(), 409)));
    }
    rows.push(("MKCOL", "/site.toml/", String::new(), 403));
    rows.push(("DELETE", "/site.toml/", String::new(), 403));
    rows.push(("COPY", "/www/d", "Destination: /www/copy/\r\n".to_owned(), 201));
    let rows: Vec<_> =
        rows.iter().map(|(method, path, field, status)| (*method, *path, &**field, "", *status)).collect();
    check(&server, &rows);
    assert_eq!(fs::read(server.home().join("site.toml")).unwrap(), own);
    assert_eq!(fs::read_to_string(server.home().join("fixed")).unwrap(), "fixed");
    assert_eq!(content(&server, "/www/copy/y"), "y", "a copy that is on the disk");
}

#[test]
fn what_is_mounted_in_a_folder_is_not_removed_with_it() {
    let site = Site::new().folder("d").folder("d/mounted").file("a.txt", "a").config(OPEN);
    let folder = site.root().join("d/mounted");
    let _disk = SmallDisk::mount(&folder, "size=128k");
    fs::write(folder.join("kept"), "kept").unwrap();
    let server = site.start();
    check(
        &server,
        &[
            ("DELETE", "/d/", "", "", 403),
            ("MOVE", "/d/", "Destination: /e/\r\n", "", 403),
            ("COPY", "/a.txt", "Destination: /d\r\n", "", 403),
            ("PROPFIND", "/d/", "Depth: 1\r\n", "", 207),
        ],
    );
    assert_eq!(content(&server, "/d/mounted/kept"), "kept");
}

#[test]
fn paths_that_are_too_long_are_refused() {
    let server = server();
    let folders = |first: char, count: usize| {
        (0..count).fold(String::new(), |path, _| format!("{path}/{first}{}", "n".repeat(240)))
    };
    for first in ['x', 'y'] {
        for count in 1..=12 {
            assert_eq!(send(&server, "MKCOL", &folders(first, count), "", "").status, 201, "{count}");
        }
    }
    let (x, y) = (folders('x', 12), folders('y', 1));
    check(
        &server,
        &[
            ("PUT", &format!("/{}", "n".repeat(256)), "", "x", 414),
            ("PUT", &format!("{}/f", folders('x', 17)), "", "x", 414),
            ("MOVE", &y, &format!("Destination: {x}/y\r\n"), "", 414),
            ("COPY", &y, &format!("Destination: {x}/y\r\n"), "", 414),
            ("COPY", &y, &format!("Destination: {x}/y\r\nDepth: 0\r\n"), "", 201),
            ("DELETE", &y, "", "", 204),
            ("DELETE", &folders('x', 1), "", "", 204),
        ],
    );
    let is_empty = || own_files(&server, "trash").is_empty() && own_files(&server, "new").is_empty();
    assert!(wait_until(TIMEOUT, is_empty));
}

#[test]
fn files_of_the_configuration_are_not_written() {
    let config =
        format!("{OPEN}dotfiles = \"allow\"\npid_file = \"www/pid\"\n[log]\naccess = \"www/d/access.log\"\n");
    let server = Site::new().folder("d").file("d/a", "a").config(&config).start();
    check(
        &server,
        &[
            ("PUT", "/pid", "", "1", 403),
            ("PUT", "/d/access.log", "", "forged", 403),
            ("COPY", "/d/a", "Destination: /d/access.log\r\n", "", 403),
            ("DELETE", "/d/access.log", "", "", 403),
            ("DELETE", "/d/", "", "", 403),
            ("MOVE", "/d/", "Destination: /e/\r\n", "", 403),
            ("GET", "/d/access.log", "", "", 404),
        ],
    );
    let found = server.run_command(&["check"]);
    let found = String::from_utf8_lossy(&found.stderr).into_owned();
    for name in ["www/pid", "www/d/access.log"] {
        let is_named =
            |line: &str| line.contains(name) && line.contains("in a folder that clients publish in");
        assert!(found.lines().any(is_named), "{name}: {found}");
    }
}

#[test]
fn programs_of_the_configuration_are_not_written() {
    let site = Site::new().script("team/php", "#!/bin/sh\n").script("team/dns", "#!/bin/sh\n").folder("x");
    let team = site.root().join("team").display().to_string();
    let config = format!(
        "[[route]]\npath = \"/team/\"\nalias = \"www/team\"\n{OPEN}\
         [[route]]\npath = \"/x/\"\nalias = \"www/x\"\ninterpreter = \"{team}/php\"\n\
         [certificates]\ndns_command = \"{team}/dns\"\n"
    );
    let server = site.config(&config).start();
    let row = |path, status| ("PUT", path, "", "#!/bin/sh\nid\n", status);
    check(&server, &[row("/team/php", 403), row("/team/dns", 403), row("/team/a", 201)]);
}

#[test]
fn files_of_the_configuration_are_not_written_by_a_linked_root() {
    let config = "dotfiles = \"allow\"\npid_file = \"www/d/pid\"\n[[route]]\npath = \"/team/\"\nalias = \"www/link\"\n\
                  publish = \"webdav\"\npublish_sync = false\nauth = \"basic\"\nuser_files = \"www/d/users\"\n";
    let users = "ann:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n";
    let server = Site::new().folder("d").file("d/users", users).symlink("link", "d").config(config).start();
    let ann = "Authorization: Basic YW5uOnRlc3Q=\r\n";
    let row = |method, path, status| (method, path, ann, "mallory:", status);
    check(
        &server,
        &[row("PUT", "/team/users", 403), row("PUT", "/team/pid", 403), row("PUT", "/team/a", 201)],
    );
    let to = format!("{ann}Destination: /team/b\r\n");
    for (method, fields) in [("DELETE", ann), ("MOVE", &to), ("COPY", &to)] {
        check(&server, &[(method, "/team/users", fields, "", 403)]);
    }
    assert_eq!(fs::read_to_string(server.root().join("d/users")).unwrap(), users);
}

/// A release is switched by exchanging the link that the root is. What is published at once lies in the new folder, or,
/// where the sandbox does not allow it, gets 403 and is explained.
#[test]
fn what_is_published_after_a_root_was_switched_is_in_the_new_folder() {
    let site = Site::new()
        .config_without_root(&format!("root = \"current\"\nworkers = 2\n{OPEN}[cache]\ncheck = \"1h\"\n"))
        .file_beside_root("old/a.txt", "old")
        .file_beside_root("new/a.txt", "new");
    let current = site.home().join("current");
    symlink("old", &current).unwrap();
    let server = site.start();
    let put = |path: &str| send(&server, "PUT", path, "", "published").status;
    for number in 0..8 {
        assert_eq!(put(&format!("/before-{number}")), 201);
    }
    symlink("new", current.with_extension("next")).unwrap();
    fs::rename(current.with_extension("next"), &current).unwrap();
    let home = server.home();
    for number in 0..8 {
        let status = put(&format!("/after-{number}"));
        assert!(!home.join(format!("old/after-{number}")).exists(), "it is in the old folder");
        assert_eq!(home.join(format!("new/after-{number}")).exists(), status == 201);
        if status != 201 {
            assert_eq!(status, 403);
            server.wait_for_line("where the sandbox lets clients change nothing; reload", TIMEOUT);
        }
    }
    server.reload();
    assert_eq!(put("/reloaded"), 201);
    assert!(home.join("new/reloaded").exists());
}
