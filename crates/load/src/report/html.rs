//! The report for a browser: one file without scripts and external resources, in light and dark, with plots in
//! SVG. All text from servers and command lines is escaped.

use crate::run::{Point, Run, Side, Times};

use super::page::{COLUMNS, cells, rows, server_line, settings_line};
use super::plot::{Axis, Bar, Mark, Plot};
use super::{units, warnings};

const STYLE: &str = include_str!("report.css");
/// The most points of a line. In a longer series, the worst of several adjacent points is drawn.
const POINTS: usize = 720;
/// Bars per tenfold of the distribution.
const BARS: f64 = 24.0;

pub fn render(run: &Run) -> String {
    let url = escaped(&run.settings.url);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>taipan-bench: {url}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    out.push_str(&format!(
        "<header>\n<h1>{url}</h1>\n<p>{}</p>\n<p>{}</p>\n</header>\n",
        escaped(&settings_line(run)),
        escaped(&server_line(run))
    ));
    for warning in warnings(run) {
        out.push_str(&format!("<p class=\"warning\" role=\"note\">{}</p>\n", escaped(&warning)));
    }
    out.push_str(&cards(run));
    if !run.measured.total.is_empty() {
        out.push_str(&percentile_plot(run).render());
        out.push_str(&distribution_plot(&run.measured.total).render());
    }
    if !run.measured.series.points().is_empty() {
        out.push_str(&rate_plot(run).render());
        out.push_str(&course_plot(run).render());
    }
    out.push_str(&times_table(run));
    out.push_str(&failures(run));
    out.push_str(&format!(
        "<footer>\n<p>Made by taipan-bench {}</p>\n<pre>{}</pre>\n</footer>\n</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(&run.settings.command_line)
    ));
    out
}

fn cards(run: &Run) -> String {
    let measured = &run.measured;
    let received = measured.received_bytes() as f64;
    let state = if measured.failed() == 0 && measured.done > 0 { "good" } else { "bad" };
    let failed = match measured.failed() {
        0 => "none failed".to_owned(),
        failed => format!("{} failed", units::count(failed)),
    };
    let cards = [
        (
            state,
            "Availability",
            units::availability(measured),
            format!("{} right, {failed}", units::count(measured.done)),
        ),
        ("", "Longest", units::micros(measured.longest as f64), "of any, failed ones too".to_owned()),
        (
            "",
            "99 % within",
            units::micros(measured.total.percentile(99.0) as f64),
            format!("half within {}", units::micros(measured.total.median() as f64)),
        ),
        (
            "",
            "Rate",
            format!("{} /s", units::rate(measured.per_second(measured.done))),
            "of right responses".to_owned(),
        ),
        (
            "",
            "Transfer",
            format!("{}/s", units::bytes(measured.per_second(measured.received_bytes()))),
            format!("{} received", units::bytes(received)),
        ),
    ];
    let cards = cards.map(|(class, name, value, remark)| {
        format!("<div class=\"card {class}\"><dt>{name}</dt><dd><b>{value}</b> {remark}</dd></div>\n")
    });
    format!("<dl class=\"cards\">\n{}</dl>\n", cards.concat())
}

/// Times by percentile: each tick to the right has one more nine.
fn percentile_plot(run: &Run) -> Plot {
    let total = &run.measured.total;
    // Only as many nines as the number of requests can resolve.
    let nines = (total.count() as f64).log10().clamp(1.0, 7.0);
    let ticks = (0..=7u8).take_while(|&power| f64::from(power) <= nines).map(|power| {
        let words = match power {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            power => format!("99.{} %", "9".repeat(usize::from(power) - 2)),
        };
        (f64::from(power), words)
    });
    let line = |times: &Times| -> Vec<(f64, f64)> {
        const STEPS: u32 = 240;
        (0..=STEPS)
            .map(|step| {
                let nines = nines * f64::from(step) / f64::from(STEPS);
                let per_cent = 100.0 - 100.0 / 10f64.powf(nines);
                (nines, times.percentile(per_cent) as f64)
            })
            .collect()
    };
    let first = &run.measured.first_byte;
    let lowest = total.shortest().min(first.shortest()) as f64;
    Plot {
        title: "Latency by percentile",
        description: format!(
            "half within {}, 99 % within {}, the longest {}",
            units::micros(total.median() as f64),
            units::micros(total.percentile(99.0) as f64),
            units::micros(total.longest() as f64)
        ),
        x: Axis::with_ticks(nines, ticks.collect()),
        y: Axis::log(lowest, total.longest() as f64, tick),
        marks: vec![Mark::Line("second", line(first)), Mark::Line("first", line(total))],
        legend: vec![("first", "total"), ("second", "first byte")],
    }
}

