//! Evaluates preconditions (RFC 9110 §13) against the current representation.
//!
//! Knows nothing of files. The caller has checked that the response without preconditions would be 2xx: they do not
//! apply to another (§13.2.1).

use crate::date;
use crate::etag::{self, Compare};
use crate::fields::is_name;
use crate::head::{Head, Method, Names};

const FIELDS: [&str; 6] =
    ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"];

/// Whether a field may have the response be less than the whole: that of a precondition, or of a range.
pub fn is_condition(name: &[u8]) -> bool {
    FIELDS.iter().any(|known| is_name(name, known))
}

/// The validators of the current representation (RFC 9110 §8.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Validators<'a> {
    /// An entity tag with its quotes.
    pub etag: Option<&'a [u8]>,
    /// The time of `Last-Modified`, in seconds since 1970.
    pub modified: Option<i64>,
}

/// The result of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Proceed,
    /// 304, for GET and HEAD.
    NotModified,
    /// 412.
    PreconditionFailed,
}

/// Steps 1 to 4 of RFC 9110 §13.2.2. `current` is `None` if there is no representation. `now` completes years of two
/// digits.
pub fn evaluate(head: &Head, current: Option<&Validators>, now: i64) -> Verdict {
    if !head.names.intersects(Names::CONDITIONAL) {
        return Verdict::Proceed;
    }
    match guards_hold(head, current, now) {
        true => freshness(head, current, now),
        false => Verdict::PreconditionFailed,
    }
}

/// Step 5: whether `If-Range` permits `Range`. True without `If-Range`.
///
/// Only a strong validator permits it (§13.1.5). A date is strong if it equals the current one and is at least a
/// second old: within that second the file may have changed again (§8.8.2.2).
pub fn range_applies(head: &Head, current: &Validators, now: i64) -> bool {
    if !head.names.contains(Names::IF_RANGE) {
        return true;
    }
    match head.only("if-range") {
        Some(tag) if etag::is_entity_tag(tag) => {
            current.etag.is_some_and(|current| etag::strong_eq(tag, current))
        }
        Some(value) => {
            date::parse(value, now).is_some_and(|date| current.modified == Some(date) && date < now)
        }
        None => false,
    }
}

/// Whether a 304 has this field of the 200 response (RFC 9110 §15.4.5). `Age` and `Date` are its own.
pub fn is_of_not_modified(name: &str) -> bool {
    let other = [
        "content-length",
        "content-encoding",
        "content-type",
        "content-range",
        "content-md5",
        "age",
        "date",
        "trailer",
    ];
    !other.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Steps 1 and 2: whether the representation is still the one that the client knows. False for a malformed list.
fn guards_hold(head: &Head, current: Option<&Validators>, now: i64) -> bool {
    if head.names.contains(Names::IF_MATCH) {
        return etag::list_matches(head.values("if-match"), tag(current), Compare::Strong).unwrap_or(false);
    }
    match (date_of(head, Names::IF_UNMODIFIED_SINCE, "if-unmodified-since", now), modified(current)) {
        (Some(date), Some(modified)) => modified <= date,
        _ => true,
    }
}

/// Steps 3 and 4: whether the client has the representation already. A malformed list permits GET and HEAD, but no
/// method that could change something.
fn freshness(head: &Head, current: Option<&Validators>, now: i64) -> Verdict {
    let reads = matches!(head.method, Method::Get | Method::Head);
    if head.names.contains(Names::IF_NONE_MATCH) {
        return match (etag::list_matches(head.values("if-none-match"), tag(current), Compare::Weak), reads) {
            (Some(false), _) | (None, true) => Verdict::Proceed,
            (Some(true), true) => Verdict::NotModified,
            (Some(true) | None, false) => Verdict::PreconditionFailed,
        };
    }
    match (date_of(head, Names::IF_MODIFIED_SINCE, "if-modified-since", now), modified(current)) {
        (Some(date), Some(modified)) if reads && modified <= date => Verdict::NotModified,
        _ => Verdict::Proceed,
    }
}

/// The argument `current` of `etag::list_matches`.
fn tag<'a>(current: Option<&Validators<'a>>) -> Option<&'a [u8]> {
    current.map(|current| current.etag.unwrap_or(b""))
}

