//! The commands of the documentation: they run as they are written, and each subcommand and option
//! of `keeptime` that a page names is there. The test of this name in the laboratory runs the pages
//! with its own commands.

use testing::command_line::Program;
use testing::page::{Page, pages};
use testing::stage::Stage;

const PROGRAM: &str = env!("CARGO_BIN_EXE_keeptime");
/// Page with a section for each subcommand.
const COMMANDS: &str = "docs/commands.md";

fn stage() -> Stage {
    Stage::new(vec![("keeptime", PROGRAM.into())])
}

/// A test for each tutorial, and the list of their pages.
macro_rules! tutorials {
    ($($name:ident: $page:literal,)*) => {
        const TUTORIALS: &[&str] = &[$($page),*];
        $(#[test]
        fn $name() {
            stage().run(&Page::read($page)).unwrap_or_else(|error| panic!("{error}"));
        })*
    };
}

tutorials! {
    bound_of_a_robot_is_found_and_mended: "docs/tutorial-prove.md",
    change_begins_with_a_test_that_can_fail: "docs/tutorial-work.md",
    late_launch_is_explained_and_mended: "docs/tutorial-late.md",
    remote_requests_are_served_by_priority: "docs/tutorial-ros.md",
    urgent_program_goes_first_and_a_late_one_is_refused: "docs/tutorial-share.md",
}

/// Runs pages without commands of the laboratory, and lists all failures.
fn run_all(stage: &Stage, is_chosen: impl Fn(&Page) -> bool) {
    let mut pages = pages();
    pages.retain(|page| !page.is_of_the_laboratory() && is_chosen(page));
    let failures: Vec<String> = pages.iter().filter_map(|page| stage.run(page).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn commands_of_the_other_pages_run_as_they_are_written() {
    run_all(&stage(), |page| !TUTORIALS.contains(&page.name.as_str()));
}

#[test]
fn commands_and_options_of_the_pages_exist() {
    let program = Program::ask("keeptime", PROGRAM.as_ref());
    let unknown: Vec<String> = pages().iter().flat_map(|page| program.unknown(page)).collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn every_subcommand_has_a_section() {
    let program = Program::ask("keeptime", PROGRAM.as_ref());
    let faults = program.undescribed(&Page::read(COMMANDS));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pages_mark_each_block_that_a_test_does_not_run() {
    let mistakes: Vec<String> = pages().iter().flat_map(Page::mistakes).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Commands that count with hardware, and measure: `cargo xtask soak` runs them.
mod soak {
    use super::*;

    #[test]
    #[ignore = "needs performance counters"]
    fn commands_that_count_with_hardware_run_as_they_are_written() {
        let mut stage = stage();
        stage.patient = true;
        run_all(&stage, Page::needs_patience);
    }
}
