//! `server`: hosts.

use site::address::without_brackets;

use crate::draft::{Draft, Host, Listen, Scope};
use crate::regex;
use crate::tree::{Directive, unconverted};

use super::answers::{self, Answers};
use super::around::{around, is_for_locations};
use super::cross_origin::shared;
use super::early;
use super::inherit::has_any;
use super::location::{denies_only, location, with_slash};
use super::missing::{self, fallbacks, front, is_condition, missing, try_files};
use super::named;
use super::order::{
    files_of_server, keep_first_expressions, leave_out_expressions, order, own_roots, rewrite_first,
};
use super::passing::{hidden_fields, hide};
use super::returns::{is_condition_of_https, is_type_of_text, rewrite, server_return, to_https};
use super::settings::{Context, setting};

/// A `server`.
pub fn server(directive: &Directive, context: &Context, draft: &mut Draft) {
    let mut host = addresses(directive, draft);
    let context = Context {
        server_name: host.names.first().cloned().unwrap_or_default(),
        fallbacks: fallbacks(directive),
        root: context.root.clone(),
        front: front(directive),
        around: around(directive.children(), &context.around),
        server: directive.children(),
        ..*context
    };
    let mut parts = parts(directive, &mut host, &context, draft);
    missing_files(directive, &mut parts, &mut host, &context, draft);
    hidden_fields(&mut host.scope);
    locations(directive, &mut parts, &mut host, &context, draft);
    early::apply(&parts.rules, &parts.conditions, &mut host, draft);
    rewrite_first(&mut host, draft);
    host.leave_folders(&["redirect", "rewrite", "respond"]);
    files_of_server(&mut host, &context);
    leave_out_expressions(&parts.locations, &mut host);
    keep_first_expressions(&mut host);
    if host.is_to_https {
        own_roots(&mut host);
    }
    order(&mut host);
    draft.hosts.push(host);
}

/// Where a server listens, and its names.
fn addresses(directive: &Directive, draft: &mut Draft) -> Host {
    let mut host = Host { scope: Scope::new(directive.place.line), ..Host::default() };
    for child in directive.children() {
        match child.name.as_str() {
            "listen" => listen(child, &mut host, draft),
            "server_name" => names(child, &mut host, draft),
            _ => {}
        }
    }
    // As before nginx 1.25: all that the server listens on has TLS.
    let is_on = |child: &Directive| child.name == "ssl" && child.argument(0) == "on";
    if directive.children().iter().any(is_on) {
        host.listens.iter_mut().for_each(|listen| listen.tls = true);
    }
    if host.listens.is_empty() {
        host.listens.push(Listen { address: "0.0.0.0:80".into(), tls: false, proxy: false });
    }
    host
}

/// What a server has apart from settings.
struct Parts<'d> {
    locations: Vec<&'d Directive>,
    /// A server's `try_files` is for paths without a location.
    without_location: Scope,
    returns: bool,
    /// What is denied before locations count, and the conditions that say so.
    rules: Vec<Scope>,
    conditions: Vec<&'d Directive>,
}

/// The settings of a server.
fn parts<'d>(directive: &'d Directive, host: &mut Host, context: &Context, draft: &mut Draft) -> Parts<'d> {
    let mut parts = Parts {
        locations: Vec::new(),
        without_location: Scope::new(directive.place.line),
        returns: false,
        rules: Vec::new(),
        conditions: Vec::new(),
    };
    let children: Vec<&Directive> = directive.children().iter().collect();
    let answers = Answers::of(&children, &[]);
    for child in shared(&children, context.maps, &mut host.scope, draft) {
        match child.name.as_str() {
            "listen" | "server_name" => {}
            "location" => parts.locations.push(child),
            "return" | "rewrite" | "if" if parts.returns => {
                draft.note(&child.place, "a return precedes it", "it has no effect");
            }
            "return" => {
                parts.returns = true;
                server_return(child, directive, host, context, draft);
            }
            "rewrite" => rewrite(child, None, host, context, draft),
            "if" if is_condition(child) => {}
            "if" if is_condition_of_https(child, directive, host) => {}
            "valid_referers" if early::are_of_rules(&children, context) => {}
            "if" => match early::of_referer(child, &children, context, draft)
                .or_else(|| early::rule(child, context, draft))
            {
                Some(rule) => {
                    parts.rules.push(rule);
                    parts.conditions.push(child);
                }
                None => {
                    draft.error(&child.place, early::unsaid(child), "see [[rule]], redirects and canonical")
                }
            },
            "add_header" if is_type_of_text(child, directive) => {}
            "add_header" if answers.added(child, &mut host.scope) => {}
            "error_page" if answers.leads_away(child) => {
                answers::login(child, &mut host.scope, context, draft);
            }
            "access_log" => host_log(child, host, context, draft),
            // `listen` says it.
            "ssl" => {}
            "http2" | "error_log" | "ssl_reject_handshake" => {
                draft.note(
                    &child.place,
                    format!("{}: it is set for all hosts", child.text()),
                    "see [http2], [log] and [tls]",
                );
            }
            "try_files" => try_files(child, directive, &mut parts.without_location, context, draft),
            "error_page" if named::leads_to(child).is_some() => {
                missing(child, directive, &mut parts.without_location, context, draft);
            }
            _ if is_for_locations(child) => {}
            "proxy_hide_header" | "fastcgi_hide_header" => hide(child, &mut host.scope, draft),
            _ if setting(child, &mut host.scope, context, draft) => {}
            _ => draft.error(&child.place, unconverted(child), "remove it, or find its like in the manual"),
        }
    }
    parts
}

