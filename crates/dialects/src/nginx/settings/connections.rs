//! Connections: TLS, timeouts, and the clients behind proxies.

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::tree::{Directive, unconverted};

use super::Context;
use crate::nginx::upstreams::{duration, size};

/// The directive, if it is about connections.
pub fn setting(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    tls(directive, scope, context, draft) || connection(directive, context, draft)
}

/// Certificates, and what clients have to show.
fn tls(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    match directive.name.as_str() {
        "ssl_certificate" | "ssl_certificate_key" => {
            let key = if directive.name == "ssl_certificate" { "certificate" } else { "certificate_key" };
            let mut files = match scope.get(key) {
                Some(Value::Texts(files)) => files.clone(),
                _ => Vec::new(),
            };
            files.push((context.path)(first));
            scope.set(place, key, files);
        }
        "ssl_client_certificate" => scope.set(place, "client_ca", (context.path)(first)),
        "ssl_crl" => scope.set(place, "client_crl", (context.path)(first)),
        "ssl_verify_client" => match first {
            "on" => scope.set(place, "client_certificates", "required"),
            "optional" => scope.set(place, "client_certificates", "optional"),
            "off" => scope.set(place, "client_certificates", "off"),
            _ => draft.error(place, unconverted(directive), "write on or optional"),
        },
        "ssl_protocols" => {
            let all = directive.arguments.iter().filter_map(|version| version.strip_prefix("TLSv"));
            let versions: Vec<String> =
                all.filter(|version| matches!(*version, "1.2" | "1.3")).map(str::to_owned).collect();
            if directive.arguments.len() > versions.len() {
                draft.warn(place, "versions of TLS before 1.2 are not supported", "nothing to do");
            }
            if !versions.is_empty() {
                draft.tls.set(place, "versions", versions);
            }
        }
        _ => return false,
    }
    true
}

/// Times, heads, and what proxies say.
fn connection(directive: &Directive, context: &Context, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    match directive.name.as_str() {
        "keepalive_timeout" => timeout(directive, "idle", draft),
        "client_header_timeout" => timeout(directive, "head", draft),
        "client_body_timeout" => timeout(directive, "body", draft),
        "send_timeout" => timeout(directive, "write", draft),
        "keepalive_requests" => draft.limits.set(place, "requests", first.parse::<i64>().unwrap_or(1000)),
        "large_client_header_buffers" => match size(directive.argument(1)) {
            Some(bytes) => {
                let all = bytes.saturating_mul(first.parse().unwrap_or(4)).clamp(256, 1 << 20);
                draft.limits.set(place, "head", all);
            }
            None => draft.error(place, unconverted(directive), "write a number and a size"),
        },
        "real_ip_header" if !is_read(first) && context.trusts => {
            let what = format!("the address of a client is not read from {first}");
            draft.error(place, what, TRUSTED);
        }
        "real_ip_header" | "real_ip_recursive" => {}
        "set_real_ip_from" => trusted(directive, draft),
        _ => return false,
    }
    true
}

fn timeout(directive: &Directive, key: &str, draft: &mut Draft) {
    match duration(directive.argument(0)) {
        Some(time) if time != "0s" => draft.timeouts.set(&directive.place, key, time),
        Some(_) => draft.limits.set(&directive.place, "requests", 1),
        None => draft.error(&directive.place, unconverted(directive), "write a time, such as 30s"),
    }
}

/// What to do where a proxy names the client in another field.
pub const TRUSTED: &str = "let the proxy send X-Forwarded-For, and write real_ip_header X-Forwarded-For";

/// Whether the address of a client can be read from there.
fn is_read(header: &str) -> bool {
    header.eq_ignore_ascii_case("x-forwarded-for") || header == "proxy_protocol"
}

fn trusted(directive: &Directive, draft: &mut Draft) {
    let mut all = match draft.top.get("trusted_proxies") {
        Some(Value::Texts(all)) => all.clone(),
        _ => Vec::new(),
    };
    all.push(directive.argument(0).trim_end_matches(':').to_owned());
    draft.top.set(&directive.place, "trusted_proxies", all);
}
