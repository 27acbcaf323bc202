//! For random rules of access: no spelling of a path leads to content that its plain spelling does not lead to.

use std::io::Read;

use e2e::{Random, Response, Rows, Server, Site, gzip};
use flate2::read::GzDecoder;

/// Hosts, each with rules of its own.
const HOSTS: usize = 8;
const SEED: u64 = 1;
const RULES: u64 = 5;

/// The paths of files. Each has its own path as content.
const FILES: [&str; 9] = [
    "index.html",
    "a.txt",
    "b/index.html",
    "b/c.txt",
    "b/d/e.txt",
    // Only as gzip.
    "b/packed.txt",
    // Also as gzip.
    "b/both.txt",
    "f g/h.txt",
    "secret/index.html",
];
const PATTERNS: [&str; 16] = [
    "/",
    "/a.txt",
    "/b/",
    "/b/c.txt",
    "/b/d/",
    "/b/d/**",
    "*.txt",
    "/b/*.txt",
    "/**/e.txt",
    "/b/packed.txt",
    "/b/both.txt",
    "*.gz",
    "/f g/",
    "/secret/index.html",
    "/secret/",
    "index.html*",
];

/// The rules of a host, as TOML.
fn rules(random: &mut Random) -> String {
    let mut toml = String::new();
    for _ in 0..random.below(RULES) + 1 {
        let then = random.one_of(&["allow", "deny", "deny"]);
        let pattern = random.one_of(&PATTERNS);
        toml.push_str(&format!("[[host.rule]]\npath = \"{pattern}\"\nthen = \"{then}\"\n"));
    }
    if random.below(2) == 0 {
        let pattern = random.one_of(&["/b/", "/secret/", "*.txt"]);
        toml.push_str(&format!(
            "[[host.route]]\npath = \"{pattern}\"\n[[host.route.rule]]\nthen = \"deny\"\n"
        ));
    }
    toml
}

fn site(hosts: &[String]) -> Site {
    let mut site = Site::new().every_protocol();
    for path in FILES.iter().filter(|path| !path.ends_with("packed.txt")) {
        site = site.file(path, format!("content of {path}."));
    }
    for path in ["b/packed.txt", "b/both.txt"] {
        site = site.file(&format!("{path}.gz"), gzip(format!("content of {path}.")));
    }
    let hosts: Vec<String> = hosts
        .iter()
        .enumerate()
        .map(|(number, rules)| {
            format!(
                "[[host]]\nnames = \"h{number}\"\nroot = \"www\"\nrewrites = {{ \"/alias/\" = \"/b/$rest\" }}\n{rules}"
            )
        })
        .collect();
    site.config(&hosts.concat())
}

fn get(server: &Server, host: usize, target: &str, fields: &str) -> Response {
    server.request(format!("GET {target} HTTP/1.1\r\nHost: h{host}\r\n{fields}Connection: close\r\n\r\n"))
}

/// The text of a response, without its coding.
fn text(response: &Response) -> String {
    let mut text = String::new();
    // What is not gzip is text as it is.
    match response.field("content-encoding").or(response.body.starts_with(&[0x1f, 0x8b]).then_some("gzip")) {
        Some(_) => _ = GzDecoder::new(&response.body[..]).read_to_string(&mut text),
        None => text = response.text(),
    }
    text
}

fn encoded(path: &str, which: impl Fn(usize, char) -> bool) -> String {
    let encode = |(at, character): (usize, char)| match which(at, character) || character == ' ' {
        true => format!("%{:02x}", character as u32),
        false => character.to_string(),
    };
    path.char_indices().map(encode).collect()
}

/// Targets that may lead to the file at `path`, which has no leading slash.
fn spellings(path: &str, host: usize) -> Vec<String> {
    let plain = encoded(path, |_, _| false);
    let mut targets = vec![
        format!("/{plain}"),
        format!("/{}", encoded(path, |at, _| at == 0)),
        format!("/{}", encoded(path, |_, character| character.is_alphanumeric())).to_uppercase(),
        format!("/{}", encoded(path, |_, character| character == '.')),
        format!("//{}", plain.replace('/', "//")),
        format!("/./{}", plain.replace('/', "/./")),
        format!("/x/../{plain}"),
        format!("/x/%2e%2E/{plain}"),
        format!("/%2e/{plain}"),
        format!("/{plain}/"),
        format!("/{plain}/."),
        format!("/{plain}?query"),
        format!("/{plain}%20"),
        format!("/{plain}%00"),
        format!("/{plain};x"),
        format!("/{plain}."),
        format!("/{}", plain.replace('/', "%2f")),
        format!("/{}", plain.replace('/', "\\")),
        format!("/{}", plain.to_uppercase()),
        format!("http://h{host}/{plain}"),
    ];
    targets.extend([".gz", ".br", ".zst"].map(|suffix| format!("/{plain}{suffix}")));
    if let Some(folder) = plain.strip_suffix("index.html") {
        targets.extend([
            format!("/{folder}"),
            format!("/{}", folder.trim_end_matches('/')),
            format!("//{folder}."),
        ]);
    }
    if let Some(rest) = plain.strip_prefix("b/") {
        targets.extend([format!("/alias/{rest}"), format!("/%61lias//{rest}")]);
    }
    targets
}

#[test]
fn no_spelling_leads_to_what_the_plain_one_does_not() {
    let mut random = Random::new(SEED);
    let hosts: Vec<String> = (0..HOSTS).map(|_| rules(&mut random)).collect();
    let server = site(&hosts).start();
    let mut rows = Rows::new();
    let mut denied = 0;
    for (host, rules) in hosts.iter().enumerate() {
        let forbidden: Vec<&str> = FILES
            .into_iter()
            .filter(|path| {
                let plain = get(&server, host, &format!("/{}", encoded(path, |_, _| false)), "");
                !text(&plain).contains(&format!("content of {path}."))
            })
            .collect();
        denied += forbidden.len();
        for path in &forbidden {
            for target in spellings(path, host) {
                for fields in ["", "Accept-Encoding: gzip\r\n"] {
                    let response = get(&server, host, &target, fields);
                    let leaks = text(&response).contains(&format!("content of {path}."));
                    let input = format!("{target} {fields:?} with\n{rules}");
                    rows.holds(input, "it does not lead to the file", !leaks);
                }
            }
        }
    }
    assert!(denied > 0, "no rule denies anything");
}
