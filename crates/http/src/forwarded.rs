//! What proxies say of the requests that they pass on: who has made one, by which scheme, and of which host. Anyone
//! can send such a field, so it counts only from a proxy that is trusted. Knows nothing of which those are.
//!
//! What is malformed is never believed, and neither is anything that stands before it: each proxy adds behind what it
//! was sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;

use crate::fields::{is_authority, is_name, is_token, list, port_number, trim_ows, unquoted};
use crate::head::{Field, Head, Names};
use crate::target::Scheme;

/// The fields that are read from a trusted proxy (RFC 7239, and those that were there before it).
const READ: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// What else programs have been seen to believe, beside everything that begins with [`PREFIX`].
const CLAIMS: [&str; 28] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "proxy-client-ip",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-host",
    "x-http-host-override",
    "x-original-for",
    "x-original-host",
    "x-original-prefix",
    "x-original-proto",
    "x-original-uri",
    "x-original-url",
    "x-originating-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-rewrite-url",
    "x-scheme",
    "x-url-scheme",
];
const PREFIX: &[u8] = b"x-forwarded";

/// Whether the field is one of the four that are read from a trusted proxy. What it says is told in other words
/// then, and never passed on as it came.
pub fn is_interpreted(name: &[u8]) -> bool {
    READ.iter().any(|known| is_name(name, known))
}

/// Whether the field says on whose behalf a request is made, or what another server was asked: an address, a scheme,
/// a host, a port or a path that a program would take for what this server has found out.
pub fn is_claim(name: &[u8]) -> bool {
    let begins =
        name.split_at_checked(PREFIX.len()).is_some_and(|(start, _)| start.eq_ignore_ascii_case(PREFIX));
    begins || CLAIMS.iter().any(|known| is_name(name, known))
}

/// Elements of one line of `Forwarded`: more are not read, as if it were malformed.
const MAX_ELEMENTS: usize = 32;

/// What proxies say of one request; what they do not say is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forwarded<'a> {
    /// The nearest address that is not a trusted proxy's; if all are, the first of them. Its port may be unknown.
    pub client: Option<(IpAddr, Option<u16>)>,
    pub scheme: Option<Scheme>,
    /// A valid authority.
    pub host: Option<&'a [u8]>,
}

/// What `X-Forwarded-For`, `-Proto` and `-Host` say; `None`: there is none of them. `trusts` says of an address
/// whether it is that of a proxy that is believed.
///
/// The addresses are read from the last to the first, up to the first one that is not trusted, or not an address. Of
/// several schemes and hosts the last counts, for that is the nearest proxy's.
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

/// What `Forwarded` says (RFC 7239); `None`: there is none. `trusts` as for [`x_forwarded`].
///
/// Elements are read from the last to the first, up to the first one whose address is not trusted, or that names none:
/// it is absent, `unknown` or obfuscated. Scheme and host are those of the element that is reached.
pub fn forwarded<'a>(head: &Head<'a>, trusts: impl Fn(IpAddr) -> bool) -> Option<Forwarded<'a>> {
    if !head.names.contains(Names::FORWARDED) {
        return None;
    }
    let mut said = Forwarded::default();
    for line in lines(head.fields, "forwarded") {
        let Some(elements) = elements(line) else { break };
        for Element { client, scheme, host } in elements.into_iter().rev() {
            (said.scheme, said.host) = (scheme, host);
            let Some(node) = client else { return Some(said) };
            said.client = Some(node);
            if !trusts(node.0) {
                return Some(said);
            }
        }
    }
    Some(said)
}

/// The values of all lines of this name, the last one first.
fn lines<'a>(fields: &[Field<'a>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().rev().filter(move |field| is_name(field.name, name)).map(|field| field.value)
}

/// The members of a list without quotes, the last one first.
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
    let is_of_it = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_of_it))
}

/// What one proxy says of the request that it was sent.
#[derive(Debug, Clone, Copy)]
struct Element<'a> {
    /// `None`: absent, `unknown`, obfuscated, or not a node.
    client: Option<(IpAddr, Option<u16>)>,
    scheme: Option<Scheme>,
    host: Option<&'a [u8]>,
}

/// `None`: the line is malformed in any of its elements. A quote that a client leaves open takes what a proxy adds
/// behind it in, and then nothing of the line can be believed.
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
    // An IPv6 address has brackets here.
    let has_brackets = |(address, _): &(IpAddr, _), text: &[u8]| address.is_ipv4() || text.starts_with(b"[");
    Some(Element {
        client: client.and_then(|text| node(text).filter(|node| has_brackets(node, text))),
        scheme: scheme.and_then(Scheme::from_bytes),
        host: host.filter(|host| is_authority(host)),
    })
}

/// A token, or what is between quotes. Nothing that can be said here needs an escape, so there is none.
fn value_of(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'"', value @ .., b'"'] => (!value.contains(&b'"') && !value.contains(&b'\\')).then_some(value),
        token => is_token(token).then_some(token),
    }
}

#[cfg(test)]
mod tests;
