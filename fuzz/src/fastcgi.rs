//! FastCGI, as a server and as an application reads it. However the bytes are cut, they say the same; and
//! whoever reads record by record, and has all the bytes at once, agrees on what was said.

use script::environment::Environment;
use script::fastcgi::application::{Application, ApplicationError, Event as Asked, Limits};
use script::fastcgi::client::{Client, ClientError, Event as Told};
use script::fastcgi::{Persistence, Role};

use crate::cuts::cuts;

/// So that inputs of few bytes meet them.
const SMALL: Limits = Limits { parameters: 40, requests: 2, connections: 1 };

/// The bytes are what the other end sends. Those of `%` and two hexadecimal digits are one byte, so that a
/// record can be written as text.
pub fn fastcgi(data: &[u8]) {
    let data = &unescaped(data);
    let [a, b, c, d] = cuts(data);
    let pieces = [&data[..a], &data[a..b], &data[b..c], &data[c..d], &data[d..]];

    let whole = told([data.as_slice()]);
    assert_eq!(told(data.chunks(1)), whole, "byte by byte");
    assert_eq!(told(pieces), whole, "cut at {a}, {b}, {c}, {d}");
    for (heard, sent) in whole.output.iter().zip(output(data)) {
        // Nothing behind an error is heard.
        assert!(if whole.error.is_none() { *heard == sent } else { sent.starts_with(heard) });
    }

    let whole = asked([data.as_slice()]);
    assert_eq!(asked(data.chunks(1)), whole, "byte by byte");
    assert_eq!(asked(pieces), whole, "cut at {a}, {b}, {c}, {d}");
    // One answer takes at least one record, and none is longer than a question makes it.
    assert!(whole.out.len() <= 64 * (data.len() / 8 + 1));
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ToldAll {
    /// What came of the requests 1 and 2.
    output: [Vec<u8>; 2],
    ended: Vec<u16>,
    error: Option<ClientError>,
    /// Bytes that were taken before an error.
    used: usize,
}

fn told<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ToldAll {
    let mut client = Client::new(2);
    for _ in 0..2 {
        client.begin(Role::Responder, Persistence::KeepAlive, &Environment::default(), &mut Vec::new());
    }
    client.query_capabilities(&mut Vec::new());
    let mut all = ToldAll::default();
    for mut piece in pieces {
        loop {
            let (used, event) = match client.receive(piece) {
                Ok(read) => read,
                Err(error) => {
                    assert_eq!(client.receive(b"\x01").err(), Some(error), "an error stays an error");
                    assert!(!error.to_string().contains(char::is_control));
                    all.error = Some(error);
                    return ToldAll { used: 0, ..all };
                }
            };
            piece = &piece[used..];
            all.used += used;
            match event {
                Told::NeedMore => break,
                Told::Stdout(id, bytes) => {
                    assert!(!bytes.is_empty());
                    all.output[usize::from(id.number()) - 1].extend_from_slice(bytes);
                }
                Told::End(id, ..) => all.ended.push(id.number()),
                Told::Stderr(..) | Told::Capabilities(_) | Told::Unknown(_) => {}
            }
        }
    }
    assert_eq!(usize::from(client.running()), 2 - all.ended.len());
    all
}

/// The content of all records that say they are output, whether they may stand there or not.
fn output(mut data: &[u8]) -> [Vec<u8>; 2] {
    let mut output = [Vec::new(), Vec::new()];
    while let Some((&[1, kind, 0, id, high, low, padding, _], rest)) = data.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([high, low]));
        if let (6, 1 | 2) = (kind, id) {
            output[usize::from(id) - 1].extend_from_slice(&rest[..len.min(rest.len())]);
        }
        data = &rest[(len + usize::from(padding)).min(rest.len())..];
    }
    output
}

#[derive(Debug, Default, PartialEq, Eq)]
struct AskedAll {
    /// Names and values of each request, and its body.
    requests: Vec<(u16, Vec<u8>)>,
    body: Vec<u8>,
    aborted: usize,
    out: Vec<u8>,
    error: Option<ApplicationError>,
}

fn asked<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> AskedAll {
    let mut application = Application::new(SMALL);
    let mut all = AskedAll::default();
    for mut piece in pieces {
        loop {
            let (used, event) = match application.receive(piece, &mut all.out) {
                Ok(read) => read,
                Err(error) => {
                    let again = application.receive(b"\x01", &mut Vec::new()).err();
                    assert_eq!(again, Some(error), "an error stays an error");
                    assert!(!error.to_string().contains(char::is_control));
                    all.error = Some(error);
                    return all;
                }
            };
            piece = &piece[used..];
            assert!(application.running() <= usize::from(SMALL.requests));
            match event {
                Asked::NeedMore => break,
                Asked::Request(id, _, parameters) => {
                    let size: usize = parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
                    assert!(size <= SMALL.parameters);
                    let pair = |(name, value): (&[u8], &[u8])| [name, b"=", value].concat();
                    all.requests.push((id.number(), parameters.iter().flat_map(pair).collect()));
                }
                Asked::Stdin(_, bytes) => all.body.extend_from_slice(bytes),
                Asked::Abort(id) => {
                    all.aborted += 1;
                    application.finish(id, 0, &mut all.out);
                }
                Asked::EndStdin(id) => application.finish(id, 7, &mut all.out),
                Asked::OutputAppended => {}
            }
        }
    }
    all
}

fn unescaped(data: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (mut bytes, mut rest) = (Vec::with_capacity(data.len()), data);
    while let [first, others @ ..] = rest {
        let escape = match *rest {
            [b'%', high, low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        match escape {
            Some((high, low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    bytes
}
