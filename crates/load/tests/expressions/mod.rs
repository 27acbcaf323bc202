//! Expressions for the lines of other tools' formats, made from output of the real programs, and a parser that
//! uses them.

use std::collections::BTreeMap;

use regex::Regex;

/// A named expression for a line.
pub struct Line {
    pub name: &'static str,
    pub expression: &'static str,
    pub same: Same,
}

/// What of a line must be equal for the same figures.
pub enum Same {
    /// Every character.
    All,
    /// The words and the columns; the real program derives the figures from data that a `Run` does not have.
    Columns,
    /// The words.
    Words,
}

pub const fn line(name: &'static str, expression: &'static str) -> Line {
    Line { name, expression, same: Same::All }
}

pub const fn columns(name: &'static str, expression: &'static str) -> Line {
    Line { name, expression, same: Same::Columns }
}

pub const fn words(name: &'static str, expression: &'static str) -> Line {
    Line { name, expression, same: Same::Words }
}

/// The line that taipan-bench appends and that scripts for other tools ignore.
pub const AVAILABILITY: &str = "^taipan-bench: availability (none|[0-9.]+ %), longest request [0-9.]+ ms$";

/// The names of a text's lines in their order, and the lines by name. A line that no expression matches fails the
/// test.
pub fn read<'a>(
    text: &'a str,
    lines: &[Line],
    passed_over: &[&str],
) -> (Vec<&'static str>, BTreeMap<&'static str, Vec<&'a str>>) {
    let (mut order, mut found) = (Vec::new(), BTreeMap::<_, Vec<&str>>::new());
    let passed_over: Vec<Regex> = passed_over.iter().map(|text| Regex::new(text).unwrap()).collect();
    let lines: Vec<_> = lines.iter().map(|line| (line.name, Regex::new(line.expression).unwrap())).collect();
    for row in text.lines().filter(|row| !row.trim().is_empty()) {
        if passed_over.iter().any(|expression| expression.is_match(row)) {
            continue;
        }
        let known = lines.iter().find(|(_, expression)| expression.is_match(row));
        let (name, _) = known.unwrap_or_else(|| panic!("no expression for {row:?} in\n{text}"));
        order.push(*name);
        found.entry(*name).or_default().push(row);
    }
    (order, found)
}

pub const AB: &[Line] = &[
    line("software", r"^Server Software:        (.*)$"),
    line("hostname", r"^Server Hostname:        (\S+)$"),
    line("port", r"^Server Port:            (\d+)$"),
    words("tls", r"^SSL/TLS Protocol:       (TLSv[0-9.]+),([A-Z0-9_]+)(,\d+,\d+)?$"),
    line("path", r"^Document Path:          (\S+)$"),
    line("length", r"^Document Length:        (\d+) bytes$"),
    line("concurrency", r"^Concurrency Level:      (\d+)$"),
    line("taken", r"^Time taken for tests:   (\d+\.\d{3}) seconds$"),
    line("complete", r"^Complete requests:      (\d+)$"),
    line("failed", r"^Failed requests:        (\d+)$"),
    line("kinds", r"^   \(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)$"),
    line("other", r"^Non-2xx responses:      (\d+)$"),
    line("kept", r"^Keep-Alive requests:    (\d+)$"),
    line("transferred", r"^Total transferred:      (\d+) bytes$"),
    line("html", r"^HTML transferred:       (\d+) bytes$"),
    line("rate", r"^Requests per second:    (\d+\.\d\d) \[#/sec\] \(mean\)$"),
    line("mean", r"^Time per request:       (\d+\.\d{3}) \[ms\] \(mean\)$"),
    line("across", r"^Time per request:       (\d+\.\d{3}) \[ms\] \(mean, across all concurrent requests\)$"),
    line("transfer", r"^Transfer rate:          (\d+\.\d\d) \[Kbytes/sec\] received$"),
    line("times", r"^Connection Times \(ms\)$"),
    line("head", r"^              min  mean\[\+/-sd\] median   max$"),
    line("row", r"^(Connect|Processing|Waiting|Total): +(\d+) +(\d+) +(\d+\.\d) +(\d+) +(\d+)$"),
    line("percentiles", r"^Percentage of the requests served within a certain time \(ms\)$"),
    line("percentile", r"^  (\d\d)%  +(\d+)$"),
    line("longest", r"^ 100%  +(\d+) \(longest request\)$"),
];

/// Lines of ab about itself, and its advice.
pub const AB_PASSED_OVER: &[&str] = &[
    r"^This is ApacheBench, Version 2\.3 ",
    r"^Copyright 1996 ",
    r"^Licensed to ",
    r"^Benchmarking 127\.0\.0\.1 \(be patient\)",
    r"^Server Temp Key:        ",
    r"^WARNING: ",
    r"^        These results are probably not that reliable\.$",
];

pub const ZEUSBENCH: &[Line] = &[
    line("server", r"^Server: +(.*)$"),
    line("length", r"^Doucment Length: +(\d+)$"),
    line("concurrency", r"^Concurency Level: +(\d+)$"),
    line("taken", r"^Time taken for tests: +(\d+\.\d{3}) seconds$"),
    line("complete", r"^Complete requests: +(\d+)$"),
    line("failed", r"^Failed requests: +(\d+)$"),
    line("kept", r"^Keep-Alive requests: +(\d+)$"),
    line("bytes", r"^Bytes transfered: +(\d+)$"),
    line("html", r"^HTML transfered: +(\d+)$"),
    line("rate", r"^Requests per seconds: +(\d+\.\d\d)$"),
    line("transfer", r"^Transfer rate: +(\d+\.\d\d) kb/s$"),
    line("times", r"^Connnection Times \(ms\)$"),
    line("head", r"^           min   avg   max$"),
    line("row", r"^(Connect|Total): +(\d+) +(\d+) +(\d+)$"),
];

