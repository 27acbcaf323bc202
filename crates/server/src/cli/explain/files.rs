//! What is found in folders.

use std::path::Path;

use site::folder::{FolderName, HostFolder};
use site::includes::Includes;
use site::model::{Interpreter, Listing, Route};
use site::plan::{FilesPlan, PlannedRoot};
use site::route::RouteId;
use taipan_http::target::SafePath;

use super::plan::Responding;
use super::{Explanation, row};
use crate::config;
use crate::files::beneath::{OpenError, Root, Wait};
use crate::files::folders::{FolderOf, Wanted};
use crate::files::lookup::{Found, Lookup, Query};
use crate::files::roots::Roots;

impl Explanation<'_> {
    /// The root of planned files. Prints which folder a name leads to. `None`: there is none.
    pub(super) fn root(&self, planned: &FilesPlan<'_, '_>) -> Option<Root> {
        let (files, now, symlinks) =
            (&self.responder.files, self.responder.services.clock.now(), planned.rules.symlinks);
        let users = self.host.users.as_ref();
        let (name, wanted) = match planned.root {
            PlannedRoot::Path(path) => return Roots::get(files, path, now).ok(),
            PlannedRoot::OfHost(folder) => match self.host_folder(folder) {
                Some(found) => found,
                None => {
                    print_no_folder(folder);
                    return None;
                }
            },
            PlannedRoot::OfUser(_) => match users.zip(users?.user(&planned.path)) {
                Some((users, user)) => (
                    format!("the user {user}"),
                    files
                        .wanted_folder(self.host_index.into(), FolderOf::User(users, user), symlinks, now)
                        .ok()?,
                ),
                None => {
                    row("folder", format_args!("none: no user with a folder has this name"));
                    return None;
                }
            },
        };
        match wanted.open() {
            Ok((root, _)) => {
                row("folder", format_args!("{}, of {name}", root.path.display()));
                Some(root)
            }
            Err(_) => {
                row("folder", format_args!("{name} has none that can be opened"));
                None
            }
        }
    }

    /// The folder of the requested name or of the default one, and what it is of. `None`: there is none.
    pub(super) fn host_folder(&self, folder: &HostFolder) -> Option<(String, Wanted)> {
        let (files, now) = (&self.responder.files, self.responder.services.clock.now());
        let symlinks = self.host.routes.get(RouteId::DEFAULT).files.symlinks;
        let open = |name: FolderName<'_>| {
            let wanted = files
                .wanted_folder(self.host_index.into(), FolderOf::Host(folder, &name), symlinks, now)
                .ok()?;
            wanted.open().ok()?;
            Some((format!("the name {}", name.key()), wanted))
        };
        folder.names(self.head.authority, self.to.map(|to| to.ip())).find_map(open)
    }

    /// Prints what is at the path of a plan, beneath its root.
    pub(super) fn print_file(
        &self,
        root: Root,
        requested: &SafePath,
        planned: &FilesPlan<'_, '_>,
        route: &Route,
    ) -> Responding {
        let below = planned.below().into_owned();
        let shown = planned.root.path().unwrap_or(&root.path);
        row("file", format_args!("{}", below.beneath(shown).display()));
        if self.is_named(&below.beneath(&root.path)) {
            row("found", format_args!("a file that the configuration names: never served"));
        }
        let query = Query::of_plan(root, planned, self.site().cache.file);
        let lookup = match query.lookup(Wait::Allowed) {
            Ok(lookup) => lookup,
            Err(error) => {
                if let OpenError::Local(errno) = error {
                    row("found", format_args!("nothing, because of this machine: {errno}"));
                }
                return Responding::Server;
            }
        };
        print_lookup(&lookup);
        print_page(&lookup, &planned.rules.includes);
        match lookup {
            Lookup::Missing => Responding::Nothing,
            Lookup::Folder(_) if requested.is_folder() && planned.rules.listing == Listing::Off => {
                Responding::Nothing
            }
            Lookup::Folder(_) if requested.is_folder() => {
                let lister = route.lister.as_ref().and_then(|lister| lister.interpreter.as_ref());
                let Some(Interpreter::Program(program)) = lister else { return Responding::Server };
                row("listing", format_args!("made by {}", program.display()));
                Responding::Script
            }
            Lookup::Folder(_) | Lookup::Denied | Lookup::Files(_) => Responding::Server,
        }
    }

    /// Whether the configuration names what is at a path, perhaps by another name.
    fn is_named(&self, path: &Path) -> bool {
        let named = self.site().named_files.files();
        config::file_id(path).is_some_and(|(major, minor, inode)| named.has((major, minor), inode))
    }
}

pub(super) fn print_no_folder(folder: &HostFolder) {
    row("folder", format_args!("none for this name, and no default: {}", folder.missing));
}

/// Prints whether a file is a page.
fn print_page(lookup: &Lookup, includes: &Includes) {
    if let Lookup::Files(files) = lookup
        && files.iter().any(|found| includes.cover_file(&found.name))
    {
        row("page", format_args!("{includes}: the directives of the file are carried out"));
    }
}

fn print_lookup(lookup: &Lookup) {
    match lookup {
        Lookup::Missing => row("found", format_args!("nothing")),
        Lookup::Denied => row(
            "found",
            format_args!("a file that may not be served: permissions, a link, or no regular file"),
        ),
        Lookup::Folder(_) => row("found", format_args!("a folder without an index")),
        Lookup::Files(files) => {
            for Found { name, variants, .. } in files {
                for variant in variants {
                    let (bytes, coding) = (variant.stamp.size, variant.coding.as_str());
                    row("found", format_args!("{name}: {bytes} bytes, coding {coding}"));
                }
            }
        }
    }
}
