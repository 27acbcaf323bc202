//! Every rule for links, by both ways: `openat2` and the walk must agree.

use std::fs as disk;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// A root with a secret beside it, removed when dropped.
struct Ground(PathBuf);

impl Ground {
    fn new(name: &str) -> Ground {
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
        Ground(base)
    }

    fn root(&self) -> Root {
        Root::open(&self.0.join("root")).unwrap()
    }
}

impl Drop for Ground {
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

/// Path, and what the modes `beneath`, `never`, `follow` and `owner` make of it. All owners are the same.
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
fn every_rule_by_both_ways() {
    let ground = Ground::new("rules");
    let root = ground.root();
    for (path, expected) in TABLE {
        let path = SafePath::parse(path).unwrap();
        for (mode, expected) in MODES.into_iter().zip(expected) {
            let by_kernel = open(&root, &path, mode, OFlags::RDONLY, Wait::Allowed);
            assert_eq!(outcome(by_kernel), *expected, "{path} {mode:?}");
            let by_walk = walk(&root, path.as_str(), mode, OFlags::RDONLY | OFlags::CLOEXEC, Wait::Allowed);
            assert_eq!(outcome(by_walk), *expected, "{path} {mode:?}, walked");
        }
    }
}

#[test]
fn the_root_itself_is_a_folder() {
    let ground = Ground::new("root");
    let root = ground.root();
    let path = SafePath::parse("/").unwrap();
    for mode in MODES {
        assert!(open(&root, &path, mode, OFlags::RDONLY | OFlags::DIRECTORY, Wait::Allowed).is_ok());
        assert!(walk(&root, ".", mode, OFlags::RDONLY | OFlags::DIRECTORY, Wait::Allowed).is_ok());
    }
}

#[test]
fn a_link_to_another_owners_file_is_denied() {
    if !rustix::process::geteuid().is_root() {
        // Only root can make a file of somebody else's; as any other user there is nothing to prove.
        return;
    }
    let ground = Ground::new("owner");
    let root = ground.root();
    std::os::unix::fs::chown(ground.0.join("secret"), Some(12345), None).unwrap();
    let path = SafePath::parse("/out").unwrap();
    let opened = open(&root, &path, Symlinks::Owner, OFlags::RDONLY, Wait::Allowed);
    assert_eq!(outcome(opened), Denied);
}
