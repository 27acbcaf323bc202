//! Giving up root. It happens after the sockets are bound and the logs are open, and before the process reads a byte
//! from a client. Names are looked up first, because a chroot may contain no /etc/passwd; then comes the chroot, and
//! then the change of user.

mod chroot;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{self, Gid, Group, Uid, User};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, no_new_privs, set_keep_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use site::model::{Account, NewPrivileges, Route, Site};
use site::upstream::Upstream;

pub use chroot::{advice_on_writing, chroot, chroot_problem, group_text, shown, user_text};

use crate::process::{forked, sandbox};

/// The account that the packages create for this program.
const ACCOUNT: &str = "taipan";
pub const NOBODY: &str = "nobody";
/// To change the user and the groups, and to signal processes of other users.
const FOR_OTHER_ACCOUNTS: CapabilitySet =
    CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::KILL);
const NOBODYS_NUMBER: &str = "65534";
const ROOT: &str = "root";
const NO_OTHER_ACCOUNT: &str = "; this container or user namespace does not let root become another account: give it more \
                                numbers of users and groups (newuidmap(1)), or let root serve with `user = \"root\"` \
                                (--user root)";

/// The user and groups that a process changes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub user: Uid,
    pub group: Gid,
    /// All groups of the user, including `group`.
    groups: Vec<Gid>,
}

impl Identity {
    /// The configured identity. `None`: the process keeps its own, which is not root. Root serves as root only if the
    /// site names root as its user. Errors: the reason, with what to do.
    pub fn of(site: &Site) -> Result<Option<Identity>, String> {
        Identity::find(site.user.as_deref(), site.group.as_deref(), unistd::geteuid())
    }

    /// The identity of an account that runs scripts. `None`: this process already has it. Errors: as of `of`.
    pub fn of_account(account: &Account) -> Result<Option<Identity>, String> {
        Identity::find(Some(&account.user), account.group.as_deref(), unistd::geteuid())
    }

    fn find(user: Option<&str>, group: Option<&str>, own: Uid) -> Result<Option<Identity>, String> {
        let look_up = || identity(user, group, own);
        // A child process looks up: the system's libraries for names would stay in memory.
        look_up_in_child(look_up).unwrap_or_else(|_| look_up())
    }

    fn text(&self) -> String {
        let groups = self.groups.iter().map(|group| format!(" {group}"));
        format!("{} {}{}", self.user, self.group, groups.collect::<String>())
    }

    fn parse(text: &str) -> Option<Identity> {
        let mut ids = text.split(' ').map(|id| id.parse::<u32>().ok());
        let (user, group) = (Uid::from_raw(ids.next()??), Gid::from_raw(ids.next()??));
        Some(Identity { user, group, groups: ids.map(|id| id.map(Gid::from_raw)).collect::<Option<_>>()? })
    }

    /// Changes the process to this identity, irrevocably. Programs that it executes gain no capability. Errors: the
    /// step that failed.
    pub fn assume(&self) -> Result<(), String> {
        // It could not be done later: only root may.
        sandbox::empty_bounding_set();
        self.assume_keeping(CapabilitySet::empty())
    }

    /// Like `assume`, but keeps these capabilities, which programs do not inherit, and leaves it to the caller what
    /// programs may gain. Errors: the step that failed.
    pub fn assume_keeping(&self, kept: CapabilitySet) -> Result<(), String> {
        if kept.is_empty() {
            self.change()?;
            return match unistd::setuid(Uid::from_raw(0)) {
                Ok(()) if !self.user.is_root() => Err("root could be regained after it was given up".into()),
                _ => Ok(()),
            };
        }
        let fail = |e: Errno| {
            format!(
                "cannot keep the capabilities to start scripts as other accounts (CAP_SETUID, CAP_SETGID, CAP_KILL): \
                 {e}"
            )
        };
        // A child keeps them, too, until it executes a program. As long as it has more capabilities than a process of
        // that user, such a process can neither trace it nor read its memory.
        set_keep_capabilities(true).map_err(fail)?;
        self.change()?;
        sandbox::hold_only(kept).map_err(fail)
    }

