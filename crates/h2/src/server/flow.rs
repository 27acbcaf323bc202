//! The flow-control windows of a stream or a connection (RFC 9113 §6.9), in bytes. Knows nothing of frames.

use crate::frame::MAX_WINDOW;

/// What may be sent. Negative after the peer has reduced its initial window (§6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWindow(i32);

impl SendWindow {
    pub const fn new(size: u32) -> SendWindow {
        SendWindow(size as i32)
    }

    /// Bytes that may be sent now.
    pub const fn get(self) -> usize {
        if self.0 > 0 { self.0 as usize } else { 0 }
    }

    /// `false` if the window would exceed its maximum (§6.9.1).
    pub const fn add(&mut self, change: i64) -> bool {
        let size = self.0 as i64 + change;
        if size > MAX_WINDOW as i64 || size < i32::MIN as i64 {
            return false;
        }
        self.0 = size as i32;
        true
    }

    /// `bytes` are sent, at most those of the window.
    pub const fn send(&mut self, bytes: usize) {
        self.0 -= bytes as i32;
    }
}

/// What the peer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// Negative after the initial window was reduced.
    left: i32,
    /// Consumed, but not yet returned to the peer.
    credit: u32,
    /// The size of the window: the sum of what is left, held and credit.
    size: i32,
}

impl ReceiveWindow {
    pub const fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow { left: size as i32, credit: 0, size: size as i32 }
    }

    /// `false` if the peer may not send so much.
    pub const fn receive(&mut self, bytes: u32) -> bool {
        let allowed = bytes as i64 <= self.left as i64;
        if allowed {
            self.left -= bytes as i32;
        }
        allowed
    }

    /// Bytes that the peer may send now.
    pub const fn left(&self) -> u32 {
        if self.left > 0 { self.left as u32 } else { 0 }
    }

    /// Received bytes whose consumer has not taken them.
    pub const fn unconsumed(&self) -> u32 {
        let held = self.size as i64 - self.left as i64 - self.credit as i64;
        if held > 0 { held as u32 } else { 0 }
    }

    /// The consumer has taken `bytes`, which are at most the unconsumed ones. Returns an increment for the peer as soon
    /// as half of the window is used. The window doubles, up to `max`, if the consumer holds nothing back.
    pub fn consume(&mut self, bytes: u32, max: u32) -> Option<u32> {
        self.credit += bytes;
        if i64::from(self.credit) * 2 < i64::from(self.size) || self.credit == 0 {
            return None;
        }
        let max = max.min(MAX_WINDOW) as i32;
        let grown = self.size.saturating_mul(2).min(max);
        let growth = if self.unconsumed() == 0 { (grown - self.size).max(0) } else { 0 };
        let increment = std::mem::take(&mut self.credit) + growth as u32;
        self.size += growth;
        self.left += increment as i32;
        Some(increment)
    }

    /// The peer knows that the initial window is smaller by `bytes` (§6.9.2).
    pub const fn reduce(&mut self, bytes: u32) {
        self.left -= bytes as i32;
        self.size -= bytes as i32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_can_be_negative_and_has_a_maximum() {
        let mut window = SendWindow::new(10);
        window.send(10);
        assert!(window.add(-5));
        assert_eq!((window, window.get()), (SendWindow(-5), 0));
        assert!(window.add(6));
        assert_eq!(window.get(), 1);
        assert!(window.add(i64::from(MAX_WINDOW) - 1) && !window.add(1));
    }

    #[test]
    fn a_receive_window_is_returned_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(100) && !window.receive(1));
        assert_eq!((window.consume(49, 100), window.unconsumed()), (None, 51));
        assert_eq!((window.consume(1, 100), window.unconsumed()), (Some(50), 50));
        assert!(window.receive(50) && !window.receive(1));
        assert_eq!(window.consume(0, 100), None);
    }

    #[test]
    fn a_receive_window_grows_while_its_consumer_keeps_up() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(50));
        assert_eq!(window.consume(50, 350), Some(150));
        assert!(window.receive(200) && !window.receive(1));
        assert_eq!(window.consume(150, 350), Some(150), "50 bytes are held back");
        assert!(window.receive(150));
        assert_eq!(window.consume(200, 350), Some(350), "the maximum");
        assert!(window.receive(350) && !window.receive(1));
    }

    #[test]
    fn a_reduced_window_stays_closed_until_its_data_are_consumed() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(60));
        window.reduce(90);
        assert!(!window.receive(1));
        assert_eq!(window.unconsumed(), 60);
        assert_eq!(window.consume(60, 10), Some(60));
        assert!(window.receive(10) && !window.receive(1));
    }
}
