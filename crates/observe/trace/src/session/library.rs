//! Place of the library to preload, where programs of every kind find it.
//!
//! `LD_PRELOAD` is inherited by every child, and each dynamic linker that cannot use what it finds
//! there says so on the standard error stream, or ends the program. So the variable holds
//! `FOLDER/libasan.so/$LIB/libkeeptime_preload.so`:
//!
//! | who reads it | what it finds |
//! |---|---|
//! | 64-bit glibc, which puts `lib64` or `lib/x86_64-linux-gnu` for `$LIB` | the library |
//! | 32-bit glibc, which puts `lib32` or `lib/i386-linux-gnu` | a 32-bit library with nothing in it |
//! | musl, which takes `$LIB` as it is | nothing, about which musl says nothing |
//! | a shell that evaluates the variable, so that `$LIB` is gone | the library |
//! | AddressSanitizer, which ends a program whose first library is not its own runtime, to be sure that nothing is called before it that it replaces | a path with the name of its runtime; the library replaces nothing that it replaces |
//! | another user, who may not enter the library's own folder | a copy |
//!
//! The folder is in a folder for temporary files, the user's own, and stays: children of the
//! program may outlive the recorder. A library that is part of the recorder's own program
//! ([`Library::Content`]) is written there once.

use crate::Error;
use rustix::fs::{Mode, StatVfsMountFlags};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

const NAME: &str = "libkeeptime_preload.so";
/// Name of a folder in the path that the linker knows, but not in the path that memory maps show:
/// programs with AddressSanitizer linked statically end when they find its dynamic runtime there.
const RUNTIME: &str = "libasan.so";
/// Folders in which the user's files are safe from others: where only owners may rename.
const PLACES: [&str; 3] = ["/var/tmp", "/tmp", "/dev/shm"];

/// The library to preload.
#[derive(Clone, Debug)]
pub enum Library {
    /// A file.
    File(PathBuf),
    /// The bytes of the library, as a program carries them.
    Content(&'static [u8]),
}

/// Makes a library loadable; returns the name for `LD_PRELOAD`.
///
/// # Errors
/// [`Error::Preload`] if it is no file, or when there is no place for it, and the path itself cannot
/// be named.
pub(super) fn place(library: &Library) -> Result<OsString, Error> {
    let library = match library {
        Library::File(path) => Library::File(file(path)?),
        Library::Content(bytes) => Library::Content(bytes),
    };
    let mut reason = String::new();
    for place in PLACES.map(Path::new).into_iter().filter(|place| is_safe(place)) {
        match lay_out(place, &library) {
            Ok(folder) => return Ok(folder.join(RUNTIME).join("$LIB").join(NAME).into()),
            Err(error) => reason += &format!("{}: {error}; ", place.display()),
        }
    }
    let library = match library {
        Library::File(path) => path,
        Library::Content(_) => {
            let reason = format!("{reason}no folder for temporary files can hold the library");
            return Err(Error::Preload { file: NAME.into(), reason });
        }
    };
    if library.as_os_str().as_bytes().iter().any(|byte| b": \t\n$".contains(byte)) {
        let why =
            "the path contains a colon, a space or a dollar sign, which LD_PRELOAD does not allow";
        return Err(Error::Preload { file: library, reason: reason + why });
    }
    Ok(library.into())
}

/// The library's absolute path, since the program may change its directory before it runs others.
fn file(library: &Path) -> Result<PathBuf, Error> {
    let refused = |reason: &str| Error::Preload { file: library.to_owned(), reason: reason.into() };
    let path = fs::canonicalize(library).map_err(|error| refused(&error.to_string()))?;
    if path.is_file() { Ok(path) } else { Err(refused("not a regular file")) }
}

fn is_safe(place: &Path) -> bool {
    fs::metadata(place)
        .is_ok_and(|about| about.is_dir() && about.uid() == 0 && about.mode() & 0o1002 != 0o0002)
}

/// Makes the folder, or completes it.
fn lay_out(place: &Path, library: &Library) -> io::Result<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let folder = place.join(format!("keeptime-{own}-{:016x}", identity(library)?));
    make_folder(&folder, own)?;
    let target = match library {
        Library::File(path) if may_be_read_by_all(path)? => path.to_owned(),
        Library::File(path) => copy(path, &folder.join(NAME))?,
        Library::Content(bytes) => write(place, bytes, &folder.join(NAME))?,
    };
    let named = folder.join(RUNTIME);
    make_folder(&named, own)?;
    link(&target, &named.join(NAME))?;
    for lib in native() {
        make_parents(&named, lib, own)?;
        link(&target, &named.join(lib).join(NAME))?;
    }
    let stub = folder.join("empty-32.so");
    if fs::read(&stub).ok() != Some(empty_library()) {
        replace(&stub, |new| {
            fs::write(new, empty_library())?;
            fs::set_permissions(new, fs::Permissions::from_mode(0o644))
        })?;
    }
    for lib in foreign() {
        make_parents(&named, lib, own)?;
        link(&stub, &named.join(lib).join(NAME))?;
    }
    Ok(folder)
}

