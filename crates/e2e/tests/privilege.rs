//! The program as root: it opens logs, the pid file and sockets where another user may have put links, and
//! does not follow that user's links.
//!
//! Only root can act as other users, so these tests run as root only.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Client, Folder, OwnAccount, Rows, Server, Signal, Site, TIMEOUT, children_of, command,
    command_without_privilege, has_open, is_root, output_of, parent_of, signal_process, tool, wait_until,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The user and the group `nobody`.
const NOBODY: u32 = 65534;
/// A group without `nobody`.
const OTHER_GROUP: u32 = 4;
const SECRET: &str = "nothing that a client sends belongs here\n";

/// A site served as `nobody`, with a folder `logs` of that user and a file `secret` of root.
fn site(config: &str) -> Site {
    let site = Site::new()
        .file("a.txt", "a")
        .file_beside_root("secret", SECRET)
        .config(&format!("user = \"nobody\"\n{config}"));
    fs::create_dir(site.home().join("logs")).unwrap();
    give(&site.home().join("logs"), NOBODY, 0o755);
    set_mode(&site.home().join("secret"), 0o600);
    site
}

fn give(path: &Path, user: u32, mode: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    set_mode(path, mode);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A start that has to fail: its exit code and its standard error.
fn refused(site: &Site) -> (Option<i32>, String) {
    let mut command = command();
    command.arg("-c").arg(site.write_config()).current_dir(site.home());
    let Output { status, stderr, .. } = output_of(&mut command);
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// The real user of a process.
fn user_of(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|user| user.parse().ok()).unwrap_or(u32::MAX)
}

fn owner(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

/// Actions of the owner of a folder, or of the group of another user, and the server's message.
type Row = (&'static str, fn(&Path), &'static str, &'static str);

const REFUSED: &[Row] = &[
    (
        "a log that is a link to a file of root's",
        |home| symlink("../secret", home.join("logs/access.log")).unwrap(),
        "[log]\naccess = \"logs/access.log\"",
        "it is a link, and user \"nobody\" can have made it; remove it",
    ),
    (
        "a log that is a link to a file that is to be",
        |home| symlink("/etc/taipan-made-by-a-link", home.join("logs/access.log")).unwrap(),
        "[log]\naccess = \"logs/access.log\"",
        "it is a link",
    ),
    (
        "an error log that is a link",
        |home| symlink("../secret", home.join("logs/error.log")).unwrap(),
        "[log]\nerror = \"logs/error.log\"",
        "it is a link",
    ),
    (
        "a link on the way",
        |home| symlink("..", home.join("logs/up")).unwrap(),
        "[log]\naccess = \"logs/up/secret\"",
        "logs/up is a link, and user \"nobody\" can have made it",
    ),
    (
        "a file of root's, in a folder that is not",
        |home| fs::rename(home.join("secret"), home.join("logs/access.log")).unwrap(),
        "[log]\naccess = \"logs/access.log\"",
        "user \"nobody\" has no permission, and files in a folder of user \"nobody\" are opened with",
    ),
    (
        "another name of a file of root's",
        |home| fs::hard_link(home.join("secret"), home.join("logs/access.log")).unwrap(),
        "[log]\naccess = \"logs/access.log\"",
        "user \"nobody\" has no permission",
    ),
    (
        "a FIFO in a folder of the user's",
        |home| {
            let path = home.join("logs/access.log");
            mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
            give(&path, NOBODY, 0o600);
        },
        "[log]\naccess = \"logs/access.log\"",
        "FIFO",
    ),
    (
        "a folder that every user can write",
        |home| set_mode(&home.join("logs"), 0o777),
        "[log]\naccess = \"logs/access.log\"",
        "every user can replace what is in",
    ),
    (
        "a folder that a group can write",
        |home| {
            chown(home.join("logs"), Some(0), Some(OTHER_GROUP)).unwrap();
            set_mode(&home.join("logs"), 0o775);
        },
        "[log]\naccess = \"logs/access.log\"",
        "group \"adm\" can replace what is in",
    ),
    (
        "a file of another user's, in a folder that every user can write",
        |home| {
            give(&home.join("logs"), 0, 0o1777);
            fs::write(home.join("logs/access.log"), "").unwrap();
            give(&home.join("logs/access.log"), NOBODY, 0o644);
        },
        "[log]\naccess = \"logs/access.log\"",
        "it belongs to user \"nobody\", in a folder where other users can put files; remove",
    ),
    (
        "another name of a file of root's, in a folder that every user can write",
        |home| {
            give(&home.join("logs"), 0, 0o1777);
            fs::hard_link(home.join("secret"), home.join("logs/access.log")).unwrap();
        },
        "[log]\naccess = \"logs/access.log\"",
        "a hard link",
    ),
    (
        "a link in a folder that every user can write",
        |home| {
            give(&home.join("logs"), 0, 0o1777);
            symlink("../secret", home.join("logs/access.log")).unwrap();
        },
        "[log]\naccess = \"logs/access.log\"",
        "it is a link, and every user can have made it",
    ),
    (
        "a folder of another user's, in a folder that every user can write",
        |home| {
            give(&home.join("logs"), 0, 0o1777);
            fs::create_dir(home.join("logs/own")).unwrap();
            give(&home.join("logs/own"), NOBODY, 0o755);
        },
        "[log]\naccess = \"logs/own/access.log\"",
        "belongs to user \"nobody\", in a folder where every user can replace it",
    ),
    (
        "a folder of a user in a folder of another",
        |home| {
            fs::create_dir(home.join("logs/own")).unwrap();
            give(&home.join("logs/own"), 1, 0o755);
        },
        "[log]\naccess = \"logs/own/access.log\"",
        "belongs to user \"daemon\", in a folder where user \"nobody\" can replace it",
    ),
    (
        "a pid file that is a link",
        |home| {
            give(&home.join("logs"), 0, 0o1777);
            symlink("../secret", home.join("logs/pid")).unwrap();
        },
        "pid_file = \"logs/pid\"",
        "it is a link",
    ),
    (
        "a pid file that the user can replace",
        |_| {},
        "pid_file = \"logs/pid\"",
        "user \"nobody\" can replace it, and with it the process that signals are sent to",
    ),
    (
        "a socket beneath a link of the user's",
        |home| symlink("..", home.join("logs/up")).unwrap(),
        "listen = [\"unix:logs/up/a.sock\"]",
        "logs/up is a link",
    ),
    (
        "a socket where every user can replace it",
        |home| set_mode(&home.join("logs"), 0o777),
        "listen = [\"unix:logs/a.sock\"]",
        "every user can replace what is in",
    ),
];

#[test]
fn as_root_refuses_files_that_another_user_can_replace() {
    let mut rows = Rows::new();
    for (what, act, config, why) in REFUSED {
        let site = site(config);
        act(site.home());
        let secret = [site.home().join("secret"), site.home().join("logs/access.log")];
        let (code, printed) = refused(&site);
        rows.check(what, code, Some(2));
        rows.holds(what, &format!("it says {why:?}: {printed}"), printed.contains(why));
        let left =
            secret.iter().find_map(|path| fs::read_to_string(path).ok().filter(|text| !text.is_empty()));
        rows.check(what, left.as_deref(), Some(SECRET));
        rows.holds(what, "nothing is made", !Path::new("/etc/taipan-made-by-a-link").exists());
    }
}

/// A server with its logs in the folder of its user; its error log is its standard error.
fn with_log() -> Server {
    let server = site("[log]\naccess = \"logs/access.log\"").start();
    assert_eq!(server.get("/a.txt").status, 200);
    server
}

fn has_lines(path: &Path, count: usize) -> bool {
    wait_until(TIMEOUT, || fs::read_to_string(path).unwrap_or_default().lines().count() >= count)
}

#[test]
fn never_follows_a_link_in_place_of_a_log_as_root() {
    let mut rows = Rows::new();
    for (what, act, expected) in [
        (
            "SIGUSR1",
            (|server| server.signal(Signal::USR1)) as fn(&Server),
            "the server continues to write to the old file",
        ),
        ("SIGHUP", |server| server.signal(Signal::HUP), "nothing was changed"),
        ("reload", |server| drop(server.reload_error()), "nothing was changed"),
        ("upgrade", |server| drop(server.run_command(&["upgrade"])), "this program continues"),
    ] {
        let server = with_log();
        let log = server.home().join("logs/access.log");
        let moved = server.home().join("logs/moved");
        for (link, target) in [("../secret", "secret"), ("../made", "made")] {
            fs::rename(&log, &moved).unwrap();
            symlink(link, &log).unwrap();
            act(&server);
            let printed = |lines: &[String]| {
                let count = |text| lines.iter().filter(|line| line.contains(text)).count();
                let times = if target == "secret" { 1 } else { 2 };
                (count("it is a link") >= times && count(expected) >= times).then_some(())
            };
            let logged = server.errors().wait_for(TIMEOUT, printed).is_some();
            rows.holds(what, &format!("it says why:\n{}", server.stderr()), logged);
            fs::remove_file(&log).unwrap();
            fs::rename(&moved, &log).unwrap();
        }
        rows.check(what, server.get("/a.txt").status, 200);
        rows.holds(what, "the old one is written on", has_lines(&log, 2));
        let secret = fs::read_to_string(server.home().join("secret")).unwrap();
        rows.check(what, secret.as_str(), SECRET);
        rows.holds(what, "nothing is made", !server.home().join("made").exists());
    }
}

#[test]
fn creates_logs_with_the_documented_owner_and_mode_as_root() {
    let site = site(
        "pid_file = \"root/pid\"\n[log]\naccess = \"logs/access.log\"\nerror = \"root/error.log\"\n\
         [[host]]\nnames = \"b\"\nroot = \"www\"\naccess_log = \"all/b.log\"",
    );
    for (folder, user, group, mode) in
        [("logs", NOBODY, OTHER_GROUP, 0o750), ("root", 0, OTHER_GROUP, 0o750), ("all", 0, 0, 0o1777)]
    {
        let path = site.home().join(folder);
        fs::create_dir_all(&path).unwrap();
        chown(&path, Some(user), Some(group)).unwrap();
        set_mode(&path, mode);
    }
    // The mode is as documented, whatever the umask.
    let mut shell = tool("sh");
    shell.args(["-c", "umask 0077; exec \"$0\" \"$@\""]).arg(e2e::program());
    let server = site.start_by(shell);
    let found = |name: &str| owner(&server.home().join(name));
    assert_eq!(found("logs/access.log"), (NOBODY, OTHER_GROUP, 0o640));
    assert_eq!(found("root/error.log"), (0, OTHER_GROUP, 0o640));
    assert_eq!(found("all/b.log"), (0, 0, 0o640));
    assert_eq!(found("root/pid"), (0, OTHER_GROUP, 0o644));
    // After a rotation, they are created again in the same way.
    for name in ["logs/access.log", "root/error.log", "all/b.log"] {
        fs::rename(server.home().join(name), server.home().join(format!("{name}.1"))).unwrap();
    }
    server.signal(Signal::USR1);
    let is_open = |name: &str| has_open(server.serving_pid(), &server.home().join(name));
    assert!(wait_until(TIMEOUT, || ["logs/access.log", "root/error.log", "all/b.log"]
        .into_iter()
        .all(is_open)));
    assert_eq!(found("logs/access.log"), (NOBODY, OTHER_GROUP, 0o640));
    assert_eq!(found("root/error.log"), (0, OTHER_GROUP, 0o640));
    assert_eq!(found("all/b.log"), (0, 0, 0o640));
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(has_lines(&server.home().join("logs/access.log"), 1));
    // Existing logs are opened as they are.
    server.reload();
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(has_lines(&server.home().join("logs/access.log"), 2));
}

#[test]
fn follows_links_made_by_root_as_root() {
    let site = site("[log]\naccess = \"linked/out.log\"\nerror = \"linked/error.log\"");
    fs::create_dir(site.home().join("real")).unwrap();
    symlink("real", site.home().join("linked")).unwrap();
    symlink("/dev/stdout", site.home().join("real/out.log")).unwrap();
    symlink("../logs/error.log", site.home().join("real/error.log")).unwrap();
    let server = site.start();
    assert_eq!(server.get("/a.txt").status, 200);
    server.wait_for_output("\"GET /a.txt HTTP/1.1\" 200", TIMEOUT);
    assert_eq!(owner(&server.home().join("logs/error.log")).0, NOBODY);
}

#[test]
fn a_socket_in_the_folder_of_a_user_belongs_to_that_user_as_root() {
    let mut server = site("listen = [\"unix:logs/a.sock\", \"unix:b.sock\"]").start();
    let (own, roots) = (server.home().join("logs/a.sock"), server.home().join("b.sock"));
    assert_eq!(owner(&own), (NOBODY, NOBODY, 0o666));
    assert_eq!(owner(&roots), (0, 0, 0o666));
    for path in [&own, &roots] {
        assert_eq!(Client::unix(path).get("/a.txt").status, 200);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    assert!(!own.exists() && !roots.exists());
}

#[test]
fn removes_nothing_behind_a_link_of_the_user_as_root() {
    let site = site("");
    let logs = site.home().join("logs");
    fs::create_dir(logs.join("own")).unwrap();
    give(&logs.join("own"), NOBODY, 0o755);
    let mut server = site.config("listen = [\"127.0.0.1:0\", \"unix:logs/own/secret\"]").start();
    assert_eq!(Client::unix(&logs.join("own/secret")).get("/a.txt").status, 200);
    fs::rename(logs.join("own"), logs.join("moved")).unwrap();
    symlink("..", logs.join("own")).unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    assert_eq!(fs::read_to_string(server.home().join("secret")).unwrap(), SECRET);
}

#[test]
fn a_script_of_the_same_user_cannot_read_server_processes() {
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nmaster=$(cat ../pid)\n\
                for process in $master $(cat /proc/$master/task/$master/children); do\n\
                if head -c 1 /proc/$process/environ >/dev/null 2>&1; then echo open; else echo closed; fi\n\
                done\nhead -c 1 /proc/$$/environ >/dev/null && echo its own";
    let site = Site::new()
        .script("a.cgi", text)
        .config("pid_file = \"pid\"\n[[route]]\npath = \"*.cgi\"\ncgi = true");
    let config = site.write_config();
    if is_root() {
        give(site.home(), NOBODY, 0o755);
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("user = \"root\"\n", "")).unwrap();
    }
    let server = site.start_with(1, |site| {
        let mut command = command_without_privilege(site.home());
        command.arg("-c").arg(&config).current_dir(site.home());
        command
    });
    assert_eq!(server.get("/a.cgi").text(), "closed\nclosed\nclosed\nits own\n");
}

/// A folder that only root may enter; the folder to serve is inside.
fn closed_home() -> Folder {
    let home = Folder::new();
    home.file("clone/a.txt", "a");
    home.file("clone/below/b.txt", "b");
    home.file("secret", SECRET);
    home.symlink("clone/out", "../secret");
    home.symlink("clone/near", home.path().join("clone/a.txt"));
    set_mode(home.path(), 0o700);
    home
}

fn serves_all_and_no_more(server: &Server, rows: &mut Rows, what: &str) {
    for (path, status) in [
        ("/a.txt", 200),
        ("/near", 200),
        ("/below/b.txt", 200),
        ("/below/", 200),
        ("/below/../a.txt", 200),
        ("/", 200),
        ("/out", 403),
        ("/missing", 404),
        ("/../secret", 400),
        ("/%2e%2e/secret", 400),
    ] {
        rows.check(format!("{what}: {path}"), server.get(path).status, status);
    }
}

#[test]
fn as_root_serves_a_folder_that_the_account_cannot_reach() {
    let mut rows = Rows::new();
    for arguments in [&["clone"] as &[&str], &["."]] {
        let home = closed_home();
        let here = if arguments == ["."] { "clone" } else { "" };
        let mut serve = command();
        serve.current_dir(home.path().join(here));
        serve.args(arguments).args(["--listen", "127.0.0.1:0", "--user", "nobody"]);
        let mut server = Server::start(serve, 1, None);
        serves_all_and_no_more(&server, &mut rows, "at first");
        // The server checks roots again after a second; new files come from the disk.
        let until = Instant::now() + Duration::from_millis(2500);
        for number in 0.. {
            let name = format!("clone/new-{number}");
            home.file(&name, "new");
            rows.check("again", server.get(&format!("/new-{number}")).status, 200);
            if Instant::now() > until {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let folder = home.path().join("clone");
        let run = |word: &str| {
            let mut command = command();
            command.arg(word).arg("--root").arg(&folder);
            output_of(&mut command).status.code()
        };
        let before = server.serving_pid();
        server.signal(Signal::HUP);
        let is_another = || matches!(server.children()[..], [pid] if pid != before);
        rows.holds("reload", &server.stderr(), wait_until(TIMEOUT, is_another));
        serves_all_and_no_more(&server, &mut rows, "after a reload");
        rows.check("upgrade", run("upgrade"), Some(0));
        let stats = {
            let mut command = command();
            command.args(["stats", "--json", "--root"]).arg(&folder);
            output_of(&mut command).stdout
        };
        let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap();
        let serving = stats["process"].as_u64().unwrap() as u32;
        server.succeeded_by(parent_of(serving));
        serves_all_and_no_more(&server, &mut rows, "after an upgrade");
        rows.holds("stderr", &server.stderr(), !server.stderr().contains("cannot"));
    }
}

#[test]
fn names_a_folder_that_the_account_cannot_read_with_advice_as_root() {
    let mut rows = Rows::new();
    let home = closed_home();
    let folder = home.path().join("clone");
    let closed = home.path().display().to_string();
    home.file("clone/file", "");
    for (root, why) in [
        ("clone", format!("user \"nobody\" may not enter {closed} (mode 0700); run `chmod o+x {closed}`")),
        ("clone/below/deeper", format!("user \"nobody\" may not enter {closed} (mode 0700)")),
    ] {
        let config = format!("listen = [\"127.0.0.1:0\"]\nuser = \"nobody\"\nroot = \"{root}\"\n");
        let config = home.file("site.toml", config);
        let output = output_of(command().arg("-c").arg(config));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.check(root, output.status.code(), Some(2));
        rows.holds(root, &format!("{why}: {stderr}"), stderr.contains(&why));
    }
    set_mode(home.path(), 0o755);
    for (root, why) in [
        ("clone/below", format!("user \"nobody\" may not enter {}/below (mode 0700)", folder.display())),
        ("clone/file", "clone/file is not a folder; name the folder that it is in".to_owned()),
        ("clone/file/x", "clone/file is not a folder".to_owned()),
        ("clone/none/x", format!("there is no {}/none; create it", folder.display())),
        ("none", "does not exist; create it".to_owned()),
    ] {
        set_mode(&folder.join("below"), 0o700);
        let config = format!("listen = [\"127.0.0.1:0\"]\nuser = \"nobody\"\nroot = \"{root}\"\n");
        let config = home.file("site.toml", config);
        let output = output_of(command().arg("-c").arg(config));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.check(root, output.status.code(), Some(2));
        rows.holds(root, &format!("{why}: {stderr}"), stderr.contains(&why));
    }
    // For this folder itself, no other descriptor helps.
    let output =
        output_of(command().arg(folder.join("below")).args(["--listen", "127.0.0.1:0", "--user", "nobody"]));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    rows.check("DIR", output.status.code(), Some(2));
    rows.holds(
        "DIR",
        &stderr,
        stderr.contains("may not enter") && stderr.contains("or serve it as another user, by --user"),
    );
}

/// The program, with this `/etc/passwd`.
fn with_accounts(home: &Path, accounts: &str) -> Command {
    let file = home.join("passwd");
    fs::write(&file, accounts).unwrap();
    let mut command = tool("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/passwd && exec \"$@\""]).arg(file);
    command.arg(e2e::program());
    command
}

#[test]
fn as_root_serves_as_the_taipan_account_or_else_as_nobody() {
    let home = Folder::new();
    home.file("www/a.txt", "a");
    let config = home.file("site.toml", "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n");
    let www = home.path().join("www");
    let others = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n";
    let own = format!("{others}taipan:x:4321:65534::/:/usr/sbin/nologin\n");
    let user = |server: &Server| user_of(server.serving_pid());
    let serve_folder = |accounts: &str| {
        let mut command = with_accounts(home.path(), accounts);
        command.arg(&www).args(["--listen", "127.0.0.1:0"]);
        Server::start(command, 1, None)
    };
    let server = serve_folder(&own);
    assert_eq!((user(&server), server.get("/a.txt").status), (4321, 200));
    assert!(server.stderr().contains("as user taipan") && !server.stderr().contains("useradd"));
    drop(server);
    let server = serve_folder(others);
    assert_eq!((user(&server), server.get("/a.txt").status), (65534, 200));
    server.wait_for_line(
        "it serves as user nobody, which other programs may use, too; to give it a user of its own: useradd",
        TIMEOUT,
    );
    drop(server);
    let mut command = with_accounts(home.path(), &own);
    command.arg("-c").arg(&config);
    let server = Server::start(command, 1, None);
    assert_eq!((user(&server), server.get("/a.txt").status), (4321, 200));
    drop(server);
    let output = output_of(with_accounts(home.path(), others).arg("-c").arg(&config));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("refusing to serve as root: set `user`")
            && stderr.contains("create the account `taipan`"),
        "{stderr}"
    );
}

#[test]
fn a_device_without_accounts_has_root_and_nobody() {
    let ids = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\necho $(id -u):$(id -g)\n";
    let site = Site::new().script("a.cgi", ids).script("b.cgi", ids).config(
        "user = \"nobody\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[route]]\npath = \"/b.cgi\"\ncgi = true\nuser = \"root\"\ngroup = \"root\"\n",
    );
    set_mode(site.home(), 0o755);
    let mut command = tool("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /etc && exec \"$@\"", "sh"]);
    command.arg(e2e::program());
    let server = site.start_by(command);
    assert_eq!(user_of(server.serving_pid()), 65534);
    assert_eq!(server.get("/a.cgi").text(), "65534:65534\n");
    assert_eq!(server.get("/b.cgi").text(), "0:0\n");
}

#[test]
fn serves_after_a_crash_although_its_users_have_been_removed_as_root() {
    let root = "root:x:0:0::/root:/bin/sh\n";
    let users = ["own", "scripts", "apps"].into_iter().zip(4321..);
    let user = |(name, id): (&str, u32)| format!("{name}:x:{id}:{id}::/:/usr/sbin/nologin\n");
    let users: String = users.map(user).collect();
    let site = Site::new().script("a.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nid -u\n").config(
        "user = \"own\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\nuser = \"scripts\"\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\ncommand = [\"/bin/sleep\", \"1000\"]\nuser = \"apps\"\n",
    );
    set_mode(site.home(), 0o755);
    let command = with_accounts(site.home(), &format!("{root}{users}"));
    let server = site.start_by(command);
    let ids = || server.get("/a.cgi").text();
    assert_eq!(ids(), "4322\n");
    // In place: the file itself is mounted.
    fs::write(server.home().join("passwd"), root).unwrap();
    assert!(server.reload_error().contains("there is no user \"own\"; create it"), "{}", server.stderr());
    server.replace_workers();
    assert_eq!(ids(), "4322\n", "{}", server.stderr());
    assert_eq!(user_of(server.processes("worker")[0]), 4321);
    server.wait_for_line(
        "there is no user \"own\"; create it; until a reload, the ids from before are used",
        TIMEOUT,
    );
    // The process that manages the application starts it with the same id, too.
    let managers = || server.children().into_iter().flat_map(children_of).filter(|pid| user_of(*pid) == 4323);
    let [application] = managers().collect::<Vec<_>>()[..] else { panic!("{}", server.stderr()) };
    signal_process(parent_of(application), Signal::KILL);
    let has_another = || managers().any(|other| other != application);
    assert!(wait_until(TIMEOUT, has_another), "{}", server.stderr());
    assert_eq!(ids(), "4322\n", "{}", server.stderr());
}

#[test]
fn packages_create_the_account() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/sysusers.d/taipan.conf");
    let file = file.canonicalize().unwrap();
    let output = output_of(tool("systemd-sysusers").arg("--dry-run").arg(file));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && (stderr.contains("taipan") || stderr.is_empty()), "{stderr}");
}

