//! The statistics as metrics, in the text formats of OpenMetrics and of Prometheus. Every family has a prefix, a help
//! text and a number of label sets that the configuration bounds, or the code.

mod text;

use site::zones::Zone;

use super::exemplars::bounds;
use super::layout::{Count, NAMES};
use super::{
    BreakerState, EndpointSnapshot, Exemplars, MAX_CERTIFICATES, MAX_ENDPOINTS, Report, StoredFiles, Usage,
    ZoneSnapshot,
};
use crate::disk::Queue;
use crate::process::ipc::Syntax;
use crate::tls_facts::Validity;
use text::{Text, Type};

/// The upper bounds of the buckets of hosts and routes, as powers of two in microseconds: 256 µs to 67 s.
const ZONE_BOUNDS: [u32; 10] = [8, 10, 12, 14, 16, 18, 20, 22, 24, 26];

/// Counters that are one family, with their values of its label.
struct Group {
    name: &'static str,
    label: &'static str,
    help: &'static str,
    members: &'static [(Count, &'static str)],
}

const GROUPS: &[Group] = &[
    Group {
        name: "requests",
        label: "protocol",
        help: "Requests by the protocol of their head.",
        members: &[
            (Count::Http10, "HTTP/1.0"),
            (Count::Http11, "HTTP/1.1"),
            (Count::Http2, "HTTP/2"),
            (Count::Unreadable, "unreadable"),
        ],
    },
    Group {
        name: "requests_by_method",
        label: "method",
        help: "Requests with a valid head by their method.",
        members: &[
            (Count::MethodGet, "GET"),
            (Count::MethodHead, "HEAD"),
            (Count::MethodPost, "POST"),
            (Count::MethodPut, "PUT"),
            (Count::MethodDelete, "DELETE"),
            (Count::MethodOptions, "OPTIONS"),
            (Count::MethodTrace, "TRACE"),
            (Count::MethodConnect, "CONNECT"),
            (Count::MethodPatch, "PATCH"),
            (Count::MethodOther, "other"),
        ],
    },
    Group {
        name: "timeouts",
        label: "phase",
        help: "Connections and requests that exceeded the time of a phase.",
        members: &[
            (Count::TimeoutHandshake, "handshake"),
            (Count::TimeoutHead, "head"),
            (Count::TimeoutBody, "body"),
            (Count::TimeoutWrite, "write"),
            (Count::TimeoutIdle, "idle"),
            (Count::TimeoutDisk, "disk"),
            (Count::TimeoutUpgraded, "upgraded"),
            (Count::ScriptsTimeout, "script"),
        ],
    },
    Group {
        name: "rejections",
        label: "reason",
        help: "Requests and connections that a limit has rejected.",
        members: &[
            (Count::Rejected, "connections"),
            (Count::PerClient, "connections_per_client"),
            (Count::HandshakesPerClient, "handshakes_per_client"),
            (Count::StreamsRefused, "streams"),
            (Count::ShedCold, "late_loop_cold"),
            (Count::ShedAll, "late_loop"),
            (Count::LimitedRequests, "requests"),
            (Count::LimitedConcurrent, "concurrent"),
            (Count::LimitedShare, "share"),
            (Count::LoginsDelayed, "wrong_passwords"),
            (Count::LoginsBusy, "password_comparisons"),
            (Count::UpgradesRejected, "upgraded"),
            (Count::ScriptsRejected, "scripts"),
            (Count::BreakersRejected, "circuit_breaker"),
            (Count::ProxyFailed, "proxy_header"),
        ],
    },
    Group {
        name: "tls_versions",
        label: "version",
        help: "TLS handshakes by their version.",
        members: &[(Count::Tls12, "TLSv1.2"), (Count::Tls13, "TLSv1.3")],
    },
];

/// Counters that `responses_total` and the families below have already.
const ELSEWHERE: &[Count] = &[
    Count::Status1xx,
    Count::Status2xx,
    Count::Status3xx,
    Count::Status4xx,
    Count::Status5xx,
    Count::Bytes,
    Count::Received,
    Count::SavedStored,
    Count::SavedSending,
];

