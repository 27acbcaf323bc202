//! The media types of uhttpd, which are part of its program.

use site::mime::builtin_type;

const TYPES: &[(&str, &str)] = &[
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("js", "text/javascript"),
    ("css", "text/css"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("diff", "text/x-patch"),
    ("patch", "text/x-patch"),
    ("c", "text/x-csrc"),
    ("h", "text/x-chdr"),
    ("o", "text/x-object"),
    ("ko", "text/x-object"),
    ("bmp", "image/bmp"),
    ("gif", "image/gif"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("svg", "image/svg+xml"),
    ("json", "application/json"),
    ("zip", "application/zip"),
    ("pdf", "application/pdf"),
    ("xml", "application/xml"),
    ("xsl", "application/xml"),
    ("doc", "application/msword"),
    ("pl", "application/x-perl"),
    ("sh", "application/x-shellscript"),
    ("php", "application/x-php"),
    ("deb", "application/x-deb"),
    ("iso", "application/x-cd-image"),
    ("tgz", "application/x-compressed-tar"),
    ("gz", "application/x-gzip"),
    ("bz2", "application/x-bzip"),
    ("tar", "application/x-tar"),
    ("rar", "application/x-rar-compressed"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/x-vorbis+ogg"),
    ("wav", "audio/x-wav"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("avi", "video/x-msvideo"),
    ("cfg", "text/plain"),
    ("conf", "text/plain"),
    ("pac", "application/x-ns-proxy-autoconfig"),
];

/// Those that differ from the built-in ones.
pub fn differing() -> impl Iterator<Item = (&'static str, &'static str)> {
    let differs =
        |extension: &str, media_type: &str| builtin_type(&format!("x.{extension}")) != Some(media_type);
    TYPES.iter().copied().filter(move |(extension, media_type)| differs(extension, media_type))
}
