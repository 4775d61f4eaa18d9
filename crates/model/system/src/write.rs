//! From the structs back to text: a system file that parses to the same [`System`].
//!
//! The emitter is written here because a system file mixes two styles: sections and chains are
//! blocks, small mappings (an executor, a callback with its segments) stand on one line. Emitters
//! of YAML libraries have one style. Only keys that differ from their default are written, times
//! carry the largest unit that is exact, and every text that a YAML reader could take for something
//! else (`yes`, `1e3`, `a: b`) is quoted.

use crate::quantity::format_bytes;
use crate::{
    Accelerator, AccessRule, Admission, Bound, Callback, Chain, DeviceKind, Distribution, Executor,
    Groups, Kernel, Limits, Middleware, Overrun, Policy, Ros, Segment, Server, Service, Source,
    Subject, System, TimeUnit, Wait, format_time,
};
use std::fmt::Display;
use std::path::Path;

/// The longest line with a mapping on it; longer ones become blocks.
const MAX_COLUMNS: usize = 100;

impl System {
    /// The text of a system file with this content. [`System::parse`] gives back the same system,
    /// provided that it passes the checks and that the same name is given.
    pub fn to_yaml(&self) -> String {
        let mut top = Map::default();
        let unit = self.time_unit;
        top.put_unless("time_unit", unit, TimeUnit::default(), |unit| unit);
        let costs = [
            ("kappa", self.kappa_ns),
            ("epsilon", self.epsilon_ns),
            ("sigma", self.sigma_ns),
            ("hop", self.hop_ns),
        ];
        for (key, time_ns) in costs {
            top.put_unless(key, time_ns, 0, format_time);
        }
        let mut sections = vec![top.block(0)];
        sections.extend(list("accelerators", self.accelerators.iter().map(accelerator)));
        sections.extend(list("executors", self.executors.iter().map(executor)));
        sections.extend(list("services", self.services.iter().map(service)));
        sections.extend(server(&self.server));
        sections.extend(self.ros.as_ref().map(ros));
        if !self.chains.is_empty() {
            let chains: Vec<String> = self.chains.iter().map(chain).collect();
            sections.push(format!("chains:\n{}", chains.join("\n")));
        }
        sections.extend(self.graph.as_ref().map(crate::graph::write::section));
        sections.retain(|section| !section.is_empty());
        sections.join("\n")
    }
}

/// A mapping whose values are written already.
#[derive(Default)]
pub(crate) struct Map {
    entries: Vec<(String, String)>,
}

impl Map {
    pub(crate) fn with(key: &str, value: impl Display) -> Self {
        let mut map = Self::default();
        map.put(key, value);
        map
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Display) {
        self.entries.push((key.to_owned(), value.to_string()));
    }

    pub(crate) fn put_unless<T: PartialEq, D: Display>(
        &mut self,
        key: &str,
        value: T,
        default: T,
        write: impl Fn(T) -> D,
    ) {
        if value != default {
            self.put(key, write(value));
        }
    }

    pub(crate) fn put_some<T, D: Display>(
        &mut self,
        key: &str,
        value: Option<T>,
        write: impl Fn(T) -> D,
    ) {
        if let Some(value) = value {
            self.put(key, write(value));
        }
    }

    /// `{id: gpu0, buckets: 6}`
    pub(crate) fn flow(&self) -> String {
        let entries: Vec<String> = self.entries.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        format!("{{{}}}", entries.join(", "))
    }

    /// One line per entry.
    fn block(&self, indent: usize) -> String {
        let pad = " ".repeat(indent);
        self.entries.iter().map(|(key, value)| format!("{pad}{key}: {value}\n")).collect()
    }

    /// An item of a list, one line per entry.
    pub(crate) fn dashed(&self, indent: usize) -> String {
        dashed(&self.block(indent + 2), indent)
    }

    /// An item of a list: on one line where it fits, otherwise one line per entry.
    pub(crate) fn item(&self, indent: usize) -> String {
        let pad = " ".repeat(indent);
        let flow = format!("{pad}- {}\n", self.flow());
        if flow.chars().count() <= MAX_COLUMNS + 1 {
            return flow;
        }
        self.dashed(indent)
    }
}

/// Puts the dash of a list item before the first line of its block.
fn dashed(block: &str, indent: usize) -> String {
    format!("{}- {}", " ".repeat(indent), block.get(indent + 2..).unwrap_or_default())
}

/// A section of items, or nothing.
fn list(key: &str, items: impl Iterator<Item = Map>) -> Option<String> {
    let items: String = items.map(|item| item.item(2)).collect();
    (!items.is_empty()).then(|| format!("{key}:\n{items}"))
}

