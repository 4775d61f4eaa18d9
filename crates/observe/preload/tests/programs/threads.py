"""Threads, queues, executors and processes of Python's standard library."""

import concurrent.futures
import multiprocessing
import os
import queue
import subprocess
import sys
import threading


def locks():
    lock, total, barrier = threading.RLock(), [0], threading.Barrier(4)
    semaphore, event = threading.BoundedSemaphore(2), threading.Event()

    def work(number):
        event.wait()
        for _ in range(200):
            with semaphore, lock, lock:
                total[0] += number
        barrier.wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    event.set()
    for thread in threads:
        thread.join()
    busy = threading.Lock()
    busy.acquire()
    print(total[0], busy.acquire(timeout=0.01), busy.acquire(blocking=False))


def queues():
    items, results = queue.Queue(maxsize=3), queue.SimpleQueue()

    def take():
        while (item := items.get()) is not None:
            results.put(item * item)

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    for item in range(100):
        items.put(item)
    for _ in takers:
        items.put(None)
    for taker in takers:
        taker.join()
    print(sum(results.get() for _ in range(100)))


def square(number):
    return number * number


def executors():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print(sum(pool.map(square, range(100))))
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(sum(pool.map(square, range(20))))


def processes():
    code = "import threading; t = threading.Thread(target=print, args=(6 * 7,)); t.start(); t.join()"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    if (child := os.fork()) == 0:
        lock = threading.Lock()
        with lock:
            os._exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    locks()
    queues()
    executors()
    sys.stdout.flush()
    processes()
