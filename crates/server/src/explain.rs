//! `taipan explain METHOD URL`: what the server would answer, hop by hop, from the code that answers.
//! There is no socket in it: documentation, debugger and oracle in one.

use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use http::head::{self, FieldStore, Head, Method};
use http::target::SafePath;
use site::plan::{Plan, Scheme, Why, plan};

use crate::exchange::{self, Answer};
use crate::files::beneath::Wait;
use crate::files::look::{Found, Query, look};
use crate::files::roots::Roots;
use crate::flags::Explain;
use crate::serve::{Body, Reply};
use crate::worker::Worker;
use crate::{start, terminal};

pub fn explain(asked: &Explain) -> ExitCode {
    let site = match start::load(&asked.what) {
        Ok(site) => site,
        Err(lines) => {
            lines.iter().for_each(|line| terminal::err(format_args!("taipan: {line}")));
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let told = runtime.and_then(|runtime| {
        runtime.block_on(async { tell(&Rc::new(Worker::new(site)?), &request(asked)).await })
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::err(format_args!("taipan: {error}"));
            ExitCode::from(2)
        }
    }
}

/// The bytes that a client would send.
fn request(asked: &Explain) -> Vec<u8> {
    let Explain { method, url, fields, .. } = asked;
    let (authority, target) = match url.split_once("://") {
        Some((_, rest)) => rest.find(['/', '?']).map_or((rest, "/"), |at| rest.split_at(at)),
        None => ("localhost", url.as_str()),
    };
    let slash = if target.starts_with('?') { "/" } else { "" };
    let mut bytes = format!("{method} {slash}{target} HTTP/1.1\r\n").into_bytes();
    if !fields.iter().any(|f| f.to_ascii_lowercase().starts_with("host:")) {
        bytes.extend_from_slice(format!("Host: {authority}\r\n").as_bytes());
    }
    for field in fields {
        bytes.extend_from_slice(field.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

async fn tell(worker: &Rc<Worker>, bytes: &[u8]) -> io::Result<()> {
    let mut store = FieldStore::new();
    let head = match head::parse(bytes, &mut store, &worker.site.limits.head) {
        Ok(Some((head, _))) => head,
        Ok(None) => return Err(io::Error::other("that is no complete request")),
        Err(error) => {
            terminal::out(format_args!("request   refused: {error}"));
            terminal::out(format_args!(
                "reply\n{}",
                indented(&exchange::refuse(worker, Method::Unknown, error.status()))
            ));
            return Ok(());
        }
    };
    let authority = String::from_utf8_lossy(head.authority);
    terminal::out(format_args!("request   {} {} for host \"{authority}\"", head.token, head.raw_target));
    let host = worker.site.hosts.find(head.authority);
    let names = worker.site.hosts.at(host).names.join(", ");
    terminal::out(format_args!(
        "host      {}",
        if names.is_empty() { "the default host".to_owned() } else { names }
    ));
    tell_plan(worker, host, &head)?;
    terminal::out(format_args!("reply\n{}", indented(&answer(worker, host, &head).await)));
    Ok(())
}

fn tell_plan(worker: &Rc<Worker>, host: usize, head: &Head<'_>) -> io::Result<()> {
    let Some(path) = head.target.path() else {
        terminal::out(format_args!("path      none: this is about the server itself"));
        return Ok(());
    };
    let path = match SafePath::parse(path) {
        Ok(path) => path,
        Err(error) => {
            terminal::out(format_args!("path      refused: {error}"));
            return Ok(());
        }
    };
    terminal::out(format_args!("path      /{}", path.as_str()));
    let asked = path.clone();
    match plan(&worker.site, host, path, head.target.query(), head.authority, Scheme::Http) {
        Plan::Redirect { route, status, location } => {
            terminal::out(format_args!("route     {}: {status}, to {location}", route.pattern));
        }
        Plan::Status { route, status, why } => {
            terminal::out(format_args!("route     {}: {status} ({})", route.pattern, reason(why)))
        }
        Plan::Files(planned) => {
            let route = planned.route;
            terminal::out(format_args!(
                "route     {}: files beneath {}",
                route.pattern,
                planned.root.display()
            ));
            if planned.path != asked {
                terminal::out(format_args!("rewritten /{}", planned.path.as_str()));
            }
            let Some(root) = Roots::get(worker, planned.root, worker.clock.now()) else { return Ok(()) };
            let below = planned.below().into_owned();
            terminal::out(format_args!("file      {}", planned.root.join(below.as_str()).display()));
            let query = Query::new(root, below, &route.files, worker.site.cache.file);
            match look(&query, &[], Wait::Allowed) {
                Ok(Some(found)) => tell_found(&found),
                other => terminal::out(format_args!("found     {other:?}")),
            }
        }
    }
    Ok(())
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Answer => "the route answers so",
        Why::Dotfile => "dotfiles are hidden",
        Why::Rewrite => "rewritten too often, or to what is no path",
    }
}

fn tell_found(found: &Found) {
    match found {
        Found::Missing => terminal::out(format_args!("found     nothing")),
        Found::Denied => terminal::out(format_args!(
            "found     something that may not be served: permissions, a link, or no file"
        )),
        Found::Folder(_) => terminal::out(format_args!("found     a folder without an index")),
        Found::File { name, variants } => {
            for variant in variants {
                terminal::out(format_args!(
                    "found     {name}: {} bytes, coding {}",
                    variant.stamp.size,
                    variant.coding.as_str()
                ));
            }
        }
    }
}

async fn answer(worker: &Rc<Worker>, host: usize, head: &Head<'_>) -> Reply {
    let mut fetched = Vec::new();
    loop {
        match exchange::answer(worker, host, head, &fetched).0 {
            Answer::Now(reply) => return reply,
            Answer::Later(reply) => return reply.await,
            Answer::Fetch(fetch) => fetched.push(fetch.wait().await),
        }
    }
}

fn indented(reply: &Reply) -> String {
    let head = String::from_utf8_lossy(reply.block.head());
    let mut text: String = head.trim_end().lines().map(|line| format!("          {line}\n")).collect();
    let content = match (&reply.body, reply.content_length()) {
        (Body::Stream(_), _) => "          (content made while it is sent)".to_owned(),
        (_, Some(bytes)) => format!("          ({bytes} bytes of content)"),
        (_, None) => String::new(),
    };
    text.push_str(&content);
    text
}
