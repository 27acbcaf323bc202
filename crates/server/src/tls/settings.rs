//! The settings of TLS for all connections of a process: one for each rule for the certificates of clients, because the
//! library has one rule in each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::server::{Accepted, Acceptor, ClientHello, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};
use site::model::Site;
use site::tls::{EarlyData, Encryption, UnknownName, Versions};

use super::clients::{fingerprint, verifier};
use super::crypto::{SigningKeys, chosen_provider};
use super::kernel::KernelCiphers;
use super::lifetime::Sessions;
use super::material::{Certificate, ClientRules, Demand, Keys, Material};
use super::resolver::{ACME, Challenges, Known, Resolver, is_for_challenge};
use super::tickets::{TicketKeys, TicketSecrets};
use crate::clock;
use crate::finding::Unusable;
use crate::tls_facts::Validity;

/// The names of protocols for their negotiation (RFC 7301).
pub const HTTP2: &[u8] = b"h2";
pub const HTTP1: &[u8] = b"http/1.1";
/// Its clients get HTTP/1, too.
const HTTP10: &[u8] = b"http/1.0";

/// Sessions that a process stores, where early data is accepted.
const SESSIONS: usize = 4096;
/// Bytes that a client may send before a handshake is complete.
const EARLY_DATA: u32 = 16 * 1024;

pub struct ServerTls {
    /// One for each rule for the certificates of clients.
    configs: Vec<Arc<ServerConfig>>,
    /// An index in `configs`, for each host.
    of_hosts: Vec<usize>,
    /// Of an ACME authority, which has no certificate, and asks for an address by a name that no host has (RFC 8738 §6).
    /// `None`: any client gets so far, or there are no challenges.
    challenge: Option<Arc<ServerConfig>>,
    resolver: Arc<Resolver>,
    tickets: Option<Arc<TicketKeys>>,
    /// Those that the kernel encrypts with. Empty: this program does.
    kernel: KernelCiphers,
    /// Why the kernel does not, though it should.
    warning: Option<String>,
    left_out: Vec<String>,
    /// Whether a connection can begin before the name is known that its client asks for.
    selection: Selection,
    validities: Vec<Validity>,
}

/// What a generation makes its settings of.
pub struct TlsSetup {
    material: Material,
    keys: KeySource,
    /// `None`: sessions are not resumed.
    tickets: Option<TicketSecrets>,
}

/// Where the private keys of the certificates are.
pub enum KeySource {
    /// In their files.
    Files,
    /// Elsewhere. In the order of the certificates.
    Remote(SigningKeys),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selection {
    /// All connections have the same settings.
    One,
    ByName,
}

/// The settings of a connection, by the first bytes that its client has sent.
pub enum Choice {
    /// The beginning of the handshake is not complete.
    Incomplete,
    /// `host` is the index of the host that the client asks for by its name.
    Settings { config: Arc<ServerConfig>, host: usize },
    /// An authority examines a challenge, and sends no request (RFC 8737 §3).
    Challenge(Arc<ServerConfig>),
    /// The client asks for an unknown name, and gets these bytes before the connection closes.
    Rejected(&'static [u8]),
}

/// The beginning of a handshake.
enum Hello {
    Incomplete,
    Whole(Box<Accepted>),
    /// Or too long.
    Invalid,
}

/// The most protocols of a client that a line of the log has.
const LOGGED_PROTOCOLS: usize = 8;

/// The alert `unrecognized_name` in a record (RFC 8446 §5.1 and §6).
const UNRECOGNIZED_NAME: &[u8] = &[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x70];

/// The ciphers with which the kernel is to encrypt files. Errors: it cannot, and what to do.
pub fn kernel_ciphers(site: &Site) -> Result<KernelCiphers, String> {
    match site.tls.files {
        Encryption::Program => Ok(KernelCiphers::default()),
        Encryption::Kernel => KernelCiphers::probe(),
    }
}

/// By the first bytes that a client has sent.
fn hello(received: &[u8]) -> Hello {
    let mut acceptor = Acceptor::default();
    let mut rest = received;
    while !rest.is_empty() && acceptor.read_tls(&mut rest).is_ok_and(|count| count > 0) {}
    match acceptor.accept() {
        Ok(None) if rest.is_empty() => Hello::Incomplete,
        Ok(Some(accepted)) => Hello::Whole(Box::new(accepted)),
        Ok(None) | Err(_) => Hello::Invalid,
    }
}

/// For the log: the protocols that a client offers which has sent this first.
pub fn offered_protocols(received: &[u8]) -> String {
    let Hello::Whole(accepted) = hello(received) else { return String::new() };
    let names = accepted.client_hello().alpn().into_iter().flatten();
    let names = names.take(LOGGED_PROTOCOLS).map(|name| format!("{:?}", String::from_utf8_lossy(name)));
    names.collect::<Vec<_>>().join(", ")
}

/// How long the certificate in each file is valid, those first that end first. Hosts may name a file by itself, and by
/// its folder.
fn validities(certificates: &[Certificate]) -> Vec<Validity> {
    let by_file: BTreeMap<&Path, &Certificate> =
        certificates.iter().map(|certificate| (&*certificate.source, certificate)).collect();
    let validity = |Certificate { source, facts, .. }: &Certificate| Validity {
        name: facts.names.first().unwrap_or(&facts.subject).clone(),
        file: source.display().to_string(),
        key: facts.key.clone(),
        not_before: facts.not_before,
        not_after: facts.not_after,
    };
    let mut validities: Vec<Validity> = by_file.into_values().map(validity).collect();
    sort::by_key(&mut validities, |validity| validity.not_after);
    validities
}

/// What all settings of a process have in common.
struct Common<'a> {
    site: &'a Site,
    provider: Arc<CryptoProvider>,
    resolver: Arc<Resolver>,
    tickets: Option<&'a Arc<TicketKeys>>,
    /// In order of preference.
    protocols: Vec<Vec<u8>>,
}

impl Common<'_> {
    fn builder(&self) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, String> {
        let versions = match self.site.tls.versions {
            Versions::Tls12 => &[&TLS12][..],
            Versions::Tls13 => &[&TLS13],
            Versions::Both => &[&TLS13, &TLS12],
        };
        let builder = ServerConfig::builder_with_provider(self.provider.clone());
        builder
            .with_protocol_versions(versions)
            .map_err(|error| format!("\"versions\" and \"ciphers\" in [tls] do not fit together: {error}"))
    }

