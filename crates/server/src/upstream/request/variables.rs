//! The variables of a request, for CGI, FastCGI and SCGI: collects the values that `script::environment` writes.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use script::environment::{
    Additions, CgiRequest, Claims, Credentials, Environment, EnvironmentError, Limits, environment,
};
use site::model::{Host, RemoteHost, Script};
use site::proxies::Via;
use site::upstream::Upstream;
use site::walk;
use taipan_http::fields::host_and_port;
use taipan_http::head::Head;
use taipan_http::path_text;
use taipan_http::target::normalized;

use super::{Handler, HandlerKind};
use crate::request::ConnectionInfo;
use crate::services::Services;
use crate::tls_facts::Export;

/// SERVER_SOFTWARE (RFC 3875 §4.1.17).
pub const SOFTWARE: &str = concat!("taipan/", env!("CARGO_PKG_VERSION"));

impl Handler {
    /// The variables of a request. `additions` replace those of the same name. Errors: the request cannot be written as
    /// variables.
    pub fn environment(
        &self,
        services: &Services,
        head: &Head<'_>,
        connection: ConnectionInfo,
        body: Option<u64>,
        additions: &Additions,
    ) -> Result<Environment, EnvironmentError> {
        let host = services.site.hosts.at(self.host);
        let authority = std::str::from_utf8(head.authority).unwrap_or_default();
        let (name, _) = host_and_port(authority);
        let script_name = self.name();
        let (file, root) = self.file_and_root(host);
        let translated = self.translated(services, host);
        let export = match services.site.tls.export_client_certificate {
            true => Export::Certificate,
            false => Export::Facts,
        };
        let tls = connection.tls.map(|facts| facts.variables(export)).unwrap_or_default();
        let client = connection.client.ip();
        let remote_name = client.and_then(|address| services.client_names.find(address));
        let shows_address =
            || self.script(services).is_some_and(|own| own.remote_host == RemoteHost::Address);
        let shown = client.filter(|_| remote_name.is_none() && shows_address()).map(|ip| ip.to_string());
        let request = CgiRequest {
            method: head.token,
            protocol: head.version.as_str(),
            scheme: head.scheme,
            is_early: head.is_early,
            tls: &tls,
            path: &normalized(head.target.path().unwrap_or("/")),
            query: head.target.query(),
            query_string: self.query(head),
            host: authority,
            server_name: if name.is_empty() { host.name().unwrap_or("localhost") } else { name },
            server_port: connection.server_port(head),
            software: SOFTWARE,
            server: connection.local,
            remote: client,
            remote_port: connection.client.port(),
            remote_name: remote_name.as_deref().or(shown.as_deref()),
            script_name: &script_name,
            path_info: self.path_info(),
            path_translated: translated.as_os_str().as_bytes(),
            script_filename: file.as_os_str().as_bytes(),
            document_root: root.as_os_str().as_bytes(),
            body,
            fields: head.fields,
            credentials: match self.kind {
                HandlerKind::Authorizer(_) => Credentials::Passed,
                _ => self.script(services).map_or(Credentials::Withheld, |own| own.credentials),
            },
            claims: match connection.via {
                Via::Nothing => Claims::Withheld,
                Via::TrustedProxy => Claims::Passed,
            },
        };
        environment(&request, additions, Limits::default())
    }

    /// SCRIPT_FILENAME and DOCUMENT_ROOT.
    fn file_and_root<'s>(&'s self, host: &'s Host) -> (PathBuf, &'s Path) {
        let of_host = self.folder.as_deref();
        let of_step = match &self.kind {
            HandlerKind::Script(step) => step.root(of_host),
            _ => None,
        };
        let root = walk::document_root(host, of_host, of_step.unwrap_or(Path::new("/")));
        let file = match &self.kind {
            // No script is found without its folder.
            HandlerKind::Script(step) => step.file(of_host).unwrap_or_default(),
            HandlerKind::Application { name, .. } => {
                root.join(path_text::to_path(name.trim_start_matches('/')))
            }
            HandlerKind::Authorizer(_) | HandlerKind::Lister { .. } => root.to_owned(),
        };
        (file, root)
    }

    /// PATH_TRANSLATED. Empty: there is none, or an interpreter is started, as PHP, which with cgi.fix_pathinfo=0 would
    /// run this file in place of the script.
    fn translated(&self, services: &Services, host: &Host) -> PathBuf {
        let is_program = matches!(self.kind, HandlerKind::Script(_))
            && self.script(services).is_some_and(|own| own.interpreter.is_none());
        let translated =
            is_program.then(|| walk::path_translated(host, self.folder.as_deref(), self.path_info()));
        translated.flatten().unwrap_or_default()
    }
}

/// The additional variables: those of the route, then those of an authorizer. A program gets only the user and the
/// fields of the latter: others might change how it starts.
pub fn additions(own: Option<&Script>, variables: &Additions, upstream: Option<&Upstream>) -> Additions {
    let mut additions = own.map(|own| own.environment.clone()).unwrap_or_default();
    for (name, value) in variables.iter() {
        let is_of_request = matches!(name, "REMOTE_USER" | "AUTH_TYPE") || name.starts_with("HTTP_");
        if upstream.is_some() || is_of_request {
            // The variables of the route take precedence.
            _ = additions.add(name, value);
        }
    }
    additions
}
