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
                let path = Path::new(&folder).join(&self.access_file);
                if !overrides.is_none() && read.insert(folder.clone()) {
                    let found = self.world.reader.borrow_mut().htaccess(&path, &place, draft);
                    if let Some(directives) = found {
                        let directives = choices::resolved(directives, draft);
                        let directives = KNOWN.kept(directives, &[], draft);
                        let redirects = |directive: &&Directive| is_redirect(directive);
                        let directives =
                            match directives.iter().filter(redirects).all(|one| overrides.allows(one)) {
                                true => self.without_redirects(&directives, draft),
                                false => directives,
                            };
                        let reading = Reading { path: self.world.path, overrides: Some(overrides) };
                        self.folders
                            .push((folder.clone(), Context::read(&directives, &place, &reading, draft)));
                    }
                }
                let is_wanted = !overrides.is_none()
                    || self.folders.iter().any(|(own, context)| {
                        own.starts_with(&folder)
                            && context.overrides.is_some_and(|overrides| !overrides.is_none())
                    });
                if is_wanted {
                    let names = self.world.disk.folders(Path::new(&folder));
                    open.extend(
                        names
                            .into_iter()
                            .map(|name| (format!("{}/{name}", folder.trim_end_matches('/')), depth + 1)),
                    );
                }
            }
        }
    }

    /// What `.htaccess` files of a folder may have: by default nothing.
    fn overrides(&self, folder: &str) -> Overrides {
        let around = self.folders.iter().filter(|(outer, _)| paths::below(folder, outer).is_some());
        let given = around.filter_map(|(outer, context)| Some((outer.len(), context.overrides?)));
        given.max_by_key(|(length, _)| *length).map_or(Overrides::default(), |(_, overrides)| overrides)
    }
}
