//! An exchange: one request, and the way to its answer. Host, plan, look-up, decision, reply: five hops,
//! each of which can be asked alone (`explain` does).
//!
//! Does not know which protocol the request came by.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use http::head::{Head, Method};
use http::status::Status;
use http::target::SafePath;
use site::decide::{self, Asked, Decision, decide};
use site::listing::{Format, Order};
use site::model::Route;
use site::plan::{Plan, Scheme, plan};

use crate::files::roots::Roots;
use crate::files::{self, Entry, Fetch, Fetched, Files, Lookup};
use crate::serve::{Reply, file, fixed, listing};
use crate::worker::Worker;

/// What can be said about a request at once.
pub enum Answer {
    Now(Reply),
    /// Something must be looked up that may wait. To be asked again with what came of it.
    Fetch(Fetch),
    /// The reply takes a while, and no more of the request.
    Later(Pin<Box<dyn Future<Output = Reply>>>),
}

/// Look-ups for one request: the path itself, and an error page.
const FETCHES: usize = 4;

/// Is the connection's framing still sure after this answer?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    Kept,
    /// The request tried to mean two things; its connection is closed.
    Lost,
}

/// Answers a request whose body nobody wants. `fetched` is what came of earlier look-ups for it.
#[inline]
pub fn answer(worker: &Rc<Worker>, host: usize, head: &Head<'_>, fetched: &[Fetched]) -> (Answer, Trust) {
    let now = worker.clock.now();
    let exchange = Exchange { worker, host, head, fetched, now };
    let Some(path) = head.target.path() else {
        return (Answer::Now(exchange.of_the_server()), Trust::Kept);
    };
    let Ok(path) = SafePath::parse(path) else {
        return (Answer::Now(exchange.finish(fixed::status(worker, None, Status::BAD_REQUEST))), Trust::Lost);
    };
    if matches!(head.method, Method::Get | Method::Head)
        && let Some(entry) = worker.files.get(host, path.as_str(), now)
    {
        return (exchange.of_entry(&path, &entry), Trust::Kept);
    }
    (exchange.plan(path), Trust::Kept)
}

/// Bytes of a body that are read and thrown away where nobody wants them.
pub fn body_limit(worker: &Worker, head: &Head<'_>) -> u64 {
    let host = worker.site.hosts.find(head.authority);
    match head.target.path().map(SafePath::parse) {
        Some(Ok(path)) => worker.route(host, &path).max_body,
        _ => worker.site.limits.body,
    }
}

/// The answer to a request that could not be read.
pub fn refuse(worker: &Worker, method: Method, status: Status) -> Reply {
    for_method(method, fixed::status(worker, None, status))
}

struct Exchange<'a> {
    worker: &'a Rc<Worker>,
    host: usize,
    head: &'a Head<'a>,
    fetched: &'a [Fetched],
    now: i64,
}

