//! A shared HTTP cache without its storage (RFC 9111): whether a response may be stored, and for which requests it may be
//! used. Pure: time is an argument, in seconds since 1970.

#![forbid(unsafe_code)]

pub mod store;

pub mod update;

pub mod policy;

pub mod invalidation;
pub mod status;

pub mod freshness;

pub mod stored;
pub mod vary;

pub mod request;

pub mod directives;
pub mod targeted;

pub mod key;
pub mod settings;

/// A field of a stored response, as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: Box<str>,
    pub value: Box<[u8]>,
}

/// The values of the fields with this name, in order.
pub fn values<'a>(fields: &'a [Field], name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| &*field.value)
}

/// The value of a field that is there once.
fn only<'a>(fields: &'a [Field], name: &'a str) -> Option<&'a [u8]> {
    let mut values = values(fields, name);
    values.next().filter(|_| values.next().is_none())
}
