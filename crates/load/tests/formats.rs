//! Compares the formats of other tools with real output of those tools, so that a script for the tool can read
//! ours. Each format has expressions for its lines, made from real output. A real sample and our rendering of the
//! same figures must have the same lines, word by word and column by column.

mod expressions;

use std::collections::BTreeMap;

use expressions::*;
use load::report::{Format, Style};
use load::run::{Fault, Measured, Reuse, Run, Server, Settings, Times, Tls};
use regex::Regex;

/// Checks that the real sample and our rendering of the run have the same lines.
fn check(format: Format, run: &Run, real: &str, lines: &[Line], passed_over: &[&str]) {
    let ours = format.render(run, Style::Plain);
    let passed_over: Vec<&str> = passed_over.iter().copied().chain([AVAILABILITY]).collect();
    let (our_order, our_rows) = read(&ours, lines, &passed_over);
    let (real_order, real_rows) = read(real, lines, &passed_over);
    assert_eq!(our_order, real_order, "\n{ours}");
    for line in lines {
        let (ours, real) = (our_rows.get(line.name), real_rows.get(line.name));
        match line.same {
            Same::All => assert_eq!(ours, real, "{}", line.name),
            Same::Columns => {
                let widths = |rows: Option<&Vec<&str>>| -> Vec<usize> {
                    rows.into_iter().flatten().map(|row| row.chars().count()).collect()
                };
                assert_eq!(widths(ours), widths(real), "{}: {ours:?} {real:?}", line.name);
            }
            Same::Words => {}
        }
    }
    let has_own = matches!(format, Format::Siege | Format::SiegeJson);
    let truths = ours.lines().filter(|row| Regex::new(AVAILABILITY).unwrap().is_match(row)).count();
    assert_eq!(truths, usize::from(!has_own), "{ours}");
}

fn times(steps: &[(u64, u64)]) -> Times {
    let mut times = Times::default();
    for &(micros, count) in steps {
        times.record_many(micros, count);
    }
    times
}

fn server(name: &str, port: u16) -> Server {
    Server {
        name: name.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        path: "/page.html".to_owned(),
        length: 2448,
        protocol: "http/1.1".to_owned(),
        tls: None,
    }
}

fn settings(concurrency: u32, threads: u32) -> Settings {
    let url = "http://127.0.0.1:18980/page.html".to_owned();
    Settings { url, concurrency, threads, ..Settings::default() }
}

fn answers(done: u64, micros: u64, head_bytes: u64, body_bytes: u64) -> Measured {
    let mut measured =
        Measured { started: done, done, micros, head_bytes, body_bytes, ..Measured::default() };
    measured.plain_head_bytes = head_bytes;
    measured.statuses.add(200, done);
    measured
}

const AB_REAL: &str = include_str!("samples/ab.txt");

#[test]
fn ab_without_failures() {
    let mut measured = answers(500, 257_133, 93_500, 1_224_000);
    measured.connect = times(&[(40, 500)]);
    measured.first_byte = times(&[(400, 12), (2_000, 250), (2_400, 230), (6_000, 8)]);
    measured.total =
        times(&[(1_200, 30), (2_200, 270), (2_600, 165), (4_000, 15), (5_000, 12), (6_000, 6), (7_000, 2)]);
    measured.last_byte = measured.total.clone();
    let run = Run {
        settings: settings(5, 1),
        server: server("SimpleHTTP/0.6 Python/3.11.7", 18980),
        measured,
        generators: 1,
    };
    check(Format::Ab, &run, AB_REAL, AB, AB_PASSED_OVER);
}

const AB_FAILURES: &str = include_str!("samples/ab-failures.txt");

/// The distributions of this sample are unknown, so only the columns of those rows are compared.
fn with_columns_of_rows() -> Vec<Line> {
    let row = |line: &&Line| matches!(line.name, "row" | "percentile" | "longest");
    let rows = AB.iter().filter(row).map(|line| columns(line.name, line.expression));
    let others = AB.iter().filter(|line| !row(line));
    others
        .map(|line| Line { same: Same::All, ..*line })
        .map(|line| match line.name {
            "tls" => words(line.name, line.expression),
            _ => line,
        })
        .chain(rows)
        .collect()
}

