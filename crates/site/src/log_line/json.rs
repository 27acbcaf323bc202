//! A line of the access log as an object in JSON.

use taipan_http::digits::write_number;

use super::{Attempt, Line, TimeText, Tls, TraceIds, client, write_rule};
use crate::text;

pub(super) fn write(line: &Line<'_>, time: &TimeText, out: &mut Vec<u8>) {
    let request = line.request.as_ref();
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(&time.rfc3339);
    out.extend_from_slice(b"\",\"client\":\"");
    client(line.client, out);
    out.push(b'"');
    if let Some(name) = line.name {
        member(b",\"client_name\":", Some(name.as_bytes()), out);
    }
    member(b",\"host\":", Some(line.host).filter(|host| !host.is_empty()), out);
    member(b",\"user\":", line.user, out);
    member(b",\"method\":", request.map(|request| request.method), out);
    member(b",\"target\":", request.map(|request| request.target), out);
    member(b",\"version\":", request.map(|request| request.version.as_bytes()), out);
    out.extend_from_slice(b",\"status\":");
    write_number(line.status.code().into(), out);
    out.extend_from_slice(b",\"sent\":");
    write_number(line.sent, out);
    out.extend_from_slice(b",\"duration\":");
    text::seconds(line.duration_micros, out);
    member(b",\"referer\":", line.referer, out);
    member(b",\"user_agent\":", line.user_agent, out);
    member(b",\"ended\":", line.ended.map(str::as_bytes), out);
    out.extend_from_slice(b",\"why\":");
    match line.why {
        Some(rule) => {
            out.push(b'"');
            write_rule(rule, out);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"tls\":");
    match &line.tls {
        Some(tls) => write_tls(tls, out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"upstream\":");
    match line.upstream {
        [] => out.extend_from_slice(b"null"),
        attempts => write_attempts(attempts, line.duration_micros, out),
    }
    if let Some(cache) = line.cache {
        member(b",\"cache\":", Some(cache.as_bytes()), out);
    }
    if let Some(TraceIds { trace, span }) = line.trace {
        let ids = format!(",\"trace_id\":\"{trace:032x}\",\"span_id\":\"{span:016x}\"");
        out.extend_from_slice(ids.as_bytes());
    }
    out.push(b'}');
}

/// An attempt that has not ended cannot have lasted longer than the exchange, which took `duration_micros`.
fn write_attempts(attempts: &[Attempt], duration_micros: u64, out: &mut Vec<u8>) {
    for (at, attempt) in attempts.iter().enumerate() {
        out.push(if at == 0 { b'[' } else { b',' });
        member(b"{\"address\":", Some(attempt.address.as_bytes()), out);
        out.extend_from_slice(b",\"status\":");
        match attempt.status {
            Some(status) => write_number(status.code().into(), out),
            None => out.extend_from_slice(b"null"),
        }
        time(b",\"connect\":", attempt.connect_micros, out);
        time(b",\"first_byte\":", attempt.first_byte_micros, out);
        time(b",\"total\":", attempt.total_micros.or(Some(duration_micros)), out);
        out.extend_from_slice(b",\"sent\":");
        write_number(attempt.sent, out);
        out.extend_from_slice(b",\"received\":");
        write_number(attempt.received, out);
        out.push(b'}');
    }
    out.push(b']');
}

fn time(name: &[u8], micros: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    match micros {
        Some(micros) => text::seconds(micros, out),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_tls(tls: &Tls<'_>, out: &mut Vec<u8>) {
    member(b"{\"protocol\":", Some(tls.protocol.as_bytes()), out);
    member(b",\"cipher\":", Some(tls.cipher.as_bytes()), out);
    member(b",\"sni\":", tls.name.map(str::as_bytes), out);
    member(b",\"client\":", tls.client.map(str::as_bytes), out);
    let flags: &[u8] = match (tls.is_resumed, tls.is_early) {
        (false, false) => b",\"resumed\":false,\"early\":false}",
        (true, false) => b",\"resumed\":true,\"early\":false}",
        (false, true) => b",\"resumed\":false,\"early\":true}",
        (true, true) => b",\"resumed\":true,\"early\":true}",
    };
    out.extend_from_slice(flags);
}

fn member(name: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => text::json(value, out),
        None => out.extend_from_slice(b"null"),
    }
}
