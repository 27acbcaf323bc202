//! A file that a script or an application sends in place of a body (X-Sendfile, X-Accel-Redirect).

use std::borrow::Cow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use site::model::{Route, Suffixes};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Exchange;
use crate::disk::Work;
use crate::files::beneath::{OpenError, Root, Wait};
use crate::files::lookup::{Lookup, Query};
use crate::files::open::OpenFile;
use crate::files::roots::Roots;
use crate::log;
use crate::response::{Body, FilePart, Response};
use crate::response_head::HeadWriter;
use crate::services::Services;
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
            log::error(format_args!("{what} names {path}, which is in no folder of \"sendfile\""));
            return Err(Status::FORBIDDEN);
        };
        let query = query(Roots::get(&self.responder.files, folder, self.now)?, below, route);
        let result = match query.lookup(Wait::Never) {
            Err(OpenError::WouldWait) => {
                let device = query.device();
                let lookup = move || query.lookup(Wait::Allowed);
                let result = services.disk.run_for_request(device, Work::File, lookup).await;
                result.map_err(|_| Status::SERVICE_UNAVAILABLE)?
            }
            result => result,
        };
        let lookup = result.map_err(|_| Status::INTERNAL_SERVER_ERROR)?;
        response(services, route, sendfile, lookup)
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

fn response(
    services: &Services,
    route: &Route,
    sendfile: &Sendfile,
    lookup: Lookup,
) -> Result<Response, Status> {
    let variant = match lookup {
        Lookup::Files(mut files) => {
            files.pop().and_then(|mut found| found.variants.pop()).ok_or(Status::NOT_FOUND)?
        }
        Lookup::Missing => return Err(Status::NOT_FOUND),
        Lookup::Folder(_) | Lookup::Denied => return Err(Status::FORBIDDEN),
    };
    let mut head = HeadWriter::new(services, Some(route), sendfile.status);
    for (name, value) in &sendfile.fields {
        head = head.field(name, value);
    }
    let left = variant.stamp.size;
    let response = Response::from_head(head.length(left).finish());
    // An empty file has no descriptor.
    let Some(fd) = variant.fd else { return Ok(response) };
    let file = Rc::new(OpenFile::new(fd, variant.stamp, services.disk.clone()));
    Ok(Response { body: Body::File(FilePart { file, at: 0, left }), ..response })
}
