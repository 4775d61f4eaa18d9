//! CUDA graphs in the survey: sequences that repeat, the calls that cut them, and their cost.

mod tape;

use late::graph::{GraphLaunch, Kernel, Reason, Sequence, Source, WorkCalls};
use late::{Options, Survey, survey};
use record::layout::host_copy;
use record::{Class, Kind};
use tape::{OK, Stream, Tape, surveyed};
use trace::metadata::{self, Tier};

const M: u64 = 0x1000;
const LAUNCH: &str = "cuLaunchKernel";
const MEMSET: &str = "cuMemsetD8Async";
const UP: &str = "cuMemcpyHtoDAsync_v2";
const DOWN: &str = "cuMemcpyDtoHAsync_v2";
const WAIT: &str = "cuStreamSynchronize";
const STREAM: u64 = 7;

/// A program that makes call after call.
struct Program {
    tape: Tape,
    thread: Stream,
    time: u64,
}

impl Program {
    fn new() -> Program {
        let mut tape = Tape::new(Tier::Preload);
        let thread = tape.thread(1, 101);
        Program { tape, thread, time: 1_000 }
    }

    /// A call of 5 us.
    fn call(&mut self, symbol: &str, stream: u64, detail: u64) {
        self.tape.enter(self.thread, self.time, symbol, stream, detail);
        self.tape.exit(self.thread, self.time + 5_000);
        self.time += 5_100;
    }

    /// One that takes two locks and waits for the first of them.
    fn memset(&mut self, bytes: u64) {
        let Program { tape, thread, time } = self;
        tape.enter(*thread, *time, MEMSET, STREAM, bytes);
        tape.waits(*thread, *time + 100, Class::Mutex, M, 0);
        for (begin, lock) in [(1_100, M), (1_300, M + 64)] {
            tape.takes(*thread, *time + begin, lock);
            tape.releases(*thread, *time + begin + 100, lock);
        }
        tape.exit(*thread, *time + 5_000);
        *time += 5_100;
    }

    fn launches(&mut self, kernels: std::ops::Range<u64>) {
        kernels.for_each(|kernel| self.call(LAUNCH, STREAM, kernel));
    }

    fn survey(&self) -> Survey {
        surveyed(&self.tape)
    }
}

/// Length, repetitions and rows of all sequences.
fn shapes(survey: &Survey) -> Vec<(u64, u64, u64)> {
    let shape = |sequence: &Sequence| (sequence.length, sequence.repeats, sequence.runs);
    survey.sequences.iter().map(shape).collect()
}

fn cuts(survey: &Survey, cuts: &[late::graph::Cut]) -> Vec<(String, Reason, u64)> {
    let name = |kind: u32| survey.kinds[kind as usize].function.clone();
    cuts.iter().map(|cut| (name(cut.kind), cut.reason, cut.times)).collect()
}

/// An inference: a copy of pinned memory of another size each time, launches, memory sets, a copy
/// back into pageable memory, and then the program waits.
fn inference(program: &mut Program, round: u64) {
    program.call(UP, STREAM, host_copy(4_000 + round * 1_000, true));
    for layer in 0..12u64 {
        program.launches(100..110);
        program.memset(64 + layer);
    }
    program.launches(105..106);
    program.call(DOWN, STREAM, host_copy(512, false));
    program.call(WAIT, STREAM, 0);
}

#[test]
fn inference_that_repeats_is_found_with_its_calls_its_locks_and_what_it_waits() {
    let mut program = Program::new();
    let kernels = &mut program.tape.metadata.kernels;
    kernels.push(metadata::Kernel { process: 1, handle: 105, name: "gemm".into() });
    (0..20).for_each(|round| inference(&mut program, round));
    let survey = program.survey();
    assert_eq!(shapes(&survey), [(135, 20, 20)]);
    let sequence = &survey.sequences[0];
    let work = WorkCalls { launches: 121, graphs: 0, copies: 2, pageable: 1, memsets: 12 };
    assert_eq!((sequence.work, sequence.default_stream), (work, false));
    assert_eq!((sequence.launching_ns, sequence.replaced_ns), (675_000, 670_000));
    assert_eq!((sequence.locks, sequence.waited_ns), (24.0, 12_000));
    let gemm = Kernel { handle: 105, name: Some("gemm".into()) };
    let first = Kernel { handle: 100, name: None };
    assert_eq!(sequence.first_kernel, Some(first.clone()));
    assert_eq!(sequence.frequent[..2], [(gemm, 13), (first, 12)]);
    let graph = GraphLaunch::measured(135);
    assert_eq!((sequence.graph, graph.nodes), (graph, Some(150)));
    assert_eq!(sequence.estimated_saving_ns, 670_000 - graph.duration_ns);
    // Twenty times in a tenth of a second.
    assert_eq!(sequence.saving_per_second_ns, 200 * sequence.estimated_saving_ns);
    assert_eq!(
        cuts(&survey, &sequence.cuts),
        [("cuStreamSynchronize".to_owned(), Reason::Wait, 20)]
    );
    assert!(sequence.is_worth_a_graph());
}

