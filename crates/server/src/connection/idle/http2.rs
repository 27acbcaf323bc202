//! The visit of an idle HTTP/2 connection.

use std::io;
use std::rc::Rc;

use super::{IdleConnection, Visit, copied};
use crate::connection::Connections;
use crate::connection::h2::task::Begin;
use crate::connection::h2::{Answered, Http2, Then};
use crate::connection::log_guard::LogGuard;
use crate::connection::output::{Output, SendError};
use crate::connection::task::Start;
use crate::log::EndReason;
use crate::services::ScratchInput;

/// Full buffers of responses that are sent in one visit. Then the connection gets a task, and others have their turn.
const WRITES_PER_VISIT: usize = 8;

/// What became of an output.
enum Delivery {
    Sent,
    /// The client does not take all of it now.
    Blocked(Output),
    Failed(EndReason),
}

/// Answers the requests in the input, and sends what can be sent.
pub fn answer(
    connections: &Rc<Connections>,
    connection: &mut IdleConnection,
    mut http2: Box<Http2>,
    mut input: ScratchInput,
) -> Visit {
    http2.tls = connection.socket.tls_state();
    for _ in 0..WRITES_PER_VISIT {
        let Answered { rest, output, then } = http2.answer(connections, input);
        input = rest;
        match send(connections, connection, output) {
            Delivery::Sent => http2.on_sent(None),
            Delivery::Blocked(output) => {
                let input = copied(connections, input);
                return Visit::NeedsHttp2Task(Box::new(Begin { http2: *http2, output: Some(output), input }));
            }
            Delivery::Failed(why) => {
                http2.on_sent(Some(why));
                http2.end_all(why);
                return Visit::Close;
            }
        }
        match then {
            // The rest of a frame has a deadline in a task. When the worker leaves, a task sends GOAWAY.
            Then::Continue
                if input.is_empty()
                    && !http2.is_within_frame()
                    && !connections.services.mode.is_leaving() =>
            {
                // Other frames than those of requests do not keep a connection open.
                if connection.requests != http2.requests() {
                    connection.note_responses(http2.requests(), connections.services.clock.ticks());
                }
                connection.http2 = Some(http2);
                return Visit::Stay;
            }
            Then::Continue if input.is_empty() => break,
            Then::Continue | Then::SendMore => {}
            Then::Wait => break,
            Then::Close => return Visit::needs_task(connection.http1(), Start::Linger, Vec::new()),
        }
    }
    let input = copied(connections, input);
    Visit::NeedsHttp2Task(Box::new(Begin { http2: *http2, output: None, input }))
}

#[inline]
fn send(connections: &Connections, connection: &IdleConnection, mut output: Output) -> Delivery {
    let mut guard = LogGuard::new(&connections.services, &mut output);
    let sent = loop {
        match guard.send(&connection.socket, connections.services.clock.now()) {
            Err(SendError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => break sent,
        }
    };
    guard.disarm();
    let why = match sent {
        Ok(_) => None,
        Err(SendError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            return Delivery::Blocked(output);
        }
        Err(error) => Some(error.reason()),
    };
    connections.finish(&mut output, why);
    why.map_or(Delivery::Sent, Delivery::Failed)
}
