//! The store on a real folder: what is written is found, and whatever happens to the files, no other byte is.

mod damage;
mod faults;
mod limits;
mod purging;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use cache::store::index::space;

use super::*;
use crate::cache::purges;

/// A folder that is removed with it.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> TestFolder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("taipan-store-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        TestFolder(path)
    }

    fn limits(&self) -> CacheFiles {
        CacheFiles { folder: self.0.clone(), bytes: 8 << 20, entries: 1000, largest: 2 << 20, min_free: 0 }
    }

    fn open(&self) -> Arc<Store> {
        self.open_with(self.limits())
    }

    fn open_with(&self, limits: CacheFiles) -> Arc<Store> {
        Arc::new(Store::new(Folder::open(&self.0).unwrap(), limits, Arc::default()))
    }

    /// As after a restart, with a complete index.
    fn reopen(&self) -> Arc<Store> {
        let store = self.open();
        store.walk();
        store
    }

    /// Every file but the mark.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for shard in fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()) {
            if shard.is_dir() {
                files.extend(fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        files
    }

    /// The only file.
    fn file(&self) -> PathBuf {
        let mut files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn key(url: &str) -> Key {
    Key::new(&format!("{url} http://up"))
}

/// Without tags and metadata, as if it had been requested before the process began.
fn new_entry(key: &Key) -> NewEntry {
    let (name, since) = (Name { resource: key.resource(), variant: 7 }, Epoch::default());
    NewEntry { name, key: key.clone(), tags: Vec::new(), metadata: Vec::new(), since }
}

fn put(store: &Arc<Store>, url: &str, body: &[u8]) -> Result<(), NotStored> {
    put_since(store, url, b"tag", body, purges::now())
}

fn put_since(store: &Arc<Store>, url: &str, tags: &[u8], body: &[u8], since: Epoch) -> Result<(), NotStored> {
    let metadata = b"metadata".to_vec();
    let entry = NewEntry { tags: tags.to_vec(), metadata, since, ..new_entry(&key(url)) };
    let mut writing = store.write(entry, Some(body.len() as u64))?;
    body.chunks(100_000).try_for_each(|part| writing.write(part))?;
    writing.finish()
}

/// The body that is found. Panics if the metadata are not those that were written.
fn get(store: &Store, url: &str) -> Option<Vec<u8>> {
    let mut found = store.find(&key(url));
    assert!(found.len() <= 1);
    let FoundFile { metadata, fd, at, length, stamp, .. } = found.pop()?;
    assert_eq!((metadata.as_slice(), stamp.size), (&b"metadata"[..], at + length));
    let mut body = vec![0; length as usize];
    let mut filled = 0;
    while filled < body.len() {
        filled += rustix::io::pread(&fd, &mut body[filled..], at + filled as u64).unwrap();
    }
    Some(body)
}

fn body(seed: u32, length: usize) -> Vec<u8> {
    (0..length as u32).map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 11) as u8).collect()
}

#[test]
fn finds_what_was_written_and_finds_it_again_after_a_restart() {
    let folder = TestFolder::new();
    let store = folder.open();
    let all = [("http://a/", 0), ("http://a/1", 1), ("http://a/2", 20_000), ("http://a/3", 1_500_000)];
    for (n, (url, length)) in all.into_iter().enumerate() {
        assert_eq!(get(&store, url), None);
        assert_eq!(put(&store, url, &body(n as u32, length)), Ok(()));
    }
    for store in [&store, &folder.reopen(), &folder.reopen()] {
        for (n, (url, length)) in all.into_iter().enumerate() {
            assert_eq!(get(store, url), Some(body(n as u32, length)), "{url}");
        }
        assert_eq!(get(store, "http://a/4"), None);
        let stats = store.stats();
        assert_eq!((stats.entries, stats.failed, stats.damaged), (4, 0, 0));
        let blocks = [1, 1, 5, 367];
        assert_eq!(stats.bytes, blocks.iter().sum::<u64>() * 4096);
    }
    let unwalked = folder.open();
    assert!(!unwalked.may_have(key("http://a/1").resource()), "a miss until the index is there");
    assert!(store.may_have(key("http://a/1").resource()));
}

#[test]
fn replaces_a_response_while_the_old_file_is_being_sent() {
    let folder = TestFolder::new();
    let store = folder.open();
    put(&store, "http://a/", &body(1, 50_000)).unwrap();
    let sent = store.find(&key("http://a/")).pop().unwrap();
    put(&store, "http://a/", &body(2, 10)).unwrap();
    assert_eq!(get(&store, "http://a/"), Some(body(2, 10)));
    folder.file();
    store.remove(key("http://a/").resource());
    assert_eq!((get(&store, "http://a/"), folder.files().len()), (None, 0));
    let mut old = vec![0; 50_000];
    assert_eq!(rustix::io::pread(&sent.fd, &mut old, sent.at), Ok(50_000));
    assert_eq!(old, body(1, 50_000), "the descriptor still has it");
}

#[test]
fn a_key_has_variants_and_a_hash_is_not_a_key() {
    let folder = TestFolder::new();
    let store = folder.open();
    let key = key("http://a/");
    let write = |text: &Key, variant| {
        let name = Name { resource: key.resource(), variant };
        let entry = NewEntry { name, metadata: vec![variant as u8], ..new_entry(text) };
        store.write(entry, None).unwrap().finish().unwrap();
    };
    for variant in 0..3 {
        write(&key, variant);
    }
    // As if two keys had the same hash.
    write(&self::key("http://b/"), 3);
    let mut found: Vec<Vec<u8>> = store.find(&key).into_iter().map(|found| found.metadata).collect();
    found.sort();
    assert_eq!(found, [[0], [1], [2]]);
    assert_eq!(store.stats().damaged, 0);
}

