//! What the terminal shows: two moments → lines. Pure.
//!
//! A line is made of printable characters and styles only, whatever clients have sent.

use std::cmp::Ordering;

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

/// Whether the lines change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    #[default]
    Live,
    Paused,
    /// There are no keys.
    Once,
}

/// What the user has chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    pub order: Order,
    pub pace: Pace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub width: usize,
    pub height: usize,
}

impl Size {
    /// Tables have fewer columns.
    fn is_narrow(self) -> bool {
        self.width < 72
    }

    /// There are fewer lines above the tables.
    fn is_low(self) -> bool {
        self.height < 18
    }
}

/// How a line is shown. A later one is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Style {
    Plain,
    /// The first row of a table.
    Title,
    /// As a title, in place of the first one.
    Paused,
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
pub fn lines(before: &Sample, now: &Sample, view: View, size: Size) -> Vec<Line> {
    let seconds = (now.time.saturating_sub(before.time) as f64 / 1e6).max(0.001);
    let change = Change { before, now, seconds };
    let mut lines = summary(&change, view, size);
    let room = |lines: &[Line], part: usize| (size.height.saturating_sub(lines.len()) / part).max(2);
    let most = room(&lines, 2);
    table(zones(&change, view.order, size), most, &mut lines);
    let most = room(&lines, 2);
    table(endpoints(&change, size), most, &mut lines);
    let most = room(&lines, 2);
    table(running(now, size), most, &mut lines);
    let most = room(&lines, 1);
    table(last(now, size), most, &mut lines);
    lines.truncate(size.height);
    for line in &mut lines {
        line.text = fit(&line.text, size.width);
    }
    lines
}

const CLASSES: [&str; 5] = ["status_1xx", "status_2xx", "status_3xx", "status_4xx", "status_5xx"];

/// Each value has its column, so that it stays where it is while it changes.
fn summary(change: &Change<'_>, view: View, size: Size) -> Vec<Line> {
    let now = change.now;
    let mut lines = vec![headline(now, view, size), responses(change, size), times(change, size)];
    if size.is_low() {
        return lines;
    }
    let plain = |text: String| Line { style: Style::Plain, text };
    let idle = now.count("idle") + now.count("parked");
    let hits = change.rate(&["cache_hits"]);
    let looked_up = hits + change.rate(&["cache_misses"]);
    let hits = if looked_up > 0.0 { format!("{:.0} %", hits / looked_up * 100.0) } else { "-".to_owned() };
    lines.push(plain(format!(
        "traffic     sent {:>9}/s  received {:>9}/s  cache hits {hits:>5}",
        bytes(change.rate(&["bytes"])),
        bytes(change.rate(&["received"]))
    )));
    lines.push(plain(format!(
        "connections active {:>5}  idle {idle:>6}  upgraded {:>5}  new {:>7}  TLS {:>7}",
        now.count("active"),
        now.count("upgraded_now"),
        per_second(change, &["accepted"]),
        per_second(change, &["handshakes"])
    )));
    lines.push(plain(format!(
        "process     memory {:>8}  descriptors {:>6} of {}  scripts {}  waiting {}",
        bytes(now.count("memory") as f64),
        now.count("descriptors"),
        now.count("max_descriptors"),
        now.count("scripts_running"),
        now.count("scripts_waiting")
    )));
    lines
}

fn per_second(change: &Change<'_>, keys: &[&str]) -> String {
    format!("{}/s", number(change.rate(keys)))
}

fn responses(change: &Change<'_>, size: Size) -> Line {
    let all = per_second(change, &CLASSES);
    let class = |at: usize| per_second(change, &CLASSES[at..=at]);
    let errors = change.rate(&CLASSES[4..]) > 0.0;
    Line {
        style: if errors { Style::Bad } else { Style::Plain },
        text: match size.is_narrow() {
            true => format!("responses {all:>9}  5xx {:>8}", class(4)),
            false => format!(
                "responses  {all:>9}  2xx {:>8}  3xx {:>8}  4xx {:>8}  5xx {:>8}",
                class(1),
                class(2),
                class(3),
                class(4)
            ),
        },
    }
}

/// The times to the first byte, and the delay of the loop.
fn times(change: &Change<'_>, size: Size) -> Line {
    let first_byte = grown(&change.before.first_byte, &change.now.first_byte);
    let within = |part| quantile(&first_byte, part).map_or_else(|| "-".to_owned(), time);
    let text = match size.is_narrow() {
        true => format!("first byte p50 {:>8}  p99 {:>7}", within(0.5), within(0.99)),
        false => format!(
            "first byte  p50 {:>8}  p90 {:>8}  p99 {:>8}  loop delay {:>8}",
            within(0.5),
            within(0.9),
            within(0.99),
            time(change.now.count("delay_us"))
        ),
    };
    Line { style: Style::Plain, text }
}

