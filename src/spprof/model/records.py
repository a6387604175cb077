"""What a profile is made of, as plain records: frames, samples, threads, rows of figures."""

from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Tuple

TRUNCATED, KERNEL, OFF_CPU, GAP, UNPAIRED, COARSE, HOLDS_GIL = 1, 2, 4, 8, 16, 32, 64  # flags of a sample


class Frame(NamedTuple):
    """One call on a stack. Lines count from 1 (0: unknown). Columns are UTF-8 byte offsets from 0 (-1: unknown, as always
    before 3.11).

    For a native frame, `name` is the C function and `qualname` its name in Python if known (`zlib.compress`), else the same.
    `file` is the library ('' if unknown); `line` and `end_line` are the address in it (frames with the same source line share
    one address). `source` and `source_line` say where it was written ('' and 0 until `spprof symbolize` has run)."""

    name: str
    qualname: str
    file: str
    line: int
    end_line: int
    col: int
    end_col: int
    native: bool = False
    source: str = ""
    source_line: int = 0

    def __str__(self) -> str:
        """As reports show it: `parse (/srv/app.py:10)`, `deflate [libz.so.1]`."""
        if self.native:
            return native_name(self.qualname, self.file, self.source, self.source_line)
        return f"{self.qualname} ({self.file}:{self.line})" if self.line else self.qualname


def native_name(qualname: str, file: str, source: str = "", line: int = 0) -> str:
    """How a native function is shown: `deflate [libz.so.1]`, where a Python function has `(file:line)`; with its line if known,
    `deflate (deflate.c:1012) [libz.so.1]`."""
    where = f" ({os.path.basename(source)}:{line})" if source and line else ""
    return f"{qualname}{where} [{os.path.basename(file)}]" if file else qualname + where


def loss_title(reason: str) -> str:
    """A reason of loss (a key of `stats['losses']`) in words."""
    try:
        from .._core import LOSSES
    except ImportError:  # reading where none can be taken
        return reason
    return LOSSES.get(reason, reason)


class Sample(NamedTuple):
    """One sample. `frames` goes from the root (the outermost caller) to the leaf: `frames[-1]` is what was running.

    `timestamp_ns` is on the clock of `time.monotonic_ns()`. `weight` is the measured time that the sample represents.
    `count` is its number of ticks (more than 1 for a thread that was off the CPU in wall mode). `flags` is a sum of: 1
    truncated, 2 kernel time, 4 off-CPU, 8 native frames missing, 16 native frames left out, 32 taken at no random instant, 64
    its thread held the GIL (wall mode). `labels` are those of `spprof.label`; `task` is the name of the asyncio task that ran,
    '' if none did. `span` is OpenTelemetry's current span, `trace_id-span_id`."""

    thread: int
    thread_name: str
    timestamp_ns: int
    weight: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    frames: Tuple[Frame, ...]
    flags: int
    labels: Dict[str, str]
    task: str = ""
    span: str = ""

    @property
    def trace_id(self) -> str:
        """The id of OpenTelemetry's trace that was current, in hexadecimal digits; '' if none was."""
        return self.span.partition("-")[0]

    @property
    def span_id(self) -> str:
        """The id of the span likewise."""
        return self.span.partition("-")[2]


class Marker(NamedTuple):
    """An event in a thread that is not a sample. `name` is `gc` for a run of the garbage collector; its `data` are
    `generation`, `collected` and `uncollectable`. `time_ns`, when it began, is on the clock of the samples."""

    name: str
    thread: int
    time_ns: int
    duration_ns: int
    data: Dict[str, Any]


class Thread(NamedTuple):
    """A thread of the profile: `id` counts from 0 in order of appearance, `tid` is the system's id (0: unknown)."""

    id: int
    tid: int
    name: str
    samples: int
    weight: int


class FunctionRow(NamedTuple):
    """Figures of one function, or of one line of it. `line` is the function's first line, or that line. Native functions have
    their library as `file` and 0 as `line`; by line, where `spprof symbolize` found it, their source and its line."""

    name: str
    qualname: str
    file: str
    line: int
    self_samples: int
    self_weight: int
    total_samples: int
    total_weight: int


class Total(NamedTuple):
    """The sums of the samples of one stack."""

    samples: int
    weight: int


NO_FRAMES = Frame("[no Python frames]", "[no Python frames]", "", 0, 0, -1, -1)
TRUNCATION = Frame("[truncated]", "[truncated]", "", 0, 0, -1, -1)


class NativeCall(NamedTuple):
    """Native time below one Python line: its function, file and line, the native function that ran and its library, samples and
    nanoseconds. `qualname` is `[no Python frames]` for native code that no Python code called."""

    qualname: str
    file: str
    line: int
    native: str
    library: str
    samples: int
    weight: int
