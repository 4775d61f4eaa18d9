#!/usr/bin/env python3
"""Measures what the server costs an inference: by it and directly, in turns, in one run.

    ./compare.py --keeptime ../../target/release/keeptime [--rounds 6] [--wait spin,sleep]

Starts `keeptime serve` with the system file and two clients, one for each way, which stay for all
rounds. In each round every block is measured by one and then by the other; who begins changes.
Writes comparison.txt, comparison.json and all samples into the output folder. Exit status: 1 if the
server costs more than the limit, or an output was wrong; 2 if the comparison could not be made.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WAYS = ["direct", "server"]
# An inference by the server may take longer by the larger of these.
LIMIT_US, LIMIT_PART = 50.0, 0.05
# The steps of a request by the server, and the columns between which they lie.
STEPS = {
    "to the server": (None, "arrived_ns"),
    "to the device's thread": ("arrived_ns", "started_ns"),
    "on the device": ("started_ns", "finished_ns"),
    "to the answer": ("finished_ns", "answered_ns"),
    "to the client": ("answered_ns", "took_ns"),
}
# How long a server or a client may take to load the network.
PATIENCE_S = 150


class Failed(Exception):
    pass


def absolute(text):
    return pathlib.Path(text).resolve()


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    build = HERE / "build"
    parser.add_argument("--keeptime", type=absolute, required=True, help="the command")
    parser.add_argument("--client", type=absolute, default=build / "client")
    system = HERE / "server.yaml"
    parser.add_argument("--system", type=absolute, default=system, help="the system file")
    parser.add_argument("--service", default="vit", help="its service")
    parser.add_argument("--library", type=absolute, default=build / "libvit.so")
    parser.add_argument("--configuration", default="examples/vit-service/build/vit.ts")
    parser.add_argument("--input", type=absolute, default=build / "input.bin")
    parser.add_argument("--expected", type=absolute, default=build / "expected.bin")
    parser.add_argument("--type", default="float16", help="of the output's numbers")
    parser.add_argument("--arguments", default="0", help="of each request")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--blocks", default="5000:200,0:400", help="PERIOD_US:COUNT,...")
    parser.add_argument("--wait", default="spin,sleep", help="how clients wait")
    parser.add_argument("--core", default="2", help="of the clients; empty: any")
    parser.add_argument("--fifo", default="", help="SCHED_FIFO priority of the clients")
    parser.add_argument("--out", type=absolute, default=build / "comparison")
    return parser.parse_args()


class Server:
    """`keeptime serve`, for as long as the block lasts."""

    def __init__(self, given):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = pathlib.Path(self.folder.name) / "keeptime.sock"
        self.summary = given.out / "server.json"
        self.log = given.out / "server.log"
        command = [given.keeptime, "serve", given.system, "--socket", self.socket]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [*command, "--summary", self.summary], cwd=ROOT, stdout=log, stderr=log
            )

    def __enter__(self):
        end = time.monotonic() + PATIENCE_S
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise Failed(f"the server does not serve:\n{self.log.read_text()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.cleanup()


class Client:
    """One way to the GPU; measures a block when it is asked to."""

    def __init__(self, given, way, wait, socket):
        self.way, self.wait = way, wait
        self.csv = given.out / f"{way}-{wait}.csv"
        command = [given.client, "--turns", "--json", "--wait", wait, "--csv", self.csv]
        command += ["--input", given.input, "--expected", given.expected]
        command += ["--type", given.type, "--arguments", given.arguments]
        command += ["--core", given.core] if given.core else []
        command += ["--fifo", given.fifo] if given.fifo else []
        if way == "server":
            command += ["--server", socket, "--service", given.service]
        else:
            command += ["--direct", given.library, "--configuration", given.configuration]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)

    def measure(self, block):
        try:
            self.process.stdin.write(block + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # What it said when it ended is on standard error.
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"the client of the way {self.way} ended, status {self.process.wait()}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)

    def samples(self):
        with open(self.csv) as file:
            return list(csv.DictReader(file))


def quantile(values, part):
    """The smallest one that this part of them does not exceed."""
    return sorted(values)[max(math.ceil(part * len(values)), 1) - 1]


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def compare(given, wait, socket):
    """All rounds with one way to wait."""
    blocks = given.blocks.split(",")
    clients = {}
    try:
        for way in WAYS:
            clients[way] = Client(given, way, wait, socket)
        rounds = []
        for number in range(given.rounds):
            for block in blocks:
                order = WAYS if number % 2 == 0 else WAYS[::-1]
                said = {way: clients[way].measure(block) for way in order}
                rounds.append({"round": number, "block": block, **said})
        statuses = {way: client.end() for way, client in clients.items()}
    finally:
        for client in clients.values():
            if client.process.poll() is None:
                client.process.kill()
                client.process.wait()
    samples = {way: client.samples() for way, client in clients.items()}
    right = all(status == 0 for status in statuses.values())
    found = [summary(block, wait, rounds, samples, blocks) for block in blocks]
    return rounds, found, right


def summary(block, wait, rounds, samples, blocks):
    """What the rounds of one block say together."""
    mine = [each for each in rounds if each["block"] == block]
    p50 = {way: [each[way]["p50_us"] for each in mine] for way in WAYS}
    pairs = list(zip(p50["direct"], p50["server"]))
    number = {str(at) for at in range(len(rounds)) if blocks[at % len(blocks)] == block}
    rows = {way: [row for row in samples[way] if row["block"] in number] for way in WAYS}
    whole = {}
    for way in WAYS:
        took = [int(row["took_ns"]) / 1000 for row in rows[way]]
        whole[way] = {"p50_us": quantile(took, 0.5), "p99_us": quantile(took, 0.99)}
        whole[way] |= {"max_us": max(took), "samples": len(took)}
    steps = {name: step_us(rows["server"], *columns) for name, columns in STEPS.items()}
    longer = spread([server - direct for direct, server in pairs])
    allowed = max(LIMIT_US, LIMIT_PART * statistics.median(p50["direct"]))
    return {
        "wait": wait,
        "block": block,
        **whole,
        "steps_us": steps,
        "longer_us": longer,
        "ratio": spread([server / direct for direct, server in pairs]),
        "allowed_us": allowed,
        "within": longer["median"] <= allowed,
    }


def step_us(rows, begin, end):
    """The median length of a step."""
    begins = (int(row[begin]) if begin else 0 for row in rows)
    return statistics.median((int(row[end]) - at) / 1000 for row, at in zip(rows, begins))


def text(found, rounds):
    period = int(found["block"].split(":")[0])
    when = f"every {period / 1000:g} ms" if period else "back to back"
    lines = [f"{when}, clients {found['wait']}:"]
    for way in WAYS:
        of = found[way]
        lines.append(
            f"  {way}  p50 {of['p50_us']:9.1f} us   p99 {of['p99_us']:9.1f} us   "
            f"max {of['max_us']:9.1f} us   of {of['samples']}"
        )
    steps = ", ".join(f"{name} {us:.1f}" for name, us in found["steps_us"].items())
    lines.append(f"          medians of its steps in us: {steps}")
    longer, ratio = found["longer_us"], found["ratio"]
    lines.append(
        f"  the server's median is longer by {longer['median']:.1f} us "
        f"({longer['least']:.1f} to {longer['most']:.1f} in {rounds} rounds), "
        f"{ratio['median']:.3f} times ({ratio['least']:.3f} to {ratio['most']:.3f})"
    )
    verdict = "within" if found["within"] else "MORE THAN"
    lines.append(f"  {verdict} the {found['allowed_us']:.1f} us that are allowed")
    return "\n".join(lines)


def main():
    given = options()
    given.out.mkdir(parents=True, exist_ok=True)
    waits = given.wait.split(",")
    all_rounds, all_found, right = [], [], True
    with Server(given) as server:
        for wait in waits:
            rounds, found, good = compare(given, wait, server.socket)
            all_rounds += [{"wait": wait, **each} for each in rounds]
            all_found += found
            right = right and good
    report = "\n".join(text(found, given.rounds) for found in all_found)
    print(report)
    exported = given.input.parent / "export.json"
    said = {
        "command": sys.argv[1:],
        "machine": {"cores": os.cpu_count(), "kernel": os.uname().release},
        "network": json.loads(exported.read_text()) if exported.exists() else None,
        "summary": all_found,
        "outputs_right": right,
        "rounds": all_rounds,
        "server": json.loads(server.summary.read_text()),
    }
    (given.out / "comparison.txt").write_text(report + "\n")
    (given.out / "comparison.json").write_text(json.dumps(said, indent=1) + "\n")
    if not right:
        print("an output was wrong")
    return 0 if right and all(found["within"] for found in all_found) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, OSError) as why:
        print(f"compare.py: {why}", file=sys.stderr)
        sys.exit(2)
