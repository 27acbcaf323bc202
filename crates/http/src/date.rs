//! Writes dates in the preferred format and parses all three formats (RFC 9110 §5.6.7). A time is in seconds since
//! 1970, without leap seconds. Knows nothing of clocks and time zones.

/// Bytes of a formatted date.
pub const LEN: usize = 29;

const DAY: i64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// As dates and logs name them.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time of the proleptic Gregorian calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Civil {
    /// 0 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 is Sunday.
    pub weekday: u8,
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Clamps the time to the years 1970 to 9999.
pub fn format(time: i64) -> [u8; LEN] {
    let at = civil(time.max(0));
    let mut out = *b"Sun, 00 Jan 0000 00:00:00 GMT";
    out[..3].copy_from_slice(&at.weekday_name().as_bytes()[..3]);
    two_digits(&mut out[5..7], at.day);
    out[8..11].copy_from_slice(at.month_name().as_bytes());
    two_digits(&mut out[12..14], (at.year / 100) as u8);
    two_digits(&mut out[14..16], (at.year % 100) as u8);
    two_digits(&mut out[17..19], at.hour);
    two_digits(&mut out[20..22], at.minute);
    two_digits(&mut out[23..25], at.second);
    out
}

/// Parses any of the three formats strictly, but for the weekday, which need not be that of the date: the rest says
/// which time is meant, and Apache and nginx read no more. A year of two digits is the latest that is at most 50 years
/// after `now`. The leap second 23:59:60 counts as the second after it.
pub fn parse(value: &[u8], now: i64) -> Option<i64> {
    match value.get(3)? {
        b',' => parse_fixed(value),
        b' ' => parse_asctime(value),
        _ => parse_rfc850(value, now),
    }
}

