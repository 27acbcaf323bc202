//! Reads the settings of files and responses that a host or a route has, on top of those that it inherits.

use std::sync::Arc;

use script::environment::Credentials;
use ssi::scan::Languages;
use taipan_http::fields::{is_token, text_len};
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::access::rules;
use super::alternates;
use super::authentication::{authentication, has_authentication};
use super::authorizers::{authorizers, subrequest};
use super::cache::{caching, purgers};
use super::cors::sharing;
use super::error::Place;
use super::jwt::jwt;
use super::limits::LimitReader;
use super::publishing::publishing;
use super::scripts::default_environment;
use super::section::{FlagOrChoices, Section, text};
use super::tls::hsts;
use super::toml::{Entry, Value};
use crate::compress::{Codings, CompressRules, Kept, TypePattern};
use crate::forwarding::Forwarding;
use crate::includes::Includes;
use crate::mime::{MediaTypeError, MediaTypes};
use crate::model::{
    Account, Dotfiles, EtagFrom, Fallback, FallbackFor, FileRules, HeaderRule, Interpreter, LanguageFallback,
    Listing, MetaFiles, Route, Script, Scripts, SpecialFiles, Symlinks,
};
use crate::route::Pattern;
use crate::security_headers::Preset;
use crate::template::{Template, Variable};
use crate::upstream::Upstream;

/// Fields that only the server sets, and what to do instead.
const OWN_FIELDS: [(&str, &str); 12] = [
    ("connection", "the server sets it"),
    ("content-encoding", "see \"compress\" and \"precompressed\""),
    ("content-length", "the server sets it"),
    ("content-range", "the server sets it"),
    ("content-type", "see \"types\""),
    ("date", "the server sets it"),
    ("keep-alive", "the server sets it"),
    ("location", "see \"redirects\""),
    ("server", "see \"server_header\""),
    ("trailer", "the server sets it"),
    ("transfer-encoding", "the server sets it"),
    ("upgrade", "the server sets it"),
];

/// A route for this pattern, with the action and the settings of `inherited` unless `section` has others.
pub fn route_settings(
    section: &Section,
    pattern: Pattern,
    inherited: &Route,
    upstreams: &[Upstream],
    limits: &LimitReader<'_>,
    scripts: &Scripts,
) -> Route {
    let fallback = fallback(section, &pattern, inherited.fallback.as_deref());
    let language_fallback = section.choices("language_fallback").map(|words| LanguageFallback {
        suffix: words.contains(&"suffix"),
        folder: words.contains(&"folder"),
    });
    let fallback_for = section.choice("fallback_for").map(|word| match word {
        "all" => FallbackFor::All,
        _ => FallbackFor::Pages,
    });
    let (sharing, cors) = sharing(section, (&inherited.sharing, &inherited.cors));
    let subrequest = subrequest(section, &inherited.subrequest);
    let access = rules(section, &inherited.access, limits);
    let caching = caching(section, &inherited.caching);
    let publishing = publishing(section, &pattern, &inherited.publishing);
    Route {
        pattern,
        within: inherited.within.clone(),
        action: inherited.action.clone(),
        files: shared_files(section, &inherited.files, fallback.as_ref()),
        headers: headers(section, &inherited.headers),
        cache_control: cache_control(section, &inherited.cache_control),
        error_pages: error_pages(section, &inherited.error_pages),
        fallback: fallback.map(Box::new),
        fallback_for: fallback_for.unwrap_or(inherited.fallback_for),
        language_fallback: language_fallback.unwrap_or(inherited.language_fallback),
        max_body: section.size("max_body").unwrap_or(inherited.max_body),
        script: inherited.script.clone(),
        lister: lister(section, inherited.lister.as_deref(), scripts).map(Box::new),
        authorizers: authorizers(section, &inherited.authorizers, &subrequest, upstreams),
        subrequest,
        jwt: jwt(section, inherited.jwt.as_ref()),
        publishing,
        sharing,
        cors,
        security_headers: security_headers(section).unwrap_or(inherited.security_headers),
        authentication: authentication(section, &inherited.authentication, &access),
        enclosing: None,
        access,
        limits: limits.of(section, &inherited.limits),
        stores: section.flag("response_cache").unwrap_or(inherited.stores),
        caching,
        purgers: purgers(section).or_else(|| inherited.purgers.clone()),
    }
}

