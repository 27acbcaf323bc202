use proptest::prelude::*;

use super::*;
use crate::head::{FieldStore, Limits, parse};

type Read = for<'a> fn(&Head<'a>, fn(IpAddr) -> bool) -> Option<Forwarded<'a>>;

/// What these lines say if all of 10.0.0.0/8 is trusted: address, scheme and host, each `-` if it is `None`.
fn read_from(lines: &str, read: Read) -> String {
    let trusts = |address| matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10);
    let bytes = format!("GET / HTTP/1.1\r\nHost: own\r\n{lines}\r\n");
    let mut store = FieldStore::new();
    let (head, _) = parse(bytes.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
    let Some(Forwarded { client, scheme, host }) = read(&head, trusts) else { return "none".to_owned() };
    let client = match client {
        None => "-".to_owned(),
        Some((address, None)) => address.to_string(),
        Some((address, Some(port))) => format!("{address} port {port}"),
    };
    let host = host.map_or("-", |host| std::str::from_utf8(host).unwrap());
    format!("{client} {} {host}", scheme.map_or("-", Scheme::as_str))
}

#[test]
fn the_last_untrusted_address_is_the_client() {
    let check = |value: &str, expected: &str| {
        let found = read_from(&format!("X-Forwarded-For: {value}\r\n"), x_forwarded);
        assert_eq!(found, format!("{expected} - -"), "{value}");
    };
    check("192.0.2.1", "192.0.2.1");
    check("192.0.2.9, 192.0.2.1", "192.0.2.1");
    check("192.0.2.1, 10.0.0.1,10.0.0.2", "192.0.2.1");
    check("192.0.2.9,192.0.2.1, 10.0.0.1", "192.0.2.1");
    check("10.0.0.3, 10.0.0.2", "10.0.0.3");
    check("192.0.2.1:4711", "192.0.2.1 port 4711");
    check("2001:db8::1", "2001:db8::1");
    check("[2001:db8::1]", "2001:db8::1");
    check("[2001:DB8::1]:4711 , 10.0.0.1", "2001:db8::1 port 4711");
    check("::ffff:192.0.2.1", "192.0.2.1");
    check("192.0.2.1, ::ffff:10.0.0.1", "192.0.2.1");
    check(" , 192.0.2.1, ,", "192.0.2.1");
    // Nothing before a malformed address counts.
    check("192.0.2.1, unknown", "-");
    check("192.0.2.1, unknown, 10.0.0.1", "10.0.0.1");
    check("192.0.2.1, _hidden, 10.0.0.1", "10.0.0.1");
    for bad in [
        "",
        ",",
        "x",
        "192.0.2.256",
        "192.0.2.01",
        "0xc0.0.2.1",
        "3221225985",
        "192.0.2.1:",
        "192.0.2.1:x",
        "192.0.2.1:65536",
        "192.0.2.1:+1",
        "[192.0.2.1]",
        "[2001:db8::1",
        "2001:db8::1]",
        "[2001:db8::1]x",
        "[2001:db8::1]:",
        "fe80::1%eth0",
        "\"192.0.2.1\"",
        "192.0.2.1 192.0.2.2",
        "é",
        "192.0.2.1;x",
    ] {
        if !matches!(bad, "" | ",") {
            check(bad, "-");
        }
        check(
            &format!("192.0.2.9, {bad}{}10.0.0.1", if bad.ends_with(',') { "" } else { "," }),
            match bad {
                "" | "," => "192.0.2.9",
                _ => "10.0.0.1",
            },
        );
    }
}

#[test]
fn joins_lines_of_x_forwarded_and_takes_the_last_scheme_and_host() {
    let check = |lines: &str, expected: &str| {
        assert_eq!(read_from(lines, x_forwarded), expected, "{lines}");
    };
    check("", "none");
    check("X-Forwarded-For: \r\n", "none");
    check("Forwarded: for=192.0.2.1\r\n", "none");
    check("X-Forwarded-For: 192.0.2.9\r\nx-forwarded-for: 192.0.2.1, 10.0.0.1\r\n", "192.0.2.1 - -");
    check("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 10.0.0.1\r\n", "192.0.2.1 - -");
    check("X-Forwarded-Proto: HTTPS\r\n", "- https -");
    check("X-Forwarded-Proto: https, http\r\n", "- http -");
    check("X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http\r\n", "- http -");
    for bad in ["ftp", "https://", "on", "\"https\"", "https http"] {
        check(&format!("X-Forwarded-Proto: https, {bad}\r\n"), "- - -");
    }
    check("X-Forwarded-Host: evil, www.example:8443\r\n", "- - www.example:8443");
    check("X-Forwarded-Host: [2001:db8::1]:80\r\n", "- - [2001:db8::1]:80");
    for bad in ["a/b", "a b", "user@a", "a:65536", "\"a\"", "é"] {
        check(&format!("X-Forwarded-Host: {bad}\r\n"), "- - -");
    }
}

