//! The `.htaccess` files beneath the roots of a host.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Site, is_redirect};
use crate::apache::choices;
use crate::apache::context::{Context, Reading};
use crate::apache::flags::Flags;
use crate::apache::names::KNOWN;
use crate::apache::options::Overrides;
use crate::apache::paths;
use crate::draft::Draft;
use crate::tree::{Directive, MAX_DEPTH, Place};

/// Folders in which files `.htaccess` are looked for.
const MAX_FOLDERS: usize = 20_000;

impl Site<'_> {
    /// The `.htaccess` files beneath the roots, where they are allowed.
    pub(super) fn find_access_files(&mut self, draft: &mut Draft) {
        let roots: Vec<(String, Place)> =
            self.trees.iter().map(|tree| (tree.folder.clone(), tree.place.clone())).collect();
        let mut read = BTreeSet::new();
        let mut seen = 0;
        for (root, place) in roots {
            let mut open = vec![(root, 0)];
            while let Some((folder, depth)) = open.pop() {
                seen += 1;
                if seen > MAX_FOLDERS || depth > MAX_DEPTH {
                    draft.error(
                        &place,
                        "there are more than 20000 folders, or they are more than 16 deep",
                        "set AllowOverride None",
                    );
                    return;
                }
                let overrides = self.overrides(&folder);
                if !overrides.is_none() && read.insert(folder.clone()) {
                    let inner = self.read_access_file(&folder, overrides, &place, draft);
                    let root = self.trees.iter_mut().find(|tree| tree.url == "/" && tree.folder == folder);
                    if let Some((inner, root)) = inner.zip(root) {
                        root.folder.clone_from(&inner);
                        open.push((inner, depth + 1));
                        continue;
                    }
                }
                if !overrides.is_none() || self.allows_within(&folder) {
                    let names = self.world.disk.folders(Path::new(&folder)).into_iter();
                    let folder = folder.trim_end_matches('/');
                    open.extend(names.map(|name| (format!("{folder}/{name}"), depth + 1)));
                }
            }
        }
    }

    /// Returns the folder within a root that takes its place.
    fn read_access_file(
        &mut self,
        folder: &str,
        overrides: Overrides,
        place: &Place,
        draft: &mut Draft,
    ) -> Option<String> {
        let path = Path::new(folder).join(&self.access_file);
        let directives = self.world.reader.borrow_mut().htaccess(&path, place, draft)?;
        let directives = choices::resolved(directives, draft);
        let mut directives = KNOWN.kept(directives, &[], draft);
        let is_root = self.trees.iter().any(|tree| tree.url == "/" && tree.folder == folder);
        let is_allowed = |one: &Directive| !one.name.starts_with("rewrite") || overrides.allows(one);
        let inner = inner_folder(&directives).filter(|_| is_root && directives.iter().all(is_allowed));
        if let Some((name, rule)) = &inner {
            let what = format!("the folder {name} is the root, and /{name}/ is no path of it");
            draft.warn(rule, what, "nothing to do, unless URLs have its name");
            directives.retain(|directive| !directive.name.starts_with("rewrite"));
        }
        let inner = inner.map(|(name, _)| format!("{}/{name}", folder.trim_end_matches('/')));
        let redirects = |directive: &&Directive| is_redirect(directive);
        let directives = match directives.iter().filter(redirects).all(|one| overrides.allows(one)) {
            true => self.without_redirects(&directives, draft),
            false => directives,
        };
        let reading = Reading { path: self.world.path, overrides: Some(overrides) };
        self.folders.push((folder.to_owned(), Context::read(&directives, place, &reading, draft)));
        inner
    }

    /// Whether a folder within has such files, though this one has none.
    fn allows_within(&self, folder: &str) -> bool {
        self.folders.iter().any(|(own, context)| {
            own.starts_with(folder) && context.overrides.is_some_and(|overrides| !overrides.is_none())
        })
    }

    /// What `.htaccess` files of a folder may have: by default nothing.
    fn overrides(&self, folder: &str) -> Overrides {
        let around = self.folders.iter().filter(|(outer, _)| paths::below(folder, outer).is_some());
        let given = around.filter_map(|(outer, context)| Some((outer.len(), context.overrides?)));
        given.max_by_key(|(length, _)| *length).map_or(Overrides::default(), |(_, overrides)| overrides)
    }
}

/// The folder that the rewrites of a root lead all paths to, and where they say so: that of an application with a folder
/// `public`.
fn inner_folder(directives: &[Directive]) -> Option<(String, Place)> {
    let named = |name: &'static str| directives.iter().filter(move |directive| directive.name == name);
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let folder = |rule: &Directive| {
        let to = rule.argument(1).trim_start_matches('/');
        let name = match rule.argument(0).trim_start_matches('^').trim_end_matches('$') {
            "(.*)" | "(.+)" => to.strip_suffix("/$1"),
            "" => to.strip_suffix('/'),
            _ => None,
        };
        let only_ends = Flags::of(rule).all().all(|flag| matches!(flag, "" | "L" | "QSA" | "NC" | "END"));
        name.filter(|name| only_ends && !name.is_empty()).filter(is_name).map(str::to_owned)
    };
    let rule = named("rewriterule").find(|rule| rule.argument(1).ends_with("/$1"))?;
    let name = folder(rule)?;
    // What leads there already is left as it is.
    let is_beginning = |expression: &str| {
        let rest = expression.strip_prefix("!^/").map(|rest| rest.trim_end_matches(['$', '*', '.', '/']));
        rest == Some(name.as_str())
    };
    let is_other = |condition: &Directive| {
        condition.argument(0) == "%{REQUEST_URI}" && is_beginning(condition.argument(1))
    };
    let is_on = named("rewriteengine").any(|engine| engine.argument(0).eq_ignore_ascii_case("on"));
    let leads = named("rewriterule").all(|rule| folder(rule).as_ref() == Some(&name));
    (is_on && leads && named("rewritecond").all(is_other)).then(|| (name, rule.place.clone()))
}
