//! `taipan passwd`: files, exit codes, the terminal; and Debian's htpasswd and htdigest, which read ours and write what
//! we read.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{Folder, Rows, TIMEOUT, command, output_of, tool};

/// Runs `taipan passwd` in a folder, with text for its standard input.
fn passwd(folder: &Folder, arguments: &str, input: &str) -> Output {
    let mut passwd = command();
    passwd.arg("passwd").args(arguments.split_whitespace()).current_dir(folder.path());
    fed(passwd, input)
}

/// Runs another program in the same way.
fn other(folder: &Folder, name: &str, arguments: &str, input: &str) -> Output {
    let mut program = tool(name);
    program.args(arguments.split_whitespace()).current_dir(folder.path());
    fed(program, input)
}

fn fed(mut program: Command, input: &str) -> Output {
    let mut child = program.stdin(Stdio::piped()).spawn().expect("it starts");
    // A program that does not read its input may have ended.
    _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).expect("the file is there")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file is there").mode() & 0o7777
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the program speaks UTF-8")
}

#[test]
fn each_command_has_its_exit_code_and_says_what_it_did() {
    let home = Folder::new();
    home.file("toml", "root = \"x\"\n");
    home.symlink("link", "users");
    home.symlink("dangling", "nothing");
    home.folder("folder");
    let long = "x".repeat(256);
    let table = [
        ("users ann", "pw\n", 1, "users does not exist; create it with -c"),
        ("-ci users ann", "pw\n", 0, "users: created, with ann"),
        ("-i users bob", "pw two\r\nrest\n", 0, "users: added bob"),
        ("-iB -C 4 users ann", "pw", 0, "users: changed the password of ann"),
        ("-iv users ann", "pw\n", 0, "users: the password of ann is right"),
        ("-iv users bob", "pw two\n", 0, "the password of bob is right"),
        ("-iv users bob", "pw\n", 3, "the password of bob is another one"),
        ("-iv users eve", "pw\n", 6, "users: there is no eve\n"),
        ("-i --digest a:b digest ann", "pw", 6, "realm \"a:b\": the name has a colon"),
        ("-i --digest realm digest a:b", "pw", 6, "user \"a:b\": the name has a colon"),
        ("-i dangling ann", "pw", 1, "dangling is a link; name the file itself: nothing"),
        ("-vb users ann pw", "", 0, "other users of this machine can see"),
        ("-D users eve", "", 0, "users: there is no eve"),
        ("-D users bob", "", 0, "users: removed bob"),
        ("-D missing bob", "", 1, "missing does not exist"),
        ("-iv missing bob", "x", 1, "missing does not exist"),
        ("-i users cy", "", 5, "the password cannot be used: it is empty"),
        ("-i users cy", "a\tb\n", 5, "it has a control character"),
        ("-i users cy", &"x".repeat(600), 5, "it has more than 512 bytes"),
        ("-i users a:b", "pw", 6, "the name has a colon"),
        ("-i users #a", "pw", 6, "the name begins with #"),
        (&format!("-i users {long}"), "pw", 6, "more than 255 bytes"),
        ("-i toml ann", "pw", 7, "toml:1: this is no line of such a password file; nothing is changed"),
        ("-i link ann", "pw", 1, "link is a link; name the file itself"),
        ("-i folder ann", "pw", 1, "folder is not a regular file"),
        ("-i missing/users ann", "pw", 1, "missing/users does not exist"),
        ("-ci missing/users ann", "pw", 1, "missing: No such file"),
        ("-i users", "pw", 2, "passwd needs a user"),
        (
            "-is users ann",
            "pw",
            0,
            "warning: from a stolen file with SHA-1, most passwords are found quickly",
        ),
        ("-iB -C 4 users ann", &"x".repeat(73), 0, "only the first 72 bytes"),
        ("-ip users dee", "a:b", 5, "cannot be written as plain text"),
        ("-ip users dee", "pw", 0, "users: added dee"),
        ("-ipv users dee", "pw", 0, "the password of dee is right"),
        ("-iv users dee", "pw", 6, "users: there is no dee; line 2: this is no hash"),
        ("-iv users gil", "pw", 6, "for hashes of 13 characters\n"),
        ("-ci users eve", "pw", 0, "users: replaced, because of -c; it had 2 lines, and has eve alone now"),
    ];
    let mut rows = Rows::new();
    for (arguments, input, code, expected) in table {
        let output = passwd(&home, arguments, input);
        let told = stderr(&output);
        rows.check(arguments, output.status.code(), Some(code));
        rows.holds(arguments, &format!("{expected:?} is in {told:?}"), told.contains(expected));
        rows.check(arguments, output.stdout.len(), 0);
        rows.holds(
            arguments,
            "the password is in no message",
            input.len() < 4 || !told.contains(input.trim()),
        );
    }
    drop(rows);
    let users = read(&home, "users");
    assert!(
        users.starts_with("eve:$argon2id$v=19$m=19456,t=2,p=1$") && users.lines().count() == 1,
        "{users}"
    );
    let mut left: Vec<_> =
        fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["dangling", "folder", "link", "toml", "users"]);
}

