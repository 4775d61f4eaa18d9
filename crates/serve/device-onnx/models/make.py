#!/usr/bin/env python3
"""Makes the graphs behind the kernels `empty`, `busy` and `vecadd`. Needs numpy and onnx."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
SIDE = 16
TILE = 4096


def save(name, nodes, inputs, outputs, values=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(values))
    # Old enough for every version of the runtime that the device accepts.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / f"{name}.onnx")


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def empty():
    """One number in, the same out."""
    node = helper.make_node("Identity", ["x"], ["y"])
    x, y = (info(name, TensorProto.FLOAT, [1]) for name in "xy")
    save("empty", [node], [x], [y])


def busy():
    """`rounds` times: state = tanh(state * turn). Each round needs the one before."""
    shape = [SIDE, SIDE]
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=shape))
    start = np.ones(shape, np.float32)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "turn"], ["turned"]),
            helper.make_node("Tanh", ["turned"], ["next"]),
            helper.make_node("Identity", ["go"], ["still"]),
        ],
        "round",
        [
            info("round", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("state", TensorProto.FLOAT, shape),
        ],
        [info("still", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, shape)],
    )
    save(
        "busy",
        [helper.make_node("Loop", ["rounds", "", "start"], ["state_after"], body=body)],
        [info("rounds", TensorProto.INT64, [])],
        [info("state_after", TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(turn.astype(np.float32), "turn"),
            numpy_helper.from_array(start, "start"),
        ],
    )


def vecadd():
    """A tile of two vectors."""
    a, b, c = (info(name, TensorProto.FLOAT, [TILE]) for name in "abc")
    save("vecadd", [helper.make_node("Add", ["a", "b"], ["c"])], [a, b], [c])


empty()
busy()
vecadd()
