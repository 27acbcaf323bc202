//! Changes of a root, as helper threads make them.

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dav::locks::{Extent, Holder, Lock, Scope, Touch};
use rustix::fs::{Mode, OFlags};
use site::model::Symlinks;
use site::publishing::Publishing;
use taipan_http::target::SafePath;

use super::failure::Failure;
use super::new_file::NewFile;
use super::store::{Below, Expected, Found, NEW, Store, TRASH, Terms, check_length};
use super::tree::{self, CopiedFolder, FolderCopy, Kind, Member, Progress, PropertyCopy, Reach, Scan};
use super::{removal, usage};
use crate::clock;
use crate::files::beneath::Root;

/// A root of its own. Removed when dropped.
struct Fixture {
    folder: PathBuf,
    store: Store,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let folder = std::env::temp_dir().join(format!("taipan-publishing-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("d/e")).unwrap();
        fs::write(folder.join("d/e/f"), "f").unwrap();
        fs::write(folder.join("a"), "old").unwrap();
        let settings = Arc::new(Publishing { min_free: 0, ..Publishing::default() });
        let store = Store { root: Root::open(&folder).unwrap(), settings };
        Fixture { folder, store }
    }

    fn content(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    fn own(&self, name: &str) -> Vec<String> {
        tree::names(&self.store.state_folder(name).unwrap()).unwrap()
    }

    fn new_file(&self, content: &str) -> NewFile {
        let mut new = NewFile::create(&self.store).unwrap();
        new.write(&self.store, content.as_bytes()).unwrap();
        new
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn below(path: &str) -> Below {
    SafePath::from_decoded(&format!("/{path}")).unwrap()
}

#[test]
fn a_new_file_has_no_name_until_it_is_whole() {
    let fixture = Fixture::new("whole");
    let new = fixture.new_file("new");
    assert_eq!(fixture.content("a").as_deref(), Some("old"));
    let guard = fixture.store.guard().unwrap();
    let stored = new.commit(&guard, &Terms::default(), &below("a")).unwrap();
    assert!(matches!(stored.replaced, Some(Found::File(_))));
    assert_eq!(fixture.content("a").as_deref(), Some("new"));
    drop(fixture.new_file("dropped"));
    assert!(fixture.own(NEW).is_empty());
}

#[test]
fn a_commit_checks_again_what_was_true_before() {
    let fixture = Fixture::new("terms");
    let Ok(Some(Found::File(seen))) = fixture.store.find(&below("a")) else { panic!("a file") };
    fs::write(fixture.folder.join("a"), "changed meanwhile").unwrap();
    let terms = Terms { expected: Expected::File(seen), ..Terms::default() };
    let commit = |terms: &Terms, path: &str| {
        let guard = fixture.store.guard().unwrap();
        fixture.new_file("x").commit(&guard, terms, &below(path))
    };
    assert_eq!(commit(&terms, "a").unwrap_err(), Failure::Precondition);
    let terms = Terms { expected: Expected::Nothing, ..Terms::default() };
    assert_eq!(commit(&terms, "a").unwrap_err(), Failure::Precondition);
    assert_eq!(commit(&Terms::default(), "d").unwrap_err(), Failure::Exists);
    assert_eq!(commit(&Terms::default(), "none/x").unwrap_err(), Failure::NoFolder);
    assert_eq!(commit(&Terms::default(), "").unwrap_err(), Failure::Exists);
    let guard = fixture.store.guard().unwrap();
    let mut locks = guard.locks(clock::wall()).unwrap();
    let lock = Lock {
        token: "urn:1".into(),
        path: "d".into(),
        extent: Extent::Tree,
        scope: Scope::Exclusive,
        owner: String::new(),
        user: String::new(),
        expires: clock::wall() + 60,
    };
    locks.add(lock);
    guard.write_locks(&locks).unwrap();
    drop(guard);
    let locked = Member { path: below("d"), kind: Kind::Folder };
    assert_eq!(commit(&Terms::default(), "d/new").unwrap_err(), Failure::Locked(locked));
    let holder = Holder { tokens: vec!["urn:1".into()], user: String::new() };
    assert!(commit(&Terms { holder, ..Terms::default() }, "d/new").is_ok());
    assert_eq!(fixture.content("a").as_deref(), Some("changed meanwhile"));
}

#[test]
fn what_a_crash_left_is_removed_and_what_is_used_stays() {
    let fixture = Fixture::new("crash");
    let new = fixture.new_file("is being written");
    fs::write(fixture.folder.join(".taipan-publish/new/left"), "x").unwrap();
    let guard = fixture.store.guard().unwrap();
    guard.discard(&below("d")).unwrap();
    drop(guard);
    assert_eq!((fixture.own(NEW).len(), fixture.own(TRASH).len()), (2, 1));
    removal::clean(&fixture.store).unwrap();
    assert_eq!((fixture.own(NEW).len(), fixture.own(TRASH).len()), (1, 0));
    let guard = fixture.store.guard().unwrap();
    new.commit(&guard, &Terms::default(), &below("b")).unwrap();
    assert_eq!(fixture.content("b").as_deref(), Some("is being written"));
}

#[test]
fn what_is_being_written_stays_while_another_process_cleans_up() {
    let fixture = Fixture::new("cleaning");
    let (store, is_done) = (&fixture.store, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                removal::clean(store).unwrap();
            }
        });
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            for number in 0..1000 {
                let copy = PropertyCopy::begin(store.clone(), below("d"), store.clone(), &[]);
                let new = NewFile::create(store).and_then(|mut new| {
                    new.write(store, b"new")?;
                    new.commit(&store.guard()?, &Terms::default(), &below("a")).map(drop)
                });
                assert_eq!((copy.err(), new), (None, Ok(())), "{number}");
            }
        }));
        is_done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

