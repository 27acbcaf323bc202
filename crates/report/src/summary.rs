//! The counts of a report, line by line. All tables are bounded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::agent::{Agent, bot_name, classify};
use crate::entry::{Date, Entry, Time, parse};
use crate::top::{Count, Top};

/// Names in a table at the same time: 20 to 60 MB, if all of them are long.
const NAMES: usize = 50_000;
/// Visitors that are told apart: 16 MB.
const VISITORS: usize = 1 << 21;
/// Days with counts of their own.
const DAYS: usize = 4000;
/// Agents whose kind is remembered.
const AGENTS: usize = 20_000;
const SLOWEST: usize = 20;

/// Ends of paths that belong to a page, and are none.
const STATIC: &[&str] = &[
    "css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "ico", "woff", "woff2",
    "ttf", "otf", "eot", "mp3", "mp4", "webm", "ogg", "wav", "pdf", "zip", "gz", "zst", "br", "xz", "bz2",
    "tar", "wasm", "json", "xml", "txt",
];

#[derive(Debug)]
pub struct Summary {
    /// Lines with a known format.
    pub all: Count,
    pub unknown_lines: u64,
    pub bots: Count,
    pub visitors: u64,
    /// There were more visitors than are told apart.
    pub has_more_visitors: bool,
    pub first: Option<Time>,
    pub last: Option<Time>,
    pub days: BTreeMap<Date, Period>,
    pub hours: [Period; 24],
    /// By code.
    pub statuses: BTreeMap<u16, Count>,
    pub methods: Top,
    pub versions: Top,
    pub pages: Top,
    pub files: Top,
    pub missing: Top,
    pub hosts: Top,
    pub clients: Top,
    pub referers: Top,
    pub agents: Top,
    pub bot_names: Top,
    pub browsers: BTreeMap<&'static str, Count>,
    pub systems: BTreeMap<&'static str, Count>,
    slowest: BinaryHeap<Reverse<Slow>>,
    visits: HashSet<u64, RandomState>,
    kinds: HashMap<Box<[u8]>, Agent, RandomState>,
    hasher: RandomState,
}

/// A day, or an hour of all days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Period {
    pub requests: u64,
    pub bytes: u64,
    /// Different visitors of a day. Those of an hour are not counted.
    pub visitors: u64,
}

/// A request that took long.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slow {
    pub micros: u64,
    pub time: Time,
    pub status: u16,
    pub target: Box<[u8]>,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary {
            all: Count::default(),
            unknown_lines: 0,
            bots: Count::default(),
            visitors: 0,
            has_more_visitors: false,
            first: None,
            last: None,
            days: BTreeMap::new(),
            hours: [Period::default(); 24],
            statuses: BTreeMap::new(),
            methods: Top::new(100),
            versions: Top::new(100),
            pages: Top::new(NAMES),
            files: Top::new(NAMES),
            missing: Top::new(NAMES),
            hosts: Top::new(NAMES),
            clients: Top::new(NAMES),
            referers: Top::new(NAMES),
            agents: Top::new(NAMES),
            bot_names: Top::new(1000),
            browsers: BTreeMap::new(),
            systems: BTreeMap::new(),
            slowest: BinaryHeap::new(),
            visits: HashSet::default(),
            kinds: HashMap::default(),
            hasher: RandomState::default(),
        }
    }
}

