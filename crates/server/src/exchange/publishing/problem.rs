//! Why a request to change files gets no success, and the response that says so.

use dav::multistatus;
use rustix::fs::{Access, AtFlags, accessat};
use rustix::io::Errno;
use site::model::Route;
use taipan_http::path_text;
use taipan_http::status::Status;

use super::Target;
use crate::disk::Busy;
use crate::exchange::Exchange;
use crate::files::beneath::Root;
use crate::log;
use crate::process::privilege::{advice_on_writing, shown};
use crate::publishing::failure::Failure;
use crate::request::body::Rejection;
use crate::response::Response;
use crate::stats::Count;

/// Why a request gets no success.
pub enum Problem {
    Status(Status),
    /// The request breaks a rule, which the page and the log name.
    Rule(Rejection),
    /// A precondition of RFC 4918 §16.
    Precondition(Status, &'static str),
    /// A lock on the resource with this URL keeps the client from it.
    Locked(String),
    Failure(Failure),
    /// The disk does not respond.
    Busy(Busy),
    /// A check rejects the request with this response.
    Response(Box<Response>),
}

impl From<Response> for Problem {
    fn from(response: Response) -> Problem {
        Problem::Response(Box::new(response))
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Problem {
        Problem::Status(status)
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Problem {
        Problem::Rule(rejection)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        Problem::Failure(failure)
    }
}

impl<'a> Exchange<'a> {
    /// `route`: that of the request. `target`: what has the problem.
    pub(super) async fn respond_to_problem(
        &self,
        route: &Route,
        target: &Target<'a>,
        problem: Problem,
    ) -> Response {
        let failure = match problem {
            Problem::Status(Status::INSUFFICIENT_STORAGE) => Failure::NoSpace,
            Problem::Status(status) => return self.status(route, status).await,
            Problem::Rule((status, rule)) => return self.reject(route, status, Some(rule)).await,
            Problem::Precondition(status, name) => {
                return self.xml(route, status, &multistatus::error(name, None));
            }
            Problem::Locked(href) => {
                let body = multistatus::error("lock-token-submitted", Some(&href));
                return self.xml(route, Status::LOCKED, &body);
            }
            Problem::Failure(failure) => failure,
            Problem::Busy(busy) => {
                let path = path_text::escaped(target.path.as_str().trim_start_matches('/'));
                let status = self.services.report_busy(format_args!("/{path}"), busy);
                return self.status(route, status).await;
            }
            Problem::Response(response) => return *response,
        };
        self.log_failure(target, &failure);
        self.status(route, failure.status()).await
    }

    /// Logs what an administrator can mend.
    fn log_failure(&self, target: &Target<'_>, failure: &Failure) {
        let path = target.path.as_str();
        match failure {
            Failure::Permission(errno) => {
                if let Some(omitted) = self.responder.failed_changes.admit(self.now) {
                    let advice = self.advice(*errno, &target.store.root);
                    log::error(format_args!("/{path} cannot be changed: {errno}; {advice}{omitted}"));
                }
            }
            Failure::NoSpace => {
                self.services.counts.add(Count::PublicationsWithoutSpace, 1);
                // A client that tries again and again must not fill the disk by the log.
                if let Some(omitted) = self.responder.no_space.admit(self.now) {
                    log::warn(format_args!(
                        "/{path} cannot be stored: no space in {}, or \"publish_quota\" or \"publish_min_free\" does not \
                         allow it{omitted}",
                        shown(&target.store.root.path)
                    ));
                }
            }
            Failure::TooMany(excess) => {
                if let Some(omitted) = self.responder.excesses.admit(self.now) {
                    log::warn(format_args!("/{path}: {excess}{omitted}"));
                }
            }
            Failure::Waiting => {
                if let Some(omitted) = self.responder.excesses.admit(self.now) {
                    log::warn(format_args!(
                        "/{path} cannot be changed: too many requests change names in {}, or its disk does not \
                         respond{omitted}",
                        shown(&target.store.root.path)
                    ));
                }
            }
            Failure::Local(errno) => {
                if let Some(omitted) = self.responder.failed_changes.admit(self.now) {
                    log::error(format_args!("/{path} cannot be changed: {errno}{omitted}"));
                }
            }
            _ => {}
        }
    }

    /// What lets clients change files in a root where that has failed with `errno`.
    fn advice(&self, errno: Errno, root: &Root) -> String {
        let is_since_start = self.responder.files.has_since_start(root);
        // The sandbox is not asked by this, only the modes of files.
        let may_write = || accessat(&root.fd, ".", Access::WRITE_OK, AtFlags::EACCESS).is_ok();
        match errno == Errno::ACCESS && !is_since_start && may_write() {
            true => format!(
                "the root is {} by now, which was none at the start, and where the sandbox lets clients change \
                 nothing; reload, so that the sandbox allows it",
                shown(&root.path)
            ),
            false => advice_on_writing(errno, &root.path),
        }
    }
}