impl Report {
    pub fn metrics(&self, syntax: Syntax) -> String {
        let mut text = Text::new(syntax);
        self.push_process(&mut text);
        self.push_counts(&mut text);
        self.push_durations(&mut text);
        self.push_present(&mut text);
        self.push_upstreams(&mut text);
        self.push_zones(&mut text);
        self.push_certificates(&mut text);
        text.finish()
    }

    fn push_process(&self, text: &mut Text) {
        text.family("build", Type::Info, "", "The version of the program.");
        text.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        text.family(
            "counting_start_time_seconds",
            Type::Gauge,
            "seconds",
            "When the counting began, since 1970.",
        );
        text.sample("counting_start_time_seconds", &[], self.since);
        text.family(
            "generation_uptime_seconds",
            Type::Gauge,
            "seconds",
            "How long the present configuration is served.",
        );
        text.sample("generation_uptime_seconds", &[], self.uptime.as_secs());
        self.push_generations(text);
        self.push_usage(text);
        text.family(
            "workers",
            Type::Gauge,
            "",
            "Workers that respond to the request for these metrics, and others.",
        );
        let responding = self.workers.iter().flatten().count();
        text.sample("workers", &[("responds", "yes")], responding);
        text.sample("workers", &[("responds", "no")], self.workers.len() - responding);
        text.family(
            "log_lines_dropped",
            Type::Counter,
            "",
            "Log lines that were dropped: the disk or the reader of a log was too slow, full or gone.",
        );
        text.sample("log_lines_dropped_total", &[], self.counts.dropped_lines());
    }

    fn push_generations(&self, text: &mut Text) {
        let (started, _) = self.counts.generations();
        let help = "Serving processes that were started: one for each configuration.";
        text.family("generations_started", Type::Counter, "", help);
        text.sample("generations_started_total", &[], started);
        let help = "Serving processes: the present one, and earlier ones that finish their responses.";
        text.family("generations", Type::Gauge, "", help);
        text.sample("generations", &[("state", "serving")], 1);
        text.sample("generations", &[("state", "ending")], self.earlier.len());
        let help = "How long the oldest serving process runs.";
        text.family("oldest_generation_age_seconds", Type::Gauge, "seconds", help);
        let oldest = self.earlier.iter().map(|began| (self.now - began).max(0) as u64).max();
        let oldest = oldest.unwrap_or(0).max(self.uptime.as_secs());
        text.sample("oldest_generation_age_seconds", &[], oldest);
    }

    fn push_usage(&self, text: &mut Text) {
        let Some(Usage { memory, descriptors, max_descriptors }) = self.usage else { return };
        for (name, unit, help, n) in [
            ("resident_memory_bytes", "bytes", "Memory of the serving process.", Some(memory)),
            ("open_descriptors", "", "Open descriptors of the serving process.", descriptors),
            (
                "max_descriptors",
                "",
                "The most descriptors that the serving process may open.",
                max_descriptors,
            ),
        ] {
            if let Some(n) = n {
                text.family(name, Type::Gauge, unit, help);
                text.sample(name, &[], n);
            }
        }
    }

