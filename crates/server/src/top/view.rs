//! What the terminal shows: two moments → lines. Pure.
//!
//! A line is made of printable characters and styles only, whatever clients have sent.

use std::cmp::Ordering;
use std::fmt::Write;

use super::sample::{Buckets, Endpoint, Request, Sample, Zone};
use crate::stats::histogram::quantile;

/// What hosts and routes are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Rate,
    Errors,
    Time,
    Bytes,
    Name,
}

impl Order {
    pub fn next(self) -> Order {
        match self {
            Order::Rate => Order::Errors,
            Order::Errors => Order::Time,
            Order::Time => Order::Bytes,
            Order::Bytes => Order::Name,
            Order::Name => Order::Rate,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Order::Rate => "rate",
            Order::Errors => "errors",
            Order::Time => "time",
            Order::Bytes => "bytes",
            Order::Name => "name",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub width: usize,
    pub height: usize,
}

/// How a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// The first row of a table.
    Title,
    Warning,
    Bad,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub style: Style,
    pub text: String,
}

/// What grew between two moments, by the second.
struct Change<'a> {
    before: &'a Sample,
    now: &'a Sample,
    seconds: f64,
}

impl Change<'_> {
    fn rate(&self, keys: &[&str]) -> f64 {
        let sum = |sample: &Sample| keys.iter().map(|key| sample.count(key)).sum::<u64>();
        sum(self.now).saturating_sub(sum(self.before)) as f64 / self.seconds
    }
}

/// The lines for a terminal of this size. Those that do not fit are left out.
pub fn lines(before: &Sample, now: &Sample, order: Order, size: Size) -> Vec<Line> {
    let seconds = (now.time.saturating_sub(before.time) as f64 / 1e6).max(0.001);
    let change = Change { before, now, seconds };
    let mut lines = summary(&change, order);
    let room = |lines: &[Line], part: usize| (size.height.saturating_sub(lines.len()) / part).max(2);
    let most = room(&lines, 2);
    table(zones(&change, order), most, &mut lines);
    let most = room(&lines, 2);
    table(endpoints(&change), most, &mut lines);
    let most = room(&lines, 2);
    table(running(now), most, &mut lines);
    let most = room(&lines, 1);
    table(last(now), most, &mut lines);
    lines.truncate(size.height);
    for line in &mut lines {
        line.text = fit(&line.text, size.width);
    }
    lines
}

const CLASSES: [(&str, &str); 5] = [
    ("1xx", "status_1xx"),
    ("2xx", "status_2xx"),
    ("3xx", "status_3xx"),
    ("4xx", "status_4xx"),
    ("5xx", "status_5xx"),
];

fn summary(change: &Change<'_>, order: Order) -> Vec<Line> {
    let Change { before, now, .. } = *change;
    let plain = |text: String| Line { style: Style::Plain, text };
    let classes = CLASSES.map(|(_, key)| key);
    let mut responses = format!("responses  {}/s", number(change.rate(&classes)));
    for (name, key) in CLASSES {
        _ = write!(responses, "   {name} {}/s", number(change.rate(&[key])));
    }
    let first_byte = grown(&before.first_byte, &now.first_byte);
    let within = |part| quantile(&first_byte, part).map_or_else(|| "-".to_owned(), time);
    let idle = now.count("idle") + now.count("parked");
    let hits = change.rate(&["cache_hits"]);
    let looked_up = hits + change.rate(&["cache_misses"]);
    let hits = if looked_up > 0.0 { format!("{:.0} %", hits / looked_up * 100.0) } else { "-".to_owned() };
    vec![
        Line {
            style: Style::Title,
            text: format!(
                "taipan {}, process {}, up {}   q: quit   s: sort by {}   p: pause",
                now.version,
                now.process,
                span(now.uptime),
                order.name()
            ),
        },
        Line {
            style: if change.rate(&["status_5xx"]) > 0.0 { Style::Bad } else { Style::Plain },
            text: responses,
        },
        plain(format!(
            "first byte  half {}   90 % {}   99 % {}   loop {} late",
            within(0.5),
            within(0.9),
            within(0.99),
            time(now.count("delay_us"))
        )),
        plain(format!(
            "traffic  sent {}/s   received {}/s   cache hits {hits}",
            bytes(change.rate(&["bytes"])),
            bytes(change.rate(&["received"]))
        )),
        plain(format!(
            "connections  active {}   idle {idle}   upgraded {}   new {}/s   TLS {}/s",
            now.count("active"),
            now.count("upgraded_now"),
            number(change.rate(&["accepted"])),
            number(change.rate(&["handshakes"]))
        )),
        plain(format!(
            "process  memory {}   descriptors {} of {}   scripts {}   waiting {}",
            bytes(now.count("memory") as f64),
            now.count("descriptors"),
            now.count("max_descriptors"),
            now.count("scripts_running"),
            now.count("scripts_waiting")
        )),
    ]
}

