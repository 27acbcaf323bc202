//! A shared HTTP cache without its storage (RFC 9111): whether a response may be stored, and for which requests it may
//! be used. Pure: time is an argument, in seconds since 1970.

#![forbid(unsafe_code)]

pub mod store;

pub mod update;

pub mod policy;

pub mod invalidation;
pub mod status;

pub mod freshness;

pub mod parts;
pub mod stored;
pub mod vary;

pub mod request;

pub mod directives;
pub mod targeted;

pub mod fields;
pub mod key;
pub mod settings;

pub use fields::Field;
