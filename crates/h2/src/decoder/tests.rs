//! Tables of frames and their events, however they are cut.

use super::*;
use crate::frame::{MAX_PAYLOAD, PRIORITY, write_frame};

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, kind, flags, stream, payload);
    out
}

/// The events of `bytes` in parts of `size`. Joins the data of a frame.
fn events(bytes: &[u8], size: usize) -> Result<String, FrameError> {
    let (mut decoder, mut out) = (FrameDecoder::new(100), String::new());
    for mut part in bytes.chunks(size) {
        loop {
            let (used, event) = decoder.next(part)?;
            part = &part[used..];
            out += &match event {
                Event::NeedMore => break,
                Event::DataHeader { stream, length, .. } => format!("[{stream} data {length}]"),
                Event::Data { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
                Event::Headers { stream, frames, whole } => {
                    let block = whole.unwrap_or(decoder.block());
                    format!("[{stream} headers {:?} {frames}]", String::from_utf8_lossy(block))
                }
                Event::EndStream { stream } => format!("[{stream} end]"),
                Event::Reset { stream, code } => format!("[{stream} reset {}]", code.0),
                Event::Settings(Settings { max_concurrent_streams: Some(max), .. }) => format!("[max {max}]"),
                Event::Settings(_) => "[settings]".into(),
                Event::SettingsAck | Event::Ignored | Event::BlockPart => String::new(),
                Event::PriorityUpdate { stream, priority: Priority { urgency, incremental } } => {
                    format!("[{stream} priority {urgency} {incremental}]")
                }
                Event::Ping(payload) => format!("[ping {}]", payload[7]),
                Event::PingAck(payload) => format!("[ping ack {}]", payload[7]),
                Event::GoAway { last_stream, code } => format!("[goaway {last_stream} {}]", code.0),
                Event::WindowUpdate { stream, increment } => format!("[{stream} window {increment}]"),
            };
        }
    }
    Ok(out)
}

fn check(frames: &[Vec<u8>], expected: Result<&str, FrameError>) {
    let bytes = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
    let expected = expected.map(|events| format!("[settings]{events}"));
    for size in (1..40).chain([bytes.len()]) {
        assert_eq!(events(&bytes, size), expected, "in parts of {size}");
    }
}

#[test]
fn decodes_each_type_of_frame() {
    check(
        &[frame(DATA, 0, 1, b"ab"), frame(DATA, END_STREAM, 1, b"c")],
        Ok("[1 data 2]ab[1 data 1]c[1 end]"),
    );
    check(&[frame(DATA, 0, 1, b""), frame(DATA, END_STREAM, 1, b"")], Ok("[1 data 0][1 data 0][1 end]"));
    check(&[frame(DATA, PADDED, 1, &[2, b'c', 0, 0]), frame(PING, 0, 0, &[5; 8])], Ok("[1 data 4]c[ping 5]"));
    check(&[frame(PING, ACK, 0, &[6; 8])], Ok("[ping ack 6]"));
    check(&[frame(DATA, PADDED | END_STREAM, 1, &[1, 0])], Ok("[1 data 2][1 end]"));
    check(&[frame(DATA, PADDED | END_STREAM, 1, &[0])], Ok("[1 data 1][1 end]"));
    check(&[frame(HEADERS, END_HEADERS, 3, b"x")], Ok("[3 headers \"x\" 1]"));
    check(&[frame(HEADERS, END_HEADERS | END_STREAM, 3, b"")], Ok("[3 headers \"\" 1][3 end]"));
    check(
        &[frame(HEADERS, END_HEADERS | PADDED | PRIORITY_FLAG, 3, &[2, 0, 0, 0, 0, 9, b'x', 0, 0])],
        Ok("[3 headers \"x\" 1]"),
    );
    check(
        &[
            frame(HEADERS, END_STREAM, 3, b"x"),
            frame(CONTINUATION, 0, 3, b""),
            frame(CONTINUATION, END_HEADERS, 3, b"y"),
            frame(HEADERS, END_HEADERS, 5, b"z"),
        ],
        Ok("[3 headers \"xy\" 3][3 end][5 headers \"z\" 1]"),
    );
    check(&[frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])], Ok("[1 reset 8]"));
    check(&[frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9])], Ok("[max 9]"));
    check(&[frame(GOAWAY, 0, 0, &[0x80, 0, 0, 5, 0, 0, 0, 2, b'd', b'e'])], Ok("[goaway 5 2]"));
    check(&[frame(WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 1])], Ok("[0 window 1]"));
    check(&[frame(WINDOW_UPDATE, 0, 7, &[0, 0, 1, 0])], Ok("[7 window 256]"));
    check(&[frame(PRIORITY_UPDATE, 0, 0, b"\x80\0\0\x07u=1, i")], Ok("[7 priority 1 true]"));
}