/// `[0, 1]`
pub(crate) fn flow_list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    format!("[{}]", items.join(", "))
}

fn accelerator(accelerator: &Accelerator) -> Map {
    let Accelerator {
        id,
        buckets,
        bucket_from,
        device,
        cores,
        concurrent_lowest,
        spin,
        blocks_per_slice,
        slices_at_once,
        provider,
        kernels,
    } = accelerator;
    let mut map = Map::with("id", text(id));
    map.put("buckets", buckets);
    map.put_unless("bucket_from", bucket_from.as_slice(), &[], flow_list);
    map.put_unless("device", *device, DeviceKind::default(), |kind| text(&kind.to_string()));
    map.put_unless("cores", cores.as_slice(), &[], flow_list);
    map.put_unless("concurrent_lowest", *concurrent_lowest, false, |yes| yes);
    map.put_unless("spin", *spin, false, |yes| yes);
    map.put_unless("blocks_per_slice", *blocks_per_slice, 0, |blocks| blocks);
    map.put_unless("slices_at_once", *slices_at_once, 1, |slices| slices);
    map.put_some("provider", *provider, |ordinal| text(&DeviceKind::Cuda(ordinal).to_string()));
    let flows: Vec<String> = kernels.iter().map(|of| kernel(of).flow()).collect();
    map.put_unless("kernels", flows.as_slice(), &[], flow_list);
    map
}

fn kernel(kernel: &Kernel) -> Map {
    let mut map = Map::with("name", text(&kernel.name));
    let file = |path: &Path| text(&path.to_string_lossy());
    match &kernel.source {
        Source::Model { path, batch } => {
            map.put("model", file(path));
            map.put_unless("batch", *batch, 1, |batch| batch);
        }
        Source::Code {
            path,
            function,
            threads,
            items_per_block,
            blocks_per_slice,
            in_place,
            input,
            output,
        } => {
            map.put("code", file(path));
            map.put("function", text(function));
            map.put_unless("threads", *threads, 256, |threads| threads);
            map.put_unless("items_per_block", *items_per_block, 0, |items| items);
            map.put_unless("blocks_per_slice", *blocks_per_slice, 0, |blocks| blocks);
            map.put_unless("in_place", *in_place, false, |yes| yes);
            map.put_unless("input", *input, [0; 2], |counts| flow_list(&counts));
            map.put_unless("output", *output, [0; 2], |counts| flow_list(&counts));
        }
        Source::Library { path, configuration, input, output } => {
            map.put("library", file(path));
            map.put_unless("configuration", configuration.as_str(), "", text);
            map.put_unless("input", *input, [0; 2], |counts| flow_list(&counts));
            map.put_unless("output", *output, [0; 2], |counts| flow_list(&counts));
        }
        Source::Shader { path, entry, groups } => {
            map.put("shader", file(path));
            map.put("entry", text(entry));
            match groups {
                Groups::Fixed(groups) => map.put("groups", flow_list(groups)),
                Groups::Items(items) => map.put("items_per_group", items),
            }
        }
    }
    map
}

fn executor(executor: &Executor) -> Map {
    let Executor { id, core, priority } = executor;
    let mut map = Map::with("id", text(id));
    map.put("core", core);
    map.put("priority", priority);
    map
}

fn service(service: &Service) -> Map {
    let Service { name, accelerator, kernel, arguments, exec_ns, bandwidth_lock } = service;
    let mut map = Map::with("name", text(name));
    map.put("accelerator", text(accelerator));
    map.put("kernel", text(kernel));
    map.put_unless("arguments", arguments.as_slice(), &[], flow_list);
    map.put_some("exec", *exec_ns, format_time);
    map.put_unless("bandwidth_lock", *bandwidth_lock, false, |yes| yes);
    map
}

fn chain(chain: &Chain) -> String {
    let mut map = Map::with("id", text(&chain.id));
    map.put("priority", chain.priority);
    map.put("period", format_time(chain.period_ns));
    map.put_unless("deadline", chain.deadline_ns, chain.period_ns, format_time);
    map.put_unless("jitter", chain.jitter_ns, 0, format_time);
    map.put_unless("wait", chain.wait, Wait::default(), |wait| match wait {
        Wait::Suspend => "suspend",
        Wait::Spin => "spin",
    });
    map.put_unless("best_effort", chain.best_effort, false, |yes| yes);
    if !chain.bucket.is_empty() {
        let entries = chain.bucket.iter().map(|(id, bucket)| (text(id), bucket.to_string()));
        map.put("bucket", Map { entries: entries.collect() }.flow());
    }
    let callbacks: String = chain.callbacks.iter().map(callback).collect();
    format!("{}    callbacks:\n{callbacks}", dashed(&map.block(4), 2))
}

