//! Verifies responses: status, length, bytes. The reference is the first good response, a manifest of checksums,
//! or the files of a folder. Shared by all threads, and written to once per request of the plan.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use ring::digest;
use taipan_http::digits::hex_byte;
use twox_hash::XxHash3_128;

use crate::plan::{Check, GoodStatuses, Plan, Reference, Request};
use crate::run::Fault;

/// The checksum of a body that is being read.
#[derive(Clone)]
pub enum Sum {
    /// Fast; used when no other program has to compute it.
    Xxh3(Box<XxHash3_128>),
    /// As `sha256sum` computes it.
    Sha256(Box<digest::Context>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Digest {
    Xxh3(u128),
    Sha256([u8; 32]),
}

/// Length and digest of the right body of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReferenceBody {
    /// `None`: a manifest has no lengths.
    length: Option<u64>,
    digest: Option<Digest>,
}

/// What right responses are, for all threads.
#[derive(Debug)]
pub struct Verifier {
    statuses: GoodStatuses,
    kind: Kind,
    reference: Vec<OnceLock<ReferenceBody>>,
}

/// What is computed while a body arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Length,
    Xxh3,
    Sha256,
}

impl std::fmt::Debug for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Sum::Xxh3(_) => "Xxh3",
            Sum::Sha256(_) => "Sha256",
        })
    }
}

impl Sum {
    /// The next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Sum::Xxh3(hasher) => hasher.write(bytes),
            Sum::Sha256(context) => context.update(bytes),
        }
    }

    fn finish(self) -> Digest {
        match self {
            Sum::Xxh3(hasher) => Digest::Xxh3(hasher.finish_128()),
            Sum::Sha256(context) => {
                let mut sum = [0; 32];
                sum.copy_from_slice(context.finish().as_ref());
                Digest::Sha256(sum)
            }
        }
    }

    fn xxh3() -> Sum {
        Sum::Xxh3(Box::new(XxHash3_128::new()))
    }
}

impl Verifier {
    /// Reads the references that are files.
    ///
    /// Errors: a sentence that names the file, or the URL without one.
    pub fn new(plan: &Plan) -> Result<Verifier, String> {
        let reference: Vec<OnceLock<ReferenceBody>> = plan.requests.iter().map(|_| OnceLock::new()).collect();
        let kind = match &plan.check {
            Check::Nothing => Kind::Nothing,
            Check::Length => Kind::Length,
            Check::Checksum(Reference::First) => Kind::Xxh3,
            Check::Checksum(Reference::Manifest(path)) => {
                let text =
                    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                let sums =
                    manifest(&text).map_err(|(line, why)| format!("{}:{line}: {why}", path.display()))?;
                for (request, reference) in plan.requests.iter().zip(&reference) {
                    let sum = sums
                        .get(file_path(&request.path))
                        .ok_or_else(|| format!("{} has no sum for {}", path.display(), request.url))?;
                    let _ = reference.set(ReferenceBody { length: None, digest: Some(Digest::Sha256(*sum)) });
                }
                Kind::Sha256
            }
            Check::Checksum(Reference::Folder(folder)) => {
                for (request, reference) in plan.requests.iter().zip(&reference) {
                    let _ = reference.set(file(folder, request)?);
                }
                Kind::Xxh3
            }
        };
        Ok(Verifier { statuses: plan.statuses.clone(), kind, reference })
    }

    /// The checksum to which the next body's bytes are added; `None` if bodies are not read.
    pub fn sum(&self) -> Option<Sum> {
        match self.kind {
            Kind::Nothing | Kind::Length => None,
            Kind::Xxh3 => Some(Sum::xxh3()),
            Kind::Sha256 => Some(Sum::Sha256(Box::new(digest::Context::new(&digest::SHA256)))),
        }
    }

    /// Verifies a complete response whose framing was right.
    #[inline]
    pub fn verify(&self, request: u32, status: u16, length: u64, sum: Option<Sum>) -> Result<(), Fault> {
        if !self.statuses.contains(status) {
            return Err(Fault::Status);
        }
        match self.kind {
            Kind::Nothing => Ok(()),
            // A 304 has no body.
            _ if status == 304 => Ok(()),
            _ => self.compare(request, length, sum),
        }
    }

