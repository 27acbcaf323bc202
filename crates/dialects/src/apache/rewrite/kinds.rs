//! What a rule is told by as a whole: that it leaves files alone, skips others, or is for compressed copies.

use super::Rule;
use crate::apache::flags::Flags;
use crate::apache::rejections::{is_everything, rejection};
use crate::draft::Draft;
use crate::regex;
use crate::tree::Directive;

/// The ends of compressed copies.
const COPIES: [(&str, &str); 2] = [(".gz", "gzip"), (".br", "br")];

/// Whether a rule leads from files that are there to another path.
pub(super) fn hides_files(conditions: &[Directive], rule: &Directive) -> bool {
    let is_missing = |one: &Directive| matches!(one.argument(1), "!-f" | "!-s" | "!-e");
    let flags = Flags::of(rule);
    let target = rule.argument(1);
    let leads = target != "-" && !target.contains("://") && !flags.has("R", "redirect");
    leads && !is_everything(rule.argument(0)) && !conditions.iter().any(is_missing)
}

/// Whether a rule ends the others where a file or a folder is there.
pub(super) fn leaves_files(conditions: &[Directive], rule: &Directive) -> bool {
    let is_there = |one: &Directive| {
        one.argument(0) == "%{REQUEST_FILENAME}" && matches!(one.argument(1), "-f" | "-d" | "-l" | "-s")
    };
    let Some((last, others)) = conditions.split_last() else { return false };
    let ends = Flags::of(rule).all().any(|flag| matches!(flag, "L" | "END"));
    others.iter().all(|one| is_there(one) && Flags::of(one).has("OR", "ornext"))
        && is_there(last)
        && conditions.iter().any(|one| matches!(one.argument(1), "-f" | "-s"))
        && rule.argument(1) == "-"
        && is_everything(rule.argument(0))
        && ends
        && rejection(rule).is_none()
}

/// Whether a rule skips others that find none of its paths: `!^a/ - [S=1]` in front of `^a/b`.
pub(super) fn skips_others(rule: &Directive, behind: &[&Rule]) -> bool {
    let flags = Flags::of(rule);
    let count = flags.value("S", "skip").and_then(|count| count.parse::<usize>().ok());
    let (Some(count), Some(begin)) = (count, rule.argument(0).strip_prefix("!^")) else { return false };
    let is_plain =
        |name: &str| ["s", "skip", "nc", "nocase", ""].contains(&name.to_ascii_lowercase().as_str());
    let is_within = |own: &&Rule| {
        let expression = own.rule.argument(0);
        let begins = expression.strip_prefix('^').is_some_and(|text| text.starts_with(begin));
        begins && regex::branches(expression).len() == 1
    };
    rule.argument(1) == "-"
        && regex::literal(begin).is_some()
        && flags.pairs().all(|(name, _)| is_plain(name))
        && behind.len() >= count
        && behind.iter().take(count).all(is_within)
}

/// The coding of a rule that sends the compressed copy beside a file.
pub(super) fn precompressed(conditions: &[Directive], rule: &Directive) -> Option<&'static str> {
    let [accepts, exists] = conditions else { return None };
    let (end, coding) = COPIES.into_iter().find(|(end, _)| rule.argument(1).ends_with(end))?;
    let file = exists.argument(0).strip_suffix(end)?.trim_end_matches('\\');
    let is_there = matches!(file, "%{REQUEST_FILENAME}" | "%{SCRIPT_FILENAME}")
        && matches!(exists.argument(1), "-f" | "-s");
    let is_accepted = accepts.argument(0).eq_ignore_ascii_case("%{HTTP:Accept-Encoding}")
        && accepts.argument(1).replace("\\b", "") == coding;
    let is_or = |one: &Directive| Flags::of(one).has("OR", "ornext");
    (is_there && is_accepted && !conditions.iter().any(is_or)).then_some(coding)
}

/// Whether a rule only says what the type of compressed copies is.
pub(super) fn is_of_copies(rule: &Directive) -> bool {
    let mut flags = Flags::of(rule).pairs();
    rule.argument(1) == "-"
        && COPIES.iter().any(|(end, _)| rule.argument(0).ends_with(&format!("\\{end}$")))
        && flags.all(|(name, _)| matches!(name, "T" | "E" | "L" | "NS" | "NC"))
}

/// Whether flags do more than to set a variable.
pub(super) fn decides(flags: Flags<'_>) -> bool {
    const NEEDLESS: [&str; 9] = ["", "e", "env", "nc", "nocase", "ne", "noescape", "qsa", "qsappend"];
    !flags.pairs().all(|(name, _)| NEEDLESS.contains(&name.to_ascii_lowercase().as_str()))
}

/// Before Apache has found a file, the name of the file is the path of the URL, and such a file is not there.
pub(super) fn tell_of_names(conditions: &[Directive], draft: &mut Draft) {
    let is_of_name = |one: &&Directive| {
        let is_name = matches!(one.argument(0), "%{REQUEST_FILENAME}" | "%{SCRIPT_FILENAME}");
        is_name && matches!(one.argument(1), "!-f" | "!-d" | "!-e" | "!-s" | "!-l")
    };
    if let Some(one) = conditions.iter().find(is_of_name) {
        let what = format!(
            "outside of <Directory>, {} is the path of the URL, so that Apache has this rule for files that are there, \
             too; here it is for missing files",
            one.argument(0)
        );
        let what_to_do = "to keep these files from clients, write a rule or a rewrite for their paths";
        draft.warn(&one.place, what, what_to_do);
    }
}
