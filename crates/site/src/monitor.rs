//! Routes that show how the server does: metrics, and whether it is alive and ready. Which of them may be open to all,
//! and which format of metrics a client gets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::access::{Action, Condition, Rules};
use crate::authentication::{Satisfy, Scheme};
use crate::model::Route;
use crate::text;

/// What such a route responds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    /// A page that shows the present, the past, and the last requests.
    Status,
    Metrics,
    /// 200 as long as the process serves.
    Healthy,
    /// 200 as long as new requests should be sent to this process.
    Ready,
    /// A form with what can be done to the running program.
    Acts,
}

impl Monitor {
    pub const NAMES: &'static [&'static str] = &["status", "metrics", "healthy", "ready", "acts"];

    /// Of one of `NAMES`.
    pub fn from_name(name: &str) -> Option<Monitor> {
        Some(match name {
            "status" => Monitor::Status,
            "metrics" => Monitor::Metrics,
            "healthy" => Monitor::Healthy,
            "ready" => Monitor::Ready,
            "acts" => Monitor::Acts,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Monitor::Status => "status",
            Monitor::Metrics => "metrics",
            Monitor::Healthy => "healthy",
            Monitor::Ready => "ready",
            Monitor::Acts => "acts",
        }
    }

    /// Whether it shows more than a load balancer has to know.
    pub fn is_private(self) -> bool {
        match self {
            Monitor::Status | Monitor::Metrics | Monitor::Acts => true,
            Monitor::Healthy | Monitor::Ready => false,
        }
    }
}

/// The parts of the page, which have its path and a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Page,
    Style,
    Script,
    /// What happens, as it happens.
    Events,
    /// The points of one kind of step.
    History(usize),
}

impl Part {
    /// `kinds`: of steps.
    pub fn from_query(query: Option<&str>, kinds: usize) -> Option<Part> {
        Some(match query.unwrap_or_default() {
            "" => Part::Page,
            "style" => Part::Style,
            "script" => Part::Script,
            "events" => Part::Events,
            other => {
                let kind = other.strip_prefix("history=")?.parse().ok()?;
                (kind < kinds).then_some(Part::History(kind))?
            }
        })
    }
}

pub const STYLE: &str = include_str!("monitor/style.css");
pub const SCRIPT: &str = include_str!("monitor/script.js");
const PAGE: &str = include_str!("monitor/page.html");
/// For the page: it loads its own parts and nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the page has before its script runs.
pub struct Summary<'a> {
    pub version: &'a str,
    pub uptime: Duration,
    /// When the counting began, in seconds since 1970.
    pub since: i64,
    /// Keys, names and values of counts.
    pub counts: &'a [(&'a str, &'a str, u64)],
    /// The cells of each row. A table without rows is hidden.
    pub endpoints: &'a [Vec<String>],
    pub hosts: &'a [Vec<String>],
    /// Below the hosts, where there are any.
    pub routes: &'a [Vec<String>],
    pub certificates: &'a [Vec<String>],
}

/// The tables of counts: the key of the first count of each, and its title.
const TABLES: &[(&str, &str)] = &[
    ("active", "Now"),
    ("accepted", "Connections"),
    ("http_1_0", "Requests"),
    ("incomplete", "Responses"),
    ("cache_hits", "Caches"),
    ("shed_cold", "Protection"),
    ("wrong_passwords", "Logins"),
    ("handshakes", "TLS and HTTP/2"),
    ("timeout_handshake", "Timeouts"),
    ("abandoned", "Scripts and applications"),
    ("limited_requests", "Limits"),
    ("breakers_opened", "Proxy"),
    ("parts", "Other"),
];

