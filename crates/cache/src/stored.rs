//! What is stored of a response beside its body, and its form in a file.

use taipan_http::fields::{is_token, is_value, list};
use taipan_http::status::Status;

use crate::fields::{Field, values};
use crate::settings::Settings;
use crate::vary::Variant;

/// A stored response without its body. The fields are those that the upstream has sent, without the ones that concern
/// only its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub status: Status,
    pub fields: Vec<Field>,
    pub times: Times,
    /// The fields of the request that select it.
    pub variant: Variant,
}

/// When the response was requested, and when its head was received. Seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub requested: i64,
    pub received: i64,
}

/// The first byte of an encoded response. Another one is a form that this version does not know.
const FORM: u8 = 1;
/// The most fields of an encoded response, and of its variant.
const MOST_FIELDS: usize = 1024;

impl Stored {
    /// The tags by which it can be purged, as the fields name them: a list with commas or spaces.
    pub fn tags<'a>(&'a self, settings: &'a Settings) -> impl Iterator<Item = &'a [u8]> {
        let lines = settings.tag_fields.iter().flat_map(|name| values(&self.fields, name));
        list_or_words(lines)
    }

    /// Appends its form in a file.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORM);
        out.extend_from_slice(&self.status.code().to_le_bytes());
        out.extend_from_slice(&self.times.requested.to_le_bytes());
        out.extend_from_slice(&self.times.received.to_le_bytes());
        write_number(self.fields.len(), out);
        for Field { name, value } in &self.fields {
            write_bytes(name.as_bytes(), out);
            write_bytes(value, out);
        }
        write_number(self.variant.0.len(), out);
        for (name, value) in &self.variant.0 {
            write_bytes(name.as_bytes(), out);
            out.push(u8::from(value.is_some()));
            write_bytes(value.as_deref().unwrap_or_default(), out);
        }
    }

    /// Reads what `encode` has written. `None`: it is anything else.
    pub fn decode(bytes: &[u8]) -> Option<Stored> {
        let mut reader = Reader(bytes);
        let [FORM] = *reader.take(1)? else { return None };
        let status = Status::new(u16::from_le_bytes(reader.array()?))?;
        let requested = i64::from_le_bytes(reader.array()?);
        let received = i64::from_le_bytes(reader.array()?);
        let mut fields = Vec::new();
        for _ in 0..reader.count()? {
            let (name, value) = (reader.name()?, reader.bytes()?);
            is_value(value).then(|| fields.push(Field { name, value: value.into() }))?;
        }
        let mut variant = Vec::new();
        for _ in 0..reader.count()? {
            let (name, is_there, value) = (reader.name()?, reader.take(1)?, reader.bytes()?);
            let value = match is_there {
                [0] if value.is_empty() => None,
                [1] => Some(value.into()),
                _ => return None,
            };
            variant.push((name, value));
        }
        let times = Times { requested, received };
        reader.0.is_empty().then_some(Stored { status, fields, times, variant: Variant(variant) })
    }

    /// Bytes of memory that it takes, about.
    pub fn cost(&self) -> usize {
        let fields =
            self.fields.iter().map(|field| field.name.len() + field.value.len() + size_of::<Field>());
        let variant =
            self.variant.0.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, |v| v.len()));
        size_of::<Stored>() + fields.sum::<usize>() + variant.sum::<usize>()
    }
}

/// The members of lists that commas or spaces separate.
fn list_or_words<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    list(lines).flat_map(|member| member.split(|&byte| byte == b' ').filter(|word| !word.is_empty()))
}

fn write_number(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_number(bytes.len(), out);
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn count(&mut self) -> Option<usize> {
        self.number().filter(|&count| count <= MOST_FIELDS)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    fn name(&mut self) -> Option<Box<str>> {
        let name = self.bytes().filter(|name| is_token(name))?;
        Some(std::str::from_utf8(name).ok()?.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored() -> Stored {
        let field = |name: &str, value: &[u8]| Field { name: name.into(), value: value.into() };
        Stored {
            status: Status::OK,
            fields: vec![
                field("ETag", b"\"a\""),
                field("Cache-Tag", b"news, page-1"),
                field("Surrogate-Key", b"a b"),
            ],
            times: Times { requested: -5, received: 1_800_000_000 },
            variant: Variant(vec![
                ("accept".into(), None),
                ("accept-encoding".into(), Some(b"gzip"[..].into())),
            ]),
        }
    }

    #[test]
    fn is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        stored().encode(&mut bytes);
        assert_eq!(Stored::decode(&bytes), Some(stored()));
        for length in 0..bytes.len() {
            assert_eq!(Stored::decode(&bytes[..length]), None, "{length}");
        }
        bytes.push(0);
        assert_eq!(Stored::decode(&bytes), None);
    }

    #[test]
    fn has_the_tags_that_its_fields_name() {
        let stored = stored();
        let settings = Settings::default();
        let tags: Vec<_> = stored.tags(&settings).map(String::from_utf8_lossy).collect();
        assert_eq!(tags, ["news", "page-1", "a", "b"]);
    }

    proptest! {
        #[test]
        fn a_stored_response_has_one_encoded_form(bytes: Vec<u8>, at: prop::sample::Index, byte: u8) {
            let again = |bytes: &[u8]| {
                if let Some(stored) = Stored::decode(bytes) {
                    let mut encoded = Vec::new();
                    stored.encode(&mut encoded);
                    assert_eq!(encoded, bytes);
                }
            };
            again(&bytes);
            let mut changed = Vec::new();
            stored().encode(&mut changed);
            let at = at.index(changed.len());
            changed[at] = byte;
            again(&changed);
        }
    }
}
