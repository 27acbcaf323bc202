//! The hosts of a site, and the search for the host of an authority.
//!
//! Case, port and a last dot do not matter. A name wins over a wildcard, and a longer wildcard over a shorter one. An
//! unknown name has the default host, which is the first.
//!
//! Knows nothing of the routes of a host.

use std::cmp::Ordering;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use crate::model::Host;
use crate::route::Routes;
use crate::tls::HostTls;

/// Bytes of a host name (RFC 1035 §2.3.4). A longer name has the default host.
pub const MAX_NAME: usize = 253;

/// The hosts of a site, and the table of their names. A clone shares them: there may be thousands.
#[derive(Debug, Clone)]
pub struct Hosts {
    hosts: Arc<Vec<Host>>,
    names: Arc<Names>,
}

/// The names of the hosts, each with the index of its host.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// In lower case, in the order of `compare`.
    exact: Vec<(String, usize)>,
    /// The wildcards without their `*.`, in lower case and in the order of `compare`.
    wildcards: Vec<(String, usize)>,
}

/// What is wrong with the hosts of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostsError {
    /// There is no default host.
    None,
    DuplicateName(String),
}

impl Hosts {
    pub fn new(hosts: Vec<Host>) -> Result<Hosts, HostsError> {
        if hosts.is_empty() {
            return Err(HostsError::None);
        }
        let (mut names, mut wildcards) = (Vec::new(), Vec::new());
        for (index, host) in hosts.iter().enumerate() {
            for name in &host.names {
                match name.strip_prefix("*.") {
                    Some(rest) => wildcards.push((rest.to_ascii_lowercase(), index)),
                    None => names.push((name.to_ascii_lowercase(), index)),
                }
            }
        }
        names.sort_by(|(one, _), (other, _)| compare(one, other.as_bytes()));
        wildcards.sort_by(|(one, _), (other, _)| compare(one, other.as_bytes()));
        let duplicate = |table: &[(String, usize)]| {
            table.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0.clone())
        };
        match (duplicate(&names), duplicate(&wildcards)) {
            (Some(name), _) => Err(HostsError::DuplicateName(name)),
            (None, Some(rest)) => Err(HostsError::DuplicateName(format!("*.{rest}"))),
            (None, None) => {
                let names = Arc::new(Names { exact: names, wildcards });
                Ok(Hosts { hosts: Arc::new(hosts), names })
            }
        }
    }

    /// One host for every name.
    pub fn only(host: Host) -> Hosts {
        let host = Host { names: Vec::new(), ..host };
        Hosts { hosts: Arc::new(vec![host]), names: Arc::default() }
    }

    /// The index of the host for `authority`. Allocates nothing.
    pub fn find(&self, authority: &[u8]) -> usize {
        if self.hosts.len() == 1 {
            return 0;
        }
        self.names.find(name_of(authority)).unwrap_or(0)
    }

    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The host at an index of [`Hosts::find`]. The default host for any other index.
    pub fn at(&self, index: usize) -> &Host {
        self.hosts.get(index).unwrap_or(&self.hosts[0])
    }

    /// The names of the hosts cannot change: they are in the table.
    pub fn routes_mut(&mut self) -> impl Iterator<Item = &mut Routes> {
        Arc::make_mut(&mut self.hosts).iter_mut().map(|host| &mut host.routes)
    }

    /// The folders, interpreters and files of all hosts. New ones change nothing else.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        Arc::make_mut(&mut self.hosts).iter_mut().flat_map(Host::paths_mut)
    }

    pub fn tls_mut(&mut self) -> impl Iterator<Item = &mut HostTls> {
        Arc::make_mut(&mut self.hosts).iter_mut().map(|host| &mut host.tls)
    }
}

impl Names {
    /// The index of the host with this name, which has no port and no last dot. Allocates nothing.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        match name.len() {
            ..=MAX_NAME => search(&self.exact, name).or_else(|| self.wildcard(name)),
            _ => None,
        }
    }

    fn wildcard(&self, name: &[u8]) -> Option<usize> {
        if self.wildcards.is_empty() {
            return None;
        }
        // At most 252 dots (`MAX_NAME`).
        let mut dots = (1..name.len()).filter(|dot| name[*dot] == b'.');
        dots.find_map(|dot| search(&self.wildcards, &name[dot + 1..]))
    }
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

fn search(table: &[(String, usize)], name: &[u8]) -> Option<usize> {
    table.binary_search_by(|(known, _)| compare(known, name)).ok().map(|at| table[at].1)
}

/// By length first, since most names differ in it. `known` is in lower case.
fn compare(known: &str, name: &[u8]) -> Ordering {
    let letters = || known.bytes().cmp(name.iter().map(u8::to_ascii_lowercase));
    known.len().cmp(&name.len()).then_with(letters)
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
            ("[::1]", 2),
            ("[::1]:443", 2),
            ("]", 0),
        ] {
            assert_eq!(hosts.find(authority.as_bytes()), expected, "{authority}");
        }
        assert_eq!(hosts.find(format!("{}example.org", "a.".repeat(300)).as_bytes()), 0);
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
