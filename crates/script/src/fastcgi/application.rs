//! The application's side of a FastCGI connection: parses requests and writes responses. It appends the responses of
//! the protocol itself, to queries and rejected requests, to the output at once. Knows nothing of the content of a
//! response.

use std::fmt;

use super::record::{self, Decoder, Header, Kind, WrongVersion};
use super::{
    MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES, Persistence, ProtocolStatus, RequestId, Role, persistence,
    stream,
};
use crate::pairs::{self, PairCut};

/// Bytes of FCGI_BEGIN_REQUEST.
const BEGIN_LEN: u16 = 8;

/// The largest FCGI_GET_VALUES, in bytes. There are three names to query.
const MAX_QUERY: u16 = 1024;

/// Limits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all parameters of a request.
    pub parameters: usize,
    /// Concurrent requests on a connection; 1 means no multiplexing.
    pub requests: u16,
    /// Concurrent connections of the whole application, as the response to FCGI_GET_VALUES.
    pub connections: u16,
}

/// One connection from a server.
#[derive(Debug)]
pub struct Application {
    decoder: Decoder,
    limits: Limits,
    requests: Vec<Request>,
    /// FCGI_KEEP_CONN of the latest request.
    persistence: Persistence,
    /// The content of a record that is parsed as a whole.
    content: Vec<u8>,
    error: Option<ApplicationError>,
}

/// What the server has sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The input is consumed.
    NeedMore,
    /// A request with all its parameters. Its body follows.
    Request(RequestId, Role, Parameters),
    /// Part of the body, never empty.
    Stdin(RequestId, &'a [u8]),
    EndStdin(RequestId),
    /// The server does not need the response. The caller still has to call `finish`.
    Abort(RequestId),
    /// The output has grown and must be sent.
    OutputAppended,
}

/// The complete and valid parameters of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters(Vec<u8>);

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApplicationError {
    Version(WrongVersion),
    /// A type that servers do not send.
    UnexpectedType(Kind),
    /// A management record with the id of a request, or another record with id 0.
    Id(Kind, u16),
    /// A length that is not valid for this type of record.
    Length(Kind, u16),
    /// FCGI_BEGIN_REQUEST of a request that has not ended.
    BeginTwice(u16),
    /// A record of another phase of its request.
    OutOfOrder(Kind, u16),
    ParametersTooLarge,
    Pairs(PairCut),
}

#[derive(Debug)]
struct Request {
    id: u16,
    role: Role,
    phase: Phase,
    parameters: Vec<u8>,
}

/// What the server sends next for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Parameters,
    Stdin,
    /// FCGI_ABORT_REQUEST, if anything.
    Response,
    Aborted,
}