#[test]
fn keeps_the_mode_and_the_other_lines_of_a_file() {
    let home = Folder::new();
    let before = "# staff\r\n\nann:{SHA}GpHWL3ymc5liWkNopqtdSjuqYHM=:Ann A.\n  bob:$1$x\nann:old";
    let path = home.file("users", before);
    fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
    assert!(passwd(&home, "-is users ann", "x").status.success());
    let expected = "# staff\r\n\nann:{SHA}Efatjsq5ncVcAKaBBZkyL1bQ0p0=\n  bob:$1$x\n";
    let (head, _) = expected.split_once("{SHA}").unwrap();
    let after = read(&home, "users");
    assert!(after.starts_with(head) && after.ends_with("=\n  bob:$1$x\n"), "{after:?}");
    assert_eq!((after.lines().count(), mode(&path)), (4, 0o604));
    assert!(passwd(&home, "-ci new ann", "x").status.success());
    assert_eq!(mode(&home.path().join("new")), 0o640);
}

/// Two programs that change one file at the same time lose neither change.
#[test]
fn changes_at_the_same_time_are_all_kept() {
    let home = Folder::new();
    assert!(passwd(&home, "-cis users first", "x").status.success());
    thread::scope(|scope| {
        for at in 0..8 {
            let home = &home;
            scope.spawn(move || assert!(passwd(home, &format!("-is users user{at}"), "x").status.success()));
        }
    });
    let users = read(&home, "users");
    assert_eq!(users.lines().count(), 9, "{users}");
}

#[test]
fn prints_lines_without_a_file() {
    let home = Folder::new();
    let table = [
        ("-ni ann", "ann:$argon2id$v=19$"),
        ("-ni --yescrypt ann", "ann:$y$j9T$"),
        ("-niB ann", "ann:$2y$10$"),
        ("-ni5 -r 1000 ann", "ann:$6$rounds=1000$"),
        ("-ni2 -r 1000 ann", "ann:$5$rounds=1000$"),
        ("-nim ann", "ann:$apr1$"),
        ("-nis ann", "ann:{SHA}"),
        ("-nip ann", "ann:secret\n"),
        ("-ni --digest R ann", "ann:R:"),
    ];
    let mut rows = Rows::new();
    for (arguments, expected) in table {
        let output = passwd(&home, arguments, "secret\n");
        let line = String::from_utf8(output.stdout).unwrap();
        rows.check(arguments, (output.status.code(), line.lines().count()), (Some(0), 1));
        rows.holds(arguments, &format!("{line:?} begins with {expected:?}"), line.starts_with(expected));
    }
}

