//! Tables of both sides of a connection, and both sides together.

use proptest::prelude::*;

use super::application::{self, Application, ApplicationError, Limits, Parameters};
use super::client::{self, Client, ClientError};
use super::record::{Header, Kind, WrongVersion};
use super::*;
use crate::environment::{self, Environment};
use crate::pairs::{self, PairCut};

/// The bytes of a record with three bytes of padding.
fn record(kind: Kind, id: u16, content: &[u8]) -> Vec<u8> {
    let header = Header { kind, id, content: content.len() as u16, padding: 3 };
    [&header.to_bytes()[..], content, b"pad"].concat()
}

fn end(id: u16, exit: u8, ending: u8) -> Vec<u8> {
    record(Kind::EndRequest, id, &[0, 0, 0, exit, ending, 0, 0, 0])
}

fn begin(id: u16, role: u8, flags: u8) -> Vec<u8> {
    record(Kind::BeginRequest, id, &[0, role, flags, 0, 0, 0, 0, 0])
}

fn variables(pairs: &[(&str, &str)]) -> Environment {
    let pairs = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Environment::received(pairs, environment::Limits::default()).unwrap()
}

/// The events of a client, one string each. Consecutive output of one stream is joined.
fn client_events<'a>(
    client: &mut Client,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<String>, ClientError> {
    let mut events: Vec<String> = Vec::new();
    for mut piece in pieces {
        loop {
            let (used, event) = client.receive(piece)?;
            piece = &piece[used..];
            let (word, text) = match event {
                client::Event::NeedMore => break,
                client::Event::Stdout(id, bytes) => {
                    (format!("out {}:", id.0), String::from_utf8_lossy(bytes))
                }
                client::Event::Stderr(id, bytes) => {
                    (format!("err {}:", id.0), String::from_utf8_lossy(bytes))
                }
                client::Event::End(id, ending, exit) => {
                    (format!("end {} {ending:?} {exit}", id.0), "".into())
                }
                client::Event::Capabilities(found) => (format!("{found:?}"), "".into()),
                client::Event::Unknown(kind) => (format!("unknown {kind}"), "".into()),
            };
            match events.last_mut() {
                Some(last) if word.ends_with(':') && last.starts_with(&word) => last.push_str(&text),
                _ => events.push(word + &text),
            }
        }
    }
    Ok(events)
}

/// A client with the active requests 1 and 2.
fn two() -> Client {
    let mut client = Client::new(2);
    for _ in 0..2 {
        client
            .begin(Role::Responder, Persistence::KeepAlive, &Environment::default(), &mut Vec::new())
            .unwrap();
    }
    client
}

#[track_caller]
fn check(records: &[Vec<u8>], expected: Result<&[&str], ClientError>) {
    let bytes = records.concat();
    let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(client_events(&mut two(), [&*bytes]), expected);
    assert_eq!(client_events(&mut two(), bytes.chunks(1)), expected, "byte by byte");
}

#[test]
fn client_receives_output_of_several_requests() {
    let out = |id, text: &str| record(Kind::Stdout, id, text.as_bytes());
    check(
        &[out(1, "a"), out(2, "b"), record(Kind::Stderr, 1, b"oops"), out(1, "c"), out(1, ""), end(1, 3, 0)],
        Ok(&["out 1:a", "out 2:b", "err 1:oops", "out 1:c", "end 1 Complete 3"]),
    );
    check(&[out(1, "a"), out(1, ""), out(1, ""), end(1, 0, 0)], Ok(&["out 1:a", "end 1 Complete 0"]));
    check(&[end(2, 0, 1)], Ok(&["end 2 CannotMultiplex 0"]));
    check(&[end(1, 0, 2)], Ok(&["end 1 Overloaded 0"]));
    check(&[end(1, 255, 3)], Ok(&["end 1 UnknownRole 255"]));
    check(&[record(Kind::Stderr, 2, b""), out(2, ""), record(Kind::Stderr, 2, b"late")], Ok(&["err 2:late"]));
    let all = Header { kind: Kind::Stdout, id: 1, content: 65535, padding: 255 }.to_bytes();
    let long = [&all[..], &[b'x'; 65535], &[b'p'; 255]].concat();
    check(&[long, end(1, 0, 0)], Ok(&[&format!("out 1:{}", "x".repeat(65535)), "end 1 Complete 0"]));
}

