//! The entries of the cache: what a lookup has found, prepared so that it can be sent. A file has representations, each
//! with the head of its full response.

mod representation;
mod special;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::{io, iter};

use site::alternates::{AlternateRules, Differences, Label};
use site::compress::{Codings, Kept, forbids_transform};
use site::decide::{Offer, Resource};
use site::field_file;
use site::model::{HeaderRule, Route, Special};
use site::plan::rewritten;
use taipan_http::head::Head;
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

pub use self::representation::stat_etag;
use self::representation::{Description, Shared, Source};
use self::special::{prepare_as_is, prepare_image_map};
use super::HostKey;
use super::beneath::OpenError;
use super::deltas::Deltas;
use super::lookup::{Found, Lookup, Metafile, Variant};
use super::open::{OpenFile, Stamp};
use super::page::{PageFile, PageOrFile, page};
use super::table::Cost;
use super::{Files, is_shortage};
use crate::encoder;
use crate::log;
use crate::response_head::DatedHead;
use crate::services::Services;

/// What is at a path, ready to be sent.
#[derive(Clone)]
pub struct Entry {
    pub resource: Resource,
    /// One for each representation of `resource`.
    pub prepared: Vec<PreparedRepresentation>,
    pub(super) stamps: Vec<Stamp>,
    /// How many of these were in the future when the heads were made, which have the time of that moment instead (RFC 9110
    /// §8.8.2.1).
    pub(super) ahead: usize,
    /// The last comparison with the disk.
    pub(super) checked: Cell<Checked>,
    /// The codings that are being made.
    pub(super) making: Rc<Cell<Codings>>,
    /// `None`: the file is no dictionary for other files.
    pub deltas: Option<Rc<Deltas>>,
    /// `None`: it is no page.
    pub page: Option<Rc<PageFile>>,
    pub(super) origin: SelectedFiles,
    /// The fields of an alternate whose head is not prepared with them.
    pub(super) selected: Vec<SelectedField>,
    /// `None`: the file has no alternates.
    pub(super) alternates: Option<Alternates>,
}

/// A comparison with the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked {
    pub second: i64,
    /// How many changes of files the worker knew of.
    pub changes: u64,
}

