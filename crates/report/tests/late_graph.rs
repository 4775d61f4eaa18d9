//! Sentences of the report on CUDA graphs, in all its forms.

mod late_findings;
#[path = "../../observe/late/tests/tape/mod.rs"]
mod late_tape;
mod whole;

use late_findings::{findings, text};
use late_tape::{Stream, Tape};
use record::Kind;
use record::layout::host_copy;
use report::late::{html, json};
use trace::metadata::{Kernel, Tier};

const M: u64 = 0x1000;
const LAUNCH: &str = "cuLaunchKernel";
const GEMM: &str = "_ZN7cutlass7Kernel2I16cutlass_80_sgemmEEvNT_6ParamsE";

/// An inference of 30 launches and a copy of pageable memory that repeats, each launch with one
/// lock, in the default stream.
fn inferences(rounds: u64) -> (Tape, Stream) {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, 4712);
    tape.name(thread, 1, "infer", 0, 0);
    for (handle, name) in [(0x100, "first"), (0x107, GEMM)] {
        tape.metadata.kernels.push(Kernel { process: 1, handle, name: name.into() });
    }
    for round in 0..rounds {
        let begin = 1_000_000 + round * 1_000_000;
        for call in 0..30 {
            let at = begin + call * 10_000;
            let kernel = if call % 3 == 1 { 7 } else { call };
            tape.enter(thread, at, LAUNCH, 0, 0x100 + kernel);
            tape.takes(thread, at + 100, M);
            tape.releases(thread, at + 200, M);
            tape.exit(thread, at + 4_000);
        }
        let bytes = host_copy(1 << 10, false);
        tape.enter(thread, begin + 310_000, "cuMemcpyDtoHAsync_v2", 0, bytes);
        tape.exit(thread, begin + 320_000);
        tape.call(thread, begin + 400_000, begin + 401_000, "cuStreamSynchronize", 0);
    }
    (tape, thread)
}

/// A text in one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn sequence_is_told_with_what_it_takes_what_it_saves_and_what_is_in_the_way() {
    let (tape, _) = inferences(50);
    let trace = tape.trace();
    let text = flat(&text(&findings(&trace)));
    for expected in [
        "CUDA graphs Estimates from the recorded calls; nothing was captured.",
        "1 infer (4712), 50 times: 30 launches and 1 copy They take 130 us and 30 locks each time \
         (median). They do not wait for locks. One graph launch instead of 31 calls: about 4 us and 70 to \
         123 locks, measured on an H200 for 62 nodes; saves about 116 us each time, 58 ms in each \
         second of the trace.",
        "First first; most often Kernel2<cutlass_80_sgemm> (10), first (1) and the kernel at \
         0x102 (1).",
        "Obstacles: it ends at cuStreamSynchronize (50 times), which waits for the device; its \
         work is in the default stream, which cannot be captured; 1 copy of pageable memory would \
         take as long in a graph.",
    ] {
        assert!(text.contains(&flat(expected)), "{expected}: {text}");
    }
    assert!(!text.contains("already"), "it launches no graph: {text}");
}

#[test]
fn what_is_rare_short_or_quick_gets_no_section() {
    let (rare, _) = inferences(9);
    let mut short = Tape::new(Tier::Preload);
    let mut quick = Tape::new(Tier::Preload);
    for (tape, calls, length) in [(&mut short, 4, 4_000), (&mut quick, 30, 100)] {
        let thread = tape.thread(1, 4712);
        for round in 0..50u64 {
            let begin = 1_000_000 + round * 1_000_000;
            for call in 0..calls {
                let at = begin + call * 10_000;
                tape.call(thread, at, at + length, LAUNCH, call);
            }
            tape.call(thread, begin + 400_000, begin + 401_000, "cuStreamSynchronize", 0);
        }
    }
    for (tape, name) in [(rare, "rare"), (short, "short"), (quick, "quick")] {
        let trace = tape.trace();
        let findings = findings(&trace);
        assert!(!text(&findings).contains("CUDA graph"), "{name}: {}", text(&findings));
        assert!(!html(&findings, None).unwrap().contains("CUDA graphs"), "{name}");
        let json = json(&findings);
        assert_eq!(json["graph_advice"]["sequences"].as_array().unwrap().len(), 0, "{name}");
        assert!(!findings.survey.sequences.is_empty(), "{name}: it does repeat");
    }
}