pub fn page(summary: &Summary<'_>) -> String {
    let since = text::rfc3339(summary.since);
    let since = String::from_utf8_lossy(&since);
    let shown = since.get(..16).unwrap_or(&since).replace('T', " ");
    let hidden = |rows: &[Vec<String>]| if rows.is_empty() { " hidden" } else { "" };
    // What stands between two `@` is the name of a place. One pass: the texts may have such names, too.
    let mut page = String::with_capacity(PAGE.len() * 3);
    for (number, part) in PAGE.split('@').enumerate() {
        match part {
            _ if number % 2 == 0 => page.push_str(part),
            "version" => page.push_str(summary.version),
            "uptime" => page.push_str(&span(summary.uptime.as_secs())),
            "since" => page.push_str(&since),
            "since-text" => page.extend([&shown, " UTC"]),
            "no-endpoints" => page.push_str(hidden(summary.endpoints)),
            "no-zones" => page.push_str(if summary.hosts.is_empty() { hidden(summary.routes) } else { "" }),
            "no-certificates" => page.push_str(hidden(summary.certificates)),
            "endpoints" => page.push_str(&rows(summary.endpoints, &ENDPOINTS)),
            "zones" => page.push_str(&rows(summary.hosts, &ZONES)),
            "routes" => page.push_str(&rows(summary.routes, &ZONES)),
            "certificates" => page.push_str(&rows(summary.certificates, &CERTIFICATES)),
            "counts" => page.push_str(&counts(summary.counts)),
            place => debug_assert!(false, "the page has the unknown place {place}"),
        }
    }
    page
}

fn counts(counts: &[(&str, &str, u64)]) -> String {
    let mut out = Vec::new();
    for (at, (key, name, value)) in counts.iter().enumerate() {
        let title = TABLES.iter().find(|(first, _)| first == key).map(|(_, title)| *title);
        if let Some(title) = title.or((at == 0).then_some("Counts")) {
            let end = if at > 0 { "</table>\n" } else { "" };
            out.extend_from_slice(format!("{end}<table><caption>{title}</caption>\n").as_bytes());
        }
        out.extend_from_slice(b"<tr><th scope=\"row\">");
        text::html(name, &mut out);
        let class = if *value > 0 { "n" } else { "n zero" };
        let value = grouped(*value);
        out.extend_from_slice(
            format!("<td class=\"{class}\" data-count=\"{key}\">{value}</tr>\n").as_bytes(),
        );
    }
    out.extend_from_slice(if counts.is_empty() { b"" } else { b"</table>\n" });
    String::from_utf8_lossy(&out).into_owned()
}

/// The class and the label of each cell in a row. A narrow screen shows the label in front of a number.
const ENDPOINTS: [(&str, &str); 8] = [
    ("state", "State"),
    ("path", "Application"),
    ("path", "Endpoint"),
    ("n", "Since"),
    ("n", "In flight"),
    ("n", "Requests"),
    ("n", "Failures"),
    ("path", "Last failure"),
];
const ZONES: [(&str, &str); 7] =
    [("path", "Name"), ("n", "Rate"), ("n", "4xx"), ("n", "5xx"), ("n", "Sent"), ("n", "p50"), ("n", "p99")];
const CERTIFICATES: [(&str, &str); 5] =
    [("path", "Name"), ("state", "State"), ("", "Valid until"), ("", "Key"), ("path", "File")];

/// `columns`: as above.
fn rows(rows: &[Vec<String>], columns: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    for row in rows {
        out.extend_from_slice(b"<tr>");
        for (cell, (class, label)) in row.iter().zip(columns) {
            let colour = match (*class, cell.split(' ').next().unwrap_or_default()) {
                ("state", "up") => " green",
                ("state", "down" | "expired") => " red",
                _ => "",
            };
            out.extend_from_slice(
                format!("<td class=\"{class}{colour}\" data-label=\"{label}\">").as_bytes(),
            );
            text::html(cell, &mut out);
        }
        out.extend_from_slice(b"</tr>\n");
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A number in groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A short duration with at most three digits, as the script of the page writes it; seconds may have more.
pub fn time(micros: u64) -> String {
    let (value, unit) = match micros {
        ..1_000 => return format!("{micros} \u{b5}s"),
        1_000..999_500 => (micros as f64 / 1e3, "ms"),
        _ => (micros as f64 / 1e6, "s"),
    };
    match value {
        ..9.995 => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{} {unit}", grouped(value.round() as u64)),
    }
}

/// A duration in its two largest units.
pub fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Whether some clients may have what is at a route without a user, token or authorizer. Rules that send clients to a
/// user count as asking for one: the request tells.
pub fn may_lack_credentials(route: &Route) -> bool {
    let others_ask = !route.authorizers.is_empty() || !route.jwts.is_empty();
    lacks_credentials(route) || (route.authentication.satisfy == Satisfy::Any && !others_ask)
}

/// Whether a route asks for no user, no token and no authorizer.
fn lacks_credentials(route: &Route) -> bool {
    route.authentication.scheme == Scheme::Off && route.authorizers.is_empty() && route.jwts.is_empty()
}

/// Addresses that no client has (RFC 1112 §4, RFC 9637).
const STRANGERS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0x3fff, 0x0fff, 0, 0, 0, 0, 0, 1))];

