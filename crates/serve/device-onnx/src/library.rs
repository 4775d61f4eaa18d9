//! The runtime's library: loaded once, when it is there and what it should be.

use crate::LIBRARY_VARIABLE;
use device::Error;
use ort::LoadDynamicError;
use ort::environment::Environment;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Library that the process has loaded, for good: the runtime cannot be unloaded safely.
static LOADED: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// Loads the library of this path, or the one that the environment names; tells which.
pub(crate) fn load(configured: Option<&Path>) -> Result<(PathBuf, Environment), Error> {
    let variable = || std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty());
    let path = configured.map(Path::to_path_buf).or_else(|| variable().map(PathBuf::from));
    let Some(path) = path else {
        let what = "ONNX Runtime: no library is named, neither in the configuration nor by";
        return Err(Error::Start(format!("{what} {LIBRARY_VARIABLE}")));
    };
    let wrong = |why: &dyn std::fmt::Display| {
        let expected = "expected the library of ONNX Runtime, 1.17 or newer";
        Error::Start(format!("{}: {why}; {expected}", path.display()))
    };
    // The binding would look for a relative path elsewhere.
    let whole = path.canonicalize().map_err(|error| wrong(&error))?;
    if !whole.is_file() {
        return Err(wrong(&"not a file"));
    }
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((other, environment)) = &*loaded {
        if *other == whole {
            return Ok((whole, environment.clone()));
        }
        let what = format!("this process has loaded {} already", other.display());
        return Err(Error::Start(format!("{}: {what}", path.display())));
    }
    let builder = ort::init_from(&whole).map_err(|error| wrong(&explain(&error)))?;
    let environment = builder.with_name("keeptime").with_telemetry(false).build();
    let environment = environment.map_err(|error| wrong(&error))?;
    *loaded = Some((whole.clone(), environment.clone()));
    Ok((whole, environment))
}

/// The error, and what the loader says, which it keeps to itself.
fn explain(error: &LoadDynamicError) -> String {
    let loader = match error {
        LoadDynamicError::Dlopen { error, .. } => error.source(),
        _ => None,
    };
    let reason = loader.map_or_else(|| error.to_string(), ToString::to_string);
    format!("cannot be loaded: {reason}")
}
