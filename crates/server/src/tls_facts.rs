//! What a TLS handshake has established, for rules, scripts and applications, and how long certificates are valid.
//! Plain data, which a build without TLS has, too.

use std::borrow::Cow;
use std::rc::Rc;

/// Facts of a connection with TLS.
#[derive(Debug, Clone)]
pub struct TlsFacts {
    /// The index of the host that the client has asked for by its name, whose rules the handshake has followed.
    pub host: usize,
    /// `TLSv1.3`
    pub protocol: &'static str,
    /// As OpenSSL names it: `TLS_AES_128_GCM_SHA256`, `ECDHE-ECDSA-AES128-GCM-SHA256`.
    pub cipher: &'static str,
    /// What the client has asked for (SNI, RFC 6066 §3).
    pub name: Option<Box<str>>,
    pub is_resumed: bool,
    /// The verified certificate of the client.
    pub client: Option<Box<ClientFacts>>,
}

/// The TLS of a connection when input is received.
#[derive(Default)]
pub struct TlsState {
    /// The input was sent before the handshake was complete, so that it may be repeated (RFC 8470).
    pub is_early: bool,
    /// What the log has of it. `None`: there is no TLS.
    pub logged: Option<Rc<TlsFacts>>,
}

/// How long a certificate of the server is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    /// The first name of the certificate.
    pub name: String,
    pub file: String,
    /// `ECDSA P-256`, `RSA 2048`.
    pub key: String,
    /// Seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
}

/// What a certificate says of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFacts {
    /// Distinguished names (RFC 4514).
    pub subject: String,
    pub issuer: String,
    /// In hexadecimal digits.
    pub serial: String,
    /// `Nov 22 10:04:05 2026 GMT`
    pub not_before: String,
    pub not_after: String,
    pub pem: String,
}

/// Whether scripts have the whole certificate of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    Facts,
    Certificate,
}

impl TlsFacts {
    /// The variables of a script, with the names that Apache's mod_ssl gives them.
    pub fn variables(&self, export: Export) -> Vec<(&'static str, Cow<'_, str>)> {
        let verified = if self.client.is_some() { "SUCCESS" } else { "NONE" };
        let mut variables = vec![
            ("SSL_PROTOCOL", self.protocol.into()),
            ("SSL_CIPHER", self.cipher.into()),
            ("SSL_CLIENT_VERIFY", verified.into()),
            ("SSL_SESSION_RESUMED", if self.is_resumed { "Resumed" } else { "Initial" }.into()),
        ];
        if let Some(name) = &self.name {
            variables.push(("SSL_TLS_SNI", (&**name).into()));
        }
        let Some(client) = &self.client else { return variables };
        for (name, value) in [
            ("SSL_CLIENT_S_DN", &client.subject),
            ("SSL_CLIENT_I_DN", &client.issuer),
            ("SSL_CLIENT_M_SERIAL", &client.serial),
            ("SSL_CLIENT_V_START", &client.not_before),
            ("SSL_CLIENT_V_END", &client.not_after),
        ] {
            variables.push((name, value.into()));
        }
        if export == Export::Certificate {
            variables.push(("SSL_CLIENT_CERT", (&client.pem).into()));
        }
        variables
    }
}