/// What rules say of a client of an address that none of them names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    Denied,
    /// No rule matches.
    Open,
    /// A rule lets it pass.
    Allowed,
}

/// Whether a client of any address may have what is at a route, without credentials.
pub fn is_open(route: &Route) -> bool {
    STRANGERS.iter().any(|stranger| is_open_to(*stranger, route))
}

fn is_open_to(stranger: IpAddr, route: &Route) -> bool {
    let passages = || route.access.iter().map(|rules| passage_of(stranger, rules));
    let is_allowed = passages().any(|passage| passage == Passage::Allowed);
    passages().all(|passage| passage != Passage::Denied)
        && (lacks_credentials(route) || is_allowed && may_lack_credentials(route))
}

/// Conditions other than addresses count for the worse.
fn passage_of(stranger: IpAddr, rules: &Rules) -> Passage {
    for rule in rules.iter() {
        let (mut may_match, mut must_match) = (true, true);
        for condition in &rule.conditions {
            let Condition::Address { within, except } = condition else {
                must_match = false;
                continue;
            };
            let is_within = within.as_ref().is_none_or(|within| within.contains(Some(stranger)));
            if !is_within || except.contains(Some(stranger)) {
                (may_match, must_match) = (false, false);
            }
        }
        match rule.action {
            Action::Deny(_) | Action::Redirect(_) | Action::Authenticate if must_match => {
                return Passage::Denied;
            }
            Action::Allow | Action::Limit(_) if may_match => return Passage::Allowed,
            _ => {}
        }
    }
    Passage::Open
}

/// Whether a client with these values of `Accept` wants OpenMetrics: it names it, and nothing that it likes better.
pub fn prefers_openmetrics<'a>(accept: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut open, mut plain) = (0, 0);
    for element in accept.flat_map(|value| value.split(|byte| *byte == b',')) {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let quality = match parts.next().unwrap_or_default() {
            name if name.eq_ignore_ascii_case(b"application/openmetrics-text") => &mut open,
            name if name.eq_ignore_ascii_case(b"text/plain") => &mut plain,
            _ => continue,
        };
        let given = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
        *quality = thousandths(given).max(*quality);
    }
    open > 0 && open >= plain
}

