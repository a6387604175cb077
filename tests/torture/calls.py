"""python -m tests.torture.calls: some 80 kinds of calls that may wait or move data, from C, under each clock.

  python -m tests.torture.calls                                   each interpreter of tools/matrix, clock, rate and mode
  python -m tests.torture.calls --python 3.9,3.15 --clocks signal --rates 10000 --modes cpu --turns 20000
  python -m tests.torture.calls --sum                             adds up the log of all runs so far

calls.c says what must come of each call: its result, errno and least time, by the call's own rule; signals of the program's own
come in between. Each share has a run without spprof first, by the same seed, which must show no difference either. How late calls
with a time limit are, is shown beside that run's. Each run is a line of JSON in build/torture/calls.jsonl. Exits with 1 if
anything differed.

The clocks `perf` and `perf-user` may end calls (docs/clocks.md) and are run by name only: so `--clocks perf --rates 10000`
shows what this finds, one call of twenty."""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .__main__ import HERE, ROOT, environment, interpreters
from .process import finish

LOG = ROOT / "build" / "torture" / "calls.jsonl"
LIMIT = 120  # seconds; a caller that is not done by then hangs
THREADS = 4


def library():
    """Compiled once."""
    made = LOG.parent / "calls.so"
    made.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, HERE / "calls.c", "-o", made, "-lpthread", "-lrt", "-lutil"], check=True)
    return made


def run(python, path, turns, seed, how):
    """What caller.py says; `problem` if it did not come to its end."""
    with tempfile.TemporaryDirectory(prefix="calls-") as folder:
        command = [python, HERE / "caller.py", path, folder, THREADS, turns, seed, LIMIT, *how]
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(python, {}), start_new_session=True,
        )  # fmt: skip
        status, text, errors = finish(process, LIMIT + 30)
    if status != 0 or not text.startswith("{"):
        return {"kinds": {}, "seconds": 0.0, "stats": None, "problem": f"exit status {status}: {errors[-500:]}"}
    said = json.loads(text)
    hang = Counter(said.pop("hang"))
    return {**said, "problem": f"hang in {dict(hang)}" if hang else None}


def refused(python, clock):
    """Why the system does not allow the clock, or None."""
    probe = [python, "-c", f"from spprof import _core; _core.choose_clock({clock!r})"]
    done = subprocess.run(probe, stderr=subprocess.PIPE, text=True, env=environment(python, {}))
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def total(said, what):
    return sum(one[what] for one in said["kinds"].values())


def late_us(said):
    """Median over the kinds of their mean."""
    means = sorted(one["late_ns"] / one["timed"] / 1000 for one in said["kinds"].values() if one["timed"] > 5)
    return means[len(means) // 2] if means else 0.0


def show(name, how, said, alone):
    ticks = (said["stats"] or {}).get("taken", 0)
    bad = total(said, "differences") + bool(said["problem"])
    print(
        f"{'FAILED' if bad else 'ok':7}{name:6} {' '.join(how) or 'alone':22} {total(said, 'calls'):9,} calls, "
        f"{total(said, 'signalled'):6,} with a signal, {total(said, 'differences')} differ; "
        f"{late_us(said):.0f} us late{f' (alone {late_us(alone):.0f})' if alone else ''}; "
        f"{ticks:7,} samples, {said['seconds']:.1f} s",
        flush=True,
    )
    if said["problem"]:
        print(f"FAILED    {said['problem']}", flush=True)
    for kind, one in said["kinds"].items():
        if one["differences"]:
            print(f"FAILED    {kind}: {one['differences']} of {one['calls']}; the first: {one['first']}", flush=True)
    return bad


def add_up(log):
    sums, calls, bad = Counter(), Counter(), Counter()
    for text in log.read_text().splitlines() if log.exists() else []:
        line = json.loads(text)
        key = line["how"][0] if line["how"] else "alone"
        sums[key] += 1
        calls[key] += total(line, "calls")
        bad[key] += total(line, "differences") + bool(line["problem"])
    for key in sorted(sums):
        print(f"{key:10} {sums[key]:5} runs {calls[key]:12,} calls {bad[key]:6} differ")


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.torture.calls", description=__doc__, formatter_class=plain)
    parser.add_argument("--python", help="interpreters, as tools/matrix names them (default: all that are built)")
    parser.add_argument("--clocks", default="signal,timer,perf-trap", help="(default: all that interrupt no call)")
    parser.add_argument("--rates", default="1000,10000")
    parser.add_argument("--modes", default="cpu,wall")
    parser.add_argument("--events", default="time", help="of each run, with + between: time+context-switches=1 (default: time)")
    parser.add_argument("--turns", type=int, default=2500, help="of each thread of a run; a turn is some two calls")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="(default: another each time)")
    parser.add_argument("--log", type=Path, default=LOG)
    parser.add_argument("--sum", action="store_true", help="only add up the log")
    asked = parser.parse_args()
    if asked.sum:
        return add_up(asked.log)
    path, bad, calls = library(), 0, 0
    print(f"seed {asked.seed}")
    for name, python in interpreters(asked.python).items():
        alone, clocks = None, []
        for clock in asked.clocks.split(","):
            why = refused(python, clock)
            if why is None:
                clocks.append(clock)
            else:
                print(f"not run: {name} {clock}: {why}", flush=True)
        for how in [(), *itertools.product(clocks, asked.rates.split(","), asked.modes.split(","), [asked.events])]:
            said = run(python, path, asked.turns, asked.seed, how)
            bad += show(name, how, said, alone)
            calls += total(said, "calls") if how else 0
            alone = alone or said
            with asked.log.open("a") as file:
                file.write(json.dumps({"at": int(time.time()), "python": name, "how": how, "seed": asked.seed, **said}) + "\n")
    print(f"calls: {calls:,} under spprof, {bad} of these and of those alone differ")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