    fn push_counts(&self, text: &mut Text) {
        for Group { name, label, help, members } in GROUPS {
            text.family(name, Type::Counter, "", help);
            for (count, value) in *members {
                text.sample(&format!("{name}_total"), &[(label, value)], self.counts.get(*count));
            }
        }
        text.family("responses", Type::Counter, "", "Responses by their status code.");
        for (code, n) in self.counts.codes() {
            text.sample("responses_total", &[("code", &code.to_string())], n);
        }
        for (name, count, help) in [
            ("sent_bytes", Count::Bytes, "Bytes sent to clients, without TLS."),
            ("received_bytes", Count::Received, "Bytes received from clients, without TLS."),
        ] {
            text.family(name, Type::Counter, "bytes", help);
            text.sample(&format!("{name}_total"), &[], self.counts.get(count));
        }
        text.family("saved_bytes", Type::Counter, "bytes", "Bytes that compression has saved.");
        for (by, count) in [("stored", Count::SavedStored), ("sending", Count::SavedSending)] {
            text.sample("saved_bytes_total", &[("by", by)], self.counts.get(count));
        }
        let grouped = |at: usize| {
            let mut members = GROUPS.iter().flat_map(|group| group.members.iter().map(|(count, _)| count));
            members.any(|count| *count as usize == at) || ELSEWHERE.iter().any(|count| *count as usize == at)
        };
        for (at, ((key, help), n)) in NAMES.iter().zip(self.counts.counts()).enumerate() {
            if !grouped(at) {
                text.family(key, Type::Counter, "", &sentence(help));
                text.sample(&format!("{key}_total"), &[], n);
            }
        }
        let files = self.files.iter().flat_map(StoredFiles::rows);
        for (key, help, n) in files {
            let (name, kind, unit) = match key {
                "file_bytes" => ("cache_file_bytes".to_owned(), Type::Gauge, "bytes"),
                "files" => ("cache_files".to_owned(), Type::Gauge, ""),
                key => (format!("cache_{key}"), Type::Counter, ""),
            };
            text.family(&name, kind, unit, &sentence(help));
            text.sample(&if kind == Type::Counter { format!("{name}_total") } else { name }, &[], n);
        }
    }

    /// Hosts and routes, with fewer buckets, because there may be hundreds of them.
    fn push_zones(&self, text: &mut Text) {
        type IsIn = fn(&Zone) -> bool;
        let kinds: [(&str, &str, IsIn); 2] = [
            ("host", "a host", |zone| matches!(zone, Zone::Host(_))),
            ("route", "a route", |zone| matches!(zone, Zone::Route(..))),
        ];
        for (kind, of, is_in) in kinds {
            let zones: Vec<_> = self.zones.iter().filter(|snapshot| is_in(&snapshot.zone)).collect();
            if zones.is_empty() {
                continue;
            }
            let name = format!("{kind}_responses");
            text.family(
                &name,
                Type::Counter,
                "",
                &format!("Responses of {of} by the class of their status."),
            );
            for ZoneSnapshot { zone, values } in &zones {
                for (class, n) in (1..).zip(values.classes()) {
                    let class = format!("{class}xx");
                    text.sample(&format!("{name}_total"), &with_label(zone, "class", &class), n);
                }
            }
            let name = format!("{kind}_sent_bytes");
            text.family(&name, Type::Counter, "bytes", &format!("Bytes sent by {of}, without TLS."));
            for ZoneSnapshot { zone, values } in &zones {
                text.sample(&format!("{name}_total"), &labels(zone), values.bytes());
            }
            let name = format!("{kind}_response_duration_seconds");
            let help = format!("From the first byte of a request to the last byte of its response, of {of}.");
            text.family(&name, Type::Histogram, "seconds", &help);
            for ZoneSnapshot { zone, values } in &zones {
                let (buckets, sum) = values.durations();
                let bounds = ZONE_BOUNDS.map(|power| 1 << power);
                text.histogram(&name, &labels(zone), &bounds, (buckets, sum), &Exemplars::default());
            }
        }
    }

    fn push_certificates(&self, text: &mut Text) {
        type Time = fn(&Validity) -> i64;
        let begins: Time = |validity| validity.not_before;
        let ends: Time = |validity| validity.not_after;
        for (name, help, time) in [
            ("certificate_not_before_seconds", "When a certificate begins to be valid, since 1970.", begins),
            ("certificate_not_after_seconds", "When a certificate ceases to be valid, since 1970.", ends),
        ] {
            if self.validities.is_empty() {
                return;
            }
            text.family(name, Type::Gauge, "seconds", help);
            for validity in self.validities.iter().take(MAX_CERTIFICATES) {
                let Validity { name: of, file, key, .. } = validity;
                text.sample(name, &[("name", of), ("key", key), ("file", file)], time(validity));
            }
        }
    }

