//! Responses that show how the server does.

use std::rc::Rc;
use std::time::Duration;

use site::model::Route;
use site::monitor::{self, Monitor, Part, Summary, prefers_openmetrics};
use taipan_http::status::Status;
use tokio::time::Instant;

use super::Exchange;
use crate::clock;
use crate::content::fixed;
use crate::main_thread::MainThreadHandle;
use crate::process::ipc::{Form, Syntax};
use crate::response::{Body, BodyStream, NextChunk, Response};
use crate::response_head::HeadWriter;
use crate::semaphore::Permit;
use crate::services::Services;
use crate::stats::{EventState, RecentText, Report, SERIES, STEPS};

const JSON: &str = "application/json";
/// How often clients receive events.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

impl Exchange<'_> {
    pub(super) async fn monitor(&self, route: &Route, monitor: Monitor) -> Response {
        match monitor {
            Monitor::Status => self.status_page(route).await,
            Monitor::Metrics => self.metrics(route).await,
            Monitor::Healthy => self.health(route, Ok(())),
            Monitor::Ready => self.health(route, self.readiness()),
            Monitor::Acts => self.acts(route).await,
        }
    }

    async fn status_page(&self, route: &Route) -> Response {
        let text =
            |media_type, text: &str| fixed::unstored(self.services, route, Status::OK, media_type, text);
        let Some(main_thread) = &self.services.main_thread else { return self.no_report(route) };
        match Part::from_query(self.head.target.query(), STEPS.len()) {
            None => fixed::status(self.services, Some(route), Status::NOT_FOUND),
            Some(Part::Style) => text("text/css; charset=utf-8", monitor::STYLE),
            Some(Part::Script) => text("text/javascript; charset=utf-8", monitor::SCRIPT),
            Some(Part::History(kind)) => text(JSON, &history(main_thread, kind)),
            Some(Part::Events) => self.events(route),
            Some(Part::Page) => match main_thread.report().await {
                Some(report) => {
                    let head = HeadWriter::new(self.services, Some(route), Status::OK)
                        .field("Content-Type", "text/html; charset=utf-8")
                        .field("Cache-Control", "no-store")
                        .field("Referrer-Policy", "no-referrer")
                        .field("X-Content-Type-Options", "nosniff")
                        .policy(monitor::POLICY);
                    let page = page(&report);
                    Response::from_head(head.finish_whole(page.as_bytes()))
                }
                None => self.no_report(route),
            },
        }
    }

    /// Sends events each second, for as long as the client takes them and `events` of `[timeouts]` allows.
    fn events(&self, route: &Route) -> Response {
        let Some(permit) = self.services.events.take() else { return self.no_report(route) };
        let head = HeadWriter::new(self.services, Some(route), Status::OK)
            .field("Content-Type", "text/event-stream")
            .field("Cache-Control", "no-store");
        let end = Instant::now() + self.services.site.timeouts.events;
        let stream = EventStream {
            received: EventState::nothing(),
            from: Vec::new(),
            points_from: STEPS.map(|(seconds, _)| (clock::wall() as u64).saturating_sub(2 * seconds)),
            pause: Duration::ZERO,
            end,
            _permit: permit,
        };
        Response { body: Body::Stream(Box::new(stream)), ..Response::from_head(Rc::new(head.finish())) }
    }

    async fn metrics(&self, route: &Route) -> Response {
        let syntax = match prefers_openmetrics(self.head.values("accept")) {
            true => Syntax::OpenMetrics,
            false => Syntax::Prometheus,
        };
        let report = match &self.services.main_thread {
            Some(main_thread) => main_thread.report().await,
            None => None,
        };
        match report {
            Some(report) => {
                let text = report.write(Form::Metrics(syntax));
                fixed::unstored(self.services, route, Status::OK, syntax.content_type(), &text)
            }
            None => self.no_report(route),
        }
    }

    fn no_report(&self, route: &Route) -> Response {
        fixed::status(self.services, Some(route), Status::SERVICE_UNAVAILABLE)
    }

    /// Errors: why this process should get no more requests.
    fn readiness(&self) -> Result<(), String> {
        if self.services.mode.is_leaving() {
            return Err("this process is about to end".to_owned());
        }
        let mut pools = self.responder.upstreams.pools.iter();
        match pools.find(|pool| pool.is_required() && pool.is_down()) {
            None => Ok(()),
            // The name of an upstream that only a route names is its address.
            Some(pool) if pool.is_of_route() => Err("no endpoint of an application is up".to_owned()),
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

fn page(report: &Report) -> String {
    let total = report.total();
    let counts: Vec<_> = total.rows().collect();
    let (version, uptime, since) = (env!("CARGO_PKG_VERSION"), report.uptime, report.since);
    let (hosts, routes) = report.zone_cells();
    monitor::page(&Summary {
        version,
        uptime,
        since,
        counts: &counts,
        endpoints: &report.endpoint_cells(),
        hosts: &hosts,
        routes: &routes,
        certificates: &report.certificate_cells(),
    })
}

/// A point as JSON.
fn point((time, values): &(u64, [u64; SERIES.len()])) -> String {
    let values: Vec<String> = values.iter().map(u64::to_string).collect();
    format!("[{time},{}]", values.join(","))
}

fn list(points: &[(u64, [u64; SERIES.len()])]) -> String {
    let points: Vec<String> = points.iter().map(point).collect();
    format!("[{}]", points.join(","))
}

/// The points of one kind of step as JSON.
fn history(main_thread: &MainThreadHandle, kind: usize) -> String {
    let ((step, count), now) = (STEPS[kind], clock::wall() as u64);
    let points = main_thread.history.as_ref().map(|history| history.points(kind, now)).unwrap_or_default();
    format!(
        "{{\"now\":{now},\"step\":{step},\"count\":{count},\"series\":[\"{}\"],\"points\":{}}}",
        SERIES.join("\",\""),
        list(&points)
    )
}

/// Events for one client. The next is made when the client has taken the one before.
struct EventStream {
    received: EventState,
    /// For each worker, the number of the first ended request that the client has not received.
    from: Vec<u64>,
    /// For each kind of step, the second from which the client has no points.
    points_from: [u64; STEPS.len()],
    pause: Duration,
    end: Instant,
    _permit: Permit,
}

impl EventStream {
    /// The points that the client has not received, as JSON: a list for each kind of step. An event may be late.
    fn points(&mut self, main_thread: &MainThreadHandle) -> String {
        let Some(history) = &main_thread.history else { return vec!["[]"; STEPS.len()].join(",") };
        let now = clock::wall() as u64;
        let lists = self.points_from.iter_mut().enumerate().map(|(kind, from)| {
            let points = history.ended(kind, *from, now);
            *from = points.last().map_or(*from, |(time, _)| time + 1);
            list(&points)
        });
        lists.collect::<Vec<_>>().join(",")
    }
}

impl BodyStream for EventStream {
    fn is_endless(&self) -> bool {
        true
    }

    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(async move {
            let left = self.end.saturating_duration_since(Instant::now());
            let pause = std::mem::replace(&mut self.pause, EVENT_INTERVAL);
            tokio::time::sleep(pause.min(left)).await;
            // Each response has an event.
            if !pause.is_zero() && pause >= left {
                return Ok(None);
            }
            let Some(main_thread) = services.main_thread.as_ref().filter(|_| !services.mode.is_leaving())
            else {
                // The client connects to the process that serves now.
                return Ok(None);
            };
            let Some(report) = main_thread.report().await else { return Ok(None) };
            let Some(recent) = main_thread.recent(self.from.clone()).await else { return Ok(None) };
            let known = |at: usize| self.from.get(at).copied().unwrap_or(0);
            self.from = recent
                .iter()
                .enumerate()
                .map(|(at, text)| text.as_ref().map_or_else(|| known(at), |text| text.next))
                .collect();
            let report = report.event(&mut self.received);
            Ok(Some(event(&report, &self.points(main_thread), &recent).into_bytes()))
        })
    }

    fn has_more(&mut self) -> bool {
        false
    }
}

/// `retry`: the browser connects again after so many milliseconds.
fn event(report: &str, points: &str, recent: &[Option<RecentText>]) -> String {
    let requests: Vec<String> = recent
        .iter()
        .map(|worker| match worker {
            Some(RecentText { last, running, .. }) => {
                format!("{{\"last\":[{last}],\"running\":[{running}]}}")
            }
            None => "null".to_owned(),
        })
        .collect();
    let requests = requests.join(",");
    format!("retry: 1000\ndata: {{\"report\":{report},\"points\":[{points}],\"requests\":[{requests}]}}\n\n")
}
