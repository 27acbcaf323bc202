//! The form by which users with credentials change the running server. A form of another site is rejected: by what the
//! browser says of its origin, and by a token that only the page has.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use auth::nonce::Nonce;
use site::acts::{self, ActForm};
use site::model::Route;
use taipan_http::head::Method;
use taipan_http::status::Status;

use super::Exchange;
use crate::content::fixed;
use crate::response::Response;
use crate::response_head::HeadWriter;
use crate::sys;

/// Seconds of a token.
const LIFETIME: i64 = 3600;
/// Bytes of a form.
const MAX_FORM: usize = 8 * 1024;
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// The key of the tokens of this process. After a reload, a page has to be loaded again to have a valid token.
static KEY: LazyLock<[u8; 32]> = LazyLock::new(sys::random_key);

impl Exchange<'_> {
    pub(super) async fn acts(&self, route: &Route) -> Response {
        if !self.has_credentials(route) {
            return fixed::status(self.services, Some(route), Status::FORBIDDEN);
        }
        let message = match self.head.method {
            Method::Post => match self.act().await {
                Ok(message) => message,
                Err(status) => return fixed::status(self.services, Some(route), status),
            },
            _ => String::new(),
        };
        let nonce = Nonce { time: self.now, unique: RandomState::new().hash_one(self.now) };
        let page = acts::page(&nonce.sign(&KEY), &message);
        let head = HeadWriter::new(self.services, Some(route), Status::OK)
            .field("Content-Type", "text/html; charset=utf-8")
            .field("Cache-Control", "no-store")
            .field("Referrer-Policy", "same-origin")
            .field("X-Content-Type-Options", "nosniff")
            .policy(acts::POLICY);
        Response::from_head(head.finish_whole(page.as_bytes()))
    }

    /// Does what a form asks for, and says what became of it.
    async fn act(&self) -> Result<String, Status> {
        if !self.is_of_page() {
            return Err(Status::FORBIDDEN);
        }
        let media_type = self.head.values("content-type").next().unwrap_or_default();
        let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default();
        if !media_type.trim_ascii().eq_ignore_ascii_case(FORM) {
            return Err(Status::UNSUPPORTED_MEDIA_TYPE);
        }
        let mut form = Vec::new();
        while let Some(bytes) = self.body.read(MAX_FORM as u64).await.map_err(|(status, _)| status)? {
            if form.len() + bytes.len() > MAX_FORM {
                return Err(Status::CONTENT_TOO_LARGE);
            }
            form.extend_from_slice(&bytes);
        }
        let ActForm { token, line } = acts::asked(&form).ok_or(Status::BAD_REQUEST)?;
        let nonce = Nonce::verify(token.as_bytes(), &KEY);
        if !nonce.is_some_and(|nonce| nonce.is_fresh(self.now, LIFETIME)) {
            return Err(Status::FORBIDDEN);
        }
        let main_thread = self.services.main_thread.as_ref().ok_or(Status::SERVICE_UNAVAILABLE)?;
        let user = self.grants.user().unwrap_or_else(|| "a user".into());
        let who: String = user.chars().filter(|character| !character.is_control()).collect();
        let text = format!("{who} at {}\n{line}", self.client);
        let done = main_thread.act(text.into_bytes()).await.ok_or(Status::SERVICE_UNAVAILABLE)?;
        let line = line.replace('\0', " ");
        Ok(match done {
            Ok(text) => format!("Done: {line}\n{text}"),
            Err(text) => format!("Not done: {line}\n{text}"),
        })
    }

    /// Whether the client has shown who it is. Rules of access may let some pass without that, and so may folders
    /// without passwords. A browser of such a client would act for any site whose name leads to this server (DNS
    /// rebinding).
    fn has_credentials(&self, route: &Route) -> bool {
        self.grants.user().is_some() || !route.jwts.is_empty() || !route.authorizers.is_empty()
    }

    /// Whether the browser says that the form is of this server (Fetch Metadata, and RFC 6454 §7).
    fn is_of_page(&self) -> bool {
        let mut sites = self.head.values("sec-fetch-site");
        if let Some(site) = sites.next() {
            return site == b"same-origin" && sites.next().is_none();
        }
        let own = [self.head.scheme.as_str().as_bytes(), b"://", self.head.authority].concat();
        let mut origins = self.head.values("origin");
        origins.next().is_some_and(|origin| origin.eq_ignore_ascii_case(&own)) && origins.next().is_none()
    }
}
