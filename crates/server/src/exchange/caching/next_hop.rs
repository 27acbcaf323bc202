//! What a request is sent to where no stored response may be used: the upstream of a route, or the server of a URL.

use std::rc::Rc;

use ::script::environment::Additions;

use super::super::other_server::OtherServer;
use super::super::{Exchange, Responder};
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::response::Response;
use crate::upstream::{self, Form, Handler, Outcome};

#[derive(Clone, Copy)]
pub enum NextHop<'h> {
    /// The upstream of a route.
    Upstream(&'h Handler),
    /// The server of a URL.
    Server(&'h OtherServer),
}

/// The next hop of a request in the background.
pub enum OwnedNextHop {
    /// With the variables that authorizers have set.
    Upstream(Handler, Additions),
    Server(OtherServer),
}

impl OwnedNextHop {
    /// Asks for a response that may be stored. No log line names it.
    pub async fn ask(&self, responder: &Responder, request: Request<'_>) -> Outcome {
        let (mut body, log) = (RequestBody::None, Rc::default());
        match self {
            OwnedNextHop::Upstream(handler, variables) => {
                upstream::forward(&responder.upstreams, request, handler, variables, body, &log, None).await
            }
            OwnedNextHop::Server(server) => {
                responder.ask_other_server(request, &mut body, server, Form::Unrendered, &log).await
            }
        }
    }
}

impl Exchange<'_> {
    /// The response to a request that the cache has no part in.
    pub(super) async fn pass_on(&mut self, request: Request<'_>, to: NextHop<'_>) -> Response {
        match to {
            NextHop::Upstream(handler) => self.forward_to(request, handler).await,
            NextHop::Server(server) => {
                let outcome = self.send_to_other_server(request, server, Form::Response).await;
                self.of_other_server(outcome)
            }
        }
    }

    pub(super) fn owned_next_hop(&self, to: NextHop<'_>) -> OwnedNextHop {
        match to {
            NextHop::Upstream(handler) => OwnedNextHop::Upstream(handler.clone(), self.variables.clone()),
            NextHop::Server(server) => OwnedNextHop::Server(server.clone()),
        }
    }

    /// Asks for a response that may be stored.
    pub(super) async fn ask(&mut self, request: Request<'_>, to: NextHop<'_>) -> Outcome {
        match to {
            NextHop::Upstream(handler) => {
                let body = std::mem::replace(&mut self.body, RequestBody::None);
                let upstreams = self.responder.upstreams.clone();
                let log = self.upstream.get_or_insert_default().clone();
                upstream::forward(&upstreams, request, handler, &self.variables, body, &log, None).await
            }
            NextHop::Server(server) => self.send_to_other_server(request, server, Form::Unrendered).await,
        }
    }

    /// The response to an outcome that has none to be stored.
    pub(super) async fn on_other_outcome(
        &mut self,
        request: Request<'_>,
        to: NextHop<'_>,
        outcome: Outcome,
    ) -> Response {
        match to {
            NextHop::Upstream(handler) => self.on_outcome(request, handler, outcome).await,
            NextHop::Server(_) => self.of_other_server(outcome),
        }
    }
}
