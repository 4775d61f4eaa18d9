"""Trains the network of examples/perception and writes it as model.onnx.

train.py GRIDS, a file of `cargo run --release -p keeptime-driving --example perception -- grids`.
Takes numpy, jax and onnx. Nothing of it runs in a drive.
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE, CHANNELS, CLASSES = 192, 5, 5
# Output channels and kernel size of each layer.
LAYERS = [(12, 3), (12, 5), (12, 3), (CLASSES, 1)]
# Each step sees a random part of the grids, so many cells wide.
STEPS, BATCH, RATE, PART = 400, 6, 5e-3, 96


def read(path):
    data = open(path, "rb").read()
    cell = np.dtype([("place", "<u2"), ("label", "<u2"), ("values", "<f4", CHANNELS)])
    turns, at = [], 0
    while at < len(data):
        count = int(np.frombuffer(data, "<u4", 1, at)[0])
        turns.append(np.frombuffer(data, cell, count, at + 4))
        at += 4 + count * cell.itemsize
    return turns


def batch(turns, random):
    chosen = random.integers(len(turns), size=BATCH)
    grids = np.zeros((len(chosen), CHANNELS, SIDE * SIDE), np.float32)
    labels = np.full((len(chosen), SIDE * SIDE), -1, np.int32)
    for row, turn in enumerate(chosen):
        cells = turns[turn]
        grids[row][:, cells["place"]] = cells["values"].T
        labels[row][cells["place"]] = cells["label"]
    grids, labels = grids.reshape(-1, CHANNELS, SIDE, SIDE), labels.reshape(-1, SIDE, SIDE)
    x, y = random.integers(SIDE - PART + 1, size=2)
    return grids[:, :, x:x + PART, y:y + PART], labels[:, x:x + PART, y:y + PART]


def network(weights, x):
    for layer, (kernel, bias) in enumerate(weights):
        x = jax.lax.conv(x, kernel, (1, 1), "SAME") + bias[None, :, None, None]
        x = jax.nn.relu(x) if layer + 1 < len(weights) else x
    return x


def loss(weights, grids, labels, share):
    scores = jax.nn.log_softmax(network(weights, grids), axis=1)
    taken = jnp.take_along_axis(scores, jnp.maximum(labels, 0)[:, None], axis=1)[:, 0]
    weight = jnp.where(labels >= 0, share[jnp.maximum(labels, 0)], 0.0)
    # Empty cells are the background; there are many of them.
    empty = jnp.where(labels < 0, 1e-3, 0.0)
    return -(taken * (weight + empty)).sum() / (weight + empty).sum()


def train(turns):
    random, weights, inputs = np.random.default_rng(1), [], CHANNELS
    for outputs, size in LAYERS:
        scale = np.sqrt(2 / (inputs * size * size))
        kernel = random.normal(0, scale, (outputs, inputs, size, size)).astype(np.float32)
        weights.append((kernel, np.zeros(outputs, np.float32)))
        inputs = outputs
    counts = np.bincount(np.concatenate([turn["label"] for turn in turns]), minlength=CLASSES)
    share = np.sqrt(counts.sum() / np.maximum(counts, 1)).astype(np.float32)
    print("cells by class:", counts)
    step = jax.jit(jax.value_and_grad(loss))
    tree = jax.tree_util.tree_map
    first, second = tree(np.zeros_like, weights), tree(np.zeros_like, weights)
    for number in range(1, STEPS + 1):
        value, slope = step(weights, *batch(turns, random), share)
        # Adam, with a rate that falls to nothing.
        rate = RATE * (1 + np.cos(np.pi * number / STEPS)) / 2
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, slope)
        right = (1 - 0.9**number, 1 - 0.999**number)
        weights = tree(
            lambda w, m, v: w - rate * (m / right[0]) / (jnp.sqrt(v / right[1]) + 1e-8),
            weights, first, second,
        )
        if number % 50 == 0:
            print(f"step {number}: loss {value:.4f}", flush=True)
    return weights


def export(weights, path):
    nodes, constants, last = [], [], "grid"
    for layer, (kernel, bias) in enumerate(weights):
        end = layer + 1 == len(weights)
        out = "scores" if end else f"sum{layer}"
        for name, value in (("kernel", kernel), ("bias", bias)):
            constants.append(numpy_helper.from_array(np.asarray(value), f"{name}{layer}"))
        inputs = [last, f"kernel{layer}", f"bias{layer}"]
        pad = kernel.shape[-1] // 2
        nodes.append(helper.make_node("Conv", inputs, [out], pads=[pad] * 4))
        if not end:
            nodes.append(helper.make_node("Relu", [out], [f"relu{layer}"]))
            last = f"relu{layer}"
    tensor = lambda name, count: helper.make_tensor_value_info(
        name, TensorProto.FLOAT, [1, count, SIDE, SIDE])
    graph = helper.make_graph(nodes, "perception", [tensor("grid", CHANNELS)],
                              [tensor("scores", CLASSES)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


if __name__ == "__main__":
    turns = read(sys.argv[1])
    print(len(turns), "turns of the lidar")
    export(train(turns), "model.onnx")
