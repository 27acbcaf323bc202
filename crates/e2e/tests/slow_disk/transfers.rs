//! Transfers from the slow file system: to fast and slow readers, up to the last bytes, and the close of
//! files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use e2e::Client;

use crate::SECOND;
use crate::file_system::Call::{Flush, Getattr, Read};
use crate::file_system::Slowness::{Delayed, Hanging};
use crate::file_system::{HUGE, Names, Pages, contents, huge};
use crate::fixture::{Fixture, LONG_DISK_TIMEOUT, Place, are_answered, ensure, in_parallel, one_by_one};

#[test]
fn sends_a_slowly_read_file_correctly_to_fast_and_slow_clients() {
    in_parallel(&[Pages::Direct, Pages::Kept], |&pages| {
        let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, pages, "");
        fixture.disk.slow_down(Read, Delayed(SECOND / 20));
        let long = &contents().long;
        let mut fast = fixture.server.connect();
        thread::scope(|scope| {
            let fast = scope.spawn(move || fast.get("/slow/long.bin").body);
            let mut slow = Download::new(&fixture, "/slow/long.bin")?;
            while slow.taken < long.len() as u64 {
                let from = slow.taken as usize;
                let some = slow.take()?;
                ensure(long[from..].starts_with(&some), || format!("wrong behind {from}"))?;
                thread::sleep(Duration::from_millis(5));
            }
            ensure(fast.join().expect("it does not panic") == **long, || "wrong for the fast".to_owned())
        })
    });
}

/// Longer than the delay of requests while a disk hangs.
const LONG: Duration = Duration::from_secs(300);

/// A download that the test reads piece by piece.
struct Download {
    client: Client,
    /// Bytes of content.
    taken: u64,
    /// Body bytes that came with the head.
    first: Vec<u8>,
}

impl Download {
    fn new(fixture: &Fixture, path: &str) -> Result<Download, String> {
        let mut client = fixture.server.begin_download(path);
        client.set_timeout(LONG);
        let mut first = Vec::new();
        loop {
            let some = client.read_some().map_err(|e| e.to_string())?;
            ensure(!some.is_empty(), || "closed within the head".to_owned())?;
            first.extend(some);
            if let Some(end) = first.windows(4).position(|end| end == b"\r\n\r\n") {
                return Ok(Download { client, taken: 0, first: first.split_off(end + 4) });
            }
        }
    }

    /// The bytes that have come; none is an error.
    fn take(&mut self) -> Result<Vec<u8>, String> {
        let some = match std::mem::take(&mut self.first) {
            first if first.is_empty() => self.client.read_some().map_err(|e| e.to_string())?,
            first => first,
        };
        self.taken += some.len() as u64;
        if some.is_empty() { Err(format!("closed after {}", self.taken)) } else { Ok(some) }
    }

    /// As `take`, for the huge file, whose pages are checked.
    fn take_huge(&mut self) -> Result<(), String> {
        let from = self.taken;
        let some = self.take()?;
        ensure(some == huge(from, self.taken), || format!("wrong behind {from}"))
    }
}

#[test]
fn sends_a_huge_file_completely_after_the_disk_hung() {
    let config = format!("{LONG_DISK_TIMEOUT}[cache]\nentries = 0\n");
    let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, &config);
    ensure(fixture.is_quiet(), || format!("{:?}", fixture.held())).expect("the first connection ends");
    let before = fixture.held();
    let goes_on = AtomicBool::new(true);
    let (tell, reported) = channel();
    let fast = || {
        let mut fast = Download::new(&fixture, "/slow/huge.bin")?;
        while fast.taken < HUGE {
            fast.take_huge()?;
            if fast.taken > HUGE / 4 {
                // Only the first hold is awaited.
                _ = tell.send(());
            }
        }
        Ok(())
    };
    let slow = || {
        let mut slow = Download::new(&fixture, "/slow/huge.bin")?;
        while goes_on.load(Ordering::Relaxed) {
            slow.take_huge()?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    let others = || {
        reported.recv().map_err(|_| "the download has failed".to_owned())?;
        fixture.others_are_unaffected()?;
        let waiting = fixture.have_wait(Read, Hanging, "/slow/large-{n}.bin")?;
        fixture.others_are_unaffected()?;
        fixture.disk.release();
        are_answered("/slow/large-{n}.bin", waiting)
    };
    let came = thread::scope(|scope| {
        let slow = scope.spawn(slow);
        let fast = scope.spawn(|| {
            let came = fast();
            goes_on.store(false, Ordering::Relaxed);
            came
        });
        let noticed = others();
        // Whatever the result, no call is held any more.
        fixture.disk.release();
        [fast.join().expect("it does not panic"), slow.join().expect("it does not panic"), noticed]
    });
    assert!(came.iter().all(Result::is_ok), "fast, slow, others: {came:?}");
    assert!(fixture.becomes_as(before), "{before:?} became {:?}", fixture.held());
}

#[test]
fn closing_a_file_delays_no_request() {
    one_by_one(&["/slow/small-{n}.txt", "/slow/large-{n}.bin", "/slow/packed-{n}.bin"], |&path| {
        let config = format!("{LONG_DISK_TIMEOUT}[cache]\nentries = 0\n");
        let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, Pages::Direct, &config);
        fixture.disk.slow_down(Flush, Hanging);
        let mut readers = fixture.request(path, 10);
        readers.iter_mut().for_each(|reader| reader.set_timeout(LONG));
        thread::scope(|scope| {
            // The files that were read are closed.
            let readers = scope.spawn(move || are_answered(path, readers));
            let waits = ensure(fixture.disk.a_call_waits(), || "no file is closed".to_owned());
            let others = waits.and_then(|()| fixture.others_are_unaffected());
            fixture.disk.release();
            others.and(readers.join().expect("it does not panic"))
        })
    });
}

#[test]
fn checking_a_file_before_its_last_bytes_makes_no_disk_request() {
    one_by_one(&[Pages::Direct, Pages::Kept], |&pages| {
        let fixture = Fixture::new(Place::BesideRoot, Names::Forgotten, pages, LONG_DISK_TIMEOUT);
        let mut reader = fixture.server.begin_download("/slow/long.bin");
        fixture.disk.slow_down(Getattr, Hanging);
        let response = reader.try_read_response().map_err(|broken| broken.to_string())?;
        ensure(response.body == *contents().long, || response.to_string())
    });
}
