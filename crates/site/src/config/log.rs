//! Reads the section `[log]`, and what the access logs of hosts take from it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use taipan_http::negotiate::Coding;

use super::Source;
use super::keys::Scope;
use super::section::Section;
use crate::log_fields;
use crate::log_selection::{LogSelection, Only};
use crate::model::{AccessLog, ErrorFormat, ErrorLines, Level, Log, LogFormat, LoggedClients, LoggedHost};
use crate::rotation::{Period, RotatedNames, Rotation};
use crate::timezone::{MAX_FILE as MAX_ZONE, TimeZone};

/// Where the zones of the time zone database are.
const ZONES: &str = "/usr/share/zoneinfo";
/// The zone of this machine: a file of that database, or a text.
const LOCAL_ZONES: [&str; 2] = ["/etc/localtime", "/etc/TZ"];

/// What the access logs of hosts take from that of all.
pub struct HostLogs {
    pub format: LogFormat,
    /// `None`: they have no files of their own by a key of `[log]`.
    pub by_host: Option<AccessLog>,
}

/// The logs, and what those of hosts take from them.
pub fn log(top: &Section, source: &dyn Source) -> (Log, HostLogs) {
    let defaults = Log::default();
    let Some(section) = top.section("log", Scope::Log) else {
        return (defaults, HostLogs { format: LogFormat::Combined, by_host: None });
    };
    let level = section.choice("level").and_then(Level::from_name);
    let format = match section.choice("format") {
        Some("common") => LogFormat::Common,
        Some("boa") => LogFormat::Boa,
        Some("boa-host") => LogFormat::BoaHost,
        Some("boa-address") => LogFormat::BoaAddress,
        Some("thttpd") => LogFormat::Thttpd,
        Some("thttpd-host") => LogFormat::ThttpdHost,
        Some("json") => LogFormat::Json,
        _ => LogFormat::Combined,
    };
    let format = fields(&section).unwrap_or(format);
    let access =
        section.sink("access").map(|sink| sink.map(|sink| AccessLog { sink, format: format.clone() }));
    let host = match format {
        LogFormat::BoaHost => LoggedHost::Name,
        LogFormat::BoaAddress => LoggedHost::Address,
        _ => LoggedHost::Nothing,
    };
    let log = Log {
        access: access.unwrap_or(defaults.access),
        error: section.sink("error").flatten().unwrap_or(defaults.error),
        level: level.unwrap_or(defaults.level),
        queue: section.count("queue").unwrap_or(defaults.queue),
        selection: selection(&section),
        scripts: section.sink("scripts").flatten(),
        rotation: section.section("rotate", Scope::Rotate).map(|section| rotation(&section)),
        errors: ErrorLines {
            format: match section.choice("error_format") {
                Some("boa") => ErrorFormat::Boa,
                _ => ErrorFormat::Taipan,
            },
            zone: zone(&section, source).map(Arc::new),
        },
        clients: match section.flag("forwarded_for") {
            Some(true) => LoggedClients::ForwardedFor,
            _ => LoggedClients::Addresses,
        },
        client_errors: section.flag("client_errors").filter(|is_on| *is_on).map(|_| host),
        script_starts: section.flag("script_starts").unwrap_or(false),
    };
    let by_host = log.access.clone().filter(AccessLog::is_by_host);
    (log, HostLogs { format, by_host })
}

/// `None`: UTC.
fn zone(section: &Section, source: &dyn Source) -> Option<TimeZone> {
    let given = section.text("timezone")?;
    let read = |path: &Path| {
        let bytes = source.read(path, MAX_ZONE).ok()?;
        TimeZone::of_file(&bytes).or_else(|| TimeZone::of_text(std::str::from_utf8(&bytes).ok()?.trim()))
    };
    let named = |name: &str| TimeZone::of_text(name).or_else(|| read(&Path::new(ZONES).join(name)));
    let own = || source.timezone().and_then(|name| named(name.trim_start_matches(':')));
    match given.value {
        "UTC" => None,
        // As localtime(3): a machine without a zone has UTC.
        "local" => own().or_else(|| LOCAL_ZONES.iter().find_map(|path| read(Path::new(path)))),
        name => named(name).or_else(|| {
            let what = format!("there is no time zone \"{}\"", name.escape_debug());
            let what_to_do =
                "write \"local\", a name such as \"Europe/Berlin\", or \"CET-1CEST,M3.5.0,M10.5.0/3\"";
            section.errors.add(given.place, what, what_to_do);
            None
        }),
    }
}

fn fields(section: &Section) -> Option<LogFormat> {
    let given = section.text("fields")?;
    if section.has("format") {
        section.reject_keys(&["fields"], "and \"format\" exclude each other", "remove one of them");
    }
    match log_fields::parse(given.value) {
        Ok(parts) => Some(LogFormat::Fields(parts)),
        Err(why) => {
            let (what, to_do) =
                why.split_once("; ").unwrap_or((&why, "write the names of fields, such as $status"));
            section.errors.add(given.place, format!("\"fields\" {what}"), to_do);
            None
        }
    }
}

fn selection(section: &Section) -> LogSelection {
    let only = section.choices("only").map(|words| Only {
        errors: words.contains(&"errors"),
        server_errors: words.contains(&"server-errors"),
        slow: words.contains(&"slow"),
    });
    let slow = section.duration("slow").unwrap_or(Duration::from_secs(1));
    if section.has("slow") && !only.is_some_and(|only| only.slow) {
        section.reject_keys(&["slow"], "has no effect", "add only = [\"slow\"]");
    }
    LogSelection { only, sample: section.count("sample"), slow }
}

fn rotation(section: &Section) -> Rotation {
    let second = section.text("at").map_or(0, |at| {
        time_of_day(at.value).unwrap_or_else(|| {
            section.reject("at", at.place, "is no time of the day, such as \"03:30\"");
            0
        })
    });
    let period = section.choice("every").map(|word| match word {
        "hour" => Period::Hour,
        _ => Period::Day(second),
    });
    if section.has("at") && !matches!(period, Some(Period::Day(_))) {
        section.reject_keys(&["at"], "has no effect", "add every = \"day\"");
    }
    let size = section.size("size");
    // A value that is none has its own message.
    if size.is_none() && period.is_none() && section.lacks("size") && section.lacks("every") {
        let what = "\"rotate\" does not say when";
        section.errors.add(section.place(), what, "add every = \"day\", or size = \"100MiB\"");
    }
    Rotation {
        size,
        period,
        keep: section.count("keep").unwrap_or(14),
        keep_size: section.size("keep_size"),
        compress: match section.choice("compress") {
            Some("none") => None,
            Some("zstd") => Some(Coding::Zstd),
            _ => Some(Coding::Gzip),
        },
        names: match section.choice("names") {
            Some("number") => RotatedNames::Number,
            _ => RotatedNames::Date,
        },
    }
}

/// `03:30` in seconds.
fn time_of_day(text: &str) -> Option<i64> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str, below: i64| -> Option<i64> {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number < below)
    };
    Some(number(hour, 24)? * 3600 + number(minute, 60)? * 60)
}
