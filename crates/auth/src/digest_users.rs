//! A file of users for Digest, as Apache's htdigest writes it: `USER:REALM:HASH` on each line. The hash is MD5, or
//! SHA-256 for clients of RFC 7616. A user may have a line for each.

use std::collections::HashMap;
use std::fmt;

use md5::{Digest, Md5};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::mistake::{self, Fault, FileError, Mistakes};

/// Bytes of a line.
const MAX_LINE: usize = 8 << 10;

/// Lines of one file.
const MAX_ENTRIES: usize = 200_000;

/// The hash functions of Digest, the stronger first, in the order in which they are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Sha256,
    /// RFC 7616 has it for old clients and old files only.
    Md5,
}

/// The hash of `USER:REALM:PASSWORD`, in lower-case hexadecimal digits. It is as good as the password: its `Debug`
/// shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Ha1(Box<str>);

/// The users of all realms of a file.
#[derive(Debug, Clone, Default)]
pub struct DigestUsers {
    realms: HashMap<Box<str>, Realm>,
    entries: usize,
    mistakes: Mistakes,
}

#[derive(Debug, Clone, Default)]
struct Realm {
    users: HashMap<Box<str>, User>,
    /// The hash of `USER:REALM` → the user (RFC 7616 §3.4.4).
    hashed: HashMap<Box<str>, Box<str>>,
}

/// For each algorithm the line and the secret.
#[derive(Debug, Clone, Default)]
struct User {
    sha256: Option<(usize, Ha1)>,
    md5: Option<(usize, Ha1)>,
}

impl Algorithm {
    /// The stronger first.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Md5];

    /// The value of the parameter `algorithm` (RFC 7616 §3.3).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }

    /// The hash of the parts with a colon between them, in hexadecimal digits.
    pub(crate) fn hash(self, parts: &[&[u8]]) -> String {
        let text = parts.join(&b':');
        match self {
            Self::Sha256 => hexadecimal(&Sha256::digest(text)),
            Self::Md5 => hexadecimal(&Md5::digest(text)),
        }
    }

    const fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Md5 => 32,
        }
    }
}

impl Ha1 {
    /// The secret of a new line.
    pub fn new(algorithm: Algorithm, user: &str, realm: &str, password: &[u8]) -> Self {
        Self(algorithm.hash(&[user.as_bytes(), realm.as_bytes(), password]).into())
    }

    fn is(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }

    /// For a file, and to compute responses.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DigestUsers {
    /// Of several lines with one user, realm and algorithm, the first counts.
    pub fn parse(file: &[u8]) -> Result<Self, FileError> {
        let mut users = Self::default();
        for (line, text) in mistake::lines(file)? {
            if users.entries == MAX_ENTRIES {
                return Err(FileError::TooMany);
            }
            if let Err(fault) = users.read(line, text) {
                users.mistakes.add(line, fault);
            }
        }
        Ok(users)
    }

    fn read(&mut self, line: usize, text: &[u8]) -> Result<(), Fault> {
        if text.len() > MAX_LINE {
            return Err(Fault::TooLong);
        }
        let fields: Vec<&[u8]> = text.split(|&byte| byte == b':').collect();
        let &[user, realm, hash] = fields.as_slice() else { return Err(Fault::Form("USER:REALM:HASH")) };
        let (user, realm) = (mistake::name(user)?, mistake::name(realm)?);
        let hash = std::str::from_utf8(hash).map_err(|_| Fault::Digits)?.to_ascii_lowercase();
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.digits() == hash.len());
        match algorithm {
            Some(algorithm) if hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                self.insert(line, user, realm, algorithm, Ha1(hash.into()))
            }
            _ => Err(Fault::Digits),
        }
    }

    /// Adds a user who is not in a file. The number is for messages: the line, or the position in a list.
    pub fn insert(
        &mut self,
        line: usize,
        user: &str,
        realm: &str,
        algorithm: Algorithm,
        secret: Ha1,
    ) -> Result<(), Fault> {
        let place = self.realms.entry(realm.into()).or_default();
        let entry = place.users.entry(user.into()).or_default();
        let slot = entry.slot(algorithm);
        if let Some((first, _)) = slot {
            return Err(Fault::Again(*first));
        }
        *slot = Some((line, secret));
        let hashed = algorithm.hash(&[user.as_bytes(), realm.as_bytes()]);
        place.hashed.insert(hashed.into(), user.into());
        self.entries += 1;
        Ok(())
    }

    /// The user's own name, and the secret for this algorithm.
    pub(crate) fn find(&self, realm: &str, user: &str, algorithm: Algorithm) -> Option<(&str, &Ha1)> {
        let (name, user) = self.realms.get(realm)?.users.get_key_value(user)?;
        let (_, secret) = user.get(algorithm)?;
        Some((name, secret))
    }

    /// The same, by the hash of `USER:REALM`.
    pub(crate) fn find_hashed(&self, realm: &str, hash: &str, algorithm: Algorithm) -> Option<(&str, &Ha1)> {
        let user = self.realms.get(realm)?.hashed.get(hash)?;
        self.find(realm, user, algorithm)
    }

    /// What to offer: the algorithms that a user of the realm has a line for, the stronger first.
    pub fn algorithms(&self, realm: &str) -> Vec<Algorithm> {
        let users = self.realms.get(realm).map(|realm| &realm.users);
        let any =
            |algorithm| users.is_some_and(|users| users.values().any(|user| user.get(algorithm).is_some()));
        Algorithm::ALL.into_iter().filter(|&algorithm| any(algorithm)).collect()
    }

    /// Whether the user has this password in the realm, by any algorithm.
    pub fn verify(&self, realm: &str, user: &str, password: &[u8]) -> bool {
        Algorithm::ALL.into_iter().any(|algorithm| {
            let own = self.find(realm, user, algorithm).map(|(_, secret)| secret);
            own.is_some_and(|own| own.is(&Ha1::new(algorithm, user, realm, password)))
        })
    }

    /// Whether there is such a user in the realm.
    pub fn contains(&self, realm: &str, user: &str) -> bool {
        self.realms.get(realm).is_some_and(|realm| realm.users.contains_key(user))
    }

    /// Lines that count.
    pub fn len(&self) -> usize {
        self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The realms, for messages.
    pub fn realms(&self) -> impl Iterator<Item = &str> {
        self.realms.keys().map(AsRef::as_ref)
    }

    /// The lines that do not count.
    pub fn mistakes(&self) -> &Mistakes {
        &self.mistakes
    }
}

