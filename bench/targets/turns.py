"""turns.py NAME SECONDS RATE [MODE]: a program of two functions in turn, `a` and `b`, that knows how long each was.
turns.py list: their names.

The truth is the program's own. A turn is a fixed amount of work, timed by the monotonic clock, which is no call of the kernel; a
step of more than GAP_NS between two readings is time off the processor and is not counted. What is between turns is the
rest: the thread's CPU clock at both ends, less `a` and `b`. Where there are several threads, whose turns are long and often
interrupted, or one processor only, which is taken shortly and often, they read their CPU clock at the ends of each turn. In wall
mode all is the monotonic clock's, and what is off the processor counts. Only programs in step end a turn by the clock: where a
tick costs a good part of a turn, such turns follow the ticks (70 + 30 us at 10 kHz, busy machine: 82 % of the samples in the
first)."""

import ctypes
import functools
import hashlib
import json
import os
import random
import resource
import select
import sys
import threading
import time
import types
from typing import NamedTuple

import says

GAP_NS = 100_000  # a tick costs up to 50 us, a turn of another thread on this processor mostly 1 ms and more
clock, cpu = time.perf_counter_ns, time.thread_time_ns
WALL = sys.argv[4:] == ["wall"]
own = clock if WALL else cpu  # of turns that are timed at their ends
draw = random.Random(16).random  # of lengths that change: the same ones in each run
away = [0]  # ns that turns by `spin` and `calling` were off the processor


class Program(NamedTuple):
    """Microseconds of a turn of `a` and of `b`, and what follows: what it is and how much of it (us; of a read: bytes)."""

    a: float
    b: float
    then: str = ""
    much: float = 0
    work: str = "spin"  # what `a` does
    step: float = 0  # us: turns begin at multiples of it on the monotonic clock, and `phase` (a part of it) later
    phase: float = 0
    drawn: bool = False  # lengths change from turn to turn, by half to one and a half
    threads: int = 1


def spin(times):
    """So many readings of the clock."""
    began = last = clock()
    off = 0
    for _ in range(times):
        now = clock()
        if now - last > GAP_NS:
            off += now - last
        last = now
    away[0] += off
    return last - began - (0 if WALL else off)


def calling(times):
    """The same with calls of the kernel."""
    began = last = clock()
    off = 0
    for _ in range(times):
        os.getppid()
        now = clock()
        if now - last > GAP_NS:
            off += now - last
        last = now
    away[0] += off
    return last - began - (0 if WALL else off)


def waiting(end):
    """Readings of the clock until the instant `end`."""
    began = last = clock()
    off = 0
    while last < end:
        now = clock()
        if now - last > GAP_NS:
            off += now - last
        last = now
    away[0] += off
    return last - began - (0 if WALL else off)


def computing(times):
    """For threads: work with the GIL."""
    began = own()
    for _ in range(times):
        sum(range(100))
    return own() - began


block = bytes(16384)


def hashing(times):
    """For threads: work without the GIL."""
    began = own()
    for _ in range(times):
        hashlib.sha256(block)
    return own() - began


def by_cpu(function):
    """The same, timed by the CPU clock."""

    def timed(amount):
        began = cpu()
        function(amount)
        return cpu() - began

    return timed


def named(function, name):
    """The same code under another name."""
    code = function.__code__.replace(co_name=name)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, globals(), name, None, function.__closure__)


def what_follows(then, much):
    """A call that makes no Python frame."""
    if then == "sleep":
        return functools.partial(time.sleep, much / 1e6)
    if then == "poll":
        return functools.partial(select.poll().poll, much / 1e3)
    if then == "select":
        return functools.partial(select.select, [], [], [], much / 1e6)
    if then == "lock":
        lock = threading.Lock()
        lock.acquire()
        return functools.partial(lock.acquire, True, much / 1e6)
    if then == "read":
        return functools.partial(open("/dev/zero", "rb", buffering=0).readinto, bytearray(int(much)))
    return os.getppid


