//! Source packages of Debian, by an `apt` whose settings and lists are its own: the system's
//! stay as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::step::Step;

/// Files and folders that name the sources of the system's packages.
const SYSTEM: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];

/// The unpacked source of a package, in a folder of that name's below `folder/src`.
///
/// # Errors
/// If there is no `apt-get`, no such package, or it cannot be unpacked.
pub(super) fn unpacked(
    folder: &Path,
    package: &str,
    version: Option<&str>,
) -> anyhow::Result<PathBuf> {
    let place = folder.join("src").join(package);
    let found = || -> anyhow::Result<Option<PathBuf>> {
        let Ok(entries) = std::fs::read_dir(&place) else { return Ok(None) };
        let mut folders = Vec::new();
        for entry in entries {
            let path = entry?.path();
            folders.extend(path.is_dir().then_some(path));
        }
        Ok(folders.pop())
    };
    super::once(&folder.join(format!("src/{package}.done")), || {
        super::need(&["dpkg-dev"], || Path::new("/usr/bin/dpkg-source").exists())?;
        std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
        let settings = settings(folder)?;
        let name = version.map_or(package.to_owned(), |version| format!("{package}={version}"));
        let step = |words: &[&str]| {
            Step::program("apt-get").args(words).env("APT_CONFIG", &settings).folder(&place).run()
        };
        step(&["update", "-qq"])?;
        step(&["source", "-qq", &name])
    })?;
    found()?.with_context(|| format!("{}: apt-get source left no folder", place.display()))
}

/// A binary package, unpacked below `folder` instead of installed.
///
/// # Errors
/// If there is no such package or it cannot be unpacked.
pub(super) fn unpacked_binary(folder: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let place = folder.join("build").join(package);
    super::once(&folder.join(format!("build/{package}.done")), || {
        std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
        let download =
            || Step::program("apt-get").args(["download", "-qq", package]).folder(&place).run();
        download().or_else(|_| {
            Step::program("apt-get").args(["update", "-qq"]).run()?;
            download()
        })?;
        for entry in std::fs::read_dir(&place)? {
            let file = entry?.path();
            if file.extension().is_some_and(|end| end == "deb") {
                Step::program("dpkg").arg("-x").arg(&file).arg(&place).run()?;
            }
        }
        Ok(())
    })?;
    Ok(place)
}

/// The version of the source that an installed package was built of.
///
/// # Errors
/// If it is not installed.
pub(super) fn source_version(package: &str) -> anyhow::Result<String> {
    let query = ["--show", "--showformat=${source:Version}", package];
    let answer = Command::new("dpkg-query").args(query).output().context("dpkg-query")?;
    let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if !answer.status.success() || version.is_empty() {
        bail!("{package}: not installed");
    }
    Ok(version)
}

/// Settings for an `apt` that knows the sources of where the system's packages come from.
fn settings(folder: &Path) -> anyhow::Result<PathBuf> {
    let apt = folder.join("apt");
    for below in ["lists/partial", "archives/partial", "sources"] {
        let below = apt.join(below);
        std::fs::create_dir_all(&below).with_context(|| below.display().to_string())?;
    }
    let mut files = vec![PathBuf::from(SYSTEM[0])];
    if let Ok(entries) = std::fs::read_dir(SYSTEM[1]) {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let text = match file.extension().and_then(|end| end.to_str()) {
            Some("list") => of_lines(&text),
            Some("sources") => of_paragraphs(&text),
            _ => continue,
        };
        let name = file.file_name().unwrap_or_default();
        std::fs::write(apt.join("sources").join(name), text)?;
    }
    let apt = apt.display();
    let settings = format!(
        "Dir::Etc::SourceList \"-\";\nDir::Etc::SourceParts \"{apt}/sources\";\n\
         Dir::State::Lists \"{apt}/lists\";\nDir::Cache \"{apt}\";\n"
    );
    let file = folder.join("apt/apt.conf");
    std::fs::write(&file, settings).with_context(|| file.display().to_string())?;
    Ok(file)
}

/// The lines of a `.list`, for sources.
fn of_lines(text: &str) -> String {
    let lines = text.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("deb")?;
        line.starts_with([' ', '\t', '[']).then(|| format!("deb-src{line}\n"))
    });
    lines.collect()
}

/// The paragraphs of a `.sources`, for sources.
fn of_paragraphs(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(':') {
        Some((key, _)) if key.eq_ignore_ascii_case("types") => "Types: deb-src\n".to_owned(),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_binaries_become_lists_of_sources() {
        let lines = "# deb http://x/ a main\ndeb http://x/ a main\n deb [arch=amd64] http://y/ b c\n\
                     deb-src http://x/ a main\n";
        let expected = "deb-src http://x/ a main\ndeb-src [arch=amd64] http://y/ b c\n";
        assert_eq!(of_lines(lines), expected);
        let paragraphs = "Types: deb\n# a word\nURIs: http://x/\nSuites: a\n\ntypes: deb deb-src\n";
        let expected = "Types: deb-src\n# a word\nURIs: http://x/\nSuites: a\n\nTypes: deb-src\n";
        assert_eq!(of_paragraphs(paragraphs), expected);
    }
}
