//! Publishing: methods that change files, and WebDAV. What may be changed, and under which conditions, is decided here,
//! on the loop; `crate::publishing` does it on helper threads.

mod folders;
mod locking;
mod moving;
mod problem;
mod properties;
mod put;
mod resumable;

use dav::condition::If;
use dav::fields::Depth;
use dav::locks::Holder;
use dav::method::Method as DavMethod;
use dav::multistatus;
use dav::request::MAX_BODY;
use site::decide::Resource;
use site::host::name_of;
use site::model::{EtagFrom, FileRules, Route};
use site::plan::{Cause, FilesPlan, PlannedAction};
use site::publishing::{Mode, upload_token};
use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::head::{Method, Names};
use taipan_http::path_text;
use taipan_http::rule::{BODY_TOO_LARGE, DESTINATION_ELSEWHERE};
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Target as RequestTarget, encode_path, encoded_path};
use tokio::time::timeout;

use self::problem::Problem;
use super::access::Rejected;
use super::{Exchange, on_heap};
use crate::disk::{Busy, Work};
use crate::files::beneath::Root;
use crate::files::{Probe, stat_etag};
use crate::publishing::failure::{Excess, Failure};
use crate::publishing::removal::Emptying;
use crate::publishing::store::{Below, Expected, Found, Guard, Named, Store, Tag, Terms, check_length};
use crate::publishing::tree::{Kind, Member, Progress, Reach, Scan};
use crate::publishing::{changes, permits};
use crate::request::Request;
use crate::request::body::Length;
use crate::response::Response;
use crate::response_head::HeadWriter;
use crate::stats::Count;
use crate::tasks::spawn_local;

/// The path of a resource in a route that is published.
#[derive(Clone)]
struct Target<'a> {
    route: &'a Route,
    rules: &'a FileRules,
    /// As it was requested.
    path: SafePath<'static>,
    /// The part of the path that leads to the root: empty, or with a slash at its end.
    prefix: String,
    below: Below,
    store: Store,
}

/// What is at a target.
#[derive(Default)]
struct Present {
    found: Option<Found>,
    /// Its entity tag, as GET sends it.
    tag: Option<Vec<u8>>,
}

/// What a request does with a resource, beside what its method says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    List,
    Read,
    /// It makes a file or a folder, or changes it.
    Write,
    Remove,
}

impl Use {
    /// The method that would do that alone. Rules of access for it count, too.
    fn method(self, kind: Kind) -> Option<&'static str> {
        match (self, kind) {
            (Use::List, _) => None,
            (Use::Read, _) => Some("GET"),
            (Use::Write, Kind::Folder) => Some("MKCOL"),
            (Use::Write, Kind::File | Kind::Other) => Some("PUT"),
            (Use::Remove, _) => Some("DELETE"),
        }
    }
}

impl Target<'_> {
    /// The path, in URLs, of what is at `below`.
    fn url(&self, below: &str, kind: Kind) -> Option<SafePath<'static>> {
        let slash = if kind == Kind::Folder && !below.is_empty() { "/" } else { "" };
        SafePath::from_decoded(&["/", &self.prefix, below, slash].concat()).ok()
    }

    fn href(&self, below: &str, kind: Kind) -> String {
        href(&self.prefix, below, kind)
    }

    fn href_of(&self, member: &Member) -> String {
        self.href(member.path.as_str(), member.kind)
    }

    fn own_href(&self, found: Option<Found>) -> String {
        self.href(self.below.as_str(), Kind::of(found))
    }

    fn is_root(&self) -> bool {
        self.below.as_str().is_empty()
    }

    /// Whether a file at this path has the tag of its attributes.
    fn has_stat_tags(&self) -> bool {
        self.rules.etag == EtagFrom::Stat
    }
}

fn href(prefix: &str, below: &str, kind: Kind) -> String {
    let mut out = encoded_path(prefix);
    encode_path(below, &mut out);
    if kind == Kind::Folder && !out.ends_with('/') {
        out.push('/');
    }
    out
}

impl<'a> Exchange<'a> {
    /// The method, if it is one for the files of a route that is published.
    pub(super) fn publishing_method(&self, route: &Route, path: &SafePath<'_>) -> Option<DavMethod> {
        if route.publishing.mode == Mode::Off {
            return None;
        }
        match self.head.method {
            Method::Head if upload_token(path).is_some() => Some(DavMethod::Options),
            Method::Get | Method::Head => None,
            method => DavMethod::of(method, self.head.token),
        }
    }

