//! What the directives of a server, a folder, a location or some files say, and how one of them goes over another.

mod fields;
mod files;
mod programs;
mod requirements;

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::tree::{Directive, Place, unconverted};

use super::access::{self, Access, Lists, Need};
use super::names::NEEDLESS;
use super::options::{GivenOptions, Overrides};
use super::rewrite::Rewrites;

/// Keys whose pairs add up.
const TABLES: [&str; 4] = ["headers", "types", "error_pages", "env"];

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

/// `<Limit>` or `<LimitExcept>` with users.
#[derive(Debug, Clone)]
struct Limited {
    methods: Vec<String>,
    /// All other methods need a user.
    is_except: bool,
    users: Vec<String>,
    place: Place,
}

impl Limited {
    /// Rules that say which requests need a user.
    fn rules(&self) -> Vec<Scope> {
        let (named, others) = match self.is_except {
            true => ("allow", "authenticate"),
            false => ("authenticate", "allow"),
        };
        let mut first = Scope::new(self.place.line);
        first.set(&self.place, "method", self.methods.clone());
        first.set(&self.place, "then", named);
        let mut last = Scope::new(self.place.line);
        last.set(&self.place, "then", others);
        vec![first, last]
    }
}

#[derive(Debug, Clone, Default)]
pub struct Context {
    pub line: u32,
    pub keys: Scope,
    need: Option<Need>,
    lists: Option<Lists>,
    satisfy_any: Option<bool>,
    auth: Auth,
    /// Who may pass with some methods alone.
    limited: Option<Limited>,
    /// Rules of `LimitExcept` and `SSLRequireSSL`, which precede the others.
    front: Vec<Scope>,
    pub options: GivenOptions,
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
    /// Variables that requests with any `Origin` have.
    origin_variables: Vec<String>,
    /// It denies everything, because something could not be converted.
    is_closed: bool,
}

