//! Folders in the homes of users (`/~name/`): from a name and the text of the passwd file to a path.

use std::path::{Component, Path, PathBuf};

use taipan_http::target::SafePath;

/// A folder in the home of each user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFolders {
    /// Below a home, such as `public_html`.
    pub folder: SafePath<'static>,
    /// The folders that contain homes. Others have none.
    pub homes: Vec<PathBuf>,
    /// The file with the accounts (passwd(5)).
    pub passwd: PathBuf,
    /// The least number of an account. System accounts have smaller ones.
    pub least_uid: u32,
    /// The users that have folders. Empty: all.
    pub only: Vec<String>,
    /// The users that have none.
    pub except: Vec<String>,
}

/// Where the home of a user is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home<'a> {
    /// One of `homes`.
    pub base: &'a Path,
    pub below: SafePath<'static>,
}

/// The file with the accounts, unless the configuration names another one.
pub const PASSWD: &str = "/etc/passwd";
const HOME: &str = "/home";
const LEAST_UID: u32 = 1000;
/// The account that others map unknown users to.
const NOBODY: u32 = 65534;
/// Bytes of a user's name.
const MAX_USER: usize = 32;
/// The programs of accounts that cannot log in.
const NO_SHELLS: [&str; 6] = ["nologin", "false", "true", "sync", "halt", "shutdown"];

impl UserFolders {
    /// Those of all people with a home in `/home`, with an empty folder.
    pub fn of_people() -> UserFolders {
        UserFolders {
            folder: SafePath::from_decoded("/").unwrap_or_else(|_| unreachable!("it is the root")),
            homes: vec![HOME.into()],
            passwd: PASSWD.into(),
            least_uid: LEAST_UID,
            only: Vec::new(),
            except: Vec::new(),
        }
    }

    /// The user in a path `~user/…`. `None`: there is none who may have a folder.
    pub fn user<'p>(&self, path: &'p SafePath<'_>) -> Option<&'p str> {
        let first = path.as_str().split('/').next()?;
        let user = first.strip_prefix('~')?;
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=MAX_USER).contains(&user.len())
            && user.bytes().all(is_of_name)
            && !user.starts_with(['-', '.']);
        let is_listed = |list: &[String]| list.iter().any(|other| other == user);
        let may = (self.only.is_empty() || is_listed(&self.only)) && !is_listed(&self.except);
        (is_name && may).then_some(user)
    }

    /// The home of a user in the text of the passwd file. `None`: there is no such account, or it is one of the system,
    /// or its home is elsewhere.
    pub fn home(&self, passwd: &[u8], user: &str) -> Option<Home<'_>> {
        let mut lines = passwd.split(|byte| *byte == b'\n');
        let line = lines.find(|line| {
            line.strip_prefix(user.as_bytes()).is_some_and(|rest| rest.first() == Some(&b':'))
        })?;
        let fields: Vec<&str> = std::str::from_utf8(line).ok()?.split(':').collect();
        let [_, _, uid, _, _, home, shell] = fields[..] else { return None };
        let uid: u32 = uid.parse().ok()?;
        let shell = shell.rsplit('/').next().unwrap_or(shell);
        if uid == 0 || uid == NOBODY || uid < self.least_uid || NO_SHELLS.contains(&shell) {
            return None;
        }
        let home = Path::new(home);
        self.homes.iter().find_map(|base| {
            let below = home.strip_prefix(base).ok()?.to_str()?;
            let is_plain =
                home.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
            let below = SafePath::from_decoded(&["/", below].concat()).ok()?;
            (is_plain && !below.as_str().is_empty()).then_some(Home { base, below })
        })
    }

    /// The users in the text of the passwd file that may have folders, and their homes.
    pub fn homes<'p>(&self, passwd: &'p [u8]) -> impl Iterator<Item = (&'p str, PathBuf)> {
        let names = passwd.split(|byte| *byte == b'\n').filter_map(|line| {
            let end = line.iter().position(|byte| *byte == b':')?;
            std::str::from_utf8(&line[..end]).ok()
        });
        names.filter_map(|name| {
            let path = SafePath::from_decoded(&["/~", name].concat()).ok()?;
            let home = self.home(passwd, self.user(&path)?)?;
            Some((name, home.below.beneath(home.base)))
        })
    }

    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.homes.iter_mut().chain([&mut self.passwd])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/bash\n\
        daemon:x:1:1::/home/daemon:/bin/sh\n\
        nobody:x:65534:65534::/home/nobody:/bin/sh\n\
        ann:x:1000:1000:Ann,,,:/home/ann:/bin/bash\n\
        anna:x:1001:1000::/data/homes/anna:\n\
        locked:x:1002:1000::/home/locked:/usr/sbin/nologin\n\
        other:x:1003:1000::/other/place:/bin/sh\n\
        all:x:1004:1000::/home:/bin/sh\n\
        up:x:1005:1000::/home/../etc:/bin/sh\n\
        short:x:1006:1000\n";

    fn users() -> UserFolders {
        UserFolders {
            folder: SafePath::from_decoded("/public_html").unwrap(),
            homes: vec!["/home".into(), "/data/homes".into()],
            passwd: PASSWD.into(),
            least_uid: 1000,
            only: Vec::new(),
            except: Vec::new(),
        }
    }

    #[test]
    fn only_people_have_folders() {
        let users = users();
        for (user, expected) in [
            ("ann", Some("/home ann")),
            ("anna", Some("/data/homes anna")),
            ("root", None),
            ("daemon", None),
            ("nobody", None),
            ("locked", None),
            ("other", None),
            ("all", None),
            ("up", None),
            ("short", None),
            ("an", None),
            ("missing", None),
        ] {
            let home = users.home(ACCOUNTS.as_bytes(), user);
            let home = home.map(|home| format!("{} {}", home.base.display(), home.below.as_str()));
            assert_eq!(home.as_deref(), expected, "{user}");
        }
        let homes: Vec<_> = users.homes(ACCOUNTS.as_bytes()).collect();
        assert_eq!(homes, [("ann", "/home/ann".into()), ("anna", "/data/homes/anna".into())]);
    }

    #[test]
    fn finds_the_user_of_a_path() {
        let mut users = users();
        let user =
            |users: &UserFolders, path: &str| users.user(&SafePath::parse(path).unwrap()).map(str::to_owned);
        for (path, expected) in [
            ("/~ann", Some("ann")),
            ("/~ann/", Some("ann")),
            ("/~ann/x/y", Some("ann")),
            ("/%7Eann/x", Some("ann")),
            ("/~", None),
            ("/~/x", None),
            ("/ann/", None),
            ("/x/~ann", None),
            ("/~a:b/", None),
            ("/~-x/", None),
            ("/~.x/", None),
            ("/~a%20b/", None),
        ] {
            assert_eq!(user(&users, path).as_deref(), expected, "{path}");
        }
        users.except = vec!["ann".to_owned()];
        assert_eq!((user(&users, "/~ann"), user(&users, "/~bob").as_deref()), (None, Some("bob")));
        users.only = vec!["ann".to_owned(), "carl".to_owned()];
        assert_eq!((user(&users, "/~ann"), user(&users, "/~bob")), (None, None));
        assert_eq!(user(&users, "/~carl").as_deref(), Some("carl"));
    }
}
