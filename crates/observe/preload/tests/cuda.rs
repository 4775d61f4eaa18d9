//! The CUDA driver, a fake one that counts what it does: programs that reach it in any way get the
//! same results, and everything is recorded.

mod support;

use bandwidth::holders::{Config, Holders};
use record::bandwidth::{Bandwidth, BandwidthCount};
use record::cuda::{Category, FUNCTIONS};
use record::{Action, Class, Kind, Record, Trouble};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Folder, Mode, Recorder, Subject, Trace, compile, program, run, shared_folder};
use testing::refusals;

/// Returns the folder of the fake driver and of its programs, which the first call builds.
fn fake() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = shared_folder().path("fake");
        let checks = ["driver", "streams", "graphs", "locks"];
        let checks = checks.map(|check| folder.join(format!("check_{check}")));
        let mut make = Command::new("make");
        make.args([
            "-s",
            "-C",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/late-launch"),
        ]);
        make.arg(format!("BUILD={}", folder.display())).arg("all").args(checks);
        assert!(make.status().expect("make").success(), "the fake driver cannot be built");
        folder
    })
}

fn subject(program: impl AsRef<Path>) -> Subject {
    Subject::new(fake().join(program)).env("LD_LIBRARY_PATH", fake())
}

/// Returns the driver's counts.
fn counts(file: &Path) -> HashMap<String, usize> {
    let line = std::fs::read_to_string(file).expect("the driver wrote its counts");
    let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
}

/// Calls of functions of these categories.
fn calls<'a>(trace: &'a Trace, categories: &'a [Category]) -> impl Iterator<Item = &'a Record> {
    trace.all().filter(|record| {
        let function = FUNCTIONS.get(record.number as usize);
        record.kind == Kind::Enter
            && function.is_some_and(|function| categories.contains(&function.category))
    })
}

/// Returns the numbers of calls that put work on a stream or into a graph, by category.
fn works(trace: &Trace) -> [usize; 4] {
    use Category::{GraphLaunch, Launch, Memcpy, Memset};
    [[Launch], [Memcpy], [Memset], [GraphLaunch]].map(|category| calls(trace, &category).count())
}

/// Calls whose work went into a graph.
fn captured(trace: &Trace) -> usize {
    trace.all().filter(|record| record.kind == Kind::Exit && record.detail == 1).count()
}

/// Locks of the driver's that were taken.
fn locks(trace: &Trace) -> usize {
    let of = |class| trace.count(class, Action::Acquired);
    of(Class::Mutex) + of(Class::Read) + of(Class::Write)
}

fn uncovered(trace: &Trace) -> u64 {
    trace.troubles[Trouble::UncoveredFunction as usize]
}

/// Runs it recorded; what was recorded, and what the driver counted.
fn counted(subject: Subject, mode: &Mode) -> (String, Trace, HashMap<String, usize>) {
    let folder = Folder::new();
    let subject = subject.env("FAKE_CUDA_COUNT", folder.path("count"));
    let (ended, trace) = subject.recorded(mode);
    trace.assert_whole();
    (ended.success().to_owned(), trace, counts(&folder.path("count")))
}

#[test]
fn everything_that_the_driver_did_is_recorded() {
    for (program, arguments) in [
        ("algorithm2", ["--iterations", "400", "--sync-every", "8", "--bytes", "40000"]),
        ("algorithm2_dlsym", ["--iterations", "400", "--sync-every", "8", "--bytes", "40000"]),
    ] {
        let subject = || {
            subject(program).args(["--copy-threads", "3", "--launch-threads", "2"]).args(arguments)
        };
        let mode = Mode::default_filter().bytes(64 << 20);
        let (_, trace, counts) = counted(subject(), &mode);
        let [launches, copies, memsets, _] = works(&trace);
        assert_eq!(launches, counts["launches"], "{program}");
        assert_eq!(copies, counts["copies"], "{program}");
        assert_eq!(memsets, counts["memsets"], "{program}");
        assert_eq!(locks(&trace), counts["locks"] + counts["engine_locks"], "{program}");
        assert_eq!((captured(&trace), uncovered(&trace)), (0, 0));
        assert!(trace.kernels.iter().any(|kernel| kernel == "saxpy"), "{:?}", trace.kernels);
        // Every call has its end.
        let exits = trace.all().filter(|record| record.kind == Kind::Exit).count();
        assert_eq!(exits, trace.all().filter(|record| record.kind == Kind::Enter).count());
        for mode in [Mode::full().bytes(64 << 20), Mode::contended()] {
            let (_, trace, counts) = counted(subject(), &mode);
            assert_eq!(works(&trace)[..2], [counts["launches"], counts["copies"]], "{program}");
        }
    }
}

