//! Giving up root: after the sockets are bound and the logs are open, before a byte of a peer is read.

use std::ffi::CString;

use nix::unistd::{self, Gid, Group, Uid, User};
use site::model::Site;

/// Whom the process becomes.
pub struct Identity {
    name: CString,
    pub user: Uid,
    pub group: Gid,
}

impl Identity {
    /// The configured one; `None`: the process stays who it is. Errors: the reason, with what to do.
    pub fn of(site: &Site) -> Result<Option<Identity>, String> {
        let Some(name) = &site.user else {
            return match &site.group {
                Some(_) => Err("a group is configured without a user; add `user`".into()),
                None => Ok(None),
            };
        };
        let user = User::from_name(name).ok().flatten();
        let user = user.ok_or_else(|| format!("there is no user \"{name}\"; create it"))?;
        let group = match &site.group {
            Some(name) => {
                let group = Group::from_name(name).ok().flatten();
                group.ok_or_else(|| format!("there is no group \"{name}\"; create it"))?.gid
            }
            None => user.gid,
        };
        match unistd::geteuid() {
            own if own.is_root() => {}
            own if own == user.uid => return Ok(None),
            _ => {
                return Err(format!("only root can become user \"{name}\"; start as root, or remove `user`"));
            }
        }
        let name = CString::new(name.as_str()).map_err(|_| "a user name has no NUL".to_owned())?;
        Ok(Some(Identity { name, user: user.uid, group }))
    }

    /// For good. Errors: what could not be done.
    pub fn become_it(&self) -> Result<(), String> {
        let fail = |what: &'static str| move |e: nix::Error| format!("cannot {what}: {e}");
        unistd::initgroups(&self.name, self.group).map_err(fail("set the groups"))?;
        unistd::setgid(self.group).map_err(fail("set the group"))?;
        unistd::setuid(self.user).map_err(fail("set the user"))?;
        match unistd::setuid(Uid::from_raw(0)) {
            Ok(()) if !self.user.is_root() => Err("root could be had back after it was given up".into()),
            _ => Ok(()),
        }
    }
}