/// What a server responds where no file is found.
fn missing_files(
    directive: &Directive,
    parts: &mut Parts,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    let (conditions_of_all, directives): (Vec<&Directive>, Vec<&Directive>) =
        directive.children().iter().partition(|child| is_condition(child));
    missing::rewrites(&directives, &[], &mut parts.without_location, host, context, draft);
    // They precede locations.
    let mut of_all = Scope::new(directive.place.line);
    missing::rewrites(&conditions_of_all, &[], &mut of_all, host, context, draft);
    host.scope.inherit(&of_all);
}

/// The routes of the locations. Those that have become something else are taken out of the parts.
fn locations(
    directive: &Directive,
    parts: &mut Parts,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    if parts.returns {
        for child in parts.locations.drain(..) {
            draft.note(&child.place, "the server returns before its locations", "it has no effect");
        }
    }
    if !parts.returns
        && let Some(root) = to_https(&parts.locations, host, context)
    {
        parts.locations.retain(|child| !std::ptr::eq(*child, root));
        let is_validation =
            |text: &&String| text.contains("pki-validation") && !text.contains("acme-challenge");
        for path in parts.locations.iter().filter_map(|child| child.arguments.last()).filter(is_validation) {
            let what = format!("{path} is redirected to https, too, where there is a host with TLS");
            draft.warn(&root.place, what, "put its files beneath the root of that host");
        }
    }
    let is_of_all = |child: &&Directive| {
        child.arguments.last().is_some_and(|path| path == "/") && child.argument(0) != "="
    };
    if !parts.returns && !parts.without_location.is_empty() && !parts.locations.iter().any(is_of_all) {
        host.route("/", &directive.place).inherit(&parts.without_location);
    }
    let hiding: Vec<&Directive> =
        parts.locations.extract_if(.., |child| denies_hidden_files(child)).collect();
    for child in &parts.locations {
        location(child, host, context, None, draft);
    }
    let is_closed = context.is_closed || named::has_access(directive.children());
    for target in named::targets(directive, context, is_closed, draft) {
        location(&target, host, context, None, draft);
    }
    for child in hiding {
        if hide_files(child, host, draft) {
            parts.rules.extend(early::hidden(child));
            parts.conditions.push(child);
        }
    }
}

/// Locations that deny, of which an alternative is for hidden files, as two locations.
pub fn split_hidden(block: Vec<Directive>) -> Vec<Directive> {
    let split = |child: Directive| {
        if child.name != "location" || !child.argument(0).starts_with('~') || !denies_only(&child) {
            return vec![Directive { block: child.block.map(split_hidden), ..child }];
        }
        let (hidden, others): (Vec<&str>, Vec<&str>) =
            regex::branches(child.argument(1)).into_iter().partition(|branch| is_of_hidden_files(branch));
        let parts = [others.join("|"), hidden.first().copied().unwrap_or_default().to_owned()];
        match parts.iter().any(String::is_empty) {
            true => vec![child],
            false => parts.map(|text| with_expression(&child, text)).to_vec(),
        }
    };
    block.into_iter().flat_map(split).collect()
}

fn with_expression(location: &Directive, expression: String) -> Directive {
    Directive { arguments: vec![location.argument(0).to_owned(), expression], ..location.clone() }
}

