//! Starting and ending: everything that needs privilege or can be wrong is done here, before the first
//! byte of a client is read.

use std::fs;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use site::memory::{self, Use};
use site::model::{AccessLog, Action, Listener, LogFormat, Sink, Site};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::flags::{Serve, What};
use crate::listen::{self, Bound};
use crate::worker::{self, Command};
use crate::{config, log, privilege, terminal};

const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// It could not start: the command line, the configuration, an address, a file.
const COULD_NOT_START: u8 = 2;
/// Descriptors for everything but connections and cache: logs, loops, folders being read.
const RESERVE: usize = 32;
/// How long a worker that is told to stop may take to write its last log lines.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// As a shell says of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// `taipan [DIR]` and `taipan -c FILE`: serves until it is told to end.
pub fn serve(asked: &Serve) -> ExitCode {
    let started = site(asked).and_then(Running::start);
    match started {
        Ok(running) => running.until_told(),
        Err(lines) => {
            for line in lines {
                terminal::err(format_args!("taipan: {line}"));
            }
            ExitCode::from(COULD_NOT_START)
        }
    }
}

/// `taipan check -c FILE`: says what is wrong, or what the limits add up to.
pub fn check(path: &Path) -> ExitCode {
    let site = match config::load(path) {
        Ok(site) => site,
        Err(errors) => {
            errors.iter().for_each(|e| terminal::err(format_args!("{e}")));
            return ExitCode::FAILURE;
        }
    };
    let problems = missing_roots(&site);
    problems.iter().for_each(|p| terminal::err(format_args!("{}: {p}", path.display())));
    if !problems.is_empty() {
        return ExitCode::FAILURE;
    }
    let workers = workers(&site).get();
    terminal::out(format_args!("{}: the configuration is good", path.display()));
    terminal::out(format_args!("\nMemory at worst (workers: {workers}):"));
    print_uses(&memory::worst_case(&site, workers), bytes);
    let descriptors = memory::descriptors(&site, workers);
    terminal::out(format_args!("\nDescriptors at worst:"));
    print_uses(&descriptors, |n| n.to_string());
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if memory::total(&descriptors) > allowed {
        terminal::out(format_args!(
            "  More than the {allowed} of this process: raise `ulimit -Hn`, or lower `connections` in [limits]."
        ));
    }
    ExitCode::SUCCESS
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

/// The site that a command line asks for. Errors: lines that say what to do.
pub fn site(asked: &Serve) -> Result<Site, Vec<String>> {
    let mut site = load(&asked.what)?;
    if !asked.listen.is_empty() {
        let read = |text: &String| {
            let address = site::config::listener(text, Path::new(""));
            address.map_err(|what_to_do| vec![format!("--listen {text} is not an address; {what_to_do}")])
        };
        site.listeners = asked.listen.iter().map(read).collect::<Result<_, _>>()?;
    }
    if let Some(workers) = asked.workers {
        site.workers = NonZeroUsize::new(workers);
    }
    let format = site.log.access.as_ref().map_or(LogFormat::Combined, |l| l.format);
    match (&asked.access_log, &asked.what) {
        (Some(to), _) => site.log.access = sink(to).map(|sink| AccessLog { sink, format }),
        (None, What::Folder(_)) if io::stdout().is_terminal() => {
            site.log.access = Some(AccessLog { sink: Sink::Stdout, format });
        }
        (None, _) => {}
    }
    Ok(site)
}

/// A configuration, or a folder with the defaults. Errors: lines that say what to do.
pub fn load(what: &What) -> Result<Site, Vec<String>> {
    match what {
        What::Config(path) => {
            let site = config::load(path)
                .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
            let problems = missing_roots(&site);
            if problems.is_empty() { Ok(site) } else { Err(problems) }
        }
        What::Folder(folder) => {
            let root = folder_to_serve(folder).map_err(|line| vec![line])?;
            Ok(Site::folder(root, vec![Listener::Tcp(DEFAULT_ADDRESS)]))
        }
    }
}

fn folder_to_serve(folder: &Path) -> Result<PathBuf, String> {
    let shown = folder.display();
    let root = folder.canonicalize().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!("there is no folder {shown}; create it, or name another"),
        io::ErrorKind::PermissionDenied => {
            format!("no permission to reach {shown}; run as a user who may read it")
        }
        _ => format!("cannot open {shown}: {e}"),
    })?;
    match fs::read_dir(&root) {
        Ok(_) => Ok(root),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(format!("{shown} is not a folder; name the folder that it is in"))
        }
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Err(format!("no permission to read {shown}; run as a user who may, or change its mode"))
        }
        Err(e) => Err(format!("cannot read {shown}: {e}")),
    }
}

