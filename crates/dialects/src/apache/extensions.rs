//! Rules that find a file by its path without the extension.

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::tree::Directive;

use super::flags::Flags;
use super::rejections::is_everything;

/// What conditions call the requested file.
const FILES: [&str; 4] = [
    "%{REQUEST_FILENAME}",
    "%{SCRIPT_FILENAME}",
    "%{DOCUMENT_ROOT}%{REQUEST_URI}",
    "%{DOCUMENT_ROOT}/%{REQUEST_URI}",
];
/// What stands for the requested path in a target, or in a condition.
const PATHS: [&str; 5] = ["/$1", "$1", "/$0", "$0", "%{REQUEST_URI}"];
/// Expressions of paths without a dot.
const DOTLESS: [&str; 4] = ["^([^\\.]+)$", "^([^.]+)$", "^([^\\.]+)/?$", "^([^.]+)/?$"];
/// Further ones of all paths.
const ALL: [&str; 4] = ["^(.+)$", "^(.+)", "^(.*)/?$", "^(.+)/?$"];

/// What is tried behind a path.
pub struct Extension<'r> {
    rule: &'r Directive,
    suffix: &'r str,
    is_folder_first: bool,
    is_plain_first: bool,
}

impl<'r> Extension<'r> {
    /// `None`: the rule is for something else.
    pub fn of(conditions: &[Directive], rule: &'r Directive) -> Option<Extension<'r>> {
        let (expression, target) = (rule.argument(0), rule.argument(1));
        let is_dotless = DOTLESS.contains(&expression);
        if !is_dotless && !ALL.contains(&expression) && !is_everything(expression) {
            return None;
        }
        if !Flags::of(rule).all().all(|flag| matches!(flag, "" | "L" | "END" | "NC" | "QSA" | "PT")) {
            return None;
        }
        let paths = PATHS.iter().chain(&FILES[..1]);
        let suffix = paths.filter_map(|path| target.strip_prefix(path)).find(|suffix| is_suffix(suffix))?;
        let mut extension = Extension { rule, suffix, is_folder_first: false, is_plain_first: is_dotless };
        for condition in conditions {
            extension.add(condition)?;
        }
        // Without a condition, it rewrites every other path, too.
        (is_dotless || !conditions.is_empty()).then_some(extension)
    }

    fn add(&mut self, condition: &Directive) -> Option<()> {
        let (subject, test) = (condition.argument(0), condition.argument(1));
        if Flags::of(condition).has("OR", "ornext") {
            return None;
        }
        match test {
            "!-f" | "!-l" if FILES.contains(&subject) => self.is_plain_first = true,
            "!-d" if FILES.contains(&subject) => self.is_folder_first = true,
            "-f" | "-s" => {
                let file = subject.strip_suffix(self.suffix)?.trim_end_matches('\\');
                let below = file.strip_prefix("%{DOCUMENT_ROOT}");
                let is_path = below.is_some_and(|path| PATHS.contains(&path));
                (is_path || FILES.contains(&file)).then_some(())?;
            }
            _ => return None,
        }
        Some(())
    }

    pub fn apply(&self, scope: &mut Scope, draft: &mut Draft) {
        let place = &self.rule.place;
        let mut all = scope.get("try_suffixes").map(Value::texts).unwrap_or_default().to_vec();
        if self.is_folder_first && all.is_empty() {
            all.push("/".to_owned());
        }
        all.push(self.suffix.to_owned());
        scope.set(place, "try_suffixes", all);
        if !self.is_plain_first {
            let what = format!("a file of the path itself precedes one with {}", self.suffix);
            draft.warn(place, what, "nothing to do, unless there are files with both names");
        }
        if self.rule.argument(0).ends_with("/?$") {
            draft.warn(place, "a path with a slash at its end is that of a folder alone", "nothing to do");
        }
    }
}

/// Whether it is the end of a name.
fn is_suffix(end: &str) -> bool {
    end.len() > 1
        && end.starts_with('.')
        && end.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}
