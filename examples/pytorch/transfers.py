"""How long the inputs of a vehicle's networks take to the GPU, and what copying them ahead of time
is worth: COLA's figures 11d and 13f.

    python3 transfers.py --seconds 60 --out transfers.json
    keeptime run --out t.kt -- python3 transfers.py --ways in-turn --seconds 5

One process has the networks of a vehicle, a thread each: `yolo` (a camera's image of 1920 x 1080,
6.2 MB, and a CSPDarknet-53; so many cameras), `tf` (traffic lights: an image like that, four crops
of it, a MobileNet) and `seg` (the lidar's points as 6 x 864 x 864 features, 17.9 MB, and an
encoder and decoder of convolutions). Weights are random, each network is one CUDA graph, and all
of them share the default stream, as where nothing says otherwise. A frame is there every 33 ms
(cameras) or 100 ms (lidar); a thread that is late takes the newest.

    in-turn   the thread copies its input when it begins with a frame: from pageable memory, in the
              default stream, so behind what the other networks have there
    pinned    as in-turn, from pinned memory
    ahead     when a frame comes in, it is copied at once from pinned memory, in a stream of the
              sensor's own, into the other one of two inputs; the thread only waits until it is there

The time of a transfer is from the thread's beginning with a frame until its input is on the GPU:
what the network waits for. The time of a frame is from the frame until its answer is on the host.
The ways take turns in one process. What a network answers to a frame must be the same bits in all.
"""

import argparse
import hashlib
import json
import pathlib
import statistics
import threading
import time
from concurrent import futures

import torch

WAYS = ["in-turn", "pinned", "ahead"]
TURNS = 4
FRAMES = 4  # different ones of each sensor
CAMERA = (1080, 1920, 3)
LIDAR = (6, 864, 864)


class Camera(torch.nn.Module):
    """Bytes of an image, row by row, to what a network says of it."""

    def __init__(self, network, size, crops=0):
        super().__init__()
        self.network, self.size, self.crops = network, size, crops

    def forward(self, image):
        image = image.permute(2, 0, 1).unsqueeze(0).float() / 255
        if self.crops:
            side = CAMERA[0] // 4
            at = [480 * crop for crop in range(self.crops)]
            image = torch.cat([image[:, :, side:2 * side, x:x + side] for x in at])
        image = torch.nn.functional.interpolate(image, size=self.size)
        return self.network(image)


class Segmentation(torch.nn.Module):
    """Convolutions down to an eighth, and up again: scores of 12 for each cell."""

    def __init__(self):
        super().__init__()
        conv, up = torch.nn.Conv2d, torch.nn.ConvTranspose2d
        layers, width = [conv(6, 24, 1)], 24
        for wider in [48, 64, 96]:
            layers += [conv(width, wider, 3, stride=2, padding=1), torch.nn.ReLU(),
                       conv(wider, wider, 3, padding=1), torch.nn.ReLU()]
            width = wider
        for narrower in [64, 48, 24]:
            layers += [up(width, narrower, 4, stride=2, padding=1), torch.nn.ReLU()]
            width = narrower
        self.layers = torch.nn.Sequential(*layers, conv(width, 12, 1))

    def forward(self, features):
        return self.layers(features.unsqueeze(0)).mean(dim=(2, 3))


def network(kind):
    import timm

    torch.manual_seed(0)
    if kind == "yolo":
        return Camera(timm.create_model("cspdarknet53", pretrained=False), (544, 960))
    if kind == "tf":
        return Camera(timm.create_model("mobilenetv3_large_100", pretrained=False), (224, 224), 4)
    return Segmentation()


def frames(kind, number):
    random = torch.Generator().manual_seed(number)
    if kind == "seg":
        return [torch.rand(LIDAR, generator=random) for _ in range(FRAMES)]
    return [torch.randint(256, CAMERA, generator=random, dtype=torch.uint8) for _ in range(FRAMES)]


