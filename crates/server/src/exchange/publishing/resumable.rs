//! Uploads that can be resumed (draft-ietf-httpbis-resumable-upload). The URL of an upload is in the folder of what is
//! uploaded, so that the same rules of access count for both.

use std::time::Duration;

use dav::method::Method as DavMethod;
use dav::upload::{
    COMPLETED, INCONSISTENT_LENGTH, PARTIAL, PROBLEM, State, Upload, boolean, boolean_text, integer,
    limits as limit_text, mismatching_offset,
};
use site::model::Route;
use site::publishing::{UPLOAD_NAME, upload_token};
use taipan_http::fields::trim_ows;
use taipan_http::head::{Field, Method};
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, encoded_path};

use super::put::Piece;
use super::{Exchange, Problem, Target, Use};
use crate::publishing::failure::Failure;
use crate::publishing::new_file::NewFile;
use crate::publishing::receiving::Receiving;
use crate::publishing::store::{Expected, Store, Terms, cost_of_file, random_name};
use crate::publishing::tree::Kind;
use crate::publishing::uploads;
use crate::publishing::usage::{Reservation, added, cost, removed};
use crate::request::Request;
use crate::response::Response;
use crate::response_head::HeadWriter;

/// How often, and after which pause, a request tries to take an upload over from one that still has it.
const ATTEMPTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(25);
/// How long a client that has missed the last response can ask whether its upload is complete.
const COMPLETE_SECONDS: i64 = 3600;

pub(super) fn is_offered(route: &Route) -> bool {
    route.publishes() && !route.publishing.resumable.is_zero()
}

/// The value of `Upload-Limit`, for an upload that has so many seconds left.
pub(super) fn limits(route: &Route, seconds: u64) -> String {
    limit_text(route.max_body, seconds)
}

/// A response about an upload itself.
struct About<'p> {
    status: Status,
    upload: &'p Upload,
    offset: u64,
    /// A problem (RFC 9457).
    problem: Option<String>,
}

/// Which part of an upload a request sends, by `Upload-Complete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Last,
    /// Others follow.
    Earlier,
}

impl<'a> Exchange<'a> {
    /// `None`: the field is absent or malformed.
    pub(super) fn upload_part(&self) -> Option<Part> {
        let is_last = self.head.only("upload-complete").and_then(boolean)?;
        Some(if is_last { Part::Last } else { Part::Earlier })
    }

    /// PUT with `Upload-Complete`.
    pub(super) async fn begin_upload(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
        terms: Terms,
        part: Part,
    ) -> Result<Response, Problem> {
        let expires = self.now.saturating_add_unsigned(target.route.publishing.resumable.as_secs());
        let mut upload = Upload {
            target: ["/", target.path.as_str()].concat(),
            user: terms.holder.user.clone(),
            length: None,
            state: State::Incomplete,
            expires,
            guard: guard_text(&terms.expected),
        };
        self.learn_length(target, &mut upload, 0, part)?;
        if upload.length.is_some_and(|length| length > target.route.max_body) {
            return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
        }
        let reservation = self.reserve(target, 0).await?;
        let (begun, now) = (upload.clone(), self.now);
        let begin = move |store: &Store| {
            let token = random_name()?;
            uploads::begin(store, &token, &begun, now).map(|new| (token, new))
        };
        let (token, new) = self.on_disk(&target.store, begin).await?;
        let (location, limit) = (self.location(target, &token), self.limit(target, &upload));
        if let Some(client) = request.interim {
            let field = |name: &'static str, value| Field { name: name.as_bytes(), value };
            let fields = [field("Location", location.as_bytes()), field("Upload-Limit", limit.as_bytes())];
            client.send_interim(Status::UPLOAD_RESUMPTION_SUPPORTED, &fields);
        }
        let receiving = Receiving::begin(&token, new.length);
        let new = self.append(target, &upload, new, reservation, &receiving).await?;
        if part == Part::Last {
            return self.complete(target, terms, &token, upload, new).await;
        }
        let head = HeadWriter::new(self.services, Some(target.route), Status::CREATED)
            .field("Location", location)
            .field("Upload-Limit", limit)
            .field("Upload-Complete", boolean_text(false))
            .field("Upload-Offset", new.length.to_string());
        Ok(Response::from_head(head.length(0).finish()))
    }

    /// A request for the URL of an upload.
    pub(super) async fn resume(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        route: &'a Route,
        method: DavMethod,
    ) -> Response {
        match self.resume_upload(request, path, route, method).await {
            Ok(response) => response,
            Err(status) => self.status(route, status).await,
        }
    }

