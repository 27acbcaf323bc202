//! TLS to upstreams: what is trusted, which name is verified, and the certificate of this server. Knows no connections.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};
use site::model::Site;
use site::sink::{Collector, Sink};
use site::upstream::{Endpoints, External, Protocol, Upstream, UpstreamTls, Verification};

use super::crypto::{provider, signing_key};
use super::material::{Certificate, UNSUPPORTED_KEY, read_file};
use super::pem;
use super::reasons;
use super::settings::{HTTP1, HTTP2};
use crate::clock;
use crate::file_stamps::FileStamps;
use crate::finding::{Finding, Severity, Unusable};

/// Sessions that a worker stores for one upstream.
const SESSIONS: usize = 256;

/// The settings of connections to one upstream.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    /// In the order of the addresses of the upstream.
    names: Vec<ServerName<'static>>,
}

/// Those of all upstreams of a site. `None`: the connections are not encrypted, or the files cannot be used.
pub type Settings = Vec<Option<ClientTls>>;

/// The settings for each upstream of a site, with what is wrong with them.
pub struct ClientReading {
    pub upstreams: Settings,
    pub problems: Vec<Finding>,
    /// The states of all files, for a comparison later.
    pub stamps: FileStamps,
}

/// Which protocols are offered (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Http1,
    /// HTTP/2, or HTTP/1.1.
    Http2,
}

impl ClientReading {
    /// Reads the files, of the system, too. Those of the collector of spans are checked.
    pub fn read(site: &Site) -> ClientReading {
        let mut reading = ClientReading::of(&site.upstreams);
        let export = site.tracing.as_ref().and_then(|tracing| tracing.export.as_ref());
        if let Some(Sink::Collector(collector)) = export
            && let Some(of_collector) = ClientReading::of_collector(collector)
        {
            reading.problems.extend(of_collector.problems);
            reading.stamps.extend(of_collector.stamps);
        }
        reading
    }

    /// As `read`, for the connections to a collector of spans, which is as an upstream. `None`: they are not encrypted.
    pub fn of_collector(collector: &Collector) -> Option<ClientReading> {
        let authorities = collector.tls.as_ref()?.authorities.clone();
        let tls = UpstreamTls { authorities, ..UpstreamTls::default() };
        let external = External { addresses: vec![collector.address.clone()], connections: 1 };
        let endpoints = Endpoints::External(external);
        let upstream = Upstream::new(collector.to_string(), Protocol::Http, endpoints);
        Some(ClientReading::of(&[Upstream { tls: Some(Box::new(tls)), ..upstream }]))
    }

    /// As `read`, for these upstreams.
    pub fn of(upstreams: &[Upstream]) -> ClientReading {
        let mut reading =
            ClientReading { upstreams: Vec::new(), problems: Vec::new(), stamps: FileStamps::default() };
        let mut system = None;
        for upstream in upstreams {
            let Some(tls) = &upstream.tls else {
                reading.upstreams.push(None);
                continue;
            };
            match reading.upstream(upstream, tls, &mut system) {
                Ok(settings) => reading.upstreams.push(Some(settings)),
                Err(problem) => {
                    reading.problems.push(problem);
                    reading.upstreams.push(None);
                }
            }
        }
        reading
    }

    /// The settings, and lines for the log about those that there are not. Errors: lines that say what to do.
    pub fn into_settings(self, unusable: Unusable) -> Result<(Settings, Vec<String>), Vec<String>> {
        let is_error = |problem: &Finding| problem.severity == Severity::Error;
        let errors: Vec<String> =
            self.problems.into_iter().filter(is_error).map(|problem| problem.text).collect();
        match unusable {
            Unusable::Rejected if !errors.is_empty() => Err(errors),
            Unusable::Rejected | Unusable::LeftOut => Ok((self.upstreams, errors)),
        }
    }

