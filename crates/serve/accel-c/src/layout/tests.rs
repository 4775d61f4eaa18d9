//! The header and this crate say the same, and what callers set is checked.

use super::*;
use crate::fault::Code;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Compiles a C program that prints each expression after its text, and runs it.
fn evaluate(expressions: &[String]) -> BTreeMap<String, i64> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("keeptime-layout-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    let lines: String = expressions
        .iter()
        .map(|text| format!("    printf(\"%s=%lld\\n\", \"{text}\", (long long)({text}));\n"))
        .collect();
    let start = "#include <stdio.h>\n#include \"keeptime.h\"\nint main(void) {\n";
    std::fs::write(&source, format!("{start}{lines}    return 0;\n}}\n")).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let status =
        Command::new("cc").args(["-std=c99", include, "-o"]).arg(&program).arg(&source).status();
    assert!(status.unwrap().success(), "cc failed");
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let value = |line: &str| {
        let (text, number) = line.rsplit_once('=').unwrap();
        (text.to_owned(), number.parse().unwrap())
    };
    String::from_utf8(output.stdout).unwrap().lines().map(value).collect()
}

fn assert_evaluates(expected: &[(String, i64)]) {
    let texts: Vec<String> = expected.iter().map(|(text, _)| text.clone()).collect();
    let found = evaluate(&texts);
    for (text, value) in expected {
        assert_eq!(found[text], *value, "{text}");
    }
}

macro_rules! offsets {
    ($c:literal, $rust:ty, $($field:ident),*) => {{
        let mut expected = vec![(concat!("sizeof(", $c, ")").to_owned(), size_of::<$rust>() as i64)];
        $(expected.push((
            concat!("offsetof(", $c, ", ", stringify!($field), ")").to_owned(),
            offset_of!($rust, $field) as i64,
        ));)*
        expected
    }};
}

#[test]
fn structures_are_laid_out_as_the_header_says() {
    let mut expected = offsets!(
        "keeptime_registration",
        Registration,
        size,
        service,
        chain,
        accelerator,
        memory_bytes,
        exec_ns,
        callback,
        priority,
        reserved,
        exec_min_ns,
        period_ns,
        deadline_ns,
        jitter_ns,
        cpu_ns,
        cpu_min_ns,
        position,
        requests,
        core,
        process_priority,
        wait_mode,
        flags
    );
    expected.extend(offsets!(
        "keeptime_request",
        RequestFields,
        size,
        arguments,
        input_offset,
        input_length,
        output_offset,
        output_length
    ));
    expected.extend(offsets!(
        "keeptime_outcome",
        OutcomeFields,
        size,
        launch_id,
        status,
        flags,
        submitted_ns,
        arrived_ns,
        started_ns,
        finished_ns,
        busy_ns,
        answered_ns
    ));
    expected.push(("sizeof(keeptime_counters)".into(), size_of::<Counters>() as i64));
    assert_evaluates(&expected);
}

#[test]
fn counters_stand_in_the_order_of_the_header() {
    use accel::control::Packet;
    let names = [
        "sessions",
        "registrations",
        "queued",
        "running",
        "memory_bytes",
        "done",
        "cancelled",
        "failed",
        "overruns",
        "demotions",
        "opened",
        "refusals",
        "evictions",
        "mutings",
    ];
    let counters = control::Counters {
        kind: control::Counters::KIND,
        sessions: 0,
        registrations: 1,
        queued: 2,
        running: 3,
        memory_bytes: 4,
        done: 5,
        cancelled: 6,
        failed: 7,
        overruns: 8,
        demotions: 9,
        opened: 10,
        refusals: 11,
        evictions: 12,
        mutings: 13,
    };
    assert!(Counters::new(&counters).counts.into_iter().eq(0..14));
    let offset = |(index, name): (usize, &&str)| {
        (format!("offsetof(keeptime_counters, {name})"), 8 + 8 * index as i64)
    };
    assert_evaluates(&names.iter().enumerate().map(offset).collect::<Vec<_>>());
}

