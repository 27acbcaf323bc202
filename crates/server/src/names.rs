//! The addresses of names, by DNS and the file /etc/hosts. Knows nothing of upstreams.
//!
//! The settings of the system are read by [`SystemNames::read`], which may happen before a chroot, and
//! [`Resolver::new`] uses them in the process that asks.

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

/// The addresses of a name, and for how long they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// In order, each once.
    pub addresses: Vec<SocketAddr>,
    pub ttl: Duration,
}

/// Addresses, and the shortest time in seconds for which one of their records is valid.
struct Found {
    addresses: Vec<IpAddr>,
    ttl: u32,
}

impl SystemNames {
    pub fn read() -> SystemNames {
        SystemNames {
            config: system_conf::read_system_conf().map_err(|error| error.to_string()),
            hosts: Hosts::from_system().unwrap_or_default(),
        }
    }
}

impl Resolver {
    /// Needs a runtime. Errors: neither the settings nor the system name a server.
    pub fn new(resolution: &Resolution, system: SystemNames) -> Result<Resolver, String> {
        let Resolution { ref servers, family, min_ttl, max_ttl, timeout } = *resolution;
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

    /// The addresses of an endpoint, at least one. Errors: the reason, as the end of a sentence.
    pub async fn resolve(&self, address: &EndpointAddress) -> Result<Resolved, String> {
        let (mut addresses, ttl) = match address {
            EndpointAddress::Socket(_) => return Err("it is no name".to_owned()),
            EndpointAddress::Host { name, port } => {
                let Found { addresses, ttl } = self.host(name).await?;
                (addresses.into_iter().map(|ip| SocketAddr::new(ip, *port)).collect(), ttl)
            }
            EndpointAddress::Service(name) => self.service(name).await?,
        };
        addresses.sort();
        addresses.dedup();
        addresses.truncate(MAX_ADDRESSES);
        let ttl = Duration::from_secs(ttl.into()).clamp(self.min_ttl, self.max_ttl);
        Ok(Resolved { addresses, ttl })
    }

    /// The name of an address, with the time for which it is used. `None`: it has none. Errors: no server has answered.
    pub async fn name_of(&self, address: IpAddr) -> Result<Option<(String, Duration)>, String> {
        let lookup = match self.inner.lookup(Name::from(address), RecordType::PTR).await {
            Ok(lookup) => lookup,
            Err(NetError::Dns(DnsError::NoRecordsFound(none)))
                if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(describe(error)),
        };
        let name = |record: &Record| match &record.data {
            RData::PTR(name) => {
                let name = name.0.to_ascii();
                let name = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
                Some((name, Duration::from_secs(record.ttl.into())))
            }
            _ => None,
        };
        Ok(lookup.answers().iter().find_map(name))
    }

    /// As `name_of`, but only a name that has the address, too.
    pub async fn confirmed_name(&self, address: IpAddr) -> Result<Option<(String, Duration)>, String> {
        let Some((name, ttl)) = self.name_of(address).await? else { return Ok(None) };
        let kind = if address.is_ipv4() { RecordType::A } else { RecordType::AAAA };
        // A name that has no such addresses, or is none, belongs to another host.
        let found = self.of_type(&name, kind).await;
        Ok(found.is_ok_and(|found| found.addresses.contains(&address)).then_some((name, ttl)))
    }

    /// The targets with the best priority (RFC 2782) that have addresses.
    async fn service(&self, name: &str) -> Result<(Vec<SocketAddr>, u32), String> {
        let lookup = self.inner.lookup(parse(name)?, RecordType::SRV).await.map_err(describe)?;
        let mut ttl = u32::MAX;
        let mut targets = Vec::new();
        for record in lookup.answers() {
            ttl = ttl.min(record.ttl);
            // A target "." says that there is no such service.
            if let RData::SRV(srv) = &record.data
                && !srv.target.is_root()
                && srv.port > 0
            {
                targets.push((srv.priority, srv.target.to_string(), srv.port));
            }
        }
        targets.sort();
        targets.truncate(MAX_TARGETS);
        let mut why = "it has no SRV records with a target".to_owned();
        for group in targets.chunk_by(|one, other| one.0 == other.0) {
            let mut addresses = Vec::new();
            for (_, target, port) in group {
                match self.host(target).await {
                    Ok(found) => {
                        ttl = ttl.min(found.ttl);
                        addresses.extend(found.addresses.into_iter().map(|ip| SocketAddr::new(ip, *port)));
                    }
                    Err(error) => why = format!("its target {target}: {error}"),
                }
            }
            if !addresses.is_empty() {
                return Ok((addresses, ttl));
            }
        }
        Err(why)
    }

    async fn host(&self, name: &str) -> Result<Found, String> {
        let (first, second) = match self.family {
            Family::Ipv4First => (RecordType::A, Some(RecordType::AAAA)),
            Family::Ipv6First => (RecordType::AAAA, Some(RecordType::A)),
            Family::Ipv4 => (RecordType::A, None),
            Family::Ipv6 => (RecordType::AAAA, None),
            Family::Both => return self.both(name).await,
        };
        match (self.of_type(name, first).await, second) {
            (Err(_), Some(second)) => self.of_type(name, second).await,
            (found, _) => found,
        }
    }

    async fn both(&self, name: &str) -> Result<Found, String> {
        let (v4, v6) = tokio::join!(self.of_type(name, RecordType::A), self.of_type(name, RecordType::AAAA));
        match (v4, v6) {
            (Ok(v4), Ok(v6)) => {
                Ok(Found { addresses: [v4.addresses, v6.addresses].concat(), ttl: v4.ttl.min(v6.ttl) })
            }
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
            (Err(why), Err(_)) => Err(why),
        }
    }

    async fn of_type(&self, name: &str, kind: RecordType) -> Result<Found, String> {
        if is_local(name) {
            let ip = match kind {
                RecordType::A => Ipv4Addr::LOCALHOST.into(),
                _ => Ipv6Addr::LOCALHOST.into(),
            };
            return Ok(Found { addresses: vec![ip], ttl: u32::MAX });
        }
        let lookup = self.inner.lookup(parse(name)?, kind).await.map_err(describe)?;
        let addresses: Vec<IpAddr> =
            lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect();
        // Also those of aliases.
        let ttl = lookup.answers().iter().map(|record| record.ttl).min().unwrap_or(0);
        match addresses.is_empty() {
            true => Err("it has no addresses".to_owned()),
            false => Ok(Found { addresses, ttl }),
        }
    }
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

fn server(address: &SocketAddr) -> NameServerConfig {
    let on_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(on_port).to_vec();
    NameServerConfig::new(address.ip(), true, connections)
}

fn parse(name: &str) -> Result<Name, String> {
    Name::from_ascii(name).map_err(|error| error.to_string())
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
