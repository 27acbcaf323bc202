//! The spawner as a process: its privileges, what scripts inherit, and what remains after its end. A process
//! can fork safely only with one thread, so these tests do not run in the usual harness.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::future::Future;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, alarm, geteuid, getpid};
use rustix::io::FdFlags;
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{PipeFlags, pipe_with};
use script::environment::{Additions, Credentials};
use server::process::ipc::Channel;
use server::process::privilege::Accounts;
use server::spawner::message::block;
use server::spawner::process::{self, SpawnerSetup};
use server::spawner::{Child, Exit, SpawnRequest, Spawner, Streams};
use server::sys::{self, Fork};
use site::address::Address;
use site::host::Hosts;
use site::model::{Account, Action, Host, Route, Sandbox, Script, Site};
use site::route::{Pattern, Routes};
use tokio::runtime::Builder;

/// Seconds. Longer than all tests take on a slow machine.
const PATIENCE: u32 = 120;
const SHELL: &CStr = c"/bin/sh";
/// An account without an entry in passwd.
const USER: &str = "3999999998";
/// Another such account.
const OTHER: &str = "3999999997";
const MANY: usize = 3000;
const TOGETHER: usize = 20;

const TESTS: &[(&str, fn())] = &[
    ("a_script_has_the_user_and_no_privileges", a_script_has_the_user_and_no_privileges),
    ("keeps_privileges_without_a_sandbox", keeps_privileges_without_a_sandbox),
    (
        "scripts_of_two_accounts_have_no_capability_of_the_spawner_as_root",
        scripts_of_two_accounts_have_no_capability_of_the_spawner_as_root,
    ),
    (
        "kills_a_child_that_does_not_execute_in_time_even_when_stopped",
        kills_a_child_that_does_not_execute_in_time_even_when_stopped,
    ),
    ("starts_only_scripts_of_the_site", starts_only_scripts_of_the_site),
    (
        "a_script_has_its_own_group_and_no_foreign_signals_or_descriptors",
        a_script_has_its_own_group_and_no_foreign_signals_or_descriptors,
    ),
    ("thousands_of_starts_leave_nothing_behind", thousands_of_starts_leave_nothing_behind),
    ("ends_with_all_scripts_when_the_worker_has_ended", ends_with_all_scripts_when_the_worker_has_ended),
    ("scripts_do_not_outlive_a_killed_spawner", scripts_do_not_outlive_a_killed_spawner),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    // The alarm ends a test that hangs.
    alarm::set(PATIENCE);
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let selected = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS.iter().filter(|(name, _)| selected(name)) {
        let ok = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        passed += usize::from(ok);
        failed += usize::from(!ok);
    }
    let (result, code) = if failed == 0 { ("ok", ExitCode::SUCCESS) } else { ("FAILED", ExitCode::FAILURE) };
    let others = TESTS.len() - passed - failed;
    // In the format of the usual harness, for tools that count.
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {others} filtered out\n"
    );
    code
}

fn a_script_has_the_user_and_no_privileges() {
    with(&site(), async |process| {
        let status = process.text("cat /proc/self/status").await;
        for (field, expected) in
            [("NoNewPrivs:", "1"), ("CapEff:", NONE), ("CapPrm:", NONE), ("CapInh:", NONE)]
        {
            assert_eq!(field_of(&status, field), expected, "{field}");
        }
        if geteuid().is_root() {
            let four = [USER; 4].join("\t");
            assert_eq!(field_of(&status, "Uid:"), four);
            assert_eq!(field_of(&status, "Gid:"), four);
        }
        // A process that may read the spawner's memory could act as the spawner.
        let refused = process.text("cat /proc/$PPID/environ 2>/dev/null || echo refused").await;
        assert_eq!(refused, "refused\n");
        process.end().await;
    });
}

fn keeps_privileges_without_a_sandbox() {
    with(&Site { sandbox: Sandbox::Off, ..site() }, async |process| {
        let status = process.text("cat /proc/self/status").await;
        assert_eq!(field_of(&status, "NoNewPrivs:"), "0");
        process.end().await;
    });
}

