//! What the program does not serve: one line with advice, and exit code 2.

use e2e::command_without_privilege;

use super::*;

#[test]
fn prints_one_line_with_advice_when_it_cannot_serve() {
    let home = Folder::new();
    home.folder("www");
    home.file("page.html", "page");
    let two_lines = "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n";
    for (name, rest) in [
        ("unknown.toml", "lisen = []\n"),
        ("user.toml", "user = \"nobody-of-that-name\"\n"),
        ("group.toml", "group = \"root\"\n"),
        ("nobody.toml", ""),
    ] {
        home.file(name, format!("{two_lines}{rest}"));
    }
    // A test that runs as root serves as root on purpose.
    let user = own_user();
    for (name, rest) in [
        ("pid.toml", "pid_file = \"missing/taipan.pid\"\n"),
        ("log.toml", "[log]\naccess = \"missing/access.log\"\n"),
    ] {
        home.file(name, format!("{two_lines}{user}{rest}"));
    }
    home.file("root.toml", format!("listen = [\"127.0.0.1:0\"]\nroot = \"missing\"\n{user}"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let other = Server::folder(home.path());
    let others = other.addr().to_string();
    let table: &[(&[&str], &[&str])] = &[
        (&["missing"], &["no folder missing", "create it"]),
        (&["page.html"], &["page.html is not a folder", "name the folder", "taipan -c page.html"]),
        (&["page.html/below"], &["page.html/below"]),
        (&["www", "--listen", &taken], &[&taken, "in use", "--listen"]),
        (&["www", "--listen", &others], &[&others, "in use", "--listen"]),
        (&["www", "--listen", &others, "--workers", "2"], &[&others, "in use", "--listen"]),
        (&["www", "--listen", "nonsense"], &["nonsense", "not an address", "127.0.0.1:8080"]),
        (&["www", "--listen", ":8080"], &[":8080", "127.0.0.1:8080", "0.0.0.0:8080", "[::]:8080"]),
        (&["www", "--listen", "localhost:8080"], &["localhost:8080", "127.0.0.1:8080"]),
        (&["www", "--listen", "127.0.0.1:65536"], &["127.0.0.1:65536", "not an address"]),
        (&["www", "--listen", "192.0.2.1:0"], &["192.0.2.1:0", "does not have that address"]),
        (
            &["www", "--listen", "unix:missing/t.sock"],
            &["unix:missing/t.sock", "folder does not exist", "create it"],
        ),
        (&["www", "--listen", "unix:page.html"], &["unix:page.html", "not a socket", "--listen"]),
        (
            &["www", "--listen", "127.0.0.1:0 tls"],
            &["\"127.0.0.1:0 tls\" needs a certificate", "--tls localhost", "remove the word tls"],
        ),
        (
            &["-c", "pid.toml", "--listen", "127.0.0.1:0 tls"],
            &["\"127.0.0.1:0 tls\" needs a certificate", "acme = true"],
        ),
        (&["www", "--lisen", "127.0.0.1:0"], &["unknown flag --lisen", "--listen?"]),
        (&["www", "-x"], &["unknown flag -x", "--help"]),
        (&["www", "--port", "8080"], &["unknown flag --port", "--listen 127.0.0.1:PORT"]),
        (
            &["www", "--listen", "8080"],
            &["8080 is not an address", "write \"127.0.0.1:8080\" for this machine"],
        ),
        (&["www", "-s", "reload"], &["unknown flag -s", "taipan reload -c FILE"]),
        (&["www", "-l", "0.0.0.0:8123", "-l", "127.0.0.1:8123"], &["0.0.0.0:8123", "127.0.0.1:8123 overlap"]),
        (&["www", "-w", "many"], &["-w takes a number", "many"]),
        (&["chek"], &["no folder chek", "did you mean taipan check?"]),
        (&["chek", "-c", "unknown.toml"], &["no command chek", "did you mean taipan check?"]),
        (&["explian", "GET", "/"], &["no command explian", "did you mean taipan explain?"]),
        (&["start"], &["no folder start", "taipan DIR"]),
        (&["www", "--listen"], &["--listen", "--help"]),
        (&["www", "--workers", "many"], &["--workers", "number", "many"]),
        (&["www", "--workers", "0"], &["--workers"]),
        (&["www", "--workers", "100000"], &["--workers"]),
        // Another test may have the default port.
        (
            &["www", "--listen", "127.0.0.1:0", "--access-log", "missing/access.log"],
            &["missing/access.log", "cannot open"],
        ),
        (&["www", "page.html"], &["only one folder", "configuration"]),
        (&["www", "-c", "site.toml"], &["not both"]),
        (&["-c", "missing.toml"], &["missing.toml: it cannot be read: No such file", "check its path"]),
        (&["-c", "www"], &["www"]),
        (&["-c", "unknown.toml"], &["unknown.toml:3: unknown key \"lisen\"", "did you mean \"listen\"?"]),
        (&["-c", "user.toml"], &["nobody-of-that-name", "create it"]),
        (&["-c", "group.toml"], &["add `user`"]),
        (&["-c", "pid.toml"], &["missing/taipan.pid", "cannot write"]),
        (&["-c", "log.toml"], &["missing/access.log", "cannot open"]),
        (&["-c", "root.toml"], &["missing", "create it"]),
        (&["check"], &["taipan check -c FILE"]),
        (
            &["check", "-c", "root.toml", "--listen", "127.0.0.1:0"],
            &["--listen is not a flag of taipan check"],
        ),
        (&["explain", "GET"], &["a method and a URL"]),
        (&["explain", "GET", "/", "--root", "missing"], &["no folder missing"]),
        (&["healthcheck"], &["one URL"]),
        (&["generate", "tcsh"], &["man, bash, zsh and fish"]),
    ];
    let mut rows = Rows::new();
    if is_root() {
        let config = home.path().join("nobody.toml");
        let config = config.to_str().expect("our own path");
        for (arguments, code) in [(&["-c", config][..], 2), (&["check", "-c", config], 1)] {
            let output = run(arguments.iter().copied());
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            rows.check(format!("root without a user: {arguments:?}"), output.status.code(), Some(code));
            rows.holds(
                &stderr,
                "how root would serve",
                stderr.contains("refusing to serve as root: set `user`")
                    && stderr.contains("`user = \"root\"`"),
            );
        }
    }
    for (arguments, parts) in table {
        let output = output_of(command().args(*arguments).current_dir(home.path()));
        check_refused(&mut rows, &arguments.join(" "), &output, parts);
    }
    assert_eq!(fs::read(home.path().join("page.html")).unwrap(), b"page", "what is no socket stays");
    assert_eq!(other.get("/page.html").body, b"page", "the first one still serves");
}

#[test]
fn a_second_start_suggests_a_reload() {
    let home = Folder::new();
    home.file("a.txt", "here");
    let address = format!("127.0.0.1:{}", free_port());
    let user = own_user();
    let config = home.file("site.toml", format!("listen = [\"{address}\"]\nroot = \".\"\n{user}"));
    let start = || {
        let mut start = command();
        start.arg("-c").arg(&config);
        start
    };
    let server = Server::start(start(), 1, None);
    let mut rows = Rows::new();
    let advice = format!("taipan reload -c {}", config.display());
    check_refused(&mut rows, "a configuration", &output_of(&mut start()), &[&address, "in use", &advice]);
    // A server of something else is a different instance.
    let output = output_of(command().arg(home.path()).args(["--listen", &address]));
    check_refused(&mut rows, "a folder", &output, &[&address, "in use by another program", "--listen"]);
    let folder = Server::folder(home.path());
    let others = folder.addr().to_string();
    let output = output_of(command().arg(home.path()).args(["--listen", &others]));
    check_refused(&mut rows, "the same folder", &output, &[&others, "is running already", "--listen"]);
    rows.check("it still serves", server.get("/a.txt").status, 200);
}

#[test]
fn reports_an_unreadable_folder_at_start() {
    let home = Folder::new();
    home.folder("closed/below");
    let set_mode =
        |mode| fs::set_permissions(home.path().join("closed"), Permissions::from_mode(mode)).unwrap();
    set_mode(0o000);
    for folder in ["closed", "closed/below"] {
        let mut command = command_without_privilege(home.path());
        let output = output_of(command.args([folder, "--listen", "127.0.0.1:0"]).current_dir(home.path()));
        check_refused(&mut Rows::new(), folder, &output, &["no permission", folder, "run as a user"]);
    }
    // So that the folder can be removed.
    set_mode(0o755);
}

#[test]
fn a_port_below_1024_needs_permission() {
    let limit: u16 =
        fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap().trim().parse().unwrap();
    if limit <= 1 {
        // Here every user may listen on low ports.
        return;
    }
    let home = Folder::new();
    let mut command = command_without_privilege(home.path());
    let output = output_of(command.args([".", "--listen", "127.0.0.1:1"]).current_dir(home.path()));
    check_refused(&mut Rows::new(), "port 1", &output, &["127.0.0.1:1", "no permission", "1024"]);
}
