//! What the limits of a site add up to: memory, descriptors and space on disks.

use site::memory::{self, Use};
use site::model::{CacheFiles, Scripts, Site};

use crate::{start, terminal};

pub fn print(site: &Site) {
    let workers = start::workers(site).get();
    terminal::out(format_args!("\nMemory typically, without scripts and applications (workers: {workers}):"));
    for line in memory::typical(site, workers) {
        terminal::out(format_args!("  {:>10}  {}", bytes(line.bytes), line.when));
    }
    terminal::out(format_args!(
        "\nMemory at worst, if every connection does the most expensive thing at once:"
    ));
    print_uses(&memory::worst_case(site, workers), bytes);
    let descriptors = memory::descriptors(site, workers);
    terminal::out(format_args!("\nDescriptors at worst:"));
    print_uses(&descriptors, |n| n.to_string());
    print_descriptor_limit(site, workers, memory::total(&descriptors));
    print_disk(site);
}

/// Prints the limit of descriptors, and the lowered limits of the site if it is too low.
fn print_descriptor_limit(site: &Site, workers: usize, needed: u64) {
    let allowed = start::raise_descriptor_limit();
    if needed <= allowed {
        terminal::out(format_args!("  {allowed:>10}  allowed to this process"));
        return;
    }
    let mut fitted = site.clone();
    memory::fit(&mut fitted, workers, allowed);
    terminal::out(format_args!(
        "\nDescriptors with lowered limits, because this process may have only {allowed}:"
    ));
    print_uses(&memory::descriptors(&fitted, workers), |n| n.to_string());
    terminal::out(format_args!(
        "  Raise `ulimit -Hn` (LimitNOFILE in a unit), or lower `connections` in [limits]."
    ));
}

/// Prints the disk space that bodies of requests, and stored responses, may take.
fn print_disk(site: &Site) {
    if !site.has_scripts() && site.cache_files.is_none() {
        return;
    }
    terminal::out(format_args!("\nDisk at worst:"));
    if let Some(CacheFiles { folder, bytes: most, .. }) = &site.cache_files {
        terminal::out(format_args!(
            "  {:>10}  stored responses, in {} (`bytes`)",
            bytes(*most),
            folder.display()
        ));
    }
    if site.has_scripts() {
        print_spool(site);
    }
}

fn print_spool(site: &Site) {
    let Scripts { spool, spool_bytes, .. } = &site.scripts;
    let (most, folder) = (bytes(*spool_bytes), spool.display());
    terminal::out(format_args!(
        "  {most:>10}  request bodies of unknown length, and responses to slow clients, in {folder} (`spool_bytes`)"
    ));
    let routes = site.hosts.iter().flat_map(|host| host.routes.iter());
    for route in routes.filter(|route| route.script.is_some() && route.max_body > *spool_bytes) {
        let (name, body) = (route.name(), bytes(route.max_body));
        terminal::out(format_args!(
            "  but the route {name} accepts bodies of {body}: those of unknown length are rejected beyond {most}"
        ));
    }
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

/// In the largest unit in which the number is at least 1.
fn bytes(n: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, size)| n >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", n as f64 / *size as f64),
        None => format!("{n} B"),
    }
}
