//! The statistics for `taipan top`: lines of fields with tabs between them, which need no parser.

use std::fmt::{Display, Write};

use super::{MAX_ENDPOINTS, Report, Usage};
use crate::clock;

impl Report {
    /// `requests`: lines of the requests of all workers.
    pub fn live(&self, requests: &[Option<String>]) -> String {
        let mut out = String::with_capacity(16 * 1024);
        push(&mut out, &[&"version", &env!("CARGO_PKG_VERSION")]);
        push(&mut out, &[&"process", &self.process]);
        push(&mut out, &[&"uptime", &self.uptime.as_secs()]);
        push(&mut out, &[&"time", &clock::wall_micros()]);
        let total = self.total();
        for (key, _, n) in total.rows() {
            push(&mut out, &[&"count", &key, &n]);
        }
        if let Some(Usage { memory, descriptors, max_descriptors }) = self.usage {
            let known = [
                ("memory", Some(memory)),
                ("descriptors", descriptors),
                ("max_descriptors", max_descriptors),
            ];
            for (key, n) in known {
                push(&mut out, &[&"count", &key, &n.unwrap_or(0)]);
            }
        }
        push(&mut out, &[&"first_byte", &buckets(&total.counts.first_byte().0)]);
        for snapshot in &self.zones {
            let (name, values) = (snapshot.name(), &snapshot.values);
            let (bytes, durations) = (values.bytes(), buckets(values.durations().0));
            let mut fields: Vec<&dyn Display> = vec![&"zone", &name];
            fields.extend(values.classes().iter().map(|n| n as &dyn Display));
            fields.extend([&bytes as &dyn Display, &durations]);
            push(&mut out, &fields);
        }
        for endpoint in total.endpoints.iter().take(MAX_ENDPOINTS) {
            let (age, state) = (endpoint.age.as_secs(), endpoint.state);
            let fields: [&dyn Display; 8] = [
                &"endpoint",
                &endpoint.application,
                &endpoint.name,
                &state,
                &age,
                &endpoint.in_flight,
                &endpoint.requests,
                &endpoint.failures,
            ];
            push(&mut out, &fields);
        }
        requests.iter().flatten().for_each(|lines| out.push_str(lines));
        out
    }
}

/// Those that are not empty.
fn buckets(all: &[u64]) -> String {
    let filled = all.iter().enumerate().filter(|(_, count)| **count > 0);
    filled.map(|(at, count)| format!("{at}:{count}")).collect::<Vec<_>>().join(" ")
}

/// A line. Control characters within fields would be other fields.
pub fn push(out: &mut String, fields: &[&dyn Display]) {
    for (number, field) in fields.iter().enumerate() {
        if number > 0 {
            out.push('\t');
        }
        _ = write!(out, "{}", field.to_string().replace(char::is_control, "?"));
    }
    out.push('\n');
}
