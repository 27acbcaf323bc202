//! The text page: one screen with the settings, the availability, the rate, the times, the failures and the
//! warnings.

use crate::run::{Check, Fault, Pace, Reuse, Run, Side, Times};

use super::{units, warnings};

/// Whether a page has colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    /// With terminal escape sequences.
    Colour,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn quiet(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn good(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn doubtful(self, text: &str) -> String {
        self.paint("1;33", text)
    }
}

/// Columns of the page.
const WIDTH: usize = 80;
/// URLs with wrong responses that are named on the page; the others are in JSON.
const WRONG_SHOWN: usize = 5;

pub fn render(run: &Run, style: Style) -> String {
    let mut out = String::new();
    push_head(&mut out, run, style);
    push_verdict(&mut out, run, style);
    push_times(&mut out, run, style);
    push_course(&mut out, run, style);
    push_failures(&mut out, run, style);
    for warning in warnings(run) {
        out.push('\n');
        push_warning(&mut out, &warning, style);
    }
    out
}

fn push_head(out: &mut String, run: &Run, style: Style) {
    let settings = &run.settings;
    out.push_str(&format!("{}\n", style.strong(&printable(&settings.url))));
    for line in [settings_line(run), server_line(run)] {
        out.push_str(&format!("{}\n", style.quiet(&line)));
    }
    out.push('\n');
}

/// The settings in words.
pub(super) fn settings_line(run: &Run) -> String {
    let settings = &run.settings;
    let mut parts = Vec::new();
    if run.generators > 1 {
        parts.push(format!("{} generators", run.generators));
    }
    parts.push(plural(u64::from(settings.concurrency), "connection"));
    parts.push(match settings.reuse {
        Reuse::KeepAlive => "kept alive".to_owned(),
        Reuse::PerRequest => "a new one per request".to_owned(),
    });
    if settings.depth > 1 {
        parts.push(format!("{} requests at a time on each", settings.depth));
    }
    parts.push(plural(u64::from(settings.threads), "thread"));
    parts.push(match settings.pace {
        Pace::Closed => "closed loop".to_owned(),
        Pace::Even(rate) => format!("open loop, {} per second", units::rate(rate)),
        Pace::Poisson(rate) => format!("open loop, {} per second at random", units::rate(rate)),
    });
    if settings.urls > 1 {
        parts.push(format!("{} URLs", units::count(settings.urls)));
    }
    parts.push(units::micros(run.measured.micros as f64));
    parts.join(", ")
}

/// The server in words.
pub(super) fn server_line(run: &Run) -> String {
    let server = &run.server;
    if run.measured.statuses.total() == 0 {
        return "no response".to_owned();
    }
    let mut parts = vec![match server.name.as_str() {
        "" => "a server without a name".to_owned(),
        name => printable(name),
    }];
    if !server.protocol.is_empty() {
        parts.push(server.protocol.clone());
    }
    if let Some(tls) = &server.tls {
        parts.push(format!("{} {}", printable(&tls.version), printable(&tls.cipher)));
    }
    parts.push(format!("{} bytes", units::count(server.length)));
    parts.push(
        match run.settings.check {
            Check::Status => "status checked",
            Check::Length => "status and length checked",
            Check::Checksum => "status, length and checksum checked",
        }
        .to_owned(),
    );
    parts.join(", ")
}

fn push_verdict(out: &mut String, run: &Run, style: Style) {
    let measured = &run.measured;
    let availability = pad(&units::availability(measured));
    let availability = match measured.failed() {
        0 if measured.done > 0 => style.good(&availability),
        _ => style.bad(&availability),
    };
    let finished = measured.finished();
    let outcome = match measured.failed() {
        0 => format!("{} right, none failed", plural(measured.done, "request")),
        failed => format!(
            "{} of {} right, {} failed",
            units::count(measured.done),
            plural(finished, "request"),
            units::count(failed)
        ),
    };
    let open = measured.started.saturating_sub(finished);
    let unfinished =
        if open > 0 { format!(", {} cut off by the end", units::count(open)) } else { String::new() };
    let rate = format!("{} /s", units::rate(measured.per_second(measured.done)));
    let received = measured.received_bytes();
    let rows = [
        ("Availability", availability, outcome + &unfinished),
        (
            "Longest",
            pad(&units::micros(measured.longest as f64)),
            "of any request, failed ones too".to_owned(),
        ),
        (
            "Rate",
            style.strong(&pad(&rate)),
            match measured.failed() {
                0 => format!("on {}", plural(measured.connections, "connection")),
                _ => format!("right ones only, on {}", plural(measured.connections, "connection")),
            },
        ),
        (
            "Transfer",
            pad(&format!("{}/s", units::bytes(measured.per_second(received)))),
            format!(
                "{} received ({} of bodies), {} sent",
                units::bytes(received as f64),
                units::bytes(measured.body_bytes as f64),
                units::bytes(measured.sent_bytes as f64)
            ),
        ),
    ];
    for (name, value, remark) in rows {
        out.push_str(&format!("  {name:<14}{value}{}\n", style.quiet(&remark)));
    }
    if measured.cpu_micros > 0 {
        let each = measured.cpu_micros as f64 / finished.max(1) as f64;
        let busy = units::share(measured.busiest_micros as f64, measured.micros as f64);
        let remark = format!("processor time per request; busiest thread {busy:.0} %");
        out.push_str(&format!("  {:<14}{}{}\n", "Client", pad(&units::micros(each)), style.quiet(&remark)));
    }
}

fn pad(text: &str) -> String {
    format!("{text:<16}")
}

/// The columns of the table of times.
pub(super) const COLUMNS: [&str; 7] = ["min", "mean", "median", "90 %", "99 %", "99.9 %", "max"];

/// The cells of one row of the table.
pub(super) fn cells(times: &Times) -> [String; COLUMNS.len()] {
    [
        times.shortest() as f64,
        times.mean(),
        times.median() as f64,
        times.percentile(90.0) as f64,
        times.percentile(99.0) as f64,
        times.percentile(99.9) as f64,
        times.longest() as f64,
    ]
    .map(units::micros)
}

/// The rows that have times, each with its meaning.
pub(super) fn rows(run: &Run) -> Vec<(&'static str, &Times, &'static str)> {
    let measured = &run.measured;
    let total = match run.settings.pace {
        Pace::Closed => "from the start of a request, with connecting, to its last byte",
        Pace::Even(_) | Pace::Poisson(_) => "from the moment a request was due to its last byte",
    };
    let mut rows = vec![
        ("Connect", &measured.connect, "until the connection was there"),
        ("TLS", &measured.handshake, "the handshake"),
        ("First byte", &measured.first_byte, "from the request sent to the first byte of its response"),
        ("Last byte", &measured.last_byte, "from the request sent to the last byte of its response"),
        ("Total", &measured.total, total),
    ];
    rows.retain(|(_, times, _)| !times.is_empty());
    rows
}

fn push_times(out: &mut String, run: &Run, style: Style) {
    let rows = rows(run);
    if rows.is_empty() {
        return;
    }
    let titles: String = COLUMNS.iter().map(|title| format!("{title:>9}")).collect();
    out.push_str(&format!("\n  {}\n", style.strong(&format!("{:<12}{titles}", "Times"))));
    for (name, times, _) in &rows {
        let cells: String = cells(times).iter().map(|cell| format!("{cell:>9}")).collect();
        let row = format!("{name:<12}{cells}");
        out.push_str(&format!("  {}\n", if *name == "Total" { style.strong(&row) } else { row }));
    }
    if let Some((name, _, meaning)) = rows.last() {
        out.push_str(&format!("  {}\n", style.quiet(&format!("{name}: {meaning}."))));
    }
}

/// The rate and the 99th percentile over time as rows of blocks, if there are at least three whole points and one
/// right response.
fn push_course(out: &mut String, run: &Run, style: Style) {
    let measured = &run.measured;
    let series = &measured.series;
    let rates: Vec<f64> = series.whole_rates(measured.micros, |point| point.done).collect();
    if rates.len() < 3 || measured.done == 0 {
        return;
    }
    let slow: Vec<f64> = series.points()[..rates.len()]
        .iter()
        .map(|point| point.percentile(99.0).unwrap_or(point.longest) as f64)
        .collect();
    out.push('\n');
    for (name, values, words) in [
        ("Rate by time", &rates, (|rate| format!("{} /s", units::rate(rate))) as fn(f64) -> String),
        ("99 % by time", &slow, units::micros),
    ] {
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(0.0, f64::max);
        let remark = format!("{} to {}", words(lowest), words(highest));
        out.push_str(&format!("  {name:<14}{}  {}\n", blocks(values, highest), style.quiet(&remark)));
    }
}

/// One block for each value; with many values, one for the highest of several.
fn blocks(values: &[f64], highest: f64) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const MOST: usize = 40;
    let peak = |few: &[f64]| few.iter().copied().fold(0.0, f64::max);
    let height = |value: f64| ((units::share(value, highest) * 0.07).round() as usize).min(7);
    values.chunks(values.len().div_ceil(MOST)).map(|few| BLOCKS[height(peak(few))]).collect()
}

