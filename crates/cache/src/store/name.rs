//! The names of the files: where one is follows from its key, so that an index can be made of names alone.

/// One stored response, by hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// [`Key::resource`](crate::key::Key::resource).
    pub resource: u128,
    /// Of what sets it apart from others of the same resource.
    pub variant: u64,
}

/// The folders beneath the folder of a cache.
pub const SHARDS: u16 = 256;

/// Bytes of the name of a file: the rest of the hash, a dash, and the variant.
const LENGTH: usize = 30 + 1 + 16;

impl Name {
    /// The number of the folder that the file is in.
    pub fn shard(self) -> u8 {
        (self.resource >> 120) as u8
    }

    /// The name of the file in its folder.
    pub fn file(self) -> String {
        let rest = self.resource & (u128::MAX >> 8);
        format!("{rest:030x}-{:016x}", self.variant)
    }

    /// The reverse of `shard` and `file`. `None`: it is not the name of a stored response.
    pub fn parse(shard: u8, file: &[u8]) -> Option<Name> {
        let file = std::str::from_utf8(file).ok().filter(|file| file.len() == LENGTH)?;
        let (rest, variant) = file.split_once('-').filter(|(rest, _)| rest.len() == 30)?;
        let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hex(rest) || !is_hex(variant) {
            return None;
        }
        let rest = u128::from_str_radix(rest, 16).ok()?;
        let variant = u64::from_str_radix(variant, 16).ok()?;
        Some(Name { resource: u128::from(shard) << 120 | rest, variant })
    }
}

/// The name of the folder with this number.
pub fn folder(shard: u8) -> String {
    format!("{shard:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_parsed_to_itself() {
        for (resource, variant) in
            [(0, 0), (u128::MAX, u64::MAX), (0x0123 << 112, 1), (1, 0xabc), (u128::MAX >> 8, 7)]
        {
            let name = Name { resource, variant };
            assert_eq!(Name::parse(name.shard(), name.file().as_bytes()), Some(name));
        }
        assert_eq!(Name { resource: 0xabu128 << 120 | 5, variant: 6 }.shard(), 0xab);
        assert_eq!(folder(0x0a), "0a");
    }

    #[test]
    fn other_names_are_no_names() {
        let good = Name { resource: 0, variant: 0 }.file();
        for bad in [
            "",
            "taipan-cache",
            "new-0123456789abcdef",
            &good[1..],
            &format!("{good}0"),
            &good.replace('-', "0"),
            &good.replacen('0', "A", 1),
            &good.replacen('0', "+", 1),
            &good.replacen("0-0", "-00", 1),
        ] {
            assert_eq!(Name::parse(0, bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Name::parse(0, &[0xff; LENGTH]), None);
    }
}
