//! Which origins may read responses: `add_header` with the fields of CORS, `if` for preflights, and `map $http_origin`.

use site::cors::{AllowedOrigin, LONGEST};

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::regex;
use crate::tree::{Directive, unconverted};

const ADVICE: &str = "write cors_origins, cors_methods and cors_fields";
const ALLOW_ORIGIN: &str = "access-control-allow-origin";
const CREDENTIALS: &str = "access-control-allow-credentials";

/// Why something cannot be converted.
type Refusal<'d> = (&'d Directive, &'static str);

/// The directives of a block without those about other origins, whose keys the scope gets. What is the same for every
/// request stays a field, as long as nothing responds to preflights.
pub fn shared<'d>(
    block: &[&'d Directive],
    maps: &[&Directive],
    scope: &mut Scope,
    draft: &mut Draft,
) -> Vec<&'d Directive> {
    let preflight = block.iter().copied().find(|inner| is_preflight(inner));
    let asks = |inner: &&&Directive| field(inner) == Some(ALLOW_ORIGIN) && inner.argument(1).contains('$');
    let Some(first) = preflight.or_else(|| block.iter().find(asks).copied()) else {
        return block.to_vec();
    };
    match Fields::of(block, preflight).keys(first, maps) {
        Ok(keys) => {
            for (name, value) in keys {
                scope.set(&first.place, name, value);
            }
            let what = "the server itself responds to the preflights of other origins";
            draft.note(&first.place, what, "see cors_origins");
        }
        Err((directive, what_to_do)) => draft.error(&directive.place, unconverted(directive), what_to_do),
    }
    block.iter().copied().filter(|inner| !is_part(inner)).collect()
}

/// The name of a field of CORS, in lower case.
fn field(directive: &Directive) -> Option<&'static str> {
    const FIELDS: [&str; 6] = [
        ALLOW_ORIGIN,
        CREDENTIALS,
        "access-control-allow-methods",
        "access-control-allow-headers",
        "access-control-expose-headers",
        "access-control-max-age",
    ];
    let of_name = |name: &&&str| directive.argument(0).eq_ignore_ascii_case(name);
    FIELDS.iter().find(of_name).copied().filter(|_| directive.name == "add_header")
}

/// The methods of `if ($request_method = X)`, in one text.
fn methods(directive: &Directive) -> Option<String> {
    let text = directive.arguments.join(" ");
    let text = text.strip_prefix('(')?.strip_suffix(')')?.trim().to_owned();
    let (operator, value) = text.strip_prefix("$request_method ")?.split_once(' ')?;
    let is_known = directive.name == "if" && matches!(operator, "=" | "~" | "~*");
    is_known.then(|| value.trim_matches(['(', ')', '^', '$']).to_owned())
}

/// `if ($request_method = OPTIONS)` that responds with nothing but fields.
fn is_preflight(directive: &Directive) -> bool {
    let is_empty = |inner: &Directive| {
        inner.name == "return"
            && matches!(inner.argument(0), "200" | "204")
            && inner.arguments.get(1).is_none_or(String::is_empty)
    };
    let children = directive.children();
    methods(directive).as_deref() == Some("OPTIONS")
        && children.iter().any(is_empty)
        && children.iter().all(|inner| is_empty(inner) || inner.name == "add_header")
}

/// `if` for other methods, with fields of CORS alone.
fn is_for_methods(directive: &Directive) -> bool {
    methods(directive).is_some_and(|methods| !methods.contains("OPTIONS"))
        && directive.children().iter().all(|inner| field(inner).is_some())
}

fn is_part(directive: &Directive) -> bool {
    let is_vary = directive.name == "add_header"
        && directive.argument(0).eq_ignore_ascii_case("vary")
        && directive.argument(1).eq_ignore_ascii_case("origin");
    field(directive).is_some() || is_vary || is_preflight(directive) || is_for_methods(directive)
}

/// The fields of preflights and those of other responses.
struct Fields<'d> {
    of_preflights: Vec<&'d Directive>,
    of_responses: Vec<&'d Directive>,
}

impl<'d> Fields<'d> {
    fn of(block: &[&'d Directive], preflight: Option<&'d Directive>) -> Fields<'d> {
        let is_field = |inner: &&'d Directive| field(inner).is_some();
        let within = block.iter().filter(|inner| is_for_methods(inner)).flat_map(|inner| inner.children());
        let of_responses: Vec<&Directive> = block.iter().copied().filter(is_field).chain(within).collect();
        // An `if` with fields of its own has none of those around it.
        let own = preflight.map(Directive::children).unwrap_or_default();
        let of_preflights = match own.iter().any(|inner| inner.name == "add_header") {
            true => own.iter().filter(is_field).collect(),
            false => of_responses.clone(),
        };
        Fields { of_preflights, of_responses }
    }

