"""A network of the tests' own: an Ethernet hub between network namespaces, with faults.

  link.py NAMESPACE=ADDRESS ...

Makes a TAP device in each namespace, which must exist, gives it the address (10.77.0.1, of /24) and
a route for multicast, and forwards every frame to all others. Lines on standard input change what
happens to frames from then on; each is answered by a line:

  NAMESPACE loss=0.1 twice=0.2 late=0.2 delay_ms=1     shares of the frames that the namespace sends
  NAMESPACE unicast                                    no multicast, and the host's device knows
  NAMESPACE stall                                      nothing comes or goes
  NAMESPACE well                                       as at the beginning

A late frame comes 5 ms after its time, behind those that were sent after it. What a host sends at once
waits in its device, which has room for QUEUE frames: 1 MiB is about 850.
"""

import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, TAP, NO_HEAD = 0x400454CA, 0x0002, 0x1000
LATE = 0.005
MULTICAST = b"\x01\x00\x5e"  # How addresses of frames for IPv4's groups begin.
QUEUE = 10_000
BATCH = 64  # Frames of one host before it is the next one's turn.


class Port:
    def __init__(self, index, namespace, address):
        self.name = f"kt{os.getpid() % 100000}x{index}"
        self.namespace = namespace
        self.tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tap, TUNSETIFF, struct.pack("16sH22x", self.name.encode(), TAP | NO_HEAD))
        run = lambda *words: subprocess.run(words, check=True)
        run("ip", "link", "set", self.name, "txqueuelen", str(QUEUE))
        run("ip", "link", "set", self.name, "netns", namespace)
        inside = ("ip", "-n", namespace)
        run(*inside, "addr", "add", f"{address}/24", "dev", self.name)
        run(*inside, "link", "set", self.name, "up")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "route", "add", "224.0.0.0/4", "dev", self.name)
        self.set([])

    def set(self, words):
        self.stalled, self.unicast = "stall" in words, "unicast" in words
        if self.unicast:
            link = ("ip", "-n", self.namespace, "link", "set", self.name)
            subprocess.run([*link, "multicast", "off"], check=True)
        shares = dict(word.split("=") for word in words if "=" in word)
        self.loss, self.twice, self.late = (float(shares.get(key, 0)) for key in ("loss", "twice", "late"))
        self.delay = float(shares.get("delay_ms", 0)) / 1000

    def frames(self):
        for _ in range(BATCH):
            try:
                yield os.read(self.tap, 65536)
            except BlockingIOError:
                return


def main():
    ports = [Port(i, *word.split("=")) for i, word in enumerate(sys.argv[1:])]
    print("ready", flush=True)
    chance = random.Random(77).random
    order, waiting, commands = itertools.count(), [], b""
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, port, frame = heapq.heappop(waiting)
            for other in ports:
                if other is not port and not other.stalled:
                    try:
                        os.write(other.tap, frame)
                    except OSError:
                        pass  # Its queue is full, or the device is down: frames get lost.
        pause = max(0, waiting[0][0] - now) if waiting else None
        ready, _, _ = select.select([0] + [port.tap for port in ports], [], [], pause)
        if 0 in ready:
            read = os.read(0, 4096)
            if not read:
                return
            commands += read
            while b"\n" in commands:
                line, commands = commands.split(b"\n", 1)
                namespace, *words = line.decode().split()
                next(port for port in ports if port.namespace == namespace).set(words)
                print("done", flush=True)
        for port in ports:
            if port.tap not in ready:
                continue
            for frame in port.frames():
                if port.unicast and frame.startswith(MULTICAST):
                    continue
                if port.stalled or chance() < port.loss:
                    continue
                for _ in range(2 if chance() < port.twice else 1):
                    late = LATE if chance() < port.late else 0
                    heapq.heappush(waiting, (time.monotonic() + port.delay + late, next(order), port, frame))


main()
