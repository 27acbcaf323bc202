//! A download that has begun and whose response stays unread.

use rustix::net::{RecvFlags, recv};

use crate::client::Client;
use crate::server::Server;

/// Small, so that the server has to wait for the reader.
const RECEIVE_BUFFER: usize = 16 * 1024;

impl Server {
    /// Requests a file that fits into no buffer and waits for the first byte of the response. All of the
    /// response can still be read.
    pub fn begin_download(&self, path: &str) -> Client {
        let mut client = self.connect();
        client.set_receive_buffer(RECEIVE_BUFFER);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let (_, seen) = recv(&client, &mut [0; 1][..], RecvFlags::PEEK).expect("the response begins");
        assert_eq!(seen, 1, "the response begins");
        client
    }
}
