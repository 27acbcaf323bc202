//! With the feature `without-unwinding`, links the program without the tables for unwinding. It is a feature because
//! Cargo does not tell a build script whether the profile unwinds.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=without-unwinding.ld");
    let is_linux = var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if cfg!(feature = "without-unwinding") && is_linux {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/without-unwinding.ld", env!("CARGO_MANIFEST_DIR"));
    }
}
