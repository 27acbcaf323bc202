use proptest::prelude::*;

use super::*;

const SMALL: ChunkLimits = ChunkLimits { line: 20, extensions: 30, trailers: 30 };

/// The data, and the result: the number of consumed bytes, `None` for a partial body, or the error.
type Outcome = (Vec<u8>, Result<Option<usize>, ChunkError>);

/// Decodes a body that arrives in these pieces.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: ChunkLimits) -> Outcome {
    let mut decoder = Decoder::new(limits);
    let (mut data, mut total) = (Vec::new(), 0);
    for mut piece in pieces {
        loop {
            match decoder.next(piece) {
                Err(error) => {
                    assert_eq!(decoder.next(b"0\r\n\r\n"), Err(error));
                    return (data, Err(error));
                }
                Ok((used, event)) => {
                    total += used;
                    piece = &piece[used..];
                    match event {
                        Event::Data(bytes) => {
                            assert!(!bytes.is_empty());
                            data.extend_from_slice(bytes);
                        }
                        Event::End => {
                            assert_eq!(decoder.next(b"x"), Ok((0, Event::End)));
                            return (data, Ok(Some(total)));
                        }
                        Event::NeedMore => {
                            assert!(piece.is_empty());
                            break;
                        }
                    }
                }
            }
        }
    }
    (data, Ok(None))
}

fn check(input: &str, data: &str, end: Result<Option<usize>, ChunkError>) {
    let (found, how) = decode([input.as_bytes()], SMALL);
    assert_eq!((String::from_utf8_lossy(&found).as_ref(), how), (data, end), "{input:?}");
}

#[test]
fn decodes_bodies() {
    check("0\r\n\r\n", "", Ok(Some(5)));
    check("5\r\nhello\r\n0\r\n\r\n", "hello", Ok(Some(15)));
    check("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET", "hello world", Ok(Some(26)));
    check("a\r\n0123456789\r\n00\r\n\r\n", "0123456789", Ok(Some(21)));
    check("00A\r\n0123456789\r\n0\r\n\r\n", "0123456789", Ok(Some(22)));
    check("0000000000000001\r\nx\r\n0\r\n\r\n", "x", Ok(Some(26)));
    check("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", Ok(Some(12)));
    check("0\r\nA: b\r\nC:\td e\r\n\r\n", "", Ok(Some(19)));
    check("0\r\nA:\r\n\r\n", "", Ok(Some(9)));
    check("", "", Ok(None));
    check("5", "", Ok(None));
    check("5\r\nhel", "hel", Ok(None));
    check("5\r\nhello\r", "hello", Ok(None));
    check("0\r\n\r", "", Ok(None));
    check("0\r\nA: b\r\n", "", Ok(None));
    check("ffffffffffffffff\r\nx", "x", Ok(None));
}

#[test]
fn rejects_malformed_sizes() {
    for size in [
        "", " 1", "\t1", "+1", "-1", "0x1", "g", "1 ", "1\t", "1 1", "1,1", "1_0", "１", "1\0", "\n1", "\r",
        ";a", "1x", "1 \t",
    ] {
        check(&format!("{size}\r\nx\r\n0\r\n\r\n"), "", Err(ChunkError::Size));
    }
    check("00000000000000001\r\nx\r\n", "", Err(ChunkError::SizeTooLarge));
    check("10000000000000000\r\nx\r\n", "", Err(ChunkError::SizeTooLarge));
    check("1\nx\r\n0\r\n\r\n", "", Err(ChunkError::LineEnd));
    check("1\r\rx\r\n0\r\n\r\n", "", Err(ChunkError::LineEnd));
    check("1\rx\r\n0\r\n\r\n", "", Err(ChunkError::LineEnd));
}

#[test]
fn rejects_data_that_is_not_as_long_as_its_size() {
    for (between, after) in
        [("", "0\r\n\r\n"), ("\n", "0\r\n\r\n"), ("\r", "0\r\n\r\n"), ("x\r\n", "0"), (" \r\n", "0")]
    {
        check(&format!("1\r\nx{between}{after}"), "x", Err(ChunkError::DataEnd));
    }
    check("2\r\nx\r\n0\r\n\r\n", "x\r", Err(ChunkError::DataEnd));
    check("1\r\nx\r\n\r\n0\r\n\r\n", "x", Err(ChunkError::Size));
}