#[test]
fn calls_that_cannot_be_captured_cut_a_sequence_and_say_why() {
    for (symbol, reason) in [
        (WAIT, Reason::Wait),
        ("cuCtxSynchronize", Reason::Wait),
        ("cuEventSynchronize", Reason::Wait),
        ("cuMemcpyHtoD_v2", Reason::Blocking),
        ("cuMemsetD8_v2", Reason::Blocking),
        ("cuMemAlloc_v2", Reason::Memory),
        ("cuMemFree_v2", Reason::Memory),
        ("cuModuleLoadData", Reason::Code),
        ("cuStreamAddCallback", Reason::Callback),
    ] {
        let mut program = Program::new();
        for _ in 0..12 {
            program.launches(1..7);
            program.call(symbol, STREAM, 64);
            program.launches(20..28);
            program.call(WAIT, STREAM, 0);
        }
        let survey = program.survey();
        assert_eq!(shapes(&survey), [(8, 12, 12), (6, 12, 12)], "{symbol}");
        let six = cuts(&survey, &survey.sequences[1].cuts);
        let [(name, why, 12)] = &six[..] else { panic!("{six:?}") };
        assert!(symbol.starts_with(name.as_str()), "{name}");
        assert_eq!(*why, reason);
        let all: u64 = survey.graph_advice.cuts.iter().map(|cut| cut.times).sum();
        assert_eq!(all, 24, "{symbol}");
    }
}

#[test]
fn calls_that_a_graph_can_contain_or_do_without_cut_nothing() {
    for symbol in ["cuMemAllocAsync", "cuEventRecord", "cuEventQuery", "cuLaunchHostFunc"] {
        let mut program = Program::new();
        for _ in 0..12 {
            program.launches(1..7);
            program.call(symbol, STREAM, 64);
            program.launches(20..28);
            program.call(WAIT, STREAM, 0);
        }
        assert_eq!(shapes(&program.survey()), [(14, 12, 12)], "{symbol}");
    }
}

#[test]
fn other_kernels_in_between_are_another_sequence() {
    let mut program = Program::new();
    for round in 0..24 {
        program.launches(1..7);
        program.launches(50 + round % 2..58);
        program.call(WAIT, STREAM, 0);
    }
    assert_eq!(shapes(&program.survey()), [(14, 12, 12), (13, 12, 12)]);
}

#[test]
fn loop_without_waits_is_one_row_of_repetitions() {
    let mut program = Program::new();
    program.launches(500..503);
    (0..800).for_each(|_| program.launches(1..21));
    let survey = program.survey();
    let [(20, repeats, _)] = shapes(&survey)[..] else { panic!("{:?}", shapes(&survey)) };
    assert!((798..=800).contains(&repeats), "{repeats}");
    assert!(survey.sequences[0].cuts.is_empty());
}

#[test]
fn threads_and_processes_are_told_apart() {
    let mut tape = Tape::new(Tier::Preload);
    let streams = [tape.thread(1, 101), tape.thread(1, 102), tape.thread(2, 103)];
    for round in 0..10u64 {
        for stream in streams {
            for kernel in 0..6 {
                let begin = 1_000 + round * 100_000 + kernel * 10_000;
                tape.call(stream, begin, begin + 5_000, LAUNCH, kernel);
            }
            let begin = 70_000 + round * 100_000;
            tape.call(stream, begin, begin + 1_000, WAIT, 0);
        }
    }
    // Threads of one process that do the same could launch the same graph.
    assert_eq!(shapes(&surveyed(&tape)), [(6, 20, 20), (6, 10, 10)]);
}

#[test]
fn work_of_the_default_stream_is_said_to_be_in_the_way() {
    for (symbol, stream, expected) in [
        (LAUNCH, 0, true),
        (LAUNCH, 1, true),
        (LAUNCH, 2, false),
        ("cuLaunchKernel_ptsz", 0, false),
    ] {
        let mut program = Program::new();
        for _ in 0..10 {
            (0..6).for_each(|kernel| program.call(symbol, stream, kernel));
            program.call(WAIT, stream, 0);
        }
        let survey = program.survey();
        assert_eq!(survey.sequences[0].default_stream, expected, "{symbol} {stream}");
    }
}

