"""Runs a network again and again, and prints what it computed, how fast, and how many kernels.

    python3 inference.py --network vit_s --mode eager --iterations 200
    keeptime run --record t.kt -- python3 inference.py --network vit_s --mode graph
    python3 inference.py --network vit_s --profile      # kernels as PyTorch's own profiler counts

The answer's hash tells whether two runs computed the same bits. With --profile the whole run,
set-up included, is under PyTorch's profiler; without it, the profiler is not even loaded.
"""

import argparse
import hashlib
import json
import time

import torch

import networks
import triton_kernel


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="vit_s", choices=[*networks.NAMES, "triton"])
    parser.add_argument("--mode", default="eager", choices=networks.MODES)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--warm", type=int, default=10, help="iterations before timing")
    parser.add_argument("--batches", type=int, default=1, help="timings of so many iterations")
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


def run(options):
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    with torch.inference_mode():
        if options.network == "triton":
            runner = triton_kernel.Runner()
        else:
            runner = networks.MODES[options.mode](*networks.build(options.network))
        for _ in range(options.warm):
            runner.run()
        rates = []
        for _ in range(options.batches):
            begin = time.perf_counter()
            for _ in range(options.iterations):
                answer = runner.run()
            rates.append(options.iterations / (time.perf_counter() - begin))
    digest = hashlib.sha256(answer.float().numpy().tobytes()).hexdigest()
    return {"network": options.network, "mode": options.mode, "answer": digest,
            "iterations": options.iterations, "warm": options.warm, "per_second": rates}


def profiled(options):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recording:
        result = run(options)
        torch.cuda.synchronize()
    kernels = copies = memsets = 0
    for event in recording.profiler.kineto_results.events():
        if "cuda" not in str(event.device_type()).lower():
            continue
        name = event.name()
        if name.startswith("Memcpy"):
            copies += 1
        elif name.startswith("Memset"):
            memsets += 1
        elif name not in NOT_ON_THE_DEVICE:
            kernels += 1
    return result | {"kernels": kernels, "copies": copies, "memsets": memsets}


NOT_ON_THE_DEVICE = {"Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event"}


def main():
    options = arguments()
    result = profiled(options) if options.profile else run(options)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
