//! A build without TLS: a site with TLS is rejected, so that there are no values of the other types.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use site::model::Site;

use crate::file_stamps::FileStamps;
use crate::finding::{Finding, Severity, Unusable};
use crate::tls_facts::Validity;

pub mod material {
    //! What a check of the files would find.

    use crate::file_stamps::FileStamps;
    use crate::finding::Finding;

    pub struct Reading {
        pub material: Option<super::Material>,
        pub problems: Vec<Finding>,
        pub stamps: FileStamps,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Keys {
        Read,
        Left,
    }
}

pub mod kernel {
    //! There are no sessions that the kernel could have.

    use std::convert::Infallible;
    use std::io;
    use std::os::fd::BorrowedFd;

    use rustix::io::Errno;

    pub enum Control {}

    pub fn attach(_: BorrowedFd<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn set_keys(_: BorrowedFd<'_>, secrets: &Infallible) -> io::Result<()> {
        match *secrets {}
    }

    pub fn receive_control(_: BorrowedFd<'_>) -> Result<Control, Errno> {
        Err(Errno::NOTSUP)
    }

    pub fn send_close_notify(_: BorrowedFd<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

use material::{Keys, Reading};

#[derive(Debug, Clone)]
pub enum Material {}

pub enum ServerTls {}

/// There are no challenges.
pub trait Challenges: Send + Sync {}

impl Material {
    pub fn read(site: &Site, _keys: Keys, _now: i64) -> Reading {
        let problem = |listener: &site::listener::Listener| Finding {
            severity: Severity::Error,
            keys: &["listen"],
            value: listener.to_string().into(),
            text: format!(
                "this program has been built without TLS, so it cannot listen on {listener}; remove the word tls, or build \
                 it with the feature aws-lc or ring"
            ),
        };
        let problems = site.listeners.iter().filter(|listener| listener.protocols.tls).map(problem).collect();
        Reading { material: None, problems, stamps: FileStamps::default() }
    }

    pub fn read_with(site: &Site, keys: Keys, now: i64, _: Unusable) -> Reading {
        Material::read(site, keys, now)
    }

    /// What `taipan check` shows of the certificates.
    pub fn lines(&self, _now: i64) -> Vec<String> {
        match *self {}
    }
}

/// The settings of connections to an upstream.
#[derive(Clone)]
pub enum ClientTls {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Http1,
    Http2,
}

pub type Settings = Vec<Option<ClientTls>>;

/// What a check of the upstreams would find.
pub struct ClientReading {
    pub upstreams: Settings,
    pub problems: Vec<Finding>,
    pub stamps: FileStamps,
}

impl ClientReading {
    pub fn read(site: &Site) -> ClientReading {
        let mut reading = ClientReading::of(&site.upstreams);
        let export = site.tracing.as_ref().and_then(|tracing| tracing.export.as_ref());
        if let Some(site::sink::Sink::Collector(collector)) = export
            && let Some(of_collector) = ClientReading::of_collector(collector)
        {
            reading.problems.extend(of_collector.problems);
        }
        reading
    }

    pub fn of_collector(collector: &site::sink::Collector) -> Option<ClientReading> {
        collector.tls.as_ref()?;
        let text = format!(
            "this program has been built without TLS, so it cannot connect to {collector}; build it with the feature \
             aws-lc or ring"
        );
        let problems = vec![Finding::error(&["export"], "https", text)];
        Some(ClientReading { upstreams: vec![None], problems, stamps: FileStamps::default() })
    }

    pub fn of(upstreams: &[site::upstream::Upstream]) -> ClientReading {
        let encrypted = upstreams.iter().filter(|upstream| upstream.tls.is_some());
        let problem = |upstream: &site::upstream::Upstream| {
            let text = format!(
                "this program has been built without TLS, so it cannot connect to {upstream}; build it with the feature \
                 aws-lc or ring"
            );
            Finding::error(&["protocol"], "https", text)
        };
        let problems = encrypted.map(problem).collect();
        let upstreams = upstreams.iter().map(|_| None).collect();
        ClientReading { upstreams, problems, stamps: FileStamps::default() }
    }

    pub fn into_settings(self, _: Unusable) -> Result<(Settings, Vec<String>), Vec<String>> {
        let errors: Vec<String> = self.problems.into_iter().map(|problem| problem.text).collect();
        if errors.is_empty() { Ok((self.upstreams, errors)) } else { Err(errors) }
    }
}

impl ClientTls {
    pub fn of_worker(&self) -> ClientTls {
        match *self {}
    }
}

pub fn begin_unverified<S>(_: S, _: &str) -> io::Result<S> {
    Err(io::Error::other(
        "this program has been built without TLS; build it with the feature aws-lc or ring, or check an address without \
         TLS",
    ))
}

#[derive(Clone)]
pub enum TicketSecrets {}

/// There is none.
pub struct TlsSetup;

pub enum KeySource {
    Files,
}

impl TicketSecrets {
    pub fn of(_: &Site, _: Option<&TicketSecrets>) -> Result<Option<TicketSecrets>, String> {
        Ok(None)
    }

    pub fn to_pipe(&self) -> io::Result<OwnedFd> {
        match *self {}
    }

    pub fn from_pipe(_: OwnedFd) -> Option<TicketSecrets> {
        None
    }

    pub fn forget(&mut self) {
        match *self {}
    }

    pub fn until_next_epoch(&self) -> Duration {
        match *self {}
    }
}

/// No kernel encrypts for it.
pub fn kernel_ciphers(_: &Site) -> Result<(), String> {
    Ok(())
}

impl TlsSetup {
    pub fn new(material: Material, _: KeySource, _: Option<TicketSecrets>) -> TlsSetup {
        match material {}
    }
}

impl ServerTls {
    pub fn begin(
        _: &Site,
        TlsSetup: TlsSetup,
        _: Option<Arc<dyn Challenges>>,
    ) -> Result<ServerTls, Vec<String>> {
        Err(Vec::new())
    }

    pub fn left_out(&self) -> &[String] {
        match *self {}
    }

    pub fn warning(&self) -> Option<&str> {
        match *self {}
    }

    pub fn validities(&self) -> &[Validity] {
        match *self {}
    }

    pub fn forget_tickets(&self) -> Option<Duration> {
        match *self {}
    }
}
