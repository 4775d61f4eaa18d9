//! Waits for a GPU in the report: the work that ran there, and the other process that used it.

mod late_findings;
#[path = "../../observe/late/tests/tape/mod.rs"]
mod late_tape;

use late_findings::{findings, text};
use late_tape::Tape;
use report::late;
use trace::metadata::{Gpu, GpuUser, Process, Text, Tier};

const SYNC: &str = "cuCtxSynchronize";
const INFER: u32 = 4712;
const OTHER: u32 = 4800;
const US: u64 = 1000;

/// Twenty waits of 100 us for a kernel, and one of 2 ms: the kernel ran for 1.5 ms, half a
/// millisecond after the wait began.
fn shared() -> Tape {
    let mut tape = Tape::new(Tier::Scheduler);
    let (infer, gpu) = (tape.thread(1, INFER), tape.gpu(1));
    tape.metadata.processes = vec![Process { number: 1, pid: INFER, ..Process::default() }];
    let text = "_Z6kernelPfi grid 197x6x1".to_owned();
    tape.metadata.texts.push(Text { process: 1, number: 1, text });
    let processor = tape.processor(0);
    tape.switch(processor, 10, (0, 120), (INFER, 120), 0);
    tape.name(infer, 1, "infer", 0, 0);
    for begin in (0..20).map(|time| 1000 * US + time * 1000 * US) {
        tape.call(infer, begin, begin + 100 * US, SYNC, 0);
        tape.kernel(gpu, begin, begin + 99 * US, 1);
    }
    let begin = 50_000 * US;
    tape.call(infer, begin, begin + 2000 * US, SYNC, 0);
    tape.kernel(gpu, begin + 500 * US, begin + 2000 * US, 1);
    tape
}

fn with_users(users: Vec<GpuUser>, slowed: &[&str]) -> Tape {
    let mut tape = shared();
    let slowed = slowed.iter().map(|reason| (*reason).to_owned()).collect();
    tape.metadata.machine.gpus = vec![Gpu { number: 0, name: "H200".into(), users, slowed }];
    tape
}

fn user(pid: u32, name: Option<&str>, percent: Option<u64>) -> GpuUser {
    GpuUser { pid, name: name.map(str::to_owned), percent }
}

#[test]
fn process_that_used_the_gpu_too_is_named_with_its_share() {
    let own = user(INFER, Some("infer"), Some(8));
    let tape = with_users(vec![own, user(OTHER, Some("matmul"), Some(86))], &[]);
    let text = text(&findings(&tape.trace()));
    let head = "worst synchronisation: 2 ms (usual 100 us): 95 % waiting for the GPU, shared with matmul \
                (4800), busy 86 % of the time, while it ran kernel kernel, grid 197x6x1, beyond the usual";
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(head), "{text}");
    assert!(
        words.contains("while it ran no work of this program, although there was some"),
        "{text}"
    );
    assert!(words.contains("(usually 100 us)"), "{text}");
    let why = "Why: GPU shared or slow. What would help: one order of the programs' work.";
    assert!(words.contains(why), "{text}");
    assert!(
        words.contains("waiting for a GPU shared with matmul (4800), busy 86 % of the time"),
        "{text}"
    );
}

#[test]
fn without_another_process_the_reason_is_what_is_known() {
    for (tape, reason) in [
        (shared(), "shared with another process, or at lower clocks"),
        (with_users(Vec::new(), &["power cap"]), "at lower clocks (power cap)"),
        (with_users(Vec::new(), &[]), "on which no other process was seen"),
        // Its own number may be another one outside of a container.
        (with_users(vec![user(OTHER, None, None)], &[]), "on which no other process was seen"),
    ] {
        let text = text(&findings(&tape.trace()));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("waiting for the GPU, {reason}")), "{reason}: {text}");
    }
}

#[test]
fn json_lists_the_work_of_the_gpu_and_its_users() {
    let tape = with_users(vec![user(OTHER, Some("matmul"), Some(86))], &[]);
    let value = late::json(&findings(&tape.trace()));
    let work = &value["gpu"]["works"][0];
    assert_eq!(work["name"], "_Z6kernelPfi grid 197x6x1");
    assert_eq!(work["durations"]["count"], 21);
    assert_eq!(value["gpu"]["users"][0]["users"][0]["name"], "matmul");
}
