//! The hosts of a boa.conf: one for all, one for each local address (`VirtualHost`), or one for each address and name
//! (`VHostRoot`). One root with variables is enough for all of them, unless rules are about the files of one, or its
//! scripts are in its folder: then the folders are looked up when the file is read.

use std::net::IpAddr;
use std::path::Path;

use super::directives::Directives;
use crate::disk::Disk;
use crate::finding::Findings;

/// The folder of requests without a name.
const DEFAULT_NAME: &str = "default";

/// Where a name's files are in its folder.
const FILES: &str = "htdocs";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// `None`: all addresses, which `root` has a variable for. It is the only host.
    pub address: Option<IpAddr>,
    /// `None`: all names.
    pub name: Option<String>,
    pub root: String,
    /// The root without variables.
    pub files: String,
    pub line: Option<u32>,
    pub default_folder: Option<String>,
    /// Where relative aliases of scripts begin.
    pub folder: Option<String>,
}

/// `None`: all addresses have the same host. `path` makes a path absolute.
pub fn hosts(
    directives: &Directives,
    path: &dyn Fn(&str) -> String,
    disk: &dyn Disk,
    findings: &mut Findings,
) -> Option<Vec<Host>> {
    let by_address = directives.flag("VirtualHost");
    let by_name = directives.text("VHostRoot");
    if let (Some(given), true) = (by_name, by_address.is_some() || directives.text("DocumentRoot").is_some())
    {
        let what = "VHostRoot cannot stand beside VirtualHost or DocumentRoot";
        findings.error(given.at(), what, "remove one of them");
    }
    // They are about the paths of files, and so about the folder of one address.
    let has_rules = directives.each(&["Allow", "Deny"]).next().is_some();
    if let Some(given) = by_name {
        let root = path(given.value);
        let addresses = addresses(&root, disk);
        report_none(&root, &addresses, given.at(), findings);
        let has_scripts = directives.each(&["ScriptAlias"]).next().is_some();
        let default = directives.text("DefaultVHost").map_or(DEFAULT_NAME, |given| given.value);
        if !has_scripts && !has_rules {
            return Some(vec![Host {
                address: None,
                name: None,
                root: format!("{}/$ip/$host/{FILES}", literal(&root)),
                files: root,
                line: given.at(),
                default_folder: Some(default.to_owned()),
                folder: None,
            }]);
        }
        let of_address = |address: IpAddr| named(&root, address, default, has_scripts, disk);
        return Some(addresses.into_iter().flat_map(of_address).collect());
    }
    let line = by_address?;
    let root = path(directives.text("DocumentRoot")?.value);
    let addresses = addresses(&root, disk);
    report_none(&root, &addresses, Some(line), findings);
    let host = |address: Option<IpAddr>, folder: &str| Host {
        address,
        name: None,
        root: format!("{}/{folder}", literal(&root)),
        files: format!("{root}/{folder}"),
        line: Some(line),
        default_folder: None,
        folder: None,
    };
    if !has_rules {
        return Some(vec![host(None, "$ip")]);
    }
    let host = |address: IpAddr| host(Some(address), &address.to_string());
    Some(addresses.into_iter().map(host).collect())
}

/// A path as a root, in which a dollar sign begins a variable.
pub fn literal(path: &str) -> String {
    path.replace('$', "$$")
}

/// The folders that are called as an address.
fn addresses(root: &str, disk: &dyn Disk) -> Vec<IpAddr> {
    disk.folders(Path::new(root)).iter().filter_map(|name| name.parse().ok()).collect()
}

fn report_none(root: &str, addresses: &[IpAddr], line: Option<u32>, findings: &mut Findings) {
    if addresses.is_empty() {
        let what = format!("{root} has no folder whose name is an IP address, so that nothing is served");
        findings.warn(line, what, "make one for each address");
    }
}

/// The hosts of one address. Each name needs its own where scripts are in its folder.
fn named(root: &str, address: IpAddr, default: &str, has_scripts: bool, disk: &dyn Disk) -> Vec<Host> {
    let of_all = Host {
        address: Some(address),
        name: None,
        root: format!("{}/{address}/$host/{FILES}", literal(root)),
        files: format!("{root}/{address}/$host/{FILES}"),
        line: None,
        default_folder: Some(default.to_owned()),
        folder: None,
    };
    if !has_scripts {
        return vec![of_all];
    }
    let folder = |name: &str| format!("{root}/{address}/{name}");
    let names = disk.folders(Path::new(&format!("{root}/{address}")));
    let has_files = |name: &&String| disk.is_folder(Path::new(&format!("{}/{FILES}", folder(name))));
    let others = Host { folder: Some(folder(default)), ..of_all };
    let of_name = |name: &String| Host {
        address: Some(address),
        name: Some(name.clone()),
        root: format!("{}/{FILES}", literal(&folder(name))),
        files: format!("{}/{FILES}", folder(name)),
        line: None,
        default_folder: None,
        folder: Some(folder(name)),
    };
    std::iter::once(others)
        .chain(names.iter().filter(|name| *name != default).filter(has_files).map(of_name))
        .collect()
}
