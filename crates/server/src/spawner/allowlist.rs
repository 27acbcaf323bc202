//! What a spawner starts at all: the programs of the site, as the accounts that the site names for them, with the
//! variables of a request. Only a worker that an attacker controls requests anything else.
//!
//! Knows nothing of how a program is started.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use site::folder::HostFolder;
use site::model::{Account, Action, Host, Interpreter, Route, Script, Site};

use super::{SpawnRequest, message};
use crate::process::privilege::Credentials;

/// The rules of each account, by its name in the configuration. The empty name is the server's own account.
#[derive(Debug, Clone, Default)]
pub struct Allowlist(HashMap<Vec<u8>, AccountRules>);

/// What may be started as one account: the exact bytes of paths and variables.
#[derive(Debug, Clone, Default)]
struct AccountRules {
    /// `None`: those of the spawner.
    credentials: Option<Credentials>,
    interpreters: HashSet<Vec<u8>>,
    /// Folders of scripts, without a slash at the end.
    folders: HashSet<Vec<u8>>,
    /// Folders of names, which contain scripts.
    named: HashSet<Arc<HostFolder>>,
    /// Programs that make listings.
    listers: HashSet<Vec<u8>>,
    /// The folders that they list, and those beneath them. Without a slash at the end.
    listed: HashSet<Vec<u8>>,
    /// `NAME=VALUE`, as configured.
    additions: HashSet<Vec<u8>>,
}

/// The variables of a request (RFC 3875 §4.1, and later additions) and of its handshake, besides its fields.
const VARIABLES: [&str; 35] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "SSL_CIPHER",
    "SSL_CLIENT_CERT",
    "SSL_CLIENT_I_DN",
    "SSL_CLIENT_M_SERIAL",
    "SSL_CLIENT_S_DN",
    "SSL_CLIENT_VERIFY",
    "SSL_CLIENT_V_END",
    "SSL_CLIENT_V_START",
    "SSL_PROTOCOL",
    "SSL_SESSION_RESUMED",
    "SSL_TLS_SNI",
];
/// php-cgi runs the file that this variable names.
const FILE: &[u8] = b"SCRIPT_FILENAME=";

/// The program must not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forbidden;

impl Allowlist {
    /// Of a site with the paths within its `chroot`. `credentials` are those of each account.
    pub fn of(site: &Site, credentials: impl Fn(Option<&Account>) -> Option<Credentials>) -> Allowlist {
        let mut allowlist = Allowlist::default();
        for host in site.hosts.iter() {
            for (route, script) in host.script_routes() {
                let rules = allowlist.rules_of(script, &credentials);
                rules.add_folder(host, route);
                rules.add(script);
            }
            for (route, lister) in host.lister_routes() {
                allowlist.rules_of(lister, &credentials).add_lister(route, lister);
            }
        }
        allowlist
    }

    fn rules_of(
        &mut self,
        script: &Script,
        credentials: &impl Fn(Option<&Account>) -> Option<Credentials>,
    ) -> &mut AccountRules {
        let account = script.account.as_ref();
        let name = account.map_or(String::new(), Account::to_string);
        let new = || AccountRules { credentials: credentials(account), ..AccountRules::default() };
        self.0.entry(name.into_bytes()).or_insert_with(new)
    }

    /// The credentials to start the program with. `None`: those of the spawner.
    pub fn credentials_for(&self, request: &SpawnRequest<'_>) -> Result<Option<&Credentials>, Forbidden> {
        let rules = self.0.get(request.account.to_bytes()).filter(|rules| rules.permits(request));
        rules.map(|rules| rules.credentials.as_ref()).ok_or(Forbidden)
    }
}

impl AccountRules {
    fn add_folder(&mut self, host: &Host, route: &Route) {
        match (&route.action, &host.folder) {
            (Action::Files { root, .. }, _) => {
                self.folders.insert(without_slash(root));
            }
            (_, Some(folder)) => {
                self.named.insert(folder.clone());
            }
            (_, None) => {}
        }
    }

    fn add_lister(&mut self, route: &Route, lister: &Script) {
        if let (Action::Files { root, .. }, Some(Interpreter::Program(path))) =
            (&route.action, &lister.interpreter)
        {
            self.listed.insert(without_slash(root));
            self.listers.insert(path.as_os_str().as_bytes().to_vec());
        }
        self.add_variables(lister);
    }

