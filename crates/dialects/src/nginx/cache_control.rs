//! `Cache-Control`, which nginx sends twice where both `expires` and `add_header` say it. Here a field of `headers`
//! replaces that of `cache_control`. And `add_header Cache-Control` with the variable of a `map` of a parameter, such as
//! `?v=`: requests without the parameter say what all have.
//!
//! Without `always`, nginx adds the field to no error. A field of `headers` is in each response, so that caches would
//! keep an error for as long as the file; that of `cache_control` is in those of files alone.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::tree::Directive;

use super::inherit::{below, is_prefix, is_upstream};

/// A key of a location that has `expires off`. It is no key of a route.
pub const NEVER_EXPIRES: &str = "expires off";

/// A key of a block whose `add_header Cache-Control` has `always`, or has not. It is no key of a route.
pub const ALWAYS: &str = "add_header always";

const FIELD_REPLACES: &str =
    "the Cache-Control of add_header replaces that of expires, and is not added to it";

/// Bytes of a value whose variables are filled in.
const LONGEST: usize = 4096;

/// `add_header Cache-Control`. A second one follows the first.
pub fn add(directive: &Directive, value: &str, is_always: bool, scope: &mut Scope) {
    let value = match field(scope) {
        Some(Value::Text(first)) => format!("{first}, {value}"),
        _ => value.to_owned(),
    };
    scope.pair(&directive.place, "headers", "Cache-Control", value);
    scope.set(&directive.place, ALWAYS, is_always);
}

/// What is around a location: its server, or `http`.
struct Outer {
    /// The value of `expires`.
    expires: Option<String>,
    /// `expires` by type.
    types: Option<Value>,
    /// The value of `add_header`.
    field: Option<Value>,
    /// A field of `headers` that stays precedes `cache_control` of a route.
    keeps_field: bool,
    /// The locations of prefixes. A pattern would have what they have.
    prefixes: Vec<Scope>,
}

pub fn settle(host: &mut Host, draft: &mut Draft) {
    let outer = Outer::of(host, &draft.top);
    for route in &mut host.routes {
        outer.apply(route, draft);
    }
    if types(&host.scope).is_some() && outer.field.is_some() {
        draft.warn(&host.scope.place(), FIELD_REPLACES, "write the whole field in cache_control");
    } else if let Some(own) = field(&host.scope).filter(|own| *own != false.into()) {
        let whole = both(outer.expires.as_deref(), Some(&own));
        match outer.keeps_field {
            true => send_as_field(&mut host.scope, whole),
            false => send_with_files(&mut host.scope, whole),
        }
    }
    [NEVER_EXPIRES, ALWAYS].iter().for_each(|name| host.scope.remove(name));
}

/// A field of `http` is for all servers, and stays.
pub fn finish(draft: &mut Draft) {
    if field(&draft.top).is_some() && !is_always(&draft.top) {
        let place = draft.top.place();
        draft.warn(&place, "Cache-Control is added to error responses, too", "write it in the servers");
    }
    [NEVER_EXPIRES, ALWAYS].iter().for_each(|name| draft.top.remove(name));
}

impl Outer {
    fn of(host: &Host, top: &Scope) -> Outer {
        let own_field = field(&host.scope);
        let own_expires = expires(&host.scope);
        let types = types(&host.scope).or_else(|| types(top).filter(|_| own_expires.is_none()));
        let expires = own_expires.or_else(|| expires(top));
        let keeps_field = match own_field {
            Some(_) => is_always(&host.scope) || types.is_some(),
            None => field(top).is_some(),
        };
        let field = own_field.or_else(|| field(top)).filter(|value| *value != false.into());
        let prefixes = host.routes.iter().filter(|route| is_prefix(route)).cloned().collect();
        Outer { expires, types, field, keeps_field, prefixes }
    }

    fn apply(&self, route: &mut Scope, draft: &mut Draft) {
        let never_expires = route.get(NEVER_EXPIRES).is_some();
        let is_always = is_always(route);
        [NEVER_EXPIRES, ALWAYS].iter().for_each(|name| route.remove(name));
        let own_field = field(route);
        let is_added = own_field.as_ref().is_some_and(|value| *value != false.into());
        if types(route).is_some() {
            if own_field.is_some() || self.field.is_some() {
                draft.warn(&route.place(), FIELD_REPLACES, "write the whole field in cache_control");
            }
            return;
        }
        let own_expires = expires(route);
        let time = own_expires.as_ref().or(self.expires.as_ref()).filter(|_| !never_expires);
        let added = own_field.as_ref().or(self.field.as_ref());
        if is_upstream(route) || route.responds() {
            let is_own = own_expires.is_some() || is_added && !is_always;
            return self.of_upstream(route, is_own, time.map(String::as_str), added, draft);
        }
        if time.is_none() && own_field.is_none() {
            let has_outer = never_expires && (self.expires.is_some() || self.types.is_some());
            match never_expires {
                true if has_outer || self.leaks(route) => self.restore_field(route),
                false if self.leaks(route) => self.restore(route),
                _ => {}
            }
        } else if is_added
            || time.is_some() && (own_expires.is_some() || own_field.is_some() || self.leaks(route))
        {
            let whole = both(time.map(String::as_str), added);
            match self.keeps_field || is_always {
                true => send_as_field(route, whole),
                false => send_with_files(route, whole),
            }
        }
    }

    /// Whether a route has `Cache-Control` of the location of a prefix, which nginx would not give it.
    fn leaks(&self, route: &Scope) -> bool {
        let says = |outer: &Scope| outer.get("cache_control").is_some() || field(outer).is_some();
        !is_prefix(route)
            && self.prefixes.iter().any(|outer| says(outer) && below(route.path(), outer.path()))
    }

    /// Gives a route what its server says, in place of what the location of a prefix says.
    fn restore(&self, route: &mut Scope) {
        match self.types.clone() {
            Some(types) => route.set(&route.place(), "cache_control", types),
            None => self.restore_field(route),
        }
    }

    fn restore_field(&self, route: &mut Scope) {
        match &self.field {
            Some(field) if !self.keeps_field => send_with_files(route, both(None, Some(field))),
            field => {
                let value = field.clone().unwrap_or(false.into());
                route.pair(&route.place(), "headers", "Cache-Control", value);
            }
        }
    }

    /// What is no file gets the field as one of `headers`. `is_own`: the location itself says it, and not for errors.
    fn of_upstream(
        &self,
        route: &mut Scope,
        is_own: bool,
        time: Option<&str>,
        added: Option<&Value>,
        draft: &mut Draft,
    ) {
        let (place, path) = (route.place(), route.path().to_owned());
        let is_inherited = field(route).is_none() && self.field.is_some() && !self.keeps_field;
        if is_own || is_inherited {
            if is_upstream(route) {
                let what = format!("the Cache-Control of {path} is added to error responses, too");
                draft.warn(&place, what, "let the upstream send it");
            }
            send_as_field(route, both(time, added));
        } else if time.is_some() && self.field.is_none() && is_upstream(route) {
            let what = format!("expires of the server is not added to responses of {path}");
            draft.note(&place, what, "let the upstream send Cache-Control");
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

/// Whether `add_header Cache-Control` has `always`, so that it is for errors, too.
fn is_always(scope: &Scope) -> bool {
    scope.get(ALWAYS) == Some(&true.into())
}

fn both(expires: Option<&str>, field: Option<&Value>) -> String {
    match (expires, field) {
        (Some(expires), Some(Value::Text(field))) => format!("{expires}, {field}"),
        (None, Some(Value::Text(field))) => field.clone(),
        (expires, _) => expires.unwrap_or_default().to_owned(),
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
