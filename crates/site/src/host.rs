//! The hosts of a site, and the search for the host of an authority.
//!
//! Case, port and a last dot do not matter. A name wins over a wildcard, and a longer wildcard over a shorter one. An
//! unknown name has the default host, which is the first.
//!
//! Knows nothing of the routes of a host.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use crate::folder::HostFolder;
use crate::model::Host;
use crate::route::Routes;
use crate::tls::HostTls;

/// Bytes of a host name (RFC 1035 §2.3.4). A longer name has the default host.
pub const MAX_NAME: usize = 253;
/// Bytes of a part of a name between two dots (RFC 1035 §2.3.4).
pub const MAX_LABEL: usize = 63;

/// The hosts of a site, and the tables of their names. A clone shares them: there may be thousands.
#[derive(Debug, Clone)]
pub struct Hosts {
    hosts: Arc<Vec<Host>>,
    tables: Arc<Tables>,
}

#[derive(Debug, Clone, Default)]
struct Tables {
    /// Of all hosts. If hosts of different addresses share a name, the first has it.
    all: Names,
    /// Of the hosts for every address, unless these are all hosts.
    unbound: Option<Names>,
    /// One for each address that a host names. An address with a port comes before the same one without.
    groups: Vec<Group>,
}

/// The hosts of one address.
#[derive(Debug, Clone)]
struct Group {
    address: HostAddress,
    names: Names,
    /// The host for every other name.
    default: usize,
}

/// An address of the server that a host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostAddress {
    pub ip: IpAddr,
    /// `None`: all ports.
    pub port: Option<u16>,
}

/// The hosts that a connection may have, by the address of the server that it was made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddressGroup(u16);

/// Groups of a site.
pub const MAX_GROUPS: usize = 4096;

/// How a host gives itself one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canonical {
    /// With `www.`
    Www,
    /// Without it.
    Bare,
    /// The first of its names.
    First,
}

/// The names of the hosts, each with the index of its host.
#[derive(Debug, Clone, Default)]
pub struct Names {
    exact: NameTable,
    /// The wildcards without their `*.`
    wildcards: NameTable,
}

/// Names in lower case, each with the index of its host. With ten thousand of them, a search would cost as much as the
/// rest of a request.
#[derive(Debug, Clone, Default)]
struct NameTable {
    /// All of them, in the order of their buckets. One text costs less than one for each name.
    text: Box<str>,
    /// In the same order.
    names: Box<[NameEntry]>,
    /// Where each bucket begins in `names`, and the end of the last one. Empty: there are no names.
    buckets: Box<[u32]>,
}

/// A name in the text of its table, and the index of its host.
#[derive(Debug, Clone, Copy)]
struct NameEntry {
    start: u32,
    length: u16,
    host: u32,
}

/// What is wrong with the hosts of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostsError {
    /// There is no default host.
    None,
    DuplicateName(String),
}

impl Hosts {
    /// The first host is the default. Errors: there is none, or two of an address have the same name.
    pub fn new(hosts: Vec<Host>) -> Result<Hosts, HostsError> {
        if hosts.is_empty() {
            return Err(HostsError::None);
        }
        let mut addresses: Vec<HostAddress> =
            hosts.iter().flat_map(|host| host.addresses.iter().copied()).collect();
        // Those with a port first.
        sort::by_key(&mut addresses, |address| (address.ip, address.port.is_none(), address.port));
        addresses.dedup();
        addresses.truncate(MAX_GROUPS);
        let every = || hosts.iter().enumerate();
        // Hosts of different addresses may share a name.
        let all = Names::of(every().enumerate().map(|(rank, (at, host))| (rank, at, host)));
        let tables = match addresses.is_empty() {
            true => Tables { all: Names::of(every().map(|(at, host)| (0, at, host)))?, ..Tables::default() },
            false => {
                let unbound = every().filter(|(_, host)| host.addresses.is_empty());
                let unbound = Some(Names::of(unbound.map(|(at, host)| (0, at, host)))?);
                let groups = addresses.into_iter().map(|address| Group::new(address, &hosts));
                Tables { all: all?, unbound, groups: groups.collect::<Result<_, _>>()? }
            }
        };
        Ok(Hosts { hosts: Arc::new(hosts), tables: Arc::new(tables) })
    }