/// A configured root that is not there is an oversight; it is told before the first request meets it.
fn missing_roots(site: &Site) -> Vec<String> {
    let mut problems = Vec::new();
    for host in site.hosts.iter() {
        for route in host.routes.iter() {
            if let Action::Files { root, .. } = &route.action
                && !root.is_dir()
            {
                let problem =
                    format!("the root {} is not a folder that can be reached; create it", root.display());
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
    }
    problems
}

fn sink(text: &str) -> Option<Sink> {
    match text {
        "off" => None,
        "stdout" => Some(Sink::Stdout),
        "stderr" => Some(Sink::Stderr),
        "syslog" => Some(Sink::Syslog),
        path => Some(Sink::File(path.into())),
    }
}

/// One per core that the process may use, by its affinity and its control group.
fn workers(site: &Site) -> NonZeroUsize {
    site.workers.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// The workers at work.
struct Running {
    threads: Vec<JoinHandle<()>>,
    commands: Vec<UnboundedSender<Command>>,
    ended: UnboundedReceiver<io::Result<()>>,
    addresses: Vec<Listener>,
    site: Site,
}

impl Running {
    fn start(mut site: Site) -> Result<Running, Vec<String>> {
        let line = |text: String| vec![text];
        let workers = workers(&site).get();
        fit_to_descriptors(&mut site, raise_descriptor_limit(), workers);
        let Bound { per_worker, addresses } =
            listen::bind_all(&site.listeners, workers).map_err(|e| line(e.to_string()))?;
        let access = site.hosts.iter().filter_map(|h| h.access_log.as_ref()).chain(site.log.access.as_ref());
        let identity = privilege::Identity::of(&site).map_err(line)?;
        log::start(&site.log, access.map(|a| a.sink.clone()), identity.as_ref()).map_err(line)?;
        if let Some(path) = &site.pid_file {
            fs::write(path, format!("{}\n", std::process::id()))
                .map_err(|e| line(format!("cannot write the pid file {}: {e}", path.display())))?;
        }
        if let Some(identity) = identity {
            identity.become_it().map_err(line)?;
        }
        log_panics();
        let (tell, ended) = unbounded_channel();
        let (mut threads, mut commands) = (Vec::new(), Vec::new());
        for (number, sockets) in per_worker.into_iter().enumerate() {
            let (command, receiver) = unbounded_channel();
            let (site, tell) = (site.clone(), tell.clone());
            let work = move || _ = tell.send(worker::run(site, sockets, receiver));
            let thread = std::thread::Builder::new().name(format!("worker {number}")).spawn(work);
            threads.push(thread.map_err(|e| line(format!("cannot start a worker: {e}")))?);
            commands.push(command);
        }
        Ok(Running { threads, commands, ended, addresses, site })
    }

    /// Waits for signals, and for workers that end by themselves.
    fn until_told(mut self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let code = match runtime {
            Ok(runtime) => runtime.block_on(self.watch()),
            Err(error) => Err(error),
        };
        log::flush();
        listen::remove_sockets(&self.addresses);
        if let Some(path) = &self.site.pid_file {
            _ = fs::remove_file(path);
        }
        code.unwrap_or_else(|error| {
            terminal::err(format_args!("taipan: cannot go on: {error}"));
            ExitCode::FAILURE
        })
    }

    async fn watch(&mut self) -> io::Result<ExitCode> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut reopen = signal(SignalKind::user_defined1())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        // Only now: whoever reads this may send signals.
        announce(&self.site, &self.addresses);
        let (mut left, mut code, mut stopping) = (0, ExitCode::SUCCESS, false);
        loop {
            tokio::select! {
                _ = terminate.recv() => self.tell(Command::Leave),
                _ = interrupt.recv() => {
                    self.tell(Command::Stop);
                    code = ExitCode::from(INTERRUPTED);
                    stopping = true;
                }
                () = tokio::time::sleep(STOP_PATIENCE), if stopping => return Ok(code),
                _ = reopen.recv() => log::reopen(),
                _ = hang_up.recv() => {
                    log::warn(format_args!("SIGHUP changes nothing; restart to read the configuration again"));
                }
                Some(ended) = self.ended.recv() => {
                    ended?;
                    left += 1;
                    if left == self.threads.len() {
                        return Ok(code);
                    }
                }
            }
        }
    }

    fn tell(&self, command: Command) {
        for worker in &self.commands {
            // A worker that has ended needs to be told nothing.
            _ = worker.send(command);
        }
    }
}

/// As many descriptors as the process may have: every connection is one. Says how many there are.
fn raise_descriptor_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(_) => current.unwrap_or(u64::MAX),
    }
}

