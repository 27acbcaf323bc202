//! Log lines. For any request, a line is one line of printable ASCII with the same number of fields.

use serde_json::Value;
use site::log_line::{Client, Line, Request, TimeText, Tls, error_line, write};
use site::model::{ErrorLines, Level, LogFormat};
use taipan_http::head::HeadError;
use taipan_http::status::Status;

use crate::cuts::number;

/// Texts with a bar between them: client, host, user, time, method, target, status, bytes sent, referer, user agent, end.
/// A missing text is an absent value.
pub fn log_line(data: &[u8]) {
    let mut texts = data.split(|&byte| byte == b'|');
    let mut next = || texts.next().map(|text| (text, String::from_utf8_lossy(text)));
    let client = next().and_then(|(_, text)| text.parse().ok()).map_or(Client::Unix, Client::Ip);
    let [host, user] = [(); 2].map(|()| next());
    let time: i64 = next().map_or(0, |(text, _)| number(text));
    let [method, target] = [(); 2].map(|()| next().map(|(text, _)| text));
    let status = next().map_or(0, |(text, _)| number(text));
    let sent: u64 = next().map_or(0, |(text, _)| number(text));
    let [referer, user_agent] = [(); 2].map(|()| next().map(|(text, _)| text));
    let ended = next().map(|(_, text)| text);
    let line = Line {
        client,
        name: None,
        forwarded_for: None,
        host: host.as_ref().map_or(b"", |(text, _)| text),
        user: user.as_ref().map(|(text, _)| *text),
        time,
        request: method.zip(target).map(|(method, target)| Request { method, target, version: "HTTP/1.1" }),
        status: Status::new(status).unwrap_or(Status::OK),
        sent,
        referer,
        user_agent,
        duration_micros: sent,
        ended: ended.as_deref(),
        why: (sent % 2 == 1).then(|| HeadError::HostMissing.rule()),
        tls: host.as_ref().map(|(_, name)| Tls {
            protocol: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            name: Some(name),
            client: user.as_ref().map(|(_, text)| &**text),
            is_resumed: sent % 2 == 1,
            is_early: sent % 3 == 1,
        }),
        upstream: &[],
        cache: None,
        trace: None,
    };
    // Client, two names, time with its zone, request, status, bytes, host, seconds, end.
    assert_eq!(fields(&written(LogFormat::Common, &line)), 11);
    assert_eq!(fields(&written(LogFormat::Combined, &line)), 13);
    json(&written(LogFormat::Json, &line), &line);
    error(&String::from_utf8_lossy(data), time);
}

/// The line without its LF.
fn written(format: LogFormat, line: &Line) -> String {
    let mut out = b"before\n".to_vec();
    // The cached text is that of another second.
    write(&format, line, &mut TimeText::new(line.time.wrapping_add(1), None), &mut out);
    let text = String::from_utf8(out.split_off(7)).expect("ASCII");
    let text = text.strip_suffix('\n').expect("an end of line");
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
    text.to_owned()
}

/// The number of fields. A space within quotes does not separate fields.
fn fields(text: &str) -> usize {
    let mut quoted = false;
    let spaces = text.bytes().filter(|byte| {
        quoted ^= *byte == b'"';
        *byte == b' ' && !quoted
    });
    spaces.count() + 1
}

fn json(text: &str, line: &Line) {
    let value: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(16));
    let agent = line.user_agent.map(String::from_utf8_lossy);
    assert_eq!(value["user_agent"].as_str(), agent.as_deref());
    let target = line.request.map(|request| String::from_utf8_lossy(request.target));
    assert_eq!(value["target"].as_str(), target.as_deref());
    assert_eq!(value["ended"].as_str(), line.ended);
    assert_eq!(value["why"].as_str(), line.why.map(ToString::to_string).as_deref());
    assert_eq!(value["status"], line.status.code());
    assert_eq!(value["sent"], line.sent);
    assert_eq!(value["tls"]["sni"].as_str(), line.tls.and_then(|tls| tls.name));
    assert_eq!(value["tls"]["client"].as_str(), line.tls.and_then(|tls| tls.client));
}

fn error(text: &str, time: i64) {
    let mut out = Vec::new();
    error_line(&ErrorLines::default(), Level::Warn, time, text, &mut out);
    let line = String::from_utf8(out).expect("UTF-8");
    let line = line.strip_suffix('\n').expect("an end of line");
    assert!(!line.contains(|char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}')));
}
