//! Media types: the file of `MimeTypes`, and `AddType`. Boa compares extensions with their case, and of two types of
//! one extension the first counts.

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
                words.for_each(|extension| _ = self.add(extension, media_type, line));
            }
        }
    }

    /// Errors: the extension has another type already. That one, and its line.
    pub fn add(
        &mut self,
        extension: &str,
        media_type: &str,
        line: Option<u32>,
    ) -> Result<(), (&str, Option<u32>)> {
        let extension = extension.trim_start_matches('.');
        if extension.is_empty() {
            return Ok(());
        }
        let added = || (media_type.to_owned(), line);
        let (first, at) = self.0.entry(extension.to_owned()).or_insert_with(added);
        if first == media_type { Ok(()) } else { Err((first, *at)) }
    }

    /// The extensions of scripts.
    pub fn scripts(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        let scripts = self.0.iter().filter(|(_, (media_type, _))| media_type == SCRIPT);
        scripts.map(|(extension, (_, line))| (extension.as_str(), *line))
    }

    /// The types that differ from the built-in ones, by extension. Types have no case here: of two extensions that
    /// differ by it, the one in small letters counts.
    pub fn differing(&self) -> impl Iterator<Item = (String, &str, Option<u32>)> {
        let mut all: BTreeMap<String, (&str, Option<u32>)> = BTreeMap::new();
        for (extension, (media_type, line)) in self.0.iter().filter(|(_, (own, _))| own != SCRIPT) {
            let small = extension.to_ascii_lowercase();
            let is_small = small == *extension;
            let known = all.entry(small).or_insert((media_type, *line));
            if is_small {
                *known = (media_type, *line);
            }
        }
        let differs =
            |extension: &str, media_type: &str| builtin_type(&format!("x.{extension}")) != Some(media_type);
        all.into_iter()
            .filter(move |(extension, (media_type, _))| differs(extension, media_type))
            .map(|(extension, (media_type, line))| (extension, media_type, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_type_of_an_extension_counts_with_its_case() {
        let mut types = Types::default();
        types.add_file(b"text/x-perl pl\ntext/x-c c\ntext/x-c++ C\n", Some(1));
        assert_eq!(types.add(".CGI", SCRIPT, Some(2)), Ok(()));
        assert_eq!(types.add("CGI", SCRIPT, Some(3)), Ok(()));
        assert_eq!(types.add("CGI", "text/x-own", Some(4)), Err((SCRIPT, Some(2))));
        assert_eq!(types.add("cgi", "text/x-own", Some(5)), Ok(()));
        assert_eq!(types.add("pl", SCRIPT, Some(6)), Err(("text/x-perl", Some(1))));
        assert_eq!(types.scripts().collect::<Vec<_>>(), [("CGI", Some(2))]);
        let differing: Vec<String> =
            types.differing().map(|(extension, media_type, _)| format!("{extension} {media_type}")).collect();
        assert_eq!(differing, ["c text/x-c", "cgi text/x-own", "pl text/x-perl"]);
    }
}