class Task:
    """A sensor and its network, with two inputs on the GPU and a graph for each."""

    def __init__(self, kind, number):
        self.kind, self.name = kind, f"{kind}{number}" if kind == "yolo" else kind
        self.period = 0.1 if kind == "seg" else 1 / 30
        self.pageable = frames(kind, number)
        self.pinned = [frame.pin_memory() for frame in self.pageable]
        self.inputs = [torch.empty_like(self.pageable[0], device="cuda") for _ in range(2)]
        self.stream = torch.cuda.Stream()
        self.there = [torch.cuda.Event() for _ in range(2)]
        self.network = network(kind).eval().cuda()  # kept: the graphs read its weights
        self.graphs = [self.capture(slot) for slot in range(2)]
        self.answer = torch.empty_like(self.graphs[0][1], device="cpu").pin_memory()
        self.alone_ms = self.measure()

    def capture(self, slot):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.inputs[slot].copy_(self.pageable[0])
            for _ in range(3):
                self.network(self.inputs[slot])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = self.network(self.inputs[slot])
        return graph, output

    def measure(self):
        """What the network takes on the GPU alone, ms."""
        times = []
        for _ in range(20):
            begin, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            begin.record()
            self.graphs[0][0].replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times)

    def infer(self, slot):
        graph, output = self.graphs[slot]
        graph.replay()
        self.answer.copy_(output, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return hashlib.sha256(self.answer.numpy().tobytes()).hexdigest()


class Turn:
    """One task for some seconds, in one way."""

    def __init__(self, task, way, seconds, answers):
        self.task, self.way, self.answers = task, way, answers
        self.transfer_ms, self.frame_ms, self.dropped, self.wrong = [], [], 0, 0
        self.begin = time.monotonic() + 0.1
        self.count = int(seconds / task.period)
        self.newest = threading.Condition()
        self.ready = None  # the newest frame that was copied ahead: its number and its slot
        self.used = None  # the slot that the network reads
        self.over = False

    def run(self):
        with torch.inference_mode():
            if self.way != "ahead":
                return self.in_turn()
            with futures.ThreadPoolExecutor(1) as pool:
                sensor = pool.submit(self.sense)
                self.take()
                sensor.result()

    def at(self, frame):
        return self.begin + frame * self.task.period

    def in_turn(self):
        task, frame = self.task, 0
        while frame < self.count:
            time.sleep(max(0, self.at(frame) - time.monotonic()))
            newest = min(int((time.monotonic() - self.begin) / task.period), self.count - 1)
            self.dropped += max(newest - frame, 0)
            frame = max(newest, frame)
            began = time.monotonic()
            if self.way == "pinned":
                task.inputs[0].copy_(task.pinned[frame % FRAMES], non_blocking=True)
                torch.cuda.current_stream().synchronize()
            else:
                task.inputs[0].copy_(task.pageable[frame % FRAMES])
            self.done(frame, began, 0)
            frame += 1

    def sense(self):
        """Copies each frame when it comes in, into the input that the network does not read."""
        task = self.task
        try:
            for frame in range(self.count):
                time.sleep(max(0, self.at(frame) - time.monotonic()))
                with self.newest, torch.inference_mode(), torch.cuda.stream(task.stream):
                    self.dropped += self.ready is not None  # nobody took it: it is written over
                    slot = 1 if self.used == 0 else 0
                    task.inputs[slot].copy_(task.pinned[frame % FRAMES], non_blocking=True)
                    task.there[slot].record()
                    self.ready = frame, slot
                    self.newest.notify()
        finally:
            with self.newest:
                self.over = True
                self.newest.notify()

    def take(self):
        while True:
            with self.newest:
                self.newest.wait_for(lambda: self.ready is not None or self.over)
                if self.ready is None:
                    return
                (frame, slot), self.ready = self.ready, None
                self.used = slot
            began = time.monotonic()
            self.task.there[slot].synchronize()
            self.done(frame, began, slot)
            with self.newest:
                self.used = None

    def done(self, frame, began, slot):
        self.transfer_ms.append(1e3 * (time.monotonic() - began))
        answer = self.task.infer(slot)
        self.frame_ms.append(1e3 * (time.monotonic() - self.at(frame)))
        known = self.answers.setdefault((self.task.name, frame % FRAMES), answer)
        self.wrong += known != answer


def quantiles(values):
    values = sorted(values)
    if not values:
        return None
    at = lambda share: values[min(int(share * len(values)), len(values) - 1)]
    return {"count": len(values), "mean": statistics.fmean(values), "p50": at(0.5),
            "p99": at(0.99), "max": values[-1]}


def measure(options, tasks):
    answers, kept = {}, {}
    for _ in range(TURNS):
        for way in options.ways:
            seconds = options.seconds / TURNS
            turns = [Turn(task, way, seconds, answers) for task in tasks]
            with futures.ThreadPoolExecutor(len(turns)) as pool:
                list(pool.map(Turn.run, turns))
            for turn in turns:
                kept.setdefault((way, turn.task.kind), []).append(turn)
    rows = []
    for (way, kind), turns in kept.items():
        rows.append({
            "way": way, "task": kind,
            "transfer_ms": quantiles([ms for turn in turns for ms in turn.transfer_ms]),
            "frame_ms": quantiles([ms for turn in turns for ms in turn.frame_ms]),
            "dropped": sum(turn.dropped for turn in turns),
            "other_answers": sum(turn.wrong for turn in turns),
        })
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for each way")
    parser.add_argument("--cameras", type=int, default=4, help="that have a yolo each")
    parser.add_argument("--ways", default=WAYS, type=lambda text: text.split(","))
    parser.add_argument("--out", type=pathlib.Path, help="a file for the results, as JSON")
    options = parser.parse_args()
    for way in options.ways:
        if way not in WAYS:
            parser.error(f"--ways: found {way!r}, expected some of {', '.join(WAYS)}")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    with torch.inference_mode():
        tasks = [Task("yolo", number) for number in range(options.cameras)]
        tasks += [Task("tf", 100), Task("seg", 200)]
    busy = sum(task.alone_ms / 1e3 / task.period for task in tasks)
    networks = {task.kind: task.alone_ms for task in tasks}
    rows = measure(options, tasks)
    found = {"gpu": torch.cuda.get_device_name(), "cameras": options.cameras,
             "seconds": options.seconds, "network_alone_ms": networks, "busy": busy, "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    alone = ", ".join(f"{kind} {ms:.2f}" for kind, ms in networks.items())
    print(f"{found['gpu']}, {options.cameras} cameras; networks alone, ms: {alone}; "
          f"together they keep the GPU busy for {100 * busy:.0f} % of the time")
    print(f"{'way':8} {'task':5} {'frames':>7} {'dropped':>7} {'transfer p50':>12} {'p99':>7} "
          f"{'max':>7} {'frame p50':>10} {'p99':>7} {'max':>7}  ms")
    for row in rows:
        transfer, frame = row["transfer_ms"], row["frame_ms"]
        if transfer is None:
            continue
        print(f"{row['way']:8} {row['task']:5} {transfer['count']:7} {row['dropped']:7} "
              f"{transfer['p50']:12.3f} {transfer['p99']:7.3f} {transfer['max']:7.3f} "
              f"{frame['p50']:10.3f} {frame['p99']:7.3f} {frame['max']:7.3f}")
    others = sum(row["other_answers"] for row in rows)
    if others:
        raise SystemExit(f"transfers: {others} answers are not what the same frame had before")


if __name__ == "__main__":
    main()
