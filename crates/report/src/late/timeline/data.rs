//! The windows as the page's script takes them: lists of numbers, and texts in a table.
//!
//! Times are nanoseconds since the begin of the window; something that began before has a negative
//! one. What the numbers of each list are, [`LISTS`] says, and the page as well.

use super::Options;
use super::arrow::involved;
use super::timeline_processor::{self, Scheduled};
use super::window::Window;
use crate::Error;
use crate::late::What;
use crate::late::html::cause_ink;
use crate::late::name::{family, kind_name};
use crate::late::spans::function::Functions;
use crate::late::spans::spans_lock::{Key, LockNames};
use crate::number::time;
use late::{Explained, Survey};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use trace::metadata::Tier;
use trace::{StreamKind, Trace};

/// Names of the lists of a window, with the numbers of one entry.
pub(super) const LISTS: [(&str, &str); 11] = [
    ("calls", "task depth from duration name note flags"),
    ("waits", "task depth from duration lock owner flags"),
    ("holds", "task lane from duration lock flags"),
    ("states", "task from duration state processor"),
    ("runs", "processor from duration task priority"),
    ("wakes", "at waker wakee"),
    ("boosts", "from task old new"),
    ("arrows", "from giver to taker lock"),
    ("gpu", "row from duration name"),
    ("lost", "task from duration count"),
    ("parts", "from duration cause text"),
];

/// Makes the data.
pub(super) struct Data<'t> {
    pub(super) trace: &'t Trace,
    pub(super) survey: &'t Survey,
    pub(super) options: &'t Options,
    pub(super) functions: Functions<'t>,
    pub(super) locks: LockNames<'t>,
    pub(super) kernels: HashMap<(u32, u64), &'t str>,
    pub(super) texts: Texts,
    /// Threads of the machine: streams, and others by their id.
    pub(super) tasks: HashMap<Task, i64>,
    pub(super) task_list: Vec<Value>,
    pub(super) lock_list: Vec<Value>,
    pub(super) lock_numbers: HashMap<(Option<u32>, Key), i64>,
    pub(super) by_tid: HashMap<u32, Vec<u32>>,
}

/// A thread of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Task {
    Stream(u32),
    Tid(u32),
}

/// Texts, each once.
#[derive(Default)]
pub(super) struct Texts {
    numbers: HashMap<String, i64>,
    list: Vec<String>,
}

impl Texts {
    pub(super) fn of(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.list.len() as i64;
        self.numbers.insert(text.to_owned(), number);
        self.list.push(text.to_owned());
        number
    }
}

