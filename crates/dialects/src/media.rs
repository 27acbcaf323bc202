//! Types of media that a value of `Cache-Control` is for.

use site::config;

/// Names that servers have for one type.
const SAME: [&[&str]; 8] = [
    &["text/javascript", "application/javascript", "application/x-javascript"],
    &["text/xml", "application/xml"],
    &["image/jpeg", "image/jpg"],
    &["image/x-icon", "image/vnd.microsoft.icon"],
    &["font/woff2", "application/font-woff2"],
    &["font/woff", "application/font-woff", "application/x-font-woff"],
    &["font/ttf", "font/truetype", "application/x-font-ttf", "application/x-font-truetype"],
    &["font/otf", "font/opentype", "application/x-font-opentype"],
];

/// The keys of `cache_control` for `text/css` or `image/*`, with the other names of the type. `None`: it is no type.
pub fn selectors(media_type: &str) -> Option<Vec<String>> {
    let media_type = media_type.to_ascii_lowercase();
    config::media_type(&media_type)?;
    let same = SAME.iter().find(|names| names.contains(&&*media_type));
    Some(same.map_or(vec![media_type], |names| names.iter().map(|name| (*name).to_owned()).collect()))
}
