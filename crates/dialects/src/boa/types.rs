//! Media types: the file of `MimeTypes`, and `AddType`.

use std::collections::BTreeMap;

use site::mime::builtin_type;

use crate::words;

/// Boa runs files of this type.
const SCRIPT: &str = "application/x-httpd-cgi";

/// The types of extensions.
#[derive(Debug, Default)]
pub struct Types(BTreeMap<String, (String, Option<u32>)>);

impl Types {
    /// The lines of a file as /etc/mime.types: a type and its extensions.
    pub fn add_file(&mut self, bytes: &[u8], line: Option<u32>) {
        for (_, text) in words::lines_without_comments(bytes) {
            let mut words = text.unwrap_or_default().split_whitespace();
            if let Some(media_type) = words.next() {
                words.for_each(|extension| self.add(extension, media_type, line));
            }
        }
    }

    pub fn add(&mut self, extension: &str, media_type: &str, line: Option<u32>) {
        let extension = extension.trim_start_matches('.').to_ascii_lowercase();
        if !extension.is_empty() {
            self.0.insert(extension, (media_type.to_owned(), line));
        }
    }

    /// The extensions of scripts.
    pub fn scripts(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        let scripts = self.0.iter().filter(|(_, (media_type, _))| media_type == SCRIPT);
        scripts.map(|(extension, (_, line))| (extension.as_str(), *line))
    }

    /// The types that differ from the built-in ones, by extension.
    pub fn differing(&self) -> impl Iterator<Item = (&str, &str, Option<u32>)> {
        let differs = |extension: &str, media_type: &str| {
            media_type != SCRIPT && builtin_type(&format!("x.{extension}")) != Some(media_type)
        };
        self.0
            .iter()
            .filter(move |(extension, (media_type, _))| differs(extension, media_type))
            .map(|(extension, (media_type, line))| (extension.as_str(), media_type.as_str(), *line))
    }
}
