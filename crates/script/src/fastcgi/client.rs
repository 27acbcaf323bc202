//! The server's side of a FastCGI connection: writes requests and parses the records of the application.
//!
//! An application that breaks a rule is an error of the whole connection. The client does not reuse an id at once, so
//! that a late record of an ended request cannot count as one of the next. Knows nothing of the content of a
//! response: see `crate::response`.

use std::borrow::Cow;
use std::fmt;

use super::record::{self, Decoder, Header, Kind, WrongVersion};
use super::{
    Capabilities, MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES, Multiplexing, Persistence, ProtocolStatus,
    RequestId, Role, flags, stream,
};
use crate::environment::Environment;
use crate::pairs;

/// Concurrent requests on one connection.
const MAX_CONCURRENT: u16 = 1024;

/// The largest FCGI_GET_VALUES_RESULT, in bytes. Three names with their numbers have 60.
const MAX_VALUES: u16 = 1024;

/// Bytes of the content of FCGI_END_REQUEST and FCGI_UNKNOWN_TYPE (§5.5, §4.2).
const BODY_LEN: u16 = 8;

/// Variables that an authorizer does not receive (§6.3).
const NOT_FOR_AUTHORIZERS: [&[u8]; 4] = [b"CONTENT_LENGTH", b"PATH_INFO", b"PATH_TRANSLATED", b"SCRIPT_NAME"];

/// One connection to an application.
#[derive(Debug)]
pub struct Client {
    decoder: Decoder,
    /// The state of each id, from 1.
    states: Vec<IdState>,
    /// The id of the latest request.
    last: u16,
    running: u16,
    concurrent: u16,
    query: Query,
    /// The content of a record that is parsed as a whole.
    content: Vec<u8>,
    error: Option<ClientError>,
}

/// What the application has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The input is consumed.
    NeedMore,
    /// Part of a response, never empty.
    Stdout(RequestId, &'a [u8]),
    /// Text for the log, never empty.
    Stderr(RequestId, &'a [u8]),
    /// The request has ended. The number is the appStatus, which is the exit status of a CGI program.
    End(RequestId, ProtocolStatus, u32),
    /// The response to `query_capabilities`.
    Capabilities(Capabilities),
    /// The application does not support this type of record.
    Unknown(Kind),
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientError {
    Version(WrongVersion),
    /// A type that applications do not send.
    UnexpectedType(Kind),
    /// An id that no request has.
    UnknownRequest(u16),
    /// A record of a request that has ended.
    AfterEnd(u16),
    /// Output after the end of the output.
    AfterOutput(u16),
    /// A management record with the id of a request, or another record with id 0.
    Id(Kind, u16),
    /// A length that is not valid for this type of record.
    Length(Kind, u16),
    /// A response to a query that the client has not sent.
    Unrequested(Kind),
    /// The result of a query is not a list of names and numbers.
    Values,
    /// An unknown protocolStatus.
    Status(u8),
    /// The application closed the connection inside a record.
    ClosedInRecord,
    /// The application closed the connection before this number of requests had ended.
    ClosedInRequests(u16),
}

/// The state of the request with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdState {
    Unused,
    Open,
    /// The application has ended its output.
    OutputEnded,
    /// The server has aborted the request.
    Aborted,
    Ended,
}

/// Whether the result of FCGI_GET_VALUES is outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Query {
    None,
    Sent,
}

impl Client {
    /// At most `concurrent` requests at a time: 1 unless the application multiplexes.
    pub fn new(concurrent: u16) -> Client {
        let concurrent = concurrent.clamp(1, MAX_CONCURRENT);
        Client {
            decoder: Decoder::default(),
            // The application may use ids as indexes of an array (§3.3), so they are small.
            states: vec![IdState::Unused; 2 * usize::from(concurrent)],
            last: 0,
            running: 0,
            concurrent,
            query: Query::None,
            content: Vec::new(),
            error: None,
        }
    }

