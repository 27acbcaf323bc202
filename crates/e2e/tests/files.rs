//! Files below a path: links, special files, permissions, names, folders, and precompressed files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use e2e::{
    Client, Random, ReadError, Rows, Server, Site, TIMEOUT, command, gzip, has_open, output_of, shown,
    wait_until, without_privilege,
};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// `Content-Length` as a number.
fn length(response: &e2e::Response) -> Option<usize> {
    response.field("content-length").map(|length| length.parse().expect("it is a number"))
}

/// A site full of links, served under one link rule.
fn links(symlinks: &str) -> Server {
    let site = Site::new().every_protocol();
    let (root, home) = (site.root(), site.home().to_owned());
    site.config(&format!("symlinks = \"{symlinks}\""))
        .file("file.txt", "inside")
        .file("folder/inner.txt", "inner")
        .file("folder/index.html", "index")
        .file_beside_root("outside.txt", "outside")
        .symlink("relative", "file.txt")
        .symlink("absolute", root.join("file.txt"))
        .symlink("out", "../outside.txt")
        .symlink("absolute-out", home.join("outside.txt"))
        .symlink("prefix-out", home.join("www2/file.txt"))
        .file_beside_root("www2/file.txt", "sibling")
        .symlink("to-folder", "folder")
        .symlink("absolute-to-folder", root.join("folder"))
        .symlink("to-parent", "..")
        .symlink("chain", "chain-2")
        .symlink("chain-2", root.join("chain-3"))
        .symlink("chain-3", "folder/up")
        .symlink("folder/up", "../file.txt")
        .symlink("folder/far", "../../outside.txt")
        .symlink("out-and-in", "../www/file.txt")
        .symlink("loop", "loop")
        .symlink("loop-2", "loop-3")
        .symlink("loop-3", "loop-2")
        .symlink("dangling", "missing")
        .symlink("dangling-out", "/missing")
        .start()
}

#[test]
fn follows_links_as_far_as_the_link_rule_allows() {
    let table = [
        // The path, and the status under beneath, owner, never and follow.
        ("/file.txt", [200, 200, 200, 200]),
        ("/relative", [200, 200, 403, 200]),
        ("/absolute", [200, 200, 403, 200]),
        ("/out", [403, 200, 403, 200]),
        ("/absolute-out", [403, 200, 403, 200]),
        ("/prefix-out", [403, 200, 403, 200]),
        ("/to-folder", [301, 301, 403, 301]),
        ("/to-folder/", [200, 200, 403, 200]),
        ("/to-folder/inner.txt", [200, 200, 403, 200]),
        ("/absolute-to-folder/inner.txt", [200, 200, 403, 200]),
        ("/to-folder/up", [200, 200, 403, 200]),
        ("/to-parent/outside.txt", [403, 200, 403, 200]),
        ("/to-parent/www/file.txt", [403, 200, 403, 200]),
        ("/chain", [200, 200, 403, 200]),
        ("/folder/up", [200, 200, 403, 200]),
        ("/folder/far", [403, 200, 403, 200]),
        ("/out-and-in", [403, 200, 403, 200]),
        ("/loop", [403, 403, 403, 403]),
        ("/loop-2/x", [403, 403, 403, 403]),
        ("/dangling", [404, 404, 403, 404]),
        ("/dangling-out", [403, 404, 403, 404]),
        ("/relative/", [404, 404, 403, 404]),
        ("/relative/x", [404, 404, 403, 404]),
    ];
    let mut rows = Rows::new();
    for (at, symlinks) in ["beneath", "owner", "never", "follow"].into_iter().enumerate() {
        let server = links(symlinks);
        for (path, expected) in table {
            // Once from the disk, once from the cache.
            for _ in 0..2 {
                let response = server.get(path);
                rows.check(format!("{symlinks} {path}"), response.status, expected[at]);
                let holds = !response.text().contains("outside") || expected[at] == 200;
                rows.holds(format!("{symlinks} {path}"), "nothing of it is sent", holds);
            }
        }
    }
}

