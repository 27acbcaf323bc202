//! Statistics as JSON.

use std::fmt::Write;

use site::text::json_string;
use site::zones::Zone;

use super::{
    EndpointSnapshot, MAX_CERTIFICATES, MAX_ENDPOINTS, Report, Snapshot, Usage, ZoneSnapshot, histogram,
};
use crate::disk::Queue;
use crate::tls_facts::Validity;

impl Report {
    pub(super) fn json(&self) -> String {
        let mut out = self.json_begin();
        _ = write!(out, "\"certificates\":[{}],", self.certificate_objects());
        if let Some(files) = &self.files {
            let rows: Vec<String> = files.rows().map(|(key, _, n)| format!("\"{key}\":{n}")).collect();
            _ = write!(out, "\"cache_files\":{{{}}},", rows.join(","));
        }
        out.push_str("\"all\":");
        object(&self.total(), &mut out);
        out.push_str(",\"workers\":[");
        for (number, worker) in self.workers.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            match worker {
                Some(worker) => object(worker, &mut out),
                None => out.push_str("null"),
            }
        }
        out.push(']');
        self.push_zone_arrays(&mut out, |_, _| true);
        self.push_upstream_arrays(&mut out);
        out.push_str("}\n");
        out
    }

    /// The start of the object.
    pub(super) fn json_begin(&self) -> String {
        let mut out = format!(
            "{{\"version\":\"{}\",\"process\":{},\"master\":{},\"uptime_s\":{},\"since\":{},\"log_lines_dropped\":{},",
            env!("CARGO_PKG_VERSION"),
            self.process,
            self.master.map_or_else(|| "null".to_owned(), |master| master.to_string()),
            self.uptime.as_secs(),
            self.since,
            self.counts.dropped_lines()
        );
        self.push_state(&mut out);
        out
    }

    pub(super) fn push_upstream_arrays(&self, out: &mut String) {
        let total = self.total();
        out.push_str(",\"endpoints\":[");
        for (number, endpoint) in total.endpoints.iter().take(MAX_ENDPOINTS).enumerate() {
            out.push_str(if number > 0 { "," } else { "" });
            endpoint_object(endpoint, out);
        }
        out.push_str("],\"breakers\":[");
        for (number, breaker) in total.breakers.iter().take(MAX_ENDPOINTS).enumerate() {
            let (comma, state) = (if number > 0 { "," } else { "" }, breaker.state.name());
            _ = write!(
                out,
                "{comma}{{\"application\":{},\"state\":\"{state}\"}}",
                json_string(&breaker.application)
            );
        }
        out.push(']');
    }

    /// The processes, and what this one uses. With a comma at the end.
    fn push_state(&self, out: &mut String) {
        let number = |n: Option<u64>| n.map_or_else(|| "null".to_owned(), |n| n.to_string());
        let ages: Vec<String> =
            self.earlier.iter().map(|began| (self.now - began).max(0).to_string()).collect();
        let (started, _) = self.counts.generations();
        _ = write!(out, "\"generations\":{{\"started\":{started},\"earlier_s\":[{}]}},", ages.join(","));
        if let Some(Usage { memory, descriptors, max_descriptors }) = self.usage {
            let (open, most) = (number(descriptors), number(max_descriptors));
            _ = write!(out, "\"memory\":{memory},\"descriptors\":{open},\"max_descriptors\":{most},");
        }
    }

    /// With commas between them.
    pub(super) fn certificate_objects(&self) -> String {
        let certificate = |Validity { name, file, key, not_before, not_after }: &Validity| {
            let (name, file, key) = (json_string(name), json_string(file), json_string(key));
            format!(
                "{{\"name\":{name},\"file\":{file},\"key\":{key},\"not_before\":{not_before},\
                 \"not_after\":{not_after}}}"
            )
        };
        let certificates = self.validities.iter().take(MAX_CERTIFICATES).map(certificate);
        certificates.collect::<Vec<String>>().join(",")
    }

    /// The hosts and the routes, each as an array of JSON. `is_in`: whether the zone with this number is in it.
    pub(super) fn push_zone_arrays(
        &self,
        out: &mut String,
        mut is_in: impl FnMut(usize, &ZoneSnapshot) -> bool,
    ) {
        let (mut hosts, mut routes) = (Vec::new(), Vec::new());
        for (number, snapshot) in self.zones.iter().enumerate() {
            if is_in(number, snapshot) {
                match snapshot.zone {
                    Zone::Host(_) => hosts.push(zone_object(snapshot)),
                    Zone::Route(..) => routes.push(zone_object(snapshot)),
                }
            }
        }
        _ = write!(out, ",\"hosts\":[{}],\"routes\":[{}]", hosts.join(","), routes.join(","));
    }
}

fn zone_object(ZoneSnapshot { zone, values }: &ZoneSnapshot) -> String {
    let mut out = match zone {
        Zone::Host(host) => format!("{{\"host\":{}", json_string(host)),
        Zone::Route(host, route) => {
            format!("{{\"host\":{},\"route\":{}", json_string(host), json_string(route))
        }
    };
    for (class, n) in (1..).zip(values.classes()) {
        _ = write!(out, ",\"status_{class}xx\":{n}");
    }
    _ = write!(out, ",\"bytes\":{},", values.bytes());
    let (buckets, sum) = values.durations();
    push_durations("duration_us", buckets, sum, &mut out);
    out.push('}');
    out
}

/// Their number, their sum and their quantiles.
fn push_durations(key: &str, buckets: &[u64], sum: u64, out: &mut String) {
    _ = write!(out, "\"{key}\":{{\"count\":{},\"sum\":{sum}", buckets.iter().sum::<u64>());
    for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        _ = write!(out, ",\"{name}\":{}", histogram::quantile(buckets, part).unwrap_or(0));
    }
    out.push('}');
}

fn endpoint_object(endpoint: &EndpointSnapshot, out: &mut String) {
    let EndpointSnapshot { application, name, state, age, in_flight, requests, failures, reason } = endpoint;
    _ = write!(
        out,
        "{{\"application\":{},\"endpoint\":{},\"state\":\"{state}\",\"since_s\":{},\"in_flight\":{in_flight},\
         \"requests\":{requests},\"failures\":{failures},\"reason\":{}}}",
        json_string(application),
        json_string(name),
        age.as_secs(),
        json_string(reason)
    );
}

pub(super) fn object(snapshot: &Snapshot, out: &mut String) {
    out.push('{');
    for (key, _, n) in snapshot.rows() {
        _ = write!(out, "\"{key}\":{n},");
    }
    out.push_str("\"codes\":{");
    for (number, (code, n)) in snapshot.counts.codes().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        _ = write!(out, "{comma}\"{code}\":{n}");
    }
    out.push_str("},");
    for (key, (buckets, sum)) in
        [("first_byte_us", snapshot.counts.first_byte()), ("duration_us", snapshot.counts.durations())]
    {
        push_durations(key, &buckets, sum, out);
        out.push(',');
    }
    out.push_str("\"helpers\":[");
    for (number, queue) in snapshot.queues.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let Queue { device: (major, minor), running, waiting } = queue;
        _ = write!(
            out,
            "{comma}{{\"device\":\"{major}:{minor}\",\"running\":{running},\"waiting\":{waiting}}}"
        );
    }
    out.push_str("]}");
}
