//! What a location does with the answer of an authorizer: `auth_request_set`, where its variables are used, and logins.

use site::config::own_field;

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::tree::{Directive, unconverted};

use super::around::ANSWER;
use super::named;
use super::returns::status;
use super::settings::{Context, decision, template};

/// The key of the fields that applications get.
const FIELDS: &str = "authorizer_fields";

/// The fields of an answer by the variables that have them.
pub struct Answers<'d> {
    /// The name of a field has underscores, and no capitals.
    fields: Vec<(&'d str, &'d str)>,
    /// Whether an authorizer is asked.
    is_asked: bool,
}

impl<'d> Answers<'d> {
    /// Of these directives of a location, in this server.
    pub fn of(directives: &[&'d Directive], server: &[Directive]) -> Answers<'d> {
        let all = directives.iter().filter(|directive| directive.name == ANSWER);
        let fields = all.filter_map(|directive| {
            Some((directive.argument(0), directive.argument(1).strip_prefix("$upstream_http_")?))
        });
        let asks = |directive: &Directive| {
            (directive.name == "auth_request").then(|| directive.argument(0) != "off")
        };
        let own = directives.iter().find_map(|directive| asks(directive));
        let is_asked = own.or_else(|| server.iter().find_map(asks)).unwrap_or_default();
        Answers { fields: fields.collect(), is_asked }
    }

    /// The field that a variable has.
    pub fn of_variable(&self, variable: &str) -> Option<&'d str> {
        self.fields.iter().find(|(name, _)| *name == variable).map(|(_, field)| *field)
    }

    /// The directive itself, if it is for something else than a field.
    pub fn report(&self, directive: &Directive, draft: &mut Draft) {
        if self.of_variable(directive.argument(0)).is_none() {
            draft.error(&directive.place, unconverted(directive), "see authorizer_fields");
        }
    }

    /// A field of the request with that of an answer, if it is one. Clients cannot send it.
    pub fn proxy_header(&self, directive: &Directive, scope: &mut Scope, draft: &mut Draft) -> bool {
        let (place, name) = (&directive.place, directive.argument(0));
        let Some(field) = self.of_variable(directive.argument(1)) else { return false };
        let own = in_variables(name);
        // The client could otherwise say it.
        if !self.is_asked {
            scope.pair(place, "proxy_headers", name, false);
            return true;
        }
        if own == field && !name.contains('_') {
            add(directive, FIELDS, name, scope);
            return true;
        }
        add(directive, FIELDS, &written(field), scope);
        scope.pair(place, "proxy_headers", name, false);
        let what = format!("{name} is removed: the application gets {} in its place", written(field));
        draft.warn(place, what, "let the application read that field");
        true
    }

    /// A variable of scripts with a field of an answer, if it is one.
    pub fn variable(&self, directive: &Directive, scope: &mut Scope) -> bool {
        let name = directive.argument(0);
        let Some(field) = self.of_variable(directive.argument(1)).filter(|_| self.is_asked) else {
            return false;
        };
        let is_own = name.strip_prefix("HTTP_").is_some_and(|own| own.eq_ignore_ascii_case(field));
        if name == "REMOTE_USER" {
            scope.set(&directive.place, "authorizer_user", written(field));
        } else if !is_own {
            return false;
        }
        add(directive, FIELDS, &written(field), scope);
        true
    }

    /// A field of the response with that of an answer, if it is one.
    pub fn added(&self, directive: &Directive, scope: &mut Scope) -> bool {
        let name = directive.argument(0);
        let own = in_variables(name);
        let is_same = self.of_variable(directive.argument(1)) == Some(own.as_str());
        if is_same && self.is_asked && own_field(name).is_none() {
            add(directive, "authorizer_response_fields", name, scope);
        }
        is_same
    }

    /// Whether an `error_page` is for those that an authorizer denies.
    pub fn leads_away(&self, directive: &Directive) -> bool {
        let is_denial = |status: &String| status == "401" || status.starts_with('=');
        let statuses = directive.arguments.split_last().map(|(_, statuses)| statuses).unwrap_or_default();
        self.is_asked && statuses.iter().all(is_denial) && statuses.iter().any(|status| status == "401")
    }
}

/// `error_page 401` to a redirect: clients that the authorizer does not know are led to a login. So they are where it is a
/// page of an application.
pub fn login(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &directive.place;
    if let Some(target) = login_target(directive, context) {
        return scope.set(place, "authorizer_login", target);
    }
    if let Some(target) = login_page(directive, context) {
        let what = format!("\"{}\": clients are redirected to {target}", directive.text());
        draft.warn(place, what, "nothing to do, if that page knows where to return to");
        return scope.set(place, "authorizer_login", target);
    }
    let what = format!("\"{}\" has no effect: clients get the answer of the authorizer", directive.text());
    let what_to_do = "name the page of the login in authorizer_login; or an authorizer_path where the authorizer redirects, \
                      as /api/authz/forward-auth of Authelia does";
    draft.warn(place, what, what_to_do);
}

/// The target of the redirect. `None`: it is something else, such as a page, or has other variables.
fn login_target(directive: &Directive, context: &Context) -> Option<String> {
    let last = directive.arguments.last()?;
    let target = match last.starts_with('@') {
        true => redirect_of(context.named(last)?)?,
        false => Some(last)
            .filter(|last| ["http://", "https://", "$scheme://"].iter().any(|own| last.starts_with(own)))?,
    };
    template(target, &context.server_name)
}

/// A page that an application sends to clients without a login. That of oauth2-proxy is told where they come from.
fn login_page(directive: &Directive, context: &Context) -> Option<String> {
    let last = directive.arguments.last().filter(|last| last.starts_with('/'))?;
    let (path, query) = last.split_once('?').unwrap_or((last, ""));
    let location = decision(path, context)?;
    let has = |block: &[Directive], name: &str| block.iter().any(|inner| inner.name == name);
    let is_off = |inner: &Directive| inner.name == "auth_request" && inner.argument(0) == "off";
    let asks_none = match has(location.children(), "auth_request") {
        true => location.children().iter().any(is_off),
        false => !has(context.server, "auth_request"),
    };
    if !asks_none || !named::passes(location) || has(location.children(), "internal") {
        return None;
    }
    let returns = matches!(path, "/oauth2/sign_in" | "/oauth2/start") && query.is_empty();
    let query = if returns { "?rd=$scheme://$host$request_uri" } else { &last[path.len()..] };
    template(&format!("{path}{query}"), &context.server_name)
}

/// The target of the redirect that is all that a location has.
fn redirect_of(location: &Directive) -> Option<&str> {
    let is_beside = |name: &str| ["internal", "add_header", ANSWER].contains(&name);
    let mut others = location.children().iter().filter(|inner| !is_beside(&inner.name));
    let (only, None) = (others.next()?, others.next()) else { return None };
    let is_redirect = only.name == "return" && matches!(status(only), Some(301 | 302 | 303 | 307 | 308));
    only.arguments.last().filter(|_| is_redirect).map(String::as_str)
}

fn add(directive: &Directive, key: &str, name: &str, scope: &mut Scope) {
    let mut all = scope.get(key).map(|value| value.texts().to_vec()).unwrap_or_default();
    if !all.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        all.push(name.to_owned());
    }
    scope.set(&directive.place, key, Value::Texts(all));
}

/// `remote_user` for `Remote-User`.
fn in_variables(field: &str) -> String {
    field.to_ascii_lowercase().replace('-', "_")
}

/// `Remote-User` for `remote_user`.
fn written(field: &str) -> String {
    let capital = |part: &str| {
        let (first, rest) = part.split_at_checked(1).unwrap_or((part, ""));
        format!("{}{rest}", first.to_ascii_uppercase())
    };
    field.split('_').map(capital).collect::<Vec<_>>().join("-")
}
