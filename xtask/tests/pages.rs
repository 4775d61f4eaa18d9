//! Tasks and their options that the documentation names: each is there.

use testing::command_line::Program;
use testing::page::pages;

#[test]
fn tasks_and_options_of_the_pages_exist() {
    let program = Program::ask("xtask", env!("CARGO_BIN_EXE_xtask").as_ref());
    let unknown: Vec<String> = pages().iter().flat_map(|page| program.unknown(page)).collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}
