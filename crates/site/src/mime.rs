//! Media types by file name: what goes into `Content-Type`. A built-in table of what the web uses, with
//! the site's additions on top. Every value is composed when the table is made, so that a look-up only
//! searches.
//!
//! Knows nothing of the content of files: nothing is sniffed.

use std::borrow::Cow;
use std::fmt;

/// The media types of a site: complete values of `Content-Type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Types {
    /// Ascending by extension, which is lower case and has no dot in it.
    simple: Vec<Row>,
    /// Extensions with dots inside (`user.js`), the longest first. Only additions are here.
    compound: Vec<Row>,
    default: Value,
    charset: Option<String>,
}

/// What cannot be taken into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeError {
    /// Empty, or with a character that no extension can have.
    Extension,
    /// Not `type/subtype`, with or without `; name=value` parameters (RFC 9110 §8.3.1).
    MediaType,
    /// Not a token (RFC 9110 §8.3.2).
    Charset,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TypeError::Extension => "not a file name extension, e.g. \"html\"",
            TypeError::MediaType => "not a media type, e.g. \"text/html\"",
            TypeError::Charset => "not the name of a charset, e.g. \"utf-8\"",
        })
    }
}

impl std::error::Error for TypeError {}

impl Default for Types {
    fn default() -> Types {
        Types::builtin()
    }
}

impl Types {
    /// The built-in table; `text/*` is `utf-8`, a name without an extension `application/octet-stream`.
    pub fn builtin() -> Types {
        let charset = Some("utf-8".to_owned());
        let row = |&(extension, media_type): &(&'static str, &'static str)| Row {
            extension: Cow::Borrowed(extension),
            value: Value::new(Cow::Borrowed(media_type), charset.as_deref()),
        };
        Types {
            simple: BUILTIN.iter().map(row).collect(),
            compound: Vec::new(),
            default: Value::new(Cow::Borrowed("application/octet-stream"), None),
            charset,
        }
    }

    /// Adds an extension, or gives it another type. A leading dot and the case of `extension` do not
    /// matter; it may have dots inside (`user.js`), which then counts before `js`.
    pub fn with(&mut self, extension: &str, media_type: &str) -> Result<(), TypeError> {
        let extension = extension.strip_prefix('.').unwrap_or(extension).to_ascii_lowercase();
        if !is_extension(&extension) {
            return Err(TypeError::Extension);
        }
        let value = self.value(media_type)?;
        let row = Row { extension: Cow::Owned(extension), value };
        if row.extension.contains('.') {
            self.compound.retain(|old| old.extension != row.extension);
            self.compound.push(row);
            self.compound.sort_by_key(|row| std::cmp::Reverse(row.extension.len()));
            return Ok(());
        }
        match self.simple.binary_search_by(|old| old.extension.cmp(&row.extension)) {
            Ok(at) => self.simple[at] = row,
            Err(at) => self.simple.insert(at, row),
        }
        Ok(())
    }

    /// The type of names whose extension is absent or not in the table.
    pub fn set_default(&mut self, media_type: &str) -> Result<(), TypeError> {
        self.default = self.value(media_type)?;
        Ok(())
    }

    /// The charset that `text/*` gets where the type does not name one itself; `None`: none.
    pub fn set_charset(&mut self, charset: Option<String>) -> Result<(), TypeError> {
        if charset.as_deref().is_some_and(|charset| !is_token(charset)) {
            return Err(TypeError::Charset);
        }
        let rows = self.simple.iter_mut().chain(&mut self.compound).map(|row| &mut row.value);
        for value in rows.chain([&mut self.default]) {
            *value = Value::new(std::mem::take(&mut value.media_type), charset.as_deref());
        }
        self.charset = charset;
        Ok(())
    }

    /// The media type of the built-in table for a file name, without parameters.
    pub fn of_name(name: &str) -> Option<&'static str> {
        let (stem, extension) = name.rsplit_once('.')?;
        let asked = || extension.bytes().map(|byte| byte.to_ascii_lowercase());
        let at = BUILTIN.binary_search_by(|(extension, _)| extension.bytes().cmp(asked())).ok()?;
        (!stem.is_empty()).then(|| BUILTIN[at].1)
    }

    /// The value of `Content-Type` for a file name or path, by the extension of its last segment, in
    /// any case. A name that only begins with a dot has no extension.
    pub fn lookup(&self, name: &str) -> &str {
        let name = name.rsplit('/').next().unwrap_or(name);
        for row in &self.compound {
            if has_extension(name, &row.extension) {
                return row.value.text();
            }
        }
        let extension = match name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => extension,
            _ => return self.default.text(),
        };
        let asked = || extension.bytes().map(|byte| byte.to_ascii_lowercase());
        match self.simple.binary_search_by(|row| row.extension.bytes().cmp(asked())) {
            Ok(at) => self.simple[at].value.text(),
            Err(_) => self.default.text(),
        }
    }

    fn value(&self, media_type: &str) -> Result<Value, TypeError> {
        if !is_media_type(media_type) {
            return Err(TypeError::MediaType);
        }
        Ok(Value::new(Cow::Owned(media_type.to_owned()), self.charset.as_deref()))
    }
}