fn scripts_of_two_accounts_have_no_capability_of_the_spawner_as_root() {
    for (own, sandbox) in [(USER, Sandbox::On), (USER, Sandbox::Off), ("0", Sandbox::On), ("0", Sandbox::Off)]
    {
        let named = |script: Box<Script>| {
            let account = Some(Account { user: OTHER.to_owned(), group: Some(OTHER.to_owned()) });
            Box::new(Script { account, ..*script })
        };
        let site = site();
        let mut host = site.hosts[0].clone();
        let routes: Vec<Route> = host.routes.iter().cloned().collect();
        let [own_route] = &routes[..] else { panic!("there is one route") };
        let pattern = Pattern::parse("/other").expect("it is one");
        let other = Route { pattern, script: own_route.script.clone().map(named), ..own_route.clone() };
        host.routes = Routes::new(own_route.clone(), vec![other]).expect("there are two");
        let own_name = Some(own.to_owned());
        let hosts = Hosts::only(host);
        let site = Site { user: own_name.clone(), group: own_name, sandbox, hosts, ..site };
        with(&site, async |process| {
            let name = CString::new(format!("{OTHER}:{OTHER}")).expect("it has no NUL");
            let status = fs::read_to_string("/proc/self/status").expect("this process runs");
            // Without a sandbox, a program of root has what this process could have, as with any other program.
            let (no_new_privs, bounding) = match sandbox {
                Sandbox::Off => ("0", field_of(&status, "CapBnd:")),
                Sandbox::On | Sandbox::Required => ("1", NONE),
            };
            for (account, user) in [(&*name, OTHER), (c"", own)] {
                let status = process.text_as(account, "cat /proc/self/status").await;
                let four = [user; 4].join("\t");
                let held = if user == "0" { bounding } else { NONE };
                for (field, expected) in [
                    ("Uid:", &*four),
                    ("Gid:", &four),
                    ("Groups:", user),
                    ("NoNewPrivs:", no_new_privs),
                    ("CapEff:", held),
                    ("CapPrm:", held),
                    ("CapInh:", NONE),
                    ("CapBnd:", bounding),
                    ("CapAmb:", NONE),
                ] {
                    assert_eq!(field_of(&status, field), expected, "{field} of {user} beside {own}");
                }
                if held == NONE {
                    let text = "cat /proc/$PPID/environ 2>/dev/null || echo no";
                    assert_eq!(process.text_as(account, text).await, "no\n");
                }
            }
            let spawner = fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it runs");
            assert_eq!(field_of(&spawner, "CapPrm:"), "00000000000000e0", "KILL, SETGID and SETUID alone");
            let text = "kill -KILL $PPID 2>/dev/null || echo no";
            assert_eq!(process.text_as(&name, text).await, "no\n");
            // The spawner can end the script, finally by force.
            let text = c"trap '' TERM; echo ready; while :; do sleep 100; done";
            let (mut child, mut output) = process.start_as(&name, SHELL, &[SHELL, c"-c", text]).await;
            let mut ready = [0; 6];
            output.read_exact(&mut ready).expect("it can be read");
            child.terminate();
            assert_eq!(child.wait().await, Exit::Signal(libc::SIGKILL));
            process.end().await;
        });
    }
}

fn kills_a_child_that_does_not_execute_in_time_even_when_stopped() {
    match sys::fork().expect("there is one thread") {
        Fork::Parent(pid) => {
            let ended = waitpid(pid, None).expect("it is a child");
            assert_eq!(ended, WaitStatus::Signaled(pid, Signal::SIGKILL, false));
        }
        Fork::Child => {
            let timer = sys::make_kill_timer().expect("it can be made");
            sys::start_timer(timer, 1).expect("it can be set");
            kill(getpid(), Signal::SIGSTOP).expect("it is this process");
            std::process::exit(0)
        }
    }
    let mut sleeps = std::process::Command::new("/bin/sleep");
    sleeps.arg("2");
    match sys::fork().expect("there is one thread") {
        Fork::Parent(pid) => {
            let ended = waitpid(pid, None).expect("it is a child");
            assert_eq!(ended, WaitStatus::Exited(pid, 0), "a program is left alone");
        }
        Fork::Child => {
            let timer = sys::make_kill_timer().expect("it can be made");
            sys::start_timer(timer, 1).expect("it can be set");
            panic!("{}", std::os::unix::process::CommandExt::exec(&mut sleeps));
        }
    }
}

