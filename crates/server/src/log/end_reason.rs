//! Why a request or its response ended early, for the access log.

use std::{io, thread};

use taipan_h2::fields::Malformed;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The client closed, or the connection failed.
    ClientClosed,
    /// The client was too slow with its request.
    RequestTooSlow,
    /// The client took the response too slowly.
    ClientTooSlow,
    /// Its connection was closed for another one.
    Evicted,
    /// An administrator has ended it.
    Disconnected,
    /// The session has encrypted as much as its keys may.
    KeyUsedUp,
    /// The client has reset its HTTP/2 stream.
    StreamReset,
    MalformedFrames,
    MalformedHead(Malformed),
    TooManyStreams,
    FileChanged,
    /// A disk failed, or did not respond in time.
    Unreadable,
    /// The content could not be inflated, or listed.
    NotMade,
    ScriptEnded,
    ApplicationEnded,
    /// A part of a page has failed.
    NotIncluded,
    /// The parts of a page exceed their limit.
    TooMuchIncluded,
    UpgradedIdle,
    /// Neither side has sent anything on an HTTP/2 stream on which both send by turns.
    StreamIdle,
    NoPong,
    /// Its connection cannot have a task.
    OutOfMemory,
    Panicked,
    Stopped,
}

impl EndReason {
    /// Of a request or a response that is dropped before its end.
    pub fn dropped() -> EndReason {
        if thread::panicking() { EndReason::Panicked } else { EndReason::Stopped }
    }

    /// Of a response whose stream has failed, or the disk of its file.
    pub fn of(error: &io::Error) -> EndReason {
        match error.raw_os_error() {
            Some(libc::EIO | libc::ESTALE) => EndReason::Unreadable,
            Some(libc::EKEYEXPIRED) => EndReason::KeyUsedUp,
            _ => EndReason::ClientClosed,
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            EndReason::ClientClosed => "client closed",
            EndReason::RequestTooSlow => "request too slow",
            EndReason::ClientTooSlow => "client too slow",
            EndReason::Evicted => "too slow while others waited",
            EndReason::Disconnected => "disconnected by an administrator",
            EndReason::KeyUsedUp => "a key of TLS may encrypt no more",
            EndReason::StreamReset => "stream reset by the client",
            EndReason::MalformedFrames => "the client sent malformed frames",
            EndReason::MalformedHead(error) => error.sentence(),
            EndReason::TooManyStreams => "too many streams wait",
            EndReason::FileChanged => "file changed while it was sent",
            EndReason::Unreadable => "content could not be read",
            EndReason::NotMade => "content could not be made",
            EndReason::ScriptEnded => "script ended early",
            EndReason::ApplicationEnded => "application ended early",
            EndReason::NotIncluded => "a part could not be included",
            EndReason::TooMuchIncluded => "more than include_bytes was included",
            EndReason::UpgradedIdle => "upgraded connection idle",
            EndReason::StreamIdle => "stream idle",
            EndReason::NoPong => "client does not answer a ping",
            EndReason::OutOfMemory => "server out of memory",
            EndReason::Panicked => "the response failed",
            EndReason::Stopped => "server stopped",
        }
    }
}
