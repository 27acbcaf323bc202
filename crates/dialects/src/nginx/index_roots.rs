//! Index files with another root than their folder: nginx looks for the location of such a file anew. Here a folder sends
//! the one of its own root.

use std::collections::{BTreeSet, HashMap};

use site::route::Pattern;

use crate::brackets::{self, is_glob};
use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::tree::Place;

/// The routes of a host, by their paths: a host may have thousands.
struct Routes<'h> {
    host: &'h Host,
    exact: HashMap<&'h str, &'h Scope>,
    /// They end with a slash.
    prefixes: HashMap<&'h str, &'h Scope>,
    globs: Vec<(Pattern, &'h Scope)>,
}

/// Reports index files that nginx takes from elsewhere.
pub fn report(host: &Host, draft: &mut Draft) {
    let default = ["index.html".to_owned()];
    let mut found: Vec<(Place, String, bool)> = Vec::new();
    let routes = Routes::of(host);
    for base in folders(host) {
        let folder = routes.of_folder(&base);
        let scopes = [folder, &host.scope, &draft.top];
        let names = scopes.iter().find_map(|scope| scope.get("index")).map_or(&default[..], Value::texts);
        for name in names.iter().filter(|name| !name.contains(['/', '$'])) {
            let index = format!("{base}{name}");
            let own = routes.find(&index);
            let differs = routes.files(own, &index) != routes.files(folder, &base);
            if differs && !folder.responds() && !own.responds() && !own.runs() {
                let what =
                    format!("nginx sends the index file {index} from another root than that of its folder");
                // What has no root itself has that of the server, and is often meant for the folder, too.
                let is_of_server = routes.files(own, &index) == host.scope.text("root");
                found.push((own.place(), what, is_of_server && !folder.path().ends_with("/.")));
            }
        }
    }
    // The mistakes come first.
    sort::by_key(&mut found, |(.., is_of_server)| *is_of_server);
    for (at, (place, what, is_of_server)) in found.iter().enumerate() {
        let is_told = found[..at].iter().any(|(other, ..)| other == place);
        match is_of_server {
            _ if is_told => {}
            true => draft.warn(place, what, "here the folder sends its own"),
            false => draft.error(place, what, "give both the same root, or name the file in requests"),
        }
    }
}

/// The folders that something is said about, or about a file in them. Folders within have what a pattern finds there.
fn folders(host: &Host) -> BTreeSet<String> {
    let above = |route: &Scope| {
        let path = Some(route.path()).filter(|path| !is_glob(path))?;
        path.rfind('/').map(|at| path[..=at].to_owned())
    };
    let named: BTreeSet<String> = host.routes.iter().filter_map(above).chain(["/".to_owned()]).collect();
    let within = named.iter().map(|folder| format!("{folder}folder/"));
    within.chain(named.iter().cloned()).collect()
}

impl<'h> Routes<'h> {
    fn of(host: &'h Host) -> Routes<'h> {
        let mut routes = Routes { host, exact: HashMap::new(), prefixes: HashMap::new(), globs: Vec::new() };
        for route in &host.routes {
            match route.path() {
                path if path.ends_with('/') => _ = routes.prefixes.insert(path, route),
                path if is_glob(path) => {
                    routes.globs.extend(brackets::parse(path).ok().map(|pattern| (pattern, route)));
                }
                path => _ = routes.exact.entry(path).or_insert(route),
            }
        }
        routes
    }

    /// The route of a folder itself.
    fn of_folder(&self, folder: &str) -> &'h Scope {
        self.exact.get(&*format!("{folder}.")).copied().unwrap_or_else(|| self.find(folder))
    }

    /// The route of a path, or the host.
    fn find(&self, wanted: &str) -> &'h Scope {
        let glob = || {
            let wanted = brackets::parse(wanted).ok()?;
            let path = matches!(wanted, Pattern::Exact(_)).then(|| wanted.example())??;
            self.globs.iter().find(|(pattern, _)| pattern.matches(&path)).map(|(_, route)| *route)
        };
        let own = self.exact.get(wanted).copied().or_else(glob);
        own.or_else(|| self.prefix_of(wanted)).unwrap_or(&self.host.scope)
    }

    /// The longest prefix.
    fn prefix_of(&self, wanted: &str) -> Option<&'h Scope> {
        let slashes = wanted.match_indices('/').rev();
        slashes.map(|(at, _)| &wanted[..=at]).find_map(|prefix| self.prefixes.get(prefix).copied())
    }

    /// Where the files of a route are.
    fn files(&self, route: &'h Scope, wanted: &str) -> Option<&'h str> {
        let own = |scope: &'h Scope| scope.text("root").or(scope.text("alias"));
        let around = || self.prefix_of(wanted).and_then(own);
        own(route).or_else(around).or_else(|| self.host.scope.text("root"))
    }
}
