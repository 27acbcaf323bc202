//! Tables of environments.

use proptest::prelude::*;
use taipan_http::head::Field;

use super::*;

const NO_LIMITS: Limits = Limits { bytes: usize::MAX, variables: usize::MAX };

fn request<'a>(fields: &'a [Field<'a>]) -> CgiRequest<'a> {
    CgiRequest {
        method: "GET",
        protocol: "HTTP/1.1",
        scheme: Scheme::Http,
        is_early: false,
        tls: &[],
        path: "/cgi-bin/a.cgi/x%20y",
        query: None,
        query_string: None,
        host: "",
        server_name: "a.example",
        server_port: 8080,
        software: "taipan/0.1",
        server: Some("192.0.2.1:8080".parse().unwrap()),
        remote: Some("2001:db8::1".parse().unwrap()),
        remote_port: Some(40000),
        remote_name: None,
        script_name: "/cgi-bin/a.cgi",
        path_info: "/x y",
        path_translated: b"/srv/x y",
        script_filename: b"/srv/cgi-bin/a.cgi",
        document_root: b"/srv",
        body: None,
        fields,
        credentials: Credentials::Withheld,
        claims: Claims::Withheld,
    }
}

fn strings(environment: &Environment) -> Vec<Vec<u8>> {
    let block = environment.block();
    let strings = block.split_inclusive(|byte| *byte == 0);
    strings.map(|string| string.strip_suffix(b"\0").unwrap().to_vec()).collect()
}

fn lines(environment: &Environment) -> Vec<String> {
    strings(environment).iter().map(|string| String::from_utf8_lossy(string).into_owned()).collect()
}

/// Checks which variables a change of the default request adds and removes.
#[track_caller]
fn check(change: impl FnOnce(&mut CgiRequest), added: &[&str], removed: &[&str]) {
    let usual = lines(&environment(&request(&[]), &Additions::default(), NO_LIMITS).unwrap());
    let mut request = request(&[]);
    change(&mut request);
    let found = lines(&environment(&request, &Additions::default(), NO_LIMITS).unwrap());
    let only = |these: &[String], those: &[String]| {
        these.iter().filter(|line| !those.contains(line)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(only(&found, &usual), added);
    assert_eq!(only(&usual, &found), removed);
}

#[track_caller]
fn check_fields(fields: &[(&str, &str)], expected: &[&str]) {
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() }).collect();
    let all = lines(&environment(&request(&fields), &Additions::default(), NO_LIMITS).unwrap());
    let found: Vec<_> =
        all.iter().filter(|line| line.starts_with("HTTP_") || line.starts_with("CONTENT_")).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_environment_of_a_get_request() {
    let environment = environment(&request(&[]), &Additions::default(), Limits::default()).unwrap();
    let expected = [
        "GATEWAY_INTERFACE=CGI/1.1",
        "REQUEST_METHOD=GET",
        "SERVER_PROTOCOL=HTTP/1.1",
        "QUERY_STRING=",
        "REQUEST_URI=/cgi-bin/a.cgi/x%20y",
        "REQUEST_SCHEME=http",
        "SCRIPT_NAME=/cgi-bin/a.cgi",
        "SCRIPT_FILENAME=/srv/cgi-bin/a.cgi",
        "DOCUMENT_ROOT=/srv",
        "PATH_INFO=/x y",
        "PATH_TRANSLATED=/srv/x y",
        "REDIRECT_STATUS=200",
        "SERVER_SOFTWARE=taipan/0.1",
        "SERVER_NAME=a.example",
        "SERVER_PORT=8080",
        "SERVER_ADDR=192.0.2.1",
        "REMOTE_ADDR=2001:db8::1",
        "REMOTE_PORT=40000",
    ];
    assert_eq!(lines(&environment), expected);
    assert_eq!(environment.iter().count(), expected.len());
    assert_eq!(environment.value("SERVER_PORT"), Some(&b"8080"[..]));
    assert_eq!(environment.value("HTTP_HOST"), None);
}

#[test]
fn sets_variables_of_optional_data() {
    check(
        |request| (request.query, request.query_string) = (Some(""), Some("")),
        &["REQUEST_URI=/cgi-bin/a.cgi/x%20y?"],
        &["REQUEST_URI=/cgi-bin/a.cgi/x%20y"],
    );
    check(
        |request| (request.query, request.query_string) = (Some("a=%20&b"), Some("a=%20&b")),
        &["QUERY_STRING=a=%20&b", "REQUEST_URI=/cgi-bin/a.cgi/x%20y?a=%20&b"],
        &["QUERY_STRING=", "REQUEST_URI=/cgi-bin/a.cgi/x%20y"],
    );
    check(
        |request| request.scheme = Scheme::Https,
        &["REQUEST_SCHEME=https", "HTTPS=on"],
        &["REQUEST_SCHEME=http"],
    );
    const EARLY: &[Field] =
        &[Field { name: b"early-data", value: b"0" }, Field { name: b"Early-Data", value: b"a" }];
    check(|request| (request.is_early, request.fields) = (true, EARLY), &["HTTP_EARLY_DATA=1"], &[]);
    check(|request| request.host = "a.example:8080", &["HTTP_HOST=a.example:8080"], &[]);
    check(|request| request.body = Some(0), &["CONTENT_LENGTH=0"], &[]);
    check(|request| request.body = Some(u64::MAX), &["CONTENT_LENGTH=18446744073709551615"], &[]);
    check(
        |request| request.remote = Some("::ffff:192.0.2.9".parse().unwrap()),
        &["REMOTE_ADDR=192.0.2.9"],
        &["REMOTE_ADDR=2001:db8::1"],
    );
    check(|request| request.remote = None, &["REMOTE_ADDR="], &["REMOTE_ADDR=2001:db8::1"]);
    check(|request| request.remote_port = None, &[], &["REMOTE_PORT=40000"]);
    check(|request| request.remote_name = Some("a.example"), &["REMOTE_HOST=a.example"], &[]);
    check(|request| request.server = None, &[], &["SERVER_ADDR=192.0.2.1"]);
    check(|request| request.path_info = "", &["PATH_INFO="], &["PATH_INFO=/x y", "PATH_TRANSLATED=/srv/x y"]);
}

#[test]
fn passes_fields_under_their_names() {
    check_fields(&[("User-Agent", "x"), ("ACCEPT", " */* ")], &["HTTP_USER_AGENT=x", "HTTP_ACCEPT=*/*"]);
    check_fields(&[("X-1", "é\t\u{1}")], &["HTTP_X_1=é\t\u{1}"]);
    check_fields(&[("X-Empty", "")], &["HTTP_X_EMPTY="]);
    check_fields(&[("LD-Preload", "x")], &["HTTP_LD_PRELOAD=x"]);
    for dropped in [
        "Proxy",
        "PROXY",
        "X_Forwarded_For",
        "Content_Length",
        "_",
        "X.Y",
        "X*Y",
        "",
        "Content-Length",
        "Host",
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "HTTP2-Settings",
        "Expect",
        "Authorization",
        "Proxy-Authorization",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Port",
        "X-Real-IP",
        "X-Original-URL",
        "X-Rewrite-URL",
    ] {
        check_fields(&[(dropped, "x")], &[]);
    }
}

#[test]
fn passes_fields_that_connection_names() {
    check_fields(&[("Connection", "close, X-Request-Id"), ("X-Request-Id", "7")], &["HTTP_X_REQUEST_ID=7"]);
}

#[test]
fn joins_fields_of_one_name() {
    check_fields(&[("Accept", "a"), ("X", "y"), ("accept", "b, c")], &["HTTP_ACCEPT=a, b, c", "HTTP_X=y"]);
    check_fields(&[("Cookie", "a=1"), ("Cookie", ""), ("COOKIE", "b=2")], &["HTTP_COOKIE=a=1; b=2"]);
    check_fields(&[("Content-Type", "a/b")], &["CONTENT_TYPE=a/b"]);
    check_fields(&[("Content-Type", "a/b"), ("Content-Type", "c/d")], &[]);
}

#[test]
fn passes_one_authorization_field_if_permitted() {
    let check = |credentials, values: &[&[u8]], expected: Option<&[u8]>| {
        let fields: Vec<_> = values.iter().map(|value| Field { name: b"authorization", value }).collect();
        let request = CgiRequest { credentials, ..request(&fields) };
        let environment = environment(&request, &Additions::default(), NO_LIMITS).unwrap();
        assert_eq!(environment.value("HTTP_AUTHORIZATION"), expected);
    };
    check(Credentials::Withheld, &[b"Basic x"], None);
    check(Credentials::Passed, &[b"Basic x"], Some(b"Basic x"));
    check(Credentials::Passed, &[b"Basic x", b"Basic y"], None);
    check(Credentials::Passed, &[], None);
}

#[test]
fn passes_claims_of_a_trusted_proxy_except_interpreted_ones() {
    let names: [&[u8]; 6] = [
        b"Forwarded",
        b"X-Forwarded-For",
        b"X-Forwarded-Host",
        b"X-Forwarded-Proto",
        b"X-Real-IP",
        b"X-Forwarded-Prefix",
    ];
    let fields = names.map(|name| Field { name, value: b"x" });
    let request = CgiRequest { claims: Claims::Passed, ..request(&fields) };
    let environment = environment(&request, &Additions::default(), NO_LIMITS).unwrap();
    let all = lines(&environment);
    let passed: Vec<_> = all.iter().filter(|line| line.starts_with("HTTP_")).collect();
    assert_eq!(passed, ["HTTP_X_REAL_IP=x", "HTTP_X_FORWARDED_PREFIX=x"]);
}

#[test]
fn additions_come_first_and_replace_variables() {
    let mut additions = Additions::default();
    additions.add("PATH", b"/bin").unwrap();
    additions.add("SCRIPT_FILENAME", b"/jail/a").unwrap();
    additions.add("HTTP_X", b"ours").unwrap();
    let fields = [Field { name: b"x", value: b"theirs" }];
    let lines = lines(&environment(&request(&fields), &additions, NO_LIMITS).unwrap());
    assert_eq!(lines[..3], ["PATH=/bin", "SCRIPT_FILENAME=/jail/a", "HTTP_X=ours"]);
    for name in ["PATH=", "SCRIPT_FILENAME=", "HTTP_X="] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(name)).count(), 1, "{name}");
    }
}

