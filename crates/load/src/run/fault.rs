//! The ways in which a request can fail, and which side is at fault.

/// How a request failed. The order is that of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No server listens there, or its queue is full.
    Refused,
    /// The host or the network cannot be reached, or there is no route.
    Unreachable,
    /// The connection was reset, or closed before any byte of the response.
    Reset,
    /// The TLS handshake failed.
    Handshake,
    Timeout,
    /// It was due, but until the run ended every connection was waiting for earlier responses.
    Unsent,
    /// The response is not HTTP.
    Malformed,
    /// The status is not one that counts as right.
    Status,
    /// The connection ended within the body.
    ShortBody,
    /// A complete body of another length than expected.
    WrongLength,
    /// A complete body of the right length with other bytes.
    WrongBody,
    /// The generator's own system has no local port left (`EADDRNOTAVAIL`).
    NoPorts,
    /// The generator's own system gives it no more descriptors (`EMFILE`, `ENFILE`).
    NoDescriptors,
}

/// The side that is at fault for a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The server, or the network on the way to it.
    Server,
    /// The generator: nothing is known about the server.
    Client,
}

impl Fault {
    pub const ALL: [Fault; 13] = [
        Fault::Refused,
        Fault::Unreachable,
        Fault::Reset,
        Fault::Handshake,
        Fault::Timeout,
        Fault::Unsent,
        Fault::Malformed,
        Fault::Status,
        Fault::ShortBody,
        Fault::WrongLength,
        Fault::WrongBody,
        Fault::NoPorts,
        Fault::NoDescriptors,
    ];

    /// The name in JSON and CSV.
    pub const fn key(self) -> &'static str {
        match self {
            Fault::Refused => "refused",
            Fault::Unreachable => "unreachable",
            Fault::Reset => "reset",
            Fault::Handshake => "handshake",
            Fault::Timeout => "timeout",
            Fault::Unsent => "unsent",
            Fault::Malformed => "malformed",
            Fault::Status => "status",
            Fault::ShortBody => "short_body",
            Fault::WrongLength => "wrong_length",
            Fault::WrongBody => "wrong_body",
            Fault::NoPorts => "no_ports",
            Fault::NoDescriptors => "no_descriptors",
        }
    }

    /// The fault in the words of the reports.
    pub const fn words(self) -> &'static str {
        match self {
            Fault::Refused => "connection refused",
            Fault::Unreachable => "host or network unreachable",
            Fault::Reset => "reset, or closed without a response",
            Fault::Handshake => "TLS handshake failed",
            Fault::Timeout => "timed out",
            Fault::Unsent => "due but never sent: no connection was free",
            Fault::Malformed => "response is not HTTP",
            Fault::Status => "unexpected status",
            Fault::ShortBody => "body cut short",
            Fault::WrongLength => "body of another length",
            Fault::WrongBody => "body with other bytes",
            Fault::NoPorts => "no local port left (the client's limit)",
            Fault::NoDescriptors => "no descriptor left (the client's limit)",
        }
    }

    /// Whose fault it is.
    pub const fn side(self) -> Side {
        match self {
            Fault::NoPorts | Fault::NoDescriptors => Side::Client,
            _ => Side::Server,
        }
    }

    /// Whether a response came and was wrong, so that the report names its URL.
    pub const fn is_wrong_response(self) -> bool {
        matches!(
            self,
            Fault::Malformed | Fault::Status | Fault::ShortBody | Fault::WrongLength | Fault::WrongBody
        )
    }
}

/// Failed requests by fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Faults {
    pub fn count(&mut self, fault: Fault) {
        self.add(fault, 1);
    }

    pub fn add(&mut self, fault: Fault, count: u64) {
        let slot = &mut self.0[fault as usize];
        *slot = slot.saturating_add(count);
    }

    /// How many requests failed in this way.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// The sum of some faults.
    pub fn of_any(&self, faults: &[Fault]) -> u64 {
        faults.iter().map(|&fault| self.of(fault)).fold(0, u64::saturating_add)
    }

    /// All failed requests.
    pub fn total(&self) -> u64 {
        self.of_any(&Fault::ALL)
    }

    /// Those that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.into_iter().map(|fault| (fault, self.of(fault))).filter(|&(_, count)| count > 0)
    }

    pub fn merge(&mut self, other: &Faults) {
        for (fault, count) in other.iter() {
            self.add(fault, count);
        }
    }
}
