//! Choice of the implementation of throttle-fair scheduling: the scheduler in BPF, if the kernel
//! takes one, or the rule in user space.

use std::str::FromStr;

use anyhow::Context;
use bandwidth::regulator::{Config, Regulator};
use serde::Serialize;
use throttle_fair::Watch;

/// An implementation, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// In BPF where that can be had, else in user space
    Auto,
    /// The scheduler in BPF
    Bpf,
    /// In user space
    User,
}

/// Value of `--fair`: an implementation, none, or rho, which was the only value once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fair {
    By(By),
    None,
    Rho(f64),
}

impl FromStr for Fair {
    type Err = String;

    fn from_str(text: &str) -> Result<Fair, String> {
        Ok(match text {
            "auto" => Fair::By(By::Auto),
            "bpf" => Fair::By(By::Bpf),
            "user" => Fair::By(By::User),
            "none" => Fair::None,
            _ => {
                let rho = text.parse().ok().filter(|rho: &f64| rho.is_finite());
                Fair::Rho(rho.ok_or("expected auto, bpf, user, none, or a factor rho, as in 3")?)
            }
        })
    }
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
    /// For people.
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
    pub regulator: Regulator,
    pub chosen: Chosen,
    watch: Option<Watch>,
}

impl Regulated {
    /// Starts one, which has no rule if the settings have no rho.
    ///
    /// # Errors
    /// As [`Regulator::start`], and if the scheduler in BPF is asked for and cannot be had.
    pub fn start(config: Config, by: By) -> anyhow::Result<Regulated> {
        let in_user_space = |config, by, why: &str| {
            let chosen = Chosen { by, why: why.into() };
            Ok(Regulated { regulator: Regulator::start(config)?, chosen, watch: None })
        };
        let Some(rho) = config.rho else { return in_user_space(config, "none", "not asked for") };
        let (loaded, why) = match by {
            By::User => return in_user_space(config, "user", "asked for"),
            By::Bpf => (throttle_fair::load(rho).context("--fair bpf")?, "asked for"),
            By::Auto => {
                // The kernel's own support is checked first: nothing that is built helps if it is
                // missing.
                match throttle_fair::available().and_then(|()| throttle_fair::load(rho)) {
                    Ok(loaded) => (loaded, "this kernel takes one"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementation_and_rho_are_told_apart() {
        assert_eq!("auto".parse(), Ok(Fair::By(By::Auto)));
        assert_eq!("bpf".parse(), Ok(Fair::By(By::Bpf)));
        assert_eq!("user".parse(), Ok(Fair::By(By::User)));
        assert_eq!("none".parse(), Ok(Fair::None));
        assert_eq!("0.5".parse(), Ok(Fair::Rho(0.5)));
        for text in ["", "BPF", "x", "NaN", "inf", "bpf:1"] {
            assert!(text.parse::<Fair>().unwrap_err().contains("expected auto, bpf"), "{text}");
        }
    }
}
