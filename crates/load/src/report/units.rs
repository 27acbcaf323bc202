//! Readable figures: three or four digits, a unit, and separated thousands.

/// `1,234,567`
pub use taipan_http::digits::with_commas as count;

use crate::run::Measured;

/// `842 µs`, `2.33 ms`, `37.8 s`, `12 min`
pub fn micros(micros: f64) -> String {
    match micros {
        micros if micros < 999.5 => format!("{micros:.0} µs"),
        micros if micros < 999_500.0 => format!("{} ms", three_digits(micros / 1e3)),
        micros if micros < 600e6 => format!("{} s", three_digits(micros / 1e6)),
        micros if micros < 36_000e6 => format!("{} min", three_digits(micros / 60e6)),
        micros => format!("{} h", three_digits(micros / 3_600e6)),
    }
}

/// `512 B`, `2.45 kB`, `5.21 GB`; powers of a thousand.
pub fn bytes(bytes: f64) -> String {
    if bytes < 999.5 {
        return format!("{bytes:.0} B");
    }
    let (mut scaled, mut unit) = (bytes / 1e3, "kB");
    for next in ["MB", "GB", "TB", "PB", "EB"] {
        if scaled < 999.5 {
            break;
        }
        (scaled, unit) = (scaled / 1e3, next);
    }
    format!("{} {unit}", three_digits(scaled))
}

/// `72,659`, `726.6`, `7.27`: something per second.
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate < 10.0 => format!("{rate:.2}"),
        rate if rate < 1000.0 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// `98.57 %`, never rounded up to 100, so that one failure among a million shows. `none` if no request ended.
pub fn availability(measured: &Measured) -> String {
    let Some(per_cent) = measured.availability() else { return "none".to_owned() };
    if measured.failed() > 0 && per_cent > 99.99 {
        // As many digits as needed, at most the nine that a double resolves here.
        for digits in 3..9 {
            let text = format!("{per_cent:.digits$}");
            if !text.starts_with("100") {
                return format!("{text} %");
            }
        }
    }
    format!("{per_cent:.2} %")
}

/// A share of something in per cent, as `98.57`; 0 of nothing.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part * 100.0 / whole } else { 0.0 }
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Fault;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        for (input, expected) in [
            (0.0, "0 µs"),
            (999.0, "999 µs"),
            (999.6, "1.00 ms"),
            (2_330.0, "2.33 ms"),
            (9_996.0, "10.0 ms"),
            (325_000.0, "325 ms"),
            (999_600.0, "1.00 s"),
            (37_783_000.0, "37.8 s"),
            (720e6, "12.0 min"),
            (36_000e6, "10.0 h"),
        ] {
            assert_eq!(micros(input), expected);
        }
        for (input, expected) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (999.7, "1.00 kB"),
            (2448.0, "2.45 kB"),
            (53_743_425.0, "53.7 MB"),
            (5_207_920_000.0, "5.21 GB"),
            (1e30, "1000000000000 EB"),
        ] {
            assert_eq!(bytes(input), expected);
        }
        for (input, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(input), expected);
        }
        for (input, expected) in [(0.0, "0.00"), (726.59, "726.6"), (181_204.4, "181,204")] {
            assert_eq!(rate(input), expected);
        }
    }

    #[test]
    fn availability_is_never_rounded_up_to_100() {
        for (done, failed, expected) in [
            (0, 0, "none"),
            (0, 1, "0.00 %"),
            (1, 0, "100.00 %"),
            (74_353, 1_077, "98.57 %"),
            (99_999, 1, "99.999 %"),
            (10_000_000, 1, "99.99999 %"),
        ] {
            let mut measured = Measured { done, ..Measured::default() };
            measured.faults.add(Fault::Timeout, failed);
            assert_eq!(availability(&measured), expected);
        }
    }
}
