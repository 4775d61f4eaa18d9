//! Facts of a recording beside its records: the machine, its clock, and the names that the
//! program's processes left.

use crate::metadata::{Clock, Kernel, Machine, Metadata, Module, Process, Text, TroubleCount};
use record::clock::Reading;
use record::{NameKind, Side, Trouble};
use std::fs;

/// The machine that this is.
pub(super) fn machine() -> Machine {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let driver = fs::read_to_string("/proc/driver/nvidia/version").ok();
    Machine {
        processors: fields(&processors, "processor").count() as u32,
        processor: fields(&processors, "model name").next().unwrap_or_default().to_owned(),
        kernel: kernel.trim().to_owned(),
        gpu_driver: driver.as_deref().and_then(driver_version).map(str::to_owned),
        gpus: Vec::new(),
    }
}

/// The clock of a trace between two readings.
pub(super) fn clock(start: Reading, end: Reading) -> Clock {
    let tsc = cfg!(target_arch = "x86_64");
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Clock {
        source: if tsc { "tsc" } else { "monotonic" }.to_owned(),
        even: !tsc || runs_evenly(&processors),
        start: (start.ticks, start.ns),
        end: (end.ticks, end.ns),
        spread: start.spread.max(end.spread),
    }
}

/// Returns true if every processor has a counter that neither its frequency nor its sleep changes.
fn runs_evenly(processors: &str) -> bool {
    let mut all = fields(processors, "flags").peekable();
    all.peek().is_some()
        && all.all(|flags| {
            ["constant_tsc", "nonstop_tsc"]
                .iter()
                .all(|wanted| flags.split_whitespace().any(|flag| flag == *wanted))
        })
}

/// The values of `name : value` lines.
fn fields<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(move |(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// The version in the first line of the driver's file: the first word of digits and dots.
fn driver_version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| {
        word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    text.lines().next()?.split_whitespace().find(is_version)
}

/// Adds what the side area holds: names and troubles.
pub(super) fn add_names(side: &Side, metadata: &mut Metadata) {
    for name in side.names() {
        let (process, text) = (name.process, name.text);
        match name.kind {
            NameKind::Process => metadata.processes.push(Process {
                number: process,
                pid: (name.b >> 32) as u32,
                parent: name.b as u32,
                started: name.a,
                program: text,
            }),
            NameKind::Module => {
                metadata.modules.push(Module { process, start: name.a, end: name.b, file: text });
            }
            NameKind::Kernel => {
                metadata.kernels.push(Kernel { process, handle: name.a, name: text });
            }
            NameKind::Text => metadata.texts.push(Text { process, number: name.a, text }),
        }
    }
    metadata.processes.sort_by_key(|process| process.number);
    let troubles = TROUBLES.iter().map(|trouble| (side.troubles()[*trouble as usize], *trouble));
    metadata.troubles.extend(
        troubles
            .filter(|(count, _)| *count > 0)
            .map(|(count, trouble)| TroubleCount { trouble: describe(trouble).to_owned(), count }),
    );
}

const TROUBLES: [Trouble; record::side::TROUBLES] = [
    Trouble::UncoveredFunction,
    Trouble::NotAttached,
    Trouble::NameLost,
    Trouble::FunctionMissing,
    Trouble::NestedTooDeep,
    Trouble::Cupti,
    Trouble::Valgrind,
];

fn describe(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::UncoveredFunction => {
            "the program obtained functions of the driver that are not recorded"
        }
        Trouble::NotAttached => "processes could not attach to the recording",
        Trouble::NameLost => "the memory for names was full",
        Trouble::FunctionMissing => "functions of the C library were not found",
        Trouble::NestedTooDeep => "calls of the driver were nested too deep",
        Trouble::Cupti => "CUPTI could not be used, or its data could not be read",
        Trouble::Valgrind => "processes ran under Valgrind, where nothing is recorded or guarded",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Recording, Settings};

    #[test]
    fn driver_version_is_found_in_both_kinds_of_line() {
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159  Release Build\nGCC 13.2";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release";
        assert_eq!(driver_version(closed), Some("580.159"));
        assert_eq!(driver_version(open), Some("580.65.06"));
        assert_eq!(driver_version("something else"), None);
    }

    #[test]
    fn clock_is_even_only_if_every_processor_says_so() {
        let good = "processor : 0\nflags\t\t: fpu constant_tsc rdtscp nonstop_tsc\n";
        assert!(runs_evenly(good));
        assert!(runs_evenly(&good.repeat(2)));
        assert!(!runs_evenly(&format!("{good}flags : fpu constant_tsc\n")));
        assert!(!runs_evenly("processor : 0\n"));
        assert!(!runs_evenly("flags : constant_tsc_x nonstop_tsc\n"));
    }

    #[test]
    fn machine_has_processors_and_a_kernel() {
        let machine = machine();
        assert!(machine.processors > 0, "{machine:?}");
        assert!(machine.kernel.starts_with(|letter: char| letter.is_ascii_digit()), "{machine:?}");
    }

    #[test]
    fn names_and_troubles_become_metadata() {
        let recording = Recording::create(1 << 16, &Settings::default()).unwrap();
        let side = recording.side();
        assert!(side.add(NameKind::Process, 2, 50, 7 << 32 | 6, b"second"));
        assert!(side.add(NameKind::Process, 1, 40, 6 << 32 | 5, b"first"));
        assert!(side.add(NameKind::Module, 1, 0x1000, 0x2000, b"/lib/libcuda.so.1"));
        assert!(side.add(NameKind::Kernel, 2, 0xabc, 0, b"matmul"));
        assert!(side.add(NameKind::Text, 2, 9, 0, b"text"));
        side.count(Trouble::Cupti);
        side.count(Trouble::Cupti);
        let mut metadata = Metadata::default();
        add_names(&side, &mut metadata);
        let programs: Vec<_> =
            metadata.processes.iter().map(|p| (p.pid, p.parent, p.program.as_str())).collect();
        assert_eq!(programs, [(6, 5, "first"), (7, 6, "second")]);
        assert_eq!(metadata.modules[0].end, 0x2000);
        assert_eq!(metadata.kernels[0].name, "matmul");
        assert_eq!((metadata.texts[0].number, metadata.texts[0].process), (9, 2));
        let [trouble] = &metadata.troubles[..] else { panic!("{:?}", metadata.troubles) };
        assert!(trouble.trouble.contains("CUPTI") && trouble.count == 2, "{trouble:?}");
    }
}
