//! The format of wrk 4 with `--latency`, word by word.
//!
//! wrk samples the rate of each thread ten times a second. Here `Req/Sec` comes from whole seconds of all threads,
//! divided by their number.

use std::fmt::Write;

use crate::run::{Fault, Point, Run, Times};

use super::{CONNECTING, WAITING, complete, with_availability};

/// The text on standard output.
pub fn render(run: &Run) -> String {
    with_availability(run, write)
}

fn write(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    let settings = &run.settings;
    let faults = &measured.faults;
    let planned = settings.stop_micros.unwrap_or(measured.micros);
    writeln!(out, "Running {} test @ {}", SECONDS.write(planned as f64 / 1e6, 0), settings.url)?;
    writeln!(out, "  {} threads and {} connections", settings.threads, settings.concurrency)?;
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    write_latency(out, &measured.total)?;
    write_rates(out, run)?;
    writeln!(out, "  Latency Distribution")?;
    for per_cent in [50, 75, 90, 99] {
        let value = measured.total.percentile(f64::from(per_cent)) as f64;
        writeln!(out, "{per_cent:>7}%{}", column(&micros(value), 10))?;
    }
    let received = measured.received_bytes();
    writeln!(
        out,
        "  {} requests in {}, {}B read",
        complete(measured),
        micros(measured.micros as f64),
        BINARY.write(received as f64, 2)
    )?;
    let connect = faults.of_any(&CONNECTING);
    let read = faults.of_any(&[Fault::Reset, Fault::ShortBody, Fault::Malformed]);
    let timeout = faults.of_any(&WAITING);
    if connect + read + timeout > 0 {
        writeln!(out, "  Socket errors: connect {connect}, read {read}, write 0, timeout {timeout}")?;
    }
    let statuses = &measured.statuses;
    let other = statuses.total().saturating_sub(statuses.class(2)).saturating_sub(statuses.class(3));
    if other > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {other}")?;
    }
    writeln!(out, "Requests/sec: {:9.2}", measured.per_second(complete(measured)))?;
    writeln!(out, "Transfer/sec: {:>10}B", BINARY.write(measured.per_second(received), 2))
}

fn write_latency(out: &mut String, times: &Times) -> std::fmt::Result {
    let [mean, deviation, longest] = [times.mean(), times.deviation(), times.longest() as f64].map(micros);
    write_row(out, "Latency", [mean, deviation, longest], times.within_deviation())
}

fn write_rates(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    let threads = f64::from(run.settings.threads.max(1));
    let finished = |point: &Point| point.done.saturating_add(point.failed);
    let rates = measured.series.whole_rates(measured.micros, finished);
    let mut rates: Vec<f64> = rates.map(|rate| rate / threads).collect();
    if rates.is_empty() {
        rates.push(measured.per_second(complete(measured)) / threads);
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let deviation = if rates.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let most = rates.iter().copied().fold(0.0, f64::max);
    let inside = rates.iter().filter(|&rate| (rate - mean).abs() <= deviation).count() as f64;
    let columns = [mean, deviation, most].map(|rate| METRIC.write(rate, 2));
    write_row(out, "Req/Sec", columns, inside * 100.0 / count)
}

fn write_row(out: &mut String, name: &str, columns: [String; 3], inside: f64) -> std::fmt::Result {
    let [mean, deviation, most] = columns;
    let [mean, deviation, most] = [column(&mean, 8), column(&deviation, 10), column(&most, 9)];
    writeln!(out, "    {name:<10}{mean}{deviation}{most}{inside:8.2}%")
}

/// Aligned by the digits: a unit of two letters ends at `width`, and a shorter one is followed by spaces.
fn column(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).filter(char::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    format!("{text:>width$}{:pad$}", "", width = width - pad)
}

fn micros(micros: f64) -> String {
    if micros >= 1e6 { SECONDS.write(micros / 1e6, 2) } else { MICROSECONDS.write(micros, 2) }
}

/// A scale of units, each `step` times the one before it.
struct Scale {
    step: f64,
    units: &'static [&'static str],
}

const MICROSECONDS: Scale = Scale { step: 1000.0, units: &["us", "ms", "s"] };
const SECONDS: Scale = Scale { step: 60.0, units: &["s", "m", "h"] };
const BINARY: Scale = Scale { step: 1024.0, units: &["", "K", "M", "G", "T", "P"] };
const METRIC: Scale = Scale { step: 1000.0, units: &["", "k", "M", "G", "T", "P"] };

impl Scale {
    /// wrk changes to the next unit at 85 % of it: 0.85 ms, not 850 us.
    fn write(&self, value: f64, decimals: usize) -> String {
        let (mut amount, mut unit) = (value, "");
        for (index, next) in self.units.iter().enumerate() {
            if index > 0 {
                if amount < self.step * 0.85 {
                    break;
                }
                amount /= self.step;
            }
            unit = next;
        }
        format!("{amount:.decimals$}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_at_85_per_cent_of_the_next() {
        for (input, expected) in [
            (0.0, "0.00us"),
            (689.5, "689.50us"),
            (849.9, "849.90us"),
            (850.0, "0.85ms"),
            (2_980.0, "2.98ms"),
            (850_000.0, "0.85s"),
            (2e6, "2.00s"),
            (51e6, "0.85m"),
        ] {
            assert_eq!(micros(input), expected);
        }
        for (input, expected) in [(55.91, "55.91"), (1000.0, "1.00k"), (870.4, "0.87k")] {
            assert_eq!(METRIC.write(input, 2), expected);
        }
        assert_eq!(BINARY.write(5_221_908.0, 2), "4.98M");
        assert_eq!(SECONDS.write(2.0, 0), "2s");
    }

    #[test]
    fn aligns_digits_for_every_unit() {
        for (input, expected) in [("2.98ms", "  2.98ms"), ("55.91", " 55.91  "), ("1.00k", "  1.00k ")] {
            assert_eq!(column(input, 8), expected);
        }
    }
}
