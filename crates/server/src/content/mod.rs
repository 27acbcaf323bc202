//! Making responses from what is in a folder, or from nothing: files, listings, inflated files, fixed pages.

pub mod compress;
pub mod copies;
pub mod delta;
pub mod file;
pub mod fixed;
pub mod image_map;
mod inflate;
pub mod listing;
