//! The format of ab (ApacheBench 2.3), word by word. The opening line is kept so that scripts recognise it, and
//! names taipan-bench. The remarks about medians and means are left out.
//!
//! As in ab, a status outside 2xx is not a failed request and has a line of its own, and a request on a reused
//! connection has a connect time of 0. Times are those of right responses.

use std::fmt::Write;

use crate::run::{Fault, Reuse, Run, Times};

use super::{CONNECTING, WAITING, complete, with_availability};

/// The text on standard output.
pub fn render(run: &Run) -> String {
    with_availability(run, |out, run| {
        write_head(out, run)?;
        write_figures(out, run)?;
        if complete(&run.measured) > 0 {
            write_times(out, run)?;
        }
        writeln!(out)
    })
}

fn write_head(out: &mut String, run: &Run) -> std::fmt::Result {
    let server = &run.server;
    writeln!(
        out,
        "This is ApacheBench, Version 2.3 (its form; measured by taipan-bench {})\n",
        env!("CARGO_PKG_VERSION")
    )?;
    writeln!(out, "Benchmarking {} (be patient).....done\n\n", server.host)?;
    // ab ends the name at the first space.
    let software = server.name.split_whitespace().next().unwrap_or_default();
    writeln!(out, "Server Software:        {software}")?;
    writeln!(out, "Server Hostname:        {}", server.host)?;
    writeln!(out, "Server Port:            {}", server.port)?;
    if let Some(tls) = &server.tls {
        writeln!(out, "SSL/TLS Protocol:       {},{}", tls.version, tls.cipher)?;
    }
    writeln!(out)?;
    writeln!(out, "Document Path:          {}", server.path)?;
    writeln!(out, "Document Length:        {} bytes\n", server.length)
}

fn write_figures(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    let faults = &measured.faults;
    let complete = complete(measured);
    let failed = measured.failed().saturating_sub(faults.of(Fault::Status));
    writeln!(out, "Concurrency Level:      {}", run.settings.concurrency)?;
    writeln!(out, "Time taken for tests:   {:.3} seconds", measured.seconds())?;
    writeln!(out, "Complete requests:      {complete}")?;
    writeln!(out, "Failed requests:        {failed}")?;
    if failed > 0 {
        writeln!(
            out,
            "   (Connect: {}, Receive: {}, Length: {}, Exceptions: {})",
            faults.of_any(&CONNECTING),
            faults.of_any(&WAITING) + faults.of(Fault::Reset),
            faults.of_any(&[Fault::ShortBody, Fault::WrongLength]),
            faults.of_any(&[Fault::WrongBody, Fault::Malformed])
        )?;
    }
    let other = measured.statuses.total().saturating_sub(measured.statuses.class(2));
    if other > 0 {
        writeln!(out, "Non-2xx responses:      {other}")?;
    }
    if run.settings.reuse == Reuse::KeepAlive {
        writeln!(out, "Keep-Alive requests:    {}", measured.kept_alive)?;
    }
    writeln!(out, "Total transferred:      {} bytes", measured.received_bytes())?;
    writeln!(out, "HTML transferred:       {} bytes", measured.body_bytes)?;
    if measured.micros > 0 && complete > 0 {
        let each = measured.seconds() * 1000.0 / complete as f64;
        let mine = each * f64::from(run.settings.concurrency);
        writeln!(out, "Requests per second:    {:.2} [#/sec] (mean)", measured.per_second(complete))?;
        writeln!(out, "Time per request:       {mine:.3} [ms] (mean)")?;
        writeln!(out, "Time per request:       {each:.3} [ms] (mean, across all concurrent requests)")?;
        let rate = measured.per_second(measured.received_bytes()) / 1024.0;
        writeln!(out, "Transfer rate:          {rate:.2} [Kbytes/sec] received")?;
    }
    Ok(())
}

fn write_times(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    let mut connect = measured.connect.clone();
    connect.record_many(0, measured.total.count().saturating_sub(connect.count()));
    writeln!(out, "\nConnection Times (ms)")?;
    writeln!(out, "              min  mean[+/-sd] median   max")?;
    for (name, times) in [
        ("Connect:", &connect),
        ("Processing:", &measured.last_byte),
        ("Waiting:", &measured.first_byte),
        ("Total:", &measured.total),
    ] {
        writeln!(
            out,
            "{name:<12}{:5} {:4} {:5.1} {:6} {:7}",
            milliseconds(times.shortest()),
            milliseconds(times.mean().round() as u64),
            times.deviation() / 1000.0,
            milliseconds(times.median()),
            milliseconds(times.longest())
        )?;
    }
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    write_percentiles(out, &measured.total)
}

fn write_percentiles(out: &mut String, total: &Times) -> std::fmt::Result {
    for per_cent in [50, 66, 75, 80, 90, 95, 98, 99] {
        writeln!(out, "  {per_cent}%  {:5}", milliseconds(total.percentile(f64::from(per_cent))))?;
    }
    writeln!(out, " 100%  {:5} (longest request)", milliseconds(total.longest()))
}

/// As ab rounds: to the nearest.
fn milliseconds(micros: u64) -> u64 {
    micros.saturating_add(500) / 1000
}
