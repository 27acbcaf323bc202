//! Reads the languages and charsets of files.

use std::sync::Arc;

use taipan_http::fields::is_token;
use taipan_http::negotiate::language::is_tag;

use super::section::{Section, text};
use crate::alternates::{AlternateRules, Charset, MAX_CHARSETS, MAX_LANGUAGES};

pub fn rules(section: &Section, inherited: &Arc<AlternateRules>) -> Arc<AlternateRules> {
    if !["languages", "charsets"].iter().any(|key| section.has(key)) {
        return inherited.clone();
    }
    let languages = languages(section).unwrap_or_else(|| inherited.languages.clone());
    let charsets = match section.has("charsets") {
        true => charsets(section),
        false => inherited.charsets.clone(),
    };
    for charset in &charsets {
        if languages.iter().any(|tag| tag.eq_ignore_ascii_case(&charset.suffix)) {
            let what = format!("\"{}\" is a language, too", charset.suffix);
            section.errors.add(section.place_of("charsets"), what, "write another suffix for the charset");
        }
    }
    Arc::new(AlternateRules { languages, charsets })
}

fn languages(section: &Section) -> Option<Vec<String>> {
    let mut tags: Vec<String> = Vec::new();
    for given in section.texts("languages")? {
        let what = match given.value {
            tag if !is_tag(tag) => format!("\"{}\" is not a language tag", tag.escape_debug()),
            tag if tags.iter().any(|other| other.eq_ignore_ascii_case(tag)) => {
                format!("\"{tag}\" stands twice")
            }
            _ if tags.len() == MAX_LANGUAGES => format!("more than {MAX_LANGUAGES} languages"),
            tag => {
                tags.push(tag.to_owned());
                continue;
            }
        };
        section.errors.add(given.place, what, "write tags such as \"de\" or \"pt-BR\", each once");
    }
    Some(tags)
}

fn charsets(section: &Section) -> Vec<Charset> {
    let mut charsets: Vec<Charset> = Vec::new();
    for entry in section.pairs("charsets") {
        let name = text(&entry.node).filter(|name| is_token(name.as_bytes()));
        let is_suffix = !entry.key.is_empty()
            && entry.key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        match name {
            Some(name) if is_suffix && charsets.len() < MAX_CHARSETS => {
                charsets.push(Charset { suffix: entry.key.clone(), name: name.to_owned() });
            }
            Some(_) if is_suffix => {
                section.errors.add(&entry.place, format!("more than {MAX_CHARSETS} charsets"), "remove some");
            }
            _ => {
                let what = format!("\"{}\" is not a suffix with a charset", entry.key.escape_debug());
                section.errors.add(&entry.place, what, "write latin1 = \"iso-8859-1\"");
            }
        }
    }
    charsets
}
