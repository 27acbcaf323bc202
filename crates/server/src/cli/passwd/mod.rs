//! `taipan passwd`: writes and checks password files, with the flags and exit codes of Apache's htpasswd.
//!
//! Knows nothing of hashes: `auth` makes and reads them.

mod file;

mod prompt;

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use auth::digest_users::{DigestUsers, Ha1};
use auth::edit::{self, Done, EditError, Key};
use auth::hash::{Hash, MAX_PASSWORD, NewHash, PlainText};
use auth::mistake::{FileError, Mistakes};
use auth::users::Users;

use crate::flags::{Passwd, PasswdKind, PasswdTask, PasswordFrom};
use crate::{sys, terminal};
use file::Locked;

/// Why the command failed: what to tell the user, with the exit code of htpasswd.
#[derive(Debug)]
enum Failure {
    File(String),
    /// Two passwords differ.
    Mismatch(String),
    Interrupted,
    Password(String),
    User(String),
    Form(String),
}

/// Exits with 0, or with the code of a failure.
pub fn passwd(flags: &Passwd) -> ExitCode {
    match run(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::fail(&failure, failure.code()),
    }
}

fn run(flags: &Passwd) -> Result<(), Failure> {
    let key = match &flags.kind {
        PasswdKind::Hash(_) => Key::User(&flags.user),
        PasswdKind::Digest(realm, _) => Key::Digest { user: &flags.user, realm },
    };
    key.check().map_err(|error| match (&flags.kind, Key::User(&flags.user).check()) {
        (PasswdKind::Digest(realm, _), Ok(())) => Failure::User(format!("realm {realm:?}: {error}")),
        _ => Failure::User(format!("user {:?}: {error}", flags.user)),
    })?;
    match &flags.task {
        PasswdTask::Print => print(flags, key),
        PasswdTask::Create(path) => create(flags, key, path),
        PasswdTask::Set(path) => set(flags, key, path),
        PasswdTask::Delete(path) => delete(flags, key, path),
        PasswdTask::Verify(path) => verify(flags, path),
    }
}

fn print(flags: &Passwd, key: Key) -> Result<(), Failure> {
    let hashes = new_hashes(flags)?;
    let (lines, _) = edit::set(b"", key, &hashes).map_err(|error| of_edit(Path::new("-"), error))?;
    terminal::print(&String::from_utf8_lossy(&lines));
    Ok(())
}

fn create(flags: &Passwd, key: Key, path: &Path) -> Result<(), Failure> {
    let hashes = new_hashes(flags)?;
    let locked = Locked::open(path)?;
    let before = locked.read()?;
    let (lines, _) = edit::set(b"", key, &hashes).map_err(|error| of_edit(path, error))?;
    locked.write(&lines)?;
    let (path, user) = (path.display(), &flags.user);
    match before {
        None => tell(format_args!("{path}: created, with {user}")),
        Some(before) => {
            let lines = before.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
            tell(format_args!(
                "{path}: replaced, because of -c; it had {lines} lines, and has {user} alone now"
            ));
        }
    }
    Ok(())
}

fn set(flags: &Passwd, key: Key, path: &Path) -> Result<(), Failure> {
    // A mistake in the file is told before the user types a password.
    edit::remove(&existing(path)?, key).map_err(|error| of_edit(path, error))?;
    let hashes = new_hashes(flags)?;
    let locked = Locked::open(path)?;
    let before = locked.read()?.ok_or_else(|| missing(path))?;
    let (lines, done) = edit::set(&before, key, &hashes).map_err(|error| of_edit(path, error))?;
    locked.write(&lines)?;
    let what = if done == Done::Added { "added" } else { "changed the password of" };
    tell(format_args!("{}: {what} {}", path.display(), flags.user));
    Ok(())
}

fn delete(flags: &Passwd, key: Key, path: &Path) -> Result<(), Failure> {
    let locked = Locked::open(path)?;
    let before = locked.read()?.ok_or_else(|| missing(path))?;
    let (lines, done) = edit::remove(&before, key).map_err(|error| of_edit(path, error))?;
    if done == Done::Absent {
        tell(format_args!("{}: there is no {}", path.display(), flags.user));
        return Ok(());
    }
    locked.write(&lines)?;
    tell(format_args!("{}: removed {}", path.display(), flags.user));
    Ok(())
}

fn verify(flags: &Passwd, path: &Path) -> Result<(), Failure> {
    let (file, user) = (existing(path)?, &flags.user);
    let of_file = |error: FileError| Failure::Form(format!("{}: {error}", path.display()));
    let (is_right, is_known, mistakes) = match &flags.kind {
        PasswdKind::Hash(new) => {
            let plain = if *new == NewHash::Plain { PlainText::Accept } else { PlainText::Refuse };
            let users = Users::parse(&file, plain).map_err(of_file)?;
            let known = users.contains(user);
            let password = if known { password(flags)? } else { String::new() };
            (users.verify(user, password.as_bytes()), known, users.mistakes().clone())
        }
        PasswdKind::Digest(realm, _) => {
            let users = DigestUsers::parse(&file).map_err(of_file)?;
            let known = users.contains(realm, user);
            let password = if known { password(flags)? } else { String::new() };
            (users.verify(realm, user, password.as_bytes()), known, users.mistakes().clone())
        }
    };
    let path = path.display();
    match (is_right, is_known) {
        (true, _) => {
            tell(format_args!("{path}: the password of {user} is right"));
            Ok(())
        }
        (false, true) => Err(Failure::Mismatch(format!("{path}: the password of {user} is another one"))),
        (false, false) => {
            let mistakes = listed(&mistakes);
            Err(Failure::User(format!("{path}: there is no {user}{mistakes}")))
        }
    }
}

