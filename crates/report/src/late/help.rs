//! What helps against a cause: remedies in words, the command where Keeptime has them, and what was
//! applied already when the program was recorded, with what it brought.

use super::Findings;
use super::advice::times;
use crate::number::{counted, listed, time};
use late::result::Lock;
use late::{Evidence, Family, Remedy, Verdict};
use record::guard::ACCELERATOR_LIBRARIES;
use trace::metadata::{Guard, GuardCounts};

/// Help against one cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Help {
    /// Remedies that were not applied, the most promising first.
    pub(super) open: Vec<Remedy>,
    /// The command that applies some of them, word by word.
    pub(super) command: Option<Vec<String>>,
    /// Remedies that were applied, and what they brought, in a sentence.
    pub(super) applied: Option<String>,
}

impl Help {
    /// The command as a shell takes it.
    pub(super) fn command_line(&self) -> Option<String> {
        let words = self.command.as_ref()?;
        Some(terminal::command_line::quoted(words.iter().cloned()))
    }
}

/// Help against the cause of a verdict.
pub(super) fn help(findings: &Findings<'_>, verdict: &Verdict) -> Help {
    let lock = verdict.lock.and_then(|place| findings.survey.locks.get(place as usize));
    let guard = findings.metadata.guard.as_ref();
    let guard = guard.zip(lock).filter(|(guard, lock)| is_guarded(findings, guard, lock));
    let is_applied = |remedy: &Remedy| guard.is_some_and(|(guard, _)| has(guard, verdict, *remedy));
    let (applied, mut open): (Vec<Remedy>, Vec<Remedy>) =
        verdict.remedies.iter().copied().partition(is_applied);
    if open.is_empty() && !applied.is_empty() {
        open.push(Remedy::ShorterHolds);
    }
    let by_guard = |remedy: &Remedy| is_of_guard(*remedy);
    let lock = lock.filter(|lock| open.iter().any(by_guard) && lock.can_be_guarded());
    let said = guard.filter(|_| !applied.is_empty());
    Help {
        command: lock.and_then(|lock| guard_command(findings, verdict, lock)),
        applied: said.map(|(guard, lock)| brought_here(guard, lock, &applied)),
        open,
    }
}

/// Returns true if a guard has a remedy.
fn is_of_guard(remedy: Remedy) -> bool {
    matches!(remedy, Remedy::InheritanceMutex | Remedy::FairMutex | Remedy::PhaseFairRwLock)
}

/// Returns true if this guard applied a remedy.
fn has(guard: &Guard, verdict: &Verdict, remedy: Remedy) -> bool {
    match remedy {
        Remedy::InheritanceMutex => guard.mutexes.contains("inherit"),
        Remedy::FairMutex => guard.mutexes.contains("fair"),
        Remedy::PhaseFairRwLock => guard.phase_fair && (guard.boost || !is_held_up(verdict)),
        _ => false,
    }
}

/// Returns true if the holder of the lock could not run: then its priority is what matters.
fn is_held_up(verdict: &Verdict) -> bool {
    matches!(
        verdict.evidence,
        Evidence::PriorityInversion { .. } | Evidence::PreemptedHolder { .. }
    )
}

/// The file names of the modules that take a lock.
fn takers(lock: &Lock) -> impl Iterator<Item = &str> {
    let files = lock.callers.iter().filter_map(|caller| caller.module.as_deref());
    files.map(|file| file.rsplit('/').next().unwrap_or(file))
}

/// Returns true if a guard was responsible for a lock, and could guard it.
fn is_guarded(findings: &Findings<'_>, guard: &Guard, lock: &Lock) -> bool {
    let named = |name: &str| guard.libraries.iter().any(|library| name.starts_with(library));
    let unknown = takers(lock).next().is_none();
    let from = guard.everywhere || takers(lock).any(named) || unknown && in_calls(findings, lock);
    from && lock.can_be_guarded()
}

/// Returns true if calls of the driver take a lock: then it is the driver's.
fn in_calls(findings: &Findings<'_>, lock: &Lock) -> bool {
    !findings.groups_of(lock).is_empty()
}

/// `keeptime run --guard fair+inherit -- PROGRAM`, with what it takes to reach this lock.
fn guard_command(findings: &Findings<'_>, verdict: &Verdict, lock: &Lock) -> Option<Vec<String>> {
    let program = &findings.metadata.command;
    if program.is_empty() {
        return None;
    }
    let mut words = ["keeptime", "run", "--guard", "fair+inherit"].map(str::to_owned).to_vec();
    words.extend(guarded_libraries(findings, lock));
    if lock.family == Family::ReadWrite && is_held_up(verdict) {
        words.push("--guard-boost".to_owned());
    }
    words.push("--".to_owned());
    words.extend(program.iter().cloned());
    Some(words)
}

/// The options that name the library of a lock, unless a guard is responsible for it anyway.
fn guarded_libraries(findings: &Findings<'_>, lock: &Lock) -> Vec<String> {
    let accelerator = |name: &str| ACCELERATOR_LIBRARIES.iter().any(|of| name.starts_with(of));
    let unknown = takers(lock).next().is_none();
    if takers(lock).any(accelerator) || unknown && in_calls(findings, lock) {
        return Vec::new();
    }
    let library = takers(lock).next().and_then(|name| name.split_once(".so"));
    match library {
        Some((name, _)) => vec!["--guard-from".to_owned(), format!("{name}.so")],
        None => vec!["--guard-all".to_owned()],
    }
}

