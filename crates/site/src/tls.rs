//! TLS as a configuration has it: the files of each host's certificates, which clients need one, and the rules of all
//! handshakes.
//!
//! Knows nothing of what is in a file, nor of the library that carries a handshake out.

use std::path::PathBuf;
use std::time::Duration;

use taipan_http::target::Scheme;

/// The path below which a client without TLS may read the response to an HTTP-01 challenge (RFC 8555 §8.3).
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";
/// The field by which a host tells clients to use TLS from now on (RFC 6797 §6.1).
pub const HSTS: &str = "Strict-Transport-Security";

/// The rules of all handshakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub versions: Versions,
    pub unknown_name: UnknownName,
    /// From the first byte to the end of a handshake.
    pub handshake_timeout: Duration,
    /// Handshakes per second of one client address, over all workers. 0: no limit.
    pub handshakes_per_client: u32,
    pub early_data: EarlyData,
    /// How often the files of certificates are compared with those that are served. `None`: only at a reload.
    pub watch: Option<Duration>,
    /// In order of preference. Empty: those of the library, in the client's order.
    pub ciphers: Vec<Cipher>,
    /// Whether scripts have the certificate of a client, in PEM.
    pub export_client_certificate: bool,
    /// The client chooses among them.
    pub groups: Vec<Group>,
    /// `None`: sessions are not resumed.
    pub tickets: Option<Tickets>,
    pub private_keys: PrivateKeys,
    pub files: Encryption,
}

/// How sessions are resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tickets {
    /// How long tickets have the same key.
    pub rotation: Duration,
    /// `None`: the keys come from a random secret.
    pub key_file: Option<PathBuf>,
}

/// What encrypts large files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    Program,
    /// The kernel, where it can.
    Kernel,
}

/// The process that has the private keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateKeys {
    /// One that only signs.
    InSigner,
    InGeneration,
}

/// The versions of TLS that clients may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    Tls12,
    Tls13,
    Both,
}

/// What a client gets that asks for a name which no host and no certificate has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownName {
    /// The certificate of the default host.
    Default,
    /// The alert `unrecognized_name` (RFC 6066 §3).
    Reject,
}

/// Whether a request may come with the first bytes of a resumed connection (RFC 8470).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    Rejected,
    Accepted,
}

/// A cipher suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

/// A group of a key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    X25519MlKem768,
    X25519,
    P256,
    P384,
}

/// TLS of one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostTls {
    /// Empty: those of the default host.
    pub certificates: Vec<CertificateFiles>,
    /// Whether the host has its certificate by ACME. Then it has no files of its own.
    pub acme: bool,
    pub clients: ClientCertificates,
    pub plain: PlainRequests,
}

/// Where a certificate is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateFiles {
    /// A file with a chain, or a folder with several.
    pub certificate: PathBuf,
    /// `None`: the key is in the same file, or beside it.
    pub key: Option<PathBuf>,
}

impl CertificateFiles {
    /// Where the key of a certificate is looked for, if it is not in its file.
    pub fn keys_beside(&self) -> [PathBuf; 2] {
        [self.certificate.with_extension("key"), self.certificate.with_file_name("privkey.pem")]
    }
}

/// Whether a host requests certificates of its clients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ClientCertificates {
    #[default]
    Off,
    /// A client may have one. One that is not valid ends the handshake.
    Optional(ClientAuthorities),
    /// A client without one is rejected.
    Required(ClientAuthorities),
}

/// Who may have issued the certificate of a client, and which certificates they have revoked. Files of PEM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ClientAuthorities {
    pub ca: Vec<PathBuf>,
    pub crl: Vec<PathBuf>,
}

/// What a request gets that has come without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainRequests {
    #[default]
    Served,
    /// A redirect to the same URL with `https`, unless it is beneath [`CHALLENGES`].
    Redirected,
}

/// Why a host does not serve a request by a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRejection {
    /// The request has come without TLS: to the same URL with `https`.
    Redirect,
    /// The connection was made for a host with other rules for clients: 421 (RFC 9110 §15.5.20).
    Misdirected,
    /// The client has shown no certificate, which the host requires: 403.
    NoCertificate,
}

impl HostTls {
    /// Whether some requests for the host are not served, so that each has to be examined.
    pub fn rejects(&self) -> bool {
        self.plain == PlainRequests::Redirected || !self.clients.are_off()
    }

    /// Why the host does not serve a request for `path`, which is decoded and has no slash in front. `handshake`: the
    /// host that the client has asked for in its handshake; `None` without TLS, which a proxy may have.
    pub fn rejection(
        &self,
        scheme: Scheme,
        path: &str,
        handshake: Option<&HostTls>,
    ) -> Option<ConnectionRejection> {
        let is_open = path.starts_with(CHALLENGES.trim_start_matches('/'));
        match handshake {
            _ if self.plain == PlainRequests::Redirected && scheme == Scheme::Http && !is_open => {
                Some(ConnectionRejection::Redirect)
            }
            None if self.clients.are_required() && !is_open => Some(ConnectionRejection::NoCertificate),
            Some(asked) if !self.clients.are_off() && asked.clients != self.clients => {
                Some(ConnectionRejection::Misdirected)
            }
            _ => None,
        }
    }

