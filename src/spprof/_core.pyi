"""The C core. Everything here is private; `spprof` is the public interface."""

from typing import Any, Dict, List, Literal, Optional, Sequence, Tuple, Type, Union

layout_error: Optional[str]
"""Why this interpreter's frames cannot be read (then `start` refuses), or None."""
LOSSES: Dict[str, str]
"""Key of each reason for which a tick gives no sample -> its title for people."""
NATIVE: bool
"""Whether native frames can be sampled here."""
REASONS: Tuple[str, ...]
"""Why a thread waits, in the order of the column `reason`."""
COLUMNS: Tuple[Tuple[str, str, str], ...]
"""The columns of a file's samples in its order: name ('': not in the result of `read`), table, type of a value as in `array`."""
LIMITS: Dict[str, Tuple[int, int]]
"""Options that are numbers -> the least and the most that `start` takes: interval_ns, max_depth."""
WORDS: Tuple[str, ...]
"""The names of the options that `start` takes, in its order."""
CLOCKS: Dict[str, str]
"""Name of each clock that this system has -> one line about it."""

class WriteError(OSError):
    """The output takes no data."""

def choose_events(events: str) -> None:
    """Whether start could sample these: NAME or NAME=PERIOD, with commas between. ValueError; OSError, its `filename` says what was
    refused."""

def list_events() -> List[Tuple[str, str, int, str, bool, int, str]]:
    """Each event: name, unit, shortest period by itself (0: the interval says it), what is counted, whether not what arises in the
    kernel, and why it cannot be sampled here: errno (0: it can) and what was refused."""

def choose_clock(clock: str) -> str:
    """The clock that `start` would use when asked for `clock` ('auto' or a name of CLOCKS).

    Raises ValueError for a name that does not exist, OSError if the kernel refuses it."""

class Output:
    """An open file of our own. When nobody has it any more it is closed, unless the program did that, and removed if it was made for
    a start that failed."""

    def keep(self) -> None:
        """From now on a file that was made for it stays."""

    def close(self) -> None: ...
    def fileno(self) -> int: ...
    def leave(self) -> None:
        """Of an output that does not answer: closes it if that cannot wait; else it stays open."""

    def is_open(self) -> bool:
        """Whether the descriptor is still that of the profile: a program may close all that it finds, as daemons do."""

    def is_at(self, path: str) -> bool:
        """Whether the path names this file."""

def open_output(path: str, flags: int, named: bool) -> Output:
    """By os.open, so that no exception can come between the opening and the object. `named`: a file that profiles are written to; what
    is there is opened, else it is made, and no other process may do so until the profile is done. BlockingIOError: another has it."""

def copy_output(fd: int) -> Output: ...
def start(session: Tuple[Output, Optional[str]], output: Output, words: Tuple[str, ...]) -> bool:
    """Writes the magic and the header block (docs/file-format.md) to a copy of output's descriptor, and starts sampling every thread;
    in mode `wall` also while it is off the CPU. `words`: those of WORDS (`Options.words`). `clock` is as choose_clock takes it,
    `events` as choose_events. `native`: "" no native frames, "leaf" those below the last Python frame, "yes" all, "full" CPython's own
    functions too. `calls`: "", or what is counted exactly: "python" calls of Python functions, "c" those of functions in C too, "hot"
    those of the hottest functions only. `times`: "", or patterns MODULE:QUALNAME of functions whose calls are timed, separated by
    commas, and perhaps "cpu" before them; `lines`: such patterns of functions whose lines are counted. `exceptions`: "yes", if they
    are counted; `imports`: "yes", if they are timed; `specialization`: "yes", if it is read at the stop. `session` (the output, its
    path) is kept until the stop. False: there is a run already, or this thread is just starting or stopping one. RuntimeError if the
    layout is unproven, WriteError, another OSError whose `filename` says what was refused; then nothing has changed."""

def record(options: str, folder: str, preload: str) -> Optional[str]:
    """Begins the recorder of `spprof run` (options: src/spprof/launching/recorder.py; folder: that of the sitecustomize that calls this;
    preload: the object by which it was preloaded, or "").
    What goes wrong it says on stderr, and the program goes on. The options of child processes, or None if they are not profiled."""

