//! Reads what a route does.

use std::sync::Arc;

use taipan_http::status::Status;

use super::error::Place;
use super::proxies;
use super::routes::Inherited;
use super::section::{Section, integer, text};
use super::toml::{Entry, Table, Value};
use super::upstreams;
use crate::model::{Action, Route};
use crate::monitor::Monitor;
use crate::published::Text;
use crate::route::Pattern;
use crate::template::{Rewrite, Template};

/// The keys of which a route has at most one.
const ACTIONS: [&str; 9] =
    ["root", "alias", "application", "proxy", "redirect", "rewrite", "return", "respond", "monitor"];
/// Error statuses that need a field which a route cannot set.
const INCOMPLETE: [u64; 5] = [401, 405, 407, 416, 426];
const DEFAULT_REDIRECT: u64 = 302;

/// `None` after an error.
pub(super) fn action(section: &Section, pattern: &Pattern, inherited: &Inherited<'_>) -> Option<Action> {
    let given: Vec<&Entry> = section.table.entries.iter().filter(|entry| is_action(entry)).collect();
    if let [first, second, ..] = given[..] {
        let what = format!("\"{}\" and \"{}\" exclude each other", first.key, second.key);
        section.errors.add(&second.place, what, "keep one of them");
        return None;
    }
    let status = section.count("status");
    let Some(entry) = given.first() else {
        return inherited_action(section, pattern, &inherited.route);
    };
    if section.has("status") && entry.key != "redirect" {
        let what = "\"status\" is for a redirect";
        section.errors.add(section.place_of("status"), what, "use return = STATUS, or add a redirect");
    }
    match entry.key.as_str() {
        "root" => Some(Action::Files { root: section.path("root")?, strip: 0 }),
        "alias" => alias(section, pattern),
        "application" => {
            let given = section.text("application")?;
            upstreams::find(section, given.value, given.place, inherited.definitions.upstreams)
                .map(Action::Upstream)
        }
        "proxy" => proxies::action(section, inherited.definitions.upstreams),
        "redirect" => {
            let status = redirect_status(section, status, section.place_of("status"))?;
            redirect(section, pattern, section.text("redirect")?.value, &entry.place, status)
        }
        "rewrite" => rewrite(section, pattern, section.text("rewrite")?.value, &entry.place),
        "respond" => Some(Action::Publish(Arc::new(Text {
            body: section.text("respond")?.value.to_owned(),
            media_type: section.text("default_type").map(|given| given.value.to_owned()),
            expires: None,
        }))),
        "monitor" => Monitor::from_name(section.choice("monitor")?).map(Action::Monitor),
        _ => return_status(section),
    }
}

pub(super) fn is_action(entry: &Entry) -> bool {
    ACTIONS.contains(&entry.key.as_str())
}

/// A glob may have the action of a prefix around it, without a root of the host.
fn inherited_action(section: &Section, pattern: &Pattern, inherited: &Route) -> Option<Action> {
    if section.has("status") {
        let what = "\"status\" is for a redirect";
        section.errors.add(section.place_of("status"), what, "use return = STATUS, or add a redirect");
    }
    if let (Action::Return(_), Pattern::Prefix(_) | Pattern::Exact(_)) = (&inherited.action, pattern) {
        let what = "this route has no action, and its host has no root to inherit";
        let what_to_do = "add root, alias, redirect, rewrite or return to it, or a root to the host";
        section.errors.add(section.place(), what, what_to_do);
        return None;
    }
    Some(inherited.action.clone())
}

fn alias(section: &Section, pattern: &Pattern) -> Option<Action> {
    let root = section.path("alias")?;
    match pattern {
        Pattern::Prefix(prefix) => Some(Action::Files { root, strip: prefix.matches('/').count() }),
        Pattern::Exact(_) | Pattern::Glob(_) => {
            let what = format!("an alias cannot take the place of \"{pattern}\"");
            let what_to_do = "end the path with a slash: an alias replaces a folder";
            section.errors.add(section.place_of("alias"), what, what_to_do);
            None
        }
    }
}

