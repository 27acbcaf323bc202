//! Zones: the hosts and the routes that are counted each by itself, as far as the configuration allows. Which zones
//! there are, and those of a request.
//!
//! Knows nothing of what is counted.

use std::fmt;
use std::str::FromStr;

use taipan_http::head::Head;
use taipan_http::target::SafePath;

use crate::host::Hosts;
use crate::model::{Site, Statistics};
use crate::route::RouteId;

/// Hosts, or routes, above their limit are counted together under this name, which no host has.
pub const OTHERS: &str = "(others)";

/// What is counted by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    Host(String),
    /// With the name of its host, and its pattern.
    Route(String, String),
}

/// The line that names it over reloads and upgrades.
impl fmt::Display for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Host(name) => write!(out, "host {name}"),
            Zone::Route(host, pattern) => write!(out, "route {host} {pattern}"),
        }
    }
}

/// The reverse of `Display`. A name of a host has no space.
impl FromStr for Zone {
    type Err = ();

    fn from_str(line: &str) -> Result<Zone, ()> {
        let (kind, rest) = line.split_once(' ').ok_or(())?;
        match (kind, rest.split_once(' ')) {
            ("host", None) => Ok(Zone::Host(rest.to_owned())),
            ("route", Some((host, pattern))) => Ok(Zone::Route(host.to_owned(), pattern.to_owned())),
            _ => Err(()),
        }
    }
}

/// The zones of one request, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonesOf {
    host: u16,
    route: u16,
}

/// No zone.
const NONE: u16 = u16::MAX;

impl ZonesOf {
    /// The zones of a request that no zone counts.
    pub const NOTHING: ZonesOf = ZonesOf { host: NONE, route: NONE };

    #[inline]
    pub fn indices(self) -> impl Iterator<Item = usize> {
        [self.host, self.route].into_iter().filter(|at| *at != NONE).map(usize::from)
    }
}

/// The zones of a site.
pub struct Zones {
    hosts: Hosts,
    list: Vec<Zone>,
    /// The zone of each host. Empty: hosts are not counted.
    of_host: Vec<u16>,
    /// For each host, the zone of each route: first that of the default. Empty: routes are not counted.
    of_route: Vec<Vec<u16>>,
}

impl Zones {
    /// `None`: the site counts nothing by itself.
    pub fn of(site: &Site) -> Option<Zones> {
        let Statistics { hosts, routes } = site.statistics;
        if (hosts, routes) == (0, 0) {
            return None;
        }
        let mut zones =
            Zones { hosts: site.hosts.clone(), list: Vec::new(), of_host: Vec::new(), of_route: Vec::new() };
        // Hosts of different addresses may share a name, and combined routes have the pattern of their glob.
        if hosts > 0 {
            for host in site.hosts.iter() {
                let zone = Zone::Host(name(&host.names));
                let at = zones.index(zone, 0, hosts, || Zone::Host(OTHERS.to_owned()));
                zones.of_host.push(at);
            }
        }
        if routes > 0 {
            let first = zones.list.len();
            for host in site.hosts.iter() {
                let name = name(&host.names);
                let mut of_routes = Vec::new();
                for route in host.routes.iter() {
                    let zone = Zone::Route(name.clone(), route.pattern.to_string());
                    let others = || Zone::Route(OTHERS.to_owned(), OTHERS.to_owned());
                    of_routes.push(zones.index(zone, first, routes, others));
                }
                zones.of_route.push(of_routes);
            }
        }
        Some(zones)
    }

    /// The zones in the order of their indices.
    pub fn list(&self) -> &[Zone] {
        &self.list
    }

    /// Those of a request. Its route is that of the script that has responded, or else the one for the path that the
    /// client has sent: where rewrites and fallbacks lead is not looked at. `head`: `None`, if it could not be read.
    pub fn find(&self, host: usize, head: Option<&Head<'_>>, script: Option<RouteId>) -> ZonesOf {
        let Some(head) = head else { return ZonesOf::NOTHING };
        let route = || {
            let of_path =
                || Some(self.hosts.get(host)?.routes.find(&SafePath::parse(head.target.path()?).ok()?));
            let id = script.or_else(of_path)?;
            self.of_route.get(host)?.get(id.index().map_or(0, |index| index + 1)).copied()
        };
        let route = if self.of_route.is_empty() { None } else { route() };
        ZonesOf { host: self.of_host.get(host).copied().unwrap_or(NONE), route: route.unwrap_or(NONE) }
    }

