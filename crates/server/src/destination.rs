//! The address of the server that a connection was made to: which hosts it may have, and, where more than that counts,
//! the address itself. The proxies of listeners for them tell it; else it is the socket's.
//!
//! An idle connection has two bytes for it. The addresses of a worker's connections are in a table, each while one has
//! it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use site::host::AddressGroup;

/// Where a connection was made to.
#[derive(Debug, Default)]
pub struct Destination {
    /// The hosts that the connection may have.
    pub group: AddressGroup,
    address: Option<StoredAddress>,
}

/// Finds a stored address again, as long as its connection exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DestinationId {
    pub group: AddressGroup,
    /// 0: it is not stored.
    index: u16,
}

/// An address in the table, until this is dropped. Its index is not 0.
#[derive(Debug)]
struct StoredAddress(NonZeroU16);

/// The table is full: the connections have too many addresses.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

/// The addresses, each with the number of connections that were made to it.
#[derive(Default)]
struct Table {
    /// In the place before its index.
    entries: Vec<(SocketAddr, usize)>,
    indexes: HashMap<SocketAddr, u16>,
    free: Vec<u16>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

impl Destination {
    /// The address is not stored: that of the socket counts.
    pub fn of_socket(group: AddressGroup) -> Destination {
        Destination { group, address: None }
    }

    pub fn stored(group: AddressGroup, address: SocketAddr) -> Result<Destination, TooMany> {
        let index = TABLE.with_borrow_mut(|table| table.add(address)).ok_or(TooMany)?;
        Ok(Destination { group, address: Some(StoredAddress(index)) })
    }

    pub fn id(&self) -> DestinationId {
        DestinationId { group: self.group, index: self.address.as_ref().map_or(0, |stored| stored.0.get()) }
    }
}

impl DestinationId {
    /// `None`: it is not stored.
    pub fn address(self) -> Option<SocketAddr> {
        let at = usize::from(self.index).checked_sub(1)?;
        TABLE.with_borrow(|table| table.entries.get(at).map(|(address, _)| *address))
    }
}

impl Drop for StoredAddress {
    fn drop(&mut self) {
        // At the end of the thread, the table has been dropped already.
        _ = TABLE.try_with(|table| table.borrow_mut().remove(self.0.get()));
    }
}

impl Table {
    /// The index of an address. `None`: the table is full.
    fn add(&mut self, address: SocketAddr) -> Option<NonZeroU16> {
        let index = match self.indexes.get(&address) {
            Some(index) => *index,
            None => self.insert(address)?,
        };
        self.entries[usize::from(index) - 1].1 += 1;
        NonZeroU16::new(index)
    }

    /// The index of an address that has none yet. `None`: the table is full.
    fn insert(&mut self, address: SocketAddr) -> Option<u16> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(self.entries.len() + 1).ok()?;
                self.entries.push((address, 0));
                index
            }
        };
        self.entries[usize::from(index) - 1].0 = address;
        self.indexes.insert(address, index);
        Some(index)
    }

    fn remove(&mut self, index: u16) {
        let Some((address, count)) = self.entries.get_mut(usize::from(index) - 1) else { return };
        *count -= 1;
        if *count == 0 {
            self.indexes.remove(address);
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn an_address_is_stored_while_a_connection_has_it() {
        let stored = |port| Destination::stored(AddressGroup::default(), at(port)).expect("there is space");
        let (one, same, other) = (stored(1), stored(1), stored(2));
        assert_eq!((one.id(), one.id().address()), (same.id(), Some(at(1))));
        assert_eq!(other.id().address(), Some(at(2)));
        drop(one);
        assert_eq!(same.id().address(), Some(at(1)));
        let index = same.id();
        drop(same);
        let third = stored(3);
        assert_eq!((third.id(), third.id().address()), (index, Some(at(3))), "the place is used again");
        assert_eq!(Destination::of_socket(AddressGroup::default()).id().address(), None);
    }

    #[test]
    fn the_table_has_a_bound() {
        let mut table = Table::default();
        let address = |number: u32| SocketAddr::from((number.to_be_bytes(), 80));
        for number in 1..=u32::from(u16::MAX) {
            assert_eq!(table.add(address(number)).map(|index| u32::from(index.get())), Some(number));
        }
        assert_eq!(table.add(address(0)), None);
        assert!(table.add(address(7)).is_some(), "one that is there");
        table.remove(8);
        assert_eq!(table.add(address(0)).map(|index| index.get()), Some(8));
    }
}