    /// Responds to a method for the files of a route that is published. The request may have the path.
    pub(super) async fn publish(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        route: &'a Route,
        method: DavMethod,
    ) -> Response {
        if self.services.sheds_cold() {
            return self.status(route, Status::SERVICE_UNAVAILABLE).await;
        }
        if !matches!(method, DavMethod::Options | DavMethod::PropFind) {
            // A proxy says that the request may be a repeated one. Any value says so (RFC 8470 §5.1).
            if self.head.value("early-data").is_some() {
                return self.status(route, Status::TOO_EARLY).await;
            }
            if let Some(response) = self.withhold() {
                return response;
            }
        }
        if upload_token(path).is_some() && route.publishes() {
            return on_heap(|| self.resume(request, path, route, method)).await;
        }
        if let Err(status) = route.publishing.permits(method) {
            return self.status(route, status).await;
        }
        let target = match self.target(path).await {
            Ok(target) => target,
            Err(status) => return self.status(route, status).await,
        };
        self.services.counts.add(Count::Publications, 1);
        let done = match method {
            DavMethod::Options => Ok(self.options(&target)),
            DavMethod::Put => on_heap(|| self.put(request, &target)).await,
            DavMethod::Patch => Err(Problem::Status(Status::METHOD_NOT_ALLOWED)),
            DavMethod::Delete => on_heap(|| self.delete(request, &target)).await,
            DavMethod::MkCol => on_heap(|| self.make_folder(request, &target)).await,
            DavMethod::Copy | DavMethod::Move => on_heap(|| self.transfer(request, &target, method)).await,
            DavMethod::PropFind => on_heap(|| self.find_properties(request, &target)).await,
            DavMethod::PropPatch => on_heap(|| self.change_properties(request, &target)).await,
            DavMethod::Lock => on_heap(|| self.lock(request, &target)).await,
            DavMethod::Unlock => on_heap(|| self.unlock(request, &target)).await,
        };
        match done {
            Ok(response) => response,
            Err(problem) => self.respond_to_problem(route, &target, problem).await,
        }
    }

    fn options(&self, target: &Target<'_>) -> Response {
        let publishing = &target.route.publishing;
        let head = HeadWriter::new(self.services, Some(target.route), Status::NO_CONTENT)
            .field("Allow", publishing.allow())
            .optional("DAV", publishing.classes())
            // Windows asks for it before it speaks WebDAV.
            .optional("MS-Author-Via", publishing.classes().map(|_| "DAV"));
        let head = match resumable::is_offered(target.route) {
            true => head
                .field("Accept-Patch", dav::upload::PARTIAL)
                .field("Upload-Limit", resumable::limits(target.route, publishing.resumable.as_secs())),
            false => head,
        };
        Response::from_head(head.finish())
    }

    /// The resource of a path. Errors: the status of the response where clients cannot publish.
    async fn target(&self, path: &SafePath<'_>) -> Result<Target<'a>, Status> {
        let plan = self.plan(path.clone().into_owned());
        let route = plan.route;
        if route.publishing.mode == Mode::Off {
            return Err(Status::METHOD_NOT_ALLOWED);
        }
        if plan.walk.is_some() {
            return Err(Status::FORBIDDEN);
        }
        let planned = match plan.action {
            PlannedAction::Files(planned) => planned,
            PlannedAction::Status(_, Cause::Dotfile | Cause::Private) => return Err(Status::FORBIDDEN),
            _ => return Err(Status::METHOD_NOT_ALLOWED),
        };
        let root = self.responder.files.root_for_change(self.key, &planned, self.now).await?;
        self.target_of(route, &planned, root)
    }

    fn target_of(
        &self,
        route: &'a Route,
        planned: &FilesPlan<'a, '_>,
        root: Root,
    ) -> Result<Target<'a>, Status> {
        let below = planned.below().as_str().trim_end_matches('/').to_owned();
        let path = planned.path.clone().into_owned();
        // What is stored of files, such as locks, names them in UTF-8.
        if !path_text::is_utf8(path.as_str()) {
            return Err(Status::BAD_REQUEST);
        }
        let whole = path.as_str().trim_end_matches('/');
        let prefix = whole.strip_suffix(&below).unwrap_or_default();
        let slash = if prefix.is_empty() || prefix.ends_with('/') { "" } else { "/" };
        let prefix = [prefix, slash].concat();
        let below = SafePath::from_decoded(&["/", &below].concat()).map_err(|_| Status::BAD_REQUEST)?;
        check_length(&below).map_err(|failure| failure.status())?;
        let store = Store { root, settings: route.publishing.clone() };
        Ok(Target { route, rules: planned.rules, path, prefix, below, store })
    }

