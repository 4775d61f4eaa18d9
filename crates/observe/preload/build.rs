//! Writes one hook for each function of the CUDA driver, and says how the library is linked.

use std::fmt::Write;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program that closes the library would leave its hooks in other libraries' tables.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libkeeptime_preload.so");
    let mut out = String::new();
    for (number, function) in record::cuda::FUNCTIONS.iter().enumerate() {
        writeln!(out, "hook!({number}, {});", function.symbol).expect("a string takes everything");
    }
    out.push_str("pub(crate) static HOOKS: [Hook; super::COUNT] = [\n");
    for function in record::cuda::FUNCTIONS {
        writeln!(out, "{},", function.symbol).expect("a string takes everything");
    }
    out.push_str("];\n");
    let folder = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(format!("{folder}/hooks.rs"), out).expect("the folder can be written");
}
