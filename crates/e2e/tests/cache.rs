//! The cache of files: how soon a change on the disk is seen, and files that change while they are sent.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use e2e::{Client, Random, ReadError, Rows, Site, TIMEOUT, tool, wait_until, without_privilege};

/// Every request checks the disk.
const AT_ONCE: &str = "[cache]\ncheck = \"0s\"\nmissing = \"0s\"";

/// Replaces a file by renaming, as careful programs do.
fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let new = path.with_extension("new~");
    fs::write(&new, content).unwrap();
    fs::rename(new, path).unwrap();
}

fn relink(path: &Path, to: &str) {
    let new = path.with_extension("new~");
    symlink(to, &new).unwrap();
    fs::rename(new, path).unwrap();
}

fn edit(path: &Path, content: impl AsRef<[u8]>) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all(content.as_ref()).unwrap();
}

/// The status and, of a response with content, its first byte and its length.
fn summary(client: &mut Client, path: &str, fields: &str) -> String {
    let response = client.get_with(path, fields);
    match response.status {
        200 => {
            let first = response.body.first().map_or(' ', |byte| char::from(*byte));
            let rest = response.body.iter().all(|byte| char::from(*byte) == first);
            format!("200 {first}{}{}", response.body.len(), if rest { "" } else { " mixed" })
        }
        status => status.to_string(),
    }
}

/// The size of files that are kept in memory, and of those that are sent from their descriptor.
const SIZES: [usize; 2] = [100, 200_000];

/// A change on the disk, with the responses to a request before it and after it.
struct Change {
    path: &'static str,
    before: String,
    act: Box<dyn Fn(&Path)>,
    after: String,
}

fn change(
    path: &'static str,
    before: impl Into<String>,
    act: impl Fn(&Path) + 'static,
    after: impl Into<String>,
) -> Change {
    Change { path, before: before.into(), act: Box::new(act), after: after.into() }
}

fn many(byte: u8, size: usize) -> Vec<u8> {
    vec![byte; size]
}

