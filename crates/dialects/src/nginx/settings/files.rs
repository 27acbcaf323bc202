//! Files, how they are compressed, and the fields of responses.

use site::config::own_field;

use crate::draft::{Draft, Scope};
use crate::tree::{Directive, unconverted};

use super::{Context, bytes};
use crate::nginx::cache_control;
use crate::nginx::expires::expires;

/// The directive, if it is about files.
pub fn setting(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    file(directive, scope, context, draft) || compression(directive, scope, draft)
}

/// Which files there are, and what is sent with them.
fn file(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    let is_on = first == "on";
    match directive.name.as_str() {
        "root" if first.contains('$') => draft.error(place, unconverted(directive), "see $host in root"),
        "root" => scope.set(place, "root", (context.path)(first)),
        "index" => index(directive, scope, context, draft),
        "autoindex" => scope.set(place, "listing", is_on),
        "charset" if first == "off" => scope.set(place, "charset", false),
        "charset" => scope.set(place, "charset", first),
        "default_type" => scope.set(place, "default_type", first),
        "types" if directive.children().is_empty() => {
            draft.error(place, "files have their types by their names, also with empty types", "remove it")
        }
        "types" => {
            for kind in directive.children() {
                for extension in &kind.arguments {
                    scope.pair(place, "types", extension, kind.name.as_str());
                }
            }
        }
        "etag" if !is_on => scope.set(place, "etag", "off"),
        "etag" => {}
        "disable_symlinks" => match first {
            "on" => scope.set(place, "symlinks", "never"),
            "if_not_owner" => scope.set(place, "symlinks", "owner"),
            _ => scope.set(place, "symlinks", "follow"),
        },
        "add_header" => add_header(directive, scope, context, draft),
        "expires" => expires(directive, context.maps, scope, draft),
        "error_page" => error_page(directive, scope, draft),
        _ => return false,
    }
    true
}

/// How they are compressed.
fn compression(directive: &Directive, scope: &mut Scope, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    let is_on = first == "on";
    match directive.name.as_str() {
        "gzip" => {
            scope.set(place, "compress", is_on);
            if is_on {
                draft.note(
                    place,
                    "gzip compresses what upstreams send, too",
                    "see compress_scripts and BREACH in the manual",
                );
            }
        }
        "gzip_types" => {
            const ALL: [&str; 7] =
                ["text/*", "application/*", "image/*", "font/*", "audio/*", "video/*", "model/*"];
            let given: Vec<String> = match directive.arguments.iter().any(|kind| kind == "*") {
                true => ALL.map(str::to_owned).to_vec(),
                false => std::iter::once("text/html")
                    .chain(directive.arguments.iter().map(String::as_str))
                    .map(str::to_owned)
                    .collect(),
            };
            scope.set(place, "compress_types", given);
        }
        "gzip_min_length" => bytes(directive, "compress_from", scope, draft),
        "gzip_static" => {
            scope.set(place, "precompressed", if is_on { vec!["gzip".to_owned()] } else { Vec::new() })
        }
        "gunzip" => scope.set(place, "gunzip", is_on),
        _ => return false,
    }
    true
}

fn index(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &directive.place;
    let names = match directive.arguments.split_last() {
        Some((script, names)) if is_of_all(script, context) => {
            let what =
                format!("{script} of folders without an index file is left to the fallback of location /");
            draft.warn(place, what, "folders of other locations do not lead to it");
            // The script precedes a listing.
            scope.set(place, "listing", false);
            names
        }
        _ => &directive.arguments,
    };
    if names.iter().any(|name| name.contains(['$', '/'])) {
        return draft.error(place, unconverted(directive), "write names of files");
    }
    scope.set(place, "index", names.to_vec());
}

/// Whether `/index.php$request_uri` is the script of all paths.
fn is_of_all(script: &str, context: &Context) -> bool {
    let path = script.strip_suffix("$request_uri").or_else(|| script.strip_suffix("$uri")).unwrap_or(script);
    context.front.is_some_and(|front| front == path)
}

fn add_header(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let (name, mut value) = (directive.argument(0), directive.argument(1));
    if value == "$upstream_cache_status" {
        return draft.note(&directive.place, format!("{name} is not added"), "Cache-Status says it");
    }
    let filled = cache_control::without_parameters(value, context.maps)
        .filter(|_| value.contains('$') && cache_control::is_cache_control(directive));
    if let Some(filled) = &filled {
        let what = format!("Cache-Control is \"{filled}\" for all requests");
        draft.warn(
            &directive.place,
            what,
            "nothing to do: clients store a response for less time, if it differs",
        );
        value = filled;
    }
    if value.contains('$') {
        return draft.error(
            &directive.place,
            unconverted(directive),
            "headers have no variables; write a value",
        );
    }
    if value.is_empty() {
        return;
    }
    if name.eq_ignore_ascii_case("alt-svc") && value.starts_with("h3") {
        return draft.warn(&directive.place, "there is no HTTP/3", "clients use HTTP/2");
    }
    match own_field(name) {
        Some(instead) if ["server", "date"].iter().any(|own| name.eq_ignore_ascii_case(own)) => {
            return draft.warn(&directive.place, format!("the field {name} is not added"), instead);
        }
        Some(instead) => return draft.error(&directive.place, unconverted(directive), instead),
        None => {}
    }
    let is_always = directive.argument(2) == "always";
    if cache_control::is_cache_control(directive) {
        return cache_control::add(directive, value, is_always, scope);
    }
    let is_second = scope.pairs("headers").iter().any(|(old, _)| old.eq_ignore_ascii_case(name));
    let name = if is_second { format!("+{name}") } else { name.to_owned() };
    scope.pair(&directive.place, "headers", &name, value);
    if !is_always {
        draft.note(&directive.place, format!("{name} is added to error responses, too"), "nothing to do");
    }
}

fn error_page(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let place = &directive.place;
    let Some((target, statuses)) = directive.arguments.split_last() else { return };
    // What a request without TLS at a port with it gets.
    if !statuses.is_empty() && statuses.iter().all(|status| matches!(status.as_str(), "495" | "496" | "497"))
    {
        let what = format!("there is no error page for {}", statuses.join(" and "));
        return draft.warn(place, what, "it has no effect");
    }
    if !target.starts_with('/') || target.ends_with('/') || target.contains('$') {
        return draft.error(place, unconverted(directive), "name a file of the host by its path");
    }
    for status in statuses {
        match status.parse::<u16>() {
            Ok(number @ 400..=599) => scope.pair(place, "error_pages", &number.to_string(), target.as_str()),
            Ok(_) => draft.warn(place, format!("there is no error page for {status}"), "it has no effect"),
            Err(_) => draft.warn(place, "the status of an error remains as it is", "see fallback"),
        }
    }
}