fn push_failures(out: &mut String, run: &Run, style: Style) {
    let measured = &run.measured;
    let statuses: Vec<String> = measured
        .statuses
        .iter()
        .map(|(status, count)| format!("{status:03} × {}", units::count(count)))
        .collect();
    if statuses.len() > 1 || measured.faults.of(Fault::Status) > 0 {
        out.push_str(&format!("\n  {:<14}{}\n", "Statuses", statuses.join(", ")));
    }
    if measured.failed() > 0 {
        out.push_str(&format!(
            "\n  {}\n",
            style.bad(&format!("Failed {:>16}", units::count(measured.failed())))
        ));
    }
    for (fault, count) in measured.faults.iter() {
        let words = match fault.side() {
            Side::Client => style.doubtful(fault.words()),
            Side::Server => fault.words().to_owned(),
        };
        out.push_str(&format!("  {:>23}  {words}\n", units::count(count)));
    }
    if measured.wrong.is_empty() {
        return;
    }
    let mut wrong: Vec<_> = measured.wrong.iter().collect();
    wrong.sort_by_key(|(_, wrong)| std::cmp::Reverse(wrong.count));
    out.push_str(&format!("\n  {}\n", style.strong("Wrong responses")));
    for (url, entry) in wrong.iter().take(WRONG_SHOWN) {
        let remark = style.quiet(entry.first.words());
        out.push_str(&format!(
            "  {:>23}  {}  {remark}\n",
            units::count(entry.count),
            shortened(&printable(url))
        ));
    }
    let rest = wrong
        .iter()
        .skip(WRONG_SHOWN)
        .fold(measured.wrong_unnamed, |sum, (_, entry)| sum.saturating_add(entry.count));
    if rest > 0 {
        out.push_str(&format!("  {:>23}  of other URLs\n", units::count(rest)));
    }
}

/// The lines of a text, of at most `width` characters.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A warning after an exclamation mark.
fn push_warning(out: &mut String, text: &str, style: Style) {
    for (index, line) in wrapped(text, WIDTH - 4).iter().enumerate() {
        let mark = if index == 0 { style.doubtful("!") } else { " ".to_owned() };
        out.push_str(&format!("  {mark} {}\n", style.paint("33", line)));
    }
}

fn plural(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", units::count(number))
}

/// Text from a server or a command line, without control characters.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

fn shortened(text: &str) -> String {
    const MOST: usize = 48;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let end: Vec<char> = text.chars().rev().take(MOST - 1).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}
