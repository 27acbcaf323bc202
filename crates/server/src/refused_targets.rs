//! Builds that would not work are refused here, with what to do instead.

// glibc loads shared libraries to look up accounts and host names, also into a program without any.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
compile_error!(
    "a static build with glibc ends with a crash where it looks up `user`; build for musl instead: \
     cargo build --release --target x86_64-unknown-linux-musl, without -C target-feature=+crt-static"
);