/// The user may be on one of these lines.
fn listed(mistakes: &Mistakes) -> String {
    mistakes.listed.first().map_or(String::new(), |first| {
        let more = mistakes.listed.len() - 1 + mistakes.more;
        let more = if more == 0 { String::new() } else { format!(" (and {more} more such lines)") };
        format!("; {first}{more}")
    })
}

/// The fields behind the user, one for each line.
fn new_hashes(flags: &Passwd) -> Result<Vec<String>, Failure> {
    let password = password(flags)?;
    match &flags.kind {
        PasswdKind::Hash(new) => Ok(vec![new_hash(*new, &password)?]),
        PasswdKind::Digest(realm, algorithms) => Ok(algorithms
            .iter()
            .map(|algorithm| Ha1::new(*algorithm, &flags.user, realm, password.as_bytes()))
            .map(|secret| secret.as_str().to_owned())
            .collect()),
    }
}

fn new_hash(new: NewHash, password: &str) -> Result<String, Failure> {
    if new.kind().is_weak() {
        let kind = new.kind().name();
        warn(format_args!(
            "from a stolen file with {kind}, most passwords are found quickly; leave the flag out for argon2id"
        ));
    }
    if password.len() > new.counted() {
        warn(format_args!("only the first {} bytes of the password count", new.counted()));
    }
    let mut salt = [0; 16];
    sys::random(&mut salt).map_err(|error| Failure::File(format!("there are no random bytes: {error}")))?;
    let no_memory = || Failure::File(format!("there is not enough memory for {}", new.kind().name()));
    let hash = new.write(password, &salt).ok_or_else(no_memory)?;
    // As plain text, some passwords read as something else.
    let is_field = !hash.contains(':') && hash.trim() == hash;
    let read = Hash::parse(hash.as_bytes(), PlainText::Accept);
    match read.is_ok_and(|read| is_field && read.kind() == new.kind()) {
        true => Ok(hash),
        false => Err(Failure::Password("this password cannot be written as plain text; leave out -p".into())),
    }
}

fn password(flags: &Passwd) -> Result<String, Failure> {
    let password = match (&flags.password, &flags.task) {
        (PasswordFrom::Terminal, PasswdTask::Verify(_)) => prompt::once(&flags.user)?,
        (PasswordFrom::Terminal, _) => prompt::twice(&flags.user)?,
        (PasswordFrom::Stdin, _) => first_line()?,
        (PasswordFrom::Argument(password), _) => {
            warn(format_args!("other users of this machine can see a password on a command line; use -i"));
            password.clone()
        }
    };
    checked(password)
}

/// What a client can send in credentials.
fn checked(password: String) -> Result<String, Failure> {
    let fault = match () {
        () if password.is_empty() => "it is empty".to_owned(),
        () if password.len() > MAX_PASSWORD => format!("it has more than {MAX_PASSWORD} bytes"),
        () if password.chars().any(char::is_control) => "it has a control character".to_owned(),
        () => return Ok(password),
    };
    Err(Failure::Password(format!("the password cannot be used: {fault}")))
}

/// The first line of standard input.
fn first_line() -> Result<String, Failure> {
    let mut input = Vec::new();
    // One byte more than is allowed, and the line end.
    let read = io::stdin().lock().take(MAX_PASSWORD as u64 + 3).read_to_end(&mut input);
    read.map_err(|error| Failure::File(format!("standard input: {error}")))?;
    let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec())
        .map_err(|_| Failure::Password("the password cannot be used: it is not UTF-8".into()))
}

fn existing(path: &Path) -> Result<Vec<u8>, Failure> {
    file::read(path)?.ok_or_else(|| missing(path))
}

fn missing(path: &Path) -> Failure {
    Failure::File(format!("{} does not exist; create it with -c", path.display()))
}

fn of_edit(path: &Path, error: EditError) -> Failure {
    let path = path.display();
    match error {
        EditError::Name(error) => Failure::User(error.to_string()),
        EditError::File(error) => Failure::Form(format!("{path}: {error}")),
        EditError::Form(line) => Failure::Form(format!(
            "{path}:{line}: this is no line of such a password file; nothing is changed"
        )),
    }
}

fn tell(text: fmt::Arguments) {
    terminal::err(format_args!("taipan: {text}"));
}

fn warn(text: fmt::Arguments) {
    terminal::err(format_args!("taipan: warning: {text}"));
}

impl Failure {
    const fn code(&self) -> u8 {
        match self {
            Self::File(_) => 1,
            Self::Mismatch(_) => 3,
            Self::Interrupted => 4,
            Self::Password(_) => 5,
            Self::User(_) => 6,
            Self::Form(_) => 7,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted; nothing is changed"),
            Self::File(text)
            | Self::Mismatch(text)
            | Self::Password(text)
            | Self::User(text)
            | Self::Form(text) => f.write_str(text),
        }
    }
}
