//! A run as JSON: every figure under a name with its unit, and the distributions as HdrHistogram V2 in base64,
//! which other tools read, too. `read` parses it.
//!
//! Derived figures (rates, percentiles, availability) are written for other programs and are not read back.

use std::fmt::{Display, Write};

use serde_json::Value;

use crate::run::{Check, Fault, Pace, Point, Reuse, Run, Series, Times};

use super::read::{FORMAT, VERSION, histogram_text};

pub fn render(run: &Run) -> String {
    let mut out = Writer::default();
    out.object(None, |out| {
        out.text("format", FORMAT);
        out.number("version", VERSION);
        out.number("generators", run.generators.max(1));
        out.object(Some("summary"), |out| write_summary(out, run));
        out.object(Some("settings"), |out| write_settings(out, run));
        out.object(Some("server"), |out| write_server(out, run));
        out.object(Some("measured"), |out| write_measured(out, run));
        out.object(Some("times"), |out| {
            for (name, times) in named_times(run) {
                out.object(Some(name), |out| write_times(out, times));
            }
        });
        out.object(Some("series"), |out| write_series(out, &run.measured.series));
    });
    out.text.push('\n');
    out.text
}

/// The distributions of a run by name.
fn named_times(run: &Run) -> [(&'static str, &Times); 6] {
    let measured = &run.measured;
    [
        ("connect", &measured.connect),
        ("handshake", &measured.handshake),
        ("first_byte", &measured.first_byte),
        ("last_byte", &measured.last_byte),
        ("total", &measured.total),
        ("requests_per_client", &measured.per_client),
    ]
}

fn write_summary(out: &mut Writer, run: &Run) {
    let measured = &run.measured;
    out.decimal("availability_percent", measured.availability());
    out.decimal("requests_per_second", Some(measured.per_second(measured.done)));
    out.decimal("received_bytes_per_second", Some(measured.per_second(measured.received_bytes())));
    out.number("longest_micros", measured.longest);
    out.list("warnings", &super::warnings(run), |warning| Value::from(warning.as_str()).to_string());
}

fn write_settings(out: &mut Writer, run: &Run) {
    let settings = &run.settings;
    out.text("url", &settings.url);
    out.number("urls", settings.urls);
    out.text("command_line", &settings.command_line);
    out.text("method", &settings.method);
    out.number("concurrency", settings.concurrency);
    out.number("threads", settings.threads);
    out.number("depth", settings.depth);
    out.text("reuse", reuse_key(settings.reuse));
    let (pace, rate) = match settings.pace {
        Pace::Closed => ("closed", None),
        Pace::Even(rate) => ("even", Some(rate)),
        Pace::Poisson(rate) => ("poisson", Some(rate)),
    };
    out.text("pace", pace);
    out.decimal("rate_per_second", rate);
    out.text("check", check_key(settings.check));
    out.number_or_null("stop_requests", settings.stop_requests);
    out.number_or_null("stop_micros", settings.stop_micros);
    out.number("warm_up_micros", settings.warm_up_micros);
    out.number("timeout_micros", settings.timeout_micros);
    out.number("seed", settings.seed);
}

pub(super) const fn reuse_key(reuse: Reuse) -> &'static str {
    match reuse {
        Reuse::KeepAlive => "keep_alive",
        Reuse::PerRequest => "per_request",
    }
}

pub(super) const fn check_key(check: Check) -> &'static str {
    match check {
        Check::Status => "status",
        Check::Length => "length",
        Check::Checksum => "checksum",
    }
}

fn write_server(out: &mut Writer, run: &Run) {
    let server = &run.server;
    out.text("name", &server.name);
    out.text("host", &server.host);
    out.number("port", server.port);
    out.text("path", &server.path);
    out.number("length_bytes", server.length);
    out.text("protocol", &server.protocol);
    match &server.tls {
        Some(tls) => out.object(Some("tls"), |out| {
            out.text("version", &tls.version);
            out.text("cipher", &tls.cipher);
        }),
        None => out.number("tls", "null"),
    }
}

