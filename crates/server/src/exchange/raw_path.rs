//! Paths that upstreams get as they were sent. If either reading of such a path may not pass, the request may not.

use site::forwarding::RawReading;
use taipan_http::target::{PathError, SafePath, has_dots_with_parameters, has_overlong_escapes};

use super::Exchange;
use crate::content::fixed;
use crate::response::Response;

impl<'a> Exchange<'a> {
    #[cold]
    #[inline(never)]
    pub(super) fn reject_path(&self, error: PathError) -> Response {
        fixed::rejection(self.services, None, error.status(), Some(error.rule()))
    }

    /// As `SafePath::parse`, of a path with an encoded slash, which only an upstream can get.
    #[cold]
    #[inline(never)]
    pub(super) fn raw_path(&self, sent: &'a str) -> Result<SafePath<'a>, Response> {
        match RawReading::of(&self.host().routes, sent) {
            Ok(Some(reading)) => Ok(reading.path),
            Ok(None) => Err(self.reject_path(PathError::EncodedSlash)),
            Err(error) => Err(self.reject_path(error)),
        }
    }

    /// Reads the path in both ways, if its route passes it on as it was sent. Errors: the response to a path that leads
    /// to different places.
    #[cold]
    #[inline(never)]
    pub(super) fn read_raw(&mut self) -> Result<(), Response> {
        let sent = self.head.target.path().unwrap_or("/");
        let reading = RawReading::of(&self.host().routes, sent).map_err(|error| self.reject_path(error))?;
        self.raw = reading.map(Box::new);
        Ok(())
    }

    /// Errors: the response to a path in which an application might find what the rules have not seen.
    pub(super) fn check_forwarded(&self) -> Result<(), Response> {
        match self.head.target.path() {
            Some(path) if has_dots_with_parameters(path) => Err(self.reject_path(PathError::DotSegment)),
            Some(path) if has_overlong_escapes(path) => Err(self.reject_path(PathError::Overlong)),
            _ => Ok(()),
        }
    }
}
