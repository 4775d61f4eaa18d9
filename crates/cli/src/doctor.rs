//! `keeptime doctor`: what this machine allows each part of Keeptime to do, and how to grant what
//! is missing.
//!
//! Exit status: 1 if a part that was named cannot work, or, where none was named, if no part can.

use std::process::ExitCode;

use doctor::Product;

/// The options of `keeptime doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Parts to check; all of them without it
    #[arg(value_enum, value_name = "PART")]
    products: Vec<Product>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the checks and prints them.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let diagnosis = doctor::diagnose(&args.products, crate::run::find_library);
    let json = serde_json::to_value(&diagnosis)?;
    terminal::output::print(args.json, || json, || diagnosis.text())?;
    let fails = if args.products.is_empty() { diagnosis.all_fail() } else { diagnosis.any_fails() };
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
