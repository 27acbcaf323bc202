//! The short run: every file of the corpus, and many inputs that differ a little from one. It takes a few seconds and
//! is the same every time. The runs of hours are in `coverage-guided`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use taipan_fuzz::{TARGETS, Target};

/// Changed inputs for each target.
const MUTATIONS: usize = 2000;

/// The maximum of changes to a file.
const CHANGES: u64 = 4;

/// Texts that break parsers more often than random bytes.
const PIECES: [&[u8]; 32] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"=",
    b"\"",
    b"\\",
    b"/",
    b"..",
    b"%2f",
    b"%00",
    b"%",
    b"?",
    b"*",
    b"$",
    b"[",
    b"{",
    b"#",
    b"-",
    b"0",
    b"18446744073709551616",
    b"-1",
    b"\x7f",
    b"\xc3\xa9",
    b"\xff",
    b"\xe2\x80\xae",
    b"W/",
];

#[test]
fn alternates() {
    run("alternates");
}

#[test]
fn field_file() {
    run("field_file");
}

#[test]
fn image_map() {
    run("image_map");
}

#[test]
fn head() {
    run("head");
}

#[test]
fn cached() {
    run("cached");
}

#[test]
fn stored_file() {
    run("stored_file");
}

#[test]
fn target_path() {
    run("target_path");
}

#[test]
fn chunked() {
    run("chunked");
}

#[test]
fn forwarded() {
    run("forwarded");
}

#[test]
fn range() {
    run("range");
}

#[test]
fn dates() {
    run("dates");
}

#[test]
fn config() {
    run("config");
}

#[test]
fn dialects() {
    run("dialects");
}

#[test]
fn listing() {
    run("listing");
}

#[test]
fn log_line() {
    run("log_line");
}

#[test]
fn environment() {
    run("environment");
}

#[test]
fn fastcgi() {
    run("fastcgi");
}

#[test]
fn upstream_head() {
    run("upstream_head");
}

#[test]
fn http2() {
    run("http2");
}

#[test]
fn hpack() {
    run("hpack");
}

#[test]
fn credentials() {
    run("credentials");
}

#[test]
fn password_file() {
    run("password_file");
}

#[test]
fn origins() {
    run("origins");
}

#[test]
fn throttle_file() {
    run("throttle_file");
}

#[test]
fn available_dictionary() {
    run("available_dictionary");
}

#[test]
fn nginx() {
    run("nginx");
}

#[test]
fn lighttpd() {
    run("lighttpd");
}

#[test]
fn apache() {
    run("apache");
}

#[test]
fn zone() {
    run("zone");
}

#[test]
fn caddyfile() {
    run("caddyfile");
}

#[test]
fn proxy_header() {
    run("proxy_header");
}

#[test]
fn page() {
    run("page");
}

#[test]
fn dav() {
    run("dav");
}

#[test]
fn each_target_has_a_corpus_and_a_long_run() {
    for (name, _) in TARGETS {
        assert!(files(name).len() >= 10, "{name}");
        assert!(include_str!("corpus.rs").contains(&format!("run(\"{name}\")")), "{name} has no test");
        assert!(folder().join(format!("coverage-guided/fuzz_targets/{name}.rs")).is_file(), "{name}");
    }
}

#[track_caller]
fn run(name: &str) {
    let target = TARGETS.into_iter().find(|(own, _)| *own == name).expect("a target").1;
    let files = files(name);
    let mut random = Random(0x7461_6970_616e);
    files.iter().for_each(|file| try_one(target, file));
    for at in 0..MUTATIONS {
        let mut input = files[at % files.len()].clone();
        for _ in 0..=random.below(CHANGES) {
            change(&mut input, &files, &mut random);
        }
        try_one(target, &input);
    }
}

/// Prints the input if a property does not hold.
fn try_one(target: Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!("the input was b\"{}\"", input.escape_ascii());
        resume_unwind(panic);
    }
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The corpus of a target, in the order of the names.
fn files(name: &str) -> Vec<Vec<u8>> {
    let folder = folder().join("corpus").join(name);
    let mut paths: Vec<PathBuf> =
        folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// One random change.
fn change(input: &mut Vec<u8>, files: &[Vec<u8>], random: &mut Random) {
    let from = random.below(input.len() as u64 + 1) as usize;
    let to = (from + random.below(16) as usize).min(input.len());
    match random.below(6) {
        0 => drop(input.drain(from..to)),
        1 => drop(input.splice(from..to, PIECES[random.below(32) as usize].iter().copied())),
        2 => drop(input.splice(from..from, PIECES[random.below(32) as usize].iter().copied())),
        3 => drop(input.splice(from..from, input[from..to].repeat(1 + random.below(8) as usize))),
        4 => {
            let other = &files[random.below(files.len() as u64) as usize];
            let begin = random.below(other.len() as u64 + 1) as usize;
            input.truncate(from);
            input.extend_from_slice(&other[begin..]);
        }
        _ => input[from..to].iter_mut().take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
    }
}

/// Numbers that look random and are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
