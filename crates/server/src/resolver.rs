//! The addresses of names, by DNS and the file /etc/hosts, and those of this machine. Knows nothing of upstreams.
//!
//! The settings of the system are read by [`SystemNames::read`], which may happen before a chroot, and
//! [`Resolver::new`] uses them in the process that asks.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use site::endpoint::{EndpointAddress, Family, Resolution};

/// Addresses of one name that are used. More are no better, and each is an endpoint.
const MAX_ADDRESSES: usize = 64;
/// Targets of one service that are used.
const MAX_TARGETS: usize = 32;

/// What the system says about names.
pub struct SystemNames {
    config: Result<(ResolverConfig, ResolverOpts), String>,
    hosts: Hosts,
}

pub struct Resolver {
    inner: TokioResolver,
    family: Family,
    min_ttl: Duration,
    max_ttl: Duration,
}

/// The last addresses of a name, or of each target of a service, by name.
pub type LastAddresses = HashMap<String, Vec<IpAddr>>;

/// The addresses of a name, and for how long they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The best ones first, each once.
    pub targets: Vec<Target>,
    /// Further addresses, and targets of a service, that are not used.
    pub left_out: usize,
    pub ttl: Duration,
}

/// An address of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// 0 is the best. It is used while none with a better one can be reached (RFC 2782).
    pub priority: u16,
    pub address: SocketAddr,
    /// Of those with this priority. On average it is `Target::WEIGHT`.
    pub weight: u32,
}

impl Target {
    /// That of an address whose name has no weights.
    pub const WEIGHT: u32 = 60;

    fn of_host(address: SocketAddr) -> Target {
        Target { priority: 0, address, weight: Target::WEIGHT }
    }
}

impl Resolved {
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.targets.iter().map(|target| target.address)
    }
}

/// Addresses, and the shortest time in seconds for which one of their records is valid.
struct Found {
    addresses: Vec<IpAddr>,
    ttl: u32,
}

/// Why there are no addresses of a type, as the end of a sentence.
enum Missing {
    /// The name has none.
    None(String),
    /// No server has said whether it has any.
    Unknown(String),
}

impl Found {
    /// With the `last` addresses of the other family, if it is not known whether it has any.
    fn beside(mut self, other: &Missing, last: &[IpAddr]) -> Found {
        let Missing::Unknown(_) = other else { return self };
        let is_v4 = self.addresses.iter().any(IpAddr::is_ipv4);
        let kept: Vec<IpAddr> = last.iter().copied().filter(|ip| ip.is_ipv4() != is_v4).collect();
        // They are asked for again soon.
        let ttl = if kept.is_empty() { self.ttl } else { 0 };
        self.addresses.extend(kept);
        Found { ttl, ..self }
    }
}

impl Missing {
    fn why(self) -> String {
        match self {
            Missing::None(why) | Missing::Unknown(why) => why,
        }
    }
}

impl SystemNames {
    pub fn read() -> SystemNames {
        SystemNames { config: read_resolv_conf(), hosts: Hosts::from_system().unwrap_or_default() }
    }
}

impl Resolver {
    /// Needs a runtime. Errors: neither the settings nor the system name a server.
    pub fn new(resolution: &Resolution, system: SystemNames) -> Result<Resolver, String> {
        let Resolution { ref servers, family, min_ttl, max_ttl, timeout, .. } = *resolution;
        let (config, mut options) = match servers.is_empty() {
            true => system.config.map_err(|why| {
                format!("no DNS server is known from /etc/resolv.conf: {why}; name one in [resolver]")
            })?,
            false => {
                let servers = servers.iter().map(server).collect();
                (ResolverConfig::from_parts(None, Vec::new(), servers), ResolverOpts::default())
            }
        };
        options.timeout = timeout;
        options.attempts = 1;
        // The caller asks again when the time is over. A negative answer would be kept for longer than that.
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        options.ip_strategy = LookupIpStrategy::Ipv4Only;
        options.try_tcp_on_error = false;
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let mut inner = builder.with_options(options).build().map_err(|error| error.to_string())?;
        inner.set_hosts(Arc::new(system.hosts));
        Ok(Resolver { inner, family, min_ttl, max_ttl })
    }

