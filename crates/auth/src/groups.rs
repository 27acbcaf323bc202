//! A group file as Apache's: `GROUP: USER USER` on each line. A group on several lines has the users of all of them.

use std::collections::{HashMap, HashSet};

use crate::mistake::{self, Fault, FileError, Mistakes};

/// Bytes of a line.
const MAX_LINE: usize = 1 << 20;

/// Memberships of one file: users, counted in each of their groups.
const MAX_MEMBERS: usize = 200_000;

/// The groups of a file, with their users.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    members: HashMap<Box<str>, HashSet<Box<str>>>,
    count: usize,
    mistakes: Mistakes,
}

impl Groups {
    /// Errors: the file is not used at all. A line with a mistake is left out, and listed.
    pub fn parse(file: &[u8]) -> Result<Self, FileError> {
        let mut groups = Self::default();
        for (line, text) in mistake::lines(file)? {
            if let Err(fault) = groups.read(text) {
                groups.mistakes.add(line, fault);
            }
        }
        if groups.count > MAX_MEMBERS { Err(FileError::TooMany) } else { Ok(groups) }
    }

    fn read(&mut self, text: &[u8]) -> Result<(), Fault> {
        if text.len() > MAX_LINE {
            return Err(Fault::TooLong);
        }
        let colon = text.iter().position(|&byte| byte == b':').ok_or(Fault::Form("GROUP: USER USER"))?;
        let group = mistake::name(text[..colon].trim_ascii())?;
        let names = text[colon + 1..].split(u8::is_ascii_whitespace).filter(|name| !name.is_empty());
        let users = names.map(mistake::name).collect::<Result<Vec<_>, _>>()?;
        self.insert(group, users)
    }

    /// Adds users to a group. Beyond the bound, none is added.
    pub fn insert<'a>(&mut self, group: &str, users: impl IntoIterator<Item = &'a str>) -> Result<(), Fault> {
        let members = self.members.entry(group.into()).or_default();
        for user in users {
            if self.count > MAX_MEMBERS {
                return Err(Fault::Members);
            }
            self.count += usize::from(members.insert(user.into()));
        }
        Ok(())
    }

    /// Whether the user is in the group.
    pub fn has(&self, group: &str, user: &str) -> bool {
        self.members.get(group).is_some_and(|members| members.contains(user))
    }

    /// The lines that do not count.
    pub fn mistakes(&self) -> &Mistakes {
        &self.mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_apache_reads() {
        let file = b"# groups\r\nadmins: ann bob\r\n\r\nstaff:\tcy  dee\nstaff: ann\nempty:\n";
        let groups = Groups::parse(file).expect("it is small");
        let table = [
            ("admins", "ann", true),
            ("admins", "bob", true),
            ("admins", "cy", false),
            ("staff", "cy", true),
            ("staff", "dee", true),
            ("staff", "ann", true),
            ("empty", "ann", false),
            ("none", "ann", false),
            ("admins", "", false),
            ("Admins", "ann", false),
        ];
        for (group, user, expected) in table {
            assert_eq!(groups.has(group, user), expected, "{group} {user}");
        }
        assert!(groups.mistakes().listed.is_empty());
    }

    #[test]
    fn mistakes_have_lines_and_the_others_count() {
        let groups = Groups::parse(b"\nann bob\n: ann\na: b:c\nok: ann\nx: \xff\n").expect("it is small");
        let messages: Vec<String> = groups.mistakes().listed.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "line 2: a line has the form GROUP: USER USER",
                "line 3: the name is empty",
                "line 4: the name has a colon, which ends a name",
                "line 6: the name is not UTF-8; save the file as UTF-8",
            ]
        );
        assert!(groups.has("ok", "ann"));
    }

    #[test]
    fn refuses_more_than_its_bounds() {
        let many: String = (0..=MAX_MEMBERS).map(|at| format!("g{}: u{at}\n", at % 1000)).collect();
        assert_eq!(Groups::parse(many.as_bytes()).err(), Some(FileError::TooMany));
        let large = vec![b'\n'; mistake::MAX_FILE + 1];
        assert_eq!(Groups::parse(&large).err(), Some(FileError::TooLarge));
    }
}
