//! A download that has begun and is not read on: the answer is on its way, and stays there.

use rustix::net::{RecvFlags, recv};

use crate::client::Client;
use crate::server::Server;

/// Small, so that the server has to wait for whoever does not read.
const RECEIVE_BUFFER: usize = 16 * 1024;

impl Server {
    /// Asks for a file that fits into no buffer, and reads the answer no further than to see that it has
    /// begun. All of it is still there to be read.
    pub fn begin_download(&self, path: &str) -> Client {
        let mut client = self.connect();
        client.set_receive_buffer(RECEIVE_BUFFER);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let (_, seen) = recv(&client, &mut [0; 1][..], RecvFlags::PEEK).expect("the answer begins");
        assert_eq!(seen, 1, "the answer begins");
        client
    }
}
