//! Media types by file name, for `Content-Type`. A built-in table has the types of the web, and a site adds its own.
//! The table has composed values: a lookup only searches.
//!
//! Knows nothing of the content of files: nothing is sniffed.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use taipan_http::fields::is_token;

/// The media types of a site: complete values of `Content-Type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaTypes {
    /// Ascending by extension. An extension is in lower case and has no dot in front. It may have dots inside
    /// (`user.js`).
    rows: Vec<(Cow<'static, str>, Value)>,
    default: Value,
    charset: Option<String>,
}

/// What is wrong with a change of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaTypeError {
    /// Empty, or with a character that no extension can have.
    Extension,
    /// Not `type/subtype`, with or without `; name=value` parameters (RFC 9110 §8.3.1).
    MediaType,
    /// Not a token (RFC 9110 §8.3.2).
    Charset,
}

impl fmt::Display for MediaTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MediaTypeError::Extension => "not a file name extension, e.g. \"html\"",
            MediaTypeError::MediaType => "not a media type, e.g. \"text/html\"",
            MediaTypeError::Charset => "not the name of a charset, e.g. \"utf-8\"",
        })
    }
}

impl std::error::Error for MediaTypeError {}

/// The built-in table. The charset of `text/*` is `utf-8`.
impl Default for MediaTypes {
    fn default() -> MediaTypes {
        let charset = Some("utf-8".to_owned());
        let value = |media_type| Value::new(Cow::Borrowed(media_type), charset.as_deref());
        MediaTypes {
            rows: BUILTIN
                .iter()
                .map(|&(extension, media_type)| (extension.into(), value(media_type)))
                .collect(),
            default: value("application/octet-stream"),
            charset,
        }
    }
}

impl MediaTypes {
    /// Adds an extension, or gives it another type. A dot in front of `extension` and its case do not matter.
    pub fn add(&mut self, extension: &str, media_type: &str) -> Result<(), MediaTypeError> {
        let extension = extension.strip_prefix('.').unwrap_or(extension).to_ascii_lowercase();
        if !is_extension(&extension) {
            return Err(MediaTypeError::Extension);
        }
        let value = self.value(media_type)?;
        match self.rows.binary_search_by(|(other, _)| (**other).cmp(&extension)) {
            Ok(at) => self.rows[at].1 = value,
            Err(at) => self.rows.insert(at, (extension.into(), value)),
        }
        Ok(())
    }

    /// The type of names whose extension is absent or unknown.
    pub fn set_default(&mut self, media_type: &str) -> Result<(), MediaTypeError> {
        self.default = self.value(media_type)?;
        Ok(())
    }

    /// The charset of each `text/*` that does not name one itself. `None`: none is added.
    pub fn set_charset(&mut self, charset: Option<String>) -> Result<(), MediaTypeError> {
        if charset.as_deref().is_some_and(|charset| !is_token(charset.as_bytes())) {
            return Err(MediaTypeError::Charset);
        }
        for value in self.rows.iter_mut().map(|(_, value)| value).chain([&mut self.default]) {
            *value = Value::new(std::mem::take(&mut value.media_type), charset.as_deref());
        }
        self.charset = charset;
        Ok(())
    }

    /// The value of `Content-Type` for a file name or a path, by the longest extension that the table has.
    pub fn lookup(&self, path: &str) -> &str {
        let name = path.rsplit('/').next().unwrap_or(path);
        let row = extensions(name)
            .find_map(|extension| self.rows.binary_search_by(|(other, _)| compare(other, extension)).ok());
        row.map_or(&self.default, |at| &self.rows[at].1).text()
    }

    fn value(&self, media_type: &str) -> Result<Value, MediaTypeError> {
        match parse(media_type) {
            Some(_) => Ok(Value::new(Cow::Owned(media_type.to_owned()), self.charset.as_deref())),
            None => Err(MediaTypeError::MediaType),
        }
    }
}

