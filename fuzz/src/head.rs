//! Request heads. A prefix of the bytes is incomplete, or has the same result as all of them. Another parser (httparse)
//! reads an accepted head in the same way. Its framing has one meaning. Characters of a target that no URI has count as
//! encoded.

use taipan_http::fields::{is_authority, is_token, target_len, text_len, token_len, trim_ows};
use taipan_http::framing::Framing;
use taipan_http::head::{
    Field, FieldStore, Head, HeadError, Limits, MAX_FIELDS, Method, Names, Persistence, Version,
    escape_target, parse,
};
use taipan_http::target::{Target, TargetError};

use crate::cuts::cuts;

/// Small, so that short inputs reach them.
const SMALL: Limits = Limits { head: 128, fields: 4, target: 24 };

const METHODS: [Method; 9] = [
    Method::Get,
    Method::Head,
    Method::Post,
    Method::Put,
    Method::Delete,
    Method::Options,
    Method::Trace,
    Method::Connect,
    Method::Patch,
];

/// The bytes are those of a client.
pub fn head(data: &[u8]) {
    cuts(data).into_iter().for_each(|cut| lengths(&data[cut..]));
    for limits in [SMALL, Limits::default()] {
        let mut store = FieldStore::new();
        let whole = parse(data, &mut store, &limits);
        match &whole {
            Ok(None) => assert!(data.len() < limits.head, "a full head is one, or is refused"),
            Ok(Some((head, used))) => accepted(head, &data[..*used], &limits),
            Err(error) => rejected(*error),
        }
        let used = whole.as_ref().ok().and_then(|found| found.as_ref()).map(|(_, used)| *used);
        let last = used.map(|used| used - 1);
        for cut in cuts(data).into_iter().chain(used).chain(last) {
            let mut store = FieldStore::new();
            let early = parse(&data[..cut], &mut store, &limits);
            match early {
                Ok(None) => assert!(used.is_none_or(|used| cut < used), "the head was there at {cut}"),
                early => assert_eq!(summary(&early), summary(&whole), "cut at {cut}"),
            }
        }
        let whole = escaped(data, &limits);
        for cut in cuts(data) {
            let early = escaped(&data[..cut], &limits);
            assert!(early == Ok(None) || early == whole, "cut at {cut}: {early:?} {whole:?}");
        }
    }
    if let Some((escaped, longer)) = escape_target(data) {
        assert_eq!(escaped.len(), data.len() + longer);
        assert_eq!(escape_target(&escaped), None, "a second time changes nothing");
        assert_eq!(without_escapes(&escaped), without_escapes(data));
    }
}

/// The result of a connection, and the number of bytes of the head.
fn escaped(data: &[u8], limits: &Limits) -> Result<Option<(String, usize)>, HeadError> {
    let read = |bytes: &[u8], longer| {
        let mut store = FieldStore::new();
        let found = parse(bytes, &mut store, limits)?;
        Ok(found.map(|(head, used)| {
            accepted(&head, &bytes[..used], limits);
            (format!("{:?}", parts(&head)), used - longer)
        }))
    };
    match (read(data, 0), escape_target(data)) {
        (Err(HeadError::Target(TargetError::Byte)), Some((escaped, longer))) => read(&escaped, longer),
        (read, _) => read,
    }
}

/// Decodes the escapes.
fn without_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = bytes;
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &behind[2..];
            }
            None => {
                plain.push(*first);
                rest = behind;
            }
        }
    }
    plain
}

/// Compares the lengths with those of a reader by bytes.
fn lengths(bytes: &[u8]) {
    let leading = |wanted: fn(u8) -> bool| bytes.iter().take_while(|byte| wanted(**byte)).count();
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    assert_eq!(token_len(bytes), leading(is_tchar));
    assert_eq!(target_len(bytes), leading(|byte| byte.is_ascii_graphic() && !b"\"<>#".contains(&byte)));
    assert_eq!(text_len(bytes), leading(|byte| !byte.is_ascii_control()));
}

fn rejected(error: HeadError) {
    assert!(error.status().is_error() && !error.to_string().is_empty());
    assert!(!error.rule().token.is_empty());
}

