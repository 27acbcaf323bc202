//! The options of `config uhttpd`, and the flags that OpenWrt starts uhttpd with for them.

use std::path::Path;

use super::flags::Given;
use super::protection::User;
use super::uci::{self, EntryKind, Section};
use crate::disk::Disk;
use crate::finding::Findings;
use crate::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The last value.
    One,
    /// Each word of each value.
    Each,
    Flag,
}

use Kind::{Each, Flag, One};

/// The name of an option, its flag, and its values.
const OPTIONS: &[(&str, char, Kind)] = &[
    ("listen_http", 'p', Each),
    ("listen_https", 's', Each),
    ("cert", 'C', One),
    ("key", 'K', One),
    ("redirect_https", 'q', Flag),
    ("home", 'h', One),
    ("realm", 'r', One),
    ("config", 'c', One),
    ("cgi_prefix", 'x', One),
    ("alias", 'y', Each),
    ("interpreter", 'i', Each),
    ("index_page", 'I', Each),
    ("error_page", 'E', One),
    ("script_timeout", 't', One),
    ("network_timeout", 'T', One),
    ("http_keepalive", 'k', One),
    ("tcp_keepalive", 'A', One),
    ("max_requests", 'n', One),
    ("max_connections", 'N', One),
    ("no_symlinks", 'S', Flag),
    ("no_dirlists", 'D', Flag),
    ("rfc1918_filter", 'R', Flag),
    ("lua_prefix", 'l', Each),
    ("lua_handler", 'L', One),
    ("ucode_prefix", 'o', Each),
    ("json_script", 'H', Each),
    ("ubus_prefix", 'u', One),
    ("ubus_socket", 'U', One),
    ("no_ubusauth", 'a', Flag),
    ("ubus_cors", 'X', Flag),
];

/// The sections whose passwords an instance has.
const PASSWORDS: &str = "httpauth";

/// The file with the name of this machine, which is the default of `realm`.
const SYSTEM: &str = "/etc/config/system";
/// Where that has no name.
const REALM: &str = "OpenWrt";
/// The certificate that OpenWrt makes.
const CERTIFICATE: (&str, &str) = ("/etc/uhttpd.crt", "/etc/uhttpd.key");
const MAX_REQUESTS: &str = "3";

pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|(name, ..)| *name).chain([PASSWORDS])
}

/// What a file says: flags, and users of paths.
pub fn read(text: &str, disk: &dyn Disk, findings: &mut Findings) -> (Vec<Given>, Vec<User>) {
    let sections = uci::read(text, findings);
    let mut instances = sections.iter().filter(|section| section.kind == "uhttpd");
    let Some(instance) = instances.next() else {
        findings.error(
            None,
            "there is no section of type uhttpd, so that nothing is served",
            "write config uhttpd main",
        );
        return (Vec::new(), Vec::new());
    };
    for other in instances {
        let what = format!("{} is a second instance", other.name.escape_debug());
        findings.error(Some(other.line), what, "convert it from a file of its own");
    }
    report_unknown(instance, findings);
    let mut given = Vec::new();
    for (name, letter, kind) in OPTIONS {
        let entries = values(instance, name);
        let one =
            |value: &str, line: u32| Given { letter: *letter, value: value.to_owned(), line: Some(line) };
        match kind {
            Each => {
                let words = entries
                    .iter()
                    .flat_map(|(value, line)| value.split_whitespace().map(|word| (word, *line)));
                given.extend(words.map(|(word, line)| one(word, line)));
            }
            One => given
                .extend(entries.last().filter(|(value, _)| !value.is_empty()).map(|(v, line)| one(v, *line))),
            Flag => {
                let is_on = |value: &str| matches!(value, "1" | "on" | "true" | "yes" | "enabled");
                given
                    .extend(entries.last().filter(|(value, _)| is_on(value)).map(|(_, line)| one("", *line)));
            }
        }
    }
    let defaults = [('C', CERTIFICATE.0), ('K', CERTIFICATE.1), ('n', MAX_REQUESTS)];
    for (letter, value) in
        defaults.map(|(letter, value)| (letter, value.to_owned())).into_iter().chain([('r', realm(disk))])
    {
        if !given.iter().any(|given| given.letter == letter) {
            given.push(Given { letter, value, line: None });
        }
    }
    (given, users(instance, &sections, findings))
}

/// The values of an option, with their lines. An option takes the place of those before it.
fn values<'s>(section: &'s Section, name: &str) -> Vec<(&'s str, u32)> {
    let entries = section.entries.iter().filter(|entry| entry.name == name);
    let mut values = Vec::new();
    for entry in entries {
        if entry.kind == EntryKind::Option {
            values.clear();
        }
        values.push((entry.value.as_str(), entry.line));
    }
    values
}

fn report_unknown(section: &Section, findings: &mut Findings) {
    for entry in section.entries.iter().filter(|entry| !names().any(|name| name == entry.name)) {
        let what =
            format!("OpenWrt does not know the option \"{}\", and leaves it out", entry.name.escape_debug());
        let what_to_do = match words::nearest(&entry.name, names()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "remove it".to_owned(),
        };
        findings.warn(Some(entry.line), what, what_to_do);
    }
}

/// The name of this machine.
fn realm(disk: &dyn Disk) -> String {
    let bytes = disk.read(Path::new(SYSTEM)).unwrap_or_default();
    let sections = uci::read(&String::from_utf8_lossy(&bytes), &mut Findings::default());
    let own = sections.iter().find(|section| section.kind == "system");
    own.and_then(|section| section.value("hostname"))
        .map_or_else(|| REALM.to_owned(), |entry| entry.value.clone())
}

/// The users of the sections that an instance names.
fn users(instance: &Section, sections: &[Section], findings: &mut Findings) -> Vec<User> {
    let mut users = Vec::new();
    let names = values(instance, PASSWORDS);
    for (name, line) in
        names.iter().flat_map(|(value, line)| value.split_whitespace().map(|name| (name, *line)))
    {
        let Some(section) = sections.iter().find(|section| section.kind == PASSWORDS && section.name == name)
        else {
            let what = format!("there is no section {PASSWORDS} {}", name.escape_debug());
            findings.error(Some(line), what, "write one, or remove its name: its path would be open");
            continue;
        };
        let text =
            |name: &str| section.value(name).map(|entry| entry.value.clone()).filter(|text| !text.is_empty());
        match (text("prefix"), text("username"), text("password")) {
            (Some(path), Some(name), password) => {
                users.push(User {
                    path,
                    name,
                    password: password.unwrap_or_default(),
                    line: Some(section.line),
                });
            }
            _ => {
                let what = format!("{PASSWORDS} {} has no prefix or no username", name.escape_debug());
                findings.error(Some(section.line), what, "add them");
            }
        }
    }
    users
}
