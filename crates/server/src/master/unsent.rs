//! Messages with descriptors that a channel does not take yet: it is full, or too many descriptors of this user are on
//! their way between processes. Says when they are sent again. Pure: knows no channel, and the time is an argument.
//!
//! Their number is limited, and so is their time, because the process that receives them is killed at its own.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use crate::process::ipc;

/// More messages are not kept.
const MOST: usize = 256;
/// The longest pause; each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Unsent<M> {
    /// In the order in which they are sent.
    queue: VecDeque<M>,
    obstacle: Option<Obstacle>,
    /// Whether `Progress::Delayed` has been returned since the queue was empty.
    is_reported: bool,
}

/// Why the first message has not been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// The socket reports when there is space.
    Full,
    /// `ipc::has_too_many_in_flight`. Nothing reports when that changes.
    InFlight { again: Instant, pause: Duration },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    AllSent,
    Waits,
    /// As `Waits`, and an administrator should learn why: too many descriptors are on their way.
    Delayed,
}

impl<M> Unsent<M> {
    pub(super) fn new(queue: VecDeque<M>) -> Unsent<M> {
        Unsent { queue, obstacle: None, is_reported: false }
    }

    /// Returns `false` if there are too many already.
    pub(super) fn push(&mut self, message: M) -> bool {
        let has_space = self.queue.len() < MOST;
        if has_space {
            self.queue.push_back(message);
        }
        has_space
    }

    pub(super) fn clear(&mut self) {
        *self = Unsent::new(VecDeque::new());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn has(&self, is_selected: impl FnMut(&M) -> bool) -> bool {
        self.queue.iter().any(is_selected)
    }

    /// Sends the messages up to the first that has to wait. Errors: one can never be sent, and is dropped.
    pub(super) fn send(
        &mut self,
        now: Instant,
        mut send: impl FnMut(&M) -> io::Result<()>,
    ) -> io::Result<Progress> {
        if self.due().is_some_and(|again| now < again) {
            return Ok(Progress::Waits);
        }
        while let Some(first) = self.queue.front() {
            match send(first) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.obstacle = Some(Obstacle::Full);
                    return Ok(Progress::Waits);
                }
                Err(error) if ipc::has_too_many_in_flight(&error) => {
                    let pause = match self.obstacle {
                        Some(Obstacle::InFlight { pause, .. }) => (2 * pause).min(LONGEST_PAUSE),
                        Some(Obstacle::Full) | None => ipc::RETRY,
                    };
                    self.obstacle = Some(Obstacle::InFlight { again: now + pause, pause });
                    return Ok(match std::mem::replace(&mut self.is_reported, true) {
                        true => Progress::Waits,
                        false => Progress::Delayed,
                    });
                }
                sent => {
                    self.queue.pop_front();
                    self.obstacle = None;
                    sent?;
                }
            }
        }
        self.is_reported = false;
        Ok(Progress::AllSent)
    }

    /// When the first message is sent again, if nothing else reports that.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.obstacle {
            Some(Obstacle::InFlight { again, .. }) => Some(again),
            Some(Obstacle::Full) | None => None,
        }
    }

    /// Whether the first message is sent when the channel has space.
    pub(super) fn waits_for_space(&self) -> bool {
        self.obstacle == Some(Obstacle::Full)
    }
}

impl<M> Default for Unsent<M> {
    fn default() -> Unsent<M> {
        Unsent::new(VecDeque::new())
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    const FULL: Errno = Errno::AGAIN;
    const IN_FLIGHT: Errno = Errno::TOOMANYREFS;

    #[test]
    fn messages_are_sent_in_order_and_again_after_growing_pauses() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut unsent = Unsent::new(VecDeque::from([1, 2, 3]));
        /// The time, what the channel does with the messages, and when it is tried again.
        type Row<'r> = (u64, &'r [Result<u32, Errno>], Progress, Option<u64>);
        let rows: [Row<'_>; 12] = [
            (0, &[Ok(1), Err(IN_FLIGHT)], Progress::Delayed, Some(10)),
            (9, &[], Progress::Waits, Some(10)),
            (10, &[Err(IN_FLIGHT)], Progress::Waits, Some(30)),
            (30, &[Err(IN_FLIGHT)], Progress::Waits, Some(70)),
            (70, &[Err(IN_FLIGHT)], Progress::Waits, Some(150)),
            (150, &[Err(IN_FLIGHT)], Progress::Waits, Some(310)),
            (310, &[Err(IN_FLIGHT)], Progress::Waits, Some(630)),
            (630, &[Err(IN_FLIGHT)], Progress::Waits, Some(1130)),
            (1130, &[Err(IN_FLIGHT)], Progress::Waits, Some(1630)),
            // Another one that waits is not reported again.
            (1630, &[Ok(2), Err(IN_FLIGHT)], Progress::Waits, Some(1640)),
            (1640, &[Err(FULL)], Progress::Waits, None),
            (1641, &[Ok(3)], Progress::AllSent, None),
        ];
        for (millis, results, expected, due) in rows {
            let mut results = results.iter();
            let progress =
                unsent.send(at(millis), |message| match results.next().expect("no more are sent") {
                    Ok(expected) => {
                        assert_eq!(message, expected);
                        Ok(())
                    }
                    Err(errno) => Err((*errno).into()),
                });
            assert_eq!(progress.expect("none is lost"), expected, "{millis}");
            assert_eq!((unsent.due(), results.len()), (due.map(at), 0), "{millis}");
            assert_eq!(unsent.waits_for_space(), millis == 1640);
        }
    }

    #[test]
    fn a_message_that_can_never_be_sent_is_dropped() {
        let mut unsent = Unsent::new(VecDeque::from([1, 2]));
        let now = Instant::now();
        let refused = |message: &u32| if *message == 1 { Err(Errno::INVAL.into()) } else { Ok(()) };
        assert!(unsent.send(now, refused).is_err());
        assert_eq!(unsent.send(now, refused).expect("the other is sent"), Progress::AllSent);
    }

    #[test]
    fn keeps_a_limited_number() {
        let mut unsent = Unsent::default();
        assert!((0..MOST).all(|number| unsent.push(number)));
        assert!(!unsent.push(MOST));
        unsent.clear();
        assert!(unsent.is_empty());
    }
}
