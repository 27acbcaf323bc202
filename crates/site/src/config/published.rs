//! Reads the texts that a host has in place of files: `robots` and `security_txt`.

use std::sync::Arc;

use taipan_http::fields::text_len;

use super::keys::Scope;
use super::section::Section;
use crate::published::{Expiry, ROBOTS, SECURITY, Text, time};

/// The keys of `[security_txt]`, and the names of their lines (RFC 9116 §2.5), besides `Expires`.
const LINES: [(&str, &str); 7] = [
    ("contact", "Contact"),
    ("encryption", "Encryption"),
    ("acknowledgments", "Acknowledgments"),
    ("preferred_languages", "Preferred-Languages"),
    ("canonical", "Canonical"),
    ("policy", "Policy"),
    ("hiring", "Hiring"),
];
/// All but languages are addresses of the web, of mail, or of telephones.
const SCHEMES: [&str; 5] = ["https://", "mailto:", "tel:", "dns:", "openpgp4fpr:"];

/// The texts of a host.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    robots: Option<Arc<Text>>,
    security: Option<Arc<Text>>,
}

impl Texts {
    /// With their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Arc<Text>)> {
        let robots = self.robots.iter().map(|text| (ROBOTS, text));
        robots.chain(self.security.iter().map(|text| (SECURITY, text)))
    }
}

pub fn texts(section: &Section, inherited: &Texts) -> Texts {
    Texts {
        robots: robots(section).unwrap_or_else(|| inherited.robots.clone()),
        security: security(section).or_else(|| inherited.security.clone()),
    }
}

/// `Some(None)`: `false`.
fn robots(section: &Section) -> Option<Option<Arc<Text>>> {
    let given = section.text_or_false("robots")?;
    let Some(text) = given.value else { return Some(None) };
    let robots = Text::robots(text);
    if robots.is_none() {
        let what_to_do = "write \"deny\", or lines such as \"User-agent: *\\nDisallow: /private/\"";
        section.errors.add(given.place, "\"robots\" has no rules for robots", what_to_do);
    }
    Some(robots.map(Arc::new))
}

fn security(section: &Section) -> Option<Arc<Text>> {
    let own = section.section("security_txt", Scope::SecurityTxt)?;
    let mut lines = Vec::new();
    for (key, name) in LINES {
        for given in own.texts(key).unwrap_or_default() {
            if !is_valid(key, given.value) {
                let what = format!("\"{key}\" cannot be \"{}\"", given.value.escape_debug());
                let what_to_do = match key {
                    "preferred_languages" => "expected languages such as \"en, de\"",
                    "contact" => {
                        "expected an address such as \"mailto:security@example.org\" or \"https://…\""
                    }
                    _ => "expected an address that begins with https://",
                };
                own.errors.add(given.place, what, what_to_do);
            }
            lines.push((name, given.value));
        }
    }
    if !lines.iter().any(|(name, _)| *name == "Contact") {
        let what_to_do = "add contact = \"mailto:security@example.org\"";
        own.errors.add(own.place(), "[security_txt] has no contact", what_to_do);
    }
    let Some(expires) = own.text("expires") else {
        if !own.has("expires") {
            let what_to_do = "add expires = \"2027-01-01T00:00:00Z\", in less than a year";
            own.errors.add(own.place(), "[security_txt] has no end", what_to_do);
        }
        return None;
    };
    let Some(time) = time(expires.value) else {
        let what = format!("\"expires\" cannot be \"{}\"", expires.value.escape_debug());
        own.errors.add(expires.place, what, "expected a time such as \"2027-01-01T00:00:00Z\"");
        return None;
    };
    Some(Arc::new(Text::security(lines, Expiry { text: expires.value.to_owned(), time })))
}

fn is_valid(key: &str, value: &str) -> bool {
    let is_line = !value.is_empty() && text_len(value.as_bytes()) == value.len();
    match key {
        "preferred_languages" => {
            is_line && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-, ".contains(&byte))
        }
        _ => is_line && !value.contains(' ') && SCHEMES.iter().any(|scheme| value.starts_with(scheme)),
    }
}
