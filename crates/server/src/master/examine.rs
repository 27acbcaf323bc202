//! What would prevent a site from being served, as far as it can be found out without serving it: `taipan check` prints
//! it, and so does a start or a reload that has failed, which meets only the first problem. Changes nothing.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use nix::sys::wait::waitpid;
use nix::unistd::geteuid;
use rustix::fs::{Access, AtFlags, CWD, access, accessat};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use site::config::{MAX_ERRORS, Places};
use site::endpoint::EndpointAddress;
use site::listener::Listener;
use site::memory;
use site::model::{Account, Interpreter, Sandbox, Sink, Site};
use site::upstream::Upstream;

use super::Master;
use super::change::Cause;
use super::sockets::{self, ListenError};
use crate::cache::disk::folder::Folder;
use crate::files::roots::OpenRoots;
use crate::finding::{Finding, Severity};
use crate::process::privilege::Identity;
use crate::process::privileged_file::{self, LogProblem};
use crate::process::{forked, privilege, sandbox};
use crate::spawner::cgroup;
use crate::tls::material::{Keys, Reading};
use crate::tls::{ClientReading, Material, TicketSecrets};
use crate::{acme, clock, log, start};

/// How long a start or a reload that has failed looks for other problems.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is known of a site.
pub struct Examination {
    pub findings: Vec<Finding>,
    /// The roots whose disks hang.
    pub silent: Vec<PathBuf>,
    pub material: Option<Material>,
}

/// Why the descriptors that are allowed do not suffice.
pub fn too_few_descriptors(site: &Site, workers: usize, allowed: u64) -> Option<String> {
    let least = memory::least_descriptors(site, workers);
    (allowed < least).then(|| {
        format!(
            "{allowed} descriptors are allowed (`ulimit -Hn`, LimitNOFILE), but this configuration needs {least} with \
             workers = {workers}; raise the limit, or lower `workers`"
        )
    })
}

/// Examines a site. `address` says what it means that the program cannot listen on an address. To be called while there
/// is only one thread: child processes examine what the account that serves can reach.
pub fn examine(site: &Site, address: impl Fn(&Listener, ListenError) -> Option<Finding>) -> Examination {
    let (own, identity) = own_account(site);
    let (roots, silent) = roots(site, identity.as_ref());
    let mut all = own;
    let unable = |listener| address(listener, sockets::listen_problem(listener)?);
    all.extend(site.listeners.iter().filter_map(unable));
    all.extend(roots);
    all.extend(written_files(site));
    all.extend(cache_folder(site, identity.as_ref()));
    all.extend(published_roots(site, identity.as_ref()));
    all.extend(spool(site));
    all.extend(interpreters(site));
    all.extend(commands(site));
    all.extend(sockets_of_applications(site, identity.as_ref()));
    all.extend(log_commands(site));
    all.extend(accounts(site));
    all.extend(cgroup::problem(&site.scripts).map(|why| {
        let folder = site.scripts.cgroups.as_ref().and_then(|cgroups| cgroups.folder.clone());
        Finding::error(&["cgroup"], folder.unwrap_or_default(), why)
    }));
    all.extend(orders(site));
    all.extend(chroot(site));
    all.extend(sandbox_in_force(site));
    let Reading { material, problems, .. } = Material::read(site, Keys::Read, clock::wall());
    all.extend(problems);
    all.extend(ClientReading::read(site).problems);
    all.extend(ticket_keys(site));
    Examination { findings: all, silent, material }
}

/// Findings in the order of the file, those without a place first; each once, and at most [`MAX_ERRORS`]. The second
/// number says how many there are beyond.
pub fn in_order(findings: impl IntoIterator<Item = Finding>, places: &Places) -> (Vec<Finding>, usize) {
    let mut found: Vec<Finding> = Vec::new();
    for finding in findings {
        if !found.contains(&finding) {
            found.push(finding);
        }
    }
    let place = |finding: &Finding| {
        places.of(finding.keys, &finding.value).map(|place| (place.file.clone(), place.line))
    };
    sort::by_key(&mut found, place);
    let beyond = found.len().saturating_sub(MAX_ERRORS);
    found.truncate(MAX_ERRORS);
    (found, beyond)
}

