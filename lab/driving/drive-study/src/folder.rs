//! The folder of a study: `study.json` says what is driven, `drives.log` has a line for each drive
//! that is over. A line is a checksum of its text, a space, and the row as JSON.
//!
//! A line is written and brought to the disk in one go after its drive. If the last one has no end,
//! its writer was killed: it is cut off, and its drive is driven again. Any other line that
//! is not what a drive leaves is an error. One process at a time has the folder.

use crate::study::{Unit, slow_enough};
use crate::{Clock, Error, Factor, Key, Row, Shard, Slowness, Study};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The version of both files.
const VERSION: u32 = 1;
const MANIFEST: &str = "study.json";
pub(crate) const LOG: &str = "drives.log";

/// Description of a machine, by name and value.
pub type Machine = Vec<(String, String)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    study: Study,
    shard: Shard,
    /// Machines on which it was driven; more than one if it went on elsewhere.
    machines: Vec<Machine>,
    /// Factors that were found on them, if the study does not say one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slower: Vec<Slower>,
}

/// Factor of a study's cores that was found on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slower {
    machine: Machine,
    pub(crate) found: Slowness,
}

/// A folder with the drives of a study, or of one of its shards.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    manifest: Manifest,
    /// Machine on which it is driven now.
    machine: Machine,
    units: Vec<Unit>,
    rows: HashMap<Key, Row>,
    log: File,
    /// Bytes of whole lines in it.
    length: u64,
}

impl Folder {
    /// A folder for a study that begins, or, if `resume`, may have begun before.
    ///
    /// # Errors
    /// It cannot be written, another process has it, or it holds something else than what this
    /// study leaves.
    pub fn open(
        path: &Path,
        study: &Study,
        shard: Shard,
        machine: Machine,
        resume: bool,
    ) -> Result<Folder, Error> {
        std::fs::create_dir_all(path).map_err(Error::file(path))?;
        let file = path.join(MANIFEST);
        let mut manifest = Manifest {
            format: VERSION,
            study: study.clone(),
            shard,
            machines: vec![],
            slower: vec![],
        };
        if file.exists() {
            if !resume {
                let problem = "found a study, expected none; --resume continues it";
                return Err(Error::content(&file, problem));
            }
            let found = read_manifest(&file)?;
            if let Some(difference) = trial::difference(&found.study, study)? {
                return Err(Error::content(&file, difference));
            }
            if found.shard != shard {
                let problem = format!("shard: found {}, expected {shard}", found.shard);
                return Err(Error::content(&file, problem));
            }
            (manifest.machines, manifest.slower) = (found.machines, found.slower);
        }
        if !manifest.machines.contains(&machine) {
            manifest.machines.push(machine.clone());
        }
        let mut folder = Folder::with(path, manifest, machine, true)?;
        folder.put(MANIFEST, &to_json(&folder.manifest)?)?;
        folder.load(true)?;
        Ok(folder)
    }

