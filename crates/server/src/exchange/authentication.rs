//! Authentication: the user of a request, by its credentials, and the response that asks for them.

use std::sync::Arc;
use std::time::Duration;

use auth::basic::{self, Authorization, Basic};
use auth::digest::{Digest, DigestError, Reason};
use site::authentication::{Authentication, FolderPasswords, Scheme};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Exchange;
use super::access::Rejected;
use super::digest::{self, DigestUser, Replay};
use super::fast::Stop;
use super::logins::Login;
use crate::content::fixed;
use crate::request::Request;
use crate::response::Response;
use crate::stats::Count;

/// The variable of `site::authentication::USER_FIELD`.
const USER_VARIABLE: &str = "HTTP_REMOTE_USER";

/// Credentials that have passed.
#[derive(Clone)]
pub(super) struct Passed {
    authentication: Arc<Authentication>,
    /// Where folders have password files: the folder that the credentials have passed for.
    folder: Option<SafePath<'static>>,
    /// The users that the credentials were, or would be, compared with.
    users: Users,
    /// `None`: nothing protects the folder.
    user: Option<User>,
}

/// Whose users may have a folder.
#[derive(Clone, Copy)]
enum Users {
    OfRoute,
    /// Those of the password file of the folder, or of one that it inherits.
    OfFolder,
}

#[derive(Clone)]
struct User {
    name: String,
    /// The value of `AUTH_TYPE`.
    kind: &'static str,
}

impl Passed {
    fn is_for(&self, own: &Arc<Authentication>, path: &SafePath<'_>) -> bool {
        let is_same_folder = self.folder.as_ref().is_none_or(|folder| *folder == folder_of(path));
        Arc::ptr_eq(&self.authentication, own) && is_same_folder
    }
}

/// Why credentials do not pass.
enum Failure {
    /// There are none, or they are wrong.
    Ask(Reason),
    /// The user is known, and may not pass.
    Forbidden,
    Wait(Duration),
    Busy,
    Malformed,
}

impl<'a> Exchange<'a> {
    /// Whether a user has authenticated for what is at `path`.
    pub(super) fn has_authenticated(&self, own: &Arc<Authentication>, path: &SafePath<'_>) -> bool {
        self.grants.passed.iter().any(|passed| passed.is_for(own, path))
    }