/// Differs between libraries, and between versions of one.
fn identity(library: &Library) -> io::Result<u64> {
    let mut identity = DefaultHasher::new();
    match library {
        Library::File(path) => {
            let about = fs::metadata(path)?;
            (path, about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec())
                .hash(&mut identity);
        }
        Library::Content(bytes) => bytes.hash(&mut identity),
    }
    Ok(identity.finish())
}

/// Values of `$LIB` in programs like this one. On systems with `lib64`, `lib` is for 32 bits.
fn native() -> impl Iterator<Item = &'static str> {
    ["lib64", "lib/x86_64-linux-gnu", "lib"]
        .into_iter()
        .filter(|lib| *lib != "lib" || is_lib_native())
}

/// Values of `$LIB` in 32-bit programs.
fn foreign() -> impl Iterator<Item = &'static str> {
    ["lib32", "lib/i386-linux-gnu", "lib"]
        .into_iter()
        .filter(|lib| *lib != "lib" || !is_lib_native())
}

fn is_lib_native() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    !maps.lines().any(|line| line.ends_with("/lib64/libc.so.6"))
}

fn make_parents(folder: &Path, lib: &str, own: u32) -> io::Result<()> {
    let mut path = folder.to_owned();
    lib.split('/').try_for_each(|part| {
        path.push(part);
        make_folder(&path, own)
    })
}

/// A folder that everybody can enter and only its owner change; it may be there already.
fn make_folder(path: &Path, own: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        // Whatever the mask for new files is.
        Ok(()) => return fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {}
    }
    let about = fs::symlink_metadata(path)?;
    if about.is_dir() && about.uid() == own && about.mode() & 0o777 == 0o755 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} is not a folder that only this user can change",
        path.display()
    )))
}

fn link(target: &Path, path: &Path) -> io::Result<()> {
    if fs::read_link(path).is_ok_and(|found| found == target) {
        return Ok(());
    }
    replace(path, |new| symlink(target, new))
}

/// A copy that everybody can read, unless it is there already.
fn copy(library: &Path, path: &Path) -> io::Result<PathBuf> {
    let length = |path: &Path| fs::metadata(path).map(|about| about.len());
    if length(path).ok() != Some(length(library)?) {
        replace(path, |new| {
            fs::copy(library, new)?;
            fs::set_permissions(new, fs::Permissions::from_mode(0o755))
        })?;
    }
    Ok(path.to_owned())
}

/// A file with these bytes that everybody can read, unless it is there already.
fn write(place: &Path, bytes: &[u8], path: &Path) -> io::Result<PathBuf> {
    if rustix::fs::statvfs(place)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other(
            "mounted with noexec, so that no library can be loaded from it",
        ));
    }
    if fs::read(path).ok().as_deref() != Some(bytes) {
        replace(path, |new| {
            fs::write(new, bytes)?;
            fs::set_permissions(new, fs::Permissions::from_mode(0o755))
        })?;
    }
    Ok(path.to_owned())
}

/// Makes a file under another name and then gives it its own, so that no process finds half of it.
fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&new);
    make(&new)?;
    fs::rename(&new, path)
}

/// Returns true if other users can reach and read a file.
fn may_be_read_by_all(path: &Path) -> io::Result<bool> {
    let about = fs::metadata(path)?;
    let others = |mode: u32, wanted: Mode| Mode::from_raw_mode(mode).contains(wanted);
    let folders = path.ancestors().skip(1).filter(|folder| {
        folder.components().next().is_some_and(|first| first == Component::RootDir)
    });
    let is_reached = folders
        .into_iter()
        .all(|folder| fs::metadata(folder).is_ok_and(|about| others(about.mode(), Mode::XOTH)));
    Ok(others(about.mode(), Mode::ROTH) && is_reached)
}

