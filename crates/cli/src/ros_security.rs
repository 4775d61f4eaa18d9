//! Enclave that secures a participant of this program: the one that is named, else the one that the
//! variables of ROS 2 ask for.

use std::path::PathBuf;

use ros::security::Wish;

/// The enclave's folder; none means no security. A warning says so where it was asked for.
pub(crate) fn enclave(named: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    if named.is_some() {
        return Ok(named);
    }
    Ok(match Wish::read(|name| std::env::var_os(name))? {
        Wish::Off => None,
        Wish::Enclave(folder) => Some(folder),
        Wish::Unsecured(folder) => {
            tell!(
                "keeptime: warning: without security: there is no enclave {}, and \
                 ROS_SECURITY_STRATEGY is not Enforce",
                folder.display()
            );
            None
        }
    })
}