/// The account of `user` and `group`. `None`: there is none, or after an error.
pub fn account(section: &Section) -> Option<Account> {
    let group = account_name(section, "group");
    let user = account_name(section, "user");
    if user.is_none() && section.has("group") {
        let what = "there is a group without a user";
        section.errors.add(section.place_of("group"), what, "add \"user\", or remove \"group\"");
    }
    Some(Account { user: user?, group })
}

/// A user or a group, by name or number.
pub fn account_name(section: &Section, name: &str) -> Option<String> {
    let given = section.text(name)?;
    if given.value.is_empty() || given.value.contains([':', '/', '\0']) {
        section.reject(name, given.place, "is not the name of an account");
    }
    Some(given.value.to_owned())
}

/// Restricts a glob's route within a prefix to what the prefix allows, where the sections of both set the same key.
pub fn restrict(route: &mut Route, glob: &Section, prefix: &Section, outer: &Route) {
    let both_have = |name: &str| glob.has(name) && prefix.has(name);
    if both_have("symlinks") {
        let own = route.files.symlinks;
        Arc::make_mut(&mut route.files).symlinks = match (outer.files.symlinks, own) {
            (Symlinks::Follow, own) => own,
            (_, Symlinks::Never) => Symlinks::Never,
            (outer, _) => outer,
        };
    }
    if both_have("dotfiles") && outer.files.dotfiles == Dotfiles::Deny {
        Arc::make_mut(&mut route.files).dotfiles = Dotfiles::Deny;
    }
    if both_have("rule") {
        route.access.extend(outer.access.iter().cloned());
    }
    if has_authentication(glob) && has_authentication(prefix) && outer.authentication.is_on() {
        route.enclosing = Some(outer.authentication.clone());
    }
    if both_have("authorizer") {
        let own = std::mem::replace(&mut route.authorizers, outer.authorizers.clone());
        route.authorizers.extend(own.into_iter().filter(|one| !outer.authorizers.contains(one)));
    }
}

/// The fallback of a section. `false` removes the inherited one.
fn fallback(section: &Section, pattern: &Pattern, inherited: Option<&Fallback>) -> Option<Fallback> {
    let Some(given) = section.text_or_false("fallback") else { return inherited.cloned() };
    let text = given.value?;
    let reject = |what_to_do: String| {
        section.errors.add(given.place, format!("\"{}\" is not a fallback", text.escape_debug()), what_to_do);
        None
    };
    match Template::fallback(text) {
        Err(error) => reject(error.to_string()),
        Ok((_, Some(query))) if query.uses(Variable::Rest) && !matches!(pattern, Pattern::Prefix(_)) => {
            reject("$rest needs a prefix as pattern; use $path".to_owned())
        }
        Ok((path, query)) => Some(Fallback { path, query, base: pattern.clone() }),
    }
}

/// The keys of [`FileRules`], and `fallback`, which adds an index file.
const FILE_KEYS: [&str; 28] = [
    "index",
    "fallback",
    "listing",
    "dotfiles",
    "symlinks",
    "precompressed",
    "compress",
    "compress_types",
    "compress_from",
    "compress_kept",
    "compress_scripts",
    "includes",
    "include_files",
    "include_types",
    "dictionary",
    "gunzip",
    "etag",
    "types",
    "default_type",
    "charset",
    "languages",
    "charsets",
    "as_is",
    "image_maps",
    "meta_files",
    "meta_dir",
    "meta_suffix",
    "listing_program",
];

/// Hosts and routes that set nothing share what they inherit.
fn shared_files(
    section: &Section,
    inherited: &Arc<FileRules>,
    fallback: Option<&Fallback>,
) -> Arc<FileRules> {
    match FILE_KEYS.iter().any(|key| section.has(key)) {
        true => Arc::new(files(section, inherited, fallback)),
        false => inherited.clone(),
    }
}

