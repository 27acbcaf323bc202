use std::time::{Duration, Instant};

use super::*;
use crate::mistake::MAX_FILE;

fn users(file: &str) -> Users {
    Users::parse(file.as_bytes(), PlainText::Refuse).expect("it is small")
}

const FILE: &str = "# users\r\n\
    ann:$2y$04$5IQDC18TPeKpiXmG95G4LOt9swV1LHspRGJxKhknEX4EoyPMXysqa\r\n\
    \r\n  bob:{SHA}GpHWL3ymc5liWkNopqtdSjuqYHM=:Robert:x  \n\
    j\u{fc}rgen:$apr1$abcdefgh$rRdIxwY5XRHT4TMtBPZn.0";

#[test]
fn finds_users_of_a_file() {
    let users = users(FILE);
    assert_eq!((users.len(), users.weak()), (3, 2));
    assert!(users.mistakes().listed.is_empty());
    let table = [
        ("ann", "pw", true),
        ("ann", "PW", false),
        ("ann", "", false),
        ("bob", "pw", true),
        ("j\u{fc}rgen", "p\u{e4}ssword", true),
        ("Ann", "pw", false),
        ("eve", "pw", false),
        ("", "pw", false),
        ("# users", "pw", false),
    ];
    for (name, password, expected) in table {
        assert_eq!(users.verify(name, password.as_bytes()), expected, "{name} {password}");
    }
    assert!(!Users::default().verify("ann", b"pw"));
}

#[test]
fn a_locked_account_has_no_password_and_is_no_mistake() {
    let users = users("root:*:19000:0:99999:7:::\ndaemon:!:19000\nbob:!$1$ab$e2KlfqG5YBMTjSz7XF.Eu1\neve:\n");
    assert!(users.is_empty() && !users.verify("root", b"*"));
    let told: Vec<String> = users.mistakes().listed.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["line 4: there is no hash behind the colon"]);
}

#[test]
fn the_first_of_two_lines_counts() {
    let users =
        users("ann:{SHA}GpHWL3ymc5liWkNopqtdSjuqYHM=\nann:$1$ab$e2KlfqG5YBMTjSz7XF.Eu1\nbob:x\nbob:{SHA}x\n");
    assert!(users.verify("ann", b"pw") && !users.verify("ann", b"x"));
    let messages: Vec<String> = users.mistakes().listed.iter().map(ToString::to_string).collect();
    assert_eq!(messages[0], "line 2: the same name is on line 1, which counts; remove one of both");
    assert!(
        messages[1].starts_with("line 3: this is no hash")
            && messages[2].starts_with("line 4: the SHA-1 hash is")
    );
}

#[test]
fn a_mistake_has_a_line_and_shows_nothing_of_it() {
    let long = format!("long:{}", "x".repeat(MAX_LINE));
    let file = format!(
        "hunter2\n:hunter2\n{long}\na\x07:hunter2\nann:hunter2\nbob:{{SHA}}GpHWL3ymc5liWkNopqtdSjuqYHM="
    );
    let users = users(&file);
    let messages: Vec<String> = users.mistakes().listed.iter().map(ToString::to_string).collect();
    let expected = [
        "1: a line has the form USER:HASH",
        "2: the name is empty",
        "3: the line is too",
        "4: the name has a control",
        "5: this is no hash",
    ];
    assert_eq!(messages.len(), expected.len());
    for (message, expected) in messages.iter().zip(expected) {
        assert!(
            message.starts_with(&format!("line {expected}")) && !message.contains("hunter2"),
            "{message}"
        );
    }
    assert!(users.verify("bob", b"pw") && !users.verify("ann", b"hunter2") && users.len() == 1);
}

#[test]
fn lists_a_bounded_number_of_mistakes() {
    let users = users(&"x\n".repeat(250));
    assert_eq!((users.mistakes().listed.len(), users.mistakes().more), (100, 150));
}

#[test]
fn refuses_more_than_its_bounds() {
    assert_eq!(Users::parse(&vec![b'#'; MAX_FILE + 1], PlainText::Refuse).err(), Some(FileError::TooLarge));
    let many: String = (0..=MAX_USERS).map(|at| format!("{at}:x\n")).collect();
    assert_eq!(Users::parse(many.as_bytes(), PlainText::Accept).err(), Some(FileError::TooMany));
}

/// Each name costs what one of the file's hashes costs, and always the same.
#[test]
fn an_unknown_user_costs_what_a_user_costs() {
    let users = users("ann:$2y$09$5IQDC18TPeKpiXmG95G4LOt9swV1LHspRGJxKhknEX4EoyPMXysqa");
    let time = |name| {
        let start = Instant::now();
        assert!(!users.verify(name, b"wrong"));
        start.elapsed()
    };
    // In turns, so that both have the same moments of a busy machine.
    let (mut known, mut unknown) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        (known, unknown) = (known.min(time("ann")), unknown.min(time("eve")));
    }
    assert!(unknown > known / 2 && known > unknown / 2, "{known:?} {unknown:?}");
}
