//! Makes keys and certificates: self-signed ones, those of a local authority, the certificate of a TLS-ALPN-01
//! challenge (RFC 8737 §3), and requests for certificates (RFC 2986).
//!
//! Knows no files and no authority on the network.

use std::net::{Ipv4Addr, Ipv6Addr};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
    SignatureAlgorithm,
};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use site::certificates::KeyType;
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use crate::tls::pem;

/// Clocks differ: a certificate is valid from this time before it is made.
const CLOCK_DIFFERENCE: Duration = Duration::hours(1);
/// The subject of self-signed certificates.
pub const SELF_SIGNED_NAME: &str = "self-signed by taipan";
const SELF_SIGNED: Duration = Duration::days(90);
const CHALLENGE: Duration = Duration::days(7);
/// Browsers accept no longer lifetime from authorities that they have been told to trust (825 days, Apple).
const LOCAL: Duration = Duration::days(397);
const AUTHORITY: Duration = Duration::days(10 * 365);

/// A certificate, those that lead from it to its authority, and its key.
#[derive(Debug)]
pub struct Pair {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl Pair {
    /// The certificates, and behind them the key.
    pub fn pem(&self) -> Zeroizing<String> {
        let mut text: String = self.chain.iter().map(|one| certificate_pem(one)).collect();
        text.push_str(&key_pem(&self.key));
        Zeroizing::new(text)
    }
}

/// A certificate for these names that no client trusts, to serve until there is another one.
pub fn self_signed(names: &[String]) -> Result<Pair, String> {
    let key = KeyPair::generate().map_err(text)?;
    let mut params = leaf(names, SELF_SIGNED)?;
    params.distinguished_name.push(DnType::CommonName, SELF_SIGNED_NAME);
    let certificate = params.self_signed(&key).map_err(text)?;
    Ok(Pair { chain: vec![certificate.der().clone()], key: key.into() })
}

/// The certificate by which a server proves that it has a name: `digest` is the SHA-256 of the key authorization.
pub fn challenge(name: &str, digest: &[u8; 32]) -> Result<Pair, String> {
    let key = KeyPair::generate().map_err(text)?;
    let mut params = leaf(&[name.to_owned()], CHALLENGE)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key).map_err(text)?;
    Ok(Pair { chain: vec![certificate.der().clone()], key: key.into() })
}

/// A request for a certificate with these names, and the new key of the certificate.
pub fn request(
    names: &[String],
    kind: KeyType,
) -> Result<(CertificateSigningRequestDer<'static>, PrivateKeyDer<'static>), String> {
    let key = generate(kind)?;
    let mut params = CertificateParams::new(names).map_err(text)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(text)?;
    Ok((request.der().clone(), key.into()))
}

/// The key of an ACME account: P-256, as PKCS#8.
pub fn account_key() -> Result<PrivatePkcs8KeyDer<'static>, String> {
    KeyPair::generate().map(|key| key.serialize_der().into()).map_err(text)
}

/// The public key of an account, as an uncompressed point (SEC 1 §2.3.3) without its first byte: x, then y.
pub fn public_point(key: &PrivatePkcs8KeyDer<'_>) -> Result<[u8; 64], String> {
    let key = KeyPair::try_from(key).map_err(text)?;
    let point = key.public_key_raw().strip_prefix(&[4]).and_then(|point| point.try_into().ok());
    point.ok_or_else(|| "it is not a key for P-256".to_owned())
}

fn generate(kind: KeyType) -> Result<KeyPair, String> {
    let elliptic: &SignatureAlgorithm = match kind {
        KeyType::EcdsaP256 => &rcgen::PKCS_ECDSA_P256_SHA256,
        KeyType::EcdsaP384 => &rcgen::PKCS_ECDSA_P384_SHA384,
        KeyType::Rsa2048 => return generate_rsa(Bits::Rsa2048),
        KeyType::Rsa4096 => return generate_rsa(Bits::Rsa4096),
    };
    KeyPair::generate_for(elliptic).map_err(text)
}

#[derive(Debug, Clone, Copy)]
enum Bits {
    Rsa2048,
    Rsa4096,
}

#[cfg(feature = "aws-lc")]
fn generate_rsa(bits: Bits) -> Result<KeyPair, String> {
    let size = match bits {
        Bits::Rsa2048 => rcgen::RsaKeySize::_2048,
        Bits::Rsa4096 => rcgen::RsaKeySize::_4096,
    };
    KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size).map_err(text)
}

#[cfg(not(feature = "aws-lc"))]
fn generate_rsa(bits: Bits) -> Result<KeyPair, String> {
    Err(format!(
        "this program was built with ring, which cannot make a key {bits:?}; set `key = \"ecdsa-p256\"`"
    ))
}

/// An authority of this machine. The clients that trust it are this user's, and it can only issue certificates for
/// names and addresses that lead to this machine: with a stolen key, no other site's users can be deceived.
pub struct Authority {
    pub certificate: CertificateDer<'static>,
    key: KeyPair,
    params: CertificateParams,
}

impl Authority {
    /// `name` tells it apart from others in the lists of browsers.
    pub fn generate(name: &str) -> Result<Authority, String> {
        let key = KeyPair::generate().map_err(text)?;
        let params = authority(name);
        let certificate = params.self_signed(&key).map_err(text)?.der().clone();
        Ok(Authority { certificate, key, params })
    }

