//! Who may have what one path or a pattern is for. A location has the access of its server, and nothing of another
//! location. Here it has that of the prefix around it, too.

use crate::brackets::is_glob;
use crate::document::Value;
use crate::draft::{Draft, Host, PROTECTION, Scope, takes_folders};
use crate::tree::Place;
use crate::within::covers;

use super::inherit::is_prefix;
use super::location::rest_of_rules;

/// Keys that open what is around them, with the values that do.
const OPENS: [(&str, &[&str]); 2] = [("auth", &["off"]), ("satisfy", &["any", "rules"])];

/// Gives the paths and patterns of a host the access of their server.
pub fn settle(host: &mut Host, draft: &mut Draft) {
    let outers: Vec<Scope> = host.routes.iter().filter(|route| is_prefix(route)).cloned().collect();
    let fallbacks = host.routes.iter().chain([&host.scope]).filter_map(|scope| scope.text("fallback"));
    let fallbacks = fallbacks.filter_map(|to| to.split('?').next()).map(str::to_owned).collect();
    let server = Server { scopes: [&host.scope, &draft.top].map(Scope::clone), fallbacks };
    for route in host.routes.iter_mut().filter(|route| !is_prefix(route)) {
        let around =
            outers.iter().filter(|outer| route.path().starts_with(outer.path()) || outer.path() == "/");
        if let Some(outer) = around.max_by_key(|outer| outer.path().len()) {
            server.restore(route, outer, draft);
        }
        // A pattern has what any prefix around a path has.
        if is_glob(route.path()) {
            outers.iter().for_each(|outer| server.keep_closed(route, outer));
            server.close_folders(route, draft);
        }
    }
}

struct Server {
    /// The host, and what is around it.
    scopes: [Scope; 2],
    /// Paths that others lead to: their access alone decides.
    fallbacks: Vec<String>,
}

impl Server {
    fn restore(&self, route: &mut Scope, outer: &Scope, draft: &mut Draft) {
        // What it leads to, or what sends no files, is asked for by its own path alone.
        let is_apart = route.responds() && !self.fallbacks.iter().any(|to| covers(route.path(), to));
        let place = route.place();
        let keeps = self.keys(route, outer, is_apart, &place) || self.rules(route, outer, is_apart, &place);
        // What only others lead to is not requested, and names that only begin with a prefix are seldom meant. One of the
        // location itself has what it asks for.
        let is_meant = !self.fallbacks.iter().any(|to| to == route.path())
            && !route.path().ends_with("?*/**")
            && route.line != outer.line;
        if keeps && is_meant {
            let what = format!("{} asks for what {} asks for, too", route.path(), outer.path());
            draft.warn(&place, what, "nothing to do; nginx asks for less where the path itself is requested");
        }
    }

    /// A prefix that is open opens no pattern of a server that asks or denies.
    fn keep_closed(&self, route: &mut Scope, outer: &Scope) {
        let place = route.place();
        for key in ["auth", "authorizer"] {
            if opens(outer, key) && route.get(key).is_none() && self.has(key) {
                for name in PROTECTION.iter().filter(|name| route.get(name).is_none()).collect::<Vec<_>>() {
                    if let Some(value) = self.scopes.iter().find_map(|scope| scope.get(name)) {
                        route.set(&place, name, value.clone());
                    }
                }
            }
        }
        if route.get("satisfy").is_none() && opens(outer, "satisfy") {
            let own = self.scopes.iter().find_map(|scope| scope.get("satisfy")).cloned();
            route.set(&place, "satisfy", own.unwrap_or_else(|| "all".into()));
        }
        let has_rules = self.scopes.iter().any(|scope| !scope.rules.is_empty());
        if has_rules && outer.rules.iter().any(|rule| rule.text("then") != Some("deny")) {
            self.rules(route, outer, false, &place);
        }
    }

