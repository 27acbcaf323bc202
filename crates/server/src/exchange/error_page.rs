//! Statuses with the error page of their route, or else with the built-in one.

use site::model::Route;
use site::plan::FilesPlan;
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Exchange;
use crate::content::{file, fixed};
use crate::files::Probe;
use crate::response::Response;

impl<'a> Exchange<'a> {
    pub(super) async fn status(&self, route: &Route, status: Status) -> Response {
        self.reject(route, status, None).await
    }

    /// As `status`. `None`: the error page has to wait for the disk.
    pub(super) fn status_fast(&self, route: &Route, status: Status) -> Option<Response> {
        let lookup = self.error_page(route, status).map(|(path, planned)| self.probe(path, &planned));
        match lookup {
            Some(Probe::Hit(entry)) => Some(file::error_page(self.services, route, status, &entry)),
            Some(Probe::WouldWait(_)) => None,
            Some(Probe::Failed(_)) | None => Some(fixed::status(self.services, Some(route), status)),
        }
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
            let response = file::error_page(self.services, route, status, &entry);
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
        Some((path, self.plan(path.clone()).files()?))
    }
}
