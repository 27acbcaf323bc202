//! The result of a conversion and its original, as `taipan explain` tells them.

use super::*;

/// What `explain` prints, without where a rule stands.
fn explained(folder: &Path, file: &[&str], path: &str, from: &str) -> String {
    let mut explain = command();
    explain.args(["explain", "GET", path, "--from", from, "-c"]).args(file).current_dir(folder);
    let output = explain.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = text.lines().filter(|line| !line.trim_start().starts_with("Date:"));
    kept.map(|line| line.split(", by the rule in").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn converted_configurations_decide_as_the_originals() {
    let mut rows = Rows::new();
    for (name, text) in SERVERS {
        let site = site();
        let home = site.home().to_owned();
        let site = site.file_beside_root("original", text.replace("HOME", &home.display().to_string()));
        let convert = command()
            .args(["convert", "original", "--from", name])
            .current_dir(&home)
            .output()
            .expect("it starts");
        fs::write(home.join("site.toml"), &convert.stdout).expect("it is our folder");
        for path in [
            "/",
            "/old/a?b",
            "/docs/",
            "/locked/x",
            "/locked.txt",
            "/a.bak",
            "/far/x",
            "/missing",
            "/../etc/passwd",
            "/old",
            "/old/",
            "/older",
            "/gone",
            "/docs",
            "/docs/one.html",
            "/docs/none",
            "/docs/../a.bak",
            "/%64ocs/one.html",
            "/locked",
            "/locked/",
            "/%6cocked/x",
            "//locked//x",
            "/locked/../locked/x",
            "/near/x",
            "/near",
            "/far",
            "/far/a.bak",
            "/a.bak/x",
            "/A.BAK",
            "/index.html",
        ] {
            for from in ["127.0.0.1", "192.0.2.1"] {
                let original = explained(&home, &["original", "--dialect", name], path, from);
                assert!(original.contains("request "), "{name} {path}: {original}");
                rows.check(
                    format!("{name} {path} {from}"),
                    explained(&home, &["site.toml"], path, from).as_str(),
                    original.as_str(),
                );
            }
        }
        drop(site);
    }
}
