//! Every key of the configuration, in the order of the manual. A module has the keys of one chapter.

mod accounts;
mod application;
mod breaker;
mod cache;
mod cache_files;
mod certificates;
mod files;
mod forward_proxy;
mod further_hosts;
mod health;
mod host_tls;
mod hosts;
mod http2;
mod jwt;
mod limit;
mod limits;
mod log;
mod passwords;
mod publishing;
mod resolver;
mod rotate;
mod routes;
mod rules;
mod scripts;
mod security_txt;
mod server;
mod statistics;
mod stored_responses;
mod timeouts;
mod tls;
mod trace;

use std::time::Duration;

use super::KeyDefault::{Required, Value, Words};
use super::{Chapter, Key, Kind, Scope};

const DAY: u64 = 86_400;

const fn time(min_ms: u64, max_s: u64) -> Kind {
    Kind::Time { min: Duration::from_millis(min_ms), max: Duration::from_secs(max_s) }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max }
}

const fn byte_rate(min: u64, max: u64) -> Kind {
    Kind::ByteRate { min, max }
}

pub static CHAPTERS: &[Chapter] = &[
    server::CHAPTER,
    hosts::CHAPTER,
    host_tls::CHAPTER,
    further_hosts::CHAPTER,
    routes::CHAPTER,
    rules::CHAPTER,
    passwords::CHAPTER,
    files::CHAPTER,
    publishing::CHAPTER,
    stored_responses::CHAPTER,
    limit::CHAPTER,
    limits::CHAPTER,
    timeouts::CHAPTER,
    cache::CHAPTER,
    cache_files::CHAPTER,
    accounts::CHAPTER,
    http2::CHAPTER,
    statistics::CHAPTER,
    scripts::CHAPTER,
    application::CHAPTER,
    resolver::CHAPTER,
    forward_proxy::CHAPTER,
    health::CHAPTER,
    breaker::CHAPTER,
    tls::CHAPTER,
    certificates::CHAPTER,
    log::CHAPTER,
    rotate::CHAPTER,
    trace::CHAPTER,
    security_txt::CHAPTER,
    jwt::CHAPTER,
];
