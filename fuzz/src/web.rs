//! Configurations of nginx, Apache, lighttpd and Caddy. Each file includes itself as often as it asks for a file.

use std::io;
use std::path::{Path, PathBuf};

use dialects::{Disk, Web};

/// One file, which has every name.
struct OneFile<'d>(&'d [u8]);

impl Disk for OneFile<'_> {
    fn absolute(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.to_vec())
    }

    fn folders(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }

    fn is_folder(&self, _: &Path) -> bool {
        false
    }

    fn is_file(&self, _: &Path) -> bool {
        true
    }
}

pub fn nginx(data: &[u8]) {
    check(Web::Nginx, data);
}

pub fn lighttpd(data: &[u8]) {
    check(Web::Lighttpd, data);
}

pub fn apache(data: &[u8]) {
    check(Web::Apache, data);
}

pub fn caddyfile(data: &[u8]) {
    check(Web::Caddy, data);
}

fn check(web: Web, data: &[u8]) {
    let conversion = web.convert(Path::new("/etc/server/conf"), &OneFile(data));
    assert_eq!(conversion.text.lines().count(), conversion.lines.len(), "each line has its origin");
    assert!(conversion.findings.len() <= 1000);
    for finding in &conversion.findings {
        assert!(!finding.what.is_empty() && !finding.what_to_do.is_empty());
    }
    let last = u32::try_from(data.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u32::MAX) + 1;
    assert!(conversion.lines.iter().flatten().all(|line| (1..=last).contains(line)), "a line of the file");
}