    /// A new folder for a study with all its drives.
    pub(crate) fn of<'r>(
        path: &Path,
        study: &Study,
        (machines, slower): (Vec<Machine>, Vec<Slower>),
        rows: impl Iterator<Item = &'r Row>,
    ) -> Result<Folder, Error> {
        let first = machines.first().cloned().unwrap_or_default();
        let mut folder = Folder::open(path, study, Shard::WHOLE, first, false)?;
        (folder.manifest.machines, folder.manifest.slower) = (machines, slower);
        folder.put(MANIFEST, &to_json(&folder.manifest)?)?;
        let mut rows: HashMap<Key, &Row> = rows.map(|row| (row.key.clone(), row)).collect();
        for key in folder.keys().collect::<Vec<_>>() {
            if let Some(row) = rows.remove(&key) {
                folder.append([row.clone()])?;
            }
        }
        Ok(folder)
    }

    /// A folder that is only read.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub(crate) fn read(path: &Path) -> Result<Folder, Error> {
        let manifest = read_manifest(&path.join(MANIFEST))?;
        let mut folder = Folder::with(path, manifest, Machine::new(), false)?;
        folder.load(false)?;
        Ok(folder)
    }

    fn with(
        path: &Path,
        manifest: Manifest,
        machine: Machine,
        write: bool,
    ) -> Result<Folder, Error> {
        let name = path.join(LOG);
        let file = path.join(MANIFEST);
        let units = manifest.study.units().map_err(|problem| Error::content(&file, problem))?;
        let units = manifest.shard.take(units);
        let mut options = OpenOptions::new();
        let log = options
            .read(true)
            .append(write)
            .create(write)
            .open(&name)
            .map_err(Error::file(&name))?;
        match log.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let problem = "found it open in another process, expected no other user";
                return Err(Error::content(&name, problem));
            }
            Err(TryLockError::Error(source)) => return Err(Error::File { path: name, source }),
        }
        let (path, rows) = (path.to_owned(), HashMap::new());
        Ok(Folder { path, manifest, machine, units, rows, log, length: 0 })
    }

    /// Reads the rows; `repair`: cuts off what a killed process left.
    fn load(&mut self, repair: bool) -> Result<(), Error> {
        let name = self.path.join(LOG);
        let mut bytes = Vec::new();
        self.log.read_to_end(&mut bytes).map_err(Error::file(&name))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut last = None;
        let wanted: std::collections::HashSet<Key> = self.keys().collect();
        for (index, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let problem =
                |problem: String| Error::Line { path: name.clone(), line: index + 1, problem };
            let row = parsed(line).map_err(problem)?;
            if !wanted.contains(&row.key) {
                let problem = problem(format!("found {}, expected a drive of this study", row.key));
                return Err(problem);
            }
            last = Some((row.key.clone(), line.len()));
            if let Some(twice) = self.rows.insert(row.key.clone(), row) {
                return Err(problem(format!("found {} twice, expected it once", twice.key)));
            }
        }
        self.length = whole as u64;
        if repair {
            // The drive that repeats this one on the virtual clock is written together with it.
            if let Some((key, bytes)) = last.filter(|(key, _)| key.clock == Clock::Wall) {
                self.rows.remove(&key);
                self.length -= bytes as u64;
            }
            if self.length < bytes.len() as u64 {
                self.log.set_len(self.length).map_err(Error::file(&name))?;
            }
        }
        Ok(())
    }

    /// Keeps drives that are over, together: they are on the disk when this returns.
    pub(crate) fn append<const N: usize>(&mut self, rows: [Row; N]) -> Result<(), Error> {
        let name = self.path.join(LOG);
        let mut lines = String::new();
        for row in &rows {
            let text = serde_json::to_string(row)?;
            lines += &format!("{} {text}\n", trial::checksum(text.as_bytes()));
        }
        let written = self.log.write_all(lines.as_bytes()).and_then(|()| self.log.sync_data());
        if let Err(error) = written {
            // Half a line must not be in front of another one.
            self.log.set_len(self.length).map_err(Error::file(&name))?;
            return Err(Error::file(&name)(error));
        }
        self.length += lines.len() as u64;
        self.rows.extend(rows.map(|row| (row.key.clone(), row)));
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the study that is driven.
    pub fn study(&self) -> &Study {
        &self.manifest.study
    }

    /// Returns the part of the study that is in this folder.
    pub fn shard(&self) -> Shard {
        self.manifest.shard
    }

    /// Returns the machines on which it was driven.
    pub fn machines(&self) -> &[Machine] {
        &self.manifest.machines
    }

    /// Returns the factors that were found, on all machines.
    pub(crate) fn slower(&self) -> &[Slower] {
        &self.manifest.slower
    }

    /// Returns the factor by which the cores are slower than this machine's; none if that has still
    /// to be found.
    pub fn factor(&self) -> Option<f64> {
        let here = || self.slower().iter().find(|it| it.machine == self.machine);
        match self.study().factor {
            Factor::Times(times) => Some(times),
            Factor::Published => here().map(|it| it.found.factor),
        }
    }

    /// Keeps how slow they have to be on this machine.
    ///
    /// # Errors
    /// It cannot be written, or a core of this machine would have to be faster than it is.
    pub fn slow_down(&mut self, found: Slowness) -> Result<(), Error> {
        if !self.study().on_wall().is_empty() {
            slow_enough(found.factor)?;
        }
        self.manifest.slower.push(Slower { machine: self.machine.clone(), found });
        self.put(MANIFEST, &to_json(&self.manifest)?)
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    fn keys(&self) -> impl Iterator<Item = Key> {
        self.units.iter().flat_map(|unit| unit.keys().map(|(_, key)| key))
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.rows.contains_key(key)
    }

    /// Returns the number of drives that are over, and the number of all drives.
    pub fn done(&self) -> (usize, usize) {
        (self.rows.len(), self.keys().count())
    }

    /// Are all of them over?
    pub fn is_done(&self) -> bool {
        let (done, all) = self.done();
        done == all
    }

    /// The drives that are over, in the order of the study.
    pub fn rows(&self) -> Vec<&Row> {
        self.keys().filter_map(|key| self.rows.get(&key)).collect()
    }

    /// Writes a file into the folder, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let written = trial::write_whole(&self.path, name, bytes);
        written.map(|_| ()).map_err(Error::file(&self.path.join(name)))
    }
}

fn to_json(manifest: &Manifest) -> Result<Vec<u8>, Error> {
    Ok(format!("{}\n", serde_json::to_string_pretty(manifest)?).into_bytes())
}

fn read_manifest(file: &Path) -> Result<Manifest, Error> {
    let text = std::fs::read_to_string(file).map_err(Error::file(file))?;
    let wrong = |error: serde_json::Error| Error::content(file, error.to_string());
    let manifest: Manifest = serde_json::from_str(&text).map_err(wrong)?;
    if manifest.format != VERSION {
        let problem = format!("format: found {}, expected {VERSION}", manifest.format);
        return Err(Error::content(file, problem));
    }
    if !manifest.shard.is_possible() {
        let problem = format!("shard: found {}, expected I/N, I from 1 to N", manifest.shard);
        return Err(Error::content(file, problem));
    }
    Ok(manifest)
}

/// The row of a line that ends.
fn parsed(line: &[u8]) -> Result<Row, String> {
    let text = std::str::from_utf8(line)
        .map_err(|_| "found bytes that are not UTF-8 text, expected UTF-8".to_owned())?;
    let (digits, text) = text
        .trim_end_matches('\n')
        .split_once(' ')
        .ok_or_else(|| "expected a checksum, a space and a drive".to_owned())?;
    let expected = trial::checksum(text.as_bytes());
    if digits != expected {
        let found: String = digits.chars().take(32).collect();
        return Err(format!("checksum: found {found:?}, expected {expected:?} for what follows"));
    }
    let row: Row = serde_json::from_str(text).map_err(|error| error.to_string())?;
    row.is_possible()
        .then_some(row)
        .ok_or_else(|| "found values outside their ranges, expected values of a drive".to_owned())
}
