//! FastCGI, as a server and as an application reads it. The result does not depend on how the bytes are cut. A reader
//! that has all records at once finds the same output.

use script::environment::Environment;
use script::fastcgi::application::{Application, ApplicationError, Event as RequestEvent, Limits};
use script::fastcgi::client::{Client, ClientError, Event as Told};
use script::fastcgi::{Persistence, Role};

use crate::cuts::{cuts, unescaped};

/// Small, so that short inputs reach them.
const SMALL: Limits = Limits { parameters: 40, requests: 2, connections: 1 };

/// The bytes are those of the other end. `%` and two hexadecimal digits are one byte, so that a record can be written
/// as text.
pub fn fastcgi(data: &[u8]) {
    let data = &unescaped(data);
    let [a, b, c, d] = cuts(data);
    let parts = [&data[..a], &data[a..b], &data[b..c], &data[c..d], &data[d..]];

    let whole = as_server([data.as_slice()]);
    assert_eq!(as_server(data.chunks(1)), whole, "byte by byte");
    assert_eq!(as_server(parts), whole, "cut at {a}, {b}, {c}, {d}");
    for (received, sent) in whole.output.iter().zip(output(data)) {
        // Nothing after an error counts.
        assert!(if whole.error.is_none() { *received == sent } else { sent.starts_with(received) });
    }

    let whole = as_application([data.as_slice()]);
    assert_eq!(as_application(data.chunks(1)), whole, "byte by byte");
    assert_eq!(as_application(parts), whole, "cut at {a}, {b}, {c}, {d}");
    // A response to a management record needs a record, and its length is bounded by that record.
    assert!(whole.out.len() <= 64 * (data.len() / 8 + 1));
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Responses {
    /// The output of the requests 1 and 2.
    output: [Vec<u8>; 2],
    ended: Vec<u16>,
    error: Option<ClientError>,
    /// Bytes before an error.
    used: usize,
}

fn as_server<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Responses {
    let mut client = Client::new(2);
    for _ in 0..2 {
        client.begin(Role::Responder, Persistence::KeepAlive, &Environment::default(), &mut Vec::new());
    }
    client.query_capabilities(&mut Vec::new());
    let mut all = Responses::default();
    for mut part in parts {
        loop {
            let (used, event) = match client.receive(part) {
                Ok(read) => read,
                Err(error) => {
                    assert_eq!(client.receive(b"\x01").err(), Some(error), "an error is final");
                    assert!(!error.to_string().contains(char::is_control));
                    all.error = Some(error);
                    return Responses { used: 0, ..all };
                }
            };
            part = &part[used..];
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

/// The content of all records of output, whether they are allowed or not.
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
struct Requests {
    /// The parameters of each request, and its body.
    requests: Vec<(u16, Vec<u8>)>,
    body: Vec<u8>,
    aborted: usize,
    out: Vec<u8>,
    error: Option<ApplicationError>,
}

fn as_application<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Requests {
    let mut application = Application::new(SMALL);
    let mut all = Requests::default();
    for mut part in parts {
        loop {
            let (used, event) = match application.receive(part, &mut all.out) {
                Ok(read) => read,
                Err(error) => {
                    let again = application.receive(b"\x01", &mut Vec::new()).err();
                    assert_eq!(again, Some(error), "an error is final");
                    assert!(!error.to_string().contains(char::is_control));
                    all.error = Some(error);
                    return all;
                }
            };
            part = &part[used..];
            assert!(application.running() <= usize::from(SMALL.requests));
            match event {
                RequestEvent::NeedMore => break,
                RequestEvent::Request(id, _, parameters) => {
                    let size: usize = parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
                    assert!(size <= SMALL.parameters);
                    let pair = |(name, value): (&[u8], &[u8])| [name, b"=", value].concat();
                    all.requests.push((id.number(), parameters.iter().flat_map(pair).collect()));
                }
                RequestEvent::Stdin(_, bytes) => all.body.extend_from_slice(bytes),
                RequestEvent::Abort(id) => {
                    all.aborted += 1;
                    application.finish(id, 0, &mut all.out);
                }
                RequestEvent::EndStdin(id) => application.finish(id, 7, &mut all.out),
                RequestEvent::OutputAppended => {}
            }
        }
    }
    all
}