#[test]
fn client_recognizes_a_whole_response() {
    let out = |text: &str| record(Kind::Stdout, 1, text.as_bytes());
    let check = |records: &[Vec<u8>], expected: Option<&str>| {
        let (mut client, bytes) = (two(), records.concat());
        let found = client.whole(RequestId(1), &bytes);
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{records:?}");
        for cut in (0..bytes.len()).filter(|_| expected.is_some()) {
            assert_eq!(client.whole(RequestId(1), &bytes[..cut]), None, "{cut} bytes of {records:?}");
        }
        // Nothing has changed: the same bytes can be received.
        let events = client_events(&mut client, [&*bytes]);
        if let Some(text) = expected {
            let events = events.expect("it breaks no rule");
            let texts: String = events.iter().filter_map(|word| word.strip_prefix("out 1:")).collect();
            assert_eq!((texts.as_str(), client.running()), (text, 1));
        }
    };
    check(&[out("a"), out(""), end(1, 0, 0)], Some("a"));
    check(&[out("a"), out("bc"), out(""), out(""), end(1, 7, 0)], Some("abc"));
    check(&[out("a"), end(1, 0, 0)], Some("a"));
    check(&[end(1, 0, 0)], Some(""));
    check(&[out("a"), end(1, 0, 1)], None);
    check(&[out("a"), end(1, 0, 9)], None);
    check(&[out("a"), end(1, 0, 0), out("")], None);
    check(&[out("a"), end(2, 0, 0)], None);
    check(&[out("a"), out(""), out("b"), end(1, 0, 0)], None);
    check(&[record(Kind::Stderr, 1, b"a"), end(1, 0, 0)], None);
    check(&[record(Kind::Stdout, 2, b"a"), end(1, 0, 0)], None);
    check(&[record(Kind::EndRequest, 1, b"1234567")], None);
    check(&[b"Status: 200\n\n".to_vec()], None);
    let mut client = two();
    client.end_whole(RequestId(1));
    assert_eq!((client.whole(RequestId(1), &end(1, 0, 0)), client.running()), (None, 1));
    assert_eq!(client_events(&mut client, [&*end(1, 0, 0)]), Err(ClientError::AfterEnd(1)));
    let mut client = two();
    assert_eq!(client_events(&mut client, [&b"\x01"[..]]), Ok(Vec::new()));
    assert_eq!(client.whole(RequestId(1), &end(1, 0, 0)), None, "within a record");
}

#[test]
fn client_rejects_records_that_break_a_rule() {
    use ClientError::*;
    let out = |id, text: &str| record(Kind::Stdout, id, text.as_bytes());
    check(&[out(3, "a")], Err(UnknownRequest(3)));
    check(&[out(65535, "")], Err(UnknownRequest(65535)));
    check(&[end(4, 0, 0)], Err(UnknownRequest(4)));
    check(&[out(0, "a")], Err(Id(Kind::Stdout, 0)));
    check(&[end(1, 0, 0), out(1, "a")], Err(AfterEnd(1)));
    check(&[end(1, 0, 0), out(1, "")], Err(AfterEnd(1)));
    check(&[end(1, 0, 0), record(Kind::Stderr, 1, b"a")], Err(AfterEnd(1)));
    check(&[end(1, 0, 0), end(1, 0, 0)], Err(AfterEnd(1)));
    check(&[out(1, ""), out(1, "a")], Err(AfterOutput(1)));
    check(&[out(1, ""), out(1, ""), out(1, "a")], Err(AfterOutput(1)));
    check(&[end(1, 0, 4)], Err(Status(4)));
    check(&[record(Kind::EndRequest, 1, b"1234567")], Err(Length(Kind::EndRequest, 7)));
    check(&[record(Kind::EndRequest, 1, b"123456789")], Err(Length(Kind::EndRequest, 9)));
    check(&[record(Kind::GetValuesResult, 0, b"")], Err(Unrequested(Kind::GetValuesResult)));
    check(&[record(Kind::UnknownType, 0, b"12345678")], Err(Unrequested(Kind::UnknownType)));
    check(&[record(Kind::GetValuesResult, 1, b"")], Err(Id(Kind::GetValuesResult, 1)));
    for kind in [
        Kind::BeginRequest,
        Kind::AbortRequest,
        Kind::Params,
        Kind::Stdin,
        Kind::Data,
        Kind::GetValues,
        Kind::Other(0),
        Kind::Other(12),
    ] {
        check(&[record(kind, 1, b"")], Err(UnexpectedType(kind)));
    }
    check(&[b"Status: 200".to_vec()], Err(Version(WrongVersion(b'S'))));
    check(&[out(1, "a"), vec![0; 8]], Err(Version(WrongVersion(0))));
}