fn files(section: &Section, inherited: &FileRules, fallback: Option<&Fallback>) -> FileRules {
    let listing = section.flag("listing").map(|flag| if flag { Listing::On } else { Listing::Off });
    let dotfiles = section.choice("dotfiles").map(|word| match word {
        "allow" => Dotfiles::Allow,
        _ => Dotfiles::Deny,
    });
    let symlinks = section.choice("symlinks").map(|word| match word {
        "owner" => Symlinks::Owner,
        "never" => Symlinks::Never,
        "follow" => Symlinks::Follow,
        _ => Symlinks::Beneath,
    });
    let etag = section.choice("etag").map(|word| match word {
        "content" => EtagFrom::Content,
        "off" => EtagFrom::Off,
        _ => EtagFrom::Stat,
    });
    FileRules {
        index: index(section).unwrap_or_else(|| with_fallback(section, &inherited.index, fallback)),
        listing: match section.has("listing_program") {
            true => Listing::On,
            false => listing.unwrap_or(inherited.listing),
        },
        dotfiles: dotfiles.unwrap_or(inherited.dotfiles),
        symlinks: symlinks.unwrap_or(inherited.symlinks),
        precompressed: precompressed(section).unwrap_or_else(|| inherited.precompressed.clone()),
        gunzip: section.flag("gunzip").unwrap_or(inherited.gunzip),
        etag: etag.unwrap_or(inherited.etag),
        types: types(section, &inherited.types),
        alternates: alternates::rules(section, &inherited.alternates),
        special: SpecialFiles {
            as_is: section.flag("as_is").unwrap_or(inherited.special.as_is),
            image_maps: section.flag("image_maps").unwrap_or(inherited.special.image_maps),
        },
        meta: meta_files(section, inherited.meta.as_ref()),
        compress: compress(section, &inherited.compress),
        includes: includes(section, &inherited.includes),
        dictionary: dictionary(section, inherited.dictionary.as_ref()),
        private: inherited.private.clone(),
        meta_folders: inherited.meta_folders.clone(),
    }
}

/// The program that makes listings. Where only `listing` is set, the server makes them, or there are none.
fn lister(section: &Section, inherited: Option<&Script>, scripts: &Scripts) -> Option<Script> {
    let Some(program) = section.path("listing_program") else {
        return inherited.filter(|_| !section.has("listing")).cloned();
    };
    if section.flag("listing") == Some(false) {
        let what = "there are no listings here";
        section.reject_keys(&["listing_program"], what, "remove it, or listing = false");
    }
    Some(Script {
        interpreter: Some(Interpreter::Program(program)),
        environment: default_environment(),
        credentials: Credentials::Withheld,
        processes: scripts.processes,
        account: scripts.account.clone(),
        forwarding: Forwarding::default(),
    })
}

/// `None`: there are no metafiles.
fn meta_files(section: &Section, inherited: Option<&Arc<MetaFiles>>) -> Option<Arc<MetaFiles>> {
    let is_on = section.flag("meta_files").unwrap_or(inherited.is_some());
    if !is_on {
        let what = "there are no metafiles here";
        section.reject_keys(&["meta_dir", "meta_suffix"], what, "add meta_files = true");
        return None;
    }
    let MetaFiles { folder, suffix } = inherited.map_or_else(MetaFiles::default, |own| MetaFiles::clone(own));
    let name = |key: &str, inherited: String| {
        let Some(given) = section.text(key) else { return inherited };
        let is_name =
            SafePath::parse("/").is_ok_and(|root| root.join(&["x", given.value].concat()).is_some());
        if !is_name || matches!(given.value, "" | "." | "..") {
            let what = format!("\"{}\" is no part of a name", given.value.escape_debug());
            section.errors.add(given.place, what, "write meta_dir = \".web\" and meta_suffix = \".meta\"");
        }
        given.value.to_owned()
    };
    Some(Arc::new(MetaFiles { folder: name("meta_dir", folder), suffix: name("meta_suffix", suffix) }))
}

/// The inherited index files, and the file of a fallback that stands in this section: an application whose front
/// controller is `/index.php` has further files of that name.
fn with_fallback(section: &Section, inherited: &[String], fallback: Option<&Fallback>) -> Vec<String> {
    let mut index = inherited.to_vec();
    if let Some(path) = fallback.map(|fallback| &fallback.path)
        && section.has("fallback")
        && !path.is_folder()
        && !index.iter().any(|name| name == path.name())
    {
        index.push(path.name().to_owned());
    }
    index
}

fn index(section: &Section) -> Option<Vec<String>> {
    let names = section.texts("index")?;
    for name in &names {
        let root = SafePath::parse("/").ok()?;
        if root.join(name.value).is_none() {
            let what = format!("\"{}\" is not a file name", name.value.escape_debug());
            section.errors.add(name.place, what, "write a name without slashes, e.g. \"index.html\"");
        }
    }
    Some(names.into_iter().map(|name| name.value.to_owned()).collect())
}

