//! MKCOL and DELETE.

use dav::fields::Depth;
use dav::locks::Touch;
use rustix::io::Errno;
use taipan_http::status::Status;

use super::{Exchange, Problem, Target, Use};
use crate::publishing::failure::Failure;
use crate::publishing::store::{Found, Guard};
use crate::publishing::usage::cost;
use crate::request::Request;
use crate::request::body::Length;
use crate::response::Response;
use crate::response_head::HeadWriter;
use crate::sys::calls;

impl<'a> Exchange<'a> {
    pub(super) async fn make_folder(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
    ) -> Result<Response, Problem> {
        let has_content = match self.body.length() {
            Length::None | Length::Sized(0) => false,
            Length::Sized(_) => true,
            Length::Unknown => !self.small_body().await?.is_empty(),
        };
        if has_content {
            // RFC 4918 §9.3.1: no content has a meaning here.
            return Err(Status::UNSUPPORTED_MEDIA_TYPE.into());
        }
        if target.is_root() {
            return Err(Status::METHOD_NOT_ALLOWED.into());
        }
        let present = self.present(target).await?;
        let terms = self.terms(request, target, &present).await?;
        let reservation = self.reserve(target, cost(0)).await?;
        let below = target.below.clone();
        let make = move |guard: &Guard| {
            let store = &guard.store;
            if guard.check(&terms, &below, Touch::Name)?.is_some() {
                return Err(Failure::Exists);
            }
            let (folder, name) = store.folder_for(&below)?;
            match calls::make_folder_with(&folder, name, store.folder_mode()) {
                Err(Errno::EXIST) => return Err(Failure::Exists),
                made => made?,
            }
            guard.discard_properties(&below)?;
            store.sync_folder(&folder)
        };
        self.changing(target, make).await?;
        reservation.store(cost(0), 0);
        self.announce_change().await;
        self.empty_trash(&target.store);
        Ok(self.without_content(target, Status::CREATED))
    }

    pub(super) async fn delete(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
    ) -> Result<Response, Problem> {
        let depth = self.depth()?;
        if target.is_root() {
            return Err(Status::FORBIDDEN.into());
        }
        let present = self.present(target).await?;
        let is_folder = match present.found {
            None => return Err(Status::NOT_FOUND.into()),
            Some(Found::Folder(_)) => true,
            Some(_) if target.path.is_folder() => return Err(Status::NOT_FOUND.into()),
            Some(_) => false,
        };
        if is_folder && (!target.route.publishing.is_dav() || depth != Depth::Infinity) {
            // RFC 4918 §9.6.1. Without WebDAV, only files are deleted.
            let status = if depth == Depth::Infinity { Status::FORBIDDEN } else { Status::BAD_REQUEST };
            return Err(status.into());
        }
        let terms = self.terms(request, target, &present).await?;
        if is_folder {
            self.check_members(target, Use::Remove).await?;
        }
        let below = target.below.clone();
        let discard = move |guard: &Guard| {
            if guard.check(&terms, &below, Touch::Tree)?.is_none() {
                return Err(Failure::Missing);
            }
            guard.discard(&below)?;
            guard.remove_locks(&below)
        };
        self.changing(target, discard).await?;
        self.announce_change().await;
        self.empty_trash(&target.store);
        Ok(self.without_content(target, Status::NO_CONTENT))
    }

    pub(super) fn without_content(&self, target: &Target<'_>, status: Status) -> Response {
        let head = HeadWriter::new(self.services, Some(target.route), status);
        let head = if status.allows_body() { head.length(0) } else { head };
        Response::from_head(head.finish())
    }
}
