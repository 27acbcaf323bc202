//! What the running program can be asked for, and the line that asks for it.

use std::time::Duration;

use cache::store::purge::Purge;
use site::disconnect::Selection;
use site::model::Level;
use site::watch::Filter;

use super::{PROMPT_TIMEOUT, RESPONSE_TIMEOUT};
use crate::process::ipc::{Form, Syntax};

/// The longest time for another level of the error log.
pub const MAX_LEVEL_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of the name of a host (RFC 1035 §2.3.4).
const MAX_HOST: usize = 255;
/// Bytes of the name of an application, and of one of its endpoints, that a request may have. A pool knows no longer
/// name of an endpoint, and an upgrade hands off no longer line.
const MAX_APPLICATION: usize = 1024;
const MAX_ENDPOINT: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Reload,
    Upgrade,
    Stats(Form),
    Purge(Purge),
    Drain(Drain),
    /// The files of logs are opened again.
    Reopen,
    /// The error log has this level for a time.
    Level(Level, Duration),
    Maintenance(MaintenanceAct),
    /// Connections end.
    Disconnect(Selection),
    /// Requests that match are shown until one of both ends.
    Watch(Filter),
}

/// An endpoint of an application that is taken out of service, or put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    pub application: String,
    pub endpoint: String,
    pub change: DrainChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainChange {
    Drain,
    Undrain,
}

/// A host is switched to maintenance, or back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceAct {
    pub host: String,
    /// Seconds. `None`: it serves again.
    pub retry_after: Option<u32>,
}

/// The requests of one word or two.
const REQUESTS: [(&str, Request); 8] = [
    ("reopen", Request::Reopen),
    ("reload", Request::Reload),
    ("upgrade", Request::Upgrade),
    ("stats", Request::Stats(Form::Text)),
    ("stats json", Request::Stats(Form::Json)),
    ("stats live", Request::Stats(Form::Live)),
    ("stats openmetrics", Request::Stats(Form::Metrics(Syntax::OpenMetrics))),
    ("stats prometheus", Request::Stats(Form::Metrics(Syntax::Prometheus))),
];

/// The first word of a purge.
const PURGE: &str = "purge ";
/// The first word of a filter.
const WATCH: &str = "watch ";
/// The first words of other requests.
const LEVEL: &str = "level ";
const MAINTENANCE: &str = "maintenance ";
const DISCONNECT: &str = "disconnect ";
/// In place of seconds.
const OFF: &str = "off";

impl Request {
    /// One line.
    pub fn text(&self) -> String {
        match (self, REQUESTS.iter().find(|(_, known)| known == self)) {
            (Request::Purge(purge), _) => format!("{PURGE}{purge}\n"),
            (Request::Drain(Drain { application, endpoint, change }), _) => {
                format!("{} {application}\0{endpoint}\n", change.word())
            }
            (Request::Level(level, time), _) => format!("{LEVEL}{} {}\n", level.name(), time.as_secs()),
            (Request::Maintenance(MaintenanceAct { host, retry_after }), _) => {
                let seconds = retry_after.map_or(OFF.to_owned(), |seconds| seconds.to_string());
                format!("{MAINTENANCE}{seconds} {host}\n")
            }
            (Request::Disconnect(selection), _) => format!("{DISCONNECT}{selection}\n"),
            (Request::Watch(filter), _) => format!("{WATCH}{filter}\n"),
            (_, Some((word, _))) => format!("{word}\n"),
            (_, None) => String::new(),
        }
    }

    /// The reverse of `text`, without the end of the line.
    pub fn parse(line: &[u8]) -> Option<Request> {
        let line = std::str::from_utf8(line).ok()?;
        if let Some(rest) = line.strip_prefix(LEVEL) {
            let (level, seconds) = rest.split_once(' ')?;
            let time =
                seconds.parse().ok().map(Duration::from_secs).filter(|time| *time <= MAX_LEVEL_TIME)?;
            return Some(Request::Level(Level::from_name(level)?, time));
        }
        if let Some(rest) = line.strip_prefix(MAINTENANCE) {
            let (seconds, host) = rest.split_once(' ')?;
            let retry_after = if seconds == OFF { None } else { Some(seconds.parse().ok()?) };
            let is_name = (1..=MAX_HOST).contains(&host.len()) && !host.contains(char::is_control);
            let act = MaintenanceAct { host: host.to_owned(), retry_after };
            return is_name.then_some(Request::Maintenance(act));
        }
        if let Some(selection) = line.strip_prefix(DISCONNECT) {
            return selection.parse().ok().map(Request::Disconnect);
        }
        if let Some(filter) = line.strip_prefix(WATCH) {
            return filter.parse().ok().map(Request::Watch);
        }
        match line.strip_prefix(PURGE) {
            Some(purge) => purge.parse().ok().map(Request::Purge),
            None => {
                let known = REQUESTS.into_iter().find(|(word, _)| *word == line);
                known.map(|(_, request)| request).or_else(|| Drain::parse(line).map(Request::Drain))
            }
        }
    }

