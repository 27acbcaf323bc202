//! What a start makes: addresses, sockets, workers, privileges, the PID file and the log.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;

use e2e::{Client, Signal, TIMEOUT, program, tool};

use super::*;

#[test]
fn serves_a_folder_with_the_name_of_a_misspelt_command() {
    let home = Folder::new();
    home.file("chek/a.txt", "here");
    let mut serve = command();
    serve.current_dir(home.path()).args(["chek", "--listen", "127.0.0.1:0"]);
    assert_eq!(Server::start(serve, 1, None).get("/a.txt").body, b"here");
}

#[test]
fn serves_every_given_address() {
    let home = Folder::new();
    home.file("a.txt", "here");
    let mut serve = command();
    serve.current_dir(home.path()).args([
        ".",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "[::1]:0",
        "--listen",
        "unix:t.sock",
    ]);
    serve.args(["--listen", "127.0.0.1:0"]);
    let mut server = Server::start(serve, 4, None);
    let addresses = server.addresses();
    assert_eq!(addresses[2], Address::Unix("t.sock".into()));
    for address in &addresses {
        let mut client = match address {
            Address::Tcp(address) => Client::tcp(*address),
            Address::Unix(path) => Client::unix(&home.path().join(path)),
        };
        assert_eq!(client.get("/a.txt").body, b"here", "{address:?}");
    }
    let stderr = server.stderr();
    assert!(stderr.lines().next().unwrap().contains(home.path().to_str().unwrap()), "{stderr}");
    assert_eq!(stderr.matches("from this machine only").count(), 3, "{stderr}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    assert!(!home.path().join("t.sock").exists(), "a socket goes with its server");
}

#[test]
fn serves_an_address_that_the_machine_gets_later_as_root() {
    let home = Folder::new();
    home.file("www/a.txt", "here");
    let config = home.file(
        "site.toml",
        "listen = [\"127.0.0.1:8080\", \"192.0.2.1:8080 freebind\", \"[2001:db8::1]:8080 freebind\"]\n\
         user = \"root\"\nroot = \"www\"\n",
    );
    let mut serve = tool("unshare");
    serve
        .args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(program())
        .arg("-c")
        .arg(config);
    let server = Server::start(serve, 3, None);
    let inside = |command: &str| {
        let mut inside = tool("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", server.pid())).args(command.split(' '));
        output_of(&mut inside)
    };
    for (address, url) in [("192.0.2.1/32", "192.0.2.1"), ("2001:db8::1/128", "[2001:db8::1]")] {
        let request = format!("curl -sS -g http://{url}:8080/a.txt");
        assert!(!inside(&request).status.success(), "the machine does not have {address}");
        assert!(inside(&format!("ip addr add {address} dev lo nodad")).status.success(), "{address}");
        assert_eq!(text(&inside(&request).stdout), "here", "{address}");
    }
}

#[test]
fn prints_one_url_per_interface() {
    let home = Folder::new();
    let mut serve = command();
    serve.arg(home.path()).args(["--listen", "0.0.0.0:0"]);
    let server = Server::start(serve, 1, None);
    let stderr = server.stderr();
    assert!(stderr.contains("http://127.0.0.1:") && !stderr.contains("0.0.0.0"), "{stderr}");
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn serves_the_current_folder_on_loopback_port_8080_by_default() {
    let home = Folder::new();
    home.file("here.txt", "here");
    let taken = TcpListener::bind("127.0.0.1:8080");
    if taken.is_err() {
        // The port belongs to another process, and the message says so.
        let output = output_of(command().current_dir(home.path()));
        check_refused(&mut Rows::new(), "port 8080", &output, &["127.0.0.1:8080", "in use", "--listen"]);
        return;
    }
    drop(taken);
    let mut serve = command();
    serve.current_dir(home.path());
    let server = Server::start(serve, 1, None);
    assert_eq!(server.addr(), "127.0.0.1:8080".parse().unwrap());
    assert_eq!(server.get("/here.txt").body, b"here");
    assert!(server.get("/").text().contains("here.txt"), "with a listing");
}

#[test]
fn replaces_a_stale_socket_but_not_one_in_use() {
    let home = Folder::new();
    home.file("a.txt", "here");
    let socket = home.path().join("t.sock");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists(), "the socket stays behind");
    let serve = || {
        let mut serve = command();
        serve.current_dir(home.path()).args([".", "--listen", "unix:t.sock"]);
        serve
    };
    let server = Server::start(serve(), 1, None);
    assert_eq!(Client::unix(&socket).get("/a.txt").body, b"here");
    check_refused(&mut Rows::new(), "a second server", &output_of(&mut serve()), &["unix:t.sock", "in use"]);
    assert_eq!(Client::unix(&socket).get("/a.txt").body, b"here", "the first one still serves");
    drop(server);
    assert!(!socket.exists());
}

