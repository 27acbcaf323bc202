//! Other programs that tests need: real clients, shells, and formatters of documents.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{BackgroundProcess, Folder, Site, TIMEOUT, command, program};

/// The user `nobody`, without any special permission.
const NOBODY: &str = "65534";

/// php-fpm for files below the folder of a test, at `fpm.sock` in there.
pub fn php_fpm(site: &Site) -> BackgroundProcess {
    let home = site.home().display().to_string();
    let user = if is_root() { "user = root\ngroup = root\n" } else { "" };
    let conf = format!(
        "[global]\nerror_log = {home}/fpm.log\n[www]\nlisten = {home}/fpm.sock\npm = static\npm.max_children = 4\n{user}"
    );
    fs::write(site.home().join("fpm.conf"), conf).expect("it is our folder");
    let mut fpm = Command::new(path_of("php-fpm"));
    fpm.args(["-n", "-F", "-y"]).arg(site.home().join("fpm.conf"));
    if is_root() {
        fpm.arg("-R");
    }
    BackgroundProcess::listening(&mut fpm, &site.home().join("fpm.sock"))
}

/// A program of the system, or one that `tests/run` has installed. Panics with its name if it is not installed.
pub fn tool(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
    let folders = folders.chain(own_programs());
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    let path = found
        .unwrap_or_else(|| panic!("{name} is not installed; this test needs it: install it and run again"));
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The folder into which `tests/run` installs programs for the tests.
fn own_programs() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    cache.map(|cache| cache.join("taipan-tests"))
}

/// The folder of an npm package that `tests/run` has installed. Panics with its name if it is not there.
pub fn npm_package(name: &str) -> PathBuf {
    let folder = own_programs().map(|folder| folder.join("npm/node_modules").join(name));
    let found = folder.filter(|folder| folder.is_dir());
    found.unwrap_or_else(|| panic!("the npm package {name} is not installed; tests/run installs it"))
}

/// The folder with the files of a Debian package that `tests/run` has unpacked. Panics with its name if it is not
/// there.
pub fn debian_package(name: &str) -> PathBuf {
    let folder = own_programs().map(|folder| folder.join("debian").join(name));
    let found = folder.filter(|folder| folder.is_dir());
    found.unwrap_or_else(|| panic!("the Debian package {name} is not unpacked; tests/run unpacks it"))
}

/// The folder of the programs of the Python packages that `tests/run` has installed, with a `python3` that has them.
/// Panics if it is not there.
pub fn python_packages() -> PathBuf {
    let folder = own_programs().map(|folder| folder.join("python/bin"));
    let found = folder.filter(|folder| folder.join("python3").is_file());
    found.unwrap_or_else(|| {
        panic!("the Python packages of the tests are not installed; tests/run installs them")
    })
}

/// The source archive of a package of PyPI that `tests/run` has downloaded. Panics with its name if it is not there.
pub fn python_source(name: &str) -> PathBuf {
    let folder = own_programs().and_then(|folder| fs::read_dir(folder.join("python_sources")).ok());
    let is_wanted = |path: &PathBuf| {
        let rest = path.file_name().and_then(|own| own.to_str()?.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".tar.gz"))
    };
    let found = folder.into_iter().flatten().flatten().map(|entry| entry.path()).find(is_wanted);
    found.unwrap_or_else(|| panic!("the source of {name} is not downloaded; tests/run downloads it"))
}

