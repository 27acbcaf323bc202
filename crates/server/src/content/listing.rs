//! Folders without an index: read and rendered on a helper thread. A listing of ordinary size is kept
//! until its folder changes; a huge one is made while it is sent.

use std::io;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::{Errno, retry_on_intr};
use site::listing::{
    CONTENT_SECURITY_POLICY, Entry, EntryKind, Extent, FirstNames, Format, Page, Progress, Renderer,
    SortOrder, is_listed,
};
use site::model::{Dotfiles, Route, Symlinks};
use taipan_http::conditional::Verdict;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::fixed;
use crate::disk::{Device, Stream, Work};
use crate::files::beneath::{self, OpenError, Root, Wait};
use crate::files::open::Stamp;
use crate::files::{Files, ListingPage};
use crate::response::{Body, BodyStream, NextChunk, Response};
use crate::response_head::DatedHead;
use crate::response_head::HeadWriter;
use crate::services::Services;
use crate::sys::calls;

/// A rendered listing up to this part of the cache is sent with its length, and kept.
const PART_OF_CACHE: usize = 8;

/// Names of one folder that are read at most, to find the first of them.
const MAX_NAMES: u64 = 1_000_000;

/// What is to be listed, and how.
pub struct Query {
    pub host: usize,
    /// Of the request, decoded.
    pub path: SafePath<'static>,
    pub root: Root,
    /// The folder beneath the root.
    pub below: SafePath<'static>,
    pub folder: Stamp,
    pub order: SortOrder,
    pub format: Format,
    /// What those of the request make of it.
    pub preconditions: Verdict,
}

/// The rest of a listing that is made while it is sent.
pub struct ListingStream {
    ready: Vec<u8>,
    render: Option<Renderer>,
    device: Device,
    _place: Stream,
}

impl BodyStream for ListingStream {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_chunk(services))
    }
}

impl ListingStream {
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        if !self.ready.is_empty() {
            return Ok(Some(std::mem::take(&mut self.ready)));
        }
        let Some(mut render) = self.render.take() else { return Ok(None) };
        let work = move || {
            let mut chunk = Vec::new();
            let progress = render.render(&mut chunk);
            (render, chunk, progress)
        };
        let (render, chunk, progress) = services
            .disk
            .run(self.device, Work::Listing, work)
            .await
            .map_err(|_| io::Error::other("no helper thread"))?;
        self.render = (progress == Progress::More).then_some(render);
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

/// The listing, if one is kept that still holds.
pub fn cached(files: &Files, query: &Query, now: i64) -> Option<Response> {
    let services = &files.services;
    let page = files.listing(query.host, &key(query), &query.folder, now)?;
    Some(conditioned(services, query, Response::from_head(page.response.get(&services.clock))))
}

/// Reads and renders.
pub async fn list(files: &Files, query: Query) -> Response {
    let response = make(files, &query).await;
    conditioned(&files.services, &query, response)
}

/// The listing, or what the preconditions have in its place.
fn conditioned(services: &Services, query: &Query, response: Response) -> Response {
    let route = services.route(query.host, &query.path);
    match query.preconditions {
        Verdict::NotModified if response.status() == Status::OK => {
            let head = HeadWriter::new(services, Some(route), Status::NOT_MODIFIED);
            Response::from_head(head.field("Vary", "Accept").finish())
        }
        Verdict::PreconditionFailed if response.status() == Status::OK => {
            fixed::status(services, Some(route), Status::PRECONDITION_FAILED)
        }
        _ => response,
    }
}

async fn make(files: &Files, query: &Query) -> Response {
    let services = &files.services;
    let route = services.route(query.host, &query.path);
    let job = Job {
        root: query.root.clone(),
        below: query.below.clone(),
        title: format!("/{}", query.path.as_str()),
        order: query.order,
        format: query.format,
        symlinks: route.files.symlinks,
        dotfiles: route.files.dotfiles,
        limit: services.site.limits.listing_entries,
        keep: services.site.cache.bytes / PART_OF_CACHE,
        device: query.folder.device,
    };
    let Ok(_admitted) = services.disk.admit(query.folder.device) else {
        return fixed::status(services, Some(route), Status::SERVICE_UNAVAILABLE);
    };
    let look = services.disk.run(query.folder.device, Work::Listing, move || job.run());
    let looked = services.disk.wait(look).await.and_then(|looked| looked);
    let now = services.clock.read();
    match looked {
        Ok(Ok((page, None))) => {
            let block = head(services, route, query.format).length(page.len() as u64).finish_with(&page);
            let head = DatedHead::new(block, &services.clock);
            let response = Response::from_head(head.get(&services.clock));
            let page = ListingPage { response: head, folder: query.folder, rendered_at: now };
            files.insert_listing(query.host, &key(query), Rc::new(page));
            response
        }
        Ok(Ok((ready, render))) => {
            let Some(place) = services.disk.stream(query.folder.device) else {
                return fixed::status(services, Some(route), Status::SERVICE_UNAVAILABLE);
            };
            let source =
                Box::new(ListingStream { ready, render, device: query.folder.device, _place: place });
            Response {
                body: Body::Stream(source),
                ..Response::from_head(head(services, route, query.format).finish())
            }
        }
        Ok(Err(OpenError::Denied)) => fixed::status(services, Some(route), Status::FORBIDDEN),
        Ok(Err(OpenError::Missing)) => fixed::status(services, Some(route), Status::NOT_FOUND),
        Ok(Err(OpenError::Local(errno))) => {
            let status = files.report_errno(query.path.as_str(), errno);
            fixed::status(services, Some(route), status)
        }
        Ok(Err(OpenError::WouldWait)) => fixed::status(services, Some(route), Status::INTERNAL_SERVER_ERROR),
        Err(_) => fixed::status(services, Some(route), Status::SERVICE_UNAVAILABLE),
    }
}

fn head<'a>(services: &Services, route: &'a Route, format: Format) -> HeadWriter<'a> {
    let head = HeadWriter::new(services, Some(route), Status::OK)
        .field("Content-Type", format.content_type())
        .field("Vary", "Accept");
    match format {
        Format::Html => head.policy(CONTENT_SECURITY_POLICY),
        Format::Json => head,
    }
}

