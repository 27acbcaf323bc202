//! The search for a script along a path.

use site::model::Route;
use site::walk::{Verdict, Walk};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::{Exchange, Resolution};
use crate::files::script;
use crate::upstream::HandlerKind;

impl<'a> Exchange<'a> {
    /// Looks for a script. `None`: there is none, and the action of the plan counts.
    pub(super) async fn walk(
        &self,
        path: &SafePath<'_>,
        route: &'a Route,
        walk: &Walk,
        fallback: Option<&str>,
    ) -> Option<Resolution<'a>> {
        let of_host = self.folder.as_ref().map(|folder| &folder.root);
        Some(match script::find(&self.responder.files, walk, of_host, self.now).await {
            Ok(Verdict::Run(at)) => {
                let step = &walk.steps[at];
                let route = step.route;
                let step = match fallback {
                    Some(path_info) => step.with_path_info(path_info),
                    None => step.clone(),
                };
                Resolution::Forward(route, Box::new(HandlerKind::Script(step)))
            }
            Ok(Verdict::Denied(at)) => {
                Resolution::Status(self.route_at(walk.steps[at].route), Status::FORBIDDEN)
            }
            Ok(Verdict::Folder) => Resolution::Absent(route, Status::FORBIDDEN),
            Ok(Verdict::RedirectToFolder) => self.redirect_to_folder(path, fallback),
            Ok(Verdict::NoScript) => return None,
            Err(status) => Resolution::Status(route, status),
        })
    }
}
