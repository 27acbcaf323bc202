//! What keeps a new program from going on when the one that has started it ends: containers and supervisors end or
//! restart a service with its main process.

use std::borrow::Cow;
use std::path::Path;

use rustix::process::getppid;

use crate::master::notify::Notify;
use crate::master::signals::is_first_process;

const FIRST_PROCESS: &str = "this program is process 1, as in a container, and the new one would end with it; start \
                             another container in its place";
const BELOW_FIRST_PROCESS: &str = "this program was started by process 1 of a container, which ends with it, and the \
                                   new one as well; start another container in its place";
/// Programs that start a program again when it has ended, by the 15 characters that the kernel keeps of a name.
const SUPERVISORS: [&str; 11] = [
    "circusd",
    "dinit",
    "perpd",
    "pidproxy",
    "procd",
    "runsv",
    "s6-supervise",
    "service-manager",
    "supervise",
    "supervise-daemo",
    "supervisord",
];
const UNKNOWN_TO_SYSTEMD: &str = "systemd would end the service, and the new program with it; write Type=notify into \
                                  the unit, or restart the service";
/// The machine's own PID namespace, in every kernel (`PROC_PID_INIT_INO`).
const MACHINE: &str = "pid:[4026531836]";

/// Why a new program would end when this one does. `None`: it would go on. `is_child_of_first_process`: whether this one
/// was at its start.
pub fn obstacle(notify: &Notify, is_child_of_first_process: bool) -> Option<Cow<'static, str>> {
    if is_first_process() {
        return Some(FIRST_PROCESS.into());
    }
    // It learns which process is the main one.
    if notify.has_manager() {
        return None;
    }
    let started_by_systemd =
        std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    if started_by_systemd {
        return Some(UNKNOWN_TO_SYSTEMD.into());
    }
    if let Some(supervisor) = supervisor(is_child_of_first_process) {
        return Some(
            format!(
                "{supervisor} started this program, and would start it again when it ends, beside the new one; \
                 restart the service"
            )
            .into(),
        );
    }
    // Such as tini, dumb-init or a shell. On a machine, process 1 never ends.
    let is_on_machine =
        || std::fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace == Path::new(MACHINE));
    (is_child_of_first_process && !is_on_machine()).then_some(BELOW_FIRST_PROCESS.into())
}

/// The name of the program that starts this one again when it has ended. `None`: there is none, or it is not known.
fn supervisor(is_child_of_first_process: bool) -> Option<String> {
    let parent = getppid()?.as_raw_nonzero().get();
    // Process 1 also becomes the parent of what has lost its own.
    if parent == 1 && !is_child_of_first_process {
        return None;
    }
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
    let name = name.trim_end();
    SUPERVISORS.contains(&name).then(|| name.to_owned())
}
