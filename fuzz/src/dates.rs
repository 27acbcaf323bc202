//! Dates, and conditions with dates. A written date is read again, in all three formats. Every verdict is one that RFC
//! 9110 §13 allows.

use taipan_http::conditional::{Validators, Verdict, evaluate, range_applies};
use taipan_http::date::{Civil, civil, format, parse};
use taipan_http::etag::{Compare, is_entity_tag, is_weak, list_matches};
use taipan_http::head::{FieldStore, Head, Limits, Method, Names};

use crate::cuts::{first_line, number};

/// 9999-12-31T23:59:59Z
const LAST_TIME: i64 = 253_402_300_799;

/// The first line is the time, the time of the last change and an entity tag, with spaces between them. The rest are
/// field lines.
pub fn dates(data: &[u8]) {
    let (facts, lines) = first_line(data);
    let mut facts = facts.splitn(3, |&byte| byte == b' ');
    let [now, modified] = [(); 2].map(|()| facts.next().map_or(0, number));
    let etag = facts.next().filter(|tag| is_entity_tag(tag));
    for time in [now, modified] {
        written(time, now);
    }
    for line in lines.split(|&byte| byte == b'\n') {
        let value = line.iter().position(|&byte| byte == b':').map_or(line, |colon| &line[colon + 1..]);
        read(value.trim_ascii(), now);
    }
    conditions(lines, &Validators { etag, modified: Some(modified) }, now);
}

fn written(time: i64, now: i64) {
    let at = civil(time);
    assert!((1..=12).contains(&at.month) && (1..=31).contains(&at.day) && at.weekday < 7);
    assert!(at.hour < 24 && at.minute < 60 && at.second < 60 && at.year <= 9999);
    let text = format(time);
    assert_eq!(parse(&text, now), Some(time.clamp(0, LAST_TIME)));
    if !(0..=LAST_TIME).contains(&time) {
        return;
    }
    let [fixed, rfc850, asctime] = formats(&at);
    assert_eq!(fixed.as_bytes(), text);
    assert_eq!(parse(asctime.as_bytes(), now), Some(time));
    // A year of two digits has one meaning only within 50 years.
    if civil(now).year.abs_diff(at.year) < 50 {
        assert_eq!(parse(rfc850.as_bytes(), now), Some(time), "{rfc850}");
    }
}

/// The three formats of RFC 9110 §5.6.7.
fn formats(at: &Civil) -> [String; 3] {
    let Civil { year, day, hour, minute, second, .. } = *at;
    let (weekday, month) = (at.weekday_name(), at.month_name());
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    [
        format!("{}, {day:02} {month} {year:04} {time} GMT", &weekday[..3]),
        format!("{weekday}, {day:02}-{month}-{:02} {time} GMT", year % 100),
        format!("{} {month} {day:2} {time} {year:04}", &weekday[..3]),
    ]
}

fn read(value: &[u8], now: i64) {
    let Some(time) = parse(value, now) else { return };
    // A leap second counts as the next second.
    let shown = if value.windows(3).any(|text| text == b":60") { time - 1 } else { time };
    let spelled = formats(&civil(shown)).map(|text| text.replace(":59 ", ":60 "));
    let forms = formats(&civil(shown));
    let all = forms.iter().chain(spelled.iter().filter(|_| shown != time));
    let year = civil(shown).year;
    if year > 0 && year < 9999 {
        assert!(
            all.map(String::as_bytes).any(|form| behind_weekday(form) == behind_weekday(value)),
            "{:?}",
            value.escape_ascii().to_string()
        );
    }
}

/// A date counts whatever its weekday.
fn behind_weekday(date: &[u8]) -> &[u8] {
    &date[date.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()..]
}