    fn compare(&self, request: u32, length: u64, sum: Option<Sum>) -> Result<(), Fault> {
        let Some(reference) = self.reference.get(request as usize) else { return Ok(()) };
        let found = ReferenceBody { length: Some(length), digest: sum.map(Sum::finish) };
        let reference = reference.get_or_init(|| found.clone());
        if reference.length.is_some_and(|reference| reference != length) {
            return Err(Fault::WrongLength);
        }
        if reference.digest != found.digest { Err(Fault::WrongBody) } else { Ok(()) }
    }
}

/// Lines of `sha256sum`, in text or binary mode: 64 hexadecimal digits, two characters, a path. All paths are
/// relative to the root of the site.
fn manifest(text: &str) -> Result<HashMap<&str, [u8; 32]>, (usize, &'static str)> {
    let mut sums = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = (index + 1, "not a line of sha256sum: 64 hexadecimal digits, two spaces, a path");
        let (digits, rest) = line.split_at_checked(64).ok_or(wrong)?;
        let path = rest.strip_prefix("  ").or(rest.strip_prefix(" *")).ok_or(wrong)?;
        sums.insert(file_path(path), sum_of(digits).ok_or(wrong)?);
    }
    Ok(sums)
}

fn sum_of(digits: &str) -> Option<[u8; 32]> {
    let mut sum = [0; 32];
    for (byte, pair) in sum.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = hex_byte(pair)?;
    }
    Some(sum)
}

/// Without query, `./` and leading slashes.
fn file_path(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or_default();
    path.strip_prefix("./").unwrap_or(path).trim_start_matches('/')
}

fn file(folder: &Path, request: &Request) -> Result<ReferenceBody, String> {
    let decoded = decoded(file_path(&request.path))
        .ok_or_else(|| format!("{} is not the path of a file", request.url))?;
    let mut path = folder.join(&decoded);
    if decoded.as_os_str().is_empty()
        || request.path.split('?').next().is_some_and(|path| path.ends_with('/'))
    {
        path.push("index.html");
    }
    let read = || -> io::Result<ReferenceBody> {
        let (mut file, mut sum, mut length) = (File::open(&path)?, Sum::xxh3(), 0);
        let mut buffer = vec![0; 64 * 1024];
        // Bounded by the file.
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(ReferenceBody { length: Some(length), digest: Some(sum.finish()) }),
                count => {
                    sum.update(&buffer[..count]);
                    length += count as u64;
                }
            }
        }
    };
    read().map_err(|error| format!("{}: {error}", path.display()))
}

/// The percent-decoded path, if all its segments are names: no `..`.
fn decoded(path: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        bytes.push(hex_byte(after)?);
        rest = &after[2..];
    }
    let path = PathBuf::from(String::from_utf8(bytes).ok()?);
    path.components().all(|part| matches!(part, Component::Normal(_))).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_manifest_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let text = format!("{empty}  ./a.html\n\n# note\n{empty} *b/c.html\n{empty}  /d\n");
        let sums = manifest(&text).unwrap();
        let mut names: Vec<_> = sums.keys().copied().collect();
        names.sort_unstable();
        assert_eq!(names, ["a.html", "b/c.html", "d"]);
        assert_eq!(sums["d"][..2], [0xe3, 0xb0]);
        for (text, line) in
            [("x", 1), ("\nd41d8cd98f00b204e9800998ecf8427e  a", 2), (&format!("{empty}a"), 1)]
        {
            assert_eq!(manifest(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }

    #[test]
    fn rejects_a_path_that_leaves_the_folder() {
        for (path, expected) in [
            ("a/b.html", Some("a/b.html")),
            ("a%20b", Some("a b")),
            ("", Some("")),
            ("../a", None),
            ("a/%2e%2e/b", None),
            ("a%2", None),
            ("a%zz", None),
        ] {
            assert_eq!(decoded(path), expected.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn a_checksum_does_not_depend_on_the_chunks() {
        for start in [Sum::xxh3(), Sum::Sha256(Box::new(digest::Context::new(&digest::SHA256)))] {
            let (mut one, mut two) = (start.clone(), start.clone());
            one.update(b"abcdef");
            two.update(b"ab");
            two.update(b"cdef");
            assert_eq!(one.finish(), two.finish());
        }
        assert_ne!(Sum::xxh3().finish(), {
            let mut other = Sum::xxh3();
            other.update(b"x");
            other.finish()
        });
    }
}
