//! How long a request waits for the disk: until its deadline, or until its client disconnects. Nothing of it
//! remains when the disk answers again.

use std::time::Instant;

use e2e::{Client, ReadError, TIMEOUT, wait_until};

use crate::file_system::Call::{self, Lookup, Open, Precompressed, Read, Readdir};
use crate::file_system::Slowness::Hanging;
use crate::file_system::{Names, Pages};
use crate::fixture::{Fixture, Helpers, Place, are_answered, ensure, in_parallel, still_wait};
use crate::isolation::WAITS;
use crate::{CLIENTS, SECOND};

/// Nothing is cached, so that anything still held is a leak.
const SHORT_DISK_TIMEOUT: &str =
    "[timeouts]\ndisk = \"1s\"\ndelay = 0\n[limits]\nbody_streams = 1000\n[cache]\nentries = 0\n";

#[test]
fn answers_503_after_the_disk_timeout_and_frees_everything() {
    in_parallel(&WAITS, |&(call, path)| {
        let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Kept, SHORT_DISK_TIMEOUT);
        ensure(fixture.is_quiet(), || "the first connection does not end".to_owned())?;
        let before = fixture.held();
        let since = Instant::now();
        for mut client in fixture.have_wait(call, Hanging, path)? {
            client.set_timeout((SECOND * 20).saturating_sub(since.elapsed()).max(SECOND / 1000));
            get_503(call, path, &mut client)?;
        }
        ensure(since.elapsed() >= SECOND * 9 / 10, || format!("over after {:?}", since.elapsed()))?;
        fixture.disk.release();
        // The disk finishes the earlier calls first.
        let is_served = || fixture.serves_everything();
        ensure(wait_until(TIMEOUT, || is_served().is_ok()), || format!("{:?}", is_served()))?;
        ensure(fixture.becomes_as(before), || format!("{before:?} became {:?}", fixture.held()))
    });
}

/// Expects 503; after the head has been sent, only a closed connection can show the error.
fn get_503(call: Call, path: &str, client: &mut Client) -> Result<(), String> {
    let may_have_head = call == Read && !path.contains("small");
    match client.try_read_response() {
        Ok(response) if response.status == 503 => Ok(()),
        Err(ReadError::Closed { .. } | ReadError::Reset) if may_have_head => Ok(()),
        Ok(response) => Err(response.to_string()),
        Err(broken) => Err(broken.to_string()),
    }
}

/// How a client disconnects.
#[derive(Debug, Clone, Copy)]
enum Disconnect {
    Reset,
    Close,
}

impl Disconnect {
    fn apply(self, client: Client) {
        match self {
            Disconnect::Reset => client.reset(),
            Disconnect::Close => drop(client),
        }
    }
}

const DISCONNECTS: [(Call, &str, Disconnect); 12] = [
    (Lookup, "/slow/small-{n}.txt", Disconnect::Reset),
    (Lookup, "/slow/small-{n}.txt", Disconnect::Close),
    (Precompressed, "/slow/small-{n}.txt", Disconnect::Reset),
    (Precompressed, "/slow/small-{n}.txt", Disconnect::Close),
    (Open, "/slow/large-{n}.bin", Disconnect::Reset),
    (Open, "/slow/large-{n}.bin", Disconnect::Close),
    (Read, "/slow/large-{n}.bin", Disconnect::Reset),
    (Read, "/slow/large-{n}.bin", Disconnect::Close),
    (Read, "/slow/packed-{n}.bin", Disconnect::Reset),
    (Read, "/slow/packed-{n}.bin", Disconnect::Close),
    (Readdir, "/slow/folder-{n}/", Disconnect::Reset),
    (Readdir, "/slow/folder-{n}/", Disconnect::Close),
];

#[test]
fn releases_the_permit_of_a_client_that_disconnects_while_the_disk_hangs() {
    in_parallel(&DISCONNECTS, |&(call, path, disconnect)| {
        // One device may use half of the queue, and its root is looked up as well. No request is shed on a
        // busy machine.
        let limits = format!("[limits]\nbody_streams = 1000\ndisk_queue = {}\n", 2 * (CLIENTS + 1));
        let config = format!("[timeouts]\ndisk = \"1m\"\ndelay = 0\n{limits}");
        let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, &config);
        let mut waiting = fixture.have_wait(call, Hanging, path)?;
        let all_wait = || {
            let Helpers { running, waiting } = fixture.helpers();
            running + waiting >= CLIENTS as u64
        };
        ensure(wait_until(TIMEOUT, all_wait), || format!("not all wait: {:?}", fixture.helpers()))?;
        still_wait(&mut waiting)?;
        waiting.push(fixture.request_one(path, CLIENTS));
        get_503(call, path, &mut fixture.request_one(path, CLIENTS + 1))?;

        waiting.into_iter().for_each(|client| disconnect.apply(client));
        let no_request_waits = || fixture.helpers().waiting <= 1 && fixture.held().connections == 0;
        ensure(wait_until(TIMEOUT, no_request_waits), || {
            format!("they have left: {:?}, {:?}", fixture.helpers(), fixture.held())
        })?;
        let mut next = fixture.have_wait(call, Hanging, path)?;
        still_wait(&mut next)?;
        fixture.disk.release();
        are_answered(path, next)
    });
}

#[test]
fn counts_disk_timeouts_and_clients_that_disconnected() {
    const LEAVE: usize = 5;
    let config = "[timeouts]\ndisk = \"3s\"\ndelay = 0\n[limits]\ndisk_queue = 1000\n";
    let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, config);
    let mut waiting = fixture.have_wait(Lookup, Hanging, "/slow/small-{n}.txt").expect("they wait");
    drop(waiting.split_off(CLIENTS - LEAVE));
    let counts = |left, late| {
        fixture.server.count("abandoned") == left && fixture.server.count("timeout_disk") == late
    };
    assert!(wait_until(TIMEOUT, || counts(LEAVE as u64, 0)), "{}", fixture.server.stats());
    assert!(waiting.iter_mut().all(|client| client.read_response().status == 503));
    let late = (CLIENTS - LEAVE) as u64;
    assert!(wait_until(TIMEOUT, || counts(LEAVE as u64, late)), "{}", fixture.server.stats());
    fixture.disk.release();
}