    fn add(&mut self, script: &Script) {
        if let Some(Interpreter::Program(path)) = &script.interpreter {
            self.interpreters.insert(path.as_os_str().as_bytes().to_vec());
        }
        self.add_variables(script);
    }

    fn add_variables(&mut self, script: &Script) {
        let additions = script.environment.iter();
        self.additions.extend(additions.map(|(name, value)| [name.as_bytes(), b"=", value].concat()));
    }

    fn permits(&self, request: &SpawnRequest<'_>) -> bool {
        if self.listers.contains(request.program.to_bytes()) && self.lists(request.arguments) {
            return message::strings(request.environment).all(|own| self.additions.contains(own.to_bytes()));
        }
        let script = match self.interpreters.contains(request.program.to_bytes()) {
            true => message::strings(request.arguments).nth(1).unwrap_or_default(),
            false => request.program,
        };
        self.has(script.to_bytes())
            && message::strings(request.environment).all(|variable| self.sets(variable))
    }

    /// Whether these are the arguments of a program that makes listings: its own path, a folder, and the path of a
    /// request.
    fn lists(&self, arguments: &[u8]) -> bool {
        let arguments: Vec<&CStr> = message::strings(arguments).collect();
        let [_, folder, title] = arguments[..] else { return false };
        let Some(folder) = folder.to_bytes().strip_suffix(b"/") else { return false };
        title.to_bytes().starts_with(b"/")
            && (self.listed.contains(folder) || is_beneath(folder, |one| self.listed.contains(one)))
    }

    /// Whether it is beneath one of the folders, by its name.
    fn has(&self, path: &[u8]) -> bool {
        let below =
            |folder: &HostFolder| folder.below(Path::new(OsStr::from_bytes(path))).map(Path::as_os_str);
        is_beneath(path, |folder| self.folders.contains(folder))
            || self.named.iter().any(|folder| below(folder).is_some_and(|below| is_plain(below.as_bytes())))
    }

    fn sets(&self, variable: &CStr) -> bool {
        let variable = variable.to_bytes();
        let name = variable.split(|byte| *byte == b'=').next().unwrap_or_default();
        let of_request = || match variable.strip_prefix(FILE) {
            Some(file) => self.has(file),
            None => is_field(name) || VARIABLES.iter().any(|own| own.as_bytes() == name),
        };
        variable.contains(&b'=') && (self.additions.contains(variable) || of_request())
    }
}

fn without_slash(root: &Path) -> Vec<u8> {
    let root = root.as_os_str().as_bytes();
    let last = root.iter().rposition(|byte| *byte != b'/');
    last.map_or(&root[..0], |last| &root[..=last]).to_vec()
}

fn without_slashes_before(below: &[u8]) -> &[u8] {
    let first = below.iter().position(|byte| *byte != b'/');
    &below[first.unwrap_or(below.len())..]
}

/// Whether `path` is beneath a wanted folder, by steps that are neither empty, `.` nor `..`. The path of the folder may
/// have such steps: the configuration may name `../www`.
fn is_beneath(path: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    let mut folders = (0..path.len()).filter(|at| path[*at] == b'/').map(|at| path.split_at(at));
    folders.any(|(folder, below)| is_wanted(folder) && is_plain(without_slashes_before(below)))
}

fn is_plain(below: &[u8]) -> bool {
    below.split(|byte| *byte == b'/').all(|step| !matches!(step, b"" | b"." | b".."))
}

/// No program takes its settings from a request's fields, but for the one that it takes for its proxy.
fn is_field(name: &[u8]) -> bool {
    name.starts_with(b"HTTP_") && name != b"HTTP_PROXY"
}

#[cfg(test)]
mod tests {
    use script::environment::{Additions, Credentials as OfRequests};
    use site::host::Hosts;
    use site::model::NamedRoot;
    use site::route::{Pattern, Routes};

    use super::*;

    const SHELL: &CStr = c"/bin/sh";

