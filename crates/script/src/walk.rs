//! Where the path of a script ends and its PATH_INFO begins (RFC 3875 §3.2). Knows nothing of what
//! stands on the disk: it says which paths to look at, one segment longer each time, and what follows
//! from what is seen there.

use taipan_http::target::SafePath;

/// A path in two: what may be a script, and what is behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split<'p> {
    /// Never asked as a folder.
    pub script: SafePath<'static>,
    /// Empty, or it begins with a slash.
    pub path_info: &'p str,
}

/// What stands under a path, as far as the walk needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file that may be run.
    Script,
    /// A regular file that may not.
    NotExecutable,
    Folder,
    /// A device, a socket, a pipe.
    Other,
    Missing,
}

/// The ways to split `path` beneath the folder of its first `count` segments, the shortest script first.
/// There are as many as there are segments, yet a walk needs only one more than there are folders.
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
