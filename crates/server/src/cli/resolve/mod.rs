//! `taipan resolve`: replaces the addresses in access logs by names. Lines keep their order; a line without an address
//! stays as it is.

mod names_file;
mod questions;
mod split;

use std::collections::HashSet;
use std::io::{self, Write};
use std::net::IpAddr;
use std::process::ExitCode;

use report::entry::address;
use site::endpoint::Resolution;

use crate::cli::log_input::LogInput;
use crate::flags::Resolve;
use crate::resolver::{Resolver, SystemNames};
use crate::terminal;
use names_file::Names;
use questions::{NoAnswers, ask_all};
use split::Split;

/// Reads all logs, and prints them with names.
pub fn resolve(flags: &Resolve) -> ExitCode {
    match run(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => terminal::fail(why, 1),
    }
}

fn run(flags: &Resolve) -> Result<(), String> {
    let mut names = Names::default();
    if let Some(path) = &flags.names {
        names = Names::read(path)?;
    }
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let failed = |error: io::Error| format!("cannot resolve: {error}");
    let runtime = builder.enable_io().enable_time().build_local(Default::default()).map_err(failed)?;
    let servers = flags.server.into_iter().collect();
    let resolution = Resolution { servers, timeout: flags.timeout, ..Resolution::default() };
    let resolver = runtime.block_on(async { Resolver::new(&resolution, SystemNames::read()) })?;
    let mut split = flags.split.as_ref().map(|folder| Split::new(folder.clone())).transpose()?;
    let mut out = io::stdout().lock();
    let (mut asks, mut done) = (true, Ok(()));
    'inputs: for path in &flags.files {
        let mut input = LogInput::open(path)?;
        loop {
            let mut block = Vec::new();
            let has_more = input.next(|lines| block.extend_from_slice(lines));
            if !has_more.map_err(|error| format!("cannot read {}: {error}", path.display()))? {
                break;
            }
            if asks
                && let Err(NoAnswers(count)) =
                    runtime.block_on(ask_all(&resolver, unknown(&block, &names), flags, &mut names))
            {
                asks = false;
                terminal::err(format_args!(
                    "taipan: none of {count} questions had an answer, so that no more are asked, and addresses stay as they \
                     are; look at the DNS servers, or name one with --dns"
                ));
            }
            let written = match &mut split {
                Some(split) => split.write(&block, &names),
                None => write(&block, &names, &mut out).map_err(|error| format!("cannot write: {error}")),
            };
            if written.is_err() {
                done = written;
                break 'inputs;
            }
        }
    }
    // What was asked is kept, also if the reader of the output has ended.
    if let Some(path) = &flags.names {
        names.write(path)?;
    }
    done
}

/// The addresses of which nothing is known.
fn unknown(block: &[u8], names: &Names) -> HashSet<IpAddr> {
    let found = block.split(|byte| *byte == b'\n').filter_map(address);
    found.map(|(_, address)| address).filter(|address| !names.has(*address)).collect()
}

fn write(block: &[u8], names: &Names, to: &mut impl Write) -> io::Result<()> {
    let mut out = Vec::with_capacity(block.len() + block.len() / 4);
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        append(line, names, &mut out);
    }
    to.write_all(&out)?;
    to.flush()
}

fn append(line: &[u8], names: &Names, out: &mut Vec<u8>) {
    match address(line).and_then(|(range, address)| Some((range, names.name(address)?))) {
        Some((range, name)) => {
            out.extend_from_slice(&line[..range.start]);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&line[range.end..]);
        }
        None => out.extend_from_slice(line),
    }
}
