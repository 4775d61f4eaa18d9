//! The diagnosis as text for people: one row for each check, wrapped to the terminal, in colour
//! only where the output is a terminal that wants it.

use std::fmt::Write as _;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};

use super::{Diagnosis, State};

const MAX_WIDTH: usize = 100;
const PLAIN_WIDTH: usize = 96;
/// "  limited  ": two blanks, the longest state, two blanks.
const STATE_WIDTH: usize = 7;

const HEADING: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
            State::Unknown => "unknown",
        }
    }

    fn style(self) -> Style {
        let colour = match self {
            State::Ok => AnsiColor::Green,
            State::Limited => AnsiColor::Yellow,
            State::Missing => AnsiColor::Red,
            State::Unknown => AnsiColor::Magenta,
        };
        colour.on_default().bold()
    }
}

/// Prints the diagnosis to standard output.
pub(super) fn print(diagnosis: &Diagnosis) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(render(diagnosis, terminal_width()).as_bytes())?;
    out.flush()
}

fn terminal_width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| size.ws_col.into());
    match columns {
        Ok(columns @ 40..) => MAX_WIDTH.min(columns),
        _ => PLAIN_WIDTH,
    }
}

fn render(diagnosis: &Diagnosis, width: usize) -> String {
    let mut text = String::new();
    let machine = &diagnosis.machine;
    let plural = if machine.cores == 1 { "" } else { "s" };
    let heading =
        format!("Linux {}, {}, {} core{plural}", machine.kernel, machine.core_model, machine.cores);
    line(&mut text, HEADING, &heading);
    text.push('\n');

    let checks = diagnosis.checks.iter().map(|check| check.name.chars().count());
    let devices = diagnosis.devices.iter().map(|device| device.name.chars().count());
    let names = checks.chain(devices).max().unwrap_or(0);
    let column = Column { start: 2 + STATE_WIDTH + 2 + names + 2, width };
    for check in &diagnosis.checks {
        row(&mut text, check.state.style(), check.state.word(), check.name, names);
        column.fill(&mut text, Style::new(), "", &check.found, true);
        column.fill(&mut text, FAINT, "", &check.means, false);
        if let Some(grant) = &check.grant {
            column.fill(&mut text, Style::new(), "Grant: ", grant, false);
        }
    }

    text.push('\n');
    line(&mut text, HEADING, "Devices");
    for device in &diagnosis.devices {
        row(&mut text, State::Ok.style(), "found", &device.name, names);
        column.fill(&mut text, Style::new(), "", &device.found, true);
    }
    text.push('\n');
    summary(&mut text, diagnosis);
    text
}

fn summary(text: &mut String, diagnosis: &Diagnosis) {
    let missing: Vec<_> = diagnosis.missing().map(|check| check.name).collect();
    let limited = diagnosis.checks.iter().filter(|check| check.state == State::Limited).count();
    let limits = match limited {
        0 => String::new(),
        1 => " One limit is named above.".into(),
        count => format!(" {count} limits are named above."),
    };
    if missing.is_empty() {
        let sentence = format!("Nothing that Keeptime needs is missing.{limits}");
        line(text, State::Ok.style(), &sentence);
    } else {
        let sentence = format!("Missing: {}.{limits}", missing.join(", "));
        line(text, State::Missing.style(), &sentence);
    }
}

fn line(text: &mut String, style: Style, words: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{style}{words}{style:#}");
}

fn row(text: &mut String, style: Style, state: &str, name: &str, names: usize) {
    let _ = write!(text, "  {style}{state:<STATE_WIDTH$}{style:#}  {name:<names$}  ");
}

/// The right-hand column, into which sentences are wrapped.
struct Column {
    start: usize,
    width: usize,
}

impl Column {
    /// Adds `label` and `words`, wrapped; `begun` is whether the first line stands at the column.
    fn fill(&self, text: &mut String, style: Style, label: &str, words: &str, begun: bool) {
        let room = self.width.saturating_sub(self.start).max(20);
        let bold = if label.is_empty() { Style::new() } else { HEADING };
        for (index, part) in wrap(words, room - label.len()).iter().enumerate() {
            if index > 0 || !begun {
                let _ = write!(text, "{:1$}", "", self.start);
            }
            if index == 0 {
                let _ = write!(text, "{bold}{label}{bold:#}");
            } else {
                let _ = write!(text, "{:1$}", "", label.len());
            }
            line(text, style, part);
        }
    }
}

/// Breaks `words` at blanks into lines of at most `room` characters, and where they have line
/// breaks; a longer word has a line of its own.
fn wrap(words: &str, room: usize) -> Vec<String> {
    words.lines().flat_map(|line| wrap_line(line, room)).collect()
}

fn wrap_line(words: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let current = lines.last_mut().expect("there is always a line");
        if current.is_empty() {
            current.push_str(word);
        } else if current.chars().count() + 1 + word.chars().count() <= room {
            current.push(' ');
            current.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::{Check, FoundDevice, Machine};
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_long_words_stand_alone() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a /a/very/long/path b", 8), ["a", "/a/very/long/path", "b"]);
        assert_eq!(wrap("as root:\nsysctl a=b", 40), ["as root:", "sysctl a=b"]);
    }

    #[test]
    fn a_missing_check_is_aligned_wrapped_and_named_at_the_end() {
        let diagnosis = Diagnosis {
            machine: Machine { kernel: "6.1".into(), core_model: "A core".into(), cores: 1 },
            checks: vec![Check {
                name: "priority",
                state: State::Missing,
                found: "refused".into(),
                means: "Any ordinary thread can delay it.".into(),
                grant: Some("raise the limit to 99".into()),
            }],
            devices: vec![FoundDevice { name: "software".into(), found: "two units".into() }],
        };
        let plain = anstream::adapter::strip_str(&render(&diagnosis, 48)).to_string();
        assert_eq!(
            plain,
            "\
Linux 6.1, A core, 1 core

  missing  priority  refused
                     Any ordinary thread can
                     delay it.
                     Grant: raise the limit to
                            99

Devices
  found    software  two units

Missing: priority.
"
        );
    }
}
