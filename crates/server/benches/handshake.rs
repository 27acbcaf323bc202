//! What a full handshake costs the server with the private key in a signer, compared with the key in the same process.
//!
//!     cargo bench -p taipan --bench handshake
//!
//! Client and server take turns in one thread, without a socket. CPU is that of the server's calls and of the signer,
//! and time is how long the server's calls take. Both servers take turns. Needs openssl(1). With `taskset -c 0`, both
//! processes have one core.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme,
};
use server::config;
use server::signer::SignerProcess;
use server::tls::material::Keys;
use server::tls::{KeySource, Material, ServerTls, TicketSecrets, TlsSetup, provider};

const ROUNDS: usize = 15;
const HANDSHAKES: usize = 200;

fn main() {
    let folder = std::env::temp_dir().join(format!("taipan-handshake-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("there is space");
    let rows = [
        ("P-256", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"][..]),
        ("RSA 2048", &["-newkey", "rsa:2048"]),
    ];
    for (name, key) in rows {
        make(&folder, key);
        let site = folder.join("site.toml");
        let text = "listen = \"127.0.0.1:443 tls\"\nroot = \".\"\ncertificate = \"cert.pem\"\ncertificate_key = \"key.pem\"\n";
        fs::write(&site, text).expect("it is written");
        measure(name, &site);
    }
    fs::remove_dir_all(&folder).expect("it is there");
}

fn make(folder: &PathBuf, key: &[&str]) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(key)
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl is installed").success());
}

fn measure(name: &str, site: &Path) {
    let site = config::load(site).expect("it is valid");
    let material = || Material::read(&site, Keys::Left, 0).material.expect("it is valid");
    let server = |keys| {
        let tickets = TicketSecrets::of(&site, None).expect("there are random bytes");
        let tls = ServerTls::begin(&site, TlsSetup::new(material(), keys, tickets), None);
        tls.expect("it is valid").config().clone()
    };
    let (signer, remote) =
        SignerProcess::start(site.clone(), &material(), None, 1, server::sys::fork).expect("it starts");
    let servers = [server(KeySource::Files), server(remote)];
    let client = client();
    let pid = signer.pid().expect("it runs");
    let (mut cpu, mut time) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..ROUNDS {
        for which in [round % 2, 1 - round % 2] {
            let cost = cost(&servers[which], &client, pid);
            cpu[which].push(cost.0);
            time[which].push(cost.1);
        }
    }
    let ratios =
        |of: &[Vec<f64>; 2]| of[1].iter().zip(&of[0]).map(|(one, other)| one / other).collect::<Vec<_>>();
    let (cpu_ratio, time_ratio) = (median(ratios(&cpu)), median(ratios(&time)));
    let [local, remote] = cpu.map(median);
    println!("{name}: CPU {local:.0} µs, with a signer {remote:.0} µs: {cpu_ratio:.3}; time {time_ratio:.3}");
}

/// Microseconds of CPU and of time for each handshake.
fn cost(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>, signer: Pid) -> (f64, f64) {
    let before = cpu_of(signer);
    let (mut cpu, mut time) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..HANDSHAKES {
        let name = ServerName::try_from("localhost").expect("it is a name");
        let mut client = ClientConnection::new(client.clone(), name).expect("it is valid");
        let mut add = |began: (Duration, Instant)| {
            cpu += own_cpu() - began.0;
            time += began.1.elapsed();
        };
        let began = (own_cpu(), Instant::now());
        let mut server = ServerConnection::new(server.clone()).expect("it is valid");
        add(began);
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("there is space");
            let began = (own_cpu(), Instant::now());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                server.read_tls(&mut rest).expect("there is space");
                server.process_new_packets().expect("it goes on");
            }
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).expect("there is space");
            }
            add(began);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).expect("there is space");
                client.process_new_packets().expect("it goes on");
            }
        }
    }
    let each = |total: Duration| total.as_secs_f64() * 1e6 / HANDSHAKES as f64;
    (each(cpu + (cpu_of(signer) - before)), each(time))
}

fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Of all threads of a process.
fn cpu_of(process: Pid) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let nanoseconds = tasks.map(|task| {
        let text =
            fs::read_to_string(task.expect("it is listed").path().join("schedstat")).expect("it is there");
        text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("a number")
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A client without sessions that believes everything, with X25519.
fn client() -> Arc<ClientConfig> {
    let mut all: CryptoProvider = (*provider()).clone();
    all.kx_groups.retain(|group| group.name() == rustls::NamedGroup::X25519);
    let all = Arc::new(all);
    let builder = ClientConfig::builder_with_provider(all.clone());
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("it has ciphers");
    let verifier = Arc::new(Credulous(all));
    let mut client = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    client.resumption = Resumption::disabled();
    Arc::new(client)
}

#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
