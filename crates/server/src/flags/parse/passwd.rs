//! The flags and arguments of `passwd`.

use auth::digest_users::Algorithm;
use auth::hash::{Bounds, NewHash};

use super::line::{GivenFlag, Line};
use super::values::text;
use crate::flags::table::{BCRYPT_COST, Key, SHA_CRYPT_ROUNDS, Switch, Value};
use crate::flags::{Command, Passwd, PasswdKind, PasswdTask, PasswordFrom, UsageError};

impl Line {
    pub(super) fn passwd(&self) -> Result<Command, UsageError> {
        let is_task =
            |switch| matches!(switch, Switch::Create | Switch::Delete | Switch::Verify | Switch::Print);
        let task = self.only(is_task, "give one of -c, -D, -n and -v")?;
        let is_source = |switch| matches!(switch, Switch::Stdin | Switch::Batch);
        let source = self.only(is_source, "give -i or -b, not both")?;
        let mut arguments = self.arguments.iter();
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
        Ok(Command::Passwd(Passwd { user, task, password, kind: self.passwd_kind()? }))
    }

    fn passwd_kind(&self) -> Result<PasswdKind, UsageError> {
        let is_kind =
            |switch| matches!(switch, Switch::Hash(_) | Switch::Bcrypt | Switch::Sha512 | Switch::Sha256);
        let kind = self.only(is_kind, "give one kind of hash")?;
        let cost = self.number(Value::Cost, Bounds::COST)?;
        if cost.is_some() && kind != Some(Switch::Bcrypt) {
            return Err(UsageError("-C is for bcrypt; add -B".into()));
        }
        let rounds = self.number(Value::Rounds, Bounds::ROUNDS)?;
        if rounds.is_some() && !matches!(kind, Some(Switch::Sha512 | Switch::Sha256)) {
            return Err(UsageError("-r is for SHA-crypt; add -5 or -2".into()));
        }
        let rounds = rounds.unwrap_or(SHA_CRYPT_ROUNDS) as u32;
        Ok(match (self.value(Value::Digest, text)?, kind) {
            (Some(realm), None) => PasswdKind::Digest(realm, &[Algorithm::Sha256]),
            (Some(realm), Some(Switch::Hash(NewHash::Apr1))) => PasswdKind::Digest(realm, &Algorithm::ALL),
            (Some(_), Some(_)) => {
                return Err(UsageError("with --digest, only -m says which hash to write".into()));
            }
            (None, Some(Switch::Bcrypt)) => {
                PasswdKind::Hash(NewHash::Bcrypt { cost: cost.unwrap_or(BCRYPT_COST) as u32 })
            }
            (None, Some(Switch::Sha512)) => PasswdKind::Hash(NewHash::Sha512Crypt { rounds }),
            (None, Some(Switch::Sha256)) => PasswdKind::Hash(NewHash::Sha256Crypt { rounds }),
            (None, Some(Switch::Hash(kind))) => PasswdKind::Hash(kind),
            (None, _) => PasswdKind::Hash(NewHash::Argon2id),
        })
    }

    /// The only one of flags that exclude one another. Errors: there are several, and `otherwise` says so.
    fn only(&self, is_one: impl Fn(Switch) -> bool, otherwise: &str) -> Result<Option<Switch>, UsageError> {
        let switch = |flag: &GivenFlag| match flag.row.key {
            Key::Switch(switch) if is_one(switch) => Some(switch),
            _ => None,
        };
        let mut given = self.flags.iter().filter_map(switch);
        let first = given.next();
        match given.all(|other| Some(other) == first) {
            true => Ok(first),
            false => Err(UsageError(otherwise.to_owned())),
        }
    }
}
