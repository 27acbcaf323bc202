//! A file that a script or an application sends in place of a body (X-Sendfile, X-Accel-Redirect).

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use site::model::{EtagFrom, Route, Suffixes};
use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::date;
use taipan_http::etag::is_entity_tag;
use taipan_http::head::Method;
use taipan_http::range::{self, ByteRange, Selection};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Exchange;
use super::pages::is_page;
use crate::content::fixed;
use crate::disk::Work;
use crate::files::beneath::{OpenError, Root, Wait};
use crate::files::lookup::{Lookup, Query};
use crate::files::open::{OpenFile, Stamp};
use crate::files::roots::Roots;
use crate::files::stat_etag;
use crate::log;
use crate::response::{Body, FilePart, Response};
use crate::response_head::HeadWriter;
use crate::upstream::Sendfile;

impl Exchange<'_> {
    pub(super) async fn sendfile(&self, route: &Route, sendfile: &Sendfile) -> Response {
        match self.try_sendfile(route, sendfile).await {
            Ok(response) => response,
            Err(status) => self.status(route, status).await,
        }
    }

    /// Errors: the status of the response.
    async fn try_sendfile(&self, route: &Route, sendfile: &Sendfile) -> Result<Response, Status> {
        let services = self.services;
        let Some((folder, below)) = self.sendfile_folder(&sendfile.path) else {
            let path = sendfile.path.display();
            let application = route.upstream().and_then(|id| services.site.upstreams.get(id));
            let what = application.map_or_else(|| "a script".to_owned(), ToString::to_string);
            let label = self.label();
            log::error(format_args!("{label}: {what} names {path}, which is in no folder of \"sendfile\""));
            return Err(Status::FORBIDDEN);
        };
        let query = query(Roots::get(&self.responder.files, folder, self.now)?, below, route);
        let result = match query.lookup(Wait::Never) {
            Err(OpenError::WouldWait) => {
                let device = query.device();
                let lookup = move || query.lookup(Wait::Allowed);
                let result = services.disk.run_for_request(device, Work::File, lookup).await;
                let path = sendfile.path.display();
                result.map_err(|busy| services.report_busy(format_args!("{path}"), busy))?
            }
            result => result,
        };
        let lookup = result.map_err(|_| Status::INTERNAL_SERVER_ERROR)?;
        self.with_file(route, sendfile, lookup)
    }

    /// The deepest folder of the setting `sendfile` that `path` is beneath, and the path beneath it. `None`: the script
    /// may not send this file.
    fn sendfile_folder(&self, path: &Path) -> Option<(&Path, SafePath<'static>)> {
        let folders = self.services.site.scripts.sendfile.iter();
        let beneath = folders.filter_map(|folder| Some((folder.as_path(), path.strip_prefix(folder).ok()?)));
        let (folder, below) = beneath.max_by_key(|(folder, _)| folder.as_os_str().len())?;
        Some((folder, SafePath::from_path(below).ok()?))
    }
}

