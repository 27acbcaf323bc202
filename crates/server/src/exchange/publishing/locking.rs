//! LOCK and UNLOCK.

use std::collections::BTreeSet;

use dav::fields::{Depth, coded_url, timeout};
use dav::locks::{Extent, Lock, MAX_OWNER, Scope, Touch};
use dav::multistatus;
use dav::request::LockInfo;
use rustix::fs::OFlags;
use taipan_http::status::Status;

use super::properties::rejected;
use super::{Exchange, Problem, Target, Use};
use crate::publishing::failure::{Excess, Failure};
use crate::publishing::store::{Below, Found, Guard, Store, Terms, lock_token};
use crate::publishing::tree::{Kind, Member};
use crate::publishing::usage::{Reservation, cost};
use crate::request::Request;
use crate::response::Response;
use crate::response_head::HeadWriter;
use crate::sys::calls;

/// The result of an attempt to lock.
enum Attempt {
    /// The lock, and what was at the path before. `None`: an empty file was made.
    Locked(Lock, Option<Found>),
    /// Another lock on the resource, which is of this one, excludes the new one.
    Excluded(Member),
    /// Locks on these members of the folder exclude the new one.
    ExcludedBeneath(Vec<Member>),
}

/// The lock that a client asks for.
struct NewLock {
    below: Below,
    extent: Extent,
    scope: Scope,
    owner: String,
    /// Seconds since 1970.
    expires: i64,
}

impl NewLock {
    /// Adds it to the locks, and makes an empty file if nothing is at its path.
    fn add(self, guard: &Guard, terms: &Terms, reservation: &mut Reservation) -> Result<Attempt, Failure> {
        let NewLock { below, extent, scope, owner, expires } = self;
        let (mut locks, found) = guard.check_terms(terms, &below)?;
        if let Some(lock) = locks.conflict(below.as_str(), scope) {
            return Ok(Attempt::Excluded(guard.store.member(&lock.path)?));
        }
        if extent == Extent::Tree {
            let members: BTreeSet<&String> =
                locks.conflicts_beneath(below.as_str(), scope).map(|lock| &lock.path).collect();
            if !members.is_empty() {
                let members = members.into_iter().map(|path| guard.store.member(path));
                return members.collect::<Result<_, _>>().map(Attempt::ExcludedBeneath);
            }
        }
        let (path, user) = (below.as_str().to_owned(), terms.holder.user.clone());
        let lock = Lock { token: lock_token()?, path, extent, scope, owner, user, expires };
        if !locks.have_space_for(&lock) {
            return Err(Failure::TooMany(Excess::Locks));
        }
        if found.is_none() {
            guard.check_locks(&locks, terms, &below, Touch::Name)?;
            make_empty_file(&guard.store, &below, reservation)?;
            guard.discard_properties(&below)?;
        }
        locks.add(lock.clone());
        if let Err(failure) = guard.write_locks(&locks) {
            // A file without its lock would be one that the client has not stored.
            if found.is_none() {
                remove_empty_file(&guard.store, &below);
            }
            return Err(failure);
        }
        if found.is_none() {
            reservation.keep(cost(0));
        }
        Ok(Attempt::Locked(lock, found))
    }
}

impl<'a> Exchange<'a> {
    pub(super) async fn lock(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
    ) -> Result<Response, Problem> {
        let extent = match self.depth()? {
            Depth::Zero => Extent::Resource,
            Depth::Infinity => Extent::Tree,
            Depth::One => return Err(Status::BAD_REQUEST.into()),
        };
        let most = target.route.publishing.lock.as_secs();
        let expires = self.now.saturating_add_unsigned(timeout(self.head.value("timeout"), most));
        let body = self.small_body().await?;
        let present = self.present(target).await?;
        match present.found {
            Some(Found::Other) => return Err(Status::FORBIDDEN.into()),
            Some(Found::File(_)) if target.path.is_folder() => return Err(Status::NOT_FOUND.into()),
            _ => {}
        }
        let terms = self.terms(request, target, &present).await?;
        if body.is_empty() {
            let lock = self.renew_lock(target, terms, expires).await?;
            return Ok(self.locked(target, &lock, Status::OK, present.found));
        }
        let LockInfo { scope, owner } = LockInfo::parse(&body).map_err(rejected)?;
        if owner.len() > MAX_OWNER {
            return Err(Status::CONTENT_TOO_LARGE.into());
        }
        if present.found.is_none() && target.path.is_folder() {
            return Err(Status::CONFLICT.into());
        }
        // RFC 4918 §7.3: a lock on nothing makes an empty file. And a client does not lock others out of what it may not
        // change.
        self.may_do(request, &target.path, Use::Write, Kind::File).await?;
        if let Some(Found::Folder(_)) = present.found
            && extent == Extent::Tree
            && self.decides_by_path()
        {
            self.check_members(target, Use::Write).await?;
        }
        let new = NewLock { below: target.below.clone(), extent, scope, owner, expires };
        let mut reservation = self.reserve(target, 0).await?;
        let add = move |guard: &Guard| new.add(guard, &terms, &mut reservation);
        match self.changing(target, add).await? {
            Attempt::Excluded(member) => {
                let body = multistatus::error("no-conflicting-lock", Some(&target.href_of(&member)));
                Ok(self.xml(target.route, Status::LOCKED, &body))
            }
            Attempt::ExcludedBeneath(members) => {
                let body = excluded_beneath(target, &members, present.found);
                Ok(self.xml(target.route, Status::MULTI_STATUS, &body))
            }
            Attempt::Locked(lock, None) => {
                self.announce_change().await;
                Ok(self.locked(target, &lock, Status::CREATED, None))
            }
            Attempt::Locked(lock, found) => Ok(self.locked(target, &lock, Status::OK, found)),
        }
    }

