//! A FUSE file system in the test. It answers from memory, and holds its calls for as long as the test wants.
//! It knows nothing of servers.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use e2e::{Random, gzip, tool};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, Request, Session,
};
use rustix::mount::{UnmountFlags, unmount};

use crate::{NUMBERS, SECOND};

/// Larger than the memory cache accepts, and than one read.
pub const LARGE: usize = 512 * 1024;
const LONG: usize = 4 << 20;
/// A file without stored content: each page has its number.
pub const HUGE: u64 = 1 << 30;
const PAGE: u64 = 4096;

/// Calls from the kernel to a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Lookup,
    /// A lookup of a precompressed file.
    Precompressed,
    /// A lookup of an entry of a listing.
    Listed,
    Getattr,
    Open,
    Read,
    /// A descriptor is closed, and the call is held as well.
    Flush,
    Opendir,
    Readdir,
}

/// How long a call is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slowness {
    /// Until the test releases it.
    Hanging,
    Delayed(Duration),
}

/// Whether the kernel caches names and attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Forgotten,
    Kept,
}

/// Whether the kernel caches content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Direct,
    Kept,
}

/// The test's switch to make the file system slow.
#[derive(Default)]
struct Switch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    slow: Option<(Call, Slowness)>,
    /// Calls that are held now.
    waiting: usize,
    /// Whether it does not even read its calls.
    is_unresponsive: bool,
    /// Lookups that come later do not find it.
    removed: Option<String>,
}

impl State {
    /// The remaining time for a call that has been held since then.
    fn timeout(&self, call: Call, since: Instant) -> Duration {
        match self.slow {
            Some((slow, Slowness::Hanging)) if slow == call => Duration::MAX,
            Some((slow, Slowness::Delayed(delay))) if slow == call => delay.saturating_sub(since.elapsed()),
            _ => Duration::ZERO,
        }
    }
}

impl Switch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with it")
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn is_free(&self, call: Call) -> bool {
        self.state().slow.is_none_or(|(slow, _)| slow != call)
    }

    /// Holds a call for its time.
    fn pass(&self, call: Call) {
        let since = Instant::now();
        self.set(|state| state.waiting += 1);
        let mut state = self.state();
        loop {
            let timeout = state.timeout(call, since);
            if timeout.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, timeout).expect("no thread panics with it").0;
        }
        state.waiting -= 1;
    }

    fn listen(&self) {
        let unresponsive = self.changed.wait_while(self.state(), |state| state.is_unresponsive);
        drop(unresponsive.expect("no thread panics with it"));
    }
}

#[derive(Clone)]
enum Content {
    Bytes(Arc<Vec<u8>>),
    Huge,
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Huge => HUGE,
        }
    }

    fn read(&self, from: u64, size: u32) -> Vec<u8> {
        let from = from.min(self.size());
        let to = self.size().min(from + u64::from(size));
        match self {
            Content::Bytes(bytes) => bytes[from as usize..to as usize].to_vec(),
            Content::Huge => huge(from, to),
        }
    }
}

/// These bytes of the huge file: each page begins with its number, and the rest is zero.
pub fn huge(from: u64, to: u64) -> Vec<u8> {
    let mut bytes = vec![0; (to - from) as usize];
    for page in from / PAGE..to.div_ceil(PAGE) {
        for (at, byte) in (page * PAGE..).zip(page.to_le_bytes()).filter(|(at, _)| (from..to).contains(at)) {
            bytes[(at - from) as usize] = byte;
        }
    }
    bytes
}

/// A file or a folder; its index in the tree is its number.
#[derive(Clone)]
struct Node {
    number: u64,
    parent: u64,
    name: String,
    /// `None`: a folder.
    content: Option<Content>,
}

/// All entries, by parent and name.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    names: HashMap<(u64, String), usize>,
}

impl Tree {
    fn folder(&mut self, parent: u64, name: &str) -> u64 {
        self.add(parent, name, None)
    }

    fn file(&mut self, parent: u64, name: &str, content: &Arc<Vec<u8>>) {
        self.add(parent, name, Some(Content::Bytes(content.clone())));
    }

    fn add(&mut self, parent: u64, name: &str, content: Option<Content>) -> u64 {
        // The root has number 1.
        let number = self.nodes.len() as u64 + 1;
        self.names.insert((parent, name.to_owned()), self.nodes.len());
        self.nodes.push(Node { number, parent, name: name.to_owned(), content });
        number
    }

