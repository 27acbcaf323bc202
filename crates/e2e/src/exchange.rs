//! A whole conversation on one connection, in a form that fits into a row of a table.

use std::fmt;

use crate::client::{Client, ReadError};
use crate::response::Response;
use crate::server::Server;
use crate::shown;

/// Asked behind everything else. Only this is answered with 204, so the answer shows that the server
/// still knows where a request begins.
const LAST: &[u8] = b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// What the server made of some bytes.
#[derive(Debug)]
pub struct Exchange {
    /// The status of each answer, with an `h` for one without body to a HEAD, and what became of the
    /// connection: `200 404h open`, `400 closed`; `reset`, `cut`, `silent` and `malformed` are never right.
    pub summary: String,
    pub responses: Vec<Response>,
}

impl Server {
    /// Sends `input` on a new connection and another request behind it, and reads until the server
    /// closes. `expected` tells which answers are to a HEAD.
    pub fn exchange(&self, input: impl AsRef<[u8]>, expected: &str) -> Exchange {
        exchange(&mut self.connect(), input, expected)
    }
}

/// As `Server::talk`, on a connection that is there.
pub fn exchange(client: &mut Client, input: impl AsRef<[u8]>, expected: &str) -> Exchange {
    // A server that refuses the beginning need not take the rest.
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

/// The rows of a table that went wrong; when dropped, all of them are the failure of the test.
#[derive(Debug, Default)]
pub struct Rows {
    wrong: Vec<String>,
    count: usize,
}

impl Rows {
    pub fn new() -> Rows {
        Rows::default()
    }

    /// One row: what was put in, what came out, and what should have.
    pub fn check<T: PartialEq + fmt::Debug>(&mut self, input: impl AsRef<[u8]>, found: T, expected: T) {
        self.count += 1;
        if found != expected {
            self.wrong.push(format!("{}\n    expected {expected:?}\n    found    {found:?}", shown(input)));
        }
    }

    /// One row that holds or does not.
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
