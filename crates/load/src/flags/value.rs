//! The values of flags, each read in one way, with what was expected where it cannot be read.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use super::UsageError;
use crate::plan::options::{OrderWord, VersionWord};
use crate::plan::{Arrivals, Check, Reference, Think};
use crate::report::Format;

/// The value of a flag. Empty for a flag without one. Errors of its functions: the flag, and what it takes.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    /// The flag, as typed.
    pub flag: &'a str,
    pub text: &'a str,
}

const ABOVE_ZERO: &str = "a number above 0";
const STATUSES: &str = "statuses, as 200,304";
const TIME: &str = "a time, as 30, 500ms, 10s, 2m or 1h";

impl Value<'_> {
    fn or<T>(self, value: Option<T>, expected: &str) -> Result<T, UsageError> {
        value.ok_or_else(|| UsageError(format!("{} takes {expected}, not \"{}\"", self.flag, self.text)))
    }

    pub fn amount(self, expected: &str) -> Result<u64, UsageError> {
        self.or(amount(self.text), expected)
    }

    pub fn count(self) -> Result<u64, UsageError> {
        self.or(count(self.text), ABOVE_ZERO)
    }

    pub fn bytes_per_second(self) -> Result<u64, UsageError> {
        self.or(count(self.text), "bytes a second")
    }

    /// From 1 to `most`.
    pub fn up_to(self, most: usize) -> Result<usize, UsageError> {
        let number = amount(self.text).and_then(|number| usize::try_from(number).ok());
        self.or(number.filter(|number| (1..=most).contains(number)), &format!("a number from 1 to {most}"))
    }

    pub fn positive(self) -> Result<f64, UsageError> {
        self.or(positive(self.text), ABOVE_ZERO)
    }

    pub fn per_cent(self) -> Result<f64, UsageError> {
        let percent = self.text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
        self.or(percent, "per cent, from 0 to 100")
    }

    pub fn time(self) -> Result<Duration, UsageError> {
        self.or(time(self.text), TIME)
    }

    pub fn time_above_zero(self) -> Result<Duration, UsageError> {
        self.or(time(self.text).filter(|time| !time.is_zero()), TIME)
    }

    pub fn think(self) -> Result<Think, UsageError> {
        self.or(think(self.text), "a time, or two as 1s..5s")
    }

    pub fn method(self) -> Result<String, UsageError> {
        let is_method = !self.text.is_empty() && self.text.bytes().all(|byte| byte.is_ascii_alphabetic());
        self.or(is_method.then(|| self.text.to_owned()), "a method")
    }

    pub fn field(self) -> Result<(String, String), UsageError> {
        self.or(field(self.text), "a name, a colon and a value")
    }

    pub fn statuses(self) -> Result<Vec<u16>, UsageError> {
        let codes = list(self.text).filter(|codes| codes.iter().all(|code| (100..=999).contains(code)));
        self.or(codes, STATUSES)
    }

    pub fn addresses(self) -> Result<Vec<IpAddr>, UsageError> {
        self.or(list(self.text), "addresses, as 127.0.0.2,127.0.0.3")
    }

    pub fn address_and_port(self) -> Result<SocketAddr, UsageError> {
        self.or(self.text.parse().ok(), "an address and a port, as 127.0.0.1:8080")
    }

    pub fn arrivals(self) -> Result<Arrivals, UsageError> {
        let arrivals = match self.text {
            "poisson" => Some(Arrivals::Poisson),
            "even" => Some(Arrivals::Even),
            _ => None,
        };
        self.or(arrivals, "poisson or even")
    }

    pub fn order(self) -> Result<OrderWord, UsageError> {
        let order = match self.text {
            "random" => Some(OrderWord::Random),
            "sequence" => Some(OrderWord::Sequence),
            "replay" => Some(OrderWord::Replay),
            _ => None,
        };
        self.or(order, "random, sequence or replay")
    }

    pub fn version(self) -> Result<VersionWord, UsageError> {
        let version = match self.text {
            "1.0" => Some(VersionWord::Http10),
            "1.1" => Some(VersionWord::Http11),
            "2" => Some(VersionWord::Http2),
            _ => None,
        };
        self.or(version, "1.0, 1.1 or 2")
    }

    pub fn check(self) -> Result<Check, UsageError> {
        let check = match self.text {
            "none" => Some(Check::Nothing),
            "length" => Some(Check::Length),
            "checksum" => Some(Check::Checksum(Reference::First)),
            _ => None,
        };
        self.or(check, "none, length or checksum")
    }

    pub fn format(self) -> Result<Format, UsageError> {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        self.or(Format::from_name(self.text), &format!("one of {}", names.join(", ")))
    }
}

/// A whole number, or one with a unit of thousands: 20000, 20k, 1.5M.
fn amount(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix(['k', 'K', 'M', 'G']) {
        None => (text, 1),
        Some(digits) if text.ends_with(['k', 'K']) => (digits, 1_000),
        Some(digits) if text.ends_with('M') => (digits, 1_000_000),
        Some(digits) => (digits, 1_000_000_000),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // The result must be a whole number.
    if whole.is_empty() || !is_number(whole) || !is_number(part) || factor % scale != 0 {
        return None;
    }
    let part: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
    whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(part * (factor / scale))
}

/// Seconds, or a number with a unit.
fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    Duration::try_from_secs_f64(number * seconds)
        .ok()
        .filter(|time| *time <= Duration::from_secs(365 * 86400))
}

fn think(text: &str) -> Option<Think> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let think = Think { least: time(least)?, most: time(most)? };
    (think.least <= think.most).then_some(think)
}

fn count(text: &str) -> Option<u64> {
    amount(text).filter(|&number| number > 0)
}

fn positive(text: &str) -> Option<f64> {
    if let Some(number) = amount(text) {
        return Some(number as f64).filter(|number| *number > 0.0 && *number <= 1e8);
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0 && *number <= 1e8)
}

fn list<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|part| part.trim().parse().ok()).collect()
}

fn field(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    let is_value = !value.contains(['\r', '\n', '\0']);
    (is_name && is_value).then(|| (name.to_owned(), value.trim().to_owned()))
}
