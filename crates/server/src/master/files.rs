//! The files that a configuration names: certificates, users, groups and keys. The master notices that they change while
//! it serves.

use std::time::{Duration, Instant};

use site::model::Site;
use site::named_files::{FileId, FileIds, NamedFiles};

use super::Master;
use super::generations::Generation;
use super::served::Served;
use crate::file_stamps::FileStamps;
use crate::process::ipc::{MAX_NAMED_FILES, MasterCommand};
use crate::{config, log};

/// How often the files that the configuration names are checked.
const FILE_CHECKS: Duration = Duration::from_secs(2);

/// The longest pause between reloads for files that stay as they are.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Named files that one check looks at, in about a millisecond: there may be thousands of certificates.
const FILES_AT_ONCE: usize = 500;

/// What is known of the files of the site that is served.
#[derive(Default)]
pub(super) struct WatchedFiles {
    /// When the files of certificates are compared with those that are served.
    pub(super) next_certificate_check: Option<Instant>,
    /// `None`: no reload for them has failed.
    tried_certificates: Option<TriedFiles>,
    /// When the files that the configuration names are checked. `None`: there are none.
    pub(super) next_check: Option<Instant>,
    /// The files of users, groups and keys.
    users: FileStamps,
    /// `None`: no reload for them has failed.
    tried_users: Option<TriedFiles>,
    round: FileRound,
}

impl WatchedFiles {
    /// Those of a site that is served from now on. The checks are yet to be scheduled.
    pub(super) fn of(users: FileStamps) -> WatchedFiles {
        WatchedFiles { users, ..WatchedFiles::default() }
    }
}

/// What the last checks have found of the named files, until they have looked at all.
#[derive(Default)]
struct FileRound {
    looked_at: usize,
    found: Vec<FileId>,
}

impl FileRound {
    /// Looks at the next files, or at all that are left if one of them is new. `None`: the round goes on.
    fn next(&mut self, named: &NamedFiles) -> Option<FileIds> {
        let mut rest = named.paths().skip(self.looked_at);
        let before = self.found.len();
        self.found.extend(rest.by_ref().take(FILES_AT_ONCE).filter_map(config::file_id));
        self.looked_at += FILES_AT_ONCE;
        let is_new = |file: &FileId| !named.files().has((file.0, file.1), file.2);
        if self.found[before..].iter().any(is_new) {
            self.found.extend(rest.by_ref().filter_map(config::file_id));
        }
        match rest.next() {
            Some(_) => None,
            None => Some(std::mem::take(self).found.into()),
        }
    }
}

/// The states of files with which a reload has been begun. If it fails, as while too many earlier processes finish their
/// responses, another one follows.
struct TriedFiles {
    stamps: FileStamps,
    pause: Duration,
    again: Instant,
}

impl TriedFiles {
    /// Whether a reload for this state of the files is due, which the caller begins. `first`: the pause behind the first
    /// reload for a state; each further one is twice as long.
    fn is_due(tried: &mut Option<TriedFiles>, stamps: FileStamps, first: Duration, now: Instant) -> bool {
        let pause = match tried.as_ref().filter(|tried| tried.stamps == stamps) {
            None => first,
            Some(tried) if now < tried.again => return false,
            Some(tried) => (2 * tried.pause).min(LONGEST_PAUSE),
        };
        *tried = Some(TriedFiles { stamps, pause, again: now + pause });
        true
    }
}

impl Served {
    pub(super) fn schedule_certificate_check(&mut self, now: Instant) {
        let every = self.site.tls.watch.filter(|_| self.tls.material.is_some());
        self.watched.next_certificate_check = every.map(|every| now + every);
    }

    /// Whether a reload is due because a file of a certificate has changed. If that fails, as where the key has yet to
    /// follow, another state of the files is tried at once, and the same one after longer and longer pauses.
    fn have_certificates_changed(&mut self, now: Instant) -> bool {
        let Some(every) = self.site.tls.watch.filter(|_| self.tls.stamps.have_changed()) else {
            return false;
        };
        let stamps = self.tls.stamps.renewed();
        TriedFiles::is_due(&mut self.watched.tried_certificates, stamps, every, now)
    }