/// The media type of a file name in the built-in table, without parameters.
pub fn builtin_type(name: &str) -> Option<&'static str> {
    let extension = extensions(name).last()?;
    let at = BUILTIN.binary_search_by(|(other, _)| compare(other, extension)).ok()?;
    Some(BUILTIN[at].1)
}

/// A value of `Content-Type` with this charset, in place of the one that it has.
pub fn with_charset(content_type: &str, charset: &str) -> String {
    match parse(content_type) {
        Some((_, Charset::Absent)) => format!("{content_type}; charset={charset}"),
        Some((_, Charset::Given)) | None => {
            let essence = content_type.split(';').next().unwrap_or(content_type).trim_end();
            format!("{essence}; charset={charset}")
        }
    }
}

/// The extensions of a file name, the longest first. A name that only begins with a dot has none.
fn extensions(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter(|(dot, _)| *dot > 0).map(|(dot, _)| &name[dot + 1..])
}

/// `lowercase` is in lower case, and `other` is compared without regard to case.
fn compare(lowercase: &str, other: &str) -> Ordering {
    lowercase.bytes().cmp(other.bytes().map(|byte| byte.to_ascii_lowercase()))
}

/// A media type as it was given, and with a charset if one was added.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    media_type: Cow<'static, str>,
    with_charset: Option<String>,
}

impl Value {
    fn new(media_type: Cow<'static, str>, charset: Option<&str>) -> Value {
        let with_charset = match (charset, parse(&media_type)) {
            (Some(charset), Some((top_level, Charset::Absent))) if top_level.eq_ignore_ascii_case("text") => {
                Some(format!("{media_type}; charset={charset}"))
            }
            _ => None,
        };
        Value { media_type, with_charset }
    }