/// Clamps the time to the years 0 to 9999.
pub fn civil(time: i64) -> Civil {
    let time = time.clamp(seconds(0, 1, 1, 0), seconds(9999, 12, 31, DAY - 1));
    let (days, second) = (time.div_euclid(DAY), time.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    Civil {
        year: year as u16,
        month: month as u8,
        day: day as u8,
        hour: (second / 3600) as u8,
        minute: (second / 60 % 60) as u8,
        second: (second % 60) as u8,
        weekday: weekday_of(days),
    }
}

impl Civil {
    /// `Jan` to `Dec`.
    pub fn month_name(&self) -> &'static str {
        MONTHS[usize::from(self.month.clamp(1, 12) - 1)]
    }

    /// `Sunday` to `Saturday`.
    pub fn weekday_name(&self) -> &'static str {
        WEEKDAYS[usize::from(self.weekday % 7)]
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn parse_fixed(value: &[u8]) -> Option<i64> {
    let mut text = Text(value);
    text.weekday(|name| &name[..3])?;
    text.literal(", ")?;
    let day = text.number(2)?;
    text.literal(" ")?;
    let month = text.month()?;
    text.literal(" ")?;
    let year = text.number(4)?;
    text.literal(" ")?;
    let second = text.time_of_day()?;
    text.literal(" GMT")?;
    text.end()?;
    time(year, month, day, second)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn parse_rfc850(value: &[u8], now: i64) -> Option<i64> {
    let mut text = Text(value);
    text.weekday(|name| name)?;
    text.literal(", ")?;
    let day = text.number(2)?;
    text.literal("-")?;
    let month = text.month()?;
    text.literal("-")?;
    let short_year = text.number(2)?;
    text.literal(" ")?;
    let second = text.time_of_day()?;
    text.literal(" GMT")?;
    text.end()?;
    let year = full_year(short_year, (month, day, second), now);
    time(year, month, day, second)
}

/// `Sun Nov  6 08:49:37 1994`
fn parse_asctime(value: &[u8]) -> Option<i64> {
    let mut text = Text(value);
    text.weekday(|name| &name[..3])?;
    text.literal(" ")?;
    let month = text.month()?;
    text.literal(" ")?;
    let day = match text.literal(" ") {
        Some(()) => text.number(1)?,
        None => text.number(2).filter(|day| *day >= 10)?,
    };
    text.literal(" ")?;
    let second = text.time_of_day()?;
    text.literal(" ")?;
    let year = text.number(4)?;
    text.end()?;
    time(year, month, day, second)
}

/// The rest of the value.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn literal(&mut self, wanted: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted.as_bytes())?;
        Some(())
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        crate::fields::digits(digits).and_then(|number| i64::try_from(number).ok())
    }

    fn weekday(&mut self, format: impl Fn(&'static str) -> &'static str) -> Option<()> {
        WEEKDAYS.iter().find_map(|name| self.literal(format(name)))
    }

    fn month(&mut self) -> Option<i64> {
        let month = MONTHS.iter().position(|name| self.0.starts_with(name.as_bytes()))?;
        self.literal(MONTHS[month])?;
        Some(month as i64 + 1)
    }

    /// `08:49:37` as seconds since midnight.
    fn time_of_day(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.literal(":")?;
        let minute = self.number(2)?;
        self.literal(":")?;
        let second = self.number(2)?;
        let valid = hour < 24 && minute < 60 && (second < 60 || (hour, minute, second) == (23, 59, 60));
        valid.then_some(hour * 3600 + minute * 60 + second)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// RFC 9110 §5.6.7: a date that appears to be more than 50 years ahead is in the past century.
fn full_year(short: i64, rest: (i64, i64, i64), now: i64) -> i64 {
    let now = civil(now);
    let second = i64::from(now.hour) * 3600 + i64::from(now.minute) * 60 + i64::from(now.second);
    let horizon = (i64::from(now.year) + 50, (i64::from(now.month), i64::from(now.day), second));
    let latest = (i64::from(now.year) / 100 + 1) * 100 + short;
    let candidates = [latest, latest - 100];
    candidates.into_iter().find(|year| (*year, rest) <= horizon).unwrap_or(latest - 200)
}

/// `None`: there is no such day.
fn time(year: i64, month: i64, day: i64, second: i64) -> Option<i64> {
    midnight(year, month, day).map(|midnight| midnight + second)
}

const fn seconds(year: i64, month: i64, day: i64, second: i64) -> i64 {
    days_before(year, month, day) * DAY + second
}

/// 2020. A clock before that has not been set yet: without a battery it starts in 1970, 1980 or 2000.
pub const CLOCK_IS_SET: i64 = 1_577_836_800;

/// Days since 1970-01-01, for the years 0 to 9999. Counts years from March, so that a leap day is the last day of its
/// year. From March on, every five months have 153 days.
const fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970
}

/// Days from 1 March of the year 0.
const DAYS_TO_1970: i64 = 719_468;

/// The first second of a day, since 1970. `None`: there is no such day.
pub fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    let days = days_before(year, month, day);
    let is_valid = (0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    (is_valid && date_of(days) == (year, month, day)).then_some(days * DAY)
}

/// The inverse of `days_before`.
const fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    // On the last day of an era and of four years, the plain quotient would be one too many.
    let century = if day / 36_524 > 3 { 3 } else { day / 36_524 };
    let day = day - century * 36_524;
    let (four, day) = (day / 1461, day % 1461);
    let year_of_four = if day / 365 > 3 { 3 } else { day / 365 };
    let day = day - year_of_four * 365;
    let month = (5 * day + 2) / 153;
    let year = era * 400 + century * 100 + four * 4 + year_of_four;
    let day = day - (153 * month + 2) / 5 + 1;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

/// 1970-01-01 was a Thursday.
const fn weekday_of(days: i64) -> u8 {
    (days + 4).rem_euclid(7) as u8
}

fn two_digits(out: &mut [u8], number: u8) {
    out[0] = b'0' + number / 10;
    out[1] = b'0' + number % 10;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-03-01 00:00:00
    const NOW: i64 = 1_772_323_200;

    #[test]
    fn writes_the_preferred_format() {
        let check =
            |time: i64, expected: &str| assert_eq!(format(time), expected.as_bytes(), "{time} {expected}");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(-1, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(NOW, "Sun, 01 Mar 2026 00:00:00 GMT");
        check(253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(253_402_300_800, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn parses_three_formats_strictly() {
        let check = |value: &str, expected: Option<i64>| {
            assert_eq!(parse(value.as_bytes(), NOW), expected, "{value}")
        };
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Wed Nov 16 08:49:37 1994", Some(784_975_777));
        // A wrong weekday.
        check("Mon, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Monday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Mon Nov  6 08:49:37 1994", Some(784_111_777));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Wed, 31 Dec 1969 23:59:59 GMT", Some(-1));
        check("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400));
        check("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799));
        check("Sat, 01 Jan 0000 00:00:00 GMT", Some(-62_167_219_200));

        for refused in [
            "",
            "0",
            "Sun",
            "Sun,",
            "Sun, ",
            "784111777",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 gmt",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            " Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun,06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun,  6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 08:49:60 GMT",
            "Sun, 06 Nov 1994 23:59:61 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Thu, 31 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 2023 00:00:00 GMT",
            "Mon, 29 Feb 2100 00:00:00 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 06 08:49:37 1994",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 94",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            check(refused, None);
        }
    }

    #[test]
    fn a_year_of_two_digits_is_at_most_fifty_years_ahead() {
        let year = |short: i64, day: (i64, i64), now: i64| full_year(short, (day.0, day.1, 0), now);
        // Now is the first second of March 2026.
        assert_eq!(year(26, (1, 1), NOW), 2026);
        assert_eq!(year(75, (12, 31), NOW), 2075);
        assert_eq!(year(76, (2, 28), NOW), 2076);
        assert_eq!(year(76, (3, 1), NOW), 2076);
        assert_eq!(full_year(76, (3, 1, 1), NOW), 1976);
        assert_eq!(year(76, (3, 2), NOW), 1976);
        assert_eq!(year(77, (1, 1), NOW), 1977);
        assert_eq!(year(99, (1, 1), NOW), 1999);
        assert_eq!(year(0, (1, 1), NOW), 2000);
        // 2080: the window reaches into the next century.
        let now = seconds(2080, 6, 1, 0);
        assert_eq!((year(30, (5, 31), now), year(30, (6, 2), now)), (2130, 2030));
        assert_eq!(year(99, (1, 1), seconds(2000, 1, 1, 0)), 1999);
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let leap =
            |year: u16| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day, mut weekday) = (0u16, 1u8, 1u8, 6u8);
        let first = seconds(0, 1, 1, 0) / DAY;
        let last = seconds(9999, 12, 31, 0) / DAY;
        for days in first..=last {
            let at = civil(days * DAY + 3661);
            let expected = Civil { year, month, day, hour: 1, minute: 1, second: 1, weekday };
            assert_eq!(at, expected);
            let length = match month {
                2 => 28 + u8::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            weekday = (weekday + 1) % 7;
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == length => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
    }

    proptest! {
        #[test]
        fn parses_what_it_writes(time in 0..=253_402_300_799i64, now: i64) {
            prop_assert_eq!(parse(&format(time), now), Some(time));
        }

        #[test]
        fn parses_the_obsolete_formats(time in NOW - 49 * 365 * DAY..NOW + 49 * 365 * DAY) {
            let at = civil(time);
            let (weekday, month, short) = (at.weekday_name(), at.month_name(), at.year % 100);
            let clock = std::format!("{:02}:{:02}:{:02}", at.hour, at.minute, at.second);
            let rfc850 = std::format!("{weekday}, {:02}-{month}-{short:02} {clock} GMT", at.day);
            let asctime = std::format!("{} {month} {:2} {clock} {:04}", &weekday[..3], at.day, at.year);
            prop_assert_eq!(parse(rfc850.as_bytes(), NOW), Some(time));
            prop_assert_eq!(parse(asctime.as_bytes(), NOW), Some(time));
        }

        #[test]
        fn a_changed_byte_changes_the_date(time in 0..=253_402_300_799i64, at in 0..LEN, byte: u8) {
            let mut text = format(time);
            let same = text[at] == byte;
            text[at] = byte;
            prop_assert_eq!(parse(&text, NOW) == Some(time), same);
        }

        #[test]
        fn accepts_or_rejects_any_value(value: Vec<u8>, time: i64) {
            let _ = (parse(&value, time), civil(time), format(time));
        }
    }
}
