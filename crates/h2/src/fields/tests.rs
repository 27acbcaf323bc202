//! The rules of pseudo-fields and fields, in tables.

use super::*;
use taipan_http::framing::Framing;
use taipan_http::head::Method;
use taipan_http::target::{Target, TargetError};

const LIMITS: Limits = Limits { head: 16_384, fields: 100, target: 100 };

fn list(section: Section, body: Body, fields: &[(&str, &str)]) -> Result<FieldList, SectionError> {
    let mut list = FieldList::new();
    list.begin(section, body);
    for (name, value) in fields {
        list.push(Source::Literal, name.as_bytes(), value.as_bytes(), 20)?;
    }
    list.finish(ExtendedConnect::Announced)?;
    Ok(list)
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "example.org:8443")];

fn request(fields: &[(&str, &str)]) -> Result<FieldList, SectionError> {
    list(Section::Head, Body::Absent, fields)
}

fn with(more: &[(&str, &str)]) -> Vec<(&'static str, &'static str)> {
    let more: Vec<(&'static str, &'static str)> =
        more.iter().map(|(name, value)| (&*name.to_string().leak(), &*value.to_string().leak())).collect();
    [&GET[..], &more].concat()
}

#[test]
fn makes_a_head_of_a_list() {
    let list = request(&with(&[("range", "bytes=0-1"), ("x-empty", "")])).unwrap();
    let mut store = FieldStore::new();
    let head = list.head(&mut store, &LIMITS).unwrap();
    assert_eq!((head.method, head.token, head.raw_target), (Method::Get, "GET", "/a?b"));
    assert_eq!(head.target, Target::Origin { path: "/a", query: Some("b") });
    assert_eq!(head.authority, b"example.org:8443");
    assert_eq!(head.version.as_str(), "HTTP/2.0");
    assert_eq!((head.framing, head.expects_continue), (Framing::None, false));
    assert!(head.names.contains(Names::RANGE | Names::HOST));
    let names: Vec<_> = head.fields.iter().map(|field| field.name).collect();
    assert_eq!(names, [&b"range"[..], b"x-empty", b"host"]);
    assert_eq!(head.value("host"), Some(&b"example.org:8443"[..]));
}

#[test]
fn takes_the_authority_from_host() {
    let list = request(&[GET[0], GET[1], GET[2], ("host", "a.example")]).unwrap();
    let mut store = FieldStore::new();
    let head = list.head(&mut store, &LIMITS).unwrap();
    assert_eq!((head.authority, head.fields.len()), (&b"a.example"[..], 1));
    // RFC 9113 §8.3.1: after normalization.
    for (scheme, authority, host, is_same) in [
        ("https", "example.org:8443", "Example.ORG:8443", true),
        ("https", "example.org", "example.org:443", true),
        ("https", "example.org:443", "example.org.", true),
        ("https", "example.org:", "example.org", true),
        ("http", "example.org", "example.org:80", true),
        ("https", "[::1]", "[::1]:443", true),
        ("http", "example.org", "example.org:443", false),
        ("https", "example.org", "example.org:80", false),
        ("https", "example.org:8443", "example.org", false),
        ("https", "example.org", "example.com:443", false),
        ("https", "[::1]", "[::2]", false),
    ] {
        let fields = [GET[0], (":scheme", scheme), GET[2], (":authority", authority), ("host", host)];
        assert_eq!(request(&fields).is_ok(), is_same, "{fields:?}");
    }
}

#[test]
fn knows_the_length_of_a_body() {
    for (body, fields, expected) in [
        (Body::Absent, &[][..], Framing::None),
        (Body::Absent, &[("content-length", "0")], Framing::Sized(0)),
        (Body::Present, &[], Framing::Chunked),
        (Body::Present, &[("content-length", "5")], Framing::Sized(5)),
    ] {
        let list = list(Section::Head, body, &with(fields)).unwrap();
        let mut store = FieldStore::new();
        assert_eq!(list.head(&mut store, &LIMITS).unwrap().framing, expected, "{body:?} {fields:?}");
    }
    let list = list(Section::Head, Body::Present, &with(&[("expect", "100-continue")])).unwrap();
    assert!(list.head(&mut FieldStore::new(), &LIMITS).unwrap().expects_continue);
}

