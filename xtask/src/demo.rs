//! `cargo xtask demo`: builds the command and runs the case study for real, under several
//! policies, beside its bounds.

use crate::step::Step;

const SYSTEM: &str = "examples/paam-case-study-1.yaml";

/// The options of the demo.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Time for which each policy runs
    #[arg(long, default_value = "60s")]
    duration: String,
    /// The policies to compare
    #[arg(long, default_value = "priority,fifo,timeslice")]
    policy: String,
    /// More options for `keeptime-lab chains`, after --
    #[arg(last = true)]
    more: Vec<String>,
}

/// Builds, announces how long it takes, and runs.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    crate::laboratory()?;
    let policies = args.policy.split(',').count();
    let plural = if policies == 1 { "policy" } else { "policies" };
    eprintln!("==> The chains now run for real under {policies} {plural}, {} each.", args.duration);
    let report = crate::target().join("chains-report.html");
    eprintln!("==> The page with the plots will be {}.", report.display());
    Step::program(crate::target().join("release/keeptime-lab"))
        .args(["chains", SYSTEM, "--policy", &args.policy, "--duration", &args.duration, "--html"])
        .arg(&report)
        .args(&args.more)
        .answers()
}
