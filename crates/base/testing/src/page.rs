//! Pages of the documentation: their commands, the outputs that they promise, and their code spans.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Reasons not to run a block of commands, as words behind `sh`.
const MARKS: [(&str, &str); 8] = [
    ("build", "builds Keeptime or a part of it: CI runs these tasks themselves"),
    ("gpu", "needs a GPU"),
    ("hardware", "needs performance counters: `cargo xtask soak` runs it"),
    ("hosts", "needs several machines"),
    ("long", "takes minutes or hours: `cargo xtask soak` runs it"),
    ("network", "needs a network, or a program of others from there"),
    ("ros", "needs ROS 2"),
    ("root", "needs root"),
];
/// A command that runs until a signal ends it: it gets one when it has printed something.
const SERVICE: &str = "service";
/// Commands for which `keeptime serve examples/server.yaml` runs in another terminal.
const SERVED: &str = "served";
/// A command whose answer depends on the machine: yes and no (exit status 1) are both right.
const MEASURES: &str = "measures";
/// First words of lines that are commands, also in a block without a language.
const COMMANDS: [&str; 9] =
    ["apt-get", "c++", "cargo", "cc", "keeptime", "keeptime-lab", "make", "ros2", "sudo"];

/// A block of commands, and the output that the page promises.
pub struct Block {
    /// Line of its first command.
    pub line: usize,
    /// Its commands, one on a line.
    pub commands: String,
    /// The `text` block behind it.
    pub output: Option<String>,
    /// Reasons not to run it.
    pub marks: BTreeSet<String>,
    /// True for a command that runs until a signal ends it.
    pub service: bool,
    /// True for commands for which a server runs.
    pub served: bool,
    /// True for a command that may end with 1.
    pub measures: bool,
}

/// A heading, and everything up to the next one.
pub struct Section {
    /// Text of the heading.
    pub title: String,
    /// Text below it, without code blocks.
    pub text: String,
    /// Its blocks of commands.
    pub commands: Vec<String>,
}

/// A page in Markdown.
pub struct Page {
    /// Its file, from the root of the repository.
    pub name: String,
    /// Its blocks of commands.
    pub blocks: Vec<Block>,
    /// Its headings with their texts.
    pub sections: Vec<Section>,
    /// Code within sentences, with its line.
    pub spans: Vec<(usize, String)>,
    /// Blocks that no test could run or compare, with the line.
    faults: Vec<(usize, String)>,
}

/// Root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository")
}

/// Pages that a user reads: the README, `docs`, and the READMEs that they link to.
///
/// # Panics
/// If there are fewer than there were once.
pub fn pages() -> Vec<Page> {
    let mut names: Vec<String> =
        ["README.md", "CONTRIBUTING.md", "crates/ros/keeptime_ros/README.md"]
            .map(str::to_owned)
            .into();
    names.extend(entries("docs").into_iter().filter(|name| name.ends_with(".md")));
    names.extend(entries("examples").into_iter().map(|name| format!("{name}/README.md")));
    names.retain(|name| repository().join(name).is_file());
    names.sort();
    assert!(names.len() > 45, "{} pages: {names:?}", names.len());
    names.iter().map(|name| Page::read(name)).collect()
}

