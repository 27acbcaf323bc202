//! Scripts, PHP and upstreams.

use crate::draft::Draft;
use crate::tree::{Directive, unconverted};

use super::{Context, Handler};

/// Expressions that find every `Origin`.
const ANY_ORIGIN: [&str; 5] = [":", ".", ".*", ".+", "^"];

impl Context {
    /// The directive, if it is about programs. `false`: it is another one.
    pub(super) fn add_program(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let place = &directive.place;
        let first = directive.argument(0);
        match directive.name.as_str() {
            "cgipassauth" => self.keys.set(place, "pass_authorization", first.eq_ignore_ascii_case("on")),
            "setenv" => self.variable(directive, draft),
            "setenvif" | "setenvifnocase" => {
                // `SetEnvIf Origin ":" IS_CORS`
                if first.eq_ignore_ascii_case("origin") && ANY_ORIGIN.contains(&directive.argument(1)) {
                    let variables = directive.arguments.iter().skip(2);
                    self.origin_variables.extend(variables.filter(|name| !name.contains('=')).cloned());
                    return directive.arguments.len() > 2
                        && !directive.arguments[2..].iter().any(|name| name.contains('='));
                }
                let is_authorization = first.trim_matches(['^', '$']).eq_ignore_ascii_case("authorization")
                    && directive.argument(2).starts_with("HTTP_AUTHORIZATION=");
                // Variables with a hyphen are signs to modules of Apache.
                let is_sign = |word: &String| word.split('=').next().unwrap_or(word).contains('-');
                let are_signs = directive.arguments.len() > 2 && directive.arguments[2..].iter().all(is_sign);
                match (is_authorization, are_signs) {
                    (true, _) => self.keys.set(place, "pass_authorization", true),
                    (_, true) => {
                        draft.note(place, format!("{} has no effect", directive.text()), "nothing to do");
                    }
                    (false, false) => return false,
                }
            }
            "php_flag" | "php_admin_flag" if first == "engine" && directive.argument(1) != "on" => {
                self.handler = Some((Handler::None, place.clone()));
            }
            "proxytimeout" => {
                draft.warn(
                    place,
                    "ProxyTimeout is not converted",
                    "see first_byte and idle of [[application]]",
                );
            }
            "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => {
                draft.warn(place, format!("{} is not converted", directive.text()), "set it in PHP-FPM");
            }
            "addhandler" | "sethandler" | "removehandler" => self.handler(directive, draft),
            "ssloptions" => {
                let is_plain = |word: &String| {
                    let word = word.trim_start_matches('+').to_ascii_lowercase();
                    word.starts_with('-')
                        || matches!(word.as_str(), "stdenvvars" | "exportcertdata" | "optrenegotiate")
                };
                draft.note(place, "SSLOptions has no effect", "see the manual on TLS");
                return directive.arguments.iter().all(is_plain);
            }
            "acceptpathinfo" if first.eq_ignore_ascii_case("off") => {
                draft.warn(
                    place,
                    "a script gets what follows its name",
                    "see path_info in the manual on scripts",
                );
            }
            "acceptpathinfo" => {
                draft.note(place, "only scripts get what follows a name", "nothing to do");
            }
            "proxypreservehost" => {}
            _ => return false,
        }
        true
    }

    /// A program within Apache.
    pub(super) fn php(&mut self, directive: &Directive, draft: &mut Draft) {
        draft.error(&directive.place, unconverted(directive), "let PHP-FPM run it; see interpreter");
        for extension in directive.arguments.iter().skip(1) {
            self.handlers.push((extension.clone(), Handler::Unknown, directive.place.clone()));
        }
    }

    fn handler(&mut self, directive: &Directive, draft: &mut Draft) {
        let (first, place) = (directive.argument(0), directive.place.clone());
        let handler = match first.to_ascii_lowercase().as_str() {
            "cgi-script" => Handler::Cgi,
            lower if lower.starts_with("proxy:") => Handler::Proxy(first["proxy:".len()..].to_owned()),
            // Drupal gives a folder a handler that there is not, so that nothing runs its files.
            lower if lower.starts_with("drupal_security_") => Handler::None,
            "none" | "default-handler" => Handler::None,
            "type-map" => {
                return draft.warn(&place, unconverted(directive), "see the manual on languages");
            }
            "server-status" | "server-info" | "ldap-status" | "balancer-manager" => {
                self.keys.set(&place, "return", 404);
                return draft.warn(&place, format!("there is no {first}"), "see taipan stats");
            }
            _ if directive.name == "removehandler" => Handler::None,
            _ if directive.name == "addhandler" => return self.php(directive, draft),
            _ => {
                draft.error(&place, unconverted(directive), "let PHP-FPM run it; see interpreter");
                self.is_closed = true;
                return;
            }
        };
        match directive.name.as_str() {
            "sethandler" => self.handler = Some((handler, place)),
            // What is around may still have the handler. The source is not sent.
            "removehandler" => {
                let ends = directive.arguments.iter();
                self.handlers.splice(0..0, ends.map(|end| (end.clone(), Handler::Unknown, place.clone())));
            }
            _ => {
                let ends = directive.arguments.iter().skip(1);
                self.handlers.extend(ends.map(|end| (end.clone(), handler.clone(), place.clone())));
            }
        }
    }

    /// A variable of scripts, or a sign to a module of Apache.
    fn variable(&mut self, directive: &Directive, draft: &mut Draft) {
        let (name, place) = (directive.argument(0), &directive.place);
        let is_variable = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !matches!(name, "CONTENT_LENGTH" | "GATEWAY_INTERFACE" | "HTTP_PROXY" | "SCGI");
        match name {
            "no-gzip" => self.keys.set(place, "compress", false),
            name if is_variable && !name.starts_with(|c: char| c.is_ascii_digit()) => {
                self.keys.pair(place, "env", name, directive.argument(1));
            }
            _ => draft.note(place, format!("{name} has no effect"), "nothing to do"),
        }
    }
}