    fn change(&self) -> Result<(), String> {
        let fail = |what: &'static str| {
            move |e: nix::Error| match e {
                // Without the capability, or without a number for the account in this user namespace.
                nix::Error::EPERM | nix::Error::EINVAL => format!("cannot {what}: {e}{NO_OTHER_ACCOUNT}"),
                _ => format!("cannot {what}: {e}"),
            }
        };
        match unistd::setgroups(&self.groups) {
            // A user namespace may keep its groups (user_namespaces(7), setgroups).
            Err(nix::Error::EPERM) if self.is_present() => {}
            set => set.map_err(fail("set the groups"))?,
        }
        unistd::setgid(self.group).map_err(fail("set the group"))?;
        unistd::setuid(self.user).map_err(fail("set the user"))
    }

    /// Whether this process has the user and the group already.
    fn is_present(&self) -> bool {
        (unistd::geteuid(), unistd::getegid()) == (self.user, self.group)
    }

    /// In the form that the kernel takes for a single thread.
    pub fn credentials(&self) -> Credentials {
        let gid = |gid: &Gid| rustix::fs::Gid::from_raw(gid.as_raw());
        Credentials {
            user: rustix::fs::Uid::from_raw(self.user.as_raw()),
            group: gid(&self.group),
            groups: self.groups.iter().map(gid).collect(),
        }
    }
}

/// An identity for a process that is about to execute a program (credentials(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    user: rustix::fs::Uid,
    group: rustix::fs::Gid,
    groups: Vec<rustix::fs::Gid>,
}

impl Credentials {
    /// Assumes the identity, without any capability, between vfork and exec. The process shares the memory of its
    /// parent: this function allocates nothing, takes no lock, and changes no other thread. Errors: of the first call
    /// that failed; the process must then not execute the program.
    pub fn assume(&self) -> rustix::io::Result<()> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.group, self.group, self.group)?;
        set_thread_res_uid(self.user, self.user, self.user)?;
        // The change of user has set it to `fs.suid_dumpable`, for the memory that both processes share.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        sandbox::drop_capabilities()
    }
}

/// The user of an account, for `taipan check`, which another user may run than the one that starts the server. Errors:
/// why there is none, with what to do.
pub fn user_of(account: &Account) -> Result<Uid, String> {
    let found = Identity::find(Some(&account.user), account.group.as_deref(), Uid::from_raw(0))?;
    found.map(|identity| identity.user).ok_or_else(|| format!("there is no user \"{}\"", account.user))
}

/// The identities of the processes and the scripts of a site. `None`: this process already has it.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// Of the serving process.
    pub own: Option<Identity>,
    /// The accounts that routes name for their scripts, each once.
    pub scripts: Vec<(Account, Option<Identity>)>,
    /// The accounts that applications name for their processes.
    applications: Vec<(Account, Option<Identity>)>,
}

impl Accounts {
    /// Errors: the reason, with what to do.
    pub fn of(site: &Site) -> Result<Accounts, String> {
        let named: BTreeMap<&Account, &Route> = site
            .program_routes()
            .filter_map(|(route, script)| Some((script.account.as_ref()?, route)))
            .collect();
        let find = |account: &Account, what: String| match Identity::of_account(account) {
            Ok(identity) => Ok((account.clone(), identity)),
            Err(why) => Err(format!("{what}: {why}")),
        };
        let of_scripts = |(account, route): (&Account, &Route)| {
            find(account, format!("scripts of the route {}", route.name()))
        };
        let of_application = |upstream: &Upstream| {
            let account = upstream.managed()?.account.as_ref()?;
            Some(find(account, upstream.label()))
        };
        let accounts = Accounts {
            own: Identity::of(site)?,
            scripts: named.into_iter().map(of_scripts).collect::<Result<_, _>>()?,
            applications: site.upstreams.iter().filter_map(of_application).collect::<Result<_, _>>()?,
        };
        match sandbox::held().contains(accounts.capabilities()) {
            true => Ok(accounts),
            false => {
                Err("starting scripts as other accounts needs CAP_SETUID, CAP_SETGID and CAP_KILL, which \
                          this system withholds; allow them, or remove `user` from routes and [scripts]"
                    .into())
            }
        }
    }

    /// The identity of the processes of an application.
    pub fn of_application(&self, application: &Upstream) -> Option<&Identity> {
        match application.managed().and_then(|managed| managed.account.as_ref()) {
            None => self.own.as_ref(),
            Some(account) => self.applications.iter().find(|(name, _)| name == account)?.1.as_ref(),
        }
    }

    /// The capabilities that starting and ending the scripts needs: none if all of them have the server's own account.
    pub fn capabilities(&self) -> CapabilitySet {
        match self.scripts.iter().any(|(_, other)| *other != self.own) {
            true => FOR_OTHER_ACCOUNTS,
            false => CapabilitySet::empty(),
        }
    }
}

