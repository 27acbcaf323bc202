//! A chroot: logs, types, error pages, scripts and user folders work in it, and `taipan check` lists what it lacks.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::{Folder, Rows, Signal, Site, TIMEOUT, output_of, run, tool, wait_until};

/// Needs the C library.
const DYNAMIC: &str = "#include <stdio.h>\n#include <unistd.h>\n\
     int main(void) { char folder[4096]; printf(\"X-A: b\\n\\nin %s\", getcwd(folder, sizeof folder)); return 0; }\n";

const SHELL: &str =
    "#!/bin/sh\necho to nothing >/dev/null\nprintf 'X-A: b\\n\\nshell %s' \"$SCRIPT_FILENAME\"\n";

/// What `taipan check` says that the chroot lacks, as paths in it.
fn lacks(config: &Path) -> Vec<PathBuf> {
    let checked = run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let errors = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success(), "{errors}");
    let path = |line: &str| line.split_once(" lacks ")?.1.split_once(", for ").map(|(path, _)| path.into());
    errors.lines().filter_map(path).collect()
}

fn supply(jail: &Path, path: &Path) {
    let inside = jail.join(path.strip_prefix("/").expect("it is absolute"));
    fs::create_dir_all(inside.parent().expect("it has one")).expect("it is our folder");
    if path == Path::new("/dev/null") {
        let made = output_of(tool("mknod").arg("-m").arg("666").arg(&inside).args(["c", "1", "3"]));
        assert!(made.status.success(), "{made:?}");
    } else if path.is_dir() {
        fs::create_dir(&inside).expect("it is our folder");
        fs::set_permissions(&inside, Permissions::from_mode(0o1777)).expect("it is ours");
    } else {
        fs::copy(path, &inside).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

#[test]
fn everything_works_once_nothing_is_missing_as_root() {
    let site = Site::new()
        .every_protocol()
        .file_beside_root("a.c", DYNAMIC)
        .script("shell.cgi", SHELL)
        .script("script.x", "#!/no/such/interpreter\n")
        .file("not-executable.cgi", "#!/missing\n")
        .file("style.css", "style")
        .file("404.html", "our page")
        .file_beside_root("home/ann/public_html/index.html", "page of ann")
        .file_beside_root("by/a.example/page", "page of a")
        .script_beside_root("by/a.example/shell.cgi", SHELL);
    let home = site.home().to_owned();
    let compiled = output_of(tool("cc").args(["-o", "www/a.cgi", "a.c"]).current_dir(&home));
    assert!(compiled.status.success(), "{compiled:?}");
    fs::set_permissions(&home, Permissions::from_mode(0o755)).expect("it is ours");
    let site = site.config(
        "chroot = \".\"\nuser = \"daemon\"\nerror_pages = { 404 = \"/404.html\" }\nuser_folders = \"public_html\"\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[host]]\nnames = [\"a.example\", \"none.example\"]\nroot = \"by/$host\"\n\
         [[host.route]]\npath = \"*.cgi\"\ncgi = true\n[accounts]\nhomes = \"home\"\n[log]\naccess = \"./access.log\"\n",
    );
    let config = site.write_config();
    let mut rows = Rows::new();
    let first = lacks(&config);
    let shown = format!("{first:?}");
    for path in ["/bin/sh", "/dev/null", "/var/tmp", "/etc/passwd"] {
        rows.holds(path, &shown, first.contains(&PathBuf::from(path)));
    }
    let names_libc = first.iter().any(|path| path.ends_with("libc.so.6"));
    rows.holds("the library of a program", &shown, names_libc);
    rows.holds("what is no script", &shown, !first.contains(&PathBuf::from("/no/such/interpreter")));
    rows.holds("what is not run", &shown, !first.contains(&PathBuf::from("/missing")));
    // What is supplied may need more.
    for _ in 0..5 {
        for path in lacks(&config) {
            match path.to_str() {
                Some("/etc/passwd") => {
                    fs::create_dir_all(home.join("etc")).expect("it is our folder");
                    let accounts = "ann:x:1000:1000::/home/ann:/bin/sh\nroot:x:0:0::/home/root:/bin/sh\n";
                    fs::write(home.join("etc/passwd"), accounts).expect("it is our folder");
                }
                _ => supply(&home, &path),
            }
        }
    }
    rows.check("complete", lacks(&config), Vec::<PathBuf>::new());
    let server = site.start();
    for round in ["first", "after a reload"] {
        for (path, expected) in [
            ("/a.cgi", "in /www"),
            ("/shell.cgi", "shell /www/shell.cgi"),
            ("/style.css", "style"),
            ("/missing", "our page"),
            ("/~ann/", "page of ann"),
            ("/~root/", "our page"),
        ] {
            rows.check(format!("{round}: {path}"), server.get(path).text().as_str(), expected);
        }
        for (host, path, expected) in [
            ("a.example", "/shell.cgi", "200 shell /by/a.example/shell.cgi"),
            ("a.example", "/page", "200 page of a"),
            ("none.example", "/page", "404"),
        ] {
            let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let found = match response.status {
                200 => format!("200 {}", response.text()),
                status => status.to_string(),
            };
            rows.check(format!("{round}: {host}{path}"), found.as_str(), expected);
        }
        let chunked =
            "POST /shell.cgi HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        rows.check(
            format!("{round}: a body"),
            server.request(chunked).text().as_str(),
            "shell /www/shell.cgi",
        );
        let css = server.get("/style.css");
        rows.check(format!("{round}: its type"), css.field("content-type"), Some("text/css; charset=utf-8"));
        let first = server.serving_pid();
        if round == "first" {
            server.signal(Signal::HUP);
            assert!(wait_until(TIMEOUT, || server.serving_pid() != first), "it is reloaded");
        }
    }
    let log = || fs::read_to_string(home.join("access.log")).unwrap_or_default();
    let is_logged = wait_until(TIMEOUT, || log().matches("/a.cgi").count() >= 2);
    rows.holds("the log", &log(), is_logged);
}

#[test]
fn messages_name_folders_and_users_as_they_are_outside_as_root() {
    let site = Site::new().file_beside_root("closed/page", "page").config(
        "chroot = \".\"\nuser = \"daemon\"\n[[route]]\npath = \"/closed/\"\nalias = \"closed\"\n\
         [[route]]\npath = \"/none/\"\nalias = \"none\"\n[cache_files]\nfolder = \"cached\"\n",
    );
    let home = site.home().to_owned();
    fs::set_permissions(&home, Permissions::from_mode(0o755)).expect("it is ours");
    fs::set_permissions(home.join("closed"), Permissions::from_mode(0o700)).expect("it is ours");
    let checked = run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
    let errors = String::from_utf8_lossy(&checked.stderr).into_owned();
    let home = home.display();
    for expected in [
        format!("user \"daemon\" may not enter {home}/closed (mode 0700); run `chmod o+x {home}/closed`"),
        format!("the root {home}/none does not exist"),
        format!(
            "the folder {home}/cached of the cache: it does not exist; make it, owned by user \"daemon\""
        ),
    ] {
        assert!(errors.contains(&expected), "{expected}\n{errors}");
    }
}

/// The program, for which `/dev/log` is a link to this socket.
fn with_log_daemon(socket: &Path) -> Command {
    const DEVICES: &str =
        "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && ln -s \"$0\" /dev/log && exec \"$@\"";
    let mut command = tool("unshare");
    command.args(["--mount", "sh", "-c", DEVICES]).arg(socket).arg(e2e::program());
    command
}

/// A log daemon at this path.
fn log_daemon(path: &Path) -> UnixDatagram {
    _ = fs::remove_file(path);
    let daemon = UnixDatagram::bind(path).expect("it is our folder");
    fs::set_permissions(path, Permissions::from_mode(0o666)).expect("it is ours");
    daemon.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a socket");
    daemon
}

/// The lines that the daemon has received, after those before.
fn receive(daemon: &UnixDatagram, before: &mut String) {
    let mut line = [0; 4096];
    while let Ok(n) = daemon.recv(&mut line) {
        before.push_str(&String::from_utf8_lossy(&line[..n]));
    }
}

#[test]
fn a_log_daemon_outside_of_the_chroot_may_be_restarted_as_root() {
    let site = Site::new()
        .file("a.txt", "a")
        .config("chroot = \".\"\nuser = \"daemon\"\n[log]\naccess = \"syslog\"\nerror = \"syslog\"\n");
    fs::set_permissions(site.home(), Permissions::from_mode(0o755)).expect("it is ours");
    assert_eq!(lacks(&site.write_config()), Vec::<PathBuf>::new());
    let outside = Folder::new();
    let path = outside.path().join("log");
    let mut daemon = log_daemon(&path);
    let server = site.start_by(with_log_daemon(&path));
    assert_eq!(server.get("/a.txt").status, 200);
    let mut lines = String::new();
    assert!(wait_until(TIMEOUT, || {
        receive(&daemon, &mut lines);
        lines.contains("\"GET /a.txt HTTP/1.1\" 200")
    }));
    for round in ["first", "second"] {
        drop(daemon);
        assert_eq!(server.get("/a.txt").status, 200);
        daemon = log_daemon(&path);
        let mut lines = String::new();
        let mut has = |text: &str| {
            wait_until(TIMEOUT, || {
                assert_eq!(server.get("/a.txt").status, 200);
                receive(&daemon, &mut lines);
                lines.contains(text)
            })
        };
        assert!(has("\"GET /a.txt HTTP/1.1\" 200"), "{round}");
        assert!(has("dropped: the log daemon does not take them"), "{round}");
        // The messages of the master, too.
        server.reload();
        assert!(has("info: control: uid 0"), "{round}");
    }
    assert!(server.stats()["log_lines_dropped"].as_u64().is_some_and(|lines| lines > 0));
}

#[test]
fn a_log_daemon_that_stops_reading_delays_neither_requests_nor_reloads_as_root() {
    let site =
        Site::new().file("a.txt", "a").config("[log]\naccess = \"syslog\"\nerror = \"syslog\"\nqueue = 2");
    let outside = Folder::new();
    let path = outside.path().join("log");
    let daemon = log_daemon(&path);
    let mut server = site.start_by(with_log_daemon(&path));
    let mut client = server.connect();
    // More than the kernel keeps for the daemon.
    for _ in 0..1000 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    for _ in 0..5 {
        server.reload();
    }
    assert_eq!(server.get("/a.txt").status, 200);
    let mut lines = String::new();
    receive(&daemon, &mut lines);
    assert!(lines.contains("\"GET /a.txt HTTP/1.1\" 200"));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
}

/// A log daemon whose socket takes streams.
struct StreamDaemon {
    listener: UnixListener,
    clients: Vec<UnixStream>,
    received: Vec<u8>,
}

impl StreamDaemon {
    fn listen(path: &Path) -> StreamDaemon {
        _ = fs::remove_file(path);
        let listener = UnixListener::bind(path).expect("it is our folder");
        fs::set_permissions(path, Permissions::from_mode(0o666)).expect("it is ours");
        listener.set_nonblocking(true).expect("it is a socket");
        StreamDaemon { listener, clients: Vec::new(), received: Vec::new() }
    }

    /// The messages so far.
    fn messages(&mut self) -> Vec<String> {
        while let Ok((client, _)) = self.listener.accept() {
            client.set_nonblocking(true).expect("it is a socket");
            self.clients.push(client);
        }
        for client in &mut self.clients {
            // It fails when there is nothing to read.
            _ = client.read_to_end(&mut self.received);
        }
        let messages =
            self.received.split_inclusive(|byte| *byte == 0).filter_map(|one| one.strip_suffix(b"\0"));
        messages.map(|message| String::from_utf8_lossy(message).into_owned()).collect()
    }
}

#[test]
fn a_log_daemon_may_take_a_stream_and_may_be_restarted_as_root() {
    let site = Site::new().file("a.txt", "a").config("[log]\naccess = \"syslog\"\nerror = \"syslog\"");
    let outside = Folder::new();
    let path = outside.path().join("log");
    let mut daemon = StreamDaemon::listen(&path);
    let server = site.start_by(with_log_daemon(&path));
    for round in ["first", "second"] {
        let has_line = wait_until(TIMEOUT, || {
            assert_eq!(server.get("/a.txt").status, 200);
            let messages = daemon.messages();
            assert!(
                messages.iter().all(|message| message.starts_with("<30>taipan[")),
                "{round}: {messages:?}"
            );
            messages.iter().any(|message| message.contains("\"GET /a.txt HTTP/1.1\" 200"))
        });
        assert!(has_line, "{round}");
        drop(daemon);
        assert_eq!(server.get("/a.txt").status, 200);
        daemon = StreamDaemon::listen(&path);
    }
}
