//! `taipan top` in a pseudoterminal, and as a table.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use e2e::{Server, Signal, Site, TIMEOUT, command, wait_until};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// The program in a terminal of its own.
struct Terminal {
    child: Child,
    keys: File,
    /// The terminal itself, so that its settings can be read.
    own: OwnedFd,
    output: Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn start(mut command: Command) -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        grantpt(&controller).expect("it is ours");
        unlockpt(&controller).expect("it is ours");
        let name = ptsname(&controller, Vec::new()).expect("it has a name");
        let terminal = || open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it is ours");
        let own = terminal();
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&own, size).expect("it is ours");
        command.stdin(terminal()).stdout(terminal()).stderr(terminal());
        let child = command.spawn().expect("it starts");
        // The descriptors that the command has kept would hold the terminal open.
        drop(command);
        let keys = File::from(controller);
        let mut shown = keys.try_clone().expect("there are descriptors");
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = shown.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keys, own, output, text: String::new() }
    }

    /// Waits until this is shown behind what was shown before, and forgets that.
    fn expect(&mut self, what: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.text.find(what) {
                self.text.drain(..at + what.len());
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            let more = self.output.recv_timeout(left);
            let more = more.unwrap_or_else(|_| panic!("it does not show {what:?}: {:?}", self.text));
            self.text.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).expect("it reads keys");
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.own).expect("it is a terminal").local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    fn end(&mut self) -> ExitStatus {
        assert!(wait_until(TIMEOUT, || self.child.try_wait().is_ok_and(|status| status.is_some())));
        self.child.wait().expect("it has ended")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless the test has failed.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn server() -> Server {
    let config =
        "workers = 2\n[statistics]\nhosts = 5\nroutes = 5\n[[route]]\npath = \"/gone/\"\nreturn = 410\n";
    Site::new().file("a.txt", "hello\n").config(config).start()
}

fn top(server: &Server, arguments: &[&str]) -> Command {
    let mut top = command();
    top.env("TERM", "xterm")
        .arg("top")
        .arg("-c")
        .arg(server.home().join("site.toml"))
        .args(arguments.iter().map(OsStr::new));
    top
}

#[test]
fn shows_what_happens_and_restores_the_terminal_after_a_key() {
    let server = server();
    let mut terminal = Terminal::start(top(&server, &[]));
    terminal.expect(ENTER);
    terminal.expect("sort by rate");
    assert!(terminal.is_raw());
    assert_eq!(server.get("/gone/x?token=secret").status, 410);
    terminal.expect("/gone/x?token=…");
    terminal.press("s");
    terminal.expect("sort by errors");
    terminal.press("\x1b[A");
    terminal.press("p");
    terminal.expect("PAUSED");
    terminal.press("p");
    terminal.expect("p: pause");
    terminal.press("q");
    terminal.expect(LEAVE);
    assert_eq!(terminal.end().code(), Some(0));
    assert!(!terminal.is_raw());
}

#[test]
fn restores_the_terminal_after_signals_and_interrupts() {
    let server = server();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = Terminal::start(top(&server, &[]));
        terminal.expect("sort by rate");
        assert!(terminal.is_raw());
        let pid = rustix::process::Pid::from_child(&terminal.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
        terminal.expect(LEAVE);
        assert!(terminal.end().success());
        assert!(!terminal.is_raw());
    }
    let mut terminal = Terminal::start(top(&server, &[]));
    terminal.expect("sort by rate");
    terminal.press("\x03");
    terminal.expect(LEAVE);
    assert!(terminal.end().success() && !terminal.is_raw());
}

#[test]
fn draws_again_when_the_terminal_gets_another_size_and_goes_on_over_a_reload() {
    let server = server();
    let mut terminal = Terminal::start(top(&server, &[]));
    terminal.expect("sort by rate");
    let process = format!("process {}", server.serving_pid());
    tcsetwinsize(&terminal.own, Winsize { ws_row: 1, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 })
        .expect("it is ours");
    terminal.expect("\x1b[J");
    tcsetwinsize(&terminal.own, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 })
        .expect("it is ours");
    terminal.expect(&process);
    server.reload();
    terminal.expect(&format!("process {}", server.serving_pid()));
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn prints_one_table_without_a_terminal_or_when_asked() {
    let server = server();
    assert_eq!(server.get("/gone/\x1b[31mx").status, 400);
    assert_eq!(server.get("/gone/y").status, 410);
    for arguments in [&["top", "--once"][..], &["top"]] {
        let output = server.run_command(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        for part in ["responses  ", "HOST OR ROUTE", "* /gone/", "LAST REQUESTS", " /gone/y"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains('\x1b'), "{text:?}");
    }
    let mut plain = Terminal::start({
        let mut plain = top(&server, &[]);
        plain.env("TERM", "dumb");
        plain
    });
    plain.expect("LAST REQUESTS");
    assert!(plain.end().success());
}

#[test]
fn fails_without_a_running_program_and_leaves_the_screen_as_it_is() {
    let site = Site::new();
    let mut none = command();
    none.env("TERM", "xterm").arg("top").arg("-c").arg(site.write_config());
    let mut terminal = Terminal::start(none);
    terminal.expect("no taipan serves");
    assert_eq!(terminal.end().code(), Some(1));
    assert!(!terminal.text.contains(ENTER));
}
