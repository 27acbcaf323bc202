//! Sizes and times as text.

use taipan_http::date::civil;
use taipan_http::digits::with_commas;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SizeFormat {
    /// `1,024`
    Bytes,
    /// `1.0K`
    #[default]
    Abbreviated,
}

/// The format of times before `config` sets one, as in Apache.
pub const TIME_FORMAT: &str = "%A, %d-%b-%Y %H:%M:%S %Z";

/// Bytes of a time that was formatted.
const LONGEST: usize = 4096;
const DAYS_BEFORE: [u16; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl SizeFormat {
    pub fn format(self, bytes: u64) -> String {
        match self {
            SizeFormat::Bytes => with_commas(bytes),
            SizeFormat::Abbreviated => abbreviated(bytes),
        }
    }
}

/// At most three digits and a unit.
fn abbreviated(bytes: u64) -> String {
    const FEW: u64 = 973;
    if bytes < FEW {
        return bytes.to_string();
    }
    let mut size = bytes as f64;
    for unit in ["K", "M", "G", "T", "P"] {
        size /= 1024.0;
        match size {
            size if size < 9.95 => return format!("{size:.1}{unit}"),
            size if size < FEW as f64 => return format!("{size:.0}{unit}"),
            _ => {}
        }
    }
    format!("{:.0}E", size / 1024.0)
}

/// A time as strftime(3) writes it in the C locale, in UTC, which has the name `zone`. A conversion that is not known
/// stays as it is.
pub fn time(format: &str, time: i64, zone: &str) -> String {
    let mut out = String::with_capacity(format.len() * 2);
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if out.len() > LONGEST {
            break;
        }
        match char {
            '%' => match chars.next() {
                // The modifiers of other locales.
                Some('E' | 'O') => convert(chars.next(), time, zone, &mut out),
                conversion => convert(conversion, time, zone, &mut out),
            },
            _ => out.push(char),
        }
    }
    out
}

fn convert(conversion: Option<char>, at: i64, zone: &str, out: &mut String) {
    let own = civil(at);
    let day_of_year = day_of_year(own.year, own.month, own.day);
    let of_twelve = match own.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let half = if own.hour < 12 { "AM" } else { "PM" };
    let month = MONTHS[usize::from(own.month.clamp(1, 12) - 1)];
    let weekday = own.weekday_name();
    let text = match conversion {
        Some('a') => weekday[..3].to_owned(),
        Some('A') => weekday.to_owned(),
        Some('b' | 'h') => month[..3].to_owned(),
        Some('B') => month.to_owned(),
        Some('c') => time("%a %b %e %H:%M:%S %Y", at, zone),
        Some('C') => format!("{:02}", own.year / 100),
        Some('d') => format!("{:02}", own.day),
        Some('D' | 'x') => time("%m/%d/%y", at, zone),
        Some('e') => format!("{:2}", own.day),
        Some('F') => time("%Y-%m-%d", at, zone),
        Some('G') => iso_week(at).0.to_string(),
        Some('g') => format!("{:02}", iso_week(at).0.rem_euclid(100)),
        Some('H') => format!("{:02}", own.hour),
        Some('I') => format!("{of_twelve:02}"),
        Some('j') => format!("{day_of_year:03}"),
        Some('k') => format!("{:2}", own.hour),
        Some('l') => format!("{of_twelve:2}"),
        Some('m') => format!("{:02}", own.month),
        Some('M') => format!("{:02}", own.minute),
        Some('n') => "\n".to_owned(),
        Some('p') => half.to_owned(),
        Some('P') => half.to_lowercase(),
        Some('r') => time("%I:%M:%S %p", at, zone),
        Some('R') => time("%H:%M", at, zone),
        Some('s') => at.to_string(),
        Some('S') => format!("{:02}", own.second),
        Some('t') => "\t".to_owned(),
        Some('T' | 'X') => time("%H:%M:%S", at, zone),
        Some('u') => if own.weekday == 0 { 7 } else { own.weekday }.to_string(),
        Some('U') => format!("{:02}", (day_of_year + 6 - u16::from(own.weekday)) / 7),
        Some('V') => format!("{:02}", iso_week(at).1),
        Some('w') => own.weekday.to_string(),
        Some('W') => format!("{:02}", (day_of_year + 6 - u16::from((own.weekday + 6) % 7)) / 7),
        Some('y') => format!("{:02}", own.year % 100),
        Some('Y') => own.year.to_string(),
        Some('z') => "+0000".to_owned(),
        Some('Z') => zone.to_owned(),
        Some('%') | None => "%".to_owned(),
        Some(unknown) => format!("%{unknown}"),
    };
    out.push_str(&text);
}

/// 1 to 366.
fn day_of_year(year: u16, month: u8, day: u8) -> u16 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let leap_day = u16::from(is_leap && month > 2);
    DAYS_BEFORE[usize::from(month.clamp(1, 12) - 1)] + u16::from(day) + leap_day
}

/// The year and the week of ISO 8601: those of the Thursday of the same week.
fn iso_week(at: i64) -> (i64, u16) {
    const DAY: i64 = 86_400;
    let from_monday = i64::from((civil(at).weekday + 6) % 7);
    let thursday = civil(at + (3 - from_monday) * DAY);
    let day = day_of_year(thursday.year, thursday.month, thursday.day);
    (i64::from(thursday.year), (day - 1) / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_sizes() {
        let check = |bytes, expected: &str, full: &str| {
            assert_eq!(SizeFormat::Abbreviated.format(bytes), expected);
            assert_eq!(SizeFormat::Bytes.format(bytes), full);
        };
        check(0, "0", "0");
        check(972, "972", "972");
        check(973, "1.0K", "973");
        check(1024, "1.0K", "1,024");
        check(17 * 1024 + 100, "17K", "17,508");
        check(10_188, "9.9K", "10,188");
        check(10_189, "10K", "10,189");
        check(1_000_000, "1.0M", "1,000,000");
        check(123_456_789_012, "115G", "123,456,789,012");
        check(u64::MAX, "16E", "18,446,744,073,709,551,615");
    }

    #[test]
    fn formats_times() {
        // Thursday, 1 January 2004, 14:05:09.
        const AT: i64 = 1_072_965_909;
        let check = |format: &str, expected: &str| assert_eq!(time(format, AT, "GMT"), expected, "{format}");
        check(TIME_FORMAT, "Thursday, 01-Jan-2004 14:05:09 GMT");
        check("%c|%x|%X|%r|%R", "Thu Jan  1 14:05:09 2004|01/01/04|14:05:09|02:05:09 PM|14:05");
        check("%D %T %F %y %C %e %k %l %I %p %P", "01/01/04 14:05:09 2004-01-01 04 20  1 14  2 02 PM pm");
        check("%j %U %W %V %G %g %u %w", "001 00 00 01 2004 04 4 4");
        check("%s%n%t%%%z %Ey %Od", "1072965909\n\t%+0000 04 01");
        check("100% %Q %", "100% %Q %");
        check("é%B", "éJanuary");
    }

    #[test]
    fn a_format_of_many_conversions_is_cut() {
        assert!(time(&"%c".repeat(4000), 0, "GMT").len() <= LONGEST + 64);
    }
}
