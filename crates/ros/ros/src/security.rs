//! DDS security: the enclave that a participant is secured with, and the variables of ROS 2 that
//! name it.
//!
//! An enclave is a folder with six files. `ros2 security create_enclave` writes them, or `openssl`:
//!
//! | file | |
//! |---|---|
//! | `identity_ca.cert.pem` | who signs the certificates of participants |
//! | `cert.pem`, `key.pem` | this participant's certificate, and its private key (PKCS#8, not encrypted) |
//! | `permissions_ca.cert.pem` | who signs the two documents below |
//! | `governance.p7s` | what is protected in which domain, and how |
//! | `permissions.p7s` | which topics the participant may publish and subscribe |
//!
//! [`check`] looks at all of them before anything is sent, so that an error names its file. The
//! protocol itself is RustDDS's: mutual authentication by certificates, a Diffie-Hellman exchange,
//! and AES-GCM with keys that only authenticated participants get (DDS Security 1.1).

#[cfg(feature = "security")]
mod enclave;

use crate::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Security that the variables of ROS 2 ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// `ROS_SECURITY_ENABLE` is not `true`.
    Off,
    /// Security with the enclave in this folder.
    Enclave(PathBuf),
    /// The folder has no enclave, and `ROS_SECURITY_STRATEGY` is not `Enforce`: ROS 2 goes on
    /// without security.
    Unsecured(PathBuf),
}

impl Wish {
    /// Reads the variables as ROS 2 does (`rcl/security.h`): `ROS_SECURITY_ENABLE=true` switches
    /// security on; the enclave is the folder `enclaves` of `ROS_SECURITY_KEYSTORE`, or the one in
    /// it that `ROS_SECURITY_ENCLAVE_OVERRIDE` names. `variable` is the environment.
    ///
    /// # Errors
    /// [`Error::Enclave`] with `ROS_SECURITY_STRATEGY=Enforce` when there is no such folder.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Wish, Error> {
        let variable = |name: &str| variable(name).unwrap_or_default();
        if variable("ROS_SECURITY_ENABLE") != "true" {
            return Ok(Wish::Off);
        }
        let keystore = PathBuf::from(variable("ROS_SECURITY_KEYSTORE"));
        let name = PathBuf::from(variable("ROS_SECURITY_ENCLAVE_OVERRIDE"));
        let mut folder = keystore.join("enclaves");
        // Part by part, so that the name `/` adds nothing.
        folder.extend(name.strip_prefix("/").unwrap_or(&name));
        let is_named = !keystore.as_os_str().is_empty();
        if is_named && folder.is_dir() {
            return Ok(Wish::Enclave(folder));
        }
        if variable("ROS_SECURITY_STRATEGY") != "Enforce" {
            return Ok(Wish::Unsecured(folder));
        }
        if is_named {
            return Err(bad(&folder, "no such folder", "the enclave of ROS_SECURITY_KEYSTORE"));
        }
        Err(bad(Path::new("ROS_SECURITY_KEYSTORE"), "not set", "the folder of a keystore"))
    }
}

/// Checks that the files of an enclave can secure a participant in a domain. Sends nothing.
///
/// # Errors
/// [`Error::Enclave`] with the first file that is missing or bad; [`Error::NoSecurity`] in a build
/// without the feature `security`.
#[cfg(not(feature = "security"))]
pub fn check(folder: &Path, _domain: u16) -> Result<(), Error> {
    Err(Error::NoSecurity { folder: folder.display().to_string() })
}

#[cfg(feature = "security")]
pub use enclave::check;
#[cfg(feature = "security")]
pub(crate) use enclave::files;

fn bad(file: &Path, found: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::Enclave {
        file: file.display().to_string(),
        found: found.into(),
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_the_enclave_as_in_ros_2() {
        let keystore = tempfile::tempdir().unwrap();
        let root = keystore.path().join("enclaves");
        std::fs::create_dir_all(root.join("robot/arm")).unwrap();
        let read = |variables: &[(&str, &str)]| {
            let path = keystore.path().to_str().unwrap().to_owned();
            Wish::read(|name| {
                let value = variables.iter().find(|(key, _)| *key == name)?.1;
                Some(value.replace('@', &path).into())
            })
        };
        let (on, store) = (("ROS_SECURITY_ENABLE", "true"), ("ROS_SECURITY_KEYSTORE", "@"));
        let enforce = ("ROS_SECURITY_STRATEGY", "Enforce");
        let enclave = |name: &'static str| ("ROS_SECURITY_ENCLAVE_OVERRIDE", name);
        assert_eq!(read(&[store, enforce]).unwrap(), Wish::Off);
        assert_eq!(read(&[store, enforce, ("ROS_SECURITY_ENABLE", "1")]).unwrap(), Wish::Off);
        assert_eq!(read(&[on, store]).unwrap(), Wish::Enclave(root.clone()));
        assert_eq!(read(&[on, store, enclave("/")]).unwrap(), Wish::Enclave(root.clone()));
        let arm = read(&[on, store, enforce, enclave("/robot/arm")]).unwrap();
        assert_eq!(arm, Wish::Enclave(root.join("robot/arm")));
        let none = read(&[on, store, enclave("/robot/leg")]).unwrap();
        assert_eq!(none, Wish::Unsecured(root.join("robot/leg")));
        assert!(matches!(read(&[on]).unwrap(), Wish::Unsecured(_)));
        let said = |variables: &[(&str, &str)]| read(variables).unwrap_err().to_string();
        let missing = said(&[on, store, enforce, enclave("/robot/leg")]);
        assert!(missing.contains("enclaves/robot/leg: no such folder"), "{missing}");
        assert!(said(&[on, enforce]).starts_with("ROS_SECURITY_KEYSTORE: not set"));
    }

    #[cfg(not(feature = "security"))]
    #[test]
    fn program_without_security_refuses_to_go_on_without_it() {
        let security = Some(PathBuf::from("/somewhere"));
        let options = crate::Options { security, ..crate::Options::default() };
        assert!(matches!(options.check(), Err(Error::NoSecurity { .. })));
        assert!(matches!(crate::Context::new(&options), Err(Error::NoSecurity { .. })));
    }
}