    fn push_durations(&self, text: &mut Text) {
        for (name, help, (buckets, sum), exemplars) in [
            (
                "response_first_byte_seconds",
                "From the first byte of a request to the first byte of its response.",
                self.counts.first_byte(),
                &Exemplars::default(),
            ),
            (
                "response_duration_seconds",
                "From the first byte of a request to the last byte of its response.",
                self.counts.durations(),
                &self.total().exemplars,
            ),
        ] {
            text.family(name, Type::Histogram, "seconds", help);
            text.histogram(name, &[], &bounds(), (&buckets, sum), exemplars);
        }
    }

    fn push_present(&self, text: &mut Text) {
        let now = self.total();
        text.family("connections", Type::Gauge, "", "Connections by their state.");
        for (state, n) in
            [("active", now.active), ("idle", now.idle + now.parked), ("upgraded", now.upgraded)]
        {
            text.sample("connections", &[("state", state)], n);
        }
        text.family(
            "scripts_now",
            Type::Gauge,
            "",
            "Scripts and requests to applications that run, and that wait.",
        );
        text.sample("scripts_now", &[("state", "running")], now.scripts_running);
        text.sample("scripts_now", &[("state", "waiting")], now.scripts_waiting);
        text.family("loop_delay_seconds", Type::Gauge, "seconds", "How late the latest loop was.");
        text.sample("loop_delay_seconds", &[], format_args!("{:.6}", now.delay.as_secs_f64()));
        if !now.queues.is_empty() {
            text.family("helper_operations", Type::Gauge, "", "Operations of helper threads by device.");
        }
        for Queue { device: (major, minor), running, waiting } in &now.queues {
            let device = format!("{major}:{minor}");
            text.sample("helper_operations", &[("device", &device), ("state", "running")], running);
            text.sample("helper_operations", &[("device", &device), ("state", "waiting")], waiting);
        }
    }

    fn push_upstreams(&self, text: &mut Text) {
        let now = self.total();
        let endpoints: Vec<&EndpointSnapshot> = now.endpoints.iter().take(MAX_ENDPOINTS).collect();
        type Value = fn(&EndpointSnapshot) -> u64;
        let families: [(&str, Type, &str, Value); 4] = [
            ("endpoint_up", Type::Gauge, "Whether an endpoint gets requests.", |endpoint| {
                u64::from(endpoint.is_up())
            }),
            ("endpoint_in_flight", Type::Gauge, "Requests at an endpoint.", |endpoint| endpoint.in_flight),
            ("endpoint_requests", Type::Counter, "Requests to an endpoint.", |endpoint| endpoint.requests),
            ("endpoint_failures", Type::Counter, "Failures of an endpoint.", |endpoint| endpoint.failures),
        ];
        for (name, kind, help, value) in families.iter().filter(|_| !endpoints.is_empty()) {
            text.family(name, *kind, "", help);
            let sample = if *kind == Type::Counter { format!("{name}_total") } else { (*name).to_owned() };
            for endpoint in &endpoints {
                let labels = [("application", &*endpoint.application), ("endpoint", &*endpoint.name)];
                text.sample(&sample, &labels, value(endpoint));
            }
        }
        if !now.breakers.is_empty() {
            text.family("breaker_open", Type::Gauge, "", "Whether a circuit breaker rejects requests.");
        }
        for breaker in now.breakers.iter().take(MAX_ENDPOINTS) {
            let open = u8::from(breaker.state == BreakerState::Open);
            text.sample("breaker_open", &[("application", &breaker.application)], open);
        }
    }
}

fn labels(zone: &Zone) -> Vec<(&str, &str)> {
    match zone {
        Zone::Host(host) => vec![("host", host)],
        Zone::Route(host, route) => vec![("host", host), ("route", route)],
    }
}

fn with_label<'a>(zone: &'a Zone, name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut labels = labels(zone);
    labels.push((name, value));
    labels
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).chain(['.']).collect()
}

impl Syntax {
    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Syntax::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Syntax::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use taipan_http::status::Status;