    /// Appends a request without its body. `None` at the limit of concurrent requests.
    pub fn begin(
        &mut self,
        role: Role,
        keep: Persistence,
        environment: &Environment,
        out: &mut Vec<u8>,
    ) -> Option<RequestId> {
        let id = self.next_id()?;
        let [role_high, role_low] = role.number().to_be_bytes();
        out.reserve(environment.pairs().len() + 64);
        out.extend(Header::new(Kind::BeginRequest, id.0, BODY_LEN).to_bytes());
        out.extend([role_high, role_low, flags(keep), 0, 0, 0, 0, 0]);
        stream::write_whole(Kind::Params, id, out, |out| match role {
            Role::Responder => out.extend_from_slice(environment.pairs()),
            Role::Authorizer => {
                let sent = environment.iter().filter(|(name, _)| !NOT_FOR_AUTHORIZERS.contains(name));
                sent.for_each(|(name, value)| pairs::encode(name, value, out));
            }
        });
        Some(id)
    }

    /// Appends part of the body. Appends nothing for a request that has ended.
    pub fn stdin(&self, id: RequestId, bytes: &[u8], out: &mut Vec<u8>) {
        if self.takes_input(id) {
            stream::write(Kind::Stdin, id, bytes, out);
        }
    }

    /// Whether the application has ended the output of this request: all of the response has come.
    pub fn has_whole_output(&self, id: RequestId) -> bool {
        self.state(id.0) == IdState::OutputEnded
    }

    /// Whether the application may still read the body of this request.
    fn takes_input(&self, id: RequestId) -> bool {
        matches!(self.state(id.0), IdState::Open | IdState::OutputEnded)
    }

    /// Appends the end of the body, which a responder also expects without a body.
    pub fn end_stdin(&self, id: RequestId, out: &mut Vec<u8>) {
        if self.takes_input(id) {
            stream::end(Kind::Stdin, id, out);
        }
    }

    /// Appends FCGI_ABORT_REQUEST. The client then discards the output of the request until its end.
    pub fn abort(&mut self, id: RequestId, out: &mut Vec<u8>) {
        if self.takes_input(id) {
            self.set(id.0, IdState::Aborted);
            stream::end(Kind::AbortRequest, id, out);
        }
    }

    /// Appends FCGI_GET_VALUES (§4.1).
    pub fn query_capabilities(&mut self, out: &mut Vec<u8>) {
        let mut content = Vec::new();
        for name in [MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES] {
            pairs::encode(name.as_bytes(), b"", &mut content);
        }
        out.extend(Header::new(Kind::GetValues, 0, content.len() as u16).to_bytes());
        out.extend(content);
        self.query = Query::Sent;
    }

    /// Changes the limit of concurrent requests, up to that of `new`.
    pub fn set_concurrency(&mut self, concurrent: u16) {
        self.concurrent = concurrent.clamp(1, (self.states.len() / 2) as u16);
    }

    /// The limit of concurrent requests.
    pub const fn concurrent(&self) -> u16 {
        self.concurrent
    }

    /// Requests that have not ended.
    pub const fn running(&self) -> u16 {
        self.running
    }

