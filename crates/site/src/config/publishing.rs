//! Reads how a route is published, and rejects what would let any client write, or run what clients have written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Source;
use super::error::{Errors, Place};
use super::section::Section;
use crate::folder::HostFolder;
use crate::host::Hosts;
use crate::model::{Action, NamedRoot, Route};
use crate::publishing::{DeepListing, MissingFolders, Mode, Publishers, Publishing, Sync};
use crate::route::Pattern;

const KEYS: [&str; 10] = [
    "publish",
    "publish_anonymous",
    "publish_quota",
    "publish_min_free",
    "publish_sync",
    "publish_make_folders",
    "publish_deep_listing",
    "publish_umask",
    "publish_resumable",
    "publish_lock_time",
];

/// The settings of a section, on top of those that it inherits.
pub fn publishing(section: &Section, pattern: &Pattern, inherited: &Arc<Publishing>) -> Arc<Publishing> {
    if !KEYS.iter().any(|key| section.has(key)) {
        return inherited.clone();
    }
    if section.has("publish") {
        section.errors.mark("publish", pattern.to_string(), section.place_of("publish"));
    }
    let mode = section.choice("publish").map(|word| match word {
        "read" => Mode::ReadOnly,
        "files" => Mode::Files,
        "webdav" => Mode::WebDav,
        _ => Mode::Off,
    });
    let publishers = section.flag("publish_anonymous").map(|flag| match flag {
        true => Publishers::Everyone,
        false => Publishers::Known,
    });
    let sync = section.flag("publish_sync").map(|flag| if flag { Sync::Disk } else { Sync::Kernel });
    let missing_folders = section.flag("publish_make_folders").map(|flag| match flag {
        true => MissingFolders::Made,
        false => MissingFolders::Refused,
    });
    let deep_listing = section.flag("publish_deep_listing").map(|flag| match flag {
        true => DeepListing::Allowed,
        false => DeepListing::Refused,
    });
    Arc::new(Publishing {
        mode: mode.unwrap_or(inherited.mode),
        publishers: publishers.unwrap_or(inherited.publishers),
        quota: section.size("publish_quota").or(inherited.quota),
        min_free: section.size("publish_min_free").unwrap_or(inherited.min_free),
        sync: sync.unwrap_or(inherited.sync),
        missing_folders: missing_folders.unwrap_or(inherited.missing_folders),
        deep_listing: deep_listing.unwrap_or(inherited.deep_listing),
        umask: umask(section).unwrap_or(inherited.umask),
        resumable: section.duration("publish_resumable").unwrap_or(inherited.resumable),
        lock: section.duration("publish_lock_time").unwrap_or(inherited.lock),
    })
}

fn umask(section: &Section) -> Option<u32> {
    let given = section.text("publish_umask")?;
    let is_octal = !given.value.is_empty() && given.value.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    // The server has to read what it has written.
    let mask = u32::from_str_radix(given.value, 8)
        .ok()
        .filter(|mask| is_octal && *mask <= 0o777 && mask & 0o700 == 0);
    if mask.is_none() {
        let what = format!("\"publish_umask\" cannot be \"{}\"", given.value.escape_debug());
        section.errors.add(
            given.place,
            what,
            "expected octal digits that take nothing from the user, such as \"022\"",
        );
    }
    mask
}

