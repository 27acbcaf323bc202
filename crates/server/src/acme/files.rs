//! The master's side: which certificates a site needs, where they are, and what the process that gets them asks for.

mod problems;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use site::address::without_brackets;
use site::certificates::{Certificates, StandIn};
use site::model::Site;
use site::tls::CertificateFiles;

pub use self::problems::problems;
use super::account::{AccountKey, Binding};
use super::crypto::sha256;
use super::https::roots;
use super::issue;
use super::message::{Reply, Wish};
use super::process::Secrets;
use super::report::Report;
use super::schedule::Time;
use super::storage::{AS_OWNER, Lock, Storage, folder_named, make_folder};
use super::stored::{self, Stored};
use crate::process::privilege::advice_on_writing;
use crate::sys::is_disk_full;
use crate::tls::material::read_file;
use crate::{clock, log};

const ACCOUNT_KEY: &str = "account.key";
/// In file names, in place of `*.`.
const WILDCARD: &str = "_wildcard.";
/// Bytes of the longest beginning of a file's name: the system allows 255 with the end.
const MAX_BEGINNING: usize = 240;
/// Where the certificates of authorities are, on the systems of this world.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// A certificate that the server gets by ACME.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The beginning of its files' names.
    file: String,
    pub names: Vec<String>,
    /// The hash of the chain that the next generation serves.
    pub served: [u8; 32],
    pub report: Report,
}

/// The certificates of a site, and their folder.
pub struct AcmeFiles {
    storage: Storage,
    wanted: Vec<Wanted>,
}

impl AcmeFiles {
    /// Gives each host with `acme` its file, with a self-signed certificate in it if there is none yet, and the site
    /// the thumbprint of the account. Where the disk takes neither, the site has a stand-in for the file, and no
    /// thumbprint. `served`: those of the site that is served. `None`: no host needs it. Errors: with what to do.
    pub fn prepare(site: &mut Site, served: Option<&AcmeFiles>) -> Result<Option<AcmeFiles>, String> {
        if !site.hosts.iter().any(|host| host.tls.acme) {
            return Ok(None);
        }
        let folder = folder_of(&site.certificates)?;
        if served.is_some_and(|served| served.storage.path() == folder) && !folder.exists() {
            return Err(format!(
                "the folder of certificates, {}, is gone; put it there again, or restart the server to begin with another \
                 account and no certificates",
                folder.display()
            ));
        }
        make_folder(&folder)
            .map_err(|why| format!("{why}, or name another one in `folder` of [certificates]"))?;
        let storage = Storage::open(&folder)?;
        site.certificates.thumbprint = match account_key(&storage) {
            Ok(key) => Some(key.thumbprint()),
            // The master tries it again, and says why.
            Err(Failure { cause: Cause::Disk, .. }) => None,
            Err(Failure { cause: Cause::Other, text }) => return Err(text),
        };
        let (mut wanted, mut stand_ins, mut files) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut known = BTreeSet::new();
        for host in site.hosts.iter().filter(|host| host.tls.acme) {
            let names: Vec<_> = host.names.iter().map(|name| without_brackets(name).to_owned()).collect();
            let file = file_name(&names);
            files.push(storage.path().join(pem(&file)));
            // Hosts of different addresses may have the same names.
            if !known.insert(file.clone()) {
                continue;
            }
            let (served, stand_in) = chain_or_self_signed(&storage, &file, &names)?;
            stand_ins.extend(stand_in.map(|text| (storage.path().join(pem(&file)), text)));
            let report = report(&storage, &file);
            wanted.push(Wanted { file, names, served: sha256(&served), report });
        }
        site.certificates.stand_ins = stand_ins;
        for (tls, certificate) in site.hosts.tls_mut().filter(|tls| tls.acme).zip(files) {
            tls.certificates = vec![CertificateFiles { certificate, key: None }];
        }
        Ok(Some(AcmeFiles { storage, wanted }))
    }

    /// The certificates, with what is reported of them now: an earlier process may have changed it.
    pub fn wanted(&self) -> Vec<Wanted> {
        let now = |wanted: &Wanted| Wanted { report: report(&self.storage, &wanted.file), ..wanted.clone() };
        self.wanted.iter().map(now).collect()
    }

