//! The application's end of a FastCGI connection: records become requests, and what answers them becomes
//! records. What the protocol itself answers (questions, refusals) is appended to the output at once.
//! Knows nothing of what a request is answered with.

use std::fmt;

use super::pairs::{self, PairCut};
use super::record::{self, Decoder, Header, Kind, WrongVersion};
use super::{
    MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES, Persistence, ProtocolStatus, RequestId, Role, persistence,
    stream,
};
use crate::environment::{self, Environment, EnvironmentError};

/// Bytes of FCGI_BEGIN_REQUEST.
const BEGIN_LEN: u16 = 8;

/// Bytes of a question: there are three names to ask for.
const MAX_QUESTION: u16 = 1024;

/// What a connection may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all parameters of a request.
    pub parameters: usize,
    /// Requests at a time on one connection; 1: it does not multiplex.
    pub requests: u16,
    /// Connections that the whole application takes at a time, for who asks.
    pub connections: u16,
}

/// One connection from a server.
#[derive(Debug)]
pub struct Application {
    decoder: Decoder,
    limits: Limits,
    requests: Vec<Request>,
    /// As the latest request has it.
    keep: Persistence,
    /// The content of a record that is read as a whole.
    content: Vec<u8>,
    refused: Option<ApplicationError>,
}

/// What the server says.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// All input is used up; more will come.
    NeedMore,
    /// A request is there, with all its parameters. Its body follows.
    Request(RequestId, Role, Parameters),
    /// A piece of the body, never empty.
    Stdin(RequestId, &'a [u8]),
    EndStdin(RequestId),
    /// Nobody waits for the answer any more: it is to be finished all the same.
    Abort(RequestId),
    /// Something was appended to the output, which is to be sent.
    OutputAppended,
}

/// The parameters of a request, complete and readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters(Vec<u8>);

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApplicationError {
    Version(WrongVersion),
    /// A type that no server sends.
    Foreign(Kind),
    /// A record about the connection with the id of a request, or the other way round.
    Id(Kind, u16),
    /// Not as long as this type of record is.
    Length(Kind, u16),
    /// A request begins that has not ended.
    BeginTwice(u16),
    /// A record where its request is past it, or not yet there.
    Order(Kind, u16),
    ParametersTooLarge,
    Pairs(PairCut),
    /// The connection was closed within a record.
    CutRecord,
}

#[derive(Debug)]
struct Request {
    id: u16,
    role: Role,
    phase: Phase,
    parameters: Vec<u8>,
}

/// What comes next of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Parameters,
    Stdin,
    /// Nothing but an abort.
    Answer,
    Aborted,
}

impl Default for Limits {
    /// 128 KiB, one request, one connection.
    fn default() -> Limits {
        Limits { parameters: 128 * 1024, requests: 1, connections: 1 }
    }
}

impl Application {
    pub fn new(limits: Limits) -> Application {
        Application {
            decoder: Decoder::default(),
            limits,
            requests: Vec::new(),
            keep: Persistence::KeepAlive,
            content: Vec::new(),
            refused: None,
        }
    }