    /// The settings of the hosts with one rule for the certificates of clients.
    fn settings(&self, rules: &ClientRules) -> Result<ServerConfig, String> {
        let builder = self.builder()?.with_client_cert_verifier(verifier(rules, &self.provider)?);
        let mut config = builder.with_cert_resolver(self.resolver.clone());
        config.enable_secret_extraction = self.site.tls.files == Encryption::Kernel;
        config.ignore_client_order = !self.site.tls.ciphers.is_empty();
        config.alpn_protocols = self.protocols.clone();
        // Tickets hold the sessions, so that all workers know them.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match (self.tickets, self.site.tls.early_data) {
            (None, _) => config.send_tls13_tickets = 0,
            (Some(tickets), EarlyData::Rejected) => config.ticketer = tickets.ticketer(&fingerprint(rules)),
            // A ticket could be used twice; a session that is stored here is used once (RFC 8446 §8.1).
            (Some(_), EarlyData::Accepted) => {
                config.session_storage = Sessions::new(SESSIONS);
                config.max_early_data_size = EARLY_DATA;
                // Otherwise nothing could be sent to a client that waits for the response to its early data.
                config.send_half_rtt_data = true;
            }
        }
        Ok(config)
    }

    /// The settings of an authority that examines a challenge.
    fn for_challenges(&self) -> Result<ServerConfig, String> {
        let builder = self.builder()?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(self.resolver.clone());
        config.alpn_protocols = vec![ACME.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// The certificates with their keys. Errors: a key is not that of its certificate.
fn certified(material: &Material, keys: SigningKeys) -> Result<Vec<Arc<CertifiedKey>>, String> {
    let pairs = material.certificates().iter().zip(keys);
    let certified = pairs.map(|(certificate, key)| {
        let fits = certificate.check_key(&*key);
        fits.map_err(|why| format!("{} {why}", certificate.source.display()))?;
        Ok(Arc::new(CertifiedKey::new(certificate.chain.clone(), key)))
    });
    certified.collect()
}

impl Selection {
    fn of(site: &Site) -> Selection {
        // Hosts are told apart by their files, even if these have the same content.
        let clients = |host: usize| &site.hosts.at(host).tls.clients;
        let are_equal = (1..site.hosts.iter().count()).all(|host| clients(host) == clients(0));
        match site.tls.unknown_name {
            UnknownName::Default if are_equal => Selection::One,
            UnknownName::Default | UnknownName::Reject => Selection::ByName,
        }
    }
}

impl TlsSetup {
    pub fn new(material: Material, keys: KeySource, tickets: Option<TicketSecrets>) -> TlsSetup {
        TlsSetup { material, keys, tickets }
    }
}

impl ServerTls {
    /// May read files, with the rights of the master. Errors: lines that say what to do.
    pub fn begin(
        site: &Site,
        setup: TlsSetup,
        challenges: Option<Arc<dyn Challenges>>,
    ) -> Result<ServerTls, Vec<String>> {
        let TlsSetup { material, keys, tickets } = setup;
        let (mut material, mut keys) = match keys {
            KeySource::Remote(keys) => (material, keys),
            KeySource::Files => {
                Material::read_with(site, Keys::Read, clock::wall(), material.unusable()).with_keys()?
            }
        };
        let left_out = match material.unusable() {
            Unusable::Rejected => Vec::new(),
            Unusable::LeftOut => material.leave_out_keyless(site, &mut keys),
        };
        let tickets = tickets.map(TicketKeys::new);
        let mut tls =
            ServerTls::new(site, &material, keys, tickets, challenges).map_err(|line| vec![line])?;
        match kernel_ciphers(site) {
            Ok(ciphers) => tls.kernel = ciphers,
            Err(why) => tls.warning = Some(why),
        }
        tls.left_out = left_out;
        Ok(tls)
    }

    /// `keys` are those of the certificates, and may sign elsewhere. `tickets`: `None` if sessions are not resumed.
    /// Errors: what to do.
    pub fn new(
        site: &Site,
        material: &Material,
        keys: SigningKeys,
        tickets: Option<Arc<TicketKeys>>,
        challenges: Option<Arc<dyn Challenges>>,
    ) -> Result<ServerTls, String> {
        let certified = certified(material, keys)?;
        let (unknown, has_challenges) = (site.tls.unknown_name, challenges.is_some());
        let names = site.hosts.names().clone();
        let resolver = Arc::new(Resolver::new(names, material, &certified, unknown, challenges));
        let offered = [(HTTP2, site.http2.enabled), (HTTP1, true), (HTTP10, true), (ACME, has_challenges)];
        let offered = offered.iter().filter(|(_, is_offered)| *is_offered);
        let common = Common {
            site,
            provider: chosen_provider(&site.tls)?,
            resolver: resolver.clone(),
            tickets: tickets.as_ref(),
            protocols: offered.map(|(name, _)| name.to_vec()).collect(),
        };
        let configs = material.client_rules().iter().map(|rules| common.settings(rules).map(Arc::new));
        let configs = configs.collect::<Result<_, _>>()?;
        let verifies = |rules: &ClientRules| rules.demand != Demand::Nothing;
        let is_strict = unknown == UnknownName::Reject || material.client_rules().iter().any(verifies);
        let has_own = has_challenges && is_strict;
        let challenge = has_own.then(|| common.for_challenges().map(Arc::new)).transpose()?;
        let selection = if challenge.is_some() { Selection::ByName } else { Selection::of(site) };
        Ok(ServerTls {
            configs,
            of_hosts: material.rules_of_hosts().to_vec(),
            challenge,
            resolver,
            tickets,
            kernel: KernelCiphers::default(),
            warning: None,
            left_out: Vec::new(),
            selection,
            validities: validities(material.certificates()),
        })
    }

    /// How long each certificate is valid, those first that end first.
    pub fn validities(&self) -> &[Validity] {
        &self.validities
    }

    /// The ciphers with which the kernel encrypts files.
    pub fn kernel(&self) -> &KernelCiphers {
        &self.kernel
    }

    /// For the log: what the site has to do without.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// For the log: the files that the site is served without.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Forgets the keys of tickets that are not accepted any more. Returns when there are others.
    pub fn forget_tickets(&self) -> Option<Duration> {
        self.tickets.as_ref().map(|tickets| tickets.forget())
    }

    /// The settings of a client that asks for the default host.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.configs[self.of_hosts[0]]
    }

    /// The settings for a connection whose client has sent `received`. If all connections have the same, it need not
    /// have sent anything.
    pub fn choose(&self, received: &[u8]) -> Choice {
        if self.selection == Selection::One {
            return Choice::Settings { config: self.config().clone(), host: 0 };
        }
        match hello(received) {
            Hello::Incomplete => Choice::Incomplete,
            Hello::Whole(accepted) => self.by_hello(&accepted.client_hello()),
            // The same error ends the connection, with its alert if there is one.
            Hello::Invalid => Choice::Settings { config: self.config().clone(), host: 0 },
        }
    }

    fn by_hello(&self, hello: &ClientHello<'_>) -> Choice {
        if let Some(config) = self.challenge.as_ref().filter(|_| is_for_challenge(hello)) {
            return Choice::Challenge(config.clone());
        }
        let name = hello.server_name();
        if self.resolver.rejects(name) {
            return Choice::Rejected(UNRECOGNIZED_NAME);
        }
        let host = match self.resolver.find(name) {
            Known::Host(host) => host,
            Known::Unknown => 0,
        };
        let config = self.of_hosts.get(host).map_or(self.config(), |at| &self.configs[*at]);
        Choice::Settings { config: config.clone(), host }
    }
}