fn callback(callback: &Callback) -> String {
    let Callback { id, executor, cpu_ns, cpu_min_ns, segments } = callback;
    let mut map = Map::with("id", text(id));
    map.put("executor", text(executor));
    map.put_unless("cpu", *cpu_ns, 0, format_time);
    map.put_some("cpu_min", *cpu_min_ns, format_time);
    let segments: Vec<Map> = segments.iter().map(segment).collect();
    if segments.is_empty() {
        return map.item(6);
    }
    let items: Vec<String> = segments.iter().map(Map::flow).collect();
    map.put("segments", flow_list(&items));
    let flow = format!("      - {}\n", map.flow());
    if flow.chars().count() <= MAX_COLUMNS + 1 {
        return flow;
    }
    map.entries.pop();
    let items: String = segments.iter().map(|segment| segment.item(10)).collect();
    format!("{}        segments:\n{items}", dashed(&map.block(8), 6))
}

pub(crate) fn segment(segment: &Segment) -> Map {
    let Segment { accel, exec_ns, exec_min_ns, cpu_before_ns, service } = segment;
    let mut map = Map::with("accel", text(accel));
    map.put("exec", format_time(*exec_ns));
    map.put_some("exec_min", *exec_min_ns, format_time);
    map.put_unless("cpu_before", *cpu_before_ns, 0, format_time);
    map.put_some("service", service.as_deref(), text);
    map
}

/// The section of the server; nothing where everything is as by default.
fn server(server: &Server) -> Option<String> {
    let default = Server::default();
    let mut map = Map::default();
    let socket = server.socket.as_ref().map(|path| path.to_string_lossy());
    map.put_some("socket", socket, |path| text(&path));
    map.put_unless("mode", server.mode, default.mode, |mode| format!("\"0{mode:o}\""));
    map.put_some("group", server.group.as_deref(), text);
    map.put_unless("policy", server.policy, default.policy, |policy| match policy {
        Policy::Priority => "priority",
        Policy::Fifo => "fifo",
        Policy::Timeslice => "timeslice",
    });
    map.put_unless("slice", server.slice_ns, default.slice_ns, format_time);
    map.put_unless("priority", server.priority, default.priority, |number| number);
    map.put_unless("cores", server.cores.as_slice(), &[], flow_list);
    map.put_unless("awake", server.awake, false, |yes| yes);
    map.put_unless("overrun", server.overrun, default.overrun, |overrun| match overrun {
        Overrun::Count => "count",
        Overrun::Demote => "demote",
    });
    map.put_unless("admission", server.admission, default.admission, |admission| match admission {
        Admission::Enforce => "enforce",
        Admission::Report => "report",
        Admission::Off => "\"off\"",
    });
    map.put_unless("analysis", server.analysis, default.analysis, |bound| match bound {
        Bound::Tight => "tight",
        Bound::Sound => "sound",
    });
    let calibration = server.calibration.as_ref().map(|path| path.to_string_lossy());
    map.put_some("calibration", calibration, |path| text(&path));
    let bandwidth = server.bandwidth_socket.as_ref().map(|path| path.to_string_lossy());
    map.put_some("bandwidth_socket", bandwidth, |path| text(&path));
    map.put_unless("limits", &server.limits, &default.limits, |limits| self::limits(limits).flow());
    let access: String = server.access.iter().map(|rule| access_rule(rule).item(4)).collect();
    if access.is_empty() {
        return (!map.entries.is_empty()).then(|| format!("server:\n{}", map.block(2)));
    }
    Some(format!("server:\n{}  access:\n{access}", map.block(2)))
}

