"""Work of known shares, measured by itself: shares.py OUT MODE CLOCK INTERVAL_MS. Prints what each function took.

Truth: the thread's CPU clock in CPU mode, the monotonic clock in wall mode."""

import json
import os
import random
import sys
import threading
import time

import spprof

OUT, MODE, CLOCK, INTERVAL = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
now = time.thread_time_ns if MODE == "cpu" else time.monotonic_ns
draw = random.Random(7).randrange  # turns of changing length are in step with no clock; only `loop` and `bursts` mean to be
took = {}  # name -> ns; names of threads' own functions are unique


def timed(function, *args):
    begin = now()
    function(*args)
    # Now: on 3.13t the first `get` of a thread takes the dict's lock twice, spins on itself and yields 40 times, 1.4 ms each
    # where other threads compute.
    spent = now() - begin
    took[function.__name__] = took.get(function.__name__, 0) + spent


def work(units):
    for _ in range(units):
        sum(range(1000))


def six(n):
    work(6 * n)


def three(n):
    work(3 * n)


def one(n):
    work(n)


def turns(seconds=1.2):
    """Yields until the calling thread has used so much of its clock."""
    end = now() + seconds * 1e9
    while now() < end:
        yield


def functions():
    for _ in turns():
        n = draw(30, 170)
        timed(six, n)
        timed(three, n)
        timed(one, n)


def lines():
    a = b = c = 0
    for _ in turns():
        n = draw(3000, 17000)
        t = [now()]
        for _ in range(60): sum(range(n))  # six tenths
        t.append(now())
        for _ in range(30): sum(range(n))  # three tenths
        t.append(now())
        for _ in range(10): sum(range(n))  # one tenth
        t.append(now())
        a, b, c = a + t[1] - t[0], b + t[2] - t[1], c + t[3] - t[2]
    took["six tenths"], took["three tenths"], took["one tenth"] = a, b, c


def reading(zero, buffer, n):
    for _ in range(n):
        zero.readinto(buffer)


def until_used(end):
    """Yields until the calling thread's clock shows this time; a thread that reads its CPU clock all the time gets few ticks of
    a full machine's timers (docs/troubleshooting.md), so that is read when the time may have come."""
    while (left := end - now()) > 0:
        until = time.monotonic_ns() + left
        while time.monotonic_ns() < until:
            yield


def computing(end):
    for _ in until_used(end):
        work(5)


def kernel():
    global begin
    buffer = bytearray(1 << 20)
    took["computing"] = 0
    with open("/dev/zero", "rb", buffering=0) as zero:
        for _ in turns():
            timed(reading, zero, buffer, draw(10, 70))
            begin = now()
            computing(begin + took["reading"] - took["computing"])
            took["computing"] += now() - begin


def early(end):
    for _ in until_used(end):
        pass


def late(end):
    for _ in until_used(end):
        pass


def loop():
    """Exactly 2 ms a turn, in step with a sampler of 1 kHz: 0.6 ms `early`, 1.4 ms `late`."""
    end = now()
    for _ in range(600):
        end += 600_000
        timed(early, end)
        end += 1_400_000
        timed(late, end)


def burst_long():
    work(140)


def burst_short():
    work(60)


def nap():
    time.sleep(0.003)


def bursts():
    """CPU in bursts of a few ticks and less between sleeps."""
    for _ in turns(0.9):
        timed(burst_long)
        timed(nap)
        timed(burst_short)


def thread_six():
    work(6 * 30000)


def thread_three():
    work(3 * 30000)


def thread_one():
    work(30000)


def asleep():
    for _ in range(20):
        time.sleep(0.05)


gate = threading.Event()


def gated(function):
    gate.wait()  # until it was found: what a thread runs before that is counted, not sampled (test_threads.py)
    timed(function)


def threads():
    all = [threading.Thread(target=gated, args=(f,), name=f.__name__) for f in (thread_six, thread_three, thread_one, asleep)]
    for thread in all:
        thread.start()
    time.sleep(0.4)
    gate.set()
    for thread in all:
        thread.join()


def alternate_a(end):
    for _ in until_used(end):
        pass


def alternate_b(end):
    for _ in until_used(end):
        pass


def alternate():
    """Notes when each of many short phases began and ended, on the clock of timestamps."""
    for i in range(250):
        begin = time.monotonic_ns()
        (alternate_a, alternate_b)[i % 2](now() + 3_000_000)
        phases.append((begin, time.monotonic_ns()))


def waiting_ns():
    """proc_pid_schedstat(5): the time spent waiting for a processor; 0 where the kernel does not count it. And what a
    hypervisor took from all processors, by proc_stat(5) in hundredths of a second."""
    with open("/proc/stat") as file:
        stolen = int(file.readline().split()[8]) * 10_000_000
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) + stolen
    except OSError:
        return stolen


phases = []
CASES = [functions, lines, kernel, loop, bursts, threads, alternate]
spprof.start(INTERVAL, MODE, OUT, clock=CLOCK)
waited = {}  # case -> ns in which this thread could have run and had no processor
for case in CASES:
    before = waiting_ns()
    timed(case)
    waited[case.__name__] = waiting_ns() - before
spprof.stop()
line = {text.split("# ")[1].strip(): i for i, text in enumerate(open(__file__), 1) if text.strip().endswith(("tenths", "tenth")) and "for _" in text}
print(json.dumps({"took": took, "waited": waited, "lines": line, "phases": phases, "stats": spprof.stats(), "uid": os.getuid()}))
