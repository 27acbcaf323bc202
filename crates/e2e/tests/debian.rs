//! PHP applications from Debian's packages: mounted by an alias, run by php-fpm, configured as the manual
//! shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::{BackgroundProcess, Rows, Server, Site, command, is_root, output_of, path_of};

/// The manual's section on Debian's packages.
const MANUAL: &str = include_str!("../../../docs/manual/applications.md");
const SECTION: &str = "### Debian's packages\n";

/// A picture of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

fn section() -> &'static str {
    MANUAL.split_once(SECTION).expect("the manual has the section").1
}

/// The configuration of the manual, with the php-fpm of the test, without address and root.
fn of_the_manual(home: &Path) -> String {
    let config = section().split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let config = config.expect("the section has a configuration");
    let own = |line: &&str| !line.starts_with("listen = ") && !line.starts_with("root = ");
    let lines: Vec<&str> = config.lines().filter(own).collect();
    let socket = format!("{}/fpm.sock", home.display());
    let config = lines.join("\n").replace("/run/php/php8.2-fpm.sock", &socket);
    assert!(config.contains(&socket), "the manual names the socket of php-fpm: {config}");
    config
}

/// php-fpm with the installed extensions. DokuWiki gets the test's folders for its settings and pages.
fn fpm(site: &Site) -> BackgroundProcess {
    let home = site.home().display().to_string();
    let user = if is_root() { "user = root\ngroup = root\n" } else { "" };
    let conf = format!(
        "[global]\nerror_log = {home}/fpm.log\n[www]\nlisten = {home}/fpm.sock\npm = static\n\
         pm.max_children = 4\nphp_value[auto_prepend_file] = {home}/before.php\n{user}"
    );
    fs::write(site.home().join("fpm.conf"), conf).expect("it is our folder");
    let mut fpm = Command::new(path_of("php-fpm"));
    fpm.args(["-F", "-y"]).arg(site.home().join("fpm.conf"));
    if is_root() {
        fpm.arg("-R");
    }
    BackgroundProcess::listening(&mut fpm, &site.home().join("fpm.sock"))
}

/// A wiki with one page and Debian's settings, except for `settings`.
fn site(settings: &str) -> Site {
    let site = Site::new();
    let home = site.home().display().to_string();
    let before = format!("<?php if (!defined('DOKU_CONF')) define('DOKU_CONF', '{home}/conf/');");
    let local = format!("<?php $conf['savedir'] = '{home}/data'; $conf['useacl'] = 0; {settings}");
    let site = site
        .file("own.php", "<?php echo 'of the root ', $_SERVER['SCRIPT_NAME'];")
        .file_beside_root("before.php", before)
        .file_beside_root("conf/local.php", local)
        .file_beside_root("data/pages/start.txt", "====== Hello from the wiki ======\n")
        .file_beside_root("data/pages/a/page.txt", "====== A page below ======\n");
    for folder in
        ["attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta", "tmp"]
    {
        fs::create_dir_all(site.home().join("data").join(folder)).expect("it is our folder");
    }
    for entry in fs::read_dir("/etc/dokuwiki").expect("dokuwiki is installed") {
        let from = entry.expect("it can be listed").path();
        let to = site.home().join("conf").join(from.file_name().expect("it has a name"));
        // The links lead to the administrator's files: users and their permissions.
        if !to.exists() && !from.is_symlink() {
            fs::copy(&from, &to).expect("it can be read");
        }
    }
    site
}

fn start(site: Site) -> (Server, BackgroundProcess) {
    let fpm = fpm(&site);
    (site.start(), fpm)
}