impl Summary {
    /// Adds one line, without its end.
    pub fn add_line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match parse(line) {
            Some(entry) => self.add(&entry),
            None if line.is_empty() => {}
            None => self.unknown_lines += 1,
        }
    }

    /// Those that took the longest, the longest first.
    pub fn slowest(&self) -> Vec<&Slow> {
        let mut all: Vec<&Slow> = self.slowest.iter().map(|Reverse(slow)| slow).collect();
        sort::by(&mut all, |one, other| other.cmp(one));
        all
    }

    fn add(&mut self, entry: &Entry<'_>) {
        let micros = entry.micros.unwrap_or(0);
        let sent = entry.sent;
        self.all.add(sent, micros);
        self.first = Some(self.first.map_or(entry.time, |first| first.min(entry.time)));
        self.last = Some(self.last.map_or(entry.time, |last| last.max(entry.time)));
        self.statuses.entry(entry.status.min(999)).or_default().add(sent, micros);
        if let Some(agent) = entry.agent {
            self.add_agent(agent, sent, micros);
        }
        self.add_time(entry);
        self.add_target(entry, micros);
        self.methods.add(if entry.method.is_empty() { b"-" } else { entry.method }, sent, micros);
        self.versions.add(if entry.version.is_empty() { b"-" } else { entry.version }, sent, micros);
        self.clients.add(entry.client, sent, micros);
        if !entry.host.is_empty() {
            self.hosts.add(entry.host, sent, micros);
        }
        if let Some(site) = referring_site(entry) {
            self.referers.add(site, sent, micros);
        }
        self.add_slow(entry, micros);
    }

    fn kind_of(&mut self, agent: &[u8]) -> Agent {
        if let Some(kind) = self.kinds.get(agent) {
            return *kind;
        }
        let kind = classify(agent);
        if self.kinds.len() < AGENTS && agent.len() < 1024 {
            self.kinds.insert(agent.into(), kind);
        }
        kind
    }

    fn add_agent(&mut self, agent: &[u8], sent: u64, micros: u64) {
        let kind = self.kind_of(agent);
        if kind.is_bot {
            self.bots.add(sent, micros);
            self.bot_names.add(bot_name(agent), sent, micros);
        } else {
            self.browsers.entry(kind.browser).or_default().add(sent, micros);
            self.systems.entry(kind.system).or_default().add(sent, micros);
        }
        self.agents.add(if agent.is_empty() { b"-" } else { agent }, sent, micros);
    }

    fn add_time(&mut self, entry: &Entry<'_>) {
        let visit = self.hasher.hash_one((entry.time.date(), entry.client, entry.agent));
        let is_full = self.visits.len() >= VISITORS;
        self.has_more_visitors |= is_full;
        let is_new = !is_full && self.visits.insert(visit);
        self.visitors += u64::from(is_new);
        let hour = &mut self.hours[usize::from(entry.time.hour.min(23))];
        hour.requests += 1;
        hour.bytes = hour.bytes.saturating_add(entry.sent);
        let date = entry.time.date();
        if self.days.len() < DAYS || self.days.contains_key(&date) {
            let day = self.days.entry(date).or_default();
            day.requests += 1;
            day.bytes = day.bytes.saturating_add(entry.sent);
            day.visitors += u64::from(is_new);
        }
    }

    fn add_target(&mut self, entry: &Entry<'_>, micros: u64) {
        let path = path(entry.target);
        match entry.status {
            404 => self.missing.add(path, entry.sent, micros),
            400..=599 => {}
            _ if is_static(path) => self.files.add(path, entry.sent, micros),
            _ => self.pages.add(path, entry.sent, micros),
        }
    }

    fn add_slow(&mut self, entry: &Entry<'_>, micros: u64) {
        let is_slow = self.slowest.len() < SLOWEST
            || self.slowest.peek().is_some_and(|Reverse(fastest)| fastest.micros < micros);
        if entry.micros.is_none() || !is_slow {
            return;
        }
        let target = &entry.target[..entry.target.len().min(crate::top::MAX_NAME)];
        let slow = Slow { micros, time: entry.time, status: entry.status, target: target.into() };
        self.slowest.push(Reverse(slow));
        if self.slowest.len() > SLOWEST {
            self.slowest.pop();
        }
    }
}

/// A target without its query.
fn path(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    &target[..end]
}

fn is_static(path: &[u8]) -> bool {
    let last = path.iter().rposition(|byte| matches!(byte, b'.' | b'/'));
    let Some(extension) = last.filter(|at| path[*at] == b'.').map(|at| &path[at + 1..]) else { return false };
    STATIC.iter().any(|known| extension.eq_ignore_ascii_case(known.as_bytes()))
}

