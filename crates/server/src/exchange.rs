//! An exchange: one request, and the way to its answer. Host, plan, look-up, decision, reply: five hops,
//! each of which can be asked alone (`explain` does).
//!
//! Does not know which protocol the request came by.

mod led;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use ::script::environment::Additions;
use http::conditional;
use http::head::{Head, Method};
use http::rule::Rule;
use http::status::Status;
use http::target::{PathError, SafePath};
use site::application::ApplicationId;
use site::decide::{self, Asked, Decision, decide};
use site::listing::{Format, Order};
use site::model::Route;
use site::plan::{self, Plan, Scripts, Told, Why, plan};
use site::route::RouteId;
use site::walk::Verdict;

use crate::files::roots::Roots;
use crate::files::{self, Entry, Fetch, Fetched, Files, Lookup, script};
use crate::serve::cgi::{Run, What};
use crate::serve::{Reply, file, fixed, listing};
use crate::stats::Count;
use crate::worker::Worker;

pub use led::Led;

/// What can be said about a request at once.
pub enum Answer {
    Now(Reply),
    /// Something must be looked up that may wait. To be asked again with what came of it.
    Fetch(Fetch),
    /// The reply takes a while, and no more of the request.
    Later(Pin<Box<dyn Future<Output = Reply>>>),
    /// A script is to be run, which may read the request's body.
    Run(Box<Run>),
}

/// What has been found out for the request at hand.
#[derive(Default)]
pub struct Known {
    pub fetched: Vec<Fetched>,
    /// Authorizers that have let it pass.
    pub passed: Vec<ApplicationId>,
    /// What they have told whoever answers.
    pub variables: Additions,
}

impl Known {
    /// The next request is another one.
    pub fn forget(&mut self) {
        self.fetched.clear();
        if !self.passed.is_empty() {
            *self = Known::default();
        }
    }
}

/// Look-ups for one request: the path itself and its fallback, each for a script and for a file, and an error
/// page.
const FETCHES: usize = 6;

/// Whose answer is looked for.
#[derive(Clone, Copy)]
enum Stage<'t> {
    /// That of the path that was asked, or else of its fallback.
    Asked,
    /// That of the fallback, which has none itself.
    Fallback(&'t Told),
}

/// Is the connection's framing still sure after this answer?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    Kept,
    /// The request tried to mean two things; its connection is closed.
    Lost,
}

/// Answers a request. `known` is what came of what was done for it before.
#[inline]
pub fn answer(worker: &Rc<Worker>, host: usize, head: &Head<'_>, known: &Known) -> (Answer, Trust) {
    let now = worker.clock.now();
    let exchange = Exchange { worker, host, head, known, now };
    let Some(path) = head.target.path() else {
        return (Answer::Now(exchange.of_the_server()), Trust::Kept);
    };
    let path = match SafePath::parse(path) {
        Ok(path) => path,
        Err(error) => {
            let reply = fixed::refusal(worker, None, error.status(), Some(error.rule()));
            return (Answer::Now(exchange.finish(reply)), Trust::Lost);
        }
    };
    if worker.sheds_everything() {
        let reply = fixed::status(worker, None, Status::SERVICE_UNAVAILABLE);
        return (Answer::Now(exchange.finish(reply)), Trust::Kept);
    }
    if worker.authorizes
        && let Some(run) = exchange.authorizer(&path)
    {
        return (Answer::Run(run), Trust::Kept);
    }
    if matches!(head.method, Method::Get | Method::Head)
        && let Some(entry) = worker.files.get(host, path.as_str(), now)
    {
        // What has just been looked up for this request was not there when it came.
        worker.counts.add(if known.fetched.is_empty() { Count::CacheHits } else { Count::CacheMisses }, 1);
        return (exchange.of_entry(&path, &entry, Stage::Asked), Trust::Kept);
    }
    (exchange.plan(path), Trust::Kept)
}

/// Can a script be what answers, and so want the request's body?
pub fn may_run(worker: &Worker, head: &Head<'_>) -> bool {
    let host = worker.site.hosts.find(head.authority);
    let Some(Ok(path)) = head.target.path().map(SafePath::parse) else { return false };
    let asked = path.clone();
    let plan = plan(&worker.site, host, path, None, head.authority, head.scheme);
    let is_guarded = worker.authorizes && {
        let routes = &worker.site.hosts.at(host).routes;
        !routes.get(routes.find(&asked)).authorizers.is_empty() || !plan.route().authorizers.is_empty()
    };
    let falls_back = || {
        let fallback =
            plan::fallback(&worker.site, host, plan.route(), &asked, None, head.authority, head.scheme);
        fallback.is_some_and(|fallback| fallback.plan.may_run())
    };
    is_guarded || plan.may_run() || falls_back()
}

