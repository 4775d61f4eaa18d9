#!/usr/bin/env python3
"""Makes a small digit classifier from nothing: images, training, an ONNX file, a test set.

Needs numpy, onnx and onnxruntime. Writes, beside this script:
  model.onnx   image [batch, 1, 16, 16] f32 in 0..1 -> logits [batch, 10] f32
  images.bin   test images, 256 bytes each, row by row
  labels.bin   the digit of each image, one byte each
  logits.bin   what onnxruntime's Python says of the first images, 10 little-endian f32 each
"""

import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
SIDE = 16
TRAINING, TEST, EXPECTED = 20_000, 600, 32
EPOCHS, BATCH, RATE = 12, 64, 2e-3

# 5 x 7 pixels each.
GLYPHS = """
.###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""


def glyphs():
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    pixels = [[[float(c == "#") for c in row[digit]] for row in rows] for digit in range(10)]
    # A border, so that whoever looks beyond the edge finds nothing there.
    return np.pad(np.array(pixels), ((0, 0), (2, 2), (2, 2)))


def images(count, random):
    """Digits that are turned, scaled, sheared, shifted, dimmed and covered with noise."""
    labels = random.integers(0, 10, count)
    y, x = np.mgrid[0:SIDE, 0:SIDE] - (SIDE - 1) / 2
    angle = random.normal(0, 0.15, (count, 1, 1))
    shear = random.normal(0, 0.12, (count, 1, 1))
    scale = random.uniform(1.5, 2.1, (count, 1, 1))
    down, right = random.uniform(-1.5, 1.5, (2, count, 1, 1))
    u = ((x - right) * np.cos(angle) + (y - down) * np.sin(angle)) / scale
    v = ((y - down) * np.cos(angle) - (x - right) * np.sin(angle)) / scale
    # The middle of a glyph with its border is pixel (5, 4).
    column, row = np.clip(u + shear * v + 4, 0, 7.999), np.clip(v + 5, 0, 9.999)
    left, top = column.astype(int), row.astype(int)
    dx, dy = column - left, row - top
    font, which = glyphs(), labels[:, None, None]
    picture = (
        font[which, top, left] * (1 - dx) * (1 - dy)
        + font[which, top, left + 1] * dx * (1 - dy)
        + font[which, top + 1, left] * (1 - dx) * dy
        + font[which, top + 1, left + 1] * dx * dy
    )
    picture = picture * random.uniform(0.6, 1, (count, 1, 1))
    picture += random.normal(0, 0.12, picture.shape)
    return (np.clip(picture, 0, 1) * 255).round().astype(np.uint8), labels.astype(np.uint8)


class Convolution:
    """3 x 3, every second pixel, padded by one."""

    def __init__(self, inputs, outputs, random):
        deviation = np.sqrt(2 / (9 * inputs))
        weight = random.normal(0, deviation, (inputs * 9, outputs))
        self.parameters = [weight.astype(np.float32), np.zeros(outputs, np.float32)]

    def forward(self, x):
        self.shape = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
        count, channels, height, width = view.shape[:4]
        self.tiles = view.transpose(0, 2, 3, 1, 4, 5).reshape(-1, channels * 9)
        y = self.tiles @ self.parameters[0] + self.parameters[1]
        return y.reshape(count, height, width, -1).transpose(0, 3, 1, 2)

    def backward(self, slope):
        count, channels, height, width = slope.shape
        slope = slope.transpose(0, 2, 3, 1).reshape(-1, channels)
        self.slopes = [self.tiles.T @ slope, slope.sum(0)]
        tiles = (slope @ self.parameters[0].T).reshape(count, height, width, self.shape[1], 3, 3)
        x = np.zeros((*self.shape[:2], self.shape[2] + 2, self.shape[3] + 2), np.float32)
        for i in range(3):
            for j in range(3):
                part = tiles[..., i, j].transpose(0, 3, 1, 2)
                x[:, :, i : i + 2 * height : 2, j : j + 2 * width : 2] += part
        return x[:, :, 1:-1, 1:-1]

    def weight(self):
        matrix = self.parameters[0]
        return matrix.T.reshape(matrix.shape[1], -1, 3, 3)


class Dense:
    def __init__(self, inputs, outputs, random):
        weight = random.normal(0, np.sqrt(1 / inputs), (inputs, outputs))
        self.parameters = [weight.astype(np.float32), np.zeros(outputs, np.float32)]

    def forward(self, x):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.parameters[0] + self.parameters[1]

    def backward(self, slope):
        self.slopes = [self.x.T @ slope, slope.sum(0)]
        return (slope @ self.parameters[0].T).reshape(self.shape)


class Relu:
    parameters = []

    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, slope):
        return slope * self.on


def forward(layers, pixels):
    x = pixels.astype(np.float32)[:, None] / np.float32(255)
    for layer in layers:
        x = layer.forward(x)
    return x


def train(layers, pixels, labels, random):
    """Adam on the cross entropy."""
    trained = [layer for layer in layers if layer.parameters]
    means = [[np.zeros_like(p) for p in layer.parameters] for layer in trained]
    squares = [[np.zeros_like(p) for p in layer.parameters] for layer in trained]
    step = 0
    for epoch in range(EPOCHS):
        rate, right = RATE * (1 - epoch / EPOCHS), 0
        for batch in np.split(random.permutation(len(pixels)), range(BATCH, len(pixels), BATCH)):
            logits = forward(layers, pixels[batch])
            right += (logits.argmax(1) == labels[batch]).sum()
            chance = np.exp(logits - logits.max(1, keepdims=True))
            slope = chance / chance.sum(1, keepdims=True)
            slope[np.arange(len(batch)), labels[batch]] -= 1
            slope /= len(batch)
            for layer in reversed(layers):
                slope = layer.backward(slope)
            step += 1
            for layer, mean, square in zip(trained, means, squares):
                for p, g, m, s in zip(layer.parameters, layer.slopes, mean, square):
                    m += 0.1 * (g - m)
                    s += 0.001 * (g * g - s)
                    p -= rate * (m / (1 - 0.9**step)) / (np.sqrt(s / (1 - 0.999**step)) + 1e-8)
        print(f"epoch {epoch + 1}: {100 * right / len(pixels):.2f} % of the training images")


def export(layers):
    first, _, second, _, last = layers
    tensors = {
        "weight1": first.weight(),
        "bias1": first.parameters[1],
        "weight2": second.weight(),
        "bias2": second.parameters[1],
        "weight3": last.parameters[0],
        "bias3": last.parameters[1],
    }
    stride = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "weight1", "bias1"], ["a"], **stride),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "weight2", "bias2"], ["c"], **stride),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "weight3", "bias3"], ["logits"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, SIDE, SIDE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    values = [
        numpy_helper.from_array(np.ascontiguousarray(value), name)
        for name, value in tensors.items()
    ]
    graph = helper.make_graph(nodes, "digits", [image], [logits], values)
    # Old enough for every version of the runtime that the device accepts.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / "model.onnx")


def main():
    random = np.random.default_rng(1)
    pixels, labels = images(TRAINING, random)
    layers = [
        Convolution(1, 8, random),
        Relu(),
        Convolution(8, 16, random),
        Relu(),
        Dense(16 * 4 * 4, 10, random),
    ]
    train(layers, pixels, labels, random)
    export(layers)

    pixels, labels = images(TEST, random)
    session = onnxruntime.InferenceSession(HERE / "model.onnx", providers=["CPUExecutionProvider"])
    logits = session.run(None, {"image": pixels.astype(np.float32)[:, None] / np.float32(255)})[0]
    assert np.abs(logits - forward(layers, pixels)).max() < 1e-3, "the export differs"
    print(f"test: {100 * (logits.argmax(1) == labels).mean():.2f} % of {TEST} images")
    (HERE / "images.bin").write_bytes(pixels.tobytes())
    (HERE / "labels.bin").write_bytes(labels.tobytes())
    (HERE / "logits.bin").write_bytes(logits[:EXPECTED].astype("<f4").tobytes())


if __name__ == "__main__":
    main()