impl Master {
    /// All that can be found of why a site is not served, where a start or a reload has met `lines`. The clients of
    /// `cause` wait for the end of each process that has a copy of their sockets, so that the child closes them.
    pub(super) fn all_problems(&mut self, lines: Vec<String>, cause: &mut Cause) -> Vec<String> {
        let examine = || {
            *cause = Cause::Crash;
            let has_control = self.control.is_some();
            let held = std::mem::take(&mut self.sockets);
            self.release_in_child(None);
            let Ok((site, places)) = start::site_with_places(&self.options) else { return String::new() };
            let address = |listener: &Listener, problem: ListenError| {
                let is_none = problem.is_in_use() && held.holds(&listener.address)
                    || problem.leaves_it_out(&site.listeners);
                let text = || self.why_not_listening(problem, has_control);
                (!is_none).then(|| Finding::error(&["listen"], listener.to_string(), text()))
            };
            let Examination { findings, .. } = examine(&site, address);
            completed(&lines, findings, &places).join("\n")
        };
        // The disk of a file that is named may hang.
        match forked::answer_within(TIMEOUT, examine) {
            Ok(text) if !text.is_empty() => text.lines().map(str::to_owned).collect(),
            Ok(_) | Err(_) => lines,
        }
    }
}

/// The lines that were met, with the places of their findings, and the other errors. A problem that was met and found
/// has one text, because one function says it.
fn completed(lines: &[String], findings: Vec<Finding>, places: &Places) -> Vec<String> {
    let is_met = |finding: &Finding| lines.contains(&finding.text);
    let is_found = |line: &&String| findings.iter().any(|finding| finding.text == **line);
    let mut all: Vec<String> = lines.iter().filter(|line| !is_found(line)).cloned().collect();
    let is_shown = |finding: &Finding| finding.severity == Severity::Error || is_met(finding);
    let (shown, beyond) = in_order(findings.into_iter().filter(|finding| is_shown(finding)), places);
    all.extend(shown.iter().map(|finding| match places.of(finding.keys, &finding.value) {
        Some(place) => format!("{place}: {}", finding.text),
        None => finding.text.clone(),
    }));
    if beyond > 0 {
        all.push(format!("{beyond} more such lines; taipan check says more when these are fixed"));
    }
    all
}

/// The file of the keys of session tickets.
fn ticket_keys(site: &Site) -> Option<Finding> {
    const KEY: &[&str] = &["ticket_key_file"];
    let path = site.tls.tickets.as_ref()?.key_file.as_ref()?;
    if let Err(why) = TicketSecrets::of(site, None) {
        return Some(Finding::error(KEY, path, why));
    }
    let is_open = fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0);
    is_open.then(|| {
        let text = "every user can read the keys of session tickets in";
        Finding::warning(KEY, path, format!("{text} {0}; run: chmod o-rwx '{0}'", path.display()))
    })
}

/// The problems of the account that serves, and its identity. Root may start a server that another user checks.
fn own_account(site: &Site) -> (Vec<Finding>, Option<Identity>) {
    let keys: &[&str] = match (&site.user, &site.group) {
        (Some(user), Some(_)) => {
            // A group number is always valid.
            let with_any_group = Account { user: user.clone(), group: Some("0".to_owned()) };
            if privilege::user_of(&with_any_group).is_ok() { &["group"] } else { &["user"] }
        }
        (Some(_), None) => &["user"],
        (None, _) => &["group"],
    };
    let value = match keys {
        ["user"] => site.user.clone(),
        _ => site.group.clone(),
    };
    let value = value.unwrap_or_default();
    let named = site.user.clone().map(|user| Account { user, group: site.group.clone() });
    if let Some(Err(why)) = named.as_ref().map(privilege::user_of) {
        return (vec![Finding::error(keys, value, why)], None);
    }
    match Identity::of(site) {
        Ok(identity) => (Vec::new(), identity),
        Err(why) if site.user.is_none() && (site.group.is_some() || geteuid().is_root()) => {
            (vec![Finding::error(keys, value, why)], None)
        }
        // Root may start the server.
        Err(why) => (vec![Finding::warning(keys, value, why)], None),
    }
}

