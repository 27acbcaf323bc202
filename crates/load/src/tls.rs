//! TLS by rustls: trust, resumption, and the negotiated parameters.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption as Store;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, RootCertStore, SignatureScheme,
};

use crate::plan::{Plan, Protocol, Resumption, Trust};
use crate::run::{Fault, Tls};

/// Where systems keep the certificates of trusted authorities.
const SYSTEM: &[&str] =
    &["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Sessions that are cached for all connections of a run.
const SESSIONS: usize = 4096;

/// Errors: a sentence naming the file that cannot be read.
pub fn config(plan: &Plan) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let builder = match &plan.tls.trust {
        Trust::Any => builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny { provider })),
        Trust::File(path) => builder.with_root_certificates(Arc::new(authorities(path)?)),
        Trust::System => builder.with_root_certificates(Arc::new(system()?)),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = match plan.protocol {
        Protocol::Http10 => Vec::new(),
        Protocol::Http11 { .. } => vec![b"http/1.1".to_vec()],
        Protocol::Http2 { .. } => vec![b"h2".to_vec()],
    };
    config.resumption = match plan.tls.resumption {
        Resumption::On => Store::in_memory_sessions(SESSIONS),
        Resumption::Off => Store::disabled(),
    };
    Ok(Arc::new(config))
}

/// A connection to one of the plan's targets, before its first byte.
pub fn connection(config: &Arc<ClientConfig>, plan: &Plan, target: usize) -> Result<ClientConnection, Fault> {
    let host = plan.tls.server_name.as_ref().unwrap_or(&plan.targets[target].host);
    let name = ServerName::try_from(host.clone()).map_err(|_| Fault::Handshake)?;
    ClientConnection::new(config.clone(), name).map_err(|_| Fault::Handshake)
}

/// Whether the handshake has resumed a session.
pub fn is_resumed(connection: &ClientConnection) -> bool {
    connection.handshake_kind() == Some(HandshakeKind::Resumed)
}

/// Version and cipher suite under their registered names.
pub fn names(connection: &ClientConnection) -> Option<Tls> {
    let version = match connection.protocol_version()? {
        rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
        rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
        other => format!("{other:?}"),
    };
    let cipher = format!("{:?}", connection.negotiated_cipher_suite()?.suite());
    Some(Tls { version, cipher: cipher.replace("TLS13_", "TLS_") })
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let text = fs::read(path).map_err(|error| named(error.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| named(error.to_string()))?;
        // Systems have certificates that rustls cannot read.
        let _ = store.add(certificate);
    }
    if store.is_empty() { Err(named("no usable certificate".to_owned())) } else { Ok(store) }
}

fn system() -> Result<RootCertStore, String> {
    let path = SYSTEM
        .iter()
        .map(Path::new)
        .find(|path| path.exists())
        .ok_or_else(|| "this system has no CA certificates; give --ca FILE or --insecure".to_owned())?;
    authorities(path)
}

/// Accepts every certificate, for test servers. Signatures are still verified, because their cost is part of
/// the measurement.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
