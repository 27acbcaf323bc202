//! `Cache-Control`, which nginx sends twice where both `expires` and `add_header` say it. Here a field of `headers`
//! replaces that of `cache_control`. And `add_header Cache-Control` with the variable of a `map` of a parameter, such as
//! `?v=`: requests without the parameter say what all have.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::tree::Directive;

use super::inherit::{is_prefix, is_upstream};

/// A key of a location that has `expires off`. It is no key of a route.
pub const NEVER_EXPIRES: &str = "expires off";

const FIELD_REPLACES: &str =
    "the Cache-Control of add_header replaces that of expires, and is not added to it";

/// Bytes of a value whose variables are filled in.
const LONGEST: usize = 4096;

/// What is around a location: its server, or `http`.
struct Outer {
    /// The value of `expires`.
    expires: Option<String>,
    /// `expires` by type.
    types: Option<Value>,
    /// The value of `add_header`.
    field: Option<Value>,
    /// A field of the host that stays precedes `cache_control` of a route.
    keeps_field: bool,
    /// The location of all paths. A pattern would have what it has.
    root: Option<Scope>,
}

pub fn settle(host: &mut Host, draft: &mut Draft) {
    let has_upstreams = host.routes.iter().any(is_upstream);
    let outer = Outer::of(host, &draft.top, has_upstreams);
    for route in &mut host.routes {
        outer.apply(route, draft);
    }
    host.scope.remove(NEVER_EXPIRES);
    if types(&host.scope).is_some() && outer.field.is_some() {
        draft.warn(&host.scope.place(), FIELD_REPLACES, "write the whole field in cache_control");
    }
    if let (Some(time), Some(field)) = (outer.expires, field(&host.scope)) {
        let whole = both(&time, Some(&field));
        match has_upstreams {
            true => send_as_field(&mut host.scope, whole),
            false => send_with_files(&mut host.scope, whole),
        }
    }
}

impl Outer {
    fn of(host: &Host, top: &Scope, has_upstreams: bool) -> Outer {
        let own_field = field(&host.scope);
        let own_expires = expires(&host.scope);
        let types = types(&host.scope).or_else(|| types(top).filter(|_| own_expires.is_none()));
        let expires = own_expires.or_else(|| expires(top));
        let has_own_field = own_field.is_some();
        let field = own_field.or_else(|| field(top));
        let keeps_field = field.is_some() && (has_upstreams || expires.is_none() || !has_own_field);
        let root = host.routes.iter().find(|route| route.path() == "/").cloned();
        Outer { expires, types, field, keeps_field, root }
    }

    fn apply(&self, route: &mut Scope, draft: &mut Draft) {
        let never_expires = route.get(NEVER_EXPIRES).is_some();
        route.remove(NEVER_EXPIRES);
        let own_field = field(route);
        if never_expires {
            let has_outer = self.expires.is_some() || self.types.is_some();
            if own_field.is_none() && !is_upstream(route) && (has_outer || self.leaks(route)) {
                self.restore_field(route);
            }
            return;
        }
        if types(route).is_some() {
            if own_field.is_some() || self.field.is_some() {
                draft.warn(&route.place(), FIELD_REPLACES, "write the whole field in cache_control");
            }
            return;
        }
        let own_expires = expires(route);
        let Some(time) = own_expires.as_ref().or(self.expires.as_ref()) else {
            if own_field.is_none() && !is_upstream(route) && self.leaks(route) {
                self.restore(route);
            }
            return;
        };
        let whole = both(time, own_field.as_ref().or(self.field.as_ref()));
        if is_upstream(route) {
            self.of_upstream(route, own_expires.is_some().then_some(whole), draft);
        } else if own_expires.is_some() || own_field.is_some() || self.leaks(route) {
            match self.keeps_field {
                true => send_as_field(route, whole),
                false => send_with_files(route, whole),
            }
        }
    }

    /// Whether a route has `Cache-Control` of the location of all paths, which nginx would not give it.
    fn leaks(&self, route: &Scope) -> bool {
        let root = self.root.as_ref().filter(|_| !is_prefix(route));
        root.is_some_and(|root| root.get("cache_control").is_some() || field(root).is_some())
    }

