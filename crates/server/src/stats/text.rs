//! Statistics as text, in lines of a name and its numbers.

use std::fmt::Write;

use site::text::{counted, line};
use taipan_http::date;

use super::{
    BreakerSnapshot, EndpointSnapshot, MAX_CERTIFICATES, MAX_ENDPOINTS, Report, Snapshot, StoredFiles,
    histogram,
};
use crate::tls_facts::Validity;

impl Report {
    pub(super) fn text(&self) -> String {
        let mut out = format!(
            "taipan {}{}, process {} serves, for {} s, counting since {}\n\n",
            env!("CARGO_PKG_VERSION"),
            self.master.map_or_else(String::new, |master| format!(", process {master} takes signals")),
            self.process,
            self.uptime.as_secs(),
            String::from_utf8_lossy(&date::format(self.since)),
        );
        self.push_count_lines(&mut out);
        let files = self.files.iter().flat_map(StoredFiles::rows).map(|(_, text, n)| (text, n));
        let dropped = [("log lines dropped", self.counts.dropped_lines())];
        for (text, n) in dropped.into_iter().chain(self.state_rows()).chain(files) {
            _ = writeln!(out, "{text:<52}{n:>16}");
        }
        self.push_quantiles(&mut out);
        let total = self.total();
        for queue in &total.queues {
            let what = format!("helper threads on device {}:{}", queue.device.0, queue.device.1);
            _ = writeln!(out, "{what:<52}{:>16}  running, {} waiting", queue.running, queue.waiting);
        }
        push_upstreams(&total, &mut out);
        self.push_certificate_lines(&mut out);
        self.push_zone_lines(&mut out);
        out
    }

    /// A line for each counter: the sum, and the number of each worker.
    fn push_count_lines(&self, out: &mut String) {
        _ = write!(out, "{:>52}{:>16}", "", "all");
        for number in 0..self.workers.len() {
            _ = write!(out, "{:>16}", format!("worker {number}"));
        }
        out.push('\n');
        for (row, (_, text, n)) in self.total().rows().enumerate() {
            _ = write!(out, "{text:<52}{n:>16}");
            for worker in &self.workers {
                match worker.as_ref().and_then(|w| w.rows().nth(row)) {
                    Some((_, _, n)) => _ = write!(out, "{n:>16}"),
                    None => _ = write!(out, "{:>16}", "no response"),
                }
            }
            out.push('\n');
        }
    }

    /// How long responses took.
    fn push_quantiles(&self, out: &mut String) {
        let counts = &self.counts;
        for (what, (buckets, _)) in [("first byte", counts.first_byte()), ("last byte", counts.durations())] {
            for (name, part) in [("half", 0.5), ("90 %", 0.9), ("99 %", 0.99)] {
                let what = format!("microseconds until the {what}: {name} of the responses");
                _ = writeln!(out, "{what:<52}{:>16}", histogram::quantile(&buckets, part).unwrap_or(0));
            }
        }
    }

    fn push_certificate_lines(&self, out: &mut String) {
        for Validity { name, file, key, not_after, .. } in self.validities.iter().take(MAX_CERTIFICATES) {
            let until = date::format(*not_after);
            let days = (not_after - self.now).div_euclid(86_400);
            let until = String::from_utf8_lossy(&until);
            let line = format!("certificate of {name} ({key}, {file}): valid until {until}, {days} days");
            push_line(&line, out);
        }
    }

    /// The processes that serve, and what this one uses.
    fn state_rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (started, _) = self.counts.generations();
        let usage = self.usage.iter().flat_map(|usage| {
            let memory = Some(("bytes of memory of the serving process", usage.memory));
            let open = usage.descriptors.map(|open| ("open descriptors of the serving process", open));
            let most = usage.max_descriptors.map(|most| ("most descriptors of the serving process", most));
            [memory, open, most].into_iter().flatten()
        });
        let earlier = self.earlier.len() as u64;
        [("serving processes started", started), ("earlier processes that finish responses now", earlier)]
            .into_iter()
            .chain(usage)
    }

    /// A line for each host and each route.
    fn push_zone_lines(&self, out: &mut String) {
        if self.zones.is_empty() {
            return;
        }
        _ = write!(out, "\n{:<52}{:>12}", "hosts and routes", "responses");
        for name in ["1xx", "2xx", "3xx", "4xx", "5xx", "bytes", "half: us", "99 %: us"] {
            _ = write!(out, "{name:>12}");
        }
        out.push('\n');
        for snapshot in &self.zones {
            let (name, values) = (snapshot.name(), &snapshot.values);
            let durations = values.durations().0;
            let quantile = |part| histogram::quantile(durations, part).unwrap_or(0);
            let numbers = [values.responses()].into_iter().chain(values.classes().iter().copied());
            let mut line = format!("{name:<52}");
            for number in numbers.chain([values.bytes(), quantile(0.5), quantile(0.99)]) {
                _ = write!(line, "{number:>12}");
            }
            push_line(&line, out);
        }
    }
}

/// A line for each endpoint and for each circuit breaker.
fn push_upstreams(total: &Snapshot, out: &mut String) {
    for endpoint in total.endpoints.iter().take(MAX_ENDPOINTS) {
        let EndpointSnapshot { application, name, state, age, in_flight, requests, failures, reason } =
            endpoint;
        let last = if reason.is_empty() { String::new() } else { format!(", the last: {reason}") };
        let line = format!(
            "{application} {name}: {state} for {} s, {in_flight} in flight, {}, {}{last}",
            age.as_secs(),
            counted(*requests, "request"),
            counted(*failures, "failure"),
        );
        push_line(&line, out);
    }
    if total.endpoints.len() > MAX_ENDPOINTS {
        _ = writeln!(out, "and {} more endpoints", total.endpoints.len() - MAX_ENDPOINTS);
    }
    for BreakerSnapshot { application, state } in total.breakers.iter().take(MAX_ENDPOINTS) {
        push_line(&format!("{application}: the circuit breaker is {}", state.name()), out);
    }
}

/// Without control characters of `text`.
fn push_line(text: &str, out: &mut String) {
    let mut safe = Vec::new();
    line(text, &mut safe);
    out.push_str(&String::from_utf8_lossy(&safe));
    out.push('\n');
}
