//! The fields of a stored response.

/// A field of a stored response, as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: Box<str>,
    pub value: Box<[u8]>,
}

/// The values of the fields with this name, in order.
pub fn values<'a>(fields: &'a [Field], name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| &*field.value)
}

/// The value of a field that is there once.
pub fn only<'a>(fields: &'a [Field], name: &'a str) -> Option<&'a [u8]> {
    let mut values = values(fields, name);
    values.next().filter(|_| values.next().is_none())
}
