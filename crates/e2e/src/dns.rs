//! A DNS server (RFC 1035) that is a thread of a test. It answers over UDP from a table that the test changes.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

const A: u16 = 1;
pub const CNAME: u16 = 5;
pub const PTR: u16 = 12;
const AAAA: u16 = 28;
pub const SRV: u16 = 33;

/// Type, time to live in seconds, and data.
pub type Record = (u16, u32, Vec<u8>);

/// What the server answers to questions for a name. Other names do not exist.
#[derive(Clone)]
pub enum Answer {
    /// Those of the type that is asked for, and aliases.
    Records(Vec<Record>),
    /// The records, but SERVFAIL to questions for IPv4 addresses.
    WithoutIpv4(Vec<Record>),
    /// A response code: 2 is SERVFAIL, 3 NXDOMAIN.
    Code(u8),
    Silence,
    /// Bytes that are no message.
    Garbage,
    /// An answer for another question.
    Other,
}

pub struct Dns {
    pub address: SocketAddr,
    table: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Dns {
    pub fn start() -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let table = Arc::new(Mutex::new(HashMap::new()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (of_thread, questions) = (table.clone(), asked.clone());
        thread::spawn(move || {
            let mut packet = [0; 1024];
            while let Ok((length, peer)) = socket.recv_from(&mut packet) {
                if let Some(answer) = answer(&packet[..length], &of_thread, &questions) {
                    socket.send_to(&answer, peer).expect("it asks");
                }
            }
        });
        Dns { address, table, asked }
    }

    pub fn set(&self, name: &str, answer: Answer) {
        self.table.lock().expect("no panic").insert(name.to_owned(), answer);
    }

    /// Records of addresses that are valid for a second.
    pub fn set_ips(&self, name: &str, ips: &[&str]) {
        self.set(name, Answer::Records(ips.iter().map(|text| ip(text, 1)).collect()));
    }

    /// How often a name has been asked for.
    pub fn asked(&self, name: &str) -> usize {
        self.asked.lock().expect("no panic").iter().filter(|asked| *asked == name).count()
    }

    /// All questions.
    pub fn questions(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }
}

/// A name, as messages have it.
pub fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').filter(|label| !label.is_empty());
    labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).chain([0]).collect()
}

/// The record of an address.
pub fn ip(text: &str, ttl: u32) -> Record {
    match text.parse().expect("it is an address") {
        IpAddr::V4(ip) => (A, ttl, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AAAA, ttl, ip.octets().to_vec()),
    }
}

fn answer(
    query: &[u8],
    table: &Mutex<HashMap<String, Answer>>,
    asked: &Mutex<Vec<String>>,
) -> Option<Vec<u8>> {
    let (mut labels, mut at) = (Vec::new(), 12);
    while query[at] > 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..at + 1 + length]).to_lowercase());
        at += 1 + length;
    }
    let question = &query[12..at + 5];
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    let known = table.lock().expect("no panic").get(&labels.join(".")).cloned().unwrap_or(Answer::Code(3));
    asked.lock().expect("no panic").push(labels.join("."));
    let (code, records) = match known {
        Answer::Silence => return None,
        Answer::Garbage => return Some([&query[..2], &[0xff; 40]].concat()),
        Answer::Other => {
            let mut other = [&query[..2], &[0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
            other.extend(name("other.test"));
            other.extend([0, 1, 0, 1]);
            return Some(other);
        }
        Answer::Code(code) => (code, Vec::new()),
        Answer::WithoutIpv4(_) if kind == A => (2, Vec::new()),
        Answer::Records(records) | Answer::WithoutIpv4(records) => (0, records),
    };
    let fits: Vec<_> = records.into_iter().filter(|(own, ..)| *own == kind || *own == CNAME).collect();
    let count = (fits.len() as u16).to_be_bytes();
    let mut bytes = [&query[..2], &[0x81, 0x80 | code, 0, 1], &count, &[0, 0, 0, 0], question].concat();
    for (kind, ttl, data) in fits {
        bytes.extend([0xc0, 12]);
        bytes.extend([kind, 1].iter().flat_map(|number| number.to_be_bytes()));
        bytes.extend(ttl.to_be_bytes());
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(data);
    }
    Some(bytes)
}