/// Makes the changes to a site whose `files` have `size` times an `a`, one after another.
fn check_changes(size: usize, site: Site, files: &[&'static str], fields: &str, changes: Vec<Change>) {
    // What the server compresses itself is there at some time, and these bodies are compared.
    let site = site.config(&format!("compress = false\n{AT_ONCE}"));
    let server = files.iter().fold(site, |site, name| site.file(name, many(b'a', size))).start();
    let mut client = server.connect();
    let mut rows = Rows::new();
    for Change { path, before, act, after } in changes {
        for _ in 0..2 {
            let found = summary(&mut client, path, fields);
            rows.check(format!("{path} of {size} before"), found, before.clone());
        }
        let etag = client.get(path).field("etag").map(str::to_owned);
        act(&server.root());
        for _ in 0..2 {
            let found = summary(&mut client, path, fields);
            rows.check(format!("{path} of {size} after"), found, after.clone());
        }
        if let Some(etag) = etag.filter(|_| fields.is_empty()) {
            let unchanged = client.get_with(path, &format!("If-None-Match: {etag}\r\n")).status == 304;
            rows.holds(path, "another tag after the change", !unchanged);
        }
    }
}

#[test]
fn the_next_request_sees_other_content() {
    for size in SIZES {
        let whole = |byte: char| format!("200 {byte}{size}");
        let replaced = move |root: &Path| replace(&root.join("replaced"), many(b'b', size));
        let edited = move |root: &Path| edit(&root.join("edited"), many(b'b', size));
        let grown = move |root: &Path| edit(&root.join("grown"), many(b'a', size + 5));
        let truncated = |root: &Path| File::create(root.join("truncated")).unwrap().set_len(0).unwrap();
        check_changes(
            size,
            Site::new(),
            &["replaced", "edited", "grown", "truncated"],
            "",
            vec![
                change("/replaced", whole('a'), replaced, whole('b')),
                change("/replaced", whole('b'), |root| replace(&root.join("replaced"), "c"), "200 c1"),
                change("/edited", whole('a'), edited, whole('b')),
                change("/grown", whole('a'), grown, format!("200 a{}", size + 5)),
                change("/truncated", whole('a'), truncated, "200  0"),
            ],
        );
    }
}

#[test]
fn the_next_request_sees_what_has_come_and_what_is_gone() {
    for size in SIZES {
        let remove = |name: &'static str| move |root: &Path| fs::remove_file(root.join(name)).unwrap();
        let write = |name: &'static str, text: &'static str| {
            move |root: &Path| fs::write(root.join(name), text).unwrap()
        };
        check_changes(
            size,
            Site::new().folder("folder"),
            &["removed"],
            "",
            vec![
                change("/removed", format!("200 a{size}"), remove("removed"), "404"),
                change("/removed", "404", write("removed", "b"), "200 b1"),
                change("/folder/", "403", write("folder/index.html", "i"), "200 i1"),
                change("/folder/", "200 i1", remove("folder/index.html"), "403"),
            ],
        );
        let plain = format!("200 a{size}");
        check_changes(
            size,
            Site::new().file("page.txt", many(b'a', size)).modified("page.txt", 1_600_000_000),
            &[],
            "Accept-Encoding: gzip\r\n",
            vec![
                change("/page.txt", plain.clone(), write("page.txt.gz", "z"), "200 z1"),
                change("/page.txt", "200 z1", remove("page.txt.gz"), plain),
            ],
        );
    }
}

#[test]
fn the_next_request_sees_a_folder_that_was_a_file_and_where_a_link_leads() {
    for size in SIZES {
        let as_folder = |root: &Path| {
            fs::remove_file(root.join("file")).unwrap();
            fs::create_dir(root.join("file")).unwrap();
        };
        let as_file = |root: &Path| {
            fs::remove_dir(root.join("folder")).unwrap();
            fs::write(root.join("folder"), "b").unwrap();
        };
        let site = Site::new().folder("folder").file("one/x", "1").file("two/x", "2");
        let site = site.file("other", many(b'b', size)).symlink("link", "target").symlink("current", "one");
        check_changes(
            size,
            site,
            &["target", "file"],
            "",
            vec![
                change("/file", format!("200 a{size}"), as_folder, "301"),
                change("/folder", "301", as_file, "200 b1"),
                change(
                    "/link",
                    format!("200 a{size}"),
                    |root| relink(&root.join("link"), "other"),
                    format!("200 b{size}"),
                ),
                change("/current/x", "200 11", |root| relink(&root.join("current"), "two"), "200 21"),
            ],
        );
    }
}

#[test]
fn the_next_request_sees_an_edit_right_after_a_request() {
    let server = Site::new().config(AT_ONCE).file("a", "000").start();
    let mut client = server.connect();
    let path = server.root().join("a");
    let mut stale = 0;
    for number in 0..200 {
        let content = format!("{number:03}");
        edit(&path, &content);
        stale += i32::from(client.get("/a").text() != content);
    }
    assert_eq!(stale, 0, "of 200 edits, which may fall into one tick of the clock of the disk");
}

#[test]
fn stops_serving_a_file_that_became_unreadable() {
    let server = Site::new()
        .config(without_privilege())
        .config(AT_ONCE)
        .file("small", "a")
        .file("large", vec![b'a'; 200_000])
        .file("folder/x", "a")
        .start();
    let mut client = server.connect();
    let mut rows = Rows::new();
    for (path, changed) in [("/small", "small"), ("/large", "large"), ("/folder/x", "folder")] {
        let set_mode =
            |mode| fs::set_permissions(server.root().join(changed), Permissions::from_mode(mode)).unwrap();
        rows.check(path, client.get(path).status, 200);
        set_mode(0o000);
        rows.check(path, client.get(path).status, 403);
        set_mode(0o755);
        rows.check(path, client.get(path).status, 200);
    }
}

/// Repeats the request until the response is `expected`, for as long as a change may stay unseen.
fn wait_for(client: &mut Client, path: &str, expected: &str) {
    let mut found = String::new();
    let has_come = wait_until(Duration::from_secs(3), || {
        found = summary(client, path, "");
        found == expected
    });
    assert!(has_come, "{path} is {found}, and not {expected}");
}

#[test]
fn by_default_shows_a_change_within_about_a_second() {
    let server = Site::new().file("replaced", "aaa").file("removed", "a").folder("folder").start();
    let mut client = server.connect();
    let root = server.root();
    for (path, before) in
        [("/replaced", "200 a3"), ("/removed", "200 a1"), ("/missing", "404"), ("/folder/", "403")]
    {
        assert_eq!(summary(&mut client, path, ""), before, "{path}");
    }
    replace(&root.join("replaced"), "bb");
    fs::remove_file(root.join("removed")).unwrap();
    fs::write(root.join("missing"), "c").unwrap();
    fs::write(root.join("folder/index.html"), "i").unwrap();
    for (path, after) in
        [("/replaced", "200 b2"), ("/removed", "404"), ("/missing", "200 c1"), ("/folder/", "200 i1")]
    {
        wait_for(&mut client, path, after);
    }
}

#[test]
fn finds_precompressed_files_that_the_kernel_has_to_look_for() {
    // The lookup that completes an entry finds them. Without a cache, the kernel alone remembers them.
    for entries in [4096, 0] {
        let site = Site::new().file("page", "plain").file("elsewhere/page", "br");
        let config = format!("[cache]\nentries = {entries}\ncheck = \"1h\"");
        // The kernel notes the time of the first access to the link, for which a disk may be needed.
        let server = site.symlink("page.br", "elsewhere/page").config(&config).start();
        let mut client = server.connect();
        let mut bodies = Vec::new();
        let are_found = wait_until(TIMEOUT, || {
            let response = client.get_with("/page", "Accept-Encoding: br\r\n");
            bodies.push(response.text());
            response.has("content-encoding")
        });
        assert!(are_found, "{entries} entries: {bodies:?}");
        let (last, before) = bodies.split_last().unwrap();
        assert!(last == "br" && before.iter().all(|body| body == "plain"), "{entries} entries: {bodies:?}");
    }
}

#[test]
fn does_not_check_the_disk_within_the_interval() {
    // Looking for precompressed files completes an entry right after the first response, and is a check of its own.
    let server = Site::new()
        .config("precompressed = []\n[cache]\ncheck = \"1h\"\nmissing = \"1h\"")
        .file("a", "aa")
        .file("big", vec![b'a'; 200_000])
        .start();
    let mut client = server.connect();
    for (path, name) in [("/a", "a"), ("/big", "big")] {
        let before = summary(&mut client, path, "");
        replace(&server.root().join(name), "b");
        assert_eq!(summary(&mut client, path, ""), before);
    }
    assert_eq!(client.get("/missing").status, 404);
    fs::write(server.root().join("missing"), "x").unwrap();
    assert_eq!(client.get("/missing").status, 404);
}

#[test]
fn only_one_response_ends_short_when_a_file_is_overwritten() {
    const SIZE: usize = 200_000;
    for (protocol, flag, listener) in
        [("HTTP/1.1", "--http1.1", ""), ("HTTP/2", "--http2-prior-knowledge", " http2")]
    {
        let listen = format!("listen = [\"127.0.0.1:0{listener}\"]\n");
        let server = Site::new()
            .config(&listen)
            .config("workers = 1\ncompress = false\nprecompressed = []\n[cache]\ncheck = \"1h\"\nmissing = \"1h\"")
            .file("big", vec![b'a'; SIZE])
            .start();
        let get = || {
            let mut curl = tool("curl");
            curl.args(["--silent", "--max-time", "10", flag, "--output", "-"]);
            let output = curl.arg(server.url("/big")).output().expect("curl starts");
            output.status.success().then_some(output.stdout)
        };
        assert!(get().is_some_and(|body| body == [b'a'; SIZE]), "{protocol}: the old file");
        edit(&server.root().join("big"), [b'b'; SIZE]);
        // It has the head of the old file.
        assert!(get().is_none(), "{protocol}: it ends short");
        assert!(get().is_some_and(|body| body == [b'b'; SIZE]), "{protocol}: the new file");
    }
}

#[test]
fn notices_when_the_root_link_changes() {
    let site = Site::new()
        .file_beside_root("1/a.txt", "1")
        .file_beside_root("1/old.txt", "1")
        .file_beside_root("2/a.txt", "2")
        .file_beside_root("2/new.txt", "2");
    relink(&site.home().join("current"), "1");
    let server = site.config_without_root("root = \"current\"").start();
    let mut client = server.connect();
    for (path, before) in [("/a.txt", "200 11"), ("/old.txt", "200 11"), ("/new.txt", "404")] {
        assert_eq!(summary(&mut client, path, ""), before, "{path}");
    }
    relink(&server.home().join("current"), "2");
    for (path, after) in [("/a.txt", "200 21"), ("/old.txt", "404"), ("/new.txt", "200 21")] {
        wait_for(&mut client, path, after);
    }
}

const LONG: usize = 32 * 1024 * 1024;

#[test]
fn never_completes_a_response_when_its_file_changes_meanwhile() {
    let content = Random::new(11).bytes(LONG);
    for workers in [1, 2] {
        let names = ["untouched", "removed", "replaced", "grown", "touched"];
        let site = names.iter().fold(Site::new(), |site, name| site.file(name, &content));
        let site = site
            .file("truncated", &content)
            .file("emptied", &content)
            .file("edited", &content)
            .file("fine", "fine");
        let server = site.config(&format!("workers = {workers}\n{AT_ONCE}")).start();
        let root = server.root();
        let mut rows = Rows::new();
        for name in names {
            let mut client = server.begin_download(&format!("/{name}"));
            let path = root.join(name);
            match name {
                "removed" => fs::remove_file(&path).unwrap(),
                "replaced" => replace(&path, "short"),
                "grown" => OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap(),
                "touched" => fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap(),
                _ => {}
            }
            let response = client.read_response();
            rows.check(name, (response.status, response.body.len()), (200, LONG));
            rows.holds(name, "the old content", response.body == content);
            rows.check(name, client.get("/fine").status, 200);
        }
        for name in ["truncated", "emptied", "edited"] {
            let mut client = server.begin_download(&format!("/{name}"));
            let path = root.join(name);
            match name {
                "truncated" => {
                    OpenOptions::new().write(true).open(&path).unwrap().set_len(LONG as u64 - 1000).unwrap()
                }
                "emptied" => drop(File::create(&path).unwrap()),
                _ => edit(&path, vec![0; LONG]),
            }
            match client.try_read_response() {
                // The connection closed before the last byte of the announced length.
                Err(ReadError::Closed { .. } | ReadError::Reset) => {}
                Err(other) => rows.holds(name, &format!("the response must end short; found {other}"), false),
                Ok(response) => rows.holds(
                    name,
                    "the response must end short or have only old bytes",
                    response.body == content,
                ),
            }
            rows.check("the server still serves", server.get("/fine").status, 200);
        }
    }
}

#[test]
fn a_response_never_mixes_two_versions_of_a_file() {
    let site = Site::new().config("workers = 2").config(AT_ONCE).file("small", "a").file("large", "a");
    let server = site.start();
    let root = server.root();
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(5);
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let byte = b'a' + random.below(26) as u8;
                replace(&root.join("small"), vec![byte; 1 + random.below(3000) as usize]);
                replace(&root.join("large"), vec![byte; 100_000 + random.below(100_000) as usize]);
            }
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    for _ in 0..150 {
                        for path in ["/small", "/large"] {
                            let found = summary(&mut client, path, "");
                            assert!(
                                found.starts_with("200 ") && !found.ends_with("mixed"),
                                "{path}: {found}"
                            );
                        }
                    }
                })
            })
            .collect();
        let results: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
}

