"""The loop that the programs of this folder have in common, and its turns.

With `--turns` the program works only when it is told to: for each line with a number of
iterations on its standard input it prints how many it did a second. So several of them, set up
side by side, can be compared on a machine whose speed changes from one second to the next; and with
`--cpu` on the same processor of it, for they differ, too.
"""

import json
import os
import sys
import time


def add_arguments(parser, iterations, warm):
    parser.add_argument("--iterations", type=int, default=iterations)
    parser.add_argument("--warm", type=int, default=warm, help="iterations before timing")
    parser.add_argument("--batches", type=int, default=1, help="timings of so many iterations")
    parser.add_argument("--cpu", type=int, help="where the calling thread runs in its turns")
    parser.add_argument("--turns", action="store_true",
                        help="read the number of iterations of each timing from standard input")


def run(step, options):
    """Calls `step` as the options say. Returns what it returned last, and the timings: iterations
    a second."""
    for _ in range(options.warm):
        answer = step()
    rates = []
    for iterations in batches(options):
        begin = time.perf_counter()
        for _ in range(iterations):
            answer = step()
        rates.append(iterations / (time.perf_counter() - begin))
        if options.turns:
            print(json.dumps(rates[-1]), flush=True)
    return answer, rates


def batches(options):
    if not options.turns:
        yield from [options.iterations] * options.batches
        return
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        yield int(line)
