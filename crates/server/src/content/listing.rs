//! Listings of folders without an index file. A helper thread reads and renders them. A listing of ordinary size is
//! cached until its folder changes. A large one is rendered while it is sent.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::{Errno, retry_on_intr};
use site::listing::{
    CONTENT_SECURITY_POLICY, Entry, EntryKind, Extent, FirstNames, Format, Page, Progress, Renderer,
    SortOrder, is_listed,
};
use site::model::{Dotfiles, Route, Symlinks};
use taipan_http::conditional::Verdict;
use taipan_http::head::Method;
use taipan_http::negotiate::Coding;
use taipan_http::path_text;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::{compress, fixed};
use crate::disk::{Busy, Device, DevicePermit, Work};
use crate::encoder::{self, Effort};
use crate::files::HostKey;
use crate::files::beneath::{self, OpenError, Root, Wait};
use crate::files::open::Stamp;
use crate::files::{Files, ListingPage};
use crate::response::{Body, BodyStream, NextChunk, Response};
use crate::response_head::{DatedHead, HeadWriter};
use crate::services::Services;
use crate::sys::calls;

/// A listing of up to this fraction of the cache is sent with its length, and cached.
const FRACTION_OF_CACHE: usize = 8;

/// Names of one folder that are read at most, to find the first of them.
const MAX_NAMES: u64 = 1_000_000;

/// A request for a listing.
#[derive(Clone)]
pub struct Query {
    pub host: HostKey,
    /// Of the request, decoded.
    pub path: SafePath<'static>,
    pub root: Root,
    /// The folder beneath the root.
    pub below: SafePath<'static>,
    pub folder: Stamp,
    pub order: SortOrder,
    pub format: Format,
    /// `None`: listings are not compressed.
    pub coding: Option<Coding>,
    /// The result of the preconditions. It counts only if the listing succeeds (RFC 9110 §13.2.1).
    pub preconditions: Verdict,
}

/// A listing that is rendered while it is sent.
struct ListingStream {
    /// Rendered already.
    first: Vec<u8>,
    rest: Option<Renderer>,
    device: Device,
    _permit: DevicePermit,
}

impl BodyStream for ListingStream {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_chunk(services))
    }
}

impl ListingStream {
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        if !self.first.is_empty() {
            return Ok(Some(std::mem::take(&mut self.first)));
        }
        let Some(mut renderer) = self.rest.take() else { return Ok(None) };
        let work = move || {
            let mut chunk = Vec::new();
            let progress = renderer.render(&mut chunk);
            (renderer, chunk, progress)
        };
        let done = services.disk.run(self.device, Work::Listing, work).await;
        let (renderer, chunk, progress) = done.map_err(|_| io::Error::other("no helper thread"))?;
        self.rest = (progress == Progress::More).then_some(renderer);
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

/// The response, if the listing is in the cache and still valid.
pub fn cached(files: &Files, query: &Query, now: i64) -> Option<Response> {
    let services = &files.services;
    let page = files.listing(query.host, &key(query), &query.folder, now)?;
    let route = services.route(query.host.host(), &query.path);
    Some(conditional(services, route, query, Response::from_head(page.response.get(&services.clock))))
}

/// Which entries of a folder a client may know of.
pub struct Filter<'a> {
    pub may_know: &'a mut dyn FnMut(&SafePath<'_>) -> bool,
    pub protected: Protected,
}

/// What becomes of folders that have a password file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protected {
    Listed,
    LeftOut,
}

/// Entries that are filtered in one turn of the loop.
const FILTERED_PER_TURN: usize = 256;

/// Reads and renders the listing. One that is filtered is not cached.
pub async fn list(files: &Files, query: Query, filter: Option<Filter<'_>>) -> Response {
    let services = &files.services;
    let route = services.route(query.host.host(), &query.path);
    match render(files, route, &query, filter).await {
        Ok(response) => conditional(services, route, &query, response),
        Err(status) => fixed::status(services, Some(route), status),
    }
}

/// The response that the preconditions lead to.
fn conditional(services: &Services, route: &Route, query: &Query, response: Response) -> Response {
    match query.preconditions {
        Verdict::Proceed => response,
        Verdict::NotModified => {
            let head = HeadWriter::new(services, Some(route), Status::NOT_MODIFIED);
            Response::from_head(head.field("Vary", vary(query)).finish())
        }
        Verdict::PreconditionFailed => fixed::status(services, Some(route), Status::PRECONDITION_FAILED),
    }
}

