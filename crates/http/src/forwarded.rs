//! The fields in which proxies forward the client's address, the scheme and the host of a request (RFC 7239, and
//! `X-Forwarded-*`): read, and written for the next server. Any client can send them, so they count only from a trusted
//! proxy. Knows nothing of which proxies are trusted.
//!
//! Each proxy appends to the field. So the parser ignores a malformed member and all members before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;

use crate::digits::ip_text;
use crate::fields::{is_authority, is_name, is_plain_name, is_token, list, port_number, trim_ows, unquoted};
use crate::head::{Field, Head, Names};
use crate::target::Scheme;
use crate::write::put;

/// The fields that the server reads from a trusted proxy.
const READ: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// Fields that begin so have the same purpose.
const PREFIX: &[u8] = b"x-forwarded";

/// Whether the server reads this field from a trusted proxy. It is never passed on: the server writes its own fields
/// and variables from it.
pub fn is_interpreted(name: &[u8]) -> bool {
    READ.iter().any(|known| is_name(name, known))
}

/// Whether the field claims an address, a scheme, a host, a port or a path that a program could take for what the
/// server has determined; or a file that a program is to name in place of its content, as for Rack.
pub fn is_claim(name: &[u8]) -> bool {
    let begins =
        name.split_at_checked(PREFIX.len()).is_some_and(|(start, _)| start.eq_ignore_ascii_case(PREFIX));
    begins || claims(name.len()).iter().any(|known| is_name(name, known))
}

/// Whether the field may claim another scheme, host or path than that of the URL, to a program that takes an underscore
/// for a hyphen, too.
pub fn may_claim_url(name: &[u8]) -> bool {
    !is_plain_name(name) || (is_claim(name) && !is_of_client(name))
}

/// Whether the field of a trusted proxy is passed on as it is, and is no address of a client: it may be another client
/// that has written it.
pub fn is_passed_claim(name: &[u8]) -> bool {
    is_claim(name) && !is_interpreted(name) && !is_of_client(name)
}

/// Whether the field claims the address of the client, and nothing else.
fn is_of_client(name: &[u8]) -> bool {
    OF_CLIENT.iter().any(|known| is_name(name, known))
}

const OF_CLIENT: [&str; 17] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "client-ip",
    "fastly-client-ip",
    "forwarded-for",
    "proxy-client-ip",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-forwarded-for",
    "x-original-for",
    "x-originating-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
];

/// The names of this length, without those that begin with `PREFIX`, of fields that some program trusts.
fn claims(length: usize) -> &'static [&'static str] {
    match length {
        6 => &["x-host"],
        8 => &["x-scheme"],
        9 => &["client-ip", "forwarded", "x-real-ip"],
        11 => &["x-client-ip", "x-remote-ip"],
        12 => &["x-url-scheme"],
        13 => &["forwarded-for", "x-remote-addr", "x-rewrite-url", "x-script-name"],
        14 => &["true-client-ip", "x-original-for", "x-original-uri", "x-original-url"],
        15 => {
            &["front-end-https", "proxy-client-ip", "x-accel-mapping", "x-original-host", "x-sendfile-type"]
        }
        16 => &["cf-connecting-ip", "fastly-client-ip", "x-original-proto", "x-originating-ip"],
        17 => &["x-original-prefix"],
        18 => &["cf-connecting-ipv6", "wl-proxy-client-ip"],
        19 => &["x-cluster-client-ip"],
        20 => &["x-http-host-override"],
        24 => &["x-envoy-external-address"],
        _ => &[],
    }
}

/// What a proxy tells the next server of a request (RFC 7239 §4, forwarded-element).
#[derive(Debug, Clone, Copy)]
pub struct ForwardedElement<'a> {
    /// `None`: it has no IP address.
    pub client: Option<IpAddr>,
    pub scheme: Scheme,
    /// A valid authority. Empty: the request names none.
    pub host: &'a [u8],
}

