//! The entries of pages: a small page is parsed once. A large one is scanned each time that it is sent, so that it
//! costs no memory.

use std::rc::Rc;

use site::includes::Includes;
use ssi::page::Page;
use taipan_http::negotiate::Coding;

use super::lookup::Found;
use super::open::{OpenFile, Stamp};
use super::table::Cost;
use crate::services::Services;

/// A file with directives.
pub struct PageFile {
    /// Of the file, also where an index file stands for its folder.
    pub name: Box<str>,
    pub content: PageContent,
}

pub enum PageContent {
    Parsed(Page),
    File(Rc<OpenFile>),
}

/// What a file is whose name is that of a page.
pub(super) enum PageOrFile {
    Page(PageFile, Vec<Stamp>),
    /// It has no directives.
    File(Found),
    /// Only a compressed copy exists.
    None,
}

pub(super) fn page(services: &Services, includes: &Includes, mut found: Found) -> PageOrFile {
    let stamps = found.stamps();
    let Some(plain) = found.variants.first_mut().filter(|first| first.coding == Coding::Identity) else {
        return PageOrFile::None;
    };
    let content = match (&plain.body, plain.fd.take()) {
        (Some(body), fd) => {
            let page = Page::parse(body, includes.languages);
            if page.is_plain() {
                plain.fd = fd;
                return PageOrFile::File(found);
            }
            PageContent::Parsed(page)
        }
        (None, Some(fd)) => PageContent::File(Rc::new(OpenFile::new(fd, plain.stamp, services.disk.clone()))),
        (None, None) => return PageOrFile::None,
    };
    PageOrFile::Page(PageFile { name: found.name.into(), content }, stamps)
}

impl PageFile {
    /// `None`: its content is in memory.
    pub(super) fn file(&self) -> Option<&OpenFile> {
        match &self.content {
            PageContent::Parsed(_) => None,
            PageContent::File(file) => Some(file),
        }
    }

    pub(super) fn cost(&self) -> Cost {
        match &self.content {
            PageContent::Parsed(page) => Cost::of_bytes(page.cost()),
            PageContent::File(_) => Cost { bytes: 0, descriptors: 1 },
        }
    }
}