/// Errors: the status of the response.
async fn render(
    files: &Files,
    route: &Route,
    query: &Query,
    filter: Option<Filter<'_>>,
) -> Result<Response, Status> {
    let services = &files.services;
    let device = query.folder.device;
    let job = Job {
        query: query.clone(),
        symlinks: route.files.symlinks,
        dotfiles: route.files.dotfiles,
        private: route.files.private.clone(),
        meta_folders: route.files.meta_folders.clone(),
        limit: services.site.limits.listing_entries,
        first: services.site.cache.bytes / FRACTION_OF_CACHE,
        compress_from: route.files.compress.min,
        protected: filter.as_ref().map_or(Protected::Listed, |filter| filter.protected),
    };
    let is_filtered = filter.is_some();
    let result = match filter {
        None => {
            let work = move || job.read().map(|(entries, extent)| job.render(entries, extent));
            services.disk.run_for_request(device, Work::Listing, work).await
        }
        Some(filter) => filtered(services, query, job, filter).await,
    };
    let now = services.clock.read();
    let path = query.path.as_str();
    let result =
        result.map_err(|busy| services.report_busy(format_args!("/{}", path_text::escaped(path)), busy))?;
    let Rendered { first, rest, coding } = result.map_err(|error| match error {
        OpenError::Denied => Status::FORBIDDEN,
        OpenError::Missing => Status::NOT_FOUND,
        OpenError::Local(errno) => files.report_errno(path, errno),
        OpenError::WouldWait => Status::INTERNAL_SERVER_ERROR,
    })?;
    let head = head(services, route, query).optional("Content-Encoding", coding.map(Coding::as_str));
    if rest.is_some() {
        let permit = services.disk.admit_stream(device).ok_or(Status::SERVICE_UNAVAILABLE)?;
        let stream = Box::new(ListingStream { first, rest, device, _permit: permit });
        let response = Response { body: Body::Stream(stream), ..Response::from_head(head.finish()) };
        return Ok(match query.coding {
            None | Some(Coding::Identity) => response,
            Some(coding) => compress::encoded(services, Method::Get, response, coding),
        });
    }
    let head = DatedHead::new(head.finish_whole(&first), &services.clock);
    let response = Response::from_head(head.get(&services.clock));
    if is_filtered {
        return Ok(response);
    }
    let page = ListingPage { response: head, folder: query.folder, rendered_at: now };
    files.insert_listing(query.host, &key(query), Rc::new(page));
    Ok(response)
}

/// Reads the folder, filters its entries here, and renders them.
async fn filtered(
    services: &Services,
    query: &Query,
    job: Job,
    filter: Filter<'_>,
) -> Result<Result<Rendered, OpenError>, Busy> {
    let device = query.folder.device;
    let read = move || (job.read(), job);
    let (read, job) = services.disk.run_for_request(device, Work::Listing, read).await?;
    let (entries, extent) = match read {
        Ok(read) => read,
        Err(error) => return Ok(Err(error)),
    };
    let mut allowed = Vec::new();
    for (number, entry) in entries.into_iter().enumerate() {
        if number % FILTERED_PER_TURN == FILTERED_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
        let path = query.path.join(&entry.name).map(|path| match entry.kind {
            EntryKind::Folder => path.as_folder(),
            EntryKind::File | EntryKind::Other => path,
        });
        if path.is_some_and(|path| (filter.may_know)(&path)) {
            allowed.push(entry);
        }
    }
    let render = move || Ok(job.render(allowed, extent));
    services.disk.run_for_request(device, Work::Listing, render).await
}

fn head<'a>(services: &Services, route: &'a Route, query: &Query) -> HeadWriter<'a> {
    let head = HeadWriter::new(services, Some(route), Status::OK)
        .field("Content-Type", query.format.content_type())
        .field("Vary", vary(query));
    match query.format {
        Format::Html => head.policy(CONTENT_SECURITY_POLICY),
        Format::Json => head,
    }
}

/// The fields of the request that the listing depends on.
fn vary(query: &Query) -> &'static str {
    if query.coding.is_some() { "Accept, Accept-Encoding" } else { "Accept" }
}

/// The key in the cache. No path of a file has a NUL.
fn key(query: &Query) -> String {
    let Query { path, order, format, coding, .. } = query;
    let coding = coding.unwrap_or_default();
    format!("{}\0{:?}{:?}{format:?}{coding:?}", path.as_str(), order.key, order.direction)
}

