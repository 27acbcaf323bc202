//! The cache of responses: what upstreams have sent, stored to be sent again. The crate `cache` decides what is stored and
//! when it is used.
//!
//! Knows nothing of upstreams.

mod body;
pub mod disk;
pub mod purges;

pub use self::body::StoredBody;
