"""leaves.py FILE THREADS: of each thread of turns.py (as it says them, in JSON) what a profile shows, as JSON.

A sample is of `a` or `b` if one of them is on its stack (the newest counts), else of the rest."""

import json
import sys

from spprof import Profile
from spprof.model import COARSE, intervals


def share(part, *others):
    """What `part` is of them all, with the interval that spprof gives it. Each is [samples, weight, sum of weight^2 / ticks,
    weight at no random instant]."""
    samples, weight, squares, unknown = (sum(column) for column in zip(part, *others))
    whole = intervals.Whole(weight, samples, squares, unknown)
    seen, low, high = whole.share(part[1])
    facts = {"seen": seen, "samples": samples, "effective": whole.samples, "interval": [low, high]}
    return {**facts, "unknown": whole.unknown_share}


def main(path, threads):
    profile = Profile.load(path)
    parents, frames = profile.tree.parents, profile.tree.frames
    labels = ["rest"] * len(parents)
    for node in range(1, len(parents)):
        name = profile.frame(frames[node]).name
        labels[node] = name if name in ("a", "b") else labels[parents[node]]
    spans = {one["tid"]: (one["began_ns"], one["ended_ns"]) for one in threads}
    tids = {thread.id: thread.tid for thread in profile.threads}
    sums = {tid: {name: [0, 0, 0.0, 0] for name in ("a", "b", "rest")} for tid in spans}
    columns = ("thread", "time_ns", "weight", "count", "flags")
    for key, thread, time, weight, count, flags in zip(profile.stack_keys(), *map(profile.column, columns)):
        began, ended = spans.get(tids[thread], (0, 0))
        if began <= time <= ended:
            one = sums[tids[thread]][labels[key]]
            one[0] += 1
            one[1] += weight
            one[2] += weight * weight / (count or 1)
            one[3] += weight if flags & COARSE else 0
    facts = {}
    for tid, one in sums.items():
        a, b, rest = one["a"], one["b"], one["rest"]
        facts[tid] = {
            "a": share(a, b), "rest": share(rest, a, b),
            "weights_ns": {name: each[1] for name, each in one.items()}, "samples": a[0] + b[0] + rest[0],
        }  # fmt: skip
    print(json.dumps({"clock": profile.clock, "tick_stats": profile.stats, "warning": profile.warning, "threads": facts}))


main(sys.argv[1], json.loads(sys.argv[2]))