    /// Whether a process for the other files would do the same.
    pub fn is_same(&self, other: &AcmeFiles) -> bool {
        let names =
            |files: &AcmeFiles| files.wanted.iter().map(|wanted| wanted.names.clone()).collect::<Vec<_>>();
        self.is_in_folder_of(other) && names(self) == names(other)
    }

    /// Whether another certificate is stored than the one that is served. `true`: also if that cannot be read.
    pub fn have_changed(&self) -> bool {
        let is_served =
            |wanted: &Wanted| self.chain(&wanted.file).is_ok_and(|chain| sha256(&chain) == wanted.served);
        !self.wanted.iter().all(is_served)
    }

    pub fn is_in_folder_of(&self, other: &AcmeFiles) -> bool {
        self.storage.path() == other.storage.path()
    }

    /// Whether the certificate with this number of the other files is one of these, perhaps with other names.
    pub fn has(&self, other: &AcmeFiles, number: u32) -> bool {
        let file = other.wanted.get(number as usize).map(|wanted| &wanted.file);
        self.wanted.iter().any(|wanted| Some(&wanted.file) == file)
    }

    /// Makes the key of the account, if there is none. Errors: with what to do.
    pub fn make_account_key(&self) -> Result<(), String> {
        account_key(&self.storage).map(drop).map_err(|failure| failure.text)
    }

    /// What the process needs. Errors: with what to do.
    pub fn secrets(&self, settings: &Certificates) -> Result<Secrets, String> {
        let key = account_key(&self.storage).map_err(|failure| failure.text)?;
        let (binding, roots) = (read_binding(settings)?, read_roots(&ca_file(settings)?)?);
        Ok(Secrets { key, binding, roots })
    }

    /// Carries out a request that needs the folder. `None`: there is no such certificate, or the request needs no
    /// folder.
    pub fn perform(&self, certificate: u32, wish: &Wish, now: Time) -> Option<Reply> {
        let Wanted { file, names, .. } = self.wanted.get(usize::try_from(certificate).ok()?)?;
        Some(match wish {
            Wish::Read => self.chain(file).into(),
            Wish::Lock(until) => match self.storage.lock(&lock(file), now, *until) {
                Ok(Lock::Taken) => Reply::Done,
                Ok(Lock::Busy(until)) => Reply::Busy(until),
                Err(error) => Reply::Failed(self.failure(&lock(file), &error)),
            },
            Wish::Unlock => {
                self.storage.unlock(&lock(file));
                Reply::Done
            }
            // A process that speaks with the network is not trusted with what the next start reads.
            Wish::Store(bytes) => {
                stored::check(bytes, names).and_then(|()| self.write(&pem(file), bytes)).into()
            }
            Wish::Serve => Reply::Done,
            Wish::ReadReport => self.read(&report_of(file)).map(Option::unwrap_or_default).into(),
            Wish::Report(text) => self.write(&report_of(file), text).into(),
            Wish::Challenge { .. } | Wish::Withdraw { .. } => return None,
        })
    }

    /// Releases the locks that a process had which has ended: no order of it goes on.
    pub fn release_locks(&self) {
        for wanted in &self.wanted {
            self.storage.unlock(&lock(&wanted.file));
        }
    }

    fn chain(&self, file: &str) -> Result<Vec<u8>, String> {
        Ok(self.read(&pem(file))?.map(|text| chain_of(&text)).unwrap_or_default())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        self.storage.read(name).map_err(|error| self.failure(name, &error))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.storage.write(name, bytes).map_err(|error| self.failure(name, &error))
    }

    /// Why a file of the folder cannot be read or written, with what to do about a disk.
    fn failure(&self, name: &str, error: &io::Error) -> String {
        let path = self.storage.path();
        Failure::of_writing(format!("{}: {error}", path.join(name).display()), error, path).text
    }
}

/// Why the folder does not have what a start needs.
struct Failure {
    /// With what to do.
    text: String,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// It is full or read-only, which passes without a change of the configuration.
    Disk,
    Other,
}