impl Exchange<'_> {
    /// `OPTIONS *`, and CONNECT, which is for proxies.
    fn of_the_server(&self) -> Reply {
        let reply = match self.head.method {
            Method::Options => fixed::options(self.worker, None),
            _ => fixed::status(self.worker, None, Status::METHOD_NOT_ALLOWED),
        };
        self.finish(reply)
    }

    fn plan(&self, path: SafePath<'_>) -> Answer {
        let Head { target, authority, method, .. } = *self.head;
        let asked = path.clone();
        match plan(&self.worker.site, self.host, path, target.query(), authority, Scheme::Http) {
            Plan::Redirect { route, status, location } => {
                Answer::Now(self.finish(fixed::redirect(self.worker, Some(route), status, &location)))
            }
            Plan::Status { route, status, .. } => self.status(route, status),
            Plan::Files(planned) => match (decide::refused_method(method), method) {
                (Some(status), _) => self.status(planned.route, status),
                (None, Method::Options) => Answer::Now(fixed::options(self.worker, Some(planned.route))),
                (None, _) => match self.find(&asked, &planned) {
                    Lookup::Hit(entry) => self.of_entry(&asked, &entry),
                    Lookup::Fetch(fetch) => self.fetch(fetch),
                    Lookup::Failed(status) => self.status(planned.route, status),
                },
            },
        }
    }

    /// What stands under `path`, as far as it is known here or the kernel has it in memory.
    fn find(&self, path: &SafePath<'_>, planned: &site::plan::Files<'_, '_>) -> Lookup {
        if let Some(fetched) = self.fetched.iter().find(|f| f.is(self.host, path.as_str())) {
            return match &fetched.result {
                Ok(entry) => Lookup::Hit(entry.clone()),
                Err(status) => Lookup::Failed(*status),
            };
        }
        if let Some(entry) = self.worker.files.get(self.host, path.as_str(), self.now) {
            return Lookup::Hit(entry);
        }
        let wanted =
            files::Wanted { root: planned.root, below: planned.below(), rules: &planned.route.files };
        Files::find(self.worker, self.host, path, &wanted, self.now)
    }

    fn fetch(&self, fetch: Fetch) -> Answer {
        if self.fetched.len() < FETCHES {
            return Answer::Fetch(fetch);
        }
        Answer::Now(self.finish(fixed::status(self.worker, None, Status::SERVICE_UNAVAILABLE)))
    }

    #[inline]
    fn of_entry(&self, path: &SafePath<'_>, entry: &Entry) -> Answer {
        let asked = if path.is_folder() { Asked::AsFolder } else { Asked::AsFile };
        let listing = match entry.folder_stamp() {
            Some(_) => self.route(path).files.listing,
            None => site::model::Listing::Off,
        };
        let reply = match decide(self.head, asked, &entry.resource, listing, self.now) {
            Decision::Full(chosen) => file::full(self.worker, entry, chosen),
            Decision::NotModified(chosen) => file::not_modified(self.worker, self.route(path), entry, chosen),
            Decision::Part(chosen, part) => file::part(self.worker, self.route(path), entry, chosen, part),
            Decision::Parts(chosen, parts) => {
                file::parts(self.worker, self.route(path), entry, chosen, &parts)
            }
            Decision::Unsatisfiable(chosen) => {
                fixed::unsatisfiable(self.worker, Some(self.route(path)), entry.size(chosen))
            }
            Decision::ToFolder => self.to_folder(path),
            Decision::List => return self.list(path, entry),
            Decision::Refuse(status) => return self.status(self.route(path), status),
        };
        Answer::Now(self.finish(reply))
    }

    fn route(&self, path: &SafePath<'_>) -> &Route {
        self.worker.route(self.host, path)
    }

    /// 301 to the same path with a slash, which is relative, and keeps the query.
    fn to_folder(&self, path: &SafePath<'_>) -> Reply {
        let mut location = String::from("/");
        http::target::encode_path(path.as_str(), &mut location);
        location.push('/');
        if let Some(query) = self.head.target.query() {
            location.push('?');
            location.push_str(query);
        }
        fixed::redirect(self.worker, Some(self.route(path)), Status::MOVED_PERMANENTLY, &location)
    }

    fn list(&self, path: &SafePath<'_>, entry: &Entry) -> Answer {
        let Head { target, authority, .. } = *self.head;
        let planned =
            plan(&self.worker.site, self.host, path.clone(), target.query(), authority, Scheme::Http);
        let (Plan::Files(planned), Some(folder)) = (planned, entry.folder_stamp()) else {
            return self.status(self.route(path), Status::NOT_FOUND);
        };
        let Some(root) = Roots::get(self.worker, planned.root, self.now) else {
            return self.status(planned.route, Status::INTERNAL_SERVER_ERROR);
        };
        let wanted = listing::Wanted {
            host: self.host,
            path: path.clone().into_owned(),
            root,
            below: planned.below().into_owned(),
            folder,
            order: Order::from_query(target.query()),
            format: Format::choose(target.query(), self.head.values("accept")),
        };
        if let Some(reply) = listing::kept(self.worker, &wanted, self.now) {
            return Answer::Now(self.finish(reply));
        }
        let (worker, method) = (self.worker.clone(), self.head.method);
        Answer::Later(Box::pin(async move { for_method(method, listing::list(worker, wanted).await) }))
    }

    /// A status, with the page that the route has for it, or else the built-in one.
    fn status(&self, route: &Route, status: Status) -> Answer {
        let page = route.error_pages.iter().find(|(of, _)| *of == status);
        let Some((_, page)) = page else {
            return Answer::Now(self.finish(fixed::status(self.worker, Some(route), status)));
        };
        let planned =
            plan(&self.worker.site, self.host, page.clone(), None, self.head.authority, Scheme::Http);
        if let Plan::Files(planned) = planned {
            match self.find(page, &planned) {
                Lookup::Hit(entry) => {
                    if let Some(chosen) = entry.plain() {
                        let reply = file::as_page_of(self.worker, route, status, &entry, chosen);
                        return Answer::Now(self.finish(reply));
                    }
                }
                Lookup::Fetch(fetch) => return self.fetch(fetch),
                Lookup::Failed(_) => {}
            }
        }
        Answer::Now(self.finish(fixed::status(self.worker, Some(route), status)))
    }

    fn finish(&self, reply: Reply) -> Reply {
        for_method(self.head.method, reply)
    }
}

/// HEAD gets what GET would get, without the content (RFC 9110 §9.3.2).
#[inline]
fn for_method(method: Method, reply: Reply) -> Reply {
    if method == Method::Head { reply.without_body() } else { reply }
}