    /// The addresses of an endpoint, at least one. A part that cannot be resolved keeps its `last` ones. Errors: the
    /// reason, as the end of a sentence.
    pub async fn resolve(
        &self,
        address: &EndpointAddress,
        last: &mut LastAddresses,
    ) -> Result<Resolved, String> {
        let (mut targets, mut left_out, ttl) = match address {
            EndpointAddress::Socket(_) => return Err("it is no name".to_owned()),
            EndpointAddress::Host { name, port } => {
                let Found { addresses, ttl } = self.host(name, last.get(name)).await?;
                let target = |ip: &IpAddr| Target::of_host(SocketAddr::new(*ip, *port));
                let targets = addresses.iter().map(target).collect();
                last.insert(name.clone(), addresses);
                (targets, 0, ttl)
            }
            EndpointAddress::Service(name) => self.service(name, last).await?,
        };
        sort::by(&mut targets, Ord::cmp);
        let mut known = HashSet::new();
        targets.retain(|target| known.insert(target.address));
        left_out += targets.len().saturating_sub(MAX_ADDRESSES);
        targets.truncate(MAX_ADDRESSES);
        let ttl = Duration::from_secs(ttl.into()).clamp(self.min_ttl, self.max_ttl);
        Ok(Resolved { targets, left_out, ttl })
    }

    /// The name of an address, with the time for which it is used. `None`: it has none. Errors: no server has answered.
    pub async fn name_of(&self, address: IpAddr) -> Result<Option<(String, Duration)>, String> {
        let lookup = match self.inner.lookup(Name::from(address), RecordType::PTR).await {
            Ok(lookup) => lookup,
            Err(error) if is_negative(&error) => return Ok(None),
            Err(error) => return Err(describe(error)),
        };
        let name = |record: &Record| match &record.data {
            RData::PTR(name) => {
                let name = name.0.to_ascii();
                let name = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
                Some((name, Duration::from_secs(time_to_live(record).into())))
            }
            _ => None,
        };
        Ok(lookup.answers().iter().find_map(name))
    }

    /// As `name_of`, but only a name that has the address, too.
    pub async fn confirmed_name(&self, address: IpAddr) -> Result<Option<(String, Duration)>, String> {
        let Some((name, ttl)) = self.name_of(address).await? else { return Ok(None) };
        // A name that has no such addresses, or is none, belongs to another host.
        let found = self.of_type(&name, type_of(address)).await;
        Ok(found.is_ok_and(|found| found.addresses.contains(&address)).then_some((name, ttl)))
    }

    /// The targets (RFC 2782) that have addresses, and how many are left out. One that fails keeps its last ones.
    async fn service(
        &self,
        name: &str,
        last: &mut LastAddresses,
    ) -> Result<(Vec<Target>, usize, u32), String> {
        let lookup = self.inner.lookup(parse(name)?, RecordType::SRV).await.map_err(describe)?;
        let mut ttl = u32::MAX;
        let mut records = Vec::new();
        for record in lookup.answers() {
            ttl = ttl.min(time_to_live(record));
            // A target "." says that there is no such service.
            if let RData::SRV(srv) = &record.data
                && !srv.target.is_root()
                && srv.port > 0
            {
                // A question needs the name as `xn--`, which `Display` may decode.
                records.push((srv.priority, srv.target.to_ascii(), srv.port, srv.weight));
            }
        }
        sort::by(&mut records, Ord::cmp);
        let left_out = records.len().saturating_sub(MAX_TARGETS);
        records.truncate(MAX_TARGETS);
        let mut why = "it has no SRV records with a target".to_owned();
        let mut targets = Vec::new();
        let mut known = LastAddresses::new();
        let groups = records.chunk_by(|one, other| one.0 == other.0);
        for (priority, group) in (0..).zip(groups) {
            let mut found: Vec<(u16, Vec<SocketAddr>)> = Vec::new();
            for (_, target, port, weight) in group {
                let addresses = match self.host(target, last.get(target)).await {
                    Ok(Found { addresses, ttl: own }) => {
                        ttl = ttl.min(own);
                        addresses
                    }
                    Err(error) => {
                        ttl = 0;
                        why = format!("its target {target}: {error}");
                        last.get(target).cloned().unwrap_or_default()
                    }
                };
                found.push((*weight, addresses.iter().map(|ip| SocketAddr::new(*ip, *port)).collect()));
                known.insert(target.clone(), addresses);
            }
            found.retain(|(_, addresses)| !addresses.is_empty());
            targets.extend(weighted(priority, &found));
        }
        *last = known;
        match targets.is_empty() {
            true => Err(why),
            false => Ok((targets, left_out, ttl)),
        }
    }

