//! Requests for the hung disk wait, and all other requests are served as usual.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use e2e::upstream::upstream;
use e2e::{Client, TIMEOUT, raise_descriptor_limit, wait_until};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::file_system::Call::{self, Getattr, Listed, Lookup, Open, Opendir, Precompressed, Read, Readdir};
use crate::file_system::Slowness::{self, Delayed, Hanging};
use crate::file_system::{Names, Pages};
use crate::fixture::{
    Fixture, LONG_DISK_TIMEOUT, LONGEST, Place, are_answered, ensure, in_parallel, one_by_one, still_wait,
};
use crate::{CLIENTS, SECOND};

/// The held call, and the path that causes it.
pub const WAITS: [(Call, &str); 12] = [
    (Lookup, "/slow/small-{n}.txt"),
    (Lookup, "/slow/none-{n}.txt"),
    (Lookup, "/slow/folder-{n}/"),
    (Getattr, "/slow/small-{n}.txt"),
    (Precompressed, "/slow/small-{n}.txt"),
    (Open, "/slow/small-{n}.txt"),
    (Read, "/slow/small-{n}.txt"),
    (Read, "/slow/large-{n}.bin"),
    (Read, "/slow/packed-{n}.bin"),
    (Opendir, "/slow/folder-{n}/"),
    (Readdir, "/slow/folder-{n}/"),
    (Listed, "/slow/folder-{n}/"),
];

/// If the kernel has cached the names, only these calls come.
const KNOWN_WAITS: [(Call, &str); 7] = [
    (Open, "/slow/small-{n}.txt"),
    (Open, "/slow/large-{n}.bin"),
    (Read, "/slow/small-{n}.txt"),
    (Read, "/slow/large-{n}.bin"),
    (Read, "/slow/packed-{n}.bin"),
    (Opendir, "/slow/folder-{n}/"),
    (Readdir, "/slow/folder-{n}/"),
];

fn others_are_unaffected(
    place: Place,
    names: Names,
    pages: Pages,
    slowness: Slowness,
    waits: &[(Call, &str)],
) {
    one_by_one(waits, |&(call, path)| {
        let fixture = Fixture::new(place, names, pages, LONG_DISK_TIMEOUT);
        let mut waiting = fixture.have_wait(call, slowness, path)?;
        fixture.others_are_unaffected()?;
        if slowness == Hanging {
            still_wait(&mut waiting)?;
        }
        fixture.disk.release();
        are_answered(path, waiting)
    });
}

#[test]
fn keeps_serving_fast_files_while_the_disk_hangs() {
    others_are_unaffected(Place::BesideRoot, Names::Forgotten, Pages::Direct, Hanging, &WAITS);
}

#[test]
fn keeps_serving_while_a_mount_below_the_root_hangs() {
    others_are_unaffected(Place::Beneath, Names::Forgotten, Pages::Kept, Hanging, &WAITS);
}

#[test]
fn keeps_serving_fast_files_while_the_disk_is_slow() {
    others_are_unaffected(Place::BesideRoot, Names::Forgotten, Pages::Kept, Delayed(SECOND * 3), &WAITS);
}

#[test]
fn keeps_serving_while_the_disk_hangs_with_names_cached() {
    others_are_unaffected(Place::BesideRoot, Names::Kept, Pages::Direct, Hanging, &KNOWN_WAITS);
    others_are_unaffected(Place::Beneath, Names::Kept, Pages::Kept, Hanging, &KNOWN_WAITS);
}

/// Requests for the fast file system that need a helper thread or a slot of their own.
const COLD: [(&str, u16); 4] =
    [("/missing-{n}.txt", 404), ("/folder/", 200), ("/folder/missing-{n}", 404), ("/packed.bin", 200)];

/// The requests that wait meanwhile.
const DEAD: [(Place, Call, &str); 8] = [
    (Place::BesideRoot, Lookup, "/slow/small-{n}.txt"),
    (Place::BesideRoot, Read, "/slow/large-{n}.bin"),
    (Place::BesideRoot, Read, "/slow/packed-{n}.bin"),
    (Place::BesideRoot, Readdir, "/slow/folder-{n}/"),
    (Place::Beneath, Lookup, "/slow/small-{n}.txt"),
    (Place::Beneath, Read, "/slow/large-{n}.bin"),
    (Place::Beneath, Read, "/slow/packed-{n}.bin"),
    (Place::Beneath, Readdir, "/slow/folder-{n}/"),
];

