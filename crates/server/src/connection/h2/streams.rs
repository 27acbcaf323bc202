//! What the tasks of the connection and of its streams ask of it: to take a stream, the body of its request, and the
//! content of its response.

use taipan_h2::error::ErrorCode;
use taipan_h2::response::{write_fields, write_head};
use taipan_h2::server::{EndStream, StreamId};
use taipan_http::head::Field;
use taipan_http::status::Status;
use taipan_http::trailers::Trailers;

use super::gathered::space;
use super::incoming::{Incoming, Reader};
use super::outgoing::Outgoing;
use super::{Http2, Start, State, Stream, TaskHandle, block};
use crate::log::EndReason;

impl Http2 {
    pub fn incoming(&mut self, stream: StreamId) -> Option<&mut Incoming> {
        self.streams.get_mut(&stream).map(|stream| &mut stream.incoming)
    }

    /// The consumer of a request's body has taken these bytes.
    pub fn consumed(&mut self, stream: StreamId, bytes: usize) {
        self.frames.consumed(stream, bytes as u32, &mut self.out);
    }

    /// Sends 100 (Continue).
    pub fn send_continue(&mut self, stream: StreamId) {
        self.frames.headers(stream, block::CONTINUE, EndStream::Unset, &mut self.out);
    }

    /// Sends an interim response ahead of the response. A client that takes nothing gets no more of them.
    pub fn send_interim(&mut self, stream: StreamId, status: Status, fields: &[Field<'_>]) {
        if space(&self.out) == 0 {
            return;
        }
        let mut block = Vec::new();
        write_head(status.code(), fields.iter().map(|field| (field.name, field.value)), &mut block);
        self.frames.headers(stream, &block, EndStream::Unset, &mut self.out);
    }

    /// The client sends no more. A request that has no end gets no response.
    pub fn on_end_of_input(&mut self) {
        let is_cut = |stream: &Stream| !stream.incoming.is_ended && stream.incoming.reader != Reader::Gone;
        let cut = self.streams.iter().filter(|(_, stream)| is_cut(stream)).map(|(id, _)| *id);
        for stream in cut.collect::<Vec<_>>() {
            self.abort(stream, ErrorCode::CANCEL, EndReason::ClientClosed);
        }
        self.state = State::Ending;
    }

    /// Whether a stream has content that the client's windows allow.
    pub fn has_content(&self) -> bool {
        let has_content = |stream: &Stream| stream.outgoing.as_ref().is_some_and(|out| out.left() > 0);
        self.streams.iter().any(|(id, stream)| has_content(stream) && self.frames.sendable(*id) > 0)
    }

    /// All that the client can take has been sent: the tasks of streams with more read ahead.
    pub fn on_client_behind(&mut self) {
        for stream in self.streams.values_mut() {
            if stream.outgoing.as_mut().is_some_and(Outgoing::fall_behind)
                && let Some(waker) = stream.waker.take()
            {
                waker.wake();
            }
        }
    }

    /// Whether a stream waits for more of the body of its request.
    pub fn waits_for_body(&self) -> bool {
        self.streams.values().any(|stream| stream.incoming.reader == Reader::Waiting)
    }

    /// Takes the streams that are to get a task.
    pub fn take_unstarted(&mut self) -> Vec<StreamId> {
        let mut unstarted = std::mem::take(&mut self.unstarted);
        unstarted.retain(|stream| self.streams.contains_key(stream));
        unstarted
    }

    /// A stream has a task.
    pub fn on_started(&mut self, stream: StreamId, task: TaskHandle) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.task = Some(task);
        }
    }

    /// Where the task of a stream begins, once. `None`: the stream has ended before.
    pub fn take_start(&mut self, stream: StreamId) -> Option<Start> {
        self.streams.get_mut(&stream)?.start.take()
    }

    /// Ends the streams whose tasks have panicked.
    pub fn abort_panicked(&mut self) {
        let is_over = |stream: &Stream| stream.task.as_ref().is_some_and(|task| task.abort.is_finished());
        let over = self.streams.iter().filter(|(_, stream)| is_over(stream)).map(|(id, _)| *id);
        for stream in over.collect::<Vec<_>>() {
            self.abort(stream, ErrorCode::INTERNAL_ERROR, EndReason::Panicked);
        }
    }

    /// Resets a stream.
    pub fn abort(&mut self, stream: StreamId, code: ErrorCode, why: EndReason) {
        self.frames.reset(stream, code, &mut self.out);
        self.end(stream, why);
    }

    /// Nothing reads the body of this request any more.
    pub fn abandon_body(&mut self, stream: StreamId) {
        let Some(incoming) = self.incoming(stream) else { return };
        let dropped = incoming.abandon();
        if dropped > 0 {
            self.consumed(stream, dropped);
        }
    }

    /// As `resume`, if the response has limits. `false`: it has none.
    pub fn resume_throttled(&mut self, stream: StreamId) -> bool {
        let is_throttled = self.outgoing(stream).is_some_and(|outgoing| outgoing.is_throttled());
        if is_throttled {
            self.resume(stream);
        }
        is_throttled
    }

    /// The limits of a response grant more.
    pub fn resume(&mut self, stream: StreamId) {
        self.frames.set_ready(stream, true);
    }

    /// Adds a chunk that the stream's task has made. `None`: it has made all.
    pub fn put(&mut self, stream: StreamId, chunk: Option<Vec<u8>>) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        match chunk {
            Some(chunk) => outgoing.put(chunk),
            None => outgoing.end_stream(),
        }
        self.on_content(stream);
    }

    /// The upstream of a tunnel sends no more, and all that it has sent is sent on. The client may go on.
    pub fn half_close(&mut self, stream: StreamId) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        outgoing.end_stream();
        self.frames.half_close(stream, &mut self.out);
    }

    /// The stream's task has made all, and these fields are behind it. All content before them has been sent.
    pub fn put_trailers(&mut self, stream: StreamId, trailers: &Trailers) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        outgoing.end_stream();
        let mut block = Vec::new();
        let fields = trailers.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
        write_fields(fields, &mut block);
        self.frames.headers(stream, &block, EndStream::Set, &mut self.out);
        self.finish(stream);
    }

    /// Notes why a whole response is what it is, for the log.
    pub fn note_reason(&mut self, stream: StreamId, why: EndReason) {
        if let Some(outgoing) = self.outgoing(stream) {
            outgoing.note_reason(why);
        }
    }

    /// Adds bytes of a file that the stream's task has read.
    pub fn put_from_disk(&mut self, stream: StreamId, bytes: Vec<u8>) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        outgoing.put_from_disk(bytes);
        self.on_content(stream);
    }

    fn outgoing(&mut self, stream: StreamId) -> Option<&mut Outgoing> {
        self.streams.get_mut(&stream).and_then(|stream| stream.outgoing.as_mut())
    }

    fn on_content(&mut self, stream: StreamId) {
        let Some(outgoing) = self.outgoing(stream) else { return };
        let is_ready = outgoing.left() > 0;
        if !is_ready && outgoing.ends() {
            // No window is needed for an empty DATA frame.
            self.frames.data(stream, &[], EndStream::Set, &mut self.out);
            return self.finish(stream);
        }
        self.frames.set_ready(stream, is_ready);
    }
}