    pub(super) fn schedule_file_check(&mut self, now: Instant) {
        let names_files = self.site.named_files.paths().next().is_some();
        self.watched.next_check = names_files.then(|| now + FILE_CHECKS);
    }

    /// Whether a reload is due because a file of users, groups or keys has changed.
    fn have_users_changed(&mut self, now: Instant) -> bool {
        if !self.watched.users.have_changed() {
            return false;
        }
        let stamps = stamps_of_users(&self.site);
        TriedFiles::is_due(&mut self.watched.tried_users, stamps, FILE_CHECKS, now)
    }

    /// Has the generation that serves hide what the names of never served files lead to now. It may be unable to see
    /// the files itself.
    fn hide_replaced_files(&mut self, serving: Option<&Generation>) {
        let found = self.watched.round.next(&self.site.named_files);
        let Some(found) = found.filter(|found| found != self.site.named_files.files()) else { return };
        let Some(generation) = serving else { return };
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
        self.site.named_files.replace(found);
    }
}

impl Master {
    /// Reloads if a file of a certificate has changed.
    pub(super) fn check_certificates(&mut self, now: Instant) {
        let is_changing = self.is_changing();
        let Some(served) = &mut self.served else { return };
        served.schedule_certificate_check(now);
        if !is_changing && served.have_certificates_changed(now) {
            log::info(format_args!("certificates have changed"));
            self.reload(Vec::new());
        }
    }

    /// Notices named files that have been replaced, and reloads if a file of users, groups or keys has changed.
    pub(super) fn check_files(&mut self, now: Instant) {
        let is_changing = self.is_changing();
        let Some(served) = &mut self.served else { return };
        served.schedule_file_check(now);
        served.hide_replaced_files(self.children.serving());
        if !is_changing && served.have_users_changed(now) {
            log::info(format_args!("a file of users, groups or keys has changed"));
            self.reload(Vec::new());
        }
    }
}

/// The states of the files of users, groups and keys.
pub(super) fn stamps_of_users(site: &Site) -> FileStamps {
    FileStamps::of(site.user_files())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_state_that_a_reload_refuses_is_tried_after_longer_and_longer_pauses() {
        let second = Duration::from_secs(1);
        let (refused, other) = (FileStamps::of([Path::new("/")]), FileStamps::default());
        let began = Instant::now();
        let mut tried: Option<TriedFiles> = None;
        let mut at = Vec::new();
        for number in 0..200 {
            if TriedFiles::is_due(&mut tried, refused.clone(), second, began + number * second) {
                at.push(number);
            }
        }
        assert_eq!(at, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        let now = began + 200 * second;
        assert!(!TriedFiles::is_due(&mut tried, refused, second, now));
        assert!(TriedFiles::is_due(&mut tried, other, second, now), "another state is tried at once");
    }

    #[test]
    fn a_round_over_many_files_takes_several_checks_unless_one_is_new() {
        let folder = std::env::temp_dir().join(format!("taipan-named-files-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = |number: usize| folder.join(number.to_string());
        let write = |number| {
            let new = folder.join("new");
            fs::write(&new, "").unwrap();
            fs::rename(&new, path(number)).unwrap();
        };
        let last = 2 * FILES_AT_ONCE;
        (0..=last).for_each(write);
        let paths: Vec<_> = (0..=last).map(path).collect();
        let ids = || config::file_ids(paths.iter().map(|path| path.as_path()));
        let mut named = NamedFiles::new(paths.clone(), ids());
        let mut round = FileRound::default();
        let mut check = |named: &NamedFiles| round.next(named);
        assert_eq!([(); 3].map(|()| check(&named)), [None, None, Some(ids())]);
        write(last);
        assert_eq!([(); 3].map(|()| check(&named)), [None, None, Some(ids())]);
        named.replace(ids());
        write(0);
        assert_eq!(check(&named), Some(ids()));
        named.replace(ids());
        fs::remove_file(path(FILES_AT_ONCE)).unwrap();
        assert_eq!([(); 3].map(|()| check(&named)), [None, None, Some(ids())]);
        assert_ne!(*named.files(), ids());
        fs::remove_dir_all(&folder).unwrap();
    }
}