    /// One host for every name.
    pub fn only(host: Host) -> Hosts {
        let host = Host { names: Vec::new(), addresses: Vec::new(), ..host };
        Hosts { hosts: Arc::new(vec![host]), tables: Arc::default() }
    }

    /// The index of the host for `authority`, on an address that no host names. Allocates nothing.
    pub fn find(&self, authority: &[u8]) -> usize {
        if self.hosts.len() == 1 {
            return 0;
        }
        self.tables.unbound.as_ref().unwrap_or(&self.tables.all).find(name_of(authority)).unwrap_or(0)
    }

    /// As `find`, for a connection of this group.
    #[inline]
    pub fn find_in(&self, group: AddressGroup, authority: &[u8]) -> usize {
        match usize::from(group.0).checked_sub(1).and_then(|at| self.tables.groups.get(at)) {
            None => self.find(authority),
            Some(group) => group.names.find(name_of(authority)).unwrap_or(group.default),
        }
    }

    /// Whether the address of a connection decides which hosts it may have.
    pub fn has_addresses(&self) -> bool {
        !self.tables.groups.is_empty()
    }

    /// The group of connections to an address. `None`: a Unix socket.
    pub fn group(&self, local: Option<SocketAddr>) -> AddressGroup {
        let Some(local) = local else { return AddressGroup::default() };
        let matches = |group: &Group| {
            group.address.ip == local.ip().to_canonical()
                && group.address.port.is_none_or(|port| port == local.port())
        };
        let at = self.tables.groups.iter().position(matches);
        AddressGroup(at.and_then(|at| u16::try_from(at + 1).ok()).unwrap_or_default())
    }

    /// The name that a request is to use in place of its own. `None`: its own is right.
    pub fn canonical(&self, host: usize, authority: &[u8]) -> Option<String> {
        let found = self.at(host);
        let canonical = found.canonical?;
        let name = std::str::from_utf8(name_of(authority)).ok()?.to_ascii_lowercase();
        let is_its_own = |name: &str| found.names.iter().any(|own| own.eq_ignore_ascii_case(name));
        match canonical {
            Canonical::Www => {
                Some(format!("www.{name}")).filter(|www| !name.starts_with("www.") && is_its_own(www))
            }
            Canonical::Bare => {
                let bare = name.strip_prefix("www.")?;
                (is_its_own(bare) || found.folder.is_some()).then(|| bare.to_owned())
            }
            Canonical::First => {
                let first = found.names.iter().find(|name| !name.starts_with("*."))?.to_ascii_lowercase();
                (name != first && !name.is_empty()).then_some(first)
            }
        }
    }

    pub fn names(&self) -> &Names {
        &self.tables.all
    }

    /// The host at an index of [`Hosts::find`]. The default host for any other index.
    pub fn at(&self, index: usize) -> &Host {
        self.hosts.get(index).unwrap_or(&self.hosts[0])
    }

    /// The names of the hosts cannot change: they are in the table.
    pub fn routes_mut(&mut self) -> impl Iterator<Item = &mut Routes> {
        Arc::make_mut(&mut self.hosts).iter_mut().map(|host| &mut host.routes)
    }

    /// The routes of each host, with its folder of names.
    pub fn folders_and_routes_mut(&mut self) -> impl Iterator<Item = (Option<&HostFolder>, &mut Routes)> {
        let hosts = Arc::make_mut(&mut self.hosts).iter_mut();
        hosts.map(|host| (host.folder.as_deref(), &mut host.routes))
    }

    /// The folders, interpreters and files of all hosts. New ones change nothing else.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        Arc::make_mut(&mut self.hosts).iter_mut().flat_map(Host::paths_mut)
    }

    pub fn tls_mut(&mut self) -> impl Iterator<Item = &mut HostTls> {
        Arc::make_mut(&mut self.hosts).iter_mut().map(|host| &mut host.tls)
    }
}