#[test]
fn ignores_acknowledgements_priorities_and_unknown_types() {
    for ignored in [
        frame(SETTINGS, ACK, 0, &[]),
        frame(PRIORITY, 0, 1, &[0; 5]),
        frame(0xbe, 0xff, 9, b"new"),
        frame(0xbe, 0, 0, &vec![1; MAX_PAYLOAD]),
    ] {
        check(&[ignored, frame(PING, 0, 0, &[5; 8])], Ok("[ping 5]"));
    }
}

#[test]
fn rejects_frames_that_break_a_rule() {
    use FrameError::*;
    let headers = |flags, payload: &[u8]| frame(HEADERS, flags, 1, payload);
    check(&[frame(DATA, 0, 0, b"x")], Err(Stream));
    check(&[frame(PING, 0, 0, &[0; 7])], Err(Length));
    check(&[frame(DATA, 0, 1, &vec![0; MAX_PAYLOAD + 1])], Err(TooLarge));
    check(&[frame(DATA, PADDED, 1, &[])], Err(Length));
    check(&[headers(END_HEADERS | PADDED, &[])], Err(Length));
    check(&[headers(END_HEADERS | PADDED, &[2, 1])], Err(Padding));
    check(&[headers(END_HEADERS | PRIORITY_FLAG, &[0; 4])], Err(Length));
    check(&[headers(END_HEADERS | PADDED | PRIORITY_FLAG, &[1, 0, 0, 0, 0, 9])], Err(Padding));
    check(&[frame(CONTINUATION, END_HEADERS, 1, b"x")], Err(Continuation));
    check(&[headers(END_HEADERS, b"x"), frame(CONTINUATION, END_HEADERS, 1, b"x")], Err(Continuation));
    check(&[headers(0, b"x"), frame(CONTINUATION, END_HEADERS, 3, b"x")], Err(Interrupted));
    check(&[headers(0, b"x"), frame(DATA, 0, 1, b"x")], Err(Interrupted));
    check(&[headers(0, b"x"), frame(0xbe, 0, 0, b"x")], Err(Interrupted));
    check(&[frame(PRIORITY, 0, 1, &[0x80, 0, 0, 1, 9])], Err(Dependency));
    check(&[headers(END_HEADERS | PRIORITY_FLAG, &[0, 0, 0, 1, 9])], Err(Dependency));
    check(&[frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1])], Err(Stream));
    check(&[frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 0])], Err(Stream));
    check(&[frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 1])], Err(Length));
    check(&[frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])], Err(PushPromise));
    check(&[frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2])], Err(Setting));
    check(&[frame(SETTINGS, 0, 0, &[0, 4, 0xff, 0, 0, 0])], Err(InitialWindow));
    check(&[frame(WINDOW_UPDATE, 0, 1, &[0x80, 0, 0, 0])], Err(Increment));
    check(&[frame(DATA, PADDED, 1, &[9, 1])], Err(Padding));
}

#[test]
fn requires_settings_first() {
    for first in [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, ACK, 0, &[]), frame(0xbe, 0, 0, b"")] {
        assert_eq!(events(&first, 100), Err(FrameError::NoSettings));
    }
    assert_eq!(events(b"HTTP/1.1 400 Bad Request\r\n\r\n", 100), Err(FrameError::TooLarge));
}

