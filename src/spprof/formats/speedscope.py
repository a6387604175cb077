"""speedscope's file (https://www.speedscope.app/file-format-schema.json): a `sampled` profile for each thread and each
type of samples, in time order.

Most of the text repeats: each distinct stack is rendered once, and a profile is those texts joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Dict

from ._frames import Frames, Look, json_bytes
from ._samples import CHUNK, distinct_keys, tracks

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_ABOUT = {"type": "sampled", "startValue": 0}
_UNITS = {"nanoseconds": "nanoseconds", "bytes": "bytes"}  # of a profile -> of a file, which has no other words


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes frames, then for each thread its samples and weights: nanoseconds, or ticks with `weight='samples'`."""
    from .. import __version__

    ticks = options.weight == "samples"
    parts = profile.each_type()
    chosen = [
        (part, track)
        for part in parts
        for track in tracks(part, options)
        if len(part) and (track.order is None or len(track.order))
    ]
    frames = Frames(profile, options.lines)
    keys_of_all = sorted({key for part in parts for key in distinct_keys(part, [track for of, track in chosen if of is part])})
    stacks = {key: b"[%b]" % b",".join(map(b"%d".__mod__, frames.stack(key))) for key in keys_of_all}
    weights = [track.pick(part.column("count" if ticks else "weight")) for part, track in chosen]
    argv = profile.header.get("argv") or ["spprof"]
    head: Dict[str, Any] = {"$schema": _SCHEMA, "exporter": f"spprof {__version__}", "name": " ".join(map(str, argv))}
    of_the_first = [i for i, (part, _) in enumerate(chosen) if part is parts[0]]  # sums of other units do not compare
    head["activeProfileIndex"] = max(of_the_first, key=lambda i: sum(weights[i]), default=0)
    looks = [_about(look, options.lines) for look in frames.looks]
    out.write(json_bytes(head)[:-1] + b', "shared": {"frames": ' + json_bytes(looks))
    out.write(b'}, "profiles": [')
    if not chosen:  # speedscope opens no file without profiles
        empty = {**_ABOUT, "name": "no samples", "unit": _unit(profile, ticks), "endValue": 0, "samples": [], "weights": []}
        out.write(json_bytes(empty))
    for number, ((part, track), values) in enumerate(zip(chosen, weights)):
        keys = track.pick(part.stack_keys())
        name = track.name if track.thread is None else f"{track.name} ({profile.thread_tid(track.thread)})"
        name += f": {part.sample_types[0].name}" if len(parts) > 1 else ""
        about = {**_ABOUT, "name": name, "unit": _unit(part, ticks), "endValue": sum(values)}
        out.write((b",\n" if number else b"\n") + json_bytes(about)[:-1] + b', "samples": [')
        for start in range(0, len(keys), CHUNK):
            out.write((b"," if start else b"") + b",".join(map(stacks.__getitem__, keys[start : start + CHUNK])))
        out.write(b'], "weights": [')
        for start in range(0, len(values), CHUNK):
            out.write((b"," if start else b"") + b",".join(map(b"%d".__mod__, values[start : start + CHUNK])))
        out.write(b"]}")
    out.write(b"]}\n")


def _unit(part: ProfileData, ticks: bool) -> str:
    return "none" if ticks else _UNITS.get(part.unit, "none")


def _about(look: Look, lines: bool) -> Dict[str, Any]:
    line = look.line if lines or look.native else look.first_line
    about = {"name": look.title, "file": look.file or look.library, "line": line, "col": look.column}
    return {key: value for key, value in about.items() if value or key == "name"}
