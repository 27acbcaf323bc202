//! Who may have what: `Require`, and the older `Order`, `Allow` and `Deny`.

use std::net::IpAddr;

use crate::document::Value;
use crate::draft::Scope;
use crate::tree::{Directive, Place};

/// What a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    Granted,
    Denied,
    Networks(Vec<String>),
    /// As in `require`.
    Users(Vec<String>),
    Methods(Vec<String>),
    NotNetworks(Vec<String>),
    All(Vec<Need>),
    Any(Vec<Need>),
}

/// `Order`, with the networks of `Allow` and `Deny`. The entry `all` is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    pub denies_last: bool,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

/// The rules of a section, and the users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Addresses and methods, with what is done. Empty lists: every request.
    rules: Vec<Rule>,
    pub users: Option<Vec<String>>,
    /// A rule or a user is enough.
    any: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    networks: Vec<String>,
    methods: Vec<String>,
    then: &'static str,
}

impl Rule {
    fn all(then: &'static str) -> Rule {
        Rule { networks: Vec::new(), methods: Vec::new(), then }
    }

    fn of(networks: &[String], then: &'static str) -> Rule {
        Rule { networks: networks.to_vec(), methods: Vec::new(), then }
    }
}

/// A `Require`. `None`: it cannot be said.
pub fn require(directive: &Directive) -> Option<Need> {
    let mut words = directive.arguments.as_slice();
    let is_not = words.first().is_some_and(|word| word.eq_ignore_ascii_case("not"));
    if is_not {
        words = &words[1..];
    }
    let (kind, given) = words.split_first()?;
    let named = |kind: &str| Need::Users(given.iter().map(|name| format!("{kind}:{name}")).collect());
    let need = match (kind.to_ascii_lowercase().as_str(), given) {
        ("all", [word]) if word.eq_ignore_ascii_case("granted") => Need::Granted,
        ("all", [word]) if word.eq_ignore_ascii_case("denied") => Need::Denied,
        ("valid-user", _) => Need::Users(vec!["user".to_owned()]),
        ("user", [_, ..]) => named("user"),
        ("group", [_, ..]) => named("group"),
        ("ip", [_, ..]) => {
            Need::Networks(given.iter().map(|text| network(text)).collect::<Option<Vec<_>>>()?)
        }
        ("local", _) => Need::Networks(["127.0.0.0/8", "::1"].map(str::to_owned).to_vec()),
        ("method", [_, ..]) => Need::Methods(given.to_vec()),
        _ => return None,
    };
    match (is_not, need) {
        (false, need) => Some(need),
        (true, Need::Networks(networks)) => Some(Need::NotNetworks(networks)),
        (true, _) => None,
    }
}

/// `10.1`, `10.1.0.0/16`, `10.1.0.0/255.255.0.0` and `2001:db8::/32`, in the usual form.
pub fn network(text: &str) -> Option<String> {
    let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
    if address.contains(':') {
        let is_valid =
            address.parse::<IpAddr>().is_ok() && mask.is_none_or(|mask| mask.parse::<u8>().is_ok());
        return is_valid.then(|| text.to_owned());
    }
    let parts: Option<Vec<u8>> =
        address.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect();
    let parts = parts.filter(|parts| parts.len() <= 4)?;
    let mut octets = [0; 4];
    octets[..parts.len()].copy_from_slice(&parts);
    let bits = match mask {
        None => 8 * u32::try_from(parts.len()).ok()?,
        Some(mask) if mask.contains('.') => {
            let mask = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
            (mask.count_ones() == mask.leading_ones()).then(|| mask.count_ones())?
        }
        Some(mask) => mask.parse().ok().filter(|bits| *bits <= 32)?,
    };
    Some(format!("{}/{bits}", std::net::Ipv4Addr::from(octets)))
}

/// What the needs of a section come to. `None`: rules cannot say it.
pub fn compiled(need: &Need) -> Option<Access> {
    let only = |rules: Vec<Rule>| Some(Access { rules, users: None, any: false });
    match need {
        Need::Granted => only(vec![Rule::all("allow")]),
        Need::Denied => only(vec![Rule::all("deny")]),
        Need::Networks(networks) => only(vec![Rule::of(networks, "allow"), Rule::all("deny")]),
        Need::Users(users) => {
            Some(Access { rules: vec![Rule::all("allow")], users: Some(users.clone()), any: false })
        }
        Need::Methods(methods) => only(vec![other_methods(methods), Rule::all("allow")]),
        Need::NotNetworks(_) => None,
        Need::Any(needs) => any(needs),
        Need::All(needs) => all(needs),
    }
}

