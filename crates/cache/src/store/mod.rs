//! Files of stored responses, without the files: their heads, the index of what is there, and what a purge removes.

pub mod head;
pub mod index;
pub mod name;
pub mod purge;