def turns(a, b, program, stop):
    """Runs until `stop`; returns ns in `a`, ns in `b`, number of turns."""
    in_a = in_b = n = 0
    times_a, times_b = (max(1, int(us * 1000 / took(function))) for us, function in ((program.a, a), (program.b, b)))
    then = what_follows(program.then, program.much) if program.then else None
    factor = 1
    while clock() < stop:
        if program.drawn:
            factor = 0.5 + draw()
        in_a += a(int(times_a * factor))
        in_b += b(int(times_b * factor))
        if then:
            then()
        n += 2
    return in_a, in_b, n


def in_step(a, b, program, stop):
    """The same on a grid; a nap, if any, ends where the next step begins."""
    in_a = in_b = n = 0
    length_a, length_b, step = int(program.a * 1000), int(program.b * 1000), int(program.step * 1000)
    at = clock() // step * step + int(step * program.phase)
    while at < stop:
        in_a += a(at + length_a)
        in_b += b(at + length_a + length_b)
        n += 2
        at += step
        left = at - clock()
        if program.then and left > 0:
            time.sleep(left / 1e9)
        elif left < -step:  # it was kept from the processor
            at += -left // step * step
    return in_a, in_b, n


@functools.lru_cache(None)
def took(function):
    """ns of one time of its work: the least of many tries, so that no tick is in it."""
    return min(function(100) for _ in range(50)) / 100