    /// The index of a zone. The first are at `first`; behind `most` of them, all are one of `others`.
    fn index(&mut self, zone: Zone, first: usize, most: usize, others: impl FnOnce() -> Zone) -> u16 {
        let zone = match self.list[first..].contains(&zone) {
            false if self.list.len() - first >= most => others(),
            _ => zone,
        };
        let known = self.list[first..].iter().position(|other| *other == zone).map(|at| first + at);
        let at = known.unwrap_or_else(|| {
            self.list.push(zone);
            self.list.len() - 1
        });
        u16::try_from(at).unwrap_or(NONE)
    }
}

/// The name of a host in statistics.
fn name(names: &[String]) -> String {
    names.first().cloned().unwrap_or_else(|| "*".to_owned())
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;
    use crate::config;

    fn zones(statistics: &str) -> Option<Zones> {
        let text = format!(
            "listen = \"127.0.0.1:1\"\n{statistics}\n\
             [[host]]\nnames = [\"a.example\", \"b.example\"]\nroot = \"/a\"\n\
             [[host.route]]\npath = \"/x/\"\nroot = \"/x\"\n\
             [[host.route]]\npath = \"*.php\"\nreturn = 403\n\
             [[host]]\nnames = \"c.example\"\nroot = \"/c\"\n"
        );
        Zones::of(&config::of_text(&text))
    }

    fn of(zones: &Zones, host: usize, target: &str) -> Vec<String> {
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut store = FieldStore::new();
        let (head, _) = parse(text.as_bytes(), &mut store, &Limits::default())
            .expect("it is valid")
            .expect("it is complete");
        zones.find(host, Some(&head), None).indices().map(|at| zones.list()[at].to_string()).collect()
    }

    #[test]
    fn a_request_counts_for_its_host_and_for_the_route_of_its_path() {
        let zones = zones("[statistics]\nhosts = 10\nroutes = 10").expect("it counts");
        for (host, target, expected) in [
            (0, "/", ["host a.example", "route a.example /"]),
            (0, "/x/y", ["host a.example", "route a.example /x/"]),
            (0, "/x/y.php", ["host a.example", "route a.example *.php"]),
            (0, "/%78/../y.php", ["host a.example", "route a.example *.php"]),
            (1, "/x/y", ["host c.example", "route c.example /"]),
        ] {
            assert_eq!(of(&zones, host, target), expected, "{target}");
        }
        assert_eq!(of(&zones, 0, "/%00"), ["host a.example"], "it has no path");
        assert_eq!(zones.find(0, None, None), ZonesOf::NOTHING);
    }

    #[test]
    fn hosts_and_routes_above_the_limit_count_together() {
        let zones = zones("[statistics]\nhosts = 1\nroutes = 2").expect("it counts");
        for (host, target, expected) in [
            (0, "/", ["host a.example", "route a.example /"]),
            (0, "/x/y", ["host a.example", "route a.example /x/"]),
            (0, "/y.php", ["host a.example", "route (others) (others)"]),
            (1, "/", ["host (others)", "route (others) (others)"]),
        ] {
            assert_eq!(of(&zones, host, target), expected, "{target}");
        }
        assert_eq!(zones.list().len(), 5);
        for zone in zones.list() {
            assert_eq!(zone.to_string().parse().as_ref(), Ok(zone));
        }
    }

    #[test]
    fn counts_nothing_without_a_key_and_only_what_the_keys_say() {
        assert!(zones("").is_none());
        let hosts = zones("[statistics]\nhosts = 10").expect("it counts");
        assert_eq!(of(&hosts, 1, "/"), ["host c.example"]);
        let routes = zones("[statistics]\nroutes = 10").expect("it counts");
        assert_eq!(of(&routes, 1, "/"), ["route c.example /"]);
    }
}
