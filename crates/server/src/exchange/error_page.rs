//! Statuses with the error page of their route, or else with the built-in one.

use std::rc::Rc;

use site::decide::{self, Decision};
use site::model::Route;
use site::plan::FilesPlan;
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Exchange;
use super::fast::Stop;
use crate::content::{copies, file, fixed};
use crate::files::{Entry, Probe};
use crate::response::Response;

impl<'a> Exchange<'a> {
    pub(super) async fn status(&self, route: &Route, status: Status) -> Response {
        self.reject(route, status, None).await
    }

    /// As `status`, unless the error page has to wait for the disk.
    pub(super) fn status_fast(&self, route: &Route, status: Status) -> Result<Response, Stop> {
        let built_in = || fixed::status(self.services, Some(route), status);
        let Some((path, planned)) = self.error_page(route, status) else { return Ok(built_in()) };
        match self.probe(path, &planned) {
            Probe::Hit(entry) => Ok(self.file(route, status, path, &entry)),
            Probe::WouldWait(_) => Err(Stop::WAIT),
            Probe::Failed(_) => Ok(built_in()),
        }
    }

    /// The file at `path` as the page of an error.
    fn file(&self, route: &Route, status: Status, path: &SafePath<'_>, entry: &Rc<Entry>) -> Response {
        let entry = entry.select(self.head);
        let chosen = match decide::whole(self.head, &entry.resource) {
            Some(Decision::Full(chosen)) => chosen,
            Some(Decision::Make(coding, meanwhile)) => {
                copies::make(&self.responder.files, self.key, path, entry, coding);
                meanwhile.unwrap_or(0)
            }
            Some(_) => 0,
            None => return fixed::status(self.services, Some(route), status),
        };
        let needs = &self.responder.needs;
        if (needs.rules || needs.authorizers)
            && self.check_served(path, entry, &Decision::Full(chosen)).is_err()
        {
            return fixed::status(self.services, Some(route), status);
        }
        file::error_page(self.services, route, status, entry, chosen)
    }

    /// As `status`, with the rule that the request has broken.
    pub(super) async fn reject(
        &self,
        route: &Route,
        status: Status,
        rule: Option<&'static Rule>,
    ) -> Response {
        if let Some((path, planned)) = self.error_page(route, status)
            && let Ok(entry) = self.find(path, &planned).await
        {
            let response = self.file(route, status, path, &entry);
            return Response { broken_rule: rule, ..response };
        }
        fixed::rejection(self.services, Some(route), status, rule)
    }

    fn error_page<'r>(
        &self,
        route: &'r Route,
        status: Status,
    ) -> Option<(&'r SafePath<'static>, FilesPlan<'a, 'r>)> {
        let (_, path) = route.error_pages.iter().find(|(of, _)| *of == status)?;
        if !self.may_know(path) {
            return None;
        }
        Some((path, self.plan(path.clone()).files()?))
    }
}