impl Group {
    fn new(address: HostAddress, hosts: &[Host]) -> Result<Group, HostsError> {
        let any_port = HostAddress { port: None, ..address };
        let rank = |host: &Host| match host.addresses.contains(&address) {
            true => Some(0),
            false => host.addresses.contains(&any_port).then_some(1),
        };
        let members: Vec<(usize, usize, &Host)> =
            hosts.iter().enumerate().filter_map(|(at, host)| Some((rank(host)?, at, host))).collect();
        // A host without names, or else the first.
        let default = members.iter().min_by_key(|(rank, at, host)| (!host.names.is_empty(), *rank, *at));
        let default = default.map_or(0, |(_, at, _)| *at);
        Ok(Group { address, default, names: Names::of(members.into_iter())? })
    }
}

impl HostAddress {
    /// `192.0.2.1`, `192.0.2.1:8080`, `2001:db8::1` or `[2001:db8::1]:8080`. `None`: it is something else.
    pub fn parse(text: &str) -> Option<HostAddress> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let address = match (bare.parse::<IpAddr>(), text.parse::<SocketAddr>()) {
            (Ok(ip), _) => HostAddress { ip, port: None },
            (_, Ok(address)) => HostAddress { ip: address.ip(), port: Some(address.port()) },
            (Err(_), Err(_)) => return None,
        };
        let is_one = !address.ip.is_unspecified() && address.ip == address.ip.to_canonical();
        (is_one && address.port != Some(0)).then_some(address)
    }
}

/// As a configuration writes it.
impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.ip, port)),
            None => write!(f, "{}", self.ip),
        }
    }
}

impl Names {
    /// The names of hosts, each with its rank and its index. If two share a name, the one with the lower rank has it.
    /// Errors: their ranks are equal.
    fn of<'a>(hosts: impl Iterator<Item = (usize, usize, &'a Host)>) -> Result<Names, HostsError> {
        let (mut exact, mut wildcards) = (Vec::new(), Vec::new());
        for (rank, at, host) in hosts {
            for name in &host.names {
                match name.strip_prefix("*.") {
                    Some(rest) => wildcards.push((rest.to_ascii_lowercase(), rank, at)),
                    None => exact.push((name.to_ascii_lowercase(), rank, at)),
                }
            }
        }
        let table = |mut names: Vec<(String, usize, usize)>, star: &str| {
            sort::by(&mut names, Ord::cmp);
            let same = |pair: &&[(String, usize, usize)]| (&pair[0].0, pair[0].1) == (&pair[1].0, pair[1].1);
            if let Some(pair) = names.windows(2).find(same) {
                return Err(HostsError::DuplicateName(format!("{star}{}", pair[0].0)));
            }
            names.dedup_by(|later, first| later.0 == first.0);
            let names = names.into_iter().filter(|(name, ..)| name.len() <= MAX_NAME);
            Ok(NameTable::new(names.map(|(name, _, at)| (name.into(), at as u32)).collect()))
        };
        Ok(Names { exact: table(exact, "")?, wildcards: table(wildcards, "*.")? })
    }

    /// The index of the host with this name, which has no port and no last dot. Allocates nothing.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        if name.len() > MAX_NAME {
            return None;
        }
        self.exact.find(name).or_else(|| {
            let dots = name.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'.');
            match self.wildcards.names.is_empty() || !is_domain_name(name) {
                true => None,
                // The longest wildcard comes first.
                false => dots.into_iter().find_map(|(at, _)| self.wildcards.find(&name[at + 1..])),
            }
        })
    }
}

