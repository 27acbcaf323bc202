//! Every rule for links, with `openat2` and with the walk: they must agree.

use std::fs as disk;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// A root, and a file outside of it. Removed when dropped.
struct Fixture(PathBuf);

impl Fixture {
    fn new(name: &str) -> Fixture {
        let base = std::env::temp_dir().join(format!("taipan-beneath-{name}-{}", std::process::id()));
        _ = disk::remove_dir_all(&base);
        disk::create_dir_all(base.join("root/folder/deep")).unwrap();
        disk::write(base.join("secret"), "secret").unwrap();
        let root = base.join("root");
        disk::write(root.join("file"), "file").unwrap();
        disk::write(root.join("folder/deep/file"), "deep").unwrap();
        let absolute = |to: &str| root.join(to);
        let links: [(PathBuf, &str); 12] = [
            ("file".into(), "near"),
            ("folder".into(), "to-folder"),
            ("folder/../file".into(), "dotted"),
            ("near".into(), "chain"),
            ("loop-b".into(), "loop-a"),
            ("loop-a".into(), "loop-b"),
            ("../secret".into(), "out"),
            ("..".into(), "up"),
            (base.join("secret"), "out-absolute"),
            (absolute("file"), "absolute"),
            (absolute("folder"), "absolute-folder"),
            ("nowhere".into(), "dangling"),
        ];
        for (to, name) in links {
            symlink(to, root.join(name)).unwrap();
        }
        Fixture(base)
    }

