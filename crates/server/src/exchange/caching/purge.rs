//! PURGE: a client of the route's list removes what is stored for a URL, in all workers and in the files.
//!
//! Knows nothing of `taipan purge`, which removes by path, prefix and tag.

use cache::key::{Key, Parts};
use site::network::Networks;
use taipan_http::status::Status;
use taipan_http::target::{Scheme, normalized};

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
        OriginServer { mapping, upstream }: OriginServer<'_>,
    ) -> Response {
        let is_allowed = match self.client {
            Peer::Unknown => false,
            client => clients.contains(client.ip()),
        };
        if !is_allowed {
            return self.status_of(resource, Status::FORBIDDEN).await;
        }
        let raw_path = self.head.target.path().unwrap_or("/");
        let (path, query) = (normalized(raw_path), self.head.target.query());
        for scheme in SCHEMES {
            let mut text = String::with_capacity(256);
            let authority = self.head.authority;
            Parts { scheme, authority, raw_path, path: &path, query, mapping, upstream }
                .write(&resource.settings, &mut text);
            self.responder.cache.invalidate(&Key::new(&text));
        }
        self.services.counts.add(Count::ResponsesPurged, 1);
        fixed::text(self.services, "purged\n")
    }
}
