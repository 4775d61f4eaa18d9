"""Repeats document 000's tables with today's driver, and checks the recorder on PyTorch.

    python3 study.py --keeptime ../../target/release/keeptime --out results

Parts: `coverage` (kernels recorded against kernels that PyTorch's profiler saw; answers compared
bit by bit), `cost` (inferences a second bare and recorded, alternated), `tables` (launches, copies,
locks and times of an inference, with and without a CUDA graph). Every program runs in a process of
its own. One JSON object goes to OUT/study.json after each part, and a summary to the terminal.
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

HERE = pathlib.Path(__file__).parent
NETWORKS = ["vit_s", "regnet_y", "deit_b", "detr", "segformer"]


class Study:
    def __init__(self, options):
        self.keeptime = options.keeptime
        self.timeout = options.timeout
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keeptime-study-"))
        self.count = 0

    def program(self, *arguments):
        return [sys.executable, str(HERE / "inference.py"), *map(str, arguments)]

    def run(self, command):
        """The JSON object that the program prints last."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def bare(self, *arguments):
        return self.run(self.program(*arguments))

    def recorded(self, options, *arguments, report=True):
        """What the program prints under the recorder, and the report of its trace."""
        self.count += 1
        trace = self.folder / f"{os.getpid()}-{self.count}-{'-'.join(map(str, arguments))}.kt"
        command = [self.keeptime, "run", "--quiet", "--record", str(trace), *options, "--"]
        answer = self.run(command + self.program(*arguments))
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


def cost(study, rounds, modes):
    """Inferences a second under each variant; the variants take turns."""
    variants = {"bare": None, "contended": ["--contended"], "full": ["--memory", "512MiB"]}
    rates = {mode: {name: [] for name in variants} for mode in modes}
    answers = set()
    for turn in range(rounds):
        names = list(variants)
        names = names[turn % 3:] + names[:turn % 3]
        for mode in rates:
            for name in names:
                arguments = ["--mode", mode, "--iterations", 100, "--batches", 8, "--warm", 20]
                if name == "bare":
                    answer = study.bare(*arguments)
                else:
                    answer, _ = study.recorded(variants[name], *arguments, report=False)
                rates[mode][name].append(statistics.median(answer["per_second"]))
                answers.add(answer["answer"])
    ratios = {mode: {name: [rate / bare for rate, bare in zip(of[name], of["bare"])]
                     for name in variants if name != "bare"} for mode, of in rates.items()}
    summary = {mode: {name: {"median": statistics.median(of), "least": min(of), "most": max(of)}
                      for name, of in each.items()} for mode, each in ratios.items()}
    return {"per_second": rates, "of_bare": summary, "distinct_answers": len(answers)}


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keeptime", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--parts", default="coverage,cost,tables")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--modes", default="eager,graph", help="for cost")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="for tables")
    parser.add_argument("--timeout", type=int, default=200, help="seconds for one program")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    study, results = Study(options), {}
    parts = {"coverage": lambda: coverage(study), "cost": lambda: cost(study, options.rounds, options.modes.split(",")),
             "tables": lambda: tables(study, options.networks.split(","))}
    for part in options.parts.split(","):
        results[part] = parts[part]()
        path = options.out / f"study-{'-'.join(results)}.json"
        path.write_text(json.dumps(results, indent=1))
        print(json.dumps(results[part])[:6000], flush=True)


if __name__ == "__main__":
    main()
