//! Configurations. The result is a site or errors. An error has a place. A site is complete, its worst case can be
//! counted, and each of its paths has a plan.

use std::io;
use std::path::{Path, PathBuf};

use site::config::{ConfigError, MAX_ERRORS, Source, load};
use site::memory::{Use, descriptors, total, worst_case};
use site::model::{HeaderRule, Route, Site};
use site::plan::{Plan, PlannedAction, plan};
use taipan_http::fields::{is_token, text_len};
use taipan_http::target::{SafePath, Scheme, encode_path};

/// The limit of a configuration.
const WORKERS: usize = 1024;

/// The path of the first file.
const FIRST: &str = "site.toml";

/// The bytes are the first file. A line `=== PATH` begins another one.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let files = Files::new(&text);
    match load(Path::new(FIRST), &files) {
        Ok(site) => complete(&site),
        Err(errors) => {
            assert!((1..=MAX_ERRORS).contains(&errors.len()));
            errors.iter().for_each(|error| has_a_place(error, &files));
        }
    }
}

struct Files<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Files<'t> {
    fn new(text: &'t str) -> Files<'t> {
        let mut parts = text.split("\n=== ");
        let first = (FIRST, parts.next().unwrap_or_default());
        let further = parts.map(|part| part.split_once('\n').unwrap_or((part, "")));
        Files(std::iter::once(first).chain(further).collect())
    }

    fn text(&self, path: &Path) -> Option<&'t str> {
        self.0.iter().find(|(own, _)| Path::new(own) == path).map(|(_, text)| *text)
    }
}

impl Source for Files<'_> {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        self.text(path).map(|text| text.as_bytes().to_vec()).ok_or(io::Error::from(io::ErrorKind::NotFound))
    }

    /// Compares the text before the first wildcard and after the last.
    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let pattern = pattern.to_str().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let (before, _) = pattern.split_once(['*', '?']).unwrap_or((pattern, ""));
        let (_, behind) = pattern.rsplit_once(['*', '?']).unwrap_or(("", pattern));
        let matches = |path: &&str| path.starts_with(before) && path.ends_with(behind);
        let mut paths: Vec<_> =
            self.0.iter().map(|(path, _)| *path).filter(matches).map(PathBuf::from).collect();
        paths.sort();
        Ok(paths)
    }
}

fn has_a_place(error: &ConfigError, files: &Files) {
    let Some(text) = files.text(&error.file) else { panic!("{error:?} is in no file") };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() as u64 + 1;
    assert!(
        error.line.is_none_or(|line| (1..=lines).contains(&u64::from(line))),
        "{error:?} of {lines} lines"
    );
    for text in [&error.what, &error.what_to_do] {
        assert!(!text.is_empty() && !text.contains(char::is_control), "{error:?}");
    }
    let place = error.line.map_or(String::new(), |line| format!("{line}:"));
    let start = format!("{}:{place} {}", error.file.display(), error.what);
    assert!(error.to_string().starts_with(&start));
}

fn complete(site: &Site) {
    assert!((1..=64).contains(&site.listeners.len()) && !site.hosts.is_empty());
    assert!(
        site.server_header.as_ref().is_none_or(|name| name.bytes().all(|byte| matches!(byte, b' '..=b'~')))
    );
    countable(&worst_case(site, WORKERS));
    countable(&descriptors(site, WORKERS));
    for (place, host) in site.hosts.iter().enumerate() {
        for name in host.names.iter().filter(|name| !name.starts_with("*.")) {
            assert_eq!(site.hosts.find(name.as_bytes()), place, "{name}");
        }
        for route in host.routes.iter() {
            sound(route);
            leads_somewhere(site, place, route);
        }
    }
}

/// No sum overflows.
fn countable(uses: &[Use]) {
    let line = |line: &Use| line.each.checked_mul(line.count);
    let sum = uses.iter().map(line).try_fold(0_u64, |sum, line| sum.checked_add(line?));
    assert_eq!(sum, Some(total(uses)));
}

fn sound(route: &Route) {
    for rule in &route.headers {
        assert!(is_token(rule.name().as_bytes()));
        if let HeaderRule::Set(_, value) = rule {
            assert_eq!(text_len(value.as_bytes()), value.len());
        }
    }
    for (_, value) in &route.cache_control {
        assert_eq!(text_len(value.as_bytes()), value.len());
    }
    let mut pages: Vec<_> = route.error_pages.iter().map(|(status, _)| *status).collect();
    pages.sort_unstable();
    assert!(pages.windows(2).all(|pair| pair[0] != pair[1]) && pages.iter().all(|status| status.is_error()));
    assert!(route.error_pages.iter().all(|(_, page)| !page.is_folder()));
}

/// Plans a path with the text of the pattern of `route`, whether it matches or not.
fn leads_somewhere(site: &Site, host: usize, route: &Route) {
    let mut path = String::from("/");
    encode_path(&route.pattern.to_string(), &mut path);
    let Ok(path) = SafePath::parse(&path) else { return };
    ends_well(plan(site.hosts.at(host), path, None));
}

/// Upstreams of a site.
const MAX_APPLICATIONS: usize = 64;

fn ends_well(plan: Plan<'_, '_>) {
    if let Some(walk) = plan.walk {
        assert!(!walk.steps.is_empty());
    }
    match plan.action {
        PlannedAction::Files(files) => drop(files.below()),
        PlannedAction::Upstream(planned) => {
            assert!(planned.upstream < MAX_APPLICATIONS);
            let (script_name, path_info) = planned.script_name_and_path_info();
            for part in [&script_name, &path_info] {
                assert!(part.is_empty() || part.starts_with('/'));
            }
            assert!(!script_name.ends_with('/'));
        }
        PlannedAction::Redirect(redirect) => {
            let location = redirect.location(Some("q=a b\"\r\n"), b"example.org:80", Scheme::Http);
            assert!(!location.is_empty() && !location.starts_with("//"));
            assert!(location.bytes().all(|byte| matches!(byte, b'!'..=b'~')), "{location:?}");
        }
        PlannedAction::Publish(text) => assert!(!text.body.is_empty()),
        PlannedAction::Monitor(monitor) => assert!(!monitor.name().is_empty()),
        PlannedAction::Status(status, _) => assert!(status.is_error()),
    }
}
