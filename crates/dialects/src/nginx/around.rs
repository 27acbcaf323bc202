//! Directives about upstreams that stand around the locations that pass requests on.

use crate::tree::Directive;

use super::cache;

const PROTOCOLS: [&str; 4] = ["proxy", "fastcgi", "scgi", "grpc"];
/// A location has those around it, name by name, unless it has its own of this name.
const NAMES: [&str; 17] = [
    "set_header",
    "param",
    "redirect",
    "cookie_path",
    "cookie_domain",
    "cookie_flags",
    "pass_header",
    "intercept_errors",
    "next_upstream",
    "next_upstream_tries",
    "ignore_headers",
    "connect_timeout",
    "read_timeout",
    "send_timeout",
    "ssl_verify",
    "ssl_trusted_certificate",
    "ssl_name",
];

/// A field of the answer of an authorizer, for those that have the answer.
pub const ANSWER: &str = "auth_request_set";

/// Whether it is for the locations within, and for nothing else.
pub fn is_for_locations(directive: &Directive) -> bool {
    let is_named = |(protocol, name): (&str, &str)| PROTOCOLS.contains(&protocol) && NAMES.contains(&name);
    directive.name == ANSWER
        || directive.name.split_once('_').is_some_and(is_named)
        || cache::part(directive).is_some_and(|part| part != "path")
}

/// What the locations within a block have around them.
pub fn around<'d>(block: &'d [Directive], outer: &[&'d Directive]) -> Vec<&'d Directive> {
    block.iter().filter(|child| is_for_locations(child)).chain(lacked(block, outer)).collect()
}

/// What a location has: its own, and what is around it. Timeouts are those of the upstream, which the others name.
pub fn all<'d>(location: &'d Directive, outer: &[&'d Directive]) -> Vec<&'d Directive> {
    let passes = |directive: &&Directive| {
        let protocol = directive.name.split('_').next().unwrap_or_default();
        let is_passed = |child: &Directive| child.name.strip_suffix("_pass") == Some(protocol);
        directive.name == ANSWER || location.children().iter().any(is_passed)
    };
    let all = location.children().iter().chain(lacked(location.children(), outer).filter(passes));
    let (last, mut first): (Vec<_>, Vec<_>) = all.partition(|inner| inner.name.ends_with("_timeout"));
    first.extend(last);
    first
}

fn lacked<'d, 'o>(
    block: &'o [Directive],
    outer: &'o [&'d Directive],
) -> impl Iterator<Item = &'d Directive> + 'o {
    let has = |name: &str| block.iter().any(|child| child.name == name);
    outer.iter().copied().filter(move |directive| !has(&directive.name))
}
