//! The time of a place: how far it is from UTC at a moment. It is read from a file of the time zone database (RFC
//! 9636), or from a text such as `CET-1CEST,M3.5.0,M10.5.0/3` (POSIX, `TZ`).
//!
//! Knows nothing of where the file is.

use taipan_http::date::{civil, midnight};

const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

/// The largest file that is read.
pub const MAX_FILE: usize = 256 * 1024;
/// Bytes of a text.
const MAX_TEXT: usize = 128;
/// Hours of the time of a change, in either direction (RFC 9636, section 3.3).
const MAX_HOURS: i64 = 167;
/// An offset is less than a day: a log line has it in hours and minutes.
const MAX_OFFSET: i64 = DAY - 60;

/// The offsets of local time from UTC, in seconds, by TZif (RFC 9636).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeZone {
    /// Before the first change.
    first: i32,
    /// When the offset changes, in ascending order, and to what.
    changes: Vec<(i64, i32)>,
    /// From the last change on.
    rule: Option<Rule>,
}

/// The offsets of every year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    standard: i32,
    summer: Option<Summer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Summer {
    offset: i32,
    begin: Moment,
    end: Moment,
}

/// A moment of each year, by the clock that is valid before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    day: Day,
    /// Seconds after midnight.
    time: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Day {
    /// From 1 to 365. 29 February does not count.
    Julian(i64),
    /// From 0 to 365.
    OfYear(i64),
    /// In this month, the weekday of this week. Sunday is 0, and week 5 is the last.
    Weekday { month: i64, week: i64, weekday: i64 },
}

impl TimeZone {
    /// Seconds east of UTC, at a time in seconds since 1970.
    pub fn offset(&self, time: i64) -> i32 {
        let at = self.changes.partition_point(|(begin, _)| *begin <= time);
        match (self.changes.get(at), &self.rule) {
            (None, Some(rule)) => rule.offset(time),
            _ => at.checked_sub(1).map_or(self.first, |before| self.changes[before].1),
        }
    }

    /// A text such as `UTC0`, `CET-1CEST,M3.5.0,M10.5.0/3` or `<-03>3`.
    pub fn of_text(text: &str) -> Option<TimeZone> {
        let text = Some(text).filter(|text| text.len() <= MAX_TEXT && text.is_ascii())?;
        let rule = Rule::read(text)?;
        Some(TimeZone { first: rule.standard, changes: Vec::new(), rule: Some(rule) })
    }

    /// The file of a zone, as in `/usr/share/zoneinfo`.
    pub fn of_file(bytes: &[u8]) -> Option<TimeZone> {
        let (header, rest) = Header::read(bytes)?;
        if header.version == 0 {
            return header.zone(rest, 4).map(|(zone, _)| zone);
        }
        // The first part is for programs that only know 32 bits.
        let (header, rest) = Header::read(rest.get(header.length(4)?..)?)?;
        let (zone, footer) = header.zone(rest, 8)?;
        let text = std::str::from_utf8(footer).ok()?.strip_prefix('\n')?.split_once('\n')?.0;
        match text {
            "" => Some(zone),
            text => Some(TimeZone { rule: Some(Rule::read(text)?), ..zone }),
        }
    }
}

/// The counts of a part of a file.
struct Header {
    version: u8,
    /// Local or universal, standard or wall, leap seconds, changes, types, and bytes of names.
    counts: [usize; 6],
}

impl Header {
    fn read(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (version, rest) = rest.split_first()?;
        let (words, rest) = rest.get(15..)?.split_first_chunk::<24>()?;
        if magic != b"TZif" || bytes.len() > MAX_FILE {
            return None;
        }
        let mut counts = [0; 6];
        for (count, word) in counts.iter_mut().zip(words.chunks_exact(4)) {
            *count = usize::try_from(number(word)).ok().filter(|count| *count <= MAX_FILE)?;
        }
        Some((Header { version: *version, counts }, rest))
    }

    /// The bytes behind the header, with times of `size` bytes.
    fn length(&self, size: usize) -> Option<usize> {
        let [universal, standard, leaps, changes, types, names] = self.counts;
        let parts = [changes * size, changes, types * 6, names, leaps * (size + 4), standard, universal];
        parts.into_iter().try_fold(0_usize, usize::checked_add)
    }

    /// The zone without a rule, and what follows.
    fn zone<'b>(&self, bytes: &'b [u8], size: usize) -> Option<(TimeZone, &'b [u8])> {
        let (own, behind) = bytes.split_at_checked(self.length(size)?)?;
        let [_, _, _, changes, types, _] = self.counts;
        let (times, rest) = own.split_at(changes * size);
        let (indices, rest) = rest.split_at(changes);
        let offsets: Option<Vec<i32>> =
            rest[..types * 6].chunks_exact(6).map(|own| valid(number(&own[..4]))).collect();
        let offsets = offsets?;
        let mut all = Vec::with_capacity(changes);
        for (time, index) in times.chunks_exact(size).zip(indices) {
            all.push((number(time), *offsets.get(usize::from(*index))?));
        }
        let is_ascending = all.is_sorted_by(|(one, _), (other, _)| one < other);
        let zone = TimeZone { first: *offsets.first()?, changes: all, rule: None };
        is_ascending.then_some((zone, behind))
    }
}

