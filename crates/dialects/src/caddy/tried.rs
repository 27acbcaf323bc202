//! What `try_files` looks for.

use super::responses::{Seen, rewritten, template};

/// The parts of `try_files`.
pub struct Tried {
    /// As in `try_suffixes`.
    pub suffixes: Vec<String>,
    /// The path that responds where nothing is found.
    pub target: Option<String>,
    /// Whether the path itself is looked for first.
    pub is_path_first: bool,
    /// Whether the folder of the path is looked for.
    pub has_folders: bool,
    /// Whether that is so without an index file, too.
    pub has_bare_folders: bool,
    /// A status responds where nothing is found.
    pub is_status: bool,
}

/// Index files, which are looked for in any case. A script is one where something runs it, and is not sent elsewhere.
const INDEX: [&str; 2] = ["/index.html", "/index.php"];

/// `None`: it cannot be said.
pub fn tried(arguments: &[String]) -> Option<Tried> {
    let mut tried = Tried {
        suffixes: Vec::new(),
        target: None,
        is_path_first: false,
        has_folders: false,
        has_bare_folders: false,
        is_status: false,
    };
    for (at, part) in arguments.iter().enumerate() {
        match (part.as_str(), part.strip_prefix("{path}")) {
            ("{path}", _) => tried.is_path_first |= tried.suffixes.is_empty(),
            ("{path}/", _) => {
                tried.suffixes.push("/".to_owned());
                tried.has_folders = true;
                tried.has_bare_folders = true;
            }
            (_, Some(end)) if INDEX.contains(&end) => tried.has_folders = true,
            (_, Some(end)) if is_suffix(end) => tried.suffixes.push(end.to_owned()),
            ("=404", _) if at + 1 == arguments.len() => tried.is_status = true,
            (target, _) if at + 1 == arguments.len() => tried.target = Some(fallback(target)?),
            _ => return None,
        }
    }
    // The folder comes last in any case.
    let last = tried.suffixes.iter().rposition(|suffix| suffix != "/");
    tried.suffixes.truncate(last.map_or(0, |last| last + 1));
    Some(tried)
}

/// Whether it is the end of a name.
fn is_suffix(end: &str) -> bool {
    end.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// A path of the host, and perhaps a query.
fn fallback(target: &str) -> Option<String> {
    let has_plain_path =
        |to: &String| to.starts_with('/') && to.split('?').next().is_some_and(|path| !path.contains('$'));
    template(target, &Seen::default()).and_then(|to| rewritten(&to)).filter(has_plain_path)
}