/// The roots that are not folders or that the account cannot reach, and those whose disks hang.
fn roots(site: &Site, identity: Option<&Identity>) -> (Vec<Finding>, Vec<PathBuf>) {
    let all: Vec<PathBuf> = site.roots().into_iter().map(Path::to_owned).collect();
    let examine = || {
        let site = become_account(site, identity);
        let names: Vec<PathBuf> = site.roots().into_iter().map(Path::to_owned).collect();
        let number = |path: &Path| names.iter().position(|name| name == path).unwrap_or(usize::MAX);
        let roots = OpenRoots::of(&site);
        let mut report = String::new();
        for (path, why) in roots.problems() {
            _ = writeln!(report, "{} {}", number(path), why.replace('\n', " "));
        }
        for path in roots.unresponsive() {
            _ = writeln!(report, "{}", number(path));
        }
        report
    };
    let (child, report) = match forked::answer(examine) {
        Ok(examined) => examined,
        Err(error) => {
            return (vec![Finding::error(&[], "", format!("cannot examine the roots: {error}"))], Vec::new());
        }
    };
    let (mut findings, mut silent) = (Vec::new(), Vec::new());
    for line in report.lines() {
        let (number, why) = line.split_once(' ').unwrap_or((line, ""));
        let Some(root) = number.parse().ok().and_then(|number: usize| all.get(number)) else { continue };
        match why {
            "" => silent.push(root.clone()),
            why => findings.push(Finding::error(&["root", "alias", "sendfile"], root, why)),
        }
    }
    // A disk that hangs delays the end of the child, which is then not waited for.
    if silent.is_empty() {
        _ = waitpid(child, None);
    }
    (findings, silent)
}

/// What is wrong with the folder of the cache, for the account that serves. Changes nothing.
fn cache_folder(site: &Site, identity: Option<&Identity>) -> Option<Finding> {
    let folder = site.cache_files.as_ref().map(|files| files.folder.clone())?;
    let examine = || {
        let site = become_account(site, identity);
        let folder = site.cache_files.map(|files| files.folder).unwrap_or_default();
        Folder::examine(&folder).err().unwrap_or_default()
    };
    let why = match forked::answer(examine) {
        Ok((child, why)) => {
            _ = waitpid(child, None);
            why
        }
        Err(error) => format!("cannot examine the folder of the cache: {error}"),
    };
    (!why.is_empty()).then(|| Finding::error(&["folder"], folder, why))
}

/// The folder of the spool, if it is missing. In a chroot, `lacks` looks for it.
fn spool(site: &Site) -> Option<Finding> {
    let folder = &site.scripts.spool;
    let is_missing = site.has_scripts() && site.chroot.is_none() && !folder.is_dir();
    let what = format!("there is no folder {}, so that bodies of unknown length get 503", folder.display());
    is_missing.then(|| Finding::warning(&["spool"], folder, what + "; make it, or set `spool` in [scripts]"))
}

/// The roots in which clients publish, and the account that serves may not write. Changes nothing.
fn published_roots(site: &Site, identity: Option<&Identity>) -> Vec<Finding> {
    let all: Vec<PathBuf> = site.published_roots().into_iter().map(Path::to_owned).collect();
    let examine = || {
        let site = become_account(site, identity);
        let mut report = String::new();
        for (number, root) in site.published_roots().into_iter().enumerate() {
            let writable = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
            // A root that is missing, or no folder, is reported elsewhere.
            if root.is_dir() && accessat(CWD, root, writable, AtFlags::EACCESS).is_err() {
                _ = writeln!(report, "{number} {}", privilege::user_text(geteuid().as_raw()));
            }
        }
        report
    };
    if all.is_empty() {
        return Vec::new();
    }
    let Ok((child, report)) = forked::answer(examine) else { return Vec::new() };
    _ = waitpid(child, None);
    let finding = |line: &str| {
        let (number, user) = line.split_once(' ')?;
        let root = all.get(number.parse::<usize>().ok()?)?;
        let text = format!(
            "clients publish in {}, where {user} may not write; change its owner, or its permissions",
            root.display()
        );
        Some(Finding::error(&["root", "alias"], root, text))
    };
    report.lines().filter_map(finding).collect()
}

