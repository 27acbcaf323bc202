//! Files that are not what was written.

use std::os::unix::fs::symlink;

use rustix::fs::FileType;

use super::*;

const URL: &str = "http://a/path";

/// Stores a response, changes its file, and returns what is found then. `restarted`: by another process.
fn found_after(
    folder: &TestFolder,
    body: &[u8],
    restarted: bool,
    damage: impl FnOnce(&Path),
) -> Option<Vec<u8>> {
    let store = folder.open();
    put(&store, URL, body).unwrap();
    assert_eq!(get(&store, URL), Some(body.to_vec()));
    damage(&folder.file());
    let store = if restarted { folder.reopen() } else { store };
    get(&store, URL)
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1 << (at % 8);
    fs::write(file, bytes).unwrap();
}

#[test]
fn no_changed_byte_is_found() {
    let folder = TestFolder::new();
    put(&folder.open(), URL, &body(3, 60)).unwrap();
    let length = fs::metadata(folder.file()).unwrap().len() as usize;
    for restarted in [false, true] {
        for at in 0..length {
            let found = found_after(&folder, &body(3, 60), restarted, |file| flip(file, at));
            assert_eq!((found, folder.files().len()), (None, 0), "byte {at}");
        }
        for at in [20_000, 300_000, 699_999] {
            assert_eq!(
                found_after(&folder, &body(4, 700_000), restarted, |file| flip(file, at)),
                None,
                "{at}"
            );
        }
    }
}

#[test]
fn no_shorter_or_longer_file_is_found() {
    let folder = TestFolder::new();
    let body = body(5, 40);
    put(&folder.open(), URL, &body).unwrap();
    let length = fs::metadata(folder.file()).unwrap().len();
    for restarted in [false, true] {
        for new in (0..length).chain([length + 1, length + 4096]) {
            let resize = |file: &Path| {
                fs::File::options().write(true).open(file).unwrap().set_len(new).unwrap();
            };
            assert_eq!(found_after(&folder, &body, restarted, resize), None, "{new} of {length} bytes");
        }
        let zeros = |file: &Path| fs::write(file, vec![0; length as usize]).unwrap();
        assert_eq!(found_after(&folder, &body, restarted, zeros), None);
    }
}

#[test]
fn a_file_of_another_key_is_not_found() {
    let folder = TestFolder::new();
    let store = folder.open();
    put(&store, URL, b"mine").unwrap();
    let mine = folder.file();
    put(&store, "http://b/", b"of another").unwrap();
    let other = folder.files().into_iter().find(|path| *path != mine).unwrap();
    fs::copy(&other, &mine).unwrap();
    for store in [&store, &folder.reopen()] {
        assert_eq!(get(store, URL), None);
        assert_eq!(get(store, "http://b/"), Some(b"of another".to_vec()));
    }
}

#[test]
fn files_that_are_removed_are_misses() {
    let folder = TestFolder::new();
    let store = folder.open();
    let urls: Vec<String> = (0..50).map(|n| format!("http://a/{n}")).collect();
    urls.iter().for_each(|url| put(&store, url, b"x").unwrap());
    for entry in fs::read_dir(&folder.0).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    urls.iter().for_each(|url| assert_eq!(get(&store, url), None));
    assert_eq!((store.stats().entries, store.stats().bytes, store.stats().failed), (0, 0, 0));
    urls.iter().for_each(|url| put(&store, url, b"y").unwrap());
    urls.iter().for_each(|url| assert_eq!(get(&store, url), Some(b"y".to_vec())));
    // All of the folder, which the store cannot make again.
    fs::remove_dir_all(&folder.0).unwrap();
    urls.iter().for_each(|url| assert_eq!(get(&store, url), None));
    assert_eq!(put(&store, URL, b"z"), Err(NotStored::Failed));
}

#[test]
fn planted_links_lead_nowhere() {
    let (folder, outside) = (TestFolder::new(), TestFolder::new());
    let store = folder.open();
    put(&store, URL, b"good").unwrap();
    let file = folder.file();
    // A good file outside, to which only a link leads.
    let copy = outside.0.join(file.file_name().unwrap());
    fs::rename(&file, &copy).unwrap();
    symlink(&copy, &file).unwrap();
    assert_eq!(get(&store, URL), None);
    assert!(copy.exists() && !file.is_symlink(), "the link is removed, and not its target");
    // In place of the folder of the file, which then cannot be listed.
    let unlisted = Purged { removed: 0, failed: 1 };
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
    symlink(&outside.0, file.parent().unwrap()).unwrap();
    for store in [&store, &folder.reopen()] {
        assert_eq!(get(store, URL), None);
        assert_eq!(put(store, URL, b"new"), Err(NotStored::Failed));
        assert_eq!(store.purge(&Purge::all(), store.purges.begin(Purge::all())), unlisted);
        store.remove(key(URL).resource());
        assert_eq!(store.stats().entries, 0);
    }
    assert!(copy.exists() && fs::read_dir(&outside.0).unwrap().count() == 1);
}

#[test]
fn other_kinds_of_files_are_not_waited_for() {
    let folder = TestFolder::new();
    let store = folder.open();
    put(&store, URL, b"good").unwrap();
    let file = folder.file();
    fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert_eq!(get(&store, URL), None);
    put(&store, URL, b"again").unwrap();
    assert_eq!(get(&store, URL), Some(b"again".to_vec()));
    // A file cannot replace a folder.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(get(&store, URL), None);
    assert_eq!(put(&store, URL, b"again"), Err(NotStored::Failed));
    assert_eq!(folder.files(), [file], "nothing is left behind");
}
