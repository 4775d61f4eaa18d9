//! The diagnosis as text: a group for each part, a line for each check, and under each check that
//! is not ok its consequence and the way to mend it.

use std::collections::BTreeSet;

use anstyle::Style;
use terminal::page::{BAD, FAINT, GOOD, HEAD, PLAIN, Page, WARN};

use crate::{Check, Diagnosis, Group, State, Verdict};

const MOST_WIDTH: usize = 100;
/// Columns of text that does not go to a terminal.
const WIDTH: usize = 80;
/// Column of a check's name: two blanks, the longest state, two blanks.
const NAME: usize = 11;
/// Column of what was found: the longest name and two blanks later.
const FOUND: usize = NAME + 20;

impl State {
    fn word(self) -> (&'static str, Style) {
        match self {
            State::Ok => ("ok", GOOD),
            State::Limited => ("limited", WARN),
            State::Missing => ("missing", BAD),
        }
    }
}

/// The whole text, for standard output.
pub(crate) fn text(diagnosis: &Diagnosis) -> String {
    render(diagnosis, width())
}

fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| size.ws_col.into());
    columns.ok().filter(|columns| *columns > 0).unwrap_or(WIDTH).min(MOST_WIDTH)
}

fn render(diagnosis: &Diagnosis, width: usize) -> String {
    let mut page = Page::new(width, true);
    let machine = &diagnosis.machine;
    let plural = if machine.cores == 1 { "" } else { "s" };
    let heading =
        format!("Linux {}, {}, {} core{plural}", machine.kernel, machine.core_model, machine.cores);
    page.paragraph(FAINT, &heading, 0, 0);
    let mut mended = BTreeSet::new();
    for group in &diagnosis.parts {
        page.heading(group.title);
        group.checks.iter().for_each(|check| row(&mut page, check, &mut mended));
        verdict(&mut page, group);
    }
    if mended.iter().any(|mend| mend.contains("prlimit")) {
        page.end();
        let note = "prlimit changes this shell and what it starts. For later logins, add the lines \
                    'USER - rtprio 99' and 'USER - memlock unlimited' to \
                    /etc/security/limits.conf; for a systemd unit, set LimitRTPRIO=99 and \
                    LimitMEMLOCK=infinity.";
        page.paragraph(PLAIN, note, 0, 0);
    }
    page.finish()
}

/// A check. What mends it is printed once: several parts may need it.
fn row<'a>(page: &mut Page, check: &'a Check, mended: &mut BTreeSet<&'a str>) {
    let (word, style) = check.state.word();
    page.paint(PLAIN, "  ");
    page.paint(style, word);
    let gap = " ".repeat(NAME - 2 - word.len());
    page.paint(PLAIN, &format!("{gap}{:<1$}", check.name, FOUND - NAME));
    page.wrapped(PLAIN, &check.found, FOUND, FOUND);
    if let Some(consequence) = check.consequence.as_deref().filter(|text| !text.is_empty()) {
        page.paragraph(FAINT, consequence, NAME, NAME);
    }
    if let Some(mend) = &check.mend {
        let is_new = mended.insert(mend);
        page.paint(HEAD, &format!("{:NAME$}Mend: ", ""));
        page.wrapped(PLAIN, if is_new { mend } else { "as above" }, NAME + 6, NAME + 6);
    }
}

fn verdict(page: &mut Page, group: &Group) {
    let because = group.because.join(", ");
    let (style, words) = match group.verdict {
        Verdict::Works => (GOOD, "Works.".into()),
        Verdict::Limited => (WARN, format!("Works with limits: {because}.")),
        Verdict::Cannot => (BAD, format!("Cannot work: {because}.")),
    };
    page.paragraph(style, &words, 2, 4);
}
