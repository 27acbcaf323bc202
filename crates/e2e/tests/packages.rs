//! Package managers behind the cache, and a registry whose names have encoded slashes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::{
    BackgroundProcess, Folder, Random, Rows, Site, TIMEOUT, output_within, path_of, python_packages, tool,
};

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

/// Makes a package, and the index of a repository that has only it.
fn repository(folder: &Path) {
    let package = folder.join("package");
    fs::create_dir_all(package.join("DEBIAN")).expect("it is our folder");
    fs::create_dir_all(package.join("usr/share/demo")).expect("it is our folder");
    let control = "Package: demo\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a demo\n";
    fs::write(package.join("DEBIAN/control"), control).expect("it is our folder");
    let content = Random::new(9).bytes(2 << 20);
    fs::write(package.join("usr/share/demo/content"), content).expect("it is our folder");
    let built = folder.join("www");
    fs::create_dir_all(&built).expect("it is our folder");
    let mut build = tool("dpkg-deb");
    build.args(["-Znone", "--root-owner-group", "--build"]).arg(&package).arg(built.join("demo_1.0_all.deb"));
    assert!(output_within(&mut build, TIMEOUT).status.success());
    let mut scan = tool("dpkg-scanpackages");
    let output = output_within(scan.args(["-m", "."]).current_dir(&built), TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(built.join("Packages"), output.stdout).expect("it is our folder");
}

/// Updates the index and downloads the package with apt, whose state is all in `folder`.
fn apt_download(url: &str, folder: &Path) -> Vec<u8> {
    for name in ["lists/partial", "archives/partial", "parts", "got"] {
        fs::create_dir_all(folder.join(name)).expect("it is our folder");
    }
    fs::write(folder.join("status"), "").expect("it is our folder");
    fs::write(folder.join("sources.list"), format!("deb [trusted=yes] {url} ./\n"))
        .expect("it is our folder");
    let at = |name: &str| folder.join(name).display().to_string();
    let config = format!(
        "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"{parts}\";\nDir::Etc::parts \"{parts}\";\n\
         Dir::Etc::preferencesparts \"{parts}\";\nDir::State \"{home}\";\nDir::State::lists \"{}\";\n\
         Dir::State::status \"{}\";\nDir::Cache \"{home}\";\nDir::Cache::archives \"{}\";\n\
         APT::Sandbox::User \"\";\nAcquire::http::Proxy \"DIRECT\";\nAcquire::Languages \"none\";\n",
        at("sources.list"),
        at("lists"),
        at("status"),
        at("archives"),
        parts = at("parts"),
        home = folder.display(),
    );
    fs::write(folder.join("apt.conf"), config).expect("it is our folder");
    for words in [&["update"][..], &["download", "demo"]] {
        let mut apt = tool("apt-get");
        apt.args(words).env("APT_CONFIG", folder.join("apt.conf")).current_dir(folder.join("got"));
        let output = output_within(&mut apt, TIMEOUT * 6);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}\n{}", String::from_utf8_lossy(&output.stdout));
    }
    fs::read(folder.join("got/demo_1.0_all.deb")).expect("it has downloaded the package")
}

#[test]
fn apt_gets_packages_from_the_cache() {
    let home = Folder::new();
    repository(home.path());
    let origin = Site::new()
        .config_without_root(&format!(
            "root = \"{}\"\nworkers = 1\n[log]\naccess = \"stdout\"\n",
            home.path().join("www").display()
        ))
        .start();
    let server = Site::new()
        .config(&format!(
            "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://{}\"\nresponse_cache = true\n\
             response_cache_lifetime = \"1h\"\nresponse_cache_largest = \"16MiB\"\n",
            origin.addr()
        ))
        .start();
    let url = server.url("/");
    let asked =
        || origin.output().all().into_iter().filter(|line| line.contains("GET /")).collect::<Vec<_>>();
    let first = apt_download(&url, &home.path().join("first"));
    origin.wait_for_output("demo_1.0_all.deb", TIMEOUT);
    let of_first = asked();
    let second = apt_download(&url, &home.path().join("second"));
    assert!(first == second && first.len() > 2 << 20, "the same package of {} bytes", first.len());
    assert_eq!(asked(), of_first, "the second time, everything is from the cache");
}
