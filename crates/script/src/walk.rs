//! The ways to divide a path into a script and its PATH_INFO (RFC 3875 §3.2). Knows nothing of the file system: the
//! caller looks up the candidates, each a segment longer than the one before, and reports the result as `FileKind`.

use taipan_http::target::SafePath;

/// A path divided into the candidate for a script and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split<'p> {
    /// Without a slash at its end.
    pub script: SafePath<'static>,
    /// Empty, or begins with a slash.
    pub path_info: &'p str,
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file that the server may run.
    Script,
    /// A regular file that it may not.
    NotExecutable,
    Folder,
    /// A device, a socket or a pipe.
    Other,
    Missing,
}

/// The ways to split `path` below the folder of its first `count` segments, the shortest script first. There is one
/// for each further segment. A caller that stops at the first file looks up one candidate more than there are folders.
pub fn splits<'p>(path: &'p SafePath, count: usize) -> impl Iterator<Item = Split<'p>> {
    let text = path.as_str();
    let ends = text.match_indices('/').map(|(at, _)| at).chain((!path.is_folder()).then_some(text.len()));
    ends.enumerate().skip(count).filter_map(move |(at, end)| {
        let name = text[..end].rsplit('/').next()?;
        Some(Split { script: path.first_segments(at)?.join(name)?, path_info: &text[end..] })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn script_and_path_info_are_the_path(
            segments in prop::collection::vec("[a-zé .]{0,3}x", 0..6),
            slash in prop::sample::select(vec!["", "/"]),
            count in 0usize..8,
        ) {
            let raw: String = segments.iter().flat_map(|segment| ["/", segment]).collect();
            let raw = raw.replace('é', "%C3%A9").replace(' ', "%20");
            let raw = if raw.is_empty() { "/".to_owned() } else { raw + slash };
            let path = SafePath::parse(&raw).unwrap();
            let all: Vec<_> = splits(&path, count).collect();
            prop_assert_eq!(all.len(), segments.len().saturating_sub(count));
            for (at, split) in all.iter().enumerate() {
                prop_assert_eq!([split.script.as_str(), split.path_info].concat(), path.as_str());
                prop_assert_eq!(split.script.segments().count(), count + at + 1);
                prop_assert!(!split.script.is_folder());
                prop_assert!(split.path_info.is_empty() || split.path_info.starts_with('/'));
            }
        }
    }
}