/// A field that says which alternate a response has.
type SelectedField = (&'static str, String);

/// The same file in other languages and charsets.
#[derive(Clone)]
pub(super) struct Alternates {
    rules: Arc<AlternateRules>,
    /// Of the entry itself, and of the others.
    labels: Vec<Label>,
    pub(super) others: Vec<Rc<Entry>>,
}

/// The files that stand for a path.
#[derive(Debug, Clone, Default)]
pub(super) struct SelectedFiles {
    /// The name of an index file, or of an alternate. `None`: the path is that of the file itself.
    name: Option<Box<str>>,
    /// The codings of the precompressed files.
    precompressed: Vec<Coding>,
    /// Only a gzip file exists.
    is_gzip_only: bool,
}

#[derive(Clone)]
pub struct PreparedRepresentation {
    /// The head of the full response, followed by a small body.
    pub response: DatedHead,
    pub content: Content,
}

impl PreparedRepresentation {
    fn file(&self) -> Option<&OpenFile> {
        match &self.content {
            Content::Inline | Content::Damaged(_) => None,
            Content::File(file) => Some(file),
            Content::Inflated(gzip) => Some(&gzip.file),
        }
    }
}

/// Where the body of a representation is.
#[derive(Clone)]
pub enum Content {
    /// Behind the head.
    Inline,
    File(Rc<OpenFile>),
    /// In a gzip file that is inflated while it is sent.
    Inflated(Rc<Inflated>),
    /// In a gzip file that cannot be inflated.
    Damaged(Rc<Damaged>),
}

pub struct Inflated {
    pub file: Rc<OpenFile>,
    /// As the log names it.
    pub path: String,
}

pub struct Damaged {
    pub path: String,
    pub why: io::Error,
}

impl Files {
    /// Updates the cache by the result of a lookup. Errors: the status of the response.
    pub(super) fn update(
        &self,
        host: HostKey,
        path: &SafePath<'_>,
        cached: Option<Rc<Entry>>,
        result: Result<Option<Lookup>, OpenError>,
        checked: Checked,
    ) -> Result<Rc<Entry>, Status> {
        match (result, cached) {
            (Ok(Some(lookup)), _) => {
                let entry = Rc::new(Entry::new(&self.services, host, path, lookup, checked));
                self.insert(host, path, entry.clone());
                Ok(entry)
            }
            (Ok(None), Some(entry)) => {
                entry.confirm(checked);
                Ok(entry)
            }
            // Sending the old entry needs neither a descriptor nor memory.
            (Err(OpenError::Local(errno)), Some(entry)) if is_shortage(errno) => {
                entry.checked.set(checked);
                Ok(entry)
            }
            (Err(OpenError::Local(errno)), _) => Err(self.report_errno(path.as_str(), errno)),
            (Ok(None) | Err(_), _) => Err(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

impl Entry {
    fn new(
        services: &Services,
        host: HostKey,
        path: &SafePath<'_>,
        lookup: Lookup,
        checked: Checked,
    ) -> Entry {
        let entry = match lookup {
            Lookup::Missing => Entry::without_content(Resource::Missing, Vec::new(), checked),
            Lookup::Denied => Entry::without_content(Resource::Denied, Vec::new(), checked),
            Lookup::Folder(stamp) => Entry::without_content(Resource::Folder, vec![stamp], checked),
            Lookup::Files(found) => Entry::of_files(RoutedPath::new(services, host, path), found, checked),
        };
        Entry { ahead: ahead(&entry.stamps, services.clock.now()), ..entry }
    }

    fn of_files(path: RoutedPath<'_>, found: Vec<Found>, checked: Checked) -> Entry {
        let mut others = found.into_iter();
        let Some(first) = others.next() else {
            return Entry::without_content(Resource::Missing, Vec::new(), checked);
        };
        if others.len() == 0 {
            return Entry::of_file(path, first, Differences::default(), checked);
        }
        let all = || iter::once(&first).chain(others.as_slice());
        let labels: Vec<Label> = all().map(|found| found.label).collect();
        let stamps = all().flat_map(Found::stamps).collect();
        let differences = Differences::of(&labels);
        let entry = |found| Entry::of_file(path, found, differences, checked);
        let (first, others) = (entry(first), others.map(|found| Rc::new(entry(found))).collect());
        let rules = path.route.files.alternates.clone();
        Entry { stamps, alternates: Some(Alternates { rules, labels, others }), ..first }
    }

    /// Whether one of several files is chosen for each client.
    pub fn has_alternates(&self) -> bool {
        self.alternates.is_some()
    }

    fn of_file(path: RoutedPath<'_>, found: Found, differences: Differences, checked: Checked) -> Entry {
        let RoutedPath { services, route, .. } = path;
        let selected = selected(path, &found, differences);
        let plain_name = route.files.alternates.plain_name(&found.name);
        let special = route.files.special.of(&plain_name);
        let found = match route.files.includes.cover_file(&plain_name) {
            false => found,
            true => match page(services, &route.files.includes, found) {
                PageOrFile::File(found) => found,
                PageOrFile::None => return Entry::without_content(Resource::Missing, Vec::new(), checked),
                PageOrFile::Page(page, stamps) => {
                    let name = path.name_beside(&page.name);
                    return Entry { selected, ..Entry::of_page(page, name, stamps, checked) };
                }
            },
        };
        let Found { name, variants, .. } = &found;
        let stamps = found.stamps();
        let codings = variants.iter().map(|variant| variant.coding);
        let origin = SelectedFiles {
            name: path.name_beside(name),
            precompressed: codings.clone().filter(|coding| *coding != Coding::Identity).collect(),
            is_gzip_only: codings.clone().next().is_some_and(|first| first != Coding::Identity),
        };
        let prepared = match special {
            None => prepare(path, found, differences),
            Some(Special::AsIs) => prepare_as_is(path, &found, &selected),
            Some(Special::ImageMap) => prepare_image_map(&found),
        };
        let Prepared { resource, prepared, deltas } = prepared.unwrap_or_else(|mistake| {
            log::error(format_args!("{}: {mistake}", path.path));
            Prepared { resource: Resource::Broken, prepared: Vec::new(), deltas: None }
        });
        let entry = Entry::without_content(resource, stamps, checked);
        Entry { prepared, deltas, origin, selected, ..entry }
    }

    /// The alternate that the client prefers, or else the file itself.
    #[inline]
    pub fn select<'e>(self: &'e Rc<Entry>, head: &Head<'_>) -> &'e Rc<Entry> {
        match &self.alternates {
            None => self,
            Some(alternates) => alternates.select(head).unwrap_or(self),
        }
    }

    fn without_content(resource: Resource, stamps: Vec<Stamp>, checked: Checked) -> Entry {
        Entry {
            resource,
            prepared: Vec::new(),
            stamps,
            ahead: 0,
            checked: Cell::new(checked),
            making: Rc::default(),
            deltas: None,
            page: None,
            origin: SelectedFiles::default(),
            selected: Vec::new(),
            alternates: None,
        }
    }

    /// The fields that say which alternate it is, where they are not prepared.
    pub fn selected_fields(&self) -> Vec<(&str, &str)> {
        self.selected.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    fn of_page(page: PageFile, name: Option<Box<str>>, stamps: Vec<Stamp>, checked: Checked) -> Entry {
        Entry {
            page: Some(Rc::new(page)),
            origin: SelectedFiles { name, ..SelectedFiles::default() },
            ..Entry::without_content(Resource::Page, stamps, checked)
        }
    }

    /// The path of the file that stands for `path`: that of an index file, an alternate, or a precompressed file, whose
    /// representation is `chosen`. `None`: it is `path` itself.
    pub fn path_of_file(&self, path: &SafePath<'_>, chosen: Option<usize>) -> Option<SafePath<'static>> {
        let SelectedFiles { name, precompressed, is_gzip_only } = &self.origin;
        let file = name.as_ref().and_then(|name| file_at(path, name));
        let coding = match (&self.resource, chosen) {
            _ if *is_gzip_only => Some(Coding::Gzip),
            (Resource::File(representations, _), Some(chosen)) => {
                let chosen = representations.get(chosen).map(|representation| representation.coding);
                chosen.filter(|coding| precompressed.contains(coding))
            }
            _ => None,
        };
        match (file, coding) {
            (file, None) => file,
            (None, Some(coding)) => path.with_suffix(coding.extension()),
            (Some(file), Some(coding)) => file.with_suffix(coding.extension()),
        }
    }

    /// A comparison with the disk has found no difference.
    fn confirm(&self, checked: Checked) {
        self.checked.set(checked);
        self.prepared.iter().filter_map(PreparedRepresentation::file).for_each(|file| file.confirm());
    }

    /// Whether one of its files has been found changed while it was sent.
    #[inline]
    pub(super) fn has_changed(&self) -> bool {
        self.prepared.iter().filter_map(PreparedRepresentation::file).any(|file| file.has_changed())
    }

    /// Whether one of its files has been deleted.
    pub(super) fn has_deleted(&self) -> bool {
        let prepared = self.prepared.iter().filter_map(PreparedRepresentation::file);
        let page = self.page.iter().filter_map(|page| page.file());
        let others = self.alternates.iter().flat_map(|alternates| &alternates.others);
        prepared.chain(page).any(OpenFile::is_deleted) || others.clone().any(|other| other.has_deleted())
    }

    /// The next request compares it with the disk.
    pub(super) fn expire(&self) {
        // Not fresh: it is later than any second of the clock.
        self.checked.update(|checked| Checked { second: i64::MAX, ..checked });
    }

    /// The stamps to compare with the disk. None if a time that was in the future has passed, or the clock was set: then
    /// the heads have to be made again.
    pub(super) fn stamps_at(&self, now: i64) -> &[Stamp] {
        if ahead(&self.stamps, now) == self.ahead { &self.stamps } else { &[] }
    }

    /// The stamp of the file without a coding.
    pub fn stamp(&self) -> Option<&Stamp> {
        self.stamps.first()
    }

    /// `None`: it is not a folder.
    pub fn folder_stamp(&self) -> Option<Stamp> {
        matches!(self.resource, Resource::Folder).then(|| self.stamps.first().copied()).flatten()
    }

    pub(super) fn cost(&self) -> Cost {
        let prepared = self.prepared.iter().map(|one| {
            let memory = if let Content::File(file) = &one.content { file.memory() } else { 0 };
            let bytes = one.response.head().bytes().len() + size_of_val(one) + memory;
            Cost { bytes, descriptors: usize::from(one.file().is_some()) }
        });
        let map = if let Resource::ImageMap(map) = &self.resource { map.memory() } else { 0 };
        let deltas = self.deltas.iter().map(|deltas| deltas.cost());
        let page = self.page.iter().map(|page| page.cost());
        let others = self.alternates.iter().flat_map(|alternates| &alternates.others);
        let parts = prepared.chain(deltas).chain(page).chain(others.map(|other| other.cost()));
        parts.sum::<Cost>() + Cost::of_bytes(map + size_of::<Entry>())
    }
}

/// How many of the files are from the future.
fn ahead(stamps: &[Stamp], now: i64) -> usize {
    stamps.iter().filter(|stamp| stamp.last_modified().is_some_and(|time| time > now)).count()
}

impl Alternates {
    /// `None`: the entry that these are the alternates of.
    #[cold]
    fn select(&self, head: &Head<'_>) -> Option<&Rc<Entry>> {
        self.others.get(self.rules.choose(head, &self.labels).checked_sub(1)?)
    }

    /// With `new` in place of the alternate that `old` is a version of. `None`: there is none.
    pub(super) fn replaced(
        &self,
        old: &Entry,
        new: impl FnOnce(&Entry) -> Option<Entry>,
    ) -> Option<Alternates> {
        let at = self.others.iter().position(|other| Rc::ptr_eq(&other.making, &old.making))?;
        let mut others = self.others.clone();
        others[at] = Rc::new(new(&others[at])?);
        Some(Alternates { others, ..self.clone() })
    }
}

/// The path of an entry, with its route after rewrites.
#[derive(Clone, Copy)]
struct RoutedPath<'a> {
    services: &'a Services,
    host: HostKey,
    path: &'a SafePath<'a>,
    route: &'a Route,
}

impl<'a> RoutedPath<'a> {
    fn new(services: &'a Services, host: HostKey, path: &'a SafePath<'a>) -> RoutedPath<'a> {
        RoutedPath { services, host, path, route: services.route(host.host(), path) }
    }

    /// The value of `Cache-Control` for what is there, with this `Content-Type`.
    fn cache_control(&self, content_type: &str) -> Option<&'a str> {
        self.route.cache_control(self.path, content_type)
    }

    /// The path that rewrites lead to. `None`: there is no rewrite for it.
    fn rewritten(&self) -> Option<SafePath<'static>> {
        rewritten(self.services.site.hosts.at(self.host.host()), self.path)
    }

    /// The name of a file that stands for the path. `None`: it is that of the path itself. Where rewrites lead to the
    /// file, it may be an index file or an alternate of another path, which has the same name by chance.
    fn name_beside(&self, name: &str) -> Option<Box<str>> {
        let is_own = !self.path.is_folder() && name == self.path.name() && self.rewritten().is_none();
        (!is_own).then(|| name.into())
    }
}

/// The file `name` of the folder `path`, or beside the file `path`.
fn file_at(path: &SafePath<'_>, name: &str) -> Option<SafePath<'static>> {
    if path.is_folder() { path.join(name) } else { path.sibling(name) }
}

/// What is sent of a file.
struct Prepared {
    resource: Resource,
    prepared: Vec<PreparedRepresentation>,
    deltas: Option<Rc<Deltas>>,
}

/// `path` is the path of the request. Errors: what is wrong with the metafile.
fn prepare(path: RoutedPath<'_>, found: Found, differences: Differences) -> Result<Prepared, String> {
    let Found { label, name, variants, metafile, .. } = found;
    let RoutedPath { services, route, .. } = path;
    let described =
        Description { further: further_fields(metafile, &name)?, ..Description::new(path, &name, label) };
    let described = described.with_type();
    let is_gzip_only = variants.first().is_some_and(|first| first.coding != Coding::Identity);
    let content_type = &*described.content_type;
    let cache_control = path.cache_control(content_type);
    let own = described.further("cache-control").and_then(|value| std::str::from_utf8(value).ok());
    let cache_control = own.or(cache_control);
    let offer = match &variants[..] {
        [plain] if plain.coding == Coding::Identity && !forbids(route, cache_control) => {
            offer(services, route, content_type, plain.stamp.size)
        }
        _ => Offer::Nothing,
    };
    let is_alternate = differences != Differences::default();
    let is_dictionary = matches!(offer, Offer::Kept(_)) && encoder::encodes(Coding::Dcz) && !is_alternate;
    let dictionary = route.files.dictionary.as_ref().filter(|_| is_dictionary);
    let by_coding = match dictionary {
        Some(_) => Some("Accept-Encoding, Available-Dictionary"),
        None if variants.len() > 1 || is_gzip_only || offer != Offer::Nothing => Some("Accept-Encoding"),
        None => None,
    };
    let vary: Vec<&str> = differences.fields().chain(by_coding).collect();
    let vary = (!vary.is_empty()).then(|| vary.join(", "));
    let matched = dictionary.map(|urls| format!("match=\"{urls}\""));
    let shared = Shared { path, described: &described, cache_control, vary, dictionary: matched };
    let count = variants.len() + usize::from(is_gzip_only);
    let (mut representations, mut prepared) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut add = |(representation, response)| {
        representations.push(representation);
        prepared.push(response);
    };
    for Variant { stamp, coding, compared_at, fd, body } in variants {
        let file = fd.map(|fd| Rc::new(OpenFile::compared(fd, stamp, compared_at, services.disk.clone())));
        let source = Source { stamp, file, body };
        if is_gzip_only {
            let path = file_at(path.path, &format!("{name}{}", Coding::Gzip.extension()));
            add(shared.inflated(&source, path.map_or_else(|| name.clone(), |path| path.to_string())));
        }
        add(shared.unchanged(source, coding));
    }
    let resource = Resource::File(representations, offer);
    Ok(Prepared { resource, prepared, deltas: dictionary.map(|_| Rc::default()) })
}

/// The fields of a metafile. Errors: what is wrong with it.
fn further_fields(metafile: Option<Metafile>, name: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let Some(Metafile { content, .. }) = metafile else { return Ok(Vec::new()) };
    let content = content.ok_or_else(|| format!("the metafile of {name} is larger than 8 KiB"))?;
    let fields =
        field_file::metafile(&content).map_err(|mistake| format!("the metafile of {name}, {mistake}"))?;
    Ok(fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect())
}

/// Nothing for a file without alternates.
fn selected(path: RoutedPath<'_>, found: &Found, differences: Differences) -> Vec<SelectedField> {
    if path.route.files.alternates.is_empty() {
        return Vec::new();
    }
    let described = Description::new(path, &found.name, found.label);
    let vary: Vec<&str> = differences.fields().collect();
    let vary = (!vary.is_empty()).then(|| vary.join(", "));
    let fields = [
        ("Content-Language", described.content_language),
        ("Content-Location", described.content_location),
        ("Vary", vary),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The largest file of which compressed copies are kept: what a strong level makes of it takes a second.
const LARGEST_KEPT: u64 = 8 * 1024 * 1024;
/// Such a file takes at most this fraction of the cache.
const FRACTION_OF_CACHE: u64 = 8;

/// How a file is compressed.
fn offer(services: &Services, route: &Route, content_type: &str, size: u64) -> Offer {
    let rules = &route.files.compress;
    if !rules.gains(content_type.as_bytes(), size) {
        return Offer::Nothing;
    }
    let largest = LARGEST_KEPT.min(services.site.cache.bytes as u64 / FRACTION_OF_CACHE);
    let is_kept = rules.kept != Kept::Nothing && size <= largest && services.site.cache.entries > 0;
    let codings = if is_kept { rules.codings } else { rules.streamed }.only(encoder::encodes);
    match codings.is_empty() {
        true => Offer::Nothing,
        false if is_kept => Offer::Kept(codings),
        false => Offer::Streamed(codings),
    }
}

/// Whether the configuration forbids that the file is sent in another coding.
fn forbids(route: &Route, cache_control: Option<&str>) -> bool {
    let fields = route.headers.iter().filter_map(HeaderRule::field);
    let set = fields.filter(|(name, _)| name.eq_ignore_ascii_case("cache-control")).map(|(_, value)| value);
    set.chain(cache_control).any(|value| forbids_transform(value.as_bytes()))
}
