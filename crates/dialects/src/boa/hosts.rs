//! The hosts of a boa.conf: one for all, one for each local address (`VirtualHost`), or one for each address and name
//! (`VHostRoot`). There is no variable for an address, so that the folders are looked up when the file is read.

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
    pub address: IpAddr,
    /// `None`: all names.
    pub name: Option<String>,
    pub root: String,
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
    if let Some(given) = by_name {
        let root = path(given.value);
        let addresses = addresses(&root, disk);
        report_none(&root, &addresses, given.at(), findings);
        let has_scripts = directives.each(&["ScriptAlias"]).next().is_some();
        let default = directives.text("DefaultVHost").map_or(DEFAULT_NAME, |given| given.value);
        let of_address = |address: IpAddr| named(&root, address, default, has_scripts, disk);
        return Some(addresses.into_iter().flat_map(of_address).collect());
    }
    let line = by_address?;
    let root = path(directives.text("DocumentRoot")?.value);
    let addresses = addresses(&root, disk);
    report_none(&root, &addresses, Some(line), findings);
    let host = |address: IpAddr| Host {
        address,
        name: None,
        root: format!("{root}/{address}"),
        default_folder: None,
        folder: None,
    };
    Some(addresses.into_iter().map(host).collect())
}

/// The folders that are called as an address.
fn addresses(root: &str, disk: &dyn Disk) -> Vec<IpAddr> {
    disk.folders(Path::new(root)).iter().filter_map(|name| name.parse().ok()).collect()
}

fn report_none(root: &str, addresses: &[IpAddr], line: Option<u32>, findings: &mut Findings) {
    if addresses.is_empty() {
        let what = format!("{root} has no folder whose name is an IP address, so that nothing is served");
        findings.warn(line, what, "make one for each address, and reload");
    }
}

/// The hosts of one address. Each name needs its own where scripts are in its folder.
fn named(root: &str, address: IpAddr, default: &str, has_scripts: bool, disk: &dyn Disk) -> Vec<Host> {
    let of_all = Host {
        address,
        name: None,
        root: format!("{root}/{address}/$host/{FILES}"),
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
        address,
        name: Some(name.clone()),
        root: format!("{}/{FILES}", folder(name)),
        default_folder: None,
        folder: Some(folder(name)),
    };
    std::iter::once(others)
        .chain(names.iter().filter(|name| *name != default).filter(has_files).map(of_name))
        .collect()
}
