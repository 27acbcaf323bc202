//! COPY and MOVE.

use dav::fields::{Depth, Overwrite};
use dav::locks::Touch;
use dav::method::Method;
use rustix::fs::RenameFlags;
use site::model::Symlinks;
use taipan_http::rule::{DESTINATION_OVERLAPS, DESTINATION_ROOT};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::{Exchange, Problem, Target, Use};
use crate::files::beneath::{self, Root, Wait};
use crate::publishing::failure::Failure;
use crate::publishing::new_file::NewFile;
use crate::publishing::store::{Below, Found, Guard, Store, Terms, check_length, cost_of_file};
use crate::publishing::tree::{
    CopiedFolder, FolderCopy, Kind, Member, Progress, PropertyCopy, Reach, Snapshot, below, put_in_place,
    snapshot,
};
use crate::publishing::usage::{self, cost};
use crate::request::Request;
use crate::response::Response;
use crate::sys::calls;

/// What the request has seen at its destination, and whether it may replace it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    there: Option<Found>,
    overwrite: Overwrite,
}

/// A COPY or MOVE that has passed all checks.
struct Transfer<'a> {
    method: Method,
    to: Target<'a>,
    /// How much of a folder is copied or moved. `None`: it is a file.
    reach: Option<Depth>,
    terms: Terms,
    seen: Seen,
}

impl<'a> Exchange<'a> {
    pub(super) async fn transfer(
        &mut self,
        request: Request<'_>,
        from: &Target<'a>,
        method: Method,
    ) -> Result<Response, Problem> {
        let transfer = self.check_transfer(request, from, method).await?;
        let replaced = match self.carry_out(from, &transfer).await {
            Ok(replaced) => replaced,
            Err((of, problem)) => return Ok(self.respond_to_problem(from.route, of, problem).await),
        };
        self.announce_change().await;
        self.empty_trash(&transfer.to.store);
        let status = if replaced.is_some() { Status::NO_CONTENT } else { Status::CREATED };
        Ok(self.without_content(&transfer.to, status))
    }