impl Default for Limits {
    /// 128 KiB of parameters, one request and one connection.
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
            persistence: Persistence::KeepAlive,
            content: Vec::new(),
            error: None,
        }
    }

    /// Parses up to the next event and returns it with the number of consumed bytes. The next call takes the rest of
    /// the input. The caller repeats it until `NeedMore`.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Event<'a>), ApplicationError> {
        match self.error {
            Some(error) => Err(error),
            None => self.read(input, out).inspect_err(|error| self.error = Some(*error)),
        }
    }

    /// Appends part of the response.
    pub fn stdout(&self, id: RequestId, bytes: &[u8], out: &mut Vec<u8>) {
        stream::write(Kind::Stdout, id, bytes, out);
    }

    /// Appends text for the server's log.
    pub fn stderr(&self, id: RequestId, bytes: &[u8], out: &mut Vec<u8>) {
        stream::write(Kind::Stderr, id, bytes, out);
    }

    /// Appends the end of a request. The caller sends nothing more of it, and its further records are skipped.
    /// `app_status` is the exit status of a CGI program.
    pub fn finish(&mut self, id: RequestId, app_status: u32, out: &mut Vec<u8>) {
        self.requests.retain(|request| request.id != id.0);
        stream::end(Kind::Stdout, id, out);
        end_request(id.0, app_status, ProtocolStatus::Complete, out);
    }

    /// Whether the connection stays open after the output is sent.
    pub fn persistence(&self) -> Persistence {
        if self.requests.is_empty() { self.persistence } else { Persistence::KeepAlive }
    }

    /// Requests that have not been finished.
    pub fn running(&self) -> usize {
        self.requests.len()
    }

    fn read<'a>(
        &mut self,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Event<'a>), ApplicationError> {
        let mut used = 0;
        // Bounded: each record has a header.
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

    /// Checks that the server may send this record now. Records of inactive requests are skipped (§3.3): the server
    /// may have sent them before it received the end.
    fn start(&mut self, header: Header) -> Result<(), ApplicationError> {
        use ApplicationError::{BeginTwice, Id, Length, OutOfOrder, UnexpectedType};
        let Header { kind, id, content, .. } = header;
        self.content.clear();
        match (kind, self.phase(id)) {
            (Kind::BeginRequest | Kind::Params | Kind::Stdin | Kind::AbortRequest, _) if id == 0 => {
                Err(Id(kind, id))
            }
            (Kind::BeginRequest, Some(_)) => Err(BeginTwice(id)),
            (Kind::BeginRequest, None) if content != BEGIN_LEN => Err(Length(kind, content)),
            (Kind::AbortRequest, _) if content != 0 => Err(Length(kind, content)),
            (Kind::Params, Some(phase)) if phase == Phase::Stdin || phase == Phase::Response => {
                Err(OutOfOrder(kind, id))
            }
            (Kind::Stdin, Some(Phase::Parameters | Phase::Response)) => Err(OutOfOrder(kind, id)),
            (Kind::BeginRequest | Kind::Params | Kind::Stdin | Kind::AbortRequest, _) => Ok(()),
            (Kind::GetValues | Kind::Other(_), _) if id != 0 => Err(Id(kind, id)),
            (Kind::GetValues, _) if content > MAX_QUERY => Err(Length(kind, content)),
            (Kind::GetValues | Kind::Other(_), _) => Ok(()),
            _ => Err(UnexpectedType(kind)),
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
            // `start` has checked the length.
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
                self.set(id, Phase::Response);
                Ok(Some(Event::EndStdin(RequestId(id))))
            }
            // The caller does not know this request yet, so it cannot finish it.
            (Kind::AbortRequest, Some(Phase::Parameters)) => {
                self.finish(RequestId(id), 0, out);
                Ok(Some(Event::OutputAppended))
            }
            (Kind::AbortRequest, Some(Phase::Stdin | Phase::Response)) => {
                self.set(id, Phase::Aborted);
                Ok(Some(Event::Abort(RequestId(id))))
            }
            (Kind::GetValues, _) => self.get_values(out).map(Some),
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
        let status = match Role::of(u16::from_be_bytes([role_high, role_low])) {
            None => ProtocolStatus::UnknownRole,
            Some(_) if !self.requests.is_empty() && self.limits.requests <= 1 => {
                ProtocolStatus::CannotMultiplex
            }
            Some(_) if self.requests.len() >= usize::from(self.limits.requests.max(1)) => {
                ProtocolStatus::Overloaded
            }
            Some(role) => {
                self.persistence = persistence(flags);
                self.requests.push(Request { id, role, phase: Phase::Parameters, parameters: Vec::new() });
                return None;
            }
        };
        if self.requests.is_empty() {
            self.persistence = persistence(flags);
        }
        end_request(id, 0, status, out);
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

    /// Appends the known variables of the query (§4.1), in its order.
    fn get_values(&self, out: &mut Vec<u8>) -> Result<Event<'static>, ApplicationError> {
        let mut result = Vec::new();
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
            pairs::encode(name, value.to_string().as_bytes(), &mut result);
        }
        out.extend(Header::new(Kind::GetValuesResult, 0, result.len() as u16).to_bytes());
        out.extend(result);
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
    /// Names and values, in the order of the request. A name may be there twice.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        // `Application` has checked that there are no errors.
        pairs::decode(&self.0).flatten()
    }
}

fn end_request(id: u16, app_status: u32, status: ProtocolStatus, out: &mut Vec<u8>) {
    let [a, b, c, d] = app_status.to_be_bytes();
    out.extend(Header::new(Kind::EndRequest, id, 8).to_bytes());
    out.extend([a, b, c, d, status.number(), 0, 0, 0]);
}

impl fmt::Display for ApplicationError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            ApplicationError::Version(error) => error.fmt(out),
            ApplicationError::UnexpectedType(kind) => {
                write!(out, "the server sent {kind}, which servers do not send")
            }
            ApplicationError::Id(kind, id) => write!(out, "{kind} with the request id {id}"),
            ApplicationError::Length(kind, len) => write!(out, "{kind} of {len} bytes"),
            ApplicationError::BeginTwice(id) => write!(out, "request {id} begins before it has ended"),
            ApplicationError::OutOfOrder(kind, id) => write!(out, "{kind} of request {id} out of order"),
            ApplicationError::ParametersTooLarge => out.write_str("the parameters are too large"),
            ApplicationError::Pairs(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for ApplicationError {}
