//! The cache as `http-cache-tests` tests it: a public suite for HTTP caches, with an origin and a client in JavaScript.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{Site, TIMEOUT, free_port, npm_package, output_within, tool, wait_until};

/// It pauses for seconds in many of its cases, which it runs at the same time.
const MINUTES: Duration = Duration::from_secs(300);

/// Prints the kind, the name and the result of each case, by the rules of the suite.
const SUMMARY: &str = "
import fs from 'fs'
import tests from './tests/index.mjs'
import surrogate from './tests/surrogate-control.mjs'
import { determineTestResult } from './lib/display.mjs'
const all = tests.concat([surrogate])
const results = JSON.parse(fs.readFileSync(process.env.RESULTS))
for (const suite of all) for (const test of suite.tests) if (!test.browser_only) {
  console.log(test.kind || 'required', test.id, determineTestResult(all, test.id, results, false)[2])
}";

/// Required cases that no cache can pass, or none should.
const REQUIRED: [&str; 5] = [
    // Its name says that the response is stale, and it expects that it is fresh. A cache that passes it reads the first
    // of two ages, and fails `age-parse-dup-0`.
    "age-parse-prefix",
    // They read a field of a response that the origin has not sent: it has closed the connection.
    "stale-close-must-revalidate",
    "stale-close-no-cache",
    "stale-close-proxy-revalidate",
    "stale-close-s-maxage=2",
];

/// Optional cases that fail.
const OPTIONAL: [&str; 11] = [
    // It expects 304 for a time before that of the response.
    "conditional-lm-fresh-no-lm",
    // A response to POST is not stored.
    "method-POST",
    // Requests with cookies, and responses that set them, are for one user.
    "other-cookie",
    "other-set-cookie",
    // The stored part has no validator, without which parts must not be combined (RFC 9111 §3.4).
    "partial-store-partial-complete",
    // The response has five bytes, and its `Content-Range` says that they are six.
    "partial-store-partial-reuse-partial",
    "partial-store-partial-reuse-partial-absent",
    "partial-store-partial-reuse-partial-byterange",
    "partial-store-partial-reuse-partial-suffix",
    // The order of languages may matter to an application.
    "vary-normalise-lang-order",
    "vary-normalise-lang-select",
];

/// What the best of nginx, Varnish, Squid, Apache Traffic Server, Apache and nuster pass in the published results.
const BEST: (usize, usize) = (141, 60);

#[test]
fn passes_more_of_cache_tests_than_other_caches() {
    let folder = npm_package("http-cache-tests");
    let origin_port = free_port();
    let home = Site::new();
    let pid_file = home.home().join("origin.pid");
    let mut origin = tool("node");
    origin.arg("server/server.mjs").current_dir(&folder);
    origin.env("npm_config_protocol", "http").env("npm_config_port", origin_port.to_string());
    origin.env("npm_config_pidfile", &pid_file).stdout(std::process::Stdio::null());
    let mut origin = origin.spawn().expect("node runs");
    assert!(wait_until(TIMEOUT, || std::net::TcpStream::connect(("127.0.0.1", origin_port)).is_ok()));
    // On a loaded machine, a worker that is late would shed what is not stored.
    let server = Site::new()
        .config(&format!(
            "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://127.0.0.1:{origin_port}\"\n\
             response_cache = true\nresponse_cache_reload = true\n\
             response_cache_targets = [\"CDN-Cache-Control\", \"Surrogate-Control\"]\n\
             response_cache_surrogate = \"taipan\"\n[timeouts]\ndelay = 0\n"
        ))
        .start();
    let run = |id: &str| {
        let mut client = tool("node");
        client.args(["--no-warnings", "cli.mjs"]).current_dir(&folder);
        client.env("npm_config_base", format!("http://{}", server.addr()));
        client.env("npm_config_id", id).env("npm_package_config_id", id);
        output_within(&mut client, MINUTES).stdout
    };
    let results = results(&folder, home.home().join("results.json"), &run(""));
    let of = |kind: &str, symbol: &str| -> BTreeSet<&str> {
        let rows = results.lines().filter_map(|line| line.split_once(' '));
        let of_kind = rows.filter(|(own, _)| *own == kind).filter_map(|(_, rest)| rest.split_once(' '));
        of_kind.filter(|(_, own)| own.starts_with(symbol)).map(|(name, _)| name).collect()
    };
    // A hundred cases run at once, and count seconds: what fails then has to pass alone.
    let passes_alone = |id: &&str| String::from_utf8_lossy(&run(id)).contains('✅');
    let passed = |kind: &str, failed: BTreeSet<&str>, symbol: &str| {
        let found = of(kind, symbol);
        let unexpected: Vec<&str> = found.difference(&failed).copied().collect();
        let still: Vec<&&str> = unexpected.iter().filter(|id| !passes_alone(id)).collect();
        assert!(still.is_empty(), "{kind} cases fail: {still:?}\n{results}");
        let passed = of(kind, "✅");
        let by_now: Vec<_> = failed.intersection(&passed).collect();
        assert!(by_now.is_empty(), "{kind} cases pass by now: {by_now:?}");
        passed.len() + unexpected.len()
    };
    let required = passed("required", REQUIRED.into(), "⛔");
    let optional = passed("optimal", OPTIONAL.into(), "⚠");
    _ = origin.kill();
    _ = origin.wait();
    assert!(required > BEST.0 && optional > BEST.1, "{required} and {optional}");
}

fn results(folder: &Path, file: PathBuf, json: &[u8]) -> String {
    fs::write(&file, json).expect("it is our folder");
    let mut summary = tool("node");
    summary.args(["--no-warnings", "--input-type=module", "-e", SUMMARY]).current_dir(folder);
    let output = output_within(summary.env("RESULTS", &file), MINUTES);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