/// The section of the graph; it is there even where everything is as by default.
fn ros(ros: &Ros) -> String {
    let default = Ros::default();
    let mut map = Map::default();
    let number = |number: u32| number;
    map.put_unless("domain", ros.domain, 0, |domain| domain);
    map.put_unless("interfaces", ros.interfaces.as_slice(), &[], |addresses| {
        flow_list(&addresses.iter().map(|one| text(&one.to_string())).collect::<Vec<_>>())
    });
    map.put_unless("peers", ros.peers.as_slice(), &[], |addresses| {
        flow_list(&addresses.iter().map(|one| text(&one.to_string())).collect::<Vec<_>>())
    });
    map.put_unless("middleware", ros.middleware, default.middleware, |one| match one {
        Middleware::Cyclonedds => "cyclonedds",
        Middleware::Fastrtps => "fastrtps",
    });
    map.put_unless("distribution", ros.distribution, default.distribution, |one| match one {
        Distribution::Humble => "humble",
        Distribution::Jazzy => "jazzy",
    });
    map.put_unless("namespace", ros.namespace.as_str(), default.namespace.as_str(), text);
    map.put_unless("node", ros.node.as_str(), default.node.as_str(), text);
    map.put_unless("status", ros.status_ns, default.status_ns, format_time);
    map.put_unless("memory", ros.memory_bytes, default.memory_bytes, format_bytes);
    let (set, usual) = (ros.limits, default.limits);
    let mut limits = Map::default();
    limits.put_unless("clients", set.clients, usual.clients, number);
    limits.put_unless("registrations", set.registrations, usual.registrations, number);
    limits.put_unless("request", set.request_bytes, usual.request_bytes, format_bytes);
    limits.put_unless("in_flight", set.in_flight, usual.in_flight, number);
    limits.put_unless("priority", set.priority, usual.priority, number);
    limits.put_unless("lease", set.lease_ns, usual.lease_ns, format_time);
    map.put_unless("limits", set, usual, |_| limits.flow());
    let services: Vec<String> = ros.services.iter().map(|name| text(name)).collect();
    map.put_unless("services", services.as_slice(), &[], flow_list);
    let security = ros.security.as_ref().map(|path| path.to_string_lossy());
    map.put_some("security", security, |path| text(&path));
    match map.entries.is_empty() {
        true => "ros: {}\n".into(),
        false => format!("ros:\n{}", map.block(2)),
    }
}

fn limits(limits: &Limits) -> Map {
    let default = Limits::default();
    let number = |number: u32| number;
    let mut map = Map::default();
    map.put_unless("sessions", limits.sessions, default.sessions, number);
    map.put_unless("registrations", limits.registrations, default.registrations, number);
    map.put_unless("memory", limits.memory_bytes, default.memory_bytes, format_bytes);
    map.put_some("total_memory", limits.total_memory_bytes, format_bytes);
    map.put_some("user_memory", limits.user_memory_bytes, format_bytes);
    let connects = limits.connects_per_second;
    map.put_unless("connects_per_second", connects, default.connects_per_second, number);
    map.put_unless("control_percent", limits.control_percent, default.control_percent, number);
    map
}

fn access_rule(rule: &AccessRule) -> Map {
    let AccessRule { subject, priority_min, priority_max, sessions, memory_bytes, declare } = rule;
    let mut map = match subject {
        Subject::User(name) => Map::with("user", text(name)),
        Subject::UserId(id) => Map::with("user", id),
        Subject::Group(name) => Map::with("group", text(name)),
        Subject::GroupId(id) => Map::with("group", id),
    };
    map.put("priority", flow_list(&[priority_min, priority_max]));
    map.put_some("sessions", *sessions, |number| number);
    map.put_some("memory", *memory_bytes, format_bytes);
    map.put_some("declare", declare.as_ref(), |percents| match percents.is_empty() {
        true => "false".to_owned(),
        false => {
            let one = |(id, percent): (&String, &u32)| format!("{}: {percent}", text(id));
            format!("{{{}}}", percents.iter().map(one).collect::<Vec<String>>().join(", "))
        }
    });
    map
}

/// A text as a scalar: plain where every YAML reader takes it for text, otherwise in quotes.
pub(crate) fn text(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Letters, digits, `_`, `-`, `.` and `/`, beginning with a letter or `_`, and no word that a
/// reader of YAML 1.1 or 1.2 takes for something else.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(inside)
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// In double quotes, with everything escaped that does not show.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            ' '..='~' => quoted.push(c),
            c if c.escape_debug().len() == 1 => quoted.push(c),
            c if u32::from(c) <= 0xffff => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_a_reader_could_mistake_are_quoted() {
        for plain in ["gpu0", "front-left", "_x", "models/a.onnx", "Brücke", "前方", "e1"] {
            assert_eq!(text(plain), plain);
        }
        for (name, expected) in [
            ("", r#""""#),
            ("yes", r#""yes""#),
            ("No", r#""No""#),
            ("1e3", r#""1e3""#),
            ("0x10", r#""0x10""#),
            (".inf", r#"".inf""#),
            ("~", r#""~""#),
            ("a: b", r#""a: b""#),
            ("- x", r#""- x""#),
            ("a #b", r#""a #b""#),
            ("cuda:0", r#""cuda:0""#),
            (r#"say "hi" \o/"#, r#""say \"hi\" \\o/""#),
            ("🚗", "\"🚗\""),
            ("a\nb\u{7}", r#""a\nb\u0007""#),
            ("a\u{e0001}\u{301}", r#""a\U000e0001\u0301""#),
        ] {
            assert_eq!(text(name), expected);
        }
    }
}