    /// Does what `check` asks for until it has no objection. Errors: the response.
    pub(super) async fn enforce(
        &mut self,
        request: Request<'_>,
        check: impl Fn(&Exchange<'a>) -> Result<(), Rejected<'a>>,
    ) -> Result<(), Response> {
        while let Err(rejected) = check(self) {
            self.satisfy(request, rejected).await?;
        }
        Ok(())
    }

    /// Has the user authenticate, or calls authorizers. Errors: the response.
    pub(super) async fn satisfy(
        &mut self,
        request: Request<'_>,
        rejected: Rejected<'a>,
    ) -> Result<(), Response> {
        match rejected {
            Rejected::Unauthorized(path) => self.call_authorizers(request, &path, self.route(&path)).await,
            Rejected::Denied(route, status) => Err(self.status(route, status).await),
            Rejected::Redirected(route, status, location) => {
                Err(fixed::redirect(self.services, Some(route), status, &location))
            }
            Rejected::Unauthenticated(own, path) => self.authenticate(&own, &path).await,
        }
    }

    /// Whether the credentials have passed for folders that may have password files.
    pub(super) fn has_passed_for_folder(&self) -> bool {
        self.grants.passed.iter().any(|passed| passed.folder.is_some())
    }

    /// As `may_know`, for what is in a folder that the client may have. A folder has no password file of its own.
    pub(super) fn may_know_entry(&mut self, path: &SafePath<'_>) -> bool {
        let before = self.grants.passed.len();
        let may_know = loop {
            let Err(rejected) = self.check_entry(path) else { break true };
            let Rejected::Unauthenticated(own, at) = rejected else { break false };
            let Some(passed) = self.inherited(&own, &at) else { break false };
            self.grants.passed.push(passed);
        };
        if self.grants.passed.len() > before {
            self.grants.passed.truncate(before);
        }
        may_know
    }

    /// For a folder without a password file: the credentials that have passed for the folder around it, if they are
    /// enough.
    fn inherited(&self, own: &Arc<Authentication>, path: &SafePath<'_>) -> Option<Passed> {
        let around = path.first_segments(path.segments().count().checked_sub(1)?)?.as_folder();
        let routes = &self.host().routes;
        // Another route may have another root.
        if !path.is_folder() || routes.find(&around) != routes.find(path) {
            return None;
        }
        let passed = self.grants.passed.iter().find(|passed| passed.is_for(own, &around))?;
        match (own.folder, passed.users) {
            (FolderPasswords::Off, _) => None,
            (FolderPasswords::Folder, Users::OfFolder) if own.has_users() => None,
            (FolderPasswords::Folder | FolderPasswords::Inherited, _) => {
                Some(Passed { folder: Some(folder_of(path)), ..passed.clone() })
            }
        }
    }

    /// The response of the fast path, unless credentials have to be compared.
    pub(super) fn rejected_fast(&self, rejected: Rejected<'a>) -> Result<Response, Stop> {
        match rejected {
            Rejected::Denied(route, status) => self.status_fast(route, status),
            Rejected::Redirected(route, status, location) => {
                Ok(fixed::redirect(self.services, Some(route), status, &location))
            }
            Rejected::Unauthenticated(..) | Rejected::Unauthorized(_) => Err(Stop::WAIT),
        }
    }

    /// Errors: the response.
    async fn authenticate(
        &mut self,
        own: &Arc<Authentication>,
        path: &SafePath<'static>,
    ) -> Result<(), Response> {
        let of_page = self.inclusion.as_ref().map(|inclusion| inclusion.logins());
        if let Some(passed) = of_page.into_iter().flatten().find(|passed| passed.is_for(own, path)) {
            let passed = passed.clone();
            self.pass_user(passed);
            return Ok(());
        }
        let folder = (own.folder != FolderPasswords::Off).then(|| folder_of(path));
        let (users, asked) = match &folder {
            None => (Users::OfRoute, Some(own.clone())),
            Some(folder) => match self.folder_users(own, folder).await {
                Ok(Some(users)) => (Users::OfFolder, Some(users)),
                // Nothing protects the folder.
                Ok(None) => (Users::OfRoute, own.has_users().then(|| own.clone())),
                Err(status) => return Err(self.status(self.route(path), status).await),
            },
        };
        let user = match asked {
            Some(asked) => self.log_in(&asked, path).await?,
            None => None,
        };
        self.pass_user(Passed { authentication: own.clone(), folder, users, user });
        Ok(())
    }

    fn pass_user(&mut self, passed: Passed) {
        if let Some(User { name, kind }) = &passed.user {
            // Those of an earlier one stay.
            _ = self.grants.variables.add("REMOTE_USER", name.as_bytes());
            _ = self.grants.variables.add(USER_VARIABLE, name.as_bytes());
            _ = self.grants.variables.add("AUTH_TYPE", kind.as_bytes());
        }
        self.grants.passed.push(passed);
    }

    async fn log_in(
        &mut self,
        users: &Arc<Authentication>,
        path: &SafePath<'_>,
    ) -> Result<Option<User>, Response> {
        let result = match users.scheme {
            Scheme::Off => return Ok(None),
            Scheme::Basic => self.log_in_by_basic(users).await,
            Scheme::Digest => self.log_in_by_digest(users),
        };
        match result {
            Ok((name, kind)) => Ok(Some(User { name, kind })),
            Err(failure) => Err(self.on_failure(users, path, failure).await),
        }
    }

    /// The credentials of the request. A request with several `Authorization` fields has none.
    fn authorization(&self) -> Authorization<'a> {
        self.head.only("authorization").map_or(Authorization::Other, Authorization::parse)
    }

