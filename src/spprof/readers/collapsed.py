"""Collapsed stacks, `root;...;leaf NUMBER`, as flamegraph.pl takes them: of py-spy (`-f raw`), perf's stackcollapse scripts, ...

`name (file:line)` and `name [library]` are taken apart, and what our own writer escapes (`%3B`) is itself again. The number
counts samples, as nearly always; files do not say. Where the first frame of every stack names a thread, it becomes one; py-spy's
processes stay frames.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import unquote

from ._columns import MAX_NUMBER, Columns

_LINE_END = re.compile("\r\n|\n|\r")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_ESCAPED = re.compile("(?:%(?:[01][0-9A-F]|23|25|3B|7F|C2%[89][0-9A-F]|E2%80%A[89A-E]|E2%81%A[6-9]))+")
_PLACED = re.compile(r"(.+?) \((.+?)(?::(\d{1,9}))?\)", re.DOTALL)
_LINED = re.compile(r":\d{1,9}\)\Z")
_SIGNS = re.compile(r"[<(\[*&~]")
_ANNOTATED = re.compile(r"_\[[a-z]\]\Z")  # by perf's script: `read_[k]` of the kernel, `_[j]`, `_[i]`
# Of CPython's own profiler (3.15, `profiling.sampling`): `tid:4711` begins each stack, and a frame is `file:function:line`.
_TID = re.compile(r"tid:(\d{1,18})")
_TACHYON = re.compile(r"(.+):(.+):(\d{1,9})", re.DOTALL)
_THREAD = re.compile(r"thread \((0x[0-9A-Fa-f]{1,16}|\d{1,18})\)(?:: (.*))?", re.DOTALL)
# py-spy's, with the command line as it is, whatever that has in it. Without a thread the last quote ends it.
_PROCESS = re.compile(r'(process \d+:".*?");(?=thread \()|(process \d+:".*")(?:;|\Z)', re.DOTALL)
_NEXT_PROCESS = re.compile(r'(?<=");(?=process \d+:")')


class _Stack(NamedTuple):
    line: int
    processes: Tuple[str, ...]
    texts: List[str]
    samples: int


def read(text: str) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    columns = Columns("collapsed", "samples")
    stacks = [_stack(*line) for line in counted_lines(text)]
    if stacks and all(stack.texts and _TID.fullmatch(stack.texts[0]) for stack in stacks):
        _tachyon(columns, stacks)
        return columns.result()
    threads = _names_threads(stacks)
    _check_places(stacks, threads)
    ids: Dict[str, int] = {}
    for stack in stacks:
        texts = stack.texts[threads:]
        thread = _thread(columns, stack) if threads else columns.thread("all threads")
        for one in texts:
            if one not in ids:
                ids[one] = _frame(columns, plain(one))
        frames = [*map(columns.frame, stack.processes), *(ids[one] for one in texts)]
        columns.sample(thread, columns.stack(frames), stack.samples, stack.samples)
    return columns.result()


def _tachyon(columns: Columns, stacks: List[_Stack]) -> None:
    ids: Dict[str, int] = {}
    for stack in stacks:
        for one in stack.texts[1:]:
            if one not in ids:
                match = _TACHYON.fullmatch(one)
                ids[one] = columns.frame(match[2], match[1], int(match[3])) if match else columns.frame(one)
        thread = columns.thread("", int(stack.texts[0].partition(":")[2]))
        columns.sample(thread, columns.stack([ids[one] for one in stack.texts[1:]]), stack.samples, stack.samples)


def data_lines(text: str) -> List[Tuple[int, str]]:
    """Each line that is neither blank nor a comment, without its end, and its number. `#` begins a comment, but not the name of a
    root like Ruby's `#<Class>`."""
    lines = []
    for number, line in enumerate(_LINE_END.split(text), 1):
        line = line.rstrip(" \t")
        if line.strip() and not (line.startswith("#") and (line[1:2] in " \t!#" or ";" not in line)):
            lines.append((number, line))
    return lines


def counted_lines(text: str) -> List[Tuple[int, str, int]]:
    """Number, stack and count of each line. Raises ValueError for what is none."""
    marked = []
    for line, stack in data_lines(text):
        parts = _parted(stack)
        if parts is None:
            raise ValueError(f"line {line} is not 'stack NUMBER'")
        marked.append((line, parts[0], _count(line, parts[1])))
    if marked and all(_parted(stack) for _, stack, _ in marked):
        raise ValueError(
            f"line {marked[0][0]}, as all others, ends with two numbers, as a comparison's (before, after): keep one of them, "
            "for the second `sed -E 's/ [0-9.]+ ([0-9.]+)$/ \\1/'`"
        )
    return marked