    /// One that was made before.
    pub fn of(certificate: CertificateDer<'static>, key: &PrivateKeyDer<'_>) -> Result<Authority, String> {
        let key = KeyPair::try_from(key).map_err(text)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&certificate).map_err(|e| e.to_string())?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err("its key belongs to another certificate".to_owned());
        }
        let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let params = authority(name.ok_or("it has no name")?);
        Ok(Authority { certificate, key, params })
    }

    pub fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(key_pem(&PrivatePkcs8KeyDer::from(self.key.serialized_der()).into()))
    }

    pub fn issue(&self, names: &[String]) -> Result<Pair, String> {
        let key = KeyPair::generate().map_err(text)?;
        let mut params = leaf(names, LOCAL)?;
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(text)?;
        Ok(Pair { chain: vec![certificate.der().clone()], key: key.into() })
    }
}

/// The days from and to which an authority is valid, if it expires before a certificate that it would issue now.
pub fn validity_that_ends(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let (from, to) = (&parsed.validity().not_before, &parsed.validity().not_after);
    let is_ending = to.timestamp() < (OffsetDateTime::now_utc() + LOCAL).unix_timestamp();
    is_ending.then(|| format!("{} to {}", from.to_datetime().date(), to.to_datetime().date()))
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = validity(AUTHORITY);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let loopback = [
        GeneralSubtree::DnsName("localhost".to_owned()),
        GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix(Ipv4Addr::LOCALHOST.octets(), 8)),
        GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(Ipv6Addr::LOCALHOST.octets(), 128)),
    ];
    params.name_constraints =
        Some(NameConstraints { permitted_subtrees: loopback.into(), excluded_subtrees: Vec::new() });
    params
}

fn leaf(names: &[String], lifetime: Duration) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(names).map_err(text)?;
    (params.not_before, params.not_after) = validity(lifetime);
    params.distinguished_name = DistinguishedName::new();
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn validity(lifetime: Duration) -> (OffsetDateTime, OffsetDateTime) {
    let now = OffsetDateTime::now_utc();
    (now - CLOCK_DIFFERENCE, now + lifetime)
}

pub fn certificate_pem(certificate: &CertificateDer<'_>) -> String {
    pem::section("CERTIFICATE", certificate)
}

pub fn key_pem(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    pem::section(label, key.secret_der())
}

fn text(error: rcgen::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{CertificateError, Error, RootCertStore};

    use super::*;
    use crate::tls::provider;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// The verdict of a client that trusts `authority`.
    fn verify(authority: &CertificateDer<'static>, pair: &Pair, name: &str) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).expect("it is an authority");
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().expect("there is a root");
        let name = ServerName::try_from(name.to_owned()).expect("it is a name");
        verifier.verify_server_cert(&pair.chain[0], &[], &name, &[], UnixTime::now()).map(drop)
    }

    #[test]
    fn a_local_authority_issues_for_this_machine_alone() {
        let made = Authority::generate("taipan test").unwrap();
        let key = PrivateKeyDer::from_pem_slice(made.key_pem().as_bytes()).unwrap();
        let authority = Authority::of(made.certificate.clone(), &key).unwrap();
        let own = authority.issue(&names(&["localhost", "a.localhost", "127.0.0.1", "::1"])).unwrap();
        for name in ["localhost", "a.localhost", "127.0.0.1", "::1"] {
            assert_eq!(verify(&made.certificate, &own, name), Ok(()), "{name}");
        }
        for name in ["example.org", "localhost.example.org", "192.0.2.1"] {
            let other = authority.issue(&names(&[name])).unwrap();
            assert!(verify(&made.certificate, &other, name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_authority_with_the_key_of_another_is_rejected() {
        let (one, other) = (Authority::generate("one").unwrap(), Authority::generate("other").unwrap());
        let key = PrivateKeyDer::from_pem_slice(other.key_pem().as_bytes()).unwrap();
        assert!(Authority::of(one.certificate, &key).is_err_and(|why| why.contains("another certificate")));
    }

    #[test]
    fn no_client_trusts_a_self_signed_certificate_but_its_names_and_key_fit() {
        let pair = self_signed(&names(&["example.org", "*.example.org"])).unwrap();
        let other = Authority::generate("taipan test").unwrap();
        let verdict = verify(&other.certificate, &pair, "example.org");
        assert_eq!(verdict, Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)));
        let text = pair.pem();
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().unwrap();
        assert_eq!(chain, pair.chain);
        assert_eq!(PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap(), pair.key);
        let key = provider().key_provider.load_private_key(pair.key.clone_key()).unwrap();
        assert!(rustls::sign::CertifiedKey::new(chain, key).keys_match().is_ok());
    }

    #[test]
    fn a_challenge_has_its_digest_in_a_critical_extension() {
        let pair = challenge("example.org", &[7; 32]).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(&pair.chain[0]).unwrap();
        // RFC 8737 §6.1.
        let found =
            parsed.extensions().iter().find(|e| e.oid.to_id_string() == "1.3.6.1.5.5.7.1.31").unwrap();
        assert!(found.critical);
        assert_eq!(found.value, [&[4, 32][..], &[7; 32]].concat());
    }

    #[test]
    fn a_request_has_a_new_key_of_its_type() {
        for kind in [KeyType::EcdsaP256, KeyType::EcdsaP384] {
            let (one, key) = request(&names(&["example.org"]), kind).unwrap();
            let (other, _) = request(&names(&["example.org"]), kind).unwrap();
            assert_ne!(one, other);
            assert!(provider().key_provider.load_private_key(key).is_ok());
        }
    }
}