impl Failure {
    /// `text`: what could not be written to the folder.
    fn of_writing(text: String, error: &io::Error, folder: &Path) -> Failure {
        let advice = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(errno) if is_disk_full(errno) => "make room on its disk".to_owned(),
            Some(Errno::ROFS) => advice_on_writing(Errno::ROFS, folder),
            _ => return Failure::other(text),
        };
        Failure { text: format!("{text}; {advice}"), cause: Cause::Disk }
    }

    fn other(text: String) -> Failure {
        Failure { text, cause: Cause::Other }
    }
}

fn report(storage: &Storage, file: &str) -> Report {
    let text = storage.read(&report_of(file)).ok().flatten().unwrap_or_default();
    Report::parse(&String::from_utf8_lossy(&text))
}

/// The certificates of a file, without its key.
fn chain_of(text: &[u8]) -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    let chain = CertificateDer::pem_slice_iter(text).filter_map(Result::ok);
    chain.map(|certificate| issue::certificate_pem(&certificate)).collect::<String>().into_bytes()
}

/// The chain in the file. If it does not contain a certificate with a key, it gets a self-signed one, which is also
/// returned if the disk does not take it.
fn chain_or_self_signed(
    storage: &Storage,
    file: &str,
    names: &[String],
) -> Result<(Vec<u8>, Option<StandIn>), String> {
    let name = pem(file);
    let fail =
        |what: &str, e: &dyn Display| format!("cannot {what} {}: {e}", storage.path().join(&name).display());
    if let Some(text) = storage.read(&name).map_err(|e| unreadable(storage, &name, &e))? {
        match stored::certified(&text) {
            Ok(_) => {
                warn_if_expired(&text, names);
                return Ok((chain_of(&text), None));
            }
            Err(why) => log::error(format_args!("{}; it is replaced", fail("use", &why))),
        }
    }
    let pair = issue::self_signed(names).map_err(|e| fail("make", &e))?;
    let text = pair.pem();
    let mut stand_in = None;
    if let Err(error) = storage.write(&name, text.as_bytes()) {
        let failure = Failure::of_writing(fail("write", &error), &error, storage.path());
        if failure.cause != Cause::Disk {
            return Err(failure.text);
        }
        log::error(format_args!("{}", failure.text));
        stand_in = Some(StandIn(text.as_bytes().to_vec()));
    }
    log::warn(format_args!(
        "there is no certificate for {} yet; until an authority has issued one, clients get one that they do not trust",
        names.join(", ")
    ));
    Ok((chain_of(text.as_bytes()), stand_in))
}

fn unreadable(storage: &Storage, name: &str, error: &io::Error) -> String {
    let path = storage.path().join(name);
    format!("cannot read {}: {}", path.display(), with_advice(error, &path, "move it away"))
}

/// Why a file cannot be read, and what to do. `otherwise`: if its rights are not the cause.
fn with_advice(error: &io::Error, path: &Path, otherwise: &str) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}; run: chown {} {}", geteuid().as_raw(), path.display())
        }
        _ => format!("{error}; {otherwise}"),
    }
}

fn warn_if_expired(text: &[u8], names: &[String]) {
    let stored = Stored::read(text).ok().filter(|stored| !stored.is_self_made());
    if stored.is_some_and(|stored| stored.facts.not_after < clock::wall()) {
        log::warn(format_args!(
            "the certificate for {} has expired, and is served all the same",
            names.join(", ")
        ));
    }
}

/// The key of the account, which is made if there is none.
fn account_key(storage: &Storage) -> Result<AccountKey, Failure> {
    if let Some(key) = stored_account_key(storage)? {
        return Ok(key);
    }
    let fail = |e: &dyn Display| failure_of_account(storage, e);
    let key = PrivateKeyDer::from(issue::account_key().map_err(|e| Failure::other(fail(&e)))?);
    // Another server may have created it at the same time.
    let created = storage.create(ACCOUNT_KEY, issue::key_pem(&key).as_bytes());
    created.map_err(|e| Failure::of_writing(fail(&e), &e, storage.path()))?;
    stored_account_key(storage)?.ok_or_else(|| Failure::other(fail(&"it was removed")))
}