/// A warning if programs cannot gain the privileges that the site lets them gain, because this process cannot either.
pub fn withheld_from_programs(site: &Site) -> Option<String> {
    let gains = |own: NewPrivileges| own == NewPrivileges::AsUsual;
    let of_scripts = site.has_scripts() && gains(site.scripts.new_privileges);
    let managed = || site.upstreams.iter().filter_map(Upstream::managed);
    let is_wanted = of_scripts || managed().any(|managed| gains(managed.new_privileges));
    (is_wanted && no_new_privs().unwrap_or(false)).then(|| {
        "no program gains privileges, although `new_privileges` is set: taipan was started without the ability to give \
         them; write NoNewPrivileges=no in its systemd unit, or start its container without no-new-privileges"
            .to_owned()
    })
}

/// Runs `look_up` in a child process. Errors: no child could be started.
fn look_up_in_child(
    look_up: impl FnOnce() -> Result<Option<Identity>, String>,
) -> io::Result<Result<Option<Identity>, String>> {
    const FAILED: char = '!';
    let (process, text) = forked::answer(|| match look_up() {
        Ok(identity) => identity.map_or(String::new(), |identity| identity.text()),
        Err(why) => format!("{FAILED}{why}"),
    })?;
    match (waitpid(process, None)?, text.strip_prefix(FAILED)) {
        (_, Some(why)) => Ok(Err(why.to_owned())),
        (WaitStatus::Exited(_, 0), None) if text.is_empty() => Ok(Ok(None)),
        (WaitStatus::Exited(_, 0), None) => {
            let identity = Identity::parse(&text).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Ok(Some(identity)))
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The account to serve as if root starts the program and the site names no user. `None`: it does not exist.
pub fn own_account() -> Option<&'static str> {
    has_account(ACCOUNT).then_some(ACCOUNT)
}

fn has_account(name: &str) -> bool {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    accounts.lines().any(|line| line.split(':').next() == Some(name))
}

/// User and group, by name or number, for a folder that root serves if `own_account` does not exist. Other programs may
/// run as the same user, and could signal this one.
pub fn nobody() -> (String, Option<String>) {
    match has_account(NOBODY) {
        true => (NOBODY.to_owned(), None),
        // There may be no accounts at all, as in a container that contains only this program.
        false => (NOBODYS_NUMBER.to_owned(), Some(NOBODYS_NUMBER.to_owned())),
    }
}

fn identity(user: Option<&str>, group: Option<&str>, own: Uid) -> Result<Option<Identity>, String> {
    let Some(name) = user else {
        return match group {
            Some(_) => Err("a group is configured without a user; add `user`".into()),
            None if own.is_root() => Err(
                "refusing to serve as root: set `user` to the account to serve as, or create the account \
                 `taipan`, or set `user = \"root\"` to override"
                    .into(),
            ),
            None => Ok(None),
        };
    };
    let account = User::from_name(name).ok().flatten();
    let account = account.or_else(|| User::from_uid(Uid::from_raw(number(name)?)).ok().flatten());
    let user = account.as_ref().map(|account| account.uid);
    let user = user.or_else(|| number(name).or_else(|| usual_number(name)).map(Uid::from_raw));
    let user = user.ok_or_else(|| format!("there is no user \"{name}\"; create it"))?;
    let group = match (group, &account) {
        (Some(name), _) => group_of(name)?,
        (None, Some(account)) => account.gid,
        (None, None) if user.is_root() => Gid::from_raw(0),
        // The group of nobody has the same number.
        (None, None) if number(name).is_none() => Gid::from_raw(user.as_raw()),
        (None, None) => {
            return Err(format!("user {name} has no account, so its group is not known; add `group`"));
        }
    };
    match own {
        own if own.is_root() => {}
        own if own == user => return Ok(None),
        _ => return Err(format!("only root can become user \"{name}\"; start as root, or remove `user`")),
    }
    let groups = account.map_or_else(|| Ok(vec![group]), |account| groups(&account, group))?;
    Ok(Some(Identity { user, group, groups }))
}

fn group_of(name: &str) -> Result<Gid, String> {
    let group = Group::from_name(name).ok().flatten().map(|group| group.gid);
    let number_of_root = || usual_number(name).filter(|_| name == ROOT);
    let group = group.or_else(|| number(name).or_else(number_of_root).map(Gid::from_raw));
    group.ok_or_else(|| format!("there is no group \"{name}\"; create it"))
}

/// The number of a user on any Linux. There may be no accounts at all, as on a device or in a container that contains
/// only this program.
fn usual_number(name: &str) -> Option<u32> {
    match name {
        ROOT => Some(0),
        NOBODY => number(NOBODYS_NUMBER),
        _ => None,
    }
}

/// An id that is written as a number. The kernel takes the largest number as "no change", so it is no id.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|id| digits && *id != u32::MAX)
}

