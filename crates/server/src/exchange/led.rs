//! Where a script leads that does not answer by itself: to another path of its host, to a file, or to a
//! status, because it has failed.

use std::path::Path;
use std::rc::Rc;

use http::head::{FieldStore, Head, parse};
use http::rule::Rule;
use http::status::Status;
use http::target::{SafePath, encode_path};
use site::model::Route;
use site::route::RouteId;

use super::{Answer, Exchange, Known, answer};
use crate::disk::Work;
use crate::files::beneath::{OpenError, Root, Wait};
use crate::files::look::{self, Found, Query};
use crate::files::roots::Roots;
use crate::log;
use crate::serve::cgi::Sendfile;
use crate::serve::head::HeadWriter;
use crate::serve::{Body, FilePart, OpenFile, Reply, fixed};
use crate::worker::Worker;

pub enum Led {
    /// It could not answer. The status is shown with the page of its route.
    /// Where the client is to blame, it names the rule that was broken.
    Failed { host: usize, route: RouteId, status: Status, rule: Option<&'static Rule> },
    /// This head of a request is answered in place of the client's.
    Elsewhere(Vec<u8>),
    /// A file, for a route of a host.
    Sendfile(usize, RouteId, Box<Sendfile>),
}

impl Led {
    /// The answer to `head`, as the script has led to it.
    pub fn answer(&self, worker: &Rc<Worker>, head: &Head<'_>, known: &Known) -> Answer {
        let host = worker.site.hosts.find(head.authority);
        let exchange = Exchange { worker, host, head, known, now: worker.clock.now() };
        match self {
            Led::Failed { host, route, status, rule } => {
                exchange.refusal(route_of(worker, *host, *route), *status, *rule)
            }
            Led::Elsewhere(bytes) => {
                let mut store = FieldStore::new();
                match parse(bytes, &mut store, &worker.site.limits.head) {
                    Ok(Some((mut other, _))) => {
                        // Another path of the same client's request.
                        (other.authority, other.scheme) = (head.authority, head.scheme);
                        answer(worker, host, &other, known).0
                    }
                    _ => Answer::Now(exchange.finish(fixed::status(worker, None, Status::BAD_GATEWAY))),
                }
            }
            Led::Sendfile(host, route, file) => exchange.sendfile(route_of(worker, *host, *route), file),
        }
    }
}

fn route_of(worker: &Worker, host: usize, route: RouteId) -> &Route {
    worker.site.hosts.at(host).routes.get(route)
}

impl Exchange<'_> {
    /// The file that a script has named, if it is beneath one of the folders that scripts may name.
    fn sendfile(&self, route: &Route, wanted: &Sendfile) -> Answer {
        let Some((folder, below)) = self.folder_of(&wanted.path) else {
            let path = wanted.path.display();
            let id = route.application();
            let application = id.and_then(|id| self.worker.site.applications.get(id));
            let what =
                application.map_or_else(|| "a script".to_owned(), |application| application.to_string());
            log::error(format_args!("{what} names {path}, which is in no folder of \"sendfile\""));
            return self.status(route, Status::FORBIDDEN);
        };
        let root = match Roots::get(self.worker, folder, self.now) {
            Ok(root) => root,
            Err(status) => return self.status(route, status),
        };
        let query = query(root, below, route);
        match look::look(&query, &[], Wait::Never) {
            Ok(found) => self.of_found(route, wanted, found),
            Err(OpenError::WouldWait) => {
                // Asked again, it is in memory, or as good as that.
                let device = look::device(&query);
                let (worker, route, method) = (self.worker.clone(), route.clone(), self.head.method);
                let (status, fields) = (wanted.status, wanted.fields.clone());
                let wanted = Sendfile { path: wanted.path.clone(), status, fields };
                Answer::Later(Box::pin(async move {
                    let look = move || look::look(&query, &[], Wait::Allowed);
                    let looked = match worker.disk.admit(device) {
                        Ok(_admitted) => worker.disk.run(device, Work::File, look).await,
                        Err(busy) => Err(busy),
                    };
                    let reply = match looked {
                        Ok(Ok(found)) => of_found(&worker, &route, &wanted, found),
                        Ok(Err(_)) => Err(Status::INTERNAL_SERVER_ERROR),
                        Err(_) => Err(Status::SERVICE_UNAVAILABLE),
                    };
                    let reply = reply.unwrap_or_else(|status| fixed::status(&worker, Some(&route), status));
                    super::for_method(method, reply)
                }))
            }
            Err(_) => self.status(route, Status::INTERNAL_SERVER_ERROR),
        }
    }

    fn of_found(&self, route: &Route, wanted: &Sendfile, found: Option<Found>) -> Answer {
        match of_found(self.worker, route, wanted, found) {
            Ok(reply) => Answer::Now(self.finish(reply)),
            Err(status) => self.status(route, status),
        }
    }

    /// The longest folder of the configuration that the path is beneath, and the path beneath it.
    fn folder_of(&self, path: &Path) -> Option<(&Path, SafePath<'static>)> {
        let folders = self.worker.site.scripts.sendfile.iter();
        let beneath = folders.filter_map(|folder| Some((folder.as_path(), path.strip_prefix(folder).ok()?)));
        let (folder, below) = beneath.max_by_key(|(folder, _)| folder.as_os_str().len())?;
        let mut encoded = String::from("/");
        encode_path(below.to_str()?, &mut encoded);
        Some((folder, SafePath::parse(&encoded).ok()?.into_owned()))
    }
}

/// The file alone: neither an index nor a neighbour, and not its content.
fn query(root: Root, below: SafePath<'static>, route: &Route) -> Query {
    let query = Query::new(root, below, &route.files, 0);
    Query { index: Vec::new(), neighbours: Vec::new(), gunzip: false, ..query }
}

fn of_found(
    worker: &Rc<Worker>,
    route: &Route,
    wanted: &Sendfile,
    found: Option<Found>,
) -> Result<Reply, Status> {
    let variant = match found {
        Some(Found::File { mut variants, .. }) => variants.pop().ok_or(Status::NOT_FOUND)?,
        Some(Found::Missing) | None => return Err(Status::NOT_FOUND),
        Some(Found::Folder(_) | Found::Denied) => return Err(Status::FORBIDDEN),
    };
    let mut head = HeadWriter::new(worker, Some(route), wanted.status);
    for (name, value) in &wanted.fields {
        head = head.field(name, value);
    }
    let left = variant.stamp.size;
    let reply = Reply::block(head.length(left).finish());
    // An empty file has been read already.
    let Some(fd) = variant.fd else { return Ok(reply) };
    let file = Rc::new(OpenFile::new(fd, variant.stamp, worker.disk.clone()));
    Ok(Reply { body: Body::File(FilePart { file, at: 0, left }), ..reply })
}
