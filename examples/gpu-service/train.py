#!/usr/bin/env python3
"""Trains the perceptron that reads the digits of ../digits, and writes its weights.

Needs what ../digits/train.py needs, which draws the images. weights.bin is little-endian: the
numbers of inputs, of hidden ones and of outputs, u32 each; then f32, for each hidden number its
weights and its bias, and likewise for each output.
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "digits"))
from train import images  # noqa: E402

INPUTS, HIDDEN, OUTPUTS = 256, 32, 10
EPOCHS, BATCH, RATE = 15, 64, 2e-3


def with_one(x):
    return np.concatenate([x, np.ones((len(x), 1), np.float32)], 1)


def forward(weights, x):
    hidden = np.maximum(with_one(x) @ weights[0].T, 0)
    return hidden, with_one(hidden) @ weights[1].T


def gradients(weights, x, labels):
    hidden, logits = forward(weights, x)
    error = np.exp(logits - logits.max(1, keepdims=True))
    error /= error.sum(1, keepdims=True)
    error[np.arange(len(x)), labels] -= 1
    error /= len(x)
    back = (error @ weights[1][:, :HIDDEN]) * (hidden > 0)
    return [back.T @ with_one(x), error.T @ with_one(hidden)]


def train(x, labels, random):
    shapes = [(HIDDEN, INPUTS), (OUTPUTS, HIDDEN)]
    weights = [
        np.pad(random.normal(0, np.sqrt(2 / shape[1]), shape), ((0, 0), (0, 1))).astype(np.float32)
        for shape in shapes
    ]
    mean, square = ([np.zeros_like(w) for w in weights] for _ in range(2))
    step = 0
    for _ in range(EPOCHS):
        order = random.permutation(len(x))
        for begin in range(0, len(x), BATCH):
            some = order[begin : begin + BATCH]
            step += 1
            for i, gradient in enumerate(gradients(weights, x[some], labels[some])):
                mean[i] += 0.1 * (gradient - mean[i])
                square[i] += 0.001 * (gradient**2 - square[i])
                slope = (mean[i] / (1 - 0.9**step)) / (np.sqrt(square[i] / (1 - 0.999**step)) + 1e-8)
                weights[i] -= (RATE * slope).astype(np.float32)
    return weights


random = np.random.default_rng(5)
pictures, labels = images(20_000, random)
weights = train(pictures.reshape(-1, INPUTS).astype(np.float32) / 255, labels, random)
test = np.fromfile(HERE.parent / "digits/images.bin", np.uint8).reshape(-1, INPUTS)
answers = forward(weights, test.astype(np.float32) / 255)[1].argmax(1)
right = (answers == np.fromfile(HERE.parent / "digits/labels.bin", np.uint8)).mean()
print(f"{right:.1%} of the test images of ../digits are right")
with open(HERE / "weights.bin", "wb") as file:
    file.write(np.array([INPUTS, HIDDEN, OUTPUTS], "<u4").tobytes())
    for matrix in weights:
        file.write(matrix.astype("<f4").tobytes())