def waited():
    """ns that this thread waited for a processor."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])


def outside(function):
    """ns of a turn that it does not see itself, of the call and the return: the least of many tries."""
    return min(outside_once(function) for _ in range(50))


def outside_once(function):
    began, n, inside = clock(), 100, 0
    for _ in range(n):
        inside += function(1)
    return (clock() - began - inside) / n


def thread(program, seconds, facts):
    crowded = program.threads == 1 and not WALL and len(os.sched_getaffinity(0)) == 1
    timed = by_cpu if crowded else lambda function: function
    work = globals()[program.work]
    a, b = named(timed(work), "a"), named(timed(spin if program.work == "calling" else work), "b")
    overhead = outside(a) if program.threads == 1 else 0
    loop = turns
    if program.step:
        a, b, loop = named(timed(waiting), "a"), named(timed(waiting), "b"), in_step
    loop(a, b, program, clock() + 100_000_000)  # until the thread is found and the code is warm
    away[0] = 0
    before, switches = waited(), resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    began, cpu_began = clock(), cpu()
    in_a, in_b, n = loop(a, b, program, began + int(seconds * 1e9))
    ended, cpu_ended = clock(), cpu()
    facts.append({
        "tid": threading.get_native_id(), "began_ns": began, "ended_ns": ended, "cpu_ns": cpu_ended - cpu_began,
        "a_ns": in_a, "b_ns": in_b, "turns": n, "overhead_ns": overhead, "away_ns": away[0], "waited_ns": waited() - before,
        "between": bool(program.then), "by_cpu": crowded or program.threads > 1,
        "switches": resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - switches,
    })  # fmt: skip


def programs(rate):
    """Name -> program; some are in step with the rate of the samples."""
    own = 1e6 / rate
    return {
        # Turns of 20 us to 50 ms.
        "turns 20+20 us": Program(20, 20),
        "turns 47+20 us": Program(47, 20),
        "turns 20+180 us": Program(20, 180),
        "turns 70+30 us, drawn": Program(70, 30, drawn=True),
        "turns 0.35+0.15 ms": Program(350, 150),
        "turns 0.5+0.5 ms": Program(500, 500),
        "turns 0.7+0.3 ms": Program(700, 300),
        "turns 2.8+1.2 ms": Program(2800, 1200),
        "turns 1+9 ms": Program(1000, 9000),
        "turns 35+15 ms": Program(35000, 15000),
        "turns 50+50 ms": Program(50000, 50000),
        # Naps of 20 us to 10 ms.
        "turns 20+20 us, sleep 20 us": Program(20, 20, "sleep", 20),
        "turns 35+15 us, sleep 100 us": Program(35, 15, "sleep", 100),
        "turns 70+30 us, sleep 50 us": Program(70, 30, "sleep", 50),
        "turns 20+180 us, sleep 200 us": Program(20, 180, "sleep", 200),
        "turns 0.7+0.3 ms, sleep 1 ms": Program(700, 300, "sleep", 1000),
        "turns 1.4+0.6 ms, sleep 2 ms": Program(1400, 600, "sleep", 2000),
        "turns 2.8+1.2 ms, sleep 1.2 ms": Program(2800, 1200, "sleep", 1200),
        "turns 7+3 ms, sleep 10 ms": Program(7000, 3000, "sleep", 10000),
        "turns 70+30 us, poll 1 ms": Program(70, 30, "poll", 1000),
        "turns 1.4+0.6 ms, poll 10 ms": Program(1400, 600, "poll", 10000),
        "turns 100+100 us, select 200 us": Program(100, 100, "select", 200),
        "turns 0.1+0.9 ms, select 2 ms": Program(100, 900, "select", 2000),
        "turns 70+30 us, lock 100 us": Program(70, 30, "lock", 100),
        "turns 0.7+0.3 ms, lock 5 ms": Program(700, 300, "lock", 5000),
        # Short calls of the kernel.
        "turns 35+15 us, getppid": Program(35, 15, "getppid"),
        "turns 0.5+0.5 ms, getppid": Program(500, 500, "getppid"),
        "a calls getppid, b does not, 100+100 us": Program(100, 100, work="calling"),
        "a calls getppid, b does not, 1+9 ms": Program(1000, 9000, work="calling"),
        "turns 35+15 us, read 1 KB": Program(35, 15, "read", 1024),
        "turns 70+30 us, read 64 KB": Program(70, 30, "read", 65536),
        "turns 20+180 us, read 64 KB": Program(20, 180, "read", 65536),
        # Bursts.
        "bursts 140+60 us, drawn, sleep 3 ms": Program(140, 60, "sleep", 3000, drawn=True),
        "bursts 3.5+1.5 ms, drawn, sleep 10 ms": Program(3500, 1500, "sleep", 10000, drawn=True),
        "bursts 2+18 ms, drawn, select 50 ms": Program(2000, 18000, "select", 50000, drawn=True),
        # In step.
        "in step with 250 Hz, 2.8+1.2 ms": Program(2800, 1200, step=4000),
        "in step with 250 Hz, 2.8+1.2 ms, half a step later": Program(2800, 1200, step=4000, phase=0.5),
        "in step with 250 Hz, 1.4+0.6 ms and a nap": Program(1400, 600, "sleep", step=4000),
        "in step with 250 Hz, 1.4+0.6 ms and a nap, half a step later": Program(1400, 600, "sleep", step=4000, phase=0.5),
        "in step with 500 Hz, 0.7+0.3 ms and a nap": Program(700, 300, "sleep", step=2000, phase=0.25),
        "in step with 1 kHz, 0.7+0.3 ms": Program(700, 300, step=1000),
        "in step with 1 kHz, 0.35+0.15 ms and a nap": Program(350, 150, "sleep", step=1000, phase=0.3),
        "in step with our rate, 70+30 %": Program(own * 0.7, own * 0.3, step=own),
        "in step with our rate, 35+15 % and a nap": Program(own * 0.35, own * 0.15, "sleep", step=own, phase=0.6),
        "in step with half our rate, 20+180 %": Program(own * 0.2, own * 1.8, step=own * 2),
        # Threads.
        "two threads, 1.4+0.6 ms": Program(1400, 600, work="computing", threads=2),
        "two threads without the GIL, 1.4+0.6 ms": Program(1400, 600, work="hashing", threads=2),
        "eight threads without the GIL, 1+9 ms": Program(1000, 9000, work="hashing", threads=8),
        "eight threads without the GIL, 2.8+1.2 ms, drawn": Program(2800, 1200, work="hashing", threads=8, drawn=True),
    }  # fmt: skip


def main(name, seconds, rate):
    program, facts = programs(rate)[name], []
    ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK: naps as short as they are asked for
    if program.threads == 1:
        thread(program, seconds, facts)
    else:
        all = [threading.Thread(target=thread, args=(program, seconds, facts)) for _ in range(program.threads)]
        for one in all:
            one.start()
        for one in all:
            one.join()
    says.write(threads=facts)


if sys.argv[1] == "list":
    print(json.dumps(list(programs(1000))))
else:
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
