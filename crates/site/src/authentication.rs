//! Authentication by passwords: who may have the paths of a route, and how they say who they are.
//!
//! Knows nothing of requests: the caller has the user's name, and compares passwords on a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;

use auth::digest_users::DigestUsers;
use auth::groups::Groups;
use auth::hash::{Hash, HashError, PlainText};
use auth::users::Users;

use crate::access::Verdict;
use crate::publishing::is_own_name;

/// The name of a password file in a folder that is served.
pub const FOLDER_FILE: &str = ".htpasswd";
/// The field by which applications learn the user. A client's own is removed.
pub const USER_FIELD: &str = "Remote-User";
/// The default realm.
const REALM: &str = "Restricted";
/// Files of other servers that describe who may have what. They are never served, whatever `dotfiles` is.
const NEVER_SERVED: [&str; 6] = [".htpasswd", ".htaccess", ".htdigest", ".htgroup", ".htgroups", ".throttle"];

/// Whether a field of a password file is taken for a hash of crypt(3), be it damaged or too costly, and not for a
/// password.
pub fn is_crypt_hash(field: &str) -> bool {
    let is_known = |field: &str| {
        !matches!(
            Hash::parse(field.as_bytes(), PlainText::Refuse),
            Err(HashError::Unknown | HashError::TooLong)
        )
    };
    field.starts_with('$') && is_known(field)
}

/// The field of a password file for a password in plain text. One that looks like a hash, or like the mark of a locked
/// account, has the mark of a plain one.
pub fn plain_field(password: &str) -> String {
    let mark = if password.starts_with(['$', '{', '!', '*']) { "{PLAIN}" } else { "" };
    format!("{mark}{password}")
}

/// The settings of a route. Its files have been read.
#[derive(Debug, Clone)]
pub struct Authentication {
    pub scheme: Scheme,
    pub realm: String,
    pub user_files: Vec<PathBuf>,
    pub group_files: Vec<PathBuf>,
    /// For Basic: those of the configuration, then those of the files.
    pub users: Vec<Arc<Users>>,
    /// The same for Digest.
    pub digest_users: Vec<Arc<DigestUsers>>,
    pub groups: Vec<Arc<Groups>>,
    pub require: Vec<Require>,
    pub satisfy: Satisfy,
    pub plain: PlainText,
    pub folder: FolderPasswords,
}

/// How users identify themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// No user is asked for a password.
    Off,
    /// RFC 7617
    Basic,
    /// RFC 7616
    Digest,
}

/// A user needs to fit one of a list. Every known user fits an empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Require {
    AnyUser,
    User(String),
    Group(String),
}

/// How passwords and rules of access go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Satisfy {
    /// The rules must allow the request, and there must be a user.
    All,
    /// A rule that allows the request is enough, and so is a user.
    Any,
    /// There must be a user where a rule says so.
    Rules,
}

/// Whether folders have password files of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderPasswords {
    Off,
    /// For what is in the folder itself, as with thttpd.
    Folder,
    /// For the folders below, too, unless they have their own.
    Inherited,
}

/// What the rules and the settings of a route ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    Nothing,
    /// A password of the route, or of the folder.
    User,
    /// Only what the folder's own file asks for.
    FolderUser,
    Denied,
}

impl Default for Authentication {
    fn default() -> Authentication {
        Authentication {
            scheme: Scheme::Off,
            realm: REALM.to_owned(),
            user_files: Vec::new(),
            group_files: Vec::new(),
            users: Vec::new(),
            digest_users: Vec::new(),
            groups: Vec::new(),
            require: Vec::new(),
            satisfy: Satisfy::All,
            plain: PlainText::Refuse,
            folder: FolderPasswords::Off,
        }
    }
}

impl Authentication {
    /// Whether users are asked for a password.
    pub fn is_on(&self) -> bool {
        self.scheme != Scheme::Off
    }

    /// Whether the route has users of its own.
    pub fn has_users(&self) -> bool {
        !self.users.is_empty() || !self.digest_users.is_empty() || !self.user_files.is_empty()
    }