    fn root(&self) -> Root {
        Root::open(&self.0.join("root")).unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        _ = disk::remove_dir_all(&self.0);
    }
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Outcome {
    Content(&'static str),
    Missing,
    Denied,
}
use Outcome::{Content, Denied, Missing};

fn outcome(opened: Result<OwnedFd, OpenError>) -> Outcome {
    match opened {
        Ok(fd) => {
            let mut buffer = [0; 16];
            match rustix::io::read(&fd, &mut buffer) {
                Ok(n) => match &buffer[..n] {
                    b"file" => Content("file"),
                    b"deep" => Content("deep"),
                    b"secret" => Content("secret"),
                    other => panic!("unexpected content {other:?}"),
                },
                Err(errno) => panic!("{errno}"),
            }
        }
        Err(OpenError::Missing) => Missing,
        Err(OpenError::Denied) => Denied,
        Err(other) => panic!("{other:?}"),
    }
}

/// A path, and its outcomes with `beneath`, `never`, `follow` and `owner`. All files have the same owner.
const TABLE: &[(&str, [Outcome; 4])] = &[
    ("/file", [Content("file"); 4]),
    ("/folder/deep/file", [Content("deep"); 4]),
    ("/missing", [Missing; 4]),
    ("/file/below", [Missing; 4]),
    ("/near", [Content("file"), Denied, Content("file"), Content("file")]),
    ("/to-folder/deep/file", [Content("deep"), Denied, Content("deep"), Content("deep")]),
    ("/dotted", [Content("file"), Denied, Content("file"), Content("file")]),
    ("/chain", [Content("file"), Denied, Content("file"), Content("file")]),
    ("/loop-a", [Denied; 4]),
    ("/out", [Denied, Denied, Content("secret"), Content("secret")]),
    ("/up/secret", [Denied, Denied, Content("secret"), Content("secret")]),
    ("/out-absolute", [Denied, Denied, Content("secret"), Content("secret")]),
    ("/absolute", [Content("file"), Denied, Content("file"), Content("file")]),
    ("/absolute-folder/deep/file", [Content("deep"), Denied, Content("deep"), Content("deep")]),
    ("/dangling", [Missing, Denied, Missing, Missing]),
];

const MODES: [Symlinks; 4] = [Symlinks::Beneath, Symlinks::Never, Symlinks::Follow, Symlinks::Owner];

#[test]
fn applies_every_rule_for_links_with_openat2_and_with_the_walk() {
    let fixture = Fixture::new("rules");
    let root = fixture.root();
    for (path, expected) in TABLE {
        let path = SafePath::parse(path).unwrap();
        for (mode, expected) in MODES.into_iter().zip(expected) {
            let by_kernel = open(&root, &path, mode, OFlags::RDONLY, Wait::Allowed);
            assert_eq!(outcome(by_kernel), *expected, "{path} {mode:?}");
            let by_walk = open_by_walk(&root, &path.to_path(), mode, OFlags::RDONLY | OFlags::CLOEXEC);
            assert_eq!(outcome(by_walk), *expected, "{path} {mode:?}, with the walk");
        }
    }
}

#[test]
fn a_guarded_link_leads_to_no_file_that_another_folder_protects() {
    let fixture = Fixture::new("guarded");
    let root = fixture.root();
    let home = fixture.0.join("root/yard");
    std::fs::create_dir_all(home.join("club/deep")).unwrap();
    for name in ["club/file", "club/.htpasswd", "club/deep/file"] {
        std::fs::write(home.join(name), "content").unwrap();
    }
    for (to, name) in [
        ("club/file", "to-file"),
        ("to-file", "to-link"),
        ("club", "to-folder"),
        ("club/deep/file", "to-deep"),
        ("file", "club/own"),
        ("../club/../club/own", "club/around"),
        ("../file", "club/deep/up"),
    ] {
        symlink(to, home.join(name)).unwrap();
    }
    for (path, expected) in [
        ("/club/file", true),
        ("/club/own", true),
        ("/club/around", true),
        ("/to-folder/", true),
        ("/to-folder/file", true),
        ("/to-folder/own", true),
        ("/to-deep", true),
        ("/to-file", false),
        ("/to-link", false),
        ("/club/deep/up", false),
        ("/to-folder/deep/up", false),
    ] {
        let path = SafePath::parse(&format!("/yard{path}")).unwrap().into_owned();
        for flags in [OFlags::RDONLY, OFlags::PATH] {
            let opened = open(&root, &path, Symlinks::Guarded, flags, Wait::Allowed);
            assert_eq!(opened.is_ok(), expected, "{path}: {opened:?}");
            assert!(open(&root, &path, Symlinks::Beneath, flags, Wait::Allowed).is_ok(), "{path}");
        }
    }
}

/// Each path, and whether it is opened where the password file of a folder counts for the folders below, too.
#[test]
fn a_guarded_link_leads_into_no_tree_that_another_folder_protects() {
    let fixture = Fixture::new("guarded-tree");
    let root = fixture.root();
    let home = fixture.0.join("root/yard");
    std::fs::create_dir_all(home.join("club/deep/er")).unwrap();
    std::fs::create_dir_all(home.join("club/own")).unwrap();
    for name in
        ["club/.htpasswd", "club/deep/file", "club/deep/er/file", "club/own/.htpasswd", "club/own/file"]
    {
        std::fs::write(home.join(name), "content").unwrap();
    }
    for (to, name) in [
        ("club", "to-club"),
        ("club/deep", "to-deep"),
        ("to-deep/er/..", "around"),
        ("club/own", "to-own"),
        ("club/deep/file", "to-file"),
        ("club/own/file", "to-own-file"),
        ("deep/file", "club/inner"),
        ("../../yard/club/deep", "club/inner-deep"),
        ("../own/file", "club/deep/to-own"),
    ] {
        symlink(to, home.join(name)).unwrap();
    }
    for (path, expected) in [
        ("/club/deep/file", true),
        ("/club/inner", true),
        ("/club/inner-deep", true),
        ("/club/inner-deep/er/file", true),
        ("/to-club/deep/er/file", true),
        ("/to-club/inner", true),
        ("/to-own", true),
        ("/to-own/file", true),
        ("/to-deep", false),
        ("/to-deep/er", false),
        ("/to-deep/er/file", false),
        ("/around", false),
        ("/around/file", false),
        ("/to-file", false),
        ("/to-own-file", false),
        ("/club/deep/to-own", false),
    ] {
        let path = SafePath::parse(&format!("/yard{path}")).unwrap().into_owned();
        for flags in [OFlags::RDONLY, OFlags::PATH] {
            let opened = open(&root, &path, Symlinks::GuardedTree, flags, Wait::Allowed);
            assert_eq!(opened.is_ok(), expected, "{path}: {opened:?}");
            let by_walk = open_by_walk(&root, &path.to_path(), Symlinks::GuardedTree, flags);
            assert_eq!(by_walk.is_ok(), expected, "{path}, with the walk: {by_walk:?}");
            assert!(open(&root, &path, Symlinks::Beneath, flags, Wait::Allowed).is_ok(), "{path}");
        }
    }
}

#[test]
fn opens_the_root_as_a_folder() {
    let fixture = Fixture::new("root");
    let root = fixture.root();
    let path = SafePath::parse("/").unwrap();
    for mode in MODES {
        assert!(open(&root, &path, mode, OFlags::RDONLY | OFlags::DIRECTORY, Wait::Allowed).is_ok());
        assert!(open_by_walk(&root, Path::new("."), mode, OFlags::RDONLY | OFlags::DIRECTORY).is_ok());
    }
}

/// Targets that belong to root, links to them, and paths through the links.
const FOREIGN: [(&str, &str, &str); 8] = [
    ("/etc/passwd", "foreign", "/foreign"),
    ("foreign", "foreign-chain", "/foreign-chain"),
    ("/etc", "foreign-folder", "/foreign-folder"),
    ("foreign-folder/passwd", "foreign-through", "/foreign-through"),
    ("/etc/../etc/passwd", "foreign-dotted", "/foreign-dotted"),
    ("/", "foreign-top", "/foreign-top/etc/passwd"),
    ("/usr/..", "foreign-up", "/foreign-up/etc/passwd"),
    ("foreign-top/.", "foreign-here", "/foreign-here/etc/passwd"),
];

#[test]
fn denies_a_link_to_a_file_or_folder_of_another_owner() {
    let fixture = Fixture::new("owner");
    let root = fixture.root();
    for (to, name, _) in FOREIGN {
        let link = fixture.0.join("root").join(name);
        symlink(to, &link).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(link, Some(12345), None).unwrap();
        }
    }
    for (_, _, path) in FOREIGN {
        let path = SafePath::parse(path).unwrap();
        for flags in [OFlags::PATH, OFlags::RDONLY] {
            let opened = open(&root, &path, Symlinks::Owner, flags, Wait::Allowed);
            assert!(matches!(opened, Err(OpenError::Denied)), "{path}: {opened:?}");
            let followed = open(&root, &path, Symlinks::Follow, flags, Wait::Allowed);
            assert!(followed.is_ok(), "{path}: {followed:?}");
        }
    }
}

#[test]
fn denies_a_file_of_another_owner_that_replaces_the_inspected_file() {
    let fixture = Fixture::new("replaced");
    let root = fixture.root();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(root.path.join("file"), Some(12345), None).unwrap();
    }
    let mut walk = PathWalk::new(&root, Path::new("file"), Symlinks::Owner).unwrap();
    let found = calls::openat(walk.folder(), "file", OFlags::PATH | OFlags::NOFOLLOW).unwrap();
    let mine = owner(&found).unwrap();
    walk.remaining.clear();
    walk.pending.push(PendingLink { owner: mine, remaining: 0 });
    let found_again = calls::duplicate(&found).unwrap();
    assert!(walk.open_last(Path::new("file"), found_again, OFlags::RDONLY).is_ok());
    // As if a file of root had replaced `file`.
    walk.start = calls::open("/etc", FOLDER).unwrap();
    let opened = walk.open_last(Path::new("passwd"), found, OFlags::RDONLY);
    assert!(matches!(opened, Err(OpenError::Denied)), "{opened:?}");
}

#[test]
fn denies_a_walk_through_too_many_folders() {
    let fixture = Fixture::new("deep");
    let root = fixture.root();
    let mut deep = root.path.to_path_buf();
    for _ in 0..=MAX_FOLDERS {
        deep.push("d");
    }
    disk::create_dir_all(&deep).unwrap();
    symlink("d/".repeat(MAX_FOLDERS - 1), root.path.join("to-last")).unwrap();
    symlink("d/".repeat(MAX_FOLDERS + 1), root.path.join("too-far")).unwrap();
    for (path, is_open) in [("/to-last/", true), ("/too-far/d", false)] {
        let path = SafePath::parse(path).unwrap();
        let opened = open(&root, &path, Symlinks::Owner, OFlags::PATH, Wait::Allowed);
        assert_eq!(opened.is_ok(), is_open, "{path}: {opened:?}");
    }
}
