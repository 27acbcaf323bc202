//! The keys of files and responses, which a route inherits from its host.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, size, time};

pub const CHAPTER: Chapter = Chapter {
    title: "Files and responses",
    intro: "At the top level, in `[[host]]` and in `[[route]]`. A host inherits from the top level, and a route \
            from its host. An array or a single value replaces the inherited one. A table is merged with the \
            inherited one; where both have a key, that of the host or route applies.",
    scopes: &[Scope::Top, Scope::Host, Scope::Route],
    keys: &[
        Key {
            name: "env",
            kind: Kind::Pairs("a table of `NAME = value`"),
            default: Words("`PATH = \"/usr/local/bin:/usr/bin:/bin\"`"),
            example: "{ GIT_PROJECT_ROOT = \"/srv/git\", GIT_HTTP_EXPORT_ALL = \"1\" }",
            text: "Environment variables of scripts. They are added to those of the request, or replace them. Scripts \
                   receive nothing of the server's own environment.",
        },
        Key {
            name: "rule",
            kind: Kind::Tables(Scope::Rule),
            default: Words("none"),
            example: "[[rule]]\naddress = \"!10.0.0.0/8\"\npath = \"/admin/\"\nthen = \"deny\"",
            text: "A rule of access. The rules of a route are tried first, then those of its host, then those of the top \
                   level. See [Access](access.md).",
        },
        Key {
            name: "authorizer",
            kind: Kind::TextOrFalse,
            default: Words("none"),
            example: "\"guard\"",
            text: "The name of an `[[application]]` that decides whether a request may proceed. `false` removes an \
                   inherited one. It speaks FastCGI, as an authorizer: with status 200 the request proceeds, and the \
                   application that responds receives the variables that the authorizer sets; any other response goes to \
                   the client. Or it speaks HTTP: it is asked with a request without a body; with a status from 200 to \
                   299 the request proceeds; 401, 403 and redirects go to the client; anything else is an error, and \
                   the response is 502. See [Applications](applications.md#authorizers).",
        },
        Key {
            name: "authorizer_path",
            kind: Kind::Text,
            default: Words("the path of the request"),
            example: "\"/oauth2/auth\"",
            text: "The path at which an authorizer that speaks HTTP is asked, perhaps with a query.",
        },
        Key {
            name: "authorizer_method",
            kind: Kind::Choice(&["get", "original"]),
            default: Value("\"get\""),
            example: "\"original\"",
            text: "The method with which an authorizer that speaks HTTP is asked: GET, or that of the request.",
        },
        Key {
            name: "authorizer_fields",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"Remote-User\", \"Remote-Groups\"]",
            text: "The fields of the answer of an authorizer that speaks HTTP which scripts and applications receive, \
                   as fields of the request, or as `HTTP_REMOTE_USER` and so on. What a client itself sends under these names, in any spelling, is removed from every request of the \
                   site, whether a route has an authorizer or not.",
        },
        Key {
            name: "authorizer_user",
            kind: Kind::Text,
            default: Value("\"Remote-User\""),
            example: "\"X-Auth-Request-Email\"",
            text: "The one of `authorizer_fields` that names the user, for `REMOTE_USER` and the access log.",
        },
        Key {
            name: "authorizer_response_fields",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "\"Set-Cookie\"",
            text: "The fields of the answer of an authorizer that speaks HTTP, when it lets a request pass, which are added \
                   to the response to the client. An answer that has one of them is not remembered.",
        },
        Key {
            name: "authorizer_login",
            kind: Kind::TextOrFalse,
            default: Words("none"),
            example: "\"/oauth2/sign_in?rd=$path$query\"",
            text: "Where clients are redirected, with 302, in place of a 401 of an authorizer that speaks HTTP: the target \
                   of a redirect, with `$scheme`, `$hostport`, `$path` and `$query` for where they come from. The \
                   cookies of the answer go with it. `false`: they get the 401.",
        },
        Key {
            name: "authorizer_cache",
            kind: time(0, 3600),
            default: Value("\"0s\""),
            example: "\"10s\"",
            text: "How long an answer of an authorizer that speaks HTTP counts for further requests with the same \
                   `authorizer_cache_key`. Only answers that let a request pass are remembered, each by the worker that \
                   has got it, at most 1024, until the next reload. An answer with `Cache-Control: no-store` or \
                   `no-cache` is not. `0s`: every request is asked for.",
        },
        Key {
            name: "authorizer_cache_key",
            kind: Kind::Texts,
            default: Value(
                "[\"Cookie\", \"Authorization\", \"method\", \"scheme\", \"host\", \"path\", \"query\", \"client\"]",
            ),
            example: "[\"Cookie\", \"host\"]",
            text: "What two requests must have in common so that the same answer counts for both: `method`, `scheme`, \
                   `host`, `path`, `query`, `client` (its address), and names of fields. Add every field by which the \
                   authorizer decides. Leave out only what it does not look at: without `path`, a client that may see \
                   one page of the route may see all of them.",
        },
        Key {
            name: "index",
            kind: Kind::Texts,
            default: Value("[\"index.html\"]"),
            example: "[\"index.html\", \"index.htm\"]",
            text: "The files that stand for their folder. The first one that exists is served. A file that its own \
                   route makes a script is run, and one whose own route has `return`, `respond`, `proxy` or \
                   `application` is left out.",
        },
        Key {
            name: "try_suffixes",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\".html\"]",
            text: "What is tried behind a path without a slash at its end that names no file, in this order: with \
                   `.html`, `/about` has the file `about.html`, also where there is a folder `about`. `/` stands for \
                   the folder, so that `[\"/\", \".html\"]` looks for it first. The file stays at its own path, too, \
                   and a client that may not have it there does not get it here. A script is run: with `.php`, \
                   `/about` runs `about.php` where a route runs that. A file whose own route has `return`, `respond`, \
                   `proxy` or `application` is not looked for. At most 8. See \
                   [Files](files.md#paths-without-an-extension).",
        },
        Key {
            name: "fallback",
            kind: Kind::TextOrFalse,
            default: Words("none"),
            example: "\"/index.php\"",
            text: "A path of the same host that responds where nothing exists for the requested path. `false` removes \
                   an inherited one. It is a file, a script or a path of an application, and responds with its own \
                   status; it is made for front controllers and single-page applications. It also responds for folders \
                   without index file or listing. A script finds the requested path in `REQUEST_URI` and `PATH_INFO`. A \
                   query for the script may follow a question mark, as that of a `rewrite`; the query of the request \
                   follows it. The name of the file is added to `index`, \
                   unless `index` stands beside `fallback`. If the fallback does not exist either, the response is 404. \
                   See [Files](files.md#fallbacks).",
        },
        Key {
            name: "fallback_for",
            kind: Kind::Choice(&["pages", "all"]),
            default: Value("\"pages\""),
            example: "\"all\"",
            text: "Whether the fallback also responds for missing assets: paths with the extension of a script, a \
                   style sheet, an image, a font, sound or video. With `pages` their response is 404, so that a browser \
                   never takes a page for an asset.",
        },
        Key {
            name: "language_fallback",
            kind: Kind::Choices(&["suffix", "folder"]),
            default: Value("[]"),
            example: "[\"suffix\"]",
            text: "The paths with a language for which the path without it responds where nothing exists. With `suffix`, \
                   `/a.html` responds for `/a.de.html`; with `folder`, `/a` responds for `/(de)/a`. A language has two \
                   letters in lower case. `fallback` does not respond for these paths.",
        },
        Key {
            name: "listing",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the response for a folder without index file lists its entries. Otherwise it is 403.",
        },
        Key {
            name: "listing_program",
            kind: Kind::Path,
            default: Words("none"),
            example: "\"/usr/lib/boa/boa_indexer\"",
            text: "A program that makes listings, as Boa's `DirectoryMaker`. Its arguments are the path of the folder and \
                   the path of the request, and it writes HTML without fields. It sets `listing`, too. A route that sets \
                   only `listing` has no program. See [Files](files.md#programs-that-make-listings).",
        },
        Key {
            name: "dotfiles",
            kind: Kind::Choice(&["deny", "unlisted", "allow"]),
            default: Value("\"deny\""),
            example: "\"allow\"",
            text: "Whether a path with a segment that begins with a dot gets 404. `unlisted`: it is served, and listings \
                   leave it out. `/.well-known/` is always allowed.",
        },
        Key {
            name: "symlinks",
            kind: Kind::Choice(&["beneath", "owner", "never", "follow"]),
            default: Value("\"beneath\""),
            example: "\"owner\"",
            text: "Which symbolic links the server follows. `beneath`: those whose target is beneath the root. \
                   `owner`: those whose target has the same owner. `never`: none; a path with a link gets 403. \
                   `follow`: all.",
        },
        Key {
            name: "executables",
            kind: Kind::Choice(&["send", "deny"]),
            default: Value("\"send\""),
            example: "\"deny\"",
            text: "Whether files are sent that have a permission to be executed, where no route runs them. `deny`: they \
                   get 403, and the error log has a line. So no link to a script leads to its text.",
        },
        Key {
            name: "precompressed",
            kind: Kind::Choices(&["br", "zstd", "gzip"]),
            default: Value("[\"br\", \"zstd\", \"gzip\"]"),
            example: "[\"gzip\"]",
            text: "Which precompressed files (`FILE.br`, `FILE.zst`, `FILE.gz` beside `FILE`) are sent to clients that \
                   accept them, in order of preference. `[]` turns this off. A precompressed file must have the content \
                   of its file. One that is older than its file is not sent.",
        },
        Key {
            name: "languages",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"en\", \"de\", \"pt-BR\"]",
            text: "The languages that files have in their names, in order of preference: `FILE.de` or `FILE` with `.de` \
                   before its extension beside `FILE`. The client gets the one that it prefers by `Accept-Language`, or \
                   else the first that exists. A file without a language counts for the first of the list. At most 16. \
                   `[]` turns this off. See [Languages](files.md#languages-and-charsets).",
        },
        Key {
            name: "charsets",
            kind: Kind::Pairs("a table of `SUFFIX = charset`"),
            default: Words("none"),
            example: "{ utf8 = \"utf-8\", latin1 = \"iso-8859-1\" }",
            text: "The charsets that files have at the end of their names, in order of preference: `FILE.latin1`, or \
                   `FILE.de.latin1` with a language. They set the charset in `Content-Type`, and the client chooses by \
                   `Accept-Charset`. A file without a charset precedes those with one. At most 4. `{}` turns this off.",
        },
        Key {
            name: "as_is",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether a file with the extension `asis` is a whole response: a status, fields, an empty line and the \
                   content. See [As-is files](files.md#as-is-files).",
        },
        Key {
            name: "image_maps",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether a file with the extension `map` is an image map, which says where a click on an image leads. \
                   The map of a script in JavaScript has the same extension, so set it for the routes that have image \
                   maps. See [Image maps](files.md#image-maps).",
        },
        Key {
            name: "meta_files",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether a file may have a metafile with further fields of its response, as in CERN's server: \
                   `.web/page.html.meta` for `page.html`. See [Metafiles](files.md#metafiles).",
        },
        Key {
            name: "meta_dir",
            kind: Kind::Text,
            default: Value("\".web\""),
            example: "\".meta\"",
            text: "The name of the folders with metafiles, beside the files that they are for. Nothing in such a folder \
                   is served, in all hosts.",
        },
        Key {
            name: "meta_suffix",
            kind: Kind::Text,
            default: Value("\".meta\""),
            example: "\".fields\"",
            text: "What follows the name of the file in the name of its metafile.",
        },
        Key {
            name: "compress",
            kind: Kind::FlagOrChoices(&["br", "zstd", "gzip"]),
            default: Value("true"),
            example: "[\"zstd\", \"gzip\"]",
            text: "Whether files and listings are compressed for clients that accept it, and in which codings, in \
                   order of preference. A file with a precompressed file beside it is not. `true` stands for all \
                   codings: for files br, zstd, gzip; for what is compressed while it is sent zstd, br, gzip. See \
                   [Compression](compression.md).",
        },
        Key {
            name: "compress_types",
            kind: Kind::Texts,
            default: Words(
                "`text/*`, `+json`, `+xml`, and other types that gain, such as JavaScript and WebAssembly",
            ),
            example: "[\"text/*\", \"application/json\", \"+xml\"]",
            text: "The media types that are compressed. `text/*` stands for all that begin with `text/`, `+xml` for all \
                   that end with it.",
        },
        Key {
            name: "compress_from",
            kind: size(0, 1 << 30),
            default: Value("\"1KiB\""),
            example: "\"4KiB\"",
            text: "The least size of a response that is compressed, where the size is known.",
        },
        Key {
            name: "compress_kept",
            kind: Kind::Choice(&["strong", "quick", "off"]),
            default: Value("\"strong\""),
            example: "\"quick\"",
            text: "How files are compressed. `strong` and `quick`: once, in the background, with a strong or a quick \
                   level; the cache keeps the result, and until it is made the file is sent as it is. `off`: each \
                   time, while the file is sent. That also holds for files of more than 8 MiB, or an eighth of `bytes` \
                   in `[cache]`.",
        },
        Key {
            name: "compress_scripts",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the responses of scripts and applications are compressed, too. Read about [BREACH](compression.md#breach) \
                   first: the length of a compressed page over TLS can disclose a secret in it.",
        },
        Key {
            name: "includes",
            kind: Kind::FlagOrChoices(&["ssi", "esi"]),
            default: Value("false"),
            example: "[\"esi\"]",
            text: "The languages of [pages](includes.md) whose directives the server carries out: `ssi` for server-side \
                   includes, `esi` for Edge Side Includes. `true` is `[\"ssi\"]`.",
        },
        Key {
            name: "include_files",
            kind: Kind::Texts,
            default: Value("[\".shtml\"]"),
            example: "[\".shtml\", \".html\"]",
            text: "The ends of the names of files that are pages, with `includes`.",
        },
        Key {
            name: "include_types",
            kind: Kind::Texts,
            default: Value("[\"text/html\"]"),
            example: "[\"text/html\", \"+xml\"]",
            text: "The media types of the responses of scripts and upstreams that are pages, with `includes`. `[]`: only \
                   files are pages.",
        },
        Key {
            name: "dictionary",
            kind: Kind::TextOrFalse,
            default: Words("none"),
            example: "\"/app/*.js\"",
            text: "The URLs for which a browser may use a file of this route as a dictionary (RFC 9842), with `*` for \
                   any text. It then gets only the difference to the version that it has. `false` removes an inherited \
                   one. See [Compression](compression.md#dictionaries).",
        },
        Key {
            name: "gunzip",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether a file that exists only as `.gz` is decompressed for clients that do not accept gzip.",
        },
        Key {
            name: "etag",
            kind: Kind::Choice(&["stat", "content", "off"]),
            default: Value("\"stat\""),
            example: "\"content\"",
            text: "What the entity tag of a file is made of. `stat`: size, modification time and inode; a hash of the \
                   content where the time is before 1980, as in images of file systems. `content`: a \
                   hash of the content, which is the same on every machine, for files of at most 64 KiB, or of `file` of \
                   `[cache]` if that is more. `off`: no entity tag.",
        },
        Key {
            name: "types",
            kind: Kind::Pairs("a table of `extension = media type`"),
            default: Words("none; the built-in types apply"),
            example: "{ glb = \"model/gltf-binary\", \"user.js\" = \"text/plain\" }",
            text: "Media types by file name extension. They are added to the built-in ones, or replace them.",
        },
        Key {
            name: "default_type",
            kind: Kind::Text,
            default: Value("\"application/octet-stream\""),
            example: "\"text/plain\"",
            text: "The media type of a file without extension, or with an unknown one.",
        },
        Key {
            name: "charset",
            kind: Kind::TextOrFalse,
            default: Value("\"utf-8\""),
            example: "\"iso-8859-1\"",
            text: "The charset that is added to media types that begin with `text/` and have none. `false` adds none. \
                   Other media types have no such parameter or, as JSON, do not need it.",
        },
        Key {
            name: "headers",
            kind: Kind::Pairs("a table of `name = value`, or `name = false`"),
            default: Words("none"),
            example: "{ X-Content-Type-Options = \"nosniff\", ETag = false }",
            text: "Header fields to set in every response, in place of those of the same name. `false` removes a \
                   field. With a `+` before its name, as in `\"+Link\"`, a field is added to the others. Fields that \
                   frame the message, such as `Content-Length`, cannot be changed.",
        },
        Key {
            name: "jwt",
            kind: Kind::SectionOrFalse(Scope::Jwt),
            default: Words("no token is needed"),
            example: "{ keys = \"/etc/taipan/keys.json\", issuer = \"https://login.example.org\" }",
            text: "The signed tokens (JWT) without which no request passes. `false` removes inherited ones; a table takes \
                   what it does not have from the inherited one. See [Access](access.md#tokens).",
        },
        Key {
            name: "security_headers",
            kind: Kind::TextOrFalse,
            default: Value("false"),
            example: "\"basic\"",
            text: "A preset of fields that tell browsers what a page may do: `basic`, which breaks no usual page, or \
                   `strict`, for sites that need nothing of other origins. A field of the same name in `headers`, or \
                   one that a script sends, takes the place of that of the preset. See [Browsers](browsers.md).",
        },
        Key {
            name: "cors_origins",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"https://app.example.org\", \"https://*.example.com\"]",
            text: "The origins whose pages may read responses (CORS): `https://example.org`, with a port if it is not \
                   the usual one; `https://*.example.org` for all names below; or `*` for every origin. The server \
                   responds to preflights itself, before access rules. `[]`: other origins may read nothing, and \
                   preflights are left to scripts and applications. See [Browsers](browsers.md#other-origins).",
        },
        Key {
            name: "cors_methods",
            kind: Kind::Texts,
            default: Value("[\"GET\", \"HEAD\", \"POST\"]"),
            example: "[\"GET\", \"PUT\", \"DELETE\"]",
            text: "The methods that pages of `cors_origins` may send.",
        },
        Key {
            name: "cors_fields",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"Authorization\", \"Content-Type\"]",
            text: "The fields that pages of `cors_origins` may send, beside those that every page may. `*` stands for \
                   all but `Authorization`.",
        },
        Key {
            name: "cors_exposed_fields",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"ETag\", \"Location\"]",
            text: "The fields of responses that pages of `cors_origins` may read, beside those that every page may.",
        },
        Key {
            name: "cors_credentials",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether pages of `cors_origins` may use the cookies and passwords of their readers. Then no key of \
                   CORS can be `*`.",
        },
        Key {
            name: "cors_max_age",
            kind: time(0, DAY),
            default: Value("\"10m\""),
            example: "\"1h\"",
            text: "How long a browser may keep the response to a preflight.",
        },
        Key {
            name: "cache_control",
            kind: Kind::Pairs("a string, or a table of `pattern = value`"),
            default: Words("none"),
            example: "{ \"/assets/\" = \"max-age=31536000, immutable\", \"text/html\" = \"no-cache\" }",
            text: "The field `Cache-Control` of files, by the first pattern that matches. Patterns are those of `path`, \
                   for the path of the request, or types of media, such as `text/html` and `image/*`. Those of a \
                   route precede those of its host.",
        },
        Key {
            name: "error_pages",
            kind: Kind::Pairs("a table of `status = path`"),
            default: Words("the built-in pages"),
            example: "{ 404 = \"/errors/404.html\" }",
            text: "Files, by their path within the host, that are sent as the body of an error response.",
        },
        Key {
            name: "limit",
            kind: Kind::Tables(Scope::Limit),
            default: Words("none"),
            example: "[[limit]]\nby = \"client\"\nrequests = \"20/s\"\nrequests_burst = 50",
            text: "A limit of speed or of requests. Limits of the top level, of the host and of the route all apply: write \
                   `[[limit]]`, `[[host.limit]]`, `[[route.limit]]` or `[[host.route.limit]]`. At most 16 tables apply to \
                   one route, and a site has at most 1000 limits. See [Limits](limits.md).",
        },
        Key {
            name: "max_body",
            kind: size(0, 1 << 40),
            default: Words("the `body` of `[limits]`"),
            example: "0",
            text: "The largest request body. A longer one gets 413. Scripts and applications receive the body. Files \
                   discard it.",
        },
    ],
};
