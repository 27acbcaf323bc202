//! The program is replaced by another one while it runs, without failing a request; and if the new one does
//! not work, the old one continues.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e2e::{
    Client, Clients, Folder, OwnAccount, Page, Persistence, Random, Server, Signal, Site, TIMEOUT, is_root,
    output_of, program, runs, signal_process, tool, wait_until,
};

const LONG: usize = 16 * 1024 * 1024;
/// Long enough for immediate actions on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);
const UPGRADES: usize = 5;

/// A program file that can be replaced, and a server that runs it.
struct Fixture {
    server: Server,
    installed: PathBuf,
    // Dropped after the server, which runs it.
    folder: Folder,
}

impl Fixture {
    fn new(site: Site) -> Fixture {
        Fixture::run_by(site, |installed| Command::new(installed))
    }

    fn run_by(site: Site, command: impl FnOnce(&Path) -> Command) -> Fixture {
        let folder = Folder::new();
        let installed = folder.path().join("taipan");
        copy_program(&installed);
        let mut command = command(&installed);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let server = site.config("pid_file = \"pid\"").start_by(command);
        Fixture { server, installed, folder }
    }

    /// Replaces the program file, as a package manager does.
    fn install(&self, write: impl FnOnce(&Path)) {
        let new = self.folder.path().join("taipan.new");
        write(&new);
        fs::rename(&new, &self.installed).expect("it is our folder");
    }

    fn pid_in_file(&self) -> Option<u32> {
        fs::read_to_string(self.server.home().join("pid")).ok()?.trim().parse().ok()
    }

    /// Waits until the pid file has another process, and follows that one.
    fn follow(&mut self) -> u32 {
        let before = self.server.pid();
        let mut pid = before;
        let changed = wait_until(TIMEOUT, || {
            pid = self.pid_in_file().unwrap_or(before);
            pid != before
        });
        assert!(changed, "no process has taken over:\n{}", self.server.stderr());
        self.server.succeeded_by(pid);
        pid
    }

