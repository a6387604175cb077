"""What a case's profile may hold, from its source text alone: every frame is a function of its file at one of its own
lines, and every call from a line of a case is to something that this line names.

A line names its callees in its text, or in a comment `# -> NAME NAME` where the call is implicit (callbacks, generators,
the functions that another file calls). Code made at run time has its text from the case's `source(file)`."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "integration")]
from switches import switch  # noqa: E402
from truth import lines_of  # noqa: E402

DRIVER = str(HERE / "driver.py")
IMPLICIT = {"<listcomp>": " for ", "<setcomp>": " for ", "<dictcomp>": " for ", "<genexpr>": " for ", "<lambda>": "lambda"}
# What threading, random and logging have Python call around a fork.
IMPLICIT.update(dict.fromkeys(("_after_fork", "seed", "_acquireLock", "_releaseLock"), "fork"))
IMPLICIT["_after_at_fork_child_reinit_locks"] = "fork"
# Finalisers and callbacks of weak references run at any instant.
ANYWHERE = {"__del__", "_remove", "remove", "_removed", "_on_completion", "_discard"}
UNREADABLE = "<unreadable>"
NO_PYTHON = "[no Python frames]"
MOST_FILES = 20000  # whose texts are kept


class Oracle:
    def __init__(self, case):
        """`case`: the case's module."""
        self.case = case
        self.files = {}
        self.edges = {}
        self.faults = switch("TORTURE_FAULTS")  # a build in which reads fail: names may be lost, but not wrong
        self.near = getattr(case, "LINES_ARE_NEAR", False)
        self.traced = getattr(case, "TRACED", False)
        self.roots = getattr(case, "ROOTS", set()) | {"_bootstrap"}
        self.anywhere = ANYWHERE | getattr(case, "ANYWHERE", set())

    def _file(self, file):
        """(lines of the text, name -> lines of its code) of a file; (None, None) if its text is missing."""
        if file not in self.files:
            if len(self.files) == MOST_FILES:
                self.files.clear()
            text = self.case.source(file) if hasattr(self.case, "source") else None
            try:
                if text is None:
                    text = Path(file).read_text()
                self.files[file] = (text.split("\n"), lines_of(compile(text, file, "exec", dont_inherit=True)))
            except (OSError, UnicodeDecodeError):
                self.files[file] = (None, None)
        return self.files[file]

    def wrong(self, frames, main):
        """What is impossible in a stack (root first), or None."""
        root = frames[0]
        if root.name == NO_PYTHON:
            return None
        if self.faults and UNREADABLE in (root.name, root.file):
            return None
        at_exit = root.name in self.roots or root.name == "_at_exit"  # atexit's callbacks have no caller
        # A subinterpreter's stack ends where that interpreter was entered, a greenlet's where it began.
        apart = getattr(self.case, "APART", False)
        if main and (root.file, root.name) != (DRIVER, "<module>") and not at_exit and not apart:
            return f"the main thread's root is {root.qualname} ({root.file}:{root.line})"
        if not main and root.name not in self.roots and not apart:
            return f"a thread's root is {root.qualname} ({root.file}:{root.line})"
        for i, frame in enumerate(frames):
            below = frames[i + 1].name if i + 1 < len(frames) else None
            problem = self._place(frame, below is None or below in self.anywhere)
            if problem is None and i:
                problem = self._edge(frames[i - 1], frame)
            if problem:
                return problem
        return None

    def _place(self, frame, may_begin):
        if self.faults and (UNREADABLE in (frame.name, frame.qualname, frame.file) or frame.line == 0):
            return None
        if not frame.name or not frame.file or frame.line < 0:
            return f"a frame without a name: {frame}"
        text, lines = self._file(frame.file)
        if lines is None:
            return (
                None
                if frame.file.startswith(("<frozen", "<string>", "<script>")) or frame.file.endswith(".py")
                else f"unknown file {frame.file}"
            )
        names = [name for name in lines if name == frame.qualname or name.rpartition(".")[2] == frame.qualname]
        if not names:
            return f"{frame.file} has no function {frame.qualname}"
        # About to execute its first instruction, a frame is at its `def`, a module at line 1, or nowhere yet; tracers and
        # signal handlers are called from there.
        at_first = frame.line == 0 or (frame.qualname == "<module>" and frame.line == 1)
        if (may_begin or self.traced) and (
            at_first or re.search(r"\b(def|class|lambda)\b|@", text[frame.line - 1] if text else "")
        ):
            return None
        if not any(frame.line in lines[name] for name in names) and not self.near:
            return f"{frame.qualname} ({frame.file}) has no line {frame.line}"
        return None

    def _edge(self, a, b):
        if (
            b.name in self.anywhere
            or (self.faults and (a.line == 0 or UNREADABLE in (a.name, a.file, b.name, b.file)))
            or not self._is_case(a.file)
        ):
            return None
        key = a.file, a.line, b.name, b.file
        if key not in self.edges:
            text = self._file(a.file)[0]
            line = text[a.line - 1] if text and 0 < a.line <= len(text) else ""
            code, _, comment = line.partition("# ->")
            number = re.search(r"(\d+)>$", b.file)  # `{n}`: the number in the callee's file, <torture KIND n>
            named = set(comment.replace("{n}", number.group(1) if number else "").split())
            ok = self.near or b.name in named or re.search(rf"\b{re.escape(b.name)}\b", code) is not None
            ok = ok or (b.name in IMPLICIT and IMPLICIT[b.name] in code)
            # A class is called by its name, other special methods by none; a line may say that it calls anything.
            owner = b.qualname.split(".")[0]
            ok = ok or (b.name == "__init__" and re.search(rf"\b{re.escape(owner)}\b", code) is not None)
            if not self._is_case(b.file):
                ok = ok or "*" in named or "import" in code or re.search(rf"\b{re.escape(owner)}\b", code) is not None
                ok = ok or (b.name.startswith("__") and b.name.endswith("__"))
            self.edges[key] = ok
        if self.edges[key]:
            return None
        return f"{a.qualname}:{a.line} called {b.qualname} ({Path(b.file).name}:{b.line}), which its line does not name"

    def _is_case(self, file):
        return file.startswith((str(HERE / "cases"), "<torture"))
