//! How a client uses TLS: what it trusts, offers and shows. The records and the handshake are those of rustls.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, NamedGroup, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::certificates::{Certificate, authority};

/// The settings of a client. Connections with the same settings share the tickets of their sessions, if they
/// keep any.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

/// A connection with TLS. A read returns `Ok(0)` after a `close_notify`, and an error at any other end.
pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

impl Default for Tls {
    fn default() -> Tls {
        Tls::new()
    }
}

impl Tls {
    /// Trusts the authority of this test process, expects the name `localhost`, offers HTTP/1.1 in TLS 1.2 and
    /// 1.3, and keeps no tickets.
    pub fn new() -> Tls {
        Tls::of(rustls::ALL_VERSIONS, authority().roots(), None)
    }

    /// As `new`, with this version alone.
    pub fn version(version: &'static SupportedProtocolVersion) -> Tls {
        Tls::of(&[version], authority().roots(), None)
    }

    /// As `new`, with the certificate of a client.
    pub fn with_certificate(certificate: &Certificate) -> Tls {
        Tls::of(rustls::ALL_VERSIONS, authority().roots(), Some(certificate))
    }

    /// Expects this name, and sends it to the server.
    pub fn server(mut self, name: &str) -> Tls {
        self.server = ServerName::try_from(name.to_owned()).expect("it is a name");
        self
    }

    /// Offers these protocols (RFC 7301), or none.
    pub fn protocols(self, protocols: &[&str]) -> Tls {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self.change(|config| config.alpn_protocols = protocols)
    }

    /// Keeps tickets, and resumes sessions.
    pub fn resuming(self) -> Tls {
        self.change(|config| config.resumption = Resumption::in_memory_sessions(16))
    }

    /// Keeps tickets, and sends its first bytes with a resumed session before the handshake is complete (RFC 8446
    /// §2.3).
    pub fn early(self) -> Tls {
        self.resuming().change(|config| config.enable_early_data = true)
    }

    /// A connection without a socket, for a test that carries the records itself.
    pub fn connection(&self) -> ClientConnection {
        let connection = ClientConnection::new(self.config.clone(), self.server.clone());
        connection.expect("the settings are valid")
    }

    /// The handshake begins with the first read or write.
    pub(crate) fn connect(&self, socket: TcpStream) -> Stream {
        StreamOwned::new(self.connection(), socket)
    }

    fn of(
        versions: &[&'static SupportedProtocolVersion],
        roots: Arc<RootCertStore>,
        certificate: Option<&Certificate>,
    ) -> Tls {
        let mut provider = aws_lc_rs::default_provider();
        // As browsers do: the first of the groups is that whose share is sent.
        provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
        let builder =
            ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions);
        let builder = builder.expect("the versions are known").with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some(Certificate { certificate, key, .. }) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let chain = chain.collect::<Result<_, _>>().expect("it is PEM");
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("it is PEM");
                builder.with_client_auth_cert(chain, key).expect("the key is that of the certificate")
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        // For records that no proper client sends.
        config.enable_secret_extraction = true;
        let server = ServerName::try_from("localhost").expect("it is a name");
        Tls { config: Arc::new(config), server }
    }

    fn change(self, change: impl FnOnce(&mut ClientConfig)) -> Tls {
        let mut config = Arc::unwrap_or_clone(self.config);
        change(&mut config);
        Tls { config: Arc::new(config), ..self }
    }
}
