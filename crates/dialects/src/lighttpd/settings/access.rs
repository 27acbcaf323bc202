//! Who may have what, and what is not sent.

use crate::brackets::is_glob;
use crate::draft::{Draft, Host, Scope};
use crate::lighttpd::convert::unconverted;
use crate::lighttpd::paths::{begun, narrowed, within};

use super::Setting;

/// The setting, if it is about access.
pub fn apply(setting: &Setting, host: &mut Host, draft: &mut Draft) -> bool {
    let Setting { place, paths, .. } = *setting;
    let text = setting.value.text();
    match setting.name {
        "auth.backend" if matches!(text, "htpasswd" | "htdigest" | "plain") => {}
        "auth.backend" => {
            draft.error(place, unconverted(&format!("auth.backend \"{text}\"")), "see authorizer")
        }
        name if name.starts_with("auth.backend.") && !paths.is_empty() => {
            let what = format!("{} for some paths", unconverted(name));
            draft.error(place, what, "write it outside of the condition");
        }
        "url.access-deny" => deny_endings(setting, host, draft),
        "static-file.exclude-extensions" => exclude_endings(setting, host, draft),
        "auth.backend.htpasswd.userfile" | "auth.backend.htdigest.userfile" => {
            host.scope.set(place, "user_files", text);
        }
        "auth.backend.plain.userfile" => {
            host.scope.set(place, "user_files", text);
            host.scope.set(place, "plain_passwords", true);
        }
        "auth.require" => auth(setting, host, draft),
        _ => return false,
    }
    true
}

fn deny_endings(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths, .. } = *setting;
    let mut deny = |path: &str| host.route(path, place).set(place, "return", 403);
    for ending in value.texts() {
        match (ending.as_str(), paths) {
            ("", []) => deny("/"),
            ("", paths) => paths.iter().for_each(|path| deny(path)),
            (ending, paths) if !ending.contains(['/', '*', '?']) => match within(paths, ending) {
                Some(patterns) => patterns.iter().for_each(|pattern| deny(pattern)),
                None => draft.error(place, unconverted(name), "see [[rule]]"),
            },
            _ => draft.error(place, unconverted(name), "see [[rule]]"),
        }
    }
}

fn exclude_endings(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    for ending in setting.value.texts() {
        match within(setting.paths, &ending) {
            Some(patterns) => {
                host.unsent.extend(patterns.into_iter().map(|pattern| (pattern, setting.place.clone())))
            }
            None => draft.error(setting.place, unconverted(setting.name), "see return of [[route]]"),
        }
    }
}

fn auth(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    let all = value.pairs();
    if all.is_empty() {
        return open(setting, host, draft);
    }
    for (at, (path, options)) in all.iter().enumerate() {
        // The first one that is the beginning of a path counts.
        if let Some((first, _)) = all[..at].iter().find(|(first, _)| path.starts_with(first)) {
            let what = format!("auth.require \"{path}\": \"{first}\" stands before it, and is for its paths");
            draft.warn(place, what, "it has no effect; to let it count, write it in front");
            continue;
        }
        let option = |wanted: &str| {
            options
                .pairs()
                .iter()
                .find(|(name, _)| *name == wanted)
                .map_or(String::new(), |(_, datum)| datum.text().to_owned())
        };
        let mut required = Vec::new();
        for one in option("require").split('|') {
            match one.split_once('=') {
                Some(("user", name)) => required.push(format!("user:{name}")),
                Some(("group", name)) => required.push(format!("group:{name}")),
                None if matches!(one, "" | "valid-user") => {}
                _ => {
                    let what = format!("auth.require: \"{}\" cannot be converted", one.escape_debug());
                    draft.error(place, what, "write user=NAME, group=NAME or valid-user");
                }
            }
        }
        let method = option("method");
        if !matches!(method.as_str(), "basic" | "digest") {
            draft.error(
                place,
                format!("auth.require: there is no method \"{}\"", method.escape_debug()),
                "write basic or digest",
            );
        }
        let Some(patterns) = narrowed(paths, &begun(path)) else {
            draft.error(
                place,
                unconverted(&format!("auth.require \"{path}\"")),
                "write it outside of the condition",
            );
            continue;
        };
        for path in patterns {
            let scope = if path == "/" { &mut host.scope } else { host.route(&path, place) };
            scope.set(place, "auth", if method == "digest" { "digest" } else { "basic" });
            scope.set(place, "realm", option("realm"));
            if !required.is_empty() {
                scope.set(place, "require", required.clone());
            }
        }
    }
    // What is around it may require some user.
    if host.scope.get("require").is_some() {
        let asks = |route: &&mut Scope| route.get("auth").is_some_and(|auth| *auth != "off".into());
        for route in host.routes.iter_mut().filter(asks).filter(|route| route.get("require").is_none()) {
            route.set(place, "require", vec!["user".to_owned()]);
        }
    }
}

/// A condition without a list of its own asks for no password. Patterns may find more paths, and stay protected.
fn open(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, place, paths, .. } = *setting;
    if host.routes.iter().chain([&host.scope]).all(|scope| scope.get("auth").is_none()) {
        return;
    }
    for path in paths {
        if is_glob(path) {
            let what = format!("{name}: {path} stays protected, and lighttpd opens it");
            draft.warn(place, what, "nothing to do, unless that is not meant; see auth of [[route]]");
        } else {
            host.route(path, place).set(place, "auth", "off");
        }
    }
}
