//! Choice of the implementation of throttle-fair scheduling: the scheduler in BPF, if the kernel
//! takes one, or the rule in user space.

use std::fmt;
use std::str::FromStr;

use bandwidth::regulator::{Config, Regulator};
use serde::Serialize;

use crate::{Error, Watch};

/// An implementation, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The scheduler in BPF where the kernel supports it, else user space.
    Auto,
    /// The scheduler in BPF.
    Bpf,
    /// User space.
    User,
}

impl FromStr for By {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<By, &'static str> {
        match text {
            "auto" => Ok(By::Auto),
            "bpf" => Ok(By::Bpf),
            "user" => Ok(By::User),
            _ => Err("expected auto, bpf or user"),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::Auto => "auto",
            By::Bpf => "bpf",
            By::User => "user",
        })
    }
}

/// Reason why no regulator with such an implementation could be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The regulator could not.
    #[error(transparent)]
    Regulator(#[from] bandwidth::regulator::Error),
    /// The scheduler in BPF was asked for, and cannot be had.
    #[error("--fair bpf")]
    Scheduler(#[source] Error),
}

/// The implementation that a regulator has, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// `bpf`, `user`, or `none`.
    pub by: &'static str,
    /// Reason for this implementation.
    pub why: String,
}

impl Chosen {
    /// Returns a description for people.
    pub fn words(&self) -> &'static str {
        match self.by {
            "bpf" => "by the scheduler in BPF",
            "user" => "in user space",
            _ => "by the kernel's own scheduler",
        }
    }
}

/// A regulator, and how its cores are shared.
pub struct Regulated {
    /// The regulator.
    pub regulator: Regulator,
    /// The implementation that it has.
    pub chosen: Chosen,
    watch: Option<Watch>,
}

impl Regulated {
    /// Starts one, which has no rule if the settings have no rho.
    ///
    /// # Errors
    /// The errors of [`Regulator::start`], and that the scheduler in BPF is asked for and cannot be
    /// had.
    pub fn start(config: Config, by: By) -> Result<Regulated, StartError> {
        let in_user_space = |config, by, why: &str| {
            let chosen = Chosen { by, why: why.into() };
            Ok(Regulated { regulator: Regulator::start(config)?, chosen, watch: None })
        };
        let Some(rho) = config.rho else { return in_user_space(config, "none", "not requested") };
        let (loaded, why) = match by {
            By::User => return in_user_space(config, "user", "requested"),
            By::Bpf => (crate::load(rho).map_err(StartError::Scheduler)?, "requested"),
            By::Auto => {
                // The kernel's own support is checked first: nothing that is built helps if it is
                // missing.
                match crate::available().and_then(|()| crate::load(rho)) {
                    Ok(loaded) => (loaded, "supported by this kernel"),
                    Err(error) => return in_user_space(config, "user", &error.to_string()),
                }
            }
        };
        let regulator = Regulator::start_with(config, loaded.rule)?;
        let chosen = Chosen { by: "bpf", why: why.into() };
        Ok(Regulated { regulator, chosen, watch: Some(loaded.watch) })
    }

    /// Returns the failure of the scheduler in BPF, if there is one.
    pub fn trouble(&self) -> Option<String> {
        self.watch.as_ref().and_then(|watch| watch())
    }
}
