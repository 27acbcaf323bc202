//! Reads the section `[scripts]`, and the scripts of a route.

use std::path::Path;
use std::time::Duration;

use script::environment::{AdditionError, Additions, Credentials};

use super::account::account;
use super::definitions::Definitions;
use super::keys::Scope;
use super::proxies;
use super::section::Section;
use crate::address::Address;
use crate::forwarding::Forwarding;
use crate::model::{
    Action, BackgroundJobs, ControlGroups, Interpreter, KilledOutput, LocalRedirects, NewPrivileges,
    QueryArguments, RemoteHost, Resources, ResponseBuffering, Script, Scripts,
};
use crate::route::Pattern;
use crate::upstream::Upstream;

/// The search path of programs, unless `env` sets another.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// A value of `cgroup`: the server's own control group.
const OWN_CGROUP: &str = "auto";
/// Keys that only a route with scripts has.
const ONLY_WITH_SCRIPTS: [&str; 4] =
    ["script_processes", "pass_authorization", "remote_host", "response_buffering"];
const ACCOUNT: [&str; 2] = ["user", "group"];

pub fn scripts(top: &Section) -> Scripts {
    let defaults = Scripts::default();
    let Some(section) = top.section("scripts", Scope::Scripts) else { return defaults };
    let count = |name, default| section.count(name).unwrap_or(default);
    let time = |name, default: Duration| section.duration(name).unwrap_or(default);
    let cgroups = cgroups(&section);
    Scripts {
        processes: count("processes", defaults.processes),
        queue: count("queue", defaults.queue),
        wait: time("wait", defaults.wait),
        first_byte: time("first_byte", defaults.first_byte),
        idle: time("idle", defaults.idle),
        total: time("total", defaults.total),
        grace: time("grace", defaults.grace),
        resources: resources(&section),
        background_jobs: background_jobs(&section, cgroups.as_ref()),
        killed_output: match section.choice("killed_output") {
            Some("whole") => KilledOutput::Whole,
            Some(_) | None => defaults.killed_output,
        },
        new_privileges: new_privileges(&section),
        cgroups,
        account: account(&section),
        spool: section.path("spool").unwrap_or(defaults.spool),
        spool_bytes: section.size("spool_bytes").unwrap_or(defaults.spool_bytes),
        query_arguments: match section.flag("query_arguments") {
            Some(true) => QueryArguments::Passed,
            Some(false) | None => defaults.query_arguments,
        },
        local_redirects: match section.flag("local_redirects") {
            Some(false) => LocalRedirects::Sent,
            Some(true) | None => defaults.local_redirects,
        },
        stderr_lines: section.count("stderr_lines").unwrap_or(defaults.stderr_lines),
        stderr_line: section.size("stderr_line").unwrap_or(defaults.stderr_line),
        sendfile: section.paths("sendfile").unwrap_or(defaults.sendfile),
    }
}

fn background_jobs(section: &Section, cgroups: Option<&ControlGroups>) -> BackgroundJobs {
    if section.flag("background_jobs") != Some(true) {
        return BackgroundJobs::Ended;
    }
    if cgroups.is_some() {
        let what = "and \"cgroup\" exclude each other: a control group ends with its script";
        section.reject_keys(&["background_jobs"], what, "remove one of them");
    }
    BackgroundJobs::Kept
}

/// Of scripts, or of the processes of an application.
pub fn new_privileges(section: &Section) -> NewPrivileges {
    match section.flag("new_privileges") {
        Some(true) => NewPrivileges::AsUsual,
        Some(false) | None => NewPrivileges::None,
    }
}

fn resources(section: &Section) -> Resources {
    let defaults = Resources::default();
    Resources {
        memory: section.size("memory").or(defaults.memory),
        // Rounded up, so that no process ends too early.
        cpu: section.duration("cpu").map(|time| time.as_millis().div_ceil(1000) as u64).or(defaults.cpu),
        files: section.count("files").or(defaults.files),
        tasks: section.count("tasks").or(defaults.tasks),
        umask: umask(section).or(defaults.umask),
        nice: section.count("nice").unwrap_or(defaults.nice),
    }
}

/// `None`: there are none, or after an error.
fn cgroups(section: &Section) -> Option<ControlGroups> {
    let (memory, tasks) = (section.size("cgroup_memory"), section.count("cgroup_tasks"));
    let given = section.text_or_false("cgroup");
    let Some((place, text)) = given.and_then(|given| Some((given.place, given.value?))) else {
        let what_to_do = "add cgroup = \"auto\" or a folder, or remove it";
        section.reject_keys(&["cgroup_memory", "cgroup_tasks"], "needs \"cgroup\"", what_to_do);
        return None;
    };
    if text == OWN_CGROUP {
        return Some(ControlGroups { folder: None, memory, tasks });
    }
    if !Path::new(text).is_absolute() || text.contains('\0') {
        let what = format!("\"cgroup\" cannot be \"{}\"", text.escape_debug());
        let what_to_do = "write \"auto\", or a whole path such as \"/sys/fs/cgroup/scripts.slice\"";
        section.errors.add(place, what, what_to_do);
    }
    Some(ControlGroups { folder: Some(text.into()), memory, tasks })
}

fn umask(section: &Section) -> Option<u32> {
    let given = section.text("umask")?;
    let mask = u32::from_str_radix(given.value, 8).ok().filter(|mask| *mask <= 0o777);
    if mask.is_none() || given.value.starts_with('+') {
        let what = format!("\"umask\" cannot be \"{}\"", given.value.escape_debug());
        section.errors.add(given.place, what, "expected octal digits such as \"022\" or \"027\"");
    }
    mask
}

