use std::sync::Barrier;
use std::thread;

use site::limit::throttle_file::ThrottlePattern;
use site::limit::{Concurrency, Paths, RequestRate};
use site::route::Pattern;
use taipan_http::status::Status;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn limit(by: By) -> Limit {
    Limit {
        name: None,
        place: "a test".to_owned(),
        identity: 1,
        paths: Paths::All,
        by,
        download: None,
        upload: None,
        min_download: 0,
        requests: None,
        concurrent: None,
        status: Status::TOO_MANY_REQUESTS,
        announced: false,
        enforcement: Enforcement::Enforced,
    }
}

fn state(limit: &Limit) -> &'static LimitState {
    Box::leak(Box::new(LimitState::new(limit)))
}

fn applied(state: &'static LimitState) -> Applied {
    Applied { state, bucket: state.bucket(0) }
}

fn download(rate: u64, min_download: u64) -> Limit {
    Limit { download: Some(ByteRate { rate, burst: None }), min_download, ..limit(By::All) }
}

fn throttle(state: &'static LimitState) -> Result<Throttle, Excess> {
    let mut throttle = Throttle::default();
    throttle.add(&applied(state), Direction::Download)?;
    Ok(throttle)
}

#[test]
fn a_client_that_is_quiet_is_forgotten_only_for_a_new_one() {
    let rate = RequestRate { count: 1, period: Duration::from_secs(3600), burst: 1 };
    let state = state(&Limit { requests: Some(rate), ..limit(By::Client) });
    let now = super::now();
    let take = |key| state.bucket(key).take_request(&rate, now);
    let keys = || (0..PART as u64).map(|n| n * PARTS as u64);
    assert!(keys().all(|key| take(key).is_ok()));
    assert!(keys().all(|key| take(key).is_err()), "each is known");
    // All have used up something: the next ones count as one client.
    assert!(take(PART as u64 * PARTS as u64).is_ok());
    assert!(take((PART as u64 + 1) * PARTS as u64).is_err());
    assert!(take(1).is_ok(), "another part has space");
    keys().for_each(|key| state.bucket(key).return_request(&rate));
    assert!(take((PART as u64 + 1) * PARTS as u64).is_ok(), "quiet ones are forgotten");
}

#[test]
fn a_request_of_a_new_client_looks_at_few_of_a_full_table() {
    let rate = RequestRate { count: 1, period: Duration::from_secs(3600), burst: 1 };
    let state = state(&Limit { requests: Some(rate), ..limit(By::Client) });
    let now = super::now();
    let key = |n: usize| (n * PARTS) as u64;
    assert!((0..PART).all(|n| state.bucket(key(n)).take_request(&rate, now).is_ok()));
    // All but one have used up something, and that one is far from where the search begins.
    state.bucket(key(PART - 1)).return_request(&rate);
    let Buckets::Many { others, .. } = &state.buckets else { panic!("each client has a bucket") };
    let counts_with_others = |n: usize| Arc::ptr_eq(&state.bucket(key(n)), others);
    let until_found = (PART..2 * PART).take_while(|n| counts_with_others(*n)).count();
    assert_eq!(until_found, PART / LOOKED_AT - 1);
    assert!(state.bucket(key(0)).take_request(&rate, now).is_err(), "one that has used it up is known");
}

#[test]
fn requests_are_counted_exactly_by_many_threads() {
    let rate = RequestRate { count: 1, period: Duration::from_secs(3600), burst: 1000 };
    let state = state(&Limit { requests: Some(rate), ..limit(By::All) });
    let now = super::now();
    let count = || (0..1000).filter(|_| applied(state).take_request(now).is_ok()).count();
    let all: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it counts")).sum()
    });
    assert_eq!(all, 1000);
    applied(state).return_request();
    assert!(applied(state).take_request(now).is_ok());
    let Err(Excess::Requests(wait)) = applied(state).take_request(now) else { panic!("it is used up") };
    assert!(wait <= Duration::from_secs(3600) && wait > Duration::from_secs(3500), "{wait:?}");
}

#[test]
fn a_response_that_would_leave_each_too_little_is_refused() {
    let state = state(&download(1000, 400));
    let (one, two) = (throttle(state), throttle(state));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(throttle(state).err(), Some(Excess::Share));
    drop(one);
    assert!(throttle(state).is_ok());
    assert_eq!(
        state.bucket(0).download.senders.load(Ordering::Relaxed),
        1,
        "what was refused does not count"
    );
}

