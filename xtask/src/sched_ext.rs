//! `cargo xtask sched-ext`: boots a kernel that has sched_ext in QEMU, tests the scheduler of `crates/memory/throttle-fair/scheduler/`
//! there, and repeats BWLOCK++'s section IV-C-4 with `keeptime-lab bench regulate`.
//!
//! The kernel is a package of Debian's, unpacked into the folder that cargo builds into, as is
//! virtme-ng, whose guest is this machine's own file system, read only. The processor is emulated and
//! its clock counts instructions (`-icount`): what the guest measures does not depend on what else
//! this machine does, and a period of 1 ms is one even where the emulation is slow.
//!
//! Only what is missing is installed or fetched, from the mirror that this machine's apt uses.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use crate::step::Step;
use crate::wheel::Wheel;

/// Debian's kernels before 6.16 are built without sched_ext, so the ones of trixie itself (6.12) do
/// not do.
const SUITE: &str = "trixie-backports";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

const VIRTME: Wheel = Wheel {
    requirement: "virtme-ng==1.42",
    hash: "99589f1f5d74249038fe3c52aad9d3c33cb82a2d9617997511d4489fc709a707",
    platform: &[],
};

/// The guest's clock goes on by 1 ns (2 to the power of 0) for an instruction, and does not wait
/// while the guest sleeps.
const CLOCK: [&str; 2] = ["-icount", "shift=0,sleep=off"];

/// The packages that are needed, each with a file of it by which it is known to be there.
const NEEDED: [(&str, &str); 6] = [
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/bin/busybox", "busybox-static"),
    ("/usr/sbin/depmod", "kmod"),
    ("/usr/bin/clang-19", "clang-19"),
    ("/usr/include/libelf.h", "libelf-dev"),
    ("/usr/include/zlib.h", "zlib1g-dev"),
];

/// Options of `cargo xtask sched-ext`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A kernel of Debian's backports by its version, such as 6.16.3+deb13; the newest when it is
    /// first fetched
    #[arg(long)]
    kernel: Option<String>,
    /// Regulator's periods to count for each scheduler
    #[arg(long, default_value_t = 1000)]
    periods: u32,
    /// Regulator's period, microseconds
    #[arg(long, default_value_t = 1000)]
    period_us: u64,
    /// Mechanism that puts throttle-fair scheduling into effect: bpf or user
    #[arg(long, default_value = "bpf", value_parser = ["bpf", "user"])]
    fair: String,
}

/// The tests and the experiment, in a virtual machine. Leaves `sched-ext/results` in the folder that
/// cargo builds into.
///
/// # Errors
/// If something cannot be installed, fetched, built or booted, a test fails, or the outcome is not as
/// BWLOCK++ reports it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    if cfg!(not(target_arch = "x86_64")) {
        bail!(
            "found another architecture, expected x86_64: the virtual machine runs programs of \
             this one"
        );
    }
    let folder = std::path::absolute(crate::target())?.join("sched-ext");
    let results = folder.join("results");
    fs::create_dir_all(&results).with_context(|| format!("cannot create {}", results.display()))?;
    tools()?;
    let image = kernel(&folder, args.kernel.as_deref())?;
    let virtme = virtme(&folder)?;
    let (laboratory, test) = (laboratory()?, test_program()?);
    let script = format!(
        "echo -1 > /proc/sys/kernel/sched_rt_runtime_us; export TMPDIR=/run; cd {} && \
         {} --test-threads=1 && \
         {} bench regulate --core 1 --fair {} --rounds 1 --takings 0 --period {}us --duration {}us \
         --out throttle-fair.json --check > throttle-fair.txt; echo $? > status",
        results.display(),
        test.display(),
        laboratory.display(),
        args.fair,
        args.period_us,
        u64::from(args.periods) * args.period_us,
    );
    boot(&virtme, &image, &results, &script)?;
    eprintln!("==> sched-ext took {:.0} s in all", start.elapsed().as_secs_f64());
    Ok(())
}

/// Installs what is missing of the programs and header files.
fn tools() -> anyhow::Result<()> {
    let missing = NEEDED.iter().filter(|(file, _)| !Path::new(file).exists());
    let missing: Vec<_> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let install = || {
        let step =
            Step::program("apt-get").args("install -y -qq --no-install-recommends".split(' '));
        step.args(&missing).env("DEBIAN_FRONTEND", "noninteractive").run()
    };
    install().or_else(|_| {
        Step::program("apt-get").args(["update", "-qq"]).run()?;
        install()
    })
}

