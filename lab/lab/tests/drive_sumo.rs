//! `keeptime-lab drive` among vehicles that SUMO moves: the real one, where it is installed.

mod program;

use program::laboratory;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

const VARIABLE: &str = "KEEPTIME_SUMO";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drive")
}

fn drive(sumo: impl AsRef<std::ffi::OsStr>, file: &Path, arguments: &[&str]) -> Output {
    let mut command = laboratory();
    command.arg("drive").arg(file).args(arguments).env(VARIABLE, sumo).output().unwrap()
}

/// The example, for so many seconds. All of it takes half a minute for each stack: here it begins
/// shortly before the junction.
fn town(folder: &Path, seconds: u32) -> PathBuf {
    let mut text = std::fs::read_to_string(examples().join("town-sumo.yaml")).unwrap();
    for name in ["town.xodr", "town.rou.xml"] {
        text = text.replace(name, examples().join(name).to_str().unwrap());
    }
    let text = text.replace("duration_s: 60", &format!("duration_s: {seconds}"));
    let file = folder.join("town.yaml");
    std::fs::write(&file, text.replace("along_m: 40", "along_m: 150")).unwrap();
    file
}

#[test]
fn both_stacks_drive_among_sumos_vehicles() {
    let Some(sumo) = std::env::var_os(VARIABLE) else {
        eprintln!("SKIP: {VARIABLE} is not set to the program `sumo`");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = town(folder.path(), 8);
    for stack in ["a", "b"] {
        let output = drive(&sumo, &file, &["--stack", stack, "--policy", "base", "--json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{stack}: {said}");
        let run: Value = testing::result::of(&output);
        let base = &run["drives"][0];
        let progress = base["progress_m"].as_f64().unwrap();
        assert!((20.0..112.0).contains(&progress), "{stack}: {progress}");
        assert!(base["latency_ns"]["count"].as_u64().unwrap() > 70, "{stack}: {base}");
        assert!(base["collision"].is_null(), "{stack}: {base}");
    }
}

/// The two programs of SUMO in a folder, of which `sumo` does first what the script says.
fn wrapped(folder: &Path, real: &Path, first: &str) -> PathBuf {
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    };
    let netconvert = real.with_file_name("netconvert");
    write("netconvert", format!("#!/bin/sh\nexec {} \"$@\"\n", netconvert.display()));
    let begun = folder.join("begun");
    let text = format!(
        "#!/bin/sh\necho >>{begun}\n{first}\nexec {} \"$@\"\n",
        real.display(),
        begun = begun.display()
    );
    write("sumo", text)
}

#[test]
fn another_port_is_tried_where_somebody_was_faster_and_not_for_ever() {
    let Some(sumo) = std::env::var_os(VARIABLE) else {
        eprintln!("SKIP: {VARIABLE} is not set to the program `sumo`");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = town(folder.path(), 1);
    // SUMO's own words, so many times.
    let taken = |times: u32| {
        let words = "Error: tcpip::Socket::accept() Unable to create listening socket: Address \
                     already in use";
        let begun = folder.path().join("begun");
        let _ = std::fs::remove_file(&begun);
        let first = format!(
            "if [ $(wc -l <{}) -le {times} ]; then echo '{words}' >&2; exit 1; fi",
            begun.display()
        );
        let program = wrapped(folder.path(), Path::new(&sumo), &first);
        let output = drive(program, &file, &["--policy", "base", "--json"]);
        let tries = std::fs::read_to_string(&begun).unwrap().lines().count();
        (output.status.code(), tries, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, tries, said) = taken(2);
    assert!(code == Some(0) && tries > 2, "{tries}: {said}");
    let (code, tries, said) = taken(99);
    assert_eq!((code, tries), (Some(2), 5), "{said}");
    assert!(said.contains("Address already in use"), "{said}");
}

#[test]
fn without_sumo_it_says_how_to_get_it() {
    let output = drive("/nowhere/sumo", &examples().join("town-sumo.yaml"), &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["/nowhere/netconvert", "KEEPTIME_SUMO", "pip install eclipse-sumo"] {
        assert!(said.contains(part), "{said}");
    }
}
