//! The format of ZeusBench 1.0, word by word, with its spelling mistakes: scripts look for `Doucment`, `Concurency`,
//! `transfered`, `Connnection`. Its kilobyte has 1000 bytes.

use std::fmt::Write;

use crate::run::{Run, Times};

use super::{complete, with_availability};

/// The text on standard output.
pub fn render(run: &Run) -> String {
    with_availability(run, write)
}

fn write(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    let complete = complete(measured);
    writeln!(out, "Server:                 {}", run.server.name)?;
    writeln!(out, "Doucment Length:        {}", run.server.length)?;
    writeln!(out, "Concurency Level:       {}", run.settings.concurrency)?;
    writeln!(out, "Time taken for tests:   {:.3} seconds", measured.seconds())?;
    writeln!(out, "Complete requests:      {complete}")?;
    writeln!(out, "Failed requests:        {}", measured.failed())?;
    writeln!(out, "Keep-Alive requests:    {}", measured.kept_alive)?;
    writeln!(out, "Bytes transfered:       {}", measured.received_bytes())?;
    writeln!(out, "HTML transfered:        {}", measured.body_bytes)?;
    writeln!(out, "Requests per seconds:   {:.2}", measured.per_second(complete))?;
    let rate = measured.per_second(measured.received_bytes()) / 1000.0;
    writeln!(out, "Transfer rate:          {rate:.2} kb/s")?;
    writeln!(out, "\nConnnection Times (ms)")?;
    writeln!(out, "           min   avg   max")?;
    let mut connect = measured.connect.clone();
    connect.record_many(0, measured.total.count().saturating_sub(connect.count()));
    write_row(out, "Connect:", &connect)?;
    write_row(out, "Total:", &measured.total)?;
    writeln!(out)
}

fn write_row(out: &mut String, name: &str, times: &Times) -> std::fmt::Result {
    let [shortest, mean, longest] =
        [times.shortest() as f64, times.mean(), times.longest() as f64].map(|micros| micros / 1000.0);
    writeln!(out, "{name:<8}{shortest:6.0}{mean:6.0}{longest:6.0}")
}
