//! Reads which origins may read the responses of a route.

use std::sync::Arc;

use taipan_http::fields::is_token;

use super::section::Section;
use crate::cors::{ANY, AllowedOrigin, Cors, Settings};

/// Origins of one route.
const MAX_ORIGINS: usize = 256;
/// The keys that need `cors_origins`.
const DEPENDENT: [&str; 5] =
    ["cors_methods", "cors_fields", "cors_exposed_fields", "cors_credentials", "cors_max_age"];
/// Methods that no page can send (the Fetch standard, "forbidden method").
const FORBIDDEN: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];
/// Those that pages send, but not in small letters.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The settings of a section, and the fields that they lead to.
pub fn sharing(
    section: &Section,
    (settings, cors): (&Arc<Settings>, &Option<Arc<Cors>>),
) -> (Arc<Settings>, Option<Arc<Cors>>) {
    if !section.has("cors_origins") && !DEPENDENT.iter().any(|name| section.has(name)) {
        return (settings.clone(), cors.clone());
    }
    let own = Settings {
        origins: origins(section).unwrap_or_else(|| settings.origins.clone()),
        methods: tokens(section, "cors_methods").unwrap_or_else(|| settings.methods.clone()),
        fields: tokens(section, "cors_fields").unwrap_or_else(|| settings.fields.clone()),
        exposed_fields: tokens(section, "cors_exposed_fields")
            .unwrap_or_else(|| settings.exposed_fields.clone()),
        credentials: section.flag("cors_credentials").unwrap_or(settings.credentials),
        max_age: section.duration("cors_max_age").unwrap_or(settings.max_age),
    };
    if own.credentials {
        reject_any(section, &own);
    }
    let cors = own.cors().map(Arc::new);
    (Arc::new(own), cors)
}

fn origins(section: &Section) -> Option<Vec<AllowedOrigin>> {
    let texts = section.texts("cors_origins")?;
    if texts.len() > MAX_ORIGINS {
        section.reject("cors_origins", section.place_of("cors_origins"), "has more than 256 origins");
    }
    let mut origins = Vec::new();
    for given in texts.iter().take(MAX_ORIGINS) {
        match AllowedOrigin::parse(given.value) {
            Ok(origin) => origins.push(origin),
            Err(error) => {
                let what = format!("\"{}\" is not an origin", given.value.escape_debug());
                section.errors.add(given.place, what, error.advice());
            }
        }
    }
    Some(origins)
}

fn tokens(section: &Section, name: &str) -> Option<Vec<String>> {
    let texts = section.texts(name)?;
    for given in &texts {
        let is_forbidden = name == "cors_methods" && FORBIDDEN.contains(&given.value);
        let capitals = given.value.to_ascii_uppercase();
        if name == "cors_methods" && capitals != given.value && METHODS.contains(&capitals.as_str()) {
            let what = format!("\"{name}\" cannot have \"{}\"", given.value.escape_debug());
            section.errors.add(given.place, what, format!("write it in capitals: \"{capitals}\""));
            continue;
        }
        if !is_token(given.value.as_bytes()) || is_forbidden {
            let what = format!("\"{name}\" cannot have \"{}\"", given.value.escape_debug());
            let what_to_do = match name {
                "cors_methods" => "expected methods that a page can send, such as \"PUT\"",
                _ => "expected names of fields, such as \"Content-Type\"",
            };
            section.errors.add(given.place, what, what_to_do);
        }
    }
    Some(texts.iter().map(|given| given.value.to_owned()).collect())
}

/// Reports stars, which browsers do not accept beside credentials. To send back any origin in place of the star would
/// let every site act in the name of its visitors.
fn reject_any(section: &Section, own: &Settings) {
    let has_star = |texts: &[String]| texts.iter().any(|text| text == ANY);
    for (name, is_any) in [
        ("cors_origins", own.origins.contains(&AllowedOrigin::Any)),
        ("cors_methods", has_star(&own.methods)),
        ("cors_fields", has_star(&own.fields)),
        ("cors_exposed_fields", has_star(&own.exposed_fields)),
    ] {
        if is_any {
            let place =
                if section.has(name) { section.place_of(name) } else { section.place_of("cors_credentials") };
            let what = format!("\"{name}\" cannot be \"*\" with \"cors_credentials\"");
            section.errors.add(place, what, "name each of them, or remove cors_credentials");
        }
    }
}
