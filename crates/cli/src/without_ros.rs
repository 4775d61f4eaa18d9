//! The commands of the ROS 2 graph in a program that was built without it: they say so.

/// Line of `keeptime remote` in the list of commands.
pub(crate) const ABOUT: &str =
    "Use the accelerators of another machine over the ROS 2 graph (not in this build)";

const MISSING: &str = "this keeptime was built without ROS 2; build it with the feature ros: \
                       cargo install --path crates/cli --features ros";

pub(crate) mod remote {
    use std::ffi::OsString;
    use std::process::ExitCode;

    /// Options of `keeptime remote`: whatever the full program knows.
    #[derive(clap::Args)]
    pub(crate) struct Args {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        _all: Vec<OsString>,
    }

    /// Refuses.
    pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
        anyhow::bail!("{}", super::MISSING)
    }
}

pub(crate) mod ros_gateway {
    use system::System;

    /// Refuses a system with a section `ros`.
    pub(crate) fn check(system: &System) -> anyhow::Result<()> {
        anyhow::ensure!(system.ros.is_none(), "ros: {}", super::MISSING);
        Ok(())
    }
}