/// `None`: there is none.
fn stored_account_key(storage: &Storage) -> Result<Option<AccountKey>, Failure> {
    const RESTORE: &str = "restore the file, or remove it to open another account";
    let reject = |why: String| Failure::other(failure_of_account(storage, &why));
    let invalid = |why: &str| reject(format!("{why}; {RESTORE}"));
    let read = storage.read(ACCOUNT_KEY);
    let text = read.map_err(|e| reject(with_advice(&e, &storage.path().join(ACCOUNT_KEY), RESTORE)))?;
    let Some(text) = text else { return Ok(None) };
    match PrivateKeyDer::from_pem_slice(&text).map_err(|_| invalid("it has no private key in PEM"))? {
        PrivateKeyDer::Pkcs8(key) => AccountKey::of(key).map(Some).map_err(|e| invalid(&e)),
        _ => Err(invalid("it is not in PKCS#8")),
    }
}

fn failure_of_account(storage: &Storage, error: &dyn Display) -> String {
    format!("cannot use the key of the account, {}: {error}", storage.path().join(ACCOUNT_KEY).display())
}

/// One certificate has all names of a host, and its file the name of the first one. The name of a file has a hash in place
/// of an end that does not fit.
fn file_name(names: &[String]) -> String {
    let first = without_brackets(names.first().map_or("", String::as_str)).to_ascii_lowercase();
    let name = match first.strip_prefix("*.") {
        Some(base) => format!("{WILDCARD}{base}"),
        // A host may have the name of such a file. Each of them has one more of its first characters.
        None if first.trim_start_matches('_').starts_with(&WILDCARD[1..]) && first.starts_with('_') => {
            format!("_{first}")
        }
        None => first,
    };
    let name = name.replace([':', '/'], "_");
    if name.len() <= MAX_BEGINNING {
        return name;
    }
    let hash: String = sha256(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hash}", &name[..name.floor_char_boundary(MAX_BEGINNING - 1 - hash.len())])
}

fn pem(file: &str) -> String {
    format!("{file}.pem")
}

fn lock(file: &str) -> String {
    format!("{file}.lock")
}

fn report_of(file: &str) -> String {
    format!("{file}.status")
}

fn read_roots(path: &Path) -> Result<RootCertStore, String> {
    let text = read_file(path)?;
    roots(&text).map_err(|why| format!("{} {why}", path.display()))
}

fn read_binding(settings: &Certificates) -> Result<Option<Binding>, String> {
    let Some(account) = &settings.external_account else { return Ok(None) };
    let text = read_file(&account.key_file)?;
    let binding = Binding::read(&account.key_id, &text);
    binding.map(Some).map_err(|why| format!("{}: {why}", account.key_file.display()))
}

/// What `taipan certificates` shows of a certificate.
pub struct Renewal {
    pub file: PathBuf,
    /// `None`: there is no file. Errors: why it has no certificate with a key, not even a self-signed one.
    pub stored: Option<Result<Stored, String>>,
    pub report: Option<Report>,
}

/// Changes nothing. Errors: the folder, or a file in it, cannot be read.
pub fn renewal_of(settings: &Certificates, names: &[String]) -> Result<Renewal, String> {
    let folder = folder_of(settings)?;
    let name = file_name(names);
    let file = folder.join(pem(&name));
    if !folder.exists() {
        return Ok(Renewal { file, stored: None, report: None });
    }
    let fail = |path: &Path, why: &dyn Display| format!("cannot read {}: {why}", path.display());
    let storage = Storage::of_any_user(&folder).map_err(|why| fail(&folder, &why))?;
    let read = |name: String| {
        storage.read(&name).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => fail(&folder.join(name), &format!("{e}; {AS_OWNER}")),
            _ => fail(&folder.join(name), &e),
        })
    };
    let usable = |text: Vec<u8>| stored::certified(&text).and_then(|_| Stored::read(&text));
    let stored = read(pem(&name))?.map(usable);
    let report = read(report_of(&name))?;
    let report = report.map(|report| Report::parse(&String::from_utf8_lossy(&report)));
    Ok(Renewal { file, stored, report })
}

/// The folder of the settings, or that of the system. Errors: there is none.
fn folder_of(settings: &Certificates) -> Result<PathBuf, String> {
    let default = || {
        state_directory().or_else(|| match geteuid().is_root() {
            true => Some(PathBuf::from("/var/lib/taipan")),
            false => folder_named("XDG_STATE_HOME")
                .or_else(|| Some(folder_named("HOME")?.join(".local/state")))
                .map(|state| state.join("taipan")),
        })
    };
    let folder = settings.folder.clone().or_else(|| Some(default()?.join("certificates")));
    folder.ok_or_else(|| "there is no folder for certificates; set `folder` in [certificates]".to_owned())
}

