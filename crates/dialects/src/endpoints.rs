//! The endpoints of an upstream with their weights.

use crate::document::Value;
use crate::draft::Scope;
use crate::tree::Place;

/// The greatest weight that `weights` may have.
const MAX_WEIGHT: i64 = 1000;

#[derive(Debug, Default)]
pub struct Endpoints {
    addresses: Vec<String>,
    weights: Vec<i64>,
}

impl Endpoints {
    /// The other servers may have an address more than once; it counts as often.
    pub fn add(&mut self, address: String, weight: i64) {
        let weight = weight.clamp(1, MAX_WEIGHT);
        match self.addresses.iter().position(|known| *known == address) {
            Some(at) => self.weights[at] = (self.weights[at] + weight).min(MAX_WEIGHT),
            None => {
                self.addresses.push(address);
                self.weights.push(weight);
            }
        }
    }

    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Sets `address` and, if they differ, `weights`.
    pub fn set(self, place: &Place, keys: &mut Scope) {
        if self.weights.iter().any(|weight| *weight != self.weights[0]) {
            keys.set(place, "weights", Value::Integers(self.weights));
        }
        keys.set(place, "address", self.addresses);
    }
}
