//! Reads what applies to the files of a host or a route, on top of what it inherits.

use std::sync::Arc;

use script::environment::Credentials;
use ssi::scan::Languages;
use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use super::alternates;
use super::error::Place;
use super::scripts::default_environment;
use super::section::{FlagOrChoices, Section};
use crate::compress::{Codings, CompressRules, Kept, TypePattern};
use crate::forwarding::Forwarding;
use crate::includes::Includes;
use crate::mime::{MediaTypeError, MediaTypes};
use crate::model::{
    Dotfiles, EtagFrom, Executables, Fallback, FileRules, Interpreter, Listing, MetaFiles, RemoteHost,
    ResponseBuffering, Script, Scripts, SpecialFiles, Suffixes, Symlinks,
};

/// The keys of [`FileRules`], and `fallback`, which adds an index file.
const FILE_KEYS: [&str; 30] = [
    "index",
    "try_suffixes",
    "fallback",
    "listing",
    "dotfiles",
    "symlinks",
    "executables",
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
pub fn shared_files(
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
        "unlisted" => Dotfiles::Unlisted,
        _ => Dotfiles::Deny,
    });
    let symlinks = section.choice("symlinks").map(|word| match word {
        "owner" => Symlinks::Owner,
        "never" => Symlinks::Never,
        "follow" => Symlinks::Follow,
        _ => Symlinks::Beneath,
    });
    let executables = section.choice("executables").map(|word| match word {
        "deny" => Executables::Deny,
        _ => Executables::Send,
    });
    let etag = section.choice("etag").map(|word| match word {
        "content" => EtagFrom::Content,
        "off" => EtagFrom::Off,
        _ => EtagFrom::Stat,
    });
    FileRules {
        index: index(section).unwrap_or_else(|| with_fallback(section, &inherited.index, fallback)),
        suffixes: suffixes(section).unwrap_or_else(|| inherited.suffixes.clone()),
        listing: match section.has("listing_program") {
            true => Listing::On,
            false => listing.unwrap_or(inherited.listing),
        },
        dotfiles: dotfiles.unwrap_or(inherited.dotfiles),
        symlinks: symlinks.unwrap_or(inherited.symlinks),
        executables: executables.unwrap_or(inherited.executables),
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
pub fn lister(section: &Section, inherited: Option<&Script>, scripts: &Scripts) -> Option<Script> {
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
        remote_host: RemoteHost::Absent,
        processes: scripts.processes,
        account: scripts.account.clone(),
        forwarding: Forwarding::default(),
        buffering: ResponseBuffering::On,
    })
}

/// `None`: there are no metafiles.
fn meta_files(section: &Section, inherited: Option<&Arc<MetaFiles>>) -> Option<Arc<MetaFiles>> {
    let is_on = section.flag("meta_files").unwrap_or(inherited.is_some());
    if !is_on {
        section.reject_keys(&["meta_dir", "meta_suffix"], "is for metafiles", "add meta_files = true");
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
        // As other servers separate them.
        if name.value.contains(' ') && name.value.split(' ').all(|name| name.contains('.')) {
            let what =
                format!("\"index\" has one name with a space in it, \"{}\"", name.value.escape_debug());
            let names: Vec<String> = name.value.split(' ').map(|name| format!("{name:?}")).collect();
            section.errors.warn(name.place, what, format!("for several names, write [{}]", names.join(", ")));
        }
    }
    Some(names.into_iter().map(|name| name.value.to_owned()).collect())
}

/// Suffixes of one section: each of them may be a lookup.
const MAX_SUFFIXES: usize = 8;

fn suffixes(section: &Section) -> Option<Suffixes> {
    let given = section.texts("try_suffixes")?;
    let root = SafePath::parse("/").ok()?;
    let is_end_of_name = |text: &str| !text.is_empty() && root.join(&["x", text].concat()).is_some();
    let mut suffixes = Suffixes::default();
    let mut folder = None;
    for (at, suffix) in given.iter().enumerate() {
        match suffix.value {
            "/" if folder.is_none() => folder = Some(at),
            text if is_end_of_name(text) => suffixes.before_folder.push(text.to_owned()),
            text => {
                let what = format!("\"{}\" is no end of a name", text.escape_debug());
                section.errors.add(suffix.place, what, "write e.g. \".html\", and \"/\" once for the folder");
            }
        }
    }
    if let Some(suffix) = given.get(MAX_SUFFIXES) {
        let what = format!("there are more than {MAX_SUFFIXES} suffixes");
        section.errors.add(suffix.place, what, "write those that names have");
    }
    suffixes.without_folder = folder
        .map_or_else(Vec::new, |at| suffixes.before_folder.split_off(at.min(suffixes.before_folder.len())));
    Some(suffixes)
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
        if let Some(media_type) = section.text_of(entry, "a media type such as \"text/html\"") {
            let result = types.add(&entry.key, media_type);
            let wrong = if result == Err(MediaTypeError::Extension) { &entry.key } else { media_type };
            check(&entry.place, wrong, result);
        }
    }
    Arc::new(types)
}