    /// LOCK without a body: the lock that the client has lasts until `expires`.
    async fn renew_lock(&self, target: &Target<'a>, terms: Terms, expires: i64) -> Result<Lock, Problem> {
        if terms.holder.tokens.is_empty() {
            return Err(Status::BAD_REQUEST.into());
        }
        let below = target.below.clone();
        let renew = move |guard: &Guard| {
            let (mut locks, _) = guard.check_terms(&terms, &below)?;
            let lock = locks.held(below.as_str(), &terms.holder).ok_or(Failure::Precondition)?;
            lock.expires = expires;
            let lock = lock.clone();
            guard.write_locks(&locks)?;
            Ok(lock)
        };
        self.changing(target, renew).await
    }

    /// Whether rules or authorizers may decide otherwise about what is in a folder than about the folder.
    fn decides_by_path(&self) -> bool {
        self.responder.needs.rules || self.responder.needs.authorizers
    }

    fn locked(&self, target: &Target<'_>, lock: &Lock, status: Status, found: Option<Found>) -> Response {
        let kind = match found {
            Some(Found::Folder(_)) => Kind::Folder,
            // A lock that is renewed may be that of a folder above.
            _ if lock.path != target.below.as_str() => Kind::Folder,
            _ => Kind::File,
        };
        let body = multistatus::lock_response(lock, &target.href(&lock.path, kind), self.now);
        let head = HeadWriter::new(self.services, Some(target.route), status)
            .field("Content-Type", multistatus::CONTENT_TYPE)
            .field("Lock-Token", format!("<{}>", lock.token));
        Response::from_head(head.finish_whole(body.as_bytes()))
    }

    pub(super) async fn unlock(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
    ) -> Result<Response, Problem> {
        let token = self.head.only("lock-token").and_then(coded_url).ok_or(Status::BAD_REQUEST)?.to_owned();
        let (below, mut terms) = (target.below.clone(), self.terms_of_if(request, target).await?);
        terms.holder.tokens.push(token.clone());
        let remove = move |guard: &Guard| {
            let (mut locks, _) = guard.check_terms(&terms, &below)?;
            let Some(lock) = locks.on(below.as_str()).find(|lock| lock.token == token) else {
                return Ok(false);
            };
            if !lock.is_of(&terms.holder) {
                return Err(Failure::Denied);
            }
            locks.remove(&token);
            guard.write_locks(&locks).map(|()| true)
        };
        match self.changing(target, remove).await? {
            true => Ok(self.without_content(target, Status::NO_CONTENT)),
            false => Err(Problem::Precondition(Status::CONFLICT, "lock-token-matches-request-uri")),
        }
    }
}

/// RFC 4918 §9.10.9: the locked members, and the resource, which is not locked because of them.
fn excluded_beneath(target: &Target<'_>, members: &[Member], found: Option<Found>) -> String {
    let mut body = multistatus::BEGIN.to_owned();
    for member in members {
        multistatus::status(&target.href_of(member), Status::LOCKED, &mut body);
    }
    multistatus::status(&target.own_href(found), Status::FAILED_DEPENDENCY, &mut body);
    body.push_str(multistatus::END);
    body
}

/// Errors: `NoFolder`, `NoSpace`.
fn make_empty_file(store: &Store, path: &Below, reservation: &mut Reservation) -> Result<(), Failure> {
    if !reservation.grow_to(cost(0)) {
        return Err(Failure::NoSpace);
    }
    let (folder, name) = store.folder_for(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    calls::create_with(&folder, name, flags, store.file_mode())?;
    Ok(())
}

/// Removes what `make_empty_file` has just made.
fn remove_empty_file(store: &Store, path: &Below) {
    // If that fails, an empty file is left.
    _ = store.folder_for(path).map(|(folder, name)| calls::unlink(&folder, name));
}
