//! What stays denied here, and not in Apache: redirects of a server, which it looks for before it asks who may have a
//! path, and files that a section opens in a folder that is closed.

use super::Site;
use crate::brackets::is_glob;
use crate::draft::{Draft, Scope};
use crate::pattern;
use crate::tree::Place;

impl Site<'_> {
    /// Says where requests are denied here that Apache redirects.
    pub(super) fn report_denied_redirects(&self, draft: &mut Draft) {
        for (path, place) in &self.leading {
            if self.denies_some(path) {
                report(path, place, draft);
            }
        }
    }

    /// Says in which folders the files of a section that opens them stay closed.
    pub(super) fn report_closed_folders(&self, pattern: &str, place: &Place, draft: &mut Draft) {
        let urls = self.section_urls();
        let closed = urls.iter().filter(|url| *url != "/" && !self.is_passed(url) && !self.is_located(url));
        let closed = closed.filter(|url| !pattern.starts_with(*url) && self.context(url).denies_itself());
        for url in closed.filter(|url| !pattern::all_beginning(url, pattern).is_empty()) {
            let what = format!("{pattern} stays closed in {url}, which is so itself, and Apache opens it");
            draft.warn(place, what, "nothing to do, unless these files are needed");
        }
    }

    /// Whether the route of a redirect denies something, or one below it.
    fn denies_some(&self, path: &str) -> bool {
        let text = |route: &Scope| route.path().to_owned();
        let routes = &self.host.routes;
        let Some(own) = routes.iter().find(|route| text(route) == path && route.get("redirect").is_some())
        else {
            return false;
        };
        let has_own = !own.rules.is_empty() || own.get("auth").is_some();
        let is_below = |route: &Scope| {
            let other = text(route);
            match is_glob(&other) {
                true => path.ends_with('/') && !pattern::all_beginning(path, &other).is_empty(),
                false => path.ends_with('/') && other != path && other.starts_with(path),
            }
        };
        own.denies()
            || !has_own && self.host.scope.denies()
            || routes.iter().any(|route| is_below(route) && route.denies())
    }
}

fn report(path: &str, place: &Place, draft: &mut Draft) {
    let what = format!("what is denied at {path} is not redirected, and Apache redirects it");
    draft.warn(place, what, "nothing to do, unless such requests have to be redirected");
}
