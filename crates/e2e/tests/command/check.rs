//! `taipan check`: mistakes, warnings and costs of a configuration.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use e2e::{command_without_privilege, free_port};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

use super::*;

/// Checks `site.toml` in a folder.
fn check_without_privilege(home: &Folder) -> Output {
    let mut command = command_without_privilege(home.path());
    output_of(command.args(["check", "-c", "site.toml"]).current_dir(home.path()))
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
        let mut check = command_without_privilege(home.path());
        let output = output_of(check.args(["check", "-c", name]).current_dir(home.path()));
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
fn check_warns_of_probable_mistakes() {
    let home = Folder::new();
    home.file("www/admin/users.txt", "ann");
    home.file("www/index.php", "<?php");
    home.file("www/app/front.php", "<?php");
    home.file("www/lost.en.html", "lost");
    let php = "[[route]]\npath = \"*.php\"\ninterpreter = \"/bin/sh\"\n";
    let guarded = |login: &str| {
        format!(
            "authorizer = \"app\"\nauthorizer_login = \"{login}\"\n[[route]]\npath = \"/open/\"\nauthorizer = false\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"127.0.0.1:1\""
        )
    };
    let of_folder = "is for the path /admin alone, and not for what is in the folder";
    let mut rows = Rows::new();
    for (name, rest, expected) in [
        ("a route for the path", "[[route]]\npath = \"/admin\"\ncgi = true", Some(of_folder)),
        ("a route for the folder", "[[route]]\npath = \"/admin/\"\ncgi = true", None),
        ("routes for both", "[[route]]\npath = \"/admin\"\n[[route]]\npath = \"/admin/\"\ncgi = true", None),
        ("a redirect", "redirects = { \"/admin\" = \"/other/\" }", None),
        (
            "redirects to each other",
            "redirects = { \"/a\" = \"/b\", \"/b\" = \"/a\" }",
            Some("of /b leads back"),
        ),
        ("a redirect of all", "redirects = { \"/\" = \"/app/\" }", Some("write \"/.\" for the folder")),
        ("a redirect of the root alone", "redirects = { \"/.\" = \"/app/\" }", None),
        (
            "a rule that redirects all",
            "[[rule]]\npath = \"/\"\nthen = \"redirect\"\nto = \"/app/\"",
            Some("the rule of site.toml:3 redirects the path that it leads to"),
        ),
        (
            "a rule that redirects every client of a network",
            "[[rule]]\naddress = \"192.0.2.0/24\"\nthen = \"redirect\"\nto = \"/app/$rest\"",
            Some("the rule of site.toml:3 redirects the path that it leads to"),
        ),
        (
            "a rule that redirects the root alone",
            "[[rule]]\npath = \"/.\"\nthen = \"redirect\"\nto = \"/app/\"",
            None,
        ),
        (
            "a rule whose target is allowed",
            "[[rule]]\npath = \"/app/\"\nthen = \"allow\"\n[[rule]]\nthen = \"redirect\"\nto = \"/app/\"",
            None,
        ),
        (
            "a rule that redirects by the query",
            "[[rule]]\nquery = \"p=1\"\nthen = \"redirect\"\nto = \"/app/\"",
            None,
        ),
        (
            "a login that is guarded",
            &*guarded("/login"),
            Some("leads to /login, which asks the authorizer, too"),
        ),
        ("a login that is not", &*guarded("/open/login?rd=$path"), None),
        ("a login elsewhere", &*guarded("https://login.example/?rd=$path"), None),
        ("a redirect to another host", "redirects = { \"/\" = \"https://other.example$path\" }", None),
        ("a rule for the path", "[[rule]]\npath = \"/admin\"\nthen = \"deny\"", Some(of_folder)),
        ("a rule for both", "[[rule]]\npath = [\"/admin\", \"/admin/\"]\nthen = \"deny\"", None),
        ("a rule that allows", "[[rule]]\npath = \"/admin\"\nthen = \"allow\"", None),
        ("an index file", "index = \"index.php\"", Some("www/index.php, which is the index of /")),
        ("an index script", &format!("index = \"index.php\"\n{php}"), None),
        ("an index file that is not there", "index = \"other.php\"", None),
        (
            "a fallback",
            "[[route]]\npath = \"/app/\"\nfallback = \"/app/front.php\"",
            Some("www/app/front.php, which is the fallback of /app/"),
        ),
        (
            "a missing fallback",
            "fallback = \"/app.html\"",
            Some("site.toml:3: warning: the fallback is missing"),
        ),
        (
            "a missing fallback script",
            &format!("fallback = \"/other.php\"\n{php}"),
            Some("the fallback is missing"),
        ),
        (
            "a fallback to an application",
            "fallback = \"/x/\"\n[[route]]\npath = \"/x/\"\nproxy = \"http://127.0.0.1:1\"",
            None,
        ),
        (
            "an application without a route",
            "[[application]]\nname = \"app\"\naddress = \"127.0.0.1:1\"",
            Some("site.toml:4: warning: no route leads to the application \"app\""),
        ),
        (
            "an authorizer",
            "authorizer = \"app\"\n[[application]]\nname = \"app\"\naddress = \"127.0.0.1:1\"",
            None,
        ),
        (
            "a missing error page",
            "error_pages = { 404 = \"/404.html\" }",
            Some(
                "site.toml:3: warning: the error page for 404 is missing, so that clients get the built-in page",
            ),
        ),
        (
            "an error page that is a script",
            &format!("error_pages = {{ 405 = \"/front.php\" }}\n{php}"),
            Some("the error page for 405 is no file, so that clients get the built-in page: the route *.php"),
        ),
        ("an error page in a language", "languages = [\"en\"]\nerror_pages = { 404 = \"/lost.html\" }", None),
        (
            "a fallback to a script",
            &format!("{php}[[route]]\npath = \"/app/\"\nfallback = \"/app/front.php\""),
            None,
        ),
    ] {
        home.file("site.toml", format!("listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n{rest}\n"));
        let output = check_without_privilege(&home);
        let stderr = text(&output.stderr);
        rows.check(name, output.status.success(), true);
        match expected {
            None => rows.check(name, &*stderr, ""),
            Some(expected) => {
                let is_warning = stderr.contains(": warning: ") && stderr.contains(expected);
                rows.holds(name, &format!("{expected:?} is in {stderr:?}"), is_warning);
            }
        }
    }
}

#[test]
fn check_warns_of_an_upstream_that_is_this_server() {
    let home = Folder::new();
    let port = free_port();
    let route = |path: &str, rest: &str| format!("[[route]]\npath = \"{path}\"\nproxy = \"http://{rest}\n");
    let own = format!("127.0.0.1:{port}");
    let mut rows = Rows::new();
    for (name, listen, routes, is_endless) in [
        ("the address", &*own, route("/", &format!("{own}\"")), true),
        ("each address", &format!("0.0.0.0:{port}"), route("/", &format!("localhost:{port}\"")), true),
        ("a socket", "unix:own", route("/", "unix:own\""), true),
        ("a path below", &own, route("/app/", &format!("{own}/app/x/\"")), true),
        ("a path elsewhere", &own, route("/app/", &format!("{own}/other/\"")), false),
        (
            "by another route",
            &own,
            route("/a/", &format!("{own}/b/\"")) + &route("/b/", &format!("{own}/c/\"")),
            false,
        ),
        (
            "in turns",
            &own,
            route("/a/", &format!("{own}/b/\"")) + &route("/b/", &format!("{own}/a/\"")),
            true,
        ),
        ("another port", &own, route("/", &format!("127.0.0.1:{}\"", port ^ 1)), false),
        ("another address", &format!("0.0.0.0:{port}"), route("/", &format!("192.0.2.1:{port}\"")), false),
        ("TLS", &own, format!("[[route]]\npath = \"/\"\nproxy = \"https://{own}\"\n"), false),
        (
            "another host",
            &own,
            format!(
                "[[host]]\nnames = \"a.test\"\n[[host.route]]\npath = \"/\"\nproxy = \"http://{own}\"\n\
                 proxy_host = \"b.test\"\n"
            ),
            false,
        ),
    ] {
        home.folder("www");
        home.file("site.toml", format!("listen = [\"{listen}\"]\nroot = \"www\"\n{routes}"));
        let output = check_without_privilege(&home);
        let stderr = text(&output.stderr);
        rows.check(name, output.status.success(), true);
        rows.holds(name, &stderr, stderr.contains("is this server itself") == is_endless);
    }
}

#[test]
fn check_warns_of_a_socket_to_which_it_cannot_connect() {
    let home = Folder::new();
    home.file("www/a.txt", "a");
    let open = home.path().join("open.sock");
    let _open = UnixListener::bind(&open).expect("the folder is ours");
    fs::set_permissions(&open, Permissions::from_mode(0o666)).expect("it is ours");
    let here = home.path().display();
    let missing = format!(
        "there is no socket {here}/app.sock, so that requests get 502; start the application, or name the path at which \
         it listens"
    );
    let no_socket =
        format!("{here}/www/a.txt is no socket, so that requests get 502; name that of the application");
    let application = |address: &str| {
        format!(
            "[[route]]\npath = \"*.php\"\ninterpreter = \"php\"\n[[application]]\nname = \"php\"\naddress = \
             \"unix:{address}\"\n"
        )
    };
    let proxy = |path: &str| format!("[[route]]\npath = \"/\"\nproxy = \"http://unix:{path}\"\n");
    let mut rows = Rows::new();
    for (config, line, expected) in [
        (application("app.sock"), 8, Some(&missing)),
        (application("www/a.txt"), 8, Some(&no_socket)),
        (application("open.sock"), 0, None),
        (proxy("app.sock"), 5, Some(&missing)),
        (proxy("app.sock:/api/"), 5, Some(&missing)),
        (proxy("open.sock"), 0, None),
    ] {
        home.file("site.toml", format!("listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n{config}"));
        let checked = check_without_privilege(&home);
        let expected =
            expected.map_or_else(String::new, |text| format!("site.toml:{line}: warning: {text}\n"));
        rows.check(&config, text(&checked.stderr), expected);
        rows.check(&config, checked.status.code(), Some(0));
    }
}

#[test]
fn check_names_a_socket_that_the_user_may_not_open_as_root() {
    let site = Site::new()
        .config("user = \"nobody\"\n[[route]]\npath = \"/\"\nproxy = \"http://unix:closed.sock\"\n");
    site.write_config();
    let path = site.home().join("closed.sock");
    let _closed = UnixListener::bind(&path).expect("the folder is ours");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
    let checked = output_of(command().args(["check", "-c", "site.toml"]).current_dir(site.home()));
    let expected = format!(
        "warning: user \"nobody\" may not open the socket {}, so that requests get 502; add that user to the group of the \
         socket\n",
        path.display()
    );
    assert!(text(&checked.stderr).ends_with(&expected), "{}", text(&checked.stderr));
    assert_eq!(checked.status.code(), Some(0));
}

#[test]
fn check_names_a_key_that_is_given_twice() {
    let home = Folder::new();
    home.folder("www");
    home.file("twice.toml", "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n[limits]\n\n[limits]\n");
    let output = output_of(command().args(["check", "-c", "twice.toml"]).current_dir(home.path()));
    let expected =
        "twice.toml:5: not valid TOML: \"limits\" is given twice; write the keys of both below one of them\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn check_names_the_form_of_a_configuration_of_another_server() {
    let home = Folder::new();
    let nginx = "server {\n    listen 80;\n    root /srv/www;\n}\n";
    for name in ["site", "site.toml"] {
        home.file(name, nginx);
        let output = output_of(command().args(["check", "-c", name]).current_dir(home.path()));
        let expected = format!(
            "{name}:1: not valid TOML: the line has the form of another server's configuration, such as nginx's; \
             `--dialect nginx` reads it (or apache, lighttpd, caddy), and `taipan convert --from nginx {name}` prints it \
             in the form of this one\n"
        );
        assert_eq!(text(&output.stderr), expected);
    }
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
    let user = own_user();
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
fn check_says_what_to_do_where_the_user_may_not_write() {
    let home = Folder::new();
    home.file("www/a.txt", "a");
    let closed = home.folder("closed");
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).expect("it is ours");
    let top = "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\n";
    let mut rows = Rows::new();
    for (config, expected, code) in [
        (
            format!("{top}[log]\naccess = \"closed/access.log\"\n"),
            "site.toml:4: cannot open the log closed/access.log: no permission; change the owner or the mode of the file, \
             or of its folder\n",
            1,
        ),
        (
            format!("{top}pid_file = \"closed/pid\"\n"),
            "site.toml:3: cannot write the pid file closed/pid: no permission; change the owner or the mode of the file, \
             or of its folder\n",
            1,
        ),
        // Another user may start the server.
        (
            "root = \"www\"\nlisten = \"unix:closed/x.sock\"\n".to_owned(),
            "site.toml:2: warning: cannot listen on unix:closed/x.sock: no permission; change the owner or the mode of its \
             folder\n",
            0,
        ),
    ] {
        home.file("site.toml", &config);
        let checked = check_without_privilege(&home);
        rows.check(&config, text(&checked.stderr).as_str(), expected);
        rows.check(&config, checked.status.code(), Some(code));
    }
}

#[test]
fn check_says_how_a_log_and_a_command_are_written() {
    let application = "[[route]]\npath = \"/a/\"\napplication = \"a\"\n\
                       [[application]]\nname = \"a\"\ncommand = \"/bin/cat -u\"\n";
    for (config, expected) in [
        ("[log]\naccess = \"./logs\"\n", "cannot open the log ./logs: it is a folder; name a file in it"),
        (
            application,
            "/bin/cat -u, cannot be executed (No such file or directory); write its arguments as strings",
        ),
    ] {
        let site = Site::new().config(config);
        std::fs::create_dir(site.home().join("logs")).expect("the folder is ours");
        site.write_config();
        let checked = output_of(command().args(["check", "-c", "site.toml"]).current_dir(site.home()));
        assert_eq!(checked.status.code(), Some(1), "{config}");
        assert!(text(&checked.stderr).contains(expected), "{}", text(&checked.stderr));
    }
}

/// A start would be refused, but may have a reader.
#[test]
fn check_warns_of_a_log_that_no_process_reads() {
    let site = Site::new().config("[log]\naccess = \"./fifo\"\n");
    let path = site.home().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("the folder is ours");
    site.write_config();
    let check = || output_of(command().args(["check", "-c", "site.toml"]).current_dir(site.home()));
    let warning =
        "warning: cannot open the log ./fifo: it is a FIFO that no process reads; start its reader first";
    let unread = check();
    assert_eq!(unread.status.code(), Some(0), "{}", text(&unread.stderr));
    assert!(text(&unread.stderr).contains(warning), "{}", text(&unread.stderr));
    let _reader = open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("it is there");
    assert_eq!(text(&check().stderr), "");
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

/// A part of the configuration is missing, so that a reload keeps the one before.
#[test]
fn an_included_link_to_nothing_and_a_ring_are_errors() {
    let home = Folder::new();
    home.folder("www");
    home.file("site.toml", "root = \"www\"\ninclude = \"parts/*.toml\"\n");
    home.file("parts/a.toml", "[limits]\ntarget = 64\n");
    let broken = home.path().join("parts/b.toml");
    symlink("../available/b.toml", &broken).unwrap();
    let check = |expected: &str| {
        let output = output_of(command().args(["check", "-c", "site.toml"]).current_dir(home.path()));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().filter(|line| line.contains(expected)).count(), 1, "{stderr}");
        stderr
    };
    check("parts/b.toml cannot be read: No such file or directory");
    fs::remove_file(&broken).unwrap();
    home.file("parts/c.toml", "include = \"../site.toml\"\n");
    let stderr = check("site.toml includes itself");
    assert!(!stderr.contains("given twice"), "{stderr}");
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