#[test]
fn skips_invalid_and_repeated_names_of_another_server() {
    let pairs: [(&[u8], &[u8]); 8] = [
        (b"A", b"1"),
        (b"A", b"2"),
        (b"HTTP_PROXY", b"http://c.example"),
        (b"HTTP_X.Y", b""),
        (b"A=B", b""),
        (b"", b""),
        (b"\xff", b""),
        (b"_9", b"\xff"),
    ];
    let found = Environment::received(pairs, NO_LIMITS).unwrap();
    assert_eq!(found.iter().collect::<Vec<_>>(), [(&b"A"[..], &b"1"[..]), (b"_9", b"\xff")]);
    let nul = [(&b"A"[..], &b"b\0c"[..])];
    assert_eq!(Environment::received(nul, NO_LIMITS), Err(EnvironmentError::Nul));
}

#[test]
fn rejects_one_byte_or_one_variable_over_a_limit() {
    let usual = environment(&request(&[]), &Additions::default(), NO_LIMITS).unwrap();
    let exact = Limits { bytes: usual.block().len(), variables: usual.iter().count() };
    let check = |limits, expected: Result<(), EnvironmentError>| {
        let found = environment(&request(&[]), &Additions::default(), limits);
        assert_eq!(found.map(|_| ()), expected);
    };
    check(exact, Ok(()));
    check(Limits { bytes: exact.bytes - 1, ..exact }, Err(EnvironmentError::TooLarge));
    check(Limits { variables: exact.variables - 1, ..exact }, Err(EnvironmentError::TooMany));
}