/// What a directive needs besides its words.
pub struct Reading<'r> {
    pub path: &'r dyn Fn(&str) -> String,
    /// Where messages come from. `None`: every directive is allowed.
    pub overrides: Option<Overrides>,
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
        // What mod_access_compat knows about a section takes the place of all it knows about those around.
        let has_lists = self.lists.is_some() || self.satisfy_any.is_some();
        let extended = |own: &[(String, Handler, Place)]| [own, outer.handlers.as_slice()].concat();
        Context {
            line: self.line,
            keys,
            need: match &self.limited {
                // It takes the place of what is required around it.
                Some(_) => Some(self.need.clone().unwrap_or(Need::Granted)),
                None => self.need.clone().or_else(|| outer.need.clone()),
            },
            lists: if has_lists { self.lists.clone() } else { outer.lists.clone() },
            satisfy_any: if has_lists { self.satisfy_any } else { outer.satisfy_any },
            auth: Auth {
                digest: self.auth.digest.or(outer.auth.digest),
                realm: self.auth.realm.clone().or_else(|| outer.auth.realm.clone()),
                users: self.auth.users.clone().or_else(|| outer.auth.users.clone()),
                groups: self.auth.groups.clone().or_else(|| outer.auth.groups.clone()),
            },
            limited: match self.need {
                Some(_) => self.limited.clone(),
                None => self.limited.clone().or_else(|| outer.limited.clone()),
            },
            front: [self.front.as_slice(), &outer.front].concat(),
            options: self.options.within(&outer.options),
            forbids_cgi: self.forbids_cgi,
            overrides: self.overrides.or(outer.overrides),
            handlers: extended(&self.handlers),
            handler: self.handler.clone().or_else(|| outer.handler.clone()),
            files: [outer.files.as_slice(), &self.files].concat(),
            rewrites: match self.rewrites.are_there() {
                true => self.rewrites.clone(),
                false => outer.rewrites.clone(),
            },
            cached: self.cached.clone().or_else(|| outer.cached.clone()),
            origin_variables: Vec::new(),
            is_closed: self.is_closed || outer.is_closed,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// This one, with who may have something as in another one over it.
    pub fn with_access_of(&self, later: &Context) -> Context {
        let both = later.over(self);
        Context {
            need: both.need,
            lists: both.lists,
            satisfy_any: both.satisfy_any,
            auth: both.auth,
            limited: both.limited,
            front: both.front,
            is_closed: both.is_closed,
            ..self.clone()
        }
    }

    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether it says who may have something.
    pub fn has_access(&self) -> bool {
        let has_own = self.need.is_some() || self.lists.is_some() || self.limited.is_some();
        has_own || self.is_closed || !self.front.is_empty()
    }

    /// Whether some requests are denied by it, or by what it says about files.
    pub fn denies(&self) -> bool {
        self.denies_itself() || self.files.iter().any(|(_, inner, _)| inner.denies())
    }

    /// As `denies`, whatever it says about files.
    pub fn denies_itself(&self) -> bool {
        self.has_access() && !self.is_granted()
    }

    /// Whether it denies every request.
    pub fn is_denied(&self) -> bool {
        let any = self.satisfy_any == Some(true);
        self.is_closed
            || self.front.is_empty()
                && self.limited.is_none()
                && !any
                && access::together(self.need.as_ref(), self.lists.as_ref(), any)
                    .is_some_and(|access| access.is_denied())
    }

    pub fn is_granted(&self) -> bool {
        !self.is_closed
            && self.front.is_empty()
            && self.limited.is_none()
            && access::together(self.need.as_ref(), self.lists.as_ref(), self.satisfy_any == Some(true))
                .is_some_and(|access| access.is_granted())
    }

    /// Whether it says that folders are not listed.
    pub fn lists_nothing(&self) -> bool {
        self.options.indexes() == Some(false)
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
        let limited = self.limited.as_ref().filter(|_| !self.is_closed);
        let mut users = access.users.clone();
        access.write(place, &mut scope);
        match limited {
            Some(limited) if access.is_granted() => {
                let own = Access::of_users(limited.users.clone());
                own.write(place, &mut scope);
                scope.rules = limited.rules();
                scope.set(place, "satisfy", "rules");
                users = own.users;
            }
            Some(limited) => {
                draft.error(
                    &limited.place,
                    "these requirements cannot be combined",
                    "see [[rule]] and satisfy",
                );
                Access::denied().write(place, &mut scope);
            }
            None => {}
        }
        scope.rules.splice(0..0, self.front.iter().cloned());
        match &users {
            Some(_) => self.authentication(place, &mut scope, draft),
            None => scope.set(place, "auth", "off"),
        }
        let options = self.options.resolved();
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

    /// Denies everything if this section, whose condition cannot be said, denies something.
    fn close_for(&mut self, section: &Directive, reading: &Reading) {
        let mut said_elsewhere = Draft::default();
        let inner =
            Context::read_without_rewrites(section.children(), &section.place, reading, &mut said_elsewhere);
        self.is_closed |= inner.denies();
    }

    /// `false`: it is no directive of a folder.
    pub fn add(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) -> bool {
        match directive.name.as_str() {
            "if" if self.rewrites.add_section(directive) => true,
            "if" | "elseif" | "else" => {
                self.close_for(directive, reading);
                false
            }
            "redirect" | "redirectmatch" => {
                let status = directive.argument(0);
                let rejects = status.parse().is_ok_and(|status: u16| (400..600).contains(&status));
                self.is_closed |= rejects || status.eq_ignore_ascii_case("gone");
                false
            }
            name if name.starts_with("rewrite") && name != "rewritebase" => {
                self.rewrites.add(directive, draft);
                true
            }
            name => {
                self.add_requirement(directive, reading, draft)
                    || self.add_file(directive, reading, draft)
                    || self.add_field(directive, draft)
                    || self.add_program(directive, draft)
                    || NEEDLESS.contains(&name)
            }
        }
    }
}
