//! Families and samples in both formats.

use std::fmt::Write;

use crate::process::ipc::Syntax;
use crate::stats::{Exemplar, Exemplars, histogram};

/// The type of a family.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Counter,
    Gauge,
    Histogram,
    Info,
}

pub struct Text {
    syntax: Syntax,
    out: String,
}

impl Text {
    pub fn new(syntax: Syntax) -> Text {
        Text { syntax, out: String::with_capacity(32 * 1024) }
    }

    pub fn finish(mut self) -> String {
        if self.syntax == Syntax::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    /// Begins a family. `unit`: empty, or the end of its name.
    pub fn family(&mut self, name: &str, kind: Type, unit: &str, help: &str) {
        let is_open = self.syntax == Syntax::OpenMetrics;
        let (suffix, kind) = match (kind, is_open) {
            (Type::Counter, true) => ("", "counter"),
            (Type::Counter, false) => ("_total", "counter"),
            (Type::Gauge, _) => ("", "gauge"),
            (Type::Histogram, _) => ("", "histogram"),
            (Type::Info, true) => ("", "info"),
            (Type::Info, false) => ("_info", "gauge"),
        };
        _ = writeln!(self.out, "# TYPE taipan_{name}{suffix} {kind}");
        if is_open && !unit.is_empty() {
            _ = writeln!(self.out, "# UNIT taipan_{name} {unit}");
        }
        _ = writeln!(self.out, "# HELP taipan_{name}{suffix} {help}");
    }

    /// The samples of a histogram. `bounds` and `sum`: in microseconds.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        bounds: &[u64],
        (buckets, sum): (&[u64], u64),
        exemplars: &Exemplars,
    ) {
        let bucket = format!("{name}_bucket");
        let mut sample = |at: usize, bound: &str, n: u64| {
            self.sample(&bucket, &[labels, &[("le", bound)]].concat(), n);
            self.exemplar(exemplars.get(at));
        };
        for (at, micros) in bounds.iter().enumerate() {
            sample(at, &(*micros as f64 / 1e6).to_string(), histogram::below(buckets, *micros));
        }
        let count: u64 = buckets.iter().sum();
        sample(bounds.len(), "+Inf", count);
        self.sample(&format!("{name}_sum"), labels, seconds(sum));
        self.sample(&format!("{name}_count"), labels, count);
    }

    /// Adds an exemplar to the last sample, in the format that has them.
    fn exemplar(&mut self, exemplar: Option<Exemplar>) {
        let Some(Exemplar { trace, micros, time }) = exemplar else { return };
        if self.syntax == Syntax::OpenMetrics && self.out.pop().is_some() {
            let (value, time) = (seconds(micros), seconds(time));
            _ = writeln!(self.out, " # {{trace_id=\"{trace:032x}\"}} {value} {time}");
        }
    }

    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        _ = write!(self.out, "taipan_{name}");
        for (number, (label, value)) in labels.iter().enumerate() {
            let separator = if number == 0 { '{' } else { ',' };
            _ = write!(self.out, "{separator}{label}=\"");
            push_escaped(value, &mut self.out);
            self.out.push('"');
        }
        self.out.push_str(if labels.is_empty() { " " } else { "} " });
        _ = writeln!(self.out, "{value}");
    }
}

pub fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// As the value of a label.
fn push_escaped(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}
