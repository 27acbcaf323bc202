//! Responses of image maps: a redirect, or the links of the map.
//!
//! Knows nothing of the format of a map: `site::image_map` has read it.

use site::image_map::{ImageMap, Outcome};
use site::model::Route;
use taipan_http::path_text;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::fixed;
use crate::response::Response;
use crate::response_head::HeadWriter;
use crate::services::Services;

/// The links have no style, script or image.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'";

/// What a click leads to. `query` has its coordinates.
pub fn response(
    services: &Services,
    route: &Route,
    path: &SafePath<'_>,
    map: &ImageMap,
    query: Option<&str>,
) -> Response {
    match map.click(query) {
        Outcome::Redirect(url) => fixed::redirect(services, Some(route), Status::FOUND, url),
        Outcome::Nothing => {
            Response::from_head(HeadWriter::new(services, Some(route), Status::NO_CONTENT).finish())
        }
        Outcome::Menu => {
            let page = map.menu(&path_text::shown(path.name()));
            let head = HeadWriter::new(services, Some(route), Status::OK)
                .field("Content-Type", "text/html; charset=utf-8")
                .policy(POLICY);
            Response::from_head(head.finish_whole(&page))
        }
    }
}
