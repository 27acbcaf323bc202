//! The server's end of a FastCGI connection: requests become records, and records become what the
//! application says of each request. One `Client` per connection.
//!
//! A peer that breaks a rule is refused, and then nothing on the connection can be believed. An id is
//! not given again at once, so that a late record of an ended request is not taken for the next one's.
//! Knows nothing of what is in a reply: that is `crate::response`.

use std::fmt;

use super::record::{self, Decoder, Header, Kind, WrongVersion};
use super::{
    Capabilities, MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES, Multiplexing, Persistence, ProtocolStatus,
    RequestId, Role, flags, pairs, stream,
};
use crate::environment::Environment;

/// The most requests that can be under way on one connection.
pub const MAX_CONCURRENT: u16 = 1024;

/// Bytes of an answer to FCGI_GET_VALUES: three names with their numbers are 60.
const MAX_VALUES: u16 = 1024;

/// Bytes of the content of FCGI_END_REQUEST and FCGI_UNKNOWN_TYPE (§5.5, §4.2).
const BODY_LEN: u16 = 8;

/// What an authorizer is not told (§6.3).
const NOT_FOR_AUTHORIZERS: [&[u8]; 4] = [b"CONTENT_LENGTH", b"PATH_INFO", b"PATH_TRANSLATED", b"SCRIPT_NAME"];

/// One connection to an application.
#[derive(Debug)]
pub struct Client {
    decoder: Decoder,
    /// What has become of each id, from 1.
    slots: Vec<Slot>,
    /// The id that was given last.
    last: u16,
    running: u16,
    concurrent: u16,
    question: Question,
    /// The content of a record that is read as a whole.
    content: Vec<u8>,
    refused: Option<ClientError>,
}

/// What the application says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// All input is used up; more will come.
    NeedMore,
    /// A piece of a reply, never empty.
    Stdout(RequestId, &'a [u8]),
    /// A piece for the log, never empty.
    Stderr(RequestId, &'a [u8]),
    /// Nothing more comes of this request. The number is what a program would have exited with.
    End(RequestId, ProtocolStatus, u32),
    /// What was asked by `query_capabilities`.
    Capabilities(Capabilities),
    /// The application does not know this type of record; a reply to a question.
    Unknown(Kind),
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientError {
    Version(WrongVersion),
    /// A type that no application sends.
    Foreign(Kind),
    /// An id that no request has had.
    NeverGiven(u16),
    /// A record of a request that has ended.
    AfterEnd(u16),
    /// Output behind the end of the output.
    AfterOutput(u16),
    /// A record about the connection with the id of a request, or the other way round.
    Id(Kind, u16),
    /// Not as long as this type of record is.
    Length(Kind, u16),
    /// The answer to a question that nobody has asked.
    Unasked(Kind),
    /// An answer that is no list of names and numbers.
    Values,
    /// A request has ended in a way that there is not.
    Status(u8),
    /// The connection was closed within a record.
    CutRecord,
    /// The connection was closed before so many requests had ended.
    CutRequests(u16),
}

/// What has become of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Unused,
    Open,
    /// The application has ended its output.
    OutputEnded,
    /// We want nothing more of it.
    Aborted,
    Ended,
}

/// Whether the application owes an answer about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    None,
    Asked,
}

impl Client {
    /// At most `concurrent` requests at a time; 1 unless the application multiplexes.
    pub fn new(concurrent: u16) -> Client {
        let concurrent = concurrent.clamp(1, MAX_CONCURRENT);
        Client {
            decoder: Decoder::default(),
            // The application may make an array of them (§3.3), so they are small.
            slots: vec![Slot::Unused; 2 * usize::from(concurrent)],
            last: 0,
            running: 0,
            concurrent,
            question: Question::None,
            content: Vec::new(),
            refused: None,
        }
    }