/// Appends the fields `X-Forwarded-For`, `-Proto` and `-Host`, `X-Real-IP` and `Forwarded`; but those that are
/// `replaced`, a predicate of names in lower case. Without `X-Forwarded-For` there is no `X-Real-IP`. No field has an
/// empty host.
pub fn write(element: &ForwardedElement<'_>, replaced: &dyn Fn(&[u8]) -> bool, out: &mut Vec<u8>) {
    let &ForwardedElement { client, scheme, host } = element;
    let is_ipv6 = client.is_some_and(|client| client.to_canonical().is_ipv6());
    let client = client.map(ip_text);
    if let Some(client) = client.filter(|_| !replaced(b"x-forwarded-for")) {
        put(out, &[b"X-Forwarded-For: ", client.as_bytes(), b"\r\n"]);
        if !replaced(b"x-real-ip") {
            put(out, &[b"X-Real-IP: ", client.as_bytes(), b"\r\n"]);
        }
    }
    if !replaced(b"x-forwarded-proto") {
        match scheme {
            Scheme::Http => out.extend_from_slice(b"X-Forwarded-Proto: http\r\n"),
            Scheme::Https => out.extend_from_slice(b"X-Forwarded-Proto: https\r\n"),
        }
    }
    if !host.is_empty() && !replaced(b"x-forwarded-host") {
        out.extend_from_slice(b"X-Forwarded-Host: ");
        out.extend_from_slice(host);
        out.extend_from_slice(b"\r\n");
    }
    if !replaced(b"forwarded") {
        // RFC 7239 §4 and §6.
        out.extend_from_slice(b"Forwarded: for=");
        match &client {
            None => out.extend_from_slice(b"unknown"),
            Some(client) if is_ipv6 => {
                out.extend_from_slice(b"\"[");
                out.extend_from_slice(client.as_bytes());
                out.extend_from_slice(b"]\"");
            }
            Some(client) => out.extend_from_slice(client.as_bytes()),
        }
        if !host.is_empty() {
            put(out, &[b";host=\"", host, b"\""]);
        }
        match scheme {
            Scheme::Http => out.extend_from_slice(b";proto=http\r\n"),
            Scheme::Https => out.extend_from_slice(b";proto=https\r\n"),
        }
    }
}

/// Elements of a `Forwarded` line. A line with more counts as malformed.
const MAX_ELEMENTS: usize = 32;

/// What the fields of a request say; `None` for what they do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forwarded<'a> {
    /// The last address that is not of a trusted proxy, or the first address if all are. The port may be unknown.
    pub client: Option<(IpAddr, Option<u16>)>,
    pub scheme: Option<Scheme>,
    /// A valid authority.
    pub host: Option<&'a [u8]>,
}

/// Reads `X-Forwarded-For`, `-Proto` and `-Host`. `None`: the request has none of them. `trusts`: whether an
/// address is of a trusted proxy.
///
/// The addresses are read from last to first, until one is not trusted or not an address. Of several schemes and
/// hosts the last counts: the nearest proxy has added it.
pub fn x_forwarded<'a>(head: &Head<'a>, trusts: impl Fn(IpAddr) -> bool) -> Option<Forwarded<'a>> {
    let [mut addresses, mut schemes, mut hosts] =
        ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
            .map(|name| members(head.fields, name).peekable());
    if [&mut addresses, &mut schemes, &mut hosts].into_iter().all(|members| members.peek().is_none()) {
        return None;
    }
    let mut client = None;
    for address in addresses {
        let Some(node) = node(address) else { break };
        client = Some(node);
        if !trusts(node.0) {
            break;
        }
    }
    let scheme = schemes.next().and_then(Scheme::from_bytes);
    Some(Forwarded { client, scheme, host: hosts.next().filter(|host| is_authority(host)) })
}

