//! Reads which tokens a route asks for, and then the files with the keys that verify them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::keys::Keys;
use taipan_http::fields::is_token;

use super::authorizers::is_settable;
use super::error::{Errors, Place, shown};
use super::keys::Scope;
use super::section::{Given, Section, text};
use super::toml::Value;
use super::{Source, read_file};
use crate::jwt::{Jwt, MAX_FIELDS, TokenPlace};
use crate::model::Site;

/// What stands for a name of a cookie.
const COOKIE: &str = "cookie:";
/// Seconds by which clocks differ, without `leeway`.
const LEEWAY: i64 = 60;

/// The tokens that a section asks for. `false` removes the inherited ones.
pub fn jwts(section: &Section, inherited: &[Arc<Jwt>]) -> Vec<Arc<Jwt>> {
    match section.section_or_false("jwt", Scope::Jwt) {
        None => inherited.to_vec(),
        Some(own) => own.and_then(|own| jwt(&own, inherited.first())).into_iter().collect(),
    }
}

fn jwt(own: &Section, inherited: Option<&Arc<Jwt>>) -> Option<Arc<Jwt>> {
    let Some(key_file) = own.path("keys").or_else(|| inherited.map(|jwt| jwt.key_file.clone())) else {
        if !own.has("keys") {
            let what_to_do = "add keys = \"/etc/taipan/keys.json\", a JWK set, or a PEM file";
            own.errors.add(own.place(), "tokens need the keys of their issuer", what_to_do);
        }
        return None;
    };
    let text = |name: &str| own.text(name).map(|given| given.value.to_owned());
    let leeway = own.duration("leeway").map(|time| time.as_secs().try_into().unwrap_or(i64::MAX));
    let jwt = Jwt {
        key_file,
        keys: None,
        issuer: text("issuer").or_else(|| inherited?.issuer.clone()),
        audience: text("audience").or_else(|| inherited?.audience.clone()),
        leeway: leeway.or(inherited.map(|jwt| jwt.leeway)).unwrap_or(LEEWAY),
        from: from(own).or_else(|| Some(inherited?.from.clone())).unwrap_or(vec![TokenPlace::Header]),
        claims: claims(own).or_else(|| Some(inherited?.claims.clone())).unwrap_or_default(),
        fields: fields(own).or_else(|| Some(inherited?.fields.clone())).unwrap_or_default(),
        user: text("user").or_else(|| Some(inherited?.user.clone())).unwrap_or_else(|| "sub".to_owned()),
        realm: realm(own).or_else(|| Some(inherited?.realm.clone())).unwrap_or_else(|| "tokens".to_owned()),
    };
    Some(Arc::new(jwt))
}

fn realm(own: &Section) -> Option<String> {
    let given = own.text("realm")?;
    if given.value.is_empty() || !given.value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        own.reject("realm", given.place, "cannot be sent");
    }
    Some(given.value.to_owned())
}

fn from(own: &Section) -> Option<Vec<TokenPlace>> {
    let read = |Given { place, value }: Given<&str>| match value.strip_prefix(COOKIE) {
        Some(name) if is_token(name.as_bytes()) => Some(TokenPlace::Cookie(name.to_owned())),
        None if value == "header" => Some(TokenPlace::Header),
        _ => {
            let what = format!("\"from\" cannot be \"{}\"", value.escape_debug());
            own.errors.add(place, what, "expected \"header\", or \"cookie:NAME\"");
            None
        }
    };
    let places: Vec<TokenPlace> = own.texts("from")?.into_iter().filter_map(read).collect();
    if places.is_empty() && own.errors.is_empty() {
        own.reject("from", own.place_of("from"), "is empty");
    }
    Some(places)
}

fn claims(own: &Section) -> Option<Vec<(String, Vec<String>)>> {
    own.has("claims").then_some(())?;
    let read = |entry: &super::toml::Entry| {
        let values: Option<Vec<String>> = match &entry.node.value {
            Value::Array(nodes) => nodes.iter().map(|node| text(node).map(str::to_owned)).collect(),
            _ => text(&entry.node).map(|value| vec![value.to_owned()]),
        };
        if values.as_ref().is_none_or(Vec::is_empty) {
            let what = format!("the claim \"{}\" has no values to compare", entry.key.escape_debug());
            own.errors.add(
                &entry.place,
                what,
                "expected a string, or an array of strings: { role = [\"admin\"] }",
            );
        }
        Some((entry.key.clone(), values?))
    };
    Some(own.pairs("claims").iter().filter_map(read).collect())
}

fn fields(own: &Section) -> Option<Vec<(String, String)>> {
    own.has("fields").then_some(())?;
    let mut fields: Vec<(String, String)> = Vec::new();
    for entry in own.pairs("fields") {
        let Some(claim) = own.text_of(entry, "the name of a claim") else { continue };
        let others: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        if let Err(what_to_do) = is_settable(&entry.key, &others) {
            let what = format!("a token cannot set the field \"{}\"", entry.key.escape_debug());
            own.errors.add(&entry.place, what, what_to_do);
            continue;
        }
        fields.push((entry.key.clone(), claim.to_owned()));
    }
    if fields.len() > MAX_FIELDS {
        own.reject("fields", own.place_of("fields"), "has more than 32 fields");
    }
    Some(fields)
}

/// Reads the keys of all routes, each file once.
pub fn read_keys(site: &mut Site, source: &dyn Source, errors: &Errors) {
    let mut read: HashMap<PathBuf, Option<Keys>> = HashMap::new();
    // Routes that inherit the settings go on sharing them.
    let mut done: HashMap<*const Jwt, Arc<Jwt>> = HashMap::new();
    // Another one cannot have the address of one that still exists.
    let mut kept = Vec::new();
    for routes in site.hosts.routes_mut() {
        for own in routes.jwts_mut() {
            let complete = || {
                let path = own.key_file.clone();
                let keys = read.entry(path).or_insert_with_key(|path| keys(path, source, errors)).clone();
                Arc::new(Jwt { keys, ..Jwt::clone(own) })
            };
            let complete = done.entry(Arc::as_ptr(own)).or_insert_with(complete).clone();
            kept.push(std::mem::replace(own, complete));
        }
    }
}

/// `None`: after an error.
fn keys(path: &Path, source: &dyn Source, errors: &Errors) -> Option<Keys> {
    let place = errors.place_of(&["keys"], path).unwrap_or(Place { file: Arc::from(path), line: None });
    let bytes = read_file(path, &place, source, errors)?;
    match Keys::parse(&bytes) {
        Ok(keys) => Some(keys),
        Err(error) => {
            let what_to_do = "name a JWK set, or public keys in PEM";
            errors.add(&place, format!("{}: {error}", shown(path)), what_to_do);
            None
        }
    }
}
