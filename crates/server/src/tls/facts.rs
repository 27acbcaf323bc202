//! What a handshake has established, as scripts and rules know it.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion};
use taipan_http::date;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::names::distinguished;
use super::pem;
use crate::tls_facts::{ClientFacts, TlsFacts};

/// The facts of a connection whose handshake has got so far. `host`: the host that the client has asked for by its
/// name.
pub fn facts(connection: &CommonState, host: usize, name: Option<Box<str>>) -> TlsFacts {
    let protocol = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "",
    };
    let cipher = connection.negotiated_cipher_suite().map_or("", |suite| cipher_name(suite.suite()));
    let own = connection.peer_certificates().and_then(|chain| chain.first());
    let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
    TlsFacts { host, protocol, cipher, name, is_resumed, client: own.and_then(client).map(Box::new) }
}

fn client(der: &CertificateDer<'_>) -> Option<ClientFacts> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let serial: Vec<u8> = parsed.raw_serial().iter().copied().skip_while(|byte| *byte == 0).collect();
    let validity = parsed.validity();
    Some(ClientFacts {
        subject: distinguished(parsed.subject()),
        issuer: distinguished(parsed.issuer()),
        serial: serial.iter().map(|byte| format!("{byte:02X}")).collect(),
        not_before: time(validity.not_before.timestamp()),
        not_after: time(validity.not_after.timestamp()),
        pem: pem::section("CERTIFICATE", der),
    })
}

/// As OpenSSL names them.
fn cipher_name(suite: CipherSuite) -> &'static str {
    use CipherSuite::*;
    match suite {
        TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "",
    }
}

/// `Nov  2 10:04:05 2026 GMT`, as OpenSSL prints the time of a certificate.
fn time(seconds: i64) -> String {
    let civil = date::civil(seconds);
    let month = civil.month_name();
    let (day, hour, minute, second, year) = (civil.day, civil.hour, civil.minute, civil.second, civil.year);
    format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_times_as_openssl_does() {
        assert_eq!(time(0), "Jan  1 00:00:00 1970 GMT");
        assert_eq!(time(1_795_341_845), "Nov 22 10:04:05 2026 GMT");
    }
}