/// The Unix sockets to which the account that serves cannot connect. Only a warning: the application may begin later.
/// Changes nothing.
fn sockets_of_applications(site: &Site, identity: Option<&Identity>) -> Vec<Finding> {
    let all = sockets_of_upstreams(site);
    let is_certain = is_account_certain(site);
    let examine = || {
        let inside = become_account(site, identity);
        let mut report = String::new();
        for (number, path) in sockets_of_upstreams(&inside).into_iter().enumerate() {
            let why = socket_problem(path, is_certain, all[number]);
            _ = why.map(|why| writeln!(report, "{number} {}", why.replace('\n', " ")));
        }
        report
    };
    if all.is_empty() {
        return Vec::new();
    }
    let Ok((child, report)) = forked::answer(examine) else { return Vec::new() };
    _ = waitpid(child, None);
    let own = site.listeners.iter().filter_map(|listener| absolute(listener.address.unix_path()?).ok());
    let own: Vec<PathBuf> = own.collect();
    let finding = |line: &str| {
        let (number, why) = line.split_once(' ')?;
        let path = *all.get(number.parse::<usize>().ok()?)?;
        // One that this program makes is there later.
        let is_own = absolute(path).is_ok_and(|path| own.contains(&path));
        (!is_own).then(|| Finding::warning(&["address", "proxy"], path, why))
    };
    report.lines().filter_map(finding).collect()
}

/// In the order of the site.
fn sockets_of_upstreams(site: &Site) -> Vec<&Path> {
    let addresses = site.upstreams.iter().flat_map(Upstream::addresses);
    addresses.filter_map(EndpointAddress::socket_path).collect()
}

/// Why this account cannot connect to the socket at `path`, which is `shown` outside of the chroot. `is_certain`: this
/// is the account that serves.
fn socket_problem(path: &Path, is_certain: bool, shown: &Path) -> Option<String> {
    let shown = shown.display();
    let error = match fs::metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Some(format!(
                "{shown} is no socket, so that requests get 502; name that of the application"
            ));
        }
        Ok(_) => accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).err()?.into(),
        Err(error) => error,
    };
    match error.kind() {
        io::ErrorKind::NotFound => Some(format!(
            "there is no socket {shown}, so that requests get 502; start the application, or name the path at which \
             it listens"
        )),
        io::ErrorKind::PermissionDenied if is_certain => Some(format!(
            "{} may not open the socket {shown}, so that requests get 502; add that user to the group of the socket",
            privilege::user_text(geteuid().as_raw())
        )),
        _ => None,
    }
}

/// In a child: has the chroot and the account that serves. The site as that account sees it.
fn become_account(site: &Site, identity: Option<&Identity>) -> Site {
    // The child may hang on a disk and must not keep the caller's pipes open.
    close_streams();
    let mut site = site.clone();
    // `chroot` reports problems with the folder.
    if let (Some(chroot), true) = (&site.chroot.clone(), geteuid().is_root())
        && privilege::chroot(chroot, identity).is_ok()
    {
        site.enter(chroot);
    }
    // If that fails, the child examines as the present user.
    _ = identity.map(|identity| identity.assume());
    site
}

/// Replaces the standard streams by /dev/null.
fn close_streams() {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        // If it fails, the caller waits for the end of the child.
        _ = dup2_stdin(&nothing).and_then(|()| dup2_stdout(&nothing)).and_then(|()| dup2_stderr(&nothing));
    }
}

/// Whether this user can become the account that serves.
fn is_account_certain(site: &Site) -> bool {
    geteuid().is_root() || site.user.is_none() || Identity::of(site).is_ok()
}