#[test]
fn launch_of_the_programs_own_graphs_is_what_a_graph_costs() {
    let mut program = Program::new();
    let graph = |program: &mut Program| {
        let (thread, at) = (program.thread, program.time);
        program.tape.enter(thread, at, "cuGraphLaunch", STREAM, 0x99);
        for lock in 0..40 {
            program.tape.takes(thread, at + 10 + lock * 2, M + lock * 64);
            program.tape.releases(thread, at + 11 + lock * 2, M + lock * 64);
        }
        program.tape.exit(thread, at + 9_000);
        program.time += 10_000;
    };
    let (thread, at) = (program.thread, program.time);
    program.tape.put(thread, at, Kind::Graph, 0x99, 2 << 32 | 1, 60);
    for _ in 0..10 {
        program.launches(1..11);
        program.call(WAIT, STREAM, 0);
        graph(&mut program);
        program.call(WAIT, STREAM, 0);
    }
    let survey = program.survey();
    let own = GraphLaunch {
        duration_ns: 9_000,
        locks: Some((40, 40)),
        nodes: Some(63),
        source: Source::Trace { launches: 10 },
    };
    assert_eq!(survey.graph_advice.own, Some(own));
    let sequence = &survey.sequences[0];
    assert_eq!((sequence.graph, sequence.estimated_saving_ns), (own, 41_000));
    assert_eq!((survey.launches.direct, survey.launches.kernels_in_graphs), (100, 600));
}

#[test]
fn what_was_captured_failed_or_is_inside_of_another_call_is_no_part() {
    let mut program = Program::new();
    for _ in 0..10 {
        program.launches(1..7);
        for (detail, result) in [(1, OK), (0, 999)] {
            let at = program.time;
            program.tape.enter(program.thread, at, LAUNCH, STREAM, 50);
            program.tape.put(program.thread, at + 5_000, Kind::Exit, 0, detail, result);
            program.time += 5_100;
        }
        let at = program.time;
        program.tape.enter(program.thread, at, "cuLibraryGetKernel", 0, 0);
        program.tape.call(program.thread, at + 10, at + 20, LAUNCH, 51);
        program.tape.exit(program.thread, at + 5_000);
        program.time += 5_100;
        program.call(WAIT, STREAM, 0);
    }
    assert_eq!(shapes(&program.survey()), [(6, 10, 10)]);
}

#[test]
fn what_is_around_missing_records_is_not_joined() {
    let mut program = Program::new();
    for round in 0..12 {
        program.launches(1..4);
        if round == 5 {
            program.tape.overwritten(program.thread, 10);
        }
        program.launches(4..7);
        program.call(WAIT, STREAM, 0);
    }
    let survey = program.survey();
    assert_eq!(shapes(&survey), [(6, 11, 11)]);
}

#[test]
fn those_worth_a_graph_come_first_and_at_most_so_many_are_listed() {
    let mut program = Program::new();
    // Twice a lot, and ten times a little.
    for _ in 0..2 {
        program.launches(1_000..2_000);
        program.call(WAIT, STREAM, 0);
    }
    for unit in 0..20 {
        for _ in 0..10 {
            program.launches(unit * 10..unit * 10 + 6);
            program.call(WAIT, STREAM, 0);
        }
    }
    let trace = program.tape.trace();
    let options = Options { sequences: 5, ..Options::default() };
    let survey = survey(&trace, &options, &mut |_, _| true).unwrap();
    assert_eq!(survey.sequences.len(), 5);
    assert!(survey.sequences.iter().all(Sequence::is_worth_a_graph));
}

#[test]
fn first_time_that_is_cut_by_loading_code_is_no_sequence_of_its_own() {
    for (runs, expected) in [(1, vec![(75, 10, 10)]), (2, vec![(75, 10, 10), (12, 10, 2)])] {
        let mut program = Program::new();
        for _ in 0..runs {
            (0..10 / runs).for_each(|_| program.launches(1..13));
            program.call("cuLibraryLoadData", 0, 0);
        }
        for _ in 0..10 {
            program.launches(40..43);
            (0..6).for_each(|_| program.launches(1..13));
            program.call(WAIT, STREAM, 0);
        }
        assert_eq!(shapes(&program.survey()), expected);
    }
}