    /// Reads up to the next event. The number is how many bytes of `input` are used up: hand in the rest
    /// next time. Call it until it needs more.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Event<'a>), ApplicationError> {
        match self.refused {
            Some(error) => Err(error),
            None => self.read(input, out).inspect_err(|error| self.refused = Some(*error)),
        }
    }

    /// Appends a piece of the answer.
    pub fn stdout(&self, id: RequestId, bytes: &[u8], out: &mut Vec<u8>) {
        stream::write(Kind::Stdout, id, bytes, out);
    }

    /// Appends a piece for the server's log.
    pub fn stderr(&self, id: RequestId, bytes: &[u8], out: &mut Vec<u8>) {
        stream::write(Kind::Stderr, id, bytes, out);
    }

    /// Appends the end of a request: nothing more of it may be sent, and what still comes is passed over.
    /// The number is what a program would have exited with.
    pub fn finish(&mut self, id: RequestId, exit: u32, out: &mut Vec<u8>) {
        self.requests.retain(|request| request.id != id.0);
        stream::end(Kind::Stdout, id, out);
        end_request(id.0, exit, ProtocolStatus::Complete, out);
    }

    /// Whether the connection stays, now that what is appended has been sent.
    pub fn keep(&self) -> Persistence {
        if self.requests.is_empty() { self.keep } else { Persistence::KeepAlive }
    }

    /// Requests that have not been finished.
    pub fn running(&self) -> usize {
        self.requests.len()
    }

    /// What it means that the server has closed the connection. Whatever is running, nobody waits for.
    pub const fn closed(&self) -> Result<(), ApplicationError> {
        if self.decoder.is_between() { Ok(()) } else { Err(ApplicationError::CutRecord) }
    }

    fn read<'a>(
        &mut self,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Event<'a>), ApplicationError> {
        let mut used = 0;
        // Bounded: every record takes at least the bytes of its header.
        loop {
            let (taken, event) = self.decoder.next(&input[used..]).map_err(ApplicationError::Version)?;
            used += taken;
            let event = match event {
                record::Event::NeedMore => Some(Event::NeedMore),
                record::Event::Start(header) => {
                    self.start(header)?;
                    None
                }
                record::Event::Content(header, bytes) => self.content(header, bytes)?,
                record::Event::End(header) => self.end(header, out)?,
            };
            if let Some(event) = event {
                return Ok((used, event));
            }
        }
    }

    /// Whether this record may come now. One of a request that is not under way is passed over (§3.3):
    /// it was sent before the server could know.
    fn start(&mut self, header: Header) -> Result<(), ApplicationError> {
        use ApplicationError::{BeginTwice, Foreign, Id, Length, Order};
        let Header { kind, id, content, .. } = header;
        self.content.clear();
        match (kind, self.phase(id)) {
            (Kind::BeginRequest | Kind::Params | Kind::Stdin | Kind::AbortRequest, _) if id == 0 => {
                Err(Id(kind, id))
            }
            (Kind::BeginRequest, Some(_)) => Err(BeginTwice(id)),
            (Kind::BeginRequest, None) if content != BEGIN_LEN => Err(Length(kind, content)),
            (Kind::AbortRequest, _) if content != 0 => Err(Length(kind, content)),
            (Kind::Params, Some(phase)) if phase == Phase::Stdin || phase == Phase::Answer => {
                Err(Order(kind, id))
            }
            (Kind::Stdin, Some(Phase::Parameters | Phase::Answer)) => Err(Order(kind, id)),
            (Kind::BeginRequest | Kind::Params | Kind::Stdin | Kind::AbortRequest, _) => Ok(()),
            (Kind::GetValues | Kind::Other(_), _) if id != 0 => Err(Id(kind, id)),
            (Kind::GetValues, _) if content > MAX_QUESTION => Err(Length(kind, content)),
            (Kind::GetValues | Kind::Other(_), _) => Ok(()),
            _ => Err(Foreign(kind)),
        }
    }

    fn content<'a>(
        &mut self,
        header: Header,
        bytes: &'a [u8],
    ) -> Result<Option<Event<'a>>, ApplicationError> {
        let most = self.limits.parameters;
        match (header.kind, self.request(header.id)) {
            (Kind::Params, Some(request)) if request.phase == Phase::Parameters => {
                if bytes.len() > most - request.parameters.len() {
                    return Err(ApplicationError::ParametersTooLarge);
                }
                request.parameters.extend_from_slice(bytes);
                Ok(None)
            }
            (Kind::Stdin, Some(request)) if request.phase == Phase::Stdin => {
                Ok(Some(Event::Stdin(RequestId(header.id), bytes)))
            }
            // Short: `start` has looked at its length.
            (Kind::BeginRequest | Kind::GetValues, _) => {
                self.content.extend_from_slice(bytes);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn end(&mut self, header: Header, out: &mut Vec<u8>) -> Result<Option<Event<'static>>, ApplicationError> {
        let Header { kind, id, content, .. } = header;
        match (kind, self.phase(id)) {
            (Kind::BeginRequest, _) => Ok(self.begin(id, out)),
            (Kind::Params, Some(Phase::Parameters)) if content == 0 => self.parameters_end(id),
            (Kind::Stdin, Some(Phase::Stdin)) if content == 0 => {
                self.set(id, Phase::Answer);
                Ok(Some(Event::EndStdin(RequestId(id))))
            }
            // Nobody has heard of it yet, so nobody needs to finish it.
            (Kind::AbortRequest, Some(Phase::Parameters)) => {
                self.finish(RequestId(id), 0, out);
                Ok(Some(Event::OutputAppended))
            }
            (Kind::AbortRequest, Some(Phase::Stdin | Phase::Answer)) => {
                self.set(id, Phase::Aborted);
                Ok(Some(Event::Abort(RequestId(id))))
            }
            (Kind::GetValues, _) => self.abilities(out).map(Some),
            (Kind::Other(number), _) => {
                out.extend(Header::new(Kind::UnknownType, 0, 8).to_bytes());
                out.extend([number, 0, 0, 0, 0, 0, 0, 0]);
                Ok(Some(Event::OutputAppended))
            }
            _ => Ok(None),
        }
    }

    fn begin(&mut self, id: u16, out: &mut Vec<u8>) -> Option<Event<'static>> {
        let &[role_high, role_low, flags, ..] = self.content.as_slice() else {
            return None;
        };
        let refusal = match Role::of(u16::from_be_bytes([role_high, role_low])) {
            None => ProtocolStatus::UnknownRole,
            Some(_) if !self.requests.is_empty() && self.limits.requests <= 1 => {
                ProtocolStatus::CannotMultiplex
            }
            Some(_) if self.requests.len() >= usize::from(self.limits.requests.max(1)) => {
                ProtocolStatus::Overloaded
            }
            Some(role) => {
                self.keep = persistence(flags);
                self.requests.push(Request { id, role, phase: Phase::Parameters, parameters: Vec::new() });
                return None;
            }
        };
        if self.requests.is_empty() {
            self.keep = persistence(flags);
        }
        end_request(id, 0, refusal, out);
        Some(Event::OutputAppended)
    }

    fn parameters_end(&mut self, id: u16) -> Result<Option<Event<'static>>, ApplicationError> {
        let Some(request) = self.request(id) else { return Ok(None) };
        request.phase = Phase::Stdin;
        let parameters = std::mem::take(&mut request.parameters);
        if let Some(error) = pairs::decode(&parameters).find_map(Result::err) {
            return Err(ApplicationError::Pairs(error));
        }
        Ok(Some(Event::Request(RequestId(id), request.role, Parameters(parameters))))
    }

    /// Answers what is asked and known (§4.1), in the order of the question.
    fn abilities(&self, out: &mut Vec<u8>) -> Result<Event<'static>, ApplicationError> {
        let mut answer = Vec::new();
        for pair in pairs::decode(&self.content) {
            let (name, _) = pair.map_err(ApplicationError::Pairs)?;
            let value = match name {
                name if name == MAX_CONNECTIONS.as_bytes() => self.limits.connections,
                name if name == MAX_REQUESTS.as_bytes() => {
                    self.limits.connections.saturating_mul(self.limits.requests.max(1))
                }
                name if name == MULTIPLEXES.as_bytes() => u16::from(self.limits.requests > 1),
                _ => continue,
            };
            pairs::encode(name, value.to_string().as_bytes(), &mut answer);
        }
        out.extend(Header::new(Kind::GetValuesResult, 0, answer.len() as u16).to_bytes());
        out.extend(answer);
        Ok(Event::OutputAppended)
    }

    fn request(&mut self, id: u16) -> Option<&mut Request> {
        self.requests.iter_mut().find(|request| request.id == id)
    }

    fn phase(&self, id: u16) -> Option<Phase> {
        self.requests.iter().find(|request| request.id == id).map(|request| request.phase)
    }

    fn set(&mut self, id: u16, phase: Phase) {
        if let Some(request) = self.request(id) {
            request.phase = phase;
        }
    }
}

