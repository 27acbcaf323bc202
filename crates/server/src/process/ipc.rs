//! Messages between the processes of the program: one message is one datagram of a socket pair, with descriptors
//! beside it. Here are the one encoding of all messages, the socket, and a queue for an event loop.
//!
//! Knows the messages between the master and the generations. The messages of other processes are
//! in the modules of these.

mod message;

mod channel;

mod async_channel;

mod generation;

pub use async_channel::AsyncChannel;
pub use channel::{Channel, RETRY, Received, TOO_MANY_IN_FLIGHT, has_too_many_in_flight, lacks_descriptors};
pub use generation::{
    Form, GenerationEvent, InheritedConnection, MAX_NAMED_FILES, MasterCommand, Rates, Syntax,
};
pub use message::{Decoder, Encoder, Message, OwnedMessage};

#[cfg(test)]
pub mod tests {
    use std::io;
    use std::os::fd::OwnedFd;

    use arrayvec::ArrayVec;
    use site::listener::Protocols;

    use super::message::{MAX_DESCRIPTORS, decode};
    use super::*;

    fn encoded<'a>(message: &impl Message<'a>) -> (Vec<u8>, ArrayVec<OwnedFd, MAX_DESCRIPTORS>) {
        let Encoder { bytes, fds } = message.encode();
        (bytes, fds.iter().map(|fd| fd.try_clone_to_owned().expect("a number is free")).collect())
    }

    /// As `check_received`; a message without its descriptors is refused.
    pub fn check_codec<M: OwnedMessage>(messages: impl IntoIterator<Item = M>) {
        let is_refused = |message: &M| {
            let (bytes, fds) = encoded(message);
            assert!(fds.is_empty() || decode::<M>(&bytes, ArrayVec::new()).is_none(), "{bytes:?}");
        };
        check_received(messages.into_iter().inspect(is_refused));
    }

    /// Sends each message, and receives the same. Bytes that are changed are refused, or decode to a message that is
    /// encoded as these bytes.
    pub fn check_received<M: OwnedMessage>(messages: impl IntoIterator<Item = M>) {
        let (one, other) = Channel::pair().expect("a pair can be made");
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        for message in messages {
            let (bytes, fds) = encoded(&message);
            one.send(&message).expect("it is sent");
            let Ok(Received::Message(received)) = other.receive::<M>() else { panic!("refused: {bytes:?}") };
            let again = encoded(&received);
            assert_eq!((&again.0, again.1.len()), (&bytes, fds.len()));
            let cut = (0..bytes.len()).map(|end| bytes[..end].to_vec());
            let longer = [bytes.clone(), vec![0]].concat();
            let of_other_kinds = (0..=u8::MAX).map(|kind| [&[kind], &bytes[1..]].concat());
            for changed in cut.chain([longer]).chain(of_other_kinds) {
                let fds = || (0..fds.len()).map(|_| null()).collect();
                if let Some(message) = decode::<M>(&changed, fds()) {
                    assert_eq!(encoded(&message).0, changed);
                }
            }
            let more = fds.into_iter().chain([null()]).take(MAX_DESCRIPTORS).collect::<ArrayVec<_, _>>();
            if more.len() > again.1.len() {
                assert!(decode::<M>(&bytes, more).is_none(), "{bytes:?} with a descriptor too many");
            }
        }
    }

    #[test]
    fn refuses_a_message_that_is_too_long() {
        let (one, other) = Channel::pair().expect("a pair can be made");
        let failed = GenerationEvent::Failed(vec!["x".repeat(100_000)]);
        one.send(&failed).expect("the text is cut");
        let received = other.receive_in::<GenerationEvent>(&mut [0; 100]);
        assert_eq!(received.err().map(|error| error.kind()), Some(io::ErrorKind::InvalidData));
    }

    #[test]
    fn a_channel_that_was_closed_with_unread_messages_is_closed() {
        let (one, other) = Channel::pair().expect("a pair can be made");
        let failed = GenerationEvent::Failed(vec!["x".to_owned()]);
        one.send(&failed).expect("there is space");
        assert!(!one.is_closed());
        drop(other);
        assert!(one.is_closed());
        assert_eq!(one.send(&failed).map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn sends_queued_messages_in_order_when_the_channel_has_space() {
        const MESSAGES: u32 = 2000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it is made");
        runtime.block_on(async {
            let (one, other) = Channel::pair().expect("a pair can be made");
            let sender = AsyncChannel::<InheritedConnection>::new(one).expect("it can be watched");
            let receiver = AsyncChannel::<MasterCommand>::new(other).expect("it can be watched");
            let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
            for requests in 0..MESSAGES {
                sender.send(InheritedConnection {
                    fd: null(),
                    protocols: Protocols::default(),
                    client: None,
                    destination: None,
                    requests,
                });
            }
            let receive = async {
                for expected in 0..MESSAGES {
                    let received = receiver.receive::<InheritedConnection>().await;
                    let Ok(Received::Message(connection)) = received else { panic!("{expected} is missing") };
                    assert_eq!(connection.requests, expected);
                }
            };
            tokio::select! {
                () = receive => {}
                _ = sender.receive::<MasterCommand>() => panic!("nothing was sent to it"),
            }
        });
    }
}
