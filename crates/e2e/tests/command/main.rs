//! The command line: arguments, messages, and exit codes.

mod check;
mod explain;
mod healthcheck;
mod help;
mod output;
mod refusals;
mod start;

use std::fs::{self, Permissions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::thread;
use std::time::Instant;

use e2e::{
    Address, Folder, Rows, Server, Site, authority, command, free_port, is_root, output_of, own_user, tool,
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