#[test]
fn folders_that_are_missing_are_made_and_no_others() {
    let fixture = Fixture::new("missing");
    let make = |path: &str| {
        let (guard, mut made) = (fixture.store.guard().unwrap(), 0);
        guard.make_folders(&Terms::default(), &below(path), |count| {
            made = count;
            Ok(())
        })?;
        Ok(made)
    };
    let deep = ["x/"; 400].concat() + "file";
    for (path, expected) in [
        ("file", Ok(0)),
        ("d/file", Ok(0)),
        ("d/e/file", Ok(0)),
        ("d/new/file", Ok(1)),
        ("d/e/f1/f2/f3/file", Ok(3)),
        ("d/e/f1/f2/f3/file", Ok(0)),
        ("n1/n2/n3/n4/file", Ok(4)),
        (&*deep, Ok(400)),
        (&*deep, Ok(0)),
        ("a/b/file", Err(Failure::Missing)),
    ] {
        assert_eq!(make(path), expected, "{}", &path[..path.len().min(40)]);
    }
    assert!(fixture.folder.join("n1/n2/n3/n4").is_dir());
}

#[test]
fn folders_with_names_that_are_not_utf8_are_removed_and_not_copied() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = Fixture::new("bytes");
    let odd = fixture.folder.join("d").join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::create_dir_all(odd.join("inner")).unwrap();
    assert_eq!(tree::snapshot(&fixture.store, &below("d")), Err(Failure::Denied));
    let whole = tree::snapshot(&fixture.store, &below("d/e")).unwrap();
    assert_eq!(whole.iter().map(|(path, _)| &**path).collect::<Vec<_>>(), ["d/e", "d/e/f"]);
    fs::write(fixture.folder.join("d/e/f"), "longer").unwrap();
    assert_ne!(tree::snapshot(&fixture.store, &below("d/e")).unwrap(), whole);
    let guard = fixture.store.guard().unwrap();
    guard.discard(&below("d")).unwrap();
    removal::clean(&fixture.store).unwrap();
    assert!(fixture.own(TRASH).is_empty());
}