#[test]
fn a_hung_device_leaves_threads_for_other_devices() {
    in_parallel(&DEAD, |&(place, call, path)| {
        // Fewer than the clients.
        let config = "[timeouts]\ndisk = \"1m\"\ndelay = 0\n[limits]\ndisk_queue = 100\n";
        let fixture = Fixture::new(place, Names::Forgotten, Pages::Direct, config);
        let _waiting = fixture.have_wait(call, Hanging, path)?;
        for (fast_path, status) in COLD {
            for n in 0..20 {
                let response = fixture.request_one(fast_path, n).try_read_response();
                let response = response.map_err(|broken| format!("{fast_path}: {broken}"))?;
                ensure(response.status == status, || format!("{fast_path}: {response}"))?;
            }
        }
        Ok(())
    });
}

/// Many more requests than connections; each name is requested many times.
const FLOOD: usize = 3000;
/// Requests for fast files, each on its own connection.
const LOCAL: usize = 24;

/// The held call, its path, whether the kernel knows the names, and the most connections that may wait for it.
const FLOODS: [(Call, &str, Names, usize); 6] = [
    (Lookup, "/slow/small-{n}.txt", Names::Forgotten, 1000),
    (Open, "/slow/small-{n}.txt", Names::Forgotten, 1000),
    (Readdir, "/slow/folder-{n}/", Names::Forgotten, 1000),
    // The response begins before the request waits.
    (Read, "/slow/large-{n}.bin", Names::Forgotten, 400),
    // All connections have begun a response, and their successors as well.
    (Read, "/slow/large-{n}.bin", Names::Kept, 400),
    (Lookup, "/slow/small-{n}.txt", Names::Forgotten, 100),
];

#[test]
fn requests_for_a_hung_disk_leave_connections_for_others() {
    raise_descriptor_limit();
    one_by_one(&FLOODS, |&(call, path, names, connections)| {
        let limits = format!("[limits]\nconnections = {connections}\nbody_streams = 1000\n");
        let config = format!("[timeouts]\ndisk = \"10m\"\ndelay = 0\n{limits}");
        let fixture = Fixture::new(Place::BesideRoot, names, Pages::Direct, &config);
        fixture.disk.slow_down(call, Hanging);
        let flood = (0..FLOOD).map(|n| fixture.request_one(path, n % CLIENTS)).collect();
        ensure(fixture.disk.a_call_waits(), || "no request waits".to_owned())?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| wait_unless_refused(flood, &is_over));
            let served = (0..LOCAL).try_for_each(|n| {
                let (fast_path, status) = [("/new-{n}.txt", 200), ("/missing-{n}.txt", 404)][n % 2];
                let response = fixture.request_one(fast_path, n).try_read_response();
                let response = response.map_err(|broken| format!("{fast_path}, {n}: {broken}"))?;
                ensure(response.status == status, || format!("{fast_path}, {n}: {response}"))
            });
            is_over.store(true, Ordering::Relaxed);
            served
        })?;
        fixture.disk.release();
        ensure(fixture.is_quiet(), || format!("{:?}", fixture.held()))?;
        fixture.serves_everything()
    });
}

/// Keeps clients until the server closes them or answers 503.
fn wait_unless_refused(mut clients: Vec<Client>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        clients.retain(|client| {
            let mut seen = [0; 12];
            match recv(client, &mut seen, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((0, _)) => false,
                Ok(_) => seen == *b"HTTP/1.1 200",
                Err(errno) => errno == Errno::AGAIN,
            }
        });
        thread::sleep(SECOND / 50);
    }
}

/// Of the requests for the same name, the allowed number waits; the others get 503 at once, and the waiting
/// ones get their responses later.
#[test]
fn counts_each_request_for_the_same_name() {
    // One device may use half.
    const MAY_WAIT: usize = 30;
    let limits = format!("[limits]\ndisk_queue = {}\n", 2 * MAY_WAIT);
    let config = format!("[timeouts]\ndisk = \"10m\"\ndelay = 0\n{limits}");
    let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, &config);
    fixture.disk.slow_down(Lookup, Hanging);
    let mut waiting: Vec<_> = (0..MAY_WAIT).map(|_| fixture.request_one("/slow/small-1.txt", 0)).collect();
    let so_many_wait = |count: usize| wait_until(TIMEOUT, || fixture.stats()["active"] == count);
    assert!(so_many_wait(MAY_WAIT), "{}", fixture.stats());
    for _ in 0..MAY_WAIT {
        let refused = fixture.request_one("/slow/small-1.txt", 0).read_response();
        assert!(refused.status == 503 && refused.has("retry-after"), "{refused}");
    }
    still_wait(&mut waiting).expect("they wait");
    drop(waiting.pop());
    assert!(so_many_wait(MAY_WAIT - 1), "{}", fixture.stats());
    waiting.push(fixture.request_one("/slow/small-1.txt", 0));
    assert!(so_many_wait(MAY_WAIT), "{}", fixture.stats());
    still_wait(&mut waiting).expect("a client that disconnects releases its permit");
    fixture.disk.release();
    are_answered("/slow/small-1.txt", waiting).expect("they are answered");
    let stderr = fixture.server.stderr();
    assert!(stderr.contains("/slow/small-1.txt: too many requests wait for its disk"), "{stderr}");
}

