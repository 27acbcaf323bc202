//! Reads the limits of speed and of requests: the tables `[[limit]]` of the top level, of hosts and of routes, and
//! throttle files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use taipan_http::fields::is_token;
use taipan_http::status::Status;

use super::error::{Errors, Place};
use super::keys::Scope;
use super::section::{Section, text};
use super::{Source, read_text};
use crate::limit::throttle_file::{self, Line};
use crate::limit::{
    By, ByteRate, Concurrency, Enforcement, Limit, LimitId, MAX_LIMITS, MAX_MATCHES, MAX_OF_ROUTE, Paths,
    RequestRate, named,
};

/// Statuses that need a field which a limit does not set.
const INCOMPLETE: [u64; 5] = [401, 405, 407, 416, 426];
const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// Reads limits, and numbers them. A table that is read for several routes is one limit.
pub struct LimitReader<'s> {
    source: &'s dyn Source,
    limits: RefCell<Vec<Limit>>,
    /// By their paths: the number of a throttle file, and its limits.
    files: RefCell<BTreeMap<std::path::PathBuf, Vec<LimitId>>>,
    /// The names in rules of access.
    references: RefCell<Vec<(String, Place)>>,
}

impl LimitReader<'_> {
    pub fn new(source: &dyn Source) -> LimitReader<'_> {
        LimitReader {
            source,
            limits: RefCell::default(),
            files: RefCell::default(),
            references: RefCell::default(),
        }
    }

    /// A rule of access names a limit, which may follow it.
    pub fn refer(&self, name: &str, place: &Place) {
        self.references.borrow_mut().push((name.to_owned(), place.clone()));
    }

    pub fn into_limits(self, errors: &Errors, place: &Place) -> Vec<Limit> {
        let mut limits = self.limits.into_inner();
        if limits.len() > MAX_LIMITS {
            let what = format!("there are more than {MAX_LIMITS} limits, with the lines of throttle files");
            errors.add(place, what, "use patterns that match more");
        }
        for (name, place) in self.references.into_inner() {
            if named(&limits, &name).is_none() {
                let what = format!("there is no limit \"{}\"", name.escape_debug());
                errors.add(&place, what, "add a [[limit]] with this name");
            }
        }
        // Equal limits of one place in the configuration differ in their order.
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        for limit in &mut limits {
            let before = seen.entry(limit.identity).or_default();
            limit.identity = limit.identity.wrapping_add(*before);
            *before += 1;
        }
        limits
    }

    /// The limits of a section, behind the inherited ones.
    pub fn of(&self, section: &Section, inherited: &[LimitId]) -> Vec<LimitId> {
        let mut ids = inherited.to_vec();
        let tables = section.sections("limit", Scope::Limit);
        for (at, table) in tables.iter().enumerate() {
            let same_line = tables[..at].iter().filter(|other| other.place() == table.place()).count();
            let Some(limit) = limit(table, same_line, section) else { continue };
            let is_named = limit.name.is_some();
            self.reject_second_name(table, &limit);
            let id = self.add(limit);
            ids.extend(id.filter(|_| !is_named));
        }
        if ids.len() > MAX_OF_ROUTE && section.has("limit") {
            let limits = self.limits.borrow();
            let is_table = |id: &&LimitId| !matches!(limits[usize::from(id.0)].paths, Paths::Throttle(..));
            if ids.iter().filter(is_table).count() > MAX_OF_ROUTE {
                let what = format!("more than {MAX_OF_ROUTE} limits apply here");
                section.errors.add(section.place_of("limit"), what, "merge some, or move them to routes");
            }
        }
        // Only the top level and hosts have one.
        if section.scope != Scope::Route {
            ids.extend(self.throttle_file(section));
        }
        ids
    }

    /// `None`: there are too many.
    fn add(&self, limit: Limit) -> Option<LimitId> {
        let mut limits = self.limits.borrow_mut();
        let at = limits.iter().position(|other| *other == limit).unwrap_or(limits.len());
        if at > MAX_LIMITS {
            return None;
        }
        if at == limits.len() {
            limits.push(limit);
        }
        u16::try_from(at).ok().map(LimitId)
    }

    fn reject_second_name(&self, table: &Section, limit: &Limit) {
        let limits = self.limits.borrow();
        let is_other = |other: &&Limit| other.name == limit.name && **other != *limit;
        if limit.name.is_some()
            && let Some(other) = limits.iter().find(is_other)
        {
            let what =
                format!("two limits have the name \"{}\": the other is in {}", other.label(), other.place);
            table.errors.add(table.place_of("name"), what, "give one of them another name");
        }
    }

    fn throttle_file(&self, section: &Section) -> Vec<LimitId> {
        let Some(path) = section.path("throttle_file") else { return Vec::new() };
        if let Some(ids) = self.files.borrow().get(&path) {
            return ids.clone();
        }
        let place = section.place_of("throttle_file");
        let Some(text) = read_text(&path, place, self.source, section.errors) else { return Vec::new() };
        let (lines, errors) = throttle_file::parse(&text);
        let at = |line| Place { file: path.as_path().into(), line: Some(line) };
        for (line, error) in errors {
            let (what, what_to_do) = error.sentence();
            section.errors.warn(&at(line), format!("{what}, so it limits nothing"), what_to_do);
        }
        for line in throttle_file::superseded(&lines, MAX_MATCHES) {
            let what =
                format!("{MAX_MATCHES} lines before this one match the same paths, so it limits nothing");
            section.errors.warn(&at(line), what, "move it to the front, or make one line of several");
        }
        let number = self.files.borrow().len() as u16;
        let ids: Vec<LimitId> =
            lines.into_iter().filter_map(|line| self.add(line_limit(line, number, at))).collect();
        self.files.borrow_mut().insert(path, ids.clone());
        ids
    }
}