/// A quality of RFC 9110 §12.4.2. One that is invalid is 0.
fn thousandths(quality: Option<&[u8]>) -> u32 {
    let Some(quality) = quality else { return 1000 };
    let text = std::str::from_utf8(quality).unwrap_or_default();
    text.parse::<f32>().map_or(0, |quality| (quality.clamp(0.0, 1.0) * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_page_has_its_query() {
        for (query, expected) in [
            (None, Some(Part::Page)),
            (Some("script"), Some(Part::Script)),
            (Some("history=2"), Some(Part::History(2))),
            (Some("history=3"), None),
            (Some("history=x"), None),
            (Some("other"), None),
        ] {
            assert_eq!(Part::from_query(query, 3), expected, "{query:?}");
        }
    }

    fn with(counts: &[(&str, &str, u64)], rows: &[Vec<String>]) -> String {
        let uptime = Duration::from_secs(3_700);
        page(&Summary {
            version: "1",
            uptime,
            since: 0,
            counts,
            endpoints: rows,
            hosts: &[],
            routes: &[],
            certificates: &[],
        })
    }

    #[test]
    fn the_page_has_every_count_and_every_row_as_text() {
        let counts = [("accepted", "a <name>", 1_234_567), ("idle", "other", 0)];
        let page = with(&counts, &[vec!["down".to_owned(), "<b>@zones@".to_owned()]]);
        for part in [
            "<caption>Connections</caption>\n<tr><th scope=\"row\">a &lt;name&gt;<td class=\"n\" \
             data-count=\"accepted\">1,234,567</tr>",
            "<td class=\"n zero\" data-count=\"idle\">0</tr>",
            "<tr><td class=\"state red\" data-label=\"State\">down<td class=\"path\" data-label=\"Application\">\
             &lt;b&gt;@zones@</tr>",
            "datetime=\"1970-01-01T00:00:00Z\">1970-01-01 00:00 UTC<",
            "loaded 1 h 1 min ago",
            "id=\"endpoints\"><h2>",
            "id=\"zones\" hidden><div",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        for forbidden in ["http:", "https:", "style=\"", "onclick"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(!with(&counts, &[]).contains('@'), "a place is left");
    }

    #[test]
    fn routes_stand_below_hosts_where_the_script_shows_hosts_alone() {
        let rows = |name: &str| vec![vec![name.to_owned()]];
        let page = page(&Summary {
            version: "1",
            uptime: Duration::ZERO,
            since: 0,
            counts: &[],
            endpoints: &[],
            hosts: &rows("a.example"),
            routes: &rows("a.example /"),
            certificates: &[],
        });
        let cell = |name: &str| format!("<tr><td class=\"path\" data-label=\"Name\">{name}</tr>\n");
        let expected =
            format!("<tbody id=\"zone-rows\">{}<tbody>{}</table>", cell("a.example"), cell("a.example /"));
        assert!(page.contains(&expected), "{page}");
        assert!(STYLE.contains(".has-js tbody + tbody,"));
    }

    #[test]
    fn labels_of_cells_are_the_heads_of_their_columns() {
        for (place, columns) in
            [("endpoints", &ENDPOINTS[..]), ("zones", &ZONES), ("certificates", &CERTIFICATES)]
        {
            let head = PAGE
                .split(&format!("\">@{place}@"))
                .next()
                .and_then(|before| before.rsplit("<thead>").next());
            let heads: Vec<&str> = head
                .into_iter()
                .flat_map(|head| head.split("<th ").skip(1))
                .filter_map(|cell| cell.split(['>', '<']).nth(1).map(str::trim_end))
                .collect();
            assert_eq!(heads, columns.iter().map(|(_, label)| *label).collect::<Vec<_>>(), "{place}");
        }
    }

    #[test]
    fn the_page_is_small() {
        let size = PAGE.len() + STYLE.len() + SCRIPT.len();
        assert!(size < 40_000, "the page, its style and its script have {size} bytes");
    }

    #[test]
    fn numbers_and_durations_read_well() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expected);
        }
        for (micros, expected) in [
            (0, "0 \u{b5}s"),
            (999, "999 \u{b5}s"),
            (1_234, "1.23 ms"),
            (380_924, "381 ms"),
            (999_499, "999 ms"),
            (999_500, "1.00 s"),
            (61_050_000, "61.0 s"),
            (5_000_000_000, "5,000 s"),
        ] {
            assert_eq!(time(micros), expected);
        }
        for (seconds, expected) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_600, "1 h 0 min"), (90_061, "1 d 1 h")]
        {
            assert_eq!(span(seconds), expected);
        }
    }

    #[test]
    fn a_client_gets_the_format_that_it_likes_best() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/html,application/xhtml+xml", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
            ("application/openmetrics-text;q=0.5,text/plain;q=0.9", false),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
        ] {
            assert_eq!(prefers_openmetrics([accept.as_bytes()].into_iter()), expected, "{accept}");
        }
    }
}
