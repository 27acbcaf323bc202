//! Asks an authority when a certificate should be renewed (RFC 9773).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::account::{Directory, uri};
use super::https::{Client, retry_after};
use super::schedule::{Event, Time, Window};

/// The window of a certificate that is to be replaced.
pub const AT_ONCE: Window = Window { start: 0, end: 0 };
/// How soon it is asked again, without `Retry-After`.
pub const AGAIN: Duration = Duration::from_secs(6 * 3600);

/// The window of the certificate with this identifier. An authority that names none is no error.
pub async fn ask(client: &Client, authority: &str, identifier: &str) -> Event {
    match fetch(client, authority, identifier).await {
        Some((window, again)) => Event::Window(window, again),
        None => Event::NoWindow,
    }
}

async fn fetch(client: &Client, authority: &str, identifier: &str) -> Option<(Window, Duration)> {
    let directory = Directory::fetch(client, authority).await.ok()?;
    let url = uri(&format!("{}/{identifier}", directory.renewal_info?)).ok()?;
    let response = client.send(&Method::GET, &url, &HeaderMap::new(), b"").await.ok()?;
    let window = parse(response.body()).filter(|_| response.status().is_success())?;
    let again =
        retry_after(response.headers()).map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
    Some((window, again.unwrap_or(AGAIN)))
}

fn parse(text: &str) -> Option<Window> {
    let value: Value = serde_json::from_str(text).ok()?;
    let time = |name: &str| -> Option<Time> {
        let text = value.get("suggestedWindow")?.get(name)?.as_str()?;
        OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp().try_into().ok()
    };
    let (start, end) = (time("start")?, time("end")?);
    (start <= end).then_some(Window { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_window() {
        let text = |start: &str, end: &str| {
            format!(r#"{{"suggestedWindow":{{"start":"{start}","end":"{end}"}},"explanationURL":"x"}}"#)
        };
        let check = |text: &str, expected: Option<(Time, Time)>| {
            assert_eq!(parse(text).map(|window| (window.start, window.end)), expected, "{text}");
        };
        let (start, end) = ("2025-01-02T04:00:00Z", "2025-01-03T05:00:00.5+01:00");
        check(&text(start, end), Some((1_735_790_400, 1_735_876_800)));
        check(&text(end, start), None);
        check(&text(start, "tomorrow"), None);
        check(&text("1901-01-01T00:00:00Z", end), None);
        check("{}", None);
        check("<html>", None);
    }
}
