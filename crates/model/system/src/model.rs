//! The file's system as the analysis sees it: indices for names, the buckets spelled out; and the
//! way back for what an assignment changes.

use crate::{Callback, Chain, Segment, System, Wait};
use analysis::Span;
use std::collections::{BTreeMap, HashMap};

impl System {
    /// The model that is analysed and simulated. Accelerators, executors and chains keep their
    /// order. Best-case times that the file does not give are 0, except that a callback takes at
    /// least the CPU time that it always spends before its requests.
    pub fn model(&self) -> analysis::System {
        let accelerators = index(self.accelerators.iter().map(|a| a.id.as_str()));
        let executors = index(self.executors.iter().map(|e| e.id.as_str()));
        let buckets: Vec<_> = self.accelerators.iter().map(|a| self.bucket_map(&a.id)).collect();
        let places = Places { accelerators, executors };
        let chain = |chain: &Chain| {
            let bucket = |map: &BTreeMap<String, u32>| map.get(&chain.id).copied().unwrap_or(0);
            places.chain(chain, buckets.iter().map(bucket).collect())
        };
        analysis::System {
            kappa_ns: self.kappa_ns,
            epsilon_ns: self.epsilon_ns,
            sigma_ns: self.sigma_ns,
            hop_ns: self.hop_ns,
            accelerators: self
                .accelerators
                .iter()
                .map(|a| analysis::Accelerator {
                    buckets: a.buckets,
                    concurrent_lowest: a.concurrent_lowest,
                })
                .collect(),
            executors: self
                .executors
                .iter()
                .map(|e| analysis::Executor { core: e.core, priority: e.priority })
                .collect(),
            chains: self.chains.iter().map(chain).collect(),
        }
    }
}

fn index<'n>(names: impl Iterator<Item = &'n str>) -> HashMap<&'n str, usize> {
    names.enumerate().map(|(place, name)| (name, place)).collect()
}

/// Index of each name in its list. Every reference of a checked file is in it.
struct Places<'s> {
    accelerators: HashMap<&'s str, usize>,
    executors: HashMap<&'s str, usize>,
}

impl Places<'_> {
    fn chain(&self, chain: &Chain, buckets: Vec<u32>) -> analysis::Chain {
        analysis::Chain {
            priority: chain.priority,
            period_ns: chain.period_ns,
            deadline_ns: chain.deadline_ns,
            jitter_ns: chain.jitter_ns,
            wait: match chain.wait {
                Wait::Suspend => analysis::Wait::Suspend,
                Wait::Spin => analysis::Wait::Spin,
            },
            best_effort: chain.best_effort,
            buckets,
            callbacks: chain.callbacks.iter().map(|callback| self.callback(callback)).collect(),
        }
    }

    fn callback(&self, callback: &Callback) -> analysis::Callback {
        let before_ns = callback.segments.iter().map(|segment| segment.cpu_before_ns).sum();
        analysis::Callback {
            executor: self.executors[callback.executor.as_str()],
            cpu: span(callback.cpu_min_ns.or(Some(before_ns)), callback.cpu_ns),
            segments: callback.segments.iter().map(|segment| self.segment(segment)).collect(),
        }
    }

    fn segment(&self, segment: &Segment) -> analysis::Segment {
        analysis::Segment {
            accelerator: self.accelerators[segment.accel.as_str()],
            exec: span(segment.exec_min_ns, segment.exec_ns),
            cpu_before_ns: segment.cpu_before_ns,
        }
    }
}

fn span(min_ns: Option<u64>, max_ns: u64) -> Span {
    Span { min_ns: min_ns.unwrap_or(0), max_ns }
}