    async fn log_in_by_basic(&self, users: &Arc<Authentication>) -> Result<(String, &'static str), Failure> {
        let Authorization::Basic(token) = self.authorization() else {
            return Err(Failure::Ask(Reason::Wrong));
        };
        let basic = Basic::parse(token).map_err(|_| Failure::Malformed)?;
        let user = basic.user.clone();
        match self.responder.logins.verify(users, basic, self.client.ip()).await {
            Login::Right if users.permits(&user) => Ok((user, "Basic")),
            Login::Right => Err(Failure::Forbidden),
            Login::Wrong => {
                self.services.counts.add(Count::WrongPasswords, 1);
                Err(Failure::Ask(Reason::Wrong))
            }
            Login::Wait(wait) => Err(Failure::Wait(wait)),
            Login::Busy => Err(Failure::Busy),
        }
    }

    fn log_in_by_digest(&mut self, users: &Authentication) -> Result<(String, &'static str), Failure> {
        let Authorization::Digest(credentials) = self.authorization() else {
            return Err(Failure::Ask(Reason::Wrong));
        };
        let digest = Digest::parse(credentials).map_err(|_| Failure::Malformed)?;
        let logins = &self.responder.logins;
        let attempt = logins.digest_attempt(users, &digest, self.client.ip());
        if let Some(wait) = attempt.wait() {
            return Err(Failure::Wait(wait));
        }
        let replay = match self.grants.authentication_info {
            None => Replay::Rejected,
            Some(_) => Replay::SameRequest,
        };
        let head = self.original.unwrap_or(self.head);
        match digest::verify(users, head, &digest, replay, self.now) {
            Ok(DigestUser { name, info }) => {
                attempt.succeeded();
                if !users.permits(&name) {
                    return Err(Failure::Forbidden);
                }
                self.grants.authentication_info = Some(info);
                Ok((name, "Digest"))
            }
            Err(DigestError::Stale) => Err(Failure::Ask(Reason::Stale)),
            Err(DigestError::Wrong) => {
                self.services.counts.add(Count::WrongPasswords, 1);
                attempt.failed();
                Err(Failure::Ask(Reason::Wrong))
            }
            Err(DigestError::Realm) => Err(Failure::Ask(Reason::Wrong)),
            Err(_) => Err(Failure::Malformed),
        }
    }

    async fn on_failure(&self, users: &Authentication, path: &SafePath<'_>, failure: Failure) -> Response {
        let route = self.route(path);
        match failure {
            Failure::Forbidden => self.status(route, Status::FORBIDDEN).await,
            Failure::Malformed => self.status(route, Status::BAD_REQUEST).await,
            Failure::Busy => {
                self.services.counts.add(Count::LoginsBusy, 1);
                self.status(route, Status::SERVICE_UNAVAILABLE).await
            }
            Failure::Wait(wait) => {
                self.services.counts.add(Count::LoginsDelayed, 1);
                self.wait_for_login(route, wait).await
            }
            Failure::Ask(reason) => {
                let challenges = match users.scheme {
                    Scheme::Digest => digest::challenges(users, reason, self.now),
                    Scheme::Basic | Scheme::Off => vec![basic::challenge(&users.realm)],
                };
                let fields: Vec<_> =
                    challenges.iter().map(|challenge| ("WWW-Authenticate", challenge.as_str())).collect();
                self.status(route, Status::UNAUTHORIZED).await.with_fields(&fields)
            }
        }
    }
}

/// The folder that a path is in, or that it is.
fn folder_of(path: &SafePath<'_>) -> SafePath<'static> {
    if path.is_folder() {
        return path.clone().into_owned();
    }
    let folders = path.segments().count().saturating_sub(1);
    path.first_segments(folders).map_or_else(|| path.as_folder(), SafePath::into_owned)
}