/// Bytes of a body that are read and thrown away where nobody wants them.
pub fn body_limit(worker: &Worker, head: &Head<'_>) -> u64 {
    let host = worker.site.hosts.find(head.authority);
    match head.target.path().map(SafePath::parse) {
        Some(Ok(path)) => worker.route(host, &path).max_body,
        _ => worker.site.limits.body,
    }
}

/// The answer to a request that could not be read, with the rule that it breaks.
pub fn refuse(worker: &Worker, method: Method, status: Status, rule: Option<&'static Rule>) -> Reply {
    for_method(method, fixed::refusal(worker, None, status, rule))
}

/// The rule that the path of a request breaks.
#[cold]
pub fn broken_rule(head: &Head<'_>) -> Option<&'static Rule> {
    head.target.path().and_then(|path| SafePath::parse(path).err()).map(PathError::rule)
}

struct Exchange<'a> {
    worker: &'a Rc<Worker>,
    host: usize,
    head: &'a Head<'a>,
    known: &'a Known,
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

    /// Who has still to be asked whether the request may pass.
    fn authorizer(&self, path: &SafePath<'_>) -> Option<Box<Run>> {
        let routes = &self.worker.site.hosts.at(self.host).routes;
        let at = routes.find(path);
        // Those of the path, and those of the one that a rewrite leads to.
        let mut all = routes.get(at).authorizers.iter().chain(&self.route(path).authorizers);
        let application = all.find(|id| !self.known.passed.contains(id))?;
        Some(self.guard(at, *application))
    }

    fn guard(&self, route: RouteId, application: ApplicationId) -> Box<Run> {
        // The body is for whoever answers then.
        let max_body = body_limit(self.worker, self.head);
        let what = What::Authorizer(application);
        Box::new(Run { host: self.host, route, what, query: None, max_body })
    }

    fn plan(&self, path: SafePath<'_>) -> Answer {
        let Head { target, authority, scheme, .. } = *self.head;
        let asked = path.clone();
        let plan = plan(&self.worker.site, self.host, path, target.query(), authority, scheme);
        self.of_plan(&asked, plan, Stage::Asked)
    }

    fn of_plan(&self, asked: &SafePath<'_>, plan: Plan<'_, '_>, stage: Stage<'_>) -> Answer {
        let method = self.head.method;
        match plan {
            Plan::Scripts(scripts) => self.of_scripts(asked, *scripts, stage),
            Plan::Application(planned) => {
                let plan::Application { at, name, path_info, .. } = *planned;
                self.run(at, What::Application { name, path_info }, stage)
            }
            Plan::Redirect { route, status, location } => {
                Answer::Now(self.finish(fixed::redirect(self.worker, Some(route), status, &location)))
            }
            Plan::Status { route, status, why: Why::NoScript } => self.absent(asked, route, status, stage),
            Plan::Status { route, status, .. } => self.status(route, status),
            Plan::Files(planned) => {
                let status = decide::refused_method(method);
                if let (Some(_), _) | (_, Method::Options) = (status, method)
                    && let Some(answer) = self.taken_instead(asked, &planned, stage)
                {
                    return answer;
                }
                match (status, method) {
                    (Some(status), _) => self.status(planned.route, status),
                    (None, Method::Options) => Answer::Now(fixed::options(self.worker, Some(planned.route))),
                    (None, _) => match self.find(asked, &planned) {
                        Lookup::Hit(entry) => self.of_entry(asked, &entry, stage),
                        Lookup::Fetch(fetch) => self.fetch(fetch),
                        Lookup::Failed(status) => self.status(planned.route, status),
                    },
                }
            }
        }
    }

    /// The answer by the fallback to a method that files do not take, where no file is: there, a script or an
    /// application may take it.
    fn taken_instead(
        &self,
        asked: &SafePath<'_>,
        planned: &plan::Files<'_, '_>,
        stage: Stage<'_>,
    ) -> Option<Answer> {
        let Stage::Asked = stage else { return None };
        let fallback = self.fallback(asked, planned.route).filter(|fallback| fallback.plan.may_run())?;
        let entry = match self.find(asked, planned) {
            Lookup::Hit(entry) => entry,
            Lookup::Fetch(fetch) => return Some(self.fetch(fetch)),
            Lookup::Failed(status) => return Some(self.status(planned.route, status)),
        };
        decide::absent(as_asked(asked), &entry.resource, planned.route.files.listing)?;
        Some(self.of_fallback(fallback))
    }

    /// The answer where nothing stands under a path of this route.
    fn absent(&self, asked: &SafePath<'_>, route: &Route, status: Status, stage: Stage<'_>) -> Answer {
        match stage {
            Stage::Asked => match self.fallback(asked, route) {
                Some(fallback) => self.of_fallback(fallback),
                None => self.status(route, status),
            },
            Stage::Fallback(_) => self.status(route, Status::NOT_FOUND),
        }
    }

    fn fallback<'s>(&'s self, asked: &SafePath<'_>, route: &'s Route) -> Option<plan::Fallback<'s>> {
        let Head { target, authority, scheme, .. } = *self.head;
        let site = &self.worker.site;
        plan::fallback(site, self.host, route, asked, target.query(), authority, scheme)
    }

    fn of_fallback(&self, fallback: plan::Fallback<'_>) -> Answer {
        let plan::Fallback { path, plan, told } = fallback;
        if self.worker.authorizes
            && let Some(run) = self.authorizer(&path)
        {
            return Answer::Run(run);
        }
        self.of_plan(&path, plan, Stage::Fallback(&told))
    }

    fn of_scripts(&self, asked: &SafePath<'_>, scripts: Scripts<'_, '_>, stage: Stage<'_>) -> Answer {
        let Scripts { walk, otherwise } = scripts;
        let host = self.worker.site.hosts.at(self.host);
        let verdict = match script::find(self.worker, self.host, &walk, &self.known.fetched, self.now) {
            script::Lookup::Ended(verdict) => verdict,
            script::Lookup::Fetch(fetch) => return self.fetch(fetch),
            script::Lookup::Failed(status) => return self.status(otherwise.route(), status),
        };
        match verdict {
            Verdict::Run(at) => {
                let step = &walk.steps[at];
                let step = match stage {
                    Stage::Asked => step.clone(),
                    Stage::Fallback(told) => step.with_path_info(&told.path_info),
                };
                self.run(step.route, What::Script(step), stage)
            }
            Verdict::Denied(at) => self.status(host.routes.get(walk.steps[at].route), Status::FORBIDDEN),
            Verdict::Folder => self.absent(asked, otherwise.route(), Status::FORBIDDEN, stage),
            Verdict::ToFolder => self.to_folder_of(asked, stage),
            Verdict::Otherwise => self.of_plan(asked, otherwise, stage),
        }
    }

    fn run(&self, at: RouteId, what: What, stage: Stage<'_>) -> Answer {
        let route = self.worker.site.hosts.at(self.host).routes.get(at);
        // A part of the path may have a route of its own.
        if let Some(id) = route.authorizers.iter().find(|id| !self.known.passed.contains(id)) {
            return Answer::Run(self.guard(at, *id));
        }
        // A script would show whoever asks what others have sent (RFC 9110 §9.3.8).
        if self.head.method == Method::Trace {
            return self.status(route, Status::METHOD_NOT_ALLOWED);
        }
        if self.worker.sheds_cold() {
            return self.status(route, Status::SERVICE_UNAVAILABLE);
        }
        let query = match stage {
            Stage::Asked => None,
            Stage::Fallback(told) => told.query.clone(),
        };
        Answer::Run(Box::new(Run { host: self.host, route: at, what, query, max_body: route.max_body }))
    }

    /// What stands under `path`, as far as it is known here or the kernel has it in memory.
    fn find(&self, path: &SafePath<'_>, planned: &plan::Files<'_, '_>) -> Lookup {
        if let Some(result) = self.known.fetched.iter().find_map(|f| f.entry(self.host, path)) {
            self.worker.counts.add(Count::CacheMisses, 1);
            return match result {
                Ok(entry) => Lookup::Hit(entry.clone()),
                Err(status) => Lookup::Failed(*status),
            };
        }
        if let Some(entry) = self.worker.files.get(self.host, path.as_str(), self.now) {
            return Lookup::Hit(entry);
        }
        let wanted = files::Wanted {
            root: planned.root,
            below: planned.below(),
            rules: &planned.route.files,
            index: &planned.index,
        };
        let found = Files::find(self.worker, self.host, path, &wanted, self.now);
        // One that waits for a disk is counted when it is asked again.
        let is_over = !matches!(found, Lookup::Fetch(_));
        self.worker.counts.add(Count::CacheMisses, u64::from(is_over));
        found
    }

    fn fetch(&self, fetch: Fetch) -> Answer {
        if self.known.fetched.len() < FETCHES {
            return Answer::Fetch(fetch);
        }
        Answer::Now(self.finish(fixed::status(self.worker, None, Status::SERVICE_UNAVAILABLE)))
    }

    #[inline]
    fn of_entry(&self, path: &SafePath<'_>, entry: &Entry, stage: Stage<'_>) -> Answer {
        let asked = as_asked(path);
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
            Decision::ToFolder => return self.to_folder_of(path, stage),
            Decision::List(preconditions) => return self.list(path, entry, preconditions),
            Decision::Absent(status) => return self.absent(path, self.route(path), status, stage),
            Decision::Refuse(status) => return self.status(self.route(path), status),
        };
        Answer::Now(self.finish(reply))
    }

    /// A folder that was asked without its slash. The client has not asked for that of a fallback.
    fn to_folder_of(&self, path: &SafePath<'_>, stage: Stage<'_>) -> Answer {
        match stage {
            Stage::Asked => Answer::Now(self.finish(self.to_folder(path))),
            Stage::Fallback(_) => self.status(self.route(path), Status::NOT_FOUND),
        }
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

    fn list(&self, path: &SafePath<'_>, entry: &Entry, preconditions: conditional::Verdict) -> Answer {
        let Head { target, authority, scheme, .. } = *self.head;
        let planned = plan(&self.worker.site, self.host, path.clone(), target.query(), authority, scheme);
        let (Some(planned), Some(folder)) = (planned.files(), entry.folder_stamp()) else {
            return self.status(self.route(path), Status::NOT_FOUND);
        };
        let root = match Roots::get(self.worker, planned.root, self.now) {
            Ok(root) => root,
            Err(status) => return self.status(planned.route, status),
        };
        let wanted = listing::Wanted {
            host: self.host,
            path: path.clone().into_owned(),
            root,
            below: planned.below().into_owned(),
            folder,
            order: Order::from_query(target.query()),
            format: Format::choose(target.query(), self.head.values("accept")),
            preconditions,
        };
        if let Some(reply) = listing::kept(self.worker, &wanted, self.now) {
            return Answer::Now(self.finish(reply));
        }
        if self.worker.sheds_cold() {
            return self.status(planned.route, Status::SERVICE_UNAVAILABLE);
        }
        let (worker, method) = (self.worker.clone(), self.head.method);
        Answer::Later(Box::pin(async move { for_method(method, listing::list(worker, wanted).await) }))
    }

    /// A status, with the page that the route has for it, or else the built-in one.
    fn status(&self, route: &Route, status: Status) -> Answer {
        self.refusal(route, status, None)
    }

    /// As `status`, with the rule that the request has broken.
    fn refusal(&self, route: &Route, status: Status, rule: Option<&'static Rule>) -> Answer {
        let page = route.error_pages.iter().find(|(of, _)| *of == status);
        let Some((_, page)) = page else {
            return Answer::Now(self.finish(fixed::refusal(self.worker, Some(route), status, rule)));
        };
        let Head { authority, scheme, .. } = *self.head;
        let planned = plan(&self.worker.site, self.host, page.clone(), None, authority, scheme);
        if let Some(planned) = planned.files() {
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
        Answer::Now(self.finish(fixed::refusal(self.worker, Some(route), status, rule)))
    }

    fn finish(&self, reply: Reply) -> Reply {
        for_method(self.head.method, reply)
    }
}

#[inline]
fn as_asked(path: &SafePath<'_>) -> Asked {
    if path.is_folder() { Asked::AsFolder } else { Asked::AsFile }
}

/// HEAD gets what GET would get, without the content (RFC 9110 §9.3.2).
#[inline]
fn for_method(method: Method, reply: Reply) -> Reply {
    if method == Method::Head { reply.without_body() } else { reply }
}
