//! What the directives of a server, a folder, a location or some files say, and how one of them goes over another.

use site::config::own_field;

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::media;
use crate::tree::{Directive, Place};
use crate::words;

use super::access::{self, Access, Lists, Need};
use super::names::NEEDLESS;
use super::options::{Options, Overrides};
use super::paths;
use super::rewrite::Rewrites;

/// Keys whose pairs add up.
const TABLES: [&str; 4] = ["headers", "types", "error_pages", "env"];

/// Fields of a response that say what its content is.
const OF_CONTENT: [&str; 3] = ["content-encoding", "content-type", "location"];

/// Fields of a request that the server sets for each upstream.
const OF_CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// What a program does with files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handler {
    Cgi,
    /// `proxy:…`
    Proxy(String),
    /// The file is sent, and no program runs it.
    None,
    /// A program that there is not. The source would be sent, so that the file is denied.
    Unknown,
}

/// `AuthType` and what belongs to it.
#[derive(Debug, Clone, Default)]
struct Auth {
    digest: Option<bool>,
    realm: Option<String>,
    users: Option<String>,
    groups: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct Context {
    pub line: u32,
    pub keys: Scope,
    need: Option<Need>,
    lists: Option<Lists>,
    satisfy_any: Option<bool>,
    auth: Auth,
    /// Rules of `LimitExcept` and `SSLRequireSSL`, which precede the others.
    front: Vec<Scope>,
    pub options: Option<Options>,
    /// It says itself that files are no scripts.
    pub forbids_cgi: bool,
    pub overrides: Option<Overrides>,
    /// The ends of files, and what runs them.
    pub handlers: Vec<(String, Handler, Place)>,
    pub handler: Option<(Handler, Place)>,
    /// Sections of files within.
    pub files: Vec<(Vec<String>, Context, Place)>,
    pub rewrites: Rewrites,
    /// What is appended to `Cache-Control`.
    cached: Option<String>,
    /// It denies everything, because something could not be converted.
    is_closed: bool,
}

/// What a directive needs besides its words.
pub struct Reading<'r> {
    pub path: &'r dyn Fn(&str) -> String,
    /// Where messages come from. `None`: every directive is allowed.
    pub overrides: Option<Overrides>,
}

pub fn unconverted(directive: &Directive) -> String {
    format!("\"{}\" cannot be converted", directive.text())
}

impl Context {
    pub fn new(place: &Place) -> Context {
        Context { line: place.line, keys: Scope::new(place.line), ..Context::default() }
    }

    pub fn read(children: &[Directive], place: &Place, reading: &Reading, draft: &mut Draft) -> Context {
        let mut context = Context::new(place);
        for child in children {
            if reading.overrides.is_some_and(|overrides| !overrides.allows(child)) {
                draft.error(&child.place, format!("{} is not allowed here", child.name), "see AllowOverride");
                context.is_closed = true;
            } else if !context.add(child, reading, draft) {
                draft.error(&child.place, unconverted(child), "remove it, or find its like in the manual");
            }
        }
        context
    }

    /// As `read`, for files or locations, whose rewrites have no paths to begin at: they may only deny everything.
    pub fn read_without_rewrites(
        children: &[Directive],
        place: &Place,
        reading: &Reading,
        draft: &mut Draft,
    ) -> Context {
        let mut context = Context::read(children, place, reading, draft);
        let rewrites = std::mem::take(&mut context.rewrites);
        context.is_closed |= rewrites.reject(draft);
        context
    }

    /// As `read_without_rewrites`, for patterns. What runs files by their ends is for folders and files that it runs.
    pub fn read_patterns(
        children: &[Directive],
        place: &Place,
        reading: &Reading,
        draft: &mut Draft,
    ) -> Context {
        let mut context = Context::read_without_rewrites(children, place, reading, draft);
        let runs = |handler: &Handler| matches!(handler, Handler::Cgi | Handler::Proxy(_));
        if let Some((end, _, at)) = context.handlers.iter().find(|(_, handler, _)| runs(handler)) {
            let what = format!("the handler of {} cannot be converted for a pattern", end.escape_debug());
            draft.error(at, what, "write SetHandler in <FilesMatch>, or a <Directory>");
            context.is_closed = true;
        }
        context
    }