#[test]
fn client_receives_capabilities() {
    let check = |content: &[u8], expected: Result<&str, ClientError>| {
        let mut client = Client::new(1);
        client.query_capabilities(&mut Vec::new());
        let events = client_events(&mut client, [&*record(Kind::GetValuesResult, 0, content)]);
        assert_eq!(events, expected.map(|text| vec![text.to_owned()]));
    };
    let pairs = |pairs: &[(&str, &str)]| {
        let mut out = Vec::new();
        for (name, value) in pairs {
            pairs::encode(name.as_bytes(), value.as_bytes(), &mut out);
        }
        out
    };
    check(
        &pairs(&[("FCGI_MPXS_CONNS", "1"), ("FCGI_MAX_REQS", "20"), ("ELSE", "x")]),
        Ok("Capabilities { connections: None, requests: Some(20), multiplexing: Some(Yes) }"),
    );
    check(
        &pairs(&[("FCGI_MPXS_CONNS", "0"), ("FCGI_MAX_CONNS", "99999999999")]),
        Ok("Capabilities { connections: Some(4294967295), requests: None, multiplexing: Some(No) }"),
    );
    check(b"", Ok("Capabilities { connections: None, requests: None, multiplexing: None }"));
    check(&pairs(&[("FCGI_MAX_REQS", "many")]), Err(ClientError::Values));
    check(b"\x05", Err(ClientError::Values));
    check(&[0; 1025], Err(ClientError::Length(Kind::GetValuesResult, 1025)));

    let mut client = Client::new(1);
    client.query_capabilities(&mut Vec::new());
    let unknown = record(Kind::UnknownType, 0, &[9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(client_events(&mut client, [&*unknown]), Ok(vec!["unknown FCGI_GET_VALUES".to_owned()]));
    assert_eq!(client_events(&mut client, [&*unknown]), Err(ClientError::Unrequested(Kind::UnknownType)));
    assert_eq!(
        client_events(&mut client, [&b""[..]]),
        Err(ClientError::Unrequested(Kind::UnknownType)),
        "for ever"
    );
}

#[test]
fn client_reports_a_connection_that_ends_too_early() {
    let mut client = two();
    assert_eq!(client.closed(), Err(ClientError::ClosedInRequests(2)));
    client_events(&mut client, [&*end(1, 0, 0)]).unwrap();
    assert_eq!((client.closed(), client.running()), (Err(ClientError::ClosedInRequests(1)), 1));
    client_events(&mut client, [&end(2, 0, 0)[..18]]).unwrap();
    assert_eq!(client.closed(), Err(ClientError::ClosedInRecord));
    client_events(&mut client, [&end(2, 0, 0)[18..]]).unwrap();
    assert_eq!((client.closed(), client.running()), (Ok(()), 0));
}

#[test]
fn client_does_not_reuse_an_id_at_once() {
    let mut client = Client::new(1);
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = client
            .begin(Role::Responder, Persistence::KeepAlive, &Environment::default(), &mut Vec::new())
            .unwrap();
        assert_eq!(
            client.begin(Role::Responder, Persistence::KeepAlive, &Environment::default(), &mut Vec::new()),
            None
        );
        ids.push(id.number());
        client_events(&mut client, [&*end(id.number(), 0, 0)]).unwrap();
    }
    assert_eq!(ids, [1, 2, 1, 2]);
    let late = record(Kind::Stdout, 2, b"late");
    client.begin(Role::Responder, Persistence::KeepAlive, &Environment::default(), &mut Vec::new()).unwrap();
    assert_eq!(client_events(&mut client, [&*late]), Err(ClientError::AfterEnd(2)));
}

#[test]
fn client_discards_output_of_an_aborted_request() {
    let mut client = two();
    let mut out = Vec::new();
    client.abort(RequestId(1), &mut out);
    assert_eq!(out, [1, 2, 0, 1, 0, 0, 0, 0]);
    client.abort(RequestId(1), &mut out);
    client.stdin(RequestId(1), b"x", &mut out);
    client.end_stdin(RequestId(1), &mut out);
    assert_eq!(out.len(), 8, "no further records of it are sent");
    let records = [record(Kind::Stdout, 1, b"x"), record(Kind::Stderr, 1, b"y"), end(1, 0, 0)].concat();
    assert_eq!(client_events(&mut client, [&*records]), Ok(vec!["end 1 Complete 0".to_owned()]));
}

#[test]
fn client_writes_requests() {
    let environment = variables(&[("A", "b"), ("PATH_INFO", "/"), ("CONTENT_LENGTH", "2")]);
    let mut client = Client::new(2);
    let mut out = Vec::new();
    let id = client.begin(Role::Responder, Persistence::KeepAlive, &environment, &mut out).unwrap();
    client.stdin(id, b"", &mut out);
    client.stdin(id, b"hi", &mut out);
    client.end_stdin(id, &mut out);
    let expected = [
        &b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0"[..],
        b"\x01\x04\0\x01\0\x21\0\0\x01\x01Ab\x09\x01PATH_INFO/\x0e\x01CONTENT_LENGTH2",
        b"\x01\x04\0\x01\0\0\0\0",
        b"\x01\x05\0\x01\0\x02\0\0hi",
        b"\x01\x05\0\x01\0\0\0\0",
    ];
    assert_eq!(out, expected.concat());

    out.clear();
    client.begin(Role::Authorizer, Persistence::Close, &environment, &mut out).unwrap();
    let expected = [
        &b"\x01\x01\0\x02\0\x08\0\0\0\x02\0\0\0\0\0\0"[..],
        b"\x01\x04\0\x02\0\x04\0\0\x01\x01Ab",
        b"\x01\x04\0\x02\0\0\0\0",
    ];
    assert_eq!(out, expected.concat(), "an authorizer does not receive the path of the script");
}

/// The events of an application, one string each, and its output.
fn application_events<'a>(
    application: &mut Application,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Vec<String>, Vec<u8>), ApplicationError> {
    let (mut events, mut out): (Vec<String>, _) = (Vec::new(), Vec::new());
    let text = |parameters: &Parameters| {
        let pair = |(name, value): (&[u8], &[u8])| [name, b"=", value].concat();
        let pairs: Vec<_> = parameters.iter().map(pair).collect();
        String::from_utf8_lossy(&pairs.join(&b' ')).into_owned()
    };
    for mut piece in pieces {
        loop {
            let (used, event) = application.receive(piece, &mut out)?;
            piece = &piece[used..];
            let (word, text) = match &event {
                application::Event::NeedMore => break,
                application::Event::Request(id, role, parameters) => {
                    (format!("{role:?} {}: ", id.0), text(parameters))
                }
                application::Event::Stdin(id, bytes) => {
                    (format!("in {}:", id.0), String::from_utf8_lossy(bytes).into())
                }
                application::Event::EndStdin(id) => (format!("end {}", id.0), String::new()),
                application::Event::Abort(id) => (format!("abort {}", id.0), String::new()),
                application::Event::OutputAppended => ("answered".into(), String::new()),
            };
            match events.last_mut() {
                Some(last) if word.starts_with("in") && last.starts_with(&word) => last.push_str(&text),
                _ => events.push(word + &text),
            }
        }
    }
    Ok((events, out))
}

