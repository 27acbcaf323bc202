//! The format of http_load (ACME Labs), word by word. Bytes are those of bodies. Numbers are written like C's
//! `%g`: six digits, no trailing zeros.

use std::fmt::Write;

use crate::run::{Check, Fault, Run, Times};

use super::{WAITING, complete, with_availability};

/// The text on standard output.
pub fn render(run: &Run) -> String {
    with_availability(run, write)
}

fn write(out: &mut String, run: &Run) -> std::fmt::Result {
    let measured = &run.measured;
    let faults = &measured.faults;
    let complete = complete(measured);
    let bytes = measured.body_bytes;
    writeln!(
        out,
        "{complete} fetches, {} max parallel, {} bytes, in {} seconds",
        measured.most_connections,
        general(bytes as f64),
        general(measured.seconds())
    )?;
    if complete > 0 {
        writeln!(out, "{} mean bytes/connection", general(bytes as f64 / complete as f64))?;
    }
    if measured.micros > 10_000 {
        let [fetches, bytes] = [complete, bytes].map(|amount| general(measured.per_second(amount)));
        writeln!(out, "{fetches} fetches/sec, {bytes} bytes/sec")?;
    }
    write_times(out, "connect", &measured.connect)?;
    write_times(out, "first-response", &measured.first_byte)?;
    let timeouts = faults.of_any(&WAITING);
    if timeouts > 0 {
        writeln!(out, "{timeouts} timeouts")?;
    }
    let lengths = faults.of_any(&[Fault::ShortBody, Fault::WrongLength]);
    let (wrong, what) = match run.settings.check {
        Check::Checksum => (lengths + faults.of(Fault::WrongBody), "checksums"),
        Check::Length | Check::Status => (lengths, "byte counts"),
    };
    if wrong > 0 {
        writeln!(out, "{wrong} bad {what}")?;
    }
    writeln!(out, "HTTP response codes:")?;
    for (status, count) in measured.statuses.iter() {
        writeln!(out, "  code {status:03} -- {count}")?;
    }
    Ok(())
}

fn write_times(out: &mut String, what: &str, times: &Times) -> std::fmt::Result {
    if times.is_empty() {
        return Ok(());
    }
    let [mean, longest, shortest] = [times.mean(), times.longest() as f64, times.shortest() as f64]
        .map(|micros| general(micros / 1000.0));
    writeln!(out, "msecs/{what}: {mean} mean, {longest} max, {shortest} min")
}

/// Like C's `%g`: six digits, no trailing zeros, and an exponent if it is below -4 or above 5.
fn general(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.5e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_c() {
        for (input, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (289_884.0, "289884"),
            (1_224_000.0, "1.224e+06"),
            (10.0148, "10.0148"),
            (4.892_741, "4.89274"),
            (28_945.54, "28945.5"),
            (999_999.9, "1e+06"),
            (0.000_123_456_78, "0.000123457"),
            (0.000_012_3, "1.23e-05"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(general(input), expected);
        }
    }
}
