//! The files of the cache of responses: one folder, which all workers share with those of other generations, and which is
//! found again after a restart.

pub mod folder;
pub mod store;
