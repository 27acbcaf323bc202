//! The names among the addresses of an application: each address that one has is an endpoint, as long as it has it.

use std::rc::Rc;
use std::time::Instant;

use site::address::Address;
use site::endpoint::{EndpointAddress, Resolution};
use site::upstream::Upstream;
use tokio::sync::Notify;

use super::{Event, PoolManager, Target, resolution};
use crate::log;
use crate::pool::message::{EndpointOrigin, Share};
use crate::resolver::{self, Resolved, Resolver, SystemNames};
use crate::tasks::spawn_local;

/// A configured address that is a name.
pub(super) struct WatchedName {
    /// The index of the address.
    pub index: usize,
    pub address: EndpointAddress,
    state: NameState,
    /// Of its addresses, when it was resolved last.
    left_out: usize,
    /// An address of it does not respond: it may have another one now.
    doubt: Rc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameState {
    Unknown,
    Resolved,
    /// If it has been resolved before, its endpoints stay.
    Failing,
}

impl WatchedName {
    /// Not resolved yet.
    pub fn new(index: usize, address: EndpointAddress) -> WatchedName {
        WatchedName { index, address, state: NameState::Unknown, left_out: 0, doubt: Rc::default() }
    }
}

impl PoolManager {
    /// Has the names resolved from now on.
    pub(super) fn resolve(&self, resolution: Resolution, system: SystemNames) {
        let resolver = Rc::new(Resolver::new(&resolution, system));
        for (at, WatchedName { address, doubt, .. }) in self.names.iter().enumerate() {
            let (address, doubt, resolution) = (address.clone(), doubt.clone(), resolution.clone());
            let (resolver, events) = (resolver.clone(), self.events.clone());
            spawn_local(async move {
                // Fails only when the pool ends.
                let report = async |found| events.send(Event::Resolved(at, found)).await.is_ok();
                resolution::watch(&address, &resolution, &resolver, &doubt, report).await;
            });
        }
    }

    /// The addresses that the name has now become endpoints, in place of those that it had.
    pub(super) fn on_resolved(&mut self, at: usize, found: &Resolved, now: Instant) {
        let WatchedName { index, address, state, left_out, .. } = &mut self.names[at];
        let of_index = share(&self.upstream, *index);
        if std::mem::replace(state, NameState::Resolved) == NameState::Failing {
            log::warn(format_args!("{}: {address} is resolved again", self.upstream));
        }
        if std::mem::replace(left_out, found.left_out) == 0 && found.left_out > 0 {
            let (used, others) = (found.targets.len(), found.left_out);
            log::warn(format_args!(
                "{}: of the addresses of {address}, {used} are used and {others} are not",
                self.upstream
            ));
        }
        let mut missing = found.targets.clone();
        let mut removed = Vec::new();
        for (id, target) in &self.targets {
            let Target::Address(_, EndpointOrigin { index: own, resolved: Some(resolved) }) = target else {
                continue;
            };
            if own != index {
                continue;
            }
            match missing.extract_if(.., |target| target.address == *resolved).next() {
                Some(target) => self.balancer.set_share(*id, of_index(&target)),
                None => removed.push(*id),
            }
        }
        for target in missing {
            let socket = target.address;
            let origin = EndpointOrigin { index: *index, resolved: Some(socket) };
            let name = format!("{address} ({socket})");
            let id = self.balancer.add_address(name, of_index(&target), now);
            self.targets.insert(id, Target::Address(Address::Tcp(socket), origin));
        }
        for id in removed {
            self.balancer.remove_address(id);
            self.targets.remove(&id);
        }
        self.count_unresolved();
    }

    pub(super) fn on_unresolved(&mut self, at: usize, why: &str) {
        let WatchedName { address, state, .. } = &mut self.names[at];
        let consequence = match std::mem::replace(state, NameState::Failing) {
            NameState::Unknown => "no request can be sent to it",
            NameState::Resolved => "its last addresses are used",
            NameState::Failing => return,
        };
        log::error(format_args!("{}: cannot resolve {address}: {why}; {consequence}", self.upstream));
        self.count_unresolved();
    }

    fn count_unresolved(&mut self) {
        let unknown = self.names.iter().filter(|name| name.state == NameState::Unknown);
        self.balancer.set_unresolved(unknown.count());
    }

    pub(super) fn doubt_names(&self) {
        self.names.iter().for_each(|name| name.doubt.notify_one());
    }
}

/// What an address of the name with this index gets of the requests.
fn share(upstream: &Upstream, index: usize) -> impl Fn(&resolver::Target) -> Share + use<> {
    let configured = u32::from(upstream.weight(index));
    move |target| Share { priority: target.priority, weight: configured.saturating_mul(target.weight) }
}