#[test]
fn constants_are_those_of_the_header() {
    use accel::Status;
    use accel::control::Code as Why;
    let expected = [
        ("OK", 0),
        ("NO_SERVER", Code::NoServer as i64),
        ("SERVER_LOST", Code::ServerLost as i64),
        ("REFUSED", Code::Refused as i64),
        ("FAILED", Code::Failed as i64),
        ("FULL", Code::Full as i64),
        ("TIMED_OUT", Code::TimedOut as i64),
        ("INVALID", Code::Invalid as i64),
        ("PROTOCOL", Code::Protocol as i64),
        ("SYSTEM", Code::System as i64),
        ("BUSY", Code::Busy as i64),
        ("INTERNAL", Code::Internal as i64),
        ("PENDING", i64::from(crate::fault::PENDING)),
        ("TOO_LATE", i64::from(crate::fault::TOO_LATE)),
        ("STATUS_DONE", Status::Done as i64),
        ("STATUS_CANCELLED", Status::Cancelled as i64),
        ("STATUS_DEVICE_FAILED", Status::DeviceFailed as i64),
        ("STATUS_UNKNOWN_REGISTRATION", Status::UnknownRegistration as i64),
        ("STATUS_OUT_OF_RANGE", Status::OutOfRange as i64),
        ("STATUS_BAD_ARGUMENTS", Status::BadArguments as i64),
        ("STATUS_TOO_LATE", Status::TooLate as i64),
        ("STATUS_DEVICE_LOST", Status::DeviceLost as i64),
        ("REFUSAL_MALFORMED", Why::Malformed as i64),
        ("REFUSAL_VERSION", Why::Version as i64),
        ("REFUSAL_NOT_ALLOWED", Why::NotAllowed as i64),
        ("REFUSAL_PRIORITY", Why::Priority as i64),
        ("REFUSAL_LIMIT", Why::Limit as i64),
        ("REFUSAL_UNKNOWN", Why::Unknown as i64),
        ("REFUSAL_MEMORY", Why::Memory as i64),
        ("REFUSAL_VIOLATION", Why::Violation as i64),
        ("REFUSAL_ENDING", Why::Ending as i64),
        ("REFUSAL_DEVICE", Why::Device as i64),
        ("REFUSAL_ADMISSION", Why::Admission as i64),
        ("REFUSAL_DECLARATION", Why::Declaration as i64),
        ("SUSPEND", 0),
        ("SPIN", 1),
        ("BEST_EFFORT", i64::from(BEST_EFFORT)),
        ("EXECUTOR", i64::from(EXECUTOR)),
        ("OVERRAN", i64::from(OVERRAN)),
        ("DEMOTED", i64::from(DEMOTED)),
        ("SLOTS", accel::session::SLOTS as i64),
        ("NAME_BYTES", control::NAME_BYTES as i64),
    ];
    let expected = expected.map(|(name, value)| (format!("KEEPTIME_{name}"), value));
    assert_evaluates(&expected);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let mut fields = Counters { size: 0, counts: [0; 14] };
    for size in [0, 1, size_of::<Counters>() - 1, LARGEST + 1, usize::MAX] {
        fields.size = size;
        // SAFETY: a size that is out of range is not believed.
        let fault = unsafe { read(&fields) }.err().expect("a wrong size is accepted");
        assert_eq!(fault.code, Code::Invalid);
    }
    // SAFETY: null is allowed.
    unsafe {
        assert!(read(std::ptr::null::<Counters>()).is_err());
        assert!(check_writable(std::ptr::null_mut::<Counters>()).is_ok());
    }
}

#[test]
fn structures_of_an_older_header_lack_what_is_new() {
    assert_eq!(Registration::LEAST, 64, "the first version had this size");
    let filled = [0xff_u8; size_of::<Registration>()];
    // SAFETY: the structure is valid for all bits.
    let mut fields: Registration = unsafe { std::mem::transmute(filled) };
    fields.size = Registration::LEAST;
    // SAFETY: the structure is larger than it says.
    let older = unsafe { read(&raw const fields) }.ok();
    let older = older.expect("an older header is refused");
    assert_eq!((older.priority, older.period_ns, older.flags), (u32::MAX, 0, 0));
    fields.size = Registration::LEAST - 1;
    // SAFETY: a size that is out of range is not believed.
    assert!(unsafe { read(&raw const fields) }.is_err());
}

#[test]
fn structures_of_a_newer_header_are_accepted_while_what_is_new_is_zero() {
    #[repr(C)]
    struct Newer {
        old: RequestFields,
        new: u64,
    }
    let old = RequestFields {
        size: size_of::<Newer>(),
        arguments: [1, 2, 3, 4],
        input_offset: 5,
        input_length: 6,
        output_offset: 7,
        output_length: u32::MAX as usize,
    };
    let mut newer = Newer { old, new: 0 };
    // SAFETY: the structure is as large as it says.
    let request = unsafe { read((&raw const newer).cast::<RequestFields>()) };
    let request = request.ok().unwrap().request().ok().unwrap();
    assert_eq!((request.arguments, request.output_length), ([1, 2, 3, 4], u32::MAX));
    newer.new = 1 << 63;
    // SAFETY: as above.
    let refused = unsafe { read((&raw const newer).cast::<RequestFields>()) };
    assert!(refused.is_err(), "an unknown field is ignored");
    newer.old.input_length = 1 << 32;
    assert!(newer.old.request().is_err(), "a length is cut to 32 bits");
}