/// The first folder for the state of a service (systemd.exec(5)), which may have several.
fn state_directory() -> Option<PathBuf> {
    env::split_paths(&env::var_os("STATE_DIRECTORY")?).find(|path| path.is_absolute())
}

fn ca_file(settings: &Certificates) -> Result<PathBuf, String> {
    let named = settings.ca.clone().or_else(|| env::var_os("SSL_CERT_FILE").map(PathBuf::from));
    let found = || SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path: &PathBuf| Path::exists(path));
    named.or_else(found).ok_or_else(|| {
        "this system has no certificates of authorities; install ca-certificates, or set `ca` in [certificates]"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use site::config::{self, Source};

    use super::*;

    struct Text(String);

    impl Source for Text {
        fn read(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(self.0.clone().into_bytes())
        }

        fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn each_name_has_a_file_of_its_own() {
        for (name, expected) in [
            ("A.example", "a.example"),
            ("*.a.example", "_wildcard.a.example"),
            ("_wildcard.a.example", "__wildcard.a.example"),
            ("__wildcard.a.example", "___wildcard.a.example"),
            ("wildcard.a.example", "wildcard.a.example"),
            ("_wild.a.example", "_wild.a.example"),
            ("[2001:db8::1]", "2001_db8__1"),
        ] {
            assert_eq!(file_name(&[name.to_owned()]), expected, "{name}");
        }
    }

    #[test]
    fn the_longest_names_have_files_of_their_own() {
        let folder = env::temp_dir().join(format!("acme-long-{}", std::process::id()));
        let label = "a".repeat(63);
        let name = |end: &str| format!("{label}.{label}.{label}.{}{end}", &label[..60]);
        let names = [name("b"), name("c"), format!("*.{}", &name("b")[2..])];
        let hosts = names.each_ref().map(|name| format!("[[host]]\nnames = \"{name}\"\nroot = \"/a\"\n"));
        let text = format!(
            "listen = \"127.0.0.1:443 tls\"\nacme = true\n[certificates]\nfolder = \"{}\"\n\
             challenges = [\"tls-alpn-01\", \"dns-persist-01\"]\n{}",
            folder.display(),
            hosts.concat()
        );
        let mut site = config::load(Path::new("/site.toml"), &Text(text)).unwrap();
        let files = AcmeFiles::prepare(&mut site, None).unwrap().unwrap();
        for number in 0..3 {
            assert_eq!(files.perform(number, &Wish::Lock(99), 1), Some(Reply::Done));
            let report = number.to_string().into_bytes();
            assert_eq!(files.perform(number, &Wish::Report(report), 1), Some(Reply::Done));
        }
        for number in 0..3 {
            let report = number.to_string().into_bytes();
            assert_eq!(files.perform(number, &Wish::ReadReport, 1), Some(Reply::Content(report)));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn hosts_of_different_addresses_with_the_same_names_share_a_certificate() {
        let folder = env::temp_dir().join(format!("acme-files-{}", std::process::id()));
        let text = format!(
            "listen = \"127.0.0.1:443 tls\"\nroot = \"/a\"\nnames = \"a.example\"\nacme = true\n\
             [certificates]\nfolder = \"{}\"\n\
             [[host]]\nnames = \"A.example\"\naddresses = \"127.0.0.2\"\nroot = \"/b\"\n\
             [[host]]\nnames = \"b.example\"\nroot = \"/c\"\n",
            folder.display()
        );
        let mut site = config::load(Path::new("/site.toml"), &Text(text)).unwrap();
        let files = AcmeFiles::prepare(&mut site, None).unwrap().unwrap();
        let ordered: Vec<_> = files.wanted().into_iter().map(|wanted| wanted.names).collect();
        assert_eq!(ordered, [["a.example"], ["b.example"]]);
        let served = |host: &site::model::Host| host.tls.certificates[0].certificate.clone();
        let served: Vec<PathBuf> = site.hosts.iter().map(served).collect();
        let expected = ["a.example.pem", "a.example.pem", "b.example.pem"].map(|name| folder.join(name));
        assert_eq!(served, expected);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
