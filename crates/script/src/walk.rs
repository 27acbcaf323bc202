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
pub enum Stands {
    /// A regular file that may be run.
    Script,
    /// A regular file that may not.
    Locked,
    Folder,
    /// A device, a socket, a pipe.
    Other,
    Nothing,
}

/// Where the walk ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'p> {
    Script(Split<'p>),
    /// What is there may not be run.
    Denied(Split<'p>),
    /// Every segment is a folder; an index script may stand in it.
    Folder,
    Missing,
}

/// The ways to split `path` beneath the folder of its first `count` segments, the shortest script first.
/// There are as many as there are segments, yet a walk needs only one more than there are folders.
pub fn splits<'p>(path: &'p SafePath, count: usize) -> impl Iterator<Item = Split<'p>> {
    let text = path.as_str();
    let ends = text.match_indices('/').map(|(at, _)| at).chain((!path.is_folder()).then_some(text.len()));
    ends.enumerate().skip(count).filter_map(move |(at, end)| {
        let name = text[..end].rsplit('/').next()?;
        Some(Split { script: path.first(at)?.join(name)?, path_info: &text[end..] })
    })
}

/// Walks down to the first thing that is no folder.
pub fn walk<'p>(path: &'p SafePath, count: usize, mut look: impl FnMut(&SafePath) -> Stands) -> Verdict<'p> {
    for split in splits(path, count) {
        match look(&split.script) {
            Stands::Folder => continue,
            Stands::Script => return Verdict::Script(split),
            Stands::Locked | Stands::Other => return Verdict::Denied(split),
            Stands::Nothing => return Verdict::Missing,
        }
    }
    Verdict::Folder
}

/// Whether a script of this name says that it writes the whole reply itself (RFC 3875 §5: how a server
/// tells is its own affair; all of them have taken `nph-`).
pub fn is_nph(name: &str) -> bool {
    name.starts_with("nph-")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walked(raw: &str, count: usize, disk: &[(&str, Stands)]) -> String {
        let path = SafePath::parse(raw).unwrap();
        let look = |path: &SafePath| {
            let stands = disk.iter().find(|(name, _)| *name == path.as_str());
            stands.map_or(Stands::Nothing, |(_, stands)| *stands)
        };
        match walk(&path, count, look) {
            Verdict::Script(split) => format!("{} + {}", split.script.as_str(), split.path_info),
            Verdict::Denied(split) => format!("denied {}", split.script.as_str()),
            Verdict::Folder => "folder".into(),
            Verdict::Missing => "missing".into(),
        }
    }

    #[test]
    fn the_first_that_is_no_folder_is_the_script() {
        let disk = [
            ("bin", Stands::Folder),
            ("bin/a.cgi", Stands::Script),
            ("bin/text", Stands::Locked),
            ("bin/pipe", Stands::Other),
            ("bin/more", Stands::Folder),
            ("bin/more/b", Stands::Script),
        ];
        let check = |raw, expected: &str| assert_eq!(walked(raw, 0, &disk), expected, "{raw}");
        check("/bin/a.cgi", "bin/a.cgi + ");
        check("/bin/a.cgi/", "bin/a.cgi + /");
        check("/bin/a.cgi/x", "bin/a.cgi + /x");
        check("/bin/a.cgi/x/y/", "bin/a.cgi + /x/y/");
        check("/bin/a.cgi//x%2520/../y", "bin/a.cgi + /y");
        check("/bin/more/b/more/b", "bin/more/b + /more/b");
        check("/bin/text", "denied bin/text");
        check("/bin/text/x", "denied bin/text");
        check("/bin/pipe", "denied bin/pipe");
        check("/bin", "folder");
        check("/bin/", "folder");
        check("/bin/more/", "folder");
        check("/", "folder");
        check("/bin/none", "missing");
        check("/bin/none/a.cgi", "missing");
        check("/none/bin/a.cgi", "missing");
    }

    #[test]
    fn the_folders_of_a_route_are_not_looked_at() {
        let disk = [("bin", Stands::Script), ("bin/a", Stands::Script)];
        assert_eq!(walked("/bin/a/b", 0, &disk), "bin + /a/b");
        assert_eq!(walked("/bin/a/b", 1, &disk), "bin/a + /b");
        assert_eq!(walked("/bin/a/b", 3, &disk), "folder");
        assert_eq!(walked("/bin/a/b", 9, &disk), "folder");
    }

    #[test]
    fn one_look_for_each_folder_and_one_more() {
        let path = format!("/{}", "a/".repeat(2000));
        let path = SafePath::parse(&path).unwrap();
        let mut looks = 0;
        let verdict = walk(&path, 0, |path| {
            looks += 1;
            if path.as_str() == "a" { Stands::Folder } else { Stands::Nothing }
        });
        assert_eq!((verdict, looks), (Verdict::Missing, 2));
    }

    #[test]
    fn names_of_whole_replies() {
        for (name, whole) in [("nph-a.cgi", true), ("nph-", true), ("nph", false), ("a-nph-", false)] {
            assert_eq!(is_nph(name), whole, "{name}");
        }
    }

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
