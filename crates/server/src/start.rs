//! The site that a command line names: a folder or a configuration, changed by the flags.

use std::fs;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use site::address::Address;
use site::certificates::is_private;
use site::config::{Configuration, Places};
use site::host::Hosts;
use site::listener::{Listener, Protocols};
use site::model::{AccessLog, Host, LogFormat, Sink, Site};
use site::tls::{CertificateFiles, HostTls, PlainRequests};

use crate::acme::local;
use crate::control::{ConfigSource, SiteSource};
use crate::flags::{self, Serve};
use crate::process::privilege;
use crate::{config, log, sys};

const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// With `--tls localhost`.
const LOCAL_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);

/// Warnings that the log has after one reading.
const LOGGED_WARNINGS: usize = 20;

/// Where the addresses of a site come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    Default,
    /// By `--listen`.
    Given,
}

/// The site that a command line names. Errors: lines that say what to do.
pub fn site(flags: &Serve) -> Result<Site, Vec<String>> {
    let Configuration { site, warnings, .. } = read(&flags.source)?;
    warnings.iter().take(LOGGED_WARNINGS).for_each(|warning| log::warn(format_args!("{warning}")));
    if let Some(more) = warnings.len().checked_sub(LOGGED_WARNINGS).filter(|more| *more > 0) {
        log::warn(format_args!("{more} more such lines; taipan check prints them"));
    }
    with_flags(site, flags).map_err(|line| vec![line])
}

/// As [`site`], with the positions of its values. Logs nothing.
pub fn site_with_places(flags: &Serve) -> Result<(Site, Places), Vec<String>> {
    let Configuration { site, places, .. } = read(&flags.source)?;
    Ok((with_flags(site, flags).map_err(|line| vec![line])?, places))
}

/// Changes a site as the flags say. Errors: a line that says what to do.
fn with_flags(mut site: Site, flags: &Serve) -> Result<Site, String> {
    if !flags.listen.is_empty() {
        site.listeners = listeners(&flags.listen, &site)?;
    }
    if !flags.tls.is_empty() {
        let addresses = if flags.listen.is_empty() { Addresses::Default } else { Addresses::Given };
        add_tls(&mut site, &flags.tls, addresses)?;
    }
    if !flags.listen.is_empty() {
        expect_certificate(&site, &flags.source)?;
    }
    if let Some(workers) = flags.workers {
        site.workers = NonZeroUsize::new(workers);
    }
    if let Some(user) = &flags.user {
        (site.user, site.group) = (Some(user.clone()), None);
    }
    choose_account(&mut site);
    site.log.access = access_log(flags, site.log.access.take())?;
    Ok(site)
}

/// The addresses of `--listen`. Errors: with what to do.
fn listeners(texts: &[String], site: &Site) -> Result<Vec<Listener>, String> {
    let read = |text: &String| {
        let listener = Listener::parse(text, Path::new(""));
        listener.map_err(|what_to_do| format!("--listen {text} is not an address; {what_to_do}"))
    };
    let listeners: Vec<Listener> = texts.iter().map(read).collect::<Result<_, _>>()?;
    if site.trusted_proxies.is_empty()
        && let Some(listener) = listeners.iter().find(|listener| listener.protocols.proxy)
    {
        return Err(format!(
            "--listen \"{listener}\" is for proxies, and no proxy is trusted; name them in a configuration, in \
             `trusted_proxies`"
        ));
    }
    for (at, Listener { address, .. }) in listeners.iter().enumerate() {
        let mut others = listeners[..at].iter().map(|other| &other.address);
        if let Some(other) = others.find(|other| other.overlaps(address)) {
            return Err(format!("--listen {other} and --listen {address} overlap; keep one of them"));
        }
    }
    Ok(listeners)
}