/// The variables of a site without `env`.
pub fn default_environment() -> Additions {
    let mut environment = Additions::default();
    // This name is valid, and stands here once.
    let _ = environment.add("PATH", PATH.as_bytes());
    environment
}

/// The variables of a section, and those of `inherited` that it does not replace.
pub fn environment(section: &Section, inherited: &Additions) -> Additions {
    let mut environment = Additions::default();
    for entry in section.pairs("env") {
        let Some(value) = section.text_of(entry, "a string") else { continue };
        if let Err(error) = environment.add(&entry.key, value.as_bytes()) {
            let what = format!("\"{}\" cannot be set for scripts", entry.key.escape_debug());
            section.errors.add(&entry.place, what, error.to_string());
        }
    }
    for (name, value) in inherited.iter() {
        match environment.add(name, value) {
            Ok(()) | Err(AdditionError::Twice) => {}
            Err(error) => section.errors.add(section.place(), format!("\"{name}\""), error.to_string()),
        }
    }
    environment
}

/// The settings of a route's scripts. `None`: it has no scripts, or after an error.
pub fn script(
    section: &Section,
    pattern: &Pattern,
    action: &Action,
    inherited: &Additions,
    definitions: Definitions<'_>,
) -> Option<Script> {
    let Definitions { scripts, upstreams, .. } = definitions;
    let processes = scripts.processes;
    if let Action::Upstream(id) = action {
        let names = ["cgi", "interpreter", "script_processes"];
        let what = match section.has("proxy") {
            true => "and \"proxy\" exclude each other",
            false => "and \"application\" exclude each other",
        };
        section.reject_keys(&names, what, "remove one of them");
        reject_account(section);
        let environment = environment(section, inherited);
        let interpreter = Some(Interpreter::Upstream(*id));
        let (credentials, remote_host) = (credentials(section), remote_host(section));
        let forwarding = proxies::forwarding(section, pattern, *id, upstreams);
        return Some(Script {
            interpreter,
            environment,
            credentials,
            remote_host,
            processes,
            account: None,
            forwarding,
            buffering: buffering(section),
        });
    }
    proxies::reject_without_upstream(section);
    let interpreter = interpreter(section, upstreams);
    let runs = section.flag("cgi").unwrap_or(section.has("interpreter"));
    if !runs {
        reject_without_scripts(section);
        return None;
    }
    if !action.may_have_scripts() {
        let name = if section.has("cgi") { "cgi" } else { "interpreter" };
        let what = format!("\"{name}\" is for a route with files");
        section.errors.add(section.place_of(name), what, "give it a root or an alias, or its host a root");
        return None;
    }
    let account = match interpreter {
        Some(Interpreter::Upstream(_)) => {
            reject_account(section);
            None
        }
        Some(Interpreter::Program(_)) | None => account(section).or_else(|| scripts.account.clone()),
    };
    let processes = section.count("script_processes").unwrap_or(processes).min(processes);
    let (environment, credentials) = (environment(section, inherited), credentials(section));
    let (remote_host, forwarding) = (remote_host(section), Forwarding::default());
    let buffering = buffering(section);
    Some(Script {
        interpreter,
        environment,
        credentials,
        remote_host,
        processes,
        account,
        forwarding,
        buffering,
    })
}

/// Reports an account of a route whose scripts an application runs.
fn reject_account(section: &Section) {
    section.reject_keys(&ACCOUNT, "is for a route with scripts of its own", "set it in the [[application]]");
}

fn credentials(section: &Section) -> Credentials {
    match section.flag("pass_authorization") {
        Some(true) => Credentials::Passed,
        Some(false) | None => Credentials::Withheld,
    }
}

fn remote_host(section: &Section) -> RemoteHost {
    match section.choice("remote_host") {
        Some("address") => RemoteHost::Address,
        Some(_) | None => RemoteHost::Absent,
    }
}

fn buffering(section: &Section) -> ResponseBuffering {
    match section.flag("response_buffering") {
        Some(false) => ResponseBuffering::Off,
        Some(true) | None => ResponseBuffering::On,
    }
}

/// Reads a path, which has a slash, or the name of an application, which has none.
fn interpreter(section: &Section, upstreams: &[Upstream]) -> Option<Interpreter> {
    let given = section.text("interpreter")?;
    if let Some(id) = upstreams.iter().position(|upstream| upstream.name == given.value) {
        return Some(Interpreter::Upstream(id));
    }
    if !Path::new(given.value).is_absolute() {
        let what = format!("\"interpreter\" cannot be \"{}\"", given.value.escape_debug());
        let what_to_do = match Address::parse(given.value, Path::new("")) {
            Ok(_) => "add an [[application]] with this address and a name, and write the name here",
            Err(_) => "write its whole path, e.g. \"/usr/bin/php-cgi\", or the name of an [[application]]",
        };
        section.errors.add(given.place, what, what_to_do);
    }
    section.path("interpreter").map(Interpreter::Program)
}

/// Reports keys that have no effect without scripts.
fn reject_without_scripts(section: &Section) {
    if section.has("interpreter") {
        let what = "\"interpreter\" and cgi = false exclude each other";
        section.errors.add(section.place_of("cgi"), what, "remove one of them");
    }
    let (what, what_to_do) =
        ("is for a route with scripts", "add cgi = true or an interpreter, or remove it");
    section.reject_keys(&ONLY_WITH_SCRIPTS, what, what_to_do);
    // A prefix may name the account for globs below it, which select its scripts.
    let has_files = section.has("root") || section.has("alias");
    let is_prefix = section.text("path").is_some_and(|path| path.value.ends_with('/'));
    if !(is_prefix && has_files) {
        section.reject_keys(&ACCOUNT, what, what_to_do);
    }
}
