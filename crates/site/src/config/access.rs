//! Reads the rules of access: the tables `[[rule]]` of the top level, of a host and of a route.

use std::sync::Arc;

use taipan_http::fields::is_token;
use taipan_http::status::Status;

use super::actions;
use super::error::Place;
use super::keys::Scope;
use super::limits::LimitReader;
use super::section::{Given, Section, text};
use crate::access::{Action, Condition, MAX_RULES, Period, Redirect, Referer, Rule, Rules, Selection};
use crate::network::{Network, Networks};
use crate::route::Pattern;
use crate::wildcard::{MAX_WILDCARD, Wildcard};

/// In front of an entry that a list excludes.
const EXCEPT: char = '!';
/// The host of the request, as an entry of `referer`.
const OWN_HOST: &str = "self";
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const EVERY_DAY: u8 = 0x7f;
const MINUTES_OF_DAY: u32 = 24 * 60;

/// The lists of a section: its own rules in front of those that it inherits.
pub fn rules(section: &Section, inherited: &[Rules], limits: &LimitReader<'_>) -> Vec<Rules> {
    let sections = section.sections("rule", Scope::Rule);
    if let Some(one) = sections.get(MAX_RULES) {
        let what = format!("there are more than {MAX_RULES} rules");
        one.errors.add(one.place(), what, "name several addresses or paths in one rule");
    }
    let read: Vec<Option<Rule>> = sections.iter().take(MAX_RULES).map(|one| rule(one, limits)).collect();
    warn_of_rest(&sections, &read);
    let own: Vec<Arc<Rule>> = read.into_iter().flatten().map(Arc::new).collect();
    if own.is_empty() {
        return inherited.to_vec();
    }
    let in_front = |rules: &[Arc<Rule>]| own.iter().chain(rules).cloned().collect();
    match inherited.split_first() {
        None => vec![in_front(&[])],
        Some((first, others)) => [in_front(first)].into_iter().chain(others.iter().cloned()).collect(),
    }
}

/// Warns of the first rule behind one that is for every request.
fn warn_of_rest(sections: &[Section], rules: &[Option<Rule>]) {
    let is_for_all = |rule: &Option<Rule>| rule.as_ref().is_some_and(|rule| rule.conditions.is_empty());
    let Some(at) = rules.iter().position(is_for_all) else { return };
    if let (Some(all), Some(next)) = (sections.get(at), sections.get(at + 1)) {
        let what = format!("no request comes to this rule, because that of {} is for all", all.place());
        next.errors.warn(next.place(), what, "move it in front of that one, or remove it");
    }
}

/// `None`: after an error.
fn rule(section: &Section, limits: &LimitReader<'_>) -> Option<Rule> {
    let mut conditions = Vec::new();
    conditions.extend(addresses(section));
    conditions.extend(server_addresses(section));
    conditions.extend(selection(section, "method", method).map(Condition::Method));
    conditions.extend(selection(section, "host", wildcard).map(Condition::Host));
    conditions.extend(paths(section).map(Condition::Path));
    conditions.extend(selection(section, "query", wildcard).map(Condition::Query));
    conditions.extend(selection(section, "referer", referer).map(Condition::Referer));
    conditions.extend(selection(section, "user_agent", wildcard).map(Condition::UserAgent));
    conditions.extend(fields(section));
    conditions.extend(section.flag("tls").map(Condition::Tls));
    conditions.extend(selection(section, "tls_version", tls_version).map(Condition::TlsVersion));
    conditions.extend(selection(section, "client_certificate", wildcard).map(Condition::Certificate));
    conditions.extend(times(section));
    Some(Rule { conditions, action: action(section, limits)?, place: section.place().to_string() })
}