#[test]
fn rejects_malformed_requests() {
    use Malformed::*;
    let check = |fields: &[(&str, &str)], expected| {
        assert_eq!(request(fields).err(), Some(SectionError::Malformed(expected)), "{fields:?}");
    };
    check(&with(&[("Accept", "x")]), Name);
    check(&with(&[("", "x")]), Name);
    check(&with(&[("a b", "x")]), Name);
    check(&with(&[("a:", "x")]), Name);
    check(&with(&[("a\u{e9}", "x")]), Name);
    for value in ["\0", "a\nb", "a\rb", "\x7f", " a", "a ", "\ta", "a\t", " "] {
        check(&with(&[("a", value)]), Value);
    }
    check(&[GET[0], GET[1], (":path", "/\n"), GET[3]], Value);
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        check(&with(&[(name, "x")]), ConnectionSpecific);
    }
    check(&with(&[("te", "gzip")]), Te);
    check(&with(&[("te", "trailers, gzip")]), Te);
    check(&with(&[(":status", "200")]), UnknownPseudo);
    check(&with(&[(":", "x")]), UnknownPseudo);
    check(&with(&[(":Method", "x")]), UnknownPseudo);
    check(&with(&[("a", "b"), (":protocol", "x")]), PseudoAfterField);
    check(&with(&[(":path", "/a")]), PseudoTwice);
    check(&GET[1..], PseudoMissing);
    check(&[GET[0], GET[2], GET[3]], PseudoMissing);
    check(&[GET[0], GET[1], GET[3]], PseudoMissing);
    check(&[GET[0], GET[1], (":path", ""), GET[3]], PseudoValue);
    check(&[(":method", ""), GET[1], GET[2], GET[3]], PseudoValue);
    check(&[(":method", "G T"), GET[1], GET[2], GET[3]], PseudoValue);
    check(&with(&[("host", "other.example")]), HostDiffers);
    check(&with(&[("host", "example.org")]), HostDiffers);
    // CONNECT (RFC 9113 §8.5) and extended CONNECT (RFC 8441 §4).
    let connect = (":method", "CONNECT");
    check(&[connect, GET[1], GET[2], GET[3]], Connect);
    check(&[connect, GET[1], GET[3]], Connect);
    check(&[connect, GET[2], GET[3]], Connect);
    check(&[connect], PseudoMissing);
    check(&[connect, (":protocol", "websocket"), GET[1], GET[3]], PseudoMissing);
    check(&with(&[(":protocol", "websocket")]), Connect);
    let trailers = |fields: &[(&str, &str)]| list(Section::Trailers, Body::Absent, fields).err();
    assert_eq!(trailers(&[("a", "b")]), None);
    assert_eq!(trailers(&GET[..1]), Some(SectionError::Malformed(UnknownPseudo)));
    assert_eq!(trailers(&[("connection", "b")]), Some(SectionError::Malformed(ConnectionSpecific)));
}

#[test]
fn accepts_connect_with_an_authority_alone() {
    let list = request(&[(":method", "CONNECT"), (":authority", "example.org:443")]).unwrap();
    let mut store = FieldStore::new();
    let head = list.head(&mut store, &LIMITS).unwrap();
    assert_eq!((head.method, head.target), (Method::Connect, Target::Authority("example.org:443")));
    assert_eq!(head.raw_target, "example.org:443");
    let mut extended = GET.to_vec();
    extended[0].1 = "CONNECT";
    extended.push((":protocol", "websocket"));
    let list = request(&extended).unwrap();
    assert_eq!(list.protocol(), Some(&b"websocket"[..]));
    let mut store = FieldStore::new();
    let head = list.head(&mut store, &LIMITS).unwrap();
    assert_eq!((head.method, head.raw_target), (Method::Connect, "/a?b"));
    assert_eq!(head.target, Target::Origin { path: "/a", query: Some("b") });
}

#[test]
fn extended_connect_must_have_been_announced() {
    let mut list = FieldList::new();
    list.begin(Section::Head, Body::Absent);
    for (name, value) in with(&[(":protocol", "websocket")]) {
        let value = if name == ":method" { "CONNECT" } else { value };
        list.push(Source::Literal, name.as_bytes(), value.as_bytes(), 20).unwrap();
    }
    assert_eq!(list.finish(ExtendedConnect::Unknown), Err(Malformed::UnknownPseudo));
    assert_eq!(list.finish(ExtendedConnect::Announced), Ok(()));
}

