//! Command lines in texts, checked against the programs' own help: each subcommand and each option
//! that a page names is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::page::{Page, Section};

/// A program, or one of its subcommands.
#[derive(Default)]
struct Node {
    options: BTreeSet<String>,
    commands: BTreeMap<String, Node>,
    /// True if it does nothing without a subcommand.
    needs_command: bool,
}

/// The command line of a program, as its help describes it.
pub struct Program {
    name: String,
    root: Node,
}

impl Program {
    /// Asks a program for its help, and that of all its subcommands.
    ///
    /// # Panics
    /// If it does not start.
    pub fn ask(name: &str, path: &Path) -> Program {
        Program { name: name.to_owned(), root: node(path, &[]) }
    }

    /// Its subcommands and theirs, as they are typed.
    pub fn commands(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        collect(&self.root, &self.name, &mut all);
        all
    }

    /// Options of the program and of all its subcommands.
    pub fn options(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut nodes = vec![&self.root];
        while let Some(node) = nodes.pop() {
            all.extend(node.options.iter().cloned());
            nodes.extend(node.commands.values());
        }
        all
    }

    /// Subcommands without a section on the page that describes them, or with one that lacks
    /// something; sections of commands that are not there.
    pub fn undescribed(&self, page: &Page) -> Vec<String> {
        let commands = self.commands();
        let mut faults = Vec::new();
        for command in &commands {
            match page.sections.iter().find(|section| section.title == *command) {
                Some(section) => faults.extend(missing(command, section)),
                None => faults.push(format!("{}: no section {command:?}", page.name)),
            }
        }
        let titles = page.sections.iter().map(|section| &section.title);
        let strange =
            titles.filter(|title| title.starts_with("keeptime") && !commands.contains(*title));
        faults.extend(strange.map(|title| format!("{}: no command {title:?}", page.name)));
        faults
    }

    /// Unknown subcommands and options of this program in the blocks and spans of a page.
    pub fn unknown(&self, page: &Page) -> Vec<String> {
        let blocks = page.blocks.iter().map(|block| (block.line, &block.commands));
        let spans = page.spans.iter().map(|(line, text)| (*line, text));
        let mut unknown = Vec::new();
        for (line, text) in blocks.chain(spans) {
            for words in lines(text) {
                for mistake in self.check(&words) {
                    unknown.push(format!("{}:{line}: `{}`: {mistake}", page.name, words.join(" ")));
                }
            }
        }
        unknown
    }

    /// Mistakes of one command line. The program may stand behind another one in it.
    fn check(&self, words: &[String]) -> Vec<String> {
        let begins = words.iter().enumerate().filter(|(at, word)| {
            // A package of cargo may have the name of its program.
            let is_package = *at > 0 && matches!(words[at - 1].as_str(), "-p" | "--bin");
            **word == self.name && !is_package
        });
        begins.filter_map(|(at, _)| self.mistake(&words[at + 1..])).collect()
    }

    fn mistake(&self, words: &[String]) -> Option<String> {
        let mut path = self.name.clone();
        let mut nodes = vec![&self.root];
        let mut after_option = false;
        for word in words.iter().take_while(|word| *word != "--") {
            let node = nodes[nodes.len() - 1];
            let value = std::mem::take(&mut after_option);
            let option = word.split('=').next().unwrap_or(word);
            if let Some(next) = node.commands.get(word) {
                nodes.push(next);
                path = format!("{path} {word}");
            } else if is_option(option) {
                if !nodes.iter().any(|node| node.options.contains(option)) {
                    return Some(format!("{path} has no option {option}"));
                }
                after_option = true;
            } else if node.needs_command && !value {
                // A placeholder (`COMMAND`) stands for any of them.
                return is_name(word).then(|| format!("{path} has no command {word}"));
            }
        }
        None
    }
}

