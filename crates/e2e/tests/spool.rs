//! Bodies of unknown length, which are spooled to files before a script starts: their common limit.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use e2e::{Client, Response, Rows, Server, Site, SmallDisk, TIMEOUT, path_of, run, wait_until};

const APP: &str = include_str!("programs/scgi_app.py");
/// The limit of all bodies together.
const LIMIT: usize = 64 * 1024;
const KIB: usize = 1024;

/// Responds with the length of the body, once the file that the query names exists.
const COUNT: &str = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nif test -n \"$QUERY_STRING\"; then\n: >\"$DOCUMENT_ROOT/began\"\n\
     until test -e \"$DOCUMENT_ROOT/$QUERY_STRING\"; do sleep 0.05; done\nfi\nwc -c\n";

fn start() -> Server {
    let site =
        Site::new().script("a.cgi", COUNT).file_beside_root("spool/none", "").file_beside_root("app.py", APP);
    fs::set_permissions(site.home().join("spool"), Permissions::from_mode(0o777)).unwrap();
    let (home, python) = (site.home().display().to_string(), path_of("python3"));
    site.config(&format!(
        "workers = 2\nmax_body = \"1MiB\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"scgi\"\ncommand = [\"{python}\", \"-B\", \"{home}/app.py\"]\n\
         folder = \"{home}\"\n[scripts]\nspool = \"spool\"\nspool_bytes = {LIMIT}\n"
    ))
    .start()
}

/// A chunked request without its end.
fn begun(target: &str, length: usize) -> Vec<u8> {
    let chunk = format!("{:x}\r\n{}\r\n", KIB, "x".repeat(KIB));
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    [head, chunk.repeat(length / KIB)].concat().into_bytes()
}

fn whole(target: &str, length: usize) -> Vec<u8> {
    [begun(target, length), b"0\r\n\r\n".to_vec()].concat()
}

fn post(server: &Server, target: &str, length: usize) -> Response {
    server.request(whole(target, length))
}

fn is_counted(response: &Response, length: usize) -> bool {
    response.status == 200 && response.text().trim() == length.to_string()
}

/// Waits until all space is free, which is a moment after the exit of the last script.
fn wait_for_space(server: &Server) {
    let is_free = || is_counted(&post(server, "/a.cgi", LIMIT), LIMIT);
    assert!(wait_until(TIMEOUT, is_free), "it is not given back:\n{}", server.stderr());
    let is_idle = || server.count("scripts_running") == 0;
    assert!(wait_until(TIMEOUT, is_idle), "a script still runs:\n{}", server.stderr());
}

/// Connections whose requests use the spool space. They are opened again where another body was faster.
fn hold_space(server: &Server, requests: &[Vec<u8>]) -> Option<Vec<Client>> {
    let mut clients = Vec::new();
    let is_held = || {
        clients = requests
            .iter()
            .map(|request| {
                let mut client = server.connect();
                client.send(request);
                client
            })
            .collect();
        sleep(Duration::from_millis(100));
        post(server, "/a.cgi", 48 * KIB).status == 503
    };
    wait_until(TIMEOUT, is_held).then_some(clients)
}

#[test]
fn rejects_bodies_beyond_the_common_spool_limit_until_space_is_free() {
    let server = start();
    let mut first = server.connect();
    first.send(whole("/a.cgi?go", 40 * KIB));
    let began = server.root().join("began");
    assert!(wait_until(TIMEOUT, || began.exists()), "the script does not begin:\n{}", server.stderr());
    // The script has all of the body, and the spool file still exists. The workers share the limit.
    for _ in 0..4 {
        let refused = post(&server, "/a.cgi", 40 * KIB);
        assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")), "{refused}");
        let small = post(&server, "/a.cgi", 8 * KIB);
        assert!(is_counted(&small, 8 * KIB), "{small}");
    }
    let sized =
        format!("POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: {LIMIT}\r\n\r\n{}", "x".repeat(LIMIT));
    let sized = server.request(sized);
    assert!(is_counted(&sized, LIMIT), "a body whose length is known is not spooled: {sized}");
    let line = server.wait_for_line("spool_bytes", TIMEOUT);
    assert!(line.contains("65536 bytes") && line.contains("raise `spool_bytes` in [scripts]"), "{line}");
    server.files().file("www/go", "");
    assert_eq!(first.read_response().text().trim(), (40 * KIB).to_string());
    wait_for_space(&server);
}

#[test]
fn a_limit_of_the_size_of_files_is_named() {
    let server = start();
    let limit = Rlimit { current: Some(4096), maximum: Some(4096) };
    let pid = Pid::from_raw(server.serving_pid() as i32);
    prlimit(pid, Resource::Fsize, limit).expect("it is our process");
    assert_eq!(post(&server, "/a.cgi", 16 * KIB).status, 500);
    let line = server.wait_for_line("cannot write the body of a request", TIMEOUT);
    assert!(
        line.contains("File too large; raise the limit of the size of files") && line.contains("LimitFSIZE"),
        "{line}"
    );
    assert!(is_counted(&post(&server, "/a.cgi", 2 * KIB), 2 * KIB), "a smaller one is received");
}

