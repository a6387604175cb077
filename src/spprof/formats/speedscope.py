"""speedscope's file (https://www.speedscope.app/file-format-schema.json): a `sampled` profile a thread, in time order.

Most of the text repeats: each distinct stack is rendered once, and a profile is those texts joined.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterable, Iterator, List, Sequence, Tuple

if TYPE_CHECKING:
    from ..model import Frame, Profile
    from . import Options

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_CHUNK = 1 << 16  # samples joined at a time: bounds the memory, not the speed

Track = Tuple[str, Sequence[int], Sequence[int]]  # name, stack keys and weights in time order


def write(profile: Profile, out: BinaryIO, options: Options) -> None:
    """Writes frames, then for each thread its samples and weights in nanoseconds."""
    from .. import __version__

    tracks = _tracks(profile, options)
    frames, stacks = _render(profile, {key for track in tracks for key in track[1]}, options.lines)
    argv = profile.header.get("argv") or ["spprof"]
    head: Dict[str, Any] = {"$schema": _SCHEMA, "exporter": f"spprof {__version__}", "name": " ".join(map(str, argv))}
    head["activeProfileIndex"] = max(range(len(tracks)), key=lambda i: sum(tracks[i][2]), default=0)
    out.write(json.dumps(head)[:-1].encode() + b', "shared": {"frames": ' + json.dumps(frames).encode())
    out.write(b'}, "profiles": [')
    for number, (name, keys, weights) in enumerate(tracks):
        about = {"type": "sampled", "name": name, "unit": "nanoseconds", "startValue": 0, "endValue": sum(weights)}
        out.write((b",\n" if number else b"\n") + json.dumps(about)[:-1].encode() + b', "samples": [')
        for start in range(0, len(keys), _CHUNK):
            out.write((b"," if start else b"") + b",".join(map(stacks.__getitem__, keys[start : start + _CHUNK])))
        out.write(b'], "weights": ' + str(list(weights)).replace(" ", "").encode() + b"}")
    out.write(b"]}\n")


def _tracks(profile: Profile, options: Options) -> List[Track]:
    threads, keys, weights = profile.column("thread"), profile.stack_keys(), profile.column("weight_ns")
    matching = profile.match_threads(options.thread)
    if options.merge_threads:
        times, wanted = profile.column("time_ns"), set(matching)
        order = sorted((i for i, thread in enumerate(threads) if thread in wanted), key=times.__getitem__)
        name = "all threads" if options.thread is None else options.thread
        return [(name, [keys[i] for i in order], [weights[i] for i in order])]
    present = set(threads)
    if len(present) == 1:  # nothing to tell apart
        parts = {next(iter(present)): (keys, weights)}
    else:
        parts = _divide(threads, keys, weights, present)
    return [(f"{profile.thread_name(id)} ({profile.thread_tid(id)})", *parts[id]) for id in matching if id in parts]


def _divide(
    threads: Sequence[int], keys: Sequence[int], weights: Sequence[int], present: Iterable[int]
) -> Dict[int, Tuple[Sequence[int], Sequence[int]]]:
    """One pass for all threads: programs may have hundreds."""
    parts: Dict[int, Tuple[List[int], List[int]]] = {thread: ([], []) for thread in present}
    appends = {thread: (part[0].append, part[1].append) for thread, part in parts.items()}
    for thread, key, weight in zip(threads, keys, weights):
        append_key, append_weight = appends[thread]
        append_key(key)
        append_weight(weight)
    return dict(parts)


def _render(profile: Profile, keys: Any, lines: bool) -> Tuple[List[Dict[str, Any]], Dict[int, bytes]]:
    """The shared frames, and the text of each stack. Frames that would look the same are one frame."""
    from ..model import NO_FRAMES, TRUNCATION, native_name

    frames: List[Dict[str, Any]] = []
    ids: Dict[Tuple[str, str, int, int], int] = {}

    def intern(frame: Frame, line: int, col: int) -> bytes:
        name = native_name(frame.qualname, frame.file) if frame.native else frame.qualname
        file = frame.source or frame.file
        place = (name, file, line, col)
        if place not in ids:
            ids[place] = len(frames)
            about: Dict[str, Any] = {"name": name}
            about.update({k: v for k, v in (("file", file), ("line", line), ("col", col)) if v})
            frames.append(about)
        return b"%d" % ids[place]

    texts: Dict[int, bytes] = {}
    stacks: Dict[int, bytes] = {}
    for key in sorted(keys):
        parts = list(_marks(key, TRUNCATION, intern))
        for id in profile.stack_frames(key):
            text = texts.get(id)
            if text is None:
                frame = profile.frame(id)
                if frame.native:
                    place = (frame.source_line if lines else 0, 0)
                else:
                    place = (frame.line, frame.col + 1) if lines else (profile.first_line(id), 0)
                text = texts[id] = intern(frame, *place)
            parts.append(text)
        stacks[key] = b"[" + b",".join(parts or [intern(NO_FRAMES, 0, 0)]) + b"]"
    return frames, stacks


def _marks(key: int, truncation: Frame, intern: Any) -> Iterator[bytes]:
    if key < 0:
        yield intern(truncation, 0, 0)