#[test]
fn checks_extensions() {
    for extension in [
        ";a",
        ";a=b",
        ";a=\"b\"",
        ";a;b;c=d",
        " ; a = b",
        "\t;\ta\t=\t\"\t\"",
        ";a=\"\"",
        ";a=\";,=\"",
        ";a=\"\\\"\"",
        ";a=\"\\\\\"",
        ";a=\"é\"",
        ";a=\"b\" ;c",
        ";a ;b",
        ";a=b ;c",
    ] {
        check(&format!("1{extension}\r\nx\r\n0;z\r\n\r\n"), "x", Ok(Some(13 + extension.len())));
    }
    for extension in [
        ";",
        "; ",
        ";;",
        ";=",
        ";=b",
        ";a=",
        ";a= ",
        ";a==b",
        ";a b",
        ";a=b c",
        ";a=\"b",
        ";a=\"b\"c",
        ";a=b\"c\"",
        ";\"a\"",
        ";a=\"b\rc\"",
        ";a=\"\\",
        ";é",
        ";a=\0",
        ";a=\"\0\"",
        ";a=\"\x7f\"",
        ";a,b",
        ";a ",
        ";a=b ",
        ";a=b\t",
        ";a=\"b\" ",
        ";a\x0b",
    ] {
        let (found, how) = decode([format!("1{extension}\r\nx\r\n0\r\n\r\n").as_bytes()], SMALL);
        assert_eq!((&*found, how), (&b""[..], Err(ChunkError::Extension)), "{extension:?}");
    }
    check("1;a\nx", "", Err(ChunkError::LineEnd));
    check("1;a=\"\n", "", Err(ChunkError::LineEnd));
    check("1;a=\n", "", Err(ChunkError::LineEnd));
    check("1;a\r\r\nx", "", Err(ChunkError::LineEnd));
}

#[test]
fn rejects_malformed_trailers() {
    for trailer in
        [":", ": a", " A: b", "\tA: b", "A : b", "A", "A: b\r\n c", "A: \0", "A\0: b", "A: \x7f", "é: a"]
    {
        check(&format!("0\r\n{trailer}\r\n\r\n"), "", Err(ChunkError::Trailer));
    }
    check("0\r\nA: b\n\r\n", "", Err(ChunkError::LineEnd));
    check("0\r\n\n", "", Err(ChunkError::LineEnd));
    check("0\r\n\rA: b\r\n", "", Err(ChunkError::LineEnd));
    check("0\r\nA: b\rC: d\r\n\r\n", "", Err(ChunkError::LineEnd));
}

#[test]
fn rejects_bodies_over_a_limit() {
    check(&format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(18)), "x", Ok(Some(30)));
    check(&format!("1;{}", "a".repeat(19)), "", Err(ChunkError::LineTooLong));
    let chunk = "1;aaaaaaaaa\r\nx\r\n";
    check(&format!("{}0\r\n\r\n", chunk.repeat(3)), "xxx", Ok(Some(53)));
    check(&format!("{}1;", chunk.repeat(3)), "xxx", Err(ChunkError::ExtensionsTooLarge));
    check(&format!("0\r\nA: {}\r\n\r\n", "a".repeat(23)), "", Ok(Some(33)));
    check(&format!("0\r\nA: {}\r\n\r\n", "a".repeat(24)), "", Err(ChunkError::TrailersTooLarge));
    check(&format!("0\r\n{}", "A:\r\n".repeat(8)), "", Err(ChunkError::TrailersTooLarge));
    // Many small chunks are valid.
    check(&format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(100)), &"x".repeat(100), Ok(Some(605)));
}

#[test]
fn writes_size_lines_in_hexadecimal() {
    let check = |len: usize, expected: &str| {
        let mut out = Vec::new();
        write_size_line(len, &mut out);
        assert_eq!(out, expected.as_bytes());
    };
    check(1, "1\r\n");
    check(15, "f\r\n");
    check(16, "10\r\n");
    check(0xabc, "abc\r\n");
    check(usize::MAX, &format!("{:x}\r\n", usize::MAX));
}

fn encoded(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    chunks.iter().for_each(|chunk| write_chunk(chunk, &mut out));
    out.extend_from_slice(LAST_CHUNK);
    out
}