impl User {
    fn get(&self, algorithm: Algorithm) -> Option<&(usize, Ha1)> {
        match algorithm {
            Algorithm::Sha256 => self.sha256.as_ref(),
            Algorithm::Md5 => self.md5.as_ref(),
        }
    }

    fn slot(&mut self, algorithm: Algorithm) -> &mut Option<(usize, Ha1)> {
        match algorithm {
            Algorithm::Sha256 => &mut self.sha256,
            Algorithm::Md5 => &mut self.md5,
        }
    }
}

impl fmt::Debug for Ha1 {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Ha1")
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_htdigest_writes() {
        let file = "# Digest\r\nMufasa:http-auth@example.org:3d78807defe7de2157e2b0b6573a855f\r\n\
            Mufasa:http-auth@example.org:7987c64C30e25f1b74be53f966b49b90f2808AA92faf9a00262392d7b4794232\n\
            ann:other:3d78807defe7de2157e2b0b6573a855f\n";
        let users = DigestUsers::parse(file.as_bytes()).expect("it is small");
        let realm = "http-auth@example.org";
        assert!(users.mistakes().listed.is_empty());
        assert_eq!(users.len(), 3);
        assert_eq!(users.algorithms(realm), [Algorithm::Sha256, Algorithm::Md5]);
        assert_eq!(users.algorithms("other"), [Algorithm::Md5]);
        assert!(users.algorithms("none").is_empty());
        for algorithm in Algorithm::ALL {
            // RFC 7616 §3.9.1.
            let expected = Ha1::new(algorithm, "Mufasa", realm, b"Circle of Life");
            assert_eq!(users.find(realm, "Mufasa", algorithm), Some(("Mufasa", &expected)), "{algorithm:?}");
            let hashed = algorithm.hash(&[b"Mufasa", realm.as_bytes()]);
            assert_eq!(users.find_hashed(realm, &hashed, algorithm), Some(("Mufasa", &expected)));
            assert_eq!(users.find("other", "Mufasa", algorithm), None);
            assert!(users.verify(realm, "Mufasa", b"Circle of Life"));
            assert!(
                !users.verify(realm, "Mufasa", b"Circle of life") && !users.verify("other", "Mufasa", b"x")
            );
            assert_eq!(users.find(realm, "mufasa", algorithm), None);
        }
        assert_eq!(users.find("other", "ann", Algorithm::Sha256), None);
    }

    #[test]
    fn a_mistake_has_a_line_and_shows_nothing_of_it() {
        let users = DigestUsers::parse(
            b"ann:realm\nann:realm:hunter2\n:realm:3d78807defe7de2157e2b0b6573a855f\n\
              ann:r:3d78807defe7de2157e2b0b6573a855f\nann:r:4d78807defe7de2157e2b0b6573a855f\n\
              ann:r:zz78807defe7de2157e2b0b6573a855f\na:r:3d78807defe7de2157e2b0b6573a855f:x\n",
        )
        .expect("it is small");
        let messages: Vec<String> = users.mistakes().listed.iter().map(ToString::to_string).collect();
        let expected = [
            "line 1: a line has the form USER:REALM:HASH",
            "line 2: the hash is neither",
            "line 3: the name is empty",
            "line 5: the same name is on line 4",
            "line 6: the hash is neither",
            "line 7: a line has the form USER:REALM:HASH",
        ];
        assert_eq!(messages.len(), expected.len());
        for (message, expected) in messages.iter().zip(expected) {
            assert!(message.starts_with(expected) && !message.contains("hunter2"), "{message}");
        }
        assert_eq!(users.len(), 1);
        assert!(!format!("{users:?}").contains("3d78"));
    }
}