    fn keys(
        &self,
        first: &'d Directive,
        maps: &[&Directive],
    ) -> Result<Vec<(&'static str, Value)>, Refusal<'d>> {
        let origins = |fields: &[&'d Directive]| match find(fields, ALLOW_ORIGIN) {
            Some(directive) => origins(directive.argument(1), maps).map_err(|advice| (directive, advice)),
            None => Err((
                first,
                "write add_header Access-Control-Allow-Origin beside it, too, or see cors_origins",
            )),
        };
        let own = origins(&self.of_responses)?;
        if own != origins(&self.of_preflights)? || own.is_empty() {
            return Err((first, "let preflights and responses name the same origins; see cors_origins"));
        }
        let credentials = self.of_responses.iter().chain(&self.of_preflights).find(|inner| {
            field(inner) == Some(CREDENTIALS) && inner.argument(1).eq_ignore_ascii_case("true")
        });
        let mut keys = vec![("cors_origins", Value::Texts(own))];
        for (name, key) in [
            ("access-control-allow-methods", "cors_methods"),
            ("access-control-allow-headers", "cors_fields"),
        ] {
            if let Some(directive) = find(&self.of_preflights, name) {
                keys.push((key, Value::Texts(list(directive)?)));
            }
        }
        if let Some(directive) = find(&self.of_responses, "access-control-expose-headers") {
            keys.push(("cors_exposed_fields", Value::Texts(list(directive)?)));
        }
        if let Some(directive) = find(&self.of_preflights, "access-control-max-age") {
            let seconds: u64 = directive.argument(1).parse().map_err(|_| (directive, "write seconds"))?;
            let seconds = seconds.min(LONGEST.as_secs());
            keys.push(("cors_max_age", format!("{seconds}s").into()));
        }
        if let Some(directive) = credentials {
            // Any site could act in the name of its visitors.
            if keys.iter().any(|(_, value)| value.texts().iter().any(|text| text == "*")) {
                return Err((directive, "name the origins and the fields; with cookies, nothing can be *"));
            }
            keys.push(("cors_credentials", true.into()));
        }
        Ok(keys)
    }
}

fn find<'d>(fields: &[&'d Directive], name: &str) -> Option<&'d Directive> {
    fields.iter().copied().find(|inner| field(inner) == Some(name))
}

/// Names that are separated by commas, without the method of preflights.
fn list(directive: &Directive) -> Result<Vec<String>, Refusal<'_>> {
    let text = match directive.argument(1) {
        "$http_access_control_request_headers" => "*",
        text if text.contains('$') => return Err((directive, ADVICE)),
        text => text,
    };
    let all = text.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "OPTIONS");
    Ok(all.map(str::to_owned).collect())
}

/// Those of `cors_origins`. Errors: what to do.
fn origins(value: &str, maps: &[&Directive]) -> Result<Vec<String>, &'static str> {
    if value == "*" || value == "$http_origin" {
        return Ok(vec!["*".to_owned()]);
    }
    if !value.contains('$') {
        return checked(vec![value.to_owned()]);
    }
    let is_own = |map: &&&Directive| map.argument(0) == "$http_origin" && map.argument(1) == value;
    let map = maps.iter().find(is_own).ok_or(ADVICE)?;
    let mut all = Vec::new();
    for entry in map.children() {
        let (key, leads_to) = (entry.name.as_str(), entry.argument(0));
        match (key, leads_to) {
            (_, "") => {}
            ("default", "*" | "$http_origin") => return Ok(vec!["*".to_owned()]),
            (key, leads_to) if leads_to != "$http_origin" && leads_to != key => return Err(ADVICE),
            (key, _) => match key.strip_prefix("~*").or_else(|| key.strip_prefix('~')) {
                Some(expression) => all.extend(found(expression)?),
                None => all.push(key.to_owned()),
            },
        }
    }
    checked(all)
}

/// The origins that an expression finds. Errors: what to do.
fn found(expression: &str) -> Result<Vec<String>, &'static str> {
    let anchored = "begin the expression with ^ and end it with $, or any site can have a name that it finds";
    if !expression.starts_with('^') || !expression.ends_with('$') {
        return Err(anchored);
    }
    // At least one character stands before the dot in any name.
    let expression = expression.replace("\\/", "/").replace(".+\\.", ".*\\.");
    regex::values(&expression).ok_or(ADVICE)
}

fn checked(all: Vec<String>) -> Result<Vec<String>, &'static str> {
    let is_origin = |text: &String| AllowedOrigin::parse(text).is_ok();
    all.iter()
        .all(is_origin)
        .then_some(all)
        .ok_or("write origins, such as https://a.example or https://*.a.example")
}
