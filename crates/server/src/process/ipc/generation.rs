//! Messages between the master and a generation, and from a generation to its successor.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use site::listener::Protocols;
use site::model::Level;
use site::named_files::FileId;

use super::{Decoder, Encoder, Message};
use crate::peer::{CompactPeer, Peer};

/// From the master to a generation.
pub enum MasterCommand {
    /// Accept no more, finish running requests, and end (SIGTERM).
    Leave,
    /// End (SIGINT).
    Stop,
    /// Pass idle connections to the successor through this channel, finish running requests, and end. `None`: the process
    /// had no free number for it.
    HandOver(Option<OwnedFd>),
    /// Write this sink to this log file, or to this socket of the log daemon, from now on.
    Log { sink: u32, file: OwnedFd },
    /// Write the statistics to this socket.
    Stats { form: Form, to: OwnedFd },
    /// Write the statistics to the error log.
    LogStats,
    /// Answer TLS-ALPN-01 challenges for the name by this certificate, in PEM with its key behind it, and then send
    /// `ChallengeSet`. Empty: answer them no more.
    Challenge { number: u32, name: Vec<u8>, pem: Vec<u8> },
    /// From now on, responses and bodies in progress have these rates. `follows`: there is another message with more.
    Rates { follows: bool, rates: Vec<Rates> },
    /// From now on, these files are never served. `follows`: as that of `Rates`.
    NamedFiles { follows: bool, files: Vec<FileId> },
    /// Remove the stored responses that match, and then send `Purged`. The text of a `Purge`.
    Purge { number: u32, purge: Vec<u8> },
    /// End the selected connections, and then send `Disconnected`. The text of a `Selection`.
    Disconnect { number: u32, selection: Vec<u8> },
    /// Show requests to the watcher at the other end of the socket. The text of a filter.
    Watch { filter: Vec<u8>, to: OwnedFd },
    /// Have this level of the error log for a time.
    Level { level: Level, time: Duration },
    /// The hosts in maintenance from now on. The text of a `Maintenance`. `done` is closed when all workers know them, or
    /// at once if the process had no free number for it.
    Maintenance { hosts: Vec<u8>, done: Option<OwnedFd> },
    /// Close this when all lines go to the logs that were sent before.
    LogsSent(OwnedFd),
    /// Answer `Alive` when every worker's loop has turned.
    Ping,
}

/// The rates of a limit, in bytes per second. `None`: it has no rate in this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Of the limit.
    pub identity: u64,
    pub download: Option<u64>,
    pub upload: Option<u64>,
}

/// The most files in one message.
pub const MAX_NAMED_FILES: usize = 1000;

impl Rates {
    /// The most of them in one message.
    pub const IN_MESSAGE: usize = 300;
}

/// How statistics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    Metrics(Syntax),
    /// For `taipan top`, with the requests of now.
    Live,
}

/// The text formats of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// That of Prometheus, version 0.0.4.
    Prometheus,
}

/// From a generation to the master.
#[derive(Debug)]
pub enum GenerationEvent {
    /// It accepts connections.
    Ready,
    /// It cannot serve: lines that say why.
    Failed(Vec<String>),
    /// The answer to `Ping`.
    Alive,
    /// It has received the `Challenge` with this number.
    ChallengeSet(u32),
    /// It cannot reach the log daemon, and awaits a `Log` for each sink that is written there.
    LostLogDaemon,
    /// It has received `HandOver`, and receives no more requests.
    Retired,
    /// It has carried out the `Purge` with this number, and removed so many responses. `failed`: files and folders that
    /// may still have some.
    Purged { number: u32, in_memory: u64, files: u64, failed: u64 },
    /// It has carried out the `Disconnect` with this number: so many connections end, and so many streams of other
    /// connections. `silent`: workers that do not respond.
    Disconnected { number: u32, connections: u64, streams: u64, silent: u32 },
    /// A user of the page asks for an act: the name, a newline, and the line of a request to the control socket. The
    /// response goes to the socket.
    Act { text: Vec<u8>, to: OwnedFd },
}

/// An idle connection, from a generation to its successor. The kind of this message is its version: the two
/// generations may be of different programs.
pub struct InheritedConnection {
    pub fd: OwnedFd,
    /// Of its listener.
    pub protocols: Protocols,
    /// The client that a PROXY header has named. `None`: the peer of the socket is the client.
    pub client: Option<Peer>,
    /// The address of the server that it has named.
    pub destination: Option<SocketAddr>,
    pub requests: u32,
}

