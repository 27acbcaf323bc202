//! The format of h2load (nghttp2), word by word.

use std::fmt::Write;

use crate::run::Run;

use super::{WAITING, complete, with_availability};

/// The text on standard output.
pub fn render(run: &Run) -> String {
    with_availability(run, |out, run| {
        write_head(out, run)?;
        write_figures(out, run)?;
        write_times(out, run)
    })
}

fn write_head(out: &mut String, run: &Run) -> std::fmt::Result {
    let settings = &run.settings;
    writeln!(out, "starting benchmark...")?;
    let threads = u64::from(settings.threads.max(1));
    let (clients, requests) = (u64::from(settings.concurrency), total(run));
    // Bounded, because the number of threads may come from a file.
    for thread in 0..threads.min(1024) {
        let [clients, requests] =
            [clients, requests].map(|all| all / threads + u64::from(thread < all % threads));
        writeln!(out, "spawning thread #{thread}: {clients} total client(s). {requests} total requests")?;
    }
    if let Some(tls) = &run.server.tls {
        writeln!(out, "TLS Protocol: {}", tls.version)?;
        writeln!(out, "Cipher: {}", tls.cipher)?;
    }
    if run.measured.statuses.total() > 0 {
        writeln!(out, "Application protocol: {}", run.server.protocol)?;
    }
    writeln!(out)
}

/// As h2load counts: the requests that were wanted, or else those that were started.
fn total(run: &Run) -> u64 {
    run.settings.stop_requests.unwrap_or(0).max(run.measured.started)
}

fn write_figures(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    let complete = complete(measured);
    let received = measured.received_bytes();
    writeln!(
        out,
        "finished in {}, {:.2} req/s, {}B/s",
        duration(measured.micros as f64),
        measured.per_second(complete),
        bytes(measured.per_second(received) as u64)
    )?;
    let unanswered = measured.finished().saturating_sub(complete);
    writeln!(
        out,
        "requests: {} total, {} started, {complete} done, {} succeeded, {} failed, {unanswered} errored, \
         {} timeout",
        total(run),
        measured.started,
        measured.done,
        measured.failed(),
        measured.faults.of_any(&WAITING)
    )?;
    let [ok, moved, refused, broken] = [2, 3, 4, 5].map(|class| measured.statuses.class(class));
    writeln!(out, "status codes: {ok} 2xx, {moved} 3xx, {refused} 4xx, {broken} 5xx")?;
    let saved = match measured.plain_head_bytes {
        0 => 0.0,
        plain => (1.0 - measured.head_bytes as f64 / plain as f64) * 100.0,
    };
    writeln!(
        out,
        "traffic: {}B ({received}) total, {}B ({}) headers (space savings {saved:.2}%), {}B ({}) data",
        bytes(received),
        bytes(measured.head_bytes),
        measured.head_bytes,
        bytes(measured.body_bytes),
        measured.body_bytes
    )
}

fn write_times(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    writeln!(out, "                     min         max         mean         sd        +/- sd")?;
    for (name, times) in [
        ("time for request: ", &measured.last_byte),
        ("time for connect: ", &measured.connect),
        ("time to 1st byte: ", &measured.first_byte),
    ] {
        let columns =
            [times.shortest() as f64, times.longest() as f64, times.mean(), times.deviation()].map(duration);
        write_row(out, name, columns, times.within_deviation())?;
    }
    let clients = &measured.per_client;
    let rate = |requests: f64| if measured.micros == 0 { 0.0 } else { requests / measured.seconds() };
    let (columns, inside) = if clients.is_empty() {
        let each = rate(complete(measured) as f64) / f64::from(run.settings.concurrency.max(1));
        ([each, each, each, 0.0], 100.0)
    } else {
        let columns =
            [clients.shortest() as f64, clients.longest() as f64, clients.mean(), clients.deviation()];
        (columns.map(rate), clients.within_deviation())
    };
    write_row(out, "req/s           : ", columns.map(|rate| format!("{rate:.2}")), inside)
}

fn write_row(out: &mut String, name: &str, columns: [String; 4], inside: f64) -> std::fmt::Result {
    let [shortest, longest, mean, deviation] = columns;
    writeln!(out, "{name}{shortest:>10}  {longest:>10}  {mean:>10}  {deviation:>10}{inside:>9.2}%")
}

/// `600us`, `6.21ms`, `1.02s`
fn duration(micros: f64) -> String {
    match micros {
        micros if micros < 1e3 => format!("{micros:.0}us"),
        micros if micros < 1e6 => format!("{:.2}ms", micros / 1e3),
        micros => format!("{:.2}s", micros / 1e6),
    }
}

/// `815`, `72.27K`, `1.17M`: the unit's letter, without its `B`.
fn bytes(bytes: u64) -> String {
    let scaled = |shift: u32| bytes as f64 / (1u64 << shift) as f64;
    match bytes {
        0..0x400 => bytes.to_string(),
        0x400..0x10_0000 => format!("{:.2}K", scaled(10)),
        0x10_0000..0x4000_0000 => format!("{:.2}M", scaled(20)),
        _ => format!("{:.2}G", scaled(30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_h2load() {
        for (input, expected) in [(0, "0"), (815, "815"), (74_000, "72.27K"), (1_224_000, "1.17M")] {
            assert_eq!(bytes(input), expected);
        }
        for (input, expected) in [(0.0, "0us"), (600.0, "600us"), (6_210.0, "6.21ms"), (1.02e6, "1.02s")] {
            assert_eq!(duration(input), expected);
        }
    }
}
