//! PUT: a file is written while it is received, and takes the place of the old one when it is whole.

use std::time::Instant;

use site::publishing::{MissingFolders, Sync};
use taipan_http::fields::trim_ows;
use taipan_http::framing::Framing;
use taipan_http::head::Version;
use taipan_http::rule::{BODY_TOO_LARGE, CODED_FILE, PART_OF_A_FILE};
use taipan_http::status::Status;

use super::{Exchange, Problem, Target, Use};
use crate::buffer::append;
use crate::disk::Work;
use crate::files::stat_etag;
use crate::publishing::failure::Failure;
use crate::publishing::new_file::{NewFile, Stored};
use crate::publishing::store::{Found, Guard, Store, Terms, cost_of_file, without_slash};
use crate::publishing::tree::{self, Kind, Member};
use crate::publishing::usage::{self, Reservation, cost};
use crate::request::Request;
use crate::request::body::{Length, Rejection};
use crate::response::Response;
use crate::response_head::HeadWriter;

/// Bytes that are written at once. One more read brings a buffer to the size that a response may have at most.
const PIECE: usize = 32 * 1024;

/// Content that is written at once.
pub(super) struct Piece {
    pub bytes: Vec<u8>,
    pub is_last: bool,
}

impl<'a> Exchange<'a> {
    pub(super) async fn put(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
    ) -> Result<Response, Problem> {
        self.check_content(target)?;
        let terms = self.terms_of_fields(request, target).await?;
        self.prepare(target, &terms).await?;
        if super::resumable::is_offered(target.route)
            && let Some(part) = self.upload_part()
        {
            return self.begin_upload(request, target, terms, part).await;
        }
        let reservation = self.reserve(target, cost(self.body.length().known().unwrap_or(0))).await?;
        let (new, reservation) = self.receive(target, reservation).await?;
        self.store(target, terms, new, reservation).await
    }

    /// Gives a whole file its name.
    pub(super) async fn store(
        &self,
        target: &Target<'a>,
        terms: Terms,
        new: NewFile,
        reservation: Reservation,
    ) -> Result<Response, Problem> {
        let length = new.length;
        let stored = self.commit(target, terms, new).await?;
        reservation.store(cost(length), cost_of_file(stored.replaced));
        self.announce_change().await;
        Ok(self.stored(target, &stored))
    }

    /// Gives a file its name when the disk has it, and makes the folders that are missing.
    pub(super) async fn commit(
        &self,
        target: &Target<'a>,
        terms: Terms,
        new: NewFile,
    ) -> Result<Stored, Problem> {
        let new = match target.store.settings.sync {
            Sync::Disk => self.on_disk(&target.store, move |_| new.sync().map(|()| new)).await?,
            Sync::Kernel => new,
        };
        let below = target.below.clone();
        let most = self.folders_to_make(target).await?;
        let mut folders = self.reserve(target, 0).await?;
        let commit = move |guard: &Guard| {
            if most > 0 {
                // A request that is rejected leaves no folders.
                guard.check_write(&terms, &below)?;
                guard.make_folders(&terms, &below, |count| {
                    // Another request has removed one meanwhile, of which the rules were not asked.
                    if count > most {
                        return Err(Failure::Denied);
                    }
                    let bytes = count * cost(0);
                    let has_space = folders.grow_to(bytes);
                    folders.keep(bytes);
                    if has_space { Ok(()) } else { Err(Failure::NoSpace) }
                })?;
            }
            new.commit(guard, &terms, &below)
        };
        self.changing(target, commit).await
    }

    pub(super) fn stored(&self, target: &Target<'_>, stored: &Stored) -> Response {
        let status = if stored.replaced.is_some() { Status::NO_CONTENT } else { Status::CREATED };
        let tag = target.has_stat_tags().then(|| stat_etag(&stored.stamp, ""));
        let head = HeadWriter::new(self.services, Some(target.route), status).optional("ETag", tag);
        let head = if status == Status::CREATED { head.length(0) } else { head };
        Response::from_head(head.finish())
    }