/// A version with a client and the address that it connected to. Those before are still sent for other connections.
const INHERITED_DESTINED: u8 = 4;
/// A version with a client.
const INHERITED_PROXIED: u8 = 3;
const INHERITED_VERSION: u8 = 2;
/// A version without protocols.
const INHERITED_HTTP1: u8 = 1;

impl Message<'_> for MasterCommand {
    // A certificate and its key, or the names of hosts in maintenance.
    const MAX_BYTES: usize = 32 * 1024;

    fn encode(&self) -> Encoder<'_> {
        match self {
            MasterCommand::Leave => Encoder::new(b'L'),
            MasterCommand::Stop => Encoder::new(b'S'),
            MasterCommand::HandOver(successor) => successor.iter().fold(Encoder::new(b'H'), Encoder::fd),
            MasterCommand::Log { sink, file } => Encoder::new(b'F').u32(*sink).fd(file),
            MasterCommand::LogStats => Encoder::new(b'G'),
            MasterCommand::Stats { form: Form::Text, to } => Encoder::new(b'T').fd(to),
            MasterCommand::Stats { form: Form::Json, to } => Encoder::new(b'J').fd(to),
            MasterCommand::Stats { form: Form::Live, to } => Encoder::new(b'V').fd(to),
            MasterCommand::Stats { form: Form::Metrics(Syntax::OpenMetrics), to } => {
                Encoder::new(b'O').fd(to)
            }
            MasterCommand::Stats { form: Form::Metrics(Syntax::Prometheus), to } => Encoder::new(b'M').fd(to),
            MasterCommand::Challenge { number, name, pem } => {
                let head = Encoder::new(b'C').u32(*number).u32(name.len() as u32);
                head.bytes(name).bytes(pem)
            }
            MasterCommand::Rates { follows, rates } => {
                let head = Encoder::new(b'R').fact(*follows);
                rates.iter().fold(head, |message, Rates { identity, download, upload }| {
                    message.u64(*identity).u64(download.unwrap_or(0)).u64(upload.unwrap_or(0))
                })
            }
            MasterCommand::NamedFiles { follows, files } => {
                let head = Encoder::new(b'N').fact(*follows);
                files
                    .iter()
                    .fold(head, |message, (major, minor, inode)| message.u32(*major).u32(*minor).u64(*inode))
            }
            MasterCommand::Purge { number, purge } => Encoder::new(b'D').u32(*number).bytes(purge),
            MasterCommand::Disconnect { number, selection } => {
                Encoder::new(b'K').u32(*number).bytes(selection)
            }
            MasterCommand::Watch { filter, to } => Encoder::new(b'W').bytes(filter).fd(to),
            MasterCommand::Level { level, time } => Encoder::new(b'E').level(*level).time(*time),
            MasterCommand::Maintenance { hosts, done } => {
                done.iter().fold(Encoder::new(b'X').bytes(hosts), Encoder::fd)
            }
            MasterCommand::LogsSent(done) => Encoder::new(b'Q').fd(done),
            MasterCommand::Ping => Encoder::new(b'P'),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<MasterCommand> {
        Some(match kind {
            b'L' => MasterCommand::Leave,
            b'S' => MasterCommand::Stop,
            b'H' => MasterCommand::HandOver(fields.fd()),
            b'F' => MasterCommand::Log { sink: fields.u32()?, file: fields.fd()? },
            b'G' => MasterCommand::LogStats,
            b'T' => MasterCommand::Stats { form: Form::Text, to: fields.fd()? },
            b'J' => MasterCommand::Stats { form: Form::Json, to: fields.fd()? },
            b'V' => MasterCommand::Stats { form: Form::Live, to: fields.fd()? },
            b'O' => MasterCommand::Stats { form: Form::Metrics(Syntax::OpenMetrics), to: fields.fd()? },
            b'M' => MasterCommand::Stats { form: Form::Metrics(Syntax::Prometheus), to: fields.fd()? },
            b'C' => {
                let (number, length) = (fields.u32()?, fields.u32()?);
                let name = fields.bytes(length.try_into().ok()?)?.to_vec();
                MasterCommand::Challenge { number, name, pem: fields.rest().to_vec() }
            }
            b'R' => {
                let follows = fields.fact()?;
                let rate = |rate: u64| (rate > 0).then_some(rate);
                let mut rates = Vec::new();
                while let Some(identity) = fields.u64() {
                    let (download, upload) = (rate(fields.u64()?), rate(fields.u64()?));
                    rates.push(Rates { identity, download, upload });
                }
                MasterCommand::Rates { follows, rates }
            }
            b'N' => {
                let follows = fields.fact()?;
                let mut files = Vec::new();
                while let Some(major) = fields.u32() {
                    files.push((major, fields.u32()?, fields.u64()?));
                }
                MasterCommand::NamedFiles { follows, files }
            }
            b'D' => MasterCommand::Purge { number: fields.u32()?, purge: fields.rest().to_vec() },
            b'K' => MasterCommand::Disconnect { number: fields.u32()?, selection: fields.rest().to_vec() },
            b'W' => MasterCommand::Watch { to: fields.fd()?, filter: fields.rest().to_vec() },
            b'E' => MasterCommand::Level { level: fields.level()?, time: fields.time()? },
            b'X' => MasterCommand::Maintenance { done: fields.fd(), hosts: fields.rest().to_vec() },
            b'Q' => MasterCommand::LogsSent(fields.fd()?),
            b'P' => MasterCommand::Ping,
            _ => return None,
        })
    }
}