    fn rules() -> AccountRules {
        let mut environment = Additions::default();
        for (name, value) in [("PATH", "/usr/bin:/bin"), ("LD_LIBRARY_PATH", "/opt/lib")] {
            environment.add(name, value.as_bytes()).expect("it can be set");
        }
        let interpreter = Some(Interpreter::Program("/usr/bin/php-cgi".into()));
        let script = Script { interpreter, environment, ..of_any_account() };
        let mut rules = AccountRules::default();
        rules.add_folder(&host(None), &route("/srv/app/"));
        rules.add_folder(&host(None), &route("/srv/cgi-bin"));
        rules.add_folder(&host(None), &route("/srv/./x/../own//"));
        let folder = HostFolder::parse("/srv/vhosts/$host/htdocs", Path::new("/")).unwrap().unwrap();
        let of_host = Action::NamedFiles(NamedRoot::OfHost);
        rules.add_folder(&host(Some(Arc::new(folder))), &Route::new(Pattern::EVERYTHING, of_host));
        rules.add(&script);
        rules
    }

    fn host(folder: Option<Arc<HostFolder>>) -> Host {
        Host { folder, ..Site::folder("/".into(), Vec::new()).hosts[0].clone() }
    }

    fn route(root: &str) -> Route {
        Route::new(Pattern::EVERYTHING, Action::Files { root: root.into(), strip: 0 })
    }

    #[test]
    fn listings_are_of_folders_of_their_routes() {
        let program = Some(Interpreter::Program("/usr/lib/boa_indexer".into()));
        let lister = Script { interpreter: program, ..of_any_account() };
        let mut rules = AccountRules::default();
        rules.add_lister(&route("/srv/www/"), &lister);
        for (program, arguments, expected) in [
            (c"/usr/lib/boa_indexer", &b"x\0/srv/www/\0/\0"[..], true),
            (c"/usr/lib/boa_indexer", b"x\0/srv/www/a/b/\0/a/b/\0", true),
            (c"/usr/lib/boa_indexer", b"x\0/srv/www\0/\0", false),
            (c"/usr/lib/boa_indexer", b"x\0/srv/\0/\0", false),
            (c"/usr/lib/boa_indexer", b"x\0/srv/wwwx/\0/\0", false),
            (c"/usr/lib/boa_indexer", b"x\0/srv/www/../etc/\0/\0", false),
            (c"/usr/lib/boa_indexer", b"x\0/srv/www/\0-title\0", false),
            (c"/usr/lib/boa_indexer", b"x\0/srv/www/\0/\0-more\0", false),
            (c"/usr/lib/boa_indexer", b"x\0/srv/www/\0", false),
            (c"/bin/sh", b"x\0/srv/www/\0/\0", false),
            // Its files are no scripts.
            (c"/srv/www/a.cgi", b"x\0", false),
        ] {
            let environment = &b""[..];
            let request = SpawnRequest { program, folder: c"/", account: c"", arguments, environment };
            assert_eq!(rules.permits(&request), expected, "{request:?}");
        }
        let (program, arguments) = (c"/usr/lib/boa_indexer", &b"x\0/srv/www/\0/\0"[..]);
        let environment = &b"LD_PRELOAD=/tmp/x\0"[..];
        let request = SpawnRequest { program, folder: c"/", account: c"", arguments, environment };
        assert!(!rules.permits(&request));
    }

    #[track_caller]
    fn check(program: &CStr, arguments: &[u8], environment: &[u8], expected: bool) {
        let request = SpawnRequest { program, folder: c"/", account: c"", arguments, environment };
        assert_eq!(rules().permits(&request), expected, "{request:?}");
    }