/// The path of a system program, for a configuration. Debian's own files come first: a program of the same
/// name in the user's home may be a wrapper script, and other users may not reach it. Some names end with a
/// version, as `php-fpm8.2`. Panics if it is not installed.
pub fn path_of(name: &str) -> String {
    let folders = ["/usr/bin", "/usr/sbin"].map(Path::new);
    let exactly = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let is_versioned = |path: &PathBuf| {
        let rest = path.file_name().and_then(|own| own.to_str()?.strip_prefix(name));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    let all = || folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let found = exactly.or_else(|| all().map(|entry| entry.path()).find(is_versioned));
    let path = found.unwrap_or_else(|| tool(name).get_program().into());
    path.to_str().expect("a path of the system is text").to_owned()
}

/// The content, compressed by the program gzip, without a name and a time.
pub fn gzip(content: impl AsRef<[u8]>) -> Vec<u8> {
    let folder = Folder::new();
    let plain = File::open(folder.file("plain", content)).expect("it has just been written");
    let output = tool("gzip").arg("-cn").stdin(plain).output().expect("gzip starts");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Root bypasses permissions; tests of permissions must know.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Raises the limit of descriptors to its maximum, for tests with many clients, and returns it.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    raised.expect("one's own limit may be reached");
    limit.maximum.unwrap_or(u64::MAX)
}

/// For a test that needs the whole machine, and as many descriptors as there may be: one of a test program at a time.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    raise_descriptor_limit();
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program, with at most so many descriptors.
pub fn command_with_descriptors(limit: u64) -> Command {
    let mut command = tool("prlimit");
    command.arg(format!("--nofile={limit}:{limit}")).arg(program());
    command
}

/// The line of a configuration without which root cannot start a server: it sets the user `root` if the test runs as
/// root.
pub fn own_user() -> &'static str {
    if is_root() { "user = \"root\"\n" } else { "" }
}

/// The line of the configuration that makes permissions apply: it sets the user `nobody` if the test runs as
/// root.
pub fn without_privilege() -> &'static str {
    if is_root() { "user = \"nobody\"" } else { "" }
}

/// The program, run by a user to whom permissions apply. It is copied into `folder`, because that user may
/// not reach the build folder.
pub fn command_without_privilege(folder: &Path) -> Command {
    if !is_root() {
        return command();
    }
    let copy = folder.join("taipan");
    if !copy.exists() && fs::hard_link(program(), &copy).is_err() {
        fs::copy(program(), &copy).expect("the program can be copied");
    }
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("it is our folder");
    let mut setpriv = tool("setpriv");
    setpriv.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]);
    setpriv.arg(copy);
    setpriv
}

/// A port for programs that need a fixed one: free at this moment, and outside of the range that the kernel
/// assigns (ip_local_port_range).
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut ports = (0..COUNT).map(|_| {
        let number = std::process::id().wrapping_mul(401).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        (FIRST + number % COUNT) as u16
    });
    ports.find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok()).expect("one of them is free")
}

/// Whether a process has this file open.
pub fn has_open(pid: u32, path: &Path) -> bool {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    fds.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == path))
}

/// Runs a command that should end soon. If it does not, it is killed, which its status shows.
pub fn output_of(command: &mut Command) -> Output {
    output_within(command, TIMEOUT * 3)
}

/// As `output_of`, with another timeout.
pub fn output_within(command: &mut Command, timeout: Duration) -> Output {
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stdout = child.stdout.take().map(read_to_end);
    let stderr = child.stderr.take().map(read_to_end);
    // The output ends with the program.
    let until = Instant::now() + timeout;
    let all = |stream: &Option<Receiver<Vec<u8>>>| {
        stream
            .as_ref()
            .and_then(|bytes| bytes.recv_timeout(until.saturating_duration_since(Instant::now())).ok())
    };
    let streams = (all(&stdout), all(&stderr));
    if streams.0.is_none() || streams.1.is_none() {
        // Fails only if it has just ended.
        _ = child.kill();
    }
    let status = child.wait().expect("it is our child");
    Output { status, stdout: streams.0.unwrap_or_default(), stderr: streams.1.unwrap_or_default() }
}

/// All bytes of a stream, read in a thread.
fn read_to_end(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A read error ends the stream; the receiver may be gone.
        _ = stream.read_to_end(&mut bytes);
        _ = send.send(bytes);
    });
    receive
}
