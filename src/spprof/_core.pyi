"""The C core. Everything here is private; `spprof` is the public interface."""

from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

layout_error: Optional[str]
"""Why this interpreter's frames cannot be read (then `start` refuses), or None."""
LOSSES: Dict[str, str]
"""Key of each reason for which a tick gives no sample -> its title for people."""
NATIVE: bool
"""Whether native frames can be sampled here."""
CLOCKS: Dict[str, str]
"""Name of each clock -> one line about it: perf, perf-user, timer."""

def choose_clock(clock: str) -> str:
    """The clock that `start` would use when asked for `clock` ('auto' or a name of CLOCKS).

    Raises ValueError for a name that does not exist, OSError if the kernel refuses it."""

def start(
    fd: int, clock: str, wall: bool, interval_ns: int, max_depth: int, header: bytes, native: int = 0, full: bool = False
) -> None:
    """Writes the magic and the header block (JSON bytes, as docs/file-format.md) to fd, which the core duplicates, and starts sampling
    every thread; with `wall` also while it is off the CPU. `clock` is what choose_clock gave. `native`: 0 no native frames, 1 those
    below the last Python frame, 2 all; `full`: CPython's own functions too. Raises RuntimeError if active or the
    layout is unproven, OSError."""

def stop() -> Dict[str, Any]:
    """Disarms everything, writes what is left and the end block, and returns the final stats(). RuntimeError if not active."""

def pause() -> None: ...
def resume() -> None: ...
def flush() -> None:
    """Waits until all samples that were taken before the call are in the file. OSError if one could not be written."""

def active() -> bool:
    """True between start and stop (also while paused); False in a forked child."""

def paused() -> bool: ...
def stats() -> Dict[str, Any]:
    """The account so far (of the last run, when stopped; {} before the first): clock str, expected, taken, repeated ints, losses
    dict of int keyed as LOSSES, captured (= taken), dropped (sum of losses), validation_drops, overruns, truncated, threads,
    cpu_ns, wall_ns, write_error (str or None). Kept as the file's 'A' block too."""

def name_threads(names: Sequence[Tuple[int, str]]) -> None:
    """Names by OS thread id (`threading.Thread.native_id`), as the program knows them. Callable from any thread."""

def read(data: Any) -> Dict[str, Any]:
    """Reads a whole .spprof file (bytes-like). ValueError if it is not one. Keys of the result:
    header, account, end: bytes of JSON (the last two may be None); threads: list of bytes of JSON; warning: None or why reading ended early;
    strings: list of str; code_name, code_qualname, code_file, code_line: bytes of uint32; frame_code: uint32; frame_line, frame_end_line
    (0 none), frame_col, frame_end_col (-1 none): int32; node_parent, node_frame: uint32 (entry 0 is the root: 0, 0);
    thread, stack, count (ticks, >= 1): uint32; time_ns, weight_ns: int64; flags: uint8; code_kind (0 Python, 1 native): uint8; label (string id of a JSON object, + 1; 0 none): uint32. Native byte order, one entry each."""

def native_functions() -> Dict[int, int]:
    """Native functions sampled so far: address in memory at which each begins -> its code id in the file. {} without native frames."""

def function_address(callable: Any) -> int:
    """The address of the C function behind a built-in function, a method descriptor or a slot wrapper; 0 of anything else."""

def name_native(text: bytes) -> None:
    """The block N that is written at the stop (docs/file-format.md)."""

def collection(phase: str, info: Dict[str, int]) -> None:
    """A callback for `gc.callbacks`: notes each garbage collection while a profile is taken."""

class LabelSet:
    """A set of labels, and the same as a JSON object; its memory is given back when no sample needs it any more."""

    labels: Dict[str, str]
    def __init__(self, labels: Dict[str, str], text: bytes) -> None: ...

def label_rules(variable: Any) -> Type[LabelSet]:
    """The ContextVar that holds the current set of labels; gives the type of sets. RuntimeError in a second interpreter."""

def label_node(array: bool) -> None:
    """Learns a type of CPython's from the context's uppermost node. RuntimeError if there is none."""

def label_found(set: Optional[LabelSet]) -> bool:
    """Whether the core finds this set, or none, in the current context."""

def label_use(used: bool) -> None:
    """Whether samples carry labels from now on."""

def handler_cycles() -> List[int]:
    """TSC cycles of recent handler runs (a ring; for bench/). Empty where there is no cycle counter."""
