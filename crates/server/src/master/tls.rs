//! The certificates of a change: what the master reads of them, and what a generation gets. The master never has a private
//! key.

use std::rc::Rc;
use std::time::Instant;

use site::listener::Listener;
use site::model::Site;
use site::tls::PrivateKeys;

use super::Master;
use super::change::{Cause, Preparation};
use crate::acme::AcmeFiles;
use crate::file_stamps::FileStamps;
use crate::finding::{Finding, Severity, Unusable};
use crate::signer::SignerProcess;
use crate::tls::material::Keys;
use crate::tls::{ClientReading, KeySource, Material, TicketSecrets, TlsSetup};
use crate::{clock, log};

/// The certificates of a site.
#[derive(Clone, Default)]
pub(super) struct Tls {
    /// `None`: the site has no TLS.
    pub(super) material: Option<Material>,
    pub(super) stamps: FileStamps,
    pub(super) warnings: Vec<String>,
    /// `None`: no host has its certificate by ACME.
    #[cfg_attr(not(feature = "acme"), allow(dead_code))]
    pub(super) acme: Option<Rc<AcmeFiles>>,
    /// `None`: sessions are not resumed.
    pub(super) tickets: Option<TicketSecrets>,
    /// When the keys of old session tickets are forgotten.
    pub(super) next_epoch: Option<Instant>,
}

impl Tls {
    /// Forgets the keys of old session tickets, and says when there are others.
    pub(super) fn forget_tickets(&mut self, now: Instant) {
        self.next_epoch = self.tickets.as_mut().map(|tickets| {
            tickets.forget();
            now + tickets.until_next_epoch()
        });
    }
}

impl Master {
    /// Reads the certificates of a site, and not their keys. Errors: they cannot be used.
    pub(super) fn tls_of(&self, site: &mut Site, cause: &Cause) -> Result<Tls, Vec<String>> {
        let served = self.served.as_ref().map(|served| &served.tls);
        let files = served.and_then(|tls| tls.acme.as_ref());
        let acme = match (AcmeFiles::prepare(site, files.map(Rc::as_ref)), cause, files) {
            // The site is the one that is served, with the files that it has got.
            (Err(line), Cause::Crash, Some(files)) => {
                log::error(format_args!("{line}; the hosts keep their certificates until a reload"));
                Some(files.clone())
            }
            (files, ..) => files.map_err(|line| vec![line])?.map(Rc::new),
        };
        let has_tls = |listener: &Listener| listener.protocols.tls;
        let ClientReading { mut problems, mut stamps, .. } = ClientReading::read(site);
        if cause.unusable() == Unusable::LeftOut {
            // The new process writes them to its log.
            problems.retain(|problem| problem.severity != Severity::Error);
        }
        let mut material = None;
        if site.listeners.iter().any(has_tls) {
            let reading = Material::read_with(site, Keys::Left, clock::wall(), cause.unusable());
            problems.extend(reading.problems);
            stamps.extend(reading.stamps);
            material = reading.material;
        }
        let (errors, warnings): (Vec<Finding>, Vec<Finding>) =
            problems.into_iter().partition(|problem| problem.severity == Severity::Error);
        let texts = |problems: Vec<Finding>| problems.into_iter().map(|problem| problem.text).collect();
        if !errors.is_empty() {
            return Err(texts(errors));
        }
        if material.is_none() {
            return Ok(Tls { acme, stamps, warnings: texts(warnings), ..Tls::default() });
        }
        let present = match served {
            Some(tls) => tls.tickets.as_ref(),
            None => self.upgrade.tickets(),
        };
        let tickets = match (TicketSecrets::of(site, present), cause) {
            (Err(line), Cause::Crash) if present.is_some() => {
                log::error(format_args!("{line}; the present keys of session tickets stay until a reload"));
                present.cloned()
            }
            (tickets, _) => tickets.map_err(|line| vec![line])?,
        };
        Ok(Tls { material, stamps, warnings: texts(warnings), acme, tickets, next_epoch: None })
    }

    /// What the generation needs for TLS, and the process that has its private keys. Errors: lines that say what to do.
    pub(super) fn prepare_tls(
        &mut self,
        preparation: &mut Preparation,
    ) -> Result<(Option<TlsSetup>, Option<SignerProcess>), Vec<String>> {
        let Some(material) = preparation.tls.material.clone() else { return Ok((None, None)) };
        let (keys, signer) = match preparation.site.tls.private_keys {
            PrivateKeys::InGeneration => (KeySource::Files, None),
            PrivateKeys::InSigner => {
                let (identity, workers) = (preparation.accounts.own.clone(), preparation.workers);
                let site = preparation.site.clone();
                let fork = || self.fork_child(Some(preparation));
                let (signer, keys) = SignerProcess::start(site, &material, identity, workers, fork)?;
                (keys, Some(signer))
            }
        };
        // Behind the fork of the signer, which must not have them.
        let tickets = preparation.tls.tickets.clone();
        Ok((Some(TlsSetup::new(material, keys, tickets)), signer))
    }
}