/// Parts that a command's section lacks: a command line, and lines on time, privileges and status.
fn missing(command: &str, section: &Section) -> Vec<String> {
    let mut faults = Vec::new();
    let is_named = |words: Vec<String>| {
        let mut words = words.iter();
        command.split(' ').all(|part| words.any(|word| word == part))
    };
    if !section.commands.iter().flat_map(|text| lines(text)).any(is_named) {
        faults.push(format!("{command}: its section has no command line of it"));
    }
    for part in ["Time:", "Privileges:", "Exit status:"] {
        if !section.text.contains(part) {
            faults.push(format!("{command}: its section has no line {part:?}"));
        }
    }
    faults
}

fn collect(node: &Node, name: &str, all: &mut BTreeSet<String>) {
    for (word, next) in &node.commands {
        let name = format!("{name} {word}");
        collect(next, &name, all);
        all.insert(name);
    }
}

fn node(program: &Path, commands: &[String]) -> Node {
    let output = Command::new(program).args(commands).arg("--help").output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let help = String::from_utf8(output.stdout).expect("a help in UTF-8");
    let mut node = Node::default();
    let mut in_commands = false;
    for line in help.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut words = line.split_whitespace();
        if line.starts_with("Usage:") {
            node.needs_command = line.contains("<COMMAND>");
        } else if indent == 0 {
            in_commands = line.starts_with("Commands:") || in_commands && line.is_empty();
        } else if in_commands && indent == 2 {
            let word = words.next().unwrap_or_default().to_owned();
            if word != "help" {
                node.commands
                    .insert(word.clone(), self::node(program, &[commands, &[word]].concat()));
            }
        } else if indent <= 6 {
            let options = words.map(|word| word.trim_end_matches(',')).take_while(|w| is_option(w));
            node.options.extend(options.map(|word| word.trim_end_matches("...").to_owned()));
        }
    }
    node
}

/// Returns true for `-q` and `--quiet`.
pub fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or("");
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && (word.starts_with("--") || name.len() == 1)
}

/// Returns false for a placeholder (`COMMAND`) and for punctuation.
fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// The words of each command of a text: without comments, documents in it, and quotes.
fn lines(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut document: Option<String> = None;
    for line in text.replace("\\\n", " ").lines() {
        if let Some(end) = &document {
            if line == end {
                document = None;
            }
            continue;
        }
        let line = line.strip_prefix('#').map_or(line, |_| "");
        let line = line.split(" #").next().unwrap_or(line);
        if let Some((_, end)) = line.split_once("<<") {
            document = Some(end.trim_matches(['\'', '"', '-', ' ']).to_owned());
        }
        let plain: String = line.chars().filter(|c| !matches!(c, '\'' | '"')).collect();
        for command in plain.split([';', '|', '&', '(', ')', '>']) {
            commands.push(command.split_whitespace().map(str::to_owned).collect());
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        let options = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut remote = Node { options: options(&["--server"]), ..Node::default() };
        remote.commands.insert("list".to_owned(), Node::default());
        let run = Node { options: options(&["--guard", "-q"]), ..Node::default() };
        let mut root = Node { needs_command: true, ..Node::default() };
        root.commands = BTreeMap::from([("run".to_owned(), run), ("remote".to_owned(), remote)]);
        Program { name: "keeptime".to_owned(), root }
    }

    fn mistakes(text: &str) -> Vec<String> {
        lines(text).iter().flat_map(|words| program().check(words)).collect()
    }

    #[test]
    fn known_options_pass_also_in_nested_commands() {
        for text in [
            "keeptime run --guard=fair -q -- ./program --camera 0",
            "sudo keeptime remote --server /robot/keeptime list",
            "keeptime COMMAND --guard # keeptime run --comment",
            "cat > f <<'E'\nkeeptime run --no\nE\nkeeptime run \\\n  -q",
        ] {
            assert_eq!(mistakes(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn unknown_options_and_commands_are_named() {
        for (text, expected) in [
            ("keeptime run -q --gaurd fair", "keeptime run has no option --gaurd"),
            ("a && keeptime walk", "keeptime has no command walk"),
            ("keeptime run -- keeptime remote list --peer x", "keeptime remote list has no option"),
        ] {
            let found = mistakes(text);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{text}: {found:?}");
        }
    }
}
