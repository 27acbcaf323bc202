//! Capabilities (capabilities(7)): none is kept, in any of the sets.

use rustix::io::{Errno, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Numbers of capabilities are bits of 64; the kernel knows about forty.
const NUMBERS: u32 = 64;

/// Gives up all of them. Errors: they could not be.
pub fn give_up() -> Result<()> {
    hold_only(CapabilitySet::empty())
}

/// Holds `kept`, and no others, for this process alone: programs that it executes get none, also of root.
/// Errors: there is one that it cannot hold, or others could not be given up.
pub fn hold_only(kept: CapabilitySet) -> Result<()> {
    empty_bounding_set();
    // It is empty where a kernel does not know it, before Linux 4.3.
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
}

/// Gives up those that the thread has itself. Allocates nothing.
pub fn drop_capabilities() -> Result<()> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Gives up all but `kept`, for good: in every set, and for programs to come. Nothing happens to who has
/// none. Errors: they could not be.
pub fn keep_only(kept: CapabilitySet) -> Result<()> {
    for number in 0..NUMBERS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // EINVAL: the last one is behind us. EPERM: none can be removed.
        if !kept.contains(one) && remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
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

/// What an executed program could be given by its file is given up, as far as the process may: that takes
/// CAP_SETPCAP, so it is done before the user is changed. Where it is not possible, `no_new_privs` stands
/// before it.
pub fn empty_bounding_set() {
    for number in 0..NUMBERS {
        // EINVAL: the last one is behind us. EPERM: none can be removed.
        if remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)).is_err() {
            return;
        }
    }
}

/// Those that the thread has or could take up.
pub fn held() -> CapabilitySet {
    let held = |sets: CapabilitySets| sets.effective | sets.permitted | sets.inheritable;
    // The call fails for another process than one's own only.
    capabilities(None).map_or(CapabilitySet::empty(), held)
}
