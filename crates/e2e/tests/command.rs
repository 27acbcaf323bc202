//! The command line: arguments, messages, and exit codes.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Address, Client, Folder, Rows, Server, Signal, Site, TIMEOUT, command, command_without_privilege,
    free_port, is_root, output_of, tool,
};

/// Runs the program with these arguments until it ends.
fn run<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    output_of(command().args(arguments))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program speaks UTF-8")
}

/// Checks for one line on standard error with all of `parts`, nothing on standard output, and exit code 2.
fn check_refused(rows: &mut Rows, what: &str, output: &Output, parts: &[&str]) {
    let stderr = text(&output.stderr);
    rows.check(what, (output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    rows.check(what, (stderr.lines().count(), stderr.starts_with("taipan: ")), (1, true));
    for part in parts {
        rows.holds(what, &format!("{part:?} is in {stderr:?}"), stderr.contains(part));
    }
}

#[test]
fn check_names_the_line_and_the_column_of_another_encoding() {
    let home = Folder::new();
    home.folder("www");
    let latin = b"\xe9";
    let two_lines = b"listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n";
    let not_utf8 = |place: &str, column: u32| {
        format!("{place}: the character in column {column} is not UTF-8; save the file as UTF-8")
    };
    let mut rows = Rows::new();
    for (name, rest, expected) in [
        ("own.toml", [&b"index = \"caf"[..], latin, b"\"\n"].concat(), not_utf8("own.toml:3", 13)),
        ("included.toml", b"include = \"parts/*.toml\"\n".to_vec(), not_utf8("parts/a.toml:1", 3)),
        (
            "address.toml",
            b"[[rule]]\nthen = \"deny\"\naddress_file = \"addresses\"\n".to_vec(),
            not_utf8("addresses:2", 12),
        ),
        ("throttle.toml", b"throttle_file = \"throttle\"\n".to_vec(), not_utf8("throttle:1", 1)),
        (
            "users.toml",
            b"auth = \"basic\"\nuser_files = \"users\"\n".to_vec(),
            "users:2: warning: this line does not count; the name is not UTF-8; save the file as UTF-8"
                .into(),
        ),
    ] {
        home.file(name, [two_lines, rest.as_slice()].concat());
        home.file("parts/a.toml", [b"# ", latin.as_slice()].concat());
        home.file("addresses", [b"192.0.2.1\n# the name ".as_slice(), latin, b" is old"].concat());
        home.file("throttle", [latin, b"/** 1000\n".as_slice()].concat());
        home.file("users", [b"# users\n".as_slice(), latin, b":x\n"].concat());
        let output = output_of(command().args(["check", "-c", name]).current_dir(home.path()));
        let stderr = text(&output.stderr);
        rows.check(name, output.status.success(), name == "users.toml");
        rows.holds(
            name,
            &format!("{expected:?} is in {stderr:?}"),
            stderr.lines().any(|line| line == expected),
        );
    }
}

#[test]
fn check_names_a_key_that_is_given_twice() {
    let home = Folder::new();
    home.folder("www");
    home.file("twice.toml", "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n[limits]\n\n[limits]\n");
    let output = output_of(command().args(["check", "-c", "twice.toml"]).current_dir(home.path()));
    let expected = "twice.toml:5: not valid TOML: \"limits\" is given twice; remove one of them\n";
    assert_eq!(text(&output.stderr), expected);
}

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
    let user = if is_root() { "user = \"root\"\n" } else { "" };
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
        (&["www", "--access-log", "missing/access.log"], &["missing/access.log", "cannot open"]),
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
        let output = run(["-c", config.to_str().expect("our own path")]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.check("root without a user", output.status.code(), Some(2));
        rows.holds(
            &stderr,
            "how root would serve",
            stderr.contains("refusing to serve as root: set `user`") && stderr.contains("`user = \"root\"`"),
        );
    }
    for (arguments, parts) in table {
        let output = output_of(command().args(*arguments).current_dir(home.path()));
        check_refused(&mut rows, &arguments.join(" "), &output, parts);
    }
    assert_eq!(fs::read(home.path().join("page.html")).unwrap(), b"page", "what is no socket stays");
    assert_eq!(other.get("/page.html").body, b"page", "the first one still serves");
}

#[test]
fn serves_a_folder_with_the_name_of_a_misspelt_command() {
    let home = Folder::new();
    home.file("chek/a.txt", "here");
    let mut serve = command();
    serve.current_dir(home.path()).args(["chek", "--listen", "127.0.0.1:0"]);
    assert_eq!(Server::start(serve, 1, None, false).get("/a.txt").body, b"here");
}

#[test]
fn a_second_start_suggests_a_reload() {
    let home = Folder::new();
    home.file("a.txt", "here");
    let address = format!("127.0.0.1:{}", free_port());
    let user = if is_root() { "user = \"root\"\n" } else { "" };
    let config = home.file("site.toml", format!("listen = [\"{address}\"]\nroot = \".\"\n{user}"));
    let start = || {
        let mut start = command();
        start.arg("-c").arg(&config);
        start
    };
    let server = Server::start(start(), 1, None, false);
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

#[test]
fn help_names_every_command() {
    for arguments in [["--help"], ["-h"], ["help"]] {
        let output = run(arguments.iter().copied());
        let help = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
        for part in [
            "taipan [DIR]",
            "taipan -c FILE",
            "taipan check -c FILE",
            "taipan explain METHOD URL",
            "taipan healthcheck URL",
            "taipan generate man|bash|zsh|fish",
            "--listen ADDRESS",
            "--config FILE",
            "--workers N",
            "--access-log WHERE",
            "--version",
        ] {
            assert!(help.contains(part), "{part}:\n{help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    }
}

#[test]
fn the_help_of_a_command_has_its_usage_and_flags() {
    for arguments in [["check", "--help"], ["check", "-h"], ["help", "check"]] {
        let output = run(arguments);
        let help = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
        assert!(help.contains("taipan check -c FILE\n") && help.contains("--config FILE"), "{help}");
        assert!(!help.contains("--listen") && !help.contains("taipan explain"), "{help}");
    }
    let output = run(["help", "chek"]);
    check_refused(&mut Rows::new(), "help chek", &output, &["no command chek", "taipan check"]);
}

#[test]
fn prints_the_version_in_one_line() {
    for flag in ["--version", "-V", "version"] {
        let output = run([flag]);
        assert!(output.status.success() && output.stderr.is_empty());
        let version = text(&output.stdout);
        let number = version
            .strip_prefix("taipan ")
            .and_then(|v| v.strip_suffix('\n'))
            .expect("its name, and a number");
        assert!(
            number.split('.').all(|part| part.parse::<u32>().is_ok()) && number.matches('.').count() == 2,
            "{version}"
        );
    }
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    for arguments in [&["--help"][..], &["generate", "man"], &["--version"]] {
        let mut command = command();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = output_of(command.args(arguments).stdout(writer));
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// The output of another program for this input.
fn through(mut command: std::process::Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // A program may exit before it has read all input.
    _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn the_manual_page_formats_without_warnings() {
    let page = run(["generate", "man"]);
    assert!(page.status.success());
    let mut groff = tool("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-P-cbou"]);
    let shown = through(groff, &page.stdout);
    assert!(shown.status.success());
    assert_eq!(text(&shown.stderr), "");
    let shown = text(&shown.stdout);
    for part in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "--listen",
        "-c FILE",
        "SIGTERM",
        "SIGUSR1",
        "EXIT STATUS",
        "FILES",
        "/etc/taipan/site.toml",
        "EXAMPLES",
        "taipan photos",
        "SEE ALSO",
        "logrotate(8)",
    ] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
}

#[test]
fn completions_work_in_their_shells() {
    let home = Folder::new();
    let script = |shell: &str| {
        let output = run(["generate", shell]);
        assert!(output.status.success());
        home.file(&format!("taipan.{shell}"), output.stdout)
    };
    let bash = r#"source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _taipan; printf '%s\n' "${COMPREPLY[@]}""#;
    // zsh completes only in a terminal, so the test runs the completion function with an `_arguments` that prints what
    // it may complete.
    let zsh = r#"_arguments() { printf '%s\n' "$@" }; words=("${@:2}"); source "$1""#;
    let fish = "source $argv[1]; complete -C \"$argv[2..]\"";
    for shell in ["bash", "zsh", "fish"] {
        let path = script(shell);
        let mut checked = tool(shell);
        let checked = output_of(checked.arg(if shell == "fish" { "--no-execute" } else { "-n" }).arg(&path));
        assert!(checked.status.success() && checked.stderr.is_empty(), "{shell}: {}", text(&checked.stderr));
    }
    let complete = |shell: &str, program: &str, typed: &[&str]| {
        let mut completed = tool(shell);
        completed.arg("-c").arg(program);
        if shell != "fish" {
            completed.arg(shell);
        }
        completed.arg(home.path().join(format!("taipan.{shell}"))).args(typed);
        let completed = output_of(completed.env("HOME", home.path()));
        format!("{}{}", text(&completed.stdout), text(&completed.stderr))
    };
    let mut rows = Rows::new();
    for (typed, offered, left_out) in [
        (&["taipan", "--"][..], "--listen", "--rounds"),
        (&["taipan", "check", "--"], "--config", "--listen"),
        (&["taipan", "watch", "--"], "--client", "--json"),
        (&["taipan", "generate", ""], "zsh", "--config"),
        (&["taipan", "log-level", ""], "debug", "reload"),
    ] {
        for (shell, program) in [("bash", bash), ("zsh", zsh), ("fish", fish)] {
            let found = complete(shell, program, typed);
            let times = found.lines().filter(|line| line.contains(offered)).count();
            rows.check(format!("{shell}: {typed:?}: {offered}"), times, 1);
            rows.holds(format!("{shell}: {typed:?}"), &found, !found.contains(left_out));
        }
    }
    let help =
        "*--listen[Listen on ADDRESS, such as 127.0.0.1:8080, 0.0.0.0:8080 for all of IPv4, \\[::\\]:8080";
    rows.holds("zsh", "the help is escaped", complete("zsh", zsh, &["taipan", "--"]).contains(help));
}

#[test]
fn check_prints_what_a_valid_configuration_costs() {
    let site = Site::new().config("workers = 2\n[limits]\nconnections = 12345");
    let output = output_of(command().arg("check").arg("-c").arg(site.write_config()));
    let stdout = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert!(stdout.contains("site.toml"), "{stdout}");
    // Two workers, each with so many connections.
    assert!(stdout.contains("connections") && stdout.contains("24690"), "{stdout}");
    assert!(stdout.contains("MiB") || stdout.contains("GiB"), "{stdout}");
    assert!(stdout.contains("Descriptors"), "{stdout}");
    let typical = stdout.find("Memory typically").expect("it is said");
    assert!(typical < stdout.find("Memory at worst").expect("it is said"), "{stdout}");
    assert!(stdout.contains("while 100 clients take files at the same time"), "{stdout}");
    assert!(stdout.contains("with all 24690 connections open and idle"), "{stdout}");
}

#[test]
fn check_finds_what_a_start_would_meet() {
    let home = Folder::new();
    home.file("www/a.txt", "a");
    home.file("plain", "plain");
    home.folder("logs");
    let top = "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n";
    let user = if is_root() { "user = \"root\"\n" } else { "" };
    let no_chroot = "chroot = \"missing\"\nroot = \"missing/www\"\nlisten = [\"127.0.0.1:0\"]\n";
    let mut table = vec![
        (
            format!("{top}user = \"nobody-of-that-name\""),
            "site.toml:3: there is no user \"nobody-of-that-name\"",
        ),
        (
            format!("{top}user = \"root\"\n\ngroup = \"no-such-group\""),
            "site.toml:5: there is no group \"no-such-group\"",
        ),
        (format!("{top}group = \"0\""), "site.toml:3: a group is configured without a user"),
        (
            format!("listen = [\n\"127.0.0.1:0\", \"192.0.2.1:0\"]\nroot = \"www\"\n{user}"),
            "site.toml:2: cannot listen on 192.0.2.1:0: this machine does not have that address",
        ),
        (
            format!("listen = [\"0.0.0.0:8124\",\n\"127.0.0.1:8124\"]\nroot = \"www\"\n{user}"),
            "site.toml:2: \"127.0.0.1:8124\" and \"0.0.0.0:8124\" overlap",
        ),
        (
            format!("root = \"www\"\nlisten = \"unix:missing/x.sock\"\n{user}"),
            "site.toml:2: cannot listen on unix:missing/x.sock: its folder does not exist",
        ),
        (
            format!("root = \"www\"\nlisten = \"unix:plain\"\n{user}"),
            "site.toml:2: cannot listen on unix:plain: there is a file that is not a socket",
        ),
        (
            format!("listen = \"127.0.0.1:0\"\nroot = \"plain\"\n{user}"),
            "plain is not a folder; name the folder that it is in",
        ),
        (
            format!("listen = \"127.0.0.1:0\"\nroot = \"missing\"\n{user}"),
            "missing does not exist; create it",
        ),
        (
            format!("{top}pid_file = \"missing/pid\"\n{user}"),
            "site.toml:3: cannot write the pid file missing/pid",
        ),
        (
            format!("{top}{user}[log]\naccess = \"missing/access.log\""),
            "cannot open the log missing/access.log: its folder does not exist",
        ),
        (
            format!("{top}{user}[[host]]\nnames = \"h\"\nroot = \"www\"\naccess_log = \"missing/h.log\""),
            "cannot open the log missing/h.log",
        ),
        (format!("{top}{user}[log]\nerror = \"./logs\""), "cannot open the log ./logs: "),
        (format!("{top}{user}rewrites = {{ \"/\" = \"/index.html\" }}"), "write fallback = \"/index.html\""),
    ];
    if is_root() {
        let closed = home.folder("closed");
        home.folder("closed/www");
        fs::set_permissions(closed, Permissions::from_mode(0o700)).expect("it is ours");
        table.push((
            "listen = \"127.0.0.1:0\"\n\nroot = \"closed/www\"\nuser = \"nobody\"".to_owned(),
            "user \"nobody\" may not enter",
        ));
        table.push((format!("{no_chroot}user = \"nobody\""), "site.toml:1: the chroot"));
        let shared = home.folder("shared");
        fs::set_permissions(shared, Permissions::from_mode(0o777)).expect("it is ours");
        table.push((
            format!("{top}user = \"root\"\n[log]\naccess = \"shared/access.log\""),
            "site.toml:5: cannot open the log shared/access.log",
        ));
    }
    let mut rows = Rows::new();
    for (config, expected) in &table {
        home.file("site.toml", config);
        let checked = output_of(command().args(["check", "-c", "site.toml"]).current_dir(home.path()));
        let stderr = text(&checked.stderr);
        rows.check(config, checked.status.code(), Some(1));
        rows.holds(config, &format!("{expected:?} is in {stderr:?}"), stderr.contains(expected));
        rows.holds(config, &stderr, stderr.lines().all(|line| line.starts_with("site.toml:")));
        let started = output_of(command().args(["-c", "site.toml"]).current_dir(home.path()));
        rows.check(format!("start: {config}"), started.status.code(), Some(2));
    }
}

#[test]
fn check_warns_of_what_may_be_meant() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let taken = taken.local_addr().expect("it is bound").to_string();
    let site = Site::new().config("\ninclude = \"none/*.toml\"");
    let warned = |site: &Site| {
        let output = output_of(command().args(["check", "-c", "site.toml"]).current_dir(site.home()));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    site.write_config();
    let printed = warned(&site);
    assert!(
        printed.contains("site.toml:") && printed.contains("warning: no file matches none/*.toml"),
        "{printed}"
    );
    let site = Site::new().config(&format!("listen = [\"{taken}\"]"));
    site.write_config();
    let printed = warned(&site);
    assert!(printed.contains(&format!("warning: cannot listen on {taken}: it is in use")), "{printed}");
    // A running server has these ports itself.
    let server = Site::new().start();
    server.configure(&format!("listen = [\"{}\"]", server.addr()));
    server.reload();
    let output = output_of(command().arg("check").arg("-c").arg(server.home().join("site.toml")));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn reports_every_configuration_error_with_file_and_line() {
    let table: &[(&str, &[&str])] = &[
        ("lisen = []", &["site.toml:3: unknown key \"lisen\"; did you mean \"listen\"?"]),
        ("autoindex = true", &["site.toml:3: unknown key \"autoindex\"; use \"listing\""]),
        (
            "\n[limits]\nconections = 3",
            &["site.toml:5: unknown key \"conections\"; did you mean \"connections\"?"],
        ),
        ("listing = \"yes\"", &["site.toml:3: ", "expected true or false"]),
        ("[timeouts]\nidle = \"1 fortnight\"", &["site.toml:4: ", "such as \"20s\""]),
        ("[cache]\nbytes = \"1 blob\"\ncheck = -1", &["site.toml:4: ", "site.toml:5: "]),
        ("symlinks = \"some\"\nlisting = 3", &["site.toml:3: ", "\"beneath\"", "site.toml:4: "]),
        ("[[route]]\nreturn = 404", &["site.toml:3: a route has no path"]),
        ("[[route]]\npath = \"/a/\"\nalias = \"missing\"", &["missing", "create it"]),
        ("root = \"again\"", &["site.toml:3: ", "TOML"]),
        ("what is this", &["site.toml:3: ", "TOML"]),
        ("include = \"other.toml\"", &["site.toml:3: ", "other.toml"]),
        ("include = \"more/*.toml\"", &["more/a.toml:2: unknown key \"rot\"; did you mean \"root\"?"]),
    ];
    let mut rows = Rows::new();
    for (lines, parts) in table {
        let site =
            Site::new().file_beside_root("more/a.toml", "[[host]]\nrot = \".\"\nnames = \"a.example\"\n");
        let path = site.home().join("site.toml");
        fs::write(&path, format!("listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n{lines}\n")).unwrap();
        let output = output_of(command().args(["check", "-c", "site.toml"]).current_dir(site.home()));
        let stderr = text(&output.stderr);
        rows.check(lines, (output.status.code(), text(&output.stdout)), (Some(1), String::new()));
        for part in *parts {
            rows.holds(lines, &format!("{part:?} is in {stderr:?}"), stderr.contains(part));
        }
    }
}

#[test]
fn reads_included_files_as_part_of_the_configuration() {
    let site = Site::new()
        .config("include = [\"hosts/*.toml\", \"limits.toml\", \"none/*.toml\"]")
        .file("index.html", "default")
        .file_beside_root("a/index.html", "host a")
        .file_beside_root("b/index.html", "host b")
        .file_beside_root("hosts/a.toml", "[[host]]\nnames = \"a.example\"\nroot = \"../a\"\n")
        .file_beside_root("hosts/b.toml", "[[host]]\nnames = \"b.example\"\nroot = \"../b\"\n")
        .file_beside_root("hosts/.hidden.toml", "nonsense")
        .file_beside_root("hosts/c.toml~", "nonsense")
        .file_beside_root("limits.toml", "[limits]\ntarget = 64\n");
    let server = site.start();
    for (host, body) in [("a.example", "host a"), ("b.example", "host b"), ("c.example", "default")] {
        let response = server.request(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((response.status, response.text().as_str()), (200, body), "{host}");
    }
    assert_eq!(server.get(&format!("/{}", "x".repeat(64))).status, 414);
}

/// The status and the fields that `taipan explain` prints.
fn explained(output: &Output) -> (u16, Vec<(String, String)>) {
    let stdout = text(&output.stdout);
    let (_, head) = stdout
        .split_once("HTTP/1.1 ")
        .unwrap_or_else(|| panic!("no answer:\n{stdout}{}", text(&output.stderr)));
    let status = head[..3].parse().expect("a status");
    let fields = head.lines().skip(1).filter_map(|line| line.trim().split_once(": "));
    (status, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[test]
fn explain_agrees_with_the_response_of_the_server() {
    let site = Site::new()
        .file("index.html", "<h1>index</h1>")
        .file("a.txt", "0123456789")
        .file("a.txt.gz", "not really gzip, but the server does not check")
        .file("big.bin", vec![7; 200_000])
        .file("listed/one", "1")
        .file("unlisted/one", "1")
        .file(".secret", "no")
        .file("errors/404.html", "gone fishing")
        .modified("a.txt", 1_600_000_000)
        .symlink("out", "/etc/hostname")
        .config(
            "redirects = { \"/old\" = { to = \"/new$query\", status = 308 } }\nrewrites = { \"/alias\" = \"/a.txt\" }\n\
             error_pages = { 404 = \"/errors/404.html\" }\nheaders = { X-Robots-Tag = \"none\" }\n\
             [[route]]\npath = \"/listed/\"\nlisting = true\n\
             [[route]]\npath = \"/no/\"\nreturn = 410\n\
             [[host]]\nnames = \"b.example\"\nredirects = { \"/\" = \"https://b.example$path\" }",
        );
    let config = site.write_config();
    let server = site.start();
    let etag = server.get("/a.txt").field("etag").unwrap().to_owned();
    let table: &[(&str, &str, &[&str])] = &[
        ("GET", "/", &[]),
        ("HEAD", "/", &[]),
        ("GET", "/a.txt", &[]),
        ("GET", "/a.txt?query=1", &[]),
        ("GET", "/a.txt", &["Accept-Encoding: gzip"]),
        ("GET", "/big.bin", &[]),
        ("GET", "/a.txt", &["Range: bytes=2-4"]),
        ("GET", "/a.txt", &["Range: bytes=0-1,5-6"]),
        ("GET", "/a.txt", &["Range: bytes=100-"]),
        ("GET", "/big.bin", &["Range: bytes=-5"]),
        ("GET", "/a.txt", &[&format!("If-None-Match: {etag}")]),
        ("GET", "/a.txt", &["If-Match: \"other\""]),
        ("GET", "/a.txt", &["If-Modified-Since: Sun, 13 Sep 2020 12:26:40 GMT"]),
        ("GET", "/missing", &[]),
        ("GET", "/old?a=b", &[]),
        ("GET", "/alias", &[]),
        ("GET", "/listed", &[]),
        ("GET", "/listed?a=b", &[]),
        ("GET", "/listed/", &[]),
        ("GET", "/listed/", &["Accept: application/json"]),
        ("GET", "/unlisted/", &[]),
        ("GET", "/a.txt/", &[]),
        ("GET", "/no/thing", &[]),
        ("GET", "/.secret", &[]),
        ("GET", "/out", &[]),
        ("GET", "/../etc/passwd", &[]),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", &[]),
        ("GET", "/a%2fb", &[]),
        ("GET", "/a%00", &[]),
        ("GET", "/listed/../a.txt", &[]),
        ("POST", "/a.txt", &[]),
        ("DELETE", "/missing", &[]),
        ("BREW", "/a.txt", &[]),
        ("OPTIONS", "/a.txt", &[]),
        ("OPTIONS", "*", &[]),
        ("GET", "http://b.example/x", &[]),
        ("GET", "http://b.example", &[]),
        ("GET", "/x", &["Host: b.example"]),
        ("GET", "/x", &["Host: b.example", "Host: c.example"]),
        ("GET", "/x", &["Bad Field: x"]),
        ("GET", "/x y", &[]),
    ];
    let mut rows = Rows::new();
    for (method, url, fields) in table {
        let row = format!("{method} {url} {fields:?}");
        let mut explain = command();
        explain.args(["explain", "-c"]).arg(&config).args([method, url]);
        for field in *fields {
            explain.args(["-H", field]);
        }
        let output = output_of(&mut explain);
        rows.check(&row, (output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        if output.stdout.is_empty() {
            continue;
        }
        let (status, explained_field) = explained(&output);
        // The request of a client for that row.
        let (host, target) = match url.strip_prefix("http://") {
            Some(rest) => rest
                .split_once('/')
                .map_or((rest, String::from("/")), |(host, path)| (host, format!("/{path}"))),
            None => ("localhost", (*url).to_owned()),
        };
        let mut request = format!("{method} {target} HTTP/1.1\r\n");
        if !fields.iter().any(|field| field.starts_with("Host:")) {
            request += &format!("Host: {host}\r\n");
        }
        fields.iter().for_each(|field| request += &format!("{field}\r\n"));
        let response = server.request(request + "\r\n");
        rows.check(&row, status, response.status);
        for name in [
            "Location",
            "Content-Length",
            "Content-Range",
            "ETag",
            "Content-Encoding",
            "Vary",
            "X-Robots-Tag",
            "Allow",
        ] {
            let explained_field = explained_field
                .iter()
                .find(|(explained_field, _)| explained_field.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str());
            rows.check(&row, (name, explained_field), (name, response.field(name)));
        }
    }
}

#[test]
fn explain_names_the_hops() {
    let site = Site::new().file("a.txt", "0123456789").config("rewrites = { \"/b\" = \"/a.txt\" }");
    let output = output_of(command().args(["explain", "GET", "/b", "-c"]).arg(site.write_config()));
    let stdout = text(&output.stdout);
    for hop in [
        "request   GET /b",
        "host      the default host",
        "path      /b",
        "rewritten /a.txt",
        "found     a.txt: 10 bytes",
    ] {
        assert!(stdout.contains(hop), "{hop}:\n{stdout}");
    }
    let folder = output_of(command().args(["explain", "GET", "/a.txt", "--root"]).arg(site.root()));
    assert_eq!(explained(&folder).0, 200);
}

/// A listener that answers every connection by `answer`; returns its URL.
fn listener_with(answer: fn(&mut TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.unwrap());
        }
    });
    url
}

#[test]
fn healthcheck_exits_with_0_only_for_2xx_and_3xx() {
    let server = Site::new()
        .file("index.html", "fine")
        .folder("folder")
        .config("listen = [\"127.0.0.1:0\", \"[::1]:0\", \"unix:taipan.sock\"]\n[[route]]\npath = \"/sick\"\nreturn = 503")
        .start();
    let socket = format!("unix:{}", server.home().join("taipan.sock").display());
    let Address::Tcp(v6) = server.addresses()[1] else { panic!("the second one is IPv6") };
    let refused = format!("http://127.0.0.1:{}/", free_port());
    let no_http = listener_with(|stream| _ = stream.write_all(b"220 mail.example ESMTP\r\n"));
    let closing = listener_with(|_| ());
    let mut rows = Rows::new();
    for (url, code) in [
        (server.url("/"), 0),
        (server.url("/folder"), 0),
        (server.url("/missing"), 1),
        (server.url("/sick"), 1),
        (server.url("/folder/"), 1),
        (format!("http://{v6}/"), 0),
        (format!("http://{v6}/missing"), 1),
        (socket.clone(), 0),
        (format!("{socket}:/missing"), 1),
        (refused, 1),
        (no_http, 1),
        (closing, 1),
        ("https://127.0.0.1/".to_owned(), 1),
    ] {
        let output = run(["healthcheck", url.as_str()]);
        rows.check(
            &url,
            (output.status.code(), text(&output.stderr).lines().count()),
            (Some(code), code as usize),
        );
        let printed = text(if code == 0 { &output.stdout } else { &output.stderr });
        rows.holds(
            &url,
            &format!("one line names the URL: {printed:?}"),
            printed.contains(&url) && printed.lines().count() == 1,
        );
    }
}

#[test]
fn healthcheck_ends_within_its_timeout() {
    const ROUNDS: usize = 3;
    // Never accepted: the kernel completes the connection, and no response comes.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", silent.local_addr().unwrap());
    let dribbling = listener_with(|stream| {
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        head.resize(100, b'x');
        for byte in head {
            // Slower than the timeout of the whole, with short pauses only.
            thread::sleep(Duration::from_millis(300));
            if stream.write_all(&[byte]).is_err() {
                return;
            }
        }
    });
    let mut rows = Rows::new();
    for (what, url) in [("silent", silent), ("one byte at a time", dribbling)] {
        // A program that waits too long does so in every round; a busy machine does not.
        let mut took = Vec::new();
        while took.last().is_none_or(|took| *took >= Duration::from_secs(3)) && took.len() < ROUNDS {
            let started = Instant::now();
            let output = run(["healthcheck", url.as_str(), "--timeout", "1"]);
            rows.check(what, output.status.code(), Some(1));
            took.push(started.elapsed());
        }
        let in_time = took.last().is_some_and(|took| *took < Duration::from_secs(3));
        rows.holds(what, &format!("it takes 1 s, not {took:?}"), in_time);
    }
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
    let mut server = Server::start(serve, 4, None, false);
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
fn prints_one_url_per_interface() {
    let home = Folder::new();
    let mut serve = command();
    serve.arg(home.path()).args(["--listen", "0.0.0.0:0"]);
    let server = Server::start(serve, 1, None, false);
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
    let server = Server::start(serve, 1, None, false);
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
    let server = Server::start(serve(), 1, None, false);
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
    let server = Server::start(serve, 1, None, false);
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
fn gives_up_root_before_serving() {
    if !is_root() {
        // Without root there is no privilege to give up.
        return;
    }
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

#[test]
fn taipan_writes_access_lines_on_a_terminal_and_nowhere_else() {
    let home = Folder::new();
    home.file("a.txt", "here");
    let mut serve = command();
    serve.arg(home.path()).args(["--listen", "127.0.0.1:0"]);
    let mut server = Server::start(serve, 1, None, false);
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
