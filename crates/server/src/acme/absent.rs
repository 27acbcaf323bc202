//! A build without ACME: a site that needs it is rejected.

use std::collections::BTreeMap;
use std::sync::Arc;

use site::model::Site;

use crate::finding::Finding;
use crate::tls::Challenges;

pub enum AcmeFiles {}

/// There are no challenges.
#[derive(Default)]
pub struct OpenChallenges;

impl AcmeFiles {
    pub fn prepare(site: &mut Site, _: Option<&AcmeFiles>) -> Result<Option<AcmeFiles>, String> {
        match site.hosts.iter().any(|host| host.tls.acme) {
            true => Err("this program has been built without ACME; name a `certificate`, or build it with the feature acme"
                .to_owned()),
            false => Ok(None),
        }
    }
}

impl OpenChallenges {
    pub fn of(
        _: &Site,
        _already: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> (Arc<OpenChallenges>, Option<Arc<dyn Challenges>>) {
        Default::default()
    }

    pub fn set(&self, _name: &[u8], _pem: &[u8]) {}
}

/// There are none: a site that needs ACME is rejected.
pub fn problems(_: &Site) -> Vec<Finding> {
    Vec::new()
}

pub mod local {
    //! There is no local authority.

    use std::path::PathBuf;

    pub fn is_local(_name: &str) -> bool {
        false
    }

    pub fn certificate(_names: &[String]) -> Result<PathBuf, String> {
        Err("this program has been built without the feature acme".to_owned())
    }

    pub fn advice(_url: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}
