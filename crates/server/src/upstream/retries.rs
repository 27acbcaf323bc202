//! Whether a request that has had no response is sent again, and which endpoints are not tried again. Knows nothing of
//! connections, and logs nothing.

use super::transport::{Retry, Sent};
use crate::pool::message::{EndpointId, Tried};
use crate::pool::{Reuse, Sharing};

/// The attempts that may follow the first one: at most one for each reused connection, some on new connections or after
/// further refusals, one after the first refusal, one that shares its connection with no other request, one after a
/// connection has broken down under several, and two after connections that the endpoint has ended: the other requests
/// of a connection may use up the next one, too, so that the second is on one of its own.
pub struct Retries {
    /// On new connections, or after further refusals.
    left: usize,
    avoid: Avoid,
    tried: Tried,
    was_alone: bool,
    was_refused: bool,
    was_left: bool,
    sharing: Sharing,
}

/// Which endpoints are not tried again, while there are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Avoid {
    /// One that has sent nothing on a new connection. A reused one may have been closed in the meantime.
    Failed,
    All,
}

/// When a request can be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    Always,
    /// If no endpoint has processed it.
    Unprocessed,
    /// A part of its body has been read from the client, and is gone.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Repeat,
    /// A new connection has failed, which the error log should have.
    RepeatAndWarn,
    GiveUp,
}

impl Retries {
    /// `left`: on new connections, or after further refusals.
    pub fn new(left: usize, avoid: Avoid) -> Retries {
        Retries {
            left,
            avoid,
            tried: Tried::new(),
            was_alone: false,
            was_refused: false,
            was_left: false,
            sharing: Sharing::Allowed,
        }
    }

    /// The endpoints that the next attempt avoids.
    pub fn tried(&self) -> &Tried {
        &self.tried
    }

    /// Whether the next attempt may share its connection.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// After an attempt without a response, which can be repeated as `retry` says.
    pub fn decide(&mut self, retry: Retry, replay: Replay) -> Decision {
        match (retry, replay) {
            // Only the forward proxy has connections that are replaced so.
            (Retry::Never | Retry::Anew, _) | (_, Replay::Never) => Decision::GiveUp,
            (Retry::AtAnother { sent: Sent::Something, .. } | Retry::Apart, Replay::Unprocessed) => {
                Decision::GiveUp
            }
            (Retry::AtAnother { endpoint, connection: Reuse::Reused, .. }, _) => {
                if self.avoid == Avoid::All {
                    self.on_tried(endpoint);
                }
                Decision::Repeat
            }
            (Retry::AtAnother { endpoint, connection: Reuse::New, .. }, _) if self.left > 0 => {
                self.left -= 1;
                self.on_tried(endpoint);
                Decision::RepeatAndWarn
            }
            (Retry::Refused(endpoint), _) if !self.was_refused || self.left > 0 => {
                self.left -= usize::from(self.was_refused);
                self.was_refused = true;
                self.on_refused();
                self.on_tried(endpoint);
                Decision::Repeat
            }
            // The application has not processed it.
            (Retry::Alone, _) if !self.was_alone => {
                self.was_alone = true;
                self.on_refused();
                Decision::Repeat
            }
            (Retry::Left, _) if !self.was_left => {
                self.was_left = true;
                Decision::Repeat
            }
            (Retry::Apart | Retry::Left, _) if self.sharing != Sharing::No => {
                self.sharing = Sharing::No;
                Decision::Repeat
            }
            (Retry::AtAnother { .. } | Retry::Alone | Retry::Apart | Retry::Left | Retry::Refused(_), _) => {
                Decision::GiveUp
            }
        }
    }

    /// More requests may have shared the connection than the endpoint takes.
    fn on_refused(&mut self) {
        if self.sharing == Sharing::Allowed {
            self.sharing = Sharing::Announced;
        }
    }

