"""V8's CPU profile, which VS Code and Chrome's developer tools open
(https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile).

It is of one thread: samples of all threads follow each other in the order of their times, each as long as it weighs. So all
figures are right, and the axis of time is not that of a clock. A node is a function below its caller; `positionTicks` are the
lines that ran, which VS Code shows in the source. Hits and ticks are microseconds, not samples: Chrome's developer tools give a
node the share of all time that it has of all hits, which is right only if a hit is as long as any other.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List
from urllib.parse import quote

from ..model.tree import Tree
from ..model.unicode import clean
from ._frames import Frames, Look, json_bytes
from ._samples import CHUNK, tracks
from .options import Options

if TYPE_CHECKING:
    from ..model.data import ProfileData

_ROOT = {"functionName": "(root)", "scriptId": "0", "url": "", "lineNumber": -1, "columnNumber": -1}


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes microseconds since the start of the profile."""
    [track] = tracks(profile, Options(merge_threads=True, thread=options.thread))
    keys, weights = (track.pick(column) for column in (profile.stack_keys(), profile.column("weight")))
    functions, lines = Frames(profile, lines=False), Frames(profile)
    tree = Tree()
    nodes = tree.graft(profile.tree, sorted(set(keys)), lambda id: (functions.numbers[id],))
    hits: Counter[int] = Counter()
    ticks: Dict[int, Counter[int]] = {}
    for key, weight in zip(keys, weights):
        hits[nodes[key]] += weight
        line = lines.looks[lines.numbers[profile.tree.frames[key]]].line
        if options.lines and line:
            ticks.setdefault(nodes[key], Counter())[line] += weight
    scripts: Dict[str, int] = {}  # DevTools takes functions of one name, line and script for one
    children: Dict[int, List[int]] = {}
    for node in range(1, len(tree)):
        children.setdefault(tree.parents[node], []).append(node + 1)
    out.write(b'{"nodes":[')
    for node in range(len(tree)):
        about: Dict[str, Any] = {
            "id": node + 1,
            "callFrame": _call_frame(functions.looks[tree.frames[node]], scripts) if node else _ROOT,
        }
        about.update(hitCount=hits[node] // 1000, children=children.get(node, []))
        if node in ticks:
            about["positionTicks"] = [{"line": line, "ticks": ns // 1000} for line, ns in sorted(ticks[node].items())]
        out.write((b",\n" if node else b"\n") + json_bytes(about))
    start = int(profile.header.get("start_ns") or 0) // 1000
    passed = done = 0
    deltas = [0]  # before a sample: how long the one before it lasted
    for weight in weights:
        passed += weight
        deltas.append((passed + 500) // 1000 - done)
        done += deltas[-1]
    out.write(b'],"startTime":%d,"endTime":%d,"samples":[' % (start, start + done))
    _numbers(out, [nodes[key] + 1 for key in keys])
    out.write(b'],"timeDeltas":[')
    _numbers(out, deltas[: len(keys)])
    out.write(b"]}\n")


def _numbers(out: BinaryIO, values: List[int]) -> None:
    for start in range(0, len(values), CHUNK):
        out.write((b"," if start else b"") + b",".join(map(b"%d".__mod__, values[start : start + CHUNK])))


def _call_frame(look: Look, scripts: Dict[str, int]) -> Dict[str, Any]:
    """Lines and columns count from 0. A native function's name has its library, which is no source. `scripts`: the number of
    each file or library so far, from 1."""
    script = scripts.setdefault(look.library if look.native else look.file, len(scripts) + 1)
    file = "" if look.native else clean(look.file)
    return {
        "functionName": look.title,
        "scriptId": str(script),
        "url": f"file://{quote(file)}" if file.startswith("/") else file,
        "lineNumber": max(look.first_line - 1, 0),
        "columnNumber": 0,
    }
