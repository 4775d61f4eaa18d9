//! Reason why a program did not load the preloaded library: the kind of program that it is.

use rustix::process::{Resource, getrlimit};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Longest chain of scripts that are each other's interpreters, as in the kernel.
const MOST_SCRIPTS: usize = 5;
/// Number of bytes that the kernel reads of a script's first line.
const FIRST_LINE_BYTES: usize = 256;
const NATIVE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };

/// Returns the reason why nothing was recorded of `program`, which was looked for in `search`, the
/// value of PATH. `failed` is the number of processes that loaded the library and could not attach.
pub fn reason(program: &OsStr, search: Option<&OsStr>, failed: u64) -> String {
    if failed > 0 {
        return no_room();
    }
    let Some(file) = find(program, search) else {
        return "the program's file does not exist any more".to_owned();
    };
    of_file(&file, 0)
}

/// The library was there, and the memory was not.
fn no_room() -> String {
    match getrlimit(Resource::As).current {
        Some(limit) => format!(
            "the program's address space is limited to {limit} bytes (ulimit -v), and the \
             recording's memory may take a sixteenth of it: give the recording less memory \
             (--memory)"
        ),
        None => "the program could not map the recording's memory".to_owned(),
    }
}

fn find(program: &OsStr, search: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let search = search.unwrap_or(OsStr::new("/bin:/usr/bin"));
    std::env::split_paths(search).map(|folder| folder.join(program)).find(|file| {
        fs::metadata(file).is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
    })
}

fn of_file(path: &Path, depth: usize) -> String {
    let unknown = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) => return unknown(error),
    };
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| {
        (&file).take(FIRST_LINE_BYTES as u64).read_to_end(&mut start)?;
        Ok(file)
    });
    let file = match read {
        Ok(file) => file,
        Err(error) => return unknown(error),
    };
    if let Some(line) = start.strip_prefix(b"#!").filter(|_| depth < MOST_SCRIPTS) {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        return of_file(Path::new(OsStr::from_bytes(&line[..end])), depth + 1);
    }
    let name = path.display();
    if about.mode() & 0o6000 != 0 {
        return format!("{name} runs with the rights of another user (set-user-id)");
    }
    match Program::read(&file, &start) {
        None => format!("{name} is not an ELF program"),
        Some(Program { bits: 32, .. }) => format!("{name} is a 32-bit program"),
        Some(Program { machine, .. }) if machine != NATIVE => {
            format!("{name} is for another architecture (ELF machine {machine})")
        }
        Some(Program { linker: None, .. }) => format!("{name} is linked statically"),
        Some(Program { linker: Some(linker), .. }) if linker.contains("ld-musl") => {
            format!("{name} is linked with musl, and the library is for the GNU C library")
        }
        Some(Program { linker: Some(linker), .. }) => format!(
            "{name} is started by {linker}, which did not load it: the program has another root \
             directory, or file capabilities"
        ),
    }
}

/// Facts from an ELF file.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    bits: u32,
    machine: u16,
    linker: Option<String>,
}

impl Program {
    /// Reads it; `start` are its first bytes. `None` for anything else.
    fn read(file: &File, start: &[u8]) -> Option<Program> {
        const INTERPRETER: u32 = 3;
        /// More than any linker's path.
        const LONGEST: u64 = 4096;
        start.strip_prefix(b"\x7fELF")?;
        let machine = u16::from_le_bytes(start.get(18..20)?.try_into().ok()?);
        if *start.get(4)? != 2 {
            return Some(Program { bits: 32, machine, linker: None });
        }
        let table = u64::from_le_bytes(start.get(32..40)?.try_into().ok()?);
        let size = u16::from_le_bytes(start.get(54..56)?.try_into().ok()?);
        let count = u16::from_le_bytes(start.get(56..58)?.try_into().ok()?);
        let mut linker = None;
        for number in 0..u64::from(count) {
            let mut header = [0; 56];
            let at = table.checked_add(number * u64::from(size))?;
            file.read_exact_at(&mut header, at).ok()?;
            let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes);
            if header[..4] == INTERPRETER.to_le_bytes() {
                let mut path = vec![0; word(32).ok()?.min(LONGEST) as usize];
                file.read_exact_at(&mut path, word(8).ok()?).ok()?;
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                linker = Some(String::from_utf8_lossy(&path[..end]).into_owned());
            }
        }
        Some(Program { bits: 64, machine, linker })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<Program> {
        let mut file = tempfile(bytes);
        let mut start = Vec::new();
        file.by_ref().take(FIRST_LINE_BYTES as u64).read_to_end(&mut start).unwrap();
        Program::read(&file, &start)
    }

    fn tempfile(bytes: &[u8]) -> File {
        use std::io::{Seek, Write};
        let name = c"program";
        let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(fd);
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn own_program_is_native_and_has_a_linker() {
        let own = std::env::current_exe().unwrap();
        let program = read(&fs::read(&own).unwrap()).unwrap();
        assert_eq!((program.bits, program.machine), (64, NATIVE));
        assert!(program.linker.as_ref().unwrap().contains("/ld-linux"), "{program:?}");
        let text = reason(own.as_os_str(), None, 0);
        assert!(text.contains("which did not load it: the program has another root"), "{text}");
    }

    #[test]
    fn broken_files_are_no_programs() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        for bytes in [&b""[..], b"\x7fELF", b"#!", &own[..40], &own[..60]] {
            assert_eq!(read(bytes), None);
        }
        let mut wrong = own[..4096].to_vec();
        wrong[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(read(&wrong), None);
    }

    #[test]
    fn programs_are_found_as_shells_do() {
        let search = OsStr::new("/absent:/bin");
        assert_eq!(find(OsStr::new("sh"), Some(search)), Some("/bin/sh".into()));
        assert_eq!(find(OsStr::new("no-such-program"), Some(search)), None);
        assert_eq!(find(OsStr::new("./sh"), None), Some("./sh".into()));
        assert_eq!(
            reason(OsStr::new("no-such-program"), None, 0),
            "the program's file does not exist any more"
        );
    }

    #[test]
    fn lack_of_room_is_not_blamed_on_the_program() {
        assert!(reason(OsStr::new("sh"), None, 1).contains("memory"));
    }
}
