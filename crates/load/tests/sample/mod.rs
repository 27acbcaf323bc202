//! Invented runs for tests of reports, made from fixed random numbers.

use load::run::{Fault, Measured, Pace, Reuse, Run, Server, Settings};

/// A generator of numbers that are the same in every test (xorshift).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Between 0 and 1.
    pub fn fraction(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A time with a long tail, in microseconds.
    pub fn micros(&mut self) -> u64 {
        let tail = -(1.0 - self.fraction()).ln();
        (300.0 + 900.0 * tail + 40.0 * tail.powi(4)) as u64
    }
}

/// Counts one right response of 200 bytes of head and 2448 of body.
pub fn right(measured: &mut Measured, since_begin: u64, total: u64) {
    measured.started += 1;
    measured.done += 1;
    measured.kept_alive += 1;
    measured.statuses.count(200);
    measured.head_bytes += 200;
    measured.plain_head_bytes += 200;
    measured.body_bytes += 2448;
    measured.sent_bytes += 60;
    measured.first_byte.record(total - total / 5);
    measured.last_byte.record(total - total / 10);
    measured.total.record(total);
    measured.longest = measured.longest.max(total);
    measured.series.done(since_begin, total, 2648);
}

/// Counts one failed request.
pub fn wrong(measured: &mut Measured, since_begin: u64, total: u64, fault: Fault, url: &str) {
    measured.started += 1;
    measured.fail(fault, url);
    measured.longest = measured.longest.max(total);
    measured.series.failed(since_begin, total, 0);
    if fault == Fault::Status {
        measured.statuses.count(500);
        measured.head_bytes += 180;
        measured.plain_head_bytes += 180;
    }
}

pub fn settings() -> Settings {
    Settings {
        url: "http://www.example:8080/page.html".to_owned(),
        urls: 1,
        command_line: "taipan-bench -c 215 -z 30s http://www.example:8080/page.html".to_owned(),
        method: "GET".to_owned(),
        concurrency: 215,
        threads: 2,
        depth: 1,
        reuse: Reuse::KeepAlive,
        pace: Pace::Closed,
        stop_micros: Some(30_000_000),
        timeout_micros: 30_000_000,
        seed: 0xfeed_beef_feed_beef,
        ..Settings::default()
    }
}

pub fn server() -> Server {
    Server {
        name: "Boa/0.93.9".to_owned(),
        host: "www.example".to_owned(),
        port: 8080,
        path: "/page.html".to_owned(),
        length: 2448,
        protocol: "http/1.1".to_owned(),
        tls: None,
    }
}

/// Thirty seconds with half a second of stall, and failures of several kinds.
pub fn run() -> Run {
    let mut measured =
        Measured { began_unix: 1_700_000_000, micros: 30_000_000, connections: 230, ..Measured::default() };
    measured.most_connections = 215;
    measured.cpu_micros = 900_000;
    measured.busiest_micros = 480_000;
    let mut dice = Dice(42);
    for _ in 0..230 {
        measured.connect.record(30 + dice.roll() % 300);
    }
    for request in 0..60_000u64 {
        let since_begin = request * 500;
        let stalled = (12_000_000..12_500_000).contains(&since_begin);
        let total = if stalled { 900_000 + dice.micros() } else { dice.micros() };
        match dice.roll() % 1000 {
            0 if stalled => wrong(&mut measured, since_begin, 5_602_000, Fault::Timeout, "/page.html"),
            1 => wrong(&mut measured, since_begin, total, Fault::Status, "/page.html"),
            2 if request % 7 == 0 => {
                wrong(&mut measured, since_begin, total, Fault::WrongBody, "/other.html")
            }
            3 if request > 50_000 => wrong(&mut measured, since_begin, 20, Fault::Refused, "/page.html"),
            _ => right(&mut measured, since_begin, total),
        }
    }
    for client in 0..215 {
        measured.per_client.record(275 + client % 9);
    }
    Run { settings: settings(), server: server(), measured, generators: 1 }
}
