//! When a log file is rotated, what the rotated file is called, and which old ones are removed. Pure: it knows nothing
//! of files, and the time is handed in.

use std::cmp::{Ordering, Reverse};

use taipan_http::date::{self, CLOCK_IS_SET, civil};
use taipan_http::negotiate::Coding;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// Clocks are corrected by so many seconds while they run.
const CORRECTION: i64 = 60;

/// When a log begins another file, and which files are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The most bytes of a file, unless one line has more.
    pub size: Option<u64>,
    pub period: Option<Period>,
    /// Rotated files that are kept.
    pub keep: usize,
    /// Bytes of rotated files that are kept.
    pub keep_size: Option<u64>,
    /// `None`: rotated files stay as they are.
    pub compress: Option<Coding>,
    pub names: RotatedNames,
}

/// When a file that has lines is rotated, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// At each full hour.
    Hour,
    /// At this second of each day.
    Day(i64),
}

/// What distinguishes rotated files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotatedNames {
    /// `access.log-20261122`, or with the time as well where there may be several in a day.
    Date,
    /// `access.log.1`, which is the last one.
    Number,
}

/// The place of a rotated file in the order of time, the last one first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Number(u64),
    /// In seconds since 1970, and a number among those of that second.
    Date(Reverse<(i64, u64)>),
}

impl Rotation {
    /// The first time after `time` at which a file is rotated. `None`: only its size matters.
    pub fn next(&self, time: i64) -> Option<i64> {
        let (every, offset) = match self.period? {
            Period::Hour => (HOUR, 0),
            Period::Day(second) => (DAY, second),
        };
        Some((time - offset).div_euclid(every) * every + every + offset)
    }

    /// When a file is rotated, by the clock at `now`, that was to be rotated at `due`: a clock that was set back must not
    /// let it wait for longer than a period.
    pub fn corrected(&self, due: i64, now: i64) -> i64 {
        self.next(now.saturating_add(CORRECTION)).map_or(due, |next| due.min(next))
    }

    /// The renames that make way for `access.log.1`, in their order, if rotated files have numbers.
    pub fn shifts(&self, base: &str, names: &[String]) -> Vec<(String, String)> {
        if self.names == RotatedNames::Date {
            return Vec::new();
        }
        let number = |name: &String| match self.age(base, name)? {
            Age::Number(number) => Some((number, name.clone())),
            Age::Date(_) => None,
        };
        let mut numbered: Vec<(u64, String)> = names.iter().filter_map(number).collect();
        sort::by(&mut numbered, Ord::cmp);
        // Those behind a gap stay where they are.
        let mut free = 1;
        numbered.retain(|(number, _)| {
            let is_in_the_way = *number <= free;
            if is_in_the_way {
                free = number + 1;
            }
            is_in_the_way
        });
        let renamed = |(number, name): &(u64, String)| {
            let behind = &name[base.len() + 1 + number.to_string().len()..];
            (name.clone(), format!("{base}.{}{behind}", number + 1))
        };
        numbered.iter().rev().map(renamed).collect()
    }

    /// The name of a file that is rotated now, when `shifts` have been carried out.
    ///
    /// Dates never go back: a clock that was set back by less than a day goes on behind the last name, one second for
    /// each file, until it has reached that name. So what is rotated last is always the last in order.
    pub fn name(&self, base: &str, now: i64, names: &[String]) -> String {
        if self.names == RotatedNames::Number {
            return format!("{base}.1");
        }
        let time = |name: &String| match self.age(base, name)? {
            Age::Date(Reverse((time, _))) => Some(time),
            Age::Number(_) => None,
        };
        let taken: Vec<i64> = names.iter().filter_map(time).collect();
        let last = taken.iter().copied().filter(|time| *time < now.saturating_add(DAY)).max();
        let is_free = |time: i64| last.is_none_or(|last| last < time);
        let day = now.div_euclid(DAY) * DAY;
        let is_one_of_a_day = self.size.is_none() && matches!(self.period, Some(Period::Day(_)));
        if is_one_of_a_day && is_free(day) {
            return format!("{base}-{}", Stamp::of(day).day);
        }
        let next = last.map_or(now, |last| now.max(last + 1));
        let free = (next..).find(|time| !taken.contains(time));
        let stamp = Stamp::of(free.unwrap_or(next));
        format!("{base}-{}-{}", stamp.day, stamp.time)
    }

