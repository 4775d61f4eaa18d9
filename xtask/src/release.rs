//! `cargo xtask package`: a tarball and a Debian package of the tool and its C libraries, for this
//! machine's architecture; and its check, in bare Debian trees, where the package is installed, two
//! tutorials run as written, and it is removed.
//!
//! ```text
//!   usr/bin/keeptime                                 with the preload library inside
//!   usr/lib/TRIPLET/libkeeptime.so.0, libkeeptime.a  and libkeeptime_bandwidth; pkgconfig/, cmake/
//!   usr/include/keeptime.h, keeptime_bandwidth.h
//!   usr/lib/systemd/system/keeptime.service
//!   usr/share/man, bash-completion, zsh, fish, doc
//!   etc/keeptime/server.yaml
//! ```

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use anyhow::{Context, ensure};
use testing::{page::Page, stage};

use crate::debian;
use crate::step::Step;

/// Options of `cargo xtask package`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install the package into bare Debian trees (debootstrap, as root), and use it there
    #[arg(long)]
    check: bool,
    /// Releases of Debian on which it is checked
    #[arg(long, value_delimiter = ',', default_value = "bookworm,trixie")]
    releases: Vec<String>,
}

/// The C libraries: package, name and header.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("keeptime-accel-c", "libkeeptime", "crates/serve/accel-c/include/keeptime.h"),
    (
        "keeptime-bandwidth-c",
        "libkeeptime_bandwidth",
        "crates/memory/bandwidth-c/include/keeptime_bandwidth.h",
    ),
];
/// Version of the libraries' interfaces, in their names.
const INTERFACE: &str = "0";

/// Builds the packages, and checks them if asked to.
///
/// # Errors
/// If a step fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let releases: Vec<&str> = args.releases.iter().map(String::as_str).collect();
    let trees = args.check.then(|| Trees::begin(&releases).context("no tree")).transpose()?;
    let package = package("full,manual")?;
    for tree in trees.map(Trees::made).unwrap_or_default() {
        check(&tree?, &package)?;
    }
    Ok(())
}

/// Builds both packages with these features of the program, and returns the path of Debian's.
fn package(features: &str) -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(crate::target())?.join("package");
    let _ = fs::remove_dir_all(&folder);
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("keeptime_{version}_{architecture}");
    let root = folder.join(&name);
    build(features)?;
    let tree = PackageTree { root: &root, triplet: &triplet, version };
    tree.program()?;
    tree.libraries()?;
    tree.texts()?;
    let tarball = folder.join(format!("{name}.tar.gz"));
    Step::program("tar")
        .args(["--owner=0", "--group=0", "-czf"])
        .arg(&tarball)
        .arg("-C")
        .arg(&folder)
        .arg(&name)
        .run()?;
    tree.control(&architecture)?;
    let package = folder.join(format!("{name}.deb"));
    Step::program("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .args([&root, &package])
        .run()?;
    eprintln!("==> {}", tarball.display());
    eprintln!("==> {}", package.display());
    Ok(package)
}

fn build(features: &str) -> anyhow::Result<()> {
    Step::cargo("build --release -p keeptime --features").arg(features).run()?;
    for (package, ..) in LIBRARIES {
        Step::cargo(&format!("build --release -p {package}"))
            .env("KEEPTIME_SONAME", format!(".{INTERFACE}"))
            .run()?;
    }
    Ok(())
}

/// The tree that is packed.
struct PackageTree<'a> {
    root: &'a Path,
    triplet: &'a str,
    version: &'a str,
}

