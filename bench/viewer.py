"""The HTML viewer with a large profile: how long its page takes to write, how large it is, how soon it opens, how fast it zooms.

  python3 -m bench.viewer                              10 million samples, 50,000 distinct stacks; about 4 minutes
  python3 -m bench.viewer --samples 1000000 --runs 1
  python3 -m bench.viewer --samples 600000 --stacks 300000 --spread      nearly every sample has a stack of its own
  python3 -m bench.viewer --profile app.4711.spprof    a profile that was taken

Needs Chromium, node and `make browser`. The made profile: a tree of calls in which new stacks branch off old ones (depth up to
40), popularity as 1/rank, and time spent in runs: half of the samples have the stack of the one before, three in ten one of the
last eight. Reading the profile is not counted: it is not the page's.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any, List

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
BLOCK = 50_000  # samples a block

WRITE = """
import sys, time
from spprof import Profile, formats

def megabytes():  # not getrusage: a child starts with its parent's maximum there
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

began = time.perf_counter()
profile = Profile.load(sys.argv[1])
read = time.perf_counter() - began
base = len(profile) and megabytes()
began, used = time.perf_counter(), time.process_time()
with open(sys.argv[2], "wb") as out:
    formats.write(profile, out, "html", formats.Options())
took, used = time.perf_counter() - began, time.process_time() - used
print(len(profile), len(set(profile.stack_keys())), read, took, used, base, megabytes())
"""


def make(path: Path, samples: int, stacks: int, spread: bool = False, seed: int = 7) -> None:
    """Writes the made profile with the tests' independent writer. `spread`: each stack is as common as the others."""
    sys.path.insert(0, str(ROOT / "tests" / "unit"))
    from spprof_file import COLUMNS, Writer, block, column, zigzag

    draw = random.Random(seed)
    functions = [
        (f"function_{i}", f"Module{i % 97}.function_{i}", f"/app/package{i % 23}/module{i % 97}.py", 10 * (i % 200) + 1)
        for i in range(3000)
    ]
    writer = Writer(argv=["bench", f"{samples:,} samples"], interval_ns=100_000, start_unix_ns=0)
    paths: List[List[Any]] = [[(*functions[0], 2, 2, 4, 20)]]
    leaves = []
    while len(leaves) < stacks:
        above = draw.choice(paths)
        if len(above) > 34:
            continue
        added = list(above)
        for _ in range(draw.randint(1, 6)):
            function = functions[min(int(draw.expovariate(1 / 300)), 2999)]
            line = function[3] + draw.randint(1, 8)
            added.append((*function, line, line, 4, 10 + line % 50))
            if draw.random() < 0.5:
                paths.append(list(added))
        leaves.append(writer.node(added))
    leaves = list(dict.fromkeys(leaves))
    weights = list(accumulate(1 / rank for rank in range(1, len(leaves) + 1)))
    draw.shuffle(leaves)
    writer.flush()
    with open(path, "wb") as out:
        out.write(writer.data)
        writer.json(b"T", [{"id": 0, "tid": 4711, "name": "MainThread"}])
        recent = [leaves[0]] * 8
        last = leaves[0]
        average = 0
        while samples > 0:
            n = min(BLOCK, samples)
            samples -= n
            fresh = iter(draw.choices(leaves, cum_weights=weights, k=n))
            nodes, times, corrections = [], [], []
            for _ in range(n):
                chance = draw.random()
                if spread:
                    last = draw.choice(leaves)
                elif chance > 0.8:
                    last = next(fresh)
                    recent[draw.randrange(8)] = last
                elif chance > 0.5:
                    last = recent[int(chance * 80) % 8]
                nodes.append(last)
                step = 100 + int(draw.gauss(0, 6))
                error = step - (average >> 2)
                average += error
                times.append(zigzag(error))
                corrections.append(0 if chance > 0.02 else zigzag(draw.randint(-2, 2)))
            columns = dict.fromkeys(COLUMNS, ())
            columns.update(thread=[0] * n, time=times, weight=corrections, stack=nodes, count=[0] * n, flags=[0] * n)
            out.write(block(b"S", b"".join(column(list(columns[name])) for name in COLUMNS)))
        out.write(block(b"T", json.dumps([{"id": 0, "tid": 4711, "name": "MainThread"}]).encode()))
        out.write(block(b"E", json.dumps({"stop_ns": 0, "reason": "stop"}).encode()))


def frames(times: List[float]) -> str:
    return f"{statistics.median(times):.1f} / {sorted(times)[int(0.95 * len(times))]:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--stacks", type=int, default=50_000)
    parser.add_argument("--spread", action="store_true", help="all stacks are equally common: few samples share one")
    parser.add_argument("--runs", type=int, default=5, help="how often the page is opened")
    parser.add_argument("--profile", type=Path, help="a profile that was taken, instead of one made here")
    parser.add_argument("--directory", type=Path, help="where the profile and the page are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        path = options.profile or directory / f"made-{options.samples}-{options.stacks}{'-spread' * options.spread}.spprof"
        if not path.exists():
            began = time.perf_counter()
            make(path, options.samples, options.stacks, options.spread)
            print(f"made in {time.perf_counter() - began:.0f} s: {path.stat().st_size:,} bytes", flush=True)
        page = directory / (path.stem + ".html")
        written = subprocess.run([sys.executable, "-c", WRITE, str(path), str(page)], check=True, capture_output=True, text=True)
        samples, stacks, read, took, used, base, peak = map(float, written.stdout.split())
        size = page.stat().st_size
        more = peak - base
        print(f"profile     {samples:,.0f} samples, {stacks:,.0f} stacks; read in {read:.2f} s ({base:.0f} MB)")
        print(
            f"written in  {took:.2f} s ({used:.2f} s of CPU), {peak:.0f} MB at most, {more:.0f} MB more than the profile itself"
        )
        print(
            f"page        {size:,} bytes: {size / samples:.2f} a sample, {(size - 1.5e6) / samples:.2f} above 1.5 MB (goal: 3)",
            flush=True,
        )
        seen = subprocess.run(
            ["node", str(HERE / "viewer.mjs"), str(page), str(options.runs)], check=True, capture_output=True, text=True
        )
        print("opened in, frames (median / 95th percentile) while zooming, while dragging a range (goals: 2 s, 17 / 34 ms):")
        for run in json.loads(seen.stdout):
            print(f"            {run['opened'] / 1000:.2f} s, {frames(run['zoom'])}, {frames(run['drag'])}")


if __name__ == "__main__":
    main()