/// The host of a `Referer`. `None`: there is none, or it is the host of the request itself.
fn referring_site<'l>(entry: &Entry<'l>) -> Option<&'l [u8]> {
    if entry.referer.is_empty() {
        return None;
    }
    let behind = entry.referer.windows(3).position(|window| window == b"://").map_or(0, |at| at + 3);
    let rest = &entry.referer[behind..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let site = &rest[..end];
    (!site.is_empty() && !site.eq_ignore_ascii_case(entry.host)).then_some(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0";

    fn line(client: &str, time: &str, target: &str, status: u16, agent: &str) -> String {
        format!(
            r#"{client} - - [{time} +0000] "GET {target} HTTP/1.1" {status} 100 "https://search.example/?q" "{agent}" a.example 0.25 -"#
        )
    }

    #[test]
    fn counts_what_a_day_has() {
        let mut summary = Summary::default();
        let day = "20/Nov/2026:07:49:41";
        for line in [
            line("192.0.2.1", day, "/", 200, BROWSER),
            line("192.0.2.1", day, "/style.css?v=1", 200, BROWSER),
            line("192.0.2.1", "21/Nov/2026:08:00:00", "/?page=2", 200, BROWSER),
            line("192.0.2.2", day, "/wp-login.php", 404, "Mozilla/5.0 (compatible; Testbot/1)"),
            line("192.0.2.2", day, "/", 500, "curl/8"),
            "nonsense".to_owned(),
            String::new(),
        ] {
            summary.add_line(line.as_bytes());
        }
        assert_eq!((summary.all.requests, summary.all.bytes, summary.unknown_lines), (5, 500, 1));
        assert_eq!((summary.visitors, summary.bots.requests), (4, 2));
        let names = |top: &Top| -> Vec<String> {
            let text = |(name, count): &(&[u8], Count)| {
                format!("{} {}", String::from_utf8_lossy(name), count.requests)
            };
            top.most(9).iter().map(text).collect()
        };
        assert_eq!(names(&summary.pages), ["/ 2"]);
        assert_eq!(names(&summary.files), ["/style.css 1"]);
        assert_eq!(names(&summary.missing), ["/wp-login.php 1"]);
        assert_eq!(names(&summary.referers), ["search.example 5"]);
        assert_eq!(names(&summary.hosts), ["a.example 5"]);
        assert_eq!(names(&summary.bot_names), ["Testbot 1", "curl 1"]);
        let days: Vec<(u8, u64, u64)> =
            summary.days.iter().map(|(date, period)| (date.day, period.requests, period.visitors)).collect();
        assert_eq!(days, [(20, 4, 3), (21, 1, 1)]);
        assert_eq!((summary.hours[7].requests, summary.hours[8].requests), (4, 1));
        assert_eq!(summary.browsers["Firefox"].requests, 3);
        assert_eq!(summary.statuses.keys().copied().collect::<Vec<_>>(), [200, 404, 500]);
        assert_eq!(summary.slowest().len(), 5);
    }

    #[test]
    fn counts_no_bots_where_the_format_has_no_user_agents() {
        let bots = |line: &str| {
            let mut summary = Summary::default();
            summary.add_line(line.as_bytes());
            assert_eq!(summary.all.requests, 1, "{line}");
            (summary.bots.requests, summary.bot_names.most(9).len(), summary.agents.most(9).len())
        };
        let common = r#"192.0.2.1 - - [20/Nov/2026:07:49:41 +0000] "GET / HTTP/1.1" 200 100"#;
        for line in [
            common,
            &format!("{common} a.example 0.25 -"),
            r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.1","status":200}"#,
        ] {
            assert_eq!(bots(line), (0, 0, 0), "{line}");
        }
        for line in [
            &*format!(r#"{common} "-" "-""#),
            &format!(r#"{common} "" """#),
            r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.1","status":200,"user_agent":null}"#,
        ] {
            assert_eq!(bots(line), (1, 1, 1), "{line}");
        }
    }
}