fn write_measured(out: &mut Writer, run: &Run) {
    let measured = &run.measured;
    for (name, number) in [
        ("began_unix", measured.began_unix),
        ("micros", measured.micros),
        ("started", measured.started),
        ("done", measured.done),
        ("failed", measured.failed()),
        ("connections", measured.connections),
        ("most_connections", measured.most_connections),
        ("kept_alive", measured.kept_alive),
        ("resumed", measured.resumed),
        ("head_bytes", measured.head_bytes),
        ("plain_head_bytes", measured.plain_head_bytes),
        ("body_bytes", measured.body_bytes),
        ("sent_bytes", measured.sent_bytes),
        ("longest_micros", measured.longest),
        ("cpu_micros", measured.cpu_micros),
        ("busiest_thread_micros", measured.busiest_micros),
        ("wrong_unnamed", measured.wrong_unnamed),
    ] {
        out.number(name, number);
    }
    out.object(Some("faults"), |out| {
        for fault in Fault::ALL {
            out.number(fault.key(), measured.faults.of(fault));
        }
    });
    out.object(Some("statuses"), |out| {
        for (status, count) in measured.statuses.iter() {
            out.number(&format!("{status:03}"), count);
        }
    });
    out.object(Some("wrong"), |out| {
        for (url, wrong) in &measured.wrong {
            out.object(Some(url), |out| {
                out.text("first", wrong.first.key());
                out.number("count", wrong.count);
            });
        }
    });
}

fn write_times(out: &mut Writer, times: &Times) {
    out.number("count", times.count());
    out.number("min", times.shortest());
    out.number("max", times.longest());
    out.number("sum", times.sum());
    out.decimal("mean", Some(times.mean()));
    out.decimal("deviation", Some(times.deviation()));
    for (name, per_cent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99_9", 99.9)] {
        out.number(name, times.percentile(per_cent));
    }
    out.text("histogram", &histogram_text(times));
}

fn write_series(out: &mut Writer, series: &Series) {
    out.number("width_seconds", series.width());
    out.list("points", series.points(), point_text);
}

fn point_text(point: &Point) -> String {
    let steps: Vec<String> = point
        .steps
        .iter()
        .enumerate()
        .filter(|&(_, &count)| count > 0)
        .map(|(step, count)| format!("[{step},{count}]"))
        .collect();
    format!(
        "{{\"done\":{},\"failed\":{},\"bytes\":{},\"p99_micros\":{},\"longest_micros\":{},\"steps\":[{}]}}",
        point.done,
        point.failed,
        point.bytes,
        point.percentile(99.0).map_or_else(|| "null".to_owned(), |micros| micros.to_string()),
        point.longest,
        steps.join(",")
    )
}

/// Writes indented JSON with the names in the order of the calls.
#[derive(Default)]
struct Writer {
    text: String,
    depth: usize,
    /// Whether the current object has a member already.
    place: Place,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    #[default]
    First,
    Later,
}

impl Writer {
    fn object(&mut self, name: Option<&str>, members: impl FnOnce(&mut Self)) {
        if let Some(name) = name {
            self.name(name);
        }
        self.text.push('{');
        self.depth += 1;
        self.place = Place::First;
        members(self);
        self.depth -= 1;
        if self.place == Place::Later {
            self.line();
        }
        self.text.push('}');
        self.place = Place::Later;
    }

    fn name(&mut self, name: &str) {
        if self.place == Place::Later {
            self.text.push(',');
        }
        self.place = Place::Later;
        self.line();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{}: ", Value::from(name));
    }

    fn line(&mut self) {
        let _ = write!(self.text, "\n{:indent$}", "", indent = self.depth * 2);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        let _ = write!(self.text, "{}", Value::from(text));
    }

    fn number(&mut self, name: &str, number: impl Display) {
        self.name(name);
        let _ = write!(self.text, "{number}");
    }

    fn number_or_null(&mut self, name: &str, number: Option<u64>) {
        match number {
            Some(number) => self.number(name, number),
            None => self.number(name, "null"),
        }
    }

    /// JSON has no infinity, so a value that is not finite becomes null.
    fn decimal(&mut self, name: &str, number: Option<f64>) {
        self.name(name);
        let _ = write!(self.text, "{}", Value::from(number));
    }

    /// A list with one element per line; `text_of` returns its JSON.
    fn list<T>(&mut self, name: &str, elements: &[T], text_of: impl Fn(&T) -> String) {
        self.name(name);
        self.text.push('[');
        self.depth += 1;
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            self.line();
            self.text.push_str(&text_of(element));
        }
        self.depth -= 1;
        if !elements.is_empty() {
            self.line();
        }
        self.text.push(']');
    }
}