    /// How long a command waits for the response.
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Request::Reload | Request::Upgrade | Request::Purge(_) | Request::Disconnect(_) => {
                RESPONSE_TIMEOUT
            }
            Request::Stats(_) | Request::Watch(_) | Request::Reopen | Request::Level(..) => PROMPT_TIMEOUT,
            Request::Drain(_) | Request::Maintenance(_) => PROMPT_TIMEOUT,
        }
    }

    /// Whether users of the page may ask for it.
    pub fn is_for_page(&self) -> bool {
        match self {
            Request::Reload | Request::Purge(_) | Request::Drain(_) | Request::Reopen => true,
            Request::Level(..) | Request::Maintenance(_) | Request::Disconnect(_) => true,
            Request::Upgrade | Request::Stats(_) | Request::Watch(_) => false,
        }
    }

    /// What is done, for the error log. `None`: something is only read.
    pub fn act(&self) -> Option<String> {
        Some(match self {
            Request::Stats(_) => return None,
            Request::Drain(Drain { application, endpoint, change }) => {
                format!("{} {endpoint} of application {application}", change.word())
            }
            Request::Watch(filter) => format!("watch {}", filter.to_string().replace('\0', " ")),
            other => other.text().trim_end().to_owned(),
        })
    }
}

impl Drain {
    fn parse(line: &str) -> Option<Drain> {
        let (word, rest) = line.split_once(' ')?;
        let (application, endpoint) = rest.split_once('\0')?;
        if application.len() > MAX_APPLICATION || endpoint.len() > MAX_ENDPOINT {
            return None;
        }
        let change =
            [DrainChange::Drain, DrainChange::Undrain].into_iter().find(|change| change.word() == word)?;
        Some(Drain { application: application.to_owned(), endpoint: endpoint.to_owned(), change })
    }
}

impl DrainChange {
    fn word(self) -> &'static str {
        match self {
            DrainChange::Drain => "drain",
            DrainChange::Undrain => "undrain",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed_from_its_line() {
        let purges =
            ["all - -", "path a.example /x?y=z", "tag - news"].map(|text| text.parse().map(Request::Purge));
        let purges = purges.into_iter().map(|purge| purge.expect("it is a purge"));
        let drains = [DrainChange::Drain, DrainChange::Undrain].map(|change| {
            Request::Drain(Drain { application: "my app".into(), endpoint: "10.0.0.1:80".into(), change })
        });
        let watches = ["", "status=5xx", "client=::1\0path=/a b\0slower=2s"];
        let watches = watches.map(|text| Request::Watch(text.parse().expect("it is a filter")));
        let selections = ["connection 1a2b", "client 10.0.0.0/8"];
        let selections = selections.map(|text| Request::Disconnect(text.parse().expect("it is a selection")));
        let acts = [
            Request::Level(Level::Debug, Duration::from_secs(600)),
            Request::Maintenance(MaintenanceAct { host: "a.example".into(), retry_after: Some(300) }),
            Request::Maintenance(MaintenanceAct { host: "*.a.example".into(), retry_after: None }),
        ];
        let requests = REQUESTS.into_iter().map(|(_, request)| request).chain(purges).chain(drains);
        for request in requests.chain(watches).chain(acts).chain(selections) {
            let text = request.text();
            let line = text.strip_suffix('\n').expect("it is a line");
            assert_eq!(Request::parse(line.as_bytes()), Some(request), "{line}");
        }
        // It would be handed off by each upgrade, and none would succeed.
        let drain = |application: usize, endpoint: usize| {
            Request::parse(format!("drain {}\0{}", "a".repeat(application), "e".repeat(endpoint)).as_bytes())
        };
        assert!(drain(MAX_APPLICATION, MAX_ENDPOINT).is_some());
        assert!(drain(1, MAX_ENDPOINT + 1).is_none() && drain(MAX_APPLICATION + 1, 1).is_none());
        for line in [
            "",
            "reload ",
            "Stats",
            "purge",
            "purge ",
            "purge all",
            "drain",
            "drain app",
            "drains a\0b",
            "purge path - x",
            "purge tag - \u{e4}",
            "watch",
            "level debug",
            "level loud 5",
            "level debug 99999999",
            "maintenance 5",
            "maintenance on a",
            "maintenance 5 ",
            "maintenance 5 a\u{1b}",
            "disconnect",
            "disconnect ",
            "disconnect 1a2b",
            "disconnect connection 0",
            "disconnect client a.example",
            "watch x=y",
            "watch status=9xx",
        ] {
            assert_eq!(Request::parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(Request::parse(b"\xff"), None);
    }
}