#[test]
fn ab_with_failures_over_tls() {
    let mut measured = Measured { started: 50, done: 2, micros: 108_528, ..Measured::default() };
    measured.faults.add(Fault::WrongLength, 48);
    measured.statuses.add(200, 45);
    measured.statuses.add(500, 5);
    (measured.head_bytes, measured.body_bytes) = (4_590, 4_240);
    measured.total = times(&[(8_000, 1), (11_000, 1)]);
    measured.last_byte = times(&[(1_000, 2)]);
    measured.first_byte = times(&[(1_000, 2)]);
    let tls = Tls { version: "TLSv1.3".to_owned(), cipher: "TLS_AES_256_GCM_SHA384".to_owned() };
    let server = Server { path: "/".to_owned(), length: 0, tls: Some(tls), ..server("liar/1", 18983) };
    let settings = Settings { reuse: Reuse::PerRequest, ..settings(4, 1) };
    let run = Run { settings, server, measured, generators: 1 };
    check(Format::Ab, &run, AB_FAILURES, &with_columns_of_rows(), AB_PASSED_OVER);
}

/// The Boa manual of 1998.
const ZEUSBENCH_BOA: &str = include_str!("samples/zeusbench-boa.txt");

const ZEUSBENCH_APACHE: &str = include_str!("samples/zeusbench-apache.txt");

#[test]
fn zeusbench_samples_of_the_boa_manual() {
    for (real, name, seconds, kept, bytes, html, connect, total) in [
        (ZEUSBENCH_BOA, "Boa/0.93.9", 27.526, 20_091, 53_743_425, 49_182_768, [0, 2, 325], [87, 292, 5_602]),
        (
            ZEUSBENCH_APACHE,
            "Apache/1.2.5",
            38.1,
            19_850,
            54_576_586,
            49_035_804,
            [0, 0, 101],
            [4, 250, 37_783],
        ),
    ] {
        let mut measured = answers(20_000, (seconds * 1e6) as u64, bytes - html, html);
        measured.kept_alive = kept;
        let three = |[low, mean, high]: [u64; 3]| {
            let others = (mean * 20_000_000).saturating_sub((low + high) * 1000) / 19_998;
            times(&[(low * 1000, 1), (others, 19_998), (high * 1000, 1)])
        };
        (measured.connect, measured.total) = (three(connect), three(total));
        let run = Run { settings: settings(215, 1), server: server(name, 80), measured, generators: 1 };
        check(Format::ZeusBench, &run, real, ZEUSBENCH, &[]);
    }
}

#[test]
fn http_load() {
    let real = include_str!("samples/http_load.txt");
    let mut measured = answers(49, 10_014_800, 9_000, 289_884);
    measured.most_connections = 2;
    measured.connect = times(&[(24_488, 1), (28_600, 47), (44_243, 1)]);
    measured.first_byte = times(&[(57_803, 1), (63_000, 47), (81_624, 1)]);
    let mut run = Run { settings: settings(2, 1), server: server("", 80), measured, generators: 1 };
    check(Format::HttpLoad, &run, real, HTTP_LOAD, &[]);

    run.measured.faults.add(Fault::WrongBody, 3);
    run.measured.faults.add(Fault::ShortBody, 2);
    run.measured.faults.add(Fault::Timeout, 4);
    run.measured.statuses.add(200, 3);
    for (verify, wrong) in
        [(load::run::Check::Checksum, "5 bad checksums"), (load::run::Check::Length, "2 bad byte counts")]
    {
        run.settings.check = verify;
        let text = Format::HttpLoad.render(&run, Style::Plain);
        let (_, rows) = read(&text, HTTP_LOAD, &[AVAILABILITY]);
        assert_eq!(rows["wrong"], [wrong]);
        assert_eq!(rows["timeouts"], ["4 timeouts"]);
        assert_eq!(rows["code"], ["  code 200 -- 52"]);
    }
}

const SIEGE_REAL: &str = include_str!("samples/siege.txt");

const SIEGE_JSON_REAL: &str = include_str!("samples/siege-json.txt");

/// A run of `done` requests in this time, 4.95 at a time, as in the sample of siege.
fn siege_run(done: u64, micros: u64) -> Run {
    let mut measured = answers(done, micros, done * 187, done * 2448);
    let most = (micros as f64 * 4.95 / done as f64) as u64;
    measured.total = times(&[(900, 1), (most, done - 2), (8_500, 1)]);
    measured.longest = 8_500;
    Run { settings: settings(5, 1), server: server("SimpleHTTP/0.6", 18980), measured, generators: 1 }
}

#[test]
fn siege() {
    check(Format::Siege, &siege_run(2622, 1_410_000), SIEGE_REAL, SIEGE, SIEGE_PASSED_OVER);
    assert_eq!(Format::SiegeJson.render(&siege_run(3855, 1_990_000), Style::Plain), SIEGE_JSON_REAL);
}