    #[test]
    fn programs_are_scripts_of_the_site_or_run_one() {
        for (program, expected) in [
            (c"/srv/cgi-bin/a", true),
            (c"/srv/cgi-bin//a", true),
            (c"/srv/./x/../own/a", true),
            (c"/srv/./x/../own/../a", false),
            (c"/srv/own/a", false),
            (c"/srv/cgi-bin/deep/er/a.cgi", true),
            (c"/srv/app/a", true),
            (SHELL, false),
            (c"/srv/cgi-bin", false),
            (c"/srv/cgi-bin/", false),
            (c"/srv/cgi-binary/a", false),
            (c"/srv/cgi-bin/../../bin/sh", false),
            (c"/srv/cgi-bin/./a", false),
            (c"/srv/cgi-bin//../a", false),
            (c"/srv/cgi-bin/deep//a", false),
            (c"/srv//cgi-bin/a", false),
            (c"srv/cgi-bin/a", false),
            (c"/srv/vhosts/a.example/htdocs/a.cgi", true),
            (c"/srv/vhosts/a.example/private/a.cgi", false),
            (c"/srv/vhosts/a.example/htdocs", false),
            (c"/srv/vhosts/../htdocs/a.cgi", false),
            (c"/srv/vhosts/a.example/htdocs/../../b/a.cgi", false),
            (c"/srv/vhosts/a.cgi", false),
            (c"/", false),
            (c"", false),
        ] {
            check(program, b"a\0", b"", expected);
        }
        for (arguments, expected) in [
            (b"php-cgi\0/srv/app/index.php\0" as &[u8], true),
            (b"php-cgi\0/srv/cgi-bin/index.php\0", true),
            (b"php-cgi\0/tmp/index.php\0", false),
            (b"php-cgi\0/srv/app/../index.php\0", false),
            (b"php-cgi\0-r\0/srv/app/index.php\0", false),
            (b"php-cgi\0", false),
            (b"", false),
        ] {
            check(c"/usr/bin/php-cgi", arguments, b"", expected);
        }
    }

    #[test]
    fn variables_are_those_of_a_request_or_as_configured() {
        for (environment, expected) in [
            (b"" as &[u8], true),
            (b"REQUEST_METHOD=GET\0HTTP_USER_AGENT=LD_PRELOAD=x\0PATH_INFO=/a=b\0", true),
            (b"PATH=/usr/bin:/bin\0LD_LIBRARY_PATH=/opt/lib\0", true),
            (b"SCRIPT_FILENAME=/srv/app/a.php\0", true),
            (b"SCRIPT_FILENAME=/tmp/a.php\0", false),
            (b"SCRIPT_FILENAME=\0", false),
            (b"HTTP_PROXY=http://127.0.0.1\0", false),
            (b"PATH=/tmp\0", false),
            (b"LD_LIBRARY_PATH=/opt/lib2\0", false),
            (b"LD_PRELOAD=/proc/self/fd/0\0", false),
            (b"REQUEST_METHOD=GET\0BASH_ENV=/tmp/x\0", false),
            (b"PHP_INI_SCAN_DIR=/tmp\0", false),
            (b"REQUEST_METHOD\0", false),
            (b"=\0", false),
            (b"\0", false),
        ] {
            check(c"/srv/cgi-bin/a", b"a\0", environment, expected);
        }
    }

    #[test]
    fn a_site_of_scripts_at_the_top_has_all_paths() {
        let mut rules = AccountRules::default();
        rules.add_folder(&host(None), &route("/"));
        assert!(rules.permits(&shell(c"")));
    }

    #[test]
    fn a_program_is_started_as_an_account_that_the_site_names_for_it_only() {
        let mut site = Site::folder("/".into(), Vec::new());
        let named = |user: &str| Some(Account { user: user.to_owned(), group: None });
        let route = |root: &str, account| Route {
            script: Some(Box::new(Script { account, ..of_any_account() })),
            ..self::route(root)
        };
        let host = |root: &str, account| {
            let mut host = site.hosts[0].clone();
            host.routes = Routes::only(route(root, account));
            host
        };
        let hosts = [host("/bin", named("shell")), host("/srv", named("other")), host("/own", None)];
        for (host, expected) in hosts.into_iter().zip([[true, false, false], [false; 3], [false; 3]]) {
            site.hosts = Hosts::only(host);
            let allowlist = Allowlist::of(&site, |_| None);
            let started =
                [c"shell", c"other", c""].map(|name| allowlist.credentials_for(&shell(name)).is_ok());
            assert_eq!(started, expected);
        }
    }

    fn of_any_account() -> Script {
        let (environment, credentials) = (Additions::default(), OfRequests::Withheld);
        Script {
            interpreter: None,
            environment,
            credentials,
            remote_host: Default::default(),
            processes: 1,
            account: None,
            forwarding: Default::default(),
            buffering: Default::default(),
        }
    }

    fn shell(account: &CStr) -> SpawnRequest<'_> {
        SpawnRequest { program: SHELL, folder: c"/", account, arguments: b"sh\0", environment: b"" }
    }
}
