//! The files of the cache: stored responses that outlive a process, whatever becomes of the files, and `taipan purge`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use e2e::upstream::read_head;
use e2e::{Folder, Random, Response, Rows, Server, Site, SmallDisk, TIMEOUT, has_open, run, wait_until};

/// An application that counts its requests, and a folder for the files. Servers are started in front of them.
struct Fixture {
    home: Folder,
    requests: Arc<AtomicUsize>,
}

/// Bytes of a body that is sent from a file.
const LARGE: usize = 300_000;

fn answer(stream: &mut UnixStream, requests: &AtomicUsize) -> Option<()> {
    let head = read_head(stream).ok()?;
    let number = requests.fetch_add(1, Ordering::SeqCst) + 1;
    let target = head.split(' ').nth(1)?.to_owned();
    if let Some(seed) = target.strip_prefix("/app/random/") {
        let body = random(seed.parse().ok()?);
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        return stream.write_all(&[head.as_bytes(), &body].concat()).ok();
    }
    let mut body = format!("{target} {number} ");
    if target.contains("large") {
        body.extend((0..LARGE).map(|n| char::from(b'a' + (n % 23) as u8)));
    }
    let tag = if target.contains("tagged") { "Cache-Tag: news, other\r\n" } else { "" };
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n{tag}Content-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).ok()
}

/// A body of up to 200,000 bytes, of which no two are alike.
fn random(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let length = random.below(200_000) as usize;
    random.bytes(length)
}

impl Fixture {
    fn new() -> Fixture {
        let home = Folder::new();
        fs::create_dir(home.path().join("files")).expect("it is our folder");
        let listener = UnixListener::bind(home.path().join("peer")).expect("it is our folder");
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, counted) = (stream.expect("it listens"), counted.clone());
                thread::spawn(move || while answer(&mut stream, &counted).is_some() {});
            }
        });
        Fixture { home, requests }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("files")
    }

    fn config(&self, settings: &str) -> String {
        let (peer, files) = (self.home.path().join("peer"), self.folder());
        format!(
            "workers = 2\n[[route]]\npath = \"/app/\"\napplication = \"app\"\nresponse_cache = true\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n\
             [cache_files]\nfolder = \"{}\"\nmin_free = 0\n{settings}\n",
            peer.display(),
            files.display()
        )
    }

    fn start(&self) -> Server {
        self.start_with("")
    }

    fn start_with(&self, settings: &str) -> Server {
        let server = Site::new().config(&self.config(settings)).start();
        let files = self.files().len() as u64;
        assert!(wait_until(TIMEOUT, || count(&server, "files") >= files), "the index is made");
        server
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries =
            |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        entries(&self.folder())
            .filter(|path| path.is_dir())
            .flat_map(|path| entries(&path).collect::<Vec<_>>())
            // A file that was being written when its process was killed is none.
            .filter(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"new-")))
            .collect()
    }

    /// Requests all of them, and waits until their files are there. Returns the bodies.
    fn store(&self, server: &Server, paths: &[&str]) -> Vec<String> {
        let before = count(server, "files_written");
        let bodies = paths.iter().map(|path| body(server, path)).collect();
        let is_written = || count(server, "files_written") >= before + paths.len() as u64;
        assert!(wait_until(TIMEOUT, is_written), "{}\n{}", server.stats(), server.stderr());
        bodies
    }
}

fn count(server: &Server, key: &str) -> u64 {
    server.stats()["cache_files"][key].as_u64().expect("it is counted")
}

fn get(server: &Server, path: &str) -> Response {
    server.request(format!("GET /app/{path} HTTP/1.1\r\nHost: a.example\r\n\r\n"))
}

fn body(server: &Server, path: &str) -> String {
    let response = get(server, path);
    assert_eq!(response.status, 200, "{path}: {}", server.stderr());
    response.text()
}

