//! Settings outside of conditions, and within those on paths.

mod access;
mod files;
mod programs;
mod server;
mod urls;

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::tree::Place;
use crate::within::covers;

use super::convert::unconverted;
use super::names::{KNOWN, NEEDLESS};
use super::read::Datum;

/// `NAME = VALUE`, for the host, or for some paths of it.
#[derive(Clone, Copy)]
pub(super) struct Setting<'s> {
    pub(super) name: &'s str,
    /// `NAME += VALUE`: to what is outside of the block.
    pub(super) adds: bool,
    pub(super) value: &'s Datum,
    pub(super) place: &'s Place,
    pub(super) paths: &'s [String],
}

/// Converts a setting to keys.
pub(super) fn apply_setting(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, place, .. } = *setting;
    if !KNOWN.names().any(|known| known == name) {
        return draft.error(place, unconverted(name), &KNOWN.what_to_do(name));
    }
    let rooms = [server::apply, files::apply, access::apply, urls::apply, programs::apply];
    if !rooms.iter().any(|room| room(setting, host, draft)) && !NEEDLESS.contains(&name) {
        draft.error(place, unconverted(name), "remove it, or find its like in the manual");
    }
}

impl Setting<'_> {
    /// Whether a pattern has no path that this is not for.
    fn is_for(&self, pattern: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|path| path == pattern || covers(path, pattern))
    }

    /// The list of a block takes the place of what is outside of it.
    fn take_place(&self, keys: &[&str], host: &mut Host) {
        if self.paths.is_empty() || self.adds {
            return;
        }
        for route in host.routes.iter_mut().filter(|route| self.is_for(route.path())) {
            keys.iter().for_each(|key| route.remove(key));
        }
    }

    /// For the host, or for the routes of the paths.
    fn each(&self, host: &mut Host, act: impl Fn(&mut Scope)) {
        if self.paths.is_empty() {
            act(&mut host.scope);
        }
        for path in self.paths {
            act(host.route(path, self.place));
        }
    }

    fn set(&self, host: &mut Host, key: &str, value: impl Into<Value>) {
        let value = value.into();
        self.each(host, |scope| scope.set(self.place, key, value.clone()));
    }

    /// The pairs of the value become pairs of a table.
    fn set_pairs(&self, host: &mut Host, table: &str) {
        for (name, value) in self.value.pairs() {
            self.each(host, |scope| scope.pair(self.place, table, name, value.text()));
        }
    }
}

fn number(value: &Datum) -> i64 {
    value.text().parse().unwrap_or(0)
}
