//! Resumable uploads (draft-ietf-httpbis-resumable-upload): their fields, problems, and the text in which the state of
//! an upload is stored.

use taipan_http::date::CLOCK_IS_SET;
use taipan_http::fields::trim_ows;

use crate::lines;

/// The media type of the content of `PATCH`.
pub const PARTIAL: &str = "application/partial-upload";
/// The media type of a problem (RFC 9457).
pub const PROBLEM: &str = "application/problem+json";
/// The largest number of a structured field (RFC 9651 §3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// The longest time for which an upload can be resumed, in seconds.
pub const LONGEST: u64 = 30 * 24 * 3600;
/// For how long one can be resumed that was begun by a wrong clock, in seconds.
const AFTER_WRONG_CLOCK: i64 = 24 * 3600;

/// What is known of an upload beside the bytes that were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// The path of the request that began it, decoded, with a slash in front.
    pub target: String,
    /// The user who has begun it. Empty: there was none.
    pub user: String,
    /// Bytes of the whole. `None`: the client has not said it yet.
    pub length: Option<u64>,
    pub state: State,
    /// Seconds since 1970, when it is forgotten.
    pub expires: i64,
    /// The state of the target that the preconditions of the first request allow. `None`: any.
    pub guard: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Incomplete,
    /// The target has all of it. The number of its bytes.
    Complete(u64),
}

impl Upload {
    /// `None`: it is not the text of one.
    pub fn parse(text: &str) -> Option<Upload> {
        let [target, user, length, complete, expires, guard] = lines::read(text.strip_suffix('\n')?)?;
        let number = |text: String| match text.as_str() {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        };
        let state = number(complete)?.map_or(State::Incomplete, State::Complete);
        let guard = (!guard.is_empty()).then_some(guard);
        Some(Upload { target, user, length: number(length)?, state, expires: expires.parse().ok()?, guard })
    }

    /// When it is forgotten. By a clock that has been set since, or set back, its time begins now.
    pub fn expires_at(&self, now: i64) -> i64 {
        let by_right_clock = CLOCK_IS_SET..=now.saturating_add_unsigned(LONGEST);
        match now < CLOCK_IS_SET || by_right_clock.contains(&self.expires) {
            true => self.expires,
            false => now.saturating_add(AFTER_WRONG_CLOCK),
        }
    }

    pub fn text(&self) -> String {
        let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let complete = match self.state {
            State::Incomplete => None,
            State::Complete(bytes) => Some(bytes),
        };
        let mut out = String::new();
        let guard = self.guard.as_deref().unwrap_or_default();
        let (length, complete) = (number(self.length), number(complete));
        lines::write(
            &[&self.target, &self.user, &length, &complete, &self.expires.to_string(), guard],
            &mut out,
        );
        out
    }
}

/// The value of `Upload-Complete`. `None`: the field is to be ignored.
pub fn boolean(value: &[u8]) -> Option<bool> {
    match item(value) {
        b"?1" => Some(true),
        b"?0" => Some(false),
        _ => None,
    }
}

pub fn boolean_text(value: bool) -> &'static str {
    if value { "?1" } else { "?0" }
}

/// The value of `Upload-Offset` and `Upload-Length`. `None`: the field is to be ignored.
pub fn integer(value: &[u8]) -> Option<u64> {
    let value = item(value);
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten();
    number.filter(|number| *number <= MAX_INTEGER)
}

/// Without its parameters (RFC 9651 §3.1.2).
fn item(value: &[u8]) -> &[u8] {
    trim_ows(value.split(|byte| *byte == b';').next().unwrap_or_default())
}

/// The value of `Upload-Limit`. `age`: the seconds that an upload has left.
pub fn limits(max_size: u64, age: u64) -> String {
    format!("max-size={}, max-age={age}", max_size.min(MAX_INTEGER))
}

pub fn mismatching_offset(expected: u64, provided: u64) -> String {
    format!(
        "{{\"type\":\"https://iana.org/assignments/http-problem-types#mismatching-upload-offset\",\"title\":\"the upload has \
         another offset\",\"expected-offset\":{expected},\"provided-offset\":{provided}}}\n"
    )
}

pub const COMPLETED: &str = "{\"type\":\"https://iana.org/assignments/http-problem-types#completed-upload\",\"title\":\"the upload \
                             is complete\"}\n";
pub const INCONSISTENT_LENGTH: &str = "{\"type\":\"https://iana.org/assignments/http-problem-types#inconsistent-upload-length\",\
                                       \"title\":\"the lengths of the upload differ\"}\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_structured_fields() {
        for (value, expected) in
            [("?1", Some(true)), (" ?0;a=1", Some(false)), ("1", None), ("true", None), ("", None)]
        {
            assert_eq!(boolean(value.as_bytes()), expected, "{value}");
        }
        for (value, expected) in [
            ("0", Some(0)),
            ("12;p", Some(12)),
            ("999999999999999", Some(MAX_INTEGER)),
            ("1000000000000000", None),
            ("-1", None),
            ("1.0", None),
            ("+1", None),
            ("", None),
        ] {
            assert_eq!(integer(value.as_bytes()), expected, "{value}");
        }
        assert_eq!(limits(u64::MAX, 5), "max-size=999999999999999, max-age=5");
    }

    #[test]
    fn the_time_of_an_upload_by_a_wrong_clock_begins_anew() {
        let now = 1_800_000_000;
        let day = AFTER_WRONG_CLOCK;
        for (expires, now, expected) in [
            (now + 1, now, now + 1),
            (now - 1, now, now - 1),
            (now + LONGEST as i64, now, now + LONGEST as i64),
            // Begun in 1970 or 2000, then the clock was set.
            (day + 5, now, now + day),
            (946_684_800 + day, now, now + day),
            // The clock was far ahead.
            (now + LONGEST as i64 + 1, now, now + day),
            (i64::MAX, now, now + day),
            // The clock is not set yet.
            (now + 1, 5, now + 1),
            (now + 1, 946_684_800, now + 1),
            (day + 5, day + 6, day + 5),
        ] {
            let upload = Upload {
                target: String::new(),
                user: String::new(),
                length: None,
                state: State::Incomplete,
                expires,
                guard: None,
            };
            assert_eq!(upload.expires_at(now), expected, "{expires} {now}");
        }
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        let upload = Upload {
            target: "/a\tb".into(),
            user: String::new(),
            length: None,
            state: State::Incomplete,
            expires: 7,
            guard: Some("1-2".into()),
        };
        assert_eq!(Upload::parse(&upload.text()), Some(upload.clone()));
        let complete = Upload { length: Some(0), state: State::Complete(0), guard: None, ..upload };
        assert_eq!(Upload::parse(&complete.text()), Some(complete.clone()));
        let cut = &complete.text()[..5];
        assert_eq!(Upload::parse(cut), None);
    }
}
