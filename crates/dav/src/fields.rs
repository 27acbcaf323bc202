//! The fields of RFC 4918 §10, apart from `If`.

use taipan_http::fields::{digits, trim_ows};

/// How far a method goes into a folder (RFC 4918 §10.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Zero,
    One,
    Infinity,
}

/// Whether `COPY` and `MOVE` may replace what is at their destination (RFC 4918 §10.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    Allowed,
    Forbidden,
}

impl Depth {
    /// `None`: it is none of the three.
    pub fn parse(value: &[u8]) -> Option<Depth> {
        match trim_ows(value) {
            b"0" => Some(Depth::Zero),
            b"1" => Some(Depth::One),
            value if value.eq_ignore_ascii_case(b"infinity") => Some(Depth::Infinity),
            _ => None,
        }
    }
}

impl Overwrite {
    /// Without the field, it is allowed. `None`: it is neither `T` nor `F`.
    pub fn parse(value: Option<&[u8]>) -> Option<Overwrite> {
        match value.map(trim_ows) {
            None | Some(b"T" | b"t") => Some(Overwrite::Allowed),
            Some(b"F" | b"f") => Some(Overwrite::Forbidden),
            Some(_) => None,
        }
    }
}

/// The seconds of a lock: the first time that the client names and that can be read, at most `most` (RFC 4918 §10.7). A
/// lock of no time would be none.
pub fn timeout(value: Option<&[u8]>, most: u64) -> u64 {
    let seconds = |time: &[u8]| match trim_ows(time) {
        time if time.eq_ignore_ascii_case(b"infinite") => Some(u64::MAX),
        time => {
            let (unit, number) = time.split_at_checked(b"Second-".len())?;
            unit.eq_ignore_ascii_case(b"Second-").then(|| digits(number)).flatten()
        }
    };
    let given = value.into_iter().flat_map(|value| value.split(|byte| *byte == b','));
    given.filter_map(seconds).find(|seconds| *seconds > 0).unwrap_or(u64::MAX).min(most)
}

/// The URL between `<` and `>` (RFC 4918 §10.1, `Coded-URL`).
pub fn coded_url(value: &[u8]) -> Option<&str> {
    let url = trim_ows(value).strip_prefix(b"<")?.strip_suffix(b">")?;
    let url = std::str::from_utf8(url).ok()?;
    let is_url = !url.is_empty() && !url.contains(['<', '>', ' ']);
    is_url.then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields() {
        assert_eq!(Depth::parse(b"Infinity"), Some(Depth::Infinity));
        assert_eq!(Depth::parse(b"2"), None);
        assert_eq!(Overwrite::parse(None), Some(Overwrite::Allowed));
        assert_eq!(Overwrite::parse(Some(b"F")), Some(Overwrite::Forbidden));
        assert_eq!(Overwrite::parse(Some(b"no")), None);
        for (value, seconds) in [
            (None, 600),
            (Some("Second-5"), 5),
            (Some("Infinite, Second-4100000000"), 600),
            (Some("Extend, Second-7"), 7),
            (Some("Second-"), 600),
            (Some("Second-0"), 600),
            (Some("Second-0, Second-7"), 7),
            (Some("Second-99999999999999999999999"), 600),
        ] {
            assert_eq!(timeout(value.map(str::as_bytes), 600), seconds, "{value:?}");
        }
        assert_eq!(coded_url(b" <urn:uuid:1> "), Some("urn:uuid:1"));
        assert_eq!(coded_url(b"urn:uuid:1"), None);
        assert_eq!(coded_url(b"<>"), None);
    }
}