impl PackageTree<'_> {
    fn program(&self) -> anyhow::Result<()> {
        let program = self.put(&built("keeptime"), "usr/bin/keeptime", 0o755)?;
        Step::program("strip").arg(&program).run()?;
        let pages = self.folder("pages")?;
        Step::program(&program).arg("manual").arg(&pages).run()?;
        for page in fs::read_dir(&pages)?.collect::<Result<Vec<_>, _>>()? {
            let name = page.file_name().to_string_lossy().into_owned();
            let to = match name.as_str() {
                "keeptime.bash" => "usr/share/bash-completion/completions/keeptime".into(),
                "_keeptime" => "usr/share/zsh/vendor-completions/_keeptime".into(),
                "keeptime.fish" => "usr/share/fish/vendor_completions.d/keeptime.fish".into(),
                page => format!("usr/share/man/man1/{page}"),
            };
            self.put(&page.path(), &to, 0o644)?;
        }
        Ok(fs::remove_dir_all(pages)?)
    }

    fn libraries(&self) -> anyhow::Result<()> {
        let libraries = format!("usr/lib/{}", self.triplet);
        for (_, library, header) in LIBRARIES {
            let real = format!("{library}.so.{}", self.version);
            let shared = built(&format!("{library}.so"));
            let shared = self.put(&shared, &format!("{libraries}/{real}"), 0o644)?;
            Step::program("strip").arg("--strip-unneeded").arg(shared).run()?;
            for link in [format!("{library}.so.{INTERFACE}"), format!("{library}.so")] {
                symlink(&real, self.root.join(&libraries).join(link))?;
            }
            let archive = built(&format!("{library}.a"));
            let archive = self.put(&archive, &format!("{libraries}/{library}.a"), 0o644)?;
            Step::program("strip").arg("--strip-debug").arg(archive).run()?;
            let header = crate::root().join(header);
            let name = header.file_name().context("a header")?.to_string_lossy().into_owned();
            self.put(&header, &format!("usr/include/{name}"), 0o644)?;
        }
        for name in ["keeptime.pc", "keeptime_bandwidth.pc"] {
            self.fill(name, &format!("{libraries}/pkgconfig/{name}"))?;
        }
        let config = format!("{libraries}/cmake/keeptime/keeptime-config.cmake");
        self.fill("keeptime-config.cmake", &config)
    }

    fn texts(&self) -> anyhow::Result<()> {
        let source = |name: &str| crate::root().join(name);
        let unit = "usr/lib/systemd/system/keeptime.service";
        self.put(&source("packaging/keeptime.service"), unit, 0o644)?;
        self.put(&source("examples/server.yaml"), "etc/keeptime/server.yaml", 0o644)?;
        let licence = "usr/share/doc/keeptime/copyright";
        self.put(&source("packaging/copyright"), licence, 0o644)?;
        for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            self.put(&source(name), &format!("usr/share/doc/keeptime/{name}"), 0o644)?;
        }
        Ok(())
    }

    /// Control file for Debian's tools.
    fn control(&self, architecture: &str) -> anyhow::Result<()> {
        let glibc = self.least_glibc()?;
        let control = format!(
            "Package: keeptime\nVersion: {}\nArchitecture: {architecture}\nSection: devel\n\
             Priority: optional\nMaintainer: The Keeptime developers <keeptime@localhost>\n\
             Depends: libc6 (>= {glibc}), libgcc-s1\n\
             Description: accelerator work on time\n Finds out why a launch was late, bounds waits \
             for locks, arbitrates\n accelerators by chain priority, and bounds response times.\n",
            self.version
        );
        let folder = self.folder("DEBIAN")?;
        fs::write(folder.join("control"), control)?;
        Ok(fs::write(folder.join("conffiles"), "/etc/keeptime/server.yaml\n")?)
    }

    /// The oldest C library that has all symbols which the files need.
    fn least_glibc(&self) -> anyhow::Result<String> {
        let mut least = (2, 0);
        let files =
            LIBRARIES.map(|(_, name, _)| format!("usr/lib/{}/{name}.so.{INTERFACE}", self.triplet));
        for file in files.iter().map(String::as_str).chain(["usr/bin/keeptime"]) {
            let symbols = said(Command::new("objdump").arg("-T").arg(self.root.join(file)))?;
            let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
                let mut numbers = rest[..end].split('.').map(str::parse::<u32>);
                Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
            });
            least = versions.fold(least, Ord::max);
        }
        Ok(format!("{}.{}", least.0, least.1))
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    fn put(&self, from: &Path, to: &str, mode: u32) -> anyhow::Result<PathBuf> {
        let path = self.root.join(to);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::copy(from, &path).with_context(|| from.display().to_string())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Puts a template with its words filled in.
    fn fill(&self, template: &str, to: &str) -> anyhow::Result<()> {
        let template = crate::root().join("packaging").join(template);
        let path = self.put(&template, to, 0o644)?;
        let text = fs::read_to_string(&path)?;
        let text = text.replace("@TRIPLET@", self.triplet).replace("@VERSION@", self.version);
        Ok(fs::write(path, text)?)
    }
}