#[test]
fn json_has_the_same_in_numbers() {
    let (tape, _) = inferences(50);
    let trace = tape.trace();
    let json = json(&findings(&trace));
    let advice = &json["graph_advice"];
    let keys: Vec<&str> = advice.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "sequences own_graph_launch share_of_kernels_in_graphs cuts forgotten about";
    assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
    assert!(advice["own_graph_launch"].is_null());
    assert_eq!(advice["share_of_kernels_in_graphs"], 0.0);
    assert_eq!(
        advice["cuts"],
        serde_json::json!([{ "call": "cuStreamSynchronize", "reason": "wait", "times": 50 }])
    );
    let sequence = &advice["sequences"][0];
    for (key, expected) in [
        ("sequence", 0),
        ("repeats", 50),
        ("runs", 50),
        ("length", 31),
        ("launching_ns", 130_000),
        ("mean_ns", 130_000),
        ("replaced_ns", 120_000),
        ("waited_ns", 0),
        ("saved_ns", 116_000),
        ("saved_per_second_ns", 58_000_000),
    ] {
        assert_eq!(sequence[key].as_u64(), Some(expected), "{key}");
    }
    assert_eq!((&sequence["locks"], &sequence["default_stream"]), (&30.0.into(), &true.into()));
    assert_eq!(sequence["thread"]["name"], "infer");
    assert_eq!(
        (sequence["work"]["launches"].as_u64(), sequence["work"]["pageable"].as_u64()),
        (Some(30), Some(1))
    );
    assert_eq!(sequence["frequent_kernels"][0]["name"], GEMM);
    let cost = &sequence["graph_launch"];
    assert_eq!(
        (cost["duration_ns"].as_u64(), cost["source"].as_str()),
        (Some(4_000), Some("measured"))
    );
    assert!(sequence["words"].as_str().unwrap().contains("Obstacles: it ends at"));
}

#[test]
fn page_has_a_table_with_the_same() {
    let (tape, _) = inferences(50);
    let trace = tape.trace();
    let page = html(&findings(&trace), None).unwrap();
    whole::check(&page);
    let page = flat(&page);
    for expected in [
        "<h2>CUDA graphs</h2>",
        "<th scope=\"row\">infer (4712)</th><td>50</td><td class=\"takers\">30 launches and 1 copy<small>",
        "Kernel2&lt;cutlass_80_sgemm&gt; (10)",
        "<td>130 us</td><td>0 ns</td><td>30</td>",
        ">about 4 us</td><td>116 us</td><td>58 ms</td>",
        "measured on an H200 for 62 nodes",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}

#[test]
fn program_that_launches_graphs_is_told_how_many_of_its_kernels_they_have() {
    let (mut tape, thread) = inferences(30);
    tape.put(thread, 50_000_000, Kind::Graph, 0x99, 0, 60);
    for round in 0..15u64 {
        let at = 50_100_000 + round * 100_000;
        tape.call(thread, at, at + 9_000, "cuGraphLaunch", 0x99);
        tape.call(thread, at + 10_000, at + 20_000, "cuStreamSynchronize", 0);
    }
    let trace = tape.trace();
    let findings = findings(&trace);
    let text = flat(&text(&findings));
    for expected in [
        "about 9 us and 0 locks, the median of its own 15 launches of 60 nodes on average; saves \
         about 111 us each time",
        "The program makes 15 graph launches already: 50 % of 1800 kernels go through them.",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let advice = &json(&findings)["graph_advice"];
    assert_eq!(advice["share_of_kernels_in_graphs"], 0.5);
    assert_eq!(advice["own_graph_launch"]["source"]["trace"]["launches"], 15);
}

#[test]
fn locks_are_unknown_where_only_contended_ones_were_recorded() {
    let (mut tape, _) = inferences(50);
    tape.metadata.settings.contended_only = true;
    let trace = tape.trace();
    let findings = findings(&trace);
    let text = flat(&text(&findings));
    let expected =
        "They take 130 us (how many locks is unknown: only contended ones were recorded) each time";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("50 times: 130 us of launching each time, by the median."), "{text}");
    assert!(json(&findings)["graph_advice"]["sequences"][0]["locks"].is_null());
}