    async fn host(&self, name: &str, last: Option<&Vec<IpAddr>>) -> Result<Found, String> {
        let last = last.map_or(&[][..], Vec::as_slice);
        let (first, second) = match self.family {
            Family::Ipv4First => (RecordType::A, RecordType::AAAA),
            Family::Ipv6First => (RecordType::AAAA, RecordType::A),
            Family::Ipv4 => return self.of_type(name, RecordType::A).await.map_err(Missing::why),
            Family::Ipv6 => return self.of_type(name, RecordType::AAAA).await.map_err(Missing::why),
            Family::Both => return self.both(name, last).await,
        };
        match self.of_type(name, first).await {
            Ok(found) => Ok(found),
            // Requests do not move to the other family because of a question that has failed.
            Err(Missing::Unknown(why)) if last.iter().any(|ip| type_of(*ip) == first) => Err(why),
            Err(_) => self.of_type(name, second).await.map_err(Missing::why),
        }
    }

    async fn both(&self, name: &str, last: &[IpAddr]) -> Result<Found, String> {
        let (v4, v6) = tokio::join!(self.of_type(name, RecordType::A), self.of_type(name, RecordType::AAAA));
        match (v4, v6) {
            (Ok(v4), Ok(v6)) => {
                Ok(Found { addresses: [v4.addresses, v6.addresses].concat(), ttl: v4.ttl.min(v6.ttl) })
            }
            (Ok(found), Err(other)) | (Err(other), Ok(found)) => Ok(found.beside(&other, last)),
            (Err(missing), Err(_)) => Err(missing.why()),
        }
    }

    async fn of_type(&self, name: &str, kind: RecordType) -> Result<Found, Missing> {
        if is_local(name) {
            let ip = match kind {
                RecordType::A => Ipv4Addr::LOCALHOST.into(),
                _ => Ipv6Addr::LOCALHOST.into(),
            };
            return Ok(Found { addresses: vec![ip], ttl: u32::MAX });
        }
        let name = parse(name).map_err(Missing::None)?;
        let lookup = self.inner.lookup(name, kind).await.map_err(|error| match is_negative(&error) {
            true => Missing::None(describe(error)),
            false => Missing::Unknown(describe(error)),
        })?;
        let addresses: Vec<IpAddr> =
            lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect();
        // Also those of aliases.
        let ttl = lookup.answers().iter().map(time_to_live).min().unwrap_or(0);
        match addresses.is_empty() {
            true => Err(Missing::None("it has no addresses".to_owned())),
            false => Ok(Found { addresses, ttl }),
        }
    }
}

/// Seconds for which a record may be used. One with the highest bit set is void (RFC 2181 §8).
fn time_to_live(record: &Record) -> u32 {
    if record.ttl > i32::MAX as u32 { 0 } else { record.ttl }
}

/// The addresses of the hosts of one priority, each host with its weight, which its addresses share.
fn weighted(priority: u16, hosts: &[(u16, Vec<SocketAddr>)]) -> Vec<Target> {
    let total: u64 = hosts.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let addresses: usize = hosts.iter().map(|(_, addresses)| addresses.len()).sum();
    let all = u64::from(Target::WEIGHT) * addresses as u64;
    let of_host = |(weight, addresses): &(u16, Vec<SocketAddr>)| {
        let share = match total {
            0 => all / hosts.len().max(1) as u64,
            // A weight of 0 is a small chance beside others.
            _ => all * u64::from(*weight) / total,
        };
        let weight = (share / addresses.len().max(1) as u64).max(1) as u32;
        addresses.iter().map(|address| Target { priority, address: *address, weight }).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(of_host).collect()
}

/// The same name by the other family, to be tried at once: programs listen on `localhost` by one of them, often without
/// saying by which.
pub fn alternative(address: &EndpointAddress, tried: SocketAddr) -> Option<SocketAddr> {
    match address {
        EndpointAddress::Host { name, port } if is_local(name) => {
            let ip: IpAddr =
                if tried.is_ipv4() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
            Some(SocketAddr::new(ip, *port))
        }
        _ => None,
    }
}

/// RFC 6761 §6.3: no server is asked for these.
fn is_local(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a name is one of a host, and nothing that a log or a script could take for something else: a DNS server may
/// answer with anything.
pub fn is_host_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // One of digits and dots could be taken for an address.
    (1..=253).contains(&name.len())
        && name.bytes().all(is_of_name)
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let on_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(on_port).to_vec();
    NameServerConfig::new(address.ip(), true, connections)
}

/// The settings of `/etc/resolv.conf`.
fn read_resolv_conf() -> Result<(ResolverConfig, ResolverOpts), String> {
    let text = fs::read("/etc/resolv.conf").map_err(|error| error.to_string())?;
    let text = ascii_words(&String::from_utf8_lossy(&text));
    system_conf::parse_resolv_conf(text).map_err(|error| error.to_string())
}

/// The lines without words that have letters beyond ASCII. As a search domain, one would make all settings an error.
fn ascii_words(text: &str) -> String {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().filter(|word| word.is_ascii()).collect();
        words.join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

fn parse(name: &str) -> Result<Name, String> {
    Name::from_ascii(name).map_err(|error| error.to_string())
}

fn type_of(address: IpAddr) -> RecordType {
    if address.is_ipv4() { RecordType::A } else { RecordType::AAAA }
}

/// Whether a server has answered that there is no such record.
fn is_negative(error: &NetError) -> bool {
    let NetError::Dns(DnsError::NoRecordsFound(none)) = error else { return false };
    matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
}

fn describe(error: NetError) -> String {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => "there is no such name".to_owned(),
            ResponseCode::NoError => "it has no addresses".to_owned(),
            code => format!("the DNS server has answered \"{code}\""),
        },
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the DNS server has answered \"{code}\""),
        NetError::Timeout => "no DNS server has answered in time".to_owned(),
        NetError::NoConnections => "no DNS server can be reached".to_owned(),
        other => other.to_string(),
    }
}