#[test]
fn an_unfinished_response_leaves_nothing() {
    let folder = TestFolder::new();
    let store = folder.open();
    let key = key("http://a/");
    let begin = || {
        let entry = new_entry(&key);
        let mut writing = store.write(entry, None).unwrap();
        writing.write(&body(1, 100_000)).unwrap();
        writing
    };
    let writing = begin();
    assert_eq!((folder.files().len(), store.find(&key).len()), (1, 0), "it has no name yet");
    drop(writing);
    assert_eq!(folder.files().len(), 0);
    // The process is killed: nothing is dropped.
    std::mem::forget(begin());
    let store = folder.reopen();
    assert_eq!((folder.files().len(), store.stats().entries), (1, 0), "it may still be written");
    let long_ago = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 },
        last_modification: rustix::fs::Timespec { tv_sec: clock::wall() - ABANDONED - 1, tv_nsec: 0 },
    };
    let path = folder.file();
    rustix::fs::utimensat(rustix::fs::CWD, &path, &long_ago, rustix::fs::AtFlags::empty()).unwrap();
    store.walk();
    assert_eq!(folder.files().len(), 0, "it is of a process that has ended");
}

#[test]
fn several_processes_use_one_folder() {
    let folder = TestFolder::new();
    let limits = CacheFiles { bytes: 64 * 4096, ..folder.limits() };
    let stores = [folder.open_with(limits.clone()), folder.open_with(limits)];
    let urls: Vec<String> = (0..40).map(|n| format!("http://a/{n}")).collect();
    std::thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            for thread in 0..2 {
                let urls = &urls;
                scope.spawn(move || {
                    for round in 0..400u32 {
                        let n = (round * 7 + number as u32 * 3 + thread) as usize % urls.len();
                        match round % 4 {
                            0 | 1 => _ = put(store, &urls[n], &body(n as u32, n * 500)),
                            2 => {
                                if let Some(got) = get(store, &urls[n]) {
                                    assert_eq!(got, body(n as u32, n * 500), "{n}");
                                }
                            }
                            _ if round % 40 == 3 => store.walk(),
                            _ => store.remove(key(&urls[n]).resource()),
                        }
                    }
                });
            }
        }
    });
    for store in &stores {
        store.walk();
        assert_eq!((store.stats().damaged, store.stats().failed), (0, 0));
    }
    let bytes: u64 = folder.files().iter().map(|path| space(fs::metadata(path).unwrap().len())).sum();
    assert!(bytes <= 64 * 4096, "{bytes}");
    assert_eq!(stores.map(|store| store.stats().bytes), [bytes; 2]);
}

#[test]
fn a_retired_process_writes_no_more() {
    let folder = TestFolder::new();
    let store = folder.open();
    put(&store, "http://a/1", b"1").unwrap();
    let second = key("http://a/2");
    let entry = new_entry(&second);
    let mut writing = store.write(entry, None).unwrap();
    writing.write(b"2").unwrap();
    store.retire();
    assert_eq!(writing.write(b"3"), Err(NotStored::Retired));
    assert_eq!(writing.finish(), Err(NotStored::Retired));
    assert_eq!(put(&store, "http://a/3", b"3"), Err(NotStored::Retired));
    assert_eq!(get(&store, "http://a/1"), Some(b"1".to_vec()));
    folder.file();
}

#[test]
fn a_folder_is_taken_only_if_it_is_empty_or_marked() {
    let folder = TestFolder::new();
    let path = |name: &str| folder.0.join(name);
    let problem = |path: &Path| Folder::open(path).err().unwrap_or_default();
    assert!(
        problem(&path("missing")).contains("it does not exist; make it, owned by"),
        "{}",
        problem(&path("missing"))
    );
    fs::write(path("file"), "").unwrap();
    assert!(problem(&path("file")).contains("it is not a folder"));
    assert!(problem(&folder.0).contains("it has other files, such as \"file\"; name an empty folder"));
    assert!(!path("taipan-cache").exists(), "a folder of others is not touched");
    fs::remove_file(path("file")).unwrap();
    fs::create_dir(path("lost+found")).unwrap();
    assert!(Folder::examine(&folder.0).is_ok() && !path("taipan-cache").exists());
    assert!(Folder::open(&folder.0).is_ok() && Folder::open(&folder.0).is_ok());
    fs::write(path("file"), "").unwrap();
    assert!(Folder::open(&folder.0).is_ok(), "it is marked");
    let mark = fs::read(path("taipan-cache")).unwrap();
    for length in 0..mark.len() {
        for zeros in [0, mark.len() - length] {
            let torn = [&mark[..length], &vec![0; zeros]].concat();
            fs::write(path("taipan-cache"), torn).unwrap();
            let opened = Folder::examine(&folder.0).is_ok() && Folder::open(&folder.0).is_ok();
            assert!(opened, "{length} bytes, {zeros} zeros");
            assert_eq!(fs::read(path("taipan-cache")).unwrap(), mark);
        }
    }
    fs::write(path("taipan-cache"), "taipan cache 2\n").unwrap();
    assert!(problem(&folder.0).contains("another version (taipan-cache); empty it"));
    fs::remove_file(path("taipan-cache")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", path("taipan-cache")).unwrap();
    assert!(problem(&folder.0).contains("its mark taipan-cache cannot be read"));
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&folder.0, everyone).unwrap();
    assert!(problem(&folder.0).contains("every user may write to it"));
}