/// A signed number of at most eight bytes, the first of which is the highest.
fn number(bytes: &[u8]) -> i64 {
    let first = bytes.first().map_or(0, |byte| i64::from(byte.cast_signed()));
    bytes.iter().skip(1).fold(first, |number, byte| number << 8 | i64::from(*byte))
}

fn valid(offset: i64) -> Option<i32> {
    Some(offset).filter(|offset| offset.abs() <= MAX_OFFSET).and_then(|offset| i32::try_from(offset).ok())
}

impl Rule {
    fn read(text: &str) -> Option<Rule> {
        let rest = after_name(text)?;
        let (standard, rest) = clock(rest, 24)?;
        let standard = valid(-standard)?;
        if rest.is_empty() {
            return Some(Rule { standard, summer: None });
        }
        let rest = after_name(rest)?;
        let (offset, rest) = match rest.starts_with(',') {
            true => (standard + HOUR as i32, rest),
            false => clock(rest, 24).and_then(|(offset, rest)| Some((valid(-offset)?, rest)))?,
        };
        let (begin, end) = rest.strip_prefix(',')?.split_once(',')?;
        let (begin, end) = (Moment::read(begin)?, Moment::read(end)?);
        Some(Rule { standard, summer: Some(Summer { offset, begin, end }) })
    }

    fn offset(&self, time: i64) -> i32 {
        let Some(summer) = self.summer else { return self.standard };
        let year = i64::from(civil(time.saturating_add(self.standard.into())).year);
        let begin = summer.begin.in_year(year) - i64::from(self.standard);
        let end = summer.end.in_year(year) - i64::from(summer.offset);
        let is_summer = match begin < end {
            true => (begin..end).contains(&time),
            // South of the equator.
            false => !(end..begin).contains(&time),
        };
        if is_summer { summer.offset } else { self.standard }
    }
}

impl Moment {
    /// `M3.5.0/2`, `J60` or `59`.
    fn read(text: &str) -> Option<Moment> {
        let (day, time) = text.split_once('/').map_or((text, None), |(day, time)| (day, Some(time)));
        let time = time.map_or(Some((2 * HOUR, "")), |time| clock(time, MAX_HOURS))?;
        let day = match (day.strip_prefix('M'), day.strip_prefix('J')) {
            (Some(parts), _) => {
                let mut parts = parts.split('.').map(digits);
                let mut part = |least, most| parts.next()?.filter(|n| (least..=most).contains(n));
                let (month, week, weekday) = (part(1, 12)?, part(1, 5)?, part(0, 6)?);
                if parts.next().is_some() {
                    return None;
                }
                Day::Weekday { month, week, weekday }
            }
            (_, Some(day)) => Day::Julian(digits(day).filter(|day| (1..=365).contains(day))?),
            _ => Day::OfYear(digits(day).filter(|day| *day <= 365)?),
        };
        Some(Moment { day, time: Some(time).filter(|(_, rest)| rest.is_empty())?.0 })
    }

    /// In seconds since 1970, as if the clock were UTC.
    fn in_year(&self, year: i64) -> i64 {
        let first = midnight(year, 1, 1).unwrap_or(0);
        let is_leap = midnight(year, 2, 29).is_some();
        let day = match self.day {
            Day::OfYear(day) => first + day * DAY,
            Day::Julian(day) => first + (day - 1 + i64::from(is_leap && day >= 60)) * DAY,
            Day::Weekday { month, week, weekday } => {
                let first = midnight(year, month, 1).unwrap_or(0);
                let days = (weekday - i64::from(civil(first).weekday)).rem_euclid(7);
                let day = 1 + days + (week - 1) * 7;
                let last = (29..=31).rev().find(|day| midnight(year, month, *day).is_some()).unwrap_or(28);
                first + (if day > last { day - 8 } else { day - 1 }) * DAY
            }
        };
        day + self.time
    }
}

/// What follows a name of letters, or one such as `<+03>`.
fn after_name(text: &str) -> Option<&str> {
    let (name, rest) = match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?,
        None => text.split_at(text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len())),
    };
    (name.len() >= 3).then_some(rest)
}

/// Seconds of `-1`, `5:30` or `1:02:03`, and what follows.
fn clock(text: &str, hours: i64) -> Option<(i64, &str)> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(text.len());
    let (own, rest) = text.split_at(end);
    let mut parts = own.split(':');
    let mut part = |most| match parts.next() {
        None => Some(0),
        Some(text) => digits(text).filter(|number| *number <= most),
    };
    let seconds = part(hours)? * HOUR + part(59)? * 60 + part(59)?;
    (parts.next().is_none()).then_some((sign * seconds, rest))
}

