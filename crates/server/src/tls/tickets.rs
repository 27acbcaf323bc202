//! Session tickets (RFC 5077, RFC 8446 §4.6.1), which hold a session encrypted for this server, so that the server
//! keeps none. Their keys change with time, in epochs of equal length since 1970, and are shared by all workers, by
//! generations and masters that follow one another, and by machines with the same key file. A ticket is accepted in its
//! epoch and in the next one, and, for machines whose clocks differ, in the epoch before.
//!
//! Knows nothing of connections.

mod tree;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::server::ProducesTickets;
use site::model::Site;
use site::tls::Tickets;
use zeroize::Zeroizing;

use self::tree::{SECRET, Secret, SecretTree, derive};
use crate::mutex::locked;
use crate::regular_file;
use crate::tls::crypto::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use crate::tls::crypto::hkdf::{HKDF_SHA256, Salt};
use crate::tls::crypto::rand::{SecureRandom, SystemRandom};
use crate::tls::lifetime::{LONGEST, end, now, with_prefix, without_prefix};

/// Bytes of the name of a key, with which a ticket begins.
const NAME: usize = 16;
/// Bytes that tell the tickets of a key apart. Each has a key and a nonce of its own, so that machines that share a
/// secret may produce any number of tickets.
const SALT: usize = 24;
const HEADER: usize = NAME + SALT;
const KEY: usize = 32;
const NONCE: usize = 12;
const TAG: usize = 16;
/// Bytes of the shortest and the longest key file.
const KEY_FILE: std::ops::RangeInclusive<usize> = SECRET..=4096;
/// Bytes of the secrets as they are handed to another process.
const ENCODED: usize = size_of::<u64>() + tree::ENCODED;

/// The secrets of present and later tickets.
#[derive(Clone)]
pub struct TicketSecrets {
    /// The length of an epoch in seconds, at least 1.
    rotation: u64,
    /// From the previous epoch on.
    tree: SecretTree,
}

/// The keys of a process. Contended for a moment when a handshake begins or ends.
pub struct TicketKeys(Mutex<Keys>);

struct Keys {
    secrets: TicketSecrets,
    /// The present epoch.
    epoch: u64,
    /// Of the previous, the present and the next epoch.
    accepted: [TicketKey; 3],
}

#[derive(Clone)]
struct TicketKey {
    name: [u8; NAME],
    secret: Secret,
}

/// Produces tickets for one set of rules.
pub struct Ticketer {
    keys: Arc<TicketKeys>,
    rules: Box<[u8]>,
}

impl TicketSecrets {
    /// The secrets of a site: those of its file, or else the present ones, which its processes have had before. Errors:
    /// what to do.
    pub fn of(site: &Site, present: Option<&TicketSecrets>) -> Result<Option<TicketSecrets>, String> {
        let Some(Tickets { rotation, key_file }) = &site.tls.tickets else { return Ok(None) };
        let secrets = match (key_file, present) {
            (Some(path), _) => TicketSecrets::from_file(&read(path)?, *rotation),
            (None, Some(present)) if present.has_rotation(*rotation) => present.clone(),
            (None, _) => TicketSecrets::random(*rotation)?,
        };
        Ok(Some(secrets))
    }

    /// Errors: the kernel gives no random bytes.
    fn random(rotation: Duration) -> Result<TicketSecrets, String> {
        let mut root = Secret::default();
        let filled = SystemRandom::new().fill(&mut root[..]);
        filled
            .map_err(|_| "cannot create the keys of session tickets: there are no random bytes".to_owned())?;
        Ok(TicketSecrets::from_root(&root, rotation, now()))
    }

    /// The same on all machines with the same file and rotation. `content` is of a length in `KEY_FILE`.
    fn from_file(content: &[u8], rotation: Duration) -> TicketSecrets {
        let mut root = Secret::default();
        let length = seconds(rotation).to_be_bytes();
        // Fails only for a longer result.
        let extracted = Salt::new(HKDF_SHA256, b"taipan session tickets").extract(content);
        let filled = extracted.expand(&[&length], HKDF_SHA256).and_then(|okm| okm.fill(&mut root[..]));
        filled.expect("one hash");
        TicketSecrets::from_root(&root, rotation, now())
    }

    fn from_root(root: &Secret, rotation: Duration, now: u64) -> TicketSecrets {
        let rotation = seconds(rotation);
        TicketSecrets { rotation, tree: SecretTree::new(root, (now / rotation).saturating_sub(1)) }
    }

    fn has_rotation(&self, rotation: Duration) -> bool {
        self.rotation == seconds(rotation)
    }

