//! A slow or dead file system hurts only those who ask for it. Proved on one of our own, through FUSE: it
//! answers from memory, and what it is asked waits there for as long as the test wants.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use e2e::{Broken, Client, PATIENCE, Random, Server, Signal, Site, tool};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, Request, Session,
};
use rustix::mount::{UnmountFlags, unmount};

const SECOND: Duration = Duration::from_secs(1);
/// Those who ask for something slow, each for something else.
const CLIENTS: usize = 120;
const FAST_REQUESTS: usize = 300;
/// Larger than what is kept in memory.
const LARGE: usize = 1 << 20;
const LONG: usize = 4 << 20;
const BROWSED: &str = "workers = 1\nlisting = true\ngunzip = true\n";

/// What the kernel asks a file system for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Lookup,
    /// A look-up of a compressed file, beside another one.
    Neighbour,
    Getattr,
    Open,
    Read,
    /// Of a descriptor that is closed, which waits as well.
    Flush,
    Opendir,
    Readdir,
}

/// Does the kernel keep names and attributes?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Forgotten,
    Kept,
}

/// Does the kernel keep content?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    Direct,
    Kept,
}

/// Where the slow file system is, as the server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A root of its own.
    Beside,
    /// Mounted on a folder of the fast root.
    Beneath,
}

/// What the test holds, to make the file system slow.
#[derive(Default)]
struct Switch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Those wait until they are released.
    stuck: Option<Call>,
    delay: Option<(Call, Duration)>,
    /// How many wait now.
    waiting: usize,
    /// It does not even take what it is asked.
    is_deaf: bool,
}

impl Switch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn is_free(&self, call: Call) -> bool {
        let state = self.state();
        state.stuck != Some(call) && state.delay.is_none_or(|(delayed, _)| delayed != call)
    }

    /// Waits for as long as this call has to.
    fn pass(&self, call: Call) {
        let mut state = self.state();
        state.waiting += 1;
        if let Some((delayed, delay)) = state.delay
            && delayed == call
        {
            drop(state);
            thread::sleep(delay);
            state = self.state();
        }
        while state.stuck == Some(call) {
            state = self.changed.wait(state).expect("nobody panics with it");
        }
        state.waiting -= 1;
    }

    fn listen(&self) {
        let deaf = self.changed.wait_while(self.state(), |state| state.is_deaf);
        drop(deaf.expect("nobody panics with it"));
    }
}

/// A file or a folder, numbered by its place in the tree.
#[derive(Clone)]
struct Node {
    number: u64,
    parent: u64,
    name: String,
    /// `None`: it is a folder.
    content: Option<Arc<Vec<u8>>>,
}

/// Everything in it, by parent and name.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    names: HashMap<(u64, String), usize>,
}

impl Tree {
    fn add(&mut self, parent: u64, name: &str, content: Option<&Arc<Vec<u8>>>) -> u64 {
        // The root is number 1.
        let number = self.nodes.len() as u64 + 1;
        self.names.insert((parent, name.to_owned()), self.nodes.len());
        self.nodes.push(Node { number, parent, name: name.to_owned(), content: content.cloned() });
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
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let size = self.content.as_ref().map_or(0, |content| content.len() as u64);
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
            blksize: 4096,
            flags: 0,
        }
    }
}

/// The file system as the kernel knows it.
struct Slow {
    tree: Tree,
    names: Names,
    pages: Pages,
    switch: Arc<Switch>,
}

