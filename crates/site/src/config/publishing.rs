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
        false => MissingFolders::Rejected,
    });
    let deep_listing = section.flag("publish_deep_listing").map(|flag| match flag {
        true => DeepListing::Allowed,
        false => DeepListing::Rejected,
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

/// Reports routes that any client could publish in, and those whose files could run as scripts.
pub fn check(hosts: &Hosts, source: &dyn Source, errors: &Errors, top: &Place) {
    if !routes_of(hosts).any(|(_, route)| route.publishing.writes()) {
        return;
    }
    let place = |route: &Route| {
        let own = errors.place_of(&["publish"], route.base().to_string());
        own.or_else(|| errors.place_of(&["publish"], Pattern::EVERYTHING.to_string()))
            .unwrap_or_else(|| top.clone())
    };
    let folders = Folders::of(hosts, source);
    for (host, route) in routes_of(hosts).filter(|(_, route)| route.publishing.writes()) {
        let mistakes = match route.publishes() {
            false => [without_root(route), None, None, None],
            // Without a rule that has a mistake, it may only look open.
            true => [
                open(route).filter(|_| errors.is_empty()),
                with_pages(route),
                folders.nested(route),
                folders.runnable(host, route),
            ],
        };
        for (what, what_to_do) in mistakes.into_iter().flatten() {
            errors.add(&place(route), what, what_to_do);
        }
    }
}

/// The routes of all hosts, each with the number of its host.
fn routes_of(hosts: &Hosts) -> impl Iterator<Item = (usize, &Route)> {
    hosts.iter().enumerate().flat_map(|(host, own)| own.routes.iter().map(move |route| (host, route)))
}

/// What is wrong with a route in which clients publish, and what to do.
type Mistake = (String, &'static str);

fn without_root(route: &Route) -> Option<Mistake> {
    let Action::NamedFiles(_) = route.action else { return None };
    let what = format!("\"publish\" is for a root, and {} has the folders of names", route.name());
    Some((what, "set publish in a [[route]] with a root"))
}

fn open(route: &Route) -> Option<Mistake> {
    if route.publishing.publishers != Publishers::Known || route.knows_publishers() {
        return None;
    }
    let what = format!("everyone could publish in {}", route.name());
    let what_to_do = "add auth = \"basic\" with user_files, or a [[rule]] that denies others; or \
                      publish_anonymous = true, if everyone may";
    Some((what, what_to_do))
}

fn with_pages(route: &Route) -> Option<Mistake> {
    let languages = &route.files.includes.languages;
    let what = format!("the files that clients publish in {} would be pages with includes", route.name());
    (languages.ssi || languages.esi).then_some((what, "set includes = false in this route"))
}

/// The folders in which clients publish, and those in which scripts run. They are compared without links: two names of a
/// folder lead to the same files.
struct Folders<'h> {
    hosts: &'h Hosts,
    source: &'h dyn Source,
    /// Roots in which clients publish.
    published: Vec<(&'h Route, PathBuf)>,
    /// Each with the number of its host.
    scripts: Vec<(usize, &'h Route, PathBuf)>,
}

impl<'h> Folders<'h> {
    fn of(hosts: &'h Hosts, source: &'h dyn Source) -> Folders<'h> {
        let published = |(_, route): (usize, &'h Route)| {
            let root = route.root().filter(|_| route.publishes())?;
            Some((route, source.resolve(root)))
        };
        let scripts = |(host, route): (usize, &'h Route)| {
            let runs = route.script.is_some() && route.action.may_have_scripts();
            Some((host, route, source.resolve(&route.folder().filter(|_| runs)?)))
        };
        Folders {
            hosts,
            source,
            published: routes_of(hosts).filter_map(published).collect(),
            scripts: routes_of(hosts).filter_map(scripts).collect(),
        }
    }

    /// A root within another one in which clients publish, too.
    fn nested(&self, route: &Route) -> Option<Mistake> {
        let own = self.source.resolve(route.root()?);
        let is_around = |(_, root): &&(&Route, PathBuf)| own != *root && own.starts_with(root);
        let (other, _) = self.published.iter().find(is_around)?;
        let (own, other) = (route.name(), other.name());
        let what = format!("the root of {own} lies in that of {other}, in which clients publish, too");
        Some((what, "use roots apart from each other, or the same root: locks and quotas are of a root"))
    }

    /// Files that clients publish, and that a route runs.
    fn runnable(&self, host: usize, route: &Route) -> Option<Mistake> {
        let folder = self.source.resolve(&route.folder()?);
        // In one host, paths that lead to files in the same way have one route each, and this one has no scripts.
        let is_apart = |of: usize, other: &Route| of == host && other.action == route.action;
        let overlaps = |(of, other, at): &&(usize, &Route, PathBuf)| {
            at.starts_with(&folder) || (folder.starts_with(at) && !is_apart(*of, other))
        };
        let runner = self.scripts.iter().find(overlaps).map(|(_, runner, _)| *runner);
        let runner = runner.or_else(|| named_scripts(self.hosts, &folder, self.source))?;
        let (own, runner) = (route.name(), runner.name());
        let what = format!("files that clients publish in {own} could run as scripts, by the route {runner}");
        Some((what, "publish in a folder outside of those with scripts, by root or alias"))
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