    /// Forgets what no ticket needs any more.
    pub fn forget(&mut self) {
        self.advance(now());
    }

    /// How long until there is something to forget.
    pub fn until_next_epoch(&self) -> Duration {
        Duration::from_secs(self.rotation - now() % self.rotation)
    }

    /// The present epoch. A clock that is set back changes nothing.
    fn advance(&mut self, now: u64) -> u64 {
        let epoch = (now / self.rotation).max(self.tree.first() + 1);
        self.tree.forget_before(epoch - 1);
        epoch
    }

    /// A pipe with the secrets, for another process.
    pub fn to_pipe(&self) -> io::Result<OwnedFd> {
        let (reader, mut writer) = io::pipe()?;
        writer.write_all(&self.encode())?;
        Ok(reader.into())
    }

    /// The secrets in a pipe of another process. `None`: it is of a version with another form.
    pub fn from_pipe(pipe: OwnedFd) -> Option<TicketSecrets> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(ENCODED + 1));
        File::from(pipe).take(ENCODED as u64 + 1).read_to_end(&mut bytes).ok()?;
        TicketSecrets::decode(&bytes)
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(ENCODED));
        bytes.extend_from_slice(&self.rotation.to_be_bytes());
        bytes.extend_from_slice(&self.tree.encode());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<TicketSecrets> {
        let (rotation, tree) = bytes.split_first_chunk()?;
        let rotation = Some(u64::from_be_bytes(*rotation)).filter(|rotation| *rotation > 0)?;
        Some(TicketSecrets { rotation, tree: SecretTree::decode(tree)? })
    }
}

impl TicketKeys {
    pub fn new(secrets: TicketSecrets) -> Arc<TicketKeys> {
        Arc::new(TicketKeys(Mutex::new(Keys::new(secrets, now()))))
    }

    /// Tickets that are accepted only under the same rules, such as those for client certificates. Otherwise, a session
    /// that began under other rules would be resumed without meeting these.
    pub fn ticketer(self: &Arc<TicketKeys>, rules: &[u8]) -> Arc<dyn ProducesTickets> {
        Arc::new(Ticketer { keys: self.clone(), rules: rules.into() })
    }

    /// Forgets what no ticket needs any more. Returns how long until there is more to forget.
    pub fn forget(&self) -> Duration {
        self.at(now(), |keys| keys.secrets.until_next_epoch())
    }

    fn at<T>(&self, now: u64, with: impl FnOnce(&Keys) -> T) -> T {
        // Nothing panics in between; and the keys are valid at every moment.
        let mut keys = locked(&self.0);
        keys.advance(now);
        with(&keys)
    }
}

impl Keys {
    fn new(mut secrets: TicketSecrets, now: u64) -> Keys {
        let epoch = secrets.advance(now);
        let accepted = accepted(&secrets.tree);
        Keys { secrets, epoch, accepted }
    }

    fn advance(&mut self, now: u64) {
        if now / self.secrets.rotation > self.epoch {
            self.epoch = self.secrets.advance(now);
            self.accepted = accepted(&self.secrets.tree);
        }
    }
}

/// The keys of the first three epochs.
fn accepted(tree: &SecretTree) -> [TicketKey; 3] {
    std::array::from_fn(|number| {
        let secret = tree.secret(tree.first() + number as u64).unwrap_or_default();
        TicketKey { name: *derive(&secret, &[b"name"]), secret }
    })
}

impl TicketKey {
    fn cipher(&self, salt: &[u8; SALT], rules: &[u8]) -> Option<(LessSafeKey, Nonce)> {
        let derived = derive::<{ KEY + NONCE }>(&self.secret, &[b"ticket with an end", salt, rules]);
        let (key, nonce) = derived.split_at(KEY);
        let key = UnboundKey::new(&AES_256_GCM, key).ok()?;
        Some((LessSafeKey::new(key), Nonce::try_assume_unique_for_key(nonce).ok()?))
    }

