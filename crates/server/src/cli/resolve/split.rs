//! A file for each host. A host that is no name, and those beyond a limit, have a file together.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use report::entry::parse;

use super::append;
use super::names_file::Names;

/// Files that are open at the same time.
const MAX_FILES: usize = 500;
const OTHER: &str = "other";

pub struct Split {
    folder: PathBuf,
    files: HashMap<String, File>,
}

impl Split {
    pub fn new(folder: PathBuf) -> Result<Split, String> {
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Split { folder, files: HashMap::new() })
    }

    /// Appends each line to the file of its host.
    pub fn write(&mut self, block: &[u8], names: &Names) -> Result<(), String> {
        let mut parts: HashMap<String, Vec<u8>> = HashMap::new();
        for line in block.split_inclusive(|byte| *byte == b'\n') {
            let mut host = host_of(line);
            if !self.files.contains_key(&host)
                && !parts.contains_key(&host)
                && self.files.len() + parts.len() >= MAX_FILES
            {
                OTHER.clone_into(&mut host);
            }
            append(line, names, parts.entry(host).or_default());
        }
        for (host, lines) in parts {
            let path = self.folder.join(format!("{host}.log"));
            let failed = |error| format!("cannot write {}: {error}", path.display());
            let file = match self.files.entry(host) {
                std::collections::hash_map::Entry::Occupied(file) => file.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(File::options().create(true).append(true).open(&path).map_err(failed)?)
                }
            };
            file.write_all(&lines).map_err(failed)?;
        }
        Ok(())
    }
}

/// In lower case and without a port, so that it is the name of a file in the folder.
fn host_of(line: &[u8]) -> String {
    let trimmed = line.strip_suffix(b"\n").unwrap_or(line);
    let host = parse(trimmed).map(|entry| entry.host).unwrap_or_default();
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    match (1..=200).contains(&name.len()) && name.bytes().all(is_right) && !name.starts_with('.') {
        true => name.to_owned(),
        false => OTHER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_line_is_a_name_of_a_file() {
        let line = |host: &str| {
            format!("{host} 192.0.2.7 - - [20/Nov/2026:07:49:41 +0000] \"GET / HTTP/1.1\" 200 1\n")
        };
        for (host, expected) in [
            ("Example.ORG", "example.org"),
            ("example.org:443", "example.org"),
            ("../../etc/passwd", "other"),
            ("..", "other"),
            (".hidden", "other"),
            ("a/b", "other"),
            ("\\x00", "other"),
        ] {
            assert_eq!(host_of(line(host).as_bytes()), expected, "{host}");
        }
        assert_eq!(host_of(b"nonsense\n"), "other");
    }
}