fn action(section: &Section, limits: &LimitReader<'_>) -> Option<Action> {
    let then = section.choice("then");
    let status = section.count::<u16>("status");
    if !matches!(then, Some("deny" | "redirect")) {
        section.reject_keys(&["status"], "is only for then = \"deny\" or \"redirect\"", "remove it");
    }
    if then != Some("redirect") {
        section.reject_keys(&["to"], "is only for then = \"redirect\"", "remove it, or change \"then\"");
    }
    if then != Some("limit") {
        section.reject_keys(&["limit"], "is only for then = \"limit\"", "remove it, or change \"then\"");
    }
    Some(match then {
        Some("allow") => Action::Allow,
        Some("authenticate") => Action::Authenticate,
        Some("limit") => match section.text("limit") {
            Some(name) => {
                limits.refer(name.value, name.place);
                Action::Limit(name.value.to_owned())
            }
            None => {
                let what_to_do = "add limit = \"NAME\", the name of a [[limit]]";
                section.errors.add(section.place(), "this rule names no limit", what_to_do);
                return None;
            }
        },
        Some("redirect") => redirect(section, status)?,
        Some(_) => Action::Deny(denial(section, status)?),
        None if section.has("then") => return None,
        None => {
            let what_to_do = "add then = \"deny\", \"allow\", \"redirect\", \"authenticate\" or \"limit\"";
            section.errors.add(section.place(), "this rule decides nothing", what_to_do);
            return None;
        }
    })
}

/// The status of a rule that denies.
fn denial(section: &Section, given: Option<u16>) -> Option<Status> {
    let status = given.map_or(Some(Status::FORBIDDEN), Status::new).filter(|status| status.is_error());
    if status.is_none() {
        let what = "a request that is denied has a status of an error";
        section.errors.add(section.place_of("status"), what, "write 400 to 599, or then = \"redirect\"");
    }
    status
}

fn redirect(section: &Section, status: Option<u16>) -> Option<Action> {
    let Some(to) = section.text("to") else {
        let what_to_do = "add to = \"/…\", a path of the host or a URL";
        section.errors.add(section.place(), "this rule redirects to nothing", what_to_do);
        return None;
    };
    let status = actions::redirect_status(section, status.map(u64::from), section.place_of("status"))?;
    let to = actions::redirect_target(section, &Pattern::EVERYTHING, to.value, to.place)?;
    Some(Action::Redirect(Box::new(Redirect { status, to })))
}

/// The entries of a list. `None`: the key is absent. `read` returns what to do where an entry is invalid.
fn selection<T>(
    section: &Section,
    name: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Option<Selection<T>> {
    let given = section.texts(name)?;
    reject_empty(section, name, &given);
    Some(select(section, name, &given, read))
}

/// An empty list would match everything.
fn reject_empty(section: &Section, name: &str, given: &[Given<&str>]) {
    if given.is_empty() {
        section.errors.add(section.place_of(name), format!("\"{name}\" is empty"), "add an entry");
    }
}

fn select<T>(
    section: &Section,
    name: &str,
    given: &[Given<&str>],
    read: impl Fn(&str) -> Result<T, String>,
) -> Selection<T> {
    let mut selection = Selection { include: Vec::new(), except: Vec::new() };
    for Given { place, value } in given {
        if matches!(name, "user_agent" | "referer") && value.trim_start_matches(EXCEPT).starts_with('~') {
            let what =
                format!("\"{name}\" has the entry \"{}\", in which ~ is a letter", value.escape_debug());
            section.errors.warn(place, what, "write it with wildcards, such as \"*bot*\"");
        }
        let (entry, list) = match value.strip_prefix(EXCEPT) {
            Some(entry) => (entry, &mut selection.except),
            None => (*value, &mut selection.include),
        };
        match read(entry) {
            Ok(entry) => list.push(entry),
            Err(what_to_do) => reject_entry(section, name, place, value, what_to_do),
        }
    }
    selection
}

/// Reports an entry of a list, and what to do.
pub fn reject_entry(section: &Section, name: &str, place: &Place, value: &str, what_to_do: String) {
    let what = format!("\"{name}\" cannot have the entry \"{}\"", value.escape_debug());
    section.errors.add(place, what, what_to_do);
}

fn addresses(section: &Section) -> Option<Condition> {
    let mut given = section.texts("address").unwrap_or_default();
    given.extend(section.texts("address_file").unwrap_or_default());
    if !section.has("address") && !section.has("address_file") {
        return None;
    }
    if given.is_empty() && section.has("address") {
        reject_empty(section, "address", &given);
    }
    let network = |text: &str| Network::parse(text).map_err(|error| error.to_string());
    let Selection { include, except } = select(section, "address", &given, network);
    // An empty file contains no address.
    let is_open = include.is_empty() && !except.is_empty();
    let within = (!is_open).then(|| Networks::new(include));
    Some(Condition::Address { within, except: Networks::new(except) })
}

fn server_addresses(section: &Section) -> Option<Condition> {
    let network = |text: &str| match text {
        "unix" => Err("write an address or a network".to_owned()),
        text => Network::parse(text).map_err(|error| error.to_string()),
    };
    let Selection { include, except } = selection(section, "server_address", network)?;
    let within = (!include.is_empty()).then(|| Networks::new(include));
    Some(Condition::ServerAddress { within, except: Networks::new(except) })
}

fn method(text: &str) -> Result<String, String> {
    let name = text.to_ascii_uppercase();
    match is_token(text.as_bytes()) {
        true if name == text => Ok(name),
        true => Err(format!("write it in capitals: \"{name}\"")),
        false => Err("write a method, such as \"POST\"".to_owned()),
    }
}

fn wildcard(text: &str) -> Result<Wildcard, String> {
    Wildcard::new(text).ok_or_else(|| format!("a pattern has at most {MAX_WILDCARD} bytes"))
}

fn paths(section: &Section) -> Option<Selection<Pattern>> {
    let path = |text: &str| Pattern::parse(text).map_err(|error| error.to_string());
    let read = selection(section, "path", path)?;
    for Given { place, value } in section.texts("path")? {
        section.warn_of_pattern(value.strip_prefix(EXCEPT).unwrap_or(value), place);
    }
    Some(read)
}

fn referer(text: &str) -> Result<Referer, String> {
    Ok(match text {
        "" => Referer::Absent,
        OWN_HOST => Referer::Own,
        url if url.contains('/') => Referer::Url(wildcard(url)?),
        host => Referer::Host(wildcard(host)?),
    })
}

fn tls_version(text: &str) -> Result<String, String> {
    match text {
        "1.2" | "1.3" => Ok(format!("TLSv{text}")),
        _ => Err("write \"1.2\" or \"1.3\"".to_owned()),
    }
}

fn fields(section: &Section) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for entry in section.pairs("field") {
        let Some(value) = text(&entry.node) else {
            let what = format!("the field \"{}\" needs a string", entry.key.escape_debug());
            section.errors.add(&entry.place, what, "write a value; it may have * and ?");
            continue;
        };
        if !is_token(entry.key.as_bytes()) {
            let what = format!("\"{}\" is not the name of a field", entry.key.escape_debug());
            section.errors.add(&entry.place, what, "write a name such as \"X-Api-Key\"");
            continue;
        }
        let given = [Given { place: &entry.place, value }];
        let values = select(section, "field", &given, wildcard);
        conditions.push(Condition::Field(entry.key.to_ascii_lowercase(), values));
    }
    conditions
}