    /// Appends the beginning of a request: all but its body. `None` if as many are under way as there
    /// may be.
    pub fn begin(
        &mut self,
        role: Role,
        keep: Persistence,
        environment: &Environment,
        out: &mut Vec<u8>,
    ) -> Option<RequestId> {
        let id = self.next_id()?;
        let [role_high, role_low] = role.number().to_be_bytes();
        out.reserve(environment.block().len() + 64);
        out.extend(Header::new(Kind::BeginRequest, id.0, BODY_LEN).to_bytes());
        out.extend([role_high, role_low, flags(keep), 0, 0, 0, 0, 0]);
        stream::write_made(Kind::Params, id, out, |out| {
            let told = |name: &[u8]| role == Role::Responder || !NOT_FOR_AUTHORIZERS.contains(&name);
            for (name, value) in environment.iter().filter(|(name, _)| told(name)) {
                pairs::encode(name, value, out);
            }
        });
        Some(id)
    }

    /// Appends a piece of the body. Nothing for a request that has ended: the application reads it no
    /// more.
    pub fn stdin(&self, id: RequestId, bytes: &[u8], out: &mut Vec<u8>) {
        if self.takes_input(id) {
            stream::write(Kind::Stdin, id, bytes, out);
        }
    }

    /// Whether the application still reads a body for this request.
    pub fn takes_input(&self, id: RequestId) -> bool {
        matches!(self.slot(id.0), Slot::Open | Slot::OutputEnded)
    }

    /// Appends the end of the body, which a responder waits for even if there is none.
    pub fn end_stdin(&self, id: RequestId, out: &mut Vec<u8>) {
        if self.takes_input(id) {
            stream::end(Kind::Stdin, id, out);
        }
    }

    /// Appends that nobody waits for the reply any more. What comes of it until its end is swallowed.
    pub fn abort(&mut self, id: RequestId, out: &mut Vec<u8>) {
        if self.takes_input(id) {
            self.set(id.0, Slot::Aborted);
            stream::end(Kind::AbortRequest, id, out);
        }
    }

    /// Appends the question what the application can do (§4.1).
    pub fn query_capabilities(&mut self, out: &mut Vec<u8>) {
        let mut content = Vec::new();
        for name in [MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES] {
            pairs::encode(name.as_bytes(), b"", &mut content);
        }
        out.extend(Header::new(Kind::GetValues, 0, content.len() as u16).to_bytes());
        out.extend(content);
        self.question = Question::Asked;
    }

    /// So many requests at a time from now on, but no more than it was made for.
    pub fn set_concurrency(&mut self, concurrent: u16) {
        self.concurrent = concurrent.clamp(1, (self.slots.len() / 2) as u16);
    }

    /// Requests that may be under way.
    pub const fn concurrent(&self) -> u16 {
        self.concurrent
    }

    /// Requests that have not ended.
    pub const fn running(&self) -> u16 {
        self.running
    }

