//! What the error log says of a client's error: the file that the request was for, which need not exist.
//!
//! Knows nothing of what is on the disk.

use std::net::IpAddr;
use std::path::PathBuf;

use taipan_http::head::Head;
use taipan_http::target::SafePath;

use crate::folder::HostFolder;
use crate::host::Hosts;
use crate::model::Host;
use crate::plan::{Plan, PlannedRoot, plan};
use crate::walk::StepRoot;

/// The file that a request is for, by its path alone. `address`: of the server. `None`: it is for no file, or for one
/// in the home of a user.
pub fn file(hosts: &Hosts, host: usize, head: &Head<'_>, address: Option<IpAddr>) -> Option<PathBuf> {
    let host = hosts.get(host)?;
    let path = SafePath::parse(head.target.path()?).ok()?;
    let is_folder = path.is_folder();
    let plan = plan(host, path, None);
    let named = |folder: &HostFolder| folder.path(&folder.names(head.authority, address).next()?);
    let mut file = script(host, &plan, &named).or_else(|| {
        let files = plan.files()?;
        let root = match files.root {
            PlannedRoot::Path(root) => root.to_owned(),
            PlannedRoot::OfHost(folder) => named(folder)?,
            PlannedRoot::OfUser(_) => return None,
        };
        Some(files.below().beneath(&root))
    })?;
    // A folder ends with a slash.
    if is_folder {
        file.push("");
    }
    Some(file)
}

/// The script whose name the whole path is, where only scripts respond.
fn script(
    host: &Host,
    plan: &Plan<'_, '_>,
    named: &dyn Fn(&HostFolder) -> Option<PathBuf>,
) -> Option<PathBuf> {
    plan.route.script.as_ref()?;
    let walk = plan.walk.as_ref()?;
    let step = walk.steps.iter().find(|step| step.script_name == walk.path)?;
    let root = match &step.root {
        StepRoot::Path(root) => root.clone(),
        StepRoot::OfHost => named(host.folder.as_ref()?)?,
    };
    Some(step.below.beneath(&root))
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;
    use crate::config;

    const LIMITS: Limits = Limits { head: 10_000, fields: 10, target: 5000 };

    fn found(config: &str, target: &str) -> String {
        let text = format!("listen = \"127.0.0.1:1\"\n{config}");
        let site = config::of_text(&text);
        let request = format!("GET {target} HTTP/1.1\r\nHost: A.example:80\r\n\r\n");
        let mut store = FieldStore::new();
        let (head, _) = parse(request.as_bytes(), &mut store, &LIMITS).unwrap().unwrap();
        let file = file(&site.hosts, 0, &head, "192.0.2.1".parse().ok());
        file.map_or_else(|| "none".to_owned(), |file| file.display().to_string())
    }

    #[test]
    fn names_the_file_of_a_request() {
        let config = "root = \"/srv\"\n[[route]]\npath = \"/old/\"\nredirect = \"/new/\"\n\
                      [[route]]\npath = \"/icons/\"\nalias = \"/usr/icons\"\n\
                      [[route]]\npath = \"/cgi-bin/\"\nalias = \"/usr/cgi\"\ncgi = true\n";
        let names = "root = \"/srv/$ip/$host/htdocs\"\n";
        for (config, target, expected) in [
            (config, "/a/b%20c", "/srv/a/b c"),
            (config, "/a/", "/srv/a/"),
            (config, "/", "/srv/"),
            (config, "/icons/i.png?x", "/usr/icons/i.png"),
            (config, "/cgi-bin/none", "/usr/cgi/none"),
            (config, "/cgi-bin/none/info", "/usr/cgi/none/info"),
            (config, "/old/x", "none"),
            (config, "/.hidden", "none"),
            (config, "/%00", "none"),
            (names, "/a", "/srv/192.0.2.1/a.example/htdocs/a"),
        ] {
            assert_eq!(found(config, target), expected, "{target}");
        }
    }
}
