//! The format of a line as the administrator writes it: text with the names of fields, which are those of nginx.

use std::sync::Arc;

/// Bytes of a format.
const MAX: usize = 4096;

/// A line, from left to right.
pub type Format = Arc<[Part]>;

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(Box<str>),
    Field(Field),
}

/// A field of a line. Each has a name of nginx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Client,
    ClientName,
    User,
    TimeLocal,
    TimeIso,
    Request,
    Method,
    Target,
    Protocol,
    Status,
    Sent,
    Referer,
    UserAgent,
    Host,
    Seconds,
    Ended,
    TlsProtocol,
    TlsCipher,
    TlsName,
    UpstreamAddress,
    UpstreamStatus,
    UpstreamSeconds,
    Cache,
    TraceId,
    SpanId,
}

const FIELDS: [(&str, Field); 25] = [
    ("remote_addr", Field::Client),
    ("remote_host", Field::ClientName),
    ("remote_user", Field::User),
    ("time_local", Field::TimeLocal),
    ("time_iso8601", Field::TimeIso),
    ("request", Field::Request),
    ("request_method", Field::Method),
    ("request_uri", Field::Target),
    ("server_protocol", Field::Protocol),
    ("status", Field::Status),
    ("body_bytes_sent", Field::Sent),
    ("http_referer", Field::Referer),
    ("http_user_agent", Field::UserAgent),
    ("host", Field::Host),
    ("request_time", Field::Seconds),
    ("ended", Field::Ended),
    ("ssl_protocol", Field::TlsProtocol),
    ("ssl_cipher", Field::TlsCipher),
    ("ssl_server_name", Field::TlsName),
    ("upstream_addr", Field::UpstreamAddress),
    ("upstream_status", Field::UpstreamStatus),
    ("upstream_response_time", Field::UpstreamSeconds),
    ("upstream_cache_status", Field::Cache),
    ("trace_id", Field::TraceId),
    ("span_id", Field::SpanId),
];

/// `$name` and `${name}` are fields. Errors: what is wrong, as the end of a sentence.
pub fn parse(text: &str) -> Result<Format, String> {
    if text.len() > MAX {
        return Err(format!("is longer than {MAX} bytes"));
    }
    if text.chars().any(|character| character.is_control() && character != '\t') {
        return Err("has a control character".to_owned());
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        if !before.is_empty() {
            parts.push(Part::Text(before.into()));
        }
        let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let (name, left) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or("has a `${` without its `}`")?,
            None => behind.split_at(behind.find(|character| !is_of_name(character)).unwrap_or(behind.len())),
        };
        let found = FIELDS.iter().find(|(known, _)| *known == name);
        let Some((_, field)) = found else {
            let known: Vec<String> = FIELDS.iter().map(|(known, _)| format!("${known}")).collect();
            return Err(format!("has the unknown field ${name}; known are {}", known.join(", ")));
        };
        parts.push(Part::Field(*field));
        rest = left;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    match parts.iter().any(|part| matches!(part, Part::Field(_))) {
        true => Ok(parts.into()),
        false => Err("has no field, such as $request".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_text_and_fields() {
        let parts = parse("a $status ${host}x").unwrap();
        let text = |text: &str| Part::Text(text.into());
        let expected =
            [text("a "), Part::Field(Field::Status), text(" "), Part::Field(Field::Host), text("x")];
        assert_eq!(*parts, expected);
    }

    #[test]
    fn rejects_a_format_with_its_reason() {
        for (format, reason) in [
            ("", "no field"),
            ("plain", "no field"),
            ("$nonsense", "unknown field $nonsense; known are $remote_addr, "),
            ("$", "unknown field $;"),
            ("${status", "without its"),
            ("$status\n", "control character"),
        ] {
            let error = parse(format).unwrap_err();
            assert!(error.contains(reason), "{format}: {error}");
        }
        assert!(parse(&format!("$status{}", "x".repeat(MAX))).unwrap_err().contains("longer"));
    }
}