    fn encrypt(&self, plain: &[u8], rules: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT];
        SystemRandom::new().fill(&mut salt).ok()?;
        let (key, nonce) = self.cipher(&salt, rules)?;
        let mut ticket = Vec::with_capacity(HEADER + plain.len() + TAG);
        ticket.extend_from_slice(&self.name);
        ticket.extend_from_slice(&salt);
        ticket.extend_from_slice(plain);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut ticket[HEADER..]).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, salt: &[u8; SALT], sealed: &[u8], rules: &[u8]) -> Option<Vec<u8>> {
        let (key, nonce) = self.cipher(salt, rules)?;
        let mut plain = sealed.to_vec();
        let length = key.open_in_place(nonce, Aad::empty(), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

impl Ticketer {
    fn encrypt_at(&self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        let [_, present, _] = self.keys.at(now, |keys| keys.accepted.clone());
        present.encrypt(&with_prefix(plain, now), &self.rules)
    }

    fn decrypt_at(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let (salt, sealed) = rest.split_first_chunk()?;
        // A name is no secret: every ticket shows one.
        let is_named = |key: &&TicketKey| key.name == *name;
        let key = self.keys.at(now, |keys| keys.accepted.iter().find(is_named).cloned())?;
        without_prefix(&key.decrypt(salt, sealed, &self.rules)?, now)
    }

    /// Until the end of the next epoch, or of the session.
    fn lifetime_at(&self, now: u64) -> u32 {
        let of_key = self.keys.at(now, |keys| (keys.epoch + 2) * keys.secrets.rotation);
        of_key.min(end(now)).saturating_sub(now).min(LONGEST) as u32
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime_at(now())
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.encrypt_at(plain, now())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(ticket, now())
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ticketer").finish_non_exhaustive()
    }
}

/// The bytes of a key file. Errors: what to do.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let shown = path.display();
    // Without room to grow, so that no copy stays behind.
    let mut content = Zeroizing::new(Vec::with_capacity(KEY_FILE.end() + 2));
    let read = regular_file::open(path)
        .and_then(|file| file.take(*KEY_FILE.end() as u64 + 1).read_to_end(&mut content))
        .map_err(|e| format!("cannot read the keys of session tickets, {shown}: {e}"));
    match read? {
        length if KEY_FILE.contains(&length) => Ok(content),
        _ => Err(format!(
            "{shown} must have {} to {} random bytes; write some with: openssl rand -out {shown} 64",
            KEY_FILE.start(),
            KEY_FILE.end()
        )),
    }
}

fn seconds(rotation: Duration) -> u64 {
    rotation.as_secs().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::lifetime::{END, with_end};

    const HOUR: Duration = Duration::from_secs(3600);
    const FILE: &[u8] = b"thirty-two bytes or more of a file";
    const SESSION: &[u8] = b"a session";

    fn ticketer_at(now: u64) -> Ticketer {
        let root = Zeroizing::new([3; SECRET]);
        let keys = Keys::new(TicketSecrets::from_root(&root, HOUR, now), now);
        Ticketer { keys: Arc::new(TicketKeys(Mutex::new(keys))), rules: Box::default() }
    }

    #[test]
    fn a_ticket_is_accepted_in_its_epoch_the_next_and_the_previous_one() {
        let hours = |hours: u64| hours * 3600 + 5;
        for (accepted, at) in [(false, 98), (true, 99), (true, 100), (true, 101), (false, 102), (false, 9999)]
        {
            let ticket = ticketer_at(hours(100)).encrypt_at(SESSION, hours(100)).expect("it is encrypted");
            let opened = ticketer_at(hours(at)).decrypt_at(&ticket, hours(at));
            assert_eq!(opened.as_deref(), accepted.then_some(SESSION), "by another machine at {at}");
            let same = ticketer_at(hours(90));
            let opened = same.decrypt_at(&ticket, hours(at));
            assert_eq!(opened.as_deref(), accepted.then_some(SESSION), "by one that has run longer, at {at}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_changes_no_key() {
        let ticketer = ticketer_at(100 * 3600);
        let ticket = ticketer.encrypt_at(SESSION, 100 * 3600).expect("it is encrypted");
        let later = ticketer.encrypt_at(SESSION, 50 * 3600).expect("it is encrypted");
        assert_eq!(ticket[..NAME], later[..NAME]);
        assert_eq!(ticketer.decrypt_at(&ticket, 3600).as_deref(), Some(SESSION));
        assert_eq!(ticketer.lifetime_at(3600), 101 * 3600);
    }

    #[test]
    fn a_session_ends_before_its_key_does() {
        let (now, ticketer) = (100 * 3600, ticketer_at(100 * 3600));
        let ticket = with_end(&mut Some(now + 60), || ticketer.encrypt_at(SESSION, now));
        let ticket = ticket.expect("it is encrypted");
        let at = |now| with_end(&mut None, || ticketer.decrypt_at(&ticket, now));
        assert_eq!((at(now + 59).as_deref(), at(now + 60)), (Some(SESSION), None));
        assert_eq!(with_end(&mut Some(now + 60), || ticketer.lifetime_at(now)), 60);
    }

    #[test]
    fn the_lifetime_ends_with_the_next_epoch() {
        let ticketer = ticketer_at(0);
        for (now, lifetime) in [(7200, 7200), (7201, 7199), (10_799, 3601), (10_800, 7200)] {
            assert_eq!(ticketer.lifetime_at(now), lifetime, "at {now}");
        }
        assert_eq!(ticketer_at(9999 * 3600).lifetime_at(0), LONGEST as u32, "by a clock that was set back");
    }

    /// Garbage of every length, and every bit of a ticket changed.
    #[test]
    fn anything_else_is_refused() {
        let now = 100 * 3600;
        let ticketer = ticketer_at(now);
        let ticket = ticketer.encrypt_at(SESSION, now).expect("it is encrypted");
        assert_eq!(ticket.len(), HEADER + END + SESSION.len() + TAG);
        assert!(!ticket.windows(SESSION.len()).any(|window| window == SESSION));
        let changed = (0..ticket.len() * 8).map(|bit| {
            let mut changed = ticket.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            changed
        });
        let cut = (0..ticket.len()).map(|end| ticket[..end].to_vec());
        let longer = [[&ticket[..], &[0]].concat(), [&ticket[..], &ticket].concat()];
        let garbage = (0..300).flat_map(|length| [vec![0; length], vec![0xff; length]]);
        let named = (0..100).map(|length| [&ticket[..NAME], &vec![0x55; length]].concat());
        let huge = [&ticket[..NAME], &vec![1; 1 << 20]].concat();
        for other in changed.chain(cut).chain(longer).chain(garbage).chain(named).chain([huge]) {
            assert_eq!(ticketer.decrypt_at(&other, now), None, "{}", other.escape_ascii());
        }
        assert_eq!(ticketer.decrypt_at(&ticket, now).as_deref(), Some(SESSION));
    }

    #[test]
    fn a_ticket_of_other_rules_is_refused() {
        let keys = TicketKeys::new(TicketSecrets::random(HOUR).expect("there are random bytes"));
        let (open, strict) = (keys.ticketer(b""), keys.ticketer(b"a certificate is required"));
        let ticket = open.encrypt(SESSION).expect("it is encrypted");
        assert_eq!(open.decrypt(&ticket).as_deref(), Some(SESSION));
        assert_eq!(strict.decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_of_an_empty_or_a_large_session_is_accepted_and_no_two_are_equal() {
        let ticketer = ticketer_at(0);
        for length in [0, 1, 16 * 1024] {
            let plain = vec![b'x'; length];
            let [one, other] = [0; 2].map(|_| ticketer.encrypt_at(&plain, 0).expect("it is encrypted"));
            assert_ne!(one[NAME..HEADER], other[NAME..HEADER]);
            assert_eq!(ticketer.decrypt_at(&one, 0), Some(plain.clone()));
            assert_eq!(ticketer.decrypt_at(&other, 0), Some(plain));
        }
    }

    #[test]
    fn a_file_has_enough_bytes_and_not_too_many() {
        let path = std::env::temp_dir().join(format!("taipan-ticket-key-{}", std::process::id()));
        for (length, is_valid) in [(0, false), (31, false), (32, true), (4096, true), (4097, false)] {
            std::fs::write(&path, vec![1; length]).expect("it is written");
            assert_eq!(read(&path).map(|content| content.len()).is_ok(), is_valid, "{length}");
        }
        std::fs::remove_file(&path).expect("it is there");
        assert!(read(&path).expect_err("there is none").contains("cannot read the keys of session tickets"));
    }

    #[test]
    fn processes_share_secrets_by_handing_them_over_or_by_a_file() {
        let shares = |one: TicketSecrets, other: TicketSecrets| {
            let [one, other] = [one, other].map(|secrets| TicketKeys::new(secrets).ticketer(b""));
            other.decrypt(&one.encrypt(SESSION).expect("it is encrypted")).is_some()
        };
        let random = || TicketSecrets::random(HOUR).expect("there are random bytes");
        let first = random();
        let pipe = first.to_pipe().expect("it takes them");
        let passed = TicketSecrets::from_pipe(pipe).expect("they are secrets");
        assert!(passed.has_rotation(HOUR) && shares(first.clone(), passed));
        assert!(!shares(first, random()));
        assert!(shares(TicketSecrets::from_file(FILE, HOUR), TicketSecrets::from_file(FILE, HOUR)));
        for (content, rotation) in [(&FILE[1..], HOUR), (FILE, 2 * HOUR)] {
            assert!(!shares(
                TicketSecrets::from_file(FILE, HOUR),
                TicketSecrets::from_file(content, rotation)
            ));
        }
        assert!(TicketSecrets::decode(&[0; ENCODED]).is_none(), "epochs have a length");
        assert!(TicketSecrets::decode(&[1; ENCODED - 1]).is_none());
    }
}
