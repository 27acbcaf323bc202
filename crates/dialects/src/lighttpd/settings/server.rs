//! The server itself: its user, its logs, limits, TLS, and the proxies in front of it.

use crate::draft::{Draft, Host, Scope};
use crate::lighttpd::convert::unconverted;
use crate::lighttpd::read::Datum;
use crate::tree::Place;

use super::{Setting, number};

/// The setting, if it is about the server.
pub fn apply(setting: &Setting, host: &mut Host, draft: &mut Draft) -> bool {
    let Setting { name, value, place, .. } = *setting;
    let text = value.text();
    let seconds = || number(value).clamp(1, 86_400);
    match name {
        "server.port" | "server.bind" | "ssl.engine" | "server.dir-listing.encoding" => {}
        "server.username" => draft.top.set(place, "user", text),
        "server.groupname" => draft.top.set(place, "group", text),
        "server.pid-file" => draft.top.set(place, "pid_file", text),
        "server.chroot" => draft.top.set(place, "chroot", text),
        "server.errorlog-use-syslog" if value.is_on() => draft.log.set(place, "error", "syslog"),
        "server.errorlog" => draft.log.set(place, "error", log_target(text)),
        "accesslog.filename" => draft.log.set(place, "access", log_target(text)),
        "accesslog.use-syslog" if value.is_on() => draft.log.set(place, "access", "syslog"),
        "accesslog.format" => {
            let has_agent = text.to_ascii_lowercase().contains("user-agent");
            draft.log.set(place, "format", if has_agent { "combined" } else { "common" });
            draft.warn(place, "accesslog.format: a format of the server is nearest", "see format of [log]");
        }
        "server.breakagelog" => {
            draft.warn(place, "what scripts say goes to the error log", "see stderr_lines of [scripts]");
        }
        name if name.starts_with("status.") => {
            draft.warn(place, format!("{name}: there is no such page"), "see taipan stats");
        }
        "server.tag" if text.is_empty() => draft.top.set(place, "server_header", false),
        "server.tag" => draft.top.set(place, "server_header", text),
        "server.max-connections" => draft.limits.set(place, "connections", number(value).clamp(1, 1_000_000)),
        "server.max-keep-alive-requests" => {
            draft.limits.set(place, "requests", number(value).clamp(0, 1_000_000))
        }
        "server.max-keep-alive-idle" => draft.timeouts.set(place, "idle", seconds()),
        "server.max-read-idle" => {
            draft.timeouts.set(place, "head", seconds());
            draft.timeouts.set(place, "body", seconds());
        }
        "server.max-write-idle" => draft.timeouts.set(place, "write", seconds()),
        "server.max-request-size" => match text.parse::<i64>() {
            Ok(..=0) => setting.set(host, "max_body", 1 << 40),
            Ok(kibibytes) => setting.set(host, "max_body", kibibytes.min(1 << 30) << 10),
            Err(_) => draft.error(place, unconverted(name), "write a number"),
        },
        "connection.kbytes-per-second" | "server.kbytes-per-second" if text == "0" => {}
        "connection.kbytes-per-second" if number(value) > 0 => speed(setting, "connection", host),
        "server.kbytes-per-second" if number(value) > 0 => speed(setting, "all", host),
        "ssl.pemfile" => setting.set(host, "certificate", text),
        "ssl.privkey" => setting.set(host, "certificate_key", text),
        "ssl.ca-file" | "ssl.cipher-list" | "ssl.openssl.ssl-conf-cmd" | "ssl.honor-cipher-order" => {
            draft.note(place, format!("{name} has no effect"), "see [tls]");
        }
        "extforward.forwarder" => trusted(value, place, draft),
        "extforward.headers" | "extforward.params" | "extforward.hap-PROXY" => {
            draft.note(place, format!("{name} has no effect"), "see trusted_proxies");
        }
        _ => return false,
    }
    true
}

/// The target of a log. lighttpd runs a command by `/bin/sh`, which `|$` means here.
fn log_target(text: &str) -> String {
    text.strip_prefix('|').map_or_else(|| text.to_owned(), |command| format!("|${}", command.trim_start()))
}

fn speed(setting: &Setting, by: &str, host: &mut Host) {
    let mut limit = Scope::new(setting.place.line);
    limit.set(setting.place, "by", by);
    limit.set(setting.place, "download", number(setting.value).clamp(1, 1 << 30) << 10);
    setting.each(host, |scope| scope.limits.push(limit.clone()));
}

/// `extforward.forwarder = ("10.0.0.1" => "trust")`.
fn trusted(value: &Datum, place: &Place, draft: &mut Draft) {
    let all: Vec<String> = value.pairs().iter().map(|(address, _)| (*address).to_owned()).collect();
    let is_known = |(address, trust): &(&str, &Datum)| *address != "all" && trust.text() == "trust";
    match value.pairs().iter().all(is_known) && !all.is_empty() {
        true => draft.top.set(place, "trusted_proxies", all),
        false => {
            draft.error(place, unconverted("extforward.forwarder"), "write the addresses of the proxies")
        }
    }
}
