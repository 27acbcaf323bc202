//! Write locks (RFC 4918 §6 and §7) of one folder and all beneath it, and the text in which they are stored.
//!
//! A path is one beneath that folder, without a slash at its ends: the folder itself is the empty path.

use std::sync::Arc;

use crate::lines;

/// Locks of one folder. A further one is refused.
pub const MAX_LOCKS: usize = 1000;
/// Locks of one user. Clients without a user count as one.
pub const MAX_OF_USER: usize = 250;
/// Locks on one resource, of its own and of the folders that it is in. Each is in every description of it.
pub const MAX_ON_RESOURCE: usize = 32;
/// Seconds of a lock. One that has longer was made when the clock was wrong.
pub const LONGEST: u64 = 7 * 24 * 3600;
/// Bytes of the element `owner` of a lock.
pub const MAX_OWNER: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Exclusive,
    Shared,
}

/// What a lock is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A file, or a folder and the names in it.
    Resource,
    /// And everything beneath it.
    Tree,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// A URL.
    pub token: String,
    pub path: String,
    pub extent: Extent,
    pub scope: Scope,
    /// The element `owner`, as the client has sent it.
    pub owner: String,
    /// The user who has it. Empty: anyone who knows the token.
    pub user: String,
    /// Seconds since 1970.
    pub expires: i64,
}

/// What a request does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Its content or its properties change.
    Content,
    /// Its name comes or goes, which changes the folder that it is in.
    Name,
    /// The same, with everything beneath it.
    Tree,
}

/// The tokens that a client has sent, and its user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    pub tokens: Vec<String>,
    pub user: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locks {
    /// Shared, so that a clone costs little.
    all: Vec<Arc<Lock>>,
}

impl Locks {
    /// All locks of a text, also those that have expired. What is not a lock is left out.
    pub fn parse(text: &str) -> Locks {
        Locks { all: lines::all(text).filter_map(Lock::parse).map(Arc::new).take(MAX_LOCKS).collect() }
    }

    /// The locks that have not expired.
    pub fn at(&self, now: i64) -> Locks {
        let lasts =
            |lock: &&Arc<Lock>| lock.expires > now && lock.expires <= now.saturating_add_unsigned(LONGEST);
        Locks { all: self.all.iter().filter(lasts).cloned().collect() }
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        self.all.iter().for_each(|lock| lock.write(&mut out));
        out
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether the limits allow a further lock.
    pub fn have_space_for(&self, new: &Lock) -> bool {
        let of_user = self.all.iter().filter(|lock| lock.user == new.user).count();
        let beneath = self.all.iter().filter(|lock| new.is_on(&lock.path)).map(|lock| lock.path.as_str());
        let has_space = |path| self.on(path).count() < MAX_ON_RESOURCE;
        self.all.len() < MAX_LOCKS
            && of_user < MAX_OF_USER
            && has_space(&new.path)
            && beneath.into_iter().all(has_space)
    }

    /// The locks that are on `path`, of its own or of a folder that it is in.
    pub fn on<'l>(&'l self, path: &str) -> impl Iterator<Item = &'l Lock> {
        self.iter().filter(move |lock| lock.is_on(path))
    }

    /// A lock on `path` that keeps another one from being added.
    pub fn conflict(&self, path: &str, scope: Scope) -> Option<&Lock> {
        self.on(path).find(|lock| lock.excludes(scope))
    }

    /// The locks beneath `path` that keep one on the whole tree from being added.
    pub fn conflicts_beneath<'l>(&'l self, path: &str, scope: Scope) -> impl Iterator<Item = &'l Lock> {
        self.iter().filter(move |lock| is_beneath(&lock.path, path) && lock.excludes(scope))
    }

    /// A lock that keeps `holder` from touching `path`.
    pub fn blocking(&self, path: &str, touch: Touch, holder: &Holder) -> Option<&Lock> {
        let mut paths = vec![path];
        if touch != Touch::Content
            && let Some(folder) = folder_of(path)
        {
            paths.push(folder);
        }
        if touch == Touch::Tree {
            paths.extend(self.all.iter().map(|lock| &*lock.path).filter(|own| is_beneath(own, path)));
        }
        paths.into_iter().find_map(|path| self.unheld(path, holder))
    }

    /// A lock on `path`, unless the holder has one of the locks on it: of several shared ones, one is enough.
    fn unheld(&self, path: &str, holder: &Holder) -> Option<&Lock> {
        match self.on(path).any(|lock| lock.is_of(holder)) {
            true => None,
            false => self.on(path).next(),
        }
    }

    pub fn add(&mut self, lock: Lock) {
        self.all.push(Arc::new(lock));
    }

    fn iter(&self) -> impl Iterator<Item = &Lock> {
        self.all.iter().map(|lock| &**lock)
    }

    /// The lock on `path` with one of the holder's tokens.
    pub fn held(&mut self, path: &str, holder: &Holder) -> Option<&mut Lock> {
        self.all.iter_mut().find(|lock| lock.is_on(path) && lock.is_of(holder)).map(Arc::make_mut)
    }

    pub fn remove(&mut self, token: &str) {
        self.all.retain(|lock| lock.token != token);
    }

    /// Removes the locks of `path` and beneath it: there is nothing any more. Whether there were any.
    pub fn remove_tree(&mut self, path: &str) -> bool {
        let before = self.all.len();
        self.all.retain(|lock| lock.path != path && !is_beneath(&lock.path, path));
        self.all.len() < before
    }
}