fn other_methods(methods: &[String]) -> Rule {
    let mut excepted: Vec<String> = methods.iter().map(|method| format!("!{method}")).collect();
    if methods.iter().any(|method| method == "GET") {
        excepted.push("!HEAD".to_owned());
    }
    Rule { networks: Vec::new(), methods: excepted, then: "deny" }
}

fn any(needs: &[Need]) -> Option<Access> {
    if needs.contains(&Need::Granted) {
        return compiled(&Need::Granted);
    }
    let (mut networks, mut users) = (Vec::new(), Vec::new());
    let needs: Vec<&Need> = needs.iter().filter(|need| **need != Need::Denied).collect();
    if let [one] = needs.as_slice() {
        return compiled(one);
    }
    for need in &needs {
        match need {
            Need::Networks(own) => networks.extend(own.iter().cloned()),
            Need::Users(own) => users.extend(own.iter().cloned()),
            _ => return None,
        }
    }
    match (networks.is_empty(), users.is_empty()) {
        (true, true) => compiled(&Need::Denied),
        (false, true) => compiled(&Need::Networks(networks)),
        (true, false) => compiled(&Need::Users(users)),
        (false, false) => {
            let rules = vec![Rule::of(&networks, "allow"), Rule::all("deny")];
            Some(Access { rules, users: Some(users), any: true })
        }
    }
}

fn all(needs: &[Need]) -> Option<Access> {
    if needs.contains(&Need::Denied) {
        return compiled(&Need::Denied);
    }
    let (mut front, mut rest) = (Vec::new(), Vec::new());
    let mut users = None;
    for need in needs {
        match need {
            Need::NotNetworks(networks) => front.push(Rule::of(networks, "deny")),
            Need::Methods(methods) => front.push(other_methods(methods)),
            Need::Granted => {}
            Need::Users(own) if users.is_none() => users = Some(own.clone()),
            Need::Users(_) => return None,
            other => {
                let access = compiled(other).filter(|access| !access.any && access.users.is_none())?;
                if !rest.is_empty() {
                    return None;
                }
                rest = access.rules;
            }
        }
    }
    if rest.is_empty() {
        rest.push(Rule::all("allow"));
    }
    Some(Access { rules: [front, rest].concat(), users, any: false })
}

impl Lists {
    fn rules(&self) -> Vec<Rule> {
        let list = |all: &[String], then: &'static str| match all {
            [] => Vec::new(),
            all if all.iter().any(|one| one == "all") => vec![Rule::all(then)],
            all => vec![Rule::of(all, then)],
        };
        let (allow, deny) = (list(&self.allow, "allow"), list(&self.deny, "deny"));
        match self.denies_last {
            // `Order Allow,Deny`: what is denied is denied, and so is what is not allowed.
            true => [deny, allow, vec![Rule::all("deny")]].concat(),
            false => [allow, deny, vec![Rule::all("allow")]].concat(),
        }
    }
}

/// Both kinds together. `satisfy_any`: one of them is enough. `None`: rules cannot say it.
pub fn together(need: Option<&Need>, lists: Option<&Lists>, satisfy_any: bool) -> Option<Access> {
    let Some(lists) = lists else { return compiled(need.unwrap_or(&Need::Granted)) };
    let Some(need) = need else { return Some(Access { rules: lists.rules(), ..Access::default() }) };
    let access = compiled(need)?;
    let is_plain = access.rules == [Rule::all("allow")] && !access.any;
    match (satisfy_any, is_plain) {
        (true, true) if access.users.is_some() => {
            Some(Access { rules: lists.rules(), users: access.users, any: true })
        }
        (true, _) => None,
        (false, true) => Some(Access { rules: lists.rules(), ..access }),
        (false, false) => (lists.rules().first() == Some(&Rule::all("allow"))).then_some(access),
    }
}

impl Access {
    pub fn denied() -> Access {
        Access { rules: vec![Rule::all("deny")], ..Access::default() }
    }

    /// For these users.
    pub fn of_users(users: Vec<String>) -> Access {
        Access { users: Some(users), ..Access::default() }
    }

    pub fn is_denied(&self) -> bool {
        !self.any && self.rules.first() == Some(&Rule::all("deny"))
    }

    pub fn is_granted(&self) -> bool {
        self.users.is_none() && self.rules == [Rule::all("allow")]
    }

