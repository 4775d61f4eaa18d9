//! Gives the shared library its name inside: without one, a program that is linked to the file
//! by its path would look for it at exactly that path.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // `.0` in packages: the version of the interface.
    println!("cargo::rerun-if-env-changed=KEEPTIME_SONAME");
    let version = std::env::var("KEEPTIME_SONAME").unwrap_or_default();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libkeeptime_bandwidth.so{version}");
}
