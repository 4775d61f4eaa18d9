//! `cargo xtask demo`: an unchanged program whose launches are late, the reason in one sentence, the
//! same program guarded; then the chains of case study 1 of PAAM under several policies, beside
//! their bounds. All of it is on one page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::step::Step;

const SYSTEM: &str = "examples/paam-case-study-1.yaml";

/// Arguments of the program that is late: threads that copy pageable memory beside one that
/// launches, the second algorithm of "Autonomy Today".
const LATE: [&str; 4] = ["--copy-threads", "14", "--seconds", "5"];

/// The options of the demo.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Time for which each policy runs
    #[arg(long, default_value = "20s")]
    duration: String,
    /// The policies to compare, all of which are judged [default: those of `keeptime-lab chains`]
    #[arg(long)]
    policy: Option<String>,
    /// More options for `keeptime-lab chains`, after --
    #[arg(last = true)]
    more: Vec<String>,
}

/// Builds, says how long it takes, runs, and writes the page.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = std::path::absolute(crate::target())?.join("demo");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let programs = build()?;
    eprintln!(
        "==> A program runs twice for 5 s; then chains for {} under each policy.",
        args.duration
    );
    let page = folder.join("demo.html");
    eprintln!("==> The page will be {}.", page.display());

    let late = Launches::run(&programs, &folder, "late", &[])?;
    let guarded = Launches::run(&programs, &folder, "guarded", &["--guard", "fair+inherit"])?;
    let chains = folder.join("chains.html");
    // A critical chain that was late on a machine with other work is a result: the summary names it.
    let answer = Step::program(programs.join("keeptime-lab"))
        .args(["chains", SYSTEM, "--duration", &args.duration, "--html"])
        .arg(&chains)
        .args(args.policy.iter().flat_map(|policy| ["--policy", policy.as_str()]))
        .args(&args.more)
        .answers();

    let sections = [
        ("An unchanged program is late", &*late.sentence, &late.page),
        ("The same program with --guard fair+inherit", &*guarded.sentence, &guarded.page),
        ("Chains of case study 1 of PAAM, by policy", "", &chains),
    ];
    fs::write(&page, one_page(&sections)?)?;
    println!("\nAs it is:      {}", late.sentence);
    println!("With --guard:  {}", guarded.sentence);
    println!("\n{}", page.display());
    answer
}

/// Builds the tool, the laboratory and the program that is late, for a demo that waits more than it
/// computes: without optimisation of libraries, and without the typesetter. Returns their folder.
fn build() -> anyhow::Result<PathBuf> {
    Step::cargo("build -p keeptime -p keeptime-preload -p keeptime-lab --no-default-features")
        .run()?;
    let build = late_programs()?;
    Step::program("make")
        .args(["--no-print-directory", "-C", "examples/late-launch"])
        .arg(format!("BUILD={}", build.display()))
        .run()?;
    Ok(std::path::absolute(crate::target())?.join("debug"))
}

fn late_programs() -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(crate::target())?.join("late-launch"))
}

/// A recorded run of the program that is late.
struct Launches {
    /// The report in one sentence.
    sentence: String,
    /// The report as a page.
    page: PathBuf,
}

impl Launches {
    fn run(
        programs: &Path,
        folder: &Path,
        name: &str,
        options: &[&str],
    ) -> anyhow::Result<Launches> {
        let late = late_programs()?;
        let keeptime = programs.join("keeptime");
        let (trace, page) =
            (folder.join(format!("{name}.kt")), folder.join(format!("{name}.html")));
        let program = Step::program(&keeptime)
            .args(["run", "--quiet", "--out"])
            .arg(&trace)
            .args(options)
            .arg("--")
            .arg(late.join("algorithm2"))
            .args(LATE);
        // A machine with a GPU has a driver of its own.
        let has_gpu = Path::new("/dev/nvidia0").exists();
        if has_gpu { program } else { program.env("LD_LIBRARY_PATH", &late) }.run()?;
        let report = Step::program(&keeptime).arg("report").arg(&trace).args(["-q", "--html"]);
        let sentence = report.arg(&page).said()?;
        Ok(Launches { sentence: sentence.trim().to_owned(), page })
    }
}

/// The head of the page. Each page in it is as high as its content is, so that only the whole scrolls.
const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>Keeptime: demo</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1rem 0 }
h1, h2, p, ol { margin: 1rem; overflow-wrap: anywhere }
iframe { display: block; width: 100%; height: 80vh; border: 0 }
</style>
<script>
document.addEventListener('load', ({ target }) => {
  const inside = target.contentDocument?.documentElement;
  if (!inside) return;
  const fit = () => { target.style.height = `${Math.ceil(inside.getBoundingClientRect().height)}px`; };
  new ResizeObserver(fit).observe(inside);
  fit();
}, true);
</script>
<h1>Keeptime: demo</h1>
";

/// Page with several in it, each as it is, below a list of their conclusions.
fn one_page(sections: &[(&str, &str, &PathBuf)]) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned() + "<ol>\n";
    for (number, (title, sentence, _)) in (1..).zip(sections) {
        let sentence = escaped(sentence);
        page += &format!("<li><a href=\"#part{number}\">{title}</a><br>{sentence}</li>\n");
    }
    page += "</ol>\n";
    for (number, (title, _, path)) in (1..).zip(sections) {
        let inside = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let inside = escaped(&inside);
        page += &format!("<h2 id=\"part{number}\">{title}</h2>\n");
        page += &format!("<iframe title=\"{title}\" srcdoc=\"{inside}\"></iframe>\n");
    }
    Ok(page + "</html>\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}