#[test]
fn two_workers_serve_together() {
    let home = Folder::new();
    home.file("a.txt", "here");
    let mut serve = command();
    serve.arg(home.path()).args(["--listen", "127.0.0.1:0", "--workers", "2"]);
    let server = Server::start(serve, 1, None);
    let mut clients: Vec<Client> = (0..32).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.get("/a.txt").body, b"here");
        }
    }
    let names = fs::read_dir(format!("/proc/{}/task", server.serving_pid()))
        .unwrap()
        .map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    // A thread that a worker has just started has the worker's name.
    let workers: BTreeSet<String> = names.filter(|name| name.starts_with("worker")).collect();
    assert_eq!(workers.len(), 2);
}

#[test]
fn gives_up_root_before_serving_as_root() {
    let server = Site::new().config("user = \"nobody\"\nworkers = 2").file("a.txt", "here").start();
    assert_eq!(server.get("/a.txt").status, 200);
    for task in fs::read_dir(format!("/proc/{}/task", server.serving_pid())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for key in ["Uid:", "Gid:"] {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            assert!(line.split_whitespace().all(|id| id == "65534"), "{key}{line}");
        }
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        assert!(groups.split_whitespace().all(|id| id == "65534"), "{groups}");
    }
}

#[test]
fn the_pid_file_exists_while_the_program_runs() {
    let mut server = Site::new().config("pid_file = \"taipan.pid\"").start();
    let path = server.home().join("taipan.pid");
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", server.pid()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    assert!(!path.exists());
}

/// Signals would go to the wrong one, and the first to end would take the file from the other.
#[test]
fn two_servers_have_no_pid_file_in_common() {
    let mut server = Site::new().config("pid_file = \"taipan.pid\"").start();
    let path = server.home().join("taipan.pid");
    let pid = format!("{}\n", server.pid());
    let other = Site::new().config(&format!("pid_file = {path:?}"));
    let output = e2e::output_within(command().arg("-c").arg(other.write_config()), TIMEOUT);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains(&format!("the process {} runs with it", server.pid())), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), pid);
    // The lock outlives neither a reload nor a process that was killed.
    server.reload();
    let output = e2e::output_within(command().arg("-c").arg(other.write_config()), TIMEOUT);
    assert!(!output.status.success());
    server.signal(Signal::KILL);
    server.wait(TIMEOUT);
    assert_eq!(fs::read_to_string(&path).unwrap(), pid, "it was left behind");
    let mut other = other.start();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", other.pid()));
    // A file that has taken its place is not removed.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "1\n").unwrap();
    other.signal(Signal::TERM);
    assert_eq!(other.wait(TIMEOUT).code(), Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
}

#[test]
fn taipan_writes_access_lines_on_a_terminal_and_nowhere_else() {
    let home = Folder::new();
    home.file("a.txt", "here");
    let mut serve = command();
    serve.arg(home.path()).args(["--listen", "127.0.0.1:0"]);
    let mut server = Server::start(serve, 1, None);
    assert_eq!(server.get("/a.txt").status, 200);
    server.signal(Signal::TERM);
    server.wait(TIMEOUT);
    assert_eq!(server.stdout(), "", "a pipe is no terminal");

    // script(1) runs it on a terminal and copies the terminal's output.
    let mut script = tool("script");
    let program = e2e::program().display().to_string();
    let line = format!("exec '{program}' '{}' --listen 127.0.0.1:0", home.path().display());
    script.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        let (mut printed, mut piece) = (String::new(), [0; 4096]);
        while let Ok(n @ 1..) = screen.read(&mut piece) {
            printed.push_str(&String::from_utf8_lossy(&piece[..n]));
            if send.send(printed.clone()).is_err() {
                return;
            }
        }
    });
    let wait_for = |part: &str| {
        let until = Instant::now() + TIMEOUT;
        let mut printed = String::new();
        while !printed.contains(part) {
            let left = until.saturating_duration_since(Instant::now());
            printed =
                lines.recv_timeout(left).unwrap_or_else(|_| panic!("no {part:?} on the terminal: {printed}"));
        }
        printed
    };
    let printed = wait_for("from this machine");
    let (_, address) = printed.split_once("http://").unwrap();
    let address = address.split_once('/').unwrap().0.parse().unwrap();
    assert_eq!(Client::tcp(address).get("/a.txt").status, 200);
    wait_for("\"GET /a.txt HTTP/1.1\" 200 4 ");
    // Ctrl-C on the terminal ends it.
    child.stdin.take().unwrap().write_all(&[3]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_port_in_place_of_a_folder_is_one_for_listen() {
    let home = Folder::new();
    for name in ["8080", ":8080"] {
        let output = output_of(command().arg(name).current_dir(home.path()));
        let expected =
            format!("taipan: there is no folder {name}; for a port, write --listen 127.0.0.1:8080\n");
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(2), &*expected));
    }
}

#[test]
fn a_folder_in_place_of_a_configuration_is_one_to_serve() {
    let home = Folder::new();
    std::fs::create_dir(home.path().join("photos")).unwrap();
    let output = output_of(command().args(["-c", "photos"]).current_dir(home.path()));
    let expected = "taipan: photos: it cannot be read: it is a folder; to serve it, run `taipan photos`\n";
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(2), expected));
}
