//! Reads the names of accounts.

use super::section::Section;
use crate::model::Account;

/// The account of `user` and `group`. `None`: there is none, or after an error.
pub fn account(section: &Section) -> Option<Account> {
    let group = account_name(section, "group");
    let user = account_name(section, "user");
    if user.is_none() && section.has("group") {
        let what = "there is a group without a user";
        section.errors.add(section.place_of("group"), what, "add \"user\", or remove \"group\"");
    }
    Some(Account { user: user?, group })
}

/// A user or a group, by name or number.
pub fn account_name(section: &Section, name: &str) -> Option<String> {
    let given = section.text(name)?;
    if given.value.is_empty() || given.value.contains([':', '/', '\0']) {
        section.reject(name, given.place, "is not the name of an account");
    }
    Some(given.value.to_owned())
}
