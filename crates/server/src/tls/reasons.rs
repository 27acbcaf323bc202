//! Why sessions of TLS fail, in words for an administrator.

use std::borrow::Cow;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

const NO_CERTIFICATE: &str = "there is no certificate that the client can use: it verifies no signature of their keys; or \
                              it is an authority with a challenge (acme-tls/1) that this server has not ordered; or this \
                              server goes on without a file that it cannot use, as its log says";

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
        Error::PeerIncompatible(PeerIncompatible::NoSignatureSchemesInCommon) => NO_CERTIFICATE.into(),
        Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered) => {
            "the client offers TLS 1.1 at most, which this server does not speak".into()
        }
        Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOfferedOrEnabled | PeerIncompatible::SupportedVersionsExtensionRequired,
        ) => "the client offers no version of TLS that this server speaks; see versions in [tls]".into(),
        Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName) => {
            "the client asks for a name that is no domain name (server_name)".into()
        }
        // The words of rustls, which has no variant for it.
        Error::General(why) if why == "no server certificate chain resolved" => NO_CERTIFICATE.into(),
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
            let see = match alert {
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA => "; see tls_certificate",
                AlertDescription::UnrecognisedName => "; see tls_name",
                _ => "",
            };
            format!("{}{see}", alerted(*alert)).into()
        }
        other => format!("the TLS session has failed: {other}").into(),
    }
}

fn alerted(alert: AlertDescription) -> String {
    format!("it has ended the TLS session with the alert {alert:?}")
}

/// Why a session with an authority that issues certificates has failed.
pub fn of_authority(error: &Error) -> Cow<'static, str> {
    match error {
        Error::InvalidCertificate(certificate) => {
            let see = match certificate {
                CertificateError::UnknownIssuer => "; see ca in [certificates]",
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => "; is the clock right?",
                _ => "",
            };
            format!("its certificate {}{see}", of_certificate(certificate)).into()
        }
        // Its keys are not those of an upstream.
        Error::AlertReceived(alert) => alerted(*alert).into(),
        other => of_server(other),
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
        NotValidForNameContext { expected, presented } => {
            return format!("is not for the name {}{}", expected.to_str(), names(presented)).into();
        }
        Other(why) => match why.to_string().as_str() {
            "CaUsedAsEndEntity" => {
                "is that of an authority (CA:TRUE), which no server or client may use as its own"
            }
            "UnsupportedCertVersion" => "is of an old version of X.509; one of version 3 is needed",
            why => return format!("is not supported: {why}").into(),
        },
        other => return format!("is not valid: {other}").into(),
    };
    fixed.into()
}

/// Bytes of a name that is shown (RFC 1035 §2.3.4). A certificate may have any text as one.
const MAX_NAME: usize = 253;

/// The first name of a certificate, from the words of rustls, and how many others there are.
fn names(presented: &[String]) -> String {
    let name = |text: &String| {
        let name = text.strip_prefix("DnsName(\"")?.strip_suffix("\")")?;
        (name.len() <= MAX_NAME).then(|| name.escape_debug().to_string())
    };
    let names: Vec<String> = presented.iter().filter_map(name).collect();
    match &names[..] {
        [] => String::new(),
        [first] => format!(", but for {first}"),
        [first, others @ ..] => format!(", but for {first} and {} more", others.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn a_certificate_for_another_name_is_shown_with_its_own() {
        let long = "a".repeat(1000);
        for (presented, expected) in [
            (vec![], ""),
            (vec!["a.example"], ", but for a.example"),
            (vec!["a.example", "b.example", "c.example"], ", but for a.example and 2 more"),
            (vec!["a\u{1b}[1m"], ", but for a\\u{1b}[1m"),
            (vec![&*long], ""),
        ] {
            let presented: Vec<String> =
                presented.into_iter().map(|name| format!("DnsName(\"{name}\")")).collect();
            assert_eq!(names(&presented), expected);
        }
        assert_eq!(names(&["IpAddress(127.0.0.1)".to_owned()]), "");
    }

    #[test]
    fn a_client_without_a_certificate_that_it_can_use_is_explained() {
        let error = Error::General("no server certificate chain resolved".to_owned());
        let explained = of_client(&error);
        assert!(explained.starts_with("there is no certificate that the client can use"), "{explained}");
    }

    #[test]
    fn a_name_that_is_no_domain_name_is_explained() {
        let error = PeerMisbehaved::ServerNameMustContainOneHostName.into();
        assert_eq!(of_client(&error), "the client asks for a name that is no domain name (server_name)");
    }

    #[test]
    fn a_certificate_of_an_authority_is_explained_with_the_key_to_change() {
        // As the verifier of rustls names what it has no word for.
        let other = |name| CertificateError::Other(OtherError(Arc::new(std::io::Error::other(name))));
        for (error, expected) in [
            (
                CertificateError::UnknownIssuer,
                "its certificate is of an unknown authority; see ca in [certificates]",
            ),
            (CertificateError::Expired, "its certificate has expired; is the clock right?"),
            (
                other("CaUsedAsEndEntity"),
                "its certificate is that of an authority (CA:TRUE), which no server or client may use as its own",
            ),
            (other("Unheard"), "its certificate is not supported: Unheard"),
        ] {
            assert_eq!(of_authority(&Error::InvalidCertificate(error)), expected);
        }
    }
}