impl Lock {
    fn excludes(&self, other: Scope) -> bool {
        self.scope == Scope::Exclusive || other == Scope::Exclusive
    }

    pub fn is_on(&self, path: &str) -> bool {
        self.path == path || (self.extent == Extent::Tree && is_beneath(path, &self.path))
    }

    pub fn is_of(&self, holder: &Holder) -> bool {
        let is_of_user = self.user.is_empty() || self.user == holder.user;
        is_of_user && holder.tokens.contains(&self.token)
    }

    fn parse(line: &str) -> Option<Lock> {
        let [token, path, extent, scope, expires, user, owner] = lines::read(line)?;
        let extent = match extent.as_str() {
            "tree" => Extent::Tree,
            "resource" => Extent::Resource,
            _ => return None,
        };
        let scope = match scope.as_str() {
            "exclusive" => Scope::Exclusive,
            "shared" => Scope::Shared,
            _ => return None,
        };
        Some(Lock { token, path, extent, scope, owner, user, expires: expires.parse().ok()? })
    }

    fn write(&self, out: &mut String) {
        let Lock { token, path, extent, scope, owner, user, expires } = self;
        let extent = match extent {
            Extent::Tree => "tree",
            Extent::Resource => "resource",
        };
        let scope = match scope {
            Scope::Exclusive => "exclusive",
            Scope::Shared => "shared",
        };
        lines::write(&[token, path, extent, scope, &expires.to_string(), user, owner], out);
    }
}

/// Whether `path` lies in `folder`, at any depth.
pub fn is_beneath(path: &str, folder: &str) -> bool {
    match folder {
        "" => !path.is_empty(),
        folder => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
    }
}