fn built(name: &str) -> PathBuf {
    crate::target().join("release").join(name)
}

/// Bare trees of Debian with a C compiler, which are made while other work goes on.
pub(crate) struct Trees {
    made: Vec<JoinHandle<anyhow::Result<PathBuf>>>,
}

impl Trees {
    /// Begins to make those that are missing. None, and a line that says why, where this user or
    /// machine cannot make or enter one.
    pub(crate) fn begin(releases: &[&str]) -> Option<Self> {
        let bootstrap = || debian::runs(Command::new("debootstrap").arg("--version"));
        let enter = || debian::runs(unshare().args(["chroot", "/", "true"]));
        if !debian::have(&["debootstrap"], bootstrap) || !enter() {
            eprintln!("==> SKIP: the package in bare Debian trees: no debootstrap, or not root");
            return None;
        }
        let made = releases.iter().map(|release| {
            let release = (*release).to_owned();
            std::thread::spawn(move || tree(&release))
        });
        Some(Self { made: made.collect() })
    }

    /// Waits for them.
    fn made(self) -> Vec<anyhow::Result<PathBuf>> {
        let join = |made: JoinHandle<anyhow::Result<PathBuf>>| match made.join() {
            Ok(tree) => tree,
            Err(_) => Err(anyhow::anyhow!("the tree was not made")),
        };
        self.made.into_iter().map(join).collect()
    }
}

/// Makes a package of the tool's default features, and checks it in the trees that could be made; a
/// line says why one could not, such as a mirror that does not answer.
///
/// # Errors
/// If the package cannot be made, or not be used in a tree.
pub(crate) fn test(trees: Trees) -> anyhow::Result<()> {
    let package = package("manual")?;
    for tree in trees.made() {
        match tree {
            Ok(tree) => check(&tree, &package)?,
            Err(error) => eprintln!("==> SKIP: the package in a Debian tree: {error:#}"),
        }
    }
    Ok(())
}

/// The tree of one release, which is whole or is not there.
fn tree(release: &str) -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(crate::target())?;
    let tree = folder.join(format!("debian-{release}"));
    if tree.exists() {
        return Ok(tree);
    }
    let part = folder.join(format!("debian-{release}.part"));
    let _ = fs::remove_dir_all(&part);
    let log = folder.join(format!("debian-{release}.txt"));
    fs::create_dir_all(&folder)?;
    let status = Command::new("debootstrap")
        .args(["--variant=minbase", "--include=gcc,libc6-dev,pkg-config,cmake,make", release])
        .arg(&part)
        .stdout(File::create(&log)?)
        .status()?;
    ensure!(status.success(), "debootstrap {release} ended with {status}: {}", log.display());
    fs::rename(part, &tree)?;
    Ok(tree)
}

/// A command with mounts and processes of its own, which end with it.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command
}

/// Installs the package into a bare tree, uses it there, and removes it; then the tarball.
fn check(tree: &Path, package: &Path) -> anyhow::Result<()> {
    let sources = tree.join("root/keeptime");
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources)?;
    // The examples, and the table from which the fake driver is made.
    Step::program("cp")
        .args(["-r", "--parents", "examples", "crates/observe/record/cuda-entry-points.tsv"])
        .arg(sources)
        .run()?;
    fs::copy(package, tree.join("keeptime.deb"))?;
    fs::copy(package.with_extension("tar.gz"), tree.join("keeptime.tar.gz"))?;
    fs::copy(crate::root().join("packaging/check.sh"), tree.join("check.sh"))?;
    for name in ["tutorial-late", "tutorial-share"] {
        let commands = stage::plain_script(&Page::read(&format!("docs/{name}.md")));
        fs::write(tree.join(format!("{name}.sh")), commands)?;
    }
    Step::command(unshare())
        .env("HOME", "/root")
        .arg("chroot")
        .arg(tree)
        .args(["sh", "/check.sh"])
        .run()
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
