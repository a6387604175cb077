"""python -m tests.torture.waits: what profiles say of waits, in programs whose truth is known; by the interpreter that runs this.

  build/venvs/3.14/bin/python -m tests.torture.waits
  .venv/bin/python -m tests.torture.waits --only reasons,held

| subject | figure | goal |
|---|---|---|
| reasons | 20 programs that wait for one reason each, for known times: points by which its share is wrong | 1, or its interval |
| sums | the same: a thread's reasons together against its wall clock | 0.5 % |
| chains | samples of tasks (targets/waiting_tasks.py) whose chain, reason or awaiters are wrong | 0 of 100,000 |
| held | 100 tasks beside one that holds their loop at a known line: points by which their parts are wrong | 1, or its interval |
| | of what was ready in the middle of a hold, what is charged to another line | 1 % |
| spans | samples in overlapping spans (targets/spanned.py) without their ids, or with others | 0 of 1,000,000 |
| stalls | 100 that are seeded: seconds after the limit until they are reported | all, within 1 |
| idle | 20 programs that wait for work, or compute, for 120 limits of 0.4 s, as in ten minutes of 5 s | none reported |

A line of JSON for each is printed, and added to build/torture/waits.jsonl. Exits with 1 if a goal is missed. A machine that is
full makes `reasons` worse. Of `held` the parts do not count then: looks are at instants that the scheduler chooses, and how long
the loop's thread had no processor says the kernel. Of `stalls` the time does not count in which the looks had none."""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import platform
import random
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
LOG = HERE.parent.parent / "build" / "torture" / "waits.jsonl"
GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")

# Each line: the reason, and what waits for it; `later(call)` has another thread make a call after the time of a wait.
WAITS = [
    ("sleep", "time.sleep(WAIT)"),
    ("sleep", "select.select([], [], [], WAIT)"),
    ("sleep", "time.sleep(WAIT / 2); time.sleep(WAIT / 2)"),
    ("lock", "lock = threading.Lock(); lock.acquire(); later(lock.release); lock.acquire()"),
    ("lock", "begun = threading.Event(); later(begun.set); begun.wait()"),
    ("lock", "begun = threading.Event(); begun.wait(WAIT)"),
    ("lock", "items = queue.Queue(); later(items.put, 1); items.get()"),
    ("lock", "items = queue.SimpleQueue(); later(items.put, 1); items.get()"),
    ("lock", "places = threading.Semaphore(0); later(places.release); places.acquire()"),
    ("lock", "thread = threading.Thread(target=time.sleep, args=(WAIT,)); thread.start(); thread.join()"),
    ("lock", "later(int).join()"),
    ("io", "later(os.write, ends[1], b'x'); os.read(ends[0], 1)"),
    ("io", "later(left.send, b'x'); right.recv(1)"),
    ("io", "later(client.send, b'x'); accepted.recv(1)"),
    ("io", "later(client.send, b'x'); select.select([accepted], [], []); accepted.recv(1)"),
    ("io", "later(os.write, ends[1], b'x'); poll(ends[0]); os.read(ends[0], 1)"),
    ("idle", "later(socket.create_connection, server.getsockname()); server.accept()"),
    ("idle", "epoll.poll(WAIT)"),
    ("child", "child = children.pop(); later(child.stdin.close); child.wait()"),
    ("child", "child = children.pop(); later(child.stdin.close); os.waitpid(child.pid, 0)"),
]
TURNS = 25
IDLE_LIMIT = 0.4
PROGRAM = """
import json, os, queue, select, socket, subprocess, sys, threading, time
import spprof
WAIT = 0.04
ends = os.pipe()
left, right = socket.socketpair()
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
accepted = server.accept()[0]
epoll = select.epoll()
epoll.register(left.fileno(), select.EPOLLIN)
def poll(fd):
    asked = select.poll()
    asked.register(fd, select.POLLIN)
    asked.poll()
jobs = queue.SimpleQueue()
def does():
    while True:
        at, call, args = jobs.get()
        time.sleep(max(0, at - time.monotonic()))
        call(*args)
threading.Thread(target=does, daemon=True).start()
class Done:
    def __init__(self): self.over = threading.Event()
    def join(self): self.over.wait()
def later(call, *args):
    done = Done()
    jobs.put((time.monotonic() + WAIT, lambda: (call(*args), done.over.set()), ()))
    begins()
    return done
def begins():
    global begun
    begun = time.monotonic_ns()
def computes():
    end = time.thread_time() + 0.02
    while time.thread_time() < end: sum(range(100))
def waits():
    %s
children = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(1 + %d)] if "child" in sys.argv else []
waits()
took, outer = 0, time.monotonic_ns()
spprof.start(1, "wall", sys.argv[1])
whole = time.monotonic_ns()
for _ in range(%d):
    computes()
    begins()
    waits()
    took += time.monotonic_ns() - begun
whole = time.monotonic_ns() - whole
spprof.stop()
print(json.dumps([took, whole, time.monotonic_ns() - outer]))
"""

