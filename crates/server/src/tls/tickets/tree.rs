//! A secret for each epoch, by a binary tree of secrets (Goldreich, Goldwasser and Micali, 1986): each node yields its
//! two children, and a leaf is the secret of its epoch. Kept are the nodes from which the present and later leaves
//! follow, and none from which an earlier one does. So a process can skip any number of epochs at once, and none can go
//! back.
//!
//! Knows nothing of tickets, clocks or configurations.

use crate::tls::crypto::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::Zeroizing;

/// Bytes of a secret.
pub const SECRET: usize = 32;
/// Epochs have numbers of so many bits: enough for seconds.
const DEPTH: usize = 40;
/// Bytes of a tree as it is handed to another process.
pub const ENCODED: usize = size_of::<u64>() + (1 + DEPTH) * SECRET;

pub type Secret = Zeroizing<[u8; SECRET]>;

#[derive(Clone)]
pub struct SecretTree {
    /// The first epoch whose secret is known.
    first: u64,
    leaf: Secret,
    /// Where the path from the root to the leaf turns left at a level, the node at its right; zeros elsewhere. The
    /// level is the number of bits of an epoch below the node.
    right: Box<[Secret; DEPTH]>,
}

impl SecretTree {
    /// The secrets from this epoch on.
    pub fn new(root: &Secret, first: u64) -> SecretTree {
        let right = Box::new(std::array::from_fn(|_| Secret::default()));
        let mut tree = SecretTree { first, leaf: Secret::default(), right };
        tree.descend(root, DEPTH, first);
        tree
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    /// Forgets the secrets of all epochs before this one.
    pub fn forget_before(&mut self, epoch: u64) {
        if let Some(level) = self.turn(epoch) {
            let node = std::mem::take(&mut self.right[level]);
            self.descend(&node, level, epoch);
        }
    }

    /// `None`: it is forgotten.
    pub fn secret(&self, epoch: u64) -> Option<Secret> {
        if epoch == self.first {
            return Some(self.leaf.clone());
        }
        let level = self.turn(epoch)?;
        let mut node = self.right[level].clone();
        for level in (0..level).rev() {
            node = child(&node, side(epoch, level));
        }
        Some(node)
    }

    /// For another process, `ENCODED` bytes.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(ENCODED));
        bytes.extend_from_slice(&self.first.to_be_bytes());
        for secret in [&self.leaf].into_iter().chain(self.right.iter()) {
            bytes.extend_from_slice(&secret[..]);
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<SecretTree> {
        let (first, secrets) = bytes.split_first_chunk()?;
        let (secrets, rest) = secrets.as_chunks::<SECRET>();
        let (leaf, right) = secrets.split_first()?;
        let right: &[[u8; SECRET]; DEPTH] = right.try_into().ok()?;
        rest.is_empty().then(|| SecretTree {
            first: u64::from_be_bytes(*first),
            leaf: Zeroizing::new(*leaf),
            right: Box::new(std::array::from_fn(|level| Zeroizing::new(right[level]))),
        })
    }

    /// The level at which the path to a later epoch leaves that to the first one.
    fn turn(&self, epoch: u64) -> Option<usize> {
        let is_later = self.first < epoch && epoch >> DEPTH == 0;
        is_later.then(|| (self.first ^ epoch).ilog2() as usize)
    }

    /// Makes `epoch` the first one, which is beneath a node of this level.
    fn descend(&mut self, node: &Secret, level: usize, epoch: u64) {
        let mut node = node.clone();
        for level in (0..level).rev() {
            self.right[level] = match side(epoch, level) {
                Side::Left => child(&node, Side::Right),
                Side::Right => Secret::default(),
            };
            node = child(&node, side(epoch, level));
        }
        (self.first, self.leaf) = (epoch, node);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

fn side(epoch: u64, level: usize) -> Side {
    if epoch >> level & 1 == 0 { Side::Left } else { Side::Right }
}

fn child(node: &Secret, side: Side) -> Secret {
    derive(
        node,
        match side {
            Side::Left => &[b"left"],
            Side::Right => &[b"right"],
        },
    )
}

/// HKDF-Expand (RFC 5869 §2.3) with the concatenated `purpose`.
pub fn derive<const N: usize>(secret: &Secret, purpose: &[&[u8]]) -> Zeroizing<[u8; N]> {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut derived = Zeroizing::new([0; N]);
    let key = Prk::new_less_safe(HKDF_SHA256, &secret[..]);
    let filled = key.expand(purpose, Length(N)).and_then(|material| material.fill(&mut derived[..]));
    filled.expect("a few keys are shorter than 255 hashes");
    derived
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Secret {
        Zeroizing::new([7; SECRET])
    }

    #[test]
    fn an_epoch_has_the_same_secret_however_it_is_reached() {
        for first in [0, 1, 2, 3, 1000, 1023, 1024, (1 << DEPTH) - 2] {
            let at_once = SecretTree::new(&root(), first);
            let mut step_by_step = SecretTree::new(&root(), first.saturating_sub(40));
            for epoch in step_by_step.first()..=first {
                step_by_step.forget_before(epoch);
                assert_eq!(step_by_step.secret(first), at_once.secret(first), "{epoch} to {first}");
            }
            assert!(step_by_step.encode() == at_once.encode(), "{first}: nothing else is kept");
        }
    }

    #[test]
    fn epochs_have_different_secrets() {
        let tree = SecretTree::new(&root(), 5);
        let mut secrets: Vec<_> = (5..300).map(|epoch| tree.secret(epoch).expect("it is known")).collect();
        secrets.sort_by(|one, other| one.as_slice().cmp(other.as_slice()));
        secrets.dedup();
        assert_eq!(secrets.len(), 295);
        assert_ne!(tree.secret(5), SecretTree::new(&Zeroizing::new([8; SECRET]), 5).secret(5));
    }

    #[test]
    fn earlier_secrets_are_forgotten_and_in_no_node() {
        let mut tree = SecretTree::new(&root(), 8);
        let before: Vec<_> = (8..16).map(|epoch| tree.secret(epoch).expect("it is known")).collect();
        tree.forget_before(13);
        assert_eq!([tree.secret(12), tree.secret(7), tree.secret(u64::MAX)], [None, None, None]);
        assert_eq!(tree.secret(13).as_ref(), before.get(5));
        let bytes = tree.encode();
        let holds = |secret: &[u8; SECRET]| bytes.windows(SECRET).any(|window| window == secret);
        assert!(before[..5].iter().all(|secret| !holds(secret)), "the leaves");
        assert!(!holds(&root()));
        // The nodes above the epochs from 8 to 11, and from 8 to 15.
        let path = [0; DEPTH - 4].map(|_| Side::Left);
        let above = path.iter().fold(root(), |node, side| child(&node, *side));
        let eight = child(&above, Side::Right);
        assert!(!holds(&above) && !holds(&eight) && !holds(&child(&eight, Side::Left)));
        // It never goes back.
        tree.forget_before(9);
        assert_eq!(tree.first(), 13);
    }

    #[test]
    fn another_process_receives_the_same_tree() {
        let tree = SecretTree::new(&root(), 4711);
        let bytes = tree.encode();
        let again = SecretTree::decode(&bytes).expect("it is one");
        assert!(again.encode() == bytes);
        assert_eq!(again.secret(5000), tree.secret(5000));
        assert!(SecretTree::decode(&bytes[..ENCODED - 1]).is_none());
        assert!(SecretTree::decode(&[&bytes[..], &[0]].concat()).is_none());
    }
}
