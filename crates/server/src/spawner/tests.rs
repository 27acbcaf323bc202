//! Tests the spawner through a worker's half, with real processes. The spawner is a thread here;
//! `tests/spawner.rs` tests it as a process.

use std::ffi::CString;
use std::fs::{self, File};
use std::future::Future;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{PipeFlags, pipe_with};
use site::model::{BackgroundJobs, ControlGroups, Resources, Scripts};

use super::cgroup::{self, Cgroup};
use super::groups::{self, Settings};
use super::*;

/// Longer than a slow machine takes.
const PATIENCE: Duration = Duration::from_secs(120);
const SHELL: &CStr = c"/bin/sh";

/// The worker's half of a channel, and the thread of the spawner at the other end.
struct Worker {
    spawner: Rc<Spawner>,
    thread: JoinHandle<io::Result<()>>,
}

/// A script, and the pipe with its output.
struct Script {
    child: Child,
    output: File,
}

fn settings() -> Settings {
    let resources = Resources { files: None, ..Resources::default() };
    Settings {
        resources,
        grace: Duration::from_millis(200),
        background_jobs: BackgroundJobs::Ended,
        spool: std::env::temp_dir(),
        reports_starts: false,
    }
}

fn with<F: Future<Output = ()>>(settings: Settings, test: impl FnOnce(Worker) -> F) {
    with_cgroups(settings, None, test);
}

fn with_cgroups<F: Future<Output = ()>>(
    settings: Settings,
    cgroups: Option<Vec<Cgroup>>,
    test: impl FnOnce(Worker) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let (ours, theirs) = Channel::pair().expect("a pair can be made");
    let thread = std::thread::spawn(move || groups::serve(theirs, settings, None, cgroups));
    runtime.expect("a runtime can be made").block_on(async {
        let spawner = Spawner::new(ours, None).expect("it can be registered");
        tokio::task::spawn_local(spawner.clone().receive_events());
        let worker = Worker { spawner, thread };
        tokio::time::timeout(PATIENCE, test(worker)).await.expect("the test ends in time");
    });
}

fn null() -> OwnedFd {
    File::open("/dev/null").expect("it is there").into()
}

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).expect("a pipe can be made")
}

impl Worker {
    /// Starts a shell that executes `text`, without input.
    async fn script(&self, text: &str) -> Script {
        self.run(SHELL, &[SHELL, c"-c", &CString::new(text).expect("it has no NUL")], b"", c"/").await
    }

    async fn run(&self, program: &CStr, arguments: &[&CStr], environment: &[u8], folder: &CStr) -> Script {
        let (read, write) = pipe();
        let arguments = &message::block(arguments.iter().copied());
        let request = SpawnRequest { program, arguments, environment, folder, account: c"" };
        let stderr = write.try_clone().expect("a descriptor is free");
        let streams = Streams { stdin: None, stdout: write, stderr };
        let child = self.spawner.start(request, streams).await.expect("it is sent");
        Script { child, output: read.into() }
    }

    /// Ends the worker. The spawner ends when all scripts have ended.
    async fn end(self) {
        let Worker { spawner, thread } = self;
        // As if the worker's process had ended: each `Child` keeps the channel open, too.
        shutdown(spawner.channel.get_ref(), Shutdown::Both).expect("it is open");
        let joined = tokio::task::spawn_blocking(|| thread.join().expect("it does not panic"));
        joined.await.expect("it does not panic").expect("it does not fail");
    }
}

impl Script {
    /// All output of the script and its descendants.
    async fn text(&mut self) -> String {
        let mut output = self.output.try_clone().expect("a descriptor is free");
        let mut text = String::new();
        let read = tokio::task::spawn_blocking(move || output.read_to_string(&mut text).map(|_| text));
        read.await.expect("it does not panic").expect("it can be read")
    }

    /// The first line.
    async fn line(&mut self) -> String {
        let mut output = self.output.try_clone().expect("a descriptor is free");
        let read = tokio::task::spawn_blocking(move || {
            let (mut line, mut byte) = (String::new(), [0]);
            while output.read(&mut byte).is_ok_and(|n| n == 1) && byte != *b"\n" {
                line.push(byte[0].into());
            }
            line
        });
        read.await.expect("it does not panic")
    }
}