fn starts_only_scripts_of_the_site() {
    with(&site(), async |process| {
        let (mut child, _) = process.start(c"/usr/bin/env", &[c"env"]).await;
        assert_eq!(child.wait().await, Exit::NotStarted(libc::EPERM));
        let request = |environment| SpawnRequest {
            program: SHELL,
            arguments: b"sh\0",
            environment,
            folder: c"/",
            account: c"",
        };
        let streams = || Streams { stdin: None, stdout: null(), stderr: null() };
        for (environment, expected) in [
            (b"REQUEST_METHOD=GET\0" as &[u8], Exit::Code(0)),
            (b"LD_PRELOAD=/proc/self/fd/0\0", Exit::NotStarted(libc::EPERM)),
        ] {
            let child = process.spawner.start(request(environment), streams()).await;
            assert_eq!(child.expect("it is sent").wait().await, expected);
        }
        process.end().await;
    });
}

fn a_script_has_its_own_group_and_no_foreign_signals_or_descriptors() {
    // A parent without care for CLOEXEC leaves such a descriptor.
    let left_open = File::open("/dev/null").expect("it is there");
    rustix::io::fcntl_setfd(&left_open, FdFlags::empty()).expect("it is open");
    with(&site(), async |process| {
        let text = process
            .text("echo $$; ls /proc/self/fd | tr '\\n' ' '; echo; cat /proc/self/status /proc/$$/stat")
            .await;
        let mut lines = text.lines();
        let own = lines.next().expect("there is a first line");
        // Descriptor 3 is the folder that `ls` reads.
        assert_eq!(lines.next(), Some("0 1 2 3 "));
        for field in ["SigBlk:", "SigIgn:", "SigPnd:"] {
            let signals = u64::from_str_radix(field_of(&text, field), 16).expect("it is a number");
            assert_eq!(signals & !RESERVED, 0, "{field} {signals:x}");
        }
        let stat = lines.next_back().and_then(|line| line.rsplit_once(") ")).expect("there is a name").1;
        let [_, parent, group, session, terminal, ..] = stat.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{stat}");
        };
        let spawner = process.pid.to_string();
        assert_eq!([parent, group, session, terminal], [&spawner, own, &spawner, "0"]);
        process.end().await;
    });
}

fn thousands_of_starts_leave_nothing_behind() {
    with(&site(), async |process| {
        let count = |pid: Pid| fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).ok();
        // The first start opens descriptors that the processes then keep.
        process.text("true").await;
        let before = (count(getpid()), count(process.pid));
        for _ in 0..MANY / TOGETHER {
            let mut scripts = Vec::with_capacity(TOGETHER);
            for _ in 0..TOGETHER {
                scripts.push(process.start(c"/bin/true", &[c"true"]).await);
            }
            for (mut child, _) in scripts {
                assert_eq!(child.wait().await, Exit::Code(0));
            }
        }
        assert_eq!((count(getpid()), count(process.pid)), before);
        assert_eq!(process.spawner.pending(), 0);
        let tasks = fs::read_dir(format!("/proc/{}/task", process.pid)).expect("it runs");
        for task in tasks {
            let children = task.expect("it can be read").path().join("children");
            assert_eq!(fs::read_to_string(children).unwrap_or_default(), "", "no child is left unreaped");
        }
        process.end().await;
    });
}

fn ends_with_all_scripts_when_the_worker_has_ended() {
    with(&site(), async |process| {
        let text = c"trap '' TERM; (while :; do sleep 60; done) & echo; while :; do sleep 60; done";
        let (_child, mut output) = process.start(SHELL, &[SHELL, c"-c", text]).await;
        output.read_exact(&mut [0]).expect("it writes a line");
        process.end().await;
        assert_eq!(output.read_to_end(&mut Vec::new()).expect("it can be read"), 0);
    });
}

fn scripts_do_not_outlive_a_killed_spawner() {
    with(&site(), async |process| {
        let (mut child, mut output) =
            process.start(SHELL, &[SHELL, c"-c", c"trap '' TERM; echo; kill -STOP $$"]).await;
        output.read_exact(&mut [0]).expect("it writes a line");
        kill(process.pid, Signal::SIGKILL).expect("it runs");
        assert_eq!(child.wait().await, Exit::Lost);
        assert_eq!(output.read_to_end(&mut Vec::new()).expect("it can be read"), 0);
        waitpid(process.pid, None).expect("it is a child");
    });
}

