//! What a configuration says of scripts: the section `[scripts]`, and which routes have some.

use std::path::Path;
use std::time::Duration;

use script::environment::{AdditionError, Additions, Credentials};

use super::keys::Scope;
use super::section::Section;
use super::settings::{account, text_of};
use crate::model::{Action, ControlGroups, Interpreter, QueryArguments, Resources, Script, Scripts};
use crate::upstream::Upstream;

/// Where programs are looked for, unless `env` says otherwise.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// In place of a folder: that of the server itself.
const OWN_CGROUP: &str = "auto";
/// Keys of a route that mean nothing without a script.
const ONLY_WITH_SCRIPTS: [&str; 2] = ["script_processes", "pass_authorization"];
/// Keys of an account.
const ACCOUNT: [&str; 2] = ["user", "group"];

pub fn scripts(top: &Section) -> Scripts {
    let defaults = Scripts::default();
    let Some(section) = top.section("scripts", Scope::Scripts) else { return defaults };
    let count = |name, default| section.count(name).map_or(default, to_usize);
    let time = |name, default: Duration| section.duration(name).unwrap_or(default);
    let arguments = section.flag("query_arguments");
    Scripts {
        processes: count("processes", defaults.processes),
        queue: count("queue", defaults.queue),
        wait: time("wait", defaults.wait),
        first_byte: time("first_byte", defaults.first_byte),
        idle: time("idle", defaults.idle),
        total: time("total", defaults.total),
        grace: time("grace", defaults.grace),
        resources: resources(&section),
        cgroups: cgroups(&section),
        account: account(&section),
        spool: section.path("spool").unwrap_or(defaults.spool),
        spool_bytes: section.size("spool_bytes").unwrap_or(defaults.spool_bytes),
        query_arguments: match arguments {
            Some(true) => QueryArguments::Passed,
            Some(false) | None => defaults.query_arguments,
        },
        stderr_lines: count("stderr_lines", defaults.stderr_lines as usize) as u32,
        stderr_line: section.size("stderr_line").map_or(defaults.stderr_line, to_usize),
        sendfile: section.paths("sendfile").unwrap_or(defaults.sendfile),
    }
}

fn resources(section: &Section) -> Resources {
    let defaults = Resources::default();
    Resources {
        memory: section.size("memory").or(defaults.memory),
        // A process is not to be ended before its time.
        cpu: section.duration("cpu").map(|time| time.as_millis().div_ceil(1000) as u64).or(defaults.cpu),
        files: section.count("files").or(defaults.files),
        tasks: section.count("tasks").or(defaults.tasks),
        umask: umask(section).or(defaults.umask),
        nice: section.count("nice").map_or(defaults.nice, |nice| nice as u8),
    }
}

