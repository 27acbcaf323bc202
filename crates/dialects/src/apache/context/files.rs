//! Files: which ones there are, and how they are sent.

use crate::apache::options::{GivenOptions, Options, Overrides};
use crate::apache::paths;
use crate::document::Value;
use crate::draft::Draft;
use crate::tree::{Directive, unconverted};

use super::{Context, Reading};

impl Context {
    /// The directive, if it is about files. `false`: it is another one.
    pub(super) fn add_file(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) -> bool {
        let place = &directive.place;
        let first = directive.argument(0);
        match directive.name.as_str() {
            "options" => self.add_options(directive, draft),
            "allowoverride" => self.overrides = Some(Overrides::parse(&directive.arguments)),
            "allowoverridelist" if first.eq_ignore_ascii_case("none") => {}
            "files" | "filesmatch" => self.files(directive, reading, draft),
            "directoryindex" if first.eq_ignore_ascii_case("disabled") => {
                self.keys.set(place, "index", Vec::<String>::new());
            }
            "directoryindex" => {
                let names: Vec<String> =
                    directive.arguments.iter().filter(|name| !name.contains('/')).cloned().collect();
                if names.len() < directive.arguments.len() {
                    draft.warn(place, "an index is a name, and not a path", "see fallback");
                }
                self.keys.set(place, "index", names);
            }
            "directoryslash" => {
                draft.note(place, "folders without a slash are redirected in any case", "nothing to do");
            }
            "fallbackresource" if first.eq_ignore_ascii_case("disabled") => {
                self.keys.set(place, "fallback", false)
            }
            "fallbackresource" => {
                self.keys.set(place, "fallback", first);
                self.keys.set(place, "fallback_for", "all");
            }
            "addtype" if first.starts_with("application/x-httpd-") => self.php(directive, draft),
            "addtype" => {
                for extension in directive.arguments.iter().skip(1) {
                    self.keys.pair(place, "types", extension.trim_start_matches('.'), first);
                }
            }
            "forcetype" | "defaulttype" if first.eq_ignore_ascii_case("none") => {}
            "defaulttype" => self.keys.set(place, "default_type", first),
            "adddefaultcharset" => match first.to_ascii_lowercase().as_str() {
                "off" => self.keys.set(place, "charset", false),
                "on" => self.keys.set(place, "charset", "iso-8859-1"),
                _ => self.keys.set(place, "charset", first),
            },
            "errordocument" => self.error_document(directive, draft),
            "limitrequestbody" => match first.parse::<i64>() {
                Ok(0) => self.keys.set(place, "max_body", "1TiB"),
                Ok(bytes) => self.keys.set(place, "max_body", bytes.clamp(1, 1 << 40)),
                Err(_) => draft.error(place, unconverted(directive), "write a number"),
            },
            // `.??*`, as Debian has it; `*` leaves nothing to list.
            "indexignore" if directive.arguments.iter().any(|name| name == "*") => {
                _ = self.options.add(&["-Indexes".to_owned()]);
            }
            "indexignore" if directive.arguments.iter().any(|name| name.starts_with('.')) => {
                self.keys.set(place, "dotfiles", "unlisted");
            }
            "indexignore" => {}
            "setoutputfilter" | "addoutputfilterbytype" if is_coding(first) => {
                self.compress(directive);
            }
            _ => return false,
        }
        true
    }

    fn add_options(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let Some(options) = self.options.add(&directive.arguments) else {
            return draft.error(place, unconverted(directive), "remove it");
        };
        if options.includes {
            draft.warn(place, "Includes: pages are sent as they are", "see the manual on SSI");
        }
        if options.multi_views {
            let what = "MultiViews: of the extensions, .html alone is looked for";
            draft.warn(place, what, "add others, such as .php, to try_suffixes; see languages");
        }
        self.forbids_cgi = Options::forbid_cgi(&directive.arguments).unwrap_or(self.forbids_cgi);
    }

    /// Adds types to those of earlier directives. Without any, all that are compressed by default are.
    fn compress(&mut self, directive: &Directive) {
        self.keys.set(&directive.place, "compress", true);
        let mut types = match self.keys.get("compress_types") {
            Some(Value::Texts(types)) => types.clone(),
            _ => Vec::new(),
        };
        types.extend(directive.arguments.iter().skip(1).cloned());
        if !types.is_empty() {
            self.keys.set(&directive.place, "compress_types", types);
        }
    }

    fn files(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) {
        let patterns = paths::files(&directive.arguments, directive.name == "filesmatch");
        let is_copy = |pattern: &String| pattern.ends_with(".gz") || pattern.ends_with(".br");
        let are_copies = patterns.as_ref().is_some_and(|all| all.iter().all(is_copy));
        // A copy has it where it stands for its file.
        let is_needless = |child: &Directive| {
            are_copies && child.name == "header" && child.text().to_lowercase().contains("content-encoding")
        };
        let mut children = directive.children().to_vec();
        children.retain(|child| !is_needless(child));
        let mut inner = Context::read_patterns(&children, &directive.place, reading, draft);
        // A folder has no name in Apache, and is listed as it is around. `*` finds that, too.
        if patterns.as_ref().is_some_and(|all| !all.iter().any(|pattern| pattern == "*")) {
            inner.options = GivenOptions::default();
        }
        match patterns {
            Some(patterns) => self.files.push((patterns, inner, directive.place.clone())),
            None => {
                // What cannot be told apart is denied altogether.
                let (more, closes) = match inner.denies() {
                    true => (", so that everything around it is denied", true),
                    false => ("", false),
                };
                let what = format!("{}{more}", unconverted(directive));
                draft.error(&directive.place, what, "write names with * and ?");
                self.is_closed |= closes;
            }
        }
    }

    fn error_document(&mut self, directive: &Directive, draft: &mut Draft) {
        let (status, target) = (directive.argument(0), directive.argument(1));
        let is_status = status.parse::<u16>().is_ok_and(|status| (400..600).contains(&status));
        match (is_status, target.starts_with('/')) {
            (true, true) => self.keys.pair(&directive.place, "error_pages", status, target),
            (true, false) if target.eq_ignore_ascii_case("default") => {}
            _ => draft.warn(&directive.place, unconverted(directive), "put a page there"),
        }
    }
}

/// Whether filters do nothing but compress.
fn is_coding(filters: &str) -> bool {
    const CODINGS: [&str; 2] = ["deflate", "brotli_compress"];
    filters.split(';').all(|filter| CODINGS.iter().any(|coding| filter.eq_ignore_ascii_case(coding)))
}
