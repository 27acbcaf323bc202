//! lighttpd, beside what `taipan convert` makes of its configuration: both respond to the same requests.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use e2e::{
    BackgroundProcess, Client, Rows, Server, Site, TIMEOUT, command, free_port, own_user, tool, wait_until,
};

/// A script whose job outlives it, and ends when it finds a file.
const LEAVES_A_JOB: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nstarted'\n\
    (while [ ! -e \"$DOCUMENT_ROOT/../go\" ]; do sleep 0.05; done; echo > \"$DOCUMENT_ROOT/../$QUERY_STRING\") \
    >/dev/null 2>&1 </dev/null &\n";

/// lighttpd at a port, and the server that its configuration becomes.
struct Both {
    _lighttpd: BackgroundProcess,
    lighttpd: SocketAddr,
    taipan: Server,
}

impl Both {
    /// With these directives, in which `HOME` is the folder of the site.
    fn start(site: Site, directives: &str) -> Both {
        let home = site.home().to_owned();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let configuration = |port: u16| {
            let text = format!(
                "server.modules = ( \"mod_cgi\", \"mod_access\", \"mod_redirect\", \"mod_rewrite\", \"mod_setenv\" )\n\
                 server.bind = \"127.0.0.1\"\nserver.port = {port}\nserver.document-root = \"HOME/www\"\n\
                 index-file.names = ( \"index.html\" )\nmimetype.assign = ( \".html\" => \"text/html\", \".txt\" => \"text/plain\" )\n{directives}"
            );
            text.replace("HOME", &home.display().to_string())
        };
        let write = |name: &str, text: &str| fs::write(home.join(name), text).expect("it is our folder");
        write("lighttpd.conf", &configuration(address.port()));
        let file = home.join("lighttpd.conf");
        let process = BackgroundProcess::start(tool("lighttpd").env_clear().arg("-D").arg("-f").arg(file));
        let listens = || TcpStream::connect(address).is_ok();
        assert!(wait_until(TIMEOUT, listens), "it does not listen:\n{}", process.errors().text());
        write("converted.conf", &configuration(0));
        let account = own_user();
        write("site.toml", &format!("{account}{}", converted(&home)));
        let taipan = site.start_with(1, |site| {
            let mut taipan = command();
            taipan.args(["-c", "site.toml"]).current_dir(site.home());
            taipan
        });
        Both { _lighttpd: process, lighttpd: address, taipan }
    }
}

fn converted(home: &Path) -> String {
    let output =
        command().args(["convert", "converted.conf", "--from", "lighttpd"]).current_dir(home).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("TOML is UTF-8")
}

#[test]
fn jobs_that_scripts_leave_behind_live_on_in_both() {
    let site = Site::new().script("cgi-bin/job", LEAVES_A_JOB);
    let both = Both::start(site, "$HTTP[\"url\"] =^ \"/cgi-bin/\" { cgi.assign = ( \"\" => \"\" ) }\n");
    let mut rows = Rows::new();
    for (name, mut client) in [("lighttpd", Client::tcp(both.lighttpd)), ("taipan", both.taipan.connect())] {
        let response = client.get(&format!("/cgi-bin/job?{name}"));
        rows.check(name, (response.status, response.text().as_str()), (200, "started"));
    }
    // Both responses are complete. The jobs end when they find the file.
    let home = both.taipan.home();
    fs::write(home.join("go"), "").expect("it is our folder");
    for name in ["lighttpd", "taipan"] {
        let ends = wait_until(TIMEOUT, || home.join(name).exists());
        rows.check(format!("the job of {name} ends by itself"), ends, true);
    }
}

#[test]
fn both_start_the_program_of_an_upstream() {
    let page = "<?php echo getenv('COLOUR'), ' ', $_SERVER['SCRIPT_NAME'], ' ', basename(getcwd());";
    let site = Site::new().file("folder/page.php", page).file("plain.html", "plain");
    let php = tool("php-cgi").get_program().display().to_string();
    let both = Both::start(
        site,
        &format!(
            "server.modules += ( \"mod_fastcgi\" )\nfastcgi.server = ( \".php\" => (( \"bin-path\" => \"{php}\", \
             \"socket\" => \"HOME/php.socket\", \"max-procs\" => 1, \
             \"bin-environment\" => ( \"PHP_FCGI_CHILDREN\" => \"2\", \"COLOUR\" => \"red\" ) )) )\n"
        ),
    );
    let mut rows = Rows::new();
    for (name, mut client) in [("lighttpd", Client::tcp(both.lighttpd)), ("taipan", both.taipan.connect())] {
        for (path, expected) in
            [("/folder/page.php", (200, "red /folder/page.php folder")), ("/plain.html", (200, "plain"))]
        {
            let response = client.get(path);
            rows.check(format!("{name}: {path}"), (response.status, response.text().as_str()), expected);
        }
        rows.check(format!("{name}: none"), client.get("/folder/none.php").status, 404);
    }
}

/// Conditions with what is otherwise, and within others.
const CONDITIONS: &str = "$HTTP[\"url\"] =~ \"^/admin/\" {
setenv.add-response-header = ( \"X-Place\" => \"admin\" )
$HTTP[\"url\"] =~ \"\\.(eot|woff2?)$\" { setenv.set-response-header = ( \"X-Font\" => \"yes\" ) }
} else $HTTP[\"url\"] =~ \"^/$\" { url.redirect = ( \"\" => \"/admin/\" ) }
else $HTTP[\"url\"] =^ \"/far/\" { url.access-deny = ( \"\" ) }
$HTTP[\"url\"] =~ \"^/admin/|^/open\\.txt$\" { }
else { url.access-deny = ( \"\" ) }
$HTTP[\"remoteip\"] !~ \"^127\\.0\\.\" { url.access-deny = ( \"\" ) }
$HTTP[\"remoteip\"] =~ \"^127\\.\" { $HTTP[\"url\"] =^ \"/admin/local/\" { url.access-deny = ( \"\" ) } }
";

#[test]
fn converted_conditions_are_for_the_same_paths_as_in_lighttpd() {
    let files = ["admin/index.html", "admin/a.woff", "admin/local/a.txt", "far/a.txt", "a.woff", "open.txt"];
    let site = files.iter().fold(Site::new(), |site, path| site.file(path, path));
    let both = Both::start(site, CONDITIONS);
    let facts = |client: &mut Client, path: &str| {
        let response = client.get(path);
        let fields =
            ["location", "x-place", "x-font"].map(|name| response.field(name).unwrap_or("-").to_owned());
        // lighttpd adds no field to an error.
        match response.status {
            400.. => (response.status, [const { String::new() }; 3], String::new()),
            301 => (301, fields, String::new()),
            status => (status, fields, response.text()),
        }
    };
    let mut rows = Rows::new();
    let paths = ["/", "/admin/", "/admin/index.html", "/admin/a.woff", "/admin/none", "/admin/local/a.txt"];
    for path in
        paths.iter().chain(&["/far/a.txt", "/far/none", "/a.woff", "/open.txt", "/open.txt/x", "/none"])
    {
        let theirs = facts(&mut Client::tcp(both.lighttpd), path);
        rows.check(path, facts(&mut both.taipan.connect(), path), theirs);
    }
}
