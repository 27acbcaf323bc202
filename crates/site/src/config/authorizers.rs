//! Reads the authorizers of a route, and what those that speak HTTP are asked.

use std::sync::Arc;
use std::time::Duration;

use taipan_http::fields::is_token;
use taipan_http::forwarded;
use taipan_http::known::is_hop_by_hop;
use taipan_http::target::SafePath;

use super::actions::redirect_target;
use super::fields::own_field;
use super::section::Section;
use super::upstreams;
use crate::authorizer::{Authorizer, KeyPart, MAX_FIELDS, Subrequest, SubrequestMethod, is_same_name};
use crate::route::Pattern;
use crate::template::Template;
use crate::upstream::{Protocol, Upstream};

/// The keys of authorizers that speak HTTP.
const KEYS: [&str; 8] = [
    "authorizer_path",
    "authorizer_method",
    "authorizer_fields",
    "authorizer_user",
    "authorizer_response_fields",
    "authorizer_login",
    "authorizer_cache",
    "authorizer_cache_key",
];
/// Fields of the message, or that programs misread; beside those of a hop.
const OWN_FIELDS: [&str; 8] =
    ["content-length", "content-type", "date", "expect", "host", "proxy", "via", "x-real-ip"];

/// Fields that clients have to send, to authorizers too.
const CREDENTIALS: [&str; 2] = ["authorization", "cookie"];

/// The authorizers of a section. `false` removes the inherited ones.
pub fn authorizers(
    section: &Section,
    inherited: &[Arc<Authorizer>],
    settings: &Arc<Subrequest>,
    upstreams: &[Upstream],
) -> Vec<Arc<Authorizer>> {
    let Some(given) = section.text_or_false("authorizer") else {
        // They take the settings of this section.
        let renewed = |own: &Arc<Authorizer>| match &own.subrequest {
            Some(old) if old != settings => {
                Arc::new(Authorizer { subrequest: Some(settings.clone()), ..**own })
            }
            _ => own.clone(),
        };
        return inherited.iter().map(renewed).collect();
    };
    let named = given.value.and_then(|name| upstreams::find(section, name, given.place, upstreams));
    let Some(upstream) = named else {
        if given.value.is_none() {
            section.reject_keys(&KEYS, "has no effect without an authorizer", "remove it");
        }
        return Vec::new();
    };
    let subrequest = match upstreams[upstream].protocol {
        Protocol::Http => Some(settings.clone()),
        Protocol::FastCgi => {
            section.reject_keys(&KEYS, "is for an authorizer that speaks HTTP", "remove it");
            None
        }
        Protocol::Scgi => {
            let what = format!("the application \"{}\" cannot be an authorizer", upstreams[upstream].name);
            section.errors.add(given.place, what, "name an application that speaks HTTP or FastCGI");
            None
        }
    };
    vec![Arc::new(Authorizer { upstream, subrequest })]
}

/// The settings of authorizers that speak HTTP.
pub fn subrequest(section: &Section, inherited: &Arc<Subrequest>) -> Arc<Subrequest> {
    if !KEYS.iter().any(|name| section.has(name)) {
        return inherited.clone();
    }
    let method = section.choice("authorizer_method").map(|word| match word {
        "original" => SubrequestMethod::Original,
        _ => SubrequestMethod::Get,
    });
    let cache: Option<Duration> = section.duration("authorizer_cache");
    let fields = fields(section).unwrap_or_else(|| inherited.fields.clone());
    Arc::new(Subrequest {
        target: target(section).or_else(|| inherited.target.clone()),
        method: method.unwrap_or(inherited.method),
        user: user(section, &fields).unwrap_or_else(|| inherited.user.clone()),
        fields,
        response_fields: response_fields(section).unwrap_or_else(|| inherited.response_fields.clone()),
        login: login(section).unwrap_or_else(|| inherited.login.clone()),
        cache: cache.unwrap_or(inherited.cache),
        cache_key: cache_key(section).unwrap_or_else(|| inherited.cache_key.clone()),
    })
}

