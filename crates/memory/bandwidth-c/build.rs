//! Gives the shared library its name inside: without one, a program that is linked to the file
//! by its path would look for it at exactly that path.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libkeeptime_bandwidth.so");
}