#[test]
fn scans_find_everything_and_follow_no_link() {
    let fixture = Fixture::new("scan");
    std::os::unix::fs::symlink("/etc", fixture.folder.join("d/out")).unwrap();
    let mut scan = Scan::begin(&fixture.store, &below("d"), Reach::Tree, Symlinks::Never).unwrap();
    let mut found = Vec::new();
    loop {
        let members = scan.step().unwrap();
        if members.is_empty() {
            break;
        }
        found.extend(members.into_iter().map(|member| (member.path.as_str().to_owned(), member.kind)));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [("d/e", Kind::Folder), ("d/e/f", Kind::File), ("d/out", Kind::Other)];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
    assert_eq!(fixture.store.find(&below("d/out")).unwrap(), Some(Found::Other));
    assert_eq!(fixture.store.find(&below("d/out/passwd")).unwrap_err(), Failure::Denied);
    assert_eq!(
        tree::count(&fixture.store).unwrap(),
        5 * usage::cost(0),
        "of two files, two folders and a link"
    );
}

#[test]
fn a_lock_on_a_folder_is_for_names_in_it() {
    let fixture = Fixture::new("names");
    let guard = fixture.store.guard().unwrap();
    let check = |path: &str, touch| guard.check(&Terms::default(), &below(path), touch);
    assert!(matches!(check("a", Touch::Content), Ok(Some(Found::File(_)))));
    assert_eq!(check("none", Touch::Name), Ok(None));
    assert!(matches!(check("d", Touch::Tree), Ok(Some(Found::Folder(_)))));
}

#[test]
fn what_is_written_has_its_name_in_the_folder_that_is_cleaned() {
    let fixture = Fixture::new("own");
    let guard = fixture.store.guard().unwrap();
    let mut locks = guard.locks(clock::wall()).unwrap();
    locks.add(Lock {
        token: "urn:1".into(),
        path: "a".into(),
        extent: Extent::Resource,
        scope: Scope::Exclusive,
        owner: String::new(),
        user: String::new(),
        expires: clock::wall() + 60,
    });
    guard.write_locks(&locks).unwrap();
    let state = fixture.store.state().unwrap();
    let mut names = tree::names(&state).unwrap();
    names.sort();
    assert_eq!(names, ["lock", "locks", "new"]);
    assert!(fixture.own(NEW).is_empty());
}

#[test]
fn large_trees_are_removed_in_steps() {
    let fixture = Fixture::new("steps");
    for folder in 0..4 {
        let folder = fixture.folder.join(format!("d/{folder}/inner"));
        fs::create_dir_all(&folder).unwrap();
        (0..700).for_each(|file| fs::write(folder.join(file.to_string()), "x").unwrap());
    }
    let guard = fixture.store.guard().unwrap();
    guard.discard(&below("d")).unwrap();
    drop(guard);
    let mut emptying = removal::Emptying::begin(&fixture.store).unwrap().expect("none runs");
    assert_eq!(emptying.step(), Progress::More);
    let guard = fixture.store.guard().unwrap();
    guard.discard(&below("a")).unwrap();
    drop(guard);
    assert!(removal::Emptying::begin(&fixture.store).unwrap().is_none(), "the first one goes on with it");
    let steps = std::iter::repeat_with(|| emptying.step()).take_while(|step| *step == Progress::More).count();
    assert!((2..20).contains(&steps), "{steps}");
    assert!(fixture.own(TRASH).is_empty());
    assert!(removal::Emptying::begin(&fixture.store).unwrap().is_some(), "it has ended");
}

#[test]
fn what_lies_too_deep_is_left_out_of_the_count() {
    let fixture = Fixture::new("deep");
    let mut folder = rustix::fs::open(&fixture.folder, OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..20 {
        let name = "n".repeat(250);
        rustix::fs::mkdirat(&folder, &*name, Mode::RWXU).unwrap();
        folder = rustix::fs::openat(&folder, &*name, OFlags::PATH, Mode::empty()).unwrap();
    }
    assert!(tree::count(&fixture.store).unwrap() >= 16 * usage::cost(0));
    let guard = fixture.store.guard().unwrap();
    guard.discard(&below(&"n".repeat(250))).unwrap();
    drop(guard);
    removal::clean(&fixture.store).unwrap();
    assert!(fixture.own(TRASH).is_empty(), "it can be removed");
}

#[test]
fn properties_are_copied_before_they_have_a_place() {
    let fixture = Fixture::new("properties");
    let body = "<propertyupdate xmlns='DAV:'><set><prop><x xmlns='u'>1</x></prop></set></propertyupdate>";
    let changes = dav::request::parse_changes(body.as_bytes()).unwrap();
    let guard = fixture.store.guard().unwrap();
    for path in ["d", "d/e/f"] {
        guard.change_properties(&below(path), &changes).unwrap();
    }
    let copy = || {
        let store = fixture.store.clone();
        let mut scan = Scan::begin(&store, &below("d"), Reach::Tree, Symlinks::Never).unwrap();
        let members = scan.step().unwrap();
        let mut copy = PropertyCopy::begin(store.clone(), below("d"), store, &members).unwrap();
        while copy.step().unwrap() == Progress::More {}
        copy
    };
    let has = |path: &str| !fixture.store.properties(&below(path)).unwrap().is_empty();
    drop(copy());
    assert!(fixture.own(NEW).is_empty() && !has("g"));
    let mut copy = copy();
    copy.prepare(&guard, &below("x/g")).unwrap();
    assert!(!has("x/g"));
    copy.commit(&guard, &below("x/g")).unwrap();
    assert!(has("x/g") && has("x/g/e/f") && has("d") && has("d/e/f") && !has("x/g/e"));
}

#[test]
fn a_copy_is_whole_or_fails_if_its_folder_moves() {
    type Act<'a> = &'a dyn Fn(&Path);
    let rename = |root: &Path, from: &str, to: &str| fs::rename(root.join(from), root.join(to)).unwrap();
    let acts: [(&str, Act, Result<usize, Failure>); 6] = [
        ("nothing", &|_| {}, Ok(201)),
        ("a file is removed", &|root| fs::remove_file(root.join("d/e/199")).unwrap(), Ok(200)),
        ("moved", &|root| rename(root, "d", "moved"), Err(Failure::Busy)),
        ("removed", &|root| fs::remove_dir_all(root.join("d")).unwrap(), Err(Failure::Busy)),
        ("a folder in it is moved", &|root| rename(root, "d/e", "e"), Err(Failure::Busy)),
        (
            "replaced",
            &|root| {
                rename(root, "d", "moved");
                fs::create_dir_all(root.join("d/e")).unwrap();
            },
            Err(Failure::Busy),
        ),
    ];
    for (what, act, expected) in acts {
        let fixture = Fixture::new("copied");
        (0..200).for_each(|file| fs::write(fixture.folder.join(format!("d/e/{file}")), "x").unwrap());
        let store = fixture.store.clone();
        let mut scan = Scan::begin(&store, &below("d"), Reach::Tree, Symlinks::Never).unwrap();
        let members =
            std::iter::repeat_with(|| scan.step().unwrap()).take_while(|members| !members.is_empty());
        let members = members.flatten().collect();
        let reservation = usage::Reservation::new(&store.root.path, None);
        let folder = CopiedFolder { store: store.clone(), path: below("d"), base: scan.into_base() };
        let mut copy = FolderCopy::begin(folder, store, members, reservation).unwrap();
        assert_eq!(copy.step(), Ok(Progress::More), "{what}");
        act(&fixture.folder);
        let copied = loop {
            match copy.step() {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => break copy.commit(&below("copy"), None),
                Err(failure) => break Err(failure),
            }
        };
        let count = || fs::read_dir(fixture.folder.join("copy/e")).unwrap().count();
        assert_eq!(copied.map(|()| count()), expected, "{what}");
    }
}

#[test]
fn paths_have_a_length_that_the_system_takes() {
    let long = |count: usize| below(&vec!["n".repeat(249); count].join("/"));
    assert_eq!(check_length(&long(16)), Ok(()));
    assert_eq!(check_length(&long(17)), Err(Failure::TooLong));
    assert_eq!(check_length(&below(&"n".repeat(256))), Err(Failure::TooLong));
}
