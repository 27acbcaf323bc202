//! Reads the section `[trace]`.

use std::path::PathBuf;

use super::keys::Scope;
use super::section::{Given, Section};
use crate::address::Address;
use crate::endpoint::EndpointAddress;
use crate::sink::{Collector, CollectorTls, Sink};
use crate::tracing::{Context, Tracing};

/// The port and the path of OTLP by HTTP.
const PORT: u16 = 4318;
const PATH: &str = "/v1/traces";
const HTTPS: &str = "https://";
/// Bytes of a path, and of the name of a service.
const MAX: usize = 256;

/// `None`: requests have no trace.
pub fn tracing(top: &Section) -> Option<Tracing> {
    let section = top.section("trace", Scope::Trace)?;
    let context = match section.choice("context") {
        Some("restart") => Context::Restart,
        _ => Context::Continue,
    };
    let service = section.text("service");
    if let Some(given) = &service
        && (given.value.is_empty() || given.value.len() > MAX || given.value.chars().any(char::is_control))
    {
        section.reject("service", given.place, "is not a name");
    }
    let service = service.map_or("taipan", |given| given.value).to_owned();
    let authorities = section.path("tls_ca");
    let export = section.text("export");
    if authorities.is_some() && export.as_ref().is_none_or(|url| !url.value.starts_with(HTTPS)) {
        section.reject_keys(
            &["tls_ca"],
            "has no effect",
            "send the spans by TLS: export = \"https://collector.example.org:4318\"",
        );
    }
    let export = export.and_then(|url| match collector(&url, service, authorities) {
        Ok(collector) => Some(Sink::Collector(Box::new(collector))),
        Err(what_to_do) => {
            let what = format!("\"{}\" is not the URL of a collector", url.value.escape_debug());
            section.errors.add(url.place, what, what_to_do);
            None
        }
    });
    if !section.has("export") {
        section.reject_keys(&["service"], "has no effect", "add export = \"http://127.0.0.1:4318\"");
    }
    let exemplars = section.flag("exemplars").unwrap_or(false);
    Some(Tracing { context, sample: section.count("sample").unwrap_or(1), export, exemplars })
}

/// Errors: what to write instead.
fn collector(url: &Given<&str>, service: String, authorities: Option<PathBuf>) -> Result<Collector, String> {
    let example = "write it as \"http://127.0.0.1:4318/v1/traces\"";
    let (rest, tls) = match url.value.strip_prefix(HTTPS) {
        Some(rest) => (rest, Some(CollectorTls { authorities })),
        None => (url.value.strip_prefix("http://").ok_or(example)?, None),
    };
    let (authority, path) = rest.find('/').map_or((rest, PATH), |at| rest.split_at(at));
    let is_path = path.len() <= MAX && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if authority.is_empty() || authority.contains(['@', '?', '#']) || !is_path {
        return Err(example.to_owned());
    }
    match EndpointAddress::parse(authority, url.place.folder(), Some(PORT))? {
        EndpointAddress::Socket(Address::Unix(_)) | EndpointAddress::Service(_) => Err(example.to_owned()),
        address => {
            let path = if path == "/" { PATH } else { path };
            Ok(Collector { address, authority: authority.to_owned(), path: path.to_owned(), service, tls })
        }
    }
}
