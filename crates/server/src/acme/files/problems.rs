//! What would prevent orders, for `taipan check`, and for a start or a reload that has failed. Changes nothing.

use std::path::Path;

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use rustix::io::Errno;
use site::model::Site;

use super::{
    ACCOUNT_KEY, ca_file, file_name, folder_of, pem, read_binding, read_roots, stored_account_key, unreadable,
};
use crate::acme::storage::Storage;
use crate::acme::stored;
use crate::finding::Finding;

pub fn problems(site: &Site) -> Vec<Finding> {
    let settings = &site.certificates;
    if !site.hosts.iter().any(|host| host.tls.acme) {
        return Vec::new();
    }
    let mut found = match folder_of(settings) {
        Ok(folder) => problems_of_folder(site, &folder),
        Err(why) => vec![Finding::error(&["folder"], Path::new(""), why)],
    };
    if let Err(why) = ca_file(settings).and_then(|path| read_roots(&path)) {
        found.push(Finding::error(&["ca"], settings.ca.as_deref().unwrap_or(Path::new("")), why));
    }
    if let (Err(why), Some(account)) = (read_binding(settings), &settings.external_account) {
        found.push(Finding::error(&["eab_key_file"], &account.key_file, why));
    }
    if let Some(program) = settings.dns_command.first()
        && let Err(error) = access(program.as_str(), Access::EXEC_OK)
    {
        let text = format!("the dns_command {program} cannot be executed ({error}); install it");
        found.push(Finding::error(&["dns_command"], Path::new(program), text));
    }
    found
}

fn problems_of_folder(site: &Site, folder: &Path) -> Vec<Finding> {
    let error = |text: String| Finding::error(&["folder"], folder, text);
    let shown = folder.display();
    if !folder.exists() {
        // The start creates it.
        let parent = folder.ancestors().find(|parent| parent.exists()).unwrap_or(folder);
        let why = unwritable(parent);
        let why = why.map(|why| format!("cannot create the folder of certificates, {shown}: {why}; make it"));
        return why.into_iter().map(error).collect();
    }
    let storage = match Storage::existing(folder) {
        Ok(storage) => storage,
        Err(why) => {
            return vec![error(format!("cannot open the folder of certificates, {shown}: {why}"))];
        }
    };
    let hosts = site.hosts.iter().filter(|host| host.tls.acme);
    let names: Vec<String> = hosts.map(|host| pem(&file_name(&host.names))).collect();
    let account = stored_account_key(&storage).err().map(|failure| error(failure.text));
    let mut found: Vec<Finding> =
        names.iter().filter_map(|name| problem_of_stored(&storage, name)).chain(account).collect();
    if let Some(why) = unwritable(folder) {
        let text = format!(
            "the folder of certificates, {shown}, cannot be written ({why}), so that no certificate is ordered; chmod \
             700 {shown}"
        );
        // A start makes what is missing.
        let is_complete =
            names.iter().map(String::as_str).chain([ACCOUNT_KEY]).all(|name| folder.join(name).exists());
        let finding = if is_complete { Finding::warning } else { Finding::error };
        found.push(finding(&["folder"], folder, text));
    }
    found.extend(unwritable_disk(folder));
    found
}

/// What is wrong with a stored certificate.
fn problem_of_stored(storage: &Storage, name: &str) -> Option<Finding> {
    let folder = storage.path();
    match storage.read(name) {
        Err(e) => Some(Finding::error(&["folder"], folder, unreadable(storage, name, &e))),
        Ok(text) => {
            let why = stored::certified(&text?).err()?;
            let text = format!(
                "cannot use {}: {why}; restore it, or a start replaces it by one that no client trusts",
                folder.join(name).display()
            );
            Some(Finding::warning(&["folder"], folder, text))
        }
    }
}

/// Why this program cannot make files in a folder. `None`: it can, or its disk is at fault.
fn unwritable(folder: &Path) -> Option<Errno> {
    if !folder.is_dir() {
        return Some(Errno::NOTDIR);
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).err().filter(|errno| *errno != Errno::ROFS)
}

/// A warning if the disk of the folder takes nothing.
fn unwritable_disk(folder: &Path) -> Option<Finding> {
    let disk = statvfs(folder).ok()?;
    let what = match disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        true => "read-only",
        false if disk.f_bavail == 0 => "full",
        false => return None,
    };
    let text = format!(
        "the disk of the folder of certificates, {}, is {what}, so that no certificate is ordered; until it takes \
         files, a certificate that the server has made itself is served where there is no other",
        folder.display()
    );
    Some(Finding::warning(&["folder"], folder, text))
}
