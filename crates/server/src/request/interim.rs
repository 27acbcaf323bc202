//! Interim responses to a request (RFC 9110 §15.2), such as 103 (Early Hints), ahead of its response.
//!
//! Knows nothing of the protocol: a connection implements `SendInterim`.

use taipan_http::head::Field;
use taipan_http::status::Status;

pub trait SendInterim {
    /// Sends an interim response. It is dropped where the connection has no space for it now.
    fn send_interim(&self, status: Status, fields: &[Field<'_>]);
}