/// Whether a location denies all hidden files but those of `/.well-known/`.
fn denies_hidden_files(child: &Directive) -> bool {
    child.argument(0).starts_with('~') && is_of_hidden_files(child.argument(1)) && denies_only(child)
}

fn is_of_hidden_files(expression: &str) -> bool {
    const EXPRESSIONS: [&str; 8] = [
        "/(\\.(?!well-known).*)",
        "/\\.(?!well-known(?:/|$))",
        "/\\.(?!well-known/|$)",
        "/\\.(?!well-known).*",
        "/\\.(?!well-known)",
        "/\\.(?!well-known\\/)",
        "/\\.(?!well-known/)",
        "/\\.(?!well-known\\/).*",
    ];
    EXPRESSIONS.contains(&&*with_slash(expression))
}

/// Hidden files are never sent or run. Whether there are other upstreams than those of scripts, which would still have
/// their paths.
fn hide_files(child: &Directive, host: &mut Host, draft: &mut Draft) -> bool {
    host.scope.set(&child.place, "dotfiles", "deny");
    let is_passed = host.routes.iter().any(|route| has_any(route, &["proxy", "application"]));
    let (rules, response) =
        if is_passed { (" and rules", "nothing to do") } else { ("", "the response is 404") };
    let what = format!("{} became dotfiles = \"deny\"{rules}", child.text());
    draft.note(&child.place, what, response);
    is_passed
}

fn listen(child: &Directive, host: &mut Host, draft: &mut Draft) {
    let first = child.argument(0);
    let address = if let Some(path) = first.strip_prefix("unix:") {
        format!("unix:{path}")
    } else if first.parse::<u16>().is_ok() {
        format!("0.0.0.0:{first}")
    } else if let Some(port) = first.strip_prefix("*:") {
        format!("0.0.0.0:{port}")
    } else if let Some(port) = first.strip_prefix("localhost:") {
        format!("127.0.0.1:{port}")
    } else if first.parse::<std::net::SocketAddr>().is_ok() {
        first.to_owned()
    } else if let Ok(ip) = without_brackets(first).parse::<std::net::IpAddr>() {
        std::net::SocketAddr::new(ip, 80).to_string()
    } else {
        return draft.error(&child.place, unconverted(child), "write an IP address and a port");
    };
    let has = |word: &str| child.arguments.iter().any(|argument| argument == word);
    if has("quic") {
        return draft.warn(&child.place, "there is no HTTP/3", "clients use HTTP/2");
    }
    host.is_default |= has("default_server") || has("default");
    let of = |address| Listen { address, tls: has("ssl"), proxy: has("proxy_protocol") };
    if let Some(port) = address.strip_prefix("[::]:").filter(|_| has("ipv6only=off")) {
        host.listens.push(of(format!("0.0.0.0:{port}")));
    }
    host.listens.push(of(address));
}

fn names(child: &Directive, host: &mut Host, draft: &mut Draft) {
    for name in &child.arguments {
        match name.as_str() {
            "_" | "" => {}
            name if name.starts_with('~') || name.ends_with(".*") || name.contains('$') => {
                draft.error(
                    &child.place,
                    format!("server_name {name} cannot be converted"),
                    "write the names",
                );
            }
            name => match name.strip_prefix('.') {
                Some(bare) => host.names.extend([bare.to_owned(), format!("*.{bare}")]),
                None => host.names.push(name.to_lowercase()),
            },
        }
    }
}

fn host_log(child: &Directive, host: &mut Host, context: &Context, draft: &mut Draft) {
    match child.argument(0) {
        "off" => draft.warn(&child.place, "the access log cannot be off for one host", "see [log]"),
        target => match log_target(target, context) {
            Some(target) => host.scope.set(&child.place, "access_log", target),
            None => draft.error(&child.place, unconverted(child), REMOTE_LOG),
        },
    }
}

/// What to do with a log that is sent elsewhere, or whose name has a variable.
pub const REMOTE_LOG: &str = "name a file or the syslog of the machine; see tcp:// in [log]";

pub fn log_target(target: &str, context: &Context) -> Option<String> {
    match target {
        "/dev/stdout" => Some("stdout".into()),
        "/dev/stderr" | "stderr" => Some("stderr".into()),
        target if target.starts_with("syslog:server=unix:") => Some("syslog".into()),
        target if target.starts_with("syslog:") => None,
        target => (!target.contains('$')).then(|| (context.path)(target)),
    }
}