fn times(section: &Section) -> Option<Condition> {
    let given = section.texts("time")?;
    reject_empty(section, "time", &given);
    let mut periods = Vec::new();
    for Given { place, value } in given {
        match period(value) {
            Some(period) => periods.push(period),
            None => {
                let what_to_do = "write \"08:00-18:00\", \"mon-fri\" or \"sat,sun 22:00-02:00\", in UTC";
                reject_entry(section, "time", place, value, what_to_do.to_owned());
            }
        }
    }
    Some(Condition::Time(periods))
}

/// `mon-fri 08:00-18:00`. Either part may be absent.
fn period(text: &str) -> Option<Period> {
    let all_day = (0, MINUTES_OF_DAY);
    let (days, (from, to)) = match text.split_once(' ') {
        Some((days, times)) => (self::days(days)?, minutes(times.trim_start())?),
        None if text.contains(':') => (EVERY_DAY, minutes(text)?),
        None => (self::days(text)?, all_day),
    };
    Some(Period { days, from: from * 60, to: to * 60 })
}

/// The bits of `mon-fri` or `sat,sun`.
fn days(text: &str) -> Option<u8> {
    let day = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let mut bits = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        let count = (last + DAYS.len() - first) % DAYS.len();
        (0..=count).for_each(|step| bits |= 1 << ((first + step) % DAYS.len()));
    }
    Some(bits)
}

/// The minutes of `08:00-18:00`.
fn minutes(text: &str) -> Option<(u32, u32)> {
    let minute = |text: &str| {
        let (hours, minutes) = text.split_once(':')?;
        let number = |text: &str, most: u32| match text.len() {
            2 if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse::<u32>().ok().filter(|number| *number <= most)
            }
            _ => None,
        };
        Some(number(hours, 24)? * 60 + number(minutes, 59)?).filter(|minute| *minute <= MINUTES_OF_DAY)
    };
    let (from, to) = text.split_once('-')?;
    Some((minute(from)?, minute(to)?))
}
