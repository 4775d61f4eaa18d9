//! Sizes of the caches of a core, and arrays by their size.

use super::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Folder in which the kernel describes its cores.
const CORES: &str = "/sys/devices/system/cpu";

/// The data caches of a core, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caches {
    /// Level 1.
    pub l1d: usize,
    /// Level 2.
    pub l2: usize,
    /// The last level.
    pub llc: usize,
}

/// Size of a hog's array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Size {
    /// This number of bytes.
    Bytes(usize),
    /// Half of the L1 data cache: no traffic at all.
    HalfL1d,
    /// Half of the L2 cache: traffic between the caches of the core.
    HalfL2,
    /// The last-level cache, which it then takes from everyone else.
    Llc,
    /// Twice the last-level cache: memory traffic only.
    TwiceLlc,
}

impl Caches {
    /// Returns the caches of a core.
    ///
    /// # Errors
    /// [`Error::Cache`] where the kernel does not say.
    pub fn of(core: usize) -> Result<Caches, Error> {
        Caches::read(&Path::new(CORES).join(format!("cpu{core}/cache")))
    }

    fn read(folder: &Path) -> Result<Caches, Error> {
        let unknown = |path: PathBuf, found: String| Error::Cache { path, found };
        // By level: no cache of a processor has more of them.
        let mut levels = [0; 8];
        for index in 0.. {
            let path_of = |file: &str| folder.join(format!("index{index}")).join(file);
            let Ok(kind) = std::fs::read_to_string(path_of("type")) else { break };
            if kind.trim() == "Instruction" {
                continue;
            }
            let read = |file: &str| {
                let text = std::fs::read_to_string(path_of(file));
                text.map_err(|error| unknown(path_of(file), error.to_string()))
            };
            let (level, size) = (read("level")?, read("size")?);
            let place = level.trim().parse().ok().and_then(|level: usize| levels.get_mut(level));
            match (place, bytes(size.trim(), &[("K", 10), ("M", 20), ("G", 30)])) {
                (Some(place), Some(bytes)) => *place = bytes,
                _ => {
                    return Err(unknown(
                        path_of("size"),
                        format!("level {level:?} of size {size:?}"),
                    ));
                }
            }
        }
        let [_, l1d, l2, ..] = levels;
        let llc = levels.into_iter().rfind(|bytes| *bytes > 0);
        match llc {
            Some(llc) if l1d > 0 && l2 > 0 => Ok(Caches { l1d, l2, llc }),
            _ => Err(unknown(folder.to_owned(), "no caches of level 1 and 2".into())),
        }
    }
}

impl Size {
    /// Returns the size on a core, in bytes.
    ///
    /// # Errors
    /// As [`Caches::of`], for a size by cache.
    pub fn bytes(self, core: usize) -> Result<usize, Error> {
        Ok(match self {
            Size::Bytes(bytes) => bytes,
            Size::HalfL1d => Caches::of(core)?.l1d / 2,
            Size::HalfL2 => Caches::of(core)?.l2 / 2,
            Size::Llc => Caches::of(core)?.llc,
            Size::TwiceLlc => 2 * Caches::of(core)?.llc,
        })
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        Ok(match text {
            "half-l1d" => Size::HalfL1d,
            "half-l2" => Size::HalfL2,
            "llc" => Size::Llc,
            "twice-llc" => Size::TwiceLlc,
            _ => {
                let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("B", 0)];
                let expected = "expected half-l1d, half-l2, llc, twice-llc or a size like 64MiB";
                Size::Bytes(bytes(text, &units).filter(|bytes| *bytes > 0).ok_or(expected)?)
            }
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => write!(f, "{bytes} B"),
            Size::HalfL1d => f.write_str("half-l1d"),
            Size::HalfL2 => f.write_str("half-l2"),
            Size::Llc => f.write_str("llc"),
            Size::TwiceLlc => f.write_str("twice-llc"),
        }
    }
}

/// A number with one of the units, given as powers of two; none means bytes.
fn bytes(text: &str, units: &[(&str, u32)]) -> Option<usize> {
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((text, 0));
    let digits = digits.trim_end();
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: usize = plain.then(|| digits.parse().ok())??;
    number.checked_mul(1_usize.checked_shl(shift)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(caches: &[[&str; 3]]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (index, values) in caches.iter().enumerate() {
            let of = folder.path().join(format!("index{index}"));
            std::fs::create_dir(&of).unwrap();
            for (file, value) in ["level", "type", "size"].iter().zip(values) {
                std::fs::write(of.join(file), format!("{value}\n")).unwrap();
            }
        }
        folder
    }

    #[test]
    fn caches_are_what_the_kernel_says() {
        let three = [["1", "Data", "32K"], ["1", "Instruction", "64K"], ["2", "Unified", "1024K"]];
        let two = Caches::read(folder(&three).path()).unwrap();
        assert_eq!(two, Caches { l1d: 32 << 10, l2: 1 << 20, llc: 1 << 20 });
        let last = ["3", "Unified", "32M"];
        let all = Caches::read(folder(&[three[0], three[2], last]).path()).unwrap();
        assert_eq!(all.llc, 32 << 20);
    }

    #[test]
    fn caches_that_nobody_knows_are_an_error_with_their_place() {
        let nothing = folder(&[]);
        let said = Caches::read(nothing.path()).unwrap_err().to_string();
        assert!(said.contains(nothing.path().to_str().unwrap()), "{said}");
        let odd = folder(&[["1", "Data", "much"]]);
        let said = Caches::read(odd.path()).unwrap_err().to_string();
        assert!(said.contains("index0/size") && said.contains("much"), "{said}");
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        assert_eq!("64MiB".parse(), Ok(Size::Bytes(64 << 20)));
        assert_eq!("3 KiB".parse(), Ok(Size::Bytes(3 << 10)));
        assert_eq!("17".parse(), Ok(Size::Bytes(17)));
        for size in [Size::HalfL1d, Size::HalfL2, Size::Llc, Size::TwiceLlc] {
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for wrong in ["", "MiB", "0", "-1", "+1", "1.5MiB", "l3", "99999999999GiB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