/// Finds the file alone: neither an index file nor another one that stands for it. Reads nothing of it.
fn query(root: Root, below: SafePath<'static>, route: &Route) -> Query<'static> {
    let query = Query::new(root, below, &route.files, 0);
    let (index, precompressed) = (Cow::Borrowed(&[][..]), Cow::Borrowed(&[][..]));
    let (suffixes, alternates) = (Cow::Owned(Suffixes::default()), Arc::default());
    Query { index, suffixes, precompressed, gunzip: false, alternates, meta: None, ..query }.into_owned()
}

/// What the file is sent as.
struct Source {
    fd: Option<OwnedFd>,
    stamp: Stamp,
}

impl Exchange<'_> {
    /// The response with the file. To GET and HEAD, it is a 304 or a part if the request asks for that, as that of a
    /// file without a script.
    fn with_file(&self, route: &Route, sendfile: &Sendfile, lookup: Lookup) -> Result<Response, Status> {
        let source = match lookup {
            Lookup::Files(mut files) => {
                let variant =
                    files.pop().and_then(|mut found| found.variants.pop()).ok_or(Status::NOT_FOUND)?;
                Source { fd: variant.fd, stamp: variant.stamp }
            }
            Lookup::Missing => return Err(Status::NOT_FOUND),
            Lookup::Folder(_) | Lookup::Denied => return Err(Status::FORBIDDEN),
        };
        // The script has not made a part: all of the file is there.
        let status = match sendfile.status {
            Status::PARTIAL_CONTENT => Status::OK,
            status => status,
        };
        let fields = || sendfile.fields.iter().map(|(name, value)| (&**name, &**value));
        if status != Status::OK || !self.is_get_or_head() || is_page(route, status, fields) {
            let range = ByteRange { from: 0, len: source.stamp.size };
            let head = self.sendfile_head(route, sendfile, status, |_| true);
            return Ok(self.with_range(head, source, range));
        }
        self.selected(route, sendfile, source)
    }

    /// What the request asks for: the whole, a part, or to know whether the file has changed.
    fn selected(&self, route: &Route, sendfile: &Sendfile, source: Source) -> Result<Response, Status> {
        let own = |wanted: &str| {
            let mut fields = sendfile.fields.iter();
            fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_slice())
        };
        let (own_tag, own_time) = (own("etag"), own("last-modified"));
        // Those of the script count, because it may know better what the file stands for.
        let is_described = own_tag.is_some() || own_time.is_some();
        let has_tag = !is_described && route.files.etag != EtagFrom::Off && source.stamp.dated().is_some();
        let tag = has_tag.then(|| stat_etag(&source.stamp, ""));
        let etag = own_tag.filter(|tag| is_entity_tag(tag)).or(tag.as_deref());
        let modified = match is_described {
            true => own_time.and_then(|value| date::parse(value, self.now)),
            false => source.stamp.last_modified().map(|time| self.services.past(time)),
        };
        let validators = Validators { etag, modified };
        // Those of the file are added.
        let (added_tag, added_time) = match is_described {
            true => (None, None),
            false => (etag, modified.map(date::format)),
        };
        match conditional::evaluate(self.head, Some(&validators), self.now) {
            Verdict::Proceed => {}
            Verdict::NotModified => {
                let head = self.sendfile_head(
                    route,
                    sendfile,
                    Status::NOT_MODIFIED,
                    conditional::is_of_not_modified,
                );
                let head = head.optional("ETag", added_tag).optional("Last-Modified", added_time);
                return Ok(Response::from_head(head.finish()));
            }
            Verdict::PreconditionFailed => return Err(Status::PRECONDITION_FAILED),
        }
        let size = source.stamp.size;
        let whole = ByteRange { from: 0, len: size };
        let takes_ranges = own("accept-ranges").is_none_or(|unit| !unit.eq_ignore_ascii_case(b"none"));
        let wanted = self.head.only("range").filter(|_| takes_ranges && self.head.method == Method::Get);
        let wanted = wanted.filter(|_| conditional::range_applies(self.head, &validators, self.now));
        let (status, range) = match wanted.map(|wanted| range::select(wanted, size)) {
            None | Some(Selection::Whole | Selection::Many(_)) => (Status::OK, whole),
            Some(Selection::One(range)) => (Status::PARTIAL_CONTENT, range),
            Some(Selection::Unsatisfiable) => {
                return Ok(fixed::unsatisfiable(self.services, Some(route), size));
            }
        };
        let is_kept = |name: &str| status == Status::OK || !is_of_content(name);
        let head = self.sendfile_head(route, sendfile, status, is_kept);
        let head = head.optional("ETag", added_tag).optional("Last-Modified", added_time);
        let head = match (status, own("accept-ranges")) {
            (Status::PARTIAL_CONTENT, _) => head.field("Content-Range", range::content_range(range, size)),
            (_, None) => head.field("Accept-Ranges", "bytes"),
            (_, Some(_)) => head,
        };
        Ok(self.with_range(head, source, range))
    }

    /// The head with those fields of the script that `keep` selects. None of them says which part it is: that is decided
    /// here, but for a script that rejects a range.
    fn sendfile_head<'r>(
        &self,
        route: &'r Route,
        sendfile: &Sendfile,
        status: Status,
        keep: impl Fn(&str) -> bool,
    ) -> HeadWriter<'r> {
        let is_range = |name: &str| name.eq_ignore_ascii_case("content-range");
        let mut head = HeadWriter::new(self.services, Some(route), status);
        for (name, value) in &sendfile.fields {
            if keep(name) && (!is_range(name) || status == Status::RANGE_NOT_SATISFIABLE) {
                head = head.field(name, value);
            }
        }
        head
    }

    fn with_range(&self, head: HeadWriter<'_>, source: Source, range: ByteRange) -> Response {
        let response = Response::from_head(head.length(range.len).finish());
        // An empty file has no descriptor.
        let Some(fd) = source.fd else { return response };
        let file = Rc::new(OpenFile::new(fd, source.stamp, self.services.disk.clone()));
        Response { body: Body::File(FilePart { file, at: range.from, left: range.len }), ..response }
    }
}

/// Whether a field describes the bytes that are sent, and not the whole that they are a part of.
fn is_of_content(name: &str) -> bool {
    ["content-digest", "content-md5"].iter().any(|own| name.eq_ignore_ascii_case(own))
}