/// 32 and 33 belong to the C library, which does not reset them.
const RESERVED: u64 = 0b11 << 31;
/// No capability.
const NONE: &str = "0000000000000000";

fn field_of<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim)
}

fn site() -> Site {
    let site = Site::folder(PathBuf::from("/"), vec![Address::Unix(PathBuf::from("/nowhere")).into()]);
    let root = geteuid().is_root();
    let account = root.then(|| USER.to_owned());
    let mut site = Site { user: account.clone(), group: account, ..site };
    // The scripts are the programs in /bin.
    let mut environment = Additions::default();
    environment.add("PATH", b"/usr/bin:/bin").expect("it can be set");
    let script = Script {
        interpreter: None,
        environment,
        credentials: Credentials::Withheld,
        remote_host: Default::default(),
        processes: 1,
        account: None,
        forwarding: Default::default(),
        buffering: Default::default(),
    };
    let files = Action::Files { root: PathBuf::from("/bin"), strip: 0 };
    let route = Route { script: Some(Box::new(script)), ..Route::new(Pattern::EVERYTHING, files) };
    site.hosts = Hosts::only(Host {
        names: Vec::new(),
        routes: Routes::only(route),
        addresses: Vec::new(),
        canonical: None,
        folder: None,
        users: None,
        access_log: None,
        tls: Default::default(),
    });
    site.scripts.grace = Duration::from_millis(200);
    site
}

/// A spawner's process, and the worker's half of its channel.
struct Process {
    pid: Pid,
    spawner: Rc<Spawner>,
    channel: Channel,
}

fn with<F: Future<Output = ()>>(site: &Site, test: impl FnOnce(Process) -> F) {
    let (ours, theirs) = Channel::pair().expect("a pair can be made");
    let accounts = Accounts::of(site).expect("root can take any account");
    let setup = SpawnerSetup::of(site, vec![theirs], &accounts, None);
    let pid = match sys::fork().expect("there is one thread") {
        Fork::Parent(pid) => {
            // It contains the child's end of the channel.
            drop(setup);
            pid
        }
        Fork::Child => {
            drop(ours);
            let code = catch_unwind(AssertUnwindSafe(|| process::run(setup)));
            std::process::exit(code.unwrap_or(2).into())
        }
    };
    let runtime = Builder::new_current_thread().enable_io().build_local(Default::default());
    runtime.expect("a runtime can be made").block_on(async {
        let channel = ours.try_clone().expect("a descriptor is free");
        let spawner = Spawner::new(ours, None).expect("it can be registered");
        tokio::task::spawn_local(spawner.clone().receive_events());
        test(Process { pid, spawner, channel }).await;
    });
}

fn null() -> OwnedFd {
    File::open("/dev/null").expect("it is there").into()
}

impl Process {
    async fn start(&self, program: &CStr, arguments: &[&CStr]) -> (Child, File) {
        self.start_as(c"", program, arguments).await
    }

    async fn start_as(&self, account: &CStr, program: &CStr, arguments: &[&CStr]) -> (Child, File) {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe can be made");
        let environment = b"PATH=/usr/bin:/bin\0";
        let arguments = &block(arguments.iter().copied());
        let request = SpawnRequest { program, arguments, environment, folder: c"/", account };
        let streams = Streams { stdin: None, stdout: write, stderr: null() };
        let child = self.spawner.start(request, streams).await.expect("it is sent");
        (child, read.into())
    }

    /// The output of a shell script.
    async fn text(&self, text: &str) -> String {
        self.text_as(c"", text).await
    }

    async fn text_as(&self, account: &CStr, text: &str) -> String {
        let script = CString::new(text).expect("it has no NUL");
        let (mut child, mut output) = self.start_as(account, SHELL, &[SHELL, c"-c", &script]).await;
        let mut text = String::new();
        output.read_to_string(&mut text).expect("it can be read");
        child.wait().await;
        text
    }

    /// Closes the worker's end; the spawner ends when all its scripts have ended.
    async fn end(&self) {
        shutdown(&self.channel, Shutdown::Both).expect("it is open");
        let ended = waitpid(self.pid, None).expect("it is a child");
        assert_eq!(ended, WaitStatus::Exited(self.pid, 0));
    }
}
