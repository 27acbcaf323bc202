//! Certificates: an authority of the test's own, made once for each test process, and what it signs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use rustls::RootCertStore;

/// The names for which the server of a [`Site`](crate::Site) has a certificate.
pub const NAMES: &[&str] = &["localhost", "127.0.0.1", "127.0.0.2", "::1", "example.org", "*.example.org"];

/// An authority that clients trust.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key, both as PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub certificate: String,
    pub key: String,
    serial: u64,
}

/// The authority of this test process.
pub fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("taipan's tests"))
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("there is randomness");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("it is a valid certificate") }
    }

    /// Its own certificate as PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server of these names and addresses.
    pub fn server(&self, names: &[&str]) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("they are names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate for a client, with this common name.
    pub fn client(&self, name: &str) -> Certificate {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// What a client trusts.
    pub fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let certificate = self.issuer.der().clone();
        roots.add(certificate).expect("it is a certificate");
        Arc::new(roots)
    }

    /// A list that revokes these certificates, in PEM. It is valid to the end of the year before `until`.
    pub fn revoke(&self, certificates: &[&Certificate], until: i32) -> String {
        let revoked = |certificate: &&Certificate| RevokedCertParams {
            serial_number: SerialNumber::from(certificate.serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: certificates.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("it is a valid list");
        list.pem().expect("it can be written")
    }

    /// As `server`, valid from the beginning of one year to that of the other.
    pub fn server_between(&self, names: &[&str], from: i32, to: i32) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("they are names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Certificate {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("there is randomness");
        let signed = params.signed_by(&key, &self.issuer).expect("it is a valid certificate");
        Certificate { certificate: signed.pem(), key: key.serialize_pem(), serial }
    }
}