#[test]
fn limits_the_bytes_and_the_frames_of_a_block() {
    let first = frame(HEADERS, 0, 1, &[b'x'; 60]);
    check(
        &[first.clone(), frame(CONTINUATION, END_HEADERS, 1, &[b'x'; 40])],
        Ok(&format!("[1 headers {:?} 2]", "x".repeat(100))),
    );
    check(&[first, frame(CONTINUATION, END_HEADERS, 1, &[b'x'; 41])], Err(FrameError::BlockTooLarge));
    let many = |count| {
        let mut frames = vec![frame(CONTINUATION, 0, 1, b""); count];
        frames[0] = frame(HEADERS, 0, 1, b"");
        frames.push(frame(CONTINUATION, END_HEADERS, 1, b"x"));
        frames
    };
    check(&many(MAX_BLOCK_FRAMES as usize - 1), Ok("[1 headers \"x\" 32]"));
    check(&many(MAX_BLOCK_FRAMES as usize), Err(FrameError::BlockTooLarge));
}

/// What a block of frames of these lengths leads to, whose parts are taken when they are over the limit of 100 bytes:
/// so many bytes in all.
fn discarded(lengths: &[usize]) -> Result<usize, FrameError> {
    let mut input = frame(SETTINGS, 0, 0, &[]);
    for (index, length) in lengths.iter().enumerate() {
        let kind = if index == 0 { HEADERS } else { CONTINUATION };
        let flags = if index + 1 == lengths.len() { END_HEADERS } else { 0 };
        input.extend(frame(kind, flags, 1, &vec![b'x'; *length]));
    }
    let (mut decoder, mut rest, mut all) = (FrameDecoder::new(100), &input[..], 0);
    loop {
        let (used, event) = decoder.next(rest)?;
        rest = &rest[used..];
        match event {
            Event::BlockPart => {
                all += decoder.block().len();
                decoder.take_block(decoder.block().len());
            }
            Event::Headers { whole, .. } => return Ok(all + whole.unwrap_or(decoder.block()).len()),
            Event::NeedMore => unreachable!("the block ends"),
            _ => {}
        }
        assert!(decoder.block().len() <= 100);
    }
}

#[test]
fn a_block_over_its_limit_is_taken_in_parts() {
    assert_eq!(discarded(&[60, 40, 1, 0, 99, 100]), Ok(300));
    let most = DISCARDED / 100;
    assert!(most > MAX_BLOCK_FRAMES as usize);
    assert_eq!(discarded(&[100; MAX_BLOCK_FRAMES as usize]), Ok(3200));
    assert_eq!(discarded(&[100; MAX_BLOCK_FRAMES as usize + 1]), Err(FrameError::BlockTooLarge));
}

#[test]
fn takes_a_block_of_its_limit_in_full_frames() {
    let full = MAX_BLOCK_FRAMES as usize + 5;
    for (end, expected) in [(full - 1, Ok(full)), (full, Err(FrameError::BlockTooLarge))] {
        let mut input = frame(SETTINGS, 0, 0, b"");
        for index in 0..=end {
            let kind = if index == 0 { HEADERS } else { CONTINUATION };
            let flags = if index == end { END_HEADERS } else { 0 };
            input.extend(frame(kind, flags, 1, &[b'x'; MAX_PAYLOAD]));
        }
        let (mut decoder, mut rest) = (FrameDecoder::new(full * MAX_PAYLOAD), &input[..]);
        let found = loop {
            match decoder.next(rest) {
                Ok((_, Event::Headers { frames, .. })) => break Ok(frames as usize),
                Ok((used, _)) => rest = &rest[used..],
                Err(error) => break Err(error),
            }
        };
        assert_eq!(found, expected);
        assert!(decoder.block().len() <= full * MAX_PAYLOAD);
    }
}

#[test]
fn errors_have_their_codes() {
    for (error, code) in [
        (FrameError::Length, ErrorCode::FRAME_SIZE_ERROR),
        (FrameError::TooLarge, ErrorCode::FRAME_SIZE_ERROR),
        (FrameError::BlockTooLarge, ErrorCode::ENHANCE_YOUR_CALM),
        (FrameError::InitialWindow, ErrorCode::FLOW_CONTROL_ERROR),
        (FrameError::Interrupted, ErrorCode::PROTOCOL_ERROR),
        (FrameError::Padding, ErrorCode::PROTOCOL_ERROR),
    ] {
        assert_eq!(error.code(), code, "{error:?}");
    }
}
