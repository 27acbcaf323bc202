//! Another process or program takes over during an order: the authority finds what it looks for, whichever it reaches.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::{Folder, Server, Signal, Site, TIMEOUT, output_of, program, tool, wait_until};

use super::faults::{Fault, Front, What};
use super::{ISSUED, ORDER, Options, Pebble, USUAL, stored};

/// Each name is validated three times, each time after up to four seconds.
const SLOW: Options = Options { env: &[("PEBBLE_VA_NOSLEEP", "0"), ("PEBBLE_VA_SLEEPTIME", "5")], ..USUAL };
const VALIDATIONS: usize = 2 * 3;

/// Waits for the takeover, and from now on signals go to the new program.
fn follow(server: &mut Server) {
    let line = server.wait_for_line(" has taken over", TIMEOUT);
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.iter().position(|word| *word == "process").expect("it names the process");
    server.succeeded_by(words[at + 1].parse().expect("it is a number"));
}

#[track_caller]
fn check_no_validation_failed(pebble: &Pebble) {
    assert!(!pebble.log().contains("INVALID"), "{}", pebble.log());
}

#[test]
fn an_order_of_pebble_is_finished_by_the_program_that_began_it() {
    let pebble = Pebble::start(&SLOW);
    let mut server = pebble.site("challenges = [\"tls-alpn-01\"]").start();
    wait_for_validations(&pebble);
    let output = server.run_command(&["upgrade"]);
    assert!(output.status.success(), "{output:?}");
    follow(&mut server);
    server.wait_for_line(ISSUED, ORDER);
    check_no_validation_failed(&pebble);
    assert_eq!((pebble.issued(), pebble.log().matches("Added order").count()), (1, 1), "{}", pebble.log());
    pebble.check_trusted(pebble.tls);
    assert_eq!(server.wait_for_predecessor(TIMEOUT).code(), Some(0), "it has nothing else to do");
}

#[test]
fn an_order_of_pebble_is_finished_although_the_new_program_tries_other_challenges() {
    let pebble = Pebble::start(&SLOW);
    let config = in_folder(&pebble, "");
    let mut server = start(&config);
    wait_for_validations(&pebble);
    server.configure(&config.replace("tls-alpn-01", "dns-persist-01"));
    let output = server.run_command(&["upgrade"]);
    assert!(output.status.success(), "{output:?}");
    follow(&mut server);
    server.wait_for_line(ISSUED, ORDER);
    check_no_validation_failed(&pebble);
    assert_eq!(pebble.issued(), 1, "{}", pebble.log());
    pebble.check_trusted(pebble.tls);
}

/// A site for `a.example` and `b.example`, and the lines of another host.
fn in_folder(pebble: &Pebble, certificates: &str) -> String {
    let listen = format!("listen = \"127.0.0.1:{} tls\"\n", pebble.tls);
    listen
        + &pebble
            .settings(&format!("folder = \"certificates\"\nchallenges = [\"tls-alpn-01\"]\n{certificates}"))
}

fn start(config: &str) -> Server {
    Site::new().file("hello", "hello").file_beside_root("c/hello", "hello").config(config).start()
}

const OTHER_HOST: &str = "[[host]]\nnames = \"c.example\"\nroot = \"c\"\n";

/// Waits until the authority is about to look for the answers to its challenges.
fn wait_for_validations(pebble: &Pebble) {
    let are_waiting = || pebble.log().matches("before validating").count() == VALIDATIONS;
    assert!(wait_until(ORDER, are_waiting), "{}", pebble.log());
}

fn orders(pebble: &Pebble) -> usize {
    pebble.log().matches("Added order").count()
}

#[test]
fn an_order_of_pebble_ends_before_another_host_is_looked_after() {
    let pebble = Pebble::start(&SLOW);
    let config = in_folder(&pebble, "");
    let server = start(&config);
    wait_for_validations(&pebble);
    server.configure(&format!("{config}{OTHER_HOST}"));
    server.reload();
    server.wait_for_line("has issued a certificate for c.example", ORDER);
    check_no_validation_failed(&pebble);
    assert_eq!((pebble.issued(), orders(&pebble)), (2, 2), "{}", pebble.log());
    pebble.check_trusted(pebble.tls);
    // Each is served by one change.
    let is_served = || pebble.get("c.example", pebble.tls).status.success();
    assert!(wait_until(ORDER, is_served), "{}", server.stderr());
    assert_eq!(server.errors().text().matches(ISSUED).count(), 2, "{}", server.stderr());
}