    fn node(&self, number: INodeNo) -> Option<&Node> {
        self.nodes.get(usize::try_from(u64::from(number)).ok()?.checked_sub(1)?)
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Option<&Node> {
        let at = self.names.get(&(parent.into(), name.to_str()?.to_owned()))?;
        self.nodes.get(*at)
    }
}

impl Node {
    fn kind(&self) -> FileType {
        if self.content.is_some() { FileType::RegularFile } else { FileType::Directory }
    }

    fn attributes(&self) -> FileAttr {
        // As in an image that was made to be reproducible.
        let seconds = if self.name.starts_with("undated-") { 0 } else { 1_000_000_000 };
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let size = self.content.as_ref().map_or(0, Content::size);
        FileAttr {
            ino: INodeNo(self.number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: self.kind(),
            perm: if self.content.is_some() { 0o444 } else { 0o555 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: PAGE as u32,
            flags: 0,
        }
    }
}

/// The file system as the kernel calls it.
struct Slow {
    tree: Tree,
    names: Names,
    pages: Pages,
    switch: Arc<Switch>,
}

impl Slow {
    /// Replies when this call may be answered, without holding others.
    fn when_free(&self, call: Call, answer: impl FnOnce() + Send + 'static) {
        if self.switch.is_free(call) {
            answer();
        } else {
            let switch = self.switch.clone();
            thread::spawn(move || {
                switch.pass(call);
                answer();
            });
        }
        self.switch.listen();
    }

    fn time_to_live(&self) -> Duration {
        match self.names {
            Names::Forgotten => Duration::ZERO,
            Names::Kept => SECOND * 3600,
        }
    }
}

impl Filesystem for Slow {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Otherwise the kernel itself would make one lookup wait for another.
        _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name_text = name.to_string_lossy();
        let call = match () {
            () if name_text.ends_with(".gz") => Call::Precompressed,
            () if name_text == IN_IT => Call::Listed,
            () => Call::Lookup,
        };
        let is_removed = self.switch.state().removed.as_ref().is_some_and(|removed| *removed == name_text);
        let found = self.tree.find(parent, name).filter(|_| !is_removed).map(Node::attributes);
        let (names, time_to_live) = (self.names, self.time_to_live());
        self.when_free(call, move || match (found, names) {
            (Some(found), _) => reply.entry(&time_to_live, &found, Generation(0)),
            (None, Names::Forgotten) => reply.error(Errno::ENOENT),
            // Number 0: the kernel caches that the name does not exist.
            (None, Names::Kept) => {
                let nothing = Node { number: 0, parent: 1, name: String::new(), content: None };
                reply.entry(&time_to_live, &nothing.attributes(), Generation(0));
            }
        });
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.tree.node(number).map(Node::attributes);
        let time_to_live = self.time_to_live();
        self.when_free(Call::Getattr, move || match found {
            Some(found) => reply.attr(&time_to_live, &found),
            None => reply.error(Errno::ENOENT),
        });
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = match self.pages {
            Pages::Direct => FopenFlags::FOPEN_DIRECT_IO,
            Pages::Kept => FopenFlags::FOPEN_KEEP_CACHE,
        };
        self.when_free(Call::Open, move || reply.opened(FileHandle(0), flags));
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        from: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let content = self.tree.node(number).and_then(|node| node.content.clone());
        self.when_free(Call::Read, move || {
            reply.data(&content.map(|content| content.read(from, size)).unwrap_or_default());
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.when_free(Call::Flush, move || reply.ok());
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.when_free(Call::Opendir, move || reply.opened(FileHandle(0), FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let in_it = |node: &&Node| node.parent == u64::from(number);
        for (at, node) in self.tree.nodes.iter().filter(in_it).enumerate().skip(from as usize) {
            if reply.add(INodeNo(node.number), at as u64 + 1, node.kind(), &node.name) {
                break;
            }
        }
        self.when_free(Call::Readdir, move || reply.ok());
    }
}

/// A file in every folder.
pub const IN_IT: &str = "in it.txt";

/// The contents of the files, the same in every file system.
pub struct Contents {
    pub small: Arc<Vec<u8>>,
    pub large: Arc<Vec<u8>>,
    pub long: Arc<Vec<u8>>,
    /// `large`, as gzip.
    pub packed: Arc<Vec<u8>>,
}

pub fn contents() -> &'static Contents {
    static CONTENTS: OnceLock<Contents> = OnceLock::new();
    CONTENTS.get_or_init(|| {
        let [small, large, long] =
            [(2, 1000), (3, LARGE), (4, LONG)].map(|(seed, size)| Arc::new(Random::new(seed).bytes(size)));
        Contents { packed: Arc::new(gzip(large.as_slice())), small, large, long }
    })
}

/// The mounted file system. When dropped, it releases all calls and is unmounted.
pub struct Mounted {
    at: PathBuf,
    switch: Arc<Switch>,
    _session: BackgroundSession,
}

impl Mounted {
    pub fn new(at: &Path, names: Names, pages: Pages) -> Mounted {
        fs::create_dir(at).expect("there is nothing of that name");
        let switch = Arc::<Switch>::default();
        let slow = Slow { tree: tree(), names, pages, switch: switch.clone() };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("slow".to_owned())];
        let session = Session::new(slow, at, &config).and_then(Session::spawn).unwrap_or_else(|e| {
            panic!("cannot mount a file system: {e}; this needs /dev/fuse, and root or Debian's fuse3 (fusermount3)")
        });
        let mounted = Mounted { at: at.to_owned(), switch, _session: session };
        if names == Names::Kept {
            mounted.make_known();
        }
        mounted
    }

    /// Makes the kernel look up every name that the tests will use, also missing ones.
    fn make_known(&self) {
        for n in 0..NUMBERS {
            for name in ["small-{n}.txt", "large-{n}.bin", "packed-{n}.bin", "folder-{n}/index.html"] {
                let name = name.replace("{n}", &n.to_string());
                for extension in ["", ".gz", ".br", ".zst"] {
                    // A missing file is a valid result.
                    _ = fs::metadata(self.at.join(format!("{name}{extension}")));
                }
            }
        }
    }

    pub fn slow_down(&self, call: Call, slowness: Slowness) {
        self.switch.set(|state| state.slow = Some((call, slowness)));
    }

    pub fn release(&self) {
        self.switch.set(|state| (state.slow, state.is_unresponsive) = (None, false));
    }

    /// A file that is being opened has been found.
    pub fn remove(&self, name: &str) {
        self.switch.set(|state| state.removed = Some(name.to_owned()));
    }

    /// After the next reply it reads no calls: processes that wait can then be killed, like those of a dead
    /// network file system.
    pub fn stop_reading(&self) {
        self.switch.set(|state| state.is_unresponsive = true);
        assert!(fs::symlink_metadata(self.at.join("nothing there")).is_err());
    }

    /// Waits until a call is held. `false`: none is in time.
    pub fn a_call_waits(&self) -> bool {
        let no_call = |state: &mut State| state.waiting == 0;
        let waited = self.switch.changed.wait_timeout_while(self.switch.state(), SECOND * 60, no_call);
        !waited.expect("no thread panics with it").1.timed_out()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.release();
        if unmount(&self.at, UnmountFlags::DETACH).is_err() {
            // Another program has mounted it and unmounts it.
            _ = tool("fusermount3").args(["-u", "-z", "--"]).arg(&self.at).status();
        }
    }
}

fn tree() -> Tree {
    let Contents { small, large, long, packed } = contents();
    let other = Arc::new(small.iter().rev().copied().collect());
    let mut tree = Tree::default();
    let root = tree.folder(0, "");
    tree.file(root, "long.bin", long);
    tree.add(root, "huge.bin", Some(Content::Huge));
    for (name, content) in [("a.js", small), ("b.js", small), ("c.js", &other), ("d.bin", large)] {
        tree.file(root, &format!("undated-{name}"), content);
    }
    let page = Arc::new(b"<!--#include file=\"undated-a.js\" -->".to_vec());
    tree.file(root, "undated-page.shtml", &page);
    for n in 0..NUMBERS {
        tree.file(root, &format!("small-{n}.txt"), small);
        tree.file(root, &format!("small-{n}.txt.gz"), packed);
        tree.file(root, &format!("large-{n}.bin"), large);
        tree.file(root, &format!("packed-{n}.bin.gz"), packed);
        let folder = tree.folder(root, &format!("folder-{n}"));
        tree.file(folder, IN_IT, small);
    }
    tree
}