    /// `taipan upgrade`, which must succeed.
    fn upgrade(&mut self) -> u32 {
        let output = self.server.run_command(&["upgrade"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(0) {
            panic!("{stderr}\n{}", self.server.stderr());
        }
        self.follow()
    }
}

fn copy_program(to: &Path) {
    shell("cp \"$1\" \"$2\"", program().as_os_str(), to);
}

fn script(to: &Path, text: &str) {
    shell("printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", text.as_ref(), to);
}

/// Written by another process: if this process wrote the file, a child of another thread could have it open,
/// and executing it would fail (ETXTBSY).
/// for a moment, cannot be executed.
fn shell(line: &str, first: &OsStr, second: &Path) {
    let output = output_of(tool("sh").args(["-c", line, "sh"]).arg(first).arg(second));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn upgrade_hands_everything_to_the_new_program() {
    let content = Random::new(3).bytes(LONG);
    let config = "listen = [\"127.0.0.1:0\", \"unix:a.sock\"]\nworkers = 2";
    let mut fixture = Fixture::new(Site::new().file("a.txt", "a").file("long", &content).config(config));
    let (address, old) = (fixture.server.addr(), fixture.server.pid());
    let socket = fixture.server.home().join("a.sock");
    let mut download = fixture.server.begin_download("/long");
    let mut same: Vec<Client> = (0..20).map(|_| Client::tcp(address)).collect();
    same.iter_mut().skip(5).for_each(|client| assert_eq!(client.get("/a.txt").status, 200));

    fixture.install(copy_program);
    let new = fixture.upgrade();
    assert!(new != old && runs(new));
    let executable = fs::read_link(format!("/proc/{new}/exe")).expect("it runs");
    assert_eq!(executable, fixture.installed, "what stands there now");
    for client in &mut same {
        assert_eq!(client.get("/a.txt").status, 200, "on the same connection");
    }
    assert_eq!(Client::tcp(address).get("/a.txt").status, 200);
    assert_eq!(Client::unix(&socket).get("/a.txt").status, 200);
    assert!(fixture.server.stats()["process"].as_u64().is_some(), "it can be asked");
    // Those of the old program are counted, too, and the download that has begun.
    assert!(wait_until(TIMEOUT, || fixture.server.count("status_2xx") == 15 + 20 + 2 + 1));

    assert!(runs(old), "the old process still sends a response");
    assert!(download.read_response().body == content);
    assert_eq!(download.get("/a.txt").status, 200, "the old process keeps its connection, too");
    assert_eq!(fixture.server.wait_for_predecessor(AT_ONCE).code(), Some(0));

    // The lock of the pid file has passed to it: no other server takes the file.
    let inode = format!(":{} ", fs::metadata(fixture.server.home().join("pid")).unwrap().ino());
    let owner = format!(" WRITE {new} ");
    let is_locked = |line: &str| line.contains(" FLOCK ") && line.contains(&owner) && line.contains(&inode);
    assert!(wait_until(AT_ONCE, || fs::read_to_string("/proc/locks").unwrap().lines().any(is_locked)));

    // The new program can do all that the old one could.
    fixture.server.configure("listen = [\"127.0.0.1:0\"]\npid_file = \"pid\"\nworkers = 1");
    fixture.server.reload();
    assert_eq!(Client::tcp(address).get("/a.txt").status, 200, "the port that was found is kept");
    assert!(!socket.exists(), "it removes the files of its predecessor");
    fixture.server.signal(Signal::TERM);
    assert!(wait_until(AT_ONCE, || !runs(new)));
    assert!(!fixture.server.home().join("pid").exists());
}

#[test]
fn upgrades_under_load_lose_no_request() {
    let content = Arc::new(Random::new(4).bytes(5000));
    let site = Site::new().file("page", content.as_slice()).config("workers = 2");
    let mut fixture = Fixture::new(site);
    let page = Page { path: "/page".to_owned(), contents: vec![content] };
    let group = |persistence, fields: &str| Clients {
        address: fixture.server.addr(),
        persistence,
        count: 24,
        pages: vec![page.clone()],
        fields: fields.to_owned(),
    };
    let groups = [group(Persistence::KeepAlive, ""), group(Persistence::Close, "Connection: close\r\n")];
    let over = Arc::new(AtomicBool::new(false));
    let running = groups.map(|group| {
        let over = over.clone();
        thread::spawn(move || group.run(|_| over.load(Ordering::Relaxed)))
    });
    let mut pids = vec![fixture.server.pid()];
    let upgraded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for number in 0..UPGRADES {
            fixture.install(copy_program);
            if number % 2 == 0 {
                pids.push(fixture.upgrade());
            } else {
                fixture.server.signal(Signal::USR2);
                pids.push(fixture.follow());
            }
        }
    }));
    over.store(true, Ordering::Relaxed);
    let tallies = running.map(|group| group.join().expect("it does not panic"));
    upgraded.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    eprintln!("{UPGRADES} upgrades\n  keep-alive: {}\n  new: {}", tallies[0], tallies[1]);
    for tally in &tallies {
        assert!(
            tally.failed() == 0 && tally.responses.keys().eq([&200]),
            "{tally}\n{}",
            fixture.server.stderr()
        );
        assert!(tally.completed() > 100, "{tally}");
    }
    assert_eq!(tallies[0].connections, 24, "no connection was closed");
    let last = pids.pop();
    assert!(wait_until(AT_ONCE, || !pids.iter().any(|pid| runs(*pid))), "the old ones have ended");
    assert_eq!(fixture.pid_in_file(), last);
}

