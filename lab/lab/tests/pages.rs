//! The commands of the documentation: pages with commands of `keeptime-lab` run as they are written,
//! and each of its subcommands and options that a page names is there.

use testing::command_line::{Program, is_option};
use testing::page::{Page, pages};
use testing::stage::Stage;

const PROGRAM: &str = env!("CARGO_BIN_EXE_keeptime-lab");
/// Page with a section for each subcommand.
const COMMANDS: &str = "docs/commands-laboratory.md";
/// Page that the test of its own runs.
const TUTORIAL: &str = "docs/tutorial-paper.md";

fn stage() -> Stage {
    let programs = vec![("keeptime", testing::keeptime()), ("keeptime-lab", PROGRAM.into())];
    Stage::new(programs)
}

/// Runs pages with commands of the laboratory, and lists all failures.
fn run_all(stage: &Stage, is_chosen: impl Fn(&Page) -> bool) {
    let mut pages = pages();
    pages.retain(|page| page.is_of_the_laboratory() && is_chosen(page));
    let failures: Vec<String> = pages.iter().filter_map(|page| stage.run(page).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn figure_of_a_paper_is_repeated() {
    stage().run(&Page::read(TUTORIAL)).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn commands_of_the_other_pages_run_as_they_are_written() {
    run_all(&stage(), |page| page.name != TUTORIAL);
}

#[test]
fn commands_and_options_of_the_pages_exist() {
    let laboratory = Program::ask("keeptime-lab", PROGRAM.as_ref());
    let unknown: Vec<String> = pages().iter().flat_map(|page| laboratory.unknown(page)).collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn options_that_stand_alone_belong_to_one_of_the_programs() {
    let laboratory = Program::ask("keeptime-lab", PROGRAM.as_ref());
    let tool = Program::ask("keeptime", &testing::keeptime());
    let known = &laboratory.options() | &tool.options();
    let mut unknown = Vec::new();
    // Examples are programs with options of their own.
    for page in pages().iter().filter(|page| !page.name.starts_with("examples/")) {
        for (line, span) in &page.spans {
            let option = span.split([' ', '=']).next().unwrap_or_default();
            if is_option(option) && !known.contains(option) {
                unknown.push(format!("{}:{line}: {option}", page.name));
            }
        }
    }
    assert!(unknown.is_empty(), "neither program has these:\n{}", unknown.join("\n"));
}

#[test]
fn every_subcommand_has_a_section() {
    let program = Program::ask("keeptime-lab", PROGRAM.as_ref());
    let faults = program.undescribed(&Page::read(COMMANDS));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Commands that take minutes, and measure: `cargo xtask soak` runs them.
mod soak {
    use super::*;

    #[test]
    #[ignore = "takes an hour"]
    fn commands_that_take_minutes_run_as_they_are_written() {
        let mut stage = stage();
        stage.patient = true;
        run_all(&stage, Page::needs_patience);
    }
}