impl<'t> Data<'t> {
    pub(super) fn new(trace: &'t Trace, survey: &'t Survey, options: &'t Options) -> Data<'t> {
        let mut by_tid: HashMap<u32, Vec<u32>> = HashMap::new();
        for (stream, of) in (0..).zip(trace.streams()) {
            if of.kind == StreamKind::Thread {
                by_tid.entry(of.id).or_default().push(stream);
            }
        }
        let about = trace.metadata();
        let kernels = about.kernels.iter();
        Data {
            trace,
            survey,
            options,
            functions: Functions::new(&about.functions),
            locks: LockNames::new(survey),
            kernels: kernels.map(|of| ((of.process, of.handle), of.name.as_str())).collect(),
            texts: Texts::default(),
            tasks: HashMap::new(),
            task_list: Vec::new(),
            lock_list: Vec::new(),
            lock_numbers: HashMap::new(),
            by_tid,
        }
    }

    /// All windows, and what they refer to.
    pub(super) fn finish(self, windows: Vec<Value>) -> Value {
        let tier = match self.survey.tier {
            Tier::Preload => "preload",
            Tier::Switches => "switches",
            Tier::Scheduler => "scheduler",
        };
        let causes = What::ALL.iter().map(|what| json!([what.words(), cause_ink(*what).name]));
        let causes = causes.chain([json!(["added up", "grid"])]);
        let lists = LISTS.iter().map(|(name, fields)| (name.to_string(), json!(fields)));
        json!({
            "tier": tier,
            "lists": lists.collect::<Map<_, _>>(),
            "causes": causes.collect::<Vec<_>>(),
            "texts": self.texts.list,
            "tasks": self.task_list,
            "locks": self.lock_list,
            "windows": windows,
        })
    }

    pub(super) fn at_ns(&self, ticks: u64) -> u64 {
        self.trace.clock().duration_ns(ticks.saturating_sub(self.trace.start()))
    }

    pub(super) fn stream(&self, tid: u32, ticks: u64) -> Option<u32> {
        let of = self.by_tid.get(&tid)?;
        let first = |stream: u32| self.trace.streams()[stream as usize].blocks[0].first;
        let begun = of.iter().copied().filter(|stream| first(*stream) <= ticks);
        begun.max_by_key(|stream| first(*stream)).or(of.first().copied())
    }

    /// The number of a thread: `[tid, name, process, priority, whether it is the program's]`.
    pub(super) fn task(&mut self, task: Task) -> i64 {
        if let Some(number) = self.tasks.get(&task) {
            return *number;
        }
        let about = self.trace.metadata();
        let entry = match task {
            Task::Stream(stream) => {
                let thread = &self.survey.threads[stream as usize];
                let process = about.processes.iter().find(|of| of.number == thread.process);
                let program = process.map_or("", |process| process.program.as_str());
                let program = program.rsplit('/').next().unwrap_or_default();
                json!([thread.tid, thread.name, program, thread.priority, 1])
            }
            Task::Tid(tid) => {
                let of = about.tasks.iter().find(|task| task.thread == tid);
                let name = of.map_or("", |task| task.name.as_str());
                let leader = of.and_then(|of| about.tasks.iter().find(|t| t.thread == of.pid));
                let process = leader.map_or("", |task| task.name.as_str());
                let own = of.is_some_and(|of| about.processes.iter().any(|p| p.pid == of.pid));
                json!([tid, name, process, null, i64::from(own)])
            }
        };
        let number = self.task_list.len() as i64;
        self.task_list.push(entry);
        self.tasks.insert(task, number);
        number
    }

    pub(super) fn task_at(&mut self, tid: u32, ticks: u64) -> i64 {
        let task = self.stream(tid, ticks).map_or(Task::Tid(tid), Task::Stream);
        self.task(task)
    }

    /// The number of a lock: `[name, what it is]`.
    pub(super) fn lock(&mut self, key: Key, ticks: u64) -> i64 {
        let place = self.locks.find(key, self.at_ns(ticks));
        let known = (place, if place.is_some() { (0, key.1, 0) } else { key });
        if let Some(number) = self.lock_numbers.get(&known) {
            return *number;
        }
        let name = match place {
            Some(_) => self.locks.name(place, key.1).to_owned(),
            None => format!("{:#x}", key.2),
        };
        let number = self.lock_list.len() as i64;
        self.lock_list.push(json!([name, family(key.1)]));
        self.lock_numbers.insert(known, number);
        number
    }

    /// A window.
    pub(super) fn window(
        &mut self,
        mut window: Window,
        explained: &[Explained],
    ) -> Result<Value, Error> {
        let scheduled = match self.survey.tier {
            Tier::Preload => Scheduled::default(),
            _ => timeline_processor::read(self.trace, window.from, window.to)?,
        };
        let rows = involved(&window, |tid, at| self.stream(tid, at));
        let arrows = self.arrows(&window);
        let (calls, waits, holds) = self.spans(&mut window);
        let kept = self.kept(&window, scheduled.left_out);
        let mut rows: Vec<i64> = rows.into_iter().map(|of| self.task(Task::Stream(of))).collect();
        let involved = rows.len();
        let mut lost = self.lost(&mut window);
        let others = |list: &[i64], width: usize| -> Vec<i64> {
            list.chunks(width).map(|entry| entry[0]).collect()
        };
        for task in [others(&calls, 7), others(&waits, 7), others(&holds, 6)].concat() {
            if !rows.contains(&task) {
                rows.push(task);
            }
        }
        let width = window.to - window.from;
        let (states, runs) =
            (self.states(&window, &scheduled, width, &rows), self.runs(&window, &scheduled, width));
        lost.extend(self.lost_of_processors(&window, &scheduled));
        let wakes = self.wakes(&window, &scheduled, &rows);
        let boosts = self.boosts(&window, &scheduled, &rows);
        let (gpu_rows, gpu) = self.gpu(&window)?;
        let parts = self.parts(&window, explained);
        let processors = self.trace.streams().iter().filter(|of| of.kind == StreamKind::Processor);
        let processors: Vec<u32> = match self.survey.tier {
            Tier::Scheduler => processors.map(|of| of.id).collect(),
            _ => Vec::new(),
        };
        let call = &self.survey.worst[window.worst as usize];
        let kind = &self.survey.kinds[call.kind as usize];
        let (took, at) = (time(call.duration_ns), time(call.at_ns));
        let label = format!("{}: {took}, at {at}", kind_name(kind));
        let from_ns = self.at_ns(window.from);
        Ok(json!({
            "label": label,
            "task": rows[0],
            "usual": time(call.usual_ns),
            "length": self.trace.clock().duration_ns(width),
            "call": [call.at_ns as i64 - from_ns as i64, call.duration_ns],
            "rows": rows,
            "involved": involved,
            "processors": processors,
            "gpuRows": gpu_rows,
            "kept": kept,
            "calls": calls, "waits": waits, "holds": holds, "states": states, "runs": runs,
            "wakes": wakes, "boosts": boosts, "arrows": arrows, "gpu": gpu, "lost": lost,
            "parts": parts,
        }))
    }
}
