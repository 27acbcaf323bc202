//! Giving up capabilities (capabilities(7)), in every set.

use rustix::io::{Errno, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Capability sets have 64 bits; the kernel uses about forty.
const NUMBERS: u32 = 64;

/// Gives up all capabilities but `kept`. A program that is executed later gets none, but for those of its file and of
/// root, which `empty_bounding_set` and `no_new_privs` prevent. Errors: a kept one is missing, or another could not be
/// given up.
pub fn hold_only(kept: CapabilitySet) -> Result<()> {
    // EINVAL: Linux before 4.3 has no ambient set.
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
}

/// Gives up the capabilities of the thread itself. Allocates nothing.
pub fn drop_capabilities() -> Result<()> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Gives up all capabilities but `kept`, of which some may be missing. A program that is executed later can gain others
/// as of `hold_only`, and keeps those that it would inherit of `kept`. Errors: they could not be given up.
pub fn keep_only(kept: CapabilitySet) -> Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: effective & kept,
            permitted: permitted & kept,
            inheritable: inheritable & kept,
        },
    )
}

/// Empties the bounding set, so that no program gains a capability, neither by its file nor as root. It needs
/// CAP_SETPCAP and is therefore done before the change of user. If it is not possible, `no_new_privs` has the same
/// effect.
pub fn empty_bounding_set() {
    for number in 0..NUMBERS {
        // EINVAL: there are no more. EPERM: none can be removed.
        if remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)).is_err() {
            return;
        }
    }
}

/// The capabilities that the thread has or could acquire.
pub fn held() -> CapabilitySet {
    let held = |sets: CapabilitySets| sets.effective | sets.permitted | sets.inheritable;
    // The call fails only for another process.
    capabilities(None).map_or(CapabilitySet::empty(), held)
}
