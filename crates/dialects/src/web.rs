//! Web servers whose configurations are converted: each of them is a file, and no flags count.

use std::path::Path;

use crate::Conversion;
use crate::disk::Disk;
#[cfg(not(feature = "web"))]
use crate::finding::Findings;
#[cfg(feature = "web")]
use crate::{apache, caddy, known::Known, lighttpd, nginx};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Web {
    Nginx,
    Apache,
    Lighttpd,
    Caddy,
}

impl Web {
    /// Its name in flags.
    pub const fn name(self) -> &'static str {
        match self {
            Web::Nginx => "nginx",
            Web::Apache => "apache",
            Web::Lighttpd => "lighttpd",
            Web::Caddy => "caddy",
        }
    }

    /// Whose file it is by its name, where only one server has files of that name.
    pub fn of_file(file: &Path) -> Option<Web> {
        match file.file_name()?.to_str()? {
            "nginx.conf" => Some(Web::Nginx),
            "apache2.conf" | ".htaccess" => Some(Web::Apache),
            "lighttpd.conf" => Some(Web::Lighttpd),
            "Caddyfile" => Some(Web::Caddy),
            _ => None,
        }
    }

    /// The directives that it knows. An option stands behind the directive that it belongs to.
    #[cfg(feature = "web")]
    pub fn names(self) -> Vec<String> {
        let all = |known: &Known| known.names().map(str::to_owned).collect();
        match self {
            Web::Nginx => all(&nginx::KNOWN),
            Web::Apache => all(&apache::KNOWN),
            Web::Lighttpd => all(&lighttpd::KNOWN),
            Web::Caddy => {
                let of = |place: &str, known: &Known| -> Vec<String> {
                    known.names().map(|name| format!("{place} {name}").trim_start().to_owned()).collect()
                };
                caddy::KNOWN.iter().flat_map(|(place, known)| of(place, known)).collect()
            }
        }
    }

    #[cfg(feature = "web")]
    pub fn convert(self, file: &Path, disk: &dyn Disk) -> Conversion {
        match self {
            Web::Nginx => nginx::convert(file, disk),
            Web::Apache => apache::convert(file, disk),
            Web::Lighttpd => lighttpd::convert(file, disk),
            Web::Caddy => caddy::convert(file, disk),
        }
    }

    /// A build without the feature knows none.
    #[cfg(not(feature = "web"))]
    pub fn names(self) -> Vec<String> {
        Vec::new()
    }

    #[cfg(not(feature = "web"))]
    pub fn convert(self, file: &Path, _: &dyn Disk) -> Conversion {
        let mut findings = Findings::default();
        let what = format!("this program has been built without the configurations of {}", self.name());
        findings.error(None, what, "build it with the feature convert");
        let findings = findings.into_sorted();
        Conversion { file: file.to_owned(), text: String::new(), lines: Vec::new(), findings }
    }
}
