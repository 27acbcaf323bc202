//! Giving up root: after the sockets are bound and the logs are open, before a byte of a peer is read.

use nix::unistd::{self, Group, User};
use site::model::Site;

/// Becomes the configured user and group. Errors: the reason, with what to do.
pub fn drop(site: &Site) -> Result<(), String> {
    let root = unistd::geteuid().is_root();
    let Some(name) = &site.user else {
        return match &site.group {
            Some(_) => Err("a group is configured without a user; add `user`".into()),
            None => Ok(()),
        };
    };
    let user = User::from_name(name)
        .ok()
        .flatten()
        .ok_or_else(|| format!("there is no user \"{name}\"; create it"))?;
    let group = match &site.group {
        Some(name) => {
            Group::from_name(name)
                .ok()
                .flatten()
                .ok_or_else(|| format!("there is no group \"{name}\"; create it"))?
                .gid
        }
        None => user.gid,
    };
    if !root {
        return if user.uid == unistd::geteuid() {
            Ok(())
        } else {
            Err(format!("only root can become user \"{name}\"; start as root, or remove `user`"))
        };
    }
    let c_name = std::ffi::CString::new(name.as_str()).map_err(|_| "a user name has no NUL".to_owned())?;
    let fail = |what: &'static str| move |e: nix::Error| format!("cannot {what}: {e}");
    unistd::initgroups(&c_name, group).map_err(fail("set the groups"))?;
    unistd::setgid(group).map_err(fail("set the group"))?;
    unistd::setuid(user.uid).map_err(fail("set the user"))?;
    match unistd::setuid(unistd::Uid::from_raw(0)) {
        Err(_) => Ok(()),
        Ok(()) if user.uid.is_root() => Ok(()),
        Ok(()) => Err("root could be had back after it was given up".into()),
    }
}