fn precompressed(section: &Section) -> Option<Vec<Coding>> {
    Some(section.choices("precompressed")?.into_iter().map(coding).collect())
}

fn coding(word: &str) -> Coding {
    match word {
        "br" => Coding::Br,
        "zstd" => Coding::Zstd,
        _ => Coding::Gzip,
    }
}

fn compress(section: &Section, inherited: &Arc<CompressRules>) -> Arc<CompressRules> {
    let keys = ["compress", "compress_types", "compress_from", "compress_kept", "compress_scripts"];
    if !keys.iter().any(|name| section.has(name)) {
        return inherited.clone();
    }
    let CompressRules { codings, streamed, kept, types, min, scripts } = &**inherited;
    let (codings, streamed) = match section.flag_or_choices("compress") {
        None => (*codings, *streamed),
        Some(FlagOrChoices::Flag(false)) => Default::default(),
        Some(FlagOrChoices::Flag(true)) => {
            let CompressRules { codings, streamed, .. } = CompressRules::default();
            (codings, streamed)
        }
        Some(FlagOrChoices::Choices(words)) => {
            let codings = Codings::new(words.into_iter().map(coding));
            (codings, codings)
        }
    };
    let kept = section.choice("compress_kept").map_or(*kept, |word| match word {
        "quick" => Kept::Quick,
        "off" => Kept::Nothing,
        _ => Kept::Strong,
    });
    Arc::new(CompressRules {
        codings,
        streamed,
        kept,
        types: media_types(section, "compress_types").unwrap_or_else(|| types.clone()),
        min: section.size("compress_from").unwrap_or(*min),
        scripts: section.flag("compress_scripts").unwrap_or(*scripts),
    })
}

fn includes(section: &Section, inherited: &Arc<Includes>) -> Arc<Includes> {
    if !["includes", "include_files", "include_types"].iter().any(|name| section.has(name)) {
        return inherited.clone();
    }
    let languages = section.flag_or_choices("includes").map(|given| match given {
        FlagOrChoices::Flag(ssi) => Languages { ssi, esi: false },
        FlagOrChoices::Choices(words) => {
            Languages { ssi: words.contains(&"ssi"), esi: words.contains(&"esi") }
        }
    });
    let includes = Includes {
        languages: languages.unwrap_or(inherited.languages),
        suffixes: include_files(section).unwrap_or_else(|| inherited.suffixes.clone()),
        types: media_types(section, "include_types").unwrap_or_else(|| inherited.types.clone()),
    };
    if includes.are_on() && includes.suffixes.is_empty() && includes.types.is_empty() {
        let what_to_do = "name endings in \"include_files\", or remove \"includes\"";
        section.errors.add(section.place_of("include_files"), "nothing is a page", what_to_do);
    }
    Arc::new(includes)
}

fn include_files(section: &Section) -> Option<Vec<String>> {
    let suffixes = section.texts("include_files")?;
    for suffix in &suffixes {
        if suffix.value.is_empty() || suffix.value.contains(['/', '\0']) {
            let what = format!("\"{}\" is not the end of a file name", suffix.value.escape_debug());
            section.errors.add(suffix.place, what, "write an extension with its dot, e.g. \".shtml\"");
        }
    }
    Some(suffixes.into_iter().map(|suffix| suffix.value.to_owned()).collect())
}

/// The value of `match`. `false` removes the inherited one.
fn dictionary(section: &Section, inherited: Option<&String>) -> Option<String> {
    let Some(given) = section.text_or_false("dictionary") else { return inherited.cloned() };
    let text = given.value?;
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if !text.starts_with('/') || !text.bytes().all(is_printable) {
        let what = format!("\"{}\" does not match URLs of this host", text.escape_debug());
        let what_to_do = "begin with a slash, and use * for any text: \"/app/*.js\"";
        section.errors.add(given.place, what, what_to_do);
    }
    Some(text.to_owned())
}

