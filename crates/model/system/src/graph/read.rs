//! From the tree to the graph: keys, types, ranges and defaults.

use super::{Graph, Input, KeyPath, Node, NodeKind, NodeTimer, Work};
use crate::field::{Field, Fields};
use crate::read::Sections;
use crate::{Error, Segment};

/// Size of a message where the file says nothing: that of the reference system.
const MESSAGE_BYTES: u64 = 4096;
/// The largest message.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// The most messages that an input keeps.
const MAX_DEPTH: u32 = 1000;
/// The largest limit of the search for prime numbers: some minutes of work.
const MAX_PRIMES: u64 = 100_000_000;

const NODE: &[&str] =
    &["id", "kind", "executor", "cpu", "primes", "period", "priority", "segments", "inputs"];
const INPUT: &[&str] = &["from", "output", "priority", "depth", "segments"];

impl<'t> Sections<'t> {
    /// Reads the section `graph`.
    pub(crate) fn graph(&self, field: Field<'t>) -> Result<Graph, Error> {
        let fields = field.fields(&["message", "nodes", "paths"])?;
        let nodes = fields.required("nodes")?;
        let graph = Graph {
            message_bytes: fields.or("message", MESSAGE_BYTES, message)?,
            nodes: fields.each("nodes", |field| self.node(field))?,
            paths: fields.each("paths", |field| self.path(field))?,
        };
        if graph.nodes.is_empty() {
            return Err(nodes.refuse("at least one node"));
        }
        Ok(graph)
    }

    fn node(&self, field: Field<'t>) -> Result<Node, Error> {
        let fields = field.fields(NODE)?;
        let kind = fields.required("kind")?.choice(&NodeKind::ALL)?;
        let timer = self.timer(&fields, kind)?;
        let inputs = fields.optional("inputs");
        let of_callbacks = match timer {
            // Segments that stand at the node are its timer's.
            Some(_) => Vec::new(),
            None => self.segments(&fields)?,
        };
        let input = |field| self.input(field, kind, &of_callbacks);
        let node = Node {
            id: fields.required("id")?.name()?,
            kind,
            executor: fields.required("executor")?.name()?,
            work: self.work(&fields)?,
            timer,
            inputs: fields.each("inputs", input)?,
        };
        match (fits(kind, node.inputs.len()), inputs) {
            (true, _) => Ok(node),
            (false, Some(field)) => Err(field.refuse(expected_inputs(kind))),
            (false, None) => Err(fields.refuse(format!("inputs: {}", expected_inputs(kind)))),
        }
    }

    fn timer(&self, fields: &Fields<'t>, kind: NodeKind) -> Result<Option<NodeTimer>, Error> {
        if kind.has_timer() {
            let period_ns = self.positive_time(&fields.required("period")?)?;
            let priority = fields.required("priority")?.number(0..=u32::MAX)?;
            return Ok(Some(NodeTimer { period_ns, priority, segments: self.segments(fields)? }));
        }
        for key in ["period", "priority"] {
            if let Some(field) = fields.optional(key) {
                let name = kind.name();
                return Err(field.refuse(format!("no {key} of a {name}, which has no timer")));
            }
        }
        Ok(None)
    }

    fn work(&self, fields: &Fields<'t>) -> Result<Work, Error> {
        let cpu = fields.optional("cpu").map(|cpu| self.positive_time(&cpu)).transpose()?;
        match (fields.optional("primes"), cpu) {
            (Some(primes), cpu_ns) => {
                Ok(Work::Primes { limit: primes.whole(2..=MAX_PRIMES)?, cpu_ns })
            }
            (None, Some(cpu_ns)) => Ok(Work::Cpu(cpu_ns)),
            (None, None) => Ok(Work::None),
        }
    }

    fn input(
        &self,
        field: Field<'t>,
        kind: NodeKind,
        segments: &[Segment],
    ) -> Result<Input, Error> {
        let fields = field.fields(INPUT)?;
        let output = fields.optional("output").map(|field| field.name()).transpose()?;
        if kind == NodeKind::Intersection {
            fields.required("output")?;
        } else if let Some(field) = fields.optional("output") {
            return Err(field.refuse("output only with an intersection"));
        }
        Ok(Input {
            from: fields.required("from")?.name()?,
            output,
            priority: fields.required("priority")?.number(0..=u32::MAX)?,
            depth: fields.or("depth", 1, |field| field.number(1..=MAX_DEPTH))?,
            segments: match fields.optional("segments") {
                Some(_) => self.segments(&fields)?,
                None => segments.to_vec(),
            },
        })
    }

    fn path(&self, field: Field<'t>) -> Result<KeyPath, Error> {
        let fields = field.fields(&["id", "roots", "sink", "reported"])?;
        let roots = fields.required("roots")?;
        let reported = fields.optional("reported").map_or(Ok(Vec::new()), |all| all.entries())?;
        let time = |(method, field): (String, Field<'t>)| Ok((method, self.positive_time(&field)?));
        let path = KeyPath {
            id: fields.required("id")?.name()?,
            roots: roots.list()?.into_iter().map(|field| field.name()).collect::<Result<_, _>>()?,
            sink: fields.required("sink")?.name()?,
            reported_ns: reported.into_iter().map(time).collect::<Result<_, Error>>()?,
        };
        match path.roots.is_empty() {
            true => Err(roots.refuse("at least one root")),
            false => Ok(path),
        }
    }

    fn segments(&self, fields: &Fields<'t>) -> Result<Vec<Segment>, Error> {
        fields.each("segments", |field| self.segment(field))
    }
}

fn fits(kind: NodeKind, inputs: usize) -> bool {
    match kind {
        NodeKind::Sensor => inputs == 0,
        NodeKind::Transform | NodeKind::Command => inputs == 1,
        NodeKind::Fusion => inputs >= 2,
        NodeKind::Cyclic | NodeKind::Intersection => inputs >= 1,
    }
}

fn expected_inputs(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Sensor => "no inputs of a sensor",
        NodeKind::Transform => "one input of a transform",
        NodeKind::Command => "one input of a command",
        NodeKind::Fusion => "at least two inputs of a fusion",
        NodeKind::Cyclic => "at least one input of a cyclic node",
        NodeKind::Intersection => "at least one input of an intersection",
    }
}

fn message(field: Field<'_>) -> Result<u64, Error> {
    match field.bytes()? {
        bytes if (1..=MAX_MESSAGE_BYTES).contains(&bytes) => Ok(bytes),
        _ => Err(field.refuse("1 B to 1 MiB")),
    }
}
