//! Start, reload and shutdown of a server while its disk does not answer.

use std::thread;
use std::time::Instant;

use e2e::{Signal, TIMEOUT, run, wait_until};

use crate::CLIENTS;
use crate::SECOND;
use crate::file_system::Call::{self, Getattr, Lookup, Read};
use crate::file_system::Slowness::Hanging;
use crate::file_system::{Names, Pages, contents};
use crate::fixture::{
    Fixture, LONG_DISK_TIMEOUT, Place, are_answered, ensure, in_parallel, one_by_one, still_wait,
};

#[test]
fn starts_while_the_root_hangs_and_serves_it_later() {
    let fixture =
        Fixture::start(Place::BesideRoot, Names::Forgotten, Pages::Direct, LONG_DISK_TIMEOUT, |disk| {
            disk.slow_down(Getattr, Hanging);
        });
    assert!(fixture.disk.a_call_waits(), "the server does not open its root");
    fixture.others_are_unaffected().unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(fixture.server.get("/slow/small-0.txt").status, 503);
    let config = fixture.server.home().join("site.toml");
    let checked = run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    assert!(checked.status.success(), "{checked:?}");
    let stdout = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(stdout.contains("slow does not respond"), "{stdout}");
    fixture.disk.release();
    // The server retries the root on a request, once a second.
    let is_served = || fixture.server.get("/slow/small-0.txt").status == 200;
    assert!(wait_until(TIMEOUT, is_served), "it is not served");
    fixture.serves_everything().unwrap_or_else(|why| panic!("{why}"));
}

const RELOADED: [(Call, &str); 3] =
    [(Lookup, "/slow/small-{n}.txt"), (Getattr, "/slow/small-{n}.txt"), (Read, "/slow/large-{n}.bin")];

#[test]
fn reloads_while_the_disk_hangs() {
    one_by_one(&RELOADED, |&(call, path)| {
        let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, LONG_DISK_TIMEOUT);
        let mut waiting = fixture.have_wait(call, Hanging, path)?;
        let before = fixture.server.serving_pid();
        let config = fixture.server.home().join("site.toml");
        thread::scope(|scope| {
            let reload = scope.spawn(|| run(["reload".as_ref(), "-c".as_ref(), config.as_os_str()]));
            while !reload.is_finished() {
                fixture.request_fast_files()?;
            }
            let reloaded = reload.join().expect("it does not panic");
            ensure(reloaded.status.success(), || format!("{reloaded:?}"))
        })?;
        ensure(fixture.server.serving_pid() != before, || "no other process serves".to_owned())?;
        fixture.others_are_unaffected()?;
        still_wait(&mut waiting)?;
        fixture.disk.release();
        are_answered(path, waiting)?;
        let is_served = || fixture.serves_everything();
        ensure(wait_until(TIMEOUT, || is_served().is_ok()), || format!("{:?}", is_served()))
    });
}

const SHORT_DISK_TIMEOUT: &str = "[timeouts]\ndisk = \"1m\"\ndelay = 0\nshutdown = \"1s\"\n";

#[test]
fn sigterm_ends_the_server_while_the_disk_hangs() {
    in_parallel(&[Names::Forgotten, Names::Kept], |&names| {
        let mut fixture = Fixture::new(Place::BesideRoot, names, Pages::Direct, SHORT_DISK_TIMEOUT);
        ensure(fixture.server.get("/slow/").status == 200, || "the listing fails".to_owned())?;
        fixture.disk.stop_reading();
        let _waiting = fixture.request("/slow/none-{n}.txt", CLIENTS);
        ensure(wait_until(TIMEOUT, || fixture.helpers().running > 0), || "no request waits".to_owned())?;
        let since = Instant::now();
        fixture.server.signal(Signal::TERM);
        let ended = fixture.server.wait(TIMEOUT);
        ensure(ended.code() == Some(0), || ended.to_string())?;
        ensure(since.elapsed() < SECOND * 8, || format!("{:?}", since.elapsed()))
    });
}

/// A process that is blocked in a file system call ends with that call, even after SIGKILL.
#[test]
fn sigterm_ends_the_server_as_soon_as_the_disk_answers() {
    in_parallel(&[(Lookup, "/slow/none-{n}.txt"), (Read, "/slow/large-{n}.bin")], |&(call, path)| {
        let mut fixture =
            Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, SHORT_DISK_TIMEOUT);
        let waiting = fixture.have_wait(call, Hanging, path)?;
        fixture.server.signal(Signal::TERM);
        // Its connections end before it.
        for mut client in waiting {
            client.set_timeout(TIMEOUT);
            ensure(client.try_read_response().is_err(), || "a response".to_owned())?;
        }
        fixture.disk.release();
        let ended = fixture.server.wait(TIMEOUT);
        ensure(ended.code() == Some(0), || ended.to_string())
    });
}

#[test]
fn files_of_an_image_without_times_have_tags_by_content() {
    let config = format!("includes = true\n{LONG_DISK_TIMEOUT}");
    let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, &config);
    let get = |name: &str| fixture.server.get(&format!("/slow/undated-{name}"));
    let all = ["a.js", "b.js", "c.js"].map(get);
    let [a, same, other] = all.each_ref().map(|response| response.field("etag").expect("there is one"));
    assert_eq!(a, same);
    assert_ne!(a, other, "clients would keep a file of the earlier image");
    for response in &all {
        assert_eq!((response.status, response.field("last-modified")), (200, None));
    }
    let request = format!("GET /slow/undated-a.js HTTP/1.1\r\nHost: h\r\nIf-None-Match: {a}\r\n\r\n");
    assert_eq!(fixture.server.request(request).status, 304);
    for (name, start) in [("d.bin", &contents().large), ("page.shtml", &contents().small)] {
        let response = get(name);
        assert_eq!((response.field("etag"), response.field("last-modified")), (None, None), "{name}");
        assert!(response.status == 200 && response.body.starts_with(start), "{name}");
    }
}
