"""Runs a network again and again, and prints what it computed, how fast, and how many kernels.

    python3 inference.py --network vit_s --mode eager --iterations 200
    keeptime run --out t.kt -- python3 inference.py --network vit_s --mode graph
    python3 inference.py --network vit_s --profile      # kernels as PyTorch's own profiler counts

The answer's hash tells whether two runs computed the same bits. With --profile the whole run,
set-up included, is under PyTorch's profiler; without it, the profiler is not even loaded.
"""

import argparse
import hashlib
import json

import torch

import loop
import networks
import triton_kernel


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="vit_s", choices=[*networks.NAMES, "triton"])
    parser.add_argument("--mode", default="eager", choices=networks.MODES)
    loop.add_arguments(parser, iterations=200, warm=10)
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
        answer, rates = loop.run(runner.run, options)
    digest = hashlib.sha256(answer.float().numpy().tobytes()).hexdigest()
    return {"network": options.network, "mode": options.mode, "answer": digest,
            "iterations": options.iterations, "warm": options.warm, "per_second": rates}


def profiled(options):
    """The run under PyTorch's profiler: device activities counted, and times of an inference."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recording:
        result = run(options)
        torch.cuda.synchronize()
    device, calls = [], []
    for event in recording.profiler.kineto_results.events():
        on_device = "cuda" in str(event.device_type()).lower()
        if on_device and event.name() not in NOT_ON_THE_DEVICE:
            device.append((event.start_ns(), event.duration_ns(), event.name()))
        elif not on_device:
            calls.append((event.start_ns(), event.duration_ns(), event.name()))
    copies = sum(name.startswith("Memcpy") for _, _, name in device)
    memsets = sum(name.startswith("Memset") for _, _, name in device)
    result |= {"kernels": len(device) - copies - memsets, "copies": copies, "memsets": memsets}
    return result | inference_times(sorted(device), sorted(calls), options.iterations)


NOT_ON_THE_DEVICE = {"Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event"}
WORK = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch", "cuLaunchKernel", "cudaMemset")


def inference_times(device, calls, iterations):
    """Of the last inferences: from the first call that gives work to the begin of that work, and
    the time that the device was busy. Means in microseconds."""
    firsts, open_ = [], False
    for start, _, name in calls:
        if name == "cudaStreamSynchronize":
            open_ = False
        elif name.startswith(WORK) and not open_:
            firsts.append(start)
            open_ = True
    firsts = firsts[-iterations:]
    latencies, busy, at = [], 0, 0
    for index, first in enumerate(firsts):
        end = firsts[index + 1] if index + 1 < len(firsts) else float("inf")
        while at < len(device) and device[at][0] < first:
            at += 1
        if at < len(device):
            latencies.append(device[at][0] - first)
        while at < len(device) and device[at][0] < end:
            busy += device[at][1]
            at += 1
    count = max(len(latencies), 1)
    return {"launch_time_us": sum(latencies) / count / 1e3, "gpu_time_us": busy / count / 1e3}


def main():
    options = arguments()
    result = profiled(options) if options.profile else run(options)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