/// Where there are fewer descriptors than the limits add up to, connections and cache share what there
/// is, so that the limit of connections is met before that of descriptors, and idle ones make room.
fn fit_to_descriptors(site: &mut Site, allowed: u64, workers: usize) {
    if memory::total(&memory::descriptors(site, workers)) <= allowed {
        return;
    }
    let share = usize::try_from(allowed).unwrap_or(usize::MAX).saturating_sub(RESERVE) / workers;
    let limits = [(&mut site.limits.connections, share / 4 * 3), (&mut site.cache.descriptors, share / 8)];
    for (limit, most) in limits {
        *limit = (*limit).min(most.max(1));
    }
}

/// A panic ends one connection. It is logged with its place.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let what = panic.payload().downcast_ref::<&str>().copied();
        let what = what.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
        log::error(format_args!("panic at {place}: {}; one connection ends", what.unwrap_or("no message")));
    }));
}

/// Says on standard error what is served, where, and for whom.
fn announce(site: &Site, addresses: &[Listener]) {
    let root = site.hosts.at(0).routes.get(site::route::RouteId::FALLBACK);
    let what = match &root.action {
        Action::Files { root, .. } => {
            std::path::absolute(root).unwrap_or_else(|_| root.clone()).display().to_string()
        }
        _ => "a configuration".to_owned(),
    };
    terminal::err(format_args!("taipan {} serves {what}", env!("CARGO_PKG_VERSION")));
    for address in addresses {
        match address {
            Listener::Unix(path) => {
                terminal::err(format_args!("  unix:{}  from this machine", path.display()))
            }
            Listener::Tcp(address) => announce_tcp(*address),
        }
    }
}

fn announce_tcp(address: SocketAddr) {
    let url = |ip: IpAddr| match SocketAddr::new(ip, address.port()) {
        a if a.port() == 80 && a.is_ipv4() => format!("http://{}/", a.ip()),
        a => format!("http://{a}/"),
    };
    if !address.ip().is_unspecified() {
        let from = if address.ip().is_loopback() {
            "from this machine only"
        } else {
            "from the networks of that address"
        };
        terminal::err(format_args!("  {}  {from}", url(address.ip())));
        return;
    }
    for ip in own_addresses().into_iter().filter(|ip| ip.is_ipv4() == address.is_ipv4()) {
        let from = if ip.is_loopback() { "from this machine" } else { "from every network that reaches it" };
        terminal::err(format_args!("  {}  {from}", url(ip)));
    }
}

/// The addresses of this machine, those of loopback first.
fn own_addresses() -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = nix::ifaddrs::getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        })
        // Link-local addresses need a zone, which a URL does not have.
        .filter(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .collect();
    found.sort_by_key(|ip| (!ip.is_loopback(), *ip));
    found.dedup();
    found
}
