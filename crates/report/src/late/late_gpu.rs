//! Waits for the GPU in words, and the other users of it.

use super::Findings;
use super::kernel::short;
use super::share::Sentence;
use crate::late::What;
use crate::number::{bytes, time};
use late::GpuState;
use late::result::{GpuKind, GpuWork};
use trace::metadata::GpuUser;

/// A wait for the GPU.
pub(super) fn sentence(findings: &Findings<'_>, state: GpuState, work: Option<u32>) -> Sentence {
    let gpu = findings.survey.gpu.as_ref();
    let work = gpu.zip(work).and_then(|(gpu, work)| gpu.works.get(work as usize));
    let name = work.map_or("work".to_owned(), work_name);
    match state {
        GpuState::OwnWork => {
            let usual = work.map(|work| format!(" (usually {})", time(work.usual_ns)));
            let base = format!("while it ran {name}{}", usual.unwrap_or_default());
            Sentence::of(What::Gpu, "waiting for the GPU", base)
        }
        GpuState::LongerThanUsual => {
            let usual = work.map(|work| format!(", beyond the usual {}", time(work.usual_ns)));
            let base = format!("while it ran {name}{}", usual.unwrap_or_default());
            Sentence::of(What::GpuBeyond, waiting(findings), base)
        }
        GpuState::NotGiven => {
            let base = "while it ran no work of this program, although there was some";
            Sentence::of(What::GpuBeyond, waiting(findings), base)
        }
        GpuState::ToldLate => {
            let base = "after its work had ended, of which it told late";
            Sentence::of(What::GpuBeyond, waiting(findings), base)
        }
        GpuState::Between => {
            Sentence::of(What::Gpu, "waiting for the GPU", "between two pieces of its work")
        }
        GpuState::Over => {
            let base = "which had ended all work of this program";
            Sentence::of(What::Gpu, "waiting for the GPU", base)
        }
        GpuState::NotRecorded => Sentence::new(What::Gpu, "waiting for the GPU"),
    }
}

/// Waiting, with the reason for which the GPU took longer than it should.
fn waiting(findings: &Findings<'_>) -> String {
    format!("waiting for the GPU, {}", reason(findings))
}

/// Reason for which the GPU did not do this program's work at its usual speed, as far as it is
/// known.
pub(super) fn reason(findings: &Findings<'_>) -> String {
    let machine = &findings.metadata.machine;
    let others = others(findings);
    if let Some((first, more)) = others.split_first() {
        let share = first.percent.map(|percent| format!(", busy {percent} % of the time"));
        let words = format!("shared with {}{}", user_name(first), share.unwrap_or_default());
        return match more.len() {
            0 => words,
            1 => format!("{words}, and {}", user_name(more[0])),
            count => format!("{words}, and {count} more processes"),
        };
    }
    let slowed: Vec<&str> =
        machine.gpus.iter().flat_map(|gpu| &gpu.slowed).map(String::as_str).collect();
    match (slowed.is_empty(), machine.gpus.is_empty()) {
        (false, _) => format!("at lower clocks ({})", slowed.join(", ")),
        (true, false) => "on which no other process was seen".to_owned(),
        (true, true) => "shared with another process, or at lower clocks".to_owned(),
    }
}

/// Users of the GPUs that were not recorded, the one with the largest share first. Where none has a
/// name, the recorded program may be among them under another number: then there are no others.
fn others<'f>(findings: &'f Findings<'_>) -> Vec<&'f GpuUser> {
    let own: Vec<u32> = findings.metadata.processes.iter().map(|process| process.pid).collect();
    let users = findings.metadata.machine.gpus.iter().flat_map(|gpu| &gpu.users);
    let mut others: Vec<&GpuUser> =
        users.filter(|user| user.name.is_some() && !own.contains(&user.pid)).collect();
    others.sort_by_key(|user| (std::cmp::Reverse(user.percent), user.pid));
    others
}

/// `python3 (4711)`.
fn user_name(user: &GpuUser) -> String {
    match &user.name {
        Some(name) => format!("{name} ({})", user.pid),
        None => format!("process {}", user.pid),
    }
}

/// `gemm grid 197x6x1`, or `a copy of 64 MiB`.
pub(super) fn work_name(work: &GpuWork) -> String {
    let size = bytes(work.bytes.unwrap_or_default());
    match (work.kind, &work.name) {
        (GpuKind::Kernel, Some(name)) => format!("kernel {}", with_grid(name)),
        (GpuKind::Kernel, None) => "a kernel".to_owned(),
        (GpuKind::Copy, _) => format!("a copy of {size}"),
        (GpuKind::Memset, _) => format!("a memory set of {size}"),
    }
}

/// A kernel's name without its template arguments, and its grid.
fn with_grid(name: &str) -> String {
    match name.split_once(" grid ") {
        Some((name, grid)) => format!("{}, grid {grid}", short(name)),
        None => short(name),
    }
}