/// Valid and invalid bodies.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "1\r\nx\r\n",
        "5\r\nhello\r\n",
        "A\r\n0123456789\r\n",
        "1;a=\"\\\"\"\r\nx\r\n",
        "2 ;a = b;c\r\n\r\n\r\n",
        "0\r\n",
        "\r\n",
        "A: b\r\n",
        "0",
        "\n",
        "\r",
        ";",
        "\"",
        "fffffffff",
        " ",
    ]);
    let change = (any::<prop::sample::Index>(), prop::sample::select(b"\r\n\0 \t:;=\"1g\xff".to_vec()));
    (prop::collection::vec(piece, 0..8), prop::collection::vec(change, 0..2)).prop_map(|(pieces, changes)| {
        let mut bytes = format!("{}0\r\n\r\nGET", pieces.concat()).into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

fn cut<'a>(bytes: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    at.sort_unstable();
    let ends = at.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(at.iter().copied());
    starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_result_does_not_depend_on_the_cuts(
        body in body(),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for limits in [SMALL, ChunkLimits::default()] {
            let whole = decode([&*body], limits);
            prop_assert_eq!(&decode(cut(&body, &at), limits), &whole);
            prop_assert_eq!(&decode(body.chunks(1), limits), &whole);
        }
    }

    #[test]
    fn the_result_of_noise_does_not_depend_on_the_cuts(body: Vec<u8>) {
        prop_assert_eq!(decode([&*body], SMALL), decode(body.chunks(1), SMALL));
    }

    #[test]
    fn decodes_what_it_encodes(
        chunks in prop::collection::vec(any::<Vec<u8>>(), 0..5),
        rest: Vec<u8>,
    ) {
        let mut body = encoded(&chunks);
        let len = body.len();
        body.extend_from_slice(&rest);
        prop_assert_eq!(decode([&*body], SMALL), (chunks.concat(), Ok(Some(len))));
    }
}

#[test]
fn keeps_the_trailer_section_where_it_is_wanted() {
    let body = b"2\r\nab\r\n0\r\nA: b\r\nC:\td \r\n\r\nnext";
    for step in [1, 2, 5, body.len()] {
        let mut decoder = Decoder::keeping_trailers(SMALL);
        let mut discarding = Decoder::new(SMALL);
        for part in body.chunks(step) {
            for decoder in [&mut decoder, &mut discarding] {
                let mut rest = part;
                while let (used, Event::Data(_)) = decoder.next(rest).unwrap() {
                    rest = &rest[used..];
                }
            }
        }
        let lines: Vec<(Vec<u8>, Vec<u8>)> = crate::trailers::lines(&decoder.take_trailers())
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect();
        assert_eq!(lines, [(b"A".to_vec(), b"b".to_vec()), (b"C".to_vec(), b"d".to_vec())], "{step}");
        assert!(decoder.take_trailers().is_empty() && discarding.take_trailers().is_empty());
    }
    let mut incomplete = Decoder::keeping_trailers(SMALL);
    incomplete.next(b"0\r\nA: b\r\n").unwrap();
    assert!(incomplete.take_trailers().is_empty());
}

/// The data and the trailer section of a response. Errors: the broken rule, or none that is complete.
fn response(body: &str) -> Result<(String, Vec<u8>), Option<ChunkError>> {
    let (mut decoder, mut rest, mut data) = (Decoder::of_response(), body.as_bytes(), Vec::new());
    loop {
        let (used, event) = decoder.next(rest).map_err(Some)?;
        rest = &rest[used..];
        match event {
            Event::NeedMore => return Err(None),
            Event::Data(bytes) => data.extend_from_slice(bytes),
            Event::End => return Ok((String::from_utf8(data).unwrap(), decoder.take_trailers())),
        }
    }
}

#[test]
fn a_response_has_wider_limits() {
    let whole = |data: &str, trailers: &str| Ok((data.to_owned(), trailers.as_bytes().to_vec()));
    for padded in ["2  \r\nhi\r\n0\t\r\n\r\n", "2 ;a=b \r\nhi\r\n0;a \r\n\r\n"] {
        assert_eq!(response(padded), whole("hi", "\r\n"));
        assert!(decode([padded.as_bytes()], ChunkLimits::default()).1.is_err());
    }
    for bad in ["2 2\r\nhi\r\n0\r\n\r\n", " 2\r\nhi\r\n0\r\n\r\n"] {
        assert_eq!(response(bad), Err(Some(ChunkError::Size)));
    }
    let signed = format!("2;a={}\r\nhi\r\n", "x".repeat(4000)).repeat(100) + "0\r\n\r\n";
    assert_eq!(response(&signed), whole(&"hi".repeat(100), "\r\n"));
    let too_long = format!("2;a={}\r\nhi\r\n0\r\n\r\n", "x".repeat(16 * 1024));
    assert_eq!(response(&too_long), Err(Some(ChunkError::LineTooLong)));
    let trailing = |bytes: usize| response(&format!("2\r\nhi\r\n0\r\nA: {}\r\n\r\n", "x".repeat(bytes)));
    assert_eq!(trailing(8000), whole("hi", &format!("A: {}\r\n\r\n", "x".repeat(8000))));
    assert_eq!(trailing(9000), whole("hi", ""));
    assert_eq!(trailing(65_000), whole("hi", ""));
    assert_eq!(trailing(66_000), Err(Some(ChunkError::TrailersTooLarge)));
}
