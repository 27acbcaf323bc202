//! What the sections of hosts and routes refer to. All of it is read before them.

use super::limits::LimitReader;
use crate::model::Scripts;
use crate::upstream::Upstream;

#[derive(Clone, Copy)]
pub struct Definitions<'a> {
    pub scripts: &'a Scripts,
    pub upstreams: &'a [Upstream],
    pub limits: &'a LimitReader<'a>,
}