/// The label of a tick, which is a round number: without trailing zeros.
fn tick(micros: f64) -> String {
    units::micros(micros).replace(".00 ", " ").replace(".0 ", " ")
}

/// The number of requests by their time.
fn distribution_plot(total: &Times) -> Plot {
    let x = Axis::log(total.shortest() as f64, total.longest() as f64, tick);
    let bin = |micros: u64| ((micros.max(1) as f64).log10() * BARS).floor() as usize;
    let edge = |bin: usize| 10f64.powf(bin as f64 / BARS);
    let mut counts = vec![0u64; bin(total.longest()) + 2];
    for (micros, count) in total.steps() {
        if let Some(slot) = counts.get_mut(bin(micros)) {
            *slot = slot.saturating_add(count);
        }
    }
    let highest = counts.iter().copied().max().unwrap_or(0) as f64;
    let bars = counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(bin, &count)| Bar {
        from: edge(bin),
        to: edge(bin + 1),
        height: count as f64,
        words: format!(
            "{} requests of {} to {}",
            units::count(count),
            units::micros(edge(bin)),
            units::micros(edge(bin + 1))
        ),
    });
    Plot {
        title: "Latency distribution",
        description: "how many requests took how long in total".to_owned(),
        x,
        y: Axis::linear(highest, |count| units::count(count.round() as u64)),
        marks: vec![Mark::Bars("first", bars.collect())],
        legend: vec![("first", "requests by total time")],
    }
}

/// A figure of every point over time, at most `POINTS` of them.
fn over_time(run: &Run, worst: fn(f64, f64) -> f64, of: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let series = &run.measured.series;
    let each = series.points().len().div_ceil(POINTS).max(1);
    let width = series.width() as f64;
    series
        .points()
        .chunks(each)
        .enumerate()
        .filter_map(|(index, few)| {
            let value = few.iter().filter_map(&of).reduce(worst)?;
            Some((((index * each) as f64 + 0.5) * width, value))
        })
        .collect()
}

fn seconds_axis(run: &Run) -> Axis {
    let series = &run.measured.series;
    let end = run.measured.seconds().max(0.001);
    let drawn = (series.points().len() as u64).saturating_mul(series.width()) as f64;
    Axis::linear(
        end.min(drawn.max(0.001)),
        |second| if second == 0.0 { "0 s".to_owned() } else { tick(second * 1e6) },
    )
}

fn rate_plot(run: &Run) -> Plot {
    let width = run.measured.series.width() as f64;
    // The last point is incomplete and would look like a falling rate.
    let whole = (run.measured.seconds() / width).floor() * width;
    let until_end = |mut points: Vec<(f64, f64)>| {
        if whole >= 2.0 * width {
            points.retain(|&(second, _)| second < whole);
        }
        points
    };
    let right = until_end(over_time(run, f64::min, |point| Some(point.done as f64 / width)));
    let failed = over_time(run, f64::max, |point| Some(point.failed as f64 / width));
    let highest = right.iter().chain(&failed).map(|&(_, rate)| rate).fold(0.0, f64::max);
    let half = width * run.measured.series.points().len().div_ceil(POINTS) as f64 / 2.0;
    let bars = failed.iter().filter(|&&(_, rate)| rate > 0.0).map(|&(second, rate)| Bar {
        from: second - half,
        to: second + half,
        height: rate,
        words: format!("{} failed per second at {}", units::rate(rate), units::micros(second * 1e6)),
    });
    let mut legend = vec![("first", "right responses")];
    if run.measured.failed() > 0 {
        legend.push(("bad", "failed requests"));
    }
    Plot {
        title: "Throughput over time",
        description: format!(
            "on average {} right responses per second",
            units::rate(run.measured.per_second(run.measured.done))
        ),
        x: seconds_axis(run),
        y: Axis::linear(highest * 1.05, |rate| format!("{} /s", units::count(rate.round() as u64))),
        marks: vec![
            Mark::Area("first", right.clone()),
            Mark::Line("first", right),
            Mark::Bars("bad", bars.collect()),
        ],
        legend,
    }
}

