//! The program under test: built once per test process, in the same way as the test itself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The path of the program. `TAIPAN` in the environment names another program, which is not built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| match std::env::var_os("TAIPAN") {
        Some(path) => Some(path.into()),
        None => build(),
    });
    program.as_deref().expect("taipan can be built")
}

/// The program, with the standard streams that tests expect.
pub fn command() -> Command {
    let mut command = Command::new(program());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program until it ends.
pub fn run<Args: IntoIterator<Item = Arg>, Arg: AsRef<OsStr>>(args: Args) -> Output {
    command().args(args).output().expect("the program starts")
}

/// `None`: cargo has printed the reason.
fn build() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "taipan", "--bin", "taipan"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().expect("cargo starts");
    if !output.status.success() {
        return None;
    }
    let messages = String::from_utf8(output.stdout).expect("cargo speaks UTF-8");
    let path = messages.lines().rev().find_map(executable).expect("cargo says where the program is");
    assert!(path.is_file(), "{} is not there", path.display());
    Some(path)
}

/// The value of `"executable"`, in a cargo message that has one.
fn executable(message: &str) -> Option<PathBuf> {
    let (_, value) = message.split_once("\"executable\":\"")?;
    let mut path = String::new();
    let mut chars = value.chars();
    loop {
        match chars.next()? {
            '"' => return Some(path.into()),
            // In a readable path, only quotes and backslashes are escaped.
            '\\' => path.push(chars.next()?),
            other => path.push(other),
        }
    }
}