    async fn resume_upload(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        route: &'a Route,
        method: DavMethod,
    ) -> Result<Response, Status> {
        let token = upload_token(path).filter(|token| uploads::is_token(token));
        let token = token.ok_or(Status::NOT_FOUND)?.to_owned();
        // The folder leads to the root that has the upload.
        let folder = path.first_segments(path.segments().count() - 1).map(|folder| folder.as_folder());
        let folder =
            folder.unwrap_or_else(|| SafePath::from_decoded("/").unwrap_or_else(|_| path.as_folder()));
        let place = self.target(&folder).await?;
        let is_own = matches!(self.head.method, Method::Head | Method::Patch | Method::Delete);
        if !is_own {
            let head = HeadWriter::new(self.services, Some(route), Status::METHOD_NOT_ALLOWED);
            return Ok(Response::from_head(head.field("Allow", "HEAD, PATCH, DELETE").length(0).finish()));
        }
        let provided = match self.head.method {
            Method::Patch => self.head.only("upload-offset").and_then(integer),
            _ => None,
        };
        let (upload, hold) = match self.take_over(&place, &token, provided).await {
            Ok(taken) => taken,
            Err(Problem::Failure(Failure::Missing)) => return Err(Status::NOT_FOUND),
            Err(problem) => return Ok(self.respond_to_problem(route, &place, problem).await),
        };
        let own = self.own_target(&upload, path).ok_or(Status::NOT_FOUND)?;
        if let Err(response) = self.may_resume(request, &own, method).await {
            return Ok(response);
        }
        let target = self.target(&own).await?;
        let done = match method {
            DavMethod::Delete => self.cancel(&target, token, hold).await,
            DavMethod::Patch => self.patch(request, &target, token, upload, hold).await,
            _ => {
                let offset = hold.offset();
                let about = About { status: Status::NO_CONTENT, upload: &upload, offset, problem: None };
                Ok(self.about(&target, about))
            }
        };
        Ok(match done {
            Ok(response) => response,
            Err(problem) => self.respond_to_problem(route, &target, problem).await,
        })
    }

