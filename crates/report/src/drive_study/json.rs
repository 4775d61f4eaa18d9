//! The result for machines.

use super::DriveStudyRun;
use serde_json::Value;

/// The result as JSON: `demands`, each with `value`, `interval` and `verdict` (met, missed or
/// not_measured), and `sections` with the numbers of every table and plot.
pub fn json(run: &DriveStudyRun) -> Value {
    serde_json::to_value(run).unwrap_or_default()
}
