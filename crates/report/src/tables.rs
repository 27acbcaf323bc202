//! A summary as tables of text, which every form of the report shows.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::entry::Time;
use crate::summary::{Period, Summary};
use crate::top::{Count, Top};

/// Rows of a table.
const ROWS: usize = 20;
/// Characters of a name. Longer ones are cut.
const MAX_LABEL: usize = 120;

#[derive(Debug)]
pub(crate) struct Table {
    pub title: &'static str,
    /// Of the first column.
    pub what: &'static str,
    /// The other columns.
    pub columns: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// What limits the table.
    pub note: String,
    pub chart: Chart,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub label: String,
    pub cells: Vec<String>,
    /// How long its bar is.
    pub weight: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chart {
    /// A bar in each row.
    Bars,
    /// A column for each row, in the order of time.
    Columns,
    None,
}

/// The facts above the tables: name and value.
pub(crate) fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let more = if summary.has_more_visitors { "at least " } else { "" };
    let failed: u64 = summary.statuses.range(500..).map(|(_, count)| count.requests).sum();
    let mut facts = vec![
        ("requests", grouped(summary.all.requests)),
        ("visits", format!("{more}{}", grouped(summary.visitors))),
        ("sent", bytes(summary.all.bytes)),
        ("not found", grouped(summary.statuses.get(&404).map_or(0, |count| count.requests))),
        ("server errors", grouped(failed)),
    ];
    if summary.agents.names().0 > 0 {
        facts.insert(3, ("by bots", grouped(summary.bots.requests)));
    }
    if summary.unknown_lines > 0 {
        facts.push(("lines of no known format", grouped(summary.unknown_lines)));
    }
    facts
}

/// `2026-11-20 07:49:41 to 2026-11-21 08:00:00`
pub(crate) fn span(summary: &Summary) -> String {
    match (summary.first, summary.last) {
        (Some(first), Some(last)) => format!("{} to {}", time(first), time(last)),
        _ => "no requests".to_owned(),
    }
}

pub(crate) fn tables(summary: &Summary) -> Vec<Table> {
    let days = summary.days.iter().map(|(date, period)| {
        let label = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
        of_period(label, period, Some(period.visitors))
    });
    // A log without lines has no hours.
    let hours = summary.hours.iter().enumerate().filter(|_| !summary.days.is_empty());
    let hours = hours.map(|(hour, period)| of_period(format!("{hour:02}"), period, None));
    let periods = |title, what, columns, rows| Table {
        title,
        what,
        columns,
        rows,
        note: String::new(),
        chart: Chart::Columns,
    };
    let mut tables = vec![
        periods("Days", "day", vec!["requests", "visits", "sent"], days.collect()),
        periods("Hours of a day", "hour", vec!["requests", "sent"], hours.collect()),
        of_top("Pages", "path", &summary.pages),
        of_top("Static files", "path", &summary.files),
        of_top("Not found", "path", &summary.missing),
        statuses(summary),
        slowest(summary),
        of_top("Hosts", "host", &summary.hosts),
        of_top("Referring sites", "site", &summary.referers),
        of_top("Clients", "address", &summary.clients),
        of_names("Browsers", "browser", &summary.browsers),
        of_names("Systems", "system", &summary.systems),
        of_top("Bots", "name", &summary.bot_names),
        of_top("User agents", "agent", &summary.agents),
        of_top("Methods", "method", &summary.methods),
        of_top("Protocols", "version", &summary.versions),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn of_period(label: String, period: &Period, visitors: Option<u64>) -> Row {
    let mut cells = vec![grouped(period.requests)];
    cells.extend(visitors.map(grouped));
    cells.push(bytes(period.bytes));
    Row { label, cells, weight: period.requests }
}

fn of_top(title: &'static str, what: &'static str, top: &Top) -> Table {
    let rows: Vec<Row> =
        top.most(ROWS).into_iter().map(|(name, count)| of_count(shown(name), count)).collect();
    let (names, has_more) = top.names();
    let note = match has_more {
        true => format!(
            "more than {} names; a count may be too low by {}",
            grouped(names as u64),
            grouped(top.missing())
        ),
        false if names > ROWS => format!("{} of {}", ROWS, grouped(names as u64)),
        false => String::new(),
    };
    Table { title, what, columns: COUNTS.to_vec(), rows, note, chart: Chart::Bars }
}

fn of_names(title: &'static str, what: &'static str, names: &BTreeMap<&'static str, Count>) -> Table {
    let mut all: Vec<(&str, Count)> = names.iter().map(|(name, count)| (*name, *count)).collect();
    sort::by_key(&mut all, |(_, count)| std::cmp::Reverse(count.requests));
    let rows = all.into_iter().take(ROWS).map(|(name, count)| of_count(name.to_owned(), count)).collect();
    Table { title, what, columns: COUNTS.to_vec(), rows, note: String::new(), chart: Chart::Bars }
}

const COUNTS: [&str; 3] = ["requests", "sent", "mean time"];

fn of_count(label: String, count: Count) -> Row {
    let mean = if count.micros > 0 { seconds(count.micros / count.requests.max(1)) } else { "-".to_owned() };
    Row { label, cells: vec![grouped(count.requests), bytes(count.bytes), mean], weight: count.requests }
}

fn statuses(summary: &Summary) -> Table {
    let row = |(status, count): (&u16, &Count)| of_count(status.to_string(), *count);
    let rows = summary.statuses.iter().take(100).map(row).collect();
    let (title, what, columns, note) = ("Statuses", "status", COUNTS.to_vec(), String::new());
    Table { title, what, columns, rows, note, chart: Chart::Bars }
}

fn slowest(summary: &Summary) -> Table {
    let row = |slow: &crate::summary::Slow| Row {
        label: shown(&slow.target),
        cells: vec![seconds(slow.micros), slow.status.to_string(), time(slow.time)],
        weight: slow.micros,
    };
    let rows = summary.slowest().into_iter().map(row).collect();
    let columns = vec!["time", "status", "at"];
    Table {
        title: "Slowest requests",
        what: "target",
        columns,
        rows,
        note: String::new(),
        chart: Chart::None,
    }
}

fn time(time: Time) -> String {
    let Time { year, month, day, hour, minute, second } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// What a line has, as text that can do nothing: no control character, and none that changes the direction.
fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (at, character) in String::from_utf8_lossy(bytes).chars().enumerate() {
        if at >= MAX_LABEL {
            out.push('…');
            break;
        }
        let is_invisible = matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        match character.is_control() || is_invisible {
            true => _ = write!(out, "\\u{{{:x}}}", u32::from(character)),
            false => out.push(character),
        }
    }
    out
}

/// `1 234 567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{a0}');
        }
        out.push(digit);
    }
    out
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

fn seconds(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_hostile_names_as_text() {
        assert_eq!(shown(b"/a\x1b[31m\x00\n"), "/a\\u{1b}[31m\\u{0}\\u{a}");
        assert_eq!(shown("/\u{202e}txt.exe ü".as_bytes()), "/\\u{202e}txt.exe ü");
        assert_eq!(shown(&[b'x'; 500]).chars().count(), MAX_LABEL + 1);
    }

    #[test]
    fn writes_numbers_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1\u{a0}000", "1\u{a0}234\u{a0}567"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(bytes), ["0 B", "999 B", "1.0 kB", "1.2 MB"]);
        assert_eq!([7, 1500, 2_000_000].map(seconds), ["7 µs", "1.5 ms", "2.00 s"]);
    }
}
