//! What is served: a site, with what the master has looked up and read for it.

use std::time::Instant;

use site::model::Site;

use super::files::WatchedFiles;
use super::tls::Tls;
use crate::file_stamps::FileStamps;
use crate::process::privilege::Accounts;

pub(super) struct Served {
    pub(super) site: Site,
    /// The ids of its processes and scripts.
    pub(super) accounts: Accounts,
    /// Its certificates.
    pub(super) tls: Tls,
    pub(super) watched: WatchedFiles,
}

impl Served {
    /// `users`: the files of users, groups and keys, as they were read.
    pub(super) fn new(
        site: Site,
        accounts: Accounts,
        mut tls: Tls,
        users: FileStamps,
        now: Instant,
    ) -> Served {
        tls.forget_tickets(now);
        let mut served = Served { site, accounts, tls, watched: WatchedFiles::of(users) };
        served.schedule_certificate_check(now);
        served.schedule_file_check(now);
        served
    }

    /// Drops secrets in a forked child.
    pub(super) fn release(&mut self) {
        self.tls = Tls::default();
    }
}
