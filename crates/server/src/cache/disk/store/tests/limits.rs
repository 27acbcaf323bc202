//! The bounds in bytes, in entries, and of what stays free.

use super::*;

fn used(folder: &TestFolder) -> u64 {
    folder.files().iter().map(|path| space(fs::metadata(path).unwrap().len())).sum()
}

#[test]
fn the_files_never_take_more_than_the_bound() {
    let folder = TestFolder::new();
    let bytes = 40 * 4096;
    let store = folder.open_with(CacheFiles { bytes, ..folder.limits() });
    for n in 0..300u32 {
        let length = [10, 5000, 30_000, 3 * 4096][n as usize % 4];
        assert_eq!(put(&store, &format!("http://a/{n}"), &body(n, length)), Ok(()));
        assert!(used(&folder) <= bytes, "{n}: {}", used(&folder));
        assert_eq!(store.stats().bytes, used(&folder));
    }
    let stats = store.stats();
    assert_eq!((stats.stored, stats.failed), (300, 0));
    assert_eq!(stats.evicted + stats.entries, 300);
    assert_eq!(get(&store, "http://a/299"), Some(body(299, 3 * 4096)), "the last one is there");
    // While it is written, too.
    let key = key("http://a/long");
    let entry = new_entry(&key);
    let mut writing = store.write(entry, None).unwrap();
    let mut refused = None;
    for _ in 0..100 {
        refused = writing.write(&body(0, 4096)).err();
        assert!(used(&folder) <= bytes);
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(refused, Some(NotStored::Full));
    drop(writing);
    assert_eq!((used(&folder), store.stats().bytes), (0, 0), "all others were evicted for it");
    put(&store, "http://a/", b"x").unwrap();
}

#[test]
fn evicts_what_was_used_longest_ago() {
    let folder = TestFolder::new();
    let store = folder.open_with(CacheFiles { bytes: 3 * 4096, ..folder.limits() });
    for url in ["http://a/1", "http://a/2", "http://a/3"] {
        put(&store, url, b"x").unwrap();
    }
    assert!(get(&store, "http://a/1").is_some());
    put(&store, "http://a/4", b"x").unwrap();
    let found = ["1", "2", "3", "4"].map(|n| get(&store, &format!("http://a/{n}")).is_some());
    assert_eq!(found, [true, false, true, true]);
    assert_eq!(store.stats().evicted, 1);
}

#[test]
fn bounds_the_entries_the_bodies_and_the_heads() {
    let folder = TestFolder::new();
    let store = folder.open_with(CacheFiles { entries: 20, largest: 1000, ..folder.limits() });
    for n in 0..3000 {
        put(&store, &format!("http://a/{n}"), b"x").unwrap();
    }
    assert_eq!((store.stats().entries, folder.files().len()), (20, 20));
    assert_eq!(put(&store, "http://a/", &body(1, 1001)), Err(NotStored::TooLong));
    assert_eq!(put(&store, "http://a/", &body(1, 1000)), Ok(()));
    let key = key("http://b/");
    let entry = new_entry(&key);
    let mut writing = store.write(entry, None).unwrap();
    writing.write(&[0; 1000]).unwrap();
    assert_eq!(writing.write(&[0]), Err(NotStored::TooLong), "of unknown length");
    drop(writing);
    let long = format!("http://a/{}", "k".repeat(head::LONGEST));
    assert_eq!(put(&store, &long, b"x"), Err(NotStored::TooLong));
    assert_eq!(folder.files().len(), 19, "one was evicted for what was not completed");
}

#[test]
fn hostile_keys_are_keys_like_others() {
    let folder = TestFolder::new();
    let store = folder.open();
    let long = format!("http://a/{}", "k".repeat(100_000));
    let urls = ["", "../../../etc/passwd", "http://a/\0\n\u{1b}[2J", "/", ".", "\u{fffd}\u{10ffff}", &long];
    for (n, url) in urls.iter().enumerate() {
        put(&store, url, &body(n as u32, 100)).unwrap();
    }
    for store in [&store, &folder.reopen()] {
        for (n, url) in urls.iter().enumerate() {
            assert_eq!(get(store, url), Some(body(n as u32, 100)), "{}", url.escape_debug());
        }
    }
    assert_eq!(folder.files().len(), urls.len());
}

#[test]
fn a_smaller_bound_evicts_what_is_too_much_at_the_next_start() {
    let folder = TestFolder::new();
    let store = folder.open();
    for n in 0..100 {
        put(&store, &format!("http://a/{n}"), b"x").unwrap();
    }
    let smaller = folder.open_with(CacheFiles { bytes: 10 * 4096, ..folder.limits() });
    smaller.walk();
    assert_eq!((smaller.stats().entries, used(&folder)), (10, 10 * 4096));
    let fewer = folder.open_with(CacheFiles { entries: 4, ..folder.limits() });
    fewer.walk();
    assert_eq!((fewer.stats().entries, folder.files().len()), (4, 4));
}

#[test]
fn stores_nothing_when_the_disk_has_less_free_space_than_it_must_keep() {
    let folder = TestFolder::new();
    put(&folder.open(), "http://a/1", b"x").unwrap();
    let greedy = folder.open_with(CacheFiles { min_free: u64::MAX - 1, ..folder.limits() });
    greedy.walk();
    assert_eq!(put(&greedy, "http://a/2", b"x"), Err(NotStored::Full));
    assert_eq!((greedy.stats().failed, greedy.stats().evicted), (1, 1), "it tries to make space first");
    assert_eq!(folder.files().len(), 0);
}