#[test]
fn reports_exit_codes_and_signals() {
    with(settings(), async |worker| {
        for (text, expected) in [
            ("exit 0", Exit::Code(0)),
            ("exit 7", Exit::Code(7)),
            ("exit 255", Exit::Code(255)),
            ("kill -9 $$", Exit::Signal(9)),
            ("kill -11 $$", Exit::Signal(11)),
            // A program starts with default signal actions, and no signal blocked.
            ("kill -15 $$; sleep 60", Exit::Signal(15)),
        ] {
            let mut script = worker.script(text).await;
            assert_eq!(script.child.wait().await, expected, "{text}");
            assert_eq!(script.child.wait().await, expected, "{text}, the second time");
        }
        worker.end().await;
    });
}

#[test]
fn reports_the_error_when_a_program_cannot_start() {
    let folder = Folder::new("not-started");
    let file = |name, text: &str, mode| folder.file(name, text, mode);
    let cases = [
        (c"/no/such/program".to_owned(), libc::ENOENT),
        (c"/".to_owned(), libc::EACCES),
        (file("plain", "#!/bin/sh\n", 0o644), libc::EACCES),
        (file("no-interpreter", "echo\n", 0o755), libc::ENOEXEC),
        (file("lost-interpreter", "#!/no/such/shell\n", 0o755), libc::ENOENT),
        (file("empty", "", 0o755), libc::ENOEXEC),
    ];
    with(settings(), async |worker| {
        for (program, expected) in &cases {
            let mut script = worker.run(program, &[program], b"", c"/").await;
            // A process that another test starts at the same time may still have the file open for writing.
            while script.child.wait().await == Exit::NotStarted(libc::ETXTBSY) {
                script = worker.run(program, &[program], b"", c"/").await;
            }
            assert_eq!(script.child.wait().await, Exit::NotStarted(*expected), "{program:?}");
            assert_eq!(script.text().await, "", "{program:?}");
        }
        let mut script = worker.run(SHELL, &[SHELL], b"", c"/no/such/folder").await;
        assert_eq!(script.child.wait().await, Exit::NotStarted(libc::ENOENT));
        worker.end().await;
    });
}

#[test]
fn a_program_receives_only_its_arguments_environment_and_folder() {
    let folder = Folder::new("given");
    let place = CString::new(folder.0.to_str().expect("it is text")).expect("it has no NUL");
    let text = c"pwd; echo \"$0 $#:$1:$2\"; env | grep -v '^PWD\\|^SHLVL\\|^_=\\|^OLDPWD' | sort";
    with(settings(), async |worker| {
        let arguments = [SHELL, c"-c", text, c"name", c"", c"two words"];
        let mut script = worker.run(SHELL, &arguments, b"ONE=1\0TWO=\0PATH=/usr/bin:/bin\0", &place).await;
        let expected =
            format!("{}\nname 2::two words\nONE=1\nPATH=/usr/bin:/bin\nTWO=\n", folder.0.display());
        assert_eq!(script.text().await, expected);
        assert_eq!(script.child.wait().await, Exit::Code(0));
        worker.end().await;
    });
}

#[test]
fn limits_apply_before_the_program_starts() {
    let resources = Resources {
        memory: Some(64 << 20),
        cpu: Some(2),
        files: Some(32),
        tasks: Some(50),
        umask: Some(0o027),
        nice: 5,
    };
    with(Settings { resources, ..settings() }, async |worker| {
        let text = "umask; ulimit -v; ulimit -t; ulimit -n; ulimit -u 2>/dev/null || ulimit -p; nice";
        let mut script = worker.script(text).await;
        // The configured value is added to the niceness of the spawner.
        let nice = rustix::process::getpriority_process(None).expect("it runs") + 5;
        assert_eq!(script.text().await, format!("0027\n65536\n2\n32\n50\n{nice}\n"));
        for text in ["x=$(head -c 200000000 /dev/zero | tr '\\0' x); exit 0", "while :; do :; done"] {
            let mut script = worker.script(text).await;
            assert_ne!(script.child.wait().await, Exit::Code(0), "{text}");
        }
        worker.end().await;
    });
}

/// Only a limit keeps it from using all process IDs.
const FORK_BOMB: &str = "bomb() { bomb | bomb & }; bomb; while :; do :; done";