fn purge(server: &Server, words: &[&str]) -> String {
    let output = server.run_command(&[&["purge"], words].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

const PATHS: [&str; 4] = ["1", "2?q=1", "large", "tagged"];

#[test]
fn files_respond_also_where_the_memory_is_too_small_for_a_response() {
    for responses in ["0", "100"] {
        let app = Fixture::new();
        let server = app.start_with(&format!("[cache]\nresponses = {responses}\n"));
        let bodies = app.store(&server, &["a", "b", "large"]);
        for _ in 0..3 {
            let again = ["a", "b", "large"].map(|path| body(&server, path));
            assert!(again[..] == bodies, "{responses}");
        }
        assert_eq!(app.requests(), 3, "{responses}: the application is not asked again");
    }
}

#[test]
fn finds_responses_again_after_a_reload_a_restart_and_a_kill() {
    let app = Fixture::new();
    let mut server = app.start();
    let bodies = app.store(&server, &PATHS);
    let requests = app.requests();
    for how in ["reload", "restart", "kill"] {
        match how {
            "reload" => server.reload(),
            "restart" => server = app.start(),
            _ => {
                server.signal(e2e::Signal::KILL);
                server = app.start();
            }
        }
        assert!(wait_until(TIMEOUT, || count(&server, "files") == 4), "{how}: {}", server.stats());
        for (path, body) in PATHS.iter().zip(&bodies) {
            let response = get(&server, path);
            assert_eq!(response.text(), *body, "{how}: {path}");
            let status = response.field("Cache-Status").unwrap_or_default();
            assert!(status.contains("hit"), "{how}: {path}: {status}");
        }
        assert_eq!(app.requests(), requests, "{how}: the application is not asked");
    }
}

#[test]
fn a_reload_that_maps_a_route_to_other_requests_makes_its_files_misses() {
    let app = Fixture::new();
    let config = |path: &str, fields: &str, more: &str| {
        let (peer, files) = (app.home.path().join("peer"), app.folder());
        format!(
            "workers = 1\n[cache_files]\nfolder = \"{}\"\nmin_free = 0\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n{more}\
             [[host]]\nnames = [\"a.example\"]\n[[host.route]]\npath = \"/app/\"\n\
             proxy = \"http://app{path}\"\nproxy_headers = {{ {fields} }}\nresponse_cache = true\n",
            files.display(),
            peer.display()
        )
    };
    let first = config("/one/", "", "");
    let server = Site::new().config(&first).start();
    let bodies = app.store(&server, &["x"]);
    assert_eq!(bodies, ["/one/x 1 "]);
    let reload = |config: &str| {
        server.configure(config);
        server.reload();
        assert!(wait_until(TIMEOUT, || count(&server, "files") == app.files().len() as u64));
    };
    reload(&config("/two/", "", ""));
    assert_eq!(app.store(&server, &["x"]), ["/two/x 2 "]);
    reload(&config("/one/", "\"X-Site\" = \"two\"", ""));
    assert_eq!(app.store(&server, &["x"]), ["/one/x 3 "]);
    // What is before a host or an application changes nothing.
    let other = "[[application]]\nname = \"a-other\"\nprotocol = \"http\"\naddress = \"127.0.0.1:1\"\n\
                 [[host]]\nnames = [\"other.example\"]\nroot = \"/\"\n";
    reload(&config("/one/", "", other).replace("a.example\"", "a.example\", \"more.example\""));
    assert_eq!([body(&server, "x"), body(&server, "x")], ["/one/x 1 ", "/one/x 1 "]);
    assert_eq!(app.requests(), 3);
}

/// The first responses are found again, also by another process, when the configuration is the first one again.
#[test]
fn a_reload_with_another_address_rewrite_or_fallback_makes_files_misses() {
    let app = Fixture::new();
    let config = |addresses: &str, rewrite: &str, fallback: &str, more: &str| {
        format!(
            "workers = 1\n[cache_files]\nfolder = \"{}\"\nmin_free = 0\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = {addresses}\n{more}\
             [[host]]\nroot = \"www\"\nnames = [\"a.example\"]\nfallback = \"{fallback}\"\n\
             [[host.route]]\npath = \"/app/\"\nfallback = false\n\
             application = \"app\"\nresponse_cache = true\n\
             [host.rewrites]\n\"/old/\" = \"{rewrite}\"\n",
            app.folder().display(),
        )
    };
    let home = app.home.path().display().to_string();
    std::os::unix::fs::symlink("peer", app.home.path().join("other")).expect("it is our folder");
    let (peer, other) = (format!("\"unix:{home}/peer\""), format!("\"unix:{home}/other\""));
    let both = format!("[{peer}, {other}]");
    let (rewrite, fallback) = ("/app/a/$rest", "/app/?one");
    const TARGETS: [&str; 3] = ["/app/x", "/old/x", "/missing"];
    let get_target = |server: &Server, target: &str| {
        server.request(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"))
    };
    let first = config(&peer, rewrite, fallback, "");
    let server = Site::new().config(&first).start();
    let mut rows = Rows::new();
    let mut stored = 0;
    for (what, config, is_hit) in [
        ("first", &first, false),
        ("another address", &config(&other, rewrite, fallback, ""), false),
        ("a second address", &config(&both, rewrite, fallback, "connect = \"7s\"\n"), true),
        ("another rewrite", &config(&peer, "/app/b/$rest", fallback, ""), false),
        ("another fallback", &config(&peer, rewrite, "/app/?two", ""), false),
        ("first again", &first, true),
    ] {
        server.configure(config);
        server.reload();
        assert!(wait_until(TIMEOUT, || count(&server, "files") == app.files().len() as u64), "{what}");
        for target in TARGETS {
            let response = get_target(&server, target);
            let status = response.field("Cache-Status").unwrap_or_default();
            let context = format!("{what}, {target}: {status}");
            rows.check(context, (response.status, status.contains("hit")), (200, is_hit));
        }
        stored += if is_hit { 0 } else { TARGETS.len() };
        assert!(wait_until(TIMEOUT, || app.files().len() == stored), "{what}: {:?}", app.files());
    }
    drop(server);
    let server = Site::new().config(&first).start();
    assert!(wait_until(TIMEOUT, || count(&server, "files") == stored as u64));
    let bodies = TARGETS.map(|target| get_target(&server, target).text());
    rows.check("after a restart", bodies, ["/app/x 1 ", "/old/x 2 ", "/missing?one 3 "].map(str::to_owned));
    let text = purge(&server, &["/app/x"]);
    rows.holds(text.clone(), "what all configurations have stored", text.ends_with(" 4 in files\n"));
}

#[test]
fn no_byte_is_wrong_after_thirty_kills_in_the_middle_of_writes() {
    const KILLS: u64 = 30;
    /// Requests of a round, by threads that do not wait for each other.
    const PATHS: u64 = 24;
    let app = Fixture::new();
    let (mut stored, mut from_files) = (0, 0);
    for round in 0..KILLS {
        let server = app.start_with("bytes = \"64MiB\"");
        // What the rounds before have stored, or were storing when they ended.
        let before: Vec<u64> = (0..round * PATHS).rev().take(3 * PATHS as usize).collect();
        for seed in before {
            let response = get(&server, &format!("random/{seed}"));
            assert_eq!(response.status, 200, "round {round}, {seed}");
            assert!(response.body == random(seed), "round {round}, {seed}: another body");
            stored += 1;
            from_files += u64::from(response.field("Cache-Status").is_some_and(|did| did.contains("hit")));
        }
        // Each round ends after another number of files.
        let written = || count(&server, "files_written");
        let enough = written() + round % 12;
        let addr = server.addr();
        let clients: Vec<_> = (0..4)
            .map(|client| {
                thread::spawn(move || {
                    for seed in (round * PATHS..(round + 1) * PATHS).filter(|seed| seed % 4 == client) {
                        let Ok(mut stream) = TcpStream::connect(addr) else { return };
                        let request = format!("GET /app/random/{seed} HTTP/1.0\r\nHost: a.example\r\n\r\n");
                        // The server ends in the middle of it.
                        _ = stream.write_all(request.as_bytes());
                        _ = stream.read_to_end(&mut Vec::new());
                    }
                })
            })
            .collect();
        assert!(wait_until(6 * TIMEOUT, || written() >= enough), "round {round}: {}", server.stats());
        let pids = server.children();
        server.signal(e2e::Signal::KILL);
        pids.into_iter().for_each(|pid| e2e::signal_process(pid, e2e::Signal::KILL));
        clients.into_iter().for_each(|client| client.join().expect("it has ended"));
    }
    // Else nothing was tested.
    assert!(from_files > stored / 20, "{from_files} of {stored} were found in files");
}

#[test]
fn a_full_disk_that_is_mounted_costs_only_hits() {
    let app = Fixture::new();
    let files = app.folder();
    let _disk = SmallDisk::mount(&files, "size=1m,mode=700");
    // The bound is larger than the disk, and another program takes the rest of it.
    let server = app.start_with("bytes = \"64MiB\"");
    for pass in 0..3 {
        if pass == 1 {
            _ = fs::write(files.join("rest"), vec![0; 2 << 20]);
        }
        for seed in 1000..1060 {
            let response = get(&server, &format!("random/{seed}"));
            assert!(response.status == 200 && response.body == random(seed), "pass {pass}, {seed}");
        }
    }
    assert_eq!(server.count("status_5xx"), 0);
    server.wait_for_line("; free space there, or set `bytes` of `[cache_files]` lower", TIMEOUT);
    let again = app.start_with("bytes = \"64MiB\"");
    for seed in 1000..1060 {
        assert!(get(&again, &format!("random/{seed}")).body == random(seed), "{seed}");
    }
}

#[test]
fn damaged_and_removed_files_are_misses() {
    let app = Fixture::new();
    let server = app.start();
    let mut bodies = app.store(&server, &PATHS);
    for (what, damage) in [
        (
            "flipped",
            (|file| {
                let mut bytes = fs::read(file).unwrap();
                let at = bytes.len() - 3;
                bytes[at] ^= 0x20;
                fs::write(file, bytes).unwrap();
            }) as fn(&PathBuf),
        ),
        ("cut", |file| {
            let length = fs::metadata(file).unwrap().len();
            fs::File::options().write(true).open(file).unwrap().set_len(length - 1).unwrap();
        }),
        ("emptied", |file| fs::write(file, "").unwrap()),
        ("removed", |file| fs::remove_file(file).unwrap()),
    ] {
        app.files().iter().for_each(damage);
        // Memory is lost, and the files are all that there is.
        server.reload();
        let before = app.requests();
        let again = app.store(&server, &PATHS);
        for ((path, old), new) in PATHS.iter().zip(&bodies).zip(&again) {
            assert!(old != new && new.starts_with(&format!("/app/{path} ")), "{what}: {path}");
        }
        assert_eq!(app.requests(), before + PATHS.len(), "{what}");
        assert_eq!(app.files().len(), PATHS.len(), "{what}");
        bodies = again;
    }
}

#[test]
fn a_file_that_is_damaged_while_it_is_used_is_a_miss() {
    let app = Fixture::new();
    let server = Site::new().config(&app.config("").replace("workers = 2", "workers = 1")).start();
    app.store(&server, &["large"]);
    server.reload();
    // The worker sends it from the file.
    let before = app.requests();
    assert!((0..8).all(|_| body(&server, "large").len() > LARGE) && app.requests() == before);
    for file in app.files() {
        fs::File::options().write(true).open(file).unwrap().set_len(1000).unwrap();
    }
    for _ in 0..8 {
        let is_whole = || {
            let mut client = server.connect();
            client.send("GET /app/large HTTP/1.1\r\nHost: a.example\r\n\r\n");
            client.try_read_response().is_ok_and(|response| response.body.len() > LARGE)
        };
        assert!(wait_until(TIMEOUT, is_whole), "{}", server.stderr());
    }
    assert!(app.requests() > before);
}

#[test]
fn a_purge_fails_when_a_file_cannot_be_removed() {
    let app = Fixture::new();
    let server = app.start();
    app.store(&server, &["1"]);
    let folder = app.files()[0].parent().expect("it is in a folder").to_owned();
    let allow = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("it is ours");
    allow(0o500);
    let output = server.run_command(&["purge", "--all"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("not removed: 1 files"), "{output:?}");
    server.wait_for_line("cannot be removed: ", TIMEOUT);
    let failed = count(&server, "files_failed");
    assert!(body(&server, "1").ends_with("/1 2 "), "the purged response is not used");
    assert!(wait_until(TIMEOUT, || count(&server, "files_failed") > failed), "nor can another be written");
    allow(0o700);
    assert!(purge(&server, &["--all"]).ends_with(", 1 in files\n"));
}

#[test]
fn purges_by_path_prefix_tag_and_host() {
    let app = Fixture::new();
    let server = app.start();
    let mut rows = Rows::new();
    for (words, removed) in [
        (&["/app/1"][..], 1),
        (&["/app/2"], 1),
        (&["/app/2?q=2"], 0),
        (&["/app/%31"], 1),
        (&["--prefix", "/%61pp/"], 4),
        (&["--prefix", "/app/"], 4),
        (&["--tag", "news"], 1),
        (&["--tag", "new"], 0),
        (&["--all"], 4),
        (&["--host", "b.example", "--all"], 0),
        (&["--host", "A.example", "--prefix", "/app/large"], 1),
    ] {
        purge(&server, &["--all"]);
        app.store(&server, &PATHS);
        let text = purge(&server, words);
        rows.holds(words.join(" "), "files", text.ends_with(&format!(" {removed} in files\n")));
        rows.check(words.join(" "), app.files().len(), PATHS.len() - removed);
        let before = app.requests();
        PATHS.iter().for_each(|path| _ = body(&server, path));
        rows.holds(words.join(" "), "memory", app.requests() - before >= removed);
    }
    let wrong = server.run_command(&["purge", "app"]);
    rows.check("no path", wrong.status.code(), Some(2));
}

#[test]
fn a_change_removes_the_files_of_all_spellings() {
    let app = Fixture::new();
    let server = app.start();
    app.store(&server, &["a", "%61", "b"]);
    assert_eq!(app.files().len(), 3);
    let head = "POST /app/a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(server.request(head).status, 200);
    assert!(wait_until(TIMEOUT, || app.files().len() == 1), "{:?}", app.files());
    let before = app.requests();
    drop(server);
    let server = app.start();
    ["a", "%61", "b"].iter().for_each(|path| _ = body(&server, path));
    assert_eq!(app.requests(), before + 2);
}

#[test]
fn keeps_within_its_bounds() {
    let app = Fixture::new();
    let server = app.start_with("bytes = \"1MiB\"\nentries = 20\nlargest = \"350KiB\"");
    for n in 0..60 {
        body(&server, &format!("small{n}"));
    }
    for n in 0..8 {
        assert_eq!(body(&server, &format!("large{n}")).len(), format!("/app/large{n} 00 ").len() + LARGE);
    }
    let is_written = || count(&server, "files_written") >= 60;
    assert!(wait_until(TIMEOUT, is_written), "{}", server.stats());
    let found = app.files();
    let sizes = found.iter().map(|path| fs::metadata(path).map_or(0, |one| one.len().div_ceil(4096) * 4096));
    let bytes: u64 = sizes.sum();
    assert!(bytes <= 1 << 20 && app.files().len() <= 20, "{bytes} bytes in {} files", app.files().len());
    assert!(count(&server, "files_evicted") > 0);
}

/// A worker that sends a response from its file has it open, and the disk has its space until it closes it.
#[test]
fn a_file_that_was_evicted_is_closed_as_root() {
    let app = Fixture::new();
    let settings = app.config("bytes = \"1MiB\"\nlargest = \"350KiB\"").replace("workers = 2", "workers = 1");
    let server = Site::new().config(&settings).start();
    app.store(&server, &["large0"]);
    server.reload();
    assert!(wait_until(TIMEOUT, || count(&server, "files") == 1), "the index is made");
    // A worker without connections looks less often.
    let (mut client, request) = (server.connect(), "GET /app/large0 HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(client.request(request).body.len() > LARGE);
    let evicted = app.files().remove(0);
    assert!(has_open(server.serving_pid(), &evicted), "it is sent from the file");
    // Its use may count once more meanwhile.
    let mut others = 0;
    let is_evicted = || {
        others += 1;
        app.store(&server, &[&format!("large{others}")]);
        !evicted.exists()
    };
    assert!(wait_until(TIMEOUT, is_evicted), "the others take its place");
    let deleted = PathBuf::from(format!("{} (deleted)", evicted.display()));
    assert!(wait_until(TIMEOUT, || !has_open(server.serving_pid(), &deleted)), "it is closed");
    assert!(client.request(request).body.len() > LARGE);
}

/// Three large responses fit in files, and four in memory.
#[test]
fn a_response_that_is_found_in_memory_keeps_its_file() {
    let app = Fixture::new();
    let settings = app.config("bytes = \"1MiB\"\nlargest = \"350KiB\"").replace("workers = 2", "workers = 1");
    let server = Site::new().config(&(settings + "\n[cache]\nresponses = \"1500KiB\"\n")).start();
    let uptime = || server.stats()["uptime_s"].as_u64().expect("it is counted");
    let _client = server.connect();
    let mut attempts = 0;
    let outlasts_the_next = || {
        attempts += 1;
        let [found, next, second, third] =
            ["large", "large-b", "large-c", "large-d"].map(|name| format!("{name}{attempts}"));
        let before = app.files();
        app.store(&server, &[&found]);
        let file = app.files().into_iter().find(|file| !before.contains(file)).expect("it is stored");
        app.store(&server, &[&next]);
        body(&server, &found);
        // The worker looks through its responses from time to time.
        let noted = uptime() + 2;
        assert!(wait_until(TIMEOUT, || uptime() >= noted));
        app.store(&server, &[&second, &third]);
        file.exists()
    };
    assert!(wait_until(TIMEOUT, outlasts_the_next), "{}", server.stats());
}

/// Three large responses fit in files, and four in memory.
#[test]
fn a_response_that_is_found_in_memory_gets_a_file_again() {
    let app = Fixture::new();
    let settings = app.config("bytes = \"1MiB\"\nlargest = \"350KiB\"").replace("workers = 2", "workers = 1");
    let server = Site::new().config(&(settings + "\n[cache]\nresponses = \"1500KiB\"\n")).start();
    let found = app.store(&server, &["large"]);
    let file = app.files().remove(0);
    app.store(&server, &["large-b", "large-c", "large-d"]);
    assert!(!file.exists(), "the others take its place");
    purge(&server, &["/app/large-b"]);
    let _client = server.connect();
    let is_written_again = || {
        assert_eq!(body(&server, "large"), found[0]);
        file.exists()
    };
    assert!(wait_until(TIMEOUT, is_written_again), "{}", server.stats());
    drop(server);
    let (server, requests) = (app.start(), app.requests());
    assert_eq!((body(&server, "large"), app.requests()), (found[0].clone(), requests));
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_with_what_to_do() {
    let app = Fixture::new();
    let check = || {
        let site = Site::new().config(&app.config(""));
        let output = run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, text) = check();
    assert!(code == Some(0) && text.contains("1.0 GiB  stored responses, in"), "{text}");
    assert_eq!(fs::read_dir(app.folder()).unwrap().count(), 0, "a check changes nothing");
    fs::write(app.folder().join("letter"), "dear").unwrap();
    let (code, text) = check();
    let named = "it has other files, such as \"letter\"; name an empty folder";
    assert!(code == Some(1) && text.contains(named) && text.contains("site.toml:"), "{text}");
    fs::remove_dir_all(app.folder()).unwrap();
    let (code, text) = check();
    assert!(code == Some(1) && text.contains("it does not exist; make it"), "{text}");
}

#[test]
fn serves_without_files_when_the_folder_is_taken_away() {
    let app = Fixture::new();
    let server = app.start();
    app.store(&server, &PATHS);
    fs::remove_dir_all(app.folder()).unwrap();
    for n in 0..10 {
        body(&server, &format!("other{n}"));
    }
    let line = server.wait_for_line("the cache cannot write to", TIMEOUT);
    assert!(line.contains("; make the folder, and reload"), "{line}");
    PATHS.iter().for_each(|path| _ = body(&server, path));
    assert_eq!(server.count("status_5xx"), 0);
    fs::create_dir(app.folder()).unwrap();
    server.reload();
    app.store(&server, &PATHS);
    assert_eq!(app.files().len(), PATHS.len());
}

#[test]
fn a_folder_that_an_administrator_has_emptied_is_used_further() {
    let app = Fixture::new();
    let server = app.start();
    app.store(&server, &PATHS);
    for entry in fs::read_dir(app.folder()).expect("it is our folder") {
        let path = entry.expect("it is our folder").path();
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it is our file");
    }
    let later = ["later", "last"];
    let bodies = app.store(&server, &later);
    let requests = app.requests();
    server.reload();
    assert!(wait_until(TIMEOUT, || count(&server, "files") == later.len() as u64), "{}", server.stderr());
    assert_eq!(later.map(|path| body(&server, path)).as_slice(), bodies);
    assert_eq!(app.requests(), requests, "they come from the files");
}
