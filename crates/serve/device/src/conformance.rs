//! One suite for every device: does it keep the contract of [`Device`]?
//!
//! [`run`] runs all cases, one after the other, each in a context of its own that is destroyed
//! afterwards. No case sleeps or relies on the length of anything. Where a case needs the device
//! to be occupied while it submits, it launches work that would run for minutes, and cancels it
//! when everything is in place; where it needs to know that work runs, it watches the count of
//! blocks. A time limit exists only to end a case on a device that hangs.
//!
//! ```no_run
//! use device::{conformance, software};
//! let device = software::SoftwareDevice::on_cores(software::Config::default())?;
//! let report = conformance::run(device);
//! print!("{report}");
//! assert!(report.passed());
//! # Ok::<(), device::Error>(())
//! ```

mod copies;
mod events;
mod levels;
mod lifecycle;
mod order;
mod refusal;
mod results;
mod scene;
mod stress;
mod traffic;

use crate::Device;
use scene::{NO_KERNEL, Scene, Stop};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Results of all cases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Cases in the order in which they ran.
    pub cases: Vec<Case>,
}

/// One property of the contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The property, as a sentence.
    pub name: &'static str,
    /// Result of its case.
    pub result: CaseResult,
}

/// Result of one case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CaseResult {
    /// The device keeps the property.
    Passed,
    /// The device does not have the property; the text says how that showed.
    Failed(String),
    /// The property does not apply to this device, and why.
    Skipped(String),
}

impl Report {
    /// The cases that were left out because the device lacks a kernel. A device that offers all of
    /// them has none.
    pub fn without_kernel(&self) -> impl Iterator<Item = &'static str> {
        let lacks = |case: &&Case| matches!(&case.result, CaseResult::Skipped(why) if why.starts_with(NO_KERNEL));
        self.cases.iter().filter(lacks).map(|case| case.name)
    }

    /// Returns true if no case failed.
    pub fn passed(&self) -> bool {
        !self.cases.iter().any(|case| matches!(case.result, CaseResult::Failed(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Case { name, result } in &self.cases {
            match result {
                CaseResult::Passed => writeln!(f, "ok    {name}")?,
                CaseResult::Failed(how) => writeln!(f, "FAIL  {name}: {how}")?,
                CaseResult::Skipped(why) => writeln!(f, "SKIP  {name}: {why}")?,
            }
        }
        Ok(())
    }
}

type Check = fn(&Scene) -> Result<(), Stop>;

/// Runs all cases. Nothing else should use the device meanwhile.
pub fn run(device: Arc<dyn Device>) -> Report {
    let groups: [&[(&'static str, Check)]; 9] = [
        results::CASES,
        traffic::CASES,
        refusal::CASES,
        order::CASES,
        levels::CASES,
        copies::CASES,
        events::CASES,
        lifecycle::CASES,
        stress::CASES,
    ];
    let cases = groups.into_iter().flatten();
    Report { cases: cases.map(|(name, check)| run_case(&device, name, *check)).collect() }
}

fn run_case(device: &Arc<dyn Device>, name: &'static str, check: Check) -> Case {
    let attempt = AssertUnwindSafe(|| check(&Scene::new(device.clone())?));
    let result = match catch_unwind(attempt) {
        Ok(Ok(())) => CaseResult::Passed,
        Ok(Err(Stop::Failed(how))) => CaseResult::Failed(how),
        Ok(Err(Stop::Skipped(why))) => CaseResult::Skipped(why),
        Err(_) => CaseResult::Failed("panicked".into()),
    };
    Case { name, result }
}
