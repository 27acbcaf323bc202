//! The memory of this process: what its allocator keeps, and what is returned to the kernel.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Lets the allocator keep this many unused bytes (mallopt(3)), so that memory moves from one response to the next
/// without a system call.
#[cfg(target_env = "gnu")]
pub fn keep_heap(bytes: c_int) {
    // SAFETY: changes nothing but two numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, bytes);
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes);
    }
}

#[cfg(not(target_env = "gnu"))]
pub fn keep_heap(_: c_int) {}

/// Returns unused pages of the allocator to the kernel (malloc_trim(3)).
#[cfg(target_env = "gnu")]
pub fn trim_heap() {
    // SAFETY: touches nothing but the allocator's own free lists, under its own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn trim_heap() {}

/// How long after its start a process calls [`release_start`]: by then, the start has no further effects.
pub const RELEASE_AFTER: Duration = Duration::from_millis(250);

/// Returns to the kernel what the start of a process needed and what follows does not: free pages of the heap, of the
/// stack of the main thread, which must be the one that calls, and the program's pages in memory.
pub fn release_start() {
    trim_heap();
    release_stack();
    unmap_program();
}

/// Whether [`release_if_due`] is to release.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Calls [`release_start`] when the thread of the loop next has nothing to do: what ran afterwards would map the program
/// again.
pub fn release_when_parked() {
    IS_DUE.store(true, Ordering::Relaxed);
}

/// For a loop of the main thread, whenever it parks.
pub fn release_if_due() {
    if IS_DUE.swap(false, Ordering::Relaxed) {
        release_start();
    }
}

/// Drops the content of the stack below what is in use. The kernel gives zeroed pages when it is used again.
// A frame of its own: within that of a caller, `IN_USE` could end above what that has alive.
#[inline(never)]
fn release_stack() {
    /// Bytes that the start may have used: less than what the kernel keeps free below the main thread's stack.
    const USED: usize = 512 * 1024;
    /// Bytes for this call.
    const IN_USE: usize = 16 * 1024;
    let here = 0u8;
    let end = ((&raw const here).addr() - IN_USE) & !(rustix::param::page_size() - 1);
    // SAFETY: below the frame of this function, nothing on the stack is alive; `IN_USE` is enough for the call. Pages
    // that are not mapped are skipped, and nothing else is mapped so near: the kernel keeps 1 MiB free below a stack
    // that grows (stack_guard_gap).
    unsafe { libc::madvise(ptr::without_provenance_mut(end - USED), USED, libc::MADV_DONTNEED) };
}

/// Unmaps the pages of the program's file (madvise(2), MADV_DONTNEED), of which a start uses far more than what
/// follows. The kernel maps again what is used, from its page cache: 64 KiB around each page. A breakpoint of a debugger is
/// forgotten.
pub fn unmap_program() {
    // SAFETY: the linker defines both symbols, around the segments that are only read and executed.
    unsafe extern "C" {
        safe static __executable_start: u8;
        safe static etext: u8;
    }
    let (start, end) = (&raw const __executable_start, &raw const etext);
    let bytes = (end.addr() - start.addr()) & !(rustix::param::page_size() - 1);
    // SAFETY: the program never writes to these pages, so that the file has the same bytes. The first one is aligned.
    unsafe { libc::madvise(start.cast_mut().cast(), bytes, libc::MADV_DONTNEED) };
}