/// The program, linked with the driver or not.
fn cuda(folder: &Folder, linked: bool) -> PathBuf {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../../examples/late-launch");
    let mut arguments = vec![include.to_owned()];
    if linked {
        arguments.extend(["-DLINKED".into(), format!("-L{}", fake().display()), "-lcuda".into()]);
    }
    compile(folder, "cuda.c", if linked { "linked" } else { "cuda" }, &arguments)
}

#[test]
fn every_way_to_the_driver_leads_through_the_hooks() {
    let folder = Folder::new();
    for way in ["link", "dlsym", "ask", "ask-per-thread"] {
        let path = cuda(&folder, way == "link");
        let subject = || subject(&path).args([way]);
        let (output, _) = subject().compare(Mode::all());
        assert_eq!(output, "20, everywhere\n3, everywhere\n", "{way}");
        let (_, trace, counts) = counted(subject(), &Mode::default_filter());
        // One copy and one fill before, twenty launches, a copy back; then what was captured; and
        // another copy back.
        assert_eq!(works(&trace), [20 + 3, 3 + 1, 1 + 1, 4], "{way}");
        assert_eq!((counts["launches"], counts["copies"], counts["memsets"]), (20, 3, 1), "{way}");
        assert_eq!((counts["captured"], captured(&trace)), (5, 5), "{way}");
        assert_eq!(counts["graph_launches"], 4, "{way}");
        let graphs: Vec<_> = trace.all().filter(|record| record.kind == Kind::Graph).collect();
        let [graph] = graphs[..] else { panic!("{way}: {graphs:?}") };
        assert_eq!((graph.number, graph.detail), (3, 1 << 32 | 1), "{way}: kernels, copies, fills");
        assert_eq!(trace.kernels, ["saxpy"], "{way}");
        assert_eq!(uncovered(&trace), 0, "{way}");
        per_thread_variants_have_their_own_hooks(&trace, way);
        // Of the driver's locks, those are missing that were taken to answer this library.
        assert!(locks(&trace) <= counts["locks"] + counts["engine_locks"], "{way}");
        assert!(locks(&trace) * 10 >= counts["locks"] * 9, "{way}");
    }
}

fn per_thread_variants_have_their_own_hooks(trace: &Trace, way: &str) {
    let per_thread = way == "ask-per-thread";
    let launches: Vec<_> = calls(trace, &[Category::Launch]).collect();
    for launch in &launches {
        let symbol = FUNCTIONS[launch.number as usize].symbol;
        assert_eq!(symbol.ends_with("_ptsz"), per_thread, "{way}: {symbol}");
    }
    // The default stream: 2 is the thread's own, 0 the legacy one.
    let expected = if per_thread { 2 } else { 0 };
    assert!(launches[..20].iter().all(|launch| launch.subject == expected), "{way}");
}

#[test]
fn checks_of_the_driver_pass_recorded_too() {
    // Not `locks`, which counts those of the driver, and asking it takes some.
    for check in ["driver", "streams", "graphs"] {
        let subject = subject(format!("check_{check}"));
        for mode in [Mode::full().bytes(128 << 20), Mode::default_filter()] {
            let (ended, trace) = subject.recorded(&mode);
            assert!(ended.success().contains(" passed, 0 failed"), "{ended:?}");
            assert_eq!(trace.torn, 0, "{check} {}", mode.name);
            assert!(works(&trace)[0] > 0, "{check} {}", mode.name);
        }
    }
}

#[test]
fn searches_for_the_drivers_functions_find_what_they_find_without() {
    let folder = Folder::new();
    let path = program(&folder, "symbols.c");
    for scope in ["local", "global"] {
        let driver = fake().join("libcuda.so.1");
        let subject = Subject::new(&path).args([driver.to_str().expect("a path in UTF-8"), scope]);
        let (output, [_, _, trace]) = subject.compare(Mode::all());
        assert!(output.contains("\"cuInit\": default not found, with a reason"), "{output}");
        assert!(output.contains("init 0, version 0, 13000"), "{output}");
        assert_eq!(output.contains("\"cuInit\": default found"), scope == "global");
        assert!(calls(&trace, &[Category::Resolver]).count() >= 3 * 12);
    }
}

fn driver(folder: &Folder, number: u32) -> PathBuf {
    let subfolder = folder.path(&format!("{number}"));
    std::fs::create_dir(&subfolder).expect("a folder");
    let define = format!("-DNUMBER={number}");
    compile(
        folder,
        "odd-driver.c",
        &format!("{number}/libcuda.so.1"),
        &["-shared", "-fPIC", &define],
    )
}