/// A body of unknown length is spooled there before its script starts.
#[test]
fn scripts_go_on_while_the_disk_of_spooled_bodies_hangs() {
    let config = "[timeouts]\ndisk = \"2s\"\ndelay = 0\n[scripts]\nspool = \"slow/folder-1\"\n\
                  [[route]]\npath = \"*.cgi\"\ncgi = true\n";
    let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, config);
    fixture.disk.slow_down(Lookup, Hanging);
    let post = "POST /hello.cgi HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let post = || {
        let mut client = fixture.server.connect();
        client.set_timeout(LONGEST);
        client.send(post);
        client
    };
    let waiting: Vec<Client> = (0..CLIENTS).map(|_| post()).collect();
    assert!(fixture.disk.a_call_waits());
    assert_eq!(fixture.server.get("/hello.cgi").text(), "hello");
    for mut client in waiting {
        let refused = client.read_response();
        assert!(refused.status == 503 && refused.has("retry-after"), "{refused}");
    }
    assert_eq!(fixture.server.get("/hello.cgi").text(), "hello");
    fixture.server.wait_for_line("slow/folder-1: the disk did not respond in time", TIMEOUT);
    assert_eq!(fixture.server.count("timeout_disk"), CLIENTS as u64);
}

/// What a client leaves for later would wait there.
#[test]
fn a_client_that_goes_on_gets_its_response_while_the_disk_of_spooled_responses_hangs() {
    const LONG: usize = 32 << 20;
    let address = upstream(|mut stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n")?;
        stream.write_all(&vec![b'x'; LONG])
    });
    let config = format!(
        "[timeouts]\ndisk = \"10m\"\ndelay = 0\n[scripts]\nspool = \"slow/folder-1\"\n\
         [[route]]\npath = \"/proxied\"\nproxy = \"{address}\"\n"
    );
    let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, &config);
    fixture.disk.slow_down(Lookup, Hanging);
    let mut slow = fixture.server.begin_download("/proxied");
    assert!(fixture.disk.a_call_waits());
    assert_eq!(slow.read_response().body.len(), LONG);
    fixture.disk.release();
}

#[test]
fn without_the_cache_no_request_gets_what_a_lookup_before_it_has_found() {
    for cache in ["entries = 0", "check = 0"] {
        let config = format!("{LONG_DISK_TIMEOUT}[cache]\n{cache}\n");
        let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, &config);
        fixture.disk.slow_down(Open, Hanging);
        let mut before = fixture.request_one("/slow/large-1.bin", 0);
        assert!(fixture.disk.a_call_waits());
        fixture.disk.remove("large-1.bin");
        let mut behind = fixture.request_one("/slow/large-1.bin", 0);
        assert!(wait_until(TIMEOUT, || fixture.stats()["active"] == 2), "{}", fixture.stats());
        fixture.disk.release();
        let statuses = [before.read_response().status, behind.read_response().status];
        assert_eq!(statuses, [200, 404], "{cache}");
    }
}

#[test]
fn lists_a_hung_mount_point_without_looking_into_it() {
    in_parallel(&[Getattr, Lookup], |&call| {
        // A cached page needs no call.
        let config = "[timeouts]\ndelay = 0\n[cache]\nentries = 0\n";
        let fixture = Fixture::new(Place::Beneath, Names::Forgotten, Pages::Direct, config);
        fixture.disk.slow_down(call, Hanging);
        for mut client in fixture.request("/", CLIENTS) {
            let response = client.try_read_response().map_err(|broken| broken.to_string())?;
            let shows_it = response.status == 200 && String::from_utf8_lossy(&response.body).contains("slow");
            ensure(shows_it, || response.to_string())?;
        }
        fixture.others_are_unaffected()
    });
}
