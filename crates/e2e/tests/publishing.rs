//! Publishing: files that clients upload, change and remove, by PUT and by WebDAV.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use e2e::{
    Client, Random, Response, Rows, Server, Signal, Site, SmallDisk, TIMEOUT, output_of, shown, tool,
    wait_until,
};

/// The disk of a machine that runs all tests at once takes seconds to sync.
const OPEN: &str = "publish = \"webdav\"\npublish_anonymous = true\nmax_body = \"8MiB\"\n\
                    publish_sync = false\n";

fn server() -> Server {
    Site::new().file("a.txt", "old\n").folder("folder").file("folder/b.txt", "b\n").config(OPEN).start()
}

fn send(server: &Server, method: &str, path: &str, fields: &str, body: &str) -> Response {
    server.request(request(method, path, fields, body))
}

fn request(method: &str, path: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

/// Sends requests in order, and compares their statuses.
#[track_caller]
fn check(server: &Server, rows: &[(&str, &str, &str, &str, u16)]) {
    let mut table = Rows::new();
    for (method, path, fields, body, expected) in rows {
        let input = format!("{method} {path} {fields}{body}");
        table.check(input, send(server, method, path, fields, body).status, *expected);
    }
}

fn content(server: &Server, path: &str) -> String {
    server.get(path).text()
}

fn own_files(server: &Server, folder: &str) -> Vec<String> {
    let folder = server.root().join(".taipan-publish").join(folder);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Runs a client that must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = output_of(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn litmus_passes() {
    let server = server();
    let out = succeeds(tool("litmus").arg(server.url("/")).current_dir(server.home()));
    assert_eq!(out.matches(" 0 failed.").count(), 5, "{out}");
    assert!(!out.contains("WARNING"), "{out}");
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
    let lock =
        "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    check(
        &server,
        &[
            ("PUT", "/new/file", "If-Match: \"x\"\r\n", "x", 412),
            ("LOCK", "/a", "Depth: 0\r\n", lock, 200),
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
            ("COPY", "/a.txt", "Destination: relative\r\n", "", 400),
            ("COPY", "/a.txt", "", "", 400),
            ("COPY", "/link", "Destination: /b\r\n", "", 403),
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
    let _unmount = mount(&folder, "size=128k");
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

#[track_caller]
fn mount(folder: &Path, options: &str) -> SmallDisk {
    SmallDisk::mount(folder, options).expect("something can be mounted")
}

#[test]
fn rules_decide_about_destinations_and_members() {
    let config = "publish = \"webdav\"\npublish_anonymous = true\n\
                  [[rule]]\npath = [\"/closed/\", \"/a/secret.txt\"]\nthen = \"deny\"\n\
                  [[route]]\npath = \"/read/\"\npublish = \"read\"\n";
    let site =
        Site::new().file("a/t", "t").file("a/secret.txt", "s").file("closed/c", "c").file("read/r", "r");
    let server = site.config(config).start();
    check(
        &server,
        &[
            ("COPY", "/a/t", "Destination: /closed/t\r\n", "", 403),
            ("COPY", "/closed/c", "Destination: /c\r\n", "", 403),
            ("MOVE", "/a/t", "Destination: /read/t\r\n", "", 403),
            ("COPY", "/read/r", "Destination: /r\r\n", "", 405),
            ("PUT", "/read/r", "", "x", 405),
            ("DELETE", "/a/", "", "", 403),
            ("MOVE", "/a", "Destination: /b\r\n", "", 403),
            ("COPY", "/a/", "Destination: /b/\r\n", "", 201),
            ("PROPFIND", "/read/", "Depth: 1\r\n", "", 207),
            ("PROPFIND", "/closed/", "Depth: 1\r\n", "", 403),
        ],
    );
    assert!(server.root().join("b/t").exists() && !server.root().join("b/secret.txt").exists());
    let listed = send(&server, "PROPFIND", "/a/", "Depth: 1\r\n", "").text();
    assert!(listed.contains("/a/t<") && !listed.contains("secret"), "{listed}");
}

#[test]
fn passwords_are_asked_for_and_locks_are_of_users() {
    let config = "publish = \"webdav\"\nauth = \"basic\"\nplain_passwords = true\nusers = { ann = \"a\", bob = \"b\" }\n";
    let server = Site::new().file("t", "1").config(config).start();
    let (ann, bob) = ("Authorization: Basic YW5uOmE=\r\n", "Authorization: Basic Ym9iOmI=\r\n");
    check(
        &server,
        &[
            ("PUT", "/t", "", "x", 401),
            ("PROPFIND", "/", "Depth: 0\r\n", "", 401),
            ("PUT", "/t", ann, "2", 204),
        ],
    );
    let lock =
        "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    let locked = send(&server, "LOCK", "/t", &format!("{ann}Timeout: Second-600\r\n"), lock);
    let token = locked.field("lock-token").expect("a token").to_owned();
    assert!(locked.text().contains("<D:timeout>Second-600</D:timeout>"), "{}", locked.text());
    let with = |user: &str| format!("{user}If: ({token})\r\n");
    check(
        &server,
        &[
            ("PUT", "/t", bob, "3", 423),
            ("PUT", "/t", &with(bob), "3", 423),
            ("PUT", "/t", ann, "3", 423),
            ("DELETE", "/t", bob, "", 423),
            ("MOVE", "/t", &format!("{bob}Destination: /u\r\n"), "", 423),
            (
                "PROPPATCH",
                "/t",
                bob,
                "<propertyupdate xmlns='DAV:'><set><prop><x/></prop></set></propertyupdate>",
                423,
            ),
            ("UNLOCK", "/t", &format!("{bob}Lock-Token: {token}\r\n"), "", 403),
            ("LOCK", "/t", bob, lock, 423),
            ("COPY", "/t", &format!("{bob}Destination: /u\r\n"), "", 201),
            ("PUT", "/t", &with(ann), "3", 204),
        ],
    );
    // The lock outlives the process that has granted it.
    server.reload();
    check(
        &server,
        &[
            ("PUT", "/t", ann, "4", 423),
            ("LOCK", "/t", &with(ann), "", 200),
            ("UNLOCK", "/t", &format!("{ann}Lock-Token: <urn:x>\r\n"), "", 409),
            ("UNLOCK", "/t", &format!("{ann}Lock-Token: {token}\r\n"), "", 204),
            ("PUT", "/t", bob, "4", 204),
        ],
    );
}

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
fn empty_files_and_folders_count_for_a_quota() {
    let server = Site::new().file("a", "").config(&format!("{OPEN}publish_quota = \"20KiB\"\n")).start();
    let lock =
        "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    check(
        &server,
        &[
            ("PUT", "/b", "", "", 201),
            ("MKCOL", "/c/", "", "", 201),
            ("COPY", "/c/", "Destination: /d/\r\n", "", 201),
            ("LOCK", "/e", "", lock, 201),
            ("PUT", "/f", "", "", 507),
            ("MKCOL", "/f/", "", "", 507),
            ("COPY", "/c/", "Destination: /f/\r\n", "", 507),
            ("COPY", "/b", "Destination: /f\r\n", "", 507),
            ("LOCK", "/f", "", lock, 507),
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
fn a_full_disk_that_is_mounted_loses_nothing() {
    let site = Site::new().config(&format!("{OPEN}publish_min_free = 0\n"));
    let _unmount = mount(&site.root(), "size=256k");
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
        &[("PUT", "/d", "", "xxxxx", 507), ("PROPPATCH", "/a", "", &set, 507), ("DELETE", "/b", "", "", 204)],
    );
    fs::remove_file(rest).unwrap();
    assert!(
        wait_until(TIMEOUT, || send(&server, "PUT", "/d", "", "new").status == 201),
        "there is space again"
    );
    check(&server, &[("PROPPATCH", "/a", "", &set, 207), ("PUT", "/a", "", "new", 204)]);
    assert_eq!(content(&server, "/a"), "new");
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
fn rules_for_a_method_hold_for_what_does_the_same() {
    let config = "publish = \"webdav\"\npublish_anonymous = true\n\
                  [[rule]]\npath = \"/fixed/\"\nmethod = [\"PUT\", \"DELETE\"]\nthen = \"deny\"\n\
                  [[rule]]\npath = \"*.keep\"\nmethod = \"DELETE\"\nthen = \"deny\"\n\
                  [[rule]]\npath = \"*.secret\"\nmethod = \"GET\"\nthen = \"deny\"\n\
                  [[rule]]\npath = \"/flat/\"\nmethod = \"MKCOL\"\nthen = \"deny\"\n";
    let site = Site::new().file("a", "a").file("fixed/f", "f").file("d/x.keep", "x").file("d/y", "y");
    let site = site.file("s/z.secret", "z").folder("flat").file("o/y", "old");
    let server = site.config(config).start();
    let lock =
        "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    check(
        &server,
        &[
            ("COPY", "/a", "Destination: /fixed/a\r\n", "", 403),
            ("COPY", "/a", "Destination: /fixed/f\r\n", "", 403),
            ("MOVE", "/a", "Destination: /fixed/a\r\n", "", 403),
            ("LOCK", "/fixed/new", "", lock, 403),
            ("MOVE", "/fixed/f", "Destination: /f\r\n", "", 403),
            ("COPY", "/fixed/f", "Destination: /f\r\n", "", 201),
            ("MOVE", "/d/x.keep", "Destination: /x\r\n", "", 403),
            ("MOVE", "/d/", "Destination: /e/\r\n", "", 403),
            ("COPY", "/o/", "Destination: /d/\r\n", "", 403),
            ("COPY", "/d/", "Destination: /e/\r\n", "", 201),
            ("COPY", "/s/z.secret", "Destination: /z\r\n", "", 403),
            ("MOVE", "/s/z.secret", "Destination: /z\r\n", "", 201),
            ("COPY", "/o/", "Destination: /flat/o/\r\n", "", 403),
            ("COPY", "/a", "Destination: /flat/a\r\n", "", 201),
        ],
    );
    assert_eq!(content(&server, "/e/x.keep"), "x");
    // A lock of all that is in a folder is for clients who may write all of it.
    let denied =
        "publish = \"webdav\"\npublish_anonymous = true\n[[rule]]\npath = \"/d/y\"\nthen = \"deny\"\n";
    let server = Site::new().file("d/y", "y").file("e/y", "y").config(denied).start();
    check(
        &server,
        &[
            ("LOCK", "/d/", "Depth: infinity\r\n", lock, 403),
            ("LOCK", "/d/", "Depth: 0\r\n", lock, 200),
            ("LOCK", "/e/y", "", lock, 200),
        ],
    );
    // RFC 4918 §9.10.9: nothing is locked, because a member is.
    let refused = send(&server, "LOCK", "/e/", "Depth: infinity\r\n", lock);
    assert_eq!(refused.status, 207);
    let text = refused.text();
    for (path, status) in [("/e/y", "423 Locked"), ("/e/", "424 Failed Dependency")] {
        let expected = format!("<D:href>{path}</D:href><D:status>HTTP/1.1 {status}</D:status>");
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    check(&server, &[("LOCK", "/e/y", "", lock, 423), ("PUT", "/e/z", "", "z", 201)]);
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
    for pid in server.serving_pids() {
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
    for half in ["Content-Length: 100\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let mut client = server.connect();
        client.send(format!("PUT /a.txt HTTP/1.1\r\nHost: h\r\n{half}"));
        assert!(wait_until(TIMEOUT, || !own_files(&server, "new").is_empty()), "it has begun");
        drop(client);
        assert!(wait_until(TIMEOUT, || own_files(&server, "new").is_empty()), "nothing is left");
        assert_eq!(content(&server, "/a.txt"), "old\n");
    }
    let mut client = server.connect();
    client
        .send("PUT /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nbroken\r\n");
    assert_eq!(client.read_response().status, 400);
    assert_eq!(content(&server, "/a.txt"), "old\n");
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

#[test]
fn explain_changes_nothing_and_check_refuses_what_is_open() {
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
