//! Stable sorting for what is not sorted often. The standard library makes 3.7 kB of code for each type that is sorted,
//! and for each way to compare it. This crate sorts indices, so that one function serves all types.

#![forbid(unsafe_code)]

use std::cmp::Ordering;

/// As `sort_by` of a slice.
pub fn by<T>(list: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut order = order(list.len(), &mut |one, other| compare(&list[one], &list[other]));
    // Along each cycle of the permutation, every element moves to its place.
    for start in 0..order.len() {
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == start {
                break;
            }
            list.swap(at, from);
            at = from;
        }
    }
}

/// As `sort_by_key` of a slice.
pub fn by_key<T, K: Ord>(list: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(list, |one, other| key(one).cmp(&key(other)));
}

/// For each place, the index of the element that belongs there.
fn order(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts_as_the_standard_library_does(list: Vec<(u8, u16)>) {
            let (mut ours, mut expected) = (list.clone(), list);
            by_key(&mut ours, |(key, _)| *key);
            expected.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&ours, &expected);
            by(&mut ours, |one, other| other.cmp(one));
            expected.sort_by(|one, other| other.cmp(one));
            prop_assert_eq!(ours, expected);
        }
    }
}