#[test]
fn a_start_with_too_few_processes_says_what_to_raise_as_root() {
    let account = OwnAccount::new();
    let site = account.site();
    set_mode(site.home(), 0o755);
    let config = site.write_config();
    let mut rows = Rows::new();
    let mut refused = 0;
    // Enough for the master, for the serving process, and for its log thread.
    for most in 1..=3 {
        let mut limited = account.with_processes(most);
        let output = output_of(limited.arg("-c").arg(&config).current_dir(site.home()));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_explained =
            stderr.contains("Resource temporarily unavailable") && stderr.contains("LimitNPROC");
        let is_explained = is_explained && !stderr.contains("os error");
        rows.check(&stderr, output.status.code(), Some(2));
        rows.holds(&stderr, "it says what to raise", is_explained);
        refused += usize::from(stderr.contains("cannot start a worker: "));
    }
    rows.holds("workers", "one could not be started", refused > 0);
}

/// The program in a user namespace that has no user but root, and no right to set groups.
fn in_user_namespace() -> Command {
    let mut command = tool("unshare");
    command.args(["--user", "--map-root-user"]).arg(e2e::program());
    command
}

#[test]
fn serves_as_the_only_user_of_a_user_namespace_and_says_so_where_it_cannot_have_another() {
    let mut command = in_user_namespace();
    let home = Folder::new();
    home.file("www/a.txt", "a");
    let www = home.path().join("www");
    command.arg(&www).args(["--listen", "127.0.0.1:0", "--user", "root"]);
    let server = Server::start(command, 1, None);
    assert_eq!(server.get("/a.txt").status, 200);
    drop(server);
    let mut command = in_user_namespace();
    command.arg(&www).args(["--listen", "127.0.0.1:0", "--user", "nobody"]);
    let output = output_of(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("user namespace") && stderr.contains("--user root"), "{stderr}");
}

#[test]
fn root_serves_as_root_where_there_are_no_accounts() {
    let home = Folder::new();
    home.file("www/a.txt", "a");
    for user in ["root", "0"] {
        let mut command = with_accounts(home.path(), "");
        command.arg(home.path().join("www")).args(["--listen", "127.0.0.1:0", "--user", user]);
        let server = Server::start(command, 1, None);
        assert_eq!((user_of(server.serving_pid()), server.get("/a.txt").status), (0, 200), "{user}");
    }
}