    /// Reads up to the next event. The number is how many bytes of `input` are used up: hand in the rest
    /// next time. Call it until it needs more.
    pub fn receive<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), ClientError> {
        match self.refused {
            Some(error) => Err(error),
            None => self.read(input).inspect_err(|error| self.refused = Some(*error)),
        }
    }

    /// What it means that the application has closed the connection.
    pub const fn closed(&self) -> Result<(), ClientError> {
        match (self.decoder.is_between(), self.running) {
            (false, _) => Err(ClientError::CutRecord),
            (true, 0) => Ok(()),
            (true, running) => Err(ClientError::CutRequests(running)),
        }
    }

    fn read<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), ClientError> {
        let mut used = 0;
        // Bounded: every record takes at least the bytes of its header.
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

    /// Whether this record may come now.
    fn start(&mut self, header: Header) -> Result<(), ClientError> {
        let Header { kind, id, content, .. } = header;
        self.content.clear();
        match kind {
            Kind::Stdout | Kind::Stderr | Kind::EndRequest => self.start_of_request(header),
            Kind::GetValuesResult | Kind::UnknownType if id != 0 => Err(ClientError::Id(kind, id)),
            Kind::GetValuesResult | Kind::UnknownType if self.question == Question::None => {
                Err(ClientError::Unasked(kind))
            }
            Kind::GetValuesResult if content > MAX_VALUES => Err(ClientError::Length(kind, content)),
            Kind::UnknownType if content != BODY_LEN => Err(ClientError::Length(kind, content)),
            Kind::GetValuesResult | Kind::UnknownType => Ok(()),
            _ => Err(ClientError::Foreign(kind)),
        }
    }

    fn start_of_request(&self, header: Header) -> Result<(), ClientError> {
        let Header { kind, id, content, .. } = header;
        match (self.slot(id), kind) {
            _ if id == 0 => Err(ClientError::Id(kind, id)),
            (Slot::Unused, _) => Err(ClientError::NeverGiven(id)),
            (Slot::Ended, _) => Err(ClientError::AfterEnd(id)),
            // To say twice that there is no more does no harm.
            (Slot::OutputEnded, Kind::Stdout) if content > 0 => Err(ClientError::AfterOutput(id)),
            (_, Kind::EndRequest) if content != BODY_LEN => Err(ClientError::Length(kind, content)),
            (Slot::Open | Slot::OutputEnded | Slot::Aborted, _) => Ok(()),
        }
    }

    fn content<'a>(&mut self, header: Header, bytes: &'a [u8]) -> Option<Event<'a>> {
        let id = RequestId(header.id);
        match (header.kind, self.slot(header.id)) {
            (Kind::Stdout | Kind::Stderr, Slot::Aborted) => None,
            (Kind::Stdout, _) => Some(Event::Stdout(id, bytes)),
            (Kind::Stderr, _) => Some(Event::Stderr(id, bytes)),
            // Short: `start` has looked at its length.
            _ => {
                self.content.extend_from_slice(bytes);
                None
            }
        }
    }

    fn end(&mut self, header: Header) -> Result<Option<Event<'static>>, ClientError> {
        let Header { kind, id, content, .. } = header;
        match kind {
            Kind::Stdout if content == 0 && self.slot(id) == Slot::Open => {
                self.set(id, Slot::OutputEnded);
                Ok(None)
            }
            Kind::EndRequest => self.end_of_request(id).map(Some),
            Kind::GetValuesResult => {
                self.question = Question::None;
                abilities(&self.content)
                    .ok_or(ClientError::Values)
                    .map(|found| Some(Event::Capabilities(found)))
            }
            Kind::UnknownType => {
                self.question = Question::None;
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
        self.set(id, Slot::Ended);
        self.running -= 1;
        Ok(Event::End(RequestId(id), ending, u32::from_be_bytes([a, b, c, d])))
    }

    /// The next one behind the last that is free, round and round.
    fn next_id(&mut self) -> Option<RequestId> {
        if self.running >= self.concurrent {
            return None;
        }
        let count = self.slots.len() as u16;
        let free = |id: &u16| matches!(self.slot(*id), Slot::Unused | Slot::Ended);
        let id = (0..count).map(|step| (self.last + step) % count + 1).find(free)?;
        self.set(id, Slot::Open);
        self.last = id;
        self.running += 1;
        Some(RequestId(id))
    }

    fn slot(&self, id: u16) -> Slot {
        let at = usize::from(id).checked_sub(1);
        at.and_then(|at| self.slots.get(at)).copied().unwrap_or(Slot::Unused)
    }

    fn set(&mut self, id: u16, slot: Slot) {
        let at = usize::from(id).checked_sub(1);
        if let Some(own) = at.and_then(|at| self.slots.get_mut(at)) {
            *own = slot;
        }
    }
}

/// A name that nobody knows is passed over.
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
            ClientError::Foreign(kind) => {
                write!(out, "the application sent {kind}, which no application sends")
            }
            ClientError::NeverGiven(id) => write!(out, "a record of request {id}, which never was"),
            ClientError::AfterEnd(id) => write!(out, "a record of request {id} after its FCGI_END_REQUEST"),
            ClientError::AfterOutput(id) => write!(out, "output of request {id} after the end of its output"),
            ClientError::Id(kind, id) => write!(out, "{kind} with the request id {id}"),
            ClientError::Length(kind, len) => write!(out, "{kind} of {len} bytes"),
            ClientError::Unasked(kind) => write!(out, "{kind} without a question"),
            ClientError::Values => out.write_str("FCGI_GET_VALUES_RESULT is not names and numbers"),
            ClientError::Status(status) => write!(out, "FCGI_END_REQUEST with the protocol status {status}"),
            ClientError::CutRecord => out.write_str("the application closed the connection within a record"),
            ClientError::CutRequests(count) => {
                write!(
                    out,
                    "the application closed the connection before FCGI_END_REQUEST of {count} requests"
                )
            }
        }
    }
}

impl std::error::Error for ClientError {}
