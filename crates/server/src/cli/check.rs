//! `taipan check`: is a configuration valid, would a start succeed, and what do its limits add up to?

mod resources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::unistd::geteuid;
use site::config::{Configuration, Places};
use site::listener::Listener;
use site::model::{Account, Action, Script, Site};
use site::published::Expiry;
use site::upstream::Upstream;

use crate::cli::{first_line, jail, oversights};
use crate::control::{ConfigSource, SiteSource};
use crate::finding::{Finding, Severity};
use crate::master::examine::{self, Examination};
use crate::master::sockets::ListenError;
use crate::process::{privilege, sandbox};
use crate::{clock, config, control, start, terminal, tls};

/// Seconds from now to the latest end of a security.txt: a year.
const TOO_LATE: i64 = 366 * 86_400;

/// `taipan check`: prints the problems, or what the limits add up to.
pub fn check(source: &ConfigSource) -> ExitCode {
    let path = &*source.path();
    let Configuration { mut site, warnings, places } = match config::read(source) {
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
    let Examination { findings, silent, material } = examine(source, &site);
    let (findings, beyond) = examine::in_order(findings, &places);
    findings.iter().for_each(|finding| show(finding, path, &places));
    if beyond > 0 {
        terminal::err(format_args!("{}: {beyond} more such lines when these are fixed", path.display()));
    }
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

/// The problems that a start would meet, and probable mistakes.
fn examine(source: &ConfigSource, site: &Site) -> Examination {
    let is_running = control::is_served(&SiteSource::Config(source.clone()));
    let address = |listener: &Listener, problem: ListenError| {
        if problem.is_in_use() && is_running {
            return None;
        }
        let later = problem.is_in_use()
            || problem.is_denied() && !geteuid().is_root()
            || problem.leaves_it_out(&site.listeners);
        let severity = if later { Severity::Warning } else { Severity::Error };
        Some(Finding { severity, ..Finding::error(&["listen"], listener.to_string(), problem.to_string()) })
    };
    let mut examination = examine::examine(site, address);
    let all = &mut examination.findings;
    if site.listeners.is_empty() {
        let text =
            "there is no address to listen on; the program needs inherited sockets, as from a socket unit";
        all.push(Finding::warning(&["listen"], "", text));
    }
    // Only a warning: a unit may allow more than this shell.
    let (workers, allowed) = (start::workers(site).get(), start::raise_descriptor_limit());
    let too_few = examine::too_few_descriptors(site, workers, allowed);
    all.extend(too_few.map(|why| Finding::warning(&["workers"], "", why)));
    all.extend(first_lines(site));
    all.extend(lacks(site));
    all.extend(published_texts(site));
    all.extend(oversights::findings(site, &examination.silent));
    let unable = tls::kernel_ciphers(site).err();
    all.extend(unable.map(|why| Finding::warning(&["kernel"], "", why)));
    examination
}

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

/// The commands and scripts that cannot be executed, mostly for their first line. Only a warning for a script,
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
        let why = first_line::problem_of_script(&path, &script.environment)?;
        Some(Finding::warning(&["cgi"], path, why))
    };
    let scripts = jail::scripts(site).into_iter().filter_map(of_script);
    site.upstreams.iter().filter_map(of_application).chain(scripts).collect()
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