#[test]
fn ends_all_processes_of_a_group() {
    for (name, text) in [
        ("one that ends on SIGTERM", "echo; exec sleep 60"),
        ("one that tidies up", "trap 'echo tidy; exit' TERM; echo; while :; do sleep 0.01; done"),
        ("one that ignores SIGTERM", "trap '' TERM; echo; while :; do sleep 60; done"),
        ("children and grandchildren", "(sleep 60 & sleep 60) & sleep 60 & echo; sleep 60"),
        ("a child that ignores SIGTERM", "(trap '' TERM; echo; sleep 60; sleep 60) & wait"),
        ("children whose leader has ended", "sleep 60 & sleep 60 & echo"),
        (
            "a child that ignores SIGTERM and whose leader has ended",
            "(trap '' TERM; echo; sleep 60; sleep 60) &",
        ),
        ("one that is stopped", "echo; kill -STOP $$; sleep 60"),
    ] {
        with(settings(), async |worker| {
            for way in [Way::End, Way::EndTwice, Way::Drop] {
                let mut script = worker.script(text).await;
                assert_eq!(script.line().await, "", "{name}");
                let mut output = script.output.try_clone().expect("a descriptor is free");
                match way {
                    Way::End => script.child.terminate(),
                    Way::EndTwice => (script.child.terminate(), script.child.terminate()).0,
                    Way::Drop => drop(script.child),
                }
                // The end of the output: all processes that could write to it have ended.
                let read = tokio::task::spawn_blocking(move || output.read_to_end(&mut Vec::new()));
                assert!(read.await.expect("it does not panic").is_ok(), "{name}, {way:?}");
            }
            // The end of the worker ends the script, too.
            let mut script = worker.script(text).await;
            assert_eq!(script.line().await, "", "{name}");
            worker.end().await;
            script.text().await;
        });
    }
}

#[derive(Debug, Clone, Copy)]
enum Way {
    End,
    EndTwice,
    Drop,
}

#[test]
fn a_script_may_clean_up_after_sigterm_during_the_grace() {
    with(Settings { grace: PATIENCE, ..settings() }, async |worker| {
        let mut script = worker
            .script("exec 2>/dev/null; trap 'echo tidy; exit 3' TERM; echo; while :; do sleep 0.01; done")
            .await;
        script.line().await;
        script.child.terminate();
        assert_eq!(script.text().await, "tidy\n");
        assert_eq!(script.child.wait().await, Exit::Code(3));
        worker.end().await;
    });
}

#[test]
fn a_task_limit_stops_a_fork_bomb_as_root() {
    // The kernel does not limit root, and counts all processes of a user.
    let resources = Resources { tasks: Some(40), ..settings().resources };
    with(Settings { resources, ..settings() }, async |worker| {
        let bomb = CString::new(format!("echo; {FORK_BOMB}")).expect("it has no NUL");
        let user = [c"setpriv", c"--reuid=3999999999", c"--clear-groups", SHELL, c"-c", &bomb];
        let path = std::env::var("PATH").unwrap_or_default();
        let setpriv = std::env::split_paths(&path).map(|folder| folder.join("setpriv")).find(|p| p.exists());
        let setpriv = setpriv.expect("util-linux is there").into_os_string().into_encoded_bytes();
        let setpriv = CString::new(setpriv).expect("it has no NUL");
        let mut script = worker.run(&setpriv, &user, b"PATH=/usr/bin:/bin\0", c"/").await;
        script.line().await;
        // The limit is reached when the shell reports that it cannot fork.
        assert!(script.line().await.contains("fork"));
        script.child.terminate();
        let ended = script.child.wait().await;
        assert!(matches!(ended, Exit::Signal(_) | Exit::Code(_)), "{ended:?}");
        script.text().await;
        worker.end().await;
    });
}

#[test]
fn scripts_of_a_failed_worker_end_when_its_replacement_starts() {
    with(settings(), async |worker| {
        let before = worker.script("trap '' TERM; echo; while :; do sleep 60; done").await;
        let mut output = Script { output: before.output.try_clone().expect("one is free"), ..before };
        output.line().await;
        let again = worker.spawner.channel.get_ref().try_clone().expect("a descriptor is free");
        let spawner = Spawner::new(again, None).expect("it can be registered");
        assert_eq!(output.text().await, "");
        drop((output, worker.spawner, spawner));
    });
}