    /// The rotated files that are not kept. `files`: the names in the folder, with their sizes.
    ///
    /// A date that is more than a day ahead is one of a wrong clock, now or then: such a file goes first, because it would
    /// take the place of all that are rotated until that date; `name` goes on behind the others. But a clock that is not
    /// set removes no file of one that was: only those of clocks like it are counted.
    pub fn removed(&self, base: &str, now: i64, files: &[(String, u64)]) -> Vec<String> {
        let date = |time| Age::Date(Reverse((time, 0)));
        let (tomorrow, set) = (date(now.saturating_add(DAY)), date(CLOCK_IS_SET));
        let rotated = |(name, size): &(String, u64)| {
            let age = self.age(base, name)?;
            if now < CLOCK_IS_SET && matches!(age, Age::Date(_)) && age <= set {
                return None;
            }
            let is_to_come = matches!(age, Age::Date(_)) && age < tomorrow;
            Some((is_to_come, age, name.clone(), *size))
        };
        let mut rotated: Vec<_> = files.iter().filter_map(rotated).collect();
        sort::by(&mut rotated, Ord::cmp);
        let mut total = 0_u64;
        let is_kept = |(at, size): (usize, u64)| {
            total = total.saturating_add(size);
            at < self.keep && self.keep_size.is_none_or(|most| total <= most)
        };
        let kept =
            rotated.iter().map(|(_, _, _, size)| *size).enumerate().map(is_kept).take_while(|kept| *kept);
        let kept = kept.count();
        rotated.drain(..kept);
        rotated.into_iter().map(|(_, _, name, _)| name).collect()
    }

    /// Whether this is a rotated file that is not compressed yet.
    pub fn is_to_be_compressed(&self, base: &str, name: &str) -> bool {
        self.compress.is_some() && plain(name) == name && self.age(base, name).is_some()
    }

    /// What a compressed file's name ends with.
    pub fn extension(&self) -> &'static str {
        match self.compress {
            Some(Coding::Zstd) => ".zst",
            _ => ".gz",
        }
    }

    /// `None`: it is no rotated file of this log.
    fn age(&self, base: &str, name: &str) -> Option<Age> {
        let rest = plain(name).strip_prefix(base)?;
        match self.names {
            RotatedNames::Number => Some(Age::Number(number(rest.strip_prefix('.')?)?)),
            RotatedNames::Date => {
                let rest = rest.strip_prefix('-')?;
                let (date, count) = match rest.split_once('.') {
                    Some((date, count)) => (date, number(count)?),
                    None => (rest, 0),
                };
                let (day, time) = date.split_once('-').unwrap_or((date, "000000"));
                Some(Age::Date(Reverse((Stamp::seconds(day, time)?, count))))
            }
        }
    }
}

/// A time as the names of rotated files have it: `20261122` and `153059`.
struct Stamp {
    day: String,
    time: String,
}

impl Stamp {
    fn of(time: i64) -> Stamp {
        let date = civil(time);
        Stamp {
            day: format!("{:04}{:02}{:02}", date.year, date.month, date.day),
            time: format!("{:02}{:02}{:02}", date.hour, date.minute, date.second),
        }
    }

    fn seconds(day: &str, time: &str) -> Option<i64> {
        if !digits(day, 8) || !digits(time, 6) {
            return None;
        }
        let part = |text: &str| text.parse::<i64>().ok();
        let midnight = date::midnight(part(&day[..4])?, part(&day[4..6])?, part(&day[6..])?)?;
        Some(midnight + part(&time[..2])? * HOUR + part(&time[2..4])? * 60 + part(&time[4..])?)
    }
}

/// Without what a compressed file's name ends with.
fn plain(name: &str) -> &str {
    name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name)
}

