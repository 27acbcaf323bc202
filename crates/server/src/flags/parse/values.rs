//! The values of flags and arguments, each read in one way. Errors: what was given, and what is expected.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use dialects::Dialect;
use site::host::HostAddress;

use crate::control::MAX_LEVEL_TIME;
use crate::flags::UsageError;

/// At least a second, and at most a day.
pub(super) fn time(value: &OsStr, typed: &str) -> Result<Duration, UsageError> {
    let text = text(value)?;
    let time = site::config::duration(&text)
        .filter(|time| *time >= Duration::from_secs(1) && *time <= MAX_LEVEL_TIME);
    time.ok_or_else(|| UsageError(format!("{typed} needs a time from 1s to 24h, such as 10m, not {text}")))
}

pub(super) fn socket_address(value: &OsStr) -> Result<SocketAddr, UsageError> {
    let text = text(value)?;
    text.parse().map_err(|_| UsageError(format!("{text} is no address with a port, such as 127.0.0.1:53")))
}

/// The names of the dialects, for a message.
pub(super) fn dialects() -> String {
    Dialect::ALL.map(Dialect::name).join(", ")
}

pub(super) fn dialect(value: &OsStr) -> Result<Dialect, UsageError> {
    let name = text(value)?;
    Dialect::from_name(&name)
        .ok_or_else(|| UsageError(format!("there is no dialect \"{name}\"; there are: {}", dialects())))
}

/// The first `N` arguments. An absent one is empty.
pub(super) fn texts<const N: usize>(arguments: &[OsString]) -> Result<[String; N], UsageError> {
    let mut texts = [const { String::new() }; N];
    for (own, argument) in texts.iter_mut().zip(arguments) {
        *own = text(argument)?;
    }
    Ok(texts)
}

pub(super) fn text(value: &OsStr) -> Result<String, UsageError> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| UsageError(format!("{} is not UTF-8", value.to_string_lossy())))
}

pub(super) fn path(value: &OsStr) -> Result<PathBuf, UsageError> {
    Ok(value.into())
}

/// A path of a URL in the form in which stored responses have it: normalized, and with what is not ASCII encoded.
pub(super) fn url_path(given: &str) -> Result<String, UsageError> {
    let mut path = String::new();
    for c in given.chars() {
        match c {
            '!'..='~' => path.push(c),
            ' ' => path.push_str("%20"),
            _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| _ = write!(path, "%{byte:02X}")),
        }
    }
    if !path.starts_with('/') {
        return Err(UsageError(format!(
            "\"{}\" is not a path: it does not begin with a slash",
            given.escape_debug()
        )));
    }
    let (name, query) = path.split_once('?').map_or((&*path, None), |(name, query)| (name, Some(query)));
    let name = taipan_http::target::normalized(name);
    Ok(query.map_or_else(|| name.clone().into_owned(), |query| format!("{name}?{query}")))
}

pub(super) fn ip_address(value: &OsStr) -> Result<IpAddr, UsageError> {
    let address = text(value)?;
    let wrong = |_| UsageError(format!("\"{}\" is not an IP address", address.escape_debug()));
    address.parse().map_err(wrong)
}

/// An address, perhaps with a port.
pub(super) fn server_address(value: &OsStr) -> Result<HostAddress, UsageError> {
    let address = text(value)?;
    let wrong = || UsageError(format!("\"{}\" is not the address of a server", address.escape_debug()));
    HostAddress::parse(&address).ok_or_else(wrong)
}

/// The name of a host, without a port.
pub(super) fn host_name(value: &OsStr) -> Result<String, UsageError> {
    let name = text(value)?;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= 253
        && name.chars().all(is_of_name)
        && name.split('.').all(|label| (1..=63).contains(&label.len()))
    {
        true => Ok(name),
        false => {
            Err(UsageError(format!("--tls takes the name of a host, such as example.org, not \"{name}\"")))
        }
    }
}

pub(super) fn number(value: &OsStr, typed: &str, among: &RangeInclusive<usize>) -> Result<usize, UsageError> {
    let value = text(value)?;
    value.parse().ok().filter(|n| among.contains(n)).ok_or_else(|| {
        let (least, most) = (among.start(), among.end());
        UsageError(format!("{typed} takes a number from {least} to {most}, not \"{value}\""))
    })
}
