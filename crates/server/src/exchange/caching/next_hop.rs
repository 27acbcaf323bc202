//! What a request is sent to where no stored response may be used: the upstream of a route, or the server of a URL.

use std::rc::Rc;

use ::script::environment::Additions;

use super::super::other_server::OtherServer;
use super::super::{Exchange, Responder};
use crate::log::upstream::UpstreamLog;
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::response::Response;
use crate::upstream::{self, Form, ForwardedRequest, Handler, Outcome};

#[derive(Clone, Copy)]
pub enum NextHop<'h> {
    /// The upstream of a route.
    Upstream(&'h Handler),
    /// The server of a URL.
    Server(&'h OtherServer),
}

/// A request, and its next hop.
#[derive(Clone, Copy)]
pub struct Forward<'f> {
    pub request: Request<'f>,
    pub to: NextHop<'f>,
}

/// The next hop of a request in the background.
pub enum OwnedNextHop {
    Upstream(Handler),
    Server(OtherServer),
}

impl NextHop<'_> {
    /// Asks for a response that may be stored, and takes the body for it. `variables`: those that authorizers have set.
    pub async fn ask(
        self,
        responder: &Responder,
        request: Request<'_>,
        variables: &Additions,
        body: &mut RequestBody,
        log: &Rc<UpstreamLog>,
    ) -> Outcome {
        match self {
            NextHop::Upstream(handler) => {
                let body = std::mem::replace(body, RequestBody::None);
                let forwarded = ForwardedRequest { request, handler, variables, body, log, sent: None };
                upstream::forward(&responder.upstreams, forwarded).await
            }
            NextHop::Server(server) => {
                responder.ask_other_server(request, body, server, Form::Unrendered, log).await
            }
        }
    }

    pub fn to_owned(self) -> OwnedNextHop {
        match self {
            NextHop::Upstream(handler) => OwnedNextHop::Upstream(handler.clone()),
            NextHop::Server(server) => OwnedNextHop::Server(server.clone()),
        }
    }
}

impl OwnedNextHop {
    pub const fn borrowed(&self) -> NextHop<'_> {
        match self {
            OwnedNextHop::Upstream(handler) => NextHop::Upstream(handler),
            OwnedNextHop::Server(server) => NextHop::Server(server),
        }
    }
}

impl Exchange<'_> {
    /// The response to a request that the cache has no part in.
    pub(super) async fn pass_on(&mut self, Forward { request, to }: Forward<'_>) -> Response {
        match to {
            NextHop::Upstream(handler) => self.forward_to(request, handler).await,
            NextHop::Server(server) => {
                let outcome = self.send_to_other_server(request, server, Form::Response).await;
                self.of_other_server(outcome)
            }
        }
    }

    /// Asks for a response that may be stored.
    pub(super) async fn ask(&mut self, Forward { request, to }: Forward<'_>) -> Outcome {
        let log = self.upstream.get_or_insert_default().clone();
        to.ask(self.responder, request, &self.grants.variables, &mut self.body, &log).await
    }

    /// The response to an outcome that has none to be stored.
    pub(super) async fn on_other_outcome(
        &mut self,
        Forward { request, to }: Forward<'_>,
        outcome: Outcome,
    ) -> Response {
        match to {
            NextHop::Upstream(handler) => self.on_outcome(request, handler, outcome).await,
            NextHop::Server(_) => self.of_other_server(outcome),
        }
    }
}
