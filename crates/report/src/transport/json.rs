//! The result for machines.

use super::{Cell, PAAM_US, STEP, Sample, TransportRun};
use serde_json::{Map, Value, json};

/// The result as JSON; docs/bench-transport.md says what it has.
pub fn json(run: &TransportRun) -> Value {
    let machine: Map<String, Value> =
        run.machine.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "command": run.command,
        "date": run.date,
        "machine": machine,
        "device": run.device,
        "delay_ns": run.delay_ns,
        "loss": run.loss,
        "marks": run.marks,
        "steps": STEP.map(|(name, _)| name),
        "paam_overhead_us": { "best": PAAM_US[0], "worst": PAAM_US[1] },
        "cells": run.cells.iter().map(of_cell).collect::<Vec<_>>(),
    })
}

fn of_cell(cell: &Cell) -> Value {
    let latency = cell.latency().map(|latency| {
        json!({
            "min": latency.min, "median": latency.p50, "p99": latency.p99, "max": latency.max,
        })
    });
    let shares = cell.shares().map(|shares| {
        json!({
            "best": of_sample(&shares.best),
            "mean": of_sample(&shares.mean),
            "worst": of_sample(&shares.worst),
        })
    });
    json!({
        "way": cell.way,
        "bytes": cell.bytes,
        "samples": cell.samples.len(),
        "warm_up_ns": cell.warm_up_ns,
        "repeated": cell.repeated,
        "unanswered": cell.unanswered,
        "latency_ns": latency,
        "requests": shares,
    })
}

fn of_sample(sample: &Sample) -> Value {
    let mut parts: Map<String, Value> = STEP
        .iter()
        .zip(sample.steps_ns)
        .map(|((name, _), ns)| ((*name).into(), json!(ns)))
        .collect();
    parts.insert("unexplained".into(), json!(sample.unexplained_ns()));
    json!({
        "whole_ns": sample.whole_ns,
        "overhead_ns": sample.overhead_ns(),
        "parts_ns": parts,
    })
}