/// The access log, by `--access-log` or in place of the configured one. Errors: with what to do.
fn access_log(flags: &Serve, configured: Option<AccessLog>) -> Result<Option<AccessLog>, String> {
    let format = configured.as_ref().map_or(LogFormat::Combined, |log| log.format.clone());
    match (&flags.access_log, &flags.source) {
        (Some(to), _) if configured.as_ref().is_some_and(AccessLog::is_by_host) => Err(format!(
            "--access-log {to} cannot replace the logs of hosts; change \"access\" in [log] of the configuration"
        )),
        (Some(to), _) => Ok(sink(to).map(|sink| AccessLog { sink, format })),
        (None, SiteSource::Folder(_)) if io::stdout().is_terminal() => {
            Ok(Some(AccessLog { sink: Sink::Stdout, format }))
        }
        (None, _) => Ok(configured),
    }
}

/// Errors: an address of `--listen` is for TLS, and there is no certificate. With what to do.
fn expect_certificate(site: &Site, source: &SiteSource) -> Result<(), String> {
    let has_certificate = |host: &Host| host.tls.acme || !host.tls.certificates.is_empty();
    let listener = site.listeners.iter().find(|listener| listener.protocols.tls);
    let Some(listener) = listener.filter(|_| !site.hosts.iter().any(has_certificate)) else { return Ok(()) };
    let what_to_do = match source {
        SiteSource::Folder(_) => "add --tls and a name, such as --tls localhost",
        SiteSource::Config(_) => "add certificate = \"FILE\" or acme = true to the configuration",
    };
    Err(format!(
        "--listen \"{listener}\" needs a certificate, and there is none; {what_to_do}, or remove the word tls"
    ))
}

/// Serves a folder by TLS, with a certificate for these names. Errors: with what to do.
fn add_tls(site: &mut Site, names: &[String], addresses: Addresses) -> Result<(), String> {
    let locals = names.iter().filter(|name| local::is_local(name)).count();
    let is_local = match locals {
        0 => false,
        all if all == names.len() => true,
        _ => return Err("--tls takes names of this machine, or public ones, not both".to_owned()),
    };
    if let Some(name) = names.iter().find(|name| !is_local && is_private(name)) {
        return Err(format!(
            "--tls {name}: no public authority issues a certificate for it; write --tls localhost for this machine \
             alone, or a configuration with a `certificate` or with private `authorities`"
        ));
    }
    let with_tls = |address: SocketAddr| Listener {
        protocols: Protocols { tls: true, ..Protocols::default() },
        ..Listener::from(Address::Tcp(address))
    };
    let mut tls = HostTls { plain: PlainRequests::Redirected, ..HostTls::default() };
    match is_local {
        true => {
            tls.certificates = vec![CertificateFiles { certificate: local::certificate(names)?, key: None }]
        }
        false => tls.acme = true,
    }
    match addresses {
        Addresses::Given if site.listeners.iter().any(|listener| listener.protocols.tls) => {}
        Addresses::Given => site.listeners.iter_mut().for_each(|listener| listener.protocols.tls = true),
        Addresses::Default if is_local => site.listeners = vec![with_tls(LOCAL_ADDRESS)],
        Addresses::Default => {
            let everywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
            let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
            let everywhere = || everywhere.into_iter().filter(|ip| ip.is_ipv4() || has_ipv6);
            let plain = everywhere().map(|ip| Address::Tcp(SocketAddr::new(ip, 80)).into());
            site.listeners = everywhere().map(|ip| with_tls(SocketAddr::new(ip, 443))).chain(plain).collect();
        }
    }
    let host = Host { names: names.to_vec(), tls, ..site.hosts[0].clone() };
    site.hosts = Hosts::new(vec![host]).map_err(|_| "--tls names one host twice".to_owned())?;
    Ok(())
}

/// How clients trust the certificate of a local authority. Empty: there is none. `listeners`: with their bound addresses.
pub fn trust(flags: &Serve, listeners: &[Listener]) -> Vec<String> {
    let name = flags.tls.first().filter(|name| local::is_local(name));
    let listener = listeners.iter().find(|listener| listener.protocols.tls);
    let Some((name, Address::Tcp(address))) = name.zip(listener.map(|listener| &listener.address)) else {
        return Vec::new();
    };
    let url = match name.parse::<IpAddr>() {
        // That of the default is always in the certificate.
        Ok(_) if !address.ip().is_unspecified() => format!("https://{address}/"),
        _ => format!("https://{name}:{}/", address.port()),
    };
    local::advice(&url).unwrap_or_default()
}