/// The folder that a path is in. `None`: it is the outermost one.
pub fn folder_of(path: &str) -> Option<&str> {
    (!path.is_empty()).then(|| path.rfind('/').map_or("", |slash| &path[..slash]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &str, extent: Extent, scope: Scope) -> Lock {
        let token = format!("urn:{path}");
        Lock {
            token,
            path: path.to_owned(),
            extent,
            scope,
            owner: "<o>\t\n\\".into(),
            user: "ann".into(),
            expires: 100,
        }
    }

    fn holder(user: &str, tokens: &[&str]) -> Holder {
        Holder { user: user.to_owned(), tokens: tokens.iter().map(|token| (*token).to_owned()).collect() }
    }

    #[test]
    fn a_lock_blocks_requests_that_do_not_hold_it() {
        let mut locks = Locks::default();
        locks.add(lock("a/b", Extent::Resource, Scope::Exclusive));
        locks.add(lock("t", Extent::Tree, Scope::Exclusive));
        let without_tokens = Holder::default();
        for (path, touch, expected) in [
            ("a/b", Touch::Content, Some("a/b")),
            ("a/b/c", Touch::Content, None),
            ("a/b/c", Touch::Name, Some("a/b")),
            ("a/bc", Touch::Name, None),
            ("a", Touch::Name, None),
            ("a", Touch::Tree, Some("a/b")),
            ("", Touch::Tree, Some("a/b")),
            ("t/u/v", Touch::Content, Some("t")),
            ("t", Touch::Content, Some("t")),
            ("tu", Touch::Tree, None),
        ] {
            let found = locks.blocking(path, touch, &without_tokens).map(|lock| lock.path.as_str());
            assert_eq!(found, expected, "{path} {touch:?}");
        }
        assert_eq!(locks.blocking("a/b", Touch::Tree, &holder("ann", &["urn:a/b"])), None);
        assert!(locks.blocking("a/b", Touch::Tree, &holder("bob", &["urn:a/b"])).is_some(), "it is of ann");
        assert!(locks.blocking("", Touch::Tree, &holder("ann", &["urn:a/b"])).is_some(), "not of t");
    }

    #[test]
    fn locks_have_limits() {
        let mut locks = Locks::default();
        let of =
            |user: &str, path: &str, extent| Lock { user: user.into(), ..lock(path, extent, Scope::Shared) };
        for number in 0..MAX_OF_USER {
            assert!(locks.have_space_for(&of("ann", "x", Extent::Resource)));
            locks.add(of("ann", &format!("d/{number}"), Extent::Resource));
        }
        assert!(!locks.have_space_for(&of("ann", "x", Extent::Resource)), "of one user");
        assert!(locks.have_space_for(&of("bob", "x", Extent::Resource)));
        for number in 0..MAX_ON_RESOURCE {
            assert!(locks.have_space_for(&of("bob", "e", Extent::Tree)), "{number}");
            locks.add(of("bob", "e", Extent::Tree));
        }
        assert!(!locks.have_space_for(&of("cy", "e", Extent::Resource)), "on one resource");
        assert!(!locks.have_space_for(&of("cy", "e/f", Extent::Resource)), "it is in a folder with locks");
        assert!(!locks.have_space_for(&of("cy", "", Extent::Tree)), "what is beneath has locks");
        assert!(locks.have_space_for(&of("cy", "", Extent::Resource)));
        for number in 0..MAX_LOCKS {
            locks.add(of(&number.to_string(), &format!("f/{number}"), Extent::Resource));
        }
        assert!(!locks.have_space_for(&of("cy", "x", Extent::Resource)), "of the root");
    }

    #[test]
    fn shared_locks_exclude_exclusive_ones_only() {
        let mut locks = Locks::default();
        locks.add(lock("a/b", Extent::Resource, Scope::Shared));
        let conflict = |path, scope| locks.conflict(path, scope).is_some();
        assert!(!conflict("a/b", Scope::Shared));
        assert!(conflict("a/b", Scope::Exclusive));
        assert!(!conflict("a", Scope::Exclusive));
        let beneath = |path, scope| locks.conflicts_beneath(path, scope).count();
        assert_eq!(beneath("a", Scope::Exclusive), 1);
        assert_eq!(beneath("a", Scope::Shared), 0);
        assert_eq!(beneath("a/b", Scope::Exclusive), 0);
        let mut both = locks.clone();
        both.add(Lock {
            token: "urn:2".into(),
            user: "bob".into(),
            ..lock("a/b", Extent::Resource, Scope::Shared)
        });
        assert_eq!(both.blocking("a/b", Touch::Content, &holder("bob", &["urn:2"])), None, "one is enough");
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        let mut locks = Locks::default();
        locks.add(lock("a\tb", Extent::Tree, Scope::Shared));
        locks.add(lock("", Extent::Resource, Scope::Exclusive));
        let again = Locks::parse(&locks.text());
        assert_eq!((&again, &again.at(99)), (&locks, &locks));
        assert!(again.at(100).is_empty(), "they have expired");
        assert!(again.at(99 - LONGEST as i64).is_empty(), "the clock was set back");
        assert_eq!(Locks::parse(&format!("half a li\n{}x", locks.text())), locks);
    }

    #[test]
    fn removes_the_locks_of_a_tree() {
        let mut locks = Locks::default();
        for path in ["a", "a/b", "ab"] {
            locks.add(lock(path, Extent::Resource, Scope::Shared));
        }
        assert!(locks.remove_tree("a"));
        assert!(!locks.remove_tree("a"));
        assert_eq!(locks.all.len(), 1);
        assert!(locks.held("ab", &holder("ann", &["urn:ab"])).is_some());
        locks.remove("urn:ab");
        assert!(locks.is_empty());
    }
}