#[test]
fn memory_for_records_is_in_place_once_the_driver_is_in_use() {
    let folder = Folder::new();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../../examples/late-launch");
    let path = compile(&folder, "memory.c", "memory", &[include.to_owned()]);
    let subject = Subject::new(path).env("LD_LIBRARY_PATH", fake());
    assert_eq!(subject.bare().success(), "0 0\n");
    const BYTES: u64 = 64 << 20;
    let (ended, _) = subject.recorded(&Mode::full().bytes(BYTES));
    let line = ended.success();
    let kib: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(kib[0] < 4 << 10, "{line}");
    assert!((BYTES / 1024..(BYTES >> 10) + (2 << 10)).contains(&kib[1]), "{line}");
}

#[test]
fn functions_that_are_not_exported_pass_through_and_are_counted() {
    let folder = Folder::new();
    let driver = driver(&folder, 7);
    let path = program(&folder, "odd.c");
    let (output, traces) = Subject::new(path).args([driver]).compare(Mode::all());
    let line = "init 0, asked 2007, looked up 1007, version 0, 7, missing 500, 1, null\n";
    assert_eq!(output, line.repeat(2));
    for trace in traces {
        assert_eq!(uncovered(&trace), 2);
        let synchronised = calls(&trace, &[Category::Sync]).count();
        assert_eq!(synchronised, 2, "the ones that were looked up");
    }
}

#[test]
fn drivers_may_be_closed_and_opened_again() {
    let folder = Folder::new();
    let drivers = [driver(&folder, 1), driver(&folder, 2), driver(&folder, 3)];
    let path = program(&folder, "odd.c");
    let (output, traces) = Subject::new(path).args(drivers).compare(Mode::all());
    for number in 1..=3 {
        let expected = format!("asked 200{number}, looked up 100{number}, version 0, {number},");
        assert_eq!(output.matches(&expected).count(), 2, "{output}");
    }
    for trace in traces {
        assert_eq!(calls(&trace, &[Category::Sync]).count(), 2 * 3);
    }
}

#[test]
fn stand_ins_for_the_driver_work_with_and_without_it() {
    let folder = Folder::new();
    let driver = driver(&folder, 7);
    let loading = format!("-DDRIVER=\"{}\"", driver.display());
    for (name, define, answer) in [
        ("mock", "-DMOCK", "init 0, version 0, 77\n"),
        ("loading", loading.as_str(), "init 0, version 0, 7\n"),
    ] {
        let flags = ["-shared", "-fPIC", define];
        let library = compile(&folder, "stand-in.c", &format!("lib{name}.so"), &flags);
        let place = library.parent().expect("a folder").to_str().expect("a path in UTF-8");
        let link = [format!("-L{place}"), format!("-l{name}"), format!("-Wl,-rpath,{place}")];
        let path = compile(&folder, "stand-in-user.c", name, &link);
        let (output, traces) = Subject::new(path).compare(Mode::all());
        assert_eq!(output, answer.repeat(3));
        for trace in traces {
            assert!(trace.all().filter(|record| record.kind == Kind::Enter).count() >= 3, "{name}");
        }
    }
}

#[test]
fn hooks_of_the_driver_do_not_allocate_on_the_oldest_kernel() {
    let folder = Folder::new();
    let refuse = program(&folder, "refuse.c");
    let reentry = compile(&folder, "reentry.c", "reentry.so", &["-shared", "-fPIC"]);
    let socket = folder.path("bandwidth.sock");
    let _regulator =
        Holders::start(Config { socket: socket.clone(), ..Config::default() }).expect("a socket");
    // Not `locks`, which counts those of the driver, and asking it takes some.
    for check in ["driver", "streams", "graphs"] {
        let subject = Subject::new(&refuse)
            .args(refusals::REFUSALS.iter().map(refusals::Refusal::rule))
            .arg("--")
            .arg(fake().join(format!("check_{check}")))
            .env("LD_LIBRARY_PATH", fake())
            .preload_before(&reentry);
        let bare = subject.bare();
        bare.success();
        for mut mode in Mode::all() {
            let (socket, period_ns) = (socket.clone(), 1_000_000);
            mode.settings.bandwidth = Some(Bandwidth { socket, period_ns });
            let recorder = Recorder::new(&mode);
            let ended = run(&mut recorder.invite(&subject));
            subject.assert_same(&format!("{}, check_{check}", mode.name), &bare, &ended);
            let counts = recorder.recording().side().bandwidth_counts();
            assert_eq!(counts[BandwidthCount::Attached as usize], 1, "check_{check}");
            recorder.finish();
        }
    }
}