const FEW: Limits = Limits { parameters: 20, requests: 2, connections: 3 };

#[track_caller]
fn check_application(
    limits: Limits,
    records: &[Vec<u8>],
    expected: Result<(&[&str], &[u8]), ApplicationError>,
) {
    let bytes = records.concat();
    let expected =
        expected.map(|(words, out)| (words.iter().map(|word| (*word).to_owned()).collect(), out.to_vec()));
    assert_eq!(application_events(&mut Application::new(limits), [&*bytes]), expected);
    assert_eq!(application_events(&mut Application::new(limits), bytes.chunks(1)), expected, "byte by byte");
}

#[test]
fn application_receives_requests() {
    let params = |id, content: &[u8]| record(Kind::Params, id, content);
    let input = |id, content: &[u8]| record(Kind::Stdin, id, content);
    check_application(
        FEW,
        &[
            begin(7, 1, 1),
            params(7, b"\x01\x02Ab"),
            params(7, b"c"),
            params(7, b""),
            input(7, b"hi"),
            input(7, b""),
        ],
        Ok((&["Responder 7: A=bc", "in 7:hi", "end 7"], b"")),
    );
    check_application(
        FEW,
        &[begin(1, 2, 0), begin(2, 1, 0), params(2, b""), params(1, b""), input(2, b"x"), input(1, b"")],
        Ok((&["Responder 2: ", "Authorizer 1: ", "in 2:x", "end 1"], b"")),
    );
    check_application(
        FEW,
        &[begin(1, 1, 1), params(1, b""), record(Kind::AbortRequest, 1, b""), input(1, b"x"), input(1, b"")],
        Ok((&["Responder 1: ", "abort 1"], b"")),
    );
    // Records of inactive requests are skipped.
    check_application(
        FEW,
        &[params(9, b"\x05"), input(9, b"x"), record(Kind::AbortRequest, 9, b"")],
        Ok((&[], b"")),
    );
}