impl NameTable {
    fn new(mut names: Vec<(Box<str>, u32)>) -> NameTable {
        if names.is_empty() {
            return NameTable::default();
        }
        let count = names.len().next_power_of_two();
        let bucket = |name: &str| bucket(name.as_bytes(), count);
        names.sort_by_cached_key(|(name, _)| bucket(name));
        let mut buckets = vec![0_u32; count + 1];
        for (name, _) in &names {
            buckets[bucket(name) + 1] += 1;
        }
        for at in 1..buckets.len() {
            buckets[at] += buckets[at - 1];
        }
        let mut text = String::with_capacity(names.iter().map(|(name, _)| name.len()).sum());
        let entry = |(name, host): &(Box<str>, u32)| {
            let (start, length) = (text.len() as u32, name.len() as u16);
            text.push_str(name);
            NameEntry { start, length, host: *host }
        };
        let names = names.iter().map(entry).collect();
        NameTable { text: text.into(), names, buckets: buckets.into() }
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<usize> {
        let count = self.buckets.len().checked_sub(1)?;
        let at = bucket(name, count);
        let candidates = self.names.get(self.buckets[at] as usize..self.buckets[at + 1] as usize)?;
        let found = candidates.iter().find(|known| self.name(known).eq_ignore_ascii_case(name));
        found.map(|known| known.host as usize)
    }

    #[inline]
    fn name(&self, entry: &NameEntry) -> &[u8] {
        let start = entry.start as usize;
        self.text.as_bytes().get(start..start + usize::from(entry.length)).unwrap_or_default()
    }
}

/// Whether a name has the characters of domain names alone. The host of a URL may have others (RFC 3986 §3.2.2), but an
/// application may take only a part of `evil.example,www.example.org` for the host, or something else of it.
fn is_domain_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The same for a name in lower and in upper case. `count` is a power of two. Requests only look names up, so that none
/// can fill a bucket.
#[inline]
fn bucket(name: &[u8], count: usize) -> usize {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let mix =
        |hash: u64, word: u64| (hash ^ (word | CASE)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = name.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let hash = rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
    (hash ^ hash >> 32) as usize & (count - 1)
}

impl Deref for Hosts {
    type Target = [Host];

    fn deref(&self) -> &[Host] {
        &self.hosts
    }
}

/// The name in an authority, without port and last dot.
pub fn name_of(authority: &[u8]) -> &[u8] {
    // The port is at the end. The colons of `[::1]` are before the bracket.
    let name = match authority.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if authority[at] == b':' => &authority[..at],
        _ => authority,
    };
    name.strip_suffix(b".").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Site;

    fn hosts(names: &[&[&str]]) -> Result<Hosts, HostsError> {
        let host = Site::folder("/srv".into(), Vec::new()).hosts[0].clone();
        let with = |names: &&[&str]| Host {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..host.clone()
        };
        Hosts::new(names.iter().map(with).collect())
    }

    #[test]
    fn prefers_names_then_the_longest_wildcard_then_the_default() {
        let hosts = hosts(&[
            &["first.example"],
            &["example.org", "*.example.org"],
            &["*.b.example.org", "[::1]"],
            &["a.b.example.org"],
        ])
        .unwrap();
        for (authority, expected) in [
            ("", 0),
            (":80", 0),
            (".", 0),
            ("unknown", 0),
            ("first.example", 0),
            ("example.org", 1),
            ("EXAMPLE.org:8080", 1),
            ("example.org.", 1),
            ("example.org.:80", 1),
            ("www.Example.org", 1),
            ("b.example.org", 1),
            ("x.b.example.org", 2),
            ("x.y.b.example.org", 2),
            (".b.example.org", 1),
            (".example.org", 0),
            ("a.b.example.org", 3),
            ("notexample.org", 0),
            ("x_y-1.example.org", 1),
            ("evil.example,www.example.org", 0),
            ("evil.example;www.example.org", 0),
            ("evil.example%2Fwww.example.org", 0),
            ("[::1]", 2),
            ("[::1]:443", 2),
            ("]", 0),
        ] {
            assert_eq!(hosts.find(authority.as_bytes()), expected, "{authority}");
        }
        assert_eq!(hosts.find(format!("{}example.org", "a.".repeat(300)).as_bytes()), 0);
    }

    #[test]
    fn an_address_has_hosts_of_its_own() {
        let plain = Site::folder("/srv".into(), Vec::new()).hosts[0].clone();
        let host = |names: &[&str], addresses: &[&str]| Host {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|text| HostAddress::parse(text).expect(text)).collect(),
            ..plain.clone()
        };
        let hosts = Hosts::new(vec![
            host(&["a.example"], &[]),
            host(&[], &["192.0.2.1"]),
            host(&["a.example", "b.example"], &["192.0.2.1"]),
            host(&["b.example"], &["192.0.2.1:8080", "2001:db8::1"]),
            host(&["c.example"], &["[2001:db8::1]:443"]),
        ])
        .unwrap();
        for (local, authority, expected) in [
            ("198.51.100.1:80", "a.example", 0),
            ("198.51.100.1:80", "b.example", 0),
            ("192.0.2.1:80", "a.example", 2),
            ("192.0.2.1:80", "b.example", 2),
            ("192.0.2.1:80", "other", 1),
            ("192.0.2.1:8080", "b.example", 3),
            ("192.0.2.1:8080", "a.example", 2),
            ("192.0.2.1:8080", "other", 1),
            ("[::ffff:192.0.2.1]:80", "other", 1),
            ("[2001:db8::1]:443", "c.example", 4),
            ("[2001:db8::1]:443", "b.example", 3),
            ("[2001:db8::1]:443", "other", 4),
            ("[2001:db8::1]:80", "c.example", 3),
        ] {
            let group = hosts.group(Some(local.parse().unwrap()));
            assert_eq!(hosts.find_in(group, authority.as_bytes()), expected, "{local} {authority}");
        }
        assert_eq!(hosts.find_in(hosts.group(None), b"b.example"), 0, "a Unix socket");
        let twice = Hosts::new(vec![host(&["a"], &["::1", "::2"]), host(&["a"], &["::2"])]);
        assert_eq!(twice.unwrap_err(), HostsError::DuplicateName("a".to_owned()));
        for bad in
            ["", "x", "0.0.0.0", "::", "::ffff:192.0.2.1", "192.0.2.1:0", "192.0.2.1:99999", "[::1", ":80"]
        {
            assert_eq!(HostAddress::parse(bad), None, "{bad}");
        }
        for good in ["192.0.2.1", "192.0.2.1:80", "::1", "[::1]:80"] {
            assert_eq!(HostAddress::parse(good).unwrap().to_string(), good);
        }
    }