/// The work of a helper thread.
struct Job {
    query: Query,
    symlinks: Symlinks,
    dotfiles: Dotfiles,
    /// Files beneath the root that are not listed.
    private: Arc<[SafePath<'static>]>,
    /// Names that are not listed.
    meta_folders: Arc<[String]>,
    /// Entries.
    limit: usize,
    /// Bytes to render at first.
    first: usize,
    /// Bytes. A smaller listing is not compressed.
    compress_from: u64,
    protected: Protected,
}

/// The first bytes, and the renderer of the rest, if there is more.
struct Rendered {
    first: Vec<u8>,
    rest: Option<Renderer>,
    /// The coding of `first`.
    coding: Option<Coding>,
}

impl Job {
    fn render(&self, entries: Vec<Entry>, extent: Extent) -> Rendered {
        let path = format!("/{}", self.query.path.as_str());
        let page = Page { path, entries, order: self.query.order, extent };
        let mut renderer = Renderer::new(page, self.query.format);
        let mut first = Vec::new();
        while renderer.render(&mut first) == Progress::More {
            if first.len() >= self.first {
                return Rendered { first, rest: Some(renderer), coding: None };
            }
        }
        let coding = self.query.coding.filter(|_| first.len() as u64 >= self.compress_from);
        let encoded = coding.and_then(|coding| encoder::encode(coding, Effort::Quick, &first).ok());
        match encoded {
            Some(first) => Rendered { first, rest: None, coding },
            None => Rendered { first, rest: None, coding: None },
        }
    }

    fn hides(&self, name: &str) -> bool {
        let is_private = || self.query.below.join(name).is_some_and(|path| self.private.contains(&path));
        self.meta_folders.iter().any(|folder| folder == name) || (!self.private.is_empty() && is_private())
    }

    /// A folder whose file cannot be looked up is left out, too.
    fn is_left_out(&self, folder: &str) -> bool {
        let may_have =
            |path: SafePath<'_>| beneath::may_have_password_file(&self.query.root, &path, self.symlinks);
        self.protected == Protected::LeftOut && self.query.below.join(folder).is_none_or(may_have)
    }

    fn read(&self) -> Result<(Vec<Entry>, Extent), OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = beneath::open(&self.query.root, &self.query.below, self.symlinks, flags, Wait::Allowed)?;
        let mut first = FirstNames::new(self.limit);
        let mut folder = retry_on_intr(|| calls::open_folder(&fd))?;
        let mut is_read = false;
        while first.seen() < MAX_NAMES {
            let Some(found) = calls::next_entry(&mut folder) else {
                is_read = true;
                break;
            };
            let found = found?;
            let name = &*path_text::of_bytes(found.file_name().to_bytes());
            if name != "." && name != ".." && is_listed(name, self.dotfiles) && !self.hides(name) {
                first.add(name);
            }
        }
        let extent = match (is_read, first.seen()) {
            (true, seen) if seen <= self.limit as u64 => Extent::Whole,
            (true, seen) => Extent::First(seen),
            (false, seen) => Extent::FirstRead(seen),
        };
        let names = first.into_names();
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            entries.extend(self.entry(&fd, name)?);
        }
        Ok((entries, extent))
    }

    /// `None`: the entry is left out, see `if_accessible`. Errors: the listing would be incomplete.
    fn entry(&self, folder: &OwnedFd, name: String) -> Result<Option<Entry>, OpenError> {
        let stat = |flags| {
            if_accessible(
                retry_on_intr(|| calls::statx(folder, &*path_text::to_path(&name), flags))
                    .map_err(OpenError::from),
            )
        };
        // What is mounted at the entry may not respond, so the attributes that the kernel has are enough. A file system
        // without a disk, such as NFS, may change without the kernel: the one of the folder gives current attributes.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let Some(mut st) = stat(flags | AtFlags::STATX_DONT_SYNC)? else { return Ok(None) };
        if st.device.0 == 0 && st.device == self.query.folder.device {
            let Some(now) = stat(flags)? else { return Ok(None) };
            st = now;
        }
        if st.kind() == FileType::Symlink {
            let Some(path) = self.query.below.join(&name) else { return Ok(None) };
            let target = beneath::open(&self.query.root, &path, self.symlinks, OFlags::PATH, Wait::Allowed);
            let Some(target) = if_accessible(target)? else { return Ok(None) };
            st = retry_on_intr(|| calls::statx(&target, "", AtFlags::EMPTY_PATH))?;
        }
        if self.query.root.hides(st.device, st.inode) {
            return Ok(None);
        }
        let kind = match st.kind() {
            FileType::Directory => EntryKind::Folder,
            FileType::RegularFile => EntryKind::File,
            _ => EntryKind::Other,
        };
        if kind == EntryKind::Folder && self.is_left_out(&name) {
            return Ok(None);
        }
        let (size, modified) = (st.size, st.modified.0);
        Ok(Some(Entry { name, kind, size, modified }))
    }
}

/// `None`: the entry has been removed, may not be opened, or is on a file system that is not connected. A client could
/// not open it, either.
fn if_accessible<T>(found: Result<T, OpenError>) -> Result<Option<T>, OpenError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(OpenError::Missing | OpenError::Denied) => Ok(None),
        Err(OpenError::Local(Errno::NOTCONN | Errno::NODEV)) => Ok(None),
        Err(error) => Err(error),
    }
}