    async fn check_transfer(
        &mut self,
        request: Request<'_>,
        from: &Target<'a>,
        method: Method,
    ) -> Result<Transfer<'a>, Problem> {
        let depth = self.depth()?;
        let is_valid = depth == Depth::Infinity || (method == Method::Copy && depth == Depth::Zero);
        let overwrite = Overwrite::parse(self.value("overwrite")?).filter(|_| is_valid);
        let overwrite = overwrite.ok_or(Status::BAD_REQUEST)?;
        let destination = self.head.only("destination").ok_or(Status::BAD_REQUEST)?;
        let path = self.local_path(request, destination)?;
        let to = self.destination(request, &path).await?;
        let present = self.present(from).await?;
        let kind = match present.found {
            None => return Err(Status::NOT_FOUND.into()),
            Some(Found::Other) => return Err(Status::FORBIDDEN.into()),
            Some(Found::File(_)) if from.path.is_folder() => return Err(Status::NOT_FOUND.into()),
            Some(Found::File(_)) => Kind::File,
            Some(Found::Folder(_)) => Kind::Folder,
        };
        check_places(from, &to, method)?;
        // What is moved can be read at its new place.
        self.may_do(request, &from.path, Use::Read, kind).await?;
        if method == Method::Move {
            self.may_do(request, &from.path, Use::Remove, kind).await?;
        }
        let terms = self.terms(request, from, &present).await?;
        let there = self.present(&to).await?.found;
        if there.is_some() && overwrite == Overwrite::Forbidden {
            return Err(Status::PRECONDITION_FAILED.into());
        }
        if to.path.is_folder() {
            self.check_slash(&to, kind, there)?;
        }
        let of_target = match (kind, there) {
            // As PUT replaces a file.
            (Kind::File, Some(Found::File(_))) | (_, None) => &[Use::Write][..],
            (_, Some(_)) => &[Use::Write, Use::Remove],
        };
        for what in of_target {
            self.may_do(request, &to.path, *what, kind).await?;
        }
        if let Some(Found::Folder(_)) = there {
            self.check_members(&to, Use::Remove).await?;
        }
        if method == Method::Move && kind == Kind::Folder {
            self.check_moved(from, &to).await?;
        }
        let reach = (kind == Kind::Folder).then_some(depth);
        Ok(Transfer { method, to, reach, terms, seen: Seen { there, overwrite } })
    }

    /// Returns what it has replaced. Errors: the source or the destination, and its problem.
    async fn carry_out<'t>(
        &self,
        from: &'t Target<'a>,
        transfer: &'t Transfer<'a>,
    ) -> Result<Option<Found>, (&'t Target<'a>, Problem)> {
        let of_source = |problem| (from, problem);
        let of_destination = |problem| (&transfer.to, problem);
        if transfer.method != Method::Move {
            return self.copy(from, transfer).await.map_err(of_destination);
        }
        if from.store.root.is_same(&transfer.to.store.root) {
            return self.rename(from, transfer).await.map_err(of_destination);
        }
        let below = from.below.clone();
        let before = self.on_disk(&from.store, move |store| snapshot(store, &below)).await;
        let before = before.map_err(of_source)?;
        let replaced = self.copy(from, transfer).await.map_err(of_destination)?;
        self.discard_source(from, transfer.terms.clone(), before).await.map_err(of_source)?;
        Ok(replaced)
    }

    /// The resource at the destination. Errors: the request may not write there.
    async fn destination(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'static>,
    ) -> Result<Target<'a>, Problem> {
        if self.responder.needs.rules {
            self.enforce(request, |exchange| exchange.check_access(path)).await?;
        }
        if self.responder.needs.authorizers {
            self.authorize_destination(request, path).await?;
        }
        let to = self.target(path).await.map_err(|_| Status::FORBIDDEN)?;
        to.route.publishing.permits(Method::Copy).map_err(|_| Status::FORBIDDEN)?;
        Ok(to)
    }

    /// Calls the authorizers of a destination. They decide by the path: those that have let the source pass are asked
    /// again, and all about the destination. Errors: the response of the one that does not let the request pass.
    async fn authorize_destination(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'static>,
    ) -> Result<(), Problem> {
        let target = path.encoded();
        let head = request.head.with_target(&target).ok_or(Status::BAD_REQUEST)?;
        let of_source = std::mem::take(&mut self.grants.authorized_by);
        let planned = self.plan(path.clone()).route;
        let asked = self.authorize(Request { head: &head, ..request }, path, planned).await;
        self.grants.authorized_by.extend(of_source);
        Ok(asked?)
    }

    /// Checks a destination with a slash at its end, which has to be a folder, or to become one. A file may replace a
    /// folder there if it may be written: its path, which has no slash, may have another route.
    fn check_slash(&self, to: &Target<'a>, kind: Kind, there: Option<Found>) -> Result<(), Problem> {
        let becomes = Member { path: to.below.clone(), kind: Kind::File };
        match there {
            Some(Found::File(_) | Found::Other) => Err(Status::CONFLICT.into()),
            None if kind == Kind::File => Err(Status::CONFLICT.into()),
            Some(Found::Folder(_)) if kind == Kind::File && !self.may_use(to, &becomes, Use::Write) => {
                Err(Status::FORBIDDEN.into())
            }
            _ => Ok(()),
        }
    }

    /// Errors: the request may not move something beneath the folder of `from`, or not to its new place.
    async fn check_moved(&self, from: &Target<'a>, to: &Target<'a>) -> Result<(), Problem> {
        let check = |exchange: &Exchange<'a>, member: Member| {
            let moved = at_destination(&member, from, to)?;
            let may = exchange.may_use(from, &member, Use::Read)
                && exchange.may_use(from, &member, Use::Remove)
                && exchange.may_use(to, &moved, Use::Write);
            if may { Ok(()) } else { Err(Status::FORBIDDEN.into()) }
        };
        self.scan(from, Reach::Tree, check).await.map(drop)
    }

    async fn rename(&self, from: &Target<'a>, transfer: &Transfer<'a>) -> Result<Option<Found>, Problem> {
        let &Transfer { ref to, ref terms, seen, .. } = transfer;
        let (source, target, terms) = (from.below.clone(), to.below.clone(), terms.clone());
        let rename = move |guard: &Guard| {
            let store = &guard.store;
            let moved = guard.check(&terms, &source, Touch::Tree)?.ok_or(Failure::Missing)?;
            let there = check_there(guard, &terms, &target, seen)?;
            let (folder, name) = store.folder_of(&source)?;
            match (moved, there) {
                // Two names of one file: rename(2) would leave both.
                (Found::File(own), Some(Found::File(other)))
                    if (own.device, own.inode) == (other.device, other.inode) =>
                {
                    calls::unlink(&folder, name)?;
                }
                // The kernel replaces one file by another at once.
                (Found::File(_), Some(Found::File(_) | Found::Other)) => {
                    let (other, last) = store.folder_of(&target)?;
                    calls::rename_between(&folder, name, &other, last, RenameFlags::empty())?;
                    usage::removed(&store.root.path, cost_of_file(there));
                    store.sync_folder(&other)?;
                }
                // What it replaces counts until it is removed from the trash.
                _ => put_in_place(store, &folder, name, &target, there)?,
            }
            store.sync_folder(&folder)?;
            guard.move_properties(&source, &target)?;
            guard.remove_locks(&source)?;
            Ok(there)
        };
        self.changing(to, rename).await
    }

    async fn copy(&self, from: &Target<'a>, transfer: &Transfer<'a>) -> Result<Option<Found>, Problem> {
        let Transfer { to, reach, terms, .. } = transfer;
        let (source, checked) = (from.below.clone(), terms.clone());
        let is_moved = transfer.method == Method::Move;
        let check = move |guard: &Guard| match guard.check(&checked, &source, Touch::Tree) {
            // The locks of what is only copied do not matter: it does not change.
            Err(Failure::Locked(_)) if !is_moved => Ok(()),
            found => found.map(drop),
        };
        self.changing(from, check).await?;
        let Some(depth) = reach else {
            let properties = self.copy_properties(from, to, Vec::new()).await?;
            return self.copy_file(from, transfer, properties).await;
        };
        let (base, members) = match depth {
            Depth::Infinity => self.members(from, Reach::Tree, Use::Read).await?,
            Depth::Zero | Depth::One => {
                let below = from.below.clone();
                let open = move |store: &Store| Ok(store.root.beneath(&below, Symlinks::Never)?);
                (self.on_disk(&from.store, open).await?, Vec::new())
            }
        };
        self.check_copied(from, to, &members)?;
        let properties = self.copy_properties(from, to, members.clone()).await?;
        self.copy_tree(from, transfer, base, members, properties).await
    }

    /// Copies the properties of a resource and its members to a place beside their own.
    async fn copy_properties(
        &self,
        from: &Target<'a>,
        to: &Target<'a>,
        members: Vec<Member>,
    ) -> Result<PropertyCopy, Problem> {
        let (source, base) = (from.store.clone(), from.below.clone());
        let begin = move |store: &Store| PropertyCopy::begin(source, base, store.clone(), &members);
        let copy = self.on_disk(&to.store, begin).await?;
        self.in_steps(&to.store, copy, |copy, _| copy.step()).await
    }

    /// Carries out all steps of `work`, each on a helper thread.
    async fn in_steps<W: Send + 'static>(
        &self,
        store: &Store,
        mut work: W,
        step: fn(&mut W, &Store) -> Result<Progress, Failure>,
    ) -> Result<W, Problem> {
        loop {
            let one = move |store: &Store| step(&mut work, store).map(|progress| (work, progress));
            let progress;
            (work, progress) = self.on_disk(store, one).await?;
            if progress == Progress::Done {
                return Ok(work);
            }
        }
    }

    /// Errors: the request may not have something at its new place.
    fn check_copied(&self, from: &Target<'a>, to: &Target<'a>, members: &[Member]) -> Result<(), Problem> {
        for member in members {
            let copied = at_destination(member, from, to)?;
            if member.kind != Kind::Other && !self.may_use(to, &copied, Use::Write) {
                return Err(Status::FORBIDDEN.into());
            }
        }
        Ok(())
    }

    async fn copy_file(
        &self,
        from: &Target<'a>,
        transfer: &Transfer<'a>,
        mut properties: PropertyCopy,
    ) -> Result<Option<Found>, Problem> {
        let &Transfer { ref to, ref terms, seen, .. } = transfer;
        let (root, source, rule) = (from.store.root.clone(), from.below.clone(), Symlinks::Never);
        let open = move |_: &Store| {
            let source = beneath::open(&root, &source, rule, beneath::READ, Wait::Allowed)?;
            root.check_visible(&source)?;
            Ok(source)
        };
        let source = self.on_disk(&from.store, open).await?;
        let reservation = self.reserve(to, 0).await?;
        let new = self.on_disk(&to.store, NewFile::create).await?;
        let copied = self.in_steps(&to.store, (new, source, reservation), |copy, store| {
            let (new, source, reservation) = copy;
            new.copy_step(store, source, reservation)
        });
        let (mut new, _, reservation) = copied.await?;
        let (target, terms, length) = (to.below.clone(), terms.clone(), new.length);
        let commit = move |guard: &Guard| {
            let store = &guard.store;
            let there = check_there(guard, &terms, &target, seen)?;
            properties.prepare(guard, &target)?;
            match there {
                Some(Found::Folder(_)) => new.replace_folder(store, &target, there)?,
                _ => _ = new.take_place(store, &target, there)?,
            }
            properties.commit(guard, &target)?;
            Ok(there)
        };
        let there = self.changing(to, commit).await?;
        reservation.store(cost(length), cost_of_file(there));
        Ok(there)
    }

    async fn copy_tree(
        &self,
        from: &Target<'a>,
        transfer: &Transfer<'a>,
        base: Root,
        members: Vec<Member>,
        mut properties: PropertyCopy,
    ) -> Result<Option<Found>, Problem> {
        let &Transfer { ref to, ref terms, seen, .. } = transfer;
        let reservation = self.reserve(to, 0).await?;
        let folder = CopiedFolder { store: from.store.clone(), path: from.below.clone(), base };
        let begin = move |store: &Store| FolderCopy::begin(folder, store.clone(), members, reservation);
        let copy = self.on_disk(&to.store, begin).await?;
        let mut copy = self.in_steps(&to.store, copy, |copy, _| copy.step()).await?;
        let (terms, target) = (terms.clone(), to.below.clone());
        let commit = move |guard: &Guard| {
            let there = check_there(guard, &terms, &target, seen)?;
            properties.prepare(guard, &target)?;
            copy.commit(&target, there)?;
            properties.commit(guard, &target)?;
            Ok((copy, there))
        };
        let (copy, replaced) = self.changing(to, commit).await?;
        copy.settle();
        Ok(replaced)
    }

    /// Removes what was copied. Errors: it has changed since `before`, when the copy began.
    async fn discard_source(&self, from: &Target<'a>, terms: Terms, before: Snapshot) -> Result<(), Problem> {
        let below = from.below.clone();
        let discard = move |guard: &Guard| {
            guard.check(&terms, &below, Touch::Tree)?.ok_or(Failure::Missing)?;
            if snapshot(&guard.store, &below)? != before {
                return Err(Failure::Busy);
            }
            guard.discard(&below)?;
            guard.remove_locks(&below)
        };
        self.changing(from, discard).await?;
        self.empty_trash(&from.store);
        Ok(())
    }
}

