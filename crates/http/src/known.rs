//! The fields that decide how a message is received, checked or passed on, and which of them are of one connection.
//! They are found by the lengths of their names.
//!
//! The fields that the server reads of a request are a set of their own, `head::Names`: with these in it, the set would
//! need twice the bits, and `User-Agent` would be compared with three further names in each request.

use crate::fields::is_name;

/// A field that decides how a message is received, checked or passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownField {
    Connection,
    ContentLength,
    ContentLocation,
    ContentType,
    Date,
    Expect,
    Host,
    KeepAlive,
    Location,
    Proxy,
    ProxyConnection,
    Refresh,
    Server,
    SetCookie,
    Status,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    XAccelRedirect,
    XSendfile,
}

/// Some known fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownFields(u32);

/// Fields that only HTTP/1 has, and that end with a connection (RFC 9113 §8.2.2).
const CONNECTION_SPECIFIC: KnownFields = KnownFields::EMPTY
    .with(KnownField::Connection)
    .with(KnownField::KeepAlive)
    .with(KnownField::ProxyConnection)
    .with(KnownField::TransferEncoding)
    .with(KnownField::Upgrade);
/// Fields for this hop alone (RFC 9110 §7.6.1).
const HOP_BY_HOP: KnownFields = CONNECTION_SPECIFIC.with(KnownField::Te).with(KnownField::Trailer);
/// Fields that a server writes itself instead of passing them on: those for this hop, and the length of the content.
pub const NOT_PASSED_ON: KnownFields = HOP_BY_HOP.with(KnownField::ContentLength);
/// As `NOT_PASSED_ON`, of a request. Programs take `Proxy` for the address of one.
pub const NOT_PASSED_ON_IN_REQUESTS: KnownFields =
    NOT_PASSED_ON.with(KnownField::Expect).with(KnownField::Host).with(KnownField::Proxy);

/// Whether HTTP/2 has no field of this name (RFC 9113 §8.2.2).
pub fn is_connection_specific(name: &[u8]) -> bool {
    CONNECTION_SPECIFIC.has_name(name)
}

/// Whether a field is for this hop alone (RFC 9110 §7.6.1).
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    HOP_BY_HOP.has_name(name)
}

impl KnownField {
    /// The field of this name, which is a token. Names have no case.
    pub fn of(name: &[u8]) -> Option<KnownField> {
        // By length first, and with names of a known length: each field of each head comes here.
        Some(match name.len() {
            2 if is_name(name, "te") => KnownField::Te,
            4 if is_name(name, "date") => KnownField::Date,
            4 if is_name(name, "host") => KnownField::Host,
            5 if is_name(name, "proxy") => KnownField::Proxy,
            6 if is_name(name, "expect") => KnownField::Expect,
            6 if is_name(name, "server") => KnownField::Server,
            6 if is_name(name, "status") => KnownField::Status,
            7 if is_name(name, "refresh") => KnownField::Refresh,
            7 if is_name(name, "trailer") => KnownField::Trailer,
            7 if is_name(name, "upgrade") => KnownField::Upgrade,
            8 if is_name(name, "location") => KnownField::Location,
            10 if is_name(name, "connection") => KnownField::Connection,
            10 if is_name(name, "keep-alive") => KnownField::KeepAlive,
            10 if is_name(name, "set-cookie") => KnownField::SetCookie,
            10 if is_name(name, "x-sendfile") => KnownField::XSendfile,
            12 if is_name(name, "content-type") => KnownField::ContentType,
            14 if is_name(name, "content-length") => KnownField::ContentLength,
            16 if is_name(name, "content-location") => KnownField::ContentLocation,
            16 if is_name(name, "proxy-connection") => KnownField::ProxyConnection,
            16 if is_name(name, "x-accel-redirect") => KnownField::XAccelRedirect,
            17 if is_name(name, "transfer-encoding") => KnownField::TransferEncoding,
            _ => return None,
        })
    }
}