#[test]
fn rejects_bodies_while_a_mounted_disk_is_full() {
    let site = Site::new().script("a.cgi", COUNT);
    let spool = site.home().join("spool");
    fs::create_dir(&spool).unwrap();
    let _disk = SmallDisk::mount(&spool, "size=64k,mode=700");
    let config = "[[route]]\npath = \"*.cgi\"\ncgi = true\n[scripts]\nspool = \"spool\"\n";
    let server = site.config(config).start();
    let mut rows = Rows::new();
    for _ in 0..3 {
        let rejected = post(&server, "/a.cgi", 256 * KIB);
        rows.check("too large for the disk", (rejected.status, rejected.has("retry-after")), (503, true));
        rows.check("one that fits", is_counted(&post(&server, "/a.cgi", 32 * KIB), 32 * KIB), true);
    }
    rows.check("counted", server.count("scripts_rejected"), 3);
    server.wait_for_line("No space left on device; free space there", TIMEOUT);
    const MANY: usize = 20;
    for _ in 0..MANY {
        assert_eq!(post(&server, "/a.cgi", 256 * KIB).status, 503);
    }
    let lines = server.stderr().matches("No space left on device").count();
    rows.check("their lines are fewer than they are", lines < MANY, true);
}

#[test]
fn frees_spool_space_however_a_request_ends() {
    let server = start();
    let mut rows = Rows::new();
    rows.check("longer than the common limit", post(&server, "/a.cgi", LIMIT + KIB).status, 413);
    wait_for_space(&server);
    // Its client disconnects in the middle of the body.
    let unfinished = hold_space(&server, &[begun("/a.cgi", 48 * KIB)]);
    rows.holds("unfinished", "it uses space", unfinished.is_some());
    drop(unfinished);
    wait_for_space(&server);
    // The script never ends.
    let running = hold_space(&server, &vec![whole("/a.cgi?never", 20 * KIB); 3]);
    rows.holds("running", "they use space", running.is_some());
    drop(running);
    wait_for_space(&server);
    for _ in 0..4 {
        let response = post(&server, "/app/echo", 48 * KIB);
        rows.check("to an application", (response.status, response.body.len()), (200, 48 * KIB));
    }
    wait_for_space(&server);
}

/// The end of the input may arrive before anything of the body is read.
#[test]
fn responds_to_a_client_that_closes_its_side_behind_a_chunked_body() {
    let server = start();
    for target in ["/a.cgi", "/app/variables"] {
        for length in [KIB, 20 * KIB] {
            let mut client = server.connect();
            client.send(whole(target, length));
            client.half_close();
            assert_eq!(client.read_response().status, 200, "{target} {length}");
        }
        let mut client = server.connect();
        client.send(begun(target, KIB));
        client.half_close();
        // RFC 9112 §8: an error, or no response.
        assert!(
            client.try_read_response().is_ok_and(|response| response.status == 400) || client.is_closed()
        );
    }
}

#[test]
fn check_prints_the_disk_space_that_bodies_may_use() {
    let check = |config: &str| {
        let site = Site::new().config(config);
        let output = run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let scripts = "[[route]]\npath = \"*.cgi\"\ncgi = true\nmax_body = \"3GiB\"\n[scripts]\n";
    let line = "request bodies of unknown length, and responses to slow clients, in /var/tmp (`spool_bytes`)";
    assert!(!check("").contains(line), "there is none without scripts");
    let printed = check(scripts);
    assert!(printed.contains(&format!("256.0 MiB  {line}")), "{printed}");
    let longer = "but the route *.cgi accepts bodies of 3.0 GiB: those of unknown length are rejected beyond 256.0 MiB";
    assert!(printed.contains(longer), "{printed}");
    let printed = check(&format!("{scripts}spool_bytes = \"4GiB\"\n"));
    assert!(
        printed.contains(&format!("4.0 GiB  {line}")) && !printed.contains("rejected beyond"),
        "{printed}"
    );
}

/// As on a device without `/var/tmp`.
#[test]
fn check_warns_of_a_missing_folder_for_bodies() {
    let check = |config: &str| {
        let site = Site::new().config(config);
        let output = run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let scripts = "[[route]]\npath = \"*.cgi\"\ncgi = true\n";
    let (is_good, printed) = check(&format!("{scripts}[scripts]\nspool = \"missing\"\n"));
    assert!(is_good && printed.contains("missing, so that bodies of unknown length get 503"), "{printed}");
    let (is_good, printed) = check("[scripts]\nspool = \"missing\"\n");
    assert!(is_good && !printed.contains("bodies of unknown length"), "{printed}");
    let (is_good, printed) = check(scripts);
    assert!(is_good && !printed.contains("bodies of unknown length"), "{printed}");
}

#[test]
fn answers_503_and_names_the_folder_when_no_spool_file_can_be_made() {
    let server = start();
    let folder = server.root().parent().expect("the root has a home").join("spool");
    fs::remove_dir_all(&folder).unwrap();
    let refused = post(&server, "/a.cgi", KIB);
    assert_eq!(refused.status, 503, "{refused}");
    let line = server.wait_for_line("cannot make a file", TIMEOUT);
    assert!(line.contains(&folder.display().to_string()), "{line}");
    assert_eq!(server.request("POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx").status, 200);
}
