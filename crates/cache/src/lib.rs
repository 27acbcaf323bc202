//! A shared HTTP cache without its storage (RFC 9111): what a response is found by, and what is stored of it. Pure: time is
//! an argument, in seconds since 1970.

#![forbid(unsafe_code)]

pub mod store;
pub mod stored;
pub mod vary;

pub mod directives;

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