    /// Parses up to the next event and returns it with the number of consumed bytes. The next call takes the rest of
    /// the input. The caller repeats it until `NeedMore`.
    pub fn receive<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), ClientError> {
        match self.error {
            Some(error) => Err(error),
            None => self.read(input).inspect_err(|error| self.error = Some(*error)),
        }
    }

    /// The output of a request, if `input` is all of it with its regular end, and nothing else. Changes no state: the
    /// caller goes on with `end_whole`, or with `receive` and the same input.
    pub fn whole<'a>(&self, id: RequestId, input: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if !self.decoder.is_between() || self.error.is_some() || self.state(id.0) != IdState::Open {
            return None;
        }
        let (mut output, mut has_ended, mut rest) = (Cow::Borrowed(&[][..]), false, input);
        // Bounded: each record has a header.
        loop {
            let (header, content, behind) = record::split(rest)?;
            rest = behind;
            match header.kind {
                _ if header.id != id.0 => return None,
                Kind::Stdout if content.is_empty() => has_ended = true,
                Kind::Stdout if has_ended => return None,
                Kind::Stdout if output.is_empty() => output = Cow::Borrowed(content),
                Kind::Stdout => output.to_mut().extend_from_slice(content),
                Kind::EndRequest => {
                    let &[_, _, _, _, ending, _, _, _] = content else { return None };
                    let is_regular = ending == ProtocolStatus::Complete.number() && rest.is_empty();
                    return is_regular.then_some(output);
                }
                _ => return None,
            }
        }
    }

    /// Ends a request whose output `whole` has returned.
    pub fn end_whole(&mut self, id: RequestId) {
        if self.state(id.0) == IdState::Open {
            self.set(id.0, IdState::Ended);
            self.running -= 1;
        }
    }

    /// Whether the application may close the connection now.
    pub const fn closed(&self) -> Result<(), ClientError> {
        match (self.decoder.is_between(), self.running) {
            (false, _) => Err(ClientError::ClosedInRecord),
            (true, 0) => Ok(()),
            (true, running) => Err(ClientError::ClosedInRequests(running)),
        }
    }

    fn read<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), ClientError> {
        let mut used = 0;
        // Bounded: each record has a header.
        loop {
            let (taken, event) = self.decoder.next(&input[used..]).map_err(ClientError::Version)?;
            used += taken;
            let event = match event {
                record::Event::NeedMore => Some(Event::NeedMore),
                record::Event::Start(header) => {
                    self.start(header)?;
                    None
                }
                record::Event::Content(header, bytes) => self.content(header, bytes),
                record::Event::End(header) => self.end(header)?,
            };
            if let Some(event) = event {
                return Ok((used, event));
            }
        }
    }

    /// Checks that the application may send this record now.
    fn start(&mut self, header: Header) -> Result<(), ClientError> {
        let Header { kind, id, content, .. } = header;
        self.content.clear();
        match kind {
            Kind::Stdout | Kind::Stderr | Kind::EndRequest => self.start_of_request(header),
            Kind::GetValuesResult | Kind::UnknownType if id != 0 => Err(ClientError::Id(kind, id)),
            Kind::GetValuesResult | Kind::UnknownType if self.query == Query::None => {
                Err(ClientError::Unrequested(kind))
            }
            Kind::GetValuesResult if content > MAX_VALUES => Err(ClientError::Length(kind, content)),
            Kind::UnknownType if content != BODY_LEN => Err(ClientError::Length(kind, content)),
            Kind::GetValuesResult | Kind::UnknownType => Ok(()),
            _ => Err(ClientError::UnexpectedType(kind)),
        }
    }

    fn start_of_request(&self, header: Header) -> Result<(), ClientError> {
        let Header { kind, id, content, .. } = header;
        match (self.state(id), kind) {
            _ if id == 0 => Err(ClientError::Id(kind, id)),
            (IdState::Unused, _) => Err(ClientError::UnknownRequest(id)),
            (IdState::Ended, _) => Err(ClientError::AfterEnd(id)),
            // A repeated end of the output is harmless.
            (IdState::OutputEnded, Kind::Stdout) if content > 0 => Err(ClientError::AfterOutput(id)),
            (_, Kind::EndRequest) if content != BODY_LEN => Err(ClientError::Length(kind, content)),
            (IdState::Open | IdState::OutputEnded | IdState::Aborted, _) => Ok(()),
        }
    }

    fn content<'a>(&mut self, header: Header, bytes: &'a [u8]) -> Option<Event<'a>> {
        let id = RequestId(header.id);
        match (header.kind, self.state(header.id)) {
            (Kind::Stdout | Kind::Stderr, IdState::Aborted) => None,
            (Kind::Stdout, _) => Some(Event::Stdout(id, bytes)),
            (Kind::Stderr, _) => Some(Event::Stderr(id, bytes)),
            // `start` has checked the length.
            _ => {
                self.content.extend_from_slice(bytes);
                None
            }
        }
    }

    fn end(&mut self, header: Header) -> Result<Option<Event<'static>>, ClientError> {
        let Header { kind, id, content, .. } = header;
        match kind {
            Kind::Stdout if content == 0 && self.state(id) == IdState::Open => {
                self.set(id, IdState::OutputEnded);
                Ok(None)
            }
            Kind::EndRequest => self.end_of_request(id).map(Some),
            Kind::GetValuesResult => {
                self.query = Query::None;
                abilities(&self.content)
                    .ok_or(ClientError::Values)
                    .map(|found| Some(Event::Capabilities(found)))
            }
            Kind::UnknownType => {
                self.query = Query::None;
                let kind = self.content.first().copied().unwrap_or_default();
                Ok(Some(Event::Unknown(Kind::of(kind))))
            }
            _ => Ok(None),
        }
    }

    fn end_of_request(&mut self, id: u16) -> Result<Event<'static>, ClientError> {
        let &[a, b, c, d, ending, ..] = self.content.as_slice() else {
            return Err(ClientError::Length(Kind::EndRequest, BODY_LEN));
        };
        let ending = ProtocolStatus::of(ending).ok_or(ClientError::Status(ending))?;
        self.set(id, IdState::Ended);
        self.running -= 1;
        Ok(Event::End(RequestId(id), ending, u32::from_be_bytes([a, b, c, d])))
    }

    /// The next free id after the last, in a circle.
    fn next_id(&mut self) -> Option<RequestId> {
        if self.running >= self.concurrent {
            return None;
        }
        let count = self.states.len() as u16;
        let free = |id: &u16| matches!(self.state(*id), IdState::Unused | IdState::Ended);
        let id = (0..count).map(|step| (self.last + step) % count + 1).find(free)?;
        self.set(id, IdState::Open);
        self.last = id;
        self.running += 1;
        Some(RequestId(id))
    }

    fn state(&self, id: u16) -> IdState {
        let at = usize::from(id).checked_sub(1);
        at.and_then(|at| self.states.get(at)).copied().unwrap_or(IdState::Unused)
    }

    fn set(&mut self, id: u16, state: IdState) {
        let at = usize::from(id).checked_sub(1);
        if let Some(current) = at.and_then(|at| self.states.get_mut(at)) {
            *current = state;
        }
    }
}