fn target(section: &Section) -> Option<String> {
    let given = section.text("authorizer_path")?;
    let path = given.value.split('?').next().unwrap_or_default();
    let is_target = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'#');
    if SafePath::parse(path).is_err() || !given.value.bytes().all(is_target) {
        let what = format!("\"{}\" is not a path of the authorizer", given.value.escape_debug());
        let what_to_do = "write a path with a slash in front, percent-encoded, such as \"/oauth2/auth\"";
        section.errors.add(given.place, what, what_to_do);
    }
    Some(given.value.to_owned())
}

fn fields(section: &Section) -> Option<Vec<String>> {
    let mut names: Vec<&str> = Vec::new();
    for given in section.texts("authorizer_fields")? {
        match is_settable(given.value, &names) {
            Ok(()) => names.push(given.value),
            Err(what_to_do) => {
                let what = format!("an authorizer cannot set the field \"{}\"", given.value.escape_debug());
                section.errors.add(given.place, what, what_to_do);
            }
        }
    }
    if names.len() > MAX_FIELDS {
        section.reject("authorizer_fields", section.place_of("authorizer_fields"), "has more than 32 fields");
    }
    Some(names.into_iter().map(str::to_owned).collect())
}

fn response_fields(section: &Section) -> Option<Vec<String>> {
    let texts = section.texts("authorizer_response_fields")?;
    for given in &texts {
        let own = own_field(given.value);
        if !is_token(given.value.as_bytes()) || own.is_some() {
            let what = format!("an authorizer cannot add the field \"{}\"", given.value.escape_debug());
            section.errors.add(given.place, what, own.unwrap_or("expected letters, digits and dashes"));
        }
    }
    Some(texts.iter().map(|given| given.value.to_owned()).collect())
}

/// `Some(None)`: `false`. `None`: it is inherited.
fn login(section: &Section) -> Option<Option<Template>> {
    let given = section.text_or_false("authorizer_login")?;
    Some(given.value.and_then(|to| redirect_target(section, &Pattern::EVERYTHING, to, given.place)))
}

/// Whether a field can be set for scripts and applications, beside `others`. Errors: what the user should do.
pub fn is_settable(name: &str, others: &[&str]) -> Result<(), &'static str> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_valid) {
        return Err("expected letters, digits and dashes");
    }
    if is_hop_by_hop(name.as_bytes())
        || OWN_FIELDS.iter().any(|own| is_same_name(name.as_bytes(), own))
        || forwarded::is_interpreted(name.as_bytes())
    {
        return Err("the server itself sets it");
    }
    if CREDENTIALS.iter().any(|own| is_same_name(name.as_bytes(), own)) {
        return Err("name another one: it would be removed from all requests of clients");
    }
    match others.iter().any(|other| is_same_name(other.as_bytes(), name)) {
        true => Err("it is named twice; names of fields ignore case"),
        false => Ok(()),
    }
}

fn user(section: &Section, fields: &[String]) -> Option<String> {
    let given = section.text("authorizer_user")?;
    if !fields.iter().any(|name| is_same_name(name.as_bytes(), given.value)) {
        let what = format!("\"{}\" is not among \"authorizer_fields\"", given.value.escape_debug());
        section.errors.add(given.place, what, "add it there, or name one of them");
    }
    Some(given.value.to_owned())
}

fn cache_key(section: &Section) -> Option<Vec<KeyPart>> {
    let texts = section.texts("authorizer_cache_key")?;
    let mut parts = Vec::new();
    for given in texts {
        if !is_token(given.value.as_bytes()) {
            let what = format!("\"{}\" is no part of a request", given.value.escape_debug());
            let what_to_do = "write method, scheme, host, path, query, client, or the name of a field";
            section.errors.add(given.place, what, what_to_do);
        }
        parts.push(KeyPart::parse(given.value));
    }
    if !parts.iter().any(KeyPart::identifies_client) {
        let what = "\"authorizer_cache_key\" has nothing that tells clients apart";
        let what_to_do = "add the fields by which the authorizer decides, such as \"Cookie\"";
        section.errors.add(section.place_of("authorizer_cache_key"), what, what_to_do);
    }
    Some(parts)
}
