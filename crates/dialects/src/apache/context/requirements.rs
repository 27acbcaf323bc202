//! Who may have something: `Require`, `Order`, `Limit`, `AuthType` and what belongs to them.

use crate::apache::access::{self, Need};
use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::tree::{Directive, Place, unconverted};

use super::{Context, Limited, Reading};

impl Context {
    /// The directive, if it is about access. `false`: it is another one.
    pub(super) fn add_requirement(
        &mut self,
        directive: &Directive,
        reading: &Reading,
        draft: &mut Draft,
    ) -> bool {
        let place = &directive.place;
        match directive.name.as_str() {
            "require" | "requireall" | "requireany" | "requirenone" => self.require(directive, draft),
            "order" | "allow" | "deny" | "satisfy" => self.list(directive, draft),
            "limit" | "limitexcept" => self.limit(directive, reading, draft),
            "sslrequiressl" => self.front.push(denied(place, "tls", false)),
            name if name.starts_with("auth") => return self.auth(directive, reading, draft),
            _ => return false,
        }
        true
    }

    fn require(&mut self, directive: &Directive, draft: &mut Draft) {
        let Some(need) = need(directive) else {
            draft.error(&directive.place, unconverted(directive), "see [[rule]] and require");
            self.is_closed = true;
            return;
        };
        self.need = Some(match self.need.take() {
            None => need,
            // Several of them: one is enough.
            Some(Need::Any(mut all)) if directive.block.is_none() => {
                all.push(need);
                Need::Any(all)
            }
            Some(first) => Need::Any(vec![first, need]),
        });
    }

    fn list(&mut self, directive: &Directive, draft: &mut Draft) {
        let first = directive.argument(0).to_ascii_lowercase();
        if directive.name == "satisfy" {
            self.satisfy_any = Some(first == "any");
            return;
        }
        let lists = self.lists.get_or_insert_default();
        if directive.name == "order" {
            let order = directive.arguments.join("").to_ascii_lowercase();
            lists.denies_last = matches!(order.as_str(), "allow,deny" | "mutual-failure");
            return;
        }
        let given = directive.arguments.get(1..).unwrap_or_default();
        let networks: Option<Vec<String>> = given
            .iter()
            .map(|text| {
                if text.eq_ignore_ascii_case("all") { Some("all".to_owned()) } else { access::network(text) }
            })
            .collect();
        match networks.filter(|_| first == "from") {
            Some(networks) if directive.name == "allow" => lists.allow.extend(networks),
            Some(networks) => lists.deny.extend(networks),
            None => {
                draft.error(&directive.place, unconverted(directive), "write IP addresses or networks");
                self.is_closed = true;
            }
        }
    }

    /// What only some methods need.
    fn limit(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) {
        let mut methods = directive.arguments.clone();
        if methods.iter().any(|method| method == "GET") {
            methods.push("HEAD".to_owned());
        }
        let is_except = directive.name == "limitexcept";
        if is_except {
            methods.iter_mut().for_each(|method| method.insert(0, '!'));
        }
        let denies = |child: &Directive| {
            let text = child.text().to_ascii_lowercase();
            text == "require all denied" || text == "deny from all"
        };
        let grants = |child: &Directive| {
            let text = child.text().to_ascii_lowercase();
            text == "require all granted" || text == "allow from all" || text.starts_with("order")
        };
        let children = directive.children();
        if children.iter().any(denies) && children.iter().all(|child| denies(child) || child.name == "order")
        {
            self.front.push(denied(&directive.place, "method", methods));
        } else if let Some(users) = users_of(children).filter(|_| self.limited.is_none()) {
            for child in children.iter().filter(|child| child.name.starts_with("auth")) {
                self.auth(child, reading, draft);
            }
            methods.iter_mut().for_each(|method| *method = method.trim_start_matches('!').to_owned());
            self.limited = Some(Limited { methods, is_except, users, place: directive.place.clone() });
        } else if !children.iter().all(grants) {
            draft.error(
                &directive.place,
                unconverted(directive),
                "see method of [[rule]], and satisfy = \"rules\"",
            );
            self.is_closed = true;
        }
    }

    fn auth(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) -> bool {
        let first = directive.argument(0);
        let place = &directive.place;
        let path = |text: &str| (reading.path)(text);
        match directive.name.as_str() {
            "authtype" => match first.to_ascii_lowercase().as_str() {
                "basic" => self.auth.digest = Some(false),
                "digest" => self.auth.digest = Some(true),
                "none" => {}
                _ => {
                    draft.error(place, unconverted(directive), "see authorizer and jwt");
                    self.is_closed = true;
                }
            },
            "authname" => self.auth.realm = Some(first.to_owned()),
            "authuserfile" => self.auth.users = Some(path(first)),
            "authgroupfile" => self.auth.groups = Some(path(first)),
            "authbasicprovider" | "authdigestprovider" => {
                if directive.arguments.iter().any(|provider| provider != "file") {
                    draft.error(
                        place,
                        unconverted(directive),
                        "users are in files; see authorizer for others",
                    );
                    self.is_closed = true;
                }
            }
            "authmerging" if first.eq_ignore_ascii_case("off") => {}
            "authmerging" => {
                draft.error(place, unconverted(directive), "write all requirements in one section");
                self.is_closed = true;
            }
            "authbasicauthoritative" | "authdigestdomain" | "authdigestqop" | "authdigestalgorithm" => {}
            _ => return false,
        }
        true
    }
}

/// A `Require`, or a section of them.
fn need(directive: &Directive) -> Option<Need> {
    if directive.block.is_none() {
        return access::require(directive);
    }
    let needs: Option<Vec<Need>> = directive.children().iter().map(need).collect();
    let needs = needs?;
    match directive.name.as_str() {
        "requireall" => Some(Need::All(needs)),
        "requireany" => Some(Need::Any(needs)),
        "requirenone" => {
            let networks: Option<Vec<Vec<String>>> = needs
                .into_iter()
                .map(|need| match need {
                    Need::Networks(networks) => Some(networks),
                    _ => None,
                })
                .collect();
            networks.map(|all| Need::NotNetworks(all.concat()))
        }
        _ => None,
    }
}

/// The users of a section that requires nothing else, besides how they authenticate.
fn users_of(children: &[Directive]) -> Option<Vec<String>> {
    let mut users = Vec::new();
    for child in children.iter().filter(|child| !child.name.starts_with("auth")) {
        match need(child).filter(|_| child.name == "require")? {
            Need::Users(own) => users.extend(own),
            _ => return None,
        }
    }
    (!users.is_empty()).then_some(users)
}

fn denied(place: &Place, condition: &str, value: impl Into<Value>) -> Scope {
    let mut rule = Scope::new(place.line);
    rule.set(place, condition, value);
    rule.set(place, "then", "deny");
    rule
}