#[test]
fn application_responds_to_queries_and_rejected_requests() {
    let rejection = |id: u8, status: u8| [1, 3, 0, id, 0, 8, 0, 0, 0, 0, 0, 0, status, 0, 0, 0];
    let one = Limits { requests: 1, ..FEW };
    let params = |id, content: &[u8]| record(Kind::Params, id, content);
    check_application(
        one,
        &[begin(1, 1, 1), begin(2, 1, 1), params(2, b""), params(1, b"")],
        Ok((&["answered", "Responder 1: "], &rejection(2, 1))),
    );
    check_application(
        FEW,
        &[begin(1, 1, 1), begin(2, 1, 1), begin(3, 1, 1)],
        Ok((&["answered"], &rejection(3, 2))),
    );
    check_application(FEW, &[begin(1, 3, 1), params(1, b"\xff")], Ok((&["answered"], &rejection(1, 3))));
    check_application(
        FEW,
        &[record(Kind::BeginRequest, 1, b"\x01\x01\0\0\0\0\0\0")],
        Ok((&["answered"], &rejection(1, 3))),
    );
    let aborted = [&b"\x01\x06\0\x01\0\0\0\0"[..], &rejection(1, 0)].concat();
    check_application(
        FEW,
        &[begin(1, 1, 1), record(Kind::AbortRequest, 1, b""), begin(1, 1, 1), params(1, b"")],
        Ok((&["answered", "Responder 1: "], &aborted)),
    );
    check_application(
        FEW,
        &[record(Kind::Other(77), 0, b"what")],
        Ok((&["answered"], b"\x01\x0b\0\0\0\x08\0\0\x4d\0\0\0\0\0\0\0")),
    );
    check_application(
        FEW,
        &[record(Kind::GetValues, 0, b"\x0f\0FCGI_MPXS_CONNS\x04\0ELSE\x0d\0FCGI_MAX_REQS")],
        Ok((&["answered"], b"\x01\x0a\0\0\0\x22\0\0\x0f\x01FCGI_MPXS_CONNS1\x0d\x01FCGI_MAX_REQS6")),
    );
    check_application(FEW, &[record(Kind::GetValues, 0, b"")], Ok((&["answered"], b"\x01\x0a\0\0\0\0\0\0")));
}

