//! What has let a request pass, and what follows from it for the response and for scripts.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

use script::environment::Additions;
use site::authorizer::Authorizer;
use site::jwt::Jwt;

use super::authentication::Passed;
use crate::limits::Applied;

/// A [`Granted`] that is made when it is changed: most requests need none, and allocate none.
#[derive(Default)]
pub(super) struct Grants(Option<Box<Granted>>);

#[derive(Default)]
pub(super) struct Granted {
    /// The authorizers that have let the request pass.
    pub authorized_by: Vec<Arc<Authorizer>>,
    /// The tokens that have been verified.
    pub verified: Vec<Arc<Jwt>>,
    /// The credentials of the request that have passed.
    pub passed: Vec<Passed>,
    /// The variables that these have set.
    pub variables: Additions,
    /// The names of those that authorizers have set.
    authorized: Vec<String>,
    /// The limits in which the request counts.
    pub counted: Vec<Applied>,
    /// Fields that authorizers and limits add to the response.
    pub added: Vec<(String, String)>,
    /// The value of `Authentication-Info`, if credentials of Digest have passed.
    pub authentication_info: Option<String>,
}

impl Granted {
    /// An authorizer lets the request pass, and sets `variables`.
    pub fn pass(&mut self, authorizer: &Arc<Authorizer>, variables: &[(String, Vec<u8>)]) {
        // Those of a permission for the path before an internal redirect.
        if self.authorized_by.is_empty() {
            self.authorized.drain(..).for_each(|name| self.variables.remove(&name));
        }
        self.authorized_by.push(authorizer.clone());
        for (name, value) in variables {
            // A variable that is not allowed, or has been set already, is left out.
            if self.variables.add(name, value).is_ok() {
                self.authorized.push(name.clone());
            }
        }
    }

    /// The user that authorizers have named.
    pub fn user(&self) -> Option<Rc<str>> {
        let user = self.variables.get("REMOTE_USER").filter(|user| !user.is_empty())?;
        Some(String::from_utf8_lossy(user).into())
    }
}

static NOTHING: Granted = Granted {
    authorized_by: Vec::new(),
    verified: Vec::new(),
    passed: Vec::new(),
    variables: Additions::NONE,
    authorized: Vec::new(),
    counted: Vec::new(),
    added: Vec::new(),
    authentication_info: None,
};

impl Deref for Grants {
    type Target = Granted;

    fn deref(&self) -> &Granted {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Grants {
    /// Allocates, even if the caller changes nothing.
    fn deref_mut(&mut self) -> &mut Granted {
        self.0.get_or_insert_default()
    }
}
