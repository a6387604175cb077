"""Exact counts of calls: a row for each function and each line that calls it (`spprof run --calls`, docs/counts.md)."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, TypeVar

Key = TypeVar("Key")


class Function(NamedTuple):
    """A function that calls or is called. `line` is its first line. One in C (`native`) has the module or type in its `qualname`
    (`builtins.len`, `list.append`), no file and line 0."""

    name: str
    qualname: str
    file: str
    line: int
    native: bool = False


class Call(NamedTuple):
    """How often one line called one function. `calls`: the body began; `resumes`: a generator or coroutine went on. `caller`:
    None if no Python code called it (the first function of a thread)."""

    function: Function
    caller: Optional[Function]
    line: int
    calls: int
    resumes: int


class Calls(NamedTuple):
    """All that was counted. `uncounted`: calls that did not fit into the table; `threads_taken`: before Python 3.12, how often
    calls were not counted because the program set a profile function (of functions in C) or an evaluator of frames of its own, or
    because the stack was nearly full."""

    rows: List[Call]
    uncounted: int = 0
    threads_taken: int = 0

    def functions(self) -> Dict[Function, Tuple[int, int]]:
        """Calls and resumes of each function."""
        return summed(self.rows, lambda call: call.function)

    def as_json(self) -> List[Dict[str, Any]]:
        """A row each, with what is known of its functions: of formats that have fields of their own."""
        return [
            {
                **_about(call.function),
                "caller": _about(call.caller) if call.caller is not None else None,
                "line": call.line,
                "calls": call.calls,
                "resumes": call.resumes,
            }
            for call in self.rows
        ]

    @property
    def missing(self) -> str:
        """What was not counted, in words; '' if all was."""
        words = [f"{self.uncounted:,} calls of functions or lines for which there was no space"] if self.uncounted else []
        if self.threads_taken:
            times = "once" if self.threads_taken == 1 else f"{self.threads_taken} times"
            words.append(
                f"calls where the program had a profile function or evaluator of its own, or a nearly full stack ({times})"
            )
        return "; ".join(words)


def _about(function: Function) -> Dict[str, Any]:
    about: Dict[str, Any] = {"name": function.qualname}
    if function.name != function.qualname:
        about["short_name"] = function.name
    return {**about, "native": True} if function.native else {**about, "file": function.file, "first_line": function.line}


def summed(rows: Iterable[Call], key_of: Callable[[Call], Key]) -> Dict[Key, Tuple[int, int]]:
    """Calls and resumes by key."""
    result: Dict[Key, Tuple[int, int]] = {}
    for call in rows:
        key = key_of(call)
        calls, resumes = result.get(key, (0, 0))
        result[key] = calls + call.calls, resumes + call.resumes
    return result


def together(parts: Iterable[Calls]) -> Calls:
    """The counts of several processes."""
    each = list(parts)
    sums = summed((call for part in each for call in part.rows), lambda call: call[:3])
    rows = [Call(*key, *counts) for key, counts in sums.items()]
    return Calls(rows, sum(part.uncounted for part in each), sum(part.threads_taken for part in each))