fn headline(now: &Sample, View { order, pace }: View, size: Size) -> Line {
    let (version, process, up, order) = (&now.version, now.process, span(now.uptime), order.name());
    let text = match (size.is_narrow(), pace) {
        (_, Pace::Once) => format!("taipan {version}, process {process}, up {up}"),
        (true, Pace::Paused) => format!("PAUSED  q: quit  p: go on  s: {order}"),
        (true, Pace::Live) => format!("taipan {version}  q: quit  p: pause  s: {order}"),
        (false, Pace::Paused) => {
            format!("PAUSED  taipan {version}, up {up}   q: quit   p: go on   s: sort by {order}")
        }
        (false, Pace::Live) => {
            format!("taipan {version}, process {process}, up {up}   q: quit   p: pause   s: sort by {order}")
        }
    };
    Line { style: if pace == Pace::Paused { Style::Paused } else { Style::Title }, text }
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
    client_errors: f64,
    errors: f64,
    bytes: f64,
    /// Microseconds that half of the responses took at most, and 99 % of them.
    p50: u64,
    p99: u64,
}

fn load<'a>(change: &Change<'_>, zone: &'a Zone) -> Load<'a> {
    let nothing = Zone::default();
    let before = change.before.zones.iter().find(|other| other.name == zone.name).unwrap_or(&nothing);
    let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / change.seconds;
    let durations = grown(&before.durations, &zone.durations);
    Load {
        zone,
        rate: per_second(zone.classes.iter().sum(), before.classes.iter().sum()),
        client_errors: per_second(zone.classes[3], before.classes[3]),
        errors: per_second(zone.classes[4], before.classes[4]),
        bytes: per_second(zone.bytes, before.bytes),
        p50: quantile(&durations, 0.5).unwrap_or(0),
        p99: quantile(&durations, 0.99).unwrap_or(0),
    }
}

fn zones(change: &Change<'_>, order: Order, size: Size) -> Vec<Line> {
    let mut loads: Vec<Load<'_>> = change.now.zones.iter().map(|zone| load(change, zone)).collect();
    let key = |load: &Load<'_>| match order {
        Order::Rate => load.rate,
        Order::Errors => load.errors,
        Order::Time => load.p99 as f64,
        Order::Bytes => load.bytes,
        Order::Name => 0.0,
    };
    sort::by(&mut loads, |one, other| {
        key(other).partial_cmp(&key(one)).unwrap_or(Ordering::Equal).then(one.zone.name.cmp(&other.zone.name))
    });
    let row =
        |rate: &str, client: &str, server: &str, sent: &str, half: &str, most: &str, name: &str| match size
            .is_narrow()
        {
            true => format!("{rate:>7} {server:>6} {most:>8}  {name}"),
            false => {
                format!("{rate:>8} {client:>8} {server:>8} {sent:>10} {half:>8} {most:>8}  {name}")
            }
        };
    let mut lines = vec![title(row("RATE/s", "4xx/s", "5xx/s", "SENT/s", "p50", "p99", "HOST OR ROUTE"))];
    lines.extend(loads.iter().map(|load| {
        let within = |micros| if load.rate > 0.0 { time(micros) } else { "-".to_owned() };
        let text = row(
            &number(load.rate),
            &number(load.client_errors),
            &number(load.errors),
            &bytes(load.bytes),
            &within(load.p50),
            &within(load.p99),
            &load.zone.name,
        );
        Line { style: if load.errors > 0.0 { Style::Bad } else { Style::Plain }, text }
    }));
    lines
}

/// Those that are not up come first.
fn endpoints(change: &Change<'_>, size: Size) -> Vec<Line> {
    let row = |state: &str, since: &str, flight: &str, rate: &str, failures: &str, name: &str| match size
        .is_narrow()
    {
        true => format!("{state:<9} {since:>7}  {name}"),
        false => format!("{state:<9} {since:>7} {flight:>9} {rate:>9} {failures:>9}  {name}"),
    };
    let mut lines = vec![title(row("STATE", "SINCE", "IN FLIGHT", "RATE/s", "FAILURES", "APPLICATION"))];
    let mut rows = Vec::new();
    for endpoint in &change.now.endpoints {
        let Endpoint { application, name, state, age, in_flight, requests, failures } = endpoint;
        let same = |other: &&Endpoint| (&other.application, &other.name) == (application, name);
        let before = change.before.endpoints.iter().find(same).unwrap_or(endpoint);
        let sent = requests.saturating_sub(before.requests);
        let failed = failures.saturating_sub(before.failures);
        let rate = number(sent as f64 / change.seconds);
        // The only endpoint of an application stays up, even if all requests to it fail.
        let state = if state == "up" && failed > 0 && failed >= sent { "failing" } else { state.as_str() };
        let style = match state {
            "up" => Style::Plain,
            "down" => Style::Bad,
            _ => Style::Warning,
        };
        let (flight, failures) = (in_flight.to_string(), failures.to_string());
        let text = row(state, &span(*age), &flight, &rate, &failures, &format!("{application} {name}"));
        rows.push(Line { style, text });
    }
    sort::by_key(&mut rows, |line| std::cmp::Reverse(line.style));
    lines.extend(rows);
    lines
}