#[test]
fn the_owner_rule_rejects_links_to_files_of_another_user_as_root() {
    let site = Site::new()
        .every_protocol()
        .config("symlinks = \"owner\"")
        .file("mine", "mine")
        .file("folder/mine", "mine")
        .symlink("same", "mine")
        .symlink("foreign", "mine")
        .symlink("foreign-folder", "folder");
    for link in ["foreign", "foreign-folder"] {
        lchown(site.root().join(link), Some(65534), None).unwrap();
    }
    let server = site.start();
    let mut rows = Rows::new();
    for (path, status) in
        [("/same", 200), ("/foreign", 403), ("/foreign-folder/mine", 403), ("/foreign-folder/", 403)]
    {
        rows.check(path, server.get(path).status, status);
    }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

#[test]
fn answers_403_at_once_for_what_is_not_a_regular_file() {
    let site = Site::new()
        .every_protocol()
        .config("symlinks = \"follow\"\nlisting = true\nworkers = 1")
        .file("a.txt", "a")
        .file("b.txt", "b")
        .folder("c.txt.gz")
        .file("c.txt", "c")
        .folder("folder")
        .symlink("null", "/dev/null")
        .symlink("zero", "/dev/zero")
        .symlink("tty", "/dev/tty");
    let root = site.root();
    for name in ["fifo", "fifo.txt", "b.txt.gz", "only.txt.gz", "folder/index.html"] {
        fifo(&root.join(name));
    }
    let mut devices = vec!["/null", "/zero", "/tty"];
    let null = mknodat(
        CWD,
        root.join("device"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        makedev(1, 3),
    );
    if null.is_ok() {
        // Only root may, and not in every container.
        devices.push("/device");
    }
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let server = site.start();
    let mut rows = Rows::new();
    for path in [&["/fifo", "/fifo.txt", "/socket"][..], &devices].concat() {
        rows.check(path, server.get(path).status, 403);
        rows.check(path, server.request(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n")).status, 403);
        let slash = server.get(&format!("{path}/")).status;
        rows.holds(format!("{path}/"), "403 or 404", matches!(slash, 403 | 404));
    }
    let accepting = |path: &str| server.connect().get_with(path, "Accept-Encoding: gzip\r\n");
    for (path, body) in [("/b.txt", "b"), ("/c.txt", "c")] {
        let response = accepting(path);
        rows.check(path, (response.status, response.text().as_str()), (200, body));
    }
    let only = accepting("/only.txt").status;
    rows.holds("/only.txt", "403 or 404", matches!(only, 403 | 404));
    let folder = server.get("/folder/").status;
    rows.holds("/folder/", "the FIFO is no index", matches!(folder, 200 | 403));
    rows.check("/a.txt", server.get("/a.txt").status, 200);
}

#[test]
fn answers_403_for_an_unreadable_file() {
    let site = Site::new()
        .every_protocol()
        .config(without_privilege())
        .config("listing = true")
        .file("closed.txt", "secret")
        .file("closed/a.txt", "secret")
        .file("unlisted/a.txt", "open")
        .file("a.txt", "plain")
        .file("a.txt.gz", "closed precompressed file")
        .file("index/index.html", "secret")
        .file("open.txt", "open");
    let modes = [
        ("closed.txt", 0o000),
        ("closed", 0o000),
        ("unlisted", 0o311),
        ("a.txt.gz", 0o000),
        ("index/index.html", 0o000),
    ];
    let root = site.root();
    for (name, mode) in modes {
        fs::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
    }
    let server = site.start();
    let mut rows = Rows::new();
    for (path, status) in [
        ("/closed.txt", 403),
        ("/closed", 301),
        ("/closed/", 403),
        ("/closed/a.txt", 403),
        ("/closed/missing", 403),
        ("/unlisted/", 403),
        ("/unlisted/a.txt", 200),
        ("/index/", 403),
        ("/open.txt", 200),
        ("/", 200),
    ] {
        for _ in 0..2 {
            rows.check(path, server.get(path).status, status);
        }
    }
    let plain = server.connect().get_with("/a.txt", "Accept-Encoding: gzip\r\n");
    rows.check(
        "a precompressed file that may not be read",
        (plain.status, plain.text().as_str()),
        (200, "plain"),
    );
    drop(server);
    // So that it can be removed; as root the folder is gone by now.
    for (name, _) in modes {
        _ = fs::set_permissions(root.join(name), Permissions::from_mode(0o755));
    }
    _ = fs::remove_dir_all(root);
}

const NAMES: [(&str, &str); 20] = [
    ("é.txt", "%C3%A9.txt"),
    ("e\u{301}.txt", "e%CC%81.txt"),
    ("日本語", "%E6%97%A5%E6%9C%AC%E8%AA%9E"),
    ("🐍.html", "%F0%9F%90%8D.html"),
    ("a b", "a%20b"),
    (" ", "%20"),
    ("a+b", "a+b"),
    ("50%", "50%25"),
    ("%41", "%2541"),
    ("%2e%2e", "%252e%252e"),
    ("a#b", "a%23b"),
    ("a?b", "a%3Fb"),
    ("a&b=c;d", "a&b=c;d"),
    ("a:b", "a:b"),
    ("\"quoted\"", "%22quoted%22"),
    ("<script>", "%3Cscript%3E"),
    ("it's", "it's"),
    ("[x]{y}|^`", "%5Bx%5D%7By%7D%7C%5E%60"),
    ("...", "..."),
    ("~", "~"),
];

#[test]
fn serves_every_file_name_under_its_encoded_path() {
    let long = "n".repeat(255);
    let site = NAMES.iter().fold(Site::new().every_protocol(), |site, (name, _)| {
        site.file(name, name).folder(&format!("f/{name}"))
    });
    let server = site.file(&long, "long").config("dotfiles = \"allow\"").start();
    let mut rows = Rows::new();
    for (name, path) in NAMES {
        let response = server.get(&format!("/{path}"));
        rows.check(name, (response.status, response.text().as_str()), (200, name));
        let folder = server.get(&format!("/f/{path}?q=1"));
        rows.check(format!("folder {name}"), folder.status, 301);
        let location = folder.field("location").unwrap_or_default().to_owned();
        let (to, query) = location.split_once('?').unwrap_or((&location, ""));
        rows.holds(
            &location,
            "relative, with slash and query",
            to.starts_with("/f/") && to.ends_with('/') && query == "q=1",
        );
        rows.check(&location, server.get(&location).status, 403);
        // Any byte may be encoded; the path stays the same.
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        rows.check(&encoded, server.get(&format!("/{encoded}")).status, 200);
    }
    rows.check("255 bytes", server.get(&format!("/{long}")).status, 200);
    rows.check("256 bytes", server.get(&format!("/{long}n")).status, 404);
    for missing in ["/%ff", "/%C3", "/%C0%AE%C0%AE/"] {
        rows.check(missing, server.get(missing).status, 404);
    }
    for not_a_name in ["/a%2fb", "/a%5Cb", "/%00", "/%0a", "/%"] {
        rows.check(not_a_name, server.get(not_a_name).status, 400);
    }
}

#[test]
fn redirects_a_folder_without_slash_and_keeps_the_query() {
    let server = Site::new()
        .every_protocol()
        .file("x/index.html", "index")
        .file("x/y/index.html", "deeper")
        .folder("evil.example")
        .file("a.txt", "a")
        .file("empty.txt", "")
        .start();
    let mut rows = Rows::new();
    for (path, location) in [
        ("/x", "/x/"),
        ("/x?", "/x/?"),
        ("/x?a=b&c=%20d", "/x/?a=b&c=%20d"),
        ("/x/y", "/x/y/"),
        ("/x//y", "/x/y/"),
        ("/./x", "/x/"),
        ("/y/../x", "/x/"),
        ("//evil.example", "/evil.example/"),
        ("//evil.example/..//evil.example", "/evil.example/"),
        ("/%65vil.example", "/evil.example/"),
    ] {
        for method in ["GET", "HEAD"] {
            let response = server.request(format!("{method} {path} HTTP/1.1\r\nHost: other.example\r\n\r\n"));
            rows.check(
                format!("{method} {path}"),
                (response.status, response.field("location")),
                (301, Some(location)),
            );
        }
    }
    for (path, status) in [
        ("/a.txt/", 404),
        ("/a.txt/x", 404),
        ("/a.txt/..", 404),
        ("/a.txt/../a.txt", 200),
        ("/x/", 200),
        ("/x/.", 200),
        ("/x/y/..", 200),
        ("/x/../x/index.html", 200),
    ] {
        let found = server.get(path).status;
        // Dot segments are removed before the file lookup; the disk does not matter.
        rows.holds(
            path,
            &format!("{status}, found {found}"),
            found == status || (path == "/a.txt/.." && found == 403),
        );
    }
    let post = server.request("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    rows.check("POST /x", post.status, 405);
    let empty = server.get("/empty.txt");
    rows.check("empty", (empty.status, length(&empty), empty.body.len()), (200, Some(0), 0));
    rows.check("empty", empty.field("content-type"), Some("text/plain; charset=utf-8"));
    let range = server.connect().get_with("/empty.txt", "Range: bytes=0-\r\n");
    rows.check("a range of nothing", (range.status, range.field("content-range")), (416, Some("bytes */0")));
}

#[test]
fn an_executable_file_is_not_sent_and_what_stands_beside_it_is() {
    let site = Site::new()
        .file("a.txt", "plain")
        .script("a.txt.gz", "executable")
        .script("tool", "executable")
        .script("sent/tool.sh", "executable")
        .config(
            "executables = \"deny\"\n[[route]]\npath = \"/sent/\"\nexecutables = \"send\"\n\
             [[route]]\npath = \"/closed/\"\nalias = \"www/sent\"\nexecutables = \"deny\"\n\
             [[route]]\npath = \"*.sh\"\nexecutables = \"send\"\n",
        );
    let server = site.start();
    let mut rows = Rows::new();
    // A glob does not loosen what its prefix says.
    for (path, expected) in [
        ("/a.txt", "200 plain"),
        ("/tool", "403"),
        ("/sent/tool.sh", "200 executable"),
        ("/closed/tool.sh", "403"),
    ] {
        let response =
            server.request(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
        let text = if response.status == 200 {
            format!("200 {}", response.text())
        } else {
            response.status.to_string()
        };
        rows.check(path, text.as_str(), expected);
    }
    server.wait_for_line(
        "warn: /a.txt.gz leads to an executable file that no route runs, and is not sent",
        TIMEOUT,
    );
}

/// A text with precompressed files that differ from each other; their content is no real coding.
fn precompressed_files() -> Site {
    Site::new()
        .every_protocol()
        .file("a.txt", "plain text, the longest of all")
        .modified("a.txt", 1_600_000_000)
        .file("a.txt.br", "br")
        .file("a.txt.zst", "zst.")
        .file("a.txt.gz", "gzip..")
        .file("index.html", "<p>plain</p>")
        .modified("index.html", 1_600_000_000)
        .file("index.html.gz", "gzip index")
        .file("big.bin", vec![b'p'; 300_000])
        .modified("big.bin", 1_600_000_000)
        .file("big.bin.gz", vec![b'g'; 200_000])
}

#[test]
fn selects_a_precompressed_file_by_the_weights_of_the_client() {
    let server = precompressed_files().start();
    let mut rows = Rows::new();
    for (accept, coding) in [
        ("", None),
        ("Accept-Encoding:\r\n", None),
        ("Accept-Encoding: identity\r\n", None),
        ("Accept-Encoding: deflate\r\n", None),
        ("Accept-Encoding: gzip\r\n", Some("gzip")),
        ("Accept-Encoding: x-gzip\r\n", Some("gzip")),
        ("Accept-Encoding: GZip\r\n", Some("gzip")),
        ("Accept-Encoding: br\r\n", Some("br")),
        ("Accept-Encoding: zstd\r\n", Some("zstd")),
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", Some("br")),
        ("Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n", Some("br")),
        ("Accept-Encoding: gzip, br;q=0.9\r\n", Some("gzip")),
        ("Accept-Encoding: br;q=0.1, zstd;q=0.2, gzip;q=0.3\r\n", Some("gzip")),
        ("Accept-Encoding: br;q=0, gzip;q=0.001\r\n", Some("gzip")),
        ("Accept-Encoding: gzip;q=0\r\n", None),
        ("Accept-Encoding: *\r\n", Some("br")),
        ("Accept-Encoding: br;q=0, *\r\n", Some("zstd")),
        ("Accept-Encoding: *;q=0, gzip\r\n", Some("gzip")),
        ("Accept-Encoding: gzip;q=0.5, identity\r\n", None),
        ("Accept-Encoding: gzip ; q=1 , br ; q=0.5\r\n", Some("gzip")),
    ] {
        let response = server.connect().get_with("/a.txt", accept);
        let body = match coding {
            None => "plain text, the longest of all",
            Some("br") => "br",
            Some("zstd") => "zst.",
            Some(_) => "gzip..",
        };
        rows.check(accept, response.status, 200);
        rows.check(accept, response.field("content-encoding"), coding);
        rows.check(accept, response.text().as_str(), body);
        rows.check(accept, length(&response), Some(body.len()));
        rows.check(accept, response.field("content-type"), Some("text/plain; charset=utf-8"));
        rows.check(accept, response.field("vary"), Some("Accept-Encoding"));
        let head = format!("HEAD /a.txt HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n");
        rows.check(
            format!("HEAD {accept}"),
            server.request(head).fields_but(&["date"]),
            response.fields_but(&["date"]),
        );
    }
    for (path, coding, kind) in
        [("/", Some("gzip"), "text/html; charset=utf-8"), ("/a.txt.gz", None, "application/gzip")]
    {
        let response = server.connect().get_with(path, "Accept-Encoding: gzip\r\n");
        rows.check(
            path,
            (response.field("content-encoding"), response.field("content-type")),
            (coding, Some(kind)),
        );
    }
}

#[test]
fn a_gzip_file_is_inflated_up_to_its_end_and_a_damaged_one_is_an_error() {
    let text = "some text\n".repeat(100);
    let whole = gzip(&text);
    // It inflates to more than is kept, and is itself too large to be read at once.
    let random = Random::new(7).bytes(4 << 20);
    let large = gzip(&random);
    let server = Site::new()
        .file("trailing.txt.gz", [&whole[..], b"trailing garbage"].concat())
        .file("twice.txt.gz", whole.repeat(2))
        .file("damaged.txt.gz", &whole[..whole.len() - 4])
        .file("none.txt.gz", "not gzip")
        .file("large.bin.gz", [&large[..], b"trailing garbage"].concat())
        .file("cut.bin.gz", &large[..large.len() / 2])
        .start();
    let mut rows = Rows::new();
    let get = |path: &str| Client::tcp(server.addr()).get(path);
    rows.check("trailing", get("/trailing.txt").text(), text.clone());
    rows.check("twice", get("/twice.txt").text(), text.repeat(2));
    rows.holds("large", "is whole", get("/large.bin").body == random);
    for name in ["damaged.txt", "none.txt"] {
        let line = format!("error: /{name}.gz is damaged: ");
        // The log has one such line a second.
        let is_logged = wait_until(TIMEOUT, || {
            rows.check(name, get(&format!("/{name}")).status, 500);
            server.stderr().contains(&line)
        });
        rows.holds(name, "is in the error log", is_logged);
        let response = Client::tcp(server.addr()).get_with(&format!("/{name}"), "Accept-Encoding: gzip\r\n");
        rows.check(name, response.status, 200);
    }
    let is_logged = wait_until(TIMEOUT, || {
        let mut client = Client::tcp(server.addr());
        client.send("GET /cut.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        rows.holds("cut", "is visibly incomplete", client.try_read_response().is_err());
        server.stderr().contains("error: /cut.bin.gz is damaged: incomplete deflate stream; make it again")
    });
    rows.holds("cut", "is in the error log", is_logged);
}

#[test]
fn each_content_coding_is_a_separate_representation() {
    let server = precompressed_files().start();
    let request = |path: &str, fields: String| server.connect().get_with(path, &fields);
    let etags: Vec<String> = ["identity", "br", "zstd", "gzip"]
        .iter()
        .map(|coding| {
            request("/a.txt", format!("Accept-Encoding: {coding}\r\n")).field("etag").unwrap().to_owned()
        })
        .collect();
    let mut different = etags.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 4, "{etags:?}");
    let mut rows = Rows::new();
    for (at, coding) in ["identity", "br", "zstd", "gzip"].into_iter().enumerate() {
        for (of, etag) in etags.iter().enumerate() {
            let row = format!("{coding} with the tag of {of}");
            let accept = format!("Accept-Encoding: {coding}\r\n");
            let response = request("/a.txt", format!("{accept}If-None-Match: {etag}\r\n"));
            rows.check(&row, response.status, if at == of { 304 } else { 200 });
            rows.check(&row, response.field("vary"), Some("Accept-Encoding"));
            let response = request("/a.txt", format!("{accept}If-Range: {etag}\r\nRange: bytes=0-0\r\n"));
            rows.check(&row, response.status, if at == of { 206 } else { 200 });
        }
    }
    for (path, coding, range, expected) in [
        ("/a.txt", "gzip", "0-1", (206, Some("bytes 0-1/6"), &b"gz"[..])),
        ("/a.txt", "gzip", "-2", (206, Some("bytes 4-5/6"), b"..")),
        ("/a.txt", "br", "1-", (206, Some("bytes 1-1/2"), b"r")),
        ("/a.txt", "br", "2-", (416, Some("bytes */2"), b"")),
        ("/a.txt", "identity", "6-9", (206, Some("bytes 6-9/30"), b"text")),
        ("/big.bin", "gzip", "199998-300000", (206, Some("bytes 199998-199999/200000"), b"gg")),
        ("/big.bin", "identity", "299998-", (206, Some("bytes 299998-299999/300000"), b"pp")),
    ] {
        let row = format!("{path} {coding} {range}");
        let response = request(path, format!("Accept-Encoding: {coding}\r\nRange: bytes={range}\r\n"));
        rows.check(&row, (response.status, response.field("content-range")), (expected.0, expected.1));
        if response.status == 206 {
            rows.check(&row, shown(&response.body), shown(expected.2));
            rows.check(&row, response.field("content-encoding"), Some(coding).filter(|c| *c != "identity"));
            rows.check(&row, response.field("vary"), Some("Accept-Encoding"));
        }
    }
    let big = request("/big.bin", "Accept-Encoding: gzip\r\n".to_owned());
    rows.check("big", (length(&big), big.body == vec![b'g'; 200_000]), (Some(200_000), true));
}

#[test]
fn ignores_a_precompressed_file_that_may_not_be_used() {
    let server = Site::new()
        .file("out.txt", "plain")
        .file_beside_root("outside", "outside")
        .symlink("out.txt.gz", "../outside")
        .symlink("out.txt.br", "/etc/hostname")
        .symlink("only.txt.gz", "../outside")
        .file("old.txt", "new text")
        .file("old.txt.gz", "old gzip")
        .modified("old.txt.gz", 1_600_000_000)
        .file("link.txt", "plain")
        .modified("link.txt", 1_600_000_000)
        .file("elsewhere/x", "linked gzip")
        .symlink("link.txt.gz", "elsewhere/x")
        .file("off/a.txt", "plain")
        .file("off/a.txt.gz", "gzip")
        .file("gzip/a.txt", "plain")
        .file("gzip/a.txt.gz", "gzip")
        .file("gzip/a.txt.br", "br")
        .config("[[route]]\npath = \"/off/\"\nprecompressed = []\n[[route]]\npath = \"/gzip/\"\nprecompressed = [\"gzip\"]")
        .start();
    let mut rows = Rows::new();
    // While the kernel reads the link, the plain file is sent.
    let get_link = || server.connect().get_with("/link.txt", "Accept-Encoding: br, gzip\r\n");
    rows.holds("/link.txt", "sent by its link", wait_until(TIMEOUT, || get_link().has("content-encoding")));
    for (path, expected) in [
        ("/out.txt", "plain"),
        ("/old.txt", "new text"),
        ("/link.txt", "linked gzip"),
        ("/off/a.txt", "plain"),
        ("/gzip/a.txt", "gzip"),
    ] {
        let response = server.connect().get_with(path, "Accept-Encoding: br, gzip\r\n");
        rows.check(path, (response.status, response.text().as_str()), (200, expected));
        rows.check(path, response.has("content-encoding"), expected.contains("gzip"));
    }
    let only = server.connect().get_with("/only.txt", "Accept-Encoding: gzip\r\n");
    rows.holds("/only.txt", "403 or 404", matches!(only.status, 403 | 404));
}

#[test]
fn inflates_a_gzip_file_for_clients_that_do_not_accept_gzip() {
    let small = b"Only a gzip file of this text is there. ".repeat(20);
    let mut random = Random::new(7);
    // One half can be compressed, and the other cannot.
    let mut large = random.bytes(2_500_000);
    large.extend(small.iter().cycle().take(2_500_000));
    let contents = [
        ("small.txt", small.clone()),
        ("large.bin", large),
        ("empty.txt", Vec::new()),
        ("d/index.html", small.clone()),
    ];
    let site = contents.iter().fold(Site::new().every_protocol(), |site, (name, content)| {
        site.file(&format!("{name}.gz"), gzip(content))
    });
    let members = [gzip(b"one, "), gzip(b"two")].concat();
    let server = site.file("members.txt.gz", &members).start();
    let mut rows = Rows::new();
    for (name, content) in &contents {
        let path = format!("/{}", name.trim_end_matches("index.html"));
        let kind = match name.rsplit_once('.').unwrap().1 {
            "txt" => "text/plain; charset=utf-8",
            "html" => "text/html; charset=utf-8",
            _ => "application/octet-stream",
        };
        let compressed = gzip(content);
        let accepting = server.connect().get_with(&path, "Accept-Encoding: gzip\r\n");
        rows.check(&path, (accepting.status, accepting.field("content-encoding")), (200, Some("gzip")));
        rows.check(
            &path,
            (length(&accepting), accepting.body.len()),
            (Some(compressed.len()), compressed.len()),
        );
        rows.holds(&path, "the bytes of the file", accepting.body == compressed);
        for accept in ["", "Accept-Encoding: br\r\n", "Accept-Encoding: gzip;q=0\r\n"] {
            let row = format!("{path} {accept}");
            let inflated = server.connect().get_with(&path, accept);
            rows.check(&row, (inflated.status, inflated.field("content-encoding")), (200, None));
            rows.check(
                &row,
                (inflated.field("content-type"), inflated.field("vary")),
                (Some(kind), Some("Accept-Encoding")),
            );
            rows.check(&row, inflated.body.len(), content.len());
            rows.holds(&row, "the same bytes", inflated.body == *content);
            rows.holds(&row, "a tag of its own", inflated.field("etag") != accepting.field("etag"));
            let head = server.request(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n{accept}\r\n"));
            rows.check(format!("HEAD {row}"), head.status, 200);
        }
        let old = server.request(format!("GET {path} HTTP/1.0\r\n\r\n"));
        rows.holds(
            format!("{path} HTTP/1.0"),
            "the same bytes",
            old.body == *content && !old.has("transfer-encoding"),
        );
        let part = server.connect().get_with(&path, "Range: bytes=1-3\r\n");
        match part.status {
            206 => rows.holds(format!("{path} range"), "bytes of the text", part.body == content[1..4]),
            200 => rows.holds(format!("{path} range"), "all of the text", part.body == *content),
            416 => rows.holds(format!("{path} range"), "there are none", content.is_empty()),
            status => rows.check(format!("{path} range"), status, 206),
        }
    }
    rows.check("two members", server.get("/members.txt").text().as_str(), "one, two");
    let folder = server.get("/d?q");
    rows.check("/d", (folder.status, folder.field("location")), (301, Some("/d/?q")));
    rows.check("/small.txt/", server.get("/small.txt/").status, 404);
    rows.check(
        "two on one connection",
        {
            let mut client = server.connect();
            (client.get("/large.bin").body.len(), client.get("/small.txt").status)
        },
        (5_000_000, 200),
    );
}

#[test]
fn never_completes_a_response_from_an_invalid_gzip_file() {
    let content = Random::new(3).bytes(400_000);
    let good = gzip(&content);
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 0x55;
    let mut checksum = good.clone();
    *checksum.iter_mut().rev().nth(5).unwrap() ^= 1;
    let small = gzip(b"a small one");
    let cases = [
        ("text", b"this is no gzip".to_vec()),
        ("empty", Vec::new()),
        ("half", good[..good.len() / 2].to_vec()),
        ("flipped", flipped),
        ("checksum", checksum),
        ("small-half", small[..small.len() - 9].to_vec()),
    ];
    let site = cases.iter().fold(Site::new().every_protocol(), |site, (name, bytes)| {
        site.file(&format!("{name}.txt.gz"), bytes)
    });
    let server = site.file("fine.txt", "fine").start();
    let mut rows = Rows::new();
    for (name, bytes) in &cases {
        let path = format!("/{name}.txt");
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        match client.try_read_response() {
            Ok(response) => {
                rows.holds(&path, &format!("an error, found {}", response.status), response.status >= 500)
            }
            Err(ReadError::Closed { .. } | ReadError::Reset) => {}
            Err(other) => rows.holds(&path, &format!("the response must end short, found {other}"), false),
        }
        let accepting = server.connect().get_with(&path, "Accept-Encoding: gzip\r\n");
        rows.check(&path, (accepting.status, accepting.body.len()), (200, bytes.len()));
        rows.check("the server still serves", server.get("/fine.txt").status, 200);
    }
}

#[test]
fn does_not_inflate_when_gunzip_is_off() {
    let server =
        Site::new().every_protocol().file("a.txt.gz", gzip(b"text")).config("gunzip = false").start();
    assert_eq!(server.get("/a.txt").status, 404);
    assert_eq!(server.get("/a.txt.gz").status, 200);
}

/// Each connection ends behind its response. Some of the files are read, some are sent by the kernel in one slice, and
/// some in several.
#[test]
fn without_the_cache_a_new_connection_gets_the_present_file() {
    let root = |server: &Server| server.root().join("a.bin");
    for config in ["[cache]\nentries = 0", "[cache]\nfile = 0\nentries = 0"] {
        let server = Site::new().config(config).file("a.bin", "first").start();
        let mut rows = Rows::new();
        for (round, size) in
            [0, 1, 5_000, 65_536, 300_000, 40, 65_536, 8192, 0, 70_000].into_iter().enumerate()
        {
            let content = Random::new(round as u64).bytes(size);
            let file = root(&server);
            if round % 2 == 0 {
                fs::write(&file, &content).unwrap();
            } else {
                fs::write(server.root().join("new"), &content).unwrap();
                fs::rename(server.root().join("new"), &file).unwrap();
            }
            for _ in 0..3 {
                let response = server.request("GET /a.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let what = format!("{config}, {size} bytes");
                rows.check(&what, (response.status, length(&response)), (200, Some(size)));
                rows.holds(&what, "the present content", response.body == content);
            }
            fs::remove_file(&file).unwrap();
            rows.check("removed", server.get("/a.bin").status, 404);
        }
    }
}

/// The disk has the space of a file until all have closed it, and a request for it may never come again.
#[test]
fn a_file_that_was_deleted_or_replaced_is_closed_without_a_request_as_root() {
    let server = Site::new()
        .config("workers = 1\nprecompressed = [\"gzip\"]")
        .file("small.txt", "small")
        .file("a.bin", "a".repeat(100_000))
        .file("b.bin", "b".repeat(2_000_000))
        .file("c.bin", "c".repeat(100_000))
        .file("c.bin.gz", gzip(Random::new(1).bytes(100_000)))
        .file("d.bin", "d".repeat(100_000))
        .start();
    let files = ["a.bin", "b.bin", "c.bin.gz", "d.bin"].map(|name| server.root().join(name));
    let mut client = server.connect();
    for name in ["small.txt", "a.bin", "b.bin", "c.bin", "d.bin"] {
        assert_eq!(client.get(&format!("/{name}")).status, 200, "{name}");
    }
    assert_eq!(files.iter().map(|path| has_open(server.serving_pid(), path)).collect::<Vec<_>>(), [true; 4]);
    fs::remove_file(&files[0]).unwrap();
    fs::rename(server.root().join("small.txt"), &files[1]).unwrap();
    fs::remove_file(&files[2]).unwrap();
    let deleted = |path: &PathBuf| PathBuf::from(format!("{} (deleted)", path.display()));
    let is_open = |path: &PathBuf| has_open(server.serving_pid(), &deleted(path));
    assert!(wait_until(TIMEOUT, || !files.iter().any(is_open)), "they are closed");
    assert!(has_open(server.serving_pid(), &files[3]), "others stay open");
    for (name, expected) in [("a.bin", 404), ("b.bin", 200), ("c.bin", 200), ("d.bin", 200)] {
        assert_eq!(client.get(&format!("/{name}")).status, expected, "{name}");
    }
}

/// Without Landlock, the new folder is served, and the log has no line about it.
#[test]
fn says_that_a_root_that_was_replaced_needs_a_reload() {
    let server = Site::new().file("a.txt", "before").start();
    let config = server.home().join("site.toml");
    let checked = output_of(command().arg("check").arg("-c").arg(config));
    let sandbox = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(sandbox.contains("\nSandbox: "), "{sandbox}");
    let has_landlock = sandbox.contains(" Landlock ");
    let (root, old) = (server.root(), server.home().join("old"));
    fs::rename(&root, &old).expect("the folder is writable");
    fs::create_dir(&root).expect("the folder is writable");
    fs::write(root.join("a.txt"), "after").expect("the folder is writable");
    let is_noticed = || {
        let is_served = server.get("/a.txt").text() == "after";
        assert!(!is_served || !has_landlock, "the sandbox denies the new folder");
        is_served || server.stderr().contains("; reload, so that")
    };
    assert!(wait_until(TIMEOUT, is_noticed), "{}", server.stderr());
    assert_eq!(server.stderr().contains("; reload, so that"), has_landlock, "{}", server.stderr());
    server.reload();
    assert!(wait_until(TIMEOUT, || server.get("/a.txt").text() == "after"), "{}", server.stderr());
}
