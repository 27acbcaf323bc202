//! Files of a folder, a site that names them, and handshakes without a socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, CustomExtension,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ProtocolVersion};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, ServerConnection};
use site::config::{self, Source};
use site::model::Site;

use super::inspect::CertificateFacts;
use super::material::Keys;
use super::*;
use crate::finding::{Finding, Severity, Unusable};

/// Seconds since 1970, in 2026.
const NOW: i64 = 1_795_000_000;

/// A folder that is removed, and an authority.
struct Files {
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
struct Made {
    chain: String,
    key: String,
}

struct One<'t>(&'t str);

impl Source for One<'_> {
    fn read(&self, _: &Path, _: usize) -> std::io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn expand(&self, _: &Path) -> std::io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    authority_with(name, |_| ())
}

fn authority_with(
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    change(&mut params);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Files {
    fn new() -> Files {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("taipan-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Files { folder, authority: authority("the authority") }
    }

    fn of(authority: CertifiedIssuer<'static, KeyPair>) -> Files {
        let mut files = Files::new();
        files.authority = authority;
        files
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A certificate by the authority, written as `name` with its key behind it.
    fn certificate(&self, name: &str, hosts: &[&str]) -> Made {
        let made = self.make(hosts, &KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap(), |_| ());
        self.write(name, &format!("{}{}", made.chain, made.key));
        made
    }

    fn make(&self, hosts: &[&str], key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> Made {
        let names: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "a server");
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let issuer: &Issuer<'_, KeyPair> = &self.authority;
        Made { chain: params.signed_by(key, issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    /// A certificate of a client with this serial number.
    fn client(&self, serial: u64) -> Made {
        self.make(&[], &KeyPair::generate().unwrap(), |params| {
            params.serial_number = Some(SerialNumber::from(serial));
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    /// A list that revokes the serial number 1.
    fn revocations(&self, next_year: i32) -> String {
        self.revocations_with(|params| params.next_update = date_time_ymd(next_year, 1, 1))
    }

    fn revocations_with(&self, change: impl FnOnce(&mut CertificateRevocationListParams)) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(1),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let mut params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        change(&mut params);
        params.signed_by(&self.authority).unwrap().pem().unwrap()
    }

    /// A site with an address for TLS, whose paths begin in the folder.
    fn site(&self, text: &str) -> Site {
        let text = format!("listen = [\"127.0.0.1:443 tls\", \"127.0.0.1:80\"]\n{text}");
        config::load(&self.folder.join("site.toml"), &One(&text)).unwrap_or_else(|e| panic!("{text}\n{e:#?}"))
    }

    fn tls(&self, text: &str) -> ServerTls {
        let site = self.site(text);
        let read = Material::read(&site, Keys::Read, NOW).with_keys();
        let (material, keys) = read.unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
        let tickets = TicketSecrets::of(&site, None).unwrap().map(tickets::TicketKeys::new);
        ServerTls::new(&site, &material, keys, tickets, None).unwrap()
    }

    /// The problems of a site, without the path of the folder.
    fn problems(&self, text: &str) -> Vec<(Severity, &'static str, String)> {
        let reading = Material::read(&self.site(text), Keys::Read, NOW);
        let folder = format!("{}/", self.folder.display());
        let shown = |problem: Finding| (problem.severity, problem.keys[0], problem.text.replace(&folder, ""));
        reading.problems.into_iter().map(shown).collect()
    }

    /// A client that trusts the authority.
    fn client_config(&self, certificate: Option<&Made>) -> ClientConfig {
        self.client_config_of(rustls::ALL_VERSIONS, certificate)
    }

    /// As `client_config`, of a client that has these versions.
    fn client_config_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        certificate: Option<&Made>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        // As browsers do: the group that is safe from quantum computers first.
        let mut provider = (*provider()).clone();
        provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        match certificate {
            None => builder.with_no_client_auth(),
            Some(Made { chain, key }) => {
                let chain =
                    CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn hello(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Shakes hands. Errors: the first of either side, or the bytes of a rejection.
fn connect(
    tls: &ServerTls,
    config: ClientConfig,
    name: &str,
) -> Result<(ClientConnection, ServerConnection), String> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = hello(&mut client);
    let config = match tls.choose(&bytes) {
        Choice::Settings { config, .. } | Choice::Challenge(config) => config,
        Choice::Rejected(alert) => return Err(format!("{alert:x?}")),
        Choice::Incomplete => panic!("the hello is complete"),
    };
    let mut server = ServerConnection::new(config).unwrap();
    let mut end = None;
    while client.is_handshaking() || server.is_handshaking() || !bytes.is_empty() {
        server.read_tls(&mut &bytes[..]).unwrap();
        lifetime::with_end(&mut end, || server.process_new_packets())
            .map_err(|e| format!("server: {}", reasons::of_client(&e)))?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets().map_err(|e| format!("client: {e}"))?;
        bytes.clear();
        client.write_tls(&mut bytes).unwrap();
    }
    Ok((client, server))
}

/// The first name and the key of the certificate that a client gets.
fn served(tls: &ServerTls, config: ClientConfig, name: &str) -> Result<String, String> {
    let (client, _) = connect(tls, config, name)?;
    let facts = CertificateFacts::read(&client.peer_certificates().unwrap()[0]).unwrap();
    Ok(format!("{} {}", facts.names[0], facts.key))
}

/// Accepts every certificate, to see which one it gets.
#[derive(Debug)]
struct Everything;

impl rustls::client::danger::ServerCertVerifier for Everything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.verify_tls12_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn trusting_client(files: &Files) -> ClientConfig {
    let mut config = files.client_config(None);
    config.dangerous().set_certificate_verifier(Arc::new(Everything));
    config
}

/// Three hosts, and one more that has the certificate of the top level.
const HOSTS: &str = "root = \"/srv\"\nnames = \"top.example\"\ncertificate = \"top.pem\"\n\
    [[host]]\nnames = [\"a.example\", \"*.a.example\"]\nroot = \"/a\"\ncertificate = [\"a.pem\", \"below-a.pem\"]\n\
    [[host]]\nnames = \"also.top.example\"\nroot = \"/t\"\n";

fn with_hosts() -> Files {
    let files = Files::new();
    files.certificate("top.pem", &["top.example", "also.top.example", "extra.example"]);
    files.certificate("a.pem", &["a.example"]);
    files.certificate("below-a.pem", &["*.a.example"]);
    files
}

#[test]
fn a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
    let files = with_hosts();
    let tls = files.tls(HOSTS);
    for (name, expected) in [
        ("top.example", "top.example"),
        ("TOP.example", "top.example"),
        ("top.example.", "top.example"),
        ("also.top.example", "top.example"),
        // Only the certificate has it.
        ("extra.example", "top.example"),
        ("a.example", "a.example"),
        ("www.a.example", "*.a.example"),
        // The host has the name, and none of its certificates.
        ("www.www.a.example", "a.example"),
        ("unknown.example", "top.example"),
        // An address is not sent as a name.
        ("127.0.0.1", "top.example"),
    ] {
        let got = served(&tls, trusting_client(&files), name);
        assert_eq!(got, Ok(format!("{expected} ECDSA P-256")), "{name}");
    }
    assert!(connect(&tls, files.client_config(None), "www.a.example").is_ok(), "a client that verifies");
    assert!(connect(&tls, files.client_config(None), "www.www.a.example").is_err());
}

#[test]
fn an_unknown_name_is_rejected_where_the_configuration_says_so() {
    let files = with_hosts();
    let tls = files.tls(&format!("{HOSTS}[tls]\nunknown_name = \"reject\"\n"));
    for (name, is_known) in [
        ("top.example", true),
        ("extra.example", true),
        ("x.a.example", true),
        ("unknown.example", false),
        ("127.0.0.1", false),
    ] {
        match served(&tls, trusting_client(&files), name) {
            Ok(_) => assert!(is_known, "{name}"),
            Err(alert) => {
                assert_eq!((alert.as_str(), is_known), ("[15, 3, 3, 0, 2, 2, 70]", false), "{name}")
            }
        }
    }
}

#[test]
fn the_settings_are_chosen_when_the_hello_is_complete() {
    let files = with_hosts();
    let tls = files.tls(&format!("{HOSTS}[tls]\nunknown_name = \"reject\"\n"));
    let name = ServerName::try_from("a.example").unwrap();
    let mut client = ClientConnection::new(Arc::new(files.client_config(None)), name).unwrap();
    let bytes = hello(&mut client);
    for end in 0..bytes.len() {
        assert!(matches!(tls.choose(&bytes[..end]), Choice::Incomplete), "{end}");
    }
    assert!(matches!(tls.choose(&bytes), Choice::Settings { host: 1, .. }));
    assert!(matches!(tls.choose(b"GET / HTTP/1.1\r\n\r\n"), Choice::Settings { host: 0, .. }));
    // RFC 8446 §4: three bytes have the length of a message, and the library takes no such one.
    let record = [&[22, 3, 1, 0x40, 0][..], &[0; 0x4000]].concat();
    let mut long = record.repeat(8);
    long[5..9].copy_from_slice(&[1, 1, 0xff, 0xfc]);
    assert!(matches!(tls.choose(&long[..6]), Choice::Incomplete));
    assert!(matches!(tls.choose(&long), Choice::Settings { host: 0, .. }));
    // With one setting for all, nothing need be sent.
    assert!(matches!(files.tls(HOSTS).choose(b""), Choice::Settings { host: 0, .. }));
}

#[test]
fn hosts_are_told_apart_by_the_files_of_their_rules_and_not_by_the_content() {
    let files = Files::new();
    files.certificate("a.pem", &["a.example", "b.example"]);
    files.write("ca.pem", &files.authority.pem());
    files.write("copy.pem", &files.authority.pem());
    let chosen = |other: &str| {
        let tls = files.tls(&format!(
            "root = \"/srv\"\ncertificate = \"a.pem\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\n\
             [[host]]\nnames = \"b.example\"\nroot = \"/b\"\nclient_certificates = \"required\"\nclient_ca = \"{other}\"\n"
        ));
        let name = ServerName::try_from("b.example").unwrap();
        let mut client = ClientConnection::new(Arc::new(files.client_config(None)), name).unwrap();
        match tls.choose(&hello(&mut client)) {
            Choice::Settings { host, .. } => host,
            _ => panic!("there are settings"),
        }
    };
    assert_eq!((chosen("copy.pem"), chosen("ca.pem")), (1, 0));
}

/// One challenge for one name.
struct Answer(&'static str, Arc<CertifiedKey>);

impl Challenges for Answer {
    fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        (name == self.0).then(|| self.1.clone())
    }
}

#[test]
fn a_challenge_needs_no_certificate_of_a_client() {
    let files = Files::new();
    files.certificate("a.pem", &["a.example"]);
    let challenge = files.make(
        &["a.example"],
        &KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap(),
        |_| (),
    );
    files.write("ca.pem", &files.authority.pem());
    for (demand, is_alone) in [("off", false), ("optional", true), ("required", true)] {
        let site = files.site(&format!(
            "root = \"/srv\"\ncertificate = \"a.pem\"\nclient_certificates = \"{demand}\"\nclient_ca = \"ca.pem\"\n"
        ));
        let (material, keys) = Material::read(&site, Keys::Read, NOW).with_keys().unwrap();
        let key = PrivateKeyDer::from_pem_slice(challenge.key.as_bytes()).unwrap();
        let chain = CertificateDer::pem_slice_iter(challenge.chain.as_bytes());
        let own =
            CertifiedKey::new(chain.collect::<Result<_, _>>().unwrap(), crypto::signing_key(&key).unwrap());
        let answer = Arc::new(Answer("a.example", Arc::new(own)));
        let tls = ServerTls::new(&site, &material, keys, None, Some(answer)).unwrap();
        let offering = |protocols: &[&str]| {
            let mut config = trusting_client(&files);
            config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
            config
        };
        let authority = offering(&["acme-tls/1"]);
        assert_eq!(served(&tls, authority.clone(), "a.example").unwrap(), "a.example RSA 2048", "{demand}");
        let name = ServerName::try_from("a.example").unwrap();
        let mut client = ClientConnection::new(Arc::new(authority), name).unwrap();
        assert_eq!(matches!(tls.choose(&hello(&mut client)), Choice::Challenge(_)), is_alone, "{demand}");
        // Any other client gets the certificate of the host, by its rules.
        let other = served(&tls, offering(&["acme-tls/1", "http/1.1"]), "a.example");
        let expected = match demand {
            "required" => {
                Err("server: the client has sent no certificate; see client_certificates".to_owned())
            }
            _ => Ok("a.example ECDSA P-256".to_owned()),
        };
        assert_eq!(other, expected, "{demand}");
    }
}

#[test]
fn a_client_gets_ecdsa_if_it_can_use_it_and_rsa_otherwise() {
    let files = Files::new();
    let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let rsa = files.make(&["a.example"], &rsa, |_| ());
    files.write("rsa.pem", &rsa.chain);
    files.write("rsa.key", &rsa.key);
    files.certificate("ecdsa.pem", &["a.example"]);
    let tls = files.tls("root = \"/srv\"\ncertificate = [\"rsa.pem\", \"ecdsa.pem\"]\n");
    let with_suites = |keep: fn(CipherSuite) -> bool| {
        let mut provider = (*provider()).clone();
        provider.cipher_suites.retain(|suite| keep(suite.suite()));
        let mut roots = RootCertStore::empty();
        roots.add(files.authority.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    assert_eq!(served(&tls, files.client_config(None), "a.example").unwrap(), "a.example ECDSA P-256");
    // TLS 1.2 with a cipher suite for RSA alone: the signatures that the client knows do not tell.
    let rsa_alone = with_suites(|suite| suite == CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256);
    assert_eq!(served(&tls, rsa_alone, "a.example").unwrap(), "a.example RSA 2048");
    let ecdsa_alone = with_suites(|suite| suite == CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
    assert_eq!(served(&tls, ecdsa_alone, "a.example").unwrap(), "a.example ECDSA P-256");
}

#[test]
fn of_several_certificates_with_a_name_the_first_that_is_valid_is_served() {
    let files = Files::new();
    let make = |file: &str, hosts: &[&str], (from, to): (i32, i32)| {
        let made = files.make(hosts, &KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap(), |params| {
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        });
        files.write(file, &format!("{}{}", made.chain, made.key));
    };
    let (over, valid, early) = ((2000, 2001), (2020, 4000), (3000, 4000));
    // As certbot leaves it behind.
    make("live/a.example/fullchain.pem", &["over.example", "a.example"], over);
    make("live/a.example-0001/fullchain.pem", &["early.example", "a.example"], early);
    make("live/a.example-0002/fullchain.pem", &["valid.example", "a.example"], valid);
    make("live/a.example-0003/fullchain.pem", &["second.example", "a.example"], valid);
    make("wildcard/1.pem", &["a.example"], over);
    make("wildcard/2.pem", &["*.example"], valid);
    make("over/1.pem", &["first.example", "a.example"], over);
    make("over/2.pem", &["second.example", "a.example"], over);
    for (folder, expected) in
        [("live", "valid.example"), ("wildcard", "*.example"), ("over", "first.example")]
    {
        let tls = files.tls(&format!("root = \"/srv\"\ncertificate = \"{folder}\"\n"));
        let got = served(&tls, trusting_client(&files), "a.example");
        assert_eq!(got, Ok(format!("{expected} ECDSA P-256")), "{folder}");
    }
}

#[test]
fn a_folder_has_the_certificates_of_many_names() {
    let files = Files::new();
    files.certificate("all/one.pem", &["one.example"]);
    let two = files.certificate("unused", &["two.example"]);
    files.write("all/two.crt", &two.chain);
    files.write("all/two.key", &two.key);
    let three = files.certificate("unused", &["three.example"]);
    files.write("all/three.example/fullchain.pem", &three.chain);
    files.write("all/three.example/privkey.pem", &three.key);
    files.write("all/README", "no certificate");
    files.write("all/only-a-key.pem", &three.key);
    let tls = files.tls("root = \"/srv\"\ncertificate = \"all\"\n");
    for name in ["one.example", "two.example", "three.example"] {
        assert!(connect(&tls, files.client_config(None), name).is_ok(), "{name}");
    }
    // The folder of one certificate, as certbot has it.
    let tls = files.tls("root = \"/srv\"\ncertificate = \"all/three.example\"\n");
    assert!(connect(&tls, files.client_config(None), "three.example").is_ok());
}

#[test]
fn negotiates_what_the_configuration_allows() {
    let files = Files::new();
    files.certificate("a.pem", &["a.example"]);
    let negotiated = |section: &str| {
        let text = format!("root = \"/srv\"\ncertificate = \"a.pem\"\n[tls]\n{section}\n");
        let (client, _) = connect(&files.tls(&text), files.client_config(None), "a.example").unwrap();
        let group = client.negotiated_key_exchange_group().unwrap().name();
        (client.protocol_version().unwrap(), client.negotiated_cipher_suite().unwrap().suite(), group)
    };
    let (version, _, group) = negotiated("");
    assert_eq!((version, group), (ProtocolVersion::TLSv1_3, NamedGroup::X25519MLKEM768));
    assert_eq!(negotiated("versions = [\"1.2\"]").0, ProtocolVersion::TLSv1_2);
    assert_eq!(negotiated("versions = [\"1.3\"]").0, ProtocolVersion::TLSv1_3);
    assert_eq!(negotiated("groups = [\"P-384\"]").2, NamedGroup::secp384r1);
    assert_eq!(negotiated("groups = [\"X25519\"]").2, NamedGroup::X25519);
    let chosen = negotiated("ciphers = [\"chacha20-poly1305\", \"aes-128-gcm\"]").1;
    assert_eq!(chosen, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    let text = "root = \"/srv\"\ncertificate = \"a.pem\"\n[tls]\nversions = [\"1.3\"]\n";
    let builder =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS12]);
    let old = builder.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    assert!(connect(&files.tls(text), old, "a.example").is_err());
}

#[test]
fn clients_need_certificates_by_the_rules_of_the_host_that_they_ask_for() {
    let files = Files::new();
    files.certificate("a.pem", &["open.example", "optional.example", "required.example"]);
    files.write("ca.pem", &files.authority.pem());
    files.write("ca.crl", &files.revocations(4000));
    let tls = files.tls(
        "root = \"/srv\"\nnames = \"open.example\"\ncertificate = \"a.pem\"\n\
         [[host]]\nnames = \"optional.example\"\nroot = \"/o\"\nclient_certificates = \"optional\"\nclient_ca = \"ca.pem\"\n\
         client_crl = \"ca.crl\"\n\
         [[host]]\nnames = \"required.example\"\nroot = \"/r\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\n",
    );
    let (revoked, good) = (files.client(1), files.client(2));
    let stranger = Files::of(authority("another authority")).client(2);
    let unknown = Err("server: the certificate of the client is of an unknown authority; see client_ca");
    for (name, certificate, expected) in [
        ("open.example", None, Ok(false)),
        ("open.example", Some(&stranger), Ok(false)),
        ("optional.example", None, Ok(false)),
        ("optional.example", Some(&good), Ok(true)),
        ("optional.example", Some(&revoked), Err("server: the certificate of the client is revoked")),
        ("optional.example", Some(&stranger), unknown),
        (
            "required.example",
            None,
            Err("server: the client has sent no certificate; see client_certificates"),
        ),
        ("required.example", Some(&good), Ok(true)),
        // Without a list, nothing is revoked.
        ("required.example", Some(&revoked), Ok(true)),
        ("required.example", Some(&stranger), unknown),
    ] {
        let result = connect(&tls, files.client_config(certificate), name);
        let shown = result.map(|(_, server)| server.peer_certificates().is_some());
        assert_eq!(shown.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e), "{name}");
    }
}

#[test]
fn of_several_lists_of_an_authority_the_newest_counts() {
    let files = Files::new();
    files.certificate("a.pem", &["a.example"]);
    files.write("ca.pem", &files.authority.pem());
    let old = files.revocations_with(|params| {
        params.revoked_certs.clear();
        (params.this_update, params.next_update) = (date_time_ymd(2019, 1, 1), date_time_ymd(2019, 2, 1));
    });
    let (new, client) = (files.revocations(4000), files.client(1));
    files.write("old.crl", &old);
    files.write("new.crl", &new);
    files.write("both.crl", &(old + &new));
    for lists in ["\"both.crl\"", "[\"old.crl\", \"new.crl\"]", "[\"new.crl\", \"old.crl\"]"] {
        let text = format!(
            "root = \"/srv\"\ncertificate = \"a.pem\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\n\
             client_crl = {lists}\n"
        );
        let error = connect(&files.tls(&text), files.client_config(Some(&client)), "a.example").map(drop);
        assert_eq!(error, Err("server: the certificate of the client is revoked".to_owned()), "{lists}");
        assert_eq!(files.problems(&text), [], "{lists}");
    }
}

#[test]
fn clients_of_very_many_authorities_are_accepted() {
    let files = Files::new();
    files.certificate("a.pem", &["a.example"]);
    let key = KeyPair::generate().unwrap();
    let other = |number: usize| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("{number:0200}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&key).unwrap().pem()
    };
    // The names of all are longer than a message can have.
    files.write("ca.pem", &(files.authority.pem() + &(0..400).map(other).collect::<String>()));
    let tls = files.tls(
        "root = \"/srv\"\ncertificate = \"a.pem\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\n",
    );
    assert!(connect(&tls, files.client_config(Some(&files.client(2))), "a.example").is_ok());
    let error = connect(&tls, files.client_config(None), "a.example").map(drop).unwrap_err();
    assert!(error.contains("has sent no certificate"), "{error}");
}

#[test]
fn sessions_are_not_resumed_without_tickets() {
    let files = Files::new();
    files.certificate("a.pem", &["a.example"]);
    let tls = files.tls("root = \"/srv\"\ncertificate = \"a.pem\"\n[tls]\ntickets = false\n");
    let config = files.client_config(None);
    for _ in 0..2 {
        let (client, _) = connect(&tls, config.clone(), "a.example").unwrap();
        assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full));
    }
}

/// A resumption is rejected where a full handshake would be, with sessions in tickets and in the process.
#[test]
fn a_session_ends_when_a_certificate_or_a_list_expires() {
    let now = lifetime::now();
    let end = now + 5;
    let at_end = || date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(end);
    let mut sessions = Vec::new();
    for (expires, error) in [
        ("client", "the client has expired"),
        ("authority", "an unknown authority"),
        ("list", "revoked certificates has expired"),
    ] {
        let mut files = Files::new();
        if expires == "authority" {
            files.authority = authority_with("the authority", |params| params.not_after = at_end());
        }
        files.certificate("a.pem", &["a.example"]);
        files.write("ca.pem", &files.authority.pem());
        let list = files.revocations_with(|params| {
            if expires == "list" {
                params.next_update = at_end();
            }
        });
        files.write("ca.crl", &list);
        let client = files.make(&[], &KeyPair::generate().unwrap(), |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            if expires == "client" {
                params.not_after = at_end();
            }
        });
        let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
        for (version, early_data) in [(tls12, false), (tls12, true), (tls13, false), (tls13, true)] {
            let tls = files.tls(&format!(
                "root = \"/srv\"\ncertificate = \"a.pem\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\n\
                 client_crl = \"ca.crl\"\n[tls]\nearly_data = {early_data}\n"
            ));
            let config = files.client_config_of(&[version], Some(&client));
            let name = format!("{expires}, {:?}, early data {early_data}", version.version);
            for kind in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
                let (client, _) = connect(&tls, config.clone(), "a.example").unwrap();
                assert_eq!(client.handshake_kind(), Some(kind), "{name}");
            }
            sessions.push((name, tls, config, error));
        }
    }
    while lifetime::now() <= end {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for (name, tls, config, error) in sessions {
        let found = connect(&tls, config, "a.example").map(|_| ()).unwrap_err();
        assert!(found.contains(error), "{name}: {found}");
    }
}

/// As `openssl ca -gencrl` makes it without `crl_extensions`.
const LIST_OF_VERSION_1: &str = "\
-----BEGIN X509 CRL-----
MIGdMEYwCgYIKoZIzj0EAwIwGDEWMBQGA1UEAwwNdGhlIGF1dGhvcml0eRcNMjYx
MTI5MTE1OTI4WhgPMzk0MzA2MTMxMTU5MjhaMAoGCCqGSM49BAMCA0cAMEQCICzd
GsU/Tg3x15oqd76Ts9BmB6bQan4mg8RcTB2J3uYyAiAJxaP/tzfng76OpczMGJKT
ZBcADS077l+7dMvkl1sGLA==
-----END X509 CRL-----
";

#[test]
fn names_what_is_wrong_with_a_file() {
    let files = Files::new();
    let made = files.certificate("good.pem", &["a.example"]);
    let other = files.certificate("other.pem", &["a.example"]);
    let (other_ca, same_ca) = (authority("another authority").pem(), authority("the authority").pem());
    let authority = files.authority.pem();
    let key = KeyPair::generate().unwrap();
    let of_years = |from: i32, to: i32| {
        files.make(&["a.example"], &key, |params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        })
    };
    let (expired, later) = (of_years(2000, 2001), of_years(3000, 4000));
    let nameless = files.make(&[], &key, |_| ());
    let for_clients = files.make(&["a.example"], &key, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    // As public authorities issue them (RFC 5280 §4.2.2.1).
    let issued = files.make(&["a.example"], &key, |params| {
        let url = b"http://a.example/";
        let content =
            [b"\x30\x1f\x30\x1d\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x02\x86\x11", &url[..]].concat();
        let extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content);
        params.custom_extensions.push(extension);
    });
    let root = format!("{}{authority}{}", made.chain, made.key);
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (name, text) in [
        ("empty.pem", String::new()),
        ("garbage.pem", damaged.to_owned()),
        ("no-key.pem", made.chain.clone()),
        ("wrong-key.pem", format!("{}{}", made.chain, other.key)),
        ("backwards.pem", format!("{authority}{}{}", made.chain, made.key)),
        ("unordered.pem", format!("{}{}{}", made.chain, other.chain, made.key)),
        ("damaged.pem", format!("{}{damaged}{}", made.chain, made.key)),
        ("root.pem", root),
        ("expired.pem", format!("{}{}", expired.chain, expired.key)),
        ("later.pem", format!("{}{}", later.chain, later.key)),
        ("nameless.pem", format!("{}{}", nameless.chain, nameless.key)),
        ("for-clients.pem", format!("{}{}", for_clients.chain, for_clients.key)),
        ("alone.pem", made.chain.clone()),
        ("alone.key", made.key.clone()),
        ("live/cert.pem", format!("{}{}", made.chain, made.key)),
        ("live/fullchain.pem", made.chain.clone()),
        ("live/privkey.pem", made.key.clone()),
        ("issued.pem", format!("{}{}", issued.chain, issued.key)),
        ("nothing/README", String::new()),
        ("ca.pem", files.authority.pem()),
        ("list.crl", files.revocations(2021)),
        ("valid.crl", files.revocations(4000)),
        ("version-1.crl", LIST_OF_VERSION_1.to_owned()),
        ("other-ca.pem", other_ca),
        ("same-ca.pem", same_ca),
    ] {
        files.write(name, &text);
    }
    files.write("open.pem", &format!("{}{}", made.chain, made.key));
    files.write("open-chain.pem", &made.chain);
    for name in ["open.pem", "open-chain.pem"] {
        fs::set_permissions(files.folder.join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let (error, warning) = (Severity::Error, Severity::Warning);
    for (text, severity, key, expected) in [
        ("certificate = \"absent.pem\"", error, "certificate", "cannot read absent.pem: No such file"),
        (
            "certificate = \"empty.pem\"",
            error,
            "certificate",
            "empty.pem has no certificate, since it is empty",
        ),
        (
            "certificate = \"garbage.pem\"",
            error,
            "certificate",
            "garbage.pem is not a valid X.509 certificate",
        ),
        (
            "certificate = \"no-key.pem\"",
            error,
            "certificate",
            "no-key.pem has no private key, and there is no no-key.key or privkey.pem; add certificate_key",
        ),
        (
            "certificate = \"wrong-key.pem\"",
            error,
            "certificate",
            "wrong-key.pem does not fit its key, which",
        ),
        (
            "certificate = \"backwards.pem\"",
            error,
            "certificate",
            "backwards.pem has the certificate of its key at position 2",
        ),
        (
            "certificate = \"good.pem\"\ncertificate_key = \"other.pem\"",
            error,
            "certificate",
            "belongs to another certificate; name the key that the certificate was requested with (the key is other.pem)",
        ),
        (
            "certificate = \"good.pem\"\ncertificate_key = \"empty.pem\"",
            error,
            "certificate_key",
            "empty.pem has no private key, since it is empty; name the file that has it",
        ),
        ("certificate = \"nothing\"", error, "certificate", "the folder"),
        (
            "certificate = \"unordered.pem\"",
            warning,
            "certificate",
            "certificate 2 of the chain is not the issuer of the one before it: that is CN=the authority",
        ),
        (
            "certificate = \"damaged.pem\"",
            warning,
            "certificate",
            "damaged.pem: certificate 2 of the chain is not a valid X.509 certificate; remove it",
        ),
        (
            "certificate = \"expired.pem\"",
            warning,
            "certificate",
            "expired.pem: the certificate has expired on 2001-01-01; renew it",
        ),
        (
            "certificate = \"later.pem\"",
            warning,
            "certificate",
            "the certificate is not valid before 3000-01-01; is the clock right?",
        ),
        (
            "certificate = \"nameless.pem\"",
            warning,
            "certificate",
            "no host name (subjectAltName), only the subject CN=a server",
        ),
        (
            "certificate = \"for-clients.pem\"",
            warning,
            "certificate",
            "for-clients.pem: the certificate is not one for servers (extendedKeyUsage); clients reject it",
        ),
        (
            "certificate = \"live/cert.pem\"",
            warning,
            "certificate",
            "live/cert.pem: the chain is missing; name the fullchain.pem",
        ),
        (
            "certificate = \"open.pem\"",
            warning,
            "certificate",
            "every user can read the private key in open.pem; run: chmod o-rwx",
        ),
        (
            "certificate = \"good.pem\"\ncertificate_key = \"open-chain.pem\"",
            error,
            "certificate_key",
            "open-chain.pem has no private key, but a certificate; name the file that has it",
        ),
        (
            "certificate = \"issued.pem\"",
            warning,
            "certificate",
            "issued.pem: the chain is missing: clients that do not know CN=the authority reject the certificate; put that of \
             CN=the authority behind it (http://a.example/)",
        ),
        (
            "certificate = \"good.pem\"\ncertificate_key = \"live\"",
            error,
            "certificate_key",
            "cannot read live: it is a folder",
        ),
        (
            "names = \"b.example\"\ncertificate = \"good.pem\"",
            warning,
            "certificate",
            "no certificate of the host has its name b.example",
        ),
        (
            "names = \"b.example\"\nhttps_redirect = true\n[[host]]\nnames = \"a.example\"\nroot = \"/srv\"\n\
             certificate = \"good.pem\"",
            warning,
            "names",
            "requests for b.example are redirected to https, where no certificate has that name",
        ),
        (
            "certificate = \"good.pem\"\nclient_certificates = \"required\"\nclient_ca = \"alone.key\"",
            error,
            "client_ca",
            "alone.key has no certificate, but a private key; name a file with those of authorities",
        ),
        (
            "certificate = \"good.pem\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\nclient_crl = \"good.pem\"",
            error,
            "client_crl",
            "good.pem has no list of revoked certificates, but a certificate; name a file with one (X509 CRL)",
        ),
        (
            "certificate = \"good.pem\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\nclient_crl = \"list.crl\"",
            warning,
            "client_crl",
            "list.crl: the list of CN=the authority has expired on 2021-01-01, so that all of its certificates are rejected",
        ),
        (
            "certificate = \"good.pem\"\nclient_certificates = \"required\"\nclient_ca = \"ca.pem\"\n\
             client_crl = \"version-1.crl\"",
            error,
            "client_crl",
            "version-1.crl: the list of CN=the authority has no extensions (RFC 5280 §5.2); have its authority make one",
        ),
        (
            "certificate = \"good.pem\"\nclient_certificates = \"required\"\nclient_ca = \"good.pem\"",
            warning,
            "client_ca",
            "good.pem: CN=a server is no authority, so that no client has a certificate of it",
        ),
        (
            "certificate = \"good.pem\"\nclient_certificates = \"required\"\nclient_ca = [\"ca.pem\", \"other-ca.pem\"]\n\
             client_crl = \"valid.crl\"",
            warning,
            "client_crl",
            "the authority CN=another authority has no list, so that all of its certificates are rejected",
        ),
        (
            "certificate = \"good.pem\"\nclient_certificates = \"required\"\nclient_ca = \"same-ca.pem\"\nclient_crl = \"valid.crl\"",
            warning,
            "client_crl",
            "the authority CN=the authority has not signed its list, so that all of its certificates are rejected",
        ),
    ] {
        let found = files.problems(&format!("root = \"/srv\"\n{text}\n"));
        let [(found_severity, found_key, found_text)] = &found[..] else { panic!("{text}: {found:#?}") };
        assert!(found_text.contains(expected), "{text}: {found_text}");
        assert_eq!((*found_severity, *found_key), (severity, key), "{text}");
    }
    for good in ["good.pem", "alone.pem", "root.pem", "live"] {
        let found =
            files.problems(&format!("root = \"/srv\"\nnames = \"a.example\"\ncertificate = \"{good}\"\n"));
        assert_eq!(found, [], "{good}");
    }
}

#[test]
fn names_an_authority_of_a_chain_that_has_not_issued_the_certificate_before_it() {
    let files = Files::new();
    let between = |is_ca, key: KeyPair| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "between");
        params.is_ca = is_ca;
        CertifiedIssuer::signed_by(params, key, &files.authority).unwrap()
    };
    let ecdsa = || KeyPair::generate().unwrap();
    let rsa = || KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let authority = IsCa::Ca(BasicConstraints::Unconstrained);
    let [issuer, renewed] = [(); 2].map(|()| between(authority, ecdsa()));
    let [rsa_issuer, rsa_renewed] = [(); 2].map(|()| between(authority, rsa()));
    let no_authority = between(IsCa::ExplicitNoCa, ecdsa());
    let key = KeyPair::generate().unwrap();
    let issued_by = |issuer: &Issuer<'_, KeyPair>| {
        let params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.signed_by(&key, issuer).unwrap().pem()
    };
    let (root, key) = (files.authority.pem(), key.serialize_pem());
    let another_key =
        "certificate 2 of the chain, CN=between, has a key by which clients cannot verify the one before it";
    for (own, second, expected) in [
        (issued_by(&issuer), &issuer, None),
        (issued_by(&issuer), &renewed, Some(another_key)),
        (issued_by(&rsa_issuer), &rsa_issuer, None),
        (issued_by(&rsa_issuer), &rsa_renewed, Some(another_key)),
        (
            issued_by(&no_authority),
            &no_authority,
            Some("certificate 2 of the chain, CN=between, is not that of an authority"),
        ),
    ] {
        files.write("chain.pem", &format!("{own}{}{root}{key}", second.pem()));
        let found = files.problems("root = \"/srv\"\nnames = \"a.example\"\ncertificate = \"chain.pem\"\n");
        let found: Vec<_> = found.iter().map(|(severity, _, text)| (*severity, text)).collect();
        match (expected, &found[..]) {
            (None, []) => {}
            (Some(expected), [(Severity::Warning, text)]) => assert!(text.contains(expected), "{text}"),
            _ => panic!("{expected:?}: {found:#?}"),
        }
    }
}

#[test]
fn a_site_that_has_been_served_goes_on_without_files_that_cannot_be_used() {
    let files = with_hosts();
    files.certificate("b.pem", &["b.example"]);
    files.write("ca.pem", &files.authority.pem());
    files.write("ca.crl", &files.revocations(4000));
    files.write("list.crl", "no list");
    let clients = "client_certificates = \"optional\"\nclient_ca = \"ca.pem\"\n";
    let site = files.site(&format!(
        "{HOSTS}[[host]]\nnames = \"b.example\"\nroot = \"/b\"\ncertificate = \"b.pem\"\n\
         {clients}client_crl = \"ca.crl\"\n"
    ));
    let good = files.client(2);
    let check = |expected: [&str; 3], accepts: bool, lines: &[&str]| {
        let read = Material::read_with(&site, Keys::Read, NOW, Unusable::LeftOut).with_keys();
        let (mut material, mut keys) = read.unwrap();
        let found = material.leave_out_keyless(&site, &mut keys);
        assert_eq!((found.len(), material.certificates().len()), (lines.len(), keys.len()), "{found:#?}");
        lines.iter().zip(&found).for_each(|(line, found)| assert!(found.contains(line), "{found}"));
        let tls = ServerTls::new(&site, &material, keys, None, None).unwrap();
        for (name, expected) in ["a.example", "www.a.example", "b.example"].into_iter().zip(expected) {
            let found = served(&tls, trusting_client(&files), name);
            assert_eq!(found, Ok(format!("{expected} ECDSA P-256")), "{name}");
        }
        let client = connect(&tls, files.client_config(Some(&good)), "b.example");
        assert_eq!(client.is_ok() || expected[2] != "b.example", accepts);
        // What has not been served is not begun.
        assert_eq!(Material::read(&site, Keys::Read, NOW).with_keys().is_ok(), lines.is_empty());
    };
    check(["a.example", "*.a.example", "b.example"], true, &[]);
    files.write("ca.crl", "no list");
    let line = "ca.crl has no list of revoked certificates; name a file with one (X509 CRL); b.example goes on without it";
    check(["a.example", "*.a.example", "b.example"], false, &[line]);
    files.write("ca.crl", &files.revocations(4000));
    let a = files.certificate("a.pem", &["a.example"]);
    files.write("a.pem", &format!("{}{}", a.chain, files.certificate("unused", &[]).key));
    let line = "a.pem does not fit its key, which belongs to another certificate; name the key that the certificate was \
                requested with; a.example goes on without it until a reload";
    check(["*.a.example", "*.a.example", "b.example"], true, &[line]);
    fs::remove_file(files.folder.join("b.pem")).unwrap();
    check(["*.a.example", "*.a.example", "top.example"], true, &[line, "b.pem: No such file"]);
}

#[test]
fn a_certificate_that_clients_would_reject_fits_its_key() {
    let files = Files::new();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let made = files.make(&["a.example"], &key, |params| {
        let mut unknown = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
        unknown.set_criticality(true);
        params.custom_extensions.push(unknown);
    });
    files.write("a.pem", &format!("{}{}", made.chain, made.key));
    let tls = files.tls("root = \"/srv\"\ncertificate = \"a.pem\"\n");
    assert_eq!(served(&tls, trusting_client(&files), "a.example"), Ok("a.example ECDSA P-256".to_owned()));
}

#[test]
fn a_certificate_is_counted_once_and_the_first_to_end_comes_first() {
    let files = Files::new();
    for (file, name, end) in [("all/1.pem", "one.example", 4002), ("all/2.pem", "two.example", 4001)] {
        let made = files.make(&[name], &KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap(), |params| {
            params.not_after = date_time_ymd(end, 1, 1);
        });
        files.write(file, &format!("{}{}", made.chain, made.key));
    }
    let tls = files.tls(
        "root = \"/srv\"\ncertificate = \"all\"\n\
         [[host]]\nnames = \"one.example\"\nroot = \"/one\"\ncertificate = \"all/1.pem\"\n",
    );
    let names: Vec<&str> = tls.validities().iter().map(|validity| validity.name.as_str()).collect();
    assert_eq!(names, ["two.example", "one.example"]);
}

#[test]
fn notices_files_that_change() {
    let files = Files::new();
    files.certificate("all/a.pem", &["a.example"]);
    let site = files.site("root = \"/srv\"\ncertificate = \"all\"\n");
    let stamps = || Material::read(&site, Keys::Read, NOW).stamps;
    let first = stamps();
    assert!(!first.have_changed());
    files.certificate("all/b.pem", &["b.example"]);
    assert!(first.have_changed(), "another file in the folder");
    let second = stamps();
    // Of another size.
    files.certificate("all/a.pem", &["a.example", "b.example"]);
    assert!(second.have_changed(), "another certificate in the file");
}

#[test]
fn reads_certificates_without_their_keys() {
    let files = Files::new();
    files.certificate("a.pem", &["a.example"]);
    let site = files.site("root = \"/srv\"\ncertificate = \"a.pem\"\n");
    let (material, keys) = Material::read(&site, Keys::Left, NOW).with_keys().unwrap();
    assert_eq!((material.certificates().len(), keys.len()), (1, 0));
    let (_, mut keys) = Material::read(&site, Keys::Read, NOW).with_keys().unwrap();
    let key =
        |text: &str| crypto::signing_key(&PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap()).unwrap();
    let own = keys.remove(0);
    assert!(ServerTls::new(&site, &material, vec![own], None, None).is_ok());
    let other = key(&KeyPair::generate().unwrap().serialize_pem());
    let error = ServerTls::new(&site, &material, vec![other], None, None).err().unwrap();
    assert!(error.contains("does not fit its key"), "{error}");
}