/// A result of 2009, when siege aligned with spaces.
#[test]
fn siege_with_failures() {
    let real = include_str!("samples/siege-2009.txt");
    let mut measured = answers(74_353, 47_490_000, 0, (2020.14 * 1_048_576.0) as u64);
    measured.faults.add(Fault::Timeout, 1_077);
    measured.total = times(&[(10_000, 1), (117_700, 74_352)]);
    measured.longest = 9_150_000;
    let run = Run { settings: settings(200, 1), server: server("lighttpd", 80), measured, generators: 1 };
    let ours = Format::Siege.render(&run, Style::Plain);
    let (our_order, ours) = read(&ours, SIEGE, &[]);
    let (real_order, real) = read(real, SIEGE, &[]);
    assert_eq!(our_order, real_order);
    let figure = |rows: &BTreeMap<&str, Vec<&str>>, line: &Line| {
        Regex::new(line.expression).unwrap().captures(rows[line.name][0]).unwrap()[1].to_owned()
    };
    for line in SIEGE {
        // siege counted some 400 responses as neither successful nor failed.
        if line.name != "successful" && line.name != "concurrency" {
            assert_eq!(figure(&ours, line), figure(&real, line), "{}", line.name);
        }
    }
}

#[test]
fn wrk() {
    let real = include_str!("samples/wrk.txt");
    let mut measured = Measured { started: 4241, micros: 2_002_446, ..Measured::default() };
    measured.faults.add(Fault::Status, 4241);
    measured.statuses.add(404, 4241);
    (measured.head_bytes, measured.body_bytes) = (784_585, 1_420_735);
    measured.total = times(&[(2_680, 4000), (9_580, 241)]);
    let settings = Settings {
        url: "http://127.0.0.1:18980/missing".to_owned(),
        stop_micros: Some(2_000_000),
        ..settings(10, 2)
    };
    let run = Run { settings, server: server("SimpleHTTP/0.6", 18980), measured, generators: 1 };
    check(Format::Wrk, &run, real, WRK, &[]);
}

#[test]
fn wrk_with_errors() {
    let real = include_str!("samples/wrk-errors.txt");
    let mut measured = answers(181, 2_103_800, 20_000, 17_581);
    measured.faults.add(Fault::Status, 21);
    measured.faults.add(Fault::Reset, 16);
    measured.statuses.add(500, 21);
    measured.total = times(&[(954, 20), (43_990, 100), (48_960, 61)]);
    let settings = Settings { stop_micros: Some(2_000_000), ..settings(4, 2) };
    let run = Run { settings, server: server("liar/1", 18980), measured, generators: 1 };
    check(Format::Wrk, &run, real, WRK, &[]);
}

#[test]
fn h2load() {
    let real = include_str!("samples/h2load.txt");
    // The sample of the real program has a total that is less than its bodies.
    let mut measured = answers(500, 299_348, 84_711 - 10_000, 10_000);
    measured.last_byte = times(&[(600, 200), (2_910, 290), (6_210, 10)]);
    measured.connect = times(&[(27, 3), (39, 1), (64, 1)]);
    measured.first_byte = times(&[(929, 250), (3_280, 250)]);
    measured.per_client = times(&[(99, 2), (101, 3)]);
    let settings = Settings { stop_requests: Some(500), ..settings(5, 1) };
    let run = Run { settings, server: server("SimpleHTTP/0.6", 18980), measured, generators: 1 };
    check(Format::H2load, &run, real, H2LOAD, H2LOAD_PASSED_OVER);
}

#[test]
fn h2load_with_failures_over_tls() {
    let real = include_str!("samples/h2load-failures.txt");
    let mut measured = answers(12, 580_060, 2_419 - 1_182, 1_182);
    measured.started = 14;
    measured.faults.add(Fault::Status, 1);
    measured.faults.add(Fault::Reset, 13);
    measured.statuses.add(500, 1);
    measured.last_byte = times(&[(43_440, 11), (47_980, 1)]);
    measured.connect = times(&[(3_700, 1), (4_270, 1)]);
    measured.first_byte = times(&[(47_150, 12)]);
    let settings = Settings { stop_requests: Some(26), ..settings(2, 1) };
    let tls = Tls { version: "TLSv1.3".to_owned(), cipher: "TLS_AES_256_GCM_SHA384".to_owned() };
    let server = Server { tls: Some(tls), ..server("liar/1", 18983) };
    check(
        Format::H2load,
        &Run { settings, server, measured, generators: 1 },
        real,
        H2LOAD,
        H2LOAD_PASSED_OVER,
    );
}

#[test]
fn h2load_without_a_server() {
    let real = include_str!("samples/h2load-refused.txt");
    let mut measured = Measured { micros: 265, ..Measured::default() };
    measured.faults.add(Fault::Refused, 10);
    let settings = Settings { stop_requests: Some(10), ..settings(2, 1) };
    let run = Run { settings, server: server("", 18981), measured, generators: 1 };
    check(Format::H2load, &run, real, H2LOAD, H2LOAD_PASSED_OVER);
}