/// What is at the destination. Errors: locks on it, or it is not to be replaced.
fn check_there(guard: &Guard, terms: &Terms, target: &Below, seen: Seen) -> Result<Option<Found>, Failure> {
    let there = guard.store.find(target)?;
    // The members of a folder that was made since then have not been checked.
    let is_new_folder =
        matches!(there, Some(Found::Folder(_))) && !matches!(seen.there, Some(Found::Folder(_)));
    if is_new_folder || (there.is_some() && seen.overwrite == Overwrite::Forbidden) {
        return Err(Failure::Precondition);
    }
    let touch = if there.is_some() { Touch::Tree } else { Touch::Name };
    guard.check_destination(terms, target, touch)?;
    guard.store.folder_for(target).map(|_| there)
}

/// What something beneath `from` becomes beneath `to`. Errors: no client can request its path.
fn at_destination(member: &Member, from: &Target<'_>, to: &Target<'_>) -> Result<Member, Problem> {
    let relative = below(&member.path, &from.below)?;
    let path = SafePath::from_decoded(&["/", to.below.as_str(), "/", relative.as_str()].concat());
    let path = path.map_err(|_| Status::FORBIDDEN)?;
    check_length(&path)?;
    Ok(Member { path, kind: member.kind })
}

/// Errors: a folder cannot be moved or copied into itself, nor replace one that it is in; and the root stays what it
/// is.
fn check_places(from: &Target<'_>, to: &Target<'_>, method: Method) -> Result<(), Problem> {
    if to.is_root() || (from.is_root() && method == Method::Move) {
        return Err((Status::FORBIDDEN, DESTINATION_ROOT).into());
    }
    // A link may lead from one root into another.
    let place = |target: &Target<'_>| target.store.root.path.join(target.below.as_str());
    let (from, to) = (place(from), place(to));
    if from.starts_with(&to) || to.starts_with(&from) {
        Err((Status::FORBIDDEN, DESTINATION_OVERLAPS).into())
    } else {
        Ok(())
    }
}
