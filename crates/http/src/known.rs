//! The fields of responses that decide how a response is received, checked or passed on. They are found once for each field,
//! by the length of its name.

use crate::fields::is_name;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownField {
    Connection,
    ContentLength,
    ContentType,
    Date,
    KeepAlive,
    Location,
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

/// Fields for this hop alone (RFC 9110 §7.6.1), and `Content-Length`. The server writes its own.
pub const HOP_BY_HOP: KnownFields = KnownFields::EMPTY
    .with(KnownField::Connection)
    .with(KnownField::ContentLength)
    .with(KnownField::KeepAlive)
    .with(KnownField::ProxyConnection)
    .with(KnownField::Te)
    .with(KnownField::Trailer)
    .with(KnownField::TransferEncoding)
    .with(KnownField::Upgrade);

impl KnownField {
    /// The field of this name, which is a token. Names have no case.
    pub fn of(name: &[u8]) -> Option<KnownField> {
        let (field, known) = match (name.len(), name.first()?.to_ascii_lowercase()) {
            (2, _) => (KnownField::Te, "te"),
            (4, _) => (KnownField::Date, "date"),
            (6, _) if name[1].eq_ignore_ascii_case(&b't') => (KnownField::Status, "status"),
            (6, _) => (KnownField::Server, "server"),
            (7, b'r') => (KnownField::Refresh, "refresh"),
            (7, b't') => (KnownField::Trailer, "trailer"),
            (7, _) => (KnownField::Upgrade, "upgrade"),
            (8, _) => (KnownField::Location, "location"),
            (10, b'c') => (KnownField::Connection, "connection"),
            (10, b'k') => (KnownField::KeepAlive, "keep-alive"),
            (10, b's') => (KnownField::SetCookie, "set-cookie"),
            (10, _) => (KnownField::XSendfile, "x-sendfile"),
            (12, _) => (KnownField::ContentType, "content-type"),
            (14, _) => (KnownField::ContentLength, "content-length"),
            (16, b'p') => (KnownField::ProxyConnection, "proxy-connection"),
            (16, _) => (KnownField::XAccelRedirect, "x-accel-redirect"),
            (17, _) => (KnownField::TransferEncoding, "transfer-encoding"),
            _ => return None,
        };
        is_name(name, known).then_some(field)
    }
}

impl KnownFields {
    pub const EMPTY: KnownFields = KnownFields(0);

    pub const fn with(self, field: KnownField) -> KnownFields {
        KnownFields(self.0 | 1 << field as u32)
    }

    pub const fn without(self, others: KnownFields) -> KnownFields {
        KnownFields(self.0 & !others.0)
    }

    pub const fn has(self, field: KnownField) -> bool {
        self.0 & 1 << field as u32 != 0
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
            ("Content-Type", KnownField::ContentType),
            ("date", KnownField::Date),
            ("Keep-Alive", KnownField::KeepAlive),
            ("Location", KnownField::Location),
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
}