HELD = """
import asyncio, json, sys, threading, time
import spprof
REQUESTS, HOLD = 100, 0.012
parts = {f"request {i}": [0, 0, 0] for i in range(REQUESTS)}
now = time.perf_counter_ns
def holds():
    end = now() + int(HOLD * 1e9)
    while now() < end: pass  # HERE
async def hogs(ends):
    global begun, event
    while time.monotonic() < ends:
        await asyncio.sleep(0.02)
        done, event, begun = event, asyncio.Event(), now()
        done.set()
        holds()
        held[0] += now() - begun
        turns.append((begun, now()))
    over.append(1)
    event.set()
async def serves(name):
    mine, last = parts[name], now()
    while not over:
        await event.wait()
        woken = now()
        mine[1] += begun - last
        mine[2] += woken - begun
        end = woken + 30_000
        while now() < end: pass
        ready.setdefault(begun, []).append((name, woken))
        last = now()
        mine[0] += last - woken
async def main():
    global event
    event = asyncio.Event()
    tasks = [asyncio.create_task(serves(name), name=name) for name in parts]
    await asyncio.sleep(0)
    spprof.start(1, "wall", sys.argv[1], events=["time", "tasks"])
    await asyncio.create_task(hogs(time.monotonic() + float(sys.argv[2])), name="hog")
    spprof.stop()
    await asyncio.gather(*tasks)
over, held, turns, ready = [], [0], [], {}
asyncio.run(main())
with open("/proc/self/schedstat") as file: ran, delayed, _ = map(int, file.read().split())
print(json.dumps([parts, held[0] * REQUESTS, turns, ready, delayed / (ran + delayed)]))
"""


def tests_of(name):
    """A test's module, for what it judges by."""
    for folder in (TESTS / "integration", TESTS):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(f"judges_{name}", TESTS / "integration" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ran(folder, *words):
    """What a program printed last, as JSON, and its profile."""
    import spprof

    path = str(Path(folder) / "out.spprof")
    words = [path if word == "OUT" else str(word) for word in words]
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, check=True, timeout=900, cwd=folder, text=True)
    return json.loads(done.stdout.splitlines()[-1]), spprof.Profile.load(path)


def reasons(options):
    """And `sums`."""
    from spprof.report.waits import waits

    worst, outside, sums = 0.0, [], 0.0
    for reason, line in WAITS:
        with tempfile.TemporaryDirectory() as folder:
            (took, whole, outer), profile = ran(folder, "-c", PROGRAM % (line, TURNS, TURNS), "OUT", reason)
        rows = next(one for one in waits([profile]) if one.what["tid"] == profile.header["pid"])
        share = rows.whole.share(sum(row.ns for row in rows.rows if row.reason == reason))
        points = abs(share.value - took / whole) * 100
        worst = max(worst, points)
        if points > 1 and not share.low <= took / whole <= share.high:
            outside.append([line, round(share.value, 4), round(took / whole, 4)])
        together = sum(row.ns for row in rows.rows)  # with what start() and stop() take after the first and before the last look
        sums = max(sums, (1 - together / whole) * 100, (together / outer - 1) * 100)
    yield "reasons", not outside, {"programs": len(WAITS), "worst_points": round(worst, 2), "outside": outside}
    yield "sums", sums <= 0.5, {"worst_percent": round(sums, 3)}


def chains(options):
    judged, samples, seen = tests_of("test_waiting_tasks").judged, 0, set()
    while samples < options.tasks:
        with tempfile.TemporaryDirectory() as folder:
            said, profile = ran(folder, TESTS / "targets" / "waiting_tasks.py", "OUT", 20)
        seen |= judged(profile, said["truth"])  # raises if one is wrong
        samples += len(profile.of("tasks"))
    yield "chains", True, {"samples": samples, "wrong": 0, "tasks": len(seen)}