    /// Gives a route what its server says, in place of what the location of all paths says.
    fn restore(&self, route: &mut Scope) {
        match self.types.clone() {
            Some(types) => route.set(&route.place(), "cache_control", types),
            None => self.restore_field(route),
        }
    }

    fn restore_field(&self, route: &mut Scope) {
        let value = self.field.clone().unwrap_or(false.into());
        route.pair(&route.place(), "headers", "Cache-Control", value);
    }

    /// `own`: the value, if the location of the upstream has `expires` of its own.
    fn of_upstream(&self, route: &mut Scope, own: Option<String>, draft: &mut Draft) {
        let (place, path) = (route.place(), route.path());
        match own {
            Some(whole) => {
                let what = format!("the Cache-Control of {path} is added to error responses, too");
                draft.warn(&place, what, "let the upstream send it");
                send_as_field(route, whole);
            }
            None if self.field.is_none() => {
                let what = format!("expires of the server is not added to responses of {path}");
                draft.note(&place, what, "let the upstream send Cache-Control");
            }
            None => {}
        }
    }
}

/// The value of `expires`, unless it is by type.
fn expires(scope: &Scope) -> Option<String> {
    scope.text("cache_control").map(str::to_owned)
}

/// `expires` by type.
fn types(scope: &Scope) -> Option<Value> {
    scope.get("cache_control").filter(|value| matches!(value, Value::Table(_))).cloned()
}

/// The value of `add_header`.
fn field(scope: &Scope) -> Option<Value> {
    let mut pairs = scope.pairs("headers").iter();
    pairs.find(|(name, _)| name.eq_ignore_ascii_case("cache-control")).map(|(_, value)| value.clone())
}

fn both(expires: &str, field: Option<&Value>) -> String {
    match field {
        Some(Value::Text(field)) => format!("{expires}, {field}"),
        _ => expires.to_owned(),
    }
}

/// A field replaces that of an upstream.
fn send_as_field(scope: &mut Scope, whole: String) {
    scope.remove("cache_control");
    scope.pair(&scope.place(), "headers", "Cache-Control", whole);
}

fn send_with_files(scope: &mut Scope, whole: String) {
    scope.unpair("headers", "Cache-Control");
    scope.set(&scope.place(), "cache_control", whole);
}

/// Whether a `map` is of a parameter, and its variable is for nothing but `Cache-Control`.
pub fn is_of_parameter(map: &Directive, block: &[Directive]) -> bool {
    map.argument(0).starts_with("$arg_") && is_for_nothing_else(map, block)
}

fn is_for_nothing_else(map: &Directive, block: &[Directive]) -> bool {
    block.iter().all(|directive| {
        let has = directive.arguments.iter().any(|text| text.contains(map.argument(1)));
        let is_own =
            std::ptr::eq(directive, map) || (directive.name == "add_header" && is_cache_control(directive));
        (!has || is_own) && is_for_nothing_else(map, directive.children())
    })
}

pub fn is_cache_control(field: &Directive) -> bool {
    field.argument(0).eq_ignore_ascii_case("cache-control")
}

/// The value without the parameters of its variables. `None`: it has other variables, or is too long.
pub fn without_parameters(value: &str, maps: &[&Directive]) -> Option<String> {
    let is_variable = |map: &&&Directive| map.argument(1).starts_with('$');
    let of_parameters = maps.iter().filter(|map| map.argument(0).starts_with("$arg_")).filter(is_variable);
    let mut filled = value.to_owned();
    for map in of_parameters {
        let of = |key: &str| map.children().iter().find(|entry| entry.name == key);
        let entry = of("").or_else(|| of("default")).map_or("", |entry| entry.argument(0));
        // An entry may name further variables, each several times.
        let more = filled.matches(map.argument(1)).count().saturating_mul(entry.len());
        if filled.len().saturating_add(more) > LONGEST {
            return None;
        }
        filled = filled.replace(map.argument(1), entry);
    }
    (!filled.contains('$')).then_some(filled)
}
