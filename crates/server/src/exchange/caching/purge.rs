//! PURGE: a client of the route's list removes what is stored for a URL, in all workers and in the files.
//!
//! Knows nothing of `taipan purge`, which removes by path, prefix and tag.

use cache::key::Key;
use site::network::Networks;
use taipan_http::status::Status;
use taipan_http::target::Scheme;

use super::{OriginServer, Resource};
use crate::content::fixed;
use crate::exchange::Exchange;
use crate::peer::Peer;
use crate::response::Response;
use crate::stats::Count;

/// The application that purges may speak another scheme than the clients.
const SCHEMES: [Scheme; 2] = [Scheme::Http, Scheme::Https];

impl Exchange<'_> {
    pub(super) async fn purge(
        &mut self,
        resource: &Resource<'_>,
        clients: &Networks,
        origin: OriginServer<'_>,
    ) -> Response {
        let is_allowed = match self.client {
            Peer::Unknown => false,
            client => clients.contains(client.ip()),
        };
        if !is_allowed {
            return self.status_of(resource, Status::FORBIDDEN).await;
        }
        let url = (self.head.target.path().unwrap_or("/"), self.head.target.query());
        for scheme in SCHEMES {
            let mut text = String::new();
            self.write_key_of(scheme, &resource.settings, origin, url, &mut text);
            self.responder.cache.invalidate(&Key::new(&text));
        }
        self.services.counts.add(Count::ResponsesPurged, 1);
        fixed::text(self.services, "purged\n")
    }
}