fn modified(current: Option<&Validators>) -> Option<i64> {
    current.and_then(|current| current.modified)
}

/// `None` also for a malformed or repeated field, which is ignored (§13.1.3 and §13.1.4).
fn date_of(head: &Head, bit: Names, name: &'static str, now: i64) -> Option<i64> {
    if !head.names.contains(bit) {
        return None;
    }
    head.only(name).and_then(|value| date::parse(value, now))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::head::{FieldStore, Limits, parse};

    /// 2026-03-01 00:00:00.
    const NOW: i64 = 1_772_323_200;
    const EARLIER: &str = "Sat, 28 Feb 2026 22:00:00 GMT";
    const MODIFIED: &str = "Sat, 28 Feb 2026 23:00:00 GMT";
    const LATER: &str = "Sat, 28 Feb 2026 23:30:00 GMT";
    const CURRENT: Validators = Validators { etag: Some(b"\"a\""), modified: Some(NOW - 3600) };

    fn with_head<T>(method: &str, fields: &[(&str, &str)], then: impl FnOnce(&Head) -> T) -> T {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let input = format!("{method} / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let mut store = FieldStore::new();
        then(&parse(input.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap().0)
    }

    fn verdict(method: &str, fields: &[(&str, &str)], current: Option<&Validators>) -> Verdict {
        with_head(method, fields, |head| evaluate(head, current, NOW))
    }

    #[test]
    fn evaluates_each_precondition() {
        use Verdict::*;
        let check = |field: (&str, &str), get: Verdict, put: Verdict| {
            assert_eq!(verdict("GET", &[field], Some(&CURRENT)), get, "GET {field:?}");
            assert_eq!(verdict("HEAD", &[field], Some(&CURRENT)), get, "HEAD {field:?}");
            assert_eq!(verdict("PUT", &[field], Some(&CURRENT)), put, "PUT {field:?}");
        };
        check(("X", "y"), Proceed, Proceed);

        check(("If-Match", "\"a\""), Proceed, Proceed);
        check(("If-Match", "\"b\", \"a\""), Proceed, Proceed);
        check(("If-Match", "*"), Proceed, Proceed);
        check(("If-Match", "\"b\""), PreconditionFailed, PreconditionFailed);
        check(("If-Match", "W/\"a\""), PreconditionFailed, PreconditionFailed);
        check(("If-Match", "a"), PreconditionFailed, PreconditionFailed);
        check(("If-Match", ""), PreconditionFailed, PreconditionFailed);

        check(("If-None-Match", "\"a\""), NotModified, PreconditionFailed);
        check(("If-None-Match", "W/\"a\""), NotModified, PreconditionFailed);
        check(("If-None-Match", "\"b\", W/\"a\""), NotModified, PreconditionFailed);
        check(("If-None-Match", "*"), NotModified, PreconditionFailed);
        check(("If-None-Match", "\"b\""), Proceed, Proceed);
        check(("If-None-Match", "a"), Proceed, PreconditionFailed);
        check(("If-None-Match", ""), Proceed, PreconditionFailed);

        check(("If-Modified-Since", EARLIER), Proceed, Proceed);
        check(("If-Modified-Since", MODIFIED), NotModified, Proceed);
        check(("If-Modified-Since", LATER), NotModified, Proceed);
        check(("If-Modified-Since", "Saturday, 28-Feb-26 23:00:00 GMT"), NotModified, Proceed);
        check(("If-Modified-Since", "Sat Feb 28 23:00:00 2026"), NotModified, Proceed);
        check(("If-Modified-Since", "yesterday"), Proceed, Proceed);
        check(("If-Modified-Since", "0"), Proceed, Proceed);

        check(("If-Unmodified-Since", EARLIER), PreconditionFailed, PreconditionFailed);
        check(("If-Unmodified-Since", MODIFIED), Proceed, Proceed);
        check(("If-Unmodified-Since", LATER), Proceed, Proceed);
        check(("If-Unmodified-Since", "never"), Proceed, Proceed);

        check(("If-Range", "\"b\""), Proceed, Proceed);
    }

    #[test]
    fn tags_take_precedence_over_dates() {
        use Verdict::*;
        let check = |fields: &[(&str, &str)], expected| {
            assert_eq!(verdict("GET", fields, Some(&CURRENT)), expected, "{fields:?}")
        };
        check(&[("If-None-Match", "\"b\""), ("If-Modified-Since", LATER)], Proceed);
        check(&[("If-None-Match", "bad"), ("If-Modified-Since", LATER)], Proceed);
        check(&[("If-None-Match", "\"a\""), ("If-Modified-Since", EARLIER)], NotModified);
        check(&[("If-Match", "\"a\""), ("If-Unmodified-Since", EARLIER)], Proceed);
        check(&[("If-Match", "\"a\""), ("If-None-Match", "\"a\"")], NotModified);
        check(&[("If-Match", "\"b\""), ("If-None-Match", "\"a\"")], PreconditionFailed);
        check(&[("If-Unmodified-Since", EARLIER), ("If-None-Match", "\"a\"")], PreconditionFailed);
        check(&[("If-Match", "\"b\""), ("If-Match", "\"a\"")], Proceed);
        // A repeated date is ignored.
        check(&[("If-Modified-Since", LATER), ("If-Modified-Since", LATER)], Proceed);
        check(&[("If-Unmodified-Since", EARLIER), ("If-Unmodified-Since", EARLIER)], Proceed);
    }

    #[test]
    fn evaluates_without_a_representation_or_without_validators() {
        use Verdict::*;
        let check = |method, field: (&str, &str), nothing, unknown| {
            assert_eq!(verdict(method, &[field], None), nothing, "{method} {field:?}");
            assert_eq!(
                verdict(method, &[field], Some(&Validators::default())),
                unknown,
                "{method} {field:?}"
            );
        };
        check("PUT", ("If-Match", "*"), PreconditionFailed, Proceed);
        check("PUT", ("If-Match", "\"a\""), PreconditionFailed, PreconditionFailed);
        check("PUT", ("If-Match", "\"\""), PreconditionFailed, PreconditionFailed);
        check("PUT", ("If-None-Match", "*"), Proceed, PreconditionFailed);
        check("PUT", ("If-None-Match", "\"a\""), Proceed, Proceed);
        check("PUT", ("If-Unmodified-Since", EARLIER), Proceed, Proceed);
        check("GET", ("If-Modified-Since", LATER), Proceed, Proceed);
        check("GET", ("If-None-Match", "*"), Proceed, NotModified);
    }

    #[test]
    fn if_range_permits_a_range_of_the_same_bytes_only() {
        let check = |fields: &[(&str, &str)], current: &Validators, expected| {
            assert_eq!(
                with_head("GET", fields, |head| range_applies(head, current, NOW)),
                expected,
                "{fields:?}"
            );
        };
        let weak = Validators { etag: Some(b"W/\"a\""), ..CURRENT };
        let fresh = Validators { modified: Some(NOW), ..CURRENT };
        let unknown = Validators::default();
        check(&[], &CURRENT, true);
        check(&[("If-Range", "\"a\"")], &CURRENT, true);
        check(&[("If-Range", "\"b\"")], &CURRENT, false);
        check(&[("If-Range", "W/\"a\"")], &CURRENT, false);
        check(&[("If-Range", "\"a\"")], &weak, false);
        check(&[("If-Range", "W/\"a\"")], &weak, false);
        check(&[("If-Range", "\"a\"")], &unknown, false);
        check(&[("If-Range", "\"a\", \"b\"")], &CURRENT, false);
        check(&[("If-Range", "*")], &CURRENT, false);
        check(&[("If-Range", "")], &CURRENT, false);
        check(&[("If-Range", "\"a\""), ("If-Range", "\"a\"")], &CURRENT, false);
        check(&[("If-Range", MODIFIED)], &CURRENT, true);
        check(&[("If-Range", LATER)], &CURRENT, false);
        check(&[("If-Range", EARLIER)], &CURRENT, false);
        check(&[("If-Range", MODIFIED)], &unknown, false);
        check(&[("If-Range", "Sun, 01 Mar 2026 00:00:00 GMT")], &fresh, false);
        check(&[("If-Range", "yesterday")], &CURRENT, false);
    }

    /// The steps of RFC 9110 §13.2.2, one by one. A tag is a letter or `*`.
    fn naive(
        method: &str,
        [if_match, if_none_match]: [Option<&str>; 2],
        [unmodified, modified]: [Option<i64>; 2],
        current: Option<(Option<&str>, Option<i64>)>,
    ) -> Verdict {
        let matches = |wanted: &str| match current {
            None => false,
            Some(_) if wanted == "*" => true,
            Some((etag, _)) => etag == Some(wanted),
        };
        let last_modified = current.and_then(|(_, modified)| modified);
        let mut step = 1;
        loop {
            step = match step {
                1 => match if_match {
                    Some(tag) if matches(tag) => 3,
                    Some(_) => return Verdict::PreconditionFailed,
                    None => 2,
                },
                2 => match (unmodified, last_modified) {
                    (Some(date), Some(last)) if last > date => return Verdict::PreconditionFailed,
                    _ => 3,
                },
                3 => match if_none_match {
                    Some(tag) if !matches(tag) => 5,
                    Some(_) if method == "GET" || method == "HEAD" => return Verdict::NotModified,
                    Some(_) => return Verdict::PreconditionFailed,
                    None => 4,
                },
                4 => match (modified, last_modified) {
                    (Some(date), Some(last)) if (method == "GET" || method == "HEAD") && last <= date => {
                        return Verdict::NotModified;
                    }
                    _ => 5,
                },
                _ => return Verdict::Proceed,
            };
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn agrees_with_the_steps_of_the_rfc(
            method in prop::sample::select(vec!["GET", "HEAD", "PUT", "DELETE", "POST"]),
            tags in prop::array::uniform2(prop::option::of(prop::sample::select(vec!["*", "a", "b"]))),
            dates in prop::array::uniform2(prop::option::of(NOW - 2..NOW + 2)),
            current in prop::option::of((
                prop::option::of(prop::sample::select(vec!["a", "b"])),
                prop::option::of(NOW - 2..NOW + 2),
            )),
        ) {
            let quoted = |tag: &str| if tag == "*" { tag.to_owned() } else { format!("\"{tag}\"") };
            let dated = |time: i64| String::from_utf8(date::format(time).to_vec()).unwrap();
            let fields = [
                ("If-Match", tags[0].map(quoted)),
                ("If-None-Match", tags[1].map(quoted)),
                ("If-Unmodified-Since", dates[0].map(dated)),
                ("If-Modified-Since", dates[1].map(dated)),
            ];
            let fields: Vec<_> =
                fields.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let etag = current.and_then(|(tag, _)| tag).map(quoted);
            let etag = etag.as_deref().map(str::as_bytes);
            let validators = current.map(|(_, modified)| Validators { etag, modified });
            let found = verdict(method, &fields, validators.as_ref());
            prop_assert_eq!(found, naive(method, tags, dates, current));
        }

        #[test]
        fn evaluates_any_value(value in "[ -~\u{80}-\u{ff}]{0,40}", now: i64) {
            let names = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"];
            for name in names {
                with_head("GET", &[(name, &value)], |head| {
                    let _ = (evaluate(head, Some(&CURRENT), now), range_applies(head, &CURRENT, now));
                });
            }
        }
    }
}
