//! `taipan check`: is a configuration valid, would a start succeed, and what do its limits add up to?

mod resources;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::unistd::geteuid;
use rustix::fs::{Access, AtFlags, CWD, access, accessat};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use site::config::{Configuration, Places};
use site::listener::Listener;
use site::memory;
use site::model::{Account, Action, Interpreter, Sandbox, Script, Sink, Site};
use site::published::Expiry;
use site::upstream::Upstream;

use crate::cache::disk::folder::Folder;
use crate::cli::{first_line, jail, oversights};
use crate::control::SiteSource;
use crate::files::roots::OpenRoots;
use crate::finding::{Finding, Severity};
use crate::master::sockets;
use crate::process::privilege::Identity;
use crate::process::{privilege, privileged_file, sandbox};
use crate::spawner::cgroup;
use crate::tls::material::{Keys, Reading};
use crate::tls::{ClientReading, Material, TicketSecrets};
use crate::{acme, clock, config, control, log, start, terminal, tls};

/// `config` is the file of the command line, for a finding without a position.
fn show(finding: &Finding, config: &Path, places: &Places) {
    let place = places.of(finding.keys, &finding.value);
    let place = place.map_or_else(|| config.display().to_string(), ToString::to_string);
    let severity = match finding.severity {
        Severity::Error => "",
        Severity::Warning => "warning: ",
    };
    terminal::err(format_args!("{place}: {severity}{}", finding.text));
}

/// The file of the keys of session tickets.
fn ticket_keys(site: &Site) -> Option<Finding> {
    let path = site.tls.tickets.as_ref()?.key_file.as_ref()?;
    let why = TicketSecrets::of(site, None).err()?;
    Some(Finding::error(&["ticket_key_file"], path, why))
}

/// `taipan check`: prints the problems, or what the limits add up to.
pub fn check(source: &SiteSource) -> ExitCode {
    let path = &*source.path();
    let Configuration { mut site, warnings, places } = match config::read_source(source) {
        Ok(configuration) => configuration,
        Err(errors) => {
            errors.iter().for_each(|e| terminal::err(format_args!("{e}")));
            return ExitCode::FAILURE;
        }
    };
    start::choose_account(&mut site);
    for warning in warnings {
        let place = warning.line.map_or_else(String::new, |line| format!("{line}:"));
        let file = warning.file.display();
        terminal::err(format_args!("{file}:{place} warning: {}; {}", warning.what, warning.what_to_do));
    }
    // Before there is a second thread: a child process examines the roots.
    let (mut findings, silent) = findings(source, &site);
    let Reading { material, problems, .. } = Material::read(&site, Keys::Read, clock::wall());
    findings.extend(problems);
    findings.extend(ClientReading::read(&site).problems);
    findings.extend(ticket_keys(&site));
    let unable = tls::kernel_ciphers(&site).err();
    findings.extend(unable.map(|why| Finding::warning(&["kernel"], "", why)));
    let place = |finding: &Finding| {
        places.of(finding.keys, &finding.value).map(|place| (place.file.clone(), place.line))
    };
    sort::by_key(&mut findings, place);
    findings.iter().for_each(|finding| show(finding, path, &places));
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return ExitCode::FAILURE;
    }
    terminal::out(format_args!("{}: the configuration is good", path.display()));
    for root in silent {
        terminal::out(format_args!("  but the root {} does not respond", root.display()));
    }
    for program in with_the_account_of_the_server(&site) {
        terminal::out(format_args!(
            "  but {program} run as the server's own account, and could kill its processes; give them a `user`"
        ));
    }
    material
        .iter()
        .flat_map(|material| material.lines(clock::wall()))
        .for_each(|line| terminal::out(format_args!("{line}")));
    resources::print(&site);
    terminal::out(format_args!("\nSandbox: {}", sandbox::available()));
    if let Some(tracing) = &site.tracing {
        terminal::out(format_args!("\nTraces: {tracing}"));
    }
    ExitCode::SUCCESS
}