impl Parameters {
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        // There is no error among them: `Application` has looked.
        pairs::decode(&self.0).flatten()
    }

    /// As a program is started with.
    pub fn environment(&self, limits: environment::Limits) -> Result<Environment, EnvironmentError> {
        Environment::received(self.iter(), limits)
    }
}

fn end_request(id: u16, exit: u32, ending: ProtocolStatus, out: &mut Vec<u8>) {
    let [a, b, c, d] = exit.to_be_bytes();
    out.extend(Header::new(Kind::EndRequest, id, 8).to_bytes());
    out.extend([a, b, c, d, ending.number(), 0, 0, 0]);
}

impl fmt::Display for ApplicationError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            ApplicationError::Version(error) => error.fmt(out),
            ApplicationError::Foreign(kind) => write!(out, "the server sent {kind}, which no server sends"),
            ApplicationError::Id(kind, id) => write!(out, "{kind} with the request id {id}"),
            ApplicationError::Length(kind, len) => write!(out, "{kind} of {len} bytes"),
            ApplicationError::BeginTwice(id) => write!(out, "request {id} begins before it has ended"),
            ApplicationError::Order(kind, id) => write!(out, "{kind} of request {id} out of order"),
            ApplicationError::ParametersTooLarge => out.write_str("the parameters are too large"),
            ApplicationError::Pairs(error) => error.fmt(out),
            ApplicationError::CutRecord => out.write_str("the server closed the connection within a record"),
        }
    }
}

impl std::error::Error for ApplicationError {}
