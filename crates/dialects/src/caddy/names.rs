//! The directives of Caddy that are known, and the options of those that have some.

use crate::draft::Draft;
use crate::known::{Known, bounded};
use crate::tree::{Directive, unconverted};

/// The global options, whose block has no name.
const GLOBAL: &str = "";
/// What stands in a site.
const SITE: &str = "site";
/// The conditions of a named matcher.
const MATCHER: &str = "matcher";

/// Where a directive stands, and which there are.
pub const KNOWN: [(&str, Known); 10] = [
    (
        GLOBAL,
        Known(&[&[
            "email",
            "acme_ca",
            "debug",
            "servers",
            "admin",
            "order",
            "persist_config",
            "grace_period",
            "storage",
            "default_sni",
            "auto_https",
            "log",
        ]]),
    ),
    (
        SITE,
        Known(&[&[
            "root",
            "file_server",
            "reverse_proxy",
            "php_fastcgi",
            "redir",
            "rewrite",
            "try_files",
            "handle",
            "handle_path",
            "route",
            "respond",
            "error",
            "abort",
            "basic_auth",
            "basicauth",
            "forward_auth",
            "handle_errors",
            "uri",
            "header",
            "encode",
            "tls",
            "bind",
            "log",
            "request_body",
        ]]),
    ),
    (
        MATCHER,
        Known(&[&[
            "path",
            "path_regexp",
            "remote_ip",
            "client_ip",
            "method",
            "host",
            "header",
            "query",
            "file",
            "not",
        ]]),
    ),
    (
        "servers",
        Known(&[&[
            "trusted_proxies",
            "protocols",
            "metrics",
            "keepalive_interval",
            "timeouts",
            "trusted_proxies_strict",
        ]]),
    ),
    ("file_server", Known(&[&["browse", "index", "precompressed", "hide"]])),
    (
        "reverse_proxy",
        Known(&[&[
            "to",
            "lb_policy",
            "health_uri",
            "health_interval",
            "health_timeout",
            "fail_duration",
            "max_fails",
            "header_up",
            "header_down",
            "transport",
            "flush_interval",
            "trusted_proxies",
            "lb_try_duration",
            "lb_try_interval",
        ]]),
    ),
    (
        "transport",
        Known(&[&[
            "tls",
            "tls_insecure_skip_verify",
            "dial_timeout",
            "response_header_timeout",
            "read_timeout",
            "versions",
            "root",
            "split",
        ]]),
    ),
    ("forward_auth", Known(&[&["uri", "copy_headers", "trusted_proxies", "header_up", "handle_response"]])),
    ("log", Known(&[&["output", "format", "level"]])),
    ("request_body", Known(&[&["max_size"]])),
];

/// The directives that are known. The others are reported, and left out; but a matcher keeps all of its conditions, since
/// without one it would match more.
pub fn kept(tree: Vec<Directive>, draft: &mut Draft) -> Vec<Directive> {
    let mut kept = Vec::new();
    for mut directive in bounded(tree, draft) {
        let context = if directive.name.is_empty() { GLOBAL } else { SITE };
        directive.block = directive.block.map(|block| known(block, context, draft));
        kept.push(directive);
    }
    kept
}

fn known(block: Vec<Directive>, context: &str, draft: &mut Draft) -> Vec<Directive> {
    let Some((_, names)) = KNOWN.iter().find(|(place, _)| *place == context) else { return block };
    let mut kept = Vec::new();
    for mut directive in bounded(block, draft) {
        let name = directive.name.as_str();
        let is_matcher = context == SITE && name.starts_with('@');
        // It is about the answer.
        let is_of_answer = context == "forward_auth" && name.starts_with('@');
        if !is_matcher && !is_of_answer && !names.names().any(|known| known == name) {
            let what = unconverted(&directive);
            draft.error(&directive.place, what, &names.what_to_do(name));
            if context == MATCHER {
                kept.push(directive);
            }
            continue;
        }
        let inner = match name {
            "handle" | "handle_path" | "route" if context == SITE => SITE.to_owned(),
            // Its conditions are about errors.
            "handle_errors" => name.to_owned(),
            _ if is_matcher => MATCHER.to_owned(),
            name => name.to_owned(),
        };
        directive.block = directive.block.map(|block| known(block, &inner, draft));
        kept.push(directive);
    }
    kept
}
