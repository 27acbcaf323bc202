//! Real clients: curl, wget and zsync, as people use them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use e2e::{Random, Server, Site, output_of, tool};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a client that must succeed, and returns its standard output.
#[track_caller]
fn succeeds(command: &mut Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = output_of(command);
    assert!(status.success(), "{command:?}: {status}\n{}", text(&stderr));
    stdout
}

/// curl, without the configuration of its user.
fn curl(folder: &Path) -> Command {
    let mut curl = tool("curl");
    curl.args(["--disable", "--silent", "--show-error", "--max-time", "20"]).current_dir(folder);
    curl.env_remove("http_proxy").env_remove("all_proxy");
    curl
}

fn wget(folder: &Path) -> Command {
    let mut wget = tool("wget");
    wget.args(["--no-config", "--no-proxy", "--no-verbose", "--tries=1", "--timeout=20"]).current_dir(folder);
    wget
}

fn content() -> Vec<u8> {
    Random::new(9).bytes(1_000_000)
}

fn server() -> Server {
    let site =
        Site::new().file("big.bin", content()).file("a.txt", "0123456789").file("index.html", "<p>index</p>");
    site.config(
        "[cache]
check = \"0s\"",
    )
    .start()
}

#[test]
fn curl_and_wget_resume_a_download() {
    let server = server();
    let url = server.url("/big.bin");
    for have in [0, 1, 300_000, 999_999] {
        for client in ["curl", "wget"] {
            let path = server.home().join("big.bin");
            fs::write(&path, &content()[..have]).unwrap();
            match client {
                "curl" => succeeds(curl(server.home()).args(["--fail", "-C", "-", "-o", "big.bin", &url])),
                _ => succeeds(wget(server.home()).args(["--continue", &url])),
            };
            assert!(fs::read(&path).unwrap() == content(), "{client} with {have} bytes");
        }
    }
}

#[test]
fn curl_resumes_only_the_same_file() {
    let server = server();
    let url = server.url("/big.bin");
    let etag = server.get("/big.bin").field("etag").unwrap().to_owned();
    let fetch = |etag: &str| {
        let condition = format!("If-Range: {etag}");
        let mut curl = curl(server.home());
        succeeds(curl.args(["--range", "500000-", "--header", &condition, &url]))
    };
    assert!(fetch(&etag) == content()[500_000..]);
    assert!(fetch("\"another\"") == content());
}

#[test]
fn curl_fetches_ranges() {
    let server = server();
    let fetch = |range: &str| {
        let mut curl = curl(server.home());
        succeeds(curl.args(["--include", "--range", range, &server.url("/a.txt")]))
    };
    let one = text(&fetch("2-4"));
    assert!(one.starts_with("HTTP/1.1 206 ") && one.ends_with("\r\n\r\n234"), "{one}");
    let last = text(&fetch("-3"));
    assert!(last.ends_with("\r\n\r\n789"), "{last}");
    let two = text(&fetch("0-0,8-"));
    assert!(two.contains("multipart/byteranges; boundary="), "{two}");
    assert!(two.contains("Content-Range: bytes 0-0/10\r\n\r\n0\r\n--"), "{two}");
    assert!(two.contains("Content-Range: bytes 8-9/10\r\n\r\n89\r\n--"), "{two}");
    let none = text(&fetch("10-"));
    assert!(none.starts_with("HTTP/1.1 416 ") && none.contains("Content-Range: bytes */10"), "{none}");
}

/// It asks for up to 20 ranges in a request.
#[test]
fn zsync_fetches_only_what_has_changed() {
    let server = server();
    let (image, folder) = (server.root().join("big.bin"), server.home().join("copy"));
    fs::create_dir(&folder).unwrap();
    let mut zsyncmake = tool("zsyncmake");
    zsyncmake.args(["-b", "2048", "-u", "big.bin", "-o", "big.bin.zsync"]).arg(&image);
    succeeds(zsyncmake.current_dir(server.root()));
    let mut old = content();
    for at in (0..old.len()).step_by(20_000) {
        old[at] ^= 1;
    }
    fs::write(folder.join("old.bin"), old).unwrap();
    let mut zsync = tool("zsync");
    zsync.args(["-i", "old.bin", "-o", "new.bin", &server.url("/big.bin.zsync")]).current_dir(&folder);
    succeeds(zsync.env_remove("http_proxy"));
    assert!(fs::read(folder.join("new.bin")).unwrap() == content());
}

#[test]
fn curl_uses_http_0_9_1_0_and_1_1() {
    let server = server();
    for flag in ["--http1.0", "--http1.1", "--http0.9"] {
        assert!(succeeds(curl(server.home()).args([flag, &server.url("/big.bin")])) == content(), "{flag}");
    }
    let head = text(&succeeds(curl(server.home()).args(["-I", &server.url("/big.bin")])));
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Length: 1000000\r\n"), "{head}");
    // The server answers an offer of HTTP/2 without TLS in HTTP/1.1.
    assert!(succeeds(curl(server.home()).args(["--http2", &server.url("/big.bin")])) == content());
}

