//! HTTP/2 as h2spec tests it: a program of its own, which sends what RFC 9113 and RFC 7541 forbid.

use std::net::SocketAddr;
use std::time::Duration;

use e2e::{Server, Site, output_within, tool};

/// It tries some 150 cases, of which a few wait for seconds.
const MINUTES: Duration = Duration::from_secs(300);

/// A script reads the whole request before it responds. A response that comes before the request's end is allowed, but
/// h2spec then does not see how the rest of the request is rejected.
const SCRIPT: &str = "#!/bin/sh\ncat >/dev/null\nprintf 'X-A: b\\n\\n'\nhead -c 100000 /dev/zero\n";

fn site() -> Server {
    let config = "[[route]]\npath = \"*.cgi\"\ncgi = true";
    Site::new().every_protocol().config(config).script("a.cgi", SCRIPT).start()
}

/// Runs all cases. Only those of these names may fail.
fn check(address: SocketAddr, flags: &[&str], exceptions: &[&str]) {
    let mut h2spec = tool("h2spec");
    h2spec.args(["--strict", "--timeout", "5", "--path", "/a.cgi"]);
    h2spec.args(["--host", &address.ip().to_string(), "--port", &address.port().to_string()]);
    h2spec.args(flags);
    let output = output_within(&mut h2spec, MINUTES);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (cases, failures) = text.split_once("Failures:").unwrap_or((&text, ""));
    assert!(cases.matches('✔').count() > 140, "{text}");
    // Section numbers and names come before what was expected and found.
    let failed: Vec<&str> = failures.lines().filter(|line| line.contains('×')).collect();
    let unexpected = failed.iter().filter(|line| !exceptions.iter().any(|name| line.ends_with(name)));
    assert_eq!(unexpected.count(), 0, "{failures}");
}

#[test]
fn h2spec_passes_over_tcp() {
    let server = site();
    // The listener speaks HTTP/1, too, and rejects with 400 what is neither.
    check(server.tcp(2), &[], &["Sends invalid connection preface"]);
    assert_eq!(server.get("/").status, 403);
}

#[test]
fn h2spec_passes_over_tls() {
    let server = site();
    check(server.tcp(1), &["--tls", "--insecure"], &[]);
    assert_eq!(server.get("/").status, 403);
}