#[test]
fn application_rejects_records_that_break_a_rule() {
    use ApplicationError::*;
    let params = |id, content: &[u8]| record(Kind::Params, id, content);
    let input = |id, content: &[u8]| record(Kind::Stdin, id, content);
    check_application(FEW, &[b"GET / HTTP".to_vec()], Err(Version(WrongVersion(b'G'))));
    check_application(FEW, &[begin(0, 1, 1)], Err(Id(Kind::BeginRequest, 0)));
    check_application(FEW, &[begin(1, 1, 1), begin(1, 1, 1)], Err(BeginTwice(1)));
    check_application(FEW, &[record(Kind::BeginRequest, 1, b"1234567")], Err(Length(Kind::BeginRequest, 7)));
    check_application(FEW, &[record(Kind::AbortRequest, 1, b"1")], Err(Length(Kind::AbortRequest, 1)));
    check_application(FEW, &[begin(1, 1, 1), input(1, b"x")], Err(OutOfOrder(Kind::Stdin, 1)));
    check_application(
        FEW,
        &[begin(1, 1, 1), params(1, b""), params(1, b"")],
        Err(OutOfOrder(Kind::Params, 1)),
    );
    let ended = [begin(1, 1, 1), params(1, b""), input(1, b""), input(1, b"x")];
    check_application(FEW, &ended, Err(OutOfOrder(Kind::Stdin, 1)));
    check_application(
        FEW,
        &[begin(1, 1, 1), params(1, &[0; 20]), params(1, b"")],
        Ok((&["Responder 1: = = = = = = = = = ="], b"")),
    );
    check_application(
        FEW,
        &[begin(1, 1, 1), params(1, &[0; 10]), params(1, &[0; 11])],
        Err(ParametersTooLarge),
    );
    check_application(FEW, &[begin(1, 1, 1), params(1, b"\x05"), params(1, b"")], Err(Pairs(PairCut)));
    check_application(FEW, &[record(Kind::GetValues, 1, b"")], Err(Id(Kind::GetValues, 1)));
    check_application(FEW, &[record(Kind::GetValues, 0, b"\x05")], Err(Pairs(PairCut)));
    check_application(FEW, &[record(Kind::GetValues, 0, &[0; 1025])], Err(Length(Kind::GetValues, 1025)));
    check_application(FEW, &[record(Kind::Other(12), 1, b"")], Err(Id(Kind::Other(12), 1)));
    for kind in
        [Kind::EndRequest, Kind::Stdout, Kind::Stderr, Kind::Data, Kind::GetValuesResult, Kind::UnknownType]
    {
        check_application(FEW, &[record(kind, 1, b"")], Err(UnexpectedType(kind)));
    }
}

#[test]
fn a_connection_persists_by_the_flag_of_its_latest_request() {
    let mut application = Application::new(FEW);
    let run = |application: &mut Application, records: &[Vec<u8>]| {
        application_events(application, [&*records.concat()]).unwrap();
    };
    run(&mut application, &[begin(1, 1, 1), begin(2, 1, 0)]);
    application.finish(RequestId(2), 0, &mut Vec::new());
    assert_eq!(
        (application.persistence(), application.running()),
        (Persistence::KeepAlive, 1),
        "one request is still running"
    );
    application.finish(RequestId(1), 0, &mut Vec::new());
    assert_eq!(application.persistence(), Persistence::Close);
    run(&mut application, &[begin(1, 1, 1)]);
    application.finish(RequestId(1), 0, &mut Vec::new());
    assert_eq!(application.persistence(), Persistence::KeepAlive);
    run(&mut application, &[begin(1, 9, 0)]);
    assert_eq!(application.persistence(), Persistence::Close, "a rejected request can end the connection");
}