fn media_types(section: &Section, name: &str) -> Option<Vec<TypePattern>> {
    let mut types = Vec::new();
    for given in section.texts(name)? {
        match TypePattern::parse(given.value) {
            Some(pattern) => types.push(pattern),
            None => {
                let what = format!("\"{}\" is not a pattern of media types", given.value.escape_debug());
                let what_to_do = "write \"text/html\", \"text/*\" or \"+xml\", without parameters";
                section.errors.add(given.place, what, what_to_do);
            }
        }
    }
    Some(types)
}

fn types(section: &Section, inherited: &Arc<MediaTypes>) -> Arc<MediaTypes> {
    if !["types", "default_type", "charset"].iter().any(|name| section.has(name)) {
        return inherited.clone();
    }
    let mut types = MediaTypes::clone(inherited);
    let check = |place: &Place, value: &str, result: Result<(), MediaTypeError>| {
        if let Err(error) = result {
            let what = format!("\"{}\" is {error}", value.escape_debug());
            section.errors.add(place, what, "correct it or remove it");
        }
    };
    if let Some(charset) = section.text_or_false("charset") {
        let name = charset.value.map(str::to_owned);
        check(charset.place, charset.value.unwrap_or(""), types.set_charset(name));
    }
    if let Some(media_type) = section.text("default_type") {
        check(media_type.place, media_type.value, types.set_default(media_type.value));
    }
    for entry in section.pairs("types") {
        if let Some(media_type) = text_of(section, entry, "a media type such as \"text/html\"") {
            let result = types.add(&entry.key, media_type);
            let wrong = if result == Err(MediaTypeError::Extension) { &entry.key } else { media_type };
            check(&entry.place, wrong, result);
        }
    }
    Arc::new(types)
}

fn headers(section: &Section, inherited: &[HeaderRule]) -> Vec<HeaderRule> {
    let mut rules: Vec<HeaderRule> = Vec::new();
    for entry in section.pairs("headers") {
        let Some(rule) = header(section, entry) else { continue };
        reject_second_rule(section, entry, &rules, &rule);
        rules.push(rule);
    }
    rules.extend(
        hsts(section).filter(|hsts| !rules.iter().any(|rule| rule.name().eq_ignore_ascii_case(hsts.name()))),
    );
    let own = rules.len();
    for rule in inherited {
        if !rules[..own].iter().any(|other| other.replaces(rule.name().as_bytes())) {
            rules.push(rule.clone());
        }
    }
    rules
}

/// A field may be set or removed once, and added to once.
pub fn reject_second_rule(section: &Section, entry: &Entry, rules: &[HeaderRule], rule: &HeaderRule) {
    let is_same = |other: &HeaderRule| {
        let is_added = |rule: &HeaderRule| matches!(rule, HeaderRule::Add(..));
        is_added(other) == is_added(rule) && other.name().eq_ignore_ascii_case(rule.name())
    };
    if rules.iter().any(is_same) {
        let what = format!("the field \"{}\" is given twice", entry.key);
        section.errors.add(&entry.place, what, "keep one; names of fields ignore case");
    }
}

/// The field that a key of `headers` names, and whether it is added to those of this name: `+Link`.
pub fn field_name(key: &str) -> (&str, fn(String, String) -> HeaderRule) {
    match key.strip_prefix('+') {
        Some(name) => (name, HeaderRule::Add),
        None => (key, HeaderRule::Set),
    }
}

fn security_headers(section: &Section) -> Option<Preset> {
    let given = section.text_or_false("security_headers")?;
    match given.value {
        None => Some(Preset::Off),
        Some("basic") => Some(Preset::Basic),
        Some("strict") => Some(Preset::Strict),
        Some(other) => {
            let what = format!("\"security_headers\" cannot be \"{}\"", other.escape_debug());
            section.errors.add(given.place, what, "expected \"basic\", \"strict\" or false");
            None
        }
    }
}

/// What to do instead of setting a field that only the server sets.
pub fn own_field(name: &str) -> Option<&'static str> {
    OWN_FIELDS.iter().find(|(own, _)| name.eq_ignore_ascii_case(own)).map(|(_, instead)| *instead)
}

