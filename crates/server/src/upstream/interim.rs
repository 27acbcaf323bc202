//! Interim responses of an upstream (RFC 9110 §15.2), passed to the client in number and size as far as limits allow.

use std::cell::Cell;

use site::model::Route;
use taipan_http::client::Interim;
use taipan_http::fields::is_name;
use taipan_http::head::Field;
use taipan_http::status::Status;

use super::request::Handler;
use crate::request::interim::SendInterim;
use crate::services::Services;

/// Interim responses to one request that are passed. Others are dropped.
const MOST: usize = 16;
/// Bytes of their names and values, together.
const MOST_BYTES: usize = 16 * 1024;

/// Fields that the server writes itself, or that act on the final response alone.
const OF_RESPONSES: [&str; 8] = [
    "content-location",
    "date",
    "location",
    "refresh",
    "server",
    "set-cookie",
    "x-accel-redirect",
    "x-sendfile",
];

/// Passes the interim responses to one request.
pub struct Interims<'a> {
    /// The client, and the route. `None`: nothing is passed.
    client: Option<(&'a dyn SendInterim, &'a Route)>,
    passed: Cell<usize>,
    bytes: Cell<usize>,
}

impl<'a> Interims<'a> {
    /// Those of an authorizer are not for the client.
    pub fn new(
        services: &'a Services,
        handler: &Handler,
        client: Option<&'a dyn SendInterim>,
    ) -> Interims<'a> {
        let route = handler.route(services);
        let client = client.filter(|_| !handler.is_authorizer()).map(|client| (client, route));
        Interims { client, ..Interims::dropped() }
    }

    /// None of them is passed.
    pub fn dropped() -> Interims<'a> {
        Interims { client: None, passed: Cell::new(0), bytes: Cell::new(0) }
    }

    /// The server itself sends 100 (Continue).
    pub fn pass(&self, interim: &Interim) {
        let Some((client, route)) = self.client.filter(|_| interim.status != Status::CONTINUE) else {
            return;
        };
        let fields: Vec<Field<'_>> = interim.fields.iter().filter(|field| is_passed(route, field)).collect();
        let bytes: usize = fields.iter().map(|field| field.name.len() + field.value.len()).sum();
        let (passed, bytes) = (self.passed.get() + 1, self.bytes.get() + bytes);
        if passed <= MOST && bytes <= MOST_BYTES {
            self.passed.set(passed);
            self.bytes.set(bytes);
            client.send_interim(interim.status, &fields);
        }
    }
}

/// A field that the route sets or removes is in the final response alone.
fn is_passed(route: &Route, field: &Field<'_>) -> bool {
    !OF_RESPONSES.iter().any(|own| is_name(field.name, own))
        && !route.headers.iter().any(|rule| rule.replaces(field.name))
}