    fn upstream(
        &mut self,
        upstream: &Upstream,
        tls: &UpstreamTls,
        system: &mut Option<Arc<RootCertStore>>,
    ) -> Result<ClientTls, Finding> {
        let authorities = self.authorities(upstream, tls, system)?;
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder =
            builder.map_err(|e| Finding::error(&["protocol"], "https", format!("{upstream}: {e}")))?;
        let builder = match authorities {
            Some(roots) => builder.with_root_certificates(roots),
            None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider()))),
        };
        let mut config = match &tls.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => self.with_certificate(builder, certificate, key)?,
        };
        config.alpn_protocols = protocols(if upstream.http2 { Offer::Http2 } else { Offer::Http1 });
        Ok(ClientTls { config: Arc::new(config), names: names(upstream, tls)? })
    }

    /// The authorities whose certificates are accepted. `None`: every certificate is.
    fn authorities(
        &mut self,
        upstream: &Upstream,
        tls: &UpstreamTls,
        system: &mut Option<Arc<RootCertStore>>,
    ) -> Result<Option<Arc<RootCertStore>>, Finding> {
        Ok(match (tls.verification, &tls.authorities) {
            (Verification::Off, _) => {
                let text = format!(
                    "{upstream} is not verified: anyone on the way to it can read and change requests and responses; \
                     remove tls_verify = false, and name its authority in tls_ca"
                );
                self.problems.push(Finding::warning(&["tls_verify"], "", text));
                None
            }
            (Verification::Required, None) => {
                if system.is_none() {
                    *system = Some(Arc::new(self.system_roots(upstream)?));
                }
                system.clone()
            }
            (Verification::Required, Some(path)) => {
                self.stamps.add(path);
                let of_ca = |text| Finding::error(&["tls_ca"], path, text);
                let text = read_file(path).map_err(of_ca)?;
                let shown = path.display();
                let found = pem::some_certificates(&text, "name a file with those of authorities");
                let found = found.map_err(|why| of_ca(format!("{shown} {why}")))?;
                let mut roots = RootCertStore::empty();
                for authority in found {
                    let added = roots.add(authority);
                    added.map_err(|e| of_ca(format!("an authority of {shown} cannot be used: {e}")))?;
                }
                Some(Arc::new(roots))
            }
        })
    }

    /// The settings with a certificate of this server, from the files of its chain and its key.
    fn with_certificate(
        &mut self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
        certificate: &Path,
        key: &Path,
    ) -> Result<ClientConfig, Finding> {
        [certificate, key].into_iter().for_each(|path| self.stamps.add(path));
        let (shown, shown_key) = (certificate.display(), key.display());
        let of_chain = |text| Finding::error(&["tls_certificate"], certificate, text);
        let of_key = |text| Finding::error(&["tls_certificate_key", "tls_certificate"], key, text);
        let text = read_file(certificate).map_err(of_chain)?;
        let parsed = Certificate::parse(certificate, &text);
        let parsed = parsed.map_err(|why| of_chain(format!("{shown} {why}")))?;
        self.problems.extend(parsed.problems(clock::wall()).into_iter().map(|problem| {
            Finding::warning(&["tls_certificate"], certificate, format!("{shown}: {problem}"))
        }));
        let text = read_file(key).map_err(of_key)?;
        let key = pem::some_private_key(&text, "add tls_certificate_key = \"…\"");
        let key = key.map_err(|why| of_key(format!("{shown_key} {why}")))?;
        let key = signing_key(&key.der()).map_err(|_| of_key(format!("{shown_key} {UNSUPPORTED_KEY}")))?;
        parsed.check_key(&*key).map_err(|why| of_chain(format!("{shown} {why} (the key is {shown_key})")))?;
        // Not by `with_client_auth_cert`, which says of a certificate that rustls cannot read that its key is wrong.
        let own = SingleCertAndKey::from(CertifiedKey::new(parsed.chain, key));
        Ok(builder.with_client_cert_resolver(Arc::new(own)))
    }

    fn system_roots(&mut self, upstream: &Upstream) -> Result<RootCertStore, Finding> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added > 0 {
            return Ok(roots);
        }
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        let text = format!(
            "the system has no certificates of authorities that {upstream} could be verified by{why}; install the package \
             ca-certificates, or name a file in tls_ca"
        );
        Err(Finding::error(&["protocol", "proxy"], "https", text))
    }
}

fn names(upstream: &Upstream, tls: &UpstreamTls) -> Result<Vec<ServerName<'static>>, Finding> {
    let addresses = match &upstream.endpoints {
        Endpoints::External(External { addresses, .. }) => &addresses[..],
        Endpoints::Managed(_) => &[],
    };
    let of_addresses = addresses.iter().filter_map(|address| tls.name.clone().or(address.certified_name()));
    let all: Vec<String> = match addresses.is_empty() {
        true => tls.name.iter().cloned().collect(),
        false => of_addresses.collect(),
    };
    let parse = |name: String| {
        let text =
            format!("a certificate cannot have the name \"{}\"; add tls_name = \"…\"", name.escape_debug());
        ServerName::try_from(name).map_err(|_| Finding::error(&["tls_name", "address"], "", text))
    };
    all.into_iter().map(parse).collect()
}

fn protocols(offer: Offer) -> Vec<Vec<u8>> {
    match offer {
        Offer::Http1 => vec![HTTP1.to_vec()],
        Offer::Http2 => vec![HTTP2.to_vec(), HTTP1.to_vec()],
    }
}

impl ClientTls {
    /// The same settings, with sessions that no other worker resumes.
    pub fn of_worker(&self) -> ClientTls {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        ClientTls { config: Arc::new(config), names: self.names.clone() }
    }

    /// A session with the endpoint of this address. `None`: there is no such address.
    pub fn connect(&self, address: usize, offer: Offer) -> Option<ClientConnection> {
        let name = self.names.get(address)?.clone();
        let offered = protocols(offer);
        let config = match self.config.alpn_protocols.len() > offered.len() {
            // The endpoint must not choose HTTP/2 for a request that only HTTP/1.1 can carry.
            true => {
                let mut config = ClientConfig::clone(&self.config);
                config.alpn_protocols = offered;
                Arc::new(config)
            }
            false => self.config.clone(),
        };
        ClientConnection::new(config, name).ok()
    }
}

/// A session with a server by HTTP/1.1, whose certificate is not verified. `name`: that of the server, or its address.
/// Errors: there is no session, and why.
pub fn begin_unverified<S: Read + Write>(mut socket: S, name: &str) -> io::Result<impl Read + Write> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous();
    let verifier = Arc::new(Unverified(provider()));
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = protocols(Offer::Http1);
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(|error| {
            let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).map(reasons::of_server);
            own.map_or(error, io::Error::other)
        })?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// Accepts every certificate, for `tls_verify = false` and health checks. Signatures are verified, because nothing is
/// gained otherwise.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