/// The problems that a start would meet, and the roots whose disks hang.
fn findings(source: &SiteSource, site: &Site) -> (Vec<Finding>, Vec<PathBuf>) {
    let (own, identity) = own_account(site);
    let (roots, silent) = roots(site, identity.as_ref());
    let mut all = own;
    all.extend(addresses(source, site));
    all.extend(roots);
    all.extend(written_files(site));
    all.extend(cache_folder(site, identity.as_ref()));
    all.extend(published_roots(site, identity.as_ref()));
    all.extend(interpreters(site));
    all.extend(commands(site));
    all.extend(first_lines(site));
    all.extend(log_commands(site));
    all.extend(accounts(site));
    all.extend(cgroup::problem(&site.scripts).map(|why| {
        let folder = site.scripts.cgroups.as_ref().and_then(|cgroups| cgroups.folder.clone());
        Finding::error(&["cgroup"], folder.unwrap_or_default(), why)
    }));
    all.extend(orders(site));
    all.extend(chroot(site));
    all.extend(lacks(site));
    all.extend(published_texts(site));
    all.extend(sandbox_in_force(site));
    all.extend(oversights::findings(site, &silent));
    (all, silent)
}

/// The problems of the account that serves, and its identity. Another user than that of the check may start the server.
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
        Err(why) if site.user.is_none() && site.group.is_some() => {
            (vec![Finding::error(keys, value, why)], None)
        }
        // Another user, or root, may start the server.
        Err(why) => (vec![Finding::warning(keys, value, why)], None),
    }
}

