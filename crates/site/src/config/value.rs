//! Parses durations, sizes, rates and host names.

use std::net::Ipv6Addr;
use std::time::Duration;

use taipan_http::fields::is_host;

use crate::host::{MAX_LABEL, MAX_NAME};

/// A unit, and how much it is.
type Unit = (&'static str, u64);

/// In milliseconds.
const DURATIONS: [Unit; 6] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("y", 31_536_000_000)];
/// As nginx has it. A duration is spelled in days.
const WEEK: Unit = ("w", 604_800_000);

const SIZES_OF_1024: [Unit; 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

const SIZES_OF_1000: [Unit; 6] = [
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// As nginx and Apache have them.
const LETTERS: [Unit; 8] = [
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("m", 1 << 20),
    ("M", 1 << 20),
    ("g", 1 << 30),
    ("G", 1 << 30),
    ("t", 1 << 40),
    ("T", 1 << 40),
];

/// Parses `500ms`, `20s`, `2m`, `1h`, `1d`, and several of them, the longest unit first: `1h30m`. A number alone is
/// seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut sum, mut longest) = (text, 0u64, u64::MAX);
    loop {
        let (count, unit, behind) = counted(rest)?;
        let factor = match unit {
            "" if rest.len() == text.len() => 1000,
            _ => DURATIONS.iter().chain([&WEEK]).find(|(own, _)| *own == unit)?.1,
        };
        if factor >= longest {
            return None;
        }
        sum = sum.checked_add(count.checked_mul(factor)?)?;
        (rest, longest) = (behind, factor);
        if rest.is_empty() {
            return Some(Duration::from_millis(sum));
        }
    }
}

/// Parses `16KiB` and `16k` (of 1024), `64kB` (of 1000) and so on. A number alone is bytes.
pub fn size(text: &str) -> Option<u64> {
    let (count, unit, _) = counted(text).filter(|(_, _, behind)| behind.is_empty())?;
    let mut units = SIZES_OF_1024.iter().chain(&SIZES_OF_1000).chain(&LETTERS);
    let factor = if unit.is_empty() { 1 } else { units.find(|(own, _)| *own == unit)?.1 };
    count.checked_mul(factor)
}

/// Parses a size, or `16kB/s`: bytes per second.
pub fn byte_rate(text: &str) -> Option<u64> {
    size(text.strip_suffix("/s").unwrap_or(text))
}

/// Parses `10/s`, `5/m`, `100/h`, `1000/d`: a count, and its period; also `10r/s`, as nginx has it.
pub fn rate(text: &str) -> Option<(u64, Duration)> {
    let (count, unit) = text.split_once('/')?;
    let count = count.strip_suffix('r').unwrap_or(count);
    let (_, milliseconds) = DURATIONS.iter().find(|(own, _)| *own == unit)?;
    let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
    Some((count.parse().ok().filter(|_| is_number)?, Duration::from_millis(*milliseconds)))
}

/// The number at the beginning of `text`, the unit up to the next number, and what is behind it.
fn counted(text: &str) -> Option<(u64, &str, &str)> {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (unit, behind) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
    Some((digits.parse().ok()?, unit, behind))
}

/// Spells a duration for [`duration`], in the largest unit that divides it.
pub fn duration_text(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match ms {
        0 => "0s".to_owned(),
        _ => spelled(ms, &DURATIONS),
    }
}

/// Spells a size for [`size`], in the largest unit of 1024 that divides it.
pub fn size_text(size: u64) -> String {
    match size {
        0 => "0".to_owned(),
        _ if !size.is_multiple_of(1024) => size.to_string(),
        _ => spelled(size, &SIZES_OF_1024),
    }
}

fn spelled(value: u64, units: &[Unit]) -> String {
    let fits = units.iter().rev().find(|(_, factor)| value.is_multiple_of(*factor));
    fits.map_or_else(|| value.to_string(), |(unit, factor)| format!("{}{unit}", value / factor))
}

/// Checks the name of a host. Errors say what to write.
pub fn check_host_name(name: &str) -> Result<(), &'static str> {
    let plain = name.strip_prefix("*.").unwrap_or(name);
    match plain {
        "" => Err("write a name, e.g. \"example.org\""),
        _ if plain.len() > MAX_NAME => Err("a name has at most 253 bytes"),
        _ if plain.split('.').any(|label| label.len() > MAX_LABEL) => {
            Err("between two dots, a name has at most 63 bytes")
        }
        _ if !plain.is_ascii() => Err("write it as it is in a URL, in Punycode: \"xn--…\""),
        "*" | "_" => Err("for all other names, write default = true in place of names"),
        _ if plain.contains([' ', ',']) => {
            Err("write each name by itself: [\"example.org\", \"example.net\"]")
        }
        _ if plain.contains('*') => Err("write a wildcard as \"*.\" in front: \"*.example.org\""),
        _ if plain.contains("://") || plain.contains('/') => {
            Err("write the name alone, without \"http://\" or a path")
        }
        _ if plain.ends_with('.') => Err("remove the last dot"),
        _ if plain.parse::<Ipv6Addr>().is_ok() => Err("write an IPv6 address in brackets, as in \"[::1]\""),
        _ if !plain.starts_with('[') && plain.contains(':') => Err("remove the port; a host has every port"),
        _ if !is_host(plain) || plain.split('.').any(str::is_empty) => {
            Err("write a name such as \"example.org\", or an IP address")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_is_none_says_what_to_write() {
        for (name, advice) in [
            ("example.org", None),
            ("[::1]", None),
            ("::1", Some("in brackets")),
            ("2001:db8::1", Some("in brackets")),
            ("example.org:443", Some("remove the port")),
            ("example.org.", Some("remove the last dot")),
            (&format!("{}.org", "a".repeat(63)), None),
            (&format!("{}.org", "a".repeat(64)), Some("at most 63 bytes")),
        ] {
            let found = check_host_name(name).err();
            assert_eq!(found.is_some(), advice.is_some(), "{name}: {found:?}");
            assert!(found.unwrap_or_default().contains(advice.unwrap_or_default()), "{name}: {found:?}");
        }
    }

    #[test]
    fn parses_durations_and_sizes() {
        let ms = |text| duration(text).map(|duration| duration.as_millis());
        for (text, expected) in [
            ("20s", Some(20_000)),
            ("500ms", Some(500)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("1d", Some(86_400_000)),
            ("7", Some(7_000)),
            ("0s", Some(0)),
            ("", None),
            ("s", None),
            ("20 s", None),
            ("-1s", None),
            ("1.5s", None),
            ("20S", None),
            ("20secs", None),
            ("1w", Some(604_800_000)),
            ("1h30m", Some(5_400_000)),
            ("1d2h3m4s5ms", Some(93_784_005)),
            ("30m1h", None),
            ("1h1h", None),
            ("1h30", None),
            ("1h 30m", None),
            ("30m1M", None),
            ("18446744073709551615d", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(ms(text), expected, "{text}");
        }
        for (text, expected) in [
            ("16KiB", Some(16384)),
            ("1MiB", Some(1 << 20)),
            ("64kB", Some(64_000)),
            ("3TiB", Some(3 << 40)),
            ("5B", Some(5)),
            ("5", Some(5)),
            ("64KB", Some(64_000)),
            ("16k", Some(16384)),
            ("16K", Some(16384)),
            ("1m", Some(1 << 20)),
            ("1M", Some(1 << 20)),
            ("2g", Some(2 << 30)),
            ("2G", Some(2 << 30)),
            ("16kib", None),
            ("16kb", None),
            ("16kB/s", None),
            ("1m1k", None),
            ("k", None),
            ("1.5m", None),
            ("1e3", None),
            ("16777216TiB", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }

    #[test]
    fn parses_rates_of_bytes() {
        for (text, expected) in [
            ("20kB/s", Some(20_000)),
            ("20k/s", Some(20_480)),
            ("20k", Some(20_480)),
            ("1MiB/s", Some(1 << 20)),
            ("500/s", Some(500)),
            ("500", Some(500)),
            ("/s", None),
            ("20kB/m", None),
            ("20kB/s/s", None),
            ("20kbps", None),
            ("20 kB/s", None),
        ] {
            assert_eq!(byte_rate(text), expected, "{text}");
        }
    }

    #[test]
    fn parses_rates() {
        for (text, expected) in [
            ("10/s", Some((10, 1))),
            ("5/m", Some((5, 60))),
            ("100/h", Some((100, 3600))),
            ("1/d", Some((1, 86_400))),
            ("10r/s", Some((10, 1))),
            ("r/s", None),
            ("10rr/s", None),
            ("10", None),
            ("10/", None),
            ("/s", None),
            ("+1/s", None),
            ("1.5/s", None),
            ("10/ s", None),
            ("10/sec", None),
            ("99999999999999999999/s", None),
        ] {
            assert_eq!(rate(text).map(|(count, period)| (count, period.as_secs())), expected, "{text}");
        }
    }

    #[test]
    fn spells_values_as_it_parses_them() {
        for text in ["0s", "1ms", "1500ms", "20s", "90s", "2m", "1h", "1d"] {
            assert_eq!(duration_text(duration(text).unwrap()), text);
        }
        for text in ["0", "1", "1000", "1KiB", "1500KiB", "1MiB", "32MiB", "1TiB"] {
            assert_eq!(size_text(size(text).unwrap()), text);
        }
    }

    #[test]
    fn rejects_host_names_with_a_port_or_a_url() {
        for good in [
            "example.org",
            "*.example.org",
            "a_b.c",
            "127.0.0.1",
            "[::1]",
            "localhost",
            "xn--bcher-kva.example",
        ] {
            assert_eq!(check_host_name(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "*",
            "*.",
            "a.*.b",
            "*x.org",
            "a:80",
            "[::1]:80",
            "http://a",
            "a/b",
            "bücher.example",
            "a.",
            "a..b",
            ".a",
            "a b",
        ] {
            assert!(check_host_name(bad).is_err(), "{bad}");
        }
        assert!(check_host_name(&"a".repeat(254)).is_err());
    }
}
