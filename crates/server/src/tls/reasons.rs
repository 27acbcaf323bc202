//! Why sessions of TLS fail, in words for an administrator.

use std::borrow::Cow;

use rustls::{CertificateError, Error, InvalidMessage};

/// Why a session with a client has failed.
pub fn of_client(error: &Error) -> Cow<'static, str> {
    match error {
        Error::NoCertificatesPresented => {
            "the client has sent no certificate; see client_certificates".into()
        }
        Error::InvalidCertificate(certificate) => {
            let see = match certificate {
                CertificateError::UnknownIssuer => "; see client_ca",
                CertificateError::UnknownRevocationStatus
                | CertificateError::ExpiredRevocationList
                | CertificateError::ExpiredRevocationListContext { .. } => "; see client_crl",
                _ => "",
            };
            format!("the certificate of the client {}{see}", of_certificate(certificate)).into()
        }
        Error::AlertReceived(alert) => {
            format!("the client has ended the TLS session with the alert {alert:?}").into()
        }
        other => other.to_string().into(),
    }
}

/// Why a session with a server has failed.
pub fn of_server(error: &Error) -> Cow<'static, str> {
    match error {
        Error::InvalidCertificate(certificate) => {
            let see = match certificate {
                CertificateError::UnknownIssuer => "; see tls_ca",
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "; see tls_name"
                }
                _ => "",
            };
            format!("its certificate {}{see}", of_certificate(certificate)).into()
        }
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "it does not speak TLS".into(),
        Error::AlertReceived(alert) => {
            format!("it has ended the TLS session with the alert {alert:?}").into()
        }
        other => format!("the TLS session has failed: {other}").into(),
    }
}

/// What is wrong with a certificate.
fn of_certificate(error: &CertificateError) -> Cow<'static, str> {
    use CertificateError::*;
    let fixed = match error {
        BadEncoding => "cannot be read",
        BadSignature => "has a wrong signature",
        Expired | ExpiredContext { .. } => "has expired",
        NotValidYet | NotValidYetContext { .. } => "is not valid yet",
        Revoked => "is revoked",
        UnknownIssuer => "is of an unknown authority",
        UnknownRevocationStatus => "is of an authority without a list of revoked certificates",
        ExpiredRevocationList | ExpiredRevocationListContext { .. } => {
            "is of an authority whose list of revoked certificates has expired"
        }
        UnhandledCriticalExtension => "has a critical extension that is not supported",
        UnsupportedSignatureAlgorithmContext { .. }
        | UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "has a signature algorithm that is not supported"
        }
        InvalidPurpose | InvalidPurposeContext { .. } => "is for another purpose (extended key usage)",
        NotValidForName => "is for another name",
        NotValidForNameContext { expected, .. } => {
            return format!("is not for the name {}", expected.to_str()).into();
        }
        // A certificate of an old version, for example.
        Other(why) => return format!("is not supported: {why}").into(),
        other => return format!("is not valid: {other}").into(),
    };
    fixed.into()
}