#[test]
fn serves_dokuwiki_phpmyadmin_and_adminer_by_alias_and_script_pattern() {
    let site = site("");
    let config = of_the_manual(site.home());
    let (server, _fpm) = start(site.config(&config));
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/own.php", "of the root /own.php"),
        ("/dokuwiki/doku.php", "Hello from the wiki"),
        ("/dokuwiki/doku.php?id=a:page", "A page below"),
        ("/dokuwiki/doku.php/a:page?id=a:page", "A page below"),
        ("/dokuwiki/lib/exe/css.php", "box-sizing"),
        ("/phpmyadmin/", "<title>phpMyAdmin</title>"),
        ("/phpmyadmin/index.php", "pma_username"),
        ("/adminer/", "<title>Login - Adminer</title>"),
    ] {
        let response = server.get(path);
        let has = response.text().contains(expected);
        rows.check(path, (response.status, has), (200, true));
        if !has {
            eprintln!("{path}: {}", response.text());
        }
    }
    for (path, expected) in [
        ("/dokuwiki/lib/images/smileys/biggrin.svg", (200, "image/svg+xml")),
        ("/dokuwiki/lib/tpl/dokuwiki/images/logo.png", (200, "image/png")),
        ("/phpmyadmin/favicon.ico", (200, "image/vnd.microsoft.icon")),
        ("/phpmyadmin/themes/pmahomme/css/theme.css", (200, "text/css; charset=utf-8")),
        // Files that clients must not get, scripts among them.
        ("/dokuwiki/inc/init.php", (403, "text/html; charset=utf-8")),
        ("/dokuwiki/bin/dwpage.php", (403, "text/html; charset=utf-8")),
        ("/dokuwiki/vendor/autoload.php", (403, "text/html; charset=utf-8")),
        ("/phpmyadmin/libraries/classes/Core.php", (403, "text/html; charset=utf-8")),
        ("/phpmyadmin/templates/login/header.twig", (403, "text/html; charset=utf-8")),
        ("/dokuwiki/none.php", (404, "text/html; charset=utf-8")),
        ("/doku.php", (404, "text/html; charset=utf-8")),
    ] {
        let response = server.get(path);
        rows.check(path, (response.status, response.field("content-type").unwrap_or("none")), expected);
    }
    // The index of the folder is a script, which runs and is never sent.
    for (path, leads_to) in [("/dokuwiki", "/dokuwiki/"), ("/dokuwiki/", "/dokuwiki/doku.php?id=start")] {
        rows.check(path, server.get(path).field("location"), Some(leads_to));
    }
}

#[test]
fn a_fallback_serves_the_clean_urls_of_dokuwiki() {
    let site = site("$conf['userewrite'] = 1;").file_beside_root("data/media/pic.png", PNG);
    let fences: Vec<&str> = section().split("```toml\n").skip(2).take(2).collect();
    let [line, images] = [0, 1].map(|at| fences[at].split("```").next().expect("it ends"));
    let alias = "alias = \"/usr/share/dokuwiki\"\n";
    let config = of_the_manual(site.home()).replace(alias, &format!("{alias}{line}")) + "\n" + images;
    let (server, _fpm) = start(site.config(&config));
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/dokuwiki/start", "Hello from the wiki"),
        ("/dokuwiki/a:page", "A page below"),
        ("/dokuwiki/a:page?do=edit", "<textarea"),
        ("/dokuwiki/start", "\"/dokuwiki/start?do="),
        ("/dokuwiki/doku.php?id=a:page", "A page below"),
        ("/dokuwiki/_detail/pic.png", "src=\"/dokuwiki/_media/pic.png"),
    ] {
        let response = server.get(path);
        rows.check(path, response.status, 200);
        rows.holds(path, &format!("it has {expected}"), response.text().contains(expected));
    }
    let none = server.get("/dokuwiki/no:such:page").text();
    rows.holds("no such page", "the page must come from the wiki", none.contains("<title>no:such:page"));
    for (path, expected) in [
        ("/dokuwiki/_media/pic.png", (200, "image/png")),
        // PHP writes it with capitals.
        ("/dokuwiki/_media/none.png", (404, "text/html; charset=UTF-8")),
        ("/dokuwiki/none.png", (404, "text/html; charset=utf-8")),
        ("/dokuwiki/lib/images/smileys/biggrin.svg", (200, "image/svg+xml")),
    ] {
        let response = server.get(path);
        rows.check(path, (response.status, response.field("content-type").unwrap_or("none")), expected);
    }
    let leads_to = server.get("/dokuwiki/").field("location").map(str::to_owned);
    rows.check("/dokuwiki/", leads_to.as_deref(), Some("/dokuwiki/start"));
}

#[test]
fn explain_names_the_prefix_and_the_pattern() {
    let site = site("");
    let config = of_the_manual(site.home());
    let site = site.config(&config);
    let file = site.write_config();
    let explained = |path: &str| {
        let output = output_of(command().args(["explain", "-c"]).arg(&file).args(["GET", path]));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut rows = Rows::new();
    for (path, lines) in [
        (
            "/dokuwiki/doku.php/x",
            &[
                "route     *.php within /dokuwiki/: scripts beneath /usr/share/dokuwiki",
                "script    /usr/share/dokuwiki/doku.php",
                "run by    the application \"php\"",
                "as        SCRIPT_NAME /dokuwiki/doku.php",
                "          PATH_INFO /x",
            ][..],
        ),
        (
            "/dokuwiki/inc/init.php",
            &["route     *.php within /dokuwiki/inc/: 403 Forbidden (the status of the route)"],
        ),
        ("/own.php", &["route     *.php: scripts beneath"]),
    ] {
        let text = explained(path);
        for line in lines {
            rows.check(format!("{path}: {line}"), text.contains(line), true);
        }
        eprintln!("{text}");
    }
}
