//! Which files there are, and what is sent with them.

use site::config::own_field;

use crate::draft::{Draft, Host};
use crate::lighttpd::convert::unconverted;
use crate::lighttpd::paths::{begun, narrowed};
use crate::media;
use crate::words;

use super::Setting;

/// The setting, if it is about files.
pub fn apply(setting: &Setting, host: &mut Host, draft: &mut Draft) -> bool {
    let Setting { name, value, place, .. } = *setting;
    let text = value.text();
    match name {
        "server.document-root" => setting.set(host, "root", text.trim_end_matches('/')),
        "index-file.names" | "server.indexfiles" => setting.set(host, "index", value.texts()),
        "dir-listing.activate" | "server.dir-listing" => setting.set(host, "listing", value.is_on()),
        "dir-listing.hide-dotfiles" => {
            setting.set(host, "dotfiles", if value.is_on() { "unlisted" } else { "allow" });
        }
        "dir-listing.exclude" => {
            draft.warn(place, format!("{name}: listings have these names, too"), "see listing and dotfiles");
        }
        "static-file.etags" if !value.is_on() => setting.set(host, "etag", "off"),
        "static-file.etags" => {}
        "server.follow-symlink" if !value.is_on() => setting.set(host, "symlinks", "never"),
        "server.follow-symlink" => {}
        "server.error-handler-404" | "server.error-handler" => {
            setting.set(host, "fallback", text);
            setting.set(host, "fallback_for", "all");
            draft.warn(place, format!("{name}: the status is that of the file"), "see error_pages");
        }
        "mimetype.assign" => media_types(setting, host),
        "deflate.mimetypes" | "compress.filetype" => compression(setting, host, draft),
        "deflate.allowed-encodings" => {
            let mut codings = value.texts();
            codings.iter_mut().filter(|name| *name == "brotli").for_each(|name| *name = "br".to_owned());
            codings.retain(|name| matches!(name.as_str(), "gzip" | "br" | "zstd"));
            setting.set(host, "compress", codings);
        }
        "alias.url" => aliases(setting, host, draft),
        "setenv.add-response-header" | "setenv.set-response-header" => response_fields(setting, host, draft),
        "setenv.add-environment" | "setenv.set-environment" => setting.set_pairs(host, "env"),
        "expire.url" => expiry(setting, host, draft),
        "expire.mimetypes" => expiry_of_types(setting, host, draft),
        "userdir.path" => host.scope.set(place, "user_folders", text),
        "simple-vhost.server-root" => {
            host.scope.set(place, "root", format!("{}/$host", text.trim_end_matches('/')))
        }
        "simple-vhost.document-root" => match host.scope.text("root").map(str::to_owned) {
            Some(root) => host.scope.set(place, "root", format!("{root}/{}", text.trim_matches('/'))),
            None => draft.error(place, unconverted(name), "write it behind simple-vhost.server-root"),
        },
        "simple-vhost.default-host" => host.scope.set(place, "default_folder", text),
        _ => return false,
    }
    true
}

fn media_types(setting: &Setting, host: &mut Host) {
    for (extension, kind) in setting.value.pairs() {
        setting.each(host, |scope| match extension.trim_start_matches('.') {
            "" => scope.set(setting.place, "default_type", kind.text()),
            extension => scope.pair(setting.place, "types", extension, kind.text()),
        });
    }
}

/// lighttpd compares the beginnings of types.
fn compression(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let texts = setting.value.texts();
    let types = texts.iter().map(|text| text.split(';').next().unwrap_or(text).trim());
    let types: Vec<String> =
        types.map(|text| if text.ends_with('/') { format!("{text}*") } else { text.to_owned() }).collect();
    if types.iter().any(|text| !text.contains('/')) {
        return draft.error(
            setting.place,
            unconverted(setting.name),
            "write types, such as text/html or text/",
        );
    }
    setting.set(host, "compress", true);
    setting.set(host, "compress_types", types);
}

fn response_fields(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    for (name, value) in setting.value.pairs() {
        let text = value.text();
        match name.to_ascii_lowercase().as_str() {
            "server" if setting.paths.is_empty() && host.is_default => match text {
                "" => draft.top.set(setting.place, "server_header", false),
                text => draft.top.set(setting.place, "server_header", text),
            },
            "server" => {
                draft.warn(setting.place, "Server is the same for all hosts and paths", "see server_header");
            }
            lower if own_field(lower).is_some() => {
                let what = unconverted(&format!("the field {name}"));
                draft.error(setting.place, what, "the server sets it; see types, redirects and compress");
            }
            _ if text.is_empty() => {
                setting.each(host, |scope| scope.pair(setting.place, "headers", name, false))
            }
            _ => setting.each(host, |scope| scope.pair(setting.place, "headers", name, text)),
        }
    }
}

fn aliases(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, .. } = *setting;
    setting.take_place(&["alias"], host);
    for (from, to) in value.pairs() {
        let path = format!("{}/", from.trim_end_matches('/'));
        if setting.is_for(&path) {
            host.route(&path, place).set(place, "alias", to.text().trim_end_matches('/'));
        } else {
            let what = unconverted(&format!("alias.url \"{from}\""));
            draft.error(place, what, "write it outside of the condition");
        }
    }
}

fn expiry(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths, .. } = *setting;
    for (begin, time) in value.pairs() {
        let Some(seconds) = seconds(time.text()) else {
            draft.error(place, unconverted(name), "see cache_control");
            continue;
        };
        let own = begun(begin);
        let scopes = if paths.is_empty() { vec![None] } else { paths.iter().map(Some).collect() };
        for path in scopes {
            let within = path.map(std::slice::from_ref).unwrap_or_default();
            let Some(patterns) = narrowed(within, &own) else {
                draft.error(place, unconverted(name), "see cache_control");
                continue;
            };
            for pattern in patterns {
                let scope = match path {
                    Some(path) => host.route(path, place),
                    None => &mut host.scope,
                };
                scope.pair(place, "cache_control", &pattern, format!("max-age={seconds}"));
            }
        }
    }
}

fn expiry_of_types(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, .. } = *setting;
    for (kind, time) in value.pairs() {
        // `text/` is for all types that begin with it, and an empty one for all files.
        let selectors = match kind {
            "" => Some(vec!["/".to_owned()]),
            kind if kind.ends_with('/') => media::selectors(&format!("{kind}*")),
            kind => media::selectors(kind),
        };
        match selectors.zip(seconds(time.text())) {
            Some((selectors, seconds)) => {
                for selector in selectors {
                    let value = format!("max-age={seconds}");
                    setting.each(host, |scope| scope.pair(place, "cache_control", &selector, value.as_str()));
                }
            }
            None => draft.error(place, unconverted(name), "see cache_control"),
        }
    }
}

/// Seconds of `access plus 7 days`.
fn seconds(text: &str) -> Option<u64> {
    words::seconds(text.trim_start_matches("access").split_whitespace().filter(|word| *word != "plus"))
}