fn digits(text: &str, count: usize) -> bool {
    text.len().cmp(&count) == Ordering::Equal && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Without a sign or a leading zero.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| *number > 0 && number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T15:30:59Z
    const TODAY: i64 = 1_795_361_459;

    fn rotation(names: RotatedNames) -> Rotation {
        let compress = Some(Coding::Gzip);
        Rotation { size: None, period: Some(Period::Day(0)), keep: 3, keep_size: None, compress, names }
    }

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn is_due_at_the_next_hour_or_at_a_time_of_the_day() {
        let next = |period, time| Rotation { period, ..rotation(RotatedNames::Date) }.next(time);
        assert_eq!(next(None, 5), None);
        assert_eq!(next(Some(Period::Hour), 0), Some(HOUR));
        assert_eq!(next(Some(Period::Hour), HOUR - 1), Some(HOUR));
        assert_eq!(next(Some(Period::Day(0)), DAY), Some(2 * DAY));
        assert_eq!(next(Some(Period::Day(3 * HOUR)), DAY), Some(DAY + 3 * HOUR));
        assert_eq!(next(Some(Period::Day(3 * HOUR)), DAY + 3 * HOUR), Some(2 * DAY + 3 * HOUR));
        assert_eq!(next(Some(Period::Day(3 * HOUR)), -1), Some(3 * HOUR));
    }

    #[test]
    fn a_clock_that_was_set_back_delays_no_rotation_for_longer_than_a_period() {
        let daily = rotation(RotatedNames::Date);
        assert_eq!(daily.corrected(1500 * DAY, 100 * DAY + HOUR), 101 * DAY);
        assert_eq!(daily.corrected(101 * DAY, 100 * DAY + HOUR), 101 * DAY, "nothing has changed");
        assert_eq!(daily.corrected(101 * DAY, 200 * DAY), 101 * DAY, "it is due");
        assert_eq!(
            daily.corrected(102 * DAY, 101 * DAY - 1),
            102 * DAY,
            "a correction rotates no file again"
        );
        assert_eq!(Rotation { period: None, ..daily }.corrected(5, 1), 5);
    }

    #[test]
    fn files_of_a_wrong_clock_do_not_displace_those_that_are_rotated_now() {
        let files = |text: &str| -> Vec<(String, u64)> { names(text).into_iter().map(|n| (n, 10)).collect() };
        let removed = |text: &str, now| rotation(RotatedNames::Date).removed("a.log", now, &files(text));
        let of_future = "a.log-20301101.gz a.log-20301102 a.log-20301103 a.log-20261122 a.log-20261121";
        assert_eq!(removed(of_future, TODAY), ["a.log-20301102", "a.log-20301101.gz"]);
        // The clock is wrong now.
        assert!(removed("a.log-20261122 a.log-20261121 a.log-20261120 a.log-19700101", 5).is_empty());
        let unset =
            "a.log-20261122 a.log-20000104 a.log-20000103 a.log-20000102 a.log-20000101 a.log-20261121";
        assert_eq!(removed(unset, 946_684_800 + 4 * DAY), ["a.log-20000101"]);
        assert_eq!(removed(unset, TODAY), ["a.log-20000103", "a.log-20000102", "a.log-20000101"]);
        // Clocks that are only corrected.
        let of_today = "a.log-20261122-153100 a.log-20261122-1 a.log-20261121 a.log-20261120 a.log-20261119";
        assert_eq!(removed(of_today, TODAY), ["a.log-20261119"]);
    }

    #[test]
    fn names_a_file_by_its_date_and_keeps_every_name_apart() {
        let of_day = rotation(RotatedNames::Date);
        assert_eq!(of_day.name("a.log", TODAY, &[]), "a.log-20261122");
        let taken = names("a.log a.log-20261122.gz");
        assert_eq!(of_day.name("a.log", TODAY, &taken), "a.log-20261122-153059");
        assert_eq!(of_day.name("a.log", TODAY + DAY, &taken), "a.log-20261123");
        let by_size = Rotation { size: Some(1), ..of_day.clone() };
        assert_eq!(by_size.name("a.log", TODAY, &[]), "a.log-20261122-153059");
        let of_hour = Rotation { period: Some(Period::Hour), ..of_day };
        assert_eq!(of_hour.name("a.log", TODAY, &[]), "a.log-20261122-153059");
        let of_future = names("a.log-20261124 a.log-20261122-153059.1.gz");
        assert_eq!(of_hour.name("a.log", TODAY, &of_future), "a.log-20261122-153100");
        assert_eq!(of_hour.name("a.log", 5, &of_future), "a.log-19700101-000005");
    }

    /// Rotates a log at these times, and returns its files in the order in which they were rotated.
    fn rotated_at(rotation: &Rotation, times: &[i64], before: &str) -> Vec<String> {
        let mut kept = names(before);
        for now in times {
            let name = rotation.name("a.log", *now, &kept);
            assert!(!kept.contains(&name));
            kept.push(format!("{name}.gz"));
            let files: Vec<(String, u64)> = kept.iter().map(|name| (name.clone(), 10)).collect();
            let removed = rotation.removed("a.log", *now, &files);
            kept.retain(|name| !removed.contains(name));
        }
        kept
    }

    #[test]
    fn what_is_rotated_last_is_kept_when_the_clock_is_set_back_or_within_one_second() {
        let by_size = Rotation { size: Some(1), ..rotation(RotatedNames::Date) };
        let ahead = "a.log-20261122-203000.gz a.log-20261122-213000.gz a.log-20261122-223000.gz";
        assert_eq!(
            rotated_at(&by_size, &[TODAY, TODAY + 60], ahead),
            ["a.log-20261122-223000.gz", "a.log-20261122-223001.gz", "a.log-20261122-223002.gz"]
        );
        assert_eq!(
            rotated_at(&by_size, &[TODAY; 6], ""),
            ["a.log-20261122-153102.gz", "a.log-20261122-153103.gz", "a.log-20261122-153104.gz"],
            "the order in which a shell sorts them"
        );
        let of_day = rotation(RotatedNames::Date);
        assert_eq!(
            rotated_at(&of_day, &[TODAY, TODAY + HOUR], "a.log-20261121.gz a.log-20261123.gz"),
            ["a.log-20261123.gz", "a.log-20261123-000001.gz", "a.log-20261123-000002.gz"]
        );
    }

    #[test]
    fn shifts_numbers_up_to_the_first_gap() {
        let shifts = |files: &str| {
            let shifts = rotation(RotatedNames::Number).shifts("a.log", &names(files));
            shifts.iter().map(|(from, to)| format!("{from}>{to}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shifts("a.log b.log.1 a.log.01 a.log.x a.log.1.tmp"), "");
        assert_eq!(shifts("a.log a.log.1 a.log.2.gz a.log.4"), "a.log.2.gz>a.log.3.gz a.log.1>a.log.2");
        assert_eq!(shifts("a.log.2 a.log.3"), "");
        assert_eq!(rotation(RotatedNames::Number).name("a.log", 0, &[]), "a.log.1");
    }

    #[test]
    fn removes_the_oldest_beyond_the_count_and_the_bytes() {
        let files = |text: &str| -> Vec<(String, u64)> { names(text).into_iter().map(|n| (n, 10)).collect() };
        let dates = "x a.log a.log-20261101.gz a.log-20261122 a.log-20261122.1 a.log-20261122-000001 a.log-x";
        let removed = rotation(RotatedNames::Date).removed("a.log", TODAY, &files(dates));
        assert_eq!(removed, ["a.log-20261101.gz"]);
        let few = Rotation { keep_size: Some(25), ..rotation(RotatedNames::Date) };
        assert_eq!(few.removed("a.log", TODAY, &files(dates)), ["a.log-20261122", "a.log-20261101.gz"]);
        let numbers = rotation(RotatedNames::Number);
        assert_eq!(
            numbers.removed("a.log", TODAY, &files("a.log.10 a.log.2.gz a.log.1 a.log.3 a.log")),
            ["a.log.10"]
        );
        assert!(few.is_to_be_compressed("a.log", "a.log-20261122.1"));
        assert!(!few.is_to_be_compressed("a.log", "a.log-20261122.gz"));
        assert!(!few.is_to_be_compressed("a.log", "a.log"));
    }
}