/// At most three digits.
fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-15, 2026-03-29 and 2026-10-25 at 01:00, and 2026-07-01.
    const WINTER: i64 = 1_768_435_200;
    const SPRING: i64 = 1_774_746_000;
    const AUTUMN: i64 = 1_792_890_000;
    const SUMMER: i64 = 1_782_864_000;

    #[test]
    fn reads_texts_and_changes_at_their_moments() {
        for (text, moments) in [
            ("UTC0", &[(WINTER, 0)][..]),
            ("JST-9", &[(WINTER, 32_400), (SUMMER, 32_400)]),
            ("<-03>3", &[(WINTER, -10_800)]),
            ("IST-5:30", &[(SUMMER, 19_800)]),
            (
                "CET-1CEST,M3.5.0,M10.5.0/3",
                &[
                    (WINTER, 3600),
                    (SPRING - 1, 3600),
                    (SPRING, 7200),
                    (SUMMER, 7200),
                    (AUTUMN - 1, 7200),
                    (AUTUMN, 3600),
                ],
            ),
            // South of the equator, and with an offset of half an hour.
            ("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", &[(WINTER, 39_600), (SUMMER, 37_800)]),
            // 1 March is day 60 also in a leap year.
            ("AAA0BBB,J60/0,J61/0", &[(1_709_251_199, 0), (1_709_251_200, 3600), (1_709_337_600, 0)]),
            // It begins on the evening of the Saturday before.
            ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", &[(SPRING - 1, -7200), (SPRING, -3600), (AUTUMN, -7200)]),
        ] {
            let zone = TimeZone::of_text(text).unwrap_or_else(|| panic!("{text}"));
            for (time, offset) in moments {
                assert_eq!(zone.offset(*time), *offset, "{text} {time}");
            }
        }
    }

    #[test]
    fn rejects_texts_that_say_no_offset() {
        for text in [
            "",
            "UTC",
            "A0",
            "<+3",
            "CET-1CEST",
            "CET-1CEST,M3.5.0",
            "CET-25",
            "CET-1:60",
            "CET-1CEST,M13.5.0,M10.5.0",
            "CET-1CEST,M3.6.0,M10.5.0",
            "CET-1CEST,M3.5.0.1,M10.5.0",
            "CET-1CEST,J0,J1",
            "CET-1CEST,366,J1",
            "CET-é",
            "CET-1CEST,M3.5.0/168,M10.5.0",
            "CET-1CEST,M3.5.0/2x,M10.5.0",
            "Europe/Berlin",
        ] {
            assert_eq!(TimeZone::of_text(text), None, "{text}");
        }
        assert_eq!(TimeZone::of_text(&format!("UTC0{}", " ".repeat(200))), None);
    }

    /// A file with a part of 32 bits that has nothing, and one of 64 bits with these changes.
    fn file(changes: &[(i64, u8)], offsets: &[i32], footer: &str) -> Vec<u8> {
        let header = |changes: usize, types: usize| {
            let mut bytes = b"TZif2".to_vec();
            bytes.extend([0; 15]);
            for count in [0, 0, 0, changes, types, 4] {
                bytes.extend((count as u32).to_be_bytes());
            }
            bytes
        };
        let mut bytes = [header(0, 1), vec![0; 10], header(changes.len(), offsets.len())].concat();
        changes.iter().for_each(|(time, _)| bytes.extend(time.to_be_bytes()));
        changes.iter().for_each(|(_, index)| bytes.push(*index));
        offsets.iter().for_each(|offset| bytes.extend([&offset.to_be_bytes()[..], &[0, 0]].concat()));
        bytes.extend(b"LMT\0");
        bytes.extend(footer.as_bytes());
        bytes
    }

    #[test]
    fn reads_the_changes_of_a_file_and_then_its_rule() {
        let bytes = file(&[(0, 1), (1000, 2)], &[60, 3600, 7200], "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
        let zone = TimeZone::of_file(&bytes).unwrap();
        for (time, offset) in
            [(-1, 60), (0, 3600), (999, 3600), (1000, 3600), (WINTER, 3600), (SUMMER, 7200), (SPRING, 7200)]
        {
            assert_eq!(zone.offset(time), offset, "{time}");
        }
        let without = TimeZone::of_file(&file(&[(0, 1), (1000, 2)], &[60, 3600, 7200], "\n\n")).unwrap();
        assert_eq!((without.offset(999), without.offset(SUMMER)), (3600, 7200));
        for end in 0..bytes.len() {
            assert_eq!(TimeZone::of_file(&bytes[..end]), None, "{end}");
        }
        for wrong in [
            file(&[(0, 3)], &[0, 60, 120], "\nUTC0\n"),
            file(&[(5, 0), (5, 0)], &[0], "\nUTC0\n"),
            file(&[], &[], "\nUTC0\n"),
            file(&[], &[86_400], "\nUTC0\n"),
            file(&[], &[0], "\nnothing\n"),
        ] {
            assert_eq!(TimeZone::of_file(&wrong), None);
        }
    }
}
