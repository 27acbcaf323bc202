//! The local authority: made once for each user, it issues certificates for the names of this machine, such as
//! `localhost`, which no other authority may issue.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::issue::{self, Authority};
use super::storage::{Storage, folder_named, make_folder};
use crate::log;

/// The certificate and the key.
const AUTHORITY: &str = "authority.key";
/// The certificate alone, for clients.
const CERTIFICATE: &str = "authority.pem";
/// Bytes of the name of a file with a certificate, without its ending.
const MAX_NAME: usize = 200;
/// Always among the names.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Whether only a local authority can issue a certificate for the name (RFC 6761 §6.3), or the address.
pub fn is_local(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Issues a certificate for these names and those of the loopback interface. Returns the file with the certificate and
/// its key. Errors: with what to do.
pub fn certificate(names: &[String]) -> Result<PathBuf, String> {
    let folder = folder()?;
    make_folder(&folder)
        .map_err(|why| format!("{why}, or set XDG_DATA_HOME to a folder that has room for it"))?;
    let storage = Storage::open(&folder)?;
    let authority = authority(&storage)?;
    let mut all: Vec<String> = names.to_vec();
    all.extend(LOOPBACK.map(str::to_owned).into_iter().filter(|name| !names.contains(name)));
    let issued = issued_file(names);
    let fail = |e: &dyn Display| failure(&storage, &issued, e);
    let pair = authority.issue(&all).map_err(|e| fail(&e))?;
    storage.write(&issued, pair.pem().as_bytes()).map_err(|e| fail(&e))?;
    Ok(storage.path().join(&issued))
}

/// The authority of this folder, which is made if there is none, or if it ends soon. Its certificate is in a file for
/// clients. Errors: with what to do.
fn authority(storage: &Storage) -> Result<Authority, String> {
    let fail = |e: &dyn Display| failure(storage, AUTHORITY, e);
    let at = |name: &str| storage.path().join(name);
    let mut text = storage.read(AUTHORITY).map_err(|e| fail(&e))?;
    let parsed = text.as_deref().and_then(|text| parse(text).ok());
    if let Some(days) = parsed.and_then(|(certificate, _)| issue::validity_that_ends(&certificate)) {
        log::warn(format_args!(
            "the authority {} is valid from {days} only; another one takes its place, which clients have to be told \
             to trust",
            at(CERTIFICATE).display()
        ));
        storage.remove(AUTHORITY).map_err(|e| fail(&e))?;
        text = None;
    } else if text.is_none() && storage.read(CERTIFICATE).is_ok_and(|known| known.is_some()) {
        log::warn(format_args!(
            "the key of the authority {} is gone, {}; another one takes its place, which clients have to be told to \
             trust",
            at(CERTIFICATE).display(),
            at(AUTHORITY).display()
        ));
    }
    if text.is_none() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let made = Authority::generate(&format!("taipan on {host}")).map_err(|e| fail(&e))?;
        let pem = [issue::certificate_pem(&made.certificate).as_str(), made.key_pem().as_str()].concat();
        // Another program may have made one at the same time.
        storage.create(AUTHORITY, pem.as_bytes()).map_err(|e| fail(&e))?;
        text = storage.read(AUTHORITY).map_err(|e| fail(&e))?;
    }
    let reject = |why: &dyn Display| format!("{}; remove the file to have another authority made", fail(why));
    let (certificate, key) = parse(&text.unwrap_or_default()).map_err(|why| reject(&why))?;
    let own = issue::certificate_pem(&certificate);
    let authority = Authority::of(certificate, &key).map_err(|why| reject(&why))?;
    storage.write(CERTIFICATE, own.as_bytes()).map_err(|e| failure(storage, CERTIFICATE, &e))?;
    Ok(authority)
}

fn failure(storage: &Storage, name: &str, error: &dyn Display) -> String {
    format!("cannot use {}: {error}", storage.path().join(name).display())
}

/// The file of a certificate. A program for other names has another one: each reads its own again, as when its serving
/// process is replaced.
fn issued_file(names: &[String]) -> String {
    let mut file = names.join("+").to_ascii_lowercase();
    file.truncate(file.floor_char_boundary(MAX_NAME));
    file + ".pem"
}

/// The certificate of the authority, and its key. Errors: the file is torn, as by a full disk.
fn parse(text: &[u8]) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), &'static str> {
    let certificate = CertificateDer::from_pem_slice(text).map_err(|_| "it has no whole certificate")?;
    let key = PrivateKeyDer::from_pem_slice(text).map_err(|_| "it has no whole key")?;
    Ok((certificate, key))
}

/// How clients can be made to trust the authority: lines for the user.
pub fn advice(url: &str) -> Result<Vec<String>, String> {
    let path = folder()?.join(CERTIFICATE);
    let path = path.display();
    Ok(vec![
        format!("clients that trust the authority of this machine, {path}, trust the site:"),
        format!("  curl      curl --cacert {path} {url}"),
        format!("  Chromium  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n taipan -i {path}"),
        "  Firefox   Settings, Privacy & Security, View Certificates, Authorities, Import".to_owned(),
        format!(
            "  Debian    sudo cp {path} /usr/local/share/ca-certificates/taipan.crt && sudo update-ca-certificates"
        ),
    ])
}

/// The user's folder for data (XDG Base Directory Specification).
fn folder() -> Result<PathBuf, String> {
    let data = folder_named("XDG_DATA_HOME").or_else(|| Some(folder_named("HOME")?.join(".local/share")));
    data.map(|data| data.join("taipan"))
        .ok_or_else(|| "there is no folder for the local authority; set HOME or XDG_DATA_HOME".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_file_of_the_authority_is_explained() {
        let made = Authority::generate("taipan test").unwrap();
        let (certificate, key) = (issue::certificate_pem(&made.certificate), made.key_pem());
        let whole = [certificate.as_str(), key.as_str()].concat();
        assert!(parse(whole.as_bytes()).is_ok());
        for (length, expected) in [
            (0, "it has no whole certificate"),
            (100, "it has no whole certificate"),
            (certificate.len(), "it has no whole key"),
            (whole.len() - 20, "it has no whole key"),
        ] {
            assert_eq!(parse(&whole.as_bytes()[..length]).err(), Some(expected), "{length}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for (name, expected) in [
            ("localhost", true),
            ("LOCALHOST", true),
            ("a.b.localhost", true),
            ("127.0.0.2", true),
            ("192.0.2.1", false),
            ("example.org", false),
            ("localhost.example.org", false),
            ("notlocalhost", false),
        ] {
            assert_eq!(is_local(name), expected, "{name}");
        }
    }
}