#[test]
fn rejects_a_head_by_the_rules_of_http() {
    let check = |fields: &[(&str, &str)], expected: HeadError| {
        let list = list(Section::Head, Body::Present, fields).unwrap();
        assert_eq!(list.head(&mut FieldStore::new(), &LIMITS).err(), Some(expected), "{fields:?}");
    };
    check(&GET[..3], HeadError::HostMissing);
    check(&[GET[0], GET[1], GET[2], (":authority", "")], HeadError::HostInvalid);
    check(&[GET[0], GET[1], GET[2], (":authority", "a@b")], HeadError::HostInvalid);
    check(&[GET[0], GET[1], GET[2], ("host", "a/b")], HeadError::HostInvalid);
    check(&[GET[0], GET[1], GET[2], ("host", "a"), ("host", "a")], HeadError::HostTwice);
    check(&[GET[0], (":scheme", "ftp"), GET[2], GET[3]], HeadError::Target(TargetError::Scheme));
    check(&[GET[0], GET[1], (":path", "a"), GET[3]], HeadError::Target(TargetError::Form));
    check(&[GET[0], GET[1], (":path", "*"), GET[3]], HeadError::Target(TargetError::Form));
    check(&[GET[0], GET[1], (":path", "http://a/"), GET[3]], HeadError::Target(TargetError::Form));
    check(&[GET[0], GET[1], (":path", "/a b"), GET[3]], HeadError::Target(TargetError::Byte));
    check(&[GET[0], GET[1], (":path", "/#"), GET[3]], HeadError::Target(TargetError::Byte));
    check(&[GET[0], GET[1], (":path", "/<"), GET[3]], HeadError::Target(TargetError::Byte));
    let long = format!("/{}", "a".repeat(100));
    check(&[GET[0], GET[1], (":path", &long), GET[3]], HeadError::TargetTooLong);
    check(&[(":method", &"A".repeat(33)), GET[1], GET[2], GET[3]], HeadError::MethodTooLong);
    check(&with(&[("expect", "x")]), HeadError::Expectation);
    for length in ["-1", "", "1x"] {
        let error = HeadError::Framing(taipan_http::framing::FramingError::LengthSyntax);
        check(&with(&[("content-length", length)]), error);
    }
    let error = HeadError::Framing(taipan_http::framing::FramingError::LengthTwice);
    check(&with(&[("content-length", "1"), ("content-length", "1")]), error);
}

#[test]
fn encodes_the_bytes_of_a_path_that_no_uri_contains() {
    for (path, expected) in
        [("/\u{e9}?\"<>", "/%C3%A9?%22%3C%3E"), ("/a?b|", "/a?b|"), ("/?\u{e9}", "/?%C3%A9")]
    {
        let list = request(&[GET[0], GET[1], (":path", path), GET[3]]).unwrap();
        let mut store = FieldStore::new();
        assert_eq!(list.head(&mut store, &LIMITS).unwrap().raw_target, expected);
    }
}

#[test]
fn joins_the_crumbs_of_a_cookie() {
    let fields =
        [("a", "1"), ("cookie", "x=1"), ("b", "2"), ("cookie", "y=2"), ("cookie", ""), ("cookie", "z")];
    let list = request(&with(&fields)).unwrap();
    let found: Vec<_> = list.fields().map(|field| (field.name, field.value)).collect();
    let expected: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"cookie", b"x=1; y=2; ; z"), (b"b", b"2")];
    assert_eq!(found, expected);
}

#[test]
fn limits_the_fields_and_the_crumbs() {
    let fields = |count| with(&vec![("x", "a"); count]);
    assert!(request(&fields(20)).is_ok());
    assert_eq!(request(&fields(21)).err(), Some(SectionError::TooMany));
    let crumbs = |count| with(&[vec![("cookie", "a"); count], vec![("x", "a"); 20]].concat());
    assert!(request(&crumbs(256)).is_ok());
    assert_eq!(request(&crumbs(257)).err(), Some(SectionError::TooMany));
}

#[test]
fn counts_the_fields_of_a_head_as_in_http1() {
    let limits = Limits { fields: 3, ..LIMITS };
    for (fields, is_accepted) in [
        (&[("x", "a"), ("y", "b")][..], true),
        (&[("x", "a"), ("y", "b"), ("z", "c")], false),
        (&[("x", "a"), ("cookie", "b=1"), ("cookie", "c=2"), ("cookie", "d=3")], true),
        (&[("x", "a"), ("host", "example.org:8443"), ("y", "b")], true),
        (&[("x", "a"), ("host", "example.org:8443"), ("y", "b"), ("z", "c")], false),
    ] {
        let (list, mut store) = (request(&with(fields)).unwrap(), FieldStore::new());
        let head = list.head(&mut store, &limits);
        assert_eq!(head.is_ok(), is_accepted, "{fields:?}: {:?}", head.err());
    }
}

#[test]
fn fields_of_the_static_table_have_the_class_of_literal_ones() {
    for (at, (name, _)) in crate::hpack::STATIC.iter().enumerate() {
        assert_eq!(Ok(static_class(at + 1)), Class::of(name.as_bytes(), b"x"), "{name}");
    }
}
