//! `taipan check`: is a configuration good, and what do its limits add up to?

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use nix::unistd::geteuid;
use rustix::fs::{Access, access};
use site::application::Application;
use site::memory::{self, Use};
use site::model::{Account, Interpreter, Scripts, Site};

use crate::files::roots::OpenRoots;
use crate::runner::cgroup;
use crate::{config, privilege, sandbox, start, terminal};

/// `taipan check -c FILE`: says what is wrong, or what the limits add up to.
pub fn check(path: &Path) -> ExitCode {
    let site = match config::load(path) {
        Ok(site) => site,
        Err(errors) => {
            errors.iter().for_each(|e| terminal::err(format_args!("{e}")));
            return ExitCode::FAILURE;
        }
    };
    let roots = OpenRoots::of(&site);
    let cgroup = cgroup::problem(&site.scripts).into_iter().collect();
    let problems = [roots.problems(), interpreters(&site), commands(&site), accounts(&site), cgroup].concat();
    problems.iter().for_each(|p| terminal::err(format_args!("{}: {p}", path.display())));
    if !problems.is_empty() {
        return ExitCode::FAILURE;
    }
    let workers = start::workers(&site).get();
    terminal::out(format_args!("{}: the configuration is good", path.display()));
    for root in roots.silent() {
        terminal::out(format_args!("  but the root {} does not answer", root.display()));
    }
    for program in with_the_account_of_the_server(&site) {
        terminal::out(format_args!(
            "  but {program} run as the server's own account, and could end its processes; give them a `user`"
        ));
    }
    terminal::out(format_args!("\nMemory typically, but for scripts and applications (workers: {workers}):"));
    for line in memory::typical(&site, workers) {
        terminal::out(format_args!("  {:>10}  {}", bytes(line.bytes), line.when));
    }
    terminal::out(format_args!(
        "\nMemory at worst, if every connection does the most expensive thing at once:"
    ));
    print_uses(&memory::worst_case(&site, workers), bytes);
    let descriptors = memory::descriptors(&site, workers);
    terminal::out(format_args!("\nDescriptors at worst:"));
    print_uses(&descriptors, |n| n.to_string());
    tell_budget(&site, workers, memory::total(&descriptors));
    tell_spool(&site);
    terminal::out(format_args!("\nSandbox: {}", sandbox::available()));
    ExitCode::SUCCESS
}

/// Interpreters that cannot be executed: an oversight that the first request would meet.
fn interpreters(site: &Site) -> Vec<String> {
    let routes = site.hosts.iter().flat_map(|host| host.routes.iter());
    let all: BTreeSet<&Path> =
        routes.filter_map(|route| program(route.script.as_ref()?.interpreter.as_ref()?)).collect();
    let problem = |path: &Path| {
        let error = access(path, Access::EXEC_OK).err()?;
        Some(format!("the interpreter {} cannot be executed ({error}); install it", path.display()))
    };
    all.into_iter().filter_map(problem).collect()
}

fn program(interpreter: &Interpreter) -> Option<&Path> {
    match interpreter {
        Interpreter::Program(path) => Some(path),
        Interpreter::Application(_) => None,
    }
}

/// Applications whose program cannot be executed.
fn commands(site: &Site) -> Vec<String> {
    let problem = |application: &Application| {
        let program = application.managed()?.command.first()?;
        let error = access(program.as_str(), Access::EXEC_OK).err()?;
        let name = &application.name;
        Some(format!("the command of \"{name}\", {program}, cannot be executed ({error}); install it"))
    };
    site.applications.iter().filter_map(problem).collect()
}

/// Programs that run as accounts that are not there.
fn accounts(site: &Site) -> Vec<String> {
    let of_routes = site.program_routes().filter_map(|(route, script)| {
        let why = privilege::user_of(script.account.as_ref()?).err()?;
        Some(format!("scripts of the route {}: {why}", route.name()))
    });
    let of_applications = site.applications.iter().filter_map(|application| {
        let why = privilege::user_of(application.managed()?.account.as_ref()?).err()?;
        Some(format!("application \"{}\": {why}", application.name))
    });
    of_routes.chain(of_applications).collect()
}

/// What is started as the account that also serves.
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
        .applications
        .iter()
        .filter(|application| application.managed().is_some_and(|managed| shares(managed.account.as_ref())));
    let scripts = of_routes.map(|(route, _)| format!("the scripts of the route {}", route.name()));
    let processes = of_applications
        .map(|application| format!("the processes of the application \"{}\"", application.name));
    scripts.chain(processes).collect()
}

/// What there will be of each, where there are fewer descriptors than the limits add up to.
fn tell_budget(site: &Site, workers: usize, needed: u64) {
    let allowed = start::raise_descriptor_limit();
    if needed <= allowed {
        terminal::out(format_args!("  {allowed:>10}  allowed to this process"));
        return;
    }
    let mut fitted = site.clone();
    memory::fit(&mut fitted, workers, allowed);
    terminal::out(format_args!(
        "\nDescriptors as they will be shared out, for only {allowed} are allowed to this process:"
    ));
    print_uses(&memory::descriptors(&fitted, workers), |n| n.to_string());
    terminal::out(format_args!(
        "  Raise `ulimit -Hn` (LimitNOFILE in a unit), or lower `connections` in [limits]."
    ));
}

/// What bodies of unknown length take of a disk.
fn tell_spool(site: &Site) {
    if !site.has_scripts() {
        return;
    }
    let Scripts { spool, spool_bytes, .. } = &site.scripts;
    let (most, folder) = (bytes(*spool_bytes), spool.display());
    terminal::out(format_args!("\nDisk at worst:"));
    terminal::out(format_args!(
        "  {most:>10}  request bodies of unknown length, in {folder} (`spool_bytes`)"
    ));
    let routes = site.hosts.iter().flat_map(|host| host.routes.iter());
    for route in routes.filter(|route| route.script.is_some() && route.max_body > *spool_bytes) {
        let (name, body) = (route.name(), bytes(route.max_body));
        terminal::out(format_args!(
            "  but the route {name} takes bodies of {body}: those of unknown length are refused beyond {most}"
        ));
    }
}

fn print_uses(uses: &[Use], text: impl Fn(u64) -> String) {
    for line in uses.iter().filter(|line| line.sum() > 0) {
        terminal::out(format_args!(
            "  {:>10}  = {:>7} x {:>10}  {}",
            text(line.sum()),
            line.count,
            text(line.each),
            line.what
        ));
    }
    terminal::out(format_args!("  {:>10}  in all", text(memory::total(uses))));
}

/// In the largest unit of which there is one.
fn bytes(n: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, size)| n >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", n as f64 / *size as f64),
        None => format!("{n} B"),
    }
}
