//! The content of the streams that wait, as far as it is in memory and windows allow.

use taipan_h2::error::ErrorCode;
use taipan_h2::server::{EndStream, StreamId};

use super::gathered::space;
use super::outgoing::Next;
use super::{Filled, Http2};

impl Http2 {
    /// Appends content of streams, in the order of their priorities, as far as it is in memory and windows allow.
    #[inline]
    pub(super) fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        if self.streams.is_empty() {
            return Filled::All;
        }
        loop {
            let space = space(out);
            match self.frames.next_stream() {
                None => return Filled::All,
                Some(_) if space == 0 => return Filled::Full,
                Some(stream) => self.fill_from(stream, space, out),
            }
        }
    }

    fn fill_from(&mut self, stream: StreamId, limit: usize, out: &mut Vec<u8>) {
        let Some(waiting) = self.streams.get_mut(&stream) else {
            return self.frames.set_ready(stream, false);
        };
        let Some(outgoing) = &mut waiting.outgoing else { return self.frames.set_ready(stream, false) };
        if let Next::Later(_) = outgoing.next() {
            return self.wait_for_content(stream);
        }
        let ends = outgoing.ends();
        let limit = limit.min(outgoing.allowed());
        let wanted = usize::try_from(outgoing.left()).unwrap_or(usize::MAX);
        let mut filled = Ok(());
        let sent = self.frames.data_from(stream, wanted, EndStream::when(ends), out, |out, allowed| {
            filled = outgoing.fill(allowed.min(limit), out);
        });
        if let Some(task) = &waiting.task {
            task.deadline.moved(sent as u64);
        }
        if let Err(why) = filled {
            self.frames.reset(stream, ErrorCode::INTERNAL_ERROR, out);
            return self.end(stream, why);
        }
        match outgoing.next() {
            Next::Content => {}
            Next::End if ends => self.finish(stream),
            Next::End | Next::Chunk | Next::Disk | Next::Later(_) => self.wait_for_content(stream),
        }
    }

    /// The stream's task has to make more content.
    fn wait_for_content(&mut self, stream: StreamId) {
        self.frames.set_ready(stream, false);
        if let Some(waker) = self.streams.get_mut(&stream).and_then(|waiting| waiting.waker.take()) {
            waker.wake();
        }
    }

    /// The last bytes of a response are in the output.
    pub(super) fn finish(&mut self, stream: StreamId) {
        let Some(waiting) = self.streams.remove(&stream) else { return };
        self.finished.extend(waiting.outgoing);
        if let Some(waker) = waiting.waker {
            waker.wake();
        }
    }
}
