//! The layers of each crate: a module uses only those below it in the table of its crate. So there is no circle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate with the modules at its top, from the highest layer to the lowest. Modules in one line may use one
/// another.
const CRATES: &[(&str, &[&str])] = &[
    ("http", HTTP),
    ("h2", H2),
    ("script", SCRIPT),
    ("auth", AUTH),
    ("cache", CACHE),
    ("ssi", SSI),
    ("dav", DAV),
    ("site", SITE),
    ("dialects", DIALECTS),
    ("report", REPORT),
    ("server", SERVER),
    ("load", LOAD),
];

const HTTP: &[&str] = &[
    "trace_context",
    "chunked",
    "client",
    "trailers",
    "known",
    "conditional",
    "forwarded",
    "negotiate",
    "proxy_header",
    "range",
    "response",
    "head",
    "framing",
    "target",
    "path_text",
    "date",
    "digits",
    "write",
    "etag",
    "fields",
    "method",
    "rule",
    "status",
    "version",
];

const H2: &[&str] =
    &["server", "fields", "decoder", "priority", "frame", "response", "hpack", "huffman", "error"];

const SCRIPT: &[&str] = &["fastcgi", "scgi", "environment", "pairs", "response", "walk", "arguments"];

const AUTH: &[&str] = &[
    "jwt",
    "keys",
    "json",
    "der",
    "digest",
    "basic",
    "nonce",
    "users",
    "digest_users",
    "groups",
    "edit",
    "mistake",
    "hash",
    "crypt64",
];

const CACHE: &[&str] = &[
    "store",
    "update",
    "policy",
    "invalidation",
    "status",
    "freshness",
    "stored",
    "vary",
    "parts",
    "request",
    "targeted",
    "directives",
    "fields",
    "key",
    "settings",
];

const SSI: &[&str] = &[
    "page",
    "evaluate",
    "scan",
    "esi",
    "directive",
    "expression",
    "template",
    "variables",
    "reference",
    "coding",
    "format",
    "mistake",
];

const DAV: &[&str] = &[
    "method",
    "fields",
    "condition",
    "multistatus",
    "properties",
    "request",
    "locks",
    "upload",
    "xml",
    "lines",
];

const SITE: &[&str] = &[
    "watch",
    "maintenance",
    "disconnect",
    "acts",
    "config",
    "memory",
    "error_page",
    "listing",
    "span",
    "log_line",
    "decide",
    "applying",
    "needs",
    "zones",
    "client_errors",
    "plan",
    "walk",
    // The types of a configuration, which name one another.
    "model host folder route template upstream forwarding authorizer jwt tls certificates access authentication limit \
     monitor publishing",
    "balance",
    "health",
    "proxies",
    "forward_proxy",
    "named_files",
    "network",
    "wildcard",
    "mime",
    "image_map",
    "text",
    "utf8",
    "field_file",
    "mistake",
    "alternates",
    "includes",
    "compress",
    "listener",
    "cors",
    "security_headers",
    "published",
    "rotation",
    "tracing",
    "log_fields",
    "log_selection",
    "timezone",
    "sink",
    "endpoint",
    "address",
];

const DIALECTS: &[&str] = &[
    "input boa thttpd busybox uhttpd",
    "web",
    "apache",
    "nginx",
    "lighttpd",
    "caddy",
    "known",
    "within",
    "endpoints",
    "draft",
    "regex",
    "pattern",
    "scripts",
    "media",
    "document",
    "tree",
    "getopt",
    "words",
    "everywhere",
    "disk",
    "finding",
    "brackets",
    "class",
];

const REPORT: &[&str] = &["html text", "tables", "summary", "agent", "top", "entry"];

const LOAD: &[&str] = &[
    "worker", "progress", "engine", "flags", "report", "verify", "h2", "tls", "run", "plan", "urls", "shape",
];