/// The addresses of this machine, loopback addresses first.
pub fn own_addresses() -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = nix::ifaddrs::getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        })
        // Link-local addresses need a zone, which a URL does not have.
        .filter(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .collect();
    sort::by_key(&mut found, |ip| (!ip.is_loopback(), *ip));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::proto::op::Query;
    use hickory_resolver::proto::rr::rdata::PTR;

    /// The weights of hosts with so many addresses.
    fn check(hosts: &[(u16, usize)], expected: &[u32]) {
        let address = |at: usize| SocketAddr::new(Ipv4Addr::new(10, 0, 0, at as u8).into(), 80);
        let host = |(weight, count): &(u16, usize)| (*weight, (0..*count).map(address).collect());
        let hosts: Vec<_> = hosts.iter().map(host).collect();
        let found: Vec<u32> = weighted(3, &hosts).iter().map(|target| target.weight).collect();
        assert_eq!(found, expected, "{hosts:?}");
    }

    #[test]
    fn only_names_of_hosts_are_names() {
        for good in ["a", "host.example.org", "xn--bcher-kva.example", "a_b.c", "1-2-3-4.dsl.example"] {
            assert!(is_host_name(good), "{good}");
        }
        for bad in ["", "a b", "a\nb", "\"", "1.2.3.4", "127.1", "::1", "a\u{202e}b", "<b>"] {
            assert!(!is_host_name(bad), "{bad}");
        }
    }

    #[test]
    fn reads_xn_names_in_hosts_and_resolv_conf() {
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf("127.0.0.9 xn--bcher-kva.test\n".as_bytes()).unwrap();
        let query = Query::query(parse("xn--bcher-kva.test").unwrap(), RecordType::A);
        assert!(hosts.lookup_static_host(&query).is_some());
        let text = "nameserver 127.0.0.1\nsearch xn--bcher-kva.test\n";
        let (config, _) = system_conf::parse_resolv_conf(text).unwrap();
        assert_eq!(config.search()[0].to_ascii(), "xn--bcher-kva.test");
        for search in ["search bücher.test a.test", "search a.test\n# für alle\nsearch bücher.test a.test ü"]
        {
            let text = ascii_words(&format!("nameserver 127.0.0.1\n{search}\n"));
            let (config, _) = system_conf::parse_resolv_conf(text).unwrap();
            let names: Vec<String> = config.search().iter().map(Name::to_ascii).collect();
            assert_eq!(names, ["a.test"], "{search}");
        }
        assert!(system_conf::parse_resolv_conf(ascii_words("nameserver 127.0.0.1\nsearch ü\n")).is_ok());
    }

    #[test]
    fn a_time_to_live_with_the_highest_bit_is_none() {
        for (ttl, expected) in
            [(0, 0), (300, 300), (0x7FFF_FFFF, 0x7FFF_FFFF), (0x8000_0000, 0), (u32::MAX, 0)]
        {
            let record = Record::from_rdata(Name::root(), ttl, RData::PTR(PTR(Name::root())));
            assert_eq!(time_to_live(&record), expected, "{ttl}");
        }
    }

    #[test]
    fn hosts_share_by_weight_and_their_addresses_evenly() {
        check(&[], &[]);
        check(&[(7, 1)], &[60]);
        check(&[(0, 1), (0, 1)], &[60, 60]);
        check(&[(1, 1), (3, 1)], &[30, 90]);
        check(&[(1, 2), (1, 1)], &[45, 45, 90]);
        check(&[(0, 2), (0, 1)], &[45, 45, 90]);
        check(&[(0, 1), (10, 1)], &[1, 120]);
        check(&[(65535, 1), (65535, 1)], &[60, 60]);
    }
}