    use super::*;
    use crate::stats::tests::report_of;
    use crate::stats::{Block, BreakerSnapshot, Counts, Exemplar, Snapshot};

    fn report() -> Report {
        let block = Block::private();
        block.dropped_lines().store(2, Ordering::Relaxed);
        let counts = Counts::over(block);
        counts.add(Count::Bytes, 7);
        counts.add_response(Status::NOT_FOUND, None);
        counts.add_durations(0, None, 100);
        counts.add_durations(0, Some(2_000), 3_000_000);
        let endpoint = EndpointSnapshot {
            application: "a \"b\\\n".to_owned(),
            name: "10.0.0.1:80".to_owned(),
            state: "down",
            age: Duration::from_secs(7),
            in_flight: 1,
            requests: 20,
            failures: 3,
            reason: String::new(),
        };
        let breakers = vec![BreakerSnapshot { application: "app".to_owned(), state: BreakerState::HalfOpen }];
        let mut exemplars = Exemplars::default();
        exemplars.note(Exemplar { trace: 0xab, micros: 100, time: 7_500_000 });
        let worker =
            Snapshot { exemplars, parked: 3, endpoints: vec![endpoint], breakers, ..Snapshot::of(&counts) };
        report_of(vec![Some(worker), None])
    }

    #[test]
    fn every_family_is_there_once_and_every_counter_in_one() {
        for syntax in [Syntax::OpenMetrics, Syntax::Prometheus] {
            let text = report().metrics(syntax);
            let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
            let names: HashSet<&str> = families.iter().filter_map(|line| line.split(' ').next()).collect();
            assert_eq!(names.len(), families.len());
            let samples = text.lines().filter(|line| line.contains("_total"));
            let members: usize = GROUPS.iter().map(|group| group.members.len()).sum();
            assert!(samples.count() >= members + NAMES.len() - members - ELSEWHERE.len());
            assert_eq!(text.ends_with("# EOF\n"), syntax == Syntax::OpenMetrics);
            assert_eq!(text.contains(" # {trace_id="), syntax == Syntax::OpenMetrics);
        }
    }

    #[test]
    fn values_are_those_of_the_counters() {
        let text = report().metrics(Syntax::OpenMetrics);
        for line in [
            "taipan_responses_total{code=\"404\"} 1",
            "taipan_sent_bytes_total 7",
            "# TYPE taipan_requests counter",
            "# UNIT taipan_sent_bytes bytes",
            "taipan_requests_total{protocol=\"unreadable\"} 1",
            "taipan_response_first_byte_seconds_bucket{le=\"0.000096\"} 0",
            "taipan_response_first_byte_seconds_bucket{le=\"0.000128\"} 1",
            "taipan_response_first_byte_seconds_bucket{le=\"0.002048\"} 2",
            "taipan_response_duration_seconds_bucket{le=\"2.097152\"} 1",
            "taipan_response_duration_seconds_bucket{le=\"0.000128\"} 1 # {trace_id=\"000000000000000000000000000000ab\"} \
             0.000100 7.500000",
            "taipan_response_duration_seconds_bucket{le=\"+Inf\"} 2",
            "taipan_response_duration_seconds_sum 3.000100",
            "taipan_response_duration_seconds_count 2",
            "taipan_connections{state=\"idle\"} 3",
            "taipan_workers{responds=\"no\"} 1",
            "taipan_endpoint_up{application=\"a \\\"b\\\\\\n\",endpoint=\"10.0.0.1:80\"} 0",
            "taipan_endpoint_requests_total{application=\"a \\\"b\\\\\\n\",endpoint=\"10.0.0.1:80\"} 20",
            "taipan_breaker_open{application=\"app\"} 0",
            "taipan_generations{state=\"ending\"} 1",
            "taipan_oldest_generation_age_seconds 60",
            "taipan_resident_memory_bytes 8192",
            "taipan_open_descriptors 7",
            "taipan_certificate_not_after_seconds{name=\"a.example\",key=\"RSA 2048\",file=\"/a.pem\"} 864000",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
