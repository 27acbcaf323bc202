//! What other origins learn: responses to preflights, and the fields for the origin that a request names. `site`
//! decides.

use site::cors::{self, Cors};
use site::model::Route;
use site::plan::Plan;
use taipan_http::head::Names;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Exchange;
use crate::response::Response;
use crate::response_head::HeadWriter;

impl<'a> Exchange<'a> {
    /// The response to a preflight. It precedes all rules of access, because browsers send no credentials with it.
    /// `None`: it is none, or the route leaves it to its script.
    #[cold]
    #[inline(never)]
    pub(super) fn preflight(&self, path: &SafePath<'_>) -> Option<Response> {
        if !cors::is_preflight(self.head) {
            return None;
        }
        let plan = self.plan(path.clone());
        let fallback = self.fallback(path, plan.route);
        let of_fallback = || self.with_cors(&fallback.as_ref()?.plan);
        let route = self.with_cors(&plan).or_else(of_fallback)?;
        let mut writer = HeadWriter::new(self.services, Some(route), Status::NO_CONTENT);
        for (name, value) in route.cors.as_ref()?.preflight(self.head) {
            writer = writer.field(name, value);
        }
        Some(Response::from_head(writer.finish()))
    }

    /// The first route with settings of those that a plan may lead to. A path may lead to a script of another route. Which
    /// one needs a disk, and only its fields count here.
    fn with_cors(&self, plan: &Plan<'a, '_>) -> Option<&'a Route> {
        let steps = plan.walk.iter().flat_map(|walk| &walk.steps).map(|step| self.route_at(step.route));
        [plan.route].into_iter().chain(steps).find(|route| route.cors.is_some())
    }

    /// The response with the fields for the origin that the request names, by the settings of its route.
    #[cold]
    #[inline(never)]
    pub(super) fn share(&self, cors: Option<&Cors>, response: Response) -> Response {
        match cors {
            Some(cors) if !response.head.has(cors::ALLOW_ORIGIN) => {
                response.with_fields(&cors.fields(self.head))
            }
            _ => response,
        }
    }

    /// The settings of the route that the path of the request leads to. `None`: it has none, or the path is not safe.
    #[cold]
    #[inline(never)]
    pub(super) fn cors_of_path(&self) -> Option<&'a Cors> {
        let path = SafePath::parse(self.head.target.path()?).ok()?;
        self.route(&path).cors.as_deref()
    }

    /// Whether the request may be one of another origin, to a site that allows some.
    #[inline]
    pub(super) fn names_origin(&self) -> bool {
        self.responder.needs.cors && self.head.names.contains(Names::ORIGIN)
    }
}
