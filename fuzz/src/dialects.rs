//! Configurations of other servers. Each becomes TOML, whose lines know the lines that they come from; no value adds a
//! key, and a finding is one line.

use std::io;
use std::path::{Path, PathBuf};

use ::dialects::{Dialect, Disk, convert};
use site::config::{Source, load};

const FILE: &str = "/x/file";
/// Folders in one another: an endless tree would be most of the time.
const DEPTH: usize = 3;

/// The bytes are the file of each server, and every file that it names.
pub fn dialects(data: &[u8]) {
    for dialect in Dialect::ALL {
        let conversion = convert(&dialect.input(FILE.into()), &Machine(data));
        assert_eq!(conversion.text.lines().count(), conversion.lines.len());
        let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        assert!(conversion.lines.iter().flatten().all(|line| (1..=lines).contains(&u64::from(*line))));
        for finding in &conversion.findings {
            assert!(!finding.to_string().contains(char::is_control), "{finding:?}");
        }
        for error in load(Path::new(FILE), &Text(&conversion.text)).err().into_iter().flatten() {
            let is_of_syntax = error.what.contains("not valid TOML") || error.what.contains("unknown key");
            assert!(!is_of_syntax, "{error}\n{}", conversion.text);
        }
    }
}

struct Machine<'d>(&'d [u8]);

impl Disk for Machine<'_> {
    fn absolute(&self, path: &Path) -> PathBuf {
        Path::new("/here").join(path)
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.to_vec())
    }

    fn folders(&self, path: &Path) -> Vec<String> {
        if path.components().count() > DEPTH {
            return Vec::new();
        }
        ["192.0.2.1", "a.example", "a\"]\n"].map(str::to_owned).to_vec()
    }

    fn is_folder(&self, path: &Path) -> bool {
        !path.to_string_lossy().len().is_multiple_of(3)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.to_string_lossy().len().is_multiple_of(5)
    }
}

struct Text<'t>(&'t str);

impl Source for Text<'_> {
    fn read(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}