    fn text(&self) -> &str {
        self.with_charset.as_deref().unwrap_or(&self.media_type)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charset {
    Absent,
    Given,
}

/// The top-level type of a media type, and whether it has a charset. `None`: it is not `type/subtype`, with or without
/// parameters (RFC 9110 §8.3.1).
fn parse(media_type: &str) -> Option<(&str, Charset)> {
    const OWS: [char; 2] = [' ', '\t'];
    let (essence, mut rest) = media_type.split_at(media_type.find(';').unwrap_or(media_type.len()));
    let (top_level, subtype) = essence.trim_end_matches(OWS).split_once('/')?;
    let mut charset = Charset::Absent;
    // Each iteration removes one parameter.
    while let Some(after) = rest.strip_prefix(';') {
        let (name, after) = parameter(after.trim_start_matches(OWS))?;
        if name.eq_ignore_ascii_case("charset") {
            charset = Charset::Given;
        }
        rest = after.trim_start_matches(OWS);
    }
    let is_valid = is_token(top_level.as_bytes()) && is_token(subtype.as_bytes()) && rest.is_empty();
    is_valid.then_some((top_level, charset))
}

/// The name of the `name=value` at the start, and what follows.
fn parameter(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.split_once('=')?;
    let end = match text.strip_prefix('"') {
        Some(inside) => 1 + quoted_end(inside)?,
        None => text.find([';', ' ', '\t']).unwrap_or(text.len()),
    };
    let (value, rest) = text.split_at(end);
    let is_valid = is_token(name.as_bytes()) && (value.starts_with('"') || is_token(value.as_bytes()));
    is_valid.then_some((name, rest))
}

/// The end of a quoted string, after its last quote. `text` begins after its first quote.
fn quoted_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if !(byte == b'\t' || (b' '..=b'~').contains(&byte)) => return None,
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn is_extension(text: &str) -> bool {
    !text.split('.').any(str::is_empty) && !text.contains(['/', '\\']) && !text.chars().any(char::is_control)
}

/// Ascending, in lower case. The types are those of the IANA registry, or else those of browsers and desktops. Source
/// text is `text/plain`, so that browsers show it. `text/javascript` is of RFC 9239, `audio/ogg` for `opus` of RFC 7845
/// §9, and `application/yaml` of RFC 9512.
static BUILTIN: &[(&str, &str)] = &[
    ("3g2", "video/3gpp2"),
    ("3gp", "video/3gpp"),
    ("3mf", "model/3mf"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("ac3", "audio/ac3"),
    ("adoc", "text/plain"),
    ("ai", "application/postscript"),
    ("aif", "audio/x-aiff"),
    ("aiff", "audio/x-aiff"),
    ("amr", "audio/amr"),
    ("apk", "application/vnd.android.package-archive"),
    ("apng", "image/apng"),
    ("arrow", "application/vnd.apache.arrow.file"),
    ("asc", "text/plain"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bash", "text/plain"),
    ("bib", "text/x-bibtex"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("br", "application/x-brotli"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/plain"),
    ("cab", "application/vnd.ms-cab-compressed"),
    ("caf", "audio/x-caf"),
    ("cbor", "application/cbor"),
    ("cc", "text/plain"),
    ("cer", "application/pkix-cert"),
    ("cfg", "text/plain"),
    ("cjs", "text/javascript"),
    ("conf", "text/plain"),
    ("cpio", "application/x-cpio"),
    ("cpp", "text/plain"),
    ("crl", "application/pkix-crl"),
    ("crt", "application/x-x509-ca-cert"),
    ("crx", "application/x-chrome-extension"),
    ("cs", "text/plain"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("cur", "image/x-icon"),
    ("dae", "model/vnd.collada+xml"),
    ("deb", "application/vnd.debian.binary-package"),
    ("der", "application/x-x509-ca-cert"),
    ("diff", "text/plain"),
    ("djvu", "image/vnd.djvu"),
    ("dll", "application/vnd.microsoft.portable-executable"),
    ("dmg", "application/x-apple-diskimage"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("dot", "application/msword"),
    ("dotx", "application/vnd.openxmlformats-officedocument.wordprocessingml.template"),
    ("dtd", "application/xml-dtd"),
    ("eac3", "audio/eac3"),
    ("eml", "message/rfc822"),
    ("eot", "application/vnd.ms-fontobject"),
    ("eps", "application/postscript"),
    ("epub", "application/epub+zip"),
    ("exe", "application/vnd.microsoft.portable-executable"),
    ("flac", "audio/flac"),
    ("flatpak", "application/vnd.flatpak"),
    ("flv", "video/x-flv"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("go", "text/plain"),
    ("gpx", "application/gpx+xml"),
    ("gz", "application/gzip"),
    ("h", "text/plain"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("hpp", "text/plain"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar"),
    ("iges", "model/iges"),
    ("igs", "model/iges"),
    ("img", "application/octet-stream"),
    ("ini", "text/plain"),
    ("ipynb", "application/x-ipynb+json"),
    ("iso", "application/x-iso9660-image"),
    ("jar", "application/java-archive"),
    ("java", "text/plain"),
    ("jfif", "image/jpeg"),
    ("jnlp", "application/x-java-jnlp-file"),
    ("jp2", "image/jp2"),
    ("jpe", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("key", "application/vnd.apple.keynote"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("kmz", "application/vnd.google-earth.kmz"),
    ("kt", "text/plain"),
    ("latex", "application/x-latex"),
    ("log", "text/plain"),
    ("lua", "text/plain"),
    ("lz", "application/lzip"),
    ("lz4", "application/x-lz4"),
    ("lzma", "application/x-lzma"),
    ("m3u", "audio/x-mpegurl"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("markdown", "text/markdown"),
    ("mbox", "application/mbox"),
    ("md", "text/markdown"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript"),
    ("mk3d", "video/matroska-3d"),
    ("mka", "audio/matroska"),
    ("mkv", "video/matroska"),
    ("mml", "application/mathml+xml"),
    ("mobi", "application/x-mobipocket-ebook"),
    ("mov", "video/quicktime"),
    ("mp2", "audio/mpeg"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("msi", "application/x-msi"),
    ("mtl", "model/mtl"),
    ("n3", "text/n3"),
    ("ndjson", "application/x-ndjson"),
    ("nq", "application/n-quads"),
    ("nt", "application/n-triples"),
    ("numbers", "application/vnd.apple.numbers"),
    ("obj", "model/obj"),
    ("odg", "application/vnd.oasis.opendocument.graphics"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("ogx", "application/ogg"),
    ("opml", "text/x-opml"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("p10", "application/pkcs10"),
    ("p12", "application/pkcs12"),
    ("p7c", "application/pkcs7-mime"),
    ("p7s", "application/pkcs7-signature"),
    ("pages", "application/vnd.apple.pages"),
    ("parquet", "application/vnd.apache.parquet"),
    ("patch", "text/plain"),
    ("pcap", "application/vnd.tcpdump.pcap"),
    ("pdf", "application/pdf"),
    ("pem", "application/x-pem-file"),
    ("pfx", "application/pkcs12"),
    ("pgp", "application/pgp-encrypted"),
    ("pkpass", "application/vnd.apple.pkpass"),
    ("pl", "text/plain"),
    ("png", "image/png"),
    ("pps", "application/vnd.ms-powerpoint"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("ps", "application/postscript"),
    ("psd", "image/vnd.adobe.photoshop"),
    ("py", "text/plain"),
    ("rar", "application/vnd.rar"),
    ("rb", "text/plain"),
    ("rdf", "application/rdf+xml"),
    ("rpm", "application/x-rpm"),
    ("rs", "text/plain"),
    ("rss", "application/rss+xml"),
    ("rst", "text/plain"),
    ("rtf", "application/rtf"),
    ("sh", "text/plain"),
    ("shtm", "text/html"),
    ("shtml", "text/html"),
    ("sig", "application/pgp-signature"),
    ("snap", "application/vnd.snap"),
    ("sql", "application/sql"),
    ("sqlite", "application/vnd.sqlite3"),
    ("srt", "application/x-subrip"),
    ("step", "model/step"),
    ("stl", "model/stl"),
    ("stp", "model/step"),
    ("svg", "image/svg+xml"),
    ("swf", "application/vnd.adobe.flash.movie"),
    ("swift", "text/plain"),
    ("tar", "application/x-tar"),
    ("tbz2", "application/x-bzip2"),
    ("tex", "application/x-tex"),
    ("text", "text/plain"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("torrent", "application/x-bittorrent"),
    ("trig", "application/trig"),
    ("ts", "video/mp2t"),
    ("tsv", "text/tab-separated-values"),
    ("ttc", "font/collection"),
    ("ttf", "font/ttf"),
    ("ttl", "text/turtle"),
    ("txt", "text/plain"),
    ("txz", "application/x-xz"),
    ("tzst", "application/zstd"),
    ("usdz", "model/vnd.usdz+zip"),
    ("vcard", "text/vcard"),
    ("vcf", "text/vcard"),
    ("vsd", "application/vnd.visio"),
    ("vtt", "text/vtt"),
    ("warc", "application/warc"),
    ("wasm", "application/wasm"),
    ("wat", "text/plain"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("wma", "audio/x-ms-wma"),
    ("wmv", "video/x-ms-wmv"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("wrl", "model/vrml"),
    ("xht", "application/xhtml+xml"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xpi", "application/x-xpinstall"),
    ("xsd", "application/xml"),
    ("xsl", "application/xml"),
    ("xslt", "application/xslt+xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("z", "application/x-compress"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn types() -> MediaTypes {
        let mut types = MediaTypes::default();
        for (extension, media_type) in [
            ("foo", "text/x-foo"),
            (".BAR", "application/x-bar"),
            ("latin", "text/plain; charset=iso-8859-1"),
            ("quoted", "text/plain;a=\"; charset=x\""),
            ("user.js", "text/x-userscript"),
            ("js", "application/javascript"),
        ] {
            types.add(extension, media_type).expect(extension);
        }
        types
    }

    #[test]
    fn the_builtin_table_is_ascending_and_valid() {
        assert!(BUILTIN.is_sorted_by(|a, b| a.0 < b.0));
        for (extension, media_type) in BUILTIN {
            assert!(is_extension(extension) && !extension.contains('.'), "{extension}");
            assert!(extension.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{extension}");
            assert!(parse(media_type).is_some(), "{media_type}");
            assert!(!media_type.contains(';'), "{media_type}");
        }
        assert!(BUILTIN.len() > 200);
    }

    #[test]
    fn finds_the_type_by_the_longest_extension() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("INDEX.HtMl", "text/html; charset=utf-8"),
            ("a/b.d/c.css", "text/css; charset=utf-8"),
            ("a.css/b", "application/octet-stream"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("x.tar.gz", "application/gzip"),
            ("x.tgz", "application/gzip"),
            ("x.woff2", "font/woff2"),
            ("x.svg", "image/svg+xml"),
            ("x.json", "application/json"),
            ("x.ts", "video/mp2t"),
            ("x.7z", "application/x-7z-compressed"),
            ("x.3g2", "video/3gpp2"),
            ("x.zst", "application/zstd"),
            ("x.foo", "text/x-foo; charset=utf-8"),
            ("x.bar", "application/x-bar"),
            ("x.latin", "text/plain; charset=iso-8859-1"),
            ("x.quoted", "text/plain;a=\"; charset=x\"; charset=utf-8"),
            ("x.js", "application/javascript"),
            ("x.USER.js", "text/x-userscript; charset=utf-8"),
            ("user.js", "application/javascript"),
            (".user.js", "application/javascript"),
            ("Makefile", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("x.", "application/octet-stream"),
            ("x.html ", "application/octet-stream"),
            ("", "application/octet-stream"),
            ("é.ünknown", "application/octet-stream"),
            ("日本.txt", "text/plain; charset=utf-8"),
        ] {
            assert_eq!(types().lookup(name), expected, "{name}");
        }
    }

    #[test]
    fn changes_the_charset_and_the_default() {
        let mut types = types();
        types.set_default("text/plain").unwrap();
        assert_eq!(types.lookup("README"), "text/plain; charset=utf-8");
        types.set_charset(None).unwrap();
        assert_eq!(types.lookup("README"), "text/plain");
        assert_eq!(types.lookup("a.html"), "text/html");
        assert_eq!(types.lookup("a.latin"), "text/plain; charset=iso-8859-1");
        types.set_charset(Some("koi8-r".to_owned())).unwrap();
        assert_eq!(types.lookup("a.foo"), "text/x-foo; charset=koi8-r");
        assert_eq!(types.lookup("a.user.js"), "text/x-userscript; charset=koi8-r");
    }

    #[test]
    fn rejects_invalid_extensions_types_and_charsets() {
        let mut types = MediaTypes::default();
        for bad in [
            "",
            "text",
            "text/",
            "/html",
            "text/html;",
            "text/html; charset",
            "a/b; c=\"d",
            "a/b\r\nX: y",
            "a/b c",
        ] {
            assert_eq!(types.add("x", bad), Err(MediaTypeError::MediaType), "{bad}");
            assert_eq!(types.set_default(bad), Err(MediaTypeError::MediaType), "{bad}");
        }
        for bad in ["", ".", "a..b", "a.", "a/b", "a\n"] {
            assert_eq!(types.add(bad, "text/plain"), Err(MediaTypeError::Extension), "{bad}");
        }
        assert_eq!(types.set_charset(Some("utf-8\r\nX: y".to_owned())), Err(MediaTypeError::Charset));
        assert_eq!(types, MediaTypes::default());
    }
}
