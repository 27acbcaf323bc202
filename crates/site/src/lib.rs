//! The site: its configuration, and the decision how to respond to a request. Only policy: a request and facts about a
//! file are the input, and a decision is the result.
//!
//! Knows nothing of sockets, of how a file is read, or of the time of day: the caller passes the facts.
//!
//! The modules are in the order of reading.

#![forbid(unsafe_code)]

pub mod model;
pub mod monitor;

pub mod address;

pub mod endpoint;

pub mod sink;

pub mod rotation;

pub mod log_fields;

pub mod timezone;

pub mod log_selection;

pub mod listener;

pub mod upstream;

pub mod forwarding;

pub mod cors;

pub mod security_headers;

pub mod published;

pub mod publishing;

pub mod balance;

pub mod health;

pub mod authorizer;

pub mod jwt;

pub mod tls;

pub mod certificates;

pub mod named_files;

pub mod network;

pub mod wildcard;

pub mod access;

pub mod authentication;

pub mod needs;

pub mod zones;

pub mod proxies;

pub mod forward_proxy;

pub mod config;

pub mod host;

pub mod folder;

pub mod route;

pub mod walk;

pub mod template;

pub mod plan;

pub mod limit;

pub mod applying;

pub mod decide;

pub mod compress;

pub mod alternates;

pub mod field_file;

pub mod image_map;

pub mod mistake;

pub mod includes;

pub mod mime;

pub mod listing;

pub mod error_page;

pub mod client_errors;
pub mod log_line;

pub mod tracing;

pub mod span;

pub mod watch;

pub mod maintenance;

pub mod disconnect;

pub mod acts;

pub mod text;

pub mod utf8;

pub mod memory;
