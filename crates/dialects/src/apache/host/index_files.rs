//! Folders whose index file is denied: Apache denies them without another index file, even if it lists others.

use crate::brackets::is_glob;
use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::within::covers;

/// Who may have an index file.
enum May {
    All,
    Some,
    None,
}

/// Lists no folder of a host whose index file is denied.
pub(super) fn list_no_denied(host: &mut Host, draft: &mut Draft) {
    let of_host = host.scope.clone();
    let folders: Vec<String> = host
        .routes
        .iter()
        .filter(|route| !route.responds())
        .filter_map(|route| route.text("path"))
        .filter(|path| path.ends_with('/') && *path != "/" && !is_glob(path))
        .map(str::to_owned)
        .collect();
    for folder in std::iter::once("/".to_owned()).chain(folders) {
        let own = host.routes.iter().find(|route| route.text("path") == Some(&folder));
        let own = own.filter(|_| folder != "/").unwrap_or(&of_host);
        let value = |name: &str| own.get(name).or(of_host.get(name));
        let names = value("index").map_or(vec!["index.html".to_owned()], |names| names.texts().to_vec());
        let is_listed = value("listing") == Some(&true.into());
        let (mut kept, mut is_for_some) = (Vec::new(), false);
        for name in &names {
            match who(host, &format!("{folder}{name}")) {
                May::None => continue,
                May::Some => is_for_some = true,
                May::All => {}
            }
            kept.push(name.clone());
        }
        let (is_less, place) = (kept.len() < names.len(), own.place());
        let is_hidden = is_for_some && is_listed;
        if !(is_less || is_hidden) {
            continue;
        }
        if is_listed && !is_less {
            let what = format!("{folder} is not listed, because not every client may have its index file");
            draft.warn(&place, what, "see listing, if all clients may see the names of the files");
        }
        let scope = match folder.as_str() {
            "/" => &mut host.scope,
            folder => host.route(folder, &place),
        };
        if is_listed {
            scope.set(&place, "listing", false);
        }
        if is_less && !kept.is_empty() {
            scope.set(&place, "index", Value::Texts(kept));
        }
    }
}

fn who(host: &Host, file: &str) -> May {
    let exact = host.routes.iter().find(|route| route.text("path") == Some(file));
    let glob = || {
        host.routes
            .iter()
            .filter(|route| is_glob(route.path()))
            .find(|route| covers(route.text("path").unwrap_or(""), file))
    };
    match exact.or_else(glob) {
        Some(route) if route.rules.first().is_some_and(Scope::denies_all) => May::None,
        Some(route) if route.get("return").is_some() => May::None,
        Some(route) if route.denies() => May::Some,
        _ => May::All,
    }
}
