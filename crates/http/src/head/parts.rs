//! Makes a request head of pseudo-fields and fields that are parsed already (RFC 9113 §8.3.1), with the rules of the
//! other parser. Knows nothing of frames and of HPACK.

use super::{
    Field, FieldStore, Framing, Head, HeadError, Limits, MAX_METHOD, Method, Names, Persistence, Scheme,
    Version, expects_continue,
};
use crate::fields::{is_authority, target_len, target_path_len};
use crate::framing;
use crate::target::{Target, TargetError};

/// The parts of a head. `fields` have valid names and values, none of which is specific to a connection.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// A token.
    pub method: &'a [u8],
    /// `None` for CONNECT without `:protocol`.
    pub scheme: Option<&'a [u8]>,
    /// `None` if only `Host` names the authority.
    pub authority: Option<&'a [u8]>,
    /// `None` for CONNECT without `:protocol`.
    pub path: Option<&'a [u8]>,
    /// Of the fields in the store.
    pub names: Names,
    /// Whether a body follows.
    pub body: Body,
}

/// Whether a body follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Absent,
    /// Its length is that of `Content-Length`, or unknown.
    Present,
}

/// Checks the parts and makes the head of an HTTP/2 request. `store` has the fields. If `Host` is not among them, it is
/// added, because what reads a head expects it there (RFC 9113 §8.3.1).
pub fn from_parts<'a: 's, 's>(
    parts: &Parts<'a>,
    store: &'s mut FieldStore<'a>,
    limits: &Limits,
) -> Result<Head<'s>, HeadError> {
    if parts.method.len() > MAX_METHOD {
        return Err(HeadError::MethodTooLong);
    }
    let method = Method::from_bytes(parts.method);
    let token = match method {
        Method::Unknown => std::str::from_utf8(parts.method).map_err(|_| HeadError::Method)?,
        method => method.as_str(),
    };
    if parts.scheme.is_some_and(|scheme| Scheme::from_bytes(scheme).is_none()) {
        return Err(HeadError::Target(TargetError::Scheme));
    }
    let (raw_target, target) = target(method, parts, limits)?;
    let mut names = parts.names;
    let host = if names.contains(Names::HOST) { host(store)? } else { None };
    let authority = match parts.authority.or(host) {
        Some(authority) if is_authority(authority) => authority,
        Some(_) => return Err(HeadError::HostInvalid),
        None => return Err(HeadError::HostMissing),
    };
    if host.is_none() {
        let host = Field { name: b"host", value: authority };
        store.try_push(host).map_err(|_| HeadError::TooManyFields)?;
        names.insert(Names::HOST);
    }
    let mut head = Head {
        method,
        token,
        raw_target,
        target,
        scheme: Scheme::Http,
        is_early: false,
        version: Version::Http2,
        fields: store,
        names,
        authority,
        persistence: Persistence::KeepAlive,
        framing: Framing::None,
        expects_continue: false,
    };
    head.framing = framing(&head, parts.body)?;
    head.expects_continue = expects_continue(&head)?;
    Ok(head)
}

/// The value of `Host`.
fn host<'a>(store: &FieldStore<'a>) -> Result<Option<&'a [u8]>, HeadError> {
    let mut hosts = store.iter().filter(|field| field.name == b"host").map(|field| field.value);
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(HeadError::HostTwice),
        (host, None) => Ok(host),
    }
}

/// RFC 9113 §8.3.1: `:path` has origin form, or asterisk form for OPTIONS. The target of CONNECT is `:authority`
/// (§8.5), unless the request has a path (RFC 8441 §4).
fn target<'a>(
    method: Method,
    parts: &Parts<'a>,
    limits: &Limits,
) -> Result<(&'a str, Target<'a>), HeadError> {
    let (raw, method) = match parts.path {
        Some(path) => (path, if method == Method::Connect { Method::Get } else { method }),
        None => (parts.authority.ok_or(HeadError::HostMissing)?, Method::Connect),
    };
    if raw.len() > limits.target {
        return Err(HeadError::TargetTooLong);
    }
    let mark = target_path_len(raw);
    let rest = &raw[mark..];
    if !rest.is_empty() && (rest[0] != b'?' || target_len(rest) != rest.len()) {
        return Err(HeadError::Target(TargetError::Byte));
    }
    let raw = std::str::from_utf8(raw).map_err(|_| HeadError::Target(TargetError::Byte))?;
    match Target::of_valid_bytes(method, raw, mark).map_err(HeadError::Target)? {
        Target::Absolute { .. } => Err(HeadError::Target(TargetError::Form)),
        target => Ok((raw, target)),
    }
}

fn framing(head: &Head, body: Body) -> Result<Framing, HeadError> {
    let length = match head.names.contains(Names::CONTENT_LENGTH) {
        true => framing::of(Version::Http2, head.values("content-length"), []),
        false => Ok(Framing::None),
    };
    match (length.map_err(HeadError::Framing)?, body) {
        (Framing::None, Body::Present) => Ok(Framing::Chunked),
        (framing, _) => Ok(framing),
    }
}
