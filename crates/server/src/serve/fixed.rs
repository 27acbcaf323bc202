//! Answers that need no file: redirects, refusals with their short built-in page, and OPTIONS.

use http::reply::Block;
use http::status::Status;
use site::decide::ALLOW;
use site::model::{Route, Site};

use super::Reply;
use super::head::HeadWriter;
use crate::clock::Clock;
use crate::worker::Worker;

const HTML: &str = "text/html; charset=utf-8";

/// A status with its built-in page.
pub fn status(worker: &Worker, route: Option<&Route>, status: Status) -> Reply {
    let head = HeadWriter::new(worker, route, status);
    let head = match status {
        Status::METHOD_NOT_ALLOWED => head.field("Allow", ALLOW),
        Status::SERVICE_UNAVAILABLE => head.field("Retry-After", "1"),
        _ => head,
    };
    finish(head, status, "")
}

/// The answer where there is no room for a connection.
pub fn no_room(site: &Site, clock: &Clock) -> Block {
    let status = Status::SERVICE_UNAVAILABLE;
    let head = HeadWriter::of(site, clock, None, status).field("Retry-After", "1");
    let page = page(status, "");
    head.field("Content-Type", HTML).length(page.len() as u64).finish_with(page.as_bytes())
}

/// A redirect, with a page for those who do not follow it by themselves.
pub fn redirect(worker: &Worker, route: Option<&Route>, status: Status, location: &str) -> Reply {
    let head = HeadWriter::new(worker, route, status).field("Location", location);
    let mut link = String::from("<p><a href=\"");
    escape(location, &mut link);
    link.push_str("\">Continue here</a></p>\n");
    finish(head, status, &link)
}

/// The answer to OPTIONS: what may be done, and nothing else.
pub fn options(worker: &Worker, route: Option<&Route>) -> Reply {
    let head = HeadWriter::new(worker, route, Status::NO_CONTENT);
    Reply::block(head.field("Allow", ALLOW).finish())
}

/// The range does not exist (RFC 9110 §15.5.17).
pub fn unsatisfiable(worker: &Worker, route: Option<&Route>, size: u64) -> Reply {
    let head = HeadWriter::new(worker, route, Status::RANGE_NOT_SATISFIABLE);
    finish(head.field("Content-Range", http::range::unsatisfied(size)), Status::RANGE_NOT_SATISFIABLE, "")
}

fn finish(head: HeadWriter<'_>, status: Status, text: &str) -> Reply {
    if !status.allows_body() {
        return Reply::block(head.finish());
    }
    let page = page(status, text);
    let head = head.field("Content-Type", HTML).length(page.len() as u64);
    Reply::block(head.finish_with(page.as_bytes()))
}

fn page(status: Status, text: &str) -> String {
    format!(
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{status}</title>\n<h1>{status}</h1>\n{text}"
    )
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}
