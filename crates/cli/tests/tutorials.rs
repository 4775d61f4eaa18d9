//! The tutorials of the documentation, as they are written: every `sh` block runs, one after the
//! other in one shell, and prints what the `text` block behind it says. A block whose comment says
//! `exit status 1` ends with that. Blocks of another kind (`text example`) are not compared.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A block of commands, and the output that the page promises.
#[derive(Default)]
struct Block {
    commands: String,
    output: Option<String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside: Option<(&str, String)> = None;
    for line in page.lines() {
        match (&mut inside, line.strip_prefix("```")) {
            (None, Some(kind)) => inside = Some((kind, String::new())),
            (Some((kind, text)), Some("")) => {
                match *kind {
                    "sh" => blocks.push(Block { commands: std::mem::take(text), output: None }),
                    "text" => {
                        let block = blocks.last_mut().expect("commands before an output");
                        block.output = Some(std::mem::take(text));
                    }
                    _ => {}
                }
                inside = None;
            }
            (Some((_, text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Puts the C library of this build where pkg-config finds it, as a package does; returns the folder.
fn c_library(folder: &Path) -> PathBuf {
    let libraries = testing::built_folder("keeptime-accel-c");
    let headers = repository().join("crates/serve/accel-c/include");
    let packages = folder.join(".pkgconfig");
    std::fs::create_dir(&packages).unwrap();
    let libraries = libraries.display();
    let text = format!(
        "Name: keeptime\nDescription: of this build\nVersion: 0\nCflags: -I{}\n\
         Libs: -L{libraries} -lkeeptime -Wl,-rpath,{libraries}\n",
        headers.display()
    );
    std::fs::write(packages.join("keeptime.pc"), text).unwrap();
    packages
}

/// Runs a page in an empty folder.
fn run(page: &str) {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let blocks = blocks(&text);
    let folder = tempfile::tempdir().unwrap();
    let mut script = "set -u\n".to_owned();
    for (number, Block { commands, .. }) in blocks.iter().enumerate() {
        let expected = u8::from(commands.contains("exit status 1"));
        // A pipe or an earlier command that fails ends the script, except where that is the answer.
        let (strict, lax) = if expected == 0 { ("set -e", "set +e") } else { ("", "") };
        writeln!(script, "{{ {strict}\n{commands}{lax}\n}} > out.{number} 2>&1").unwrap();
        let wrong = format!("echo 'block {number} ended with '$status; cat out.{number}; exit 1;");
        writeln!(script, "status=$?; [ $status -eq {expected} ] || {{ {wrong} }}").unwrap();
    }
    let packages = c_library(folder.path());
    let program = Path::new(env!("CARGO_BIN_EXE_keeptime"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("sh")
        .arg("-c")
        .arg(&script)
        .current_dir(&folder)
        .env("PATH", path)
        .env("KEEPTIME_PRELOAD", testing::preload_library())
        .env("KEEPTIME_SOURCES", repository())
        .env("PKG_CONFIG_PATH", packages)
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    let said = |number| {
        let said = std::fs::read(folder.path().join(format!("out.{number}"))).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    };
    let all = |blocks: &[Block]| (0..blocks.len()).map(said).collect::<String>();
    let stopped = format!("{}{}", String::from_utf8_lossy(&output.stdout), all(&blocks));
    assert!(output.status.success(), "{page}: {}: {stopped}", output.status);
    for (number, block) in blocks.iter().enumerate() {
        let said = said(number);
        if let Some(expected) = &block.output {
            assert!(said.contains(expected.trim_end()), "{page}: block {number} said\n{said}");
        }
    }
}

#[test]
fn bound_of_a_robot_is_found_and_mended() {
    run("tutorial-prove.md");
}

#[test]
fn late_launch_is_explained_and_mended() {
    run("tutorial-late.md");
}

#[test]
fn urgent_program_goes_first_and_a_late_one_is_refused() {
    run("tutorial-share.md");
}
