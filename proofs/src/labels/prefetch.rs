//! Hints to the processor that memory will be read soon.
//!
//! Unsafe code: the prefetch instruction takes a pointer; it comes from a reference, and a prefetch reads nothing the
//! program can see.

use crate::Node;

/// Asks for a node to be brought near. Does nothing on other processors than x86-64.
#[inline(always)]
pub(super) fn prefetch(node: &Node) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is that of a live reference; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(node).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = node;
}
