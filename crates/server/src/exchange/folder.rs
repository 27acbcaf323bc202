//! Folders that a name in the request leads to: which one, and what a request gets whose name has none.

use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use site::folder::UserFolders;
use site::model::Symlinks;
use site::plan::{FilesPlan, PlannedRoot};
use site::route::RouteId;
use taipan_http::status::Status;

use super::fast::Stop;
use super::{Exchange, Way};
use crate::content::fixed;
use crate::files::folders::{Folder, FolderOf, Found};
use crate::files::roots::Roots;
use crate::response::Response;
use crate::tls_facts::TlsFacts;

impl<'a> Exchange<'a> {
    /// Chooses the folder of the host's name, if it is known.
    #[cold]
    #[inline(never)]
    pub(super) fn choose_folder_fast(&mut self) -> Result<(), Stop> {
        let Some(folder) = &self.host().folder else { return Ok(()) };
        let (symlinks, address) = (self.symlinks(), self.server_address());
        if folder.has_address() && address.is_none() && self.is_fast() {
            return Err(Stop::WAIT);
        }
        for name in folder.names(self.head.authority, address) {
            let of = FolderOf::Host(folder, &name);
            match self.responder.files.folder(self.host.into(), of, symlinks, self.now) {
                Found::Folder(found) => {
                    self.use_folder(found);
                    return Ok(());
                }
                Found::Missing(Status::NOT_FOUND) => {}
                Found::Missing(status) => return Err(fixed::status(self.services, None, status).into()),
                Found::Unknown => return Err(Stop::WAIT),
            }
        }
        Err(fixed::status(self.services, None, folder.missing).into())
    }

    /// Chooses the folder of the host's name. Errors: the response to a request whose name has none.
    pub(super) async fn choose_folder(&mut self) -> Result<(), Response> {
        let Some(folder) = &self.host().folder else { return Ok(()) };
        let (files, symlinks) = (&self.responder.files, self.symlinks());
        for name in folder.names(self.head.authority, self.server_address()) {
            let of = FolderOf::Host(folder, &name);
            let found = match files.folder(self.host.into(), of, symlinks, self.now) {
                Found::Folder(found) => Ok(found),
                Found::Missing(status) => Err(status),
                Found::Unknown => {
                    // If its disk does not respond, the folder is not found, either.
                    _ = Roots::renew_if_other(files, &folder.base, self.now).await;
                    match files.wanted_folder(self.host.into(), of, symlinks, self.now) {
                        Ok(wanted) => files.find_folder(wanted).await,
                        Err(status) => Err(status),
                    }
                }
            };
            match found {
                Ok(found) => {
                    self.use_folder(found);
                    return Ok(());
                }
                Err(Status::NOT_FOUND) => {}
                Err(status) => return Err(fixed::status(self.services, None, status)),
            }
        }
        Err(fixed::status(self.services, None, folder.missing))
    }

    pub(super) const fn is_fast(&self) -> bool {
        matches!(self.way, Way::Fast(..))
    }

    /// The address of the server that the connection was made to. `None`: it is a Unix socket, or the fast path does
    /// not know it.
    pub(super) fn server_address(&self) -> Option<IpAddr> {
        let address = match self.way {
            Way::Driver(connection) => connection.local,
            Way::Fast(destination, _) => destination.address(),
        };
        address.map(|address| address.ip())
    }

    /// `None`: the connection has no TLS, or this is the fast path.
    pub(super) fn tls(&self) -> Option<&'a TlsFacts> {
        match self.way {
            Way::Driver(connection) => connection.tls,
            Way::Fast(..) => None,
        }
    }

    /// The path of the chosen folder.
    pub(super) fn folder_path(&self) -> Option<Rc<Path>> {
        Some(self.folder.as_ref()?.path.clone())
    }

    fn use_folder(&mut self, folder: Rc<Folder>) {
        self.key = self.key.with_folder(folder.number);
        self.folder = Some(folder);
    }

    /// Whether planned files can be served, if they are of a user. Errors: the status of the response. `None`: the user
    /// has to be looked up.
    pub(super) fn known_user_status(&self, planned: &FilesPlan<'_, '_>) -> Option<Result<(), Status>> {
        let Some((users, user)) = self.user_of(planned) else { return Some(Ok(())) };
        let Some(user) = user else { return Some(Err(Status::NOT_FOUND)) };
        let symlinks = planned.rules.symlinks;
        match self.responder.files.folder(self.key, FolderOf::User(users, user), symlinks, self.now) {
            Found::Folder(_) => Some(Ok(())),
            Found::Missing(status) => Some(Err(status)),
            Found::Unknown => None,
        }
    }

    /// As `known_user_status`, after a lookup.
    pub(super) async fn user_status(&self, planned: &FilesPlan<'_, '_>) -> Result<(), Status> {
        if let Some(known) = self.known_user_status(planned) {
            return known;
        }
        let Some((users, Some(user))) = self.user_of(planned) else { return Err(Status::NOT_FOUND) };
        let files = &self.responder.files;
        for base in &users.homes {
            // If its disk does not respond, the folder is not found, either.
            _ = Roots::renew_if_other(files, base, self.now).await;
        }
        let wanted =
            files.wanted_folder(self.key, FolderOf::User(users, user), planned.rules.symlinks, self.now)?;
        files.find_folder(wanted).await.map(|_| ())
    }

    /// The rule of the host for links in the path of a folder.
    fn symlinks(&self) -> Symlinks {
        self.host().routes.get(RouteId::DEFAULT).files.symlinks
    }

    /// The user of planned files, if they are of one.
    fn user_of<'p>(&self, planned: &'p FilesPlan<'_, '_>) -> Option<(&'a Arc<UserFolders>, Option<&'p str>)> {
        let PlannedRoot::OfUser(_) = planned.root else { return None };
        let users = self.host().users.as_ref()?;
        Some((users, users.user(&planned.path)))
    }
}