    /// The path of what is uploaded. `None`: it is in another folder than the URL of the upload, `path`, or of another
    /// user.
    fn own_target(&self, upload: &Upload, path: &SafePath<'_>) -> Option<SafePath<'static>> {
        let own = SafePath::from_decoded(&upload.target).ok()?;
        let depth = path.segments().count();
        let is_here = own.segments().count() == depth
            && own.segments().zip(path.segments()).take(depth - 1).all(|(a, b)| a == b);
        (is_here && upload.user == self.holder().user).then_some(own)
    }

    /// Whether the client may go on with the upload of `own`, or ask about it. Errors: the response.
    async fn may_resume(
        &mut self,
        request: Request<'_>,
        own: &SafePath<'_>,
        method: DavMethod,
    ) -> Result<(), Response> {
        if self.responder.needs.rules {
            self.enforce(request, |exchange| exchange.check_access(own)).await?;
        }
        // As the PUT that it goes on with.
        if method == DavMethod::Patch {
            self.may_do(request, own, Use::Write, Kind::File).await?;
        }
        self.authorize(request, own, self.route(own)).await
    }

    /// Opens an upload, for a request that begins at `from`, or only asks. A request that receives a part of it ends: its
    /// client has given it up. It goes on if this one can have no success.
    async fn take_over(
        &self,
        place: &Target<'a>,
        token: &str,
        from: Option<u64>,
    ) -> Result<(Upload, Hold), Problem> {
        for _ in 1..ATTEMPTS {
            let ended = Receiving::end(token, from);
            let (token, now) = (token.to_owned(), self.now);
            let open = move |store: &Store| match ended {
                Ok(()) => {
                    uploads::open(store, &token, now).map(|(upload, file)| (Hold::of(&upload, file), upload))
                }
                Err(bytes) => uploads::find(store, &token).map(|upload| (Hold::Other(bytes), upload)),
            };
            match self.on_disk(&place.store, open).await {
                Err(Problem::Failure(Failure::Busy)) => tokio::time::sleep(PAUSE).await,
                done => return done.map(|(hold, upload)| (upload, hold)),
            }
        }
        Err(Problem::Failure(Failure::Busy))
    }

    async fn cancel(&self, target: &Target<'a>, token: String, hold: Hold) -> Result<Response, Problem> {
        let remove = move |store: &Store| {
            drop(hold);
            uploads::remove(store, &token)
        };
        self.on_disk(&target.store, remove).await?;
        Ok(self.without_content(target, Status::NO_CONTENT))
    }

    async fn patch(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
        token: String,
        mut upload: Upload,
        hold: Hold,
    ) -> Result<Response, Problem> {
        let media_type = self.head.value("content-type").unwrap_or_default();
        let essence = trim_ows(media_type.split(|byte| *byte == b';').next().unwrap_or_default());
        if !essence.eq_ignore_ascii_case(PARTIAL.as_bytes()) {
            let head = HeadWriter::new(self.services, Some(target.route), Status::UNSUPPORTED_MEDIA_TYPE);
            return Ok(Response::from_head(head.field("Accept-Patch", PARTIAL).length(0).finish()));
        }
        let provided = self.head.only("upload-offset").and_then(integer).ok_or(Status::BAD_REQUEST)?;
        let part = self.upload_part().ok_or(Status::BAD_REQUEST)?;
        let offset = hold.offset();
        let new = match hold {
            Hold::Own(new) if new.length == provided => new,
            Hold::Own(_) | Hold::Other(_) => {
                let (status, problem) = (Status::CONFLICT, Some(mismatching_offset(offset, provided)));
                return Ok(self.about(target, About { status, upload: &upload, offset, problem }));
            }
            Hold::Complete(_) => {
                let (status, problem) = (Status::BAD_REQUEST, Some(COMPLETED.to_owned()));
                return Ok(self.about(target, About { status, upload: &upload, offset, problem }));
            }
        };
        self.learn_length(target, &mut upload, offset, part)?;
        let (text, name) = (upload.clone(), token.clone());
        self.on_disk(&target.store, move |store| uploads::save(store, &name, &text)).await?;
        let reservation = self.reserve(target, 0).await?;
        let receiving = Receiving::begin(&token, new.length);
        let new = match self.append(target, &upload, new, reservation, &receiving).await {
            Err(Problem::Failure(Failure::Precondition)) => {
                // It has more bytes than the client has said.
                self.on_disk(&target.store, move |store| uploads::remove(store, &token)).await?;
                let problem = Some(INCONSISTENT_LENGTH.to_owned());
                return Ok(self
                    .about(target, About { status: Status::BAD_REQUEST, upload: &upload, offset, problem }));
            }
            appended => appended?,
        };
        if part == Part::Earlier {
            let (status, offset) = (Status::NO_CONTENT, new.length);
            return Ok(self.about(target, About { status, upload: &upload, offset, problem: None }));
        }
        let present = self.present(target).await?;
        let mut terms = self.terms(request, target, &present).await?;
        if upload.guard.is_some() {
            let now = Expected::of(present.found);
            if guard_text(&now) != upload.guard {
                return Err(Status::PRECONDITION_FAILED.into());
            }
            terms.expected = now;
        }
        self.complete(target, terms, &token, upload, new).await
    }

    /// The target takes what has been received.
    async fn complete(
        &self,
        target: &Target<'a>,
        terms: Terms,
        token: &str,
        mut upload: Upload,
        new: NewFile,
    ) -> Result<Response, Problem> {
        let length = new.length;
        if upload.length.is_some_and(|own| own != length) {
            let problem = Some(INCONSISTENT_LENGTH.to_owned());
            let about = About { status: Status::BAD_REQUEST, upload: &upload, offset: length, problem };
            return Ok(self.about(target, about));
        }
        let stored = self.commit(target, terms, new).await?;
        self.announce_change().await;
        // Its bytes are counted already.
        let root = &target.store.root.path;
        added(root, cost(length) - length);
        removed(root, cost_of_file(stored.replaced));
        upload.state = State::Complete(length);
        upload.length = Some(length);
        // The clock may have been set since the request began.
        upload.expires = self.services.clock.now().saturating_add(COMPLETE_SECONDS);
        let (text, name) = (upload, token.to_owned());
        self.on_disk(&target.store, move |store| uploads::save(store, &name, &text)).await?;
        Ok(self.stored(target, &stored).with_fields(&[("Upload-Complete", boolean_text(true))]))
    }

    /// Learns the length of the whole from the request. Errors: the response to one that contradicts itself or an
    /// earlier one.
    fn learn_length(
        &self,
        target: &Target<'a>,
        upload: &mut Upload,
        offset: u64,
        part: Part,
    ) -> Result<(), Response> {
        let rest = self.body.length().known();
        let by_rest = rest.filter(|_| part == Part::Last).map(|rest| offset.saturating_add(rest));
        let named = self.head.only("upload-length").and_then(integer);
        let known = [upload.length, by_rest, named];
        let mut lengths = known.iter().flatten();
        let first = lengths.next().copied();
        let is_consistent = lengths.all(|length| Some(*length) == first);
        let fits = rest.is_none_or(|rest| first.is_none_or(|whole| offset.saturating_add(rest) <= whole));
        if !is_consistent || !fits {
            let problem = Some(INCONSISTENT_LENGTH.to_owned());
            return Err(self.about(target, About { status: Status::BAD_REQUEST, upload, offset, problem }));
        }
        upload.length = first;
        Ok(())
    }

    /// Appends the content of the request. Errors: `Precondition` if it is longer than the whole.
    async fn append(
        &self,
        target: &Target<'a>,
        upload: &Upload,
        mut new: NewFile,
        mut reservation: Reservation,
        receiving: &Receiving,
    ) -> Result<NewFile, Problem> {
        loop {
            let Piece { bytes, is_last } = tokio::select! {
                biased;
                () = receiving.ended() => return Err(Failure::Busy.into()),
                piece = self.next_piece(target) => piece?,
            };
            let length = new.length + bytes.len() as u64;
            if length > target.route.max_body {
                return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
            }
            if upload.length.is_some_and(|whole| length > whole) {
                return Err(Failure::Precondition.into());
            }
            if !reservation.grow_to(bytes.len() as u64) {
                return Err(Failure::NoSpace.into());
            }
            if !receiving.go_on_to(length) {
                return Err(Failure::Busy.into());
            }
            let written = bytes.len() as u64;
            let write = move |store: &Store| new.write(store, &bytes).map(|()| new);
            new = self.on_disk(&target.store, write).await?;
            reservation.keep(written);
            if is_last {
                return Ok(new);
            }
        }
    }

    fn about(&self, target: &Target<'_>, about: About<'_>) -> Response {
        let About { status, upload, offset, problem } = about;
        let is_complete = matches!(upload.state, State::Complete(_));
        let head = HeadWriter::new(self.services, Some(target.route), status)
            .field("Upload-Complete", boolean_text(is_complete))
            .field("Upload-Offset", offset.to_string())
            .optional("Upload-Length", upload.length.map(|length| length.to_string()))
            .field("Upload-Limit", self.limit(target, upload))
            .field("Cache-Control", "no-store");
        match problem {
            Some(problem) => {
                Response::from_head(head.field("Content-Type", PROBLEM).finish_whole(problem.as_bytes()))
            }
            None => Response::from_head(head.finish()),
        }
    }

    fn limit(&self, target: &Target<'_>, upload: &Upload) -> String {
        let left = upload.expires_at(self.now).saturating_sub(self.now);
        let most = target.route.publishing.resumable.as_secs();
        limits(target.route, u64::try_from(left).unwrap_or_default().min(most))
    }

    /// The path of an upload: in the folder of its target.
    fn location(&self, target: &Target<'_>, token: &str) -> String {
        let path = target.path.as_str();
        let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
        [&encoded_path(folder), UPLOAD_NAME, token].concat()
    }
}

/// What a request has of an upload.
enum Hold {
    /// The file, which it alone may write.
    Own(NewFile),
    /// Another request receives it, and has so many bytes.
    Other(u64),
    /// It is complete, with so many bytes.
    Complete(u64),
}

impl Hold {
    fn of(upload: &Upload, file: Option<NewFile>) -> Hold {
        match (upload.state, file) {
            (State::Complete(bytes), _) => Hold::Complete(bytes),
            (State::Incomplete, Some(file)) => Hold::Own(file),
            (State::Incomplete, None) => Hold::Other(0),
        }
    }

    fn offset(&self) -> u64 {
        match self {
            Hold::Own(file) => file.length,
            Hold::Other(bytes) | Hold::Complete(bytes) => *bytes,
        }
    }
}

/// The expected state as a text that is stored with the upload. `None`: any state is right.
fn guard_text(expected: &Expected) -> Option<String> {
    match expected {
        Expected::Anything => None,
        Expected::Nothing => Some("nothing".to_owned()),
        Expected::File(stamp) => Some(format!("{stamp:?}")),
    }
}