fn groups(account: &User, group: Gid) -> Result<Vec<Gid>, String> {
    let name = CString::new(account.name.as_str())
        .map_err(|_| "a user name cannot contain a NUL byte".to_owned())?;
    unistd::getgrouplist(&name, group)
        .map_err(|e| format!("cannot look up the groups of user \"{}\": {e}", account.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Uid = Uid::from_raw(0);
    const OTHER: Uid = Uid::from_raw(4_000_000_001);

    #[test]
    fn root_serves_only_as_a_named_user() {
        type Case = (Option<&'static str>, Option<&'static str>, Uid, Become);
        type Become = Result<Option<(u32, u32)>, &'static str>;
        let cases: &[Case] = &[
            // A user that is not root keeps its identity.
            (None, None, OTHER, Ok(None)),
            (Some("4000000001"), Some("5"), OTHER, Ok(None)),
            (Some("root"), None, OTHER, Err("only root can become user \"root\"; start as root")),
            (Some("4000000002"), Some("5"), OTHER, Err("only root can become user \"4000000002\"")),
            // Root changes to a named user or number.
            (
                None,
                None,
                ROOT,
                Err("refusing to serve as root: set `user` to the account to serve as, or create"),
            ),
            (Some("root"), None, ROOT, Ok(Some((0, 0)))),
            (Some("0"), None, ROOT, Ok(Some((0, 0)))),
            (Some("root"), Some("7000"), ROOT, Ok(Some((0, 7000)))),
            (Some("4000000001"), Some("4000000002"), ROOT, Ok(Some((4_000_000_001, 4_000_000_002)))),
            (Some("4000000001"), Some("root"), ROOT, Ok(Some((4_000_000_001, 0)))),
            // Names and numbers that are no user or group.
            (None, Some("root"), ROOT, Err("add `user`")),
            (None, Some("root"), OTHER, Err("add `user`")),
            (Some("4000000001"), None, ROOT, Err("add `group`")),
            (Some("no-such-user"), None, ROOT, Err("no user \"no-such-user\"; create it")),
            (Some("nobody"), Some("7000"), ROOT, Ok(Some((65534, 7000)))),
            (Some("root"), Some("no-such-group"), ROOT, Err("no group \"no-such-group\"; create it")),
            (Some(""), None, ROOT, Err("no user \"\"")),
            (Some("+5"), Some("5"), ROOT, Err("no user \"+5\"")),
            (Some("-1"), Some("5"), ROOT, Err("no user \"-1\"")),
            (Some("4294967295"), Some("5"), ROOT, Err("no user \"4294967295\"")),
            (Some("4294967296"), Some("5"), ROOT, Err("no user \"4294967296\"")),
            (Some("root"), Some("4294967295"), ROOT, Err("no group \"4294967295\"")),
            (Some("ro\0ot"), None, ROOT, Err("no user")),
        ];
        for (user, group, own, expected) in cases {
            let found = identity(*user, *group, *own);
            let found = found.map(|found| found.map(|id| (id.user.as_raw(), id.group.as_raw())));
            match (&found, expected) {
                (Err(text), Err(part)) => assert!(text.contains(part), "{user:?} {group:?}: {text}"),
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{user:?} {group:?}"),
                _ => panic!("{user:?} {group:?} as {own}: {found:?}, and not {expected:?}"),
            }
        }
    }

    #[test]
    fn an_identity_survives_its_text_form() {
        for (user, group) in [("root", None), ("4000000001", Some("7001"))] {
            let identity = identity(Some(user), group, ROOT).unwrap();
            assert_eq!(Identity::parse(&identity.as_ref().unwrap().text()), identity);
        }
        for text in ["", "0", "0 x", "0 0 ", "0 -1"] {
            assert_eq!(Identity::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_groups_of_an_identity_include_a_named_group() {
        for (user, group) in [("root", "7000"), ("4000000001", "7001")] {
            let identity = identity(Some(user), Some(group), ROOT).unwrap().unwrap();
            assert!(identity.groups.contains(&identity.group), "{user} {group}");
        }
    }
}