/// Adds a table of at most so many lines, with its title. Nothing, if it is empty.
fn table(rows: Vec<Line>, most: usize, lines: &mut Vec<Line>) {
    if rows.len() > 1 && most > 2 {
        lines.push(Line { style: Style::Plain, text: String::new() });
        lines.extend(rows.into_iter().take(most - 1));
    }
}

fn title(text: String) -> Line {
    Line { style: Style::Title, text }
}

/// A zone between two moments.
struct Load<'a> {
    zone: &'a Zone,
    rate: f64,
    errors: f64,
    bytes: f64,
    /// 99 % of the responses took at most so many microseconds.
    micros: u64,
    half: u64,
}

fn load<'a>(change: &Change<'_>, zone: &'a Zone) -> Load<'a> {
    let nothing = Zone::default();
    let before = change.before.zones.iter().find(|other| other.name == zone.name).unwrap_or(&nothing);
    let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / change.seconds;
    let durations = grown(&before.durations, &zone.durations);
    Load {
        zone,
        rate: per_second(zone.classes.iter().sum(), before.classes.iter().sum()),
        errors: per_second(zone.classes[4], before.classes[4]),
        bytes: per_second(zone.bytes, before.bytes),
        micros: quantile(&durations, 0.99).unwrap_or(0),
        half: quantile(&durations, 0.5).unwrap_or(0),
    }
}

fn zones(change: &Change<'_>, order: Order) -> Vec<Line> {
    let mut loads: Vec<Load<'_>> = change.now.zones.iter().map(|zone| load(change, zone)).collect();
    let key = |load: &Load<'_>| match order {
        Order::Rate => load.rate,
        Order::Errors => load.errors,
        Order::Time => load.micros as f64,
        Order::Bytes => load.bytes,
        Order::Name => 0.0,
    };
    loads.sort_by(|one, other| {
        key(other).partial_cmp(&key(one)).unwrap_or(Ordering::Equal).then(one.zone.name.cmp(&other.zone.name))
    });
    let mut lines = vec![title(format!(
        "{:>9} {:>9} {:>9} {:>11} {:>9} {:>9}  HOST OR ROUTE",
        "RATE/s", "4xx", "5xx", "SENT/s", "HALF", "99 %"
    ))];
    lines.extend(loads.iter().map(|load| Line {
        style: if load.errors > 0.0 { Style::Bad } else { Style::Plain },
        text: format!(
            "{:>9} {:>9} {:>9} {:>11} {:>9} {:>9}  {}",
            number(load.rate),
            load.zone.classes[3],
            load.zone.classes[4],
            bytes(load.bytes),
            time(load.half),
            time(load.micros),
            load.zone.name
        ),
    }));
    lines
}

fn endpoints(change: &Change<'_>) -> Vec<Line> {
    let mut lines = vec![title(format!(
        "{:<10} {:>8} {:>9} {:>9} {:>9}  APPLICATION",
        "STATE", "SINCE", "IN FLIGHT", "RATE/s", "FAILURES"
    ))];
    lines.extend(change.now.endpoints.iter().map(|endpoint| {
        let Endpoint { application, name, state, age, in_flight, requests, failures } = endpoint;
        let same = |other: &&Endpoint| (&other.application, &other.name) == (application, name);
        let before = change.before.endpoints.iter().find(same).map_or(*requests, |other| other.requests);
        let rate = number(requests.saturating_sub(before) as f64 / change.seconds);
        let style = match state.as_str() {
            "up" => Style::Plain,
            "down" => Style::Bad,
            _ => Style::Warning,
        };
        let since = span(*age);
        let text =
            format!("{state:<10} {since:>8} {in_flight:>9} {rate:>9} {failures:>9}  {application} {name}");
        Line { style, text }
    }));
    lines
}

fn running(now: &Sample) -> Vec<Line> {
    let mut lines =
        vec![title(format!("{:>9} {:<8} {:<8} {:<22} RUNNING NOW", "AGE", "PHASE", "ID", "CLIENT"))];
    lines.extend(now.running.iter().map(|request| {
        let Request { note, micros, client, method, host, target, connection, .. } = request;
        let age = time(*micros);
        let text = format!("{age:>9} {note:<8} {connection:<8} {client:<22} {method} {host} {target}");
        Line { style: Style::Plain, text }
    }));
    lines
}