/// The logs and the pid file that could not be written. Only a warning if this user cannot tell what root may write.
fn written_files(site: &Site) -> Vec<Finding> {
    let severity = if is_account_certain(site) { Severity::Error } else { Severity::Warning };
    let logs = memory::logs(site).into_iter().filter_map(|path| {
        let (severity, why) = match privileged_file::log_problem(path)? {
            LogProblem::Refused(why) => (severity, why),
            LogProblem::Unread(why) => (Severity::Warning, why),
        };
        Some(Finding { severity, ..Finding::error(&["access", "error", "access_log"], path, why) })
    });
    let pid_file = site.pid_file.iter().filter_map(|path| {
        let why = privileged_file::pid_file_problem(path)?;
        Some(Finding { severity, ..Finding::error(&["pid_file"], path, why) })
    });
    logs.chain(pid_file).collect()
}

/// What would prevent orders of certificates. The server may be started by another user, with more rights.
fn orders(site: &Site) -> Vec<Finding> {
    let mut problems = acme::problems(site);
    if !geteuid().is_root() {
        problems.iter_mut().for_each(|problem| problem.severity = Severity::Warning);
    }
    problems
}

fn chroot(site: &Site) -> Option<Finding> {
    let folder = site.chroot.as_ref()?;
    Some(Finding::error(&["chroot"], folder, privilege::chroot_problem(folder)?))
}

fn sandbox_in_force(site: &Site) -> Option<Finding> {
    match site.sandbox {
        Sandbox::Required => Some(Finding::error(&["sandbox"], "required", sandbox::available().problem()?)),
        Sandbox::On | Sandbox::Off => None,
    }
}

/// The interpreters that cannot be executed. Otherwise, the first request would find out.
fn interpreters(site: &Site) -> Vec<Finding> {
    let routes = site.hosts.iter().flat_map(|host| host.routes.iter());
    let scripts = routes.flat_map(|route| [&route.script, &route.lister]);
    let all: BTreeSet<&Path> =
        scripts.filter_map(|script| program(script.as_ref()?.interpreter.as_ref()?)).collect();
    let problem = |path: &Path| {
        let error = access(path, Access::EXEC_OK).err()?;
        let text = format!("the interpreter {} cannot be executed ({error}); install it", path.display());
        Some(Finding::error(&["interpreter", "listing_program"], path, text))
    };
    all.into_iter().filter_map(problem).collect()
}

fn program(interpreter: &Interpreter) -> Option<&Path> {
    match interpreter {
        Interpreter::Program(path) => Some(path),
        Interpreter::Upstream(_) => None,
    }
}

/// The applications whose program cannot be executed.
fn commands(site: &Site) -> Vec<Finding> {
    let problem = |application: &Upstream| {
        let program = application.managed()?.command.first()?;
        let error = access(program.as_str(), Access::EXEC_OK).err()?;
        let name = &application.name;
        let what_to_do = match program.split_once(' ') {
            Some((own, _)) if access(own, Access::EXEC_OK).is_ok() => {
                "write its arguments as strings of their own"
            }
            _ => "install it",
        };
        let text =
            format!("the command of \"{name}\", {program}, cannot be executed ({error}); {what_to_do}");
        Some(Finding::error(&["command"], program, text))
    };
    site.upstreams.iter().filter_map(problem).collect()
}

/// The commands of logs that cannot be executed.
fn log_commands(site: &Site) -> Vec<Finding> {
    let problem = |sink: &Sink| {
        let Sink::Command(words) = sink else { return None };
        let why = log::command_problem(words)?;
        Some(Finding::error(&["access", "error", "access_log"], &words[0], why))
    };
    site.sinks().into_iter().filter_map(problem).collect()
}

/// The accounts of scripts and applications that do not exist.
fn accounts(site: &Site) -> Vec<Finding> {
    let of_routes = site.program_routes().filter_map(|(route, script)| {
        let account = script.account.as_ref()?;
        let why = privilege::user_of(account).err()?;
        let text = format!("scripts of the route {}: {why}", route.name());
        Some(Finding::error(&["user"], &account.user, text))
    });
    let of_applications = site.upstreams.iter().filter_map(|application| {
        let account = application.managed()?.account.as_ref()?;
        let why = privilege::user_of(account).err()?;
        Some(Finding::error(&["user"], &account.user, format!("{}: {why}", application.label())))
    });
    of_routes.chain(of_applications).collect()
}