fn conditions(lines: &[u8], current: &Validators, now: i64) {
    for (token, method) in [("GET", Method::Get), ("HEAD", Method::Head), ("PUT", Method::Put)] {
        let head = request(token, lines, &[]);
        let mut store = FieldStore::new();
        let Ok(Some((head, _))) = taipan_http::head::parse(&head, &mut store, &Limits::default()) else {
            return;
        };
        assert_eq!(head.method, method);
        if !head.names.intersects(Names::IF_MATCH | Names::IF_NONE_MATCH) {
            assert_eq!(evaluate(&head, Some(current), now), by_dates_alone(&head, current, now));
        }
        for current in [Some(current), None] {
            possible(&head, current, evaluate(&head, current, now));
        }
        if range_applies(&head, current, now)
            && let Some(value) = head.value("if-range")
        {
            let is_date = parse(value, now).is_some_and(|date| Some(date) == current.modified && date < now);
            assert!(is_date || current.etag == Some(value) && !is_weak(value));
        }
        // §13.2.2: with an entity tag, the dates are ignored.
        let without = |name: &'static str, condition: Names| {
            let shorter = request(token, lines, &[name]);
            let mut store = FieldStore::new();
            let parsed = taipan_http::head::parse(&shorter, &mut store, &Limits::default());
            if let (true, Ok(Some((shorter, _)))) = (head.names.contains(condition), parsed) {
                let verdict = evaluate(&shorter, Some(current), now);
                assert_eq!(verdict, evaluate(&head, Some(current), now));
            }
        };
        without("if-modified-since", Names::IF_NONE_MATCH);
        without("if-unmodified-since", Names::IF_MATCH);
        listed(&head, current);
    }
}

/// A request with these field lines, except those with one of the names.
fn request(token: &str, lines: &[u8], without: &[&str]) -> Vec<u8> {
    let mut text = format!("{token} / HTTP/1.1\r\nHost: a\r\n").into_bytes();
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        if !without.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes())) {
            text.extend([line, b"\r\n"].concat());
        }
    }
    text.extend_from_slice(b"\r\n");
    text
}

fn possible(head: &Head, current: Option<&Validators>, verdict: Verdict) {
    let reads = matches!(head.method, Method::Get | Method::Head);
    let has = |names| head.names.intersects(names);
    match verdict {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            assert!(reads && current.is_some() && has(Names::IF_NONE_MATCH | Names::IF_MODIFIED_SINCE));
        }
        Verdict::PreconditionFailed => {
            let guards = has(Names::IF_MATCH | Names::IF_UNMODIFIED_SINCE);
            assert!(guards || !reads && has(Names::IF_NONE_MATCH));
        }
    }
    if !has(Names::CONDITIONAL) {
        assert_eq!(verdict, Verdict::Proceed);
    }
}

/// RFC 9110 §13.2.2 without entity tags.
fn by_dates_alone(head: &Head, current: &Validators, now: i64) -> Verdict {
    let date = |name| head.only(name).and_then(|value| parse(value, now));
    let changed_after = |name| Some(current.modified > Some(date(name)?));
    let reads = matches!(head.method, Method::Get | Method::Head);
    match (changed_after("if-unmodified-since"), changed_after("if-modified-since")) {
        (Some(true), _) => Verdict::PreconditionFailed,
        (_, Some(false)) if reads => Verdict::NotModified,
        _ => Verdict::Proceed,
    }
}

/// A strong match is a weak match. A list with one more tag still matches.
fn listed(head: &Head, current: &Validators) {
    for name in ["if-match", "if-none-match"] {
        let (values, tag) = (head.values(name), current.etag.unwrap_or(b""));
        let strong = list_matches(values.clone(), Some(tag), Compare::Strong);
        let weak = list_matches(values.clone(), Some(tag), Compare::Weak);
        assert_eq!(strong.is_none(), weak.is_none());
        assert!(strong <= weak);
        let star = values.clone().any(|value| value.contains(&b'*'));
        if weak.is_some() && !tag.is_empty() && !star {
            assert_eq!(list_matches(values.chain([tag]), Some(tag), Compare::Weak), Some(true));
        }
    }
}