/// The image of a kernel with sched_ext, fetched if it is not there.
fn kernel(folder: &Path, version: Option<&str>) -> anyhow::Result<PathBuf> {
    let kernel = folder.join(format!("kernel-{}", version.unwrap_or("newest")));
    let marker = kernel.join("image");
    if let Some(image) = fs::read_to_string(&marker).ok().filter(|image| Path::new(image).exists())
    {
        return Ok(image.into());
    }
    if kernel.exists() {
        fs::remove_dir_all(&kernel).context("cannot remove the unfinished kernel")?;
    }
    let apt = Apt::new(&folder.join("apt"))?;
    let image = match version {
        Some(version) => format!("linux-image-{version}-amd64"),
        None => apt.newest()?,
    };
    let debs = kernel.join("packages");
    fs::create_dir_all(&debs).with_context(|| format!("cannot create {}", debs.display()))?;
    apt.fetch(&apt.parts(&image)?, &debs)?;
    for entry in fs::read_dir(&debs)? {
        Step::program("dpkg-deb").arg("-x").arg(entry?.path()).arg(&kernel).run()?;
    }
    fs::remove_dir_all(&debs).context("cannot remove the packages")?;
    let release = image.strip_prefix("linux-image-").unwrap_or(&image);
    // Folders in which older and newer packages have them.
    let modules = kernel.join("usr/lib/modules").join(release);
    let boot = kernel.join("boot");
    let either = |new: PathBuf, old: PathBuf| if new.exists() { new } else { old };
    let config = either(modules.join("config"), boot.join(format!("config-{release}")));
    let config = fs::read_to_string(&config).with_context(|| config.display().to_string())?;
    if !config.lines().any(|line| line == "CONFIG_SCHED_CLASS_EXT=y") {
        bail!("{image} was built without sched_ext (CONFIG_SCHED_CLASS_EXT)");
    }
    let image = either(modules.join("vmlinuz"), boot.join(format!("vmlinuz-{release}")));
    let name = image.to_str().context("the build folder's name is not UTF-8")?;
    fs::write(marker, name).context("cannot mark the kernel as complete")?;
    Ok(image)
}

/// An apt of its own: other sources, lists and caches than this machine's, and no package installed.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.to_owned();
        for part in ["lists/partial", "cache/archives/partial", "sources"] {
            fs::create_dir_all(folder.join(part)).context("cannot create apt's folders")?;
        }
        let mirror = mirror()?;
        let source = format!(
            "Types: deb\nURIs: {mirror}\nSuites: {SUITE}\nComponents: main\nSigned-By: {KEYRING}\n"
        );
        fs::write(folder.join("sources/kernel.sources"), source)
            .context("cannot write a source")?;
        fs::write(folder.join("status"), "").context("cannot write an empty package status")?;
        let apt = Self { folder };
        apt.step("apt-get").args(["update", "-qq"]).run()?;
        Ok(apt)
    }

    fn options(&self) -> Vec<String> {
        let place = |key: &str, part: &str| format!("{key}={}", self.folder.join(part).display());
        let options = [
            "Dir::Etc::SourceList=/dev/null".into(),
            place("Dir::Etc::SourceParts", "sources"),
            place("Dir::State", ""),
            place("Dir::State::Lists", "lists"),
            place("Dir::State::Status", "status"),
            place("Dir::Cache", "cache"),
            "Acquire::Languages=none".into(),
            // It runs as the user who builds, who may have a folder that no other user can read.
            "APT::Sandbox::User=".into(),
        ];
        options.into_iter().flat_map(|option: String| ["-o".into(), option]).collect()
    }

    fn step(&self, program: &str) -> Step {
        Step::program(program).args(self.options())
    }

    fn cache(&self, arguments: &str) -> anyhow::Result<String> {
        let mut command = Command::new("apt-cache");
        command.args(self.options()).args(arguments.split(' '));
        output(&mut command)
    }

    /// The package that the newest kernel's name stands for.
    fn newest(&self) -> anyhow::Result<String> {
        let depends = self.cache("depends linux-image-amd64")?;
        let found = package_names(&depends).find(|name| {
            name.strip_prefix("linux-image-").is_some_and(|rest| rest.starts_with(char::is_numeric))
        });
        found.map(str::to_owned).with_context(|| format!("{SUITE} has no linux-image-amd64"))
    }

    /// The packages that a kernel's image comes in: newer ones are in parts.
    fn parts(&self, image: &str) -> anyhow::Result<Vec<String>> {
        let release = image.strip_prefix("linux-image-").unwrap_or(image);
        let depends = self.cache(&format!("depends {image}"))?;
        let parts = package_names(&depends).filter(|name| name.ends_with(release));
        Ok(std::iter::once(image).chain(parts).map(str::to_owned).collect())
    }

    fn fetch(&self, packages: &[String], to: &Path) -> anyhow::Result<()> {
        self.step("apt-get").args(["download", "-qq"]).args(packages).folder(to).run()
    }
}