/// The target comes before the host: of both, it is what tells requests apart.
fn request_text(Request { method, host, target, .. }: &Request) -> String {
    if method.is_empty() { "(no valid head)".to_owned() } else { format!("{method} {target} {host}") }
}

fn running(now: &Sample, size: Size) -> Vec<Line> {
    let row = |age: &str, phase: &str, id: &str, client: &str, what: &str| match size.is_narrow() {
        true => format!("{age:>8} {id:<6} {what}"),
        false => format!("{age:>8} {phase:<8} {id:<8} {client:<16} {what}"),
    };
    let mut lines = vec![title(row("AGE", "PHASE", "ID", "CLIENT", "RUNNING NOW"))];
    lines.extend(now.running.iter().map(|request| {
        let Request { note, micros, client, connection, .. } = request;
        let text = row(&time(*micros), note, connection, client, &request_text(request));
        Line { style: Style::Plain, text }
    }));
    lines
}

fn last(now: &Sample, size: Size) -> Vec<Line> {
    let row =
        |ago: &str, status: &str, took: &str, sent: &str, client: &str, what: &str| match size.is_narrow() {
            true => format!("{status:>3} {took:>8} {what}"),
            false => format!("{ago:>8} {status:>3} {took:>8} {sent:>9} {client:<16} {what}"),
        };
    let mut lines = vec![title(row("AGO", "", "TOOK", "SENT", "CLIENT", "LAST REQUESTS"))];
    lines.extend(now.last.iter().map(|request| {
        let Request { note, micros, time: at, client, status, sent, .. } = request;
        let style = match status {
            500.. => Style::Bad,
            400.. => Style::Warning,
            _ => Style::Plain,
        };
        let ago = span((now.time / 1_000_000).saturating_sub(*at));
        let what = format!("{} {note}", request_text(request));
        let (took, sent) = (time(*micros), bytes(*sent as f64));
        Line { style, text: row(&ago, &status.to_string(), &took, &sent, client, &what) }
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
        let view = View { order, pace: Pace::Live };
        let lines = lines(&Sample::parse(before), &Sample::parse(now), view, size);
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
        for part in [
            "responses      100/s",
            "2xx    100/s",
            "5xx    0.5/s",
            "sent    2.5 kB/s",
            "loop delay   1.5 ms",
        ] {
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
    fn a_small_terminal_shows_what_is_wrong() {
        let endpoints: String =
            (0..20).map(|n| format!("endpoint\tapp\t10.0.0.{n}\tup\t9\t0\t5\t0\n")).collect();
        let now = format!(
            "version\t1.2\ntime\t1000000\n{}{endpoints}endpoint\tapp\t10.0.0.99\tdown\t7\t0\t0\t3\n\
             last\t\t10\t5\t::1\tGET\th\t/broken\t503\t1\n",
            "zone\tz\t0\t1\t0\t0\t0\t9\t\n".repeat(50)
        );
        for (width, height) in [(80, 24), (40, 16)] {
            let text = texts("", &now, Order::Rate, Size { width, height });
            for part in ["q: quit", "p: pause", "HOST OR ROUTE", "10.0.0.99", "503 "] {
                assert!(text.contains(part), "{part}\n{text}");
            }
        }
        let head = |pace: Pace| {
            let view = View { pace, ..View::default() };
            lines(&Sample::default(), &Sample::parse(&now), view, SIZE)[0].text.clone()
        };
        let paused = head(Pace::Paused);
        assert!(paused.starts_with("PAUSED") && paused.contains("p: go on"), "{paused}");
        let once = head(Pace::Once);
        assert!(once.starts_with("taipan 1.2, process ") && !once.contains("quit"), "{once}");
    }

    #[test]
    fn an_endpoint_is_failing_while_no_request_to_it_succeeds() {
        let sample = |requests: u64, failures: u64| {
            format!("time\t{failures}000000\nendpoint\tapp\t10.0.0.1\tup\t9\t0\t{requests}\t{failures}\n")
        };
        for (requests, failures, expected) in
            [(5, 3, "failing "), (6, 3, "failing "), (7, 3, "up "), (5, 2, "up ")]
        {
            let text = texts(&sample(5, 2), &sample(requests, failures), Order::Rate, SIZE);
            let row = text.lines().find(|line| line.ends_with("10.0.0.1")).unwrap_or_default();
            assert!(row.starts_with(expected), "{requests} {failures}\n{text}");
        }
    }

    #[test]
    fn fits_every_size_and_shows_no_control_character() {
        let row = "last\tgone\t10\t5\t::1\tGET\th\t/\u{1b}[2J\u{9b}31m\t404\t1\n";
        let now = format!("time\t1\n{}{}", row.repeat(50), "zone\tz\t0\t1\t0\t0\t0\t9\t\n".repeat(50));
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            let size = Size { width, height };
            let lines = lines(&Sample::default(), &Sample::parse(&now), View::default(), size);
            assert!(lines.len() <= height);
            for line in lines {
                assert!(line.text.chars().count() <= width);
                assert!(!line.text.contains(char::is_control), "{:?}", line.text);
            }
        }
    }
}