#[test]
fn a_broken_new_program_changes_nothing() {
    let config = "listen = [\"127.0.0.1:0\", \"unix:a.sock\"]";
    let fixture = Fixture::new(Site::new().file("a.txt", "a").config(config));
    let serving = fixture.server.serving_pid();
    let mut same = fixture.server.connect();
    type Write = fn(&Path);
    let rows: [(&str, Write, &str); 5] = [
        (
            "not executable",
            |to| fs::write(to, "text").expect("it is our folder"),
            "install the new program there",
        ),
        ("garbage", |to| script(to, "\x7fELF and nothing more"), "cannot start"),
        ("ends with 1", |to| script(to, "#!/bin/sh\nexit 1\n"), "exit code 1"),
        ("ends with 0", |to| script(to, "#!/bin/sh\nexit 0\n"), "exit code 0"),
        ("is killed", |to| script(to, "#!/bin/sh\nkill -9 $$\n"), "SIGKILL"),
    ];
    for (what, write, why) in rows {
        fixture.install(write);
        let output = fixture.server.run_command(&["upgrade"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{what}: {stderr}");
        assert!(stderr.contains(why), "{what}: {stderr}");
        fixture.server.wait_for_line("this program continues", TIMEOUT);
        assert_eq!(same.get("/a.txt").status, 200, "{what}");
        assert_eq!(fixture.server.get("/a.txt").status, 200, "{what}");
        let reported = fixture.server.stderr().matches("this program continues").count();
        // By a signal it is the same.
        fixture.server.signal(Signal::USR2);
        let again = |lines: &[String]| {
            let count = lines.iter().filter(|line| line.contains("this program continues")).count();
            (count > reported).then_some(())
        };
        assert!(
            fixture.server.errors().wait_for(TIMEOUT, again).is_some(),
            "{what}: {}",
            fixture.server.stderr()
        );
        assert_eq!(fixture.pid_in_file(), Some(fixture.server.pid()), "{what}");
    }
    assert_eq!(fixture.server.children(), [serving]);
    assert_eq!(Client::unix(&fixture.server.home().join("a.sock")).get("/a.txt").status, 200);

    // The file is missing.
    fs::remove_file(&fixture.installed).expect("it is there");
    assert_eq!(fixture.server.run_command(&["upgrade"]).status.code(), Some(1));
    fixture.server.reload();
    assert_eq!(same.get("/a.txt").status, 200);
}

#[test]
fn a_new_program_that_cannot_serve_the_configuration_changes_nothing() {
    let config = "listen = [\"127.0.0.1:0\", \"unix:a.sock\"]";
    let fixture = Fixture::new(Site::new().file("a.txt", "a").config(config));
    let socket = fixture.server.home().join("a.sock");
    let serves = || {
        assert_eq!(fixture.server.get("/a.txt").status, 200);
        assert_eq!(Client::unix(&socket).get("/a.txt").status, 200);
        assert_eq!(fixture.pid_in_file(), Some(fixture.server.pid()));
    };
    for wrong in ["lisen = 1", "root = \"nothing\"", "pid_file = \"nowhere/pid\""] {
        let pid_file = if wrong.starts_with("pid_file") { "" } else { "pid_file = \"pid\"\n" };
        fixture.server.configure(&format!("{config}\n{pid_file}{wrong}"));
        let output = fixture.server.run_command(&["upgrade"]);
        assert_eq!(output.status.code(), Some(1), "{wrong}: {}", fixture.server.stderr());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("ended before it served: exit code 2"), "{wrong}: {stderr}");
        serves();
    }
    fixture.server.configure(&format!("{config}\npid_file = \"pid\""));
    fixture.server.reload();
    serves();
}

#[test]
fn upgrade_with_few_descriptors_hands_off_many_sockets() {
    let addresses: Vec<String> = (1..=64).map(|host| format!("\"127.0.0.{host}:0\"")).collect();
    let config = format!("workers = 10\nlisten = [{}]", addresses.join(", "));
    let site = Site::new().file("a.txt", "a").config(&config);
    // 640 sockets: there are no two descriptors for each.
    let mut fixture = Fixture::run_by(site, |installed| {
        let mut command = tool("prlimit");
        command.arg("--nofile=1024:1024").arg(installed);
        command
    });
    let old = fixture.server.pid();
    assert_ne!(fixture.upgrade(), old);
    assert_eq!(fixture.server.get("/a.txt").status, 200);
}

#[test]
fn gives_up_a_hung_new_program_on_another_signal() {
    // More sockets than the channel to the new program takes.
    let addresses: Vec<String> = (1..=64).map(|host| format!("\"127.0.0.{host}:0\"")).collect();
    let config = format!("workers = 16\nlisten = [{}]", addresses.join(", "));
    let mut fixture = Fixture::new(Site::new().file("a.txt", "a").config(&config));
    let mark = fixture.folder.path().join("hangs");
    fixture.install(|to| script(to, &format!("#!/bin/sh\necho $$ > {}\nexec sleep 100\n", mark.display())));
    let upgrading = {
        let (home, program) = (fixture.server.home().join("site.toml"), program());
        thread::spawn(move || {
            let mut command = Command::new(program);
            command.args(["upgrade", "-c"]).arg(home);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            output_of(&mut command)
        })
    };
    let pid = || fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse::<u32>().ok());
    assert!(wait_until(TIMEOUT, || pid().is_some()));
    let pid = pid().expect("it has printed so");
    // While the new program hangs, the old one serves and accepts no other change.
    assert_eq!(fixture.server.get("/a.txt").status, 200);
    assert!(fixture.server.reload_error().contains("an upgrade is in progress"));
    for change in [&["upgrade"][..], &["maintenance", "default"]] {
        assert_eq!(fixture.server.run_command(change).status.code(), Some(1), "{change:?}");
    }
    assert_eq!(fixture.server.get("/a.txt").status, 200);
    fixture.server.signal(Signal::TERM);
    assert_eq!(fixture.server.wait(AT_ONCE).code(), Some(0));
    assert_eq!(upgrading.join().expect("it does not panic").status.code(), Some(1));
    assert!(wait_until(AT_ONCE, || !runs(pid)), "it is not left behind");
}