#[test]
fn rejects_a_nul_in_any_value() {
    let nul = |change: fn(&mut CgiRequest)| {
        let fields = [Field { name: b"x", value: b"a\0b" }];
        let mut request = request(&[]);
        change(&mut request);
        let fields = if request.method == "FIELD" { &fields[..] } else { &[] };
        let request = CgiRequest { fields, ..request };
        assert_eq!(environment(&request, &Additions::default(), NO_LIMITS), Err(EnvironmentError::Nul));
    };
    nul(|request| request.path_info = "/a\0b");
    nul(|request| request.script_filename = b"/a\0");
    nul(|request| request.host = "\0");
    nul(|request| request.method = "FIELD");
}

proptest! {
    #[test]
    fn names_are_valid_and_unique(
        fields in prop::collection::vec(("[A-Za-z_!-]{0,4}|Proxy|cookie|Host", "[ -~\u{e9}]{0,6}"), 0..12),
        additions in prop::collection::vec(("[A-Z_]{1,3}|HTTP_A|PATH_INFO", "[ -~]{0,4}"), 0..4),
    ) {
        let mut set = Additions::default();
        for (name, value) in &additions {
            let _ = set.add(name, value.as_bytes());
        }
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() }).collect();
        let environment = environment(&request(&fields), &set, NO_LIMITS).unwrap();
        let mut names: Vec<_> = environment.iter().map(|(name, _)| name).collect();
        let named = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        prop_assert!(names.iter().all(|name| !name.is_empty() && name.iter().all(named)));
        prop_assert!(!names.contains(&&b"HTTP_PROXY"[..]));
        names.sort_unstable();
        prop_assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        prop_assert_eq!(strings(&environment).len(), environment.iter().count());
        for (string, (name, value)) in strings(&environment).into_iter().zip(environment.iter()) {
            prop_assert_eq!(string, [name, b"=", value].concat());
        }
    }
}