/// Paths of the entries of a folder, from the root of the repository.
fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(repository().join(folder)).expect("a folder of pages");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    entries.map(|entry| format!("{folder}/{}", name(entry).to_string_lossy())).collect()
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// If it is not there.
    pub fn read(name: &str) -> Page {
        let text = fs::read_to_string(repository().join(name));
        Page::parse(name, &text.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    fn parse(name: &str, text: &str) -> Page {
        let mut page = Page {
            name: name.to_owned(),
            blocks: Vec::new(),
            sections: Vec::new(),
            spans: Vec::new(),
            faults: Vec::new(),
        };
        let mut code: Option<(usize, String, String)> = None;
        let mut heading = false;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    code = Some((line, info.to_string(), String::new()));
                }
                Event::End(TagEnd::CodeBlock) => {
                    if let Some((line, info, text)) = code.take() {
                        page.take_block(line, &info, text);
                    }
                }
                Event::Start(Tag::Heading { .. }) => {
                    heading = true;
                    page.sections.push(Section {
                        title: String::new(),
                        text: String::new(),
                        commands: Vec::new(),
                    });
                }
                Event::End(TagEnd::Heading(_)) => heading = false,
                Event::Text(words) => match &mut code {
                    Some((_, _, text)) => text.push_str(&words),
                    None => page.take_words(&words, heading),
                },
                Event::Code(words) => {
                    page.take_words(&words, heading);
                    page.spans.push((line, words.to_string()));
                }
                Event::SoftBreak | Event::End(_) => page.take_words("\n", false),
                _ => {}
            }
        }
        page
    }

    /// Blocks that no test could run or compare: commands that are not `sh`, unknown marks.
    pub fn mistakes(&self) -> Vec<String> {
        let name = &self.name;
        self.faults.iter().map(|(line, fault)| format!("{name}:{line}: {fault}")).collect()
    }

    /// Returns true if it has commands of `keeptime-lab`.
    pub fn is_of_the_laboratory(&self) -> bool {
        self.blocks.iter().any(|block| block.commands.contains("keeptime-lab"))
    }

    /// Returns true if it has blocks that only `cargo xtask soak` runs.
    pub fn needs_patience(&self) -> bool {
        let waits = |mark| self.blocks.iter().any(|block| block.marks.contains(mark));
        waits("long") || waits("hardware")
    }

    fn fault(&mut self, line: usize, fault: &str) {
        self.faults.push((line, fault.to_owned()));
    }

    fn take_words(&mut self, words: &str, heading: bool) {
        if let Some(section) = self.sections.last_mut() {
            let text = if heading { &mut section.title } else { &mut section.text };
            text.push_str(words);
        }
    }

    /// Takes a code block by its info string.
    fn take_block(&mut self, line: usize, info: &str, text: String) {
        let mut words = info.split_whitespace();
        match (words.next(), words.next()) {
            (Some("sh"), mark) => self.take_commands(line, mark.into_iter().chain(words), text),
            (Some("text"), None) => match self.blocks.last_mut() {
                Some(block) if block.output.is_none() && block.marks.is_empty() => {
                    block.output = Some(text);
                }
                _ => self.fault(
                    line,
                    "an output of no commands that a test runs, which is `text example`",
                ),
            },
            // Its options are checked as those of a sentence.
            (Some("text"), Some("synopsis")) => {
                let plain = text.replace("\n ", " ").replace(['[', ']', '|'], " ");
                self.spans.extend(plain.lines().map(|command| (line, command.to_owned())));
            }
            (Some("bash" | "console" | "shell"), _) => {
                self.fault(line, "a block of commands that is not `sh`");
            }
            (None, _) if text.lines().any(|line| COMMANDS.iter().any(|c| begins(line, c))) => {
                self.fault(line, "commands in a block that is not `sh`");
            }
            _ => {}
        }
    }

    fn take_commands<'a>(
        &mut self,
        line: usize,
        words: impl Iterator<Item = &'a str>,
        commands: String,
    ) {
        let marks = BTreeSet::new();
        let (service, served, measures) = (false, false, false);
        let mut block = Block { line, commands, output: None, marks, service, served, measures };
        for word in words {
            block.service |= word == SERVICE;
            block.measures |= word == MEASURES;
            block.served |= word == SERVED;
            if word == SERVED {
                continue;
            }
            if word == SERVICE || word == MEASURES {
                // A status of several commands would be that of the last one.
                let count = block.commands.replace("\\\n", "").lines().count();
                if count > 1 {
                    self.fault(line, &format!("{count} commands in a block {word:?}, expected 1"));
                }
            } else if MARKS.iter().any(|(mark, _)| *mark == word) {
                block.marks.insert(word.to_owned());
            } else {
                let known = MARKS.map(|(mark, _)| mark).join(", ");
                self.fault(
                    line,
                    &format!(
                        "unknown mark {word:?}; known: {SERVICE}, {SERVED}, {MEASURES}, {known}"
                    ),
                );
            }
        }
        if let Some(section) = self.sections.last_mut() {
            section.commands.push(block.commands.clone());
        }
        self.blocks.push(block);
    }
}

fn begins(line: &str, command: &str) -> bool {
    line.split_whitespace().next() == Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_commands_outputs_spans_and_mistakes() {
        let text = "# `a` b\n\nRun `keeptime run`.\n\n```sh measures\nkeeptime run\n```\n\n\
                    ```text\none\n```\n```text\ntwo\n```\n```sh root long\nls\n```\n\
                    ```text\nthree\n```\n```sh soon\nls\n```\n```\ncargo build\n```\n\
                    ```sh service\na\nb\n```\n\
                    ```text synopsis\nk [-a x|y]\n  [--b]\nl\n```\n";
        let page = Page::parse("p.md", text);
        let [first, second, ..] = &page.blocks[..] else { panic!("{}", page.blocks.len()) };
        assert_eq!((first.line, first.measures), (5, true));
        assert_eq!(first.commands, "keeptime run\n");
        assert_eq!(first.output.as_deref(), Some("one\n"));
        assert_eq!(second.marks.iter().collect::<Vec<_>>(), ["long", "root"]);
        assert_eq!(second.output, None);
        assert_eq!(page.spans[1], (3, "keeptime run".to_owned()));
        let synopsis: Vec<&str> = page.spans[2..].iter().map(|(_, span)| span.trim()).collect();
        assert_eq!(synopsis, ["k  -a x y    --b", "l"]);
        assert_eq!(page.sections[0].title, "a b");
        assert_eq!(page.sections[0].commands.len(), 4);
        let mistakes = page.mistakes();
        let expected = [
            "p.md:12: an output of no commands",
            "p.md:18: an output of no commands",
            "p.md:21: unknown mark \"soon\"",
            "p.md:24: commands in a block that is not `sh`",
            "p.md:27: 2 commands in a block \"service\", expected 1",
        ];
        assert_eq!(mistakes.len(), expected.len(), "{mistakes:?}");
        for (mistake, expected) in mistakes.iter().zip(expected) {
            assert!(mistake.starts_with(expected), "{mistake}: {expected}");
        }
    }
}