def fork_unseen() -> Optional[int]:
    """A fork that wait() does not see, in a process that gets orphans from the kernel; None: this one gets none, and os.fork will do."""

def arguments() -> List[str]:
    """The command line as the interpreter got it."""

def name_all() -> None:
    """Before the stop: names threads as `threading` does, if the program has imported it, and native functions as Python does."""

def stop(session: Any) -> Union[Tuple[bool, Optional[str]], Literal[False]]:
    """Disarms everything, writes what is left and the end block, and takes back what start changed. Whether the output takes nothing,
    and what is left is with a thread that waits for it; and why not all could be written, or None. False: this is not the session of
    a run, or this thread is just stopping it."""

def session() -> Optional[Tuple[Output, Optional[str]]]:
    """What start was given, or what `record` made, in the interpreter that called it, while there is a run; else None."""

def forget() -> Optional[Tuple[Output, Optional[str]]]:
    """In a forked child: takes back what the parent's start changed, and gives its session."""

def pause() -> None: ...
def resume() -> None: ...
def rest() -> None:
    """Before a fork in a program of one thread: the core's threads end, for Python (3.12 and later) warns where the kernel counts
    more than one. Samples are taken all the same."""

def wake() -> None:
    """After it, in the parent: they go on."""

def flush() -> None:
    """Waits until all samples that were taken before the call are in the file. WriteError if one could not be written."""

def active() -> bool:
    """True between start and stop (also while paused); False in a forked child."""

def paused() -> bool: ...
def stats() -> Dict[str, Any]:
    """The tick stats so far (of the last run, when stopped; {} before the first): clock str, expected, taken, repeated ints, losses
    dict of int keyed as LOSSES, captured (= taken), dropped (sum of losses), validation_drops, overruns, truncated, threads,
    calls_interrupted, signals_not_ignored, confined, tasks_unknown, cpu_ns, wall_ns, paused_cpu_ns, paused_ns,
    first_thread_ready_ns, children_cpu_ns, write_error (str or None). Kept as the file's 'A' block too."""

def now_ns() -> int:
    """The monotonic clock of samples, whatever the program did to the module `time`."""

def unix_ns() -> int:
    """Nanoseconds since 1970 (UTC), likewise."""

def name_threads(names: Sequence[Tuple[int, str]]) -> None:
    """Names by OS thread id (`threading.Thread.native_id`), as the program knows them. Callable from any thread."""

def read(data: Any) -> Dict[str, Any]:
    """Reads a whole .spprof file (bytes-like). ValueError if it is not one. Keys of the result:
    header, tick_stats, end: bytes of JSON (the last two may be None); threads: list of bytes of JSON; warning: None or why reading ended early;
    strings: list of str; and each column of COLUMNS that has a name: bytes of its type, native byte order. What values mean is in
    docs/file-format.md, but lines of frames are lines (0 none), columns are columns (-1 none), node_parent and node_frame are ids (entry 0 is the
    root: 0, 0), time_ns and weight are nanoseconds, and count is ticks (>= 1)."""

def native_functions() -> Dict[int, int]:
    """Native functions sampled so far: address in memory at which each begins -> its code id in the file. {} without native frames."""

def function_address(callable: Any) -> int:
    """The address of the C function behind a built-in function, a method descriptor or a slot wrapper; 0 of anything else."""

def functions(wanted: Dict[int, int]) -> Dict[int, str]:
    """Of what native_functions gives: code id -> the name that the function has in Python, if it has one alone."""

def time_calls(code: Any) -> None:
    """Times the calls of a code object whenever there is a run, as long as it lives; nothing before 3.12. RuntimeError: not in the
    run that there is, because all ids of sys.monitoring that it may have are taken."""

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

def request(set: LabelSet, began_ns: int, ended_ns: int) -> None:
    """Notes a request that is over, while a profile is taken. Times are of `now_ns`."""

def handler_cycles() -> List[int]:
    """TSC cycles of recent handler runs (a ring; for bench/). Empty where there is no cycle counter."""