/// Reads `Forwarded` (RFC 7239). `None`: the request has none. `trusts` as for [`x_forwarded`].
///
/// The elements are read from last to first, until the address of one is not trusted, absent, `unknown` or
/// obfuscated. Scheme and host are those of this element.
pub fn forwarded<'a>(head: &Head<'a>, trusts: impl Fn(IpAddr) -> bool) -> Option<Forwarded<'a>> {
    if !head.names.contains(Names::FORWARDED) {
        return None;
    }
    let mut found = Forwarded::default();
    for line in lines(head.fields, "forwarded") {
        let Some(elements) = elements(line) else { break };
        for Element { client, scheme, host } in elements.into_iter().rev() {
            (found.scheme, found.host) = (scheme, host);
            let Some(node) = client else { return Some(found) };
            found.client = Some(node);
            if !trusts(node.0) {
                return Some(found);
            }
        }
    }
    Some(found)
}

/// The values of all fields of this name, last to first.
fn lines<'a>(fields: &[Field<'a>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().rev().filter(move |field| is_name(field.name, name)).map(|field| field.value)
}

/// The members of a list without quotes, last to first.
fn members<'a>(fields: &[Field<'a>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    let members = lines(fields, name).flat_map(|line| line.rsplit(|byte| *byte == b','));
    members.map(trim_ows).filter(|member| !member.is_empty())
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`; a port may be obfuscated (RFC
/// 7239 §6). `None`: not an address.
fn node(text: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(text) => {
            let (address, rest) = text.split_once(']')?;
            let address = IpAddr::V6(address.parse::<Ipv6Addr>().ok()?);
            match rest {
                "" => (address, None),
                rest => (address, Some(rest.strip_prefix(':')?)),
            }
        }
        None => {
            let (address, port) = text.split_once(':')?;
            (IpAddr::V4(address.parse::<Ipv4Addr>().ok()?), Some(port))
        }
    };
    let port = match port {
        Some(port) if is_obfuscated(port) => None,
        Some(port) => Some(port_number(port.as_bytes())?),
        None => None,
    };
    Some((address.to_canonical(), port))
}

/// RFC 7239 §6.3.
fn is_obfuscated(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_valid))
}

/// One proxy's description of the request that it received.
#[derive(Debug, Clone, Copy)]
struct Element<'a> {
    /// `None`: absent, `unknown`, obfuscated, or not a node.
    client: Option<(IpAddr, Option<u16>)>,
    scheme: Option<Scheme>,
    host: Option<&'a [u8]>,
}

/// `None`: an element of the line is malformed. A quote that a client leaves open would include what a proxy appends,
/// so the whole line is then ignored.
fn elements(line: &[u8]) -> Option<ArrayVec<Element<'_>, MAX_ELEMENTS>> {
    let mut elements = ArrayVec::new();
    for member in list([line]) {
        elements.try_push(element(member)?).ok()?;
    }
    Some(elements)
}

/// RFC 7239 §4: `[ token "=" value ] *( ";" [ token "=" value ] )`, and each name once.
fn element(mut rest: &[u8]) -> Option<Element<'_>> {
    let [mut client, mut by, mut scheme, mut host] = [None; 4];
    while !rest.is_empty() {
        let (pair, behind) = match unquoted(rest, b';') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &b""[..]),
        };
        rest = behind;
        let pair = trim_ows(pair);
        if pair.is_empty() {
            continue;
        }
        let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
        let value = value_of(&value[1..])?;
        if !is_token(name) {
            return None;
        }
        let known = [("for", &mut client), ("by", &mut by), ("proto", &mut scheme), ("host", &mut host)];
        if let Some((_, place)) = known.into_iter().find(|(known, _)| is_name(name, known))
            && place.replace(value).is_some()
        {
            return None;
        }
    }
    // RFC 7239 §6: an IPv6 address has brackets.
    let has_brackets = |(address, _): &(IpAddr, _), text: &[u8]| address.is_ipv4() || text.starts_with(b"[");
    Some(Element {
        client: client.and_then(|text| node(text).filter(|node| has_brackets(node, text))),
        scheme: scheme.and_then(Scheme::from_bytes),
        host: host.filter(|host| is_authority(host)),
    })
}

/// A token or a quoted string without escapes. No valid value needs one.
fn value_of(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'"', value @ .., b'"'] => (!value.contains(&b'"') && !value.contains(&b'\\')).then_some(value),
        token => is_token(token).then_some(token),
    }
}

#[cfg(test)]
mod tests;