#[test]
fn a_throttle_that_ends_gives_back_what_it_has_reserved() {
    let state = state(&download(1000, 0));
    let mut one = throttle(state).expect("it is the first");
    let sent = one.ask(1_000_000).expect("nothing was sent before");
    one.used(sent);
    let until = one.ask(1_000_000).expect_err("the burst is used up");
    drop(one);
    // Without the reservation of the first, the second waits no longer than that would have.
    let mut two = throttle(state).expect("it is alone");
    let again = two.ask(1_000_000).expect_err("the burst is used up");
    assert!(again <= until + Duration::from_millis(50), "{again:?} {until:?}");
}

#[test]
fn a_small_response_passes_while_there_is_a_burst() {
    let limit = Limit { download: Some(ByteRate { rate: 100_000, burst: Some(50_000) }), ..limit(By::All) };
    let state = state(&limit);
    let passes = || throttle(state).expect("no share is too small").passes(10_000);
    let passed = (0..100).filter(|_| passes()).count();
    assert!((5..=7).contains(&passed), "{passed}");
}

#[test]
fn rates_change_for_responses_in_progress_and_limits_are_lifted() {
    let state = state(&download(100, 0));
    let mut throttle = throttle(state).expect("it is the first");
    while let Ok(bytes) = throttle.ask(u64::MAX) {
        throttle.used(bytes);
    }
    state.change_rates(Some(&Rates { identity: 1, download: Some(100_000_000), upload: None }));
    assert!(throttle.ask(u64::MAX).is_ok_and(|bytes| bytes > 100), "the new rate counts at once");
    state.change_rates(None);
    let mut bytes = 0;
    while bytes < 100_000_000 {
        let more = throttle.ask(u64::MAX).expect("it is lifted");
        throttle.used(more);
        bytes += more;
    }
}

#[test]
fn a_queue_has_so_many_places() {
    let concurrent = Concurrency { most: 1, queue: 2, wait: Duration::from_secs(1) };
    let applied = applied(state(&Limit { concurrent: Some(concurrent), ..limit(By::All) }));
    let (permits, _) = applied.concurrency().expect("it is limited");
    let permit = permits.clone().try_acquire_owned().expect("it is the first");
    assert!(permits.clone().try_acquire_owned().is_err());
    let (one, two) = (applied.queue(), applied.queue());
    assert!(one.is_some() && two.is_some() && applied.queue().is_none());
    drop(one);
    assert!(applied.queue().is_some());
    drop(permit);
    assert!(permits.clone().try_acquire_owned().is_ok());
}

#[test]
fn two_threads_that_share_a_rate_have_equal_parts_of_it() {
    let state = state(&download(2_000_000, 0));
    let both = Barrier::new(2);
    let send = || {
        let mut throttle = throttle(state).expect("no share is too small");
        both.wait();
        let until = now() + 2 * SECOND;
        let mut sent = 0;
        while now() < until {
            match throttle.ask(u64::MAX) {
                Ok(bytes) => {
                    throttle.used(bytes);
                    sent += bytes;
                }
                Err(at) => thread::sleep(at.saturating_duration_since(tokio::time::Instant::now())),
            }
        }
        sent
    };
    let (one, two) = thread::scope(|scope| {
        let (one, two) = (scope.spawn(send), scope.spawn(send));
        (one.join().expect("it sends"), two.join().expect("it sends"))
    });
    // The burst of a tenth of a second comes on top.
    let expected = 2_000_000.0 * 2.1;
    let error = ((one + two) as f64 - expected) / expected;
    assert!(error.abs() < 0.1, "{one} {two}");
    // The first one has the burst, and may have begun a slice more.
    assert!(one.abs_diff(two) <= 500_000, "{one} {two}");
}

#[test]
fn every_kind_of_limit_applies_to_its_paths_only() {
    let pattern = |text: &str| Paths::Patterns(vec![Pattern::parse(text).expect("it is one")]);
    let line = |text: &str| Paths::Throttle(ThrottlePattern::parse(text).expect("it is one"), 0);
    for (paths, path, expected) in [
        (Paths::All, "/a", true),
        (pattern("/a/"), "/a/b", true),
        (pattern("/a/"), "/ab", false),
        (line("a/**|**.iso"), "/a/b", true),
        (line("a/**|**.iso"), "/x/y.iso", true),
        (line("a/**|**.iso"), "/x", false),
    ] {
        let path = SafePath::parse(path).expect("it is safe");
        assert_eq!(Limit { paths, ..limit(By::All) }.matches(&path), expected, "{}", path.as_str());
    }
}
