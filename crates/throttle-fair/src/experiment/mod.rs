//! Document 001's section IV-C-4, and what it is for: a core that is regulated runs a memory-bound
//! and a compute-bound task of equal weight, under the default scheduler and under this crate's.
//!
//! The regulator is as simple as the experiment allows: it counts page faults, a software event that
//! every machine has, virtual ones too. The memory-bound task faults all the time, the compute-bound
//! one never. A core whose budget of faults is spent is kept by a real-time thread until the period
//! ends, and the task of the last fault is charged.
//!
//! `tasks` are the two programs, `counter` the event, `regulator` the thread, `outcome` what came of
//! it and what has to, `rule` the arithmetic of the rule.

mod counter;
pub mod outcome;
pub mod regulator;
pub mod rule;
pub mod tasks;