fn course_plot(run: &Run) -> Plot {
    let median = over_time(run, f64::max, |point| point.percentile(50.0).map(|micros| micros as f64));
    let p99 = over_time(run, f64::max, |point| point.percentile(99.0).map(|micros| micros as f64));
    let some = |point: &Point| (point.done.saturating_add(point.failed) > 0).then_some(point.longest as f64);
    let longest = over_time(run, f64::max, some);
    let all = || median.iter().chain(&p99).chain(&longest).map(|&(_, micros)| micros);
    let (lowest, highest) = (all().fold(f64::INFINITY, f64::min), all().fold(1.0, f64::max));
    Plot {
        title: "Latency over time",
        description: "median, 99th percentile and longest total time".to_owned(),
        x: seconds_axis(run),
        y: Axis::log(lowest.min(highest), highest, tick),
        marks: vec![Mark::Line("third", longest), Mark::Line("second", p99), Mark::Line("first", median)],
        legend: vec![("first", "median"), ("second", "99 %"), ("third", "longest")],
    }
}

fn times_table(run: &Run) -> String {
    let rows = rows(run);
    if rows.is_empty() {
        return String::new();
    }
    let titles: String = COLUMNS.iter().map(|title| format!("<th scope=\"col\">{title}</th>")).collect();
    let rows: String = rows
        .iter()
        .map(|(name, times, meaning)| {
            let cells: String = cells(times).iter().map(|cell| format!("<td>{cell}</td>")).collect();
            format!("<tr><th scope=\"row\">{name}<small>{meaning}</small></th>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<section class=\"wide\">\n<h2>Times</h2>\n<table>\n<tr><th></th>{titles}</tr>\n{rows}</table>\n</section>\n"
    )
}

fn failures(run: &Run) -> String {
    let measured = &run.measured;
    let mut out = String::new();
    let faults: String = measured
        .faults
        .iter()
        .map(|(fault, count)| {
            let class = match fault.side() {
                Side::Client => "doubtful",
                Side::Server => "bad",
            };
            format!(
                "<tr><th scope=\"row\" class=\"{class}\">{}</th><td>{}</td></tr>\n",
                fault.words(),
                units::count(count)
            )
        })
        .collect();
    if !faults.is_empty() {
        out.push_str(&format!(
            "<section>\n<h2>Failed requests</h2>\n<table>\n{faults}</table>\n</section>\n"
        ));
    }
    let statuses: String = measured
        .statuses
        .iter()
        .map(|(status, count)| {
            format!("<tr><th scope=\"row\">{status:03}</th><td>{}</td></tr>\n", units::count(count))
        })
        .collect();
    if !statuses.is_empty() {
        out.push_str(&format!("<section>\n<h2>Statuses</h2>\n<table>\n{statuses}</table>\n</section>\n"));
    }
    let mut wrong: String = measured
        .wrong
        .iter()
        .map(|(url, wrong)| {
            format!(
                "<tr><th scope=\"row\">{}<small>{}</small></th><td>{}</td></tr>\n",
                escaped(url),
                wrong.first.words(),
                units::count(wrong.count)
            )
        })
        .collect();
    if measured.wrong_unnamed > 0 {
        let count = units::count(measured.wrong_unnamed);
        wrong.push_str(&format!("<tr><th scope=\"row\">other URLs</th><td>{count}</td></tr>\n"));
    }
    if !wrong.is_empty() {
        out.push_str(&format!("<section>\n<h2>Wrong responses</h2>\n<table>\n{wrong}</table>\n</section>\n"));
    }
    out
}

/// Escapes text for an HTML element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}