    /// Puts the rules, and who may pass, into a scope. What it has is replaced.
    pub fn write(&self, place: &Place, scope: &mut Scope) {
        scope.rules = self.rules.iter().map(|rule| rule.scope(place)).collect();
        match &self.users {
            Some(users) if !users.iter().any(|one| one == "user") => {
                scope.set(place, "require", users.clone())
            }
            Some(_) => scope.remove("require"),
            None => {}
        }
        if self.any {
            scope.set(place, "satisfy", "any");
        }
    }
}

impl Rule {
    fn scope(&self, place: &Place) -> Scope {
        let mut rule = Scope::new(place.line);
        if !self.networks.is_empty() {
            rule.set(place, "address", Value::Texts(self.networks.clone()));
        }
        if !self.methods.is_empty() {
            rule.set(place, "method", Value::Texts(self.methods.clone()));
        }
        rule.set(place, "then", self.then);
        rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_networks() {
        for (text, expected) in [
            ("10", Some("10.0.0.0/8")),
            ("10.1.", Some("10.1.0.0/16")),
            ("192.0.2.7", Some("192.0.2.7/32")),
            ("10.1.0.0/255.255.0.0", Some("10.1.0.0/16")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("10.1.0.0/255.0.255.0", None),
            ("example.org", None),
            ("10.1.2.3.4", None),
            ("10.0.0.0/33", None),
            ("", None),
        ] {
            assert_eq!(network(text).as_deref(), expected, "{text}");
        }
    }

    /// Letters: `a` and `d` for rules without conditions, `A` and `D` for those with some, `u` for users, `*` for any.
    fn shown(access: Option<Access>) -> String {
        let Some(access) = access else { return "none".to_owned() };
        let letter = |rule: &Rule| match (rule.then, rule.networks.is_empty() && rule.methods.is_empty()) {
            ("allow", true) => 'a',
            ("allow", false) => 'A',
            (_, true) => 'd',
            (_, false) => 'D',
        };
        let mut text: String = access.rules.iter().map(letter).collect();
        text.push_str(if access.users.is_some() { "u" } else { "" });
        text.push_str(if access.any { "*" } else { "" });
        text
    }

    #[test]
    fn needs_become_rules_or_nothing() {
        let net = || Need::Networks(vec!["10.0.0.0/8".to_owned()]);
        let user = || Need::Users(vec!["user:ann".to_owned()]);
        let not = || Need::NotNetworks(vec!["10.1.0.0/16".to_owned()]);
        for (need, expected) in [
            (Need::Granted, "a"),
            (Need::Denied, "d"),
            (Need::Any(vec![]), "d"),
            (Need::Any(vec![net(), user()]), "Adu*"),
            (Need::Any(vec![net(), Need::Denied]), "Ad"),
            (Need::Any(vec![Need::Granted, user()]), "a"),
            (Need::All(vec![net(), user()]), "Adu"),
            (Need::All(vec![Need::Granted, not()]), "Da"),
            (Need::All(vec![not(), net()]), "DAd"),
            (Need::All(vec![net(), net()]), "none"),
            (Need::All(vec![user(), user()]), "none"),
            (Need::All(vec![Need::Any(vec![net(), user()]), net()]), "none"),
            (Need::Any(vec![Need::All(vec![net()]), user()]), "none"),
            (not(), "none"),
        ] {
            assert_eq!(shown(compiled(&need)), expected, "{need:?}");
        }
    }

    #[test]
    fn the_order_of_lists_decides() {
        let lists = |denies_last, allow: &[&str], deny: &[&str]| Lists {
            denies_last,
            allow: allow.iter().map(|one| (*one).to_owned()).collect(),
            deny: deny.iter().map(|one| (*one).to_owned()).collect(),
        };
        let user = Need::Users(vec!["user".to_owned()]);
        for (lists, need, any, expected) in [
            (lists(true, &["all"], &[]), None, false, "ad"),
            (lists(true, &[], &[]), None, false, "d"),
            (lists(false, &["10.0.0.0/8"], &["all"]), None, false, "Ada"),
            (lists(true, &["10.0.0.0/8"], &["10.1.0.0/16"]), Some(&user), false, "DAdu"),
            (lists(false, &["10.0.0.0/8"], &["all"]), Some(&user), true, "Adau*"),
            (lists(false, &["10.0.0.0/8"], &["all"]), Some(&Need::Denied), false, "none"),
            (lists(false, &["10.0.0.0/8"], &["all"]), Some(&Need::Granted), true, "none"),
        ] {
            assert_eq!(shown(together(need, Some(&lists), any)), expected, "{lists:?} {need:?}");
        }
    }
}