#[test]
fn the_tightest_limits_serve_the_same_bytes() {
    for limits in [
        "entries = 0",
        "entries = 1",
        "entries = 5\ndescriptors = 2\nbytes = \"8KiB\"",
        "descriptors = 0",
        "bytes = 0",
        "file = 0",
        "file = \"1MiB\"\nbytes = \"100KiB\"",
    ] {
        let size =
            |number: usize| (number * 7919) % 3000 + if number.is_multiple_of(7) { 100_000 } else { 0 };
        let content = |number: usize| Random::new(number as u64).bytes(size(number));
        let site = (0..40).fold(Site::new(), |site, number| site.file(&format!("{number}"), content(number)));
        let server = site.config(&format!("workers = 1\n[cache]\n{limits}")).start();
        let mut random = Random::new(1);
        let mut clients = [server.connect(), server.connect()];
        for turn in 0..300 {
            let number = random.below(45) as usize;
            let response = clients[turn % 2].get(&format!("/{number}"));
            match number {
                ..40 => {
                    assert!(response.status == 200 && response.body == content(number), "{limits}: {number}")
                }
                _ => assert_eq!(response.status, 404, "{limits}: {number}"),
            }
        }
        let open = fs::read_dir(format!("/proc/{}/fd", server.serving_pid())).unwrap().count();
        assert!(open < 100, "{limits}: {open} descriptors");
    }
}

