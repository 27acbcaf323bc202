//! Places to cut bytes, lines, and bytes that are written as text.

/// Four places in `data`, including its ends, in ascending order. The last eight bytes choose them: a fuzzer can change
/// them, and a file of a corpus needs nothing besides its text.
pub fn cuts(data: &[u8]) -> [usize; 4] {
    let mut places = [0; 4];
    for (place, pair) in places.iter_mut().zip(data.rchunks_exact(2)) {
        *place = usize::from(u16::from_be_bytes([pair[0], pair[1]])) % (data.len() + 1);
    }
    places.sort_unstable();
    places
}

/// The first line, and what follows its LF.
pub fn first_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, b""),
    }
}

/// The integer in `text`, or 0.
pub fn number<Number: std::str::FromStr + Default>(text: &[u8]) -> Number {
    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// Each `%` with two hexadecimal digits is one byte.
pub fn unescaped(data: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (mut bytes, mut rest) = (Vec::with_capacity(data.len()), data);
    while let [first, others @ ..] = rest {
        let escape = match *rest {
            [b'%', high, low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        match escape {
            Some((high, low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    bytes
}
