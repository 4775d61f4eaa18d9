//! Middleware, which carries the messages of a stack.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Transport of messages from module to module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Middleware {
    /// Shared pointers, as within a process of CyberRT, or of composed nodes of ROS 2.
    #[default]
    Pointer,
    /// Bytes, as between processes: each module has its own copy.
    Serialised,
}

impl fmt::Display for Middleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Middleware::Pointer => "pointer",
            Middleware::Serialised => "serialised",
        })
    }
}

impl FromStr for Middleware {
    type Err = String;

    fn from_str(text: &str) -> Result<Middleware, String> {
        match text {
            "pointer" => Ok(Middleware::Pointer),
            "serialised" => Ok(Middleware::Serialised),
            _ => Err("expected pointer or serialised".to_owned()),
        }
    }
}
