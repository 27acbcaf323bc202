//! Package managers behind the cache, and a registry whose names have encoded slashes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::{BackgroundProcess, Rows, Site, TIMEOUT, output_within, path_of, python_packages};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");

/// The index, and its port.
fn index() -> (BackgroundProcess, String) {
    let mut python = Command::new(path_of("python3"));
    let index = BackgroundProcess::start(python.arg(Path::new(PROGRAMS).join("package_index.py")));
    let port = index.output().wait_for(TIMEOUT, |lines| lines.first().cloned()).expect("it prints its port");
    (index, port)
}

/// Downloads the package with pip, without a cache of its own.
fn download(url: &str, folder: &Path) -> Vec<u8> {
    let mut pip = Command::new(python_packages().join("python3"));
    pip.args([
        "-m",
        "pip",
        "--isolated",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "download",
        "--no-deps",
        "--index-url",
        url,
        "--dest",
    ]);
    pip.arg(folder).arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = output_within(&mut pip, TIMEOUT * 6);
    assert!(output.status.success(), "{pip:?}\n{}", String::from_utf8_lossy(&output.stderr));
    fs::read(folder.join("demo-1.0-py3-none-any.whl")).expect("it has downloaded the package")
}

#[test]
fn pip_download_gets_packages_from_the_cache() {
    let (index, port) = index();
    let server = Site::new()
        .config(&format!(
            "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://127.0.0.1:{port}\"\nresponse_cache = true\nresponse_cache_largest = \"16MiB\"\n"
        ))
        .start();
    let url = server.url("/simple/");
    let first = download(&url, &server.home().join("first"));
    let asked = index.output().all();
    assert_eq!(asked[1..], ["/simple/demo/", "/files/demo-1.0-py3-none-any.whl"]);
    let second = download(&url, &server.home().join("second"));
    assert!(first == second && first.len() > 1 << 20, "the same package of {} bytes", first.len());
    assert_eq!(index.output().all(), asked, "the second download is from the cache");
}

#[test]
fn a_registry_gets_its_names_as_they_were_sent() {
    let (index, port) = index();
    let server = Site::new()
        .config(&format!(
            "workers = 1\n[[route]]\npath = \"/v2/\"\nproxy = \"http://127.0.0.1:{port}\"\nproxy_path = \"raw\"\n\
             [[rule]]\npath = \"/v2/secret/\"\nthen = \"deny\"\n"
        ))
        .start();
    let mut rows = Rows::new();
    let forwarded = [
        "/v2/team%2Fapp/manifests/1.0",
        "/v2/team%2fapp/blobs/sha256:0123",
        "/v2/@scope%2Fname/tags/list?n=2",
        "/v2/team/app//uploads/",
    ];
    for path in forwarded {
        rows.check(path, server.get(path).status, 404);
    }
    for (path, expected) in [("/v2/secret%2Fapp/manifests/1", 403), ("/v2/a%2F..%2Fsecret/x", 400)] {
        rows.check(path, server.get(path).status, expected);
    }
    rows.check("asked", index.output().all()[1..].to_vec(), forwarded.map(str::to_owned).to_vec());
}