/// No path has a NUL, so this key is no file's.
fn key(query: &Query) -> String {
    format!("{}\0{:?}{:?}{:?}", query.path.as_str(), query.order.key, query.order.direction, query.format)
}

/// What a helper thread does.
struct Job {
    root: Root,
    below: SafePath<'static>,
    title: String,
    order: SortOrder,
    format: Format,
    symlinks: Symlinks,
    dotfiles: Dotfiles,
    limit: usize,
    /// Bytes.
    keep: usize,
    /// Of the folder.
    device: Device,
}

impl Job {
    /// The first bytes, at most about `keep`, and what makes the rest if there is more.
    fn run(self) -> Result<(Vec<u8>, Option<Renderer>), OpenError> {
        let (entries, extent) = self.read()?;
        let page = Page { path: self.title, entries, order: self.order, extent };
        let mut render = Renderer::new(page, self.format);
        let mut ready = Vec::new();
        while render.render(&mut ready) == Progress::More {
            if ready.len() >= self.keep {
                return Ok((ready, Some(render)));
            }
        }
        Ok((ready, None))
    }

    fn read(&self) -> Result<(Vec<Entry>, Extent), OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = beneath::open(&self.root, &self.below, self.symlinks, flags, Wait::Allowed)?;
        let mut first = FirstNames::new(self.limit);
        let mut folder = retry_on_intr(|| calls::open_folder(&fd))?;
        let mut is_read = false;
        while first.seen() < MAX_NAMES {
            let Some(found) = calls::next_entry(&mut folder) else {
                is_read = true;
                break;
            };
            let found = found?;
            let Ok(name) = found.file_name().to_str() else { continue };
            if name != "." && name != ".." && is_listed(name, self.dotfiles) {
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

    /// `None` for what has gone meanwhile, and for a link that may not be followed. Errors: whatever else
    /// keeps it from being looked at, for a listing must not seem whole without it.
    fn entry(&self, folder: &std::os::fd::OwnedFd, name: String) -> Result<Option<Entry>, OpenError> {
        let look = |flags| {
            unless_gone(retry_on_intr(|| calls::statx(folder, &*name, flags)).map_err(OpenError::from))
        };
        // What is mounted here may be dead: of that, what the kernel knows is enough. A file system without
        // a disk is asked again about what is its own.
        let asked = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let Some(mut st) = look(asked | AtFlags::STATX_DONT_SYNC)? else { return Ok(None) };
        if st.stx_dev_major == 0 && (st.stx_dev_major, st.stx_dev_minor) == self.device {
            let Some(now) = look(asked)? else { return Ok(None) };
            st = now;
        }
        if FileType::from_raw_mode(st.stx_mode.into()) == FileType::Symlink {
            let Some(path) = self.below.join(&name) else { return Ok(None) };
            let target = beneath::open(&self.root, &path, self.symlinks, OFlags::PATH, Wait::Allowed);
            let Some(target) = unless_gone(target)? else { return Ok(None) };
            st = retry_on_intr(|| calls::statx(&target, "", AtFlags::EMPTY_PATH))?;
        }
        let kind = match FileType::from_raw_mode(st.stx_mode.into()) {
            FileType::Directory => EntryKind::Folder,
            FileType::RegularFile => EntryKind::File,
            _ => EntryKind::Other,
        };
        let (size, modified) = (st.stx_size, st.stx_mtime.tv_sec);
        Ok(Some(Entry { name, kind, size, modified }))
    }
}

/// What nobody could open is left out: it is not there, not for us, or on a file system that has left.
fn unless_gone<T>(found: Result<T, OpenError>) -> Result<Option<T>, OpenError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(OpenError::Missing | OpenError::Denied) => Ok(None),
        Err(OpenError::Local(Errno::NOTCONN | Errno::NODEV)) => Ok(None),
        Err(error) => Err(error),
    }
}
