//! `Options` and `AllowOverride`.

use crate::tree::Directive;

/// What is allowed in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub indexes: bool,
    pub exec_cgi: bool,
    pub follow: bool,
    pub follow_owner: bool,
    pub includes: bool,
    pub multi_views: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { follow: true, ..Options::NONE }
    }
}

impl Options {
    const NONE: Options = Options {
        indexes: false,
        exec_cgi: false,
        follow: false,
        follow_owner: false,
        includes: false,
        multi_views: false,
    };

    /// With `+` and `-`, these are changed; without, only what is named remains. `None`: there is no such option.
    pub fn changed(self, words: &[String]) -> Option<Options> {
        let is_relative = words.iter().all(|word| word.starts_with(['+', '-']));
        let mut options = if is_relative { self } else { Options::NONE };
        for word in words {
            let is_on = !word.starts_with('-');
            match word.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
                "indexes" => options.indexes = is_on,
                "execcgi" => options.exec_cgi = is_on,
                "followsymlinks" => options.follow = is_on,
                "symlinksifownermatch" => options.follow_owner = is_on,
                "includes" | "includesnoexec" => options.includes = is_on,
                "multiviews" => options.multi_views = is_on,
                "all" => {
                    options = Options {
                        indexes: is_on,
                        exec_cgi: is_on,
                        follow: is_on,
                        includes: is_on,
                        ..options
                    };
                }
                "none" => options = Options::NONE,
                _ => return None,
            }
        }
        Some(options)
    }

    /// Whether it takes ExecCGI away. `None`: it remains as it is around.
    pub fn forbid_cgi(words: &[String]) -> Option<bool> {
        let is_about = |word: &&String| {
            let name = word.trim_start_matches(['+', '-']);
            ["execcgi", "all", "none"].iter().any(|own| name.eq_ignore_ascii_case(own))
        };
        let is_none = |word: &String| word.eq_ignore_ascii_case("none");
        let is_relative = words.iter().all(|word| word.starts_with(['+', '-']));
        let last = words.iter().rfind(is_about).map(|word| word.starts_with('-') || is_none(word));
        last.or((!is_relative).then_some(true))
    }

    /// As in `try_suffixes`: MultiViews looks for names where nothing is.
    pub fn suffixes(self) -> Vec<String> {
        let all: &[&str] = if self.multi_views { &["/", ".html"] } else { &[] };
        all.iter().map(|suffix| (*suffix).to_owned()).collect()
    }

    /// As in `symlinks`.
    pub fn symlinks(self) -> &'static str {
        match (self.follow_owner, self.follow) {
            (true, _) => "owner",
            (false, true) => "follow",
            (false, false) => "never",
        }
    }
}

/// What a section says: all options, or changes of those that are around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenOptions {
    whole: Option<Options>,
    /// Words with `+` and `-`. They change `whole`, or else what is around.
    changes: Vec<String>,
}

impl GivenOptions {
    /// The options that a directive leads to, as far as the section tells. `None`: there is no such option.
    pub fn add(&mut self, words: &[String]) -> Option<Options> {
        Options::NONE.changed(words)?;
        if words.iter().all(|word| word.starts_with(['+', '-'])) {
            self.changes.extend(words.iter().cloned());
        } else {
            *self = GivenOptions { whole: Options::NONE.changed(words), changes: Vec::new() };
        }
        Some(self.resolved())
    }

    /// Those of a section within another one.
    pub fn within(&self, outer: &GivenOptions) -> GivenOptions {
        match self.whole {
            Some(_) => self.clone(),
            None => GivenOptions {
                whole: outer.whole,
                changes: [outer.changes.as_slice(), &self.changes].concat(),
            },
        }
    }

    /// Whether folders are listed. `None`: it remains as it is around.
    pub fn indexes(&self) -> Option<bool> {
        let of = |around: Options| around.changed(&self.changes).map(|options| options.indexes);
        let (without, with) = (of(Options::NONE)?, of(Options { indexes: true, ..Options::NONE })?);
        match self.whole {
            Some(_) => Some(self.resolved().indexes),
            None => (without == with).then_some(without),
        }
    }

    pub fn resolved(&self) -> Options {
        let whole = self.whole.unwrap_or_default();
        whole.changed(&self.changes).unwrap_or(whole)
    }
}

/// What `.htaccess` files may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overrides {
    auth: bool,
    files: bool,
    indexes: bool,
    limit: bool,
    options: bool,
}

impl Overrides {
    pub const ALL: Overrides =
        Overrides { auth: true, files: true, indexes: true, limit: true, options: true };

    pub fn parse(words: &[String]) -> Overrides {
        let mut overrides = Overrides::default();
        for word in words {
            match word.split('=').next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "all" => overrides = Overrides::ALL,
                "authconfig" => overrides.auth = true,
                "fileinfo" => overrides.files = true,
                "indexes" => overrides.indexes = true,
                "limit" => overrides.limit = true,
                "options" => overrides.options = true,
                _ => {}
            }
        }
        overrides
    }

    pub fn is_none(self) -> bool {
        self == Overrides::default()
    }

    pub fn allows(self, directive: &Directive) -> bool {
        match directive.name.as_str() {
            "files" | "filesmatch" | "limit" | "limitexcept" | "requireall" | "requireany"
            | "requirenone" => true,
            "order" | "allow" | "deny" => self.limit,
            "options" => self.options,
            name if name.starts_with("auth") || name.starts_with("require") || name == "satisfy" => self.auth,
            name if name.starts_with("expires") || name.starts_with("index") => self.indexes,
            "directoryindex" | "addicon" | "adddescription" | "readmename" | "headername"
            | "fallbackresource" => self.indexes,
            _ => self.files,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_options_or_replaces_them() {
        let change = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            Options::default().changed(&words)
        };
        assert_eq!(change("Indexes").map(|options| (options.indexes, options.follow)), Some((true, false)));
        assert_eq!(change("+Indexes").map(|options| (options.indexes, options.follow)), Some((true, true)));
        assert_eq!(change("-FollowSymLinks").map(Options::symlinks), Some("never"));
        assert_eq!(change("None").map(Options::symlinks), Some("never"));
        assert_eq!(change("+SymLinksIfOwnerMatch").map(Options::symlinks), Some("owner"));
        assert_eq!(change("Nothing"), None);
    }
}
