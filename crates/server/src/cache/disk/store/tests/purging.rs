//! What a purge removes, and what it forbids.

use super::*;

const ALL: [(&str, &[u8]); 5] = [
    ("http://a.example/x", b"one two"),
    ("http://a.example/x?q=1", b"two"),
    ("http://a.example/x/y", b""),
    ("https://b.example:8443/x", b"two three"),
    ("https://b.example:8443/z", b""),
];

fn purged(store: &Arc<Store>, text: &str) -> u64 {
    let purge: Purge = text.parse().unwrap();
    let begun = store.purges.begin(purge.clone());
    let Purged { removed, failed } = store.purge(&purge, begun);
    assert_eq!(failed, 0);
    removed
}

#[test]
fn removes_by_path_prefix_tag_and_host() {
    for (text, expected) in [
        ("path - /x", &[2, 4][..]),
        ("path a.example /x", &[2, 3, 4]),
        ("path a.example /x?q=1", &[0, 2, 3, 4]),
        ("prefix - /x/", &[0, 1, 3, 4]),
        ("prefix b.example /", &[0, 1, 2]),
        ("tag - two", &[2, 4]),
        ("tag b.example two", &[0, 1, 2, 4]),
        ("all - -", &[]),
        ("all b.example -", &[0, 1, 2]),
        ("path - /none", &[0, 1, 2, 3, 4]),
    ] {
        let folder = TestFolder::new();
        let store = folder.open();
        for (url, tags) in ALL {
            put_since(&store, url, tags, b"x", Epoch::default()).unwrap();
        }
        assert_eq!(purged(&store, text), (ALL.len() - expected.len()) as u64, "{text}");
        assert_eq!(store.stats().purged, (ALL.len() - expected.len()) as u64);
        for store in [&store, &folder.reopen()] {
            for (n, (url, _)) in ALL.iter().enumerate() {
                assert_eq!(get(store, url).is_some(), expected.contains(&n), "{text}: {url}");
            }
        }
    }
}

#[test]
fn what_was_requested_before_a_purge_is_not_stored_after_it() {
    let folder = TestFolder::new();
    let store = folder.open();
    let since = purges::now();
    let key = key("http://a/x");
    let mut writing = store.write(NewEntry { since, ..new_entry(&key) }, None).unwrap();
    writing.write(b"old").unwrap();
    assert_eq!(purged(&store, "path - /x"), 0);
    assert_eq!(writing.finish(), Err(NotStored::Purged));
    assert_eq!(put_since(&store, "http://a/x", b"", b"old", since), Err(NotStored::Purged));
    assert_eq!(put_since(&store, "http://a/y", b"", b"other", since), Ok(()));
    assert_eq!(put_since(&store, "http://a/x", b"", b"new", Epoch(u64::MAX)), Ok(()));
    assert_eq!((get(&store, "http://a/x"), folder.files().len()), (Some(b"new".to_vec()), 2));
}

#[test]
fn a_file_is_not_used_from_the_beginning_of_its_purge() {
    let folder = TestFolder::new();
    put(&folder.open(), "http://a/x", b"old").unwrap();
    let store = folder.reopen();
    let purge: Purge = "path - /x".parse().unwrap();
    let begun = store.purges.begin(purge.clone());
    assert_eq!(get(&store, "http://a/x"), None);
    put_since(&store, "http://a/x", b"", b"new", Epoch(begun.0 + 1)).unwrap();
    assert_eq!(store.purge(&purge, begun), Purged::default(), "the new one stays");
    assert_eq!(get(&store, "http://a/x"), Some(b"new".to_vec()));
}

#[test]
fn reaches_the_files_of_other_processes() {
    let folder = TestFolder::new();
    let (one, other) = (folder.open(), folder.open());
    put(&one, "http://a/x", b"1").unwrap();
    put(&other, "http://a/x/y", b"2").unwrap();
    assert_eq!(purged(&one, "prefix - /x"), 2);
    assert_eq!((get(&other, "http://a/x/y"), other.stats().entries), (None, 0));
}

#[test]
fn removes_what_cannot_be_read_without_counting_it() {
    let folder = TestFolder::new();
    let store = folder.open();
    put(&store, "http://a/x", b"1").unwrap();
    fs::write(folder.file(), "not a head").unwrap();
    put(&store, "http://a/y", b"2").unwrap();
    assert_eq!(purged(&store, "path - /x"), 0);
    assert_eq!((get(&store, "http://a/y"), folder.files().len()), (Some(b"2".to_vec()), 1));
}