impl KnownFields {
    pub const EMPTY: KnownFields = KnownFields(0);

    pub const fn with(self, field: KnownField) -> KnownFields {
        KnownFields(self.0 | 1 << field as u32)
    }

    pub const fn union(self, others: KnownFields) -> KnownFields {
        KnownFields(self.0 | others.0)
    }

    pub const fn without(self, others: KnownFields) -> KnownFields {
        KnownFields(self.0 & !others.0)
    }

    pub const fn has(self, field: KnownField) -> bool {
        self.0 & 1 << field as u32 != 0
    }

    /// Whether the field of this name is one of them.
    pub fn has_name(self, name: &[u8]) -> bool {
        KnownField::of(name).is_some_and(|field| self.has(field))
    }

    pub const fn has_any_of(self, others: KnownFields) -> bool {
        self.0 & others.0 != 0
    }
}

impl FromIterator<KnownField> for KnownFields {
    fn from_iter<I: IntoIterator<Item = KnownField>>(fields: I) -> KnownFields {
        fields.into_iter().fold(KnownFields::EMPTY, KnownFields::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_field_by_its_name_in_any_case() {
        for (name, field) in [
            ("Connection", KnownField::Connection),
            ("CONTENT-LENGTH", KnownField::ContentLength),
            ("Content-Location", KnownField::ContentLocation),
            ("Content-Type", KnownField::ContentType),
            ("date", KnownField::Date),
            ("Expect", KnownField::Expect),
            ("hOST", KnownField::Host),
            ("Keep-Alive", KnownField::KeepAlive),
            ("Location", KnownField::Location),
            ("Proxy", KnownField::Proxy),
            ("Proxy-Connection", KnownField::ProxyConnection),
            ("ReFresh", KnownField::Refresh),
            ("Server", KnownField::Server),
            ("Set-Cookie", KnownField::SetCookie),
            ("Status", KnownField::Status),
            ("TE", KnownField::Te),
            ("Trailer", KnownField::Trailer),
            ("Transfer-Encoding", KnownField::TransferEncoding),
            ("Upgrade", KnownField::Upgrade),
            ("X-Accel-Redirect", KnownField::XAccelRedirect),
            ("X-Sendfile", KnownField::XSendfile),
        ] {
            assert_eq!(KnownField::of(name.as_bytes()), Some(field), "{name}");
            assert_eq!(KnownField::of(format!("{name}x").as_bytes()), None, "{name}x");
            let other = format!("{}_", &name[..name.len() - 1]);
            assert_eq!(KnownField::of(other.as_bytes()), None, "{other}");
        }
        assert_eq!(KnownField::of(b"X-Powered-By"), None);
        assert_eq!(KnownField::of(b""), None);
    }

    #[test]
    fn keeps_what_it_was_given() {
        let some: KnownFields = [KnownField::Te, KnownField::XSendfile].into_iter().collect();
        assert!(some.has(KnownField::Te) && some.has(KnownField::XSendfile) && !some.has(KnownField::Date));
        assert!(some.has_any_of(HOP_BY_HOP) && !KnownFields::EMPTY.has_any_of(HOP_BY_HOP));
    }

    #[test]
    fn tells_fields_of_a_connection_and_of_a_hop_from_others() {
        for (name, connection_specific, hop_by_hop) in [
            ("Connection", true, true),
            ("keep-alive", true, true),
            ("Proxy-Connection", true, true),
            ("transfer-encoding", true, true),
            ("UPGRADE", true, true),
            ("TE", false, true),
            ("trailer", false, true),
            ("content-length", false, false),
            ("date", false, false),
            ("upgrade-insecure-requests", false, false),
            ("", false, false),
        ] {
            let found = (is_connection_specific(name.as_bytes()), is_hop_by_hop(name.as_bytes()));
            assert_eq!(found, (connection_specific, hop_by_hop), "{name}");
        }
    }
}