fn header(section: &Section, entry: &Entry) -> Option<HeaderRule> {
    let reject = |what: String, what_to_do: &str| {
        section.errors.add(&entry.place, what, what_to_do);
        None
    };
    let (key, rule) = field_name(&entry.key);
    let name = key.escape_debug();
    if !is_token(key.as_bytes()) {
        return reject(format!("\"{name}\" is not a field name"), "expected letters, digits and dashes");
    }
    if let Some(instead) = own_field(key) {
        return reject(format!("the field \"{name}\" cannot be changed"), instead);
    }
    match &entry.node.value {
        Value::Flag(false) if key == entry.key => Some(HeaderRule::Remove(key.to_owned())),
        Value::Flag(_) if key != entry.key => {
            reject(format!("\"+{name}\" has no value"), "expected a string; without the + it is removed")
        }
        Value::Text(value) if is_field_value(value) => Some(rule(key.to_owned(), value.clone())),
        Value::Text(_) => reject(
            format!("the value of \"{name}\" cannot be sent in a field"),
            "remove control characters, and spaces at its ends",
        ),
        other => reject(format!("\"{name}\" cannot be {}", other.kind()), "expected a string, or false"),
    }
}

fn cache_control(section: &Section, inherited: &[(Pattern, String)]) -> Vec<(Pattern, String)> {
    let entry = section.table.get("cache_control");
    let mut rules = match entry.map(|entry| (entry, &entry.node.value)) {
        Some((entry, Value::Text(_))) => directive(section, entry, Pattern::EVERYTHING).into_iter().collect(),
        _ => Vec::new(),
    };
    if rules.is_empty() && entry.is_some_and(|entry| text(&entry.node).is_none()) {
        for entry in section.pairs("cache_control") {
            let pattern = pattern(section, &entry.key, &entry.place);
            rules.extend(pattern.and_then(|pattern| directive(section, entry, pattern)));
        }
    }
    rules.extend_from_slice(inherited);
    rules
}

fn directive(section: &Section, entry: &Entry, pattern: Pattern) -> Option<(Pattern, String)> {
    let value = text_of(section, entry, "directives such as \"max-age=3600\"")?;
    if value.is_empty() || !is_field_value(value) {
        let what = format!("\"{}\" is not a value of Cache-Control", value.escape_debug());
        section.errors.add(&entry.place, what, "expected directives such as \"max-age=3600\"");
        return None;
    }
    Some((pattern, value.to_owned()))
}

fn error_pages(
    section: &Section,
    inherited: &[(Status, SafePath<'static>)],
) -> Vec<(Status, SafePath<'static>)> {
    let mut pages = Vec::new();
    for entry in section.pairs("error_pages") {
        let status = entry.key.parse().ok().and_then(Status::new).filter(|status| status.is_error());
        let Some(status) = status else {
            let what = format!("\"{}\" is not an error status", entry.key.escape_debug());
            section.errors.add(&entry.place, what, "expected a number from 400 to 599");
            continue;
        };
        let path = text_of(section, entry, "a path such as \"/errors/404.html\"");
        pages.extend(path.and_then(|path| page(section, entry, path)).map(|page| (status, page)));
    }
    let own = pages.len();
    for page in inherited {
        if !pages[..own].iter().any(|(status, _)| *status == page.0) {
            pages.push(page.clone());
        }
    }
    pages
}

fn page(section: &Section, entry: &Entry, path: &str) -> Option<SafePath<'static>> {
    let page = SafePath::from_decoded(path).ok().filter(|page| !page.is_folder());
    if page.is_none() {
        let what = format!("\"{}\" is not the path of a page", path.escape_debug());
        section.errors.add(
            &entry.place,
            what,
            "expected the path of a file in this host, with a slash in front",
        );
    }
    page
}

/// Reads a pattern. `None`: after an error.
pub fn pattern(section: &Section, text: &str, place: &Place) -> Option<Pattern> {
    Pattern::parse(text)
        .map_err(|error| {
            let what = format!("\"{}\" is not a path pattern", text.escape_debug());
            section.errors.add(place, what, error.to_string());
        })
        .ok()
}

/// The text of an entry of a table with any keys.
pub fn text_of<'c>(section: &Section, entry: &'c Entry, expected: &str) -> Option<&'c str> {
    let found = text(&entry.node);
    if found.is_none() {
        let what = format!("\"{}\" cannot be {}", entry.key.escape_debug(), entry.node.value.kind());
        section.errors.add(&entry.place, what, format!("expected {expected}"));
    }
    found
}

/// RFC 9110 §5.5.
pub(super) fn is_field_value(value: &str) -> bool {
    value.trim_matches([' ', '\t']) == value && text_len(value.as_bytes()) == value.len()
}