#[test]
fn curl_decodes_what_is_sent_compressed() {
    let zeros = vec![b'z'; 3_000_000];
    let site = Site::new().file("zeros.txt", &zeros).file("hello.txt", "hello").file("only.src", &zeros);
    let path = |name: &str| site.root().join(name);
    succeeds(tool("gzip").args(["--keep", "--no-name"]).arg(path("zeros.txt")));
    succeeds(tool("gzip").arg(path("only.src")));
    succeeds(tool("zstd").args(["--quiet", "--keep"]).arg(path("hello.txt")));
    // "hello" in Brotli (RFC 7932), in one uncompressed meta-block, so that no encoder is needed.
    fs::write(path("hello.txt.br"), b"\x0b\x02\x80hello\x03").unwrap();
    let compressed = fs::metadata(path("zeros.txt.gz")).unwrap().len();
    let server = site.start();
    for (path, plain, sent) in [
        ("/zeros.txt", &zeros[..], compressed),
        ("/only.src", &zeros, compressed),
        ("/hello.txt", b"hello", 9),
    ] {
        let mut curl = curl(server.home());
        let printed =
            succeeds(curl.args(["--compressed", "-o", "out", "-w", "%{size_download}", &server.url(path)]));
        assert!(fs::read(server.home().join("out")).unwrap() == plain, "{path}");
        // The size of `only.src.gz` depends a little on the name in it.
        let size: u64 = text(&printed).parse().unwrap();
        assert!(size.abs_diff(sent) < 20, "{path}: {size} instead of {sent} bytes");
    }
    let zstd = succeeds(curl(server.home()).args([
        "-H",
        "Accept-Encoding: zstd",
        "--compressed",
        &server.url("/hello.txt"),
    ]));
    assert_eq!(text(&zstd), "hello");
    assert!(
        succeeds(curl(server.home()).arg(server.url("/only.src"))) == zeros,
        "inflated for a client without Accept-Encoding"
    );
}

#[test]
fn curl_reuses_one_connection_for_many_urls() {
    let server = server();
    let paths = ["/a.txt", "/missing", "/", "/big.bin", "/a.txt?x", "/../refused"];
    let mut curl = curl(server.home());
    curl.args(["-w", "%{num_connects}\n", "--path-as-is"]);
    for path in &paths[..5] {
        curl.args(["-o", "out"]).arg(server.url(path));
    }
    let printed = text(&succeeds(&mut curl));
    assert_eq!(printed.lines().collect::<Vec<_>>(), ["1", "0", "0", "0", "0"]);
}

#[test]
fn curl_revalidates_its_copy() {
    let server = server();
    let url = server.url("/a.txt");
    let fetch = |arguments: &[&str]| {
        let mut curl = curl(server.home());
        text(&succeeds(curl.args(["-o", "copy", "-w", "%{http_code}"]).args(arguments).arg(&url)))
    };
    assert_eq!(fetch(&["--etag-save", "etag"]), "200");
    assert_eq!(fetch(&["--etag-compare", "etag"]), "304");
    assert_eq!(fetch(&["--time-cond", "copy", "--remote-time"]), "304", "the copy is newer");
    fs::write(server.root().join("a.txt"), "something else").unwrap();
    assert_eq!(fetch(&["--etag-compare", "etag"]), "200");
}

#[test]
fn curl_connects_through_a_unix_socket() {
    let server = Site::new().file("a.txt", "here").config("listen = \"unix:t.sock\"").start();
    let printed = succeeds(curl(server.home()).args(["--unix-socket", "t.sock", "http://any.example/a.txt"]));
    assert_eq!(text(&printed), "here");
}

#[test]
fn curl_cannot_upload() {
    let server = server();
    for (arguments, status) in [
        (&["--data", "a=b"][..], "405"),
        (&["--upload-file", "site.toml"], "405"),
        (&["--request", "DELETE"], "405"),
        (&["--request", "BREW"], "501"),
        (&["--data-binary", "@big", "-H", "Expect: 100-continue"], "405"),
    ] {
        fs::write(server.home().join("big"), vec![b'x'; 3_000_000]).unwrap();
        let mut curl = curl(server.home());
        let printed = succeeds(
            curl.args(["-o", "out", "-w", "%{http_code}"]).args(arguments).arg(server.url("/a.txt")),
        );
        assert_eq!(text(&printed), status, "{arguments:?}");
    }
}

#[test]
fn wget_mirrors_a_tree_byte_for_byte() {
    let mut random = Random::new(21);
    let mut site = Site::new();
    for (folder, count) in [("", 5), ("docs/", 20), ("docs/deep er/", 10), ("été/日本/", 5), ("many/", 150)]
    {
        for number in 0..count {
            let size = [0, 10, 3000, 70_000][random.below(4) as usize];
            site = site.file(&format!("{folder}file {number}.bin"), random.bytes(size));
        }
    }
    for name in [
        "100%.txt",
        "a#b.txt",
        "a&b=c.txt",
        "a+b.txt",
        "it's.txt",
        "(x)[y].txt",
        "é.txt",
        "semi;colon",
        "a,b",
        "~tilde",
    ] {
        site = site.file(&format!("names/{name}"), name);
    }
    site = site
        .file_beside_root("outside.txt", "outside")
        .symlink("out", "../outside.txt")
        .file(".hidden", "hidden");
    let server = site.config("listing = true").start();
    let copy = server.home().join("copy");
    fs::create_dir(&copy).unwrap();
    succeeds(wget(&copy).args([
        "--mirror",
        "--no-host-directories",
        "--execute=robots=off",
        "--restrict-file-names=nocontrol",
        "--reject-regex=[?]",
        &server.url("/"),
    ]));
    // wget saved the listings as index files.
    let mut listings = 0;
    let mut folders = vec![copy.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "index.html") {
                fs::remove_file(path).unwrap();
                listings += 1;
            }
        }
    }
    assert_eq!(listings, 7, "each folder was listed");
    fs::remove_file(server.root().join(".hidden")).unwrap();
    fs::remove_file(server.root().join("out")).unwrap();
    let difference = output_of(tool("diff").arg("--recursive").arg(server.root()).arg(&copy));
    assert!(difference.status.success(), "{}{}", text(&difference.stdout), text(&difference.stderr));
}
