#!/usr/bin/env python3
"""Makes the models that the tests need. Needs numpy and onnx."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent


def save(name, nodes, inputs, outputs, values=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(values))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / f"{name}.onnx")


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


# Each type that the device takes, each with a size of its own: twice what came in.
KINDS = {
    "f32": (TensorProto.FLOAT, [3]),
    "f64": (TensorProto.DOUBLE, [2, 2]),
    "i32": (TensorProto.INT32, [1, 5]),
    "i64": (TensorProto.INT64, []),
    "u8": (TensorProto.UINT8, [7]),
}
save(
    "kinds",
    # The numbers are added to themselves, for bytes by way of i32: the runtime adds no bytes.
    [helper.make_node("Add", [kind, kind], [f"{kind}_twice"]) for kind in KINDS if kind != "u8"]
    + [
        helper.make_node("Cast", ["u8"], ["wide"], to=TensorProto.INT32),
        helper.make_node("Add", ["wide", "wide"], ["wide_twice"]),
        helper.make_node("Cast", ["wide_twice"], ["u8_twice"], to=TensorProto.UINT8),
    ],
    [info(name, *kind) for name, kind in KINDS.items()],
    [info(f"{name}_twice", *kind) for name, kind in KINDS.items()],
)

# It says that it gives as many rows as it takes, and gives twice as many.
save(
    "mismatch",
    [helper.make_node("Reshape", ["x", "shape"], ["y"])],
    [info("x", TensorProto.FLOAT, ["batch", 4])],
    [info("y", TensorProto.FLOAT, ["batch", 2])],
    [numpy_helper.from_array(np.array([-1, 2], np.int64), "shape")],
)

# An element by its index, which a launch may choose badly.
save(
    "element",
    [helper.make_node("Gather", ["values", "index"], ["value"])],
    [info("index", TensorProto.INT64, [])],
    [info("value", TensorProto.FLOAT, [])],
    [numpy_helper.from_array(np.array([10, 20, 30], np.float32), "values")],
)

# Sizes inside are open.
save(
    "open",
    [helper.make_node("Identity", ["x"], ["y"])],
    [info("x", TensorProto.FLOAT, ["batch", "width"])],
    [info("y", TensorProto.FLOAT, ["batch", "width"])],
)

# Not numbers.
save(
    "text",
    [helper.make_node("Identity", ["x"], ["y"])],
    [info("x", TensorProto.STRING, [2])],
    [info("y", TensorProto.STRING, [2])],
)

# Not a tensor.
save(
    "sequence",
    [helper.make_node("SequenceAt", ["x", "first"], ["y"])],
    [helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2])],
    [info("y", TensorProto.FLOAT, [2])],
    [numpy_helper.from_array(np.array(0, np.int64), "first")],
)
