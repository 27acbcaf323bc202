//! The formats of siege 4.0, as text and as JSON, word by word and tab by tab. siege prints availability and the
//! longest transaction itself, so only one line is added, when failures are the client's.
//!
//! A transaction is a right request. siege counts a 404 as one, and so calls a server available that has no such
//! file. Here a 404 is a failure.

use std::fmt::Write;

use crate::run::Run;

use super::push_own_failures;

/// In siege a megabyte has 1024² bytes.
const MEGABYTE: f64 = 1_048_576.0;

/// The text on standard output.
pub fn render(run: &Run) -> String {
    let figures = Figures::of(run);
    let mut out = String::new();
    for (name, tabs, value, unit) in [
        ("Transactions:", "\t\t", figures.transactions, " hits"),
        ("Availability:", "\t\t", figures.availability, " %"),
        ("Elapsed time:", "\t\t", figures.elapsed, " secs"),
        ("Data transferred:", "\t", figures.megabytes, " MB"),
        ("Response time:", "\t\t", figures.response_time, " secs"),
        ("Transaction rate:", "\t", figures.rate, " trans/sec"),
        ("Throughput:", "\t\t", figures.throughput, " MB/sec"),
        ("Concurrency:", "\t\t", figures.concurrency, ""),
        ("Successful transactions:", "", figures.successful, ""),
        ("Failed transactions:", "\t", figures.failed, ""),
        ("Longest transaction:", "\t", figures.longest, ""),
        ("Shortest transaction:", "\t", figures.shortest, ""),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}{tabs}{value:>12}{unit}");
    }
    out.push_str(" \n");
    push_own_failures(&mut out, &run.measured);
    out
}

/// As siege prints it with `--json-output`.
pub fn render_json(run: &Run) -> String {
    let figures = Figures::of(run);
    let rows = [
        ("\"transactions\":", "\t\t\t", figures.transactions),
        ("\"availability\":", "\t\t\t", figures.availability),
        ("\"elapsed_time\":", "\t\t\t", figures.elapsed),
        ("\"data_transferred\":", "\t\t", figures.megabytes),
        ("\"response_time\":", "\t\t", figures.response_time),
        ("\"transaction_rate\":", "\t\t", figures.rate),
        ("\"throughput\":", "\t\t\t", figures.throughput),
        ("\"concurrency\":", "\t\t\t", figures.concurrency),
        ("\"successful_transactions\":", "\t", figures.successful),
        ("\"failed_transactions\":", "\t\t", figures.failed),
        ("\"longest_transaction\":", "\t\t", figures.longest),
        ("\"shortest_transaction\":", "\t\t", figures.shortest),
    ];
    let rows = rows.map(|(name, tabs, value)| format!("\t{name}{tabs}{value:>12}"));
    format!("{{{}\n}}\n", rows.join(",\n"))
}

/// The twelve figures of siege, in its digits.
struct Figures {
    transactions: String,
    availability: String,
    elapsed: String,
    megabytes: String,
    response_time: String,
    rate: String,
    throughput: String,
    concurrency: String,
    successful: String,
    failed: String,
    longest: String,
    shortest: String,
}

impl Figures {
    fn of(run: &Run) -> Self {
        let measured = &run.measured;
        let two = |value: f64| format!("{value:.2}");
        let seconds = |micros: f64| two(micros / 1e6);
        // siege counts bodies, and no heads.
        let received = measured.body_bytes;
        Self {
            transactions: measured.done.to_string(),
            // Rounded down, so that a failure never reads as 100.00.
            availability: two((measured.availability().unwrap_or(0.0) * 100.0 + 1e-9).floor() / 100.0),
            elapsed: two(measured.seconds()),
            megabytes: two(received as f64 / MEGABYTE),
            response_time: seconds(measured.total.mean()),
            rate: two(measured.per_second(measured.done)),
            throughput: two(measured.per_second(received) / MEGABYTE),
            concurrency: two(measured.total.sum() as f64 / measured.micros.max(1) as f64),
            successful: measured.done.to_string(),
            failed: measured.failed().to_string(),
            longest: seconds(measured.longest as f64),
            shortest: seconds(measured.total.shortest() as f64),
        }
    }
}