pub const HTTP_LOAD: &[Line] = &[
    line("fetches", r"^(\d+) fetches, (\d+) max parallel, (\S+) bytes, in (\S+) seconds$"),
    line("mean", r"^(\S+) mean bytes/connection$"),
    line("rate", r"^(\S+) fetches/sec, (\S+) bytes/sec$"),
    words("connect", r"^msecs/connect: (\S+) mean, (\S+) max, (\S+) min$"),
    words("response", r"^msecs/first-response: (\S+) mean, (\S+) max, (\S+) min$"),
    line("timeouts", r"^(\d+) timeouts$"),
    line("wrong", r"^(\d+) bad (checksums|byte counts)$"),
    line("codes", r"^HTTP response codes:$"),
    line("code", r"^  code (\d{3}) -- (\d+)$"),
];

pub const SIEGE: &[Line] = &[
    line("transactions", r"^Transactions:\s+(\d+) hits$"),
    line("availability", r"^Availability:\s+(\d+\.\d\d) %$"),
    line("elapsed", r"^Elapsed time:\s+(\d+\.\d\d) secs$"),
    line("data", r"^Data transferred:\s+(\d+\.\d\d) MB$"),
    line("response", r"^Response time:\s+(\d+\.\d\d) secs$"),
    line("rate", r"^Transaction rate:\s+(\d+\.\d\d) trans/sec$"),
    line("throughput", r"^Throughput:\s+(\d+\.\d\d) MB/sec$"),
    line("concurrency", r"^Concurrency:\s+(\d+\.\d\d)$"),
    line("successful", r"^Successful transactions:\s+(\d+)$"),
    line("failed", r"^Failed transactions:\s+(\d+)$"),
    line("longest", r"^Longest transaction:\s+(\d+\.\d\d)$"),
    line("shortest", r"^Shortest transaction:\s+(\d+\.\d\d)$"),
];

pub const SIEGE_PASSED_OVER: &[&str] =
    &[r"^\*\* SIEGE ", r"^\*\* Preparing ", r"^The server is now under siege", r"^Lifting the server siege"];

pub const WRK: &[Line] = &[
    line("running", r"^Running (\d+[smh]) test @ (\S+)$"),
    line("threads", r"^  (\d+) threads and (\d+) connections$"),
    line("head", r"^  Thread Stats   Avg      Stdev     Max   \+/- Stdev$"),
    columns(
        "latency",
        r"^    Latency  +(\d+\.\d\d)(us|ms|s) +(\d+\.\d\d)(us|ms|s) +(\d+\.\d\d)(us|ms|s) +(\d+\.\d\d)%$",
    ),
    columns(
        "rates",
        r"^    Req/Sec  +(\d+\.\d\d)([kM]?) +(\d+\.\d\d)([kM]?) +(\d+\.\d\d)([kM]?) +(\d+\.\d\d)%$",
    ),
    line("distribution", r"^  Latency Distribution$"),
    columns("percentile", r"^     (\d\d)% +(\d+\.\d\d)(us|ms|s) *$"),
    line("total", r"^  (\d+) requests in (\d+\.\d\d)(us|ms|s|m), (\d+\.\d\d)([KMG]?)B read$"),
    line("errors", r"^  Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)$"),
    line("other", r"^  Non-2xx or 3xx responses: (\d+)$"),
    line("rate", r"^Requests/sec: +(\d+\.\d\d)$"),
    line("transfer", r"^Transfer/sec: +(\d+\.\d\d)([KMG]?)B$"),
];

pub const H2LOAD: &[Line] = &[
    line("starting", r"^starting benchmark\.\.\.$"),
    line("thread", r"^spawning thread #(\d+): (\d+) total client\(s\)\. (\d+) total requests$"),
    line("tls", r"^TLS Protocol: (\S+)$"),
    line("cipher", r"^Cipher: (\S+)$"),
    line("protocol", r"^Application protocol: (\S+)$"),
    line("finished", r"^finished in (\d+us|\d+\.\d\d(ms|s)), (\d+\.\d\d) req/s, (\d+(\.\d\d)?)([KMG]?)B/s$"),
    line(
        "requests",
        r"^requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$",
    ),
    line("statuses", r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx$"),
    words(
        "traffic",
        r"^traffic: (\S+B) \((\d+)\) total, (\S+B) \((\d+)\) headers \(space savings (\d+\.\d\d)%\), (\S+B) \((\d+)\) data$",
    ),
    line("head", r"^                     min         max         mean         sd        \+/- sd$"),
    columns(
        "times",
        r"^time (for request|for connect|to 1st byte):  *(\d\S*[mu]?s)  +(\d\S*[mu]?s)  +(\d\S*[mu]?s)  +(\d\S*[mu]?s) +(\d+\.\d\d)%$",
    ),
    columns(
        "clients",
        r"^req/s           :  +(\d+\.\d\d)  +(\d+\.\d\d)  +(\d+\.\d\d)  +(\d+\.\d\d) +(\d+\.\d\d)%$",
    ),
];

pub const H2LOAD_PASSED_OVER: &[&str] = &[
    r"^progress: \d+% done$",
    r"^Server Temp Key: ",
    r"^No protocol negotiated\.",
    r"^Server does not support NPN/ALPN\.",
];