    pub fn demand(&self, verdict: Verdict<'_>) -> Demand {
        let asks = match (self.satisfy, verdict) {
            _ if !self.is_on() => return Demand::without_users(verdict),
            (Satisfy::All, Verdict::Deny(..)) | (Satisfy::Rules, Verdict::Deny(..)) => return Demand::Denied,
            (Satisfy::All, _) | (_, Verdict::Authenticate(_)) => true,
            (Satisfy::Any, Verdict::Allow(Some(_))) | (Satisfy::Rules, Verdict::Allow(_)) => false,
            (Satisfy::Any, Verdict::Allow(None) | Verdict::Deny(..)) => true,
        };
        match asks {
            false => Demand::Nothing,
            true if self.has_users() => Demand::User,
            true => Demand::FolderUser,
        }
    }

    /// Whether a user whose password is right may pass.
    pub fn permits(&self, user: &str) -> bool {
        let fits = |require: &Require| match require {
            Require::AnyUser => true,
            Require::User(name) => name == user,
            Require::Group(group) => self.groups.iter().any(|groups| groups.has(group, user)),
        };
        self.require.is_empty() || self.require.iter().any(fits)
    }

    /// Whether a user of Basic has this password. An unknown user costs what a known one costs. It may take a second.
    pub fn verify(&self, user: &str, password: &[u8]) -> bool {
        let own = self.users.iter().find(|users| users.contains(user));
        own.or(self.users.first()).is_some_and(|users| users.verify(user, password))
    }
}

impl Demand {
    fn without_users(verdict: Verdict<'_>) -> Demand {
        match verdict {
            Verdict::Allow(_) => Demand::Nothing,
            Verdict::Deny(..) | Verdict::Authenticate(_) => Demand::Denied,
        }
    }
}

/// Whether a segment of a path is never served.
pub fn is_never_served(segment: &str) -> bool {
    NEVER_SERVED.iter().any(|name| name.eq_ignore_ascii_case(segment)) || is_own_name(segment)
}

#[cfg(test)]
mod tests {
    use taipan_http::status::Status;

    use super::*;
    use crate::access::{Action, Rule};

    fn rule(action: Action) -> Rule {
        Rule { conditions: Vec::new(), action, place: String::new() }
    }

    #[test]
    fn passwords_and_rules_go_together_as_satisfy_says() {
        let mut users = Users::default();
        users.insert(1, b"ann", b"x", PlainText::Accept).expect("it is a user");
        let (allow, ask) = (rule(Action::Allow), rule(Action::Authenticate));
        let deny = rule(Action::Deny(Status::FORBIDDEN));
        let verdicts = [
            Verdict::Allow(None),
            Verdict::Allow(Some(&allow)),
            Verdict::Authenticate(&ask),
            Verdict::Deny(Status::FORBIDDEN, &deny),
        ];
        use Demand::{Denied, Nothing, User};
        for (scheme, satisfy, expected) in [
            (Scheme::Off, Satisfy::All, [Nothing, Nothing, Denied, Denied]),
            (Scheme::Basic, Satisfy::All, [User, User, User, Denied]),
            (Scheme::Basic, Satisfy::Any, [User, Nothing, User, User]),
            (Scheme::Digest, Satisfy::Rules, [Nothing, Nothing, User, Denied]),
        ] {
            let users = vec![Arc::new(users.clone())];
            let own = Authentication { scheme, satisfy, users, ..Authentication::default() };
            assert_eq!(verdicts.map(|verdict| own.demand(verdict)), expected, "{scheme:?} {satisfy:?}");
        }
    }

    #[test]
    fn users_fit_by_name_or_group() {
        let mut groups = Groups::default();
        groups.insert("staff", ["ann", "bob"]).expect("they fit");
        let own = |require: Vec<Require>| Authentication {
            require,
            groups: vec![Arc::new(groups.clone())],
            ..Authentication::default()
        };
        assert!(own(Vec::new()).permits("eve"));
        assert!(own(vec![Require::AnyUser]).permits("eve"));
        let some = own(vec![Require::User("carl".to_owned()), Require::Group("staff".to_owned())]);
        assert!(some.permits("ann") && some.permits("carl") && !some.permits("eve"));
        assert!(!own(vec![Require::Group("other".to_owned())]).permits("ann"));
    }
}
