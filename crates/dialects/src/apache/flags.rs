//! The flags of `RewriteRule` and `RewriteCond`, such as `[R=301,NC]`.

use crate::tree::Directive;

/// The flags of a directive, which may have none.
#[derive(Clone, Copy)]
pub struct Flags<'d>(&'d str);

impl<'d> Flags<'d> {
    pub fn of(directive: &'d Directive) -> Flags<'d> {
        Flags(directive.argument(2).trim_matches(['[', ']']))
    }

    /// As they are written.
    pub fn all(self) -> impl Iterator<Item = &'d str> {
        self.0.split(',').map(str::trim)
    }

    /// Each with its value, which is empty where it has none.
    pub fn pairs(self) -> impl Iterator<Item = (&'d str, &'d str)> {
        self.all().map(|flag| flag.split_once('=').unwrap_or((flag, "")))
    }

    /// The value of the flag of these names. `None`: the directive lacks it.
    pub fn value(self, short: &str, long: &str) -> Option<&'d str> {
        let is_named = |name: &str| name.eq_ignore_ascii_case(short) || name.eq_ignore_ascii_case(long);
        self.pairs().find(|(name, _)| is_named(name)).map(|(_, value)| value)
    }

    pub fn has(self, short: &str, long: &str) -> bool {
        self.value(short, long).is_some()
    }
}
