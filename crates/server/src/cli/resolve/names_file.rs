//! The names that are known, and the file that keeps them between runs: a line for each address, with the second since
//! 1970 until which it is used, and the name, or `-` if there is none.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::cli::output_file;
use crate::clock;
use crate::resolver::is_host_name;

/// Addresses that are known at the same time.
const MAX: usize = 1_000_000;
/// Bytes of the file.
const MAX_FILE: u64 = 512 << 20;
/// Logs are read later than they were written, so that a name may be older than its time to live.
const MIN_TIME: Duration = Duration::from_secs(3600);
const MAX_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Default)]
pub struct Names {
    /// `None`: the address has no name.
    known: HashMap<IpAddr, (u64, Option<Box<str>>)>,
}

impl Names {
    /// A missing file has no names. Lines that are none are left out.
    pub fn read(path: &Path) -> Result<Names, String> {
        let failed = |error: io::Error| format!("cannot read the names in {}: {error}", path.display());
        let text = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Names::default()),
            Ok(found) if !found.is_file() => {
                return Err(format!("cannot read the names in {}: it is not a regular file", path.display()));
            }
            Ok(found) if found.len() > MAX_FILE => return Err(format!("{} is too large", path.display())),
            _ => String::from_utf8_lossy(&fs::read(path).map_err(failed)?).into_owned(),
        };
        let now = now();
        let line = |line: &str| {
            let mut words = line.split(' ');
            let address = words.next()?.parse().ok()?;
            let until = words
                .next()?
                .parse()
                .ok()
                .filter(|until| (now..=now + MAX_TIME.as_secs()).contains(until))?;
            let name = words.next().filter(|name| *name == "-" || is_host_name(name))?;
            Some((address, (until, (name != "-").then(|| name.into()))))
        };
        Ok(Names { known: text.lines().filter_map(line).take(MAX).collect() })
    }

    /// A reader sees the old file or the new one.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write the names into {}: {error}", path.display());
        let mut text = String::new();
        for (address, (until, name)) in &self.known {
            text.push_str(&format!("{address} {until} {}\n", name.as_deref().unwrap_or("-")));
        }
        output_file::write(path, text.as_bytes()).map_err(failed)
    }

    pub fn has(&self, address: IpAddr) -> bool {
        self.known.contains_key(&address)
    }

    pub fn name(&self, address: IpAddr) -> Option<&str> {
        self.known.get(&address)?.1.as_deref()
    }

    /// A name that could break a line is none.
    pub fn insert(&mut self, address: IpAddr, name: Option<String>, ttl: Duration) {
        if self.known.len() >= MAX {
            self.known.clear();
        }
        let name = name.filter(|name| is_host_name(name)).map(String::into_boxed_str);
        self.known.insert(address, (now() + ttl.clamp(MIN_TIME, MAX_TIME).as_secs(), name));
    }
}

fn now() -> u64 {
    u64::try_from(clock::wall()).unwrap_or(0)
}