impl Message<'_> for GenerationEvent {
    // A configuration can have many errors.
    const MAX_BYTES: usize = 32 * 1024;

    fn encode(&self) -> Encoder<'_> {
        match self {
            GenerationEvent::Ready => Encoder::new(b'R'),
            GenerationEvent::Failed(lines) => {
                let text = lines.join("\n").into_bytes();
                Encoder::new(b'F').bytes(&text[..text.len().min(Self::MAX_BYTES - 1)])
            }
            GenerationEvent::Alive => Encoder::new(b'A'),
            GenerationEvent::ChallengeSet(number) => Encoder::new(b'C').u32(*number),
            GenerationEvent::LostLogDaemon => Encoder::new(b'L'),
            GenerationEvent::Retired => Encoder::new(b'O'),
            GenerationEvent::Act { text, to } => Encoder::new(b'T').bytes(text).fd(to),
            GenerationEvent::Disconnected { number, connections, streams, silent } => {
                Encoder::new(b'K').u32(*number).u64(*connections).u64(*streams).u32(*silent)
            }
            GenerationEvent::Purged { number, in_memory, files, failed } => {
                Encoder::new(b'D').u32(*number).u64(*in_memory).u64(*files).u64(*failed)
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<GenerationEvent> {
        Some(match kind {
            b'R' => GenerationEvent::Ready,
            b'F' => {
                let text = String::from_utf8_lossy(fields.rest());
                GenerationEvent::Failed(text.split('\n').map(str::to_owned).collect())
            }
            b'A' => GenerationEvent::Alive,
            b'C' => GenerationEvent::ChallengeSet(fields.u32()?),
            b'L' => GenerationEvent::LostLogDaemon,
            b'O' => GenerationEvent::Retired,
            b'K' => GenerationEvent::Disconnected {
                number: fields.u32()?,
                connections: fields.u64()?,
                streams: fields.u64()?,
                silent: fields.u32()?,
            },
            b'T' => GenerationEvent::Act { to: fields.fd()?, text: fields.rest().to_vec() },
            b'D' => GenerationEvent::Purged {
                number: fields.u32()?,
                in_memory: fields.u64()?,
                files: fields.u64()?,
                failed: fields.u64()?,
            },
            _ => return None,
        })
    }
}

impl Message<'_> for InheritedConnection {
    fn encode(&self) -> Encoder<'_> {
        let Protocols { tls, http2, proxy } = self.protocols;
        let protocols = u32::from(tls) | u32::from(http2) << 1 | u32::from(proxy) << 2;
        let message = |kind| Encoder::new(kind).u32(self.requests).u32(protocols).fd(&self.fd);
        let compact = |peer: Peer| CompactPeer::from(peer).to_bytes();
        match (self.client, self.destination) {
            (Some(client), Some(destination)) => {
                let addresses = [compact(client), compact(Peer::Ip(destination))];
                message(INHERITED_DESTINED).bytes(&addresses[0]).bytes(&addresses[1])
            }
            (Some(client), None) => message(INHERITED_PROXIED).bytes(&compact(client)),
            (None, _) => message(INHERITED_VERSION),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<InheritedConnection> {
        let requests = fields.u32()?;
        let protocols = match kind {
            INHERITED_VERSION | INHERITED_PROXIED | INHERITED_DESTINED => fields.u32()?,
            INHERITED_HTTP1 => 0,
            _ => return None,
        };
        let protocols =
            Protocols { tls: protocols & 1 != 0, http2: protocols & 2 != 0, proxy: protocols & 4 != 0 };
        let mut peer = || -> Option<Peer> {
            let bytes = fields.bytes(CompactPeer::BYTES)?.try_into().ok()?;
            Some(CompactPeer::from_bytes(bytes)?.into())
        };
        let client = match kind {
            INHERITED_PROXIED | INHERITED_DESTINED => Some(peer()?),
            _ => None,
        };
        let destination = match kind {
            INHERITED_DESTINED => match peer()? {
                Peer::Ip(address) => Some(address),
                Peer::Unix | Peer::Unknown => return None,
            },
            _ => None,
        };
        Some(InheritedConnection { fd: fields.fd()?, protocols, client, destination, requests })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::process::ipc::tests::{check_codec, check_received};

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let fd = || OwnedFd::from(File::open("/dev/null").expect("it is there"));
        check_codec([
            MasterCommand::Leave,
            MasterCommand::Stop,
            MasterCommand::Log { sink: 0x0102_0304, file: fd() },
            MasterCommand::LogsSent(fd()),
            MasterCommand::LogStats,
            MasterCommand::Stats { form: Form::Text, to: fd() },
            MasterCommand::Stats { form: Form::Json, to: fd() },
            MasterCommand::Stats { form: Form::Live, to: fd() },
            MasterCommand::Stats { form: Form::Metrics(Syntax::OpenMetrics), to: fd() },
            MasterCommand::Stats { form: Form::Metrics(Syntax::Prometheus), to: fd() },
            MasterCommand::Challenge { number: 7, name: b"a.example".to_vec(), pem: b"pem".to_vec() },
            MasterCommand::Ping,
            MasterCommand::Level { level: Level::Debug, time: Duration::from_secs(600) },
            MasterCommand::Disconnect { number: 7, selection: b"connection 1a2b".to_vec() },
            MasterCommand::Watch { filter: b"path=/x".to_vec(), to: fd() },
            MasterCommand::Purge { number: 7, purge: b"path - /x".to_vec() },
            MasterCommand::Rates { follows: false, rates: Vec::new() },
            MasterCommand::NamedFiles { follows: false, files: Vec::new() },
            MasterCommand::NamedFiles { follows: true, files: vec![(8, 1, u64::MAX); MAX_NAMED_FILES] },
            MasterCommand::Rates {
                follows: true,
                rates: vec![Rates { identity: u64::MAX, download: Some(1), upload: None }; Rates::IN_MESSAGE],
            },
        ]);
        check_received([
            MasterCommand::HandOver(Some(fd())),
            MasterCommand::Maintenance { hosts: b"60 a.example\n".to_vec(), done: Some(fd()) },
        ]);
        let lines = |lines: &[&str]| GenerationEvent::Failed(lines.iter().map(|&l| l.to_owned()).collect());
        check_codec([
            GenerationEvent::Ready,
            lines(&["one line"]),
            lines(&["two", "lines"]),
            GenerationEvent::Alive,
            GenerationEvent::ChallengeSet(7),
            GenerationEvent::Retired,
            GenerationEvent::LostLogDaemon,
            GenerationEvent::Disconnected { number: 7, connections: 1, streams: 2, silent: 3 },
            GenerationEvent::Act { text: b"ann\nreload".to_vec(), to: fd() },
            GenerationEvent::Purged { number: 7, in_memory: 1, files: 0x0102_0304_0506_0708, failed: 2 },
        ]);
        let clients = ["192.0.2.1:80", "[2001:db8::1]:65535"].map(|text| text.parse().map(Peer::Ip).ok());
        let clients = || clients.into_iter().chain([None, Some(Peer::Unix), Some(Peer::Unknown)]);
        for [tls, http2, proxy] in
            [[false; 3], [true, false, false], [false, true, false], [true, false, true]]
        {
            let protocols = Protocols { tls, http2, proxy };
            for client in clients() {
                let destination = match client {
                    Some(Peer::Ip(_)) => "[2001:db8::2]:443".parse().ok(),
                    _ => None,
                };
                check_codec([0, 1, u32::MAX].map(|requests| InheritedConnection {
                    fd: fd(),
                    protocols,
                    client,
                    destination,
                    requests,
                }));
            }
        }
    }
}
