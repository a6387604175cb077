"""speedscope's file (https://www.speedscope.app/file-format-schema.json): a `sampled` profile a thread, in time order.

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
    unit, weight_column = "none" if ticks else _UNITS.get(profile.unit, "none"), profile.column("count" if ticks else "weight_ns")
    chosen = [track for track in tracks(profile, options) if track.order is None or len(track.order)]
    frames = Frames(profile, options.lines)
    stacks = {key: b"[%b]" % b",".join(map(b"%d".__mod__, frames.stack(key))) for key in distinct_keys(profile, chosen)}
    weights = [track.pick(weight_column) for track in chosen]
    argv = profile.header.get("argv") or ["spprof"]
    head: Dict[str, Any] = {"$schema": _SCHEMA, "exporter": f"spprof {__version__}", "name": " ".join(map(str, argv))}
    head["activeProfileIndex"] = max(range(len(chosen)), key=lambda i: sum(weights[i]), default=0)
    looks = [_about(look, options.lines) for look in frames.looks]
    out.write(json_bytes(head)[:-1] + b', "shared": {"frames": ' + json_bytes(looks))
    out.write(b'}, "profiles": [')
    if not chosen:  # speedscope opens no file without profiles
        out.write(json_bytes({**_ABOUT, "name": "no samples", "unit": unit, "endValue": 0, "samples": [], "weights": []}))
    for number, (track, values) in enumerate(zip(chosen, weights)):
        keys = track.pick(profile.stack_keys())
        name = track.name if track.thread is None else f"{track.name} ({profile.thread_tid(track.thread)})"
        about = {**_ABOUT, "name": name, "unit": unit, "endValue": sum(values)}
        out.write((b",\n" if number else b"\n") + json_bytes(about)[:-1] + b', "samples": [')
        for start in range(0, len(keys), CHUNK):
            out.write((b"," if start else b"") + b",".join(map(stacks.__getitem__, keys[start : start + CHUNK])))
        out.write(b'], "weights": [')
        for start in range(0, len(values), CHUNK):
            out.write((b"," if start else b"") + b",".join(map(b"%d".__mod__, values[start : start + CHUNK])))
        out.write(b"]}")
    out.write(b"]}\n")


def _about(look: Look, lines: bool) -> Dict[str, Any]:
    line = look.line if lines or look.native else look.first_line
    about = {"name": look.title, "file": look.file or look.library, "line": line, "col": look.column}
    return {key: value for key, value in about.items() if value or key == "name"}
