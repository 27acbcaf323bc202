//! Folders: the redirect to a path with a slash, and listings.

use site::listing::{Format, SortOrder};
use taipan_http::conditional;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, with_query};

use super::{Exchange, Resolution};
use crate::content::listing::{Filter, Protected};
use crate::content::{compress, fixed, listing};
use crate::files::Entry;
use crate::response::Response;
use crate::upstream::HandlerKind;

impl<'a> Exchange<'a> {
    /// 301 to the same path with a slash, without the origin, and with the query. The path of a fallback is not known
    /// to the client.
    pub(super) fn redirect_to_folder(&self, path: &SafePath<'_>, fallback: Option<&str>) -> Resolution<'a> {
        let route = self.route(path);
        if fallback.is_some() {
            return Resolution::Absent(route, Status::NOT_FOUND);
        }
        let location = with_query(path.encoded() + "/", self.head.target.query());
        let response = fixed::redirect(self.services, Some(route), Status::MOVED_PERMANENTLY, &location);
        Resolution::Response(response)
    }

    pub(super) fn resolve_listing(
        &self,
        path: &SafePath<'_>,
        entry: &Entry,
        preconditions: conditional::Verdict,
    ) -> Resolution<'a> {
        let plan = self.plan(path.clone());
        let route = plan.route;
        let (Some(planned), Some(folder)) = (plan.files(), entry.folder_stamp()) else {
            return Resolution::Status(route, Status::NOT_FOUND);
        };
        if let (Some(_), Some(root)) = (&route.lister, planned.root.path()) {
            let (folder, path) = (planned.below().beneath(root), path.clone().into_owned());
            let id = self.host().routes.find(&planned.path);
            return Resolution::Forward(id, Box::new(HandlerKind::Lister { folder, path }));
        }
        let root = match self.responder.files.root(self.key, &planned, self.now) {
            Ok(root) => root,
            Err(status) => return Resolution::Status(route, status),
        };
        let query = self.head.target.query();
        let format = Format::choose(query, self.head.values("accept"));
        let query = listing::Query {
            host: self.key,
            path: path.clone().into_owned(),
            root,
            below: planned.below().into_owned(),
            folder,
            order: SortOrder::from_query(query),
            format,
            coding: compress::coding(&route.files.compress, self.head, format.content_type()),
            preconditions,
        };
        let cached = match self.filters_entries(path) {
            true => None,
            false => listing::cached(&self.responder.files, &query, self.now),
        };
        cached.map_or_else(|| Resolution::List(Box::new(query)), Resolution::Response)
    }

    /// Whether the client may not know of all entries of a folder that it may list.
    fn filters_entries(&self, folder: &SafePath<'_>) -> bool {
        let needs = &self.responder.needs;
        needs.path_rules || needs.route_rules && self.host().may_differ_within(folder)
    }

    pub(super) async fn list(&mut self, query: listing::Query) -> Response {
        if self.services.sheds_cold() {
            return self.status(self.route(&query.path), Status::SERVICE_UNAVAILABLE).await;
        }
        let responder = self.responder;
        let protected = match self.has_passed_for_folder() {
            true => Protected::LeftOut,
            false => Protected::Listed,
        };
        let is_filtered = self.filters_entries(&query.path);
        let may_know = &mut |path: &SafePath<'_>| self.may_know_entry(path);
        let filter = is_filtered.then_some(Filter { may_know, protected });
        listing::list(&responder.files, query, filter).await
    }
}