/// A library for 32-bit x86 programs with nothing in it.
///
/// ```text
///   0     file header
///   52    program headers: everything, readable and writable; the dynamic section; the stack,
///         which need not be executable
///   148   the dynamic section: a table of strings and one of symbols, which are empty
///   188   a string of no letters
/// ```
fn empty_library() -> Vec<u8> {
    const DYNAMIC: u32 = 148;
    const STRINGS: u32 = DYNAMIC + 5 * 8;
    const END: u32 = STRINGS + 20;
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |bytes: &mut Vec<u8>, value: u16| bytes.extend(value.to_le_bytes());
    let words = |bytes: &mut Vec<u8>, values: &[u32]| {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    };
    half(&mut bytes, 3); // a shared object
    half(&mut bytes, 3); // for i386
    words(&mut bytes, &[1, 0, 52, 0, 0]);
    for value in [52, 32, 3, 40, 0, 0] {
        half(&mut bytes, value);
    }
    // type, offset, address, address, bytes in the file, in memory, flags, alignment
    words(&mut bytes, &[1, 0, 0, 0, END, END, 6, 4096]);
    words(&mut bytes, &[2, DYNAMIC, DYNAMIC, DYNAMIC, 40, 40, 6, 4]);
    words(&mut bytes, &[0x6474_e551, 0, 0, 0, 0, 0, 6, 16]);
    // DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, the end
    words(&mut bytes, &[5, STRINGS, 6, STRINGS + 4, 10, 1, 11, 16, 0, 0]);
    bytes.resize(END as usize, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for temporary files of one test, that only this user can enter.
    fn own_place(test: &str) -> PathBuf {
        let name = format!("keeptime-library-{test}-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
        place
    }

    #[test]
    fn folder_is_made_once_and_completed() {
        let place = own_place("file");
        let library = place.join("a library");
        fs::write(&library, "content").unwrap();
        let library = Library::File(library);
        let folder = lay_out(&place, &library).unwrap();
        let native = folder.join("libasan.so/lib64").join(NAME);
        assert_eq!(fs::read_to_string(&native).unwrap(), "content");
        let real = fs::canonicalize(&native).unwrap();
        assert!(!real.to_str().unwrap().contains("libasan"), "{real:?}");
        assert_eq!(real, fs::canonicalize(folder.join(NAME)).unwrap(), "others cannot enter");
        fs::remove_file(&native).unwrap();
        assert_eq!(lay_out(&place, &library).unwrap(), folder);
        assert_eq!(fs::read_to_string(&native).unwrap(), "content");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let text = lay_out(&place, &library).unwrap_err().to_string();
        assert!(text.ends_with("is not a folder that only this user can change"), "{text}");
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn library_inside_the_program_is_written_once_and_mended() {
        let place = own_place("content");
        let library = Library::Content(b"content");
        let folder = lay_out(&place, &library).unwrap();
        let native = folder.join("libasan.so/lib64").join(NAME);
        assert_eq!(fs::read(&native).unwrap(), b"content");
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let before = inode(&native);
        assert_eq!(lay_out(&place, &library).unwrap(), folder);
        assert_eq!(inode(&native), before);
        fs::write(folder.join(NAME), "CONTENT").unwrap();
        lay_out(&place, &library).unwrap();
        assert_eq!(fs::read(&native).unwrap(), b"content");
        let other = lay_out(&place, &Library::Content(b"another")).unwrap();
        assert_ne!(other, folder);
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn library_that_is_no_file_is_refused() {
        let refusal = |path: &str| place(&Library::File(path.into())).unwrap_err().to_string();
        let text = refusal("/absent.so");
        assert!(text.starts_with("/absent.so: cannot be preloaded: No such file"), "{text}");
        assert_eq!(refusal("/"), "/: cannot be preloaded: not a regular file");
    }

    #[test]
    fn folders_where_anybody_may_rename_are_not_taken() {
        assert!(is_safe(Path::new("/")));
        assert!(!is_safe(Path::new("/absent")) && !is_safe(Path::new("/dev/null")));
    }
}