/// Whether `value` is `type/subtype`, with or without parameters (RFC 9110 §8.3.1).
pub fn is_media_type(value: &str) -> bool {
    let (essence, mut rest) = value.split_at(value.find(';').unwrap_or(value.len()));
    let named = essence
        .trim_end_matches([' ', '\t'])
        .split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    // Each turn takes one parameter off `rest`.
    while let Some(after) = rest.strip_prefix(';') {
        match parameter(after.trim_start_matches([' ', '\t'])) {
            Some((_, _, after)) => rest = after.trim_start_matches([' ', '\t']),
            None => return false,
        }
    }
    named && rest.is_empty()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    extension: Cow<'static, str>,
    value: Value,
}

/// A media type as it was given, and as it is sent when a charset was added.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    media_type: Cow<'static, str>,
    with_charset: Option<String>,
}

impl Value {
    fn new(media_type: Cow<'static, str>, charset: Option<&str>) -> Value {
        let with_charset = match charset {
            Some(charset) if wants_charset(&media_type) => Some(format!("{media_type}; charset={charset}")),
            _ => None,
        };
        Value { media_type, with_charset }
    }

    fn text(&self) -> &str {
        self.with_charset.as_deref().unwrap_or(&self.media_type)
    }
}

fn wants_charset(media_type: &str) -> bool {
    let Some(kind) = media_type.get(..5) else { return false };
    if !kind.eq_ignore_ascii_case("text/") {
        return false;
    }
    let mut rest = media_type.split_once(';').map_or("", |(_, parameters)| parameters);
    // Each turn takes one parameter off `rest`; the type was checked when it was taken in.
    while let Some((name, _, after)) = parameter(rest.trim_start_matches([' ', '\t'])) {
        if name.eq_ignore_ascii_case("charset") {
            return false;
        }
        rest = after.trim_start_matches([' ', '\t']).trim_start_matches(';');
    }
    true
}

/// One `name=value` at the start: the name, the value as written, and what follows.
fn parameter(text: &str) -> Option<(&str, &str, &str)> {
    let (name, text) = text.split_once('=')?;
    let end = match text.strip_prefix('"') {
        Some(inside) => 1 + quoted_end(inside)?,
        None => text.find([';', ' ', '\t']).unwrap_or(text.len()),
    };
    let (value, rest) = text.split_at(end);
    let sound = is_token(name) && (value.starts_with('"') || is_token(value));
    sound.then_some((name, value, rest))
}

/// Where a quoted string ends, whose first quote is before `text`: behind the last quote.
fn quoted_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if !(byte == b'\t' || (b' '..=b'~').contains(&byte)) => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn is_token(text: &str) -> bool {
    let tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(tchar)
}

fn is_extension(text: &str) -> bool {
    !text.split('.').any(str::is_empty) && !text.contains(['/', '\\']) && !text.chars().any(char::is_control)
}

/// Whether `name` is a stem of at least one character, a dot, and `extension` in any case.
fn has_extension(name: &str, extension: &str) -> bool {
    let Some(dot) = name.len().checked_sub(extension.len() + 1) else { return false };
    let name = name.as_bytes();
    dot > 0 && name[dot] == b'.' && name[dot + 1..].eq_ignore_ascii_case(extension.as_bytes())
}

/// Ascending, lower case. Registered names where the IANA registry has one, else what browsers and
/// desktops agree on; source text is `text/plain`, so that it is shown and not saved.
/// `text/javascript` is RFC 9239, `audio/ogg` for `opus` RFC 7845 §9, `application/yaml` RFC 9512.
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

    fn types() -> Types {
        let mut types = Types::builtin();
        for (extension, media_type) in [
            ("foo", "text/x-foo"),
            (".BAR", "application/x-bar"),
            ("latin", "text/plain; charset=iso-8859-1"),
            ("quoted", "text/plain;a=\"; charset=x\""),
            ("user.js", "text/x-userscript"),
            ("js", "application/javascript"),
        ] {
            types.with(extension, media_type).expect(extension);
        }
        types
    }

    #[test]
    fn the_table_is_ascending_unique_lower_case_and_valid() {
        assert!(BUILTIN.is_sorted_by(|a, b| a.0 < b.0));
        for (extension, media_type) in BUILTIN {
            assert!(is_extension(extension) && !extension.contains('.'), "{extension}");
            assert!(extension.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{extension}");
            assert!(is_media_type(media_type), "{media_type}");
            assert!(!media_type.contains(';'), "{media_type}");
        }
        assert!(BUILTIN.len() > 200);
    }

    #[test]
    fn the_extension_decides() {
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
    fn charset_and_default_can_be_set() {
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
    fn what_is_no_type_is_refused() {
        let mut types = Types::builtin();
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
            assert_eq!(types.with("x", bad), Err(TypeError::MediaType), "{bad}");
            assert_eq!(types.set_default(bad), Err(TypeError::MediaType), "{bad}");
        }
        for bad in ["", ".", "a..b", "a.", "a/b", "a\n"] {
            assert_eq!(types.with(bad, "text/plain"), Err(TypeError::Extension), "{bad}");
        }
        assert_eq!(types.set_charset(Some("utf-8\r\nX: y".to_owned())), Err(TypeError::Charset));
        assert_eq!(types, Types::builtin());
    }
}
