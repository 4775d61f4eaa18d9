//! `empty`: one block that does nothing; the cost of a launch without its work.

use super::{Kernel, Plan};

pub(super) const KERNEL: Kernel = Kernel {
    name: "empty",
    description: "does nothing; no arguments, no memory",
    plan: |_| Ok(Plan { blocks: 1, workspace: 0, finishes: false }),
    block: |_, _, _| Ok(()),
    finish: None,
};