/// The limit of a line of a throttle file.
fn line_limit(line: Line, file: u16, place: impl Fn(u32) -> Place) -> Limit {
    let Line { number, pattern, min, max } = line;
    Limit {
        name: None,
        place: place(number).to_string(),
        identity: hash(&("throttle", pattern.to_string())),
        paths: Paths::Throttle(pattern, file),
        by: By::All,
        download: Some(ByteRate { rate: max, burst: None }),
        upload: None,
        min_download: min,
        requests: None,
        concurrent: None,
        status: Status::SERVICE_UNAVAILABLE,
        announced: false,
        enforcement: Enforcement::Enforced,
    }
}

/// What a limit belongs to, also in another version of the configuration.
fn owner(section: &Section) -> String {
    let of = |name: &str| section.table.get(name).map(|entry| format!("{:?}", text(&entry.node)));
    [Some(section.scope.name().to_owned()), of("names"), of("path")].into_iter().flatten().collect()
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The limit of a table in a section. `same_line`: tables before it in the same line. `None`: after an error.
fn limit(table: &Section, same_line: usize, section: &Section) -> Option<Limit> {
    let name = name(table);
    let paths = paths(table)?;
    let by = match by(table)? {
        // A rule of another route may name it.
        By::Route if section.scope == Scope::Route && name.is_none() => By::OwnRoute,
        by => by,
    };
    let burst = table.size("burst");
    let rate = |name| table.byte_rate(name).map(|rate| ByteRate { rate, burst });
    let (download, upload) = (rate("download"), rate("upload"));
    let requests = requests(table);
    let concurrent = table.count("concurrent").map(|most| Concurrency {
        most,
        queue: table.count("queue").unwrap_or(0),
        wait: table.duration("wait").unwrap_or(DEFAULT_WAIT),
    });
    reject_without(table, "burst", &["download", "upload"]);
    reject_without(table, "min_download", &["download"]);
    reject_without(table, "requests_burst", &["requests"]);
    reject_without(table, "announce", &["requests"]);
    reject_without(table, "queue", &["concurrent"]);
    reject_without(table, "wait", &["queue"]);
    reject_without(table, "status", &["requests", "concurrent"]);
    if !["download", "upload", "requests", "concurrent"].iter().any(|name| table.has(name)) {
        let what = "this limit limits nothing";
        table.errors.add(table.place(), what, "add download, upload, requests or concurrent");
    }
    let min_download = table.byte_rate("min_download").unwrap_or(0);
    if download.is_some_and(|download| download.rate < min_download) {
        let what = "\"min_download\" is above \"download\"";
        table.errors.add(table.place_of("min_download"), what, "lower it: nothing would be served");
    }
    let dry_run = table.flag("dry_run").unwrap_or(false);
    let place = match same_line {
        0 => table.place().to_string(),
        before => format!("{}, limit {}", table.place(), before + 1),
    };
    Some(Limit {
        identity: hash(&(owner(section), &name, format!("{paths:?}{by}"))),
        name,
        place,
        paths,
        by,
        download,
        upload,
        min_download,
        requests,
        concurrent,
        status: status(table)?,
        announced: table.flag("announce").unwrap_or(false),
        enforcement: if dry_run { Enforcement::DryRun } else { Enforcement::Enforced },
    })
}

fn reject_without(table: &Section, name: &str, needed: &[&str]) {
    if !needed.iter().any(|needed| table.has(needed)) {
        let needed: Vec<String> = needed.iter().map(|name| format!("\"{name}\"")).collect();
        let what = format!("is for {}", needed.join(" or "));
        table.reject_keys(&[name], &what, &format!("add {}, or remove it", needed.join(" or ")));
    }
}

/// It stands in response fields, logs and rules.
fn name(table: &Section) -> Option<String> {
    let given = table.text("name")?;
    if !is_token(given.value.as_bytes()) {
        table.reject("name", given.place, "is not a name of letters, digits and dashes");
    }
    Some(given.value.to_owned())
}

fn paths(table: &Section) -> Option<Paths> {
    let Some(texts) = table.texts("paths") else { return Some(Paths::All) };
    let patterns = texts.iter().map(|given| table.pattern(given.value, given.place));
    patterns.collect::<Option<Vec<_>>>().map(Paths::Patterns)
}

fn by(table: &Section) -> Option<By> {
    let Some(given) = table.text("by") else { return Some(By::Client) };
    let is_name = |name: &&str| is_token(name.as_bytes());
    let by = match given.value.split_once(':') {
        Some(("field", name)) => Some(name).filter(is_name).map(|name| By::Field(name.to_ascii_lowercase())),
        Some(("cookie", name)) => Some(name).filter(is_name).map(|name| By::Cookie(name.to_owned())),
        _ => match given.value {
            "connection" => Some(By::Connection),
            "client" => Some(By::Client),
            "route" => Some(By::Route),
            "host" => Some(By::Host),
            "all" => Some(By::All),
            _ => None,
        },
    };
    if by.is_none() {
        let what = format!("\"by\" cannot be \"{}\"", given.value.escape_debug());
        let what_to_do = "expected \"connection\", \"client\", \"route\", \"host\", \"all\", \"field:NAME\" or \"cookie:NAME\"";
        table.errors.add(given.place, what, what_to_do);
    }
    by
}

fn requests(table: &Section) -> Option<RequestRate> {
    let (count, period) = table.rate("requests")?;
    // As many as come in a second.
    let in_a_second = (count as u128 * 1_000_000_000 / period.as_nanos().max(1)).max(1) as u64;
    Some(RequestRate { count, period, burst: table.count("requests_burst").unwrap_or(in_a_second) })
}

fn status(table: &Section) -> Option<Status> {
    let Some(code) = table.count::<u64>("status") else { return Some(Status::TOO_MANY_REQUESTS) };
    if INCOMPLETE.contains(&code) {
        let what = format!("\"status\" cannot be {code}, which needs a field of its own");
        table.errors.add(table.place_of("status"), what, "use 429 or 503");
        return None;
    }
    u16::try_from(code).ok().and_then(Status::new)
}