    /// Whether a response must not have the field [`HSTS`]: what is served without TLS where the rest is redirected
    /// (RFC 6797 §7.2).
    pub fn withholds_hsts(&self, scheme: Scheme) -> bool {
        self.plain == PlainRequests::Redirected && scheme == Scheme::Http
    }

    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let certificates = self
            .certificates
            .iter_mut()
            .flat_map(|files| files.key.iter_mut().chain([&mut files.certificate]));
        let authorities = self.clients.authorities_mut();
        let clients = authorities.into_iter().flat_map(|known| known.ca.iter_mut().chain(&mut known.crl));
        certificates.chain(clients)
    }
}

impl ClientCertificates {
    fn authorities_mut(&mut self) -> Option<&mut ClientAuthorities> {
        match self {
            ClientCertificates::Off => None,
            ClientCertificates::Optional(known) | ClientCertificates::Required(known) => Some(known),
        }
    }

    pub fn are_off(&self) -> bool {
        *self == ClientCertificates::Off
    }

    fn are_required(&self) -> bool {
        matches!(self, ClientCertificates::Required(_))
    }
}

impl Cipher {
    pub const ALL: [(&'static str, Cipher); 3] = [
        ("aes-128-gcm", Cipher::Aes128Gcm),
        ("aes-256-gcm", Cipher::Aes256Gcm),
        ("chacha20-poly1305", Cipher::ChaCha20Poly1305),
    ];
}

impl Group {
    /// With the names of their registry (IANA, TLS Supported Groups), but the NIST curves by their usual names.
    pub const ALL: [(&'static str, Group); 4] = [
        ("X25519MLKEM768", Group::X25519MlKem768),
        ("X25519", Group::X25519),
        ("P-256", Group::P256),
        ("P-384", Group::P384),
    ];
}

impl Default for Tls {
    fn default() -> Tls {
        Tls {
            versions: Versions::Both,
            unknown_name: UnknownName::Default,
            handshake_timeout: Duration::from_secs(10),
            handshakes_per_client: 0,
            early_data: EarlyData::Rejected,
            watch: None,
            ciphers: Vec::new(),
            export_client_certificate: false,
            groups: Group::ALL.map(|(_, group)| group).to_vec(),
            tickets: Some(Tickets::default()),
            private_keys: PrivateKeys::InGeneration,
            files: Encryption::Program,
        }
    }
}

impl Default for Tickets {
    fn default() -> Tickets {
        Tickets { rotation: Duration::from_secs(12 * 60 * 60), key_file: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_requests_by_the_connection_that_they_have_come_by() {
        let known = |name: &str| ClientAuthorities { ca: vec![name.into()], crl: Vec::new() };
        let host = |clients: ClientCertificates, plain| HostTls { clients, plain, ..HostTls::default() };
        let open = HostTls::default();
        let redirected = host(ClientCertificates::Off, PlainRequests::Redirected);
        let optional = host(ClientCertificates::Optional(known("a")), PlainRequests::Served);
        let required = host(ClientCertificates::Required(known("a")), PlainRequests::Redirected);
        let others = host(ClientCertificates::Required(known("b")), PlainRequests::Redirected);
        let challenge = ".well-known/acme-challenge/x";
        let (http, https) = (Scheme::Http, Scheme::Https);
        for (host, scheme, path, handshake, expected) in [
            (&open, http, "", None, None),
            (&open, https, "", Some(&required), None),
            (&redirected, http, "", None, Some(ConnectionRejection::Redirect)),
            (&redirected, http, challenge, None, None),
            (&redirected, http, ".well-known/acme-challenge", None, Some(ConnectionRejection::Redirect)),
            // A proxy has TLS.
            (&redirected, https, "", None, None),
            (&redirected, https, "", Some(&open), None),
            (&optional, http, "", None, None),
            (&optional, https, "", Some(&optional), None),
            (&optional, https, "", Some(&open), Some(ConnectionRejection::Misdirected)),
            (&required, http, "", None, Some(ConnectionRejection::Redirect)),
            (&required, http, challenge, None, None),
            (&required, https, "", None, Some(ConnectionRejection::NoCertificate)),
            (&required, https, "", Some(&required), None),
            (&required, https, "", Some(&open), Some(ConnectionRejection::Misdirected)),
            (&required, https, "", Some(&optional), Some(ConnectionRejection::Misdirected)),
            (&required, https, "", Some(&others), Some(ConnectionRejection::Misdirected)),
        ] {
            assert_eq!(
                host.rejection(scheme, path, handshake),
                expected,
                "{host:?} {scheme:?} {path} {handshake:?}"
            );
        }
        for (host, expected) in [(&open, false), (&redirected, true), (&optional, true), (&required, true)] {
            assert_eq!(host.rejects(), expected);
        }
    }
}