def _parted(line: str) -> Optional[Tuple[str, str]]:
    """The stack and the number that follows it; None if none does."""
    at = max(line.rfind(" "), line.rfind("\t"))
    number = line[at + 1 :]
    return (line[:at].rstrip(" \t"), number) if at >= 0 and _NUMBER.fullmatch(number) else None


def _count(line: int, text: str) -> int:
    number = Decimal(text)
    if number < 0:
        raise ValueError(f"line {line} has {text:.40}: a number of samples is not negative (is it a difference of two profiles?)")
    if number > MAX_NUMBER:
        raise ValueError(f"line {line} has {text:.40}, which is more than 62 bits hold")
    if number != int(number):
        raise ValueError(f"line {line} has {text:.40}: samples are whole numbers; multiply all by 1000, say")
    return int(number)


def _stack(line: int, text: str, count: int) -> _Stack:
    match = _PROCESS.match(text) if text.startswith("process ") else None
    processes: Tuple[str, ...] = ()
    if match:
        processes = tuple(_NEXT_PROCESS.split(match[1] or match[2]))
        text = text[match.end() :]
    return _Stack(line, processes, text.split(";") if text else [], count)  # py-spy writes empty stacks too


def _names_threads(stacks: List[_Stack]) -> bool:
    """Whether each stack begins with a thread: py-spy's with its id, ours (and others') with a name that has no place, where all
    that follow it have one. Raises ValueError if some begin with py-spy's process or thread, and some do not."""
    firsts = [stack.texts[0] if stack.texts else "" for stack in stacks]
    for what, marked in (
        ("a process", [bool(stack.processes) for stack in stacks]),
        ("a thread", [_THREAD.fullmatch(first) is not None for first in firsts]),
    ):
        if any(marked) and not all(marked):
            raise ValueError(
                f"line {stacks[marked.index(False)].line} does not begin with {what} "
                f"as line {stacks[marked.index(True)].line} does: "
                "the line before may have ended within a name, or two files are one"
            )
    if stacks and all(map(_THREAD.fullmatch, firsts)):
        for stack in stacks:
            _join_name(stack.texts)
        return True
    seconds = {stack.texts[1] if len(stack.texts) > 1 else "" for stack in stacks}
    return not any(map(_is_placed, set(firsts))) and all(map(_is_placed, seconds))


def _join_name(texts: List[str]) -> None:
    """A `;` in a thread's name: what is between the thread and the first frame with a place, which all of py-spy's have."""
    placed = next((number for number, text in enumerate(texts) if number and _is_placed(text)), 1)
    texts[:placed] = [";".join(texts[:placed])]


def _check_places(stacks: List[_Stack], threads: bool) -> None:
    """In a file that begins with a stack of py-spy's, where every frame has a place, prose is no function: a name that was read
    wrongly contains a line end or a `;`. Raises ValueError."""
    frames = stacks[0].texts[threads:] if stacks else []
    if not frames or not all(" (" in frame and _LINED.search(frame, max(0, len(frame) - 12)) for frame in frames):
        return
    known: Dict[str, bool] = {}
    for stack in stacks:
        for text in stack.texts[threads:]:
            if text not in known:
                known[text] = _is_prose(text)
            if known[text]:
                raise ValueError(
                    f"line {stack.line}: {text!r:.60} is no function with a place, as the others are; a name may have had a line "
                    "end or a `;` in it. Leave the line out"
                )


def _is_prose(text: str) -> bool:
    """What no function is called, of C++ either."""
    return " " in text and not (_is_placed(text) or text.startswith("operator") or _SIGNS.search(text))


def _is_placed(text: str) -> bool:
    if text.endswith("]"):
        return _ANNOTATED.search(text, max(0, len(text) - 4)) is None
    return _placed(plain(text)) is not None


def _placed(text: str) -> Optional[re.Match[str]]:
    return _PLACED.fullmatch(text) if text.endswith(")") else None


def plain(text: str) -> str:
    """Text without our writer's escapes."""
    return _ESCAPED.sub(lambda match: unquote(match[0]), text)


def _thread(columns: Columns, stack: _Stack) -> int:
    text = stack.texts[0]
    match = _THREAD.fullmatch(text)
    if match:
        return columns.thread(match[2] or "", int(match[1], 0), stack.processes)
    return columns.thread(plain(text), 0, stack.processes)


def _frame(columns: Columns, text: str) -> int:
    native = columns.titled(text)
    if native is not None:
        return native
    match = _placed(text)
    return columns.frame(match[1], match[2], int(match[3] or 0)) if match else columns.frame(text)
