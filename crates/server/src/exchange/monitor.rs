//! Responses that show how the server does.

use site::model::Route;
use site::monitor::{Monitor, prefers_openmetrics};
use taipan_http::status::Status;

use super::Exchange;
use crate::content::fixed;
use crate::ipc::{Form, Syntax};
use crate::response::Response;

impl Exchange<'_> {
    pub(super) async fn monitor(&self, route: &Route, monitor: Monitor) -> Response {
        match monitor {
            Monitor::Metrics => self.metrics(route).await,
            Monitor::Healthy => self.health(route, Ok(())),
            Monitor::Ready => self.health(route, self.readiness()),
        }
    }

    async fn metrics(&self, route: &Route) -> Response {
        let syntax = match prefers_openmetrics(self.head.values("accept")) {
            true => Syntax::OpenMetrics,
            false => Syntax::Prometheus,
        };
        match self.services.report().await {
            Some(report) => {
                let text = report.write(Form::Metrics(syntax));
                fixed::unstored(self.services, route, Status::OK, syntax.content_type(), &text)
            }
            None => fixed::status(self.services, Some(route), Status::SERVICE_UNAVAILABLE),
        }
    }

    /// Errors: why this process should get no more requests.
    fn readiness(&self) -> Result<(), String> {
        if self.services.is_leaving.get() {
            return Err("this process is about to end".to_owned());
        }
        let mut pools = self.responder.upstreams.pools.iter();
        match pools.find(|pool| pool.is_down()) {
            None => Ok(()),
            Some(pool) => Err(format!("no endpoint of the application \"{}\" is up", pool.application())),
        }
    }

    fn health(&self, route: &Route, health: Result<(), String>) -> Response {
        let (status, text) = match health {
            Ok(()) => (Status::OK, "ok\n".to_owned()),
            Err(why) => (Status::SERVICE_UNAVAILABLE, format!("{why}\n")),
        };
        fixed::unstored(self.services, route, status, "text/plain; charset=utf-8", &text)
    }
}
