//! What the status page shows: the rows of its tables before its script runs, and events for the script.

use std::fmt::Write;

use site::monitor::{grouped, span, time};
use site::text::rfc3339;
use site::zones::Zone;

use super::json::object;
use super::{EndpointSnapshot, MAX_CERTIFICATES, MAX_ENDPOINTS, Report, histogram};
use crate::tls_facts::Validity;

/// What a client has received in earlier events.
#[derive(Debug, Default)]
pub struct EventState {
    is_first: bool,
    /// The responses of each host and each route, as of the last event.
    responses: Vec<u64>,
}

impl EventState {
    pub fn nothing() -> EventState {
        EventState { is_first: true, responses: Vec::new() }
    }
}

impl Report {
    /// One object of JSON in one line. It has the hosts and routes that have got responses since the event before, and
    /// the certificates once: those change with the process, which ends the stream.
    pub fn event(&self, received: &mut EventState) -> String {
        let mut out = self.json_begin();
        if std::mem::take(&mut received.is_first) {
            _ = write!(out, "\"certificates\":[{}],", self.certificate_objects());
        }
        let silent = self.workers.iter().filter(|worker| worker.is_none()).count();
        _ = write!(out, "\"silent_workers\":{silent},\"all\":");
        object(&self.total(), &mut out);
        let known = received.responses.len();
        received.responses.resize(self.zones.len(), 0);
        self.push_zone_arrays(&mut out, |number, snapshot| {
            let responses = snapshot.values.responses();
            let before = std::mem::replace(&mut received.responses[number], responses);
            number >= known || responses != before
        });
        self.push_upstream_arrays(&mut out);
        out.push('}');
        out
    }

    /// The columns are those of the page.
    pub fn endpoint_cells(&self) -> Vec<Vec<String>> {
        let cells = |endpoint: &EndpointSnapshot| {
            let EndpointSnapshot { application, name, state, age, in_flight, requests, failures, reason } =
                endpoint.clone();
            let age = span(age.as_secs());
            vec![
                state.to_owned(),
                application,
                name,
                age,
                grouped(in_flight),
                grouped(requests),
                grouped(failures),
                reason,
            ]
        };
        self.total().endpoints.iter().take(MAX_ENDPOINTS).map(cells).collect()
    }

    /// As above, of hosts and of routes. A rate needs two moments.
    pub fn zone_cells(&self) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let none = || "\u{2013}".to_owned();
        let (mut hosts, mut routes) = (Vec::new(), Vec::new());
        for snapshot in &self.zones {
            let class = |at: usize| grouped(snapshot.values.classes().get(at).copied().unwrap_or(0));
            let durations = snapshot.values.durations().0;
            let within = |part| {
                let micros = histogram::quantile(durations, part);
                micros.map_or_else(none, time)
            };
            let name = snapshot.name();
            let rows = match snapshot.zone {
                Zone::Host(_) => &mut hosts,
                Zone::Route(..) => &mut routes,
            };
            rows.push(vec![name, none(), class(3), class(4), none(), within(0.5), within(0.99)]);
        }
        (hosts, routes)
    }

    /// As above.
    pub fn certificate_cells(&self) -> Vec<Vec<String>> {
        let cells = |Validity { name, file, key, not_before, not_after }: &Validity| {
            let left = not_after - self.now;
            let state = match left {
                ..0 => format!("expired {} ago", span(left.unsigned_abs())),
                _ if *not_before > self.now => "not yet valid".to_owned(),
                _ => format!("{} left", span(left.unsigned_abs())),
            };
            let until = String::from_utf8_lossy(&rfc3339(*not_after)).into_owned();
            vec![name.clone(), state, until, key.clone(), file.clone()]
        };
        self.validities.iter().take(MAX_CERTIFICATES).map(cells).collect()
    }
}