/// What the guard did in the whole program, one fact each.
pub(super) fn brought(guard: &Guard) -> Vec<String> {
    let GuardCounts { handed_over, lent, outlasted_bound, .. } = guard.counts;
    let GuardCounts { mutexes_converted, rwlocks_converted, rwlocks_readers_first, .. } =
        guard.counts;
    let done = [
        (mutexes_converted, "mutex made to inherit", "mutexes made to inherit"),
        (rwlocks_converted, "phase-fair read-write lock", "phase-fair read-write locks"),
        (handed_over, "hand-over", "hand-overs"),
        (lent, "wait lent a priority", "waits lent a priority"),
        (outlasted_bound, "wait longer than the bound", "waits longer than the bound"),
        (
            rwlocks_readers_first,
            "read-write lock with the C library's order again",
            "read-write locks with the C library's order again",
        ),
    ];
    let done = done.into_iter().filter(|(number, ..)| *number > 0);
    done.map(|(number, one, many)| counted(number, one, many)).collect()
}

/// Says that a guard was on, and what it did.
pub(super) fn of_guard(guard: &Guard) -> String {
    let done = match brought(guard) {
        none if none.is_empty() => "nothing was to be done".to_owned(),
        done => listed(&done),
    };
    let bound = match guard.mutexes.contains("fair") {
        true => format!(" (bound {})", time(guard.bound_ns)),
        false => String::new(),
    };
    format!("The guard {}{bound} was on: {done}.", guard.mutexes)
}

/// Says what the guard did for a lock, and of what it applied, what it did in the whole program.
fn brought_here(guard: &Guard, lock: &Lock, applied: &[Remedy]) -> String {
    let mut done = Vec::new();
    if applied.contains(&Remedy::PhaseFairRwLock) {
        done.push("readers and writers took turns".to_owned());
    }
    if applied.contains(&Remedy::FairMutex) {
        done.push(match lock.handed_over {
            0 => "no wait for it needed a hand-over".to_owned(),
            number => format!("it was handed over {}", times(number)),
        });
    }
    if applied.contains(&Remedy::InheritanceMutex) {
        done.push(match guard.counts.lent {
            _ if guard.mutexes == "inherit" => "it had priority inheritance".to_owned(),
            0 => {
                "no real-time thread waited for any lock, so that none lent its priority".to_owned()
            }
            number => {
                format!("{} lent a priority in the whole program", counted(number, "wait", "waits"))
            }
        });
    }
    format!("Guarded already (--guard {}): {}.", guard.mutexes, done.join("; "))
}

/// A remedy in two or three words.
pub(super) fn remedy_name(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::InheritanceMutex => "priority inheritance",
        Remedy::FairMutex => "a fair mutex",
        Remedy::PhaseFairRwLock => "a phase-fair read-write lock",
        Remedy::ShorterHolds => "shorter holds",
        Remedy::PinnedMemory => "pinned memory",
        Remedy::SmallerCopies => "smaller copies",
        Remedy::CudaGraph => "a CUDA graph",
        Remedy::FewerThreads => "fewer threads",
        Remedy::HigherPriority => "a real-time priority",
        Remedy::FewerOutstandingLaunches => "fewer outstanding launches",
        Remedy::LockedMemory => "locked memory",
        Remedy::ArbitratedGpu => "one order of the programs' work",
    }
}

/// Text of a remedy. No command is named that does not exist.
pub(super) fn remedy_words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::InheritanceMutex => {
            "Make it a mutex with priority inheritance (PTHREAD_PRIO_INHERIT when it is \
             initialised), so that its holder runs at the priority of the threads that wait. Where \
             the source is closed, `keeptime run --guard` does that."
        }
        Remedy::FairMutex => {
            "Use a mutex that is handed to the thread that has waited longest; that of glibc goes \
             to the first thread that comes. That trades a shorter tail for a longer median. Where \
             the source is closed, `keeptime run --guard` does that."
        }
        Remedy::PhaseFairRwLock => {
            "Use a phase-fair read-write lock, in which readers and writers take turns; neither \
             policy of glibc does that. Where the source is closed, `keeptime run --guard` does that."
        }
        Remedy::ShorterHolds => {
            "Hold the lock for less time: a guard decides who comes next, and shortens no critical \
             section."
        }
        Remedy::PinnedMemory => {
            "Copy from and to pinned memory (cuMemHostAlloc, cudaMallocHost): the calling thread \
             then holds no lock while the data moves."
        }
        Remedy::SmallerCopies => "Copy in smaller pieces, so that others get the lock in between.",
        Remedy::CudaGraph => {
            "Capture the sequence into a CUDA graph and launch that: one call and few locks \
             instead of many."
        }
        Remedy::FewerThreads => {
            "Let fewer threads call the driver at once, or run fewer threads than processors; \
             `keeptime serve` lets one process make the calls of many, by chain priority."
        }
        Remedy::HigherPriority => {
            "Give the threads that must be on time a real-time priority (`chrt -f`), those that \
             hold its locks included. With `keeptime run --guard`, holders run at the priority of \
             the real-time threads that wait for them."
        }
        Remedy::FewerOutstandingLaunches => {
            "Wait for the stream more often, so that fewer launches are outstanding."
        }
        Remedy::LockedMemory => {
            "Lock and touch memory before it counts (mlockall, and one write to each page), and \
             look at the timeline for the system calls."
        }
        Remedy::ArbitratedGpu => {
            "Let one server give the work of all programs to the GPU, the most urgent first \
             (`keeptime serve`, with a client library), or run both under NVIDIA's MPS with \
             priorities: without, the driver gives the GPU to each process for some milliseconds \
             by turns. Shorter kernels of the other program shorten the wait, too."
        }
    }
}