/// The names behind `Depends:` in the output of `apt-cache depends`.
fn package_names(depends: &str) -> impl Iterator<Item = &str> {
    depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "))
}

/// Returns the address from which this machine gets Debian's packages.
fn mirror() -> anyhow::Result<String> {
    let mut command = Command::new("apt-get");
    let format = "$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)";
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let targets = output(&mut command)?;
    let found = targets.lines().find_map(|line| line.strip_prefix("Debian Debian main "));
    found.map(str::to_owned).context(
        "apt has no source of Debian's packages: run this on Debian, after `apt-get update`",
    )
}

/// The folder of virtme-ng, fetched if it is not there.
fn virtme(folder: &Path) -> anyhow::Result<PathBuf> {
    let folder = folder.join("virtme");
    let marker = folder.join("complete");
    let unpacked = folder.join("virtme-ng");
    if fs::read_to_string(&marker).is_ok_and(|found| found == VIRTME.requirement) {
        return Ok(unpacked);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the old virtme-ng")?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let unpacked = VIRTME.unpacked(&folder)?;
    // Unpacking a package leaves out that a file may be executed.
    Step::program("chmod").args(["-R", "a+x"]).arg(unpacked.join("virtme/guest")).run()?;
    fs::write(marker, VIRTME.requirement).context("cannot mark virtme-ng as complete")?;
    Ok(unpacked)
}

const BUILD: &str = "-p keeptime-throttle-fair --features sched-ext";

/// The laboratory, with the scheduler in it.
fn laboratory() -> anyhow::Result<PathBuf> {
    Step::cargo("build -p keeptime-lab --no-default-features --features sched-ext").run()?;
    Ok(std::path::absolute(crate::target())?.join("debug/keeptime-lab"))
}

/// The program that holds the scheduler's tests. The tests that need no such kernel are run here.
fn test_program() -> anyhow::Result<PathBuf> {
    Step::cargo(&format!("test {BUILD}")).run()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::root()).args(["test", "--no-run", "--message-format=json"]);
    let messages = output(command.args(["--test", "scheduler"]).args(BUILD.split(' ')))?;
    let program = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let named = message["target"]["name"] == "scheduler";
        named.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    });
    program.context("cargo printed no path of the test program")
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?}: not UTF-8"))
}

/// Boots the kernel and runs a shell script in it, which writes its status to `results`.
fn boot(virtme: &Path, image: &Path, results: &Path, script: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    let log = results.join("console.txt");
    let status = results.join("status");
    for old in ["status", "throttle-fair.txt", "throttle-fair.json"] {
        // A file that is not there need not go.
        let _ = fs::remove_file(results.join(old));
    }
    let console = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", virtme).args("-m virtme.commands.run --mods auto --kimg".split(' '));
    command.arg(image).args("--memory 1G --cpus 2 --force-9p --disable-kvm".split(' '));
    command.arg("--show-boot-console").arg("--rwdir").arg(results);
    command.args(["--script-sh", script, "--qemu-opts"]).args(CLOCK);
    eprintln!("==> boots {} with: {script}", image.display());
    command.stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console);
    let ended = command.status().context("cannot start python3")?;
    eprintln!("==> the virtual machine ran for {:.1} s", start.elapsed().as_secs_f64());
    let console = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?;
    match fs::read_to_string(&status) {
        Ok(text) if text.trim() == "0" => {
            print!("{}", fs::read_to_string(results.join("throttle-fair.txt"))?);
            Ok(())
        }
        answer => {
            let lines: Vec<_> = console.lines().collect();
            eprintln!("{}", lines[lines.len().saturating_sub(60)..].join("\n"));
            match answer {
                Ok(text) => bail!("in the virtual machine: status {}", text.trim()),
                Err(_) => {
                    bail!("the virtual machine did not finish ({ended}); see {}", log.display())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_kernel_are_read_from_its_dependencies() {
        let depends = "linux-image-7.3.4+deb13-amd64\n |Depends: initramfs-tools\n  \
                       Depends: linux-binary-7.3.4+deb13-amd64\n  Suggests: linux-doc\n";
        let names: Vec<_> = package_names(depends).collect();
        assert_eq!(names, ["linux-binary-7.3.4+deb13-amd64"]);
    }
}