#[test]
fn reads_forwarded_by_rfc_7239() {
    let check = |value: &str, expected: &str| {
        let found = read_from(&format!("Forwarded: {value}\r\n"), forwarded);
        assert_eq!(found, expected, "{value}");
    };
    check("for=192.0.2.1", "192.0.2.1 - -");
    check("For=\"192.0.2.1\";PROTO=https;by=10.0.0.1;Host=\"a:81\"", "192.0.2.1 https a:81");
    check("for=\"192.0.2.1:4711\"", "192.0.2.1 port 4711 - -");
    check("for=\"[2001:db8::1]\"", "2001:db8::1 - -");
    check("for=\"[2001:db8::1]:4711\"", "2001:db8::1 port 4711 - -");
    check("for=\"[2001:db8::1]:_hidden\"", "2001:db8::1 - -");
    check("for=192.0.2.9;proto=https, for=192.0.2.1;proto=http", "192.0.2.1 http -");
    check("for=192.0.2.1;proto=https;host=a, for=10.0.0.1;proto=http;host=b", "192.0.2.1 https a");
    check("for=192.0.2.1, for=10.0.0.1;proto=https", "192.0.2.1 - -");
    check("for=192.0.2.1;secret=\"x,;y\"; proto=https", "192.0.2.1 https -");
    check("for=192.0.2.1;;proto=http;", "192.0.2.1 http -");
    // The element of a trusted proxy counts, even without an address.
    check("for=unknown;proto=https;host=a", "- https a");
    check("for=_hidden;proto=https, for=10.0.0.1", "10.0.0.1 https -");
    check("proto=https", "- https -");
    check("for=192.0.2.9, for=unknown", "- - -");
    check("for=\"2001:db8::1\"", "- - -");
    // One malformed element makes the whole line malformed.
    for bad in [
        "192.0.2.1",
        "for",
        "for=",
        "=x",
        "for=192.0.2.1:80",
        "for=[2001:db8::1]",
        "for=192.0.2.1;for=192.0.2.2",
        "for=\"192.0.2.1",
        "for=192.0.2.1\"",
        "for=\"192.0.2.1\"x",
        "for=\"192\\.0.2.1\"",
        "for =192.0.2.1",
        "for= 192.0.2.1",
        "f(r=x",
        "for=192.0.2.1 proto=https",
        "for=\"a\", \"",
        "for=é",
    ] {
        check(bad, "- - -");
        check(&format!("for=192.0.2.9;proto=https, {bad}"), "- - -");
        check(&format!("{bad}, for=192.0.2.9"), "- - -");
    }
    // A quote that the client leaves open includes what the proxy appends.
    check("for=192.0.2.9;x=\", for=\"[2001:db8::1]\"", "- - -");
    check(&vec!["for=10.0.0.1"; MAX_ELEMENTS].join(","), "10.0.0.1 - -");
    check(&vec!["for=10.0.0.1"; MAX_ELEMENTS + 1].join(","), "- - -");
}

#[test]
fn reads_a_forwarded_line_of_a_proxy_by_itself() {
    let check = |lines: &str, expected: &str| {
        assert_eq!(read_from(lines, forwarded), expected, "{lines}");
    };
    check("X-Forwarded-For: 192.0.2.1\r\n", "none");
    check("Forwarded: for=\"x\r\nForwarded: for=192.0.2.1\r\n", "192.0.2.1 - -");
    check("Forwarded: for=\"x\r\nForwarded: for=10.0.0.1;proto=https\r\n", "10.0.0.1 https -");
    check("Forwarded: for=192.0.2.1;host=a\r\nForwarded: for=10.0.0.1\r\n", "192.0.2.1 - a");
    check("Forwarded: \r\n", "- - -");
}