    /// Errors: the request has no content that could be stored as it is.
    fn check_content(&self, target: &Target<'_>) -> Result<(), Problem> {
        if target.path.is_folder() || target.is_root() {
            return Err(Status::METHOD_NOT_ALLOWED.into());
        }
        // RFC 9112 §6.3: what follows the head would be lost, and the file empty. HTTP/2 tells where content ends.
        if self.head.framing == Framing::None && self.head.version != Version::Http2 {
            return Err(Status::LENGTH_REQUIRED.into());
        }
        // RFC 9110 §14.5: a part must not be taken for the whole.
        if self.head.value("content-range").is_some() {
            return Err((Status::BAD_REQUEST, PART_OF_A_FILE).into());
        }
        let is_plain = |value: &[u8]| trim_ows(value).eq_ignore_ascii_case(b"identity");
        if !self.head.values("content-encoding").all(is_plain) {
            return Err((Status::UNSUPPORTED_MEDIA_TYPE, CODED_FILE).into());
        }
        match self.body.length() {
            Length::Sized(bytes) if bytes > target.route.max_body => {
                Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into())
            }
            _ => Ok(()),
        }
    }

    /// Checks whether the content could be stored, before it is received.
    async fn prepare(&self, target: &Target<'a>, terms: &Terms) -> Result<(), Problem> {
        let length = self.body.length().known().unwrap_or(0);
        let (terms, below) = (terms.clone(), target.below.clone());
        let made = self.folders_to_make(target).await?;
        // Given back at once: they are made when the file is whole.
        self.reserve(target, made * cost(0)).await?;
        let prepare = move |guard: &Guard| {
            let found = guard.check_write(&terms, &below)?;
            match found {
                Some(Found::Folder(_)) => return Err(Failure::Exists),
                Some(Found::Other) => return Err(Failure::Denied),
                Some(Found::File(_)) | None => {}
            }
            guard.store.check_space(length)?;
            if made > 0 {
                guard.check_folders(&terms, &below)?;
            } else if found.is_none() {
                // What is there has a folder.
                guard.store.folder_for(&below)?;
            }
            Ok(())
        };
        self.changing(target, prepare).await
    }

    /// The number of folders that lead to the target, are missing, and will be made. Errors: the request may not make
    /// one of them.
    async fn folders_to_make(&self, target: &Target<'a>) -> Result<u64, Problem> {
        if target.store.settings.missing_folders != MissingFolders::Made {
            return Ok(0);
        }
        let below = target.below.clone();
        let missing = self.on_disk(&target.store, move |store| store.missing_folders(&below)).await?;
        for folder in &missing {
            let folder = Member { path: without_slash(folder)?, kind: Kind::Folder };
            if !self.may_use(target, &folder, Use::Write) {
                return Err(Status::FORBIDDEN.into());
            }
        }
        Ok(missing.len() as u64)
    }

    /// Reserves the space of an upload within the quota.
    pub(super) async fn reserve(&self, target: &Target<'_>, bytes: u64) -> Result<Reservation, Problem> {
        let (store, quota) = (&target.store, target.route.publishing.quota);
        let root = &store.root.path;
        if quota.is_some() && usage::must_count(root, Instant::now()) {
            let (store, began) = (store.clone(), Instant::now());
            let work = move || {
                tree::count(&store).inspect(|bytes| {
                    usage::counted(&store.root.path, *bytes, Instant::now(), began.elapsed());
                })
            };
            let counted = self.services.disk.run(target.store.root.device, Work::Listing, work).await;
            // A count that takes too long continues on its thread, and this request gets 503.
            counted.map_err(Problem::Busy)??;
        }
        let mut reservation = Reservation::new(root, quota);
        if reservation.grow_to(bytes) { Ok(reservation) } else { Err(Failure::NoSpace.into()) }
    }

    /// Writes the content of the request to a new file, as fast as the disk takes it.
    async fn receive(
        &self,
        target: &Target<'_>,
        mut reservation: Reservation,
    ) -> Result<(NewFile, Reservation), Problem> {
        let mut begun: Option<NewFile> = None;
        loop {
            let Piece { bytes, is_last } = self.next_piece(target).await?;
            let new = match begun {
                Some(new) if bytes.is_empty() => return Ok((new, reservation)),
                begun => begun,
            };
            let length = new.as_ref().map_or(0, |new| new.length) + bytes.len() as u64;
            if !reservation.grow_to(cost(length)) {
                return Err(Failure::NoSpace.into());
            }
            let write = move |store: &Store| {
                let mut new = new.map_or_else(|| NewFile::create(store), Ok)?;
                new.write(store, &bytes).map(|()| new)
            };
            let new = self.on_disk(&target.store, write).await?;
            if is_last {
                return Ok((new, reservation));
            }
            begun = Some(new);
        }
    }

    /// The next bytes of the content.
    pub(super) async fn next_piece(&self, target: &Target<'_>) -> Result<Piece, Rejection> {
        let mut bytes = Vec::new();
        while bytes.len() < PIECE {
            match self.body.read(target.route.max_body).await? {
                Some(more) if bytes.is_empty() => bytes = more,
                Some(more) => append(&mut bytes, &more),
                None => return Ok(Piece { bytes, is_last: true }),
            }
        }
        Ok(Piece { bytes, is_last: false })
    }
}
