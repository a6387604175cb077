"""worked.py FILE BEGAN_NS ENDED_NS TID NAMES: what a profile shows of functions in a span of a thread, as JSON: their weights
beside the thread's, and the effective number of its samples."""

import json
import sys

from spprof import Profile
from spprof.model import intervals


def main(path, began, ended, tid, names):
    profile = Profile.load(path)
    parents, frames = profile.tree.parents, profile.tree.frames
    labels = [""] * len(parents)
    for node in range(1, len(parents)):
        name = profile.frame(frames[node]).name
        labels[node] = name if name in names else labels[parents[node]]
    wanted = {thread.id for thread in profile.threads if thread.tid == tid}
    sums = {name: [0, 0, 0.0] for name in ("", *names)}
    columns = map(profile.column, ("thread", "time_ns", "weight", "count"))
    for key, thread, at, weight, count in zip(profile.stack_keys(), *columns):
        if thread in wanted and began <= at <= ended:
            one = sums[labels[key]]
            one[0] += 1
            one[1] += weight
            one[2] += weight * weight / (count or 1)
    samples, weight, squares = map(sum, zip(*sums.values()))
    whole = intervals.Whole(weight, samples, squares, 0)
    weights = {name: one[1] for name, one in sums.items() if name}
    print(json.dumps({"clock": profile.clock, "whole_ns": weight, "samples": whole.samples, "weights_ns": weights}))


main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5].split(","))