const SERVER: &[&str] = &[
    // The commands.
    "cli",
    // The master, and the process that serves one configuration.
    "master",
    "start",
    "config",
    "generation",
    "worker",
    // From a connection to a response, and back.
    "connection",
    "listen",
    "exchange",
    "upstream",
    "acme",
    "forward_proxy",
    "name_lookup",
    "service_process",
    "logger",
    "pool",
    "spawner",
    "signer",
    "request",
    "cache",
    "content",
    "publishing",
    "response",
    "files",
    "response_head",
    // What all of them use.
    "services",
    "resolver",
    "limits",
    "signature",
    "tls",
    "file_stamps",
    "overload",
    "log",
    "watch",
    "client_names",
    "steps",
    "trace",
    "main_thread",
    "stats",
    "destination",
    "regular_file",
    "disk",
    "background",
    "encoder",
    "gunzip",
    "admission",
    "semaphore",
    "tasks",
    "clock",
    "tls_facts",
    "finding",
    "buffer",
    "flags",
    "control",
    "process",
    "peer",
    "terminal",
    "mutex",
    "sys",
];

/// An import of one module by another.
struct Import {
    from: String,
    to: String,
    file: PathBuf,
}

/// Every import of the modules in `source`, the folder of a crate.
fn imports(source: &Path) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the source is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                // Tests may use everything.
                if !["tests", "faults", "faulty"].contains(&name.as_str()) {
                    folders.push(path);
                }
                continue;
            }
            if !name.ends_with(".rs")
                || ["lib.rs", "main.rs", "tests.rs", "faults.rs", "faulty.rs"].contains(&name.as_str())
            {
                continue;
            }
            let inside = path.strip_prefix(source).expect("it is beneath");
            let module = inside.iter().next().unwrap_or_default().to_string_lossy();
            let module = module.strip_suffix(".rs").unwrap_or(&module).to_owned();
            let text = fs::read_to_string(&path).expect("source is text");
            let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
            for other in imported(text) {
                if other != module {
                    imports.push(Import { from: module.clone(), to: other, file: path.clone() });
                }
            }
        }
    }
    imports
}

/// The modules that are named as `crate::module` or in `crate::{…}`.
fn imported(text: &str) -> Vec<String> {
    let first = |text: &str| -> String {
        let is_of_name = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_';
        text.trim_start().chars().take_while(is_of_name).collect()
    };
    let mut modules = Vec::new();
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    // `$crate` in a macro names the module of the macro itself.
    for behind in code.join("\n").replace("$crate::", "").split("crate::").skip(1) {
        match behind.strip_prefix('{') {
            Some(group) => {
                let group = group.split('}').next().unwrap_or_default();
                modules.extend(group.split(',').map(first));
            }
            None => modules.push(first(behind)),
        }
    }
    modules.retain(|module| !module.is_empty());
    modules
}

/// What is wrong with the imports of a crate, in sentences.
fn faults(name: &str, layers: &[&str]) -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let level: BTreeMap<&str, usize> = layers
        .iter()
        .enumerate()
        .flat_map(|(level, modules)| modules.split(' ').map(move |module| (module, level)))
        .collect();
    let imports = imports(&source);
    assert!(imports.len() >= layers.len() / 2, "{name}: the imports are found");
    let fault = |Import { from, to, file }: &Import| match (level.get(from.as_str()), level.get(to.as_str()))
    {
        (Some(above), Some(below)) if above <= below => None,
        (Some(_), Some(_)) => Some(format!("{}: {from} uses {to}, which is above it", file.display())),
        (None, _) => Some(format!("{name}: {from} is in no layer; add it to the table")),
        // A macro or an item at the top of the crate is in no layer, either.
        (_, None) => Some(format!("{}: {to} is in no layer; add it to the table", file.display())),
    };
    imports.iter().filter_map(fault).collect()
}

#[test]
fn modules_use_only_what_is_below_them() {
    let mut faults: Vec<String> = CRATES.iter().flat_map(|(name, layers)| faults(name, layers)).collect();
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_places_that_architecture_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page is there");
    let named: Vec<&str> = page.split('`').filter(|text| text.starts_with("crates/")).collect();
    let lacking: Vec<&&str> = named.iter().filter(|place| !root.join(place).exists()).collect();
    assert!(named.len() > 20 && lacking.is_empty(), "ARCHITECTURE.md names what is not there: {lacking:?}");
}