/// Records of both directions, mostly valid ones.
fn records() -> impl Strategy<Value = Vec<u8>> {
    let kind = (0u8..13, 0u16..4, 0usize..3);
    prop::collection::vec(kind, 0..10).prop_map(|kinds| {
        let one = |(kind, id, form): (u8, u16, usize)| match (Kind::of(kind), form) {
            (Kind::EndRequest, _) => end(id, 0, form as u8),
            (Kind::BeginRequest, _) => begin(id, 1 + form as u8, 1),
            (Kind::UnknownType, _) => record(Kind::UnknownType, 0, &[form as u8; 8]),
            (kind @ (Kind::GetValues | Kind::GetValuesResult), _) => {
                record(kind, 0, b"\x0d\x01FCGI_MAX_REQS1")
            }
            (kind, 0) => record(kind, id, b""),
            (kind, 1) => record(kind, id, b"\x01\x01Ab"),
            (kind, _) => record(kind, id, b"x"),
        };
        kinds.into_iter().flat_map(one).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_events_do_not_depend_on_the_cuts(
        records in records(),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let client_with_query = || {
            let mut client = two();
            client.query_capabilities(&mut Vec::new());
            client
        };
        let whole = client_events(&mut client_with_query(), [&*records]);
        prop_assert_eq!(&client_events(&mut client_with_query(), crate::cut(&records, &at)), &whole);
        prop_assert_eq!(&client_events(&mut client_with_query(), records.chunks(1)), &whole);

        let whole = application_events(&mut Application::new(FEW), [&*records]);
        prop_assert_eq!(&application_events(&mut Application::new(FEW), crate::cut(&records, &at)), &whole);
        prop_assert_eq!(&application_events(&mut Application::new(FEW), records.chunks(1)), &whole);
    }

    #[test]
    fn a_whole_response_is_what_receiving_it_finds(records in records()) {
        if let Some(output) = two().whole(RequestId(1), &records) {
            let events = client_events(&mut two(), [&*records]).unwrap();
            let text: String = events.iter().filter_map(|word| word.strip_prefix("out 1:")).collect();
            prop_assert_eq!(text.as_bytes(), &*output);
            prop_assert!(events.last().unwrap().starts_with("end 1 Complete"));
        }
    }

    #[test]
    fn both_sides_together_pass_requests_and_responses(
        values in prop::collection::vec((1usize..5, 0usize..40_000), 0..4),
        body in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..4),
        output in prop::collection::vec("[a-z]{0,9}", 0..4),
        exit: u32,
    ) {
        let values: Vec<_> = values.iter().enumerate()
            .map(|(at, (name, value))| (format!("V{}_{at}", "N".repeat(*name)), "v".repeat(*value)))
            .collect();
        let pairs: Vec<_> = values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let limits = environment::Limits { bytes: usize::MAX, variables: 9 };
        let environment = Environment::received(
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), limits).unwrap();

        let (mut client, mut sent) = (Client::new(1), Vec::new());
        let id = client.begin(Role::Responder, Persistence::KeepAlive, &environment, &mut sent).unwrap();
        body.iter().for_each(|piece| client.stdin(id, piece, &mut sent));
        client.end_stdin(id, &mut sent);

        let mut application = Application::new(Limits { parameters: usize::MAX, ..Limits::default() });
        let (mut rest, mut received, mut out) = (&*sent, Vec::new(), Vec::new());
        loop {
            let (used, event) = application.receive(rest, &mut out).unwrap();
            rest = &rest[used..];
            match event {
                application::Event::NeedMore => break,
                application::Event::Request(_, _, parameters) => {
                    prop_assert_eq!(Environment::received(parameters.iter(), limits), Ok(environment.clone()));
                }
                application::Event::Stdin(_, bytes) => received.extend_from_slice(bytes),
                application::Event::EndStdin(_) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(received, body.concat());
        for piece in &output {
            application.stdout(id, piece.as_bytes(), &mut out);
            application.stderr(id, piece.as_bytes(), &mut out);
        }
        application.finish(id, exit, &mut out);
        let events = client_events(&mut client, [&*out]).unwrap();
        let text: String = events.iter().filter_map(|word| word.strip_prefix("out 1:")).collect();
        prop_assert_eq!(text, output.concat());
        prop_assert_eq!(events.last(), Some(&format!("end 1 Complete {exit}")));
        prop_assert_eq!((client.closed(), application.running()), (Ok(()), 0));
    }
}

#[test]
fn client_limits_concurrent_requests() {
    let (mut client, mut out) = (Client::new(3), Vec::new());
    let environment = Environment::default();
    let mut begins = |client: &mut Client| {
        client.begin(Role::Responder, Persistence::KeepAlive, &environment, &mut out).is_some()
    };
    for (allowed, expected) in
        [(1, [true, false]), (0, [false, false]), (2, [true, false]), (99, [true, false])]
    {
        client.set_concurrency(allowed);
        assert_eq!([begins(&mut client), begins(&mut client)], expected, "{allowed}");
    }
    assert_eq!((client.concurrent(), client.running()), (3, 3));
}
