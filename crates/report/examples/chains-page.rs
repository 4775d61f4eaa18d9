//! Writes the page, the table and the JSON of a made-up result:
//! `cargo run -p keeptime-report --example chains-page -- FOLDER`

#[path = "../tests/sample/mod.rs"]
mod sample;

use report::chains;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    let run = sample::sample();
    let document = chains::document(&run);
    std::fs::write(folder.join("chains-report.html"), document.html()?)?;
    std::fs::write(folder.join("chains-report.json"), format!("{:#}\n", chains::json(&run)))?;
    print!("{}", document.text(100, false));
    Ok(())
}