/// Chooses the account of this program if root starts the server and the site names no user.
pub fn choose_account(site: &mut Site) {
    if site.user.is_none() && geteuid().is_root() {
        site.user = privilege::own_account().map(str::to_owned);
    }
}

/// A warning if the site is served as user nobody, which other programs share, and no user was named.
pub fn shared_account(flags: &Serve, site: &Site) -> Option<String> {
    let is_named = flags.user.is_some() || !matches!(flags.source, SiteSource::Folder(_));
    (!is_named && site.user.as_deref() == Some(privilege::NOBODY)).then(|| {
        "it serves as user nobody, which other programs may use, too; to give it a user of its own: \
         useradd --system --user-group --shell /usr/sbin/nologin taipan"
            .to_owned()
    })
}

/// The site of a configuration, or of a folder with the default settings. Errors: lines that say what to do.
pub fn load(source: &SiteSource) -> Result<Site, Vec<String>> {
    read(source).map(|configuration| configuration.site)
}

/// As [`load`], with warnings for the log: what the other server did, and this one does not; or the lines of other
/// files that do not count. And with the positions of values.
fn read(source: &SiteSource) -> Result<Configuration, Vec<String>> {
    match source {
        SiteSource::Config(source) => {
            let mut read = config::read(source);
            if let (Ok(configuration), ConfigSource::Own(_)) = (&mut read, source) {
                configuration.warnings = configuration.warnings_of_named_files().cloned().collect();
            }
            // What a large configuration needed to be read is several times as large as its site.
            sys::trim_heap();
            read.map_err(|errors| errors.iter().map(ToString::to_string).collect())
        }
        SiteSource::Folder(folder) => {
            let root = folder_to_serve(folder).map_err(|line| vec![line])?;
            let mut site = Site::folder(root, vec![Address::Tcp(DEFAULT_ADDRESS).into()]);
            // The server never serves a folder as root unless a flag says so.
            if geteuid().is_root() {
                let own = privilege::own_account().map(|user| (user.to_owned(), None));
                let (user, group) = own.unwrap_or_else(privilege::nobody);
                (site.user, site.group) = (Some(user), group);
            }
            Ok(Configuration { site, warnings: Vec::new(), places: Places::default() })
        }
    }
}

/// The folder's path without symbolic links. Errors: a line that says what to do.
pub fn folder_to_serve(folder: &Path) -> Result<PathBuf, String> {
    let shown = folder.display();
    let root = folder.canonicalize().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => missing(folder),
        io::ErrorKind::PermissionDenied => {
            format!("no permission to reach {shown}; run as a user who may read it")
        }
        _ => format!("cannot open {shown}: {e}"),
    })?;
    match fs::read_dir(&root) {
        Ok(_) => Ok(root),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Err(format!(
            "{shown} is not a folder; name the folder that it is in, or write taipan -c {shown} if it is a configuration"
        )),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Err(format!("no permission to read {shown}; run as a user who may, or change its mode"))
        }
        Err(e) => Err(format!("cannot read {shown}: {e}")),
    }
}

/// What may have been meant by a folder that does not exist.
fn missing(folder: &Path) -> String {
    let (name, shown) = (folder.to_str().unwrap_or_default(), folder.display());
    if let Some(advice) = flags::advice(name) {
        return format!("there is no folder {shown}, and no such command; {advice}");
    }
    match name.trim_start_matches(':').parse::<u16>() {
        Ok(port) => format!("there is no folder {shown}; for a port, write --listen 127.0.0.1:{port}"),
        Err(_) => format!("there is no folder {shown}; create it, or name another"),
    }
}

fn sink(text: &str) -> Option<Sink> {
    match text {
        "off" => None,
        // A path of the command line needs no slash.
        _ => Sink::parse(text, Path::new("")).or_else(|| Some(Sink::File(text.into()))),
    }
}

/// The number of workers. The default is one per core that the affinity and the control group allow.
pub fn workers(site: &Site) -> NonZeroUsize {
    site.workers.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Raises the limit of descriptors to its maximum, because every connection needs one. Returns the limit.
pub fn raise_descriptor_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(_) => current.unwrap_or(u64::MAX),
    }
}
