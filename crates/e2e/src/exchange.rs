//! All requests and responses of one connection, summarized so that they fit into a row of a table.

use std::fmt;

use crate::client::{Client, ReadError};
use crate::response::Response;
use crate::server::Server;
use crate::shown;

/// Sent after everything else. Only this request is answered with 204, so the response shows that the server
/// still knows where a request begins.
const LAST: &[u8] = b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The server's responses to some bytes.
#[derive(Debug)]
pub struct Exchange {
    /// The status of each response, with an `h` for a response to HEAD, and then the state of the connection:
    /// `200 404h open`, `400 closed`; `reset`, `cut`, `silent` and `malformed` are never right.
    pub summary: String,
    pub responses: Vec<Response>,
}

impl Server {
    /// Sends `input` and one more request on a new connection, and reads until the server closes. `expected`
    /// says which responses are to a HEAD.
    pub fn exchange(&self, input: impl AsRef<[u8]>, expected: &str) -> Exchange {
        let found = exchange(&mut self.connect(), &input, expected);
        if let Some(repeater) = self.repeater() {
            repeater.lock().expect("no request panics").repeat_exchange(input.as_ref(), expected, &found);
        }
        found
    }
}

/// As `Server::exchange`, on an existing connection.
pub fn exchange(client: &mut Client, input: impl AsRef<[u8]>, expected: &str) -> Exchange {
    // A server that rejects the beginning need not read the rest.
    _ = client.try_send([input.as_ref(), LAST].concat());
    let mut responses = Vec::new();
    let mut words = Vec::new();
    let mut heads = expected.split(' ').map(|word| word.ends_with('h'));
    let end = loop {
        let to_head = heads.next().unwrap_or(false);
        let read = if to_head { client.try_read_response_to_head() } else { client.try_read_response() };
        match read {
            Ok(response) => {
                words.push(format!("{}{}", response.status, if to_head { "h" } else { "" }));
                responses.push(response);
            }
            Err(ReadError::Closed { after: 0 }) => break "closed".to_owned(),
            Err(ReadError::Closed { .. }) => break "cut".to_owned(),
            Err(ReadError::Reset) => break "reset".to_owned(),
            Err(ReadError::Silent) => break "silent".to_owned(),
            Err(other) => break format!("malformed ({other})"),
        }
    };
    let asked_last =
        responses.last().is_some_and(|r| r.status == 204 && r.field("connection") == Some("close"));
    let end = if asked_last && end == "closed" {
        words.pop();
        responses.pop();
        "open".to_owned()
    } else {
        end
    };
    words.push(end);
    Exchange { summary: words.join(" "), responses }
}

/// The failed rows of a table; when dropped, it fails the test with all of them.
#[derive(Debug, Default)]
pub struct Rows {
    wrong: Vec<String>,
    count: usize,
}

impl Rows {
    pub fn new() -> Rows {
        Rows::default()
    }

    /// One row: the input, the value found, and the expected one.
    pub fn check<T: PartialEq + fmt::Debug>(&mut self, input: impl AsRef<[u8]>, found: T, expected: T) {
        self.count += 1;
        if found != expected {
            self.wrong.push(format!("{}\n    expected {expected:?}\n    found    {found:?}", shown(input)));
        }
    }

    /// One row that states a rule, and whether it holds.
    pub fn holds(&mut self, input: impl AsRef<[u8]>, rule: &str, holds: bool) {
        self.count += 1;
        if !holds {
            self.wrong.push(format!("{}\n    is not so: {rule}", shown(input)));
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let wrong =
            format!("{} of {} rows are wrong:\n  {}", self.wrong.len(), self.count, self.wrong.join("\n  "));
        match (self.wrong.is_empty(), std::thread::panicking()) {
            (true, _) => {}
            (false, true) => eprintln!("{wrong}"),
            (false, false) => panic!("{wrong}"),
        }
    }
}
