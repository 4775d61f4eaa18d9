//! Programs that ask the NVIDIA driver for a GPU's state again and again.
//!
//! A query takes locks of the driver that launches and copies of other processes take too. Their
//! processes are found in `/proc` by name: of the program, or of the program that an interpreter,
//! `watch` or a wrapper runs, or a shell in a loop. Processes that this one descends from are no
//! pollers: to end them would end the user's own session.

use std::path::{Path, PathBuf};

use crate::Finding;

/// Programs that poll.
const POLLERS: [&str; 10] = [
    "nvidia-smi",
    "nv-hostengine",
    "dcgmi",
    "dcgm-exporter",
    "nvidia_gpu_exporter",
    "nvtop",
    "nvitop",
    "gpustat",
    "nvitop-exporter",
    "all-smi",
];
/// Programs whose arguments have the name of the program that they run.
const RUNNERS: [&str; 4] = ["watch", "sudo", "python", "python3"];
/// Programs whose arguments have commands.
const SHELLS: [&str; 4] = ["sh", "bash", "dash", "zsh"];
/// Words of a shell that begin a loop.
const LOOPS: [&str; 3] = ["while", "until", "for"];
/// Words of a shell that stand before a command.
const KEYWORDS: [&str; 8] = ["do", "then", "else", "while", "until", "if", "exec", "sudo"];
/// Longest part of a command line that is shown.
const MOST_LETTERS: usize = 60;

/// A process that polls.
#[derive(Debug, PartialEq, Eq)]
struct Poller {
    process: u32,
    command: String,
}

/// Looks for pollers among the processes that are visible here.
pub(crate) fn pollers() -> Finding {
    let found = running();
    if found.is_empty() {
        return Finding::ok(match Path::new("/proc/1/cmdline").exists() {
            true => "none",
            false => "none among the processes that this user can see",
        });
    }
    let line = |poller: &Poller| format!("process {}: {}", poller.process, poller.command);
    let numbers: Vec<String> = found.iter().map(|poller| poller.process.to_string()).collect();
    let is_service = |poller: &Poller| poller.command.contains("nv-hostengine");
    let grant = match found.iter().any(is_service) {
        true => "sudo systemctl stop nvidia-dcgm".to_owned(),
        false => format!("kill {}", numbers.join(" ")),
    };
    Finding::limited(found.iter().map(line).collect::<Vec<_>>().join("; ")).mend(grant)
}

fn running() -> Vec<Poller> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let poller = |process: PathBuf| {
        let number = process.file_name()?.to_str()?.parse().ok()?;
        let arguments = std::fs::read(process.join("cmdline")).ok()?;
        let command = polls(&String::from_utf8_lossy(&arguments))?;
        Some(Poller { process: number, command })
    };
    let ancestors = ancestors();
    let mut found: Vec<Poller> = processes.filter_map(|process| poller(process.path())).collect();
    found.retain(|poller| !ancestors.contains(&poller.process));
    found.sort_by_key(|poller| poller.process);
    found
}

/// This process, its parent, and so on.
fn ancestors() -> Vec<u32> {
    let parent = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|parent| *parent != 0)
    };
    std::iter::successors(Some(std::process::id()), parent).collect()
}

/// The command line, if it is that of a poller; arguments end with a zero byte in it.
fn polls(arguments: &str) -> Option<String> {
    let mut words = arguments.split('\0').filter(|word| !word.is_empty());
    let program = file_name(words.next()?);
    let is_poller = |word: &str| POLLERS.contains(&file_name(word));
    let is_command = |text: &str| {
        let mut command = text.split_whitespace().filter(|word| !KEYWORDS.contains(word));
        command.next().is_some_and(is_poller)
    };
    let ends_command = [';', '\n', '|', '&', '(', ')', '`'];
    let loops = |script: &str| {
        let is_loop = |word: &str| LOOPS.contains(&word);
        let begins_loop = |command: &str| command.split_whitespace().any(is_loop);
        let mut rest = script.split(ends_command).skip_while(|command| !begins_loop(command));
        rest.any(is_command)
    };
    let polls = is_poller(program)
        || RUNNERS.contains(&program) && words.clone().any(is_command)
        || SHELLS.contains(&program) && words.any(loops);
    if !polls {
        return None;
    }
    let whole = arguments.trim_end_matches('\0').replace('\0', " ");
    Some(terminal::page::cut(&terminal::page::clean(&whole), MOST_LETTERS))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pollers_are_known_by_their_program_and_by_the_one_that_runs_them() {
        for line in [
            "nvidia-smi\0--loop=5\0",
            "/usr/bin/nvidia-smi\0dmon\0",
            "/usr/bin/nv-hostengine\0-n\0",
            "watch\0-n1\0nvidia-smi\0",
            "bash\0-c\0while true; do nvidia-smi; sleep 1; done\0",
            "/usr/bin/python3\0/usr/local/bin/gpustat\0-i\0",
        ] {
            assert_eq!(polls(line), Some(line.trim_end_matches('\0').replace('\0', " ")));
        }
        for line in [
            "vim\0nvidia-smi\0",
            "nvidia-persistenced\0",
            "bash\0-c\0grep nvidia-smi x; ls\0",
            "bash\0-c\0nvidia-smi -l 1 >log & exec ./robot\0",
            "",
            "\0",
        ] {
            assert_eq!(polls(line), None, "{line:?}");
        }
    }
}
