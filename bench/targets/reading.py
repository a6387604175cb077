"""reading.py FILE [BEGAN_NS ENDED_NS TID]: what is in a .spprof file, as JSON; with a span, the ticks of that thread in it."""

import json
import os
import sys
from array import array

from spprof import _core


def main(path, span):
    with open(path, "rb") as file:
        data = _core.read(file.read())
    facts = {
        "samples": len(data["thread"]) // 4,
        "bytes": os.path.getsize(path),
        "nodes": len(data["node_parent"]) // 4,
        "tick_stats": json.loads(data["tick_stats"]),
        "clock": json.loads(data["header"])["clock"],
        "warning": data["warning"],
    }
    if span:
        began, ended, tid = span
        threads = [one for block in data["threads"] for one in json.loads(block)]
        wanted = {one["id"] for one in threads if one["tid"] == tid}
        count = array("I", data["count"])
        inside = [
            i
            for i, (time, thread) in enumerate(zip(array("q", data["time_ns"]), array("I", data["thread"])))
            if began <= time <= ended and thread in wanted
        ]
        weight = array("q", data["weight"])
        facts["in_span"] = sum(count[i] for i in inside)
        facts["weight_in_span_ns"] = sum(weight[i] for i in inside)
    print(json.dumps(facts))


main(sys.argv[1], [int(word) for word in sys.argv[2:5]])