def held(options):
    from spprof.report.tasks import RUNNING, tasks

    with tempfile.TemporaryDirectory() as folder:
        (truth, held_ns, turns, ready, delayed), profile = ran(folder, "-c", HELD, "OUT", options.seconds)
        line = HELD.splitlines().index(next(line for line in HELD.splitlines() if line.endswith("# HERE"))) + 1
        rows, loops = tasks([profile])
        drawn = {}
        waiting = profile.of("tasks")
        for sample in waiting:
            drawn[sample.task] = drawn.get(sample.task, 0) + 1
        judged = _judge_holds(profile, waiting, turns, ready, line)
        rounds = len({instant // 5_000_000 for instant in waiting.column("time_ns")})  # 10 ms apart, or more
    off, outside, means, true_means = 0.0, 0, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for row in rows:
        if row.task not in truth:
            continue
        found = [0, 0, 0]
        for part in row.spent:
            found[{RUNNING: 0, "loop": 2}.get(part.reason, 1)] += part.ns
        for i, (is_, is_true) in enumerate(zip(found, truth[row.task])):
            share, true = is_ / row.ns, is_true / sum(truth[row.task])
            off = max(off, abs(share - true) * 100)
            means[i] += (share - true) / len(truth)
            true_means[i] += true / len(truth)
            outside += abs(share - true) > max(0.01, _chance(true, drawn[row.task], 3.9))
    mine = sum(loop.ns for loop in loops if loop.task == "hog" and loop.stack and loop.stack[-1].line == line)
    beside = sum(loop.ns for loop in loops if loop.task and loop.task != "hog")
    whole = sum(loop.ns for loop in loops)
    figures = {"requests": len(truth), "rounds": rounds, "worst_points": round(off, 2), "outside": outside}
    figures["mean_points"] = [round(mean * 100, 3) for mean in means]
    # All requests of a round were drawn at one instant, at which most are alike.
    means_right = all(abs(mean) <= max(0.01, _chance(true, rounds, 2.6)) for mean, true in zip(means, true_means))
    true = held_ns / sum(waits for _, _, waits in truth.values())
    share_right = abs(mine / whole - true) <= max(0.01, _chance(true, rounds / 2, 2.6))
    # On a full machine the sampler looks when it gets a processor, so the instants are the scheduler's.
    full = delayed > FULL
    right = judged["wrong"] <= 0.01 and (full or (means_right and share_right and not outside))
    figures.update(without_a_processor=round(delayed, 3), culprit={key: round(value, 4) for key, value in judged.items()})
    figures["held_by"] = {
        "the line, in truth": round(true, 4),
        "the line": round(mine / whole, 4),
        "other requests": round(beside / whole, 4),
    }
    figures["nobody_known"] = round(sum(loop.ns for loop in loops if not loop.stack) / whole, 4)
    figures["others"] = sorted({loop.where for loop in loops if loop.task not in truth and loop.ns > 0.01 * whole and loop.stack})
    others = [loop.task for loop in loops if loop.task not in ("hog", "", *truth)]
    yield "held", right and not others, figures


EDGE_NS = 1_500_000  # samples of a thread are 1 ms apart: what is so near to an edge may be on either side
FULL = 0.05  # of the time that a loop's thread could run, without a processor


def _judge_holds(profile, waiting, turns, ready, line):
    """Of the samples of ready tasks, by what the loop truly did at each one's instant: the share while the line held it, in
    truth and as it is said; and of what was in the middle of a hold the share that is charged to nobody, or to another line."""
    from bisect import bisect_right

    from spprof.model import held_loops

    begins, columns, time = [begin for begin, _ in turns], waiting._columns(), profile.of("time")
    names = [sample.task for sample in waiting]
    whole = true = said = middle = wrong = unknown = 0
    for i, hold, ns in held_loops.holds(columns, waiting.column("reason"), time._columns(), profile.interval_ns):
        instant = columns["time_ns"][i]
        turn = bisect_right(begins, instant) - 1
        if turn < 0 or not any(name == names[i] and instant <= woken for name, woken in ready.get(str(begins[turn]), ())):
            continue
        begin, end = turns[turn]
        leaf = profile.stack(hold.stack)[-1] if hold.stack >= 0 else None
        is_line = leaf is not None and leaf.line == line
        whole, true, said = whole + ns, true + ns * (instant <= end), said + ns * is_line
        if begin + EDGE_NS < instant < end - EDGE_NS:
            lost = leaf is None or leaf.name == "[unknown stack]"  # counted as lost
            middle, unknown, wrong = middle + ns, unknown + ns * lost, wrong + ns * (not lost and not is_line)
    shares = {"the line, at these instants": true / whole, "as it is said": said / whole}
    return {**shares, "unknown": unknown / middle, "wrong": wrong / middle}


def _chance(share, n, sigmas):
    """How far a share of n samples is from the truth by chance."""
    return sigmas * (share * (1 - share) / n) ** 0.5


def spans(options):
    if importlib.util.find_spec("opentelemetry") is None:
        yield "spans", True, {"skipped": "opentelemetry-api is needed"}
        return
    judged, samples, within = tests_of("test_spans").judged, 0, 0
    while samples < options.spans:
        for mode in ("cpu", "wall"):
            with tempfile.TemporaryDirectory() as folder:
                said, profile = ran(folder, TESTS / "targets" / "spanned.py", "OUT", mode, 15)
            found = judged(profile, said["truth"])  # raises if one is wrong
            samples += len(profile)
            within += sum(found.values())
    yield "spans", True, {"samples": samples, "judged": within, "wrong": 0}


def _stall(kind, text, why, late_s):
    """Seconds from the beginning of a stall to the report, less the limit; and less the time in which the thread that looks
    had no processor. None: there was none."""
    from spprof.outside.stalls import Watch

    begin = "import threading, time, asyncio, sys\nprint(flush=True)\n"
    late = f"time.sleep({late_s})\nprint(time.monotonic(), flush=True)\n"
    program = subprocess.Popen([sys.executable, "-c", begin + late + text], stdout=subprocess.PIPE)
    try:
        program.stdout.readline()
        watch, end, delayed = Watch(program.pid, 1.0), time.monotonic() + 30, _delay()
        while time.monotonic() < end:
            stall = watch.look(time.monotonic())
            if stall is not None:
                late_s = time.monotonic() - float(program.stdout.readline()) - watch.limit_s
                return (late_s, late_s - (_delay() - delayed)) if why in stall.why else None
            time.sleep(watch.step_s)
        return None
    finally:
        program.kill()
        program.communicate()


def _delay():
    """For how many seconds this thread could run and had no processor."""
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def stalls(options):
    kinds, chance = tests_of("test_stalls").STALLS, random.Random(46)
    seeded = [(kind, kinds[kind][1], kinds[kind][0], chance.uniform(0, 0.7)) for kind in list(kinds) * 25][: options.stalls]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:  # as each program has a process that watches it
        found = list(pool.map(_stall, *zip(*seeded)))
    late = [seconds for seconds in found if seconds is not None]
    latest, own = (round(max((each[which] for each in late), default=0.0), 3) for which in (0, 1))
    figures = {"seeded": len(seeded), "found": len(late), "latest_s": latest, "without_the_looks_own_delay_s": own}
    yield "stalls", len(late) == len(seeded) and own <= 1, figures


def _idle(kind, text, seconds):
    """What was reported in so many seconds; None: nothing."""
    from spprof.outside.stalls import Watch

    program = subprocess.Popen([sys.executable, "-c", tests_of("test_stalls").BEGIN + text], stdout=subprocess.PIPE)
    try:
        program.stdout.readline()
        watch, end = Watch(program.pid, IDLE_LIMIT), time.monotonic() + seconds
        while time.monotonic() < end:
            stall = watch.look(time.monotonic())
            if stall is not None:
                return f"{kind}: {stall.why}"
            time.sleep(watch.step_s)
        return None
    finally:
        program.kill()
        program.communicate()


MORE_IDLE = {
    "pipe": "os.read(os.pipe()[0], 1)\n",
    "child": "from subprocess import *\nPopen(['cat'], stdin=PIPE, stdout=DEVNULL).wait()\n",
    "select": "import select\nwhile True: select.select([os.pipe()[0]], [], [], 1)\n",
    "condition": "changed = threading.Condition()\nchanged.acquire()\nwhile True: changed.wait(1000)\n",
    "semaphore": "signal.signal(signal.SIGUSR1, lambda *of: None)\nwhile True: threading.Semaphore(0).acquire(timeout=1000)\n",
    "sigwait": "signal.sigwait({signal.SIGUSR1})\n",
    "tasks": "async def main(): await asyncio.gather(*(asyncio.sleep(1000) for _ in range(50)))\nasyncio.run(main())\n",
    "to_thread": "asyncio.run(asyncio.to_thread(time.sleep, 1000))\n",
}


def idle(options):
    programs = {**tests_of("test_stalls").IDLE, **MORE_IDLE}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        said = list(filter(None, pool.map(lambda each: _idle(*each, options.idle), programs.items())))
    yield "idle", not said, {"programs": len(programs), "limits": options.idle / IDLE_LIMIT, "false": said}


SUBJECTS = {each.__name__: each for each in (reasons, chains, held, spans, stalls, idle)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SUBJECTS), help="of " + ", ".join(SUBJECTS))
    parser.add_argument("--tasks", type=int, default=100_000, help="samples of chains")
    parser.add_argument("--spans", type=int, default=1_000_000, help="samples of spans")
    parser.add_argument("--seconds", type=float, default=60, help="of held")
    parser.add_argument("--stalls", type=int, default=100, help="how many are seeded")
    parser.add_argument("--idle", type=float, default=120 * IDLE_LIMIT, help="seconds of each program of idle")
    options = parser.parse_args()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    missed = False
    for name in options.only.split(","):
        begun = time.monotonic()
        for subject, met, figures in SUBJECTS[name](options):
            missed |= not met
            line = {"python": platform.python_version() + ("" if GIL else "t"), "subject": subject, "met": met, **figures}
            line.update(seconds=round(time.monotonic() - begun), load=round(os.getloadavg()[0], 1))
            print(json.dumps(line), flush=True)
            with open(LOG, "a") as log:
                log.write(json.dumps(line) + "\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
