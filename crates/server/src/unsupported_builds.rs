//! Rejects builds that would not work. A file of its own, so that a test can compile it alone.

// glibc loads shared libraries to look up accounts and host names, even in a statically linked program.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
compile_error!(
    "a static build with glibc ends with a crash where it looks up `user`; build for musl instead: \
     cargo build --release --target x86_64-unknown-linux-musl, without -C target-feature=+crt-static"
);

#[cfg(all(feature = "tls", not(any(feature = "aws-lc", feature = "ring"))))]
compile_error!("TLS and ACME need cryptography: add the feature aws-lc, or ring, which is smaller");

// Without tables, the runtime cannot unwind, and aborts the process with a message that does not help.
#[cfg(all(feature = "without-unwinding", not(panic = "abort")))]
compile_error!(
    "the feature without-unwinding is for a profile with panic = \"abort\"; `cargo small` has both"
);