    /// This one over another. What it says itself counts.
    pub fn over(&self, outer: &Context) -> Context {
        let mut keys = self.keys.clone();
        keys.rules.clear();
        for table in TABLES {
            for (name, value) in outer.keys.pairs(table) {
                let is_own = keys.pairs(table).iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
                if !is_own {
                    keys.pair(&Place::at(outer.line), table, name, value.clone());
                }
            }
        }
        keys.inherit(&outer.keys);
        let has_lists = self.lists.is_some();
        let extended = |own: &[(String, Handler, Place)]| [own, outer.handlers.as_slice()].concat();
        Context {
            line: self.line,
            keys,
            need: self.need.clone().or_else(|| outer.need.clone()),
            lists: if has_lists { self.lists.clone() } else { outer.lists.clone() },
            satisfy_any: self.satisfy_any.or(outer.satisfy_any),
            auth: Auth {
                digest: self.auth.digest.or(outer.auth.digest),
                realm: self.auth.realm.clone().or_else(|| outer.auth.realm.clone()),
                users: self.auth.users.clone().or_else(|| outer.auth.users.clone()),
                groups: self.auth.groups.clone().or_else(|| outer.auth.groups.clone()),
            },
            front: [self.front.as_slice(), &outer.front].concat(),
            options: self.options.or(outer.options),
            forbids_cgi: self.forbids_cgi,
            overrides: self.overrides.or(outer.overrides),
            handlers: extended(&self.handlers),
            handler: self.handler.clone().or_else(|| outer.handler.clone()),
            files: [outer.files.as_slice(), &self.files].concat(),
            rewrites: self.rewrites.clone(),
            cached: self.cached.clone().or_else(|| outer.cached.clone()),
            is_closed: self.is_closed || outer.is_closed,
        }
    }

    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether it says who may have something.
    pub fn has_access(&self) -> bool {
        self.need.is_some() || self.lists.is_some() || self.is_closed || !self.front.is_empty()
    }

    pub fn is_granted(&self) -> bool {
        !self.is_closed
            && self.front.is_empty()
            && access::together(self.need.as_ref(), self.lists.as_ref(), self.satisfy_any == Some(true))
                .is_some_and(|access| access.is_granted())
    }

    /// The keys, with what is appended to `Cache-Control`.
    pub fn keys(&self) -> Scope {
        let mut keys = self.keys.clone();
        if let Some(added) = &self.cached {
            let mut pairs = keys.pairs("cache_control").to_vec();
            for (_, value) in &mut pairs {
                if let Value::Text(value) = value {
                    value.push_str(&format!(", {added}"));
                }
            }
            if !pairs.iter().any(|(pattern, _)| pattern == "/") {
                pairs.push(("/".to_owned(), added.as_str().into()));
            }
            keys.set(&Place::at(self.line.max(1)), "cache_control", Value::Table(pairs));
        }
        keys
    }

    /// The keys of a host or a route, with its rules.
    pub fn scope(&self, draft: &mut Draft) -> Scope {
        let place = &Place::at(self.line.max(1));
        let mut scope = self.keys();
        scope.line = Some(place.line);
        let any = self.satisfy_any == Some(true);
        let access = match access::together(self.need.as_ref(), self.lists.as_ref(), any) {
            _ if self.is_closed => Access::denied(),
            Some(access) => access,
            None => {
                draft.error(place, "these requirements cannot be combined", "see [[rule]] and satisfy");
                Access::denied()
            }
        };
        access.write(place, &mut scope);
        scope.rules.splice(0..0, self.front.iter().cloned());
        match &access.users {
            Some(_) => self.authentication(place, &mut scope, draft),
            None => scope.set(place, "auth", "off"),
        }
        let options = self.options.unwrap_or_default();
        scope.set(place, "listing", options.indexes);
        scope.set(place, "symlinks", options.symlinks());
        scope.set(place, "try_suffixes", options.suffixes());
        scope
    }

