//! Files that are whole responses (`.asis`), and image maps.

use std::sync::Arc;

use site::decide::{Offer, Representation, Resource};
use site::field_file::{self, AsIs};
use site::image_map::ImageMap;
use taipan_http::etag::is_entity_tag;
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;

use super::{Content, Prepared, PreparedRepresentation, RoutedPath, SelectedField};
use crate::files::lookup::Found;
use crate::response_head::{DatedHead, HeadWriter};

/// A file that is a whole response. Errors: what is wrong with it.
pub(super) fn prepare_as_is(
    path: RoutedPath<'_>,
    found: &Found,
    selected: &[SelectedField],
) -> Result<Prepared, String> {
    let RoutedPath { services, route, .. } = path;
    let content = found.variants.first().and_then(|plain| plain.body.as_deref());
    let content = content.ok_or_else(|| format!("{} is larger than 1 MiB", found.name))?;
    let AsIs { status, fields, content } =
        field_file::as_is(content).map_err(|mistake| format!("{}, {mistake}", found.name))?;
    let value = |name: &str| {
        fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    };
    let mut head = HeadWriter::new(services, Some(route), status);
    for (name, value) in &fields {
        head = head.field(name, value);
    }
    let plain = found.name.strip_suffix(".asis").unwrap_or(&found.name);
    let own_type = value("content-type");
    let content_type = own_type.and_then(|value| std::str::from_utf8(value).ok());
    let content_type = content_type.unwrap_or_else(|| route.files.types.lookup(plain));
    if own_type.is_none() && !content.is_empty() {
        head = head.field("Content-Type", content_type);
    }
    if value("cache-control").is_none() {
        head = head.optional("Cache-Control", path.cache_control(content_type));
    }
    for (name, own) in selected {
        // A list: other values remain.
        if *name == "Vary" || value(&name.to_ascii_lowercase()).is_none() {
            head = head.field(name, own);
        }
    }
    let size = content.len() as u64;
    let head = if status.allows_body() { head.length(size) } else { head };
    let (head, resource) = match status {
        Status::OK => {
            let etag = value("etag").filter(|tag| is_entity_tag(tag)).map(Box::from);
            let modified =
                value("last-modified").and_then(|date| taipan_http::date::parse(date, services.clock.now()));
            let representation =
                Representation { coding: Coding::Identity, size: Some(size), etag, modified };
            (head.field("Accept-Ranges", "bytes"), Resource::File(vec![representation], Offer::Nothing))
        }
        _ => (head, Resource::Fixed),
    };
    let response = DatedHead::new(head.finish_with(content), &services.clock);
    let prepared = vec![PreparedRepresentation { response, content: Content::Inline }];
    Ok(Prepared { resource, prepared, deltas: None })
}

/// Errors: what is wrong with the file.
pub(super) fn prepare_image_map(found: &Found) -> Result<Prepared, String> {
    let content = found.variants.first().and_then(|plain| plain.body.as_deref());
    let content = content.ok_or_else(|| format!("{} is larger than 64 KiB", found.name))?;
    let map = ImageMap::parse(content).map_err(|mistake| format!("{}, {mistake}", found.name))?;
    Ok(Prepared { resource: Resource::ImageMap(Arc::new(map)), prepared: Vec::new(), deltas: None })
}