fn return_status(section: &Section) -> Option<Action> {
    let place = section.place_of("return");
    let instead = match section.table.get("return").and_then(|entry| integer(&entry.node)) {
        Some(code @ 300..400) => format!("write redirect = \"/…\" and status = {code}"),
        Some(100..300) => "write respond = \"…\" for a text".to_owned(),
        _ => String::new(),
    };
    if !instead.is_empty() {
        section.errors.add(place, "\"return\" is for errors, from 400 to 599", instead);
        return None;
    }
    let code = section.count("return")?;
    if INCOMPLETE.contains(&code) {
        let what = format!("\"return\" cannot be {code}, which needs a field of its own");
        section.errors.add(place, what, "use 403 or 404");
        return None;
    }
    u16::try_from(code).ok().and_then(Status::new).map(Action::Return)
}

pub(super) fn redirect_status(section: &Section, given: Option<u64>, place: &Place) -> Option<Status> {
    match given.unwrap_or(DEFAULT_REDIRECT) {
        301 => Some(Status::MOVED_PERMANENTLY),
        302 => Some(Status::FOUND),
        303 => Some(Status::SEE_OTHER),
        307 => Some(Status::TEMPORARY_REDIRECT),
        308 => Some(Status::PERMANENT_REDIRECT),
        other => {
            let what = format!("{other} is not a redirect status");
            section.errors.add(place, what, "expected 301, 302, 303, 307 or 308");
            None
        }
    }
}

fn redirect(section: &Section, pattern: &Pattern, to: &str, place: &Place, status: Status) -> Option<Action> {
    Some(Action::Redirect { status, to: redirect_target(section, pattern, to, place)? })
}

pub(super) fn redirect_target(
    section: &Section,
    pattern: &Pattern,
    to: &str,
    place: &Place,
) -> Option<Template> {
    let parsed = Template::redirect(to).map_err(|error| error.to_string());
    let checked = parsed.and_then(|template| template.check(pattern).map(|()| template));
    target(section, to, place, checked)
}

fn rewrite(section: &Section, pattern: &Pattern, to: &str, place: &Place) -> Option<Action> {
    let parsed = Rewrite::parse(to).map_err(|error| error.to_string());
    let checked = parsed.and_then(|rewrite| rewrite.check(pattern).map(|()| rewrite));
    Some(Action::Rewrite { to: Box::new(target(section, to, place, checked)?) })
}

/// What was read of `text`, or else its mistake.
fn target<T>(section: &Section, text: &str, place: &Place, read: Result<T, String>) -> Option<T> {
    let report = |what_to_do: String| {
        section.errors.add(place, format!("\"{}\" is not a valid target", text.escape_debug()), what_to_do);
    };
    read.map_err(report).ok()
}

/// Reads the action of one entry of `redirects` or `rewrites`.
pub(super) type ShortAction = fn(&Section, &Pattern, &Entry) -> Option<Action>;

pub(super) fn redirect_entry(section: &Section, pattern: &Pattern, entry: &Entry) -> Option<Action> {
    let (to, status) = match &entry.node.value {
        Value::Table(table) => long_redirect(section, table)?,
        _ => (section.text_of(entry, "a target, or { to = target, status = 301 }")?, None),
    };
    let status = redirect_status(section, status, &entry.place)?;
    redirect(section, pattern, to, &entry.place, status)
}

/// `{ to = "…", status = 301 }`
fn long_redirect<'c>(section: &Section, table: &'c Table) -> Option<(&'c str, Option<u64>)> {
    for entry in table.entries.iter().filter(|entry| !["to", "status"].contains(&entry.key.as_str())) {
        let what = format!("unknown key \"{}\"", entry.key.escape_debug());
        section.errors.add(&entry.place, what, "a redirect has \"to\" and \"status\"");
    }
    let status = table.get("status").map(|entry| integer(&entry.node).unwrap_or(0));
    match table.get("to").and_then(|entry| text(&entry.node)) {
        Some(to) => Some((to, status)),
        None => {
            section.errors.add(&table.place, "a redirect has no target", "add to = \"/…\"");
            None
        }
    }
}

pub(super) fn rewrite_entry(section: &Section, pattern: &Pattern, entry: &Entry) -> Option<Action> {
    rewrite(section, pattern, section.text_of(entry, "a path")?, &entry.place)
}