/// A server with so many idle connections, which a new program with so many descriptors takes over. What other programs
/// of root have on their way between processes counts for that limit, so it has an account of its own.
fn taken_over(connections: usize, descriptors: usize) -> (Fixture, Vec<Client>) {
    let (fixture, clients, _) = taken_over_with_fresh(connections, 0, descriptors);
    (fixture, clients)
}

/// As `taken_over`, with so many clients besides that have not sent anything yet.
fn taken_over_with_fresh(
    connections: usize,
    fresh: usize,
    descriptors: usize,
) -> (Fixture, Vec<Client>, Vec<Client>) {
    let mut fixture = match is_root() {
        true => run_by_account(&OwnAccount::new()),
        false => Fixture::new(Site::new().file("a.txt", "a").config("workers = 1")),
    };
    let mut clients: Vec<Client> = (0..connections).map(|_| fixture.server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    let sockets = || {
        let open = fs::read_dir(format!("/proc/{}/fd", fixture.server.serving_pid())).into_iter().flatten();
        let targets = open.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    };
    let all = sockets() + fresh;
    let fresh: Vec<Client> = (0..fresh).map(|_| fixture.server.connect()).collect();
    // The kernel keeps the fresh ones back for a second.
    assert!(wait_until(TIMEOUT, || sockets() == all), "{}", fixture.server.stderr());
    let program = fixture.folder.path().join("new");
    copy_program(&program);
    fixture.install(|to| {
        script(to, &format!("#!/bin/sh\nulimit -n {descriptors}\nexec {} \"$@\"\n", program.display()));
    });
    // The command upgrades only a program of root or of the user that calls it.
    fixture.server.signal(Signal::USR2);
    fixture.follow();
    (fixture, clients, fresh)
}

#[test]
fn a_new_program_with_few_descriptors_closes_no_connection_whose_first_request_may_be_on_its_way() {
    let (fixture, _used, mut fresh) = taken_over_with_fresh(100, 8, 64);
    for client in &mut fresh {
        _ = client.try_send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        let outcome = client.outcome();
        assert!(outcome.starts_with("200"), "{outcome}: {}", fixture.server.stderr());
    }
}

#[test]
fn a_new_program_with_few_descriptors_delays_no_client_whose_connection_it_cannot_have() {
    let (fixture, mut clients) = taken_over(200, 64);
    // The old program waits longer than this for another successor.
    let patience = Duration::from_secs(2);
    for client in &mut clients {
        client.set_timeout(patience);
        // It may be closed already.
        _ = client.try_send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        let outcome = client.outcome();
        assert!(!outcome.contains("timed out"), "{outcome}: {}", fixture.server.stderr());
    }
}

#[test]
fn a_new_program_with_few_descriptors_keeps_some_for_the_files_of_its_connections() {
    let (fixture, mut clients) = taken_over(100, 96);
    // Also while it takes over connections, some of which are closed for others.
    for _ in 0..20 {
        let mut client = fixture.server.connect();
        _ = client.try_send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        let outcome = client.outcome();
        assert!(!outcome.starts_with("503"), "{}", fixture.server.stderr());
    }
    let served = clients.iter_mut().filter_map(|client| {
        client.try_send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
        client.try_read_response().ok().map(|response| assert_eq!(response.status, 200))
    });
    assert!(served.count() > 10, "{}", fixture.server.stderr());
    let errors = fixture.server.stderr();
    assert!(!errors.contains("cannot open /a.txt") && !errors.contains("no descriptor was free"), "{errors}");
}

/// Each of the programs gets a message of a kind that it does not know.
#[test]
fn programs_of_versions_with_other_messages_replace_each_other() {
    let mut fixture = Fixture::new(Site::new().file("a.txt", "a"));
    let new = format!(
        "#!/usr/bin/python3\nimport os, socket, subprocess, sys, threading\n\
         old = socket.socket(fileno=int(os.environ['TAIPAN_UPGRADE']))\n\
         new, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
         for one in old, new: one.setblocking(True)\n\
         theirs.setblocking(False)\n\
         os.environ['TAIPAN_UPGRADE'] = str(theirs.fileno())\n\
         program = subprocess.Popen(['{}'] + sys.argv[1:], pass_fds=[theirs.fileno()])\n\
         theirs.close()\n\
         for one in old, new: socket.send_fds(one, [b'Zebra'], [0])\n\
         def pass_on(one, other):\n\
         \x20 while True:\n\
         \x20   message, fds, _, _ = socket.recv_fds(one, 65536, 9)\n\
         \x20   if not message: return\n\
         \x20   socket.send_fds(other, [message], fds)\n\
         \x20   for fd in fds: os.close(fd)\n\
         for ends in (old, new), (new, old): threading.Thread(target=pass_on, args=ends, daemon=True).start()\n\
         program.wait()\n",
        program().display()
    );
    fixture.install(|to| script(to, &new));
    fixture.server.signal(Signal::USR2);
    fixture.follow();
    for line in ["does not know (kind Z); it is ignored", "does not know (kind Z); it is left out"] {
        fixture.server.wait_for_line(line, TIMEOUT);
    }
    assert_eq!(fixture.server.get("/a.txt").text(), "a");
}

#[test]
fn says_why_the_new_program_gets_no_idle_connections() {
    let fixture = Fixture::new(Site::new().file("a.txt", "a"));
    let mut idle = fixture.server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    // It receives everything, names a pipe as the channel for connections, and runs until the old program ends.
    let new = "#!/usr/bin/python3\nimport os, socket\n\
               old = socket.socket(fileno=int(os.environ['TAIPAN_UPGRADE']))\n\
               old.setblocking(True)\n\
               while socket.recv_fds(old, 4096, 9)[0] != b'E': pass\n\
               socket.send_fds(old, [b'T'], [os.pipe()[1]])\n\
               while old.recv(1): pass\n";
    fixture.install(|to| script(to, new));
    fixture.server.signal(Signal::USR2);
    fixture.server.wait_for_line(
        "error: the process that takes over gets no idle connections: Socket operation on non-socket",
        TIMEOUT,
    );
}

/// A server whose master has the account, too.
fn run_by_account(account: &OwnAccount) -> Fixture {
    let site = account.site();
    for folder in [site.home(), &site.root()] {
        fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("it is our folder");
    }
    Fixture::run_by(site, |installed| {
        let folder = installed.parent().expect("it is in a folder");
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("it is our folder");
        account.limited(installed)
    })
}

#[test]
fn idle_connections_wait_while_the_user_has_too_many_descriptors_on_their_way_as_root() {
    let account = OwnAccount::new();
    let site = account.site();
    fs::set_permissions(site.home(), Permissions::from_mode(0o755)).expect("it is our folder");
    let mut limited = tool("sh");
    // The limit is that of the master, too, and the descriptors of all other programs of root count for it.
    limited.args(["-c", &format!("ulimit -n {}; exec \"$0\" \"$@\"", OwnAccount::LIMIT)]).arg(program());
    let server = site.start_by(limited);
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    let mut holder = account.hold(OwnAccount::LIMIT);
    server.reload();
    server.wait_for_line("idle connections wait to be handed off", TIMEOUT);
    holder.end();
    assert_eq!(idle.get("/a.txt").status, 200, "{}", server.stderr());
}

#[test]
fn a_generation_learns_that_it_is_replaced_when_its_user_has_fewer_descriptors_on_their_way_as_root() {
    let account = OwnAccount::new();
    let Fixture { server, folder: _folder, .. } = run_by_account(&account);
    let mut idle: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    idle.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    let mut earlier = Vec::new();
    let mut holder = account.hold(OwnAccount::LIMIT);
    for _ in 0..2 {
        let old = server.serving_pid();
        earlier.push(old);
        server.signal(Signal::HUP);
        server.wait_for_line(&format!("commands to the process {old} wait: more descriptors"), TIMEOUT);
        // All of them accept meanwhile.
        for _ in 0..20 {
            assert_eq!(server.get("/a.txt").status, 200);
        }
        idle.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    }
    holder.end();
    for old in earlier {
        assert!(wait_until(TIMEOUT, || !runs(old)), "{}", server.stderr());
    }
    for client in &mut idle {
        assert_eq!(client.get("/a.txt").status, 200, "it was handed off: {}", server.stderr());
    }
}

#[test]
fn a_generation_that_never_learns_that_it_is_replaced_is_killed_and_the_log_says_why_as_root() {
    let account = OwnAccount::new();
    let site = account.site().config("[timeouts]\nreload = \"1s\"\n");
    fs::set_permissions(site.home(), Permissions::from_mode(0o755)).expect("it is our folder");
    let installed = site.home().join("taipan");
    copy_program(&installed);
    let server = site.start_by(account.limited(&installed));
    let old = server.serving_pid();
    let _holder = account.hold(OwnAccount::LIMIT);
    server.signal(Signal::HUP);
    let line =
        format!("the process {old} has not learnt that it is replaced, and is killed: more descriptors");
    server.wait_for_line(&line, TIMEOUT);
    assert!(wait_until(TIMEOUT, || !runs(old)));
    assert_eq!(server.get("/a.txt").status, 200, "{}", server.stderr());
}

#[test]
fn an_upgrade_waits_while_the_user_of_the_old_program_has_too_many_descriptors_on_their_way_as_root() {
    let account = OwnAccount::new();
    let mut fixture = run_by_account(&account);
    let mut idle = fixture.server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    let mut holder = account.hold(OwnAccount::LIMIT);
    fixture.server.signal(Signal::USR2);
    fixture.server.wait_for_line("the new program waits for what it needs: more descriptors", TIMEOUT);
    assert_eq!(fixture.server.get("/a.txt").status, 200);
    holder.end();
    fixture.follow();
    fixture.server.wait_for_predecessor(AT_ONCE);
    assert_eq!(idle.get("/a.txt").status, 200, "it was handed off: {}", fixture.server.stderr());
}

#[test]
fn the_old_program_learns_that_it_is_replaced_when_the_new_one_can_send_descriptors_as_root() {
    let account = OwnAccount::new();
    let mut fixture = run_by_account(&account);
    let mut idle = fixture.server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    let program = fixture.folder.path().join("new");
    copy_program(&program);
    fixture.install(|to| {
        script(to, &format!("#!/bin/sh\nulimit -n 64\nexec {} \"$@\"\n", program.display()));
    });
    // Not too many for the old one.
    let mut holder = account.hold(100);
    fixture.server.signal(Signal::USR2);
    fixture
        .server
        .wait_for_line("the old program waits for the command to hand off its connections", TIMEOUT);
    for _ in 0..20 {
        assert_eq!(fixture.server.get("/a.txt").status, 200);
    }
    holder.end();
    fixture.follow();
    fixture.server.wait_for_predecessor(AT_ONCE);
    assert_eq!(idle.get("/a.txt").status, 200, "it was handed off: {}", fixture.server.stderr());
}

#[test]
fn the_old_program_can_still_be_stopped() {
    for signal in [Signal::TERM, Signal::INT] {
        let content = Random::new(5).bytes(LONG);
        let mut fixture = Fixture::new(Site::new().file("a.txt", "a").file("long", &content));
        let old = fixture.server.pid();
        let mut download = fixture.server.begin_download("/long");
        let new = fixture.upgrade();
        signal_process(old, signal);
        if signal == Signal::TERM {
            assert!(download.read_response().body == content, "running requests may end");
        }
        fixture.server.wait_for_predecessor(AT_ONCE);
        assert_eq!(fixture.server.get("/a.txt").status, 200);
        assert_eq!(fixture.pid_in_file(), Some(new));
    }
}
