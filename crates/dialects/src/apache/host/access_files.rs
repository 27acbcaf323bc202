//! The `.htaccess` files beneath the roots of a host.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Site, is_redirect};
use crate::apache::choices;
use crate::apache::context::{Context, Reading};
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
                    self.read_access_file(&folder, overrides, &place, draft);
                }
                if !overrides.is_none() || self.allows_within(&folder) {
                    let names = self.world.disk.folders(Path::new(&folder)).into_iter();
                    let folder = folder.trim_end_matches('/');
                    open.extend(names.map(|name| (format!("{folder}/{name}"), depth + 1)));
                }
            }
        }
    }

    fn read_access_file(&mut self, folder: &str, overrides: Overrides, place: &Place, draft: &mut Draft) {
        let path = Path::new(folder).join(&self.access_file);
        let Some(directives) = self.world.reader.borrow_mut().htaccess(&path, place, draft) else { return };
        let directives = choices::resolved(directives, draft);
        let directives = KNOWN.kept(directives, &[], draft);
        let redirects = |directive: &&Directive| is_redirect(directive);
        let directives = match directives.iter().filter(redirects).all(|one| overrides.allows(one)) {
            true => self.without_redirects(&directives, draft),
            false => directives,
        };
        let reading = Reading { path: self.world.path, overrides: Some(overrides) };
        self.folders.push((folder.to_owned(), Context::read(&directives, place, &reading, draft)));
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