    #[test]
    fn a_host_gives_itself_one_name() {
        let hosts = hosts(&[&["a.example", "www.a.example", "b.example"], &["www.c.example", "*.c.example"]])
            .unwrap();
        for (canonical, authority, expected) in [
            (Canonical::Www, "a.example", Some("www.a.example")),
            (Canonical::Www, "A.Example:80", Some("www.a.example")),
            (Canonical::Www, "www.a.example", None),
            (Canonical::Www, "b.example", None),
            (Canonical::Bare, "www.a.example", Some("a.example")),
            (Canonical::Bare, "a.example", None),
            (Canonical::Bare, "www.b.example.org", None),
            (Canonical::First, "www.a.example", Some("a.example")),
            (Canonical::First, "b.example", Some("a.example")),
            (Canonical::First, "unknown", Some("a.example")),
            (Canonical::First, "a.example", None),
            (Canonical::First, "", None),
        ] {
            let mut all = hosts.to_vec();
            all[0].canonical = Some(canonical);
            let hosts = Hosts::new(all).unwrap();
            let found = hosts.canonical(0, authority.as_bytes());
            assert_eq!(found.as_deref(), expected, "{canonical:?} {authority}");
            assert_eq!(hosts.canonical(1, b"c.example"), None);
        }
    }

    #[test]
    fn rejects_duplicate_names() {
        let error = |names| hosts(names).unwrap_err();
        assert_eq!(error(&[]), HostsError::None);
        assert_eq!(error(&[&["a"], &["b", "A"]]), HostsError::DuplicateName("a".to_owned()));
        assert_eq!(error(&[&["*.a"], &["*.a"]]), HostsError::DuplicateName("*.a".to_owned()));
        assert!(hosts(&[&["a", "*.a"], &[]]).is_ok());
    }
}