#[test]
fn reports_lost_scripts_when_the_spawner_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.expect("a runtime can be made").block_on(async {
        let (ours, theirs) = Channel::pair().expect("a pair can be made");
        let spawner = Spawner::new(ours, None).expect("it can be registered");
        tokio::task::spawn_local(spawner.clone().receive_events());
        let request =
            SpawnRequest { program: SHELL, arguments: b"sh\0", environment: b"", folder: c"/", account: c"" };
        let streams = || Streams { stdin: Some(null()), stdout: null(), stderr: null() };
        let mut child = spawner.start(request, streams()).await.expect("it is sent");
        drop(theirs);
        assert_eq!(child.wait().await, Exit::Lost);
        let refused = spawner.start(request, streams()).await.map(drop);
        assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
        assert!(spawner.open_spool().await.is_err());
    });
}

#[test]
fn an_environment_may_fill_a_message_but_not_exceed_it() {
    with(settings(), async |worker| {
        for (length, expected) in [(100, true), (128 * 1024 - 1, true), (message::MAX_COMMAND, false)] {
            // Linux limits each string to 128 KiB (execve(2)), so this is several.
            let mut block = Vec::new();
            let mut left = length;
            while left > 0 {
                let part = left.min(32 * 1024);
                block.extend_from_slice(format!("A{left}={}\0", "x".repeat(part - 10)).as_bytes());
                left -= part;
            }
            let (read, write) = pipe();
            let arguments = message::block([SHELL, c"-c", c"env | wc -c"]);
            let request = SpawnRequest {
                program: SHELL,
                arguments: &arguments,
                environment: &block,
                folder: c"/",
                account: c"",
            };
            let streams = Streams { stdin: None, stdout: write, stderr: null() };
            let child = worker.spawner.start(request, streams).await;
            assert_eq!(child.is_ok(), expected, "{length}");
            if let Ok(child) = child {
                let mut script = Script { child, output: read.into() };
                let size: usize = script.text().await.trim().parse().expect("it is a number");
                assert!(size >= block.len(), "{size} of {}", block.len());
            }
        }
        worker.end().await;
    });
}

#[test]
fn a_spool_file_has_no_name() {
    let folder = Folder::new("spool");
    with(Settings { spool: folder.0.clone(), ..settings() }, async |worker| {
        let mut file = File::from(worker.spawner.open_spool().await.expect("it can be made"));
        file.write_all(b"a body").expect("it can be written");
        assert_eq!(fs::read_dir(&folder.0).expect("it is there").count(), 0);
        assert_eq!(file.metadata().expect("it is open").len(), 6);
        worker.end().await;
    });
    with(Settings { spool: "/no/such/folder".into(), ..settings() }, async |worker| {
        let refused = worker.spawner.open_spool().await.map(drop);
        assert_eq!(refused.map_err(|error| error.raw_os_error()), Err(Some(libc::ENOENT)));
        worker.end().await;
    });
}

#[test]
fn many_simultaneous_scripts_each_report_their_own_exit() {
    const MANY: u8 = 200;
    with(settings(), async |worker| {
        let mut scripts = Vec::new();
        for code in 0..MANY {
            scripts.push((code, worker.script(&format!("exit {code}")).await));
        }
        for (code, script) in &mut scripts {
            assert_eq!(script.child.wait().await, Exit::Code(*code));
        }
        assert_eq!(worker.spawner.pending(), 0);
        drop(scripts);
        worker.end().await;
    });
}

const NO_LIMITS: ControlGroups = ControlGroups { folder: None, memory: None, tasks: None };

#[test]
fn rejects_a_folder_that_is_no_control_group_and_leaves_it_unchanged() {
    let folder = Folder::new("no-cgroup");
    let path = folder.0.clone();
    let cgroups = |path: &PathBuf| Some(ControlGroups { folder: Some(path.clone()), ..NO_LIMITS });
    let problem = |path| cgroup::problem(&Scripts { cgroups: cgroups(path), ..Scripts::default() });
    assert_eq!(problem(&path), Some(format!("{} is not a control group (version 2)", path.display())));
    let missing = path.join("missing");
    let expected = format!(
        "cannot use the control group {}: No such file or directory (os error 2); make it beneath /sys/fs/cgroup, or \
         write cgroup = \"auto\"",
        missing.display()
    );
    assert_eq!(problem(&missing), Some(expected));
    for (wanted, expected) in [
        (
            ControlGroups { memory: Some(1 << 20), ..NO_LIMITS },
            "has no controller \"memory\"; delegate it, too",
        ),
        (ControlGroups { tasks: Some(1), ..NO_LIMITS }, "has no controller \"pids\"; delegate it, too"),
        (NO_LIMITS, "/0/cgroup.procs: No such file or directory (os error 2)"),
    ] {
        let why = cgroup::make(&path, &wanted, 2).map(drop).expect_err("it is no control group");
        assert!(why.ends_with(expected), "{why}");
        assert_eq!(fs::read_dir(&path).expect("it is there").count(), 0);
    }
}

