//! The priority of a response (RFC 9218 §4): how urgent it is, and whether the client can use a part of it. Knows
//! nothing of streams.

/// The value of the field `Priority` and of PRIORITY_UPDATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 to 7; 0 is the most urgent.
    pub urgency: u8,
    /// The client can use a part of the response, so it may share the connection with others.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Of a request that does not say it.
    pub const UNKNOWN: Priority = Priority { urgency: 3, incremental: true };

    /// Parses a dictionary of structured fields (RFC 8941 §3.2). Ignores other members, values of another type or
    /// range, and the parameters of values: a priority is a hint.
    pub fn parse(value: &[u8]) -> Priority {
        Priority::default().changed_by(value)
    }

    /// With the members of `value`, as the field of a response changes the priority of its request (RFC 9218 §8).
    pub fn changed_by(self, value: &[u8]) -> Priority {
        let mut priority = self;
        for member in value.split(|&byte| byte == b',') {
            match member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_changes_what_its_field_names() {
        let requested = Priority { urgency: 5, incremental: true };
        for (value, urgency, incremental) in
            [("", 5, true), ("u=1", 1, true), ("i=?0", 5, false), ("u=0, i=?0", 0, false), ("u=9", 5, true)]
        {
            assert_eq!(requested.changed_by(value.as_bytes()), Priority { urgency, incremental }, "{value}");
        }
    }

    #[test]
    fn parses_urgency_and_incremental() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7,i", 7, true),
            ("i, u=5", 5, true),
            ("i=?0", 3, false),
            ("i=?1;x=y, u=1;z", 1, true),
            ("u=1, u=2", 2, false),
            ("u=8", 3, false),
            ("u=-1, i=1", 3, false),
            ("u=\"1\", x, y=z", 3, false),
            (",,\0,;", 3, false),
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, incremental }, "{value}");
        }
    }
}