#[test]
fn an_order_of_pebble_ends_with_the_settings_that_it_began_with() {
    let pebble = Pebble::start(&SLOW);
    let server = start(&in_folder(&pebble, ""));
    wait_for_validations(&pebble);
    server.configure(&(in_folder(&pebble, "key = \"ecdsa-p384\"\nemail = \"a@example.org\"") + OTHER_HOST));
    server.reload();
    server.wait_for_line("has issued a certificate for c.example", ORDER);
    check_no_validation_failed(&pebble);
    assert_eq!((pebble.issued(), orders(&pebble)), (2, 2), "{}", pebble.log());
    for (name, curve) in [("a.example", "prime256v1"), ("c.example", "secp384r1")] {
        let file = stored(&server).join(format!("{name}.pem"));
        let shown = output_of(tool("openssl").args(["x509", "-noout", "-text", "-in"]).arg(file));
        let text = String::from_utf8(shown.stdout).expect("it is text");
        assert!(text.contains(&format!("ASN1 OID: {curve}")), "{name}: {text}");
    }
}

/// The account of the other folder cannot end it.
#[test]
fn an_order_of_pebble_is_broken_off_for_another_folder() {
    let pebble = Pebble::start(&SLOW);
    let server = start(&in_folder(&pebble, ""));
    wait_for_validations(&pebble);
    server.configure(&in_folder(&pebble, "").replace("\"certificates\"", "\"other\""));
    server.reload();
    server.wait_for_line(ISSUED, ORDER);
    assert_eq!((pebble.issued(), orders(&pebble)), (1, 2), "{}", pebble.log());
    pebble.check_trusted(pebble.tls);
}

#[test]
fn an_order_for_a_host_that_is_gone_delays_no_other_one() {
    let pebble = Pebble::start(&USUAL);
    let front = Front::start(&pebble, &[]);
    let config = in_folder(&pebble, &(front.settings() + "timeout = \"300s\""));
    let server = start(&config);
    server.wait_for_line(ISSUED, ORDER);
    front.add(Fault { path: "/order-plz", times: 1, what: What::Silence });
    server.configure(&format!("{config}{OTHER_HOST}"));
    server.reload();
    assert!(wait_until(ORDER, || front.has_used("/order-plz")), "{}", server.stderr());
    server.configure(&format!("{config}{}", OTHER_HOST.replace("c.example", "d.example")));
    server.reload();
    server.wait_for_line("has issued a certificate for d.example", ORDER);
}

/// Copied by another process: if this one wrote the file, a child of another thread could have it open, and executing it
/// would fail (ETXTBSY).
fn install(from: &Path, to: &Path) {
    let copied = output_of(tool("cp").arg(from).arg(to));
    assert!(copied.status.success(), "{copied:?}");
}

#[test]
fn a_challenge_of_pebble_waits_while_a_new_program_starts() {
    let pebble = Pebble::start(&SLOW);
    let home = Folder::new();
    let [installed, began, challenge, go] =
        ["taipan", "began", "challenge", "go"].map(|name| home.path().join(name));
    install(program(), &installed);
    let mut command = Command::new(&installed);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Next, the order needs answers to challenges.
    let front = Front::start(
        &pebble,
        &[Fault { path: "/order-plz", times: 1, what: What::Behind(challenge.clone(), None) }],
    );
    let settings = front.settings() + "challenges = [\"tls-alpn-01\"]";
    let mut server = pebble.site(&settings).start_by(command);
    assert!(wait_until(ORDER, || front.has_used("/order-plz")), "{}", server.stderr());
    let new = home.script(
        "new",
        format!(
            "#!/bin/sh\n>{}\nuntil test -e {}; do sleep 0.05; done\nexec {} \"$@\"\n",
            began.display(),
            go.display(),
            program().display()
        ),
    );
    fs::rename(new, &installed).expect("it is our folder");
    server.signal(Signal::USR2);
    assert!(wait_until(TIMEOUT, || began.exists()), "{}", server.stderr());
    fs::write(&challenge, "").expect("it is our folder");
    assert!(wait_until(ORDER, || pebble.log().contains("/authZ/")), "{}", pebble.log());
    fs::write(&go, "").expect("it is our folder");
    follow(&mut server);
    server.wait_for_line(ISSUED, ORDER);
    check_no_validation_failed(&pebble);
    pebble.check_trusted(pebble.tls);
}