proptest! {
    #[test]
    fn the_last_address_counts_whatever_precedes_it(before in "[ -~]{0,40}") {
        let x = read_from(&format!("X-Forwarded-For: {before}, 192.0.2.1\r\n"), x_forwarded);
        prop_assert_eq!(x, "192.0.2.1 - -");
        let one = read_from(&format!("Forwarded: {before}, for=192.0.2.1\r\n"), forwarded);
        prop_assert!(one == "192.0.2.1 - -" || one == "- - -", "{}", one);
        let two = read_from(&format!("Forwarded: {before}\r\nForwarded: for=192.0.2.1\r\n"), forwarded);
        prop_assert_eq!(two, "192.0.2.1 - -");
    }
}

#[test]
fn recognizes_claims_in_any_case() {
    for (name, claims, is_read_here) in [
        ("Forwarded", true, true),
        ("X-FORWARDED-FOR", true, true),
        ("x-forwarded-proto", true, true),
        ("X-Forwarded-Host", true, true),
        ("X-Forwarded-Port", true, false),
        ("X-Forwarded-Prefix", true, false),
        ("X-Forwarded", true, false),
        ("X-Real-IP", true, false),
        ("X-Original-URL", true, false),
        ("X-Rewrite-Url", true, false),
        ("CF-Connecting-IP", true, false),
        ("X-Sendfile-Type", true, false),
        ("Via", false, false),
        ("Host", false, false),
        ("X-Forward", false, false),
        ("X-Original-Filename", false, false),
        ("", false, false),
    ] {
        assert_eq!(
            (is_claim(name.as_bytes()), is_interpreted(name.as_bytes())),
            (claims, is_read_here),
            "{name}"
        );
    }
    for (name, may_claim_url, is_passed) in [
        ("X-Forwarded-For", false, false),
        ("X-Forwarded-Host", true, false),
        ("X-Forwarded-Port", true, true),
        ("X-Original-Prefix", true, true),
        ("X-Real-IP", false, false),
        ("X_Other", true, false),
        ("X-Other", false, false),
    ] {
        let found = (super::may_claim_url(name.as_bytes()), is_passed_claim(name.as_bytes()));
        assert_eq!(found, (may_claim_url, is_passed), "{name}");
    }
    assert!(OF_CLIENT.iter().all(|name| is_claim(name.as_bytes())));
    for name in READ.iter().chain((0..=64).flat_map(claims)) {
        assert!(is_claim(name.to_uppercase().as_bytes()), "{name}");
    }
    for length in 0..=64 {
        assert!(claims(length).iter().all(|name| name.len() == length), "{length}");
    }
}

#[test]
fn tells_the_next_server_what_it_would_read() {
    let written = |client: Option<&str>, replaced: &[&str]| {
        let client = client.map(|client| client.parse().unwrap());
        let element = ForwardedElement { client, scheme: Scheme::Https, host: b"example.org:444" };
        let mut out = Vec::new();
        write(&element, &|name| replaced.iter().any(|own| is_name(name, own)), &mut out);
        String::from_utf8(out).unwrap()
    };
    let lines = written(Some("2001:db8::1"), &[]);
    assert_eq!(
        lines,
        "X-Forwarded-For: 2001:db8::1\r\nX-Real-IP: 2001:db8::1\r\nX-Forwarded-Proto: https\r\n\
         X-Forwarded-Host: example.org:444\r\n\
         Forwarded: for=\"[2001:db8::1]\";host=\"example.org:444\";proto=https\r\n"
    );
    for read in [x_forwarded as Read, forwarded] {
        assert_eq!(read_from(&lines, read), "2001:db8::1 https example.org:444");
    }
    let all = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
    assert_eq!(
        written(Some("::ffff:192.0.2.7"), &all[1..]),
        "Forwarded: for=192.0.2.7;host=\"example.org:444\";proto=https\r\n"
    );
    assert_eq!(written(None, &all[2..]), "Forwarded: for=unknown;host=\"example.org:444\";proto=https\r\n");
    assert_eq!(written(Some("192.0.2.7"), &all), "");
    let all = ["forwarded", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];
    assert_eq!(written(Some("192.0.2.7"), &all), "X-Forwarded-For: 192.0.2.7\r\n");
}

#[test]
fn tells_nothing_of_a_host_that_the_request_does_not_name() {
    let mut out = Vec::new();
    write(&ForwardedElement { client: None, scheme: Scheme::Http, host: b"" }, &|_| false, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "X-Forwarded-Proto: http\r\nForwarded: for=unknown;proto=http\r\n"
    );
}