    fn authentication(&self, place: &Place, scope: &mut Scope, draft: &mut Draft) {
        let auth = &self.auth;
        scope.set(place, "auth", if auth.digest == Some(true) { "digest" } else { "basic" });
        scope.set(place, "realm", auth.realm.as_deref().unwrap_or("Restricted"));
        match &auth.users {
            Some(file) => scope.set(place, "user_files", file.as_str()),
            None => {
                draft.error(place, "users are required, and there is no file of them", "add user_files");
                *scope = Scope::new(place.line);
                Access::denied().write(place, scope);
            }
        }
        if let Some(file) = &auth.groups {
            scope.set(place, "group_files", file.as_str());
        }
    }

    /// `false`: it is no directive of a folder.
    pub fn add(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) -> bool {
        let place = &directive.place;
        let first = directive.argument(0);
        match directive.name.as_str() {
            "require" | "requireall" | "requireany" | "requirenone" => self.require(directive, draft),
            "order" | "allow" | "deny" | "satisfy" => self.list(directive, draft),
            "limit" | "limitexcept" => self.limit(directive, draft),
            "sslrequiressl" => self.front.push(denied(place, "tls", false)),
            name if name.starts_with("auth") => return self.auth(directive, reading, draft),
            "options" => match self.options.unwrap_or_default().changed(&directive.arguments) {
                Some(options) => {
                    if options.includes {
                        draft.warn(place, "Includes: pages are sent as they are", "see the manual on SSI");
                    }
                    if options.multi_views {
                        let what = "MultiViews: of the extensions, .html alone is looked for";
                        draft.warn(place, what, "see try_suffixes and languages");
                    }
                    self.forbids_cgi = Options::forbid_cgi(&directive.arguments).unwrap_or(self.forbids_cgi);
                    self.options = Some(options);
                }
                None => draft.error(place, unconverted(directive), "remove it"),
            },
            "allowoverride" => self.overrides = Some(Overrides::parse(&directive.arguments)),
            "allowoverridelist" if first.eq_ignore_ascii_case("none") => {}
            "files" | "filesmatch" => self.files(directive, reading, draft),
            "directoryindex" if first.eq_ignore_ascii_case("disabled") => {
                self.keys.set(place, "index", Vec::<String>::new());
            }
            "directoryindex" => {
                let names: Vec<String> =
                    directive.arguments.iter().filter(|name| !name.contains('/')).cloned().collect();
                if names.len() < directive.arguments.len() {
                    draft.warn(place, "an index is a name, and not a path", "see fallback");
                }
                self.keys.set(place, "index", names);
            }
            "directoryslash" => {
                draft.note(place, "folders without a slash are redirected in any case", "nothing to do");
            }
            "fallbackresource" if first.eq_ignore_ascii_case("disabled") => {
                self.keys.set(place, "fallback", false)
            }
            "fallbackresource" => {
                self.keys.set(place, "fallback", first);
                self.keys.set(place, "fallback_for", "all");
            }
            "addtype" if first.starts_with("application/x-httpd-") => self.php(directive, draft),
            "addtype" => {
                for extension in directive.arguments.iter().skip(1) {
                    self.keys.pair(place, "types", extension.trim_start_matches('.'), first);
                }
            }
            "forcetype" | "defaulttype" if first.eq_ignore_ascii_case("none") => {}
            "defaulttype" => self.keys.set(place, "default_type", first),
            "adddefaultcharset" => match first.to_ascii_lowercase().as_str() {
                "off" => self.keys.set(place, "charset", false),
                "on" => self.keys.set(place, "charset", "iso-8859-1"),
                _ => self.keys.set(place, "charset", first),
            },
            "errordocument" => self.error_document(directive, draft),
            "header" => self.header(directive, draft),
            "requestheader" => self.request_header(directive, draft),
            name if name.starts_with("expires") => self.expires(directive, draft),
            "cgipassauth" => self.keys.set(place, "pass_authorization", first.eq_ignore_ascii_case("on")),
            "setenv" => self.variable(directive, draft),
            "setenvif" | "setenvifnocase" => {
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
            "allowencodedslashes" => {
                draft.warn(place, "an encoded slash is rejected, unless it is passed on", "see proxy_path");
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
            "limitrequestbody" => match first.parse::<i64>() {
                Ok(0) => self.keys.set(place, "max_body", "1TiB"),
                Ok(bytes) => self.keys.set(place, "max_body", bytes.clamp(1, 1 << 40)),
                Err(_) => draft.error(place, unconverted(directive), "write a number"),
            },
            "addhandler" | "sethandler" | "removehandler" => self.handler(directive, draft),
            "setoutputfilter" | "addoutputfilterbytype" if first.eq_ignore_ascii_case("deflate") => {
                self.keys.set(place, "compress", true);
                let mut types = match self.keys.get("compress_types") {
                    Some(Value::Texts(types)) => types.clone(),
                    _ => Vec::new(),
                };
                types.extend(directive.arguments.iter().skip(1).cloned());
                if !types.is_empty() {
                    self.keys.set(place, "compress_types", types);
                }
            }
            "if" => return self.rewrites.add_section(directive),
            name if name.starts_with("rewrite") && name != "rewritebase" => {
                self.rewrites.add(directive, draft)
            }
            "ssloptions" => {
                let is_plain = |word: &String| {
                    let word = word.trim_start_matches('+').to_ascii_lowercase();
                    word.starts_with('-')
                        || matches!(word.as_str(), "stdenvvars" | "exportcertdata" | "optrenegotiate")
                };
                draft.note(place, "SSLOptions has no effect", "see the manual on TLS");
                return directive.arguments.iter().all(is_plain);
            }
            "proxypreservehost" => {}
            name if NEEDLESS.contains(&name) => {}
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
    fn limit(&mut self, directive: &Directive, draft: &mut Draft) {
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

    fn files(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) {
        let inner = Context::read_patterns(directive.children(), &directive.place, reading, draft);
        match paths::files(&directive.arguments, directive.name == "filesmatch") {
            Some(patterns) => self.files.push((patterns, inner, directive.place.clone())),
            None => {
                draft.error(&directive.place, unconverted(directive), "write names with * and ?");
                // What cannot be told apart is denied altogether.
                self.is_closed |= inner.has_access() && !inner.is_granted();
            }
        }
    }

    /// A program within Apache.
    fn php(&mut self, directive: &Directive, draft: &mut Draft) {
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

    fn error_document(&mut self, directive: &Directive, draft: &mut Draft) {
        let (status, target) = (directive.argument(0), directive.argument(1));
        let is_status = status.parse::<u16>().is_ok_and(|status| (400..600).contains(&status));
        match (is_status, target.starts_with('/')) {
            (true, true) => self.keys.pair(&directive.place, "error_pages", status, target),
            (true, false) if target.eq_ignore_ascii_case("default") => {}
            _ => draft.warn(&directive.place, unconverted(directive), "put a page there"),
        }
    }

    fn header(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        let mut words = match words.split_first() {
            Some((first, rest)) if matches!(*first, "always" | "onsuccess") => rest.to_vec(),
            _ => words,
        };
        // Apache takes a name with a colon.
        if let Some(name) = words.get_mut(1) {
            *name = name.strip_suffix(':').unwrap_or(name);
        }
        match words.as_slice() {
            [act, name, ..]
                if own_field(name).is_some() && (*act == "unset" || !is_of(&OF_CONTENT, name)) =>
            {
                draft.warn(
                    place,
                    format!("{name} is not changed"),
                    "the server sets it; see server_header and types",
                );
            }
            [_, name, ..] if is_of(&OF_CONTENT, name) => {
                draft.error(place, unconverted(directive), "see types, precompressed and redirects");
            }
            ["unset", name] => self.keys.pair(place, "headers", name, false),
            ["append" | "merge", name, value]
                if name.eq_ignore_ascii_case("cache-control") && !value.contains('%') =>
            {
                let before = self.cached.take().map_or(String::new(), |before| format!("{before}, "));
                self.cached = Some(before + value);
            }
            ["set" | "setifempty", name, value] if !value.contains('%') => {
                self.keys.pair(place, "headers", name, *value);
            }
            ["add" | "append" | "merge", name, value] if !value.contains('%') => {
                self.keys.pair(place, "headers", &format!("+{name}"), *value);
            }
            _ => draft.error(place, unconverted(directive), "headers have no conditions and no variables"),
        }
    }

    /// A field with a variable is removed, because a client could otherwise say what Apache said.
    fn request_header(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        let words = match words.split_first() {
            Some((&"early", rest)) => rest,
            _ => &words,
        };
        match words {
            // It counts with ProxyPreserveHost, and is that of the upstream without.
            ["set" | "setifempty", name, value]
                if name.eq_ignore_ascii_case("host") && !value.contains('%') =>
            {
                self.keys.set(place, "proxy_host", *value);
            }
            [_, name, ..] if is_of(&OF_CONNECTION, name) => {
                draft.warn(place, format!("{name} is not changed"), "see proxy_headers and proxy_host");
            }
            ["unset", name, ..] => self.keys.pair(place, "proxy_headers", name, false),
            ["set" | "setifempty", name, value] if !value.contains('%') => {
                self.keys.pair(place, "proxy_headers", name, *value);
            }
            ["set" | "setifempty", name, ..] if name.to_ascii_lowercase().starts_with("x-forwarded-") => {}
            ["set" | "setifempty" | "add" | "append", name, ..] => {
                self.keys.pair(place, "proxy_headers", name, false);
                draft.warn(
                    place,
                    format!("{name} is removed: its value has a variable"),
                    "see proxy_headers",
                );
            }
            _ => draft.error(place, unconverted(directive), "see proxy_headers"),
        }
    }

    fn expires(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let (name, first) = (directive.name.as_str(), directive.argument(0));
        let found = match name {
            "expiresactive" => return,
            "expiresdefault" => seconds(&directive.arguments).map(|age| (vec!["/".to_owned()], age)),
            _ => media::selectors(first).zip(seconds(directive.arguments.get(1..).unwrap_or_default())),
        };
        match found {
            Some((selectors, age)) => {
                for selector in selectors {
                    let mut pairs = self.keys.pairs("cache_control").to_vec();
                    pairs.retain(|(old, _)| *old != selector);
                    // What is for all files is the last.
                    let at = if selector == "/" { pairs.len() } else { 0 };
                    pairs.insert(at, (selector, format!("max-age={age}").into()));
                    self.keys.set(place, "cache_control", Value::Table(pairs));
                }
            }
            None => draft.warn(place, unconverted(directive), "see cache_control"),
        }
    }
}

fn is_of(fields: &[&str], name: &str) -> bool {
    fields.iter().any(|own| name.eq_ignore_ascii_case(own))
}

fn denied(place: &Place, condition: &str, value: impl Into<Value>) -> Scope {
    let mut rule = Scope::new(place.line);
    rule.set(place, condition, value);
    rule.set(place, "then", "deny");
    rule
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

/// `access plus 1 month`, or `A3600`.
fn seconds(words: &[String]) -> Option<u64> {
    let text = words.join(" ");
    if let Some(number) = text.strip_prefix('A') {
        return number.parse().ok();
    }
    words::seconds(text.split_whitespace().filter(|word| !matches!(*word, "access" | "now" | "plus")))
}
