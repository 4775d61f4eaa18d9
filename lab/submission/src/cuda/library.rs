//! Search for the device runtime, `libcudadevrt.a`: kernels that launch from the GPU need it, and
//! it comes with the toolkit, not with the driver.

use std::path::{Path, PathBuf};

const NAME: &str = "libcudadevrt.a";
/// Names the file itself.
const VARIABLE: &str = "KEEPTIME_CUDADEVRT";
/// Folders of a toolkit's libraries, below its root.
const INSIDE: [&str; 5] = [
    "lib64",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "targets/aarch64-linux/lib",
    "lib",
];
/// Folders of the libraries of a system's own packages.
const SYSTEM: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
/// Folders that hold a folder for each version of Python, with its packages below.
const PYTHON: [&str; 2] = ["/usr/local/lib", "/usr/lib"];

/// A file, and which CUDA it is of, as the driver counts: 13000 is 13.0.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    path: PathBuf,
    version: Option<i32>,
}

/// Files that can be used with a driver of this version, the best first.
///
/// # Errors
/// There is none; how to get it.
pub(super) fn find(driver: i32) -> Result<Vec<PathBuf>, String> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        let missing = format!("{VARIABLE} names {}, which is no file", path.display());
        return if path.is_file() { Ok(vec![path]) } else { Err(missing) };
    }
    let all = choose(everywhere(), driver);
    if all.is_empty() { Err(advice(driver)) } else { Ok(all) }
}

fn advice(driver: i32) -> String {
    format!(
        "the device runtime, {NAME}, was not found, or only one of a newer CUDA; it comes \
         with the CUDA toolkit (package cuda-cudart-dev-{}-{}) and with PyPI's \
         nvidia-cuda-runtime of CUDA 13; {VARIABLE} may name the file",
        driver / 1000,
        driver % 1000 / 10
    )
}

/// Files in the order of the places; what is newer than the driver comes last, and not at all if
/// its major version is, too: then the driver cannot read it.
fn choose(found: Vec<Found>, driver: i32) -> Vec<PathBuf> {
    let is_newer = |found: &Found| found.version.is_some_and(|version| version > driver);
    let readable = |found: &Found| found.version.is_none_or(|v| v / 1000 <= driver / 1000);
    let (newer, fitting): (Vec<_>, Vec<_>) = found.into_iter().filter(readable).partition(is_newer);
    let mut paths: Vec<PathBuf> = Vec::new();
    for Found { path, .. } in fitting.into_iter().chain(newer) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

fn everywhere() -> Vec<Found> {
    let mut found = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        found.extend(std::env::var_os(variable).and_then(|root| in_toolkit(Path::new(&root))));
    }
    found.extend(in_toolkit(Path::new("/usr/local/cuda")));
    found.extend(installed(Path::new("/usr/local")));
    found.extend(SYSTEM.iter().filter_map(|folder| file(&Path::new(folder).join(NAME))));
    let environment = std::env::var_os("VIRTUAL_ENV").map(|root| Path::new(&root).join("lib"));
    for lib in environment.into_iter().chain(PYTHON.iter().map(PathBuf::from)) {
        found.extend(of_python(&lib));
    }
    found
}

/// Toolkits beside each other, the newest first.
fn installed(parent: &Path) -> Vec<Found> {
    let folders = children(parent);
    let toolkits = folders.iter().filter(|folder| folder_version(folder, "cuda-").is_some());
    let mut found: Vec<Found> = toolkits.filter_map(|folder| in_toolkit(folder)).collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.version));
    found
}

fn in_toolkit(root: &Path) -> Option<Found> {
    INSIDE.iter().find_map(|inside| file(&root.join(inside).join(NAME)))
}

/// Device runtimes in PyPI's packages.
fn of_python(lib: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    for python in children(lib) {
        for packages in ["site-packages", "dist-packages"] {
            for of_nvidia in children(&python.join(packages).join("nvidia")) {
                found.extend(file(&of_nvidia.join("lib").join(NAME)));
            }
        }
    }
    found
}

/// A file, by the name under which it really lies.
fn file(path: &Path) -> Option<Found> {
    let path = path.canonicalize().ok().filter(|path| path.is_file())?;
    let version = path.ancestors().find_map(|folder| {
        folder_version(folder, "cuda-").or_else(|| folder_version(folder, "cu"))
    });
    Some(Found { path, version })
}

/// The version that a folder's name says, as in cuda-13.0 or cu13.
fn folder_version(folder: &Path, prefix: &str) -> Option<i32> {
    let text = folder.file_name()?.to_str()?.strip_prefix(prefix)?;
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    let (major, minor): (i32, i32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(major.checked_mul(1000)?.saturating_add(minor.checked_mul(10)?))
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "!<arch>\n").unwrap();
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("keeptime-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder.canonicalize().unwrap()
    }

    #[test]
    fn newest_toolkit_that_the_driver_knows_comes_first() {
        let root = folder("toolkits");
        put(&root, "cuda-12.4/lib64/libcudadevrt.a");
        put(&root, "cuda-13.0/targets/x86_64-linux/lib/libcudadevrt.a");
        put(&root, "cuda-13.1/lib64/libcudadevrt.a");
        put(&root, "cuda-without/lib64/libcudadevrt.a");
        let versions = |driver| {
            let chosen = choose(installed(&root), driver);
            let relative = chosen.iter().map(|path| path.strip_prefix(&root).unwrap());
            relative.map(|path| path.iter().next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(versions(13_000), ["cuda-13.0", "cuda-12.4", "cuda-13.1"]);
        assert_eq!(versions(12_080), ["cuda-12.4"]);
        assert_eq!(versions(12_020), ["cuda-12.4"]);
        assert!(versions(11_080).is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn packages_of_python_are_found() {
        let root = folder("python");
        put(&root, "python3.11/site-packages/nvidia/cu13/lib/libcudadevrt.a");
        let found = of_python(&root);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].version, Some(13_000));
        std::fs::remove_dir_all(root).unwrap();
    }
}
