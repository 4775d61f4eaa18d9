#!/usr/bin/env python3
"""Checks the client and compare.py where there is no GPU: with the perceptron of gpu-service on the
fake driver of late-launch, which `make check` builds. Times mean nothing there; outputs and exit
statuses do.

    ./check.py --keeptime ../../target/release/keeptime --build build
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent
WEIGHTS = EXAMPLES / "gpu-service/weights.bin"


def layer(weights, inputs, outputs):
    """The numbers of the next layer; each output's weights end with its bias."""
    row = len(inputs) + 1
    rows = [weights[at * row : at * row + row] for at in range(outputs)]
    return [sum(a * b for a, b in zip(one, [*inputs, 1.0])) for one in rows]


def write_digit(folder):
    """The first test image, and what the perceptron makes of it."""
    data = WEIGHTS.read_bytes()
    inputs, hidden, outputs = struct.unpack("<3I", data[:12])
    weights = struct.unpack(f"<{(len(data) - 12) // 4}f", data[12:])
    pixels = (EXAMPLES / "digits/images.bin").read_bytes()[:inputs]
    image = [pixel / 255 for pixel in pixels]
    between = [max(number, 0.0) for number in layer(weights, image, hidden)]
    scores = layer(weights[hidden * (inputs + 1) :], between, outputs)
    (folder / "digit.bin").write_bytes(struct.pack(f"<{inputs}f", *image))
    (folder / "scores.bin").write_bytes(struct.pack(f"<{outputs}f", *scores))
    (folder / "wrong.bin").write_bytes(struct.pack(f"<{outputs}f", *scores[::-1]))


def write_system(folder, library):
    kernel = {"name": "digits", "library": str(library), "configuration": str(WEIGHTS)}
    kernel |= {"input": [0, 1024], "output": [0, 40]}
    gpu = {"id": "gpu0", "buckets": 1, "device": "cuda:0", "kernels": [kernel]}
    (folder / "digits.json").write_text(json.dumps({"accelerators": [gpu]}))


def run(command, status, *, says=""):
    """Runs something that ends with one of these statuses, and says this."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    if done.returncode not in status or says not in said:
        sys.exit(f"{command}: status {done.returncode}, expected {status} and {says!r}:\n{said}")
    print(f"ok: status {done.returncode}: {says}")
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--keeptime", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    given = parser.parse_args()
    build = given.build.resolve()
    os.environ["LD_LIBRARY_PATH"] = str(build / "fake")
    library = build / "perceptron/libperceptron.so"
    write_digit(build)
    write_system(build, library)

    client = [build / "client", "--input", build / "digit.bin", "--type", "float32"]
    direct = [*client, "--arguments", "1", "--direct", library, "--configuration", WEIGHTS]
    samples = build / "one.csv"
    right = [*direct, "--expected", build / "scores.bin", "--block", "0:50", "--csv", samples]
    run(right, {0}, says="50 requests")
    rows = samples.read_text().splitlines()
    if len(rows) != 51:
        sys.exit(f"{len(rows)} rows of samples, expected 51")
    run([*direct, "--expected", build / "wrong.bin"], {1}, says="the output is wrong")
    run([*right, "--arguments", "65"], {2}, says="the service refused the request")
    run([*right, "--block", "50"], {2}, says='found "50", expected PERIOD_US:COUNT')
    run([*right, "--server", ""], {2}, says="either --server or --direct")

    out = build / "checked"
    compare = [sys.executable, HERE / "compare.py", "--keeptime", given.keeptime, "--core", ""]
    compare += ["--client", build / "client"]
    compare += ["--system", build / "digits.json", "--service", "digits"]
    compare += ["--library", library, "--configuration", WEIGHTS, "--input", build / "digit.bin"]
    compare += ["--type", "float32", "--arguments", "1", "--rounds", "2", "--out", out]
    compare += ["--blocks", "1000:20,0:30"]
    status = run([*compare, "--expected", build / "scores.bin"], {0, 1}, says="clients sleep")
    said = json.loads((out / "comparison.json").read_text())
    within = all(found["within"] for found in said["summary"])
    # Two clients, each with a warm-up of 100 and two rounds.
    done = said["server"]["counters"]["done"]
    if not said["outputs_right"] or within != (status == 0) or done != 2 * (100 + 2 * 50):
        sys.exit(f"comparison.json is not what was measured: {status} {done} {said['summary']}")
    run([*compare, "--expected", build / "wrong.bin"], {1}, says="an output was wrong")
    run([*compare, "--expected", build / "scores.bin", "--service", "no"], {2}, says='service "no"')


if __name__ == "__main__":
    main()