/// `bytes` are those of the head.
fn accepted(head: &Head, bytes: &[u8], limits: &Limits) {
    assert!(bytes.len() <= limits.head && bytes.ends_with(b"\r\n\r\n"));
    assert!(head.fields.len() <= limits.fields && head.raw_target.len() <= limits.target);
    assert!(is_token(head.token.as_bytes()));
    let known = METHODS.into_iter().find(|method| method.as_str() == head.token);
    assert_eq!(known.unwrap_or(Method::Unknown), head.method);
    assert_eq!(Target::parse(head.method, head.raw_target), Ok(head.target));
    for field in head.fields {
        assert!(is_token(field.name));
        assert_eq!(trim_ows(field.value), field.value);
        assert!(!field.value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t'));
    }
    let names = head.fields.iter().map(|field| Names::of(field.name));
    assert_eq!(names.fold(Names::NONE, std::ops::BitOr::bitor), head.names);
    let has_host = head.values("host").next().is_some();
    match head.authority {
        b"" => assert!(head.version == Version::Http10 && !has_host),
        authority => assert!(is_authority(authority)),
    }
    assert!(has_host || head.version == Version::Http10);
    framing_is_certain(head);
    persistence_is_that_of_the_head(head);
    a_written_head_is_the_same(head);
    httparse_agrees(head, bytes);
}

fn framing_is_certain(head: &Head) {
    let lengths: Vec<&[u8]> = head.values("content-length").collect();
    let codings: Vec<&[u8]> = head.values("transfer-encoding").collect();
    match (head.framing, &lengths[..], &codings[..]) {
        (Framing::None, [], []) => {}
        (Framing::Sized(len), [length], []) => {
            assert_eq!(*length, len.to_string().as_bytes());
        }
        (Framing::Chunked, [], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && head.version == Version::Http11);
        }
        other => panic!("{other:?}"),
    }
    if head.expects_continue {
        assert!(head.framing.has_body() && head.version == Version::Http11);
        assert!(head.names.contains(Names::EXPECT));
    }
}

fn persistence_is_that_of_the_head(head: &Head) {
    // A quoted string is no option.
    if head.values("connection").any(|value| value.contains(&b'"')) {
        return;
    }
    let has_option = |word: &[u8]| {
        let mut options = head.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
        options.any(|option| trim_ows(option).eq_ignore_ascii_case(word))
    };
    let is_kept = !has_option(b"close") && (head.version == Version::Http11 || has_option(b"keep-alive"));
    assert_eq!(head.persistence == Persistence::KeepAlive, is_kept);
}

fn a_written_head_is_the_same(head: &Head) {
    let mut text = Vec::new();
    for piece in [head.token, " ", head.raw_target, " ", head.version.as_str(), "\r\n"] {
        text.extend_from_slice(piece.as_bytes());
    }
    for field in head.fields {
        text.extend([field.name, b":", field.value, b"\r\n"].concat());
    }
    text.extend_from_slice(b"\r\n");
    let mut store = FieldStore::new();
    let again = parse(&text, &mut store, &Limits::default());
    assert_eq!(summary(&again).map(|found| found.map(|found| found.0)), Ok(Some(parts(head))));
}

fn httparse_agrees(head: &Head, bytes: &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        // httparse knows only 1.0 and 1.1.
        Err(httparse::Error::Version) => return,
        other => assert_eq!(other, Ok(httparse::Status::Complete(bytes.len()))),
    }
    assert_eq!(request.method, Some(head.token));
    assert_eq!(request.path, Some(head.raw_target));
    assert_eq!(request.version, Some(head.version as u8));
    let theirs = request.headers.iter().map(|field| (field.name.as_bytes(), field.value));
    assert!(theirs.eq(head.fields.iter().map(|field| (field.name, field.value))));
}

/// The parts of a head that can be compared.
type Parts<'a> =
    (&'a str, &'a str, Target<'a>, Version, &'a [Field<'a>], Names, &'a [u8], Persistence, Framing, bool);

fn parts<'a>(head: &Head<'a>) -> Parts<'a> {
    let Head { token, raw_target, target, version, fields, names, authority, .. } = *head;
    let Head { persistence, framing, expects_continue, .. } = *head;
    (token, raw_target, target, version, fields, names, authority, persistence, framing, expects_continue)
}

type Found<'a> = Result<Option<(Head<'a>, usize)>, HeadError>;

fn summary<'a>(found: &Found<'a>) -> Result<Option<(Parts<'a>, usize)>, HeadError> {
    found
        .as_ref()
        .map(|found| found.as_ref().map(|(head, used)| (parts(head), *used)))
        .map_err(|error| *error)
}