    /// Runs `work` on a helper thread.
    async fn on_disk<T: Send + 'static>(
        &self,
        store: &Store,
        work: impl FnOnce(&Store) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Problem> {
        let (store, device) = (store.clone(), store.root.device);
        let done = self.services.disk.run(device, Work::File, move || work(&store)).await;
        done.map_err(Problem::Busy)?.map_err(Problem::Failure)
    }

    /// As `on_disk`, with the permit to change names. A lock that keeps the request from it is named by its URL.
    async fn changing<T: Send + 'static>(
        &self,
        target: &Target<'_>,
        work: impl FnOnce(&Guard) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = permits::take(&target.store.root.path).await?;
        // The permit comes back with the result, or is dropped with it: dropped on the helper thread, it would wake this
        // thread once more, where the next request for it often is.
        let with_guard = move |store: &Store| Ok((work(&store.guard()?), permit));
        self.on_disk(&target.store, with_guard).await?.0.map_err(|failure| match failure {
            Failure::Locked(member) => Problem::Locked(target.href_of(&member)),
            failure => Problem::Failure(failure),
        })
    }

    async fn present(&self, target: &Target<'_>) -> Result<Present, Problem> {
        let below = target.below.clone();
        let found = self.on_disk(&target.store, move |store| store.find(&below)).await?;
        let tag = match found {
            Some(Found::File(stamp)) => match target.rules.etag {
                EtagFrom::Stat => Some(stat_etag(&stamp, "")),
                EtagFrom::Off => None,
                EtagFrom::Content => self.content_tag(target).await,
            },
            _ => None,
        };
        Ok(Present { found, tag })
    }

    /// The entity tag that GET sends.
    async fn content_tag(&self, target: &Target<'_>) -> Option<Vec<u8>> {
        let planned = self.plan(target.path.clone()).files()?;
        let entry = match self.responder.files.probe(self.key, &target.path, &planned, self.now) {
            Probe::Hit(entry) => entry,
            Probe::WouldWait(lookup) => self.wait(*lookup).await.ok()?,
            Probe::Failed(_) => return None,
        };
        match &entry.resource {
            Resource::File(all, _) => all.first()?.etag.as_ref().map(|tag| tag.to_vec()),
            _ => None,
        }
    }

    /// The value of a field that is not a list. Errors: there are several, and recipients disagree about which counts.
    fn value(&self, name: &'static str) -> Result<Option<&'a [u8]>, Status> {
        match self.head.value(name) {
            None => Ok(None),
            Some(_) => self.head.only(name).map(Some).ok_or(Status::BAD_REQUEST),
        }
    }

    /// The field `Depth`. Without it, a whole tree is meant (RFC 4918 §10.2). Errors: it is malformed.
    fn depth(&self) -> Result<Depth, Status> {
        let depth = self.value("depth")?.map_or(Some(Depth::Infinity), Depth::parse);
        depth.ok_or(Status::BAD_REQUEST)
    }

    /// As `terms`, with the resource looked up only if preconditions speak of it.
    async fn terms_of_fields(&self, request: Request<'_>, target: &Target<'a>) -> Result<Terms, Problem> {
        let present = match self.head.names.intersects(Names::CONDITIONAL) {
            true => self.present(target).await?,
            false => Present::default(),
        };
        self.terms(request, target, &present).await
    }

    /// What the fields of the request demand of its resource. Errors: they do not hold, or are malformed.
    async fn terms(
        &self,
        request: Request<'_>,
        target: &Target<'a>,
        present: &Present,
    ) -> Result<Terms, Problem> {
        let mut terms = self.terms_of_if(request, target).await?;
        if !self.head.names.intersects(Names::CONDITIONAL) {
            return Ok(terms);
        }
        let validators = match present.found {
            None => None,
            Some(Found::File(stamp)) => {
                Some(Validators { etag: present.tag.as_deref(), modified: stamp.last_modified() })
            }
            Some(Found::Folder(_) | Found::Other) => Some(Validators::default()),
        };
        if conditional::evaluate(self.head, validators.as_ref(), self.now) != Verdict::Proceed {
            return Err(Problem::Status(Status::PRECONDITION_FAILED));
        }
        terms.expected = Expected::of(present.found);
        Ok(terms)
    }

    /// What the field `If` demands, with the locks that the client knows of by it. Errors: it is malformed.
    async fn terms_of_if(&self, request: Request<'_>, target: &Target<'a>) -> Result<Terms, Problem> {
        let mut terms = Terms { holder: self.holder(), ..Terms::default() };
        if self.head.value("if").is_none() {
            return Ok(terms);
        }
        let field = self.head.only("if").and_then(If::parse).ok_or(Status::BAD_REQUEST)?;
        terms.tag = self.tag(target).await?;
        for url in field.resources() {
            // What the client may not have is as if it did not exist.
            if let Ok(path) = self.local_path(request, url.as_bytes())
                && self.may_know(&path)
                && let Ok(other) = self.target(&path).await
            {
                let tag = self.tag(&other).await?;
                let named = Named { store: other.store, path: other.below, tag };
                terms.resources.insert(url.to_owned(), named);
            }
        }
        terms.holder.tokens = field.tokens().map(str::to_owned).collect();
        terms.field = Some(field);
        Ok(terms)
    }

    /// The entity tag of a resource for `If`.
    async fn tag(&self, target: &Target<'a>) -> Result<Tag, Problem> {
        match target.has_stat_tags() {
            true => Ok(Tag::OfAttributes),
            false => Ok(Tag::Found(self.present(target).await?.tag)),
        }
    }

    fn holder(&self) -> Holder {
        let user = self.grants.user().map_or(String::new(), |user| user.to_string());
        Holder { tokens: Vec::new(), user }
    }

    /// The path of a URL of this host. Errors: the status of the response.
    fn local_path(&self, request: Request<'_>, url: &[u8]) -> Result<SafePath<'static>, Problem> {
        let url = std::str::from_utf8(url).map_err(|_| Status::BAD_REQUEST)?.trim_matches([' ', '\t']);
        // Not a path: what follows is an authority (RFC 3986 §4.2), which only a whole URL may have (RFC 4918 §8.3).
        if url.starts_with("//") {
            return Err(Status::BAD_REQUEST.into());
        }
        let target = RequestTarget::parse(Method::Get, url).map_err(|_| Status::BAD_REQUEST)?;
        if let Some(authority) = target.authority()
            && !name_of(authority.as_bytes()).eq_ignore_ascii_case(name_of(request.head.authority))
        {
            // RFC 4918 §9.8.5.
            return Err((Status::BAD_GATEWAY, DESTINATION_ELSEWHERE).into());
        }
        let path = target.path().ok_or(Status::BAD_REQUEST)?;
        SafePath::parse(path).map(SafePath::into_owned).map_err(|error| error.status().into())
    }

    /// Whether the request may do this with a member of the target's folder.
    fn may_use(&self, target: &Target<'_>, member: &Member, what: Use) -> bool {
        let Some(url) = target.url(member.path.as_str(), member.kind) else { return false };
        let plan = self.plan(url.clone());
        if matches!(what, Use::Write | Use::Remove) && !plan.route.publishes() {
            return false;
        }
        let Some(planned) = plan.files() else { return false };
        let own = self.plan(target.path.clone()).files().map(|own| own.root);
        let is_same = own == Some(planned.root)
            && planned.below().as_str().trim_end_matches('/') == member.path.as_str();
        let is_allowed = !self.responder.needs.rules || self.check_use(&url, what, member.kind).is_ok();
        let is_authorized = !self.responder.needs.authorizers || !self.lacks_authorization(&url);
        is_same && is_allowed && is_authorized
    }

    /// Whether the rules of access let the request do this, by its own method and by the one that would do it alone.
    fn check_use(&self, path: &SafePath<'_>, what: Use, kind: Kind) -> Result<(), Rejected<'a>> {
        self.check_access(path)?;
        match what.method(kind) {
            Some(method) => self.check_access_by(path, method),
            None => Ok(()),
        }
    }

    /// As `check_use`, for the resource of a request, after its user has authenticated. Errors: the response.
    async fn may_do(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        what: Use,
        kind: Kind,
    ) -> Result<(), Response> {
        match self.responder.needs.rules {
            true => self.enforce(request, |exchange| exchange.check_use(path, what, kind)).await,
            false => Ok(()),
        }
    }

    /// Gives `each` what is beneath a folder, and returns the folder. Errors: those of `each`.
    async fn scan(
        &self,
        target: &Target<'a>,
        reach: Reach,
        mut each: impl FnMut(&Exchange<'a>, Member) -> Result<(), Problem>,
    ) -> Result<Root, Problem> {
        let (below, symlinks) = (target.below.clone(), target.rules.symlinks);
        let begin = move |store: &Store| Scan::begin(store, &below, reach, symlinks);
        let mut scan = self.on_disk(&target.store, begin).await?;
        loop {
            let work = move |_: &Store| scan.step().map(|members| (scan, members));
            let (rest, members) = self.on_disk(&target.store, work).await?;
            if members.is_empty() {
                return Ok(rest.into_base());
            }
            scan = rest;
            for member in members {
                each(self, member)?;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Errors: the request may not do this with something beneath the folder of `target`.
    async fn check_members(&self, target: &Target<'a>, what: Use) -> Result<(), Problem> {
        let check = |exchange: &Exchange<'a>, member: Member| match exchange.may_use(target, &member, what) {
            true => Ok(()),
            false => Err(Problem::Status(Status::FORBIDDEN)),
        };
        self.scan(target, Reach::Tree, check).await.map(drop)
    }

    /// A folder, and its members that the client may have so, when few enough folders are listed. Errors: there are more
    /// than a listing may have.
    async fn members(
        &self,
        target: &Target<'a>,
        reach: Reach,
        what: Use,
    ) -> Result<(Root, Vec<Member>), Problem> {
        let wait = self.services.site.timeouts.disk;
        let permit = timeout(wait, self.responder.published_folders.acquire()).await;
        let _permit = permit.map_err(|_| Problem::Busy(Busy::Late))?;
        let (mut members, most) = (Vec::new(), self.services.site.limits.listing_entries);
        let collect = |exchange: &Exchange<'a>, member: Member| {
            if exchange.may_use(target, &member, what) {
                members.push(member);
            }
            if members.len() > most {
                Err(Problem::Failure(Failure::TooMany(Excess::Members)))
            } else {
                Ok(())
            }
        };
        let folder = self.scan(target, reach, collect).await?;
        Ok((folder, members))
    }

    /// The body of a request that is read as a whole.
    async fn small_body(&self) -> Result<Vec<u8>, Problem> {
        if matches!(self.body.length(), Length::Sized(bytes) if bytes > MAX_BODY) {
            return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
        }
        let mut all = Vec::new();
        while let Some(bytes) = self.body.read(MAX_BODY).await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    /// Returns when all workers know that something has changed.
    async fn announce_change(&self) {
        changes::announce(&self.responder.files).await;
    }

    /// Removes what has been moved to the trash, while the client gets its response.
    fn empty_trash(&self, store: &Store) {
        let (store, disk) = (store.clone(), self.services.disk.clone());
        spawn_local(async move {
            let device = store.root.device;
            // What is left after an error is removed with what is discarded next, or at the next start.
            let begun = disk.run(device, Work::Listing, move || Emptying::begin(&store)).await;
            let Ok(Ok(Some(mut emptying))) = begun else { return };
            loop {
                let step = move || (emptying.step(), emptying);
                match disk.run(device, Work::Listing, step).await {
                    Ok((Progress::More, rest)) => emptying = rest,
                    Ok((Progress::Done, _)) | Err(_) => return,
                }
            }
        });
    }

    /// A response of WebDAV.
    fn xml(&self, route: &Route, status: Status, body: &str) -> Response {
        let head = HeadWriter::new(self.services, Some(route), status);
        let head = head.field("Content-Type", multistatus::CONTENT_TYPE);
        Response::from_head(head.finish_whole(body.as_bytes()))
    }
}