/// The addresses that the server cannot listen on.
fn addresses(source: &SiteSource, site: &Site) -> Vec<Finding> {
    if site.listeners.is_empty() {
        let text =
            "there is no address to listen on; the program needs inherited sockets, as from a socket unit";
        return vec![Finding::warning(&["listen"], "", text)];
    }
    let is_running = control::is_served(source);
    let finding = |listener: &Listener| {
        let problem = sockets::listen_problem(&listener.address)?;
        if problem.is_in_use() && is_running {
            return None;
        }
        let later = problem.is_in_use()
            || problem.is_denied() && !geteuid().is_root()
            || problem.leaves_it_out(&site.listeners);
        let severity = if later { Severity::Warning } else { Severity::Error };
        Some(Finding { severity, ..Finding::error(&["listen"], listener.to_string(), problem.to_string()) })
    };
    site.listeners.iter().filter_map(finding).collect()
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
    // The child is not reaped: a disk that hangs may delay its end.
    let report = match privilege::run_in_child(examine) {
        Ok((_, report)) => report,
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
    // The child is not reaped: a disk that hangs may delay its end.
    let why = match privilege::run_in_child(examine) {
        Ok((_, why)) => why,
        Err(error) => format!("cannot examine the folder of the cache: {error}"),
    };
    (!why.is_empty()).then(|| Finding::error(&["folder"], folder, why))
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
    // The child is not reaped: a disk that hangs may delay its end.
    let Ok((_, report)) = privilege::run_in_child(examine) else { return Vec::new() };
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

/// In a child: has the chroot and the account that serves. The site as that account sees it.
fn become_account(site: &Site, identity: Option<&Identity>) -> Site {
    // The child may hang on a disk and must not keep the caller's pipes open.
    close_streams();
    let mut site = site.clone();
    // `chroot` reports problems with the folder.
    if let (Some(chroot), true) = (&site.chroot.clone(), geteuid().is_root())
        && privilege::chroot(chroot).is_ok()
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

/// The logs and the pid file that could not be written. Only a warning if this user cannot tell what root may write.
fn written_files(site: &Site) -> Vec<Finding> {
    let is_certain = geteuid().is_root() || site.user.is_none() || Identity::of(site).is_ok();
    let severity = if is_certain { Severity::Error } else { Severity::Warning };
    let logs = memory::logs(site).into_iter().filter_map(|path| {
        let why = privileged_file::log_problem(path)?;
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
    let severity = if geteuid().is_root() { Severity::Error } else { Severity::Warning };
    let finding =
        |acme::Problem { keys, value, text }| Finding { severity, ..Finding::error(keys, value, text) };
    acme::problems(site).into_iter().map(finding).collect()
}

/// Seconds from now to the latest end of a security.txt: a year.
const TOO_LATE: i64 = 366 * 86_400;

/// Texts that have expired, or that expire so late that readers do not trust them (RFC 9116 §2.5.5).
fn published_texts(site: &Site) -> Vec<Finding> {
    let routes = site.hosts.iter().flat_map(|host| host.routes.iter());
    let texts = routes.filter_map(|route| match &route.action {
        Action::Publish(text) => text.expires.as_ref(),
        _ => None,
    });
    let mut all: Vec<&Expiry> = texts.collect();
    sort::by_key(&mut all, |expiry| expiry.time);
    all.dedup();
    let now = clock::wall();
    let finding = |Expiry { text, time }: &Expiry| {
        let what = match time - now {
            ..=0 => format!("security.txt has expired at {text}: check its contacts, and set another end"),
            1..=TOO_LATE => return None,
            _ => format!(
                "security.txt expires at {text}: readers trust it only if that is in less than a year"
            ),
        };
        Some(Finding::warning(&["expires"], text, what))
    };
    all.into_iter().filter_map(finding).collect()
}

fn chroot(site: &Site) -> Option<Finding> {
    let folder = site.chroot.as_ref().filter(|folder| !folder.is_dir())?;
    let text = format!("the chroot {} is not a folder; create it, or remove `chroot`", folder.display());
    Some(Finding::error(&["chroot"], folder, text))
}

/// What scripts and applications would not find in the chroot. Only a warning: a program may have other ways.
fn lacks(site: &Site) -> Vec<Finding> {
    let folder = site.chroot.clone().unwrap_or_default();
    let finding = |jail::Lack { path, needed_by }: jail::Lack| {
        let (shown, path) = (folder.display(), path.display());
        let text = format!("the chroot {shown} lacks {path}, for {needed_by}; copy or make it there");
        Finding::warning(&["chroot"], &folder, text)
    };
    jail::lacks(site).into_iter().map(finding).collect()
}

fn sandbox_in_force(site: &Site) -> Option<Finding> {
    let missing = match site.sandbox {
        Sandbox::Required => sandbox::available().missing,
        Sandbox::On | Sandbox::Off => return None,
    };
    let text = format!("the sandbox is required, but not all of it is available: {}", missing.join("; "));
    (!missing.is_empty()).then(|| Finding::error(&["sandbox"], "required", text))
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
        let text = format!("the command of \"{name}\", {program}, cannot be executed ({error}); install it");
        Some(Finding::error(&["command"], program, text))
    };
    site.upstreams.iter().filter_map(problem).collect()
}

/// The commands and scripts whose first line names a program that cannot be executed. Only a warning for a script,
/// which may be one that is never requested. With a chroot, `lacks` names what is missing in there.
fn first_lines(site: &Site) -> Vec<Finding> {
    if site.chroot.is_some() {
        return Vec::new();
    }
    let of_application = |application: &Upstream| {
        let managed = application.managed()?;
        let program = managed.command.first()?;
        let why = first_line::problem(Path::new(program), &managed.environment)?;
        let text = format!("{why}; it is the command of \"{}\"", application.name);
        Some(Finding::error(&["command"], program, text))
    };
    let of_script = |(path, script): (PathBuf, &Script)| {
        let why = first_line::problem(&path, &script.environment)?;
        Some(Finding::warning(&["cgi"], path, why))
    };
    let scripts = jail::scripts(site).into_iter().filter_map(of_script);
    site.upstreams.iter().filter_map(of_application).chain(scripts).collect()
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
        Some(Finding::error(&["user"], &account.user, format!("application \"{}\": {why}", application.name)))
    });
    of_routes.chain(of_applications).collect()
}

/// The scripts and applications that run as the account that serves.
fn with_the_account_of_the_server(site: &Site) -> Vec<String> {
    let user = |account: &Account| privilege::user_of(account).ok();
    let by_root = || privilege::own_account().filter(|_| geteuid().is_root()).map(str::to_owned);
    let own = match site.user.clone().or_else(by_root) {
        Some(own) => user(&Account { user: own, group: site.group.clone() }),
        None => Some(geteuid()),
    };
    let shares = |account: Option<&Account>| account.is_none_or(|account| user(account) == own);
    let of_routes = site.program_routes().filter(|(_, script)| shares(script.account.as_ref()));
    let of_applications = site
        .upstreams
        .iter()
        .filter(|application| application.managed().is_some_and(|managed| shares(managed.account.as_ref())));
    let scripts = of_routes.map(|(route, _)| format!("the scripts of the route {}", route.name()));
    let processes = of_applications
        .map(|application| format!("the processes of the application \"{}\"", application.name));
    let mut named = BTreeSet::new();
    // Several hosts may have routes of one name.
    scripts.chain(processes).filter(|program| named.insert(program.clone())).collect()
}