/// `None` also after an error.
fn cgroups(section: &Section) -> Option<ControlGroups> {
    let (memory, tasks) = (section.size("cgroup_memory"), section.count("cgroup_tasks"));
    let given = section.text_or_false("cgroup");
    let Some((place, text)) = given.and_then(|given| Some((given.place, given.value?))) else {
        for name in ["cgroup_memory", "cgroup_tasks"].iter().filter(|name| section.has(name)) {
            let what = format!("\"{name}\" is for scripts in control groups");
            section.errors.add(
                section.place_of(name),
                what,
                "add cgroup = \"auto\" or a folder, or remove it",
            );
        }
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

/// The variables of a site that sets none.
pub fn first_environment() -> Additions {
    let mut environment = Additions::default();
    // Its name is one, and is there once.
    let _ = environment.add("PATH", PATH.as_bytes());
    environment
}

/// The variables of a section, and those of `inherited` that it does not set.
pub fn environment(section: &Section, inherited: &Additions) -> Additions {
    let mut environment = Additions::default();
    for entry in section.pairs("env") {
        let Some(value) = text_of(section, entry, "a string") else { continue };
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

/// How the scripts of a route are run; `None`: it has none, or after an error.
pub fn script(
    section: &Section,
    action: &Action,
    inherited: &Additions,
    scripts: &Scripts,
    upstreams: &[Upstream],
) -> Option<Script> {
    let processes = scripts.processes;
    if let Action::Upstream(id) = action {
        for name in ["cgi", "interpreter", "script_processes"].iter().filter(|name| section.has(name)) {
            let what = format!("\"{name}\" and \"application\" exclude each other");
            section.errors.add(section.place_of(name), what, "remove one of them");
        }
        refuse_account(section);
        let environment = environment(section, inherited);
        let interpreter = Some(Interpreter::Upstream(*id));
        let credentials = credentials(section);
        return Some(Script { interpreter, environment, credentials, processes, account: None });
    }
    let interpreter = interpreter(section, upstreams);
    let runs = section.flag("cgi").unwrap_or(section.has("interpreter"));
    if !runs {
        refuse_without(section);
        return None;
    }
    if !matches!(action, Action::Files { .. }) {
        let name = if section.has("cgi") { "cgi" } else { "interpreter" };
        let what = format!("\"{name}\" is for a route that has files");
        section.errors.add(section.place_of(name), what, "give it a root or an alias, or its host a root");
        return None;
    }
    let account = match interpreter {
        Some(Interpreter::Upstream(_)) => {
            refuse_account(section);
            None
        }
        Some(Interpreter::Program(_)) | None => account(section).or_else(|| scripts.account.clone()),
    };
    let own = section.count("script_processes").map(to_usize);
    let processes = own.unwrap_or(processes).min(processes);
    let (environment, credentials) = (environment(section, inherited), credentials(section));
    Some(Script { interpreter, environment, credentials, processes, account })
}

/// Reports an account of a route whose program is not started for each request.
fn refuse_account(section: &Section) {
    for name in ACCOUNT.iter().filter(|name| section.has(name)) {
        let what = format!("\"{name}\" is for a route with scripts of its own");
        section.errors.add(section.place_of(name), what, "set it in the [[application]]");
    }
}

fn credentials(section: &Section) -> Credentials {
    match section.flag("pass_authorization") {
        Some(true) => Credentials::Passed,
        Some(false) | None => Credentials::Withheld,
    }
}

/// A path has a slash, and the name of an application has none.
fn interpreter(section: &Section, upstreams: &[Upstream]) -> Option<Interpreter> {
    let given = section.text("interpreter")?;
    if let Some(id) = upstreams.iter().position(|upstream| upstream.name == given.value) {
        return Some(Interpreter::Upstream(id));
    }
    if !Path::new(given.value).is_absolute() {
        let what = format!("\"interpreter\" cannot be \"{}\"", given.value.escape_debug());
        let what_to_do = "write its whole path, e.g. \"/usr/bin/php-cgi\", or the name of an [[application]]";
        section.errors.add(given.place, what, what_to_do);
    }
    section.path("interpreter").map(Interpreter::Program)
}

/// Reports what would do nothing.
fn refuse_without(section: &Section) {
    if section.has("interpreter") {
        let what = "\"interpreter\" and cgi = false exclude each other";
        section.errors.add(section.place_of("cgi"), what, "remove one of them");
    }
    // A glob within such a prefix says how the files are run, and the prefix says whose they are.
    let has_place = section.has("root") || section.has("alias");
    let is_prefix = section.text("path").is_some_and(|path| path.value.ends_with('/'));
    let is_of_globs = |name: &str| ACCOUNT.contains(&name) && is_prefix && has_place;
    let names = ONLY_WITH_SCRIPTS.into_iter().chain(ACCOUNT).filter(|name| section.has(name));
    for name in names.filter(|name| !is_of_globs(name)) {
        let what = format!("\"{name}\" is for a route with scripts");
        section.errors.add(section.place_of(name), what, "add cgi = true or an interpreter, or remove it");
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
