//! Index files with another root than their folder: nginx looks for the location of such a file anew. Here a folder sends
//! the one of its own root.

use std::collections::BTreeSet;

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::tree::Place;
use crate::within::covers;

/// Reports index files that nginx takes from elsewhere.
pub fn report(host: &Host, draft: &mut Draft) {
    let default = ["index.html".to_owned()];
    let mut found: Vec<(Place, String, bool)> = Vec::new();
    for base in folders(host) {
        let folder = folder_of(host, &base);
        let scopes = [folder, &host.scope, &draft.top];
        let names = scopes.iter().find_map(|scope| scope.get("index")).map_or(&default[..], Value::texts);
        for name in names.iter().filter(|name| !name.contains(['/', '$'])) {
            let index = format!("{base}{name}");
            let own = route_of(host, &index);
            let differs = files(host, own, &index) != files(host, folder, &base);
            if differs && !folder.responds() && !own.responds() && !own.runs() {
                let what =
                    format!("nginx sends the index file {index} from another root than that of its folder");
                // What has no root itself has that of the server, and is often meant for the folder, too.
                let is_of_server = files(host, own, &index) == host.scope.text("root");
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
        let path = Some(route.path()).filter(|path| !path.contains(['*', '?']))?;
        path.rfind('/').map(|at| path[..=at].to_owned())
    };
    let named: BTreeSet<String> = host.routes.iter().filter_map(above).chain(["/".to_owned()]).collect();
    let within = named.iter().map(|folder| format!("{folder}folder/"));
    within.chain(named.iter().cloned()).collect()
}

/// The route of a folder itself.
fn folder_of<'h>(host: &'h Host, folder: &str) -> &'h Scope {
    let alone = host.routes.iter().find(|route| route.path().strip_suffix('.') == Some(folder));
    alone.unwrap_or_else(|| route_of(host, folder))
}

/// The route of a path, or the host.
fn route_of<'h>(host: &'h Host, wanted: &str) -> &'h Scope {
    let is_own = |route: &&Scope| route.path() == wanted && !wanted.ends_with('/');
    let is_glob = |route: &&Scope| !route.path().ends_with('/') && covers(route.path(), wanted);
    let mut routes = host.routes.iter();
    let own = routes.clone().find(is_own).or_else(|| routes.find(is_glob));
    own.or_else(|| prefix_of(host, wanted)).unwrap_or(&host.scope)
}

fn prefix_of<'h>(host: &'h Host, wanted: &str) -> Option<&'h Scope> {
    let around =
        host.routes.iter().filter(|route| route.path().ends_with('/') && wanted.starts_with(route.path()));
    around.max_by_key(|route| route.path().len())
}

/// Where the files of a route are.
fn files<'h>(host: &'h Host, route: &'h Scope, wanted: &str) -> Option<&'h str> {
    let own = |scope: &'h Scope| scope.text("root").or(scope.text("alias"));
    let around = || prefix_of(host, wanted).and_then(own);
    own(route).or_else(around).or_else(|| host.scope.text("root"))
}
