"""Repeats "Autonomy Today"'s tables with today's driver, and checks the recorder on PyTorch.

    python3 study.py --keeptime ../../target/release/keeptime --out results

Parts: `coverage` (kernels recorded against kernels that PyTorch's profiler saw; answers compared
bit by bit), `cost` and `guard` (iterations a second bare and recorded, or bare and guarded, in
turns; answers compared), `tables` (launches, copies, locks and times of an inference, with and
without a CUDA graph). Every program runs in a process of its own. One JSON object goes to
OUT/study-PARTS.json after each part, and a summary to the terminal.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).parent
NETWORKS = ["vit_s", "regnet_y", "deit_b", "detr", "segformer"]


class Study:
    def __init__(self, options):
        self.keeptime = options.keeptime
        self.timeout = options.timeout
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keeptime-study-"))
        self.count = 0

    def program(self, name, *arguments):
        return [sys.executable, str(HERE / name), *map(str, arguments)]

    def run(self, command):
        """The JSON object that the program prints last."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def bare(self, *arguments):
        return self.run(self.program("inference.py", *arguments))

    def recorded(self, options, *arguments, report=True):
        """What the program prints under the recorder, and the report of its trace."""
        self.count += 1
        trace = self.folder / f"{os.getpid()}-{self.count}-{'-'.join(map(str, arguments))}.kt"
        command = [self.keeptime, "run", "--quiet", "--out", str(trace), *options, "--"]
        answer = self.run(command + self.program("inference.py", *arguments))
        found = None
        if report:
            command = [self.keeptime, "report", "--json", str(trace)]
            text = subprocess.run(command, capture_output=True, text=True, timeout=self.timeout)
            if text.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}: status {text.returncode}\n{text.stderr[-2000:]}")
            found = json.loads(text.stdout)
        trace.unlink()
        return answer, found


def coverage(study):
    """Kernels recorded and profiled, and whether the answers are the same bits."""
    rows = []
    for network, mode in [("vit_s", "eager"), ("vit_s", "graph"), ("vit_s", "compile"),
                          ("triton", "eager")]:
        arguments = ["--network", network, "--mode", mode, "--iterations", 50, "--warm", 5]
        try:
            bare = study.bare(*arguments)
            profiled = study.bare(*arguments, "--profile")
            answer, report = study.recorded(["--memory", "512MiB"], *arguments)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            rows.append({"network": network, "mode": mode, "error": str(error)[-1500:]})
            continue
        launches = report["launches"]
        rows.append({
            "network": network, "mode": mode,
            "kernels_profiled": profiled["kernels"],
            "kernels_recorded": launches["direct"] + launches["kernels_in_graphs"],
            "direct": launches["direct"], "graphs": launches["graphs"],
            "copies_profiled": profiled["copies"],
            "copies_recorded": launches["copies"] + launches["copies_in_graphs"],
            "memsets_profiled": profiled["memsets"],
            "memsets_recorded": launches["memsets"] + launches["memsets_in_graphs"],
            "same_answer": bare["answer"] == answer["answer"] == profiled["answer"],
            "records": report["records"], "losses": report["losses"],
        })
    return rows


RECORDED = {"contended": ["--contended"], "full": ["--memory", "512MiB"]}
GUARDED = {mode: ["--guard", mode] for mode in ["inherit", "fair", "fair+inherit", "audit"]}
GUARDED["mutexes alone"] = ["--guard", "fair+inherit", "--guard-rwlocks", "alone"]
WORKLOADS = {
    "eager": ["inference.py", "--mode", "eager", "--warm", 20],
    "graph": ["inference.py", "--mode", "graph", "--warm", 20],
    "train": ["training.py", "--warm", 5],
}
CPU = max(os.sched_getaffinity(0))
ITERATIONS = {"eager": 40, "graph": 60, "train": 5}


class Side:
    """A program that works when it is its turn."""

    def __init__(self, study, command):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)
        # A program that hangs ends here, and is missed by whoever reads from it.
        self.timer = threading.Timer(study.timeout, self.process.kill)
        self.timer.start()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            status = self.process.wait()
            raise RuntimeError(f"{' '.join(self.process.args)}: status {status}\n{self.errors.read()[-2000:]}")
        return json.loads(line)

    def turn(self, iterations):
        self.process.stdin.write(f"{iterations}\n")
        self.process.stdin.flush()
        return self.read()

    def end(self):
        self.process.stdin.close()
        answer = self.read()["answer"]
        self.process.wait()
        self.timer.cancel()
        return answer


def in_turns(study, variants, workload, processes, turns):
    """Iterations a second of several processes of each variant, and their answers. All are set up
    side by side; then each works for a moment while the others wait, again and again, in an order
    that rotates."""
    sides = {}
    try:
        for name, options in variants.items():
            program = study.program(*WORKLOADS[workload], "--turns", "--cpu", CPU)
            under = [] if options is None else [study.keeptime, "run", "--quiet", *options, "--"]
            for process in range(processes):
                command = [part.replace("{process}", str(process)) for part in under] + program
                sides[name, process] = Side(study, command)
        for side in sides.values():
            side.read()
        rates = {name: [[] for _ in range(processes)] for name in variants}
        order = list(sides)
        for turn in range(turns):
            first = turn * processes % len(order)
            for name, process in order[first:] + order[:first]:
                rates[name][process].append(sides[name, process].turn(ITERATIONS[workload]))
        return rates, {side.end() for side in sides.values()}
    finally:
        for side in sides.values():
            side.timer.cancel()
            side.process.kill()