    /// An expression that opens `/a` opens no folder `/a/` of a server that is closed.
    fn close_folders(&self, route: &mut Scope, draft: &mut Draft) {
        let opened: Vec<&str> =
            ["auth", "authorizer"].into_iter().filter(|key| opens(route, key) && self.has(key)).collect();
        let is_closed = self.scopes.iter().any(|scope| !scope.rules.is_empty());
        let allows = is_closed && route.rules.iter().any(|rule| rule.text("then") == Some("allow"));
        if opened.is_empty() && !allows || !takes_folders(route.path()) {
            return;
        }
        let place = route.place();
        if !["proxy", "application", "interpreter", "cgi"].iter().any(|key| route.get(key).is_some()) {
            return route.set(&place, "listing", false);
        }
        for key in opened {
            route.remove(key);
        }
        if allows {
            route.rules.clear();
        }
        let what = format!("{} is for folders, too, and asks for what the server asks for", route.path());
        draft.warn(
            &place,
            what,
            "write a [[host.rule]] or a [[host.route]] for the paths that are to be open",
        );
    }

    fn has(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.get(name).is_some())
    }

    /// The keys about users. Returns whether the route keeps one that closes it.
    fn keys(&self, route: &mut Scope, outer: &Scope, is_apart: bool, place: &Place) -> bool {
        let differs = |name: &str| outer.get(name).is_some() && route.get(name).is_none();
        let asks = ["auth", "authorizer"].iter().any(|name| differs(name) && !opens(outer, name));
        if is_apart && outer.text("satisfy") == Some("rules") {
            // A rule that allows is enough.
            return false;
        }
        if asks && !is_apart {
            if !route.rules.is_empty() && differs("satisfy") {
                route.set(place, "satisfy", "all");
            }
            return true;
        }
        for name in PROTECTION {
            if !(outer.get(name).is_some() && route.get(name).is_none()) {
                continue;
            }
            let of_server = self.scopes.iter().find_map(|scope| scope.get(name)).cloned();
            let neutral = || match name {
                "auth" => Some("off".into()),
                "authorizer" => Some(false.into()),
                "authorizer_login" if self.has("authorizer") => Some(false.into()),
                "satisfy" => Some("all".into()),
                _ => None,
            };
            if let Some(value) = of_server.or_else(neutral) {
                route.set(place, name, value);
            }
        }
        // A pattern opens nothing of a prefix that asks.
        let is_asked = |name: &&str| opens(route, name) && outer.get(name).is_some() && !opens(outer, name);
        is_glob(route.path()) && ["auth", "authorizer"].iter().any(is_asked)
    }

    /// The rules. Returns whether the route keeps some that close it.
    fn rules(&self, route: &mut Scope, outer: &Scope, is_apart: bool, place: &Place) -> bool {
        if outer.rules.is_empty() {
            return false;
        }
        if !route.rules.is_empty() {
            let opens = |rule: &Scope| rule.text("then") == Some("allow");
            let closes = outer.rules.iter().any(|rule| !opens(rule)) && !route.has_rules_of(outer);
            return closes && is_glob(route.path()) && route.rules.iter().any(opens);
        }
        let allows = outer.rules.iter().any(|rule| rule.text("then") != Some("deny"));
        if !is_apart && !allows {
            return true;
        }
        let own = self.scopes.iter().find(|scope| !scope.rules.is_empty());
        let mut own = own.map(|scope| scope.rules.clone()).unwrap_or_default();
        if !is_apart && own.is_empty() {
            return true;
        }
        if !own.last().is_some_and(Scope::denies_all) {
            let mut rest = Scope::new(place.line);
            rest.set(place, "then", rest_of_rules([route, &self.scopes[0], &self.scopes[1]]));
            own.push(rest);
        }
        route.rules = own;
        false
    }
}

/// Whether a key lets more clients pass than the server does.
fn opens(scope: &Scope, name: &str) -> bool {
    let values = OPENS.iter().find(|(key, _)| *key == name).map_or(&[][..], |(_, values)| values);
    match scope.get(name) {
        Some(Value::Flag(false)) => true,
        Some(Value::Text(text)) => values.contains(&text.as_str()),
        _ => false,
    }
}
