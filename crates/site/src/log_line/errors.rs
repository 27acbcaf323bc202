//! The lines of the error log.

use taipan_http::status::Status;

use super::{Line, TimeText, client, common_time, request_line, word, write_rule};
use crate::model::{ErrorFormat, ErrorLines, Level, LoggedHost};
use crate::text;

/// Appends one line of the error log: `2026-11-20T07:49:41Z error: text`, or as Boa
/// `[20/Nov/2026:08:49:41 +0100] text`. Controls and newlines in `text` become `\u{h}`. `time` is in seconds since
/// 1970.
pub fn error_line(lines: &ErrorLines, level: Level, time: i64, text: &str, out: &mut Vec<u8>) {
    match lines.format {
        ErrorFormat::Boa => {
            out.push(b'[');
            out.extend_from_slice(&common_time(time, lines.zone.as_deref()));
            out.extend_from_slice(b"] ");
        }
        ErrorFormat::Taipan => {
            out.extend_from_slice(&text::rfc3339(time));
            out.extend_from_slice(match level {
                Level::Error => b" error: ",
                Level::Warn => b" warn: ",
                Level::Info => b" info: ",
                Level::Debug => b" debug: ",
            });
        }
    }
    text::line(text, out);
    out.push(b'\n');
}

/// Appends a line of the error log about a request that got a status from 400 to 499. `file`: what it was for. `None`:
/// no file.
///
/// ```text
/// 2026-11-20T07:49:41Z warn: 403 Forbidden for 192.0.2.7: "GET /a HTTP/1.1", host example.org, file /srv/a
/// 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] request "GET /a HTTP/1.1" ("/srv/a"): document open: Permission denied
/// ```
///
/// In the second one, which is as Boa's, `host` may stand in front; the name of a host also stands behind `request`.
pub fn client_error(
    format: ErrorFormat,
    host: LoggedHost,
    line: &Line<'_>,
    file: Option<&[u8]>,
    time: &mut TimeText,
    out: &mut Vec<u8>,
) {
    let time = time.at(line.time);
    match format {
        ErrorFormat::Boa => {
            if host != LoggedHost::Nothing {
                word(line.host, out);
                out.push(b' ');
            }
            client(line.client, out);
            out.extend_from_slice(b" - - [");
            out.extend_from_slice(&time.common);
            out.extend_from_slice(b"] request ");
            if host == LoggedHost::Name {
                out.push(b'[');
                text::word(if line.host.is_empty() { ABSENT.as_bytes() } else { line.host }, out);
                out.extend_from_slice(b"] ");
            }
            request_line(line.request.as_ref(), b"", ABSENT, out);
            out.extend_from_slice(b" (\"");
            text::quoted(file.unwrap_or(ABSENT.as_bytes()), out);
            out.extend_from_slice(b"\"): ");
            match line.status {
                _ if line.ended.is_some() || line.why.is_some() => write_reason(line, out),
                Status::NOT_FOUND => out.extend_from_slice(b"document open: No such file or directory"),
                Status::FORBIDDEN => out.extend_from_slice(b"document open: Permission denied"),
                status => out.extend_from_slice(status.to_string().as_bytes()),
            }
        }
        ErrorFormat::Taipan => {
            out.extend_from_slice(&time.rfc3339);
            out.extend_from_slice(format!(" warn: {} for ", line.status).as_bytes());
            client(line.client, out);
            out.extend_from_slice(b": ");
            request_line(line.request.as_ref(), b"", "-", out);
            if !line.host.is_empty() {
                out.extend_from_slice(b", host ");
                text::word(line.host, out);
            }
            if let Some(file) = file {
                out.extend_from_slice(b", file ");
                text::quoted(file, out);
            }
            if line.ended.is_some() || line.why.is_some() {
                out.extend_from_slice(b", ");
                write_reason(line, out);
            }
        }
    }
    out.push(b'\n');
}

/// As Boa has it in place of what a request lacks.
const ABSENT: &str = "(null)";

/// Why the request stayed incomplete, or the rule that it breaks.
fn write_reason(line: &Line<'_>, out: &mut Vec<u8>) {
    match (line.ended, line.why) {
        (Some(reason), _) => text::quoted(reason.as_bytes(), out),
        (None, Some(rule)) => write_rule(rule, out),
        (None, None) => {}
    }
}

/// The text of the error log when a script was started.
pub fn process_started(format: ErrorFormat, program: &str, pid: u32) -> String {
    match format {
        ErrorFormat::Boa => format!("Forked child \"{program}\" pid {pid}"),
        ErrorFormat::Taipan => format!("process {pid} was started: {program}"),
    }
}

/// The text of the error log when a script has ended. `status`: as of wait(2). `how`: in words.
pub fn process_ended(format: ErrorFormat, pid: u32, status: i32, how: &str) -> String {
    match format {
        ErrorFormat::Boa => format!("reaping child {pid}: status {status}"),
        ErrorFormat::Taipan => format!("process {pid} has ended: {how}"),
    }
}