/// Reports routes that any client could publish in, and those whose files could run as scripts. Folders are compared
/// without links: two names of a folder lead to the same files.
pub fn check(hosts: &Hosts, source: &dyn Source, errors: &Errors, top: &Place) {
    let routes =
        || hosts.iter().enumerate().flat_map(|(host, own)| own.routes.iter().map(move |route| (host, route)));
    let place = |route: &Route| {
        let own = errors.place_of(&["publish"], route.base().to_string());
        own.or_else(|| errors.place_of(&["publish"], Pattern::EVERYTHING.to_string()))
            .unwrap_or_else(|| top.clone())
    };
    if !routes().any(|(_, route)| route.publishing.writes()) {
        return;
    }
    let folder_of = |route: &Route| route.folder().map(|folder| source.resolve(&folder));
    let runs = |(_, route): &(usize, &Route)| route.script.is_some() && route.action.may_have_scripts();
    let scripts: Vec<(usize, &Route, PathBuf)> =
        routes().filter(runs).filter_map(|(host, route)| Some((host, route, folder_of(route)?))).collect();
    let publishes = |(_, route): &(usize, &Route)| route.publishes();
    let roots: Vec<(&Route, PathBuf)> = routes()
        .filter(publishes)
        .filter_map(|(_, route)| Some((route, source.resolve(route.root()?))))
        .collect();
    for (host, route) in routes().filter(|(_, route)| route.publishing.writes()) {
        if let Action::NamedFiles(_) = route.action {
            let what = format!("\"publish\" is for a root, and {} has the folders of names", route.name());
            errors.add(&place(route), what, "set publish in a [[route]] with a root");
        }
        if !route.publishes() {
            continue;
        }
        if route.publishing.publishers == Publishers::Known && !route.knows_publishers() {
            let what = format!("everyone could publish in {}", route.name());
            let what_to_do = "add auth = \"basic\" with user_files, or a [[rule]] that denies others; or \
                              publish_anonymous = true, if everyone may";
            errors.add(&place(route), what, what_to_do);
        }
        let languages = &route.files.includes.languages;
        if languages.ssi || languages.esi {
            let what =
                format!("the files that clients publish in {} would be pages with includes", route.name());
            errors.add(&place(route), what, "set includes = false in this route");
        }
        let own_root = route.root().map(|root| source.resolve(root));
        let is_around =
            |root: &PathBuf| own_root.as_ref().is_some_and(|own| own != root && own.starts_with(root));
        if let Some((other, _)) = roots.iter().find(|(_, root)| is_around(root)) {
            let what = format!(
                "the root of {} lies in that of {}, in which clients publish, too",
                route.name(),
                other.name()
            );
            let what_to_do =
                "use roots apart from each other, or the same root: locks and quotas are of a root";
            errors.add(&place(route), what, what_to_do);
        }
        let Some(folder) = folder_of(route) else { continue };
        // In one host, paths that lead to files in the same way have one route each, and this one has no scripts.
        let is_apart = |of: usize, other: &Route| of == host && other.action == route.action;
        let overlaps = |(of, other, at): &&(usize, &Route, PathBuf)| {
            at.starts_with(&folder) || (folder.starts_with(at) && !is_apart(*of, other))
        };
        let by_name = || named_scripts(hosts, &folder, source);
        let runner = scripts.iter().find(overlaps).map(|(_, runner, _)| *runner);
        if let Some(runner) = runner.or_else(by_name) {
            let what = format!(
                "files that clients publish in {} could run as scripts, by the route {}",
                route.name(),
                runner.name()
            );
            errors.add(
                &place(route),
                what,
                "publish in a folder outside of those with scripts, by root or alias",
            );
        }
    }
}

/// A route with scripts in the folders of names that has some in `published`, or beneath it.
fn named_scripts<'h>(hosts: &'h Hosts, published: &Path, source: &dyn Source) -> Option<&'h Route> {
    hosts.iter().find_map(|host| {
        let mut folder = HostFolder::clone(host.folder.as_ref()?);
        folder.paths_mut().for_each(|path| *path = source.resolve(path));
        let has_some = |route: &&Route| {
            let runs = route.script.is_some() && route.action == Action::NamedFiles(NamedRoot::OfHost);
            runs && match folder.root_of(published) {
                None => folder.may_be_beneath(published),
                Some(root) => {
                    let scripts = route.folder_in(&root, 0);
                    scripts.starts_with(published) || published.starts_with(scripts)
                }
            }
        };
        host.routes.iter().find(has_some)
    })
}
