//! The hosts that an administrator has switched to maintenance, by their names, which may be those of several
//! configurations. Their requests get 503.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::model::Site;

/// The name of the host that has none.
pub const DEFAULT_HOST: &str = "default";
/// Hosts that are remembered.
const MOST: usize = 100;

/// For each name, after how many seconds clients may try again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Maintenance {
    hosts: BTreeMap<String, u32>,
}

impl Maintenance {
    /// `None`: the host serves again. Errors: there are too many.
    pub fn set(&mut self, host: &str, retry_after: Option<u32>) -> Result<(), String> {
        match retry_after {
            None => _ = self.hosts.remove(host),
            Some(_) if self.hosts.len() >= MOST && !self.hosts.contains_key(host) => {
                return Err(format!("{MOST} hosts are in maintenance already"));
            }
            Some(seconds) => _ = self.hosts.insert(host.to_owned(), seconds),
        }
        Ok(())
    }

    /// By their indexes, with the seconds. Names that a site does not have are left out.
    pub fn of(&self, site: &Site) -> Vec<(usize, u32)> {
        let found = self.hosts.iter().map(|(name, seconds)| Some((host(site, name)?, *seconds)));
        found.flatten().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.hosts.iter().map(|(name, seconds)| (&**name, *seconds))
    }

    /// A line for each host.
    pub fn to_text(&self) -> String {
        self.hosts.iter().fold(String::new(), |mut text, (name, seconds)| {
            _ = writeln!(text, "{seconds} {name}");
            text
        })
    }

    /// What is no line of `to_text` is left out.
    pub fn from_text(text: &str) -> Maintenance {
        let line = |line: &str| {
            let (seconds, name) = line.split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        Maintenance { hosts: text.lines().filter_map(line).take(MOST).collect() }
    }
}

/// The index of the host with this name, as the configuration writes it.
pub fn host(site: &Site, name: &str) -> Option<usize> {
    let is_named = |own: &String| own.eq_ignore_ascii_case(name);
    let named = site.hosts.iter().position(|host| host.names.iter().any(is_named));
    // The first host is the default one.
    named.or_else(|| (name == DEFAULT_HOST).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_hosts_by_their_names() {
        let mut maintenance = Maintenance::default();
        maintenance.set("default", Some(60)).unwrap();
        maintenance.set("a.example", Some(300)).unwrap();
        assert_eq!(Maintenance::from_text(&maintenance.to_text()), maintenance);
        let site = Site::folder("/srv".into(), Vec::new());
        assert_eq!(maintenance.of(&site), [(0, 60)]);
        maintenance.set("default", None).unwrap();
        assert_eq!(maintenance.of(&site), []);
        assert_eq!(Maintenance::from_text("x\n5\n7 a b\n-1 c\n").to_text(), "7 a b\n");
    }

    #[test]
    fn has_a_bound() {
        let mut maintenance = Maintenance::default();
        for number in 0..MOST {
            maintenance.set(&number.to_string(), Some(1)).unwrap();
        }
        assert!(maintenance.set("x", Some(1)).is_err());
        maintenance.set("0", Some(2)).unwrap();
        maintenance.set("0", None).unwrap();
        maintenance.set("x", Some(1)).unwrap();
    }
}
