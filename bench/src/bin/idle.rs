//! Holds connections that are idle after one request, to measure a server's memory for each. Ends when its standard
//! input ends, so that it cannot outlive the process that started it.

use std::env;
use std::error::Error;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;

use bench::response::{self, Persistence};

const USAGE: &str = "usage: idle ADDRESS:PORT PATH CONNECTIONS; ends when standard input ends";

fn main() -> ExitCode {
    bench::exit("idle", arguments().and_then(|(to, path, count)| hold(to, &path, count)))
}

fn arguments() -> Result<(SocketAddr, String, usize), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &words[..] {
        [to, path, count] => Ok((to.parse()?, path.clone(), count.parse()?)),
        _ => Err(USAGE.into()),
    }
}

fn hold(to: SocketAddr, path: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let request = response::request(to, path, Persistence::KeepAlive);
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let connection = open(to, &request).map_err(|error| format!("connection {number}: {error}"))?;
        connections.push(connection);
    }
    println!("ready {count}");
    io::stdin().read_to_end(&mut Vec::new())?;
    println!("open {}", connections.iter().filter(|connection| is_open(connection)).count());
    Ok(())
}

fn open(to: SocketAddr, request: &[u8]) -> Result<TcpStream, Box<dyn Error>> {
    let mut connection = response::connect(to)?;
    response::measure(&mut connection, request)?;
    Ok(connection)
}

/// Whether the server still holds its side: nothing to read and no FIN.
fn is_open(connection: &TcpStream) -> bool {
    let looked = connection.set_nonblocking(true).and_then(|()| connection.peek(&mut [0]));
    looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
