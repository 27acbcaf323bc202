//! The response to an immediate request: one that the fast path has sent to an application.

use std::future::poll_fn;
use std::task::{Context, Poll};

use taipan_http::head::FieldStore;

use super::{Task, Waited};
use crate::connection::Phase;
use crate::connection::h1::Reading;
use crate::connection::output::Output;
use crate::connection::transport::Interruption;
use crate::upstream::immediate::{RoutedResponse, SentRequest};

/// What an application has sent by the time that it was asked.
enum ReceivedResponse {
    /// A whole response. It is in the output.
    Whole,
    /// The driver goes on with the request, and notices whether the client has left. That is too early to ask before: a
    /// client that has closed its side may still read.
    NotWhole,
}

impl Task {
    /// Awaits the response of an application to the current request.
    pub(super) async fn receive(
        &mut self,
        sent: SentRequest,
        output: &mut Output,
    ) -> Result<(), Interruption> {
        self.waited = Waited::Yes;
        self.transport.begin_without_body();
        match poll_fn(|cx| self.poll_receive(cx, &sent, output)).await? {
            ReceivedResponse::Whole => Ok(()),
            // Boxed: it is rare, and would be most of this future, which every request moves.
            ReceivedResponse::NotWhole => Box::pin(self.respond(Some(sent), output)).await,
        }
    }

    /// Polls the application, and puts its response into `output`.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        sent: &SentRequest,
        output: &mut Output,
    ) -> Poll<Result<ReceivedResponse, Interruption>> {
        match sent.poll_receive(cx) {
            Poll::Ready(Some(response)) => {
                return Poll::Ready(self.complete(response, output).map(|()| ReceivedResponse::Whole));
            }
            Poll::Ready(None) => return Poll::Ready(Ok(ReceivedResponse::NotWhole)),
            Poll::Pending => {}
        }
        match self.transport.poll_events_in(Phase::Receive, cx) {
            Ok(()) => Poll::Pending,
            Err(Interruption::TimedOut) => Poll::Ready(Ok(ReceivedResponse::NotWhole)),
            Err(broken) => {
                self.count_abandoned(broken);
                Poll::Ready(Err(broken))
            }
        }
    }

    /// Puts the response of an application that has come at once into `output`.
    fn complete(&mut self, response: RoutedResponse, output: &mut Output) -> Result<(), Interruption> {
        let current = self.http.current().ok_or(Interruption::Failed)?;
        {
            // Collected, it would be moved with all of its space.
            let mut fields = FieldStore::new();
            fields.extend(current.fields());
            let head = current.head(&fields).ok_or(Interruption::Failed)?;
            let response = self.connections.responder.complete(&head, response);
            self.http.put_response(&self.connections, &head, response, Reading::Complete, output);
        }
        drop(current);
        self.http.finish_current();
        Ok(())
    }
}