#[test]
fn htpasswd_verifies_what_taipan_writes() {
    let home = Folder::new();
    let mut rows = Rows::new();
    for kind in ["-B -C 4", "-5", "-2 -r 1000", "-m", "-s", "--yescrypt"] {
        let password = "pa\u{df}wort: 1\n";
        rows.check(kind, passwd(&home, &format!("-ci {kind} users ann"), password).status.code(), Some(0));
        rows.check(kind, other(&home, "htpasswd", "-iv users ann", password).status.code(), Some(0));
        rows.check(kind, other(&home, "htpasswd", "-iv users ann", "other\n").status.code(), Some(3));
    }
}

#[test]
fn taipan_verifies_what_htpasswd_writes() {
    let home = Folder::new();
    let mut rows = Rows::new();
    for kind in ["-B", "-B -C 10", "-5", "-5 -r 1000", "-2", "-m", "-s"] {
        let password = "pa\u{df}wort: 1\n";
        rows.check(
            kind,
            other(&home, "htpasswd", &format!("-ci {kind} users ann"), password).status.code(),
            Some(0),
        );
        rows.check(
            kind,
            other(&home, "htpasswd", &format!("-i {kind} users bob"), "b").status.code(),
            Some(0),
        );
        rows.check(kind, passwd(&home, "-iv users ann", password).status.code(), Some(0));
        rows.check(kind, passwd(&home, "-iv users ann", "other").status.code(), Some(3));
        rows.check(kind, passwd(&home, "-iv users bob", "b").status.code(), Some(0));
        // Each changes the file of the other.
        rows.check(kind, passwd(&home, "-is users bob", "c").status.code(), Some(0));
        rows.check(kind, other(&home, "htpasswd", "-iv users bob", "c").status.code(), Some(0));
        rows.check(kind, other(&home, "htpasswd", "-D users bob", "").status.code(), Some(0));
        rows.check(kind, passwd(&home, "-iv users bob", "c").status.code(), Some(6));
    }
    // What is too weak, or too costly, is named.
    for (kind, expected) in
        [("-d", "this is no hash of a known kind"), ("-B -C 15", "the cost is at most 14")]
    {
        rows.check(
            kind,
            other(&home, "htpasswd", &format!("-cb {kind} users ann pw"), "").status.code(),
            Some(0),
        );
        let told = stderr(&passwd(&home, "-iv users ann", "pw"));
        rows.holds(kind, &format!("{told} has {expected}"), told.contains(expected));
    }
}

#[test]
fn taipan_and_htdigest_share_files() {
    let home = Folder::new();
    // htdigest asks on a terminal, and on standard input if there is none.
    let on_terminal = |arguments: &str, typed: &[(&str, &str)]| {
        let line = format!("htdigest {arguments}");
        converse(&home, &line, typed)
    };
    let code = on_terminal("-c users Files ann", &[("New password:", "pw\r"), ("Re-type", "pw\r")]);
    assert_eq!(code, Some(0));
    let mut rows = Rows::new();
    let table = [
        ("-iv --digest Files users ann", "pw", 0),
        ("-iv --digest Files users ann", "pw2", 3),
        ("-iv --digest files users ann", "pw", 6),
        ("-i --digest Other users ann", "pw3", 0),
        ("-iv --digest Other users ann", "pw3", 0),
        ("-iv --digest Files users ann", "pw", 0),
        ("-im --digest Files users ann", "pw4", 0),
        ("-iv --digest Files users ann", "pw4", 0),
        ("-D --digest Other users ann", "", 0),
    ];
    for (arguments, input, code) in table {
        rows.check(arguments, passwd(&home, arguments, input).status.code(), Some(code));
    }
    drop(rows);
    // The line with MD5 is the one that htdigest would write.
    let ours = read(&home, "users");
    let md5 = ours.lines().find(|line| line.len() == "ann:Files:".len() + 32).expect("a line with MD5");
    assert_eq!(
        on_terminal("-c theirs Files ann", &[("New password:", "pw4\r"), ("Re-type", "pw4\r")]),
        Some(0)
    );
    assert_eq!(read(&home, "theirs").trim_end(), md5);
    assert_eq!(ours.lines().count(), 2, "{ours}");
}