#[test]
fn serves_three_thousand_files_correctly() {
    let site = (0..3000).fold(Site::new(), |site, number| {
        site.file(&format!("{}/{number}", number % 50), format!("file {number}"))
    });
    let server = site.config("workers = 1\n[cache]\ndescriptors = 100").start();
    let mut client = server.connect();
    client.set_timeout(TIMEOUT);
    for _ in 0..2 {
        for batch in 0..30 {
            let numbers = batch * 100..batch * 100 + 100;
            let request = |number| format!("GET /{}/{number} HTTP/1.1\r\nHost: a\r\n\r\n", number % 50);
            client.send(numbers.clone().map(request).collect::<String>());
            for number in numbers {
                let response = client.read_response();
                assert_eq!((response.status, response.text()), (200, format!("file {number}")));
            }
        }
    }
    let open = fs::read_dir(format!("/proc/{}/fd", server.serving_pid())).unwrap().count();
    assert!(open < 200, "{open} descriptors are open");
}

/// Makes the kernel drop the content of a file from memory; written pages only.
fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn sends_a_file_that_is_not_in_memory_completely() {
    let mut random = Random::new(7);
    for size in [100_000, 1_000_000, 5_000_000] {
        let content = random.bytes(size);
        let server = Site::new().file("f.bin", &content).start();
        let path = server.root().join("f.bin");
        let mut client = server.connect();
        for _ in 0..3 {
            forget(&path);
            assert!(client.get("/f.bin").body == content, "{size} bytes");
            forget(&path);
            let part = client.get_with("/f.bin", "Range: bytes=50000-99998\r\n");
            assert!(part.status == 206 && part.body == content[50_000..99_999], "of {size} bytes");
            forget(&path);
            let parts = client.get_with("/f.bin", "Range: bytes=0-69999,80000-\r\n");
            let first = parts.body.windows(70_000).any(|window| window == &content[..70_000]);
            assert!(parts.status == 206 && first, "of {size} bytes");
            assert!(parts.body.windows(size - 80_000).any(|window| window == &content[80_000..]));
        }
    }
}
