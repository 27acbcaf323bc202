//! What a request demands of the resources that it is for: by the field `If`, and by preconditions.

use std::collections::HashMap;

use dav::condition::{If, State};
use dav::locks::{Holder, Locks};

use super::{Below, Found, Store};
use crate::clock;
use crate::files::open::Stamp;
use crate::files::stat_etag;
use crate::publishing::failure::Failure;

/// What the request demands of the resource that it is for.
#[derive(Clone, Default)]
pub struct Terms {
    pub holder: Holder,
    /// The field `If`.
    pub field: Option<If>,
    /// The resources that `field` names, by their URLs.
    pub resources: HashMap<String, Named>,
    /// Of the request's resource.
    pub tag: Tag,
    pub expected: Expected,
}

/// A resource that `If` names.
#[derive(Clone)]
pub struct Named {
    pub store: Store,
    pub path: Below,
    pub tag: Tag,
}

/// The entity tag with which `If` compares.
#[derive(Debug, Clone, Default)]
pub enum Tag {
    /// Made of the attributes of the file, when it is compared.
    #[default]
    OfAttributes,
    /// What GET sends. `None`: no tag.
    Found(Option<Vec<u8>>),
}

/// The state in which the preconditions of the request have found its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expected {
    /// It has none.
    #[default]
    Anything,
    Nothing,
    File(Stamp),
}

impl Expected {
    /// The state of what was found. The one of a folder may change.
    pub fn of(found: Option<Found>) -> Expected {
        match found {
            None => Expected::Nothing,
            Some(Found::File(stamp)) => Expected::File(stamp),
            Some(Found::Folder(_) | Found::Other) => Expected::Anything,
        }
    }
}

impl Terms {
    /// Errors: `Precondition`, if the field `If` does not hold for a request for `path`. `locks`: those of the store.
    pub fn check_field(&self, store: &Store, locks: &Locks, path: &Below) -> Result<(), Failure> {
        let Some(field) = &self.field else { return Ok(()) };
        let state = |url: Option<&str>| match url {
            None => state_of(store, locks, path, &self.tag),
            Some(url) => match self.resources.get(url) {
                Some(named) if named.store.root.is_same(&store.root) => {
                    state_of(store, locks, &named.path, &named.tag)
                }
                Some(named) => named.state(),
                None => State::default(),
            },
        };
        if field.holds(state) { Ok(()) } else { Err(Failure::Precondition) }
    }
}

impl Named {
    /// In another root than that of the request.
    fn state(&self) -> State {
        let locks = self.store.locks(clock::wall()).unwrap_or_default();
        state_of(&self.store, &locks, &self.path, &self.tag)
    }
}

fn state_of(store: &Store, locks: &Locks, path: &Below, tag: &Tag) -> State {
    let tag = match (store.find(path), tag) {
        (Ok(Some(Found::File(stamp))), Tag::OfAttributes) => Some(stat_etag(&stamp, "")),
        (Ok(Some(Found::File(_))), Tag::Found(tag)) => tag.clone(),
        _ => None,
    };
    State { tag, tokens: locks.on(path.as_str()).map(|lock| lock.token.clone()).collect() }
}