impl Slow {
    /// Answers when this call may be answered; others are not held up by it.
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
        // Otherwise the kernel itself lets one look-up wait for another.
        _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let is_neighbour = name.to_string_lossy().ends_with(".gz");
        let call = if is_neighbour { Call::Neighbour } else { Call::Lookup };
        let found = self.tree.find(parent, name).map(Node::attributes);
        let (names, time_to_live) = (self.names, self.time_to_live());
        self.when_free(call, move || match (found, names) {
            (Some(found), _) => reply.entry(&time_to_live, &found, Generation(0)),
            (None, Names::Forgotten) => reply.error(Errno::ENOENT),
            // Number 0: that there is nothing is kept, too.
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
        let content = self.tree.node(number).and_then(|node| node.content.clone()).unwrap_or_default();
        self.when_free(Call::Read, move || {
            let from = (from as usize).min(content.len());
            let to = (from + size as usize).min(content.len());
            reply.data(&content[from..to]);
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

/// The file system, mounted. Whatever happens, it answers again and is taken away with the test.
struct Mounted {
    at: PathBuf,
    switch: Arc<Switch>,
    small: Arc<Vec<u8>>,
    large: Arc<Vec<u8>>,
    long: Arc<Vec<u8>>,
    _session: BackgroundSession,
}

impl Mounted {
    fn new(at: PathBuf, names: Names, pages: Pages) -> Mounted {
        let [small, large, long] =
            [(2, 1000), (3, LARGE), (4, LONG)].map(|(seed, size)| Arc::new(Random::new(seed).bytes(size)));
        let switch = Arc::<Switch>::default();
        let mut tree = Tree::default();
        let root = tree.add(0, "", None);
        tree.add(root, "long.bin", Some(&long));
        let packed = Arc::new(gzip(&at, &large));
        for n in 0..CLIENTS {
            tree.add(root, &format!("small-{n}.txt"), Some(&small));
            tree.add(root, &format!("small-{n}.txt.gz"), Some(&packed));
            tree.add(root, &format!("large-{n}.bin"), Some(&large));
            tree.add(root, &format!("packed-{n}.bin.gz"), Some(&packed));
            let folder = tree.add(root, &format!("folder-{n}"), None);
            tree.add(folder, "in it.txt", Some(&small));
        }
        let slow = Slow { tree, names, pages, switch: switch.clone() };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("slow".to_owned())];
        let session = Session::new(slow, &at, &config).and_then(Session::spawn).unwrap_or_else(|e| {
            panic!("cannot mount a file system: {e}; this needs /dev/fuse, and root or Debian's fuse3 (fusermount3)")
        });
        let mounted = Mounted { at, switch, small, large, long, _session: session };
        if names == Names::Kept {
            mounted.make_known();
        }
        mounted
    }

    /// Lets the kernel see every name that is going to be asked for, also those that are not there.
    fn make_known(&self) {
        for n in 0..CLIENTS {
            for name in ["small-{n}.txt", "large-{n}.bin", "packed-{n}.bin", "folder-{n}/index.html"] {
                let name = name.replace("{n}", &n.to_string());
                for extension in ["", ".gz", ".br", ".zst"] {
                    // Nothing there is an answer, too.
                    _ = fs::metadata(self.at.join(format!("{name}{extension}")));
                }
            }
        }
    }

    fn stick(&self, call: Call) {
        self.switch.set(|state| state.stuck = Some(call));
    }

    fn release(&self) {
        self.switch.set(|state| (state.stuck, state.delay, state.is_deaf) = (None, None, false));
    }

    /// From the next answer on it takes no question: those who wait can then be killed, as those of a
    /// dead server on the network can.
    fn become_deaf(&self) {
        self.switch.set(|state| state.is_deaf = true);
        assert!(fs::symlink_metadata(self.at.join("nothing there")).is_err());
    }

    fn wait_until_somebody_waits(&self) -> bool {
        becomes(SECOND * 5, || self.switch.state().waiting > 0)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.release();
        if unmount(&self.at, UnmountFlags::DETACH).is_err() {
            // It is not ours to unmount, but that program's.
            _ = tool("fusermount3").args(["-u", "-z", "--"]).arg(&self.at).status();
        }
    }
}

/// A server of a fast and of the slow file system, which is `/slow/`.
struct Rig {
    // Goes first: a server that waits for it does not end.
    disk: Mounted,
    server: Server,
    large: Vec<u8>,
}

impl Rig {
    fn new(place: Place, names: Names, pages: Pages, config: &str) -> Rig {
        let large = Random::new(1).bytes(LARGE);
        let mut site = Site::new().file("small.txt", "small").file("large.bin", &large).folder("folder/deep");
        for n in 0..FAST_REQUESTS {
            site = site.file(&format!("new-{n}.txt"), "new");
        }
        let at = match place {
            Place::Beside => site.home().join("slow"),
            Place::Beneath => site.root().join("slow"),
        };
        fs::create_dir(&at).expect("there is nothing of that name");
        let disk = Mounted::new(at.clone(), names, pages);
        let route = match place {
            Place::Beside => format!("[[route]]\npath = \"/slow/\"\nalias = \"{}\"\n", at.display()),
            Place::Beneath => String::new(),
        };
        let server = site.config(&format!("{BROWSED}{config}{route}")).start();
        // It says where it listens before its worker has opened its roots.
        assert_eq!(server.get("/small.txt").body, b"small");
        Rig { disk, server, large }
    }

    /// Clients that ask, each for something else, where `path` has `{n}`.
    fn ask(&self, path: &str, count: usize) -> Vec<Client> {
        let client = |n: usize| {
            let mut client = self.server.connect();
            client.send(get(&path.replace("{n}", &n.to_string())));
            client
        };
        (0..count).map(client).collect()
    }

    /// Asks for everything fast, in every way, one after the other. Says how long each took.
    fn ask_for_fast_files(&self) -> Result<Vec<Duration>, String> {
        let mut kept = self.server.connect();
        let mut all = Vec::new();
        for n in 0..FAST_REQUESTS {
            let (path, expected) = match n % 3 {
                0 => ("/small.txt".to_owned(), &b"small"[..]),
                1 => (format!("/new-{n}.txt"), &b"new"[..]),
                _ => ("/large.bin".to_owned(), &self.large[..]),
            };
            let mut fresh = (n % 2 == 1).then(|| self.server.connect());
            let client = fresh.as_mut().unwrap_or(&mut kept);
            client.set_patience(SECOND * 3);
            let since = Instant::now();
            client.send(get(&path));
            match client.try_read_response() {
                Ok(response) if response.status == 200 && response.body == expected => {}
                Ok(response) => return Err(format!("{path}, {n}: {response}")),
                Err(broken) => return Err(format!("{path}, {n}: {broken}")),
            }
            all.push(since.elapsed());
        }
        all.sort();
        Ok(all)
    }

    fn descriptors(&self) -> usize {
        let folder = Path::new("/proc").join(self.server.pid().to_string()).join("fd");
        fs::read_dir(folder).expect("it runs").count()
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// As `gzip` packs it, in a file beside `near`.
fn gzip(near: &Path, content: &[u8]) -> Vec<u8> {
    let plain = near.with_extension("plain");
    fs::write(&plain, content).expect("it is our folder");
    let packed = tool("gzip").arg("-1c").arg(&plain).output().expect("gzip starts");
    assert!(packed.status.success(), "{packed:?}");
    fs::remove_file(&plain).expect("it is ours");
    packed.stdout
}

/// Looks every few milliseconds.
fn becomes(patience: Duration, is: impl Fn() -> bool) -> bool {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if is() {
            return true;
        }
        thread::sleep(SECOND / 200);
    }
    is()
}

/// Fails with all that failed.
fn none_failed(failed: Vec<String>) {
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// What waits, and where.
const WAITS: [(Call, &str); 10] = [
    (Call::Lookup, "/slow/small-{n}.txt"),
    (Call::Lookup, "/slow/none-{n}.txt"),
    (Call::Lookup, "/slow/folder-{n}/"),
    (Call::Getattr, "/slow/small-{n}.txt"),
    (Call::Neighbour, "/slow/small-{n}.txt"),
    (Call::Open, "/slow/small-{n}.txt"),
    (Call::Read, "/slow/small-{n}.txt"),
    (Call::Read, "/slow/large-{n}.bin"),
    (Call::Opendir, "/slow/folder-{n}/"),
    (Call::Readdir, "/slow/folder-{n}/"),
];

/// Where the kernel knows the names, only these are asked for.
const KNOWN_WAITS: [(Call, &str); 4] = [
    (Call::Read, "/slow/small-{n}.txt"),
    (Call::Read, "/slow/large-{n}.bin"),
    (Call::Opendir, "/slow/folder-{n}/"),
    (Call::Readdir, "/slow/folder-{n}/"),
];

/// Those who wait go on waiting, and the others notice nothing. Says where that is not so.
fn who_else_waits(place: Place, names: Names, pages: Pages, waits: &[(Call, &str)]) -> Vec<String> {
    let mut failed = Vec::new();
    for &(call, path) in waits {
        let rig = Rig::new(place, names, pages, "[timeouts]\ndisk = \"1m\"\n");
        rig.disk.stick(call);
        let mut waiting = rig.ask(path, CLIENTS);
        let mut row =
            |what: &str| failed.push(format!("{place:?} {names:?} {pages:?} {call:?} {path}: {what}"));
        if !rig.disk.wait_until_somebody_waits() {
            row("nobody waits");
        }
        match rig.ask_for_fast_files() {
            Ok(times) => {
                let (p99, most) = (times[times.len() * 99 / 100], times[times.len() - 1]);
                eprintln!("{place:?} {names:?} {pages:?} {call:?} {path}: p99 {p99:?}, slowest {most:?}");
                if most >= SECOND {
                    row(&format!("the slowest took {most:?}"));
                }
            }
            Err(why) => row(&why),
        }
        for client in &mut waiting {
            client.set_patience(Duration::from_millis(1));
            match client.try_read_response() {
                Err(Broken::Silent) => continue,
                Err(broken) => row(&broken.to_string()),
                Ok(response) => row(&response.to_string()),
            }
            break;
        }
    }
    failed
}

#[test]
fn who_asks_for_something_fast_waits_for_nobody() {
    none_failed(who_else_waits(Place::Beside, Names::Forgotten, Pages::Direct, &WAITS));
}

#[test]
fn nor_if_the_slow_one_is_mounted_beneath_the_root() {
    none_failed(who_else_waits(Place::Beneath, Names::Forgotten, Pages::Kept, &WAITS));
}

#[test]
fn nor_if_the_kernel_knows_all_names() {
    let mut failed = who_else_waits(Place::Beside, Names::Kept, Pages::Direct, &KNOWN_WAITS);
    failed.extend(who_else_waits(Place::Beneath, Names::Kept, Pages::Kept, &KNOWN_WAITS));
    none_failed(failed);
}

#[test]
fn who_waits_too_long_is_told_so() {
    let mut failed = Vec::new();
    for (call, path) in WAITS {
        let rig = Rig::new(Place::Beside, Names::Forgotten, Pages::Direct, "[timeouts]\ndisk = \"1s\"\n");
        rig.disk.stick(call);
        let since = Instant::now();
        // Once the head has left, only the end of the connection can tell; not everybody's has.
        let may_have_head = call == Call::Read && !path.contains("small");
        for mut client in rig.ask(path, CLIENTS) {
            client.set_patience((SECOND * 5).saturating_sub(since.elapsed()).max(SECOND / 1000));
            match client.try_read_response() {
                Ok(response) if response.status == 503 => continue,
                Err(Broken::Closed { .. } | Broken::Reset) if may_have_head => continue,
                Ok(response) => failed.push(format!("{call:?} {path}: {response}")),
                Err(broken) => failed.push(format!("{call:?} {path}: {broken} in {:?}", since.elapsed())),
            }
            break;
        }
        if since.elapsed() < SECOND * 9 / 10 {
            failed.push(format!("{call:?} {path}: over after {:?}", since.elapsed()));
        }
    }
    none_failed(failed);
}

#[test]
fn once_it_answers_again_all_is_as_before() {
    let mut failed = Vec::new();
    for (call, path) in WAITS {
        let config = "[timeouts]\ndisk = \"1s\"\n[cache]\nentries = 0\n";
        let rig = Rig::new(Place::Beside, Names::Forgotten, Pages::Kept, config);
        // The first connection has gone once its descriptor has.
        thread::sleep(SECOND / 10);
        let before = rig.descriptors();
        rig.disk.stick(call);
        let waiting = rig.ask(path, CLIENTS);
        thread::sleep(SECOND * 3 / 2);
        drop(waiting);
        rig.disk.release();
        let expected = [
            ("/slow/small-7.txt", &rig.disk.small),
            ("/slow/large-7.bin", &rig.disk.large),
            ("/slow/packed-7.bin", &rig.disk.large),
        ];
        for (asked, content) in expected {
            let response = rig.server.get(asked);
            if response.status != 200 || response.body != **content {
                failed.push(format!("{call:?} {path}: {asked}: {response}"));
            }
        }
        for (asked, status) in [("/slow/folder-7/", 200), ("/slow/none-7.txt", 404)] {
            let response = rig.server.get(asked);
            if response.status != status {
                failed.push(format!("{call:?} {path}: {asked}: {response}"));
            }
        }
        if !becomes(SECOND * 5, || rig.descriptors() == before) {
            failed.push(format!("{call:?} {path}: {before} descriptors became {}", rig.descriptors()));
        }
    }
    none_failed(failed);
}

#[test]
fn a_file_that_is_read_slowly_is_right_for_the_fast_and_for_the_slow() {
    for pages in [Pages::Direct, Pages::Kept] {
        let rig = Rig::new(Place::Beside, Names::Forgotten, pages, "");
        rig.disk.switch.set(|state| state.delay = Some((Call::Read, SECOND / 20)));
        let mut fast = rig.server.connect();
        let mut slow = rig.server.connect();
        slow.set_receive_buffer(16 * 1024);
        thread::scope(|scope| {
            let fast = scope.spawn(move || fast.get("/slow/long.bin").body);
            slow.send(get("/slow/long.bin").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
            let mut all = Vec::new();
            loop {
                let some = slow.read_some().expect("it is not dropped");
                if some.is_empty() {
                    break;
                }
                all.extend(some);
                thread::sleep(Duration::from_millis(10));
            }
            let head = all.len() - LONG.min(all.len());
            assert!(all[head..] == **rig.disk.long && head < 1000, "{} bytes", all.len());
            assert!(*rig.disk.long == fast.join().expect("it does not panic"));
        });
    }
}

/// What the fast file system is asked for, and the kernel does not have at hand.
const COLD: [(&str, u16); 3] = [("/missing-{n}.txt", 404), ("/folder/", 200), ("/folder/missing-{n}", 404)];

/// Who waits meanwhile.
const DEAD: [(Call, &str); 3] = [
    (Call::Lookup, "/slow/small-{n}.txt"),
    (Call::Read, "/slow/large-{n}.bin"),
    (Call::Readdir, "/slow/folder-{n}/"),
];

#[test]
fn cold_look_ups_elsewhere_do_not_wait_for_the_dead() {
    let mut failed = Vec::new();
    for place in [Place::Beside, Place::Beneath] {
        for (call, path) in DEAD {
            let rig = Rig::new(place, Names::Forgotten, Pages::Direct, "[timeouts]\ndisk = \"1m\"\n");
            rig.disk.stick(call);
            let _waiting = rig.ask(path, CLIENTS);
            assert!(rig.disk.wait_until_somebody_waits());
            for (asked, status) in COLD {
                for n in 0..20 {
                    let mut client = rig.server.connect();
                    client.set_patience(SECOND);
                    client.send(get(&asked.replace("{n}", &n.to_string())));
                    match client.try_read_response() {
                        Ok(response) if response.status == status => continue,
                        Ok(response) => failed.push(format!("{place:?} {call:?} {asked}: {response}")),
                        Err(broken) => failed.push(format!("{place:?} {call:?} {asked}: {broken}")),
                    }
                    break;
                }
            }
        }
    }
    none_failed(failed);
}

#[test]
fn sigterm_ends_a_server_whose_disk_is_dead() {
    for names in [Names::Forgotten, Names::Kept] {
        let config = "[timeouts]\ndisk = \"1m\"\nshutdown = \"1s\"\n";
        let mut rig = Rig::new(Place::Beside, names, Pages::Direct, config);
        assert_eq!(rig.server.get("/slow/").status, 200);
        rig.disk.become_deaf();
        let _waiting = rig.ask("/slow/none-{n}.txt", CLIENTS);
        thread::sleep(SECOND / 2);
        let since = Instant::now();
        rig.server.signal(Signal::TERM);
        assert_eq!(rig.server.wait(PATIENCE).code(), Some(0));
        assert!(since.elapsed() < SECOND * 4, "{:?}", since.elapsed());
    }
}