/// Skips unknown names.
fn abilities(content: &[u8]) -> Option<Capabilities> {
    let mut found = Capabilities::default();
    for pair in pairs::decode(content) {
        let (name, value) = pair.ok()?;
        let number =
            || taipan_http::fields::digits(value).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        match name {
            name if name == MAX_CONNECTIONS.as_bytes() => found.connections = Some(number()?),
            name if name == MAX_REQUESTS.as_bytes() => found.requests = Some(number()?),
            name if name == MULTIPLEXES.as_bytes() => {
                found.multiplexing = Some(if number()? == 0 { Multiplexing::No } else { Multiplexing::Yes });
            }
            _ => {}
        }
    }
    Some(found)
}

impl fmt::Display for ClientError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            ClientError::Version(error) => error.fmt(out),
            ClientError::UnexpectedType(kind) => {
                write!(out, "the application sent {kind}, which applications do not send")
            }
            ClientError::UnknownRequest(id) => write!(out, "a record of the unknown request {id}"),
            ClientError::AfterEnd(id) => write!(out, "a record of request {id} after its FCGI_END_REQUEST"),
            ClientError::AfterOutput(id) => write!(out, "output of request {id} after the end of its output"),
            ClientError::Id(kind, id) => write!(out, "{kind} with the request id {id}"),
            ClientError::Length(kind, len) => write!(out, "{kind} of {len} bytes"),
            ClientError::Unrequested(kind) => write!(out, "{kind} without a query"),
            ClientError::Values => out.write_str("FCGI_GET_VALUES_RESULT is not names and numbers"),
            ClientError::Status(status) => write!(out, "FCGI_END_REQUEST with the protocol status {status}"),
            ClientError::ClosedInRecord => {
                out.write_str("the application closed the connection inside a record")
            }
            ClientError::ClosedInRequests(count) => {
                write!(
                    out,
                    "the application closed the connection before FCGI_END_REQUEST of {count} requests"
                )
            }
        }
    }
}

impl std::error::Error for ClientError {}
