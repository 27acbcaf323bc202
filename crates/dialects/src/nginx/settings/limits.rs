//! Limits of sizes, speed, requests and connections.

use crate::draft::{Draft, Scope};
use crate::tree::{Directive, unconverted};

use super::{Context, Zone, bytes};
use crate::nginx::upstreams::size;

/// The directive, if it is about a limit.
pub fn setting(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    match directive.name.as_str() {
        "client_max_body_size" if first == "0" => scope.set(place, "max_body", "1TiB"),
        "client_max_body_size" => bytes(directive, "max_body", scope, draft),
        "limit_rate" => rate(directive, scope, draft),
        "limit_rate_after" => {
            match (size(first), scope.limits.iter_mut().find(|limit| limit.get("download").is_some())) {
                (Some(bytes), Some(limit)) => limit.set(place, "burst", bytes),
                _ => draft.warn(place, unconverted(directive), "write it behind limit_rate"),
            }
        }
        "limit_req" | "limit_conn" => limit(directive, scope, context, draft),
        "limit_req_status" | "limit_conn_status" => {
            let name = if directive.name == "limit_req_status" { "requests" } else { "concurrent" };
            for limit in scope.limits.iter_mut().filter(|limit| limit.get(name).is_some()) {
                limit.set(place, "status", first.parse::<i64>().unwrap_or(503));
            }
        }
        _ => return false,
    }
    true
}

fn rate(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    match size(directive.argument(0)) {
        Some(0) => scope.limits.retain(|limit| limit.get("download").is_none()),
        Some(bytes) => {
            let mut limit = Scope::new(directive.place.line);
            limit.set(&directive.place, "by", "connection");
            limit.set(&directive.place, "download", bytes);
            scope.limits.push(limit);
        }
        None => draft.error(&directive.place, unconverted(directive), "see [[limit]]"),
    }
}

/// `$binary_remote_addr` and the like, as in `by`.
fn counted(key: &str) -> Option<String> {
    Some(match key {
        "$binary_remote_addr" | "$remote_addr" => "client".into(),
        "$server_name" | "$host" => "host".into(),
        key => match (key.strip_prefix("$cookie_"), key.strip_prefix("$http_")) {
            (Some(name), _) => format!("cookie:{name}"),
            (_, Some(name)) => format!("field:{}", name.replace('_', "-")),
            _ => return None,
        },
    })
}

pub fn zone(directive: &Directive) -> Zone {
    let value = |name: &str| directive.arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let name = value("zone=").and_then(|zone| zone.split(':').next()).unwrap_or_default();
    let rate = value("rate=").map(|rate| {
        rate.trim_end_matches(['s', 'm']).trim_end_matches("r/").to_owned()
            + if rate.ends_with('m') { "/m" } else { "/s" }
    });
    Zone { name: name.to_owned(), by: counted(directive.argument(0)), rate }
}

fn limit(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &directive.place;
    let is_requests = directive.name == "limit_req";
    let zone = if is_requests {
        directive.arguments.iter().find_map(|argument| argument.strip_prefix("zone=")).unwrap_or_default()
    } else {
        directive.argument(0)
    };
    let Some(zone) = context.zones.iter().find(|known| known.name == zone) else {
        return draft.error(
            place,
            format!("{}: there is no such zone", directive.text()),
            "define it in http",
        );
    };
    let Some(by) = &zone.by else {
        return draft.error(
            place,
            unconverted(directive),
            "count by client, host, field or cookie; see [[limit]]",
        );
    };
    let mut limit = Scope::new(place.line);
    limit.set(place, "by", by.as_str());
    if is_requests {
        let burst = directive.arguments.iter().find_map(|argument| argument.strip_prefix("burst="));
        limit.set(place, "requests", zone.rate.clone().unwrap_or_default());
        let burst = burst.and_then(|burst| burst.parse::<i64>().ok()).unwrap_or(0);
        limit.set(place, "requests_burst", burst.saturating_add(1).clamp(1, 1_000_000));
        if burst > 0 && !directive.arguments.iter().any(|argument| argument == "nodelay") {
            draft.warn(
                place,
                "requests within the burst are not delayed",
                "nothing to do, or lower the burst",
            );
        }
    } else {
        limit.set(place, "concurrent", directive.argument(1).parse::<i64>().unwrap_or(1));
    }
    limit.set(place, "status", 503);
    scope.limits.push(limit);
}
