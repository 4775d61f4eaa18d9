//! The time around each of the worst calls, to look at: who ran, who called what, who waited for
//! which lock, and who had it.
//!
//! [`section`] is a part of the page: a drawing that can be zoomed, searched and followed from a
//! wait to the holder of the lock. Everything in it is in the page: the script and the style beside
//! this file, and the data, of which so much is kept for each call at most ([`window`]).
//!
//! Threads are read once for all calls, as calls, waits and holds ([`timeline_thread`]); the scheduler's
//! records are read around each call ([`timeline_processor`]). [`arrow`] finds the thread that let another
//! in, [`data`] and [`list`] make lists of numbers of it all.

mod arrow;
mod data;
mod list;
mod timeline_cause;
mod timeline_processor;
mod timeline_thread;
mod window;

use crate::Error;
use data::Data;
use late::{Explained, Group, Survey};
use std::cmp::Reverse;
use trace::Trace;
use window::Window;

/// Options of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The calls, as their places in [`Survey::worst`], in the order in which they are offered;
    /// none: the worst of each group, launches first.
    pub calls: Vec<u32>,
    /// Most calls.
    pub most_calls: usize,
    /// Most things of each kind that are kept for one call.
    pub items: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { calls: Vec::new(), most_calls: 10, items: 2500 }
    }
}

/// A part of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// One `section` element, with its style and its script. It uses the colours of the page.
    pub html: String,
    /// Number of calls that it shows.
    pub calls: usize,
}

const STYLE: &str = include_str!("timeline/timeline.css");
/// The parts of the script, which share one scope.
const SCRIPT: &str = concat!(
    include_str!("timeline/model.js"),
    include_str!("timeline/draw.js"),
    include_str!("timeline/act.js")
);
const BODY: &str = include_str!("timeline/timeline.html");

/// The timeline of the worst calls. `explained` says what they spent their time with; those that
/// it does not tell of are shown without.
///
/// # Errors
/// [`Error::Trace`] when the trace cannot be read.
pub fn section(
    trace: &Trace,
    survey: &Survey,
    explained: &[Explained],
    options: &Options,
) -> Result<Section, Error> {
    let mut calls = if options.calls.is_empty() { worst(survey) } else { options.calls.clone() };
    calls.truncate(options.most_calls);
    let around = |call: &u32| Window::around(trace, survey, *call, options.items);
    let mut windows: Vec<Window> = calls.iter().filter_map(around).collect();
    timeline_thread::read(trace, &mut windows)?;
    let calls = windows.len();
    let mut data = Data::new(trace, survey, options);
    let windows: Result<Vec<_>, Error> =
        windows.into_iter().map(|window| data.window(window, explained)).collect();
    let data = data.finish(windows?).to_string();
    let html = BODY
        .replace("{style}", STYLE)
        .replace("{script}", SCRIPT)
        .replace("{data}", &inside_script(&data));
    Ok(Section { html, calls })
}

/// The worst calls: those of each group in turn, launches first, the latest first.
fn worst(survey: &Survey) -> Vec<u32> {
    let latest_first = |group: Group| {
        let is = |(_, call): &(u32, &late::result::WorstCall)| {
            survey.kinds[call.kind as usize].group == group
        };
        let mut calls: Vec<_> = (0..).zip(&survey.worst).filter(is).collect();
        calls.sort_by_key(|(_, call)| Reverse(call.lateness_ns));
        calls.into_iter().map(|(place, _)| place).collect::<Vec<u32>>()
    };
    let [launches, copies, syncs, others] =
        [Group::Launch, Group::Copy, Group::Sync, Group::Other].map(latest_first);
    let most = [launches.len(), copies.len(), syncs.len(), others.len()].into_iter().max();
    let mut calls = Vec::new();
    for turn in 0..most.unwrap_or(0) {
        // Two launches for each of the others.
        calls.extend(launches.iter().skip(2 * turn).take(2));
        for group in [&copies, &syncs, &others] {
            calls.extend(group.get(turn));
        }
    }
    calls
}

/// JSON that can stand inside of a script element.
fn inside_script(json: &str) -> String {
    json.replace("</", "<\\/").replace("<!--", "<\\u0021--")
}