    fn on_tried(&mut self, endpoint: EndpointId) {
        if !self.tried.contains(&endpoint) {
            // Beyond its capacity there are more retries than endpoints are remembered.
            _ = self.tried.try_push(endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts without a response, and what follows each: `again`, `warn` or `end`; then the endpoints to avoid.
    fn check(left: usize, avoid: Avoid, replay: Replay, attempts: &[Retry], expected: &str, tried: &[u64]) {
        let mut retries = Retries::new(left, avoid);
        let word = |retry: &Retry| match retries.decide(*retry, replay) {
            Decision::Repeat => "again",
            Decision::RepeatAndWarn => "warn",
            Decision::GiveUp => "end",
        };
        let words: Vec<_> = attempts.iter().map(word).collect();
        assert_eq!(words.join(" "), expected, "{left} {avoid:?} {replay:?} {attempts:?}");
        assert_eq!(&retries.tried()[..], tried, "{left} {avoid:?} {replay:?} {attempts:?}");
    }

    const fn at(endpoint: EndpointId, connection: Reuse, sent: Sent) -> Retry {
        Retry::AtAnother { endpoint, connection, sent }
    }

    #[test]
    fn a_request_is_repeated_while_that_is_safe_and_attempts_are_left() {
        use Avoid::{All, Failed};
        use Replay::{Always, Never, Unprocessed};
        use Reuse::{New, Reused};
        use Sent::{Nothing, Something};
        let (new, reused) =
            (|endpoint| at(endpoint, New, Something), |endpoint| at(endpoint, Reused, Something));
        check(1, Failed, Always, &[new(1), new(2)], "warn end", &[1]);
        check(0, Failed, Always, &[new(1)], "end", &[]);
        check(9, Failed, Always, &[new(1), new(2), new(1)], "warn warn warn", &[1, 2]);
        // A reused connection takes no retry, and its endpoint is as good as before.
        check(0, Failed, Always, &[reused(1), reused(1), new(1)], "again again end", &[]);
        check(1, Failed, Always, &[reused(1), new(1), reused(2)], "again warn again", &[1]);
        // Unless the next attempt would go to the same endpoint, which has the fewest requests.
        check(0, All, Always, &[reused(1), reused(2), new(3)], "again again end", &[1, 2]);
        // A POST.
        check(1, Failed, Unprocessed, &[new(1)], "end", &[]);
        check(1, Failed, Unprocessed, &[reused(1)], "end", &[]);
        check(1, Failed, Unprocessed, &[at(1, New, Nothing), at(2, New, Nothing)], "warn end", &[1]);
        check(1, Failed, Unprocessed, &[at(1, Reused, Nothing), new(2)], "again end", &[]);
        check(1, Failed, Never, &[at(1, New, Nothing)], "end", &[]);
        // Once alone.
        check(0, Failed, Unprocessed, &[Retry::Alone, Retry::Alone], "again end", &[]);
        check(1, Failed, Always, &[Retry::Alone, new(1), Retry::Alone], "again warn end", &[1]);
        check(1, Failed, Never, &[Retry::Alone], "end", &[]);
        check(1, Failed, Always, &[Retry::Never], "end", &[]);
        // Once apart, if it may be repeated.
        check(0, Failed, Always, &[Retry::Apart, Retry::Apart], "again end", &[]);
        check(1, Failed, Always, &[Retry::Apart, new(1), new(2)], "again warn end", &[1]);
        check(1, Failed, Unprocessed, &[Retry::Apart], "end", &[]);
        // Twice where the endpoint ends the connection.
        check(0, Failed, Unprocessed, &[Retry::Left; 3], "again again end", &[]);
        check(0, Failed, Always, &[Retry::Left, Retry::Apart, Retry::Left], "again again end", &[]);
        check(1, Failed, Never, &[Retry::Left], "end", &[]);
        // Refused once, and then as often as there are retries.
        let refused = Retry::Refused;
        check(0, Failed, Unprocessed, &[refused(1), refused(2)], "again end", &[1]);
        check(2, Failed, Unprocessed, &[refused(1), refused(2), new(3)], "again again end", &[1, 2]);
        check(1, Failed, Always, &[refused(1), new(2), refused(3)], "again warn end", &[1, 2]);
        check(1, Failed, Never, &[refused(1)], "end", &[]);
    }

    #[test]
    fn a_refused_request_shares_no_connection_that_may_refuse_it() {
        let after = |attempts: &[Retry]| {
            let mut retries = Retries::new(1, Avoid::Failed);
            attempts.iter().for_each(|retry| _ = retries.decide(*retry, Replay::Always));
            retries.sharing()
        };
        assert_eq!(after(&[Retry::Left]), Sharing::Allowed);
        assert_eq!(after(&[Retry::Refused(1)]), Sharing::Announced);
        assert_eq!(after(&[Retry::Alone]), Sharing::Announced);
        assert_eq!(after(&[Retry::Alone, Retry::Apart]), Sharing::No);
        assert_eq!(after(&[Retry::Apart, Retry::Alone]), Sharing::No);
    }

    #[test]
    fn more_retries_than_endpoints_are_remembered() {
        let endpoints = crate::pool::message::MAX_TRIED as u64;
        let attempts: Vec<_> =
            (1..=endpoints + 1).map(|endpoint| at(endpoint, Reuse::New, Sent::Nothing)).collect();
        let (expected, tried): (Vec<_>, Vec<_>) = (vec!["warn"; attempts.len()], (1..=endpoints).collect());
        check(attempts.len(), Avoid::Failed, Replay::Always, &attempts, &expected.join(" "), &tried);
    }
}
