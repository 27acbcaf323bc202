//! The flags and arguments of `passwd`.

use std::ffi::OsString;

use auth::digest_users::Algorithm;
use auth::hash::NewHash;

use super::values::text;
use crate::flags::table::{BCRYPT_COST, SHA_CRYPT_ROUNDS, Switch};
use crate::flags::{Passwd, PasswdKind, PasswdTask, PasswordFrom, UsageError};

/// The flags of `passwd`. Those that exclude one another are in a list.
#[derive(Default)]
pub(super) struct GivenPasswd {
    pub(super) tasks: Vec<Switch>,
    pub(super) sources: Vec<Switch>,
    pub(super) kinds: Vec<Switch>,
    pub(super) cost: Option<usize>,
    pub(super) rounds: Option<usize>,
    pub(super) realm: Option<String>,
}

impl GivenPasswd {
    pub(super) fn command(self, arguments: Vec<OsString>) -> Result<Passwd, UsageError> {
        let task = only(&self.tasks, "give one of -c, -D, -n and -v")?;
        let source = only(&self.sources, "give -i or -b, not both")?;
        let mut arguments = arguments.into_iter();
        let mut take = |what| {
            arguments
                .next()
                .ok_or_else(|| UsageError(format!("passwd needs {what}: taipan passwd FILE USER")))
        };
        let task = match task {
            Some(Switch::Print) => PasswdTask::Print,
            Some(Switch::Create) => PasswdTask::Create(take("a file")?.into()),
            Some(Switch::Delete) => PasswdTask::Delete(take("a file")?.into()),
            Some(Switch::Verify) => PasswdTask::Verify(take("a file")?.into()),
            _ => PasswdTask::Set(take("a file")?.into()),
        };
        let user = text(take("a user")?)?;
        let password = match source {
            Some(Switch::Stdin) => PasswordFrom::Stdin,
            Some(_) => PasswordFrom::Argument(text(take("a password behind the user, because of -b")?)?),
            None => PasswordFrom::Terminal,
        };
        if arguments.next().is_some() {
            let what = "passwd takes a file and a user; a password is the last argument with -b only";
            return Err(UsageError(what.into()));
        }
        Ok(Passwd { user, task, password, kind: self.kind()? })
    }

    fn kind(self) -> Result<PasswdKind, UsageError> {
        let kind = only(&self.kinds, "give one kind of hash")?;
        if self.cost.is_some() && kind != Some(Switch::Bcrypt) {
            return Err(UsageError("-C is for bcrypt; add -B".into()));
        }
        if self.rounds.is_some() && !matches!(kind, Some(Switch::Sha512 | Switch::Sha256)) {
            return Err(UsageError("-r is for SHA-crypt; add -5 or -2".into()));
        }
        let rounds = self.rounds.unwrap_or(SHA_CRYPT_ROUNDS) as u32;
        Ok(match (self.realm, kind) {
            (Some(realm), None) => PasswdKind::Digest(realm, &[Algorithm::Sha256]),
            (Some(realm), Some(Switch::Hash(NewHash::Apr1))) => PasswdKind::Digest(realm, &Algorithm::ALL),
            (Some(_), Some(_)) => {
                return Err(UsageError("with --digest, only -m says which hash to write".into()));
            }
            (None, Some(Switch::Bcrypt)) => {
                PasswdKind::Hash(NewHash::Bcrypt { cost: self.cost.unwrap_or(BCRYPT_COST) as u32 })
            }
            (None, Some(Switch::Sha512)) => PasswdKind::Hash(NewHash::Sha512Crypt { rounds }),
            (None, Some(Switch::Sha256)) => PasswdKind::Hash(NewHash::Sha256Crypt { rounds }),
            (None, Some(Switch::Hash(kind))) => PasswdKind::Hash(kind),
            (None, _) => PasswdKind::Hash(NewHash::Argon2id),
        })
    }
}

/// The only one of flags that exclude one another.
fn only(switches: &[Switch], otherwise: &str) -> Result<Option<Switch>, UsageError> {
    match switches {
        [first, rest @ ..] if rest.iter().any(|switch| switch != first) => {
            Err(UsageError(otherwise.to_owned()))
        }
        switches => Ok(switches.first().copied()),
    }
}