#[test]
fn asks_twice_on_the_terminal_and_shows_nothing() {
    let home = Folder::new();
    let line = |rest: &str| format!("'{}' passwd {rest}", e2e::program().display());
    let asks = ["New password of ann: ", "The same again: "];
    let mut rows = Rows::new();
    let table = [
        ("-c users ann", vec![(asks[0], "geheim\r"), (asks[1], "geheim\r")], 0),
        ("-v users ann", vec![("Password of ann: ", "geheim\r")], 0),
        ("-v users ann", vec![("Password of ann: ", "x\u{15}gehex\u{7f}i\u{e4}\u{7f}m\r")], 0),
        ("-v users ann", vec![("Password of ann: ", "geheimx\r")], 3),
        ("users ann", vec![(asks[0], "geheim2\r"), (asks[1], "geheim3\r")], 3),
        ("users ann", vec![(asks[0], "geheim2\u{3}")], 4),
        ("users ann", vec![(asks[0], "\u{4}")], 4),
    ];
    for (arguments, typed, code) in table {
        rows.check(arguments, converse(&home, &line(arguments), &typed), Some(code));
    }
    drop(rows);
    assert!(passwd(&home, "-iv users ann", "geheim").status.success());
    // Afterwards the terminal shows what is typed.
    let rest = format!("{}; stty -a", line("-v users ann"));
    let (_, screen) = conversation(&home, &rest, &[("Password of ann: ", "geheim\r")]);
    for mode in ["echo", "icanon", "isig"] {
        assert!(screen.split_whitespace().any(|word| word == mode), "{screen}");
    }
}

/// Runs a line of the shell on a terminal and returns its exit code. What was typed is not on the screen.
fn converse(home: &Folder, line: &str, typed: &[(&str, &str)]) -> Option<i32> {
    let (code, screen) = conversation(home, line, typed);
    for (_, text) in typed {
        let text = text.trim_end_matches(char::is_control);
        assert!(text.len() < 3 || !screen.contains(text), "{screen}");
    }
    code
}

/// Types each text when its question is on the screen. Returns the exit code and the screen.
fn conversation(home: &Folder, line: &str, typed: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut script = tool("script");
    script.args(["--quiet", "--flush", "--return", "--command", line, "/dev/null"]).stdin(Stdio::piped());
    let mut child: Child = script.current_dir(home.path()).spawn().expect("script(1) starts");
    let mut output = child.stdout.take().expect("a pipe");
    let (send, pieces) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut piece) {
            if send.send(String::from_utf8_lossy(&piece[..length]).into_owned()).is_err() {
                return;
            }
        }
    });
    let until = Instant::now() + TIMEOUT;
    let left = || until.saturating_duration_since(Instant::now());
    let mut keys = child.stdin.take().expect("a pipe");
    let (mut screen, mut seen) = (String::new(), 0);
    for (question, text) in typed {
        while !screen[seen..].contains(question) {
            let piece = pieces.recv_timeout(left());
            screen.push_str(&piece.unwrap_or_else(|_| panic!("no {question:?} on the terminal: {screen}")));
        }
        seen = screen.len();
        keys.write_all(text.as_bytes()).expect("the terminal takes it");
    }
    drop(keys);
    while let Ok(piece) = pieces.recv_timeout(left().max(Duration::from_millis(1))) {
        screen.push_str(&piece);
    }
    (child.wait().expect("it ends").code(), screen)
}

#[test]
fn says_what_to_do_without_a_terminal() {
    let home = Folder::new();
    // A session of its own has no terminal.
    let mut setsid = tool("setsid");
    let program = e2e::program();
    setsid.arg("--wait").arg(program).args(["passwd", "-c", "users", "ann"]).current_dir(home.path());
    let output = output_of(&mut setsid);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("write the password to standard input, and add -i"), "{output:?}");
    assert!(!home.path().join("users").exists());
}
