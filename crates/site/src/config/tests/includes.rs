//! Files that include others.

use super::*;

#[test]
fn warns_of_an_include_pattern_that_matches_no_file() {
    let text = format!("{TWO_LINES}\ninclude = [\"hosts/*.toml\", \"more/*.toml\"]");
    let files = [("/etc/site.toml", text.as_str()), ("/etc/more/a.toml", "user = \"a\"\npid_file = \"pid\"")];
    let found = read(Path::new("/etc/site.toml"), &Files(&files)).map_err(|_| ()).unwrap();
    let warnings: Vec<String> = found.warnings.iter().map(ConfigError::to_string).collect();
    assert_eq!(
        warnings,
        [
            "/etc/site.toml:4: no file matches /etc/hosts/*.toml, so nothing is included; check the pattern, or remove it"
        ]
    );
    let place = |keys: &[&'static str], value: &str| found.places.of(keys, value).map(ToString::to_string);
    assert_eq!(place(&["root"], "/srv/www"), Some("/etc/site.toml:2".to_owned()));
    assert_eq!(place(&["listen"], "127.0.0.1:8080"), Some("/etc/site.toml:1".to_owned()));
    assert_eq!(place(&["user"], "a"), Some("/etc/more/a.toml:1".to_owned()));
    assert_eq!(place(&["access", "pid_file"], "/etc/more/pid"), Some("/etc/more/a.toml:2".to_owned()));
    assert_eq!(place(&["root"], "/other"), None);
}

#[test]
fn merges_included_files() {
    let main =
        "include = [\"hosts/*.toml\", \"limits.toml\"]\nlisten = \"0.0.0.0:80\"\n[limits]\nfields = 9\n";
    let site = load_files(&[
        ("/etc/t/site.toml", main),
        ("/etc/t/limits.toml", "[limits]\nconnections = 5"),
        ("/etc/t/hosts/a.toml", "[[host]]\nnames = \"a\"\nroot = \"www-a\""),
        ("/etc/t/hosts/b.toml", "[[host]]\nnames = \"b\"\nroot = \"/b\""),
    ])
    .unwrap();
    assert_eq!((site.limits.connections, site.limits.head.fields), (5, 9));
    assert_eq!(planned(&site, "b", "/"), "/b /");
    assert_eq!(planned(&site, "other", "/"), "/etc/t/hosts/www-a /");

    let errors = |files: &[(&str, &str)]| load_files(files).map(|_| ()).unwrap_err();
    assert_eq!(
        errors(&[("a.toml", "include = \"b.toml\"\nroot = \"/\""), ("b.toml", "\nroot = \"/\"")]),
        [
            "b.toml:2: \"root\" is given twice: a.toml:2 has it too; remove one of them; to serve several sites, give each a [[host]]"
        ]
    );
    assert_eq!(
        errors(&[("a.toml", "include = \"b.toml\""), ("b.toml", "\ninclude = \"a.toml\"")]),
        ["b.toml:2: a.toml includes itself; remove this include"]
    );
    assert_eq!(
        errors(&[("a.toml", "include = [\"b.toml\", 5]")]),
        [
            "a.toml:1: b.toml cannot be read: entity not found; check its path and its permissions",
            "a.toml:1: \"include\" cannot be an integer; expected a path, or an array of paths"
        ]
    );
    assert_eq!(
        errors(&[
            ("a.toml", "include = [\"b\\nc\", \"d\\u0001\"]\n\"e\\nf\" = 1"),
            ("d\u{1}", "\"e\\nf\" = 1")
        ]),
        [
            "a.toml:1: b\\nc cannot be read: entity not found; check its path and its permissions",
            "d\u{1}:1: \"e\\nf\" is given twice: a.toml:2 has it too; remove one of them; to serve several sites, give each a [[host]]"
        ]
    );
    assert_eq!(errors(&[("a/../a.toml", "include = \"../a/../a.toml\"")]).len(), 1);
    assert_eq!(errors(&[("a.toml", "include = \"*.x\"\nx = 1"), ("b.x", "y = 1"), ("c.x", "[")]).len(), 1);
    assert_eq!(
        errors(&[("a.toml", &" ".repeat(MAX_FILE + 1))]),
        ["a.toml: it is larger than 1 MiB; make it shorter, or split it"]
    );
    let site = load_files(&[("a.toml", &format!("{TWO_LINES}include = \"none/*.toml\""))]).err();
    assert_eq!(site, None::<Vec<String>>);
}

#[test]
fn bounds_the_depth_and_number_of_included_files() {
    // Each file includes two others with new paths.
    struct Endless;
    impl Source for Endless {
        fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(format!("include = [\"x{0}\", \"y{0}\"]", path.file_name().unwrap().len()).into())
        }
        fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(Vec::new())
        }
    }
    struct Deep;
    impl Source for Deep {
        fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(format!("include = \"x{}\"", path.display()).into())
        }
        fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(Vec::new())
        }
    }
    let errors = load(Path::new("a"), &Deep).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "xxxxxxxxa:1: files include files more than 8 levels deep; remove this include"
    );
    assert!(load(Path::new("a"), &Endless).unwrap_err().len() <= MAX_ERRORS);
}