/// Makes a folder with groups that have these limits. Where none can be made, or none with limits, `tests/run` leaves
/// tests with `own_control_group` or `limited_control_group` in their names out.
fn control_groups(name: &str, wanted: &ControlGroups, count: usize) -> (PathBuf, Vec<Cgroup>) {
    let mounts = fs::read_to_string("/proc/mounts").expect("it can be read");
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).expect("version 2 is mounted");
    let path = Path::new(mount[1]).join(format!("taipan-spawner-{}-{name}", std::process::id()));
    fs::create_dir(&path).expect("a group can be made");
    match cgroup::make(&path, wanted, count) {
        Ok(groups) => (path, groups),
        Err(why) => {
            fs::remove_dir(&path).expect("nothing is in it");
            panic!("{why}");
        }
    }
}

/// Nothing is left in the folder but processes that are ending.
fn remove_groups(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        cgroup::sweep(path);
        match fs::remove_dir(path) {
            Ok(()) => return,
            Err(error) => assert!(Instant::now() < deadline, "something is left in it: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ends_all_processes_of_its_own_control_group_even_in_another_session() {
    let (path, groups) = control_groups("kill", &NO_LIMITS, 2);
    with_cgroups(settings(), Some(groups), async |worker| {
        for _ in 0..5 {
            let mut script = worker.script("setsid sleep 60 & grep ^0:: /proc/self/cgroup").await;
            assert!(script.line().await.contains("/scripts."), "the script has its own group");
            // The job in the background still has the output open.
            assert_eq!(script.child.wait().await, Exit::Code(0));
            script.child.terminate();
            script.text().await;
        }
        // A terminating script is killed when another one needs its group.
        let endless = "trap '' TERM; echo; while :; do sleep 60; done";
        for _ in 0..3 {
            let (mut one, mut other) = (worker.script(endless).await, worker.script(endless).await);
            one.line().await;
            other.line().await;
            let mut third = worker.script("exit 0").await;
            assert_eq!(third.child.wait().await, Exit::NotStarted(libc::EAGAIN));
            one.child.terminate();
            other.child.terminate();
            let mut third = worker.script("exit 0").await;
            assert_eq!(third.child.wait().await, Exit::Code(0));
            assert_eq!(one.child.wait().await, Exit::Signal(9));
            other.child.wait().await;
        }
        // The end of the worker ends both processes.
        worker.script("setsid sleep 60 & echo; sleep 60").await.line().await;
        worker.end().await;
    });
    remove_groups(&path);
}

#[test]
fn a_limited_control_group_counts_all_its_processes_together() {
    let wanted = ControlGroups { memory: Some(32 << 20), tasks: Some(20), ..NO_LIMITS };
    let (path, groups) = control_groups("limits", &wanted, 1);
    with_cgroups(settings(), Some(groups), async |worker| {
        let hog = "x=$(head -c 24000000 /dev/zero | tr '\\0' x); sleep 60";
        for (text, expected) in [
            (&*format!("({hog}) & {hog}"), Exit::OutOfMemory),
            ("kill -9 $$", Exit::Signal(9)),
            (&*format!("({hog}) & ({hog}) & exit 0"), Exit::Code(0)),
            ("kill -9 $$", Exit::Signal(9)),
        ] {
            let mut script = worker.script(text).await;
            assert_eq!(script.child.wait().await, expected, "{text}");
            script.text().await;
            drop(script);
        }
        let mut bomb = worker.script(&format!("echo; {FORK_BOMB}")).await;
        bomb.line().await;
        assert!(bomb.line().await.contains("fork"));
        bomb.child.terminate();
        bomb.text().await;
        worker.end().await;
    });
    remove_groups(&path);
}

/// A temporary folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("taipan-spawner-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        Folder(folder.canonicalize().expect("it is there"))
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> CString {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        CString::new(path.into_os_string().into_encoded_bytes()).expect("it has no NUL")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
