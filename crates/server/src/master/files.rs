//! The files that a configuration names: certificates, users, groups and keys. The master notices that they change while
//! it serves.

use std::time::{Duration, Instant};

use site::model::Site;

use super::Master;
use crate::file_stamps::FileStamps;
use crate::process::ipc::{MAX_NAMED_FILES, MasterCommand};
use crate::{config, log};

/// How often the files that the configuration names are checked.
const FILE_CHECKS: Duration = Duration::from_secs(2);

impl Master {
    pub(super) fn schedule_certificate_check(&mut self, now: Instant) {
        let every = self.site.as_ref().and_then(|site| site.tls.watch);
        self.next_certificate_check = every.filter(|_| self.tls.material.is_some()).map(|every| now + every);
    }

    /// Reloads if a file of a certificate has changed. If that fails, the next check tries again.
    pub(super) fn check_certificates(&mut self, now: Instant) {
        self.schedule_certificate_check(now);
        if self.change.is_none() && self.tls.stamps.have_changed() {
            log::info(format_args!("certificates have changed"));
            self.reload(Vec::new());
        }
    }

    pub(super) fn schedule_file_check(&mut self, now: Instant) {
        let names_files = |site: &Site| site.named_files.paths().next().is_some();
        self.next_file_check = self.site.as_ref().is_some_and(names_files).then(|| now + FILE_CHECKS);
    }

    /// Notices named files that have been replaced, and reloads if a file of users, groups or keys has changed.
    pub(super) fn check_files(&mut self, now: Instant) {
        self.schedule_file_check(now);
        self.hide_replaced_files();
        if self.change.is_none() && self.user_files.have_changed() {
            // If the file cannot be used, that is reported once, and not at each check.
            self.user_files = self.site.as_ref().map(stamps_of_users).unwrap_or_default();
            log::info(format_args!("a file of users, groups or keys has changed"));
            self.reload(Vec::new());
        }
    }

    /// Has the generation that serves hide what the names of never served files lead to now. It may be unable to see
    /// the files itself.
    fn hide_replaced_files(&mut self) {
        let (Some(site), Some(generation)) = (&self.site, self.serving()) else { return };
        let found = config::file_ids(site.named_files.paths());
        if found == *site.named_files.files() {
            return;
        }
        let messages =
            found.as_slice().chunks(MAX_NAMED_FILES).map(|files| (true, files)).chain([(false, &[][..])]);
        for (follows, files) in messages {
            let command = MasterCommand::NamedFiles { follows, files: files.to_vec() };
            if let Err(error) = generation.channel.send(&command) {
                let pid = generation.pid;
                // The next check tries again.
                log::warn(format_args!("the process {pid} does not learn of replaced files: {error}"));
                return;
            }
        }
        if let Some(site) = &mut self.site {
            site.named_files.replace(found);
        }
    }
}

/// The states of the files of users, groups and keys.
pub(super) fn stamps_of_users(site: &Site) -> FileStamps {
    FileStamps::of(site.user_files())
}
