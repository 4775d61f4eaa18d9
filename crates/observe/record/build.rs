//! Turns `cuda-entry-points.tsv` into the table of CUDA's functions.

use std::fmt::Write;

fn main() {
    println!("cargo::rerun-if-changed=cuda-entry-points.tsv");
    let table = std::fs::read_to_string("cuda-entry-points.tsv").expect("the table is here");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().expect("a heading").split('\t').collect();
    assert_eq!(&head[..5], ["category", "base", "requested_version", "suffix", "symbol"]);
    let mut out = String::from("&[\n");
    for line in lines {
        let [category, base, version, _, symbol] = line.split('\t').collect::<Vec<_>>()[..5] else {
            panic!("cuda-entry-points.tsv: five columns are missing in {line:?}");
        };
        let category: String = category.split('-').map(capitalised).collect();
        writeln!(
            out,
            "Function {{ symbol: \"{symbol}\", base: \"{base}\", version: {version}, \
             category: Category::{category} }},"
        )
        .expect("a string takes everything");
    }
    out.push(']');
    let folder = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(format!("{folder}/functions.rs"), out).expect("the folder can be written");
}

fn capitalised(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}