def cost(study, options, variants):
    """What the variants cost. Two processes of one program differ by more than what is looked for,
    so there are several of each variant. Of each process: the median over the turns of its rate,
    as a part of the mean of the bare ones in that turn. What the bare ones say of themselves shows
    how well the others can be told from them."""
    variants = {"bare": None} | variants
    rows = []
    for workload in options.workloads.split(","):
        rates, answers = in_turns(study, variants, workload, options.processes, options.turns)
        bare = [statistics.mean(turn) for turn in zip(*rates["bare"])]
        parts = {name: [statistics.median(rate / of for rate, of in zip(process, bare))
                        for process in processes] for name, processes in rates.items()}
        rows.append({"workload": workload, "iterations_a_turn": ITERATIONS[workload],
                     "distinct_answers": len(answers),
                     "of_bare": {name: round(statistics.mean(of), 4) for name, of in parts.items()},
                     "of_each_process": {name: [round(part, 4) for part in of]
                                         for name, of in parts.items()},
                     "per_second": rates})
    return rows



def recorded(study, options):
    """What recording costs."""
    variants = {name: [*given, "--out", str(study.folder / f"{name}-{{process}}.kt")]
                for name, given in RECORDED.items()}
    return cost(study, options, variants)


def guarded(study, options):
    """What guarded locks cost, and whether the program computes the same."""
    chosen = options.guards.split(",")
    return cost(study, options, {name: GUARDED[name] for name in chosen})


def counts(study, network, mode):
    """Launches, copies and locks of one inference: the difference of two runs."""
    def totals(iterations):
        arguments = ["--network", network, "--mode", mode, "--iterations", iterations, "--warm", 3]
        _, report = study.recorded(["--tier", "preload", "--memory", "512MiB"], *arguments)
        launches = report["launches"]
        calls = {}
        for call in report["calls"]:
            of = calls.setdefault(call["group"], [0, 0])
            count = call["duration"]["count"]
            of[0] += count
            of[1] += count * (call["duration"]["p50_ns"] or 0)
        locks = sum(use["acquisitions"] for lock in report["locks"] for use in (lock["read"], lock["other"]))
        return {"launches": launches["direct"] + launches["graphs"], "kernels": launches["direct"]
                + launches["kernels_in_graphs"], "copies": launches["copies"],
                "locks": locks + report["forgotten_locks"]["acquisitions"],
                "usual": {group: total / max(count, 1) / 1e3 for group, (count, total) in calls.items()},
                "lost": report["losses"]["lost"] + report["losses"]["overwritten"]}

    few, many = totals(10), totals(60)
    each = {key: (many[key] - few[key]) / 50 for key in many if key != "usual"}
    # Medians of each kind of call, weighted by how often it was made: a first launch, which loads
    # its kernel, would spoil a mean.
    each["launch_latency_us"] = many["usual"].get("launch")
    each["copy_latency_us"] = many["usual"].get("copy")
    return each


def tables(study, networks):
    """Table 1 and Table 2: counts first, four at a time, then times, one after the other."""
    kinds = [(network, mode) for network in networks for mode in ("eager", "graph")]
    rows = {}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = {kind: pool.submit(counts, study, *kind) for kind in kinds}
    for (network, mode), future in futures.items():
        row = {"network": network, "mode": mode}
        try:
            row |= future.result()
            arguments = ["--network", network, "--mode", mode, "--iterations", 50, "--warm", 10]
            bare = study.bare(*arguments, "--batches", 5)
            row["end_to_end_us"] = 1e6 / statistics.median(bare["per_second"])
            timed = study.bare(*arguments, "--profile")
            row |= {key: timed[key] for key in ("launch_time_us", "gpu_time_us")}
        except (RuntimeError, subprocess.SubprocessError, KeyError) as error:
            row["error"] = repr(error)[-1500:]
        rows[f"{network} {mode}"] = row
    return list(rows.values())


def summary(rows):
    return [{key: value for key, value in row.items() if key != "per_second"} for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keeptime", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--parts", default="coverage,cost,tables")
    parser.add_argument("--processes", type=int, default=3, help="of each variant, for cost and guard")
    parser.add_argument("--turns", type=int, default=30, help="of each process, for cost and guard")
    parser.add_argument("--workloads", default="eager,graph,train", help="for cost and guard")
    parser.add_argument("--guards", default=",".join(GUARDED), help="for guard")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="for tables")
    parser.add_argument("--timeout", type=int, default=200, help="seconds for one program")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    study, results = Study(options), {}
    parts = {"coverage": lambda: coverage(study), "cost": lambda: recorded(study, options),
             "guard": lambda: guarded(study, options),
             "tables": lambda: tables(study, options.networks.split(","))}
    for part in options.parts.split(","):
        results[part] = parts[part]()
        path = options.out / f"study-{'-'.join(results)}.json"
        path.write_text(json.dumps(results, indent=1))
        print(json.dumps(summary(results[part]))[:6000], flush=True)


if __name__ == "__main__":
    main()