fn last(now: &Sample) -> Vec<Line> {
    let mut lines = vec![title(format!(
        "{:>9} {:>6} {:>9} {:>9} {:<22} LAST REQUESTS",
        "AGO", "STATUS", "TOOK", "SENT", "CLIENT"
    ))];
    lines.extend(now.last.iter().map(|request| {
        let Request { note, micros, time: at, client, method, host, target, status, sent, .. } = request;
        let style = match status {
            500.. => Style::Bad,
            400.. => Style::Warning,
            _ => Style::Plain,
        };
        let ago = span((now.time / 1_000_000).saturating_sub(*at));
        let (took, sent) = (time(*micros), bytes(*sent as f64));
        let text =
            format!("{ago:>9} {status:>6} {took:>9} {sent:>9} {client:<22} {method} {host} {target} {note}");
        Line { style, text }
    }));
    lines
}

/// What was added to the buckets of a histogram.
fn grown(before: &Buckets, now: &Buckets) -> Buckets {
    let before = before.iter().copied().chain(std::iter::repeat(0));
    now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect()
}

/// With at most so many characters, and without control characters.
fn fit(text: &str, width: usize) -> String {
    text.trim_end().chars().filter(|c| !c.is_control()).take(width).collect()
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value, 0);
    while value >= base && at + 1 < units.len() {
        value /= base;
        at += 1;
    }
    match value {
        value if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}{}", units[at]),
        value => format!("{value:.1}{}", units[at]),
    }
}

fn number(value: f64) -> String {
    scaled(value, 1000.0, &["", " k", " M", " G"])
}

fn bytes(value: f64) -> String {
    scaled(value, 1000.0, &[" B", " kB", " MB", " GB", " TB"])
}

fn time(micros: u64) -> String {
    scaled(micros as f64, 1000.0, &[" us", " ms", " s"])
}

fn span(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours}h{minutes:02}"),
        (days, hours, _) => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 100, height: 40 };

    fn texts(before: &str, now: &str, order: Order, size: Size) -> String {
        let lines = lines(&Sample::parse(before), &Sample::parse(now), order, size);
        lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn shows_what_grew_by_the_second() {
        let before =
            "time\t1000000\ncount\tstatus_2xx\t100\ncount\tbytes\t0\nzone\ta.example\t0\t100\t0\t0\t0\t0\t\n";
        let now = "time\t3000000\ncount\tstatus_2xx\t300\ncount\tstatus_5xx\t1\ncount\tbytes\t5000\n\
                   first_byte\t100:10\ncount\tdelay_us\t1500\n\
                   zone\ta.example\t0\t300\t0\t0\t0\t3000\t64:200\n";
        let text = texts(before, now, Order::Rate, SIZE);
        for part in ["responses  100/s", "2xx 100/s", "5xx 0.5/s", "sent 2.5 kB/s", "loop 1.5 ms late"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let zone = text.lines().find(|line| line.ends_with("  a.example")).unwrap_or_default();
        assert_eq!(zone.split_whitespace().take(5).collect::<Vec<_>>(), ["100", "0", "0", "1.5", "kB"]);
    }

    #[test]
    fn sorts_hosts_and_routes_by_the_key_that_is_chosen() {
        let now = "time\t1000000\nzone\tb\t0\t1\t0\t0\t5\t9\t100:6\nzone\ta\t0\t9\t0\t0\t0\t1\t200:9\n";
        for (order, first) in [
            (Order::Rate, "a"),
            (Order::Errors, "b"),
            (Order::Time, "a"),
            (Order::Bytes, "b"),
            (Order::Name, "a"),
        ] {
            let text = texts("", now, order, SIZE);
            let rows = text.lines().skip_while(|line| !line.ends_with("HOST OR ROUTE"));
            assert_eq!(rows.clone().nth(1).and_then(|row| row.rsplit(' ').next()), Some(first), "{order:?}");
        }
        let mut order = Order::Rate;
        (0..5).for_each(|_| order = order.next());
        assert_eq!(order, Order::Rate);
    }

    #[test]
    fn fits_every_size_and_shows_no_control_character() {
        let row = "last\tgone\t10\t5\t::1\tGET\th\t/\u{1b}[2J\u{9b}31m\t404\t1\n";
        let now = format!("time\t1\n{}{}", row.repeat(50), "zone\tz\t0\t1\t0\t0\t0\t9\t\n".repeat(50));
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            let lines = lines(&Sample::default(), &Sample::parse(&now), Order::Rate, Size { width, height });
            assert!(lines.len() <= height);
            for line in lines {
                assert!(line.text.chars().count() <= width);
                assert!(!line.text.contains(char::is_control), "{:?}", line.text);
            }
        }
    }
}
